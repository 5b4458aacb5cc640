/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * backend.c - the software device's ops: a complete RDMA device in the router.
 * Neighbours: soft/ (what the ops do), backend.h (threads and ownership of each).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "ffr/remote/remote.h"

/* No OUI that anybody was given: the bit for locally administered ones, and "ff". */
#define SOFT_VENDOR_ID 0x026666
#define WAKE_MAX       256u /* requesters that are told at once of an SRQ's receives */

static int soft_open(struct backend *be)
{
	struct soft_dev *dev = calloc(1, sizeof(*dev));

	if (!dev)
		return -ENOMEM;
	LIST_INIT(&dev->unreachable);
	wire_init(&dev->wire, &remote_wire_ops);
	LIST_INIT(&dev->stalled);
	TAILQ_INIT(&dev->held);
	TAILQ_INIT(&dev->known);
	LIST_INIT(&dev->late);
	if (getrandom(&dev->random, sizeof(dev->random), GRND_NONBLOCK) < 0)
		dev->random = 0;
	dev->random |= 1; /* 0 stays 0 */
	mcast_init(&dev->mcast);
	be->priv = dev;
	be->wire = &dev->wire;
	return 0;
}

static void soft_close(struct backend *be)
{
	if (be->priv)
		remote_ud_fini(be->priv);
	free(be->priv);
	be->priv = NULL;
	be->wire = NULL;
}

void soft_describe(struct ff_query_device_resp *d)
{
	snprintf(d->fw_ver, sizeof(d->fw_ver), "soft");
	d->vendor_id = SOFT_VENDOR_ID;
	d->max_mr_size = 1ull << 46;
	d->page_size_cap = FF_PAGE;
	d->device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_RC_RNR_NAK_GEN |
			      IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_MEM_WINDOW |
			      IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_XRC |
			      FF_DEVICE_FLUSH_GLOBAL | FF_DEVICE_ATOMIC_WRITE;
	d->hca_core_clock = 1000000; /* kHz: ns */
	d->timestamp_mask = UINT64_MAX;
	d->max_qp = FF_MAX_QP;
	d->max_qp_wr = FF_MAX_WR;
	d->max_sge = d->max_sge_rd = d->max_srq_sge = FF_MAX_SGE;
	d->max_inline = FF_MAX_INLINE;
	d->max_cq = d->max_srq = d->max_pd = d->max_ah = FF_MAX_QP;
	d->max_mr = d->max_mw = 65535;
	d->max_dm_size = UINT64_MAX; /* as much as the router gives */
	d->max_cqe = FF_MAX_CQE;
	d->max_srq_wr = FF_MAX_WR;
	d->max_qp_rd_atom = d->max_qp_init_rd_atom = 128;
	d->max_mcast_grp = d->max_total_mcast_qp_attach = MCAST_MAX_CONTAINER;
	d->max_mcast_qp_attach = MCAST_MAX_GROUP;
	d->max_cq_count = d->max_cq_period = UINT16_MAX;
	d->max_pkeys = 1;
	d->local_ca_ack_delay = 15;
	d->atomic_cap = IBV_ATOMIC_HCA;
	/* whatever reaches ordinary memory reaches on-demand memory: it is all pvm.c */
	d->odp_general = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
	d->odp_ud = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
	d->odp_uc = d->odp_ud | IBV_ODP_SUPPORT_WRITE;
	d->odp_rc = d->odp_xrc = d->odp_uc | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC |
				 FF_ODP_FLUSH | FF_ODP_ATOMIC_WRITE;
}

static int soft_qp_create(struct fast *f, struct qp *qp)
{
	struct soft_qp *sq = calloc(1, sizeof(*sq));

	(void)f;
	if (!sq)
		return -ENOMEM;
	sq->qp = sq->req.x.qp = sq->resp.from_wire.qp = qp;
	sq->req.timer.fn = requester_timer;
	copy_init(&sq->copy);
	LIST_INIT(&sq->resp.rnr_waiters);
	TAILQ_INIT(&sq->resp.late);
	LIST_INIT(&sq->mcast.groups);
	qp->soft = sq;
	qp->send = qp->type == IBV_QPT_UD ? &ud_send : &local_send;
	return 0;
}

/* Whoever waits for something of this QP looks again. */
static void wake_rnr(struct fast *f, struct soft_list *waiters)
{
	struct soft_qp *w;

	while ((w = LIST_FIRST(waiters)))
		requester_resume(f, w);
}

void soft_qp_follow(struct fast *f, struct qp *qp, enum ibv_qp_state old)
{
	switch (qp->state) {
	case IBV_QPS_RESET:
	case IBV_QPS_ERR:
		remote_abort(f, qp, qp->state == IBV_QPS_ERR);
		requester_abort(f, qp);
		responder_abort(qp, f, qp->state == IBV_QPS_ERR);
		local_wake_peer(f, qp);
		if (qp->state == IBV_QPS_RESET)
			remote_free(f, qp);
		route_forget(f, qp);
		break;
	case IBV_QPS_RTR:
	case IBV_QPS_RTS:
		if (qp->type != IBV_QPT_UD && !qp->soft->rem)
			route_resolve(f, qp);
		if (old != qp->state) {
			local_wake_peer(f, qp);
			remote_announce(f, qp);
		}
		break;
	default:
		break;
	}
}

static void soft_qp_modify(struct fast *f, struct qp *qp, enum ibv_qp_state old)
{
	if (!CARRIERS_FIRST(claim, f, qp, old))
		soft_qp_follow(f, qp, old);
}

