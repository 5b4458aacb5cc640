/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * atomic.c - compare-and-swap, fetch-and-add and atomic write at the peer. [lock] Called by local.c and
 * remote/resp.c.
 *
 * Atomic with respect to other RDMA atomics of this router that reach the word in the same way: by a pointer, under
 * the fast lock, or through one process, whose calls are made one at a time. Where the 8 bytes are mapped and aligned,
 * they are atomic to the programs' own atomic instructions as well. What the device reports is IBV_ATOMIC_HCA.
 *
 * A router may die at any instruction, and the next one carries the WR out once more. So a compare-and-swap or
 * fetch-and-add between QPs of one host notes in qp->atom, which outlives the router, what the word is and becomes,
 * then changes the word, and then notes that it did. A note without that end is settled by the next router before
 * anybody changes a word of that process: from the word's value (pvm_settle()).
 */
#include <errno.h>
#include <string.h>

#include "ffr/mem/shadow.h"
#include "ffr/soft/soft.h"

enum { STEP_START, STEP_DONE };

static struct pvm_word word_of(const struct send_wr *wr)
{
	return (struct pvm_word){ .op = wr->opcode,
				  .compare_add = wr->compare_add,
				  .swap = wr->swap };
}

/* Is the atomic noted? Then it is the WR of x->qp, whose peer is on this host. */
static bool is_noted(const struct xfer *x, const struct send_wr *wr)
{
	return wr->opcode != FF_OP_ATOMIC_WRITE && x == &x->qp->soft->req.x;
}

/*
 * True: the word was *old and is `new` now; else *old is what it is. Programs cannot change a word atomically that is
 * not aligned.
 */
static bool swap_at(uint8_t *p, uint64_t *old, uint64_t new)
{
	uint64_t now;

	if (((uintptr_t)p & 7) == 0)
		return atomic_compare_exchange_strong((_Atomic uint64_t *)p, old, new);
	memcpy(&now, p, sizeof(now));
	if (now == *old) {
		memcpy(p, &new, sizeof(new));
		return true;
	}
	*old = now;
	return false;
}

static uint64_t apply_noted(struct qp *qp, const struct send_wr *wr, const struct mr *mr,
			    uint64_t va, uint8_t *p)
{
	const struct pvm_word w = word_of(wr);
	struct qp_atom *n = &qp->atom;
	uint64_t old;

	memcpy(&old, p, sizeof(old));
	n->va = va;
	n->ses = mr->o.ses->id;
	n->key = mr->lkey;
	do {
		qp_atom_set(qp, ATOM_NONE);
		n->old = old;
		n->new = pvm_word_new(&w, old);
		if (n->new == old)
			break;
		qp_atom_set(qp, ATOM_TRIED);
	} while (!swap_at(p, &old, n->new));
	qp_atom_set(qp, ATOM_DONE);
	return n->old;
}

static uint64_t apply_at(const struct send_wr *wr, uint8_t *p)
{
	struct pvm_word w;
	uint64_t old, new;

	if (((uintptr_t)p & 7) == 0) {
		_Atomic uint64_t *a = (_Atomic uint64_t *)p;

		if (wr->opcode == FF_OP_FETCH_ADD)
			return atomic_fetch_add(a, wr->compare_add);
		if (wr->opcode == FF_OP_ATOMIC_WRITE)
			return atomic_exchange(a, wr->compare_add);
		old = wr->compare_add;
		atomic_compare_exchange_strong(a, &old, wr->swap);
		return old;
	}
	memcpy(&old, p, sizeof(old));
	w = word_of(wr);
	new = pvm_word_new(&w, old);
	memcpy(p, &new, sizeof(new));
	return old;
}

/* The call is over, or none is to be made with it. */
static void call_end(struct fast *f, struct xfer *x)
{
	pvm_call_put(f->pvm, x->call);
	x->call = NULL;
}

/*
 * Through the process: one call reads, changes and writes, and those on one process's memory are made one after
 * the other. So it is atomic with respect to all that reach the word through the same process.
 */
static enum xfer_result by_pvm(struct fast *f, struct xfer *x, const struct send_wr *wr,
			       const struct mr *mr, uint64_t va, enum ff_vendor_err *why)
{
	enum xfer_result r = XFER_DST;
	struct pvm_call *c;

	if (xfer_is_busy(x))
		return xfer_submitted(x);
	if (x->call_pending) {
		x->call_pending = false;
		if (!x->call->result) {
			x->atomic_orig = x->call->word.old;
			x->atomic_step = STEP_DONE;
			r = XFER_DONE;
		} else if (x->call->result == -EAGAIN) {
			r = XFER_MORE; /* it was not made: once more, with the value that is there then */
		} else {
			*why = FF_VERR_FAULT;
		}
		call_end(f, x);
		return r;
	}
	c = x->call = pvm_call_get(f->pvm, x->qp, PVM_COPY, sizeof(uint64_t), &x->wait);
	if (!c)
		return x->wait.q ? xfer_submitted(x) : XFER_MORE;
	c->ses = mr->o.ses;
	c->dir = PVM_ATOMIC;
	c->va = va;
	c->len = sizeof(uint64_t);
	c->word = word_of(wr);
	if (is_noted(x, wr)) {
		c->word.step = WORD_LOOK;
		c->note = &x->qp->atom;
		c->key = mr->lkey;
	}
	switch (pvm_submit(f, c, mr, &x->wait)) {
	case 0:
		x->call_pending = true;
		return xfer_submitted(x);
	case -EAGAIN:
		call_end(f, x);
		return xfer_submitted(x);
	default:
		*why = FF_VERR_FAULT;
		call_end(f, x);
		return XFER_DST;
	}
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
	if (is_noted(x, wr) && !x->call) {
		if (x->qp->settle)
			return XFER_WAIT;
		if (qp_atom_step(x->qp) == ATOM_DONE) { /* by a former router */
			x->atomic_orig = x->qp->atom.old;
			x->atomic_step = STEP_DONE;
			return XFER_DONE;
		}
	}
	*why = xfer_resolve(dst, at, &mr, &va);
	if (*why)
		return XFER_DST;
	if (shadow_translate(mr, va, sizeof(uint64_t), &p) < sizeof(uint64_t) || !p)
		return by_pvm(f, x, wr, mr, va, why);
	x->atomic_orig = is_noted(x, wr) ? apply_noted(x->qp, wr, mr, va, p) : apply_at(wr, p);
	x->atomic_step = STEP_DONE;
	return XFER_DONE;
}
