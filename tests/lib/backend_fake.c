/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * backend_fake.c - see backend_fake.h.
 */
#include "tests/lib/backend_fake.h"

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

static int mr_reg(struct backend *be, struct mr *mr)
{
	(void)be;
	(void)mr;
	return 0;
}

static void mr_dereg(struct backend *be, struct mr *mr)
{
	(void)be;
	(void)mr;
}

static int cq_create(struct backend *be, struct cq *cq)
{
	(void)be;
	(void)cq;
	return 0;
}

static void cq_destroy(struct backend *be, struct cq *cq)
{
	(void)be;
	(void)cq;
}

static int qp_create(struct backend *be, struct qp *qp)
{
	(void)be;
	(void)qp;
	return 0;
}

static void qp_modify(struct backend *be, struct qp *qp, enum ibv_qp_state old)
{
	(void)be;
	(void)qp;
	(void)old;
}

static void qp_destroy(struct backend *be, struct qp *qp)
{
	(void)be;
	if (last == qp)
		last = NULL;
}

static void srq_destroy(struct backend *be, struct srq *srq)
{
	(void)be;
	(void)srq;
}

static void container_gone(struct backend *be, struct container *c)
{
	(void)be;
	(void)c;
}

static void remote_changed(struct backend *be, struct remote *r)
{
	(void)be;
	(void)r;
}

static void policy_changed(struct backend *be)
{
	(void)be;
}

static void mcast_changed(struct backend *be, const char *tenant, const union ibv_gid *mgid)
{
	(void)be;
	(void)tenant;
	(void)mgid;
}

static int wire_attach(struct backend *be, struct wire_peer *p, struct wire_io *io,
		       const struct wire_hello *theirs)
{
	(void)be;
	(void)p;
	(void)io;
	(void)theirs;
	return -EOPNOTSUPP;
}

static void wire_detach(struct backend *be, struct wire_peer *p, const char *why)
{
	(void)be;
	(void)p;
	(void)why;
}

static enum post_result post_send(struct backend *be, struct qp *qp)
{
	(void)be;
	posted++;
	last = qp;
	return POST_WAIT;
}

static enum post_result progress(struct backend *be, struct qp *qp)
{
	(void)be;
	(void)qp;
	return POST_WAIT;
}

static bool recv_posted(struct backend *be, struct qp *qp, struct srq *srq)
{
	(void)be;
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
	.post_send = post_send,
	.progress = progress,
	.recv_posted = recv_posted,
};
