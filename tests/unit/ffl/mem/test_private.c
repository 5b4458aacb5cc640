/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_private.c - ffl/mem/private.c: shadow pages become private memory again, with their content and attributes, and
 * what becomes of MRs. test_region_stress.c has the same beside other threads.
 * Not with ThreadSanitizer, which does not see that memory was moved, and that an address is other memory now.
 *
 * build: tests/rig/unit/region_rig.c tests/rig/fakes/fake_shadow.c tests/rig/fakes/fake_pages.c ffr/mem/fallible.c ffl/mem/mr.c ffl/mem/heat.c ffl/mem/track.c ffl/mem/filter.c ffl/mem/kind.c ffl/mem/attr.c ffl/mem/plan.c ffl/mem/apply.c ffl/mem/lock.c ffl/mem/region.c ffl/mem/window.c ffl/mem/fork.c ffl/mem/malloc.c ffl/mem/private.c
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/region_rig.h"
#include "ffl/mem/region.h"

#define LEN (8 * PG)

static bool has(const char *p, size_t len)
{
	return ffl_private_has((uintptr_t)p, len);
}

static int make(const char *p, size_t len)
{
	return ffl_private_make((uintptr_t)p, len);
}

/* A part of an MR: the rest stays, and so does what a program sees. */
static void a_part(void **state)
{
	char *p = rg_map(LEN);
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	assert_false(has(p, LEN));
	mr = rg_filled(p, LEN, 41);
	assert_true(has(p, LEN));
	assert_false(has(p + LEN, PG));
	assert_int_equal(make(p + 2 * PG, 3 * PG), 0);
	assert_false(has(p + 2 * PG, 3 * PG));
	assert_true(has(p, PG));
	assert_true(rg_is_shared(p + PG) && !rg_is_shared(p + 2 * PG));
	assert_true(!rg_is_shared(p + 4 * PG) && rg_is_shared(p + 5 * PG));
	rg_check(p, LEN, 41);
	/* the router has no pointer there any more */
	assert_null(fake_shadow_mr_at(mr, (uintptr_t)p + 3 * PG));
	assert_int_equal(fake_shadow.drops, 1);
	/* once more there is nothing to do */
	assert_int_equal(make(p + 2 * PG, 3 * PG), 0);
	assert_int_equal(fake_shadow.drops, 1);
	rg_dereg(mr);
	/* it can be registered, and made private, again */
	rg_dereg(rg_reg(p, LEN));
	assert_true(rg_is_shared(p + 3 * PG));
	assert_int_equal(make(p, LEN), 0);
	assert_false(has(p, LEN));
	rg_check(p, LEN, 41);
	munmap(p, LEN);
}

/* Several windows, a hole, and memory that was never registered. */
static void large_and_mixed(void **state)
{
	const size_t len = 5 << 20;
	char *p = rg_map(len + 4 * PG);
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	mr = rg_filled(p, len, 42);
	rg_fill(p + len, 4 * PG, 43);
	munmap(p + 2 * PG, PG);
	assert_int_equal(make(p, len + 4 * PG), 0);
	assert_false(has(p, len + 4 * PG));
	assert_int_equal(msync(p + 2 * PG, PG, MS_ASYNC), -1);
	rg_check(p, 2 * PG, 42);
	rg_check(p + len, 4 * PG, 43);
	for (size_t i = 3 * PG; i < len; i += PG)
		assert_int_equal(p[i], (char)(i / PG * 7 + i + 42));
	rg_dereg(mr);
	munmap(p, len + 4 * PG);
}

/* Pages that were dropped a moment ago are zeros, although the file may still have them. */
static void dropped_before(void **state)
{
	char *p = rg_map(LEN);

	(void)state;
	rg_need_uffd();
	rg_dereg(rg_filled(p, LEN, 44));
	assert_int_equal(rg_dontneed(p + 3 * PG, 2 * PG), 0);
	assert_int_equal(make(p, LEN), 0);
	rg_check(p, 3 * PG, 44);
	rg_check_zero(p + 3 * PG, 2 * PG);
	munmap(p, LEN);
}

static bool has_flag(const char *p, const char *flag)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	unsigned long from, to;
	bool in = false, found = false;
	char line[512];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			in = (uintptr_t)p >= from && (uintptr_t)p < to;
		else if (in && !strncmp(line, "VmFlags:", 8))
			found = strstr(line, flag);
	fclose(f);
	return found;
}

