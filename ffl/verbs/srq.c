/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * srq.c - shared receive queues: create, modify, query, destroy. Posting is in post.c. Any thread
 * of the application.
 *
 * Tests: test_qp.c, system/verbs_srq.c
 */
#include <stdlib.h>
#include <unistd.h>

#include "ffl/session/ffl.h"

static int srq_attach_ring(struct ffl_context *ctx, struct ffl_srq *srq,
			   const struct ff_ring_at *at)
{
	srq->hdr = ffl_seg_at(ctx, at->seg, at->off);
	srq->ring = ffl_seg_at(ctx, at->seg, at->ring_off);
	if (!srq->hdr || !srq->ring)
		return -errno;
	srq->depth = at->depth;
	srq->stride = at->stride;
	return 0;
}

/* Take or return an SRQ's references to what it uses besides the PD. */
static void xrc_refs(struct ffl_srq *srq, uint32_t diff)
{
	if (!srq->xrcd)
		return;
	atomic_fetch_add(&srq->xrcd->refs, diff);
	atomic_fetch_add(&srq->cq->refs, diff);
}

/* xrcd and cq: both, or neither. */
static struct ibv_srq *srq_create(struct ibv_pd *pd, struct ibv_srq_init_attr *attr,
				  struct ffl_xrcd *xrcd, struct ffl_cq *cq)
{
	struct ffl_context *ctx = to_pd(pd)->ctx;
	struct ff_create_srq_resp resp;
	struct ff_create_srq_req req = {
		.pd = to_pd(pd)->handle,
		.max_wr = attr->attr.max_wr,
		.max_sge = attr->attr.max_sge,
		.srq_limit = attr->attr.srq_limit,
		.xrcd = xrcd ? xrcd->handle : 0,
		.cq = cq ? cq->handle : 0,
	};
	struct ibv_pd *mem;
	struct ffl_srq *srq;
	int err;

	if ((xrcd && xrcd->ctx != ctx) || (cq && cq->ctx != ctx))
		return ffl_err_ptr(EINVAL);
	if (!req.max_wr || req.max_wr > ctx->dev.max_srq_wr || req.max_sge > ctx->dev.max_srq_sge)
		return ffl_err_ptr(EINVAL);
	srq = ffl_obj_alloc(pd, sizeof(*srq), FFL_RES_SRQ, &mem);
	if (!srq)
		return NULL;
	srq->mem = mem;
	req.user = (uintptr_t)srq;
	srq->lock.single = ffl_pd_single(pd);
	err = FFL_CALL(ctx, CREATE_SRQ, &req, &resp);
	if (err == -EAGAIN) {
		err = ffl_segs_map(ctx);
		if (!err)
			err = FFL_CALL(ctx, CREATE_SRQ, &req, &resp);
	}
	if (err)
		goto err_free;
	srq->ctx = ctx;
	srq->handle = resp.srq;
	srq->srq_num = resp.srq_num;
	srq->max_wr = resp.max_wr;
	srq->max_sge = resp.max_sge;
	err = srq_attach_ring(ctx, srq, &resp.ring);
	if (!err)
		err = ffl_table_put(ctx, FFL_SRQ, resp.srq, srq);
	if (err)
		goto err_destroy;

	srq->ibv.context = pd->context;
	srq->ibv.srq_context = attr->srq_context;
	srq->ibv.pd = pd;
	srq->ibv.handle = resp.srq;
	pthread_mutex_init(&srq->ibv.mutex, NULL);
	pthread_cond_init(&srq->ibv.cond, NULL);
	atomic_fetch_add(&to_pd(pd)->refs, 1);
	srq->xrcd = xrcd;
	srq->cq = cq;
	xrc_refs(srq, 1);
	attr->attr.max_wr = resp.max_wr;
	attr->attr.max_sge = resp.max_sge;
	return &srq->ibv;

err_destroy:
	FFL_CALL(ctx, DESTROY_SRQ, &(struct ff_destroy_srq_req){ .srq = resp.srq },
		 &(struct ff_destroy_srq_resp){ 0 });
err_free:
	ffl_obj_free(srq, FFL_RES_SRQ, mem);
	return ffl_err_ptr(-err);
}

FFL_EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	return srq_create(pd, attr, NULL, NULL);
}

