/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * remote_resp.c - the responder's half of a QP whose peer is on another host. [lock] remote.h has the
 * theory, responder.c what is the same on one host; remote.c brings frames, soft/wire/tcp.c fetches them.
 *
 * A frame is looked at when its header is there (response_begin), before its payload comes: who sends
 * it, whether it is the next of its message and the message the next of its QP, whether it may be
 * carried out, and where it goes to. Fetches become jobs, which are answered frame by frame in turn
 * with other QPs'.
 */
#include "ffr/soft/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Messages in a row that were answered at once, before the next ACK waits for the answer. */
#define DIALOG_MIN 4

/* ---- the state ---------------------------------------------------------------------------------------- */

static const char *const state_name[] = {
	[RX_CLOSED] = "closed",
	[RX_EXPECT] = "expect",
	[RX_TAKE] = "take",
	[RX_TAKE_RECV] = "take, with a receive",
	[RX_DROP] = "drop",
	[RX_DROP_RECV] = "drop, with a receive",
	[RX_STALL] = "stall",
	[RX_STALL_RECV] = "stall, with a receive",
	[RX_STALL_CUT] = "stall, cut",
	[RX_REFUSE] = "refuse",
	[RX_REFUSE_RECV] = "refuse, with a receive",
	[RX_MISFIT] = "misfit",
};
static_assert(sizeof(state_name) / sizeof(state_name[0]) == RX_NUM_STATES, "one for each");

const char *rx_state_str(enum rx_state state)
{
	return state < RX_NUM_STATES ? state_name[state] : "?";
}

/* Every change of the state comes through here. */
static void rx_to(struct remote_qp *rq, enum rx_state state)
{
	rq->rx.state = state;
}

static bool has_recv(const struct remote_qp *rq)
{
	switch (rq->rx.state) {
	case RX_TAKE_RECV:
	case RX_DROP_RECV:
	case RX_STALL_RECV:
	case RX_REFUSE_RECV:
		return true;
	default:
		return false;
	}
}

static bool drops(const struct remote_qp *rq)
{
	return rq->rx.state == RX_DROP || rq->rx.state == RX_DROP_RECV;
}

static bool stalls(const struct remote_qp *rq)
{
	return rq->rx.state == RX_STALL || rq->rx.state == RX_STALL_RECV ||
	       rq->rx.state == RX_STALL_CUT;
}

static bool refuses(const struct remote_qp *rq)
{
	return rq->rx.state == RX_REFUSE || rq->rx.state == RX_REFUSE_RECV ||
	       rq->rx.state == RX_MISFIT;
}

/* On the next connection the message comes from its beginning. What came of it may have lost its receive. */
static void rx_anew(struct remote_qp *rq)
{
	rq->rx.off = 0;
	rx_to(rq, RX_EXPECT);
}

/* Nothing is taken of the message before it begins anew. */
static void rx_drop(struct remote_qp *rq)
{
	switch (rq->rx.state) {
	case RX_EXPECT:
	case RX_TAKE:
		rx_to(rq, RX_DROP);
		break;
	case RX_TAKE_RECV:
		rx_to(rq, RX_DROP_RECV);
		break;
	default: /* so it is, or more than that is thrown away, or the QP is in error */
		break;
	}
}

/* The message's receive is not its own any more: the rest has no place to go to. */
static void rx_unmatch(struct remote_qp *rq)
{
	switch (rq->rx.state) {
	case RX_TAKE_RECV:
	case RX_DROP_RECV:
		rx_to(rq, RX_DROP);
		break;
	case RX_STALL_RECV:
		rx_to(rq, RX_STALL);
		break;
	case RX_REFUSE_RECV:
		rx_to(rq, RX_REFUSE);
		break;
	default:
		break;
	}
}

/* The worker has done its part. */
static void rx_unstall(struct remote_qp *rq)
{
	switch (rq->rx.state) {
	case RX_STALL:
		rx_to(rq, RX_DROP);
		break;
	case RX_STALL_RECV:
		rx_to(rq, RX_DROP_RECV);
		break;
	case RX_STALL_CUT:
		rx_anew(rq);
		break;
	default:
		break;
	}
}

