/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * xfer.c - moving bytes between the memory of two clients: once, from source to destination. [lock]
 *
 * A message is moved in steps of at most one quantum for each turn. Every step looks the keys up
 * again: an MR that was deregistered meanwhile is not touched. Where both sides are mapped, a step
 * is one memcpy. Where one is not, its bytes go through the buffer of a pvm call (pvm.h), which
 * may be handed to a worker in the middle of it: the position is in struct xfer, never on the
 * stack.
 */
#include <errno.h>
#include <string.h>

#include "ffr/mem/shadow.h"
#include "ffr/fast/mw.h"
#include "ffr/soft/soft.h"

/* What a null MR reads as. Nothing is written here: struct spot.null. */
static const uint8_t zeros[65536];

enum ff_vendor_err xfer_resolve(const struct side *s, const struct ff_sge *sge, struct mr **out,
				uint64_t *va)
{
	struct mr *mr = key_lookup(s->keys, sge->lkey);
	enum ff_vendor_err why;

	if (!mr && (s->access & ACCESS_REMOTE)) {
		why = mw_resolve(s->qp, s->pd, sge, s->access, out, va);
		return !why && shadow_gone(*out) ? FF_VERR_RKEY : why;
	}
	why = xfer_reach(mr, s->pd, sge->addr, sge->length, s->access);
	if (why)
		return why;
	*va = mr->addr + (sge->addr - mr->iova);
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
		copy_plain(d->ptr, from, n);
}

static enum ff_vendor_err src_spot(struct xfer *x, const struct side *s, uint64_t want,
				   struct spot *out)
{
	if (x->done < s->prefix_len) {
		out->ptr = (uint8_t *)s->prefix + x->done;
		out->len = s->prefix_len - x->done;
	} else if (s->bytes) {
		out->ptr = (uint8_t *)s->bytes + (x->done - s->prefix_len);
		out->len = want;
	} else {
		return sge_spot(s, &x->src_i, &x->src_off, want, out);
	}
	if (out->len > want)
		out->len = want;
	return FF_VERR_NONE;
}

static void advance(struct xfer *x, const struct side *src, uint64_t n)
{
	if (!src->bytes && x->done >= src->prefix_len)
		x->src_off += n;
	x->dst_off += n;
	x->done += n;
}

static void call_end(struct fast *f, struct xfer *x)
{
	pvm_call_put(f->pvm, x->call);
	x->call = NULL;
	x->buf_off = x->buf_len = 0;
}

void xfer_reset(struct fast *f, struct xfer *x)
{
	if (x->call)
		call_end(f, x);
	x->done = x->src_off = x->dst_off = x->limit = 0;
	x->src_i = x->dst_i = 0;
	x->call_pending = false;
}

/* Start a call for the QP. 0, -EINPROGRESS, -ECANCELED or another -errno. */
static int call_start(struct fast *f, struct xfer *x, enum pvm_dir dir, const struct spot *at,
		      uint32_t len)
{
	struct pvm_call *c = x->call;

	c->ses = at->ses;
	c->dir = dir;
	c->va = at->va;
	c->len = len;
	c->qp = x->qp;
	at->ses->stats.pvm_bytes += len;
	f->calls++;
	x->call_writes = dir == PVM_WRITE;
	/* set before: when the role is lost in the call, its result is found in the next turn */
	x->call_pending = true;
	return pvm_exec(f, c);
}

/* What a call's end means for the position. */
static enum xfer_result call_done(struct fast *f, struct xfer *x, const struct side *src,
				  int result, enum ff_vendor_err *why)
{
	struct pvm_call *c = x->call;

	x->call_pending = false;
	if (result) {
		enum xfer_result r = x->call_writes ? XFER_DST : XFER_SRC;

		*why = FF_VERR_FAULT;
		call_end(f, x);
		return r;
	}
	if (x->call_writes) {
		x->buf_off += c->len;
		advance(x, src, c->len);
		if (x->buf_off >= x->buf_len)
			call_end(f, x);
	} else {
		x->buf_len = c->len;
		x->buf_off = 0;
	}
	return XFER_DONE;
}

