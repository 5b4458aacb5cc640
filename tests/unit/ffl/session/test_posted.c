/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_posted.c - ffl/session/posted.c: which WRs an object that goes is kept for, and for how long. The test is the router,
 * and time is virtual.
 *
 * build: tests/rig/fakes/fake_ffl.c ffl/verbs/mw.c ffl/session/bell.c ffl/verbs/post.c ffl/verbs/post_ex.c ffl/verbs/qp.c ffl/verbs/cq.c ffl/verbs/gone.c ffl/verbs/cq_ex.c ffl/verbs/srq.c ffl/verbs/channel.c ffl/verbs/home.c ffl/session/table.c ffl/verbs/async.c ffl/verbs/domain.c ffl/verbs/xrc.c
 */
#include <string.h>
#include <time.h>

#include "tests/rig/unit/unit.h"
#include "ffl/verbs/post.h"
#include "tests/rig/fakes/fake_ffl.h"

#define MS 1000000u

static struct {
	uint64_t ns;
	uint64_t step; /* ns that a sleep lasts; 0: as long as it is asked to */
	unsigned sleeps;
	void (*router)(void); /* what it does meanwhile; NULL: nothing */
} world;

static uint64_t virtual_clock(clockid_t clock)
{
	assert_int_equal(clock, CLOCK_MONOTONIC);
	return world.ns;
}

static int virtual_sleep(const struct timespec *t, struct timespec *left)
{
	(void)left;
	assert_int_equal(t->tv_sec, 0);
	world.ns += world.step ? world.step : (uint64_t)t->tv_nsec;
	world.sleeps++;
	if (world.router)
		world.router();
	return 0;
}

#define ffl_clock_ns virtual_clock
#define nanosleep    virtual_sleep
#include "ffl/session/posted.c" /* NOLINT(bugprone-suspicious-include) */
#undef ffl_clock_ns
#undef nanosleep

#define LKEY 0x51
#define RKEY 0x62

static struct ffl_cq *cq;
static struct ffl_qp *qp;

static void open_qp(enum ibv_qp_type type)
{
	memset(&world, 0, sizeof(world));
	cq = fake_cq(16);
	qp = fake_qp(type, cq, 4, 2, 64, false);
	fake.yields = 0;
}

/* `num` WRITEs from the MR with that lkey. */
static void post(uint32_t lkey, unsigned num)
{
	struct ibv_sge sge[2] = { { 0, 8, 0x40 }, { 0, 8, lkey } };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE, .sg_list = sge, .num_sge = 2, .wr.rdma = { 0, RKEY }
	};

	while (num--)
		assert_int_equal(fake_post(qp, &wr), 0);
}

static void router_did(uint32_t sqes)
{
	atomic_store(&qp->hdr->sq_done, ff_done(sqes, 0));
}

static void wait_mr(uint32_t key)
{
	ffl_posted_wait(fake.ctx, &(struct ffl_going){ .kind = FFL_GOING_MR, .key = key });
}

/* Has it waited, for all of its time? Nobody has waited in vain before. */
static bool waits_mr(uint32_t key)
{
	uint64_t from = world.ns;

	atomic_store(&fake.ctx->left_behind, false);
	wait_mr(key);
	assert_true(world.ns == from || world.ns - from >= 500 * MS);
	return world.ns != from;
}

/* An object that no WR names goes at once, whatever else is posted. */
static void nothing_to_wait_for(void **state)
{
	(void)state;
	open_qp(IBV_QPT_RC);
	wait_mr(LKEY);
	post(LKEY, 2);
	wait_mr(LKEY + 1);
	router_did(2);
	wait_mr(LKEY);
	assert_int_equal(fake.yields, 0);
	assert_int_equal(world.sleeps, 0);
	assert_int_equal(world.ns, 0);
	fake_free(qp, cq);
}

static void does_first(void)
{
	if (world.ns >= 3 * MS)
		router_did(1);
	if (world.ns >= 7 * MS)
		router_did(2);
}

/* The wait lasts until the router is done with the last WR that names the MR, and not with those behind. */
static void waits_for_the_last(void **state)
{
	(void)state;
	open_qp(IBV_QPT_RC);
	post(LKEY, 2);
	post(LKEY + 1, 2);
	world.router = does_first;
	wait_mr(LKEY);
	assert_int_equal(atomic_load(&qp->hdr->sq_done), 2);
	assert_true(world.ns >= 7 * MS && world.ns < 8 * MS);
	assert_false(qp->vain);
	fake_free(qp, cq);
}

static void posts_over(void)
{
	/* what was posted before is done, and other threads have posted as much again */
	if (world.sleeps != 1)
		return;
	router_did(4);
	atomic_store(&qp->sq_polled, 4);
	post(LKEY + 1, 4);
}

