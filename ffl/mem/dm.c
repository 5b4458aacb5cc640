/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * dm.c - device memory, and MRs that are not of the program's memory: that, dma-bufs, nothing.
 * Any thread of the application. Neighbours: mr.c, the router's ffr/ctl/dm.c.
 *
 * Device memory is the router's, mapped here as well, so that ibv_memcpy_to_dm() is a copy. Access
 * is in units of 4 bytes, as with the devices that programs know: they rely on others being refused
 * and on a unit never being seen half written.
 */
#include <stdlib.h>

#include "ffl/session/ffl.h"
#include "ffl/session/mm.h"

#define UNIT 4u

/* ---- MRs that are not of the program's memory ----------------------------------------------- */

/* An MR that the router knows already. addr: what the program reads in it. */
static struct ibv_mr *mr_new(struct ibv_pd *pd, uint32_t handle, uint32_t lkey, uint32_t rkey,
			     void *addr, size_t length)
{
	struct ffl_mr *mr = calloc(1, sizeof(*mr));

	if (!mr) {
		FFL_CALL(to_pd(pd)->ctx, DEREG_MR, &(struct ff_dereg_mr_req){ .mr = handle },
			 &(struct ff_dereg_mr_resp){ 0 });
		return ffl_err_ptr(ENOMEM);
	}
	mr->ctx = to_pd(pd)->ctx;
	mr->foreign = true;
	mr->ibv = (struct ibv_mr){
		.context = pd->context,
		.pd = pd,
		.addr = addr,
		.length = length,
		.handle = handle,
		.lkey = lkey,
		.rkey = rkey,
	};
	atomic_fetch_add(&to_pd(pd)->refs, 1);
	return &mr->ibv;
}

struct ibv_mr *ffl_alloc_null_mr(struct ibv_pd *pd)
{
	struct ff_alloc_null_mr_req req = { .pd = to_pd(pd)->handle };
	struct ff_alloc_null_mr_resp resp;
	int err = FFL_CALL(to_pd(pd)->ctx, ALLOC_NULL_MR, &req, &resp);

	if (err)
		return ffl_err_ptr(-err);
	return mr_new(pd, resp.mr, resp.lkey, 0, NULL, SIZE_MAX);
}

/*
 * EBADF: no such descriptor; EINVAL: not of a dma-buf, or out of its bounds; EOPNOTSUPP: of a
 * dma-buf that is not plain memory. The MR's addr is the offset, as in rdma-core.
 *
 * NCCL and UCX probe with the descriptor -1, and take all but EOPNOTSUPP for a device that takes a
 * GPU's memory (the kernel says EBADF). This one does not: they are to go through host memory.
 */
FFL_EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
					    uint64_t iova, int fd, int access)
{
	struct ff_reg_dmabuf_mr_req req = { .offset = offset,
					    .length = length,
					    .iova = iova,
					    .pd = to_pd(pd)->handle,
					    .access = (uint32_t)access };
	struct ff_reg_dmabuf_mr_resp resp;
	int err = fd < 0 ? -EOPNOTSUPP :
			   ffl_call_fds(to_pd(pd)->ctx, FF_MSG_REG_DMABUF_MR, &req, sizeof(req),
					&fd, 1, &resp, sizeof(resp), NULL, 0, NULL);

	if (err)
		return ffl_err_ptr(-err);
	return mr_new(pd, resp.mr, resp.lkey, resp.rkey, (void *)(uintptr_t)offset, length);
}

/* ---- device memory ------------------------------------------------------------------------ */

struct ffl_dm {
	struct ibv_dm ibv;
	struct ffl_context *ctx;
	uint8_t *map;
	uint64_t length;
};

static struct ffl_dm *to_dm(struct ibv_dm *dm)
{
	return container_of_(dm, struct ffl_dm, ibv);
}

