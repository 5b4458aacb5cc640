/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * host.c - hosts: that one is up here, that it is not any more, that it is forgotten, and who is up elsewhere. See
 * zks.h. The orchestrator's loop only.
 *
 * A host is up while its node hosts/<host>/up exists, which is ephemeral: two orchestrators cannot both make
 * it. A process that was killed leaves it, with all that was ephemeral of it, until its session
 * expires. Its successor on the same machine need not wait for that: the node says which process
 * made it, and when that is dead, or the instance is the same, we end its session ourselves, with
 * the password that the node has.
 */
#include "ffo/store/zk/zks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TRIES 6u

/* host_up(), from its call to its end. */
struct up_call {
	STAILQ_ENTRY(up_call) entry; /* in uphost->after */
	LIST_ENTRY(up_call) ending;  /* in zks->ending, while `timer` is there */
	struct zks *s;
	struct ffo_host h;
	store_done_cb done;
	void *arg;
	unsigned int tries;
	struct zk *other; /* the session that is being ended */
	uv_timer_t *timer;
};

struct uphost *uphost_find(struct zks *s, const char *name)
{
	struct uphost *h;

	LIST_FOREACH(h, &s->hosts, entry)
		if (!h->leaving && !strcmp(h->h.name, name))
			return h;
	return NULL;
}

static struct uphost *leaving_find(struct zks *s, const char *name)
{
	struct uphost *h;

	LIST_FOREACH(h, &s->hosts, entry)
		if (h->leaving && !strcmp(h->h.name, name))
			return h;
	return NULL;
}

static void host_path(const char *name, char *path)
{
	snprintf(path, ZK_PATH_MAX, "/hosts/%s", name);
}

static struct uphost *uphost_new(struct zks *s, const struct ffo_host *host)
{
	struct uphost *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->s = s;
	h->h = *host;
	h->h.up = true;
	LIST_INIT(&h->nodes);
	STAILQ_INIT(&h->after);
	LIST_INSERT_HEAD(&s->hosts, h, entry);
	return h;
}

/* The record that stays: made or replaced, without waiting for it. */
static void host_keep(struct zks *s, const struct ffo_host *host)
{
	struct rec_up u = { .host = *host };
	char path[ZK_PATH_MAX];
	size_t len;
	char *data;

	u.host.up = false;
	data = rec_up(&u, &len);
	if (!data)
		return;
	host_path(host->name, path);
	/* One of them does it: they take place in this order. */
	zk_create(s->zk, path, data, len, ZK_PERSISTENT, NULL, NULL);
	zk_set(s->zk, path, data, len, -1, NULL, NULL);
	free(data);
}

/* ---- host_up -------------------------------------------------------------------------------- */

static void up_try(struct up_call *c);

static void up_end(struct up_call *c, int err, const char *why)
{
	c->done(c->arg, err, why);
	free(c);
}

static void up_replaced(void *arg, int err)
{
	struct up_call *c = arg;

	up_end(c, err == -ESHUTDOWN ? -ENOTCONN : err, "");
}

/* It is up here already: the same router again. */
static void up_again(struct up_call *c, struct uphost *h)
{
	char path[ZK_PATH_MAX];
	struct ephemeral_call *ephemeral;

	if (!*c->h.instance || strcmp(h->h.instance, c->h.instance)) {
		up_end(c, -EEXIST, "");
		return;
	}
	ephemeral = ephemeral_begin(c->s);
	if (!ephemeral) {
		up_end(c, -ENOMEM, "");
		return;
	}
	ephemeral->own = up_replaced;
	ephemeral->arg = c;
	ephemeral_drop(h, true, ephemeral);
	h->h = c->h;
	h->h.up = true;
	host_keep(c->s, &c->h);
	zks_up_path(h->h.name, path);
	if (ephemeral_node(h, NODE_UP, path, true, false, ephemeral))
		ephemeral->err = -ENOMEM;
	ephemeral_end(ephemeral);
}

static void up_created(void *arg, const struct zk_reply *r);

static void up_retry(struct up_call *c, int err)
{
	if (!err && ++c->tries < MAX_TRIES)
		up_try(c);
	else
		up_end(c, err ?: -EBUSY, "");
}

static void up_removed(void *arg, const struct zk_reply *r)
{
	up_retry(arg, r->err == -ENOENT || r->err == -ESTALE ? 0 : r->err);
}

/* ---- ending a dead process's session ---- */

