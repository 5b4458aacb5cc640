/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/ffo_rig.c ffr/lib/log.c */
/*
 * test_op_map_watch.c - mappings of others' containers as they come and go; a watcher that is slow.
 */
#include <errno.h>
#include <stdio.h>

#include "tests/rig/unit/ffo_rig.h"
#include "tests/rig/unit/unit.h"

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
	expect_resolved(msg, "a", "h0", 1);
	json_decref(ask_ok(t, 1, "'map_get','ip':'10.1.0.2','rkey':6"));
	ask_err(t, 1, "ENOENT", "'map_get','ip':'10.1.0.2','tenant':'red','rkey':6");
	ask_err(t, 1, "ENOENT", "'map_get','container':1,'rkey':5");
	ask_err(t, 1, "ENOENT", "'map_get','container':2,'rkey':5");
	ask_err(t, 1, "EINVAL", "'map_get','container':1,'name':'a','rkey':5");
	ask_err(t, 1, "EINVAL", "'map_get','container':1,'rkey':0");

	/* Its host goes, comes; the container moves; goes. */
	router_leaves(t, 0);
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

/* Rows number first..first + n of container 1, with that length. */
static void publish_some(struct test *t, uint32_t first, uint32_t n, unsigned length)
{
	json_t *rows = json_array();

	for (uint32_t i = first; i < first + n; i++)
		json_array_append_new(rows, json_pack("[i,i,i,i,i,i,i,i,i]", 1, (int)i, 1, 0,
						      (int)length, 7, 0, 5, 1));
	json_decref(publish_rows(t, rows));
}

/* Until so much waits for a watcher which does not read that no more events are made. */
static void fill(struct test *t, const struct conn *c)
{
	while (conn_has_room(c))
		uv_run(&t->loop, UV_RUN_ONCE);
}

/*
 * A listing of several events, of which the watcher has read none: what changes meanwhile is told.
 */
static void test_map_long_listing(void **state)
{
	enum { ROWS = 40000, PIECE = 1000 };
	struct test *t = *state;
	json_t *rows = json_object();
	struct conn *c;
	uint32_t epoch;

	router(t, 0);
	json_decref(ask_ok(t, 0, "'container_add','name':'a'"));
	for (uint32_t i = 1; i < ROWS; i += PIECE)
		publish_some(t, i, PIECE, 4096);
	router(t, 1);
	c = LIST_FIRST(&t->ffo->conns);
	json_decref(ask_ok(t, 1, "'map_watch','container':1"));
	fill(t, c);
	json_decref(ask_ok(t, 0, "'map_withdraw','maps':[[1,1]]"));	   /* listed already */
	json_decref(ask_ok(t, 0, "'map_withdraw','maps':[[1,%u]]", ROWS)); /* not yet */
	while (follow(t, 1, rows, &epoch) != ROWS - 2)
		;
	expect_silence(t, 1);
	json_decref(rows);
}

/* More has changed than is kept for a watcher that does not read: all is listed anew. */
static void test_map_many_changes(void **state)
{
	enum { ROWS = 1000, ROUNDS = 100 };
	struct test *t = *state;
	json_t *rows = json_object(), *msg;
	bool reset = false;
	struct conn *c;
	uint32_t epoch;

	router(t, 0);
	json_decref(ask_ok(t, 0, "'container_add','name':'a'"));
	router(t, 1);
	c = LIST_FIRST(&t->ffo->conns);
	json_decref(ask_ok(t, 1, "'map_watch','container':1"));
	assert_int_equal(follow(t, 1, rows, &epoch), 0);
	for (unsigned i = 1; conn_has_room(c); i++)
		publish_some(t, 1, ROWS, 4096 * i);
	for (unsigned i = 1; i <= ROUNDS; i++)
		publish_some(t, 1, ROWS, 8192 * i);
	do {
		msg = event(t, 1, "map");
		reset = json_is_true(json_object_get(msg, "reset"));
		json_decref(msg);
	} while (!reset);
	json_decref(rows);
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
	start_us = rig_now_us();
	for (uint32_t i = 0; i < 20000; i += BATCH) {
		publish_batch(t, i);
		while (got < i + BATCH) {
			msg = event(t, 1, "map");
			got += count(msg, "put");
		}
	}
	us = rig_now_us() - start_us;
	print_message("20000 mappings published and told, %u a batch: %.0f a second\n", BATCH,
		      20000 * 1e6 / (double)us);
}

int main(void)
{
	return UNIT_RUN(FFO_T(test_map_watch), FFO_T(test_map_slow_watcher),
			FFO_T(test_map_long_listing), FFO_T(test_map_many_changes),
			FFO_T(test_map_rate));
}
