/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ephemeral.c - the ephemeral nodes of the hosts that are up here: what is published of their memory,
 * which of their containers are active, of which groups they are members. See zks.h. The
 * orchestrator's loop only.
 *
 * Theory: what there shall be is kept here, and written when it can be. A node is wanted or not, and
 * known to be there, not there, or (after a lost connection) neither; a change marks it as to be
 * written, and waits for a write that began later. So writes can be repeated without harm, a hundred
 * changes while one is under way make one more, and calls outlive a lost connection. When the session
 * is over, all of it goes, here and there.
 *
 * Mappings are packed into segments. New ones go into the open segment until it is full; a changed or
 * withdrawn one makes its segment be written anew. Segments are written at most every SEG_PACE, so
 * that what many registrations add travels in few writes; the first after a pause goes at once.
 *
 * Tests: test_topic.c, test_host.c
 */
#include "ffo/store/zk/zks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WRITING 64u
#define MAX_TRIES   32u
#define SEG_PACE    4000000u /* ns */

struct wait {
	STAILQ_ENTRY(wait) entry;
	struct ephemeral_call *call;
};
STAILQ_HEAD(wait_queue, wait);

struct node {
	struct uphost *host;
	LIST_ENTRY(node) entry;
	STAILQ_ENTRY(node) queue;
	UT_hash_handle hh; /* by path, but segments */
	enum node_kind kind;
	bool want;
	bool wrote; /* what the write under way wants */
	bool queued, busy;
	enum { NODE_GONE, NODE_THERE, NODE_UNKNOWN } at;
	unsigned int tries;
	struct wait_queue next, now; /* for the next write, for the one under way */
	/* a segment's */
	struct mapset *maps;
	LIST_ENTRY(node) room; /* in maps->room, if `has_room` */
	bool has_room;
	struct row_list rows;
	uint32_t num;
	char path[];
};

/* The mappings of a container in an epoch. */
struct mapset {
	struct {
		uint32_t container, epoch;
	} key;
	UT_hash_handle hh;
	struct row_tree rows;
	struct node *open;	/* where new ones go, NULL: none */
	LIST_HEAD(, node) room; /* segments that are half empty */
	unsigned int segments;
};

/* ---- calls ---------------------------------------------------------------------------------- */

struct ephemeral_call *ephemeral_begin(struct zks *s)
{
	struct ephemeral_call *c = calloc(1, sizeof(*c));

	if (c) {
		c->s = s;
		c->pending = 1;
	}
	return c;
}

static void call_put(struct ephemeral_call *c, int err)
{
	if (err && !c->err)
		c->err = err;
	if (--c->pending)
		return;
	if (c->own)
		c->own(c->arg, c->err);
	else if (c->done)
		c->done(c->arg, c->err, "");
	else if (c->counted)
		c->counted(c->arg, c->err, "", c->count);
	free(c);
}

void ephemeral_end(struct ephemeral_call *c)
{
	struct zks *s = c->s;

	call_put(c, 0);
	ephemeral_pump(s);
}

