/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/* timeout: 600 */
/*
 * verbs_srq.c - shared receive queues: life cycle, limit event, several QPs on one, what happens to
 * their receives when a QP fails.
 */
#include "tests/rig/verbs/vt.h"

#include <stdlib.h>

static void srq_life(void)
{
	struct ibv_context *ctx = vt_open_device();
	struct ibv_pd *pd = CHECK_PTR(ibv_alloc_pd(ctx));
	struct ibv_device_attr dev;

	CHECK_OK(ibv_query_device(ctx, &dev));
	CHECK(dev.max_srq > 0 && dev.max_srq_wr > 0 && dev.max_srq_sge > 0);
	for (uint32_t n = 1; n < (uint32_t)dev.max_srq_wr && n < 3000; n = n * 2 + 1) {
		struct ibv_srq_init_attr init = { .srq_context = ctx,
						  .attr = { .max_wr = n, .max_sge = 1 + n % 4 } };
		struct ibv_srq *srq = CHECK_PTR(ibv_create_srq(pd, &init));
		struct ibv_srq_attr attr;

		CHECK(init.attr.max_wr >= n && init.attr.max_sge >= 1 + n % 4);
		CHECK(srq->context == ctx && srq->pd == pd && srq->srq_context == ctx);
		CHECK_OK(ibv_query_srq(srq, &attr));
		CHECK_EQ(attr.max_wr, init.attr.max_wr);
		CHECK(attr.max_sge >= init.attr.max_sge);
		CHECK_EQ(attr.srq_limit, 0);
		CHECK_OK(ibv_destroy_srq(srq));
	}
	struct ibv_srq_init_attr bad[] = {
		{ .attr = { .max_wr = (uint32_t)dev.max_srq_wr + 1, .max_sge = 1 } },
		{ .attr = { .max_wr = 4, .max_sge = (uint32_t)dev.max_srq_sge + 1 } },
		{ .attr = { .max_wr = 0, .max_sge = 1 } },
	};
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_NULL(ibv_create_srq(pd, &bad[i]), EINVAL);
	CHECK_OK(ibv_dealloc_pd(pd));
	CHECK_OK(ibv_close_device(ctx));
}

static void srq_busy(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad = NULL;
	struct vt_end e;

	par.srq = true;
	vt_end_open(&e, &par);
	CHECK_ERR(ibv_destroy_srq(e.srq), EBUSY);
	/* a QP with an SRQ has no receive queue of its own */
	CHECK_OK(vt_to_init(e.qp, &par));
	CHECK(VERB_ERRNO(ibv_post_recv(e.qp, &wr, &bad)) != 0);
	CHECK(bad == &wr);
	vt_end_close(&e);
}

static void srq_transfer(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	par.srq = true;
	vt_pair(&a, &b, &par);
	for (unsigned i = 0; i < 1000; i++) {
		size_t len = 1 + i * 37 % 8000;

		vt_pattern(a.buf, len, i);
		vt_recv(&b, i, 8192, 8192);
		vt_send(&a, i, 0, len, IBV_SEND_SIGNALED);
		CHECK_EQ(WANT_OK(b.rcq, i).byte_len, len);
		CHECK_PATTERN(b.buf + 8192, len, i);
		WANT_OK(a.scq, i);
	}
	vt_check_alive(&a, &b);
	vt_pair_close(&a, &b);
}

