/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * qp.c - handlers of queue pairs. Control thread.
 *
 * Which modifications are allowed is in qp_state.c, what they set going in fast/qp.c.
 *
 * Tests: test_verbs.c, system/verbs_srq.c
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ffr/ctl/obj.h"
#include "ffr/ctl/record.h"
#include "ffr/dir/dir.h"
#include "ffr/fast/internal.h"
#include "ffr/fast/mw.h"
#include "ffr/fast/xrc.h"
#include "ffr/lib/shm.h"
#include "ffr/remote/remote.h"

/* Header, SQ and RQ of a QP are one block; the parts begin on cache lines. */
struct qp_layout {
	uint32_t sq_depth, sq_stride, rq_depth, rq_stride;
	uint64_t sq, rq, size; /* offsets in the block, bytes of it */
};

static uint64_t line_ceil(uint64_t n)
{
	return (n + FF_CACHELINE - 1) & ~(uint64_t)(FF_CACHELINE - 1);
}

/* Depths and strides are set. */
static void qp_layout_place(struct qp_layout *l)
{
	l->sq = line_ceil(sizeof(struct ff_qp_hdr));
	l->rq = line_ceil(l->sq + (uint64_t)l->sq_depth * l->sq_stride);
	l->size = l->rq + (uint64_t)l->rq_depth * l->rq_stride;
}

static void qp_layout(struct qp_layout *l, const struct ff_qp_cap *cap, bool no_rq)
{
	l->sq_depth = pow2_ceil(cap->max_send_wr);
	l->sq_stride = ff_sqe_stride(cap->max_send_sge, cap->max_inline);
	l->rq_depth = no_rq ? 0 : pow2_ceil(cap->max_recv_wr);
	l->rq_stride = no_rq ? 0 : ff_rqe_stride(cap->max_recv_sge);
	qp_layout_place(l);
}

static int cap_check(const struct ff_query_device_resp *dev, const struct ff_qp_cap *cap,
		     bool no_rq)
{
	if (cap->max_send_wr > dev->max_qp_wr || cap->max_send_sge > dev->max_sge ||
	    cap->max_inline > dev->max_inline)
		return -EINVAL;
	if (!no_rq && (cap->max_recv_wr > dev->max_qp_wr || cap->max_recv_sge > dev->max_sge))
		return -EINVAL;
	return 0;
}

static void qp_set_rings(struct qp *qp, const struct qp_layout *l, const struct ff_ring_at *block,
			 uint8_t *map)
{
	qp->hdr = (struct ff_qp_hdr *)map;
	qp->sq.ring = map + l->sq;
	qp->sq.depth = l->sq_depth;
	qp->sq.stride = l->sq_stride;
	qp->sq_at = (struct ff_ring_at){
		.seg = block->seg,
		.off = block->off,
		.ring_off = block->off + (uint32_t)l->sq,
		.depth = l->sq_depth,
		.stride = l->sq_stride,
	};
	if (!l->rq_depth)
		return;
	qp->rq.ring = map + l->rq;
	qp->rq.depth = l->rq_depth;
	qp->rq.stride = l->rq_stride;
	qp->rq_at = (struct ff_ring_at){
		.seg = block->seg,
		.off = block->off,
		.ring_off = block->off + (uint32_t)l->rq,
		.depth = l->rq_depth,
		.stride = l->rq_stride,
	};
}

/* What the client gets: at least what it asked for, and whatever the rounding gives besides. */
static void cap_grant(struct qp *qp, const struct ff_qp_cap *cap, uint32_t max_inline)
{
	qp->max_send_wr = qp->sq.depth;
	qp->max_send_sge = cap->max_send_sge ? cap->max_send_sge : 1;
	qp->max_inline = qp->sq.stride - (uint32_t)offsetof(struct ff_sqe, inl);
	if (qp->max_inline > max_inline)
		qp->max_inline = max_inline;
	qp->max_recv_wr = qp->rq.depth;
	qp->max_recv_sge = !qp->rq.depth ? 0 : cap->max_recv_sge ? cap->max_recv_sge : 1;
	qp->attr.cap = (struct ff_qp_cap){
		.max_send_wr = qp->max_send_wr,
		.max_recv_wr = qp->max_recv_wr,
		.max_send_sge = qp->max_send_sge,
		.max_recv_sge = qp->max_recv_sge,
		.max_inline = qp->max_inline,
	};
}

