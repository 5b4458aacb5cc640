/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * cq.c - handlers of completion queues and shared receive queues. Control thread.
 *
 * A ring's block starts with its header on a page of its own segment; the entries follow. Depths
 * are powers of two, so that what was asked for is rounded up and reported back.
 *
 * Tests: test_verbs.c, system/verbs_srq.c
 */
#include <errno.h>
#include <stdlib.h>

#include "ffr/ctl/obj.h"
#include "ffr/ctl/record.h"
#include "ffr/ctl/session.h"
#include "ffr/fast/xrc.h"
#include "ffr/lib/shm.h"

/* ---- CQs ----------------------------------------------------------------------------------- */

static uint64_t cq_block(uint32_t depth)
{
	return sizeof(struct ff_cq_hdr) + (uint64_t)depth * sizeof(struct ff_cqe);
}

static int cq_ring(struct ctl_call *c, uint32_t cqe, struct ff_ring_at *at, uint8_t **map,
		   bool sealed)
{
	int err;

	*at = (struct ff_ring_at){ .depth = pow2_ceil(cqe), .stride = sizeof(struct ff_cqe) };
	err = (sealed ? ctl_ring_alloc_sealed : ctl_ring_alloc)(c, cq_block(at->depth), at, map);
	at->ring_off = at->off + (uint32_t)sizeof(struct ff_cq_hdr);
	return err;
}

/* Its attributes and `at` are set. 0 or -errno: nobody knows it. */
static int cq_enter(struct session *s, struct cq *cq, uint8_t *map)
{
	int err;

	cq->hdr = (struct ff_cq_hdr *)map;
	cq->ring = (struct ff_cqe *)(map + sizeof(*cq->hdr));
	cq->depth = cq->cqe = cq->at.depth;
	fast_lock_thread(s->fast);
	err = ctl_obj_insert(s, OBJ_CQ, &cq->o);
	if (!err && cq->channel)
		cq->channel->o.refs++;
	fast_unlock_thread(s->fast);
	if (!err)
		record_obj(&cq->o);
	return err;
}

int ctl_create_cq(struct ctl_call *c, const struct ff_create_cq_req *req,
		  struct ff_create_cq_resp *resp)
{
	struct channel *ch = channel_get(c->s, req->channel);
	uint8_t *map;
	struct cq *cq;
	int err;

	if (!req->cqe || req->cqe > c->ctl->dev.max_cqe || (req->channel && !ch) ||
	    req->comp_vector >= c->ctl->dev.num_comp_vectors)
		return -EINVAL;
	if (req->flags & ~FF_CQ_TIMESTAMP)
		return -EOPNOTSUPP;
	cq = record_live_new(c->s, LEDGER_CQ, sizeof(*cq));
	if (!cq)
		return -ENOMEM;
	err = cq_ring(c, req->cqe, &cq->at, &map, false);
	if (err)
		goto err_free;
	cq->flags = req->flags;
	cq->channel = ch;
	err = cq_enter(c->s, cq, map);
	if (err)
		goto err_ring;
	resp->cq = cq->o.handle;
	resp->cqe = cq->cqe;
	resp->ring = cq->at;
	return 0;

err_ring:
	ctl_ring_free(c->s, &cq->at, cq_block(cq->at.depth));
err_free:
	record_live_free(c->s, &cq->o);
	return err;
}

/*
 * The last router was killed between the phase of a CQE and its index: the client sees the CQE. A client that writes
 * there itself has one CQE less.
 */
static void late_cqe(struct cq *cq)
{
	const struct ff_cqe *e = &cq->ring[cq->pi & (cq->depth - 1)];

	if (atomic_load_explicit(&e->phase, memory_order_acquire) !=
		    ff_cqe_phase(cq->pi, cq->depth) ||
	    cq->overrun || cq->pi - cq->ci_seen >= cq->depth)
		return;
	cq->late = shm_read(&e->qp);
	cq->late_recv = shm_read(&e->opcode) & FF_CQE_RECV;
	cq->pi++;
}

