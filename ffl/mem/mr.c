/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mr.c - memory regions: the verbs. Any thread of the program.
 *
 * Registering is: check the flags and the range as the kernel does; have region.c replace what can
 * be replaced; tell the router. Deregistering is the reverse: the router forgets the MR first, so
 * that nothing writes to the pages any more when they are given back.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffl/session/mm.h"
#include "ffl/mem/region.h"

/* macros of <infiniband/verbs.h> in the way of the functions */
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* Access bits that programs with newer headers may give; IBV_ACCESS_OPTIONAL_* are hints. */
#define ACCESS_OPTIONAL 0x3ff00000
#define ACCESS_LATER	(IBV_ACCESS_ON_DEMAND | 0x300 /* FLUSH_* */)
#define ACCESS_REAL                                                                                \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)
#define ACCESS_KNOWN (ACCESS_REAL | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB)

static struct ffl_mr *to_mr(struct ibv_mr *mr)
{
	return container_of_(mr, struct ffl_mr, ibv);
}

int ffl_mr_context_init(struct ffl_context *ctx)
{
	int err = ffl_fork_init();

	return err ? err : ffl_regions_init(ctx);
}

void ffl_mr_context_fini(struct ffl_context *ctx)
{
	ffl_regions_fini(ctx);
}

/* As the kernel's ib_check_mr_access(): 0, -EINVAL, or -EOPNOTSUPP for what the device lacks. */
static int check_access(int access)
{
	access &= ~ACCESS_OPTIONAL;
	if (access & ~(ACCESS_KNOWN | ACCESS_LATER))
		return -EINVAL;
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	return access & ACCESS_LATER ? -EOPNOTSUPP : 0;
}

static int check_range(uintptr_t addr, size_t length)
{
	uintptr_t end;

	if (!length || __builtin_add_overflow(addr, length, &end) || PAGE_UP(end) < end)
		return -EINVAL;
	return 0;
}

/* Where one registration's claims are collected; region lock. */
static struct ff_mr_run scratch[FF_MR_MAX_RUNS];

/*
 * Claim the range; *run is the claims' copy, for free(). Their number or -errno. FF_RUN_SHARED
 * runs hold nothing and are for the router only, but are kept as well: it is one list.
 */
static int claim(struct ffl_context *ctx, uintptr_t addr, size_t length, int access,
		 struct ff_mr_run **run)
{
	int num;

	*run = NULL;
	ffl_regions_lock();
	num = ffl_regions_claim(ctx, addr, length, access & IBV_ACCESS_LOCAL_WRITE, scratch,
				FF_MR_MAX_RUNS);
	if (num > 0) {
		*run = malloc((size_t)num * sizeof(**run));
		if (*run) {
			memcpy(*run, scratch, (size_t)num * sizeof(**run));
		} else {
			ffl_regions_drop(ctx, scratch, (unsigned)num);
			num = -ENOMEM;
		}
	}
	ffl_regions_unlock();
	return num;
}

