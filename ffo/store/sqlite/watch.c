/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * watch.c - changes of store.c, and who is told of them. The orchestrator's loop only.
 *
 * A change puts a note for each key that it touches, and that is watched, beside its transaction.
 * When that is committed, its caller is told first; then the notes are worked off, in order, with
 * the state as it is then. Callbacks may make changes: their notes wait behind.
 */
#include "ffo/store/sqlite/internal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- changes and notes ----------------------------------------------------------------------- */

/* Tell of that key when the change under way has taken place. NULL: nobody watches, or *err. */
struct note *sqlite_note(struct store *s, const struct store_key *key, size_t num, int *err)
{
	struct note *n;

	if (*err || !topic_find(&s->topics, key))
		return NULL;
	n = calloc(1, sizeof(*n) + num * sizeof(n->rkeys[0]));
	if (!n) {
		*err = -ENOMEM;
		return NULL;
	}
	n->key = *key;
	STAILQ_INSERT_TAIL(&s->staged, n, entry);
	return n;
}

/* A key that says which one of its kind. */
int sqlite_note_key(struct store *s, const struct store_key *key)
{
	int err = 0;

	sqlite_note(s, key, 0, &err);
	return err;
}

struct store_key sqlite_named(enum store_kind kind, const char *name)
{
	struct store_key key = { .kind = kind };

	snprintf(key.name, sizeof(key.name), "%s", name);
	return key;
}

int sqlite_note_named(struct store *s, enum store_kind kind, const char *name)
{
	struct store_key key = sqlite_named(kind, name);

	return sqlite_note_key(s, &key);
}

static int note_owned(struct store *s, const char *host, uint32_t container)
{
	struct store_key key = sqlite_named(STORE_OWNED, host);
	int err = 0;
	struct note *n = sqlite_note(s, &key, 0, &err);

	if (n)
		n->container = container;
	return err;
}

int sqlite_note_reset(struct store *s, uint32_t container, uint32_t epoch)
{
	struct store_key key = { .kind = STORE_MAP, .id = container, .epoch = epoch };
	int err = 0;
	struct note *n = sqlite_note(s, &key, 0, &err);

	if (n)
		n->reset = true;
	return err;
}

int sqlite_note_container(struct store *s, const struct ffo_container *c)
{
	struct store_key keys[3 + FFO_ADDR_MAX];
	size_t n = 0;
	int err = 0;

	keys[n++] = (struct store_key){ .kind = STORE_ID, .id = c->id };
	keys[n++] = (struct store_key){ .kind = STORE_LID, .lid = c->lid };
	keys[n++] = sqlite_named(STORE_NAME, c->name);
	for (unsigned int i = 0; i < c->num_ips; i++) {
		keys[n] = sqlite_named(STORE_ADDR, c->tenant);
		keys[n++].addr = c->ip[i];
	}
	for (size_t i = 0; !err && i < n; i++)
		err = sqlite_note_key(s, &keys[i]);
	return err ? err : note_owned(s, c->host, c->id);
}

int sqlite_begin(struct store *s)
{
	assert(STAILQ_EMPTY(&s->staged));
	s->trying = s->try_next;
	s->try_next = false;
	return sqldb_begin(&s->db);
}

/* End the change under way, well if err is 0. Its caller is to be told next, then sqlite_work_off(). */
int sqlite_end(struct store *s, int err)
{
	bool tried = s->trying && !err;
	struct note *n;

	err = sqldb_end(&s->db, tried ? -ECANCELED : err);
	if (!err) {
		STAILQ_CONCAT(&s->due, &s->staged);
		return 0;
	}
	while ((n = STAILQ_FIRST(&s->staged))) {
		STAILQ_REMOVE_HEAD(&s->staged, entry);
		free(n);
	}
	return tried && err == -ECANCELED ? 0 : err;
}

static void tell(struct store *s, struct topic *t, const struct note *n);

void sqlite_work_off(struct store *s)
{
	struct topic *t;
	struct note *n;

	if (s->working_off)
		return;
	s->working_off = true;
	while ((n = STAILQ_FIRST(&s->due))) {
		STAILQ_REMOVE_HEAD(&s->due, entry);
		t = topic_find(&s->topics, &n->key);
		if (t)
			tell(s, t, n);
		free(n);
	}
	s->working_off = false;
}

/* Groups of which hosts leave or join: everybody looks again. */
int sqlite_note_groups(struct store *s)
{
	struct topic *t, *next;
	int err = 0;

	HASH_ITER(hh, s->topics.table, t, next)
		if (!err && t->key.kind == STORE_MCAST)
			err = sqlite_note_key(s, &t->key);
	return err;
}

/* The maps of the host's containers that are watched. */
int sqlite_note_maps(struct store *s, const char *host)
{
	struct topic *t, *next;
	struct ffo_container c;
	int err = 0;

	HASH_ITER(hh, s->topics.table, t, next)
		if (!err && t->key.kind == STORE_MAP && !sqlite_get_by_id(s, t->key.id, &c) &&
		    !strcmp(c.host, host))
			err = sqlite_note_reset(s, t->key.id, t->key.epoch);
	return err;
}

/* ---- watches --------------------------------------------------------------------------------- */

static void tell_container(struct store *s, const struct store_key *key, struct store_news *news,
			   struct ffo_container *c)
{
	int err = sqlite_get_container(s, key, c);

