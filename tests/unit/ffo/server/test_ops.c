/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/unit/lib/ffo_rig.c ffr/lib/log.c */
/*
 * test_ops.c - what the orchestrator's requests do: containers, hosts and mappings, with a
 * store that works, fails at its Nth call, or ends calls late.
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

/* ---- containers ----------------------------------------------------------------------------- */

static void test_add(void **state)
{
	struct test *t = *state;
	struct ffo_container a, b;

	router(t, 0);
	a = container(ask_ok(t, 0, "'container_add','name':'a'"));
	assert_string_equal(a.name, "a");
	assert_string_equal(a.tenant, "default");
	assert_string_equal(a.host, "h0");
	assert_int_equal(a.mode, FFO_MODE_ADAPTIVE);
	assert_int_equal(a.epoch, 1);
	assert_int_equal(a.lid, 1);
	assert_int_equal(a.num_ips, 2);
	expect_ip(&a, 0, "10.1.0.2");
	expect_ip(&a, 1, "fd01::2");
	b = container(ask_ok(t, 0,
			     "'container_add','name':'b','tenant':'big','host':'h9',"
			     "'mode':'socket','ips':['fd01::2']"));
	assert_int_equal(b.num_ips, 1);
	expect_ip(&b, 0, "fd01::2");
	assert_int_equal(b.lid, 2);
	assert_int_equal(b.mode, FFO_MODE_SOCKET);
	assert_string_equal(b.host, "h9");

	a = container(ask_ok(t, 0, "'container_get','name':'b'"));
	assert_memory_equal(&a, &b, sizeof(a));
	a = container(ask_ok(t, 0, "'container_get','container':%u", b.id));
	assert_memory_equal(&a, &b, sizeof(a));
	a = container(ask_ok(t, 0, "'container_rm','name':'b'"));
	assert_memory_equal(&a, &b, sizeof(a));
	ask_err(t, 0, "ENOENT", "'container_get','name':'b'");
	ask_err(t, 0, "ENOENT", "'container_get','container':%u", b.id);
	ask_err(t, 0, "ENOENT", "'container_rm','name':'b'");
	ask_err(t, 0, "ENOENT", "'container_set','name':'b'");
}

static void test_conflicts(void **state)
{
	struct test *t = *state;
	struct ffo_container c;

	router(t, 0);
	c = container(ask_ok(t, 0, "'container_add','name':'a','ips':['10.1.0.3','fd01::9']"));
	ask_err(t, 0, "EEXIST", "'container_add','name':'a'");
	ask_err(t, 0, "EEXIST", "'container_add','name':'a','tenant':'big'");
	ask_err(t, 0, "EADDRINUSE", "'container_add','name':'b','ips':['10.1.0.3']");
	/* The one that was free is given back. */
	ask_err(t, 0, "EADDRINUSE", "'container_add','name':'b','ips':['10.1.0.2','fd01::9']");
	ask_err(t, 0, "EADDRNOTAVAIL", "'container_add','name':'b','ips':['10.1.0.2','10.1.0.7']");
	ask_err(t, 0, "EINVAL", "'container_add','name':'b','ips':['10.1.0.2','10.1.0.2']");
	ask_err(t, 0, "EINVAL", "'container_add','name':'b','ips':['10.1.0.2','nonsense']");
	ask_err(t, 0, "EINVAL", "'container_add','name':'b','ips':['10.1.0.2',5]");
	ask_err(t, 0, "EINVAL", "'container_add','name':'b','ips':[]");
	ask_err(t, 0, "EINVAL",
		"'container_add','name':'b','ips':['10.1.0.2','fd01::2','fd01::3']");
	ask_err(t, 0, "EINVAL", "'container_add','name':'b','mode':'turbo'");
	c = container(ask_ok(t, 0, "'container_add','name':'b'"));
	expect_ip(&c, 0, "10.1.0.2");
	expect_ip(&c, 1, "fd01::2");
	assert_int_equal(c.lid, 2);
	/* Tenants have addresses of their own. */
	c = container(ask_ok(t, 0,
			     "'container_add','name':'c','tenant':'big',"
			     "'ips':['10.1.0.3','fd01::9']"));
	assert_int_equal(c.lid, 3);
	expect_ip(&c, 0, "10.1.0.3");
}