/* [lock] The objects that it uses cannot go before it. */
static void qp_hold(struct qp *qp, int by)
{
	qp->pd->o.refs += (uint32_t)by;
	qp->scq->o.refs += (uint32_t)by;
	if (qp->rcq)
		qp->rcq->o.refs += (uint32_t)by;
	if (qp->srq)
		qp->srq->o.refs += (uint32_t)by;
}

/* What a connection to another host may take of the heap is charged in advance: fast threads cannot charge it. */
static uint64_t wire_bytes(const struct qp *qp)
{
	return qp->o.ses->fast->host->wired ? remote_bytes(qp) : 0;
}

/* Datagrams of other hosts come to the first thread. */
static int qp_place(const struct qp *qp)
{
	const struct session *s = qp->o.ses;

	return qp->type == IBV_QPT_UD && s->fast->host->wired ? fast_need_first(s->cont) : 0;
}

/* 0 or -errno: nobody knows it. */
static int qp_enter(struct session *s, struct qp *qp)
{
	struct fast *f = s->fast;
	int err;

	fast_lock(f->host);
	err = ctl_obj_insert(s, OBJ_QP, &qp->o);
	if (!err) {
		err = fast_qp_add(f, qp);
		if (err)
			ctl_obj_remove(s, &qp->o);
		else
			qp_hold(qp, 1);
	}
	fast_unlock(f->host);
	return err;
}

int ctl_create_qp(struct ctl_call *c, const struct ff_create_qp_req *req,
		  struct ff_create_qp_resp *resp)
{
	struct session *s = c->s;
	struct fast *f;
	struct ff_qp_cap cap = req->cap;
	struct ff_ring_at block = { 0 };
	bool no_recv = req->qp_type == IBV_QPT_XRC_SEND;
	struct qp_layout l;
	struct qp *qp;
	uint8_t *map;
	int err;

	if (req->qp_type == IBV_QPT_XRC_RECV)
		return ctl_create_xrc_recv(c, req, resp);
	if (req->qp_type != IBV_QPT_RC && req->qp_type != IBV_QPT_UC &&
	    req->qp_type != IBV_QPT_UD && req->qp_type != IBV_QPT_XRC_SEND)
		return -EOPNOTSUPP;
	if (req->xrcd || (no_recv && (req->recv_cq || req->srq)))
		return -EINVAL;
	if (req->create_flags & ~(uint32_t)IBV_QP_CREATE_BLOCK_SELF_MCAST_LB)
		return -EOPNOTSUPP;
	if (req->create_flags && req->qp_type != IBV_QPT_UD)
		return -EINVAL;
	if (cap_check(&c->ctl->dev, &cap, req->srq || no_recv))
		return -EINVAL;
	qp = record_live_new(s, LEDGER_QP, sizeof(*qp));
	if (!qp)
		return -ENOMEM;
	err = -EINVAL;
	qp->pd = pd_get(s, req->pd);
	qp->scq = cq_get(s, req->send_cq);
	qp->rcq = cq_get(s, req->recv_cq);
	qp->srq = srq_get(s, req->srq);
	if (!qp->pd || !qp->scq || (!qp->rcq && !no_recv) || (req->srq && !qp->srq))
		goto err_free;
	qp->type = (uint8_t)req->qp_type;
	qp->user = req->user;
	qp->sig_all = req->sq_sig_all != 0;
	qp->block_self_lb = req->create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	err = -ENOMEM;
	qp->wr = send_buf_new();
	if (!qp->wr)
		goto err_free;
	qp_layout(&l, &cap, qp->srq || no_recv);
	err = ctl_ring_alloc(c, l.size, &block, &map);
	if (err)
		goto err_free;
	qp_set_rings(qp, &l, &block, map);
	cap_grant(qp, &cap, c->ctl->dev.max_inline);
	qp->o.ses = s;
	record_recv_new(qp);
	err = quota_charge(s->cont, QUOTA_MEMORY, wire_bytes(qp));
	if (err)
		goto err_ring;

