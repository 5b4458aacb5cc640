/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * maps.c - lists of mappings, by page. See zks.h. The orchestrator's loop only.
 *
 * A list is for people: to have its pages, each container is watched for a while, and a page is
 * taken when a sync tells that nothing is known to be newer. The watch stays for HOLD, so that the
 * next page costs nothing but the sync.
 *
 * Tests: test_topic.c
 */
#include "ffo/store/zk/zks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOLD 3000u /* ms that a watch stays after its last page */

struct held {
	struct held *next;
	struct store_watch w;
	unsigned int users;
	uint64_t used; /* ms of the loop */
};

struct maps_call {
	struct zks *s;
	uint32_t *ids; /* of containers, rising */
	size_t num_ids, cap_ids, at;
	size_t pending; /* hosts whose containers are asked for, and one while they are */
	int err;
	uint32_t container, rkey; /* behind these */
	struct held *held;
	uint64_t deadline;
	struct ffo_map *rows;
	size_t n, limit;
	store_maps_cb done;
	void *arg;
};

/* ---- watches that stay ---------------------------------------------------------------------- */

static void held_told(void *arg, const struct store_news *news)
{
	(void)arg, (void)news;
}

static void held_tick(uv_timer_t *t)
{
	held_sweep(t->data, false);
}

static struct held *held_get(struct zks *s, uint32_t id, uint32_t epoch, const char *host)
{
	struct held *h;

	for (h = s->held; h; h = h->next)
		if (h->w.key.id == id && h->w.key.epoch == epoch)
			break;
	if (!h) {
		h = calloc(1, sizeof(*h));
		if (!h)
			return NULL;
		h->w.key.kind = STORE_MAP;
		h->w.key.id = id;
		h->w.key.epoch = epoch;
		strcpy(h->w.key.name, host); /* of the same size */
		h->w.cb = held_told;
		h->next = s->held;
		s->held = h;
		zks_watch(&s->base, &h->w);
		uv_timer_start(&s->linger, held_tick, HOLD, HOLD);
	}
	h->users++;
	return h;
}

static void held_put(struct zks *s, struct held *h)
{
	if (!h)
		return;
	h->users--;
	h->used = uv_now(s->loop);
}

void held_sweep(struct zks *s, bool all)
{
	struct held **at = &s->held, *h;

	while ((h = *at)) {
		if (!all && (h->users || uv_now(s->loop) - h->used < HOLD)) {
			at = &h->next;
			continue;
		}
		*at = h->next;
		zks_unwatch(&s->base, &h->w);
		free(h);
	}
	if (!s->held)
		uv_timer_stop(&s->linger);
}

/* ---- map_list ------------------------------------------------------------------------------- */

static void list_next(struct maps_call *m);

static void list_end(struct maps_call *m, int err, bool more)
{
	held_put(m->s, m->held);
	m->done(m->arg, err, "", m->rows, err ? 0 : m->n, !err && more);
	free(m->rows);
	free(m->ids);
	free(m);
}

static void list_page(struct maps_call *m)
{
	uint32_t after = m->ids[m->at] == m->container ? m->rkey : 0;
	ssize_t n =
		zks_map_page(&m->s->base, &m->held->w, after, m->rows + m->n, m->limit + 1 - m->n);

	if (n < 0) {
		list_end(m, (int)n, false);
		return;
	}
	m->n += (size_t)n;
	held_put(m->s, m->held);
	m->held = NULL;
	m->at++;
	list_next(m);
}

static void list_synced(void *arg, const struct zk_reply *r)
{
	struct maps_call *m = arg;
	int err = r->err;

	if (!err && zks_map_settled(&m->held->w)) {
		list_page(m);
		return;
	}
	if (!err && uv_now(m->s->loop) > m->deadline)
		err = -EAGAIN;
	if (!err)
		err = zk_sync(m->s->zk, list_synced, m);
	if (err)
		list_end(m, err, false);
}

