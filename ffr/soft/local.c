/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * local.c - WRs between connected QPs of this host: RC, UC and XRC. [lock], the runner. fast/send.c posts
 * here; fast/comp.c completes.
 *
 * Theory. Both ends are in this process, so a message arrives as a whole and in order: there are no packets
 * and no sequence numbers, and the answer of the peer is a return value. One WR of a QP is under way at a
 * time. It takes these steps (enum req_state), in one call if nothing stands in its way:
 *
 *	NEW		who is the peer: a QP that is connected to this one, and receives
 *			  nobody: RC waits for WAIT_ACK, UC is done
 *			the peer's rules: operation, rkey			-> ADMITTED
 *			SEND, WRITE with immediate: the peer's receive		-> MATCHED
 *			  none is posted: RC waits for WAIT_RNR, UC is done
 *	ADMITTED,	bytes are moved, a quantum for each turn; atomics are carried out; the peer's
 *	MATCHED		receive completes, then the WR				-> IDLE
 *	WAIT_RNR	the peer's RNR NAK timer, `rnr_retry` times (7: for ever), or a receive
 *	WAIT_ACK	our ACK time-out, `retry_cnt` + 1 times, or the peer	-> NEW
 *
 * and waits in between for limits (rate.c) and for calls on a client's memory (pvm.c). What can go wrong at
 * the peer is in responder.c.
 *
 * Most WRs have one SGE on each side, or inline data, all of it mapped or viewed and no longer than a quantum. These
 * are carried out at once by quick(), which asks the same questions, and declines when an answer is not the
 * usual one, before it has done anything that the others would not find done, or do again.
 */
#include "ffr/abi/ff_probe.h"
#include "ffr/mem/fallible.h"
#include "ffr/mem/view.h"
#include "ffr/remote/remote.h"

/* ---- the peer ---------------------------------------------------------------------------------------- */

/*
 * The QP that this one is connected to, ready to receive; NULL: it does not answer. It answers only who it
 * is connected to (IBTA 9.6.1.5): its own path and number must lead back.
 */
static inline struct qp *connected(struct fast *f, struct qp *qp)
{
	struct qp *peer;

	if (!qp->dest) {
		route_resolve(f, qp);
		if (!qp->dest)
			return NULL;
	}
	peer = qp_by_num(&f->host->qps, qp->dest->nic, qp->attr.dest_qp_num);
	if (!peer || peer->o.ses->cont != qp->dest || peer->type != qp->peer_type ||
	    !route_receives(peer) || peer->attr.dest_qp_num != qp->qp_num)
		return NULL;
	if (!peer->dest)
		route_resolve(f, peer);
	return peer->dest == qp->o.ses->cont ? peer : NULL;
}

/* The peer of the WR under way: the one that it began with. NULL: nobody answers, or not that one. */
static struct qp *peer_of(struct fast *f, struct qp *qp)
{
	const struct requester *r = &qp->soft->req;
	struct qp *peer = connected(f, qp);

	return peer && (r->state != REQ_MATCHED || r->peer == peer) ? peer : NULL;
}

/*
 * That is one, which it is connected to; to look for it among all that wait would take as long as they, whose
 * number is not its own, like.
 */
void local_wake_peer(struct fast *f, const struct qp *qp)
{
	struct qp *from;

	if (qp->type == IBV_QPT_UD)
		return;
	/* of whichever container, as long as nobody has asked which one the path leads to */
	for (uint8_t i = 0; !i || i < f->host->num_nics; i++) {
		from = qp_by_num(&f->host->qps, i, qp->attr.dest_qp_num);
		if (from && qp_is_on(from, f) && from->soft->req.is_waiting &&
		    from->attr.dest_qp_num == qp->qp_num)
			requester_resume(f, from->soft);
	}
}

/* ---- waiting ------------------------------------------------------------------------------------------ */

static enum post_result no_receive(struct fast *f, struct qp *qp, struct qp *peer)
{
	struct soft_qp *sq = qp->soft;
	uint64_t ns;