int cq_restore(struct ctl *ctl, struct session *s, const struct ledger_cq *r,
	       const struct ledger_view *v, uint32_t slot)
{
	uint64_t size = cq_block(r->depth);
	struct cq *cq;
	int err;

	if (!r->handle || !r->depth || r->depth > FF_MAX_CQE || r->depth & (r->depth - 1) ||
	    r->flags & ~FF_CQ_TIMESTAMP || r->mod_count > ctl->dev.max_cq_count ||
	    r->mod_period > ctl->dev.max_cq_period)
		return -EPROTO;
	cq = record_live_new(s, LEDGER_CQ, sizeof(*cq));
	if (!cq)
		return -ENOMEM;
	err = ring_restore(s, r->seg, r->off, (uint32_t)size);
	if (err)
		goto err_free;
	cq->at = (struct ff_ring_at){ .seg = r->seg,
				      .off = r->off,
				      .ring_off = r->off + (uint32_t)sizeof(struct ff_cq_hdr),
				      .depth = r->depth,
				      .stride = sizeof(struct ff_cqe) };
	cq->o.handle = r->handle;
	cq->flags = r->flags;
	cq->mod_count = (uint16_t)r->mod_count;
	cq->mod_period = (uint16_t)r->mod_period;
	cq->pi = cq->mod_pi = (uint32_t)ledger_cursor(v, slot, LEDGER_CUR_cq_pi);
	cq->ci_seen = (uint32_t)ledger_cursor(v, slot, LEDGER_CUR_cq_ci_seen);
	cq->overrun = ledger_cursor(v, slot, LEDGER_CUR_cq_overrun);
	cq->channel = channel_get(s, r->channel);
	err = -EPROTO;
	if (cq->pi - cq->ci_seen <= cq->at.depth && (!r->channel || cq->channel))
		err = cq_enter(s, cq, seg_get(s, r->seg)->map + r->off);
	if (!err) {
		late_cqe(cq);
		return 0;
	}
	ctl_ring_free(s, &cq->at, size);
err_free:
	record_live_free(s, &cq->o);
	return err;
}

int ctl_resize_cq(struct ctl_call *c, const struct ff_resize_cq_req *req,
		  struct ff_resize_cq_resp *resp)
{
	struct fast *f = c->s->fast;
	struct cq *cq = cq_get(c->s, req->cq);
	struct ff_ring_at at, old;
	struct cq_move move = { 0 };
	uint8_t *map;
	int err;

	if (!cq || !req->cqe || req->cqe > c->ctl->dev.max_cqe)
		return -EINVAL;
	err = cq_ring(c, req->cqe, &at, &map, true);
	if (err)
		return err;
	old = cq->at;
	move.hdr = (struct ff_cq_hdr *)map;
	move.ring = (struct ff_cqe *)(map + sizeof(struct ff_cq_hdr));
	move.depth = at.depth;
	/* The client's word for what it has consumed; a wrong one costs it completions only. */
	do {
		fast_lock_thread(f);
		err = fast_cq_move(cq, &move);
		fast_unlock_thread(f);
	} while (err == -EAGAIN);
	if (err) {
		ctl_ring_free(c->s, &at, cq_block(at.depth));
		return err;
	}
	ctl_ring_free(c->s, &old, cq_block(old.depth));
	cq->at = at;
	record_obj(&cq->o);
	resp->cqe = at.depth;
	resp->ring = at;
	return 0;
}

int ctl_modify_cq(struct ctl_call *c, const struct ff_modify_cq_req *req,
		  struct ff_modify_cq_resp *resp)
{
	struct cq *cq = cq_get(c->s, req->cq);

	(void)resp;
	if (!cq || req->count > c->ctl->dev.max_cq_count || req->period > c->ctl->dev.max_cq_period)
		return -EINVAL;
	fast_lock_thread(c->s->fast);
	fast_cq_moderate(c->s->fast, cq, req->count, req->period);
	fast_unlock_thread(c->s->fast);
	record_obj(&cq->o);
	return 0;
}

int ctl_repeat_event(struct ctl_call *c, const struct ff_repeat_event_req *req,
		     struct ff_repeat_event_resp *resp)
{
	struct cq *cq = cq_get(c->s, req->cq);
	int err;

	(void)resp;
	if (!cq || !cq->channel)
		return -EINVAL;
	fast_lock_thread(c->s->fast);
	err = fast_cq_event(c->s->fast, cq);
	fast_unlock_thread(c->s->fast);
	return err;
}

