/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * record.c - what a session leaves for the next router: records in its ledger, and descriptors at the keeper. Control
 * thread; called by the handlers, when an object was made, changed, or has gone.
 *
 * What no router restores bars the session, for as long as it lives: the next router ends it and tells why. So does
 * a descriptor or a record for which there was no room.
 *
 * Tests: system/verbs_restart.sh
 */
#include "ffr/ctl/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ffr/ctl/ctl.h"
#include "ffr/fast/pvm.h"
#include "ffr/keeper/keeper.h"
#include "ffr/mem/shadow.h"
#include "ffr/mem/track.h"

/* While a session is restored, the keeper has its descriptors already. */
static void save(struct session *s, uint32_t slot, int fd)
{
	if (!s->is_restored && keeper_save(s->mem.keeper_id, &slot, &fd, 1))
		ledger_bar(s->ledger, LEDGER_BAR_LOST);
}

/* ---- sessions ------------------------------------------------------------------------------- */

static void write_session(struct session *s)
{
	struct ledger_session r = {
		.id = s->id,
		.container = s->cont->id,
		.epoch = s->cont->epoch,
		.device = s->device,
		.generation = s->tab[OBJ_PD].first_gen,
		.filters = (uint32_t)s->mem.filters,
		.has_track = s->mem.track != NULL,
		.is_closed = track_is_closed(s),
	};

	memcpy(r.comm, s->comm, sizeof(r.comm));
	memcpy(r.token, s->import.token, sizeof(r.token));
	ledger_write(s->ledger, s->record, &r);
}

/* Segments are made on the way of calls for rings: what is new of them is recorded at the end of the call. */
static void write_segs(struct session *s)
{
	for (uint32_t i = 0; i < s->mem.num_segs; i++) {
		struct seg *g = &s->mem.segs[i];
		uint32_t pages = seg_pages(g);

		if (!g->slot) {
			g->slot = ledger_slot_new(s->ledger, LEDGER_SEG);
			g->recorded = 0;
			if (!g->slot || g->kind != SEG_RINGS) {
				ledger_bar(s->ledger,
					   g->slot ? LEDGER_BAR_OBJECT : LEDGER_BAR_LOST);
				continue;
			}
			if (!g->is_held)
				ledger_bar(s->ledger, LEDGER_BAR_LOST);
			save(s, SAVED_SEG + i, g->fd);
		}
		if (g->recorded == pages)
			continue;
		g->recorded = pages;
		ledger_write(s->ledger, g->slot,
			     &(struct ledger_seg){ .size = g->size, .id = g->id, .pages = pages });
	}
}

static bool begin(struct session *s)
{
	s->ledger = ledger_new(s->cont);
	s->record = ledger_slot_new(s->ledger, LEDGER_SESSION);
	if (!s->record) {
		ledger_free(s->ledger);
		s->ledger = NULL;
		return false;
	}
	if (carriers_make_objects(s->fast))
		ledger_bar(s->ledger, LEDGER_BAR_CARRIER);
	write_session(s);
	return true;
}

void record_session(struct session *s)
{
	static const uint32_t slots[] = { SAVED_LEDGER, SAVED_CONN, SAVED_PIDFD, SAVED_MEM,
					  SAVED_ASYNC,	SAVED_BELL, SAVED_MAPS,	 SAVED_STATUS };
	int fds[sizeof(slots) / sizeof(slots[0])];
	uint32_t n = 6;

	static_assert(sizeof(slots) / sizeof(slots[0]) <= KEEPER_SAVES, "one request");
	if (!keeper_is_there() || !begin(s))
		return;
	write_segs(s);
	fds[0] = ledger_fd(s->ledger);
	fds[1] = s->conn->fd;
	fds[2] = s->conn->peer.pidfd;
	fds[3] = pvm_mem_fd(s);
	fds[4] = s->async_fd;
	fds[5] = s->bell_fd;
	fds[6] = s->mem.maps_fd;
	fds[7] = s->mem.status_fd;
	if (s->mem.maps_fd >= 0)
		n++;
	if (s->mem.maps_fd >= 0 && s->mem.status_fd >= 0)
		n++;
	if (keeper_save(s->mem.keeper_id, slots, fds, n))
		ledger_bar(s->ledger, LEDGER_BAR_LOST);
}

void record_session_again(struct session *s)
{
	if (!begin(s))
		return;
	s->is_restored = true;
	/* as a call: a router that dies before all of it is made again leaves nothing that can be restored */
	ledger_call(s->ledger, true);
	write_segs(s);
}

