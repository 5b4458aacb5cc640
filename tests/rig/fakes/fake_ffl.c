/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* fake_ffl.c - see fake_ffl.h. Test's threads. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/rig/fakes/fake_ffl.h"

struct fake fake;
int ffl_log_level;

void ffl_log_(enum ffl_level level, const char *fmt, ...)
{
	(void)level, (void)fmt;
}

void ffl_spin_wait(struct ffl_spin *l)
{
	while (atomic_exchange_explicit(&l->v, 1, memory_order_acquire))
		usleep(0); /* not sched_yield, which is counted */
}

/* Takes the place of libc's: the tests count. */
int sched_yield(void)
{
	fake.yields++;
	if (fake.yield_us)
		usleep(fake.yield_us);
	if (fake.on_yield)
		fake.on_yield();
	return 0;
}

struct ffl_context *ffl_session_of(struct ibv_context *context)
{
	return to_ctx(context);
}

void ffl_mark_dead(struct ffl_context *ctx)
{
	atomic_store(&ctx->dead, true);
}

bool ffl_check_alive(struct ffl_context *ctx)
{
	fake.alive_checks++;
	return !atomic_load(&ctx->dead);
}

int ffl_segs_map(struct ffl_context *ctx)
{
	(void)ctx;
	fake.num_mapped++;
	return 0;
}

void *ffl_seg_at(struct ffl_context *ctx, uint32_t seg, uint64_t off)
{
	(void)ctx;
	assert_int_equal(seg, 0);
	assert_true(off < FAKE_SEG_SIZE);
	if (fake.fail_seg_at && !--fake.fail_seg_at)
		return ffl_err_ptr(ENOMEM);
	return fake.seg + off;
}

/* ---- answers ------------------------------------------------------------------------------------ */

static uint32_t seg_alloc(uint32_t len)
{
	uint32_t off = fake.seg_used;

	fake.seg_used += (len + FF_CACHELINE - 1) & ~(FF_CACHELINE - 1u);
	assert_true(fake.seg_used <= FAKE_SEG_SIZE);
	return off;
}

static struct ff_ring_at ring_at(uint32_t hdr_size, uint32_t entries, uint32_t stride)
{
	struct ff_ring_at at = { .depth = 1, .stride = stride };

	while (at.depth < entries)
		at.depth *= 2;
	at.off = hdr_size ? seg_alloc(hdr_size) : 0;
	at.ring_off = seg_alloc(at.depth * stride);
	return at;
}

static uint32_t new_handle(void)
{
	static uint32_t n;

	fake.live++;
	return ++n % 0x1000 | 0xab0000;
}

static void create_cq(const struct ff_create_cq_req *req, struct ff_create_cq_resp *resp)
{
	fake.cq_req = *req;
	resp->cq = new_handle();
	resp->ring = ring_at(sizeof(struct ff_cq_hdr), req->cqe, sizeof(struct ff_cqe));
	resp->cqe = resp->ring.depth;
}

/* As the router does: what is not consumed goes to the start of the new ring. */
static void resize_cq(const struct ff_resize_cq_req *req, struct ff_resize_cq_resp *resp)
{
	struct ffl_cq *cq = ffl_table_get(fake.ctx, FFL_CQ, req->cq);
	struct ff_cqe *to;
	uint32_t n = 0;

	resp->ring = ring_at(sizeof(struct ff_cq_hdr), req->cqe, sizeof(struct ff_cqe));
	resp->cqe = resp->ring.depth;
	to = (struct ff_cqe *)(fake.seg + resp->ring.ring_off);
	for (uint32_t i = atomic_load(&cq->hdr->ci);; i++) {
		struct ff_cqe *from = &cq->ring[i & (cq->depth - 1)];

		if (atomic_load(&from->phase) != ff_cqe_phase(i, cq->depth))
			break;
		memcpy(&to[n], from, sizeof(*to));
		atomic_store(&to[n].phase, ff_cqe_phase(n, resp->ring.depth));
		n++;
	}
}

static void create_srq(const struct ff_create_srq_req *req, struct ff_create_srq_resp *resp)
{
	fake.srq_req = *req;
	resp->srq = new_handle();
	resp->srq_num = 77;
	resp->max_sge = req->max_sge ? req->max_sge : 1;
	resp->ring = ring_at(sizeof(struct ff_srq_hdr), req->max_wr, ff_rqe_stride(resp->max_sge));
	resp->max_wr = resp->ring.depth;
}

