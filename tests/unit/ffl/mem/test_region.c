/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_region.c - ffl/mem/region.c and what is below it (window.c, pool.c): what is replaced, and that
 * no byte and no mapping of the program is lost, whatever it does with its memory.
 *
 * build: tests/rig/unit/region_rig.c tests/rig/fakes/fake_shadow.c ffl/mem/mr.c ffl/mem/heat.c ffl/mem/kind.c ffl/mem/region.c ffl/mem/window.c ffl/mem/pool.c ffl/mem/fork.c ffl/mem/malloc.c
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ffl/mem/window.h"
#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/region_rig.h"

/* ---- what is replaced ---------------------------------------------------------------------------- */

static void interior_is_replaced(void **state)
{
	char *p = rg_map(10 * PG);
	struct ibv_mr *mr;
	unsigned before;

	(void)state;
	rg_need_uffd();
	rg_fill(p, 10 * PG, 1);
	mr = rg_reg(p + 3 * PG, PG); /* warms the pool up, so that mappings can be counted */
	rg_dereg(mr);
	before = rg_count_vmas();
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
	rg_dereg(mr);
	assert_false(rg_is_shared(p + 5 * PG));
	assert_int_equal(p[5 * PG + 17], 0x5a);
	assert_int_equal(p[6 * PG], 0x3c);
	rg_fill(p + 5 * PG, 2 * PG, 1 + 5 * 7 + 5 * PG);
	rg_check(p, 10 * PG, 1);
	assert_in_range(rg_count_vmas(), before - 1, before + 1);
	munmap(p, 10 * PG);
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
	/* pages of the pool that were used before must not show through */
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

static void beyond_the_stash(void **state)
{
	size_t len = 70 << 20; /* more than region.c's STASH_MAX */
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
	assert_false(rg_is_shared(p));
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
	assert_true(rg_is_shared(p + 3 * PG)); /* c's */
	rg_dereg(c);
	assert_false(rg_is_shared(p + 3 * PG));
	assert_false(rg_is_shared(p + 5 * PG));
	assert_true(rg_is_shared(p + 6 * PG));
	assert_true(rg_is_shared(p + 13 * PG));
	assert_false(rg_is_shared(p + 14 * PG));
	rg_check(p, 16 * PG, 6);
	*host = 1;
	assert_int_equal(p[7 * PG], 1);
	rg_dereg(b);
	assert_false(rg_is_shared(p + 7 * PG));
	assert_int_equal(p[7 * PG], 1);
	munmap(p, 16 * PG);
}

/* A region of several windows is cut by a second MR in the middle of one, and both parts go back. */
static void cut_within_a_window(void **state)
{
	const size_t len = 3 * FFL_WINDOW_MAX, half = len / 2;
	char *p = rg_map(len);
	struct ibv_mr *all, *upper;

	(void)state;
	rg_need_uffd();
	rg_fill(p, len, 7);
	all = rg_reg(p, len);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), len);
	upper = rg_reg(p + half, half);
	rg_dereg(all);
	assert_false(rg_is_shared(p));
	assert_true(rg_is_shared(p + half));
	rg_dereg(upper);
	for (size_t at = half; at < len; at += PG)
		assert_false(rg_is_shared(p + at));
	rg_check(p, len, 7);
	munmap(p, len);
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
	assert_true(rg_is_shared(p + PG));
	assert_false(rg_is_shared(p));
	assert_false(rg_is_shared(p + 2 * PG));
	*fake_shadow_at((uintptr_t)p + PG + 8) = 0x77;
	assert_int_equal(p[PG + 8], 0x77);
	rg_dereg(b);
	assert_false(rg_is_shared(p + PG));
	assert_int_equal(p[PG + 8], 0x77);
	munmap(p, 4 * PG);
}

