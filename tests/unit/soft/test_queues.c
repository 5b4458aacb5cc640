/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/unit/lib/soft_pair.c tests/lib/rig.c */
/*
 * test_queues.c - the software device: the queues of a QP over its life. Draining, flushing, the
 * SRQ's limit, CQs that overrun, are armed, or get another ring.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "tests/unit/lib/soft_pair.h"

static void sqd_drains(void **state)
{
	struct pair p;
	uint32_t h;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	p.qp[0]->qp.attr.rnr_retry = 7;
	p.qp[0]->qp.attr.en_sqd_async_notify = 1;
	pair_send(&p, 1, 8);
	rig_run(&p.r);
	rig_state(&p.r, p.qp[0], IBV_QPS_SQD);
	pair_send(&p, 2, 8);
	rig_run(&p.r);
	assert_int_equal(rig_async(p.s[0], NULL), 0); /* one is under way */
	rig_recv(&p.r, p.qp[1], 8, p.mr[1], pair_at(&p, 1, 0), 8);
	rig_recv(&p.r, p.qp[1], 9, p.mr[1], pair_at(&p, 1, 0), 8);
	rig_run(&p.r);
	pair_expect(p.cq[0], 1, IBV_WC_SUCCESS);
	pair_expect_none(p.cq[0]);
	assert_int_equal(rig_async(p.s[0], &h), IBV_EVENT_SQ_DRAINED + 1);
	assert_int_equal(h, p.qp[0]->qp.o.handle);
	rig_state(&p.r, p.qp[0], IBV_QPS_RTS);
	rig_run(&p.r);
	pair_expect(p.cq[0], 2, IBV_WC_SUCCESS);
	pair_down(&p);
}

static void flush_in_order(void **state)
{
	struct pair p;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	p.qp[0]->qp.attr.rnr_retry = 7;
	for (uint64_t i = 0; i < 5; i++) {
		pair_send(&p, i, 8);
		rig_recv(&p.r, p.qp[0], 100 + i, p.mr[0], pair_at(&p, 0, 0), 8);
	}
	rig_run(&p.r);
	rig_state(&p.r, p.qp[0], IBV_QPS_ERR);
	for (uint64_t i = 0; i < 5; i++)
		pair_expect(p.cq[0], i, IBV_WC_WR_FLUSH_ERR);
	for (uint64_t i = 0; i < 5; i++)
		pair_expect(p.cq[0], 100 + i, IBV_WC_WR_FLUSH_ERR);
	/* posted afterwards: flushed too */
	rig_recv(&p.r, p.qp[0], 200, p.mr[0], pair_at(&p, 0, 0), 8);
	pair_send(&p, 201, 8);
	rig_run(&p.r);
	pair_expect(p.cq[0], 201, IBV_WC_WR_FLUSH_ERR);
	pair_expect(p.cq[0], 200, IBV_WC_WR_FLUSH_ERR);
	/* and the rings are empty after RESET */
	rig_state(&p.r, p.qp[0], IBV_QPS_RESET);
	rig_connect(&p.r, p.qp[0], p.qp[1]);
	rig_run(&p.r);
	pair_expect_none(p.cq[0]);
	pair_down(&p);
}

/*
 * RESET writes to no ring, which may be of 26 MB, under the locks of all threads: what was posted
 * before has other numbers. Many times, so that these come round.
 */
static void reset_leaves_rings_alone(void **state)
{
	struct pair p;
	struct qp *qp;
	size_t sq, rq;
	uint8_t *was;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	qp = &p.qp[0]->qp;
	sq = (size_t)qp->sq.depth * qp->sq.stride;
	rq = (size_t)qp->rq.depth * qp->rq.stride;
	was = malloc(sq + rq);
	assert_non_null(was);
	for (uint64_t lap = 0; lap < 4 * 65536 / qp->sq.depth; lap++) {
		/* without a receive of the peer's, the first of these waits */
		for (uint64_t i = 0; i < qp->sq.depth - 1; i++)
			pair_send(&p, i, 8);
		for (uint64_t i = 0; i < qp->rq.depth - 2; i++)
			rig_recv(&p.r, p.qp[0], i, p.mr[0], pair_at(&p, 0, 0), 8);
		rig_run(&p.r);
		memcpy(was, qp->sq.ring, sq);
		memcpy(was + sq, qp->rq.ring, rq);
		rig_state(&p.r, p.qp[0], IBV_QPS_RESET);
		assert_memory_equal(was, qp->sq.ring, sq);
		assert_memory_equal(was + sq, qp->rq.ring, rq);
		assert_int_equal(atomic_load(&qp->hdr->sq_done), ff_done(p.qp[0]->sq_tail, 0));
		rig_connect(&p.r, p.qp[0], p.qp[1]);
		rig_run(&p.r);
		pair_expect_none(p.cq[0]);
		assert_false(qp_sqe_ready(qp, qp->sq.head));
		rig_state(&p.r, p.qp[0], IBV_QPS_ERR);
		pair_expect_none(p.cq[0]);
		rig_state(&p.r, p.qp[0], IBV_QPS_RESET);
		rig_connect(&p.r, p.qp[0], p.qp[1]);
	}
	pair_rdma(&p, FF_OP_WRITE, 77, 0, 0, 8);
	rig_run(&p.r);
	pair_expect(p.cq[0], 77, IBV_WC_SUCCESS);
	free(was);
	pair_down(&p);
}

