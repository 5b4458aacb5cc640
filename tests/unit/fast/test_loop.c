/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/lib/rig.c tests/lib/backend_fake.c */
/*
 * test_loop.c - rings, doorbells and dirty sets as the fast path sees them, with the fake backend.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/backend_fake.h"
#include "tests/lib/rig.h"

struct one {
	struct rig r;
	struct rig_ses *s;
	struct rig_cq *cq;
	struct rig_qp *qp;
};

static void up(struct one *o)
{
	fake_reset();
	rig_init(&o->r, &fake_ops);
	o->s = rig_session(&o->r, 0);
	o->cq = rig_cq(&o->r, o->s, 64, false);
	o->qp = rig_qp(&o->r, o->s, IBV_QPT_RC, o->cq, o->cq, NULL);
	rig_connect(&o->r, o->qp, NULL);
	rig_run(&o->r);
}

static void down(struct one *o)
{
	rig_qp_free(&o->r, o->qp);
	rig_cq_free(&o->r, o->cq);
	rig_session_free(&o->r, o->s);
	rig_fini(&o->r);
}

/* A posting as the library makes it: the SQE, then the doorbell only if it is asked for. */
static bool post(struct one *o, uint64_t id)
{
	struct ff_qp_hdr *h = o->qp->qp.hdr;
	struct ff_ses_hdr *s = o->s->s.hdr;
	uint32_t old = o->qp->sq_tail, i = FF_HANDLE_INDEX(o->qp->qp.o.handle);
	uint64_t one = 1;

	rig_sqe(o->qp, FF_OP_WRITE, id);
	atomic_store(&qp_sqe(&o->qp->qp, old)->seq, ff_seq(old));
	o->qp->sq_tail++;
	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load(&h->need) || !ff_need_event(atomic_load(&h->evt), o->qp->sq_tail, old) ||
	    !atomic_exchange(&h->need, 0))
		return false;
	atomic_fetch_or(&s->dirty[i / 64], 1ull << (i % 64));
	atomic_fetch_or(&s->dirty_sum[i / 64 / 64], 1ull << (i / 64 % 64));
	if (atomic_exchange(&s->need_wakeup, 0))
		assert_int_equal(write(o->s->bell, &one, sizeof(one)), sizeof(one));
	return true;
}

static void bells(struct one *o)
{
	struct epoll_event ev[8];

	fast_bells(o->r.f, ev, epoll_wait(o->r.f->epoll_fd, ev, 8, 0));
}

static void watched_qp_needs_no_bell(void **state)
{
	struct one o;

	(void)state;
	up(&o);
	assert_true(o.qp->qp.is_active);
	assert_false(post(&o, 1));
	rig_run(&o.r);
	assert_int_equal(fake_posted(), 1);
	down(&o);
}

/* To connect a QP is no work for the fast thread: the first posting is, and it rings. */
static void new_qp_asks_for_a_bell(void **state)
{
	struct rig_qp *qp;
	struct one o;

	(void)state;
	up(&o);
	qp = o.qp;
	o.qp = rig_qp(&o.r, o.s, IBV_QPT_RC, o.cq, o.cq, NULL);
	fast_qp_set_state(o.r.f, &o.qp->qp, IBV_QPS_INIT);
	fast_qp_set_state(o.r.f, &o.qp->qp, IBV_QPS_RTR);
	fast_qp_set_state(o.r.f, &o.qp->qp, IBV_QPS_RTS);
	assert_false(o.qp->qp.is_active);
	assert_true(post(&o, 1));
	rig_run(&o.r);
	assert_int_equal(fake_posted(), 1);
	fake_complete(o.r.f, IBV_WC_SUCCESS);
	/* what a client posts too early rings as well, and is found in RTS */
	fast_qp_reset(o.r.f, &o.qp->qp, o.qp->sq_tail, 0);
	fast_qp_set_state(o.r.f, &o.qp->qp, IBV_QPS_INIT);
	fast_qp_set_state(o.r.f, &o.qp->qp, IBV_QPS_RTR);
	assert_true(post(&o, 2));
	rig_run(&o.r);
	rig_advance(&o.r, NS_PER_MS);
	assert_false(o.qp->qp.is_active);
	fast_qp_set_state(o.r.f, &o.qp->qp, IBV_QPS_RTS);
	rig_run(&o.r);
	assert_int_equal(fake_posted(), 2);
	fake_complete(o.r.f, IBV_WC_SUCCESS);
	rig_qp_free(&o.r, o.qp);
	o.qp = qp;
	down(&o);
}

