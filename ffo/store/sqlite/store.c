/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * store.c - the embedded store: one SQLite file that one orchestrator has open at a time,
 * or ":memory:". See store.h for what it promises, db.c for the file. The orchestrator's loop
 * only.
 *
 * It is always STORE_READY, and every call ends before it returns. What is taken of addresses and
 * LIDs is kept in the orchestrator's struct alloc, loaded when the store is opened.
 */
#include "ffo/store/store.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffr/lib/log.h"
#include "ffo/store/sqlite/internal.h"

static const char *const statement_sql[NUM_ST] = {
#define X(NAME, sql) sql,
	STATEMENTS(X)
#undef X
};

void sqlite_identity(struct ffo_store *base, store_identity_cb done, void *arg)
{
	struct store *s = store_of(base);
	sqlite3_stmt *stmt = prep(s, ST_IDENTITY, "");
	char id[STORE_ID_MAX] = "";
	int64_t last = 0;
	int err = sqldb_next(&s->db, stmt);

	if (err == 1) {
		err = sqldb_text(stmt, 0, id, sizeof(id));
		last = sqlite3_column_int64(stmt, 1);
		sqlite3_reset(stmt);
	} else if (!err) {
		err = -EBADMSG;
	}
	done(arg, err, "", id, last > UINT32_MAX ? UINT32_MAX : (uint32_t)last);
}

/*
 * SQLite reads the pages within one transaction, those in the write-ahead log among them. The copy
 * is alone in its file, so it is marked (bytes 18 and 19 of its header) as one that has no
 * write-ahead log.
 */
void sqlite_backup(struct ffo_store *base, store_backup_cb done, void *arg)
{
	sqlite3_int64 size = 0;
	unsigned char *data = sqlite3_serialize(store_of(base)->db.db, "main", &size, 0);

	if (!data) {
		done(arg, -EIO, "the store's file cannot be read", NULL, 0);
		return;
	}
	data[18] = data[19] = 1;
	done(arg, 0, "", data, (size_t)size);
	sqlite3_free(data);
}

/* ---- hosts ----------------------------------------------------------------------------------- */

void sqlite_host_up(struct ffo_store *base, const struct ffo_host *h, store_done_cb done, void *arg)
{
	struct store *s = store_of(base);
	struct ffo_host was;
	char why[100] = "";
	int err = sqlite_begin(s);

	if (err) {
		done(arg, err, "");
		return;
	}
	err = sqlite_get_host(s, h->name, &was);
	if (!err && was.up && (!*h->instance || strcmp(h->instance, was.instance))) {
		snprintf(why, sizeof(why), "another router is connected as host %s", h->name);
		err = -EEXIST;
	} else if (!err || err == -ENOENT) {
		err = sqlite_drop_ephemeral(s, h->name);
	}
	if (!err)
		err = run(s, prep(s, ST_HOST_PUT, "sssi", h->name, h->instance, h->wire,
				  (int64_t)h->last_seen));
	if (!err)
		err = run(s, prep(s, ST_UP_ADD, "s", h->name));
	done(arg, sqlite_end(s, err), why);
	sqlite_work_off(s);
}

/* In a step of its own, which does not need the file: a full disk keeps nobody up. */
static int take_down(struct store *s, const struct ffo_host *h, bool *was_up)
{
	struct ffo_host was;
	int err = sqlite_begin(s);

	*was_up = false;
	if (err)
		return err;
	err = sqlite_get_host(s, h->name, &was);
	*was_up = !err && was.up && !strcmp(was.instance, h->instance);
	if (*was_up)
		err = sqlite_drop_ephemeral(s, h->name);
	return sqlite_end(s, err == -ENOENT ? 0 : err);
}

void sqlite_host_down(struct ffo_store *base, const struct ffo_host *h, store_done_cb done,
		      void *arg)
{
	struct store *s = store_of(base);
	bool was_up;
	int err = take_down(s, h, &was_up);

	if (!err && was_up)
		err = run(s, prep(s, ST_HOST_SEEN, "is", (int64_t)h->last_seen, h->name));
	done(arg, err, "");
	sqlite_work_off(s);
}

void sqlite_host_del(struct ffo_store *base, const char *name, store_done_cb done, void *arg)
{
	struct store *s = store_of(base);
	int err = sqlite_begin(s);
	struct ffo_host was;

	if (err) {
		done(arg, err, "");
		return;
	}
	err = sqlite_get_host(s, name, &was);
	if (!err && was.up)
		err = -EBUSY;
	if (!err)
		err = run(s, prep(s, ST_HOST_DEL, "s", name));
	if (!err)
		err = sqlite_note_named(s, STORE_HOST, name);
	done(arg, sqlite_end(s, err), "");
	sqlite_work_off(s);
}