	err = qp_place(qp);
	if (err)
		goto err_wire;
	f = s->fast;
	err = fast_qpns_room(f->host);
	if (!err)
		err = CARRIERS_FIRST(make, f, OBJ_QP, &qp->o, NULL);
	if (err)
		goto err_wire;
	err = qp_enter(s, qp);
	if (err)
		goto err_made;
	record_obj(&qp->o);
	resp->qp = qp->o.handle;
	resp->qp_num = qp->qp_num;
	resp->cap = qp->attr.cap;
	resp->sq = qp->sq_at;
	resp->rq = qp->rq_at;
	return 0;

err_made:
	CARRIERS_FIRST(end, f, OBJ_QP, &qp->o, NULL);
err_wire:
	quota_return(s->cont, QUOTA_MEMORY, wire_bytes(qp));
err_ring:
	record_recv_free(qp);
	ctl_ring_free(c->s, &block, l.size);
err_free:
	free(qp->wr);
	record_live_free(s, &qp->o);
	return err;
}

/* [lock] The modification is allowed. */
static void qp_modify(struct fast *f, struct qp *qp, uint32_t mask,
		      const struct ff_modify_qp_req *step, enum ibv_qp_state next)
{
	if (next == IBV_QPS_RESET) {
		fast_qp_reset(f, qp, step->sq_tail, step->rq_tail);
		qp->attr = (struct ff_qp_attr){ .cap = qp->attr.cap };
		qp->attr_set = 0;
		return;
	}
	qp_attr_store(&qp->attr, mask, &step->attr);
	qp->attr_set |= mask;
	if (next == IBV_QPS_ERR)
		fast_qp_last_turn(f, qp);
	fast_qp_set_state(f, qp, next);
}

/* Are the steps allowed from that state on? *next: after each of them. */
static int walk_check(const struct qp *qp, enum ibv_qp_state state, const struct qp_limits *lim,
		      const struct ff_modify_qp_req *step, unsigned n,
		      enum ibv_qp_state next[CTL_QP_STEPS])
{
	int err = 0;

	for (unsigned i = 0; i < n && !err; i++) {
		uint32_t mask = qp_attr_mask(qp->type, step[i].mask);

		err = qp_state_check(qp->type, state, mask, &step[i].attr, lim, &next[i]);
		state = next[i];
	}
	return err;
}

/* No lock: the carrier's part of the change, which may take long, comes first. */
static int walk_prepare(struct qp *qp, const struct qp_limits *lim,
			const struct ff_modify_qp_req *step, unsigned n)
{
	struct fast *f = qp->o.ses->fast;
	enum ibv_qp_state state, next[CTL_QP_STEPS];
	struct ff_qp_attr attr;
	int err;

	if (!carriers_make_objects(f))
		return 0;
	fast_lock_thread(f);
	state = qp->state;
	attr = qp->attr;
	fast_unlock_thread(f);
	err = walk_check(qp, state, lim, step, n, next);
	for (unsigned i = 0; i < n && !err; i++) {
		qp_attr_store(&attr, qp_attr_mask(qp->type, step[i].mask), &step[i].attr);
		err = CARRIERS_FIRST(prepare, f, qp, &attr, state, next[i]);
		state = next[i];
	}
	return err;
}

int ctl_qp_walk(const struct ctl *ctl, struct qp *qp, const struct ff_modify_qp_req *step,
		unsigned n, uint32_t *now)
{
	struct qp_limits lim = ctl_qp_limits(ctl, qp->o.ses->cont);
	enum ibv_qp_state next[CTL_QP_STEPS];
	struct fast *f;
	int err;

	for (unsigned i = 0; i < n; i++)
		if (step[i].mask & IBV_QP_AV)
			dir_meet(qp->o.ses->cont, &step[i].attr.ah);
	f = qp->o.ses->fast;
	err = walk_prepare(qp, &lim, step, n);
	if (err)
		return err;
	fast_lock(f->host);
	err = walk_check(qp, qp->state, &lim, step, n, next);
	for (unsigned i = 0; i < n && !err; i++)
		qp_modify(f, qp, qp_attr_mask(qp->type, step[i].mask), &step[i], next[i]);
	*now = qp->state;
	fast_unlock(f->host);
	record_obj(&qp->o);
	CARRIERS_DO(work, f, false);
	return err;
}

