/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mr.c - handlers of memory regions. Control thread.
 *
 * Order: pages are mapped (shadow.c) before anybody can name the MR, keys and the backend's part
 * are made under the fast lock, and the orchestrator is told afterwards, without waiting. The end
 * is the reverse: after fast_mr_del() no runner reads or writes the pages, then they are unmapped.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ffr/ctl/obj.h"
#include "ffr/ctl/import.h"
#include "ffr/mem/dmabuf.h"
#include "ffr/mem/shadow.h"

#define ACCESS_SUPPORTED                                                                           \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |                   \
	 IBV_ACCESS_HUGETLB)

static int access_check(uint32_t access)
{
	if (access & IBV_ACCESS_ON_DEMAND)
		return -EOPNOTSUPP;
	if (access & ~ACCESS_SUPPORTED & ~IBV_ACCESS_OPTIONAL_RANGE)
		return -EINVAL;
	/* IBTA 11.2.8.2: who may write from afar may write locally. */
	if (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	return 0;
}

static int range_check(const struct ctl *ctl, uint64_t addr, uint64_t length, uint64_t iova)
{
	if (!length || length > ctl->dev.max_mr_size || addr + length < addr ||
	    iova + length < iova)
		return -EINVAL;
	return 0;
}

void ctl_mr_free(struct mr *mr)
{
	shadow_unmap(mr);
	dmabuf_unmap(mr);
	free(mr);
}

/* [lock] Make it nameable: keys and the backend's part. */
static int mr_enter(struct fast *f, struct mr *mr)
{
	int err = mr_key_new(mr->o.ses->cont, mr);

	if (err)
		return err;
	err = f->be->ops->mr_reg(f, mr);
	if (err)
		key_remove(&mr->o.ses->cont->keys, mr);
	return err;
}

int ctl_mr_add(struct ctl_call *c, struct mr *mr)
{
	struct fast *f = c->s->fast;
	int err = fast_keys_room(f, &c->s->cont->keys);

	if (err)
		return err;
	fast_lock(f);
	err = ctl_obj_insert(c->s, OBJ_MR, &mr->o);
	if (!err) {
		err = mr_enter(f, mr);
		if (err)
			ctl_obj_remove(c->s, &mr->o);
		else
			mr->pd->o.refs++;
	}
	fast_unlock(f);
	if (!err && c->ctl->orch)
		c->ctl->hooks->mr_added(c->ctl->orch, mr);
	return err;
}

int ctl_mr_done(struct ctl_call *c, struct mr *mr, int err)
{
	if (!err)
		err = ctl_mr_add(c, mr);
	if (err)
		ctl_mr_free(mr);
	return err;
}

int ctl_reg_mr(struct ctl_call *c, const struct ff_reg_mr_req *req, struct ff_reg_mr_resp *resp)
{
	struct pd *pd = pd_get(c->s, req->pd);
	struct mr *mr;
	int err;

	if (!pd || c->n_tail > FF_MR_MAX_RUNS ||
	    range_check(c->ctl, req->addr, req->length, req->iova))
		return -EINVAL;
	err = access_check(req->access);
	if (err)
		return err;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	mr->o.ses = c->s;
	mr->pd = pd;
	mr->access = req->access;
	mr->addr = req->addr;
	mr->length = req->length;
	mr->iova = req->iova;
	err = ctl_mr_done(c, mr, shadow_map(mr, c->tail, c->n_tail));
	if (err)
		return err;
	resp->mr = mr->o.handle;
	resp->lkey = mr->lkey;
	resp->rkey = mr->rkey;
	resp->zero_copy = mr->zero_copy;
	return 0;
}

int ctl_dereg_mr(struct ctl_call *c, const struct ff_dereg_mr_req *req,
		 struct ff_dereg_mr_resp *resp)
{
	struct session *s = req->imported ? import_source(c->s) : c->s;
	struct mr *mr = s ? mr_get(s, req->mr) : NULL;
	uint32_t published;
	int err;

	(void)resp;
	if (!mr)
		return -EINVAL;
	published = mr->kind != MR_NULL ? mr->rkey : 0;
	err = ctl_obj_destroy(&mr->o);
	if (!err && c->ctl->orch && published)
		c->ctl->hooks->rkey_gone(c->ctl->orch, c->s->cont->id, published);
	return err;
}

static void mr_forget(struct fast *f, struct obj *o)
{
	struct mr *mr = obj_of(o, mr);

	fast_mr_del(f, mr);
	mr->pd->o.refs--;
	if (mr->dm)
		mr->dm->o.refs--;
}

static void mr_free(struct obj *o)
{
	ctl_mr_free(obj_of(o, mr));
}

const struct obj_ops mr_obj_ops = { .forget = mr_forget, .free = mr_free };

/*
 * Prefetch. The router's own entries of the pages are made present here; the application's are the
 * library's to make, where resp->va says. Errors as with mlx5_ib, but for what is of no use there:
 * an MR need not have been registered for on-demand paging.
 */
int ctl_advise_mr(struct ctl_call *c, const struct ff_advise_mr_req *req,
		  struct ff_advise_mr_resp *resp)
{
	struct pd *pd = pd_get(c->s, req->pd);
	struct mr *mr = key_lookup(&c->s->cont->keys, req->lkey);
	bool write = req->advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	uint64_t off;

	if (req->advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return -EOPNOTSUPP;
	if (!pd || req->flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH)
		return -EINVAL;
	if (!mr || mr->o.ses != c->s)
		return -ENOENT;
	if (mr->pd != pd || (write && !(mr->access & IBV_ACCESS_LOCAL_WRITE)))
		return -EPERM;
	if (mr->kind != MR_USER)
		return -EINVAL;
	off = req->addr - mr->iova;
	if (off > mr->length || req->length > mr->length - off)
		return -EFAULT;
	resp->va = mr->addr + off;
	if (req->advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return 0;
	return shadow_prefetch(mr, mr->addr + off, req->length, write);
}

/*
 * Files of the application are mapped as the access asked for. An MR that is to be written to from
 * now on leaves those to pvm.c, which follows the application's own mapping.
 */
static int runs_writable(struct mr *new, const struct mr *old)
{
	uint64_t from, to, end = old->addr + old->length;

	new->run = calloc(old->num_runs + 1, sizeof(*new->run));
	if (!new->run)
		return -ENOMEM;
	new->num_runs = 0;
	new->zero_copy = 0;
	for (uint32_t i = 0; i < old->num_runs; i++) {
		const struct mr_run *run = &old->run[i];

		if (run->foreign)
			continue;
		new->run[new->num_runs++] = *run;
		from = run->va > old->addr ? run->va : old->addr;
		to = run->va + run->len < end ? run->va + run->len : end;
		new->zero_copy += to - from;
	}
	return 0;
}

#define REREG_ALL                                                                                  \
	(IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS)

/*
 * All or nothing. The MR keeps its handle and, as with other devices, the keys that programs have
 * told their peers. A translation that stays is mapped as it was.
 */
int ctl_rereg_mr(struct ctl_call *c, const struct ff_rereg_mr_req *req,
		 struct ff_rereg_mr_resp *resp)
{
	struct fast *f = c->s->fast;
	struct mr *mr = mr_get(c->s, req->mr), old, new;
	bool remap = req->flags & IBV_REREG_MR_CHANGE_TRANSLATION;
	uint64_t has, other;
	int err = 0;

	if (!mr || mr->kind != MR_USER || !req->flags || req->flags & ~REREG_ALL ||
	    c->n_tail > FF_MR_MAX_RUNS)
		return -EINVAL;
	fast_lock(f); /* windows come and go by WRs: mr->o.refs */
	old = new = *mr;
	fast_unlock(f);
	if (req->flags & IBV_REREG_MR_CHANGE_PD) {
		new.pd = pd_get(c->s, req->pd);
		if (!new.pd)
			return -EINVAL;
	}
	if (req->flags & IBV_REREG_MR_CHANGE_ACCESS) {
		err = access_check(req->access);
		if (err)
			return err;
		new.access = req->access;
	}
	if (remap) {
		if (range_check(c->ctl, req->addr, req->length, req->iova))
			return -EINVAL;
		new.addr = req->addr;
		new.length = req->length;
		new.iova = req->iova;
		new.run = NULL;
		new.num_runs = 0;
		new.zero_copy = 0;
		err = shadow_map(&new, c->tail, c->n_tail);
	} else if (!shadow_access_ok(&old, new.access)) {
		err = runs_writable(&new, &old);
	}
	if (!err && new.length > old.length) {
		err = quota_charge(c->s->cont, QUOTA_REGISTERED, new.length - old.length);
		if (err)
			shadow_unmap(&new);
	}
	if (err)
		return err;

	fast_lock(f);
	if (mr->o.refs) { /* a window may have been bound while it was mapped */
		err = -EBUSY;
		goto unlock;
	}
	old.o = new.o = mr->o;
	f->be->ops->mr_dereg(f, mr);
	*mr = new;
	err = f->be->ops->mr_reg(f, mr);
	if (!err) {
		old.pd->o.refs--;
		new.pd->o.refs++;
	} else {
		*mr = old;
		if (f->be->ops->mr_reg(f, mr)) /* it was registered a moment ago */
			f->session_bad(c->s, "an MR was lost");
	}
unlock:
	fast_unlock(f);
	if (new.run != old.run)
		shadow_unmap(err ? &new : &old);
	has = err ? old.length : new.length;
	other = err ? new.length : old.length; /* what is charged is the larger one */
	if (other > has)
		quota_return(c->s->cont, QUOTA_REGISTERED, other - has);
	if (err)
		return err;
	if (c->ctl->orch) {
		c->ctl->hooks->rkey_gone(c->ctl->orch, c->s->cont->id, old.rkey);
		c->ctl->hooks->mr_added(c->ctl->orch, mr);
	}
	resp->lkey = mr->lkey;
	resp->rkey = mr->rkey;
	resp->zero_copy = mr->zero_copy;
	return 0;
}