CTL_DESTROY(destroy_cq, cq_get, cq)

static void cq_forget(struct fast *f, struct obj *o)
{
	struct cq *cq = obj_of(o, cq);

	fast_cq_del(f, cq);
	if (cq->channel)
		cq->channel->o.refs--;
}

static void cq_free(struct obj *o)
{
	struct cq *cq = obj_of(o, cq);

	ctl_ring_free(o->ses, &cq->at, cq_block(cq->at.depth));
	record_live_free(o->ses, o);
}

const struct obj_ops cq_obj_ops = { .forget = cq_forget, .free = cq_free };

/* ---- SRQs ---------------------------------------------------------------------------------- */

static uint64_t srq_block(const struct ff_ring_at *at)
{
	return sizeof(struct ff_srq_hdr) + (uint64_t)at->depth * at->stride;
}

/* [lock] Its number, and its references to what it uses. */
static void srq_enter(struct srq *srq, uint32_t *last_srqn)
{
	srq->pd->o.refs++;
	if (!srq->xref) {
		srq->num = ++*last_srqn;
		return;
	}
	srq->xref->o.refs++;
	srq->cq->o.refs++;
	xrc_srq_add(srq, last_srqn);
}

/* Its ring is still to be placed. */
static void srq_size(struct srq *srq, uint32_t depth, uint32_t max_sge)
{
	srq->max_sge = max_sge;
	srq->depth = srq->max_wr = srq->at.depth = depth;
	srq->stride = srq->at.stride = ff_rqe_stride(max_sge);
}

static void srq_place(struct srq *srq, uint8_t *map)
{
	srq->at.ring_off = srq->at.off + (uint32_t)sizeof(struct ff_srq_hdr);
	srq->hdr = (struct ff_srq_hdr *)map;
	srq->ring = map + sizeof(*srq->hdr);
}

int ctl_create_srq(struct ctl_call *c, const struct ff_create_srq_req *req,
		   struct ff_create_srq_resp *resp)
{
	const struct ff_query_device_resp *dev = &c->ctl->dev;
	struct pd *pd = pd_get(c->s, req->pd);
	struct xrcd_ref *xref = xrcd_get(c->s, req->xrcd);
	struct cq *cq = cq_get(c->s, req->cq);
	struct srq *srq;
	uint8_t *map;
	int err;

	if (!pd || !req->max_wr || req->max_wr > dev->max_srq_wr ||
	    req->max_sge > dev->max_srq_sge || ((req->xrcd || req->cq) && (!xref || !cq)))
		return -EINVAL;
	srq = record_live_new(c->s, LEDGER_SRQ, sizeof(*srq));
	if (!srq)
		return -ENOMEM;
	srq->pd = pd;
	srq->xref = xref;
	srq->cq = cq;
	srq->user = req->user;
	srq_size(srq, pow2_ceil(req->max_wr), req->max_sge ? req->max_sge : 1);
	err = (xref ? ctl_ring_alloc_sealed : ctl_ring_alloc)(c, srq_block(&srq->at), &srq->at,
							      &map);
	if (err)
		goto err_free;
	srq_place(srq, map);

	fast_lock_thread(c->s->fast);
	err = ctl_obj_insert(c->s, OBJ_SRQ, &srq->o);
	if (!err && srq->o.handle & FF_CQE_OF_SRQ) {
		ctl_obj_remove(c->s, &srq->o);
		err = -ENOMEM; /* more SRQs than a CQE can name */
	}
	if (!err)
		srq_enter(srq, &c->ctl->last_srqn);
	fast_unlock_thread(c->s->fast);
	if (err)
		goto err_ring;
	record_obj(&srq->o);
	resp->srq = srq->o.handle;
	resp->max_wr = srq->max_wr;
	resp->max_sge = srq->max_sge;
	resp->srq_num = srq->num;
	resp->ring = srq->at;
	return 0;

err_ring:
	ctl_ring_free(c->s, &srq->at, srq_block(&srq->at));
err_free:
	record_live_free(c->s, &srq->o);
	return err;
}

