/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffr/lib/log.c */
/*
 * test_store.c - the SQLite store: what survives a restart and what does not, what is refused,
 * and that a failure at any step of a change leaves what was there before.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* The Nth step from now fails with that result; 0: none does. */
static unsigned int fail_at;
static int fail_with;

static int step(sqlite3_stmt *stmt)
{
	if (fail_at && !--fail_at)
		return fail_with;
	return sqlite3_step(stmt);
}

#define sqlite3_step step
#include "ffo/store/sqlite/db.c"
#undef sqlite3_step
#include "ffo/store/sqlite/internal.h"

#define S	store_sqlite
#define NO_NAME ((const char *)NULL)

struct test {
	struct ffo_store *s;
	struct alloc *alloc;
	uv_loop_t loop;
	char dir[32], file[48];
	enum store_state state;
	int states;
};

static void state_changed(void *arg, enum store_state state)
{
	struct test *t = arg;

	t->state = state;
	t->states++;
}

static int open_store(struct test *t, struct ffo_store **s)
{
	struct store_conf conf = {
		.where = t->file, .loop = &t->loop, .state = state_changed, .arg = t
	};
	char why[100];

	alloc_free(t->alloc);
	assert_int_equal(alloc_create(&t->alloc), 0);
	assert_int_equal(alloc_set_pool(t->alloc, AF_INET, "10.1.0.0/29", why, sizeof(why)), 0);
	assert_int_equal(alloc_set_pool(t->alloc, AF_INET6, "fd01::/120", why, sizeof(why)), 0);
	conf.alloc = t->alloc;
	return S.open(&conf, s);
}

static int set_up(void **state)
{
	struct test *t = calloc(1, sizeof(*t));

	strcpy(t->dir, "/tmp/test_ffo_store.XXXXXX");
	assert_non_null(mkdtemp(t->dir));
	snprintf(t->file, sizeof(t->file), "%s/ffo.db", t->dir);
	t->state = STORE_AWAY;
	assert_int_equal(open_store(t, &t->s), 0);
	assert_int_equal(t->state, STORE_READY);
	*state = t;
	return 0;
}

static int tear_down(void **state)
{
	struct test *t = *state;
	char wal[64];

	fail_at = fail_with = 0;
	S.close(t->s);
	alloc_free(t->alloc);
	snprintf(wal, sizeof(wal), "%s-wal", t->file);
	unlink(wal);
	unlink(t->file);
	assert_int_equal(rmdir(t->dir), 0);
	free(t);
	return 0;
}

static void reopen(struct test *t)
{
	S.close(t->s);
	t->s = NULL;
	assert_int_equal(open_store(t, &t->s), 0);
}

/* ---- calls, which this store ends at once ----------------------------------------------------- */

#define NOT_YET 1

struct end {
	int err;
	char why[200];
	bool known;
	struct ffo_container c;
	struct ffo_host h;
	size_t count, n;
	bool more;
	struct ffo_container conts[8];
	struct ffo_host hosts[8];
	struct ffo_map maps[64];
};

static struct end *ending(void)
{
	static struct end e;

	memset(&e, 0, sizeof(e));
	e.err = NOT_YET;
	return &e;
}

static void take_err(struct end *e, int err, const char *why)
{
	assert_int_equal(e->err, NOT_YET); /* once */
	e->err = err;
	snprintf(e->why, sizeof(e->why), "%s", why);
	assert_null(strchr(why, '\n'));
}

static void done(void *arg, int err, const char *why)
{
	take_err(arg, err, why);
}

static void counted(void *arg, int err, const char *why, size_t count)
{
	take_err(arg, err, why);
	((struct end *)arg)->count = count;
}

static void container_done(void *arg, int err, const char *why, const struct ffo_container *c)
{
	struct end *e = arg;

	take_err(e, err, why);
	assert_true(err || c);
	e->known = c;
	if (c)
		e->c = *c;
}

static void host_done(void *arg, int err, const char *why, const struct ffo_host *h)
{
	struct end *e = arg;

	take_err(e, err, why);
	if (!err)
		e->h = *h;
}

#define LISTED(name, type, field)                                                                  \
	static void name(void *arg, int err, const char *why, const struct type *list, size_t n,   \
			 bool more)                                                                \
	{                                                                                          \
		struct end *e = arg;                                                               \
                                                                                                   \
		take_err(e, err, why);                                                             \
		assert_true(n <= sizeof(e->field) / sizeof(e->field[0]));                          \
		if (n)                                                                             \
			memcpy(e->field, list, n * sizeof(*list));                                 \
		e->n = n;                                                                          \
		e->more = more;                                                                    \
	}
LISTED(containers_listed, ffo_container, conts)
LISTED(hosts_listed, ffo_host, hosts)
LISTED(maps_listed, ffo_map, maps)

/* CALL(op, args..., callback): what it gave. */
#define CALL(t, op, ...)                                                                           \
	({                                                                                         \
		struct end *e_ = ending();                                                         \
                                                                                                   \
		S.op((t)->s, __VA_ARGS__, e_);                                                     \
		assert_int_not_equal(e_->err, NOT_YET);                                            \
		e_;                                                                                \
	})

static struct ffo_container cont(const char *name, const char *ip)
{
	struct ffo_container c = { .epoch = 1, .mode = FFO_MODE_SPIN };

	strcpy(c.name, name);
	strcpy(c.tenant, "blue");
	strcpy(c.host, "h0");
	if (ip)
		assert_int_equal(ffo_addr_parse(ip, &c.ip[c.num_ips++]), 0);
	return c;
}

/* Add it, with that address or from the pools: -errno, or 0 and c is as it was stored. */
static int add(struct test *t, struct ffo_container *c)
{
	struct end *e = CALL(t, container_add, c, container_done);

	if (!e->err)
		*c = e->c;
	return e->err;
}

static int set(struct test *t, const struct ffo_container *was, struct ffo_container *now,
	       unsigned int flags)
{
	struct end *e = CALL(t, container_set, was, now, flags, container_done);

	if (!e->err)
		*now = e->c;
	return e->err;
}

static int del(struct test *t, const struct ffo_container *c)
{
	return CALL(t, container_del, c, container_done)->err;
}