void response_down(struct remote_qp *rq)
{
	rq->rx.job_head = rq->rx.job_tail; /* they are asked for again */
	/* nothing more comes of what is thrown away */
	switch (rq->rx.state) {
	case RX_DROP:
		rx_anew(rq);
		break;
	case RX_DROP_RECV:
		rx_to(rq, RX_TAKE_RECV);
		break;
	case RX_STALL:
		rx_to(rq, RX_STALL_CUT);
		break;
	default:
		break;
	}
}

/* ---- answers ------------------------------------------------------------------------------------------ */

/* To somebody with whom no QP of ours is connected. */
static void refuse_stranger(struct fast *f, struct wire_peer *p, const struct wire_hdr *h)
{
	struct wire_hdr nak = {
		.type = WIRE_NAK,
		.code = NAK_NO_QP,
		.dst_qpn = h->src_qpn,
		.src_qpn = h->dst_qpn,
		.dst_cont = h->src_cont,
		.dst_epoch = h->src_epoch,
		.src_cont = h->dst_cont,
		.src_epoch = h->dst_epoch,
		.tag = h->tag,
		.msn = h->msn,
	};

	if (!h->offset)
		wire_send(f, p, &nak, NULL);
}

static void nak(struct fast *f, struct remote_qp *rq, uint32_t msn, enum wire_nak code)
{
	rx_drop(rq);
	if (!qp_is_reliable(rq->qp) && code != NAK_PROBE_OK)
		return;
	rq->rx.nak_due = true;
	rq->rx.nak_msn = msn;
	rq->rx.nak_code = code;
	rq->rx.nak_tag = rq->rx.tag;
	wire_tx(f, rq);
}

/* Tell of what ended the connection; the QP is in error already. */
static void tell_refusal(struct fast *f, struct remote_qp *rq, uint32_t msn, uint32_t tag,
			 enum answer a)
{
	rq->rx.tag = tag;
	switch (a) {
	case ANS_INV_REQ:
		nak(f, rq, msn, NAK_INV_REQ);
		break;
	case ANS_REM_ACCESS:
		nak(f, rq, msn, NAK_REM_ACCESS);
		break;
	case ANS_REM_OP:
		nak(f, rq, msn, NAK_REM_OP);
		break;
	default:
		rx_drop(rq);
		break;
	}
}

static bool has_jobs(const struct remote_qp *rq)
{
	return rq->rx.job_head != rq->rx.job_tail;
}

/* Message msn breaks the rules. What was asked for before it is answered first. */
static void refuse(struct fast *f, struct remote_qp *rq, uint32_t msn, enum answer a)
{
	uint32_t tag = rq->rx.tag;

	if (has_jobs(rq) && msn == rq->rx.msn) {
		rx_to(rq, has_recv(rq) ? RX_REFUSE_RECV : RX_REFUSE);
		rq->rx.why = a;
		return;
	}
	tell_refusal(f, rq, msn, tag, responder_refuse(f, rq->qp, a));
}

static void owe_receive(struct fast *f, struct remote_qp *rq)
{
	struct qp *qp = rq->qp;

	nak(f, rq, rq->rx.msn, NAK_RNR);
	if (!rq->rx.rnr_owed && qp->srq) {
		LIST_INSERT_HEAD(&qp->srq->rnr_owed, rq, rx.of_srq);
		rq->rx.at_srq = true;
	}
	rq->rx.rnr_owed = true;
	/* a hint without a fence on either side: when it is missed, the requester tries again */
	atomic_store_explicit(qp->srq ? &qp->srq->hdr->need : &qp->hdr->rq_need, 1,
			      memory_order_relaxed);
}

static void not_owed(struct remote_qp *rq)
{
	if (rq->rx.at_srq)
		LIST_REMOVE(rq, rx.of_srq);
	rq->rx.rnr_owed = rq->rx.at_srq = false;
}

void response_recv_posted(struct fast *f, struct remote_qp *rq)
{
	if (!rq->rx.rnr_owed)
		return;
	not_owed(rq);
	rq->rx.go_due = true;
	wire_tx(f, rq);
}

