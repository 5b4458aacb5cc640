/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * route.c - from a path and a QP number to the peer's QP on this host. [lock]
 *
 * A path names a container of the same tenant, by GID or by LID. A connected peer answers only
 * the QP that it is connected to (IBTA 9.6.1.5): its own path and number must lead back.
 */
#include "soft.h"

#include <string.h>

static struct container *resolve(struct fast *f, const struct qp *qp, const struct ff_ah_attr *ah)
{
	const char *tenant = qp->o.ses->cont->tenant;
	union ibv_gid gid;

	if (!ah->is_global)
		return container_by_lid(f, tenant, ah->dlid);
	memcpy(&gid, ah->dgid, sizeof(gid));
	return container_by_gid(f, tenant, &gid);
}

void route_resolve(struct fast *f, struct qp *qp)
{
	qp->soft->dest = resolve(f, qp, &qp->attr.ah);
}

struct qp *route_peer(struct fast *f, struct qp *qp)
{
	struct soft_qp *sq = qp->soft;
	struct qp *peer;

	if (!sq->dest) {
		route_resolve(f, qp);
		if (!sq->dest)
			return NULL;
	}
	peer = qp_by_num(f, qp->attr.dest_qp_num);
	if (!peer || peer->o.ses->cont != sq->dest || peer->type != qp->peer_type ||
	    !route_receives(peer) || peer->attr.dest_qp_num != qp->qp_num)
		return NULL;
	if (!peer->soft->dest)
		route_resolve(f, peer);
	return peer->soft->dest == qp->o.ses->cont ? peer : NULL;
}

struct container *route_ah(struct fast *f, const struct qp *qp, struct ah *ah)
{
	if (!ah->cont)
		ah->cont = resolve(f, qp, &ah->attr);
	return ah->cont;
}

struct qp *route_ud(struct fast *f, struct qp *qp)
{
	struct qp *peer = qp_by_num(f, qp->wr->remote_qpn);

	if (!peer || peer->o.ses->cont != qp->soft->dest || peer->type != IBV_QPT_UD ||
	    !route_receives(peer))
		return NULL;
	return peer;
}