static int get_id(struct test *t, uint32_t id, struct ffo_container *c)
{
	const struct store_key key = { .kind = STORE_ID, .id = id };
	struct end *e = CALL(t, container_get, &key, container_done);

	*c = e->c;
	return e->err;
}

/* By its id, its name, its LID, each of its addresses. */
static void expect_container(struct test *t, const struct ffo_container *want)
{
	struct store_key keys[5] = { { .kind = STORE_ID, .id = want->id },
				     { .kind = STORE_LID, .lid = want->lid },
				     { .kind = STORE_NAME } };
	struct end *e;

	strcpy(keys[2].name, want->name);
	for (unsigned int i = 0; i < want->num_ips; i++) {
		keys[3 + i].kind = STORE_ADDR;
		strcpy(keys[3 + i].name, want->tenant);
		keys[3 + i].addr = want->ip[i];
	}
	for (unsigned int i = 0; i < 3u + want->num_ips; i++) {
		e = CALL(t, container_get, &keys[i], container_done);
		assert_int_equal(e->err, 0);
		assert_memory_equal(&e->c, want, sizeof(*want));
	}
}

static int up(struct test *t, const char *name, const char *instance)
{
	struct ffo_host h = { .last_seen = 1ull << 40, .wire = "tcp:1.2.3.4:5" };

	strcpy(h.name, name);
	strcpy(h.instance, instance);
	return CALL(t, host_up, &h, done)->err;
}

static int down(struct test *t, const char *name, const char *instance)
{
	struct ffo_host h = { .last_seen = 1ull << 41 };

	strcpy(h.name, name);
	strcpy(h.instance, instance);
	return CALL(t, host_down, &h, done)->err;
}

static int put_map(struct test *t, const char *host, const struct ffo_container *c, uint32_t rkey,
		   uint32_t session)
{
	struct ffo_map m = { .container = c->id,
			     .rkey = rkey,
			     .session = session,
			     .epoch = c->epoch,
			     .addr = UINT64_MAX - rkey,
			     .length = 4096,
			     .shadow = 1ull << 63 };

	return CALL(t, map_put, host, &m, 1, done)->err;
}

static struct end *maps(struct test *t, uint32_t only, uint32_t container, uint32_t rkey,
			size_t limit)
{
	struct end *e = CALL(t, map_list, only, container, rkey, limit, maps_listed);

	assert_int_equal(e->err, 0);
	return e;
}

static size_t num_maps(struct test *t)
{
	return maps(t, 0, 0, 0, 64)->n;
}

/* ---- what is kept --------------------------------------------------------------------------- */

static void test_restart(void **state)
{
	struct ffo_rule rule, more;
	struct test *t = *state;
	struct ffo_container a = cont("a", NULL), b = cont("b", "10.9.9.9");
	struct end *e;

	b.limits = (struct ffo_limits){ .tx_rate = 1ull << 40, .max_registered = 1ull << 50 };
	assert_int_equal(up(t, "h0", "boot 1"), 0);
	assert_int_equal(add(t, &a), 0);
	assert_int_equal(add(t, &b), 0);
	assert_int_not_equal(a.id, 0);
	assert_int_not_equal(a.id, b.id);
	assert_int_equal(put_map(t, "h0", &a, 7, 1), 0);
	assert_int_equal(CALL(t, container_active, "h0", a.id, a.epoch, true, done)->err, 0);
	assert_int_equal(ffo_rule_make(&rule, "red", "blue/a", true), 0);
	assert_int_equal(CALL(t, policy_set, &rule, done)->err, 0);
	assert_int_equal(ffo_rule_make(&more, "red", "blue", false), 0);
	assert_int_equal(CALL(t, policy_set, &more, done)->err, 0);
	assert_int_equal(CALL(t, policy_rm, &more, done)->err, 0);
	assert_int_equal(CALL(t, policy_rm, &more, done)->err, -ENOENT);
	assert_int_equal(num_maps(t), 1);
	e = CALL(t, host_get, "h0", host_done);
	assert_true(e->h.up);
	a.active = true;
	expect_container(t, &a);

	reopen(t);
	a.active = false; /* soft state */
	expect_container(t, &a);
	expect_container(t, &b);
	assert_int_equal(num_maps(t), 0);
	e = CALL(t, host_list, "", 8, hosts_listed);
	assert_int_equal(e->n, 1);
	assert_string_equal(e->hosts[0].name, "h0");
	assert_string_equal(e->hosts[0].instance, "boot 1");
	assert_string_equal(e->hosts[0].wire, "tcp:1.2.3.4:5");
	assert_true(e->hosts[0].last_seen == 1ull << 40);
	assert_false(e->hosts[0].up);
	assert_int_equal(CALL(t, host_list, "h0", 8, hosts_listed)->n, 0);
	assert_int_equal(CALL(t, host_get, "h1", host_done)->err, -ENOENT);
	/* What is taken is known to be. */
	b = cont("c", NULL);
	assert_int_equal(add(t, &b), 0);
	assert_int_equal(b.lid, 3);
	assert_memory_equal(&b.ip[0].s6_addr[12], "\x0a\x01\x00\x03", 4);
	b = cont("d", "10.9.9.9");
	e = CALL(t, container_add, &b, container_done);
	assert_int_equal(e->err, -EADDRINUSE);
	assert_string_equal(e->why, "10.9.9.9 is in use in tenant \"blue\"");
}

static void test_durable(void **state)
{
	struct test *t = *state;
	char text[64];

	assert_int_equal(get_text(&store_of(t->s)->db, "PRAGMA journal_mode", text), 0);
	assert_string_equal(text, "wal");
	assert_int_equal(get_text(&store_of(t->s)->db, "PRAGMA synchronous", text), 0);
	assert_string_equal(text, "2"); /* FULL */
}

static off_t bytes_on_disk(struct test *t)
{
	char wal[64];
	struct stat st, st_wal;

	snprintf(wal, sizeof(wal), "%s-wal", t->file);
	assert_int_equal(stat(t->file, &st), 0);
	assert_int_equal(stat(wal, &st_wal), 0);
	return st.st_size + st_wal.st_size;
}

