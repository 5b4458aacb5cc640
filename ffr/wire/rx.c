/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rx.c - frames come in on a connection. [lock], on the runner.
 * Neighbours: tcp.c has the connections; remote/ takes the frames of QPs (struct wire_ops); nics.c, runs.c and cm.c
 * take the others.
 *
 * Headers are read into a small buffer; payload is read to where it belongs, and the next header in the same system
 * call. Short messages, several of which come with one call, are copied out of the buffer.
 *
 * Tests: unit/wire/test_tcp.c
 */
#include <errno.h>
#include <string.h>

#include "ffr/abi/ff_probe.h"
#include "ffr/mem/shadow.h"
#include "ffr/wire/internal.h"

#define RX_BIG	   16384u	 /* payload from here on is read without more of the next frames */
#define RX_QUANTUM (512u * 1024) /* bytes of a connection in a turn */

/* ---- the stream, or what is beside it ---------------------------------------------------------- */

static ssize_t in_readv(struct fast *f, struct wire_tcp *c, const struct iovec *iov, int n)
{
	return c->in_over ? wire_dev(f)->by->readv(f, c->peer, iov, n) :
			    wire_io_readv(c->io, iov, n);
}

static bool in_pending(struct fast *f, const struct wire_tcp *c)
{
	return c->in_over ? wire_dev(f)->by->pending(c->peer) : wire_io_pending(c->io);
}

static bool in_is_plain(const struct wire_tcp *c)
{
	return !c->in_over && wire_io_is_plain(c->io);
}

static const char *in_why(struct fast *f, const struct wire_tcp *c, int err)
{
	return c->in_over ? wire_dev(f)->by->why(err) : strerror(-err);
}

/* ---- receiving ------------------------------------------------------------------------------------ */

void wire_rx_forget(struct wire_qp *wq)
{
	struct wire_tcp *c = wq->peer ? wq->peer->tcp : NULL;

	if (!c || c->wq != wq)
		return;
	c->wq = NULL;
	c->sink = SINK_DISCARD;
	if (c->is_held)
		c->ops->put_failed(c->f, wq, &c->h, c->got, PUT_WAIT, FF_VERR_NONE);
	c->got += c->gathered;
	c->gathered = 0;
}

static const uint32_t payload_max[WIRE_TYPES_NUM] = {
#define X(name, max) max,
	WIRE_TYPES(X)
#undef X
};

/* Nothing that would be read from the stream may be behind it. */
static void in_goes_over(struct fast *f, struct wire_tcp *c)
{
	if (c->in_over || !c->peer->by || c->rpos != c->rlen || !wire_dev(f)->by->begin(c->peer)) {
		wire_tcp_kill(c, "it sends frames that make no sense");
		return;
	}
	c->in_over = true;
	c->readable = true;
}

/* A frame of the peer's router itself, without payload. */
static void control(struct fast *f, struct wire_tcp *c, const struct wire_hdr *h)
{
	static const struct wire_hdr pong = { .type = WIRE_PONG };

	switch (h->type) {
	case WIRE_PING:
		wire_send(f, c->peer, &pong, NULL);
		break;
	case WIRE_NIC:
	case WIRE_NIC_ASK:
	case WIRE_NIC_OF:
		wire_nics_came(f, c->peer, h);
		break;
	case WIRE_RUNS_ASK:
	case WIRE_RUNS:
		wire_runs_came(f, c->peer, h);
		break;
	default:
		break;
	}
	if (c->peer->by && wire_dev(f)->by->frames >> h->type & 1)
		wire_dev(f)->by->told(f, c->peer, h);
	if (h->type == WIRE_OVER)
		in_goes_over(f, c);
}

static void begin(struct fast *f, struct wire_tcp *c)
{
	const struct wire_hdr *h = &c->h;

	if (h->type == WIRE_NONE || h->type >= WIRE_TYPES_NUM || h->len > payload_max[h->type]) {
		wire_tcp_kill(c, "it sends frames that make no sense");
		return;
	}
	c->in_frame = true;
	c->got = c->gathered = 0;
	c->wq = NULL;
	if (h->type >= WIRE_PING) {
		control(f, c, h);
		c->sink = SINK_DISCARD;
		return;
	}
	c->sink = h->type == WIRE_CM ? SINK_BUFFER : c->ops->begin(f, c->peer, h, &c->wq);
}

/* The frame has ended. False: not yet. */
static bool end(struct fast *f, struct wire_tcp *c)
{
	if (c->h.type == WIRE_CM)
		wire_cm_came(f, c->peer, &c->h, c->pbuf);
	else if (c->sink != SINK_DISCARD && !c->ops->end(f, c->peer, &c->h, c->wq, c->pbuf))
		return false;
	FF_PROBE3(wire__in, c->wq ? c->h.dst_qpn : 0, c->h.type, c->h.len);
	c->in_frame = false;
	c->wq = NULL;
	return true;
}

/* What has come of a QP's payload goes where it belongs. False: some of it in the next turn. */
static bool put(struct fast *f, struct wire_tcp *c)
{
	while (c->rest_len && c->sink == SINK_QP) {
		struct wire_qp *wq = c->wq;
		uint64_t len = c->rest_len;
		enum ff_vendor_err why;
		enum wire_put r = c->ops->put(f, wq, &c->h, c->got, c->rest, &len, &why);

		c->got += (uint32_t)len;
		c->rest += len;
		c->rest_len -= (uint32_t)len;
		if (r == PUT_LATER)
			return false;
		if (r == PUT_DONE)
			continue;
		c->wq = NULL;
		c->sink = SINK_DISCARD;
		c->ops->put_failed(f, wq, &c->h, c->got, r, why);
	}
	c->got += c->rest_len;
	c->rest_len = 0;
	return true;
}

