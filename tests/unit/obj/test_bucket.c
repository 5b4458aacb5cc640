/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_bucket.c - the token bucket of all limits, in virtual time: its sums against those in 128 bits,
 * and the ends of its numbers.
 */
#include <stdbool.h>

#include "tests/rig/unit/unit.h"
#include "ffr/obj/bucket.h"

#define SEC   BUCKET_SECOND
#define START (100 * SEC)
#define YEAR  (365ull * 86400 * SEC)

static const uint64_t rates[] = {
	1, 3, 7, 999, 100000, 999999937, SEC, SEC + 7, 12500000000, 1ull << 40, UINT64_MAX,
};
#define NUM_RATES (sizeof(rates) / sizeof(rates[0]))

static struct bucket begin(uint64_t rate, uint64_t burst)
{
	struct bucket b = { 0 };

	bucket_set(&b, START, rate, burst);
	return b;
}

static uint64_t next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return *seed >> 33;
}

/* ---- the rate ---------------------------------------------------------------------------------- */

static void without_a_rate_all_goes(void **state)
{
	struct bucket b = begin(0, SEC);

	(void)state;
	for (int i = 0; i < 3; i++)
		bucket_charge(&b, START + i, UINT64_MAX);
	assert_int_equal(bucket_room(&b, START, START), UINT64_MAX);
	assert_int_equal(bucket_wait(&b, START), 0);
	assert_int_equal(bucket_lost(&b, START + YEAR), 0);
	assert_int_equal(bucket_ns(0, 5), 0);
	assert_int_equal(bucket_units(0, SEC), 0);
}

/* Whatever the pieces: it is paid for when all of them together are, to the ns. */
static void nothing_is_lost_between_pieces(void **state)
{
	uint64_t seed = 1;

	(void)state;
	for (size_t r = 0; r < NUM_RATES; r++) {
		struct bucket b = begin(rates[r], 0);
		unsigned __int128 parts;
		uint64_t sum = 0;

		for (int i = 0; i < 100000; i++) {
			uint64_t n = next(&seed) % (i % 2 ? 3 : 3000);

			sum += n;
			bucket_charge(&b, START, n);
		}
		parts = (unsigned __int128)sum * SEC;
		assert_int_equal(b.paid, START + (uint64_t)(parts / rates[r]));
		assert_int_equal(b.frac, (uint64_t)(parts % rates[r]));
	}
}

/* Who takes all there is room for has what the rate carries in that time, give or take a ns of it. */
static void the_rate_holds(void **state)
{
	uint64_t seed = 2;

	(void)state;
	for (size_t r = 0; r < NUM_RATES; r++) {
		struct bucket b = begin(rates[r], 10 * SEC);
		uint64_t now = START, of_a_ns = rates[r] / SEC + 1;
		unsigned __int128 sum = 0, all;

		while (now < START + 1000 * SEC) {
			uint64_t n = bucket_room(&b, now, now);

			bucket_charge(&b, now, n);
			assert_true(b.paid <= now);
			sum += n;
			now += next(&seed) % SEC;
		}
		sum += bucket_room(&b, now, now);
		all = (unsigned __int128)(now - START) * rates[r] / SEC;
		assert_true(sum <= all + of_a_ns && sum + of_a_ns >= all);
	}
}

static void room_is_what_may_be_charged(void **state)
{
	uint64_t seed = 3;

	(void)state;
	for (size_t r = 0; r < NUM_RATES; r++)
		for (int i = 0; i < 1000; i++) {
			struct bucket b = begin(rates[r], 0);
			uint64_t end = START + next(&seed), n = bucket_room(&b, START, end);

			bucket_charge(&b, START, n);
			assert_true(b.paid <= end);
			bucket_charge(&b, START, 1);
			assert_true(b.paid > end || (b.paid == end && b.frac) || n == UINT64_MAX);
			assert_int_equal(bucket_room(&b, START, b.paid), 0);
			assert_int_equal(bucket_room(&b, START, START), 0);
		}
}

/* ---- burst and debt ----------------------------------------------------------------------------- */

static void the_burst_is_what_was_not_used(void **state)
{
	struct bucket b = begin(100, SEC);
	int n = 0;

	(void)state;
	assert_int_equal(bucket_room(&b, START, START), 0); /* it begins with none */
	assert_int_equal(bucket_room(&b, START + SEC / 2, START + SEC / 2), 50);
	assert_int_equal(bucket_lost(&b, START + 3 * SEC), 2 * SEC);
	for (; !bucket_wait(&b, START + YEAR); n++)
		bucket_charge(&b, START + YEAR, 1);
	assert_int_equal(n, 101); /* what begins when all is paid for is let through, too */
	assert_int_equal(bucket_wait(&b, START + YEAR), SEC / 100);
	assert_int_equal(bucket_lost(&b, START + YEAR), 0);
}

/* What it worked for until now is no time in which it was idle. */
static void who_worked_was_not_idle(void **state)
{
	struct bucket b = begin(SEC, SEC), idle = b;

	(void)state;
	bucket_charge(&b, START + 10 * SEC - 3 * SEC, 3 * SEC);
	assert_int_equal(b.paid, START + 9 * SEC);
	bucket_charge(&idle, START + 10 * SEC, 3 * SEC);
	assert_int_equal(idle.paid, START + 12 * SEC);
}

