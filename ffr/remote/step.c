/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * step.c - how much a requester sends before it hears its peer. [lock] remote.h has the theory; called by
 * req.c and remote.c.
 *
 * A step is a number of frames. After the last of them the peer is asked (WIRE_STEP) how far it is; a stall that it is
 * in is over when it answers. Where nothing was thrown away, that is where the requester is, too. A READ's step is its
 * own: the request says how much is to come for now, and the next part is asked for when that is there.
 */
#include "ffr/remote/remote.h"

#define STEP_MAX 64u /* frames: a longer step is none */

static void grow(struct remote_qp *rq)
{
	rq->tx.step *= 2;
	if (rq->tx.step > STEP_MAX)
		rq->tx.step = 0;
}

static void shrink(struct remote_qp *rq)
{
	rq->tx.step = rq->tx.step > 1 ? rq->tx.step / 2 : 1;
}

void step_anew(struct remote_qp *rq)
{
	rq->tx.unheard = 0;
	rq->tx.step_asked = rq->tx.in_part = false;
}

void step_none(struct remote_qp *rq)
{
	step_anew(rq);
	rq->tx.step = 0;
}

bool step_is_over(struct remote_qp *rq)
{
	if (rq->tx.una == rq->tx.nxt && !rq->tx.off) /* all was answered, in whatever way */
		step_anew(rq);
	return rq->tx.step && rq->tx.unheard >= rq->tx.step;
}

bool step_ask(struct remote_qp *rq, struct wire_hdr *h)
{
	uint32_t msn = rq->tx.off ? rq->tx.nxt : rq->tx.nxt - 1;

	if (rq->tx.step_asked)
		return false;
	rq->tx.step_asked = true;
	rq->tx.step_msn = msn;
	h->flags |= WIRE_STEP;
	h->msn = msn;
	return true;
}

void step_sent(struct remote_qp *rq)
{
	rq->tx.unheard += rq->tx.step != 0;
}

void step_unsent(struct remote_qp *rq, uint8_t opcode)
{
	if (opcode == FF_OP_READ)
		rq->tx.in_part = false;
	else
		rq->tx.unheard -= rq->tx.unheard != 0;
}

void step_acked(struct remote_qp *rq, uint32_t msn)
{
	if (!rq->tx.step_asked || (int32_t)(msn - rq->tx.step_msn) < 0)
		return;
	grow(rq);
	step_anew(rq);
}

void step_told(struct remote_qp *rq, uint32_t msn, uint64_t off)
{
	int32_t ahead = (int32_t)(rq->tx.nxt - msn);

	if (ahead > 0 || (!ahead && rq->tx.off > off))
		shrink(rq);
	else if (rq->tx.step_asked)
		grow(rq);
	step_anew(rq);
}

uint64_t step_read(struct remote_qp *rq, uint64_t got, uint64_t len)
{
	uint64_t most = (uint64_t)rq->tx.step * WIRE_PAYLOAD_MAX;

	if (!most)
		return 0;
	rq->tx.in_part = true;
	rq->tx.step_msn = rq->tx.nxt;
	rq->tx.part_end = len - got > most ? got + most : len;
	return rq->tx.part_end < len ? most : 0;
}

bool step_read_done(struct remote_qp *rq, uint32_t msn, uint64_t got)
{
	if (!rq->tx.in_part || rq->tx.step_msn != msn || got < rq->tx.part_end)
		return false;
	rq->tx.in_part = false;
	grow(rq);
	return true;
}

void step_read_threw(struct remote_qp *rq, uint32_t msn, uint64_t off)
{
	/* nothing, if it was the last frame that had been asked for */
	if (!rq->tx.in_part || rq->tx.step_msn != msn || rq->tx.part_end - off > WIRE_PAYLOAD_MAX)
		shrink(rq);
}