/* Soft state writes nothing to the file, changing a container does. */
static void test_soft_is_cheap(void **state)
{
	struct test *t = *state;
	struct ffo_container a = cont("a", NULL), was;
	struct in6_addr mgid = { { { 0xff, 0x0e } } };
	off_t before;

	assert_int_equal(add(t, &a), 0);
	assert_int_equal(up(t, "h0", "1"), 0);
	before = bytes_on_disk(t);
	for (uint32_t i = 1; i < 1000; i++)
		assert_int_equal(put_map(t, "h0", &a, i, 1), 0);
	assert_int_equal(CALL(t, mcast_member, "h0", "blue", &mgid, true, done)->err, 0);
	assert_int_equal(CALL(t, container_active, "h0", a.id, a.epoch, true, done)->err, 0);
	assert_int_equal(bytes_on_disk(t), before);
	was = a;
	a.mode = FFO_MODE_SOCKET;
	assert_int_equal(set(t, &was, &a, 0), 0);
	assert_true(bytes_on_disk(t) > before);
}

/* ---- containers ----------------------------------------------------------------------------- */

static void test_allocate(void **state)
{
	struct test *t = *state;
	struct ffo_container c, second = { 0 };
	struct end *e;
	char text[INET6_ADDRSTRLEN];

	for (unsigned int i = 2; i <= 6; i++) {
		char name[8] = { 'c', (char)('0' + i) }, want[16];

		c = cont(name, NULL);
		assert_int_equal(add(t, &c), 0);
		assert_int_equal(c.num_ips, 2);
		assert_int_equal(c.lid, i - 1);
		snprintf(want, sizeof(want), "10.1.0.%u", i);
		assert_string_equal(ffo_addr_text(&c.ip[0], text), want);
		snprintf(want, sizeof(want), "fd01::%u", i);
		assert_string_equal(ffo_addr_text(&c.ip[1], text), want);
		if (i == 3)
			second = c;
	}
	c = cont("x", NULL);
	e = CALL(t, container_add, &c, container_done);
	assert_int_equal(e->err, -ENOSPC);
	assert_string_equal(e->why, "no IPv4 address is left for tenant \"blue\"");
	assert_int_equal(del(t, &second), 0);
	assert_int_equal(add(t, &c), 0); /* the lowest that is free */
	assert_string_equal(ffo_addr_text(&c.ip[0], text), "10.1.0.3");
	assert_string_equal(ffo_addr_text(&c.ip[1], text), "fd01::3");
	assert_int_equal(c.lid, 2);
}

static void test_change(void **state)
{
	struct test *t = *state;
	struct ffo_container a = cont("a", "10.1.1.1"), was, b, got;

	assert_int_equal(add(t, &a), 0);
	was = a;
	a.epoch = UINT32_MAX;
	a.mode = FFO_MODE_SOCKET;
	strcpy(a.host, "h1");
	assert_int_equal(ffo_addr_parse("10.9.9.9", &a.ip[0]), 0);
	assert_int_equal(set(t, &was, &a, STORE_IF_IDLE), 0);
	expect_container(t, &a);
	/* What it had is free again, what it has is not. */
	b = cont("b", "10.1.1.1");
	assert_int_equal(add(t, &b), 0);
	got = cont("c", "10.9.9.9");
	assert_int_equal(add(t, &got), -EADDRINUSE);

	/* From a state that is not so any more: nothing happens. */
	got = was;
	got.mode = FFO_MODE_ADAPTIVE;
	assert_int_equal(set(t, &was, &got, 0), -EAGAIN);
	assert_int_equal(del(t, &was), -EAGAIN);
	expect_container(t, &a);
	assert_int_equal(del(t, &a), 0);
	assert_int_equal(del(t, &a), -ENOENT);
	assert_int_equal(set(t, &a, &got, 0), -ENOENT);
	assert_int_equal(get_id(t, a.id, &got), -ENOENT);
}

static void test_ids_are_not_used_again(void **state)
{
	struct test *t = *state;
	uint32_t last = 0;

	for (int i = 0; i < 4; i++) {
		struct ffo_container c = cont("a", "10.1.1.1");

		assert_int_equal(add(t, &c), 0);
		assert_true(c.id > last);
		last = c.id;
		assert_int_equal(del(t, &c), 0);
		reopen(t);
	}
}

static void test_unique(void **state)
{
	struct test *t = *state;
	struct ffo_container a = cont("a", "10.1.1.1"), b, was;
	struct end *e;

	assert_int_equal(add(t, &a), 0);
	b = cont("a", "10.1.1.2");
	e = CALL(t, container_add, &b, container_done);
	assert_int_equal(e->err, -EEXIST);
	assert_true(e->known && e->c.id == a.id);
	b = cont("b", "10.1.1.1");
	assert_int_equal(add(t, &b), -EADDRINUSE);
	strcpy(b.tenant, "red"); /* has addresses of its own */
	assert_int_equal(add(t, &b), 0);
	expect_container(t, &a);
	expect_container(t, &b);
	/* Changing to an address that is taken: all is as it was, and what it took is free. */
	was = b = cont("c", "10.1.1.3");
	assert_int_equal(add(t, &was), 0);
	b = was;
	assert_int_equal(ffo_addr_parse("10.1.1.4", &b.ip[0]), 0);
	assert_int_equal(ffo_addr_parse("10.1.1.1", &b.ip[1]), 0);
	b.num_ips = 2;
	assert_int_equal(set(t, &was, &b, 0), -EADDRINUSE);
	expect_container(t, &was);
	b = cont("d", "10.1.1.4");
	assert_int_equal(add(t, &b), 0);
}

/* The file itself refuses what the caller's books let pass. */
static void test_unique_in_file(void **state)
{
	struct test *t = *state;
	struct ffo_container a = cont("a", "10.1.1.1"), b = cont("b", "10.1.1.1");

	assert_int_equal(add(t, &a), 0);
	alloc_put_addr(t->alloc, "blue", &a.ip[0]);
	assert_int_equal(add(t, &b), -EEXIST);
	alloc_put_lid(t->alloc, a.lid);
	b = cont("b", "10.1.1.2");
	assert_int_equal(add(t, &b), -EEXIST);
	assert_int_equal(alloc_take_lid(t->alloc, a.lid), 0);
	assert_int_equal(alloc_take_addr(t->alloc, "blue", &a.ip[0]), 0);
	assert_int_equal(add(t, &b), 0);
}

