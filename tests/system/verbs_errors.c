/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/* timeout: 600 */
/*
 * verbs_errors.c - what goes wrong on an RC connection: the status on each side, the state of each
 * QP, the async event, and the flush that follows (IBTA 9.9, 10.3.1, 11.6.2). What is tried again
 * is in verbs_retry.c, UC and UD are in verbs_uc_ud.c, a peer that dies is in verbs_peer_dies.c.
 */
#include "tests/rig/verbs/vt.h"

#include <stdlib.h>
#include <sys/mman.h>

/*
 * The requester failed with that status: its next WR is flushed, the QP is in error, and sends
 * posted afterwards are flushed too.
 */
static void requester_failed(struct vt_end *a, uint64_t id, enum ibv_wc_status status)
{
	WANT(a->scq, id, status);
	CHECK_EQ(vt_state(a->qp), IBV_QPS_ERR);
	vt_send(a, id + 1, 0, 8, IBV_SEND_SIGNALED);
	WANT(a->scq, id + 1, IBV_WC_WR_FLUSH_ERR);
}

/* The responder's QP went into error: its receives are flushed in order. */
static void responder_flushed(struct vt_end *b, uint64_t first, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		WANT(b->rcq, first + i, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(vt_state(b->qp), IBV_QPS_ERR);
	CHECK_EMPTY(b->rcq);
}

/* ---- receiver not ready --------------------------------------------------------------------- */

/* RDMA needs no receive, but WRITE with immediate does. */
static void rnr_write_imm(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	par.rnr_retry = 1;
	par.rnr_timer = 1;
	vt_pair(&a, &b, &par);
	vt_rdma(&a, IBV_WR_RDMA_WRITE, 1, 0, 8, 0, IBV_SEND_SIGNALED);
	WANT_OK(a.scq, 1);
	vt_rdma(&a, IBV_WR_RDMA_WRITE_WITH_IMM, 2, 0, 8, 0, IBV_SEND_SIGNALED);
	requester_failed(&a, 2, IBV_WC_RNR_RETRY_EXC_ERR);
	vt_pair_close(&a, &b);
}

/* ---- remote access -------------------------------------------------------------------------- */

struct remote {
	enum ibv_wr_opcode op;
	uint64_t addr;
	uint32_t rkey, len;
};

/* A request that the responder must refuse with that status, and nothing of b's memory changed. */
static void refused(struct vt_end *a, struct vt_end *b, const struct remote *r,
		    enum ibv_wc_status status, enum ibv_event_type event)
{
	bool atomic = r->op == IBV_WR_ATOMIC_CMP_AND_SWP || r->op == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct ibv_sge sge = vt_sge(a, 0, r->len);
	struct ibv_send_wr wr = {
		.wr_id = 10,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = r->op,
		.send_flags = IBV_SEND_SIGNALED,
	};

	if (atomic) {
		wr.wr.atomic.remote_addr = r->addr;
		wr.wr.atomic.rkey = r->rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = r->addr;
		wr.wr.rdma.rkey = r->rkey;
	}
	memset(a->buf, 0x11, a->len);
	memset(b->buf, 0x22, b->len);
	vt_recv(b, 20, 0, 8);
	vt_recv(b, 21, 0, 8);
	CHECK_OK(vt_post(a, &wr));
	requester_failed(a, 10, status);
	WANT_QP_EVENT(b, event);
	responder_flushed(b, 20, 2);
	CHECK(vt_all(b->buf, b->len, 0x22));
	CHECK(vt_all(a->buf, a->len, 0x11));
	vt_pair_reset(a, b);
	vt_check_alive(a, b);
}

static const struct {
	enum ibv_wr_opcode op;
	int right; /* what the responder's MR and QP must have for it */
} one_sided[] = {
	{ IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE },
	{ IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ },
	{ IBV_WR_ATOMIC_CMP_AND_SWP, IBV_ACCESS_REMOTE_ATOMIC },
	{ IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_REMOTE_ATOMIC },
};

static void access_bad_rkey(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	vt_pair(&a, &b, &par);
	for (unsigned i = 0; i < ARRAY_SIZE(one_sided); i++) {
		const uint32_t keys[] = { 0,
					  0xffffffff,
					  b.mr->rkey ^ 1,
					  b.mr->rkey ^ 0x100,
					  b.mr->rkey ^ 0x80000000,
					  a.mr->rkey ^ 0x010101 };

		for (unsigned k = 0; k < ARRAY_SIZE(keys); k++) {
			struct remote r = { one_sided[i].op, b.self.addr, keys[k], 8 };

			refused(&a, &b, &r, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
		}
	}
	vt_pair_close(&a, &b);
}

static void access_out_of_bounds(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	par.len = 16384;
	vt_pair(&a, &b, &par);
	for (unsigned i = 0; i < 2; i++) {
		const struct remote r[] = {
			{ one_sided[i].op, b.self.addr + b.len, b.mr->rkey, 1 },
			{ one_sided[i].op, b.self.addr + b.len - 7, b.mr->rkey, 8 },
			{ one_sided[i].op, b.self.addr - 1, b.mr->rkey, 2 },
			{ one_sided[i].op, b.self.addr + 1, b.mr->rkey, 16384 },
			{ one_sided[i].op, 0, b.mr->rkey, 8 },
			{ one_sided[i].op, UINT64_MAX - 3, b.mr->rkey, 8 },
			{ one_sided[i].op, UINT64_MAX - 3, b.mr->rkey, 4 },
		};

		for (unsigned k = 0; k < ARRAY_SIZE(r); k++)
			refused(&a, &b, &r[k], IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
	}
	for (unsigned i = 2; i < 4; i++) {
		struct ibv_mr *lacks_last = vt_reg(&b, b.buf, b.len - 1, VT_ACCESS_ALL);
		struct ibv_mr *lacks_first = vt_reg(&b, b.buf + 1, b.len - 1, VT_ACCESS_ALL);
		const struct remote r[] = {
			{ one_sided[i].op, b.self.addr + b.len, b.mr->rkey, 8 },
			{ one_sided[i].op, b.self.addr + b.len - 8, lacks_last->rkey, 8 },
			{ one_sided[i].op, b.self.addr, lacks_first->rkey, 8 },
		};

		for (unsigned k = 0; k < ARRAY_SIZE(r); k++)
			refused(&a, &b, &r[k], IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
		CHECK_OK(ibv_dereg_mr(lacks_last));
		CHECK_OK(ibv_dereg_mr(lacks_first));
	}
	vt_pair_close(&a, &b);
}

/* A partly valid message: a long WRITE that leaves the MR changes nothing, not even its start. */
static void access_partly_out(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	struct ibv_mr *half;
	struct remote r;

	par.len = 1 << 20;
	vt_pair(&a, &b, &par);
	half = vt_reg(&b, b.buf, b.len / 2, VT_ACCESS_ALL);
	r = (struct remote){ IBV_WR_RDMA_WRITE, b.self.addr + 4096, half->rkey, 1 << 19 };
	refused(&a, &b, &r, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
	CHECK_OK(ibv_dereg_mr(half));
	vt_pair_close(&a, &b);
}

static void access_missing_right(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	vt_pair(&a, &b, &par);
	for (unsigned i = 0; i < ARRAY_SIZE(one_sided); i++) {
		struct ibv_mr *mr = vt_reg(&b, b.buf, b.len, VT_ACCESS_ALL & ~one_sided[i].right);
		struct remote r = { one_sided[i].op, b.self.addr, mr->rkey, 8 };

		refused(&a, &b, &r, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
		CHECK_OK(ibv_dereg_mr(mr));
	}
	vt_pair_close(&a, &b);
}

static void access_deregistered(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	vt_pair(&a, &b, &par);
	for (unsigned i = 0; i < ARRAY_SIZE(one_sided); i++) {
		struct ibv_mr *mr = vt_reg(&b, b.buf, b.len, VT_ACCESS_ALL);
		struct remote r = { one_sided[i].op, b.self.addr, mr->rkey, 8 };

		CHECK_OK(ibv_dereg_mr(mr));
		refused(&a, &b, &r, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
	}
	vt_pair_close(&a, &b);
}

static void access_other_pd(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	struct ibv_pd *pd;

	vt_pair(&a, &b, &par);
	pd = CHECK_PTR(ibv_alloc_pd(b.ctx));
	for (unsigned i = 0; i < ARRAY_SIZE(one_sided); i++) {
		struct ibv_mr *mr = CHECK_PTR(ibv_reg_mr(pd, b.buf, b.len, VT_ACCESS_ALL));
		struct remote r = { one_sided[i].op, b.self.addr, mr->rkey, 8 };

		refused(&a, &b, &r, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
		CHECK_OK(ibv_dereg_mr(mr));
	}
	CHECK_OK(ibv_dealloc_pd(pd));
	vt_pair_close(&a, &b);
}

/* A key of the requester's own session does not open the responder's memory. */
static void access_foreign_key(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	struct remote r;

	vt_pair(&a, &b, &par);
	if (a.mr->rkey == b.mr->rkey)
		vt_skip("both sessions have the same key");
	r = (struct remote){ IBV_WR_RDMA_WRITE, a.self.addr, a.mr->rkey, 8 };
	refused(&a, &b, &r, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
	vt_pair_close(&a, &b);
}

/* ---- invalid requests ----------------------------------------------------------------------- */

/* The responder's QP does not allow the operation at all. */
static void inv_req_qp_access(void)
{
	struct vt_param par = VT_PARAM;

	for (unsigned i = 0; i < ARRAY_SIZE(one_sided); i++) {
		struct vt_end a, b;
		struct remote r;

		par.qp_access = VT_ACCESS_ALL & ~one_sided[i].right;
		vt_end_open(&a, &par);
		vt_end_open(&b, &par);
		vt_connect(&a, &b.self);
		vt_connect(&b, &a.self);
		r = (struct remote){ one_sided[i].op, b.self.addr, b.mr->rkey, 8 };
		memset(b.buf, 0x22, b.len);
		vt_recv(&b, 20, 64, 8);
		if (r.op == IBV_WR_RDMA_WRITE || r.op == IBV_WR_RDMA_READ)
			vt_rdma(&a, r.op, 10, 0, 8, 0, IBV_SEND_SIGNALED);
		else
			vt_atomic(&a, r.op, 10, 0, 0, 1, 1);
		requester_failed(&a, 10, IBV_WC_REM_INV_REQ_ERR);
		WANT_QP_EVENT(&b, IBV_EVENT_QP_REQ_ERR);
		responder_flushed(&b, 20, 1);
		CHECK(vt_all(b.buf, b.len, 0x22));
		vt_pair_close(&a, &b);
	}
}

/* The message is longer than the receive: both sides are told. */
static void inv_req_recv_too_small(void)
{
	static const size_t lens[] = { 101, 4097, 60000 };
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	vt_pair(&a, &b, &par);
	for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
		memset(b.buf, 0x22, b.len);
		vt_recv(&b, 20, 64, lens[i] - 1);
		vt_recv(&b, 21, 64, 8);
		vt_send(&a, 10, 0, lens[i], IBV_SEND_SIGNALED);
		requester_failed(&a, 10, IBV_WC_REM_INV_REQ_ERR);
		WANT(b.rcq, 20, IBV_WC_LOC_LEN_ERR);
		responder_flushed(&b, 21, 1);
		CHECK(vt_all(b.buf, 64, 0x22));
		CHECK(vt_all(b.buf + 64 + lens[i] - 1, 1000, 0x22));
		vt_pair_reset(&a, &b);
	}
	vt_check_alive(&a, &b);
	vt_pair_close(&a, &b);
}

static void inv_req_misaligned_atomic(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	vt_pair(&a, &b, &par);
	for (unsigned off = 1; off < 8; off++) {
		const struct remote r = { one_sided[2 + off % 2].op, b.self.addr + off, b.mr->rkey,
					  8 };

		refused(&a, &b, &r, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
	}
	vt_pair_close(&a, &b);
}

/* The responder has no resources for READs and atomics. */
static void inv_req_no_rd_atomic(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	struct remote r;

	par.dest_rd_atomic = 0;
	vt_pair(&a, &b, &par);
	r = (struct remote){ IBV_WR_RDMA_READ, b.self.addr, b.mr->rkey, 8 };
	refused(&a, &b, &r, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
	vt_pair_close(&a, &b);
}

/* ---- local errors --------------------------------------------------------------------------- */

static void failing_send(struct vt_end *a, struct vt_end *b, struct ibv_sge sge,
			 enum ibv_wr_opcode op, enum ibv_wc_status status)
{
	struct ibv_send_wr wr = {
		.wr_id = 10,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = op,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = b->self.addr, .rkey = b->self.rkey },
	};

	memset(b->buf, 0x22, b->len);
	vt_recv(b, 20, 0, 64);
	CHECK_OK(vt_post(a, &wr));
	requester_failed(a, 10, status);
	CHECK_EMPTY(b->rcq);
	CHECK_EQ(vt_state(b->qp), IBV_QPS_RTS);
	CHECK(vt_all(b->buf, b->len, 0x22));
	vt_pair_reset(a, b);
}

static void loc_prot_send(void)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						  IBV_WR_RDMA_READ };
	struct vt_param par = VT_PARAM;
	struct ibv_mr *gone, *other, *read_only;
	struct ibv_pd *pd;
	struct vt_end a, b;

	vt_pair(&a, &b, &par);
	pd = CHECK_PTR(ibv_alloc_pd(a.ctx));
	other = CHECK_PTR(ibv_reg_mr(pd, a.buf, a.len, VT_ACCESS_ALL));
	read_only = vt_reg(&a, a.buf, a.len, 0);
	gone = vt_reg(&a, a.buf, a.len, VT_ACCESS_ALL);
	uint32_t gone_key = gone->lkey;
	CHECK_OK(ibv_dereg_mr(gone));
	for (unsigned i = 0; i < ARRAY_SIZE(ops); i++) {
		const struct ibv_sge bad[] = {
			{ a.self.addr, 8, a.mr->lkey ^ 1 },
			{ a.self.addr, 8, a.mr->lkey ^ 0x4000 },
			{ a.self.addr, 8, 0 },
			{ a.self.addr, 8, gone_key },
			{ a.self.addr, 8, other->lkey },
			{ a.self.addr + a.len - 7, 8, a.mr->lkey },
			{ a.self.addr - 1, 8, a.mr->lkey },
			{ UINT64_MAX - 3, 8, a.mr->lkey },
		};

		for (unsigned k = 0; k < ARRAY_SIZE(bad); k++)
			failing_send(&a, &b, bad[k], ops[i], IBV_WC_LOC_PROT_ERR);
	}
	/* A READ writes the local memory. */
	failing_send(&a, &b, (struct ibv_sge){ a.self.addr, 8, read_only->lkey }, IBV_WR_RDMA_READ,
		     IBV_WC_LOC_PROT_ERR);
	vt_check_alive(&a, &b);
	CHECK_OK(ibv_dereg_mr(other));
	CHECK_OK(ibv_dereg_mr(read_only));
	CHECK_OK(ibv_dealloc_pd(pd));
	vt_pair_close(&a, &b);
}

/* A receive that cannot be written: a protection error there, an operation error here. */
static void loc_prot_recv(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_mr *read_only;
	struct vt_end a, b;

	vt_pair(&a, &b, &par);
	read_only = vt_reg(&b, b.buf, b.len, IBV_ACCESS_REMOTE_READ);
	const struct ibv_sge bad[] = {
		{ b.self.addr, 64, b.mr->lkey ^ 1 },
		{ b.self.addr, 64, 0 },
		{ b.self.addr, 64, read_only->lkey },
		{ b.self.addr + b.len - 63, 64, b.mr->lkey },
	};
	for (unsigned k = 0; k < ARRAY_SIZE(bad); k++) {
		struct ibv_sge sge = bad[k];
		struct ibv_recv_wr rr = { .wr_id = 20, .sg_list = &sge, .num_sge = 1 };

		memset(b.buf, 0x22, b.len);
		CHECK_OK(vt_post_recv(&b, &rr));
		vt_recv(&b, 21, 0, 64);
		vt_send(&a, 10, 0, 64, IBV_SEND_SIGNALED);
		requester_failed(&a, 10, IBV_WC_REM_OP_ERR);
		WANT(b.rcq, 20, IBV_WC_LOC_PROT_ERR);
		responder_flushed(&b, 21, 1);
		CHECK(vt_all(b.buf, b.len, 0x22));
		vt_pair_reset(&a, &b);
	}
	vt_check_alive(&a, &b);
	CHECK_OK(ibv_dereg_mr(read_only));
	vt_pair_close(&a, &b);
}

/* Longer than the port's max_msg_sz: refused at posting, or a local length error. */
static void loc_len(void)
{
	struct vt_param par = VT_PARAM;
	size_t each = 192u << 20;
	struct ibv_send_wr wr = { .wr_id = 10,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_sge sge[32];
	struct ibv_port_attr port;
	struct ibv_mr *mr;
	struct vt_end a, b;
	void *big;
	int n;

	par.send_sge = 32;
	vt_pair(&a, &b, &par);
	CHECK_OK(ibv_query_port(a.ctx, 1, &port));
	n = (int)(port.max_msg_sz / each + 1);
	if (n > 32)
		vt_skip("max_msg_sz is %u", port.max_msg_sz);
	big = mmap(NULL, each, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE,
		   -1, 0);
	CHECK(big != MAP_FAILED);
	mr = ibv_reg_mr(a.pd, big, each, 0);
	if (!mr)
		vt_skip("cannot register %zu MB: %s", each >> 20, strerror(errno));
	for (int i = 0; i < n; i++)
		sge[i] = (struct ibv_sge){ (uintptr_t)big, (uint32_t)each, mr->lkey };
	wr.sg_list = sge;
	wr.num_sge = n;
	wr.wr.rdma.remote_addr = a.peer.addr;
	wr.wr.rdma.rkey = a.peer.rkey;
	memset(b.buf, 0x22, b.len);
	if (!vt_post(&a, &wr)) {
		requester_failed(&a, 10, IBV_WC_LOC_LEN_ERR);
		vt_pair_reset(&a, &b);
	}
	CHECK(vt_all(b.buf, b.len, 0x22));
	vt_check_alive(&a, &b);
	CHECK_OK(ibv_dereg_mr(mr));
	vt_pair_close(&a, &b);
}

/* READ or atomic with max_rd_atomic 0: never carried out, never hangs. */
static void no_initiator_depth(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_send_wr wr = { .wr_id = 10,
				  .opcode = IBV_WR_RDMA_READ,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_sge sge;
	struct vt_end a, b;

	par.rd_atomic = 0;
	vt_pair(&a, &b, &par);
	sge = vt_sge(&a, 0, 8);
	wr.sg_list = &sge;
	wr.wr.rdma.remote_addr = a.peer.addr;
	wr.wr.rdma.rkey = a.peer.rkey;
	memset(a.buf, 0x11, 8);
	if (!vt_post(&a, &wr)) {
		struct ibv_wc wc = vt_wc(a.scq);

		CHECK_EQ(wc.wr_id, 10);
		CHECK(wc.status != IBV_WC_SUCCESS);
		CHECK_EQ(vt_state(a.qp), IBV_QPS_ERR);
		vt_pair_reset(&a, &b);
	}
	vt_check_alive(&a, &b);
	vt_pair_close(&a, &b);
}

/* An error on one connection leaves the others of the session alone. */
static void error_is_local(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b, c, d;

	vt_pair(&a, &b, &par);
	vt_end_open_on(&c, &par, a.ctx, a.pd);
	vt_end_open_on(&d, &par, b.ctx, b.pd);
	vt_connect(&c, &d.self);
	vt_connect(&d, &c.self);
	for (unsigned i = 0; i < 100; i++) {
		struct remote r = { IBV_WR_RDMA_WRITE, b.self.addr, b.mr->rkey ^ 1, 8 };

		refused(&a, &b, &r, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
		vt_check_alive(&c, &d);
	}
	vt_pair_close(&c, &d);
	vt_pair_close(&a, &b);
}

VT_MAIN({ "rnr_write_imm", rnr_write_imm, 0 }, { "access_bad_rkey", access_bad_rkey, 0 },
	{ "access_out_of_bounds", access_out_of_bounds, 0 },
	{ "access_partly_out", access_partly_out, 0 },
	{ "access_missing_right", access_missing_right, 0 },
	{ "access_deregistered", access_deregistered, 0 },
	{ "access_other_pd", access_other_pd, 0 }, { "access_foreign_key", access_foreign_key, 0 },
	{ "inv_req_qp_access", inv_req_qp_access, 0 },
	{ "inv_req_recv_too_small", inv_req_recv_too_small, 0 },
	{ "inv_req_misaligned_atomic", inv_req_misaligned_atomic, 0 },
	{ "inv_req_no_rd_atomic", inv_req_no_rd_atomic, 0 }, { "loc_prot_send", loc_prot_send, 0 },
	{ "loc_prot_recv", loc_prot_recv, 0 }, { "loc_len", loc_len, 0 },
	{ "no_initiator_depth", no_initiator_depth, 0 }, { "error_is_local", error_is_local, 0 })
