/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/lib/rig.c */
/*
 * test_comp.c - ffr/fast/comp.c: when a completion event is sent, with moderation and without.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "tests/lib/rig.h"

#define US NS_PER_US

static int setup(void **state)
{
	static struct rig_one f;

	rig_one_open(&f, &soft_ops, IBV_QPT_UD, 64, true);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct rig_one *f = *state;
	bool armed;

	rig_qp_free(&f->r, f->qp);
	rig_cq_free(&f->r, f->cq);
	armed = timer_next(&f->r.f->timers) != UINT64_MAX;
	rig_session_free(&f->r, f->s);
	rig_fini(&f->r);
	return armed ? -1 : 0; /* a timer of a CQ that is gone */
}

/* n receives complete, in one turn. */
static void complete(struct rig_one *f, unsigned n, bool solicited)
{
	const struct recv_info info = { .flags = solicited ? FF_CQE_SOLICITED : 0 };
	struct ff_cqe c;

	for (unsigned i = 0; i < n; i++)
		comp_recv(f->r.f, &f->qp->qp, i, IBV_WC_SUCCESS, FF_VERR_NONE, &info);
	comp_notify(f->r.f);
	while (rig_poll(f->cq, &c))
		;
}

static void arm(struct rig_one *f, uint32_t how)
{
	atomic_store(&f->cq->cq.hdr->arm, how);
}

/* Events that the client finds in the channel now. */
static unsigned events(struct rig_one *f)
{
	struct ff_comp_event ev;
	unsigned n = 0;

	while (recv(f->cq->channel[0], &ev, sizeof(ev), MSG_DONTWAIT) == sizeof(ev)) {
		assert_int_equal(ev.cq, f->cq->cq.o.handle);
		n++;
	}
	return n;
}

static void at_once(void **state)
{
	struct rig_one *f = *state;

	complete(f, 3, false);
	assert_int_equal(events(f), 0);
	arm(f, FF_CQ_ARM_ANY);
	complete(f, 3, false);
	assert_int_equal(events(f), 1);
	assert_int_equal(atomic_load(&f->cq->cq.hdr->arm), FF_CQ_DISARMED);
	arm(f, FF_CQ_ARM_SOLICITED);
	complete(f, 3, false);
	assert_int_equal(events(f), 0);
	complete(f, 1, true);
	assert_int_equal(events(f), 1);
}

/* Half of the rule is none: nothing is held back. */
static void half_a_rule(void **state)
{
	struct rig_one *f = *state;

	fast_cq_moderate(f->r.f, &f->cq->cq, 10, 0);
	arm(f, FF_CQ_ARM_ANY);
	complete(f, 1, false);
	assert_int_equal(events(f), 1);
	fast_cq_moderate(f->r.f, &f->cq->cq, 0, 100);
	arm(f, FF_CQ_ARM_ANY);
	complete(f, 1, false);
	assert_int_equal(events(f), 1);
	fast_cq_moderate(f->r.f, &f->cq->cq, 1, 100);
	arm(f, FF_CQ_ARM_ANY);
	complete(f, 1, false);
	assert_int_equal(events(f), 1);
}

static void count(void **state)
{
	struct rig_one *f = *state;

	fast_cq_moderate(f->r.f, &f->cq->cq, 4, 100);
	for (int lap = 0; lap < 3; lap++) {
		arm(f, FF_CQ_ARM_ANY);
		complete(f, 1, false);
		complete(f, 2, false);
		assert_int_equal(events(f), 0);
		assert_int_equal(atomic_load(&f->cq->cq.hdr->arm), FF_CQ_ARM_ANY);
		complete(f, 1, false);
		assert_int_equal(events(f), 1);
		assert_int_equal(atomic_load(&f->cq->cq.hdr->arm), FF_CQ_DISARMED);
	}
	/* and none is owed */
	rig_advance(&f->r, 1000 * US);
	assert_int_equal(events(f), 0);
}

static void period(void **state)
{
	struct rig_one *f = *state;

	fast_cq_moderate(f->r.f, &f->cq->cq, 4, 100);
	arm(f, FF_CQ_ARM_ANY);
	complete(f, 1, false);
	rig_advance(&f->r, 60 * US);
	complete(f, 1, false); /* does not begin it anew */
	rig_advance(&f->r, 39 * US);
	assert_int_equal(events(f), 0);
	rig_advance(&f->r, 1 * US);
	assert_int_equal(events(f), 1);
	/* nothing has come since, so nothing is to come */
	arm(f, FF_CQ_ARM_ANY);
	rig_advance(&f->r, 1000 * US);
	assert_int_equal(events(f), 0);
	/* the count begins with the event */
	complete(f, 3, false);
	assert_int_equal(events(f), 0);
	complete(f, 1, false);
	assert_int_equal(events(f), 1);
}

/* A solicited completion is held back, too, and the ones after it need not be solicited. */
static void solicited(void **state)
{
	struct rig_one *f = *state;

	fast_cq_moderate(f->r.f, &f->cq->cq, 4, 100);
	arm(f, FF_CQ_ARM_SOLICITED);
	complete(f, 2, false);
	rig_advance(&f->r, 1000 * US);
	assert_int_equal(events(f), 0);
	complete(f, 1, true);
	assert_int_equal(events(f), 0);
	complete(f, 1, false);
	assert_int_equal(events(f), 1);
}

/* A new rule, or none any more, releases what was held back. */
static void changed(void **state)
{
	struct rig_one *f = *state;

	fast_cq_moderate(f->r.f, &f->cq->cq, 4, 100);
	arm(f, FF_CQ_ARM_ANY);
	complete(f, 1, false);
	fast_cq_moderate(f->r.f, &f->cq->cq, 0, 0);
	assert_int_equal(events(f), 1);
	rig_advance(&f->r, 1000 * US);
	assert_int_equal(events(f), 0);
	arm(f, FF_CQ_ARM_ANY);
	complete(f, 1, false);
	assert_int_equal(events(f), 1);
}

/* The ring grows with an event held back: the count goes on. */
static void resized(void **state)
{
	static _Alignas(64) struct ff_cqe ring[128];
	static struct ff_cq_hdr hdr;
	struct cq_move move = { .hdr = &hdr, .ring = ring, .depth = 128 };
	struct rig_one *f = *state;
	struct cq *cq = &f->cq->cq;
	struct ff_cq_hdr *old_hdr = cq->hdr;
	struct ff_cqe *old_ring = cq->ring;

	complete(f, 10, false);
	fast_cq_moderate(f->r.f, cq, 4, 100);
	arm(f, FF_CQ_ARM_ANY);
	complete(f, 2, false);
	assert_int_equal(fast_cq_move(cq, &move), 0);
	f->cq->ci = 0;
	assert_int_equal(events(f), 0);
	complete(f, 1, false);
	assert_int_equal(events(f), 0);
	complete(f, 1, false);
	assert_int_equal(events(f), 1);
	cq->hdr = old_hdr;
	cq->ring = old_ring;
	cq->depth = 64;
}

/* The CQ goes with an event held back: teardown looks for the timer. */
static void destroyed(void **state)
{
	struct rig_one *f = *state;

	fast_cq_moderate(f->r.f, &f->cq->cq, 4, 100);
	arm(f, FF_CQ_ARM_ANY);
	complete(f, 1, false);
	assert_true(timer_next(&f->r.f->timers) != UINT64_MAX);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(at_once),   T(half_a_rule), T(count),	  T(period),
		T(solicited), T(changed),     T(resized), T(destroyed),
	};

	return cmocka_run_group_tests_name("fast_comp", tests, NULL, NULL);
}