/* A container in use moves only by force, and is idle then. */
static void test_active(void **state)
{
	struct test *t = *state;
	struct ffo_container a = cont("a", "10.1.1.1"), was;

	assert_int_equal(add(t, &a), 0);
	assert_int_equal(CALL(t, container_active, "h0", a.id, 1, true, done)->err,
			 -ESHUTDOWN); /* its host is not up */
	assert_int_equal(up(t, "h0", "1"), 0);
	assert_int_equal(up(t, "h1", "1"), 0);
	assert_int_equal(CALL(t, container_active, "h0", a.id, 1, true, done)->err, 0);
	a.active = true;
	expect_container(t, &a);
	was = a;
	a.mode = FFO_MODE_ADAPTIVE;
	assert_int_equal(set(t, &was, &a, 0), 0); /* stays active */
	expect_container(t, &a);
	was = a;
	strcpy(a.host, "h1");
	a.epoch++;
	assert_int_equal(set(t, &was, &a, STORE_IF_IDLE), -EBUSY);
	expect_container(t, &was);
	assert_int_equal(set(t, &was, &a, 0), 0);
	assert_false(a.active);
	expect_container(t, &a);
	/* Of the old epoch, and of another host's: nothing to do. */
	assert_int_equal(CALL(t, container_active, "h0", a.id, 1, true, done)->err, 0);
	expect_container(t, &a);
	assert_int_equal(CALL(t, container_active, "h1", a.id, 2, true, done)->err, 0);
	assert_int_equal(CALL(t, container_active, "h0", a.id, 2, false, done)->err, 0);
	a.active = true;
	expect_container(t, &a);
	assert_int_equal(down(t, "h1", "1"), 0);
	a.active = false;
	expect_container(t, &a);
}

/* ---- hosts ---------------------------------------------------------------------------------- */

static void test_hosts(void **state)
{
	struct test *t = *state;
	struct ffo_container a = cont("a", "10.1.1.1");
	struct end *e;

	assert_int_equal(add(t, &a), 0);
	assert_int_equal(up(t, "h0", "1"), 0);
	assert_int_equal(put_map(t, "h0", &a, 7, 1), 0);
	assert_int_equal(up(t, "h0", "2"), -EEXIST);
	assert_int_equal(up(t, "h0", ""), -EEXIST);
	assert_int_equal(num_maps(t), 1);
	assert_int_equal(up(t, "h0", "1"), 0); /* the same router: begins anew */
	assert_int_equal(num_maps(t), 0);
	assert_int_equal(put_map(t, "h0", &a, 7, 1), 0);
	assert_int_equal(down(t, "h0", "0"), 0); /* of one that is not up any more */
	assert_int_equal(num_maps(t), 1);
	assert_int_equal(down(t, "h0", "1"), 0);
	assert_int_equal(num_maps(t), 0);
	e = CALL(t, host_get, "h0", host_done);
	assert_false(e->h.up);
	assert_true(e->h.last_seen == 1ull << 41);
	assert_int_equal(put_map(t, "h0", &a, 7, 1), -ESHUTDOWN);
	assert_int_equal(down(t, "h0", "1"), 0);
	assert_int_equal(down(t, "h9", "1"), 0);
	assert_int_equal(up(t, "h0", ""), 0);
	assert_int_equal(up(t, "h0", ""), -EEXIST); /* nobody can tell the two apart */
	assert_int_equal(down(t, "h0", ""), 0);
	assert_int_equal(up(t, "h0", "2"), 0);
}

/* ---- lists and mappings --------------------------------------------------------------------- */

static void test_lists(void **state)
{
	struct test *t = *state;
	uint32_t ids[6];
	struct end *e;

	for (uint16_t i = 0; i < 6; i++) {
		char name[8] = { (char)('f' - i) }, ip[16];
		struct ffo_container c;

		snprintf(ip, sizeof(ip), "10.1.1.%u", i + 1);
		c = cont(name, ip);
		strcpy(c.host, i % 2 ? "h1" : "h0");
		assert_int_equal(add(t, &c), 0);
		ids[i] = c.id;
		assert_int_equal(up(t, name, "1"), 0);
	}
	e = CALL(t, container_list, NO_NAME, ids[1], 3, containers_listed);
	assert_int_equal(e->n, 3);
	assert_true(e->more);
	for (int i = 0; i < 3; i++)
		assert_int_equal(e->conts[i].id, ids[2 + i]);
	e = CALL(t, container_list, NO_NAME, ids[2], 3, containers_listed);
	assert_int_equal(e->n, 3);
	assert_false(e->more);
	e = CALL(t, container_list, "h1", ids[1], 8, containers_listed);
	assert_int_equal(e->n, 2);
	assert_int_equal(e->conts[0].id, ids[3]);
	assert_int_equal(e->conts[1].id, ids[5]);
	e = CALL(t, host_list, "b", 3, hosts_listed);
	assert_int_equal(e->n, 3);
	assert_true(e->more);
	assert_string_equal(e->hosts[0].name, "c");
	assert_string_equal(e->hosts[2].name, "e");
	assert_true(e->hosts[2].up);
}

