/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: */
/*
 * test_timer.c - the deadline heap against a sorted reference.
 */
#include <stdlib.h>

#include "tests/rig/unit/unit.h"
#include "ffr/lib/timer.h"

#define N 500

struct item {
	struct timer t; /* first */
	int fired;
};

static uint64_t last_at;

static void fire(struct timer *t)
{
	struct item *i = (struct item *)t;

	assert_true(t->at >= last_at);
	last_at = t->at;
	i->fired++;
}

static void fires_in_order(void **state)
{
	struct timer_heap h = { 0 };
	struct item item[N] = { 0 };
	unsigned seed = 7;

	(void)state;
	for (int round = 0; round < 20; round++) {
		uint64_t limit = 5000;
		int want[N] = { 0 };

		for (int i = 0; i < N; i++) {
			item[i].t.fn = fire;
			item[i].fired = 0;
			assert_int_equal(timer_arm(&h, &item[i].t, (uint64_t)rand_r(&seed) % 10000),
					 0);
		}
		for (int i = 0; i < N; i += 3)
			timer_cancel(&h, &item[i].t);
		for (int i = 0; i < N; i += 5) /* arming anew replaces */
			assert_int_equal(timer_arm(&h, &item[i].t, (uint64_t)rand_r(&seed) % 10000),
					 0);
		for (int i = 0; i < N; i++)
			want[i] = item[i].t.index && item[i].t.at <= limit;
		last_at = 0;
		timer_run(&h, limit, UINT32_MAX);
		for (int i = 0; i < N; i++)
			assert_int_equal(item[i].fired, want[i]);
		assert_true(timer_next(&h) > limit);
		timer_run(&h, UINT64_MAX - 1, UINT32_MAX);
		assert_int_equal(h.used, 0);
		assert_true(timer_next(&h) == UINT64_MAX);
	}
	timer_heap_free(&h);
}

static int rearmed;
static struct timer_heap loop_heap;

static void rearm(struct timer *t)
{
	if (++rearmed < 3)
		timer_arm(&loop_heap, t, t->at + 10);
}

/* A timer may arm itself; it runs again in the same call if that is due already. */
static void may_rearm_itself(void **state)
{
	struct timer t = { .fn = rearm };

	(void)state;
	timer_arm(&loop_heap, &t, 10);
	assert_int_equal(timer_run(&loop_heap, 25, UINT32_MAX), 2);
	assert_int_equal(timer_run(&loop_heap, 30, UINT32_MAX), 1);
	assert_int_equal(t.index, 0);
	timer_cancel(&loop_heap, &t); /* not armed: nothing happens */
	timer_heap_free(&loop_heap);
}

static int ran;

static void count(struct timer *t)
{
	(void)t;
	ran++;
}

static void no_more_than_asked_for(void **state)
{
	struct timer_heap h = { 0 };
	struct timer t[5];

	(void)state;
	for (int i = 0; i < 5; i++) {
		t[i] = (struct timer){ .fn = count };
		timer_arm(&h, &t[i], 10);
	}
	ran = 0;
	assert_int_equal(timer_run(&h, 10, 3), 3);
	assert_int_equal(ran, 3);
	assert_int_equal(timer_next(&h), 10);
	assert_int_equal(timer_run(&h, 10, 3), 2);
	assert_int_equal(timer_run(&h, 10, 3), 0);
	timer_heap_free(&h);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(fires_in_order), cmocka_unit_test(may_rearm_itself),
			cmocka_unit_test(no_more_than_asked_for));
}