/* Of a client's to those that the router keeps, or back. */
static void sgid_indices(const struct session *s, uint32_t mask, struct ff_qp_attr *a)
{
	if (mask & IBV_QP_AV)
		a->ah.sgid_index = ctl_sgid_index(s, a->ah.sgid_index);
	if (mask & IBV_QP_ALT_PATH)
		a->alt_ah.sgid_index = ctl_sgid_index(s, a->alt_ah.sgid_index);
}

int ctl_modify_qp(struct ctl_call *c, const struct ff_modify_qp_req *req,
		  struct ff_modify_qp_resp *resp)
{
	struct qp *qp = qp_get(c->s, req->qp);
	struct ff_modify_qp_req step = *req;

	sgid_indices(c->s, step.mask, &step.attr);
	return qp ? ctl_qp_walk(c->ctl, qp, &step, 1, &resp->qp_state) : -EINVAL;
}

int ctl_query_qp(struct ctl_call *c, const struct ff_query_qp_req *req,
		 struct ff_query_qp_resp *resp)
{
	struct qp *qp = qp_get(c->s, req->qp);

	if (!qp)
		return -EINVAL;
	fast_lock_thread(c->s->fast);
	resp->attr = qp->attr;
	resp->attr.qp_state = resp->attr.cur_qp_state = qp->state;
	resp->attr.sq_draining = qp->state == IBV_QPS_SQD && qp->draining;
	sgid_indices(c->s, qp->attr_set, &resp->attr);
	fast_unlock_thread(c->s->fast);
	resp->sq_sig_all = qp->sig_all;
	return 0;
}

/*
 * [lock], which is given up on the way: the windows of a QP that goes, some at a time, for there may be
 * 65,535 of them. While it is there it can bind others, so there is an end.
 */
static void windows_go(struct fast *f, struct qp *qp)
{
	for (uint32_t i = 0; i < 65536 / WINDOWS_STEP && !mw_qp_gone(qp, WINDOWS_STEP); i++) {
		fast_unlock(f->host);
		fast_lock(f->host);
	}
}

static void qp_forget(struct fast *f, struct obj *o)
{
	struct qp *qp = obj_of(o, qp);

	if (qp->xrc.target) {
		ctl_forget_xrc_recv(f, qp);
		return;
	}
	windows_go(f, qp);
	fast_qp_del(f, qp);
	qp_hold(qp, -1);
}

/* Bytes of its block. */
static uint64_t qp_size(const struct qp *qp)
{
	const uint8_t *end = qp->rq.depth ? qp->rq.ring + (size_t)qp->rq.depth * qp->rq.stride :
					    qp->sq.ring + (size_t)qp->sq.depth * qp->sq.stride;

	return (uint64_t)(end - (uint8_t *)qp->hdr);
}

static void qp_free(struct obj *o)
{
	struct qp *qp = obj_of(o, qp);

	if (qp->hdr) { /* of an XRC_RECV QP there are none here */
		quota_return(o->ses->cont, QUOTA_MEMORY, wire_bytes(qp));
		ctl_ring_free(o->ses, &qp->sq_at, qp_size(qp));
	}
	CARRIERS_FIRST(end, o->ses->fast, OBJ_QP, o, NULL);
	xrc_target_free(qp->xrc.target);
	free(qp->wr);
	record_recv_free(qp);
	record_live_free(o->ses, o);
}

const struct obj_ops qp_obj_ops = { .forget = qp_forget, .free = qp_free };

int ctl_destroy_qp(struct ctl_call *c, const struct ff_destroy_qp_req *req,
		   struct ff_destroy_qp_resp *resp)
{
	struct qp *qp = qp_handle_get(c->s, req->qp);
	int err = qp ? ctl_obj_destroy(&qp->o) : -EINVAL;

	(void)resp;
	return err ? err : ctl_after_copies(c);
}

/* ---- QPs that a former router has left --------------------------------------------------------- */

static bool is_depth(uint32_t n)
{
	return n && n <= FF_MAX_WR && !(n & (n - 1));
}

