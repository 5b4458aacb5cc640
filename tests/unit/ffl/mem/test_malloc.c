/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_malloc.c - ffl/mem/malloc.c: memory that is shadow memory from the start.
 *
 * build: tests/rig/unit/region_rig.c tests/rig/fakes/fake_shadow.c tests/rig/fakes/fake_pages.c ffr/mem/fallible.c ffl/mem/mr.c ffl/mem/heat.c ffl/mem/track.c ffl/mem/filter.c ffl/mem/kind.c ffl/mem/attr.c ffl/mem/plan.c ffl/mem/apply.c ffl/mem/lock.c ffl/mem/region.c ffl/mem/window.c ffl/mem/fork.c ffl/mem/malloc.c
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/region_rig.h"

static void malloc_is_shadow_from_the_start(void **state)
{
	char *big = ibv_malloc(rg_pd, 100000), *small = ibv_malloc(rg_pd, 300);
	struct ibv_mr *mr[2];

	(void)state;
	assert_non_null(big);
	assert_non_null(small);
	assert_int_equal((uintptr_t)big % PG, 0);
	assert_int_equal((uintptr_t)small % 64, 0);
	rg_fill(big, 100000, 25);
	rg_fill(small, 300, 26);
	mr[0] = rg_reg(big + 5, 99990);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), (100000 + PG - 1) / PG * PG);
	*fake_shadow_at((uintptr_t)big + 99990) = 0x11;
	assert_int_equal(big[99990], 0x11);
	mr[1] = rg_reg(small, 300);
	assert_true(fake_shadow_bytes(FF_RUN_SHADOW) > 0);
	*fake_shadow_at((uintptr_t)small + 7) = 0x22;
	assert_int_equal(small[7], 0x22);
	ibv_free(big); /* the MR still has it */
	assert_int_equal(*fake_shadow_mr_at(mr[0], (uintptr_t)big + 99990), 0x11);
	rg_dereg(mr[0]);
	rg_dereg(mr[1]);
	assert_int_equal(small[7], 0x22);
	ibv_free(small);
	ibv_free(NULL);
}

static void malloc_many(void **state)
{
	enum { N = 300 };
	char *p[N];
	unsigned seed = 1;

	(void)state;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < N; i++) {
			size_t size = (size_t)rand_r(&seed) % (i % 10 ? 2000 : 60000) + 1;

			p[i] = ibv_malloc(rg_pd, size);
			assert_non_null(p[i]);
			memset(p[i], i, size);
			*(uint32_t *)p[i] = (uint32_t)i;
		}
		for (int i = 0; i < N; i++) /* no two overlap */
			assert_int_equal(*(uint32_t *)p[i], i);
		for (int i = 0; i < N; i++)
			ibv_free(p[(i * 7 + round) % N]);
	}
	/* all of it is given back */
	WAIT_FOR(!fake_shadow_pages(rg_ctx));
	assert_null(ibv_malloc(rg_pd, SIZE_MAX - 5));
	assert_int_equal(errno, ENOMEM);
}

/* Where there are no shadow pages it is memory like other. */
static void malloc_without_shadow_pages(void **state)
{
	struct ibv_mr *mr;
	char *p;

	(void)state;
	fake_shadow.fail[FF_MSG_PLACE_PAGES] = -ENOSPC;
	p = ibv_malloc(rg_pd, 1 << 20);
	assert_non_null(p);
	assert_false(rg_is_shared(p));
	rg_fill(p, 1 << 20, 27);
	mr = rg_reg(p, 1 << 20);
	assert_int_equal(fake_shadow.num_runs, 0);
	rg_dereg(mr);
	rg_check(p, 1 << 20, 27);
	ibv_free(p);
}

static int child_writes_malloced(void *arg)
{
	char *p = arg;

	alarm(10);
	if (p[0] != 1)
		return 1;
	memset(p, 2, 50000);
	ibv_free(p);
	return 0;
}

static void malloc_and_fork(void **state)
{
	char *p = ibv_malloc(rg_pd, 50000);

	(void)state;
	memset(p, 1, 50000);
	assert_int_equal(rg_in_child(child_writes_malloced, p), 0);
	assert_int_equal(p[0], 1);
	assert_int_equal(p[49999], 1);
	ibv_free(p);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, rg_setup, rg_teardown)

	return UNIT_RUN(T(malloc_is_shadow_from_the_start), T(malloc_many),
			T(malloc_without_shadow_pages), T(malloc_and_fork));
}
