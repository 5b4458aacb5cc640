/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/unit/lib/ffo_rig.c ffr/lib/log.c */
/*
 * test_events.c - what routers are told: who has an address, mappings, the policy, groups, their
 * own containers; slow readers; and a store that goes away.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/lib/ffo_rig.h"

/* A router with an instance and a wire address, which can be told from others. */
static void router_at(struct test *t, int i, const char *instance)
{
	hello(t, i);
	json_decref(ask_ok(t, i,
			   "'host_register','host':'h%d','instance':'%s',"
			   "'wire':'tcp:192.0.2.%d:7471'",
			   i, instance, i));
}

static void send_all(struct test *t, int i, const char *text)
{
	send_text(t, i, text, strlen(text));
}

static void leave(struct test *t, int i)
{
	unsigned int conns = t->ffo->num_conns;

	close(t->fd[i]);
	t->fd[i] = -1;
	wait_conns(t, conns - 1);
}

/* Take msg: its container's name and host, "-" for null. */
static void expect_answer(json_t *msg, const char *name, const char *host, int up)
{
	json_t *c = json_object_get(msg, "container"), *h = json_object_get(msg, "host");

	assert_non_null(c);
	assert_non_null(h);
	assert_string_equal(json_is_null(c) ? "-" : json_string_value(json_object_get(c, "name")),
			    name);
	assert_string_equal(json_is_null(h) ? "-" : json_string_value(json_object_get(h, "name")),
			    host);
	if (!json_is_null(h))
		assert_int_equal(json_is_true(json_object_get(h, "up")), up);
	json_decref(msg);
}

/* ---- resolution ------------------------------------------------------------------------------ */

static void test_resolve(void **state)
{
	struct test *t = *state;
	json_t *msg;

	router_at(t, 0, "1");
	expect_answer(ask_ok(t, 0, "'resolve','ip':'10.1.0.2'"), "-", "-", 0);
	expect_answer(ask_ok(t, 0, "'resolve','lid':1"), "-", "-", 0);
	expect_answer(ask_ok(t, 0, "'resolve','container':1"), "-", "-", 0);
	expect_answer(ask_ok(t, 0, "'resolve','ip':'10.1.0.2','tenant':'big'"), "-", "-", 0);

	/* Nobody becomes somebody, on a host that is not known. */
	router_at(t, 1, "1");
	json_decref(ask_ok(t, 1, "'container_add','name':'a','host':'h2'"));
	for (int i = 0; i < 3; i++) {
		msg = event(t, 0, "resolve");
		if (json_object_get(msg, "ip"))
			assert_string_equal(json_string_value(json_object_get(msg, "ip")),
					    "10.1.0.2");
		else if (json_object_get(msg, "lid"))
			assert_int_equal(json_integer_value(json_object_get(msg, "lid")), 1);
		else
			assert_int_equal(json_integer_value(json_object_get(msg, "id")), 1);
		expect_answer(msg, "a", "-", 0);
	}
	expect_silence(t, 0);
	json_decref(ask_ok(t, 0, "'unresolve','lid':1"));
	json_decref(ask_ok(t, 0, "'unresolve','container':1"));
	ask_err(t, 0, "ENOENT", "'unresolve','container':1");

	/* Its host comes, leaves, comes; the container moves, changes, goes. */
	router_at(t, 2, "1");
	expect_answer(event(t, 0, "resolve"), "a", "h2", 1);
	leave(t, 2);
	expect_answer(event(t, 0, "resolve"), "a", "h2", 0);
	router_at(t, 2, "2");
	msg = event(t, 0, "resolve");
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(msg, "host"), "wire")),
		"tcp:192.0.2.2:7471");
	expect_answer(msg, "a", "h2", 1);
	json_decref(ask_ok(t, 1, "'container_set','name':'a','host':'h1'"));
	msg = event(t, 0, "resolve");
	assert_int_equal(
		json_integer_value(json_object_get(json_object_get(msg, "container"), "epoch")), 2);
	expect_answer(msg, "a", "h1", 1);
	/* It asks again: the answer of now. */
	expect_answer(ask_ok(t, 0, "'resolve','ip':'10.1.0.2'"), "a", "h1", 1);
	json_decref(ask_ok(t, 1, "'container_rm','name':'a'"));
	expect_answer(event(t, 0, "resolve"), "-", "-", 0);
	json_decref(ask_ok(t, 0, "'unresolve','ip':'10.1.0.2'"));
	json_decref(ask_ok(t, 1, "'container_add','name':'a','host':'h2'"));
	expect_silence(t, 0);
	ask_err(t, 0, "EINVAL", "'resolve'");
	ask_err(t, 0, "EINVAL", "'resolve','ip':'10.1.0.2','lid':3");
	ask_err(t, 0, "EINVAL", "'resolve','ip':'10.1.0'");
	ask_err(t, 0, "EINVAL", "'resolve','lid':50000");
	hello(t, 3);
	ask_err(t, 3, "EPERM", "'resolve','lid':3");
}