static void pages_of_another_context_are_not_claimed(void **state)
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
	assert_null(fake_shadow_at((uintptr_t)p + 2 * PG));
	assert_null(fake_shadow_at((uintptr_t)p + 4 * PG - 1));
	rg_dereg(a);
	assert_false(rg_is_shared(p + 2 * PG));
	rg_check(p, 8 * PG, 8);
	/* the other one is closed with its MR alive: the pages come back all the same */
	fake_shadow_close(other);
	fake_shadow.mrs--;
	free(container_of_(b, struct ffl_mr, ibv)->run);
	free(b);
	free(other_pd);
	assert_false(rg_is_shared(p));
	rg_check(p, 8 * PG, 8);
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
	assert_false(rg_is_shared(p + PG));
	assert_true(rg_is_shared(p + 2 * PG));
	assert_true(rg_is_shared(p + 5 * PG));
	fake_shadow.fail[FF_MSG_REREG_MR] = -ENOSPC;
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p, PG, 0),
			 IBV_REREG_MR_ERR_CMD);
	assert_int_equal(errno, ENOSPC);
	fake_shadow.fail[FF_MSG_REREG_MR] = 0;
	assert_false(rg_is_shared(p));
	assert_true(rg_is_shared(p + 2 * PG));
	assert_int_equal(ibv_rereg_mr(mr, 0, NULL, p, PG, 0), IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				      IBV_ACCESS_REMOTE_WRITE),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EINVAL);
	rg_check(p, 8 * PG, 9);
	rg_dereg(mr);
	assert_false(rg_is_shared(p + 2 * PG));
	munmap(p, 8 * PG);
}

/* ---- what the program does behind our back ------------------------------------------------------ */

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
	again = rg_reg(p, 8 * PG);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 8 * PG);
	/* what the first MR may still write to is not given to the second one */
	assert_ptr_not_equal(fake_shadow_at((uintptr_t)p + 3 * PG), old);
	memset(old, 0xee, PG);
	rg_check(q, 3 * PG, 16);
	rg_dereg(mr);
	rg_check(q, 3 * PG, 16);
	assert_true(rg_is_shared(p));
	munmap(p + 6 * PG, PG);
	rg_dereg(again);
	rg_check(p, 2 * PG, 15);
	rg_check(q, 3 * PG, 16);
	assert_false(rg_is_shared(p));
	assert_false(rg_is_shared(q));
	assert_false(rg_is_shared(p + 7 * PG));
	munmap(p, 8 * PG);
}

