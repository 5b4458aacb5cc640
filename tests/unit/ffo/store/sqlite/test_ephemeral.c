/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/sqlite_rig.c ffr/lib/log.c -Wl,--wrap=sqlite3_step */
/*
 * test_ephemeral.c - what hangs on the sessions of hosts: mappings, what is active. It costs no write.
 */
#include <sys/stat.h>

#include "tests/rig/unit/sqlite_rig.h"
#include "tests/rig/unit/unit.h"

/* ---- what is kept --------------------------------------------------------------------------- */

static off_t bytes_on_disk(struct lite *t)
{
	char wal[64];
	struct stat st, st_wal;

	snprintf(wal, sizeof(wal), "%s-wal", t->file);
	assert_int_equal(stat(t->file, &st), 0);
	assert_int_equal(stat(wal, &st_wal), 0);
	return st.st_size + st_wal.st_size;
}

/* Ephemeral state writes nothing to the file, changing a container does. */
static void test_ephemeral_is_cheap(void **state)
{
	struct lite *t = *state;
	struct ffo_container a = lite_cont("a", NULL), was;
	struct in6_addr mgid = { { { 0xff, 0x0e } } };
	off_t before;

	assert_int_equal(lite_add(t, &a), 0);
	assert_int_equal(lite_up(t, "h0", "1"), 0);
	before = bytes_on_disk(t);
	for (uint32_t i = 1; i < 1000; i++)
		assert_int_equal(lite_put_map(t, "h0", &a, i, 1), 0);
	assert_int_equal(LITE_CALL(t, mcast_member, "h0", "blue", &mgid, true, lite_done)->err, 0);
	assert_int_equal(LITE_CALL(t, container_active, "h0", a.id, a.epoch, true, lite_done)->err,
			 0);
	assert_int_equal(bytes_on_disk(t), before);
	was = a;
	a.mode = FFO_MODE_SOCKET;
	assert_int_equal(lite_set(t, &was, &a, 0), 0);
	assert_true(bytes_on_disk(t) > before);
}

/* ---- containers ----------------------------------------------------------------------------- */

/* A container in use moves only by force, and is idle then. */
static void test_active(void **state)
{
	struct lite *t = *state;
	struct ffo_container a = lite_cont("a", "10.1.1.1"), was;

	assert_int_equal(lite_add(t, &a), 0);
	assert_int_equal(LITE_CALL(t, container_active, "h0", a.id, 1, true, lite_done)->err,
			 -ESHUTDOWN); /* its host is not up */
	assert_int_equal(lite_up(t, "h0", "1"), 0);
	assert_int_equal(lite_up(t, "h1", "1"), 0);
	assert_int_equal(LITE_CALL(t, container_active, "h0", a.id, 1, true, lite_done)->err, 0);
	a.active = true;
	lite_expect_container(t, &a);
	was = a;
	a.mode = FFO_MODE_ADAPTIVE;
	assert_int_equal(lite_set(t, &was, &a, 0), 0); /* stays active */
	lite_expect_container(t, &a);
	was = a;
	strcpy(a.host, "h1");
	a.epoch++;
	assert_int_equal(lite_set(t, &was, &a, STORE_IF_IDLE), -EBUSY);
	lite_expect_container(t, &was);
	assert_int_equal(lite_set(t, &was, &a, 0), 0);
	assert_false(a.active);
	lite_expect_container(t, &a);
	/* Of the old epoch, and of another host's: nothing to do. */
	assert_int_equal(LITE_CALL(t, container_active, "h0", a.id, 1, true, lite_done)->err, 0);
	lite_expect_container(t, &a);
	assert_int_equal(LITE_CALL(t, container_active, "h1", a.id, 2, true, lite_done)->err, 0);
	assert_int_equal(LITE_CALL(t, container_active, "h0", a.id, 2, false, lite_done)->err, 0);
	a.active = true;
	lite_expect_container(t, &a);
	assert_int_equal(lite_down(t, "h1", "1"), 0);
	a.active = false;
	lite_expect_container(t, &a);
}

/* ---- lists and mappings --------------------------------------------------------------------- */

