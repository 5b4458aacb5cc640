/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_region.c - ffl/mem/region.c and what is below it (window.c, and the router's watch.c): what is replaced, and that
 * it goes on being the program's memory like any other, whatever it does with it.
 *
 * build: tests/rig/unit/region_rig.c tests/rig/fakes/fake_shadow.c tests/rig/fakes/fake_pages.c ffr/mem/fallible.c ffl/mem/mr.c ffl/mem/heat.c ffl/mem/track.c ffl/mem/filter.c ffl/mem/kind.c ffl/mem/attr.c ffl/mem/plan.c ffl/mem/apply.c ffl/mem/lock.c ffl/mem/region.c ffl/mem/window.c ffl/mem/fork.c ffl/mem/malloc.c
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ffl/mem/region.h"
#include "ffl/mem/window.h"
#include "tests/rig/unit/unit.h"
#include "tests/rig/fakes/fake_pages.h"
#include "tests/rig/unit/region_rig.h"

/* Everything is replaced at once, however long it takes to look at (attr.c). */
static int at_once(void **state)
{
	rg_setup(state);
	rg_ctx->has_nic = true;
	return 0;
}

/* ---- what is replaced ---------------------------------------------------------------------------- */

static void interior_is_replaced(void **state)
{
	char *p = rg_map(10 * PG);
	struct ibv_mr *mr;
	unsigned vmas;

	(void)state;
	rg_need_uffd();
	rg_fill(p, 10 * PG, 1);
	mr = rg_reg(p + 100, 8 * PG);
	assert_ptr_equal(mr->addr, p + 100);
	assert_int_equal(mr->length, 8 * PG);
	assert_ptr_equal(mr->context, &rg_ctx->v.context);
	assert_ptr_equal(mr->pd, rg_pd);
	assert_int_equal(to_pd(rg_pd)->refs, 1);
	assert_int_equal(fake_shadow.num_runs, 1);
	assert_int_equal(fake_shadow.run[0].va, (uintptr_t)p + PG);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 7 * PG);
	rg_check(p, 10 * PG, 1);
	assert_false(rg_is_shared(p));
	assert_true(rg_is_shared(p + PG));
	assert_true(rg_is_shared(p + 8 * PG - 1));
	assert_false(rg_is_shared(p + 8 * PG));
	/* one-sided, both ways */
	*fake_shadow_at((uintptr_t)p + 5 * PG + 17) = 0x5a;
	assert_int_equal(p[5 * PG + 17], 0x5a);
	p[6 * PG] = 0x3c;
	assert_int_equal(*fake_shadow_at((uintptr_t)p + 6 * PG), 0x3c);
	/* it stays when the MR goes, and a further MR of it replaces nothing */
	vmas = rg_count_vmas(p, 10 * PG);
	rg_dereg(mr);
	assert_int_equal(rg_count_vmas(p, 10 * PG), vmas);
	assert_true(rg_is_shared(p + 5 * PG));
	assert_int_equal(p[5 * PG + 17], 0x5a);
	assert_int_equal(p[6 * PG], 0x3c);
	rg_fill(p + 5 * PG, 2 * PG, 1 + 5 * 7 + 5 * PG);
	mr = rg_reg(p + 100, 8 * PG);
	assert_int_equal(fake_shadow.num_runs, 1);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 7 * PG);
	assert_int_equal(rg_count_vmas(p, 10 * PG), vmas);
	assert_int_equal(fake_shadow_pages(rg_ctx), 7);
	rg_gone(mr, p, 10 * PG, 1);
}

static void less_than_a_page_is_left_alone(void **state)
{
	char *p = rg_map(3 * PG);
	struct ibv_mr *mr;

	(void)state;
	mr = rg_reg(p + 10, 100);
	assert_int_equal(fake_shadow.num_runs, 0);
	rg_dereg(mr);
	mr = rg_reg(p + 1, 2 * PG - 2);
	assert_int_equal(fake_shadow.num_runs, 0);
	assert_false(rg_is_shared(p + PG));
	rg_dereg(mr);
	munmap(p, 3 * PG);
}

static void untouched_memory_reads_zero(void **state)
{
	size_t len = 3 << 20;
	char *p = rg_map(len);
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	mr = rg_reg(p, len);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), len);
	for (size_t i = 0; i < len; i++)
		assert_int_equal(p[i], 0);
	memset(p, 9, len);
	rg_dereg(mr);
	for (size_t i = 0; i < len; i++)
		assert_int_equal(p[i], 9);
	/* pages of the file that were used before must not show through */
	munmap(p, len);
	p = rg_map(len);
	mr = rg_reg(p, len);
	for (size_t i = 0; i < len; i++)
		assert_int_equal(p[i], 0);
	rg_dereg(mr);
	munmap(p, len);
}

