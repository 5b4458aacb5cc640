/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/rig/unit/soft_pair.c tests/rig/unit/rig.c */
/*
 * test_qp.c - a QP over its life: it drains, RESET leaves its rings alone, and what it leaves when it ends or
 * cannot begin.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/unit/soft_pair.h"
#include "tests/rig/unit/unit.h"

static void sqd_drains(void **state)
{
	struct pair *p = *state;
	uint32_t h;

	p->qp[0]->qp.attr.rnr_retry = 7;
	p->qp[0]->qp.attr.en_sqd_async_notify = 1;
	pair_send(p, 1, 8);
	rig_run(&p->r);
	rig_state(&p->r, p->qp[0], IBV_QPS_SQD);
	pair_send(p, 2, 8);
	rig_run(&p->r);
	assert_int_equal(rig_async(p->s[0], NULL), 0); /* one is under way */
	rig_recv(&p->r, p->qp[1], 8, p->mr[1], pair_at(p, 1, 0), 8);
	rig_recv(&p->r, p->qp[1], 9, p->mr[1], pair_at(p, 1, 0), 8);
	rig_run(&p->r);
	pair_expect(p->cq[0], 1, IBV_WC_SUCCESS);
	pair_expect_none(p->cq[0]);
	assert_int_equal(rig_async(p->s[0], &h), IBV_EVENT_SQ_DRAINED + 1);
	assert_int_equal(h, p->qp[0]->qp.o.handle);
	rig_state(&p->r, p->qp[0], IBV_QPS_RTS);
	rig_run(&p->r);
	pair_expect(p->cq[0], 2, IBV_WC_SUCCESS);
}

/* A QP without a WR under way is drained at once. */
static void sqd_of_an_idle_qp(void **state)
{
	struct pair *p = *state;
	uint32_t h;

	p->qp[0]->qp.attr.en_sqd_async_notify = 1;
	rig_state(&p->r, p->qp[0], IBV_QPS_SQD);
	assert_int_equal(p->qp[0]->qp.attr.sq_draining, 0);
	assert_int_equal(rig_async(p->s[0], &h), IBV_EVENT_SQ_DRAINED + 1);
	assert_int_equal(h, p->qp[0]->qp.o.handle);
	assert_int_equal(rig_async(p->s[0], NULL), 0);
}

/* Who posts a last message and takes the QP to ERR has it delivered; what must wait for its peer is flushed. */
static void last_turn(void **state)
{
	struct pair *p = *state;

	rig_recv(&p->r, p->qp[1], 8, p->mr[1], pair_at(p, 1, 0), 8);
	memcpy(p->buf[0], "farewell", 8);
	p->qp[0]->qp.attr.rnr_retry = 7;
	pair_send(p, 1, 8);
	pair_send(p, 2, 8);
	fast_qp_last_turn(p->r.f, &p->qp[0]->qp);
	rig_state(&p->r, p->qp[0], IBV_QPS_ERR);
	rig_run(&p->r);
	pair_expect(p->cq[0], 1, IBV_WC_SUCCESS);
	pair_expect(p->cq[0], 2, IBV_WC_WR_FLUSH_ERR);
	pair_expect(p->cq[1], 8, IBV_WC_SUCCESS);
	assert_memory_equal(p->buf[1], "farewell", 8);
}

/*
 * RESET writes to no ring, which may be of 26 MB, under the locks of all threads: what was posted
 * before has other numbers. Many times, so that these come round.
 */
static void reset_leaves_rings_alone(void **state)
{
	struct pair *p = *state;
	struct qp *qp;
	size_t sq, rq;
	uint8_t *was;

	qp = &p->qp[0]->qp;
	sq = (size_t)qp->sq.depth * qp->sq.stride;
	rq = (size_t)qp->rq.depth * qp->rq.stride;
	was = malloc(sq + rq);
	assert_non_null(was);
	for (uint64_t lap = 0; lap < 4 * 65536 / qp->sq.depth; lap++) {
		/* without a receive of the peer's, the first of these waits */
		for (uint64_t i = 0; i < qp->sq.depth - 1; i++)
			pair_send(p, i, 8);
		for (uint64_t i = 0; i < qp->rq.depth - 2; i++)
			rig_recv(&p->r, p->qp[0], i, p->mr[0], pair_at(p, 0, 0), 8);
		rig_run(&p->r);
		memcpy(was, qp->sq.ring, sq);
		memcpy(was + sq, qp->rq.ring, rq);
		rig_state(&p->r, p->qp[0], IBV_QPS_RESET);
		assert_memory_equal(was, qp->sq.ring, sq);
		assert_memory_equal(was + sq, qp->rq.ring, rq);
		assert_int_equal(atomic_load(&qp->hdr->sq_done), ff_done(p->qp[0]->sq_tail, 0));
		rig_connect(&p->r, p->qp[0], p->qp[1]);
		rig_run(&p->r);
		pair_expect_none(p->cq[0]);
		assert_false(qp_sqe_ready(qp, qp->sq.head));
		rig_state(&p->r, p->qp[0], IBV_QPS_ERR);
		pair_expect_none(p->cq[0]);
		rig_state(&p->r, p->qp[0], IBV_QPS_RESET);
		rig_connect(&p->r, p->qp[0], p->qp[1]);
	}
	pair_rdma(p, FF_OP_WRITE, 77, 0, 0, 8);
	rig_run(&p->r);
	pair_expect(p->cq[0], 77, IBV_WC_SUCCESS);
	free(was);
}

/* What a QP has counted stays with its session. */
static void counters_outlive_their_qp(void **state)
{
	struct pair *p = *state;
	struct ff_stats st;

	pair_rdma(p, FF_OP_WRITE, 1, 0, 0, 8);
	rig_run(&p->r);
	pair_expect(p->cq[0], 1, IBV_WC_SUCCESS);
	rig_qp_free(&p->r, p->qp[0]);
	p->qp[0] = NULL;
	st = stats_of_session(&p->s[0]->s);
	assert_int_equal(st.write_ops, 1);
	assert_int_equal(st.tx_bytes, 8);
}

static int no_memory(struct fast *f, struct qp *qp)
{
	(void)f;
	(void)qp;
	return -ENOMEM;
}

/* A QP that the device refuses has no number afterwards: its number is another QP's. */
static void a_qp_that_cannot_be_made(void **state)
{
	struct pair *p = *state;
	const struct backend_ops *usual = p->r.be.ops;
	struct backend_ops refuses = *usual;
	uint32_t used = p->r.f->host->qps.used;
	int err;

	refuses.qp_create = no_memory;
	p->r.be.ops = &refuses;
	assert_null(rig_qp_try(p->s[0], IBV_QPT_RC, p->cq[0], p->cq[0], NULL, &err));
	p->r.be.ops = usual;
	assert_int_equal(err, -ENOMEM);
	assert_int_equal(p->r.f->host->qps.used, used);
}

int main(void)
{
	return UNIT_RUN(PAIR_TEST(sqd_drains), PAIR_TEST(sqd_of_an_idle_qp), PAIR_TEST(last_turn),
			PAIR_TEST(reset_leaves_rings_alone), PAIR_TEST(counters_outlive_their_qp),
			PAIR_TEST(a_qp_that_cannot_be_made));
}
