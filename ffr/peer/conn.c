/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * conn.c - a connection between two routers, from connect() or accept() until it is attached.
 * Control thread.
 *
 * The handshake, after TCP's and (with wire_tls) TLS's:
 *
 *	connects				is connected to
 *	hello(me, you, seq, oldest)  ->
 *						who is it? is it? -> else hello(why not), the end
 *				     <-		hello(me, you, seq, oldest)
 *	is it whom I wanted?
 *		the host with the greater name decides:
 *				     <- or ->	verdict(taken or not)
 *
 * Who it is: a host that the orchestrator knows, of the instance (the start of its router) that it
 * knows, up; proved by its certificate, or else by the address it comes from. Who is connected to
 * asks the orchestrator when it does not know that, and the connection waits. Any doubt ends it.
 *
 * Two hosts may connect to each other at the same time, and one may have lost a connection that the
 * other still believes in. Both are settled by one of them alone, the one with the greater name (the
 * decider): it takes a connection when it has none; takes it in place of the one it has, when that
 * is of another instance, or the peer does not have it any more; and else refuses it. Whether the
 * peer still has it is told by numbers: each hello has a number of its own among those to that host,
 * and the lowest number among the connections that its sender still has. The other side does as it is
 * told: with the verdict its other connections with that host are closed. So exactly one survives,
 * and a refused one leaves both with the other. What is lost between them (a verdict on its way when
 * the connection breaks) costs a retry, whose numbers tell.
 *
 * Attaching takes the descriptor out of the loop and hands the stream over; frames that came right
 * behind the handshake are in it still.
 */
#include "ffr/peer/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffr/fast/backend.h"
#include "ffr/peer/tls.h"
#include "ffr/peer/io.h"

#include <openssl/ssl.h>

enum conn_state {
	CONN_CONNECT, /* TCP's handshake */
	CONN_TLS,     /* TLS's */
	CONN_HELLO,   /* the peer's hello is awaited */
	CONN_HOST,    /* what the orchestrator knows of it is awaited */
	CONN_VERDICT, /* the peer's verdict is awaited */
	CONN_TAKEN,   /* attached when all is sent */
	CONN_REFUSED, /* closed when all is sent */
};

struct conn {
	TAILQ_ENTRY(conn) entry;
	LIST_ENTRY(conn) of_host;
	struct peers *ps;
	struct peer_ctl *h; /* NULL: not known yet */
	bool out;	    /* made here */
	bool stranger;	    /* from an address that was no host's */
	enum conn_state state;
	enum wire_refusal waits; /* CONN_HOST: what is wrong so far */
	uint64_t seq;		 /* of our hello; 0: not sent */
	struct sockaddr_storage addr;
	int fd;
	SSL *ssl;	    /* until there is io */
	struct wire_io *io; /* has fd and ssl */
	uv_poll_t poll;
	uv_timer_t timer;
	unsigned int handles; /* of the loop, open */
	struct wire_hello theirs;
	struct wire_verdict verdict;
	struct hello hello; /* of theirs */
	unsigned int rx_at; /* bytes of what is awaited */
	unsigned int tx_at, tx_len;
	uint8_t tx[sizeof(struct wire_hello) + sizeof(struct wire_verdict)];
};

static void conn_run(struct conn *c);

/* ---- life ------------------------------------------------------------------------------------ */

static void on_handle_closed(uv_handle_t *handle)
{
	struct conn *c = handle->data;
	struct peers *ps = c->ps;

	if (--c->handles)
		return;
	free(c);
	peers_put(ps);
}

/* The stream or the socket is somebody else's or closed. */
static void conn_free(struct conn *c)
{
	TAILQ_REMOVE(&c->ps->conns, c, entry);
	c->ps->num_conns--;
	if (c->h) {
		LIST_REMOVE(c, of_host);
		if (c->h->out == c)
			c->h->out = NULL;
	}
	if (c->stranger)
		c->ps->num_strangers--;
	uv_close((uv_handle_t *)&c->timer, on_handle_closed);
	uv_close((uv_handle_t *)&c->poll, on_handle_closed);
}