/* A step with process memory on one side at least. XFER_DONE: go on. */
static enum xfer_result step_pvm(struct fast *f, struct xfer *x, const struct side *src,
				 const struct spot *s, const struct spot *d, uint64_t n,
				 enum ff_vendor_err *why)
{
	int err;

	if (n > PVM_MAX)
		n = PVM_MAX;
	if (!x->call) {
		x->call = pvm_call_get(f->pvm);
		if (!x->call)
			return XFER_MORE; /* no memory: try again */
	}
	if (!x->buf_len) {
		if (!s->ptr) {
			err = call_start(f, x, PVM_READ, s, (uint32_t)n);
			goto called;
		}
		memcpy(x->call->buf, s->ptr, n);
		x->buf_len = (uint32_t)n;
		x->buf_off = 0;
	}
	if (n > x->buf_len - x->buf_off)
		n = x->buf_len - x->buf_off;
	if (d->ptr) {
		spot_put(d, x->call->buf + x->buf_off, n);
		x->buf_off += (uint32_t)n;
		advance(x, src, n);
		if (x->buf_off >= x->buf_len)
			call_end(f, x);
		return XFER_DONE;
	}
	if (x->buf_off) { /* a call's bytes start at its buffer's start */
		memmove(x->call->buf, x->call->buf + x->buf_off, x->buf_len - x->buf_off);
		x->buf_len -= x->buf_off;
		x->buf_off = 0;
	}
	err = call_start(f, x, PVM_WRITE, d, (uint32_t)n);
called:
	if (err == -EINPROGRESS)
		return XFER_WAIT;
	if (err == -ECANCELED)
		return XFER_GONE;
	return call_done(f, x, src, err, why);
}

static enum xfer_result run(struct fast *f, struct xfer *x, const struct side *src,
			    const struct side *dst, uint64_t total, enum ff_vendor_err *why)
{
	uint64_t end = x->done + f->quantum, epoch = f->epoch;
	enum xfer_result r;

	if (x->limit && end > x->limit)
		end = x->limit;
	if (x->call_pending) {
		if (x->call->busy)
			return XFER_WAIT;
		r = call_done(f, x, src, x->call->result, why);
		if (r != XFER_DONE)
			return r;
	}
	while (x->done < total) {
		struct spot s = { 0 }, d = { 0 };
		uint64_t n;

		if (x->done >= end || f->epoch != epoch)
			return XFER_MORE;
		n = total - x->done;
		if (n > end - x->done)
			n = end - x->done;
		*why = src_spot(x, src, n, &s);
		if (*why)
			return XFER_SRC;
		if (dst->bytes) {
			d.ptr = (uint8_t *)dst->bytes + x->done;
			d.len = n;
		} else {
			*why = sge_spot(dst, &x->dst_i, &x->dst_off, n, &d);
		}
		if (*why)
			return XFER_DST;
		n = s.len < d.len ? s.len : d.len;
		if (s.ptr && d.ptr && !x->buf_len) {
			if (!d.null)
				copy_bytes(&x->qp->soft->copy, d.ptr, s.ptr, n);
			advance(x, src, n);
			continue;
		}
		r = step_pvm(f, x, src, &s, &d, n, why);
		if (r != XFER_DONE)
			return r;
	}
	return XFER_DONE;
}

enum xfer_result xfer_run(struct fast *f, struct xfer *x, const struct side *src,
			  const struct side *dst, uint64_t total, enum ff_vendor_err *why)
{
	uint64_t from = x->done;
	enum xfer_result r = run(f, x, src, dst, total, why);

	if (r <= XFER_WAIT)
		f->bytes_moved += x->done - from;
	return r;
}

/* ---- for the wire: by position, one side at a time ------------------------------------------------- */

