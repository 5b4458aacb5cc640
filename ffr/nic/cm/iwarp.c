/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * iwarp.c - what is different with a NIC that speaks iWARP (RFC 5040 to 5044). See nic.h. Neighbours: qp.c, which calls
 * this file for the steps of a QP, and ucma.c, which speaks with the host's rdma_cm.
 *
 * An iWARP connection is a TCP connection that the kernel's iw_cm makes. rdma_connect() or rdma_accept() names a QP in
 * INIT, and the NIC's driver takes the QP to RTS when both sides have agreed. ibv_modify_qp() cannot do that.
 * Containers nevertheless see an InfiniBand device, because the router is one: their QPs go through INIT, RTR and RTS,
 * with the attributes that the connection manager gives them. So the container's QP and the NIC's have states of their
 * own:
 *
 *	the container's QP			nq->iw		the NIC's QP
 *	INIT					IW_NONE		nothing has been asked
 *	INIT, and rdma_connect() was called	IW_ASKED	in INIT, with all receives: the peer may send at once
 *	RTR, RTS, before rdma_accept()		IW_READY	in INIT, with all receives; nothing has been asked
 *	RTR, RTS, and rdma_accept() was called	IW_ASKED	in INIT, with all receives
 *	any state				IW_UP		in RTS: the kernel said ESTABLISHED
 *	ERR					IW_DOWN		the connection has ended or failed
 *
 * WRs that are posted before IW_UP wait. With IW_DOWN the container's QP is in ERR, and is never the NIC's again,
 * because the driver cannot take a QP back to INIT. Each connection has a number (nic_qp.iw_conn). To the container
 * this number is the peer's QP number, because MPA has none: RTR accepts this number only. So a QP that a program
 * connects by itself, with a number that its peer told it, is refused at RTR with EOPNOTSUPP.
 *
 * The kernel's siw differs in two things. An MR's addresses are those in the process that registers the MR, even if
 * that process asks for others (mr.c). And a QP that is not in RTS does not flush WRs that are posted to it, so the
 * router does.
 */
#include "ffr/nic/cm/cm.h"

#include <errno.h>
#include <string.h>

/* ---- a QP's connection -------------------------------------------------------------------------------------- */

static bool is_connected(const struct nic_qp *nq)
{
	return nq->iw == IW_ASKED || nq->iw == IW_UP;
}

/* Control thread, no lock. The NIC's QP cannot go back to INIT, so after an error it is of no use any more. */
static int take(struct fast *f, struct nic_qp *nq, const struct ff_qp_attr *a, enum nic_iw iw)
{
	struct ff_qp_attr with = *a;
	int err;

	/* the kernel's iw_cm sets these flags for all QPs; the MRs say what a peer may reach */
	with.qp_access_flags |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	with.qp_access_flags &= ~(uint32_t)IBV_ACCESS_REMOTE_ATOMIC;
	err = nic_take_receives(f, nq, &with);
	if (err)
		return err;
	fast_lock(f->host);
	nic_qp_to(nq, NIC_QP_CARRIED);
	nq->iw = (uint8_t)iw;
	fast_kick(f); /* a runner that sleeps has not armed the QP's CQ */
	fast_unlock(f->host);
	return 0;
}

static int to_rtr(struct fast *f, struct nic_qp *nq, const struct ff_qp_attr *a)
{
	struct qp *qp = nq->qp;
	struct remote *there;
	enum nic_path path;

	fast_lock(f->host);
	path = nic_path_of(f, qp, &a->ah, &nq->to, &there);
	fast_unlock(f->host);
	if (path != PATH_NIC)
		return nic_qp_is_carried(nq) ? -EINVAL : 0;
	if (is_connected(nq))
		return a->dest_qp_num == nq->iw_conn ? 0 : -EINVAL;
	if (nq->iw != IW_NONE || !nic_ucma_knows(nq->d, qp->o.ses->cont, a->dest_qp_num))
		return -EOPNOTSUPP;
	return take(f, nq, a, IW_READY);
}