void peer_conn_close(struct conn *c)
{
	conn_free(c); /* out of the loop before the descriptor is another one's */
	if (c->io) {
		wire_io_close(c->io);
		return;
	}
	SSL_free(c->ssl);
	close(c->fd);
}

/* It comes to nothing. `why` NULL: as it should. */
static void conn_fail(struct conn *c, const char *why)
{
	struct peer_ctl *h = c->h;
	bool out = c->out;
	char addr[ADDR_STR_SZ];

	if (!out && why)
		log_client(&c->ps->log, LOG_LEVEL_WARN, "wire: connection from %s: %s%s%s",
			   addr_str(&c->addr, addr, sizeof(addr)), h ? h->p.host : "",
			   h ? ": " : "", why);
	peer_conn_close(c);
	if (h) /* one made here may have been given up for this one */
		host_failed(h, out ? why : NULL);
}

static void on_time(uv_timer_t *t);
static void on_event(uv_poll_t *poll, int status, int events);

/* Takes fd. NULL: -ENOMEM, fd is closed. */
static struct conn *conn_new(struct peers *ps, int fd, const struct sockaddr_storage *addr,
			     bool out)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (!c || uv_poll_init(ps->conf.loop, &c->poll, fd)) {
		free(c);
		close(fd);
		return NULL;
	}
	uv_timer_init(ps->conf.loop, &c->timer);
	c->poll.data = c->timer.data = c;
	c->handles = 2;
	ps->handles++;
	c->ps = ps;
	c->fd = fd;
	c->addr = *addr;
	c->out = out;
	TAILQ_INSERT_TAIL(&ps->conns, c, entry);
	ps->num_conns++;
	return c;
}

static void conn_of(struct conn *c, struct peer_ctl *h)
{
	c->h = h;
	LIST_INSERT_HEAD(&h->conns, c, of_host);
}

static void conn_secure(struct conn *c)
{
	struct peers *ps = c->ps;

	c->state = CONN_TLS;
	if (!ps->tls)
		return;
	c->ssl = peer_tls_open(ps->tls, c->fd, c->out);
	if (!c->ssl)
		conn_fail(c, "out of memory");
}

void peer_conn_connect(struct peer_ctl *h)
{
	int fd = sock_connect(&h->ps->from, &h->p.addr);
	struct conn *c;

	if (fd < 0) {
		host_failed(h, strerror(-fd));
		return;
	}
	c = conn_new(h->ps, fd, &h->p.addr, true);
	if (!c) {
		host_failed(h, "out of memory");
		return;
	}
	conn_of(c, h);
	h->out = c;
	uv_timer_start(&c->timer, on_time, peer_times.connect, 0);
	uv_poll_start(&c->poll, UV_WRITABLE, on_event);
}

/* From a stranger it is one of a bounded number: the oldest makes room, who is real is quick. */
static bool admit(struct peers *ps, const struct sockaddr_storage *from, bool stranger)
{
	uint32_t near = 0;
	struct conn *c;

	TAILQ_FOREACH(c, &ps->conns, entry)
		near += !c->out && addr_near(&c->addr, from);
	if (near >= PEER_MAX_FROM)
		return false;
	if (!stranger || ps->num_strangers < PEER_MAX_STRANGERS)
		return true;
	TAILQ_FOREACH(c, &ps->conns, entry) {
		if (!c->stranger)
			continue;
		conn_fail(c, wire_refusal_str(WIRE_BUSY));
		break;
	}
	return true;
}

