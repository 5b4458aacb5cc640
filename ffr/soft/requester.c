/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * requester.c - the life of a WR on the same host, from post to completion. [lock]
 * Called by backend.c; calls route.c, responder.c, xfer.c, atomic.c.
 *
 * One WR of a QP is under way at a time. It is carried out at once, in quanta; it waits
 *	for the peer's receive (RC): the RNR NAK timer of the peer, `rnr_retry` times (7: for ever),
 *		but goes on as soon as the peer posts one;
 *	for the peer itself (RC): nobody answers, so the ACK time-out of this QP passes
 *		`retry_cnt` + 1 times, but it goes on as soon as the peer arrives;
 *	for a worker that reaches slow process memory.
 * UC and UD wait only for the last: what cannot be delivered is dropped and reported as sent.
 */
#include <string.h>

#include "ffr/abi/ff_probe.h"
#include "ffr/mem/shadow.h"
#include "ffr/fast/mw.h"
#include "ffr/soft/quick.h"
#include "ffr/soft/remote.h"

#define RNR_FOR_EVER 7
#define RNR_IDLE_NS  (10 * NS_PER_MS)
#define UD_PATIENCE  (500 * NS_PER_MS) /* until the way to another host is known and open */

/* IBTA table 45, in units of 10 µs */
static const uint32_t rnr_10us[32] = { 65536, 1,    2,	  3,	 4,	6,     8,     12,
				       16,    24,   32,	  48,	 64,	96,    128,   192,
				       256,   384,  512,  768,	 1024,	1536,  2048,  3072,
				       4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152 };

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

static void unwait(struct fast *f, struct soft_qp *sq)
{
	timer_cancel(&f->timers, &sq->timer);
	if (sq->is_waiting)
		LIST_REMOVE(sq, waiting);
	sq->is_waiting = false;
}

static void wait_on(struct soft_qp *sq, struct soft_list *list)
{
	if (!sq->is_waiting)
		LIST_INSERT_HEAD(list, sq, waiting);
	sq->is_waiting = true;
}

static enum post_result finish(struct fast *f, struct qp *qp, enum ibv_wc_status st,
			       enum ff_vendor_err why)
{
	struct soft_qp *sq = qp->soft;

	if (!qp->busy) /* connected to itself: the responder's error has flushed the WR already */
		return POST_DONE;
	sq->phase = SOFT_IDLE;
	if (sq->x.call)
		xfer_reset(f, &sq->x);
	if (sq->rx_peer) { /* the receive stays with the peer for the next message */
		sq->rx_peer->soft->rx_from = NULL;
		sq->rx_peer = NULL;
	}
	comp_send(f, qp, st, why);
	return POST_DONE;
}

enum post_result requester_finish(struct fast *f, struct qp *qp, enum ibv_wc_status st,
				  enum ff_vendor_err why)
{
	return finish(f, qp, st, why);
}

static enum post_result drop(struct fast *f, struct qp *qp)
{
	qp->stats.ud_drops++;
	return finish(f, qp, IBV_WC_SUCCESS, FF_VERR_NONE);
}

/* ---- waiting ------------------------------------------------------------------------------------- */

static enum post_result no_receive(struct fast *f, struct qp *qp, struct qp *peer)
{
	struct soft_qp *sq = qp->soft;
	uint64_t ns;

	qp->stats.rnr++;
	FF_PROBE2(rnr, qp->qp_num, peer->qp_num);
	ns = requester_rnr_wait(qp, &sq->rnr_left, peer->attr.min_rnr_timer);
	if (!ns)
		return finish(f, qp, IBV_WC_RNR_RETRY_EXC_ERR, FF_VERR_NONE);
	sq->phase = SOFT_WAIT_RNR;
	wait_on(sq, peer->srq ? &peer->srq->rnr_waiters : &peer->soft->rnr_waiters);
	timer_arm(&f->timers, &sq->timer, f->now + ns);
	/* a hint without a fence on either side: when it is missed, the timer finds the receive */
	atomic_store_explicit(peer->srq ? &peer->srq->hdr->need : &peer->hdr->rq_need, 1,
			      memory_order_relaxed);
	return POST_WAIT;
}