static void create_qp(const struct ff_create_qp_req *req, struct ff_create_qp_resp *resp)
{
	fake.qp_req = *req;
	resp->qp = new_handle();
	resp->qp_num = 0x100 + FF_HANDLE_INDEX(resp->qp);
	if (req->qp_type == IBV_QPT_XRC_RECV)
		return;
	resp->cap = req->cap;
	resp->sq = ring_at(sizeof(struct ff_qp_hdr), req->cap.max_send_wr,
			   ff_sqe_stride(req->cap.max_send_sge, req->cap.max_inline));
	resp->cap.max_send_wr = resp->sq.depth;
	if (req->srq || req->qp_type == IBV_QPT_XRC_SEND)
		return;
	resp->rq = ring_at(0, req->cap.max_recv_wr, ff_rqe_stride(req->cap.max_recv_sge));
	resp->cap.max_recv_wr = resp->rq.depth;
}

/* On RESET the router goes on at the library's tails, and leaves the rings as they are. */
static void modify_qp(const struct ff_modify_qp_req *req, struct ff_modify_qp_resp *resp)
{
	struct ffl_qp *qp = ffl_table_get(fake.ctx, FFL_QP, req->qp);

	fake.modify = *req;
	resp->qp_state = req->mask & IBV_QP_STATE ? req->attr.qp_state : qp->qp.state;
	if (resp->qp_state != IBV_QPS_RESET)
		return;
	/* the library lets nobody post meanwhile */
	assert_int_equal(qp->qp.state, IBV_QPS_RESET);
	assert_int_equal(req->sq_tail, qp->sq_tail);
	assert_int_equal(req->rq_tail, qp->rq_tail);
	atomic_store(&qp->hdr->sq_done, ff_done(req->sq_tail, 0));
}

void fake_event(uint32_t cq)
{
	struct ff_comp_event ev = { .cq = cq };

	assert_int_equal(write(fake.channel_fd, &ev, sizeof(ev)), sizeof(ev));
}

int ffl_call(struct ffl_context *ctx, enum ff_msg_type type, const void *req, size_t req_len,
	     const void *tail, size_t tail_size, unsigned n_tail, void *resp, size_t resp_len,
	     int *fds, unsigned max_fds, unsigned *n_fds)
{
	int sv[2];

	(void)req_len, (void)tail, (void)tail_size, (void)n_tail, (void)max_fds;
	memset(resp, 0, resp_len);
	fake.calls[type]++;
	if (atomic_load(&ctx->dead))
		return -EIO;
	if (fake.fail[type])
		return fake.fail[type];
	switch (type) {
	case FF_MSG_CREATE_CHANNEL:
		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv), 0);
		((struct ff_create_channel_resp *)resp)->channel = new_handle();
		fds[0] = sv[0];
		*n_fds = 1;
		fake.channel_fd = sv[1];
		break;
	case FF_MSG_CREATE_CQ:
		create_cq(req, resp);
		break;
	case FF_MSG_RESIZE_CQ:
		resize_cq(req, resp);
		break;
	case FF_MSG_CREATE_SRQ:
		create_srq(req, resp);
		break;
	case FF_MSG_MODIFY_CQ:
		fake.modify_cq = *(const struct ff_modify_cq_req *)req;
		break;
	case FF_MSG_REPEAT_EVENT:
		fake_event(((const struct ff_repeat_event_req *)req)->cq);
		fake.repeated++;
		break;
	case FF_MSG_MODIFY_SRQ:
		fake.modify_srq = *(const struct ff_modify_srq_req *)req;
		break;
	case FF_MSG_QUERY_SRQ:
		*(struct ff_query_srq_resp *)resp =
			(struct ff_query_srq_resp){ .max_wr = 64, .max_sge = 3, .srq_limit = 9 };
		break;
	case FF_MSG_CREATE_QP:
		create_qp(req, resp);
		break;
	case FF_MSG_OPEN_XRCD:
		fake.xrcd_req = *(const struct ff_open_xrcd_req *)req;
		((struct ff_open_xrcd_resp *)resp)->xrcd = new_handle();
		break;
	case FF_MSG_OPEN_QP:
		fake.open_qp_req = *(const struct ff_open_qp_req *)req;
		((struct ff_open_qp_resp *)resp)->qp = new_handle();
		((struct ff_open_qp_resp *)resp)->qp_state = IBV_QPS_RTR;
		break;
	case FF_MSG_MODIFY_QP:
		modify_qp(req, resp);
		break;
	case FF_MSG_QUERY_QP:
		((struct ff_query_qp_resp *)resp)->attr = fake.qp_attr;
		((struct ff_query_qp_resp *)resp)->sq_sig_all = 1;
		break;
	case FF_MSG_DESTROY_CHANNEL:
		close(fake.channel_fd);
		fake.channel_fd = -1;
		fake.live--;
		break;
	case FF_MSG_ALLOC_MW:
		((struct ff_alloc_mw_resp *)resp)->mw = new_handle();
		((struct ff_alloc_mw_resp *)resp)->rkey = 0x123456fe;
		break;
	case FF_MSG_DEALLOC_MW:
	case FF_MSG_DESTROY_CQ:
	case FF_MSG_DESTROY_SRQ:
	case FF_MSG_DESTROY_QP:
	case FF_MSG_CLOSE_XRCD:
		fake.live--;
		break;
	default:
		fail_msg("message %d", type);
	}
	return 0;
}