#define STRIDES (1u << 16)

/* The record's capabilities and strides fit together, and are no more than a QP can have. */
static bool send_caps_ok(const struct ff_qp_cap *cap, const struct ledger_qp *r)
{
	return is_depth(cap->max_send_wr) && cap->max_send_sge && cap->max_send_sge <= FF_MAX_SGE &&
	       cap->max_inline <= FF_MAX_INLINE && r->sq_stride < STRIDES &&
	       !(r->sq_stride % FF_CACHELINE) &&
	       r->sq_stride >= ff_sqe_stride(cap->max_send_sge, cap->max_inline);
}

/* With an SRQ it has no receives of its own. */
static bool recv_caps_ok(const struct ff_qp_cap *cap, const struct ledger_qp *r)
{
	if (r->srq)
		return !cap->max_recv_wr && !cap->max_recv_sge && !r->rq_stride;
	return is_depth(cap->max_recv_wr) && cap->max_recv_sge && cap->max_recv_sge <= FF_MAX_SGE &&
	       r->rq_stride < STRIDES && !(r->rq_stride % 32) &&
	       r->rq_stride >= offsetof(struct ff_rqe, sge) +
				       (uint64_t)cap->max_recv_sge * sizeof(struct ff_sge);
}

/*
 * A receive that was taken for a message that did not come, or not all of it, is taken once more. One that was taken
 * from an SRQ is in the ledger: recv_restore().
 */
static void cursors_restore(struct qp *qp, const struct ledger_view *v, uint32_t slot)
{
	uint32_t taken = (uint32_t)ledger_cursor(v, slot, LEDGER_CUR_rq_head);
	bool is_late = qp->rcq->late == qp->o.handle && qp->rcq->late_recv;

	qp->sq.head = (uint32_t)ledger_cursor(v, slot, LEDGER_CUR_sq_head);
	qp->sq.cqes = (uint32_t)ledger_cursor(v, slot, LEDGER_CUR_sq_cqes);
	qp->rq.done = (uint32_t)ledger_cursor(v, slot, LEDGER_CUR_rq_done);
	if (is_late)
		qp->rq.done = qp->srq ? qp->rq.done + 1 : taken;
	qp->rq.head = qp->rq.done;
	qp->srq_took = ledger_cursor(v, slot, LEDGER_CUR_srq_took);
	qp->atom = (struct qp_atom){
		.at = ledger_cursor(v, slot, LEDGER_CUR_atom_at),
		.old = ledger_cursor(v, slot, LEDGER_CUR_atom_old),
		.new = ledger_cursor(v, slot, LEDGER_CUR_atom_new),
		.va = ledger_cursor(v, slot, LEDGER_CUR_atom_va),
		.ses = (uint32_t)ledger_cursor(v, slot, LEDGER_CUR_atom_ses),
		.key = (uint32_t)ledger_cursor(v, slot, LEDGER_CUR_atom_key),
	};
	qp->last_wqe_sent = ledger_cursor(v, slot, LEDGER_CUR_last_wqe_sent);
	qp->comm_est_sent = ledger_cursor(v, slot, LEDGER_CUR_comm_est_sent);
}

/* What qp->srq_took says: has the QP taken a receive that has not ended? */
static bool has_taken(const struct qp *qp)
{
	return qp->srq && qp->srq_took >> 32 == (uint64_t)(uint32_t)(qp->rq.done + 1);
}

/* qp->kept is the receive, or -EPROTO. */
static int kept_read(struct qp *qp, const struct ledger_view *v, uint32_t slot)
{
	struct recv_wr *r = qp->kept;

	r->wr_id = ledger_cursor(v, slot, LEDGER_CUR_recv_wr_id);
	r->num_sge = (uint32_t)ledger_cursor(v, slot, LEDGER_CUR_recv_num_sge);
	r->length = 0;
	if (r->num_sge > qp->srq->max_sge ||
	    !ledger_bytes(v, slot, offsetof(struct recv_wr, sge), r->sge,
			  r->num_sge * (uint32_t)sizeof(*r->sge)))
		return -EPROTO;
	for (uint32_t i = 0; i < r->num_sge; i++)
		r->length += r->sge[i].length;
	return 0;
}

