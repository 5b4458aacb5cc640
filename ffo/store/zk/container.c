/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * container.c - changes of containers. See zks.h for the tree; query.c asks for them. The
 * orchestrator's loop only.
 *
 * A change is one multi: ZooKeeper makes all of it or nothing, and says which part was in the way. A
 * name, a LID, an address is taken by making its node, so it cannot be taken twice, whoever allocates
 * at the same time; ids are the numbers of nodes that ZooKeeper counts, so hundreds may add at once.
 *
 * Free LIDs and addresses are not looked up but tried, at the place that the id gives: ids rise, so
 * it is free unless the pool has been gone through. After TRIES failures the folder is listed, and
 * the lowest free one behind that place taken, round the pool.
 */
#include "ffo/store/zk/zks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffo/base/idset.h"

#define TRIES 4u /* of a LID or an address, before the folder is listed */

enum part {
	PART_CONTAINER,
	PART_NAME,
	PART_LID,
	PART_ADDR,
	PART_ADDR_END = PART_ADDR + FFO_ADDR_MAX,
	PART_OWNED = PART_ADDR_END,
	PART_ACTIVE,
	PART_OLD,
	NUM_PARTS
};

static bool has_addr(const struct ffo_container *c, const struct in6_addr *addr)
{
	for (unsigned int i = 0; i < c->num_ips; i++)
		if (!memcmp(&c->ip[i], addr, sizeof(*addr)))
			return true;
	return false;
}

/* ---- changes -------------------------------------------------------------------------------- */

enum change { ADD, SET, DEL };

struct change_call {
	struct zks *s;
	enum change what;
	struct ffo_container was, now;
	unsigned int flags;
	bool given;	   /* the addresses are */
	bool kept;	   /* ADD: id, LID and epoch are */
	uint64_t deadline; /* ms of the loop: others come in between without end */
	/* ADD */
	unsigned int tries[FFO_ADDR_POOLS], lid_tries;
	unsigned int listing; /* the address that is looked for in a list */
	bool list_lids;
	/* which of the multi's changes is what; -1: none */
	int part[NUM_PARTS];
	int err; /* what it ends with, after the container as it is has been read */
	char why[120];
	store_container_cb done;
	void *arg;
};

static void change_round(struct change_call *c);

static void change_end(struct change_call *c, int err, const struct ffo_container *k)
{
	if (c->s->closing && err == -ENOTCONN)
		err = -ECANCELED;
	c->done(c->arg, err, c->why, k);
	free(c);
}

static void change_retry(struct change_call *c, int err)
{
	if (!err)
		err = zks_usable(c->s);
	if (!err && uv_now(c->s->loop) < c->deadline)
		change_round(c);
	else
		change_end(c, err ?: -EAGAIN, NULL);
}

/* The container that is in the way, or has changed: it goes with the error. */
static void change_read(void *arg, int err, const char *why, const struct ffo_container *k)
{
	struct change_call *c = arg;

	(void)why;
	if (c->err == -EAGAIN && err == -ENOENT)
		c->err = -ENOENT;
	change_end(c, c->err, err ? NULL : k);
}

static void change_fail(struct change_call *c, int err, const struct store_key *key)
{
	c->err = err;
	zks_container_get(&c->s->base, key, change_read, c);
}

static void folder_made(void *arg, const struct zk_reply *r)
{
	struct change_call *c = arg;

	change_retry(c, r->err == -EEXIST ? 0 : r->err);
}

static void make_folder(struct change_call *c, const char *path)
{
	char folder[ZK_PATH_MAX];
	int err;

	zks_parent(path, folder);
	err = zks_mkdirs(c->s, folder, folder_made, c);
	if (err)
		change_end(c, err, NULL);
}

/* ---- addresses ---- */

static idset_num num_of(const struct in6_addr *addr)
{
	idset_num n = 0;

	for (int i = 0; i < 16; i++)
		n = n << 8 | addr->s6_addr[i];
	return n;
}

static void addr_of(idset_num n, struct in6_addr *addr)
{
	for (int i = 15; i >= 0; i--, n >>= 8)
		addr->s6_addr[i] = (uint8_t)n;
}

static void range_of(struct change_call *c, unsigned int i, idset_num *first, idset_num *last)
{
	struct in6_addr a, b;

	alloc_range(c->s->alloc, c->now.tenant, i ? AF_INET6 : AF_INET, &a, &b);
	*first = num_of(&a);
	*last = num_of(&b);
}