/* ---- the test's objects --------------------------------------------------------------------------- */

int fake_setup(void **state)
{
	struct ffl_context *ctx = calloc(1, sizeof(*ctx));
	struct ffl_pd *pd = calloc(1, sizeof(*pd));

	(void)state;
	memset(&fake, 0, sizeof(fake));
	fake.seg = aligned_alloc(FF_PAGE, FAKE_SEG_SIZE);
	if (!ctx || !pd || !fake.seg)
		return -1;
	memset(fake.seg, 0, FAKE_SEG_SIZE);
	seg_alloc(sizeof(struct ff_ses_hdr));
	ctx->hdr = (struct ff_ses_hdr *)fake.seg;
	ctx->bell_fd = eventfd(0, EFD_NONBLOCK);
	ctx->pid = getpid();
	ctx->dev.max_cqe = 1024;
	ctx->dev.max_srq_wr = 1024;
	ctx->dev.max_srq_sge = 4;
	ctx->v.context.num_comp_vectors = 2;
	ctx->v.context.ops.post_send = ffl_post_send;
	ctx->v.context.ops.post_recv = ffl_post_recv;
	ctx->v.context.ops.post_srq_recv = ffl_post_srq_recv;
	ctx->v.context.ops.poll_cq = ffl_poll_cq;
	ctx->v.context.ops.req_notify_cq = ffl_req_notify_cq;
	pthread_mutex_init(&ctx->table_lock, NULL);
	pd->ibv.context = &ctx->v.context;
	pd->ctx = ctx;
	pd->handle = 5;
	fake.ctx = ctx;
	fake.pd = &pd->ibv;
	return 0;
}

int fake_teardown(void **state)
{
	struct ffl_context *ctx = fake.ctx;
	uint32_t left = fake.live + to_pd(fake.pd)->refs;

	(void)state;
	for (int k = 0; k < FFL_NUM_KINDS; k++) {
		for (uint32_t i = 0; i < ctx->table[k].size; i++)
			left += ctx->table[k].slot[i].handle != 0;
		free(ctx->table[k].slot);
	}
	close(ctx->bell_fd);
	free(fake.seg);
	free(fake.pd);
	free(ctx);
	return left ? -1 : 0;
}

struct ffl_cq *fake_cq(int cqe)
{
	struct ibv_cq *cq = ibv_create_cq(&fake.ctx->v.context, cqe, NULL, NULL, 0);

	assert_non_null(cq);
	return to_cq(cq);
}

static struct ffl_qp *qp_make(enum ibv_qp_type type, struct ffl_cq *cq, uint32_t depth,
			      uint32_t sge, uint32_t inl, bool sig_all, uint64_t ops)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = &cq->cq,
		.recv_cq = &cq->cq,
		.cap = { depth, depth, sge, sge, inl },
		.qp_type = type,
		.sq_sig_all = sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD | (ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.pd = fake.pd,
		.send_ops_flags = ops,
	};
	struct ibv_qp *qp = ffl_create_qp_ex(&fake.ctx->v.context, &attr);

	assert_non_null(qp);
	qp->state = IBV_QPS_RTS;
	return to_qp(qp);
}

