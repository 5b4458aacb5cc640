/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_window.c - ffl/mem/window.c: what happens when the kernel refuses one of the steps. Another
 * thread counts in the pages all the time; it may neither lose a count nor be left asleep.
 *
 * threads: yes
 * timeout: 300
 */
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
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

#define LEN ((size_t)16 * FF_PAGE)
#define RW  (PROT_READ | PROT_WRITE)

static int uffd = -1;
static char *p, *stash, *home, *probe;
static bool moves, use_probe;
static int memfd;
static _Atomic bool stop;
static _Atomic uint64_t counted, lost;

static void *counter(void *arg)
{
	volatile uint64_t *c = (volatile uint64_t *)(p + 5 * FF_PAGE + 64);
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

	use_probe = *state != NULL;
	uffd = dev < 0 ? -1 : ffl_window_open(dev, &moves);
	probe = mmap(NULL, FFL_WINDOW_MAX, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (uffd >= 0)
		assert_int_equal(ffl_window_probe(uffd, probe), 0);
	if (dev >= 0)
		close(dev);
	memfd = memfd_create("home", MFD_CLOEXEC);
	if (ftruncate(memfd, LEN))
		return -1;
	home = mmap(NULL, LEN, RW, MAP_SHARED | MAP_POPULATE, memfd, 0);
	p = mmap(NULL, LEN, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stash = mmap(NULL, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; i < LEN; i += FF_PAGE)
		p[i] = (char)(i / FF_PAGE);
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
	munmap(probe, FFL_WINDOW_MAX);
	close(memfd);
	if (uffd >= 0)
		close(uffd);
	return 0;
}

static void need_uffd(void)
{
	if (uffd >= 0 && (moves || !use_probe))
		return;
	stop = true;
	pthread_join(thread, NULL);
	print_message(uffd < 0 ? "no /dev/userfaultfd here\n" : "no UFFDIO_MOVE here\n");
	skip();
}

/* The counter goes on: it is not asleep. */
static void check_awake(void)
{
	uint64_t n = counted;

	while (counted < n + 1000)
		sched_yield();
	assert_int_equal(lost, 0);
	for (size_t i = 0; i < LEN; i += FF_PAGE)
		assert_int_equal(p[i], i / FF_PAGE);
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
	fail_mask = mask << 1; /* the first one asks whether home is one mapping */
	errno = ENOMEM;
	return ffl_window_in(uffd, -1, NULL, use_probe ? probe : NULL, p, LEN, stash, home, RW);
}

static int out(unsigned mask, int prot)
{
	calls = 0;
	fail_mask = mask;
	errno = ENOMEM;
	return ffl_window_out(uffd, p, LEN, stash, home, prot, false);
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
	for (int i = 0; i < (use_probe ? 50 : 200); i++) {
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

/* Nothing is slid then, for some kernels would unmap p before they refuse. */
static void home_in_pieces(void **state)
{
	(void)state;
	need_uffd();
	assert_int_equal(madvise(home + LEN / 2, LEN / 4, MADV_SEQUENTIAL), 0);
	assert_int_equal(in(0), -EFAULT);
	assert_int_equal(calls, 1);
	assert_false(is_replaced());
	check_awake();
	assert_int_equal(madvise(home, LEN, MADV_NORMAL), 0);
	assert_int_equal(in(0), 0);
	assert_true(is_replaced());
	finish();
}

/* Pages that the kernel has by their numbers, as for reads from a disk, stay; and those that are locked do not. */
static void pinned(void **state)
{
	struct io_uring_params par = { 0 };
	struct iovec iov = { p + 7 * FF_PAGE, FF_PAGE };
	int ring;

	(void)state;
	need_uffd();
	ring = (int)syscall(SYS_io_uring_setup, 4, &par);
	if (ring < 0 || syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &iov, 1)) {
		finish();
		print_message("no io_uring here\n");
		skip();
	}
	for (int i = 0; i < 20; i++) {
		assert_int_equal(in(0), -EBUSY);
		assert_false(is_replaced());
		check_awake();
	}
	syscall(SYS_io_uring_register, ring, IORING_UNREGISTER_BUFFERS, NULL, 0);
	close(ring);
	for (int i = 0; i < 1000 && in(0) == -EBUSY; i++) /* the kernel takes its time */
		usleep(1000);
	assert_true(is_replaced());
	finish();
}

static void locked(void **state)
{
	(void)state;
	need_uffd();
	for (int i = 0; i < 6; i++) {
		assert_int_equal(i % 2 ? munlock(p, LEN) : mlock(p, LEN), 0);
		assert_int_equal(in(0), 0);
		assert_true(is_replaced());
		assert_int_equal(out(0, RW), 0);
		check_awake();
		stash = mmap(NULL, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	}
	finish();
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

#define P(fn) cmocka_unit_test_prestate_setup_teardown(fn, setup, teardown, &use_probe)

	return UNIT_RUN(T(there_and_back), T(refused_on_the_way_in), T(refused_on_the_way_out),
			P(there_and_back), P(refused_on_the_way_in), P(refused_on_the_way_out),
			T(home_in_pieces), P(pinned), P(locked));
}
