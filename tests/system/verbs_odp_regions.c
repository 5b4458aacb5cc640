/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/halves.c tests/rig/verbs/odp.c tests/rig/verbs/vt.c -lpthread */
/* test: netns */
/* all: docker system-san */
/* timeout: 600 */
/*
 * verbs_odp_regions.c - on-demand memory regions: what may be registered, advice, and their end, after which nobody
 * reaches the memory. Two processes, by halves.h; what concerns one alone is the client's.
 */
#include "tests/rig/verbs/odp.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE   ODP_PAGE
#define MB     ODP_MB
#define ODP    ODP_ACCESS
#define ROUNDS 20u

/* ---- the end ------------------------------------------------------------------------------------- */

/* Nothing is copied when it goes, then something is, by the peer: what is there afterwards stays. */
static void leave_server(void)
{
	uint8_t *p = odp_map(NULL, MB);
	struct ibv_mr *mr;
	struct vt_end e;

	for (unsigned i = 0; i < 2 * ROUNDS; i++) {
		volatile uint8_t *first = p;
		uint8_t *then = odp_map(NULL, MB);

		memset(p, 0, MB);
		mr = odp_serve(&e, p, MB, ODP);
		if (i % 2)
			WAIT_FOR(*first); /* it is being written to */
		else
			halves_meet('w');
		CHECK_OK(ibv_dereg_mr(mr));
		memcpy(then, p, MB);
		if (!(i % 2))
			halves_meet('l');
		halves_meet('d');
		CHECK(!memcmp(then, p, MB));
		CHECK_OK(munmap(then, MB));
		odp_close_served(&e, NULL);
	}
	CHECK_OK(munmap(p, MB));
}

static void leave_client(void)
{
	enum ibv_wc_status status;
	struct vt_end e;

	for (unsigned i = 0; i < 2 * ROUNDS; i++) {
		uint8_t n = 0;

		odp_reach(&e);
		if (!(i % 2)) {
			odp_put(&e, MB, 0, i);
			halves_meet('w');
			halves_meet('l');
		}
		do {
			n = n % 255 + 1;
			memset(e.buf, n, MB);
			status = odp_transfer(&e, IBV_WR_RDMA_WRITE, 0, MB, 0);
		} while (i % 2 && status == IBV_WC_SUCCESS);
		CHECK_EQ(status, IBV_WC_REM_ACCESS_ERR);
		halves_meet('d');
		odp_close_reach(&e);
	}
}

static void nothing(void)
{
}

/* The same of this side's, with the next registration at once, of the same memory. */
static void leave_here(void)
{
	struct vt_param par = VT_PARAM;
	uint8_t *p = odp_map(NULL, PAGE);
	struct vt_end e;

	vt_end_open(&e, &par);
	for (unsigned i = 0; i < 1000; i++) {
		struct ibv_mr *mr = CHECK_PTR(ibv_reg_mr(e.pd, p, PAGE, ODP));
		uint32_t key = mr->lkey;

		CHECK_OK(ibv_dereg_mr(mr));
		mr = CHECK_PTR(ibv_reg_mr(e.pd, p, PAGE, ODP));
		CHECK(mr->lkey != key);
		CHECK_OK(ibv_dereg_mr(mr));
	}
	vt_end_close(&e);
	CHECK_OK(munmap(p, PAGE));
}

/* ---- one process alone --------------------------------------------------------------------------- */