	if (!err)
		news->container = c;
	else if (err != -ENOENT)
		news->err = err;
}

static void tell_owned(struct store *s, const struct store_key *key, const struct note *n,
		       struct store_news *news, struct ffo_container *c)
{
	int err = sqlite_get_by_id(s, n->container, c);

	news->synced = true;
	if (!err && !strcmp(c->host, key->name)) {
		news->owned.put = c;
		news->owned.num_put = 1;
	} else {
		if (err && err != -ENOENT)
			news->err = err;
		news->owned.del = &n->container;
		news->owned.num_del = 1;
	}
}

/*
 * What a topic's watches are told, with a news_buf() and a container to put it into. n: what has
 * changed, NULL: they know nothing yet.
 */
static void make_news(struct store *s, const struct store_key *key, const struct note *n, void *buf,
		      struct ffo_container *c, struct store_news *news)
{
	struct ffo_host *h = buf;
	ssize_t num = 0;

	switch (key->kind) {
	case STORE_HOST:
		news->err = sqlite_get_host(s, key->name, h);
		if (news->err == -ENOENT)
			news->err = 0;
		else if (!news->err)
			news->host = h;
		return;
	case STORE_OWNED:
		tell_owned(s, key, n, news, c);
		return;
	case STORE_MAP:
		news->reset = !n || n->reset;
		news->synced = true;
		if (!news->reset) {
			news->map.rkeys = n->rkeys;
			news->map.num = n->num;
		}
		return;
	case STORE_POLICY:
		num = sqlite_get_rules(s, buf);
		news->policy.rules = buf;
		news->policy.num = num > 0 ? (size_t)num : 0;
		break;
	case STORE_TENANTS:
		num = sqlite_get_tenants(s, buf);
		news->tenants.list = buf;
		news->tenants.num = num > 0 ? (size_t)num : 0;
		break;
	case STORE_MCAST:
		num = sqlite_get_hosts(s, prep(s, ST_MCAST_LIST, "sa", key->name, &key->addr), h,
				       FFO_GROUP_MAX);
		news->mcast.hosts = h;
		news->mcast.num = num > 0 ? (size_t)num : 0;
		break;
	default:
		tell_container(s, key, news, c);
		return;
	}
	news->err = num < 0 ? (int)num : 0;
}

static void *news_buf(const struct store_key *key)
{
	switch (key->kind) {
	case STORE_HOST:
		return malloc(sizeof(struct ffo_host));
	case STORE_MCAST:
		return malloc(FFO_GROUP_MAX * sizeof(struct ffo_host));
	case STORE_POLICY:
		return malloc(FFO_RULES_MAX * sizeof(struct ffo_rule));
	case STORE_TENANTS:
		return malloc(FFO_TENANTS_MAX * sizeof(struct ffo_tenant));
	default:
		return malloc(1);
	}
}

static void tell(struct store *s, struct topic *t, const struct note *n)
{
	struct store_news news = { 0 };
	void *buf = news_buf(&t->key);
	struct ffo_container c;

	if (buf)
		make_news(s, &t->key, n, buf, &c, &news);
	else
		news.err = -ENOMEM;
	topic_deliver(&s->topics, t, &news);
	free(buf);
}

/* All containers of a host, in an array that grows: their number, or -errno. */
static ssize_t get_all_owned(struct store *s, const char *host, struct ffo_container **list)
{
	struct ffo_container *more;
	size_t num = 0;
	ssize_t n;

	*list = NULL;
	do {
		more = reallocarray(*list, num + FFO_PAGE_MAX, sizeof(*more));
		if (!more)
			return -ENOMEM;
		*list = more;
		n = sqlite_get_containers(s, host, num ? more[num - 1].id : 0, more + num,
					  FFO_PAGE_MAX);
		if (n < 0)
			return n;
		num += (size_t)n;
	} while (n == FFO_PAGE_MAX);
	return (ssize_t)num;
}

static void tell_all_owned(struct store *s, struct store_watch *w)
{
	struct store_news news = { .reset = true, .synced = true };
	struct ffo_container *list;
	ssize_t n = get_all_owned(s, w->key.name, &list);

	if (n < 0)
		news.err = (int)n;
	news.owned.put = list;
	news.owned.num_put = n > 0 ? (size_t)n : 0;
	w->cb(w->arg, &news);
	free(list);
}

void sqlite_watch(struct ffo_store *base, struct store_watch *w)
{
	struct store_news news = { 0 };
	struct store *s = store_of(base);
	struct ffo_container c;
	void *buf;

	if (w->key.kind == STORE_MAP) /* whose they are is known by the container */
		memset(w->key.name, 0, sizeof(w->key.name));
	if (!topic_join(&s->topics, w)) {
		news.err = -ENOMEM;
		news.synced = true;
		w->cb(w->arg, &news);
		return;
	}
	if (w->key.kind == STORE_OWNED) {
		tell_all_owned(s, w);
		return;
	}
	buf = news_buf(&w->key);
	if (buf)
		make_news(s, &w->key, NULL, buf, &c, &news);
	else
		news.err = -ENOMEM;
	w->cb(w->arg, &news);
	free(buf);
}

void sqlite_unwatch(struct ffo_store *base, struct store_watch *w)
{
	topic_leave(&store_of(base)->topics, w);
}