/* An address that several tenants have: one's own first, then those that the policy lets reach. */
static void test_resolve_tenants(void **state)
{
	struct test *t = *state;

	router(t, 0);
	json_decref(ask_ok(t, 0, "'container_add','name':'r','tenant':'red','ips':['10.2.0.5']"));
	json_decref(ask_ok(t, 0, "'container_add','name':'g','tenant':'green','ips':['10.2.0.5']"));
	expect_answer(ask_ok(t, 0, "'resolve','tenant':'blue','ip':'10.2.0.5'"), "-", "-", 0);
	expect_answer(ask_ok(t, 0, "'resolve','tenant':'blue','lid':1"), "-", "-", 0);
	expect_answer(ask_ok(t, 0, "'resolve','tenant':'red','lid':1"), "r", "h0", 1);
	json_decref(ask_ok(t, 0, "'policy_set','a':'red','b':'blue/web','action':'allow'"));
	expect_answer(event(t, 0, "resolve"), "r", "h0", 1);
	expect_answer(event(t, 0, "resolve"), "r", "h0", 1); /* by LID, too */
	json_decref(ask_ok(t, 0, "'policy_set','a':'green/x','b':'blue','action':'allow'"));
	expect_silence(t, 0); /* g is not x */
	json_decref(ask_ok(t, 0, "'policy_set','a':'green','b':'blue','action':'allow'"));
	expect_answer(event(t, 0, "resolve"), "g", "h0", 1); /* its name is the first */
	json_decref(ask_ok(t, 0, "'container_add','name':'b','tenant':'blue','ips':['10.2.0.5']"));
	expect_answer(event(t, 0, "resolve"), "b", "h0", 1);
	json_decref(ask_ok(t, 0, "'container_rm','name':'b'"));
	expect_answer(event(t, 0, "resolve"), "g", "h0", 1);
	json_decref(ask_ok(t, 0, "'policy_rm','a':'blue','b':'green'"));
	expect_answer(event(t, 0, "resolve"), "r", "h0", 1);
	json_decref(ask_ok(t, 0, "'policy_set','a':'red','b':'blue/web','action':'deny'"));
	expect_answer(event(t, 0, "resolve"), "-", "-", 0);
	expect_answer(event(t, 0, "resolve"), "-", "-", 0);
}

/* ---- policy ---------------------------------------------------------------------------------- */

static void test_policy(void **state)
{
	struct test *t = *state;

	router(t, 0);
	hello(t, 1);
	assert_int_equal(count(ask_ok(t, 0, "'policy_watch'"), "rules"), 0);
	json_decref(ask_ok(t, 1, "'policy_set','a':'red','b':'blue','action':'allow'"));
	assert_int_equal(count(event(t, 0, "policy"), "rules"), 1);
	json_decref(ask_ok(t, 1, "'policy_set','a':'blue','b':'red','action':'deny'"));
	assert_int_equal(count(event(t, 0, "policy"), "rules"), 1);
	json_decref(ask_ok(t, 1, "'policy_set','a':'blue/x','b':'red','action':'deny'"));
	assert_int_equal(count(event(t, 0, "policy"), "rules"), 2);
	assert_int_equal(count(ask_ok(t, 1, "'policy_list'"), "rules"), 2);
	json_decref(ask_ok(t, 1, "'policy_rm','a':'red','b':'blue'"));
	assert_int_equal(count(event(t, 0, "policy"), "rules"), 1);
	ask_err(t, 1, "ENOENT", "'policy_rm','a':'red','b':'blue'");
	ask_err(t, 1, "EINVAL", "'policy_set','a':'red','b':'blue','action':'maybe'");
	ask_err(t, 1, "EINVAL", "'policy_set','a':'red/','b':'blue','action':'allow'");
	ask_err(t, 1, "EINVAL", "'policy_rm','a':'a/b/c','b':'blue'");
	ask_err(t, 1, "EPERM", "'policy_watch'");
	expect_silence(t, 0);
}

