/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* judge_mr.c - memory: ibv_reg_mr with each flag and bad ranges, what a key allows then; windows. */
#include "tests/conformance/judge.h"

#include <sys/mman.h>
#include <unistd.h>

static const struct {
	const char *name;
	int flag;
} access_flags[] = {
	{ "none", 0 },
	{ "lw", IBV_ACCESS_LOCAL_WRITE },
	{ "rw", IBV_ACCESS_REMOTE_WRITE },
	{ "rr", IBV_ACCESS_REMOTE_READ },
	{ "ra", IBV_ACCESS_REMOTE_ATOMIC },
	{ "mw", IBV_ACCESS_MW_BIND },
	{ "lw+rw", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE },
	{ "lw+ra", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC },
	{ "lw+rr", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ },
	{ "rr+ra", IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC },
	{ "lw+mw", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND },
	{ "all", VT_ACCESS_ALL },
	{ "zero-based", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED },
	{ "on-demand", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND },
	{ "huge", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_HUGETLB },
	{ "relaxed", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING },
	{ "bit-8", IBV_ACCESS_LOCAL_WRITE | 1 << 8 },
	{ "bit-9", IBV_ACCESS_LOCAL_WRITE | 1 << 9 },
	{ "bit-19", IBV_ACCESS_LOCAL_WRITE | 1 << 19 },
	{ "bit-21", IBV_ACCESS_LOCAL_WRITE | 1 << 21 },
	{ "bit-30", IBV_ACCESS_LOCAL_WRITE | 1 << 30 },
};

static void try_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
	struct ibv_mr *mr = J_PTR(ibv_reg_mr(pd, addr, len, access));

	if (!mr)
		return;
	j_say("addr=%d len=%d keys=%d", mr->addr == addr, mr->length == len, mr->lkey != 0);
	J(ibv_dereg_mr(mr));
}

static void reg_flags(void)
{
	struct ibv_context *ctx = vt_open_device();
	struct ibv_pd *pd = CHECK_PTR(ibv_alloc_pd(ctx));
	void *page = vt_map(4096);

	for (unsigned i = 0; i < ARRAY_SIZE(access_flags); i++) {
		j_case("reg-mr/access-%s", access_flags[i].name);
		try_mr(pd, page, 4096, access_flags[i].flag);
	}
	CHECK_OK(ibv_dealloc_pd(pd));
	CHECK_OK(ibv_close_device(ctx));
}

static void reg_ranges(void)
{
	struct ibv_context *ctx = vt_open_device();
	struct ibv_pd *pd = CHECK_PTR(ibv_alloc_pd(ctx));
	uint8_t *pages = vt_map(3 * 4096), *ro, *none, *gone;
	const int rw = IBV_ACCESS_LOCAL_WRITE;
	static const uint8_t text[4096] = { 1 };

	ro = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	gone = vt_map(4096); /* after all else, so that it stays unmapped */
	munmap(gone, 4096);
	munmap(pages + 8192, 4096); /* ends in a hole */
	j_case("reg-mr/len-0");
	try_mr(pd, pages, 0, rw);
	j_case("reg-mr/len-1");
	try_mr(pd, pages + 77, 1, rw);
	j_case("reg-mr/len-0-of-null");
	try_mr(pd, NULL, 0, rw);
	j_case("reg-mr/null");
	try_mr(pd, NULL, 4096, rw);
	j_case("reg-mr/unmapped");
	try_mr(pd, gone, 4096, rw);
	j_case("reg-mr/unmapped-readonly");
	try_mr(pd, gone, 4096, 0);
	j_case("reg-mr/into-a-hole");
	try_mr(pd, pages, 8193, rw);
	j_case("reg-mr/readonly-for-writing");
	try_mr(pd, ro, 4096, rw);
	j_case("reg-mr/readonly-for-reading");
	try_mr(pd, ro, 4096, 0);
	j_case("reg-mr/readonly-for-remote-reading");
	try_mr(pd, ro, 4096, IBV_ACCESS_REMOTE_READ);
	j_case("reg-mr/prot-none");
	try_mr(pd, none, 4096, rw);
	j_case("reg-mr/prot-none-for-reading");
	try_mr(pd, none, 4096, 0);
	j_case("reg-mr/rodata");
	try_mr(pd, (void *)(uintptr_t)text, sizeof(text), 0);
	j_case("reg-mr/rodata-for-writing");
	try_mr(pd, (void *)(uintptr_t)text, sizeof(text), rw);
	j_case("reg-mr/len-wraps");
	try_mr(pd, pages, SIZE_MAX, rw);
	j_case("reg-mr/len-2^47");
	try_mr(pd, pages, 1ull << 47, rw);
	j_case("reg-mr/addr-of-the-kernel");
	try_mr(pd, (void *)0xffffffff81000000ull, 4096, rw);
	j_case("reg-mr/addr-not-canonical");
	try_mr(pd, (void *)0x8000000000000000ull, 4096, rw);
	CHECK_OK(ibv_dealloc_pd(pd));
	CHECK_OK(ibv_close_device(ctx));
}

