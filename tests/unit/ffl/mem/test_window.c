/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_window.c - ffl/mem/window.c: what happens when the kernel refuses one of the steps. Another
 * thread counts in the pages all the time; it may neither lose a count nor be left asleep.
 *
 * threads: yes
 */
#include <setjmp.h>
#include <stdarg.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "ffl/session/mm.h"

static unsigned calls, fail_mask; /* bit n: the nth mremap from now on fails */

static void *hooked_remap(void *old, size_t old_len, size_t new_len, int flags, void *new)
{
	if (fail_mask >> calls++ & 1)
		return (void *)-1;
	return mm_remap(old, old_len, new_len, flags, new);
}

#define mm_remap hooked_remap
#include "ffl/mem/window.c"
#undef mm_remap

#define LEN ((size_t)16 * 4096)
#define RW  (PROT_READ | PROT_WRITE)

static int uffd = -1;
static char *p, *stash, *home;
static int memfd;
static _Atomic bool stop;
static _Atomic uint64_t counted, lost;

static void *counter(void *arg)
{
	volatile uint64_t *c = (volatile uint64_t *)(p + 5 * 4096 + 64);
	uint64_t n = 0;

	(void)arg;
	while (!stop) {
		if (*c != n)
			lost++;
		*c = ++n;
		counted = n;
	}
	return NULL;
}

static pthread_t thread;

static int setup(void **state)
{
	int dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);

	(void)state;
	uffd = dev < 0 ? -1 : ffl_window_open(dev);
	if (dev >= 0)
		close(dev);
	memfd = memfd_create("home", MFD_CLOEXEC);
	if (ftruncate(memfd, LEN))
		return -1;
	home = mmap(NULL, LEN, RW, MAP_SHARED | MAP_POPULATE, memfd, 0);
	p = mmap(NULL, LEN, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stash = mmap(NULL, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; i < LEN; i += 4096)
		p[i] = (char)(i / 4096);
	stop = false;
	counted = lost = 0;
	calls = fail_mask = 0;
	return pthread_create(&thread, NULL, counter, NULL);
}

static int teardown(void **state)
{
	(void)state;
	munmap(p, LEN);
	munmap(stash, LEN);
	munmap(home, LEN);
	close(memfd);
	if (uffd >= 0)
		close(uffd);
	return 0;
}

static void need_uffd(void)
{
	if (uffd >= 0)
		return;
	stop = true;
	pthread_join(thread, NULL);
	print_message("no /dev/userfaultfd here\n");
	skip();
}

/* The counter goes on: it is not asleep. */
static void check_awake(void)
{
	uint64_t n = counted;

	while (counted < n + 1000)
		sched_yield();
	assert_int_equal(lost, 0);
	for (size_t i = 0; i < LEN; i += 4096)
		assert_int_equal(p[i], i / 4096);
}

static void finish(void)
{
	check_awake();
	stop = true;
	pthread_join(thread, NULL);
	assert_int_equal(lost, 0);
}

static int in(unsigned mask)
{
	calls = 0;
	fail_mask = mask;
	errno = ENOMEM;
	return ffl_window_in(uffd, p, LEN, stash, home);
}

static int out(unsigned mask, int prot)
{
	calls = 0;
	fail_mask = mask;
	errno = ENOMEM;
	return ffl_window_out(uffd, p, LEN, stash, home, prot);
}

/* Do p and home show the same pages? */
static bool is_replaced(void)
{
	home[100] = 1;
	p[100] = 2;
	return home[100] == 2;
}

static void there_and_back(void **state)
{
	(void)state;
	need_uffd();
	for (int i = 0; i < 200; i++) {
		assert_int_equal(in(0), 0);
		assert_true(is_replaced());
		check_awake();
		assert_int_equal(out(0, RW), 0);
		assert_false(is_replaced());
		check_awake();
		stash = mmap(NULL, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	}
	finish();
}

static void refused_on_the_way_in(void **state)
{
	/* the first step; the second, undone; the second, and its undoing: by UFFDIO_COPY */
	static const unsigned masks[] = { 1, 2, 2 | 4 };

	(void)state;
	need_uffd();
	for (int i = 0; i < 3; i++) {
		assert_int_equal(in(masks[i]), -ENOMEM);
		assert_false(is_replaced());
		check_awake();
	}
	assert_int_equal(in(0), 0); /* no harm done */
	assert_true(is_replaced());
	finish();
}

static void refused_on_the_way_out(void **state)
{
	/* likewise; the last one by UFFDIO_CONTINUE */
	static const unsigned masks[] = { 1, 2, 2 | 4 };

	(void)state;
	need_uffd();
	assert_int_equal(in(0), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(out(masks[i], RW), -ENOMEM);
		assert_true(is_replaced());
		check_awake();
	}
	assert_int_equal(out(0, RW), 0);
	assert_false(is_replaced());
	finish();
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(there_and_back),
		T(refused_on_the_way_in),
		T(refused_on_the_way_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
