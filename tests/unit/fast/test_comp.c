/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/rig/unit/deep_rig.c tests/rig/unit/soft_pair.c tests/rig/unit/rig.c */
/*
 * test_comp.c - CQs: when a completion event is sent, with moderation and without; overruns, and the
 * move to another ring.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "tests/rig/unit/deep_rig.h"
#include "tests/rig/unit/soft_pair.h"
#include "tests/rig/unit/unit.h"

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
static unsigned events(struct rig_cq *cq)
{
	struct ff_comp_event ev;
	unsigned n = 0;

	while (recv(cq->channel[0], &ev, sizeof(ev), MSG_DONTWAIT) == sizeof(ev)) {
		assert_int_equal(ev.cq, cq->cq.o.handle);
		n++;
	}
	return n;
}

static void at_once(void **state)
{
	struct rig_one *f = *state;

	complete(f, 3, false);
	assert_int_equal(events(f->cq), 0);
	arm(f, FF_CQ_ARM_ANY);
	complete(f, 3, false);
	assert_int_equal(events(f->cq), 1);
	assert_int_equal(atomic_load(&f->cq->cq.hdr->arm), FF_CQ_DISARMED);
	arm(f, FF_CQ_ARM_SOLICITED);
	complete(f, 3, false);
	assert_int_equal(events(f->cq), 0);
	complete(f, 1, true);
	assert_int_equal(events(f->cq), 1);
}

/* Events go out as the completions came: who gets a message is woken before its sender. */
static void in_order(void **state)
{
	struct rig_one *f = *state;
	struct rig_cq *other = rig_cq(&f->r, f->s, 8, false);
	struct rig_qp *qp = rig_qp(&f->r, f->s, IBV_QPT_RC, other, other, NULL);
	const struct recv_info info = { 0 };
	struct ff_comp_event ev;

	other->cq.channel = &f->cq->chan;
	for (int i = 0; i < 2; i++) {
		struct rig_qp *first = i ? qp : f->qp, *second = i ? f->qp : qp;

		atomic_store(&f->cq->cq.hdr->arm, FF_CQ_ARM_ANY);
		atomic_store(&other->cq.hdr->arm, FF_CQ_ARM_ANY);
		comp_recv(f->r.f, &first->qp, 1, IBV_WC_SUCCESS, FF_VERR_NONE, &info);
		comp_recv(f->r.f, &second->qp, 1, IBV_WC_SUCCESS, FF_VERR_NONE, &info);
		comp_notify(f->r.f);
		assert_int_equal(recv(f->cq->channel[0], &ev, sizeof(ev), 0), sizeof(ev));
		assert_int_equal(ev.cq, first->qp.rcq->o.handle);
		assert_int_equal(recv(f->cq->channel[0], &ev, sizeof(ev), 0), sizeof(ev));
		assert_int_equal(ev.cq, second->qp.rcq->o.handle);
	}
	rig_qp_free(&f->r, qp);
	other->cq.channel = NULL;
	rig_cq_free(&f->r, other);
}

/* The period begins with the completion, though the runner lost its CPU since the turn began. */
static void period_of_a_preempted_turn(void **state)
{
	struct rig_one *f = *state;
	uint64_t before = fast_clock();

	fast_cq_moderate(f->r.f, &f->cq->cq, 4, 100);
	arm(f, FF_CQ_ARM_ANY);
	f->r.f->now = before - 1000 * US;
	f->r.f->ticks = true;
	complete(f, 1, false);
	f->r.f->ticks = false;
	assert_true(timer_next(&f->r.f->timers) >= before + 100 * US);
	assert_int_equal(events(f->cq), 0);
}

