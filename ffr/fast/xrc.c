/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * xrc.c - XRC domains and what belongs to them: SRQs by number, XRC_RECV QPs and their handles.
 * [lock], all of it. Neighbours: ctl/xrc.c makes and ends them, soft/responder.c delivers.
 *
 * IBTA volume 1, annex A14. A domain belongs to a container; sessions hold it by handles
 * (struct xrcd_ref), and find it again by the file that it was opened with. An XRC_RECV QP, the
 * target, belongs to the domain: it has no queues and no PD of its own. Its connection is its own;
 * everything else comes with each request, which names an SRQ of the domain: receive queue, CQ,
 * PD and session are the SRQ's. So xrc_target_bind() writes them into the target's struct qp, and
 * the code that serves an RC QP with an SRQ serves the target without knowing:
 *	srq, rcq, pd	of the SRQ bound, NULL while there is none
 *	o.ses		the SRQ's session; with no SRQ, the session of one of its handles
 *	o.handle	what its receive completions name: FF_CQE_OF_SRQ | the SRQ's handle
 *	user		the SRQ's, for the same
 *	hdr, sq		private memory with a ring of one entry that is never posted
 * A session's handle of it is a struct qp too, in RESET for ever, of which only the object, the
 * domain and `target` are used. The target lives as long as one handle does, so that the session
 * that created it may end before it.
 */
#include "ffr/fast/xrc.h"

#include <stdlib.h>

#include "ffr/fast/backend.h"
#include "ffr/fast/fast.h"

#define SRQN_MASK 0xffffffu /* XRCETH has 24 bits for it */

/* ---- domains -------------------------------------------------------------------------------- */

struct xrcd *xrcd_find(const struct container *c, uint64_t dev, uint64_t ino)
{
	struct xrcd *x;

	LIST_FOREACH(x, &c->xrcds, entry)
		if (x->has_file && x->dev == dev && x->ino == ino)
			return x;
	return NULL;
}

void xrcd_hold(struct xrcd *x, struct container *c)
{
	if (x->num_refs++)
		return;
	LIST_INSERT_HEAD(&c->xrcds, x, entry);
	c->num_xrcds++;
}

bool xrcd_release(struct xrcd *x, struct container *c)
{
	if (--x->num_refs)
		return false;
	LIST_REMOVE(x, entry);
	c->num_xrcds--;
	return true;
}

/* ---- SRQs ----------------------------------------------------------------------------------- */

struct srq *xrcd_srq(const struct xrcd *x, uint32_t num)
{
	struct srq *srq;

	LIST_FOREACH(srq, &x->srqs[num % XRCD_BUCKETS], same_bucket)
		if (srq->num == num)
			return srq;
	return NULL;
}

void xrc_srq_add(struct srq *srq, uint32_t *last)
{
	struct xrcd *x = srq->xref->xrcd;

	do {
		srq->num = ++*last & SRQN_MASK;
	} while (!srq->num || xrcd_srq(x, srq->num));
	LIST_INSERT_HEAD(&x->srqs[srq->num % XRCD_BUCKETS], srq, same_bucket);
}

void xrc_srq_del(struct fast *f, struct srq *srq)
{
	struct qp *t;

	LIST_REMOVE(srq, same_bucket);
	f->be->ops->srq_destroy(f, srq);
	while ((t = LIST_FIRST(&srq->targets)))
		xrc_target_bind(t, NULL);
}

/* ---- XRC_RECV QPs --------------------------------------------------------------------------- */

/* The target's queues, as nobody shares them. */
struct target_rings {
	struct ff_qp_hdr hdr;
	struct ff_sqe sq[1];
};

struct qp *xrc_target_new(void)
{
	struct qp *t = calloc(1, sizeof(*t));
	struct target_rings *rings = aligned_alloc(FF_CACHELINE, sizeof(*rings));

	if (!t || !rings) {
		free(rings);
		free(t);
		return NULL;
	}
	*rings = (struct target_rings){ 0 };
	t->hdr = &rings->hdr;
	t->sq.ring = (uint8_t *)rings->sq;
	t->sq.depth = 1;
	t->sq.stride = sizeof(rings->sq[0]);
	t->type = IBV_QPT_XRC_RECV;
	t->o.kind = OBJ_QP;
	LIST_INIT(&t->xrc.users);
	return t;
}

void xrc_target_free(struct qp *t)
{
	if (t)
		free((struct target_rings *)t->hdr);
	free(t);
}

int xrc_target_add(struct fast *f, struct qp *t, struct qp *user)
{
	int err;

	t->o.ses = user->o.ses;
	t->xrc.xrcd = user->xrc.ref->xrcd;
	err = fast_qp_add(f, t);
	if (err)
		return err;
	LIST_INSERT_HEAD(&t->xrc.xrcd->targets, t, xrc.same_xrcd);
	xrc_user_add(t, user);
	return 0;
}

struct qp *xrc_target_find(const struct container *c, const struct xrcd *x, uint32_t qpn)
{
	struct qp *t = qp_by_num(&c->fast->host->qps, c->nic, qpn);

	return t && t->type == IBV_QPT_XRC_RECV && t->xrc.xrcd == x ? t : NULL;
}

void xrc_user_add(struct qp *t, struct qp *user)
{
	user->xrc.target = t;
	user->qp_num = t->qp_num;
	LIST_INSERT_HEAD(&t->xrc.users, user, xrc.same_target);
	t->xrc.num_users++;
}

struct qp *xrc_user_del(struct fast *f, struct qp *user)
{
	struct qp *t = user->xrc.target;

	LIST_REMOVE(user, xrc.same_target);
	t->xrc.num_users--;
	if (LIST_EMPTY(&t->xrc.users)) {
		fast_qp_del(f, t);
		if (t->srq)
			LIST_REMOVE(t, xrc.same_srq);
		LIST_REMOVE(t, xrc.same_xrcd);
		return t;
	}
	if (!t->srq) /* the session may be the one that goes */
		t->o.ses = LIST_FIRST(&t->xrc.users)->o.ses;
	return NULL;
}

void xrc_target_bind(struct qp *t, struct srq *srq)
{
	if (t->srq)
		LIST_REMOVE(t, xrc.same_srq);
	if (srq)
		LIST_INSERT_HEAD(&srq->targets, t, xrc.same_srq);
	t->srq = srq;
	t->rcq = srq ? srq->cq : NULL;
	t->pd = srq ? srq->pd : NULL;
	t->o.ses = srq ? srq->o.ses : LIST_FIRST(&t->xrc.users)->o.ses;
	t->o.handle = srq ? FF_CQE_OF_SRQ | srq->o.handle : 0;
	t->user = srq ? srq->user : 0;
}