static void iova(void)
{
	static const uint64_t iovas[] = {
		0, 4096, 77, 1ull << 62, UINT64_MAX - 4095, UINT64_MAX - 4094, UINT64_MAX
	};
	struct ibv_context *ctx = vt_open_device();
	struct ibv_pd *pd = CHECK_PTR(ibv_alloc_pd(ctx));
	uint8_t *page = vt_map(8192);

	for (unsigned off = 0; off < 2; off++)
		for (unsigned i = 0; i < ARRAY_SIZE(iovas); i++) {
			struct ibv_mr *mr;

			j_case("reg-mr-iova/%llx/%u", (unsigned long long)iovas[i], off * 77);
			mr = J_PTR(ibv_reg_mr_iova(pd, page + off * 77, 4096, iovas[i],
						   VT_ACCESS_ALL));
			if (mr)
				CHECK_OK(ibv_dereg_mr(mr));
		}
	CHECK_OK(ibv_dealloc_pd(pd));
	CHECK_OK(ibv_close_device(ctx));
}

static void rereg(void)
{
	struct ibv_context *ctx = vt_open_device();
	struct ibv_pd *pd = CHECK_PTR(ibv_alloc_pd(ctx)), *pd2 = CHECK_PTR(ibv_alloc_pd(ctx));
	uint8_t *pages = vt_map(16384);

	for (int flags = 0; flags <= 8; flags++) {
		struct ibv_mr *mr = CHECK_PTR(ibv_reg_mr(pd, pages, 4096, IBV_ACCESS_LOCAL_WRITE));
		uint32_t lkey = mr->lkey;

		j_case("rereg-mr/flags-%d", flags);
		j_say("%d", ibv_rereg_mr(mr, flags, pd2, pages + 8192, 8192, VT_ACCESS_ALL));
		j_say("pd=%d addr=%d len=%zu", mr->pd == pd2, mr->addr == pages + 8192, mr->length);
		j_case("rereg-mr/flags-%d/key", flags);
		j_say("%s", mr->lkey == lkey ? "same" : "new");
		CHECK_OK(ibv_dereg_mr(mr));
	}
	CHECK_OK(ibv_dealloc_pd(pd));
	CHECK_OK(ibv_dealloc_pd(pd2));
	CHECK_OK(ibv_close_device(ctx));
}

/* Each access of the MR and of the QP there, used by each operation. */
static void allowed(void)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						  IBV_WR_ATOMIC_FETCH_AND_ADD };
	static const int flags[] = { IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_READ,
				     IBV_ACCESS_REMOTE_ATOMIC };

	for (unsigned op = 0; op < 3; op++)
		for (unsigned mask = 0; mask < 64; mask++) {
			struct vt_param par = VT_PARAM;
			struct vt_end x, y;
			struct ibv_wc wc;

			par.access = par.qp_access = IBV_ACCESS_LOCAL_WRITE;
			for (unsigned b = 0; b < 3; b++) {
				par.access |= mask & 1 << b ? flags[b] : 0;
				par.qp_access |= mask & 8 << b ? flags[b] : 0;
			}
			vt_pair(&x, &y, &par);
			j_case("allowed/%s/mr-%u/qp-%u", j_wr_opcode(ops[op]), mask & 7, mask >> 3);
			if (ops[op] == IBV_WR_ATOMIC_FETCH_AND_ADD)
				vt_atomic(&x, ops[op], 1, 0, 0, 1, 0);
			else
				vt_rdma(&x, ops[op], 1, 0, 8, 0, IBV_SEND_SIGNALED);
			wc = vt_wc(x.scq);
			j_say("%s", j_wc_status(wc.status));
			vt_pair_close(&x, &y);
		}
}

/* ---- windows ----------------------------------------------------------------------------------- */

static void windows(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end x, y;

	par.access |= IBV_ACCESS_MW_BIND;
	par.qp_access |= IBV_ACCESS_MW_BIND;
	vt_pair(&x, &y, &par);
	for (int type = 0; type < 4; type++) {
		struct ibv_mw *mw;

		j_case("alloc-mw/type-%d", type);
		mw = J_PTR(ibv_alloc_mw(x.pd, (enum ibv_mw_type)type));
		if (mw)
			J(ibv_dealloc_mw(mw));
	}
	for (unsigned i = 0; i < 8; i++) {
		static const char *const names[] = { "good",	   "len-beyond", "addr-before",
						     "mr-no-bind", "no-access",	 "len-0",
						     "type-2",	   "zero-based" };
		struct ibv_mr *plain = vt_reg(&y, y.buf, y.len, VT_ACCESS_ALL);
		struct ibv_mw *mw =
			CHECK_PTR(ibv_alloc_mw(y.pd, i == 6 ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1));
		struct ibv_mw_bind bind = {
			.wr_id = 7,
			.send_flags = IBV_SEND_SIGNALED,
			.bind_info = { .mr = i == 3 ? plain : y.mr,
				       .addr = (uintptr_t)y.buf - (i == 2 ? 8 : 0),
				       .length = i == 1 ? y.len + 1 :
						 i == 5 ? 0 :
							  4096,
				       .mw_access_flags = i == 4 ? 0 : IBV_ACCESS_REMOTE_WRITE },
		};

		if (i == 7)
			bind.bind_info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
		vt_pair_reset(&x, &y);
		j_case("bind-mw/%s", names[i]);
		if (!J(ibv_bind_mw(y.qp, mw, &bind))) {
			j_wcs(y.scq, 1, 500);
			j_say("%s", j_qp_state(vt_state(y.qp)));
		}
		J(ibv_dealloc_mw(mw));
		CHECK_OK(ibv_dereg_mr(plain));
	}
	vt_pair_close(&x, &y);
}

JUDGE_GROUPS(judge_mr, { "reg-mr/access", reg_flags, 0 }, { "reg-mr/range", reg_ranges, 0 },
	     { "reg-mr-iova", iova, 0 }, { "rereg-mr", rereg, 0 }, { "allowed", allowed, 60 },
	     { "mw", windows, 0 })