/* Bytes of the frame's payload that have not come. */
static uint32_t left_of(const struct wire_tcp *c)
{
	return c->h.len - c->got - c->gathered;
}

/*
 * Memory behind a process takes what has come of a frame by one call, and while that waits for a worker the rest is
 * thrown away, and asked for again: so a frame goes there when all of it has come.
 */
static bool is_gathered(struct fast *f, struct wire_tcp *c, uint32_t n)
{
	struct iovec iov[FRAME_IOVS];
	uint32_t bytes;
	int num;

	if (c->sink != SINK_QP || c->gathered)
		return c->gathered;
	if (n == left_of(c))
		return false;
	num = c->ops->spot(f, c->wq, &c->h, c->got, n, iov, FRAME_IOVS, &bytes);
	if (num < 0) {
		c->wq = NULL;
		c->sink = SINK_DISCARD;
	}
	return !num;
}

/* n bytes more of a frame that is gathered are in pbuf. */
static void gather(struct wire_tcp *c, uint32_t n)
{
	c->gathered += n;
	if (left_of(c))
		return;
	c->rest = c->pbuf;
	c->rest_len = c->gathered;
	c->gathered = 0;
}

/* Payload that is in a buffer. As put(). */
static bool payload(struct fast *f, struct wire_tcp *c, const uint8_t *buf, uint32_t n)
{
	if (is_gathered(f, c, n)) {
		memcpy(c->pbuf + c->gathered, buf, n);
		gather(c, n);
		return put(f, c);
	}
	if (c->sink == SINK_BUFFER)
		memcpy(c->pbuf + c->got, buf, n);
	c->rest = buf;
	c->rest_len = n;
	return put(f, c);
}

/* Handle what is in the buffer. As put(). */
static bool buffered(struct fast *f, struct wire_tcp *c)
{
	if (!put(f, c))
		return false;
	while (!c->dead) {
		uint32_t have = c->rlen - c->rpos, n;

		if (!c->in_frame) {
			if (have < sizeof(c->h))
				break;
			memcpy(&c->h, c->rbuf + c->rpos, sizeof(c->h));
			c->rpos += (uint32_t)sizeof(c->h);
			begin(f, c);
			continue;
		}
		n = left_of(c);
		if (n > have)
			n = have;
		if (n) {
			c->rpos += n;
			if (!payload(f, c, c->rbuf + c->rpos - n, n))
				return false;
		}
		if (c->got < c->h.len)
			break;
		if (!end(f, c))
			return false;
	}
	return true;
}

/*
 * One system call. Bytes read, 0 or -errno: no more. The buffer holds less than a header, or nothing when a
 * frame is under way.
 */
static ssize_t read_some(struct fast *f, struct wire_tcp *c)
{
	uint32_t left = c->in_frame ? left_of(c) : 0, bytes = 0, room = 0;
	struct iovec iov[FRAME_IOVS + 1];
	bool torn = false, gathers = false;
	int n = 0;
	ssize_t r;

	if (c->rpos) {
		memmove(c->rbuf, c->rbuf + c->rpos, c->rlen - c->rpos);
		c->rlen -= c->rpos;
		c->rpos = 0;
	}
	if (left && c->sink == SINK_QP) {
		n = c->gathered ?
			    0 :
			    c->ops->spot(f, c->wq, &c->h, c->got, left, iov, FRAME_IOVS, &bytes);
		if (n < 0) {
			c->wq = NULL;
			c->sink = SINK_DISCARD;
			n = 0;
		} else if (!n) {
			gathers = true;
			bytes = left;
			iov[n++] = (struct iovec){ c->pbuf + c->gathered, left };
		}
	}
	if (left && c->sink != SINK_QP) {
		bytes = left;
		iov[n++] = (struct iovec){ c->pbuf + (c->sink == SINK_BUFFER ? c->got : 0), left };
	}
	if (bytes == left) {
		room = (left >= RX_BIG ? (uint32_t)sizeof(c->h) : WIRE_RX_BUF) - c->rlen;
		iov[n++] = (struct iovec){ c->rbuf + c->rlen, room };
	}
	do {
		r = in_readv(f, c, iov, n);
		/* as in wire_tcp_tx() */
		if (r == -EFAULT || (r > 0 && (uint32_t)r < bytes))
			torn = sigbus_touch(iov, n, r > 0 ? (uint64_t)r : 0);
	} while (r == -EFAULT && torn);
	if (r <= 0)
		return r;
	/* all that there was: the next bytes come with an event of their own */
	if (r < bytes + room && !torn && in_is_plain(c) && !c->ending)
		c->readable = false;
	c->last_rx = f->wire_at = f->now;
	c->asked = 0;
	n = r < bytes ? (int)r : (int)bytes;
	c->rlen += (uint32_t)r - (uint32_t)n;
	if (gathers)
		gather(c, (uint32_t)n);
	else
		c->got += (uint32_t)n;
	return r;
}

uint32_t wire_tcp_rx(struct fast *f, struct wire_tcp *c)
{
	uint32_t total = 0, calls = 0;

	c->is_held = false;
	c->readable = true; /* until it is found not to be */
	for (;;) {
		ssize_t n;

		c->is_held = !buffered(f, c);
		if (c->is_held || c->dead || !c->readable || total >= RX_QUANTUM)
			return calls;
		n = read_some(f, c);
		if (n == -EAGAIN && c->in_over && c->ending)
			n = 0; /* the stream has ended, which nobody reads any more */
		if (n == -EAGAIN) {
			c->readable = in_pending(f, c);
			return calls;
		}
		if (n <= 0) {
			wire_tcp_kill(c, n ? in_why(f, c, (int)n) : "the other side has closed it");
			return calls;
		}
		calls++;
		total += (uint32_t)n;
	}
}