/* The try after that many failed: at the place that the id gives, and on. */
static void choose_addr(struct change_call *c, unsigned int i)
{
	idset_num first, last;

	range_of(c, i, &first, &last);
	addr_of(first + (c->now.id - 1 + c->tries[i]) % (last - first + 1), &c->now.ip[i]);
}

static int lowest_free(struct idset *used, idset_num first, idset_num at, idset_num last,
		       idset_num *n)
{
	int err = idset_lowest_free(used, at, last, n);

	return err ? idset_lowest_free(used, first, at, n) : 0;
}

static void no_space(struct change_call *c, const char *of)
{
	snprintf(c->why, sizeof(c->why), "%s of tenant \"%s\" are used up", of, c->now.tenant);
	change_end(c, -ENOSPC, NULL);
}

static void addrs_listed(void *arg, const struct zk_reply *r)
{
	struct change_call *c = arg;
	unsigned int i = c->listing;
	idset_num first, last, n;
	struct in6_addr addr;
	struct idset used;
	int err = r->err;

	idset_init(&used);
	range_of(c, i, &first, &last);
	for (size_t k = 0; !err && k < r->num; k++)
		if (!ffo_addr_parse(r->names[k], &addr)) {
			n = num_of(&addr);
			if (n >= first && n <= last && idset_add(&used, n) == -ENOMEM)
				err = -ENOMEM;
		}
	if (!err && lowest_free(&used, first, num_of(&c->now.ip[i]), last, &n))
		err = -ENOSPC;
	idset_clear(&used);
	if (err == -ENOSPC) {
		no_space(c, i ? "the IPv6 addresses" : "the IPv4 addresses");
		return;
	}
	if (!err)
		addr_of(n, &c->now.ip[i]);
	change_retry(c, err);
}

static void addr_taken(struct change_call *c, unsigned int i)
{
	struct store_key key = { .kind = STORE_ADDR, .addr = c->now.ip[i] };
	char path[ZK_PATH_MAX], text[INET6_ADDRSTRLEN];
	int err;

	if (c->given) {
		strcpy(key.name, c->now.tenant);
		snprintf(c->why, sizeof(c->why), "%s is in use in tenant \"%s\"",
			 ffo_addr_text(&c->now.ip[i], text), c->now.tenant);
		change_fail(c, -EADDRINUSE, &key);
		return;
	}
	if (++c->tries[i] < TRIES) {
		choose_addr(c, i);
		change_retry(c, 0);
		return;
	}
	c->listing = i;
	zks_addr_path(c->now.tenant, &c->now.ip[i], path);
	zks_parent(path, path);
	zk_sync(c->s->zk, NULL, NULL);
	err = zk_children(c->s->zk, path, false, addrs_listed, c);
	if (err)
		change_end(c, err, NULL);
}

static void lids_listed(void *arg, const struct zk_reply *r)
{
	struct change_call *c = arg;
	struct idset used;
	int err = r->err;
	idset_num n;
	uint32_t v;

	idset_init(&used);
	for (size_t k = 0; !err && k < r->num; k++)
		if (!rec_name_number(r->names[k], &v) && idset_add(&used, v) == -ENOMEM)
			err = -ENOMEM;
	if (!err && lowest_free(&used, 1, c->now.lid, FFO_LID_MAX, &n))
		err = -ENOSPC;
	idset_clear(&used);
	if (err == -ENOSPC) {
		snprintf(c->why, sizeof(c->why), "all %u LIDs are in use", FFO_LID_MAX);
		change_end(c, err, NULL);
		return;
	}
	if (!err)
		c->now.lid = (uint16_t)n;
	change_retry(c, err);
}

static void choose_lid(struct change_call *c)
{
	c->now.lid = (uint16_t)(1 + (c->now.id - 1 + c->lid_tries) % FFO_LID_MAX);
}

static void lid_taken(struct change_call *c)
{
	int err;

	if (c->kept) {
		snprintf(c->why, sizeof(c->why), "another container has the LID %u", c->now.lid);
		change_end(c, -EEXIST, NULL);
		return;
	}
	if (++c->lid_tries < TRIES) {
		choose_lid(c);
		change_retry(c, 0);
		return;
	}
	zk_sync(c->s->zk, NULL, NULL);
	err = zk_children(c->s->zk, "/lids", false, lids_listed, c);
	if (err)
		change_end(c, err, NULL);
}

/* ---- the multi ---- */