static void heap_bss_and_huge_pages(void **state)
{
	static char bss[20 * UNIT_PAGE_MAX];
	const size_t bss_len = 20 * PG, heap_len = 100000;
	char *heap = malloc(heap_len), *huge = rg_map(6 << 20);
	struct ibv_mr *mr[3];

	(void)state;
	rg_need_uffd();
	madvise(huge, 6 << 20, MADV_HUGEPAGE);
	rg_fill(bss, bss_len, 2);
	rg_fill(heap, heap_len, 3);
	rg_fill(huge, 6 << 20, 4);
	mr[0] = rg_reg(bss, bss_len);
	assert_in_range(fake_shadow_bytes(FF_RUN_SHADOW), 19 * PG, 20 * PG);
	mr[1] = rg_reg(heap, heap_len);
	assert_in_range(fake_shadow_bytes(FF_RUN_SHADOW), (heap_len / PG - 1) * PG,
			heap_len / PG * PG);
	mr[2] = rg_reg(huge + 12345, 5 << 20);
	assert_true(fake_shadow_bytes(FF_RUN_SHADOW) >= (5 << 20) - 2 * PG);
	free(malloc(200000));
	for (int i = 0; i < 3; i++)
		rg_dereg(mr[i]);
	rg_check(bss, bss_len, 2);
	rg_check(heap, heap_len, 3);
	rg_check(huge, 6 << 20, 4);
	free(heap);
	munmap(huge, 6 << 20);
}

/* Many windows, and pages of something else between two MRs of it. */
static void much_memory(void **state)
{
	size_t len = 70 << 20;
	char *p = rg_map(len), *q = rg_map(4 * PG);
	struct ibv_mr *mr, *small;

	(void)state;
	rg_need_uffd();
	for (size_t i = 0; i < len; i += 512)
		*(uint64_t *)(p + i) = i;
	rg_fill(q, 4 * PG, 5);
	mr = rg_reg(p, len);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), len);
	small = rg_reg(q, 4 * PG);
	rg_dereg(mr);
	for (size_t i = 0; i < len; i += 512)
		assert_int_equal(*(uint64_t *)(p + i), i);
	rg_dereg(small);
	rg_check(q, 4 * PG, 5);
	munmap(p, len);
	munmap(q, 4 * PG);
}

/* ---- overlaps ---------------------------------------------------------------------------------------- */

static void overlapping_mrs(void **state)
{
	char *p = rg_map(16 * PG);
	struct ibv_mr *a, *b, *c;
	uint8_t *host;

	(void)state;
	rg_need_uffd();
	rg_fill(p, 16 * PG, 6);
	a = rg_reg(p + 2 * PG, 8 * PG);
	host = fake_shadow_at((uintptr_t)p + 7 * PG);
	b = rg_reg(p + 6 * PG, 8 * PG);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 8 * PG);
	assert_ptr_equal(fake_shadow_at((uintptr_t)p + 7 * PG), host);
	c = rg_reg(p + 100,
		   15 * PG); /* its interior holds both; its last page is only partly its own */
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 14 * PG);
	assert_ptr_equal(fake_shadow_at((uintptr_t)p + 7 * PG), host);
	rg_dereg(a);
	rg_dereg(c);
	rg_check(p, 16 * PG, 6);
	*host = 1;
	assert_int_equal(p[7 * PG], 1);
	rg_dereg(b);
	assert_int_equal(p[7 * PG], 1);
	p[7 * PG] = (char)(7 * 7 + 7 * PG + 6);
	rg_check(p, 16 * PG, 6);
	munmap(p, 16 * PG);
}

/* A second MR begins in the middle of a window of the first one's region. */
static void within_a_window(void **state)
{
	const size_t len = 3 * FFL_WINDOW_MAX, half = len / 2;
	char *p = rg_map(len);
	struct ibv_mr *all, *upper;
	uint8_t *host;

	(void)state;
	rg_need_uffd();
	rg_fill(p, len, 7);
	all = rg_reg(p, len);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), len);
	host = fake_shadow_at((uintptr_t)p + half);
	upper = rg_reg(p + half, half);
	assert_int_equal(fake_shadow.num_runs, 1);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), half);
	assert_ptr_equal(fake_shadow_at((uintptr_t)p + half), host);
	rg_dereg(all);
	rg_gone(upper, p, len, 7);
}

/* A program that locks all of its memory: the new pages are there before they can be filled at once. */
static void all_memory_is_locked(void **state)
{
	struct ibv_mr *mr;
	char *p;

	(void)state;
	rg_need_uffd();
	if (syscall(SYS_mlockall, MCL_FUTURE))
		skip();
	p = rg_map(8 * PG);
	rg_fill(p, 8 * PG, 31);
	mr = rg_reg(p, 8 * PG);
	assert_int_equal(syscall(SYS_munlockall), 0);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 8 * PG);
	rg_check(p, 8 * PG, 31);
	*fake_shadow_at((uintptr_t)p + PG) = 0x31;
	assert_int_equal(p[PG], 0x31);
	rg_dereg(mr);
	munmap(p, 8 * PG);
}

