/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_heat.c - ffr/mem/heat.c: when a part of an MR is told of, and what its bounds are.
 */
#include <stdlib.h>

#include "tests/rig/unit/unit.h"
#include "ffr/mem/heat.h"

#define MB   ((uint64_t)1 << 20)
#define PART FF_HEAT_SLICE /* bytes of a part that is not larger than it must be */
#define BIT  65536u	   /* bytes of a copy */

static struct session ses;
static struct mr mr;
static struct heat_ring ring;
static unsigned woken;

static void wake(void *arg)
{
	assert_ptr_equal(arg, &ring);
	woken++;
}

/* An MR of a session that wants to be told. */
static void begin(uint64_t addr, uint64_t length)
{
	ring = (struct heat_ring){ .wake = wake, .arg = &ring };
	woken = 0;
	ses = (struct session){ .mem = { .hot = &ring } };
	mr = (struct mr){ .o = { .handle = 0x70001, .ses = &ses }, .addr = addr, .length = length };
	mr.heat = heat_new(&mr);
}

static void end(void)
{
	free(mr.heat);
}

/* What is in the ring: true, and *e. */
static bool told(struct heat_part *e)
{
	const struct heat_part *first = heat_first(&ring);

	if (!first)
		return false;
	*e = *first;
	heat_took(&ring);
	assert_true(woken--);
	return true;
}

static void use(uint64_t from, uint64_t len)
{
	for (uint64_t at = 0; at < len; at += BIT)
		heat_used(&mr, from + at, (uint32_t)(len - at < BIT ? len - at : BIT));
}

/* As often as it takes so that the next use is one too many. */
static void use_up(uint64_t from, uint64_t len)
{
	for (unsigned i = 0; i < HEAT_TIMES; i++)
		use(from, len);
}

static void a_part_is_hot_when_it_is_used_again(void **state)
{
	struct heat_part e;

	(void)state;
	begin(16 * PART, 3 * PART);
	assert_non_null(mr.heat);
	use_up(17 * PART, PART);
	assert_false(told(&e));
	use(18 * PART - BIT, BIT);
	assert_true(told(&e));
	assert_int_equal(e.mr, 0x70001);
	assert_int_equal(e.va, 17 * PART);
	assert_int_equal(e.len, PART);
	assert_int_not_equal(e.at, 0);
	/* once */
	use_up(17 * PART, PART);
	use_up(17 * PART, PART);
	assert_false(told(&e));
	/* and the others for themselves */
	use_up(16 * PART, 3 * PART);
	assert_false(told(&e));
	use(16 * PART, 3 * PART);
	assert_true(told(&e));
	assert_int_equal(e.va, 16 * PART);
	assert_true(told(&e));
	assert_int_equal(e.va, 18 * PART);
	assert_false(told(&e));
	end();
}

/* What an MR has that is less than a part: its own bytes count. */
static void a_part_that_is_all_of_the_mr(void **state)
{
	struct heat_part e;

	(void)state;
	begin(16 * MB, MB);
	assert_int_equal(mr.heat->num, 1);
	use_up(16 * MB, MB);
	assert_false(told(&e));
	use(16 * MB, BIT);
	assert_true(told(&e));
	assert_int_equal(e.va, 16 * MB);
	assert_int_equal(e.len, MB);
	end();
}

static void short_uses_count_as_well(void **state)
{
	struct heat_part e;

	(void)state;
	begin(16 * PART, 2 * PART);
	for (unsigned i = 0; i < HEAT_TIMES * PART / HEAT_USE; i++)
		heat_used(&mr, 16 * PART + i, 8);
	assert_false(told(&e));
	heat_used(&mr, 16 * PART, 8);
	assert_true(told(&e));
	assert_int_equal(e.va, 16 * PART);
	end();
}

