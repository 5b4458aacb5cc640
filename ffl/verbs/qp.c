/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * qp.c - queue pairs: create, modify, query, destroy. Posting is in post.c and post_ex.c. Any
 * thread of the application.
 *
 * The router owns the state machine (IBTA 10.3.1); qp.state is what the client was last told and
 * decides only whether a post is refused. The rings' indices start from 0 at creation and, on both
 * sides at once, at RESET.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffr/abi/ff_verbs.h"
#include "ffl/session/ffl.h"

#define WR_OPS_UD (1u << IBV_WR_SEND | 1u << IBV_WR_SEND_WITH_IMM)
#define WR_OPS_UC                                                                                  \
	(WR_OPS_UD | 1u << IBV_WR_RDMA_WRITE | 1u << IBV_WR_RDMA_WRITE_WITH_IMM |                  \
	 1u << IBV_WR_BIND_MW | 1u << IBV_WR_LOCAL_INV)
#define WR_OPS_RC                                                                                  \
	(WR_OPS_UC | 1u << IBV_WR_RDMA_READ | 1u << IBV_WR_ATOMIC_CMP_AND_SWP |                    \
	 1u << IBV_WR_ATOMIC_FETCH_AND_ADD | 1u << IBV_WR_SEND_WITH_INV | 1u << FF_WR_FLUSH |      \
	 1u << IBV_WR_ATOMIC_WRITE)
/* Those for which ibv_post_send has a path of its own. */
#define WR_OPS_RARE                                                                                \
	(1u << IBV_WR_BIND_MW | 1u << IBV_WR_LOCAL_INV | 1u << IBV_WR_SEND_WITH_INV |              \
	 1u << FF_WR_FLUSH | 1u << IBV_WR_ATOMIC_WRITE)

/* Operations of a type of QP, as bits of enum ibv_wr_opcode; 0: the type is not supported. */
static uint16_t type_wr_ops(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
	case IBV_QPT_XRC_SEND:
		return WR_OPS_RC;
	case IBV_QPT_UC:
		return WR_OPS_UC;
	case IBV_QPT_UD:
		return WR_OPS_UD;
	default:
		return 0;
	}
}

/* enum ibv_qp_create_send_ops_flags of those operations */
static uint64_t send_ops(uint16_t wr_ops)
{
	static const struct {
		uint16_t op;
		uint16_t flag;
	} map[] = {
		{ IBV_WR_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM },
		{ IBV_WR_SEND, IBV_QP_EX_WITH_SEND },
		{ IBV_WR_SEND_WITH_IMM, IBV_QP_EX_WITH_SEND_WITH_IMM },
		{ IBV_WR_RDMA_READ, IBV_QP_EX_WITH_RDMA_READ },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD },
		{ IBV_WR_BIND_MW, IBV_QP_EX_WITH_BIND_MW },
		{ IBV_WR_LOCAL_INV, IBV_QP_EX_WITH_LOCAL_INV },
		{ IBV_WR_SEND_WITH_INV, IBV_QP_EX_WITH_SEND_WITH_INV },
		{ FF_WR_FLUSH, FF_QP_EX_WITH_FLUSH },
		{ IBV_WR_ATOMIC_WRITE, IBV_QP_EX_WITH_ATOMIC_WRITE },
	};
	uint64_t flags = 0;

	for (size_t i = 0; i < ARRAY_SIZE(map); i++)
		if (wr_ops & 1u << map[i].op)
			flags |= map[i].flag;
	return flags;
}

/* ---- create ----------------------------------------------------------------------------------- */

static int qp_attach_rings(struct ffl_context *ctx, struct ffl_qp *qp,
			   const struct ff_create_qp_resp *resp)
{
	qp->hdr = ffl_seg_at(ctx, resp->sq.seg, resp->sq.off);
	qp->sq = ffl_seg_at(ctx, resp->sq.seg, resp->sq.ring_off);
	if (!qp->hdr || !qp->sq)
		return -errno;
	qp->sq_depth = resp->sq.depth;
	qp->sq_stride = resp->sq.stride;
	qp->rq_depth = resp->rq.depth;
	qp->rq_stride = resp->rq.stride;
	if (!qp->rq_depth)
		return 0;
	qp->rq = ffl_seg_at(ctx, resp->rq.seg, resp->rq.ring_off);
	return qp->rq ? 0 : -errno;
}

