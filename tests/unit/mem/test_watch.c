/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_watch.c - ffr/mem/watch.c: what becomes of the pages of a client that does something to its mappings of them, and
 * ffr/mem/orphans.c: also when the session has ended, or the router. The client is another process, which does what it
 * is told, and so is a router that is to die.
 *
 * threads: yes
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffr/lib/fds.h"
#include "ffr/mem/orphans.h"
#include "ffr/mem/pages_int.h"
#define uffd guard_uffd
#include "ffr/mem/guard.c"
#undef uffd

#define PG    ((uint64_t)FF_PAGE)
#define RW    (PROT_READ | PROT_WRITE)
#define LIMIT ((uint64_t)1 << 30)

#define WAIT_FOR(cond)                                                                             \
	do {                                                                                       \
		time_t give_up_ = time(NULL) + 20 * (time_t)unit_slow();                           \
		while (!(cond)) {                                                                  \
			if (time(NULL) > give_up_)                                                 \
				fail_msg("never: %s", #cond);                                      \
			sched_yield();                                                             \
		}                                                                                  \
	} while (0)

static struct tenant tenant;
static struct container cont = { .of = &tenant };
static struct session ses;
static int file;

/* ---- the client -------------------------------------------------------------------------------------- */

enum op { MAP, DROP, DROP_HALF, UNMAP, MOVE, FILL, CHECK, CHURN };

struct order {
	enum op op;
	uint64_t va, len, arg;
};

static struct {
	pid_t pid;
	int sock;
} client;

/* [va, va + len) has that byte everywhere: 1. */
static uint64_t has_all(uint64_t va, uint64_t len, uint8_t byte)
{
	for (uint64_t i = 0; i < len; i++)
		if (((volatile uint8_t *)va)[i] != byte)
			return 0;
	return 1;
}

/* Pages that are filled, dropped, zero then, and filled again, `n` times: 1. */
static uint64_t churn(uint64_t va, uint64_t len, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		uint64_t from = i * 7 % (len / PG) * PG;
		uint64_t some = (1 + i * 3 % ((len - from) / PG)) * PG;

		memset((void *)(va + from), 5, some);
		if (madvise((void *)(va + from), some, MADV_DONTNEED))
			return 0;
		if (i % 2 && !has_all(va + from, some, 0))
			return 0;
		memset((void *)(va + from), 6, some);
		if (!has_all(va + from, some, 6))
			return 0;
	}
	return 1;
}

