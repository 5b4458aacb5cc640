/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_mr.c - ffl/mem/mr.c: arguments of the verbs that register memory, and what the router refuses.
 *
 * build: tests/rig/unit/region_rig.c tests/rig/fakes/fake_shadow.c tests/rig/fakes/fake_pages.c ffr/mem/fallible.c ffl/mem/mr.c ffl/mem/heat.c ffl/mem/track.c ffl/mem/filter.c ffl/mem/kind.c ffl/mem/attr.c ffl/mem/plan.c ffl/mem/apply.c ffl/mem/lock.c ffl/mem/region.c ffl/mem/window.c ffl/mem/fork.c ffl/mem/malloc.c
 */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/region_rig.h"

static void bad_arguments(void **state)
{
	char *p = rg_map(4 * PG);

	(void)state;
	assert_null(ibv_reg_mr(rg_pd, p, 0, ACCESS));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_mr(rg_pd, p, SIZE_MAX, ACCESS));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_mr(rg_pd, (void *)(UINTPTR_MAX - 10), 5, ACCESS));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_mr(rg_pd, p, PG, IBV_ACCESS_REMOTE_WRITE));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_mr(rg_pd, p, PG, IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_REMOTE_READ));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_mr(rg_pd, p, PG, 1 << 15));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_mr(rg_pd, p, PG, ACCESS | 1 << 9)); /* IBV_ACCESS_FLUSH_PERSISTENT */
	assert_int_equal(errno, EOPNOTSUPP);
	munmap(p + 2 * PG, PG);
	assert_null(ibv_reg_mr(rg_pd, p, 4 * PG, ACCESS));
	assert_int_equal(errno, EFAULT);
	assert_false(rg_is_shared(p)); /* nothing was replaced before the hole was found */
	assert_null(ibv_reg_mr(rg_pd, p + PG, PG + 1, 0));
	assert_int_equal(errno, EFAULT);
	munmap(p, 4 * PG);
}

/* The WRs that name an MR are waited for before it goes or changes. */
static void waits_for_posted(void **state)
{
	char *p = rg_map(PG);
	struct ibv_mr *mr = rg_reg(p, PG);
	uint32_t key = mr->lkey;

	(void)state;
	assert_int_equal(fake_shadow.waited_key, 0);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), 0);
	assert_int_equal(fake_shadow.waited_key, key);
	key = mr->lkey;
	fake_shadow.waited_key = fake_shadow.waited_mrs = 0;
	rg_dereg(mr);
	assert_int_equal(fake_shadow.waited_key, key);
	assert_int_equal(fake_shadow.waited_mrs, 1);
	mr = ibv_reg_mr(rg_pd, p, PG, ACCESS | IBV_ACCESS_ON_DEMAND);
	assert_non_null(mr);
	key = mr->lkey;
	rg_dereg(mr);
	assert_int_equal(fake_shadow.waited_key, key);
	munmap(p, PG);
}

static void hints_are_masked(void **state)
{
	char *p = rg_map(PG);
	struct ibv_mr *mr;

	(void)state;
	mr = ibv_reg_mr_iova2(rg_pd, p, PG, 0x1234,
			      ACCESS | IBV_ACCESS_RELAXED_ORDERING | IBV_ACCESS_HUGETLB | 1u << 29);
	assert_non_null(mr);
	assert_int_equal(fake_shadow.reg.access, ACCESS);
	assert_int_equal(fake_shadow.reg.iova, 0x1234);
	rg_dereg(mr);
	mr = ibv_reg_mr(rg_pd, p, PG, ACCESS | 1 << 8); /* IBV_ACCESS_FLUSH_GLOBAL is none */
	assert_non_null(mr);
	assert_int_equal(fake_shadow.reg.access, ACCESS | 1 << 8);
	rg_dereg(mr);
	mr = ibv_reg_mr(rg_pd, p, PG, ACCESS | IBV_ACCESS_ZERO_BASED);
	assert_non_null(mr);
	assert_int_equal(fake_shadow.reg.iova, 0);
	assert_int_equal(fake_shadow.reg.addr, (uintptr_t)p);
	rg_dereg(mr);
	munmap(p, PG);
}

