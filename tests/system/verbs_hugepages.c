/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c tests/rig/verbs/vt_mem.c -lpthread */
/*
 * verbs_hugepages.c - memory regions in hugetlb pages, private and shared, alone and beside ordinary
 * pages. verbs_hugepages.sh, which starts it, sees to it that there are some.
 */
#include "tests/rig/verbs/vt_mem.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096u
#define HUGE ((size_t)2 << 20)

static uint8_t *map_huge(size_t len, int flags, int fd)
{
	uint8_t *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
			  flags | (fd < 0 ? MAP_ANONYMOUS | MAP_HUGETLB : 0), fd, 0);

	if (p == MAP_FAILED)
		FAIL("%zu MB of huge pages: %s", len >> 20, strerror(errno));
	return p;
}

static void private(void)
{
	uint8_t *p = map_huge(2 * HUGE, MAP_PRIVATE, -1);

	vt_mem_use(p, 2 * HUGE, 0, 2 * HUGE);
	vt_mem_use(p, 2 * HUGE, 100, 2 * HUGE - 5000);
	vt_mem_use(p, 2 * HUGE, HUGE - PAGE, 2 * PAGE);
	CHECK(munmap(p, 2 * HUGE) == 0);
}

static void shared(void)
{
	uint8_t *p = map_huge(2 * HUGE, MAP_SHARED, -1);

	vt_mem_use(p, 2 * HUGE, 0, 2 * HUGE);
	vt_mem_use(p, 2 * HUGE, HUGE + 77, 3 * PAGE);
	CHECK(munmap(p, 2 * HUGE) == 0);
}

/* A file on hugetlbfs, mapped twice, and privately. */
static void file(void)
{
	int fd = memfd_create("vt", MFD_CLOEXEC | MFD_HUGETLB);
	uint8_t *p, *alias;

	CHECK(fd >= 0 && ftruncate(fd, 2 * HUGE) == 0);
	p = map_huge(2 * HUGE, MAP_SHARED, fd);
	alias = map_huge(2 * HUGE, MAP_SHARED, fd);
	vt_mem_use(p, 2 * HUGE, 10, 2 * HUGE - 20);
	vt_mem_use_alias(p, alias, 2 * HUGE);
	vt_mem_use_alias(p + HUGE + PAGE, alias + HUGE + PAGE, 5 * PAGE);
	CHECK(munmap(p, 2 * HUGE) == 0);
	memset(alias, 0x99, 2 * HUGE);
	p = map_huge(2 * HUGE, MAP_PRIVATE, fd);
	vt_mem_use(p, 2 * HUGE, 30, HUGE);
	CHECK(vt_all(alias, 2 * HUGE, 0x99)); /* what was private stayed private */
	CHECK(munmap(p, 2 * HUGE) == 0);
	CHECK(mprotect(alias, 2 * HUGE, PROT_READ) == 0);
	vt_mem_use_read_only(alias + 5, 2 * HUGE - 10);
	CHECK(munmap(alias, 2 * HUGE) == 0);
	close(fd);
}

/* One region over ordinary pages, private huge ones, shared huge ones, ordinary pages. */
static void beside_ordinary_pages(void)
{
	const int rw = PROT_READ | PROT_WRITE, huge = MAP_ANONYMOUS | MAP_HUGETLB | MAP_FIXED;
	size_t len = 4 * HUGE;
	uint8_t *all = vt_map(len + HUGE);
	uint8_t *p = (uint8_t *)(((uintptr_t)all + HUGE - 1) & ~(HUGE - 1));

	CHECK(mmap(p + HUGE, HUGE, rw, MAP_PRIVATE | huge, -1, 0) != MAP_FAILED);
	CHECK(mmap(p + 2 * HUGE, HUGE, rw, MAP_SHARED | huge, -1, 0) != MAP_FAILED);
	vt_mem_use(p, len, 0, len);
	vt_mem_use(p, len, HUGE - PAGE - 1, 2 * HUGE + 2 * PAGE + 2);
	CHECK(munmap(all, len + HUGE) == 0);
}

static void children(void)
{
	uint8_t *p = map_huge(2 * HUGE, MAP_PRIVATE, -1);

	vt_mem_fork(p, 2 * HUGE, 1000, 2 * HUGE - 3000, false);
	CHECK(munmap(p, 2 * HUGE) == 0);
	p = map_huge(HUGE, MAP_SHARED, -1);
	vt_mem_fork(p, HUGE, 0, HUGE, true);
	CHECK(munmap(p, HUGE) == 0);
}

/* Unmapped while registered: the region keeps its keys, and what is mapped there next its bytes. */
static void unmapped_while_registered(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	struct ibv_mr *mr;
	uint8_t *p;

	vt_pair(&a, &b, &par);
	p = map_huge(2 * HUGE, MAP_SHARED, -1);
	mr = vt_reg(&b, p, 2 * HUGE, VT_ACCESS_ALL);
	CHECK(munmap(p, 2 * HUGE) == 0);
	CHECK(mmap(p, 2 * HUGE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_FIXED, -1, 0) == p);
	memset(p, 0x5a, 2 * HUGE);
	vt_aim(&a, p, mr);
	vt_pattern(a.buf, a.len, 3);
	vt_rdma(&a, IBV_WR_RDMA_WRITE, 1, 0, a.len, HUGE - PAGE, IBV_SEND_SIGNALED);
	WANT_OK(a.scq, 1); /* the pages that were registered, which nobody else has */
	CHECK(vt_all(p, 2 * HUGE, 0x5a));
	CHECK_OK(ibv_dereg_mr(mr));
	CHECK(vt_all(p, 2 * HUGE, 0x5a));
	CHECK(munmap(p, 2 * HUGE) == 0);
	vt_pair_close(&a, &b);
}

VT_MAIN({ "hugepages_private", private, 0 }, { "hugepages_shared", shared, 0 },
	{ "hugepages_file", file, 0 },
	{ "hugepages_beside_ordinary_pages", beside_ordinary_pages, 0 },
	{ "hugepages_children", children, 0 },
	{ "hugepages_unmapped_while_registered", unmapped_while_registered, 0 })
