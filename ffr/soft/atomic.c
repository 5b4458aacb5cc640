/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * atomic.c - compare-and-swap and fetch-and-add at the peer. [lock] Called by requester.c.
 *
 * Atomic with respect to other RDMA atomics of this router always (they are all carried out under
 * the fast lock), and to the programs' own atomic instructions where the 8 bytes are mapped
 * and aligned. What the device reports is IBV_ATOMIC_HCA.
 */
#include <errno.h>
#include <string.h>

#include "../shadow.h"
#include "soft.h"

enum { STEP_START, STEP_READ, STEP_WRITE, STEP_DONE };

static uint64_t apply(const struct send_wr *wr, uint64_t old)
{
	if (wr->opcode == FF_OP_FETCH_ADD)
		return old + wr->compare_add;
	return old == wr->compare_add ? wr->swap : old;
}

static uint64_t apply_at(const struct send_wr *wr, uint8_t *p)
{
	uint64_t old, new;

	if (((uintptr_t)p & 7) == 0) {
		_Atomic uint64_t *a = (_Atomic uint64_t *)p;

		if (wr->opcode == FF_OP_FETCH_ADD)
			return atomic_fetch_add(a, wr->compare_add);
		old = wr->compare_add;
		atomic_compare_exchange_strong(a, &old, wr->swap);
		return old;
	}
	memcpy(&old, p, sizeof(old));
	new = apply(wr, old);
	memcpy(p, &new, sizeof(new));
	return old;
}

/* A step through process memory; XFER_DONE: it was carried out. */
static enum xfer_result step(struct fast *f, struct soft_qp *sq, enum pvm_dir dir,
			     struct session *ses, uint64_t va, enum ff_vendor_err *why)
{
	struct pvm_call *c = sq->call;
	int err;

	if (!sq->call_pending) {
		c->ses = ses;
		c->dir = dir;
		c->va = va;
		c->len = sizeof(uint64_t);
		c->qp = sq->qp;
		sq->call_pending = true;
		err = pvm_exec(f, c);
		if (err == -EINPROGRESS)
			return XFER_WAIT;
		if (err == -ECANCELED)
			return XFER_GONE;
	} else {
		if (c->busy)
			return XFER_WAIT;
		err = c->result;
	}
	sq->call_pending = false;
	if (!err)
		return XFER_DONE;
	*why = FF_VERR_FAULT;
	return XFER_DST;
}

/* Fast lock given up between the two steps: other atomics on that word wait for sq->call's owner
 * only by the peer's own doing, since only memory that it did not let us map comes here. */
static enum xfer_result by_pvm(struct fast *f, struct soft_qp *sq, struct session *ses, uint64_t va,
			       enum ff_vendor_err *why)
{
	uint64_t epoch = f->epoch, new;
	enum xfer_result r;

	if (!sq->call) {
		sq->call = pvm_call_get(f->pvm);
		if (!sq->call)
			return XFER_MORE;
	}
	if (sq->atomic_step == STEP_START)
		sq->atomic_step = STEP_READ;
	if (sq->atomic_step == STEP_READ) {
		r = step(f, sq, PVM_READ, ses, va, why);
		if (r != XFER_DONE)
			return r;
		memcpy(&sq->atomic_orig, sq->call->buf, sizeof(sq->atomic_orig));
		new = apply(sq->qp->wr, sq->atomic_orig);
		memcpy(sq->call->buf, &new, sizeof(new));
		sq->atomic_step = STEP_WRITE;
		if (f->epoch != epoch)
			return XFER_MORE; /* the peer may have gone meanwhile */
	}
	r = step(f, sq, PVM_WRITE, ses, va, why);
	if (r == XFER_DONE) {
		pvm_call_put(f->pvm, sq->call);
		sq->call = NULL;
		sq->atomic_step = STEP_DONE;
	}
	return r;
}

enum xfer_result atomic_run(struct fast *f, struct soft_qp *sq, const struct side *dst,
			    const struct ff_sge *at, enum ff_vendor_err *why)
{
	struct mr *mr;
	uint64_t va;
	uint8_t *p;

	if (sq->atomic_step == STEP_DONE)
		return XFER_DONE;
	*why = xfer_resolve(dst, at, &mr, &va);
	if (*why)
		return XFER_DST;
	if (shadow_translate(mr, va, sizeof(uint64_t), &p) < sizeof(uint64_t) || !p)
		return by_pvm(f, sq, mr->o.ses, va, why);
	sq->atomic_orig = apply_at(sq->qp->wr, p);
	sq->atomic_step = STEP_DONE;
	return XFER_DONE;
}