static void idle_qp_asks_for_a_bell(void **state)
{
	struct one o;

	(void)state;
	up(&o);
	rig_advance(&o.r, NS_PER_MS);
	assert_false(o.qp->qp.is_active);
	rig_advance(&o.r, 10 * NS_PER_MS);
	assert_false(o.s->s.bells.is_active);
	assert_true(post(&o, 1));
	rig_run(&o.r);
	assert_int_equal(fake_posted(), 0); /* nobody has looked yet */
	bells(&o);
	rig_run(&o.r);
	assert_int_equal(fake_posted(), 1);
	assert_int_equal(o.s->s.stats.bells, 1);
	/* and now it is watched again */
	fake_complete(o.r.f, IBV_WC_SUCCESS);
	assert_false(post(&o, 2));
	rig_run(&o.r);
	assert_int_equal(fake_posted(), 2);
	down(&o);
}

/* Asleep with coalescing: the announced posting rings, those before it do not. */
static void coalesced_bell(void **state)
{
	struct one o;

	(void)state;
	up(&o);
	o.s->s.sched.coal = 3;
	assert_true(fast_arm_all(o.r.f));
	assert_true(o.r.f->coalesces);
	assert_false(post(&o, 1));
	assert_false(post(&o, 2));
	assert_false(post(&o, 3));
	assert_true(fast_arm_all(o.r.f)); /* still counts as nothing to do */
	assert_true(post(&o, 4));
	assert_false(fast_arm_all(o.r.f));
	fast_disarm_all(o.r.f);
	for (unsigned i = 1; i <= 4; i++) { /* one is under way at a time */
		rig_run(&o.r);
		assert_int_equal(fake_posted(), i);
		fake_complete(o.r.f, IBV_WC_SUCCESS);
	}
	down(&o);
}

static void arming_finds_what_came_before(void **state)
{
	struct one o;

	(void)state;
	up(&o);
	rig_sqe(o.qp, FF_OP_WRITE, 1);
	atomic_store(&qp_sqe(&o.qp->qp, 0)->seq, ff_seq(0));
	o.qp->sq_tail++;
	assert_false(fast_arm_all(o.r.f));
	down(&o);
}

/* Never more than the ring holds, or the announced posting could not be made. */
static void coalescing_fits_the_ring(void **state)
{
	struct one o;

	(void)state;
	up(&o);
	o.s->s.sched.coal = 63;
	fast_arm_all(o.r.f);
	assert_int_equal(atomic_load(&o.qp->qp.hdr->evt), o.qp->qp.sq.depth - 1);
	down(&o);
}

/* The tick that serves what is coalesced runs for active sessions only. */
static void idle_session_coalesces_nothing(void **state)
{
	struct one o;

	(void)state;
	up(&o);
	o.s->s.sched.coal = 3;
	rig_advance(&o.r, NS_PER_MS);
	rig_advance(&o.r, 10 * NS_PER_MS);
	assert_false(o.s->s.bells.is_active);
	assert_int_equal(o.s->s.sched.coal, 0);
	down(&o);
}

/* ... nor is there a tick for a QP that is in error, whose first posting rings. */
static void qp_in_error_coalesces_nothing(void **state)
{
	struct one o;

	(void)state;
	up(&o);
	o.s->s.sched.coal = 3;
	fast_arm_all(o.r.f);
	assert_true(o.r.f->coalesces);
	rig_state(&o.r, o.qp, IBV_QPS_ERR);
	fast_arm_all(o.r.f);
	assert_false(o.r.f->coalesces);
	assert_int_equal(atomic_load(&o.qp->qp.hdr->evt), o.qp->qp.sq.head);
	down(&o);
}

