/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/zk_two.c tests/rig/unit/zk_rig.c ffr/lib/log.c -lzookeeper_st */
/* timeout: 300 */
/*
 * test_topic.c - who is told of what: mappings, names, the policy, tenants, groups.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/unit/zk_two.h"

/* ---- mappings ------------------------------------------------------------------------------- */

static void mappings_are_told(void **state)
{
	struct two *t = *state;
	struct store_map_id ids[2] = { { 1, 5 }, { 1, 99999 } };
	struct two_watched w = { 0 }, late = { 0 };

	two_host_up(&t->a, "h0", "i0");
	two_add(&t->a, "web", "default", "h0", NULL);
	w.w.key.id = w.w.key.epoch = 1;
	two_watch(&t->b, &w, STORE_MAP, "h0");
	WAIT_FOR(w.synced);
	assert_int_equal(two_rows_of(&w), 0);

	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(two_put_maps(&t->a, "h0", 1, 1 + i * 1000, 1000), 0);
	WAIT_FOR(two_rows_of(&w) == 3000);
	assert_int_equal(w.resets, 1);

	/* Withdrawn, changed, dropped by session. */
	assert_int_equal(TWO_CALL(&t->a, map_del, rig_counted, "h0", ids, 2), 0);
	assert_int_equal(two_end.count, 1);
	WAIT_FOR(two_rows_of(&w) == 2999);
	two_watch(&t->b, &late, STORE_MAP, "h0");
	two_unwatch(&late);
	assert_int_equal(TWO_CALL(&t->a, map_list, rig_maps, 0, 1, 0, 1000), 0);
	assert_int_equal(two_end.count, 1000);
	assert_true(two_end.more);
	assert_int_equal(two_end.maps[0].rkey, 1);
	assert_int_equal(TWO_CALL(&t->b, map_list, rig_maps, 1, 1, 2500, 1000), 0);
	assert_int_equal(two_end.count, 500);
	assert_false(two_end.more);
	assert_int_equal(TWO_CALL(&t->a, map_drop, rig_done, "h0", 1, 0, 1), 0); /* the even ones */
	WAIT_FOR(two_rows_of(&w) == 1499);
	assert_int_equal(TWO_CALL(&t->a, map_drop, rig_done, "h0", 1, 1, 0), 0);
	WAIT_FOR(two_rows_of(&w) == 0);

	/* Another epoch's are nobody's. */
	struct ffo_map other = two_map_of(1, 7);
	other.epoch = 2;
	assert_int_equal(TWO_CALL(&t->a, map_put, rig_done, "h0", &other, 1), 0);
	assert_int_equal(two_put_maps(&t->a, "h0", 1, 1, 1), 0);
	WAIT_FOR(two_rows_of(&w) == 1);
	assert_int_equal(two_host_down(&t->a, "h0", "i0"), 0);
	WAIT_FOR(two_rows_of(&w) == 0);
	assert_int_equal(two_put_maps(&t->a, "h0", 1, 1, 1), -ESHUTDOWN);
	two_unwatch(&w);
}

/* Rows come and go at random; in the end both sides have the same. */
static void mappings_churn(void **state)
{
	struct two *t = *state;
	struct two_watched w = { 0 };
	static bool have[4000];
	size_t want = 0;

	srand(1);
	memset(have, 0, sizeof(have));
	two_host_up(&t->a, "h0", "i0");
	two_add(&t->a, "web", "default", "h0", NULL);
	w.w.key.id = w.w.key.epoch = 1;
	two_watch(&t->b, &w, STORE_MAP, "h0");
	for (int round = 0; round < 60; round++) {
		struct store_map_id ids[200];
		struct ffo_map maps[200];
		size_t n = 1 + (size_t)rand() % 200;
		bool put = rand() % 2;

		for (size_t i = 0; i < n; i++) {
			uint32_t rkey = 1 + (uint32_t)rand() % 3999;

			maps[i] = two_map_of(1, rkey);
			ids[i] = (struct store_map_id){ 1, rkey };
			have[rkey] = put;
		}
		if (put)
			assert_int_equal(TWO_CALL(&t->a, map_put, rig_done, "h0", maps, n), 0);
		else
			assert_int_equal(TWO_CALL(&t->a, map_del, rig_counted, "h0", ids, n), 0);
	}
	for (int i = 0; i < 4000; i++)
		want += have[i];
	WAIT_FOR(w.synced && two_rows_of(&w) == want);
	for (uint32_t i = 1; i < 4000; i++) {
		struct ffo_map row;

		assert_int_equal(t->b.s->ops->map_row(t->b.s, &w.w, i, &row),
				 have[i] ? 0 : -ENOENT);
	}
	two_unwatch(&w);
}

/* ---- other watches -------------------------------------------------------------------------- */

