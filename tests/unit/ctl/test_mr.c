/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_mr.c - ffr/ctl/mr.c: MAP_MR and DROP_RUNS, with what a client may put into them.
 * build: tests/rig/unit/ctl_calls.c tests/rig/unit/ctl_rig.c ffo/base/limits.c ffo/base/proto.c -Wl,--wrap=pvm_passed -Wl,--wrap=view_unmap
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/ctl_calls.h"
#include "ffr/fast/pvm_int.h"
#include "ffr/mem/view.h"
#include "ffr/mem/watch.h"

#define PG     ((uint64_t)FF_PAGE)
#define VA     (1ull << 40)
#define PART   (FF_MR_MAX_RUNS / 2 * PG)
#define LEN    (4 * PART) /* as many runs, and as much between them */
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static struct ctl_rig *const g = &call_rig;
static int sock;
static int file; /* of shadow pages */
static uint32_t pd;
static struct ff_reg_mr_resp reg;

static int map_more(int s, uint32_t mr, const struct ff_mr_run *run, unsigned n,
		    struct ff_map_mr_resp *resp)
{
	struct ff_map_mr_req req = { .mr = mr };

	return rig_call(g, s, FF_MSG_MAP_MR, &req, sizeof(req), run, sizeof(*run) * n, n, resp,
			sizeof(*resp), NULL, NULL);
}

#define ODP (ACCESS | IBV_ACCESS_ON_DEMAND)

static bool in_copy;			   /* a copy is under way for any MR */
static _Atomic uint32_t *taken_back;	   /* by the client, while the router asks for copies */
static unsigned views_gone, told, is_gone; /* calls */

bool __real_pvm_passed(const struct session *s, const struct pvm_mark *mark);
bool __wrap_pvm_passed(const struct session *s, const struct pvm_mark *mark);
bool __wrap_pvm_passed(const struct session *s, const struct pvm_mark *mark)
{
	if (taken_back)
		atomic_store(taken_back, 0);
	return !in_copy && __real_pvm_passed(s, mark);
}

void __real_view_unmap(struct mr *mr);
void __wrap_view_unmap(struct mr *mr);
void __wrap_view_unmap(struct mr *mr)
{
	views_gone++;
	__real_view_unmap(mr);
}

static void tell_mr(struct orch *o, const struct mr *mr)
{
	(void)o;
	(void)mr;
	told++;
}

static void tell_rkey(struct orch *o, uint32_t container, uint32_t rkey)
{
	(void)o;
	(void)container;
	(void)rkey;
	is_gone++;
}

static void tell_session(struct orch *o, uint32_t container, uint32_t session)
{
	(void)o;
	(void)container;
	(void)session;
}

static void tell_change(struct orch *o)
{
	(void)o;
}

static struct session *ses(void)
{
	return LIST_FIRST(&g->c[0]->sessions);
}

static uint32_t reg_odp(void)
{
	struct ff_reg_mr_resp r;

	assert_int_equal(call_reg_mr(g, sock, pd, (void *)VA, LEN, ODP, &r), 0);
	return r.mr;
}

/* Some call: what has left is gone after the next one. */
static void any_call(void)
{
	struct ff_query_device_req req = { 0 };
	struct ff_query_device_resp resp;

	assert_int_equal(RIG_CALL(g, sock, QUERY_DEVICE, &req, &resp), 0);
}

/* On-demand MRs that their client has put into the session's page go with its next call, before that is served. */
static void leaving_without_a_call(void **state)
{
	struct ff_dealloc_pd_req req;
	struct ff_dealloc_pd_resp resp;
	struct ff_counts n = { 0 };
	uint32_t mr[FF_LEAVING], own = call_pd(g, sock), was = pd;
	struct ff_leaving *l = &ses()->hdr->leaving;

	(void)state;
	pd = own;
	for (unsigned i = 0; i < FF_LEAVING; i++)
		mr[i] = reg_odp();
	pd = was;
	for (unsigned i = 0; i < FF_LEAVING; i++)
		atomic_store(&l->mr[i], mr[i]);
	counts_add_session(&n, ses()); /* nobody is told of them any more */
	assert_int_equal(n.mrs, 1);
	assert_int_equal(n.odp_mrs, 0);
	req = (struct ff_dealloc_pd_req){ .pd = own };
	assert_int_equal(RIG_CALL(g, sock, DEALLOC_PD, &req, &resp), 0);
	for (unsigned i = 0; i < FF_LEAVING; i++) {
		assert_int_equal(atomic_load(&l->mr[i]), 0);
		assert_null(mr_handle_get(ses(), mr[i]));
	}
}

