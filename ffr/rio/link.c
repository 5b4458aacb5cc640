/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * link.c - the way to a peer by RapidIO: from the connection's beginning to its end. [lock]. Neighbours: tcp.c calls
 * (struct wire_by), dev.c opens endpoints, stream.c has the bytes.
 *
 *	CLOSED --timer--> OPENING --dev.c--> OPEN --BY is here--> ASKED --arrived--> UP
 *	   ^                 |                                     |  ^
 *	   +----- failed ----+                              failed |  | timer
 *	   +----- the port is gone, from OPEN on, but UP -- FAILED-+--+
 *
 * What the peer sends may come from OPEN on, whatever the way there is like. In UP, and when the peer's OVER has come
 * (begun), there is bytes' order to lose: what fails then ends the connection. The next one begins with the wire, and
 * asks for an endpoint RIO_RETRY_NS later.
 */
#include "ffr/rio/rio.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "ffr/peer/peer.h"

const char *rio_state_str(enum rio_state state)
{
	static const char *const names[] = {
		[RIO_CLOSED] = "CLOSED", [RIO_OPENING] = "OPENING", [RIO_OPEN] = "OPEN",
		[RIO_ASKED] = "ASKED",	 [RIO_FAILED] = "FAILED",   [RIO_UP] = "UP",
	};
	_Static_assert(sizeof(names) / sizeof(names[0]) == RIO_STATES, "");

	return state < RIO_STATES ? names[state] : "?";
}

static struct fast *fast_of(const struct rio_link *l)
{
	return l->dev->f;
}

static void wake_work(struct rio_link *l)
{
	struct fast_host *h = fast_of(l)->host;

	atomic_store(&l->dev->wanted, true);
	fast_want_work(h);
}

/* Where no memory is left for a timer the wire is used until the next connection. */
static void arm(struct rio_link *l, uint64_t ns)
{
	timer_arm(&fast_of(l)->timers, &l->timer, fast_of(l)->now + ns);
}

static void to(struct rio_link *l, enum rio_state state)
{
	l->state = state;
	if (state == RIO_OPENING || state == RIO_UP || state == RIO_FAILED) {
		l->logged = state == RIO_OPENING;
		wake_work(l);
	}
}

/* ---- the way ------------------------------------------------------------------------------------------- */

static void end_close(struct rio_link *l)
{
	if (l->end.fd < 0)
		return;
	epoll_ctl(fast_of(l)->epoll_fd, EPOLL_CTL_DEL, l->end.fd, NULL);
	rio_end_close(&l->end); /* and with it all buffers */
	l->dev->num_ends--;
	l->num_idle = l->held = l->under_way = 0;
	l->fills = l->reads = -1;
	l->rest_len = 0;
}

/* Something is wrong with what is in use; or with what is not yet: then it is begun anew, later. */
static void fail(struct rio_link *l, int err)
{
	l->err = err;
	if (l->state == RIO_UP || l->begun) {
		wire_by_failed(l->peer, rio_by.why(err));
		return;
	}
	end_close(l);
	to(l, RIO_CLOSED);
	arm(l, RIO_RETRY_NS);
}

/* The peer may be asked: is there a way? */
static void try_way(struct rio_link *l)
{
	int err;

	if (l->state != RIO_OPEN || !l->known)
		return;
	to(l, RIO_ASKED);
	err = rio_ask(l);
	if (err)
		rio_link_answered(l, err);
}

void rio_link_answered(struct rio_link *l, int result)
{
	if (!result && !l->moved) {
		l->err = 0;
		to(l, RIO_UP);
		wire_over(fast_of(l), l->peer);
		return;
	}
	if (result == -ENODEV || result == -ESHUTDOWN) {
		fail(l, result);
		return;
	}
	if (l->moved) {
		l->moved = false;
		l->state = RIO_OPEN;
		try_way(l);
		return;
	}
	l->err = result;
	to(l, RIO_FAILED);
	arm(l, RIO_RETRY_NS);
}

/* Tell the peer where we are; again soon, if there is no room for that now. */
static void tell(struct rio_link *l)
{
	const struct wire_hdr h = {
		.type = WIRE_BY,
		.by = { .token = l->token,
			.node = l->end.bound.destid,
			.endpoint = (uint32_t)l->end.bound.endpoint,
			.block = l->end.bound.block },
	};

	l->untold = wire_send(fast_of(l), l->peer, &h, NULL);
	if (l->untold)
		arm(l, RIO_AGAIN_NS);
}

/* One of as many as can have a send buffer each. */
static bool may_have(const struct rio_link *l, const struct rio_end *e)
{
	return l->dev->num_ends < e->bound.smbs / 2;
}

static int take_end(struct rio_link *l, struct rio_end *e)
{
	int err;

	if (!may_have(l, e))
		return -ENOBUFS;
	if (getrandom(&l->token, sizeof(l->token), GRND_NONBLOCK) != sizeof(l->token))
		return -EAGAIN;
	err = fast_watch(fast_of(l), e->fd, EPOLLIN | EPOLLOUT | EPOLLPRI | EPOLLET, l);
	if (err)
		return err;
	l->end = *e;
	e->fd = -1;
	l->dev->num_ends++;
	l->number_in = l->number_out = 0;
	return 0;
}

