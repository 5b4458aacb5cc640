/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/* test: netns */
/* all: system-san system-tsan */
/* night: docker */
/* timeout: 600 */
/*
 * verbs_qp_drain.c - what SQD, ERR and RESET do with what is in the queues: it is drained, flushed, or gone.
 */
#include "tests/rig/verbs/vt.h"

/* ---- SQD ------------------------------------------------------------------------------------ */

static int to_sqd(struct ibv_qp *qp, bool notify)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = notify };

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
}

/* Drain under load: what has begun is finished, the rest waits for RTS; nothing is lost. */
static void sqd_drain(void)
{
	struct vt_param par = VT_PARAM;
	size_t n = 200000;
	struct vt_end a, b;

	par.len = 2 * n;
	vt_pair(&a, &b, &par);
	vt_pattern(a.buf, n, 1);
	for (unsigned round = 0; round < 20; round++) {
		unsigned done = 0;
		struct ibv_wc wc;

		for (unsigned i = 0; i < 40; i++)
			vt_rdma(&a, IBV_WR_RDMA_WRITE, i, 0, n, i, IBV_SEND_SIGNALED);
		CHECK_OK(to_sqd(a.qp, true));
		WANT_QP_EVENT(&a, IBV_EVENT_SQ_DRAINED);
		CHECK_EQ(vt_state(a.qp), IBV_QPS_SQD);
		while (ibv_poll_cq(a.scq, 1, &wc) == 1) {
			CHECK_EQ(wc.status, IBV_WC_SUCCESS);
			CHECK_EQ(wc.wr_id, done++);
		}
		for (unsigned i = 40; i < 60; i++)
			vt_rdma(&a, IBV_WR_RDMA_WRITE, i, 0, 8, i, IBV_SEND_SIGNALED);
		/* the other direction goes on meanwhile */
		vt_recv(&a, 1, n, 64);
		vt_send(&b, 2, 0, 64, IBV_SEND_SIGNALED);
		WANT_OK(b.scq, 2);
		WANT_OK(a.rcq, 1);
		CHECK_EMPTY(a.scq);
		CHECK_OK(vt_to_state(a.qp, IBV_QPS_RTS));
		while (done < 60)
			WANT_OK(a.scq, done++);
	}
	vt_check_alive(&a, &b);
	vt_pair_close(&a, &b);
}

/* An idle queue is drained at once; without the flag there is no event. */
static void sqd_idle(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	vt_pair(&a, &b, &par);
	CHECK_OK(to_sqd(a.qp, false));
	CHECK_EQ(vt_state(a.qp), IBV_QPS_SQD);
	CHECK_OK(vt_to_state(a.qp, IBV_QPS_RTS));
	CHECK(!vt_readable(a.ctx->async_fd, 0));
	CHECK_OK(to_sqd(a.qp, true));
	WANT_QP_EVENT(&a, IBV_EVENT_SQ_DRAINED);
	CHECK(!vt_readable(a.ctx->async_fd, 0));
	CHECK_OK(vt_to_state(a.qp, IBV_QPS_RTS));
	vt_check_alive(&a, &b);
	vt_pair_close(&a, &b);
}

/* A message that waits for a receive is under way: the queue drains when it is done. */
static void sqd_waits_for_rnr(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct vt_end a, b;

	vt_pair(&a, &b, &par);
	vt_send(&a, 1, 0, 8, IBV_SEND_SIGNALED);
	vt_send(&a, 2, 0, 8, IBV_SEND_SIGNALED);
	/* something that is served after it has begun, if only by the other direction */
	vt_recv(&a, 3, 64, 8);
	vt_send(&b, 4, 0, 8, IBV_SEND_SIGNALED);
	WANT_OK(b.scq, 4);
	WANT_OK(a.rcq, 3);
	CHECK_OK(to_sqd(a.qp, true));
	CHECK_OK(ibv_query_qp(a.qp, &attr, IBV_QP_STATE, &init));
	CHECK_EQ(attr.qp_state, IBV_QPS_SQD);
	CHECK_EQ(attr.sq_draining, 1);
	CHECK(!vt_readable(a.ctx->async_fd, 0));
	vt_recv(&b, 5, 0, 8);
	WANT_OK(a.scq, 1);
	WANT_QP_EVENT(&a, IBV_EVENT_SQ_DRAINED);
	CHECK_OK(ibv_query_qp(a.qp, &attr, IBV_QP_STATE, &init));
	CHECK_EQ(attr.sq_draining, 0);
	vt_recv(&b, 6, 0, 8);
	CHECK_OK(vt_to_state(a.qp, IBV_QPS_RTS));
	WANT_OK(a.scq, 2);
	WANT_OK(b.rcq, 5);
	WANT_OK(b.rcq, 6);
	vt_pair_close(&a, &b);
}