static void other_over(struct up_call *c)
{
	struct zk *other = c->other;

	c->other = NULL;
	zk_close(other); /* we are in one of its callbacks: it takes place when that returns */
}

static void other_closed(uv_handle_t *h)
{
	struct up_call *c = h->data;

	free(h);
	if (!c) /* the store was closed */
		return;
	LIST_REMOVE(c, ending);
	up_retry(c, zks_usable(c->s));
}

/* The other session has been ended, or could not be: on with our own. */
static void other_timeout(uv_timer_t *t)
{
	struct up_call *c = t->data;

	if (c->other)
		zk_abandon(c->other);
	c->other = NULL;
	if (!uv_is_closing((uv_handle_t *)t))
		uv_close((uv_handle_t *)t, other_closed);
}

static void other_connected(void *arg, bool fresh, bool watches)
{
	struct up_call *c = arg;

	(void)fresh, (void)watches;
	other_over(c);
	/* Its end and our next try go to servers of one ensemble, in this order. */
	uv_timer_start(c->timer, other_timeout, 1, 0);
}

static void other_nothing(void *arg)
{
	(void)arg;
}

static void other_changed(void *arg, const char *path, enum zk_change what)
{
	(void)arg, (void)path, (void)what;
}

static const struct zk_events other_events = {
	.connected = other_connected,
	.disconnected = other_nothing,
	.expired = other_nothing,
	.changed = other_changed,
};

/* The store closes. */
static void other_cancel(struct up_call *c)
{
	LIST_REMOVE(c, ending);
	if (c->other)
		zk_abandon(c->other);
	c->timer->data = NULL;
	if (!uv_is_closing((uv_handle_t *)c->timer))
		uv_close((uv_handle_t *)c->timer, other_closed);
	up_end(c, -ECANCELED, "");
}

static int end_session(struct up_call *c, const struct zk_session *session)
{
	struct zk_conf conf = { .servers = c->s->servers,
				.root = c->s->root,
				.timeout = c->s->timeout,
				.auth = *c->s->auth ? c->s->auth : NULL,
				.own = *c->s->own ? c->s->own : NULL,
				.operator_id = c->s->operator_id,
				.session = session };
	int err;

	c->timer = malloc(sizeof(*c->timer));
	if (!c->timer)
		return -ENOMEM;
	err = zk_open(c->s->loop, &conf, &other_events, c, &c->other);
	if (err) {
		free(c->timer);
		c->timer = NULL;
		return err;
	}
	LIST_INSERT_HEAD(&c->s->ending, c, ending);
	uv_timer_init(c->s->loop, c->timer);
	c->timer->data = c;
	uv_timer_start(c->timer, other_timeout, STORE_PATIENCE / 2, 0);
	return 0;
}

/* ---- */

static void up_found(void *arg, const struct zk_reply *r)
{
	struct up_call *c = arg;
	char path[ZK_PATH_MAX];
	struct uphost *h = uphost_find(c->s, c->h.name);
	struct rec_up u;
	bool same, dead;
	int err;

	zks_up_path(c->h.name, path);
	if (r->err) {
		up_retry(c, r->err == -ENOENT ? 0 : r->err);
		return;
	}
	if (r->stat.owner == c->s->session.id) {
		if (h)
			up_again(c, h);
		else if ((err = zk_delete(c->s->zk, path, r->stat.version, up_removed, c)))
			up_end(c, err, "");
		return;
	}
	err = zks_damage(c->s, path, rec_to_up(r->data, r->len, &u));
	if (err) {
		up_end(c, err, "");
		return;
	}
	same = *u.host.instance && !strcmp(u.host.instance, c->h.instance);
	dead = rec_process_dead(u.process);
	if (!u.session.id || u.session.id != r->stat.owner || (!same && !dead)) {
		up_end(c, -EEXIST, "");
		return;
	}
	log_info("host %s: ends the session 0x%llx of its %s", c->h.name,
		 (unsigned long long)u.session.id, dead ? "dead process" : "former connection");
	err = end_session(c, &u.session);
	if (err)
		up_end(c, err, "");
}