/* A type that other devices have: EOPNOTSUPP. Else no verbs know it, and neither does the kernel. */
static int no_type(enum ibv_qp_type type)
{
	return type == IBV_QPT_RAW_PACKET || type == IBV_QPT_DRIVER ? EOPNOTSUPP : EINVAL;
}

static int qp_check_attr(struct ibv_pd *pd, const struct ibv_qp_init_attr_ex *attr)
{
	const struct ffl_context *ctx = to_pd(pd)->ctx;

	if (!type_wr_ops(attr->qp_type))
		return no_type(attr->qp_type);
	if (!attr->send_cq || to_cq(attr->send_cq)->ctx != ctx)
		return EINVAL;
	if (attr->qp_type == IBV_QPT_XRC_SEND) /* receives nothing: what is said of it is ignored */
		return 0;
	if (!attr->recv_cq || to_cq(attr->recv_cq)->ctx != ctx ||
	    (attr->srq && to_srq(attr->srq)->ctx != ctx))
		return EINVAL;
	return 0;
}

/* Take or return a QP's references to what it uses. */
static void qp_refs(struct ffl_qp *qp, uint32_t diff)
{
	if (qp->xrcd) {
		atomic_fetch_add(&qp->xrcd->refs, diff);
		return;
	}
	atomic_fetch_add(&to_pd(qp->qp.pd)->refs, diff);
	atomic_fetch_add(&to_cq(qp->qp.send_cq)->refs, diff);
	if (qp->qp.recv_cq)
		atomic_fetch_add(&to_cq(qp->qp.recv_cq)->refs, diff);
	if (qp->srq)
		atomic_fetch_add(&qp->srq->refs, diff);
}

int ffl_qp_make(struct ffl_context *ctx, const struct ffl_qp_maker *by,
		const struct ff_create_qp_req *req, struct ff_create_qp_resp *resp,
		enum ibv_qp_state *state)
{
	int err;

	if (!by) {
		*state = IBV_QPS_RESET;
		return FFL_CALL(ctx, CREATE_QP, req, resp);
	}
	err = by->make(by->arg, req, resp, state);
	if (err == -EAGAIN) { /* a QP that is used at once, in a segment that is not mapped yet */
		err = ffl_segs_map(ctx);
		if (!err)
			err = by->make(by->arg, req, resp, state);
	}
	return err;
}

/* Of attr, only what struct ibv_qp_init_attr has, too, is read and written. */
static struct ffl_qp *qp_create(struct ibv_pd *pd, struct ibv_qp_init_attr_ex *attr,
				uint32_t create_flags, const struct ffl_qp_maker *by)
{
	struct ffl_context *ctx = to_pd(pd)->ctx;
	bool no_recv = attr->qp_type == IBV_QPT_XRC_SEND;
	struct ibv_cq *recv_cq = no_recv ? NULL : attr->recv_cq;
	struct ibv_srq *srq = no_recv ? NULL : attr->srq;
	struct ff_create_qp_resp resp;
	struct ff_create_qp_req req;
	enum ibv_qp_state state;
	struct ibv_pd *mem;
	struct ffl_qp *qp;
	int err;

	err = qp_check_attr(pd, attr);
	if (err)
		return ffl_err_ptr(err);
	qp = ffl_obj_alloc(pd, sizeof(*qp), FFL_RES_QP, &mem);
	if (!qp)
		return NULL;
	qp->mem = mem;
	qp->sq_lock.single = qp->rq_lock.single = ffl_pd_single(pd);
	req = (struct ff_create_qp_req){
		.pd = to_pd(pd)->handle,
		.send_cq = to_cq(attr->send_cq)->handle,
		.recv_cq = recv_cq ? to_cq(recv_cq)->handle : 0,
		.srq = srq ? to_srq(srq)->handle : 0,
		.qp_type = attr->qp_type,
		.sq_sig_all = !!attr->sq_sig_all,
		.create_flags = create_flags,
		.cap = {
			.max_send_wr = attr->cap.max_send_wr,
			.max_recv_wr = srq || no_recv ? 0 : attr->cap.max_recv_wr,
			.max_send_sge = attr->cap.max_send_sge,
			.max_recv_sge = srq || no_recv ? 0 : attr->cap.max_recv_sge,
			.max_inline = attr->cap.max_inline_data,
		},
		.user = (uintptr_t)qp,
	};
	err = ffl_qp_make(ctx, by, &req, &resp, &state);
	if (err)
		goto err_free;
	qp->ctx = ctx;
	qp->handle = resp.qp;
	qp->cap = resp.cap;
	qp->sig_all = attr->sq_sig_all;
	qp->wr_ops = type_wr_ops(attr->qp_type) & ~WR_OPS_RARE;
	qp->rare_ops = type_wr_ops(attr->qp_type) & WR_OPS_RARE;
	qp->srq = srq ? to_srq(srq) : NULL;
	qp->qp.context = pd->context;
	qp->qp.qp_context = attr->qp_context;
	qp->qp.pd = pd;
	qp->qp.send_cq = attr->send_cq;
	qp->qp.recv_cq = recv_cq;
	qp->qp.srq = srq;
	qp->qp.handle = resp.qp;
	qp->qp.qp_num = resp.qp_num;
	qp->qp.state = state;
	qp->qp.qp_type = attr->qp_type;
	err = qp_attach_rings(ctx, qp, &resp);
	if (!err)
		err = ffl_table_put(ctx, FFL_QP, resp.qp, qp);
	if (err)
		goto err_destroy;

	pthread_mutex_init(&qp->qp.mutex, NULL);
	pthread_cond_init(&qp->qp.cond, NULL);
	qp_refs(qp, 1);
	attr->cap.max_send_wr = resp.cap.max_send_wr;
	attr->cap.max_recv_wr = resp.cap.max_recv_wr;
	attr->cap.max_send_sge = resp.cap.max_send_sge;
	attr->cap.max_recv_sge = resp.cap.max_recv_sge;
	attr->cap.max_inline_data = resp.cap.max_inline;
	return qp;

err_destroy:
	FFL_CALL(ctx, DESTROY_QP, &(struct ff_destroy_qp_req){ .qp = resp.qp },
		 &(struct ff_destroy_qp_resp){ 0 });
err_free:
	ffl_obj_free(qp, FFL_RES_QP, mem);
	return ffl_err_ptr(-err);
}