static void test_exhaustion(void **state)
{
	struct test *t = *state;
	struct ffo_container c;
	char ip[16];

	router(t, 0);
	for (int i = 2; i <= 6; i++) {
		c = container(ask_ok(t, 0, "'container_add','name':'c%d'", i));
		snprintf(ip, sizeof(ip), "10.1.0.%d", i);
		expect_ip(&c, 0, ip);
	}
	for (int i = 0; i < 3; i++)
		ask_err(t, 0, "ENOSPC", "'container_add','name':'x'");
	/* Not for others, and not for given addresses; and what goes is there again. */
	c = container(ask_ok(t, 0, "'container_add','name':'y','ips':['10.2.0.1']"));
	assert_int_equal(c.lid, 6);
	json_decref(ask_ok(t, 0, "'container_add','name':'z','tenant':'big'"));
	json_decref(ask_ok(t, 0, "'container_rm','name':'c4'"));
	c = container(ask_ok(t, 0, "'container_add','name':'x'"));
	expect_ip(&c, 0, "10.1.0.4");
	expect_ip(&c, 1, "fd01::4");
	assert_int_equal(c.lid, 3);
}

static void test_set(void **state)
{
	struct test *t = *state;
	struct ffo_container a, c;

	router(t, 0);
	a = container(ask_ok(t, 0, "'container_add','name':'a'"));
	c = container(ask_ok(t, 0, "'container_set','name':'a','mode':'spin','host':'h0'"));
	assert_int_equal(c.mode, FFO_MODE_SPIN);
	assert_int_equal(c.epoch, 1); /* it was there already */
	ask_err(t, 0, "EINVAL", "'container_set','name':'a','mode':'fast'");
	ask_err(t, 0, "EINVAL", "'container_set','mode':'spin'");
	ask_err(t, 0, "EINVAL", "'container_set','name':'a','container':%u,'mode':'spin'", a.id);

	/* One address stays, one goes, one comes. */
	c = container(ask_ok(t, 0, "'container_set','name':'a','ips':['fd01::2','10.1.0.5']"));
	expect_ip(&c, 0, "fd01::2");
	expect_ip(&c, 1, "10.1.0.5");
	c = container(ask_ok(t, 0, "'container_add','name':'b'"));
	expect_ip(&c, 0, "10.1.0.2");
	expect_ip(&c, 1, "fd01::3");
	ask_err(t, 0, "EADDRINUSE", "'container_set','name':'a','ips':['10.1.0.6','fd01::3']");
	c = container(ask_ok(t, 0, "'container_set','name':'b','ips':['10.1.0.6']"));
	expect_ip(&c, 0, "10.1.0.6");

	/* A move: the epoch grows, the mappings go, the old host may publish no more. */
	json_decref(ask_ok(t, 0, "'map_publish','maps':[[%u,5,1,0,4096,7,0,5,1]]", a.id));
	assert_int_equal(count(ask_ok(t, 0, "'map_list'"), "maps"), 1);
	c = container(ask_ok(t, 0, "'container_set','container':%u,'host':'h1'", a.id));
	assert_int_equal(c.epoch, 2);
	assert_int_equal(c.lid, a.lid);
	assert_string_equal(c.host, "h1");
	assert_int_equal(count(ask_ok(t, 0, "'map_list'"), "maps"), 0);
	assert_int_equal(count(ask_ok(t, 0, "'map_publish','maps':[[%u,5,1,0,4096,7,0,5,2]]", a.id),
			       "refused"),
			 1);
	ask_err(t, 0, "ENOENT", "'map_drop','container':%u", a.id);
	router(t, 1);
	assert_int_equal(count(ask_ok(t, 1,
				      "'map_publish','maps':[[%u,5,1,0,4096,7,0,5,1],"
				      "[%u,6,1,0,4096,7,0,5,2]]",
				      a.id, a.id),
			       "refused"),
			 1);
	assert_int_equal(count(ask_ok(t, 1, "'map_list'"), "maps"), 1);
}