/* Checked as far as it is not the client's own. */
static int srq_cursors(struct srq *srq, const struct ledger_view *v, uint32_t slot)
{
	srq->head = (uint32_t)ledger_cursor(v, slot, LEDGER_CUR_srq_head);
	srq->lost = (uint32_t)ledger_cursor(v, slot, LEDGER_CUR_srq_lost);
	srq->limit = (uint32_t)ledger_cursor(v, slot, LEDGER_CUR_srq_limit);
	srq->error = ledger_cursor(v, slot, LEDGER_CUR_srq_error);
	return srq->limit > srq->max_wr ? -EPROTO : 0;
}

int srq_restore(struct ctl *ctl, struct session *s, const struct ledger_srq *r,
		const struct ledger_view *v, uint32_t slot)
{
	struct pd *pd = pd_get(s, r->pd);
	struct srq *srq;
	uint64_t size;
	int err;

	if (!r->handle || r->handle & FF_CQE_OF_SRQ || !pd || !r->depth || r->depth > FF_MAX_WR ||
	    r->depth & (r->depth - 1) || !r->max_sge || r->max_sge > FF_MAX_SGE)
		return -EPROTO;
	srq = record_live_new(s, LEDGER_SRQ, sizeof(*srq));
	if (!srq)
		return -ENOMEM;
	srq->pd = pd;
	srq->user = r->user;
	srq->o.handle = r->handle;
	srq_size(srq, r->depth, r->max_sge);
	size = srq_block(&srq->at);
	err = ring_restore(s, r->seg, r->off, (uint32_t)size);
	if (err)
		goto err_free;
	srq->at.seg = r->seg;
	srq->at.off = r->off;
	srq_place(srq, seg_get(s, r->seg)->map + r->off);
	err = srq_cursors(srq, v, slot);
	if (err)
		goto err_ring;
	fast_lock(ctl->host);
	err = ctl_obj_insert(s, OBJ_SRQ, &srq->o);
	if (!err) {
		pd->o.refs++;
		srq->num = r->num;
		if (r->num > ctl->last_srqn)
			ctl->last_srqn = r->num;
	}
	fast_unlock(ctl->host);
	if (err)
		goto err_ring;
	record_obj(&srq->o);
	return 0;

err_ring:
	ctl_ring_free(s, &srq->at, size);
err_free:
	record_live_free(s, &srq->o);
	return err;
}

int ctl_modify_srq(struct ctl_call *c, const struct ff_modify_srq_req *req,
		   struct ff_modify_srq_resp *resp)
{
	struct srq *srq = srq_get(c->s, req->srq);

	(void)resp;
	if (!srq || req->mask & ~(uint32_t)(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return -EINVAL;
	if (req->mask & IBV_SRQ_MAX_WR) /* IBV_DEVICE_SRQ_RESIZE is not claimed */
		return -EOPNOTSUPP;
	if (!(req->mask & IBV_SRQ_LIMIT))
		return 0;
	if (req->srq_limit > srq->max_wr)
		return -EINVAL;
	fast_lock_thread(c->s->fast);
	fast_srq_arm(c->s->fast, srq, req->srq_limit);
	fast_unlock_thread(c->s->fast);
	return 0;
}

int ctl_query_srq(struct ctl_call *c, const struct ff_query_srq_req *req,
		  struct ff_query_srq_resp *resp)
{
	struct srq *srq = srq_get(c->s, req->srq);

	if (!srq)
		return -EINVAL;
	fast_lock_thread(c->s->fast);
	resp->srq_limit = srq->limit;
	fast_unlock_thread(c->s->fast);
	resp->max_wr = srq->max_wr;
	resp->max_sge = srq->max_sge;
	return 0;
}

CTL_DESTROY(destroy_srq, srq_get, srq)

static void srq_forget(struct fast *f, struct obj *o)
{
	struct srq *srq = obj_of(o, srq);

	srq->pd->o.refs--;
	if (!srq->xref)
		return;
	xrc_srq_del(f, srq);
	srq->xref->o.refs--;
	srq->cq->o.refs--;
}

static void srq_free(struct obj *o)
{
	struct srq *srq = obj_of(o, srq);

	CARRIERS_FIRST(end, o->ses->fast, OBJ_SRQ, o, NULL);
	ctl_ring_free(o->ses, &srq->at, srq_block(&srq->at));
	record_live_free(o->ses, o);
}

const struct obj_ops srq_obj_ops = { .forget = srq_forget, .free = srq_free };
