/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * xfer.c - moving bytes between the memory of two clients: once, from source to destination. [lock]
 *
 * A message is moved in steps of at most one quantum for each turn. Every step looks the keys up
 * again: an MR that was deregistered meanwhile is not touched. Where both sides are mapped, a step
 * is one memcpy. Where one is not, its bytes go through the buffer of a pvm call (pvm.h), which
 * may be handed to a worker in the middle of it: the position is in struct soft_qp, never on the
 * stack.
 */
#include <errno.h>
#include <string.h>

#include "../shadow.h"
#include "../mw.h"
#include "soft.h"

/* What a null MR reads as. Nothing is written here: struct spot.null. */
static const uint8_t zeros[65536];

void xfer_copy(uint8_t *dst, const uint8_t *src, uint64_t n)
{
	uint64_t v;

	/* memmove: a client may well name overlapping memory; glibc makes no difference in speed */
	if (n < sizeof(v)) {
		memmove(dst, src, n);
		return;
	}
	/* the last 8 bytes by a store of their own, after all others: x86 keeps the order */
	memcpy(&v, src + n - sizeof(v), sizeof(v));
	if (n > sizeof(v))
		memmove(dst, src, n - sizeof(v));
	atomic_thread_fence(memory_order_release);
	memcpy(dst + n - sizeof(v), &v, sizeof(v));
}