static void test_limits(void **state)
{
	struct test *t = *state;
	struct ffo_container c;

	router(t, 0);
	c = container(ask_ok(t, 0, "'container_add','name':'a','limits':{'tx_rate':9,'max_qp':3}"));
	assert_int_equal(c.limits.tx_rate, 9);
	assert_int_equal(c.limits.max_qp, 3);
	assert_int_equal(c.limits.rx_rate, 0);
	c = container(ask_ok(t, 0, "'container_set','name':'a','limits':{'tx_rate':0,'weight':5}"));
	assert_int_equal(c.limits.tx_rate, 0);
	assert_int_equal(c.limits.max_qp, 3);
	c = container(ask_ok(t, 0, "'container_set','name':'a','mode':'spin'"));
	assert_int_equal(c.limits.weight, 5);
	ask_err(t, 0, "EINVAL", "'container_set','name':'a','limits':{'weight':1001}");
	ask_err(t, 0, "EINVAL", "'container_set','name':'a','limits':{'bogus':1}");
	ask_err(t, 0, "EINVAL", "'container_set','name':'a','limits':[1]");
	ask_err(t, 0, "EINVAL", "'container_add','name':'b','limits':{'max_qp':-1}");
	ask_err(t, 0, "ENOENT", "'container_get','name':'b'");
	/* They go with it. */
	c = container(ask_ok(t, 0, "'container_set','name':'a','host':'h1'"));
	assert_int_equal(c.epoch, 2);
	assert_int_equal(c.limits.max_qp, 3);
	assert_int_equal(c.limits.weight, 5);
}

static void test_list_pages(void **state)
{
	struct test *t = *state;
	json_t *msg, *next;
	size_t n = 0, pages = 0;
	uint32_t after = 0;
	struct ffo_container c;

	router(t, 0);
	for (int i = 0; i < 600; i++)
		json_decref(ask_ok(t, 0,
				   "'container_add','name':'c%d','tenant':'big','host':'h%d',"
				   "'ips':['10.3.%d.%d']",
				   i, i % 2, i / 100, i % 100));
	do {
		msg = ask_ok(t, 0, "'container_list','host':'h1','after':%u", after);
		next = json_object_get(msg, "next");
		after = (uint32_t)json_integer_value(next);
		assert_int_equal(ffo_container_from_json(
					 json_array_get(json_object_get(msg, "containers"), 0), &c),
				 0);
		assert_string_equal(c.host, "h1");
		n += count(msg, "containers");
		pages++;
	} while (after);
	assert_int_equal(n, 300);
	assert_int_equal(pages, 2);
	msg = ask_ok(t, 0, "'container_list','limit':3,'after':10");
	assert_int_equal(json_integer_value(json_object_get(msg, "next")), 13);
	assert_int_equal(count(msg, "containers"), 3);
	assert_int_equal(count(ask_ok(t, 0, "'container_list','limit':100000"), "containers"),
			 FFO_PAGE_MAX);
}

