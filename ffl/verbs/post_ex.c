/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * post_ex.c - ibv_wr_start .. ibv_wr_complete of struct ibv_qp_ex: SQEs built in place, step by
 * step. Any thread of the application; the QP's send lock is held from start to complete or abort.
 *
 * A builder (wr_send, wr_rdma_write ...) takes the next slot and fills what it knows, a setter
 * adds data or an address to it. Nothing is valid for the router before complete stores the seq
 * of every slot; abort leaves the slots as they are, to be built again. The first error stays in
 * wr_err, later steps do nothing, and complete returns it with nothing posted.
 */
#include <string.h>

#include "ffl/verbs/post.h"

static inline struct ffl_qp *ex_qp(struct ibv_qp_ex *ex)
{
	return container_of_(ex, struct ffl_qp, ex);
}

/* The next slot with what all operations have, or NULL: an error is kept. */
static inline struct ff_sqe *wr_next(struct ffl_qp *qp, uint8_t opcode)
{
	struct ff_sqe *sqe = ffl_sqe_at(qp, qp->wr_tail);

	if (unlikely(qp->wr_err))
		return NULL;
	if (unlikely(ffl_sq_full(qp, qp->wr_tail))) {
		qp->wr_err = ENOMEM;
		return NULL;
	}
	sqe->cpu = ffl_cpu();
	sqe->opcode = opcode;
	sqe->flags = ffl_sqe_flags(qp->ex.wr_flags, qp->sig_all);
	sqe->num_sge = 0;
	sqe->wr_id = qp->ex.wr_id;
	qp->wr_tail++;
	qp->wr_cur = sqe;
	return sqe;
}

/* ---- builders ------------------------------------------------------------------------------- */

static void wr_send(struct ibv_qp_ex *ex)
{
	struct ff_sqe *sqe = wr_next(ex_qp(ex), FF_OP_SEND);

	if (likely(sqe))
		sqe->ud.ah = 0; /* no handle, unless wr_set_ud_addr follows */
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	struct ff_sqe *sqe = wr_next(ex_qp(ex), FF_OP_SEND_IMM);

	if (likely(sqe)) {
		sqe->ud.ah = 0;
		sqe->imm = imm;
	}
}

static inline struct ff_sqe *wr_rdma(struct ibv_qp_ex *ex, uint8_t opcode, uint32_t rkey,
				     uint64_t remote_addr)
{
	struct ff_sqe *sqe = wr_next(ex_qp(ex), opcode);

	if (likely(sqe)) {
		sqe->remote_addr = remote_addr;
		sqe->rkey = rkey;
	}
	return sqe;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	wr_rdma(ex, FF_OP_WRITE, rkey, remote_addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, __be32 imm)
{
	struct ff_sqe *sqe = wr_rdma(ex, FF_OP_WRITE_IMM, rkey, remote_addr);

	if (likely(sqe))
		sqe->imm = imm;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	wr_rdma(ex, FF_OP_READ, rkey, remote_addr);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      uint64_t compare, uint64_t swap)
{
	struct ff_sqe *sqe = wr_rdma(ex, FF_OP_CMP_SWAP, rkey, remote_addr);

	if (likely(sqe)) {
		sqe->atomic.compare_add = compare;
		sqe->atomic.swap = swap;
	}
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
				uint64_t add)
{
	struct ff_sqe *sqe = wr_rdma(ex, FF_OP_FETCH_ADD, rkey, remote_addr);

	if (likely(sqe)) {
		sqe->atomic.compare_add = add;
		sqe->atomic.swap = 0;
	}
}

static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			    const void *data)
{
	struct ff_sqe *sqe = wr_rdma(ex, FF_OP_ATOMIC_WRITE, rkey, remote_addr);

	if (likely(sqe))
		memcpy(&sqe->atomic.compare_add, data, sizeof(uint64_t));
}

static void wr_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, size_t len,
		     uint8_t types, uint8_t level)
{
	struct ff_sqe *sqe = wr_rdma(ex, FF_OP_FLUSH, rkey, remote_addr);

	if (unlikely(!sqe))
		return;
	if (!types || types & ~FF_FLUSH_TYPES || level > FF_FLUSH_MR ||
	    (level == FF_FLUSH_RANGE && len > UINT32_MAX)) {
		ex_qp(ex)->wr_err = EINVAL;
		return;
	}
	sqe->flush.length = level == FF_FLUSH_RANGE ? len : 0;
	sqe->flush.types = types;
	sqe->flush.level = level;
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	struct ff_sqe *sqe = wr_next(ex_qp(ex), FF_OP_SEND_INV);

	if (likely(sqe))
		sqe->imm = rkey;
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	struct ff_sqe *sqe = wr_next(ex_qp(ex), FF_OP_LOCAL_INV);

	if (likely(sqe))
		sqe->imm = rkey;
}

