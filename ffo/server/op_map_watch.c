/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * op_map_watch.c - a container's mappings, told to the routers that talk to it. Called by request.c;
 * the orchestrator's loop only.
 *
 * The container is watched for its epoch, and the mappings of that epoch. The rows stay in the
 * store: a subscription knows how far its listing has come and which rkeys behind that have changed
 * since, and reads rows when the connection has room for an event. Changes ahead of the listing
 * need no mark, the listing will find them. When too many marks have come together, listing all
 * again is cheaper.
 */
#include "ffo/server/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MARKS_MAX 65536u

struct map_sub {
	struct sub sub;				  /* first */
	struct store_watch cont_watch, map_watch; /* map_watch.cb NULL: none, epoch is 0 */
	uint32_t epoch;
	char tenant[FFO_NAME_MAX], name[FFO_NAME_MAX], host[FFO_NAME_MAX]; /* the container's */
	uint32_t is_at;	 /* its epoch in the store; 0: there is no such container */
	bool reset;	 /* the next event begins anew */
	bool readable;	 /* the store has the rows */
	bool listing;	 /* not through with it */
	uint32_t after;	 /* rkeys up to it are listed */
	uint32_t *marks; /* [num_marks] rkeys that have changed, in any order, perhaps repeatedly */
	size_t num_marks, cap;
};

static struct map_sub *map_of(struct sub *sub)
{
	return (struct map_sub *)sub;
}

static struct ffo_store *store_of(const struct map_sub *m)
{
	return m->sub.conn->ffo->store;
}

static void list_again(struct map_sub *m)
{
	m->reset = m->listing = true;
	m->after = 0;
	m->num_marks = 0;
}

/* ---- what has changed ------------------------------------------------------------------------ */

static bool mark_room(struct map_sub *m, size_t n)
{
	size_t cap = m->cap ? m->cap : 64;
	uint32_t *more;

	if (m->num_marks + n > MARKS_MAX)
		return false;
	while (cap < m->num_marks + n)
		cap *= 2;
	if (cap == m->cap)
		return true;
	more = reallocarray(m->marks, cap, sizeof(*more));
	if (!more)
		return false;
	m->marks = more;
	m->cap = cap;
	return true;
}

static void mark(struct map_sub *m, const uint32_t *rkeys, size_t n)
{
	if (!mark_room(m, n)) {
		list_again(m);
		return;
	}
	for (size_t i = 0; i < n; i++)
		if (!m->listing || rkeys[i] <= m->after)
			m->marks[m->num_marks++] = rkeys[i];
}

static void maps_came(void *arg, const struct store_news *news)
{
	struct map_sub *m = arg;

	if (news->err) { /* there are none that could be used */
		list_again(m);
		m->readable = false;
		sub_changed(&m->sub);
		return;
	}
	if (news->reset) {
		list_again(m);
		m->readable = false;
	}
	if (news->synced)
		m->readable = true;
	mark(m, news->map.rkeys, news->reset ? 0 : news->map.num);
	if (m->reset || m->num_marks)
		sub_changed(&m->sub);
}

static void unwatch_maps(struct map_sub *m)
{
	if (m->map_watch.cb)
		store_of(m)->ops->unwatch(store_of(m), &m->map_watch);
	m->map_watch.cb = NULL;
	m->readable = false;
}

/* 0: there is no such container, or the host that asks may not know of it. */
static uint32_t epoch_now(const struct map_sub *m)
{
	return m->is_at && access_peer(m->sub.conn, m->tenant, m->name) ? m->is_at : 0;
}

static void look(struct map_sub *m)
{
	uint32_t epoch = epoch_now(m);

	if (m->epoch == epoch && (epoch || m->reset))
		return;
	unwatch_maps(m);
	m->epoch = epoch;
	list_again(m);
	sub_changed(&m->sub);
	if (!epoch)
		return;
	memset(&m->map_watch, 0, sizeof(m->map_watch));
	m->map_watch.key.kind = STORE_MAP;
	m->map_watch.key.id = m->sub.key.id;
	m->map_watch.key.epoch = epoch;
	memcpy(m->map_watch.key.name, m->host, sizeof(m->host));
	m->map_watch.cb = maps_came;
	m->map_watch.arg = m;
	store_of(m)->ops->watch(store_of(m), &m->map_watch);
}