/*
 * When its answer is missing, or 0. A timeout may last up to four times as long as it says (IBTA
 * 9.9.2.1.1); on a grid of twice its length many QPs share an alarm, and one that only ever waits needs
 * half as many. Each costs whoever runs on that CPU some 40 us on a virtual machine.
 */
static uint64_t ack_due(const struct qp *qp, uint64_t now)
{
	uint64_t t = requester_ack_timeout(qp);

	return t ? (now / t + 3) / 2 * 2 * t : 0;
}

static enum post_result no_answer(struct fast *f, struct qp *qp)
{
	struct soft_dev *dev = f->be->priv;
	struct soft_qp *sq = qp->soft;
	uint64_t due = ack_due(qp, f->now);

	if (sq->rx_peer)
		sq->rx_peer->soft->rx_from = NULL;
	sq->rx_peer = NULL;
	sq->phase = SOFT_WAIT_ACK;
	sq->checked = sq->matched = false; /* who answers next gets the message from its start */
	xfer_reset(f, &sq->x);
	wait_on(sq, &dev->unreachable);
	if (due)
		timer_arm(&f->timers, &sq->timer, due);
	return POST_WAIT;
}

void requester_timer(struct timer *t)
{
	struct soft_qp *sq = (struct soft_qp *)((char *)t - offsetof(struct soft_qp, timer));
	struct qp *qp = sq->qp;
	struct fast *f = qp->o.ses->fast;

	unwait(f, sq);
	if (sq->phase == SOFT_WAIT_ACK && qp->type != IBV_QPT_UD) {
		qp->stats.retries++;
		if (sq->retry_left-- == 0) {
			finish(f, qp, IBV_WC_RETRY_EXC_ERR, FF_VERR_NONE);
			return;
		}
	}
	sq->phase = SOFT_RUN;
	fast_qp_activate(f, qp);
}

void requester_resume(struct fast *f, struct soft_qp *sq)
{
	if (sq->phase == SOFT_WAIT_RNR)
		requester_rnr_over(sq->qp, &sq->rnr_left);
	unwait(f, sq);
	sq->phase = SOFT_RUN;
	fast_qp_activate(f, sq->qp);
}

/* ---- carrying out ---------------------------------------------------------------------------------- */

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

static enum post_result answered(struct fast *f, struct qp *qp, struct qp *peer, enum answer a)
{
	switch (a) {
	case ANS_RNR:
		return no_receive(f, qp, peer);
	case ANS_INV_REQ:
		return finish(f, qp, IBV_WC_REM_INV_REQ_ERR, FF_VERR_NONE);
	case ANS_REM_ACCESS:
		return finish(f, qp, IBV_WC_REM_ACCESS_ERR, FF_VERR_RKEY);
	case ANS_REM_OP:
		return finish(f, qp, IBV_WC_REM_OP_ERR, FF_VERR_NONE);
	default:
		return drop(f, qp);
	}
}

/* The copy did not end well: whose fault was it? */
static enum post_result copy_failed(struct fast *f, struct qp *qp, struct qp *peer, bool mine,
				    enum ff_vendor_err why)
{
	if (mine)
		return finish(f, qp, IBV_WC_LOC_PROT_ERR, why);
	if (peer->soft->rx_from == qp && ff_op_sends(qp->wr->opcode))
		return answered(f, qp, peer, responder_fault(f, peer, why));
	return answered(f, qp, peer, responder_refuse(f, peer, ANS_REM_ACCESS));
}

/* The QP that the WR goes to, or NULL: nobody answers, or not the one that it began with. */
static struct qp *find_peer(struct fast *f, struct qp *qp)
{
	struct qp *peer = qp->type == IBV_QPT_UD ? route_ud(f, qp) : route_peer(f, qp);

	return peer && (!qp->soft->matched || qp->soft->rx_peer == peer) ? peer : NULL;
}

static enum post_result no_peer(struct fast *f, struct qp *qp)
{
	return qp_is_reliable(qp) ? no_answer(f, qp) : drop(f, qp);
}

