// SPDX-License-Identifier: GPL-2.0
/* test_kinds.c - each kind of memory, pinned and mirrored: both see what the other writes. */
#include "ft.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MAP_HUGE_2MB
#define MAP_HUGE_2MB (21 << 26)
#endif
#define MB (1UL << 20)

static const char *kind_name;

static void maps_of(struct owner *o, char *text, size_t size)
{
	char name[64];
	ssize_t n, at = 0;
	int fd;

	snprintf(name, sizeof(name), "/proc/%d/maps", o->pid);
	fd = open(name, O_RDONLY);
	while ((n = read(fd, text + at, size - 1 - at)) > 0)
		at += n;
	text[at] = 0;
	close(fd);
}

/* Both directions, the application's mappings as before. */
static void both_ways(struct owner *o, uint64_t at, uint64_t n, uint32_t flags)
{
	static char before[65536], after[65536];
	struct view v;

	own(o, OWN_FILL, at, n, 1, 0);
	maps_of(o, before, sizeof(before));
	view_make(&v, o, at, n, flags | FFMEM_WRITE);
	if (ft_differ(v.p, n, 1))
		check_fail("%s %s: the router reads other bytes", kind_name,
			   flags ? "pinned" : "mirrored");
	ft_fill(v.p, n, 2);
	if (own(o, OWN_VERIFY, at, n, 2, 0))
		check_fail("%s %s: the router's writes aren't there", kind_name,
			   flags ? "pinned" : "mirrored");
	own(o, OWN_FILL, at, n, 3, 0);
	CHECK(!ft_differ(v.p, n, 3));
	maps_of(o, after, sizeof(after));
	CHECK(!strcmp(before, after));
	view_end(&v);
	CHECK(!own(o, OWN_VERIFY, at, n, 3, 0));
}

static void kind(struct owner *o, const char *name, uint64_t at, uint64_t n)
{
	kind_name = name;
	both_ways(o, at, n, 0);
	both_ways(o, at, n, FFMEM_PINNED);
	printf("  %s: pinned and mirrored, %lu bytes\n", name, n);
}

/* What the process may only read, the router may not write either, in both ways. */
static void read_only(struct owner *o, const char *name, uint64_t at, uint64_t n, uint64_t seed)
{
	uint32_t p;
	struct view v;

	for (uint32_t pinned = 0; pinned <= FFMEM_PINNED; pinned += FFMEM_PINNED) {
		view_make(&v, o, at, n, pinned);
		CHECK(seed ? !ft_differ(v.p, n, seed) : *(volatile uint8_t *)v.p + 1);
		view_end(&v);
	}
	EXPECT(ft_attach(ft_fd, o->pidfd, o->mem_fd, &p), 0);
	EXPECT(ft_map(ft_fd, p, at, n, FFMEM_WRITE | FFMEM_PINNED, &v), -EFAULT);
	EXPECT(ft_detach(ft_fd, p), 0);
	view_make(&v, o, at, n, FFMEM_WRITE);
	CHECK(!ft_sigbus(v.p, false) && ft_sigbus(v.p, true));
	EXPECT(ft_populate(ft_fd, v.p, n, FFMEM_POPULATE_WRITE, NULL), -EFAULT);
	CHECK(ft_sigbus(v.p, true) && !ft_sigbus(v.p, false));
	view_end(&v);
	if (seed)
		CHECK(!own(o, OWN_VERIFY, at, n, seed, 0));
	printf("  %s: read only\n", name);
}

static void make_file(const char *path, uint64_t n)
{
	static uint8_t bytes[MB];
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	CHECK(fd >= 0);
	ft_fill(bytes, n, 7);
	CHECK(write(fd, bytes, n) == (ssize_t)n);
	close(fd);
}

static void file_holds(const char *path, uint64_t n, uint64_t seed)
{
	static uint8_t bytes[MB];
	int fd = open(path, O_RDONLY);

	CHECK(read(fd, bytes, n) == (ssize_t)n);
	CHECK(!ft_differ(bytes, n, seed));
	close(fd);
}

