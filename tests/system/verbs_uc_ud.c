/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/* timeout: 600 */
/*
 * verbs_uc_ud.c - the unreliable transports: transfers, GRH, Q_Key, and what is dropped silently.
 *
 * That a message was dropped is checked by sending a good one after it, which must be the first
 * that arrives: both transports keep the order of what they deliver.
 */
#include "tests/rig/verbs/vt.h"

#include <arpa/inet.h>
#include <stdlib.h>

#define MB (1024u * 1024u)

/* ---- UC ------------------------------------------------------------------------------------- */

static void uc_pair(struct vt_end *a, struct vt_end *b, size_t len)
{
	struct vt_param par = VT_PARAM;

	par.type = IBV_QPT_UC;
	par.len = len;
	vt_pair(a, b, &par);
}

static void uc_sizes(void)
{
	static const size_t sizes[] = { 0, 1, 7, 64, 4095, 4096, 4097, 100000, 8 * MB + 3 };
	struct vt_end a, b;

	uc_pair(&a, &b, 9 * MB);
	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t n = sizes[i];
		struct ibv_wc wc;

		vt_pattern(a.buf + 3, n, i);
		memset(b.buf, 0xa5, n + 200);
		vt_recv(&b, i, 100, n);
		vt_send(&a, i, 3, n, IBV_SEND_SIGNALED);
		CHECK_EQ(WANT_OK(a.scq, i).opcode, IBV_WC_SEND);
		CHECK_EQ(WANT_OK(b.rcq, i).byte_len, n);
		CHECK_PATTERN(b.buf + 100, n, i);
		CHECK(vt_all(b.buf, 100, 0xa5) && vt_all(b.buf + 100 + n, 100, 0xa5));

		memset(b.buf, 0xa5, n + 200);
		vt_recv(&b, 50 + i, 0, 0);
		vt_rdma(&a, IBV_WR_RDMA_WRITE_WITH_IMM, 50 + i, 3, n, 100, IBV_SEND_SIGNALED);
		WANT_OK(a.scq, 50 + i);
		wc = WANT_OK(b.rcq, 50 + i);
		CHECK_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
		CHECK_EQ(wc.byte_len, n);
		CHECK_PATTERN(b.buf + 100, n, i);
		CHECK(vt_all(b.buf, 100, 0xa5) && vt_all(b.buf + 100 + n, 100, 0xa5));
	}
	vt_pair_close(&a, &b);
}

/* READ and atomics do not exist on UC, only SEND exists on UD. */
static void uc_ud_bad_opcodes(void)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
						  IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_RDMA_WRITE,
						  IBV_WR_RDMA_WRITE_WITH_IMM };
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	for (unsigned i = 0; i < 3 + ARRAY_SIZE(ops); i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = { .wr_id = 1,
					  .sg_list = &sge,
					  .num_sge = 1,
					  .opcode = ops[i < 3 ? i : i - 3],
					  .send_flags = IBV_SEND_SIGNALED };

		par.type = i < 3 ? IBV_QPT_UC : IBV_QPT_UD;
		vt_pair(&a, &b, &par);
		memset(b.buf, 0x22, b.len);
		sge = vt_sge(&a, 0, 8);
		if (par.type == IBV_QPT_UC) {
			wr.wr.rdma.remote_addr = a.peer.addr;
			wr.wr.rdma.rkey = a.peer.rkey;
		}
		if (!vt_post(&a, &wr))
			CHECK(WANT(a.scq, 1, IBV_WC_LOC_QP_OP_ERR).wr_id == 1);
		CHECK(vt_all(b.buf, b.len, 0x22));
		vt_pair_close(&a, &b);
	}
}

