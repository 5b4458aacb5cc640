/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * topic.c - the store's watches: what each kind of key reads, and what it makes of it. See store.h
 * for what is told, zks.h for the tree. The orchestrator's loop only.
 *
 * All watches of a key share one subject, so one set of follows. Most kinds are one node:
 *
 *	ADDR LID NAME ID POLICY TENANTS
 *		that node
 *	HOST	hosts/<host>/up; when it is not there, hosts/<host> is read once
 *	OWNED	the children of owned/<host>, each with a watch of kind ID
 *	MAP	the children of hosts/<host>/maps/<id>, each of the epoch's segments as a node
 *	MCAST	the children of the group, each as a node
 *
 * A subject that is told to its watches may be freed by them: telling is the last thing that any
 * function here does.
 */
#include "ffo/store/zk/zks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A child: a segment of mappings, a member of a group, or a container of a host. */
struct child {
	struct subject *sub;
	UT_hash_handle hh; /* by name */
	struct follow *f;
	struct store_watch w; /* a container */
	bool known;	      /* it has been read */
	bool bad;	      /* what was read makes no sense */
	bool there;
	uint32_t seen; /* in the listing of that number */
	union {
		struct row_list rows;
		struct ffo_host host;
		struct ffo_container container;
	};
	char name[];
};

struct subject {
	struct zks *s;
	struct topic *t;
	struct follow *f;
	bool known; /* told at least once */
	int err;
	bool there;
	bool asking;   /* HOST: for its record */
	bool dead;     /* nobody waits for the record any more */
	bool listing;  /* children are being looked through */
	uint32_t seen; /* listings so far */
	struct child *children;
	size_t unread, bad; /* of the children */
	struct row_tree rows;
	uint32_t round; /* of reading segments */
	union {
		struct ffo_container container;
		struct ffo_host host;
		struct {
			struct ffo_rule *rules;
			size_t num_rules;
		};
		struct {
			struct ffo_tenant *tenants;
			size_t num_tenants;
		};
	};
};

/* ---- telling -------------------------------------------------------------------------------- */

/* An array of what the children are, and how many; NULL: no memory. */
static void *children_list(const struct subject *sub, size_t *n)
{
	bool hosts = sub->t->key.kind == STORE_MCAST;
	size_t size = hosts ? sizeof(struct ffo_host) : sizeof(struct ffo_container);
	char *list = calloc(HASH_COUNT(sub->children) + 1, size);
	struct child *c, *next;

	*n = 0;
	if (!list)
		return NULL;
	HASH_ITER(hh, sub->children, c, next)
		if (c->there)
			memcpy(list + (*n)++ * size,
			       hosts ? (void *)&c->host : (void *)&c->container, size);
	return list;
}

/* The whole state, to one watch (w) or to all. */
static void tell_state(struct subject *sub, struct store_watch *w)
{
	struct store_news news = { .err = sub->err, .reset = true, .synced = true };
	enum store_kind kind = sub->t->key.kind;
	void *list = NULL;
	size_t n = 0;

	if (!sub->err && (kind == STORE_OWNED || kind == STORE_MCAST)) {
		list = children_list(sub, &n);
		if (!list)
			news.err = -ENOMEM;
	}
	if (news.err) {
		news.synced = false;
	} else if (kind == STORE_HOST) {
		news.host = sub->there ? &sub->host : NULL;
	} else if (kind == STORE_OWNED) {
		news.owned.put = list;
		news.owned.num_put = n;
	} else if (kind == STORE_MCAST) {
		news.mcast.hosts = list;
		news.mcast.num = n;
	} else if (kind == STORE_POLICY) {
		news.policy.rules = sub->rules;
		news.policy.num = sub->num_rules;
	} else if (kind == STORE_TENANTS) {
		news.tenants.list = sub->tenants;
		news.tenants.num = sub->num_tenants;
	} else if (kind != STORE_MAP) {
		news.container = sub->there ? &sub->container : NULL;
	}
	if (w)
		w->cb(w->arg, &news);
	else
		topic_deliver(&sub->s->topics, sub->t, &news);
	free(list);
}

