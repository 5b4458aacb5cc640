/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/soft_pair.c tests/rig/unit/rig.c tests/rig/fakes/fake_ffmem.c */
/*
 * test_view.c - views of clients' memory (ffr/mem/view.c) and copies by them (ffr/soft/xfer.c), with a stand-in for
 * /dev/ffmem.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/rig/fakes/fake_ffmem.h"
#include "tests/rig/unit/soft_pair.h"
#include "tests/rig/unit/unit.h"
#include "ffr/mem/shadow.h"
#include "ffr/mem/view.h"

#define SIZE ((uint64_t)1 << 20)

struct views {
	struct pair p;
	struct mr *
		mr[2]; /* of the application's memory, by a view; reached through the process else */
};

static struct mr *viewed(struct rig *r, struct rig_ses *s, uint64_t off, uint64_t len,
			 uint32_t access)
{
	struct mr *mr = rig_mr_pvm(r, s, fake_ffmem.app + off, len, access);

	view_map(mr);
	return mr;
}

static void gone(struct rig *r, struct mr *mr)
{
	view_unmap(mr);
	rig_mr_free(r, mr);
}

static int setup(void **state)
{
	struct views *v = calloc(1, sizeof(*v));

	*state = v;
	fake_ffmem_start(2 * SIZE);
	if (view_use(fake_ffmem.fd))
		return -1;
	pair_up(&v->p, IBV_QPT_RC, 0, 1);
	for (int i = 0; i < 2; i++) {
		view_session_add(&v->p.s[i]->s, 0, 0);
		v->mr[i] = viewed(&v->p.r, v->p.s[i], (uint64_t)i * SIZE + 100, SIZE - 200,
				  PAIR_ACCESS);
		if (!v->mr[i]->view)
			return -1;
	}
	for (uint64_t i = 0; i < SIZE; i++)
		fake_ffmem.app[i] = (uint8_t)(i * 7 + (i >> 10));
	return 0;
}

static int teardown(void **state)
{
	struct views *v = *state;

	for (int i = 0; i < 2; i++) {
		gone(&v->p.r, v->mr[i]);
		assert_int_equal(v->p.r.cont[i].quota.use.shares[SHARE_VIEW], 0);
		view_session_del(&v->p.s[i]->s);
	}
	pair_down(&v->p);
	assert_int_equal(fake_ffmem.objects + fake_ffmem.processes, 0);
	view_fini();
	munmap(fake_ffmem.app, 2 * SIZE);
	free(v);
	return 0;
}

static void of_another_version(void **state)
{
	(void)state;
	fake_ffmem.fd = memfd_create("ffmem", MFD_CLOEXEC);
	fake_ffmem.version = FFMEM_VERSION + 1;
	assert_int_equal(view_use(fake_ffmem.fd), -EPROTO);
	fake_ffmem.fd = -1;
	view_session_add(&(struct session){ 0 }, 0,
			 0); /* nothing is asked of a module that is not used */
}

