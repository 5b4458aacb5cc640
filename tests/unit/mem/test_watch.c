/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_watch.c - ffr/mem/pages.c, watch.c: what becomes of the pages of a client that does something to its
 * mappings of them.
 *
 * build: tests/rig/unit/watch_rig.c
 * threads: yes
 */
#include "tests/rig/unit/watch_rig.h"

#include "ffr/mem/uffd.h"

#include <errno.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

/* ---- what is there ---------------------------------------------------------------------------------- */

static void both_have_the_pages(void **state)
{
	uint64_t off, va;
	struct region *r;
	uint8_t *host;

	(void)state;
	need_client();
	va = region(8 * PG, 5, &off);
	r = pages_get(&ses, off + 3 * PG, 2 * PG, &host);
	assert_non_null(r);
	assert_true(has_all((uintptr_t)host, 2 * PG, 5));
	memset(host, 6, PG);
	assert_true(tell(CHECK, va + 3 * PG, PG, 6));
	assert_true(tell(FILL, va + 4 * PG, PG, 7));
	assert_true(has_all((uintptr_t)host + PG, PG, 7));
	pages_put(&ses, r);
}

/* What nobody has touched is zero, and what is there already is found: both by faults. */
static void faults(void **state)
{
	uint64_t off, va;

	(void)state;
	need_client();
	off = place(300 * PG);
	assert_int_equal(fallocate(file, 0, (off_t)(off + 100 * PG), (off_t)(100 * PG)), 0);
	assert_int_equal(pwrite(file, "\5", 1, (off_t)(off + 150 * PG)), 1);
	va = tell(MAP, 0, 300 * PG, off);
	placed();
	assert_true(tell(CHECK, va, 150 * PG, 0));
	assert_true(tell(CHECK, va + 150 * PG, 1, 5));
	assert_true(tell(CHECK, va + 150 * PG + 1, 150 * PG - 1, 0));
	assert_int_equal(pages(), 300);
}

/* ---- dropping ------------------------------------------------------------------------------------------ */

static void dropped_pages_go(void **state)
{
	uint64_t off, va;

	(void)state;
	need_client();
	va = region(8 * PG, 5, &off);
	assert_true(tell(DROP, va + 2 * PG, 3 * PG, 0));
	WAIT_FOR(pages() == 5);
	assert_true(tell(CHECK, va, 2 * PG, 5));
	assert_true(tell(CHECK, va + 2 * PG, 3 * PG, 0));
	assert_true(tell(CHECK, va + 5 * PG, 3 * PG, 5));
}

/* A page's first byte; reading the file makes none. */
static uint8_t byte_of(uint64_t off)
{
	uint8_t byte = 0xff;

	assert_int_equal(pread(file, &byte, 1, (off_t)off), 1);
	return byte;
}

/* Of an MR's region they are zeroed where they are; what is not there is left so. */
static void dropped_pages_of_mrs_are_zeroed(void **state)
{
	struct region *r;
	uint64_t off, va;
	uint8_t *host;

	(void)state;
	need_client();
	va = region(8 * PG, 5, &off);
	assert_true(tell(DROP, va, 2 * PG, 0));
	WAIT_FOR(pages() == 6);
	r = pages_get(&ses, off + 2 * PG, 6 * PG, &host);
	assert_non_null(r);
	assert_true(tell(DROP, va, 5 * PG, 0));
	WAIT_FOR(!byte_of(off + 4 * PG)); /* of these the last, and nobody has touched them */
	assert_int_equal(pages(), 6);
	assert_true(tell(CHECK, va + 2 * PG, 3 * PG, 0));
	assert_true(has_all((uintptr_t)host, 3 * PG, 0));
	assert_true(has_all((uintptr_t)host + 3 * PG, 3 * PG, 5));
	assert_int_equal(pages(), 6);
	host[PG] = 9;
	assert_true(tell(CHECK, va + 3 * PG, 1, 9));
	pages_put(&ses, r);
	assert_true(tell(DROP, va, 8 * PG, 0));
	WAIT_FOR(!pages());
	assert_true(tell(CHECK, va, 8 * PG, 0));
}

