/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * tcp.c - frames over a stream between two routers. [lock], on the runner.
 * Neighbours: peer/ brings connections about, peer/io.c is the stream, remote/ makes and takes the frames of QPs
 * (struct wire_ops).
 *
 * Sending. QPs that have something to send wait in line; each in turn is asked for one frame, until
 * a batch is full, which goes out with one system call straight from the programs' memory. What the
 * socket does not take is given back to the QPs; only a frame that is cut in the middle is copied,
 * for its memory may be gone when the socket has room again. TCP_NOTSENT_LOWAT (peer.c) keeps little
 * in the socket, so that a short message waits for few others.
 *
 * Receiving. Headers are read into a small buffer; payload is read to where it belongs, and the next
 * header in the same system call. Short messages, several of which come with one call, are copied
 * out of the buffer.
 *
 * What goes by something else than the stream (struct wire_by) is written and read in the same way. Before what is
 * sent goes over to that, all that has been begun goes out, and OVER behind it.
 *
 * The socket is in the runner's epoll set, edge-triggered. While frames keep coming it is looked at
 * in every turn, which takes less than the way through epoll.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ffr/abi/ff_probe.h"
#include "ffr/fast/internal.h"
#include "ffr/fast/pvm.h"
#include "ffr/lib/log.h"
#include "ffr/mem/shadow.h"
#include "ffr/peer/io.h"
#include "ffr/peer/peer.h"
#include "ffr/wire/cm.h"

#define BATCH_FRAMES WIRE_BATCH
#define BATCH_BYTES  (256u * 1024)
#define BATCH_IOVS   512u
#define RX_BUF	     16384u
#define RX_BIG	     16384u /* payload from here on is read without more of the next frames */
#define RX_QUANTUM   (512u * 1024) /* bytes of a connection in a turn */
#define MISC_MAX     (256u * 1024) /* bytes of small frames that wait */
#define HOT_NS	     (100 * NS_PER_US)
#define PING_NS	     (50 * NS_PER_MS)  /* between looks at a connection that is waited for */
#define SILENT_NS    (500 * NS_PER_MS) /* then it is dead */

/* Where the connection's frames go to: the TCP stream, or the carrier beside it (RapidIO). */
enum out {
	OUT_STREAM,
	OUT_ASKED, /* the stream still, but wire_over() was called */
	OUT_LEAVING, /* the stream's last bytes, with OVER, are on their way; no other frame is begun */
	OUT_OVER, /* the carrier beside the stream */
};

struct wire_tcp {
	LIST_ENTRY(wire_tcp) entry;
	struct fast *f;
	const struct wire_ops *ops; /* wire_dev.ops */
	struct wire_peer *peer;
	struct wire_io *io;
	bool readable, writable;
	bool ending;	/* the other side has closed it, or it is broken */
	bool unflushed; /* TLS: bytes are inside the stream */
	bool dead;
	const char *why;
	uint64_t last_rx; /* ns */
	uint64_t asked;	  /* ns: of the oldest PING without an answer; 0: none */
	struct timer timer;

	/* sending */
	enum out out;
	TAILQ_HEAD(, wire_qp) txq;
	uint8_t *cut; /* rest of a frame that was cut; [sizeof(struct wire_hdr) + WIRE_PAYLOAD_MAX] */
	uint32_t cut_off, cut_len;
	uint8_t *misc; /* small frames; [MISC_MAX] */
	uint32_t misc_off, misc_len;
	bool misc_full; /* somebody found no room */

	/* receiving */
	bool in_over; /* frames come from the carrier beside the stream */
	struct wire_hdr h;
	bool in_frame;
	bool is_held;	   /* until the next turn, because memory behind a process is waited for */
	uint32_t got;	   /* bytes of the frame's payload that are where they belong */
	uint32_t gathered; /* bytes behind `got` that wait in pbuf until the whole payload has come */
	const uint8_t *
		rest; /* bytes that have come and are being moved to their place, in rbuf or pbuf */
	uint32_t rest_len;
	enum sink sink;
	struct wire_qp *wq;  /* SINK_QP: NULL when the QP has gone */
	uint32_t rpos, rlen; /* bytes of rbuf that are not handled yet */
	uint8_t rbuf[RX_BUF];
	uint8_t pbuf[WIRE_PAYLOAD_MAX]; /* payload that has to be moved, or goes nowhere */
};

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