/* ---- a request comes ----------------------------------------------------------------------------------- */

static bool is_atomic(uint8_t opcode)
{
	return opcode == FF_OP_CMP_SWAP || opcode == FF_OP_FETCH_ADD;
}

/* The QP that it is for, if that one is connected to the sender. */
static struct remote_qp *responder_of(struct fast *f, const struct wire_peer *p,
				      const struct wire_hdr *h)
{
	struct qp *qp = qp_here(f, h->dst_qpn);
	const struct container *c;
	struct remote_qp *rq;

	if (!qp || qp->type == IBV_QPT_UD || qp->type == IBV_QPT_XRC_SEND || !route_receives(qp) ||
	    qp->attr.dest_qp_num != h->src_qpn)
		return NULL;
	c = qp->o.ses->cont;
	if (c->id != h->dst_cont || c->epoch != h->dst_epoch)
		return NULL;
	if (!qp->soft->rem && !qp->soft->dest)
		route_resolve(f, qp);
	rq = qp->soft->rem;
	if (!rq || rq->peer != p || !remote_is_peer(rq) || rq->cont != h->src_cont ||
	    rq->epoch != h->src_epoch)
		return NULL;
	if (rq->rx.state == RX_CLOSED) {
		if (h->msn)
			return NULL;
		rx_to(rq, RX_EXPECT);
		rq->rx.tag = h->tag;
		rq->rx.msn = 0;
	}
	return rq->rx.tag == h->tag ? rq : NULL;
}

/* Does it make sense at all? */
static bool is_sound(const struct qp *qp, const struct wire_hdr *h)
{
	uint64_t end = h->offset + h->len;
	bool last = h->flags & WIRE_LAST;

	switch (h->opcode) {
	case FF_OP_SEND:
	case FF_OP_SEND_IMM:
	case FF_OP_WRITE:
	case FF_OP_WRITE_IMM:
		break;
	case FF_OP_SEND_INV:
		if (!qp_is_reliable(qp))
			return false;
		break;
	case FF_OP_READ:
		return qp_is_reliable(qp) && !h->len && !h->offset &&
		       h->req.length <= FF_MAX_MSG_SZ;
	case FF_OP_CMP_SWAP:
	case FF_OP_FETCH_ADD:
		return qp_is_reliable(qp) && !h->len && !h->offset;
	default:
		return false;
	}
	if (h->req.length > FF_MAX_MSG_SZ)
		return false;
	if (h->flags & WIRE_PROBE)
		return !h->len && !h->offset;
	return h->offset <= h->req.length && end <= h->req.length &&
	       last == (end == h->req.length) && (h->len || !h->req.length);
}

/* The message, as responder.c knows one. */
static void take_wr(struct remote_qp *rq, const struct wire_hdr *h)
{
	struct send_wr *wr = &rq->rx.wr;

	memset(wr, 0, sizeof(*wr));
	wr->opcode = h->opcode;
	wr->flags = h->flags & WIRE_SOLICITED ? FF_SQE_SOLICITED : 0;
	if (is_atomic(h->opcode)) {
		wr->remote_addr = h->atomic.addr;
		wr->compare_add = h->atomic.compare_add;
		wr->swap = h->atomic.swap;
		wr->rkey = h->atomic.rkey;
		wr->remote_srqn = h->atomic.srqn;
		wr->length = sizeof(uint64_t);
	} else {
		wr->remote_addr = h->req.addr;
		wr->length = h->req.length;
		wr->rkey = h->req.rkey;
		wr->imm = h->req.imm;
		wr->remote_srqn = h->req.srqn;
	}
	rq->rx.at = (struct ff_sge){ wr->remote_addr, (uint32_t)wr->length, wr->rkey };
}