static void edge_page_of_a_replaced_neighbour(void **state)
{
	char *p = rg_map(4 * PG);
	struct ibv_mr *a, *b;

	(void)state;
	rg_need_uffd();
	rg_fill(p, 4 * PG, 7);
	a = rg_reg(p, 4 * PG);
	b = rg_reg(p + PG + 8, 16); /* inside a page that is shadow already */
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), PG);
	rg_dereg(a);
	*fake_shadow_at((uintptr_t)p + PG + 8) = 0x77;
	assert_int_equal(p[PG + 8], 0x77);
	rg_dereg(b);
	assert_int_equal(p[PG + 8], 0x77);
	munmap(p, 4 * PG);
}

/* To the router of another context they are a shared mapping like any other. */
static void pages_of_another_context(void **state)
{
	struct ffl_context *other = fake_shadow_open(true);
	struct ibv_pd *other_pd = fake_shadow_pd(other);
	char *p = rg_map(8 * PG);
	struct ibv_mr *a, *b;

	(void)state;
	rg_need_uffd();
	rg_fill(p, 8 * PG, 8);
	a = rg_reg(p + 2 * PG, 2 * PG);
	b = ibv_reg_mr(other_pd, p, 8 * PG, ACCESS);
	assert_non_null(b);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 6 * PG);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHARED), 2 * PG);
	assert_null(fake_shadow_at((uintptr_t)p + 2 * PG));
	assert_null(fake_shadow_at((uintptr_t)p + 4 * PG - 1));
	rg_dereg(a);
	rg_check(p, 8 * PG, 8);
	/* the other one is closed with its MR alive: the bytes stay all the same, and so do those that may be dropped */
	fake_shadow_close(other);
	fake_shadow.mrs--;
	free(container_of_(b, struct ffl_mr, ibv)->run);
	free(b);
	free(other_pd);
	rg_check(p, 8 * PG, 8);
	assert_int_equal(rg_dontneed(p + PG, 2 * PG), 0);
	rg_check_zero(p + PG, 2 * PG);
	rg_check(p, PG, 8);
	munmap(p, 8 * PG);
}

static void reregistered(void **state)
{
	char *p = rg_map(8 * PG);
	struct ibv_mr *mr;
	uint32_t rkey;

	(void)state;
	rg_need_uffd();
	rg_fill(p, 8 * PG, 9);
	mr = rg_reg(p, 4 * PG);
	rkey = mr->rkey;
	assert_int_equal(
		ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p + 2 * PG, 4 * PG, 0), 0);
	assert_int_not_equal(mr->rkey, rkey);
	assert_ptr_equal(mr->addr, p + 2 * PG);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 4 * PG);
	assert_true(rg_is_shared(p + 5 * PG));
	assert_false(rg_is_shared(p + 6 * PG));
	*fake_shadow_at((uintptr_t)p + 5 * PG) ^= 1;
	p[5 * PG] ^= 1;
	fake_shadow.fail[FF_MSG_REREG_MR] = -ENOSPC;
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p, PG, 0),
			 IBV_REREG_MR_ERR_CMD);
	assert_int_equal(errno, ENOSPC);
	fake_shadow.fail[FF_MSG_REREG_MR] = 0;
	assert_ptr_equal(mr->addr, p + 2 * PG);
	assert_int_equal(ibv_rereg_mr(mr, 0, NULL, p, PG, 0), IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				      IBV_ACCESS_REMOTE_WRITE),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EINVAL);
	rg_gone(mr, p, 8 * PG, 9);
}

/* ---- what the program does behind our back ------------------------------------------------------ */

/* An MR goes on meaning the pages that it was registered with. */
static void unmapped_while_registered(void **state)
{
	char *p = rg_map(8 * PG), *q;
	struct ibv_mr *mr, *again;
	uint8_t *old;

	(void)state;
	rg_need_uffd();
	mr = rg_filled(p, 8 * PG, 15);
	old = fake_shadow_at((uintptr_t)p + 3 * PG);
	/* the middle becomes something else */
	q = mmap(p + 2 * PG, 3 * PG, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	assert_ptr_equal(q, p + 2 * PG);
	rg_fill(q, 3 * PG, 16);
	memset(old, 0xee, PG);
	rg_check(q, 3 * PG, 16);
	again = rg_reg(p, 8 * PG);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 8 * PG);
	/* what the first MR may still write to is not given to the second one */
	assert_ptr_not_equal(fake_shadow_at((uintptr_t)p + 3 * PG), old);
	memset(old, 0xdd, PG);
	rg_check(q, 3 * PG, 16);
	assert_int_equal(fake_shadow_pages(rg_ctx), 8 + 3);
	rg_dereg(mr);
	rg_check(p, 2 * PG, 15);
	rg_check(q, 3 * PG, 16);
	munmap(p + 6 * PG, PG);
	assert_int_equal(fake_shadow_pages(rg_ctx), 8 + 3);
	/* they go with the last MR of the region */
	rg_dereg(again);
	WAIT_FOR(fake_shadow_pages(rg_ctx) == 7);
	rg_check(p, 2 * PG, 15);
	rg_check(q, 3 * PG, 16);
	munmap(p, 8 * PG);
	WAIT_FOR(!fake_shadow_pages(rg_ctx));
}

