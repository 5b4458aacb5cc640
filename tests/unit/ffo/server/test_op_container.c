/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/ffo_rig.c ffr/lib/log.c */
/*
 * test_op_container.c - containers: added, changed, moved, listed, removed, and what is refused.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/rig/unit/ffo_rig.h"
#include "tests/rig/unit/unit.h"

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

/* What a container brings along from a store that is lost: all of it, or nothing. */
static void test_kept(void **state)
{
	static const char *const bad[] = {
		"'container':70,'ips':['10.1.0.3']",
		"'lid':9,'epoch':4,'ips':['10.1.0.3']",
		"'container':70,'lid':9,'ips':['10.1.0.3']",
		"'container':70,'lid':9,'epoch':4",
		"'container':2147483648,'lid':9,'epoch':4,'ips':['10.1.0.3']",
		"'container':70,'lid':49152,'epoch':4,'ips':['10.1.0.3']",
	};
	struct test *t = *state;
	struct ffo_container c;

	router(t, 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ask_err(t, 0, "EINVAL", "'container_add','name':'a',%s", bad[i]);
	c = container(ask_ok(t, 0,
			     "'container_add','name':'a','container':2147483647,'lid':49151,"
			     "'epoch':4294967295,'ips':['10.1.0.3']"));
	assert_int_equal(c.id, 0x7fffffff);
	assert_int_equal(c.lid, 49151);
	assert_int_equal(c.epoch, UINT32_MAX);
	c = container(ask_ok(t, 0, "'container_add','name':'b'")); /* ids go on above it */
	assert_int_equal(c.id, 0x80000000);
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
		"'container_add','name':'b','ips':['10.1.0.2','fd01::2','fd01::3','fd01::4','fd01::5',"
		"'fd01::6','fd01::7','fd01::8','fd01::a']");
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
	/* One in many networks. */
	c = container(ask_ok(t, 0,
			     "'container_set','name':'c','ips':['fd01::2','10.1.0.3','fd01::3',"
			     "'fd01::4','fd01::5','fd01::6','fd01::7','fd01::8']"));
	assert_int_equal(c.num_ips, 8);
	expect_ip(&c, 1, "10.1.0.3");
	expect_ip(&c, 7, "fd01::8");
	c = container(ask_ok(t, 0, "'container_set','name':'c','ips':['fd01::8']"));
	assert_int_equal(c.num_ips, 1);
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
	/* of an epoch that it had: somebody else has moved it */
	ask_err(t, 0, "ESTALE", "'container_set','name':'a','host':'h0','epoch':%u", a.epoch + 1);
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

/* They are said when it is added, and go with it. */
static void test_devices(void **state)
{
	struct test *t = *state;
	struct ffo_container c;

	router(t, 0);
	c = container(
		ask_ok(t, 0, "'container_add','name':'a','device_name':'mlx5_0','devices':4"));
	assert_string_equal(c.device_name, "mlx5_0");
	assert_int_equal(c.devices, 4);
	c = container(ask_ok(t, 0, "'container_add','name':'b'"));
	assert_string_equal(c.device_name, "");
	ask_err(t, 0, "EINVAL", "'container_add','name':'c','device_name':'a/b'");
	ask_err(t, 0, "EINVAL", "'container_add','name':'c','device_name':'..'");
	ask_err(t, 0, "EINVAL", "'container_add','name':'c','device_name':''");
	ask_err(t, 0, "EINVAL", "'container_add','name':'c','devices':17");
	ask_err(t, 0, "EINVAL",
		"'container_add','name':'c','devices':16,'device_name':"
		"'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx9'");
	ask_err(t, 0, "EINVAL", "'container_set','name':'a','device_name':'mlx5_1'");
	ask_err(t, 0, "ENOENT", "'container_get','name':'c'");
	c = container(ask_ok(t, 0, "'container_set','name':'a','host':'h1'"));
	assert_string_equal(c.device_name, "mlx5_0");
	assert_int_equal(c.devices, 4);
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

int main(void)
{
	return UNIT_RUN(FFO_T(test_add), FFO_T(test_kept), FFO_T(test_conflicts),
			FFO_T(test_exhaustion), FFO_T(test_set), FFO_T(test_devices),
			FFO_T(test_limits), FFO_T(test_list_pages), FFO_T(test_restart));
}