/* The SRQ holds what was granted, refuses more, and has room again when one was taken. */
static void srq_full(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_recv_wr *wr, *bad = NULL;
	struct ibv_srq_attr attr;
	struct ibv_sge sge;
	struct vt_end a, b;
	uint32_t n;

	par.srq = true;
	par.recv_wr = 21;
	par.cqe = 2048;
	vt_pair(&a, &b, &par);
	CHECK_OK(ibv_query_srq(b.srq, &attr));
	n = attr.max_wr;
	CHECK(n >= 21);
	wr = CHECK_PTR(calloc(n + 2, sizeof(*wr)));
	sge = vt_sge(&b, 0, 8);
	for (unsigned lap = 0; lap < 5; lap++) {
		for (uint32_t i = 0; i < n + 2; i++)
			wr[i] = (struct ibv_recv_wr){ .wr_id = i,
						      .next = i < n + 1 ? &wr[i + 1] : NULL,
						      .sg_list = &sge,
						      .num_sge = 1 };
		CHECK_ERR(ibv_post_srq_recv(b.srq, wr, &bad), ENOMEM);
		CHECK(bad == &wr[n]);
		vt_send(&a, 0, 0, 8, IBV_SEND_SIGNALED);
		WANT_OK(a.scq, 0);
		WANT_OK(b.rcq, 0);
		vt_recv(&b, n, 0, 8);
		vt_pass(&a, &b, 1, n + 1);
	}
	wr[0] = (struct ibv_recv_wr){ .sg_list = &sge, .num_sge = (int)attr.max_sge + 1 };
	CHECK(VERB_ERRNO(ibv_post_srq_recv(b.srq, wr, &bad)) != 0);
	CHECK(bad == wr);
	free(wr);
	vt_check_alive(&a, &b);
	vt_pair_close(&a, &b);
}

