/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * requester.c - what is the same for each WR, wherever it goes: its beginning and end, waiting, limits. [lock]
 * Called by local.c, ud.c, mcast.c and remote/req.c, whose each WR is; timers and who is waited for come back
 * by requester_timer() and requester_resume().
 */
#include "ffr/fast/mw.h"
#include "ffr/soft/soft.h"

#define RNR_FOR_EVER 7
#define RNR_IDLE_NS  (10 * NS_PER_MS)

/* IBTA table 45, in units of 10 µs */
static const uint32_t rnr_10us[32] = { 65536, 1,    2,	  3,	 4,	6,     8,     12,
				       16,    24,   32,	  48,	 64,	96,    128,   192,
				       256,   384,  512,  768,	 1024,	1536,  2048,  3072,
				       4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152 };

/* ---- waiting ----------------------------------------------------------------------------------------- */

/*
 * Who tries for ever is told of the receive that it waits for (wake_rnr(), WIRE_GO). The timer is there for
 * a hint that was missed, which the next tries find; after them it would only keep the router busy.
 */
uint64_t requester_rnr_wait(const struct qp *qp, uint8_t *left, uint8_t field)
{
	uint64_t ns = rnr_10us[field & 31] * 10 * NS_PER_US;

	if (qp->attr.rnr_retry != RNR_FOR_EVER)
		return (*left)-- ? ns : 0;
	if (*left) {
		--*left;
		return ns;
	}
	return ns > RNR_IDLE_NS ? ns : RNR_IDLE_NS;
}

void requester_rnr_over(const struct qp *qp, uint8_t *left)
{
	if (qp->attr.rnr_retry == RNR_FOR_EVER)
		*left = RNR_FOR_EVER;
}

uint64_t requester_ack_timeout(const struct qp *qp)
{
	return qp->attr.timeout ? 4096ull << (qp->attr.timeout & 31) : 0;
}

void requester_wait_on(struct soft_qp *sq, struct soft_list *list)
{
	if (!sq->req.is_waiting)
		LIST_INSERT_HEAD(list, sq, req.waiting);
	sq->req.is_waiting = true;
}

static void unwait(struct fast *f, struct soft_qp *sq)
{
	timer_cancel(&f->timers, &sq->req.timer);
	if (sq->req.is_waiting)
		LIST_REMOVE(sq, req.waiting);
	sq->req.is_waiting = false;
}

static void go_on(struct fast *f, struct soft_qp *sq)
{
	unwait(f, sq);
	if (sq->req.state >= REQ_WAIT_RNR)
		sq->req.state = REQ_NEW;
	fast_qp_activate(f, sq->qp);
}

void requester_timer(struct timer *t)
{
	struct soft_qp *sq = (struct soft_qp *)((char *)t - offsetof(struct soft_qp, req.timer));
	struct qp *qp = sq->qp;
	struct fast *f = qp->o.ses->fast;

	if (sq->req.state == REQ_WAIT_ACK && qp->type != IBV_QPT_UD) {
		qp->stats.retries++;
		if (sq->req.retry_left-- == 0) {
			unwait(f, sq);
			requester_finish(f, qp, IBV_WC_RETRY_EXC_ERR, FF_VERR_NONE);
			return;
		}
	}
	go_on(f, sq);
}

void requester_resume(struct fast *f, struct soft_qp *sq)
{
	if (sq->req.state == REQ_WAIT_RNR)
		requester_rnr_over(sq->qp, &sq->req.rnr_left);
	go_on(f, sq);
}

/* ---- limits ------------------------------------------------------------------------------------------- */

bool requester_consent(struct fast *f, struct qp *qp, struct qp *peer, uint64_t total)
{
	struct rate_path path = rate_path_of(qp, peer);
	struct xfer *x = &qp->soft->req.x;
	uint64_t want = total - x->done;

	if (!rate_limited(&path)) {
		x->limit = 0;
		return true;
	}
	if (x->limit && (x->done < x->limit || x->limit == total))
		return true;
	if (!rate_pay_part(f, qp, &path, &want, !x->limit))
		return false;
	x->limit = x->done + want;
	return true;
}

/* ---- a WR's beginning and end --------------------------------------------------------------------------- */

enum ibv_wc_status requester_check(struct qp *qp, enum ff_vendor_err *why)
{
	const struct send_wr *wr = qp->wr;
	bool in = ff_op_fetches(wr->opcode);
	struct side s = side_of_wr(qp, in ? IBV_ACCESS_LOCAL_WRITE : 0);

	if (in && !qp->attr.max_rd_atomic) {
		*why = FF_VERR_RD_ATOMIC;
		return IBV_WC_LOC_QP_OP_ERR;
	}
	if (in && wr->opcode != FF_OP_READ && wr->length != sizeof(uint64_t)) {
		*why = FF_VERR_BAD_SGE;
		return IBV_WC_LOC_LEN_ERR;
	}
	if (qp->type == IBV_QPT_UD && wr->length > SOFT_MTU) {
		*why = FF_VERR_MSG_SIZE;
		return IBV_WC_LOC_LEN_ERR;
	}
	*why = xfer_check(&s, wr->length);
	return *why ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS;
}

bool requester_begin(struct fast *f, struct qp *qp)
{
	struct requester *r = &qp->soft->req;
	enum ff_vendor_err why;
	enum ibv_wc_status st;

	r->state = REQ_NEW;
	r->rnr_left = qp->attr.rnr_retry;
	r->retry_left = qp->attr.retry_cnt;
	r->x.atomic_step = 0;
	xfer_reset(f, &r->x);
	st = requester_check(qp, &why);
	if (st == IBV_WC_SUCCESS)
		return true;
	requester_finish(f, qp, st, why);
	return false;
}

enum post_result requester_finish(struct fast *f, struct qp *qp, enum ibv_wc_status st,
				  enum ff_vendor_err why)
{
	struct requester *r = &qp->soft->req;

	if (!qp->busy) /* connected to itself: the responder's error has flushed the WR already */
		return POST_DONE;
	r->state = REQ_IDLE;
	if (r->x.call || r->x.wait.q)
		xfer_reset(f, &r->x);
	if (r->peer) { /* the receive stays with the peer for the next message */
		r->peer->soft->resp.from = NULL;
		r->peer = NULL;
	}
	comp_send(f, qp, st, why);
	return POST_DONE;
}

enum post_result requester_drop(struct fast *f, struct qp *qp)
{
	qp->stats.ud_drops++;
	return requester_finish(f, qp, IBV_WC_SUCCESS, FF_VERR_NONE);
}

/*
 * They are carried out in their turn, one WR after the other, so that READs and atomics before them are done
 * whether or not a fence was asked for, and what follows finds them done (IBTA 10.8.3).
 */
enum post_result requester_mw(struct fast *f, struct qp *qp)
{
	enum ff_vendor_err why = qp->wr->opcode == FF_OP_BIND_MW ? mw_bind(qp) :
								   mw_invalidate(qp, qp->wr->imm);

	return requester_finish(f, qp, why ? IBV_WC_MW_BIND_ERR : IBV_WC_SUCCESS, why);
}

void requester_abort(struct fast *f, struct qp *qp)
{
	struct requester *r = &qp->soft->req;

	unwait(f, qp->soft);
	xfer_reset(f, &r->x);
	pvm_call_put(f->pvm, qp->settle);
	qp->settle = NULL;
	r->state = REQ_IDLE;
	qp->soft->mcast.step = MCAST_NONE;
	if (r->peer)
		r->peer->soft->resp.from = NULL;
	r->peer = NULL;
}
