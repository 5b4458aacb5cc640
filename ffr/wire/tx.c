/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * tx.c - frames go out on a connection. [lock], on the runner.
 * Neighbours: tcp.c has the connections; remote/ makes the frames of QPs (struct wire_ops).
 *
 * QPs that have something to send wait in line; each in turn is asked for one frame, until a batch is full, which goes
 * out with one system call straight from the programs' memory. What the socket does not take is given back to the QPs;
 * only a frame that is cut in the middle is copied, for its memory may be gone when the socket has room again.
 * TCP_NOTSENT_LOWAT (peer.c) keeps little in the socket, so that a short message waits for few others.
 *
 * Before what is sent goes over to a carrier beside the stream (struct wire_by), all that has been begun goes out, and
 * OVER behind it.
 *
 * Tests: unit/wire/test_tcp.c
 */
#include <errno.h>
#include <string.h>

#include "ffr/abi/ff_probe.h"
#include "ffr/fast/pvm.h"
#include "ffr/mem/shadow.h"
#include "ffr/wire/internal.h"

#define BATCH_FRAMES WIRE_BATCH
#define BATCH_BYTES  (256u * 1024)
#define BATCH_IOVS   512u

/* ---- the stream, or what is beside it ---------------------------------------------------------- */

static ssize_t out_writev(struct fast *f, struct wire_tcp *c, const struct iovec *iov, int n)
{
	return c->out == OUT_OVER ? wire_dev(f)->by->writev(f, c->peer, iov, n) :
				    wire_io_writev(c->io, iov, n);
}

static int out_flush(struct fast *f, struct wire_tcp *c)
{
	return c->out == OUT_OVER ? wire_dev(f)->by->flush(f, c->peer) : wire_io_flush(c->io);
}

/* Is what was taken the kernel's, with nothing to flush? */
static bool out_is_plain(const struct wire_tcp *c)
{
	return c->out != OUT_OVER && wire_io_is_plain(c->io);
}

static const char *out_why(struct fast *f, const struct wire_tcp *c, int err)
{
	return c->out == OUT_OVER ? wire_dev(f)->by->why(err) : strerror(-err);
}

/* ---- a batch ---------------------------------------------------------------------------------- */

/* What the socket is offered at once. */
struct batch {
	struct wire_tcp *conn; /* whose; NULL: none is being collected */
	struct frame frame[BATCH_FRAMES];
	struct wire_qp *wq[BATCH_FRAMES];
	uint32_t len[BATCH_FRAMES]; /* with the header */
	struct iovec iov[BATCH_IOVS];
	unsigned num, num_iov;
	uint32_t old; /* bytes of the cut frame and of small ones, which come first */
	uint32_t bytes;
};
static struct batch batch; /* [lock] */

/* The socket, or a copy, has what it takes: buffers that frames pointed to may go. */
static void settled(struct fast *f)
{
	struct wire_dev *d = wire_dev(f);

	d->collecting = false;
	while (d->num_kept)
		pvm_call_put(f->pvm, d->kept[--d->num_kept]);
}

/* From frame `sent` on, as if they had not been asked for. */
static void unsend(struct fast *f, struct batch *b, unsigned sent)
{
	for (unsigned i = b->num; i-- > sent;) {
		if (!b->wq[i])
			continue;
		b->conn->ops->unsent(b->wq[i], &b->frame[i]);
		wire_tx(f, b->wq[i]);
	}
}

bool wire_batch_has(const struct wire_qp *wq)
{
	for (unsigned i = 0; batch.conn && i < batch.num; i++)
		if (batch.wq[i] == wq)
			return true;
	return false;
}

void wire_batch_forget(struct wire_qp *wq)
{
	for (unsigned i = 0; batch.conn && i < batch.num; i++)
		if (batch.wq[i] == wq)
			batch.wq[i] = NULL;
}

/* ---- sending -------------------------------------------------------------------------------------- */

void wire_tx(struct fast *f, struct wire_qp *wq)
{
	struct wire_tcp *c = wq->peer ? wq->peer->tcp : NULL;

	if (!c || wq->is_queued)
		return;
	wq->is_queued = true;
	TAILQ_INSERT_TAIL(&c->txq, wq, queued);
	fast_kick(f); /* the control thread may have asked for it */
}