static void test_maps(void **state)
{
	struct test *t = *state;
	struct ffo_container a = cont("a", "10.1.1.1"), b = cont("b", "10.1.1.2"), was;
	struct store_map_id ids[] = { { 0, 3 }, { 0, 3 }, { 77, 3 } };
	struct end *e;

	strcpy(b.host, "h1");
	assert_int_equal(add(t, &a), 0);
	assert_int_equal(add(t, &b), 0);
	assert_int_equal(up(t, "h0", "1"), 0);
	assert_int_equal(up(t, "h1", "1"), 0);
	for (uint32_t i = 1; i <= 4; i++) {
		assert_int_equal(put_map(t, "h0", &a, UINT32_MAX - i, 1 + i % 2), 0);
		assert_int_equal(put_map(t, "h1", &b, i, 1), 0);
	}
	assert_int_equal(put_map(t, "h0", &a, UINT32_MAX - 4, 9), 0); /* changes it */
	e = maps(t, 0, 0, 0, 64);
	assert_int_equal(e->n, 8);
	assert_int_equal(e->maps[0].rkey, UINT32_MAX - 4);
	assert_int_equal(e->maps[0].session, 9);
	assert_int_equal(e->maps[4].container, b.id);
	assert_true(e->maps[7].addr == UINT64_MAX - 4); /* all 64 bits */

	e = maps(t, 0, a.id, UINT32_MAX - 2, 3); /* behind that one, 3 of them */
	assert_int_equal(e->n, 3);
	assert_true(e->more);
	assert_int_equal(e->maps[0].rkey, UINT32_MAX - 1);
	assert_int_equal(e->maps[2].rkey, 2);
	assert_int_equal(maps(t, b.id, 0, 0, 64)->n, 4);
	assert_int_equal(maps(t, b.id, a.id, 3, 64)->n, 4);
	assert_int_equal(maps(t, b.id, b.id, 3, 64)->n, 1);
	assert_int_equal(maps(t, a.id, b.id, 0, 64)->n, 0);

	ids[0].container = ids[1].container = b.id;
	assert_int_equal(CALL(t, map_del, "h1", ids, 3, counted)->count, 1);
	/* Its session 1: one left. */
	assert_int_equal(CALL(t, map_drop, "h0", a.id, 0, 1, done)->err, 0);
	assert_int_equal(maps(t, b.id, 0, 0, 64)->n, 3);
	assert_int_equal(maps(t, a.id, 0, 0, 64)->n, 3);
	assert_int_equal(CALL(t, map_drop, "h0", a.id, 7, 0, done)->err, 0); /* another epoch */
	assert_int_equal(maps(t, a.id, 0, 0, 64)->n, 3);

	assert_int_equal(down(t, "h1", "1"), 0);
	assert_int_equal(num_maps(t), 3);
	/* A move: they go, and none of the old epoch comes back. */
	was = a;
	strcpy(a.host, "h1");
	a.epoch++;
	assert_int_equal(set(t, &was, &a, 0), 0);
	assert_int_equal(num_maps(t), 0);
	assert_int_equal(put_map(t, "h0", &was, 9, 1), 0);
	assert_int_equal(num_maps(t), 0);
	assert_int_equal(up(t, "h1", "1"), 0);
	assert_int_equal(put_map(t, "h1", &a, 9, 1), 0);
	assert_int_equal(num_maps(t), 1);
	assert_int_equal(del(t, &a), 0);
	assert_int_equal(num_maps(t), 0);
}

/* ---- policy --------------------------------------------------------------------------------- */

static void test_policy_limit(void **state)
{
	struct test *t = *state;
	struct ffo_rule rule;
	char name[16];
	struct end *e;

	for (unsigned int i = 0; i < FFO_RULES_MAX; i++) {
		snprintf(name, sizeof(name), "t%u", i);
		assert_int_equal(ffo_rule_make(&rule, name, "blue", true), 0);
		assert_int_equal(CALL(t, policy_set, &rule, done)->err, 0);
	}
	assert_int_equal(CALL(t, policy_set, &rule, done)->err, 0); /* is there already */
	assert_int_equal(ffo_rule_make(&rule, "one", "more", true), 0);
	e = CALL(t, policy_set, &rule, done);
	assert_int_equal(e->err, -ENOSPC);
	assert_string_equal(e->why, "the policy has 512 rules already");
	reopen(t);
}

static int set_tenant(struct test *t, const char *name, uint64_t max_qp)
{
	struct ffo_limits_change c = { .set = 1u << FFO_LIMIT_NR_max_qp, .to.max_qp = max_qp };
	struct end *e = CALL(t, tenant_set, name, &c, done);

	assert_int_equal(!e->err, !*e->why);
	return e->err;
}

static void test_tenant_limit(void **state)
{
	struct test *t = *state;
	struct ffo_tenant list[FFO_TENANTS_MAX];
	char name[16];

	for (unsigned int i = 0; i < FFO_TENANTS_MAX; i++) {
		snprintf(name, sizeof(name), "t%u", i);
		assert_int_equal(set_tenant(t, name, i + 1), 0);
	}
	assert_int_equal(set_tenant(t, "more", 1), -ENOSPC);
	assert_int_equal(set_tenant(t, "t9", 99), 0);
	assert_int_equal(set_tenant(t, "t8", 0), 0);
	assert_int_equal(set_tenant(t, "more", 1), 0);
	reopen(t);
	assert_int_equal(sqlite_get_tenants(store_of(t->s), list), FFO_TENANTS_MAX);
	assert_string_equal(list[0].name, "more");
	assert_string_equal(list[FFO_TENANTS_MAX - 1].name, "t99");
	assert_int_equal(list[FFO_TENANTS_MAX - 1].limits.max_qp, 100);
}

/* ---- watches -------------------------------------------------------------------------------- */

struct seen {
	struct test *t;
	struct store_watch w;
	unsigned int calls;
	bool none, up, reset, synced;
	struct ffo_container c;
	size_t puts, dels, rkeys, rules, tenants, hosts;
	uint32_t last_rkey;
	struct seen *ends; /* by its next news: that watch, too */
};

static void see(void *arg, const struct store_news *news)
{
	struct seen *v = arg;

	v->calls++;
	assert_int_equal(news->err, fail_with ? -EIO : 0);
	v->reset = news->reset;
	v->synced = news->synced;
	switch (v->w.key.kind) {
	case STORE_HOST:
		v->none = !news->host;
		v->up = news->host && news->host->up;
		break;
	case STORE_OWNED:
		v->puts += news->owned.num_put;
		v->dels += news->owned.num_del;
		break;
	case STORE_MAP:
		v->rkeys += news->map.num;
		if (news->map.num)
			v->last_rkey = news->map.rkeys[news->map.num - 1];
		break;
	case STORE_POLICY:
		v->rules = news->policy.num;
		break;
	case STORE_TENANTS:
		v->tenants = news->tenants.num;
		break;
	case STORE_MCAST:
		v->hosts = news->mcast.num;
		break;
	default:
		v->none = !news->container;
		if (news->container)
			v->c = *news->container;
		break;
	}
	if (v->ends && v->calls > 1) {
		S.unwatch(v->t->s, &v->ends->w);
		S.unwatch(v->t->s, &v->w);
	}
}

static void watch(struct test *t, struct seen *v, enum store_kind kind, const char *name)
{
	memset(v, 0, sizeof(*v));
	v->t = t;
	v->w.key.kind = kind;
	strcpy(v->w.key.name, name);
	v->w.cb = see;
	v->w.arg = v;
}