/* As an allocator does: one part after the other, and each is zero at once. */
static void many_dropped(void **state)
{
	enum { N = 3000 };
	uint64_t off, va;

	(void)state;
	need_client();
	va = region(2 * N * PG, 5, &off);
	assert_true(tell(DROP_HALF, va, 2 * N * PG, 0));
	for (uint64_t i = 0; i < N; i++) {
		assert_true(tell(CHECK, va + 2 * i * PG, PG, 0));
		assert_true(tell(CHECK, va + (2 * i + 1) * PG, PG, 5));
	}
}

/* ---- unmapping ----------------------------------------------------------------------------------------- */

static void unmapped_pages_go(void **state)
{
	uint64_t off[2], va[2];

	(void)state;
	need_client();
	va[0] = region(8 * PG, 5, &off[0]);
	va[1] = region(4 * PG, 6, &off[1]);
	assert_true(tell(UNMAP, va[0] + 2 * PG, 3 * PG, 0));
	WAIT_FOR(pages() == 5 + 4);
	assert_true(tell(CHECK, va[0], 2 * PG, 5));
	assert_true(tell(CHECK, va[0] + 5 * PG, 3 * PG, 5));
	assert_true(tell(UNMAP, va[0], 8 * PG, 0));
	WAIT_FOR(pages() == 4);
	assert_true(tell(CHECK, va[1], 4 * PG, 6));
	/* and so does the region */
	WAIT_FOR(place(PG) == off[0]);
	assert_true(tell(CHECK, va[1], 4 * PG, 6));
}

/* An MR goes on with its pages, until the last one of the region is gone. */
static void unmapped_pages_of_mrs_stay(void **state)
{
	struct region *r[2];
	uint64_t off, va;
	uint8_t *host;

	(void)state;
	need_client();
	va = region(8 * PG, 5, &off);
	r[0] = pages_get(&ses, off, PG, &host);
	r[1] = pages_get(&ses, off + 4 * PG, 4 * PG, &host);
	assert_ptr_equal(r[0], r[1]);
	assert_true(tell(UNMAP, va, 8 * PG, 0));
	va = region(4 * PG, 7, &off); /* the thread has been here */
	assert_true(tell(UNMAP, va, 4 * PG, 0));
	WAIT_FOR(pages() == 8);
	assert_true(has_all((uintptr_t)host, 4 * PG, 5));
	pages_put(&ses, r[0]);
	memset(host, 6, 4 * PG);
	assert_int_equal(pages(), 8);
	pages_put(&ses, r[1]);
	WAIT_FOR(!pages());
}

static void moved_pages_stay(void **state)
{
	uint64_t off[2], va[2], to;

	(void)state;
	need_client();
	va[0] = region(8 * PG, 5, &off[0]);
	va[1] = region(PG, 6, &off[1]);
	to = tell(MOVE, va[0] + 2 * PG, 4 * PG, 4 * PG);
	assert_true(to);
	assert_true(tell(UNMAP, va[1], PG, 0));
	WAIT_FOR(pages() == 8);
	assert_true(tell(CHECK, to, 4 * PG, 5));
	assert_true(tell(DROP, to, PG, 0));
	WAIT_FOR(pages() == 7);
	assert_true(tell(CHECK, to, PG, 0));
	assert_true(tell(CHECK, to + PG, 3 * PG, 5));
	assert_true(tell(UNMAP, va[0], 2 * PG, 0));
	assert_true(tell(UNMAP, va[0] + 6 * PG, 2 * PG, 0));
	WAIT_FOR(pages() == 4);
	assert_true(tell(CHECK, to + PG, 3 * PG, 5));
	assert_true(tell(UNMAP, to, 4 * PG, 0));
	WAIT_FOR(!pages());
}