void wire_init(struct wire_dev *d, const struct wire_ops *ops)
{
	LIST_INIT(&d->conns);
	cm_queue_init(&d->cm_in);
	d->ops = ops;
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

/* ---- life --------------------------------------------------------------------------------------- */

static void kill_conn(struct wire_tcp *c, const char *why)
{
	if (c->dead)
		return;
	c->dead = true;
	c->why = why;
}

static void conn_free(struct wire_tcp *c)
{
	struct fast *f = c->f;
	struct wire_peer *p = c->peer;
	struct wire_qp *wq;

	if (c->wq)
		wire_rx_forget(c->wq);
	while ((wq = TAILQ_FIRST(&c->txq)))
		wire_tx_forget(wq);
	if (p->by)
		wire_dev(f)->by->down(f, p, c->dead && !c->ending);
	timer_cancel(&f->timers, &c->timer);
	epoll_ctl(f->epoll_fd, EPOLL_CTL_DEL, wire_io_fd(c->io), NULL);
	wire_io_close(c->io);
	LIST_REMOVE(c, entry);
	p->tcp = NULL;
	p->carrier = NULL;
	free(c->cut);
	free(c->misc);
	free(c);
}

/* Away with those that have ended. */
static void reap(struct fast *f)
{
	struct wire_tcp *c, *next;

	LIST_FOREACH_SAFE(c, &wire_dev(f)->conns, entry, next) {
		struct wire_peer *p = c->peer;
		const char *why = c->why;

		if (!c->dead)
			continue;
		conn_free(c);
		peer_lost(p, why);
		wire_cm_changed(f);
		wire_dev(f)->ops->down(f, p);
	}
}

static void look(struct timer *t);

struct wire_peer *wire_peer_by_number(struct fast *f, uint64_t number)
{
	struct wire_tcp *c;

	LIST_FOREACH(c, &wire_dev(f)->conns, entry) {
		if (c->peer->tcp != c || c->peer->nic_ud_in != number)
			continue;
		LIST_REMOVE(c, entry); /* the next one is this one's, too, most likely */
		LIST_INSERT_HEAD(&wire_dev(f)->conns, c, entry);
		return c->peer;
	}
	return NULL;
}

int wire_attach(struct fast *f, struct wire_peer *p, struct wire_io *io,
		const struct wire_hello *theirs)
{
	struct wire_tcp *c = calloc(1, sizeof(*c));
	int err = -ENOMEM;

	(void)theirs;
	if (!c)
		return -ENOMEM;
	c->cut = malloc(sizeof(struct wire_hdr) + WIRE_PAYLOAD_MAX);
	c->misc = malloc(MISC_MAX);
	if (c->cut && c->misc)
		err = fast_watch(f, wire_io_fd(io), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, c);
	if (err) {
		free(c->cut);
		free(c->misc);
		free(c);
		return err;
	}
	c->f = f;
	c->ops = wire_dev(f)->ops;
	c->peer = p;
	c->io = io;
	c->readable = c->writable = true;
	c->last_rx = f->now;
	c->timer.fn = look;
	TAILQ_INIT(&c->txq);
	LIST_INSERT_HEAD(&wire_dev(f)->conns, c, entry);
	p->tcp = c;
	wire_nics_begin(f, p);
	if (wire_dev(f)->by)
		wire_dev(f)->by->up(f, p);
	wire_cm_changed(f);
	c->ops->up(f, p);
	fast_kick(f);
	return 0;
}

void wire_tell_nic(struct fast *f)
{
	struct wire_tcp *c;

	LIST_FOREACH(c, &wire_dev(f)->conns, entry)
		wire_nics_tell(f, c->peer);
}

void wire_tell_nic_of(struct fast *f, const struct container *cont)
{
	struct wire_tcp *c;

	LIST_FOREACH(c, &wire_dev(f)->conns, entry)
		wire_nics_tell_of(f, c->peer, cont);
}

void wire_detach(struct fast *f, struct wire_peer *p, const char *why)
{
	(void)why;
	conn_free(p->tcp);
	wire_cm_changed(f);
	wire_dev(f)->ops->down(f, p);
}

uint32_t wire_conn(const struct wire_peer *p)
{
	return p && p->tcp ? p->generation : 0;
}

bool wire_has_room(const struct wire_peer *p)
{
	return p->tcp && !p->tcp->misc_full;
}

uint32_t wire_changes(const struct fast *f)
{
	return wire_dev(f)->changes;
}

uint64_t wire_heard(const struct wire_peer *p)
{
	return p->tcp ? p->tcp->last_rx : 0;
}

void wire_ping(struct fast *f, struct wire_peer *p)
{
	struct wire_hdr h = { .type = WIRE_PING };

	if (!p->tcp || p->tcp->asked)
		return;
	p->tcp->asked = f->now;
	wire_send(f, p, &h, NULL);
	timer_arm(&f->timers, &p->tcp->timer, f->now + PING_NS);
}

void wire_over(struct fast *f, struct wire_peer *p)
{
	if (p->tcp->out == OUT_STREAM)
		p->tcp->out = OUT_ASKED;
	fast_kick(f);
}

void wire_by_ready(struct fast *f, struct wire_peer *p)
{
	p->tcp->readable = p->tcp->writable = true;
	fast_kick(f);
}

void wire_by_failed(struct wire_peer *p, const char *why)
{
	kill_conn(p->tcp, why);
}

const char *wire_carried_by(const struct wire_peer *p)
{
	const char *name = p ? atomic_load_explicit(&p->carrier, memory_order_relaxed) : NULL;

	return name ? name : "wire";
}

/* A PING is under way: is anything to be heard? */
static void look(struct timer *t)
{
	struct wire_tcp *c = (struct wire_tcp *)((char *)t - offsetof(struct wire_tcp, timer));
	uint64_t since = c->asked > c->last_rx ? c->asked : c->last_rx;

	if (!c->asked)
		return;
	if (c->f->now > since + SILENT_NS)
		kill_conn(c, "it is silent");
	else
		timer_arm(&c->f->timers, &c->timer, c->f->now + PING_NS);
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
	if (c->misc_off && c->misc_len + sizeof(*h) + h->len > MISC_MAX) {
		memmove(c->misc, c->misc + c->misc_off, c->misc_len - c->misc_off);
		c->misc_len -= c->misc_off;
		c->misc_off = 0;
	}
	if (c->misc_len + sizeof(*h) + h->len > MISC_MAX) {
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

static bool has_tx(const struct wire_tcp *c)
{
	return is_going_over(c) || !TAILQ_EMPTY(&c->txq) || c->cut_len ||
	       c->misc_len > c->misc_off || c->unflushed;
}

/* Send what there is. Number of frames. */
static uint32_t tx(struct fast *f, struct wire_tcp *c)
{
	uint32_t frames = 0;

	while (!c->dead && c->writable && has_tx(c)) {
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
				kill_conn(c, out_why(f, c, (int)n));
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
				kill_conn(c, out_why(f, c, (int)n));
		} else if (full) {
			c->unflushed = !out_is_plain(c);
		}
		if (full || (!batch.num && !is_going_over(c)))
			break;
	}
	return frames;
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
		kill_conn(c, "it sends frames that make no sense");
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
		kill_conn(c, "it sends frames that make no sense");
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
		room = (left >= RX_BIG ? (uint32_t)sizeof(c->h) : RX_BUF) - c->rlen;
		iov[n++] = (struct iovec){ c->rbuf + c->rlen, room };
	}
	do {
		r = in_readv(f, c, iov, n);
		/* as in tx() */
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

/* Receive. Number of system calls with success. */
static uint32_t rx(struct fast *f, struct wire_tcp *c)
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
			kill_conn(c, n ? in_why(f, c, (int)n) : "the other side has closed it");
			return calls;
		}
		calls++;
		total += (uint32_t)n;
	}
}

/* ---- turns ---------------------------------------------------------------------------------------- */

bool wire_ready(struct fast *f, void *what, uint32_t events)
{
	struct wire_tcp *c;

	LIST_FOREACH(c, &wire_dev(f)->conns, entry)
		if (c == what)
			break;
	if (!c)
		return false;
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP))
		c->readable = true;
	if (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP))
		c->ending = true;
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		c->writable = true;
	return true;
}

uint32_t wire_poll(struct fast *f)
{
	struct wire_tcp *c;
	uint32_t work = 0;

	LIST_FOREACH(c, &wire_dev(f)->conns, entry) {
		if (!c->readable && !c->is_held && f->now - c->last_rx > HOT_NS)
			continue;
		work += rx(f, c);
		f->again |= c->is_held;
		if (c->readable || c->is_held)
			work++; /* there is more */
	}
	reap(f);
	return work;
}

uint32_t wire_flush(struct fast *f)
{
	struct wire_tcp *c;
	uint32_t work = 0;

	LIST_FOREACH(c, &wire_dev(f)->conns, entry) {
		if (has_tx(c))
			work += tx(f, c);
	}
	reap(f);
	return work;
}