/* What is no on-demand MR of the session, or has a window, stays as it is; the places are free again. */
static void false_leavers(void **state)
{
	struct ff_leaving *l = &ses()->hdr->leaving;
	uint32_t odp = reg_odp();
	struct mr *mr = mr_get(ses(), odp);

	(void)state;
	mr->o.refs++; /* as mw_bind() does */
	atomic_store(&l->mr[0], odp);
	atomic_store(&l->mr[1], odp);
	atomic_store(&l->mr[2], reg.mr);
	atomic_store(&l->mr[3], 0xffffffff);
	any_call();
	assert_ptr_equal(mr_get(ses(), odp), mr);
	assert_non_null(mr_get(ses(), reg.mr));
	for (unsigned i = 0; i < FF_LEAVING; i++)
		assert_int_equal(atomic_load(&l->mr[i]), 0);
	mr->o.refs--;
	atomic_store(&l->mr[7], odp);
	atomic_store(&l->mr[9], odp);
	any_call();
	assert_null(mr_handle_get(ses(), odp));
	assert_int_equal(atomic_load(&l->mr[9]), 0);
}

/* The client may take it back at any time, and then makes the call itself: the MR has no keys, and stays until then. */
static void one_that_is_taken_back(void **state)
{
	struct ff_leaving *l = &ses()->hdr->leaving;
	uint32_t odp = reg_odp();

	(void)state;
	atomic_store(&l->mr[3], odp);
	taken_back = &l->mr[3];
	any_call();
	taken_back = NULL;
	assert_non_null(mr_handle_get(ses(), odp));
	assert_int_equal(call_one(g, sock, FF_MSG_DEREG_MR, odp), 0);
	assert_null(mr_handle_get(ses(), odp));
}

/* The call comes again until the copy has ended; nobody finds the MR meanwhile. */
static void not_during_a_copy(void **state)
{
	(void)state;
	in_copy = true;
	assert_int_equal(call_one(g, sock, FF_MSG_DEREG_MR, reg.mr), -EAGAIN);
	assert_int_equal(call_one(g, sock, FF_MSG_DEREG_MR, reg.mr), -EAGAIN);
	assert_null(key_lookup(&g->c[0]->keys, reg.rkey));
	assert_non_null(mr_handle_get(ses(), reg.mr));
	in_copy = false;
	views_gone = 0;
	assert_int_equal(call_one(g, sock, FF_MSG_DEREG_MR, reg.mr), 0);
	assert_null(mr_handle_get(ses(), reg.mr));
	assert_int_equal(views_gone, 1);
}

static void the_orchestrator_is_told(void **state)
{
	static const struct ctl_hooks hooks = { tell_mr, tell_rkey, tell_session, tell_change };
	const struct ctl_hooks *was = g->ctl.hooks;
	int orch;
	uint32_t odp;

	(void)state;
	g->ctl.hooks = &hooks;
	g->ctl.orch = (struct orch *)&orch;
	told = is_gone = 0;
	odp = reg_odp();
	assert_int_equal(told, 1);
	assert_int_equal(is_gone, 0);
	in_copy = true; /* once, however often it has to be asked */
	assert_int_equal(call_one(g, sock, FF_MSG_DEREG_MR, odp), -EAGAIN);
	in_copy = false;
	assert_int_equal(call_one(g, sock, FF_MSG_DEREG_MR, odp), 0);
	assert_int_equal(told, 1);
	assert_int_equal(is_gone, 1);
	g->ctl.orch = NULL;
	g->ctl.hooks = was;
}

