/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/load_pair.c tests/rig/unit/soft_pair.c tests/rig/unit/rig.c */
/*
 * test_turns.c - whose turn it is, of containers that all have work: shares by bytes and weights, small
 * steps, latency-sensitive ones first.
 */
#include "tests/rig/unit/load_pair.h"
#include "tests/rig/unit/unit.h"

static void small_and_large_get_the_same(void **state)
{
	struct load_two t;

	(void)state;
	load_two_up(&t, 64, 1 << 20);
	load_turns(&t, 200000);
	assert_true(load_moved(&t.ld[0]) > 10 << 20);
	load_near(load_moved(&t.ld[1]), load_moved(&t.ld[0]), 50);
	load_two_down(&t);
}

/* A turn moves a little of each container's, however many requests one has posted. */
static void nobody_waits_for_many_requests(void **state)
{
	struct load_two t;

	(void)state;
	load_two_up(&t, 65536, 8);
	load_turns(&t, 1); /* both are known to have work */
	for (int i = 0; i < 100; i++) {
		uint64_t large = load_moved(&t.ld[0]), small = t.ld[1].completed;

		load_turns(&t, 1);
		load_keep_full(&t.ld[0]);
		load_keep_full(&t.ld[1]);
		assert_true(load_moved(&t.ld[0]) - large <= 2 * 65536);
		assert_true(t.ld[1].completed > small);
	}
	load_two_down(&t);
}

static void weights(void **state)
{
	struct load_two t;

	(void)state;
	load_two_up(&t, 30000, 50000);
	load_pair.r.cont[2].limits.weight = 300;
	load_turns(&t, 20000);
	load_near(load_moved(&t.ld[1]), 3 * load_moved(&t.ld[0]), 30);
	load_two_down(&t);
}

/* A step that is more than the share of a round is paid for in the next rounds. */
static void weight_of_less_than_a_step(void **state)
{
	struct load_two t;

	(void)state;
	load_two_up(&t, 1 << 20, 1 << 20);
	load_pair.r.cont[2].limits.weight = 10;
	load_turns(&t, 20000);
	assert_true(load_moved(&t.ld[1]) > 10 << 20);
	load_near(load_moved(&t.ld[0]), 10 * load_moved(&t.ld[1]), 50);
	load_two_down(&t);
}

/* What is alone gets all there is, at once. */
static void nothing_is_kept_back(void **state)
{
	struct load_two t;

	(void)state;
	load_two_up(&t, 1 << 20, 1 << 20);
	load_turns(&t, 100);
	for (int i = 0; i < 1000; i++) {
		load_keep_full(&t.ld[0]);
		assert_true(fast_turn(load_pair.r.f));
	}
	/* steps of 64 KB, but for those that the other had first, and those that began a round */
	assert_true(load_moved(&t.ld[0]) > 40u << 20);
	load_two_down(&t);
}

static void latency_comes_first(void **state)
{
	struct load_two t;
	uint64_t large;

	(void)state;
	load_two_up(&t, 1 << 20, 8);
	load_pair.r.cont[2].limits.latency = 1;
	load_turns(&t, 100);
	/* whatever it has posted is done within a step of the other */
	for (int i = 0; i < 100; i++) {
		load_keep_full(&t.ld[1]);
		large = load_moved(&t.ld[0]);
		fast_turn(load_pair.r.f);
		load_keep_full(&t.ld[0]);
		assert_true(t.ld[1].posted - t.ld[1].completed <= 8);
		assert_true(load_moved(&t.ld[0]) - large <= 64 << 10);
	}
	load_near(t.ld[1].completed, 1600, 50);
	load_two_down(&t);
}

int main(void)
{
	return UNIT_RUN(LOAD_TEST(small_and_large_get_the_same),
			LOAD_TEST(nobody_waits_for_many_requests), LOAD_TEST(weights),
			LOAD_TEST(weight_of_less_than_a_step), LOAD_TEST(nothing_is_kept_back),
			LOAD_TEST(latency_comes_first));
}