/* Half of the rule is none: nothing is held back. */
static void half_a_rule(void **state)
{
	struct rig_one *f = *state;

	fast_cq_moderate(f->r.f, &f->cq->cq, 10, 0);
	arm(f, FF_CQ_ARM_ANY);
	complete(f, 1, false);
	assert_int_equal(events(f->cq), 1);
	fast_cq_moderate(f->r.f, &f->cq->cq, 0, 100);
	arm(f, FF_CQ_ARM_ANY);
	complete(f, 1, false);
	assert_int_equal(events(f->cq), 1);
	fast_cq_moderate(f->r.f, &f->cq->cq, 1, 100);
	arm(f, FF_CQ_ARM_ANY);
	complete(f, 1, false);
	assert_int_equal(events(f->cq), 1);
}

static void count(void **state)
{
	struct rig_one *f = *state;

	fast_cq_moderate(f->r.f, &f->cq->cq, 4, 100);
	for (int lap = 0; lap < 3; lap++) {
		arm(f, FF_CQ_ARM_ANY);
		complete(f, 1, false);
		complete(f, 2, false);
		assert_int_equal(events(f->cq), 0);
		assert_int_equal(atomic_load(&f->cq->cq.hdr->arm), FF_CQ_ARM_ANY);
		complete(f, 1, false);
		assert_int_equal(events(f->cq), 1);
		assert_int_equal(atomic_load(&f->cq->cq.hdr->arm), FF_CQ_DISARMED);
	}
	/* and none is owed */
	rig_advance(&f->r, 1000 * US);
	assert_int_equal(events(f->cq), 0);
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
	assert_int_equal(events(f->cq), 0);
	rig_advance(&f->r, 1 * US);
	assert_int_equal(events(f->cq), 1);
	/* nothing has come since, so nothing is to come */
	arm(f, FF_CQ_ARM_ANY);
	rig_advance(&f->r, 1000 * US);
	assert_int_equal(events(f->cq), 0);
	/* the count begins with the event */
	complete(f, 3, false);
	assert_int_equal(events(f->cq), 0);
	complete(f, 1, false);
	assert_int_equal(events(f->cq), 1);
}

/* A solicited completion is held back, too, and the ones after it need not be solicited. */
static void solicited(void **state)
{
	struct rig_one *f = *state;

	fast_cq_moderate(f->r.f, &f->cq->cq, 4, 100);
	arm(f, FF_CQ_ARM_SOLICITED);
	complete(f, 2, false);
	rig_advance(&f->r, 1000 * US);
	assert_int_equal(events(f->cq), 0);
	complete(f, 1, true);
	assert_int_equal(events(f->cq), 0);
	complete(f, 1, false);
	assert_int_equal(events(f->cq), 1);
}

