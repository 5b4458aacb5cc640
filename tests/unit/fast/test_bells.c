/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/rig.c tests/rig/fakes/fake_backend.c tests/rig/unit/fake_rig.c */
/*
 * test_bells.c - how the runner hears of postings: who is looked at, who is to ring and with which
 * posting; with the fake backend.
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/rig/unit/fake_rig.h"
#include "tests/rig/unit/unit.h"

static void bells(struct rig_one *o)
{
	struct epoll_event ev[8];

	fast_bells(o->r.f, ev, epoll_wait(o->r.f->epoll_fd, ev, 8, 0));
}

static void watched_qp_needs_no_bell(void **state)
{
	struct rig_one *o = *state;

	assert_true(o->qp->qp.is_active);
	assert_false(rig_post_as_ffl(o, 1));
	rig_run(&o->r);
	assert_int_equal(fake_posted(), 1);
}

/* To connect a QP is no work for the fast thread: the first posting is, and it rings. */
static void new_qp_asks_for_a_bell(void **state)
{
	struct rig_one *o = *state;
	struct rig_qp *qp;

	qp = o->qp;
	o->qp = rig_qp(&o->r, o->s, IBV_QPT_RC, o->cq, o->cq, NULL);
	fast_qp_set_state(o->r.f, &o->qp->qp, IBV_QPS_INIT);
	fast_qp_set_state(o->r.f, &o->qp->qp, IBV_QPS_RTR);
	fast_qp_set_state(o->r.f, &o->qp->qp, IBV_QPS_RTS);
	assert_false(o->qp->qp.is_active);
	assert_true(rig_post_as_ffl(o, 1));
	rig_run(&o->r);
	assert_int_equal(fake_posted(), 1);
	fake_complete(o->r.f, IBV_WC_SUCCESS);
	/* what a client posts too early rings as well, and is found in RTS */
	fast_qp_reset(o->r.f, &o->qp->qp, o->qp->sq_tail, 0);
	fast_qp_set_state(o->r.f, &o->qp->qp, IBV_QPS_INIT);
	fast_qp_set_state(o->r.f, &o->qp->qp, IBV_QPS_RTR);
	assert_true(rig_post_as_ffl(o, 2));
	rig_run(&o->r);
	rig_advance(&o->r, NS_PER_MS);
	assert_false(o->qp->qp.is_active);
	fast_qp_set_state(o->r.f, &o->qp->qp, IBV_QPS_RTS);
	rig_run(&o->r);
	assert_int_equal(fake_posted(), 2);
	fake_complete(o->r.f, IBV_WC_SUCCESS);
	rig_qp_free(&o->r, o->qp);
	o->qp = qp;
}

static void idle_qp_asks_for_a_bell(void **state)
{
	struct rig_one *o = *state;

	rig_advance(&o->r, NS_PER_MS);
	assert_false(o->qp->qp.is_active);
	rig_advance(&o->r, 10 * NS_PER_MS);
	assert_false(o->s->s.bells.is_active);
	assert_true(rig_post_as_ffl(o, 1));
	rig_run(&o->r);
	assert_int_equal(fake_posted(), 0); /* nobody has looked yet */
	bells(o);
	rig_run(&o->r);
	assert_int_equal(fake_posted(), 1);
	assert_int_equal(o->s->s.stats.bells, 1);
	/* and now it is watched again */
	fake_complete(o->r.f, IBV_WC_SUCCESS);
	assert_false(rig_post_as_ffl(o, 2));
	rig_run(&o->r);
	assert_int_equal(fake_posted(), 2);
}

/* Asleep with coalescing: the announced posting rings, those before it do not. */
static void coalesced_bell(void **state)
{
	struct rig_one *o = *state;

	o->s->s.sched.coal = 3;
	assert_true(fast_arm_all(o->r.f));
	assert_true(o->r.f->coalesces);
	assert_false(rig_post_as_ffl(o, 1));
	assert_false(rig_post_as_ffl(o, 2));
	assert_false(rig_post_as_ffl(o, 3));
	assert_true(fast_arm_all(o->r.f)); /* still counts as nothing to do */
	assert_true(rig_post_as_ffl(o, 4));
	assert_false(fast_arm_all(o->r.f));
	fast_disarm_all(o->r.f);
	for (unsigned i = 1; i <= 4; i++) { /* one is under way at a time */
		rig_run(&o->r);
		assert_int_equal(fake_posted(), i);
		fake_complete(o->r.f, IBV_WC_SUCCESS);
	}
}

static void arming_finds_what_came_before(void **state)
{
	struct rig_one *o = *state;

	rig_sqe(o->qp, FF_OP_WRITE, 1);
	atomic_store(&qp_sqe(&o->qp->qp, 0)->seq, ff_seq(0));
	o->qp->sq_tail++;
	assert_false(fast_arm_all(o->r.f));
}

/* Never more than the ring holds, or the announced posting could not be made. */
static void coalescing_fits_the_ring(void **state)
{
	struct rig_one *o = *state;

	o->s->s.sched.coal = 63;
	fast_arm_all(o->r.f);
	assert_int_equal(atomic_load(&o->qp->qp.hdr->evt), o->qp->qp.sq.depth - 1);
}

/* The tick that serves what is coalesced runs for active sessions only. */
static void idle_session_coalesces_nothing(void **state)
{
	struct rig_one *o = *state;

	o->s->s.sched.coal = 3;
	rig_advance(&o->r, NS_PER_MS);
	rig_advance(&o->r, 10 * NS_PER_MS);
	assert_false(o->s->s.bells.is_active);
	assert_int_equal(o->s->s.sched.coal, 0);
}