static void part_is(struct change_call *c, enum part part, const struct zk_multi *m)
{
	c->part[part] = (int)zk_multi_count(m);
}

/* What is taken back or given up when the container becomes `now`, or goes. */
static void add_releases(struct change_call *c, struct zk_multi *m)
{
	char path[ZK_PATH_MAX];

	part_is(c, PART_OLD, m); /* and all behind it */
	for (unsigned int i = 0; i < c->was.num_ips; i++)
		if (c->what == DEL || !has_addr(&c->now, &c->was.ip[i])) {
			zks_addr_path(c->was.tenant, &c->was.ip[i], path);
			zk_multi_delete(m, path, -1);
		}
	if (c->what == DEL || strcmp(c->was.host, c->now.host)) {
		zks_owned_path(c->was.host, c->was.id, path);
		zk_multi_delete(m, path, -1);
	}
}

static void add_addresses(struct change_call *c, struct zk_multi *m, const char *data, size_t len)
{
	char path[ZK_PATH_MAX];

	for (unsigned int i = 0; i < c->now.num_ips; i++) {
		zks_addr_path(c->now.tenant, &c->now.ip[i], path);
		if (c->what == SET && has_addr(&c->was, &c->now.ip[i])) {
			zk_multi_set(m, path, data, len, -1);
			continue;
		}
		part_is(c, PART_ADDR + i, m);
		zk_multi_create(m, path, data, len, ZK_PERSISTENT);
	}
}

static void add_owned(struct change_call *c, struct zk_multi *m)
{
	char path[ZK_PATH_MAX];

	if (c->what == SET && !strcmp(c->was.host, c->now.host))
		return;
	zks_owned_path(c->now.host, c->now.id, path);
	part_is(c, PART_OWNED, m);
	zk_multi_create(m, path, "", 0, ZK_PERSISTENT);
}

static void put_add(struct change_call *c, struct zk_multi *m, const char *data, size_t len)
{
	char path[ZK_PATH_MAX];

	part_is(c, PART_CONTAINER, m);
	zks_id_path(c->now.id, path);
	zk_multi_create(m, path, data, len, ZK_PERSISTENT);
	part_is(c, PART_NAME, m);
	zks_name_path(c->now.name, path);
	zk_multi_create(m, path, data, len, ZK_PERSISTENT);
	part_is(c, PART_LID, m);
	zks_lid_path(c->now.lid, path);
	zk_multi_create(m, path, data, len, ZK_PERSISTENT);
	add_addresses(c, m, data, len);
	add_owned(c, m);
}

static void put_set(struct change_call *c, struct zk_multi *m, const char *data, size_t len)
{
	char path[ZK_PATH_MAX];

	part_is(c, PART_CONTAINER, m);
	zks_id_path(c->now.id, path);
	zk_multi_set(m, path, data, len, (int32_t)c->was.version);
	zks_name_path(c->now.name, path);
	zk_multi_set(m, path, data, len, -1);
	zks_lid_path(c->now.lid, path);
	zk_multi_set(m, path, data, len, -1);
	add_addresses(c, m, data, len);
	add_owned(c, m);
	if (c->flags & STORE_IF_IDLE) {
		/* Only who makes it first has it: it fails when it is there. */
		part_is(c, PART_ACTIVE, m);
		zks_active_path(c->was.id, c->was.epoch, path);
		zk_multi_create(m, path, "", 0, ZK_EPHEMERAL);
		zk_multi_delete(m, path, -1);
	}
	add_releases(c, m);
}

static void put_del(struct change_call *c, struct zk_multi *m)
{
	char path[ZK_PATH_MAX];

	part_is(c, PART_CONTAINER, m);
	zks_id_path(c->was.id, path);
	zk_multi_delete(m, path, (int32_t)c->was.version);
	part_is(c, PART_OLD, m);
	zks_name_path(c->was.name, path);
	zk_multi_delete(m, path, -1);
	zks_lid_path(c->was.lid, path);
	zk_multi_delete(m, path, -1);
	add_releases(c, m);
}

/* ---- its answer ---- */

struct removal {
	struct zks *s;
	char folder[ZK_PATH_MAX];
};

static void maps_listed(void *arg, const struct zk_reply *r);

/* The segments of a container that is gone. Whose they are removes them as well; that is later. */
static void remove_maps(struct zks *s, const struct ffo_container *c)
{
	struct removal *m = malloc(sizeof(*m));

	if (!m)
		return;
	m->s = s;
	zks_maps_path(c->host, c->id, m->folder);
	if (zk_children(s->zk, m->folder, false, maps_listed, m))
		free(m);
}

