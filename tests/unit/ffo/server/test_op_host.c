/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/ffo_rig.c ffr/lib/log.c */
/*
 * test_op_host.c - hosts, and their routers that come again.
 */
#include <errno.h>
#include <unistd.h>

#include "tests/rig/unit/ffo_rig.h"
#include "tests/rig/unit/unit.h"

static void test_hosts(void **state)
{
	struct test *t = *state;
	struct ffo_container c;
	json_t *msg;

	router(t, 0);
	router(t, 1);
	hello(t, 2);
	ask_err(t, 0, "EINVAL", "'host_register','host':'h7'"); /* is h0 already */
	ask_err(t, 2, "EEXIST", "'host_register','host':'h0'"); /* two hosts with one name */
	ask_err(t, 2, "EEXIST", "'host_register','host':'h0','instance':'x'");
	c = container(ask_ok(t, 0, "'container_add','name':'a'"));
	json_decref(ask_ok(t, 0, "'map_publish','maps':[[%u,5,1,0,4096,7,0,5,1]]", c.id));
	c = container(ask_ok(t, 1, "'container_add','name':'b'"));
	json_decref(ask_ok(t, 1, "'map_publish','maps':[[%u,5,1,0,4096,7,0,5,1]]", c.id));
	assert_int_equal(count(ask_ok(t, 2, "'map_list'"), "maps"), 2);
	expect_host(t, 2, "h0", true);
	msg = ask_ok(t, 2, "'host_list','limit':1");
	assert_string_equal(json_string_value(json_object_get(msg, "next")), "h0");
	assert_int_equal(count(msg, "hosts"), 1);
	assert_int_equal(count(ask_ok(t, 2, "'host_list','after':'h0'"), "hosts"), 1);

	/* A host that leaves: its mappings go, its containers and the others' mappings stay. */
	close(t->fd[0]);
	t->fd[0] = -1;
	wait_conns(t, 2);
	assert_int_equal(count(ask_ok(t, 2, "'map_list'"), "maps"), 1);
	assert_int_equal(count(ask_ok(t, 2, "'container_list'"), "containers"), 2);
	expect_host(t, 2, "h0", false);
	expect_host(t, 2, "h1", true);
	json_decref(ask_ok(t, 2, "'host_register','host':'h0'"));
	expect_host(t, 2, "h0", true);
}

/* The same router connects again before its old connection was seen to end. */
static void test_host_again(void **state)
{
	struct test *t = *state;
	struct ffo_container c;

	hello(t, 0);
	json_decref(ask_ok(t, 0, "'host_register','host':'h0','instance':'boot 1'"));
	c = container(ask_ok(t, 0, "'container_add','name':'a'"));
	json_decref(ask_ok(t, 0, "'map_publish','maps':[[%u,5,1,0,4096,7,0,5,1]]", c.id));
	router(t, 2);
	expect_resolved(ask_ok(t, 2, "'resolve','container':%u", c.id), "a", "h0", 1);
	hello(t, 1);
	ask_err(t, 1, "EEXIST", "'host_register','host':'h0','instance':'boot 2'");
	json_decref(ask_ok(t, 1, "'host_register','host':'h0','instance':'boot 1'"));
	assert_null(receive(t, 0));
	expect_silence(t, 2); /* it was up all the time */
	assert_int_equal(count(ask_ok(t, 1, "'map_list'"), "maps"), 0);
	expect_host(t, 1, "h0", true);
	json_decref(ask_ok(t, 1, "'map_publish','maps':[[%u,5,1,0,4096,7,0,5,1]]", c.id));
}

/* A host that is gone for good is forgotten, unless it is up or containers are its own. */
static void test_host_rm(void **state)
{
	struct test *t = *state;
	json_t *msg;

	router(t, 0);
	router(t, 1);
	hello(t, 2);
	json_decref(ask_ok(t, 0, "'container_add','name':'a'"));
	ask_err(t, 2, "EBUSY", "'host_rm','host':'h0'");
	ask_err(t, 2, "EBUSY", "'host_rm','host':'h1'");
	ask_err(t, 2, "ENOENT", "'host_rm','host':'h9'");
	close(t->fd[0]);
	t->fd[0] = -1;
	wait_conns(t, 2);
	msg = ask(t, 2, "{\"op\":\"host_rm\",\"id\":7,\"host\":\"h0\"}");
	assert_string_equal(json_string_value(json_object_get(msg, "message")),
			    "host h0 has containers, a: move or remove them first");
	json_decref(msg);
	json_decref(ask_ok(t, 2, "'container_rm','name':'a'"));
	ask_err(t, 2, "EINVAL", "'host_rm','host':'h0','dry_run':2");
	json_decref(ask_ok(t, 2, "'host_rm','host':'h0','dry_run':1"));
	expect_host(t, 2, "h0", false);
	json_decref(ask_ok(t, 2, "'host_rm','host':'h0'"));
	ask_err(t, 2, "ENOENT", "'host_get','host':'h0'");
	assert_int_equal(count(ask_ok(t, 2, "'host_list'"), "hosts"), 1);
	json_decref(ask_ok(t, 2, "'host_register','host':'h0'"));
	expect_host(t, 2, "h0", true);
}

int main(void)
{
	return UNIT_RUN(FFO_T(test_hosts), FFO_T(test_host_again), FFO_T(test_host_rm));
}