static void begin_watch(struct test *t, struct seen *v)
{
	S.watch(t->s, &v->w);
	assert_int_equal(v->calls, 1); /* this store tells at once */
}

static void test_watch_container(void **state)
{
	struct test *t = *state;
	struct ffo_container a = cont("a", "10.1.1.1"), was;
	struct seen addr, lid, name, id, h0, h1, other;

	watch(t, &addr, STORE_ADDR, "blue");
	addr.w.key.addr = a.ip[0];
	watch(t, &other, STORE_ADDR, "red");
	other.w.key.addr = a.ip[0];
	watch(t, &name, STORE_NAME, "a");
	watch(t, &lid, STORE_LID, "");
	lid.w.key.lid = 1;
	watch(t, &id, STORE_ID, "");
	id.w.key.id = 1;
	watch(t, &h0, STORE_OWNED, "h0");
	watch(t, &h1, STORE_OWNED, "h1");
	struct seen *all[] = { &addr, &lid, &name, &id };

	begin_watch(t, &h0);
	assert_true(h0.reset && h0.synced && !h0.puts);
	begin_watch(t, &h1);
	begin_watch(t, &other);
	for (int i = 0; i < 4; i++) {
		begin_watch(t, all[i]);
		assert_true(all[i]->none);
	}
	assert_int_equal(add(t, &a), 0);
	assert_int_equal(h0.puts, 1);
	assert_int_equal(h1.calls, 1);
	for (int i = 0; i < 4; i++) {
		assert_false(all[i]->none);
		assert_memory_equal(&all[i]->c, &a, sizeof(a));
	}
	was = a;
	strcpy(a.host, "h1");
	a.epoch++;
	assert_int_equal(set(t, &was, &a, 0), 0);
	assert_int_equal(h0.dels, 1);
	assert_int_equal(h1.puts, 1);
	for (int i = 0; i < 4; i++)
		assert_int_equal(all[i]->c.epoch, 2);
	/* The address goes: who watches it knows, the others still have it. */
	was = a;
	assert_int_equal(ffo_addr_parse("10.1.1.2", &a.ip[0]), 0);
	assert_int_equal(set(t, &was, &a, 0), 0);
	assert_true(addr.none);
	assert_false(name.none);
	assert_int_equal(del(t, &a), 0);
	assert_true(lid.none && name.none && id.none);
	assert_int_equal(h1.dels, 1);
	assert_int_equal(other.calls, 1);
	for (int i = 0; i < 4; i++)
		S.unwatch(t->s, &all[i]->w);
	S.unwatch(t->s, &h0.w);
	S.unwatch(t->s, &h1.w);
	S.unwatch(t->s, &other.w);
}

static void test_watch_soft(void **state)
{
	struct test *t = *state;
	struct ffo_container a = cont("a", "10.1.1.1"), was;
	struct seen host, map, group, policy, tenants;
	struct store_map_id id = { 1, 5 };
	struct ffo_map rows[4], row;
	struct ffo_rule rule;
	unsigned int calls;

	watch(t, &host, STORE_HOST, "h0");
	watch(t, &map, STORE_MAP, "");
	map.w.key.id = 1;
	map.w.key.epoch = 1;
	watch(t, &group, STORE_MCAST, "blue");
	group.w.key.addr.s6_addr[0] = 0xff;
	watch(t, &policy, STORE_POLICY, "");
	watch(t, &tenants, STORE_TENANTS, "");
	begin_watch(t, &host);
	begin_watch(t, &map);
	begin_watch(t, &group);
	begin_watch(t, &policy);
	begin_watch(t, &tenants);
	assert_true(host.none && map.reset && map.synced);
	assert_int_equal(S.map_page(t->s, &map.w, 0, rows, 4), 0);

	assert_int_equal(up(t, "h0", "1"), 0);
	assert_true(!host.none && host.up);
	assert_int_equal(add(t, &a), 0);
	assert_int_equal(put_map(t, "h0", &a, 5, 1), 0);
	assert_int_equal(map.last_rkey, 5);
	assert_false(map.reset);
	for (uint32_t i = 6; i < 11; i++)
		assert_int_equal(put_map(t, "h0", &a, i, 1 + i % 2), 0);
	assert_int_equal(map.rkeys, 6);
	assert_int_equal(S.map_page(t->s, &map.w, 0, rows, 4), 4);
	assert_int_equal(rows[3].rkey, 8);
	assert_int_equal(S.map_page(t->s, &map.w, 8, rows, 4), 2);
	assert_int_equal(rows[1].rkey, 10);
	assert_int_equal(S.map_row(t->s, &map.w, 5, &row), 0);
	assert_int_equal(row.rkey, 5);
	assert_int_equal(CALL(t, map_del, "h0", &id, 1, counted)->count, 1);
	assert_int_equal(map.rkeys, 7);
	assert_int_equal(S.map_row(t->s, &map.w, 5, &row), -ENOENT);

	assert_int_equal(CALL(t, mcast_member, "h0", "blue", &group.w.key.addr, true, done)->err,
			 0);
	assert_int_equal(group.hosts, 1);
	calls = group.calls;
	assert_int_equal(CALL(t, mcast_member, "h0", "red", &group.w.key.addr, true, done)->err, 0);
	assert_int_equal(group.calls, calls);
	assert_int_equal(ffo_rule_make(&rule, "red", "blue", true), 0);
	assert_int_equal(CALL(t, policy_set, &rule, done)->err, 0);
	assert_int_equal(policy.rules, 1);
	assert_int_equal(tenants.tenants, 0);
	assert_int_equal(set_tenant(t, "red", 1), 0);
	assert_int_equal(tenants.tenants, 1);
	assert_int_equal(set_tenant(t, "red", 0), 0);
	assert_int_equal(tenants.tenants, 0);

	/* The host goes, and all that hung on it. */
	assert_int_equal(down(t, "h0", "1"), 0);
	assert_true(!host.none && !host.up);
	assert_true(map.reset && map.synced);
	assert_int_equal(S.map_page(t->s, &map.w, 0, rows, 4), 0);
	assert_int_equal(group.hosts, 0);

	/* The epoch ends: its rows are void, the next one's are not seen here. */
	assert_int_equal(up(t, "h0", "1"), 0);
	assert_int_equal(put_map(t, "h0", &a, 5, 1), 0);
	was = a;
	a.epoch++;
	strcpy(a.host, "h1");
	assert_int_equal(set(t, &was, &a, 0), 0);
	assert_true(map.reset);
	assert_int_equal(up(t, "h1", "1"), 0);
	assert_int_equal(put_map(t, "h1", &a, 5, 1), 0);
	assert_int_equal(S.map_page(t->s, &map.w, 0, rows, 4), 0);
	assert_int_equal(S.map_row(t->s, &map.w, 5, &row), -ENOENT);
	S.unwatch(t->s, &host.w);
	S.unwatch(t->s, &map.w);
	S.unwatch(t->s, &group.w);
	S.unwatch(t->s, &policy.w);
	S.unwatch(t->s, &tenants.w);
	assert_null(store_of(t->s)->topics.table);
}

