/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_table.c - ffl/session/table.c: which object a handle names.
 *
 * build: ffl/session/table.c
 */
#include "ffl/session/ffl.h"
#include "tests/rig/unit/unit.h"

#define GENERATION 0x10000u /* the first bit of a handle above its index */
#define MANY	   100u	    /* more than a table begins with */

static struct ffl_context ctx;

static int setup(void **state)
{
	(void)state;
	ctx = (struct ffl_context){ 0 };
	return pthread_mutex_init(&ctx.table_lock, NULL);
}

static int teardown(void **state)
{
	(void)state;
	for (int kind = 0; kind < FFL_NUM_KINDS; kind++)
		free(ctx.table[kind].slot);
	return 0;
}

/* A slot that was given away again: the old handle names nothing, and its end ends nothing. */
static void generations(void **state)
{
	const uint32_t old = GENERATION | 3, new = 2 * GENERATION | 3;
	int a, b;

	(void)state;
	assert_null(ffl_table_get(&ctx, FFL_QP, old));
	assert_int_equal(ffl_table_put(&ctx, FFL_QP, old, &a), 0);
	assert_ptr_equal(ffl_table_get(&ctx, FFL_QP, old), &a);
	assert_null(ffl_table_get(&ctx, FFL_QP, new));
	assert_null(ffl_table_get(&ctx, FFL_CQ, old)); /* each kind has a table of its own */
	assert_int_equal(ffl_table_put(&ctx, FFL_QP, new, &b), 0);
	assert_null(ffl_table_get(&ctx, FFL_QP, old));
	ffl_table_del(&ctx, FFL_QP, old);
	assert_ptr_equal(ffl_table_get(&ctx, FFL_QP, new), &b);
	ffl_table_del(&ctx, FFL_QP, new);
	assert_null(ffl_table_get(&ctx, FFL_QP, new));
	assert_null(ffl_table_get(&ctx, FFL_QP, 0)); /* no object's handle */
	ffl_table_del(&ctx, FFL_QP, GENERATION | 5000);
}

/* A table that grows keeps what is in it. */
static void growth(void **state)
{
	int obj[MANY];

	(void)state;
	for (uint32_t i = 0; i < MANY; i++)
		assert_int_equal(ffl_table_put(&ctx, FFL_SRQ, GENERATION | i, &obj[i]), 0);
	for (uint32_t i = 0; i < MANY; i++)
		assert_ptr_equal(ffl_table_get(&ctx, FFL_SRQ, GENERATION | i), &obj[i]);
	assert_int_equal(ffl_table_put(&ctx, FFL_SRQ, GENERATION | 5000, &obj), 0);
	assert_ptr_equal(ffl_table_get(&ctx, FFL_SRQ, GENERATION | (MANY - 1)), &obj[MANY - 1]);
	assert_null(ffl_table_get(&ctx, FFL_SRQ, GENERATION | 4999));
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

	return UNIT_RUN(T(generations), T(growth));
}