/* No receive: the message is lost, the sender knows nothing of it, and both QPs go on. */
static void uc_no_receive(void)
{
	struct vt_end a, b;

	uc_pair(&a, &b, 65536);
	memset(b.buf, 0x22, b.len);
	for (unsigned i = 0; i < 10; i++)
		vt_send(&a, i, 0, 5000, IBV_SEND_SIGNALED);
	for (unsigned i = 0; i < 10; i++)
		WANT_OK(a.scq, i);
	CHECK(vt_all(b.buf, b.len, 0x22));
	CHECK_EQ(vt_state(b.qp), IBV_QPS_RTS);
	vt_check_alive(&a, &b);
	CHECK_EMPTY(b.rcq);
	vt_pair_close(&a, &b);
}

/* Receive 1, behind 64 bytes: the message that was too long was dropped, and the second one, of `len` bytes, fits. */
static void dropped_or_too_long(struct vt_end *b, uint32_t len)
{
	struct ibv_wc wc = vt_wc(b->rcq);

	CHECK_EQ(wc.wr_id, 1);
	if (wc.status == IBV_WC_SUCCESS)
		CHECK_EQ(wc.byte_len, len);
	else
		CHECK_EQ(wc.status, IBV_WC_LOC_LEN_ERR);
	CHECK(vt_all(b->buf, 64, 0x22));
}

static void uc_write_to(struct vt_end *a, uint64_t addr, uint32_t rkey, uint32_t len)
{
	struct ibv_sge sge = vt_sge(a, 0, len);
	struct ibv_send_wr wr = vt_wr(IBV_WR_RDMA_WRITE, 1, &sge, IBV_SEND_SIGNALED);

	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = rkey;
	CHECK_OK(vt_post(a, &wr));
	WANT_OK(a->scq, 1);
}

static void uc_bad_rkey(void)
{
	struct vt_end a, b;

	uc_pair(&a, &b, 65536);
	memset(b.buf, 0x22, b.len);
	uc_write_to(&a, b.self.addr, b.self.rkey ^ 1, 8);
	uc_write_to(&a, b.self.addr, 0, 8);
	uc_write_to(&a, b.self.addr + b.len - 4, b.self.rkey, 8);
	uc_write_to(&a, 8, b.self.rkey, 8);
	CHECK(vt_all(b.buf, b.len, 0x22));
	/* the responder may tell its own program, but it must not fail the connection */
	vt_check_alive(&a, &b);
	vt_pair_close(&a, &b);
}

/* Longer than the receive: never more than fits is written, and never a success. */
static void uc_receive_too_small(void)
{
	struct vt_end a, b;

	uc_pair(&a, &b, 65536);
	memset(b.buf, 0x22, b.len);
	vt_recv(&b, 1, 64, 100);
	vt_send(&a, 2, 0, 5000, IBV_SEND_SIGNALED);
	WANT_OK(a.scq, 2);
	vt_send(&a, 3, 0, 50, IBV_SEND_SIGNALED);
	WANT_OK(a.scq, 3);
	dropped_or_too_long(&b, 50);
	CHECK(vt_all(b.buf + 164, 8000, 0x22));
	vt_pair_close(&a, &b);
}

/* The peer is gone: the sender of UC does not notice. */
static void uc_peer_gone(void)
{
	struct vt_end a, b;

	uc_pair(&a, &b, 65536);
	CHECK_OK(ibv_destroy_qp(b.qp));
	b.qp = NULL;
	for (unsigned i = 0; i < 20; i++) {
		vt_send(&a, i, 0, 100, IBV_SEND_SIGNALED);
		WANT_OK(a.scq, i);
	}
	CHECK_EQ(vt_state(a.qp), IBV_QPS_RTS);
	vt_pair_close(&a, &b);
}

