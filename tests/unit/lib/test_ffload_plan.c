/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/ffload/ffload_plan.c */
/*
 * test_ffload_plan.c - what the load's two ends rely on without telling each other: the plan is a
 * function, has something with a completion in each half window, and no slot is in use twice.
 */
#include <string.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/ffload/ffload.h"

static struct load_plan plan_of(uint32_t min, uint32_t max)
{
	struct load_plan plan = { .run = 0x1234567890abcdefull,
				  .lane = 3,
				  .min = min,
				  .max = max,
				  .window = 16,
				  .receives = 8,
				  .timeout = 14,
				  .retry = 7,
				  .mtu = IBV_MTU_4096 };

	for (unsigned i = 0; i < OP_NUM; i++)
		plan.weight[i] = 1;
	return plan;
}

static void lengths(void **state)
{
	static const uint32_t ranges[][2] = { { 1, 1 },	       { 1, 2 },      { 8, 8 },
					      { 1, 1u << 20 }, { 100, 1000 }, { 4096, 4097 } };

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(ranges); i++) {
		struct load_plan plan = plan_of(ranges[i][0], ranges[i][1]);
		bool most = false, small = false;
		struct load_item item;

		assert_true(plan_valid(&plan));
		for (uint64_t seq = 0; seq < 20000; seq++) {
			plan_item(&plan, seq, &item);
			if (item.op >= OP_FETCH_ADD) {
				assert_int_equal(item.len, 8);
				continue;
			}
			assert_in_range(item.len, 1, plan.max);
			/* what is there for its completion alone is short */
			if (item.len < plan.min)
				assert_int_equal(seq % 8, 7);
			most = most || item.len == plan.max;
			small = small || item.len < plan.min + 10;
		}
		assert_true(most && small);
	}
}

static void completions_come(void **state)
{
	struct load_plan plan = plan_of(1, 4096);
	unsigned ops[OP_NUM] = { 0 };
	struct load_item item;

	(void)state;
	for (uint64_t seq = 0; seq < 9000; seq++) {
		plan_item(&plan, seq, &item);
		ops[item.op]++;
		if (seq % 8 == 7)
			assert_true(plan_two_sided(item.op));
	}
	for (unsigned i = 0; i < OP_NUM; i++)
		assert_true(ops[i] > 500);
	memset(plan.weight, 0, sizeof(plan.weight));
	plan.weight[OP_WRITE] = 1;
	for (uint64_t seq = 0; seq < 100; seq++) {
		plan_item(&plan, seq, &item);
		assert_int_equal(item.op, seq % 8 == 7 ? OP_SEND : OP_WRITE);
	}
}

/* The same each time, and of each lane, run and number something else. */
static void it_is_a_function(void **state)
{
	struct load_plan plan = plan_of(1, 1000), other = plan;
	struct load_item a, b;

	(void)state;
	other.lane++;
	plan_item(&plan, 77, &a);
	plan_item(&plan, 77, &b);
	assert_memory_equal(&a, &b, sizeof(a));
	plan_item(&other, 77, &b);
	assert_true(a.key != b.key);
	plan_item(&plan, 78, &b);
	assert_true(a.key != b.key);
	other = plan;
	other.run++;
	plan_item(&other, 77, &b);
	assert_true(a.key != b.key);
	assert_true(plan_region_key(&plan, 1) != plan_region_key(&plan, 2));
}

static void what_is_read_back_is_there(void **state)
{
	struct load_plan plan = plan_of(1, 1000);
	struct load_item item;
	uint64_t found;
	unsigned num = 0;

	(void)state;
	for (uint64_t seq = 1000; seq < 3000; seq++) {
		if (!plan_write_before(&plan, seq, 900, &found))
			continue;
		num++;
		plan_item(&plan, found, &item);
		assert_true(item.op == OP_WRITE || item.op == OP_WRITE_IMM);
		/* its slot is written again 2 windows later: when this READ is complete */
		assert_in_range(seq - found, 1, plan.window - 1);
		assert_false(plan_write_before(&plan, seq, found + 1, &found));
	}
	assert_true(num > 1000);
	assert_false(plan_write_before(&plan, 1000, 1000, &found));
}

static void memory_does_not_overlap(void **state)
{
	struct load_plan plan = plan_of(1, 1000);
	struct load_layout l;

	(void)state;
	plan_layout(&plan, &l);
	assert_true(LAYOUT_ACK + 8 <= l.region);
	assert_true(l.region_len >= plan.max);
	assert_true(l.region + l.region_len <= l.writes);
	assert_true(l.writes + 2 * plan.window * l.slot <= l.receives);
	assert_true(l.receives + plan.receives * l.slot <= l.len);
	assert_true(l.slot >= plan.max);
	plan.ud = 1;
	plan_layout(&plan, &l);
	assert_true(l.slot >= plan.max + LOAD_GRH);
}

static void patterns(void **state)
{
	uint8_t whole[300], part[300];

	(void)state;
	pattern_fill(whole, sizeof(whole), 42, 0);
	for (size_t at = 0; at < 20; at++)
		for (size_t len = 0; len < 40; len++) {
			memset(part, 0, sizeof(part));
			pattern_fill(part, len, 42, at);
			assert_memory_equal(part, whole + at, len);
			assert_int_equal(part[len], 0);
			assert_int_equal(pattern_diff(part, len, 42, at), -1);
			for (size_t i = 0; i < len; i++) {
				part[i] ^= 1;
				assert_int_equal(pattern_diff(part, len, 42, at), i);
				part[i] ^= 1;
			}
		}
	assert_int_not_equal(pattern_diff(whole, sizeof(whole), 43, 0), -1);
	assert_int_not_equal(pattern_diff(whole, sizeof(whole), 42, 8), -1);
}

static void nonsense_is_refused(void **state)
{
	struct load_plan good = plan_of(1, 1000), bad;

	(void)state;
#define REFUSED(field, value)                                                                      \
	do {                                                                                       \
		bad = good;                                                                        \
		bad.field = (value);                                                               \
		assert_false(plan_valid(&bad));                                                    \
	} while (0)
	assert_true(plan_valid(&good));
	REFUSED(min, 0);
	REFUSED(min, 1001);
	REFUSED(max, 1u << 31);
	REFUSED(window, 0);
	REFUSED(window, 2);
	REFUSED(window, 12);
	REFUSED(window, 8192);
	REFUSED(receives, 0);
	REFUSED(receives, 100000);
	REFUSED(ud, 2);
	REFUSED(timeout, 32);
	REFUSED(retry, 8);
	REFUSED(mtu, 0);
	REFUSED(mtu, 6);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(lengths), cmocka_unit_test(completions_come),
			cmocka_unit_test(it_is_a_function),
			cmocka_unit_test(what_is_read_back_is_there),
			cmocka_unit_test(memory_does_not_overlap), cmocka_unit_test(patterns),
			cmocka_unit_test(nonsense_is_refused));
}