/* What lies behind the region's span is the program's like the rest of it, and no MR's. */
static void grown_mappings(void **state)
{
	struct region *r;
	uint64_t off, va;
	uint8_t *host;

	(void)state;
	need_client();
	va = region(4 * PG, 5, &off);
	va = tell(MOVE, va, 4 * PG, 16 * PG);
	assert_true(va);
	assert_true(tell(CHECK, va, 4 * PG, 5));
	assert_true(tell(CHECK, va + 4 * PG, 12 * PG, 0));
	assert_true(tell(FILL, va + 4 * PG, 12 * PG, 6));
	assert_null(pages_get(&ses, off, 5 * PG, &host));
	r = pages_get(&ses, off, 4 * PG, &host);
	assert_non_null(r);
	assert_true(tell(DROP, va + 3 * PG, 2 * PG, 0));
	assert_true(tell(CHECK, va + 3 * PG, 2 * PG, 0));
	assert_true(tell(CHECK, va + 5 * PG, 11 * PG, 6));
	assert_true(has_all((uintptr_t)host + 3 * PG, PG, 0));
	pages_put(&ses, r);
	assert_true(tell(UNMAP, va, 8 * PG, 0));
	WAIT_FOR(pages() == 8);
	assert_true(tell(CHECK, va + 8 * PG, 8 * PG, 6));
	assert_true(tell(UNMAP, va + 8 * PG, 8 * PG, 0));
	WAIT_FOR(!pages());
}

/* What is to be mapped is left alone until it is, or something else is placed. */
static void placed_and_not_mapped(void **state)
{
	uint64_t off, other, va;

	(void)state;
	need_client();
	va = region(4 * PG, 5, &other);
	off = place(4 * PG);
	assert_int_equal(fallocate(file, 0, (off_t)off, (off_t)(4 * PG)), 0);
	assert_true(tell(UNMAP, va, 4 * PG, 0));
	WAIT_FOR(pages() == 4); /* the other's are gone, these are there */
	va = tell(MAP, 0, 4 * PG, off);
	assert_true(tell(FILL, va, 4 * PG, 6));
	placed();
	assert_true(tell(CHECK, va, 4 * PG, 6));
	assert_true(tell(UNMAP, va, 4 * PG, 0));
	WAIT_FOR(!pages());
	/* it never is */
	off = place(4 * PG);
	assert_int_equal(fallocate(file, 0, (off_t)off, (off_t)(4 * PG)), 0);
	va = region(PG, 7, &other);
	assert_true(tell(UNMAP, va, PG, 0));
	WAIT_FOR(!pages());
}

/* The move that ends a window says as well that what was placed is mapped. */
static void placed_and_moved(void **state)
{
	uint64_t off, va;

	(void)state;
	need_client();
	off = place(4 * PG);
	va = tell(MAP, 0, 4 * PG, off);
	assert_true(tell(FILL, va, 4 * PG, 6));
	va = tell(MOVE, va, 4 * PG, 4 * PG);
	assert_true(tell(CHECK, va, 4 * PG, 6));
	assert_true(tell(UNMAP, va, 4 * PG, 0));
	WAIT_FOR(!pages());
}

/* ---- limits, and hostile clients ------------------------------------------------------------------------ */

static int try_place(uint64_t len, uint64_t span, uint64_t off, uint64_t limit)
{
	struct ff_place_pages_req req = { .len = len, .span = span, .off = off };
	uint64_t got;
	int uffd;

	return pages_place(&ses, &req, limit, &got, &uffd);
}

