/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/unit/lib/zk_rig.c ffr/lib/log.c -lzookeeper_st */
/* timeout: 120 */
/* again: yes */
/*
 * test_store.c - the store on ZooKeeper, against a real node: containers and their conditions,
 * what two stores on one tree see of each other, soft state over lost connections and sessions,
 * contents that are damaged.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/lib/zk_rig.h"

struct test {
	struct rig_store a, b; /* two orchestrators */
	char root[128];
};

static unsigned int roots;

static int set_up(void **state)
{
	struct test *t = calloc(1, sizeof(*t));

	snprintf(t->root, sizeof(t->root), "/t/%u?timeout=2000", ++roots);
	rig_open(&t->a, t->root);
	rig_open(&t->b, t->root);
	*state = t;
	return 0;
}

static int tear_down(void **state)
{
	struct test *t = *state;

	if (t->a.s)
		rig_close(&t->a);
	if (t->b.s)
		rig_close(&t->b);
	free(t);
	return 0;
}

/* ---- calls that wait ------------------------------------------------------------------------ */

static struct rig_end end_of;

#define CALL(store, op, callback, ...)                                                             \
	({                                                                                         \
		memset(&end_of, 0, sizeof(end_of));                                                \
		(store)->s->ops->op((store)->s, __VA_ARGS__, callback, &end_of);                   \
		rig_until(end_of.done);                                                            \
		end_of.err;                                                                        \
	})

static struct in6_addr ip(const char *text)
{
	struct in6_addr addr;

	assert_int_equal(ffo_addr_parse(text, &addr), 0);
	return addr;
}

static int add(struct rig_store *r, const char *name, const char *tenant, const char *host,
	       const char *addr)
{
	struct ffo_container c = { 0 };

	strcpy(c.name, name);
	strcpy(c.tenant, tenant);
	strcpy(c.host, host);
	if (addr) {
		c.num_ips = 1;
		c.ip[0] = ip(addr);
	}
	return CALL(r, container_add, rig_container, &c);
}

static int get(struct rig_store *r, const char *name)
{
	struct store_key key = { .kind = STORE_NAME };

	strcpy(key.name, name);
	return CALL(r, container_get, rig_container, &key);
}

static int host_up(struct rig_store *r, const char *name, const char *instance)
{
	struct ffo_host h = { .last_seen = 1000 };

	strcpy(h.name, name);
	strcpy(h.instance, instance);
	strcpy(h.wire, "tcp:10.0.0.1:7471");
	return CALL(r, host_up, rig_done, &h);
}

static int host_down(struct rig_store *r, const char *name, const char *instance)
{
	struct ffo_host h = { .last_seen = 2000 };

	strcpy(h.name, name);
	strcpy(h.instance, instance);
	return CALL(r, host_down, rig_done, &h);
}

static struct ffo_map map_of(uint32_t container, uint32_t rkey)
{
	return (struct ffo_map){ .container = container,
				 .rkey = rkey,
				 .session = 1 + rkey % 2,
				 .addr = 0x7f0000000000 + rkey * 4096ull,
				 .length = 4096,
				 .access = 7,
				 .shadow = 0x7e0000000000 + rkey * 4096ull,
				 .key = rkey,
				 .epoch = 1 };
}

static int put_maps(struct rig_store *r, const char *host, uint32_t container, uint32_t first,
		    uint32_t n)
{
	struct ffo_map maps[FFO_BATCH_MAX];

	for (uint32_t i = 0; i < n; i++)
		maps[i] = map_of(container, first + i);
	return CALL(r, map_put, rig_done, host, maps, (size_t)n);
}

/* ---- watches -------------------------------------------------------------------------------- */

struct watched {
	struct store_watch w;
	struct rig_store *r;
	unsigned int told;
	int err;
	bool there, synced;
	struct ffo_container c;
	struct ffo_host h;
	size_t n; /* of what it is about */
	uint32_t resets, changed;
	struct ffo_host hosts[4];
};