/* Attributes that may change later. There are no RNR timers, and access flags are the same for all QPs. */
static int change(const struct nic_qp *nq, const struct ff_qp_attr *a)
{
	return nic_is_for_sqd(&nq->qp->attr, a) ? -EOPNOTSUPP : 0;
}

/* End the connection, and fetch what the NIC has flushed. */
static int to_reset(struct fast *f, struct nic_qp *nq)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	int err;

	nic_srq_leave(nq);
	err = nq->d->lib.modify_qp(nq->ib, &attr, IBV_QP_STATE);
	fast_lock(f->host);
	nic_cq_drain(nq->cq);
	nq->iw = IW_DOWN;
	fast_unlock(f->host);
	return -err;
}

int nic_iw_step(struct fast *f, struct nic_qp *nq, const struct ff_qp_attr *a,
		enum ibv_qp_state now, enum ibv_qp_state next)
{
	if (next == IBV_QPS_RTR && now == IBV_QPS_INIT)
		return to_rtr(f, nq, a);
	if (!nic_qp_is_carried(nq))
		return 0;
	if (next == IBV_QPS_RESET)
		return to_reset(f, nq);
	if ((next == IBV_QPS_RTS && now != IBV_QPS_RTR) ||
	    (next == IBV_QPS_SQD && now == IBV_QPS_SQD))
		return change(nq, a);
	return 0;
}

/* The container's QP of that number, for a connection by rdma_cm; or NULL. */
static struct nic_qp *own(struct fast *f, const struct container *cont, uint32_t num)
{
	struct qp *qp = qp_by_num(&f->host->qps, cont->nic, num);

	if (!qp || qp->o.ses->cont != cont || !qp->nic || qp->nic->ud)
		return NULL;
	return qp->nic;
}

int nic_iw_ask(struct fast *f, const struct container *cont, uint32_t num, uint32_t conn)
{
	enum ibv_qp_state state = IBV_QPS_ERR;
	struct ff_qp_attr attr;
	struct nic_qp *nq;
	int err = 0;

	fast_lock(f->host);
	nq = own(f, cont, num);
	if (nq) {
		state = nq->qp->state;
		attr = nq->qp->attr;
	}
	fast_unlock(f->host);
	if (!nq || state == IBV_QPS_ERR)
		return -EINVAL;
	if (nq->iw == IW_NONE)
		err = state == IBV_QPS_INIT ? take(f, nq, &attr, IW_ASKED) : -EINVAL;
	else if (nq->iw != IW_READY)
		err = -EISCONN;
	if (err)
		return err;
	fast_lock(f->host);
	nq->iw = IW_ASKED;
	nq->iw_conn = conn;
	fast_unlock(f->host);
	return 0;
}

/* [lock] The QP that has this connection, if the connection has not ended. */
static struct nic_qp *connected(struct fast *f, uint32_t num, uint32_t conn)
{
	struct nic_dev *d;

	NIC_FOREACH(d, f) {
		struct qp *qp = qp_by_num(&f->host->qps, nic_index(d), num);
		struct nic_qp *nq = qp ? qp->nic : NULL;

		if (nq && is_connected(nq) && nq->iw_conn == conn)
			return nq;
	}
	return NULL;
}

void nic_iw_up(struct fast *f, uint32_t num, uint32_t conn)
{
	struct nic_qp *nq;

	fast_lock(f->host);
	nq = connected(f, num, conn);
	if (nq) {
		nq->iw = IW_UP;
		if (nq->waits && nq->qp->busy) {
			nq->waits = false;
			fast_qp_activate(f, nq->qp);
		}
	}
	fast_unlock(f->host);
}

void nic_iw_down(struct fast *f, uint32_t num, uint32_t conn)
{
	struct nic_qp *nq;

	fast_lock(f->host);
	nq = connected(f, num, conn);
	if (nq) {
		nq->iw = IW_DOWN;
		fast_qp_error(f, nq->qp, 0);
	}
	fast_unlock(f->host);
}