/* A ring that is full of later WRs ends the wait. */
static void entries_are_posted_over(void **state)
{
	(void)state;
	open_qp(IBV_QPT_RC);
	post(LKEY, 4);
	world.router = posts_over;
	wait_mr(LKEY);
	assert_int_equal(world.sleeps, 1);
	fake_free(qp, cq);
}

/* A WR that stays where it is costs one wait of 0.5 s, not one for each object. */
static void is_remembered_in_vain(void **state)
{
	(void)state;
	open_qp(IBV_QPT_RC);
	post(LKEY, 1);
	post(LKEY + 1, 2);
	assert_true(waits_mr(LKEY));
	assert_true(qp->vain);
	assert_false(waits_mr(LKEY));
	assert_false(waits_mr(LKEY + 1));
	router_did(1); /* the QP goes on */
	assert_true(waits_mr(LKEY + 1));
	assert_false(waits_mr(LKEY + 1));
	router_did(3);
	assert_false(waits_mr(LKEY + 1));
	assert_false(qp->vain);
	fake_free(qp, cq);
}

/* After a wait in vain other QPs get 20 ms, until the router does something in time. */
static void others_wait_shortly(void **state)
{
	struct ffl_qp *silent;

	(void)state;
	open_qp(IBV_QPT_RC);
	silent = qp;
	post(LKEY, 1);
	assert_true(waits_mr(LKEY));
	qp = fake_qp(IBV_QPT_RC, cq, 4, 2, 64, false);
	post(LKEY, 1);
	world.ns = 0;
	wait_mr(LKEY);
	assert_true(world.ns >= 20 * MS && world.ns < 21 * MS);
	assert_true(fake.ctx->left_behind);
	router_did(1);
	post(LKEY, 1);
	world.router = does_first;
	world.ns = 0;
	wait_mr(LKEY);
	assert_false(fake.ctx->left_behind);
	atomic_store(&silent->hdr->sq_done, 1);
	assert_int_equal(ibv_destroy_qp(&silent->qp), 0);
	fake_free(qp, cq);
}

/* No thread of the router is waited for where it is gone, where nothing is sent, and in a child. */
static void not_for_nothing(void **state)
{
	(void)state;
	open_qp(IBV_QPT_RC);
	post(LKEY, 1);
	ffl_qp_set_state(qp, IBV_QPS_SQD);
	assert_false(waits_mr(LKEY));
	ffl_qp_set_state(qp, IBV_QPS_RTS);
	fake.ctx->pid++;
	assert_false(waits_mr(LKEY));
	fake.ctx->pid--;
	atomic_store(&fake.ctx->dead, true);
	assert_false(waits_mr(LKEY));
	atomic_store(&fake.ctx->dead, false);
	assert_true(waits_mr(LKEY));
	fake_free(qp, cq);
}

static void does_all(void)
{
	assert_int_equal(atomic_load(&fake.ctx->lazy_qp), 0);
	router_did(qp->sq_tail);
}

/* Postings that were not announced yet are announced, since the caller will not poll meanwhile. */
static void announces_what_is_lazy(void **state)
{
	(void)state;
	open_qp(IBV_QPT_RC);
	atomic_store(&qp->hdr->evt, 3);
	atomic_store(&qp->hdr->need, 1);
	post(LKEY, 1);
	assert_int_equal(atomic_load(&fake.ctx->lazy_qp), qp->handle);
	world.router = does_all;
	wait_mr(LKEY);
	assert_true(fake_take_dirty(qp->handle));
	fake_free(qp, cq);
}

/* The places of a WR that name an MR: an SGE, the rkey of a peer in this session, a bind. */
static void places_of_a_key(void **state)
{
	struct ibv_sge sge = { 0, 8, LKEY };
	char bytes[8] = { 0 };
	struct ibv_sge in = { (uintptr_t)bytes, sizeof(bytes), LKEY };
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 };
	struct ibv_send_wr inl = {
		.opcode = IBV_WR_SEND, .sg_list = &in, .num_sge = 1, .send_flags = IBV_SEND_INLINE
	};
	struct ffl_mr mr = { .ibv = { .lkey = LKEY, .length = 4096 }, .ctx = fake.ctx };
	struct ibv_mw *mw = ffl_alloc_mw(fake.pd, IBV_MW_TYPE_2);
	struct ibv_send_wr bind = { .opcode = IBV_WR_BIND_MW,
				    .bind_mw = { .mw = mw,
						 .rkey = mw->rkey,
						 .bind_info = { .mr = &mr.ibv, .length = 8 } } };

	(void)state;
	open_qp(IBV_QPT_RC);
	/* a SEND has no rkey: what an earlier WR has left there counts for nothing */
	for (unsigned lap = 0; lap < 4; lap++)
		post(LKEY, 1);
	router_did(4);
	atomic_store(&qp->sq_polled, 4);
	assert_int_equal(fake_post(qp, &inl), 0);
	assert_false(waits_mr(RKEY));
	assert_false(waits_mr(LKEY)); /* nor has inline data an lkey */
	router_did(5);
	assert_int_equal(fake_post(qp, &send), 0);
	assert_false(waits_mr(RKEY));
	assert_true(waits_mr(LKEY));
	router_did(6);
	assert_int_equal(fake_post(qp, &bind), 0);
	assert_true(waits_mr(LKEY));
	router_did(7);
	post(LKEY, 1);
	assert_true(waits_mr(RKEY));
	router_did(8);
	assert_int_equal(ffl_dealloc_mw(mw), 0);
	fake_free(qp, cq);
}