void wire_tx_forget(struct wire_qp *wq)
{
	if (!wq->is_queued)
		return;
	wq->is_queued = false;
	TAILQ_REMOVE(&wq->peer->tcp->txq, wq, queued);
}

int wire_send(struct fast *f, struct wire_peer *p, const struct wire_hdr *h, const void *payload)
{
	struct wire_tcp *c = p->tcp;

	if (!c)
		return -ENOTCONN;
	if (c->misc_off && c->misc_len + sizeof(*h) + h->len > WIRE_MISC_MAX) {
		memmove(c->misc, c->misc + c->misc_off, c->misc_len - c->misc_off);
		c->misc_len -= c->misc_off;
		c->misc_off = 0;
	}
	if (c->misc_len + sizeof(*h) + h->len > WIRE_MISC_MAX) {
		c->misc_full = true;
		return -ENOBUFS;
	}
	memcpy(c->misc + c->misc_len, h, sizeof(*h));
	if (h->len)
		memcpy(c->misc + c->misc_len + sizeof(*h), payload, h->len);
	c->misc_len += (uint32_t)(sizeof(*h) + h->len);
	fast_kick(f); /* the control thread may send it */
	return 0;
}

/* Collect frames. */
static void collect(struct fast *f, struct wire_tcp *c, struct batch *b)
{
	struct wire_qp *wq;

	b->conn = c;
	b->num = b->num_iov = 0;
	b->bytes = 0;
	if (c->cut_len) {
		b->iov[b->num_iov++] = (struct iovec){ c->cut + c->cut_off, c->cut_len };
		b->bytes += c->cut_len;
	}
	b->old = b->bytes;
	if (c->out == OUT_LEAVING)
		return;
	if (c->misc_len > c->misc_off) {
		b->iov[b->num_iov++] =
			(struct iovec){ c->misc + c->misc_off, c->misc_len - c->misc_off };
		b->bytes += c->misc_len - c->misc_off;
	}
	b->old = b->bytes;
	while (b->num < BATCH_FRAMES && b->bytes < BATCH_BYTES &&
	       b->num_iov + 1 + FRAME_IOVS <= BATCH_IOVS && (wq = TAILQ_FIRST(&c->txq))) {
		struct frame *fr = &b->frame[b->num];
		enum next r;

		fr->num_iov = 0;
		r = c->ops->next(f, wq, fr);
		if (r == NEXT_BATCH)
			return;
		if (r != NEXT_FRAME) {
			wire_tx_forget(wq);
			continue;
		}
		/* the next one's turn */
		TAILQ_REMOVE(&c->txq, wq, queued);
		TAILQ_INSERT_TAIL(&c->txq, wq, queued);
		FF_PROBE3(wire__out, fr->h.src_qpn, fr->h.type, fr->h.len);
		b->wq[b->num] = wq;
		b->len[b->num] = (uint32_t)sizeof(fr->h) + fr->h.len;
		b->bytes += b->len[b->num];
		b->iov[b->num_iov++] = (struct iovec){ &fr->h, sizeof(fr->h) };
		for (unsigned i = 0; i < fr->num_iov; i++)
			b->iov[b->num_iov++] = fr->iov[i];
		b->num++;
	}
}

/* Keep what is left of a frame of which `done` bytes went out. */
static void cut(struct wire_tcp *c, const struct frame *fr, uint32_t done)
{
	const uint8_t *h = (const uint8_t *)&fr->h;
	uint32_t n = 0;

	if (done < sizeof(fr->h)) {
		n = (uint32_t)sizeof(fr->h) - done;
		memcpy(c->cut, h + done, n);
		done = 0;
	} else {
		done -= (uint32_t)sizeof(fr->h);
	}
	for (unsigned i = 0; i < fr->num_iov; i++) {
		const struct iovec *v = &fr->iov[i];

		if (done >= v->iov_len) {
			done -= (uint32_t)v->iov_len;
			continue;
		}
		memcpy(c->cut + n, (uint8_t *)v->iov_base + done, v->iov_len - done);
		n += (uint32_t)(v->iov_len - done);
		done = 0;
	}
	c->cut_off = 0;
	c->cut_len = n;
}

