/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/zk_two.c tests/rig/unit/zk_rig.c ffr/lib/log.c -lzookeeper_st */
/* timeout: 300 */
/*
 * test_container.c - containers on ZooKeeper and their conditions, of two stores on one tree.
 */
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/unit/zk_two.h"

static void containers_are_kept(void **state)
{
	struct two *t = *state;
	struct ffo_container c;
	struct store_key key = { .kind = STORE_ID, .id = 1 };

	assert_int_equal(two_add(&t->a, "web", "default", "h0", NULL), 0);
	c = two_end.c;
	assert_int_equal(c.id, 1);
	assert_int_equal(c.epoch, 1);
	assert_int_equal(c.num_ips, 2);
	assert_true(c.lid);
	assert_true(alloc_addr_ok(t->a.alloc, "default", &c.ip[0]));

	/* The other one sees it at once, by all its keys. */
	assert_int_equal(two_get(&t->b, "web"), 0);
	assert_true(ffo_container_same(&two_end.c, &c));
	assert_int_equal(TWO_CALL(&t->b, container_get, rig_container, &key), 0);
	assert_true(ffo_container_same(&two_end.c, &c));
	key = (struct store_key){ .kind = STORE_LID, .lid = c.lid };
	assert_int_equal(TWO_CALL(&t->b, container_get, rig_container, &key), 0);
	key = (struct store_key){ .kind = STORE_ADDR, .addr = c.ip[1], .name = "default" };
	assert_int_equal(TWO_CALL(&t->b, container_get, rig_container, &key), 0);
	assert_true(ffo_container_same(&two_end.c, &c));
	strcpy(key.name, "other");
	assert_int_equal(TWO_CALL(&t->b, container_get, rig_container, &key), -ENOENT);

	/* And who comes later. */
	rig_close(&t->a);
	rig_open(&t->a, t->root);
	assert_int_equal(two_get(&t->a, "web"), 0);
	assert_true(ffo_container_same(&two_end.c, &c));
}

static void what_is_taken(void **state)
{
	struct two *t = *state;

	assert_int_equal(two_add(&t->a, "web", "default", "h0", "10.9.0.1"), 0);
	assert_int_equal(two_add(&t->b, "web", "default", "h1", "10.9.0.2"), -EEXIST);
	assert_true(two_end.has_c);
	assert_string_equal(two_end.c.host, "h0");
	assert_int_equal(two_add(&t->b, "db", "default", "h1", "10.9.0.1"), -EADDRINUSE);
	assert_non_null(strstr(two_end.why, "10.9.0.1"));
	assert_string_equal(two_end.c.name, "web");
	assert_int_equal(two_add(&t->b, "db", "other", "h1", "10.9.0.1"), 0); /* its own space */
	assert_int_equal(two_get(&t->a, "db"), 0);
	assert_int_equal(two_get(&t->a, "none"), -ENOENT);
}

static char told_id[STORE_ID_MAX];
static uint32_t told_last;
static bool id_told;

static void identity_told(void *arg, int err, const char *why, const char *id, uint32_t last)
{
	(void)arg;
	(void)why;
	assert_int_equal(err, 0);
	told_last = last;
	snprintf(told_id, sizeof(told_id), "%s", id);
	id_told = true;
}

static void identity(struct rig_store *r, char *id)
{
	id_told = false;
	r->s->ops->identity(r->s, identity_told, NULL);
	WAIT_FOR(id_told);
	memcpy(id, told_id, STORE_ID_MAX);
}

static void each_tree_is_another_store(void **state)
{
	char a[STORE_ID_MAX], b[STORE_ID_MAX], root[144];
	struct ffo_container web;
	struct two *t = *state;

	identity(&t->a, a);
	assert_true(*a);
	identity(&t->b, b);
	assert_string_equal(a, b);
	assert_int_equal(told_last, 0);
	for (uint32_t i = 1; i < 4; i++) { /* those that are gone count, too */
		assert_int_equal(two_add(&t->a, "web", "default", "h0", NULL), 0);
		assert_int_equal(two_get(&t->a, "web"), 0);
		web = two_end.c;
		identity(&t->b, b);
		assert_int_equal(told_last, i);
		assert_int_equal(TWO_CALL(&t->a, container_del, rig_container, &web), 0);
	}
	rig_close(&t->b);
	snprintf(root, sizeof(root), "/another%s", t->root);
	rig_open(&t->b, root);
	identity(&t->b, b);
	assert_string_not_equal(a, b);
}

