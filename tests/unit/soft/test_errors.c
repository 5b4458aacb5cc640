/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/unit/lib/soft_pair.c tests/lib/rig.c */
/*
 * test_errors.c - the software device: what each side of a request sees when it fails, by peers
 * that do not answer or have no receive, keys, rights, bounds and malformed WRs.
 */
#include <string.h>
#include <sys/socket.h>

#include "tests/unit/lib/soft_pair.h"

#define RNR_TIMER (640 * NS_PER_US) /* field 12, soft_pair.c's */

static void rnr_retries_then_fails(void **state)
{
	struct pair p;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	pair_send(&p, 1, 8);
	pair_send(&p, 2, 8);
	rig_run(&p.r);
	pair_expect_none(p.cq[0]);
	rig_advance(&p.r, RNR_TIMER); /* first retry */
	rig_advance(&p.r, RNR_TIMER - 1);
	pair_expect_none(p.cq[0]);
	rig_advance(&p.r, 1); /* second and last retry */
	pair_expect(p.cq[0], 1, IBV_WC_RNR_RETRY_EXC_ERR);
	pair_expect(p.cq[0], 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(p.qp[0]->qp.state, IBV_QPS_ERR);
	assert_int_equal(p.qp[1]->qp.state, IBV_QPS_RTS);
	assert_int_equal(stats_of_session(&p.s[0]->s).rnr, 3);
	pair_down(&p);
}

static void rnr_goes_on_when_a_receive_is_posted(void **state)
{
	struct pair p;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	p.qp[0]->qp.attr.rnr_retry = 7;
	pair_send(&p, 1, 8);
	rig_run(&p.r);
	for (int i = 0; i < 7; i++)
		rig_advance(&p.r, RNR_TIMER);
	assert_int_equal(stats_of_session(&p.s[0]->s).rnr, 8);
	for (int i = 0; i < 100; i++)
		rig_advance(&p.r, RNR_TIMER);
	pair_expect_none(p.cq[0]); /* 7 is for ever, but seldom in the end: 64 ms, every 10 */
	assert_int_equal(stats_of_session(&p.s[0]->s).rnr, 8 + 6);
	rig_recv(&p.r, p.qp[1], 9, p.mr[1], pair_at(&p, 1, 0), 8);
	rig_run(&p.r); /* without the timer */
	pair_expect(p.cq[0], 1, IBV_WC_SUCCESS);
	pair_expect(p.cq[1], 9, IBV_WC_SUCCESS);
	/* the hint of a receive is missed: the next try finds it, also at the next wait */
	for (int i = 0; i < 3; i++) {
		pair_send(&p, 2, 8);
		rig_run(&p.r);
		atomic_store(&p.qp[1]->qp.hdr->rq_need, 0);
		rig_recv(&p.r, p.qp[1], 9, p.mr[1], pair_at(&p, 1, 0), 8);
		rig_run(&p.r);
		rig_advance(&p.r, RNR_TIMER);
		pair_expect(p.cq[0], 2, IBV_WC_SUCCESS);
		pair_expect(p.cq[1], 9, IBV_WC_SUCCESS);
	}
	pair_down(&p);
}

static void dead_peer_exceeds_retries(void **state)
{
	struct pair p;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	rig_qp_free(&p.r, p.qp[1]);
	p.qp[1] = NULL;
	pair_rdma(&p, FF_OP_WRITE, 1, 0, 0, 8);
	pair_rdma(&p, FF_OP_WRITE, 2, 0, 0, 8);
	rig_run(&p.r);
	pair_wait_for_tries(&p);
	pair_expect(p.cq[0], 1, IBV_WC_RETRY_EXC_ERR);
	pair_expect(p.cq[0], 2, IBV_WC_WR_FLUSH_ERR);
	pair_down(&p);
}

static void late_peer_is_reached_at_once(void **state)
{
	struct pair p;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	rig_state(&p.r, p.qp[1], IBV_QPS_RESET);
	pair_rdma(&p, FF_OP_WRITE, 1, 0, 0, 8);
	rig_run(&p.r);
	pair_expect_none(p.cq[0]);
	rig_connect(&p.r, p.qp[1], p.qp[0]);
	rig_run(&p.r);
	pair_expect(p.cq[0], 1, IBV_WC_SUCCESS);
	pair_down(&p);
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
static void spoil_pd(struct pair *p, struct ff_sqe *e)
{
	static struct pd other;

	(void)e;
	p->mr[1]->pd = &other;
}
static void spoil_qp_right(struct pair *p, struct ff_sqe *e)
{
	(void)e;
	p->qp[1]->qp.attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
}

static void remote_access_errors(void **state)
{
	static void (*const spoils[])(struct pair *, struct ff_sqe *) = {
		spoil_rkey, spoil_own_key, spoil_bounds, spoil_below, spoil_right, spoil_pd,
	};
	struct pair p;

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(spoils); i++)
		remote_access(&p, spoils[i], IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
	remote_access(&p, spoil_qp_right, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
}

static void local_protection(void **state)
{
	struct pair p;
	struct ff_sqe *e;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	e = rig_sqe(p.qp[0], FF_OP_WRITE, 1);
	rig_sge(e, p.mr[1], pair_at(&p, 1, 0), 8); /* the peer's key */
	e->remote_addr = pair_at(&p, 1, 0);
	e->rkey = p.mr[1]->rkey;
	rig_post(&p.r, p.qp[0]);
	rig_run(&p.r);
	pair_expect(p.cq[0], 1, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(p.qp[1]->qp.state, IBV_QPS_RTS); /* the peer has seen nothing */
	pair_down(&p);
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

static void malformed_wqes(void **state)
{
	struct pair p;
	struct ff_sqe *e;

	(void)state;
	for (int i = 0; i < 5; i++) {
		pair_up(&p, IBV_QPT_RC, 0, 1);
		e = rig_sqe(p.qp[0], FF_OP_SEND, 1);
		switch (i) {
		case 0:
			e->opcode = 0;
			break;
		case 1:
			e->opcode = 200;
			break;
		case 2:
			e->num_sge = 5;
			break;
		case 3:
			e->flags |= FF_SQE_INLINE;
			e->num_sge = 65;
			break;
		case 4:
			e->opcode = FF_OP_READ;
			e->flags |= FF_SQE_INLINE;
			break;
		}
		rig_post(&p.r, p.qp[0]);
		rig_run(&p.r);
		pair_expect(p.cq[0], 1, IBV_WC_LOC_QP_OP_ERR);
		assert_int_equal(stats_of_session(&p.s[0]->s).bad_wqes, 1);
		assert_int_equal(p.qp[1]->qp.state, IBV_QPS_RTS);
		pair_down(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rnr_retries_then_fails),
		cmocka_unit_test(rnr_goes_on_when_a_receive_is_posted),
		cmocka_unit_test(dead_peer_exceeds_retries),
		cmocka_unit_test(late_peer_is_reached_at_once),
		cmocka_unit_test(remote_access_errors),
		cmocka_unit_test(local_protection),
		cmocka_unit_test(receive_errors),
		cmocka_unit_test(malformed_wqes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