/* [lock] The last router may have been killed before it moved the SRQ's index: then no other QP has taken one since. */
static int taken_restore(struct qp *qp, const struct ledger_view *v, uint32_t slot)
{
	int err;

	if (!has_taken(qp))
		return 0;
	err = qp->kept ? kept_read(qp, v, slot) : -EPROTO;
	if (err)
		return err;
	if (qp->srq->head == (uint32_t)qp->srq_took)
		qp->srq->head++;
	responder_had(qp);
	return 0;
}

int recv_restore(struct session *s, const struct ledger_recv *r, const struct ledger_view *v,
		 uint32_t slot)
{
	struct qp *qp = qp_get(s, r->qp);
	int err;

	if (!qp || !qp->srq)
		return -EPROTO;
	fast_lock(s->fast->host);
	err = taken_restore(qp, v, slot);
	fast_unlock(s->fast->host);
	return err;
}

int qp_restore(struct ctl *ctl, struct session *s, const struct ledger_qp *r,
	       const struct ledger_view *v, uint32_t slot)
{
	struct ff_ring_at block = { .seg = r->seg, .off = r->off };
	struct ff_qp_attr attr;
	struct qp_layout l;
	struct qp *qp;
	int err = -EPROTO;

	memcpy(&attr, r->attr, sizeof(attr));
	if (!r->handle || !r->qp_num || !send_caps_ok(&attr.cap, r) ||
	    !recv_caps_ok(&attr.cap, r) ||
	    (r->type != IBV_QPT_RC && r->type != IBV_QPT_UC && r->type != IBV_QPT_UD))
		return -EPROTO;
	qp = record_live_new(s, LEDGER_QP, sizeof(*qp));
	if (!qp)
		return -ENOMEM;
	qp->pd = pd_get(s, r->pd);
	qp->scq = cq_get(s, r->scq);
	qp->rcq = cq_get(s, r->rcq);
	qp->srq = srq_get(s, r->srq);
	if (!qp->pd || !qp->scq || !qp->rcq || (r->srq && !qp->srq))
		goto err_free;
	qp->type = (uint8_t)r->type;
	qp->user = r->user;
	qp->sig_all = r->sig_all;
	qp->block_self_lb = r->block_self_lb;
	qp->qp_num = r->qp_num;
	qp->o.handle = r->handle;
	qp->o.ses = s;
	err = -ENOMEM;
	qp->wr = send_buf_new();
	if (!qp->wr)
		goto err_free;
	l = (struct qp_layout){ .sq_depth = attr.cap.max_send_wr,
				.sq_stride = r->sq_stride,
				.rq_depth = attr.cap.max_recv_wr,
				.rq_stride = r->rq_stride };
	qp_layout_place(&l);
	err = l.size > UINT32_MAX ? -EPROTO : ring_restore(s, r->seg, r->off, (uint32_t)l.size);
	if (err)
		goto err_free;
	qp_set_rings(qp, &l, &block, seg_get(s, r->seg)->map + r->off);
	qp->attr.cap = attr.cap;
	qp->attr.ah = attr.ah; /* qp_atom_settle() needs it before there is a state */
	qp->max_send_wr = attr.cap.max_send_wr;
	qp->max_recv_wr = attr.cap.max_recv_wr;
	qp->max_send_sge = attr.cap.max_send_sge;
	qp->max_recv_sge = attr.cap.max_recv_sge;
	qp->max_inline = attr.cap.max_inline;
	record_recv_new(qp);
	err = quota_charge(s->cont, QUOTA_MEMORY, wire_bytes(qp));
	if (err)
		goto err_ring;
	err = qp_place(qp);
	if (!err)
		err = fast_qpns_room(ctl->host);
	if (!err) {
		fast_lock(ctl->host);
		qpn_make_room(&ctl->host->qps, qp->num_of, qp->qp_num);
		fast_unlock(ctl->host);
		err = qp_enter(s, qp);
	}
	if (err)
		goto err_wire;
	fast_lock(ctl->host);
	cursors_restore(qp, v, slot);
	fast_unlock(ctl->host);
	record_obj(&qp->o);
	return 0;

err_wire:
	quota_return(s->cont, QUOTA_MEMORY, wire_bytes(qp));
err_ring:
	record_recv_free(qp);
	ctl_ring_free(s, &block, l.size);
err_free:
	free(qp->wr);
	record_live_free(s, &qp->o);
	return err;
}

