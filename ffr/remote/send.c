/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * send.c - what a requester sends: whether a message may leave now, and its next frame. [lock] wire/tx.c fetches
 * frames; req.c has the window of messages; rate.c and step.c say how much may go out.
 *
 * Tests: test_req.c, test_req_wait.c, test_step.c
 */
#include "ffr/remote/remote.h"

#include <string.h>

#define MAP_PATIENCE (20 * NS_PER_MS) /* then the peer's router is asked */

/* May the message's bytes leave? False: not now, or the peer is to be asked (s->probe). */
static bool is_mapped(struct fast *f, struct remote_qp *rq, struct sent *s)
{
	uint32_t access = op_remote_access(s->wr.opcode);
	uint64_t len = ff_op_is_word(s->wr.opcode) ? sizeof(uint64_t) : s->wr.length;

	if (!qp_is_reliable(rq->qp) && s->probe)
		return false;
	if (s->is_mapped || s->probe || !access || !len) {
		s->is_mapped = !s->probe;
		return s->is_mapped;
	}
	switch (dir_map(f, rq->qp->soft->there, s->wr.rkey, s->wr.remote_addr, len, access)) {
	case MAP_OK:
		s->is_mapped = true;
		return true;
	case MAP_REFUSED:
		s->probe = true;
		return false;
	default:
		break;
	}
	if (!s->map_until) {
		s->map_until = f->now + MAP_PATIENCE;
		if (rq->tx.una == rq->tx.nxt && rq->tx.try_ends)
			rq->tx.try_ends +=
				MAP_PATIENCE; /* the peer was not asked for anything yet */
	}
	s->probe = f->now >= s->map_until; /* in all, however often it is sent again */
	if (s->probe)
		return false;
	rq->tx.phase = REM_MAP;
	timer_arm(&f->timers, &rq->tx.timer, s->map_until);
	return false;
}

/* May it be sent now, as far as other messages are concerned? */
static bool is_its_turn(const struct fast *f, const struct remote_qp *rq, const struct sent *s)
{
	if ((rq->tx.solo || f->now < rq->tx.busy_until) && rq->tx.nxt != rq->tx.una)
		return false;
	if (rq->tx.in_part)
		return false;
	if ((s->wr.flags & FF_SQE_FENCE) && rq->tx.fetches)
		return false;
	return !ff_op_fetches(s->wr.opcode) || rq->tx.fetches < rq->qp->attr.max_rd_atomic;
}

static void request_hdr(const struct remote_qp *rq, const struct sent *s, struct wire_hdr *h)
{
	const struct send_wr *wr = &s->wr;

	remote_hdr(rq, h, WIRE_REQ);
	h->opcode = wr->opcode;
	h->flags = wr->flags & FF_SQE_SOLICITED ? WIRE_SOLICITED : 0;
	h->tag = rq->tx.tag;
	h->msn = rq->tx.nxt;
	h->offset = rq->tx.off;
	if (ff_op_is_word(wr->opcode)) {
		h->atomic.addr = wr->remote_addr;
		h->atomic.compare_add = wr->compare_add;
		h->atomic.swap = wr->swap;
		h->atomic.rkey = wr->rkey;
		h->atomic.srqn = wr->remote_srqn;
		return;
	}
	if (wr->opcode == FF_OP_FLUSH) {
		h->flush.addr = wr->remote_addr;
		h->flush.length = wr->flush.length;
		h->flush.rkey = wr->rkey;
		h->flush.srqn = wr->remote_srqn;
		h->flush.types = (uint8_t)wr->flush.types;
		h->flush.level = (uint8_t)wr->flush.level;
		return;
	}
	if (wr->opcode == FF_OP_READ)
		h->offset = s->got;
	h->req.addr = wr->remote_addr;
	h->req.length = wr->length;
	h->req.rkey = wr->rkey;
	h->req.imm = wr->imm;
	h->req.srqn = wr->remote_srqn;
}

/* Where the WR's own bytes are. */
static struct side wr_side(const struct remote_qp *rq, const struct sent *s)
{
	return (struct side){
		.sge = s->wr.sge,
		.num_sge = s->wr.num_sge,
		.bytes = s->wr.flags & FF_SQE_INLINE ? s->wr.inl : NULL,
		.keys = &rq->qp->o.ses->cont->keys,
		.pd = rq->qp->pd,
	};
}

/* Payload of the WR from rq->tx.off on. NEXT_NONE: it waits for its memory, or has failed. */
static enum next request_payload(struct fast *f, struct remote_qp *rq, struct sent *s,
				 struct frame *fr, uint64_t len)
{
	struct side src = wr_side(rq, s);
	enum ff_vendor_err why = FF_VERR_NONE;
	uint64_t n;
	int num;