/* A local error: SQE, where sends are flushed and receives go on; RTS again on request. */
static void send_queue_error(enum ibv_qp_type type)
{
	struct vt_param par = VT_PARAM;
	struct ibv_sge sge;
	struct ibv_send_wr wr = vt_wr(IBV_WR_SEND, 1, &sge, IBV_SEND_SIGNALED);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE };
	size_t grh = type == IBV_QPT_UD ? VT_GRH : 0;
	struct vt_end a, b;

	par.type = type;
	vt_pair(&a, &b, &par);
	for (unsigned lap = 0; lap < 5; lap++) {
		sge = vt_sge(&a, 0, 8);
		sge.lkey ^= 1;
		CHECK_OK(vt_post(&a, &wr));
		WANT(a.scq, 1, IBV_WC_LOC_PROT_ERR);
		CHECK_EQ(vt_state(a.qp), IBV_QPS_SQE);
		vt_send(&a, 2, 0, 8, 0);
		WANT(a.scq, 2, IBV_WC_WR_FLUSH_ERR);
		vt_recv(&a, 3, 0, 100);
		vt_send(&b, 4, 0, 60, IBV_SEND_SIGNALED);
		WANT_OK(b.scq, 4);
		CHECK_EQ(WANT_OK(a.rcq, 3).byte_len, 60 + grh);
		CHECK_OK(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE));
		CHECK_EQ(vt_state(a.qp), IBV_QPS_RTS);
		vt_recv(&b, 5, 0, 100);
		vt_send(&a, 6, 0, 60, IBV_SEND_SIGNALED);
		WANT_OK(a.scq, 6);
		WANT_OK(b.rcq, 5);
	}
	vt_pair_close(&a, &b);
}

static void uc_sqe(void)
{
	send_queue_error(IBV_QPT_UC);
}
static void ud_sqe(void)
{
	send_queue_error(IBV_QPT_UD);
}

/* ---- UD ------------------------------------------------------------------------------------- */

static void ud_pair(struct vt_end *a, struct vt_end *b)
{
	struct vt_param par = VT_PARAM;

	par.type = IBV_QPT_UD;
	par.inline_data = 64;
	vt_pair(a, b, &par);
}

static uint32_t port_mtu(struct ibv_context *ctx)
{
	struct ibv_port_attr port;

	CHECK_OK(ibv_query_port(ctx, 1, &port));
	CHECK(port.active_mtu >= IBV_MTU_256 && port.active_mtu <= IBV_MTU_4096);
	return 128u << port.active_mtu;
}

/* Post with the peer's address, changed by the caller. */
static struct ibv_send_wr ud_wr(struct vt_end *a, struct ibv_sge *sge, uint64_t id, size_t len)
{
	return vt_ud_wr(a, sge, id, 0, len, a->ah, a->peer.qpn);
}

static void ud_sizes(void)
{
	struct vt_end a, b;
	uint32_t mtu;

	ud_pair(&a, &b);
	mtu = port_mtu(a.ctx);
	for (uint32_t n = 0; n <= mtu; n += n < 70		    ? 1 :
					    mtu - n < 3 || n == mtu ? 1 :
								      (mtu - n) / 2) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = ud_wr(&a, &sge, n, n);
		struct ibv_wc wc;

		wr.opcode = IBV_WR_SEND_WITH_IMM;
		wr.imm_data = htonl(n);
		if (n <= 64 && n % 2)
			wr.send_flags |= IBV_SEND_INLINE;
		vt_pattern(a.buf, n, n);
		memset(b.buf, 0xa5, b.len);
		vt_recv(&b, n, 64, VT_GRH + n);
		CHECK_OK(vt_post(&a, &wr));
		WANT_OK(a.scq, n);
		wc = WANT_OK(b.rcq, n);
		CHECK_EQ(wc.byte_len, VT_GRH + n);
		CHECK_EQ(wc.src_qp, a.qp->qp_num);
		CHECK(wc.wc_flags & IBV_WC_GRH);
		CHECK(wc.wc_flags & IBV_WC_WITH_IMM);
		CHECK_EQ(ntohl(wc.imm_data), n);
		CHECK_PATTERN(b.buf + 64 + VT_GRH, n, n);
		CHECK(vt_all(b.buf, 64, 0xa5) && vt_all(b.buf + 64 + VT_GRH + n, 256, 0xa5));
	}
	vt_pair_close(&a, &b);
}

