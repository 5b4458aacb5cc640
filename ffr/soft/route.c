/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * route.c - from a path and a QP number to the peer: a QP on this host, or a container on another.
 * [lock]
 *
 * A path names a container that the sender may talk to, by GID or by LID; who that is and where, the
 * directory knows. A connected peer answers only the QP that it is connected to (IBTA 9.6.1.5): its
 * own path and number must lead back.
 */
#include "ffr/soft/remote.h"

#include <string.h>

void route_set(struct fast *f, struct qp *qp, struct remote *there)
{
	struct soft_qp *sq = qp->soft;

	if (sq->there == there)
		return;
	if (there)
		remote_get(there);
	if (sq->there)
		remote_put(f, sq->there);
	sq->there = there;
}

enum dir_answer route_path(struct fast *f, struct container *from, const struct ff_ah_attr *ah,
			   struct container **here, struct remote **there)
{
	enum dir_answer a = dir_path(f, from, ah, here, there);

	if (f->first->num_threads == 1)
		return a;
	if (a == DIR_HERE && (*here)->fast != f) {
		fast_want_near(from, *here);
		*here = NULL;
		return DIR_WAIT;
	}
	if (a == DIR_NOBODY && f->first->wired && f != f->first)
		fast_want_near(from, NULL);
	return a;
}

void route_resolve(struct fast *f, struct qp *qp)
{
	struct container *here = NULL;
	struct remote *there = NULL;
	enum dir_answer a = route_path(f, qp->o.ses->cont, &qp->attr.ah, &here, &there);

	qp->soft->dest = a == DIR_HERE ? here : NULL;
	route_set(f, qp, a == DIR_HERE || a == DIR_DENIED ? NULL : there);
	if (a == DIR_REMOTE && !qp->soft->rem)
		remote_open(f, qp);
}

void route_forget(struct fast *f, struct qp *qp)
{
	qp->soft->dest = NULL;
	route_set(f, qp, NULL);
}

struct qp *route_peer(struct fast *f, struct qp *qp)
{
	struct soft_qp *sq = qp->soft;
	struct qp *peer;

	if (!sq->dest) {
		if (sq->rem) /* connected to somebody elsewhere, for good */
			return NULL;
		route_resolve(f, qp);
		if (!sq->dest)
			return NULL;
	}
	peer = qp_by_num(&f->first->qps, qp->attr.dest_qp_num);
	if (!peer || peer->o.ses->cont != sq->dest || peer->type != qp->peer_type ||
	    !route_receives(peer) || peer->attr.dest_qp_num != qp->qp_num)
		return NULL;
	if (!peer->soft->dest)
		route_resolve(f, peer);
	return peer->soft->dest == qp->o.ses->cont ? peer : NULL;
}

struct container *route_ah(struct fast *f, const struct qp *qp, struct ah *ah,
			   struct remote **there)
{
	struct container *here = NULL;

	*there = NULL;
	if (ah->cont)
		return ah->cont;
	switch (route_path(f, qp->o.ses->cont, &ah->attr, &here, there)) {
	case DIR_HERE:
		ah->cont = here;
		return here;
	case DIR_REMOTE:
	case DIR_WAIT:
		return NULL;
	default:
		*there = NULL;
		return NULL;
	}
}

struct qp *route_ud(struct fast *f, struct qp *qp)
{
	struct qp *peer = qp_by_num(&f->first->qps, qp->wr->remote_qpn);

	if (!peer || peer->o.ses->cont != qp->soft->dest || peer->type != IBV_QPT_UD ||
	    !route_receives(peer))
		return NULL;
	return peer;
}
