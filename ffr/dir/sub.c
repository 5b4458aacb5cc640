/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sub.c - what the directory asks the orchestrator for, and tells it. Control thread.
 *
 * dir.c queues subscriptions [lock], wherever it is called, and wakes this thread. A subscription
 * has one call under way at most, and all together MAX_CALLS; the answers go to event.c. What
 * nobody has used for IDLE is given up.
 */
#include <arpa/inet.h>
#include <errno.h>

#include "ffr/dir/internal.h"
#include "ffr/fast/internal.h"
#include "ffr/lib/log.h"
#include "ffr/peer/peer.h"

#define MAX_CALLS  256u
#define BATCH	   32u	/* calls prepared before the fast thread has its turn */
#define TICK	   2000 /* ms */
#define IDLE	   (60000 * NS_PER_MS)
#define IDLE_BATCH 64u
#define MAX_WANTED 64u /* hosts that are asked for at once */

static const struct {
	enum ffo_op on, off;
} sub_ops[] = {
	[SUB_RESOLVE] = { FFO_OP_RESOLVE, FFO_OP_UNRESOLVE },
	[SUB_MAP] = { FFO_OP_MAP_WATCH, FFO_OP_MAP_UNWATCH },
	[SUB_MCAST] = { FFO_OP_MCAST_WATCH, FFO_OP_MCAST_UNWATCH },
	[SUB_MEMBER] = { FFO_OP_MCAST_JOIN, FFO_OP_MCAST_LEAVE },
};

/* ---- requests ------------------------------------------------------------------------------- */

static json_t *sub_fields(const struct dir_key *key)
{
	char text[INET6_ADDRSTRLEN];
	struct in6_addr addr;

	memcpy(&addr, &key->gid, sizeof(addr));
	switch (key->kind) {
	case ENTRY_GID:
		return json_pack("{s:s, s:s}", "tenant", key->tenant, "ip",
				 ffo_addr_text(&addr, text));
	case ENTRY_LID:
		return json_pack("{s:s, s:I}", "tenant", key->tenant, "lid", (json_int_t)key->num);
	case ENTRY_ID:
		return json_pack("{s:I}", "container", (json_int_t)key->num);
	default:
		return json_pack("{s:s, s:s}", "tenant", key->tenant, "mgid",
				 inet_ntop(AF_INET6, &addr, text, sizeof(text)));
	}
}

static bool connection_lost(int err)
{
	return err == -ECONNRESET || err == -ECANCELED || err == -ENOTCONN;
}

/* [lock] The call for it has ended. */
static void sub_ended(struct dir *d, struct dir_sub *s, int err)
{
	s->busy = false;
	d->busy--;
	s->told = s->telling && !err;
	if (!s->told)
		s->stale = false;
	if (s->telling && err && !connection_lost(err) && !s->failed) {
		s->failed = true;
		d->failed++;
	}
}

static void on_answer(void *arg, int err, const char *why, json_t *answer)
{
	struct dir_sub *s = arg;
	struct dir_entry *e = s->e;
	struct dir *d = e->dir;
	struct dir_told told = { .nobody = true };
	bool lost = connection_lost(err); /* all are asked for again by dir_connected() */
	bool refused = err && s->telling && !lost;

	if (refused)
		log_debug("orchestrator: directory: %s", why);
	if (!err && s->telling)
		err = told_parse(&told, s->kind, answer);
	fast_lock(d->f->host);
	sub_ended(d, s, err);
	e->r.refs++;
	/* what cannot be asked for is nobody's; what is known stays known */
	if (s == &e->sub && sub_target(s) && s->telling && (!err || (refused && !e->answered)))
		told_apply(d, e, &told);
	e->r.refs--;
	if (d->connected && !lost && !s->failed && sub_target(s) != s->told)
		sub_queue(d, s);
	else
		entry_reap(d, e);
	if (!TAILQ_EMPTY(&d->turns))
		d->wake(d);
	fast_unlock(d->f->host);
	told_free(&told);
}

/* [lock] Is there something to tell of it? */
static bool sub_begin(struct dir *d, struct dir_sub *s)
{
	if (!s->told)
		s->stale = false;
	s->telling = sub_target(s);
	if (!d->connected || s->telling == s->told) {
		entry_reap(d, s->e);
		return false;
	}
	s->busy = true;
	d->busy++;
	return true;
}

static void pump(struct dir *d)
{
	struct {
		struct dir_sub *s;
		struct dir_key key;
	} call[BATCH];
	struct dir_sub *s;
	unsigned n;

	do {
		n = 0;
		fast_lock(d->f->host);
		while (n < BATCH && d->busy < MAX_CALLS && (s = sub_next(d))) {
			if (!sub_begin(d, s))
				continue;
			call[n].s = s;
			call[n++].key = s->e->key;
		}
		fast_unlock(d->f->host);
		for (unsigned i = 0; i < n; i++) {
			s = call[i].s; /* it stays while it is busy */
			d->ask(d->orch, s->telling ? sub_ops[s->kind].on : sub_ops[s->kind].off,
			       sub_fields(&call[i].key), on_answer, s);
		}
	} while (n == BATCH);
}

static void on_tick(uv_timer_t *t);

static void on_wake(uv_async_t *h)
{
	struct dir *d = h->data;

	if (!uv_is_active((uv_handle_t *)&d->tick))
		uv_timer_start(&d->tick, on_tick, TICK, TICK);
	pump(d);
}