static void moved(void **state)
{
	char *p = rg_map(8 * PG), *to = rg_map(8 * PG), *q = rg_map(64 * PG);
	struct ibv_mr *mr, *other;
	unsigned vmas;

	(void)state;
	rg_need_uffd();
	mr = rg_filled(p, 8 * PG, 17);
	/* as realloc() does */
	assert_ptr_equal(mremap(p, 8 * PG, 8 * PG, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
	rg_check(to, 8 * PG, 17);
	*fake_shadow_mr_at(mr, (uintptr_t)p + 5 * PG) ^= 1; /* the MR means its pages */
	to[5 * PG] ^= 1;
	rg_dereg(mr);
	rg_check(to, 8 * PG, 17);
	other = rg_reg(q, 64 * PG);
	memset(q, 0, 64 * PG);
	rg_check(to, 8 * PG, 17);
	/* there it is shadow pages like before, and what is dropped is zero */
	vmas = rg_count_vmas(to, 8 * PG);
	mr = rg_reg(to, 8 * PG);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 8 * PG);
	assert_int_equal(rg_count_vmas(to, 8 * PG), vmas);
	assert_int_equal(fake_shadow_pages(rg_ctx), 8 + 64);
	*fake_shadow_at((uintptr_t)to + 5 * PG) ^= 1;
	to[5 * PG] ^= 1;
	rg_dereg(mr);
	assert_int_equal(rg_dontneed(to + 3 * PG, 2 * PG), 0);
	rg_check(to, 3 * PG, 17);
	rg_check_zero(to + 3 * PG, 2 * PG);
	munmap(to, 8 * PG);
	WAIT_FOR(fake_shadow_pages(rg_ctx) == 64);
	rg_dereg(other);
	rg_check_zero(q, 64 * PG);
	munmap(q, 64 * PG);
}

/* Parts of a region in many places, in another order. */
static void moved_in_parts(void **state)
{
	enum { N = 16 };
	char *p = rg_map(N * PG), *to = rg_map(N * PG);

	(void)state;
	rg_need_uffd();
	rg_dereg(rg_filled(p, N * PG, 18));
	for (size_t i = 0; i < N; i++) {
		char *at = to + (i * 5 % N) * PG;

		assert_ptr_equal(mremap(p + i * PG, PG, PG, MREMAP_MAYMOVE | MREMAP_FIXED, at), at);
	}
	for (size_t i = 0; i < N; i++)
		rg_check(to + (i * 5 % N) * PG, PG, (unsigned)(18 + i * (7 + PG)));
	for (size_t i = 0; i < N; i += 2)
		assert_int_equal(rg_dontneed(to + i * PG, PG), 0);
	for (size_t i = 0; i < N; i++) {
		char *at = to + (i * 5 % N) * PG;

		if (i * 5 % N % 2)
			rg_check(at, PG, (unsigned)(18 + i * (7 + PG)));
		else
			rg_check_zero(at, PG);
	}
	munmap(to, N * PG);
	WAIT_FOR(!fake_shadow_pages(rg_ctx));
}

/* mremap() makes a mapping longer: what is behind it in the file is nobody's. */
static void grown(void **state)
{
	char *p = rg_map(4 * PG), *q = rg_map(4 * PG), *to = rg_map(64 * PG);
	struct ibv_mr *mr, *other;

	(void)state;
	rg_need_uffd();
	mr = rg_filled(p, 4 * PG, 19);
	other = rg_filled(q, 4 * PG, 20);
	munmap(to, 64 * PG);
	assert_ptr_equal(mremap(p, 4 * PG, 64 * PG, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
	rg_check(to, 4 * PG, 19);
	rg_check_zero(to + 4 * PG, 60 * PG);
	memset(to + 4 * PG, 7, 60 * PG);
	rg_check(q, 4 * PG, 20);
	rg_dereg(mr);
	rg_dereg(other);
	rg_check(to, 4 * PG, 19);
	rg_check(q, 4 * PG, 20);
	for (size_t i = 4 * PG; i < 64 * PG; i++)
		assert_int_equal(to[i], 7);
	/* the whole of it can be registered, the router may have a part of it */
	mr = rg_reg(to, 64 * PG);
	rg_check(to, 4 * PG, 19);
	assert_int_equal(rg_dontneed(to + 32 * PG, 32 * PG), 0);
	rg_check_zero(to + 32 * PG, 32 * PG);
	assert_int_equal(to[32 * PG - 1], 7);
	rg_dereg(mr);
	munmap(to, 64 * PG);
	munmap(q, 4 * PG);
	WAIT_FOR(!fake_shadow_pages(rg_ctx));
}

/* The same where it is, of which the kernel tells nobody: what is there then is not given back with the old part. */
static void grown_in_place(void **state)
{
	char *p = rg_map(64 * PG);
	struct ibv_mr *mr;
	uint64_t pages;

	(void)state;
	rg_need_uffd();
	mr = rg_filled(p, 8 * PG, 30);
	munmap(p + 8 * PG, 56 * PG);
	assert_ptr_equal(mremap(p, 8 * PG, 64 * PG, 0), p);
	rg_check_zero(p + 8 * PG, 8 * PG);
	rg_fill(p + 32 * PG, 32 * PG, 31);
	pages = fake_shadow_pages(rg_ctx); /* reading makes more than it reads */
	/* parts of the old one go, while the MR has them and after it */
	munmap(p, PG);
	rg_dereg(mr);
	WAIT_FOR(fake_shadow_pages(rg_ctx) == pages - 1);
	rg_check(p + 32 * PG, 32 * PG, 31);
	munmap(p + PG, 7 * PG);
	WAIT_FOR(fake_shadow_pages(rg_ctx) == pages - 8);
	rg_check_zero(p + 8 * PG, 8 * PG);
	rg_check(p + 32 * PG, 32 * PG, 31);
	munmap(p + 8 * PG, 40 * PG);
	WAIT_FOR(fake_shadow_pages(rg_ctx) == 16);
	rg_check(p + 48 * PG, 16 * PG, (unsigned)(31 + 16 * (7 + PG)));
	munmap(p + 48 * PG, 16 * PG);
	WAIT_FOR(!fake_shadow_pages(rg_ctx));
}

static void made_shorter(void **state)
{
	char *p = rg_map(8 * PG);
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	mr = rg_filled(p, 8 * PG, 21);
	assert_ptr_equal(mremap(p, 8 * PG, 3 * PG, 0), p);
	rg_dereg(mr);
	rg_check(p, 3 * PG, 21);
	WAIT_FOR(fake_shadow_pages(rg_ctx) == 3);
	assert_ptr_not_equal(mremap(p, 3 * PG, 8 * PG, MREMAP_MAYMOVE), MAP_FAILED);
}

/* ---- memory that is dropped ------------------------------------------------------------------------ */

static void dropped_pages_are_zero(void **state)
{
	char *p = rg_map(8 * PG);
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	rg_fill(p, 8 * PG, 22);
	assert_int_equal(rg_dontneed(p + PG, PG), 0);
	mr = rg_reg(p, 8 * PG);
	rg_check_zero(p + PG, PG);
	/* of an MR: where they are, for it goes on with them */
	assert_int_equal(rg_dontneed(p + 3 * PG, 2 * PG), 0);
	rg_check_zero(p + 3 * PG, 2 * PG);
	rg_check_zero((char *)fake_shadow_at((uintptr_t)p + 3 * PG), 2 * PG);
	*fake_shadow_at((uintptr_t)p + 4 * PG) = 1;
	assert_int_equal(p[4 * PG], 1);
	assert_int_equal(fake_shadow_pages(rg_ctx), 8);
	rg_dereg(mr);
	/* of no MR: there are no pages then */
	assert_int_equal(rg_dontneed(p + 4 * PG, 2 * PG), 0);
	WAIT_FOR(fake_shadow_pages(rg_ctx) == 6);
	rg_check_zero(p + 3 * PG, 3 * PG);
	rg_check(p, PG, 22);
	p[5 * PG] = 3;
	mr = rg_reg(p, 8 * PG); /* and they can be registered again */
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 8 * PG);
	assert_int_equal(*fake_shadow_at((uintptr_t)p + 5 * PG), 3);
	*fake_shadow_at((uintptr_t)p + 4 * PG) = 4;
	assert_int_equal(p[4 * PG], 4);
	rg_dereg(mr);
	munmap(p, 8 * PG);
}

/* In a system call, too: the kernel finds pages that are not there like the program does. */
static void dropped_pages_in_system_calls(void **state)
{
	size_t len = 3 << 20;
	char *p = rg_map(len), *q = malloc(len);
	int fds[2];

	(void)state;
	rg_need_uffd();
	memset(p, 1, len);
	rg_dereg(rg_reg(p, len));
	assert_int_equal(rg_dontneed(p, len), 0);
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(write(fds[1], p + len / 2, 2 * PG), 2 * PG);
	memset(q, 2, 2 * PG);
	assert_int_equal(read(fds[0], q, 2 * PG), 2 * PG);
	rg_check_zero(q, 2 * PG);
	assert_int_equal(write(fds[1], "free", 4), 4);
	assert_int_equal(read(fds[0], p + 5 * PG - 2, 4), 4);
	assert_memory_equal(p + 5 * PG - 2, "free", 4);
	memset(p + 5 * PG - 2, 0, 4);
	rg_check_zero(p, len); /* row by row, which is answered in larger and larger parts */
	free(q);
	close(fds[0]);
	close(fds[1]);
	munmap(p, len);
}

/* ---- pages are counted -------------------------------------------------------------------------------- */

static void unmapped_pages_are_given_back(void **state)
{
	char *p = rg_map(16 * PG);

	(void)state;
	rg_need_uffd();
	rg_dereg(rg_filled(p, 16 * PG, 23));
	assert_int_equal(fake_shadow_pages(rg_ctx), 16);
	munmap(p + 4 * PG, 4 * PG);
	WAIT_FOR(fake_shadow_pages(rg_ctx) == 12);
	/* another mapping takes the place */
	assert_ptr_equal(mmap(p + 10 * PG, PG, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 p + 10 * PG);
	WAIT_FOR(fake_shadow_pages(rg_ctx) == 11);
	rg_check(p, 4 * PG, 23);
	rg_check(p + 8 * PG, 2 * PG, (unsigned)(23 + 8 * (7 + PG)));
	rg_check_zero(p + 10 * PG, PG);
	munmap(p, 16 * PG);
	WAIT_FOR(!fake_shadow_pages(rg_ctx));
}

static void the_same_again_and_again(void **state)
{
	char *p = rg_map(16 * PG);
	uint64_t pages;
	unsigned vmas;

	(void)state;
	rg_need_uffd();
	rg_dereg(rg_filled(p, 16 * PG, 24));
	pages = fake_shadow_pages(rg_ctx);
	vmas = rg_count_vmas(p, 16 * PG);
	for (int i = 0; i < 1000; i++) {
		rg_dereg(rg_reg(p + i % 3 * 100, 16 * PG - 200));
		assert_int_equal(fake_shadow_pages(rg_ctx), pages);
	}
	assert_int_equal(rg_count_vmas(p, 16 * PG), vmas);
	rg_check(p, 16 * PG, 24);
	munmap(p, 16 * PG);
}

/* More than a session has regions, one after the other. */
static void regions_come_and_go(void **state)
{
	(void)state;
	rg_need_uffd();
	for (unsigned i = 0; i < 2500; i++) {
		char *p = rg_map(3 * PG);
		struct ibv_mr *mr = rg_filled(p, 3 * PG, i);

		assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 3 * PG);
		if (i % 2) {
			rg_gone(mr, p, 3 * PG, i);
		} else {
			munmap(p, 3 * PG);
			rg_dereg(mr);
		}
		/* or regions would be used up before the router's thread has been here */
		if (i % 100 == 99)
			WAIT_FOR(!fake_shadow_pages(rg_ctx));
	}
}

/* Who has a page by its number, as a pipe has, has it alone when it is unmapped: nobody else ever gets it. */
static void pages_of_a_pipe(void **state)
{
	char *p = rg_map(4 * PG), *q, *all = malloc(4 * PG);
	struct iovec iov = { p, 4 * PG };
	struct ibv_mr *mr;
	int fds[2];

	(void)state;
	rg_need_uffd();
	rg_dereg(rg_filled(p, 4 * PG, 25));
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(vmsplice(fds[1], &iov, 1, 0), 4 * PG);
	munmap(p, 4 * PG);
	WAIT_FOR(!fake_shadow_pages(rg_ctx));
	for (unsigned i = 0; i < 20; i++) {
		q = rg_map(4 * PG);
		mr = rg_filled(q, 4 * PG, 100 + i);
		rg_gone(mr, q, 4 * PG, 100 + i);
	}
	q = rg_map(4 * PG);
	mr = rg_filled(q, 4 * PG, 26);
	for (size_t n = 0; n < 4 * PG;) {
		ssize_t got = read(fds[0], all + n, 4 * PG - n);

		assert_true(got > 0);
		n += (size_t)got;
	}
	rg_check(all, 4 * PG, 25);
	rg_gone(mr, q, 4 * PG, 26);
	free(all);
	close(fds[0]);
	close(fds[1]);
}

/* ---- attributes -------------------------------------------------------------------------------------------- */

static void protections_are_kept(void **state)
{
	const uint32_t rw = FF_VMA_READ | FF_VMA_WRITE | FF_VMA_SHARED;
	char *p = rg_map(8 * PG);
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	mr = rg_filled(p, 8 * PG, 18);
	mprotect(p + 2 * PG, PG, PROT_READ);
	mprotect(p + 4 * PG, PG, PROT_NONE);
	rg_dereg(mr);
	assert_int_equal(rg_vma_at(p).flags, rw);
	assert_int_equal(rg_vma_at(p + 2 * PG).flags, FF_VMA_READ | FF_VMA_SHARED);
	assert_int_equal(rg_vma_at(p + 3 * PG).flags, rw);
	assert_int_equal(rg_vma_at(p + 4 * PG).flags, FF_VMA_SHARED);
	assert_int_equal(rg_vma_at(p + 5 * PG).flags, rw);
	assert_null(ibv_reg_mr(rg_pd, p, 8 * PG, ACCESS));
	assert_int_equal(errno, EFAULT);
	mr = ibv_reg_mr(rg_pd, p + PG, 3 * PG, IBV_ACCESS_REMOTE_READ);
	assert_non_null(mr);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 3 * PG);
	rg_dereg(mr);
	mprotect(p, 8 * PG, RW);
	rg_check(p, 8 * PG, 18);
	mr = rg_reg(p, 8 * PG);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 8 * PG);
	memset(p, 0, 8 * PG);
	rg_dereg(mr);
	munmap(p, 8 * PG);
}

