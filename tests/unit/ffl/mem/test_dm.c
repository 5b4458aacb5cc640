/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_dm.c - what a program reads in MRs that are not of its memory, and copies to device memory. The router is this file: a
 * request is answered with the same numbers each time.
 */
#include <string.h>

#include "tests/rig/unit/unit.h"
#include "ffl/mem/dm.c"

static struct ffl_context ctx;
static struct ibv_context *const context = &ctx.v.context;
static struct ffl_pd pd = { .ibv = { .context = &ctx.v.context }, .ctx = &ctx, .handle = 5 };
static uint8_t memory[2 * UNIT_PAGE_MAX];
static bool no_seg;    /* the segment cannot be mapped */
static unsigned freed; /* FREE_DM calls */

int ffl_call(struct ffl_context *c, enum ff_msg_type type, const void *req, size_t req_len,
	     const void *tail, size_t tail_size, unsigned n_tail, void *resp, size_t resp_len,
	     int *fds, unsigned max_fds, unsigned *n_fds)
{
	(void)c, (void)req, (void)req_len, (void)tail, (void)tail_size, (void)n_tail;
	(void)fds, (void)max_fds, (void)n_fds;
	memset(resp, 0, resp_len);
	freed += type == FF_MSG_FREE_DM;
	if (type == FF_MSG_ALLOC_NULL_MR)
		*(struct ff_alloc_null_mr_resp *)resp = (struct ff_alloc_null_mr_resp){
			.mr = 7,
			.lkey = 8,
		};
	if (type == FF_MSG_REG_DM_MR)
		*(struct ff_reg_dm_mr_resp *)resp = (struct ff_reg_dm_mr_resp){
			.mr = 7,
			.lkey = 8,
			.rkey = 9,
		};
	return 0;
}

int ffl_call_fds(struct ffl_context *c, enum ff_msg_type type, const void *req, size_t req_len,
		 const int *send, unsigned n_send, void *resp, size_t resp_len, int *fds,
		 unsigned max_fds, unsigned *n_fds)
{
	(void)c, (void)req, (void)req_len, (void)resp_len, (void)fds, (void)max_fds, (void)n_fds;
	assert_int_equal(type, FF_MSG_REG_DMABUF_MR);
	assert_int_equal(n_send, 1);
	assert_int_equal(*send, 33);
	*(struct ff_reg_dmabuf_mr_resp *)resp = (struct ff_reg_dmabuf_mr_resp){
		.mr = 7,
		.lkey = 8,
		.rkey = 9,
	};
	return 0;
}

void *ffl_seg_at(struct ffl_context *c, uint32_t seg, uint64_t off)
{
	(void)c, (void)seg, (void)off;
	errno = ENOMEM;
	return no_seg ? NULL :
			(void *)(((uintptr_t)memory + FF_PAGE - 1) & ~(uintptr_t)(FF_PAGE - 1));
}

struct ffl_context *ffl_session_of(struct ibv_context *c)
{
	return to_ctx(c);
}

static void check(struct ibv_mr *mr, uintptr_t addr, size_t length, uint32_t rkey)
{
	assert_non_null(mr);
	assert_ptr_equal(mr->context, context);
	assert_ptr_equal(mr->pd, &pd.ibv);
	assert_int_equal((uintptr_t)mr->addr, addr);
	assert_int_equal(mr->length, length);
	assert_int_equal(mr->handle, 7);
	assert_int_equal(mr->lkey, 8);
	assert_int_equal(mr->rkey, rkey);
	assert_int_equal(atomic_load(&pd.refs), 1);
	atomic_store(&pd.refs, 0);
	free(mr);
}

/* rdma-core: of a dma-buf the offset is the address, the others have none. */
static void fields(void **state)
{
	struct ibv_alloc_dm_attr attr = { .length = 256 };
	struct ibv_dm *dm = ffl_alloc_dm(context, &attr);

	(void)state;
	assert_non_null(dm);
	assert_ptr_equal(dm->context, context);
	check(ibv_reg_dmabuf_mr(&pd.ibv, 4196, 1000, 0x7000000, 33, 0), 4196, 1000, 9);
	check(ffl_reg_dm_mr(&pd.ibv, dm, 64, 128, 0), 0, 128, 9);
	check(ffl_alloc_null_mr(&pd.ibv), 0, SIZE_MAX, 0);
	assert_int_equal(ffl_free_dm(dm), 0);
}

/* What lies behind it is another container's. */
static void copies_stay_inside(void **state)
{
	static const struct {
		uint64_t offset;
		size_t length;
		int err;
	} copy[] = {
		{ 0, 256, 0 },
		{ 252, 4, 0 },
		{ 256, 0, 0 },
		{ 256, 4, EFAULT },
		{ 4, 256, EFAULT },
		{ UINT64_MAX - 3, 8, EFAULT },
		{ 8, SIZE_MAX - 3, EFAULT },
		{ 260, 0, EFAULT },
		{ 2, 4, EINVAL },
		{ 0, 6, EINVAL },
	};
	struct ibv_alloc_dm_attr attr = { .length = 256 };
	struct ibv_dm *dm = ffl_alloc_dm(context, &attr);
	uint8_t host[256], back[256];

	(void)state;
	for (unsigned i = 0; i < sizeof(host); i++)
		host[i] = (uint8_t)(i * 3);
	for (unsigned i = 0; i < sizeof(copy) / sizeof(copy[0]); i++) {
		assert_int_equal(dm->memcpy_to_dm(dm, copy[i].offset, host, copy[i].length),
				 copy[i].err);
		assert_int_equal(dm->memcpy_from_dm(back, dm, copy[i].offset, copy[i].length),
				 copy[i].err);
	}
	assert_int_equal(dm->memcpy_to_dm(dm, 0, host, sizeof(host)), 0);
	assert_int_equal(dm->memcpy_from_dm(back, dm, 0, sizeof(back)), 0);
	assert_memory_equal(host, back, sizeof(host));
	assert_int_equal(ffl_free_dm(dm), 0);
}

static void what_cannot_be_mapped_is_given_back(void **state)
{
	struct ibv_alloc_dm_attr attr = { .length = 256 };

	(void)state;
	freed = 0;
	no_seg = true;
	assert_null(ffl_alloc_dm(context, &attr));
	assert_int_equal(errno, ENOMEM);
	no_seg = false;
	assert_int_equal(freed, 1);
}

static void memory_of_another_session(void **state)
{
	static struct ffl_context other;
	struct ffl_pd others = { .ibv = { .context = &other.v.context }, .ctx = &other };
	struct ibv_alloc_dm_attr attr = { .length = 256 };
	struct ibv_dm *dm = ffl_alloc_dm(context, &attr);

	(void)state;
	errno = 0;
	assert_null(ffl_reg_dm_mr(&others.ibv, dm, 0, 4, 0));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ffl_free_dm(dm), 0);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(fields), cmocka_unit_test(copies_stay_inside),
			cmocka_unit_test(what_cannot_be_mapped_is_given_back),
			cmocka_unit_test(memory_of_another_session));
}
