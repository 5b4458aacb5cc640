/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * peer.c - the other hosts: what the orchestrator knows of them, whether a connection is wanted, when
 * it is tried again. Control thread, but for what the wire calls, which is [lock] on any.
 *
 * The directory tells who the hosts are (peer_of_host()), the wire that it has something to send
 * (peer_want()) and that a connection has ended (peer_lost()). Either only notes it and puts the host
 * on a list that the loop looks through soon after (kick, host_look()), so that nothing is called
 * back from within, and no socket is touched with the lock held.
 *
 * A connection is tried at once, then after 50 ms, doubling up to 1 s; at once again when what is
 * known of the host changes. One that ends young counts as a try in vain, so that two routers that
 * cannot work together do not spin.
 */
#include "ffr/peer/peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffr/fast/backend.h"
#include "ffr/lib/addr.h"
#include "ffr/peer/internal.h"
#include "ffr/peer/tls.h"

#define ACCEPT_BATCH 32	 /* connections accepted before others have their turn */
#define PAUSE	     100 /* ms without listening when there are no descriptors */

struct peer_times peer_times = {
	.connect = 2000,
	.handshake = 5000,
	.accept = 3000,
	.retry_min = 50,
	.retry_max = 1000,
	.stable = 1000,
	.sweep = 60000,
	.look = TLS_LOOK,
};

/* ---- kicks ----------------------------------------------------------------------------------- */

static void kick(struct peer_ctl *h)
{
	if (h->kicked)
		return;
	h->kicked = true;
	STAILQ_INSERT_TAIL(&h->ps->kicks, h, kick);
	uv_async_send(&h->ps->async);
}

void peer_want(struct wire_peer *p)
{
	if (p->ctl->wanted)
		return;
	p->ctl->wanted = true;
	kick(p->ctl);
}

void peer_unwant(struct wire_peer *p)
{
	p->ctl->wanted = false;
}

void peer_lost(struct wire_peer *p, const char *why)
{
	struct peer_ctl *h = p->ctl;

	h->attached = false;
	h->lost = true;
	snprintf(h->why, sizeof(h->why), "%s", why);
	kick(h);
}

void peer_get(struct wire_peer *p)
{
	p->refs++;
}

void peer_put(struct wire_peer *p)
{
	p->refs--;
}

/* ---- one host -------------------------------------------------------------------------------- */

struct peer_ctl *host_find(struct peers *ps, const char *name)
{
	struct peer_ctl *h;

	HASH_FIND_STR(ps->hosts, name, h);
	return h;
}

bool host_has_addr(const struct peers *ps, const struct sockaddr_storage *sa)
{
	const struct peer_ctl *h;

	for (h = ps->hosts; h; h = h->hh.next)
		if (addr_same(&h->p.addr, sa))
			return true;
	return false;
}

/* Can it be connected to, as far as is known? */
static bool reachable(const struct peer_ctl *h)
{
	return h->p.up && h->p.addr.ss_family && h->p.instance[0];
}

static bool needs_conn(struct peer_ctl *h)
{
	bool needs;

	fast_lock(h->ps->conf.fast);
	needs = h->wanted && !h->attached;
	fast_unlock(h->ps->conf.fast);
	return needs && !h->out && reachable(h);
}

static void on_retry(uv_timer_t *t)
{
	struct peer_ctl *h = t->data;

	if (needs_conn(h))
		peer_conn_connect(h);
}

static void host_try(struct peer_ctl *h)
{
	if (needs_conn(h) && !uv_is_active((uv_handle_t *)&h->retry))
		uv_timer_start(&h->retry, on_retry, h->delay, 0);
}

static void host_slower(struct peer_ctl *h)
{
	unsigned int delay = h->delay ? h->delay * 2 : peer_times.retry_min;

	h->delay = delay < peer_times.retry_max ? delay : peer_times.retry_max;
}

void host_failed(struct peer_ctl *h, const char *why)
{
	char addr[ADDR_STR_SZ];

	if (why) {
		log_at(h->told ? LOG_LEVEL_DEBUG : LOG_LEVEL_WARN, "host %s: %s: %s", h->p.host,
		       addr_str(&h->p.addr, addr, sizeof(addr)), why);
		h->told = true;
		snprintf(h->failed, sizeof(h->failed), "%s", why);
	}
	host_slower(h);
	host_try(h);
}

