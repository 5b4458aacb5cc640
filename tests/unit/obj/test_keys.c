/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* test_keys.c - a container's keys. build: ffr/obj/keys.c ffr/obj/stats.c */
#include <errno.h>
#include <stdlib.h>

#include "tests/rig/unit/unit.h"
#include "ffr/obj/objects.h"

static void keys_are_found_until_removed(void **state)
{
	enum { N = 5000 };
	struct mr *mr = calloc(N, sizeof(*mr)), other = { 0 };
	struct key_table t = { 0 };

	(void)state;
	assert_null(key_lookup(&t, 1));
	for (int i = 0; i < N; i++) {
		assert_int_equal(key_insert(&t, &mr[i]), 0);
		assert_int_not_equal(mr[i].lkey, 0);
		assert_int_equal(mr[i].lkey, mr[i].rkey);
	}
	assert_true(t.used * 2 <= t.size);
	for (int i = 0; i < N; i++)
		assert_ptr_equal(key_lookup(&t, mr[i].rkey), &mr[i]);
	assert_null(key_lookup(&t, 0));
	for (int i = 0; i < N; i += 2) {
		key_remove(&t, &mr[i]);
		assert_null(key_lookup(&t, mr[i].rkey));
	}
	for (int i = 1; i < N; i += 2)
		assert_ptr_equal(key_lookup(&t, mr[i].rkey), &mr[i]);
	key_remove(&t, &mr[0]); /* not there any more: nothing happens */
	other.lkey = mr[1].lkey;
	key_remove(&t, &other); /* nor to another's key */
	assert_ptr_equal(key_lookup(&t, mr[1].rkey), &mr[1]);
	for (int i = 1; i < N; i += 2)
		key_remove(&t, &mr[i]);
	assert_int_equal(t.used, 0);
	free(t.slot); /* a large one stays */
	free(mr);
}

/*
 * Deletion moves followers back: wherever it strikes in a run of colliding keys, which also wraps
 * around the table's end, all others stay findable.
 */
static void deletion_keeps_probe_runs_whole(void **state)
{
	enum { SIZE = 16, N = 8 };
	struct mr mr[N];

	(void)state;
	for (unsigned seed = 0; seed < 2000; seed++) {
		struct key_table t = { .size = SIZE };

		t.slot = calloc(SIZE, sizeof(*t.slot));
		srandom(seed);
		for (uint32_t i = 0; i < N; i++) {
			/* few different homes, near the end */
			uint32_t key = (uint32_t)(random() % 4 + SIZE - 3) % SIZE + (i + 1) * SIZE;
			uint32_t at = key % SIZE;

			while (t.slot[at].key)
				at = (at + 1) % SIZE;
			mr[i] = (struct mr){ .lkey = key, .rkey = key };
			t.slot[at] = (struct key_slot){ key, &mr[i] };
			t.used++;
		}
		for (uint32_t gone = 0; gone < N; gone++) {
			key_remove(&t, &mr[gone]);
			for (uint32_t i = 0; i < N && t.slot; i++)
				assert_ptr_equal(key_lookup(&t, mr[i].rkey),
						 i > gone ? &mr[i] : NULL);
		}
		assert_null(t.slot);
	}
}

/* No pattern that a client could go by: each bit is set about as often as not. */
static void keys_are_random(void **state)
{
	enum { N = 4096 };
	struct mr *mr = calloc(N, sizeof(*mr));
	struct key_table t = { 0 };
	int ones[32] = { 0 };

	(void)state;
	for (int i = 0; i < N; i++) {
		assert_int_equal(key_insert(&t, &mr[i]), 0);
		for (int b = 0; b < 32; b++)
			ones[b] += mr[i].rkey >> b & 1;
	}
	for (int b = 0; b < 32; b++) /* 6 standard deviations */
		assert_in_range(ones[b], N / 2 - 192, N / 2 + 192);
	free(t.slot);
	free(mr);
}

/*
 * Windows have the upper 24 bits to themselves: no MR gets one of the 256 keys of a window, whichever
 * of the two is there first, and a window is found by its whole rkey only.
 */