/* May the message that begins be carried out? False: it was answered. */
static bool start(struct fast *f, struct remote_qp *rq, const struct wire_hdr *h)
{
	struct qp *qp = rq->qp;
	uint32_t tag = rq->rx.tag;
	enum answer a;

	take_wr(rq, h);
	rq->rx.off = 0;
	/* what began before, and perhaps has a receive, may have been another message: of a UC peer
	 * that lost its rest, or of a router that lies */
	rx_to(rq, RX_EXPECT);
	a = responder_admit(f, qp, &rq->rx.wr);
	if (a != ANS_OK) {
		refuse(f, rq, h->msn, a);
		return false;
	}
	if (h->flags & WIRE_PROBE) {
		nak(f, rq, h->msn, NAK_PROBE_OK);
		return false;
	}
	if (!ff_op_fetches(h->opcode)) {
		bool wait;

		remote_rate_ask(f, rq, REMOTE_RATE_RECV, RATE_RX, 1, &wait);
		if (wait) {
			nak(f, rq, h->msn, NAK_BUSY);
			return false;
		}
	}
	if (!op_takes_recv(h->opcode)) {
		rx_to(rq, RX_TAKE);
		return true;
	}
	if (has_jobs(rq)) { /* they come first, should this end the connection */
		a = responder_fits(f, qp, &rq->rx.wr);
		if (a == ANS_INV_REQ || a == ANS_REM_OP) {
			rx_to(rq, RX_MISFIT);
			return false;
		}
	}
	a = responder_recv(f, qp, &rq->rx.wr);
	if (a == ANS_OK) {
		rx_to(rq, RX_TAKE_RECV);
		not_owed(rq);
		return true;
	}
	if (a == ANS_RNR)
		owe_receive(f, rq);
	else if (a == ANS_DROP)
		rx_drop(rq);
	else /* the QP is in error already */
		tell_refusal(f, rq, h->msn, tag, a);
	return false;
}

/* A message that was carried out before: its answer was lost. */
static void again(struct fast *f, struct remote_qp *rq, const struct wire_hdr *h)
{
	if (h->opcode == FF_OP_READ || is_atomic(h->opcode))
		response_fetch_again(f, rq, h);
	else if ((h->flags & WIRE_LAST) && qp_is_reliable(rq->qp)) {
		rq->rx.ack_due = true;
		wire_tx(f, rq);
	}
}

enum sink response_begin(struct fast *f, struct wire_peer *p, const struct wire_hdr *h,
			 struct remote_qp **out)
{
	struct remote_qp *rq = responder_of(f, p, h);
	int32_t ahead;

	if (!rq) {
		refuse_stranger(f, p, h);
		return SINK_DISCARD;
	}
	if (!is_sound(rq->qp, h))
		return SINK_DISCARD; /* a router that lies: nothing here is to suffer from it */
	ahead = (int32_t)(h->msn - rq->rx.msn);
	if (rq->qp->type == IBV_QPT_UC && ahead > 0 && !h->offset) {
		rq->rx.msn = h->msn; /* what is missing is lost */
		ahead = 0;
		rq->rx.off = 0;
	}
	if (ahead < 0) {
		again(f, rq, h);
		return SINK_DISCARD;
	}
	if (stalls(rq) || refuses(rq))
		return SINK_DISCARD;
	if (ahead > 0) {
		if (!drops(rq))
			nak(f, rq, rq->rx.msn, NAK_SEQ);
		return SINK_DISCARD;
	}
	if (!h->offset) {
		if (!start(f, rq, h))
			return SINK_DISCARD;
	} else if (drops(rq)) {
		return SINK_DISCARD;
	} else if (h->offset != rq->rx.off || h->opcode != rq->rx.wr.opcode ||
		   h->req.length != rq->rx.wr.length) {
		nak(f, rq, rq->rx.msn, NAK_SEQ);
		return SINK_DISCARD;
	}
	if (!ff_op_fetches(h->opcode))
		remote_rate_charge(f, rq, REMOTE_RATE_RECV, RATE_RX, h->len, !h->offset);
	*out = rq;
	return SINK_QP;
}