/* What a container had in a store that is lost. */
static void what_a_container_keeps(void **state)
{
	struct ffo_container c = { .id = 70,
				   .lid = 9,
				   .epoch = 4,
				   .num_ips = 1,
				   .name = "web",
				   .tenant = "default",
				   .host = "h0" };
	struct two *t = *state;

	c.ip[0] = two_addr("10.9.0.1");
	assert_int_equal(TWO_CALL(&t->a, container_add, rig_container, &c), 0);
	assert_true(ffo_container_same(&two_end.c, &c));
	assert_int_equal(two_get(&t->b, "web"), 0);
	assert_true(ffo_container_same(&two_end.c, &c));
	c.ip[0] = two_addr("10.9.0.2");
	assert_int_equal(TWO_CALL(&t->b, container_add, rig_container, &c), -EEXIST);
	assert_non_null(strstr(two_end.why, "id 70"));
	c.id = 71;
	assert_int_equal(TWO_CALL(&t->b, container_add, rig_container, &c), -EEXIST);
	strcpy(c.name, "db");
	assert_int_equal(TWO_CALL(&t->b, container_add, rig_container, &c), -EEXIST);
	assert_non_null(strstr(two_end.why, "LID 9"));
	c.lid = 10;
	c.ip[0] = two_addr("10.9.0.1");
	assert_int_equal(TWO_CALL(&t->b, container_add, rig_container, &c), -EADDRINUSE);
	assert_int_equal(two_get(&t->a, "db"), -ENOENT);
}

static void pools_run_out(void **state)
{
	struct two *t = *state;
	struct in6_addr seen[5];
	char name[16];

	/* .2 to .6: five hosts; both give out, at the same time. */
	for (int i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "c%d", i);
		assert_int_equal(two_add(i % 2 ? &t->a : &t->b, name, "small", "h0", NULL), 0);
		seen[i] = two_end.c.ip[0];
		for (int k = 0; k < i; k++)
			assert_memory_not_equal(&seen[k], &seen[i], sizeof(seen[i]));
	}
	assert_int_equal(two_add(&t->a, "c5", "small", "h0", NULL), -ENOSPC);
	assert_non_null(strstr(two_end.why, "small"));
	assert_int_equal(two_add(&t->a, "d", "default", "h0", NULL), 0);

	/* What is given back is found again. */
	assert_int_equal(two_get(&t->a, "c2"), 0);
	struct ffo_container c = two_end.c;
	assert_int_equal(TWO_CALL(&t->b, container_del, rig_container, &c), 0);
	assert_int_equal(two_add(&t->a, "c5", "small", "h0", NULL), 0);
	assert_memory_equal(&two_end.c.ip[0], &c.ip[0], sizeof(c.ip[0]));
	assert_true(two_end.c.id > c.id); /* ids are not used again */
}