static void told(void *arg, const struct store_news *news)
{
	struct watched *w = arg;

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

static void watch(struct rig_store *r, struct watched *w, enum store_kind kind, const char *name)
{
	w->r = r;
	w->w.key.kind = kind;
	strcpy(w->w.key.name, name);
	w->w.cb = told;
	w->w.arg = w;
	r->s->ops->watch(r->s, &w->w);
}

static void unwatch(struct watched *w)
{
	w->r->s->ops->unwatch(w->r->s, &w->w);
}

/* The rows that a watch of mappings has; each as map_of() says. */
static size_t rows_of(struct watched *w)
{
	struct ffo_map rows[100], want;
	uint32_t after = 0;
	size_t total = 0;
	ssize_t n;

	do {
		n = w->r->s->ops->map_page(w->r->s, &w->w, after, rows, 100);
		assert_true(n >= 0);
		for (ssize_t i = 0; i < n; i++) {
			want = map_of(w->w.key.id, rows[i].rkey);
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

static void written(void *arg, const struct zk_reply *r)
{
	assert_int_equal(r->err, 0);
	*(bool *)arg = true;
}

static void write_raw(struct rig_store *r, const char *path, const void *data, size_t len)
{
	bool done = false;

	assert_int_equal(zk_set(zks_of(r->s)->zk, path, data, len, -1, written, &done), 0);
	rig_until(done);
}

static void make_raw(struct rig_store *r, const char *path, enum zk_mode mode)
{
	bool done = false;

	assert_int_equal(zk_create(zks_of(r->s)->zk, path, "", 0, mode, written, &done), 0);
	rig_until(done);
}

/* ---- containers ----------------------------------------------------------------------------- */

static void containers_are_kept(void **state)
{
	struct test *t = *state;
	struct ffo_container c;
	struct store_key key = { .kind = STORE_ID, .id = 1 };

	assert_int_equal(add(&t->a, "web", "default", "h0", NULL), 0);
	c = end_of.c;
	assert_int_equal(c.id, 1);
	assert_int_equal(c.epoch, 1);
	assert_int_equal(c.num_ips, 2);
	assert_true(c.lid);
	assert_true(alloc_addr_ok(t->a.alloc, "default", &c.ip[0]));

	/* The other one sees it at once, by all its keys. */
	assert_int_equal(get(&t->b, "web"), 0);
	assert_true(ffo_container_same(&end_of.c, &c));
	assert_int_equal(CALL(&t->b, container_get, rig_container, &key), 0);
	assert_true(ffo_container_same(&end_of.c, &c));
	key = (struct store_key){ .kind = STORE_LID, .lid = c.lid };
	assert_int_equal(CALL(&t->b, container_get, rig_container, &key), 0);
	key = (struct store_key){ .kind = STORE_ADDR, .addr = c.ip[1], .name = "default" };
	assert_int_equal(CALL(&t->b, container_get, rig_container, &key), 0);
	assert_true(ffo_container_same(&end_of.c, &c));
	strcpy(key.name, "other");
	assert_int_equal(CALL(&t->b, container_get, rig_container, &key), -ENOENT);

	/* And who comes later. */
	rig_close(&t->a);
	rig_open(&t->a, t->root);
	assert_int_equal(get(&t->a, "web"), 0);
	assert_true(ffo_container_same(&end_of.c, &c));
}

static void what_is_taken(void **state)
{
	struct test *t = *state;

	assert_int_equal(add(&t->a, "web", "default", "h0", "10.9.0.1"), 0);
	assert_int_equal(add(&t->b, "web", "default", "h1", "10.9.0.2"), -EEXIST);
	assert_true(end_of.has_c);
	assert_string_equal(end_of.c.host, "h0");
	assert_int_equal(add(&t->b, "db", "default", "h1", "10.9.0.1"), -EADDRINUSE);
	assert_non_null(strstr(end_of.why, "10.9.0.1"));
	assert_string_equal(end_of.c.name, "web");
	assert_int_equal(add(&t->b, "db", "other", "h1", "10.9.0.1"), 0); /* its own space */
	assert_int_equal(get(&t->a, "db"), 0);
	assert_int_equal(get(&t->a, "none"), -ENOENT);
}

static void pools_run_out(void **state)
{
	struct test *t = *state;
	struct in6_addr seen[5];
	char name[16];

	/* .2 to .6: five hosts; both give out, at the same time. */
	for (int i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "c%d", i);
		assert_int_equal(add(i % 2 ? &t->a : &t->b, name, "small", "h0", NULL), 0);
		seen[i] = end_of.c.ip[0];
		for (int k = 0; k < i; k++)
			assert_memory_not_equal(&seen[k], &seen[i], sizeof(seen[i]));
	}
	assert_int_equal(add(&t->a, "c5", "small", "h0", NULL), -ENOSPC);
	assert_non_null(strstr(end_of.why, "small"));
	assert_int_equal(add(&t->a, "d", "default", "h0", NULL), 0);

	/* What is given back is found again. */
	assert_int_equal(get(&t->a, "c2"), 0);
	struct ffo_container c = end_of.c;
	assert_int_equal(CALL(&t->b, container_del, rig_container, &c), 0);
	assert_int_equal(add(&t->a, "c5", "small", "h0", NULL), 0);
	assert_memory_equal(&end_of.c.ip[0], &c.ip[0], sizeof(c.ip[0]));
	assert_true(end_of.c.id > c.id); /* ids are not used again */
}

/* Both add at once, without waiting: all succeed, ids, LIDs and addresses are different. */
static void adding_at_once(void **state)
{
	static struct rig_end ends[24];
	struct test *t = *state;

	memset(ends, 0, sizeof(ends));
	for (int i = 0; i < 24; i++) {
		struct rig_store *r = i % 2 ? &t->a : &t->b;
		struct ffo_container c = { .tenant = "default", .host = "h0" };

		snprintf(c.name, sizeof(c.name), "c%d", i);
		r->s->ops->container_add(r->s, &c, rig_container, &ends[i]);
	}
	for (int i = 0; i < 24; i++) {
		rig_until(ends[i].done);
		assert_int_equal(ends[i].err, 0);
		for (int k = 0; k < i; k++) {
			assert_int_not_equal(ends[i].c.id, ends[k].c.id);
			assert_int_not_equal(ends[i].c.lid, ends[k].c.lid);
			assert_memory_not_equal(&ends[i].c.ip[0], &ends[k].c.ip[0], 16);
		}
	}
}

static void moving(void **state)
{
	struct test *t = *state;
	struct ffo_container was, now;

	add(&t->a, "web", "default", "h0", "10.9.0.1");
	assert_int_equal(get(&t->b, "web"), 0);
	was = now = end_of.c;
	strcpy(now.host, "h1");
	now.epoch++;
	now.ip[0] = ip("10.9.0.7");
	assert_int_equal(CALL(&t->b, container_set, rig_container, &was, &now, 0), 0);
	assert_true(end_of.c.version > was.version);
	assert_int_equal(get(&t->a, "web"), 0);
	assert_string_equal(end_of.c.host, "h1");
	assert_int_equal(end_of.c.epoch, 2);

	/* Under what is not so any more nothing changes. */
	assert_int_equal(CALL(&t->a, container_set, rig_container, &was, &now, 0), -EAGAIN);
	assert_int_equal(end_of.c.epoch, 2);
	assert_int_equal(CALL(&t->a, container_del, rig_container, &was), -EAGAIN);
	/* The old address is free, the new one is not. */
	assert_int_equal(add(&t->a, "x", "default", "h0", "10.9.0.7"), -EADDRINUSE);
	assert_int_equal(add(&t->a, "x", "default", "h0", "10.9.0.1"), 0);
	get(&t->a, "x");
	was = now = end_of.c;
	now.ip[0] = ip("10.9.0.7");
	assert_int_equal(CALL(&t->a, container_set, rig_container, &was, &now, 0), -EADDRINUSE);

	/* Lists by host follow. */
	assert_int_equal(CALL(&t->a, container_list, rig_containers, "h1", 0, 10), 0);
	assert_int_equal(end_of.count, 1);
	assert_string_equal(end_of.list[0].name, "web");
	assert_int_equal(CALL(&t->a, container_list, rig_containers, NULL, 0, 1), 0);
	assert_int_equal(end_of.count, 1);
	assert_true(end_of.more);
	uint32_t after = end_of.list[0].id;
	assert_int_equal(CALL(&t->a, container_list, rig_containers, NULL, after, 10), 0);
	assert_int_equal(end_of.count, 1);
	assert_false(end_of.more);

	get(&t->a, "web");
	was = end_of.c;
	assert_int_equal(CALL(&t->a, container_del, rig_container, &was), 0);
	assert_int_equal(CALL(&t->b, container_del, rig_container, &was), -ENOENT);
	assert_int_equal(get(&t->b, "web"), -ENOENT);
}

static void active_ones_stay(void **state)
{
	struct test *t = *state;
	struct ffo_container was, now;

	host_up(&t->a, "h0", "i0");
	add(&t->a, "web", "default", "h0", NULL);
	assert_int_equal(CALL(&t->a, container_active, rig_done, "h0", 1, 1, true), 0);
	get(&t->b, "web");
	assert_true(end_of.c.active);
	was = now = end_of.c;
	strcpy(now.host, "h1");
	now.epoch++;
	assert_int_equal(CALL(&t->b, container_set, rig_container, &was, &now, STORE_IF_IDLE),
			 -EBUSY);
	assert_int_equal(CALL(&t->b, container_set, rig_container, &was, &now, 0), 0);
	assert_false(end_of.c.active); /* in its new epoch it is not */
	assert_int_equal(CALL(&t->a, container_active, rig_done, "h0", 1, 1, false), 0);
	was = now = end_of.c;
	get(&t->b, "web");
	was = now = end_of.c;
	strcpy(now.host, "h0");
	now.epoch++;
	assert_int_equal(CALL(&t->b, container_set, rig_container, &was, &now, STORE_IF_IDLE), 0);
}

/* ---- hosts ---------------------------------------------------------------------------------- */

static void hosts_come_and_go(void **state)
{
	struct test *t = *state;
	struct watched w = { 0 };

	watch(&t->b, &w, STORE_HOST, "h0");
	rig_until(w.told);
	assert_false(w.there);
	assert_int_equal(host_up(&t->a, "h0", "i0"), 0);
	rig_until(w.there && w.h.up);
	assert_string_equal(w.h.wire, "tcp:10.0.0.1:7471");
	assert_string_equal(w.h.instance, "i0");

	/* Another one of that name is refused, wherever; the same one is welcome. */
	assert_int_equal(host_up(&t->b, "h0", "i1"), -EEXIST);
	assert_int_equal(host_up(&t->a, "h0", "i1"), -EEXIST);
	assert_int_equal(host_up(&t->a, "h0", "i0"), 0);
	assert_int_equal(host_up(&t->b, "h1", "i1"), 0);

	assert_int_equal(CALL(&t->b, host_list, rig_hosts, "", 10), 0);
	assert_int_equal(end_of.count, 2);
	assert_true(end_of.hosts[0].up && end_of.hosts[1].up);
	assert_int_equal(host_down(&t->a, "h0", "other"), 0); /* not that one */
	assert_true(w.h.up);
	assert_int_equal(host_down(&t->a, "h0", "i0"), 0);
	rig_until(w.there && !w.h.up);
	rig_until(w.h.last_seen == 2000);
	assert_int_equal(CALL(&t->b, host_get, rig_host, "h0"), 0);
	assert_false(end_of.h.up);
	assert_int_equal(host_up(&t->b, "h0", "i1"), 0);
	assert_int_equal(CALL(&t->b, host_get, rig_host, "h9"), -ENOENT);
	unwatch(&w);
}

/* The process is dead, as far as its record tells: its successor does not wait. */
static void a_dead_one_is_replaced(void **state)
{
	struct test *t = *state;
	struct watched w = { 0 };

	host_up(&t->a, "h0", "i0");
	add(&t->a, "web", "default", "h0", NULL);
	put_maps(&t->a, "h0", 1, 1, 10);
	w.w.key.id = w.w.key.epoch = 1;
	watch(&t->b, &w, STORE_MAP, "h0");
	rig_until(w.synced);
	assert_int_equal(rows_of(&w), 10);
	rig_crash(&t->a);

	/* The same instance: it is the same router. All that was soft has gone. */
	uint64_t start = uv_hrtime();
	assert_int_equal(host_up(&t->b, "h0", "i0"), 0);
	rig_until(rows_of(&w) == 0);
	assert_true(uv_hrtime() - start < 1500000000); /* the session lives for 2 s */
	unwatch(&w);
}

/* Another instance, which finds that the process that was up here is dead. */
static void a_killed_one_is_replaced(void **state)
{
	struct rec_up u = { .host = { .name = "h0", .instance = "i0" } };
	struct test *t = *state;
	size_t len;
	char *data;
	int fd[2];

	host_up(&t->a, "h0", "i0");
	assert_int_equal(pipe(fd), 0);
	if (!fork()) {
		rec_process(u.process);
		_exit(write(fd[1], u.process, sizeof(u.process)) != sizeof(u.process));
	}
	assert_int_equal(read(fd[0], u.process, sizeof(u.process)), sizeof(u.process));
	assert_true(wait(NULL) > 0);
	close(fd[0]);
	close(fd[1]);
	u.session = zks_of(t->a.s)->session;
	data = rec_up(&u, &len);
	write_raw(&t->a, "/hosts/h0/up", data, len);
	free(data);
	rig_crash(&t->a);
	assert_int_equal(host_up(&t->b, "h0", "i1"), 0);
}

static void sessions_expire(void **state)
{
	struct test *t = *state;
	struct watched w = { 0 };

	host_up(&t->a, "h0", "i0");
	watch(&t->b, &w, STORE_HOST, "h0");
	rig_until(w.there && w.h.up);
	rig_crash(&t->a);
	assert_int_equal(host_up(&t->b, "h0", "i1"), -EEXIST); /* for all we know it lives */
	rig_until(!w.h.up);
	assert_int_equal(host_up(&t->b, "h0", "i1"), 0);
	unwatch(&w);
}

/* ---- mappings ------------------------------------------------------------------------------- */

static void mappings_are_told(void **state)
{
	struct test *t = *state;
	struct store_map_id ids[2] = { { 1, 5 }, { 1, 99999 } };
	struct watched w = { 0 }, late = { 0 };

	host_up(&t->a, "h0", "i0");
	add(&t->a, "web", "default", "h0", NULL);
	w.w.key.id = w.w.key.epoch = 1;
	watch(&t->b, &w, STORE_MAP, "h0");
	rig_until(w.synced);
	assert_int_equal(rows_of(&w), 0);

	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(put_maps(&t->a, "h0", 1, 1 + i * 1000, 1000), 0);
	rig_until(rows_of(&w) == 3000);
	assert_int_equal(w.resets, 1);

	/* Withdrawn, changed, dropped by session. */
	assert_int_equal(CALL(&t->a, map_del, rig_counted, "h0", ids, 2), 0);
	assert_int_equal(end_of.count, 1);
	rig_until(rows_of(&w) == 2999);
	watch(&t->b, &late, STORE_MAP, "h0");
	unwatch(&late);
	assert_int_equal(CALL(&t->a, map_list, rig_maps, 0, 1, 0, 1000), 0);
	assert_int_equal(end_of.count, 1000);
	assert_true(end_of.more);
	assert_int_equal(end_of.maps[0].rkey, 1);
	assert_int_equal(CALL(&t->b, map_list, rig_maps, 1, 1, 2500, 1000), 0);
	assert_int_equal(end_of.count, 500);
	assert_false(end_of.more);
	assert_int_equal(CALL(&t->a, map_drop, rig_done, "h0", 1, 0, 1), 0); /* the even ones */
	rig_until(rows_of(&w) == 1499);
	assert_int_equal(CALL(&t->a, map_drop, rig_done, "h0", 1, 1, 0), 0);
	rig_until(rows_of(&w) == 0);

	/* Another epoch's are nobody's. */
	struct ffo_map other = map_of(1, 7);
	other.epoch = 2;
	assert_int_equal(CALL(&t->a, map_put, rig_done, "h0", &other, 1), 0);
	assert_int_equal(put_maps(&t->a, "h0", 1, 1, 1), 0);
	rig_until(rows_of(&w) == 1);
	assert_int_equal(host_down(&t->a, "h0", "i0"), 0);
	rig_until(rows_of(&w) == 0);
	assert_int_equal(put_maps(&t->a, "h0", 1, 1, 1), -ESHUTDOWN);
	unwatch(&w);
}

/* Rows come and go at random; in the end both sides have the same. */
static void mappings_churn(void **state)
{
	struct test *t = *state;
	struct watched w = { 0 };
	static bool have[4000];
	size_t want = 0;

	srand(1);
	memset(have, 0, sizeof(have));
	host_up(&t->a, "h0", "i0");
	add(&t->a, "web", "default", "h0", NULL);
	w.w.key.id = w.w.key.epoch = 1;
	watch(&t->b, &w, STORE_MAP, "h0");
	for (int round = 0; round < 60; round++) {
		struct store_map_id ids[200];
		struct ffo_map maps[200];
		size_t n = 1 + (size_t)rand() % 200;
		bool put = rand() % 2;

		for (size_t i = 0; i < n; i++) {
			uint32_t rkey = 1 + (uint32_t)rand() % 3999;

			maps[i] = map_of(1, rkey);
			ids[i] = (struct store_map_id){ 1, rkey };
			have[rkey] = put;
		}
		if (put)
			assert_int_equal(CALL(&t->a, map_put, rig_done, "h0", maps, n), 0);
		else
			assert_int_equal(CALL(&t->a, map_del, rig_counted, "h0", ids, n), 0);
	}
	for (int i = 0; i < 4000; i++)
		want += have[i];
	rig_until(w.synced && rows_of(&w) == want);
	for (uint32_t i = 1; i < 4000; i++) {
		struct ffo_map row;

		assert_int_equal(t->b.s->ops->map_row(t->b.s, &w.w, i, &row),
				 have[i] ? 0 : -ENOENT);
	}
	unwatch(&w);
}

/* ---- other watches -------------------------------------------------------------------------- */

static void answers_follow(void **state)
{
	struct test *t = *state;
	struct watched by_ip = { 0 }, by_lid = { 0 }, owned = { 0 }, again = { 0 };
	struct ffo_container was, now;

	by_ip.w.key.addr = ip("10.9.0.1");
	by_lid.w.key.lid = 1;
	watch(&t->b, &by_ip, STORE_ADDR, "default");
	watch(&t->b, &by_lid, STORE_LID, "");
	watch(&t->b, &owned, STORE_OWNED, "h0");
	rig_until(by_ip.told && by_lid.told && owned.synced);
	assert_false(by_ip.there);
	assert_false(by_lid.there);

	add(&t->a, "web", "default", "h0", "10.9.0.1");
	rig_until(by_ip.there && by_lid.there && owned.n == 1);
	assert_string_equal(by_ip.c.name, "web");
	again.w.key = by_ip.w.key;
	watch(&t->b, &again, STORE_ADDR, "default"); /* known: told at once */
	assert_true(again.there);
	unwatch(&by_ip);

	get(&t->a, "web");
	was = now = end_of.c;
	strcpy(now.host, "h1");
	now.epoch = 2;
	CALL(&t->a, container_set, rig_container, &was, &now, 0);
	rig_until(again.c.epoch == 2 && by_lid.c.epoch == 2 && owned.n == 0);
	add(&t->a, "db", "default", "h0", NULL);
	rig_until(owned.n == 1);
	get(&t->a, "web");
	was = end_of.c;
	CALL(&t->a, container_del, rig_container, &was);
	rig_until(!again.there && !by_lid.there);
	unwatch(&again);
	unwatch(&by_lid);
	unwatch(&owned);
	rig_until(follow_count(zks_of(t->b.s)) == 0);
}

static void policy_is_shared(void **state)
{
	struct test *t = *state;
	struct watched w = { 0 };
	struct ffo_rule r;

	watch(&t->b, &w, STORE_POLICY, "");
	rig_until(w.told);
	assert_int_equal(w.n, 0);
	ffo_rule_make(&r, "red", "blue", true);
	assert_int_equal(CALL(&t->a, policy_set, rig_done, &r), 0);
	ffo_rule_make(&r, "red/web", "blue", false);
	assert_int_equal(CALL(&t->b, policy_set, rig_done, &r), 0);
	rig_until(w.n == 2);
	assert_int_equal(CALL(&t->a, policy_rm, rig_done, &r), 0);
	assert_int_equal(CALL(&t->a, policy_rm, rig_done, &r), -ENOENT);
	rig_until(w.n == 1);
	unwatch(&w);
}

/* In a tree of before there were any, too: their node is made with the first. */
static void tenants_are_shared(void **state)
{
	struct ffo_limits_change c = { .set = 1u << FFO_LIMIT_NR_max_qp, .to.max_qp = 7 };
	struct watched w = { 0 };
	struct test *t = *state;

	watch(&t->b, &w, STORE_TENANTS, "");
	rig_until(w.told);
	assert_int_equal(w.n, 0);
	assert_int_equal(CALL(&t->a, tenant_set, rig_done, "red", &c), 0);
	rig_until(w.n == 1);
	assert_int_equal(CALL(&t->b, tenant_set, rig_done, "blue", &c), 0);
	rig_until(w.n == 2);
	c.to.max_qp = 0;
	assert_int_equal(CALL(&t->a, tenant_set, rig_done, "red", &c), 0);
	rig_until(w.n == 1);
	write_raw(&t->a, "/tenants", "1{\"tenants\":[7]}", 16);
	rig_until(w.err == -EBADMSG);
	assert_int_equal(CALL(&t->a, tenant_set, rig_done, "red", &c), -EBADMSG);
	unwatch(&w);
}

static void groups_have_hosts(void **state)
{
	struct in6_addr mgid;
	struct test *t = *state;
	struct watched w = { 0 };

	inet_pton(AF_INET6, "ff12::5", &mgid);
	w.w.key.addr = mgid;
	watch(&t->b, &w, STORE_MCAST, "default");
	rig_until(w.told);
	host_up(&t->a, "h0", "i0");
	host_up(&t->b, "h1", "i1");
	assert_int_equal(CALL(&t->a, mcast_member, rig_done, "h0", "default", &mgid, true), 0);
	assert_int_equal(CALL(&t->a, mcast_member, rig_done, "h0", "default", &mgid, true), 0);
	assert_int_equal(CALL(&t->b, mcast_member, rig_done, "h1", "default", &mgid, true), 0);
	rig_until(w.n == 2);
	assert_string_equal(w.hosts[0].wire, "tcp:10.0.0.1:7471");
	assert_true(w.hosts[0].up);
	assert_int_equal(CALL(&t->a, mcast_member, rig_done, "h0", "default", &mgid, false), 0);
	rig_until(w.n == 1);
	host_down(&t->b, "h1", "i1");
	rig_until(w.n == 0);
	unwatch(&w);
}

/* ---- the connection, the session ------------------------------------------------------------ */

/* The node is stopped for less than the session lives: nothing is lost, and calls wait. */
static void a_short_break(void **state)
{
	struct test *t = *state;
	struct watched w = { 0 };
	struct rig_end put = { 0 };
	struct ffo_map row = map_of(1, 2);

	rig_close(&t->a);
	snprintf(t->root, sizeof(t->root), "/t/%u?timeout=20000", roots);
	rig_open(&t->a, t->root);
	host_up(&t->a, "h0", "i0");
	add(&t->a, "web", "default", "h0", NULL);
	put_maps(&t->a, "h0", 1, 1, 1);
	rig_node("kill", 0);
	rig_until(t->a.state == STORE_AWAY && t->b.state == STORE_AWAY);
	assert_int_equal(get(&t->a, "web"), -ENOTCONN);
	assert_int_equal(add(&t->a, "x", "default", "h0", NULL), -ENOTCONN);
	t->a.s->ops->map_put(t->a.s, "h0", &row, 1, rig_done, &put);
	for (int i = 0; i < 20; i++)
		rig_turn();
	assert_false(put.done);
	rig_node("start", 0);
	rig_until(put.done);
	assert_int_equal(put.err, 0);
	assert_int_equal(t->a.lost, 0);
	w.w.key.id = w.w.key.epoch = 1;
	rig_until(t->b.state == STORE_READY);
	watch(&t->b, &w, STORE_MAP, "h0");
	rig_until(w.synced && rows_of(&w) == 2);
	unwatch(&w);
}

/*
 * More watches than fit into one message (1 MB): the client would set them all at once after a
 * reconnection, and never be let in again.
 */
static void many_watches_survive(void **state)
{
	enum { MANY = 12000 }; /* of 110 bytes */
	struct watched *w = calloc(MANY, sizeof(*w));
	struct test *t = *state;
	int err;

	rig_close(&t->a);
	rig_close(&t->b);
	snprintf(t->root, sizeof(t->root), "/t/%u-%080d?timeout=20000", roots, 0);
	rig_open(&t->a, t->root);
	rig_open(&t->b, t->root);
	for (uint32_t i = 0; i < MANY; i++) {
		w[i].w.key.id = i + 1;
		watch(&t->a, &w[i], STORE_ID, "");
	}
	for (int i = 0; i < MANY; i++)
		rig_until(w[i].told);
	rig_node("kill", 0);
	rig_until(t->a.state == STORE_AWAY);
	rig_node("start", 0);
	rig_until(t->a.state == STORE_READY && t->b.state == STORE_READY);
	assert_int_equal(t->a.lost, 0);
	/* The node has just started, and may let go of a connection again. */
	do {
		rig_turn();
		err = add(&t->b, "web", "default", "h0", NULL);
	} while (err == -ENOTCONN);
	assert_true(!err || err == -EEXIST);
	assert_true(end_of.has_c && end_of.c.id && end_of.c.id <= MANY);
	rig_until(w[end_of.c.id - 1].there);
	for (int i = 0; i < MANY; i++)
		unwatch(&w[i]);
	free(w);
}

static void a_session_is_lost(void **state)
{
	struct test *t = *state;
	struct watched w = { 0 }, mine = { 0 };

	host_up(&t->a, "h0", "i0");
	add(&t->a, "web", "default", "h0", NULL);
	put_maps(&t->a, "h0", 1, 1, 100);
	w.w.key.id = w.w.key.epoch = mine.w.key.id = mine.w.key.epoch = 1;
	watch(&t->b, &w, STORE_MAP, "h0");
	watch(&t->a, &mine, STORE_MAP, "h0");
	rig_until(w.synced && mine.synced);
	rig_expire(&t->a); /* an expiry, without waiting for one */
	rig_until(t->a.lost == 1 && t->a.state == STORE_READY);
	rig_until(rows_of(&w) == 0 && rows_of(&mine) == 0);
	assert_int_equal(put_maps(&t->a, "h0", 1, 1, 100), -ESHUTDOWN);
	assert_int_equal(t->b.lost, 0);

	/* It comes again, and all is published anew. */
	assert_int_equal(host_up(&t->a, "h0", "i0"), 0);
	assert_int_equal(put_maps(&t->a, "h0", 1, 1, 100), 0);
	rig_until(rows_of(&w) == 100 && rows_of(&mine) == 100);
	unwatch(&w);
	unwatch(&mine);
}

/* ---- damage --------------------------------------------------------------------------------- */

static void damage_is_refused(void **state)
{
	struct test *t = *state;
	struct watched w = { 0 }, other = { 0 }, policy = { 0 };

	host_up(&t->a, "h0", "i0");
	add(&t->a, "web", "default", "h0", NULL);
	add(&t->a, "db", "default", "h0", NULL);
	watch(&t->b, &w, STORE_NAME, "web");
	watch(&t->b, &other, STORE_NAME, "db");
	watch(&t->b, &policy, STORE_POLICY, "");
	rig_until(w.there && other.there && policy.told);

	write_raw(&t->a, "/names/web", "1{\"id\":", 7);
	rig_until(w.err == -EBADMSG);
	assert_int_equal(get(&t->b, "web"), -EBADMSG);
	write_raw(&t->a, "/names/web", "2{}", 3); /* newer */
	write_raw(&t->a, "/containers/0000000001", "1[]", 3);
	assert_int_equal(CALL(&t->b, container_list, rig_containers, "h0", 0, 10), 0);
	assert_int_equal(end_of.count, 1); /* the other one */
	write_raw(&t->a, "/policy", "1{\"rules\":[7]}", 14);
	rig_until(policy.err == -EBADMSG);
	write_raw(&t->a, "/policy", "1{\"rules\":[]}", 13);
	rig_until(policy.err == 0);
	assert_int_equal(get(&t->b, "db"), 0);
	assert_int_equal(other.err, 0);
	unwatch(&w);
	unwatch(&other);
	unwatch(&policy);
}

static void a_newer_tree_is_refused(void **state)
{
	struct test *t = *state;

	write_raw(&t->a, "/version", "13", 2);
	rig_close(&t->b);
	rig_open(&t->b, t->root);
	assert_int_equal(t->b.ready, 0);
	assert_int_equal(get(&t->b, "web"), -EBADMSG);
	assert_int_equal(host_up(&t->b, "h0", "i0"), -EBADMSG);
}

/* It is taken over when nobody is up in it; what is kept in it stays. */
static void an_older_tree(void **state)
{
	struct test *t = *state;

	assert_int_equal(add(&t->a, "web", "default", "h0", NULL), 0);
	write_raw(&t->a, "/version", "11", 2);
	make_raw(&t->a, "/up", ZK_PERSISTENT);
	make_raw(&t->a, "/up/h1", ZK_EPHEMERAL);
	rig_close(&t->b);
	rig_open(&t->b, t->root);
	assert_int_equal(t->b.ready, 0);
	assert_int_equal(get(&t->b, "web"), -EBADMSG);
	rig_close(&t->b);
	rig_close(&t->a); /* and with it /up/h1 */
	rig_open(&t->b, t->root);
	assert_int_equal(t->b.ready, 1);
	assert_int_equal(get(&t->b, "web"), 0);
	rig_open(&t->a, t->root);
	assert_int_equal(t->a.ready, 1);
}

/* What is made with credentials is for who has them. */
static void credentials(void **state)
{
	static char file[] = "/tmp/test_store_zk.XXXXXX";
	struct test *t = *state;
	char root[96];
	int fd = mkstemp(file);

	assert_int_equal(write(fd, "digest:ff:secret\n", 17), 17);
	close(fd);
	rig_close(&t->a);
	rig_close(&t->b);
	snprintf(root, sizeof(root), "/locked%u?auth=%s", roots, file);
	rig_open(&t->a, root);
	assert_int_equal(add(&t->a, "web", "default", "h0", NULL), 0);
	rig_open(&t->b, root);
	assert_int_equal(get(&t->b, "web"), 0);
	rig_close(&t->b);
	snprintf(root, sizeof(root), "/locked%u", roots);
	rig_open(&t->b, root);
	assert_int_equal(t->b.ready, 0);
	assert_int_equal(get(&t->b, "web"), -EBADMSG);
	unlink(file);
}

/* ---- a host's own credentials ---------------------------------------------------------------- */

static char secrets[] = "/tmp/test_store_zk_d.XXXXXX";

/* USER:HASH of digest:USER:USER-secret. */
static const char *id_of(const char *user)
{
	static char id[4][256];
	static unsigned int next;
	char *text = id[next++ % 4], plain[96];
	unsigned char hash[EVP_MAX_MD_SIZE], base64[2 * EVP_MAX_MD_SIZE];
	unsigned int len;

	snprintf(plain, sizeof(plain), "%s:%s-secret", user, user);
	assert_int_equal(EVP_Digest(plain, strlen(plain), hash, &len, EVP_sha1(), NULL), 1);
	EVP_EncodeBlock(base64, hash, (int)len);
	snprintf(text, sizeof(id[0]), "%s:%s", user, (const char *)base64);
	return text;
}

static int remove_secrets(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", secrets);
	return system(command);
}

/* The root with the file of that user, which is made. */
static const char *root_as(const char *user, const char *more)
{
	static char root[128];
	char path[96];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", secrets, user);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fchmod(fileno(f), 0600), 0);
	fprintf(f, "digest:cluster:cluster-secret\n");
	fprintf(f, "own digest:%s:%s-secret\n", user, user);
	fprintf(f, "operator %s\n%s", id_of("operator"), more);
	fclose(f);
	snprintf(root, sizeof(root), "/own%u?auth=%s", roots, path);
	return root;
}

static const char *operator_root(void)
{
	char hosts[400];

	snprintf(hosts, sizeof(hosts), "# the hosts\n\nhost h0 %s\nhost h1 %s\n", id_of("h0"),
		 id_of("h1"));
	return root_as("operator", hosts);
}

static void refused_end(void *arg, const struct zk_reply *r)
{
	*(int *)arg = r->err;
}

/* What ZooKeeper itself says to a change that no ffo would make. */
#define RAW(r, op, ...)                                                                            \
	({                                                                                         \
		int raw_err = 1;                                                                   \
		assert_int_equal(op(zks_of((r)->s)->zk, __VA_ARGS__, refused_end, &raw_err), 0);   \
		rig_until(raw_err <= 0);                                                           \
		raw_err;                                                                           \
	})

static int move_to(struct rig_store *r, const char *name, const char *host, enum ffo_mode mode)
{
	struct ffo_container was, now;

	assert_int_equal(get(r, name), 0);
	was = now = end_of.c;
	now.mode = (uint8_t)mode;
	if (strcmp(was.host, host)) {
		memset(now.host, 0, sizeof(now.host));
		strcpy(now.host, host);
		now.epoch++;
	}
	return CALL(r, container_set, rig_container, &was, &now, 0);
}

/*
 * Three processes, each with its own credentials: an operator's, and those of h0 and h1. h1 has been
 * broken into, and tries what it can on what h0 has.
 */
static void what_is_a_hosts_own(void **state)
{
	struct test *t = *state;
	struct ffo_rule rule = { .a = "a", .b = "b", .allow = true };
	const struct ffo_limits_change limits = { .set = 1u << FFO_LIMIT_NR_max_qp,
						  .to.max_qp = 7 };
	struct rig_store op = { 0 };
	struct watched w = { .w.key.id = 1, .w.key.epoch = 1 };
	struct store_key key = { .kind = STORE_ID, .id = 1 };
	struct ffo_container web;
	char segment[200] = "/hosts/h0/maps/0000000001";

	rig_close(&t->a);
	rig_close(&t->b);
	assert_non_null(mkdtemp(secrets));
	/* A host makes no tree; it is told of the operator's. */
	rig_begin(&t->a, root_as("h0", ""));
	rig_begin(&t->b, root_as("h1", ""));
	for (int i = 0; i < 100; i++)
		rig_turn();
	assert_int_equal(t->a.ready, 0);
	rig_open(&op, operator_root());
	rig_until(t->a.ready == 1 && t->b.ready == 1);
	assert_int_equal(get(&op, "web"), -ENOENT); /* the hosts' folders were made before that */

	/* h0 does what a host does. */
	assert_int_equal(host_up(&t->a, "h0", "i0"), 0);
	assert_int_equal(add(&t->a, "web", "default", "h0", "10.9.9.9"), 0);
	assert_int_equal(put_maps(&t->a, "h0", 1, 1, 10), 0);
	assert_int_equal(move_to(&t->a, "web", "h0", FFO_MODE_SPIN), 0);
	watch(&t->b, &w, STORE_MAP, "h0");
	rig_until(w.synced);
	assert_int_equal(rows_of(&w), 10);

	/* h1 is no other host, and has no place where there is none for it. */
	assert_int_equal(host_up(&t->b, "h0", "i0"), -EACCES);
	assert_int_equal(host_up(&t->b, "h2", "i2"), -EACCES);
	assert_non_null(strstr(end_of.why, "an operator"));
	assert_int_equal(host_up(&t->b, "h1", "i1"), 0);
	/* It takes nothing, removes nothing, and changes no policy or limits. */
	assert_int_equal(move_to(&t->b, "web", "h1", FFO_MODE_SPIN), -EACCES);
	assert_non_null(strstr(end_of.why, "an operator's credentials"));
	assert_int_equal(move_to(&t->b, "web", "h0", FFO_MODE_SOCKET), -EACCES);
	assert_int_equal(get(&t->b, "web"), 0);
	web = end_of.c;
	assert_int_equal(CALL(&t->b, container_del, rig_container, &web), -EACCES);
	assert_int_equal(CALL(&t->b, policy_set, rig_done, &rule), -EACCES);
	assert_int_equal(CALL(&t->b, tenant_set, rig_done, "a", &limits), -EACCES);

	/* Nor past any ffo. */
	assert_int_equal(RAW(&t->b, zk_set, "/containers/0000000001", "", 0, -1), -EACCES);
	assert_int_equal(RAW(&t->b, zk_set, "/names/web", "", 0, -1), -EACCES);
	assert_int_equal(RAW(&t->b, zk_delete, "/names/web", -1), -EACCES);
	assert_int_equal(RAW(&t->b, zk_delete, "/addrs/default/10.9.9.9", -1), -EACCES);
	assert_int_equal(RAW(&t->b, zk_delete, "/owned/h0/0000000001", -1), -EACCES);
	assert_int_equal(RAW(&t->b, zk_set, "/hosts/h0", "", 0, -1), -EACCES);
	assert_int_equal(RAW(&t->b, zk_set, "/hosts/h0/up", "", 0, -1), -EACCES);
	assert_int_equal(RAW(&t->b, zk_delete, "/hosts/h0/up", -1), -EACCES);
	assert_int_equal(RAW(&t->b, zk_create, "/hosts/h0/x", "", 0, ZK_EPHEMERAL), -EACCES);
	assert_int_equal(RAW(&t->b, zk_create, "/hosts/h3", "", 0, ZK_PERSISTENT), -EACCES);
	assert_int_equal(RAW(&t->b, zk_set, "/policy", "1{\"rules\":[]}", 13, -1), -EACCES);
	assert_int_equal(RAW(&t->b, zk_create, "/tenants", "", 0, ZK_PERSISTENT), -EACCES);
	assert_int_equal(RAW(&t->b, zk_set, "/version", "11", 2, -1), -EACCES);
	assert_int_equal(RAW(&t->b, zk_to_operators, "/hosts/h0"), -EACCES);
	assert_int_equal(RAW(&t->b, zk_to_operators, "/containers"), -EACCES);
	strcat(segment, "/1-1-1");
	assert_int_equal(RAW(&t->b, zk_create, segment, "", 0, ZK_EPHEMERAL), -EACCES);
	assert_int_equal(rows_of(&w), 10);
	unwatch(&w);

	/* An operator does all of it; what is moved is not the old host's any more, even to write. */
	assert_int_equal(CALL(&op, policy_set, rig_done, &rule), 0);
	assert_int_equal(CALL(&op, tenant_set, rig_done, "a", &limits), 0);
	assert_int_equal(move_to(&op, "web", "h1", FFO_MODE_SPIN), 0);
	assert_int_equal(move_to(&t->a, "web", "h0", FFO_MODE_SPIN), -EACCES);
	assert_int_equal(RAW(&t->a, zk_set, "/containers/0000000001", "", 0, -1), -EACCES);
	assert_int_equal(RAW(&t->a, zk_set, "/addrs/default/10.9.9.9", "", 0, -1), -EACCES);
	assert_int_equal(CALL(&t->b, container_active, rig_done, "h1", 1, 2, true), 0);
	assert_int_equal(CALL(&op, container_get, rig_container, &key), 0);
	assert_true(end_of.c.active && !strcmp(end_of.c.host, "h1"));
	web = end_of.c;
	assert_int_equal(CALL(&op, container_del, rig_container, &web), 0);

	rig_close(&op);
	assert_int_equal(remove_secrets(), 0);
}

static void wrong_places(void **state)
{
	static const char *const wrong[] = { "",
					     "localhost:2181",
					     "127.0.0.1",
					     "127.0.0.1:0",
					     "127.0.0.1:2181,",
					     "127.0.0.1:2181/a//b",
					     "127.0.0.1:2181/../a",
					     "127.0.0.1:2181?timeout=0",
					     "127.0.0.1:2181?x=1",
					     "127.0.0.1:2181?auth=/nonexistent",
					     "127.0.0.1:2181",
					     "127.0.0.1:2181/a?timeout=2000",
					     "127.0.0.1:2181?auth=none",
					     "127.0.0.1:2181?auth=" };
	struct store_conf conf = { .loop = &rig_loop };
	struct ffo_store *s = NULL;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		conf.where = wrong[i];
		assert_int_equal(store_zk.open(&conf, &s), -EINVAL);
	}
}

/* close() ends what is under way. */
static void closing(void **state)
{
	struct test *t = *state;
	static struct rig_end a, b, c;
	struct store_key key = { .kind = STORE_ID, .id = 1 };
	struct ffo_host h = { .name = "h0", .instance = "i" };
	struct ffo_map row = map_of(1, 2);

	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	memset(&c, 0, sizeof(c));
	assert_int_equal(host_up(&t->a, "h1", "i"), 0);
	t->a.s->ops->container_get(t->a.s, &key, rig_container, &a);
	t->a.s->ops->host_up(t->a.s, &h, rig_done, &b);
	t->a.s->ops->map_put(t->a.s, "h1", &row, 1, rig_done, &c);
	rig_close(&t->a);
	assert_true(a.done && b.done && c.done);
	assert_int_equal(a.err, -ECANCELED);
	assert_int_equal(b.err, -ECANCELED);
	assert_int_equal(c.err, -ECANCELED);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(containers_are_kept),
		TEST(what_is_taken),
		TEST(pools_run_out),
		TEST(adding_at_once),
		TEST(moving),
		TEST(active_ones_stay),
		TEST(hosts_come_and_go),
		TEST(a_dead_one_is_replaced),
		TEST(sessions_expire),
		TEST(mappings_are_told),
		TEST(mappings_churn),
		TEST(answers_follow),
		TEST(policy_is_shared),
		TEST(tenants_are_shared),
		TEST(groups_have_hosts),
		TEST(a_killed_one_is_replaced),
		TEST(many_watches_survive),
		TEST(credentials),
		TEST(a_short_break),
		TEST(a_session_is_lost),
		TEST(damage_is_refused),
		TEST(a_newer_tree_is_refused),
		TEST(an_older_tree),
		TEST(what_is_a_hosts_own),
		TEST(wrong_places),
		TEST(closing),
	};
	int err = rig_start(1);

	if (err)
		return err;
	log_level = getenv("LOG") ? LOG_LEVEL_DEBUG : LOG_LEVEL_ERR;
	err = cmocka_run_group_tests(tests, NULL, NULL);
	rig_stop();
	return err;
}
