/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_lat.c - when the times of a QP's completions are counted. What the buckets are and what a turn of the
 * fast path adds to them is in tests/unit/obj/test_stats.c.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/rig/unit/unit.h"
#include "ffr/fast/internal.h"

#define QPS 3

struct times {
	struct fast f;
	struct qp qp[QPS];
};

static int setup(void **state)
{
	struct times *t = calloc(1, sizeof(*t));

	t->f.now = 10000;
	for (int i = 0; i < QPS; i++)
		t->qp[i].lat.hist = calloc(1, sizeof(*t->qp[i].lat.hist));
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	struct times *t = *state;

	for (int i = 0; i < QPS; i++)
		free(t->qp[i].lat.hist);
	free(t);
	return 0;
}

/* What is due by then is counted. */
static void settle_after(struct times *t, uint64_t ns)
{
	t->f.now += ns;
	lat_settle_due(&t->f);
}

static void has(const struct qp *qp, uint64_t ns, uint64_t n)
{
	assert_int_equal(qp->lat.hist->count[lat_index(ns)], n);
}

/* Is the QP's histogram what these numbers say, and is nothing more of it to be counted? */
static void is_settled(const struct qp *qp, uint64_t total, uint64_t sum, uint64_t max)
{
	assert_int_equal(lat_total(qp->lat.hist), total);
	assert_int_equal(qp->lat.hist->sum, sum);
	assert_int_equal(qp->lat.hist->max, max);
	assert_false(qp->lat.due.on);
}

static void nothing_is_due(void **state)
{
	struct times *t = *state;

	lat_settle_due(&t->f);
	lat_forget(&t->f, &t->qp[0]);
	is_settled(&t->qp[0], 0, 0, 0);
}

static void counted_when_the_clock_was_read(void **state)
{
	struct times *t = *state;

	lat_note(&t->f, &t->qp[0], 3, 0);
	assert_int_equal(lat_total(t->qp[0].lat.hist), 0);
	assert_true(t->qp[0].lat.due.on);
	settle_after(t, 500);
	has(&t->qp[0], 500, 3);
	is_settled(&t->qp[0], 3, 1500, 500);
	assert_true(LIST_EMPTY(&t->f.lat_due));
	/* once only */
	settle_after(t, 500);
	is_settled(&t->qp[0], 3, 1500, 500);
}

/* One that was fetched in an earlier turn has its own beginning. */
static void an_older_one(void **state)
{
	struct times *t = *state;

	lat_note(&t->f, &t->qp[0], 2, 4000);
	settle_after(t, 100);
	has(&t->qp[0], 100, 2);
	has(&t->qp[0], 6100, 1);
	is_settled(&t->qp[0], 3, 6300, 6100);
	/* and none beside it */
	lat_note(&t->f, &t->qp[1], 0, 9000);
	settle_after(t, 100);
	has(&t->qp[1], 1200, 1);
	is_settled(&t->qp[1], 1, 1200, 1200);
	/* a later note does not have it any more */
	lat_note(&t->f, &t->qp[0], 1, 0);
	lat_settle_due(&t->f);
	is_settled(&t->qp[0], 4, 6300, 6100);
}

/* Between its two times in a turn the clock was read. */
static void twice_in_a_turn(void **state)
{
	struct times *t = *state;

	lat_note(&t->f, &t->qp[0], 1, 0);
	t->f.now += 300;
	lat_note(&t->f, &t->qp[0], 2, 0);
	has(&t->qp[0], 300, 1);
	assert_int_equal(lat_total(t->qp[0].lat.hist), 1);
	assert_true(t->qp[0].lat.due.on);
	settle_after(t, 1000);
	has(&t->qp[0], 1000, 2);
	is_settled(&t->qp[0], 3, 2300, 1000);
	assert_true(LIST_EMPTY(&t->f.lat_due));
}

static void each_has_its_own(void **state)
{
	struct times *t = *state;

	for (uint32_t i = 0; i < QPS; i++) {
		lat_note(&t->f, &t->qp[i], i + 1, 0);
		t->f.now += 1000;
	}
	lat_settle_due(&t->f);
	for (uint32_t i = 0; i < QPS; i++) {
		uint64_t ns = 1000 * (QPS - i);

		has(&t->qp[i], ns, i + 1);
		is_settled(&t->qp[i], i + 1, ns * (i + 1), ns);
	}
	assert_true(LIST_EMPTY(&t->f.lat_due));
}

/* The QP goes, or its numbers are taken from it. */
static void forgotten(void **state)
{
	struct times *t = *state;

	for (uint32_t i = 0; i < QPS; i++)
		lat_note(&t->f, &t->qp[i], 1, 0);
	t->f.now += 200;
	lat_forget(&t->f, &t->qp[1]);
	is_settled(&t->qp[1], 1, 200, 200);
	t->f.now += 200;
	lat_forget(&t->f, &t->qp[1]);
	lat_settle_due(&t->f);
	is_settled(&t->qp[0], 1, 400, 400);
	is_settled(&t->qp[1], 1, 200, 200);
	is_settled(&t->qp[2], 1, 400, 400);
}

/* Before the core or the lock is given away the clock is read, but only if somebody's time is due. */
static void settled_now(void **state)
{
	struct times *t = *state;
	uint64_t before;

	lat_settle_now(&t->f);
	assert_int_equal(t->f.now, 10000);
	before = t->f.now = fast_clock();
	lat_note(&t->f, &t->qp[0], 1, 0);
	lat_settle_now(&t->f);
	assert_true(t->f.now > before);
	is_settled(&t->qp[0], 1, t->f.now - before, t->f.now - before);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	return UNIT_RUN(TEST(nothing_is_due), TEST(counted_when_the_clock_was_read),
			TEST(an_older_one), TEST(twice_in_a_turn), TEST(each_has_its_own),
			TEST(forgotten), TEST(settled_now));
}
