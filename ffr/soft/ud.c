/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ud.c - datagrams that a UD QP sends. [lock], the runner. fast/send.c posts here.
 *
 * Where a datagram goes to, its address handle tells, and that is settled when it is posted: from then on the
 * program may destroy the handle. To a QP of this host it is copied here, once (UD_HERE); what goes to
 * another host is gathered and sent by remote_ud.c, and waits for the way there to be known and open, for
 * UD_PATIENCE (UD_AWAY); messages for a group are mcast.c's (UD_GROUP). What cannot be delivered is dropped,
 * counted, and reported as sent.
 */
#include <string.h>

#include "ffr/soft/remote.h"

#define UD_PATIENCE (500 * NS_PER_MS)

/* ---- the GRH ------------------------------------------------------------------------------------------ */

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
	uint8_t *g = qp->soft->ud.grh;

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
static void grh_to(struct soft_ud *ud, const union ibv_gid *gid)
{
	static const uint8_t none[16];

	if (!memcmp(ud->grh + 24, none, sizeof(none)))
		memcpy(ud->grh + 24, gid, sizeof(*gid));
}

/* ---- to a QP of this host -------------------------------------------------------------------------------- */

/* The destination of the datagram under way, ready to receive: the one that it began with. NULL: it is not. */
static struct qp *receiver(struct fast *f, const struct qp *qp)
{
	const struct requester *r = &qp->soft->req;
	struct qp *peer = qp_by_num(&f->first->qps, qp->wr->remote_qpn);

	if (!peer || peer->o.ses->cont != qp->soft->dest || peer->type != IBV_QPT_UD ||
	    !route_receives(peer))
		return NULL;
	return r->state != REQ_MATCHED || r->peer == peer ? peer : NULL;
}

static enum post_result here(struct fast *f, struct qp *qp)
{
	struct requester *r = &qp->soft->req;
	struct qp *peer = receiver(f, qp);
	uint64_t epoch = f->epoch, total = SOFT_GRH_SZ + qp->wr->length;
	enum ff_vendor_err why = FF_VERR_NONE;
	enum xfer_result xr;
	struct side src, dst;

	if (!peer)
		return requester_drop(f, qp);
	if (r->state == REQ_NEW) {
		if (ud_qkey(qp) != peer->attr.qkey || responder_admit(f, peer, qp->wr) != ANS_OK ||
		    responder_match(f, peer, qp) != ANS_OK)
			return requester_drop(f, qp);
		r->state = REQ_MATCHED;
	}
	if (!requester_consent(f, qp, peer, total))
		return POST_WAIT;
	src = side_of_wr(qp, 0);
	src.prefix = qp->soft->ud.grh;
	src.prefix_len = SOFT_GRH_SZ;
	dst = side_of_recv(peer);
	xr = xfer_run(f, &r->x, &src, &dst, total, &why);
	if (xr == XFER_MORE || xr == XFER_WAIT || xr == XFER_GONE)
		return requester_not_copied(qp, xr);
	/* the lock was given up on the way: the receiver may have gone meanwhile */
	if (f->epoch != epoch && receiver(f, qp) != peer)
		return requester_drop(f, qp);
	if (xr == XFER_SRC)
		return requester_finish(f, qp, IBV_WC_LOC_PROT_ERR, why);
	if (xr == XFER_DST) {
		responder_fault(f, peer, why);
		return requester_drop(f, qp);
	}
	responder_done(f, peer, qp);
	requester_served(qp, peer);
	fast_moved_to(f, qp->o.ses, peer->o.ses, qp->wr->length);
	return requester_finish(f, qp, IBV_WC_SUCCESS, FF_VERR_NONE);
}

/* ---- to another host --------------------------------------------------------------------------------------- */

static void is_here(struct fast *f, struct qp *qp, struct container *c)
{
	qp->soft->ud.way = UD_HERE;
	qp->soft->dest = c;
	grh_to(&qp->soft->ud, &c->gid[0]);
	route_set(f, qp, NULL);
}

