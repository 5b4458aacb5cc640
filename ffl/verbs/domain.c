/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * domain.c - thread domains, and parent domains with the program's allocators. Any thread.
 * Neighbours: pd.c; cq.c, qp.c and srq.c take the memory of their queues from here.
 *
 * A parent domain is a PD with something added; whoever takes a PD takes it, too, and finds the
 * router's handle of its PD in it. What is added lives in this process only:
 *	a thread domain: queues made in the parent domain are for one thread at a time, no locks;
 *	allocators: what the library allocates for a QP, CQ or SRQ itself is theirs to give. The
 *	rings are not: they are shared with the router, which gives them.
 * A parent domain of a parent domain is one of the same PD; it inherits nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "ffl/session/ffl.h"

/* Newer than the headers that this is built with: memory need not be protected from the device. */
#define ALLOW_CC_UNPROTECTED_ALLOC (1u << 2)

struct ffl_td {
	struct ibv_td ibv;
	_Atomic uint32_t refs; /* parent domains */
};

struct ffl_domain {
	struct ffl_pd pd; /* what the program has */
	struct ffl_pd *base;
	struct ffl_td *td; /* or NULL */
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
		       uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type);
	void *pd_context;
};

static struct ffl_td *to_td(struct ibv_td *td)
{
	return container_of_(td, struct ffl_td, ibv);
}

/* ---- thread domains ------------------------------------------------------------------------- */

struct ibv_td *ffl_alloc_td(struct ibv_context *ctx, struct ibv_td_init_attr *attr)
{
	struct ffl_td *td;

	if (attr->comp_mask)
		return ffl_err_ptr(EINVAL);
	td = calloc(1, sizeof(*td));
	if (!td)
		return ffl_err_ptr(ENOMEM);
	td->ibv.context = ctx;
	return &td->ibv;
}

/* EBUSY while a parent domain has it. */
int ffl_dealloc_td(struct ibv_td *ibtd)
{
	struct ffl_td *td = to_td(ibtd);

	if (atomic_load(&td->refs))
		return ffl_ret(-EBUSY);
	free(td);
	return 0;
}

/* ---- parent domains ------------------------------------------------------------------------- */

struct ibv_pd *ffl_alloc_parent_domain(struct ibv_context *ctx,
				       struct ibv_parent_domain_init_attr *attr)
{
	const uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			       IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT | ALLOW_CC_UNPROTECTED_ALLOC;
	struct ffl_domain *d;

	if (!attr->pd || attr->pd->context != ctx || attr->comp_mask & ~known ||
	    (attr->td && attr->td->context != ctx))
		return ffl_err_ptr(EINVAL);
	d = calloc(1, sizeof(*d));
	if (!d)
		return ffl_err_ptr(ENOMEM);
	d->base = to_pd(attr->pd);
	if (d->base->domain)
		d->base = d->base->domain->base;
	atomic_fetch_add(&d->base->refs, 1);
	if (attr->td) {
		d->td = to_td(attr->td);
		atomic_fetch_add(&d->td->refs, 1);
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		d->alloc = attr->alloc;
		d->free = attr->free;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		d->pd_context = attr->pd_context;
	d->pd.ctx = d->base->ctx;
	d->pd.domain = d;
	d->pd.handle = d->base->handle;
	d->pd.ibv.context = ctx;
	d->pd.ibv.handle = d->base->ibv.handle;
	return &d->pd.ibv;
}

int ffl_domain_free(struct ffl_pd *pd)
{
	struct ffl_domain *d = pd->domain;

	if (atomic_load(&pd->refs))
		return ffl_ret(-EBUSY);
	atomic_fetch_sub(&d->base->refs, 1);
	if (d->td)
		atomic_fetch_sub(&d->td->refs, 1);
	free(d);
	return 0;
}

bool ffl_pd_single(struct ibv_pd *pd)
{
	return pd && to_pd(pd)->domain && to_pd(pd)->domain->td;
}

/* ---- memory of queues ----------------------------------------------------------------------- */

/* enum rdma_driver_id in the upper half (RDMA_DRIVER_UNKNOWN, 0), what it is in the lower one */
static uint64_t resource_type(enum ffl_res res)
{
	return res;
}

void *ffl_obj_alloc(struct ibv_pd *pd, size_t size, enum ffl_res res, struct ibv_pd **mem)
{
	const struct ffl_domain *d = pd ? to_pd(pd)->domain : NULL;
	void *obj = IBV_ALLOCATOR_USE_DEFAULT;

	size = (size + FF_CACHELINE - 1) & ~(size_t)(FF_CACHELINE - 1);
	if (d && d->alloc && d->free)
		obj = d->alloc(pd, d->pd_context, size, FF_CACHELINE, resource_type(res));
	*mem = pd;
	if (obj == IBV_ALLOCATOR_USE_DEFAULT) {
		*mem = NULL;
		obj = aligned_alloc(FF_CACHELINE, size);
	}
	if (!obj)
		return ffl_err_ptr(ENOMEM);
	if (*mem) /* until the allocator has it back */
		atomic_fetch_add(&to_pd(*mem)->refs, 1);
	if ((uintptr_t)obj % FF_CACHELINE) {
		ffl_obj_free(obj, res, *mem);
		return ffl_err_ptr(EINVAL);
	}
	return memset(obj, 0, size);
}

void ffl_obj_free(void *obj, enum ffl_res res, struct ibv_pd *mem)
{
	const struct ffl_domain *d;

	if (!mem) {
		free(obj);
		return;
	}
	d = to_pd(mem)->domain;
	d->free(mem, d->pd_context, obj, resource_type(res));
	atomic_fetch_sub(&to_pd(mem)->refs, 1);
}