/* What the orchestrator knows of it is new: what was tried with the old is no measure. */
static void host_changed(struct peer_ctl *h)
{
	struct fast *f = h->ps->conf.fast->threads[0];

	fast_lock(f->host);
	if (h->attached && h->p.instance[0] && strcmp(h->attached_to, h->p.instance)) {
		f->be->ops->wire_detach(f, &h->p, "its router has been started anew");
		h->attached = false;
	}
	fast_unlock(f->host);
	h->delay = 0;
	h->told = false;
	uv_timer_stop(&h->retry);
	if (h->out)
		peer_conn_close(h->out);
	conns_recheck(h->ps, h->p.host);
}

static void host_look(struct peer_ctl *h)
{
	struct fast_host *fast = h->ps->conf.fast;
	uint64_t lived;
	char why[sizeof(h->why)];
	bool changed, lost;

	fast_lock(fast);
	h->kicked = false;
	changed = h->changed;
	lost = h->lost;
	h->changed = h->lost = false;
	memcpy(why, h->why, sizeof(why));
	lived = uv_now(h->ps->conf.loop) - h->attached_at;
	fast_unlock(fast);
	if (lost) {
		log_warn("host %s: connection lost: %s", h->p.host, why);
		memcpy(h->failed, why, sizeof(h->failed));
		if (lived < peer_times.stable)
			host_slower(h);
		else
			h->delay = 0;
	}
	if (changed)
		host_changed(h);
	host_try(h);
}

static void on_kick(uv_async_t *async)
{
	struct peers *ps = async->data;
	struct fast_host *fast = ps->conf.fast;
	struct peer_ctl *h;

	for (;;) {
		fast_lock(fast);
		h = STAILQ_FIRST(&ps->kicks);
		if (h)
			STAILQ_REMOVE_HEAD(&ps->kicks, kick);
		fast_unlock(fast);
		if (!h)
			return;
		host_look(h);
	}
}

/* ---- which hosts there are ------------------------------------------------------------------- */

static struct peer_ctl *host_new(struct peers *ps, const char *name)
{
	struct peer_ctl *h = calloc(1, sizeof(*h));

	if (h) {
		snprintf(h->p.host, sizeof(h->p.host), "%s", name);
		HASH_ADD_STR(ps->hosts, p.host, h);
	}
	if (!h || !h->hh.tbl) {
		log_err("host %s: out of memory", name);
		free(h);
		return NULL;
	}
	h->p.ctl = h;
	h->ps = ps;
	LIST_INIT(&h->p.qps);
	LIST_INIT(&h->conns);
	uv_timer_init(ps->conf.loop, &h->retry);
	h->retry.data = h;
	ps->handles++;
	return h;
}

static void on_host_closed(uv_handle_t *handle)
{
	struct peer_ctl *h = handle->data;
	struct peers *ps = h->ps;

	tls_cert_free(h->cert);
	free(h);
	peers_put(ps);
}

static void host_free(struct peer_ctl *h)
{
	HASH_DEL(h->ps->hosts, h);
	uv_close((uv_handle_t *)&h->retry, on_host_closed);
}

struct wire_peer *peer_of_host(struct peers *ps, const char *host, const char *instance,
			       const char *wire, bool up)
{
	struct sockaddr_storage addr = { 0 };
	struct peer_ctl *h;

	if (!ps || !strcmp(host, ps->conf.host))
		return NULL;
	instance = instance ? instance : "";
	if (!host[0] || strlen(host) >= WIRE_HOST_SZ || strlen(instance) >= WIRE_INSTANCE_SZ) {
		log_err("orchestrator: host \"%.64s\": its name or instance is too long", host);
		return NULL;
	}
	if (wire && wire[0] && addr_parse(wire, &addr)) {
		log_err("orchestrator: host %s: \"%.64s\" is no address", host, wire);
		memset(&addr, 0, sizeof(addr));
	}
	h = host_find(ps, host);
	if (!h)
		h = host_new(ps, host);
	if (!h)
		return NULL;
	if (h->p.up == up && !strcmp(h->p.instance, instance) &&
	    !memcmp(&h->p.addr, &addr, sizeof(addr)))
		return &h->p;
	h->p.up = up;
	h->p.addr = addr;
	snprintf(h->p.instance, sizeof(h->p.instance), "%s", instance);
	h->changed = true;
	kick(h);
	return &h->p;
}

