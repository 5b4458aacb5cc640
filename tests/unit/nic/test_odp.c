/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/nic_rig.c tests/rig/fakes/fake_nic.c tests/rig/fakes/fake_nic_wr.c tests/rig/unit/rig.c tests/rig/fakes/fake_ffmem.c */
/* test_odp.c - on-demand MRs at a NIC that pages on demand: by pages of ffmem, for which there is a stand-in. */
#include "tests/rig/unit/nic_rig.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ffr/mem/view.h"
#include "ffr/obj/quota.h"
#include "ffr/soft/soft.h"
#include "tests/rig/fakes/fake_ffmem.h"

#define SIZE (512 * (uint64_t)FF_PAGE)

/* Where nothing is, and nothing comes by itself, nor with sanitizers. */
#define FREE ((uint8_t *)0x200000000000)

#define NIC_RC (IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ)

static int setup(void **state)
{
	static struct nic_rig n;

	fake_nic_reset();
	fake_nic.odp.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
	fake_nic.odp.per_transport_caps.rc_odp_caps = NIC_RC;
	nic_rig_open_rts(&n, IBV_QPT_RC);
	fake_ffmem_start(SIZE);
	if (view_use(fake_ffmem.fd))
		return -1;
	view_session_add(&n.s->s, 0, 0);
	*state = &n;
	return 0;
}

static int teardown(void **state)
{
	struct nic_rig *n = *state;

	view_session_del(&n->s->s);
	assert_int_equal(n->r.cont[0].quota.use.shares[SHARE_VIEW], 0);
	assert_int_equal(n->r.cont[0].quota.use.shares[SHARE_PAGED], 0);
	assert_int_equal(fake_ffmem.objects + fake_ffmem.processes, 0);
	view_fini();
	munmap(fake_ffmem.app, SIZE);
	nic_rig_close(n);
	return 0;
}

/* An MR as ctl/mr.c maps one, and made: its name is the rig's. */
struct made {
	struct mr *mr;
	uint32_t key;
};

static struct made make(struct nic_rig *n, uint64_t off, uint64_t len, uint64_t iova)
{
	struct made m;

	m.mr = rig_mr_pvm(&n->r, n->s, fake_ffmem.app + off, len,
			  NIC_RIG_ACCESS | IBV_ACCESS_ON_DEMAND);
	m.key = m.mr->lkey;
	if (iova)
		m.mr->iova = iova;
	m.mr->odp = odp_new();
	view_map(m.mr);
	assert_int_equal(nic_mr_make(m.mr), 0);
	return m;
}

static void end(struct nic_rig *n, struct made *m)
{
	nic_mr_break(m->mr);
	view_unmap(m->mr);
	odp_put(m->mr->odp);
	m->mr->odp = NULL;
	m->mr->lkey = m->mr->rkey = m->key;
	rig_mr_free(&n->r, m->mr);
}

static struct ff_query_device_resp device(struct nic_rig *n)
{
	struct ff_query_device_resp d = { 0 };

	soft_describe(&d);
	nic_carrier.describe(n->r.f, &d);
	return d;
}

/* What the NIC and the software device both have, if ffmem is there; all of an address space is nobody's. */
static void what_it_can_do(void **state)
{
	struct nic_rig *n = *state;
	struct ff_query_device_resp d = device(n);

	assert_int_equal(d.odp_general, IBV_ODP_SUPPORT);
	assert_int_equal(d.odp_rc, NIC_RC);
	assert_int_equal(d.odp_uc, 0);
	assert_int_not_equal(d.odp_ud, 0); /* what a datagram has is copied */
	n->r.f->host->nic[0].dev->odp.general_caps = 0;
	d = device(n);
	assert_int_equal(d.odp_general | d.odp_rc | d.odp_uc | d.odp_ud | d.odp_xrc, 0);
}

