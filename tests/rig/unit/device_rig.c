/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* device_rig.c - see device_rig.h. */
#include "tests/rig/unit/device_rig.h"

#include <stdlib.h>
#include <string.h>

struct router device_router;
struct ibv_context *device_ctx;

/* ---- the parts of the library that are not under test ------------------------------------------- */

int device_mr_ret;
static unsigned int mr_live;

int ffl_mr_context_init(struct ffl_context *c)
{
	(void)c;
	mr_live += !device_mr_ret;
	return device_mr_ret;
}

int ffl_fork_init(void)
{
	return 0;
}

void ffl_mr_context_fini(struct ffl_context *c)
{
	(void)c;
	mr_live--;
}

void ffl_mr_forget(struct ffl_mr *mr)
{
	atomic_fetch_sub(&to_pd(mr->ibv.pd)->refs, 1);
	free(mr);
}

struct device_left device_left;

void ffl_ndevs_tell(struct ffl_context *ctx)
{
	(void)ctx;
}

uint8_t device_addr[16];

uint32_t ffl_ndev_of(const uint8_t addr[16])
{
	return memcmp(addr, device_addr, sizeof(device_addr)) ? 0 : 17;
}

uint32_t ffl_ndev_any(void)
{
	return 5;
}

void ffl_posted_wait(struct ffl_context *ctx, const struct ffl_going *what)
{
	(void)ctx;
	device_left.calls++;
	device_left.what = *what;
}

#define NOT_CALLED(type, name, ...)                                                                \
	type name(__VA_ARGS__)                                                                     \
	{                                                                                          \
		abort();                                                                           \
	}
#pragma GCC diagnostic ignored "-Wunused-parameter"
NOT_CALLED(int, ffl_poll_cq, struct ibv_cq *cq, int n, struct ibv_wc *wc)
NOT_CALLED(int, ffl_req_notify_cq, struct ibv_cq *cq, int solicited_only)
NOT_CALLED(int, ffl_post_send, struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
NOT_CALLED(int, ffl_post_recv, struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
NOT_CALLED(int, ffl_post_srq_recv, struct ibv_srq *srq, struct ibv_recv_wr *wr,
	   struct ibv_recv_wr **bad)
NOT_CALLED(struct ibv_cq_ex *, ffl_create_cq_ex, struct ibv_context *c,
	   struct ibv_cq_init_attr_ex *attr)
NOT_CALLED(int, ffl_modify_cq, struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
NOT_CALLED(struct ibv_qp *, ffl_create_qp_ex, struct ibv_context *c,
	   struct ibv_qp_init_attr_ex *attr)
NOT_CALLED(int, ffl_qp_make, struct ffl_context *c, const struct ffl_qp_maker *by,
	   const struct ff_create_qp_req *req, struct ff_create_qp_resp *resp,
	   enum ibv_qp_state *state)
NOT_CALLED(struct ibv_srq *, ffl_create_srq_ex, struct ibv_context *c,
	   struct ibv_srq_init_attr_ex *attr)
NOT_CALLED(int, ffl_get_srq_num, struct ibv_srq *srq, uint32_t *num)
NOT_CALLED(struct ibv_mw *, ffl_alloc_mw, struct ibv_pd *pd, enum ibv_mw_type type)
NOT_CALLED(int, ffl_bind_mw, struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
NOT_CALLED(int, ffl_dealloc_mw, struct ibv_mw *mw)
NOT_CALLED(struct ibv_dm *, ffl_alloc_dm, struct ibv_context *c, struct ibv_alloc_dm_attr *attr)
NOT_CALLED(int, ffl_free_dm, struct ibv_dm *dm)
NOT_CALLED(struct ibv_mr *, ffl_reg_dm_mr, struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset,
	   size_t length, unsigned int access)
NOT_CALLED(struct ibv_mr *, ffl_alloc_null_mr, struct ibv_pd *pd)
NOT_CALLED(int, ffl_advise_mr, struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
	   struct ibv_sge *sg, uint32_t num_sge)

/* ---- fixture -------------------------------------------------------------------------------------- */

int device_setup_router(void **state)
{
	(void)state;
	ffl_log_init();
	ffl_log_level = 0;
	device_mr_ret = 0;
	router_start(&device_router);
	return 0;
}

int device_setup(void **state)
{
	struct ibv_device **list;
	int n = 0;

	device_setup_router(state);
	list = ibv_get_device_list(&n);
	assert_int_equal(n, 1);
	device_ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	assert_non_null(device_ctx);
	router_wait_closed(&device_router, 1); /* the list's connection: events go to the other */
	return 0;
}

int device_teardown_router(void **state)
{
	(void)state;
	router_stop(&device_router);
	assert_int_equal(device_router.malformed, 0);
	assert_int_equal(mr_live, 0);
	return 0;
}

int device_teardown(void **state)
{
	assert_int_equal(ibv_close_device(device_ctx), 0);
	return device_teardown_router(state);
}

void device_set_gids(void)
{
	static const uint8_t v4[16] = { [10] = 0xff, 0xff, 10, 0, 0, 2 };
	static const uint8_t v6[16] = { 0xfd, [15] = 2 };

	memcpy(device_router.gid[0], v4, 16);
	memcpy(device_router.gid[2], v6, 16);
	device_router.gid_type[0] = device_router.gid_type[2] = IBV_GID_TYPE_ROCE_V2;
}
