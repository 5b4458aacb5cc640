/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * answer.c - what a responder says to a peer on another host: ACK, NAK, GO, and what was fetched. [lock]
 * resp.c tells what is due; wire/tx.c asks for a frame when the QP has its turn.
 *
 * An ACK waits a moment where the program's own answer is to be expected, which takes it along. A fetch is a
 * job: jobs are answered in order, frame by frame in turn with other QPs'. What a later message is refused
 * for is told of behind them.
 */
#include "ffr/remote/remote.h"

#include <stdlib.h>
#include <string.h>

/* Messages in a row that were answered at once, before the next ACK waits for the answer. */
#define DIALOG_MIN 4

/* ---- refusals ------------------------------------------------------------------------------------------ */

void answer_stranger(struct fast *f, struct wire_peer *p, const struct wire_hdr *h)
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

	if (!h->offset || h->opcode == FF_OP_READ)
		wire_send(f, p, &nak, NULL);
}

static void nak(struct fast *f, struct remote_qp *rq, uint32_t msn, uint64_t off,
		enum wire_nak code)
{
	rq->rx.nak_due = true;
	rq->rx.nak_msn = msn;
	rq->rx.nak_off = off;
	rq->rx.nak_code = code;
	rq->rx.nak_tag = rq->rx.tag;
	wire_tx(f, &rq->wire);
}

void answer_nak(struct fast *f, struct remote_qp *rq, uint32_t msn, enum wire_nak code)
{
	rx_drop(rq);
	if (qp_is_reliable(rq->qp) || code == NAK_PROBE_OK)
		nak(f, rq, msn, 0, code);
}

void answer_go_on(struct fast *f, struct remote_qp *rq, enum wire_nak code)
{
	if (qp_is_reliable(rq->qp)) {
		rx_hold(rq);
		nak(f, rq, rq->rx.msn, rq->rx.off, code);
	} else {
		rx_drop(rq); /* what is missing is lost */
	}
}

void answer_lost(struct fast *f, struct remote_qp *rq, uint32_t msn)
{
	if (!rq->rx.nak_due)
		nak(f, rq, msn, 0, NAK_RETRY);
}

void answer_tell_refusal(struct fast *f, struct remote_qp *rq, uint32_t msn, uint32_t tag,
			 enum answer a)
{
	rq->rx.tag = tag;
	if (rq->qp->o.ses->mem_gone) /* nobody is there to refuse anything */
		a = ANS_DROP;
	switch (a) {
	case ANS_INV_REQ:
		answer_nak(f, rq, msn, NAK_INV_REQ);
		break;
	case ANS_REM_ACCESS:
		answer_nak(f, rq, msn, NAK_REM_ACCESS);
		break;
	case ANS_REM_OP:
		answer_nak(f, rq, msn, NAK_REM_OP);
		break;
	default:
		rx_drop(rq);
		break;
	}
}

void answer_refuse(struct fast *f, struct remote_qp *rq, uint32_t msn, enum answer a)
{
	uint32_t tag = rq->rx.tag;

	if (answer_has_jobs(rq) && msn == rq->rx.msn) {
		rx_to(rq, rx_has_recv(rq) ? RX_REFUSE_RECV : RX_REFUSE);
		rq->rx.why = a;
		return;
	}
	answer_tell_refusal(f, rq, msn, tag, responder_refuse(f, rq->qp, a));
}

void answer_rnr(struct fast *f, struct remote_qp *rq)
{
	struct qp *qp = rq->qp;

	answer_nak(f, rq, rq->rx.msn, NAK_RNR);
	if (!rq->rx.rnr_owed && qp->srq) {
		LIST_INSERT_HEAD(&qp->srq->rnr_owed, rq, rx.of_srq);
		rq->rx.at_srq = true;
	}
	rq->rx.rnr_owed = true;
	/* a hint without a fence on either side: when it is missed, the requester tries again */
	atomic_store_explicit(qp->srq ? &qp->srq->hdr->need : &qp->hdr->rq_need, 1,
			      memory_order_relaxed);
}

void answer_not_owed(struct remote_qp *rq)
{
	if (rq->rx.at_srq)
		LIST_REMOVE(rq, rx.of_srq);
	rq->rx.rnr_owed = rq->rx.at_srq = false;
}

void response_recv_posted(struct fast *f, struct remote_qp *rq)
{
	if (!rq->rx.rnr_owed)
		return;
	answer_not_owed(rq);
	rq->rx.go_due = true;
	wire_tx(f, &rq->wire);
}

/* ---- acknowledgements ---------------------------------------------------------------------------------- */

bool answer_hold_ack(struct fast *f, struct remote_qp *rq)
{
	if (rq->rx.dialog < DIALOG_MIN)
		return false;
	if (!rq->rx.ack_due && !timer_arm(&f->timers, &rq->rx.ack_timer, f->now + REMOTE_ACK_HOLD))
		return true;
	rq->rx.dialog = 0; /* two messages and no answer */
	return false;
}

/* Is the ACK held back for the program's answer, which the router may be reading from memory behind a process? */
static bool is_held(const struct remote_qp *rq)
{
	return rq->rx.ack_timer.index && rq->rx.done && rq->rx.dialog >= DIALOG_MIN;
}

