/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/ffo_rig.c ffr/lib/log.c */
/*
 * test_op_store.c - a copy of the store, read piece by piece.
 */
#include <errno.h>
#include <openssl/evp.h>
#include <sqlite3.h>

#include "ffo/server/op_store.c"
#include "tests/rig/unit/ffo_rig.h"
#include "tests/rig/unit/unit.h"

#define MANY 1000u /* containers that take more than one piece */

struct image {
	unsigned char *data;
	size_t size, have;
	uint32_t copy;
};

static void take(struct image *im, json_t *msg)
{
	const char *text = json_string_value(json_object_get(msg, "piece"));
	size_t len = strlen(text), n = len / 4 * 3;

	for (; len && text[len - 1] == '='; len--)
		n--;
	im->copy = (uint32_t)json_integer_value(json_object_get(msg, "copy"));
	im->size = (size_t)json_integer_value(json_object_get(msg, "size"));
	im->data = im->data ?: malloc(im->size + 3);
	assert_true(im->have + n <= im->size);
	assert_true(EVP_DecodeBlock(im->data + im->have, (const unsigned char *)text,
				    (int)strlen(text)) >= 0);
	im->have += n;
	json_decref(msg);
}

static void add(struct test *t, unsigned n)
{
	json_decref(ask_ok(
		t, 0,
		"'container_add','name':'c%u','ips':['10.2.%u.%u'],'limits':{'tx_rate':1000000}", n,
		n >> 8, n & 255));
}

/* The number of containers in it. */
static long containers(const struct image *im)
{
	sqlite3_stmt *stmt;
	sqlite3 *db;
	long n;

	assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
	assert_int_equal(sqlite3_deserialize(db, "main", im->data, (sqlite3_int64)im->size,
					     (sqlite3_int64)im->size, SQLITE_DESERIALIZE_READONLY),
			 SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, "SELECT count(*) FROM containers", -1, &stmt, NULL),
			 SQLITE_OK);
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	n = (long)sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	return n;
}

/* What changes meanwhile is not in the copy. */
static void test_pieces(void **state)
{
	struct test *t = *state;
	struct image im = { 0 };
	unsigned pieces = 1;

	router(t, 0);
	for (unsigned i = 0; i < MANY; i++)
		add(t, i);
	take(&im, ask_ok(t, 0, "'store_backup'"));
	for (; im.have < im.size; pieces++) {
		add(t, MANY + pieces);
		take(&im, ask_ok(t, 0, "'store_backup','copy':%u,'offset':%zu", im.copy, im.have));
	}
	assert_true(pieces > 1);
	assert_int_equal(containers(&im), MANY);
	assert_null(t->ffo->copy.data); /* it has been read */
	ask_err(t, 0, "ESTALE", "'store_backup','copy':%u,'offset':0", im.copy);
	free(im.data);
}

static void test_another(void **state)
{
	struct test *t = *state;
	json_t *msg;

	router(t, 0);
	hello(t, 1);
	for (unsigned i = 0; i < MANY; i++)
		add(t, i);
	msg = ask_ok(t, 0, "'store_backup'");
	json_decref(ask_ok(t, 1, "'store_backup'"));
	ask_err(t, 0, "ESTALE", "'store_backup','copy':%d,'offset':5",
		(int)json_integer_value(json_object_get(msg, "copy")));
	ask_err(t, 0, "EINVAL", "'store_backup','copy':%u,'offset':%zu", t->ffo->copy.number,
		t->ffo->copy.size);
	expired(&t->ffo->copy.timer);
	assert_null(t->ffo->copy.data);
	ask_err(t, 1, "ESTALE", "'store_backup','copy':%u,'offset':5", t->ffo->copy.number);
	json_decref(msg);
}

static void test_failure(void **state)
{
	struct test *t = *state;

	hello(t, 0);
	faulty->fail_at = 1;
	ask_err(t, 0, "EIO", "'store_backup'");
	assert_null(t->ffo->copy.data);
}

int main(void)
{
	return UNIT_RUN(FFO_T(test_pieces), FFO_T(test_another), FFO_T(test_failure));
}