static void soft_qp_destroy(struct fast *f, struct qp *qp)
{
	CARRIERS_DO(forget, f, qp);
	requester_abort(f, qp);
	responder_abort(qp, f, false);
	qp->state = IBV_QPS_RESET; /* for those who look again */
	local_wake_peer(f, qp);
	wake_rnr(f, &qp->soft->resp.rnr_waiters);
	mcast_leave_all(f, qp);
	remote_free(f, qp);
	route_forget(f, qp);
	free(qp->soft->ud.gathered);
	if (qp->soft->resp.rwr != qp->kept)
		free(qp->soft->resp.rwr);
	free(qp->soft);
	qp->soft = NULL;
}

static void soft_srq_destroy(struct fast *f, struct srq *srq)
{
	struct remote_qp *rq;
	struct qp *t;

	LIST_FOREACH(t, &srq->targets, xrc.same_srq) {
		responder_abort(t, f, false);
		if (t->soft->rem)
			response_recv_gone(f, t->soft->rem);
	}
	wake_rnr(f, &srq->rnr_waiters);
	while ((rq = LIST_FIRST(&srq->rnr_owed)))
		response_recv_posted(f, rq);
}

static void forget_path(struct qp *qp, const struct container *c)
{
	if (qp->dest == c)
		qp->dest = NULL;
}

/* Sessions of the container are gone; what is left are paths of others that lead to it. */
static void soft_container_gone(struct fast *f, struct container *c)
{
	struct container *o;
	struct session *s;

	LIST_FOREACH(o, &f->host->containers, entry) {
		struct xrcd *x;
		struct qp *t;

		LIST_FOREACH(x, &o->xrcds, entry)
			LIST_FOREACH(t, &x->targets, xrc.same_xrcd)
				forget_path(t, c);
		LIST_FOREACH(s, &o->sessions, entry) {
			struct obj_table *q = &s->tab[OBJ_QP], *a = &s->tab[OBJ_AH];

			for (uint32_t i = 0; i < q->size; i++)
				if (q->slot[i] && obj_of(q->slot[i], qp)->soft)
					forget_path(obj_of(q->slot[i], qp), c);
			for (uint32_t i = 0; i < a->size; i++)
				if (a->slot[i] && obj_of(a->slot[i], ah)->cont == c)
					obj_of(a->slot[i], ah)->cont = NULL;
		}
	}
}

static void soft_qp_move(struct fast *from, struct fast *to, struct qp *qp)
{
	struct soft_dev *dev = to->be->priv;
	struct soft_qp *sq = qp->soft;
	struct timer *t;
	bool armed;

	if (!sq) /* a handle of an XRC_RECV QP */
		return;
	remote_ud_forget(from, qp);
	t = &sq->req.timer;
	armed = t->index;
	timer_cancel(&from->timers, t);
	if (armed && timer_arm(&to->timers, t, t->at)) {
		requester_resume(to, sq); /* no memory: it looks too early */
	} else if (sq->req.state == REQ_WAIT_ACK && sq->req.is_waiting) {
		LIST_REMOVE(sq, req.waiting);
		LIST_INSERT_HEAD(&dev->unreachable, sq, req.waiting);
	}
}

/* Who does not know yet whom its path leads to looks again. */
static void soft_container_come(struct fast *f)
{
	struct soft_dev *dev = f->be->priv;
	struct soft_qp *sq, *next;

	LIST_FOREACH_SAFE(sq, &dev->unreachable, req.waiting, next)
		if (!sq->there && !sq->qp->dest)
			requester_resume(f, sq);
}

/*
 * Some of those that wait for a receive of the SRQ, of whom there may be tens of thousands. Others have
 * their turn in the next one if these leave a receive, else when the client announces another.
 */
bool soft_srq_posted(struct fast *f, struct srq *srq)
{
	struct remote_qp *rq;
	struct soft_qp *w;
	uint32_t n;

	for (n = 0; n < WAKE_MAX && (w = LIST_FIRST(&srq->rnr_waiters)); n++)
		requester_resume(f, w);
	for (; n < WAKE_MAX && (rq = LIST_FIRST(&srq->rnr_owed)); n++)
		response_recv_posted(f, rq);
	if (n < WAKE_MAX)
		return false;
	/* need before the look: pairs with the fence behind a posting */
	atomic_store(&srq->hdr->need, 1);
	atomic_thread_fence(memory_order_seq_cst);
	return fast_srq_ready(srq);
}

static bool soft_recv_posted(struct fast *f, struct qp *qp, struct srq *srq)
{
	bool more = srq && soft_srq_posted(f, srq);

	if (CARRIERS_FIRST(recv, f, qp, srq) || srq)
		return more;
	wake_rnr(f, &qp->soft->resp.rnr_waiters);
	if (qp->soft->rem)
		response_recv_posted(f, qp->soft->rem);
	return false;
}

const struct backend_ops soft_ops = {
	.open = soft_open,
	.close = soft_close,
	.qp_create = soft_qp_create,
	.qp_modify = soft_qp_modify,
	.qp_destroy = soft_qp_destroy,
	.srq_destroy = soft_srq_destroy,
	.qp_move = soft_qp_move,
	.container_come = soft_container_come,
	.container_gone = soft_container_gone,
	.mcast_changed = remote_mcast_changed,
	.wire_attach = wire_attach,
	.wire_detach = wire_detach,
	.recv_posted = soft_recv_posted,
};