static void test_maps(void **state)
{
	struct lite *t = *state;
	struct ffo_container a = lite_cont("a", "10.1.1.1"), b = lite_cont("b", "10.1.1.2"), was;
	struct store_map_id ids[] = { { 0, 3 }, { 0, 3 }, { 77, 3 } };
	struct lite_end *e;

	strcpy(b.host, "h1");
	assert_int_equal(lite_add(t, &a), 0);
	assert_int_equal(lite_add(t, &b), 0);
	assert_int_equal(lite_up(t, "h0", "1"), 0);
	assert_int_equal(lite_up(t, "h1", "1"), 0);
	for (uint32_t i = 1; i <= 4; i++) {
		assert_int_equal(lite_put_map(t, "h0", &a, UINT32_MAX - i, 1 + i % 2), 0);
		assert_int_equal(lite_put_map(t, "h1", &b, i, 1), 0);
	}
	assert_int_equal(lite_put_map(t, "h0", &a, UINT32_MAX - 4, 9), 0); /* changes it */
	e = lite_maps(t, 0, 0, 0, 64);
	assert_int_equal(e->n, 8);
	assert_int_equal(e->maps[0].rkey, UINT32_MAX - 4);
	assert_int_equal(e->maps[0].session, 9);
	assert_int_equal(e->maps[4].container, b.id);
	assert_true(e->maps[7].addr == UINT64_MAX - 4); /* all 64 bits */

	e = lite_maps(t, 0, a.id, UINT32_MAX - 2, 3); /* behind that one, 3 of them */
	assert_int_equal(e->n, 3);
	assert_true(e->more);
	assert_int_equal(e->maps[0].rkey, UINT32_MAX - 1);
	assert_int_equal(e->maps[2].rkey, 2);
	assert_int_equal(lite_maps(t, b.id, 0, 0, 64)->n, 4);
	assert_int_equal(lite_maps(t, b.id, a.id, 3, 64)->n, 4);
	assert_int_equal(lite_maps(t, b.id, b.id, 3, 64)->n, 1);
	assert_int_equal(lite_maps(t, a.id, b.id, 0, 64)->n, 0);

	ids[0].container = ids[1].container = b.id;
	assert_int_equal(LITE_CALL(t, map_del, "h1", ids, 3, lite_counted)->count, 1);
	/* Its session 1: one left. */
	assert_int_equal(LITE_CALL(t, map_drop, "h0", a.id, 0, 1, lite_done)->err, 0);
	assert_int_equal(lite_maps(t, b.id, 0, 0, 64)->n, 3);
	assert_int_equal(lite_maps(t, a.id, 0, 0, 64)->n, 3);
	assert_int_equal(LITE_CALL(t, map_drop, "h0", a.id, 7, 0, lite_done)->err,
			 0); /* another epoch */
	assert_int_equal(lite_maps(t, a.id, 0, 0, 64)->n, 3);

	assert_int_equal(lite_down(t, "h1", "1"), 0);
	assert_int_equal(lite_num_maps(t), 3);
	/* A move: they go, and none of the old epoch comes back. */
	was = a;
	strcpy(a.host, "h1");
	a.epoch++;
	assert_int_equal(lite_set(t, &was, &a, 0), 0);
	assert_int_equal(lite_num_maps(t), 0);
	assert_int_equal(lite_put_map(t, "h0", &was, 9, 1), 0);
	assert_int_equal(lite_num_maps(t), 0);
	assert_int_equal(lite_up(t, "h1", "1"), 0);
	assert_int_equal(lite_put_map(t, "h1", &a, 9, 1), 0);
	assert_int_equal(lite_num_maps(t), 1);
	assert_int_equal(lite_del(t, &a), 0);
	assert_int_equal(lite_num_maps(t), 0);
}

/* ---- watches -------------------------------------------------------------------------------- */

