/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * tcp.c - the connections with other hosts' routers, from the end of their handshake on. [lock], on the runner, but for
 * what the control thread calls.
 * Neighbours: peer/ brings connections about, peer/io.c is the stream, tx.c and rx.c send and receive.
 *
 * What goes by something else than the stream (struct wire_by) is written and read in the same way.
 *
 * The socket is in the runner's epoll set, edge-triggered. While frames keep coming it is looked at in every turn,
 * which takes less than the way through epoll.
 */
#include <errno.h>
#include <stdlib.h>

#include "ffr/wire/cm.h"
#include "ffr/wire/internal.h"

#define HOT_NS	  (100 * NS_PER_US)
#define PING_NS	  (50 * NS_PER_MS)  /* between looks at a connection that is waited for */
#define SILENT_NS (500 * NS_PER_MS) /* then it is dead */

/* ---- life --------------------------------------------------------------------------------------- */

void wire_init(struct wire_dev *d, const struct wire_ops *ops)
{
	LIST_INIT(&d->conns);
	cm_queue_init(&d->cm_in);
	d->ops = ops;
}

void wire_tcp_kill(struct wire_tcp *c, const char *why)
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
	c->misc = malloc(WIRE_MISC_MAX);
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
	wire_tcp_kill(p->tcp, why);
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
		wire_tcp_kill(c, "it is silent");
	else
		timer_arm(&c->f->timers, &c->timer, c->f->now + PING_NS);
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
		work += wire_tcp_rx(f, c);
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
		if (wire_tcp_has_tx(c))
			work += wire_tcp_tx(f, c);
	}
	reap(f);
	return work;
}
