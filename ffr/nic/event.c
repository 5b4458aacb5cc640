/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * event.c - the NIC's asynchronous events: of its port, of single QPs and CQs, and of its end. Runner, [lock], except
 * for nic_look_at_port(), which calls the kernel and is the control thread's.
 *
 * What the NIC says, and who hears of it:
 *
 *	the port went down or came back	all sessions, by the same event, if containers use the NIC at all.
 *					ibv_query_port() still says ACTIVE, because the containers' port is the
 *					router's, which reaches containers of this host whatever the NIC does.
 *	the NIC's GID has changed	all sessions, by GID_CHANGE, once the new GID is in the containers' tables.
 *					Containers do not see the NIC's other GIDs.
 *	a QP is in error		the QP's owner; the QP goes to ERR, because the NIC has ended it
 *	a CQ has overrun		the owners of the CQ's QPs (QP_FATAL) and SRQs (SRQ_ERR); the CQ is the
 *					router's own, and unknown to containers
 *	an SRQ has failed		the SRQ's owner
 *	the NIC has ended, or goes	unplug.c
 *
 * A removed NIC sends DEVICE_FATAL if its driver can go while programs have the NIC open. Other drivers, such as rxe,
 * wait until all programs have closed the NIC. Then only inotify tells of the removal: the device file has gone.
 */
#include "ffr/nic/nic.h"

#include <errno.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

/* ---- the port ------------------------------------------------------------------------------------------ */

void nic_tell_port(struct nic_dev *d, enum ibv_event_type type)
{
	struct container *c;
	struct session *s;

	if (!d->conf->direct && !d->conf->net)
		return;
	LIST_FOREACH(c, &d->f->host->containers, entry) {
		if (nic_of(c) != d)
			continue;
		LIST_FOREACH(s, &c->sessions, entry)
			comp_async(d->f, s, type, FF_ASYNC_PORT, 1);
	}
}

/* Is the GID that was chosen still where it was? */
static bool has_gid(struct nic_dev *d)
{
	struct ibv_gid_entry e;

	return !d->lib.query_gid_ex(d->ctx, d->port, d->gid_index, &e, 0, sizeof(e)) &&
	       !memcmp(&e.gid, &d->gid, sizeof(e.gid));
}

void nic_look_at_port(struct nic_dev *d)
{
	struct fast_host *h = d->f->host;
	struct nic_dev now = { .conf = d->conf,
			       .lib = d->lib,
			       .ctx = d->ctx,
			       .port = d->port,
			       .is_iwarp = d->is_iwarp }; /* the runner reads d */
	int err = nic_query_port(&now);

	now.gid = d->gid;
	now.gid_index = d->gid_index;

	/* the worker reads the address of an iWARP NIC when it opens the NIC: this thread may not ask for it */
	if (!err && !d->is_iwarp && !has_gid(&now)) {
		err = nic_choose_gid(&now);
		if (err)
			log_warn("NIC %s: its GID has gone, and there is no other one: %s",
				 d->host->name, strerror(err));
	}
	if (err)
		return;
	fast_lock(h);
	d->port_attr = now.port_attr;
	fast_unlock(h);
	if (d->gid_index == now.gid_index && !memcmp(&d->gid, &now.gid, sizeof(d->gid)))
		return;
	fast_lock(h);
	d->gid = now.gid;
	d->gid_index = now.gid_index;
	fast_unlock(h);
	nic_tell_gid(d);
}

/* ---- QPs and CQs ----------------------------------------------------------------------------------------- */

/* Does the NIC work for the QP? */
static bool is_live(const struct nic_qp *nq)
{
	return nic_qp_is_carried(nq) || nq->state == NIC_QP_UD;
}