static void wake(struct dir *d)
{
	uv_async_send(&d->async);
}

/* ---- from time to time ---------------------------------------------------------------------- */

/* [lock] What was refused is asked for again. */
static void retry_failed(struct dir *d)
{
	struct dir_entry *e, *next;

	if (!d->failed)
		return;
	HASH_ITER(hh, d->entries, e, next) {
		struct dir_sub *subs[] = { &e->sub, &e->more };

		for (int i = 0; i < 2; i++) {
			if (!subs[i]->failed)
				continue;
			subs[i]->failed = false;
			d->failed--;
			if (d->connected && sub_target(subs[i]) != subs[i]->told)
				sub_queue(d, subs[i]);
		}
	}
}

/*
 * [lock] The entries of an owner are sorted by their last use, but for those that are pinned. While the
 * orchestrator is away nobody could ask for them again.
 */
static void drop_idle(struct dir *d, struct dir_owner *o, uint64_t now)
{
	struct dir_entry *e, *next;
	unsigned n = 0;

	TAILQ_FOREACH_SAFE(e, &o->entries, lru, next) {
		if (n++ == IDLE_BATCH || now < e->used + IDLE) /* it may have been used since now */
			return;
		if (e->live && !entry_pinned(e)) {
			entry_give_up(d, e);
		} else {
			e->used = now;
			TAILQ_REMOVE(&o->entries, e, lru);
			TAILQ_INSERT_TAIL(&o->entries, e, lru);
		}
	}
}

void dir_tick(struct dir *d, uint64_t now)
{
	struct dir_owner *o, *next;

	fast_lock(d->f->host);
	retry_failed(d);
	HASH_ITER(hh, d->owners, o, next)
		if (d->connected)
			drop_idle(d, o, now);
	fast_unlock(d->f->host);
}

static void on_tick(uv_timer_t *t)
{
	struct dir *d = t->data;

	dir_tick(d, fast_clock());
	if (!d->entries)
		uv_timer_stop(t);
}

/* ---- other hosts ---------------------------------------------------------------------------- */

static void on_host(void *arg, int err, const char *why, json_t *answer)
{
	struct dir *d = arg;
	struct ffo_host h;

	(void)why;
	d->num_wanted--;
	if (err || ffo_host_from_json(json_object_get(answer, "host"), &h))
		return;
	fast_lock(d->f->host);
	peer_of_host(d->conf.peers, h.name, h.instance, h.wire, h.up);
	fast_unlock(d->f->host);
}

/* A router connects that says to be of a host that is not known here (peer.c). */
void dir_want_host(void *arg, const char *host)
{
	struct dir *d = arg;

	if (!d->ask || d->num_wanted >= MAX_WANTED || !ffo_name_ok(host))
		return;
	d->num_wanted++;
	d->ask(d->orch, FFO_OP_HOST_GET, json_pack("{s:s}", "host", host), on_host, d);
}

/* ---- life ----------------------------------------------------------------------------------- */

/* [lock] */
static void all_subs(struct dir *d, void (*fn)(struct dir *d, struct dir_sub *s))
{
	struct dir_entry *e, *next;

	HASH_ITER(hh, d->entries, e, next) {
		fn(d, &e->sub);
		fn(d, &e->more);
		if (e->r.maps)
			maps_online(e->r.maps, d->connected);
		entry_reap(d, e);
	}
}

static void sub_again(struct dir *d, struct dir_sub *s)
{
	if (s->want)
		sub_queue(d, s);
}

static void sub_lost(struct dir *d, struct dir_sub *s)
{
	(void)d;
	s->told = s->stale = false;
}

void dir_connected(struct dir *d, dir_ask_fn *ask, struct orch *o)
{
	d->ask = ask;
	d->orch = o;
	fast_lock(d->f->host);
	d->connected = true;
	all_subs(d, sub_again);
	fast_unlock(d->f->host);
}

void dir_store_changed(struct dir *d)
{
	fast_lock(d->f->host);
	d->store++;
	fast_unlock(d->f->host);
}

void dir_disconnected(struct dir *d)
{
	fast_lock(d->f->host);
	d->connected = false;
	all_subs(d, sub_lost);
	fast_unlock(d->f->host);
}

int dir_create(const struct dir_conf *conf)
{
	struct dir *d = dir_new(conf);
	int err;

	if (!d)
		return -ENOMEM;
	err = uv_async_init(conf->loop, &d->async, on_wake);
	if (err) {
		dir_clear(d);
		free(d);
		return err;
	}
	uv_timer_init(conf->loop, &d->tick);
	d->async.data = d->tick.data = d;
	d->wake = wake;
	conf->fast->dir = d;
	if (conf->peers)
		peers_on_stranger(conf->peers, dir_want_host, d);
	return 0;
}

static void on_handle_closed(uv_handle_t *h)
{
	struct dir *d = h->data;

	if (!--d->open_handles)
		free(d);
}

void dir_free(struct dir *d)
{
	if (!d)
		return;
	fast_lock(d->f->host);
	dir_clear(d);
	d->f->host->dir = NULL;
	fast_unlock(d->f->host);
	if (d->conf.peers)
		peers_on_stranger(d->conf.peers, NULL, NULL);
	d->open_handles = 2;
	uv_close((uv_handle_t *)&d->async, on_handle_closed);
	uv_close((uv_handle_t *)&d->tick, on_handle_closed);
}