static void windows_and_mrs_share_no_key(void **state)
{
	enum { N = 3000 };
	struct mr *mr = calloc(N, sizeof(*mr));
	struct mw *mw = calloc(N, sizeof(*mw));
	struct container c = { 0 };

	(void)state;
	assert_null(mw_lookup(&c.windows, 0x123400));
	for (int i = 0; i < N; i++) {
		assert_int_equal(mr_key_new(&c, &mr[i]), 0);
		assert_int_equal(mw_key_new(&c, &mw[i]), 0);
		assert_true(mw[i].rkey >> 8);
	}
	for (int i = 0; i < N; i++) {
		assert_ptr_equal(mw_lookup(&c.windows, mw[i].rkey), &mw[i]);
		assert_null(mw_lookup(&c.windows, mw[i].rkey ^ 1));
		assert_null(mw_lookup(&c.windows, mr[i].rkey));
		for (uint32_t low = 0; low < 256; low++)
			assert_null(key_lookup(&c.keys, (mw[i].rkey & ~0xffu) | low));
	}
	/* the low byte changes with each bind, the place in the table does not */
	mw[7].rkey ^= 0x55;
	assert_ptr_equal(mw_lookup(&c.windows, mw[7].rkey), &mw[7]);
	for (int i = 0; i < N; i++) {
		mw_key_del(&c, &mw[i]);
		assert_null(mw_lookup(&c.windows, mw[i].rkey));
		mw_key_del(&c, &mw[i]); /* not there any more: nothing happens */
		key_remove(&c.keys, &mr[i]);
	}
	assert_int_equal(c.windows.used, 0);
	assert_int_equal(c.keys.used, 0);
	free(c.windows.slot);
	free(c.keys.slot);
	free(mr);
	free(mw);
}

/* An MR key that falls on a window is drawn again, and so is a window that falls on an MR. */
static void collisions_are_drawn_again(void **state)
{
	enum { N = 1 << 17 };
	struct mw *mw = calloc(N, sizeof(*mw));
	struct mr *mr = calloc(N, sizeof(*mr));
	struct container c = { 0 };

	(void)state;
	/* 2^17 of 2^24 indices: of as many MRs a thousand fall on one at first */
	for (int i = 0; i < N; i++)
		assert_int_equal(mw_key_new(&c, &mw[i]), 0);
	for (int i = 0; i < N; i++) {
		uint32_t index;

		assert_int_equal(mr_key_new(&c, &mr[i]), 0);
		index = mr[i].rkey >> 8;
		assert_true(!index || !c.windows.slot[key_slot(&c.windows, index)].key);
	}
	for (int i = 0; i < N; i++)
		mw_key_del(&c, &mw[i]);
	for (int i = 0; i < N; i++) {
		assert_int_equal(mw_key_new(&c, &mw[i]), 0);
		assert_null(key_lookup(&c.keys, mw[i].rkey));
	}
	for (int i = 0; i < N; i++) {
		mw_key_del(&c, &mw[i]);
		key_remove(&c.keys, &mr[i]);
	}
	free(c.windows.slot); /* a large one stays */
	free(c.keys.slot);
	free(mr);
	free(mw);
}

/* One that a NIC has given, unless the container has it: as an MR's, or among those of a window. */
/* A guess hardly ever is a window, because a container has few of those that there could be. */
static void windows_are_few(void **state)
{
	struct container c = { .windows.used = 1u << 18 };
	struct mw mw = { 0 };

	(void)state;
	assert_int_equal(mw_key_new(&c, &mw), -ENOMEM);
	assert_int_equal(mw.rkey, 0);
}

static void a_wanted_key(void **state)
{
	struct container c = { 0 };
	struct mr mr = { .lkey = 0x1234, .rkey = 0x1234 }, same = mr, of_window = { 0 };
	struct mw mw = { 0 };

	(void)state;
	assert_true(mr_key_taken(&c, 0));
	assert_false(mr_key_taken(&c, 0x1234));
	assert_int_equal(mr_key_new(&c, &mr), 0);
	assert_int_equal(mr.lkey, 0x1234);
	assert_ptr_equal(key_lookup(&c.keys, 0x1234), &mr);
	assert_true(mr_key_taken(&c, 0x1234));
	assert_int_equal(mr_key_new(&c, &same), -EEXIST);
	assert_int_equal(mw_key_new(&c, &mw), 0);
	of_window.lkey = mw.rkey ^ 0x80;
	assert_true(mr_key_taken(&c, of_window.lkey));
	assert_int_equal(mr_key_new(&c, &of_window), -EEXIST);
	mw_key_del(&c, &mw);
	assert_int_equal(mr_key_new(&c, &of_window), 0);
	key_remove(&c.keys, &of_window);
	key_remove(&c.keys, &mr);
	assert_int_equal(mr_key_new(&c, &same), 0);
	key_remove(&c.keys, &same);
	assert_null(c.keys.slot);
	free(c.windows.slot);
}

static void stats_sum_every_counter(void **state)
{
	struct ff_stats a = { 0 }, b = { 0 };
	uint64_t *pa = (uint64_t *)&a, *pb = (uint64_t *)&b;
	size_t n = sizeof(a) / sizeof(*pa);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		pa[i] = i;
		pb[i] = 1000 * i;
	}
	stats_add(&a, &b);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(pa[i], 1001 * i);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(keys_are_found_until_removed),
			cmocka_unit_test(deletion_keeps_probe_runs_whole),
			cmocka_unit_test(keys_are_random),
			cmocka_unit_test(windows_and_mrs_share_no_key),
			cmocka_unit_test(collisions_are_drawn_again),
			cmocka_unit_test(windows_are_few), cmocka_unit_test(a_wanted_key),
			cmocka_unit_test(stats_sum_every_counter));
}