int record_renew(struct session *s)
{
	static const uint32_t slot = SAVED_LEDGER;
	int fd = s->ledger ? ledger_fd(s->ledger) : -1;

	if (fd < 0)
		return -ENOMEM;
	s->is_restored = false;
	return keeper_save(s->mem.keeper_id, &slot, &fd, 1);
}

void record_track(struct session *s)
{
	if (!s->ledger)
		return;
	save(s, SAVED_TRACK, track_fd(s));
	write_session(s);
}

void record_session_changed(struct session *s)
{
	if (!s->ledger)
		return;
	write_session(s);
	write_segs(s);
}

/* ---- objects -------------------------------------------------------------------------------- */

static void write_pd(const struct pd *pd)
{
	if (pd->of)
		ledger_bar(pd->o.ses->ledger, LEDGER_BAR_OBJECT);
	ledger_write(pd->o.ses->ledger, pd->o.slot, &(struct ledger_pd){ .handle = pd->o.handle });
}

static void write_channel(const struct channel *ch, bool is_new)
{
	if (is_new)
		save(ch->o.ses, SAVED_CHANNEL + FF_HANDLE_INDEX(ch->o.handle), ch->fd);
	ledger_write(ch->o.ses->ledger, ch->o.slot,
		     &(struct ledger_channel){ .handle = ch->o.handle });
}

static void write_cq(const struct cq *cq)
{
	ledger_write(cq->o.ses->ledger, cq->o.slot,
		     &(struct ledger_cq){ .handle = cq->o.handle,
					  .seg = cq->at.seg,
					  .off = cq->at.off,
					  .depth = cq->at.depth,
					  .flags = cq->flags,
					  .channel = cq->channel ? cq->channel->o.handle : 0,
					  .mod_count = cq->mod_count,
					  .mod_period = cq->mod_period });
}

static void write_qp(const struct qp *qp)
{
	struct ledger_qp r = {
		.user = qp->user,
		.attr_set = qp->attr_set,
		.handle = qp->o.handle,
		.qp_num = qp->qp_num,
		.type = qp->type,
		.sig_all = qp->sig_all,
		.pd = qp->pd->o.handle,
		.scq = qp->scq->o.handle,
		.rcq = qp->rcq ? qp->rcq->o.handle : 0,
		.seg = qp->sq_at.seg,
		.off = qp->sq_at.off,
		.sq_stride = qp->sq.stride,
		.rq_stride = qp->rq.stride,
		.block_self_lb = qp->block_self_lb,
		.srq = qp->srq ? qp->srq->o.handle : 0,
	};

	static_assert(sizeof(r.attr) == sizeof(qp->attr), "the attributes");
	memcpy(r.attr, &qp->attr, sizeof(r.attr));
	if (qp->type > IBV_QPT_UD)
		ledger_bar(qp->o.ses->ledger, LEDGER_BAR_OBJECT);
	if (qp->kept)
		ledger_write(qp->o.ses->ledger, qp->kept_slot,
			     &(struct ledger_recv){ .qp = qp->o.handle });
	else if (qp->srq)
		ledger_bar(qp->o.ses->ledger, LEDGER_BAR_LOST);
	ledger_write(qp->o.ses->ledger, qp->o.slot, &r);
}

static void write_srq(const struct srq *srq)
{
	if (srq->xref)
		ledger_bar(srq->o.ses->ledger, LEDGER_BAR_OBJECT);
	ledger_write(srq->o.ses->ledger, srq->o.slot,
		     &(struct ledger_srq){ .user = srq->user,
					   .handle = srq->o.handle,
					   .pd = srq->pd->o.handle,
					   .seg = srq->at.seg,
					   .off = srq->at.off,
					   .depth = srq->at.depth,
					   .max_sge = srq->max_sge,
					   .num = srq->num });
}

static void write_mr(const struct mr *mr)
{
	if (mr->kind != MR_USER)
		ledger_bar(mr->o.ses->ledger, LEDGER_BAR_MEMORY);
	ledger_write(mr->o.ses->ledger, mr->o.slot,
		     &(struct ledger_mr){ .addr = mr->addr,
					  .length = mr->length,
					  .iova = mr->iova,
					  .handle = mr->o.handle,
					  .key = mr->lkey,
					  .pd = mr->pd->o.handle,
					  .access = mr->access,
					  .why = mr->why,
					  .tracked = mr->tracked != NULL });
}

