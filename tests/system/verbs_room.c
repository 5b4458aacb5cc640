/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/* test: netns */
/* all: docker system-san */
/* timeout: 300 */
/*
 * verbs_room.c - when there is room in a queue: a WR occupies its place until its completion was
 * polled (IBTA 10.8.5.1), so that who posts until ENOMEM overruns no CQ of the same size.
 */
#include "tests/rig/verbs/vt.h"

static int post_write(struct vt_end *e, unsigned flags)
{
	struct ibv_sge sge = vt_sge(e, 0, 8);
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = flags,
				  .wr.rdma = { e->peer.addr + 64, e->peer.rkey } };

	return vt_post(e, &wr);
}

static int post_recv(struct vt_end *e)
{
	struct ibv_sge sge = vt_sge(e, 0, 8);
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };

	return vt_post_recv(e, &wr);
}

/* What is posted until nothing fits. */
static uint32_t fill(struct vt_end *e, int (*post)(struct vt_end *e))
{
	uint32_t n = 0;
	int err;

	while (!(err = post(e)))
		CHECK(++n < 100000);
	CHECK_EQ(err, ENOMEM);
	return n;
}

static int post_signaled(struct vt_end *e)
{
	return post_write(e, IBV_SEND_SIGNALED);
}

static uint32_t granted(struct vt_end *e, bool recv)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_OK(ibv_query_qp(e->qp, &attr, IBV_QP_CAP, &init));
	return recv ? init.cap.max_recv_wr : init.cap.max_send_wr;
}

/* The CQ is just as large as the SQ; it is filled again and again and never overruns. */
static void room_send(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	struct ibv_wc wc[64];
	uint32_t n;

	par.send_wr = par.cqe = 64;
	vt_pair(&a, &b, &par);
	n = granted(&a, false);
	CHECK(a.scq->cqe >= (int)n);
	for (unsigned lap = 0; lap < 50; lap++) {
		unsigned k = 1 + lap % 63, got = 0;
		uint64_t *mark = (uint64_t *)(b.buf + 64);

		*(uint64_t *)a.buf = lap + 1;
		CHECK_EQ(fill(&a, post_signaled), n);
		/* all are carried out, none is polled */
		WAIT_FOR(__atomic_load_n(mark, __ATOMIC_ACQUIRE) == lap + 1);
		CHECK_EQ(post_signaled(&a), ENOMEM);
		while (got < k)
			got += (unsigned)ibv_poll_cq(a.scq, (int)(k - got), wc);
		for (unsigned i = 0; i < k; i++)
			CHECK_OK(post_signaled(&a));
		CHECK_EQ(post_signaled(&a), ENOMEM);
		for (got = 0; got < n; got++)
			CHECK_EQ(vt_wc(a.scq).status, IBV_WC_SUCCESS);
		CHECK_EMPTY(a.scq);
	}
	CHECK(!vt_readable(a.ctx->async_fd, 0));
	vt_check_alive(&a, &b);
	vt_pair_close(&a, &b);
}

/* Unsignalled ones have no completion to wait for. */
static void room_unsignaled(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	par.send_wr = par.cqe = 16;
	vt_pair(&a, &b, &par);
	for (unsigned i = 0; i < 10000; i++) {
		uint64_t until = vt_deadline();
		int err;

		while ((err = post_write(&a, 0)) == ENOMEM)
			CHECK(vt_now() < until);
		CHECK_OK(err);
		if (i % 7)
			continue;
		/* the one that is polled makes room for those before it at once */
		while ((err = post_signaled(&a)) == ENOMEM)
			CHECK(vt_now() < until);
		CHECK_OK(err);
		CHECK_EQ(vt_wc(a.scq).status, IBV_WC_SUCCESS);
		for (unsigned k = 0; k < 16; k++)
			CHECK_OK(post_write(&a, 0));
	}
	vt_pair_close(&a, &b);
}

static void room_recv(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	uint32_t n;

	par.recv_wr = par.cqe = 32;
	par.send_wr = 128;
	vt_pair(&a, &b, &par);
	n = granted(&b, true);
	for (unsigned lap = 0; lap < 50; lap++) {
		unsigned k = 1 + lap % 31;

		CHECK_EQ(fill(&b, post_recv), n);
		for (unsigned i = 0; i < n; i++) {
			vt_send(&a, i, 0, 8, IBV_SEND_SIGNALED);
			WANT_OK(a.scq, i);
		}
		/* the receives are used, their completions wait */
		CHECK_EQ(post_recv(&b), ENOMEM);
		for (unsigned i = 0; i < k; i++)
			CHECK_EQ(vt_wc(b.rcq).status, IBV_WC_SUCCESS);
		for (unsigned i = 0; i < k; i++)
			CHECK_OK(post_recv(&b));
		CHECK_EQ(post_recv(&b), ENOMEM);
		for (unsigned i = 0; i < k; i++) {
			vt_send(&a, i, 0, 8, IBV_SEND_SIGNALED);
			WANT_OK(a.scq, i);
		}
		for (unsigned i = 0; i < n; i++)
			CHECK_EQ(vt_wc(b.rcq).status, IBV_WC_SUCCESS);
		CHECK_EMPTY(b.rcq);
	}
	CHECK(!vt_readable(b.ctx->async_fd, 0));
	vt_pair_close(&a, &b);
}