void response_asked(struct fast *f, struct wire_peer *p, const struct wire_hdr *h)
{
	struct remote_qp *rq = responder_of(f, p, h);

	if (!rq) {
		refuse_stranger(f, p, h);
		return;
	}
	if ((int32_t)(h->msn - rq->rx.msn) >= 0) {
		/* it is on its way, or waits for something that will be told; or is thrown away */
		if (h->msn == rq->rx.msn && drops(rq) && !rq->rx.rnr_owed)
			nak(f, rq, h->msn, NAK_RETRY);
		return;
	}
	if (!ff_op_fetches(h->opcode)) { /* its ACK may be on the way, behind much else */
		rq->rx.ack_due = true;
		wire_tx(f, rq);
		return;
	}
	for (uint32_t i = rq->rx.job_head; i != rq->rx.job_tail; i++)
		if (rq->rx.jobs[i % REMOTE_JOBS].msn == h->msn)
			return; /* it is being answered */
	if (rq->rx.nak_due)
		return;
	/* it was answered; should the requester have thrown that away, the NAK comes behind it */
	rq->rx.nak_due = true;
	rq->rx.nak_msn = h->msn;
	rq->rx.nak_code = NAK_RETRY;
	rq->rx.nak_tag = rq->rx.tag;
	wire_tx(f, rq);
}

void response_wait(struct fast *f, struct remote_qp *rq)
{
	rx_to(rq, has_recv(rq) ? RX_STALL_RECV : RX_STALL);
	remote_stall(f, rq);
}

void response_recv_gone(struct fast *f, struct remote_qp *rq)
{
	if (!has_recv(rq))
		return;
	rx_unmatch(rq);
	wire_rx_forget(rq);
	nak(f, rq, rq->rx.msn, NAK_RETRY);
}

struct side response_side(struct remote_qp *rq)
{
	if (ff_op_sends(rq->rx.wr.opcode))
		return side_of_recv(rq->qp);
	return (struct side){
		.sge = &rq->rx.at,
		.num_sge = 1,
		.keys = &rq->qp->o.ses->cont->keys,
		.pd = rq->qp->pd,
		.qp = rq->qp,
		.access = IBV_ACCESS_REMOTE_WRITE,
	};
}

void response_bad(struct fast *f, struct remote_qp *rq, enum ff_vendor_err why)
{
	uint32_t tag = rq->rx.tag, msn = rq->rx.msn;

	if (!ff_op_sends(rq->rx.wr.opcode)) {
		refuse(f, rq, msn, ANS_REM_ACCESS);
		return;
	}
	if (!has_recv(rq)) /* its receive went while the lock was given away, and that was told */
		return;
	rx_unmatch(rq);
	tell_refusal(f, rq, msn, tag, responder_fault(f, rq->qp, why));
}

/* ---- a request is complete ------------------------------------------------------------------------------ */

/* An answer that comes at once takes the ACK with it. Is one to be expected, and waited for? */
static bool hold_ack(struct fast *f, struct remote_qp *rq)
{
	if (rq->rx.dialog < DIALOG_MIN)
		return false;
	if (!rq->rx.ack_due && !timer_arm(&f->timers, &rq->rx.ack_timer, f->now + REMOTE_ACK_HOLD))
		return true;
	rq->rx.dialog = 0; /* two messages and no answer */
	return false;
}

void response_timer(struct timer *t)
{
	struct remote_qp *rq =
		(struct remote_qp *)((char *)t - offsetof(struct remote_qp, rx.ack_timer));

	rq->rx.dialog = 0;
	wire_tx(rq->qp->o.ses->fast, rq);
}

void response_spoke(struct fast *f, struct remote_qp *rq)
{
	if (f->now - rq->rx.done < REMOTE_ACK_HOLD && rq->rx.dialog < DIALOG_MIN)
		rq->rx.dialog++;
	rq->rx.done = 0; /* what else it sends answers nothing */
}

static void next_message(struct fast *f, struct remote_qp *rq, bool ack)
{
	rq->rx.msn++;
	rq->rx.off = 0;
	rx_to(rq, RX_EXPECT);
	if (ack && qp_is_reliable(rq->qp)) {
		bool hold = hold_ack(f, rq);

		rq->rx.ack_due = true;
		rq->rx.done = f->now;
		if (!hold)
			wire_tx(f, rq);
	}
}

