/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/ffo_rig.c ffr/lib/log.c */
/*
 * test_op_mcast.c - groups: who is in them, and who is told.
 */
#include <errno.h>

#include "tests/rig/unit/ffo_rig.h"
#include "tests/rig/unit/unit.h"

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
	router_leaves(t, 2); /* membership dies with its host's session */
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

int main(void)
{
	return UNIT_RUN(FFO_T(test_groups));
}