/* Have the limits' consent to the next bytes, of `total`. False: the QP waits for it. */
static bool consent(struct fast *f, struct qp *qp, struct qp *peer, uint64_t total)
{
	struct rate_path path = requester_path(qp, peer);
	struct xfer *x = &qp->soft->x;
	uint64_t want = total - x->done;
	struct rate_meter *m;

	if (!rate_limited(&path)) {
		x->limit = 0;
		return true;
	}
	if (x->limit && (x->done < x->limit || x->limit == total))
		return true;
	m = rate_ask(f, &path, &qp->wait, &want);
	if (m) {
		fast_qp_throttle(f, qp, m);
		return false;
	}
	rate_charge(f, &path, &qp->wait, want, !x->limit);
	x->limit = x->done + want;
	return true;
}

bool requester_pay(struct fast *f, struct qp *qp, uint64_t total)
{
	struct rate_path path = requester_path(qp, NULL);
	struct rate_meter *m;
	uint64_t want = 1;

	if (!rate_limited(&path))
		return true;
	m = rate_ask(f, &path, &qp->wait, &want);
	if (m) {
		fast_qp_throttle(f, qp, m);
		return false;
	}
	rate_charge(f, &path, &qp->wait, total, 1);
	return true;
}

/* Move the bytes. Everything was admitted and matched. */
static enum post_result copy(struct fast *f, struct qp *qp, struct qp *peer)
{
	const struct send_wr *wr = qp->wr;
	struct soft_qp *sq = qp->soft;
	struct ff_sge at = { wr->remote_addr, (uint32_t)wr->length, wr->rkey };
	enum ff_vendor_err why = FF_VERR_NONE;
	uint64_t total = wr->length;
	bool outward = true; /* from us to the peer */
	uint64_t epoch = f->epoch;
	uint32_t qp_num = qp->qp_num;
	enum xfer_result r;
	struct side src, dst;

	if (wr->opcode == FF_OP_CMP_SWAP || wr->opcode == FF_OP_FETCH_ADD)
		total = sizeof(uint64_t);
	else if (qp->type == IBV_QPT_UD)
		total += SOFT_GRH_SZ;
	if (!consent(f, qp, peer, total))
		return POST_WAIT;
	switch (wr->opcode) {
	case FF_OP_READ:
		src = remote_side(peer, &at, IBV_ACCESS_REMOTE_READ);
		dst = side_of_wr(qp, IBV_ACCESS_LOCAL_WRITE);
		outward = false;
		break;
	case FF_OP_CMP_SWAP:
	case FF_OP_FETCH_ADD:
		at.length = (uint32_t)total;
		dst = remote_side(peer, &at, IBV_ACCESS_REMOTE_ATOMIC);
		r = atomic_run(f, &sq->x, wr, &dst, &at, &why);
		if (r != XFER_DONE)
			goto ended;
		src = (struct side){ .bytes = (const uint8_t *)&sq->x.atomic_orig };
		dst = side_of_wr(qp, IBV_ACCESS_LOCAL_WRITE);
		outward = false;
		break;
	case FF_OP_WRITE:
	case FF_OP_WRITE_IMM:
		src = side_of_wr(qp, 0);
		dst = remote_side(peer, &at, IBV_ACCESS_REMOTE_WRITE);
		break;
	default:
		src = side_of_wr(qp, 0);
		dst = side_of_recv(peer);
		if (qp->type == IBV_QPT_UD) {
			src.prefix = sq->grh;
			src.prefix_len = SOFT_GRH_SZ;
		}
		break;
	}
	FF_PROBE2(copy__begin, qp_num, total);
	r = xfer_run(f, &sq->x, &src, &dst, total, &why);
	FF_PROBE1(copy__end, qp_num); /* the QP itself may be gone */
ended:
	if (r == XFER_MORE) {
		qp->more = true; /* when the lock was given up, nobody looks at what we return */
		return POST_MORE;
	}
	if (r == XFER_WAIT || r == XFER_GONE)
		return POST_WAIT;
	/* the lock was given up on the way: the peer may have gone meanwhile */
	if (f->epoch != epoch && find_peer(f, qp) != peer)
		return no_peer(f, qp);
	if (r == XFER_SRC)
		return copy_failed(f, qp, peer, outward, why);
	if (r == XFER_DST) /* an atomic's first half fails at the peer, its second half at home */
		return copy_failed(f, qp, peer, !outward, why);
	if (!responder_invalidate(peer, wr))
		return answered(f, qp, peer, responder_refuse(f, peer, ANS_REM_ACCESS));
	if (sq->rx_peer)
		responder_done(f, peer, qp);
	requester_served(qp, peer);
	fast_moved_to(f, qp->o.ses, outward ? peer->o.ses : qp->o.ses, wr->length);
	return finish(f, qp, IBV_WC_SUCCESS, FF_VERR_NONE);
}

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