static void message_done(struct fast *f, struct remote_qp *rq)
{
	struct qp *qp = rq->qp;
	struct remote *there = qp->soft->there;
	struct origin o = {
		.wr = &rq->rx.wr,
		.qp_num = qp->attr.dest_qp_num,
		.lid = there->lid,
		.sl = qp->attr.ah.sl,
	};
	uint32_t incarnation = rq->incarnation;
	bool matched = rq->rx.state == RX_TAKE_RECV;

	if (!responder_invalidate(qp, &rq->rx.wr)) {
		refuse(f, rq, rq->rx.msn, ANS_REM_ACCESS);
		return;
	}
	qp->stats.rx_bytes += rq->rx.wr.length;
	if (rq->rx.wr.length)
		fast_data_to(f, qp->o.ses);
	else
		fast_note_to(f, qp->o.ses);
	if (matched)
		responder_complete(f, qp, &o);
	if (rq->incarnation == incarnation) /* else its CQ has overrun */
		next_message(f, rq, true);
}

static struct job *new_job(struct remote_qp *rq, uint32_t msn)
{
	struct job *j;

	if (!rq->rx.jobs)
		rq->rx.jobs = calloc(REMOTE_JOBS, sizeof(*rq->rx.jobs));
	if (!rq->rx.jobs || rq->rx.job_tail - rq->rx.job_head >= REMOTE_JOBS)
		return NULL;
	j = &rq->rx.jobs[rq->rx.job_tail++ % REMOTE_JOBS];
	memset(j, 0, sizeof(*j));
	j->msn = msn;
	return j;
}

/* False: too many at once; the requester has broken its own limit. */
static bool read_job(struct fast *f, struct remote_qp *rq, uint32_t msn, const struct send_wr *wr)
{
	struct job *j = new_job(rq, msn);

	if (!j)
		return false;
	j->at = (struct ff_sge){ wr->remote_addr, (uint32_t)wr->length, wr->rkey };
	wire_tx(f, rq);
	return true;
}

static bool atomic_job(struct fast *f, struct remote_qp *rq, uint32_t msn, uint64_t orig)
{
	struct job *j = new_job(rq, msn);

	if (!j)
		return false;
	j->is_atomic = true;
	j->orig = orig;
	wire_tx(f, rq);
	return true;
}

void response_fetch_again(struct fast *f, struct remote_qp *rq, const struct wire_hdr *h)
{
	struct send_wr wr = { .opcode = h->opcode,
			      .remote_addr = h->req.addr,
			      .length = h->req.length,
			      .rkey = h->req.rkey,
			      .remote_srqn = h->req.srqn };

	if (h->opcode == FF_OP_READ) {
		/* as when it came first; what may not be read now gets no answer */
		if (responder_admit(f, rq->qp, &wr) == ANS_OK)
			read_job(f, rq, h->msn, &wr);
		return;
	}
	for (uint32_t i = 0; rq->rx.atomics && i < REMOTE_JOBS && i < rq->rx.num_atomics; i++)
		if (rq->rx.atomics[i].msn == h->msn) {
			atomic_job(f, rq, h->msn, rq->rx.atomics[i].orig);
			return;
		}
}

static enum lock atomic(struct fast *f, struct remote_qp *rq)
{
	struct side dst = {
		.sge = &rq->rx.at,
		.num_sge = 1,
		.keys = &rq->qp->o.ses->cont->keys,
		.pd = rq->qp->pd,
		.qp = rq->qp,
		.access = IBV_ACCESS_REMOTE_ATOMIC,
	};
	enum ff_vendor_err why = FF_VERR_NONE;
	uint64_t epoch = f->epoch;
	struct qp *qp = rq->qp;
	enum xfer_result r;

