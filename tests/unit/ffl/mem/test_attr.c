/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_attr.c - ffl/mem/attr.c: what the program has asked of a mapping, and whether another one can have the same.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include "tests/rig/unit/unit.h"
#include "ffl/mem/attr.c"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

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

/* ---- comparing --------------------------------------------------------------------------- */

static int uffd;

static int setup(void **state)
{
	struct uffdio_api api = { .api = UFFD_API };
	int dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);

	(void)state;
	uffd = dev < 0 ? -1 : ioctl(dev, _IO(0xAA, 0x00), O_CLOEXEC | O_NONBLOCK);
	if (dev >= 0)
		close(dev);
	return uffd >= 0 && ioctl(uffd, UFFDIO_API, &api) ? -1 : ffl_attr_init(2 * LEN);
}

static int teardown(void **state)
{
	(void)state;
	if (uffd >= 0)
		close(uffd);
	ffl_attr_fini();
	return 0;
}

/* An empty mapping, whose neighbours are others. */
static char *map_empty(int flags)
{
	char *p = mmap(NULL, 3 * LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	p += LEN;
	assert_ptr_not_equal(mmap(p, LEN, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | flags, -1, 0),
			     MAP_FAILED);
	return p;
}

static bool is(char *p, const struct ffl_attr *a, int prot)
{
	struct uffdio_register r = { .range = { (uintptr_t)p, LEN },
				     .mode = UFFDIO_REGISTER_MODE_MISSING };
	bool same;

	assert_int_equal(ffl_attr_expect(a, prot, LEN), 0);
	assert_int_equal(ioctl(uffd, UFFDIO_REGISTER, &r), 0);
	same = ffl_attr_is(uffd, p, LEN);
	ffl_attr_forget();
	assert_int_equal(ioctl(uffd, UFFDIO_UNREGISTER, &r.range), 0);
	return same;
}

static void need_uffd(void)
{
	if (uffd < 0)
		skip();
}

static const int rw = PROT_READ | PROT_WRITE;

/* Whatever it has been asked, it is like one that was asked the same, and like no other. */
static void alike_if_asked_the_same(void **state)
{
	static const int advice[] = { 0, MADV_DONTDUMP, MADV_SEQUENTIAL, MADV_HUGEPAGE };
	const unsigned n = sizeof(advice) / sizeof(advice[0]);
	static const int flags[] = { 0, MAP_NORESERVE };

	(void)state;
	need_uffd();
	for (unsigned i = 0; i < n * n * 2; i++) {
		struct ffl_attr a = { .advice = { advice[i % n] } };
		int asked = advice[i / n % n];
		char *p = map_empty(flags[i / n / n]);

		/* a kernel without huge pages */
		if (asked && madvise(p, LEN, asked))
			asked = 0;
		if (a.advice[0] && madvise(p, 0, a.advice[0]))
			a.advice[0] = 0;
		assert_int_equal(is(p, &a, rw), a.advice[0] == asked);
		assert_int_equal(is(p, &a, rw), a.advice[0] == asked); /* it was left as it was */
		munmap(p, LEN);
	}
}

/* What shadow pages cannot have, and what smaps does not tell. */
static void not_alike(void **state)
{
	static const int advice[] = { MADV_WIPEONFORK, MADV_DONTFORK, MADV_MERGEABLE };
	const struct ffl_attr none = { 0 };
	unsigned long node = 1;
	char *p;

	(void)state;
	need_uffd();
	for (unsigned i = 0; i < sizeof(advice) / sizeof(advice[0]); i++) {
		p = map_empty(0);
		if (!madvise(p, LEN, advice[i]))
			assert_false(is(p, &none, rw));
		munmap(p, LEN);
	}
	p = map_empty(0);
	if (!syscall(SYS_mbind, p, LEN, MPOL_BIND, &node, 64, 0))
		assert_false(is(p, &none, rw));
	munmap(p, LEN);
	p = map_empty(0);
	assert_int_equal(mprotect(p, LEN, PROT_READ), 0);
	assert_false(is(p, &none, rw));
	munmap(p, LEN);
}

/* Whether it is locked is told apart. */
static void locked_memory(void **state)
{
	char *p = map();

	(void)state;
	assert_false(ffl_attr_is_locked(p));
	if (syscall(SYS_mlock, p, LEN))
		skip();
	assert_true(ffl_attr_is_locked(p));
	assert_int_equal(p[0], 1);
	assert_int_equal(syscall(SYS_munlock, p, LEN), 0);
	assert_false(ffl_attr_is_locked(p));
	munmap(p, LEN);
}

/* A program that locks all of its memory, the models included. */
static void all_memory_is_locked(void **state)
{
	const struct ffl_attr none = { 0 };
	char *p = map_empty(0);

	(void)state;
	need_uffd();
	if (syscall(SYS_mlockall, MCL_FUTURE))
		skip();
	assert_true(is(p, &none, rw));
	assert_int_equal(syscall(SYS_munlockall), 0);
	munmap(p, LEN);
}

/* A part of it is another mapping, or none. */
static void parts_are_not_alike(void **state)
{
	const struct ffl_attr none = { 0 };
	char *p = map_empty(0);

	(void)state;
	need_uffd();
	assert_int_equal(madvise(p, LEN / 2, MADV_DONTDUMP), 0);
	assert_false(is(p, &none, rw));
	assert_int_equal(madvise(p, LEN / 2, MADV_DODUMP), 0);
	assert_true(is(p, &none, rw));
	assert_int_equal(madvise(p + LEN / 2, LEN / 2, MADV_DONTDUMP), 0);
	assert_false(is(p, &none, rw));
	munmap(p, LEN);
}

static void *touch(void *p)
{
	*(volatile char *)p = 1;
	return NULL;
}

/* Somebody touches it meanwhile, and sleeps. */
static void touched_meanwhile(void **state)
{
	const struct ffl_attr none = { 0 };
	char *p = map_empty(0);
	struct uffdio_register r = { .range = { (uintptr_t)p, LEN },
				     .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct pollfd poll_uffd = { .fd = uffd, .events = POLLIN };
	pthread_t t[3];

	(void)state;
	need_uffd();
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(ffl_attr_expect(&none, rw, LEN), 0);
		assert_int_equal(ioctl(uffd, UFFDIO_REGISTER, &r), 0);
		assert_int_equal(pthread_create(&t[i], NULL, touch, p), 0);
		assert_int_equal(poll(&poll_uffd, 1, -1), 1);
		assert_true(ffl_attr_is(uffd, p, LEN));
		ffl_attr_forget();
	}
	assert_int_equal(ioctl(uffd, UFFDIO_UNREGISTER, &r.range), 0);
	assert_int_equal(ioctl(uffd, UFFDIO_WAKE, &r.range), 0);
	for (unsigned i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	munmap(p, LEN);
}

/* The program's mapping is next to what it is compared with. */
static void next_to_it(void **state)
{
	const struct ffl_attr none = { 0 };
	const int fixed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
	struct uffdio_register r = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	char *p, *stash = map_empty(0);

	(void)state;
	need_uffd();
	p = mmap(room - LEN, LEN, rw, fixed, -1, 0);
	if (p == MAP_FAILED)
		p = mmap(room + room_len, LEN, rw, fixed, -1, 0);
	if (p == MAP_FAILED)
		skip();
	memset(p, 1, LEN);
	r.range = (struct uffdio_range){ (uintptr_t)p, LEN };
	assert_int_equal(ffl_attr_expect(&none, rw, LEN), 0);
	assert_int_equal(ioctl(uffd, UFFDIO_REGISTER, &r), 0);
	assert_ptr_equal(mremap(p, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP,
				stash),
			 stash);
	assert_true(ffl_attr_is(uffd, p, LEN));
	ffl_attr_forget();
	munmap(p, LEN);
	munmap(stash, LEN);
}

/* The kernel refuses to enlarge mappings also for want of address space. */
static void no_address_space_is_left(void **state)
{
	const struct ffl_attr none = { 0 }, asked = { .advice = { MADV_DONTDUMP } };
	struct rlimit was, full;
	bool same, alike;
	long num;
	char *p;
	FILE *f;

	(void)state;
	need_uffd();
	p = map_empty(0);
	assert_int_equal(madvise(p, LEN, MADV_DONTDUMP), 0);
	assert_int_equal(getrlimit(RLIMIT_AS, &was), 0);
	f = fopen("/proc/self/statm", "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%ld", &num), 1);
	full = (struct rlimit){ (rlim_t)num * FF_PAGE, was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_AS, &full), 0);
	alike = is(p, &asked, rw);
	same = is(p, &none, rw);
	setrlimit(RLIMIT_AS, &was);
	fclose(f);
	assert_true(alike);
	assert_false(same);
	munmap(p, LEN);
}

#define C(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(nothing_was_asked), cmocka_unit_test(it_is_asked_again),
			cmocka_unit_test(locked_is_locked_again),
			cmocka_unit_test(what_cannot_be_asked_again),
			cmocka_unit_test(parts_that_differ), cmocka_unit_test(it_takes_too_long),
			C(alike_if_asked_the_same), C(not_alike), C(locked_memory),
			C(all_memory_is_locked), C(parts_are_not_alike), C(touched_meanwhile),
			C(next_to_it), C(no_address_space_is_left));
}