void response_timer(struct timer *t)
{
	struct remote_qp *rq =
		(struct remote_qp *)((char *)t - offsetof(struct remote_qp, rx.ack_timer));

	rq->rx.dialog = 0;
	wire_tx(rq->qp->o.ses->fast, &rq->wire);
}

void response_spoke(struct fast *f, struct remote_qp *rq)
{
	if (f->now - rq->rx.done < REMOTE_ACK_HOLD && rq->rx.dialog < DIALOG_MIN)
		rq->rx.dialog++;
	rq->rx.done = 0; /* what else it sends answers nothing */
}

/* ---- jobs ---------------------------------------------------------------------------------------------- */

/* The fetch is being answered, or will be. */
static struct job *job_of(const struct remote_qp *rq, uint32_t msn)
{
	for (uint32_t i = rq->rx.job_head; i != rq->rx.job_tail; i++)
		if (rq->rx.jobs[i % REMOTE_JOBS].msn == msn)
			return &rq->rx.jobs[i % REMOTE_JOBS];
	return NULL;
}

bool answer_is_due(const struct remote_qp *rq, uint32_t msn)
{
	return job_of(rq, msn) != NULL;
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

bool answer_read(struct fast *f, struct remote_qp *rq, const struct wire_hdr *h,
		 const struct send_wr *wr)
{
	struct job *j = job_of(rq, h->msn); /* what is sent of it now is not taken */
	uint32_t most = h->req.most;

	if (!j)
		j = new_job(rq, h->msn);
	if (!j)
		return false;
	j->off = h->offset;
	j->end = most && most < wr->length - j->off ? j->off + most : wr->length;
	j->at = (struct ff_sge){ wr->remote_addr, (uint32_t)wr->length, wr->rkey };
	wire_tx(f, &rq->wire);
	return true;
}

bool answer_atomic(struct fast *f, struct remote_qp *rq, uint32_t msn, uint64_t orig)
{
	struct job *j = new_job(rq, msn);

	if (!j)
		return false;
	j->is_atomic = true;
	j->orig = orig;
	wire_tx(f, &rq->wire);
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
			answer_read(f, rq, h, &wr);
		return;
	}
	for (uint32_t i = 0; rq->rx.atomics && i < REMOTE_JOBS && i < rq->rx.num_atomics; i++)
		if (rq->rx.atomics[i].msn == h->msn) {
			answer_atomic(f, rq, h->msn, rq->rx.atomics[i].orig);
			return;
		}
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
	uint64_t len = j->end - j->off, n = 0;
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
			remote_fetch_needless(f, rq, true);
			fr->num_iov = (unsigned)num;
			fr->h.len = (uint32_t)n;
		} else if (num < 0) {
			r = NEXT_FAULT;
		} else {
			r = remote_fetch_bytes(f, rq, &src, true, j->msn, j->off, n, fr, &why);
		}
	}
	if (r == NEXT_FAULT && wire_batch_has(&rq->wire))
		return NEXT_BATCH;
	if (r == NEXT_FAULT) {
		uint32_t msn = j->msn;

		rq->rx.job_head = rq->rx.job_tail;
		answer_refuse(f, rq, msn, ANS_REM_ACCESS);
		return response_next(f, rq, fr);
	}
	if (r != NEXT_FRAME)
		return r;
	remote_rate_charge(f, rq, REMOTE_RATE_SERVE, RATE_SERVE, fr->h.len, !j->off);
	j->off += fr->h.len;
	rq->qp->stats.tx_bytes += fr->h.len;
	if (j->off == j->at.length)
		fr->h.flags = WIRE_LAST;
	if (j->off == j->end)
		rq->rx.job_head++;
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
	if (rq->rx.ack_due && !is_held(rq)) {
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
		fr->h.offset = rq->rx.nak_off;
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
	if (answer_has_jobs(rq))
		return job_next(f, rq, fr);
	if (rx_refuses(rq)) {
		bool misfit = rq->rx.state == RX_MISFIT;
		uint32_t tag = rq->rx.tag;

		/* answers that the socket does not take are to come back, and the QP in ERR gets none */
		if (wire_batch_has(&rq->wire))
			return NEXT_BATCH;
		rx_to(rq, rx_has_recv(rq) ? RX_DROP_RECV : RX_DROP);
		if (misfit)
			answer_tell_refusal(f, rq, rq->rx.msn, tag,
					    responder_recv(f, rq->qp, &rq->rx.wr));
		else
			answer_refuse(f, rq, rq->rx.msn, rq->rx.why);
		return rq->rx.nak_due ? response_next(f, rq, fr) : NEXT_NONE;
	}
	return NEXT_NONE;
}

void answer_last(struct fast *f, struct remote_qp *rq)
{
	struct wire_hdr h;

	if (!rq->rx.ack_due || !rq->wire.peer)
		return;
	remote_hdr(rq, &h, WIRE_ACK);
	h.tag = rq->rx.tag;
	h.msn = rq->rx.msn - 1;
	wire_send(f, rq->wire.peer, &h, NULL);
}