	if (!rq->rx.atomics)
		rq->rx.atomics = calloc(REMOTE_JOBS, sizeof(*rq->rx.atomics));
	if (!rq->rx.atomics) {
		nak(f, rq, rq->rx.msn, NAK_RETRY);
		return LOCK_KEPT;
	}
	r = atomic_run(f, &rq->rx.x, &rq->rx.wr, &dst, &rq->rx.at, &why);
	if (r == XFER_GONE)
		return LOCK_GIVEN;
	if (r == XFER_WAIT || r == XFER_MORE) {
		response_wait(f, rq);
		return f->epoch == epoch ? LOCK_KEPT : LOCK_GIVEN;
	}
	if (f->epoch != epoch && (rq != qp->soft->rem || rq->rx.state == RX_CLOSED))
		return LOCK_GIVEN;
	rq->rx.x.atomic_step = 0;
	if (r != XFER_DONE) {
		refuse(f, rq, rq->rx.msn, ANS_REM_ACCESS);
	} else {
		uint32_t i = rq->rx.num_atomics++ % REMOTE_JOBS;
		bool dropped = drops(rq); /* what came while it was behind a process */

		rq->rx.atomics[i].msn = rq->rx.msn;
		rq->rx.atomics[i].orig = rq->rx.x.atomic_orig;
		atomic_job(f, rq, rq->rx.msn, rq->rx.x.atomic_orig); /* or it is asked again */
		fast_data_to(f, qp->o.ses);
		next_message(f, rq, false);
		if (dropped)
			rx_drop(rq);
	}
	return f->epoch == epoch ? LOCK_KEPT : LOCK_GIVEN;
}

enum lock response_end(struct fast *f, struct remote_qp *rq, const struct wire_hdr *h)
{
	if (is_atomic(h->opcode))
		return atomic(f, rq);
	if (h->opcode == FF_OP_READ) {
		if (read_job(f, rq, h->msn, &rq->rx.wr))
			next_message(f, rq, false);
		else
			refuse(f, rq, h->msn, ANS_INV_REQ);
		return LOCK_KEPT;
	}
	rq->rx.off += h->len;
	if (h->flags & WIRE_LAST)
		message_done(f, rq);
	return LOCK_KEPT;
}

/* What the QP waited for behind a process is there, or has failed. */
void response_stalled(struct fast *f, struct remote_qp *rq)
{
	if (!stalls(rq))
		return;
	rx_unstall(rq);
	if (is_atomic(rq->rx.wr.opcode)) {
		uint32_t msn = rq->rx.msn;

		if (atomic(f, rq) == LOCK_GIVEN || stalls(rq))
			return;
		if (rq->rx.msn != msn) /* what came meanwhile was thrown away */
			nak(f, rq, rq->rx.msn, NAK_SEQ);
		return;
	}
	if (rq->rx.x.call) {
		int result = rq->rx.x.call->result;

		xfer_reset(f, &rq->rx.x);
		if (result) {
			response_bad(f, rq, FF_VERR_FAULT);
			return;
		}
	}
	nak(f, rq, rq->rx.msn, NAK_RETRY);
}

/* ---- what is sent ---------------------------------------------------------------------------------------- */

static void answer_hdr(const struct remote_qp *rq, struct frame *fr, enum wire_type type,
		       uint32_t msn)
{
	remote_hdr(rq, &fr->h, type);
	fr->h.tag = rq->rx.tag;
	fr->h.msn = msn;
}

/* The next part of what a READ asked for. */
static enum next data_next(struct fast *f, struct remote_qp *rq, struct frame *fr)
{
	struct job *j = &rq->rx.jobs[rq->rx.job_head % REMOTE_JOBS];
	uint64_t len = j->at.length - j->off, n = 0;
	enum ff_vendor_err why = FF_VERR_NONE;
	struct side src = {
		.sge = &j->at,
		.num_sge = 1,
		.keys = &rq->qp->o.ses->cont->keys,
		.pd = rq->qp->pd,
		.qp = rq->qp,
		.access = IBV_ACCESS_REMOTE_READ,
	};
	enum next r = NEXT_FRAME;
	bool wait;