/* A new rule, or none any more, releases what was held back. */
static void changed(void **state)
{
	struct rig_one *f = *state;

	fast_cq_moderate(f->r.f, &f->cq->cq, 4, 100);
	arm(f, FF_CQ_ARM_ANY);
	complete(f, 1, false);
	fast_cq_moderate(f->r.f, &f->cq->cq, 0, 0);
	assert_int_equal(events(f->cq), 1);
	rig_advance(&f->r, 1000 * US);
	assert_int_equal(events(f->cq), 0);
	arm(f, FF_CQ_ARM_ANY);
	complete(f, 1, false);
	assert_int_equal(events(f->cq), 1);
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
	assert_int_equal(events(f->cq), 0);
	complete(f, 1, false);
	assert_int_equal(events(f->cq), 0);
	complete(f, 1, false);
	assert_int_equal(events(f->cq), 1);
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

/* ---- without moderation ---------------------------------------------------------------------- */

static void cq_overrun(void **state)
{
	struct pair *p = *state;

	for (int i = 0; i < 65; i++) {
		pair_rdma(p, FF_OP_WRITE, (uint64_t)i, 0, 0, 8);
		rig_run(&p->r);
	}
	assert_int_equal(rig_async(p->s[0], NULL), IBV_EVENT_CQ_ERR + 1);
	assert_int_equal(rig_async(p->s[0], NULL), IBV_EVENT_QP_FATAL + 1);
	assert_int_equal(p->qp[0]->qp.state, IBV_QPS_ERR);
}

/* A receive that finds no room takes its QP to ERR, too: the program would wait for it for ever. */
static void cq_overrun_by_receives(void **state)
{
	const struct recv_info info = { 0 };
	struct pair *p = *state;

	for (uint64_t i = 0; i < 65; i++)
		comp_recv(p->r.f, &p->qp[1]->qp, i, IBV_WC_SUCCESS, FF_VERR_NONE, &info);
	assert_int_equal(rig_async(p->s[1], NULL), IBV_EVENT_CQ_ERR + 1);
	assert_int_equal(rig_async(p->s[1], NULL), IBV_EVENT_QP_FATAL + 1);
	assert_int_equal(p->qp[1]->qp.state, IBV_QPS_ERR);
}

static void completion_events(void **state)
{
	struct pair *p = *state;
	struct ff_sqe *e;

	pair_rdma(p, FF_OP_WRITE, 1, 0, 0, 8);
	rig_run(&p->r);
	assert_int_equal(events(p->cq[0]), 0); /* not armed */
	atomic_store(&p->cq[0]->cq.hdr->arm, FF_CQ_ARM_ANY);
	rig_run(&p->r);
	assert_int_equal(events(p->cq[0]), 0); /* what was there before does not count */
	pair_rdma(p, FF_OP_WRITE, 2, 0, 0, 8);
	pair_rdma(p, FF_OP_WRITE, 3, 0, 0, 8);
	rig_run(&p->r);
	assert_int_equal(events(p->cq[0]), 1);
	/* solicited only */
	atomic_store(&p->cq[1]->cq.hdr->arm, FF_CQ_ARM_SOLICITED);
	for (int i = 0; i < 2; i++)
		rig_recv(&p->r, p->qp[1], 9, p->mr[1], pair_at(p, 1, 0), 8);
	pair_send(p, 4, 8);
	rig_run(&p->r);
	assert_int_equal(events(p->cq[1]), 0);
	e = rig_sqe(p->qp[0], FF_OP_SEND, 5);
	rig_sge(e, p->mr[0], pair_at(p, 0, 0), 8);
	e->flags |= FF_SQE_SOLICITED;
	rig_post(&p->r, p->qp[0]);
	rig_run(&p->r);
	assert_int_equal(events(p->cq[1]), 1);
	/* and an error, which nobody can solicit */
	atomic_store(&p->cq[0]->cq.hdr->arm, FF_CQ_ARM_SOLICITED);
	e = rig_sqe(p->qp[0], FF_OP_WRITE, 6);
	rig_sge(e, p->mr[0], pair_at(p, 0, 0), 8);
	e->rkey = 0;
	rig_post(&p->r, p->qp[0]);
	rig_run(&p->r);
	assert_int_equal(events(p->cq[0]), 1);
}

/* ---- another ring ----------------------------------------------------------------------------- */

static void cq_switch_keeps_order(void **state)
{
	struct ff_cqe *ring = calloc(128, sizeof(*ring)), *old;
	struct ff_cq_hdr *hdr = aligned_alloc(64, sizeof(*hdr)), *old_hdr;
	struct cq_move move = { .hdr = hdr, .ring = ring, .depth = 128 };
	struct pair p;

	(void)state;
	memset(hdr, 0, sizeof(*hdr));
	pair_up(&p, IBV_QPT_RC, 0, 1);
	for (int i = 0; i < 70; i++) {
		pair_rdma(&p, FF_OP_WRITE, (uint64_t)i, 0, 0, 8);
		rig_run(&p.r);
		if (i < 40)
			pair_expect(p.cq[0], (uint64_t)i, IBV_WC_SUCCESS);
	}
	old = p.cq[0]->cq.ring;
	old_hdr = p.cq[0]->cq.hdr;
	assert_int_equal(fast_cq_move(&p.cq[0]->cq, &move), 0);
	munmap(old, 64 * sizeof(*old));
	munmap(old_hdr, sizeof(*old_hdr));
	p.cq[0]->ci = 0;
	for (int i = 70; i < 160; i++) {
		pair_rdma(&p, FF_OP_WRITE, (uint64_t)i, 0, 0, 8);
		rig_run(&p.r);
	}
	for (int i = 40; i < 160; i++)
		pair_expect(p.cq[0], (uint64_t)i, IBV_WC_SUCCESS);
	pair_expect_none(p.cq[0]);
	/* the rig unmaps what it finds */
	p.cq[0]->cq.ring =
		mmap(NULL, 128 * sizeof(*ring), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	p.cq[0]->cq.hdr = mmap(NULL, sizeof(*hdr), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pair_down(&p);
	free(ring);
	free(hdr);
}

static void complete_ids(struct rig_one *f, uint64_t *id, uint32_t n)
{
	static const struct recv_info none;

	while (n--)
		comp_recv(f->r.f, &f->qp->qp, (*id)++, IBV_WC_SUCCESS, FF_VERR_NONE, &none);
}

/* Completions that come while a CQ moves are behind those that it had. */
static void cq_moves(void **state)
{
	struct rig_one *f = *state;
	struct cq *cq = &f->cq->cq;
	struct ff_cqe *ring = aligned_alloc(64, 4 * DEEP * sizeof(*ring)), *old = cq->ring, e;
	struct ff_cq_hdr hdr = { 0 }, *old_hdr = cq->hdr;
	struct cq_move move = { .hdr = &hdr, .ring = ring, .depth = 4 * DEEP };
	uint64_t id = 0;
	int steps = 0;

	memset(ring, 0, 4 * DEEP * sizeof(*ring));
	complete_ids(f, &id, 3500);
	for (uint64_t i = 0; i < 100; i++)
		assert_true(rig_poll(f->cq, &e));
	while (fast_cq_move(cq, &move) == -EAGAIN) {
		steps++;
		assert_ptr_equal(cq->ring, old);
		assert_int_equal(move.n, steps * CQ_MOVE);
		complete_ids(f, &id, 10);
	}
	assert_int_equal(steps, 3);
	assert_ptr_equal(cq->ring, ring);
	f->cq->ci = 0;
	complete_ids(f, &id, 10);
	for (uint64_t i = 100; i < id; i++) {
		assert_true(rig_poll(f->cq, &e));
		assert_int_equal(e.wr_id, i);
	}
	assert_false(rig_poll(f->cq, &e));
	cq->ring = old;
	cq->hdr = old_hdr;
	cq->depth = 2 * DEEP;
	free(ring);
}

/* A client that says that it has consumed less than it was given, or adds without an end. */
static void cq_does_not_fit(void **state)
{
	struct rig_one *f = *state;
	struct cq *cq = &f->cq->cq;
	struct ff_cqe ring[16] = { 0 }, *old = cq->ring;
	struct ff_cq_hdr hdr = { 0 };
	struct cq_move move = { .hdr = &hdr, .ring = ring, .depth = 16 };
	uint64_t id = 0;

	complete_ids(f, &id, 17);
	assert_int_equal(fast_cq_move(cq, &move), -EINVAL);
	assert_ptr_equal(cq->ring, old);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	return UNIT_RUN(T(at_once), T(in_order), T(half_a_rule), T(count), T(period),
			T(period_of_a_preempted_turn), T(solicited), T(changed), T(resized),
			T(destroyed), PAIR_TEST(completion_events), PAIR_TEST(cq_overrun),
			PAIR_TEST(cq_overrun_by_receives), cmocka_unit_test(cq_switch_keeps_order),
			DEEP_TEST(cq_moves), DEEP_TEST(cq_does_not_fit));
}