/* By words, into device memory or out of it. 0 or a positive errno. */
static int copy_words(struct ibv_dm *ibdm, uint64_t offset, uint8_t *host, size_t length,
		      bool to_device)
{
	struct ffl_dm *dm = to_dm(ibdm);
	_Atomic uint32_t *word;
	uint32_t v;

	if (atomic_load_explicit(&dm->ctx->dead, memory_order_relaxed))
		return EIO;
	if (offset > dm->length || length > dm->length - offset)
		return EFAULT;
	if ((offset | length) % UNIT)
		return EINVAL;
	for (size_t i = 0; i < length; i += UNIT) {
		word = (_Atomic uint32_t *)(dm->map + offset + i);
		if (to_device) {
			__builtin_memcpy(&v, host + i, UNIT);
			atomic_store_explicit(word, v, memory_order_relaxed);
		} else {
			v = atomic_load_explicit(word, memory_order_relaxed);
			__builtin_memcpy(host + i, &v, UNIT);
		}
	}
	return 0;
}

static int to_device(struct ibv_dm *ibdm, uint64_t offset, const void *host, size_t length)
{
	return copy_words(ibdm, offset, (uint8_t *)host, length, true);
}

static int from_device(void *host, struct ibv_dm *ibdm, uint64_t offset, size_t length)
{
	return copy_words(ibdm, offset, host, length, false);
}

struct ibv_dm *ffl_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	struct ffl_context *ctx = ffl_session_of(context);
	struct ff_alloc_dm_req req = { .length = attr->length, .log_align = attr->log_align_req };
	struct ff_alloc_dm_resp resp;
	struct ffl_dm *dm;
	int err;

	if (attr->comp_mask)
		return ffl_err_ptr(EINVAL);
	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return ffl_err_ptr(ENOMEM);
	err = FFL_CALL(ctx, ALLOC_DM, &req, &resp);
	if (err)
		goto err_free;
	dm->map = ffl_seg_at(ctx, resp.seg, resp.off);
	if (!dm->map) {
		err = -errno;
		goto err_dm;
	}
	/* touched first here, so that it is charged to this container; older kernels charge later */
	if (mm_advise(dm->map, (attr->length + FF_PAGE - 1) & ~(size_t)(FF_PAGE - 1),
		      MADV_POPULATE_WRITE) &&
	    errno != EINVAL) {
		err = -ENOMEM;
		goto err_dm;
	}
	dm->ctx = ctx;
	dm->length = attr->length;
	dm->ibv = (struct ibv_dm){
		.context = context,
		.memcpy_to_dm = to_device,
		.memcpy_from_dm = from_device,
		.comp_mask = IBV_DM_MASK_HANDLE,
		.handle = resp.dm,
	};
	atomic_fetch_add(&ctx->objects, 1);
	return &dm->ibv;

err_dm:
	FFL_CALL(ctx, FREE_DM, &(struct ff_free_dm_req){ .dm = resp.dm },
		 &(struct ff_free_dm_resp){ 0 });
err_free:
	free(dm);
	return ffl_err_ptr(-err);
}

/* EBUSY while an MR is registered on it. */
int ffl_free_dm(struct ibv_dm *ibdm)
{
	struct ff_free_dm_req req = { .dm = ibdm->handle };
	struct ff_free_dm_resp resp;
	int err = FFL_CALL(to_dm(ibdm)->ctx, FREE_DM, &req, &resp);

	if (err && err != -EIO) /* a dead router's objects are gone already */
		return ffl_ret(err);
	atomic_fetch_sub(&to_dm(ibdm)->ctx->objects, 1);
	free(to_dm(ibdm));
	return 0;
}

/* Addresses of the MR begin with 0, whether or not IBV_ACCESS_ZERO_BASED says so. */
struct ibv_mr *ffl_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
			     unsigned int access)
{
	struct ff_reg_dm_mr_req req = { .offset = offset,
					.length = length,
					.pd = to_pd(pd)->handle,
					.dm = dm->handle,
					.access = access };
	struct ff_reg_dm_mr_resp resp;
	int err;

	if (to_dm(dm)->ctx != to_pd(pd)->ctx)
		return ffl_err_ptr(EINVAL);
	err = FFL_CALL(to_pd(pd)->ctx, REG_DM_MR, &req, &resp);
	if (err)
		return ffl_err_ptr(-err);
	return mr_new(pd, resp.mr, resp.lkey, resp.rkey, NULL, length);
}
