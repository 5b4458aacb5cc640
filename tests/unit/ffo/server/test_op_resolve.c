/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/ffo_rig.c ffr/lib/log.c */
/*
 * test_op_resolve.c - who has an address, of which tenant, and who is told when that changes.
 */
#include <errno.h>

#include "tests/rig/unit/ffo_rig.h"
#include "tests/rig/unit/unit.h"

static void test_resolve(void **state)
{
	struct test *t = *state;
	json_t *msg;

	router_at(t, 0, "1");
	expect_resolved(ask_ok(t, 0, "'resolve','ip':'10.1.0.2'"), "-", "-", 0);
	expect_resolved(ask_ok(t, 0, "'resolve','lid':1"), "-", "-", 0);
	expect_resolved(ask_ok(t, 0, "'resolve','container':1"), "-", "-", 0);
	expect_resolved(ask_ok(t, 0, "'resolve','ip':'10.1.0.2','tenant':'big'"), "-", "-", 0);

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
		expect_resolved(msg, "a", "-", 0);
	}
	expect_silence(t, 0);
	json_decref(ask_ok(t, 0, "'unresolve','lid':1"));
	json_decref(ask_ok(t, 0, "'unresolve','container':1"));
	ask_err(t, 0, "ENOENT", "'unresolve','container':1");

	/* Its host comes, leaves, comes; the container moves, changes, goes. */
	router_at(t, 2, "1");
	expect_resolved(event(t, 0, "resolve"), "a", "h2", 1);
	router_leaves(t, 2);
	expect_resolved(event(t, 0, "resolve"), "a", "h2", 0);
	router_at(t, 2, "2");
	msg = event(t, 0, "resolve");
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(msg, "host"), "wire")),
		"tcp:192.0.2.2:7471");
	expect_resolved(msg, "a", "h2", 1);
	json_decref(ask_ok(t, 1, "'container_set','name':'a','host':'h1'"));
	msg = event(t, 0, "resolve");
	assert_int_equal(
		json_integer_value(json_object_get(json_object_get(msg, "container"), "epoch")), 2);
	expect_resolved(msg, "a", "h1", 1);
	/* It asks again: the answer of now. */
	expect_resolved(ask_ok(t, 0, "'resolve','ip':'10.1.0.2'"), "a", "h1", 1);
	json_decref(ask_ok(t, 1, "'container_rm','name':'a'"));
	expect_resolved(event(t, 0, "resolve"), "-", "-", 0);
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
	expect_resolved(ask_ok(t, 0, "'resolve','tenant':'blue','ip':'10.2.0.5'"), "-", "-", 0);
	expect_resolved(ask_ok(t, 0, "'resolve','tenant':'blue','lid':1"), "-", "-", 0);
	expect_resolved(ask_ok(t, 0, "'resolve','tenant':'red','lid':1"), "r", "h0", 1);
	json_decref(ask_ok(t, 0, "'policy_set','a':'red','b':'blue/web','action':'allow'"));
	expect_resolved(event(t, 0, "resolve"), "r", "h0", 1);
	expect_resolved(event(t, 0, "resolve"), "r", "h0", 1); /* by LID, too */
	json_decref(ask_ok(t, 0, "'policy_set','a':'green/x','b':'blue','action':'allow'"));
	expect_silence(t, 0); /* g is not x */
	json_decref(ask_ok(t, 0, "'policy_set','a':'green','b':'blue','action':'allow'"));
	expect_resolved(event(t, 0, "resolve"), "g", "h0", 1); /* its name is the first */
	json_decref(ask_ok(t, 0, "'container_add','name':'b','tenant':'blue','ips':['10.2.0.5']"));
	expect_resolved(event(t, 0, "resolve"), "b", "h0", 1);
	json_decref(ask_ok(t, 0, "'container_rm','name':'b'"));
	expect_resolved(event(t, 0, "resolve"), "g", "h0", 1);
	json_decref(ask_ok(t, 0, "'policy_rm','a':'blue','b':'green'"));
	expect_resolved(event(t, 0, "resolve"), "r", "h0", 1);
	json_decref(ask_ok(t, 0, "'policy_set','a':'red','b':'blue/web','action':'deny'"));
	expect_resolved(event(t, 0, "resolve"), "-", "-", 0);
	expect_resolved(event(t, 0, "resolve"), "-", "-", 0);
}

int main(void)
{
	return UNIT_RUN(FFO_T(test_resolve), FFO_T(test_resolve_tenants));
}