static void on_demand_leaves_nothing(void **state)
{
	const size_t n = 1000;
	size_t before = 0;

	(void)state;
	for (size_t i = 0; i < 2 * n; i++) {
		if (i == n)
			before = unit_allocated();
		assert_int_equal(call_one(g, sock, FF_MSG_DEREG_MR, reg_odp()), 0);
	}
	assert_true(unit_allocated() < before + n * sizeof(struct odp));
}

/* REG_MR and REREG_MR take as many runs as one message may claim. */
static void too_many_runs_at_once(void **state)
{
	static struct ff_mr_run run[FF_MR_MAX_RUNS + 1];
	struct ff_rereg_mr_req rereg = { .flags = IBV_REREG_MR_CHANGE_TRANSLATION,
					 .mr = reg.mr,
					 .addr = VA,
					 .iova = VA,
					 .length = LEN };
	struct ff_reg_mr_req req = { VA, LEN, VA, pd, ACCESS };
	struct ff_rereg_mr_resp again;
	struct ff_reg_mr_resp resp;

	(void)state;
	for (unsigned i = 0; i <= FF_MR_MAX_RUNS; i++)
		run[i] = (struct ff_mr_run){ VA + i * PG, PG, i * PG, 0, FF_RUN_SHADOW };
	for (unsigned n = FF_MR_MAX_RUNS; n <= FF_MR_MAX_RUNS + 1; n++) {
		int want = n > FF_MR_MAX_RUNS ? -EINVAL : 0;

		assert_int_equal(rig_call(g, sock, FF_MSG_REG_MR, &req, sizeof(req), run,
					  n * sizeof(run[0]), n, &resp, sizeof(resp), NULL, NULL),
				 want);
		assert_int_equal(rig_call(g, sock, FF_MSG_REREG_MR, &rereg, sizeof(rereg), run,
					  n * sizeof(run[0]), n, &again, sizeof(again), NULL, NULL),
				 want);
	}
}

static const struct mr *the_mr(void)
{
	return mr_get(LIST_FIRST(&g->c[0]->sessions), reg.mr);
}

/* Where the router has byte `off` of the file. */
static uint8_t *host_of(uint64_t off)
{
	struct region *r;
	uint8_t *host;

	r = pages_get(ses(), off, PG, &host);
	assert_non_null(r);
	pages_put(ses(), r);
	return host;
}

/* A client with LEN bytes of shadow memory, and as much registered at VA without runs. */
static int setup(void **state)
{
	uint64_t off;

	call_setup(state);
	sock = call_client(g, 0);
	pd = call_pd(g, sock);
	file = call_shadow(g, sock, LEN, &off);
	assert_int_equal(off, 0);
	assert_int_equal(call_reg_mr(g, sock, pd, (void *)VA, LEN, ACCESS, &reg), 0);
	assert_int_equal(reg.zero_copy, 0);
	return 0;
}

static int teardown(void **state)
{
	close(file);
	close(sock);
	return call_teardown(state);
}

static void runs_are_added_and_merged(void **state)
{
	const struct ff_mr_run middle = { VA + PART, PART, PART, 0, FF_RUN_SHADOW };
	const struct ff_mr_run around[] = { { VA, PART, 0, 0, FF_RUN_SHADOW },
					    { VA + 2 * PART, 2 * PART, 2 * PART, 0,
					      FF_RUN_SHADOW } };
	struct ff_map_mr_resp resp;
	uint8_t *host;

	(void)state;
	assert_int_equal(map_more(sock, reg.mr, &middle, 1, &resp), 0);
	assert_int_equal(resp.zero_copy, PART);
	assert_int_equal(shadow_translate(the_mr(), VA, LEN, &host), PART);
	assert_null(host);
	assert_int_equal(shadow_translate(the_mr(), VA + PART + 5, LEN - PART - 5, &host),
			 PART - 5);
	assert_ptr_equal(host, host_of(PART) + 5);
	assert_int_equal(map_more(sock, reg.mr, around, 2, &resp), 0);
	assert_int_equal(resp.zero_copy, LEN);
	assert_int_equal(the_mr()->num_runs, 1);
	assert_int_equal(shadow_translate(the_mr(), VA, LEN, &host), LEN);
	assert_int_equal(call_one(g, sock, FF_MSG_DEREG_MR, reg.mr), 0);
	assert_int_equal(map_more(sock, reg.mr, &middle, 1, &resp), -EINVAL);
}

