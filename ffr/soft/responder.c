/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * responder.c - what the receiving QP makes of a request. [lock] Called by local.c and ud.c for a QP of this
 * host, by remote/resp.c and remote/ud.c for one of another, by mcast.c for both.
 *
 * What can go wrong, in the order of the checks (IBTA 9.7.4 and table 58):
 *	XRC: no SRQ of that number in the domain		NAK invalid request
 *	operation not enabled at the QP, misaligned atomic	NAK invalid request
 *	FLUSH, ATOMIC_WRITE: no responder resources		NAK invalid request
 *	rkey unknown, out of bounds, without the right		NAK remote access error
 *	no receive						RNR NAK
 *	receive too short					NAK invalid request, the receive ends LOC_LEN
 *	receive's own memory bad				NAK remote operation, ends LOC_PROT
 *	SEND with invalidate: rkey not of a window bound here	NAK remote access error, data is there
 * Every NAK but RNR takes the responder to ERR, with an affiliated event. A UC responder drops
 * silently instead, and so does UD; only the errors of a receive's own memory show there too.
 */
#include <stdlib.h>
#include <string.h>

#include "ffr/fast/mw.h"
#include "ffr/fast/xrc.h"
#include "ffr/remote/remote.h"

static void fail_recv(struct fast *f, struct qp *peer, enum ibv_wc_status st,
		      enum ff_vendor_err why)
{
	static const struct recv_info none;
	struct responder *r = &peer->soft->resp;

	r->recv = RECV_NONE;
	r->from = NULL;
	comp_recv(f, peer, r->rwr->wr_id, st, why, &none);
}

/*
 * XRC: everything that the request needs is of the SRQ that it names (xrc.c). A receive that was
 * taken from another one and not used belongs to a message that never came. False: no such SRQ in
 * the domain.
 */
static bool bind_srq(struct fast *f, struct qp *peer, uint32_t num)
{
	struct srq *srq = peer->srq;

	if (!srq || srq->num != num)
		srq = xrcd_srq(peer->xrc.xrcd, num);
	if (!srq || srq->o.ses->closing) /* its memory may be gone before it is */
		return false;
	if (srq == peer->srq)
		return true;
	if (peer->soft->resp.recv != RECV_NONE)
		fail_recv(f, peer, IBV_WC_WR_FLUSH_ERR, FF_VERR_FLUSH);
	if (peer->soft->rem)
		response_recv_gone(f, peer->soft->rem);
	xrc_target_bind(peer, srq);
	return route_receives(peer); /* or the flush has overrun the other one's CQ */
}

/* The memory that a FLUSH names: a range, or the beginning of all that its key stands for. */
static struct ff_sge flush_spot(const struct qp *peer, const struct send_wr *wr)
{
	const struct container *c = peer->o.ses->cont;
	struct ff_sge at = { .addr = wr->remote_addr,
			     .length = (uint32_t)wr->flush.length,
			     .lkey = wr->rkey };
	const struct mr *mr;
	const struct mw *mw;

	if (wr->flush.level == FF_FLUSH_RANGE)
		return at;
	mr = key_lookup(&c->keys, wr->rkey);
	mw = mr ? NULL : mw_lookup(&c->windows, wr->rkey);
	at.addr = mr ? mr->iova : mw ? mw->base : 0;
	at.length = 0;
	return at;
}

static bool may_reach(const struct qp *peer, const struct ff_sge *at, uint32_t access)
{
	struct side s = {
		.keys = &peer->o.ses->cont->keys, .pd = peer->pd, .qp = peer, .access = access
	};
	struct mr *mr;
	uint64_t va;

	return !xfer_resolve(&s, at, &mr, &va);
}

/* FLUSH and ATOMIC_WRITE are answered as READs are, and the same number of them may be under way (IBTA A19). */
static bool has_resources(const struct qp *peer, uint8_t opcode)
{
	return (opcode != FF_OP_FLUSH && opcode != FF_OP_ATOMIC_WRITE) ||
	       peer->attr.max_dest_rd_atomic;
}