	qp->stats.rnr++;
	FF_PROBE2(rnr, qp->qp_num, peer->qp_num);
	ns = requester_rnr_wait(qp, &sq->req.rnr_left, peer->attr.min_rnr_timer);
	if (!ns)
		return requester_finish(f, qp, IBV_WC_RNR_RETRY_EXC_ERR, FF_VERR_NONE);
	sq->req.state = REQ_WAIT_RNR;
	requester_wait_on(sq, peer->srq ? &peer->srq->rnr_waiters : &peer->soft->resp.rnr_waiters);
	timer_arm(&f->timers, &sq->req.timer, f->now + ns);
	/* a hint without a fence on either side: when it is missed, the timer finds the receive */
	atomic_store_explicit(peer->srq ? &peer->srq->hdr->need : &peer->hdr->rq_need, 1,
			      memory_order_relaxed);
	return POST_WAIT;
}

/*
 * When its answer is missing, or 0: two to four times the program's timeout from now. Four times is the longest that
 * IBTA 9.9.2.1.1 allows. On a grid of twice its length many QPs share an alarm. Each alarm costs whoever runs on that
 * CPU some 40 us on a virtual machine.
 */
static uint64_t ack_due(const struct qp *qp, uint64_t now)
{
	uint64_t t = requester_ack_timeout(qp);

	return t ? (now / t + 4) / 2 * 2 * t : 0;
}

/* Nobody is there, or not any more. RC waits, and who answers next gets the message from its start. */
static enum post_result no_peer(struct fast *f, struct qp *qp)
{
	struct soft_dev *dev = f->be->priv;
	struct requester *r = &qp->soft->req;
	uint64_t due = ack_due(qp, f->now);

	if (!qp_is_reliable(qp))
		return requester_drop(f, qp);
	if (r->peer)
		r->peer->soft->resp.from = NULL;
	r->peer = NULL;
	r->state = REQ_WAIT_ACK;
	xfer_reset(f, &r->x);
	requester_wait_on(qp->soft, &dev->unreachable);
	if (due)
		timer_arm(&f->timers, &r->timer, due);
	return POST_WAIT;
}

/* ---- answers ------------------------------------------------------------------------------------------- */

static enum post_result answered(struct fast *f, struct qp *qp, struct qp *peer, enum answer a)
{
	switch (a) {
	case ANS_RNR:
		return no_receive(f, qp, peer);
	case ANS_INV_REQ:
		return requester_finish(f, qp, IBV_WC_REM_INV_REQ_ERR, FF_VERR_NONE);
	case ANS_REM_ACCESS:
		return requester_finish(f, qp, IBV_WC_REM_ACCESS_ERR, FF_VERR_RKEY);
	case ANS_REM_OP:
		return requester_finish(f, qp, IBV_WC_REM_OP_ERR, FF_VERR_NONE);
	default:
		return requester_drop(f, qp);
	}
}

/* The copy did not end well: whose fault was it? */
static enum post_result copy_failed(struct fast *f, struct qp *qp, struct qp *peer, bool mine,
				    enum ff_vendor_err why)
{
	if (mine)
		return requester_finish(f, qp, IBV_WC_LOC_PROT_ERR, why);
	if (peer->o.ses->mem_gone)
		return no_peer(f, qp);
	if (peer->soft->resp.from == qp && ff_op_sends(qp->wr->opcode))
		return answered(f, qp, peer, responder_fault(f, peer, why));
	return answered(f, qp, peer, responder_refuse(f, peer, ANS_REM_ACCESS));
}

/* ---- carrying out -------------------------------------------------------------------------------------- */

/* The peer's memory that the WR names. */
static struct side remote_side(const struct qp *peer, const struct ff_sge *at, uint32_t access)
{
	return (struct side){
		.sge = at,
		.num_sge = 1,
		.keys = &peer->o.ses->cont->keys,
		.pd = peer->pd,
		.qp = peer,
		.access = access,
	};
}

/* The peer admits it: NEW becomes ADMITTED or MATCHED. */
static enum answer admit(struct fast *f, struct qp *qp, struct qp *peer)
{
	struct requester *r = &qp->soft->req;
	const struct send_wr *wr = qp->wr;
	enum answer a = responder_admit(f, peer, wr);

	if (a != ANS_OK)
		return responder_refuse(f, peer, a);
	if (op_takes_recv(wr->opcode)) {
		a = responder_match(f, peer, qp);
		if (a != ANS_OK)
			return a;
	}
	r->state = op_takes_recv(wr->opcode) ? REQ_MATCHED : REQ_ADMITTED;
	r->retry_left = qp->attr.retry_cnt;
	return ANS_OK;
}

