/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/ffo_rig.c ffr/lib/log.c */
/*
 * test_owned.c - what a router is told of its host's own containers.
 */
#include <errno.h>
#include <string.h>

#include "tests/rig/unit/ffo_rig.h"
#include "tests/rig/unit/unit.h"

static void expect_owned(struct test *t, int i, const char *kind, const char *name, uint32_t epoch)
{
	json_t *msg = event(t, i, kind);
	struct ffo_container c;

	if (strcmp(kind, "attach")) {
		assert_string_equal(json_string_value(json_object_get(msg, "name")), name);
		json_decref(msg);
		return;
	}
	c = container(msg);
	assert_string_equal(c.name, name);
	assert_int_equal(c.epoch, epoch);
}

static void test_owned(void **state)
{
	struct test *t = *state;

	router(t, 0);
	json_decref(ask_ok(t, 0, "'container_add','name':'first','host':'h1'"));
	router(t, 1); /* lists it */
	hello(t, 2);
	json_decref(ask_ok(t, 0, "'container_add','name':'own'"));
	expect_silence(t, 0);
	json_decref(ask_ok(t, 0, "'container_set','name':'own','mode':'spin'"));
	assert_int_equal(json_array_size(t->events[0]), 1); /* the event came before the answer */
	expect_owned(t, 0, "attach", "own", 1);
	json_decref(ask_ok(t, 0, "'container_set','name':'own','mode':'spin'")); /* no change */
	json_decref(ask_ok(t, 0, "'container_rm','name':'own'"));
	expect_silence(t, 0);
	expect_silence(t, 1);

	json_decref(ask_ok(t, 2, "'container_add','name':'a','host':'h0'"));
	expect_owned(t, 0, "attach", "a", 1);
	json_decref(ask_ok(t, 2, "'container_set','name':'a','mode':'spin'"));
	expect_owned(t, 0, "attach", "a", 1);
	json_decref(ask_ok(t, 2, "'container_set','name':'a','host':'h1'"));
	expect_owned(t, 0, "detach", "a", 0);
	expect_owned(t, 1, "attach", "a", 2);
	/* There and back before anybody was told: detached, and attached with the new epoch. */
	send_str(t, 2,
		 "{\"id\":1,\"op\":\"container_set\",\"name\":\"a\",\"host\":\"h0\"}\n"
		 "{\"id\":2,\"op\":\"container_set\",\"name\":\"a\",\"host\":\"h1\"}\n");
	json_decref(receive(t, 2));
	json_decref(receive(t, 2));
	expect_owned(t, 1, "detach", "a", 0);
	expect_owned(t, 1, "attach", "a", 4);
	json_decref(ask_ok(t, 2, "'container_rm','name':'a'"));
	expect_owned(t, 1, "detach", "a", 0);
	json_decref(ask_ok(t, 1, "'container_set','name':'first','host':'h0'"));
	expect_owned(t, 1, "detach", "first", 0); /* whoever asked for that */
	expect_owned(t, 0, "attach", "first", 2);
	expect_silence(t, 0);
	expect_silence(t, 1);
}

/* Client 0 asks for that. The store has told its watchers, and tells its caller by release(). */
static void ask_held(struct test *t, const char *line)
{
	faulty->hold = true;
	send_str(t, 0, line);
	while (!faulty->held)
		uv_run(&t->loop, UV_RUN_ONCE);
}

/* The router hears of a change once, whether the store tells its watchers or its caller first. */
static void test_owned_once(void **state)
{
	struct test *t = *state;

	router(t, 0);
	/* the event about a new container waits to be sent when the answer tells of it */
	ask_held(t, "{\"id\":7,\"op\":\"container_add\",\"name\":\"a\"}\n");
	release(0);
	json_decref(receive(t, 0));
	expect_silence(t, 0);
	/* the event about a change waits: it is sent, and then the answer */
	ask_held(t, "{\"id\":7,\"op\":\"container_set\",\"name\":\"a\",\"mode\":\"spin\"}\n");
	release(0);
	json_decref(receive(t, 0));
	assert_int_equal(json_array_size(t->events[0]), 1);
	expect_owned(t, 0, "attach", "a", 1);
	expect_silence(t, 0);
	/* the event was sent before */
	ask_held(t, "{\"id\":7,\"op\":\"container_set\",\"name\":\"a\",\"mode\":\"socket\"}\n");
	expect_owned(t, 0, "attach", "a", 1);
	release(0);
	json_decref(receive(t, 0));
	expect_silence(t, 0);
}

