/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * resp.c - the responder's half of a QP whose peer is on another host: what comes in. [lock]
 * remote.h has the theory, soft/responder.c what is the same on one host; remote.c brings frames,
 * wire/tx.c fetches them; answer.c has what is sent back.
 *
 * A frame is looked at when its header is there (response_begin), before its payload comes: who sends
 * it, whether it is the next of its message and the message the next of its QP, whether it may be
 * carried out, and where it goes to. Fetches become jobs.
 */
#include "ffr/remote/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

static bool drops(const struct remote_qp *rq)
{
	return rq->rx.state == RX_DROP || rq->rx.state == RX_DROP_RECV;
}

/* The next part of msn is taken, or its first. */
static bool takes(const struct remote_qp *rq)
{
	return rq->rx.state == RX_EXPECT || rq->rx.state == RX_TAKE || rq->rx.state == RX_TAKE_RECV;
}

bool response_stalls(const struct remote_qp *rq)
{
	return rq->rx.state == RX_STALL || rq->rx.state == RX_STALL_RECV ||
	       rq->rx.state == RX_STALL_CUT;
}

/* On the next connection the message comes from its beginning. What came of it may have lost its receive. */
static void rx_anew(struct remote_qp *rq)
{
	rq->rx.off = 0;
	rx_to(rq, RX_EXPECT);
}

/* The rest of the message comes. */
static void rx_go_on(struct remote_qp *rq)
{
	if (rq->rx.state == RX_DROP)
		rx_to(rq, RX_TAKE);
	if (rq->rx.state == RX_DROP_RECV)
		rx_to(rq, RX_TAKE_RECV);
}

void rx_hold(struct remote_qp *rq)
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