static uint64_t obey(int uffd, const struct order *o)
{
	struct uffdio_register reg = {
		.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR,
	};
	void *p;

	switch (o->op) {
	case MAP:
		p = mmap(NULL, o->len, RW, MAP_SHARED, file, (off_t)o->arg);
		reg.range.start = (uintptr_t)p;
		reg.range.len = o->len;
		return p == MAP_FAILED || ioctl(uffd, UFFDIO_REGISTER, &reg) ? 0 : (uintptr_t)p;
	case DROP:
		return !madvise((void *)o->va, o->len, MADV_DONTNEED);
	case DROP_HALF: /* every other page, one by one */
		for (uint64_t i = 0; i < o->len; i += 2 * FF_PAGE)
			if (madvise((void *)(o->va + i), FF_PAGE, MADV_DONTNEED))
				return 0;
		return 1;
	case UNMAP:
		return !munmap((void *)o->va, o->len);
	case MOVE: { /* to somewhere else, with room for that many bytes there */
		void *to = mmap(NULL, o->arg, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		p = mremap((void *)o->va, o->len, o->arg, MREMAP_MAYMOVE | MREMAP_FIXED, to);
		return p == MAP_FAILED ? 0 : (uintptr_t)p;
	}
	case FILL:
		memset((void *)o->va, (int)o->arg, o->len);
		return 1;
	case CHECK:
		return has_all(o->va, o->len, (uint8_t)o->arg);
	case CHURN:
		return churn(o->va, o->len, o->arg);
	}
	return 0;
}

static void client_main(int sock)
{
	const uint64_t features = UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MINOR_SHMEM |
				  UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP |
				  UFFD_FEATURE_EVENT_REMAP;
	struct uffdio_api api = { .api = UFFD_API, .features = features };
	int dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	int fds[4] = { ioctl(dev, _IO(0xAA, 0x00), O_CLOEXEC | O_NONBLOCK),
		       open("/proc/self/mem", O_RDWR), open("/proc/self/maps", O_RDONLY),
		       open("/proc/self/pagemap", O_RDONLY) };
	struct order o;

	if (fds[0] < 0 || ioctl(fds[0], UFFDIO_API, &api))
		_exit(1);
	if (fds_send(sock, "", 1, fds, 4, 0) != 1)
		_exit(2);
	while (recv(sock, &o, sizeof(o), 0) == sizeof(o)) {
		uint64_t answer = obey(fds[0], &o);

		if (send(sock, &answer, sizeof(answer), 0) != sizeof(answer))
			_exit(3);
	}
	_exit(0);
}

/* It is watched from now on, or `fds` are the caller's: userfaultfd, mem, maps and pagemap. False: no userfaultfd here. */
static bool client_start(int fds[4])
{
	int pair[2];
	unsigned n;
	char c;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	client.pid = fork();
	assert_true(client.pid >= 0);
	if (!client.pid) {
		alarm(120);
		close(pair[0]);
		client_main(pair[1]);
	}
	close(pair[1]);
	client.sock = pair[0];
	return fds_recv(client.sock, &c, 1, fds, 4, &n, 0) == 1 && n == 4;
}

static void client_stop(void)
{
	if (!client.pid)
		return;
	close(client.sock);
	kill(client.pid, SIGKILL);
	waitpid(client.pid, NULL, 0);
	client.pid = 0;
}

static void order(enum op op, uint64_t va, uint64_t len, uint64_t arg)
{
	struct order o = { op, va, len, arg };

	assert_int_equal(send(client.sock, &o, sizeof(o), 0), sizeof(o));
}

static uint64_t answer(void)
{
	uint64_t a = 0;

	assert_int_equal(recv(client.sock, &a, sizeof(a), 0), sizeof(a));
	return a;
}

static uint64_t tell(enum op op, uint64_t va, uint64_t len, uint64_t arg)
{
	order(op, va, len, arg);
	return answer();
}

static uint64_t place(uint64_t span)
{
	struct ff_place_pages_req req = { .len = span, .span = span };
	uint64_t off = 0;
	int uffd;

	assert_int_equal(pages_place(&ses, &req, LIMIT, &off, &uffd), 0);
	return off;
}

/* What was placed last is mapped. */
static void placed(void)
{
	struct ff_place_pages_req req = { 0 };
	uint64_t off;
	int uffd;

	assert_int_equal(pages_place(&ses, &req, LIMIT, &off, &uffd), 0);
}

/* A new region, all of which the client has mapped and filled: its address there. */
static uint64_t region(uint64_t span, uint8_t byte, uint64_t *off)
{
	uint64_t va;

	*off = place(span);
	va = tell(MAP, 0, span, *off);
	assert_true(va);
	placed();
	assert_true(tell(FILL, va, span, byte));
	return va;
}

/* Pages of the file. */
static uint64_t pages(void)
{
	struct stat st;

	assert_int_equal(fstat(file, &st), 0);
	return (uint64_t)st.st_blocks * 512 / PG;
}

static unsigned threads(void);

static int setup(void **state)
{
	int fds[4];

	(void)state;
	WAIT_FOR(threads() ==
		 3); /* this one, and two dots: those of the last test end within a second */
	memset(&ses, 0, sizeof(ses));
	ses.mem.node = -1;
	ses.cont = &cont;
	file = sealed_memfd("test", REGIONS_MAX * FF_PAGES_STRIDE);
	assert_true(file >= 0);
	if (access("/dev/userfaultfd", R_OK | W_OK)) {
		ses.mem.maps_fd = -1;
		return 0;
	}
	assert_true(client_start(fds));
	ses.mem.maps_fd = fds[2];
	assert_int_equal(quota_charge(&cont, QUOTA_FD, PAGES_FDS), 0);
	assert_int_equal(pages_watch(&ses, fds[0], fds[3], fds[1], file), 0);
	close(fds[0]);
	close(fds[1]);
	close(fds[3]);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	pages_end(&ses);
	client_stop();
	close(file);
	if (ses.mem.maps_fd >= 0)
		close(ses.mem.maps_fd);
	return cont.quota.use.used[QUOTA_PINNED] || cont.quota.use.used[QUOTA_FD] ? -1 : 0;
}

static void need_client(void)
{
	if (client.pid)
		return;
	print_message("no /dev/userfaultfd here\n");
	skip();
}

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

	(void)state;
	need_client();
	other.mem.maps_fd = ses.mem.maps_fd;
	fd[4] = ioctl(dev, _IO(0xAA, 0x00), O_CLOEXEC);
	assert_true(fd[4] >= 0);
	for (unsigned i = 0; i < sizeof(fd) / sizeof(fd[0]); i++)
		assert_int_equal(pages_watch(&other, fd[i], file, file, file), -EINVAL);
	assert_null(other.mem.pages);
	for (unsigned i = 0; i < 5; i++)
		close(fd[i]);
	close(dev);
}