void peers_each(struct peers *ps, void (*fn)(void *arg, const struct peer_state *s), void *arg)
{
	struct peer_ctl *h, *next;
	struct peer_state s;

	if (!ps)
		return;
	HASH_ITER(hh, ps->hosts, h, next) {
		s.host = h->p.host;
		s.why = h->failed;
		fast_lock(ps->conf.fast);
		s.up = h->p.up;
		s.wanted = h->wanted;
		s.attached = h->attached;
		fast_unlock(ps->conf.fast);
		fn(arg, &s);
	}
}

uint32_t peers_seek(struct peers *ps, uint32_t *known)
{
	struct peer_ctl *h, *next;
	uint32_t n = 0;

	*known = 0;
	if (!ps)
		return 0;
	fast_lock(ps->conf.fast);
	HASH_ITER(hh, ps->hosts, h, next) {
		(*known)++;
		n += h->attached;
	}
	HASH_ITER(hh, ps->hosts, h, next)
		if (!n)
			peer_want(&h->p);
	fast_unlock(ps->conf.fast);
	return n;
}

/* Hosts that nobody needs any more. */
static void on_sweep(uv_timer_t *t)
{
	struct peers *ps = t->data;
	struct peer_ctl *h, *next;

	fast_lock(ps->conf.fast);
	HASH_ITER(hh, ps->hosts, h, next) {
		bool unused = !h->p.refs && !h->attached && !h->wanted && !h->kicked &&
			      LIST_EMPTY(&h->conns);

		if (unused && h->unused)
			host_free(h);
		else
			h->unused = unused;
	}
	fast_unlock(ps->conf.fast);
}

/* ---- certificates that are revoked ------------------------------------------------------------ */

static void end_revoked(struct peer_ctl *h)
{
	struct fast *f = h->ps->conf.fast->threads[0];
	bool attached;

	if (!h->cert || !tls_cert_is_revoked(h->ps->tls, h->cert))
		return;
	fast_lock(f->host);
	attached = h->attached;
	if (attached)
		f->be->ops->wire_detach(f, &h->p, TLS_REVOKED);
	h->attached = false;
	fast_unlock(f->host);
	if (attached)
		log_warn("host %s: disconnected: " TLS_REVOKED, h->p.host);
}

/* Who is in handshake was judged by the list before: it comes again. */
static void on_look(uv_timer_t *t)
{
	struct peers *ps = t->data;
	unsigned int number = tls_list_number(ps->tls);
	struct peer_ctl *h, *next;

	if (number == ps->list)
		return;
	ps->list = number;
	conns_end(ps, TLS_NEW_LIST);
	HASH_ITER(hh, ps->hosts, h, next)
		end_revoked(h);
}

/* ---- listening ------------------------------------------------------------------------------- */

static void on_incoming(uv_poll_t *poll, int status, int events);

static void on_pause(uv_timer_t *t)
{
	struct peers *ps = t->data;

	uv_poll_start(&ps->listen, UV_READABLE, on_incoming);
}

static void on_incoming(uv_poll_t *poll, int status, int events)
{
	struct peers *ps = poll->data;

	(void)status;
	(void)events;
	for (int i = 0; i < ACCEPT_BATCH; i++) {
		struct sockaddr_storage from = { 0 };
		socklen_t len = sizeof(from);
		int fd = accept4(ps->listen_fd, (struct sockaddr *)&from, &len,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			peer_conn_accept(ps, fd, &from);
			continue;
		}
		if (errno == EAGAIN)
			return;
		if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
			continue; /* of that connection, which is gone */
		log_client(&ps->log, LOG_LEVEL_ERR, "wire: a connection cannot be accepted: %m");
		uv_poll_stop(&ps->listen);
		uv_timer_start(&ps->pause, on_pause, PAUSE, 0);
		return;
	}
}

/* ---- life ------------------------------------------------------------------------------------ */

void peers_put(struct peers *ps)
{
	if (--ps->handles)
		return;
	tls_free(ps->tls);
	free(ps);
}

static void on_closed(uv_handle_t *handle)
{
	peers_put(handle->data);
}

const char *peers_wire(const struct peers *ps)
{
	return ps ? ps->wire : "";
}

void peers_on_stranger(struct peers *ps, void (*fn)(void *arg, const char *host), void *arg)
{
	ps->on_stranger = fn;
	ps->stranger_arg = arg;
}

void peers_ask(struct peers *ps, const char *host)
{
	if (ps->on_stranger)
		ps->on_stranger(ps->stranger_arg, host);
}