/* It has left, and its router has not heard of that yet: it is not the router's any more. */
static void test_owned_left(void **state)
{
	static const uint32_t one = 1;
	static const struct store_news gone = { .owned = { .del = &one, .num_del = 1 },
						.synced = true };
	struct test *t = *state;
	struct conn *c;

	router(t, 0);
	json_decref(ask_ok(t, 0, "'container_add','name':'a'"));
	c = LIST_FIRST(&t->ffo->conns);
	assert_non_null(owned_find(c, 1));
	c->owned_watch.cb(c->owned_watch.arg, &gone);
	assert_null(owned_find(c, 1));
	expect_owned(t, 0, "detach", "a", 0);
}

/* It has left and come back before its router heard of that: what was published before is gone. */
static void test_owned_epoch(void **state)
{
	struct store_news back = { .owned = { .num_put = 1 }, .synced = true };
	struct test *t = *state;
	struct ffo_container c;
	struct conn *conn;

	router(t, 0);
	c = container(ask_ok(t, 0, "'container_add','name':'a'"));
	json_decref(ask_ok(t, 0, "'map_publish','maps':[[%u,5,1,0,4096,7,0,5,1]]", c.id));
	assert_int_equal(count(ask_ok(t, 0, "'map_list'"), "maps"), 1);
	conn = LIST_FIRST(&t->ffo->conns);
	c.epoch += 2;
	back.owned.put = &c;
	conn->owned_watch.cb(conn->owned_watch.arg, &back);
	expect_owned(t, 0, "detach", "a", 0);
	expect_owned(t, 0, "attach", "a", 3);
	assert_int_equal(count(ask_ok(t, 0, "'map_list'"), "maps"), 0);
}

/* What the store tells anew, after it was away, lacks a container: its router is told. */
static void test_owned_missing(void **state)
{
	static const struct store_news none = { .reset = true, .synced = true };
	struct test *t = *state;
	struct conn *c;

	router(t, 0);
	json_decref(ask_ok(t, 0, "'container_add','name':'a'"));
	c = LIST_FIRST(&t->ffo->conns);
	c->owned_watch.cb(c->owned_watch.arg, &none);
	expect_owned(t, 0, "detach", "a", 0);
}

static void test_active(void **state)
{
	struct test *t = *state;
	struct ffo_container c;

	router(t, 0);
	router(t, 1);
	c = container(ask_ok(t, 0, "'container_add','name':'a'"));
	json_decref(ask_ok(t, 0, "'container_active','container':%u,'active':1", c.id));
	c = container(ask_ok(t, 1, "'container_get','name':'a'"));
	assert_true(c.active);
	ask_err(t, 1, "EBUSY", "'container_set','name':'a','host':'h1'");
	json_decref(ask_ok(t, 1, "'container_set','name':'a','mode':'spin'"));
	expect_owned(t, 0, "attach", "a", 1);
	json_decref(ask_ok(t, 0, "'container_active','container':%u,'active':0", c.id));
	c = container(ask_ok(t, 1, "'container_set','name':'a','host':'h1'"));
	assert_int_equal(c.epoch, 2);
	expect_owned(t, 0, "detach", "a", 0);
	ask_err(t, 0, "ENOENT", "'container_active','container':%u,'active':1", c.id);
	ask_err(t, 1, "EINVAL", "'container_active','container':%u,'active':2", c.id);
	json_decref(ask_ok(t, 1, "'container_active','container':%u,'active':1", c.id));
	c = container(ask_ok(t, 0, "'container_set','name':'a','host':'h0','force':1"));
	assert_false(c.active);
	json_decref(ask_ok(t, 0, "'container_active','container':%u,'active':1", c.id));
	ask_err(t, 1, "EBUSY", "'container_set','name':'a','host':'h1'");
	router_leaves(t, 0);
	c = container(ask_ok(t, 1, "'container_set','name':'a','host':'h1'"));
	assert_int_equal(c.epoch, 4);
}

int main(void)
{
	return UNIT_RUN(FFO_T(test_owned), FFO_T(test_owned_once), FFO_T(test_owned_left),
			FFO_T(test_owned_epoch), FFO_T(test_owned_missing), FFO_T(test_active));
}