/* Both add at once, without waiting: all succeed, ids, LIDs and addresses are different. */
static void adding_at_once(void **state)
{
	static struct rig_end ends[24];
	struct two *t = *state;

	memset(ends, 0, sizeof(ends));
	for (int i = 0; i < 24; i++) {
		struct rig_store *r = i % 2 ? &t->a : &t->b;
		struct ffo_container c = { .tenant = "default", .host = "h0" };

		snprintf(c.name, sizeof(c.name), "c%d", i);
		r->s->ops->container_add(r->s, &c, rig_container, &ends[i]);
	}
	for (int i = 0; i < 24; i++) {
		WAIT_FOR(ends[i].done);
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
	struct two *t = *state;
	struct ffo_container was, now;

	two_add(&t->a, "web", "default", "h0", "10.9.0.1");
	assert_int_equal(two_get(&t->b, "web"), 0);
	was = now = two_end.c;
	strcpy(now.host, "h1");
	now.epoch++;
	now.ip[0] = two_addr("10.9.0.7");
	assert_int_equal(TWO_CALL(&t->b, container_set, rig_container, &was, &now, 0), 0);
	assert_true(two_end.c.version > was.version);
	assert_int_equal(two_get(&t->a, "web"), 0);
	assert_string_equal(two_end.c.host, "h1");
	assert_int_equal(two_end.c.epoch, 2);

	/* Under what is not so any more nothing changes. */
	assert_int_equal(TWO_CALL(&t->a, container_set, rig_container, &was, &now, 0), -EAGAIN);
	assert_int_equal(two_end.c.epoch, 2);
	assert_int_equal(TWO_CALL(&t->a, container_del, rig_container, &was), -EAGAIN);
	/* The old address is free, the new one is not. */
	assert_int_equal(two_add(&t->a, "x", "default", "h0", "10.9.0.7"), -EADDRINUSE);
	assert_int_equal(two_add(&t->a, "x", "default", "h0", "10.9.0.1"), 0);
	two_get(&t->a, "x");
	was = now = two_end.c;
	now.ip[0] = two_addr("10.9.0.7");
	assert_int_equal(TWO_CALL(&t->a, container_set, rig_container, &was, &now, 0), -EADDRINUSE);

	/* Lists by host follow. */
	assert_int_equal(TWO_CALL(&t->a, container_list, rig_containers, "h1", 0, 10), 0);
	assert_int_equal(two_end.count, 1);
	assert_string_equal(two_end.list[0].name, "web");
	assert_int_equal(TWO_CALL(&t->a, container_list, rig_containers, NULL, 0, 1), 0);
	assert_int_equal(two_end.count, 1);
	assert_true(two_end.more);
	uint32_t after = two_end.list[0].id;
	assert_int_equal(TWO_CALL(&t->a, container_list, rig_containers, NULL, after, 10), 0);
	assert_int_equal(two_end.count, 1);
	assert_false(two_end.more);

	two_get(&t->a, "web");
	was = two_end.c;
	assert_int_equal(TWO_CALL(&t->a, container_del, rig_container, &was), 0);
	assert_int_equal(TWO_CALL(&t->b, container_del, rig_container, &was), -ENOENT);
	assert_int_equal(two_get(&t->b, "web"), -ENOENT);
}

static void active_ones_stay(void **state)
{
	struct two *t = *state;
	struct ffo_container was, now;

	two_host_up(&t->a, "h0", "i0");
	two_add(&t->a, "web", "default", "h0", NULL);
	assert_int_equal(TWO_CALL(&t->a, container_active, rig_done, "h0", 1, 1, true), 0);
	two_get(&t->b, "web");
	assert_true(two_end.c.active);
	was = now = two_end.c;
	strcpy(now.host, "h1");
	now.epoch++;
	assert_int_equal(TWO_CALL(&t->b, container_set, rig_container, &was, &now, STORE_IF_IDLE),
			 -EBUSY);
	assert_int_equal(TWO_CALL(&t->b, container_set, rig_container, &was, &now, 0), 0);
	assert_false(two_end.c.active); /* in its new epoch it is not */
	assert_int_equal(TWO_CALL(&t->a, container_active, rig_done, "h0", 1, 1, false), 0);
	was = now = two_end.c;
	two_get(&t->b, "web");
	was = now = two_end.c;
	strcpy(now.host, "h0");
	now.epoch++;
	assert_int_equal(TWO_CALL(&t->b, container_set, rig_container, &was, &now, STORE_IF_IDLE),
			 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TWO_TEST(containers_are_kept),
		TWO_TEST(what_is_taken),
		TWO_TEST(each_tree_is_another_store),
		TWO_TEST(what_a_container_keeps),
		TWO_TEST(pools_run_out),
		TWO_TEST(adding_at_once),
		TWO_TEST(moving),
		TWO_TEST(active_ones_stay),
	};

	return two_run(tests);
}