static void maps_listed(void *arg, const struct zk_reply *r)
{
	struct removal *m = arg;
	char path[ZK_PATH_MAX];

	for (size_t i = 0; !r->err && i < r->num; i++)
		if (strlen(r->names[i]) < 128) {
			snprintf(path, sizeof(path), "%.300s/%.127s", m->folder, r->names[i]);
			zk_delete(m->s->zk, path, -1, NULL, NULL);
		}
	free(m);
}

static void set_active(void *arg, const struct zk_reply *r)
{
	struct change_call *c = arg;

	c->now.active = !r->err;
	change_end(c, 0, &c->now);
}

static void change_made(struct change_call *c)
{
	char path[ZK_PATH_MAX];

	switch (c->what) {
	case ADD:
		c->now.version = 0;
		change_end(c, 0, &c->now);
		return;
	case SET:
		c->now.version = c->was.version + 1;
		zks_active_path(c->now.id, c->now.epoch, path);
		c->now.active = false;
		if (zk_exists(c->s->zk, path, false, set_active, c))
			change_end(c, 0, &c->now);
		return;
	case DEL:
		remove_maps(c->s, &c->was);
		change_end(c, 0, &c->was);
		return;
	}
}

static int part_error(const struct change_call *c, const struct zk_reply *r, enum part part)
{
	return c->part[part] < 0 ? 0 : r->errs[c->part[part]];
}

static void multi_failed(struct change_call *c, const struct zk_reply *r)
{
	struct store_key key = { .kind = STORE_ID, .id = c->was.id };
	char path[ZK_PATH_MAX];
	int err;

	for (size_t i = 0; i < r->num; i++)
		if (r->errs[i] == -EACCES) {
			snprintf(c->why, sizeof(c->why), "%s", ZKS_DENIED);
			change_end(c, -EACCES, NULL);
			return;
		}
	if (c->kept && part_error(c, r, PART_CONTAINER)) {
		snprintf(c->why, sizeof(c->why), "another container has the id %u", c->now.id);
		change_end(c, -EEXIST, NULL);
		return;
	}
	if (c->what == ADD && part_error(c, r, PART_CONTAINER)) {
		c->now.id = 0; /* it is in use: the tree has been copied from another one */
		change_retry(c, 0);
		return;
	}
	err = part_error(c, r, PART_CONTAINER);
	if (err) {
		change_fail(c, err == -ENOENT ? -ENOENT : -EAGAIN, &key);
		return;
	}
	if (part_error(c, r, PART_NAME)) {
		key = (struct store_key){ .kind = STORE_NAME };
		strcpy(key.name, c->now.name);
		change_fail(c, -EEXIST, &key);
		return;
	}
	if (part_error(c, r, PART_LID)) {
		lid_taken(c);
		return;
	}
	for (unsigned int i = 0; i < c->now.num_ips; i++) {
		err = part_error(c, r, PART_ADDR + i);
		zks_addr_path(c->now.tenant, &c->now.ip[i], path);
		if (err == -ENOENT) {
			make_folder(c, path);
			return;
		}
		if (err) {
			addr_taken(c, i);
			return;
		}
	}
	err = part_error(c, r, PART_OWNED);
	if (err == -ENOENT) {
		zks_owned_path(c->now.host, c->now.id, path);
		make_folder(c, path);
		return;
	}
	if (part_error(c, r, PART_ACTIVE) == -EEXIST) {
		change_fail(c, -EBUSY, &key);
		return;
	}
	/* What belongs to the container and is not there: the tree is damaged. */
	zks_id_path(c->what == ADD ? c->now.id : c->was.id, path);
	change_end(c, zks_damage(c->s, path, -EBADMSG), NULL);
}

static void multi_answered(void *arg, const struct zk_reply *r)
{
	struct change_call *c = arg;
	bool part = false;

	for (size_t i = 0; i < r->num; i++)
		part |= r->errs[i] != 0;
	if (!r->err)
		change_made(c);
	else if (part)
		multi_failed(c, r);
	else
		change_end(c, r->err, NULL);
}

/*
 * A container that an operator moves was its host's to write; from now on it is operators', or who has
 * broken into that host could take it back.
 */