/* Move the bytes of the WR that was admitted. `total`: of them; *outward: from us to the peer. */
static enum xfer_result move(struct fast *f, struct qp *qp, struct qp *peer, uint64_t total,
			     bool *outward, enum ff_vendor_err *why)
{
	const struct send_wr *wr = qp->wr;
	struct ff_sge at = { wr->remote_addr, (uint32_t)total, wr->rkey };
	struct xfer *x = &qp->soft->req.x;
	struct side src, dst;
	enum xfer_result r;

	*outward = !ff_op_fetches(wr->opcode);
	switch (wr->opcode) {
	case FF_OP_READ:
		src = remote_side(peer, &at, IBV_ACCESS_REMOTE_READ);
		dst = side_of_wr(qp, IBV_ACCESS_LOCAL_WRITE);
		break;
	case FF_OP_CMP_SWAP:
	case FF_OP_FETCH_ADD:
		dst = remote_side(peer, &at, IBV_ACCESS_REMOTE_ATOMIC);
		r = atomic_run(f, x, wr, &dst, &at, why);
		if (r != XFER_DONE)
			return r;
		src = (struct side){ .bytes = (const uint8_t *)&x->atomic_orig };
		dst = side_of_wr(qp, IBV_ACCESS_LOCAL_WRITE);
		break;
	case FF_OP_WRITE:
	case FF_OP_WRITE_IMM:
		src = side_of_wr(qp, 0);
		dst = remote_side(peer, &at, IBV_ACCESS_REMOTE_WRITE);
		break;
	case FF_OP_ATOMIC_WRITE:
		dst = remote_side(peer, &at, IBV_ACCESS_REMOTE_WRITE);
		return atomic_run(f, x, wr, &dst, &at, why);
	case FF_OP_FLUSH:
		*why = FF_VERR_RKEY;
		return responder_flush(peer, wr) ? XFER_DONE : XFER_DST;
	default:
		src = side_of_wr(qp, 0);
		dst = side_of_recv(peer);
		break;
	}
	FF_PROBE2(copy__begin, qp->qp_num, total);
	r = xfer_run(f, x, &src, &dst, total, why);
	FF_PROBE1(copy__end, qp->qp_num);
	return r;
}

/* The peer's receive is about to end: from what the peer had before, the next router knows whether it has. */
static inline void note_took(struct qp *qp, const struct qp *peer)
{
	qp->took = (uint64_t)qp->sq.head << 32 | peer->rq.done;
}

/* All bytes are there: the peer's completion, then ours. */
static enum post_result moved(struct fast *f, struct qp *qp, struct qp *peer, bool outward)
{
	if (!responder_invalidate(peer, qp->wr))
		return answered(f, qp, peer, responder_refuse(f, peer, ANS_REM_ACCESS));
	if (qp->soft->req.peer) {
		note_took(qp, peer);
		responder_done(f, peer, qp);
	}
	requester_served(qp, peer);
	fast_moved_to(f, qp->o.ses, outward ? peer->o.ses : qp->o.ses,
		      qp->wr->opcode == FF_OP_ATOMIC_WRITE ? sizeof(uint64_t) : qp->wr->length);
	return requester_finish(f, qp, IBV_WC_SUCCESS, FF_VERR_NONE);
}

/* From whatever state it can go on in, as far as it goes. */
static enum post_result run(struct fast *f, struct qp *qp)
{
	enum ff_vendor_err why = FF_VERR_NONE;
	struct qp *peer = peer_of(f, qp);
	uint64_t total;
	enum xfer_result r;
	bool outward;

	if (!peer) /* perhaps its path has just been found to lead to another host */
		return qp->send == &local_send ? no_peer(f, qp) : qp->send->progress(f, qp);
	if (qp->soft->req.state == REQ_NEW) {
		enum answer a = admit(f, qp, peer);

		if (a != ANS_OK)
			return answered(f, qp, peer, a);
	}
	total = qp->wr->length;
	if (ff_op_is_word(qp->wr->opcode)) {
		total = sizeof(uint64_t);
		/* as after a lost answer: it may have been carried out */
		if (qp_atom_step(qp) == ATOM_LOST)
			return requester_finish(f, qp, IBV_WC_RETRY_EXC_ERR, FF_VERR_NONE);
	}
	if (!requester_consent(f, qp, peer, total))
		return POST_WAIT;
	r = move(f, qp, peer, total, &outward, &why);
	switch (r) {
	case XFER_MORE:
	case XFER_NEXT:
	case XFER_WAIT:
		return requester_not_copied(r);
	case XFER_SRC:
		return copy_failed(f, qp, peer, outward, why);
	case XFER_DST: /* an atomic's first half fails at the peer, its second half at home */
		return copy_failed(f, qp, peer, !outward, why);
	default:
		return moved(f, qp, peer, outward);
	}
}