/* `n` bytes went out of the old ones: the cut frame's, then the small ones'. */
static uint32_t old_sent(struct wire_tcp *c, uint32_t n)
{
	uint32_t k = n < c->cut_len ? n : c->cut_len;

	c->cut_off += k;
	c->cut_len -= k;
	n -= k;
	k = n < c->misc_len - c->misc_off ? n : c->misc_len - c->misc_off;
	c->misc_off += k;
	if (c->misc_off == c->misc_len)
		c->misc_off = c->misc_len = 0;
	return n - k;
}

/* The socket took n bytes of the batch. */
static void settle(struct fast *f, struct wire_tcp *c, struct batch *b, uint32_t n)
{
	unsigned sent = 0;

	n = old_sent(c, n);
	while (sent < b->num && n >= b->len[sent])
		n -= b->len[sent++];
	if (n) { /* part of a frame */
		cut(c, &b->frame[sent], n);
		sent++;
	}
	settled(f);
	unsend(f, b, sent);
	/* last, for they may change what is to be sent */
	for (unsigned i = 0; i < sent; i++)
		if (b->wq[i])
			c->ops->sent(f, b->wq[i], &b->frame[i]);
	b->conn = NULL;
	if (c->misc_full && !c->misc_len) {
		c->misc_full = false;
		c->ops->drained(f, c->peer);
		wire_cm_changed(f);
	}
}

/* OVER goes out when nothing is in the middle of a frame, and then what follows elsewhere. */
static void go_over(struct fast *f, struct wire_tcp *c)
{
	const struct wire_hdr over = { .type = WIRE_OVER };

	if (c->cut_len || c->unflushed)
		return;
	if (c->out == OUT_LEAVING) {
		c->out = OUT_OVER;
		c->peer->carrier = wire_dev(f)->by->name;
	} else if (c->out == OUT_ASKED && c->misc_off == c->misc_len) {
		memcpy(c->cut, &over, sizeof(over));
		c->cut_off = 0;
		c->cut_len = sizeof(over);
		c->out = OUT_LEAVING;
	}
}

static bool is_going_over(const struct wire_tcp *c)
{
	return c->out == OUT_ASKED || c->out == OUT_LEAVING;
}

bool wire_tcp_has_tx(const struct wire_tcp *c)
{
	return is_going_over(c) || !TAILQ_EMPTY(&c->txq) || c->cut_len ||
	       c->misc_len > c->misc_off || c->unflushed;
}

uint32_t wire_tcp_tx(struct fast *f, struct wire_tcp *c)
{
	uint32_t frames = 0;

	while (!c->dead && c->writable && wire_tcp_has_tx(c)) {
		bool torn = false, full;
		ssize_t n = 0;

		go_over(f, c);
		wire_dev(f)->batch++;
		wire_dev(f)->collecting = true;
		collect(f, c, &batch);
		if (batch.num_iov) {
			n = out_writev(f, c, batch.iov, (int)batch.num_iov);
			/* memory that a client took away is that client's loss, not the connection's */
			torn = (n == -EFAULT || (n > 0 && (uint32_t)n < batch.bytes)) &&
			       sigbus_touch(batch.iov, (int)batch.num_iov, n > 0 ? (uint64_t)n : 0);
			if (torn && n < 0)
				n = 0;
			settle(f, c, &batch, n > 0 ? (uint32_t)n : 0);
			frames += batch.num;
			if (n < 0 && n != -EAGAIN) {
				wire_tcp_kill(c, out_why(f, c, (int)n));
				break;
			}
		}
		settled(f);
		batch.conn = NULL;
		full = n == -EAGAIN || (n > 0 && !torn && (uint32_t)n < batch.bytes);
		if (full)
			c->writable = false;
		/* the peer makes room when a carrier tells it of what it took; a socket goes on by itself */
		if (c->out == OUT_OVER || (!full && !out_is_plain(c))) {
			n = out_flush(f, c);
			c->unflushed = n == -EAGAIN;
			if (c->unflushed)
				c->writable = false;
			else if (n < 0)
				wire_tcp_kill(c, out_why(f, c, (int)n));
		} else if (full) {
			c->unflushed = !out_is_plain(c);
		}
		if (full || (!batch.num && !is_going_over(c)))
			break;
	}
	return frames;
}