static void attributes_stay(void **state)
{
	char *p = rg_map(LEN);
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	assert_int_equal(madvise(p, LEN, MADV_DONTDUMP), 0);
	assert_int_equal(syscall(SYS_mlock, p, LEN), 0); /* sanitizers make libc's do nothing */
	mr = rg_filled(p, LEN, 45);
	assert_int_equal(mprotect(p, LEN, PROT_READ), 0);
	assert_true(has(p, LEN));
	assert_int_equal(make(p, LEN), 0);
	assert_false(has(p, LEN));
	assert_true(has_flag(p, " dd") && has_flag(p, " lo"));
	assert_false(has_flag(p, " dc") || has_flag(p, " um") || has_flag(p, " wr"));
	rg_gone(mr, p, LEN, 45);
}

/* The MR's pages are at another address now, where the router would not look for them. */
static void moved_pages_stay(void **state)
{
	char *p = rg_map(LEN), *to = rg_map(LEN);
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	mr = rg_filled(p, LEN, 46);
	assert_ptr_equal(mremap(p, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
	assert_int_equal(make(to, LEN), -EBUSY);
	assert_true(rg_is_shared(to));
	rg_check(to, LEN, 46);
	assert_non_null(fake_shadow_mr_at(mr, (uintptr_t)p + PG));
	rg_dereg(mr);
	assert_int_equal(make(to, LEN), 0);
	rg_check(to, LEN, 46);
	munmap(to, LEN);
}

/* Another context of the program has the pages as shared memory. */
static void of_two_contexts(void **state)
{
	struct ffl_context *other = fake_shadow_open(true);
	struct ibv_pd *pd = fake_shadow_pd(other);
	char *p = rg_map(LEN);
	struct ibv_mr *mr, *second;

	(void)state;
	rg_need_uffd();
	mr = rg_filled(p, LEN, 47);
	second = ibv_reg_mr(pd, p, LEN, ACCESS);
	assert_non_null(second);
	fake_shadow.drops = 0;
	assert_int_equal(make(p, LEN), 0);
	assert_int_equal(fake_shadow.drops, 2); /* both sessions */
	rg_dereg(second);
	rg_gone(mr, p, LEN, 47);
	fake_shadow_close(other);
	free(pd);
}

static void refused_by_the_router(void **state)
{
	char *p = rg_map(LEN);
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	mr = rg_filled(p, LEN, 48);
	fake_shadow.fail[FF_MSG_DROP_RUNS] = -EBUSY;
	assert_int_equal(make(p, LEN), -EBUSY);
	assert_true(rg_is_shared(p));
	/* of a router that is gone there are no MRs */
	fake_shadow.fail[FF_MSG_DROP_RUNS] = -EIO;
	assert_int_equal(make(p, LEN), 0);
	fake_shadow.fail[FF_MSG_DROP_RUNS] = 0;
	rg_gone(mr, p, LEN, 48);
}

/* What was claimed for an MR that the router does not know yet: it is waited for, and not for ever. */
static void while_it_is_registered(void **state)
{
	char *p = rg_map(LEN);
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	mr = rg_filled(p, LEN, 49);
	atomic_fetch_add(&ffl_untold, 1);
	assert_int_equal(make(p, LEN), -EBUSY);
	assert_true(rg_is_shared(p));
	atomic_fetch_sub(&ffl_untold, 1);
	assert_int_equal(make(p, LEN), 0);
	rg_gone(mr, p, LEN, 49);
}

static char *stack_of;

static void *on_that_stack(void *arg)
{
	*(int *)arg = make(stack_of, 64 * PG);
	return NULL;
}

/* The pages that the call itself runs on stay. */
static void the_own_stack(void **state)
{
	char *stack = rg_map(64 * PG);
	pthread_attr_t attr;
	struct ibv_mr *mr;
	pthread_t t;
	int err = 0;

	(void)state;
	rg_need_uffd();
	mr = rg_reg(stack, 64 * PG);
	assert_true(rg_is_shared(stack));
	stack_of = stack;
	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setstack(&attr, stack, 64 * PG), 0);
	assert_int_equal(pthread_create(&t, &attr, on_that_stack, &err), 0);
	pthread_join(t, NULL);
	pthread_attr_destroy(&attr);
	assert_int_equal(err, -EBUSY);
	rg_dereg(mr);
	munmap(stack, 64 * PG);
}

/* A child has copies, which are private, and nothing of its parent's to make private. */
static int child_has_none(void *arg)
{
	return has(arg, LEN) || make(arg, LEN);
}

static void in_a_child(void **state)
{
	char *p = rg_map(LEN);
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	mr = rg_filled(p, LEN, 50);
	assert_int_equal(rg_in_child(child_has_none, p), 0);
	assert_true(has(p, LEN));
	rg_gone(mr, p, LEN, 50);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, rg_setup, rg_teardown)

	return UNIT_RUN(T(a_part), T(large_and_mixed), T(dropped_before), T(attributes_stay),
			T(moved_pages_stay), T(of_two_contexts), T(refused_by_the_router),
			T(while_it_is_registered), T(the_own_stack), T(in_a_child));
}