/* ---- the usual WR, at once ------------------------------------------------------------------------------ */

/* For functions that are compiled twice: for the usual WR, and for WRs with views. */
#define INLINED inline __attribute__((always_inline))

/*
 * The two sides of a copy, and the MRs of the sides whose pages are in a view. Callers of quick_as() have a constant
 * by_view, so that the compiler leaves views, and the stack protector's canary for them, out of the usual WR's code.
 */
struct quick {
	const bool by_view;
	uint8_t *here, *there;
	struct mr *views[2];
	unsigned num_views;
};

/* Its pages are in a view, or may be. */
static INLINED uint8_t *quick_view(struct quick *c, struct mr *mr, uint64_t va)
{
	if (!mr->view || mr->odp || mr->tracked)
		return NULL;
	c->views[c->num_views++] = mr;
	return view_at(mr, va);
}

/* That part of the memory behind a key, if it is mapped or viewed in one piece and may be used so; or NULL. */
static INLINED uint8_t *quick_spot(struct quick *c, const struct session *s, const struct pd *pd,
				   uint32_t key, uint64_t addr, uint64_t len, uint32_t access)
{
	struct mr *mr = key_lookup(&s->cont->keys, key);
	uint64_t va;
	uint8_t *p;

	if (xfer_reach(mr, pd, addr, len, access))
		return NULL;
	va = mr->addr + (addr - mr->iova);
	p = shadow_first(mr, va, len);
	return p || !c->by_view ? p : quick_view(c, mr, va);
}

/* Move n bytes where one side is a view. False: not all of them, and the WR is carried out in the other way. */
static INLINED bool quick_fallible(const struct quick *c, uint8_t *to, const uint8_t *from,
				   uint64_t n)
{
	if (fallible_copy(to, from, n))
		return false;
	for (unsigned i = 0; i < c->num_views; i++)
		c->views[i]->o.ses->stats.view_bytes += n;
	return true;
}

/* The memory of the WR itself. */
static INLINED uint8_t *quick_here(struct quick *c, const struct qp *qp, uint8_t op)
{
	const struct send_wr *wr = qp->wr;

	if (wr->flags & FF_SQE_INLINE || !wr->length)
		return wr->inl;
	if (wr->num_sge != 1)
		return NULL;
	return quick_spot(c, qp->o.ses, qp->pd, wr->sge[0].lkey, wr->sge[0].addr, wr->length,
			  op == FF_OP_READ ? IBV_ACCESS_LOCAL_WRITE : 0);
}

/* The peer has a receive that is as it should be: taken. Declined, it stays with the peer. */
static INLINED bool quick_take(struct fast *f, struct qp *peer)
{
	return responder_take(f, peer) && peer->soft->resp.recv == RECV_TAKEN;
}

/* The memory of the peer's receive, for a SEND. */
static INLINED uint8_t *quick_recv(struct quick *c, struct fast *f, struct qp *peer,
				   const struct send_wr *wr)
{
	const struct recv_wr *rwr;

	if (!quick_take(f, peer))
		return NULL;
	rwr = peer->soft->resp.rwr;
	if (rwr->num_sge != 1 || rwr->length < wr->length)
		return NULL;
	return quick_spot(c, peer->o.ses, peer->pd, rwr->sge[0].lkey, rwr->sge[0].addr, rwr->length,
			  IBV_ACCESS_LOCAL_WRITE);
}

/* The peer's memory that a WRITE or READ names; anywhere but NULL if it carries nothing. */
static INLINED uint8_t *quick_there(struct quick *c, const struct qp *peer,
				    const struct send_wr *wr, uint8_t op, uint32_t access)
{
	if (!responder_enables(peer, op, access))
		return NULL;
	if (__builtin_expect(!wr->length, 0))
		return wr->inl;
	return quick_spot(c, peer->o.ses, peer->pd, wr->rkey, wr->remote_addr, wr->length, access);
}

#define OP(x)	  (1u << FF_OP_##x)
#define QUICK_OPS (OP(SEND) | OP(SEND_IMM) | OP(WRITE) | OP(WRITE_IMM) | OP(READ))