/* Its container, or the way to its host, is waited for. */
static enum post_result wait_for(struct fast *f, struct qp *qp, const struct remote *to)
{
	struct soft_dev *dev = f->be->priv;
	struct soft_qp *sq = qp->soft;

	if (f->now >= sq->ud.give_up)
		return requester_drop(f, qp);
	if (to->epoch && to->peer)
		peer_want(to->peer);
	sq->req.state = REQ_WAIT_ACK;
	requester_wait_on(sq, &dev->unreachable);
	timer_arm(&f->timers, &sq->req.timer, sq->ud.give_up);
	return POST_WAIT;
}

static enum post_result away(struct fast *f, struct qp *qp)
{
	struct soft_qp *sq = qp->soft;
	struct remote *to = sq->there;
	enum post_result r;

	if (!to->epoch) { /* who was to be waited for may have come */
		struct container *cont = NULL;
		enum dir_answer a = route_path(f, qp->o.ses->cont, &sq->ud.path, &cont, &to);

		if (a == DIR_HERE) {
			is_here(f, qp, cont);
			return here(f, qp);
		}
		if ((a != DIR_REMOTE && a != DIR_WAIT) || !to)
			return requester_drop(f, qp);
		route_set(f, qp, to);
	}
	if (to->epoch && to->peer && to->peer->tcp) {
		grh_to(&sq->ud, &to->gid[0]);
		if (!sq->ud.paid && !requester_pay(f, qp, SOFT_GRH_SZ + qp->wr->length))
			return POST_WAIT;
		sq->ud.paid = true;
		r = remote_ud_send(f, qp, to);
		if (r != POST_WAIT || (sq->req.x.call && sq->req.x.call->busy))
			return r;
	}
	return wait_for(f, qp, to);
}

/* ---- ops ------------------------------------------------------------------------------------------------------ */

/* Where an address handle leads: here, or there; both NULL: to nobody. */
static struct container *resolve(struct fast *f, const struct qp *qp, struct ah *ah,
				 struct remote **there)
{
	struct container *cont = NULL;

	*there = NULL;
	if (ah->cont)
		return ah->cont;
	switch (route_path(f, qp->o.ses->cont, &ah->attr, &cont, there)) {
	case DIR_HERE:
		*there = NULL;
		ah->cont = cont;
		return cont;
	case DIR_REMOTE:
	case DIR_WAIT:
		return NULL;
	default:
		*there = NULL;
		return NULL;
	}
}

static enum post_result progress(struct fast *f, struct qp *qp)
{
	if (qp->soft->ud.way == UD_GROUP)
		return mcast_run(f, qp);
	if (!requester_may_run(&qp->soft->req))
		return POST_WAIT;
	return qp->soft->ud.way == UD_HERE ? here(f, qp) : away(f, qp);
}

static enum post_result post(struct fast *f, struct qp *qp)
{
	struct soft_ud *ud = &qp->soft->ud;
	struct ah *ah = qp->wr->ah;
	struct container *cont;
	struct remote *there;

	if (!requester_begin(f, qp))
		return POST_DONE;
	qp->wr->ah = NULL;
	ud->sl = ah->attr.sl;
	make_grh(qp, ah);
	if (ah->mcast) {
		ud->way = UD_GROUP;
		memcpy(&qp->soft->mcast.gid, ah->attr.dgid, sizeof(qp->soft->mcast.gid));
		return mcast_start(f, qp);
	}
	cont = resolve(f, qp, ah, &there);
	if (cont) {
		is_here(f, qp, cont);
		return here(f, qp);
	}
	qp->soft->dest = NULL;
	if (!there)
		return requester_drop(f, qp);
	ud->way = UD_AWAY;
	route_set(f, qp, there);
	ud->path = ah->attr;
	ud->give_up = f->now + UD_PATIENCE;
	ud->paid = false;
	return away(f, qp);
}

const struct send_ops ud_send = { .post = post, .progress = progress };