static void test_watch_ephemeral(void **state)
{
	struct lite *t = *state;
	struct ffo_container a = lite_cont("a", "10.1.1.1"), was;
	struct lite_seen host, map, group, policy, tenants;
	struct store_map_id id = { 1, 5 };
	struct ffo_map rows[4], row;
	struct ffo_rule rule;
	unsigned int calls;

	lite_watch(t, &host, STORE_HOST, "h0");
	lite_watch(t, &map, STORE_MAP, "");
	map.w.key.id = 1;
	map.w.key.epoch = 1;
	lite_watch(t, &group, STORE_MCAST, "blue");
	group.w.key.addr.s6_addr[0] = 0xff;
	lite_watch(t, &policy, STORE_POLICY, "");
	lite_watch(t, &tenants, STORE_TENANTS, "");
	lite_begin_watch(t, &host);
	lite_begin_watch(t, &map);
	lite_begin_watch(t, &group);
	lite_begin_watch(t, &policy);
	lite_begin_watch(t, &tenants);
	assert_true(host.none && map.reset && map.synced);
	assert_int_equal(store_sqlite.map_page(t->s, &map.w, 0, rows, 4), 0);

	assert_int_equal(lite_up(t, "h0", "1"), 0);
	assert_true(!host.none && host.up);
	assert_int_equal(lite_add(t, &a), 0);
	assert_int_equal(lite_put_map(t, "h0", &a, 5, 1), 0);
	assert_int_equal(map.last_rkey, 5);
	assert_false(map.reset);
	for (uint32_t i = 6; i < 11; i++)
		assert_int_equal(lite_put_map(t, "h0", &a, i, 1 + i % 2), 0);
	assert_int_equal(map.rkeys, 6);
	assert_int_equal(store_sqlite.map_page(t->s, &map.w, 0, rows, 4), 4);
	assert_int_equal(rows[3].rkey, 8);
	assert_int_equal(store_sqlite.map_page(t->s, &map.w, 8, rows, 4), 2);
	assert_int_equal(rows[1].rkey, 10);
	assert_int_equal(store_sqlite.map_row(t->s, &map.w, 5, &row), 0);
	assert_int_equal(row.rkey, 5);
	assert_int_equal(LITE_CALL(t, map_del, "h0", &id, 1, lite_counted)->count, 1);
	assert_int_equal(map.rkeys, 7);
	assert_int_equal(store_sqlite.map_row(t->s, &map.w, 5, &row), -ENOENT);

	assert_int_equal(
		LITE_CALL(t, mcast_member, "h0", "blue", &group.w.key.addr, true, lite_done)->err,
		0);
	assert_int_equal(group.hosts, 1);
	calls = group.calls;
	assert_int_equal(
		LITE_CALL(t, mcast_member, "h0", "red", &group.w.key.addr, true, lite_done)->err,
		0);
	assert_int_equal(group.calls, calls);
	assert_int_equal(ffo_rule_make(&rule, "red", "blue", true), 0);
	assert_int_equal(LITE_CALL(t, policy_set, &rule, lite_done)->err, 0);
	assert_int_equal(policy.rules, 1);
	assert_int_equal(tenants.tenants, 0);
	assert_int_equal(lite_set_tenant(t, "red", 1), 0);
	assert_int_equal(tenants.tenants, 1);
	assert_int_equal(lite_set_tenant(t, "red", 0), 0);
	assert_int_equal(tenants.tenants, 0);

	/* The host goes, and all that hung on it. */
	assert_int_equal(lite_down(t, "h0", "1"), 0);
	assert_true(!host.none && !host.up);
	assert_true(map.reset && map.synced);
	assert_int_equal(store_sqlite.map_page(t->s, &map.w, 0, rows, 4), 0);
	assert_int_equal(group.hosts, 0);

	/* The epoch ends: its rows are void, the next one's are not seen here. */
	assert_int_equal(lite_up(t, "h0", "1"), 0);
	assert_int_equal(lite_put_map(t, "h0", &a, 5, 1), 0);
	was = a;
	a.epoch++;
	strcpy(a.host, "h1");
	assert_int_equal(lite_set(t, &was, &a, 0), 0);
	assert_true(map.reset);
	assert_int_equal(lite_up(t, "h1", "1"), 0);
	assert_int_equal(lite_put_map(t, "h1", &a, 5, 1), 0);
	assert_int_equal(store_sqlite.map_page(t->s, &map.w, 0, rows, 4), 0);
	assert_int_equal(store_sqlite.map_row(t->s, &map.w, 5, &row), -ENOENT);
	store_sqlite.unwatch(t->s, &host.w);
	store_sqlite.unwatch(t->s, &map.w);
	store_sqlite.unwatch(t->s, &group.w);
	store_sqlite.unwatch(t->s, &policy.w);
	store_sqlite.unwatch(t->s, &tenants.w);
	assert_null(store_of(t->s)->topics.table);
}

/* All hosts of a group fit into one message. */
static void test_group_limit(void **state)
{
	struct lite *t = *state;
	struct in6_addr mgid = { { { 0xff, 0x0e } } };
	struct lite_end *e;
	char host[16];

	for (unsigned int i = 0; i < FFO_GROUP_MAX; i++) {
		snprintf(host, sizeof(host), "g%u", i);
		assert_int_equal(lite_up(t, host, "1"), 0);
		assert_int_equal(
			LITE_CALL(t, mcast_member, host, "blue", &mgid, true, lite_done)->err, 0);
	}
	assert_int_equal(lite_up(t, "more", "1"), 0);
	e = LITE_CALL(t, mcast_member, "more", "blue", &mgid, true, lite_done);
	assert_int_equal(e->err, -ENOSPC);
	assert_int_equal(LITE_CALL(t, mcast_member, "g7", "blue", &mgid, false, lite_done)->err, 0);
	assert_int_equal(LITE_CALL(t, mcast_member, "more", "blue", &mgid, true, lite_done)->err,
			 0);
}

int main(void)
{
	return UNIT_RUN(LITE_TEST(test_ephemeral_is_cheap), LITE_TEST(test_maps),
			LITE_TEST(test_active), LITE_TEST(test_watch_ephemeral),
			LITE_TEST(test_group_limit));
}