/* Short enough, and not empty but for the mere messages that rsockets send as WRITEs. */
static inline bool is_usual(const struct fast *f, const struct qp *qp)
{
	const struct send_wr *wr = qp->wr;

	return wr->length <= f->quantum && (wr->length || wr->opcode == FF_OP_WRITE_IMM) &&
	       qp->type <= IBV_QPT_UC && (1u << wr->opcode & QUICK_OPS);
}

/* Carry out the WR that was just fetched, if it is a usual one. False: nothing has been done that is not done again. */
static INLINED bool quick_as(struct fast *f, struct qp *qp, const bool by_view)
{
	const struct send_wr *wr = qp->wr;
	struct session *to = qp->o.ses;
	struct quick c = { .by_view = by_view };
	uint8_t op = wr->opcode;
	struct qp *peer;

	if (!is_usual(f, qp))
		return false;
	c.here = quick_here(&c, qp, op);
	if (!c.here)
		return false;
	peer = connected(f, qp);
	if (!peer || (peer->state == IBV_QPS_RTR && !peer->comm_est_sent))
		return false;
	switch (op) {
	case FF_OP_READ:
		c.there = qp->attr.max_rd_atomic ?
				  quick_there(&c, peer, wr, FF_OP_READ, IBV_ACCESS_REMOTE_READ) :
				  NULL;
		break;
	case FF_OP_WRITE:
		c.there = quick_there(&c, peer, wr, FF_OP_WRITE, IBV_ACCESS_REMOTE_WRITE);
		break;
	case FF_OP_WRITE_IMM:
		c.there = quick_there(&c, peer, wr, FF_OP_WRITE_IMM, IBV_ACCESS_REMOTE_WRITE);
		if (c.there && !quick_take(f, peer))
			return false;
		break;
	default:
		c.there = quick_recv(&c, f, peer, wr);
		break;
	}
	if (!c.there || ((to->cont->limited || peer->o.ses->cont->limited) &&
			 (c.num_views || !rate_pay_now(f, qp, peer, wr->length))))
		return false;
	FF_PROBE2(copy__begin, qp->qp_num, wr->length);
	if (c.num_views) {
		bool in = op == FF_OP_READ;

		if (!quick_fallible(&c, in ? c.here : c.there, in ? c.there : c.here, wr->length))
			return false;
	}
	if (op == FF_OP_READ) {
		if (!c.num_views)
			copy_bytes(&qp->soft->copy, c.here, c.there, wr->length);
		stats_bytes(&peer->stats.tx_bytes, wr->length);
	} else {
		to = peer->o.ses;
		if (wr->length && !c.num_views)
			copy_bytes(&qp->soft->copy, c.there, c.here, wr->length);
		stats_bytes(&peer->stats.rx_bytes, wr->length);
	}
	FF_PROBE1(copy__end, qp->qp_num);
	f->bytes_moved += wr->length;
	if (op_takes_recv(op)) {
		note_took(qp, peer);
		responder_done(f, peer, qp);
	}
	fast_moved_to(f, qp->o.ses, to, wr->length);
	if (qp->busy) /* else its own receive has failed it: connected to itself */
		comp_send(f, qp, IBV_WC_SUCCESS, FF_VERR_NONE);
	return true;
}

static inline bool quick(struct fast *f, struct qp *qp)
{
	return quick_as(f, qp, false);
}

/* The same with what ffmem.ko has in a view. */
static __attribute__((noinline)) bool quick_by_view(struct fast *f, struct qp *qp)
{
	return quick_as(f, qp, true);
}

/* ---- ops -------------------------------------------------------------------------------------------------- */

/* Apart, as all is that gives addresses of its stack away: a canary costs the usual WR 1 %. */
static __attribute__((noinline)) enum post_result post_other(struct fast *f, struct qp *qp)
{
	if (requester_is_mw(qp->wr))
		return requester_mw(f, qp);
	if (qp->o.ses->mem.viewed && quick_by_view(f, qp))
		return POST_DONE;
	return requester_begin(f, qp) ? run(f, qp) : POST_DONE;
}

static enum post_result post(struct fast *f, struct qp *qp)
{
	return quick(f, qp) ? POST_DONE : post_other(f, qp);
}

static enum post_result progress(struct fast *f, struct qp *qp)
{
	return requester_may_run(&qp->soft->req) ? run(f, qp) : POST_WAIT;
}

const struct send_ops local_send = { .name = "host", .post = post, .progress = progress };