	answer_hdr(rq, fr, WIRE_READ_DATA, j->msn);
	fr->h.offset = j->off;
	fr->kind = FRAME_DATA;
	fr->old_nxt = rq->rx.job_head;
	fr->old_off = j->off;
	if (len > WIRE_PAYLOAD_MAX)
		len = WIRE_PAYLOAD_MAX;
	len = remote_rate_ask(f, rq, REMOTE_RATE_SERVE, RATE_SERVE, len, &wait);
	if (wait)
		return NEXT_NONE;
	if (len) {
		int num = xfer_iov(&src, j->off, len, fr->iov, FRAME_IOVS, &n, &why);

		if (num > 0) {
			fr->num_iov = (unsigned)num;
			fr->h.len = (uint32_t)n;
		} else if (num < 0) {
			r = NEXT_FAULT;
		} else {
			r = remote_fetch_bytes(f, rq, &src, true, j->msn, j->off, n, fr, &why);
		}
	}
	if (r == NEXT_FAULT) {
		uint32_t msn = j->msn;

		rq->rx.job_head = rq->rx.job_tail;
		refuse(f, rq, msn, ANS_REM_ACCESS);
		return response_next(f, rq, fr);
	}
	if (r != NEXT_FRAME)
		return r;
	remote_rate_charge(f, rq, REMOTE_RATE_SERVE, RATE_SERVE, fr->h.len, !j->off);
	j->off += fr->h.len;
	rq->qp->stats.tx_bytes += fr->h.len;
	if (j->off == j->at.length) {
		fr->h.flags = WIRE_LAST;
		rq->rx.job_head++;
	}
	return NEXT_FRAME;
}

static enum next job_next(struct fast *f, struct remote_qp *rq, struct frame *fr)
{
	const struct job *j = &rq->rx.jobs[rq->rx.job_head % REMOTE_JOBS];

	if (!j->is_atomic)
		return data_next(f, rq, fr);
	answer_hdr(rq, fr, WIRE_ATOMIC_DATA, j->msn);
	fr->h.atomic_data.orig = j->orig;
	fr->kind = FRAME_ATOMIC;
	fr->old_nxt = rq->rx.job_head++;
	return NEXT_FRAME;
}

enum next response_next(struct fast *f, struct remote_qp *rq, struct frame *fr)
{
	fr->incarnation = rq->incarnation;
	if (rq->rx.ack_due) {
		rq->rx.ack_due = false;
		timer_cancel(&f->timers, &rq->rx.ack_timer);
		fr->kind = FRAME_ACK;
		answer_hdr(rq, fr, WIRE_ACK, rq->rx.msn - 1);
		return NEXT_FRAME;
	}
	if (rq->rx.nak_due) {
		rq->rx.nak_due = false;
		fr->kind = FRAME_NAK;
		answer_hdr(rq, fr, WIRE_NAK, rq->rx.nak_msn);
		fr->h.tag = rq->rx.nak_tag;
		fr->h.code = (uint8_t)rq->rx.nak_code;
		fr->h.nak.rnr_timer = rq->qp->attr.min_rnr_timer;
		return NEXT_FRAME;
	}
	if (rq->rx.go_due) {
		rq->rx.go_due = false;
		fr->kind = FRAME_GO;
		answer_hdr(rq, fr, WIRE_GO, rq->rx.msn);
		return NEXT_FRAME;
	}
	if (has_jobs(rq))
		return job_next(f, rq, fr);
	if (refuses(rq)) {
		bool misfit = rq->rx.state == RX_MISFIT;
		uint32_t tag = rq->rx.tag;

		rx_to(rq, has_recv(rq) ? RX_DROP_RECV : RX_DROP);
		if (misfit)
			tell_refusal(f, rq, rq->rx.msn, tag, responder_recv(f, rq->qp, &rq->rx.wr));
		else
			refuse(f, rq, rq->rx.msn, rq->rx.why);
		return rq->rx.nak_due ? response_next(f, rq, fr) : NEXT_NONE;
	}
	return NEXT_NONE;
}

void response_abort(struct fast *f, struct remote_qp *rq)
{
	xfer_reset(f, &rq->rx.x);
	rq->rx.x.atomic_step = 0;
	not_owed(rq);
	rx_to(rq, RX_CLOSED);
	timer_cancel(&f->timers, &rq->rx.ack_timer);
	rq->rx.dialog = 0;
	rq->rx.nak_due = rq->rx.ack_due = rq->rx.go_due = false;
	rq->rx.job_head = rq->rx.job_tail = 0;
	rq->rx.num_atomics = 0;
}