/* ---- ends -------------------------------------------------------------------------------------------- */

static unsigned threads(void)
{
	DIR *d = opendir("/proc/self/task");
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

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
	client_stop(); /* first the process */
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
	client_stop();
	WAIT_FOR(threads() == num - 1);
}

/* ---- orphans ----------------------------------------------------------------------------------------- */

static struct {
	pid_t pid, of;
	int sock;
} orphans;
static int fds[4]; /* the client's */

static unsigned count_in(pid_t pid, const char *what)
{
	char path[64];
	unsigned n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what);
	d = opendir(path);
	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Threads of the process for orphans, but for its first one. */
static unsigned num_watched(void)
{
	return count_in(orphans.pid, "task") - 3; /* and the two dots */
}

static int setup_orphans(void **state)
{
	const struct sandbox_conf conf = { .mode = SANDBOX_ON };
	const struct container nobody = { 0 };
	int all[PAGES_NUM_FDS], got;

	(void)state;
	memset(&ses, 0, sizeof(ses));
	ses.mem.node = -1;
	ses.mem.maps_fd = -1;
	ses.cont = &cont;
	cont.id = 1;
	orphans.pid = orphans_start(&conf, NULL, &orphans.sock);
	assert_true(orphans.pid > 0);
	orphans.of = getpid();
	orphans_use(orphans.sock);
	file = sealed_memfd("test", REGIONS_MAX * FF_PAGES_STRIDE);
	assert_true(file >= 0);
	for (unsigned i = 0; i < PAGES_NUM_FDS; i++)
		all[i] = file;
	/* it answers, so it has become what it is to be */
	assert_int_equal(orphans_add(&nobody, all, PAGES_NUM_FDS, &got), -EINVAL);
	WAIT_FOR(num_watched() == 0);
	if (access("/dev/userfaultfd", R_OK | W_OK))
		return 0;
	assert_true(client_start(fds));
	ses.mem.maps_fd = fds[2];
	return 0;
}

/* The process ends by itself, when its client has. */
static int teardown_orphans(void **state)
{
	int status;

	(void)state;
	if (orphans.of != getpid()) /* a check has failed in a router */
		_exit(1);
	orphans_use(-1);
	close(orphans.sock);
	if (client.pid)
		for (int i = 0; i < 4; i++)
			close(fds[i]);
	client_stop();
	close(file);
	assert_int_equal(waitpid(orphans.pid, &status, 0), orphans.pid);
	return WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -1;
}

static void session_start(void)
{
	assert_int_equal(quota_charge(&cont, QUOTA_FD, PAGES_FDS), 0);
	assert_int_equal(pages_watch(&ses, fds[0], fds[3], fds[1], file), 0);
}

struct made {
	uint64_t va, off;
};

/* A router with a session of the client, which has 16 pages. `places`: and gets a place for 4, which is at `off`. */
static pid_t router_start(struct made *made, bool places)
{
	int pair[2];
	pid_t pid;

	assert_int_equal(pipe(pair), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		alarm(120);
		close(guard_uffd); /* the test's, for its own memory */
		guard_uffd = -1;
		session_start();
		made->va = region(16 * PG, 6, &made->off);
		if (places)
			made->off = place(4 * PG);
		if (write(pair[1], made, sizeof(*made)) != sizeof(*made))
			_exit(1);
		for (;;)
			pause();
	}
	close(pair[1]);
	assert_int_equal(read(pair[0], made, sizeof(*made)), sizeof(*made));
	close(pair[0]);
	return pid;
}

