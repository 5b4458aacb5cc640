/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ud.c - datagrams that a UD QP sends. [lock], the runner. fast/send.c posts here.
 *
 * Where a datagram goes to, its address handle tells, and that is settled when it is posted: from then on the
 * program may destroy the handle. To a QP of this host it is copied here, once (UD_HERE); what goes to
 * another host is gathered and sent by remote/ud.c, and waits for the way there to be known and open, for
 * UD_PATIENCE (UD_AWAY); messages for a group are mcast.c's (UD_GROUP). What cannot be delivered is dropped,
 * counted, and reported as sent.
 */
#include <string.h>

#include "ffr/remote/remote.h"

#define UD_PATIENCE (500 * NS_PER_MS)

/* ---- the GRH ------------------------------------------------------------------------------------------ */

/*
 * What a receiver finds in the 40 bytes before the data follows from the sender's GID (IBTA annexes A16 and
 * A17): with RoCE v1 it is a GRH, with RoCE v2 the IP header, which is an IPv6 one or, between IPv4
 * addresses, an IPv4 one in the last 20 bytes, where what is before them is undefined (here zeros, which
 * are the begin of no IPv6 header). With which of the three it is, the completion's SL tells, as with
 * mlx5: bit 3 is set for RoCE v2, the lower ones are 0 for a GRH, 1 for IPv6, 2 for IPv4. UCX 1.11 to
 * 1.18 believe that of every device, and take the 16 bytes at the end for the destination's GID where the SL
 * is not 2; all others look at the header.
 */
enum { SL_ROCE_V1 = 0x0, SL_IPV6 = 0x9, SL_IPV4 = 0xa };
#define NEXT_UDP 17
#define NEXT_IB	 0x1b /* IBTA 8.3.6 */

uint8_t ud_sl_of(const uint8_t grh[SOFT_GRH_SZ])
{
	return grh[0] >> 4 == 6 ? SL_IPV6 : SL_IPV4;
}

static uint16_t ipv4_sum(const uint8_t *h)
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)(h[i] << 8 | h[i + 1]);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t) ~(sum + (sum >> 16));
}

/* Both addresses are known: the header is an IPv4 one if it is RoCE v2 between such addresses. */
static void grh_to_ipv4(struct soft_ud *ud)
{
	uint8_t *g = ud->grh, h[20] = { 0x45 };
	uint16_t len = (uint16_t)(20 + (g[4] << 8 | g[5])), sum;

	if (ud->sl != SL_IPV6 || !gid_is_v4(g + 8) || !gid_is_v4(g + 24))
		return;
	h[1] = (uint8_t)(g[0] << 4 | g[1] >> 4);
	h[2] = (uint8_t)(len >> 8);
	h[3] = (uint8_t)len;
	h[6] = 0x40; /* it is not to be cut in pieces */
	h[8] = g[7];
	h[9] = NEXT_UDP;
	memcpy(h + 12, g + 20, 4);
	memcpy(h + 16, g + 36, 4);
	sum = ipv4_sum(h);
	h[10] = (uint8_t)(sum >> 8);
	h[11] = (uint8_t)sum;
	memset(g, 0, 20);
	memcpy(g + 20, h, sizeof(h));
	ud->sl = SL_IPV4;
}

static void make_grh(const struct qp *qp, const struct ah *ah)
{
	struct gid_entry from = gid_entry(qp->o.ses->cont, ah->attr.sgid_index);
	bool v2 = from.type == IBV_GID_TYPE_ROCE_V2;
	const uint8_t *sgid = from.gid.raw, *dgid = ah->attr.dgid;
	uint32_t len = (v2 ? 8 : 0) + 12 + 8 + (uint32_t)qp->wr->length + 4; /* UDP BTH DETH ICRC */
	struct soft_ud *ud = &qp->soft->ud;
	uint8_t *g = ud->grh;

	g[0] = (uint8_t)(0x60 | ah->attr.traffic_class >> 4);
	g[1] = (uint8_t)(ah->attr.traffic_class << 4 | (ah->attr.flow_label >> 16 & 0xf));
	g[2] = (uint8_t)(ah->attr.flow_label >> 8);
	g[3] = (uint8_t)ah->attr.flow_label;
	g[4] = (uint8_t)(len >> 8);
	g[5] = (uint8_t)len;
	g[6] = v2 ? NEXT_UDP : NEXT_IB;
	g[7] = ah->attr.hop_limit;
	memcpy(g + 8, sgid, 16);
	ud->sl = v2 ? SL_IPV6 : SL_ROCE_V1;
	if (ah->attr.is_global) {
		memcpy(g + 24, dgid, 16);
		grh_to_ipv4(ud);
	} else { /* the receiver's, when it is known */
		memset(g + 24, 0, 16);
	}
}

/* A path by LID: the GRH has the receiver's own GID. */
static void grh_to(struct soft_ud *ud, const union ibv_gid *gid)
{
	static const uint8_t none[16];

	if (memcmp(ud->grh + 24, none, sizeof(none)))
		return;
	memcpy(ud->grh + 24, gid, sizeof(*gid));
	grh_to_ipv4(ud);
}

/* ---- to a QP of this host -------------------------------------------------------------------------------- */

/* The destination of the datagram under way, ready to receive: the one that it began with. NULL: it is not. */
static struct qp *receiver(struct fast *f, const struct qp *qp)
{
	const struct requester *r = &qp->soft->req;
	const struct container *to = qp->dest;
	struct qp *peer = to ? qp_by_num(&f->host->qps, to->nic, qp->wr->remote_qpn) : NULL;

	if (!peer || peer->o.ses->cont != to || peer->type != IBV_QPT_UD || !route_receives(peer))
		return NULL;
	return r->state != REQ_MATCHED || r->peer == peer ? peer : NULL;
}

static enum post_result here(struct fast *f, struct qp *qp)
{
	struct requester *r = &qp->soft->req;
	struct qp *peer = receiver(f, qp);
	uint64_t total = SOFT_GRH_SZ + qp->wr->length;
	enum ff_vendor_err why = FF_VERR_NONE;
	enum xfer_result xr;
	struct side src, dst;

	if (!peer)
		return requester_drop(f, qp);
	if (r->state == REQ_NEW) {
		if (responder_soon(peer, qp))
			return POST_MORE;
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
	if (xr == XFER_MORE || xr == XFER_NEXT || xr == XFER_WAIT)
		return requester_not_copied(xr);
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
	qp->dest = c;
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
		if (!sq->ud.paid && !rate_pay(f, qp, SOFT_GRH_SZ + qp->wr->length))
			return POST_WAIT;
		sq->ud.paid = true;
		r = remote_ud_send(f, qp, to);
		if (r != POST_WAIT || xfer_is_busy(&sq->req.x))
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
	qp->dest = NULL;
	if (!there)
		return requester_drop(f, qp);
	ud->way = UD_AWAY;
	route_set(f, qp, there);
	ud->path = ah->attr;
	ud->give_up = f->now + UD_PATIENCE;
	ud->paid = false;
	return away(f, qp);
}

const struct send_ops ud_send = { .name = "host, wire", .post = post, .progress = progress };