static void locked_memory_stays_locked(void **state)
{
	unsigned char in_core[4];
	char *p = rg_map(4 * PG);
	struct ibv_mr *mr;

	(void)state;
	rg_fill(p, 4 * PG, 19);
	if (syscall(SYS_mlock, p, 4 * PG)) { /* the function is a sanitizer's */
		print_message("no right to lock memory here\n");
		skip();
	}
	mr = rg_reg(p, 4 * PG);
	rg_check(p, 4 * PG, 19);
	assert_int_equal(rg_dontneed(p, 4 * PG), -1); /* refused: locked */
	assert_int_equal(errno, EINVAL);
	rg_dereg(mr);
	rg_check(p, 4 * PG, 19);
	assert_int_equal(mincore(p, 4 * PG, in_core), 0);
	assert_int_equal(rg_dontneed(p, 4 * PG), -1);
	assert_int_equal(errno, EINVAL);
	munmap(p, 4 * PG);
}

/* The windows' userfaultfd, which is the only one that the library keeps; others here are the router's. */
static int close_window_uffd(void)
{
	char link[64], name[64];
	int fds = 0;

	for (int fd = 3; fd < 2048; fd++) {
		memset(name, 0, sizeof(name));
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		if (readlink(link, name, sizeof(name) - 1) > 0 && strstr(name, "[userfaultfd]") &&
		    !fake_pages_has(fd))
			fds += !close(fd);
	}
	return fds;
}

