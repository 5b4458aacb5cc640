/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * xrc.c - XRC domains, and QPs of type XRC_RECV: created, or opened by number. Any thread of the
 * application. XRC SRQs are in srq.c, XRC_SEND QPs in qp.c, their work requests in post*.c.
 *
 * An XRC_RECV QP has no queues here: the router delivers what it receives to the SRQ that each
 * request names, and completes it in that SRQ's CQ. What is left of the QP is a handle, with which
 * its state is modified and its events come. It lives as long as one process has it open.
 *
 * A domain is found by its file, of which device and inode are told to the router. It is one of
 * the container's, so that whoever opens the same file in the same container shares it.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ffl/session/ffl.h"

static struct ffl_xrcd *to_xrcd(struct ibv_xrcd *x)
{
	return container_of_(x, struct ffl_xrcd, ibv);
}

/* Errors as those of the kernel: EBADF, EAGAIN: no such domain and no O_CREAT, EINVAL: O_EXCL. */
struct ibv_xrcd *ffl_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	const uint32_t all = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct ff_open_xrcd_req req = { 0 };
	struct ff_open_xrcd_resp resp;
	struct ffl_context *ctx;
	struct ffl_xrcd *x;
	struct stat st;

	if (attr->comp_mask & ~all)
		return ffl_err_ptr(EOPNOTSUPP);
	if (attr->comp_mask != all)
		return ffl_err_ptr(EINVAL);
	req.flags = (attr->oflags & O_CREAT ? FF_XRCD_CREATE : 0) |
		    (attr->oflags & O_EXCL ? FF_XRCD_EXCLUSIVE : 0);
	if (attr->fd != -1) {
		/* not fstat(), which with glibc 2.33 got another version */
		if (syscall(SYS_fstat, attr->fd, &st))
			return NULL;
		req.has_file = 1;
		req.dev = st.st_dev;
		req.ino = st.st_ino;
	}
	ctx = ffl_session_of(context);
	x = FFL_MAKE(sizeof(*x), ctx, OPEN_XRCD, &req, &resp);
	if (!x)
		return NULL;
	x->ibv.context = context;
	x->ctx = ctx;
	x->handle = resp.xrcd;
	atomic_fetch_add(&ctx->objects, 1);
	return &x->ibv;
}

/* EBUSY while SRQs or QPs that were made with it live. */
int ffl_close_xrcd(struct ibv_xrcd *ibx)
{
	struct ffl_xrcd *x = to_xrcd(ibx);
	struct ff_close_xrcd_req req = { .xrcd = x->handle };
	struct ff_close_xrcd_resp resp;
	int err;

	if (atomic_load(&x->refs))
		return ffl_ret(-EBUSY);
	err = FFL_CALL(x->ctx, CLOSE_XRCD, &req, &resp);
	if (err && err != -EIO) /* a dead router's objects are gone already */
		return ffl_ret(err);
	atomic_fetch_sub(&x->ctx->objects, 1);
	free(x);
	return 0;
}

/* ---- XRC_RECV QPs ---------------------------------------------------------------------------- */

/* A queue of no entries, in which a post finds no room. Never written to. */
static struct ff_qp_hdr no_queue;

static struct ffl_qp *recv_qp_new(struct ffl_xrcd *x, void *qp_context)
{
	struct ibv_pd *mem;
	struct ffl_qp *qp = ffl_obj_alloc(NULL, sizeof(*qp), FFL_RES_QP, &mem);

	if (!qp)
		return NULL;
	qp->mem = mem;
	qp->ctx = x->ctx;
	qp->hdr = &no_queue;
	qp->xrcd = x;
	qp->qp.context = x->ibv.context;
	qp->qp.qp_context = qp_context;
	qp->qp.qp_type = IBV_QPT_XRC_RECV;
	return qp;
}

/* The router has given it a handle. */
static struct ffl_qp *recv_qp_enter(struct ffl_qp *qp, uint32_t handle, uint32_t qp_num,
				    enum ibv_qp_state state)
{
	int err = ffl_table_put(qp->ctx, FFL_QP, handle, qp);

	if (err) {
		FFL_CALL(qp->ctx, DESTROY_QP, &(struct ff_destroy_qp_req){ .qp = handle },
			 &(struct ff_destroy_qp_resp){ 0 });
		ffl_obj_free(qp, FFL_RES_QP, qp->mem);
		return ffl_err_ptr(-err);
	}
	qp->handle = qp->qp.handle = handle;
	qp->qp.qp_num = qp_num;
	qp->qp.state = state;
	pthread_mutex_init(&qp->qp.mutex, NULL);
	pthread_cond_init(&qp->qp.cond, NULL);
	atomic_fetch_add(&qp->xrcd->refs, 1);
	return qp;
}

struct ffl_qp *ffl_create_xrc_recv(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
				   const struct ffl_qp_maker *by)
{
	struct ff_create_qp_req req = { .qp_type = IBV_QPT_XRC_RECV };
	struct ff_create_qp_resp resp;
	enum ibv_qp_state state;
	struct ffl_qp *qp;
	int err;

	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !attr->xrcd ||
	    attr->xrcd->context != context)
		return ffl_err_ptr(EINVAL);
	qp = recv_qp_new(to_xrcd(attr->xrcd), attr->qp_context);
	if (!qp)
		return NULL;
	req.xrcd = qp->xrcd->handle;
	err = ffl_qp_make(qp->ctx, by, &req, &resp, &state);
	if (err) {
		ffl_obj_free(qp, FFL_RES_QP, qp->mem);
		return ffl_err_ptr(-err);
	}
	attr->cap = (struct ibv_qp_cap){ 0 };
	return recv_qp_enter(qp, resp.qp, resp.qp_num, state);
}

/* EINVAL: the domain has no XRC_RECV QP of that number. */
struct ibv_qp *ffl_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	const uint32_t needed = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
				IBV_QP_OPEN_ATTR_TYPE;
	struct ff_open_qp_req req;
	struct ff_open_qp_resp resp;
	struct ffl_qp *qp;
	int err;

	if (attr->comp_mask >= IBV_QP_OPEN_ATTR_RESERVED)
		return ffl_err_ptr(EOPNOTSUPP);
	if ((attr->comp_mask & needed) != needed || !attr->xrcd || attr->xrcd->context != context)
		return ffl_err_ptr(EINVAL);
	qp = recv_qp_new(to_xrcd(attr->xrcd),
			 attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? attr->qp_context : NULL);
	if (!qp)
		return NULL;
	req = (struct ff_open_qp_req){ .xrcd = qp->xrcd->handle,
				       .qp_num = attr->qp_num,
				       .qp_type = attr->qp_type };
	err = FFL_CALL(qp->ctx, OPEN_QP, &req, &resp);
	if (err) {
		ffl_obj_free(qp, FFL_RES_QP, qp->mem);
		return ffl_err_ptr(-err);
	}
	qp = recv_qp_enter(qp, resp.qp, attr->qp_num, resp.qp_state);
	return qp ? &qp->qp : NULL;
}
