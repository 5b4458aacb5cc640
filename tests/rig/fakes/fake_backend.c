/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fake_backend.c - see fake_backend.h.
 */
#include "tests/rig/fakes/fake_backend.h"

#include <errno.h>

static unsigned posted;
static struct qp *last;

void fake_reset(void)
{
	posted = 0;
	last = NULL;
}

unsigned fake_posted(void)
{
	return posted;
}

void fake_complete(struct fast *f, enum ibv_wc_status st)
{
	comp_send(f, last, st, FF_VERR_NONE);
	fast_qp_activate(f, last);
}

static int open_(struct backend *be)
{
	be->priv = NULL;
	return 0;
}

static void close_(struct backend *be)
{
	(void)be;
}

static void query(struct backend *be, struct ff_query_device_resp *dev)
{
	(void)be;
	dev->max_qp = FF_MAX_QP;
}

static int mr_reg(struct fast *f, struct mr *mr)
{
	(void)f;
	(void)mr;
	return 0;
}

static void mr_dereg(struct fast *f, struct mr *mr)
{
	(void)f;
	(void)mr;
}

static int cq_create(struct fast *f, struct cq *cq)
{
	(void)f;
	(void)cq;
	return 0;
}

static void cq_destroy(struct fast *f, struct cq *cq)
{
	(void)f;
	(void)cq;
}

static enum post_result post(struct fast *f, struct qp *qp)
{
	(void)f;
	posted++;
	last = qp;
	return POST_WAIT;
}

static enum post_result progress(struct fast *f, struct qp *qp)
{
	(void)f;
	(void)qp;
	return POST_WAIT;
}

static const struct send_ops send_ops = { .name = "fake", .post = post, .progress = progress };

static int qp_create(struct fast *f, struct qp *qp)
{
	(void)f;
	qp->send = &send_ops;
	return 0;
}

static void qp_modify(struct fast *f, struct qp *qp, enum ibv_qp_state old)
{
	(void)f;
	(void)qp;
	(void)old;
}

static void qp_destroy(struct fast *f, struct qp *qp)
{
	(void)f;
	if (last == qp)
		last = NULL;
}

static void srq_destroy(struct fast *f, struct srq *srq)
{
	(void)f;
	(void)srq;
}

static void container_gone(struct fast *f, struct container *c)
{
	(void)f;
	(void)c;
}

static void remote_changed(struct fast *f, struct remote *r)
{
	(void)f;
	(void)r;
}

static void policy_changed(struct fast *f)
{
	(void)f;
}

static void mcast_changed(struct fast *f, const char *tenant, const union ibv_gid *mgid)
{
	(void)f;
	(void)tenant;
	(void)mgid;
}

static int wire_attach(struct fast *f, struct wire_peer *p, struct wire_io *io,
		       const struct wire_hello *theirs)
{
	(void)f;
	(void)p;
	(void)io;
	(void)theirs;
	return -EOPNOTSUPP;
}

static void wire_detach(struct fast *f, struct wire_peer *p, const char *why)
{
	(void)f;
	(void)p;
	(void)why;
}

static bool recv_posted(struct fast *f, struct qp *qp, struct srq *srq)
{
	(void)f;
	(void)qp;
	(void)srq;
	return false;
}

const struct backend_ops fake_ops = {
	.name = "fake",
	.open = open_,
	.close = close_,
	.query = query,
	.mr_reg = mr_reg,
	.mr_dereg = mr_dereg,
	.cq_create = cq_create,
	.cq_destroy = cq_destroy,
	.qp_create = qp_create,
	.qp_modify = qp_modify,
	.qp_destroy = qp_destroy,
	.srq_destroy = srq_destroy,
	.container_gone = container_gone,
	.remote_changed = remote_changed,
	.policy_changed = policy_changed,
	.mcast_changed = mcast_changed,
	.wire_attach = wire_attach,
	.wire_detach = wire_detach,
	.recv_posted = recv_posted,
};
