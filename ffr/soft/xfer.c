/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * xfer.c - moving bytes between the memory of two clients: once, from source to destination. [lock]
 *
 * A message is moved in steps of at most one quantum for each turn. Every step looks the keys up
 * again: an MR that was deregistered meanwhile is not touched. Where both sides are mapped, a step
 * is one memcpy, also by a view (mem/view.h) in which the pages are. Else the bytes go through the buffer of a pvm
 * call (pvm.h), which is made after the turn: the position is in struct xfer, never on the stack.
 */
#include <errno.h>
#include <string.h>

#include "ffr/mem/fallible.h"
#include "ffr/mem/track.h"
#include "ffr/mem/heat.h"
#include "ffr/mem/shadow.h"
#include "ffr/mem/view.h"
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
	uint8_t *ptr;  /* NULL: reached by pvm */
	uint8_t *view; /* without a pointer: where there may be a page of it (mem/view.h); NULL */
	bool null;     /* of a null MR: ptr gives zeros and takes nothing */
	uint64_t va;
	uint64_t len; /* contiguous */
	struct mr *mr;
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
	out->mr = mr;
	if (mr->kind == MR_NULL) {
		out->null = true;
		out->ptr = (uint8_t *)zeros;
		if (out->len > sizeof(zeros))
			out->len = sizeof(zeros);
		return FF_VERR_NONE;
	}
	out->len = shadow_translate(mr, out->va, out->len, &out->ptr);
	out->view = out->ptr ? NULL : view_at(mr, out->va);
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
	pvm_wait_end(&x->wait);
	x->done = x->src_off = x->dst_off = x->limit = 0;
	x->src_i = x->dst_i = 0;
	x->call_pending = false;
}

enum xfer_result xfer_submitted(const struct xfer *x)
{
	if (x->wait.q)
		return pvm_waits_shortly(&x->wait) ? XFER_NEXT : XFER_WAIT;
	return pvm_is_next(x->call) ? XFER_NEXT : XFER_WAIT;
}

/* A call for so many bytes, at most PVM_MAX, is x->call. Else XFER_MORE, XFER_NEXT or XFER_WAIT. */
static enum xfer_result call_get(struct fast *f, struct xfer *x, enum pvm_use use, uint64_t len)
{
	x->call = pvm_call_get(f->pvm, x->qp, use, (uint32_t)len, &x->wait);
	if (x->call)
		return XFER_DONE;
	x->call_writes = false;
	return x->wait.q ? xfer_submitted(x) : XFER_MORE;
}

/* Submit x->call. XFER_NEXT or XFER_WAIT, or it failed: XFER_SRC or XFER_DST. */
static enum xfer_result call_start(struct fast *f, struct xfer *x, enum pvm_dir dir,
				   const struct spot *at, uint32_t len, enum ff_vendor_err *why)
{
	struct pvm_call *c = x->call;

	c->ses = at->mr->o.ses;
	c->dir = dir;
	c->va = at->va;
	c->len = len;
	c->ses->stats.pvm_bytes += len;
	heat_used(at->mr, at->va, len);
	f->calls++;
	x->call_writes = dir == PVM_WRITE;
	switch (pvm_submit(f, c, at->mr, &x->wait)) {
	case 0:
		x->call_pending = true;
		return xfer_submitted(x);
	case -EAGAIN: /* what was read for it is read once more */
		call_end(f, x);
		return xfer_submitted(x);
	default:
		*why = FF_VERR_FAULT;
		call_end(f, x);
		return x->call_writes ? XFER_DST : XFER_SRC;
	}
}

/* What a call's end means for the position. */
static enum xfer_result call_done(struct fast *f, struct xfer *x, const struct side *src,
				  enum ff_vendor_err *why)
{
	struct pvm_call *c = x->call;