static void up_created(void *arg, const struct zk_reply *r)
{
	struct up_call *c = arg;
	struct uphost *h = NULL;
	char path[ZK_PATH_MAX];
	int err = r->err;

	zks_up_path(c->h.name, path);
	if (err == -EACCES || err == -ENOENT) {
		up_end(c, -EACCES,
		       "ZooKeeper has no folder of this host's credentials: an operator has to name it");
		return;
	}
	if (err == -EEXIST) {
		err = zk_get(c->s->zk, path, false, up_found, c);
		if (err)
			up_end(c, err, "");
		return;
	}
	if (!err) {
		h = uphost_new(c->s, &c->h);
		if (!h || ephemeral_node(h, NODE_UP, path, true, true, NULL))
			err = -ENOMEM;
	}
	if (!err)
		host_keep(c->s, &c->h);
	if (err && h) {
		LIST_REMOVE(h, entry);
		free(h);
	}
	up_end(c, err, "");
}

static void up_try(struct up_call *c)
{
	struct rec_up u = { .host = c->h, .session = c->s->session };
	struct uphost *leaving = leaving_find(c->s, c->h.name);
	int err = zks_usable(c->s);
	char path[ZK_PATH_MAX];
	char *data;
	size_t len;

	if (!err && leaving) { /* its nodes are still being taken away */
		STAILQ_INSERT_TAIL(&leaving->after, c, entry);
		return;
	}
	rec_process(u.process);
	data = rec_up(&u, &len);
	if (!err && !data)
		err = -ENOMEM;
	host_path(c->h.name, path);
	if (!err) /* the folder that it is in: often it is there */
		err = zk_create(c->s->zk, path, "", 0, ZK_PERSISTENT, NULL, NULL);
	zks_up_path(c->h.name, path);
	if (!err)
		err = zk_create(c->s->zk, path, data, len, ZK_EPHEMERAL, up_created, c);
	free(data);
	if (err)
		up_end(c, err, "");
}

void zks_host_up(struct ffo_store *base, const struct ffo_host *h, store_done_cb done, void *arg)
{
	struct up_call *c = calloc(1, sizeof(*c));

	if (!c) {
		done(arg, -ENOMEM, "");
		return;
	}
	c->s = zks_of(base);
	c->h = *h;
	c->h.up = true;
	c->done = done;
	c->arg = arg;
	up_try(c);
}

/* ---- host_down ------------------------------------------------------------------------------ */

struct down_call {
	struct uphost *h;
	uint64_t last_seen;
	bool kept;
	store_done_cb done;
	void *arg;
};

static void uphost_free(struct uphost *h)
{
	struct up_call *c;

	if (!LIST_EMPTY(&h->nodes)) /* for lack of memory: it stays until the session ends */
		return;
	LIST_REMOVE(h, entry);
	while ((c = STAILQ_FIRST(&h->after))) {
		STAILQ_REMOVE_HEAD(&h->after, entry);
		up_try(c);
	}
	free(h);
}

static void down_ended(void *arg, int err)
{
	struct down_call *c = arg;
	struct uphost *h = c->h;

	if (!err && h->s->ready && !c->kept) {
		h->h.last_seen = c->last_seen;
		host_keep(h->s, &h->h);
	}
	/* With the session, all of it has gone as well. */
	c->done(c->arg, err == -ESHUTDOWN ? 0 : err, "");
	if (err != -ESHUTDOWN && err != -ECANCELED) /* else ephemeral_lost()'s caller frees it */
		uphost_free(h);
	free(c);
}

void zks_host_down(struct ffo_store *base, const struct ffo_host *host, store_done_cb done,
		   void *arg)
{
	struct uphost *h = uphost_find(zks_of(base), host->name);
	struct down_call *c;
	struct ephemeral_call *ephemeral;

	if (!h || strcmp(h->h.instance, host->instance)) {
		done(arg, 0, "");
		return;
	}
	c = calloc(1, sizeof(*c));
	ephemeral = c ? ephemeral_begin(h->s) : NULL;
	if (!ephemeral) {
		free(c);
		done(arg, -ENOMEM, "");
		return;
	}
	*c = (struct down_call){ .h = h, .last_seen = host->last_seen, .done = done, .arg = arg };
	ephemeral->own = down_ended;
	ephemeral->arg = c;
	h->leaving = true;
	if (h->s->ready) { /* before it is seen to be down */
		h->h.last_seen = host->last_seen;
		host_keep(h->s, &h->h);
		c->kept = true;
	}
	ephemeral_drop(h, false, ephemeral);
	ephemeral_end(ephemeral);
}

