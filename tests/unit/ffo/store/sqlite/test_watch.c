/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/sqlite_rig.c ffr/lib/log.c -Wl,--wrap=sqlite3_step */
/*
 * test_watch.c - who is told of changes, of which, and of failures.
 */
#include "tests/rig/unit/sqlite_rig.h"
#include "tests/rig/unit/unit.h"

static void test_watch_container(void **state)
{
	struct lite *t = *state;
	struct ffo_container a = lite_cont("a", "10.1.1.1"), was;
	struct lite_seen addr, lid, name, id, h0, h1, other;

	lite_watch(t, &addr, STORE_ADDR, "blue");
	addr.w.key.addr = a.ip[0];
	lite_watch(t, &other, STORE_ADDR, "red");
	other.w.key.addr = a.ip[0];
	lite_watch(t, &name, STORE_NAME, "a");
	lite_watch(t, &lid, STORE_LID, "");
	lid.w.key.lid = 1;
	lite_watch(t, &id, STORE_ID, "");
	id.w.key.id = 1;
	lite_watch(t, &h0, STORE_OWNED, "h0");
	lite_watch(t, &h1, STORE_OWNED, "h1");
	struct lite_seen *all[] = { &addr, &lid, &name, &id };

	lite_begin_watch(t, &h0);
	assert_true(h0.reset && h0.synced && !h0.puts);
	lite_begin_watch(t, &h1);
	lite_begin_watch(t, &other);
	for (int i = 0; i < 4; i++) {
		lite_begin_watch(t, all[i]);
		assert_true(all[i]->none);
	}
	assert_int_equal(lite_add(t, &a), 0);
	assert_int_equal(h0.puts, 1);
	assert_int_equal(h1.calls, 1);
	for (int i = 0; i < 4; i++) {
		assert_false(all[i]->none);
		assert_memory_equal(&all[i]->c, &a, sizeof(a));
	}
	was = a;
	strcpy(a.host, "h1");
	a.epoch++;
	assert_int_equal(lite_set(t, &was, &a, 0), 0);
	assert_int_equal(h0.dels, 1);
	assert_int_equal(h1.puts, 1);
	for (int i = 0; i < 4; i++)
		assert_int_equal(all[i]->c.epoch, 2);
	/* The address goes: who watches it knows, the others still have it. */
	was = a;
	assert_int_equal(ffo_addr_parse("10.1.1.2", &a.ip[0]), 0);
	assert_int_equal(lite_set(t, &was, &a, 0), 0);
	assert_true(addr.none);
	assert_false(name.none);
	assert_int_equal(lite_del(t, &a), 0);
	assert_true(lid.none && name.none && id.none);
	assert_int_equal(h1.dels, 1);
	assert_int_equal(other.calls, 1);
	for (int i = 0; i < 4; i++)
		store_sqlite.unwatch(t->s, &all[i]->w);
	store_sqlite.unwatch(t->s, &h0.w);
	store_sqlite.unwatch(t->s, &h1.w);
	store_sqlite.unwatch(t->s, &other.w);
}

/* A callback ends its own watch and another one of the same key: no more news for either. */
static void test_unwatch_in_callback(void **state)
{
	struct ffo_container a = lite_cont("a", "10.1.1.1");
	struct lite *t = *state;
	struct lite_seen v[3];

	for (int i = 0; i < 3; i++) {
		lite_watch(t, &v[i], STORE_NAME, "a");
		lite_begin_watch(t, &v[i]);
	}
	v[2].ends = &v[0];
	assert_int_equal(lite_add(t, &a), 0);
	assert_int_equal(lite_del(t, &a), 0);
	assert_int_equal(v[2].calls, 2);
	assert_true(v[0].calls <= 2);
	assert_int_equal(v[1].calls, 3);
	store_sqlite.unwatch(t->s, &v[1].w);
}

/* A change that does not take place is not told. */
static void test_watch_failure(void **state)
{
	struct ffo_container a = lite_cont("a", "10.1.1.1");
	struct lite *t = *state;
	struct lite_seen v;

	lite_watch(t, &v, STORE_NAME, "a");
	lite_begin_watch(t, &v);
	lite_fail_with = SQLITE_IOERR;
	for (unsigned int n = 1;; n++) {
		lite_fail_at = n;
		if (!lite_add(t, &a))
			break;
		assert_int_equal(lite_fail_at, 0);
		assert_int_equal(v.calls, 1);
	}
	lite_fail_at = 0;
	assert_int_equal(v.calls, 2); /* that reading it failed */
	store_sqlite.unwatch(t->s, &v.w);
}

int main(void)
{
	return UNIT_RUN(LITE_TEST(test_watch_container), LITE_TEST(test_unwatch_in_callback),
			LITE_TEST(test_watch_failure));
}
