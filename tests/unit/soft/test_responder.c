/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/rig/unit/soft_pair.c tests/rig/unit/rig.c */
/*
 * test_responder.c - what the receiving QP refuses, and how: rights, bounds, keys, receives that are too
 * short or reach nothing. What UC drops.
 */
#include <string.h>

#include "tests/rig/unit/soft_pair.h"
#include "tests/rig/unit/unit.h"

/* One of nothing names no memory, but the QP must take WRITEs all the same (IBTA 9.7.4.1). */
static void write_imm_refused(void **state)
{
	for (uint32_t len = 0; len < 2; len++) {
		struct pair p;

		(void)state;
		pair_up(&p, IBV_QPT_RC, 0, 1);
		rig_recv(&p.r, p.qp[1], 1, NULL, 0, 0);
		p.qp[1]->qp.attr.qp_access_flags &= ~(unsigned)IBV_ACCESS_REMOTE_WRITE;
		pair_rdma(&p, FF_OP_WRITE_IMM, 2, 3, 5, len);
		rig_run(&p.r);
		pair_expect(p.cq[0], 2, IBV_WC_REM_INV_REQ_ERR);
		pair_expect(p.cq[1], 1, IBV_WC_WR_FLUSH_ERR);
		pair_down(&p);
	}
}

static void remote_access(struct pair *p, void (*spoil)(struct pair *, struct ff_sqe *),
			  enum ibv_wc_status st, enum ibv_event_type ev)
{
	struct ff_sqe *e;

