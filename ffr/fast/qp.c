/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * qp.c - a QP's life as the fast path sees it: states, errors, what they set going.
 * Fast lock held; called by the control thread (modify) and by the runner (errors).
 *
 * Which transitions are allowed is ctl/qp.c's and qp_state.c's business; here they have happened.
 */
#include <errno.h>

#include "ffr/fast/internal.h"
#include "ffr/fast/mw.h"
#include "ffr/fast/trace.h"

static uint8_t peer_type(uint8_t type)
{
	switch (type) {
	case IBV_QPT_XRC_SEND:
		return IBV_QPT_XRC_RECV;
	case IBV_QPT_XRC_RECV:
		return IBV_QPT_XRC_SEND;
	default:
		return type;
	}
}

int fast_qp_add(struct fast *f, struct qp *qp)
{
	int err;

	qp->num_of = qp->o.ses->cont->nic;
	err = qpn_alloc(&f->host->qps, qp);
	if (err)
		return err;
	qp->peer_type = peer_type(qp->type);
	if (f->conf.latency && qp->wr)
		qp->lat.hist = calloc(1, sizeof(*qp->lat.hist));
	err = f->conf.latency && qp->wr && !qp->lat.hist ? -ENOMEM : f->be->ops->qp_create(f, qp);
	if (err) {
		free(qp->lat.hist);
		qp->lat.hist = NULL;
		qpn_free(&f->host->qps, qp);
		return err;
	}
	qp->state = IBV_QPS_RESET;
	trace_qp_new(qp);
	fast_arm_qp(qp, 0);
	return 0;
}

void fast_qp_rearm(struct qp *qp)
{
	qp_tell_done(qp);
	atomic_store(&qp->hdr->rq_need, 0);
	fast_arm_qp(qp, 0);
}

void fast_qp_deactivate(struct fast *f, struct qp *qp)
{
	uint64_t ns = rate_forget(f, &qp->wait);

	qp->stats.throttled_ns += ns;
	if (qp->is_active)
		turns_del(f, qp);
}

static void rate_go(struct fast *f, struct rate_wait *w)
{
	struct qp *qp = (struct qp *)((char *)w - offsetof(struct qp, wait));

	qp->stats.throttled_ns += f->now - w->since;
	fast_qp_activate(f, qp);
}

void fast_qp_throttle(struct fast *f, struct qp *qp, struct rate_meter *m)
{
	fast_qp_deactivate(f, qp);
	qp->wait.go = rate_go;
	rate_wait(f, m, &qp->wait);
}

void fast_qp_del(struct fast *f, struct qp *qp)
{
	f->be->ops->qp_destroy(f, qp);
	mw_qp_gone(qp, UINT32_MAX);
	fast_qp_deactivate(f, qp);
	qpn_free(&f->host->qps, qp);
	lat_forget(f, qp);
	stats_fold_qp(qp);
	free(qp->lat.hist);
	free(qp->trace);
	qp->lat.hist = NULL;
	qp->trace = NULL;
}

/* The rings stay as they are: ff_ring.h tells why. */
static void reset(struct fast *f, struct qp *qp)
{
	fast_qp_deactivate(f, qp);
	qp->sq.cqes = qp->in_flight = 0;
	qp->srq_took = 0;
	qp_atom_set(qp, ATOM_NONE);
	qp->busy = qp->draining = qp->last_wqe_sent = qp->comm_est_sent = false;
	atomic_store(&qp->hdr->rq_need, 0);
}

void fast_qp_reset(struct fast *f, struct qp *qp, uint32_t sq_tail, uint32_t rq_tail)
{
	fast_qp_set_state(f, qp, IBV_QPS_RESET);
	if (qp->type == IBV_QPT_XRC_RECV) /* no client posts to it */
		return;
	qp->sq.head = sq_tail;
	qp->rq.head = qp->rq.done = rq_tail;
	qp_tell_done(qp);
	fast_arm_qp(qp, 0);
}

