/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_window.c - ffl/mem/window.c: what happens when the kernel refuses one of the steps, and when other threads do
 * something to the pages meanwhile. Another thread counts in them all the time; it may neither lose a count nor be left
 * asleep.
 *
 * threads: yes
 * timeout: 300
 * build: ffl/mem/attr.c
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffl/session/mm.h"

static unsigned calls, fail_mask; /* bit n: the nth mremap from now on fails */
static void (*before_call)(unsigned n);

static void *hooked_remap(void *old, size_t old_len, size_t new_len, int flags, void *new)
{
	if (before_call)
		before_call(calls);
	if (fail_mask >> calls++ & 1) {
		errno = ENOMEM;
		return (void *)-1;
	}
	return mm_remap(old, old_len, new_len, flags, new);
}

static void (*before_copy)(void); /* the first one */
static unsigned busy_moves;	  /* so many UFFDIO_MOVEs from now on say EBUSY */

static int hooked_ioctl(int fd, unsigned long nr, ...)
{
	void (*what)(void) = before_copy;
	unsigned long arg;
	va_list ap;

	va_start(ap, nr);
	arg = va_arg(ap, unsigned long);
	va_end(ap);
	if (nr == UFFDIO_COPY && what) {
		before_copy = NULL;
		what();
	}
	if (_IOC_TYPE(nr) == UFFDIO && _IOC_NR(nr) == 5 && busy_moves) {
		busy_moves--;
		errno = EBUSY;
		return -1;
	}
	return ioctl(fd, nr, arg);
}

#define mm_remap hooked_remap
#define ioctl	 hooked_ioctl
#include "ffl/mem/window.c"
#undef mm_remap
#undef ioctl

int ffl_fd_high(int fd)
{
	return fd;
}

#define LEN    ((size_t)16 * FF_PAGE)
#define PLACES 200u /* of LEN bytes, which are replaced one after the other */
#define RW     (PROT_READ | PROT_WRITE)
#ifndef MADV_GUARD_REMOVE
#define MADV_GUARD_REMOVE 103
#endif

/* The calls of mremap() in a window. */
enum { SLIDE, COME, BACK };

static char *all, *p; /* PLACES; the one that is replaced next */
static char *home;    /* shared pages */
static unsigned place;
static bool has_uffd, has_probe;
static int memfd, maps;
static struct ffl_attr attr; /* that are expected */
static _Atomic bool stop;
static _Atomic uint64_t counted, lost;

static volatile uint64_t *counter_of(unsigned i)
{
	return (volatile uint64_t *)(all + i * LEN + 5 * FF_PAGE + 64);
}

/* In all places in turn. */
static void *counter(void *arg)
{
	uint64_t n = 0;

	(void)arg;
	while (!stop) {
		n++;
		for (unsigned i = 0; i < PLACES; i++) {
			if (*counter_of(i) != n - 1)
				lost++;
			*counter_of(i) = n;
		}
		counted = n;
	}
	return NULL;
}

static pthread_t thread;

static void home_new(void)
{
	home = mmap(NULL, LEN, RW, MAP_SHARED | MAP_POPULATE, memfd, (off_t)(place * LEN));
	p = all + place * LEN;
}

static int setup(void **state)
{
	int dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);

	has_uffd = dev >= 0 && !ffl_window_init(dev);
	has_probe = probe != NULL;
	if (!*state && probe) /* as if the kernel had no UFFDIO_MOVE */
		unmap(&probe, FFL_WINDOW_MAX);
	if (dev >= 0)
		close(dev);
	attr = (struct ffl_attr){ 0 };
	maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	memfd = memfd_create("home", MFD_CLOEXEC);
	if (ftruncate(memfd, PLACES * LEN))
		return -1;
	/* between pages to read, so that it is one mapping with no other */
	all = mmap(NULL, PLACES * LEN + 2 * FF_PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	all += FF_PAGE;
	if (mprotect(all, PLACES * LEN, RW))
		return -1;
	for (size_t i = 0; i < PLACES * LEN; i += FF_PAGE)
		all[i] = (char)(i / FF_PAGE);
	place = 0;
	home_new();
	stop = false;
	counted = lost = 0;
	calls = fail_mask = 0;
	before_call = NULL;
	return pthread_create(&thread, NULL, counter, NULL);
}