static void on_qp(struct nic_dev *d, const struct ibv_qp *ib, enum ibv_event_type type)
{
	struct fast *f = d->f;
	struct qp *qp = qp_by_num(&f->host->qps, nic_index(d), ib->qp_num);
	struct nic_qp *nq = qp ? qp->nic : NULL;

	if (d->ud_tunnel.ib == ib && type == IBV_EVENT_QP_FATAL)
		nic_ud_tunnel_failed(d);
	if (!nq || nq->ib != ib || !is_live(nq))
		return;
	switch (type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		nic_qp_fails(nq);
		fast_qp_error(f, qp, type);
		break;
	case IBV_EVENT_COMM_EST:
		if (!qp->comm_est_sent)
			comp_async_qp(f, qp, type);
		qp->comm_est_sent = true;
		break;
	default: /* the router itself tells SQ_DRAINED and LAST_WQE_REACHED; paths do not migrate */
		break;
	}
}

static bool is_of(const struct nic_qp *nq, const struct nic_cq *cq)
{
	return is_live(nq) && (nq->cq == cq || (nq->ns && nq->ns->cq == cq));
}

static void on_cq(struct nic_dev *d, const struct ibv_cq *ib)
{
	struct fast *f = d->f;
	struct nic_cq *cq = ib->cq_context;
	struct nic_srq *ns;

	cq->is_broken = true;
	for (uint32_t i = 0; i < f->host->qps.size; i++) {
		struct qp *qp = f->host->qps.slot[i];

		if (qp && qp->nic && is_of(qp->nic, cq))
			fast_qp_error(f, qp, IBV_EVENT_QP_FATAL);
	}
	LIST_FOREACH(ns, &d->srqs, entry)
		if (ns->cq == cq)
			nic_srq_broken(f, ns);
	if (d->ud_tunnel.cq == cq)
		nic_ud_tunnel_cq_failed(d);
}

static void on_srq(struct nic_dev *d, const struct ibv_srq *ib)
{
	struct nic_srq *ns;

	LIST_FOREACH(ns, &d->srqs, entry)
		if (ns->ib == ib)
			nic_srq_broken(d->f, ns);
}

static void on_event(struct nic_dev *d, const struct ibv_async_event *ev)
{
	switch (ev->event_type) {
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_GID_CHANGE:
		if (ev->element.port_num != d->port)
			break;
		if (ev->event_type != IBV_EVENT_GID_CHANGE)
			nic_tell_port(d, ev->event_type);
		d->port_is_new = true;
		nic_wake(d->f);
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
		on_qp(d, ev->element.qp, ev->event_type);
		break;
	case IBV_EVENT_CQ_ERR:
		on_cq(d, ev->element.cq);
		break;
	case IBV_EVENT_SRQ_ERR:
		on_srq(d, ev->element.srq);
		break;
	case IBV_EVENT_DEVICE_FATAL:
		nic_lose(d);
		break;
	default:
		break;
	}
}

void nic_events(struct nic_dev *d)
{
	struct ibv_async_event ev;

	/* also a fatal event is acknowledged, because destroying the object waits for that */
	while (nic_is_up(d) && !d->lib.get_async_event(d->ctx, &ev)) {
		on_event(d, &ev);
		d->lib.ack_async_event(&ev);
	}
}

/* ---- its end --------------------------------------------------------------------------------------------- */

void nic_lose(struct nic_dev *d)
{
	if (!nic_is_up(d))
		return;
	nic_dev_to(d, NIC_LOST);
	nic_batch_drop(d); /* its WRs count as sent, and end with the others */
	nic_wake(d->f);
}

void nic_node_events(struct nic_dev *d)
{
	_Alignas(struct inotify_event) uint8_t buf[4096];
	ssize_t n;

	while (nic_is_up(d) && (n = read(d->node_fd, buf, sizeof(buf))) > 0) {
		const struct inotify_event *ev;

		for (ssize_t at = 0; at < n; at += (ssize_t)(sizeof(*ev) + ev->len)) {
			ev = (const struct inotify_event *)(buf + at);
			if (ev->mask & IN_IGNORED ||
			    (ev->len && !strcmp(ev->name, d->device->dev_name)))
				nic_lose(d);
		}
	}
}