/* A second orchestrator on the same store gives out nothing that is taken. */
static void test_restart(void **state)
{
	struct test *t = *state;
	char file[] = "/tmp/test_ffo_server.XXXXXX", wal[48];
	struct ffo_conf conf = { .store = file };
	struct ffo_container c;
	int fd = mkstemp(file);

	close(fd);
	ffo_destroy(t->ffo);
	uv_run(&t->loop, UV_RUN_DEFAULT);
	for (uint32_t round = 0; round < 3; round++) {
		char ip[16];

		assert_int_equal(ffo_create(&conf, &t->loop, &t->ffo), 0);
		router(t, 0);
		c = container(ask_ok(t, 0, "'container_add','name':'c%u'", round));
		snprintf(ip, sizeof(ip), "10.77.0.%u", 2 + round);
		expect_ip(&c, 0, ip);
		assert_int_equal(c.lid, 1 + round);
		ask_err(t, 0, "EEXIST", "'container_add','name':'c0'");
		close(t->fd[0]);
		t->fd[0] = -1;
		ffo_destroy(t->ffo);
		uv_run(&t->loop, UV_RUN_DEFAULT);
	}
	unlink(file);
	snprintf(wal, sizeof(wal), "%s-wal", file);
	unlink(wal);
	start(t);
}

/* ---- hosts ---------------------------------------------------------------------------------- */

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
	hello(t, 1);
	ask_err(t, 1, "EEXIST", "'host_register','host':'h0','instance':'boot 2'");
	json_decref(ask_ok(t, 1, "'host_register','host':'h0','instance':'boot 1'"));
	assert_null(receive(t, 0));
	assert_int_equal(count(ask_ok(t, 1, "'map_list'"), "maps"), 0);
	expect_host(t, 1, "h0", true);
	json_decref(ask_ok(t, 1, "'map_publish','maps':[[%u,5,1,0,4096,7,0,5,1]]", c.id));
}

/* ---- mappings ------------------------------------------------------------------------------- */

static void test_map_rows(void **state)
{
	static const char *const bad[] = { "5",
					   "[]",
					   "[1]",
					   "[1,5,1,0,4096,7,0,5,1,1]",
					   "[0,5,1,0,4096,7,0,5,1]",
					   "[1,0,1,0,4096,7,0,5,1]",
					   "[1,5,0,0,4096,7,0,5,1]",
					   "[1,5,1,0,4096,7,0,5,0]",
					   "[1,4294967296,1,0,4096,7,0,5,1]",
					   "[1,-5,1,0,4096,7,0,5,1]",
					   "[1,5,1,0.5,4096,7,0,5,1]",
					   "[1,5,1,'0',4096,7,0,5,1]",
					   "[1,5,1,null,4096,7,0,5,1]",
					   "{'a':1}" };
	struct test *t = *state;
	struct ffo_container c;
	struct ffo_map m;
	json_t *msg, *refused;

	router(t, 0);
	c = container(ask_ok(t, 0, "'container_add','name':'a'"));
	assert_int_equal(c.id, 1);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ask_err(t, 0, "EINVAL", "'map_publish','maps':[[1,9,1,0,4096,7,0,5,1],%s]", bad[i]);
	ask_err(t, 0, "EINVAL", "'map_publish','maps':[]");
	ask_err(t, 0, "EINVAL", "'map_withdraw','maps':[]");
	ask_err(t, 0, "EINVAL", "'map_withdraw','maps':[[1,9],[1]]");
	ask_err(t, 0, "EINVAL", "'map_withdraw','maps':[[1,9],[-1,5]]");
	ask_err(t, 0, "EINVAL", "'map_list','after':[1]");
	ask_err(t, 0, "ENOENT", "'map_drop','container':77");
	ask_err(t, 0, "ENOENT", "'map_drop','container':0");
	assert_int_equal(count(ask_ok(t, 0, "'map_list'"), "maps"), 0);

	/* Rows whose container is gone are refused alone; all 64 bits travel. */
	msg = ask_ok(t, 0,
		     "'map_publish','maps':[[1,9,1,-1,-4096,7,140737488355328,5,1],"
		     "[2,9,1,0,4096,7,0,5,1],[1,10,1,0,4096,7,0,5,3]]");
	assert_int_equal(json_integer_value(json_object_get(msg, "stored")), 1);
	refused = json_object_get(msg, "refused");
	for (int i = 0; i < 2; i++) {
		json_t *row = json_array_get(refused, (size_t)i);

		assert_int_equal(json_integer_value(json_array_get(row, 0)), i + 1);
		assert_string_equal(json_string_value(json_array_get(row, 1)),
				    i ? "ESTALE" : "ENOENT");
	}
	json_decref(msg);
	msg = ask_ok(t, 0, "'map_list'");
	assert_int_equal(ffo_map_from_json(json_array_get(json_object_get(msg, "maps"), 0), &m), 0);
	assert_true(m.addr == UINT64_MAX && m.length == (uint64_t)-4096);
	assert_true(m.shadow == 1ull << 47 && m.rkey == 9 && m.access == 7);
	json_decref(msg);

	msg = ask_ok(t, 0, "'map_withdraw','maps':[[1,9],[1,9],[5,5],[0,0]]");
	assert_int_equal(json_integer_value(json_object_get(msg, "removed")), 1);
	json_decref(msg);
}

static uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

#define MAPS 20000u

static void test_publish_many(void **state)
{
	struct test *t = *state;
	uint32_t container = 0, rkey = 0, n = 0;
	uint64_t start_us, us;
	struct ffo_map m;
	json_t *msg, *maps;

	router(t, 0);
	for (uint32_t i = 0; i < CONTS; i++)
		json_decref(ask_ok(t, 0, "'container_add','name':'c%u'", i));
	start_us = now_us();
	for (uint32_t i = 0; i < MAPS; i += BATCH)
		publish_batch(t, i);
	us = now_us() - start_us;
	print_message("%u mappings published, %u a batch: %.0f a second\n", MAPS, BATCH,
		      MAPS * 1e6 / (double)us);

	do {
		msg = ask_ok(t, 0, "'map_list','after':[%u,%u]", container, rkey);
		maps = json_object_get(msg, "maps");
		for (size_t i = 0; i < json_array_size(maps); i++, n++) {
			assert_int_equal(ffo_map_from_json(json_array_get(maps, i), &m), 0);
			assert_true(m.container > container ||
				    (m.container == container && m.rkey > rkey));
			container = m.container;
			rkey = m.rkey;
			assert_int_equal(m.rkey, 1 + m.key * 2654435761u);
			assert_true(m.addr == 0x7f0000000000 + m.key * 4096ull);
		}
		maps = json_object_get(msg, "next");
		if (maps) {
			assert_int_equal(json_integer_value(json_array_get(maps, 0)), container);
			assert_int_equal(json_integer_value(json_array_get(maps, 1)), rkey);
		}
		n += 1u << 24; /* pages in the upper byte */
		json_decref(msg);
	} while (maps);
	assert_int_equal(n & 0xffffff, MAPS);
	assert_int_equal(n >> 24, (MAPS + FFO_BATCH_MAX - 1) / FFO_BATCH_MAX);

	/* One container's, one session's, published again, all of one. */
	assert_int_equal(count(ask_ok(t, 0, "'map_list','container':2,'limit':9"), "maps"), 9);
	for (uint32_t i = 0; i < MAPS; i += BATCH)
		publish_batch(t, i);
	json_decref(ask_ok(t, 0, "'map_drop','container':2,'session':1"));
	assert_true(count(ask_ok(t, 0, "'map_list','container':2"), "maps") == FFO_BATCH_MAX);
	json_decref(ask_ok(t, 0, "'map_drop','container':2,'session':2"));
	assert_int_equal(count(ask_ok(t, 0, "'map_list','container':2"), "maps"), 0);
	json_decref(ask_ok(t, 0, "'container_rm','container':1"));
	json_decref(ask_ok(t, 0, "'map_drop','container':3"));
	json_decref(ask_ok(t, 0, "'map_drop','container':4"));
	assert_int_equal(count(ask_ok(t, 0, "'map_list'"), "maps"), 0);
}