static void false_places(void **state)
{
	uint64_t off;

	(void)state;
	need_client();
	off = place(4 * PG);
	assert_int_equal(try_place(PG, 0, off, LIMIT), 0);
	assert_int_equal(try_place(4 * PG, 0, off, LIMIT), 0);
	assert_int_equal(try_place(PG, 0, off + 3 * PG, LIMIT), 0);
	assert_int_equal(try_place(PG, 0, off + 4 * PG, LIMIT), -EINVAL);
	assert_int_equal(try_place(5 * PG, 0, off, LIMIT), -EINVAL);
	assert_int_equal(try_place(PG, 0, off + FF_PAGES_STRIDE, LIMIT), -EINVAL); /* no region */
	assert_int_equal(try_place(PG, 0, off + FF_PAGES_STRIDE - PG, LIMIT), -EINVAL);
	assert_int_equal(try_place(PG, 0, REGIONS_MAX * FF_PAGES_STRIDE, LIMIT), -EINVAL);
	assert_int_equal(try_place(PG, 0, -PG, LIMIT), -EINVAL);
	assert_int_equal(try_place(2 * PG, 0, -PG, LIMIT), -EINVAL);
	assert_int_equal(try_place(-PG, 0, PG, LIMIT), -EINVAL);
	assert_int_equal(try_place(PG - 1, 0, off, LIMIT), -EINVAL);
	assert_int_equal(try_place(PG, 0, off + 1, LIMIT), -EINVAL);
	assert_int_equal(try_place(PG, PG + 1, 0, LIMIT), -EINVAL);
	assert_int_equal(try_place(2 * PG, PG, 0, LIMIT), -EINVAL);
	assert_int_equal(try_place(PG, PG, PG, LIMIT), -EINVAL);
	assert_int_equal(try_place(PG, PG, -PG, LIMIT), -EINVAL);
	assert_int_equal(try_place(PG, FF_PAGES_STRIDE, 0, UINT64_MAX), -EINVAL);
	assert_int_equal(try_place(PG, FF_PAGES_STRIDE / 2, 0, UINT64_MAX), -EINVAL);
	assert_int_equal(try_place(PG, -PG, 0, UINT64_MAX), -EINVAL);
}

static void false_runs(void **state)
{
	struct region *r;
	uint8_t *host;
	uint64_t off;

	(void)state;
	need_client();
	off = place(4 * PG);
	assert_null(pages_get(&ses, off + 4 * PG, PG, &host));
	assert_null(pages_get(&ses, off, 5 * PG, &host));
	assert_null(pages_get(&ses, off + PG, -PG, &host));
	assert_null(pages_get(&ses, off + FF_PAGES_STRIDE, PG, &host));
	assert_null(pages_get(&ses, REGIONS_MAX * FF_PAGES_STRIDE, PG, &host));
	assert_null(pages_get(&ses, -PG, PG, &host));
	r = pages_get(&ses, off + 3 * PG, PG, &host);
	assert_non_null(r);
	pages_put(&ses, r);
}

static void so_much_at_most(void **state)
{
	unsigned n = 0;

	(void)state;
	need_client();
	assert_int_equal(try_place(PG, 5 * PG, 0, 4 * PG), -ENOSPC);
	assert_int_equal(try_place(PG, 3 * PG, 0, 4 * PG), 0);
	assert_int_equal(try_place(PG, 2 * PG, 0, 4 * PG), -ENOSPC);
	assert_int_equal(try_place(PG, PG, 0, 4 * PG), 0);
	assert_int_equal(try_place(PG, PG, 0, 4 * PG), -ENOSPC);
	assert_int_equal(cont.quota.use.used[QUOTA_PINNED], 4 * PG);
	while (!try_place(PG, PG, 0, LIMIT))
		n++;
	assert_int_equal(n, REGIONS_MAX - 2);
	assert_int_equal(try_place(PG, PG, 0, LIMIT), -ENOSPC);
}

static void not_watched(void **state)
{
	struct session none = { .cont = &cont };
	uint8_t *host;
	uint64_t off;
	int uffd;

	(void)state;
	assert_int_equal(pages_place(&none, &(struct ff_place_pages_req){ .len = PG, .span = PG },
				     LIMIT, &off, &uffd),
			 -EINVAL);
	assert_null(pages_get(&none, 0, PG, &host));
	assert_null(pages_pending(&none));
	pages_end(&none);
}