/* The session is over (-ESHUTDOWN), or the store closes (-ECANCELED). */
void uphost_all_lost(struct zks *s, int err)
{
	LIST_HEAD(, uphost) lost = LIST_HEAD_INITIALIZER(lost);
	struct uphost *h;
	struct up_call *c;

	while (err == -ECANCELED && (c = LIST_FIRST(&s->ending)))
		other_cancel(c);
	while ((h = LIST_FIRST(&s->hosts))) {
		LIST_REMOVE(h, entry);
		LIST_INSERT_HEAD(&lost, h, entry);
	}
	while ((h = LIST_FIRST(&lost))) {
		ephemeral_lost(h, err);
		while ((c = STAILQ_FIRST(&h->after))) {
			STAILQ_REMOVE_HEAD(&h->after, entry);
			up_end(c, err == -ESHUTDOWN ? -ENOTCONN : err, "");
		}
		LIST_REMOVE(h, entry);
		free(h);
	}
}

/* ---- host_del ------------------------------------------------------------------------------- */

struct del_call {
	struct zks *s;
	char path[ZK_PATH_MAX];
	int32_t version; /* of the record that stays */
	store_done_cb done;
	void *arg;
};

static void del_end(struct del_call *d, int err)
{
	d->done(d->arg, err, err == -EACCES ? ZKS_DENIED : "");
	free(d);
}

/* Another version: the host is up again, or somebody else has removed it. */
static void del_written(void *arg, const struct zk_reply *r)
{
	del_end(arg, r->err == -ESTALE ? -EAGAIN : r->err);
}

/*
 * The folder stays, since only an operator can make it for a host's own credentials. A host that comes up from now on
 * writes its record behind the node that was looked for here. So either the record has another version, or
 * what it writes comes last.
 */
static void del_looked(void *arg, const struct zk_reply *r)
{
	struct del_call *d = arg;
	int err = r->err;

	if (!err)
		err = -EBUSY;
	else if (err == -ENOENT)
		err = zk_set(d->s->zk, d->path, "", 0, d->version, del_written, d);
	if (err)
		del_end(d, err);
}

static void del_read(void *arg, const struct zk_reply *r)
{
	struct del_call *d = arg;
	char up[ZK_PATH_MAX];
	int err = r->err;

	if (!err && !r->len)
		err = -ENOENT;
	if (!err) {
		d->version = r->stat.version;
		zks_up_path(strrchr(d->path, '/') + 1, up);
		err = zk_exists(d->s->zk, up, false, del_looked, d);
	}
	if (err)
		del_end(d, err);
}

void zks_host_del(struct ffo_store *base, const char *name, store_done_cb done, void *arg)
{
	struct zks *s = zks_of(base);
	int err;
	struct del_call *d = zks_call_new(s, sizeof(*d), &err);

	if (!d) {
		done(arg, err, "");
		return;
	}
	*d = (struct del_call){ .s = s, .done = done, .arg = arg };
	host_path(name, d->path);
	zk_sync(s->zk, NULL, NULL);
	err = zk_get(s->zk, d->path, false, del_read, d);
	if (err)
		del_end(d, err);
}

/* ---- host_list ------------------------------------------------------------------------------ */

struct list_call {
	struct zks *s;
	char after[FFO_NAME_MAX];
	size_t limit, num, pending;
	struct list_item {
		struct list_call *call;
		struct ffo_host h;
		bool kept;
	} * items;
	bool more;
	int err;
	store_hosts_cb done;
	void *arg;
};

static void list_put(struct list_call *c, int err)
{
	struct ffo_host *hosts;
	size_t n = 0;

	if (err && !c->err)
		c->err = err;
	if (--c->pending)
		return;
	hosts = calloc(c->num + 1, sizeof(*hosts));
	if (!hosts && !c->err)
		c->err = -ENOMEM;
	for (size_t i = 0; !c->err && i < c->num; i++)
		if (c->items[i].kept || c->items[i].h.up)
			hosts[n++] = c->items[i].h;
	c->done(c->arg, c->err, "", hosts, c->err ? 0 : n, !c->err && c->more);
	free(hosts);
	free(c->items);
	free(c);
}

/* Either of a host's nodes; that of up comes second, and counts. */
static void item_read(struct list_item *it, const struct zk_reply *r, bool up)
{
	char name[FFO_NAME_MAX];
	struct rec_up u;
	int err = r->err;

	memcpy(name, it->h.name, sizeof(name));
	if (!err && !r->len) /* it has a place, and was never here */
		err = -ENOENT;
	if (!err)
		err = rec_to_up(r->data, r->len, &u);
	if (!err && strcmp(u.host.name, name))
		err = -EBADMSG;
	if (!err) {
		it->h = u.host;
		it->h.up = up;
		it->kept = true;
	} else if (err == -EBADMSG || err == -EPROTO) {
		/* One that is damaged does not hide the others. */
		zks_damage(it->call->s, up ? "hosts/.../up" : "hosts/", err);
		err = 0;
	}
	list_put(it->call, err == -ENOENT ? 0 : err);
}