/* Where the descriptor is gone nothing can be replaced; what was goes on. */
static void userfaultfd_closed_by_the_program(void **state)
{
	char *p = rg_map(4 * PG), *q = rg_map(4 * PG);
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	mr = rg_filled(p, 4 * PG, 20);
	assert_int_equal(close_window_uffd(), 1);
	rg_dereg(mr);
	rg_check(p, 4 * PG, 20);
	mr = rg_reg(p, 4 * PG);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 4 * PG);
	*fake_shadow_at((uintptr_t)p) = 1;
	assert_int_equal(p[0], 1);
	assert_int_equal(rg_dontneed(p, PG), 0);
	assert_int_equal(p[0], 0);
	rg_dereg(mr);
	mr = rg_filled(q, 4 * PG, 21);
	assert_int_equal(fake_shadow.num_runs, 0);
	assert_false(rg_is_shared(q));
	rg_gone(mr, q, 4 * PG, 21);
	munmap(p, 4 * PG);
}

/* The file's number is another file's by now: its pages are not mapped in place of the program's. */
/* What a handler touches may be in a window that this thread has made, which it would wait for. */
static void signals_wait_for_the_lock(void **state)
{
	sigset_t before, during, after;

	(void)state;
	assert_int_equal(sigprocmask(SIG_SETMASK, NULL, &before), 0);
	assert_false(sigismember(&before, SIGUSR1));
	ffl_regions_lock();
	sigprocmask(SIG_SETMASK, NULL, &during);
	ffl_regions_unlock();
	sigprocmask(SIG_SETMASK, NULL, &after);
	for (int sig = 1; sig < 32; sig++)
		assert_true(sigismember(&during, sig) || sig == SIGKILL || sig == SIGSTOP);
	assert_false(sigismember(&after, SIGUSR1));
	assert_true(ffl_regions_lock_soon());
	sigprocmask(SIG_SETMASK, NULL, &during);
	ffl_regions_unlock();
	assert_true(sigismember(&during, SIGUSR1));
}