/* A copy of the MR's first bytes from va on, which waits to be tried again. */
static struct pvm_call *waiting_copy(struct qp *qp, uint64_t va)
{
	struct fast *f = ses()->fast;
	struct pvm_wait none = { 0 };
	struct pvm_call *c = pvm_call_get(f->pvm, qp, PVM_COPY, FF_PAGE, &none);

	assert_non_null(c);
	c->ses = ses();
	c->dir = PVM_READ;
	c->va = va;
	c->len = FF_PAGE;
	assert_int_equal(pvm_submit(f, c, the_mr(), &none), 0);
	pvm_dequeue(f->pvm, c);
	pvm_enqueue(f->pvm, c, PVM_LATER);
	return c;
}

static void copies_that_wait_begin_anew(void **state)
{
	const uint64_t at[] = { VA, VA + PART, VA + 3 * PART - PG, VA + 3 * PART };
	const struct ff_mr_run run[] = { { VA + PART, PG, PART, 0, FF_RUN_SHADOW },
					 { VA + 2 * PART, PART, 2 * PART, 0, FF_RUN_SHADOW } };
	const struct ff_mr_run bad = { VA, LEN + PG, 0, 0, FF_RUN_SHADOW };
	uint32_t handle = call_qp(g, sock, pd, call_cq(g, sock));
	struct qp *qp = qp_get_unsealed(ses(), handle);
	struct pvm_call *c[ARRAY_SIZE(at)];
	struct ff_map_mr_resp resp;

	(void)state;
	fast_lock(g->ctl.host);
	for (unsigned i = 0; i < ARRAY_SIZE(at); i++)
		c[i] = waiting_copy(qp, at[i]);
	fast_unlock(g->ctl.host);
	assert_int_equal(map_more(sock, reg.mr, &bad, 1, &resp), -EINVAL);
	for (unsigned i = 0; i < ARRAY_SIZE(at); i++)
		assert_int_equal(c[i]->place, PVM_LATER);
	assert_int_equal(map_more(sock, reg.mr, run, 2, &resp), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(at); i++) {
		bool found = i == 1 || i == 2;

		assert_int_equal(c[i]->place, found ? PVM_NOWHERE : PVM_LATER);
		assert_int_equal(c[i]->busy, !found);
		if (found)
			assert_int_equal(c[i]->result, -EAGAIN);
	}
	fast_lock(g->ctl.host);
	for (unsigned i = 0; i < ARRAY_SIZE(at); i++)
		pvm_call_put(ses()->fast->pvm, c[i]);
	fast_unlock(g->ctl.host);
}

