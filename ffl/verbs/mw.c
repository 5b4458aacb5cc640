/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mw.c - memory windows: allocation, and ibv_bind_mw for those of type 1. Windows of type 2 are
 * bound by WRs of the program's own (post.c, post_ex.c). Any thread of the application.
 *
 * The router names a window by its handle, so that an mw->rkey that a program has not kept up to
 * date does no harm. What a bind gives is the low byte of the next rkey (IBTA 10.6.7).
 */
#include <stdlib.h>
#include <unistd.h>

#include "ffl/verbs/post.h"

struct ibv_mw *ffl_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ff_alloc_mw_req req = { .pd = to_pd(pd)->handle, .type = type };
	struct ff_alloc_mw_resp resp;
	struct ffl_mw *mw = FFL_MAKE(sizeof(*mw), to_pd(pd)->ctx, ALLOC_MW, &req, &resp);

	if (!mw)
		return NULL;
	mw->ctx = to_pd(pd)->ctx;
	mw->ibv = (struct ibv_mw){
		.context = pd->context,
		.pd = pd,
		.rkey = resp.rkey,
		.handle = resp.mw,
		.type = type,
	};
	atomic_fetch_add(&to_pd(pd)->refs, 1);
	return &mw->ibv;
}

/* Also of a window that is bound: its MR is free then. */
int ffl_dealloc_mw(struct ibv_mw *mw)
{
	struct ff_dealloc_mw_req req = { .mw = mw->handle };
	struct ff_dealloc_mw_resp resp;
	struct ffl_context *ctx = container_of_(mw, struct ffl_mw, ibv)->ctx;
	int err;

	ffl_posted_wait(ctx, &(struct ffl_going){ .kind = FFL_GOING_MW, .mw = mw });
	err = FFL_CALL(ctx, DEALLOC_MW, &req, &resp);
	if (err && err != -EIO) /* a dead router's objects are gone already */
		return ffl_ret(err);
	atomic_fetch_sub(&to_pd(mw->pd)->refs, 1);
	free(container_of_(mw, struct ffl_mw, ibv));
	return 0;
}

/*
 * What verbs.h has checked: type 1, one PD, an MR unless there is nothing to bind. mw->rkey is the
 * next one as soon as the bind is posted; if it fails the window is as it was, under the old one.
 */
int ffl_bind_mw(struct ibv_qp *ibqp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	const struct ibv_mr *mr = bind->bind_info.mr;
	struct ffl_qp *qp = to_qp(ibqp);
	struct ffl_context *ctx = qp->ctx;
	uint32_t rkey = ibv_inc_rkey(mw->rkey), tail;
	struct ff_sqe *sqe;
	int err;

	if (!(qp->rare_ops & 1u << IBV_WR_BIND_MW) || bind->send_flags >= IBV_SEND_INLINE ||
	    bind->bind_info.mw_access_flags & IBV_ACCESS_ZERO_BASED)
		return ffl_ret(-EINVAL);
	if (mr && container_of_(mr, struct ffl_mr, ibv)->foreign)
		return ffl_ret(-EOPNOTSUPP);
	ffl_lock(&qp->sq_lock);
	tail = qp->sq_tail;
	sqe = ffl_sqe_at(qp, tail);
	if (!ffl_may_send(qp))
		err = EINVAL;
	else if (atomic_load_explicit(&ctx->dead, memory_order_relaxed))
		err = EIO;
	else if (ffl_sq_full(qp, tail))
		err = ENOMEM;
	else
		err = ffl_sqe_bind(qp, sqe, mw, rkey, &bind->bind_info);
	if (!err) {
		sqe->cpu = ffl_cpu();
		sqe->opcode = FF_OP_BIND_MW;
		sqe->flags = ffl_sqe_flags(bind->send_flags, qp->sig_all);
		sqe->num_sge = 0;
		sqe->wr_id = bind->wr_id;
		ffl_sqe_publish(sqe, tail);
		qp->sq_tail = tail + 1;
		mw->rkey = rkey;
	}
	ffl_unlock(&qp->sq_lock);
	if (!err)
		ffl_doorbell(ctx, qp, tail, tail + 1);
	return ffl_ret(-err);
}
static_assert(IBV_SEND_INLINE > IBV_SEND_FENCE && IBV_SEND_INLINE > IBV_SEND_SIGNALED &&
		      IBV_SEND_INLINE > IBV_SEND_SOLICITED,
	      "flags that a bind may have come first");
