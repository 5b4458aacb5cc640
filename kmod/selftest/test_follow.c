// SPDX-License-Identifier: GPL-2.0
/* test_follow.c - a mirrored view follows what the application does to its mapping; a pinned one stays. */
#include "ft.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define N (32 * PAGE)

static struct owner o;

static uint64_t region(uint64_t seed)
{
	uint64_t at = own_mmap(&o, N, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, NULL);

	own(&o, OWN_FILL, at, N, seed, 0);
	return at;
}

static uint64_t events(int fd)
{
	uint64_t n = 0;

	return read(fd, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

static void set_event(int fd)
{
	struct ffmem_event e = { .eventfd = fd };

	CHECK(!ioctl(ft_fd, FFMEM_EVENT, &e));
}

static void unmapped(void)
{
	struct view v, pinned;
	struct ffmem_stat s, s2;
	uint64_t at = region(1);
	int fd = eventfd(0, EFD_NONBLOCK);

	set_event(fd);
	view_make(&v, &o, at, N, FFMEM_WRITE);
	view_make(&pinned, &o, at, N, FFMEM_WRITE | FFMEM_PINNED);
	CHECK(!ft_differ(v.p, N, 1) && !ft_differ(pinned.p, N, 1));
	view_stat(&v, &s);
	events(fd);
	EXPECT(own_sys(&o, SYS_munmap, at, N / 2, 0, 0, 0, 0), 0);
	CHECK(ft_sigbus(v.p, false) && ft_sigbus(v.p, true) && ft_sigbus(v.p + N / 2 - 1, true));
	CHECK(!ft_differ(pinned.p, N, 1));
	CHECK(!ft_sigbus(v.p + N / 2, true));
	view_stat(&v, &s2);
	CHECK(s2.invalidations > s.invalidations && s2.failed_faults >= s.failed_faults + 3);
	CHECK(s2.invalidate_ns > s.invalidate_ns && events(fd) > 0);
	/* Mapped again, the view has what is there now. */
	EXPECT(own_sys(&o, SYS_mmap, at, N / 2, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
	       (long)at);
	CHECK(!v.p[0] && !v.p[N / 2 - 1]);
	own(&o, OWN_FILL, at, N, 2, 0);
	CHECK(!ft_differ(v.p, N, 2));
	CHECK(!ft_differ(pinned.p, N / 2, 1));
	view_end(&pinned);
	view_end(&v);
	set_event(-1);
	close(fd);
}

static void moved(void)
{
	struct view v, there;
	uint64_t at = region(3), to = own_mmap(&o, N, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, NULL);

	view_make(&v, &o, at, N, FFMEM_WRITE);
	view_make(&there, &o, to, N, FFMEM_WRITE);
	CHECK(!ft_differ(v.p, N, 3) && ft_sigbus(there.p, false));
	EXPECT(own_sys(&o, SYS_mremap, at, N, N, MREMAP_MAYMOVE | MREMAP_FIXED, to, 0), (long)to);
	CHECK(ft_sigbus(v.p, false) && ft_sigbus(v.p + N - 1, true));
	CHECK(!ft_differ(there.p, N, 3));
	ft_fill(there.p, N, 4);
	CHECK(!own(&o, OWN_VERIFY, to, N, 4, 0));
	view_end(&v);
	view_end(&there);
}

static void advised(void)
{
	struct view v;
	uint64_t at = region(5);
	static uint8_t zero[32 * PAGE_MOST];

	view_make(&v, &o, at, N, FFMEM_WRITE);
	CHECK(!ft_differ(v.p, N, 5));
	EXPECT(own_sys(&o, SYS_madvise, at, N, MADV_DONTNEED, 0, 0, 0), 0);
	CHECK(!memcmp(v.p, zero, N));
	ft_fill(v.p, N, 6);
	CHECK(!own(&o, OWN_VERIFY, at, N, 6, 0));
	/* What the router writes after MADV_FREE stays. */
	EXPECT(own_sys(&o, SYS_madvise, at, N, MADV_FREE, 0, 0, 0), 0);
	ft_fill(v.p, N, 7);
	EXPECT(own_sys(&o, SYS_madvise, at, N, MADV_PAGEOUT, 0, 0, 0), 0);
	CHECK(!own(&o, OWN_VERIFY, at, N, 7, 0));
	view_end(&v);
}

/* Can the kernel take the page once more, as a device's driver does? */
static bool pinnable(void *p)
{
	struct iovec v = { p, PAGE };
	int fds[2];
	bool ok;

	CHECK(!pipe(fds));
	ok = vmsplice(fds[1], &v, 1, 0) == (ssize_t)PAGE;
	close(fds[0]);
	close(fds[1]);
	return ok;
}

/* FFMEM_PAGES: pages that others of the router's kernel can take, of shared memory; they follow as the others do. */
static void pages(void)
{
	uint64_t at = own_mmap(&o, N, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, NULL);
	struct view v, plain;
	uint32_t p;

	own(&o, OWN_FILL, at, N, 1, 0);
	view_make(&v, &o, at + 77, N - 100, FFMEM_WRITE | FFMEM_NOWAIT | FFMEM_PAGES);
	view_make(&plain, &o, at, N, FFMEM_WRITE);
	CHECK(!ft_differ(plain.p, N, 1) && !pinnable(plain.base) && pinnable(v.base));
	CHECK(!memcmp(v.p, plain.p + 77, N - 100));
	ft_fill(v.p, N - 100, 2);
	CHECK(!own(&o, OWN_VERIFY, at + 77, N - 100, 2, 0));

	EXPECT(own_sys(&o, SYS_mprotect, at, N, PROT_READ, 0, 0, 0), 0);
	CHECK(ft_sigbus(v.p, true) && !ft_sigbus(v.p, false) && ft_sigbus(v.p, true));
	EXPECT(own_sys(&o, SYS_mprotect, at, N, PROT_READ | PROT_WRITE, 0, 0, 0), 0);
	CHECK(!ft_sigbus(v.p, true));

	EXPECT(own_sys(&o, SYS_munmap, at, N / 2, 0, 0, 0, 0), 0);
	CHECK(ft_sigbus(v.p, false) && ft_sigbus(v.p, true) && !pinnable(v.base));
	CHECK(!ft_sigbus(v.base + N / 2, true));
	/* What is there now can't be shown, and then it can. */
	EXPECT(own_sys(&o, SYS_mmap, at, N / 2, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
	       (long)at);
	own(&o, OWN_FILL, at, N / 2, 3, 0);
	CHECK(ft_sigbus(v.p, false) && ft_sigbus(v.p, true) && !ft_differ(plain.p, N / 2, 3));
	EXPECT(own_sys(&o, SYS_mmap, at, N / 2, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
	       (long)at);
	own(&o, OWN_FILL, at, N / 2, 4, 0);
	CHECK(!memcmp(v.p, plain.p + 77, N / 2 - 77) && !ft_differ(plain.p, N / 2, 4));
	view_end(&plain);
	view_end(&v);

	/* read-only, private memory, a file of a disk, and pages that are pinned already */
	view_make(&v, &o, at, N, FFMEM_PAGES);
	CHECK(!ft_differ(v.p, N / 2, 4) && pinnable(v.base));
	CHECK(mprotect(v.base, N, PROT_READ | PROT_WRITE) && errno == EACCES);
	view_end(&v);
	at = region(5);
	view_make(&v, &o, at, N, FFMEM_WRITE | FFMEM_PAGES);
	CHECK(ft_sigbus(v.p, false) && ft_sigbus(v.p, true));
	EXPECT(ft_populate(ft_fd, v.p, N, 0, NULL), -EFAULT);
	view_end(&v);
	EXPECT(ft_attach(ft_fd, o.pidfd, o.mem_fd, &p), 0);
	EXPECT(ft_map(ft_fd, p, at, N, FFMEM_WRITE | FFMEM_PAGES | FFMEM_PINNED, &v), -EINVAL);
	EXPECT(ft_detach(ft_fd, p), 0);
}

static void protected(void)
{
	struct view v;
	uint64_t at = region(8);

	view_make(&v, &o, at, N, FFMEM_WRITE);
	ft_fill(v.p, N, 9);
	EXPECT(own_sys(&o, SYS_mprotect, at, N, PROT_READ, 0, 0, 0), 0);
	CHECK(ft_sigbus(v.p, true) && !ft_sigbus(v.p, false) && ft_sigbus(v.p, true));
	EXPECT(own_sys(&o, SYS_mprotect, at, N, PROT_NONE, 0, 0, 0), 0);
	CHECK(ft_sigbus(v.p, false));
	EXPECT(own_sys(&o, SYS_mprotect, at, N, PROT_READ | PROT_WRITE, 0, 0, 0), 0);
	CHECK(!ft_differ(v.p, N, 9) && !ft_sigbus(v.p, true));
	view_end(&v);
}

/* After fork() the child keeps what was; the router goes on with the parent. */
static void forked(uint32_t flags)
{
	struct view v;
	uint64_t at = region(10);

	view_make(&v, &o, at, N, flags | FFMEM_WRITE);
	CHECK(!ft_differ(v.p, N, 10) && !ft_sigbus(v.p, true));
	EXPECT(own(&o, OWN_FORK, 0, 0, 0, 0), 0);
	CHECK(!ft_differ(v.p, N, 10));
	ft_fill(v.p, N, 11);
	CHECK(!own(&o, OWN_VERIFY, at, N, 11, 0));
	own(&o, OWN_FILL, at, N, 12, 0);
	CHECK(!ft_differ(v.p, N, 12));
	EXPECT(own(&o, OWN_REAP, at, N, 10, 0), 0);
	/* The parent writes first: it may get the new page, and the router has to see that one. */
	EXPECT(own(&o, OWN_FORK, 0, 0, 0, 0), 0);
	own(&o, OWN_FILL, at, N, 13, 0);
	CHECK(!ft_differ(v.p, N, 13));
	ft_fill(v.p, N, 14);
	CHECK(!own(&o, OWN_VERIFY, at, N, 14, 0));
	EXPECT(own(&o, OWN_REAP, at, N, 12, 0), 0);
	view_end(&v);
}

static long swapped(void)
{
	char line[256];
	long kb = -1;
	char name[64];
	FILE *f;

	snprintf(name, sizeof(name), "/proc/%d/status", o.pid);
	f = fopen(name, "r");
	while (fgets(line, sizeof(line), f))
		sscanf(line, "VmSwap: %ld", &kb);
	fclose(f);
	return kb;
}

static void paged_out(uint32_t how)
{
	struct view v;
	struct ffmem_stat before, after;
	uint64_t at = region(15);

	view_make(&v, &o, at, N, FFMEM_WRITE);
	for (int turn = 0; turn < 8; turn++) {
		ft_fill(v.p, N, 16 + turn);
		view_stat(&v, &before);
		EXPECT(own_sys(&o, SYS_madvise, at, N, how, 0, 0, 0), 0);
		if (how == MADV_PAGEOUT && turn == 0)
			CHECK(swapped() >= (long)(N / 2 / 1024));
		/* In turns the router, the application, or both in parts have the pages back. */
		if (turn % 2)
			CHECK(!own(&o, OWN_VERIFY, at, N / 2, 16 + turn, 0));
		CHECK(!ft_differ(v.p, N, 16 + turn));
		CHECK(!own(&o, OWN_VERIFY, at, N, 16 + turn, 0));
		view_stat(&v, &after);
		CHECK(how != MADV_PAGEOUT || after.invalidations > before.invalidations);
		if (turn % 3 == 0) {
			/* Read again from swap and out once more, clean; then written by the router alone. */
			own_sys(&o, SYS_madvise, at, N, how, 0, 0, 0);
			CHECK(!ft_differ(v.p, N, 16 + turn));
			ft_fill(v.p, N, 30 + turn);
			own_sys(&o, SYS_madvise, at, N, how, 0, 0, 0);
			CHECK(!own(&o, OWN_VERIFY, at, N, 30 + turn, 0));
		}
	}
	view_end(&v);
}

static void truncated(void)
{
	const char *path = "/dev/shm/ffmem-truncate";
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	struct view v;
	uint64_t at;

	CHECK(fd >= 0 && !ftruncate(fd, N));
	at = own_mmap(&o, N, PROT_READ | PROT_WRITE, MAP_SHARED, path);
	own(&o, OWN_FILL, at, N, 40, 0);
	view_make(&v, &o, at, N, FFMEM_WRITE);
	CHECK(!ft_differ(v.p, N, 40));
	CHECK(!ftruncate(fd, N / 4));
	CHECK(ft_sigbus(v.p + N / 4, false) && ft_sigbus(v.p + N - 1, true) &&
	      !ft_sigbus(v.p, true));
	CHECK(!ftruncate(fd, N));
	CHECK(!ft_differ(v.p, N / 4, 40) && !v.p[N / 4] && !v.p[N - 1]);
	CHECK(!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE));
	CHECK(!v.p[0] && !v.p[PAGE - 1] && v.p[PAGE + 1] == ft_byte(40, PAGE + 1));
	view_end(&v);
	close(fd);
	unlink(path);
}

/* Pages move in memory, and the views follow. */
static void migrated(void)
{
	struct view v;
	uint64_t at = region(50);
	int fd = open("/proc/sys/vm/compact_memory", O_WRONLY);

	view_make(&v, &o, at, N, FFMEM_WRITE);
	for (int turn = 0; turn < 3; turn++) {
		ft_fill(v.p, N, 51 + turn);
		CHECK(fd < 0 || write(fd, "1", 1) == 1);
		CHECK(!own(&o, OWN_VERIFY, at, N, 51 + turn, 0) && !ft_differ(v.p, N, 51 + turn));
	}
	view_end(&v);
	close(fd);
}

void test_follow(void)
{
	owner_start(&o);
	unmapped();
	moved();
	advised();
	protected();
	pages();
	forked(0);
	forked(FFMEM_PINNED);
	paged_out(MADV_PAGEOUT);
	paged_out(MADV_COLD);
	truncated();
	migrated();
	owner_stop(&o);
}