static void false_claims_change_nothing(void **state)
{
	const struct ff_mr_run there = { VA + PART, PART, PART, 0, FF_RUN_SHADOW };
	const struct ff_mr_run bad[] = {
		{ VA, 2 * PART, 0, 0, FF_RUN_SHADOW }, /* over the one that is there, from below */
		{ VA + PART, PG, 0, 0,
		  FF_RUN_SHADOW }, /* over the one that is there, at its start */
		{ VA + 2 * PART - PG, PG, 0, 0,
		  FF_RUN_SHADOW }, /* over the one that is there, at its end */
		{ VA + 2 * PART - PG, PART, 0, 0, FF_RUN_SHADOW },
		{ VA, LEN, 0, 0, FF_RUN_SHADOW },
		{ VA, PG, 0, 0, FF_RUN_SHARED },
		{ VA, PG, 0, 0, 0 },
		{ VA, PG, LEN - 1, 0, FF_RUN_SHADOW },
		{ VA, 0, 0, 0, FF_RUN_SHADOW },
		{ VA + 1, PG, 0, 0, FF_RUN_SHADOW },
		{ VA - PG, PG, 0, 0, FF_RUN_SHADOW },
		{ VA + LEN, PG, 0, 0, FF_RUN_SHADOW },
		{ UINT64_MAX - PG + 1, PG, 0, 0, FF_RUN_SHADOW },
		{ VA, UINT64_MAX - PG + 1, 0, 0, FF_RUN_SHADOW },
	};
	/* pages that the session does not have: they are copied, like all that has no run */
	const struct ff_mr_run none[] = {
		{ VA, PG, LEN, 0, FF_RUN_SHADOW },
		{ VA, PART, LEN - PG, 0, FF_RUN_SHADOW },
		{ VA, PG, UINT64_MAX - PG + 1, 0, FF_RUN_SHADOW },
		{ VA, PG, FF_PAGES_STRIDE, 0, FF_RUN_SHADOW },
		{ VA, PG, FF_PAGES_STRIDE - PG, 0, FF_RUN_SHADOW },
		{ VA, PG, REGIONS_MAX * FF_PAGES_STRIDE, 0, FF_RUN_SHADOW },
	};
	const struct ff_mr_run order[] = { { VA + 3 * PART, PG, 0, 0, FF_RUN_SHADOW },
					   { VA + 2 * PART, PG, PG, 0, FF_RUN_SHADOW } };
	const struct ff_mr_run twice[] = { { VA + 3 * PART, 2 * PG, 0, 0, FF_RUN_SHADOW },
					   { VA + 3 * PART + PG, PG, 0, 0, FF_RUN_SHADOW } };
	/* the first is right, the second is not: all or nothing */
	const struct ff_mr_run half[] = { { VA, PG, 0, 0, FF_RUN_SHADOW },
					  { VA + PART, PG, 0, 0, FF_RUN_SHADOW } };
	static const uint32_t handle[] = { 0, 1, 0xffff, UINT32_MAX };
	struct ff_alloc_null_mr_req null_req = { .pd = pd };
	struct ff_alloc_null_mr_resp null_mr;
	int other = call_client(g, 0);
	struct ff_map_mr_resp resp;

	(void)state;
	assert_int_equal(map_more(sock, reg.mr, &there, 1, &resp), 0);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(map_more(sock, reg.mr, &bad[i], 1, &resp), -EINVAL);
	for (unsigned i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		assert_int_equal(map_more(sock, reg.mr, &none[i], 1, &resp), 0);
		assert_int_equal(resp.zero_copy, PART);
	}
	assert_int_equal(map_more(sock, reg.mr, order, 2, &resp), -EINVAL);
	assert_int_equal(map_more(sock, reg.mr, twice, 2, &resp), -EINVAL);
	assert_int_equal(map_more(sock, reg.mr, half, 2, &resp), -EINVAL);
	assert_int_equal(map_more(sock, reg.mr, NULL, 0, &resp), -EINVAL);
	for (unsigned i = 0; i < sizeof(handle) / sizeof(handle[0]); i++)
		assert_int_equal(map_more(sock, handle[i], &half[0], 1, &resp), -EINVAL);
	assert_int_equal(map_more(other, reg.mr, &half[0], 1, &resp), -EINVAL);
	assert_int_equal(RIG_CALL(g, sock, ALLOC_NULL_MR, &null_req, &null_mr), 0);
	assert_int_equal(map_more(sock, null_mr.mr, &half[0], 1, &resp), -EINVAL);
	{
		const struct mr *mr =
			mr_get(LIST_NEXT(LIST_FIRST(&g->c[0]->sessions), entry), reg.mr);

		if (!mr)
			mr = the_mr();
		assert_int_equal(mr->num_runs, 1);
		assert_int_equal(mr->zero_copy, PART);
	}
	close(other);
	rig_pump(g);
}