/*
 * The GRH of RoCE v2 over IPv6, also between IPv4 addresses: then these are IPv4-mapped. A wire's
 * would end with an IPv4 header instead (IBTA annex A17), which only those find who know that the
 * GID's type is RoCE v2. UCX asks /sys for it, where a container's device is not, and takes the last
 * 16 bytes for the destination's GID.
 */
static void make_grh(const struct qp *qp, const struct ah *ah)
{
	const struct container *from = qp->o.ses->cont;
	const uint8_t *sgid =
		from->gid[ah->attr.sgid_index < from->num_gids ? ah->attr.sgid_index : 0].raw;
	const uint8_t *dgid = ah->attr.dgid;
	uint32_t len = 8 + 12 + 8 + (uint32_t)qp->wr->length + 4; /* UDP, BTH, DETH, data, ICRC */
	uint8_t *g = qp->soft->grh;

	g[0] = (uint8_t)(0x60 | ah->attr.traffic_class >> 4);
	g[1] = (uint8_t)(ah->attr.traffic_class << 4 | (ah->attr.flow_label >> 16 & 0xf));
	g[2] = (uint8_t)(ah->attr.flow_label >> 8);
	g[3] = (uint8_t)ah->attr.flow_label;
	g[4] = (uint8_t)(len >> 8);
	g[5] = (uint8_t)len;
	g[6] = 17;
	g[7] = ah->attr.hop_limit;
	memcpy(g + 8, sgid, 16);
	memcpy(g + 24, dgid, 16);
	if (!ah->attr.is_global) /* the receiver's, when it is known */
		memset(g + 24, 0, 16);
}

/* A path by LID: the GRH has the receiver's own GID. */
static void grh_to(struct soft_qp *sq, const union ibv_gid *gid)
{
	static const uint8_t none[16];

	if (!memcmp(sq->grh + 24, none, sizeof(none)))
		memcpy(sq->grh + 24, gid, sizeof(*gid));
}

/* A datagram for another host, or for somebody who is not known yet. */
static enum post_result ud_away(struct fast *f, struct qp *qp)
{
	struct soft_dev *dev = f->be->priv;
	struct soft_qp *sq = qp->soft;
	struct remote *to = sq->there;
	enum post_result r;

	if (!to->epoch) { /* who was to be waited for may have come */
		struct container *here = NULL;
		enum dir_answer a = route_path(f, qp->o.ses->cont, &sq->ud_path, &here, &to);

		if (a == DIR_HERE) {
			sq->dest = here;
			grh_to(sq, &here->gid[0]);
			route_set(f, qp, NULL);
			return requester_run(f, qp);
		}
		if ((a != DIR_REMOTE && a != DIR_WAIT) || !to)
			return drop(f, qp);
		route_set(f, qp, to);
	}
	if (to->epoch && to->peer && to->peer->tcp) {
		grh_to(sq, &to->gid[0]);
		if (!sq->ud_paid && !requester_pay(f, qp, SOFT_GRH_SZ + qp->wr->length))
			return POST_WAIT;
		sq->ud_paid = true;
		r = remote_ud_send(f, qp, to);
		if (r != POST_WAIT || (sq->x.call && sq->x.call->busy))
			return r;
	}
	if (f->now >= sq->give_up)
		return drop(f, qp);
	if (to->epoch && to->peer)
		peer_want(to->peer);
	sq->phase = SOFT_WAIT_ACK;
	wait_on(sq, &dev->unreachable);
	timer_arm(&f->timers, &sq->timer, sq->give_up);
	return POST_WAIT;
}

enum post_result requester_run(struct fast *f, struct qp *qp)
{
	const struct send_wr *wr = qp->wr;
	struct soft_qp *sq = qp->soft;
	struct qp *peer;