/* In error receives are flushed as they come: asleep, the router wants to hear of them. */
static void error_asks_for_receives(void **state)
{
	struct one o;

	(void)state;
	up(&o);
	rig_state(&o.r, o.qp, IBV_QPS_ERR);
	rig_run(&o.r);
	atomic_store(&o.qp->qp.hdr->rq_need, 0); /* a receive was announced and flushed */
	assert_true(fast_arm_all(o.r.f));
	assert_int_equal(atomic_load(&o.qp->qp.hdr->rq_need), 1);
	down(&o);
}

/* A request that can go on at once is work, though nothing was posted. */
static void unfinished_work_keeps_awake(void **state)
{
	struct one o;

	(void)state;
	up(&o);
	post(&o, 1);
	rig_run(&o.r);
	assert_true(o.qp->qp.busy);
	assert_true(fast_arm_all(o.r.f)); /* the fake waits */
	fast_qp_activate(o.r.f, &o.qp->qp);
	assert_false(fast_arm_all(o.r.f));
	down(&o);
}

static void many_laps(void **state)
{
	struct ff_cqe e;
	struct one o;

	(void)state;
	up(&o);
	for (uint64_t i = 0; i < 100000; i++) {
		post(&o, i);
		rig_run(&o.r);
		fake_complete(o.r.f, IBV_WC_SUCCESS);
		assert_true(rig_poll(o.cq, &e));
		assert_int_equal(e.wr_id, i);
	}
	rig_run(&o.r);
	assert_int_equal((uint32_t)atomic_load(&o.qp->qp.hdr->sq_done), 100000);
	down(&o);
}

/* What the client writes into its header is not believed. */
static void absurd_indices(void **state)
{
	struct one o;

	(void)state;
	up(&o);
	memset(o.s->s.hdr, 0xff, sizeof(*o.s->s.hdr)); /* dirty bits of QPs that do not exist */
	rig_run(&o.r);
	atomic_store(&o.cq->cq.hdr->ci, 0x80000000);
	for (uint64_t i = 0; i < 64; i++) {
		post(&o, i);
		rig_run(&o.r);
		fake_complete(o.r.f, IBV_WC_SUCCESS);
	}
	post(&o, 64);
	rig_run(&o.r);
	fake_complete(o.r.f, IBV_WC_SUCCESS);
	rig_run(&o.r);
	/* the absurd consumer index made no room: an overrun, told to that client */
	assert_int_equal(rig_async(o.s, NULL), IBV_EVENT_CQ_ERR + 1);
	for (uint64_t i = 0; i < 64; i++) {
		struct ff_cqe *c = &o.cq->cq.ring[i];

		assert_int_equal(c->wr_id, i);
	}
	down(&o);
}

static void unsignalled_completes_silently(void **state)
{
	struct ff_cqe e;
	struct one o;

	(void)state;
	up(&o);
	rig_sqe(o.qp, FF_OP_WRITE, 1)->flags = 0;
	rig_post(&o.r, o.qp);
	rig_run(&o.r);
	assert_int_equal((uint32_t)atomic_load(&o.qp->qp.hdr->sq_done), 0); /* under way */
	fake_complete(o.r.f, IBV_WC_SUCCESS);
	rig_run(&o.r);
	assert_false(rig_poll(o.cq, &e));
	assert_int_equal((uint32_t)atomic_load(&o.qp->qp.hdr->sq_done), 1);
	down(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(watched_qp_needs_no_bell),
		cmocka_unit_test(new_qp_asks_for_a_bell),
		cmocka_unit_test(idle_qp_asks_for_a_bell),
		cmocka_unit_test(coalesced_bell),
		cmocka_unit_test(arming_finds_what_came_before),
		cmocka_unit_test(coalescing_fits_the_ring),
		cmocka_unit_test(idle_session_coalesces_nothing),
		cmocka_unit_test(qp_in_error_coalesces_nothing),
		cmocka_unit_test(error_asks_for_receives),
		cmocka_unit_test(unfinished_work_keeps_awake),
		cmocka_unit_test(many_laps),
		cmocka_unit_test(absurd_indices),
		cmocka_unit_test(unsignalled_completes_silently),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
