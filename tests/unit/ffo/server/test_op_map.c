/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/ffo_rig.c ffr/lib/log.c */
/*
 * test_op_map.c - mappings: published, withdrawn, listed, by thousands.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/unit/ffo_rig.h"
#include "tests/rig/unit/unit.h"

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

/* A router withdraws and drops its own containers' only, and the rkey asked for is the one answered. */
static void test_map_owner(void **state)
{
	struct test *t = *state;
	json_t *msg;

	router(t, 0);
	router(t, 1);
	json_decref(ask_ok(t, 0, "'container_add','name':'a'"));
	json_decref(ask_ok(t, 1, "'container_add','name':'b'"));
	json_decref(ask_ok(t, 0, "'map_publish','maps':[[1,9,1,0,4096,7,0,5,1]]"));
	json_decref(ask_ok(t, 1, "'map_publish','maps':[[2,9,1,0,4096,7,0,5,1]]"));

	msg = ask_ok(t, 1, "'map_withdraw','maps':[[1,9]]");
	assert_int_equal(json_integer_value(json_object_get(msg, "removed")), 0);
	json_decref(msg);
	assert_int_equal(count(ask_ok(t, 0, "'map_list','container':1"), "maps"), 1);
	ask_err(t, 1, "ENOENT", "'map_drop','container':1");
	assert_int_equal(count(ask_ok(t, 0, "'map_list','container':1"), "maps"), 1);
	msg = ask_ok(t, 1, "'map_withdraw','maps':[[1,9],[2,9]]");
	assert_int_equal(json_integer_value(json_object_get(msg, "removed")), 1);
	json_decref(msg);
	assert_int_equal(count(ask_ok(t, 0, "'map_list'"), "maps"), 1);

	json_decref(ask_ok(t, 0, "'map_get','container':1,'rkey':9"));
	ask_err(t, 0, "ENOENT", "'map_get','container':1,'rkey':8");
	ask_err(t, 0, "ENOENT", "'map_get','container':1,'rkey':10");
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
	start_us = rig_now_us();
	for (uint32_t i = 0; i < MAPS; i += BATCH)
		publish_batch(t, i);
	us = rig_now_us() - start_us;
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
		msg = publish_rows(t, rows);
		if (n <= FFO_BATCH_MAX)
			json_decref(msg);
		else
			expect_error(msg, 1, "EINVAL");
	}
	assert_int_equal(count(ask_ok(t, 0, "'map_list'"), "maps"), FFO_BATCH_MAX);
}

int main(void)
{
	return UNIT_RUN(FFO_T(test_map_rows), FFO_T(test_map_owner), FFO_T(test_publish_many),
			FFO_T(test_batch_limit));
}