/* The state of the WR that the last router was carrying out, and so what this router does with it. */
enum left_wr {
	LEFT_NONE,   /* there was none, or the client has its completion */
	LEFT_AGAIN,  /* nobody knows of it, and it can be carried out again, from its beginning */
	LEFT_TELL,   /* it was carried out, and lacks its completion */
	LEFT_UNKNOWN /* it may have been carried out, and nobody can tell */
};

/* Has the peer completed the receive of a message that was about to be? */
static bool is_delivered(const struct ctl *ctl, const struct qp *qp, uint64_t took, uint32_t dest)
{
	const struct qp *peer = qp_by_num(&ctl->host->qps, qp->num_of, dest);

	return took >> 32 == qp->sq.head && peer && peer->rq.done != (uint32_t)took;
}

/*
 * The stores of a WR, in this order: sq.head; busy; qp->took; the peer's CQE, its rq.done, its CQ's index; what the
 * client is told (sq_done, with sq.cqes); the CQE's phase; busy; the CQ's index. One that is not signalled has no CQE,
 * and is told of later. Only one WR of a fast thread is there at a time. The SQE and sq_done are the client's to
 * change: then it has another WR carried out, or told, than it had posted.
 */
static enum left_wr left_wr(const struct ctl *ctl, struct qp *qp, const struct ff_qp_attr *attr,
			    const struct ledger_view *v, uint32_t slot)
{
	uint64_t told = atomic_load_explicit(&qp->hdr->sq_done, memory_order_relaxed);
	const struct ff_sqe *e = qp_sqe(qp, qp->sq.head - 1);
	bool is_told = (uint32_t)told == qp->sq.head;
	bool busy = ledger_cursor(v, slot, LEDGER_CUR_busy);

	if (!busy && is_told)
		return LEFT_NONE;
	qp->sq.cqes = (uint32_t)(told >> 32);
	if (is_told && qp->scq->late == qp->o.handle && !qp->scq->late_recv)
		return LEFT_NONE;
	if (!qp_sqe_ready(qp, qp->sq.head - 1))
		return LEFT_UNKNOWN;
	if (is_told) {
		qp->sq.cqes--; /* it is counted when it is told */
		return LEFT_TELL;
	}
	if (!busy && (qp->sig_all || shm_read(&e->flags) & FF_SQE_SIGNALED))
		return LEFT_AGAIN;  /* it was not begun */
	if (qp->type == IBV_QPT_UD) /* a datagram may be lost, but does not come twice */
		return busy ? LEFT_TELL : LEFT_NONE;
	switch (shm_read(&e->opcode)) {
	case FF_OP_WRITE:
	case FF_OP_READ:
	case FF_OP_FLUSH:
	case FF_OP_ATOMIC_WRITE:
		return LEFT_AGAIN;
	case FF_OP_CMP_SWAP:
	case FF_OP_FETCH_ADD: /* qp->atom tells how far it came */
		return busy || qp_atom_step(qp) != ATOM_DONE ? LEFT_AGAIN : LEFT_NONE;
	case FF_OP_SEND:
	case FF_OP_SEND_IMM:
	case FF_OP_WRITE_IMM:
		if (!is_delivered(ctl, qp, ledger_cursor(v, slot, LEDGER_CUR_took),
				  attr->dest_qp_num))
			return LEFT_AGAIN;
		return busy ? LEFT_TELL : LEFT_NONE;
	default:
		return LEFT_UNKNOWN;
	}
}