/* Parts begin with pages, and the first and the last one end with the MR. */
static void the_ends_are_the_mrs(void **state)
{
	struct heat_part e;

	(void)state;
	begin(16 * PART + 100, 2 * PART + 50);
	assert_int_equal(mr.heat->base, 16 * PART);
	assert_int_equal(mr.heat->num, 3);
	use_up(16 * PART + 100, 2 * PART + 50);
	assert_false(told(&e));
	use(16 * PART + 100, 2 * PART + 50);
	assert_true(told(&e));
	assert_int_equal(e.va, 16 * PART + 100);
	assert_int_equal(e.len, PART - 100);
	assert_true(told(&e));
	assert_int_equal(e.va, 17 * PART);
	assert_int_equal(e.len, PART);
	assert_false(told(&e));
	for (unsigned i = 0; i < HEAT_TIMES * PART / HEAT_USE; i++)
		heat_used(&mr, 18 * PART + 149, 1);
	assert_true(told(&e));
	assert_int_equal(e.va, 18 * PART);
	assert_int_equal(e.len, 150);
	end();
}

/* However large a client says that it is. */
static void so_many_parts_at_most(void **state)
{
	static const uint64_t length[] = { MB,	       1023 * MB,  1024 * MB,  1025 * MB,
					   1ull << 40, 1ull << 45, 1ull << 50, UINT64_MAX >> 1 };
	struct heat_part e;

	(void)state;
	for (unsigned i = 0; i < sizeof(length) / sizeof(length[0]); i++) {
		uint64_t last = 4096 + length[i] - 1;

		begin(4096, length[i]);
		assert_non_null(mr.heat);
		assert_true(mr.heat->num && mr.heat->num <= HEAT_PARTS);
		for (unsigned k = 0; k < 1000; k++) {
			heat_used(&mr, last, 1);
			heat_used(&mr, 4096, UINT32_MAX);
		}
		assert_true(told(&e));
		assert_true(e.va >= 4096 && e.len && e.va - 4096 <= length[i] - e.len);
		end();
	}
}

static void what_is_not_counted(void **state)
{
	(void)state;
	begin(16 * MB, HEAT_MIN - 1);
	assert_null(mr.heat);
	end();
	begin(16 * MB, 2 * MB);
	free(mr.heat);
	mr.zero_copy = 2 * MB - HEAT_MIN + 1;
	mr.heat = heat_new(&mr);
	assert_null(mr.heat); /* most of it is mapped */
	mr.zero_copy = 0;
	mr.kind = MR_DMABUF;
	assert_null(heat_new(&mr));
	mr.kind = MR_USER;
	ses.mem.hot = NULL;
	assert_null(heat_new(&mr)); /* nobody wants to know */
	ses.mem.hot = &ring;
	heat_used(&mr, 16 * MB, 8); /* does nothing */
	end();
}

/* What the control thread does not take out: nothing waits, and it is told later. */
static void a_full_ring(void **state)
{
	struct heat_part e;
	uint64_t n = 0, num = 1024;

	(void)state;
	begin(0, num * PART - 1);
	assert_int_equal(mr.heat->num, num);
	use_up(0, num * PART - 1);
	assert_false(told(&e));
	use(0, num * PART - 1);
	while (told(&e))
		assert_int_equal(e.va, PART * n++);
	assert_int_equal(n, HEAT_RING);
	use(n * PART, BIT); /* the next use of each */
	assert_true(told(&e));
	assert_int_equal(e.va, n * PART);
	assert_false(told(&e));
	/* over its end */
	for (n++; n < num; n++) {
		use(n * PART, BIT);
		assert_true(told(&e));
		assert_int_equal(e.va, n * PART);
	}
	assert_false(told(&e));
	end();
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(a_part_is_hot_when_it_is_used_again),
			cmocka_unit_test(a_part_that_is_all_of_the_mr),
			cmocka_unit_test(short_uses_count_as_well),
			cmocka_unit_test(the_ends_are_the_mrs),
			cmocka_unit_test(so_many_parts_at_most),
			cmocka_unit_test(what_is_not_counted), cmocka_unit_test(a_full_ring));
}