static void list_container(void *arg, int err, const char *why, const struct ffo_container *c)
{
	struct maps_call *m = arg;

	(void)why;
	if (err == -ENOENT || err == -EBADMSG) {
		m->at++;
		list_next(m);
		return;
	}
	if (!err) {
		m->held = held_get(m->s, c->id, c->epoch, c->host);
		err = m->held ? zk_sync(m->s->zk, list_synced, m) : -ENOMEM;
	}
	if (err)
		list_end(m, err, false);
}

static void list_next(struct maps_call *m)
{
	struct store_key key = { .kind = STORE_ID };

	if (m->n > m->limit || m->at == m->num_ids) {
		bool more = m->n > m->limit;

		m->n = more ? m->limit : m->n;
		list_end(m, 0, more);
		return;
	}
	key.id = m->ids[m->at];
	zks_container_get(&m->s->base, &key, list_container, m);
}

static int id_cmp(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* The containers that any host has published mappings of are known, or -errno. */
static void list_put(struct maps_call *m, int err)
{
	size_t n = 0;

	if (err && !m->err)
		m->err = err;
	if (--m->pending)
		return;
	if (m->err) {
		list_end(m, m->err, false);
		return;
	}
	if (m->num_ids)
		qsort(m->ids, m->num_ids, sizeof(*m->ids), id_cmp);
	/* One that moves may be two hosts' for a moment. */
	for (size_t i = 0; i < m->num_ids; i++)
		if (!i || m->ids[i] != m->ids[i - 1])
			m->ids[n++] = m->ids[i];
	m->num_ids = n;
	list_next(m);
}

static void list_ids(void *arg, const struct zk_reply *r)
{
	struct maps_call *m = arg;
	uint32_t *ids, id;
	size_t cap = m->num_ids + r->num;

	if (!r->err && cap > m->cap_ids) {
		ids = reallocarray(m->ids, 2 * cap, sizeof(*ids));
		if (!ids) {
			list_put(m, -ENOMEM);
			return;
		}
		m->ids = ids;
		m->cap_ids = 2 * cap;
	}
	for (size_t i = 0; !r->err && i < r->num; i++)
		if (!rec_name_number(r->names[i], &id) && id >= m->container)
			m->ids[m->num_ids++] = id;
	list_put(m, r->err == -ENOENT ? 0 : r->err);
}

static void list_hosts(void *arg, const struct zk_reply *r)
{
	struct maps_call *m = arg;
	char path[ZK_PATH_MAX];
	int err = r->err;

	for (size_t i = 0; !err && i < r->num; i++) {
		if (!ffo_name_ok(r->names[i]))
			continue;
		snprintf(path, sizeof(path), "/hosts/%s/maps", r->names[i]);
		err = zk_children(m->s->zk, path, false, list_ids, m);
		m->pending += !err;
	}
	list_put(m, err);
}

void zks_map_list(struct ffo_store *base, uint32_t only, uint32_t container, uint32_t rkey,
		  size_t limit, store_maps_cb done, void *arg)
{
	struct zks *s = zks_of(base);
	int err;
	struct maps_call *m = zks_call_new(s, sizeof(*m), &err);

	if (!m) {
		done(arg, err, "", NULL, 0, false);
		return;
	}
	*m = (struct maps_call){ .s = s,
				 .container = container,
				 .rkey = rkey,
				 .limit = limit,
				 .deadline = uv_now(s->loop) + STORE_PATIENCE,
				 .done = done,
				 .arg = arg };
	m->rows = calloc(limit + 1, sizeof(*m->rows));
	if (!m->rows) {
		list_end(m, -ENOMEM, false);
		return;
	}
	if (only) {
		m->ids = calloc(1, sizeof(*m->ids));
		m->num_ids = m->ids && only >= container;
		if (m->ids)
			m->ids[0] = only;
		list_next(m);
		return;
	}
	zk_sync(s->zk, NULL, NULL);
	m->pending = 1;
	err = zk_children(s->zk, "/hosts", false, list_hosts, m);
	if (err)
		list_end(m, err, false);
}
