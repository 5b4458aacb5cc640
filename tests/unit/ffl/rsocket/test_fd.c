/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_fd.c - ffl/rsocket/fd.c: two threads that open the first descriptors of a part of the table.
 */
/* build: ffl/rsocket/fd.c -Wl,--wrap=calloc */
#include "ffl/rsocket/rsocket.h"
#include "tests/rig/unit/unit.h"

static struct rsocket first, second;
static bool is_overtaken; /* by a second thread, the next time that memory is asked for */

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
	if (is_overtaken) {
		is_overtaken = false;
		assert_int_equal(rs_fd_put(6, &second), 0);
	}
	return __real_calloc(n, size);
}

/* What the faster thread has entered stays. */
static void both_are_entered(void **state)
{
	(void)state;
	is_overtaken = true;
	assert_int_equal(rs_fd_put(5, &first), 0);
	assert_false(is_overtaken);
	assert_ptr_equal(rs_fd_get(5), &first);
	assert_ptr_equal(rs_fd_get(6), &second);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(both_are_entered));
}
