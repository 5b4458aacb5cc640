/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * query.c - where containers are in the tree, and what is asked for once: one of them, a page of
 * them. See zks.h. The orchestrator's loop only.
 *
 * A server may lag behind another one: a sync before each question, in the same flight, makes it see
 * what has been changed before.
 *
 * Tests: test_container.c, test_zks.c
 */
#include "ffo/store/zk/zks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- which store ---------------------------------------------------------------------------- */

struct identity_call {
	struct zks *s;
	store_identity_cb done;
	void *arg;
	char id[STORE_ID_MAX];
};

static void identity_end(struct identity_call *c, int err, uint32_t last)
{
	c->done(c->arg, err == -ENOENT ? -EBADMSG : err, "", err ? "" : c->id, last);
	free(c);
}

/*
 * A new container's id is how many nodes were made below "ids". Ids that containers brought from another store (`ffctl
 * store accept`) are not among them: such a container counts as newer than the tree, and is kept until an operator
 * decides.
 */
static void ids_read(void *arg, const struct zk_reply *r)
{
	identity_end(arg, r->err, r->stat.children_made);
}

/* The node "version" was made with the tree. */
static void identity_read(void *arg, const struct zk_reply *r)
{
	struct identity_call *c = arg;
	int err = r->err;

	if (!err) {
		snprintf(c->id, sizeof(c->id), "%" PRIx64 "-%" PRIx64, (uint64_t)r->stat.made_ms,
			 (uint64_t)r->stat.born);
		err = zk_get(c->s->zk, "/ids", false, ids_read, c);
	}
	if (err)
		identity_end(c, err, 0);
}

void zks_identity(struct ffo_store *base, store_identity_cb done, void *arg)
{
	struct zks *s = zks_of(base);
	int err;
	struct identity_call *c = zks_call_new(s, sizeof(*c), &err);

	if (c) {
		*c = (struct identity_call){ .s = s, .done = done, .arg = arg };
		err = zk_get(s->zk, "/version", false, identity_read, c);
	}
	if (err) {
		free(c);
		done(arg, err, "", "", 0);
	}
}

/* ---- paths ---------------------------------------------------------------------------------- */

void zks_id_path(uint32_t id, char *path)
{
	snprintf(path, ZK_PATH_MAX, "/containers/%010" PRIu32, id);
}

void zks_name_path(const char *name, char *path)
{
	snprintf(path, ZK_PATH_MAX, "/names/%s", name);
}

void zks_lid_path(uint16_t lid, char *path)
{
	snprintf(path, ZK_PATH_MAX, "/lids/%u", lid);
}

void zks_addr_path(const char *tenant, const struct in6_addr *addr, char *path)
{
	char text[INET6_ADDRSTRLEN];

	snprintf(path, ZK_PATH_MAX, "/addrs/%s/%s", tenant, ffo_addr_text(addr, text));
}

void zks_owned_path(const char *host, uint32_t id, char *path)
{
	snprintf(path, ZK_PATH_MAX, "/owned/%s/%010" PRIu32, host, id);
}

void zks_active_path(uint32_t id, uint32_t epoch, char *path)
{
	snprintf(path, ZK_PATH_MAX, "/active/%010" PRIu32 "-%" PRIu32, id, epoch);
}

void zks_up_path(const char *host, char *path)
{
	snprintf(path, ZK_PATH_MAX, "/hosts/%s/up", host);
}

void zks_maps_path(const char *host, uint32_t id, char *path)
{
	snprintf(path, ZK_PATH_MAX, "/hosts/%s/maps/%010" PRIu32, host, id);
}

void zks_key_path(const struct store_key *key, char *buf)
{
	if (key->kind == STORE_ADDR)
		zks_addr_path(key->name, &key->addr, buf);
	else if (key->kind == STORE_LID)
		zks_lid_path(key->lid, buf);
	else if (key->kind == STORE_NAME)
		zks_name_path(key->name, buf);
	else
		zks_id_path(key->id, buf);
}

bool zks_key_fits(const struct store_key *key, const struct ffo_container *c)
{
	if (key->kind == STORE_LID)
		return c->lid == key->lid;
	if (key->kind == STORE_NAME)
		return !strcmp(c->name, key->name);
	if (key->kind == STORE_ID)
		return c->id == key->id;
	for (unsigned int i = 0; i < c->num_ips; i++)
		if (!memcmp(&c->ip[i], &key->addr, sizeof(key->addr)))
			return !strcmp(c->tenant, key->name);
	return false;
}

/* ---- container_get -------------------------------------------------------------------------- */

struct get_call {
	struct zks *s;
	struct store_key key;
	struct ffo_container c;
	store_container_cb done;
	void *arg;
};

static void get_end(struct get_call *g, int err)
{
	g->done(g->arg, err, "", err ? NULL : &g->c);
	free(g);
}

static void get_active(void *arg, const struct zk_reply *r)
{
	struct get_call *g = arg;

	g->c.active = !r->err;
	get_end(g, r->err == -ENOENT ? 0 : r->err);
}

