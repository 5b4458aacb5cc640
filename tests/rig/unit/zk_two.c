/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* zk_two.c - see zk_two.h. */
#include "tests/rig/unit/zk_two.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/unit/map_row.h"

unsigned int two_roots;

int zk_two_setup(void **state)
{
	struct two *t = calloc(1, sizeof(*t));

	snprintf(t->root, sizeof(t->root), "/t/%u?timeout=2000", ++two_roots);
	rig_open(&t->a, t->root);
	rig_open(&t->b, t->root);
	*state = t;
	return 0;
}

int zk_two_teardown(void **state)
{
	struct two *t = *state;

	if (t->a.s)
		rig_close(&t->a);
	if (t->b.s)
		rig_close(&t->b);
	free(t);
	return 0;
}

/* ---- calls that wait ------------------------------------------------------------------------ */

struct rig_end two_end;

struct in6_addr two_addr(const char *text)
{
	struct in6_addr addr;

	assert_int_equal(ffo_addr_parse(text, &addr), 0);
	return addr;
}

int two_add(struct rig_store *r, const char *name, const char *tenant, const char *host,
	    const char *addr)
{
	struct ffo_container c = { 0 };

	strcpy(c.name, name);
	strcpy(c.tenant, tenant);
	strcpy(c.host, host);
	if (addr) {
		c.num_ips = 1;
		c.ip[0] = two_addr(addr);
	}
	return TWO_CALL(r, container_add, rig_container, &c);
}

int two_get(struct rig_store *r, const char *name)
{
	struct store_key key = { .kind = STORE_NAME };

	strcpy(key.name, name);
	return TWO_CALL(r, container_get, rig_container, &key);
}

int two_host_up(struct rig_store *r, const char *name, const char *instance)
{
	struct ffo_host h = { .last_seen = 1000 };

	strcpy(h.name, name);
	strcpy(h.instance, instance);
	strcpy(h.wire, "tcp:10.0.0.1:7471");
	return TWO_CALL(r, host_up, rig_done, &h);
}

int two_host_down(struct rig_store *r, const char *name, const char *instance)
{
	struct ffo_host h = { .last_seen = 2000 };

	strcpy(h.name, name);
	strcpy(h.instance, instance);
	return TWO_CALL(r, host_down, rig_done, &h);
}

struct ffo_map two_map_of(uint32_t container, uint32_t rkey)
{
	return map_row(container, rkey, rkey);
}

int two_put_maps(struct rig_store *r, const char *host, uint32_t container, uint32_t first,
		 uint32_t n)
{
	struct ffo_map maps[FFO_BATCH_MAX];

	for (uint32_t i = 0; i < n; i++)
		maps[i] = two_map_of(container, first + i);
	return TWO_CALL(r, map_put, rig_done, host, maps, (size_t)n);
}

/* ---- watches -------------------------------------------------------------------------------- */

static void two_told(void *arg, const struct store_news *news)
{
	struct two_watched *w = arg;

	w->told++;
	w->err = news->err;
	switch (w->w.key.kind) {
	case STORE_HOST:
		w->there = news->host;
		if (news->host)
			w->h = *news->host;
		break;
	case STORE_OWNED:
		if (news->reset)
			w->n = 0;
		w->n += news->owned.num_put;
		w->n -= news->owned.num_del;
		w->synced |= news->synced;
		break;
	case STORE_MAP:
		w->resets += news->reset;
		w->changed += (uint32_t)news->map.num;
		w->synced = news->synced;
		break;
	case STORE_POLICY:
		w->n = news->policy.num;
		break;
	case STORE_TENANTS:
		w->n = news->tenants.num;
		break;
	case STORE_MCAST:
		w->n = news->mcast.num;
		for (size_t i = 0; i < w->n && i < 4; i++)
			w->hosts[i] = news->mcast.hosts[i];
		break;
	default:
		w->there = news->container;
		if (news->container)
			w->c = *news->container;
		break;
	}
}

void two_watch(struct rig_store *r, struct two_watched *w, enum store_kind kind, const char *name)
{
	w->r = r;
	w->w.key.kind = kind;
	strcpy(w->w.key.name, name);
	w->w.cb = two_told;
	w->w.arg = w;
	r->s->ops->watch(r->s, &w->w);
}

void two_unwatch(struct two_watched *w)
{
	w->r->s->ops->unwatch(w->r->s, &w->w);
}

size_t two_rows_of(struct two_watched *w)
{
	struct ffo_map rows[100], want;
	uint32_t after = 0;
	size_t total = 0;
	ssize_t n;

	do {
		n = w->r->s->ops->map_page(w->r->s, &w->w, after, rows, 100);
		assert_true(n >= 0);
		for (ssize_t i = 0; i < n; i++) {
			want = two_map_of(w->w.key.id, rows[i].rkey);
			assert_true(rows[i].rkey > after);
#define X(ctype, name) assert_true(rows[i].name == want.name);
			FFO_MAP_FIELDS(X)
#undef X
			after = rows[i].rkey;
		}
		total += (size_t)n;
	} while (n == 100);
	return total;
}

/* ---- what others may have written ------------------------------------------------------------ */

static void two_written(void *arg, const struct zk_reply *r)
{
	assert_int_equal(r->err, 0);
	*(bool *)arg = true;
}

void two_write_raw(struct rig_store *r, const char *path, const void *data, size_t len)
{
	bool done = false;

	assert_int_equal(zk_set(zks_of(r->s)->zk, path, data, len, -1, two_written, &done), 0);
	WAIT_FOR(done);
}

void two_make_raw(struct rig_store *r, const char *path, enum zk_mode mode)
{
	bool done = false;

	assert_int_equal(zk_create(zks_of(r->s)->zk, path, "", 0, mode, two_written, &done), 0);
	WAIT_FOR(done);
}

/* ---- main ------------------------------------------------------------------------------------ */

int two_run_tests(const struct CMUnitTest *tests, size_t n)
{
	int err = rig_start(1);

	if (err)
		return err;
	log_level = getenv("LOG") ? LOG_LEVEL_DEBUG : LOG_LEVEL_ERR;
	err = _cmocka_run_group_tests("tests", tests, n, NULL, NULL);
	rig_stop();
	return err;
}