static void maps_closed_by_the_program(void **state)
{
	int fd = ffl_regions_maps(), other = open("/dev/null", O_RDONLY | O_CLOEXEC), again;
	char path[32], link[64] = "";

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ffl_regions_maps(), fd);
	assert_int_equal(dup2(other, fd), fd);
	again = ffl_regions_maps();
	assert_int_not_equal(again, fd);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", again);
	assert_true(readlink(path, link, sizeof(link) - 1) > 0);
	assert_non_null(strstr(link, "/maps"));
	close(fd);
	close(other);
}

static void file_closed_by_the_program(void **state)
{
	char *p = rg_map(4 * PG), *q = rg_map(4 * PG);
	int other = memfd_create("other", 0), fd = -1;
	struct ffl_part *part;
	unsigned parts;
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	mr = rg_filled(p, 4 * PG, 22);
	ffl_regions_lock();
	parts = ffl_regions_look(&part);
	for (unsigned i = 0; i < parts; i++)
		if (part[i].va == (uintptr_t)p)
			fd = ffl_regions_file(part[i].file)->fd;
	ffl_regions_unlock();
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(other, 64 << 20), 0);
	assert_int_equal(dup2(other, fd), fd);
	rg_dereg(mr);
	mr = rg_filled(q, 4 * PG, 23);
	assert_int_equal(fake_shadow.num_runs, 0);
	assert_false(rg_is_shared(q));
	rg_gone(mr, q, 4 * PG, 23);
	mr = rg_reg(p, 4 * PG);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 4 * PG);
	rg_gone(mr, p, 4 * PG, 22);
	close(other);
	close(fd);
}