/* The container's own node: its version is what changes are made under. */
static void get_record(void *arg, const struct zk_reply *r)
{
	struct get_call *g = arg;
	char path[ZK_PATH_MAX];
	int err = r->err;

	zks_key_path(&g->key, path);
	if (!err)
		err = rec_to_container(r->data, r->len, &g->c);
	if (!err && !zks_key_fits(&g->key, &g->c))
		err = -EBADMSG;
	err = zks_damage(g->s, path, err);
	if (!err && g->key.kind == STORE_ID) {
		g->c.version = (uint64_t)r->stat.version;
		zks_active_path(g->c.id, g->c.epoch, path);
		err = zk_exists(g->s->zk, path, false, get_active, g);
	} else if (!err) {
		g->key = (struct store_key){ .kind = STORE_ID, .id = g->c.id };
		zks_id_path(g->key.id, path);
		err = zk_get(g->s->zk, path, false, get_record, g);
	}
	if (err)
		get_end(g, err);
}

void zks_container_get(struct ffo_store *base, const struct store_key *key, store_container_cb done,
		       void *arg)
{
	struct zks *s = zks_of(base);
	char path[ZK_PATH_MAX];
	int err;
	struct get_call *g = zks_call_new(s, sizeof(*g), &err);

	if (!g) {
		done(arg, err, "", NULL);
		return;
	}
	*g = (struct get_call){ .s = s, .key = *key, .done = done, .arg = arg };
	zks_key_path(key, path);
	zk_sync(s->zk, NULL, NULL);
	err = zk_get(s->zk, path, false, get_record, g);
	if (err)
		get_end(g, err);
}

/* ---- container_list ------------------------------------------------------------------------- */

struct list_item {
	struct list_call *call;
	uint32_t id;
	bool found;
	struct ffo_container c;
};

struct list_call {
	struct zks *s;
	char host[FFO_NAME_MAX];
	uint32_t after;
	size_t limit, num, pending;
	struct list_item *items;
	bool more;
	int err;
	store_containers_cb done;
	void *arg;
};

static void list_put(struct list_call *l, int err)
{
	struct ffo_container *list;
	size_t n = 0;

	if (err && !l->err)
		l->err = err;
	if (--l->pending)
		return;
	list = calloc(l->num + 1, sizeof(*list));
	if (!list && !l->err)
		l->err = -ENOMEM;
	for (size_t i = 0; !l->err && i < l->num; i++)
		if (l->items[i].found)
			list[n++] = l->items[i].c;
	l->done(l->arg, l->err, "", list, l->err ? 0 : n, !l->err && l->more);
	free(list);
	free(l->items);
	free(l);
}

static void item_active(void *arg, const struct zk_reply *r)
{
	struct list_item *it = arg;

	it->c.active = !r->err;
	list_put(it->call, r->err == -ENOENT ? 0 : r->err);
}

static void item_record(void *arg, const struct zk_reply *r)
{
	struct list_item *it = arg;
	struct list_call *l = it->call;
	char path[ZK_PATH_MAX];
	int err = r->err;

	zks_id_path(it->id, path);
	if (!err)
		err = rec_to_container(r->data, r->len, &it->c);
	if (!err && it->c.id != it->id)
		err = -EBADMSG;
	if (err == -ENOENT || err == -EBADMSG || err == -EPROTO) {
		/* It went meanwhile, or one that is damaged: it does not hide the others. */
		zks_damage(l->s, path, err);
		list_put(l, 0);
		return;
	}
	if (!err) {
		it->c.version = (uint64_t)r->stat.version;
		it->found = !*l->host || !strcmp(it->c.host, l->host);
		zks_active_path(it->id, it->c.epoch, path);
		err = zk_exists(l->s->zk, path, false, item_active, it);
	}
	if (err)
		list_put(l, err);
}

static int id_cmp(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static void ids_listed(void *arg, const struct zk_reply *r)
{
	struct list_call *l = arg;
	uint32_t *ids = r->err ? NULL : calloc(r->num + 1, sizeof(*ids));
	char path[ZK_PATH_MAX];
	size_t n = 0;
	int err = 0;

	if (!ids) {
		list_put(l, r->err == -ENOENT ? 0 : r->err ?: -ENOMEM);
		return;
	}
	for (size_t i = 0; i < r->num; i++)
		if (!rec_name_number(r->names[i], &ids[n]) && ids[n] > l->after)
			n++;
	qsort(ids, n, sizeof(*ids), id_cmp);
	l->more = n > l->limit;
	n = l->more ? l->limit : n;
	l->items = calloc(n + 1, sizeof(*l->items));
	if (!l->items)
		err = -ENOMEM;
	for (size_t i = 0; !err && i < n; i++) {
		struct list_item *it = &l->items[l->num++];

		it->call = l;
		it->id = ids[i];
		zks_id_path(it->id, path);
		err = zk_get(l->s->zk, path, false, item_record, it);
		l->pending += !err;
	}
	free(ids);
	list_put(l, err);
}

void zks_container_list(struct ffo_store *base, const char *host, uint32_t after, size_t limit,
			store_containers_cb done, void *arg)
{
	struct zks *s = zks_of(base);
	char path[ZK_PATH_MAX];
	int err;
	struct list_call *l = zks_call_new(s, sizeof(*l), &err);

	if (!l) {
		done(arg, err, "", NULL, 0, false);
		return;
	}
	*l = (struct list_call){ .s = s, .after = after, .limit = limit, .done = done, .arg = arg };
	l->pending = 1;
	if (host)
		snprintf(l->host, sizeof(l->host), "%s", host);
	if (host)
		snprintf(path, sizeof(path), "/owned/%s", host);
	else
		snprintf(path, sizeof(path), "/containers");
	zk_sync(s->zk, NULL, NULL);
	err = zk_children(s->zk, path, false, ids_listed, l);
	if (err)
		list_put(l, err);
}
