/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * quick.h - the usual WR on the same host, done at once. [lock] A part of requester.c, which alone
 * includes it: a call costs 12 instructions of 500.
 *
 * One SGE on each side, or inline data, all of it mapped, no longer than a quantum: moved here and
 * now, each key looked up once. Whatever is different, or wrong, makes the quick path decline
 * before it has done anything that the full path would not find done.
 */
#ifndef FFR_SOFT_QUICK_H
#define FFR_SOFT_QUICK_H

#include "ffr/abi/ff_probe.h"
#include "ffr/mem/shadow.h"
#include "ffr/soft/remote.h"

static inline uint8_t *quick_spot(const struct session *s, const struct pd *pd, uint32_t key,
				  uint64_t addr, uint64_t len, uint32_t access)
{
	const struct mr *mr = key_lookup(&s->cont->keys, key);
	uint64_t off;

	if (!mr || mr->pd != pd || (mr->access & access) != access || shadow_gone(mr))
		return NULL;
	off = addr - mr->iova;
	if (off > mr->length || len > mr->length - off)
		return NULL;
	return shadow_first(mr, mr->addr + off, len);
}

/* The peer has a receive that is as it should be: taken. Declined, it stays with the peer. */
static bool quick_take(struct fast *f, struct qp *peer)
{
	return !peer->soft->rx_from && responder_take(f, peer) && !peer->soft->recv_bad;
}

/* The peer's receive for a SEND: its memory, or NULL. */
static uint8_t *quick_recv(struct fast *f, struct qp *qp, struct qp *peer)
{
	const struct ff_sge *sge;

	if (!quick_take(f, peer))
		return NULL;
	sge = &peer->soft->rwr->sge[0];
	if (peer->soft->rwr->num_sge != 1 || sge->length < qp->wr->length)
		return NULL;
	return quick_spot(peer->o.ses, peer->pd, sge->lkey, sge->addr, sge->length,
			  IBV_ACCESS_LOCAL_WRITE);
}

/* Where a WRITE goes to, or NULL; anywhere that is not NULL if it carries nothing. */
static uint8_t *quick_target(const struct send_wr *wr, const struct qp *peer)
{
	if (!(peer->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE))
		return NULL;
	if (!wr->length)
		return (uint8_t *)wr->inl;
	return quick_spot(peer->o.ses, peer->pd, wr->rkey, wr->remote_addr, wr->length,
			  IBV_ACCESS_REMOTE_WRITE);
}

/* Short enough, and not empty but for the mere messages that rsockets send as WRITEs. */
static bool quick_length(const struct fast *f, const struct send_wr *wr)
{
	return wr->length <= f->quantum && (wr->length || wr->opcode == FF_OP_WRITE_IMM);
}

/* The limits let all of it through now; it is charged. */
static __attribute__((noinline)) bool quick_consent(struct fast *f, struct qp *qp, struct qp *peer)
{
	struct rate_path path = requester_path(qp, peer);
	uint64_t want = qp->wr->length;

	if (rate_ask(f, &path, &qp->wait, &want) || want < qp->wr->length)
		return false;
	rate_charge(f, &path, &qp->wait, want, 1);
	return true;
}

/* Carry out the WR that was just fetched, if it is a usual one. False: nothing has been done. */
static bool quick_run(struct fast *f, struct qp *qp)
{
	const struct send_wr *wr = qp->wr;
	struct soft_qp *sq = qp->soft;
	struct session *to = qp->o.ses;
	uint8_t *here, *there;
	bool takes = false;
	struct qp *peer;

	if (!quick_length(f, wr) || qp->type > IBV_QPT_UC ||
	    !(1u << wr->opcode & (1u << FF_OP_WRITE | 1u << FF_OP_WRITE_IMM | 1u << FF_OP_READ |
				  1u << FF_OP_SEND | 1u << FF_OP_SEND_IMM)))
		return false;
	if (wr->flags & FF_SQE_INLINE || !wr->length)
		here = (uint8_t *)wr->inl;
	else if (wr->num_sge == 1)
		here = quick_spot(to, qp->pd, wr->sge[0].lkey, wr->sge[0].addr, wr->length,
				  wr->opcode == FF_OP_READ ? IBV_ACCESS_LOCAL_WRITE : 0);
	else
		return false;
	if (!here)
		return false;
	peer = route_peer(f, qp);
	if (!peer || (peer->state == IBV_QPS_RTR && !peer->comm_est_sent))
		return false;
	switch (wr->opcode) {
	case FF_OP_READ:
		there = quick_spot(peer->o.ses, peer->pd, wr->rkey, wr->remote_addr, wr->length,
				   IBV_ACCESS_REMOTE_READ);
		if (!(peer->attr.qp_access_flags & IBV_ACCESS_REMOTE_READ) ||
		    !peer->attr.max_dest_rd_atomic || !qp->attr.max_rd_atomic)
			return false;
		break;
	case FF_OP_WRITE:
		there = quick_target(wr, peer);
		break;
	case FF_OP_WRITE_IMM:
		there = quick_target(wr, peer);
		takes = true;
		if (there && !quick_take(f, peer))
			return false;
		break;
	default:
		there = quick_recv(f, qp, peer);
		takes = true;
		break;
	}
	if (!there ||
	    ((to->cont->limited || peer->o.ses->cont->limited) && !quick_consent(f, qp, peer)))
		return false;
	FF_PROBE2(copy__begin, qp->qp_num, wr->length);
	if (wr->opcode == FF_OP_READ) {
		copy_bytes(&sq->copy, here, there, wr->length);
		stats_bytes(&peer->stats.tx_bytes, wr->length);
	} else {
		to = peer->o.ses;
		if (wr->length)
			copy_bytes(&sq->copy, there, here, wr->length);
		stats_bytes(&peer->stats.rx_bytes, wr->length);
	}
	FF_PROBE1(copy__end, qp->qp_num);
	f->moved += wr->length;
	if (takes)
		responder_done(f, peer, qp);
	fast_moved_to(f, qp->o.ses, to, wr->length);
	if (qp->busy) /* else its own receive has failed it: connected to itself */
		comp_send(f, qp, IBV_WC_SUCCESS, FF_VERR_NONE);
	sq->phase = SOFT_IDLE;
	return true;
}

#endif