/* A callback ends its own watch and another one of the same key: no more news for either. */
static void test_unwatch_in_callback(void **state)
{
	struct ffo_container a = cont("a", "10.1.1.1");
	struct test *t = *state;
	struct seen v[3];

	for (int i = 0; i < 3; i++) {
		watch(t, &v[i], STORE_NAME, "a");
		begin_watch(t, &v[i]);
	}
	v[2].ends = &v[0];
	assert_int_equal(add(t, &a), 0);
	assert_int_equal(del(t, &a), 0);
	assert_int_equal(v[2].calls, 2);
	assert_true(v[0].calls <= 2);
	assert_int_equal(v[1].calls, 3);
	S.unwatch(t->s, &v[1].w);
}

/* A change that does not take place is not told. */
static void test_watch_failure(void **state)
{
	struct ffo_container a = cont("a", "10.1.1.1");
	struct test *t = *state;
	struct seen v;

	watch(t, &v, STORE_NAME, "a");
	begin_watch(t, &v);
	fail_with = SQLITE_IOERR;
	for (unsigned int n = 1;; n++) {
		fail_at = n;
		if (!add(t, &a))
			break;
		assert_int_equal(fail_at, 0);
		assert_int_equal(v.calls, 1);
	}
	fail_at = 0;
	assert_int_equal(v.calls, 2); /* that reading it failed */
	S.unwatch(t->s, &v.w);
}

/* ---- what is refused ------------------------------------------------------------------------ */