/* Windows of type 1 are ibv_bind_mw's. */
static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	struct ffl_qp *qp = ex_qp(ex);
	struct ff_sqe *sqe = wr_next(qp, FF_OP_BIND_MW);

	if (unlikely(!sqe))
		return;
	if (!mw || mw->type != IBV_MW_TYPE_2)
		qp->wr_err = EINVAL;
	else
		qp->wr_err = ffl_sqe_bind(qp, sqe, mw, rkey, info);
}

/*
 * Operations that freeflow does not have, and those that the QP's type does not allow. A QP is not
 * created for them, so that only a program that did not ask gets here.
 */
static void wr_refuse(struct ibv_qp_ex *ex)
{
	struct ffl_qp *qp = ex_qp(ex);

	if (!qp->wr_err)
		qp->wr_err = EOPNOTSUPP;
}

static void no_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	(void)imm;
	wr_refuse(ex);
}

static void no_rdma(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	(void)rkey, (void)remote_addr;
	wr_refuse(ex);
}

static void no_rdma_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, __be32 imm)
{
	(void)imm;
	no_rdma(ex, rkey, remote_addr);
}

static void no_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, uint64_t compare,
		       uint64_t swap)
{
	(void)compare, (void)swap;
	no_rdma(ex, rkey, remote_addr);
}

static void no_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, uint64_t add)
{
	(void)add;
	no_rdma(ex, rkey, remote_addr);
}

static void no_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	(void)rkey;
	wr_refuse(ex);
}

static void no_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	(void)mw, (void)rkey, (void)info;
	wr_refuse(ex);
}

static void no_tso(struct ibv_qp_ex *ex, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
	(void)hdr, (void)hdr_sz, (void)mss;
	wr_refuse(ex);
}

static void no_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn)
{
	no_inv(ex, srqn);
}

static void no_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	(void)ah, (void)qpn, (void)qkey;
	wr_refuse(ex);
}

static void no_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			    const void *data)
{
	(void)data;
	no_rdma(ex, rkey, remote_addr);
}

static void no_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, size_t len,
		     uint8_t type, uint8_t level)
{
	(void)len, (void)type, (void)level;
	no_rdma(ex, rkey, remote_addr);
}

/* ---- setters, for the operation built last --------------------------------------------------- */

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct ffl_qp *qp = ex_qp(ex);

	if (unlikely(qp->wr_err))
		return;
	if (unlikely(to_ah(ah)->ctx != qp->ctx)) {
		qp->wr_err = EINVAL;
		return;
	}
	qp->wr_cur->ud.ah = to_ah(ah)->handle;
	qp->wr_cur->ud.remote_qpn = qpn;
	qp->wr_cur->ud.remote_qkey = qkey;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn)
{
	struct ffl_qp *qp = ex_qp(ex);

	if (likely(!qp->wr_err))
		ffl_sqe_set_srqn(qp->wr_cur, srqn);
}

/* All that they have to say was said. */
static bool takes_no_sge(const struct ffl_qp *qp)
{
	return qp->wr_cur->opcode >= FF_OP_FLUSH;
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ffl_qp *qp = ex_qp(ex);

	if (unlikely(qp->wr_err))
		return;
	if (unlikely(!qp->cap.max_send_sge || takes_no_sge(qp))) {
		qp->wr_err = EINVAL;
		return;
	}
	qp->wr_cur->sge[0] = (struct ff_sge){ .addr = addr, .length = length, .lkey = lkey };
	qp->wr_cur->num_sge = 1;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *sg)
{
	struct ffl_qp *qp = ex_qp(ex);

	if (unlikely(qp->wr_err))
		return;
	if (unlikely(n > qp->cap.max_send_sge || takes_no_sge(qp))) {
		qp->wr_err = EINVAL;
		return;
	}
	for (size_t i = 0; i < n; i++)
		qp->wr_cur->sge[i] = (struct ff_sge){ .addr = sg[i].addr,
						      .length = sg[i].length,
						      .lkey = sg[i].lkey };
	qp->wr_cur->num_sge = (uint16_t)n;
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *buf)
{
	struct ffl_qp *qp = ex_qp(ex);
	size_t len = 0, max = qp->cap.max_inline;
	struct ff_sqe *sqe = qp->wr_cur;

	if (unlikely(qp->wr_err))
		return;
	if (unlikely(sqe->opcode > FF_OP_WRITE_IMM) && sqe->opcode != FF_OP_SEND_INV) {
		/* READ and atomics bring data, they take none; FLUSH and ATOMIC_WRITE have all theirs */
		qp->wr_err = EINVAL;
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (unlikely(buf[i].length > max - len)) {
			qp->wr_err = EINVAL;
			return;
		}
		if (buf[i].length)
			memcpy(sqe->inl + len, buf[i].addr, buf[i].length);
		len += buf[i].length;
	}
	sqe->flags |= FF_SQE_INLINE;
	sqe->num_sge = (uint16_t)len;
}
static_assert(FF_OP_SEND < FF_OP_WRITE_IMM && FF_OP_SEND_IMM < FF_OP_WRITE_IMM &&
		      FF_OP_WRITE < FF_OP_WRITE_IMM && FF_OP_WRITE_IMM < FF_OP_READ &&
		      FF_OP_READ < FF_OP_NUM && FF_OP_CMP_SWAP > FF_OP_WRITE_IMM &&
		      FF_OP_FETCH_ADD > FF_OP_WRITE_IMM,
	      "operations that carry data away come first, but SEND with invalidate");

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf buf = { .addr = addr, .length = length };

	wr_set_inline_data_list(ex, 1, &buf);
}

