/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * atomic.c - compare-and-swap and fetch-and-add at the peer. [lock] Called by local.c and remote_resp.c.
 *
 * Atomic with respect to other RDMA atomics of this router always (they are all carried out under
 * the fast lock), and to the programs' own atomic instructions where the 8 bytes are mapped
 * and aligned. What the device reports is IBV_ATOMIC_HCA.
 */
#include <errno.h>
#include <string.h>

#include "ffr/mem/shadow.h"
#include "ffr/soft/soft.h"

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
static enum xfer_result step(struct fast *f, struct xfer *x, enum pvm_dir dir, struct session *ses,
			     uint64_t va, enum ff_vendor_err *why)
{
	struct pvm_call *c = x->call;
	int err;

	if (!x->call_pending) {
		c->ses = ses;
		c->dir = dir;
		c->va = va;
		c->len = sizeof(uint64_t);
		c->qp = x->qp;
		x->call_pending = true;
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
	x->call_pending = false;
	if (!err)
		return XFER_DONE;
	*why = FF_VERR_FAULT;
	return XFER_DST;
}

/* Fast lock given up between the two steps: other atomics on that word wait for x->call's owner
 * only by the peer's own doing, since only memory that it did not let us map comes here. */
static enum xfer_result by_pvm(struct fast *f, struct xfer *x, const struct send_wr *wr,
			       struct session *ses, uint64_t va, enum ff_vendor_err *why)
{
	uint64_t epoch = f->epoch, new;
	enum xfer_result r;

	if (!x->call) {
		x->call = pvm_call_get(f->pvm);
		if (!x->call)
			return XFER_MORE;
	}
	if (x->atomic_step == STEP_START)
		x->atomic_step = STEP_READ;
	if (x->atomic_step == STEP_READ) {
		r = step(f, x, PVM_READ, ses, va, why);
		if (r != XFER_DONE)
			return r;
		memcpy(&x->atomic_orig, x->call->buf, sizeof(x->atomic_orig));
		new = apply(wr, x->atomic_orig);
		memcpy(x->call->buf, &new, sizeof(new));
		x->atomic_step = STEP_WRITE;
		if (f->epoch != epoch)
			return XFER_MORE; /* the peer may have gone meanwhile */
	}
	r = step(f, x, PVM_WRITE, ses, va, why);
	if (r == XFER_DONE) {
		pvm_call_put(f->pvm, x->call);
		x->call = NULL;
		x->atomic_step = STEP_DONE;
	}
	return r;
}

enum xfer_result atomic_run(struct fast *f, struct xfer *x, const struct send_wr *wr,
			    const struct side *dst, const struct ff_sge *at,
			    enum ff_vendor_err *why)
{
	struct mr *mr;
	uint64_t va;
	uint8_t *p;

	if (x->atomic_step == STEP_DONE)
		return XFER_DONE;
	*why = xfer_resolve(dst, at, &mr, &va);
	if (*why)
		return XFER_DST;
	if (shadow_translate(mr, va, sizeof(uint64_t), &p) < sizeof(uint64_t) || !p)
		return by_pvm(f, x, wr, mr->o.ses, va, why);
	x->atomic_orig = apply_at(wr, p);
	x->atomic_step = STEP_DONE;
	return XFER_DONE;
}
