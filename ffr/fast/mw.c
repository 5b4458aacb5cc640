/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mw.c - memory windows: parts of MRs under rkeys of their own. [lock] Called by the software device (bind, invalidate,
 * resolve), and by qp.c and fast.c when objects are destroyed; ctl/mw.c makes windows.
 *
 * A window is bound by a WR of a QP, and belongs to a PD as QP and MR do (IBTA 10.6.7):
 *
 *	type 1	can be reached through every QP of the PD; bound again at will; invalid when bound
 *		to a length of 0
 *	type 2	("2B") can be reached only through the QP that it was bound with; must be
 *		invalidated before it is bound again: by LOCAL_INV, by the peer's SEND with
 *		invalidate, or by a bind of length 0
 *
 * Each bind gives the rkey another low byte, so that what was told to peers before opens nothing.
 * The MR needs IBV_ACCESS_MW_BIND, and local write where the window allows remote writes; remote
 * rights it needs none. An MR to which windows are bound cannot go (mr->o.refs) but with its session, and leaves
 * them bound to nothing then: windows of another session, which has imported the PD, may be among them. So a bound
 * window's MR is always there. A QP that is destroyed leaves its type 2 windows bound to nothing.
 */
#include "ffr/fast/mw.h"

#include "ffr/abi/ff_verbs.h"
#include "ffr/fast/fast.h"

#define REMOTE_WRITES (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
/* Local write means nothing for a window, but programs give it along. */
#define BIND_ACCESS                                                                                \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | REMOTE_WRITES |                         \
	 FF_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_ZERO_BASED)

/* ---- changes, for those who publish them ---------------------------------------------------- */

void mw_note(struct mw *mw)
{
	struct container *c = mw->o.ses->cont;
	struct fast *f = mw->o.ses->fast;

	if (mw->is_changed || !f || !f->host->mw_wake)
		return;
	mw->is_changed = true;
	if (TAILQ_EMPTY(&c->mw.changed))
		TAILQ_INSERT_TAIL(&f->mw_turns, c, mw.entry);
	TAILQ_INSERT_TAIL(&c->mw.changed, mw, changed);
	f->host->mw_wake(f->host);
}

void mw_forget(struct fast *f, struct mw *mw)
{
	struct container *c = mw->o.ses->cont;

	if (!mw->is_changed)
		return;
	mw->is_changed = false;
	TAILQ_REMOVE(&c->mw.changed, mw, changed);
	if (TAILQ_EMPTY(&c->mw.changed))
		TAILQ_REMOVE(&f->mw_turns, c, mw.entry);
}

/* A thread with containers whose windows have changed, or NULL. */
static struct fast *any_changed(const struct fast_host *h)
{
	for (uint32_t i = 0; i < h->num_threads; i++)
		if (!TAILQ_EMPTY(&h->threads[i]->mw_turns))
			return h->threads[i];
	return NULL;
}

struct mw *mw_next_changed(struct fast_host *h)
{
	struct fast *f = any_changed(h);
	struct container *c;
	struct mw *mw;

	if (!f)
		return NULL;
	c = TAILQ_FIRST(&f->mw_turns);
	mw = TAILQ_FIRST(&c->mw.changed);
	mw_forget(f, mw);
	if (!TAILQ_EMPTY(&c->mw.changed)) {
		TAILQ_REMOVE(&f->mw_turns, c, mw.entry);
		TAILQ_INSERT_TAIL(&f->mw_turns, c, mw.entry);
	}
	return mw;
}

bool mw_any_changed(const struct fast_host *h)
{
	return any_changed(h);
}

/* ---- bind and invalidate -------------------------------------------------------------------- */

void mw_unbind(struct mw *mw)
{
	if (!mw->mr)
		return;
	mw_note(mw);
	mw->mr->o.refs--;
	LIST_REMOVE(mw, of_mr);
	mw->mr = NULL;
	if (mw->qp)
		LIST_REMOVE(mw, of_qp);
	mw->qp = NULL;
}

bool mw_qp_gone(struct qp *qp, uint32_t max)
{
	struct mw *mw;

	for (; max && (mw = LIST_FIRST(&qp->windows)); max--)
		mw_unbind(mw);
	return LIST_EMPTY(&qp->windows);
}