/* ---- groups ---------------------------------------------------------------------------------- */

static void test_tenants(void **state)
{
	struct test *t = *state;
	json_t *msg, *j;

	router(t, 0);
	hello(t, 1);
	assert_int_equal(count(ask_ok(t, 0, "'tenant_watch'"), "tenants"), 0);
	json_decref(ask_ok(t, 1, "'tenant_set','tenant':'red','limits':{'tx_rate':5,'max_qp':1}"));
	assert_int_equal(count(event(t, 0, "tenants"), "tenants"), 1);
	json_decref(ask_ok(t, 1, "'tenant_set','tenant':'blue','limits':{'max_mr':2}"));
	assert_int_equal(count(event(t, 0, "tenants"), "tenants"), 2);
	json_decref(ask_ok(t, 1, "'tenant_set','tenant':'red','limits':{'max_qp':0}"));
	msg = event(t, 0, "tenants");
	j = json_array_get(json_object_get(msg, "tenants"), 1);
	assert_string_equal(json_string_value(json_object_get(j, "tenant")), "red");
	j = json_object_get(j, "limits");
	assert_int_equal(json_object_size(j), 1);
	assert_int_equal(json_integer_value(json_object_get(j, "tx_rate")), 5);
	json_decref(msg);
	json_decref(ask_ok(t, 1, "'tenant_set','tenant':'red','limits':{'tx_rate':0}"));
	assert_int_equal(count(event(t, 0, "tenants"), "tenants"), 1);
	assert_int_equal(count(ask_ok(t, 1, "'tenant_list'"), "tenants"), 1);
	ask_err(t, 1, "EINVAL", "'tenant_set','tenant':'red','limits':{'weight':5}");
	ask_err(t, 1, "EINVAL", "'tenant_set','tenant':'r d','limits':{'max_qp':5}");
	ask_err(t, 1, "EINVAL", "'tenant_set','tenant':'red'");
	ask_err(t, 1, "EPERM", "'tenant_watch'");
}

static void test_groups(void **state)
{
	struct test *t = *state;
	json_t *msg;

	for (int i = 0; i < 3; i++)
		router_at(t, i, "1");
	assert_int_equal(
		count(ask_ok(t, 0, "'mcast_watch','tenant':'blue','mgid':'FF0E::7'"), "hosts"), 0);
	json_decref(ask_ok(t, 1, "'mcast_join','tenant':'blue','mgid':'ff0e::7'"));
	msg = event(t, 0, "mcast");
	assert_string_equal(json_string_value(json_object_get(msg, "mgid")), "FF0E::7");
	assert_string_equal(json_string_value(json_object_get(msg, "tenant")), "blue");
	assert_int_equal(count(msg, "hosts"), 1);
	json_decref(ask_ok(t, 2, "'mcast_join','tenant':'blue','mgid':'ff0e::7'"));
	assert_int_equal(count(event(t, 0, "mcast"), "hosts"), 2);
	leave(t, 2); /* membership dies with its host's session */
	assert_int_equal(count(event(t, 0, "mcast"), "hosts"), 1);
	json_decref(ask_ok(t, 1, "'mcast_leave','tenant':'blue','mgid':'ff0e::7'"));
	assert_int_equal(count(event(t, 0, "mcast"), "hosts"), 0);
	json_decref(ask_ok(t, 0, "'mcast_unwatch','tenant':'blue','mgid':'ff0e::7'"));
	json_decref(ask_ok(t, 1, "'mcast_join','tenant':'blue','mgid':'::ffff:239.1.2.3'"));
	ask_err(t, 1, "EINVAL", "'mcast_join','tenant':'blue','mgid':'fd00::1'");
	ask_err(t, 1, "EINVAL", "'mcast_join','tenant':'blue','mgid':'::ffff:10.1.2.3'");
	ask_err(t, 1, "EINVAL", "'mcast_watch','tenant':'blue','mgid':'x'");
	ask_err(t, 0, "ENOENT", "'mcast_unwatch','tenant':'blue','mgid':'ff0e::7'");
	expect_silence(t, 0);
}

