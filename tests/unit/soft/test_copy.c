/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_copy.c - both ways of copying give the same bytes, whatever the places and lengths; and which of
 * them is chosen, by times that the test makes up. ffr/soft/copy.h tells the theory.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/rig/unit/unit.h"
#include "ffr/soft/copy.h"

#define AREA 8192u

static uint8_t from[AREA], to[AREA];

static void fill(uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(random() >> 3);
}

typedef void copy_fn(uint8_t *dst, const uint8_t *src, uint64_t n);

/* n bytes, so far behind a cache line's start; nothing around them is touched. */
static void check(copy_fn *copy, uint32_t dst, uint32_t src, uint32_t n)
{
	memset(to, 0xee, sizeof(to));
	copy(to + dst, from + src, n);
	assert_memory_equal(to + dst, from + src, n);
	for (uint32_t i = 0; i < dst; i++)
		assert_int_equal(to[i], 0xee);
	for (uint32_t i = dst + n; i < dst + n + 256; i++)
		assert_int_equal(to[i], 0xee);
}

static void bytes(void **state)
{
	static copy_fn *const ways[] = { copy_plain, copy_stream };

	(void)state;
	fill(from, sizeof(from));
	for (int w = 0; w < 2; w++) {
		for (uint32_t n = 0; n < 300; n++)
			for (uint32_t off = 0; off < 64; off += 7)
				check(ways[w], off, off * 3 % 64, n);
		for (uint32_t off = 0; off < 64; off++) {
			check(ways[w], off, 0, 4096);
			check(ways[w], 0, off, 4096 + off);
			check(ways[w], off, 63 - off, 4096 - off);
		}
	}
}

/* Both sides may name the same memory; then it is as memmove() has it, in each phase. */
static void overlap(void **state)
{
	static uint8_t buf[4 * COPY_LARGE], want[4 * COPY_LARGE];
	const uint64_t n = 2 * COPY_LARGE;
	const int64_t shifts[] = {
		1, 63, 64, 4096, COPY_LARGE + 3, (int64_t)n, -1, -64, -(int64_t)n
	};

	(void)state;
	for (unsigned s = 0; s < sizeof(shifts) / sizeof(*shifts); s++)
		for (int phase = COPY_PLAIN; phase <= COPY_STREAM; phase++) {
			struct copy_how h;
			uint64_t at = shifts[s] < 0 ? n : 0;

			copy_init(&h);
			h.phase = (enum copy_phase)phase;
			fill(buf, sizeof(buf));
			memcpy(want, buf, sizeof(buf));
			memmove(want + at + shifts[s], want + at, n);
			copy_large(&h, buf + at + shifts[s], buf + at, n);
			assert_memory_equal(buf, want, sizeof(buf));
		}
}

/* The rest of the phase: so many copies of 64 KB. Each takes so long, the fastest of them `ns`. */
static uint32_t phase(struct copy_how *h, uint64_t ns)
{
	enum copy_phase now = h->phase;
	uint32_t n = 0;

	while (h->phase == now && n < 100000) {
		bool timed = now == COPY_TRY || (now == COPY_PLAIN && h->left <= 4);

		/* one was not disturbed */
		copy_done(h, timed ? ns + (h->left == 2 ? 0 : 1000000) : 0, 65536);
		n++;
	}
	return n;
}

static void which(void **state)
{
	uint32_t plain, before = 0;
	struct copy_how h;

	(void)state;
	copy_init(&h);
	assert_int_equal(h.phase, COPY_PLAIN);
	assert_in_range(phase(&h, 2000), 4, 64);
	/* in the cache: tried ever more seldom */
	for (int i = 0; i < 10; i++) {
		assert_int_equal(h.phase, COPY_TRY);
		assert_int_equal(phase(&h, 4000), 4);
		assert_int_equal(h.phase, COPY_PLAIN);
		plain = phase(&h, 2000);
		assert_true(i < 4 ? plain > before : plain >= before);
		before = plain;
	}
	assert_in_range(before, 1000, 10000); /* 4 of so many are slow ones */
	/* a little faster is not enough, for what is written stays in no cache */
	phase(&h, 1800);
	assert_int_equal(h.phase, COPY_PLAIN);
	phase(&h, 12000);
	assert_int_equal(h.phase, COPY_TRY);
	phase(&h, 8000);
	assert_int_equal(h.phase, COPY_STREAM);
	/* much more often than plain ones, which get their chance, though */
	before = phase(&h, 0);
	assert_int_equal(h.phase, COPY_PLAIN);
	plain = phase(&h, 12000);
	assert_true(plain * 10 < before);
	assert_true(plain * 65536ul >= 4ul << 20);
	phase(&h, 8000);
	assert_int_equal(h.phase, COPY_STREAM);
	phase(&h, 0);
	phase(&h, 2000);
	phase(&h, 8000);
	assert_int_equal(h.phase, COPY_PLAIN);
	/* and it is tried again soon */
	assert_in_range(phase(&h, 2000), 1, 300);
}

/* What is chosen is what is done: real copies go through all of that. */
static void goes_on(void **state)
{
	static uint8_t src[4 * COPY_LARGE], dst[4 * COPY_LARGE];
	struct copy_how h;
	bool tried = false;

	(void)state;
	copy_init(&h);
	for (int i = 0; i < 2000; i++) {
		uint64_t n = COPY_LARGE + (uint64_t)i * 13 % COPY_LARGE;

		fill(src, 16);
		src[n - 1] = (uint8_t)i;
		copy_bytes(&h, dst, src, n);
		assert_memory_equal(dst, src, n);
		tried |= h.phase == COPY_TRY;
	}
#ifdef __SSE2__ /* others have one way only */
	assert_true(tried);
#endif
	/* short ones are not counted */
	h.left = 7;
	copy_bytes(&h, dst, src, COPY_LARGE - 1);
	assert_int_equal(h.left, 7);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(bytes), cmocka_unit_test(overlap), cmocka_unit_test(which),
			cmocka_unit_test(goes_on));
}