static int handles_init(struct peers *ps)
{
	uv_loop_t *loop = ps->conf.loop;
	int err = uv_async_init(loop, &ps->async, on_kick);

	ps->async.data = ps->listen.data = ps->pause.data = ps->sweep.data = ps->look.data = ps;
	if (err)
		return err;
	err = uv_poll_init(loop, &ps->listen, ps->listen_fd);
	if (err) {
		ps->handles = 1;
		uv_close((uv_handle_t *)&ps->async, on_closed);
		return err;
	}
	uv_timer_init(loop, &ps->pause);
	uv_timer_init(loop, &ps->sweep);
	uv_timer_init(loop, &ps->look);
	ps->handles = 5;
	uv_timer_start(&ps->sweep, on_sweep, peer_times.sweep, peer_times.sweep);
	uv_poll_start(&ps->listen, UV_READABLE, on_incoming);
	if (ps->tls && tls_has_list(ps->tls))
		uv_timer_start(&ps->look, on_look, peer_times.look, peer_times.look);
	return 0;
}

/* Where connections that are made here come from: the address that others know. */
static void set_from(struct peers *ps)
{
	if (addr_parse(ps->wire, &ps->from))
		return;
	if (ps->from.ss_family == AF_INET6)
		((struct sockaddr_in6 *)&ps->from)->sin6_port = 0;
	else
		((struct sockaddr_in *)&ps->from)->sin_port = 0;
}

int peers_create(struct peers **out, const struct peers_conf *conf, char *err, size_t size)
{
	struct sockaddr_storage sa;
	struct peers *ps;
	int rc = -EINVAL;

	if (addr_parse(conf->listen, &sa)) {
		snprintf(err, size, "wire_listen: \"%s\" is no address", conf->listen);
		return -EINVAL;
	}
	ps = calloc(1, sizeof(*ps));
	if (!ps) {
		snprintf(err, size, "out of memory");
		return -ENOMEM;
	}
	ps->conf = *conf;
	ps->conf.tls = NULL;
	TAILQ_INIT(&ps->conns);
	STAILQ_INIT(&ps->kicks);
	snprintf(ps->wire, sizeof(ps->wire), "%s",
		 conf->advertise ? conf->advertise : conf->listen);
	set_from(ps);
	if (conf->tls) {
		ps->tls = tls_create(conf->tls, err, size);
		if (!ps->tls)
			goto err_free;
	}
	ps->listen_fd = sock_listen(&sa);
	if (ps->listen_fd < 0) {
		rc = ps->listen_fd;
		snprintf(err, size, "wire_listen %s: %s", conf->listen, strerror(-rc));
		goto err_tls;
	}
	rc = handles_init(ps);
	if (rc) {
		snprintf(err, size, "wire_listen: %s", strerror(-rc));
		close(ps->listen_fd);
		if (!ps->handles)
			goto err_tls;
		return rc; /* freed with the handle */
	}
	if (!ps->tls)
		log_info("wire: without TLS; whoever is on the path reads and writes it");
	*out = ps;
	conf->fast->wired = true;
	return 0;

err_tls:
	tls_free(ps->tls);
err_free:
	free(ps);
	return rc;
}

void peers_look(struct peers *ps)
{
	if (ps && ps->tls)
		tls_look(ps->tls);
}

void peers_free(struct peers *ps)
{
	struct peer_ctl *h, *next;
	struct fast *f;
	struct conn *c;

	if (!ps)
		return;
	f = ps->conf.fast->threads[0];
	while ((c = TAILQ_FIRST(&ps->conns)))
		peer_conn_close(c);
	fast_lock(f->host);
	HASH_ITER(hh, ps->hosts, h, next) {
		if (h->attached)
			f->be->ops->wire_detach(f, &h->p, "the router ends");
		h->attached = false;
		if (h->p.refs)
			log_err("host %s: %u references are left", h->p.host, h->p.refs);
		host_free(h);
	}
	fast_unlock(f->host);
	uv_close((uv_handle_t *)&ps->async, on_closed);
	uv_close((uv_handle_t *)&ps->listen, on_closed);
	uv_close((uv_handle_t *)&ps->pause, on_closed);
	uv_close((uv_handle_t *)&ps->sweep, on_closed);
	uv_close((uv_handle_t *)&ps->look, on_closed);
	close(ps->listen_fd);
}