static_assert(offsetof(struct ibv_qp_init_attr_ex, comp_mask) ==
		      offsetof(struct ibv_qp_init_attr, sq_sig_all) + sizeof(int),
	      "struct ibv_qp_init_attr_ex begins as struct ibv_qp_init_attr does");

FFL_EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ffl_qp *qp = qp_create(pd, (struct ibv_qp_init_attr_ex *)attr, 0, NULL);

	return qp ? &qp->qp : NULL;
}

/*
 * ibv_create_qp_ex. The struct is as long as the program's headers had it: a field is read only
 * when comp_mask says that it is there.
 */
struct ibv_qp *ffl_create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr)
{
	return ffl_create_qp_by(ctx, attr, NULL);
}

FFL_EXPORT struct ibv_qp *ffl_create_qp_by(struct ibv_context *ctx,
					   struct ibv_qp_init_attr_ex *attr,
					   const struct ffl_qp_maker *by)
{
	const uint32_t supported = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
				   IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_XRCD;
	bool xrc_recv = attr->qp_type == IBV_QPT_XRC_RECV;
	uint32_t mask = attr->comp_mask;
	uint32_t create_flags = mask & IBV_QP_INIT_ATTR_CREATE_FLAGS ? attr->create_flags : 0;
	bool has_ex = mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	struct ffl_qp *qp;

	if (mask >= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS << 1)
		return ffl_err_ptr(EINVAL);
	if (!type_wr_ops(attr->qp_type) && !xrc_recv)
		return ffl_err_ptr(no_type(attr->qp_type));
	if (mask & ~supported || create_flags & ~(uint32_t)IBV_QP_CREATE_BLOCK_SELF_MCAST_LB ||
	    (has_ex && attr->send_ops_flags & ~send_ops(type_wr_ops(attr->qp_type))))
		return ffl_err_ptr(EOPNOTSUPP);
	if (create_flags && attr->qp_type != IBV_QPT_UD)
		return ffl_err_ptr(EINVAL);
	if (xrc_recv)
		qp = ffl_create_xrc_recv(ctx, attr, by);
	else if (!(mask & IBV_QP_INIT_ATTR_PD) || !attr->pd || attr->pd->context != ctx)
		return ffl_err_ptr(EINVAL);
	else
		qp = qp_create(attr->pd, attr, create_flags, by);
	if (!qp)
		return NULL;
	if (has_ex) {
		qp->has_ex = true;
		ffl_qp_init_wr_ops(qp);
	}
	return &qp->qp;
}