static void srq_limit_and_last_wqe(void **state)
{
	struct pair p;
	struct rig_srq *srq;
	struct rig_qp *q;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	srq = rig_srq(&p.r, p.s[1], 8);
	q = rig_qp(&p.r, p.s[1], IBV_QPT_RC, p.cq[1], p.cq[1], srq);
	rig_connect(&p.r, q, p.qp[0]);
	rig_state(&p.r, p.qp[0], IBV_QPS_RESET);
	rig_connect(&p.r, p.qp[0], q);
	p.qp[0]->qp.attr.rnr_retry = 7;
	for (uint64_t i = 0; i < 3; i++)
		rig_srq_recv(&p.r, srq, 50 + i, p.mr[1], pair_at(&p, 1, 0), 8);
	fast_srq_arm(p.r.f, &srq->srq, 2);
	for (uint64_t i = 0; i < 4; i++)
		pair_send(&p, i, 8);
	rig_run(&p.r);
	for (uint64_t i = 0; i < 3; i++) {
		pair_expect(p.cq[0], i, IBV_WC_SUCCESS);
		pair_expect(p.cq[1], 50 + i, IBV_WC_SUCCESS);
	}
	assert_int_equal(rig_async(p.s[1], NULL), IBV_EVENT_SRQ_LIMIT_REACHED + 1);
	assert_int_equal(rig_async(p.s[1], NULL), 0); /* once */
	rig_srq_recv(&p.r, srq, 60, p.mr[1], pair_at(&p, 1, 0), 8);
	rig_run(&p.r);
	pair_expect(p.cq[0], 3, IBV_WC_SUCCESS);
	rig_state(&p.r, q, IBV_QPS_ERR);
	assert_int_equal(rig_async(p.s[1], NULL), IBV_EVENT_QP_LAST_WQE_REACHED + 1);
	rig_qp_free(&p.r, q);
	rig_srq_free(&p.r, srq);
	pair_down(&p);
}

static void cq_overrun(void **state)
{
	struct pair p;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	for (int i = 0; i < 65; i++) {
		pair_rdma(&p, FF_OP_WRITE, (uint64_t)i, 0, 0, 8);
		rig_run(&p.r);
	}
	assert_int_equal(rig_async(p.s[0], NULL), IBV_EVENT_CQ_ERR + 1);
	assert_int_equal(rig_async(p.s[0], NULL), IBV_EVENT_QP_FATAL + 1);
	assert_int_equal(p.qp[0]->qp.state, IBV_QPS_ERR);
	pair_down(&p);
}

static int events(struct rig_cq *cq)
{
	struct ff_comp_event ev;
	int n = 0;

	while (recv(cq->channel[0], &ev, sizeof(ev), MSG_DONTWAIT) == sizeof(ev))
		n++;
	return n;
}

static void completion_events(void **state)
{
	struct pair p;
	struct ff_sqe *e;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	pair_rdma(&p, FF_OP_WRITE, 1, 0, 0, 8);
	rig_run(&p.r);
	assert_int_equal(events(p.cq[0]), 0); /* not armed */
	atomic_store(&p.cq[0]->cq.hdr->arm, FF_CQ_ARM_ANY);
	rig_run(&p.r);
	assert_int_equal(events(p.cq[0]), 0); /* what was there before does not count */
	pair_rdma(&p, FF_OP_WRITE, 2, 0, 0, 8);
	pair_rdma(&p, FF_OP_WRITE, 3, 0, 0, 8);
	rig_run(&p.r);
	assert_int_equal(events(p.cq[0]), 1);
	/* solicited only */
	atomic_store(&p.cq[1]->cq.hdr->arm, FF_CQ_ARM_SOLICITED);
	for (int i = 0; i < 2; i++)
		rig_recv(&p.r, p.qp[1], 9, p.mr[1], pair_at(&p, 1, 0), 8);
	pair_send(&p, 4, 8);
	rig_run(&p.r);
	assert_int_equal(events(p.cq[1]), 0);
	e = rig_sqe(p.qp[0], FF_OP_SEND, 5);
	rig_sge(e, p.mr[0], pair_at(&p, 0, 0), 8);
	e->flags |= FF_SQE_SOLICITED;
	rig_post(&p.r, p.qp[0]);
	rig_run(&p.r);
	assert_int_equal(events(p.cq[1]), 1);
	pair_down(&p);
}

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sqd_drains),
		cmocka_unit_test(flush_in_order),
		cmocka_unit_test(reset_leaves_rings_alone),
		cmocka_unit_test(srq_limit_and_last_wqe),
		cmocka_unit_test(cq_overrun),
		cmocka_unit_test(completion_events),
		cmocka_unit_test(cq_switch_keeps_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