static void test_batch_limit(void **state)
{
	struct test *t = *state;
	json_t *rows, *msg;
	char *line;

	router(t, 0);
	json_decref(ask_ok(t, 0, "'container_add','name':'a'"));
	for (uint32_t n = FFO_BATCH_MAX; n <= FFO_BATCH_MAX + 1; n++) {
		rows = json_array();
		/* As long as rows can be. */
		for (uint32_t i = 0; i < n; i++) {
			struct ffo_map m = { .container = 1,
					     .rkey = UINT32_MAX - i,
					     .session = UINT32_MAX,
					     .addr = 1ull << 63,
					     .length = 1ull << 63,
					     .access = UINT32_MAX,
					     .shadow = 1ull << 63,
					     .key = UINT32_MAX,
					     .epoch = 1 };

			json_array_append_new(rows, ffo_map_to_json(&m));
		}
		msg = json_pack("{s:i, s:s, s:o}", "id", 7, "op", "map_publish", "maps", rows);
		line = json_dumps(msg, JSON_COMPACT);
		json_decref(msg);
		assert_true(strlen(line) < FFO_LINE_MAX);
		msg = ask(t, 0, line);
		free(line);
		if (n <= FFO_BATCH_MAX)
			json_decref(msg);
		else
			expect_error(msg, 7, "EINVAL");
	}
	assert_int_equal(count(ask_ok(t, 0, "'map_list'"), "maps"), FFO_BATCH_MAX);
}

/* ---- a store that fails, or answers late ---------------------------------------------------- */

/* All that the orchestrator tells, and what it would allocate next. */
static char *whole_state(struct test *t)
{
	json_t *all = json_array();
	struct ffo_container c;
	char *text;

	c = container(ask_ok(t, 0, "'container_add','name':'probe'"));
	json_decref(ask_ok(t, 0, "'container_rm','name':'probe'"));
	c.id = 1; /* is another one each time */
	json_array_append_new(all, ffo_container_to_json(&c));
	json_array_append_new(all, ask_ok(t, 0, "'container_list'"));
	json_array_append_new(all, ask_ok(t, 0, "'map_list'"));
	text = json_dumps(all, JSON_COMPACT);
	json_decref(all);
	return text;
}

/*
 * Make a request with the Nth store call failing, for each N up to the first that is not reached:
 * it fails with EIO and all is as it was, until it works.
 */