/* The GRH and the message are scattered as one. */
static void ud_scatter(void)
{
	struct vt_end a, b;
	struct ibv_sge sge[3];
	struct ibv_recv_wr rr = { .wr_id = 1, .sg_list = sge, .num_sge = 3 };

	ud_pair(&a, &b);
	sge[0] = vt_sge(&b, 0, 17);
	sge[1] = vt_sge(&b, 100, 30);
	sge[2] = vt_sge(&b, 200, 1000);
	vt_pattern(a.buf, 500, 6);
	CHECK_OK(vt_post_recv(&b, &rr));
	vt_send(&a, 2, 0, 500, IBV_SEND_SIGNALED);
	WANT_OK(a.scq, 2);
	CHECK_EQ(WANT_OK(b.rcq, 1).byte_len, 540);
	/* 17 + 23 bytes of GRH, then 7 + 493 of the message */
	CHECK(!memcmp(b.buf + 100 + 23, a.buf, 7));
	CHECK(!memcmp(b.buf + 200, a.buf + 7, 493));
	vt_pair_close(&a, &b);
}

/* The receiver answers by what it finds in the completion and the GRH. */
static void ud_reply(void)
{
	struct ibv_ah_attr attr;
	struct vt_end a, b;
	struct ibv_ah *ah;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_wc wc;

	ud_pair(&a, &b);
	vt_recv(&b, 1, 0, 200);
	vt_send(&a, 2, 0, 100, IBV_SEND_SIGNALED);
	WANT_OK(a.scq, 2);
	wc = WANT_OK(b.rcq, 1);
	memset(&attr, 0xff, sizeof(attr));
	CHECK_OK(ibv_init_ah_from_wc(b.ctx, 1, &wc, (struct ibv_grh *)b.buf, &attr));
	CHECK(attr.is_global);
	CHECK(!memcmp(&attr.grh.dgid, &a.self.gid, sizeof(a.self.gid)));
	CHECK_EQ(attr.grh.sgid_index, vt_gid_index());
	CHECK_EQ(attr.port_num, 1);
	ah = CHECK_PTR(ibv_create_ah_from_wc(b.pd, &wc, (struct ibv_grh *)b.buf, 1));
	vt_recv(&a, 3, 1000, 200);
	vt_pattern(b.buf, 50, 8);
	wr = ud_wr(&b, &sge, 4, 50);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = wc.src_qp;
	CHECK_OK(vt_post(&b, &wr));
	WANT_OK(b.scq, 4);
	CHECK_EQ(WANT_OK(a.rcq, 3).src_qp, b.qp->qp_num);
	CHECK_PATTERN(a.buf + 1000 + VT_GRH, 50, 8);
	CHECK_OK(ibv_destroy_ah(ah));
	vt_pair_close(&a, &b);
}

/* Sent, but not taken: the next good message is the first that arrives. */
static void ud_dropped(struct vt_end *a, struct vt_end *b, struct ibv_send_wr *wr)
{
	memset(b->buf, 0x22, 1024);
	vt_recv(b, 20, 0, 500);
	CHECK_OK(vt_post(a, wr));
	WANT_OK(a->scq, wr->wr_id);
	vt_send(a, 99, 0, 33, IBV_SEND_SIGNALED);
	WANT_OK(a->scq, 99);
	CHECK_EQ(WANT_OK(b->rcq, 20).byte_len, VT_GRH + 33);
	CHECK(vt_all(b->buf + VT_GRH + 33, 500, 0x22));
	CHECK_EMPTY(b->rcq);
}

