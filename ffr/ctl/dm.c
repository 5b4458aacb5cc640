/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * dm.c - handlers of device memory, and of MRs that are not of the application's memory: device
 * memory, dma-bufs, nothing. Control thread. Neighbours: mr.c, dmabuf.c, seg.c.
 *
 * Device memory is memory of the router: pages of one segment for each session, which the client
 * maps for ibv_memcpy_to_dm and _from_dm. A container has so much of it (limits.max_dm_mb), no
 * matter which of its sessions takes it. MRs on it have addresses from 0, and one run, so that the
 * fast path sees nothing special in them.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "ffr/ctl/obj.h"
#include "ffr/mem/dmabuf.h"
#include "ffr/mem/shadow.h"

#define REMOTE_WRITES (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define ACCESS_DMABUF (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | REMOTE_WRITES)
#define ACCESS_DM     (ACCESS_DMABUF | IBV_ACCESS_ZERO_BASED)
#define LOG_PAGE      12u

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static uint64_t page_up(uint64_t n)
{
	return (n + FF_PAGE - 1) & ~(uint64_t)(FF_PAGE - 1);
}

int ctl_alloc_dm(struct ctl_call *c, const struct ff_alloc_dm_req *req,
		 struct ff_alloc_dm_resp *resp)
{
	struct container *cont = c->s->cont;
	uint64_t max = c->ctl->dev.max_dm_size, bytes;
	struct dm *dm;
	int err;

	if (!req->length || req->length > max || req->log_align > LOG_PAGE)
		return -EINVAL;
	bytes = page_up(req->length);
	if (bytes > max - cont->dm_bytes)
		return -ENOMEM;
	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return -ENOMEM;
	dm->length = req->length;
	err = quota_charge(cont, QUOTA_PINNED, bytes);
	if (err)
		goto err_free;
	err = dm_pages_alloc(c->s, bytes, max, &dm->seg, &dm->off);
	if (err)
		goto err_return;
	fast_lock_thread(c->s->fast);
	err = ctl_obj_insert(c->s, OBJ_DM, &dm->o);
	fast_unlock_thread(c->s->fast);
	if (err)
		goto err_pages;
	cont->dm_bytes += bytes;
	resp->dm = dm->o.handle;
	resp->seg = dm->seg;
	resp->off = dm->off;
	return 0;

err_pages:
	ring_free(c->s, dm->seg, dm->off, (uint32_t)bytes);
err_return:
	quota_return(cont, QUOTA_PINNED, bytes);
err_free:
	free(dm);
	return err;
}

static void dm_free(struct obj *o)
{
	struct dm *dm = obj_of(o, dm);
	struct session *s = o->ses;
	uint64_t bytes = page_up(dm->length);

	ring_free(s, dm->seg, dm->off, (uint32_t)bytes);
	s->cont->dm_bytes -= bytes;
	quota_return(s->cont, QUOTA_PINNED, bytes);
	free(dm);
}

const struct obj_ops dm_obj_ops = { .free = dm_free };

CTL_DESTROY(free_dm, dm_get, dm)

/* As the kernel's ib_check_mr_access(), with the bits that this kind of MR knows. */
static int access_check(uint32_t access, uint32_t known)
{
	if (access & ~known & ~(uint32_t)IBV_ACCESS_OPTIONAL_RANGE ||
	    (access & REMOTE_WRITES && !(access & IBV_ACCESS_LOCAL_WRITE)))
		return -EINVAL;
	return 0;
}

static struct mr *mr_new(struct ctl_call *c, struct pd *pd, enum mr_kind kind, uint32_t access)
{
	struct mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return NULL;
	mr->o.ses = c->s;
	mr->pd = pd;
	mr->kind = (uint8_t)kind;
	mr->access = access;
	return mr;
}

/* A part of length 0 is an MR to which only requests of length 0 fit. */
static int dm_run(struct mr *mr, const struct seg *seg, uint64_t off)
{
	if (!mr->length)
		return 0;
	mr->run = calloc(1, sizeof(*mr->run));
	if (!mr->run)
		return -ENOMEM;
	mr->run[0] = (struct mr_run){ .va = 0, .len = mr->length, .host = seg->map + off };
	mr->num_runs = 1;
	mr->zero_copy = mr->length;
	/* present before the fast path comes; if there is no memory, it finds that out */
	(void)madvise(seg->map + (off & ~(uint64_t)(FF_PAGE - 1)),
		      page_up((off & (FF_PAGE - 1)) + mr->length), MADV_POPULATE_WRITE);
	return 0;
}

int ctl_reg_dm_mr(struct ctl_call *c, const struct ff_reg_dm_mr_req *req,
		  struct ff_reg_dm_mr_resp *resp)
{
	struct pd *pd = pd_get(c->s, req->pd);
	struct dm *dm = dm_get(c->s, req->dm);
	struct mr *mr;
	int err;

	if (!pd || !dm || access_check(req->access, ACCESS_DM) || req->offset > dm->length ||
	    req->length > dm->length - req->offset)
		return -EINVAL;
	mr = mr_new(c, pd, MR_DM, req->access & ACCESS_DMABUF);
	if (!mr)
		return -ENOMEM;
	mr->length = req->length;
	err = ctl_mr_done(c, mr, dm_run(mr, seg_get(c->s, dm->seg), dm->off + req->offset));
	if (err)
		return err;
	mr->dm = dm;
	dm->o.refs++; /* the control thread's alone: no lock */
	MR_TELL(resp, mr);
	return 0;
}

int ctl_reg_dmabuf_mr(struct ctl_call *c, const struct ff_reg_dmabuf_mr_req *req,
		      struct ff_reg_dmabuf_mr_resp *resp)
{
	struct pd *pd = pd_get(c->s, req->pd);
	struct mr *mr;
	int err;

	if (!pd || access_check(req->access, ACCESS_DMABUF) || !req->length ||
	    req->iova + req->length < req->iova || (req->offset ^ req->iova) % FF_PAGE)
		return -EINVAL;
	mr = mr_new(c, pd, MR_DMABUF, req->access & ACCESS_DMABUF);
	if (!mr)
		return -ENOMEM;
	mr->length = req->length;
	mr->iova = req->iova;
	err = ctl_mr_done(c, mr, dmabuf_map(mr, c->fds[0], req->offset));
	if (err)
		return err;
	MR_TELL(resp, mr);
	return 0;
}

/* All addresses are its, and lead nowhere (soft/xfer.c). */
int ctl_alloc_null_mr(struct ctl_call *c, const struct ff_alloc_null_mr_req *req,
		      struct ff_alloc_null_mr_resp *resp)
{
	struct pd *pd = pd_get(c->s, req->pd);
	struct mr *mr;
	int err;

	if (!pd)
		return -EINVAL;
	mr = mr_new(c, pd, MR_NULL, IBV_ACCESS_LOCAL_WRITE);
	if (!mr)
		return -ENOMEM;
	mr->length = UINT64_MAX;
	err = ctl_mr_done(c, mr, 0);
	if (err)
		return err;
	resp->mr = mr->o.handle;
	resp->lkey = mr->lkey;
	return 0;
}