static void answers_follow(void **state)
{
	struct two *t = *state;
	struct two_watched by_ip = { 0 }, by_lid = { 0 }, owned = { 0 }, again = { 0 };
	struct ffo_container was, now;

	by_ip.w.key.addr = two_addr("10.9.0.1");
	by_lid.w.key.lid = 1;
	two_watch(&t->b, &by_ip, STORE_ADDR, "default");
	two_watch(&t->b, &by_lid, STORE_LID, "");
	two_watch(&t->b, &owned, STORE_OWNED, "h0");
	WAIT_FOR(by_ip.told && by_lid.told && owned.synced);
	assert_false(by_ip.there);
	assert_false(by_lid.there);

	two_add(&t->a, "web", "default", "h0", "10.9.0.1");
	WAIT_FOR(by_ip.there && by_lid.there && owned.n == 1);
	assert_string_equal(by_ip.c.name, "web");
	again.w.key = by_ip.w.key;
	two_watch(&t->b, &again, STORE_ADDR, "default"); /* known: told at once */
	assert_true(again.there);
	two_unwatch(&by_ip);

	two_get(&t->a, "web");
	was = now = two_end.c;
	strcpy(now.host, "h1");
	now.epoch = 2;
	TWO_CALL(&t->a, container_set, rig_container, &was, &now, 0);
	WAIT_FOR(again.c.epoch == 2 && by_lid.c.epoch == 2 && owned.n == 0);
	two_add(&t->a, "db", "default", "h0", NULL);
	WAIT_FOR(owned.n == 1);
	two_get(&t->a, "web");
	was = two_end.c;
	TWO_CALL(&t->a, container_del, rig_container, &was);
	WAIT_FOR(!again.there && !by_lid.there);
	two_unwatch(&again);
	two_unwatch(&by_lid);
	two_unwatch(&owned);
	WAIT_FOR(follow_count(zks_of(t->b.s)) == 0);
}

static void policy_is_shared(void **state)
{
	struct two *t = *state;
	struct two_watched w = { 0 };
	struct ffo_rule r;

	two_watch(&t->b, &w, STORE_POLICY, "");
	WAIT_FOR(w.told);
	assert_int_equal(w.n, 0);
	ffo_rule_make(&r, "red", "blue", true);
	assert_int_equal(TWO_CALL(&t->a, policy_set, rig_done, &r), 0);
	ffo_rule_make(&r, "red/web", "blue", false);
	assert_int_equal(TWO_CALL(&t->b, policy_set, rig_done, &r), 0);
	WAIT_FOR(w.n == 2);
	assert_int_equal(TWO_CALL(&t->a, policy_rm, rig_done, &r), 0);
	assert_int_equal(TWO_CALL(&t->a, policy_rm, rig_done, &r), -ENOENT);
	WAIT_FOR(w.n == 1);
	two_unwatch(&w);
}

/* The node of the limits is made with the first. */
static void tenants_are_shared(void **state)
{
	struct ffo_limits_change c = { .set = 1u << FFO_LIMIT_NR_max_qp, .to.max_qp = 7 };
	struct two_watched w = { 0 };
	struct two *t = *state;

	two_watch(&t->b, &w, STORE_TENANTS, "");
	WAIT_FOR(w.told);
	assert_int_equal(w.n, 0);
	assert_int_equal(TWO_CALL(&t->a, tenant_set, rig_done, "red", &c), 0);
	WAIT_FOR(w.n == 1);
	assert_int_equal(TWO_CALL(&t->b, tenant_set, rig_done, "blue", &c), 0);
	WAIT_FOR(w.n == 2);
	c.to.max_qp = 0;
	assert_int_equal(TWO_CALL(&t->a, tenant_set, rig_done, "red", &c), 0);
	WAIT_FOR(w.n == 1);
	two_write_raw(&t->a, "/tenants", "1{\"tenants\":[7]}", 16);
	WAIT_FOR(w.err == -EBADMSG);
	assert_int_equal(TWO_CALL(&t->a, tenant_set, rig_done, "red", &c), -EBADMSG);
	two_unwatch(&w);
}

static void groups_have_hosts(void **state)
{
	struct in6_addr mgid;
	struct two *t = *state;
	struct two_watched w = { 0 };

	inet_pton(AF_INET6, "ff12::5", &mgid);
	w.w.key.addr = mgid;
	two_watch(&t->b, &w, STORE_MCAST, "default");
	WAIT_FOR(w.told);
	two_host_up(&t->a, "h0", "i0");
	two_host_up(&t->b, "h1", "i1");
	assert_int_equal(TWO_CALL(&t->a, mcast_member, rig_done, "h0", "default", &mgid, true), 0);
	assert_int_equal(TWO_CALL(&t->a, mcast_member, rig_done, "h0", "default", &mgid, true), 0);
	assert_int_equal(TWO_CALL(&t->b, mcast_member, rig_done, "h1", "default", &mgid, true), 0);
	WAIT_FOR(w.n == 2);
	assert_string_equal(w.hosts[0].wire, "tcp:10.0.0.1:7471");
	assert_true(w.hosts[0].up);
	assert_int_equal(TWO_CALL(&t->a, mcast_member, rig_done, "h0", "default", &mgid, false), 0);
	WAIT_FOR(w.n == 1);
	two_host_down(&t->b, "h1", "i1");
	WAIT_FOR(w.n == 0);
	two_unwatch(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TWO_TEST(mappings_are_told),  TWO_TEST(mappings_churn),
		TWO_TEST(answers_follow),     TWO_TEST(policy_is_shared),
		TWO_TEST(tenants_are_shared), TWO_TEST(groups_have_hosts),
	};

	return two_run(tests);
}
