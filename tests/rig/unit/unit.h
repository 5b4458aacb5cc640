/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* unit.h - cmocka, with what has to be included before it, and the whole of a test program's main(). */
#ifndef UNIT_H
#define UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <malloc.h>

/*
 * Runs those tests, which cmocka_unit_test() and its like make; what main() returns. setup is called before the first
 * and teardown after the last of them; NULL: nothing is.
 */
#define UNIT_RUN_GROUP(setup, teardown, ...)                                                       \
	({                                                                                         \
		const struct CMUnitTest unit_tests_[] = { __VA_ARGS__ };                           \
                                                                                                   \
		cmocka_run_group_tests(unit_tests_, setup, teardown);                              \
	})
#define UNIT_RUN(...) UNIT_RUN_GROUP(NULL, NULL, __VA_ARGS__)

/* Bytes that are allocated. With a sanitizer, which tells of leaks itself, it is always the same. */
static inline size_t unit_allocated(void)
{
	return mallinfo2().uordblks;
}

/* The factor for deadlines: FF_SLOW of the environment says how slow a machine is, an emulated one. */
static inline unsigned unit_slow(void)
{
	const char *s = getenv("FF_SLOW");

	return s ? (unsigned)atoi(s) : 1;
}

/* The largest that FF_PAGE may be, which is no constant everywhere: for static arrays. */
#ifdef __x86_64__
#define UNIT_PAGE_MAX 4096u
#else
#define UNIT_PAGE_MAX 65536u
#endif

#endif