static void router_kill(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void the_router_dies(void **state)
{
	struct made m;

	(void)state;
	need_client();
	router_kill(router_start(&m, false));
	assert_true(tell(DROP, m.va, 4 * PG, 0));
	assert_true(tell(CHECK, m.va, 4 * PG, 0));
	assert_true(tell(CHECK, m.va + 4 * PG, 12 * PG, 6));
	m.va = tell(MOVE, m.va, 16 * PG, 32 * PG);
	assert_true(tell(CHECK, m.va + 16 * PG, 16 * PG, 0));
	assert_true(tell(DROP, m.va, 32 * PG, 0));
	WAIT_FOR(!pages());
	assert_true(tell(FILL, m.va, 32 * PG, 7));
	assert_true(tell(UNMAP, m.va + 8 * PG, 24 * PG, 0));
	WAIT_FOR(pages() == 8);
	assert_true(tell(CHECK, m.va, 8 * PG, 7));
}

/* At any time: what it had read and not dealt with is dealt with. */
static void the_router_dies_at_any_time(void **state)
{
	struct made m;

	(void)state;
	need_client();
	for (unsigned i = 0; i < 60; i++) {
		pid_t pid = router_start(&m, false);

		order(CHURN, m.va, 16 * PG, 400);
		for (unsigned k = 0; k < i * 20; k++)
			sched_yield();
		router_kill(pid);
		assert_true(answer());
		assert_true(tell(CHURN, m.va, 16 * PG, 20));
		assert_true(tell(UNMAP, m.va, 16 * PG, 0));
		WAIT_FOR(num_watched() == 0); /* the next one has the same file */
	}
}

/* The library got a place from a router that died then, and maps it: it is left alone. */
static void what_was_placed_stays(void **state)
{
	struct made m;
	pid_t pid;
	uint64_t va;

	(void)state;
	need_client();
	pid = router_start(&m, true);
	assert_int_equal(fallocate(file, 0, (off_t)m.off, (off_t)(4 * PG)), 0);
	router_kill(pid);
	assert_true(tell(UNMAP, m.va, 16 * PG, 0));
	WAIT_FOR(pages() == 4); /* it was here, and nothing is mapped */
	va = tell(MAP, 0, 4 * PG, m.off);
	assert_true(tell(FILL, va, 4 * PG, 8));
	va = tell(MOVE, va, 4 * PG, 4 * PG);
	assert_true(tell(CHECK, va, 4 * PG, 8));
	assert_true(tell(UNMAP, va, 4 * PG, 0));
	WAIT_FOR(!pages());
}

/* The thread in the router ends, and another one in the other process goes on. */
static void the_session_ends_before(void **state)
{
	uint64_t off, va;
	unsigned here;

	(void)state;
	need_client();
	here = threads();
	session_start();
	va = region(8 * PG, 5, &off);
	assert_int_equal(num_watched(), 0);
	pages_end(&ses);
	WAIT_FOR(threads() == here);
	WAIT_FOR(num_watched() == 1);
	assert_true(tell(DROP, va, 4 * PG, 0));
	assert_true(tell(CHECK, va, 4 * PG, 0));
	assert_true(tell(CHECK, va + 4 * PG, 4 * PG, 5));
	assert_true(tell(UNMAP, va, 7 * PG, 0));
	WAIT_FOR(pages() == 1);
	assert_int_equal(num_watched(), 1);
	/* with the last mapping goes the reason */
	assert_true(tell(UNMAP, va + 7 * PG, PG, 0));
	WAIT_FOR(num_watched() == 0);
	assert_int_equal(pages(), 0);
}

/* A client that makes sessions without end has as many orphans as it has mapped something of. */
static void sessions_without_mappings(void **state)
{
	unsigned fds_before;

	(void)state;
	need_client();
	fds_before = count_in(orphans.pid, "fd");
	for (unsigned i = 0; i < 500; i++) {
		session_start();
		pages_end(&ses);
	}
	WAIT_FOR(count_in(orphans.pid, "fd") == fds_before);
}

/* ---- what another one has read ---------------------------------------------------------------------- */

static struct pages *heir;

static void *inheriting(void *arg)
{
	watch_run(arg);
	pages_unref(arg);
	return NULL;
}

static struct watch_log *log_new(int *fd)
{
	size_t len = (sizeof(struct watch_log) + PG - 1) / PG * PG;
	struct watch_log *log;

	*fd = sealed_memfd("log", len);
	assert_true(*fd >= 0);
	log = mmap(NULL, len, RW, MAP_SHARED, *fd, 0);
	assert_ptr_not_equal(log, MAP_FAILED);
	return log;
}

/* Goes on with that log, on a thread here, from a router that is dead. */
static pthread_t inherit(int log)
{
	int own[PAGES_NUM_FDS] = {
		[PAGES_UFFD] = dup(fds[0]), [PAGES_FILE] = dup(file),
		[PAGES_LOG] = log,	    [PAGES_MEM] = dup(fds[1]),
		[PAGES_MAPS] = dup(fds[2]), [PAGES_PAGEMAP] = dup(fds[3]),
	};
	pthread_t t;

	assert_int_equal(pages_inherit(own, &heir), 0);
	assert_int_equal(pthread_create(&t, NULL, inheriting, heir), 0);
	return t;
}

/* The next event of the userfaultfd, read as that router would have. */
static struct uffd_msg read_event(void)
{
	struct uffd_msg m;

	WAIT_FOR(read(fds[0], &m, sizeof(m)) == sizeof(m));
	return m;
}

static void what_was_read_is_dealt_with(void **state)
{
	struct watch_log *log;
	struct uffd_msg m;
	struct made made;
	pthread_t t;
	int fd;

	(void)state;
	need_client();
	orphans_use(-1); /* nobody takes over but this test */
	router_kill(router_start(&made, false));

	/* an event, and a fault after it */
	log = log_new(&fd);
	order(DROP, made.va, 4 * PG, 0);
	log->now = read_event();
	assert_int_equal(log->now.event, UFFD_EVENT_REMOVE);
	assert_true(answer());
	order(CHECK, made.va, 2 * PG, 0);
	m = read_event();
	assert_int_equal(m.event, UFFD_EVENT_PAGEFAULT);
	log->pending[log->num_pending++] = (struct fault){
		.va = m.arg.pagefault.address & ~(PG - 1),
		.is_minor = true,
	};
	/* and pages that were dropped before */
	log->removed[log->at = 1] = (struct removed_list){
		1, { { .va = made.va + 8 * PG, .len = 2 * PG, .off = made.off + 8 * PG } }
	};
	t = inherit(fd);
	assert_true(answer());
	assert_true(tell(CHECK, made.va + 2 * PG, 2 * PG, 0));
	assert_true(tell(CHECK, made.va + 4 * PG, 12 * PG,
			 6)); /* they have their entries: MADV_FREE's */
	assert_true(tell(UNMAP, made.va, 16 * PG, 0));
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(log->now.event, 0);
	assert_int_equal(log->num_pending, 0);
	munmap(log, sizeof(*log));
}

/* Who wrote it may have been taken over. */
static void false_logs(void **state)
{
	int own[PAGES_NUM_FDS], len = sizeof(struct watch_log) / 2;
	struct watch_log *log;
	struct pages *w;

	(void)state;
	need_client();
	for (unsigned i = 0; i < PAGES_NUM_FDS; i++)
		own[i] = file;
	own[PAGES_UFFD] = fds[0];
	log = log_new(&own[PAGES_LOG]);
	log->num_pending = PAGES_PENDING_MAX + 1;
	assert_int_equal(pages_inherit(own, &w), -EINVAL);
	log->num_pending = 0;
	log->placing = REGIONS_MAX + 1;
	assert_int_equal(pages_inherit(own, &w), -EINVAL);
	log->placing = 0;
	log->at = 3;
	log->removed[1].num = PAGES_REMOVED_MAX + 1;
	assert_int_equal(pages_inherit(own, &w), -EINVAL);
	log->removed[1].num = 0;
	own[PAGES_UFFD] = file;
	assert_int_equal(pages_inherit(own, &w), -EINVAL);
	own[PAGES_UFFD] = fds[0];
	close(own[PAGES_LOG]);
	own[PAGES_LOG] = sealed_memfd("short", (uint64_t)len);
	assert_int_equal(pages_inherit(own, &w), -EINVAL);
	close(own[PAGES_LOG]);
	munmap(log, sizeof(*log));
}

/* ---- how many, and hostile routers ------------------------------------------------------------------- */

#define MAX_HEIRS 200u
static int heirs[MAX_HEIRS];
static unsigned num_heirs;

/* Sessions of the container until there is no place: how many. */
static unsigned fill(const struct container *c)
{
	int all[PAGES_NUM_FDS], err = 0;
	unsigned before = num_heirs;

	for (unsigned i = 0; i < PAGES_NUM_FDS; i++)
		all[i] = file; /* sealed */
	while (num_heirs < MAX_HEIRS) {
		err = orphans_add(c, all, PAGES_NUM_FDS, &heirs[num_heirs]);
		if (err)
			break;
		num_heirs++;
	}
	assert_int_equal(err, -ENOSPC);
	return num_heirs - before;
}

static int setup_few(void **state)
{
	struct rlimit before, less;
	int err;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	less = before;
	less.rlim_cur = 64 + 100 * 8; /* 100 places */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
	err = setup_orphans(state);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	return err;
}

static void places_are_shared(void **state)
{
	const struct container a = { .id = 7, .tenant = "t" }, b = { .id = 8, .tenant = "t" },
			       c = { .id = 9 };
	unsigned before = count_in(orphans.pid, "fd");

	(void)state;
	assert_int_equal(fill(&a), SHARE_SMALL);
	assert_int_equal(fill(&a), 0);
	assert_int_equal(fill(&b), 100 - SHARE_SMALL);
	assert_int_equal(fill(&c), 0);
	/* none of them is an orphan's: they are let go at once */
	while (num_heirs)
		close(heirs[--num_heirs]);
	WAIT_FOR(count_in(orphans.pid, "fd") == before);
	assert_int_equal(fill(&c), SHARE_SMALL);
	while (num_heirs)
		close(heirs[--num_heirs]);
}

static void false_requests(void **state)
{
	struct container c = { .id = 7 };
	int all[PAGES_NUM_FDS + 1], sock[2], other, got;
	uint8_t req[4 + CONTAINER_NAME_MAX] = { 7 };
	unsigned before = count_in(orphans.pid, "fd");

	(void)state;
	for (unsigned i = 0; i < PAGES_NUM_FDS; i++)
		all[i] = file;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock), 0);
	/* nothing that asks, too few descriptors, too many, none */
	assert_int_equal(fds_send(orphans.sock, "x", 1, all, 1, 0), 1);
	all[0] = sock[1];
	assert_int_equal(fds_send(orphans.sock, req, sizeof(req), all, 3, 0), sizeof(req));
	assert_int_equal(fds_send(orphans.sock, req, sizeof(req) - 1, all, PAGES_NUM_FDS, 0),
			 sizeof(req) - 1);
	assert_int_equal(send(orphans.sock, req, sizeof(req), 0), sizeof(req));
	close(sock[1]);
	assert_int_equal(recv(sock[0], &got, sizeof(got), 0), 0);
	close(sock[0]);
	/* a log that may be made shorter, and a socket that is none */
	other = memfd_create("other", MFD_CLOEXEC);
	for (unsigned i = 0; i < PAGES_NUM_FDS; i++)
		all[i] = other;
	assert_int_equal(orphans_add(&c, all, PAGES_NUM_FDS, &got), -EINVAL);
	for (unsigned i = 0; i <= PAGES_NUM_FDS; i++)
		all[i] = file;
	assert_int_equal(fds_send(orphans.sock, req, sizeof(req), all, PAGES_NUM_FDS + 1, 0),
			 sizeof(req));
	c.id = 0;
	assert_int_equal(orphans_add(&c, all, PAGES_NUM_FDS, &got), -EINVAL);
	close(other);
	WAIT_FOR(count_in(orphans.pid, "fd") == before);
}