/* A window is kept for its binds, its invalidation and what reaches through it; not by its rkey's low byte. */
static void windows(void **state)
{
	struct ibv_mw *mw = ffl_alloc_mw(fake.pd, IBV_MW_TYPE_2);
	struct ibv_mw *other = ffl_alloc_mw(fake.pd, IBV_MW_TYPE_2);
	struct ffl_going what = { .kind = FFL_GOING_MW, .mw = mw };
	struct ibv_send_wr wr[] = {
		{ .opcode = IBV_WR_BIND_MW, .bind_mw = { .mw = mw, .rkey = mw->rkey } },
		{ .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = mw->rkey + 1 },
		{ .opcode = IBV_WR_RDMA_READ, .wr.rdma = { 0, mw->rkey + 1 } },
	};
	struct ibv_send_wr another = { .opcode = IBV_WR_BIND_MW,
				       .bind_mw = { .mw = other, .rkey = mw->rkey } };

	(void)state;
	open_qp(IBV_QPT_RC);
	for (unsigned i = 0; i < ARRAY_SIZE(wr); i++) {
		uint64_t from = world.ns;

		assert_int_equal(fake_post(qp, &wr[i]), 0);
		atomic_store(&fake.ctx->left_behind, false);
		ffl_posted_wait(fake.ctx, &what);
		assert_true(world.ns - from >= 500 * MS);
		router_did(i + 1);
	}
	atomic_store(&qp->sq_polled, 3);
	assert_int_equal(fake_post(qp, &another), 0);
	world.ns = 0;
	atomic_store(&fake.ctx->left_behind, false);
	assert_int_equal(ffl_dealloc_mw(mw), 0);
	assert_int_equal(world.ns, 0);
	assert_int_equal(ffl_dealloc_mw(other), 0);
	assert_true(world.ns >= 500 * MS);
	fake_free(qp, cq);
}

/* An address handle is kept for the datagrams of all QPs; the union says something else in a WR of RC. */
static void address_handles(void **state)
{
	struct ffl_ah ah = { .ctx = fake.ctx, .handle = 0x1234 };
	struct ffl_going what = { .kind = FFL_GOING_AH, .key = ah.handle };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .wr.ud.ah = &ah.ibv };
	struct ibv_send_wr atomic = { .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				      .wr.atomic.compare_add = 0x1234 };
	struct ffl_qp *ud[2], *rc;

	(void)state;
	open_qp(IBV_QPT_UD);
	ud[0] = qp;
	ud[1] = fake_qp(IBV_QPT_UD, cq, 4, 1, 0, false);
	rc = fake_qp(IBV_QPT_RC, cq, 4, 1, 0, false);
	assert_int_equal(fake_post(rc, &atomic), 0);
	ffl_posted_wait(fake.ctx, &what);
	assert_int_equal(world.ns, 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(fake_post(ud[i], &wr), 0);
		qp = ud[i];
		world.router = does_all;
		ffl_posted_wait(fake.ctx, &what);
		assert_int_equal(world.sleeps, i + 1);
	}
	atomic_store(&rc->hdr->sq_done, 1);
	assert_int_equal(ibv_destroy_qp(&rc->qp), 0);
	assert_int_equal(ibv_destroy_qp(&ud[0]->qp), 0);
	fake_free(ud[1], cq);
}

#define T(f) cmocka_unit_test_setup_teardown(f, fake_setup, fake_teardown)
int main(void)
{
	return UNIT_RUN(T(nothing_to_wait_for), T(waits_for_the_last), T(entries_are_posted_over),
			T(is_remembered_in_vain), T(others_wait_shortly), T(not_for_nothing),
			T(announces_what_is_lazy), T(places_of_a_key), T(windows),
			T(address_handles));
}