FFL_EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *ibqp)
{
	struct ffl_qp *qp = to_qp(ibqp);

	return qp->has_ex ? &qp->ex : NULL;
}

/* ---- modify, query ------------------------------------------------------------------------------ */

#define LEAVE_MS 100
#define VAIN_MS	 1

/*
 * A device begins with a WR within a microsecond of the post. The router may be later, and programs rely on it: a
 * datagram that nobody is told about the end of (mckey destroys the QP at once; posted.c has the address handle), a
 * last message before the connection ends (librpma's examples, which ask for no completion of it). Give it a moment,
 * until it is done with the QP's WRs before `tail`: LEAVE_MS at most, since they may wait for the peer. Who ends
 * a thousand QPs whose peer is silent waits so long for the first one, and VAIN_MS for each of the others.
 * A peer that has disconnected takes no message any more, so the wait for it is VAIN_MS, too.
 */
void ffl_qp_posted_leave(struct ffl_context *ctx, uint32_t handle, uint32_t tail)
{
	bool vain = atomic_load_explicit(&ctx->left_behind, memory_order_relaxed);
	bool gone, peer_left = false, waited = false;
	uint64_t start;

	ffl_ring_lazy(ctx);
	start = ffl_clock_ns(CLOCK_MONOTONIC);
	for (;;) {
		struct ffl_qp *qp;

		pthread_mutex_lock(&ctx->table_lock);
		qp = ffl_table_get(ctx, FFL_QP, handle);
		gone = !qp || qp->qp.state != IBV_QPS_RTS ||
		       (int32_t)(tail - (uint32_t)atomic_load_explicit(&qp->hdr->sq_done,
								       memory_order_acquire)) <= 0;
		peer_left = !gone && atomic_load_explicit(&qp->peer_left, memory_order_relaxed);
		pthread_mutex_unlock(&ctx->table_lock);
		if (gone || (ffl_clock_ns(CLOCK_MONOTONIC) - start) / 1000000 >=
				    (vain || peer_left ? VAIN_MS : LEAVE_MS))
			break;
		waited = true;
		sched_yield();
	}
	if (waited && !peer_left)
		atomic_store_explicit(&ctx->left_behind, !gone, memory_order_relaxed);
}

/* The QP is about to send nothing more. */
static void posted_leave(struct ffl_qp *qp)
{
	if (qp->qp.state == IBV_QPS_RTS && qp->ctx->pid == getpid() && !atomic_load(&qp->ctx->dead))
		ffl_qp_posted_leave(qp->ctx, qp->handle, qp->sq_tail);
}

static void ah_to_ff(struct ff_ah_attr *to, const struct ibv_ah_attr *from)
{
	memcpy(to->dgid, &from->grh.dgid, sizeof(to->dgid));
	to->flow_label = from->grh.flow_label;
	to->dlid = from->dlid;
	to->sgid_index = from->grh.sgid_index;
	to->hop_limit = from->grh.hop_limit;
	to->traffic_class = from->grh.traffic_class;
	to->sl = from->sl;
	to->src_path_bits = from->src_path_bits;
	to->static_rate = from->static_rate;
	to->is_global = from->is_global;
	to->port_num = from->port_num;
}

static void ah_from_ff(struct ibv_ah_attr *to, const struct ff_ah_attr *from)
{
	*to = (struct ibv_ah_attr){
		.grh = {
			.flow_label = from->flow_label,
			.sgid_index = from->sgid_index,
			.hop_limit = from->hop_limit,
			.traffic_class = from->traffic_class,
		},
		.dlid = from->dlid,
		.sl = from->sl,
		.src_path_bits = from->src_path_bits,
		.static_rate = from->static_rate,
		.is_global = from->is_global,
		.port_num = from->port_num,
	};
	memcpy(&to->grh.dgid, from->dgid, sizeof(from->dgid));
}

/* Enums become bytes; one that does not fit becomes 0xff, which none of them has. */
static uint8_t enum_byte(unsigned int e)
{
	return e < 0xff ? (uint8_t)e : 0xff;
}

