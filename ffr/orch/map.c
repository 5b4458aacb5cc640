/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * map.c - the orchestrator is told what other hosts' containers may reach here. Control thread.
 *
 * Mappings are published in batches, one under way at a time, so that they stay in order; what comes meanwhile, and
 * for BATCH_DELAY more, is the next one: a message for each MR would take this thread longer than the registration.
 * An MR that goes before its batch was sent is never mentioned. Nobody waits for any of this.
 *
 * Memory windows are bound and invalidated on the fast thread, perhaps with every message. So they
 * are not queued one change after the other: a window that has changed is on its container's
 * mw.changed, once, and when the next batch is made it is told as it is then.
 *
 * Tests: test_orch.c
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "ffr/ctl/container.h"
#include "ffr/lib/log.h"
#include "ffr/fast/mw.h"
#include "ffr/orch/internal.h"

#define BATCH_DELAY  2	 /* ms: what is registered meanwhile travels together */
#define WINDOW_BATCH 64u /* windows looked at before the fast thread has its turn */

/* A mapping to publish, not sent yet. */
struct publish {
	uint64_t id; /* container << 32 | rkey */
	struct ffo_map map;
	UT_hash_handle hh;
};

/* A mapping, or all of a session, to be withdrawn. */
struct withdraw {
	STAILQ_ENTRY(withdraw) entry;
	uint32_t container;
	uint32_t rkey; /* 0: all of the session */
	uint32_t session;
};

static void flush_soon(struct orch *o);

/* ---- what is to be told --------------------------------------------------------------------- */

static uint64_t map_id(uint32_t container, uint32_t rkey)
{
	return (uint64_t)container << 32 | rkey;
}

void orch_map_down(struct orch *o)
{
	struct publish *p, *tmp;
	struct withdraw *w;

	HASH_ITER(hh, o->publish, p, tmp) {
		HASH_DEL(o->publish, p);
		free(p);
	}
	while ((w = STAILQ_FIRST(&o->withdraw))) {
		STAILQ_REMOVE_HEAD(&o->withdraw, entry);
		free(w);
	}
	o->map_busy = false;
	uv_timer_stop(&o->flush);
}

static void publish_add(struct orch *o, const char *name, const struct ffo_map *map)
{
	struct publish *p = calloc(1, sizeof(*p));

	if (p) {
		p->id = map_id(map->container, map->rkey);
		p->map = *map;
		HASH_ADD(hh, o->publish, id, sizeof(p->id), p);
	}
	if (!p || !p->hh.tbl) {
		log_err("container %s: mapping not published: out of memory", name);
		free(p);
		return;
	}
	flush_soon(o);
}

/* The router's address of the MR's first byte, if one mapping reaches all of it. */
static uint64_t map_shadow(const struct mr *mr)
{
	const struct mr_run *run = mr->run;

	if (mr->num_runs != 1 || run->va > mr->addr || run->va + run->len < mr->addr + mr->length)
		return 0;
	return (uint64_t)(run->host + (mr->addr - run->va));
}

void orch_map_publish(struct orch *o, const struct mr *mr)
{
	const struct container *c = mr->o.ses->cont;
	struct ffo_map map = {
		.container = c->id,
		.rkey = mr->rkey,
		.session = mr->o.ses->id,
		.addr = mr->iova,
		.length = mr->length,
		.access = mr->access,
		.key = mr->rkey,
		.epoch = c->epoch,
	};

	if (!o->up || mr->kind == MR_NULL)
		return; /* all are published when it is; nobody asks for nothing */
	map.shadow = map_shadow(mr);
	publish_add(o, c->name, &map);
}

static void withdraw_add(struct orch *o, uint32_t container, uint32_t rkey, uint32_t session)
{
	struct withdraw *w = calloc(1, sizeof(*w));

	if (!w) {
		log_err("mapping not withdrawn: out of memory");
		return;
	}
	*w = (struct withdraw){ .container = container, .rkey = rkey, .session = session };
	STAILQ_INSERT_TAIL(&o->withdraw, w, entry);
	flush_soon(o);
}

