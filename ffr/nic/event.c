/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * event.c - what the NIC tells beside completions: of its port, of single QPs and CQs, and of its end. Runner, [lock],
 * but for nic_look_at_port(), which calls the kernel and is the control thread's.
 *
 * Who hears what:
 *
 *	the port went down or came back	all sessions, as the same event, if containers use the NIC at all. What
 *					query_port tells stays ACTIVE: the containers' port is the router's, by
 *					which those of this host are reached whatever the NIC does.
 *	its GID is another one		the same (GID_CHANGE), once it is in their tables; other GIDs than the one
 *					that the router has chosen are nothing to them
 *	a QP is in error		its owner, and the QP goes to ERR: the NIC has ended it
 *	a CQ has overrun		the owners of its QPs (QP_FATAL) and SRQs (SRQ_ERR): the CQ is the router's own, of
 *					which containers know nothing
 *	an SRQ cannot go on		its owner
 *	the NIC has ended, or goes	gone.c
 *
 * A NIC that is removed tells so by an event (DEVICE_FATAL) if its driver can go while programs have it open. If not, as with
 * rxe, the removal waits until all have closed it, and only that its device file has gone tells: inotify.
 */
#include "ffr/nic/nic.h"

#include <errno.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

/* ---- the port ------------------------------------------------------------------------------------------ */

void nic_tell_port(struct fast *f, enum ibv_event_type type)
{
	const struct nic_conf *conf = f->be->conf;
	struct container *c;
	struct session *s;

	if (!conf->direct && !conf->net)
		return;
	LIST_FOREACH(c, &f->host->containers, entry)
		LIST_FOREACH(s, &c->sessions, entry)
			comp_async(f, s, type, FF_ASYNC_PORT, 1);
}

/* Is the GID that was chosen still where it was? */
static bool has_gid(struct nic_dev *d)
{
	struct ibv_gid_entry e;

	return !d->lib.query_gid_ex(d->ctx, d->port, d->gid_index, &e, 0, sizeof(e)) &&
	       !memcmp(&e.gid, &d->gid, sizeof(e.gid));
}

void nic_look_at_port(struct fast *f)
{
	const struct nic_conf *conf = f->be->conf;
	struct nic_dev *d = nic_of(f);
	struct nic_dev now = {
		.lib = d->lib, .ctx = d->ctx, .port = d->port, .is_iwarp = d->is_iwarp
	}; /* the runner reads d */
	int err = nic_query_port(&now);

	now.gid = d->gid;
	now.gid_index = d->gid_index;

	/* the address of one of iWARP is read when it is opened: this thread may not ask for it */
	if (!err && !d->is_iwarp && !has_gid(&now)) {
		err = nic_choose_gid(&now, conf->gid_index);
		if (err)
			log_warn("NIC %s: its GID has gone, and there is no other one: %s",
				 conf->name ? conf->name : "", strerror(err));
	}
	if (err)
		return;
	fast_lock(f->host);
	d->port_attr = now.port_attr;
	fast_unlock(f->host);
	if (d->gid_index == now.gid_index && !memcmp(&d->gid, &now.gid, sizeof(d->gid)))
		return;
	fast_lock(f->host);
	d->gid = now.gid;
	d->gid_index = now.gid_index;
	fast_unlock(f->host);
	nic_tell_gid(f);
}

/* ---- QPs and CQs ----------------------------------------------------------------------------------------- */

static void on_qp(struct fast *f, const struct ibv_qp *ib, enum ibv_event_type type)
{
	struct qp *qp = qp_by_num(&f->host->qps, ib->qp_num);
	const struct nic_qp *nq = qp ? qp->nic : NULL;

	if (nic_of(f)->trunk.ib == ib && type == IBV_EVENT_QP_FATAL)
		nic_trunk_failed(f);
	if (!nq || nq->ib != ib || !(nq->ud ? nq->ud->is_up : nq->carried))
		return;
	switch (type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		fast_qp_error(f, qp, type);
		break;
	case IBV_EVENT_COMM_EST:
		if (!qp->comm_est_sent)
			comp_async_qp(f, qp, type);
		qp->comm_est_sent = true;
		break;
	default: /* SQ_DRAINED and LAST_WQE_REACHED the router tells itself; paths do not migrate */
		break;
	}
}

