/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* pd.c - protection domains: a handle of the router's and a count of users. Any thread. */
#include <stdlib.h>

#include "ffl/session/ffl.h"

FFL_EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ffl_context *ctx = ffl_session_of(context);
	struct ff_alloc_pd_req req = { 0 };
	struct ff_alloc_pd_resp resp;
	struct ffl_pd *pd = FFL_MAKE(sizeof(*pd), ctx, ALLOC_PD, &req, &resp);

	if (!pd)
		return NULL;
	pd->ctx = ctx;
	pd->handle = resp.pd;
	pd->ibv.context = context;
	pd->ibv.handle = resp.pd;
	atomic_fetch_add(&ctx->objects, 1);
	return &pd->ibv;
}

/* EBUSY while something that was made in it lives; of a dead router it is freed all the same. */
FFL_EXPORT int ibv_dealloc_pd(struct ibv_pd *ibpd)
{
	struct ffl_pd *pd = to_pd(ibpd);
	struct ff_dealloc_pd_req req = { .pd = pd->handle };
	struct ff_dealloc_pd_resp resp;
	int ret;

	if (pd->domain)
		return ffl_domain_free(pd);
	if (atomic_load(&pd->refs))
		return ffl_ret(-EBUSY);
	ret = FFL_CALL(pd->ctx, DEALLOC_PD, &req, &resp);
	if (ret && ret != -EIO)
		return ffl_ret(ret);
	atomic_fetch_sub(&pd->ctx->objects, 1);
	free(pd);
	return 0;
}