static void nobody_is_there(void **state)
{
	const struct container c = { .id = 7 };
	int all[PAGES_NUM_FDS], pair[2], got;

	(void)state;
	for (unsigned i = 0; i < PAGES_NUM_FDS; i++)
		all[i] = file;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	close(pair[1]);
	orphans_use(pair[0]);
	assert_int_equal(orphans_add(&c, all, PAGES_NUM_FDS, &got), -EPIPE);
	assert_int_equal(got, -1);
	close(pair[0]);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
#define O(fn) cmocka_unit_test_setup_teardown(fn, setup_orphans, teardown_orphans)

	return UNIT_RUN(
		T(both_have_the_pages), T(faults), T(dropped_pages_go),
		T(dropped_pages_of_mrs_are_zeroed), T(many_dropped), T(unmapped_pages_go),
		T(unmapped_pages_of_mrs_stay), T(moved_pages_stay), T(grown_mappings),
		T(placed_and_not_mapped), T(placed_and_moved), T(false_places), T(false_runs),
		T(so_much_at_most), T(not_watched), T(what_is_no_userfaultfd), T(the_session_ends),
		T(the_process_ends), T(the_process_ends_later), O(the_router_dies),
		O(the_router_dies_at_any_time), O(what_was_placed_stays),
		O(the_session_ends_before), O(sessions_without_mappings),
		O(what_was_read_is_dealt_with), O(false_logs),
		cmocka_unit_test_setup_teardown(places_are_shared, setup_few, teardown_orphans),
		O(false_requests), O(nobody_is_there));
}