static void a_clock_that_stands_gives_nothing(void **state)
{
	struct bucket b = begin(1000, SEC);
	uint64_t now = START + SEC;

	(void)state;
	assert_int_equal(bucket_room(&b, now, now), 1000);
	for (int i = 0; i < 1000; i++)
		bucket_charge(&b, now, 1);
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(bucket_room(&b, now, now), 0);
		bucket_charge(&b, now, 0);
	}
	assert_int_equal(b.paid, now);
	assert_int_equal(bucket_wait(&b, now), 0);
	bucket_charge(&b, now, 1);
	assert_int_equal(bucket_wait(&b, now), SEC / 1000);
	assert_int_equal(bucket_wait(&b, now + SEC), 0);
}

/* ---- another rate ------------------------------------------------------------------------------- */

static void what_is_owed_is_owed_at_the_new_rate(void **state)
{
	struct bucket b = begin(1000, SEC);

	(void)state;
	bucket_charge(&b, START, 500);
	assert_int_equal(bucket_wait(&b, START), SEC / 2);
	bucket_set(&b, START, 10, SEC);
	assert_int_equal(bucket_wait(&b, START), 50 * SEC);
	bucket_set(&b, START + 25 * SEC, 1000, SEC); /* half of it is paid */
	assert_int_equal(bucket_wait(&b, START + 25 * SEC), SEC / 4);
	/* no limit: no debt; and none afterwards, nor a burst */
	bucket_set(&b, START + 25 * SEC, 0, 0);
	assert_int_equal(bucket_wait(&b, START + 25 * SEC), 0);
	bucket_set(&b, START + 30 * SEC, 1000, SEC);
	assert_int_equal(bucket_wait(&b, START + 30 * SEC), 0);
	assert_int_equal(bucket_room(&b, START + 30 * SEC, START + 30 * SEC), 0);
	/* of who owes nothing only the burst is another */
	bucket_set(&b, START + 60 * SEC, 10, 2 * SEC);
	assert_int_equal(bucket_room(&b, START + YEAR, START + YEAR), 20);
}

static void rates_change_to_and_fro(void **state)
{
	uint64_t seed = 4, sum = 0;
	struct bucket b = begin(rates[0], 0);

	(void)state;
	/* no part of a ns is counted at a rate that it is not of */
	for (size_t i = 0; i < 1000; i++) {
		uint64_t n = next(&seed) % 1000;

		sum += n;
		bucket_charge(&b, START, n);
		bucket_set(&b, START, rates[i % NUM_RATES], 0);
		assert_true(b.frac < b.rate);
		assert_int_equal(((unsigned __int128)(b.paid - START) * b.rate + b.frac) / SEC,
				 sum);
	}
}

/* ---- ends --------------------------------------------------------------------------------------- */

static void times_do_not_wrap(void **state)
{
	static const uint64_t ends[] = { 0, 1, 1ull << 32, 1ull << 62, 1ull << 63, UINT64_MAX };

	(void)state;
	for (size_t r = 0; r < NUM_RATES; r++)
		for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
			uint64_t burst = bucket_ns(rates[r], ends[i]);
			struct bucket b = begin(rates[r], burst);

			assert_true(burst <= BUCKET_NS_MAX);
			for (int j = 0; j < 10; j++) {
				bucket_charge(&b, START, ends[i]);
				assert_in_range(b.paid, START, BUCKET_NS_MAX);
				assert_true(b.frac < b.rate);
			}
			assert_true(bucket_room(&b, START, b.paid + 1) <= rates[r] / SEC + 1);
			bucket_set(&b, START, rates[NUM_RATES - 1 - r], burst);
			assert_in_range(b.paid, START, BUCKET_NS_MAX);
			/* 100 years later: a debt that is longer is still one, any other is paid */
			if (b.paid <= START + 100 * YEAR)
				assert_true(
					bucket_room(&b, START + 101 * YEAR, START + 101 * YEAR) >=
					bucket_units(b.rate, burst < YEAR ? burst : YEAR));
			else
				assert_true(bucket_wait(&b, START + 100 * YEAR) > 0);
		}
	assert_int_equal(bucket_units(UINT64_MAX, UINT64_MAX), UINT64_MAX);
	assert_int_equal(bucket_units(UINT64_MAX, SEC), UINT64_MAX);
	assert_int_equal(bucket_units(1, SEC - 1), 0);
	assert_int_equal(bucket_ns(UINT64_MAX, 1), 0);
	assert_int_equal(bucket_ns(1, UINT64_MAX), BUCKET_NS_MAX);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(without_a_rate_all_goes),
			cmocka_unit_test(nothing_is_lost_between_pieces),
			cmocka_unit_test(the_rate_holds),
			cmocka_unit_test(room_is_what_may_be_charged),
			cmocka_unit_test(the_burst_is_what_was_not_used),
			cmocka_unit_test(who_worked_was_not_idle),
			cmocka_unit_test(a_clock_that_stands_gives_nothing),
			cmocka_unit_test(what_is_owed_is_owed_at_the_new_rate),
			cmocka_unit_test(rates_change_to_and_fro),
			cmocka_unit_test(times_do_not_wrap));
}