/* Pages that the client has not touched are not made: the router has no run, and the file no page. */
static void untouched_pages(void **state)
{
	const struct ff_mr_run run = { VA, PART, 0, 0, FF_RUN_SHADOW };
	struct ff_map_mr_resp resp;
	struct stat st;

	(void)state;
	assert_int_equal(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)LEN),
			 0);
	assert_int_equal(map_more(sock, reg.mr, &run, 1, &resp), 0);
	assert_int_equal(resp.zero_copy, 0);
	assert_int_equal(the_mr()->num_runs, 0);
	assert_int_equal(fstat(file, &st), 0);
	assert_int_equal(st.st_blocks, 0);
}

static void so_many_runs_at_most(void **state)
{
	static struct ff_mr_run run[FF_MR_MAX_RUNS + 1];
	struct ff_map_mr_resp resp;

	(void)state;
	for (unsigned i = 0; i <= FF_MR_MAX_RUNS; i++)
		run[i] = (struct ff_mr_run){ VA + 2 * i * PG, PG, 0, 0, FF_RUN_SHADOW };
	assert_int_equal(map_more(sock, reg.mr, run, FF_MR_MAX_RUNS, &resp), 0);
	assert_int_equal(the_mr()->num_runs, FF_MR_MAX_RUNS);
	/* later calls may add as many */
	for (unsigned i = 0; i < FF_MR_MAX_RUNS; i++)
		run[i].va += PG;
	assert_int_equal(map_more(sock, reg.mr, run, FF_MR_MAX_RUNS - 1, &resp), 0);
	assert_int_equal(the_mr()->num_runs, 2 * FF_MR_MAX_RUNS - 1);
	assert_int_equal(map_more(sock, reg.mr, run, 2, &resp), -ENOSPC);
	assert_int_equal(the_mr()->num_runs, 2 * FF_MR_MAX_RUNS - 1);
	assert_int_equal(map_more(sock, reg.mr, run + FF_MR_MAX_RUNS - 1, 1, &resp), 0);
	assert_int_equal(the_mr()->num_runs, 2 * FF_MR_MAX_RUNS);
}

/* A run costs the router memory, so 8 of them count as an MR: those of REG_MR, of MAP_MR and of REREG_MR. */
static void runs_are_charged(void **state)
{
	static struct ff_mr_run run[FF_MR_MAX_RUNS];
	const struct quota_use *use = &g->c[0]->quota.use;
	const uint64_t was = use->used[QUOTA_MEMORY];
	struct ff_rereg_mr_req rereg = { .flags = IBV_REREG_MR_CHANGE_TRANSLATION,
					 .mr = reg.mr,
					 .addr = VA,
					 .iova = VA,
					 .length = LEN };
	struct ff_rereg_mr_resp again;
	struct ff_map_mr_resp resp;

	(void)state;
	assert_int_equal(use->used[QUOTA_MR], 1);
	for (unsigned i = 0; i < FF_MR_MAX_RUNS; i++)
		run[i] = (struct ff_mr_run){ VA + 2 * i * PG, PG, 0, 0, FF_RUN_SHADOW };
	g->c[0]->limits.max_mr = 4;
	assert_int_equal(map_more(sock, reg.mr, run, FF_MR_MAX_RUNS, &resp), -ENOMEM);
	assert_int_equal(the_mr()->num_runs, 0);
	assert_int_equal(use->used[QUOTA_MR], 1);
	assert_int_equal(map_more(sock, reg.mr, run, 31, &resp), 0);
	assert_int_equal(use->used[QUOTA_MR], 4);
	g->c[0]->limits.max_mr = 0;
	assert_int_equal(map_more(sock, reg.mr, run + 31, FF_MR_MAX_RUNS - 31, &resp), 0);
	assert_int_equal(use->used[QUOTA_MR], 1 + FF_MR_MAX_RUNS / 8);
	assert_true(use->used[QUOTA_MEMORY] >= was + FF_MR_MAX_RUNS * sizeof(struct mr_run));
	/* as new, without a run */
	assert_int_equal(RIG_CALL(g, sock, REREG_MR, &rereg, &again), 0);
	assert_int_equal(the_mr()->num_runs, 0);
	assert_int_equal(use->used[QUOTA_MR], 1);
	assert_int_equal(use->used[QUOTA_MEMORY], was);
	assert_int_equal(map_more(sock, reg.mr, run, 8, &resp), 0);
	assert_int_equal(use->used[QUOTA_MR], 2);
	assert_int_equal(call_one(g, sock, FF_MSG_DEREG_MR, reg.mr), 0);
	assert_int_equal(use->used[QUOTA_MR], 0);
}

