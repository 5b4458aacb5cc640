/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/* timeout: 600 */
/*
 * verbs_queues.c - the queues of an RC QP: how much fits into them, what is refused and what that leaves, and what
 * their depths are when they were asked for.
 */
#include "tests/rig/verbs/vt.h"

#include <stdlib.h>

/* ---- queues --------------------------------------------------------------------------------- */

static struct ibv_qp_cap caps_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_OK(ibv_query_qp(qp, &attr, IBV_QP_CAP, &init));
	CHECK_EQ(attr.cap.max_send_wr, init.cap.max_send_wr);
	CHECK_EQ(attr.cap.max_recv_wr, init.cap.max_recv_wr);
	return init.cap;
}

/* The SQ holds what was granted, then refuses, naming the first WR that it did not take. */
static void sq_full(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_send_wr *wr, *bad = NULL;
	struct ibv_sge sge;
	struct vt_end a, b;
	unsigned n;

	par.send_wr = 13;
	par.cqe = 1024;
	vt_pair(&a, &b, &par);
	n = caps_of(a.qp).max_send_wr;
	CHECK(n >= 13);
	wr = CHECK_PTR(calloc(n + 3, sizeof(*wr)));
	sge = vt_sge(&a, 0, 8);
	for (unsigned i = 0; i < n + 3; i++)
		wr[i] = (struct ibv_send_wr){
			.wr_id = i,
			.next = i + 1 < n + 3 ? &wr[i + 1] : NULL,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED,
		};
	/* b has no receive and rnr_retry is infinite: nothing completes */
	CHECK_ERR(ibv_post_send(a.qp, wr, &bad), ENOMEM);
	CHECK(bad == &wr[n]);
	bad = NULL;
	CHECK_ERR(ibv_post_send(a.qp, bad ? bad : &wr[n], &bad), ENOMEM);
	CHECK(bad == &wr[n]);
	CHECK_EMPTY(a.scq);
	for (unsigned i = 0; i < n; i++) {
		if (caps_of(b.qp).max_recv_wr <= i)
			break;
		vt_recv(&b, i, 0, 8);
	}
	for (unsigned i = 0; i < n; i++)
		WANT_OK(a.scq, i);
	for (unsigned i = 0; i < n; i++)
		WANT_OK(b.rcq, i);
	vt_check_alive(&a, &b); /* there is room again */
	free(wr);
	vt_pair_close(&a, &b);
}

static void rq_full(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_recv_wr *wr, *bad = NULL;
	struct ibv_sge sge;
	struct vt_end a, b;
	unsigned n;

	par.recv_wr = 11;
	par.cqe = 1024;
	vt_pair(&a, &b, &par);
	n = caps_of(b.qp).max_recv_wr;
	CHECK(n >= 11);
	wr = CHECK_PTR(calloc(n + 2, sizeof(*wr)));
	sge = vt_sge(&b, 0, 8);
	for (unsigned i = 0; i < n + 2; i++)
		wr[i] = (struct ibv_recv_wr){ .wr_id = i,
					      .next = i + 1 < n + 2 ? &wr[i + 1] : NULL,
					      .sg_list = &sge,
					      .num_sge = 1 };
	CHECK_ERR(ibv_post_recv(b.qp, wr, &bad), ENOMEM);
	CHECK(bad == &wr[n]);
	vt_send(&a, 1, 0, 8, IBV_SEND_SIGNALED);
	WANT_OK(a.scq, 1);
	WANT_OK(b.rcq, 0);
	vt_recv(&b, n, 0, 8); /* one was taken: one more fits */
	vt_pass(&a, &b, 1, n + 1);
	free(wr);
	vt_pair_close(&a, &b);
}

/* A list is posted up to its first bad WR. */
static void bad_wr_in_list(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_send_wr wr[4], *bad = NULL;
	struct ibv_recv_wr rr[3], *bad_rr = NULL;
	struct ibv_sge sge[64];
	struct ibv_qp_cap cap;
	struct vt_end a, b;

	vt_pair(&a, &b, &par);
	cap = caps_of(a.qp);
	CHECK(cap.max_send_sge < ARRAY_SIZE(sge) && cap.max_recv_sge < ARRAY_SIZE(sge));
	for (unsigned i = 0; i < ARRAY_SIZE(sge); i++)
		sge[i] = vt_sge(&a, i, 1);
	for (unsigned i = 0; i < 4; i++)
		wr[i] = (struct ibv_send_wr){
			.wr_id = i,
			.next = i < 3 ? &wr[i + 1] : NULL,
			.sg_list = sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { .remote_addr = a.peer.addr, .rkey = a.peer.rkey },
		};
	wr[2].num_sge = (int)cap.max_send_sge + 1;
	CHECK(VERB_ERRNO(ibv_post_send(a.qp, wr, &bad)) != 0);
	CHECK(bad == &wr[2]);
	WANT_OK(a.scq, 0);
	WANT_OK(a.scq, 1);

	wr[2].num_sge = 1;
	wr[2].opcode = (enum ibv_wr_opcode)99;
	CHECK_ERR(ibv_post_send(a.qp, &wr[2], &bad), EINVAL);
	CHECK(bad == &wr[2]);

	for (unsigned i = 0; i < 3; i++)
		rr[i] = (struct ibv_recv_wr){
			.wr_id = i, .next = i < 2 ? &rr[i + 1] : NULL, .sg_list = sge, .num_sge = 1
		};
	rr[1].num_sge = (int)cap.max_recv_sge + 1;
	CHECK(VERB_ERRNO(ibv_post_recv(a.qp, rr, &bad_rr)) != 0);
	CHECK(bad_rr == &rr[1]);
	vt_send(&b, 9, 0, 1, IBV_SEND_SIGNALED);
	WANT_OK(b.scq, 9);
	WANT_OK(a.rcq, 0);
	vt_check_alive(&a, &b);
	vt_pair_close(&a, &b);
}