/* What mask does not name may be uninitialised and stays 0. */
static void attr_to_ff(struct ff_qp_attr *to, const struct ibv_qp_attr *a, uint32_t mask)
{
	if (mask & IBV_QP_STATE)
		to->qp_state = enum_byte(a->qp_state);
	if (mask & IBV_QP_CUR_STATE)
		to->cur_qp_state = enum_byte(a->cur_qp_state);
	if (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY)
		to->en_sqd_async_notify = a->en_sqd_async_notify;
	if (mask & IBV_QP_ACCESS_FLAGS)
		to->qp_access_flags = a->qp_access_flags;
	if (mask & IBV_QP_PKEY_INDEX)
		to->pkey_index = a->pkey_index;
	if (mask & IBV_QP_PORT)
		to->port_num = a->port_num;
	if (mask & IBV_QP_QKEY)
		to->qkey = a->qkey;
	if (mask & IBV_QP_AV)
		ah_to_ff(&to->ah, &a->ah_attr);
	if (mask & IBV_QP_PATH_MTU)
		to->path_mtu = enum_byte(a->path_mtu);
	if (mask & IBV_QP_TIMEOUT)
		to->timeout = a->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		to->retry_cnt = a->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		to->rnr_retry = a->rnr_retry;
	if (mask & IBV_QP_RQ_PSN)
		to->rq_psn = a->rq_psn;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		to->max_rd_atomic = a->max_rd_atomic;
	if (mask & IBV_QP_ALT_PATH) {
		ah_to_ff(&to->alt_ah, &a->alt_ah_attr);
		to->alt_pkey_index = a->alt_pkey_index;
		to->alt_port_num = a->alt_port_num;
		to->alt_timeout = a->alt_timeout;
	}
	if (mask & IBV_QP_MIN_RNR_TIMER)
		to->min_rnr_timer = a->min_rnr_timer;
	if (mask & IBV_QP_SQ_PSN)
		to->sq_psn = a->sq_psn;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		to->max_dest_rd_atomic = a->max_dest_rd_atomic;
	if (mask & IBV_QP_PATH_MIG_STATE)
		to->path_mig_state = enum_byte(a->path_mig_state);
	if (mask & IBV_QP_CAP)
		to->cap = (struct ff_qp_cap){ a->cap.max_send_wr, a->cap.max_recv_wr,
					      a->cap.max_send_sge, a->cap.max_recv_sge,
					      a->cap.max_inline_data };
	if (mask & IBV_QP_DEST_QPN)
		to->dest_qp_num = a->dest_qp_num;
}

/* All but rate_limit, which programs built against old headers have no room for. */
FFL_EXPORT void ffl_qp_attr_from_ff(struct ibv_qp_attr *to, const struct ff_qp_attr *a)
{
	to->qp_state = a->qp_state;
	to->cur_qp_state = a->cur_qp_state;
	to->path_mtu = a->path_mtu;
	to->path_mig_state = a->path_mig_state;
	to->qkey = a->qkey;
	to->rq_psn = a->rq_psn;
	to->sq_psn = a->sq_psn;
	to->dest_qp_num = a->dest_qp_num;
	to->qp_access_flags = a->qp_access_flags;
	to->cap = (struct ibv_qp_cap){ a->cap.max_send_wr, a->cap.max_recv_wr, a->cap.max_send_sge,
				       a->cap.max_recv_sge, a->cap.max_inline };
	ah_from_ff(&to->ah_attr, &a->ah);
	ah_from_ff(&to->alt_ah_attr, &a->alt_ah);
	to->pkey_index = a->pkey_index;
	to->alt_pkey_index = a->alt_pkey_index;
	to->en_sqd_async_notify = a->en_sqd_async_notify;
	to->sq_draining = a->sq_draining;
	to->max_rd_atomic = a->max_rd_atomic;
	to->max_dest_rd_atomic = a->max_dest_rd_atomic;
	to->min_rnr_timer = a->min_rnr_timer;
	to->port_num = a->port_num;
	to->timeout = a->timeout;
	to->retry_cnt = a->retry_cnt;
	to->rnr_retry = a->rnr_retry;
	to->alt_port_num = a->alt_port_num;
	to->alt_timeout = a->alt_timeout;
}

static void qp_clean_cqs(struct ffl_qp *qp)
{
	if (qp->qp.recv_cq)
		ffl_cq_clean(to_cq(qp->qp.recv_cq), qp->handle);
	if (qp->qp.send_cq && qp->qp.send_cq != qp->qp.recv_cq)
		ffl_cq_clean(to_cq(qp->qp.send_cq), qp->handle);
}