static void tell(struct subject *sub)
{
	sub->known = true;
	tell_state(sub, NULL);
}

/* A node could not be read, for good, or makes no sense. */
static void tell_error(struct subject *sub, int err)
{
	err = zks_damage(sub->s, follow_path(sub->f), err);
	if (sub->known && sub->err == err)
		return;
	sub->err = err;
	tell(sub);
}

/* ---- one node ------------------------------------------------------------------------------- */

static void container_read(void *arg, const struct zk_reply *r)
{
	struct subject *sub = arg;
	struct ffo_container c = { 0 };
	bool there = !r->err;
	int err = r->err == -ENOENT ? 0 : r->err;

	if (there)
		err = rec_to_container(r->data, r->len, &c);
	if (there && !err && !zks_key_fits(&sub->t->key, &c))
		err = -EBADMSG;
	if (err) {
		tell_error(sub, err);
		return;
	}
	if (there && sub->t->key.kind == STORE_ID)
		c.version = (uint64_t)r->stat.version;
	if (sub->known && !sub->err && sub->there == there &&
	    !memcmp(&sub->container, &c, sizeof(c)))
		return;
	sub->err = 0;
	sub->there = there;
	sub->container = c;
	tell(sub);
}

static void policy_read(void *arg, const struct zk_reply *r)
{
	struct subject *sub = arg;
	int err = r->err == -ENOENT ? 0 : r->err;
	size_t n = 0;

	if (!sub->rules)
		sub->rules = calloc(FFO_RULES_MAX, sizeof(*sub->rules));
	if (!sub->rules)
		err = -ENOMEM;
	if (!err && !r->err)
		err = rec_to_policy(r->data, r->len, sub->rules, &n);
	if (err) {
		tell_error(sub, err);
		return;
	}
	sub->err = 0;
	sub->num_rules = n;
	tell(sub);
}

static void tenants_read(void *arg, const struct zk_reply *r)
{
	struct subject *sub = arg;
	int err = r->err == -ENOENT ? 0 : r->err;
	size_t n = 0;

	if (!sub->tenants)
		sub->tenants = calloc(FFO_TENANTS_MAX, sizeof(*sub->tenants));
	if (!sub->tenants)
		err = -ENOMEM;
	if (!err && !r->err)
		err = rec_to_tenants(r->data, r->len, sub->tenants, &n);
	if (err) {
		tell_error(sub, err);
		return;
	}
	sub->err = 0;
	sub->num_tenants = n;
	tell(sub);
}

/* ---- hosts ---------------------------------------------------------------------------------- */

static int parse_host(const struct zk_reply *r, const char *name, bool up, struct ffo_host *h)
{
	struct rec_up u;
	int err = rec_to_up(r->data, r->len, &u);

	if (!err && strcmp(u.host.name, name))
		err = -EBADMSG;
	*h = u.host;
	h->up = up;
	return err;
}

static void host_is(struct subject *sub, bool there, const struct ffo_host *h)
{
	if (sub->known && !sub->err && sub->there == there && !memcmp(&sub->host, h, sizeof(*h)))
		return;
	sub->err = 0;
	sub->there = there;
	sub->host = *h;
	tell(sub);
}

static void record_read(void *arg, const struct zk_reply *r)
{
	struct subject *sub = arg;
	struct ffo_host h = { 0 };
	int err = r->err;

	sub->asking = false;
	if (sub->dead) {
		free(sub);
		return;
	}
	if (!err && !r->len) /* it has a place, and was never here */
		err = -ENOENT;
	if (!err)
		err = parse_host(r, sub->t->key.name, false, &h);
	if (err == -ENOTCONN || zks_again(err))
		follow_again(sub->f);
	else if (!err || err == -ENOENT)
		host_is(sub, !err, &h);
	else if (err != -ECANCELED)
		tell_error(sub, err);
}