static int teardown(void **state)
{
	(void)state;
	if (!stop) { /* the test has failed */
		stop = true;
		pthread_join(thread, NULL);
	}
	munmap(all - FF_PAGE, PLACES * LEN + 2 * FF_PAGE);
	munmap(home, LEN);
	close(memfd);
	close(maps);
	ffl_window_fini(true);
	return 0;
}

static void stop_counter(void)
{
	stop = true;
	pthread_join(thread, NULL);
}

/* *state: with the probe, which tells what is pinned. */
static void need_uffd(void **state)
{
	if (has_uffd && (has_probe || !*state))
		return;
	stop_counter();
	print_message(has_uffd ? "no UFFDIO_MOVE here\n" : "no /dev/userfaultfd here\n");
	skip();
}

/* The counter goes on: it is not asleep. */
static void check_awake(void)
{
	uint64_t n = counted;

	while (counted < n + 10)
		sched_yield();
	assert_int_equal(lost, 0);
	for (size_t i = 0; i < PLACES * LEN; i += FF_PAGE)
		assert_int_equal(all[i], (char)(i / FF_PAGE));
}

static void finish(void)
{
	check_awake();
	stop_counter();
	assert_int_equal(lost, 0);
}

static int in(unsigned mask)
{
	struct ffl_swap s = {
		.p = p,
		.len = LEN,
		.prot = RW,
		.home = home,
		.fd = memfd,
		.off = place * LEN,
		.maps = maps,
		.attr = &attr,
	};
	int err;

	calls = 0;
	fail_mask = mask;
	err = ffl_window_in(&s);
	fail_mask = 0;
	return err;
}

/* Does p show the file's pages? */
static bool is_replaced(void)
{
	char c = 0;

	p[100] = 2;
	assert_int_equal(pread(memfd, &c, 1, (off_t)(place * LEN + 100)), 1);
	p[100] = 0;
	return c == 2;
}

static void next(void)
{
	place++;
	home_new();
}

static void one_after_the_other(void **state)
{
	need_uffd(state);
	for (;;) {
		assert_int_equal(in(0), 0);
		assert_true(is_replaced());
		if (place % 10 == 0)
			check_awake();
		if (place == PLACES - 1)
			break;
		next();
	}
	finish();
}

static void refused(void **state)
{
	/* the first step; the second, undone; the second, and its undoing: by UFFDIO_COPY */
	static const unsigned masks[] = { 1 << SLIDE, 1 << COME, 1 << COME | 1 << BACK };

	need_uffd(state);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(in(masks[i]), -ENOMEM);
		assert_false(is_replaced());
		check_awake();
	}
	assert_int_equal(in(0), 0); /* no harm done */
	assert_true(is_replaced());
	finish();
}

/* Pages that the kernel has by their numbers, as for reads from a disk, stay; and those that are locked do not. */
static void pinned(void **state)
{
	struct io_uring_params par = { 0 };
	struct iovec iov = { p + 7 * FF_PAGE, FF_PAGE };
	int ring;

	need_uffd(state);
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

/* The kernel says so for a moment of huge pages that nobody has. */
static void busy_for_a_moment(void **state)
{
	need_uffd(state);
	busy_moves = BUSY_TRIES;
	assert_int_equal(in(0), 0);
	assert_true(is_replaced());
	next();
	busy_moves = BUSY_TRIES + 1;
	assert_int_equal(in(0), -EBUSY);
	assert_int_equal(busy_moves, 0);
	assert_false(is_replaced());
	assert_int_equal(in(0), 0);
	assert_true(is_replaced());
	finish();
}

/* Without the probe it is not known which pages they are. */
static void pinned_anywhere(void **state)
{
	static char page[2 * 4096];
	struct io_uring_params par = { 0 };
	struct iovec iov = { page, sizeof(page) };
	int ring;

	need_uffd(state);
	ring = (int)syscall(SYS_io_uring_setup, 4, &par);
	if (ring < 0 || syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &iov, 1)) {
		finish();
		print_message("no io_uring here\n");
		skip();
	}
	assert_int_equal(in(0), -EBUSY);
	assert_false(is_replaced());
	syscall(SYS_io_uring_register, ring, IORING_UNREGISTER_BUFFERS, NULL, 0);
	close(ring);
	for (int i = 0; i < 1000 && in(0) == -EBUSY; i++) /* the kernel takes its time */
		usleep(1000);
	assert_true(is_replaced());
	finish();
}