/* Change the closed file by SQL, then open it: that error, and the file is as it was. */
static void expect_refused(struct test *t, const char *sql, int err)
{
	struct stat before, after;
	sqlite3 *db;

	S.close(t->s);
	t->s = NULL;
	assert_int_equal(sqlite3_open(t->file, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	assert_int_equal(stat(t->file, &before), 0);
	assert_int_equal(open_store(t, &t->s), err);
	assert_null(t->s);
	assert_int_equal(stat(t->file, &after), 0);
	assert_int_equal(after.st_size, before.st_size);
	assert_int_equal(after.st_mtim.tv_sec, before.st_mtim.tv_sec);
	assert_int_equal(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
}

static void test_newer(void **state)
{
	expect_refused(*state, "PRAGMA user_version = 4", -EPROTONOSUPPORT);
}

static void test_foreign(void **state)
{
	expect_refused(*state, "PRAGMA application_id = 7", -EBADMSG);
}

static void test_no_database(void **state)
{
	struct test *t = *state;
	static const char text[] =
		"This is a letter of some length, and no database at all. Dear ...";
	int fd;

	S.close(t->s);
	t->s = NULL;
	fd = open(t->file, O_WRONLY | O_TRUNC);
	assert_int_equal(write(fd, text, sizeof(text)), sizeof(text));
	close(fd);
	assert_int_equal(open_store(t, &t->s), -EBADMSG);
	unlink(t->file);
	strcpy(t->file, "/nonexistent/ffo.db");
	assert_int_equal(open_store(t, &t->s), -EIO);
	assert_null(t->s);
}

static void test_damaged(void **state)
{
	struct test *t = *state;
	char zero[4096] = { 0 };
	struct stat st;
	int fd;

	for (uint16_t i = 0; i < 200; i++) {
		char name[8], ip[16];
		struct ffo_container c;

		snprintf(name, sizeof(name), "c%u", i);
		snprintf(ip, sizeof(ip), "10.1.2.%u", i + 1);
		c = cont(name, ip);
		assert_int_equal(add(t, &c), 0);
	}
	S.close(t->s);
	t->s = NULL;
	fd = open(t->file, O_WRONLY);
	assert_int_equal(fstat(fd, &st), 0);
	assert_true(st.st_size > 16 * 4096);
	assert_int_equal(pwrite(fd, zero, sizeof(zero), st.st_size - 4096), 4096);
	assert_int_equal(pwrite(fd, zero, sizeof(zero), st.st_size - 3 * 4096), 4096);
	close(fd);
	assert_int_equal(open_store(t, &t->s), -EBADMSG);
	assert_null(t->s);
}

/* A store of version 1 is taken over, with all that is in it. */
static void test_upgrade(void **state)
{
	struct test *t = *state;
	struct ffo_container a = cont("a", "10.1.1.1");
	struct ffo_rule rule;
	sqlite3 *db;
	struct end *e;

	assert_int_equal(add(t, &a), 0);
	assert_int_equal(up(t, "h0", "boot 1"), 0);
	S.close(t->s);
	t->s = NULL;
	assert_int_equal(sqlite3_open(t->file, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db,
				      "ALTER TABLE hosts DROP COLUMN wire; DROP TABLE policy;"
				      "DROP INDEX containers_of_host; DROP TABLE tenants;"
				      "ALTER TABLE containers DROP COLUMN limits;"
				      "PRAGMA user_version = 1",
				      NULL, NULL, NULL),
			 SQLITE_OK);
	sqlite3_close(db);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(open_store(t, &t->s), 0);
		expect_container(t, &a);
		e = CALL(t, host_get, "h0", host_done);
		assert_string_equal(e->h.instance, "boot 1");
		assert_string_equal(e->h.wire, "");
		assert_int_equal(ffo_rule_make(&rule, "red", "blue", true), 0);
		assert_int_equal(CALL(t, policy_set, &rule, done)->err, 0);
		assert_int_equal(set_tenant(t, "red", 1), 0);
		S.close(t->s);
		t->s = NULL;
	}
}

/* Rows that no ffo would write: told, and never handed on; with them, the store does not open. */
static void test_nonsense_rows(void **state)
{
	static const char *const nonsense[] = {
		"UPDATE containers SET name = '../../etc'",
		"UPDATE containers SET lid = 70000",
		"UPDATE containers SET epoch = 0",
		"UPDATE containers SET mode = 'turbo'",
		"UPDATE containers SET host = ''",
		"UPDATE containers SET limits = ''",
		"UPDATE containers SET limits = '{\"weight\":1001}'",
		"UPDATE containers SET tenant = printf('%.*c', 500, 'x')",
		"UPDATE addresses SET addr = x'0102' WHERE idx = 1",
		"DELETE FROM addresses",
	};
	struct test *t = *state;
	struct ffo_container a = cont("a", NULL), got;
	struct sqldb *db = &store_of(t->s)->db;
	struct end *e;

	assert_int_equal(add(t, &a), 0);
	for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
		assert_int_equal(exec(db, "SAVEPOINT whole"), 0);
		assert_int_equal(exec(db, nonsense[i]), 0);
		assert_int_equal(get_id(t, a.id, &got), -EBADMSG);
		e = CALL(t, container_list, NO_NAME, 0, 8, containers_listed);
		assert_int_equal(e->err, -EBADMSG);
		assert_int_equal(e->n, 0);
		assert_int_equal(exec(db, "ROLLBACK TO whole; RELEASE whole"), 0);
	}
	expect_container(t, &a);
	assert_int_equal(exec(db, "INSERT INTO policy VALUES('b', 'a', 1)"), 0);
	S.close(t->s);
	t->s = NULL;
	assert_int_equal(open_store(t, &t->s), -EBADMSG);
}

static void test_second_user(void **state)
{
	struct test *t = *state;
	struct ffo_store *second = NULL;

	assert_int_equal(open_store(t, &second), -EBUSY);
	assert_null(second);
	/* That test's books are the second one's, the first one's are gone. */
	S.close(t->s);
	t->s = NULL;
}

/* ---- failures ------------------------------------------------------------------------------- */

/* Whatever step fails, the change does not take place, and the next one does. */
static void test_fail_nth_step(void **state)
{
	static const struct {
		int rc, err;
	} faults[] = { { SQLITE_FULL, -ENOSPC },
		       { SQLITE_IOERR, -EIO },
		       { SQLITE_NOMEM, -ENOMEM } };
	struct test *t = *state;
	struct ffo_container a = cont("a", NULL), was, got;
	unsigned int n;
	int err;

	assert_int_equal(add(t, &a), 0);
	assert_int_equal(up(t, "h0", "1"), 0);
	assert_int_equal(put_map(t, "h0", &a, 7, 1), 0);
	was = a;
	for (size_t f = 0; f < sizeof(faults) / sizeof(faults[0]); f++)
		for (n = 1;; n++) {
			a = was;
			a.epoch++;
			strcpy(a.host, "h1");
			assert_int_equal(ffo_addr_parse("10.1.0.6", &a.ip[0]), 0);
			fail_at = n;
			fail_with = faults[f].rc;
			err = set(t, &was, &a, STORE_IF_IDLE);
			if (fail_at) { /* was not reached: the change is shorter */
				fail_at = 0;
				assert_int_equal(err, 0);
				expect_container(t, &a);
				got = was; /* back, for the next kind of failure */
				got.epoch = a.epoch + 1;
				assert_int_equal(set(t, &a, &got, 0), 0);
				was = got;
				assert_int_equal(put_map(t, "h0", &was, 7, 1), 0);
				break;
			}
			assert_int_equal(err, faults[f].err);
			expect_container(t, &was);
			assert_int_equal(maps(t, 0, 0, 0, 8)->maps[0].rkey, 7);
		}
	assert_true(n > 10);
	reopen(t);
	expect_container(t, &was);
}

/* A host goes down even if the file cannot be written: the last step is that. */
static void test_fail_host_down(void **state)
{
	struct test *t = *state;
	struct end *e;
	unsigned int n = 1;

	fail_with = SQLITE_FULL;
	for (;; n++) {
		assert_int_equal(up(t, "h0", "1"), 0);
		fail_at = n;
		if (!down(t, "h0", "1"))
			break;
		assert_int_equal(fail_at, 0);
	}
	fail_at = 0;
	assert_int_equal(up(t, "h0", "1"), 0);
	fail_at = n - 1;
	assert_int_equal(down(t, "h0", "1"), -ENOSPC);
	e = CALL(t, host_get, "h0", host_done);
	assert_false(e->h.up);
	assert_int_equal(up(t, "h0", "2"), 0);
}

static void test_fail_reads(void **state)
{
	struct test *t = *state;
	struct ffo_container a = cont("a", NULL), got;

	assert_int_equal(add(t, &a), 0);
	assert_int_equal(up(t, "h0", "1"), 0);
	assert_int_equal(put_map(t, "h0", &a, 7, 1), 0);
	fail_with = SQLITE_IOERR;
	for (unsigned int n = 1; n <= 3; n++) { /* the row, its addresses */
		fail_at = n;
		assert_int_equal(get_id(t, a.id, &got), -EIO);
		fail_at = n;
		assert_int_equal(CALL(t, container_list, NO_NAME, 0, 8, containers_listed)->err,
				 -EIO);
	}
	fail_at = 2;
	assert_int_equal(CALL(t, map_list, 0, 0, 0, 8, maps_listed)->err, -EIO);
	expect_container(t, &a);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(test_restart),
		T(test_durable),
		T(test_soft_is_cheap),
		T(test_allocate),
		T(test_change),
		T(test_ids_are_not_used_again),
		T(test_unique),
		T(test_unique_in_file),
		T(test_active),
		T(test_hosts),
		T(test_lists),
		T(test_maps),
		T(test_policy_limit),
		T(test_tenant_limit),
		T(test_watch_container),
		T(test_watch_soft),
		T(test_unwatch_in_callback),
		T(test_watch_failure),
		T(test_upgrade),
		T(test_newer),
		T(test_foreign),
		T(test_no_database),
		T(test_damaged),
		T(test_nonsense_rows),
		T(test_second_user),
		T(test_fail_nth_step),
		T(test_fail_host_down),
		T(test_fail_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
