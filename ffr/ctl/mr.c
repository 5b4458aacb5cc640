/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mr.c - handlers of memory regions. Control thread.
 *
 * Order: pages are mapped (shadow.c), and the carrier's part is made, before anybody can name the MR. The keys are made
 * under the fast lock, and the orchestrator is told afterwards, without waiting. The end is the reverse: after
 * fast_mr_del() no runner reads or writes the pages, then they are unmapped.
 *
 * On-demand memory (IBV_ACCESS_ON_DEMAND) has no pages that the router knows of: nothing is mapped, and the range
 * may be anything, mapped by the process or not, or all of its address space.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ffr/abi/ff_verbs.h"
#include "ffr/ctl/obj.h"
#include "ffr/ctl/import.h"
#include "ffr/ctl/record.h"
#include "ffr/ctl/session.h"
#include "ffr/fast/mw.h"
#include "ffr/fast/pvm.h"
#include "ffr/mem/dmabuf.h"
#include "ffr/mem/track.h"
#include "ffr/mem/heat.h"
#include "ffr/mem/view.h"
#include "ffr/obj/mr_counts.h"
#include "ffr/mem/shadow.h"

#define ACCESS_SUPPORTED                                                                           \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |                   \
	 IBV_ACCESS_HUGETLB | IBV_ACCESS_ON_DEMAND | FF_ACCESS_FLUSH_GLOBAL)