static void files(struct owner *o)
{
	const char *tmpfs = "/dev/shm/ffmem-file", *disk = getenv("FT_DISK") ?: "/out/ffmem-file";
	uint64_t at, n = 16 * PAGE;
	struct view v;
	uint32_t p;

	make_file(tmpfs, n);
	at = own_mmap(o, n, PROT_READ | PROT_WRITE, MAP_SHARED, tmpfs);
	kind(o, "a shared file of tmpfs", at, n);
	file_holds(tmpfs, n, 3);
	unlink(tmpfs);

	make_file(tmpfs, n);
	at = own_mmap(o, n, PROT_READ | PROT_WRITE, MAP_PRIVATE, tmpfs);
	kind(o, "a private file", at, n);
	file_holds(tmpfs, n, 7);
	at = own_mmap(o, n, PROT_READ, MAP_PRIVATE, tmpfs);
	read_only(o, "a private file", at, n, 7);
	file_holds(tmpfs, n, 7);
	unlink(tmpfs);

	/* Of a file system that must know of each write: mirrored only, and the writes arrive. */
	make_file(disk, n);
	at = own_mmap(o, n, PROT_READ, MAP_SHARED, disk);
	read_only(o, "a shared file of a file system", at, n, 7);
	at = own_mmap(o, n, PROT_READ | PROT_WRITE, MAP_SHARED, disk);
	EXPECT(ft_attach(ft_fd, o->pidfd, o->mem_fd, &p), 0);
	EXPECT(ft_map(ft_fd, p, at, n, FFMEM_WRITE | FFMEM_PINNED, &v), -EOPNOTSUPP);
	EXPECT(ft_detach(ft_fd, p), 0);
	kind_name = "a shared file of a file system";
	both_ways(o, at, n, 0);
	for (int turn = 0; turn < 3; turn++) {
		view_make(&v, o, at, n, FFMEM_WRITE);
		ft_fill(v.p, n, 10 + turn);
		/* Written back, the pages are clean and the views are gone: the next write counts again. */
		EXPECT(own_sys(o, SYS_msync, at, n, MS_SYNC, 0, 0, 0), 0);
		ft_fill(v.p, n, 20 + turn);
		view_end(&v);
		EXPECT(own_sys(o, SYS_msync, at, n, MS_SYNC, 0, 0, 0), 0);
		EXPECT(own_sys(o, SYS_madvise, at, n, MADV_DONTNEED, 0, 0, 0), 0);
		file_holds(disk, n, 20 + turn);
	}
	printf("  a shared file of a file system: mirrored\n");
	unlink(disk);
}

static void huge(struct owner *o)
{
	uint64_t at =
		own_mmap(o, 6 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, NULL);
	FILE *f;
	long got;

	at = (at + 2 * MB - 1) & -(2 * MB);
	EXPECT(own_sys(o, SYS_madvise, at, 4 * MB, MADV_HUGEPAGE, 0, 0, 0), 0);
	own(o, OWN_FILL, at, 4 * MB, 1, 0);
	kind(o, "transparent huge pages", at + 2 * MB - 3 * PAGE - 5, 6 * PAGE);
	kind(o, "transparent huge pages", at, 4 * MB);

	f = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "w");
	CHECK(f && fprintf(f, "4\n") > 0 && !fclose(f));
	got = own_sys(o, SYS_mmap, 0, 4 * MB, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB, -1, 0);
	CHECK(got > 0);
	kind(o, "hugetlb", got + 2 * MB - 77, 3 * PAGE);
	kind(o, "hugetlb", got, 4 * MB);
	EXPECT(own_sys(o, SYS_munmap, got, 4 * MB, 0, 0, 0, 0), 0);
	got = own_sys(o, SYS_mmap, 0, 4 * MB, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB, -1, 0);
	CHECK(got > 0);
	kind(o, "shared hugetlb", got, 4 * MB);
	EXPECT(own_sys(o, SYS_munmap, got, 4 * MB, 0, 0, 0, 0), 0);
}