static void take_away(struct change_call *c)
{
	char path[ZK_PATH_MAX];

	if (!zk_has_own(c->s->zk) || !zk_is_operator(c->s->zk) || c->what != SET ||
	    !strcmp(c->was.host, c->now.host))
		return;
	zks_id_path(c->was.id, path);
	zk_to_operators(c->s->zk, path, NULL, NULL);
	zks_name_path(c->was.name, path);
	zk_to_operators(c->s->zk, path, NULL, NULL);
	zks_lid_path(c->was.lid, path);
	zk_to_operators(c->s->zk, path, NULL, NULL);
	for (unsigned int i = 0; i < c->was.num_ips; i++) {
		zks_addr_path(c->was.tenant, &c->was.ip[i], path);
		zk_to_operators(c->s->zk, path, NULL, NULL);
	}
}

static void multi_send(struct change_call *c)
{
	struct zk_multi *m = zk_multi_new(c->s->zk);
	char *data = NULL;
	size_t len = 0;
	int err;

	if (c->what != DEL)
		data = rec_container(&c->now, &len);
	if (!m || (c->what != DEL && !data)) {
		if (m)
			zk_multi_drop(m);
		free(data);
		change_end(c, -ENOMEM, NULL);
		return;
	}
	memset(c->part, 0xff, sizeof(c->part));
	if (c->what == ADD)
		put_add(c, m, data, len);
	else if (c->what == SET)
		put_set(c, m, data, len);
	else
		put_del(c, m);
	take_away(c);
	err = zk_multi_send(m, multi_answered, c);
	free(data);
	if (err)
		change_end(c, err, NULL);
}

/* Another id, so other places to try; but what was found in a list is kept. */
static void choose_all(struct change_call *c, uint32_t id)
{
	c->now.id = id;
	if (c->lid_tries < TRIES) {
		c->lid_tries = 0;
		choose_lid(c);
	}
	for (unsigned int i = 0; !c->given && i < FFO_ADDR_POOLS; i++)
		if (c->tries[i] < TRIES) {
			c->tries[i] = 0;
			choose_addr(c, i);
		}
}

static void id_made(void *arg, const struct zk_reply *r)
{
	struct change_call *c = arg;
	uint32_t n = 0;
	int err = r->err;

	if (!err && (!r->path || strlen(r->path) != strlen("/ids/") + 10 ||
		     rec_name_number(r->path + strlen("/ids/"), &n) || n >= INT32_MAX))
		err = zks_damage(c->s, "/ids", -EBADMSG);
	if (err) {
		change_end(c, err, NULL);
		return;
	}
	zk_delete(c->s->zk, r->path, -1, NULL, NULL);
	choose_all(c, n + 1);
	multi_send(c);
}

static void change_round(struct change_call *c)
{
	int err;

	if (c->what != ADD || c->now.id) {
		multi_send(c);
		return;
	}
	err = zk_create(c->s->zk, "/ids/", "", 0, ZK_SEQUENCE, id_made, c);
	if (err)
		change_end(c, err, NULL);
}

static void change_start(struct ffo_store *base, enum change what, const struct ffo_container *was,
			 const struct ffo_container *now, unsigned int flags,
			 store_container_cb done, void *arg)
{
	struct zks *s = zks_of(base);
	int err;
	struct change_call *c = zks_call_new(s, sizeof(*c), &err);

	if (!c) {
		done(arg, err, "", NULL);
		return;
	}
	c->s = s;
	c->what = what;
	c->deadline = uv_now(s->loop) + STORE_PATIENCE;
	c->flags = flags;
	c->done = done;
	c->arg = arg;
	if (was)
		c->was = *was;
	if (now)
		c->now = *now;
	c->given = what == SET || c->now.num_ips;
	if (what == ADD) {
		c->kept = c->now.id;
		if (!c->kept)
			c->now.epoch = 1;
		c->now.active = false;
		if (!c->given)
			c->now.num_ips = FFO_ADDR_POOLS; /* one of each family, IPv4 first */
	}
	change_round(c);
}

void zks_container_add(struct ffo_store *base, const struct ffo_container *k,
		       store_container_cb done, void *arg)
{
	change_start(base, ADD, NULL, k, 0, done, arg);
}

void zks_container_set(struct ffo_store *base, const struct ffo_container *was,
		       const struct ffo_container *now, unsigned int flags, store_container_cb done,
		       void *arg)
{
	change_start(base, SET, was, now, flags, done, arg);
}

void zks_container_del(struct ffo_store *base, const struct ffo_container *was,
		       store_container_cb done, void *arg)
{
	change_start(base, DEL, was, NULL, 0, done, arg);
}