void peer_conn_accept(struct peers *ps, int fd, const struct sockaddr_storage *from)
{
	bool stranger = !host_has_addr(ps, from);
	char addr[ADDR_STR_SZ];
	struct conn *c;

	if (!admit(ps, from, stranger)) {
		log_client(&ps->log, LOG_LEVEL_WARN, "wire: connection from %s: %s",
			   addr_str(from, addr, sizeof(addr)), wire_refusal_str(WIRE_BUSY));
		close(fd);
		return;
	}
	sock_setup(fd);
	c = conn_new(ps, fd, from, false);
	if (!c)
		return;
	c->stranger = stranger;
	ps->num_strangers += stranger;
	uv_timer_start(&c->timer, on_time, peer_times.accept, 0);
	conn_secure(c);
	/* its hello is not there yet, as a rule, and this one may be closed by now */
	if (!uv_is_closing((uv_handle_t *)&c->poll))
		uv_poll_start(&c->poll, UV_READABLE, on_event);
}

/* ---- what is said ---------------------------------------------------------------------------- */

static void say(struct conn *c, const void *msg, unsigned int len)
{
	memcpy(c->tx + c->tx_len, msg, len);
	c->tx_len += len;
}

/* The lowest number among the connections with that host that we have. */
static uint64_t oldest_seq(struct peer_ctl *h)
{
	uint64_t oldest = h->last_seq;
	const struct conn *c;

	LIST_FOREACH(c, &h->conns, of_host)
		if (c->seq && c->seq < oldest)
			oldest = c->seq;
	fast_lock(h->ps->conf.fast);
	if (h->attached && h->seq_mine < oldest)
		oldest = h->seq_mine;
	fast_unlock(h->ps->conf.fast);
	return oldest;
}

static void say_hello(struct conn *c)
{
	const struct peers_conf *conf = &c->ps->conf;
	struct wire_hello w;
	struct hello h = {
		.cluster = conf->cluster,
		.host = conf->host,
		.to = c->h->p.host,
		.instance = conf->instance,
	};

	h.seq = c->seq = ++c->h->last_seq;
	h.oldest = oldest_seq(c->h);
	hello_make(&w, &h);
	say(c, &w, sizeof(w));
}

static void say_verdict(struct conn *c, enum wire_refusal code)
{
	struct wire_verdict v;

	verdict_make(&v, code);
	say(c, &v, sizeof(v));
	c->state = code == WIRE_OK ? CONN_TAKEN : CONN_REFUSED;
}

static void log_refused(struct conn *c, enum wire_refusal why)
{
	bool known = c->hello.host;
	char addr[ADDR_STR_SZ];

	if (why == WIRE_DUPLICATE)
		return;
	if (why == WIRE_SELF)
		log_client(&c->ps->log, LOG_LEVEL_ERR,
			   "wire: %s says that it is %s too: two hosts have one name",
			   addr_str(&c->addr, addr, sizeof(addr)), c->hello.host);
	else
		log_client(&c->ps->log, LOG_LEVEL_WARN, "wire: connection from %s: %s%s%s",
			   addr_str(&c->addr, addr, sizeof(addr)), known ? c->hello.host : "",
			   known ? ": " : "", wire_refusal_str(why));
}

/* In the place of our hello: who is refused does not learn who we are. */
static void refuse(struct conn *c, enum wire_refusal why)
{
	struct wire_hello w;

	log_refused(c, why);
	hello_make_refusal(&w, why);
	say(c, &w, sizeof(w));
	c->state = CONN_REFUSED;
}

/* ---- who decides, and what ------------------------------------------------------------------- */

static bool decides(const struct conn *c)
{
	return strcmp(c->ps->conf.host, c->h->p.host) > 0;
}

/* Does the peer still have the connection that is attached here? See the top. */
static bool duplicate(const struct conn *c)
{
	const struct peer_ctl *h = c->h;
	bool dup;

	fast_lock(c->ps->conf.fast);
	dup = h->attached && !strcmp(h->attached_to, c->hello.instance) &&
	      c->hello.oldest <= h->seq_theirs;
	fast_unlock(c->ps->conf.fast);
	return dup;
}

/* Of several connections with one host, this one it is. */
static void close_others(struct conn *c)
{
	struct conn *other, *next;

	LIST_FOREACH_SAFE(other, &c->h->conns, of_host, next)
		if (other != c)
			peer_conn_close(other);
}