	pair_up(p, IBV_QPT_RC, 0, 1);
	memset(p->buf[1], 0x55, 64);
	rig_recv(&p->r, p->qp[1], 70, p->mr[1], pair_at(p, 1, 0), 8);
	e = rig_sqe(p->qp[0], FF_OP_WRITE, 1);
	rig_sge(e, p->mr[0], pair_at(p, 0, 0), 8);
	e->remote_addr = pair_at(p, 1, 0);
	e->rkey = p->mr[1]->rkey;
	spoil(p, e);
	rig_post(&p->r, p->qp[0]);
	pair_rdma(p, FF_OP_WRITE, 2, 0, 0, 8);
	rig_run(&p->r);
	pair_expect(p->cq[0], 1, st);
	pair_expect(p->cq[0], 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(p->buf[1][0], 0x55);
	assert_int_equal(p->qp[0]->qp.state, IBV_QPS_ERR);
	assert_int_equal(p->qp[1]->qp.state, IBV_QPS_ERR);
	pair_expect(p->cq[1], 70, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(rig_async(p->s[1], NULL), ev + 1);
	pair_down(p);
}

static void spoil_rkey(struct pair *p, struct ff_sqe *e)
{
	(void)p;
	e->rkey ^= 0x5a5a;
}
static void spoil_own_key(struct pair *p, struct ff_sqe *e)
{
	e->rkey = p->mr[0]->rkey;
}
static void spoil_bounds(struct pair *p, struct ff_sqe *e)
{
	e->remote_addr = pair_at(p, 1, PAIR_BUF - 7);
}
static void spoil_below(struct pair *p, struct ff_sqe *e)
{
	e->remote_addr = pair_at(p, 1, 0) - 1;
}
static void spoil_right(struct pair *p, struct ff_sqe *e)
{
	(void)e;
	p->mr[1]->access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
}
static void spoil_qp_right(struct pair *p, struct ff_sqe *e)
{
	(void)e;
	p->qp[1]->qp.attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
}

static void remote_access_errors(void **state)
{
	static void (*const spoils[])(struct pair *, struct ff_sqe *) = {
		spoil_rkey, spoil_own_key, spoil_bounds, spoil_below, spoil_right, pair_spoil_pd,
	};
	struct pair p;

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(spoils); i++)
		remote_access(&p, spoils[i], IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
	remote_access(&p, spoil_qp_right, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
}

/* The key is looked at before a receive is waited for. */
static void a_wrong_key_waits_for_no_receive(void **state)
{
	struct pair *p = *state;
	struct ff_sqe *e = rig_sqe(p->qp[0], FF_OP_WRITE_IMM, 1);

	rig_sge(e, p->mr[0], pair_at(p, 0, 0), 8);
	e->remote_addr = pair_at(p, 1, 0);
	e->rkey = p->mr[1]->rkey ^ 0x5a5a;
	rig_post(&p->r, p->qp[0]);
	rig_run(&p->r);
	pair_expect(p->cq[0], 1, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(p->qp[1]->qp.state, IBV_QPS_ERR);
	assert_int_equal(rig_async(p->s[1], NULL), IBV_EVENT_QP_ACCESS_ERR + 1);
}

static void receive_errors(void **state)
{
	struct pair p;

	(void)state;
	/* too short */
	pair_up(&p, IBV_QPT_RC, 0, 1);
	rig_recv(&p.r, p.qp[1], 9, p.mr[1], pair_at(&p, 1, 0), 7);
	pair_send(&p, 1, 8);
	rig_run(&p.r);
	pair_expect(p.cq[0], 1, IBV_WC_REM_INV_REQ_ERR);
	pair_expect(p.cq[1], 9, IBV_WC_LOC_LEN_ERR);
	pair_down(&p);
	/* no right to write */
	pair_up(&p, IBV_QPT_RC, 0, 1);
	p.mr[1]->access = 0;
	rig_recv(&p.r, p.qp[1], 9, p.mr[1], pair_at(&p, 1, 0), 8);
	pair_send(&p, 1, 8);
	rig_run(&p.r);
	pair_expect(p.cq[0], 1, IBV_WC_REM_OP_ERR);
	pair_expect(p.cq[1], 9, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(p.qp[1]->qp.state, IBV_QPS_ERR);
	pair_down(&p);
}

/* A client cannot know that a receive of its SRQ went with a QP: the router counts it for the client. */
static void a_receive_of_an_srq_that_is_lost(void **state)
{
	struct pair *p = *state;
	struct rig_srq *srq = rig_srq(&p->r, p->s[1], 8);
	struct rig_qp *q = rig_qp(&p->r, p->s[1], IBV_QPT_RC, p->cq[1], p->cq[1], srq);

	rig_connect(&p->r, q, p->qp[0]);
	rig_state(&p->r, p->qp[0], IBV_QPS_RESET);
	rig_connect(&p->r, p->qp[0], q);
	p->r.f->conf.quantum = 4096;
	rig_srq_recv(&p->r, srq, 1, p->mr[1], pair_at(p, 1, 0), 100000);
	pair_send(p, 1, 100000);
	while (q->qp.soft->resp.recv != RECV_TAKEN)
		assert_true(fast_turn(p->r.f));
	assert_int_equal(atomic_load(&srq->srq.hdr->lost), 0);
	rig_state(&p->r, q, IBV_QPS_RESET);
	assert_int_equal(atomic_load(&srq->srq.hdr->lost), 1);
	pair_expect_none(p->cq[1]);
	rig_qp_free(&p->r, q);
	rig_srq_free(&p->r, srq);
}

static void uc_drops(void **state)
{
	struct pair p;
	struct ff_sqe *e;

	(void)state;
	pair_up(&p, IBV_QPT_UC, 0, 1);
	pair_send(&p, 1, 8); /* no receive */
	e = rig_sqe(p.qp[0], FF_OP_WRITE, 2);
	rig_sge(e, p.mr[0], pair_at(&p, 0, 0), 8);
	e->remote_addr = pair_at(&p, 1, 0);
	e->rkey = 1;
	rig_post(&p.r, p.qp[0]);
	rig_run(&p.r);
	pair_expect(p.cq[0], 1, IBV_WC_SUCCESS);
	pair_expect(p.cq[0], 2, IBV_WC_SUCCESS);
	assert_int_equal(p.qp[1]->qp.state, IBV_QPS_RTS);
	assert_int_equal(stats_of_session(&p.s[0]->s).ud_drops, 2);
	/* too short a receive is kept for a message that fits */
	rig_recv(&p.r, p.qp[1], 9, p.mr[1], pair_at(&p, 1, 0), 8);
	pair_send(&p, 3, 9);
	pair_send(&p, 4, 8);
	rig_run(&p.r);
	pair_expect(p.cq[1], 9, IBV_WC_SUCCESS);
	pair_expect_none(p.cq[1]);
	/* UC does not do READ: the send queue stops, receives go on */
	pair_rdma(&p, FF_OP_READ, 5, 0, 0, 8);
	rig_run(&p.r);
	pair_expect(p.cq[0], 3, IBV_WC_SUCCESS);
	pair_expect(p.cq[0], 4, IBV_WC_SUCCESS);
	pair_expect(p.cq[0], 5, IBV_WC_LOC_QP_OP_ERR);
	assert_int_equal(p.qp[0]->qp.state, IBV_QPS_SQE);
	pair_down(&p);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(write_imm_refused), cmocka_unit_test(remote_access_errors),
			cmocka_unit_test(receive_errors),
			PAIR_TEST(a_wrong_key_waits_for_no_receive),
			PAIR_TEST(a_receive_of_an_srq_that_is_lost), cmocka_unit_test(uc_drops));
}
