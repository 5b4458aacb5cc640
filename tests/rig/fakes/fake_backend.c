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

static void qp_move(struct fast *from, struct fast *to, struct qp *qp)
{
	(void)from;
	(void)to;
	(void)qp;
}

static void container_come(struct fast *f)
{
	(void)f;
}

static void container_gone(struct fast *f, struct container *c)
{
	(void)f;
	(void)c;
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
	.open = open_,
	.close = close_,
	.qp_create = qp_create,
	.qp_modify = qp_modify,
	.qp_destroy = qp_destroy,
	.srq_destroy = srq_destroy,
	.qp_move = qp_move,
	.container_come = container_come,
	.container_gone = container_gone,
	.mcast_changed = mcast_changed,
	.wire_attach = wire_attach,
	.wire_detach = wire_detach,
	.recv_posted = recv_posted,
};