struct ffl_qp *fake_qp(enum ibv_qp_type type, struct ffl_cq *cq, uint32_t depth, uint32_t sge,
		       uint32_t inl, bool sig_all)
{
	return qp_make(type, cq, depth, sge, inl, sig_all, 0);
}

struct ffl_qp *fake_qp_ex(enum ibv_qp_type type, struct ffl_cq *cq, uint32_t depth, uint32_t sge,
			  uint32_t inl)
{
	uint64_t ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;

	if (type != IBV_QPT_UD)
		ops |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
		       IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
	if (type == IBV_QPT_RC)
		ops |= IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
		       IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV;
	return qp_make(type, cq, depth, sge, inl, false, ops);
}

/* ---- the router's side of the rings ------------------------------------------------------------------ */

const struct ff_sqe *fake_sqe(const struct ffl_qp *qp, uint32_t i)
{
	const struct ff_sqe *e =
		(const void *)(qp->sq + (size_t)(i & (qp->sq_depth - 1)) * qp->sq_stride);

	return atomic_load(&e->seq) == ff_seq(i) ? e : NULL;
}

const struct ff_rqe *fake_rqe(const uint8_t *ring, uint32_t depth, uint32_t stride, uint32_t i)
{
	const struct ff_rqe *e = (const void *)(ring + (size_t)(i & (depth - 1)) * stride);

	return atomic_load(&e->seq) == ff_seq(i) ? e : NULL;
}

void fake_cqe(const struct ffl_cq *cq, uint32_t i, const struct ff_cqe *cqe)
{
	static struct ffl_qp any; /* of completions that no QP of the test is for */
	struct ff_cqe *slot = &cq->ring[i & (cq->depth - 1)];
	void *user = cqe->qp & FF_CQE_OF_SRQ ?
			     ffl_table_get(fake.ctx, FFL_SRQ, cqe->qp & ~FF_CQE_OF_SRQ) :
			     ffl_table_get(fake.ctx, FFL_QP, cqe->qp);

	memcpy(slot, cqe, offsetof(struct ff_cqe, phase));
	slot->user = (uintptr_t)(user ? user : &any);
	atomic_store_explicit(&slot->phase, ff_cqe_phase(i, cq->depth), memory_order_release);
}

bool fake_take_dirty(uint32_t qp_handle)
{
	struct ff_ses_hdr *h = fake.ctx->hdr;
	uint32_t i = FF_HANDLE_INDEX(qp_handle);
	uint64_t word = 1ull << i % 64, sum = 1ull << i / 64 % 64;

	/* the summary first, as the router does: without its bit the QP's is not found */
	if (!(atomic_fetch_and(&h->dirty_sum[i / 4096], ~sum) & sum))
		return false;
	return atomic_fetch_and(&h->dirty[i / 64], ~word) & word;
}

uint64_t fake_bells(void)
{
	uint64_t n;

	return read(fake.ctx->bell_fd, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

void fake_free(struct ffl_qp *qp, struct ffl_cq *cq)
{
	assert_int_equal(ibv_destroy_qp(&qp->qp), 0);
	assert_int_equal(ibv_destroy_cq(&cq->cq), 0);
}

int fake_post(struct ffl_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	int err = ibv_post_send(&qp->qp, wr, &bad);

	if (err)
		assert_ptr_equal(bad, wr);
	return err;
}

const struct ff_cqe fake_sample = {
	.wr_id = 0x1122334455667788,
	.timestamp = 123456789,
	.qp = 0xab0001,
	.qp_num = 0x654321,
	.src_qp = 0x123456,
	.byte_len = 4096,
	.imm = 0x01020304,
	.vendor_err = FF_VERR_RKEY,
	.status = IBV_WC_REM_ACCESS_ERR,
	.opcode = IBV_WC_RECV_RDMA_WITH_IMM,
	.flags = FF_CQE_GRH | FF_CQE_IMM,
	.sl = 3,
	.slid = 0x1111,
	.pkey_index = 2,
	.dlid_path_bits = 5,
};

void fake_put(const struct ffl_cq *cq, uint32_t i, uint32_t qp)
{
	struct ff_cqe cqe = { .wr_id = i, .qp = qp };

	fake_cqe(cq, i, &cqe);
}

uint32_t fake_ci(const struct ffl_cq *cq)
{
	return atomic_load(&cq->hdr->ci);
}