static void moved_while_registered(void **state)
{
	char *p = rg_map(8 * PG), *to = rg_map(8 * PG), *q = rg_map(64 * PG);
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	mr = rg_filled(p, 8 * PG, 17);
	/* as realloc() does */
	assert_ptr_equal(mremap(p, 8 * PG, 8 * PG, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
	rg_check(to, 8 * PG, 17);
	rg_dereg(mr);
	rg_check(to, 8 * PG, 17);
	/* nobody else ever gets the pages that it has taken with it */
	mr = rg_reg(q, 64 * PG);
	memset(q, 0, 64 * PG);
	rg_check(to, 8 * PG, 17);
	rg_gone(mr, to, 8 * PG, 17);
	munmap(q, 64 * PG);
}

static void protections_are_kept(void **state)
{
	char *p = rg_map(8 * PG);
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	mr = rg_filled(p, 8 * PG, 18);
	mprotect(p + 2 * PG, PG, PROT_READ);
	mprotect(p + 4 * PG, PG, PROT_NONE);
	rg_dereg(mr);
	assert_int_equal(rg_vma_at(p).flags, FF_VMA_READ | FF_VMA_WRITE);
	assert_int_equal(rg_vma_at(p + 2 * PG).flags, FF_VMA_READ);
	assert_int_equal(rg_vma_at(p + 3 * PG).flags, FF_VMA_READ | FF_VMA_WRITE);
	assert_int_equal(rg_vma_at(p + 4 * PG).flags, 0);
	assert_int_equal(rg_vma_at(p + 5 * PG).flags, FF_VMA_READ | FF_VMA_WRITE);
	mprotect(p, 8 * PG, RW);
	rg_check(p, 8 * PG, 18);
	/* the pool's pages came back writable */
	mr = rg_reg(p, 8 * PG);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 8 * PG);
	memset(p, 0, 8 * PG);
	rg_dereg(mr);
	munmap(p, 8 * PG);
}

static void locked_memory_is_locked_again(void **state)
{
	unsigned char in_core[4];
	char *p = rg_map(4 * PG);
	struct ibv_mr *mr;

	(void)state;
	rg_fill(p, 4 * PG, 19);
	if (syscall(SYS_mlock, p, 4 * PG)) /* the function is a sanitizer's */
		skip();
	mr = rg_reg(p, 4 * PG);
	rg_check(p, 4 * PG, 19);
	rg_dereg(mr);
	rg_check(p, 4 * PG, 19);
	assert_int_equal(mincore(p, 4 * PG, in_core), 0);
	assert_int_equal(madvise(p, 4 * PG, MADV_DONTNEED), -1); /* refused: locked */
	assert_int_equal(errno, EINVAL);
	munmap(p, 4 * PG);
}

/* Where the descriptor is gone nothing can be swapped: the pages stay, and so does the content. */
static void userfaultfd_closed_by_the_program(void **state)
{
	char *p = rg_map(4 * PG);
	struct ibv_mr *mr;
	int fds = 0;

	(void)state;
	rg_need_uffd();
	mr = rg_filled(p, 4 * PG, 20);
	for (int fd = 3; fd < 2048; fd++) {
		char link[64], name[64] = "";

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		if (readlink(link, name, sizeof(name) - 1) > 0 && strstr(name, "[userfaultfd]"))
			fds += !close(fd);
	}
	assert_int_equal(fds, 1);
	rg_dereg(mr);
	assert_true(rg_is_shared(p));
	rg_check(p, 4 * PG, 20);
	mr = rg_reg(p, 4 * PG); /* still a region, and still good */
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 4 * PG);
	*fake_shadow_at((uintptr_t)p) = 1;
	assert_int_equal(p[0], 1);
	rg_dereg(mr);
	munmap(p, 4 * PG);
}

/* ---- many ---------------------------------------------------------------------------------------------------- */

static void many_small_regions(void **state)
{
	enum { N = 1000 };
	static struct ibv_mr *mr[N];
	char *p = rg_map(2 * N * PG);
	unsigned before;

	(void)state;
	rg_need_uffd();
	rg_fill(p, 2 * N * PG, 27);
	before = rg_count_vmas();
	for (int i = 0; i < N; i++)
		mr[i] = rg_reg(p + 2 * (size_t)i * PG, PG);
	for (int i = 0; i < N; i++) {
		rg_dereg(mr[i * 7 % N]); /* 7 and N have no common factor */
		mr[i * 7 % N] = NULL;
	}
	rg_check(p, 2 * N * PG, 27);
	assert_false(rg_is_shared(p));
	/* the pool's mapping is merged now and then (pool.c's MERGE_AFTER) */
	assert_true(rg_count_vmas() < before + 140);
	munmap(p, 2 * N * PG);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, rg_setup, rg_teardown)

	return UNIT_RUN(T(interior_is_replaced), T(less_than_a_page_is_left_alone),
			T(untouched_memory_reads_zero), T(heap_bss_and_huge_pages),
			T(beyond_the_stash), T(overlapping_mrs), T(cut_within_a_window),
			T(edge_page_of_a_replaced_neighbour),
			T(pages_of_another_context_are_not_claimed), T(reregistered),
			T(unmapped_while_registered), T(moved_while_registered),
			T(protections_are_kept), T(locked_memory_is_locked_again),
			T(many_small_regions), T(userfaultfd_closed_by_the_program));
}