static void host_read(void *arg, const struct zk_reply *r)
{
	struct subject *sub = arg;
	char path[ZK_PATH_MAX];
	struct ffo_host h;
	int err = r->err;

	if (!err)
		err = parse_host(r, sub->t->key.name, true, &h);
	if (!err) {
		host_is(sub, true, &h);
		return;
	}
	if (err != -ENOENT) {
		tell_error(sub, err);
		return;
	}
	if (sub->asking) /* its answer may be older than this */
		return;
	snprintf(path, sizeof(path), "/hosts/%s", sub->t->key.name);
	err = zk_get(sub->s->zk, path, false, record_read, sub);
	if (err)
		follow_again(sub->f);
	sub->asking = !err;
}

/* ---- children ------------------------------------------------------------------------------- */

static void child_free(struct child *c)
{
	struct subject *sub = c->sub;

	HASH_DEL(sub->children, c);
	sub->unread -= !c->known;
	sub->bad -= c->bad;
	follow_free(c->f);
	if (sub->t->key.kind == STORE_OWNED)
		zks_unwatch(&sub->s->base, &c->w);
	free(c);
}

static struct child *child_new(struct subject *sub, const char *name)
{
	size_t len = strlen(name);
	struct child *c = calloc(1, sizeof(*c) + len + 1);

	if (!c)
		return NULL;
	c->sub = sub;
	memcpy(c->name, name, len + 1);
	HASH_ADD_KEYPTR(hh, sub->children, c->name, len, c);
	if (!c->hh.tbl) {
		free(c);
		return NULL;
	}
	sub->unread++;
	return c;
}

/* It has been read: is it sound? */
static void child_is(struct child *c, bool bad)
{
	struct subject *sub = c->sub;

	sub->unread -= !c->known;
	c->known = true;
	sub->bad += (size_t)bad - c->bad;
	c->bad = bad;
}

/*
 * The children of that listing: each new one is started, and each that has gone is ended; -ENOMEM.
 * use() says which names count.
 */
static int children_follow(struct subject *sub, const struct zk_reply *r,
			   bool (*use)(const struct subject *sub, const char *name),
			   int (*start)(struct child *c), void (*end)(struct child *c, void *arg),
			   void *arg)
{
	struct child *c, *next;
	int err = 0;

	sub->seen++;
	sub->listing = true;
	for (size_t i = 0; !r->err && i < r->num; i++) {
		if (!use(sub, r->names[i]))
			continue;
		HASH_FIND_STR(sub->children, r->names[i], c);
		if (!c) {
			c = child_new(sub, r->names[i]);
			if (c && start(c)) {
				child_free(c);
				c = NULL;
			}
		}
		if (c)
			c->seen = sub->seen;
		else
			err = -ENOMEM;
	}
	HASH_ITER(hh, sub->children, c, next)
		if (c->seen != sub->seen)
			end(c, arg);
	sub->listing = false;
	return err;
}

/* ---- the containers of a host --------------------------------------------------------------- */

static bool owned_use(const struct subject *sub, const char *name)
{
	uint32_t id;

	(void)sub;
	return !rec_name_number(name, &id);
}

static void tell_owned(struct subject *sub, const struct child *c, uint32_t id)
{
	struct store_news news = { .synced = true };

	if (!sub->known) {
		if (!sub->unread && !sub->listing)
			tell(sub);
		return;
	}
	if (c && c->there) {
		news.owned.put = &c->container;
		news.owned.num_put = 1;
	} else {
		news.owned.del = &id;
		news.owned.num_del = 1;
	}
	topic_deliver(&sub->s->topics, sub->t, &news);
}

static void owned_changed(void *arg, const struct store_news *news)
{
	struct child *c = arg;
	bool was = c->there;
	uint32_t id = c->w.key.id;

	/* One that is damaged is left out. */
	c->there = !news->err && news->container &&
		   !strcmp(news->container->host, c->sub->t->key.name);
	if (c->there)
		c->container = *news->container;
	child_is(c, false);
	if (was || c->there || !c->sub->known)
		tell_owned(c->sub, c, id);
}