FFL_EXPORT enum ibv_qp_state ffl_qp_set_state(struct ffl_qp *qp, enum ibv_qp_state state)
{
	enum ibv_qp_state old;

	ffl_lock(&qp->sq_lock);
	ffl_lock(&qp->rq_lock);
	old = qp->qp.state;
	qp->qp.state = state;
	ffl_unlock(&qp->rq_lock);
	ffl_unlock(&qp->sq_lock);
	return old;
}

FFL_EXPORT int ibv_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask)
{
	struct ffl_qp *qp = to_qp(ibqp);
	struct ff_modify_qp_req req = { .qp = qp->handle, .mask = (uint32_t)mask };
	struct ff_modify_qp_resp resp;
	bool reset = mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RESET;
	enum ibv_qp_state old = ibqp->state;
	int err;

	/* as ibv_cmd_modify_qp() and the kernel say it: beyond what there was at first */
	if (mask & ~(IBV_QP_RATE_LIMIT - 1))
		return ffl_ret(-EOPNOTSUPP);
	if (mask & ~((IBV_QP_DEST_QPN << 1) - 1))
		return ffl_ret(-EINVAL);
	attr_to_ff(&req.attr, attr, req.mask);
	if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_ERR)
		posted_leave(qp);
	/* No more postings: the router goes on with the entry that would be the next one now. */
	if (reset) {
		old = ffl_qp_set_state(qp, IBV_QPS_RESET);
		req.sq_tail = qp->sq_tail;
		req.rq_tail = qp->rq_tail;
	}
	err = FFL_CALL(qp->ctx, MODIFY_QP, &req, &resp);
	if (err) {
		if (reset)
			ffl_qp_set_state(qp, old);
		return ffl_ret(err);
	}
	if (reset) {
		qp_clean_cqs(qp);
		qp->sq_limit = qp->sq_tail;
		atomic_store_explicit(&qp->peer_left, false, memory_order_relaxed);
		atomic_store_explicit(&qp->sq_polled, 0, memory_order_relaxed);
		atomic_store_explicit(&qp->rq_polled, qp->rq_tail, memory_order_relaxed);
	}
	ffl_qp_set_state(qp, resp.qp_state);
	return 0;
}

/* All attributes are returned, whatever mask asks for. */
FFL_EXPORT int ibv_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask,
			    struct ibv_qp_init_attr *init)
{
	struct ffl_qp *qp = to_qp(ibqp);
	struct ff_query_qp_req req = { .qp = qp->handle };
	struct ff_query_qp_resp resp;
	int err = FFL_CALL(qp->ctx, QUERY_QP, &req, &resp);

	if (err)
		return ffl_ret(err);
	ffl_qp_attr_from_ff(attr, &resp.attr);
	*init = (struct ibv_qp_init_attr){
		.qp_context = ibqp->qp_context,
		.send_cq = ibqp->send_cq,
		.recv_cq = ibqp->recv_cq,
		.srq = ibqp->srq,
		.cap = attr->cap,
		.qp_type = ibqp->qp_type,
		.sq_sig_all = (int)resp.sq_sig_all,
	};
	if (mask & IBV_QP_STATE)
		ffl_qp_set_state(qp, attr->qp_state);
	return 0;
}

/* ---- destroy -------------------------------------------------------------------------------------- */

/* Its completions are forgotten. Waits until the program has acknowledged the QP's events. */
FFL_EXPORT int ibv_destroy_qp(struct ibv_qp *ibqp)
{
	struct ffl_qp *qp = to_qp(ibqp);
	struct ffl_context *ctx = qp->ctx;
	struct ff_destroy_qp_req req = { .qp = qp->handle };
	struct ff_destroy_qp_resp resp;
	int err;

	posted_leave(qp);
	err = FFL_CALL(ctx, DESTROY_QP, &req, &resp);
	if (err && err != -EIO) /* a dead router's objects are gone already */
		return ffl_ret(err);
	ffl_table_del(ctx, FFL_QP, qp->handle);
	if (ctx->pid == getpid()) /* a forked child's rings are its parent's */
		qp_clean_cqs(qp);
	ffl_events_drain(ctx, &ibqp->mutex, &ibqp->cond, &ibqp->events_completed, qp->async_events);
	qp_refs(qp, -1u);
	pthread_cond_destroy(&ibqp->cond);
	pthread_mutex_destroy(&ibqp->mutex);
	ffl_obj_free(qp, FFL_RES_QP, qp->mem);
	return 0;
}
