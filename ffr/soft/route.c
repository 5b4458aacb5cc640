/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * route.c - whom a path leads to: a container of this host, or of another. [lock]
 *
 * A path names a container that the sender may talk to, by GID or by LID; who that is and where, the
 * directory knows. Which QP of it, local.c and ud.c look up, and the other host's router.
 */
#include "ffr/remote/remote.h"

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

	if (f->host->num_threads == 1)
		return a;
	if (a == DIR_HERE && (*here)->fast != f) {
		fast_want_near(from, *here);
		*here = NULL;
		return DIR_WAIT;
	}
	if (a == DIR_NOBODY && f->host->wired && f != f->host->threads[0])
		fast_want_near(from, NULL);
	return a;
}

bool route_is_ours(const struct qp *qp)
{
	return qp->send == &local_send || qp->send == &remote_send;
}

void route_resolve(struct fast *f, struct qp *qp)
{
	struct container *here = NULL;
	struct remote *there = NULL;
	enum dir_answer a;

	if (!route_is_ours(qp)) /* whoever asks for it: what carries it stays */
		return;
	a = route_path(f, qp->o.ses->cont, &qp->attr.ah, &here, &there);
	qp->dest = a == DIR_HERE ? here : NULL;
	route_set(f, qp, a == DIR_HERE || a == DIR_DENIED ? NULL : there);
	if (a == DIR_REMOTE && !qp->soft->rem)
		remote_open(f, qp);
}

void route_forget(struct fast *f, struct qp *qp)
{
	qp->dest = NULL;
	route_set(f, qp, NULL);
}