/* The entry of a side that byte `off` is in, and where in it. */
static void seek(const struct side *s, uint64_t off, uint32_t *i, uint64_t *in)
{
	for (*i = 0; *i + 1 < s->num_sge && off >= s->sge[*i].length; ++*i)
		off -= s->sge[*i].length;
	*in = off;
}

int xfer_iov(const struct side *s, uint64_t off, uint64_t len, struct iovec *iov, int max,
	     uint64_t *bytes, enum ff_vendor_err *why)
{
	uint64_t in;
	uint32_t i;
	int n = 0;

	*bytes = 0;
	if (s->bytes) {
		iov[0] = (struct iovec){ (uint8_t *)s->bytes + off, len };
		*bytes = len;
		return 1;
	}
	seek(s, off, &i, &in);
	while (n < max && *bytes < len) {
		struct spot at = { 0 };

		*why = sge_spot(s, &i, &in, len - *bytes, &at);
		if (*why)
			return -1;
		if (at.null && (s->access & ~IBV_ACCESS_REMOTE_READ))
			at.ptr = NULL; /* what is written there goes nowhere, see xfer_put() */
		if (!at.ptr) {
			if (!n)
				*bytes = at.len < PVM_MAX ? at.len : PVM_MAX;
			return n;
		}
		iov[n++] = (struct iovec){ at.ptr, at.len };
		*bytes += at.len;
		in += at.len;
	}
	return n;
}

enum xfer_result xfer_put(struct fast *f, struct xfer *x, const struct side *dst, uint64_t off,
			  const uint8_t *buf, uint64_t *len, enum ff_vendor_err *why)
{
	uint64_t in, left = *len, epoch = f->epoch;
	uint32_t i;

	seek(dst, off, &i, &in);
	for (*len = 0; left;) {
		struct spot at = { 0 };
		int err;

		*why = sge_spot(dst, &i, &in, left, &at);
		if (*why)
			return XFER_DST;
		if (at.ptr) {
			spot_put(&at, buf, at.len);
		} else {
			if (at.len > PVM_MAX)
				at.len = PVM_MAX;
			if (!x->call)
				x->call = pvm_call_get(f->pvm);
			if (!x->call) {
				*why = FF_VERR_FAULT;
				return XFER_DST;
			}
			memcpy(x->call->buf, buf, at.len);
			err = call_start(f, x, PVM_WRITE, &at, (uint32_t)at.len);
			if (err == -EINPROGRESS)
				return XFER_WAIT;
			if (err == -ECANCELED)
				return XFER_GONE;
			x->call_pending = false;
			call_end(f, x);
			if (err) {
				*why = FF_VERR_FAULT;
				return XFER_DST;
			}
		}
		in += at.len;
		buf += at.len;
		*len += at.len;
		left -= at.len;
		if (left && f->epoch != epoch) /* what is known of the keys holds no more */
			return XFER_MORE;
	}
	return XFER_DONE;
}

enum xfer_result xfer_get(struct fast *f, struct xfer *x, const struct side *src, uint64_t off,
			  uint64_t *len, enum ff_vendor_err *why)
{
	struct spot at = { 0 };
	uint64_t in;
	uint32_t i;
	int err;

	seek(src, off, &i, &in);
	*why = sge_spot(src, &i, &in, *len, &at);
	if (*why)
		return XFER_SRC;
	x->call = pvm_call_get(f->pvm);
	if (!x->call) {
		*why = FF_VERR_FAULT;
		return XFER_SRC;
	}
	*len = at.len < PVM_MAX ? at.len : PVM_MAX;
	err = call_start(f, x, PVM_READ, &at, (uint32_t)*len);
	if (err == -EINPROGRESS)
		return XFER_WAIT;
	if (err == -ECANCELED)
		return XFER_GONE;
	x->call_pending = false;
	if (!err)
		return XFER_DONE;
	call_end(f, x);
	*why = FF_VERR_FAULT;
	return XFER_SRC;
}