static void drop(struct ffl_context *ctx, struct ff_mr_run *run, unsigned num)
{
	if (num) {
		ffl_regions_lock();
		ffl_regions_drop(ctx, run, num);
		ffl_regions_unlock();
	}
	free(run);
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			     int access)
{
	struct ffl_context *ctx = to_pd(pd)->ctx;
	struct ff_reg_mr_req req;
	struct ff_reg_mr_resp resp;
	struct ffl_mr *mr;
	int num, err;

	err = ctx->pid != getpid() ? -EIO : check_access(access);
	if (!err)
		err = check_range((uintptr_t)addr, length);
	if (err)
		return ffl_err_ptr(-err);
	if (access & IBV_ACCESS_ZERO_BASED)
		iova = 0;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return ffl_err_ptr(ENOMEM);
	num = claim(ctx, (uintptr_t)addr, length, access, &mr->run);
	if (num < 0) {
		err = num;
		goto err_free;
	}
	req = (struct ff_reg_mr_req){
		.addr = (uintptr_t)addr,
		.length = length,
		.iova = iova,
		.pd = to_pd(pd)->handle,
		.access = (uint32_t)(access & ACCESS_REAL),
	};
	err = ffl_call(ctx, FF_MSG_REG_MR, &req, sizeof(req), mr->run, sizeof(*mr->run),
		       (unsigned)num, &resp, sizeof(resp), NULL, 0, NULL);
	if (err)
		goto err_drop;
	mr->ibv = (struct ibv_mr){
		.context = pd->context,
		.pd = pd,
		.addr = addr,
		.length = length,
		.handle = resp.mr,
		.lkey = resp.lkey,
		.rkey = resp.rkey,
	};
	mr->ctx = ctx;
	mr->iova = iova;
	mr->access = access;
	mr->zero_copy = resp.zero_copy;
	mr->num_runs = (unsigned)num;
	atomic_fetch_add(&to_pd(pd)->refs, 1);
	ffl_log(FFL_DEBUG, "MR %p, %zu bytes: %llu zero-copy", addr, length,
		(unsigned long long)mr->zero_copy);
	return &mr->ibv;

err_drop:
	drop(ctx, mr->run, (unsigned)num);
err_free:
	free(mr);
	return ffl_err_ptr(-err);
}

FFL_EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return reg_mr(pd, addr, length, (uintptr_t)addr, access);
}

FFL_EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length,
					  uint64_t iova, int access)
{
	return reg_mr(pd, addr, length, iova, access);
}

/* What the macros call when optional access bits may be set, which programs do not count on. */
FFL_EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
					   uint64_t iova, unsigned int access)
{
	return reg_mr(pd, addr, length, iova, (int)access);
}

/*
 * Returns 0 or, unlike other verbs, one of enum ibv_rereg_mr_err_code with errno set. When it
 * fails, the MR is as it was.
 */
FFL_EXPORT int ibv_rereg_mr(struct ibv_mr *ibv, int flags, struct ibv_pd *pd, void *addr,
			    size_t length, int access)
{
	struct ffl_mr *mr = to_mr(ibv);
	struct ffl_context *ctx = mr->ctx;
	struct ff_rereg_mr_req req;
	struct ff_rereg_mr_resp resp;
	struct ff_mr_run *run;
	uint64_t iova = mr->iova;
	int num, err;

	if (mr->imported || mr->foreign || !flags ||
	    (flags & ~(IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD |
		       IBV_REREG_MR_CHANGE_ACCESS)))
		goto err_input;
	if (!(flags & IBV_REREG_MR_CHANGE_PD))
		pd = ibv->pd;
	else if (!pd || to_pd(pd)->ctx != ctx)
		goto err_input;
	if (!(flags & IBV_REREG_MR_CHANGE_ACCESS)) {
		if (access)
			goto err_input;
		access = mr->access;
	}
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		if (!addr || !length)
			goto err_input;
		iova = access & IBV_ACCESS_ZERO_BASED ? 0 : (uintptr_t)addr;
	} else {
		addr = ibv->addr;
		length = ibv->length;
	}
	err = ctx->pid != getpid() ? -EIO : check_access(access);
	if (!err)
		err = check_range((uintptr_t)addr, length);
	if (err) {
		errno = -err;
		return IBV_REREG_MR_ERR_INPUT;
	}
	/*
	 * Other access rights may want another mapping, so that this, too, is a new translation,
	 * of the same range. What both ranges have in common is claimed twice for a moment.
	 */
	num = claim(ctx, (uintptr_t)addr, length, access, &run);
	if (num < 0) {
		errno = -num;
		return IBV_REREG_MR_ERR_INPUT;
	}
	req = (struct ff_rereg_mr_req){
		.addr = (uintptr_t)addr,
		.length = length,
		.iova = iova,
		.mr = ibv->handle,
		.flags = (uint32_t)flags | IBV_REREG_MR_CHANGE_TRANSLATION,
		.pd = to_pd(pd)->handle,
		.access = (uint32_t)(access & ACCESS_REAL),
	};
	err = ffl_call(ctx, FF_MSG_REREG_MR, &req, sizeof(req), run, sizeof(*run), (unsigned)num,
		       &resp, sizeof(resp), NULL, 0, NULL);
	if (err) {
		drop(ctx, run, (unsigned)num);
		errno = -err;
		return IBV_REREG_MR_ERR_CMD;
	}
	drop(ctx, mr->run, mr->num_runs);
	atomic_fetch_sub(&to_pd(ibv->pd)->refs, 1);
	atomic_fetch_add(&to_pd(pd)->refs, 1);
	ibv->pd = pd;
	ibv->addr = addr;
	ibv->length = length;
	ibv->lkey = resp.lkey;
	ibv->rkey = resp.rkey;
	mr->iova = iova;
	mr->access = access;
	mr->zero_copy = resp.zero_copy;
	mr->run = run;
	mr->num_runs = (unsigned)num;
	return 0;