/* ---- many ---------------------------------------------------------------------------------------------------- */

static void many_small_regions(void **state)
{
	enum { N = 200 };
	static struct ibv_mr *mr[N];
	char *p = rg_map(2 * N * PG);
	unsigned vmas;

	(void)state;
	rg_need_uffd();
	rg_fill(p, 2 * N * PG, 27);
	for (int i = 0; i < N; i++)
		mr[i] = rg_reg(p + 2 * (size_t)i * PG, PG);
	vmas = rg_count_vmas(p, 2 * N * PG);
	for (int i = 0; i < N; i++) {
		assert_non_null(fake_shadow_mr_at(mr[i], (uintptr_t)p + 2 * (size_t)i * PG));
		rg_dereg(mr[i * 7 % N]); /* 7 and N have no common factor */
		mr[i * 7 % N] = rg_reg(p + 2 * (size_t)(i * 7 % N) * PG, PG);
	}
	assert_int_equal(rg_count_vmas(p, 2 * N * PG), vmas);
	assert_int_equal(fake_shadow_pages(rg_ctx), N);
	for (int i = 0; i < N; i++)
		rg_dereg(mr[i]);
	rg_check(p, 2 * N * PG, 27);
	munmap(p, 2 * N * PG);
	WAIT_FOR(!fake_shadow_pages(rg_ctx));
}

/* The session has no more regions: what comes then is reached by copying, until some are given back. */
static void too_many_regions(void **state)
{
	enum { N = 1100 };
	static char *had[N];
	char *p = rg_map(4 * PG);
	struct ibv_mr *mr;
	unsigned n = 0;

	(void)state;
	rg_need_uffd();
	rg_fill(p, 4 * PG, 28);
	ffl_regions_lock();
	while (n < N && (had[n] = ffl_regions_map(rg_ctx, PG)))
		n++;
	ffl_regions_unlock();
	assert_int_equal(n, 1024);
	mr = rg_reg(p, 4 * PG);
	assert_int_equal(fake_shadow.num_runs, 0);
	assert_false(rg_is_shared(p));
	rg_dereg(mr);
	while (n)
		munmap(had[--n], PG);
	WAIT_FOR(!fake_shadow_pages(rg_ctx));
	/* they are free a moment later */
	do
		rg_dereg(rg_reg(p, 4 * PG));
	while (!rg_is_shared(p));
	mr = rg_reg(p, 4 * PG);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 4 * PG);
	rg_gone(mr, p, 4 * PG, 28);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, at_once, rg_teardown)

	return UNIT_RUN(T(interior_is_replaced), T(less_than_a_page_is_left_alone),
			T(untouched_memory_reads_zero), T(heap_bss_and_huge_pages), T(much_memory),
			T(overlapping_mrs), T(within_a_window), T(all_memory_is_locked),
			T(edge_page_of_a_replaced_neighbour), T(pages_of_another_context),
			T(reregistered), T(unmapped_while_registered), T(moved), T(moved_in_parts),
			T(grown), T(grown_in_place), T(made_shorter), T(dropped_pages_are_zero),
			T(dropped_pages_in_system_calls), T(unmapped_pages_are_given_back),
			T(the_same_again_and_again), T(regions_come_and_go), T(pages_of_a_pipe),
			T(protections_are_kept), T(locked_memory_stays_locked),
			T(many_small_regions), T(too_many_regions), T(file_closed_by_the_program),
			T(signals_wait_for_the_lock), T(maps_closed_by_the_program),
			T(userfaultfd_closed_by_the_program));
}