	num = xfer_iov(&src, rq->tx.off, len, fr->iov, FRAME_IOVS, &n, &why);
	if (num > 0) {
		remote_fetch_needless(f, rq, false);
		fr->num_iov = (unsigned)num;
		fr->h.len = (uint32_t)n;
		return NEXT_FRAME;
	}
	if (!num) {
		enum next r;

		r = remote_fetch_bytes(f, rq, &src, false, rq->tx.nxt, rq->tx.off, n, fr, &why);
		if (r != NEXT_FAULT)
			return r;
	}
	remote_fail(f, rq, rq->tx.nxt, IBV_WC_LOC_PROT_ERR, why);
	return NEXT_NONE;
}

/* Until then an answer to a question is waited for: not beyond the try. */
static uint64_t probe_ends(const struct fast *f, const struct remote_qp *rq)
{
	uint64_t at = f->now + REMOTE_TIMEOUT_MIN;

	return qp_is_reliable(rq->qp) && rq->tx.try_ends && rq->tx.try_ends < at ? rq->tx.try_ends :
										   at;
}

/* Ask the peer whether it would carry the message out. */
static enum next probe(struct remote_qp *rq, struct sent *s, struct frame *fr)
{
	request_hdr(rq, s, &fr->h);
	fr->h.offset = 0;
	fr->h.flags |= WIRE_PROBE;
	fr->kind = FRAME_PROBE;
	s->probe = false;
	rq->tx.phase = REM_LATER; /* should no answer come: RUN, and everything again */
	return NEXT_FRAME;
}

/* What became of the first message? */
static void ask(struct remote_qp *rq, struct frame *fr)
{
	remote_hdr(rq, &fr->h, WIRE_ASK);
	fr->h.tag = rq->tx.tag;
	fr->h.msn = rq->tx.una;
	fr->h.opcode = remote_sent_wr(rq, rq->tx.una)->wr.opcode;
	fr->kind = FRAME_ASK;
}

enum next request_next(struct fast *f, struct remote_qp *rq, struct frame *fr)
{
	enum rate_dir dir;
	struct sent *s;
	uint64_t len;
	bool wait;

	fr->incarnation = rq->incarnation;
	if (rq->tx.phase != REM_RUN)
		return NEXT_NONE;
	if (rq->tx.ask && rq->tx.una != rq->tx.nxt) {
		rq->tx.ask = false;
		ask(rq, fr);
		return NEXT_FRAME;
	}
	if (step_is_over(rq)) {
		ask(rq, fr);
		return step_ask(rq, &fr->h) ? NEXT_FRAME : NEXT_NONE;
	}
	/* after going back: what was done meanwhile is not done again */
	while (rq->tx.nxt != rq->tx.tail && !rq->tx.off && remote_sent_wr(rq, rq->tx.nxt)->done) {
		if (remote_sent_wr(rq, rq->tx.nxt)->status != IBV_WC_SUCCESS)
			return NEXT_NONE; /* the last one that there is to think of */
		rq->tx.nxt++;
	}
	if (rq->tx.nxt == rq->tx.tail)
		return NEXT_NONE;
	s = remote_sent_wr(rq, rq->tx.nxt);
	if (!rq->tx.off && !is_its_turn(f, rq, s))
		return NEXT_NONE;
	if (!rq->tx.off && !is_mapped(f, rq, s)) {
		if (!s->probe || rq->tx.nxt != rq->tx.una) /* asked for when all else is done */
			return NEXT_NONE;
		timer_arm(&f->timers, &rq->tx.timer, probe_ends(f, rq));
		return probe(rq, s, fr);
	}
	dir = ff_op_fetches(s->wr.opcode) ? RATE_RX : RATE_TX;
	len = dir == RATE_TX ? s->wr.length - rq->tx.off : 1;
	if (len > WIRE_PAYLOAD_MAX)
		len = WIRE_PAYLOAD_MAX;
	request_hdr(rq, s, &fr->h);
	fr->kind = FRAME_REQUEST;
	fr->old_nxt = rq->tx.nxt;
	fr->old_off = rq->tx.off;
	len = remote_rate_ask(f, rq, REMOTE_RATE_SEND, dir, len, &wait);
	if (wait)
		return NEXT_NONE;
	if (!ff_op_fetches(s->wr.opcode) && s->wr.length) {
		enum next r = request_payload(f, rq, s, fr, len);

		if (r != NEXT_FRAME)
			return r;
		rq->tx.off += fr->h.len;
		len = fr->h.len;
	}
	if (!fr->old_off)
		response_spoke(f, rq);
	if (ff_op_fetches(s->wr.opcode))
		len = s->got ? 0 : s->wr.length; /* it was charged as a whole */
	remote_rate_charge(f, rq, REMOTE_RATE_SEND, dir, len, !fr->old_off);
	if (ff_op_fetches(s->wr.opcode) || rq->tx.off == s->wr.length) {
		fr->h.flags |= WIRE_LAST;
		rq->tx.fetches += ff_op_fetches(s->wr.opcode);
		if (s->wr.opcode == FF_OP_READ)
			fr->h.req.most = (uint32_t)step_read(rq, s->got, s->wr.length);
		rq->tx.nxt++;
		rq->tx.off = 0;
	}
	if (s->wr.opcode != FF_OP_READ)
		step_sent(rq);
	return NEXT_FRAME;
}