/* Receives that a QP in error takes from an SRQ end here: the event tells that none is to come. */
static void last_wqe(struct fast *f, struct qp *qp)
{
	if ((!qp->srq && qp->type != IBV_QPT_XRC_RECV) || qp->last_wqe_sent)
		return;
	qp->last_wqe_sent = true;
	comp_async_qp(f, qp, IBV_EVENT_QP_LAST_WQE_REACHED);
}

static void enter_err(struct fast *f, struct qp *qp)
{
	if (qp->flush_waits) { /* fast_qp_flush_go() */
		fast_qp_deactivate(f, qp);
		return;
	}
	/* the WRs in_flight have been flushed, and nobody uses the WR under way any more: flush it now */
	if (qp->busy)
		comp_send(f, qp, IBV_WC_WR_FLUSH_ERR, FF_VERR_FLUSH);
	qp->draining = false;
	qp_flush(f, qp);
	/* what is posted from now on is flushed as it comes */
	atomic_store_explicit(&qp->hdr->rq_need, 1, memory_order_relaxed);
	fast_qp_activate(f, qp);
	last_wqe(f, qp);
}

void fast_qp_flush_go(struct fast *f, struct qp *qp)
{
	qp->flush_waits = false;
	if (qp->state == IBV_QPS_ERR) {
		enter_err(f, qp);
	} else if (qp->state == IBV_QPS_SQE) {
		if (qp->busy)
			comp_send(f, qp, IBV_WC_WR_FLUSH_ERR, FF_VERR_FLUSH);
		fast_qp_activate(f, qp);
	}
}

void qp_drained(struct fast *f, struct qp *qp)
{
	qp->draining = false;
	qp->attr.sq_draining = 0;
	if (qp->attr.en_sqd_async_notify)
		comp_async_qp(f, qp, IBV_EVENT_SQ_DRAINED);
}

void fast_qp_set_state(struct fast *f, struct qp *qp, enum ibv_qp_state state)
{
	enum ibv_qp_state old = qp->state;

	qp->state = state;
	if (qp->wait.on) { /* it looks again, and at its new state */
		fast_qp_deactivate(f, qp);
		fast_qp_activate(f, qp);
	}
	f->be->ops->qp_modify(f, qp, old);
	if (state == old && state != IBV_QPS_RESET)
		return;
	switch (state) {
	case IBV_QPS_RESET:
		reset(f, qp);
		break;
	case IBV_QPS_RTS:
		qp->draining = false;
		qp->attr.sq_draining = 0;
		/* one that was never in RTS is armed since it was made: its first posting rings */
		if (old != IBV_QPS_RTR || qp_sqe_ready(qp, qp->sq.head))
			fast_qp_activate(f, qp);
		break;
	case IBV_QPS_SQD:
		qp->draining = true;
		qp->attr.sq_draining = 1;
		if (qp_is_idle(qp))
			qp_drained(f, qp);
		break;
	case IBV_QPS_SQE:
		fast_qp_activate(f, qp);
		break;
	case IBV_QPS_ERR:
		enter_err(f, qp);
		break;
	default:
		break;
	}
}

void fast_qp_last_turn(struct fast *f, struct qp *qp)
{
	/* one that waits for a limit goes on waiting, and is flushed */
	if (qp->wr && qp->state == IBV_QPS_RTS && !qp->wait.on && !qp->o.ses->cont->cpu.parked)
		send_service(f, qp);
}

void fast_qp_error(struct fast *f, struct qp *qp, enum ibv_event_type event)
{
	if (qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_RESET)
		return;
	if (event)
		comp_async_qp(f, qp, event);
	fast_qp_set_state(f, qp, IBV_QPS_ERR);
}

/* RC, XRC: the QP goes to ERR. UC and UD: to SQE, where receives go on (IBTA 10.3.1.6). */
void qp_send_failed(struct fast *f, struct qp *qp)
{
	if (qp_is_reliable(qp))
		fast_qp_error(f, qp, 0);
	else if (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD)
		fast_qp_set_state(f, qp, IBV_QPS_SQE);
}