void rx_drop(struct remote_qp *rq)
{
	rq->rx.off = 0;
	rx_hold(rq);
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

/* ---- a request comes ----------------------------------------------------------------------------------- */

/* An atomic that is answered with what it found. */
static bool is_atomic(uint8_t opcode)
{
	return opcode == FF_OP_CMP_SWAP || opcode == FF_OP_FETCH_ADD;
}

/* The QP that it is for, if that one is connected to the sender. */
static struct remote_qp *responder_of(struct fast *f, const struct wire_peer *p,
				      const struct wire_hdr *h)
{
	struct qp *qp = qp_here(f, h->dst_cont, h->dst_qpn);
	struct remote_qp *rq;

	if (!qp || qp->type == IBV_QPT_UD || qp->type == IBV_QPT_XRC_SEND || !route_receives(qp) ||
	    qp->attr.dest_qp_num != h->src_qpn || qp->o.ses->cont->epoch != h->dst_epoch)
		return NULL;
	if (!qp->soft->rem && !qp->dest)
		route_resolve(f, qp);
	rq = qp->soft->rem;
	if (!rq || rq->wire.peer != p || !remote_is_peer(rq) || rq->cont != h->src_cont ||
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
		return qp_is_reliable(qp) && !h->len && (!h->offset || h->offset < h->req.length) &&
		       h->req.length <= FF_MAX_MSG_SZ;
	case FF_OP_CMP_SWAP:
	case FF_OP_FETCH_ADD:
	case FF_OP_ATOMIC_WRITE:
		return qp_is_reliable(qp) && !h->len && !h->offset;
	case FF_OP_FLUSH:
		return qp_is_reliable(qp) && !h->len && !h->offset && h->flush.types &&
		       !(h->flush.types & ~FF_FLUSH_TYPES) && h->flush.level <= FF_FLUSH_MR &&
		       h->flush.length <= UINT32_MAX;
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
	if (ff_op_is_word(h->opcode)) {
		wr->remote_addr = h->atomic.addr;
		wr->compare_add = h->atomic.compare_add;
		wr->swap = h->atomic.swap;
		wr->rkey = h->atomic.rkey;
		wr->remote_srqn = h->atomic.srqn;
		wr->length = sizeof(uint64_t);
	} else if (h->opcode == FF_OP_FLUSH) {
		wr->remote_addr = h->flush.addr;
		wr->flush.length = h->flush.length;
		wr->flush.types = h->flush.types;
		wr->flush.level = h->flush.level;
		wr->rkey = h->flush.rkey;
		wr->remote_srqn = h->flush.srqn;
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
		answer_refuse(f, rq, h->msn, a);
		return false;
	}
	if (h->flags & WIRE_PROBE) {
		answer_nak(f, rq, h->msn, NAK_PROBE_OK);
		return false;
	}
	if (!ff_op_fetches(h->opcode)) {
		bool wait;

		remote_rate_ask(f, rq, REMOTE_RATE_RECV, RATE_RX, 1, &wait);
		if (wait) {
			answer_nak(f, rq, h->msn, NAK_BUSY);
			return false;
		}
	}
	if (!op_takes_recv(h->opcode)) {
		rx_to(rq, RX_TAKE);
		return true;
	}
	if (answer_has_jobs(rq)) { /* they come first, should this end the connection */
		a = responder_fits(f, qp, &rq->rx.wr);
		if (a == ANS_INV_REQ || a == ANS_REM_OP) {
			rx_to(rq, RX_MISFIT);
			return false;
		}
	}
	a = responder_recv(f, qp, &rq->rx.wr);
	if (a == ANS_OK) {
		rx_to(rq, RX_TAKE_RECV);
		answer_not_owed(rq);
		return true;
	}
	if (a == ANS_RNR)
		answer_rnr(f, rq);
	else if (a == ANS_DROP)
		rx_drop(rq);
	else /* the QP is in error already */
		answer_tell_refusal(f, rq, h->msn, tag, a);
	return false;
}

/* A message that was carried out before: its answer was lost. */
static void again(struct fast *f, struct remote_qp *rq, const struct wire_hdr *h)
{
	if (h->opcode == FF_OP_READ || is_atomic(h->opcode))
		response_fetch_again(f, rq, h);
	else if ((h->flags & WIRE_LAST) && qp_is_reliable(rq->qp)) {
		rq->rx.ack_due = true;
		wire_tx(f, &rq->wire);
	}
}

/*
 * A part that is not the first of its message. After a stall the requester is told to go on behind the bytes that are
 * there, and parts that were on their way then may be what comes next, and come twice. False: it is thrown away.
 */
static bool goes_on(struct fast *f, struct remote_qp *rq, const struct wire_hdr *h)
{
	bool same = h->opcode == rq->rx.wr.opcode && h->req.length == rq->rx.wr.length;

	if (same && h->offset == rq->rx.off) {
		rx_go_on(rq);
		return true;
	}
	if (drops(rq) || (same && h->offset < rq->rx.off))
		return false;
	if (same)
		answer_go_on(f, rq, NAK_SEQ);
	else
		answer_nak(f, rq, rq->rx.msn, NAK_SEQ);
	return false;
}

enum sink response_begin(struct fast *f, struct wire_peer *p, const struct wire_hdr *h,
			 struct wire_qp **out)
{
	struct remote_qp *rq = responder_of(f, p, h);
	int32_t ahead;

	if (!rq) {
		remote_meet(f, p, h);
		answer_stranger(f, p, h);
		return SINK_DISCARD;
	}
	if (!is_sound(rq->qp, h))
		return SINK_DISCARD; /* a router that lies: nothing here is to suffer from it */
	ahead = (int32_t)(h->msn - rq->rx.msn);
	if (rq->qp->type == IBV_QPT_UC && ahead > 0 && !h->offset && !response_stalls(rq)) {
		rq->rx.msn = h->msn; /* what is missing is lost */
		ahead = 0;
		rq->rx.off = 0;
	}
	if (ahead < 0) {
		again(f, rq, h);
		return SINK_DISCARD;
	}
	if (response_stalls(rq) || rx_refuses(rq))
		return SINK_DISCARD;
	if (ahead > 0) {
		if (!drops(rq))
			answer_nak(f, rq, rq->rx.msn, NAK_SEQ);
		return SINK_DISCARD;
	}
	if (!h->offset || h->opcode == FF_OP_READ ? !start(f, rq, h) : !goes_on(f, rq, h))
		return SINK_DISCARD;
	if (!ff_op_fetches(h->opcode))
		remote_rate_charge(f, rq, REMOTE_RATE_RECV, RATE_RX, h->len, !h->offset);
	*out = &rq->wire;
	return SINK_QP;
}

void response_asked(struct fast *f, struct wire_peer *p, const struct wire_hdr *h)
{
	struct remote_qp *rq = responder_of(f, p, h);

	if (!rq) {
		answer_stranger(f, p, h);
		return;
	}
	if ((int32_t)(h->msn - rq->rx.msn) >= 0) {
		/* it is on its way, or waits for something that will be told; or is thrown away */
		if (h->msn == rq->rx.msn && !rq->rx.rnr_owed &&
		    (drops(rq) || (h->flags & WIRE_STEP && takes(rq))))
			answer_go_on(f, rq, NAK_RETRY);
		return;
	}
	if (h->flags & WIRE_STEP ||
	    !ff_op_fetches(h->opcode)) { /* its ACK may be on the way, behind much else */
		rq->rx.ack_due = true;
		wire_tx(f, &rq->wire);
		return;
	}
	if (!answer_is_due(rq, h->msn))
		answer_lost(f, rq, h->msn);
}

void response_wait(struct fast *f, struct remote_qp *rq, uint64_t off)
{
	rq->rx.off = off;
	rx_to(rq, rx_has_recv(rq) ? RX_STALL_RECV : RX_STALL);
	remote_stall(f, rq);
}

void response_recv_gone(struct fast *f, struct remote_qp *rq)
{
	if (!rx_has_recv(rq))
		return;
	rx_unmatch(rq);
	wire_rx_forget(&rq->wire);
	answer_nak(f, rq, rq->rx.msn, NAK_RETRY);
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
		answer_refuse(f, rq, msn, ANS_REM_ACCESS);
		return;
	}
	if (!rx_has_recv(rq)) /* its receive went meanwhile, and that was told */
		return;
	rx_unmatch(rq);
	answer_tell_refusal(f, rq, msn, tag, responder_fault(f, rq->qp, why));
}

/* ---- a request is complete ------------------------------------------------------------------------------ */

static void next_message(struct fast *f, struct remote_qp *rq, bool ack)
{
	rq->rx.msn++;
	rq->rx.off = 0;
	rx_to(rq, RX_EXPECT);
	if (ack && qp_is_reliable(rq->qp)) {
		bool hold = answer_hold_ack(f, rq);

		rq->rx.ack_due = true;
		rq->rx.done = f->now;
		if (!hold)
			wire_tx(f, &rq->wire);
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
		answer_refuse(f, rq, rq->rx.msn, ANS_REM_ACCESS);
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

/* Carry the atomic out, as far as it goes. XFER_DONE: its answer is on the way, but an ATOMIC_WRITE's ACK. */
static enum xfer_result atomic(struct fast *f, struct remote_qp *rq)
{
	struct side dst = {
		.sge = &rq->rx.at,
		.num_sge = 1,
		.keys = &rq->qp->o.ses->cont->keys,
		.pd = rq->qp->pd,
		.qp = rq->qp,
		.access = op_remote_access(rq->rx.wr.opcode),
	};
	enum ff_vendor_err why = FF_VERR_NONE;
	enum xfer_result r;
	uint32_t i;

	if (!rq->rx.atomics)
		rq->rx.atomics = calloc(REMOTE_JOBS, sizeof(*rq->rx.atomics));
	if (!rq->rx.atomics)
		return XFER_MORE;
	r = atomic_run(f, &rq->rx.x, &rq->rx.wr, &dst, &rq->rx.at, &why);
	if (r == XFER_WAIT || r == XFER_MORE || r == XFER_NEXT)
		return r;
	rx_unstall(rq);
	rq->rx.x.atomic_step = 0;
	if (r != XFER_DONE) {
		answer_refuse(f, rq, rq->rx.msn, ANS_REM_ACCESS);
		return r;
	}
	if (rq->rx.wr.opcode == FF_OP_ATOMIC_WRITE) {
		fast_data_to(f, rq->qp->o.ses);
		return XFER_DONE;
	}
	i = rq->rx.num_atomics++ % REMOTE_JOBS;
	rq->rx.atomics[i].msn = rq->rx.msn;
	rq->rx.atomics[i].orig = rq->rx.x.atomic_orig;
	answer_atomic(f, rq, rq->rx.msn, rq->rx.x.atomic_orig); /* or it is asked again */
	fast_data_to(f, rq->qp->o.ses);
	return XFER_DONE;
}

bool response_end(struct fast *f, struct remote_qp *rq, const struct wire_hdr *h)
{
	if (ff_op_is_word(h->opcode)) {
		switch (atomic(f, rq)) {
		case XFER_MORE:
		case XFER_NEXT:
			return false;
		case XFER_WAIT:
			response_wait(f, rq, 0);
			return true;
		case XFER_DONE:
			next_message(f, rq, !is_atomic(h->opcode));
			return true;
		default:
			return true;
		}
	}
	if (h->opcode == FF_OP_READ) {
		if (answer_read(f, rq, h, &rq->rx.wr))
			next_message(f, rq, false);
		else
			answer_refuse(f, rq, h->msn, ANS_INV_REQ);
		return true;
	}
	if (h->opcode == FF_OP_FLUSH) {
		if (responder_flush(rq->qp, &rq->rx.wr))
			next_message(f, rq, true);
		else
			answer_refuse(f, rq, h->msn, ANS_REM_ACCESS);
		return true;
	}
	rq->rx.off += h->len;
	if (h->flags & WIRE_LAST)
		message_done(f, rq);
	return true;
}

/* The message is done after a stall: what came behind it meanwhile was thrown away. */
static void rest_again(struct fast *f, struct remote_qp *rq)
{
	answer_nak(f, rq, rq->rx.msn, NAK_SEQ);
}

/* The atomic that the QP stalls for goes on. */
static void atomic_stalled(struct fast *f, struct remote_qp *rq)
{
	switch (atomic(f, rq)) {
	case XFER_MORE:
	case XFER_NEXT:
	case XFER_WAIT:
		remote_stall(f, rq);
		return;
	case XFER_DONE:
		break;
	default:
		return;
	}
	next_message(f, rq, !is_atomic(rq->rx.wr.opcode));
	rest_again(f, rq);
}

/* What the QP waited for behind a process may be there, or have failed. */
void response_stalled(struct fast *f, struct remote_qp *rq)
{
	if (!response_stalls(rq))
		return;
	if (ff_op_is_word(rq->rx.wr.opcode)) {
		atomic_stalled(f, rq);
		return;
	}
	if (rq->rx.x.call) {
		int result = rq->rx.x.call->result;

		if (!result)
			rq->rx.off += rq->rx.x.call->len;
		xfer_reset(f, &rq->rx.x);
		if (result == -EFAULT) {
			rx_unstall(rq);
			response_bad(f, rq, FF_VERR_FAULT);
			return;
		}
	}
	rx_unstall(rq);
	if (!drops(rq) || rx_has_recv(rq) != op_takes_recv(rq->rx.wr.opcode)) {
		answer_nak(f, rq, rq->rx.msn, NAK_RETRY); /* it begins anew, with another receive */
	} else if (rq->rx.off < rq->rx.wr.length) {
		answer_go_on(f, rq, NAK_RETRY);
	} else {
		uint32_t msn = rq->rx.msn;

		rx_go_on(rq);
		message_done(f, rq);
		if (rq->rx.state == RX_EXPECT && rq->rx.msn != msn)
			rest_again(f, rq);
	}
}

/* ---- the end ------------------------------------------------------------------------------------------ */

void response_abort(struct fast *f, struct remote_qp *rq)
{
	answer_last(f, rq);
	xfer_reset(f, &rq->rx.x);
	rq->rx.x.atomic_step = 0;
	answer_not_owed(rq);
	rx_to(rq, RX_CLOSED);
	rq->rx.off = 0;
	timer_cancel(&f->timers, &rq->rx.ack_timer);
	rq->rx.dialog = 0;
	rq->rx.nak_due = rq->rx.ack_due = rq->rx.go_due = false;
	rq->rx.job_head = rq->rx.job_tail = 0;
	rq->rx.num_atomics = 0;
}