static void locked(void **state)
{
	need_uffd(state);
	for (int i = 0; i < 6; i++) {
		attr.is_locked = i % 2 == 0; /* mlock() does nothing under AddressSanitizer */
		assert_int_equal(syscall(attr.is_locked ? SYS_mlock : SYS_munlock, p, LEN), 0);
		assert_int_equal(in(0), 0);
		assert_true(is_replaced());
		check_awake();
		next();
	}
	finish();
}

/* What the program has asked of its memory, and the window was not told of. */
static void other_attributes(void **state)
{
	need_uffd(state);
	assert_int_equal(madvise(p, LEN, MADV_DONTDUMP), 0);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(in(0), -ESTALE);
		assert_false(is_replaced());
		check_awake();
	}
	attr.advice[0] = MADV_DONTDUMP;
	assert_int_equal(in(0), 0);
	assert_true(is_replaced());
	next();
	assert_int_equal(in(0), -ESTALE); /* which was asked of nothing */
	finish();
}

/* A page that nobody may touch, until it is asked otherwise (Linux 6.13). */
static void guarded(void **state)
{
	need_uffd(state);
	stop_counter();
	if (madvise(p + 3 * FF_PAGE, FF_PAGE, MADV_GUARD_INSTALL)) {
		print_message("no MADV_GUARD_INSTALL here\n");
		skip();
	}
	assert_int_equal(in(0), -EFAULT);
	assert_int_equal(madvise(p + 3 * FF_PAGE, FF_PAGE, MADV_GUARD_REMOVE), 0);
	assert_int_equal(in(0), 0);
}

/* ---- what others do meanwhile ------------------------------------------------------------------------- */

static pthread_t other;
static unsigned moment; /* the call before which it begins */

static void *drop(void *arg)
{
	(void)arg;
	syscall(SYS_madvise, p + 3 * FF_PAGE, 2 * FF_PAGE, MADV_DONTNEED);
	return NULL;
}

/* The other thread's event is there, and it sleeps. */
static void drop_before(unsigned n)
{
	struct pollfd fd = { .fd = uffd, .events = POLLIN };

	if (n != moment)
		return;
	pthread_create(&other, NULL, drop, NULL);
	poll(&fd, 1, -1);
}

static bool is_zero(const char *at, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (at[i])
			return false;
	return true;
}

/* Pages that are dropped in a window are zero after it, however it ends, and the others are as they were. */
static void dropped_meanwhile(void **state)
{
	static const struct {
		unsigned moment, mask;
		int err;
	} ways[] = {
		{ COME, 0, 0 },
		{ COME, 1 << COME, -ENOMEM },
		{ COME, 1 << COME | 1 << BACK, -ENOMEM },
		{ BACK, 1 << COME, -ENOMEM },
		{ BACK, 1 << COME | 1 << BACK, -ENOMEM },
	};

	need_uffd(state);
	stop_counter();
	for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		memset(p, 7, LEN);
		moment = ways[i].moment;
		before_call = drop_before;
		assert_int_equal(in(ways[i].mask), ways[i].err);
		before_call = NULL;
		pthread_join(other, NULL);
		assert_true(is_zero(p + 3 * FF_PAGE, 2 * FF_PAGE));
		for (size_t k = 0; k < LEN; k++)
			if (k / FF_PAGE != 3 && k / FF_PAGE != 4)
				assert_int_equal(p[k], 7);
		if (!ways[i].err)
			next();
	}
}