/* ---- start, complete, abort -------------------------------------------------------------------- */

static void wr_start(struct ibv_qp_ex *ex)
{
	struct ffl_qp *qp = ex_qp(ex);
	struct ffl_context *ctx = qp->ctx;

	ffl_lock(&qp->sq_lock);
	qp->wr_tail = qp->sq_tail;
	qp->wr_err = 0;
	if (unlikely(!ffl_may_send(qp)))
		qp->wr_err = EINVAL;
	else if (ffl_is_parents(ctx))
		qp->wr_err = EIO;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct ffl_qp *qp = ex_qp(ex);
	uint32_t old = qp->sq_tail, tail = qp->wr_tail;
	int err = qp->wr_err;

	if (likely(!err)) {
		for (uint32_t i = old; i != tail; i++) {
			struct ff_sqe *sqe = ffl_sqe_at(qp, i);

			FF_PROBE3(post, qp->qp.qp_num, sqe->wr_id, sqe->opcode);
			ffl_sqe_publish(sqe, i);
		}
		qp->sq_tail = tail;
	}
	ffl_unlock(&qp->sq_lock);
	if (likely(!err && tail != old))
		ffl_doorbell(qp->ctx, qp, old, tail);
	return err;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	ffl_unlock(&ex_qp(ex)->sq_lock);
}

/* qp->wr_ops is set: operations that the type does not allow refuse. */
void ffl_qp_init_wr_ops(struct ffl_qp *qp)
{
	/* later than the headers that we are built with, at the end of the struct as of v64 */
	void (**flush)(struct ibv_qp_ex *, uint32_t, uint64_t, size_t, uint8_t, uint8_t) =
		(void *)(qp->room + FFL_QP_EX_SZ - sizeof(void *));
	struct ibv_qp_ex *ex = &qp->ex;
	uint32_t ops = qp->wr_ops | qp->rare_ops;

#define ALLOWED(op, yes, no) (ops & 1u << (op) ? (yes) : (no))
	ex->wr_send = ALLOWED(IBV_WR_SEND, wr_send, wr_refuse);
	ex->wr_send_imm = ALLOWED(IBV_WR_SEND_WITH_IMM, wr_send_imm, no_send_imm);
	ex->wr_rdma_write = ALLOWED(IBV_WR_RDMA_WRITE, wr_rdma_write, no_rdma);
	ex->wr_rdma_write_imm = ALLOWED(IBV_WR_RDMA_WRITE_WITH_IMM, wr_rdma_write_imm, no_rdma_imm);
	ex->wr_rdma_read = ALLOWED(IBV_WR_RDMA_READ, wr_rdma_read, no_rdma);
	ex->wr_atomic_cmp_swp = ALLOWED(IBV_WR_ATOMIC_CMP_AND_SWP, wr_atomic_cmp_swp, no_cmp_swp);
	ex->wr_atomic_fetch_add =
		ALLOWED(IBV_WR_ATOMIC_FETCH_AND_ADD, wr_atomic_fetch_add, no_fetch_add);
	ex->wr_local_inv = ALLOWED(IBV_WR_LOCAL_INV, wr_local_inv, no_inv);
	ex->wr_bind_mw = ALLOWED(IBV_WR_BIND_MW, wr_bind_mw, no_bind_mw);
	ex->wr_send_inv = ALLOWED(IBV_WR_SEND_WITH_INV, wr_send_inv, no_inv);
	ex->wr_atomic_write = ALLOWED(IBV_WR_ATOMIC_WRITE, wr_atomic_write, no_atomic_write);
	*flush = ALLOWED(FF_WR_FLUSH, wr_flush, no_flush);
#undef ALLOWED
	ex->wr_send_tso = no_tso;

	ex->wr_set_ud_addr = qp->qp.qp_type == IBV_QPT_UD ? wr_set_ud_addr : no_ud_addr;
	ex->wr_set_xrc_srqn = qp->qp.qp_type == IBV_QPT_XRC_SEND ? wr_set_xrc_srqn : no_xrc_srqn;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;

	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
}
