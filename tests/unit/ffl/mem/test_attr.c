/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_attr.c - ffl/mem/attr.c: what the program has asked of a mapping, and whether another one can have the same.
 */
#include "tests/rig/unit/unit.h"
#include "ffl/mem/attr.c"

#define LEN ((size_t)8 * FF_PAGE)

static char *map(void)
{
	char *p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	memset(p, 1, LEN);
	return p;
}

static int get(const char *p, struct ffl_attr *a)
{
	return ffl_attr_get((uintptr_t)p, (uintptr_t)p + LEN, true, a);
}

static bool advised(const struct ffl_attr *a, int advice)
{
	for (unsigned i = 0; a->advice[i]; i++)
		if (a->advice[i] == advice)
			return true;
	return false;
}

static void nothing_was_asked(void **state)
{
	struct ffl_attr a;
	char *p = map();

	(void)state;
	assert_int_equal(get(p, &a), 0);
	assert_false(a.is_locked);
	assert_int_equal(a.advice[0], 0);
	munmap(p, LEN);
}

/* What a mapping was advised another one is advised, too. */
static void it_is_asked_again(void **state)
{
	static const int advice[] = { MADV_DONTDUMP, MADV_SEQUENTIAL, MADV_RANDOM, MADV_HUGEPAGE,
				      MADV_NOHUGEPAGE };
	struct ffl_attr a, b;

	(void)state;
	for (unsigned i = 0; i < sizeof(advice) / sizeof(advice[0]); i++) {
		char *p = map(), *q = map();

		if (madvise(p, LEN, advice[i])) /* a kernel without huge pages */
			continue;
		assert_int_equal(get(p, &a), 0);
		assert_true(advised(&a, advice[i]));
		assert_int_equal(ffl_attr_before(&a, q, LEN), 0);
		assert_int_equal(get(q, &b), 0);
		assert_memory_equal(&a, &b, sizeof(a));
		munmap(p, LEN);
		munmap(q, LEN);
	}
}

static void locked_is_locked_again(void **state)
{
	char *p = map(), *q = map();
	struct ffl_attr a, b;

	(void)state;
	if (syscall(SYS_mlock, p, LEN))
		skip();
	assert_int_equal(get(p, &a), 0);
	assert_true(a.is_locked);
	ffl_attr_after(&a, q, LEN);
	assert_int_equal(get(q, &b), 0);
	assert_true(b.is_locked);
	munmap(p, LEN);
	munmap(q, LEN);
}

/* What a shared mapping cannot have. */
static void what_cannot_be_asked_again(void **state)
{
	static const int advice[] = { MADV_WIPEONFORK, MADV_DONTFORK, MADV_MERGEABLE };
	struct ffl_attr a;

	(void)state;
	for (unsigned i = 0; i < sizeof(advice) / sizeof(advice[0]); i++) {
		char *p = map();

		if (!madvise(p, LEN, advice[i]))
			assert_int_equal(get(p, &a), -EOPNOTSUPP);
		munmap(p, LEN);
	}
}

/* A part of it differs, or is of a mapping that nothing is known of. */
static void parts_that_differ(void **state)
{
	struct ffl_attr a;
	char *p = map();

	(void)state;
	assert_int_equal(madvise(p + LEN / 2, LEN / 2, MADV_DONTDUMP), 0);
	assert_int_equal(get(p, &a), -EOPNOTSUPP);
	munmap(p, LEN);
	assert_int_equal(get(p, &a), -EOPNOTSUPP); /* nothing is there */
}

/* Who looks too often may not look, unless he must. */
static void it_takes_too_long(void **state)
{
	struct ffl_attr a;
	char *p = map();

	(void)state;
	began = ffl_clock_ns(CLOCK_MONOTONIC);
	spent = (uint64_t)3600 * 1000000000;
	assert_int_equal(ffl_attr_get((uintptr_t)p, (uintptr_t)p + LEN, false, &a), -EAGAIN);
	assert_int_equal(ffl_attr_get((uintptr_t)p, (uintptr_t)p + LEN, true, &a), 0);
	spent = 0;
	assert_int_equal(ffl_attr_get((uintptr_t)p, (uintptr_t)p + LEN, false, &a), 0);
	munmap(p, LEN);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(nothing_was_asked), cmocka_unit_test(it_is_asked_again),
			cmocka_unit_test(locked_is_locked_again),
			cmocka_unit_test(what_cannot_be_asked_again),
			cmocka_unit_test(parts_that_differ), cmocka_unit_test(it_takes_too_long));
}