static int wait_add(struct node *n, struct ephemeral_call *c)
{
	struct wait *w = STAILQ_LAST(&n->next, wait, entry);

	if (w && w->call == c)
		return 0;
	w = malloc(sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->call = c;
	c->pending++;
	STAILQ_INSERT_TAIL(&n->next, w, entry);
	return 0;
}

static void waits_end(struct wait_queue *q, int err)
{
	struct wait_queue ended = STAILQ_HEAD_INITIALIZER(ended);
	struct wait *w;

	STAILQ_CONCAT(&ended, q);
	while ((w = STAILQ_FIRST(&ended))) {
		STAILQ_REMOVE_HEAD(&ended, entry);
		call_put(w->call, err);
		free(w);
	}
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static void node_queue(struct node *n)
{
	struct zks *s = n->host->s;

	if (n->queued || n->busy)
		return;
	n->queued = true;
	if (n->kind == NODE_SEGMENT)
		STAILQ_INSERT_TAIL(&s->segments, n, queue);
	else
		STAILQ_INSERT_TAIL(&s->urgent, n, queue);
}

/* It has changed; c waits until it is written. */
static int node_touch(struct node *n, struct ephemeral_call *c)
{
	int err = wait_add(n, c);

	n->tries = 0;
	node_queue(n);
	return err;
}

static void node_free(struct node *n)
{
	struct uphost *h = n->host;

	if (n->queued && n->kind == NODE_SEGMENT)
		STAILQ_REMOVE(&h->s->segments, n, node, queue);
	else if (n->queued)
		STAILQ_REMOVE(&h->s->urgent, n, node, queue);
	LIST_REMOVE(n, entry);
	if (n->kind != NODE_SEGMENT)
		HASH_DEL(h->by_path, n);
	free(n);
}

static struct node *node_new(struct uphost *h, enum node_kind kind, const char *path)
{
	size_t len = strlen(path);
	struct node *n = calloc(1, sizeof(*n) + len + 1);

	if (!n)
		return NULL;
	n->host = h;
	n->kind = kind;
	memcpy(n->path, path, len + 1);
	STAILQ_INIT(&n->next);
	STAILQ_INIT(&n->now);
	LIST_INIT(&n->rows);
	if (kind != NODE_SEGMENT) {
		HASH_ADD_KEYPTR(hh, h->by_path, n->path, len, n);
		if (!n->hh.tbl) {
			free(n);
			return NULL;
		}
	}
	LIST_INSERT_HEAD(&h->nodes, n, entry);
	return n;
}

int ephemeral_node(struct uphost *h, enum node_kind kind, const char *path, bool want, bool there,
		   struct ephemeral_call *c)
{
	struct node *n;

	HASH_FIND_STR(h->by_path, path, n);
	if (!n && !want)
		return 0;
	if (!n)
		n = node_new(h, kind, path);
	if (!n)
		return -ENOMEM;
	n->want = want;
	if (there) {
		n->at = NODE_THERE;
		return 0;
	}
	return node_touch(n, c);
}

/* ---- writing -------------------------------------------------------------------------------- */

static void seg_removed(struct node *n);

/* What the node holds, from malloc(). */
static char *node_data(const struct node *n, size_t *len)
{
	struct rec_up up = { .host = n->host->h };
	struct ffo_map m;
	struct row *r;
	uint8_t *buf;
	uint32_t i = 0;

	switch (n->kind) {
	case NODE_SEGMENT:
		*len = SEG_HEAD + n->num * SEG_ROW;
		buf = malloc(*len);
		if (!buf)
			return NULL;
		seg_head(buf, n->maps->key.container, n->maps->key.epoch, n->num);
		LIST_FOREACH(r, &n->rows, entry) {
			row_to_map(r, n->maps->key.container, n->maps->key.epoch, &m);
			seg_row(buf, i++, &m);
		}
		return (char *)buf;
	case NODE_ACTIVE:
		*len = 0;
		return malloc(1);
	case NODE_UP:
		up.session = n->host->s->session;
		rec_process(up.process);
		return rec_up(&up, len);
	case NODE_MCAST:
		return rec_up(&up, len);
	}
	return NULL;
}

/* Write it again later: nothing is known of it, or something is in the way. */
static void node_later(struct node *n)
{
	STAILQ_CONCAT(&n->now, &n->next);
	STAILQ_CONCAT(&n->next, &n->now);
	node_queue(n);
}

/* The write under way has ended with nobody knowing better: on to what came meanwhile. */
static void node_settle(struct node *n, int err)
{
	struct zks *s = n->host->s;

	n->tries = 0;
	if (!STAILQ_EMPTY(&n->next))
		node_queue(n);
	if (n->kind == NODE_SEGMENT && !n->want && !n->queued) {
		struct wait_queue now = STAILQ_HEAD_INITIALIZER(now);

		STAILQ_CONCAT(&now, &n->now);
		seg_removed(n);
		waits_end(&now, err);
	} else if (!n->want && !n->queued) {
		struct wait_queue now = STAILQ_HEAD_INITIALIZER(now);

		STAILQ_CONCAT(&now, &n->now);
		node_free(n);
		waits_end(&now, err);
	} else {
		waits_end(&n->now, err);
	}
	ephemeral_pump(s);
}

static void folder_made(void *arg, const struct zk_reply *r);
static void stale_found(void *arg, const struct zk_reply *r);

static void written(void *arg, const struct zk_reply *r)
{
	struct node *n = arg;
	struct zks *s = n->host->s;
	char folder[ZK_PATH_MAX];
	bool creating = n->wrote && n->at != NODE_THERE;
	int err = r->err;

	if (err && err != -ENOTCONN && ++n->tries > MAX_TRIES)
		err = -EIO;
	if (err == -ENOENT && creating) {
		zks_parent(n->path, folder);
		if (!zks_mkdirs(s, folder, folder_made, n))
			return;
		err = -ENOTCONN;
	} else if (err == -EEXIST && creating && n->kind != NODE_SEGMENT) {
		if (!zk_exists(s->zk, n->path, false, stale_found, n))
			return;
		err = -ENOTCONN;
	}
	n->busy = false;
	s->writing--;
	if (err == -EEXIST && creating) { /* a segment's name is of this session only */
		n->at = NODE_THERE;
		node_later(n);
	} else if (err == -ENOENT && n->wrote) {
		n->at = NODE_GONE;
		node_later(n);
	} else if (err == -ENOTCONN || zks_again(err)) {
		n->at = NODE_UNKNOWN;
		node_later(n);
		zks_retry(s);
		return;
	} else if (!err || err == -ENOENT) {
		n->at = n->wrote ? NODE_THERE : NODE_GONE;
		node_settle(n, 0);
		return;
	} else {
		n->at = NODE_UNKNOWN;
		if (err != -ECANCELED)
			log_err("ZooKeeper: %s cannot be written: %s", n->path, strerror(-err));
		node_settle(n, err);
		return;
	}
	ephemeral_pump(s);
}

/* It has to be tried again, from a callback of the write under way. */
static void write_again(struct node *n, int err)
{
	struct zks *s = n->host->s;

	n->busy = false;
	s->writing--;
	if (err == -ECANCELED) {
		node_settle(n, err);
		return;
	}
	n->at = err == -ENOTCONN ? NODE_UNKNOWN : NODE_GONE;
	node_later(n);
	ephemeral_pump(s);
}

static void folder_made(void *arg, const struct zk_reply *r)
{
	write_again(arg, r->err);
}

static void stale_removed(void *arg, const struct zk_reply *r)
{
	write_again(arg, r->err);
}

/* A node of that name is there: ours, by a write whose answer was lost, or a dead process's. */
static void stale_found(void *arg, const struct zk_reply *r)
{
	struct node *n = arg;
	struct zks *s = n->host->s;

	if (!r->err && r->stat.owner != s->session.id &&
	    !zk_delete(s->zk, n->path, r->stat.version, stale_removed, n))
		return;
	if (!r->err && r->stat.owner == s->session.id) {
		n->busy = false;
		s->writing--;
		n->at = NODE_THERE;
		node_later(n);
		ephemeral_pump(s);
		return;
	}
	write_again(n, r->err);
}

/* 0, or it could not be sent. */
static int node_write(struct node *n)
{
	struct zk *zk = n->host->s->zk;
	char *data = NULL;
	size_t len = 0;
	int err;

	if (n->want) {
		data = node_data(n, &len);
		if (!data)
			return -ENOMEM;
	}
	if (!n->want)
		err = zk_delete(zk, n->path, -1, written, n);
	else if (n->at == NODE_THERE)
		err = zk_set(zk, n->path, data, len, -1, written, n);
	else
		err = zk_create(zk, n->path, data, len, ZK_EPHEMERAL, written, n);
	free(data);
	return err;
}

/* Write from that queue as long as there is room: false when there is not. */
static bool write_some(struct zks *s, struct node_queue *q)
{
	struct node *n;

	while ((n = STAILQ_FIRST(q))) {
		if (s->writing >= MAX_WRITING)
			return false;
		if (!n->want && n->at == NODE_GONE) { /* it never came to be */
			STAILQ_REMOVE_HEAD(q, queue);
			n->queued = false;
			STAILQ_CONCAT(&n->now, &n->next);
			node_settle(n, 0);
			continue;
		}
		if (node_write(n)) {
			zks_retry(s);
			return false;
		}
		STAILQ_REMOVE_HEAD(q, queue);
		n->queued = false;
		n->busy = true;
		n->wrote = n->want;
		s->writing++;
		STAILQ_CONCAT(&n->now, &n->next);
	}
	return true;
}

static void ephemeral_flush(uv_timer_t *t)
{
	ephemeral_pump(t->data);
}

void ephemeral_pump(struct zks *s)
{
	uint64_t now;

	if (!s->ready || s->closing || !write_some(s, &s->urgent) || STAILQ_EMPTY(&s->segments))
		return;
	now = uv_hrtime();
	if (now < s->flush_at) {
		if (!uv_is_active((uv_handle_t *)&s->flush))
			uv_timer_start(&s->flush, ephemeral_flush,
				       (s->flush_at - now + 999999) / 1000000, 0);
		return;
	}
	s->flush_at = now + SEG_PACE;
	write_some(s, &s->segments);
}

/* ---- mappings ------------------------------------------------------------------------------- */

static struct mapset *mapset_find(struct uphost *h, uint32_t container, uint32_t epoch)
{
	struct {
		uint32_t container, epoch;
	} key = { container, epoch };
	struct mapset *m;

	HASH_FIND(hh, h->maps, &key, sizeof(key), m);
	return m;
}

static struct mapset *mapset_get(struct uphost *h, uint32_t container, uint32_t epoch)
{
	struct mapset *m = mapset_find(h, container, epoch);

	if (m)
		return m;
	m = calloc(1, sizeof(*m));
	if (!m)
		return NULL;
	m->key.container = container;
	m->key.epoch = epoch;
	RB_INIT(&m->rows);
	LIST_INIT(&m->room);
	HASH_ADD(hh, h->maps, key, sizeof(m->key), m);
	if (m->hh.tbl)
		return m;
	free(m);
	return NULL;
}

static void room_set(struct node *n, bool has)
{
	if (has == n->has_room)
		return;
	n->has_room = has;
	if (has)
		LIST_INSERT_HEAD(&n->maps->room, n, room);
	else
		LIST_REMOVE(n, room);
}

/* A segment that is written no more; its rows, if any are left, go with it. */
static void seg_removed(struct node *n)
{
	struct uphost *h = n->host;
	struct mapset *m = n->maps;
	struct row *r;

	while ((r = LIST_FIRST(&n->rows)))
		row_free(&m->rows, r);
	room_set(n, false);
	if (m->open == n)
		m->open = NULL;
	node_free(n);
	if (!--m->segments) {
		HASH_DEL(h->maps, m);
		free(m);
	}
}

static struct node *seg_new(struct uphost *h, struct mapset *m)
{
	char path[ZK_PATH_MAX];
	struct node *n;
	size_t len;

	zks_maps_path(h->h.name, m->key.container, path);
	len = strlen(path);
	snprintf(path + len, sizeof(path) - len, "/%" PRIu32 "-%" PRIx64 "-%" PRIu32, m->key.epoch,
		 (uint64_t)h->s->session.id, ++h->s->seg_seq);
	n = node_new(h, NODE_SEGMENT, path);
	if (!n)
		return NULL;
	n->maps = m;
	n->want = true;
	m->segments++;
	return n;
}

/* A segment with room for one more row. */
static struct node *seg_open(struct uphost *h, struct mapset *m)
{
	struct node *n = m->open;

	if (n && n->want && n->num < SEG_ROWS)
		return n;
	n = LIST_FIRST(&m->room);
	if (n)
		room_set(n, false);
	else
		n = seg_new(h, m);
	m->open = n;
	return n;
}

static int map_add(struct uphost *h, const struct ffo_map *row, struct ephemeral_call *c)
{
	struct mapset *m = mapset_get(h, row->container, row->epoch);
	struct row *r = m ? row_find(&m->rows, row->rkey) : NULL;
	struct node *n;

	if (!m)
		return -ENOMEM;
	if (r) {
		row_update(r, row);
		return node_touch(r->seg, c);
	}
	n = seg_open(h, m);
	if (!n)
		goto err_set;
	r = row_add(&m->rows, row);
	if (!r)
		return -ENOMEM; /* an empty segment is filled by the next, or goes with the host */
	r->seg = n;
	LIST_INSERT_HEAD(&n->rows, r, entry);
	n->num++;
	return node_touch(n, c);

err_set:
	if (!m->segments) {
		HASH_DEL(h->maps, m);
		free(m);
	}
	return -ENOMEM;
}

static int map_remove(struct mapset *m, struct row *r, struct ephemeral_call *c)
{
	struct node *n = r->seg;

	row_free(&m->rows, r);
	n->num--;
	c->count++;
	if (!n->num) {
		n->want = false;
		room_set(n, false);
		if (m->open == n)
			m->open = NULL;
	} else if (n != m->open && n->num <= SEG_ROWS / 2) {
		room_set(n, true);
	}
	return node_touch(n, c);
}

/* ---- the ops -------------------------------------------------------------------------------- */

static void ended(store_done_cb done, void *arg, int err)
{
	done(arg, err, err == -ESHUTDOWN ? "the host is not up" : "");
}

/* The host and a call: 0 or -errno. */
static int ephemeral_start(struct ffo_store *base, const char *host, struct uphost **h,
			   struct ephemeral_call **c)
{
	struct zks *s = zks_of(base);

	*h = uphost_find(s, host);
	if (!*h)
		return s->refused ? -EBADMSG : -ESHUTDOWN;
	*c = ephemeral_begin(s);
	return *c ? 0 : -ENOMEM;
}

/* The host and a call that ends with done; NULL: it has ended with an error. */
static struct uphost *ephemeral_start_done(struct ffo_store *base, const char *host,
					   struct ephemeral_call **c, store_done_cb done, void *arg)
{
	struct uphost *h;
	int err = ephemeral_start(base, host, &h, c);

	if (err) {
		ended(done, arg, err);
		return NULL;
	}
	(*c)->done = done;
	(*c)->arg = arg;
	return h;
}

static void ephemeral_finish(struct ephemeral_call *c, int err)
{
	if (err && !c->err)
		c->err = err;
	ephemeral_end(c);
}

void zks_map_put(struct ffo_store *base, const char *host, const struct ffo_map *rows, size_t n,
		 store_done_cb done, void *arg)
{
	struct ephemeral_call *c;
	struct uphost *h = ephemeral_start_done(base, host, &c, done, arg);
	int err = 0;

	if (!h)
		return;
	for (size_t i = 0; i < n && !err; i++)
		err = map_add(h, &rows[i], c);
	ephemeral_finish(c, err);
}

void zks_map_del(struct ffo_store *base, const char *host, const struct store_map_id *ids, size_t n,
		 store_count_cb done, void *arg)
{
	struct mapset *m, *next;
	struct ephemeral_call *c;
	struct uphost *h;
	struct row *r;
	int err = ephemeral_start(base, host, &h, &c);

	if (err) {
		done(arg, err, err == -ESHUTDOWN ? "the host is not up" : "", 0);
		return;
	}
	c->counted = done;
	c->arg = arg;
	for (size_t i = 0; i < n && !err; i++)
		HASH_ITER(hh, h->maps, m, next) {
			if (m->key.container != ids[i].container)
				continue;
			r = row_find(&m->rows, ids[i].rkey);
			if (r)
				err = map_remove(m, r, c);
		}
	ephemeral_finish(c, err);
}

/* The rows of a session (0: all). */
static int mapset_drop(struct mapset *m, uint32_t session, struct ephemeral_call *c)
{
	struct row *r, *next;
	int err = 0;

	for (r = row_above(&m->rows, 0); r && !err; r = next) {
		next = row_next(r);
		if (!session || r->session == session)
			err = map_remove(m, r, c);
	}
	return err;
}

void zks_map_drop(struct ffo_store *base, const char *host, uint32_t container, uint32_t epoch,
		  uint32_t session, store_done_cb done, void *arg)
{
	struct mapset *m, *next;
	struct ephemeral_call *c;
	struct uphost *h = ephemeral_start_done(base, host, &c, done, arg);
	int err = 0;

	if (!h)
		return;
	HASH_ITER(hh, h->maps, m, next) {
		if (m->key.container == container && (!epoch || m->key.epoch == epoch) && !err)
			err = mapset_drop(m, session, c);
	}
	ephemeral_finish(c, err);
}

static void change_node(struct ffo_store *base, const char *host, enum node_kind kind,
			const char *path, bool want, store_done_cb done, void *arg)
{
	struct ephemeral_call *c;
	struct uphost *h = ephemeral_start_done(base, host, &c, done, arg);

	if (h)
		ephemeral_finish(c, ephemeral_node(h, kind, path, want, false, c));
}

void zks_container_active(struct ffo_store *base, const char *host, uint32_t container,
			  uint32_t epoch, bool active, store_done_cb done, void *arg)
{
	char path[ZK_PATH_MAX];

	snprintf(path, sizeof(path), "/active/%010" PRIu32 "-%" PRIu32, container, epoch);
	change_node(base, host, NODE_ACTIVE, path, active, done, arg);
}

void zks_mcast_member(struct ffo_store *base, const char *host, const char *tenant,
		      const struct in6_addr *mgid, bool member, store_done_cb done, void *arg)
{
	char text[INET6_ADDRSTRLEN], path[ZK_PATH_MAX];

	inet_ntop(AF_INET6, mgid, text, sizeof(text));
	snprintf(path, sizeof(path), "/mcast/%s/%s/%s", tenant, text, host);
	change_node(base, host, NODE_MCAST, path, member, done, arg);
}

/* ---- all of a host's ------------------------------------------------------------------------ */

void ephemeral_drop(struct uphost *h, bool up, struct ephemeral_call *c)
{
	struct mapset *m, *next_map;
	struct node *n, *next;

	/* map_remove() leaves every segment as not wanted, and touched. */
	HASH_ITER(hh, h->maps, m, next_map)
		if (mapset_drop(m, 0, c))
			c->err = -ENOMEM;
	LIST_FOREACH_SAFE(n, &h->nodes, entry, next) {
		if (n->kind == NODE_UP && up)
			continue;
		if (n->kind != NODE_SEGMENT || !n->num) {
			n->want = false;
			if (node_touch(n, c))
				c->err = -ENOMEM;
		}
	}
}

void ephemeral_lost(struct uphost *h, int err)
{
	struct wait_queue all = STAILQ_HEAD_INITIALIZER(all);
	struct node *n, *next;

	LIST_FOREACH_SAFE(n, &h->nodes, entry, next) {
		STAILQ_CONCAT(&all, &n->now);
		STAILQ_CONCAT(&all, &n->next);
		if (n->kind == NODE_SEGMENT)
			seg_removed(n);
		else
			node_free(n);
	}
	waits_end(&all, err);
}