	if (sq->phase != SOFT_RUN || (sq->x.call && sq->x.call->busy))
		return POST_WAIT;
	if (qp->type == IBV_QPT_UD && sq->there)
		return ud_away(f, qp);
	if (sq->rem)
		return remote_post(f, qp);
	peer = find_peer(f, qp);
	if (!peer)
		return no_peer(f, qp);
	if (!sq->checked) {
		enum answer a;

		if (qp->type == IBV_QPT_UD && !ud_qkey_ok(qp, peer))
			return drop(f, qp);
		a = responder_admit(f, peer, wr);
		if (a != ANS_OK)
			return answered(f, qp, peer, responder_refuse(f, peer, a));
		if (op_takes_recv(wr->opcode)) {
			a = responder_match(f, peer, qp);
			if (a != ANS_OK)
				return answered(f, qp, peer, a);
			sq->matched = true;
		}
		sq->checked = true;
		sq->retry_left = qp->attr.retry_cnt;
	}
	return copy(f, qp, peer);
}

/*
 * Binds and invalidations of our own. They are carried out in their turn, one WR after the other,
 * so that READs and atomics before them are done whether or not a fence was asked for, and what
 * follows finds them done (IBTA 10.8.3).
 */
enum post_result requester_local(struct fast *f, struct qp *qp)
{
	enum ff_vendor_err why = qp->wr->opcode == FF_OP_BIND_MW ? mw_bind(qp) :
								   mw_invalidate(qp, qp->wr->imm);

	return finish(f, qp, why ? IBV_WC_MW_BIND_ERR : IBV_WC_SUCCESS, why);
}

/* Apart, as all is that gives addresses of its stack away: a canary costs the quick path 1 %. */
static __attribute__((noinline)) enum post_result start_other(struct fast *f, struct qp *qp)
{
	struct soft_qp *sq = qp->soft;
	struct remote *there;
	enum ff_vendor_err why;
	enum ibv_wc_status st;

	if (qp->wr->opcode == FF_OP_BIND_MW || qp->wr->opcode == FF_OP_LOCAL_INV)
		return requester_local(f, qp);
	sq->phase = SOFT_RUN;
	sq->checked = sq->matched = false;
	sq->x.atomic_step = 0;
	sq->rnr_left = qp->attr.rnr_retry;
	sq->retry_left = qp->attr.retry_cnt;
	xfer_reset(f, &sq->x);
	st = requester_check(qp, &why);
	if (st != IBV_WC_SUCCESS)
		return finish(f, qp, st, why);
	if (qp->type == IBV_QPT_UD) {
		sq->sl = qp->wr->ah->attr.sl;
		if (qp->wr->ah->mcast) {
			union ibv_gid mgid;

			memcpy(&mgid, qp->wr->ah->attr.dgid, sizeof(mgid));
			make_grh(qp, qp->wr->ah);
			qp->wr->ah = NULL;
			return mcast_start(f, qp, &mgid);
		}
		sq->dest = route_ah(f, qp, qp->wr->ah, &there);
		if (!sq->dest && !there)
			return drop(f, qp);
		make_grh(qp, qp->wr->ah);
		if (!sq->dest)
			sq->ud_path = qp->wr->ah->attr;
		qp->wr->ah = NULL; /* the program may destroy it from now on */
		route_set(f, qp, there);
		if (sq->dest)
			grh_to(sq, &sq->dest->gid[0]);
		else
			sq->give_up = f->now + UD_PATIENCE;
		sq->ud_paid = false;
	}
	return requester_run(f, qp);
}

enum post_result requester_start(struct fast *f, struct qp *qp)
{
	if (qp->soft->rem)
		return remote_post(f, qp);
	return quick_run(f, qp) ? POST_DONE : start_other(f, qp);
}

void requester_abort(struct fast *f, struct qp *qp)
{
	struct soft_qp *sq = qp->soft;

	unwait(f, sq);
	xfer_reset(f, &sq->x);
	sq->phase = SOFT_IDLE;
	sq->mcast = sq->mcast_asked = false;
	if (sq->rx_peer)
		sq->rx_peer->soft->rx_from = NULL;
	sq->rx_peer = NULL;
}