static void ud_drops(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_ah_attr attr;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct vt_end a, b, rc;
	struct ibv_ah *nowhere;

	ud_pair(&a, &b);
	vt_end_open(&rc, &par);
	vt_connect(&rc, &rc.self);
	vt_recv(&rc, 1, 0, 500);
	wr = ud_wr(&a, &sge, 1, 200);
	wr.wr.ud.remote_qkey = VT_QKEY ^ 1; /* wrong Q_Key */
	ud_dropped(&a, &b, &wr);
	wr = ud_wr(&a, &sge, 2, 200);
	wr.wr.ud.remote_qpn ^= 0x5a5a5a; /* no such QP */
	ud_dropped(&a, &b, &wr);
	wr = ud_wr(&a, &sge, 3, 200);
	wr.wr.ud.remote_qpn = rc.qp->qp_num; /* not a UD QP */
	ud_dropped(&a, &b, &wr);
	CHECK_EMPTY(rc.rcq);
	attr = vt_av(&a.self.gid, 0);
	attr.grh.dgid.raw[15] ^= 0x5a;
	attr.grh.dgid.raw[14] ^= 0xa5;
	nowhere = ibv_create_ah(a.pd, &attr); /* a device that resolves may refuse it */
	if (nowhere) {
		wr = ud_wr(&a, &sge, 4, 200);
		wr.wr.ud.ah = nowhere;
		ud_dropped(&a, &b, &wr);
		CHECK_OK(ibv_destroy_ah(nowhere));
	}
	/* no receive posted */
	vt_send(&a, 5, 0, 200, IBV_SEND_SIGNALED);
	WANT_OK(a.scq, 5);
	wr = ud_wr(&a, &sge, 6, 33);
	ud_dropped(&a, &b, &wr);
	vt_end_close(&rc);
	vt_pair_close(&a, &b);
}

/* With the highest bit set, the sending QP's own Q_Key is used (IBTA 10.2.5). */
static void ud_controlled_qkey(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_qp_attr attr = { .qkey = 0x2222 };
	struct vt_end a, b;

	ud_pair(&a, &b);
	wr = ud_wr(&a, &sge, 1, 50);
	wr.wr.ud.remote_qkey = 0x80000000u;
	vt_recv(&b, 1, 0, 200);
	CHECK_OK(vt_post(&a, &wr));
	WANT_OK(a.scq, 1);
	CHECK_EQ(WANT_OK(b.rcq, 1).byte_len, VT_GRH + 50);
	CHECK_OK(ibv_modify_qp(a.qp, &attr, IBV_QP_QKEY)); /* now another than the peer's */
	ud_dropped(&a, &b, &wr);
	CHECK_OK(ibv_modify_qp(b.qp, &attr, IBV_QP_QKEY));
	vt_recv(&b, 2, 0, 200);
	CHECK_OK(vt_post(&a, &wr));
	WANT_OK(a.scq, 1);
	CHECK_EQ(WANT_OK(b.rcq, 2).byte_len, VT_GRH + 50);
	vt_pair_close(&a, &b);
}

/* A message is one packet: what is longer than the MTU is refused, or a local length error. */
static void ud_too_long(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct vt_end a, b;
	uint32_t mtu;

	ud_pair(&a, &b);
	mtu = port_mtu(a.ctx);
	memset(b.buf, 0x22, b.len);
	vt_recv(&b, 1, 0, b.len);
	wr = ud_wr(&a, &sge, 2, mtu + 1);
	if (!vt_post(&a, &wr)) {
		WANT(a.scq, 2, IBV_WC_LOC_LEN_ERR);
		CHECK(vt_state(a.qp) == IBV_QPS_SQE || vt_state(a.qp) == IBV_QPS_ERR);
	}
	CHECK_EMPTY(b.rcq);
	CHECK(vt_all(b.buf, b.len, 0x22));
	vt_pair_close(&a, &b);
}

static void ud_receive_too_small(void)
{
	struct vt_end a, b;

	ud_pair(&a, &b);
	memset(b.buf, 0x22, b.len);
	vt_recv(&b, 1, 64, VT_GRH + 10);
	vt_send(&a, 2, 0, 100, IBV_SEND_SIGNALED);
	WANT_OK(a.scq, 2);
	vt_send(&a, 3, 0, 5, IBV_SEND_SIGNALED);
	WANT_OK(a.scq, 3);
	dropped_or_too_long(&b, VT_GRH + 5);
	CHECK(vt_all(b.buf + 64 + VT_GRH + 10, 1000, 0x22));
	vt_pair_close(&a, &b);
}