void sqlite_host_get(struct ffo_store *base, const char *name, store_host_cb done, void *arg)
{
	struct ffo_host h;
	int err = sqlite_get_host(store_of(base), name, &h);

	done(arg, err, "", err ? NULL : &h);
}

void sqlite_host_list(struct ffo_store *base, const char *after, size_t limit, store_hosts_cb done,
		      void *arg)
{
	struct ffo_host *list = calloc(limit + 1, sizeof(*list));
	struct store *s = store_of(base);
	ssize_t n = -ENOMEM;

	if (list)
		n = sqlite_get_hosts(s, prep(s, ST_HOST_LIST, "si", after, (int64_t)limit + 1),
				     list, limit + 1);
	if (n < 0)
		done(arg, (int)n, "", NULL, 0, false);
	else
		done(arg, 0, "", list, (size_t)n > limit ? limit : (size_t)n, (size_t)n > limit);
	free(list);
}

/* ---- containers ------------------------------------------------------------------------------ */

/* What a change has taken from the allocator, or may give back to it. */
struct holding {
	const char *tenant;
	struct in6_addr ip[FFO_ADDR_MAX];
	unsigned int num_ips;
	uint16_t lid; /* 0: none */
};

static void give_back(struct store *s, const struct holding *h)
{
	for (unsigned int i = 0; i < h->num_ips; i++)
		alloc_put_addr(s->alloc, h->tenant, &h->ip[i]);
	if (h->lid)
		alloc_put_lid(s->alloc, h->lid);
}

int sqlite_try_next(struct ffo_store *base)
{
	store_of(base)->try_next = true;
	return 0;
}

/* A change of a container, from its call to its end. */
struct change {
	struct store *s;
	struct ffo_container c; /* as it becomes */
	struct ffo_container other;
	bool knows_other;	  /* of -EEXIST, -EAGAIN, -EBUSY: `other` is it */
	struct holding claimed;	  /* given back when the change fails */
	struct holding unclaimed; /* given back when it takes place */
	char why[160];
};

static int __attribute__((format(printf, 3, 4)))
fail(struct change *ch, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(ch->why, sizeof(ch->why), fmt, ap);
	va_end(ap);
	return err;
}

static void change_end(struct change *ch, int err, store_container_cb done, void *arg)
{
	const struct ffo_container *c = err ? ch->knows_other ? &ch->other : NULL : &ch->c;

	err = sqlite_end(ch->s, err);
	give_back(ch->s, err || ch->s->trying ? &ch->claimed : &ch->unclaimed);
	done(arg, err, ch->why, c);
	sqlite_work_off(ch->s);
}

static int claim_ip(struct change *ch, const struct in6_addr *ip)
{
	int err = alloc_take_addr(ch->s->alloc, ch->c.tenant, ip);
	char text[INET6_ADDRSTRLEN];

	if (err == -EADDRINUSE)
		return fail(ch, err, "%s is in use in tenant \"%s\"", ffo_addr_text(ip, text),
			    ch->c.tenant);
	if (!err)
		ch->claimed.ip[ch->claimed.num_ips++] = *ip;
	return err;
}

/* One of each family from the tenant's pools. */
static int allocate_ips(struct change *ch)
{
	static const int families[] = { AF_INET, AF_INET6 };
	struct ffo_container *c = &ch->c;
	int err;

	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		err = alloc_addr(ch->s->alloc, c->tenant, families[i], &c->ip[i]);
		if (err == -ENOSPC)
			return fail(ch, err, "no %s address is left for tenant \"%s\"",
				    families[i] == AF_INET ? "IPv4" : "IPv6", c->tenant);
		if (err)
			return err;
		c->num_ips++;
		ch->claimed.ip[ch->claimed.num_ips++] = c->ip[i];
	}
	return 0;
}

/* st: ST_CONT_INSERT, with the next id if it has none, or ST_CONT_UPDATE. */
static int put_container(struct store *s, int st, struct ffo_container *c)
{
	char *limits = sqlite_limits_text(&c->limits);
	int err;

	if (!limits)
		return -ENOMEM;
	err = run(s, prep(s, st, "ssissisisi", c->name, c->tenant, (int64_t)c->lid,
			  ffo_mode_name[c->mode], c->host, (int64_t)c->epoch, limits,
			  (int64_t)c->id, c->device_name, (int64_t)c->devices));
	free(limits);
	if (err)
		return err;
	if (!c->id) {
		if (sqlite3_last_insert_rowid(s->db.db) > UINT32_MAX)
			return -ENOSPC;
		c->id = (uint32_t)sqlite3_last_insert_rowid(s->db.db);
	}
	err = run(s, prep(s, ST_ADDR_DELETE, "i", (int64_t)c->id));
	for (unsigned int i = 0; !err && i < c->num_ips; i++)
		err = run(s, prep(s, ST_ADDR_INSERT, "iisa", (int64_t)c->id, (int64_t)i, c->tenant,
				  &c->ip[i]));
	return err ? err : sqlite_note_container(s, c);
}