static int owned_start(struct child *c)
{
	uint32_t id = 0;

	rec_name_number(c->name, &id);
	c->w.key = (struct store_key){ .kind = STORE_ID, .id = id };
	c->w.cb = owned_changed;
	c->w.arg = c;
	zks_watch(&c->sub->s->base, &c->w);
	return 0;
}

struct ids {
	uint32_t *v;
	size_t n, cap;
	bool failed;
};

static void ids_add(struct ids *ids, uint32_t id)
{
	uint32_t *v;

	if (ids->n == ids->cap) {
		v = reallocarray(ids->v, ids->cap * 2 + 64, sizeof(*v));
		if (!v) {
			ids->failed = true;
			return;
		}
		ids->v = v;
		ids->cap = ids->cap * 2 + 64;
	}
	ids->v[ids->n++] = id;
}

static void owned_end(struct child *c, void *arg)
{
	if (c->there)
		ids_add(arg, c->w.key.id);
	child_free(c);
}

static void owned_listed(void *arg, const struct zk_reply *r)
{
	struct subject *sub = arg;
	struct store_news news = { .synced = true };
	struct ids gone = { 0 };
	int err = r->err == -ENOENT ? 0 : r->err;
	bool whole = !sub->known || sub->err;

	if (!err)
		err = children_follow(sub, r, owned_use, owned_start, owned_end, &gone);
	if (gone.failed)
		err = -ENOMEM;
	if (err) {
		free(gone.v);
		tell_error(sub, err);
		return;
	}
	sub->err = 0;
	if (whole && !sub->unread) {
		tell(sub);
	} else if (!whole && gone.n) {
		news.owned.del = gone.v;
		news.owned.num_del = gone.n;
		topic_deliver(&sub->s->topics, sub->t, &news);
	}
	free(gone.v);
}

/* ---- groups --------------------------------------------------------------------------------- */

static bool member_use(const struct subject *sub, const char *name)
{
	struct child *c;

	HASH_FIND_STR(sub->children, name, c);
	return ffo_name_ok(name) && (c || HASH_COUNT(sub->children) < FFO_GROUP_MAX);
}

static void tell_group(struct subject *sub)
{
	if (!sub->unread && !sub->listing)
		tell(sub);
}

static void member_read(void *arg, const struct zk_reply *r)
{
	struct child *c = arg;
	int err = r->err;

	if (!err)
		err = parse_host(r, c->name, true, &c->host);
	if (err && err != -ENOENT)
		zks_damage(c->sub->s, follow_path(c->f), err);
	c->there = !err;
	child_is(c, false);
	tell_group(c->sub);
}

static int child_path(struct child *c, zk_cb cb)
{
	char path[ZK_PATH_MAX];
	int len = snprintf(path, sizeof(path), "%s/%s", follow_path(c->sub->f), c->name);

	if (len < 0 || (size_t)len >= sizeof(path))
		return -ENAMETOOLONG;
	c->f = follow_new(c->sub->s, path, false, cb, c);
	return c->f ? 0 : -ENOMEM;
}

static int member_start(struct child *c)
{
	return child_path(c, member_read);
}

static void member_end(struct child *c, void *arg)
{
	(void)arg;
	child_free(c);
}

static void group_listed(void *arg, const struct zk_reply *r)
{
	struct subject *sub = arg;
	int err = r->err == -ENOENT ? 0 : r->err;

	if (!err)
		err = children_follow(sub, r, member_use, member_start, member_end, NULL);
	if (err) {
		tell_error(sub, err);
		return;
	}
	sub->err = 0;
	tell_group(sub);
}

/* ---- mappings ------------------------------------------------------------------------------- */