/* ---- one's own containers -------------------------------------------------------------------- */

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
	json_decref(ask_ok(t, 0, "'container_set','name':'own','mode':'spin'"));
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
	send_all(t, 2,
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

/* A container in use is moved by force only; by its sessions' end, or its host's, it is not. */
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
	leave(t, 0);
	c = container(ask_ok(t, 1, "'container_set','name':'a','host':'h1'"));
	assert_int_equal(c.epoch, 4);
}

/* ---- mappings -------------------------------------------------------------------------------- */

/* Apply events until all is told: the number of rows that are left; *epoch as told. */
static size_t follow(struct test *t, int i, json_t *rows, uint32_t *epoch)
{
	json_t *msg, *row;
	char key[16];
	size_t n;
	bool synced;

	do {
		msg = event(t, i, "map");
		if (json_is_true(json_object_get(msg, "reset")))
			json_object_clear(rows);
		*epoch = (uint32_t)json_integer_value(json_object_get(msg, "epoch"));
		json_array_foreach(json_object_get(msg, "put"), n, row) {
			struct ffo_map m;

			assert_int_equal(ffo_map_from_json(row, &m), 0);
			assert_int_equal(m.epoch, *epoch);
			snprintf(key, sizeof(key), "%u", m.rkey);
			json_object_set(rows, key, row);
		}
		json_array_foreach(json_object_get(msg, "del"), n, row) {
			snprintf(key, sizeof(key), "%u", (uint32_t)json_integer_value(row));
			json_object_del(rows, key);
		}
		synced = json_is_true(json_object_get(msg, "synced"));
		json_decref(msg);
	} while (!synced);
	return json_object_size(rows);
}

static void test_map_watch(void **state)
{
	struct test *t = *state;
	json_t *rows = json_object(), *msg;
	uint32_t epoch;

	router(t, 0);
	router(t, 1);
	json_decref(ask_ok(t, 1, "'map_watch','container':1"));
	assert_int_equal(follow(t, 1, rows, &epoch), 0);
	assert_int_equal(epoch, 0); /* there is none */
	json_decref(ask_ok(t, 0, "'container_add','name':'a'"));
	assert_int_equal(follow(t, 1, rows, &epoch), 0);
	assert_int_equal(epoch, 1);
	json_decref(ask_ok(t, 0,
			   "'map_publish','maps':[[1,5,1,0,4096,7,0,5,1],[1,6,1,0,4096,7,0,5,1],"
			   "[1,7,2,0,4096,7,0,5,1]]"));
	assert_int_equal(follow(t, 1, rows, &epoch), 3);
	json_decref(ask_ok(t, 0, "'map_withdraw','maps':[[1,5]]"));
	assert_int_equal(follow(t, 1, rows, &epoch), 2);
	json_decref(ask_ok(t, 0, "'map_drop','container':1,'session':2"));
	assert_int_equal(follow(t, 1, rows, &epoch), 1);

	msg = ask_ok(t, 1, "'map_get','name':'a','rkey':6");
	assert_int_equal(json_integer_value(json_array_get(json_object_get(msg, "map"), 1)), 6);
	expect_answer(msg, "a", "h0", 1);
	json_decref(ask_ok(t, 1, "'map_get','ip':'10.1.0.2','rkey':6"));
	ask_err(t, 1, "ENOENT", "'map_get','ip':'10.1.0.2','tenant':'red','rkey':6");
	ask_err(t, 1, "ENOENT", "'map_get','container':1,'rkey':5");
	ask_err(t, 1, "ENOENT", "'map_get','container':2,'rkey':5");
	ask_err(t, 1, "EINVAL", "'map_get','container':1,'name':'a','rkey':5");
	ask_err(t, 1, "EINVAL", "'map_get','container':1,'rkey':0");

	/* Its host goes, comes; the container moves; goes. */
	leave(t, 0);
	assert_int_equal(follow(t, 1, rows, &epoch), 0);
	assert_int_equal(epoch, 1);
	router(t, 0);
	json_decref(ask_ok(t, 0, "'map_publish','maps':[[1,9,1,0,4096,7,0,5,1]]"));
	while (!follow(t, 1, rows, &epoch))
		; /* that the host has come may be told for itself */
	json_decref(ask_ok(t, 0, "'container_set','name':'a','host':'h1'"));
	json_decref(event(t, 1, "attach"));
	assert_int_equal(follow(t, 1, rows, &epoch), 0);
	assert_int_equal(epoch, 2);
	json_decref(ask_ok(t, 1, "'map_publish','maps':[[1,9,1,0,4096,7,0,5,2]]"));
	assert_int_equal(follow(t, 1, rows, &epoch), 1);
	json_decref(ask_ok(t, 1, "'container_rm','name':'a'"));
	assert_int_equal(follow(t, 1, rows, &epoch), 0);
	assert_int_equal(epoch, 0);
	json_decref(ask_ok(t, 1, "'map_unwatch','container':1"));
	ask_err(t, 1, "ENOENT", "'map_unwatch','container':1");
	json_decref(rows);
}

