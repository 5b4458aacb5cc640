/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/rig/unit/soft_pair.c tests/rig/unit/rig.c */
/*
 * test_requester.c - what ends a WR on the side that sent it: tries that are used up, for a receive or for
 * an answer; its own memory.
 */
#include "tests/rig/unit/soft_pair.h"
#include "tests/rig/unit/unit.h"

#define RNR_TIMER (640 * NS_PER_US) /* field 12, soft_pair.c's */

static void rnr_retries_then_fails(void **state)
{
	struct pair *p = *state;

	pair_send(p, 1, 8);
	pair_send(p, 2, 8);
	rig_run(&p->r);
	pair_expect_none(p->cq[0]);
	rig_advance(&p->r, RNR_TIMER); /* first retry */
	rig_advance(&p->r, RNR_TIMER - 1);
	pair_expect_none(p->cq[0]);
	rig_advance(&p->r, 1); /* second and last retry */
	pair_expect(p->cq[0], 1, IBV_WC_RNR_RETRY_EXC_ERR);
	pair_expect(p->cq[0], 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(p->qp[0]->qp.state, IBV_QPS_ERR);
	assert_int_equal(p->qp[1]->qp.state, IBV_QPS_RTS);
	assert_int_equal(stats_of_session(&p->s[0]->s).rnr, 3);
}

static void rnr_goes_on_when_a_receive_is_posted(void **state)
{
	struct pair *p = *state;

	p->qp[0]->qp.attr.rnr_retry = 7;
	pair_send(p, 1, 8);
	rig_run(&p->r);
	for (int i = 0; i < 7; i++)
		rig_advance(&p->r, RNR_TIMER);
	assert_int_equal(stats_of_session(&p->s[0]->s).rnr, 8);
	for (int i = 0; i < 100; i++)
		rig_advance(&p->r, RNR_TIMER);
	pair_expect_none(p->cq[0]); /* 7 is for ever, but seldom in the end: 64 ms, every 10 */
	assert_int_equal(stats_of_session(&p->s[0]->s).rnr, 8 + 6);
	rig_recv(&p->r, p->qp[1], 9, p->mr[1], pair_at(p, 1, 0), 8);
	rig_run(&p->r); /* without the timer */
	pair_expect(p->cq[0], 1, IBV_WC_SUCCESS);
	pair_expect(p->cq[1], 9, IBV_WC_SUCCESS);
	/* the hint of a receive is missed: the next try finds it, also at the next wait */
	for (int i = 0; i < 3; i++) {
		pair_send(p, 2, 8);
		rig_run(&p->r);
		atomic_store(&p->qp[1]->qp.hdr->rq_need, 0);
		rig_recv(&p->r, p->qp[1], 9, p->mr[1], pair_at(p, 1, 0), 8);
		rig_run(&p->r);
		rig_advance(&p->r, RNR_TIMER);
		pair_expect(p->cq[0], 2, IBV_WC_SUCCESS);
		pair_expect(p->cq[1], 9, IBV_WC_SUCCESS);
	}
}

static void dead_peer_exceeds_retries(void **state)
{
	struct pair *p = *state;

	rig_qp_free(&p->r, p->qp[1]);
	p->qp[1] = NULL;
	pair_rdma(p, FF_OP_WRITE, 1, 0, 0, 8);
	pair_rdma(p, FF_OP_WRITE, 2, 0, 0, 8);
	rig_run(&p->r);
	pair_wait_for_tries(p);
	pair_expect(p->cq[0], 1, IBV_WC_RETRY_EXC_ERR);
	pair_expect(p->cq[0], 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(stats_of_session(&p->s[0]->s).retries, PAIR_TRIES);
}

/* A peer that answers, and goes in the middle of the message, is tried as often as one that never answered. */
static void an_answer_gives_the_tries_back(void **state)
{
	struct pair *p = *state;
	struct qp *qp = &p->qp[0]->qp;

	rig_state(&p->r, p->qp[1], IBV_QPS_RESET);
	pair_rdma(p, FF_OP_WRITE, 1, 0, 0, PAIR_BUF);
	rig_run(&p->r);
	while (qp->stats.retries < PAIR_TRIES - 1)
		rig_advance(&p->r, PAIR_TIMEOUT);
	p->r.f->conf.quantum = 4096;
	rig_connect(&p->r, p->qp[1], p->qp[0]);
	while (!qp->soft->req.x.done)
		assert_true(fast_turn(p->r.f));
	rig_state(&p->r, p->qp[1], IBV_QPS_RESET);
	rig_run(&p->r);
	pair_expect_none(p->cq[0]);
	pair_wait_for_tries(p);
	pair_expect(p->cq[0], 1, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(qp->stats.retries, PAIR_TRIES - 1 + PAIR_TRIES);
}

static void local_protection(void **state)
{
	struct pair *p = *state;
	struct ff_sqe *e;

	e = rig_sqe(p->qp[0], FF_OP_WRITE, 1);
	rig_sge(e, p->mr[1], pair_at(p, 1, 0), 8); /* the peer's key */
	e->remote_addr = pair_at(p, 1, 0);
	e->rkey = p->mr[1]->rkey;
	rig_post(&p->r, p->qp[0]);
	rig_run(&p->r);
	pair_expect(p->cq[0], 1, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(p->qp[1]->qp.state, IBV_QPS_RTS); /* the peer has seen nothing */
}

int main(void)
{
	return UNIT_RUN(PAIR_TEST(rnr_retries_then_fails),
			PAIR_TEST(rnr_goes_on_when_a_receive_is_posted),
			PAIR_TEST(dead_peer_exceeds_retries),
			PAIR_TEST(an_answer_gives_the_tries_back), PAIR_TEST(local_protection));
}