/* Basic SRQs and those of XRC; EOPNOTSUPP for tag matching. */
struct ibv_srq *ffl_create_srq_ex(struct ibv_context *ctx, struct ibv_srq_init_attr_ex *attr)
{
	const uint32_t xrc = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	/* struct ibv_srq_init_attr_ex begins as struct ibv_srq_init_attr does */
	struct ibv_srq_init_attr *base = (struct ibv_srq_init_attr *)attr;
	uint32_t mask = attr->comp_mask;
	enum ibv_srq_type type = mask & IBV_SRQ_INIT_ATTR_TYPE ? attr->srq_type : IBV_SRQT_BASIC;

	if (mask >= IBV_SRQ_INIT_ATTR_RESERVED)
		return ffl_err_ptr(EINVAL);
	if (type != IBV_SRQT_BASIC && type != IBV_SRQT_XRC)
		return ffl_err_ptr(type == IBV_SRQT_TM ? EOPNOTSUPP : EINVAL);
	if (mask & IBV_SRQ_INIT_ATTR_TM || !(mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd ||
	    attr->pd->context != ctx)
		return ffl_err_ptr(EINVAL);
	if (type == IBV_SRQT_BASIC)
		return mask & xrc ? ffl_err_ptr(EINVAL) : srq_create(attr->pd, base, NULL, NULL);
	if ((mask & xrc) != xrc || !attr->xrcd || !attr->cq)
		return ffl_err_ptr(EINVAL);
	return srq_create(attr->pd, base, container_of_(attr->xrcd, struct ffl_xrcd, ibv),
			  to_cq(attr->cq));
}

FFL_EXPORT int ibv_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int mask)
{
	struct ff_modify_srq_req req = {
		.srq = to_srq(ibsrq)->handle,
		.mask = (uint32_t)mask,
		.max_wr = mask & IBV_SRQ_MAX_WR ? attr->max_wr : 0,
		.srq_limit = mask & IBV_SRQ_LIMIT ? attr->srq_limit : 0,
	};
	struct ff_modify_srq_resp resp;

	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return ffl_ret(-EINVAL);
	if (mask & IBV_SRQ_MAX_WR)
		return ffl_ret(-EOPNOTSUPP); /* no IBV_DEVICE_SRQ_RESIZE */
	return ffl_ret(FFL_CALL(to_srq(ibsrq)->ctx, MODIFY_SRQ, &req, &resp));
}

FFL_EXPORT int ibv_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
	struct ff_query_srq_req req = { .srq = to_srq(ibsrq)->handle };
	struct ff_query_srq_resp resp;
	int err = FFL_CALL(to_srq(ibsrq)->ctx, QUERY_SRQ, &req, &resp);

	if (err)
		return ffl_ret(err);
	attr->max_wr = resp.max_wr;
	attr->max_sge = resp.max_sge;
	attr->srq_limit = resp.srq_limit;
	return 0;
}

int ffl_get_srq_num(struct ibv_srq *ibsrq, uint32_t *srq_num)
{
	*srq_num = to_srq(ibsrq)->srq_num;
	return 0;
}

/* EBUSY while QPs use it. Waits until the program has acknowledged the SRQ's events. */
FFL_EXPORT int ibv_destroy_srq(struct ibv_srq *ibsrq)
{
	struct ffl_srq *srq = to_srq(ibsrq);
	struct ffl_context *ctx = srq->ctx;
	struct ff_destroy_srq_req req = { .srq = srq->handle };
	struct ff_destroy_srq_resp resp;
	int err;

	if (atomic_load(&srq->refs))
		return ffl_ret(-EBUSY);
	err = FFL_CALL(ctx, DESTROY_SRQ, &req, &resp);
	if (err && err != -EIO) /* a dead router's objects are gone already */
		return ffl_ret(err);
	ffl_table_del(ctx, FFL_SRQ, srq->handle);
	if (srq->xrcd && ctx->pid == getpid()) /* a forked child's rings are its parent's */
		ffl_cq_clean(srq->cq, FF_CQE_OF_SRQ | srq->handle);
	ffl_events_drain(ctx, &ibsrq->mutex, &ibsrq->cond, &ibsrq->events_completed,
			 srq->async_events);
	xrc_refs(srq, -1u);
	atomic_fetch_sub(&to_pd(ibsrq->pd)->refs, 1);
	pthread_cond_destroy(&ibsrq->cond);
	pthread_mutex_destroy(&ibsrq->mutex);
	ffl_obj_free(srq, FFL_RES_SRQ, srq->mem);
	return 0;
}