static void what_has_a_view(void **state)
{
	struct views *v = *state;
	struct session *s = &v->p.s[0]->s;
	struct mr *mr;

	assert_int_equal(fake_ffmem.flags, FFMEM_NOWAIT | FFMEM_WRITE);
	assert_int_equal(fake_ffmem.address, (uintptr_t)fake_ffmem.app + SIZE + 100);
	assert_int_equal(fake_ffmem.length, SIZE - 200);
	assert_int_equal(view_stat(v->mr[0]).faults, 5);
	/* what is only read is not to be written */
	mr = viewed(&v->p.r, v->p.s[0], 0, 1, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(fake_ffmem.flags, FFMEM_NOWAIT);
	assert_ptr_equal(view_at(mr, mr->addr), mr->view);
	gone(&v->p.r, mr);
	/* an address space */
	mr = viewed(&v->p.r, v->p.s[0], 0, UINT64_MAX, PAIR_ACCESS);
	assert_null(mr->view);
	assert_int_equal(view_stat(mr).faults, 0);
	gone(&v->p.r, mr);
	/* memory that runs reach, all of it */
	mr = rig_mr_pvm(&v->p.r, v->p.s[0], fake_ffmem.app, 4096, PAIR_ACCESS);
	mr->zero_copy = mr->length;
	view_map(mr);
	assert_null(mr->view);
	gone(&v->p.r, mr);
	/* no more objects: nothing is held */
	fake_ffmem.refuse = ENOSPC;
	mr = viewed(&v->p.r, v->p.s[0], 0, 4096, PAIR_ACCESS);
	assert_null(mr->view);
	assert_int_equal(s->cont->quota.use.shares[SHARE_VIEW], 1);
	gone(&v->p.r, mr);
}

static uint64_t by_views(const struct views *v)
{
	return stats_of_session(&v->p.s[0]->s).view_bytes +
	       stats_of_session(&v->p.s[1]->s).view_bytes;
}

static uint64_t by_process(const struct views *v)
{
	return stats_of_session(&v->p.s[0]->s).pvm_bytes +
	       stats_of_session(&v->p.s[1]->s).pvm_bytes;
}

/* From byte `from` of the first MR to `to` of the other, or from there by a READ. */
static void move(struct views *v, uint8_t op, uint64_t from, uint64_t to, uint32_t len)
{
	struct ff_sqe *e = rig_sqe(v->p.qp[0], op, 1);

	rig_sge(e, v->mr[0], v->mr[0]->addr + from, len);
	e->remote_addr = v->mr[1]->addr + to;
	e->rkey = v->mr[1]->rkey;
	rig_post(&v->p.r, v->p.qp[0]);
	rig_run(&v->p.r);
	pair_expect(v->p.cq[0], 1, IBV_WC_SUCCESS);
	assert_memory_equal(fake_ffmem.app + 100 + from, fake_ffmem.app + SIZE + 100 + to, len);
}

static void copies(void **state)
{
	struct views *v = *state;

	move(v, FF_OP_WRITE, 3, 1, 300001);
	assert_int_equal(by_views(v), 2 * 300001);
	memset(fake_ffmem.app + SIZE + 100, 9, 5000);
	move(v, FF_OP_READ, 3, 1, 4099);
	assert_int_equal(fake_ffmem.app[103], 9);
	assert_int_equal(by_views(v), 2 * 304100);
	assert_int_equal(by_process(v), 0);
}

/* A page that the view does not show, at one end or the other or both: those bytes go through the process. */
static void holes(void **state)
{
	struct views *v = *state;

	assert_int_equal(sigbus_install(),
			 0); /* here: cmocka has handlers of its own for each test */
	for (int where = 1; where < 4; where++) {
		uint64_t before = by_views(v);

		for (int i = 0; i < 2; i++)
			if (where & 1 << i)
				assert_int_equal(mprotect(v->mr[i]->view - 100 + (2 + i) * FF_PAGE,
							  FF_PAGE, PROT_NONE),
						 0);
		memset(fake_ffmem.app + SIZE, where, SIZE);
		move(v, FF_OP_WRITE, 0, 8, 200000);
		memset(fake_ffmem.app + SIZE, where, SIZE);
		move(v, FF_OP_READ, 0, 8, 200000);
		assert_true(by_process(v) > 0);
		assert_true(by_views(v) > before);
		for (int i = 0; i < 2; i++)
			assert_int_equal(mprotect(v->mr[i]->view - 100 + (2 + i) * FF_PAGE, FF_PAGE,
						  PROT_READ | PROT_WRITE),
					 0);
	}
}

/* What is read ahead for a socket is there at once, unless the view lacks a page of it. */
static void read_ahead(void **state)
{
	struct views *v = *state;
	struct qp *qp = &v->p.qp[0]->qp;
	struct fast *f = v->p.r.f;
	struct ff_sge sge = { v->mr[0]->addr, 200000, v->mr[0]->lkey };
	struct side src = {
		.sge = &sge, .num_sge = 1, .keys = &qp->o.ses->cont->keys, .pd = qp->pd
	};
	struct xfer x = { .qp = qp };
	enum ff_vendor_err why;

	assert_int_equal(sigbus_install(), 0);
	assert_int_equal(xfer_get(f, &x, &src, 5, 100000, &why), XFER_DONE);
	assert_int_equal(x.buf_len, PVM_MAX);
	assert_memory_equal(x.call->buf, fake_ffmem.app + 105, PVM_MAX);
	assert_false(xfer_is_busy(&x));
	xfer_reset(f, &x);
	assert_int_equal(mprotect(v->mr[0]->view - 100 + FF_PAGE, FF_PAGE, PROT_NONE), 0);
	assert_int_equal(xfer_get(f, &x, &src, 5, 100000, &why), XFER_NEXT);
	rig_run(&v->p.r);
	assert_int_equal(x.call->result, 0);
	assert_memory_equal(x.call->buf, fake_ffmem.app + 105, PVM_MAX);
	xfer_reset(f, &x);
	assert_int_equal(mprotect(v->mr[0]->view - 100 + FF_PAGE, FF_PAGE, PROT_READ | PROT_WRITE),
			 0);
	assert_int_equal(by_views(v), PVM_MAX);
	assert_int_equal(by_process(v), PVM_MAX);
}

/* On-demand memory that its client has deregistered by shared memory is not reached by its view either. */
static void what_leaves(void **state)
{
	struct views *v = *state;
	struct ff_leaving *l = &v->p.s[1]->s.hdr->leaving;
	struct ff_sqe *e;

	v->mr[1]->odp = odp_new();
	v->mr[1]->odp->mr = 0x10007;
	move(v, FF_OP_WRITE, 3, 1, 5000);
	assert_int_equal(by_views(v), 2 * 5000);
	assert_int_equal(atomic_load(&l->busy), 0);
	memset(fake_ffmem.app + SIZE, 3, SIZE);
	atomic_store(&l->mr[9], 0x10007);
	for (uint32_t op = FF_OP_WRITE, i = 0; i < 2; op = FF_OP_READ, i++) {
		e = rig_sqe(v->p.qp[0], (uint8_t)op, 1);
		rig_sge(e, v->mr[0], v->mr[0]->addr, 5000);
		e->remote_addr = v->mr[1]->addr;
		e->rkey = v->mr[1]->rkey;
		rig_post(&v->p.r, v->p.qp[0]);
	}
	rig_run(&v->p.r);
	pair_expect(v->p.cq[0], 1, IBV_WC_REM_ACCESS_ERR);
	pair_expect(v->p.cq[0], 1, IBV_WC_WR_FLUSH_ERR);
	for (uint64_t i = 0; i < SIZE; i++)
		assert_int_equal(fake_ffmem.app[SIZE + i], 3);
	assert_int_equal(by_views(v), 2 * 5000);
	assert_int_equal(atomic_load(&l->busy), 0);
	odp_put(v->mr[1]->odp);
	v->mr[1]->odp = NULL;
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(of_another_version),
			cmocka_unit_test_setup_teardown(what_has_a_view, setup, teardown),
			cmocka_unit_test_setup_teardown(copies, setup, teardown),
			cmocka_unit_test_setup_teardown(holes, setup, teardown),
			cmocka_unit_test_setup_teardown(read_ahead, setup, teardown),
			cmocka_unit_test_setup_teardown(what_leaves, setup, teardown));
}
