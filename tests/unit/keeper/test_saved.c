/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* test_saved.c - descriptors that the keeper holds for sessions while the router is started again. */
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>

#include "tests/rig/unit/unit.h"
#include "ffr/keeper/saved.c"

/* The other end of the pipe says whether anybody still has its writing end. */
static bool is_open(int reading)
{
	struct pollfd p = { .fd = reading };

	saved_settle();
	assert_int_not_equal(poll(&p, 1, 0), -1);
	return !(p.revents & POLLHUP);
}

static void put_pipe(struct saved **s, uint32_t slot, int *reading)
{
	int p[2];

	assert_int_equal(pipe(p), 0);
	assert_int_equal(saved_put(s, slot, p[1]), 0);
	close(p[1]);
	*reading = p[0];
}

static void they_stay_until_they_are_let_go(void **state)
{
	struct saved *s = NULL;
	int a, b, c, fd;

	(void)state;
	put_pipe(&s, 1, &a);
	put_pipe(&s, 0xffffffff, &b);
	assert_true(is_open(a) && is_open(b));
	fd = saved_get(s, 1);
	assert_true(fd >= 0);
	assert_int_equal(saved_get(s, 2), -ENOENT);
	assert_int_equal(saved_del(s, 1), 0);
	assert_true(is_open(a)); /* by fd */
	close(fd);
	assert_false(is_open(a));
	assert_int_equal(saved_del(s, 1), -ENOENT);
	put_pipe(&s, 0xffffffff, &c); /* in the place of b */
	assert_false(is_open(b));
	assert_true(is_open(c));
	saved_free(s);
	assert_false(is_open(c));
	saved_free(NULL);
	assert_int_equal(saved_get(NULL, 1), -ENOENT);
	assert_int_equal(saved_del(NULL, 1), -ENOENT);
	close(a);
	close(b);
	close(c);
}

static void there_is_an_end(void **state)
{
	struct saved *s = NULL;
	uint32_t n = 0;
	int err;

	(void)state;
	while (!(err = saved_put(&s, n, STDERR_FILENO)) && n <= SAVED_MAX)
		n++;
	assert_true(err == -ENOSPC || err == -EMFILE);
	assert_true(n > 100 && n <= SAVED_MAX);
	assert_int_equal(saved_put(&s, 0, -1), -EBADF);
	assert_int_equal(saved_get(s, 0) < 0 ? -EMFILE : 0, err == -EMFILE ? -EMFILE : 0);
	saved_free(s);
	saved_settle();
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(they_stay_until_they_are_let_go),
			cmocka_unit_test(there_is_an_end));
}