/* Never touched: the zero page is read, a write makes a page of the process's own. */
static void untouched(struct owner *o)
{
	uint64_t n = 8 * PAGE;
	uint64_t at = own_mmap(o, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, NULL);
	static uint8_t zero[8 * PAGE_MOST];
	struct view v;

	view_make(&v, o, at, n, FFMEM_WRITE);
	CHECK(!memcmp(v.p, zero, n));
	ft_fill(v.p, n, 5);
	CHECK(!own(o, OWN_VERIFY, at, n, 5, 0));
	view_end(&v);
	at = own_mmap(o, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, NULL);
	view_make(&v, o, at, n, FFMEM_WRITE | FFMEM_PINNED);
	CHECK(!memcmp(v.p, zero, n));
	ft_fill(v.p, n, 6);
	CHECK(!own(o, OWN_VERIFY, at, n, 6, 0));
	view_end(&v);
	at = own_mmap(o, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, NULL);
	view_make(&v, o, at, n, FFMEM_WRITE);
	CHECK(ft_sigbus(v.p, false) && ft_sigbus(v.p, true));
	view_end(&v);
}

/* A terabyte costs what is touched of it; an implicit region has all of the address space. */
static void sparse(struct owner *o)
{
	uint64_t n = 1UL << 40, done;
	uint64_t at = own_mmap(o, n, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, NULL);
	uint32_t p;
	struct view v;
	struct ffmem_stat s;

	view_make(&v, o, at, n, FFMEM_WRITE);
	for (uint64_t i = 0; i < n; i += n / 16)
		v.p[i + 5] = i / (n / 16) + 1;
	for (uint64_t i = 0; i < n; i += n / 16) {
		uint8_t byte;

		CHECK(pread(o->mem_fd, &byte, 1, at + i + 5) == 1 && byte == i / (n / 16) + 1);
	}
	CHECK(own_status(o, "VmRSS") < 64 * 1024);
	EXPECT(ft_populate(ft_fd, v.p + n / 2, MB, FFMEM_POPULATE_WRITE, &done), 0);
	view_stat(&v, &s);
	CHECK(done == MB && s.prefetched >= MB / PAGE && s.faults >= 16 && s.fault_ns &&
	      s.populate_ns);
	view_end(&v);
	EXPECT(own_sys(o, SYS_munmap, at, n, 0, 0, 0, 0), 0);

	at = own(o, OWN_MALLOC, 3 * PAGE, 0, 0, 0);
	own(o, OWN_FILL, at, 3 * PAGE, 9, 0);
	EXPECT(ft_attach(ft_fd, o->pidfd, o->mem_fd, &p), 0);
	EXPECT(ft_map(ft_fd, p, 0, ~0ULL, FFMEM_WRITE, &v), 0);
	v.offset += at & -PAGE;
	EXPECT(ft_show(ft_fd, 4 * PAGE, FFMEM_WRITE, &v), 0);
	CHECK(!ft_differ(v.base + at % PAGE, 3 * PAGE, 9));
	munmap(v.base, v.length);
	EXPECT(ft_unmap(ft_fd, v.object), 0);
	EXPECT(ft_detach(ft_fd, p), 0);
}