/* Nothing is claimed, whatever is there, and the router is told of the access. */
static void on_demand(void **state)
{
	const int odp = ACCESS | IBV_ACCESS_ON_DEMAND;
	char *p = rg_map(4 * PG);
	struct ibv_mr *mr;

	(void)state;
	munmap(p + 2 * PG, PG);
	mr = ibv_reg_mr(rg_pd, p, 4 * PG, odp);
	assert_non_null(mr);
	assert_int_equal(fake_shadow.reg.access, odp);
	assert_false(rg_is_shared(p));
	rg_dereg(mr);
	mr = ibv_reg_mr(rg_pd, NULL, SIZE_MAX, odp);
	assert_non_null(mr);
	assert_int_equal(fake_shadow.reg.addr, 0);
	assert_int_equal(fake_shadow.reg.iova, 0);
	assert_true(fake_shadow.reg.length == UINT64_MAX);
	rg_dereg(mr);
	assert_null(ibv_reg_mr_iova(rg_pd, NULL, SIZE_MAX, PG, odp));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_mr(rg_pd, NULL, SIZE_MAX, odp | IBV_ACCESS_HUGETLB));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_mr(rg_pd, p, SIZE_MAX, odp));
	assert_int_equal(errno, EOVERFLOW);
	assert_null(ibv_reg_mr(rg_pd, p, 0, odp));
	assert_int_equal(errno, EOVERFLOW);
	munmap(p, 4 * PG);
}

/* On-demand MRs leave by shared memory while the router copies nothing, there is room, and no window can be bound. */
static void leaving_without_a_call(void **state)
{
	const int odp = ACCESS | IBV_ACCESS_ON_DEMAND;
	struct ff_leaving *l = &rg_ctx->hdr->leaving;
	char *p = rg_map(PG);
	struct ibv_mr *mr;

	(void)state;
	for (unsigned i = 0; i < FF_LEAVING; i++)
		rg_dereg(ibv_reg_mr(rg_pd, p, PG, odp));
	assert_int_equal(fake_shadow.mrs, FF_LEAVING);
	rg_dereg(ibv_reg_mr(rg_pd, p, PG, odp)); /* there is no room */
	assert_int_equal(fake_shadow.mrs, FF_LEAVING);
	assert_int_equal(fake_shadow_left(), FF_LEAVING);
	assert_int_equal(fake_shadow.mrs, 0);
	assert_int_equal(to_pd(rg_pd)->refs, 0);

	mr = ibv_reg_mr(rg_pd, p, PG, odp | IBV_ACCESS_MW_BIND);
	fake_shadow.fail[FF_MSG_DEREG_MR] = -EBUSY;
	assert_int_equal(ibv_dereg_mr(mr), EBUSY);
	fake_shadow.fail[FF_MSG_DEREG_MR] = 0;
	rg_dereg(mr);
	atomic_store(&l->busy, 1); /* a copy is under way: the router has to wait for it */
	rg_dereg(ibv_reg_mr(rg_pd, p, PG, odp));
	atomic_store(&l->busy, 0);
	rg_dereg(rg_reg(p, PG)); /* not of other memory */
	assert_int_equal(fake_shadow_left(), 0);
	assert_int_equal(fake_shadow.mrs, 0);
	munmap(p, PG);
}

/* A NIC may have the pages: the router is asked to take the MR from it. */
static void leaving_where_a_nic_is(void **state)
{
	char *p = rg_map(PG);
	struct ibv_mr *mr;

	(void)state;
	mr = ibv_reg_mr(rg_pd, p, PG, ACCESS | IBV_ACCESS_ON_DEMAND);
	assert_non_null(mr);
	rg_ctx->has_nic = true;
	rg_dereg(mr);
	rg_ctx->has_nic = false;
	assert_int_equal(fake_shadow.mrs, 0);
	assert_int_equal(fake_shadow_left(), 0);
	munmap(p, PG);
}