void orch_map_withdraw(struct orch *o, uint32_t container, uint32_t rkey)
{
	uint64_t id = map_id(container, rkey);
	struct publish *p;

	if (!o->up)
		return;
	HASH_FIND(hh, o->publish, &id, sizeof(id), p);
	if (!p) {
		withdraw_add(o, container, rkey, 0);
		return;
	}
	HASH_DEL(o->publish, p);
	free(p);
}

void orch_session_gone(struct orch *o, uint32_t container, uint32_t session)
{
	struct publish *p, *tmp;

	if (!o->up)
		return;
	HASH_ITER(hh, o->publish, p, tmp) {
		if (p->map.container != container || p->map.session != session)
			continue;
		HASH_DEL(o->publish, p);
		free(p);
	}
	withdraw_add(o, container, 0, session);
}

/* ---- windows -------------------------------------------------------------------------------- */

/* A window as it was seen with the lock held. */
struct seen {
	char name[CONTAINER_NAME_MAX];
	uint32_t container, withdraw;
	bool bound;
	struct ffo_map map;
};

/* [lock] */
static void window_see(struct mw *mw, struct seen *w)
{
	const struct container *c = mw->o.ses->cont;

	memcpy(w->name, c->name, sizeof(w->name));
	w->container = c->id;
	w->withdraw = mw->published;
	w->bound = mw->mr != NULL;
	mw->published = w->bound ? mw->rkey : 0;
	w->map = (struct ffo_map){
		.container = c->id,
		.rkey = mw->rkey,
		.session = mw->o.ses->id,
		.addr = mw->base,
		.length = mw->length,
		.access = mw->access,
		.key = mw->rkey,
		.epoch = c->epoch,
	};
}

/* Some of the windows that have changed; true: there are more. */
static bool windows_take(struct orch *o)
{
	struct fast_host *h = o->ctl->host;
	struct seen seen[WINDOW_BATCH];
	struct mw *mw;
	unsigned n = 0;
	bool more;

	fast_lock(h);
	while (n < WINDOW_BATCH && (mw = mw_next_changed(h)))
		window_see(mw, &seen[n++]);
	more = mw_any_changed(h);
	fast_unlock(h);
	for (unsigned i = 0; i < n; i++) {
		if (seen[i].withdraw)
			orch_map_withdraw(o, seen[i].container, seen[i].withdraw);
		if (seen[i].bound)
			publish_add(o, seen[i].name, &seen[i].map);
	}
	return more;
}

static void on_windows(uv_async_t *h)
{
	struct orch *o = h->data;

	if (o->up)
		flush_soon(o);
}

static bool windows_waiting(struct orch *o)
{
	bool any;

	fast_lock(o->ctl->host);
	any = mw_any_changed(o->ctl->host);
	fast_unlock(o->ctl->host);
	return any;
}

static void windows_wake(struct fast_host *h)
{
	uv_async_send(h->mw_arg);
}

/* ---- batches -------------------------------------------------------------------------------- */

static void flush_next(struct orch *o);

static bool anything_waits(struct orch *o)
{
	return o->publish || !STAILQ_EMPTY(&o->withdraw) || windows_waiting(o);
}

static void flush_done(void *arg, int err, const char *why, json_t *answer)
{
	struct orch *o = arg;
	size_t refused = json_array_size(json_object_get(answer, "refused"));

	if (err == -ECONNRESET || err == -ECANCELED)
		return;
	if (err == -ENOENT || refused)
		log_debug("orchestrator: mappings of a container that has left were refused");
	else if (err)
		log_warn("orchestrator: mappings: %s", why);
	o->map_busy = false;
	if (o->map_full) /* more have gathered than one message has room for */
		flush_next(o);
	if (!o->map_busy && anything_waits(o))
		flush_soon(o);
}

static json_t *publish_batch(struct orch *o)
{
	json_t *rows = json_array();
	struct publish *p, *tmp;

	HASH_ITER(hh, o->publish, p, tmp) {
		if (json_array_size(rows) == FFO_BATCH_MAX)
			break;
		json_array_append_new(rows, ffo_map_to_json(&p->map));
		HASH_DEL(o->publish, p);
		free(p);
	}
	o->map_full = json_array_size(rows) == FFO_BATCH_MAX;
	return json_pack("{s:o}", "maps", rows);
}