enum ff_vendor_err xfer_resolve(const struct side *s, const struct ff_sge *sge, struct mr **out,
				uint64_t *va)
{
	bool remote = s->access &
		      (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	struct mr *mr = key_lookup(s->keys, sge->lkey);
	uint64_t off;

	if (!mr && remote)
		return mw_resolve(s->qp, s->pd, sge, s->access, out, va);
	if (!mr || mr->pd != s->pd)
		return remote ? FF_VERR_RKEY : FF_VERR_LKEY;
	off = sge->addr - mr->iova;
	if (off > mr->length || sge->length > mr->length - off)
		return remote ? FF_VERR_RKEY_BOUNDS : FF_VERR_LKEY_BOUNDS;
	if ((mr->access & s->access) != s->access)
		return remote ? FF_VERR_RKEY_ACCESS : FF_VERR_LKEY_ACCESS;
	*va = mr->addr + off;
	*out = mr;
	return FF_VERR_NONE;
}

enum ff_vendor_err xfer_check(const struct side *s, uint64_t total)
{
	uint64_t seen = 0;

	if (s->bytes)
		return FF_VERR_NONE;
	for (uint32_t i = 0; i < s->num_sge && seen < total; i++) {
		enum ff_vendor_err why;
		struct mr *mr;
		uint64_t va;

		if (!s->sge[i].length)
			continue;
		why = xfer_resolve(s, &s->sge[i], &mr, &va);
		if (why)
			return why;
		seen += s->sge[i].length;
	}
	return FF_VERR_NONE;
}

/* Where a side's next bytes are: at a pointer, or at an address of a process. */
struct spot {
	uint8_t *ptr; /* NULL: reached by pvm */
	bool null;    /* of a null MR: ptr gives zeros and takes nothing */
	uint64_t va;
	uint64_t len; /* contiguous */
	struct session *ses;
};

static enum ff_vendor_err sge_spot(const struct side *s, uint32_t *i, uint64_t *off, uint64_t want,
				   struct spot *out)
{
	enum ff_vendor_err why;
	struct mr *mr;
	uint64_t va;

	while (*i < s->num_sge && *off >= s->sge[*i].length) {
		++*i;
		*off = 0;
	}
	if (*i >= s->num_sge)
		return FF_VERR_BAD_SGE; /* cannot be: lengths were added up before */
	why = xfer_resolve(s, &s->sge[*i], &mr, &va);
	if (why)
		return why;
	out->len = s->sge[*i].length - *off;
	if (out->len > want)
		out->len = want;
	out->va = va + *off;
	out->ses = mr->o.ses;
	if (mr->kind == MR_NULL) {
		out->null = true;
		out->ptr = (uint8_t *)zeros;
		if (out->len > sizeof(zeros))
			out->len = sizeof(zeros);
		return FF_VERR_NONE;
	}
	out->len = shadow_translate(mr, out->va, out->len, &out->ptr);
	return FF_VERR_NONE;
}

static void spot_put(const struct spot *d, const uint8_t *from, uint64_t n)
{
	if (!d->null)
		xfer_copy(d->ptr, from, n);
}

static enum ff_vendor_err src_spot(struct soft_qp *sq, const struct side *s, uint64_t want,
				   struct spot *out)
{
	if (sq->done < s->prefix_len) {
		out->ptr = (uint8_t *)s->prefix + sq->done;
		out->len = s->prefix_len - sq->done;
	} else if (s->bytes) {
		out->ptr = (uint8_t *)s->bytes + (sq->done - s->prefix_len);
		out->len = want;
	} else {
		return sge_spot(s, &sq->src_i, &sq->src_off, want, out);
	}
	if (out->len > want)
		out->len = want;
	return FF_VERR_NONE;
}

static void advance(struct soft_qp *sq, const struct side *src, uint64_t n)
{
	if (!src->bytes && sq->done >= src->prefix_len)
		sq->src_off += n;
	sq->dst_off += n;
	sq->done += n;
}

static void call_end(struct fast *f, struct soft_qp *sq)
{
	pvm_call_put(f->pvm, sq->call);
	sq->call = NULL;
	sq->buf_off = sq->buf_len = 0;
}

void xfer_reset(struct fast *f, struct soft_qp *sq)
{
	if (sq->call)
		call_end(f, sq);
	sq->done = sq->src_off = sq->dst_off = 0;
	sq->src_i = sq->dst_i = 0;
	sq->call_pending = false;
}

/* Start a call for the QP. 0, -EINPROGRESS, -ECANCELED or another -errno. */
static int call_start(struct fast *f, struct soft_qp *sq, enum pvm_dir dir, const struct spot *at,
		      uint32_t len)
{
	struct pvm_call *c = sq->call;

	c->ses = at->ses;
	c->dir = dir;
	c->va = at->va;
	c->len = len;
	c->qp = sq->qp;
	at->ses->stats.pvm_bytes += len;
	sq->call_writes = dir == PVM_WRITE;
	/* set before: when the role is lost in the call, its result is found in the next turn */
	sq->call_pending = true;
	return pvm_exec(f, c);
}

/* What a call's end means for the position. */
static enum xfer_result call_done(struct fast *f, struct soft_qp *sq, const struct side *src,
				  int result, enum ff_vendor_err *why)
{
	struct pvm_call *c = sq->call;

	sq->call_pending = false;
	if (result) {
		enum xfer_result r = sq->call_writes ? XFER_DST : XFER_SRC;

		*why = FF_VERR_FAULT;
		call_end(f, sq);
		return r;
	}
	if (sq->call_writes) {
		sq->buf_off += c->len;
		advance(sq, src, c->len);
		if (sq->buf_off >= sq->buf_len)
			call_end(f, sq);
	} else {
		sq->buf_len = c->len;
		sq->buf_off = 0;
	}
	return XFER_DONE;
}

/* A step with process memory on one side at least. XFER_DONE: go on. */
static enum xfer_result step_pvm(struct fast *f, struct soft_qp *sq, const struct side *src,
				 const struct spot *s, const struct spot *d, uint64_t n,
				 enum ff_vendor_err *why)
{
	int err;

	if (n > PVM_MAX)
		n = PVM_MAX;
	if (!sq->call) {
		sq->call = pvm_call_get(f->pvm);
		if (!sq->call)
			return XFER_MORE; /* no memory: try again */
	}
	if (!sq->buf_len) {
		if (!s->ptr) {
			err = call_start(f, sq, PVM_READ, s, (uint32_t)n);
			goto called;
		}
		memcpy(sq->call->buf, s->ptr, n);
		sq->buf_len = (uint32_t)n;
		sq->buf_off = 0;
	}
	if (n > sq->buf_len - sq->buf_off)
		n = sq->buf_len - sq->buf_off;
	if (d->ptr) {
		spot_put(d, sq->call->buf + sq->buf_off, n);
		sq->buf_off += (uint32_t)n;
		advance(sq, src, n);
		if (sq->buf_off >= sq->buf_len)
			call_end(f, sq);
		return XFER_DONE;
	}
	if (sq->buf_off) { /* a call's bytes start at its buffer's start */
		memmove(sq->call->buf, sq->call->buf + sq->buf_off, sq->buf_len - sq->buf_off);
		sq->buf_len -= sq->buf_off;
		sq->buf_off = 0;
	}
	err = call_start(f, sq, PVM_WRITE, d, (uint32_t)n);
called:
	if (err == -EINPROGRESS)
		return XFER_WAIT;
	if (err == -ECANCELED)
		return XFER_GONE;
	return call_done(f, sq, src, err, why);
}

enum xfer_result xfer_run(struct fast *f, struct soft_qp *sq, const struct side *src,
			  const struct side *dst, uint64_t total, enum ff_vendor_err *why)
{
	uint64_t end = sq->done + f->conf.quantum, epoch = f->epoch;
	enum xfer_result r;

	if (sq->call_pending) {
		if (sq->call->busy)
			return XFER_WAIT;
		r = call_done(f, sq, src, sq->call->result, why);
		if (r != XFER_DONE)
			return r;
	}
	while (sq->done < total) {
		struct spot s = { 0 }, d = { 0 };
		uint64_t n;

		if (sq->done >= end || f->epoch != epoch)
			return XFER_MORE;
		n = total - sq->done;
		if (n > end - sq->done)
			n = end - sq->done;
		*why = src_spot(sq, src, n, &s);
		if (*why)
			return XFER_SRC;
		*why = sge_spot(dst, &sq->dst_i, &sq->dst_off, n, &d);
		if (*why)
			return XFER_DST;
		n = s.len < d.len ? s.len : d.len;
		if (s.ptr && d.ptr && !sq->buf_len) {
			spot_put(&d, s.ptr, n);
			advance(sq, src, n);
			continue;
		}
		r = step_pvm(f, sq, src, &s, &d, n, why);
		if (r != XFER_DONE)
			return r;
	}
	return XFER_DONE;
}
