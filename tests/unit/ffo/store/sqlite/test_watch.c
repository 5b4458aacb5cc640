/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/sqlite_rig.c ffr/lib/log.c -Wl,--wrap=sqlite3_step */
/*
 * test_watch.c - who is told of changes, of which, and of failures.
 */
#include <stdio.h>
#include <string.h>

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

static void test_watch_policy(void **state)
{
	struct lite *t = *state;
	struct lite_seen seen;
	struct ffo_rule rule;

	lite_watch(t, &seen, STORE_POLICY, "");
	lite_begin_watch(t, &seen);
	assert_int_equal(ffo_rule_make(&rule, "red", "blue", true), 0);
	assert_int_equal(LITE_CALL(t, policy_set, &rule, lite_done)->err, 0);
	assert_int_equal(seen.rules, 1);
	assert_int_equal(LITE_CALL(t, policy_rm, &rule, lite_done)->err, 0);
	assert_int_equal(seen.rules, 0);
	assert_int_equal(seen.calls, 3);
	store_sqlite.unwatch(t->s, &seen.w);
}

/* A host has more containers than one page of the store's. */
static void test_watch_many_owned(void **state)
{
	struct lite *t = *state;
	struct lite_seen seen;
	char name[16], ip[24];
	struct ffo_container c;

	for (unsigned int i = 1; i <= FFO_PAGE_MAX + 44; i++) {
		snprintf(name, sizeof(name), "c%u", i);
		snprintf(ip, sizeof(ip), "10.8.%u.%u", i / 200, 1 + i % 200);
		c = lite_cont(name, ip);
		assert_int_equal(lite_add(t, &c), 0);
	}
	lite_watch(t, &seen, STORE_OWNED, "h0");
	store_sqlite.watch(t->s, &seen.w);
	assert_true(seen.synced);
	assert_int_equal(seen.puts, FFO_PAGE_MAX + 44);
	store_sqlite.unwatch(t->s, &seen.w);
}

static struct {
	struct lite *t;
	unsigned int policies, tenants;
	bool is_inside; /* the policy's callback has not returned */
} nested;

static void policy_came(void *arg, const struct store_news *news)
{
	(void)arg, (void)news;
	if (!nested.policies++)
		return;
	nested.is_inside = true;
	assert_int_equal(lite_set_tenant(nested.t, "red", 7), 0);
	nested.is_inside = false;
}

static void tenants_came(void *arg, const struct store_news *news)
{
	(void)arg, (void)news;
	assert_false(nested.is_inside);
	nested.tenants++;
}

/* What a callback changes is told when it has returned. */
static void test_change_in_callback(void **state)
{
	struct store_watch policy = { .key.kind = STORE_POLICY, .cb = policy_came },
			   tenants = { .key.kind = STORE_TENANTS, .cb = tenants_came };
	struct ffo_rule rule;

	memset(&nested, 0, sizeof(nested));
	nested.t = *state;
	store_sqlite.watch(nested.t->s, &policy);
	store_sqlite.watch(nested.t->s, &tenants);
	assert_int_equal(nested.tenants, 1);
	assert_int_equal(ffo_rule_make(&rule, "red", "blue", true), 0);
	assert_int_equal(LITE_CALL(nested.t, policy_set, &rule, lite_done)->err, 0);
	assert_int_equal(nested.tenants, 2);
	store_sqlite.unwatch(nested.t->s, &policy);
	store_sqlite.unwatch(nested.t->s, &tenants);
}

int main(void)
{
	return UNIT_RUN(LITE_TEST(test_watch_container), LITE_TEST(test_unwatch_in_callback),
			LITE_TEST(test_watch_failure), LITE_TEST(test_watch_policy),
			LITE_TEST(test_watch_many_owned), LITE_TEST(test_change_in_callback));
}