/* Two QPs on an SRQ; the completions of the one that is destroyed free their places, too. */
static void room_srq(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_qp *qa, *qb;
	struct vt_end a, b;
	struct ibv_srq_attr attr;
	struct ibv_sge sge;
	uint32_t n;

	par.recv_wr = 32;
	par.send_wr = 128;
	par.srq = true;
	vt_pair(&a, &b, &par);
	CHECK_OK(ibv_query_srq(b.srq, &attr));
	n = attr.max_wr;
	sge = vt_sge(&a, 0, 8);
	for (unsigned lap = 0; lap < 20; lap++) {
		struct ibv_send_wr *bad, wr = { .sg_list = &sge,
						.num_sge = 1,
						.opcode = IBV_WR_SEND,
						.send_flags = IBV_SEND_SIGNALED };

		vt_pair_more(&a, &b, &qa, &qb, 1);
		CHECK_EQ(fill(&b, post_recv), n);
		for (unsigned i = 0; i < n / 2; i++) {
			CHECK_OK(ibv_post_send(qa, &wr, &bad));
			WANT_OK(a.scq, 0);
			vt_send(&a, 1, 0, 8, IBV_SEND_SIGNALED);
			WANT_OK(a.scq, 1);
		}
		CHECK_EQ(post_recv(&b), ENOMEM);
		for (unsigned i = 0; i < 3; i++)
			CHECK_EQ(vt_wc(b.rcq).status, IBV_WC_SUCCESS);
		for (unsigned i = 0; i < 3; i++)
			CHECK_OK(post_recv(&b));
		CHECK_EQ(post_recv(&b), ENOMEM);
		/* of the others' completions the first QP's stay */
		vt_destroy_qps(&qb, 1);
		vt_destroy_qps(&qa, 1);
		for (unsigned i = 0; i < n / 2 - 1; i++)
			CHECK_EQ(vt_wc(b.rcq).qp_num, b.qp->qp_num);
		CHECK_EMPTY(b.rcq);
		CHECK_EQ(fill(&b, post_recv), n - 3);
		for (unsigned i = 0; i < n; i++) { /* until the next lap */
			vt_send(&a, 1, 0, 8, IBV_SEND_SIGNALED);
			WANT_OK(a.scq, 1);
			CHECK_EQ(vt_wc(b.rcq).status, IBV_WC_SUCCESS);
		}
	}
	vt_pair_close(&a, &b);
}

/* RESET empties the queues and forgets the completions. */
static void room_after_reset(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	uint32_t n;

	par.send_wr = par.recv_wr = par.cqe = 16;
	vt_pair(&a, &b, &par);
	n = granted(&a, false);
	for (unsigned lap = 0; lap < 20; lap++) {
		CHECK_EQ(fill(&a, post_signaled), n);
		CHECK_EQ(fill(&a, post_recv), granted(&a, true));
		if (lap % 2)
			CHECK_EQ(vt_wc(a.scq).status, IBV_WC_SUCCESS);
		vt_pair_reset(&a, &b);
	}
	vt_check_alive(&a, &b);
	vt_pair_close(&a, &b);
}

/* In the error state what is posted is flushed; it needs room as well. */
static void room_in_error(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	uint32_t n;

	par.send_wr = par.recv_wr = 16;
	par.cqe = 64;
	vt_pair(&a, &b, &par);
	n = granted(&a, true);
	CHECK_EQ(fill(&a, post_recv), n);
	CHECK_OK(vt_to_state(a.qp, IBV_QPS_ERR));
	for (unsigned i = 0; i < 500; i++) {
		CHECK_EQ(vt_wc(a.rcq).status, IBV_WC_WR_FLUSH_ERR);
		CHECK_OK(post_recv(&a));
		CHECK_OK(post_signaled(&a));
		CHECK_EQ(vt_wc(a.scq).status, IBV_WC_WR_FLUSH_ERR);
	}
	CHECK(!vt_readable(a.ctx->async_fd, 0));
	vt_pair_close(&a, &b);
}

VT_MAIN({ "room_send", room_send, 0 }, { "room_unsignaled", room_unsignaled, 0 },
	{ "room_recv", room_recv, 0 }, { "room_srq", room_srq, 0 },
	{ "room_after_reset", room_after_reset, 0 }, { "room_in_error", room_in_error, 0 })