static int add(struct change *ch)
{
	const struct store_key name = sqlite_named(STORE_NAME, ch->c.name);
	struct ffo_container *c = &ch->c;
	int err;

	err = sqlite_get_container(ch->s, &name, &ch->other);
	if (!err) {
		ch->knows_other = true;
		return -EEXIST;
	}
	if (err == -ENOENT && c->id) {
		err = sqlite_get_by_id(ch->s, c->id, &ch->other);
		if (!err)
			return fail(ch, -EEXIST, "container \"%s\" has the id %u", ch->other.name,
				    c->id);
	}
	if (err != -ENOENT)
		return err;
	err = c->num_ips ? 0 : allocate_ips(ch);
	for (unsigned int i = ch->claimed.num_ips; !err && i < c->num_ips; i++)
		err = claim_ip(ch, &c->ip[i]);
	if (err)
		return err;
	if (c->id)
		err = alloc_take_lid(ch->s->alloc, c->lid);
	else
		err = alloc_lid(ch->s->alloc, &c->lid);
	if (err == -ENOSPC)
		return fail(ch, err, "no LID is left: %u containers exist", FFO_LID_MAX);
	if (err == -EEXIST)
		return fail(ch, err, "another container has the LID %u", c->lid);
	if (err)
		return err;
	ch->claimed.lid = c->lid;
	return put_container(ch->s, ST_CONT_INSERT, c);
}

void sqlite_container_add(struct ffo_store *base, const struct ffo_container *c,
			  store_container_cb done, void *arg)
{
	struct change ch = { .s = store_of(base), .c = *c };
	int err = sqlite_begin(ch.s);

	if (err) {
		done(arg, err, "", NULL);
		return;
	}
	if (!ch.c.id) {
		ch.c.lid = 0;
		ch.c.epoch = 1;
	}
	ch.c.active = false;
	ch.c.version = 0;
	ch.claimed.tenant = ch.c.tenant;
	change_end(&ch, add(&ch), done, arg);
}

/* Is it still what its change was made from? */
static int check_was(struct change *ch, const struct ffo_container *was)
{
	int err = sqlite_get_by_id(ch->s, was->id, &ch->other);

	if (err)
		return err;
	ch->knows_other = true;
	return ffo_container_same(was, &ch->other) ? 0 : -EAGAIN;
}

static bool has_ip(const struct ffo_container *c, const struct in6_addr *ip)
{
	for (unsigned int i = 0; i < c->num_ips; i++)
		if (IN6_ARE_ADDR_EQUAL(&c->ip[i], ip))
			return true;
	return false;
}

static int move(struct change *ch, const struct ffo_container *was)
{
	int err = run(ch->s, prep(ch->s, ST_ACTIVE_DROP, "i", (int64_t)was->id));

	if (!err)
		err = run(ch->s, prep(ch->s, ST_MAP_DROP, "iii", (int64_t)was->id, (int64_t)0,
				      (int64_t)0));
	if (!err)
		err = sqlite_note_reset(ch->s, was->id, was->epoch);
	ch->c.active = false;
	return err;
}

static int set(struct change *ch, const struct ffo_container *was, unsigned int flags)
{
	struct ffo_container *c = &ch->c;
	int err = check_was(ch, was);

	if (err)
		return err;
	if (flags & STORE_IF_IDLE && ch->other.active)
		return -EBUSY;
	c->active = ch->other.active;
	for (unsigned int i = 0; !err && i < c->num_ips; i++)
		if (!has_ip(was, &c->ip[i]))
			err = claim_ip(ch, &c->ip[i]);
	for (unsigned int i = 0; i < was->num_ips; i++)
		if (!has_ip(c, &was->ip[i]))
			ch->unclaimed.ip[ch->unclaimed.num_ips++] = was->ip[i];
	if (!err && strcmp(was->host, c->host))
		err = move(ch, was);
	if (!err) /* the old host and those of the old addresses */
		err = sqlite_note_container(ch->s, was);
	return err ? err : put_container(ch->s, ST_CONT_UPDATE, c);
}

void sqlite_container_set(struct ffo_store *base, const struct ffo_container *was,
			  const struct ffo_container *now, unsigned int flags,
			  store_container_cb done, void *arg)
{
	struct change ch = { .s = store_of(base), .c = *now };
	int err = sqlite_begin(ch.s);

	if (err) {
		done(arg, err, "", NULL);
		return;
	}
	ch.claimed.tenant = ch.unclaimed.tenant = ch.c.tenant;
	change_end(&ch, set(&ch, was, flags), done, arg);
}