/* The attributes that SQD allows to change take effect. */
static void sqd_change(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr, got;
	struct vt_end a, b;

	vt_pair(&a, &b, &par);
	CHECK_OK(to_sqd(a.qp, true));
	WANT_QP_EVENT(&a, IBV_EVENT_SQ_DRAINED);
	attr = (struct ibv_qp_attr){ .rnr_retry = 0, .retry_cnt = 2, .timeout = 11 };
	CHECK_OK(ibv_modify_qp(a.qp, &attr, IBV_QP_RNR_RETRY | IBV_QP_RETRY_CNT | IBV_QP_TIMEOUT));
	CHECK_OK(vt_to_state(a.qp, IBV_QPS_RTS));
	CHECK_OK(ibv_query_qp(a.qp, &got, 0x1fffff, &init));
	CHECK_EQ(got.rnr_retry, 0);
	CHECK_EQ(got.retry_cnt, 2);
	CHECK_EQ(got.timeout, 11);
	vt_check_alive(&a, &b);
	vt_send(&a, 1, 0, 8, IBV_SEND_SIGNALED);
	WANT(a.scq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	vt_pair_close(&a, &b);
}

/* ---- ERR and RESET -------------------------------------------------------------------------- */

/* Everything is flushed, each queue in its order, signalled or not; also what is posted later. */
static void err_flush(enum ibv_qp_type type)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	unsigned pending = type == IBV_QPT_RC ? 30 : 0;

	par.type = type;
	vt_pair(&a, &b, &par);
	for (unsigned i = 0; i < pending; i++) /* RNR: the first of them waits for ever */
		vt_send(&a, i, 0, 8, i % 3 ? 0 : IBV_SEND_SIGNALED);
	for (unsigned i = 0; i < 40; i++)
		vt_recv(&a, 1000 + i, 0, 64);
	CHECK_OK(vt_to_state(a.qp, IBV_QPS_ERR));
	for (unsigned i = 0; i < pending; i++)
		CHECK_EQ(WANT(a.scq, i, IBV_WC_WR_FLUSH_ERR).qp_num, a.qp->qp_num);
	for (unsigned i = 0; i < 40; i++)
		CHECK_EQ(WANT(a.rcq, 1000 + i, IBV_WC_WR_FLUSH_ERR).qp_num, a.qp->qp_num);
	CHECK_EMPTY(a.scq);
	CHECK_EMPTY(a.rcq);
	for (unsigned i = 0; i < 300; i++) {
		vt_send(&a, 2000 + i, 0, 8, i % 3 ? 0 : IBV_SEND_SIGNALED);
		vt_recv(&a, 3000 + i, 0, 64);
		WANT(a.scq, 2000 + i, IBV_WC_WR_FLUSH_ERR);
		WANT(a.rcq, 3000 + i, IBV_WC_WR_FLUSH_ERR);
	}
	CHECK_EQ(vt_state(a.qp), IBV_QPS_ERR);
	CHECK_EMPTY(b.rcq);
	vt_pair_close(&a, &b);
}

static void err_flush_rc(void)
{
	err_flush(IBV_QPT_RC);
}
static void err_flush_uc(void)
{
	err_flush(IBV_QPT_UC);
}
static void err_flush_ud(void)
{
	err_flush(IBV_QPT_UD);
}

/* To ERR while data moves: every WR completes once, first the good ones, then the flushed. */
static void err_under_load(void)
{
	struct vt_param par = VT_PARAM;
	size_t n = 100000;
	struct vt_end a, b;

	par.len = 2 * n;
	vt_pair(&a, &b, &par);
	for (unsigned round = 0; round < 20; round++) {
		bool flushed = false;

		for (unsigned i = 0; i < 60; i++)
			vt_rdma(&a, IBV_WR_RDMA_WRITE, i, 0, n, 0, IBV_SEND_SIGNALED);
		if (round % 2)
			WANT_OK(a.scq, 0);
		CHECK_OK(vt_to_state(a.qp, IBV_QPS_ERR));
		for (unsigned i = round % 2; i < 60; i++) {
			struct ibv_wc wc = vt_wc(a.scq);

			CHECK_EQ(wc.wr_id, i);
			if (wc.status != IBV_WC_SUCCESS || flushed)
				CHECK_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
			flushed = wc.status != IBV_WC_SUCCESS;
		}
		CHECK_EMPTY(a.scq);
		vt_pair_reset(&a, &b);
	}
	vt_check_alive(&a, &b);
	vt_pair_close(&a, &b);
}

/* RESET forgets both queues without completions; the QP connects again and works. */
static void reset_empties(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	vt_pair(&a, &b, &par);
	for (unsigned round = 0; round < 50; round++) {
		for (unsigned i = 0; i < 20; i++) {
			vt_recv(&b, 500 + i, 32768, 64);
			vt_recv(&a, 600 + i, 32768, 64);
		}
		for (unsigned i = 0; i < 25; i++) /* more than receives: some stay pending */
			vt_send(&a, i, 0, 8, IBV_SEND_SIGNALED);
		vt_pair_reset(&a, &b);
		CHECK_EMPTY(a.scq);
		CHECK_EMPTY(a.rcq);
		CHECK_EMPTY(b.scq);
		CHECK_EMPTY(b.rcq);
		vt_check_alive(&a, &b); /* its receive is the first one in the queue */
		vt_check_alive(&b, &a);
	}
	vt_pair_close(&a, &b);
}

VT_MAIN({ "sqd_drain", sqd_drain, 0 }, { "sqd_idle", sqd_idle, 0 },
	{ "sqd_waits_for_rnr", sqd_waits_for_rnr, 0 }, { "sqd_change", sqd_change, 0 },
	{ "err_flush_rc", err_flush_rc, 0 }, { "err_flush_uc", err_flush_uc, 0 },
	{ "err_flush_ud", err_flush_ud, 0 }, { "err_under_load", err_under_load, 0 },
	{ "reset_empties", reset_empties, 0 })