bool mw_mr_gone(struct mr *mr, uint32_t max)
{
	struct mw *mw;

	for (; max && (mw = LIST_FIRST(&mr->windows)); max--)
		mw_unbind(mw);
	return LIST_EMPTY(&mr->windows);
}

/* May a window become that part of the MR? (IBTA C10-72 to C10-75) */
static enum ff_vendor_err bind_check(const struct qp *qp, const struct mw *mw, const struct mr *mr)
{
	const struct send_wr *wr = qp->wr;
	uint32_t access = wr->imm;
	uint64_t off;

	if (!mr || mr->pd != qp->pd)
		return FF_VERR_LKEY;
	if (access & ~(uint32_t)BIND_ACCESS ||
	    (access & IBV_ACCESS_ZERO_BASED && mw->type == IBV_MW_TYPE_1))
		return FF_VERR_MW;
	if (!(mr->access & IBV_ACCESS_MW_BIND) ||
	    (access & REMOTE_WRITES && !(mr->access & IBV_ACCESS_LOCAL_WRITE)))
		return FF_VERR_LKEY_ACCESS;
	off = wr->remote_addr - mr->iova;
	if (off > mr->length || wr->bind.length > mr->length - off)
		return FF_VERR_LKEY_BOUNDS;
	return FF_VERR_NONE;
}

enum ff_vendor_err mw_bind(struct qp *qp)
{
	const struct send_wr *wr = qp->wr;
	struct mw *mw = mw_get(qp->o.ses, wr->bind.mw);
	struct mr *mr = NULL;

	if (!mw || mw->pd != qp->pd)
		return FF_VERR_MW;
	if (mw->type == IBV_MW_TYPE_2 && mw->mr && (wr->bind.length || mw->qp != qp))
		return FF_VERR_MW;
	if (wr->bind.length) {
		enum ff_vendor_err why;

		mr = key_lookup(&qp->o.ses->cont->keys, wr->bind.lkey);
		why = bind_check(qp, mw, mr);
		if (why)
			return why;
	}
	mw_unbind(mw);
	mw->rkey = (mw->rkey & ~0xffu) | (wr->rkey & 0xff);
	if (!mr)
		return FF_VERR_NONE;
	mr->o.refs++;
	LIST_INSERT_HEAD(&mr->windows, mw, of_mr);
	mw->mr = mr;
	mw->access = wr->imm;
	mw->base = wr->imm & IBV_ACCESS_ZERO_BASED ? 0 : wr->remote_addr;
	mw->length = wr->bind.length;
	mw->va = mr->addr + (wr->remote_addr - mr->iova);
	if (mw->type == IBV_MW_TYPE_2) {
		mw->qp = qp;
		LIST_INSERT_HEAD(&qp->windows, mw, of_qp);
	}
	mw_note(mw);
	return FF_VERR_NONE;
}

enum ff_vendor_err mw_invalidate(struct qp *qp, uint32_t rkey)
{
	struct mw *mw = mw_lookup(&qp->o.ses->cont->windows, rkey);

	/* that of type 1 is bound to no QP; a type 2 one that is bound to this one has its PD */
	if (!mw || !mw->mr || mw->qp != qp)
		return FF_VERR_MW;
	mw_unbind(mw);
	return FF_VERR_NONE;
}

enum ff_vendor_err mw_resolve(const struct qp *qp, const struct pd *pd, const struct ff_sge *at,
			      uint32_t access, struct mr **mr, uint64_t *va)
{
	const struct mw *mw = mw_lookup(&qp->o.ses->cont->windows, at->lkey);
	uint64_t off;

	if (!mw || !mw->mr || mw->pd != pd || (mw->type == IBV_MW_TYPE_2 && mw->qp != qp))
		return FF_VERR_RKEY;
	off = at->addr - mw->base;
	if (off > mw->length || at->length > mw->length - off)
		return FF_VERR_RKEY_BOUNDS;
	if ((mw->access & access) != access)
		return FF_VERR_RKEY_ACCESS;
	*va = mw->va + off;
	*mr = mw->mr;
	return FF_VERR_NONE;
}