static void *copy_ends(void *arg)
{
	(void)arg;
	usleep(5000);
	fake_shadow.fail[FF_MSG_DEREG_MR] = 0;
	return NULL;
}

/* The router is in the middle of a copy: the MR goes when that is done, and not before. */
static void dereg_waits_for_a_copy(void **state)
{
	char *p = rg_map(PG);
	struct ibv_mr *mr = rg_reg(p, PG);
	pthread_t t;

	(void)state;
	fake_shadow.fail[FF_MSG_DEREG_MR] = -EAGAIN;
	assert_int_equal(pthread_create(&t, NULL, copy_ends, NULL), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(fake_shadow.mrs, 0);
	pthread_join(t, NULL);
	munmap(p, PG);
}

static void *debt_is_paid(void *arg)
{
	usleep(20000);
	*(int *)arg = 0;
	return NULL;
}

/* The router maps nothing for now, and a NIC is there: the program's call takes until it does. */
static void reg_waits_for_the_router(void **state)
{
	static const enum ff_msg_type calls[] = { FF_MSG_PLACE_PAGES, FF_MSG_REG_MR };
	char *p = rg_map(PG);
	pthread_t t;

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(calls); i++) {
		fake_shadow.fail[calls[i]] = -EINPROGRESS;
		assert_int_equal(
			pthread_create(&t, NULL, debt_is_paid, &fake_shadow.fail[calls[i]]), 0);
		rg_dereg(rg_reg(p, PG));
		pthread_join(t, NULL);
		assert_int_equal(fake_shadow.fail[calls[i]], 0);
	}
	munmap(p, PG);
}

/* An MR of another PD, and one whose addresses begin with 0, also when it is changed. */
static void rereg_changes_what_it_says(void **state)
{
	struct ibv_pd *other = fake_shadow_pd(rg_ctx);
	char *p = rg_map(2 * PG);
	struct ibv_mr *mr = ibv_reg_mr(rg_pd, p, PG, ACCESS | IBV_ACCESS_ZERO_BASED);

	(void)state;
	assert_non_null(mr);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0), 0);
	assert_ptr_equal(mr->pd, other);
	assert_int_equal(fake_shadow.reg.pd, to_pd(other)->handle);
	assert_int_equal(to_pd(rg_pd)->refs, 0);
	assert_int_equal(to_pd(other)->refs, 1);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p + PG, PG, 0), 0);
	assert_int_equal(fake_shadow.reg.addr, (uintptr_t)p + PG);
	assert_int_equal(fake_shadow.reg.iova, 0);
	assert_int_equal(to_pd(other)->refs, 1);
	rg_dereg(mr);
	assert_int_equal(to_pd(other)->refs, 0);
	free(other);
	munmap(p, 2 * PG);
}

static void refused_mr_is_undone(void **state)
{
	char *p = rg_map(4 * PG);

	(void)state;
	rg_fill(p, 4 * PG, 12);
	fake_shadow.fail[FF_MSG_REG_MR] = -EDQUOT;
	assert_null(ibv_reg_mr(rg_pd, p, 4 * PG, ACCESS));
	assert_int_equal(errno, EDQUOT);
	assert_int_equal(to_pd(rg_pd)->refs, 0);
	assert_int_equal(fake_shadow.mrs, 0);
	fake_shadow.fail[FF_MSG_REG_MR] = 0;
	rg_check(p, 4 * PG, 12);
	rg_dereg(rg_reg(p, 4 * PG));
	rg_check(p, 4 * PG, 12);
	munmap(p, 4 * PG);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, rg_setup, rg_teardown)

	return UNIT_RUN(T(bad_arguments), T(waits_for_posted), T(hints_are_masked), T(on_demand),
			T(leaving_without_a_call), T(leaving_where_a_nic_is),
			T(dereg_waits_for_a_copy), T(reg_waits_for_the_router),
			T(rereg_changes_what_it_says), T(refused_mr_is_undone));
}
