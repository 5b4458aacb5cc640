/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/rig/unit/soft_pair.c tests/rig/unit/rig.c */
/*
 * test_recv.c - receives as they are taken from a ring: what is malformed, the limit of an SRQ, and
 * the last one of a QP.
 */
#include "tests/rig/unit/soft_pair.h"
#include "tests/rig/unit/unit.h"

static void srq_limit_and_last_wqe(void **state)
{
	struct pair *p = *state;
	struct rig_srq *srq;
	struct rig_qp *q;

	srq = rig_srq(&p->r, p->s[1], 8);
	q = rig_qp(&p->r, p->s[1], IBV_QPT_RC, p->cq[1], p->cq[1], srq);
	rig_connect(&p->r, q, p->qp[0]);
	rig_state(&p->r, p->qp[0], IBV_QPS_RESET);
	rig_connect(&p->r, p->qp[0], q);
	p->qp[0]->qp.attr.rnr_retry = 7;
	for (uint64_t i = 0; i < 3; i++)
		rig_srq_recv(&p->r, srq, 50 + i, p->mr[1], pair_at(p, 1, 0), 8);
	fast_srq_arm(p->r.f, &srq->srq, 2);
	for (uint64_t i = 0; i < 4; i++)
		pair_send(p, i, 8);
	rig_run(&p->r);
	for (uint64_t i = 0; i < 3; i++) {
		pair_expect(p->cq[0], i, IBV_WC_SUCCESS);
		pair_expect(p->cq[1], 50 + i, IBV_WC_SUCCESS);
	}
	assert_int_equal(rig_async(p->s[1], NULL), IBV_EVENT_SRQ_LIMIT_REACHED + 1);
	assert_int_equal(rig_async(p->s[1], NULL), 0); /* once */
	rig_srq_recv(&p->r, srq, 60, p->mr[1], pair_at(p, 1, 0), 8);
	rig_run(&p->r);
	pair_expect(p->cq[0], 3, IBV_WC_SUCCESS);
	rig_state(&p->r, q, IBV_QPS_ERR);
	assert_int_equal(rig_async(p->s[1], NULL), IBV_EVENT_QP_LAST_WQE_REACHED + 1);
	rig_qp_free(&p->r, q);
	rig_srq_free(&p->r, srq);
}

static struct ff_rqe *rqe(uint8_t *ring, uint32_t stride, uint32_t i)
{
	return (struct ff_rqe *)(ring + (size_t)i * stride);
}

/* Each RQE is taken once, in order; one that names too many SGEs is taken, too, and said to be bad. */
static void a_qps_receives(void **state)
{
	struct pair *p = *state;
	struct recv_wr wr;
	struct qp *qp;

	qp = &p->qp[1]->qp;
	assert_int_equal(fast_take_recv(p->r.f, qp, &wr), FETCH_EMPTY);
	for (uint64_t lap = 0; lap < 3; lap++) {
		for (uint64_t i = 0; i < qp->rq.depth; i++)
			rig_recv(&p->r, p->qp[1], i, p->mr[1], pair_at(p, 1, i), (uint32_t)i + 1);
		rqe(qp->rq.ring, qp->rq.stride, 3)->num_sge = (uint16_t)(qp->max_recv_sge + 1);
		for (uint64_t i = 0; i < qp->rq.depth; i++) {
			assert_int_equal(fast_take_recv(p->r.f, qp, &wr),
					 i == 3 ? FETCH_BAD : FETCH_OK);
			assert_int_equal(wr.wr_id, i);
			assert_int_equal(wr.length, i == 3 ? 0 : i + 1);
		}
		assert_int_equal(fast_take_recv(p->r.f, qp, &wr), FETCH_EMPTY);
		assert_int_equal(qp->stats.bad_wqes, lap + 1);
	}
	fast_lose_recv(qp); /* the client knows from completions: nothing to tell */
}

/* What is malformed in an SRQ is nobody's receive: the SRQ gives none any more, and says so once. */
static void an_srq_in_error(void **state)
{
	struct pair *p = *state;
	struct recv_wr wr;
	struct rig_srq *srq;
	struct rig_qp *q;
	uint32_t handle;

	srq = rig_srq(&p->r, p->s[1], 8);
	q = rig_qp(&p->r, p->s[1], IBV_QPT_RC, p->cq[1], p->cq[1], srq);
	for (uint64_t i = 0; i < 3; i++)
		rig_srq_recv(&p->r, srq, i, p->mr[1], pair_at(p, 1, 0), 8);
	rqe(srq->srq.ring, srq->srq.stride, 1)->num_sge = UINT16_MAX;
	assert_true(fast_srq_ready(&srq->srq));
	assert_int_equal(fast_take_recv(p->r.f, &q->qp, &wr), FETCH_OK);
	assert_int_equal(wr.wr_id, 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fast_take_recv(p->r.f, &q->qp, &wr), FETCH_EMPTY);
		assert_false(fast_srq_ready(&srq->srq));
	}
	assert_int_equal(rig_async(p->s[1], &handle), IBV_EVENT_SRQ_ERR + 1);
	assert_int_equal(handle, srq->srq.o.handle);
	assert_int_equal(rig_async(p->s[1], NULL), 0);
	assert_int_equal(stats_of_session(&p->s[1]->s).bad_wqes, 1);
	/* one that was taken and ends with its QP has no completion: the client counts these */
	fast_lose_recv(&q->qp);
	assert_int_equal(atomic_load(&srq->srq.hdr->lost), 1);
	rig_qp_free(&p->r, q);
	rig_srq_free(&p->r, srq);
}

/* The limit is looked at when it is set, and with each receive that is taken. */
static void a_limit_that_is_reached(void **state)
{
	struct pair *p = *state;
	struct rig_srq *srq;

	srq = rig_srq(&p->r, p->s[1], 8);
	for (uint32_t limit = 1; limit <= 8; limit++) {
		fast_srq_arm(p->r.f, &srq->srq, limit);
		assert_int_equal(rig_async(p->s[1], NULL), IBV_EVENT_SRQ_LIMIT_REACHED + 1);
		assert_int_equal(srq->srq.limit, 0);
		rig_srq_recv(&p->r, srq, limit, p->mr[1], pair_at(p, 1, 0), 8);
		fast_srq_arm(p->r.f, &srq->srq, limit);
		assert_int_equal(rig_async(p->s[1], NULL), 0);
		fast_srq_arm(p->r.f, &srq->srq, 0);
	}
	assert_int_equal(rig_async(p->s[1], NULL), 0);
	rig_srq_free(&p->r, srq);
}

int main(void)
{
	return UNIT_RUN(PAIR_TEST(srq_limit_and_last_wqe), PAIR_TEST(a_qps_receives),
			PAIR_TEST(an_srq_in_error), PAIR_TEST(a_limit_that_is_reached));
}