/* What each step of a QP's way to RTS must name (IBTA table 91). */
static uint32_t step_mask(const struct qp *qp, enum ibv_qp_state to)
{
	bool rc = qp->type == IBV_QPT_RC, ud = qp->type == IBV_QPT_UD;

	switch (to) {
	case IBV_QPS_INIT:
		return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		       (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	case IBV_QPS_RTR:
		if (ud)
			return IBV_QP_STATE;
		return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		       IBV_QP_RQ_PSN | (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
	case IBV_QPS_RTS:
		return IBV_QP_STATE | IBV_QP_SQ_PSN |
		       (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					IBV_QP_MAX_QP_RD_ATOMIC :
			     0);
	default:
		return IBV_QP_STATE;
	}
}

/* As a client would: the same checks. */
static int step(const struct ctl *ctl, struct qp *qp, const struct ff_qp_attr *attr,
		enum ibv_qp_state to)
{
	struct ff_modify_qp_req req = { .mask = step_mask(qp, to), .attr = *attr };
	uint32_t now;

	req.attr.qp_state = (uint8_t)to;
	return ctl_qp_walk(ctl, qp, &req, 1, &now);
}

/* [lock] The MR that a note names; NULL: it is gone, or does not have that word. */
static const struct mr *atom_mr(const struct qp *qp, struct session *target)
{
	const struct mr *mr = key_lookup(&target->cont->keys, qp->atom.key);

	return mr && mr->o.ses == target && qp->atom.va >= mr->addr && mr->length >= 8 &&
			       qp->atom.va - mr->addr <= mr->length - 8 ?
		       mr :
		       NULL;
}

bool qp_atom_left(const struct qp *qp, uint32_t *ses)
{
	*ses = qp->atom.ses;
	return qp_atom_step(qp) == ATOM_TRIED;
}

void qp_atom_settle(struct ctl *ctl, struct qp *qp, struct session *target)
{
	const struct mr *mr;
	int err = -ENOENT;

	if (target) /* both are on one thread then */
		dir_meet(qp->o.ses->cont, &qp->attr.ah);
	fast_lock(ctl->host);
	mr = target ? atom_mr(qp, target) : NULL;
	if (mr && target->fast == qp->o.ses->fast)
		err = pvm_settle(target->fast, qp, mr);
	if (err)
		qp_atom_set(qp, ATOM_LOST);
	fast_unlock(ctl->host);
}

int qp_go_on(struct ctl *ctl, struct qp *qp, const struct ledger_qp *r, const struct ledger_view *v,
	     uint32_t slot)
{
	uint32_t state = (uint32_t)ledger_cursor(v, slot, LEDGER_CUR_state);
	bool is_drained = state == IBV_QPS_SQD && !ledger_cursor(v, slot, LEDGER_CUR_draining);
	enum ibv_qp_state last = state == IBV_QPS_ERR ? IBV_QPS_INIT :
				 state == IBV_QPS_SQD ? IBV_QPS_RTS :
							(enum ibv_qp_state)state;
	struct ff_qp_attr attr;
	enum left_wr left;
	int err = 0;

	if (!qp || state > IBV_QPS_ERR || state == IBV_QPS_SQE)
		return -EPROTO;
	memcpy(&attr, r->attr, sizeof(attr));
	left = left_wr(ctl, qp, &attr, v, slot);
	if (left == LEFT_UNKNOWN || (left && state != IBV_QPS_RTS))
		return -EINPROGRESS;
	fast_lock(ctl->host);
	qp->sq.head -= left == LEFT_AGAIN;
	/* a message that comes between two steps is no news to a program that has made all of them */
	qp->comm_est_sent |= state > IBV_QPS_RTR;
	fast_qp_rearm(qp);
	fast_unlock(ctl->host);
	for (unsigned to = IBV_QPS_INIT; to <= last && !err; to++)
		err = step(ctl, qp, &attr, (enum ibv_qp_state)to);
	if (!err && state != last)
		err = step(ctl, qp, &attr, (enum ibv_qp_state)state);
	if (err)
		return err;
	fast_lock(ctl->host);
	/* what no step names is of no use to the device, but the program asks for it */
	attr.cap = qp->attr.cap;
	qp->attr = attr;
	qp->attr_set = r->attr_set;
	if (is_drained)
		qp->draining = false;
	qp->attr.sq_draining = qp->draining;
	if (left == LEFT_TELL && !fast_qp_complete(qp->o.ses->fast, qp))
		err = -EINPROGRESS;
	fast_qp_activate(qp->o.ses->fast, qp);
	fast_unlock(ctl->host);
	record_obj(&qp->o);
	return err;
}