static void without_ffmem(void **state)
{
	struct nic_rig *n = *state;
	struct ff_query_device_resp d;
	struct mr *mr;

	view_session_del(&n->s->s);
	view_fini();
	d = device(n);
	assert_int_equal(d.odp_general | d.odp_rc | d.odp_uc | d.odp_ud | d.odp_xrc, 0);
	mr = rig_mr_pvm(&n->r, n->s, fake_ffmem.app, SIZE, NIC_RIG_ACCESS | IBV_ACCESS_ON_DEMAND);
	mr->odp = odp_new();
	view_map(mr);
	assert_int_equal(nic_mr_make(mr), 0);
	assert_null(mr->backend);
	odp_put(mr->odp);
	mr->odp = NULL;
	rig_mr_free(&n->r, mr);
}

static unsigned mrs_at_unmap;
static void note_mrs(void)
{
	mrs_at_unmap = fake_nic.mrs;
}

/* The NIC's are other pages than the view's, at the application's addresses, and it gives them up first. */
static void pages_are_the_nics(void **state)
{
	struct nic_rig *n = *state;
	unsigned mrs = fake_nic.mrs;
	struct made m = make(n, 100, 4 * FF_PAGE, 0);
	const struct nic_mr *nm = m.mr->backend;
	uint8_t *at = fake_nic.mr.addr;

	assert_non_null(nm);
	assert_int_equal(fake_ffmem.flags, FFMEM_NOWAIT | FFMEM_WRITE | FFMEM_PAGES);
	assert_int_equal(fake_ffmem.objects, 2);
	assert_ptr_equal(at, nm->pages.base + 100);
	assert_ptr_not_equal(at, m.mr->view);
	assert_int_equal(fake_nic.mr.length, 4 * FF_PAGE);
	assert_int_equal(fake_nic.mr.iova, m.mr->iova);
	assert_int_equal(fake_nic.mr.access, NIC_RIG_ACCESS | IBV_ACCESS_ON_DEMAND);
	assert_int_equal(m.mr->lkey, nm->ib->lkey);
	at[0] = 0x77;
	assert_int_equal(fake_ffmem.app[100], 0x77);
	assert_int_equal(m.mr->pages_object, nm->pages.object);
	assert_int_equal(view_stat(m.mr).faults, 10);
	assert_int_equal(mr_pinned(m.mr), 4 * FF_PAGE / 512);
	assert_int_equal(n->r.cont[0].quota.use.shares[SHARE_PAGED], 1);

	fake_ffmem.unmapped = note_mrs;
	nic_mr_break(m.mr);
	assert_int_equal(mrs_at_unmap, mrs);
	assert_int_equal(fake_ffmem.objects, 1);
	assert_int_equal(m.mr->pages_object, 0);
	end(n, &m);
}

static void job_run(struct carrier_later *l, int err)
{
	(void)l;
	(void)err;
	mrs_at_unmap = fake_ffmem.objects;
}

/* A long one is the worker's to give back; its session, which may go before that, has no object of ffmem any more. */
static void a_long_one(void **state)
{
	struct nic_rig *n = *state;
	struct made m = make(n, 0, SIZE, 0);
	struct carrier_later l = { .done = job_run };
	unsigned mrs = fake_nic.mrs;

	fake_ffmem.unmapped = note_mrs;
	assert_true(nic_mr_break_later(m.mr, &l));
	nic_carrier.work(n->r.f, true);
	assert_int_equal(mrs_at_unmap, fake_ffmem.objects);
	assert_int_equal(fake_ffmem.objects, 1);
	assert_int_equal(fake_nic.mrs, mrs - 1);
	end(n, &m);
}

/* Nothing else may come to lie where the NIC may still look. */
static void one_that_cannot_be_deregistered(void **state)
{
	struct nic_rig *n = *state;
	struct made m = make(n, 0, 2 * FF_PAGE, 0);
	void *at = fake_nic.mr.addr;

	fake_nic_fail(FAKE_dereg_mr, 1, EBUSY);
	nic_mr_break(m.mr);
	assert_int_equal(fake_ffmem.objects, 1);
	assert_int_equal(msync(at, 2 * FF_PAGE, MS_ASYNC), 0); /* mapped yet */
	munmap(at, 2 * FF_PAGE);
	end(n, &m);
}