/* The session's file, of which [off, off + len) is said to be mapped at va. */
static struct ff_drop_runs_req part_of_file(uint64_t va, uint64_t off, uint64_t len)
{
	struct stat st;

	assert_int_equal(fstat(file, &st), 0);
	return (struct ff_drop_runs_req){
		.va = va,
		.len = len,
		.off = off,
		.inode = st.st_ino,
		.dev_major = major(st.st_dev),
		.dev_minor = minor(st.st_dev),
	};
}

static int drop(struct ff_drop_runs_req req)
{
	struct ff_drop_runs_resp resp;
	int st;

	do {
		st = RIG_CALL(g, sock, DROP_RUNS, &req, &resp);
		assert_true(st || !resp.next || resp.next > req.from);
		req.from = resp.next;
	} while (!st && req.from);
	return st;
}

/* Bytes from va on that the router has at `host`, or, NULL, does not have. */
static void assert_reached(uint64_t va, uint64_t len, const uint8_t *want)
{
	uint8_t *host;

	assert_int_equal(shadow_translate(the_mr(), va, VA + LEN - va, &host), len);
	assert_ptr_equal(host, want);
}

static void runs_are_dropped_and_divided(void **state)
{
	const struct ff_mr_run all = { VA, LEN, 0, 0, FF_RUN_SHADOW };
	const struct quota_use *use = &g->c[0]->quota.use;
	struct ff_map_mr_resp resp;
	struct region *r;
	uint8_t *host;

	(void)state;
	assert_int_equal(map_more(sock, reg.mr, &all, 1, &resp), 0);
	host = host_of(0);
	/* nothing of it */
	assert_int_equal(drop(part_of_file(VA + LEN, LEN, PG)), 0);
	assert_int_equal(the_mr()->zero_copy, LEN);
	/* in the middle */
	assert_int_equal(drop(part_of_file(VA + PART, PART, PG)), 0);
	assert_int_equal(the_mr()->zero_copy, LEN - PG);
	assert_int_equal(the_mr()->num_runs, 2);
	assert_reached(VA, PART, host);
	assert_reached(VA + PART, PG, NULL);
	assert_reached(VA + PART + PG, LEN - PART - PG, host + PART + PG);
	/* again, and at the start, with more than there is */
	assert_int_equal(drop(part_of_file(VA + PART, PART, PG)), 0);
	assert_int_equal(drop(part_of_file(VA, 0, PG)), 0);
	assert_int_equal(drop(part_of_file(VA + LEN - PG, LEN - PG, 8 * PG)), 0);
	assert_int_equal(the_mr()->zero_copy, LEN - 3 * PG);
	assert_int_equal(the_mr()->num_runs, 2);
	/* each part refers to its region, and the last one goes with it */
	r = pages_get(ses(), 0, PG, &host);
	assert_int_equal(r->refs, 3);
	assert_int_equal(drop(part_of_file(VA, 0, LEN)), 0);
	assert_int_equal(the_mr()->num_runs, 0);
	assert_int_equal(the_mr()->zero_copy, 0);
	assert_int_equal(r->refs, 1);
	pages_put(ses(), r);
	assert_reached(VA, LEN, NULL);
	assert_int_equal(use->used[QUOTA_MR], 1);
	/* it may have runs again */
	assert_int_equal(map_more(sock, reg.mr, &all, 1, &resp), 0);
	assert_int_equal(the_mr()->zero_copy, LEN);
}