static void decide(struct conn *c)
{
	bool dup = duplicate(c);

	if (!dup)
		close_others(c);
	say_verdict(c, dup ? WIRE_DUPLICATE : WIRE_OK);
}

static void conn_attach(struct conn *c)
{
	struct fast *f = c->ps->conf.fast->threads[0];
	const SSL *ssl = wire_io_ssl(c->io);
	struct tls_cert *cert = ssl ? tls_cert_of(ssl) : NULL;
	struct peer_ctl *h = c->h;
	char addr[ADDR_STR_SZ];
	int err;

	if (ssl && (!cert || !tls_is_current(c->ps->tls, ssl))) {
		tls_cert_free(cert);
		conn_fail(c, cert ? TLS_NEW_LIST : "out of memory");
		return;
	}
	tls_cert_free(h->cert);
	h->cert = cert;
	close_others(c);
	uv_poll_stop(&c->poll);
	fast_lock(f->host);
	if (h->attached)
		f->be->ops->wire_detach(f, &h->p, "a newer connection takes its place");
	h->p.generation++;
	h->p.version = c->hello.version;
	err = f->be->ops->wire_attach(f, &h->p, c->io, &c->theirs);
	h->attached = !err;
	if (!err)
		h->wanted = false;
	h->attached_at = uv_now(c->ps->conf.loop);
	h->seq_mine = c->seq;
	h->seq_theirs = c->hello.seq;
	snprintf(h->attached_to, sizeof(h->attached_to), "%s", c->hello.instance);
	fast_unlock(f->host);
	if (err) {
		conn_fail(c, strerror(-err));
		return;
	}
	log_info("host %s: connected%s, %s %s", h->p.host, c->ps->tls ? " with TLS" : "",
		 c->out ? "to" : "from", addr_str(&c->addr, addr, sizeof(addr)));
	h->told = false;
	uv_timer_stop(&h->retry);
	conn_free(c);
}

/* ---- what is heard --------------------------------------------------------------------------- */

/* Is the peer the host that it says, as far as the orchestrator tells? */
static enum wire_refusal judge(struct conn *c)
{
	const struct peers *ps = c->ps;
	const struct peer_ctl *h = host_find(c->ps, c->hello.host);

	if (!h)
		return WIRE_UNKNOWN;
	if (!h->p.up)
		return WIRE_DOWN;
	if (strcmp(h->p.instance, c->hello.instance))
		return WIRE_INSTANCE;
	if (!ps->tls && ps->conf.check_addr && !addr_same(&c->addr, &h->p.addr))
		return WIRE_ADDRESS;
	return WIRE_OK;
}

/* What a refusal tells now may be otherwise when the orchestrator has been asked. */
static bool may_change(enum wire_refusal why)
{
	return why == WIRE_UNKNOWN || why == WIRE_DOWN || why == WIRE_INSTANCE;
}

/* What both sides check, without the orchestrator. */
static enum wire_refusal check_hello(const struct conn *c)
{
	const struct peers_conf *conf = &c->ps->conf;
	const struct hello *h = &c->hello;

	if (strcmp(h->cluster, conf->cluster))
		return WIRE_CLUSTER;
	if (!strcmp(h->host, conf->host))
		return WIRE_SELF;
	if (strcmp(h->to, conf->host))
		return WIRE_NOT_ME;
	return WIRE_OK;
}

/* The SSL is the stream's by now. */
static bool certified(const struct conn *c, const char *host)
{
	const SSL *ssl = wire_io_ssl(c->io);

	return !ssl || tls_is(ssl, host);
}

/* It was connected to. */
static void answer(struct conn *c)
{
	enum wire_refusal why = judge(c);

	if (may_change(why)) {
		bool first = c->state != CONN_HOST;

		c->state = CONN_HOST;
		c->waits = why;
		if (first)
			peers_ask(c->ps, c->hello.host);
		return;
	}
	if (why != WIRE_OK) {
		refuse(c, why);
		return;
	}
	conn_of(c, host_find(c->ps, c->hello.host));
	say_hello(c);
	c->state = CONN_VERDICT;
	if (decides(c))
		decide(c);
}