static void container_came(void *arg, const struct store_news *news)
{
	const struct ffo_container *c = news->err ? NULL : news->container;
	struct map_sub *m = arg;

	m->is_at = c ? c->epoch : 0;
	if (c) {
		memcpy(m->tenant, c->tenant, sizeof(m->tenant));
		memcpy(m->name, c->name, sizeof(m->name));
		memcpy(m->host, c->host, sizeof(m->host));
	}
	look(m);
}

static void access_is_other(struct sub *sub)
{
	struct map_sub *m = map_of(sub);

	if (epoch_now(m) != m->epoch)
		look(m);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* The next page of the listing into put[]. 0 or -errno. */
static int list_page(struct map_sub *m, json_t *put)
{
	struct ffo_map *rows = malloc(FFO_BATCH_MAX * sizeof(*rows));
	ssize_t n = -ENOMEM;
	int err = 0;

	if (rows)
		n = store_of(m)->ops->map_page(store_of(m), &m->map_watch, m->after, rows,
					       FFO_BATCH_MAX);
	for (ssize_t i = 0; i < n; i++)
		err |= json_array_append_new(put, ffo_map_to_json(&rows[i]));
	if (n > 0)
		m->after = rows[n - 1].rkey;
	if (n >= 0 && n < (ssize_t)FFO_BATCH_MAX)
		m->listing = false;
	free(rows);
	return n < 0 ? (int)n : err ? -ENOMEM : 0;
}

static int by_number(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* The rows of some marks into put[] and del[]. 0 or -errno. */
static int tell_marks(struct map_sub *m, json_t *put, json_t *del)
{
	size_t told = 0, i = m->num_marks;
	struct ffo_map row;
	int err = 0;

	if (m->num_marks > 1)
		qsort(m->marks, m->num_marks, sizeof(*m->marks), by_number);
	while (!err && i && told < FFO_BATCH_MAX) {
		i--;
		if (i && m->marks[i] == m->marks[i - 1])
			continue;
		err = store_of(m)->ops->map_row(store_of(m), &m->map_watch, m->marks[i], &row);
		if (!err)
			err = json_array_append_new(put, ffo_map_to_json(&row)) ? -ENOMEM : 0;
		else if (err == -ENOENT)
			err = json_array_append_new(del, json_integer(m->marks[i])) ? -ENOMEM : 0;
		told++;
	}
	m->num_marks = i;
	return err;
}

static enum sub_event event(struct sub *sub, json_t **msg)
{
	struct map_sub *m = map_of(sub);
	json_t *put, *del;
	bool reset = m->reset, more;
	int err = 0;

	if (!m->readable && !reset)
		return SUB_NOTHING;
	put = json_array();
	del = json_array();
	m->reset = false;
	if (m->readable && m->num_marks)
		err = tell_marks(m, put, del);
	else if (m->readable && m->listing)
		err = list_page(m, put);
	more = m->readable && (m->listing || m->num_marks);
	*msg = json_pack("{s:s, s:I, s:I, s:b, s:o, s:o, s:b}", "event", "map", "container",
			 (json_int_t)sub->key.id, "epoch", (json_int_t)m->epoch, "reset",
			 (int)reset, "put", put, "del", del, "synced",
			 !m->epoch || (m->readable && !more));
	if (err) {
		json_decref(*msg);
		*msg = NULL;
	}
	return more ? SUB_MORE : SUB_LAST;
}

/* ---- the subscription ------------------------------------------------------------------------ */

static void start(struct sub *sub, const struct request *r)
{
	struct map_sub *m = map_of(sub);

	(void)r;
	m->cont_watch.key = sub->key;
	m->cont_watch.key.kind = STORE_ID;
	m->cont_watch.cb = container_came;
	m->cont_watch.arg = m;
	store_of(m)->ops->watch(store_of(m), &m->cont_watch);
	sub_ready(sub, 0, ""); /* everything is told by events, which come later */
}

static void stop(struct sub *sub)
{
	struct map_sub *m = map_of(sub);

	unwatch_maps(m);
	store_of(m)->ops->unwatch(store_of(m), &m->cont_watch);
	free(m->marks);
}

static const struct sub_ops map_ops = {
	.size = sizeof(struct map_sub),
	.start = start,
	.stop = stop,
	.event = event,
	.policy = access_is_other,
	.access = access_is_other,
};

int op_map_watch(struct request *r)
{
	const struct store_key key = { .kind = STORE_MAP, .id = r->arg.map_watch.container };

	return sub_request(r, &map_ops, &key);
}

int op_map_unwatch(struct request *r)
{
	const struct store_key key = { .kind = STORE_MAP, .id = r->arg.map_unwatch.container };

	return sub_cancel(r, &key);
}