/* One QP talks to many, and to itself. */
static void ud_many_peers(void)
{
	enum { PEERS = 20 };
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	struct ibv_qp *qp[PEERS];

	par.type = IBV_QPT_UD;
	vt_pair(&a, &b, &par);
	for (unsigned i = 0; i < PEERS; i++) {
		struct ibv_sge sge = vt_sge(&b, 1000 * i, 1000);
		struct ibv_recv_wr *bad, rr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 };

		qp[i] = vt_make_qp(&b);
		vt_connect_qp(qp[i], &par, &b.self, &a.self);
		CHECK_OK(ibv_post_recv(qp[i], &rr, &bad));
	}
	for (unsigned i = 0; i < PEERS; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = ud_wr(&a, &sge, i, 100 + i);

		vt_pattern(a.buf, 100 + i, i);
		wr.wr.ud.remote_qpn = qp[i]->qp_num;
		CHECK_OK(vt_post(&a, &wr));
		WANT_OK(a.scq, i);
		CHECK_EQ(WANT_OK(b.rcq, i).qp_num, qp[i]->qp_num);
		CHECK_PATTERN(b.buf + 1000 * i + VT_GRH, 100 + i, i);
	}
	for (unsigned i = 0; i < PEERS; i++)
		CHECK_OK(ibv_destroy_qp(qp[i]));
	vt_recv(&a, 50, 2000, 200);
	struct ibv_sge sge;
	struct ibv_send_wr wr = ud_wr(&a, &sge, 51, 100);
	wr.wr.ud.remote_qpn = a.qp->qp_num;
	CHECK_OK(vt_post(&a, &wr));
	WANT_OK(a.scq, 51);
	CHECK_EQ(WANT_OK(a.rcq, 50).src_qp, a.qp->qp_num);
	vt_pair_close(&a, &b);
}

static void ah_life(void)
{
	struct ibv_context *ctx = vt_open_device();
	struct ibv_pd *pd = CHECK_PTR(ibv_alloc_pd(ctx));
	struct ibv_ah_attr good, bad;
	struct ibv_ah *many[200];
	union ibv_gid gid;

	vt_gid(ctx, &gid);
	good = vt_av(&gid, 0);
	for (unsigned i = 0; i < ARRAY_SIZE(many); i++) {
		many[i] = CHECK_PTR(ibv_create_ah(pd, &good));
		CHECK(many[i]->pd == pd && many[i]->context == ctx);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(many); i++)
		CHECK_OK(ibv_destroy_ah(many[i]));
	bad = good;
	bad.port_num = 0;
	CHECK_NULL(ibv_create_ah(pd, &bad), EINVAL);
	bad.port_num = 9;
	CHECK_NULL(ibv_create_ah(pd, &bad), EINVAL);
	bad = good;
	bad.grh.sgid_index = 255;
	CHECK_NULL(ibv_create_ah(pd, &bad), EINVAL);
	CHECK_OK(ibv_dealloc_pd(pd));
	CHECK_OK(ibv_close_device(ctx));
}

VT_MAIN({ "uc_sizes", uc_sizes, 0 }, { "uc_ud_bad_opcodes", uc_ud_bad_opcodes, 0 },
	{ "uc_no_receive", uc_no_receive, 0 }, { "uc_bad_rkey", uc_bad_rkey, 0 },
	{ "uc_receive_too_small", uc_receive_too_small, 0 }, { "uc_peer_gone", uc_peer_gone, 0 },
	{ "uc_sqe", uc_sqe, 0 }, { "ud_sqe", ud_sqe, 0 }, { "ud_sizes", ud_sizes, 0 },
	{ "ud_scatter", ud_scatter, 0 }, { "ud_reply", ud_reply, 0 }, { "ud_drops", ud_drops, 0 },
	{ "ud_controlled_qkey", ud_controlled_qkey, 0 }, { "ud_too_long", ud_too_long, 0 },
	{ "ud_receive_too_small", ud_receive_too_small, 0 }, { "ud_many_peers", ud_many_peers, 0 },
	{ "ah_life", ah_life, 0 })
