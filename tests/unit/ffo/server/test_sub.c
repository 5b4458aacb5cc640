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

/* A client that reads nothing: no more events are made than there is room for. */
static void test_no_room(void **state)
{
	struct test *t = *state;
	struct conn *c;

	router(t, 0);
	for (unsigned int i = 1; i <= CONTS; i++)
		json_decref(ask_ok(t, 0, "'container_add','name':'c%u'", i));
	router(t, 1);
	c = LIST_FIRST(&t->ffo->conns);
	t->ffo->write_timeout = 1000000;
	for (unsigned int i = 1; i <= CONTS; i++)
		json_decref(ask_ok(t, 1, "'map_watch','container':%u", i));
	for (uint32_t first = 0; first < 60 * BATCH; first += BATCH)
		publish_batch(t, first);
	assert_true(uv_stream_get_write_queue_size(&c->stream) < 2 * FFO_LINE_MAX);
}

/* It ends after it has changed, and before that was told. */
static void test_ends_untold(void **state)
{
	struct test *t = *state;
	struct conn *c;

	router(t, 0);
	json_decref(ask_ok(t, 0, "'container_add','name':'a'"));
	json_decref(ask_ok(t, 0, "'resolve','container':1"));
	c = LIST_FIRST(&t->ffo->conns);
	assert_int_equal(HASH_COUNT(c->subs), 1);
	sub_changed(c->subs);
	assert_false(TAILQ_EMPTY(&c->to_tell));
	subs_stop(c);
	assert_true(TAILQ_EMPTY(&c->to_tell));
	expect_silence(t, 0);
}

int main(void)
{
	return UNIT_RUN(FFO_T(test_watch_failure), FFO_T(test_too_many), FFO_T(test_no_room),
			FFO_T(test_ends_untold));
}
