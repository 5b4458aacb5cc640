/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/ffo_rig.c ffr/lib/log.c */
/*
 * test_dry_run.c - changes that are only tried: the answer is that of the change, nothing has
 * changed, and nobody is told.
 */
#include <errno.h>

#include "tests/rig/unit/ffo_rig.h"
#include "tests/rig/unit/unit.h"

/* Neither the id, nor an address, nor the LID is taken by it. */
static void test_add(void **state)
{
	struct test *t = *state;
	struct ffo_container tried, added;

	router(t, 0);
	hello(t, 1);
	tried = container(ask_ok(t, 1, "'container_add','name':'web','host':'h0','dry_run':1"));
	ask_err(t, 1, "ENOENT", "'container_get','name':'web'");
	added = container(ask_ok(t, 1, "'container_add','name':'db','host':'h0'"));
	assert_int_equal(tried.id, added.id);
	assert_int_equal(tried.lid, added.lid);
	assert_memory_equal(tried.ip, added.ip, sizeof(added.ip));
	json_decref(event(t, 0, "attach"));
	ask_err(t, 1, "EEXIST", "'container_add','name':'db','host':'h0','dry_run':1");
	ask_err(t, 1, "EADDRINUSE",
		"'container_add','name':'web','host':'h0','ips':['10.1.0.2'],'dry_run':1");
	tried = container(ask_ok(
		t, 1, "'container_add','name':'web','host':'h0','ips':['10.1.0.9'],'dry_run':1"));
	added = container(
		ask_ok(t, 1, "'container_add','name':'web','host':'h0','ips':['10.1.0.9']"));
	assert_int_equal(tried.id, added.id);
	json_decref(event(t, 0, "attach"));
	expect_silence(t, 0);
}

static void test_set_and_rm(void **state)
{
	struct test *t = *state;
	struct ffo_container c;

	router(t, 0);
	router(t, 1);
	hello(t, 2);
	json_decref(ask_ok(t, 0, "'container_add','name':'web','ips':['10.1.0.2']"));
	c = container(ask_ok(
		t, 2,
		"'container_set','name':'web','ips':['10.1.0.3'],'limits':{'max_qp':5},'dry_run':1"));
	expect_ip(&c, 0, "10.1.0.3");
	assert_int_equal(c.limits.max_qp, 5);
	/* a move, with all that goes with it */
	json_decref(ask_ok(t, 0, "'container_active','container':%u,'active':1", c.id));
	ask_err(t, 2, "EBUSY", "'container_set','name':'web','host':'h1','dry_run':1");
	c = container(
		ask_ok(t, 2, "'container_set','name':'web','host':'h1','force':1,'dry_run':1"));
	assert_string_equal(c.host, "h1");
	assert_int_equal(c.epoch, 2);
	ask_err(t, 2, "ESTALE", "'container_set','name':'web','host':'h1','epoch':9,'dry_run':1");
	json_decref(ask_ok(t, 2, "'container_rm','name':'web','dry_run':1"));
	ask_err(t, 2, "ENOENT", "'container_rm','name':'db','dry_run':1");
	c = container(ask_ok(t, 2, "'container_get','name':'web'"));
	expect_ip(&c, 0, "10.1.0.2");
	assert_string_equal(c.host, "h0");
	assert_int_equal(c.epoch, 1);
	assert_true(c.active);
	assert_int_equal(c.limits.max_qp, 0);
	expect_silence(t, 0);
	expect_silence(t, 1);
	/* the address that it would have had is free, and its own is not */
	json_decref(ask_ok(t, 0, "'container_add','name':'db','ips':['10.1.0.3']"));
	ask_err(t, 0, "EADDRINUSE", "'container_add','name':'x','ips':['10.1.0.2']");
	json_decref(ask_ok(t, 0, "'container_rm','name':'web'"));
}

static void test_policy_and_tenants(void **state)
{
	struct test *t = *state;

	router(t, 0);
	hello(t, 1);
	json_decref(ask_ok(t, 0, "'policy_watch'"));
	json_decref(ask_ok(t, 0, "'tenant_watch'"));
	json_decref(ask_ok(t, 1, "'policy_set','a':'red','b':'blue','action':'allow','dry_run':1"));
	ask_err(t, 1, "ENOENT", "'policy_rm','a':'red','b':'blue','dry_run':1");
	json_decref(ask_ok(t, 1, "'tenant_set','tenant':'red','limits':{'max_qp':1},'dry_run':1"));
	assert_int_equal(count(ask_ok(t, 1, "'tenant_list'"), "tenants"), 0);
	expect_silence(t, 0);
	json_decref(ask_ok(t, 1, "'policy_set','a':'red','b':'blue','action':'allow'"));
	json_decref(event(t, 0, "policy"));
	json_decref(ask_ok(t, 1, "'policy_rm','a':'red','b':'blue','dry_run':1"));
	assert_int_equal(count(ask_ok(t, 1, "'policy_list'"), "rules"), 1);
	expect_silence(t, 0);
}

static void test_refused(void **state)
{
	struct test *t = *state;

	router(t, 0);
	ask_err(t, 0, "EINVAL", "'container_add','name':'web','dry_run':2");
	faulty->fail_at = 1;
	ask_err(t, 0, "EOPNOTSUPP", "'container_add','name':'web','dry_run':1");
	faulty->fail_at = 1;
	ask_err(t, 0, "EOPNOTSUPP", "'policy_set','a':'a','b':'b','action':'deny','dry_run':1");
	assert_int_equal(count(ask_ok(t, 0, "'container_list'"), "containers"), 0);
	assert_int_equal(count(ask_ok(t, 0, "'policy_list'"), "rules"), 0);
}

int main(void)
{
	return UNIT_RUN(FFO_T(test_add), FFO_T(test_set_and_rm), FFO_T(test_policy_and_tenants),
			FFO_T(test_refused));
}