/* Segments of other epochs are nobody's. */
static bool segment_use(const struct subject *sub, const char *name)
{
	char epoch[16];
	int len = snprintf(epoch, sizeof(epoch), "%" PRIu32 "-", sub->t->key.epoch);

	return !strncmp(name, epoch, (size_t)len);
}

/* What has changed; all of it, when there was no memory to note that. */
static void tell_map(struct subject *sub, struct ids *changed)
{
	struct store_news news = { .synced = true };
	int err = sub->bad ? -EBADMSG : changed->failed ? -ENOMEM : 0;

	if (sub->listing || (!sub->known && sub->unread)) {
		free(changed->v);
		return;
	}
	if (!sub->known || err || sub->err) {
		free(changed->v);
		if (sub->known && err && sub->err == err)
			return;
		sub->err = err;
		tell(sub);
		return;
	}
	news.map.rkeys = changed->v;
	news.map.num = changed->n;
	if (changed->n)
		topic_deliver(&sub->s->topics, sub->t, &news);
	free(changed->v);
}

/* The segment's rows are those, and no others. */
static void segment_take(struct child *c, const uint8_t *data, unsigned int n, struct ids *changed)
{
	struct subject *sub = c->sub;
	struct row *r, *next;
	struct ffo_map m;

	sub->round++;
	for (unsigned int i = 0; i < n; i++) {
		seg_to_row(data, i, &m);
		r = row_find(&sub->rows, m.rkey);
		if (r && row_update(r, &m))
			ids_add(changed, m.rkey);
		if (r) {
			LIST_REMOVE(r, entry);
		} else {
			r = row_add(&sub->rows, &m);
			if (!r) {
				changed->failed = true;
				continue;
			}
			ids_add(changed, m.rkey);
		}
		r->seg = c;
		r->seen = sub->round;
		LIST_INSERT_HEAD(&c->rows, r, entry);
	}
	LIST_FOREACH_SAFE(r, &c->rows, entry, next)
		if (r->seen != sub->round) {
			ids_add(changed, r->rkey);
			row_free(&sub->rows, r);
		}
}

static void segment_read(void *arg, const struct zk_reply *r)
{
	struct child *c = arg;
	struct subject *sub = c->sub;
	struct ids changed = { 0 };
	int n = r->err == -ENOENT ? 0 : r->err;

	if (!r->err)
		n = seg_parse((const uint8_t *)r->data, r->len, sub->t->key.id, sub->t->key.epoch);
	if (n < 0)
		zks_damage(sub->s, follow_path(c->f), n);
	segment_take(c, (const uint8_t *)r->data, n < 0 ? 0 : (unsigned int)n, &changed);
	child_is(c, n < 0);
	tell_map(sub, &changed);
}

static int segment_start(struct child *c)
{
	LIST_INIT(&c->rows);
	return child_path(c, segment_read);
}

static void segment_end(struct child *c, void *arg)
{
	segment_take(c, NULL, 0, arg);
	child_free(c);
}

static void segments_listed(void *arg, const struct zk_reply *r)
{
	struct subject *sub = arg;
	struct ids changed = { 0 };
	int err = r->err == -ENOENT ? 0 : r->err;

	if (!err)
		err = children_follow(sub, r, segment_use, segment_start, segment_end, &changed);
	if (err) {
		free(changed.v);
		tell_error(sub, err);
		return;
	}
	tell_map(sub, &changed);
}

ssize_t zks_map_page(struct ffo_store *base, const struct store_watch *w, uint32_t after,
		     struct ffo_map *rows, size_t n)
{
	const struct topic *t = w->topic;
	struct subject *sub = t ? t->priv : NULL;
	struct row *r;
	size_t i = 0;

	(void)base;
	if (!sub || !sub->known || sub->err)
		return sub && sub->err ? sub->err : -EAGAIN;
	for (r = row_above(&sub->rows, after); r && i < n; r = row_next(r))
		row_to_map(r, w->key.id, w->key.epoch, &rows[i++]);
	return (ssize_t)i;
}