static void heard_first(struct conn *c)
{
	enum wire_refusal why = c->hello.version ? check_hello(c) : WIRE_VERSION;

	if (why == WIRE_OK && !certified(c, c->hello.host))
		why = WIRE_CERTIFICATE;
	if (why == WIRE_OK)
		answer(c);
	else
		refuse(c, why);
}

/* It was made here, and the peer answers. */
static void heard_answer(struct conn *c)
{
	const struct hello *h = &c->hello;
	char why[128];

	if (!h->version || h->status != WIRE_OK) {
		snprintf(why, sizeof(why), "it refuses: %s",
			 wire_refusal_str(h->version ? h->status : WIRE_VERSION));
		conn_fail(c, why);
		return;
	}
	if (strcmp(h->cluster, c->ps->conf.cluster)) {
		conn_fail(c, "it is of another cluster");
	} else if (strcmp(h->host, c->h->p.host) || strcmp(h->to, c->ps->conf.host)) {
		conn_fail(c, "another host is at its address");
	} else if (strcmp(h->instance, c->h->p.instance)) {
		peers_ask(c->ps, c->h->p.host);
		conn_fail(c, wire_refusal_str(WIRE_INSTANCE));
	} else {
		c->state = CONN_VERDICT;
		if (decides(c))
			decide(c);
	}
}

static void heard_hello(struct conn *c)
{
	const char *why;

	int err = hello_parse(&c->hello, &c->theirs, &why);

	if (!err && !c->out && c->hello.status != WIRE_OK) {
		why = "a refusal in the place of a hello";
		err = -EPROTO;
	}
	if (err) {
		conn_fail(c, why);
		return;
	}
	c->rx_at = 0;
	if (c->out)
		heard_answer(c);
	else
		heard_first(c);
}

static void heard_verdict(struct conn *c)
{
	int code = verdict_parse(&c->verdict);

	if (code < 0)
		conn_fail(c, "a verdict that is none");
	else if (code == WIRE_OK)
		c->state = CONN_TAKEN;
	else
		conn_fail(c, code == WIRE_DUPLICATE ? NULL : wire_refusal_str((unsigned int)code));
}

/* ---- progress -------------------------------------------------------------------------------- */

/* 0: all of it; -EAGAIN; -errno. */
static int hear(struct conn *c, void *msg, unsigned int len)
{
	while (c->rx_at < len) {
		struct iovec iov = { (uint8_t *)msg + c->rx_at, len - c->rx_at };
		ssize_t n = wire_io_readv(c->io, &iov, 1);

		if (n <= 0)
			return n ? (int)n : -ECONNRESET;
		c->rx_at += (unsigned int)n;
	}
	return 0;
}

static int send_queued(struct conn *c)
{
	while (c->tx_at < c->tx_len) {
		struct iovec iov = { c->tx + c->tx_at, c->tx_len - c->tx_at };
		ssize_t n = wire_io_writev(c->io, &iov, 1);

		if (n < 0)
			return (int)n;
		c->tx_at += (unsigned int)n;
	}
	return wire_io_flush(c->io);
}

/* One step: 0: another may follow; -EAGAIN: *events must come first; 1: it is no more. */
static int step_tls(struct conn *c, int *events)
{
	char why[256];
	int err = c->ssl ? peer_tls_step(c->ssl, events, why, sizeof(why)) : 0;

	if (err == -EAGAIN)
		return err;
	if (err) {
		conn_fail(c, why);
		return 1;
	}
	if (c->out && c->ssl && !tls_is(c->ssl, c->h->p.host)) {
		conn_fail(c, wire_refusal_str(WIRE_CERTIFICATE));
		return 1;
	}
	c->io = c->ssl ? wire_io_tls(c->fd, c->ssl) : wire_io_plain(c->fd);
	if (!c->io) {
		conn_fail(c, "out of memory");
		return 1;
	}
	c->state = CONN_HELLO;
	if (c->out)
		say_hello(c);
	return 0;
}

