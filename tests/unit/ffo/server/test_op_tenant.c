/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/ffo_rig.c ffr/lib/log.c */
/*
 * test_op_tenant.c - tenants' limits, and who is told of them.
 */
#include <errno.h>

#include "tests/rig/unit/ffo_rig.h"
#include "tests/rig/unit/unit.h"

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

/* Limits that cannot be read stay as they are. */
static void test_unreadable(void **state)
{
	static const struct store_news news = { .err = -EIO };
	struct test *t = *state;

	hello(t, 0);
	json_decref(ask_ok(t, 0, "'tenant_set','tenant':'red','limits':{'max_qp':7}"));
	for (unsigned i = 0; i < 20 && !t->ffo->num_tenants; i++)
		uv_run(&t->loop, UV_RUN_NOWAIT);
	assert_int_equal(t->ffo->num_tenants, 1);
	t->ffo->tenants_watch.cb(t->ffo->tenants_watch.arg, &news);
	assert_int_equal(t->ffo->num_tenants, 1);
}

int main(void)
{
	return UNIT_RUN(FFO_T(test_unreadable), FFO_T(test_tenants));
}