/* Many laps around small rings, with everything in flight that fits. */
static void ring_wrap(void)
{
	struct vt_param par = VT_PARAM;
	uint32_t sent = 0, acked = 0, got = 0, posted = 0, total = 200000;
	struct vt_end a, b;

	par.send_wr = 7;
	par.recv_wr = 5;
	par.cqe = 16;
	par.rnr_timer = 1;
	vt_pair(&a, &b, &par);
	if (vt_slow() > 1)
		total /= vt_slow();
	while (acked < total || got < total) {
		struct ibv_wc wc;
		int n;

		while (posted < total && posted - got < 5) {
			vt_recv(&b, posted, 64 * (posted % 5), 64);
			posted++;
		}
		while (sent < total && sent - acked < 7) {
			memcpy(a.buf + 64 * (sent % 7), &sent, 4);
			vt_send(&a, sent, 64 * (sent % 7), 4, IBV_SEND_SIGNALED);
			sent++;
		}
		n = ibv_poll_cq(a.scq, 1, &wc);
		CHECK(n >= 0);
		if (n) {
			CHECK_EQ(wc.status, IBV_WC_SUCCESS);
			CHECK_EQ(wc.wr_id, acked);
			acked++;
		}
		n = ibv_poll_cq(b.rcq, 1, &wc);
		CHECK(n >= 0);
		if (n) {
			uint32_t v;

			CHECK_EQ(wc.status, IBV_WC_SUCCESS);
			CHECK_EQ(wc.wr_id, got);
			memcpy(&v, b.buf + 64 * (got % 5), 4);
			CHECK_EQ(v, got);
			got++;
		}
	}
	vt_pair_close(&a, &b);
}

/* ibv_create_qp grants at least what was wanted, for every size up to the device's limits. */
static void caps_granted(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_device_attr dev;
	struct vt_end e;
	uint32_t wrs[] = { 1, 2, 3, 16, 100, 1000, 0 };

	vt_end_open(&e, &par);
	CHECK_OK(ibv_query_device(e.ctx, &dev));
	wrs[ARRAY_SIZE(wrs) - 1] = (uint32_t)dev.max_qp_wr;
	for (unsigned i = 0; i < ARRAY_SIZE(wrs); i++) {
		for (int s = 1; s <= dev.max_sge; s += 7) {
			struct ibv_qp_init_attr init = {
				.send_cq = e.scq,
				.recv_cq = e.rcq,
				.qp_type = IBV_QPT_RC,
				.cap = { wrs[i], wrs[i], (uint32_t)s, (uint32_t)s, 16 },
			};
			struct ibv_qp *qp = CHECK_PTR(ibv_create_qp(e.pd, &init));
			struct ibv_qp_cap cap = caps_of(qp);

			CHECK(init.cap.max_send_wr >= wrs[i] && init.cap.max_recv_wr >= wrs[i]);
			CHECK(init.cap.max_send_sge >= (uint32_t)s);
			CHECK(init.cap.max_recv_sge >= (uint32_t)s);
			CHECK(init.cap.max_inline_data >= 16);
			CHECK(cap.max_send_wr >= init.cap.max_send_wr);
			CHECK(cap.max_recv_wr >= init.cap.max_recv_wr);
			CHECK(cap.max_send_sge >= init.cap.max_send_sge);
			CHECK(cap.max_recv_sge >= init.cap.max_recv_sge);
			CHECK_OK(ibv_destroy_qp(qp));
		}
	}
	vt_end_close(&e);
}

static void caps_refused(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_device_attr dev;
	struct ibv_qp_cap good = { 4, 4, 1, 1, 0 }, bad[4];
	struct vt_end e;

	vt_end_open(&e, &par);
	CHECK_OK(ibv_query_device(e.ctx, &dev));
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
		bad[i] = good;
	bad[0].max_send_wr = (uint32_t)dev.max_qp_wr + 1;
	bad[1].max_recv_wr = (uint32_t)dev.max_qp_wr + 1;
	bad[2].max_send_sge = (uint32_t)dev.max_sge + 1;
	bad[3].max_inline_data = 1u << 20;
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		struct ibv_qp_init_attr init = {
			.send_cq = e.scq, .recv_cq = e.rcq, .qp_type = IBV_QPT_RC, .cap = bad[i]
		};

		CHECK_NULL(ibv_create_qp(e.pd, &init), EINVAL);
	}
	vt_end_close(&e);
}

VT_MAIN({ "rc_sq_full", sq_full, 0 }, { "rc_rq_full", rq_full, 0 },
	{ "rc_bad_wr_in_list", bad_wr_in_list, 0 }, { "rc_ring_wrap", ring_wrap, 120 },
	{ "rc_caps_granted", caps_granted, 0 }, { "rc_caps_refused", caps_refused, 0 })