static void arm(struct ibv_srq *srq, uint32_t limit)
{
	struct ibv_srq_attr attr = { .srq_limit = limit };

	CHECK_OK(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
}

/* The limit event: once, when fewer receives than the limit are left; then disarmed. */
static void srq_limit(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_async_event ev;
	struct ibv_srq_attr attr;
	struct vt_end a, b;

	par.srq = true;
	vt_pair(&a, &b, &par);
	for (unsigned i = 0; i < 20; i++)
		vt_recv(&b, i, 0, 8);
	arm(b.srq, 15);
	CHECK_OK(ibv_query_srq(b.srq, &attr));
	CHECK_EQ(attr.srq_limit, 15);
	vt_pass(&a, &b, 0, 5);
	CHECK(!vt_readable(b.ctx->async_fd, 0)); /* 15 left: not below */
	vt_send(&a, 5, 0, 8, IBV_SEND_SIGNALED);
	ev = WANT_EVENT(b.ctx, IBV_EVENT_SRQ_LIMIT_REACHED);
	CHECK(ev.element.srq == b.srq);
	WANT_OK(a.scq, 5);
	WANT_OK(b.rcq, 5);
	CHECK_OK(ibv_query_srq(b.srq, &attr));
	CHECK_EQ(attr.srq_limit, 0);
	vt_pass(&a, &b, 6, 20);
	CHECK(!vt_readable(b.ctx->async_fd, 0));
	/* armed again; refilled first, so that it is above */
	for (unsigned i = 0; i < 4; i++)
		vt_recv(&b, i, 0, 8);
	arm(b.srq, 3);
	vt_pass(&a, &b, 0, 4);
	WANT_EVENT(b.ctx, IBV_EVENT_SRQ_LIMIT_REACHED);
	CHECK(!vt_readable(b.ctx->async_fd, 0));
	vt_pair_close(&a, &b);
}

static void srq_modify_refused(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_srq_attr attr, got;
	struct vt_end e;

	par.srq = true;
	vt_end_open(&e, &par);
	CHECK_OK(ibv_query_srq(e.srq, &got));
	attr = (struct ibv_srq_attr){ .srq_limit = got.max_wr + 1 };
	CHECK_ERR(ibv_modify_srq(e.srq, &attr, IBV_SRQ_LIMIT), EINVAL);
	CHECK_ERR(ibv_modify_srq(e.srq, &attr, 1 << 10), EINVAL);
	attr.max_wr = got.max_wr * 2;
	/* resizing is an optional feature: done, or refused with nothing changed */
	if (VERB_ERRNO(ibv_modify_srq(e.srq, &attr, IBV_SRQ_MAX_WR))) {
		CHECK_OK(ibv_query_srq(e.srq, &attr));
		CHECK_EQ(attr.max_wr, got.max_wr);
	}
	CHECK_OK(ibv_query_srq(e.srq, &attr));
	CHECK_EQ(attr.srq_limit, 0);
	vt_end_close(&e);
}

/* Several QPs take receives from one SRQ; each completion names its QP and goes to its CQ. */
static void srq_several_qps(void)
{
	enum { QPS = 8, EACH = 100 };
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	struct ibv_qp *x[QPS], *y[QPS];
	unsigned got[QPS] = { 0 };

	par.srq = true;
	par.recv_wr = QPS * EACH;
	par.cqe = QPS * EACH + 64;
	par.send_wr = EACH;
	vt_pair(&a, &b, &par);
	vt_pair_more(&a, &b, x, y, QPS);
	for (unsigned i = 0; i < QPS * EACH; i++)
		vt_recv(&b, i, 64 * (i % 1000), 64);
	for (unsigned k = 0; k < EACH; k++) {
		for (unsigned i = 0; i < QPS; i++) {
			uint32_t value[2] = { i, k };
			struct ibv_sge sge = vt_sge(&a, 8 * (i * EACH + k), 8);
			struct ibv_send_wr *bad, wr = { .wr_id = 1,
							.sg_list = &sge,
							.num_sge = 1,
							.opcode = IBV_WR_SEND,
							.send_flags = IBV_SEND_SIGNALED };

			memcpy(a.buf + 8 * (i * EACH + k), value, 8);
			CHECK_OK(ibv_post_send(x[i], &wr, &bad));
		}
	}
	for (unsigned n = 0; n < QPS * EACH; n++) {
		struct ibv_wc wc = vt_wc(b.rcq);
		uint32_t value[2];

		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK(wc.wr_id < QPS * EACH);
		memcpy(value, b.buf + 64 * (wc.wr_id % 1000), 8);
		CHECK(value[0] < QPS);
		CHECK_EQ(wc.qp_num, y[value[0]]->qp_num);
		CHECK_EQ(value[1], got[value[0]]++); /* each connection in order */
	}
	for (unsigned i = 0; i < QPS; i++)
		CHECK_EQ(got[i], EACH);
	vt_destroy_qps(x, QPS);
	vt_destroy_qps(y, QPS);
	vt_pair_close(&a, &b);
}

/* Several senders wait for the SRQ; receives that come one by one serve them all. */
static void srq_rnr(void)
{
	enum { QPS = 5 };
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	struct ibv_qp *x[QPS], *y[QPS];
	unsigned done = 0;

	par.srq = true;
	vt_pair(&a, &b, &par);
	vt_pair_more(&a, &b, x, y, QPS);
	for (unsigned i = 0; i < QPS; i++) {
		struct ibv_sge sge = vt_sge(&a, 0, 8);
		struct ibv_send_wr *bad, wr = { .wr_id = i,
						.sg_list = &sge,
						.num_sge = 1,
						.opcode = IBV_WR_SEND,
						.send_flags = IBV_SEND_SIGNALED };

		CHECK_OK(ibv_post_send(x[i], &wr, &bad));
	}
	for (unsigned i = 0; i < QPS; i++) {
		struct ibv_wc wc;

		vt_recv(&b, i, 0, 8);
		wc = vt_wc(a.scq);
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK(!(done & 1u << wc.wr_id));
		done |= 1u << wc.wr_id;
		WANT_OK(b.rcq, i);
		CHECK_EMPTY(a.scq);
	}
	CHECK_EQ(done, (1u << QPS) - 1);
	vt_destroy_qps(x, QPS);
	vt_destroy_qps(y, QPS);
	vt_pair_close(&a, &b);
}

/* A QP in error takes nothing more: LAST_WQE_REACHED, and the receives stay for the others. */
static void srq_last_wqe(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	struct ibv_qp *other;
	struct vt_addr self, peer;

	par.srq = true;
	vt_pair(&a, &b, &par);
	for (unsigned i = 0; i < 3; i++)
		vt_recv(&b, i, 0, 64);
	vt_send(&a, 1, 0, 8, IBV_SEND_SIGNALED);
	WANT_OK(a.scq, 1);
	WANT_OK(b.rcq, 0);
	CHECK_OK(vt_to_state(b.qp, IBV_QPS_ERR));
	WANT_QP_EVENT(&b, IBV_EVENT_QP_LAST_WQE_REACHED);
	CHECK(!vt_readable(b.ctx->async_fd, 0));
	CHECK_EMPTY(b.rcq);

	CHECK_OK(vt_to_state(a.qp, IBV_QPS_RESET));
	other = vt_make_qp(&b);
	self = b.self;
	self.qpn = other->qp_num;
	peer = a.self;
	vt_connect_qp(other, &par, &self, &peer);
	vt_connect(&a, &self);
	for (unsigned i = 1; i < 3; i++) {
		vt_send(&a, i, 0, 8, IBV_SEND_SIGNALED);
		WANT_OK(a.scq, i);
		CHECK_EQ(WANT_OK(b.rcq, i).qp_num, other->qp_num);
	}
	CHECK_OK(ibv_destroy_qp(other));
	vt_pair_close(&a, &b);
}

/* An error that the responder finds by itself does the same. */
static void srq_last_wqe_by_error(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_async_event ev;
	struct vt_end a, b;
	unsigned seen = 0;

	par.srq = true;
	vt_pair(&a, &b, &par);
	vt_recv(&b, 1, 0, 8);
	vt_recv(&b, 2, 0, 100);
	vt_send(&a, 3, 0, 100, IBV_SEND_SIGNALED);
	WANT(a.scq, 3, IBV_WC_REM_INV_REQ_ERR);
	WANT(b.rcq, 1, IBV_WC_LOC_LEN_ERR);
	CHECK_EQ(vt_state(b.qp), IBV_QPS_ERR);
	do { /* other affiliated events may come with it */
		CHECK(vt_readable(b.ctx->async_fd, VT_WAIT_MS));
		CHECK_OK(ibv_get_async_event(b.ctx, &ev));
		ibv_ack_async_event(&ev);
		CHECK(++seen < 5);
	} while (ev.event_type != IBV_EVENT_QP_LAST_WQE_REACHED);
	CHECK(ev.element.qp == b.qp);
	CHECK_EMPTY(b.rcq);
	vt_pair_close(&a, &b);
}

/* Destroyed with receives in it; a new one does not see them. */
static void srq_destroy_full(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	par.srq = true;
	for (unsigned i = 0; i < 20; i++) {
		vt_pair(&a, &b, &par);
		for (unsigned k = 0; k < 40; k++)
			vt_recv(&b, 100 + k, 0, 8);
		vt_send(&a, 1, 0, 8, IBV_SEND_SIGNALED);
		WANT_OK(a.scq, 1);
		WANT_OK(b.rcq, 100);
		vt_pair_close(&a, &b);
	}
}

VT_MAIN({ "srq_life", srq_life, 0 }, { "srq_busy", srq_busy, 0 },
	{ "srq_transfer", srq_transfer, 0 }, { "srq_full", srq_full, 0 },
	{ "srq_limit", srq_limit, 0 }, { "srq_modify_refused", srq_modify_refused, 0 },
	{ "srq_several_qps", srq_several_qps, 0 }, { "srq_rnr", srq_rnr, 0 },
	{ "srq_last_wqe", srq_last_wqe, 0 }, { "srq_last_wqe_by_error", srq_last_wqe_by_error, 0 },
	{ "srq_destroy_full", srq_destroy_full, 0 })