static int step_hear(struct conn *c, int *events)
{
	int err = c->state == CONN_HELLO ? hear(c, &c->theirs, sizeof(c->theirs)) :
					   hear(c, &c->verdict, sizeof(c->verdict));

	*events = UV_READABLE;
	if (err == -EAGAIN)
		return err;
	if (err) {
		conn_fail(c, err == -ECONNRESET ? "it has closed the connection" : strerror(-err));
		return 1;
	}
	if (c->state == CONN_HELLO)
		heard_hello(c);
	else
		heard_verdict(c);
	return uv_is_closing((uv_handle_t *)&c->poll);
}

static int step_end(struct conn *c)
{
	if (c->state == CONN_TAKEN)
		conn_attach(c);
	else
		conn_fail(c, NULL);
	return 1;
}

static int conn_step(struct conn *c, int *events)
{
	int err, ret;

	if (c->state == CONN_TLS)
		return step_tls(c, events);
	err = send_queued(c);
	if (err && err != -EAGAIN) {
		conn_fail(c, strerror(-err));
		return 1;
	}
	switch (c->state) {
	case CONN_TAKEN:
	case CONN_REFUSED:
		*events = UV_WRITABLE;
		return err ? err : step_end(c);
	case CONN_HOST:
		*events = UV_DISCONNECT; /* not what it sends meanwhile */
		return -EAGAIN;
	default:
		ret = step_hear(c, events);
		if (ret == -EAGAIN && err)
			*events |= UV_WRITABLE;
		return ret;
	}
}

static void conn_run(struct conn *c)
{
	int events = UV_READABLE, ret;

	do
		ret = conn_step(c, &events);
	while (!ret);
	if (ret < 0)
		uv_poll_start(&c->poll, events, on_event);
}

/* What has gone wrong with the socket, which that forgets. */
static int socket_error(const struct conn *c)
{
	int err = 0;
	socklen_t len = sizeof(err);

	getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len);
	return err;
}

static void connected(struct conn *c)
{
	int err = socket_error(c);

	if (err) {
		conn_fail(c, strerror(err));
		return;
	}
	uv_timer_start(&c->timer, on_time, peer_times.handshake, 0);
	conn_secure(c);
	if (!uv_is_closing((uv_handle_t *)&c->poll))
		conn_run(c);
}

static void on_event(uv_poll_t *poll, int status, int events)
{
	struct conn *c = poll->data;
	int err = status < 0 ? socket_error(c) : 0; /* libuv says EBADF of any */

	if (status < 0)
		conn_fail(c, err ? strerror(err) : uv_strerror(status));
	else if (c->state == CONN_CONNECT)
		connected(c);
	else if (c->state == CONN_HOST && events & UV_DISCONNECT)
		conn_fail(c, "it has closed the connection");
	else
		conn_run(c);
}

static void on_time(uv_timer_t *t)
{
	struct conn *c = t->data;

	switch (c->state) {
	case CONN_CONNECT:
		conn_fail(c, "it does not answer");
		break;
	case CONN_HOST: /* nor has the orchestrator told of it */
		refuse(c, c->waits);
		uv_timer_start(&c->timer, on_time, peer_times.accept, 0);
		conn_run(c);
		break;
	default:
		conn_fail(c, "it does not finish the handshake");
	}
}

void conns_end(struct peers *ps, const char *why)
{
	struct conn *c;

	while ((c = TAILQ_FIRST(&ps->conns)))
		conn_fail(c, why);
}

void conns_recheck(struct peers *ps, const char *host)
{
	struct conn *c, *next;

again:
	TAILQ_FOREACH_SAFE(c, &ps->conns, entry, next) {
		if (c->state != CONN_HOST || strcmp(c->hello.host, host))
			continue;
		answer(c);
		if (c->state == CONN_HOST)
			continue;
		conn_run(c);
		goto again; /* others may be gone with it */
	}
}