static size_t count_maps(struct test *t, uint32_t container)
{
	size_t num = 0, n;
	uint32_t after = 0;
	json_t *msg, *maps;

	do {
		msg = ask_ok(t, 0, "'map_list','container':%u,'after':[%u,%u]", container,
			     container, after);
		maps = json_object_get(msg, "maps");
		n = json_array_size(maps);
		num += n;
		if (n)
			after = (uint32_t)json_integer_value(
				json_array_get(json_array_get(maps, n - 1), 1));
		json_decref(msg);
	} while (n == FFO_BATCH_MAX);
	return num;
}

/*
 * A watcher that reads late while many rows come, change and go: in the end it knows what is there,
 * what waits for it is bounded meanwhile, and others are served.
 */
static void test_map_slow_watcher(void **state)
{
	struct test *t = *state;
	json_t *rows = json_object();
	struct conn *c;
	uint32_t epoch;
	size_t want;

	router(t, 0);
	for (uint32_t i = 0; i < CONTS; i++)
		json_decref(ask_ok(t, 0, "'container_add','name':'c%u'", i));
	router(t, 1);
	c = LIST_FIRST(&t->ffo->conns);
	t->ffo->write_timeout = 1000000;
	json_decref(ask_ok(t, 1, "'map_watch','container':2"));
	/* Rows of containers 1..4 in turn, and each session's of container 2 go once in between. */
	for (uint32_t i = 0; i < 40000; i += BATCH) {
		publish_batch(t, i);
		if (i % 8000 == 4000)
			json_decref(ask_ok(t, 0, "'map_drop','container':2,'session':%u",
					   1 + i / 8000 % 2));
		assert_true(uv_stream_get_write_queue_size(&c->stream) < 2 * FFO_LINE_MAX);
	}
	for (uint32_t rkey = 0; rkey < 100; rkey++)
		json_decref(ask_ok(t, 0, "'map_withdraw','maps':[[2,%u]]",
				   (uint32_t)(1 + (39997 - 4 * rkey) * 2654435761u)));
	want = count_maps(t, 2);
	assert_true(want > FFO_BATCH_MAX);
	while (follow(t, 1, rows, &epoch) != want)
		;
	expect_silence(t, 1);
	json_decref(rows);
}

static uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* Figures: rows published in batches while a watcher gets all of them. */
static void test_map_rate(void **state)
{
	struct test *t = *state;
	uint64_t start_us, us;
	size_t got = 0;
	json_t *msg;

	router(t, 0);
	for (uint32_t i = 0; i < CONTS; i++)
		json_decref(ask_ok(t, 0, "'container_add','name':'c%u'", i));
	router(t, 1);
	for (uint32_t i = 1; i <= CONTS; i++)
		json_decref(ask_ok(t, 1, "'map_watch','container':%u", i));
	start_us = now_us();
	for (uint32_t i = 0; i < 20000; i += BATCH) {
		publish_batch(t, i);
		while (got < i + BATCH) {
			msg = event(t, 1, "map");
			got += count(msg, "put");
		}
	}
	us = now_us() - start_us;
	print_message("20000 mappings published and told, %u a batch: %.0f a second\n", BATCH,
		      20000 * 1e6 / (double)us);
}