enum answer responder_admit(struct fast *f, struct qp *peer, const struct send_wr *wr)
{
	bool flush = wr->opcode == FF_OP_FLUSH, word = ff_op_is_word(wr->opcode);
	uint32_t access = flush ? ff_flush_access(wr->flush.types) : op_remote_access(wr->opcode);

	if (peer->state == IBV_QPS_RTR && !peer->comm_est_sent) {
		peer->comm_est_sent = true;
		comp_async_qp(f, peer, IBV_EVENT_COMM_EST);
	}
	if (peer->type == IBV_QPT_XRC_RECV && !bind_srq(f, peer, wr->remote_srqn))
		return ANS_INV_REQ;
	if (!access)
		return ANS_OK;
	if (!responder_enables(peer, wr->opcode, access) || !has_resources(peer, wr->opcode) ||
	    (word && (wr->remote_addr & 7)))
		return ANS_INV_REQ;
	if (wr->length || word || flush) {
		struct ff_sge at = { wr->remote_addr, word ? 8 : (uint32_t)wr->length, wr->rkey };

		if (flush)
			at = flush_spot(peer, wr);
		if (!may_reach(peer, &at, access))
			return ANS_REM_ACCESS;
	}
	return ANS_OK;
}

/*
 * Everything before it on the QP has been carried out, and a copy that is done is in memory that all CPUs see
 * alike, by then if not before. No memory here is persistent, so that no key allows to ask for that.
 */
bool responder_flush(struct qp *peer, const struct send_wr *wr)
{
	struct ff_sge at = flush_spot(peer, wr);

	/* it may have waited for its limits since it was admitted */
	if (!may_reach(peer, &at, ff_flush_access(wr->flush.types)))
		return false;
	/* what was written before the completion: also by stores that go past the caches */
	atomic_thread_fence(memory_order_seq_cst);
	return true;
}

bool responder_take(struct fast *f, struct qp *peer)
{
	struct responder *r = &peer->soft->resp;

	if (r->recv != RECV_NONE)
		return true;
	if (!r->rwr)
		r->rwr = peer->kept ? peer->kept : malloc(sizeof(*r->rwr));
	if (!r->rwr)
		return false;
	switch (fast_take_recv(f, peer, r->rwr)) {
	case FETCH_OK:
		r->recv = RECV_TAKEN;
		return true;
	case FETCH_BAD:
		r->recv = RECV_BAD;
		return true;
	default:
		return false;
	}
}

void responder_had(struct qp *qp)
{
	qp->soft->resp.rwr = qp->kept;
	qp->soft->resp.recv = RECV_TAKEN;
}

enum answer responder_fits(struct fast *f, struct qp *peer, const struct send_wr *wr)
{
	if (!responder_take(f, peer))
		return qp_is_reliable(peer) ? ANS_RNR : ANS_DROP;
	if (peer->soft->resp.recv == RECV_BAD)
		return ANS_REM_OP;
	return responder_too_long(peer, wr->opcode, wr->length) ? ANS_INV_REQ : ANS_OK;
}

enum answer responder_recv(struct fast *f, struct qp *peer, const struct send_wr *wr)
{
	switch (responder_fits(f, peer, wr)) {
	case ANS_OK:
		return ANS_OK;
	case ANS_RNR:
		return ANS_RNR;
	case ANS_REM_OP:
		return responder_fault(f, peer, FF_VERR_BAD_SGE);
	case ANS_INV_REQ:
		/* UC and UD keep the receive for a message that fits; one of an SRQ is spent */
		if (qp_is_reliable(peer) || peer->srq)
			fail_recv(f, peer, IBV_WC_LOC_LEN_ERR, FF_VERR_MSG_SIZE);
		return qp_is_reliable(peer) ? responder_refuse(f, peer, ANS_INV_REQ) : ANS_DROP;
	default:
		return ANS_DROP;
	}
}

enum answer responder_match(struct fast *f, struct qp *peer, struct qp *from)
{
	struct responder *r = &peer->soft->resp;
	enum answer a;

