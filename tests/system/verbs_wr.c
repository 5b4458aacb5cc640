/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/* timeout: 600 */
/*
 * verbs_wr.c - the extended interfaces: ibv_create_qp_ex with ibv_wr_* (ibv_wr_post(3)), and
 * ibv_create_cq_ex with ibv_start_poll and the readers.
 */
#include "tests/rig/verbs/vt.h"

#include <arpa/inet.h>
#include <stdlib.h>

#define OPS_RC                                                                                     \
	(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |          \
	 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |                           \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
#define OPS_UC                                                                                     \
	(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |          \
	 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
#define OPS_UD (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)

static struct ibv_qp_ex *ex_pair(struct vt_end *a, struct vt_end *b, enum ibv_qp_type type,
				 uint64_t ops)
{
	struct vt_param par = VT_PARAM;
	struct ibv_qp_ex *qpx;

	par.type = type;
	par.send_ops = ops;
	par.inline_data = 128;
	par.len = 256 * 1024;
	vt_pair(a, b, &par);
	qpx = CHECK_PTR(ibv_qp_to_qp_ex(a->qp));
	CHECK(&qpx->qp_base == a->qp);
	return qpx;
}

static void begin(struct ibv_qp_ex *qpx, uint64_t id, unsigned flags)
{
	ibv_wr_start(qpx);
	qpx->wr_id = id;
	qpx->wr_flags = flags;
}

/* A QP that was made by ibv_create_qp has no such interface. */
static void wr_needs_create_ex(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end e;

	vt_end_open(&e, &par);
	CHECK(!ibv_qp_to_qp_ex(e.qp));
	vt_end_close(&e);
}

static void wr_bad_ops(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_qp_init_attr_ex init;
	struct vt_end e;

	vt_end_open(&e, &par);
	init = (struct ibv_qp_init_attr_ex){
		.send_cq = e.scq,
		.recv_cq = e.rcq,
		.cap = { 4, 4, 1, 1, 0 },
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = e.pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE, /* UD has none */
	};
	errno = 0;
	CHECK(!ibv_create_qp_ex(e.ctx, &init));
	CHECK(errno == EOPNOTSUPP || errno == EINVAL);
	init.send_ops_flags = 1ull << 60;
	errno = 0;
	CHECK(!ibv_create_qp_ex(e.ctx, &init));
	CHECK(errno == EOPNOTSUPP || errno == EINVAL);
	init.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS; /* a PD is needed */
	init.send_ops_flags = OPS_UD;
	CHECK_NULL(ibv_create_qp_ex(e.ctx, &init), EINVAL);
	vt_end_close(&e);
}

static void wr_rc_operations(void)
{
	struct vt_end a, b;
	struct ibv_qp_ex *q = ex_pair(&a, &b, IBV_QPT_RC, OPS_RC);
	const unsigned sig = IBV_SEND_SIGNALED;
	size_t n = 100000;
	struct ibv_wc wc;
	uint64_t v;

	vt_pattern(a.buf, n, 1);
	vt_recv(&b, 1, 0, n);
	begin(q, 11, sig);
	ibv_wr_send(q);
	ibv_wr_set_sge(q, a.mr->lkey, a.self.addr, (uint32_t)n);
	CHECK_OK(ibv_wr_complete(q));
	CHECK_EQ(WANT_OK(a.scq, 11).opcode, IBV_WC_SEND);
	CHECK_EQ(WANT_OK(b.rcq, 1).byte_len, n);
	CHECK_PATTERN(b.buf, n, 1);

	vt_recv(&b, 2, 0, 100);
	begin(q, 12, sig);
	ibv_wr_send_imm(q, htonl(77));
	ibv_wr_set_sge(q, a.mr->lkey, a.self.addr, 100);
	CHECK_OK(ibv_wr_complete(q));
	CHECK_EQ(WANT_OK(a.scq, 12).opcode, IBV_WC_SEND);
	wc = WANT_OK(b.rcq, 2);
	CHECK(wc.wc_flags & IBV_WC_WITH_IMM);
	CHECK_EQ(ntohl(wc.imm_data), 77);

	memset(b.buf, 0, n);
	begin(q, 13, sig);
	ibv_wr_rdma_write(q, b.mr->rkey, b.self.addr + 5);
	ibv_wr_set_sge(q, a.mr->lkey, a.self.addr, (uint32_t)n);
	CHECK_OK(ibv_wr_complete(q));
	CHECK_EQ(WANT_OK(a.scq, 13).opcode, IBV_WC_RDMA_WRITE);
	CHECK_PATTERN(b.buf + 5, n, 1);

	vt_recv(&b, 3, 0, 0);
	begin(q, 14, sig);
	ibv_wr_rdma_write_imm(q, b.mr->rkey, b.self.addr + 9, htonl(78));
	ibv_wr_set_sge(q, a.mr->lkey, a.self.addr, 1000);
	CHECK_OK(ibv_wr_complete(q));
	CHECK_EQ(WANT_OK(a.scq, 14).opcode, IBV_WC_RDMA_WRITE);
	wc = WANT_OK(b.rcq, 3);
	CHECK_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	CHECK_EQ(ntohl(wc.imm_data), 78);
	CHECK_PATTERN(b.buf + 9, 1000, 1);

	vt_pattern(b.buf, n, 2);
	begin(q, 15, sig);
	ibv_wr_rdma_read(q, b.mr->rkey, b.self.addr);
	ibv_wr_set_sge(q, a.mr->lkey, a.self.addr + 3, (uint32_t)n);
	CHECK_OK(ibv_wr_complete(q));
	CHECK_EQ(WANT_OK(a.scq, 15).opcode, IBV_WC_RDMA_READ);
	CHECK_PATTERN(a.buf + 3, n, 2);

	v = 1000;
	memcpy(b.buf, &v, 8);
	begin(q, 16, sig);
	ibv_wr_atomic_fetch_add(q, b.mr->rkey, b.self.addr, 23);
	ibv_wr_set_sge(q, a.mr->lkey, a.self.addr, 8);
	CHECK_OK(ibv_wr_complete(q));
	CHECK_EQ(WANT_OK(a.scq, 16).opcode, IBV_WC_FETCH_ADD);
	memcpy(&v, a.buf, 8);
	CHECK_EQ(v, 1000);
	begin(q, 17, sig);
	ibv_wr_atomic_cmp_swp(q, b.mr->rkey, b.self.addr, 1023, 5);
	ibv_wr_set_sge(q, a.mr->lkey, a.self.addr, 8);
	CHECK_OK(ibv_wr_complete(q));
	CHECK_EQ(WANT_OK(a.scq, 17).opcode, IBV_WC_COMP_SWAP);
	memcpy(&v, a.buf, 8);
	CHECK_EQ(v, 1023);
	memcpy(&v, b.buf, 8);
	CHECK_EQ(v, 5);
	vt_pair_close(&a, &b);
}

/* Lists of entries and of inline buffers. */
static void wr_data_setters(void)
{
	static const char *const words[] = { "one ", "two", "", " three" };
	struct vt_end a, b;
	struct ibv_qp_ex *q = ex_pair(&a, &b, IBV_QPT_RC, OPS_RC);
	struct ibv_data_buf bufs[4];
	struct ibv_sge sge[4];
	char text[64];

	vt_pattern(a.buf, 4000, 4);
	for (unsigned i = 0; i < 4; i++)
		sge[i] = vt_sge(&a, 1000 * i, 100 * i);
	vt_recv(&b, 1, 0, 1000);
	begin(q, 1, IBV_SEND_SIGNALED);
	ibv_wr_send(q);
	ibv_wr_set_sge_list(q, 4, sge);
	CHECK_OK(ibv_wr_complete(q));
	WANT_OK(a.scq, 1);
	CHECK_EQ(WANT_OK(b.rcq, 1).byte_len, 600);
	CHECK(!memcmp(b.buf, a.buf + 1000, 100) && !memcmp(b.buf + 100, a.buf + 2000, 200) &&
	      !memcmp(b.buf + 300, a.buf + 3000, 300));

	vt_recv(&b, 2, 0, 1000);
	begin(q, 2, IBV_SEND_SIGNALED);
	ibv_wr_send(q);
	strcpy(text, "inline text");
	ibv_wr_set_inline_data(q, text, 12);
	memset(text, 'x', sizeof(text)); /* taken already, before ibv_wr_complete */
	CHECK_OK(ibv_wr_complete(q));
	WANT_OK(a.scq, 2);
	CHECK_EQ(WANT_OK(b.rcq, 2).byte_len, 12);
	CHECK(!strcmp((char *)b.buf, "inline text"));

	for (unsigned i = 0; i < 4; i++)
		bufs[i] = (struct ibv_data_buf){ (void *)words[i], strlen(words[i]) };
	memset(b.buf, 0, 64);
	begin(q, 3, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(q, b.mr->rkey, b.self.addr);
	ibv_wr_set_inline_data_list(q, 4, bufs);
	CHECK_OK(ibv_wr_complete(q));
	WANT_OK(a.scq, 3);
	CHECK(!strcmp((char *)b.buf, "one two three"));

	/* nothing at all */
	vt_recv(&b, 4, 0, 0);
	begin(q, 4, IBV_SEND_SIGNALED);
	ibv_wr_send(q);
	ibv_wr_set_sge_list(q, 0, NULL);
	CHECK_OK(ibv_wr_complete(q));
	WANT_OK(a.scq, 4);
	CHECK_EQ(WANT_OK(b.rcq, 4).byte_len, 0);
	vt_pair_close(&a, &b);
}

/* Several WRs between start and complete; unsignalled and fenced ones among them. */
static void wr_batches(void)
{
	struct vt_end a, b;
	struct ibv_qp_ex *q = ex_pair(&a, &b, IBV_QPT_RC, OPS_RC);
	uint64_t id = 0;

	for (unsigned lap = 0; lap < 500; lap++) {
		unsigned n = 1 + lap % 60;

		ibv_wr_start(q);
		for (unsigned i = 0; i < n; i++) {
			q->wr_id = id + i;
			q->wr_flags = i == n - 1 ? IBV_SEND_SIGNALED | IBV_SEND_FENCE : 0;
			memcpy(a.buf + 8 * i, &(uint64_t){ id + i }, 8);
			ibv_wr_rdma_write(q, b.mr->rkey, b.self.addr + 8 * i);
			ibv_wr_set_sge(q, a.mr->lkey, a.self.addr + 8 * i, 8);
		}
		CHECK_OK(ibv_wr_complete(q));
		WANT_OK(a.scq, id + n - 1);
		CHECK(!memcmp(a.buf, b.buf, 8 * n));
		id += n;
	}
	CHECK_EMPTY(a.scq);
	vt_pair_close(&a, &b);
}

/* An aborted batch leaves nothing behind. */
static void wr_abort(void)
{
	struct vt_end a, b;
	struct ibv_qp_ex *q = ex_pair(&a, &b, IBV_QPT_RC, OPS_RC);

	memset(b.buf, 0x22, 100);
	for (unsigned lap = 0; lap < 200; lap++) {
		begin(q, 666, IBV_SEND_SIGNALED);
		for (unsigned i = 0; i < lap % 10; i++) {
			ibv_wr_rdma_write(q, b.mr->rkey, b.self.addr);
			ibv_wr_set_sge(q, a.mr->lkey, a.self.addr, 8);
		}
		ibv_wr_abort(q);
		begin(q, lap, IBV_SEND_SIGNALED);
		ibv_wr_rdma_write(q, b.mr->rkey, b.self.addr + 1000);
		ibv_wr_set_sge(q, a.mr->lkey, a.self.addr, 8);
		CHECK_OK(ibv_wr_complete(q));
		WANT_OK(a.scq, lap);
	}
	CHECK(vt_all(b.buf, 100, 0x22));
	CHECK_EMPTY(a.scq);
	vt_pair_close(&a, &b);
}

/* An error in one WR of a batch: ibv_wr_complete tells, and none of the batch is posted. */
static void wr_errors(void)
{
	struct vt_end a, b;
	struct ibv_qp_ex *q = ex_pair(&a, &b, IBV_QPT_RC, OPS_RC);
	struct ibv_sge sge[40];
	uint8_t data[4096] = { 0 };
	unsigned room = 0;

	memset(b.buf, 0x22, 100);
	for (unsigned i = 0; i < ARRAY_SIZE(sge); i++)
		sge[i] = vt_sge(&a, i, 1);
	for (unsigned kind = 0; kind < 2; kind++) {
		begin(q, 1, IBV_SEND_SIGNALED);
		ibv_wr_rdma_write(q, b.mr->rkey, b.self.addr);
		ibv_wr_set_sge(q, a.mr->lkey, a.self.addr, 8);
		ibv_wr_rdma_write(q, b.mr->rkey, b.self.addr);
		if (kind)
			ibv_wr_set_inline_data(q, data, sizeof(data));
		else
			ibv_wr_set_sge_list(q, ARRAY_SIZE(sge), sge);
		CHECK(ibv_wr_complete(q) != 0);
		begin(q, 2, IBV_SEND_SIGNALED);
		ibv_wr_rdma_write(q, b.mr->rkey, b.self.addr + 1000);
		ibv_wr_set_sge(q, a.mr->lkey, a.self.addr, 8);
		CHECK_OK(ibv_wr_complete(q));
		WANT_OK(a.scq, 2);
		CHECK(vt_all(b.buf, 100, 0x22));
	}
	/* more than the queue holds */
	begin(q, 3, IBV_SEND_SIGNALED);
	for (; room < 5000; room++) {
		ibv_wr_rdma_write(q, b.mr->rkey, b.self.addr);
		ibv_wr_set_sge(q, a.mr->lkey, a.self.addr, 8);
	}
	CHECK_EQ(ibv_wr_complete(q), ENOMEM);
	CHECK_EMPTY(a.scq);
	CHECK(vt_all(b.buf, 100, 0x22));
	vt_check_alive(&a, &b); /* ibv_post_send and ibv_wr_* on one QP */
	vt_pair_close(&a, &b);
}

static void wr_uc_ud(void)
{
	struct vt_end a, b;
	struct ibv_qp_ex *q = ex_pair(&a, &b, IBV_QPT_UC, OPS_UC);
	struct ibv_wc wc;

	vt_pattern(a.buf, 500, 3);
	begin(q, 1, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(q, b.mr->rkey, b.self.addr);
	ibv_wr_set_sge(q, a.mr->lkey, a.self.addr, 500);
	CHECK_OK(ibv_wr_complete(q));
	WANT_OK(a.scq, 1);
	WAIT_FOR(vt_mismatch(b.buf, 500, 3) < 0);
	vt_pair_close(&a, &b);

	q = ex_pair(&a, &b, IBV_QPT_UD, OPS_UD);
	vt_pattern(a.buf, 500, 4);
	for (unsigned imm = 0; imm < 2; imm++) {
		vt_recv(&b, 2, 0, 1000);
		begin(q, 2, IBV_SEND_SIGNALED);
		if (imm)
			ibv_wr_send_imm(q, 12345);
		else
			ibv_wr_send(q);
		ibv_wr_set_ud_addr(q, a.ah, b.qp->qp_num, VT_QKEY);
		ibv_wr_set_sge(q, a.mr->lkey, a.self.addr, 500);
		CHECK_OK(ibv_wr_complete(q));
		WANT_OK(a.scq, 2);
		wc = WANT_OK(b.rcq, 2);
		CHECK_EQ(wc.byte_len, VT_GRH + 500);
		CHECK_EQ(wc.src_qp, a.qp->qp_num);
		CHECK_EQ(!!(wc.wc_flags & IBV_WC_WITH_IMM), imm);
		CHECK_PATTERN(b.buf + VT_GRH, 500, 4);
	}
	vt_pair_close(&a, &b);
}

/* ---- extended CQs --------------------------------------------------------------------------- */

static struct ibv_cq_ex *cq_ex_for(struct vt_end *e, uint64_t flags, uint32_t create)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 256,
		.cq_context = e,
		.wc_flags = flags,
		.comp_mask = create ? IBV_CQ_INIT_ATTR_MASK_FLAGS : 0,
		.flags = create,
	};

	return ibv_create_cq_ex(e->ctx, &attr);
}

/* The end's QP made anew, both of its queues on that CQ. */
static void move_to(struct vt_end *e, struct ibv_cq_ex *cqx)
{
	CHECK_OK(ibv_destroy_qp(e->qp));
	CHECK_OK(ibv_destroy_cq(e->scq));
	CHECK_OK(ibv_destroy_cq(e->rcq));
	e->scq = e->rcq = ibv_cq_ex_to_cq(cqx);
	e->qp = vt_make_qp(e);
	e->self.qpn = e->qp->qp_num;
	CHECK(e->scq->cq_context == e && e->scq->context == e->ctx);
}

static void wait_start(struct ibv_cq_ex *cqx)
{
	struct ibv_poll_cq_attr attr = { 0 };
	int ret;

	WAIT_FOR((ret = ibv_start_poll(cqx, &attr)) != ENOENT);
	CHECK_EQ(ret, 0);
}

static void wait_next(struct ibv_cq_ex *cqx)
{
	int ret;

	WAIT_FOR((ret = ibv_next_poll(cqx)) != ENOENT);
	CHECK_EQ(ret, 0);
}

static void cq_ex_readers(void)
{
	const uint64_t flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
	struct ibv_poll_cq_attr none = { 0 }, bad = { .comp_mask = 1u << 30 };
	struct ibv_send_wr wr = { .wr_id = 9,
				  .opcode = IBV_WR_SEND_WITH_IMM,
				  .imm_data = htonl(31),
				  .send_flags = IBV_SEND_SIGNALED };
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	struct ibv_cq_ex *cqx;
	uint64_t last = 0, ts;

	vt_end_open(&a, &par);
	vt_end_open(&b, &par);
	cqx = cq_ex_for(&b, flags, 0);
	if (!cqx && errno == EOPNOTSUPP)
		vt_skip("no completion timestamps");
	CHECK(cqx);
	move_to(&b, cqx);
	vt_connect(&a, &b.self);
	vt_connect(&b, &a.self);
	CHECK_EQ(ibv_start_poll(cqx, &none), ENOENT);
	for (unsigned i = 0; i < 50; i++) {
		vt_recv(&b, i, 0, 100);
		CHECK_OK(vt_post(&a, &wr));
		WANT_OK(a.scq, 9);
		if (i == 20)
			CHECK_EQ(ibv_start_poll(cqx, &bad), EINVAL);
	}
	wait_start(cqx);
	for (unsigned i = 0; i < 50; i++) {
		CHECK_EQ(cqx->wr_id, i);
		CHECK_EQ(cqx->status, IBV_WC_SUCCESS);
		CHECK_EQ(ibv_wc_read_opcode(cqx), IBV_WC_RECV);
		CHECK_EQ(ibv_wc_read_byte_len(cqx), 0);
		CHECK_EQ(ibv_wc_read_qp_num(cqx), b.qp->qp_num);
		CHECK(ibv_wc_read_wc_flags(cqx) & IBV_WC_WITH_IMM);
		CHECK_EQ(ntohl(ibv_wc_read_imm_data(cqx)), 31);
		CHECK_EQ(ibv_wc_read_vendor_err(cqx), 0);
		ibv_wc_read_src_qp(cqx);
		ibv_wc_read_slid(cqx);
		ibv_wc_read_sl(cqx);
		ibv_wc_read_dlid_path_bits(cqx);
		ts = ibv_wc_read_completion_ts(cqx);
		CHECK(ts >= last && ts > 0);
		last = ts;
		if (i < 49)
			CHECK_EQ(ibv_next_poll(cqx), 0);
	}
	CHECK_EQ(ibv_next_poll(cqx), ENOENT);
	ibv_end_poll(cqx);
	CHECK_EMPTY(b.rcq); /* and ibv_poll_cq works on it as well */
	vt_recv(&b, 70, 0, 100);
	CHECK_OK(vt_post(&a, &wr));
	WANT_OK(b.rcq, 70);
	CHECK_EQ(ibv_start_poll(cqx, &none), ENOENT);
	WANT_OK(a.scq, 9);
	vt_pair_close(&a, &b);
}

/* What was read is gone from the CQ at end_poll, what was not is still there; errors have a status. */
static void cq_ex_partial(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_cq_ex *cqx;
	struct vt_end a, b;

	vt_end_open(&a, &par);
	vt_end_open(&b, &par);
	cqx = CHECK_PTR(cq_ex_for(&a, IBV_WC_STANDARD_FLAGS, IBV_CREATE_CQ_ATTR_SINGLE_THREADED));
	move_to(&a, cqx);
	vt_connect(&a, &b.self);
	vt_connect(&b, &a.self);
	for (unsigned i = 0; i < 60; i++)
		vt_rdma(&a, IBV_WR_RDMA_WRITE, i, 0, 8, 0, IBV_SEND_SIGNALED);
	for (unsigned i = 0; i < 60;) {
		unsigned n = 1 + i % 7;

		wait_start(cqx);
		for (unsigned k = 0; k < n; k++) {
			CHECK_EQ(cqx->wr_id, i++);
			CHECK_EQ(cqx->status, IBV_WC_SUCCESS);
			CHECK_EQ(ibv_wc_read_opcode(cqx), IBV_WC_RDMA_WRITE);
			if (i == 60)
				break;
			if (k + 1 < n)
				wait_next(cqx);
		}
		ibv_end_poll(cqx);
	}
	CHECK_OK(vt_to_state(a.qp, IBV_QPS_ERR));
	vt_send(&a, 100, 0, 8, 0);
	wait_start(cqx);
	CHECK_EQ(cqx->wr_id, 100);
	CHECK_EQ(cqx->status, IBV_WC_WR_FLUSH_ERR);
	ibv_end_poll(cqx);
	vt_pair_close(&a, &b);
}

static void cq_ex_refused(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end e;
	struct ibv_cq_init_attr_ex attr = { .cqe = 0 };

	vt_end_open(&e, &par);
	CHECK_NULL(ibv_create_cq_ex(e.ctx, &attr), EINVAL);
	attr.cqe = 16;
	attr.comp_mask = 1u << 30;
	errno = 0;
	CHECK(!ibv_create_cq_ex(e.ctx, &attr));
	CHECK(errno == EINVAL || errno == EOPNOTSUPP);
	attr.comp_mask = 0;
	attr.wc_flags = 1ull << 50;
	errno = 0;
	CHECK(!ibv_create_cq_ex(e.ctx, &attr));
	CHECK(errno == EINVAL || errno == EOPNOTSUPP);
	vt_end_close(&e);
}

VT_MAIN({ "wr_needs_create_ex", wr_needs_create_ex, 0 }, { "wr_bad_ops", wr_bad_ops, 0 },
	{ "wr_rc_operations", wr_rc_operations, 0 }, { "wr_data_setters", wr_data_setters, 0 },
	{ "wr_batches", wr_batches, 0 }, { "wr_abort", wr_abort, 0 }, { "wr_errors", wr_errors, 0 },
	{ "wr_uc_ud", wr_uc_ud, 0 }, { "cq_ex_readers", cq_ex_readers, 0 },
	{ "cq_ex_partial", cq_ex_partial, 0 }, { "cq_ex_refused", cq_ex_refused, 0 })