static int del(struct change *ch, const struct ffo_container *was)
{
	struct store *s = ch->s;
	int err = check_was(ch, was);

	if (err)
		return err;
	ch->c = ch->other;
	memcpy(ch->unclaimed.ip, was->ip, sizeof(was->ip));
	ch->unclaimed.num_ips = was->num_ips;
	ch->unclaimed.lid = was->lid;
	err = run(s, prep(s, ST_CONT_DELETE, "i", (int64_t)was->id));
	if (!err)
		err = run(s, prep(s, ST_MAP_DROP, "iii", (int64_t)was->id, (int64_t)0, (int64_t)0));
	if (!err)
		err = run(s, prep(s, ST_ACTIVE_DROP, "i", (int64_t)was->id));
	if (!err)
		err = sqlite_note_reset(s, was->id, was->epoch);
	return err ? err : sqlite_note_container(s, was);
}

void sqlite_container_del(struct ffo_store *base, const struct ffo_container *was,
			  store_container_cb done, void *arg)
{
	struct change ch = { .s = store_of(base) };
	int err = sqlite_begin(ch.s);

	if (err) {
		done(arg, err, "", NULL);
		return;
	}
	ch.unclaimed.tenant = was->tenant;
	change_end(&ch, del(&ch, was), done, arg);
}

void sqlite_container_get(struct ffo_store *base, const struct store_key *key,
			  store_container_cb done, void *arg)
{
	struct ffo_container c;
	int err = sqlite_get_container(store_of(base), key, &c);

	done(arg, err, "", err ? NULL : &c);
}

void sqlite_container_list(struct ffo_store *base, const char *host, uint32_t after, size_t limit,
			   store_containers_cb done, void *arg)
{
	struct ffo_container *list = calloc(limit + 1, sizeof(*list));
	ssize_t n = -ENOMEM;

	if (list)
		n = sqlite_get_containers(store_of(base), host, after, list, limit + 1);
	if (n < 0)
		done(arg, (int)n, "", NULL, 0, false);
	else
		done(arg, 0, "", list, (size_t)n > limit ? limit : (size_t)n, (size_t)n > limit);
	free(list);
}

/* ---- open and close -------------------------------------------------------------------------- */

void sqlite_close(struct ffo_store *base)
{
	struct store *s = store_of(base);

	if (!s)
		return;
	assert(!s->topics.table && !s->working_off);
	sqldb_close(&s->db);
	free(s);
}

static int load_container(struct store *s, const struct ffo_container *c)
{
	int err = alloc_take_lid(s->alloc, c->lid);

	for (unsigned int i = 0; !err && i < c->num_ips; i++)
		err = alloc_restore_addr(s->alloc, c->tenant, &c->ip[i]);
	if (err)
		log_err("container %s: its addresses cannot be loaded: %s", c->name,
			strerror(-err));
	return err;
}

/* Read what is stored: everything must make sense, and all that is taken be marked as taken. */
static int load(struct store *s)
{
	struct ffo_container *list = malloc(FFO_PAGE_MAX * sizeof(*list));
	struct ffo_rule *rules = malloc(FFO_RULES_MAX * sizeof(*rules));
	struct ffo_tenant *tenants = malloc(FFO_TENANTS_MAX * sizeof(*tenants));
	uint32_t after = 0;
	ssize_t n = list && rules && tenants ? sqlite_get_rules(s, rules) : -ENOMEM;
	int err;

	if (n >= 0)
		n = sqlite_get_tenants(s, tenants);
	err = n < 0 ? (int)n : 0;
	while (!err) {
		n = sqlite_get_containers(s, NULL, after, list, FFO_PAGE_MAX);
		if (n <= 0) {
			err = (int)n;
			break;
		}
		for (ssize_t i = 0; !err && i < n; i++)
			err = load_container(s, &list[i]);
		after = list[n - 1].id;
	}
	free(list);
	free(rules);
	free(tenants);
	return err;
}

int sqlite_open(const struct store_conf *conf, struct ffo_store **out)
{
	struct store *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	s->base.ops = &store_sqlite;
	s->alloc = conf->alloc;
	STAILQ_INIT(&s->staged);
	STAILQ_INIT(&s->due);
	err = sqldb_open(&s->db, conf->where, statement_sql, NUM_ST);
	if (!err)
		err = load(s);
	if (err) {
		sqlite_close(&s->base);
		return err;
	}
	*out = &s->base;
	conf->state(conf->arg, STORE_READY);
	return 0;
}

const struct ffo_store_ops store_sqlite = { .name = "sqlite",
#define X(op) .op = sqlite_##op,
					    FFO_STORE_OPS(X)
#undef X
};