/* ---- a store that goes away ------------------------------------------------------------------- */

static void test_store_away(void **state)
{
	struct test *t = *state;

	/* Registration waits for it, for a while. */
	store_becomes(STORE_AWAY);
	hello(t, 0);
	ask_err(t, 0, "ENOTCONN", "'host_register','host':'h0'");
	send_all(t, 0, "{\"id\":7,\"op\":\"host_register\",\"host\":\"h0\"}\n");
	for (int i = 0; i < 20; i++)
		uv_run(&t->loop, UV_RUN_NOWAIT);
	store_becomes(STORE_READY);
	json_decref(receive(t, 0));
	expect_host(t, 0, "h0", true);
	/* So does what has no first state yet; then it can be asked for again. */
	faulty->mute = true;
	ask_err(t, 0, "ENOTCONN", "'resolve','lid':5");
	ask_err(t, 0, "ENOTCONN", "'mcast_watch','tenant':'blue','mgid':'ff0e::7'");
	faulty->mute = false;
	expect_answer(ask_ok(t, 0, "'resolve','lid':5"), "-", "-", 0);
	/* What waits when the connection ends. */
	faulty->mute = true;
	send_all(t, 0, "{\"id\":7,\"op\":\"resolve\",\"lid\":6}\n");
	for (int i = 0; i < 5; i++)
		uv_run(&t->loop, UV_RUN_NOWAIT);
	leave(t, 0);
	/* A registration that waits when the connection, or the orchestrator, ends. */
	hello(t, 1);
	ask_err(t, 1, "ENOTCONN", "'host_register','host':'h1'"); /* its containers are not told */
	faulty->mute = false;
	json_decref(ask_ok(t, 1, "'host_register','host':'h1'"));
	store_becomes(STORE_AWAY);
	hello(t, 2);
	send_all(t, 2, "{\"id\":7,\"op\":\"host_register\",\"host\":\"h2\"}\n");
	for (int i = 0; i < 5; i++)
		uv_run(&t->loop, UV_RUN_NOWAIT);
}

/* The store's session is lost: hosts are to come again, others stay. */
static void test_store_lost(void **state)
{
	struct test *t = *state;

	router(t, 0);
	router(t, 1);
	hello(t, 2);
	store_becomes(STORE_LOST);
	assert_null(receive(t, 0));
	assert_null(receive(t, 1));
	wait_conns(t, 1);
	assert_int_equal(count(ask_ok(t, 2, "'container_list'"), "containers"), 0);
	store_becomes(STORE_READY);
	router(t, 0);
	expect_host(t, 2, "h0", true);
}

/* Reading what the answer needs fails: told so, and nothing stays behind. */
static void test_watch_failure(void **state)
{
	struct test *t = *state;

	router(t, 0);
	faulty->fail_at = 1;
	ask_err(t, 0, "EIO", "'resolve','lid':1");
	faulty->fail_at = 1;
	ask_err(t, 0, "EIO", "'mcast_watch','tenant':'blue','mgid':'ff0e::7'");
	expect_answer(ask_ok(t, 0, "'resolve','lid':1"), "-", "-", 0);
	hello(t, 1);
	faulty->fail_at = 2;
	ask_err(t, 1, "EIO", "'host_register','host':'h1'");
	expect_host(t, 1, "h1", false);
	json_decref(ask_ok(t, 1, "'host_register','host':'h1'"));
}

/* Subscriptions of one connection are bounded. */
static void test_too_many(void **state)
{
	struct test *t = *state;

	router(t, 0);
	for (uint32_t i = 1; i <= FFO_SUBS_MAX; i++)
		json_decref(ask_ok(t, 0, "'map_watch','container':%u", i));
	ask_err(t, 0, "ENOSPC", "'map_watch','container':100000");
	json_decref(ask_ok(t, 0, "'map_unwatch','container':7"));
	json_decref(ask_ok(t, 0, "'map_watch','container':100000"));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(test_resolve),       T(test_resolve_tenants), T(test_policy),
		T(test_tenants),       T(test_groups),		T(test_owned),
		T(test_active),	       T(test_map_watch),	T(test_map_slow_watcher),
		T(test_map_rate),      T(test_store_away),	T(test_store_lost),
		T(test_watch_failure), T(test_too_many),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