void rio_link_opened(struct rio_link *l, struct rio_end *e, int err)
{
	if (!err)
		err = take_end(l, e);
	if (err) {
		fail(l, err);
		return;
	}
	to(l, RIO_OPEN);
	tell(l);
	try_way(l);
}

static void on_timer(struct timer *t)
{
	struct rio_link *l = (struct rio_link *)((char *)t - offsetof(struct rio_link, timer));

	if (l->untold)
		tell(l);
	switch (l->state) {
	case RIO_CLOSED:
		to(l, RIO_OPENING);
		break;
	case RIO_FAILED:
		to(l, RIO_OPEN);
		try_way(l);
		break;
	case RIO_UP:
		rio_rest(l);
		wire_by_ready(fast_of(l), l->peer);
		break;
	default:
		break;
	}
}

void rio_link_ready(struct rio_link *l, uint32_t events)
{
	rio_reap(l);
	if (l->end.fd < 0) /* closed meanwhile, or since the epoll_wait() that tells of it */
		return;
	if (events & EPOLLHUP)
		fail(l, -ENODEV);
	else if (l->err && l->state == RIO_UP)
		fail(l, l->err);
	else if (l->state == RIO_UP || l->begun)
		wire_by_ready(fast_of(l), l->peer);
	if (l->state == RIO_UP && !l->under_way && l->num_idle && !l->timer.index)
		arm(l, RIO_IDLE_NS);
}

/* ---- the connection ------------------------------------------------------------------------------------ */

static void up(struct fast *f, struct wire_peer *p)
{
	struct rio_dev *d = rio_dev_of(f);
	struct rio_link *l = calloc(1, sizeof(*l));

	if (!l)
		return; /* by the wire, then */
	l->dev = d;
	l->peer = p;
	l->id = ++d->last_id;
	l->end.fd = l->fills = l->reads = -1;
	l->logged = true;
	l->timer.fn = on_timer;
	LIST_INSERT_HEAD(&d->links, l, entry);
	p->by = l;
	if (p->by_after > f->now)
		arm(l, p->by_after - f->now);
	else
		to(l, RIO_OPENING);
}

static void down(struct fast *f, struct wire_peer *p, bool failed)
{
	struct rio_link *l = p->by;

	if (failed && (l->state == RIO_UP || l->begun))
		p->by_after = f->now + RIO_RETRY_NS;
	timer_cancel(&f->timers, &l->timer);
	end_close(l);
	LIST_REMOVE(l, entry);
	free(l);
	p->by = NULL;
}

static void told(struct fast *f, struct wire_peer *p, const struct wire_hdr *h)
{
	struct rio_link *l = p->by;

	(void)f;
	if (h->by.node > UINT16_MAX || h->by.endpoint >= FFRIO_ENDPOINTS ||
	    h->by.block < RIO_BLOCK_MIN || h->by.block > 1u << FFRIO_BLOCK_MAX_SHIFT) {
		wire_by_failed(p, "it is at no place of RapidIO's");
		return;
	}
	if (l->state == RIO_UP) { /* it has opened another one, and hears no more of the former */
		fail(l, -ECONNRESET);
		return;
	}
	l->to.token = h->by.token;
	l->to.node = (uint16_t)h->by.node;
	l->to.endpoint = (uint8_t)h->by.endpoint;
	l->to.block = h->by.block;
	l->known = true;
	/* what is asked is asked anew, of the place that it has now */
	l->moved = l->state == RIO_ASKED;
	if (l->state == RIO_FAILED)
		l->state = RIO_OPEN;
	try_way(l);
}

static bool begin(struct wire_peer *p)
{
	struct rio_link *l = p->by;

	if (l->end.fd < 0 || !l->known)
		return false;
	l->begun = true;
	return true;
}

static const char *why(int err)
{
	switch (err) {
	case -EHOSTUNREACH:
		return "RapidIO: it does not answer";
	case -ECONNREFUSED:
		return "RapidIO: nobody is at its endpoint";
	case -ECONNRESET:
		return "RapidIO: it has begun anew";
	case -ECONNABORTED:
		return "RapidIO: it has given a block up";
	case -ETIMEDOUT:
		return "RapidIO: it takes too long";
	case -EIO:
		return "RapidIO: transfers fail";
	case -ENODEV:
	case -ESHUTDOWN:
		return "RapidIO: the port is gone";
	case -EPROTO:
		return "RapidIO: it sends blocks that make no sense";
	default:
		return "RapidIO: the device fails";
	}
}

const struct wire_by rio_by = {
	.name = "rio",
	.frames = 1ull << WIRE_BY,
	.up = up,
	.down = down,
	.told = told,
	.begin = begin,
	.readv = rio_readv,
	.writev = rio_writev,
	.flush = rio_flush,
	.pending = rio_pending,
	.why = why,
};