static int access_check(const struct ctl_call *c, uint32_t access)
{
	if (access & FF_ACCESS_FLUSH_PERSISTENT ||
	    (access & IBV_ACCESS_ON_DEMAND && !(c->ctl->dev.odp_general & IBV_ODP_SUPPORT)))
		return -EOPNOTSUPP;
	if (access & ~ACCESS_SUPPORTED & ~IBV_ACCESS_OPTIONAL_RANGE)
		return -EINVAL;
	/* IBTA 11.2.8.2: who may write from afar may write locally. */
	if (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	return 0;
}

/* Implicit ODP: all of the address space, where it is. */
static bool is_implicit(uint64_t addr, uint64_t length, uint32_t access)
{
	return access & IBV_ACCESS_ON_DEMAND && !addr && length == UINT64_MAX;
}

/* The client's word. */
static uint8_t why_copied(uint32_t access)
{
	return FF_WHY_OF(access) < FF_WHY_NUM ? (uint8_t)FF_WHY_OF(access) : FF_WHY_OTHER;
}

static int range_check(const struct ctl *ctl, uint64_t addr, uint64_t length, uint64_t iova,
		       uint32_t access)
{
	if (is_implicit(addr, length, access))
		return iova || !(ctl->dev.odp_general & IBV_ODP_SUPPORT_IMPLICIT) ? -EINVAL : 0;
	if (!length || length > ctl->dev.max_mr_size || addr + length < addr ||
	    iova + length < iova)
		return -EINVAL;
	return 0;
}

/* Make the carrier's part of an MR whose pages are there. 0 or -errno. */
static int mr_make(struct mr *mr)
{
	return CARRIERS_FIRST(make, mr->o.ses->fast, OBJ_MR, &mr->o, NULL);
}

static void mr_break(struct mr *mr)
{
	CARRIERS_FIRST(end, mr->o.ses->fast, OBJ_MR, &mr->o, NULL);
}

void ctl_mr_free(struct mr *mr)
{
	mr_break(mr);
	view_unmap(mr);
	shadow_unmap(mr);
	dmabuf_unmap(mr);
	odp_put(mr->odp);
	track_put(mr->tracked);
	free(mr->heat);
	free(mr);
}

/* Where the bytes of an MR of the application's memory are: access and range are set. 0 or -errno. */
static int mr_map(struct ctl_call *c, struct mr *mr, bool track)
{
	int err;

	mr->run = NULL;
	mr->num_runs = 0;
	mr->zero_copy = 0;
	mr->view = NULL;
	mr->pages_object = 0;
	mr->paged = 0;
	mr->heat = NULL;
	mr->odp = NULL;
	mr->tracked = NULL;
	if (mr->access & IBV_ACCESS_ON_DEMAND) {
		if (c->n_tail || track)
			return -EINVAL;
		mr->odp = odp_new();
		if (!mr->odp)
			return -ENOMEM;
		view_map(mr);
		return 0;
	}
	err = track ? track_new(c->s, mr, &mr->tracked) : 0;
	if (!err)
		err = shadow_map(mr, c->tail, c->n_tail, c->found);
	if (err)
		return err;
	view_map(mr);
	if (!mr->view)
		mr->heat = heat_new(mr);
	return 0;
}

/* [lock] Give the MR its keys, so that WRs can name it. The MR has its handle already. */
static int mr_enter(struct mr *mr)
{
	int err = mr_key_new(mr->o.ses->cont, mr);

	if (mr->odp)
		mr->odp->mr = mr->o.handle;
	mr->stage = MR_USED;
	return err;
}

/* The MR's carrier part is made: add the MR to the session, and let everybody use it. */
static int mr_add_made(struct ctl_call *c, struct mr *mr)
{
	struct fast *f = c->s->fast;
	int err = fast_keys_room(f, &c->s->cont->keys);

	if (err)
		return err;
	fast_lock_thread(f);
	err = ctl_obj_insert(c->s, OBJ_MR, &mr->o);
	if (!err) {
		err = mr_enter(mr);
		if (err)
			ctl_obj_remove(c->s, &mr->o);
		else
			mr->pd->o.refs++;
	}
	fast_unlock_thread(f);
	if (err)
		return err;
	record_obj(&mr->o);
	if (c->ctl->orch)
		c->ctl->hooks->mr_added(c->ctl->orch, mr);
	return 0;
}

/* Where its bytes are: access and range are set. What is tracked is where its events say. */
static int mr_again(struct session *s, struct mr *mr, bool tracked)
{
	bool odp = mr->access & IBV_ACCESS_ON_DEMAND;

	if (odp && tracked)
		return -EPROTO;
	mr->odp = odp ? odp_new() : NULL;
	if (odp && !mr->odp)
		return -ENOMEM;
	view_map(mr);
	return tracked ? track_again(s, mr, &mr->tracked) : 0;
}

/* Its pages are the process's: what was mapped is copied from now on. The orchestrator is told of all MRs soon. */
int mr_restore(struct ctl *ctl, struct session *s, const struct ledger_mr *r)
{
	struct ctl_call c = { .ctl = ctl, .conn = s->conn, .s = s };
	struct mr *mr = calloc(1, sizeof(*mr));
	int err;

	if (!mr)
		return -ENOMEM;
	mr->o.handle = r->handle;
	mr->o.ses = s;
	mr->pd = pd_get(s, r->pd);
	mr->access = r->access;
	mr->why = why_copied(FF_ACCESS_WHY(r->why));
	mr->addr = r->addr;
	mr->length = r->length;
	mr->iova = r->iova;
	mr->lkey = mr->rkey = r->key;
	err = -EPROTO;
	if (r->handle && r->key && mr->pd && !access_check(&c, r->access) &&
	    !range_check(ctl, r->addr, r->length, r->iova, r->access))
		err = mr_again(s, mr, r->tracked);
	if (!err)
		err = mr_add_made(&c, mr);
	if (err)
		ctl_mr_free(mr);
	return err;
}

static void reg_tell(struct ctl_call *c, const struct mr *mr, struct ff_reg_mr_resp *resp)
{
	MR_TELL(resp, mr);
	resp->zero_copy = mr->zero_copy;
	resp->tracked = mr->tracked && track_is_known(c->s, mr->addr, mr->length);
}

/* A carrier is done with its part of the MR: the next stage follows, or the MR ends. resp: REG_MR's, or NULL. */
static int mr_go_on(struct ctl_call *c, struct mr *mr, int err, struct ff_reg_mr_resp *resp)
{
	if (mr->stage == MR_ENDING)
		return ctl_obj_destroy(&mr->o);
	if (!err)
		err = mr_add_made(c, mr);
	if (err)
		ctl_mr_free(mr);
	else if (resp)
		reg_tell(c, mr, resp);
	return err;
}

int ctl_mr_done(struct ctl_call *c, struct mr *mr, int err)
{
	return mr_go_on(c, mr, err ? err : mr_make(mr), NULL);
}

/* ---- what takes a carrier long ------------------------------------------------------------------ */

struct mr_later {
	struct ctl_later l;
	struct mr *mr;
};

static void hold_pd(struct mr *mr, uint32_t by)
{
	struct fast *f = mr->o.ses->fast;

	fast_lock_thread(f);
	mr->pd->o.refs += by;
	fast_unlock_thread(f);
}

static int mr_finish(struct ctl_call *c, struct ctl_later *l, int err, void *resp)
{
	struct mr *mr = ((struct mr_later *)l)->mr;

	free(l);
	hold_pd(mr, UINT32_MAX);
	return mr_go_on(c, mr, err, resp);
}

/*
 * A carrier makes its part of an MR that is mapped, or ends its part of one that has left, and that takes long. True:
 * it has begun, and mr_finish() follows.
 */
static bool mr_later(struct ctl_call *c, struct mr *mr)
{
	struct fast *f = c->s->fast;
	struct mr_later *later = carriers_make_objects(f) ? calloc(1, sizeof(*later)) : NULL;
	bool begun;

	if (!later)
		return false;
	later->l.finish = mr_finish;
	later->mr = mr;
	begun = mr->stage == MR_MAPPED ? CARRIERS_FIRST(make, f, OBJ_MR, &mr->o, &later->l.be) :
					 CARRIERS_FIRST(end, f, OBJ_MR, &mr->o, &later->l.be);
	if (!begun) {
		free(later);
		return false;
	}
	if (mr->stage == MR_LEFT)
		mr->stage = MR_ENDING;
	hold_pd(mr, 1);
	ctl_call_later(c, &later->l);
	return true;
}

CTL_SERVE(reg_mr)

int ctl_reg_mr(struct ctl_call *c, const struct ff_reg_mr_req *req, struct ff_reg_mr_resp *resp)
{
	struct pd *pd = pd_get(c->s, req->pd);
	struct mr *mr;
	int err;

	if (!pd || c->n_tail > FF_MR_MAX_RUNS ||
	    range_check(c->ctl, req->addr, req->length, req->iova, req->access))
		return -EINVAL;
	err = access_check(c, req->access & ~FF_ACCESS_TRACK);
	if (!err && !c->found)
		err = ctl_map_wait(c);
	if (err)
		return err;
	if (!(req->access & IBV_ACCESS_ON_DEMAND) &&
	    ctl_look(c, view_writes(req->access), serve_reg_mr, req, sizeof(*req)))
		return CTL_LATER;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	mr->o.ses = c->s;
	mr->pd = pd;
	mr->access = req->access & ~(FF_ACCESS_WHY_MASK | FF_ACCESS_TRACK);
	mr->why = why_copied(req->access);
	mr->addr = req->addr;
	mr->length = req->length;
	mr->iova = req->iova;
	err = mr_map(c, mr, req->access & FF_ACCESS_TRACK);
	if (!err && mr_later(c, mr))
		return CTL_LATER;
	return mr_go_on(c, mr, err ? err : mr_make(mr), resp);
}

/*
 * Nobody finds the MR any more, and no copy through the process is begun for it. 0; -EBUSY: windows are bound to
 * it; -EAGAIN: a copy is under way, as it may be for as long as the client's memory does not answer.
 */
static int mr_leave(struct ctl *ctl, struct mr *mr)
{
	struct fast *f = mr->o.ses->fast;
	bool first = mr->stage < MR_LEFT;
	int err = 0;

	fast_lock_thread(f);
	if (first && mr->o.refs) {
		err = -EBUSY;
	} else if (first) {
		fast_mr_del(mr);
		mr->stage = MR_LEFT;
		if (mr->kind == MR_USER)
			pvm_cancel(f, mr->o.ses, mr->addr, mr->length, &mr->left);
	}
	if (!err && !pvm_passed(mr->o.ses, &mr->left))
		err = -EAGAIN;
	fast_unlock_thread(f);
	if (first && err != -EBUSY && ctl->orch && mr->kind != MR_NULL)
		ctl->hooks->rkey_gone(ctl->orch, mr->o.ses->cont->id, mr->rkey);
	return err;
}

void ctl_mr_leave_all(struct ctl *ctl, struct session *s)
{
	for (unsigned i = 0; i < FF_LEAVING; i++) {
		_Atomic uint32_t *place = &s->hdr->leaving.mr[i];
		uint32_t h = atomic_load_explicit(place, memory_order_relaxed);
		struct mr *mr = h ? mr_handle_get(s, h) : NULL;

		if (!h)
			continue;
		/* its keys go before its handle leaves the place: no copy begins between the two */
		if (mr && mr->odp && mr_leave(ctl, mr) == -EAGAIN)
			continue;
		/* the client has taken it back: it makes the call */
		if (!atomic_compare_exchange_strong(place, &h, 0))
			continue;
		if (mr && mr->odp && mr->stage == MR_LEFT)
			ctl_obj_destroy(&mr->o);
	}
}

int ctl_dereg_mr(struct ctl_call *c, const struct ff_dereg_mr_req *req,
		 struct ff_dereg_mr_resp *resp)
{
	struct session *s = req->imported ? import_source(c->s, c->s->device) : c->s;
	struct mr *mr = s ? mr_handle_get(s, req->mr) : NULL;
	int err;

	(void)resp;
	if (!mr || mr->stage == MR_ENDING)
		return -EINVAL;
	err = mr_leave(c->ctl, mr);
	/* one of another session may end with that */
	if (!err && s == c->s && mr_later(c, mr))
		return CTL_LATER;
	return err ? err : ctl_obj_destroy(&mr->o);
}

static void mr_forget(struct fast *f, struct obj *o)
{
	struct mr *mr = obj_of(o, mr);

	if (mr->stage < MR_LEFT)
		fast_mr_del(mr);
	while (!mw_mr_gone(mr, WINDOWS_STEP)) { /* no further one can be bound: it has no key */
		fast_unlock_thread(f);
		fast_lock_thread(f);
	}
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
 * The client has had pages come: how many, and how long it took, is its own word, which decides nothing. Of more
 * pages than the part has, the part's are counted.
 */
static void odp_advised(struct ctl_call *c, struct odp *odp, const struct ff_advise_mr_req *req)
{
	uint32_t most = req->length / FF_PAGE + 2;

	fast_lock_thread(c->s->fast);
	odp_prefetched(odp, &c->s->stats, req->done_pages < most ? req->done_pages : most,
		       req->done_ns);
	fast_unlock_thread(c->s->fast);
}

static bool is_no_fault(const struct ff_advise_mr_req *req)
{
	return req->advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
}

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
	resp->on_demand = mr->odp != NULL;
	if (mr->odp) {
		if (req->done_pages)
			odp_advised(c, mr->odp, req);
		if (req->done_pages || is_no_fault(req))
			CARRIERS_DO(advise, c->s->fast, mr, req);
		return 0;
	}
	if (is_no_fault(req))
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

static uint64_t above(uint64_t n, uint64_t other)
{
	return n > other ? n - other : 0;
}

/* An MR is about to change: it is charged with the larger of both until one of them is gone. 0 or -ENOMEM. */
static int change_charge(struct container *c, const struct mr *new, const struct mr *old)
{
	uint64_t bytes = above(mr_pinned(new), mr_pinned(old));
	uint64_t num = above(mr_counts(new), mr_counts(old));
	int err = bytes ? quota_charge(c, QUOTA_REGISTERED, bytes) : 0;

	if (err)
		return err;
	err = num ? quota_charge(c, QUOTA_MR, num) : 0;
	if (err)
		quota_return(c, QUOTA_REGISTERED, bytes);
	return err;
}

static void change_return(struct container *c, const struct mr *gone, const struct mr *stays)
{
	quota_return(c, QUOTA_REGISTERED, above(mr_pinned(gone), mr_pinned(stays)));
	quota_return(c, QUOTA_MR, above(mr_counts(gone), mr_counts(stays)));
}

/* What the one has of its own, that the other, which stays, has not. */
static void translation_free(struct mr *gone, const struct mr *stays)
{
	if (gone->view != stays->view)
		view_unmap(gone);
	if (gone->run != stays->run)
		shadow_unmap(gone);
	if (gone->heat != stays->heat)
		free(gone->heat);
	if (gone->odp != stays->odp)
		odp_put(gone->odp);
	if (gone->tracked != stays->tracked)
		track_put(gone->tracked);
}

#define REREG_ALL                                                                                  \
	(IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS)

CTL_SERVE(rereg_mr)

/*
 * All or nothing. The MR keeps its handle and, as with other devices, the keys that programs have
 * told their peers, unless a NIC gives it others. A translation that stays is mapped as it was.
 */
int ctl_rereg_mr(struct ctl_call *c, const struct ff_rereg_mr_req *req,
		 struct ff_rereg_mr_resp *resp)
{
	struct fast *f = c->s->fast;
	struct mr *mr = mr_get(c->s, req->mr), old, new;
	bool remap = req->flags & IBV_REREG_MR_CHANGE_TRANSLATION;
	bool rekey;
	int err = 0;

	if (!mr || mr->kind != MR_USER || !req->flags || req->flags & ~REREG_ALL ||
	    c->n_tail > FF_MR_MAX_RUNS)
		return -EINVAL;
	fast_lock_thread(f); /* windows come and go by WRs: mr->o.refs */
	old = new = *mr;
	fast_unlock_thread(f);
	if (req->flags & IBV_REREG_MR_CHANGE_PD) {
		new.pd = pd_get(c->s, req->pd);
		if (!new.pd)
			return -EINVAL;
	}
	if (req->flags & IBV_REREG_MR_CHANGE_ACCESS) {
		err = access_check(c, req->access & ~FF_ACCESS_TRACK);
		if (err)
			return err;
		new.access = req->access & ~(FF_ACCESS_WHY_MASK | FF_ACCESS_TRACK);
	}
	if (!remap && (new.access ^ old.access) & IBV_ACCESS_ON_DEMAND)
		return -EINVAL; /* it is another translation */
	if (remap) {
		if (range_check(c->ctl, req->addr, req->length, req->iova, new.access))
			return -EINVAL;
		err = c->found ? 0 : ctl_map_wait(c);
		if (err)
			return err;
		if (!(new.access &IBV_ACCESS_ON_DEMAND) &&
		    ctl_look(c, view_writes(new.access), serve_rereg_mr, req, sizeof(*req)))
			return CTL_LATER;
		new.addr = req->addr;
		new.length = req->length;
		new.iova = req->iova;
		new.why = why_copied(req->access);
		err = mr_map(c, &new, req->access & FF_ACCESS_TRACK);
	} else {
		if (!shadow_access_ok(&old, new.access))
			err = runs_writable(&new, &old);
		if (!err && view_writes(new.access) && !view_writes(old.access))
			view_map(&new);
	}
	new.backend = NULL;
	new.pages_object = 0;
	new.paged = 0;
	if (!err && mr->backend) /* its keys were the NIC's, which has others for the new one */
		new.lkey = new.rkey = 0;
	err = err ? err : mr_make(&new);
	if (!err)
		err = change_charge(c->s->cont, &new, &old);
	if (err) {
		mr_break(&new);
		translation_free(&new, &old);
		return err;
	}
	rekey = new.lkey != old.lkey;

	fast_lock_thread(f);
	if (mr->o.refs) { /* a window may have been bound while it was mapped */
		err = -EBUSY;
		goto unlock;
	}
	old.o = new.o = mr->o;
	LIST_INIT(&old.windows); /* one may have been bound when it was copied */
	LIST_INIT(&new.windows);
	if (new.odp)
		new.odp->mr = mr->o.handle;
	if (rekey)
		key_remove(&c->s->cont->keys, mr);
	*mr = new;
	err = rekey ? mr_key_new(c->s->cont, mr) : 0;
	if (!err) {
		old.pd->o.refs--;
		new.pd->o.refs++;
	} else {
		if (rekey)
			key_remove(&c->s->cont->keys, mr);
		*mr = old;
		/* it was registered a moment ago */
		if (rekey && mr_key_new(c->s->cont, mr))
			f->host->session_bad(c->s, "an MR was lost");
	}
unlock:
	fast_unlock_thread(f);
	change_return(c->s->cont, err ? &new : &old, err ? &old : &new);
	mr_break(err ? &new : &old);
	translation_free(err ? &new : &old, err ? &old : &new);
	if (err)
		return err;
	record_obj(&mr->o);
	if (c->ctl->orch) {
		c->ctl->hooks->rkey_gone(c->ctl->orch, c->s->cont->id, old.rkey);
		c->ctl->hooks->mr_added(c->ctl->orch, mr);
	}
	resp->lkey = mr->lkey;
	resp->rkey = mr->rkey;
	resp->zero_copy = mr->zero_copy;
	return 0;
}

/* ---- memory that is mapped when it is used (hot.c) -------------------------------------------- */

int ctl_track(struct ctl_call *c, const struct ff_track_req *req, struct ff_track_resp *resp)
{
	int err;

	(void)req;
	(void)resp;
	if (c->s->mem.track)
		return -EBUSY;
	err = quota_charge(c->s->cont, QUOTA_FD, TRACK_FDS);
	if (err)
		return err;
	err = track_start(c->s, c->fds[0]);
	if (err)
		quota_return(c->s->cont, QUOTA_FD, TRACK_FDS);
	else
		record_track(c->s);
	return err;
}

int ctl_track_pages(struct ctl_call *c, const struct ff_track_pages_req *req,
		    struct ff_track_pages_resp *resp)
{
	int err = track_pages(c->s, req->op, req->va, req->len);

	(void)resp;
	record_session_changed(c->s);
	if (!err && (req->op == FF_TRACK_GET || req->op == FF_TRACK_CLOSE))
		ctl_reply_fd(c->reply, track_fd(c->s), false);
	return err;
}

/*
 * [lock] Copies that found these pages away wait for their next try, up to 10 ms (fast/pvm.c), and all later work of
 * their QPs waits with them. They begin anew, by a pointer. Those between the runs begin anew as well. n >= 1.
 */
static void end_waits(struct session *s, const struct ff_mr_run *run, uint32_t n)
{
	struct pvm_mark mark;

	pvm_cancel(s->fast, s, run->va, run[n - 1].va + run[n - 1].len - run->va, &mark);
}

/* Runners see either all of the further runs or none; the pages are the same that they copied before. */
int ctl_map_mr(struct ctl_call *c, const struct ff_map_mr_req *req, struct ff_map_mr_resp *resp)
{
	struct mr *mr = mr_get(c->s, req->mr), old, most, new;
	int err;

	if (!mr || mr->kind != MR_USER || c->n_tail > FF_MR_MAX_RUNS)
		return -EINVAL;
	if (mr->tracked && !track_is_settled(c->s))
		return -EAGAIN;
	fast_lock_thread(
		c->s->fast); /* only this thread changes runs, but windows count in mr->o */
	old = *mr;
	fast_unlock_thread(c->s->fast);
	most = old;
	most.num_runs += c->n_tail;
	err = change_charge(c->s->cont, &most, &old);
	if (err)
		return err;
	err = shadow_more(&old, c->tail, c->n_tail, &new);
	if (err) {
		change_return(c->s->cont, &most, &old);
		return err;
	}
	fast_lock_thread(c->s->fast);
	mr->run = new.run;
	mr->num_runs = new.num_runs;
	mr->zero_copy = new.zero_copy;
	end_waits(c->s, c->tail, c->n_tail);
	fast_unlock_thread(c->s->fast);
	if (req->open) {
		track_open(c->s);
		record_session_changed(c->s);
	}
	change_return(c->s->cont, &most, &new);
	free(old.run);
	resp->zero_copy = new.zero_copy;
	return 0;
}

/* ---- memory that is to be private again --------------------------------------------------------- */

/* Runners see either the runs as they were or those that stay; both reach the same pages so far. 0 or -errno. */
static int mr_drop(struct ctl_call *c, struct mr *mr, const struct ff_drop_runs_req *req)
{
	struct mr old, new;
	int err;

	fast_lock_thread(c->s->fast); /* windows count in mr->o */
	old = *mr;
	fast_unlock_thread(c->s->fast);
	err = shadow_less(&old, req, &new);
	if (err)
		return err;
	err = change_charge(c->s->cont, &new, &old);
	if (err) {
		shadow_unmap(&new);
		return err;
	}
	fast_lock_thread(c->s->fast);
	mr->run = new.run;
	mr->num_runs = new.num_runs;
	mr->zero_copy = new.zero_copy;
	fast_unlock_thread(c->s->fast);
	change_return(c->s->cont, &old, &new);
	shadow_unmap(&old);
	return 0;
}

/* MRs, and runs of MRs, that one call looks at. */
#define DROP_STEP 16384u

/*
 * What the client says of its memory decides only which of its own MRs are copied from and to. A NIC goes on having
 * what it was given.
 */
int ctl_drop_runs(struct ctl_call *c, const struct ff_drop_runs_req *req,
		  struct ff_drop_runs_resp *resp)
{
	const struct obj_table *mrs = &c->s->tab[OBJ_MR];
	uint32_t i, seen = 0;
	uint64_t end;
	int err = 0;

	if (!req->len || (req->va | req->len | req->off) % FF_PAGE ||
	    __builtin_add_overflow(req->va, req->len, &end) ||
	    __builtin_add_overflow(req->off, req->len, &end))
		return -EINVAL;
	for (i = req->from; !err && i < mrs->size && seen < DROP_STEP; i++) {
		struct mr *mr = obj_of(mrs->slot[i], mr);
		enum shadow_part part = mr ? shadow_find(mr, req) : SHADOW_NONE;

		seen += 1 + (mr ? mr->num_runs : 0);
		if (part == SHADOW_MOVED || (part == SHADOW_THERE && mr->backend))
			err = -EBUSY;
		else if (part == SHADOW_THERE && !req->check)
			err = mr_drop(c, mr, req);
	}
	resp->next = i < mrs->size ? i : 0;
	return err;
}