static void capabilities(void)
{
	const uint32_t two = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
	const uint32_t all = two | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
			     IBV_ODP_SUPPORT_ATOMIC | 3u << 6 /* FLUSH, ATOMIC_WRITE */;
	struct ibv_context *ctx = vt_open_device();
	struct ibv_device_attr_ex d;

	CHECK_OK(ibv_query_device_ex(ctx, NULL, &d));
	CHECK_EQ(d.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
	CHECK_EQ(d.odp_caps.per_transport_caps.rc_odp_caps, all);
	CHECK_EQ(d.odp_caps.per_transport_caps.uc_odp_caps, two | IBV_ODP_SUPPORT_WRITE);
	CHECK_EQ(d.odp_caps.per_transport_caps.ud_odp_caps, two);
	CHECK_EQ(d.xrc_odp_caps, all);
	CHECK_OK(ibv_close_device(ctx));
}

static void arguments(void)
{
	uint8_t *p = odp_map(NULL, 2 * PAGE);
	struct vt_param par = VT_PARAM;
	struct ibv_mr *mr;
	struct vt_end e;

	vt_end_open(&e, &par);
	CHECK_NULL(ibv_reg_mr(e.pd, p, 0, ODP), EOVERFLOW);
	CHECK_NULL(ibv_reg_mr(e.pd, p, SIZE_MAX, ODP), EOVERFLOW);
	CHECK_NULL(ibv_reg_mr(e.pd, (void *)(UINTPTR_MAX - PAGE), 2 * PAGE, ODP), EOVERFLOW);
	CHECK_NULL(ibv_reg_mr(e.pd, (void *)(UINTPTR_MAX - 10), 5, ODP), EOVERFLOW);
	CHECK_NULL(ibv_reg_mr(e.pd, NULL, SIZE_MAX - 1, ODP), EOVERFLOW);
	CHECK_NULL(ibv_reg_mr(e.pd, NULL, SIZE_MAX, VT_ACCESS_ALL), EINVAL);
	CHECK_NULL(ibv_reg_mr_iova(e.pd, NULL, SIZE_MAX, PAGE, ODP), EINVAL);
	CHECK_NULL(ibv_reg_mr(e.pd, NULL, SIZE_MAX, ODP | IBV_ACCESS_HUGETLB), EINVAL);
	CHECK_NULL(ibv_reg_mr(e.pd, p, PAGE, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_REMOTE_WRITE),
		   EINVAL);
	CHECK_NULL(ibv_reg_mr(e.pd, p, PAGE, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_REMOTE_ATOMIC),
		   EINVAL);
	CHECK_NULL(ibv_reg_mr(e.pd, p, PAGE, ODP | 1 << 18), EINVAL);
	/* at null, where nothing is mapped, and where nothing can be */
	CHECK_OK(ibv_dereg_mr(CHECK_PTR(ibv_reg_mr(e.pd, NULL, PAGE, ODP))));
	CHECK_OK(ibv_dereg_mr(
		CHECK_PTR(ibv_reg_mr(e.pd, (void *)(UINTPTR_MAX - 3 * PAGE), PAGE, ODP))));
	CHECK_OK(ibv_dereg_mr(CHECK_PTR(ibv_reg_mr(e.pd, p, PAGE, IBV_ACCESS_ON_DEMAND))));
	mr = CHECK_PTR(ibv_reg_mr(e.pd, p + 5, PAGE, ODP));
	CHECK(mr->addr == p + 5 && mr->length == PAGE && mr->lkey && mr->rkey);
	CHECK_OK(ibv_dereg_mr(mr));
	mr = CHECK_PTR(ibv_reg_mr_iova(e.pd, p, PAGE, 0x10000, ODP));
	CHECK_OK(ibv_dereg_mr(mr));
	vt_end_close(&e);
}

static bool is_resident(void *p)
{
	unsigned char there;

	CHECK_OK(mincore(p, PAGE, &there));
	return there & 1;
}

static void advice(void)
{
	const enum ibv_advise_mr_advice read = IBV_ADVISE_MR_ADVICE_PREFETCH,
					write = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
					look = IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
	const uint32_t flush = IBV_ADVISE_MR_FLAG_FLUSH;
	uint8_t *p = odp_map(NULL, 64 * PAGE);
	struct vt_param par = VT_PARAM;
	struct ibv_mr *mr, *all, *ro;
	struct ibv_sge sge;
	struct vt_end e;
	struct ibv_pd *pd;

	vt_end_open(&e, &par);
	mr = CHECK_PTR(ibv_reg_mr(e.pd, p, 64 * PAGE, ODP));
	all = CHECK_PTR(ibv_reg_mr(e.pd, NULL, SIZE_MAX, ODP));
	ro = CHECK_PTR(ibv_reg_mr(e.pd, p, 64 * PAGE, IBV_ACCESS_ON_DEMAND));
#define SGE(at, len, key) (sge = (struct ibv_sge){ (uintptr_t)(at), len, key }, &sge)
	CHECK_OK(ibv_advise_mr(e.pd, look, flush, SGE(p, 64 * PAGE, mr->lkey), 1));
	CHECK(!is_resident(p));
	CHECK_OK(ibv_advise_mr(e.pd, write, flush, SGE(p + 100, PAGE, mr->lkey), 1));
	CHECK(is_resident(p) && is_resident(p + PAGE) && !is_resident(p + 2 * PAGE));
	CHECK_OK(ibv_advise_mr(e.pd, write, 0, SGE(p + 8 * PAGE, PAGE, all->lkey), 1));
	WAIT_FOR(is_resident(p + 8 * PAGE));
	CHECK_OK(ibv_advise_mr(e.pd, read, flush, SGE(p + 16 * PAGE, PAGE, ro->lkey), 1));
	CHECK_OK(ibv_advise_mr(e.pd, read, flush, SGE(p, 0, mr->lkey), 1));

	CHECK_ERR(ibv_advise_mr(e.pd, write, flush, SGE(p, PAGE, ro->lkey), 1), EPERM);
	CHECK_ERR(ibv_advise_mr(e.pd, read, flush, SGE(p, PAGE, mr->lkey + 1), 1), ENOENT);
	CHECK_ERR(ibv_advise_mr(e.pd, read, flush, SGE(p, 65 * PAGE, mr->lkey), 1), EFAULT);
	CHECK_ERR(ibv_advise_mr(e.pd, read, flush, SGE(p - 1, PAGE, mr->lkey), 1), EFAULT);
	CHECK_ERR(ibv_advise_mr(e.pd, read, 2, SGE(p, PAGE, mr->lkey), 1), EINVAL);
	CHECK_ERR(ibv_advise_mr(e.pd, read, flush, NULL, 1), EINVAL);
	CHECK_ERR(ibv_advise_mr(e.pd, read, flush, SGE(p, PAGE, mr->lkey), 0), EINVAL);
	CHECK_ERR(ibv_advise_mr(e.pd, (enum ibv_advise_mr_advice)3, flush, SGE(p, PAGE, mr->lkey),
				1),
		  EOPNOTSUPP);
	pd = CHECK_PTR(ibv_alloc_pd(e.ctx));
	CHECK_ERR(ibv_advise_mr(pd, read, flush, SGE(p, PAGE, mr->lkey), 1), EPERM);
	CHECK_OK(ibv_dealloc_pd(pd));

	/* nobody is told of pages that do not come, but who waits for them */
	CHECK_OK(munmap(p + 32 * PAGE, PAGE));
	CHECK_ERR(ibv_advise_mr(e.pd, read, flush, SGE(p + 32 * PAGE, PAGE, mr->lkey), 1), EFAULT);
	CHECK_ERR(ibv_advise_mr(e.pd, write, flush, SGE(p + 32 * PAGE, PAGE, all->lkey), 1),
		  EFAULT);
	CHECK_OK(ibv_advise_mr(e.pd, write, 0, SGE(p + 32 * PAGE, PAGE, mr->lkey), 1));
	CHECK_OK(ibv_advise_mr(e.pd, look, flush, SGE(p + 32 * PAGE, PAGE, mr->lkey), 1));
#undef SGE
	CHECK_OK(ibv_dereg_mr(ro));
	CHECK_OK(ibv_dereg_mr(all));
	CHECK_OK(ibv_dereg_mr(mr));
	vt_end_close(&e);
}

#define MANY 10000u

static void many(void)
{
	static struct ibv_mr *mr[MANY];
	uint8_t *p = odp_map(NULL, (size_t)MANY * PAGE);
	struct ibv_context *ctx = vt_open_device();
	struct ibv_pd *pd = CHECK_PTR(ibv_alloc_pd(ctx));
	uint64_t from;

	from = vt_now();
	for (unsigned i = 0; i < MANY; i++)
		mr[i] = CHECK_PTR(ibv_reg_mr(pd, p + (size_t)i * PAGE, PAGE, ODP));
	printf("# %u regions registered in %llu us\n", MANY,
	       (unsigned long long)((vt_now() - from) / 1000));
	from = vt_now();
	for (unsigned i = 0; i < MANY; i++)
		CHECK_OK(ibv_dereg_mr(mr[i]));
	printf("# %u regions deregistered in %llu us\n", MANY,
	       (unsigned long long)((vt_now() - from) / 1000));
	CHECK_OK(ibv_dealloc_pd(pd));
	CHECK_OK(ibv_close_device(ctx));
}

HALVES_MAIN({ "leave", leave_client, leave_server }, { "leave-here", leave_here, nothing },
	    { "capabilities", capabilities, nothing }, { "arguments", arguments, nothing },
	    { "advice", advice, nothing }, { "many", many, nothing })