/* Neither something else, nor one on which the thread would wait. */
static void what_is_no_userfaultfd(void **state)
{
	int fd[] = { eventfd(0, EFD_NONBLOCK),
		     memfd_create("none", 0),
		     open("/dev/null", O_RDWR | O_NONBLOCK),
		     open("/proc/self/maps", O_RDONLY),
		     -1,
		     -1 };
	struct session other = { .cont = &cont };
	int dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	struct uffdio_api api = { .api = UFFD_API };

	(void)state;
	need_client();
	other.mem.maps_fd = ses.mem.maps_fd;
	fd[4] = ioctl(dev, _IO(0xAA, 0x00), O_CLOEXEC);
	assert_true(fd[4] >= 0);
	assert_int_equal(ioctl(fd[4], UFFDIO_API, &api), 0);
	for (unsigned i = 0; i < sizeof(fd) / sizeof(fd[0]); i++) {
		assert_false(uffd_is_one(fd[i]));
		assert_int_equal(pages_watch(&other, fd[i], file, file, file), -EINVAL);
	}
	assert_int_equal(fcntl(fd[4], F_SETFL, O_NONBLOCK), 0);
	assert_true(uffd_is_one(fd[4]));
	assert_null(other.mem.pages);
	for (unsigned i = 0; i < 5; i++)
		close(fd[i]);
	close(dev);
}

/* ---- ends -------------------------------------------------------------------------------------------- */

static unsigned open_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* The client closes its device, and has its memory as before. */
static void the_session_ends(void **state)
{
	uint64_t off[2], va[2];

	(void)state;
	need_client();
	va[0] = region(8 * PG, 5, &off[0]);
	va[1] = region(8 * PG, 6, &off[1]);
	pages_end(&ses);
	assert_null(ses.mem.pages);
	assert_int_equal(cont.quota.use.used[QUOTA_PINNED], 0);
	assert_int_equal(cont.quota.use.used[QUOTA_FD], 0);
	assert_true(tell(CHECK, va[0], 8 * PG, 5));
	assert_true(tell(DROP, va[0], 4 * PG, 0));
	assert_true(tell(CHECK, va[0], 4 * PG, 0));
	assert_true(tell(CHECK, va[0] + 4 * PG, 4 * PG, 5));
	va[0] = tell(MOVE, va[0], 8 * PG, 16 * PG);
	assert_true(tell(CHECK, va[0] + 8 * PG, 8 * PG, 0));
	assert_true(tell(UNMAP, va[0], 16 * PG, 0));
	WAIT_FOR(pages() == 8);
	assert_true(tell(CHECK, va[1], 8 * PG, 6));
	assert_true(tell(UNMAP, va[1], 8 * PG, 0));
	WAIT_FOR(!pages());
}

static void the_process_ends(void **state)
{
	unsigned num, fds;
	uint64_t off;

	(void)state;
	need_client();
	region(8 * PG, 5, &off);
	num = threads();
	fds = open_fds();
	rig_client_stop(); /* first the process */
	pages_end(&ses);
	WAIT_FOR(threads() == num - 1);
	WAIT_FOR(open_fds() == fds - 1 - 6); /* its socket, and what the thread had */
	assert_int_equal(cont.quota.use.used[QUOTA_PINNED], 0);
}

static void the_process_ends_later(void **state)
{
	unsigned num;
	uint64_t off;

	(void)state;
	need_client();
	region(8 * PG, 5, &off);
	num = threads();
	pages_end(&ses);
	assert_int_equal(threads(), num);
	rig_client_stop();
	WAIT_FOR(threads() == num - 1);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, rig_setup, rig_teardown)

	return UNIT_RUN_GROUP(rig_group_setup, NULL, T(both_have_the_pages), T(faults),
			      T(dropped_pages_go), T(dropped_pages_of_mrs_are_zeroed),
			      T(many_dropped), T(unmapped_pages_go), T(unmapped_pages_of_mrs_stay),
			      T(moved_pages_stay), T(grown_mappings), T(placed_and_not_mapped),
			      T(placed_and_moved), T(false_places), T(false_runs),
			      T(so_much_at_most), T(not_watched), T(what_is_no_userfaultfd),
			      T(the_session_ends), T(the_process_ends), T(the_process_ends_later));
}
