/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_fallible.c - ffr/mem/fallible.c: copies of any length and place, and those that meet nothing on either side.
 */
#include <string.h>
#include <sys/mman.h>

#include "tests/rig/unit/unit.h"
#include "ffr/mem/fallible.h"
#include "ffr/mem/shadow.h"

#define SIZE (2 * FF_PAGE)

static uint8_t *fresh(void)
{
	uint8_t *p = mmap(NULL, SIZE + FF_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

/* Whether with the narrow copy of x86, which a CPU without AVX2 has. */
static void narrow(const void *state)
{
#ifdef __x86_64__
	extern bool fallible_wide;

	fallible_wide = !state && __builtin_cpu_supports("avx2");
#else
	(void)state;
#endif
}

static void copies(void **state)
{
	uint8_t *a = fresh(), *b = fresh();

	narrow(*state);
	for (unsigned i = 0; i < SIZE; i++)
		a[i] = (uint8_t)(i * 31 + i / 256);
	for (unsigned n = 0; n < 700; n++)
		for (unsigned at = 0; at < 33; at++) {
			memset(b, 0xee, 800);
			assert_int_equal(fallible_copy(b + at, a + 3, n), 0);
			assert_memory_equal(b + at, a + 3, n);
			assert_int_equal(b[at + n], 0xee);
			assert_true(!at || b[at - 1] == 0xee);
		}
	assert_int_equal(fallible_copy(b, a, SIZE), 0);
	assert_memory_equal(a, b, SIZE);
	munmap(a, SIZE + FF_PAGE);
	munmap(b, SIZE + FF_PAGE);
}

/* Nothing from SIZE on: what is left is what has not been copied, and of that nothing was. */
static void ends(void **state)
{
	uint8_t *a = fresh(), *b = fresh();

	narrow(*state);
	assert_int_equal(sigbus_install(),
			 0); /* here: cmocka has handlers of its own for each test */
	memset(a, 7, SIZE);
	assert_int_equal(mprotect(a + SIZE, FF_PAGE, PROT_NONE), 0);
	for (unsigned n = 1; n < 600; n += n < 200 ? 1 : 57)
		for (unsigned have = 0; have < n; have++) {
			uint64_t left;

			memset(b, 0xee, n);
			left = fallible_copy(b, a + SIZE - have, n);
			assert_in_range(left, n - have, n);
			for (unsigned i = 0; i < n; i++)
				assert_int_equal(b[i], i < n - left ? 7 : 0xee);
			/* in the other direction */
			assert_in_range(fallible_copy(a + SIZE - have, b, n), n - have, n);
			memset(a + SIZE - have, 7, have);
		}
	/* read-only is nothing to write to */
	assert_int_equal(mprotect(a, SIZE, PROT_READ), 0);
	assert_int_equal(fallible_copy(a, b, 100), 100);
	munmap(a, SIZE + FF_PAGE);
	munmap(b, SIZE + FF_PAGE);
}

extern const char fallible_begin[], fallible_end[];

/* A fault anywhere else is a mistake, which must end the router. */
static void other_faults(void **state)
{
	const uintptr_t begin = (uintptr_t)fallible_begin, end = (uintptr_t)fallible_end;
	ucontext_t c = { 0 };

	(void)state;
	for (uintptr_t pc = begin - 32; pc < end + 32; pc++) {
		bool inside = pc >= begin && pc < end;

		*fault_pc(&c) = pc;
		assert_int_equal(fallible_fault(&c), inside);
		assert_int_equal(*fault_pc(&c), inside ? end : pc);
	}
}

int main(void)
{
	static char yes;

	return UNIT_RUN(cmocka_unit_test(copies), cmocka_unit_test(ends),
			cmocka_unit_test(other_faults), cmocka_unit_test_prestate(copies, &yes),
			cmocka_unit_test_prestate(ends, &yes));
}