static void kept_read(void *arg, const struct zk_reply *r)
{
	item_read(arg, r, false);
}

static void up_read(void *arg, const struct zk_reply *r)
{
	item_read(arg, r, true);
}

static int name_cmp(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void list_names(void *arg, const struct zk_reply *r)
{
	struct list_call *c = arg;
	const char **names = r->err ? NULL : calloc(r->num + 1, sizeof(*names));
	char path[ZK_PATH_MAX];
	size_t n = 0;
	int err = 0;

	if (!names) {
		list_put(c, r->err == -ENOENT ? 0 : r->err ?: -ENOMEM);
		return;
	}
	for (size_t i = 0; i < r->num; i++)
		if (ffo_name_ok(r->names[i]) && strcmp(r->names[i], c->after) > 0)
			names[n++] = r->names[i];
	qsort(names, n, sizeof(*names), name_cmp);
	c->more = n > c->limit;
	n = c->more ? c->limit : n;
	c->items = calloc(n + 1, sizeof(*c->items));
	if (!c->items)
		err = -ENOMEM;
	for (size_t i = 0; !err && i < n; i++) {
		struct list_item *it = &c->items[c->num++];

		it->call = c;
		strcpy(it->h.name, names[i]);
		host_path(names[i], path);
		err = zk_get(c->s->zk, path, false, kept_read, it);
		if (!err) {
			c->pending++;
			zks_up_path(names[i], path);
			err = zk_get(c->s->zk, path, false, up_read, it);
			c->pending += !err;
		}
	}
	free(names);
	list_put(c, err);
}

void zks_host_list(struct ffo_store *base, const char *after, size_t limit, store_hosts_cb done,
		   void *arg)
{
	struct zks *s = zks_of(base);
	int err;
	struct list_call *c = zks_call_new(s, sizeof(*c), &err);

	if (!c) {
		done(arg, err, "", NULL, 0, false);
		return;
	}
	c->s = s;
	snprintf(c->after, sizeof(c->after), "%s", after);
	c->limit = limit;
	c->done = done;
	c->arg = arg;
	c->pending = 1;
	zk_sync(s->zk, NULL, NULL);
	err = zk_children(s->zk, "/hosts", false, list_names, c);
	if (err)
		list_put(c, err);
}

/* ---- host_get ------------------------------------------------------------------------------- */

struct hget_call {
	struct zks *s;
	char name[FFO_NAME_MAX];
	bool up;
	store_host_cb done;
	void *arg;
};

static void hget_end(struct hget_call *g, int err, const struct ffo_host *h)
{
	g->done(g->arg, err, "", err ? NULL : h);
	free(g);
}

/* Its node in up/, and, when that is not there, the one that stays. */
static void hget_read(void *arg, const struct zk_reply *r)
{
	struct hget_call *g = arg;
	struct rec_up u = { 0 };
	char path[ZK_PATH_MAX];
	int err = r->err;

	if (err == -ENOENT && g->up) {
		g->up = false;
		host_path(g->name, path);
		err = zk_get(g->s->zk, path, false, hget_read, g);
		if (err)
			hget_end(g, err, NULL);
		return;
	}
	if (!err && !r->len)
		err = -ENOENT;
	if (!err)
		err = rec_to_up(r->data, r->len, &u);
	if (!err && strcmp(u.host.name, g->name))
		err = -EBADMSG;
	u.host.up = g->up;
	hget_end(g, zks_damage(g->s, g->name, err), &u.host);
}

void zks_host_get(struct ffo_store *base, const char *name, store_host_cb done, void *arg)
{
	struct zks *s = zks_of(base);
	char path[ZK_PATH_MAX];
	int err;
	struct hget_call *g = zks_call_new(s, sizeof(*g), &err);

	if (!g) {
		done(arg, err, "", NULL);
		return;
	}
	*g = (struct hget_call){ .s = s, .up = true, .done = done, .arg = arg };
	snprintf(g->name, sizeof(g->name), "%s", name);
	zks_up_path(name, path);
	zk_sync(s->zk, NULL, NULL);
	err = zk_get(s->zk, path, false, hget_read, g);
	if (err)
		hget_end(g, err, NULL);
}
