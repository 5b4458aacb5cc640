/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/ffo_rig.c ffr/lib/log.c */
/*
 * test_sub.c - subscriptions that fail, and too many of them.
 */
#include <errno.h>

#include "tests/rig/unit/ffo_rig.h"
#include "tests/rig/unit/unit.h"

/* Reading what the answer needs fails: told so, and nothing stays behind. */
static void test_watch_failure(void **state)
{
	struct test *t = *state;

	router(t, 0);
	faulty->fail_at = 1;
	ask_err(t, 0, "EIO", "'resolve','lid':1");
	faulty->fail_at = 1;
	ask_err(t, 0, "EIO", "'mcast_watch','tenant':'blue','mgid':'ff0e::7'");
	expect_resolved(ask_ok(t, 0, "'resolve','lid':1"), "-", "-", 0);
	hello(t, 1);
	for (int n = 1; n <= 3; n++) { /* which store it is, the host, its containers */
		faulty->fail_at = n;
		ask_err(t, 1, "EIO", "'host_register','host':'h1'");
	}
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
	return UNIT_RUN(FFO_T(test_watch_failure), FFO_T(test_too_many));
}