static bool is_of(const struct nic_qp *nq, const struct nic_cq *cq)
{
	if (nq->ud)
		return nq->ud->is_up && nq->cq == cq;
	return nq->carried && (nq->cq == cq || (nq->ns && nq->ns->cq == cq));
}

static void on_cq(struct fast *f, const struct ibv_cq *ib)
{
	struct nic_cq *cq = ib->cq_context;
	struct nic_srq *ns;

	cq->is_broken = true;
	for (uint32_t i = 0; i < f->host->qps.size; i++) {
		struct qp *qp = f->host->qps.slot[i];

		if (qp && qp->nic && is_of(qp->nic, cq))
			fast_qp_error(f, qp, IBV_EVENT_QP_FATAL);
	}
	LIST_FOREACH(ns, &nic_of(f)->srqs, entry)
		if (ns->cq == cq)
			nic_srq_broken(f, ns);
	if (nic_of(f)->trunk.cq == cq)
		nic_trunk_cq_failed(f);
}

static void on_srq(struct fast *f, const struct ibv_srq *ib)
{
	struct nic_srq *ns;

	LIST_FOREACH(ns, &nic_of(f)->srqs, entry)
		if (ns->ib == ib)
			nic_srq_broken(f, ns);
}

static void on_event(struct fast *f, const struct ibv_async_event *ev)
{
	struct nic_dev *d = nic_of(f);

	switch (ev->event_type) {
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_GID_CHANGE:
		if (ev->element.port_num != d->port)
			break;
		if (ev->event_type != IBV_EVENT_GID_CHANGE)
			nic_tell_port(f, ev->event_type);
		d->port_is_new = true;
		nic_wake(f);
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
		on_qp(f, ev->element.qp, ev->event_type);
		break;
	case IBV_EVENT_CQ_ERR:
		on_cq(f, ev->element.cq);
		break;
	case IBV_EVENT_SRQ_ERR:
		on_srq(f, ev->element.srq);
		break;
	case IBV_EVENT_DEVICE_FATAL:
		nic_lose(f);
		break;
	default:
		break;
	}
}

void nic_events(struct fast *f)
{
	struct nic_dev *d = nic_of(f);
	struct ibv_async_event ev;

	/* after a fatal one it is still acknowledged: who destroys the object waits for that */
	while (d->is_there && !d->lib.get_async_event(d->ctx, &ev)) {
		on_event(f, &ev);
		d->lib.ack_async_event(&ev);
	}
}

/* ---- its end --------------------------------------------------------------------------------------------- */

void nic_lose(struct fast *f)
{
	struct nic_dev *d = nic_of(f);

	if (!d->is_there)
		return;
	d->is_there = false;
	d->is_lost = true;
	nic_batch_drop(d); /* its WRs count as sent, and end with the others */
	nic_wake(f);
}

void nic_node_events(struct fast *f)
{
	struct nic_dev *d = nic_of(f);
	_Alignas(struct inotify_event) uint8_t buf[4096];
	ssize_t n;

	while (d->is_there && (n = read(d->node_fd, buf, sizeof(buf))) > 0) {
		const struct inotify_event *ev;

		for (ssize_t at = 0; at < n; at += (ssize_t)(sizeof(*ev) + ev->len)) {
			ev = (const struct inotify_event *)(buf + at);
			if (ev->mask & IN_IGNORED ||
			    (ev->len && !strcmp(ev->name, d->device->dev_name)))
				nic_lose(f);
		}
	}
}