static void write_ah(const struct ah *ah)
{
	struct ledger_ah r = { .handle = ah->o.handle, .pd = ah->pd->o.handle };

	static_assert(sizeof(r.attr) == sizeof(ah->attr), "the attributes");
	memcpy(r.attr, &ah->attr, sizeof(r.attr));
	ledger_write(ah->o.ses->ledger, ah->o.slot, &r);
}

static enum ledger_kind kind_of(uint8_t kind)
{
	switch (kind) {
	case OBJ_PD:
		return LEDGER_PD;
	case OBJ_CHANNEL:
		return LEDGER_CHANNEL;
	case OBJ_CQ:
		return LEDGER_CQ;
	case OBJ_QP:
		return LEDGER_QP;
	case OBJ_MR:
		return LEDGER_MR;
	case OBJ_AH:
		return LEDGER_AH;
	case OBJ_SRQ:
		return LEDGER_SRQ;
	default:
		return LEDGER_NONE;
	}
}

/* Does the object lie in the ledger itself? */
static bool is_live(const struct obj *o)
{
	return o->kind == OBJ_CQ || o->kind == OBJ_QP || o->kind == OBJ_SRQ;
}

void record_kind(struct session *s, enum obj_kind kind)
{
	if (kind_of((uint8_t)kind) == LEDGER_NONE)
		ledger_bar(s->ledger, LEDGER_BAR_OBJECT);
}

void record_obj(struct obj *o)
{
	struct ledger *l = o->ses->ledger;
	bool is_new = !o->slot;

	if (!l)
		return;
	if (is_new && !is_live(o))
		o->slot = ledger_slot_new(l, kind_of(o->kind));
	if (!o->slot) { /* no room, or an object that lies elsewhere: an XRC_RECV QP */
		ledger_bar(l, is_live(o) ? LEDGER_BAR_OBJECT : LEDGER_BAR_LOST);
		return;
	}
	switch (o->kind) {
	case OBJ_PD:
		write_pd(obj_of(o, pd));
		break;
	case OBJ_CHANNEL:
		write_channel(obj_of(o, channel), is_new);
		break;
	case OBJ_CQ:
		write_segs(o->ses);
		write_cq(obj_of(o, cq));
		break;
	case OBJ_QP:
		write_segs(o->ses);
		write_qp(obj_of(o, qp));
		break;
	case OBJ_SRQ:
		write_segs(o->ses);
		write_srq(obj_of(o, srq));
		break;
	case OBJ_AH:
		write_ah(obj_of(o, ah));
		break;
	default:
		write_mr(obj_of(o, mr));
		break;
	}
}

void record_gone(struct obj *o)
{
	struct session *s = o->ses;

	if (!s->ledger || !o->slot)
		return;
	if (o->kind == OBJ_QP && obj_of(o, qp)->kept_slot)
		ledger_erase(s->ledger, obj_of(o, qp)->kept_slot);
	ledger_erase(s->ledger, o->slot);
	if (is_live(o)) /* record_live_free() frees its slot */
		return;
	ledger_slot_free(s->ledger, o->slot);
	o->slot = 0;
}

void record_channel_free(const struct channel *ch)
{
	const struct session *s = ch->o.ses;

	if (s->ledger && !s->closing) /* else the keeper forgets all of the session at once */
		keeper_unsave(s->mem.keeper_id, SAVED_CHANNEL + FF_HANDLE_INDEX(ch->o.handle));
}

void *record_live_new(struct session *s, enum ledger_kind kind, size_t size)
{
	uint32_t slot = ledger_slot_new(s->ledger, kind);
	struct obj *o = slot ? ledger_live(s->ledger, slot) : calloc(1, size);

	if (o)
		o->slot = slot;
	return o;
}

void record_live_free(struct session *s, struct obj *o)
{
	if (o && o->slot)
		ledger_slot_free(s->ledger, o->slot);
	else
		free(o);
}

void record_recv_new(struct qp *qp)
{
	struct ledger *l = qp->o.ses->ledger;

	if (!qp->srq || !qp->o.slot)
		return;
	qp->kept_slot = ledger_slot_new(l, LEDGER_RECV);
	if (qp->kept_slot)
		qp->kept = ledger_live(l, qp->kept_slot);
}

void record_recv_free(struct qp *qp)
{
	if (qp->kept_slot)
		ledger_slot_free(qp->o.ses->ledger, qp->kept_slot);
	qp->kept = NULL;
	qp->kept_slot = 0;
}
