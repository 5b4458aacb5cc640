/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ops.c - the table of operations that programs call through. Any thread; called by
 * context.c for each context.
 */
#include "ffl/session/ffl.h"

/*
 * What a program built with any headers since v15 finds behind the context. Operations that are
 * not set are NULL, to which the inline verbs answer EOPNOTSUPP; the private pointer is NULL.
 */
void ffl_context_init_ops(struct ffl_context *ctx)
{
	struct ibv_context_ops *ops = &ctx->v.context.ops;

	ctx->v.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	ctx->v.sz = FFL_VERBS_CONTEXT_SZ;
	ctx->v.query_port = ffl_query_port;
	ctx->v.query_device_ex = ffl_query_device_ex;
	ctx->v.query_rt_values = ffl_query_rt_values;
	ctx->v.create_cq_ex = ffl_create_cq_ex;
	ctx->v.modify_cq = ffl_modify_cq;
	ctx->v.alloc_td = ffl_alloc_td;
	ctx->v.dealloc_td = ffl_dealloc_td;
	ctx->v.alloc_parent_domain = ffl_alloc_parent_domain;
	ctx->v.create_qp_ex = ffl_create_qp_ex;
	ctx->v.create_srq_ex = ffl_create_srq_ex;
	ctx->v.alloc_dm = ffl_alloc_dm;
	ctx->v.free_dm = ffl_free_dm;
	ctx->v.reg_dm_mr = ffl_reg_dm_mr;
	ctx->v.alloc_null_mr = ffl_alloc_null_mr;
	ctx->v.advise_mr = ffl_advise_mr;
	ctx->v.get_srq_num = ffl_get_srq_num;
	ctx->v.open_xrcd = ffl_open_xrcd;
	ctx->v.close_xrcd = ffl_close_xrcd;
	ctx->v.open_qp = ffl_open_qp;
#undef ibv_query_port
	ops->_compat_query_device = ibv_query_device;
	ops->_compat_query_port = ibv_query_port;
	ops->poll_cq = ffl_poll_cq;
	ops->req_notify_cq = ffl_req_notify_cq;
	ops->post_send = ffl_post_send;
	ops->post_recv = ffl_post_recv;
	ops->post_srq_recv = ffl_post_srq_recv;
	ops->alloc_mw = ffl_alloc_mw;
	ops->bind_mw = ffl_bind_mw;
	ops->dealloc_mw = ffl_dealloc_mw;
}