/* There is no tick for a QP that is in error, whose first posting rings. */
static void qp_in_error_coalesces_nothing(void **state)
{
	struct rig_one *o = *state;

	o->s->s.sched.coal = 3;
	fast_arm_all(o->r.f);
	assert_true(o->r.f->coalesces);
	rig_state(&o->r, o->qp, IBV_QPS_ERR);
	fast_arm_all(o->r.f);
	assert_false(o->r.f->coalesces);
	assert_int_equal(atomic_load(&o->qp->qp.hdr->evt), o->qp->qp.sq.head);
}

/* In error receives are flushed as they come: asleep, the router wants to hear of them. */
static void error_asks_for_receives(void **state)
{
	struct rig_one *o = *state;

	rig_state(&o->r, o->qp, IBV_QPS_ERR);
	rig_run(&o->r);
	atomic_store(&o->qp->qp.hdr->rq_need, 0); /* a receive was announced and flushed */
	assert_true(fast_arm_all(o->r.f));
	assert_int_equal(atomic_load(&o->qp->qp.hdr->rq_need), 1);
}

/* A request that can go on at once is work, though nothing was posted. */
static void unfinished_work_keeps_awake(void **state)
{
	struct rig_one *o = *state;

	rig_post_as_ffl(o, 1);
	rig_run(&o->r);
	assert_true(o->qp->qp.busy);
	assert_true(fast_arm_all(o->r.f)); /* the fake waits */
	fast_qp_activate(o->r.f, &o->qp->qp);
	assert_false(fast_arm_all(o->r.f));
}

/* A patient runner asks when bells ring, and learns from it. */
static void bells_tell_when(void **state)
{
	struct rig_one *o = *state;
	struct ff_ses_hdr *h = o->s->s.hdr;
	struct sched_patience *p = &o->s->s.sched.patience;
	uint64_t one = 1;

	assert_true(fast_arm_all(o->r.f));
	assert_int_equal(h->need_wakeup, FF_WAKEUP);
	o->r.f->timed = true;
	assert_true(fast_arm_all(o->r.f));
	assert_int_equal(h->need_wakeup, FF_WAKEUP_TIMED);

	p->asleep = p->need = 8;
	h->rang_at = o->r.f->now - 1;
	assert_int_equal(write(o->s->s.bell_fd, &one, sizeof(one)), sizeof(one));
	bells(o);
	assert_int_equal(h->rang_at, 0);
	assert_int_equal(p->in_time, 1);
	/* one that was not asked says nothing */
	assert_int_equal(write(o->s->s.bell_fd, &one, sizeof(one)), sizeof(one));
	bells(o);
	assert_int_equal(p->in_time, 1);
	assert_int_equal(p->asleep, 8);
	h->rang_at = 1; /* long ago */
	o->r.f->now += NS_PER_MS;
	assert_int_equal(write(o->s->s.bell_fd, &one, sizeof(one)), sizeof(one));
	bells(o);
	assert_int_equal(p->asleep, 0);
	assert_int_equal(p->need, 16);
}

/* Until its segment 0 is sealed, a session that rings is not looked at. */
static void bells_can_be_mute(void **state)
{
	struct rig_one *o = *state;
	struct session *s = &o->s->s;
	uint64_t one = 1;

	ses_deactivate(o->r.f, s);
	s->hdr->need_wakeup = FF_WAKEUP;
	s->bells.are_mute = true;
	assert_int_equal(write(s->bell_fd, &one, sizeof(one)), sizeof(one));
	bells(o);
	assert_false(s->bells.is_active);
	assert_int_equal(s->hdr->need_wakeup, FF_WAKEUP);
	s->bells.are_mute = false;
	assert_int_equal(write(s->bell_fd, &one, sizeof(one)), sizeof(one));
	bells(o);
	assert_true(s->bells.is_active);
}

static void *was_ready;

static bool ready(struct fast *f, void *what, uint32_t events)
{
	(void)f;
	assert_int_equal(events, EPOLLIN);
	was_ready = what;
	return true;
}

/* What a carrier has in epoll comes back to the carrier, also where it has not asked fast_watch(). */
static void carriers_hear_of_their_own(void **state)
{
	static const struct carrier one = { .name = "one", .ready = ready };
	static const struct carrier_use list[] = { { &one, NULL }, { 0 } };
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = &ev };
	struct rig_one *o = *state;
	struct fast *f = o->r.f;
	int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK), none;
	uint64_t rung = o->s->s.stats.bells;

	f->be->carriers = list;
	assert_int_equal(fast_watch(f, fd, EPOLLIN, &none), 0);
	bells(o);
	assert_ptr_equal(was_ready, &none);
	assert_int_equal(epoll_ctl(f->epoll_fd, EPOLL_CTL_MOD, fd, &ev), 0);
	bells(o);
	assert_ptr_equal(was_ready, &ev);
	assert_int_equal(o->s->s.stats.bells, rung);
	assert_int_equal(fast_watch(f, fd, EPOLLIN, &none), -EEXIST);
	f->be->carriers = NULL;
	close(fd);
}

int main(void)
{
	return UNIT_RUN(FAKE_TEST(bells_can_be_mute), FAKE_TEST(watched_qp_needs_no_bell),
			FAKE_TEST(new_qp_asks_for_a_bell), FAKE_TEST(idle_qp_asks_for_a_bell),
			FAKE_TEST(coalesced_bell), FAKE_TEST(arming_finds_what_came_before),
			FAKE_TEST(coalescing_fits_the_ring),
			FAKE_TEST(idle_session_coalesces_nothing),
			FAKE_TEST(qp_in_error_coalesces_nothing),
			FAKE_TEST(error_asks_for_receives), FAKE_TEST(unfinished_work_keeps_awake),
			FAKE_TEST(bells_tell_when), FAKE_TEST(carriers_hear_of_their_own));
}
