/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/ffo_rig.c ffr/lib/log.c */
/*
 * test_op_policy.c - rules, and who is told of them.
 */
#include <errno.h>

#include "tests/rig/unit/ffo_rig.h"
#include "tests/rig/unit/unit.h"

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

/* A policy that cannot be read keeps tenants apart. */
static void test_unreadable(void **state)
{
	static const struct store_news news = { .err = -EIO };
	struct test *t = *state;

	hello(t, 0);
	json_decref(ask_ok(t, 0, "'policy_set','a':'red','b':'blue','action':'allow'"));
	for (unsigned i = 0; i < 20 && !t->ffo->num_rules; i++)
		uv_run(&t->loop, UV_RUN_NOWAIT);
	assert_int_equal(t->ffo->num_rules, 1);
	t->ffo->policy_watch.cb(t->ffo->policy_watch.arg, &news);
	assert_int_equal(t->ffo->num_rules, 0);
}

int main(void)
{
	return UNIT_RUN(FFO_T(test_unreadable), FFO_T(test_policy));
}