static void unmap_before(unsigned n)
{
	if (n == moment)
		munmap(p + 3 * FF_PAGE, 2 * FF_PAGE);
}

static void map_before(unsigned n)
{
	if (n == moment && mmap(p + 3 * FF_PAGE, 2 * FF_PAGE, RW,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		abort();
}

static int in_the_copy(void (*what)(unsigned), unsigned when)
{
	int err;

	memset(p, 7, LEN);
	moment = when;
	before_call = what;
	err = in(0);
	before_call = NULL;
	return err;
}

/* Before the pages were taken away: the window finds that it is no one mapping. */
static void unmapped_before(void **state)
{
	need_uffd(state);
	stop_counter();
	assert_true(in_the_copy(unmap_before, SLIDE) < 0);
	for (size_t k = 0; k < LEN; k++)
		if (k / FF_PAGE != 3 && k / FF_PAGE != 4)
			assert_int_equal(p[k], 7);
	assert_int_equal(msync(p + 3 * FF_PAGE, FF_PAGE, MS_ASYNC), -1); /* nothing is there */
}

static void mapped_before(void **state)
{
	need_uffd(state);
	stop_counter();
	assert_true(in_the_copy(map_before, SLIDE) <= 0);
	assert_true(is_zero(p + 3 * FF_PAGE, 2 * FF_PAGE));
	for (size_t k = 0; k < LEN; k++)
		if (k / FF_PAGE != 3 && k / FF_PAGE != 4)
			assert_int_equal(p[k], 7);
}

static void advise_before(unsigned n)
{
	if (n == moment && madvise(p, LEN, MADV_DONTDUMP))
		abort();
}

/* All of p is asked something when the window is being opened. */
static void advised_before(void **state)
{
	need_uffd(state);
	stop_counter();
	assert_int_equal(in_the_copy(advise_before, SLIDE), -ESTALE);
	for (size_t k = 0; k < LEN; k++)
		assert_int_equal(p[k], 7);
}

/* ---- the other way ------------------------------------------------------------------------------------ */

/* The calls of mremap() in it. */
enum { OUT_STASH, OUT_ENTRIES, OUT_COME, OUT_BACK };

/* There is no router here. */
static int settled(void *err)
{
	return *(int *)err;
}

static int settle_err;

/* The place, which shows the file, becomes private. */
static int out(unsigned mask)
{
	struct ffl_swap s = {
		.p = p,
		.len = LEN,
		.prot = RW,
		.home = mmap(NULL, LEN, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
		.fd = memfd,
		.off = place * LEN,
		.maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC),
	};
	int err;

	assert_ptr_not_equal(s.home, MAP_FAILED);
	calls = 0;
	fail_mask = mask;
	err = ffl_window_out(&s, settled, &settle_err);
	fail_mask = 0;
	if (err)
		munmap(s.home, LEN);
	close(s.maps);
	return err;
}

static void back_to_private(void **state)
{
	need_uffd(state);
	for (;;) {
		assert_int_equal(in(0), 0);
		assert_true(is_replaced());
		assert_int_equal(out(0), 0);
		assert_false(is_replaced());
		if (place % 10 == 0)
			check_awake();
		if (place == PLACES - 1)
			break;
		next();
	}
	finish();
}

static void back_refused(void **state)
{
	static const unsigned masks[] = { 1 << OUT_STASH, 1 << OUT_ENTRIES, 1 << OUT_COME,
					  1 << OUT_COME | 1 << OUT_BACK };

	need_uffd(state);
	assert_int_equal(in(0), 0);
	for (unsigned i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
		assert_int_equal(out(masks[i]), -ENOMEM);
		assert_true(is_replaced());
		check_awake();
	}
	settle_err = -EBUSY;
	assert_int_equal(out(0), -EBUSY);
	settle_err = 0;
	assert_true(is_replaced());
	check_awake();
	assert_int_equal(out(0), 0);
	assert_false(is_replaced());
	finish();
}

/* Not the file: it stays as it is. */
static void back_is_not_the_file(void **state)
{
	need_uffd(state);
	assert_int_equal(out(0), -EAGAIN);
	assert_false(is_replaced());
	finish();
}

static void dropped_on_the_way_back(void **state)
{
	static const unsigned moments[] = { OUT_ENTRIES, OUT_COME, OUT_COME, OUT_BACK };
	static const unsigned masks[] = { 0, 0, 1 << OUT_COME, 1 << OUT_COME };

	need_uffd(state);
	stop_counter();
	for (unsigned i = 0; i < sizeof(moments) / sizeof(moments[0]); i++) {
		memset(p, 7, LEN);
		assert_int_equal(in(0), 0);
		moment = moments[i];
		before_call = drop_before;
		assert_int_equal(out(masks[i]), masks[i] ? -ENOMEM : 0);
		before_call = NULL;
		pthread_join(other, NULL);
		assert_true(is_zero(p + 3 * FF_PAGE, 2 * FF_PAGE));
		for (size_t k = 0; k < LEN; k++)
			if (k / FF_PAGE != 3 && k / FF_PAGE != 4)
				assert_int_equal(p[k], 7);
		next();
	}
}

static void unmap_then(unsigned n)
{
	if (n == moment)
		munmap(p + 3 * FF_PAGE, 2 * FF_PAGE);
}

/* What the program unmaps on the way stays unmapped, and the rest stays what it was. */
static void unmapped_on_the_way_back(void **state)
{
	need_uffd(state);
	stop_counter();
	memset(p, 7, LEN);
	assert_int_equal(in(0), 0);
	moment = OUT_ENTRIES;
	before_call = unmap_then;
	assert_true(out(0) < 0);
	before_call = NULL;
	for (size_t k = 0; k < LEN; k++)
		if (k / FF_PAGE != 3 && k / FF_PAGE != 4)
			assert_int_equal(p[k], 7);
	assert_int_equal(msync(p + 3 * FF_PAGE, FF_PAGE, MS_ASYNC), -1);
}

static int other_uffd;

static void watched_memory_comes(void)
{
	struct uffdio_register reg = { .range = { (uintptr_t)p, LEN },
				       .mode = UFFDIO_REGISTER_MODE_MISSING };

	if (mmap(p, LEN, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		abort();
	for (size_t i = 0; i < LEN / FF_PAGE; i++)
		if (i != 5)
			memset(p + i * FF_PAGE, 9, FF_PAGE);
	if (ioctl(other_uffd, UFFDIO_REGISTER, &reg))
		abort();
}

/* Memory that another userfaultfd watches takes the place: it is not taken for what was there. */
static void mapped_in_the_window(void **state)
{
	struct uffdio_api api = { .api = UFFD_API };
	int dev;

	need_uffd(state);
	stop_counter();
	dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	other_uffd = ioctl(dev, _IO(0xAA, 0x00), O_CLOEXEC | O_NONBLOCK);
	assert_true(other_uffd >= 0 && !ioctl(other_uffd, UFFDIO_API, &api));
	close(dev);
	memset(p, 7, LEN);
	before_copy = watched_memory_comes;
	assert_int_equal(in(0), -EAGAIN);
	assert_null(before_copy);
	close(other_uffd);
	for (size_t k = 0; k < LEN; k++)
		assert_int_equal(p[k], k / FF_PAGE == 5 ? 0 : 9);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

#define P(fn) cmocka_unit_test_prestate_setup_teardown(fn, setup, teardown, &has_probe)

	return UNIT_RUN(T(one_after_the_other), T(refused), P(one_after_the_other), P(refused),
			P(pinned), P(busy_for_a_moment), T(pinned_anywhere), P(locked),
			T(other_attributes), P(other_attributes), P(guarded), T(dropped_meanwhile),
			P(dropped_meanwhile), T(unmapped_before), T(mapped_before),
			P(advised_before), T(back_to_private), T(back_refused),
			T(back_is_not_the_file), T(dropped_on_the_way_back),
			T(unmapped_on_the_way_back), T(mapped_in_the_window),
			P(mapped_in_the_window));
}