static json_t *fail_each(struct test *t, int i, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static json_t *fail_each(struct test *t, int i, const char *fmt, ...)
{
	char *before = whole_state(t), *after;
	bool reached = true;
	json_t *msg = NULL;
	va_list ap;

	for (unsigned int n = 1; reached; n++) {
		assert_true(n < 20);
		faulty->fail_at = n;
		va_start(ap, fmt);
		msg = ask_va(t, i, fmt, ap);
		va_end(ap);
		reached = !faulty->fail_at;
		faulty->fail_at = 0;
		if (reached) {
			expect_error(msg, 7, "EIO");
			after = whole_state(t);
			assert_string_equal(after, before);
			free(after);
		} else {
			assert_true(n > 1);
			assert_true(json_is_true(json_object_get(msg, "ok")));
		}
	}
	free(before);
	return msg;
}

static void test_failing_store(void **state)
{
	struct test *t = *state;
	struct ffo_container c;
	uint32_t id;

	router(t, 0);
	c = container(fail_each(t, 0, "'container_add','name':'a'"));
	expect_ip(&c, 0, "10.1.0.2");
	id = c.id;
	json_decref(fail_each(t, 0, "'container_add','name':'b','ips':['10.1.0.4']"));
	json_decref(fail_each(t, 0,
			      "'map_publish','maps':[[%u,5,1,0,4096,7,0,5,1],"
			      "[%u,6,1,0,4096,7,0,5,1]]",
			      id, id));
	json_decref(fail_each(t, 0, "'map_withdraw','maps':[[%u,5]]", id));
	json_decref(fail_each(t, 0, "'container_set','name':'b','ips':['10.1.0.5'],'mode':'spin'"));
	json_decref(fail_each(t, 0, "'container_get','name':'a'"));
	json_decref(fail_each(t, 0, "'map_drop','container':%u", id));
	json_decref(fail_each(t, 0, "'container_set','name':'a','host':'h1'"));
	json_decref(fail_each(t, 0, "'container_rm','name':'b'"));
	hello(t, 1);
	json_decref(fail_each(t, 1, "'host_register','host':'h1'"));
	json_decref(fail_each(t, 1, "'host_list'"));
	json_decref(fail_each(t, 1, "'container_list'"));
	json_decref(fail_each(t, 1, "'map_list'"));
}

/* The end of a host's connection, with its store call failing: served on. */
static void test_failing_goodbye(void **state)
{
	struct test *t = *state;

	router(t, 0);
	for (int n = 1; n <= 2; n++) {
		router(t, 1);
		faulty->fail_at = 1;
		close(t->fd[1]);
		t->fd[1] = -1;
		wait_conns(t, 1);
		assert_int_equal(faulty->fail_at, 0);
		expect_host(t, 0, "h1", false);
	}
}

static void test_store_unusable(void **state)
{
	struct test *t = *state;
	static const char *const bad_pool[] = { "10.0.0.0/33" };
	struct ffo_conf conf = { .store = "/nonexistent/ffo.db" };
	struct ffo *f = NULL;

	assert_int_equal(ffo_create(&conf, &t->loop, &f), -EIO);
	conf = (struct ffo_conf){ .pools = bad_pool, .num_pools = 1 };
	assert_int_equal(ffo_create(&conf, &t->loop, &f), -EINVAL);
	assert_null(f);
}

static void send_line(struct test *t, int i, const char *line)
{
	send_text(t, i, line, strlen(line));
	send_text(t, i, "\n", 1);
}

/* A change that ends later: the answer waits for it, others are served meanwhile. */
static void test_late_store(void **state)
{
	static const char add[] =
		"{\"id\":7,\"op\":\"container_add\",\"name\":\"a\",\"host\":\"h5\"}";
	struct test *t = *state;
	struct ffo_container c;

	router(t, 0);
	hello(t, 1);
	c = container(ask_ok(t, 0, "'container_add','name':'b'"));
	faulty->hold = true;
	send_line(t, 1, add);
	expect_silence(t, 1);
	assert_int_equal(count(ask_ok(t, 0, "'host_list'"), "hosts"), 1);
	release(0);
	c = container(receive(t, 1));
	expect_ip(&c, 0, "10.1.0.3");
	assert_int_equal(c.lid, 2);
	/* It fails in the end. */
	send_line(t, 0, "{\"id\":7,\"op\":\"map_drop\",\"container\":1}");
	expect_silence(t, 0);
	release(-ESHUTDOWN);
	expect_error(receive(t, 0), 7, "ESHUTDOWN");
	/* The client has left before that. */
	send_line(t, 1, "{\"id\":7,\"op\":\"container_rm\",\"name\":\"b\"}");
	expect_silence(t, 1);
	close(t->fd[1]);
	t->fd[1] = -1;
	wait_conns(t, 1);
	release(0);
	json_decref(event(t, 0, "detach"));
	ask_err(t, 0, "ENOENT", "'container_get','name':'b'");
	/* The orchestrator ends before that. */
	send_line(t, 0, "{\"id\":7,\"op\":\"container_rm\",\"name\":\"a\"}");
	expect_silence(t, 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(test_add),	       T(test_conflicts),	T(test_exhaustion),
		T(test_set),	       T(test_limits),		T(test_list_pages),
		T(test_restart),       T(test_hosts),		T(test_host_again),
		T(test_map_rows),      T(test_publish_many),	T(test_batch_limit),
		T(test_failing_store), T(test_failing_goodbye), T(test_store_unusable),
		T(test_late_store),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