/* What the client says may be anything; only runs of its own are dropped by it. */
static void false_parts_drop_nothing(void **state)
{
	const struct ff_mr_run all = { VA, LEN, 0, 0, FF_RUN_SHADOW };
	const struct ff_drop_runs_req own = part_of_file(VA, 0, PG);
	const struct ff_drop_runs_req bad[] = {
		part_of_file(VA, 0, 0),
		part_of_file(VA + 1, 0, PG),
		part_of_file(VA, 1, PG),
		part_of_file(VA, 0, PG - 1),
		part_of_file(VA, 0, UINT64_MAX - PG + 1),
		part_of_file(UINT64_MAX - PG + 1, 0, PG),
		part_of_file(VA, UINT64_MAX - PG + 1, PG),
	};
	struct ff_drop_runs_req other = own;
	struct ff_map_mr_resp resp;
	int neighbour = call_client(g, 0);
	struct ff_drop_runs_resp none;

	(void)state;
	assert_int_equal(map_more(sock, reg.mr, &all, 1, &resp), 0);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(drop(bad[i]), -EINVAL);
	/* another file, and another session, which has no such run */
	other.inode++;
	assert_int_equal(drop(other), 0);
	other = own;
	other.dev_minor++;
	assert_int_equal(drop(other), 0);
	other = own;
	assert_int_equal(RIG_CALL(g, neighbour, DROP_RUNS, &other, &none), 0);
	close(neighbour);
	rig_pump(g);
	/* it is only asked for, or all MRs have been looked at */
	other.check = 1;
	assert_int_equal(drop(other), 0);
	other.check = 0;
	other.from = UINT32_MAX;
	assert_int_equal(drop(other), 0);
	/* the same bytes of the file, where the MR has not got them */
	assert_int_equal(drop(part_of_file(VA + PG, 0, PG)), -EBUSY);
	assert_int_equal(drop(part_of_file(VA - PG, 0, 2 * PG)), -EBUSY);
	assert_int_equal(the_mr()->num_runs, 1);
	assert_int_equal(the_mr()->zero_copy, LEN);
}

/* More runs than before cost more; if that is too much, all stays. */
static void divided_runs_are_charged(void **state)
{
	static struct ff_mr_run run[7];
	const struct quota_use *use = &g->c[0]->quota.use;
	struct ff_map_mr_resp resp;

	(void)state;
	for (unsigned i = 0; i < 7; i++)
		run[i] =
			(struct ff_mr_run){ VA + 4 * i * PG, 3 * PG, 4 * i * PG, 0, FF_RUN_SHADOW };
	assert_int_equal(map_more(sock, reg.mr, run, 7, &resp), 0);
	assert_int_equal(use->used[QUOTA_MR], 1);
	g->c[0]->limits.max_mr = 1;
	assert_int_equal(drop(part_of_file(VA + PG, PG, PG)), -ENOMEM);
	assert_int_equal(the_mr()->num_runs, 7);
	assert_int_equal(the_mr()->zero_copy, 7 * 3 * PG);
	g->c[0]->limits.max_mr = 2;
	assert_int_equal(drop(part_of_file(VA + PG, PG, PG)), 0);
	assert_int_equal(the_mr()->num_runs, 8);
	assert_int_equal(use->used[QUOTA_MR], 2);
	assert_int_equal(drop(part_of_file(VA, 0, LEN)), 0);
	assert_int_equal(use->used[QUOTA_MR], 1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	return UNIT_RUN(T(runs_are_added_and_merged), T(copies_that_wait_begin_anew),
			T(false_claims_change_nothing), T(untouched_pages), T(so_many_runs_at_most),
			T(runs_are_charged), T(runs_are_dropped_and_divided),
			T(false_parts_drop_nothing), T(divided_runs_are_charged),
			T(leaving_without_a_call), T(false_leavers), T(one_that_is_taken_back),
			T(not_during_a_copy), T(the_orchestrator_is_told),
			T(on_demand_leaves_nothing), T(too_many_runs_at_once));
}