err_input:
	errno = EINVAL;
	return IBV_REREG_MR_ERR_INPUT;
}

void ffl_mr_forget(struct ffl_mr *mr)
{
	struct ffl_context *ctx = mr->ctx;

	if (ctx->pid == getpid())
		drop(ctx, mr->run, mr->num_runs);
	else
		free(mr->run);
	atomic_fetch_sub(&to_pd(mr->ibv.pd)->refs, 1);
	free(mr);
}

FFL_EXPORT int ibv_dereg_mr(struct ibv_mr *ibv)
{
	struct ffl_mr *mr = to_mr(ibv);
	struct ffl_context *ctx = mr->ctx;
	struct ff_dereg_mr_req req = { .mr = ibv->handle, .imported = mr->imported };
	struct ff_dereg_mr_resp resp;
	int err;

	err = ctx->pid != getpid() ? -EIO : FFL_CALL(ctx, DEREG_MR, &req, &resp);
	/* of a router that is gone, and in a child, the MR is gone, too */
	if (err && err != -EIO)
		return ffl_ret(err);
	ffl_mr_forget(mr);
	return 0;
}

/* ---- advice --------------------------------------------------------------------------------- */

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

/* Have the program's own entries present. 0 or -EFAULT; before Linux 5.14 they come when used. */
static int populate(uintptr_t addr, size_t length, bool write)
{
	uintptr_t from = PAGE_DOWN(addr);

	if (!length || !mm_advise((void *)from, PAGE_UP(addr + length) - from,
				  write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
		return 0;
	return errno == EINVAL ? 0 : -EFAULT;
}

static int advise_sge(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		      const struct ibv_sge *sg)
{
	struct ff_advise_mr_req req = { .addr = sg->addr,
					.length = sg->length,
					.lkey = sg->lkey,
					.pd = to_pd(pd)->handle,
					.advice = advice,
					.flags = flags };
	struct ffl_context *ctx = to_pd(pd)->ctx;
	struct ff_advise_mr_resp resp;
	uint64_t va;
	int err = FFL_CALL(ctx, ADVISE_MR, &req, &resp);

	va = resp.va;
	if (err || !va || advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return err;
	while (!err && req.length > FF_PREFETCH_MAX) {
		req.addr += FF_PREFETCH_MAX;
		req.length -= FF_PREFETCH_MAX;
		err = FFL_CALL(ctx, ADVISE_MR, &req, &resp);
	}
	return err ? err : populate(va, sg->length, advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE);
}

/*
 * The router checks each part and prepares its side. Nothing goes on when this returns, with or
 * without IBV_ADVISE_MR_FLAG_FLUSH. Parts before the one that is wrong have been served.
 */
int ffl_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		  struct ibv_sge *sg, uint32_t num_sge)
{
	if (!num_sge || !sg)
		return ffl_ret(-EINVAL);
	for (uint32_t i = 0; i < num_sge; i++) {
		int err = advise_sge(pd, advice, flags, &sg[i]);

		if (err)
			return ffl_ret(err);
	}
	return 0;
}