/* At an address that the router chose, in parts, and several times. */
static void placed(struct owner *o)
{
	uint64_t n = 16 * PAGE, at;
	uint8_t *room = mmap(NULL, 64 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct view v;

	at = own_mmap(o, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, NULL);
	own(o, OWN_FILL, at, n, 4, 0);
	view_make(&v, o, at, n, FFMEM_WRITE);
	for (int i = 0; i < 16; i++)
		CHECK(mmap(room + (i + 3) * PAGE, PAGE, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_FIXED, ft_fd,
			   v.offset + i * PAGE) == room + (i + 3) * PAGE);
	CHECK(!ft_differ(room + 3 * PAGE, n, 4));
	CHECK(!munmap(room + 5 * PAGE, PAGE));
	ft_fill(v.p, n, 5);
	CHECK(!ft_differ(room + 3 * PAGE, 2 * PAGE, 5));
	EXPECT(ft_populate(ft_fd, room + 6 * PAGE, PAGE, FFMEM_POPULATE_NOWAIT, NULL), 0);
	/* A view that moves keeps showing the same. */
	CHECK(mremap(v.base, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, room + 32 * PAGE) ==
	      room + 32 * PAGE);
	v.base = v.p = room + 32 * PAGE;
	CHECK(!ft_differ(v.p, n, 5));
	EXPECT(own_sys(o, SYS_madvise, at, n, MADV_DONTNEED, 0, 0, 0), 0);
	CHECK(!v.p[0] && !room[3 * PAGE]);
	view_end(&v);
	CHECK(ft_sigbus(room + 3 * PAGE, false));
	munmap(room, 64 * PAGE);
}

/* VmPin and RLIMIT_MEMLOCK are the process's. */
static void accounted(struct owner *o)
{
	uint64_t n = 64 * PAGE, limits_at = own(o, OWN_PLACE, 1, 0, 0, 0);
	uint64_t at = own_mmap(o, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, NULL);
	struct rlimit r = { 100 * PAGE, 100 * PAGE };
	struct view v, w;
	uint32_t p;

	CHECK(pwrite(o->mem_fd, &r, sizeof(r), limits_at) == sizeof(r));
	EXPECT(own_sys(o, SYS_setrlimit, RLIMIT_MEMLOCK, limits_at, 0, 0, 0, 0), 0);
	CHECK(own_status(o, "VmPin") == 0);
	view_make(&v, o, at, n, FFMEM_WRITE | FFMEM_PINNED);
	CHECK(own_status(o, "VmPin") == (long)(n / 1024));
	EXPECT(ft_attach(ft_fd, o->pidfd, o->mem_fd, &p), 0);
	EXPECT(ft_map(ft_fd, p, at, n, FFMEM_WRITE | FFMEM_PINNED, &w), -ENOMEM);
	CHECK(own_status(o, "VmPin") == (long)(n / 1024));
	EXPECT(ft_map(ft_fd, p, at, n, FFMEM_WRITE, &w), 0);
	EXPECT(ft_unmap(ft_fd, w.object), 0);
	EXPECT(ft_detach(ft_fd, p), 0);
	view_end(&v);
	CHECK(own_status(o, "VmPin") == 0);
}

void test_kinds(void)
{
	struct owner o;
	uint64_t at;

	owner_start(&o);
	at = own(&o, OWN_MALLOC, 10000, 0, 0, 0);
	kind(&o, "heap", at, 10000);
	at = own(&o, OWN_MALLOC, 101 * PAGE, 0, 0, 0);
	kind(&o, "heap, unaligned", at + 1, 100 * PAGE + 17);
	kind(&o, "one byte", at + 4095, 1);
	kind(&o, "stack", own(&o, OWN_PLACE, 0, 0, 0, 0), 3 * PAGE);
	kind(&o, "data", own(&o, OWN_PLACE, 1, 0, 0, 0), 3 * PAGE);
	kind(&o, "bss", own(&o, OWN_PLACE, 3, 0, 0, 0), 3 * PAGE);
	read_only(&o, "constants", own(&o, OWN_PLACE, 2, 0, 0, 0), 3 * PAGE, 0);
	at = own_mmap(&o, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, NULL);
	own(&o, OWN_FILL, at, 8 * PAGE, 8, 0);
	EXPECT(own_sys(&o, SYS_mprotect, at, 8 * PAGE, PROT_READ, 0, 0, 0), 0);
	read_only(&o, "private memory", at, 8 * PAGE, 8);
	at = own_mmap(&o, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, NULL);
	kind(&o, "shared anonymous", at, 8 * PAGE);
	untouched(&o);
	files(&o);
	huge(&o);
	sparse(&o);
	placed(&o);
	accounted(&o);
	owner_stop(&o);
}