int zks_map_row(struct ffo_store *base, const struct store_watch *w, uint32_t rkey,
		struct ffo_map *row)
{
	const struct topic *t = w->topic;
	struct subject *sub = t ? t->priv : NULL;
	struct row *r;

	(void)base;
	if (!sub || !sub->known || sub->err)
		return sub && sub->err ? sub->err : -EAGAIN;
	r = row_find(&sub->rows, rkey);
	if (!r)
		return -ENOENT;
	row_to_map(r, w->key.id, w->key.epoch, row);
	return 0;
}

bool zks_map_settled(const struct store_watch *w)
{
	const struct topic *t = w->topic;
	struct subject *sub = t ? t->priv : NULL;
	struct child *c, *next;

	if (!sub || !sub->known || !follow_idle(sub->f))
		return false;
	HASH_ITER(hh, sub->children, c, next)
		if (!follow_idle(c->f))
			return false;
	return true;
}

/* ---- subjects ------------------------------------------------------------------------------- */

static void group_path(const struct store_key *key, char *path)
{
	char text[INET6_ADDRSTRLEN];

	inet_ntop(AF_INET6, &key->addr, text, sizeof(text));
	snprintf(path, ZK_PATH_MAX, "/mcast/%s/%s", key->name, text);
}

static int subject_start(struct subject *sub)
{
	const struct store_key *key = &sub->t->key;
	zk_cb cb = container_read;
	bool children = false;
	char path[ZK_PATH_MAX];

	switch (key->kind) {
	case STORE_HOST:
		zks_up_path(key->name, path);
		cb = host_read;
		break;
	case STORE_POLICY:
		snprintf(path, sizeof(path), "/policy");
		cb = policy_read;
		break;
	case STORE_TENANTS:
		snprintf(path, sizeof(path), "/tenants");
		cb = tenants_read;
		break;
	case STORE_OWNED:
		snprintf(path, sizeof(path), "/owned/%s", key->name);
		children = true;
		cb = owned_listed;
		break;
	case STORE_MAP:
		zks_maps_path(key->name, key->id, path);
		children = true;
		cb = segments_listed;
		break;
	case STORE_MCAST:
		group_path(key, path);
		children = true;
		cb = group_listed;
		break;
	default:
		zks_key_path(key, path);
		break;
	}
	sub->f = follow_new(sub->s, path, children, cb, sub);
	return sub->f ? 0 : -ENOMEM;
}

void subject_unused(struct topics *ts, struct topic *t)
{
	struct subject *sub = t->priv;
	struct child *c, *next;
	struct row *r;

	(void)ts;
	if (!sub)
		return;
	while ((r = row_above(&sub->rows, 0)))
		row_free(&sub->rows, r);
	HASH_ITER(hh, sub->children, c, next)
		child_free(c);
	follow_free(sub->f);
	if (t->key.kind == STORE_POLICY)
		free(sub->rules);
	if (t->key.kind == STORE_TENANTS)
		free(sub->tenants);
	t->priv = NULL;
	if (sub->asking)
		sub->dead = true;
	else
		free(sub);
}

void zks_watch(struct ffo_store *base, struct store_watch *w)
{
	struct zks *s = zks_of(base);
	struct store_news news = { .err = -ENOMEM, .reset = true };
	struct topic *t = topic_join(&s->topics, w);
	struct subject *sub;

	if (!t) {
		w->cb(w->arg, &news);
		return;
	}
	sub = t->priv;
	if (sub) {
		if (sub->known)
			tell_state(sub, w);
		return;
	}
	sub = calloc(1, sizeof(*sub));
	if (!sub) {
		w->cb(w->arg, &news);
		return;
	}
	sub->s = s;
	sub->t = t;
	RB_INIT(&sub->rows);
	t->priv = sub;
	if (subject_start(sub)) {
		t->priv = NULL;
		free(sub);
		w->cb(w->arg, &news);
	}
}

void zks_unwatch(struct ffo_store *base, struct store_watch *w)
{
	topic_leave(&zks_of(base)->topics, w);
}