/* The next withdrawals of one kind: single mappings, or a session. */
static json_t *withdraw_batch(struct orch *o, enum ffo_op *op)
{
	struct withdraw *w = STAILQ_FIRST(&o->withdraw);
	json_t *rows, *fields;

	if (!w->rkey) {
		*op = FFO_OP_MAP_DROP;
		o->map_full = true; /* it is not of a kind with the next one */
		fields = json_pack("{s:I, s:I}", "container", (json_int_t)w->container, "session",
				   (json_int_t)w->session);
		STAILQ_REMOVE_HEAD(&o->withdraw, entry);
		free(w);
		return fields;
	}
	*op = FFO_OP_MAP_WITHDRAW;
	rows = json_array();
	while ((w = STAILQ_FIRST(&o->withdraw)) && w->rkey &&
	       json_array_size(rows) < FFO_BATCH_MAX) {
		json_array_append_new(rows, json_pack("[I, I]", (json_int_t)w->container,
						      (json_int_t)w->rkey));
		STAILQ_REMOVE_HEAD(&o->withdraw, entry);
		free(w);
	}
	o->map_full = json_array_size(rows) == FFO_BATCH_MAX;
	return json_pack("{s:o}", "maps", rows);
}

/* Withdrawals first: they are of mappings that were published before what waits now. */
static void flush_next(struct orch *o)
{
	enum ffo_op op = FFO_OP_MAP_PUBLISH;
	json_t *fields;
	int err;

	if (!o->up || o->map_busy)
		return;
	if (!STAILQ_EMPTY(&o->withdraw))
		fields = withdraw_batch(o, &op);
	else if (o->publish)
		fields = publish_batch(o);
	else
		return;
	err = ffo_client_call(o->client, op, fields, flush_done, o);
	if (err)
		log_err("orchestrator: mappings: %s", strerror(-err));
	else
		o->map_busy = true;
}

/*
 * Windows have their turn here only, so many at a time: they may change as fast as messages go, and
 * their rows shall not keep this thread from its other work.
 */
static void on_flush(uv_timer_t *t)
{
	struct orch *o = t->data;

	if (!o->up || o->map_busy)
		return;
	if (windows_take(o))
		uv_timer_start(&o->flush, on_flush, BATCH_DELAY, 0);
	flush_next(o);
}

static void flush_soon(struct orch *o)
{
	if (!o->map_busy && !uv_is_active((uv_handle_t *)&o->flush))
		uv_timer_start(&o->flush, on_flush, BATCH_DELAY, 0);
}

/* ---- a new connection ----------------------------------------------------------------------- */

static void session_publish(struct orch *o, struct session *s)
{
	const struct obj_table *mrs = &s->tab[OBJ_MR], *mws = &s->tab[OBJ_MW];
	struct mw *mw;

	for (uint32_t i = 0; i < mrs->size; i++)
		if (mrs->slot[i])
			orch_map_publish(o, obj_of(mrs->slot[i], mr));
	for (uint32_t i = 0; i < mws->size; i++) {
		mw = obj_of(mws->slot[i], mw);
		if (!mw)
			continue;
		fast_lock(s->fast->host);
		mw->published = 0;
		if (mw->mr)
			mw_note(mw);
		fast_unlock(s->fast->host);
	}
}

void orch_map_up(struct orch *o)
{
	struct container *c;
	struct session *s;

	LIST_FOREACH(c, &o->ctl->host->containers, entry)
		LIST_FOREACH(s, &c->sessions, entry)
			session_publish(o, s);
}

int orch_map_init(struct orch *o)
{
	struct fast_host *h = o->ctl->host;
	int err = uv_async_init(o->ctl->loop, &o->windows, on_windows);

	if (err)
		return err;
	STAILQ_INIT(&o->withdraw);
	uv_timer_init(o->ctl->loop, &o->flush);
	o->windows.data = o->flush.data = o;
	o->open_handles += 2;
	fast_lock(h);
	h->mw_wake = windows_wake;
	h->mw_arg = &o->windows;
	fast_unlock(h);
	return 0;
}

void orch_map_stop(struct orch *o)
{
	struct fast_host *h = o->ctl->host;

	orch_map_down(o);
	fast_lock(h);
	h->mw_wake = NULL;
	fast_unlock(h);
	uv_close((uv_handle_t *)&o->windows, orch_on_handle_closed);
	uv_close((uv_handle_t *)&o->flush, orch_on_handle_closed);
}