	if ((r->from && r->from != from) ||
	    r->is_late) /* UD: another datagram is still coming in */
		return ANS_DROP;
	a = responder_recv(f, peer, from->wr);
	if (a != ANS_OK)
		return a;
	r->from = from;
	from->soft->req.peer = peer;
	return ANS_OK;
}

bool responder_soon(const struct qp *peer, const struct qp *from)
{
	const struct responder *r = &peer->soft->resp;
	const struct xfer *x = &r->from_wire;

	if (r->is_late)
		return !r->from && (!xfer_is_busy(x) || xfer_submitted(x) == XFER_NEXT);
	if (!r->from || r->from == from)
		return false;
	x = &r->from->soft->req.x;
	if (xfer_is_busy(x))
		return xfer_submitted(x) == XFER_NEXT;
	/* what has its memory at hand goes on in its container's next turn, if that has one */
	return x->call && r->from->more && !r->from->o.ses->cont->cpu.parked;
}

static inline void arrived(struct fast *f, struct qp *peer, const struct origin *o)
{
	const struct send_wr *wr = o->wr;
	bool ud = peer->type == IBV_QPT_UD;
	bool imm = wr->opcode == FF_OP_SEND_IMM || wr->opcode == FF_OP_WRITE_IMM;
	bool inv = wr->opcode == FF_OP_SEND_INV;
	struct recv_info info = {
		.byte_len = (uint32_t)wr->length + (ud ? SOFT_GRH_SZ : 0),
		.src_qp = o->qp_num,
		.imm = imm || inv ? wr->imm : 0,
		.slid = o->lid,
		.flags = (imm ? FF_CQE_IMM : 0) | (inv ? FF_CQE_INV : 0) | (ud ? FF_CQE_GRH : 0) |
			 (wr->flags & FF_SQE_SOLICITED ? FF_CQE_SOLICITED : 0),
		.sl = o->sl,
		.write = wr->opcode == FF_OP_WRITE_IMM,
	};

	peer->soft->resp.recv = RECV_NONE;
	comp_recv(f, peer, peer->soft->resp.rwr->wr_id, IBV_WC_SUCCESS, FF_VERR_NONE, &info);
}

void responder_complete(struct fast *f, struct qp *peer, const struct origin *o)
{
	arrived(f, peer, o);
}

bool responder_invalidate(struct qp *peer, const struct send_wr *wr)
{
	return wr->opcode != FF_OP_SEND_INV || !mw_invalidate(peer, wr->imm);
}

void responder_done(struct fast *f, struct qp *peer, struct qp *from)
{
	struct origin o = {
		.wr = from->wr,
		.qp_num = from->qp_num,
		.lid = from->o.ses->cont->lid,
		.sl = peer->type == IBV_QPT_UD ? from->soft->ud.sl : from->attr.ah.sl,
	};

	peer->soft->resp.from = NULL;
	from->soft->req.peer = NULL;
	arrived(f, peer, &o);
}

enum answer responder_fault(struct fast *f, struct qp *peer, enum ff_vendor_err why)
{
	enum ibv_wc_status st = why == FF_VERR_BAD_SGE ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_LOC_PROT_ERR;

	fail_recv(f, peer, st, why);
	fast_qp_error(f, peer, IBV_EVENT_QP_FATAL);
	return qp_is_reliable(peer) ? ANS_REM_OP : ANS_DROP;
}

enum answer responder_refuse(struct fast *f, struct qp *peer, enum answer a)
{
	if (!qp_is_reliable(peer))
		return ANS_DROP;
	fast_qp_error(f, peer,
		      a == ANS_REM_ACCESS ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR);
	return a;
}

void responder_abort(struct qp *qp, struct fast *f, bool flush)
{
	struct responder *r = &qp->soft->resp;

	if (r->from)
		r->from->soft->req.peer = NULL;
	r->from = NULL;
	remote_ud_forget(f, qp);
	if (r->recv != RECV_NONE && flush)
		fail_recv(f, qp, IBV_WC_WR_FLUSH_ERR, FF_VERR_FLUSH);
	else if (r->recv != RECV_NONE)
		fast_lose_recv(qp);
	r->recv = RECV_NONE;
}