/* The kernel's rxe takes the addresses for those of its pages. */
static void at_home_for_rxe(void **state)
{
	struct nic_rig *n = *state;
	uint8_t *there = FREE;
	unsigned calls = fake_nic.calls[FAKE_reg_mr_iova2];
	const uint64_t bad[] = {
		(uintptr_t)there + 3 * FF_PAGE + 100, /* something is there */
		(uintptr_t)there + 101,		      /* in another place of a page */
		100,				      /* the first page */
		((uintptr_t)__builtin_frame_address(0) & -(uint64_t)FF_PAGE) - (256 << 20) +
			100, /* below the stack */
	};
	struct made m;

	n->r.f->host->nic[0].dev->is_rxe = true;
	assert_ptr_equal(mmap(there + 2 * FF_PAGE, 2 * FF_PAGE, PROT_NONE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 there + 2 * FF_PAGE);
	m = make(n, 100, FF_PAGE, (uintptr_t)there + 100);
	assert_non_null(m.mr->backend);
	assert_ptr_equal(fake_nic.mr.addr, there + 100);
	end(n, &m);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		m = make(n, 100, FF_PAGE, bad[i]);
		assert_null(m.mr->backend);
		assert_int_equal(fake_ffmem.objects, 1);
		end(n, &m);
	}
	assert_int_equal(fake_nic.calls[FAKE_reg_mr_iova2], calls + 1);
	munmap(there + 2 * FF_PAGE, 2 * FF_PAGE);
}

/* The kernel keeps eight bytes for each page of what a NIC pages, touched or not. */
static void how_much(void **state)
{
	struct nic_rig *n = *state;
	struct made m = make(n, 0, FF_PAGE, 0);
	uint32_t held = 0;

	nic_mr_break(m.mr);
	m.mr->length = NIC_PAGED_MAX + 1;
	assert_int_equal(nic_mr_make(m.mr), 0);
	assert_null(m.mr->backend);
	m.mr->length = FF_PAGE;
	while (!quota_share_take(&n->r.cont[0], SHARE_PAGED, 1))
		held++;
	assert_int_equal(nic_mr_make(m.mr), 0);
	assert_null(m.mr->backend);
	quota_share_return(&n->r.cont[0], SHARE_PAGED, held);
	assert_int_equal(nic_mr_make(m.mr), 0);
	assert_non_null(m.mr->backend);
	assert_int_equal(n->r.cont[0].quota.use.shares[SHARE_PAGED], 1);
	end(n, &m);
}

static struct {
	enum ibv_advise_mr_advice advice;
	uint32_t flags, num;
	struct ibv_sge sge;
} advised;

static int advise(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		  struct ibv_sge *sge, uint32_t num)
{
	(void)pd;
	advised.advice = advice;
	advised.flags = flags;
	advised.num += num;
	advised.sge = *sge;
	return EFAULT; /* nobody hears of it */
}

static void advice_is_passed_on(void **state)
{
	struct nic_rig *n = *state;
	struct made m = make(n, 0, 8 * FF_PAGE, 0);
	struct nic_dev *d = n->r.f->host->nic[0].dev;
	struct ff_advise_mr_req req = { .addr = m.mr->iova + 64,
					.length = 5000,
					.flags = IBV_ADVISE_MR_FLAG_FLUSH,
					.advice = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE };

	nic_mr_advise(m.mr, &req); /* it cannot */
	verbs_get_ctx(d->ctx)->advise_mr = advise;
	nic_mr_advise(m.mr, &req);
	assert_int_equal(advised.num, 1);
	assert_int_equal(advised.advice, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE);
	assert_int_equal(advised.flags, 0); /* the control thread does not wait */
	assert_int_equal(advised.sge.addr, m.mr->iova + 64);
	assert_int_equal(advised.sge.length, 5000);
	assert_int_equal(advised.sge.lkey, m.mr->lkey);
	nic_mr_break(m.mr);
	nic_mr_advise(m.mr, &req);
	assert_int_equal(advised.num, 1);
	end(n, &m);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
	return UNIT_RUN(TEST(what_it_can_do), TEST(without_ffmem), TEST(pages_are_the_nics),
			TEST(a_long_one), TEST(one_that_cannot_be_deregistered),
			TEST(at_home_for_rxe), TEST(how_much), TEST(advice_is_passed_on));
}