	x->call_pending = false;
	if (c->result == -EAGAIN) {
		call_end(f, x);
		return XFER_DONE;
	}
	if (c->result) {
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

/* ---- by views: whoever gets false goes on through the process, and hears there what is wrong ------------------- */

/* Is all of it where the view shows it (mem/track.c)? */
static bool view_track(const struct spot *at, uint64_t n)
{
	uint64_t va = TRACK_GONE, there = track_begin(at->mr->tracked, at->va, n, &va);

	if (there >= n && va == at->va)
		return true;
	if (there)
		track_end(at->mr->tracked);
	return false;
}

/* Of on-demand memory the client is told, as pvm.c does. */
static bool view_begin(const struct spot *at, uint64_t n)
{
	if (at->ptr)
		return true;
	if (at->mr->tracked)
		return view_track(at, n);
	return !at->mr->odp || odp_begin(&at->mr->o.ses->hdr->leaving, at->mr->odp);
}

static void view_end(const struct spot *at, uint64_t copied)
{
	if (at->ptr)
		return;
	if (at->mr->tracked)
		track_end(at->mr->tracked);
	if (at->mr->odp)
		odp_end(&at->mr->o.ses->hdr->leaving);
	at->mr->o.ses->stats.view_bytes += copied;
}

/* n bytes, which are at `to` or `from` of that spot's view. False: not all of them, or none. */
static bool view_copy(const struct spot *at, uint8_t *to, const uint8_t *from, uint64_t n)
{
	bool all;

	if (!to || !from || !view_begin(at, n))
		return false;
	all = !fallible_copy(to, from, n);
	view_end(at, all ? n : 0);
	return all;
}

/* The same from spot to spot, where one at least has no pointer. */
static bool step_view(const struct spot *s, const struct spot *d, uint64_t n)
{
	const uint8_t *from = s->ptr ? s->ptr : s->view;
	bool all;

	if (!from || d->null || !view_begin(s, n))
		return false;
	all = view_copy(d, d->ptr ? d->ptr : d->view, from, n);
	view_end(s, all ? n : 0);
	return all;
}

/* A step with process memory on one side at least. XFER_DONE: go on. */
static enum xfer_result step_pvm(struct fast *f, struct xfer *x, const struct side *src,
				 const struct spot *s, const struct spot *d, uint64_t n,
				 enum ff_vendor_err *why)
{
	if (n > PVM_MAX)
		n = PVM_MAX;
	if (!x->call) {
		enum xfer_result r = call_get(f, x, PVM_COPY, n);

		if (r != XFER_DONE)
			return r;
	}
	if (!x->buf_len) {
		if (!s->ptr)
			return call_start(f, x, PVM_READ, s, (uint32_t)n, why);
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
	return call_start(f, x, PVM_WRITE, d, (uint32_t)n, why);
}

static enum xfer_result run(struct fast *f, struct xfer *x, const struct side *src,
			    const struct side *dst, uint64_t total, enum ff_vendor_err *why)
{
	uint64_t end = x->done + f->quantum;
	enum xfer_result r;

	if (x->limit && end > x->limit)
		end = x->limit;
	if (xfer_is_busy(x))
		return xfer_submitted(x);
	if (x->call_pending) {
		r = call_done(f, x, src, why);
		if (r != XFER_DONE)
			return r;
	}
	while (x->done < total) {
		struct spot s = { 0 }, d = { 0 };
		uint64_t n;

		if (x->done >= end)
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
		if (!x->call && step_view(&s, &d, n)) {
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

/* The call that x had submitted for xfer_put(): as xfer_result. *n: bytes that are there now. */
static enum xfer_result put_done(struct fast *f, struct xfer *x, uint64_t *n,
				 enum ff_vendor_err *why)
{
	enum xfer_result r = XFER_DONE;
	struct pvm_call *c = x->call;

	*n = 0;
	if (xfer_is_busy(x))
		return xfer_submitted(x);
	if (!x->call_pending)
		return XFER_DONE;
	x->call_pending = false;
	*n = c->result == -EAGAIN ? 0 : c->len;
	if (c->result && c->result != -EAGAIN) {
		*why = FF_VERR_FAULT;
		r = XFER_DST;
	}
	call_end(f, x);
	return r;
}

enum xfer_result xfer_put(struct fast *f, struct xfer *x, const struct side *dst, uint64_t off,
			  const uint8_t *buf, uint64_t *len, enum ff_vendor_err *why)
{
	uint64_t in, total = *len;
	enum xfer_result r = put_done(f, x, len, why);
	uint32_t i;

	if (r != XFER_DONE)
		return r;
	seek(dst, off + *len, &i, &in);
	while (*len < total) {
		struct spot at = { 0 };

		*why = sge_spot(dst, &i, &in, total - *len, &at);
		if (*why)
			return XFER_DST;
		if (at.ptr) {
			spot_put(&at, buf + *len, at.len);
		} else if (!view_copy(&at, at.view, buf + *len, at.len)) {
			if (at.len > PVM_MAX)
				at.len = PVM_MAX;
			r = call_get(f, x, PVM_COPY, at.len);
			if (r != XFER_DONE)
				return r;
			memcpy(x->call->buf, buf + *len, at.len);
			return call_start(f, x, PVM_WRITE, &at, (uint32_t)at.len, why);
		}
		in += at.len;
		*len += at.len;
	}
	return XFER_DONE;
}

enum xfer_result xfer_get(struct fast *f, struct xfer *x, const struct side *src, uint64_t off,
			  uint64_t len, enum ff_vendor_err *why)
{
	struct spot at = { 0 };
	enum xfer_result r;
	uint64_t in;
	uint32_t i;

	seek(src, off, &i, &in);
	*why = sge_spot(src, &i, &in, len, &at);
	if (*why)
		return XFER_SRC;
	if (at.len > PVM_MAX)
		at.len = PVM_MAX;
	r = call_get(f, x, PVM_AHEAD, at.len);
	if (r != XFER_DONE)
		return r;
	if (!view_copy(&at, x->call->buf, at.view, at.len))
		return call_start(f, x, PVM_READ, &at, (uint32_t)at.len, why);
	x->buf_len = (uint32_t)at.len;
	return XFER_DONE;
}
