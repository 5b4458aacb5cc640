/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * qp.c - a QP's life at the NIC: made with the container's own, taken through its states, ended. path.c finds out
 * whether the NIC carries the QP. The control thread makes the calls to the kernel, without the lock (nic_qp_make() to
 * nic_work()). All other functions are called with the lock held.
 */
#include "ffr/nic/nic.h"

#include <errno.h>
#include <string.h>

#include "ffr/nic/cm/cm.h"
#include "ffr/obj/gid.h"

#define ENDS_NS	  (20 * NS_PER_MS) /* for the NIC to take a QP to ERR that it has told of */
#define QPN_TRIES 64u /* numbers of the NIC that may not fit into the table, one after the other */

/* ---- making it -------------------------------------------------------------------------------------- */

/* QPs of XRC are the software device's. */
static bool is_for_nic(const struct qp *qp)
{
	return qp->type == IBV_QPT_RC || qp->type == IBV_QPT_UC;
}

static uint32_t at_most(uint32_t n, int max)
{
	return max > 0 && n > (uint32_t)max ? (uint32_t)max : n;
}

static struct ibv_qp_init_attr init_of(const struct nic_dev *d, const struct nic_qp *nq)
{
	const struct qp *qp = nq->qp;

	return (struct ibv_qp_init_attr){
		.send_cq = nq->cq->cq,
		.recv_cq = nq->ns ? nq->ns->cq->cq : nq->cq->cq,
		.srq = nq->ns ? nq->ns->ib : NULL,
		.qp_type = (enum ibv_qp_type)qp->type,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = nq->send_depth,
			 .max_recv_wr = nq->recv_depth,
			 .max_send_sge = at_most(qp->max_send_sge, d->attr.max_sge),
			 .max_recv_sge = at_most(qp->max_recv_sge, d->attr.max_sge),
			 .max_inline_data = at_most(qp->max_inline, (int)d->max_inline) },
	};
}

/*
 * Create a QP for ibv_wr_*(). NULL: the NIC has no such QPs. Only mlx5 gets one, because rxe of rdma-core 44 loses a
 * part of the second SGE of WRs that ibv_wr_*() makes (tests/vm/nic-memory.sh, 8 bytes in two SGEs).
 */
static struct ibv_qp *create_ex(struct nic_dev *d, struct ibv_pd *pd,
				const struct ibv_qp_init_attr *attr)
{
	struct verbs_context *v = nic_is_mlx5(d) ? verbs_get_ctx_op(d->ctx, create_qp_ex) : NULL;
	struct ibv_qp_init_attr_ex ex = {
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
				  IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
				  IBV_QP_EX_WITH_SEND_WITH_INV,
	};

	if (attr->qp_type == IBV_QPT_RC)
		ex.send_ops_flags |= IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
				     IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
	return v ? v->create_qp_ex(d->ctx, &ex) : NULL;
}

static struct ibv_qp *create(struct nic_dev *d, struct ibv_pd *pd,
			     const struct ibv_qp_init_attr *init)
{
	struct ibv_qp_init_attr attr = *init; /* create_qp() writes the QP's real depths there */
	struct ibv_qp *ib = NULL;

	if (attr.qp_type == IBV_QPT_RC || attr.qp_type == IBV_QPT_UC)
		ib = create_ex(d, pd, init);
	/* cppcheck-suppress returnDanglingLifetime */
	return ib ? ib : d->lib.create_qp(pd, &attr);
}

/*
 * In the router's table each low part of a number has one place. QPs whose numbers do not fit are kept until one fits,
 * because the NIC would give the same number again.
 */
struct ibv_qp *nic_create_fitting(struct nic_dev *d, const struct qp_table *t, struct ibv_pd *pd,
				  struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *misfit[QPN_TRIES], *qp;
	uint8_t nic = nic_index(d);
	uint32_t n = 0;
	int err;

	while ((qp = create(d, pd, attr)) && !qpn_fits(t, nic, qp->qp_num) && n < QPN_TRIES)
		misfit[n++] = qp;
	err = errno;
	if (qp && !qpn_fits(t, nic, qp->qp_num)) {
		d->lib.destroy_qp(qp);
		qp = NULL;
		err = EAGAIN;
	}
	while (n)
		d->lib.destroy_qp(misfit[--n]);
	errno = err;
	return qp;
}

static void nic_qp_free(struct nic_qp *nq)
{
	struct nic_dev *d = nq->d;

	if (nq->iw_conn)
		nic_ucma_qp_goes(d, nq->iw_conn);
	nic_srq_leave(nq);
	if (nq->ib && d->lib.destroy_qp(nq->ib))
		log_err("NIC %s: a QP cannot be destroyed: %m", d->host->name);
	nic_pace_put(d, nq);
	if (nq->cq)
		nic_cq_put(nq->cq, nq->send_depth + nq->recv_depth);
	nic_ud_break(nq);
	free(nq->sent);
	free(nq->recv_id);
	free(nq);
}

static struct nic_qp *nic_qp_new(struct nic_dev *d, struct qp *qp)
{
	struct nic_qp *nq = calloc(1, sizeof(*nq));

	if (!nq)
		return NULL;
	nq->d = d;
	nq->qp = qp;
	nq->life = ++d->lives;
	return nq;
}

static void made(struct nic_qp *nq)
{
	nq->qp->qp_num = nq->ib->qp_num;
	nq->qp->nic = nq;
}

/* Without a part on the NIC a UD QP still reaches containers, so this does not fail. */
static int ud_make(struct nic_dev *d, struct qp *qp)
{
	bool has_part = d->f->host->nic_direct && !d->is_iwarp;
	struct nic_qp *nq = has_part ? nic_qp_new(d, qp) : NULL;

	if (nq && !nic_ud_make(nq))
		made(nq);
	else if (nq)
		nic_qp_free(nq);
	return 0;
}

int nic_qp_make(struct fast *f, struct qp *qp)
{
	struct nic_dev *d = nic_of(qp->o.ses->cont);
	struct ibv_qp_init_attr attr;
	struct nic_qp *nq;
	struct ibv_pd *pd;
	int err;

	if (!nic_is_up(d))
		return 0;
	if (qp->type == IBV_QPT_UD)
		return ud_make(d, qp);
	if (!is_for_nic(qp) || (d->is_iwarp && qp->type != IBV_QPT_RC))
		return 0;
	nq = nic_qp_new(d, qp);
	if (!nq)
		return -ENOMEM;
	if (qp->srq) {
		nq->ns = nic_srq_get(f, qp->srq);
		if (!nq->ns) { /* the QP reaches containers */
			free(nq);
			return 0;
		}
	}
	nq->send_depth = at_most(at_most(qp->max_send_wr, NIC_SEND_MAX), d->attr.max_qp_wr);
	nq->recv_depth = nq->ns ? 0 : at_most(qp->max_recv_wr, d->attr.max_qp_wr);
	nq->sent = calloc(nq->send_depth, sizeof(*nq->sent));
	nq->recv_id = calloc(nq->recv_depth + 1, sizeof(*nq->recv_id));
	errno = ENOMEM;
	pd = nq->sent && nq->recv_id ? nic_pd(d, qp->pd) : NULL;
	if (pd)
		nq->cq = nic_cq_get(d, qp->o.ses->cont, nq->send_depth + nq->recv_depth);
	if (nq->cq) {
		attr = init_of(d, nq);
		nq->ib = nic_create_fitting(d, &f->host->qps, pd, &attr);
	}
	if (nq->ib) {
		/* of QPs of other drivers libibverbs would read beyond the struct */
		nq->ex = nic_is_mlx5(d) ? d->lib.qp_to_qp_ex(nq->ib) : NULL;
		nic_pace_get(d, nq);
		made(nq);
		return 0;
	}
	err = errno;
	log_client(&qp->o.ses->cont->log, LOG_LEVEL_WARN, "container %s: no QP of the NIC: %s",
		   qp->o.ses->cont->name, strerror(err));
	nic_qp_free(nq);
	return -err;
}

void nic_qp_break(struct qp *qp)
{
	if (qp->nic)
		nic_qp_free(qp->nic);
	qp->nic = NULL;
}

/* ---- its states --------------------------------------------------------------------------------------- */

/* The hop limit between hosts' NICs, since a container's own is about the containers' network. */
#define HOST_HOPS 64

struct ibv_ah_attr nic_ah_attr(const struct nic_dev *d, const struct nic_qp *nq,
			       const struct ff_ah_attr *a)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = d->port,
		.dlid = a->dlid,
		.sl = a->sl,
		.src_path_bits = a->src_path_bits,
		.static_rate = a->static_rate,
		.grh = { .dgid = nq->to,
			 .flow_label = a->flow_label,
			 .sgid_index = d->gid_index,
			 .hop_limit = nq->there ? HOST_HOPS : a->hop_limit,
			 .traffic_class = a->traffic_class },
	};
}

static int to_reset(struct nic_dev *d, struct nic_qp *nq)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	return d->lib.modify_qp(nq->ib, &attr, IBV_QP_STATE);
}

#define ACCESS_FLAGS                                                                               \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

static int to_init(struct nic_dev *d, struct nic_qp *nq, const struct ff_qp_attr *a)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = d->port,
		.qp_access_flags = a->qp_access_flags & ACCESS_FLAGS,
	};

	return d->lib.modify_qp(nq->ib, &attr,
				IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					IBV_QP_ACCESS_FLAGS);
}

static int to_rtr(struct nic_dev *d, struct nic_qp *nq, const struct ff_qp_attr *a)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.ah_attr = nic_ah_attr(d, nq, &a->ah),
		.path_mtu = (enum ibv_mtu)a->path_mtu,
		.dest_qp_num = a->dest_qp_num,
		.rq_psn = a->rq_psn,
		.max_dest_rd_atomic =
			(uint8_t)at_most(a->max_dest_rd_atomic, d->attr.max_qp_rd_atom),
		.min_rnr_timer = a->min_rnr_timer,
	};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	if (attr.path_mtu > d->port_attr.active_mtu)
		attr.path_mtu = d->port_attr.active_mtu;
	if (nq->qp->type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return d->lib.modify_qp(nq->ib, &attr, mask);
}

int nic_to_rts(struct nic_dev *d, struct nic_qp *nq, const struct ff_qp_attr *a)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = a->sq_psn,
		.qp_access_flags = a->qp_access_flags & ACCESS_FLAGS,
		.min_rnr_timer = a->min_rnr_timer,
		.timeout = a->timeout,
		.retry_cnt = a->retry_cnt,
		.rnr_retry = a->rnr_retry,
		.max_rd_atomic = (uint8_t)at_most(a->max_rd_atomic, d->attr.max_qp_init_rd_atom),
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_ACCESS_FLAGS;
	int err;

	if (nq->qp->type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	err = d->lib.modify_qp(nq->ib, &attr, mask);
	if (!err)
		nic_pace_begin(d, nq);
	return err;
}

/* The mask of the attributes that are new to the NIC and may change in RTS. */
static int changed(const struct qp *qp, const struct ff_qp_attr *a, struct ibv_qp_attr *attr)
{
	int mask = 0;

	attr->qp_access_flags = a->qp_access_flags & ACCESS_FLAGS;
	attr->min_rnr_timer = a->min_rnr_timer;
	if ((qp->attr.qp_access_flags ^ a->qp_access_flags) & ACCESS_FLAGS)
		mask |= IBV_QP_ACCESS_FLAGS;
	if (qp->type == IBV_QPT_RC && qp->attr.min_rnr_timer != a->min_rnr_timer)
		mask |= IBV_QP_MIN_RNR_TIMER;
	return mask;
}

/* A UC QP goes on. If it was the router that found an error, the NIC's QP is in RTS yet, and stays there. */
static int from_sqe(struct nic_dev *d, struct nic_qp *nq, const struct ff_qp_attr *a)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };

	return d->lib.modify_qp(nq->ib, &attr, IBV_QP_STATE | changed(nq->qp, a, &attr));
}

/* A QP in SQD may change these attributes. The NIC's QP stays in RTS then: the router gives it no more WRs. */
bool nic_is_for_sqd(const struct ff_qp_attr *old, const struct ff_qp_attr *a)
{
	return memcmp(&old->ah, &a->ah, sizeof(a->ah)) || old->timeout != a->timeout ||
	       old->retry_cnt != a->retry_cnt || old->rnr_retry != a->rnr_retry ||
	       old->max_rd_atomic != a->max_rd_atomic ||
	       old->max_dest_rd_atomic != a->max_dest_rd_atomic;
}

/* Give the NIC's QP other attributes, in RTS or SQD. 0 or an errno */
static int change(struct nic_dev *d, struct nic_qp *nq, const struct ff_qp_attr *a)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	int mask = changed(nq->qp, a, &attr);

	if (nic_is_for_sqd(&nq->qp->attr, a))
		return EOPNOTSUPP;
	return mask ? d->lib.modify_qp(nq->ib, &attr, IBV_QP_STATE | mask) : 0;
}

/* The container's QP does not go to RTR: reset the NIC's QP, and put the receives that it got into the ring again. */
static void undo_rtr(struct fast *f, struct nic_qp *nq)
{
	to_reset(nq->d, nq);
	fast_lock(f->host);
	nic_qp_to(nq, NIC_QP_SOFT);
	nic_srq_unuse(nq);
	nq->qp->rq.head -= nq->recv_tail - nq->recv_una;
	nq->recv_una = nq->recv_tail = 0;
	nq->life = ++nq->d->lives;
	nic_set_there(f, nq, NULL);
	fast_unlock(f->host);
}

/* The receives that were posted in INIT are the NIC's before a message can come for them. */
int nic_take_receives(struct fast *f, struct nic_qp *nq, const struct ff_qp_attr *a)
{
	bool more;
	int err = to_init(nq->d, nq, a);

	if (nq->cq->is_broken || (nq->ns && nq->ns->cq->is_broken))
		err = EIO;
	if (err)
		return -err;
	fast_lock(f->host);
	nic_srq_use(f, nq, SRQ_BY_NIC);
	fast_unlock(f->host);
	do {
		fast_lock(f->host);
		more = nic_recv_fill(f, nq);
		fast_unlock(f->host);
	} while (more);
	return 0;
}

int nic_to_rtr(struct fast *f, struct nic_qp *nq, const struct ff_qp_attr *a)
{
	int err = nic_take_receives(f, nq, a);

	if (err)
		return err;
	err = to_rtr(nq->d, nq, a);
	if (err) {
		undo_rtr(f, nq);
		return -err;
	}
	fast_lock(f->host);
	nic_qp_to(nq, NIC_QP_CARRIED);
	fast_unlock(f->host);
	return 0;
}

/* If one of several steps at once fails after RTR, none of them has happened. */
static int prepare_rts(struct fast *f, struct nic_qp *nq, const struct ff_qp_attr *a)
{
	int err = nic_to_rts(nq->d, nq, a);

	if (err && (nq->qp->state == IBV_QPS_INIT || nq->qp->state == IBV_QPS_RESET))
		undo_rtr(f, nq);
	return -err;
}

/* Refuse a path that only the NIC can carry, if the QP has no part on the NIC. 0 or -errno */
static int prepare_without(struct fast *f, const struct qp *qp, const struct ff_qp_attr *attr)
{
	const struct nic_dev *d = nic_of(qp->o.ses->cont);
	struct remote *there;
	union ibv_gid to;
	enum nic_path path;

	if (!is_for_nic(qp))
		return 0;
	fast_lock(f->host);
	path = nic_path_of(f, qp, &attr->ah, &to, &there);
	fast_unlock(f->host);
	if (path != PATH_NIC)
		return 0;
	return d->is_iwarp && nic_is_up(d) ? -EOPNOTSUPP : -ENODEV;
}

int nic_qp_prepare(struct fast *f, struct qp *qp, const struct ff_qp_attr *attr,
		   enum ibv_qp_state now, enum ibv_qp_state next)
{
	struct nic_dev *d = nic_of(qp->o.ses->cont);
	struct nic_qp *nq = qp->nic;
	struct remote *there;
	enum nic_path path;

	if (!nq)
		return next == IBV_QPS_RTR && now == IBV_QPS_INIT ? prepare_without(f, qp, attr) :
								    0;
	if (nq->ud)
		return nic_ud_prepare(f, nq, attr, now, next);
	if (d->is_iwarp)
		return nic_iw_step(f, nq, attr, now, next);
	if (next == IBV_QPS_RTR && now == IBV_QPS_INIT) {
		fast_lock(f->host);
		path = nic_path_of(f, qp, &attr->ah, &nq->to, &there);
		nic_set_there(f, nq, path == PATH_NIC ? there : NULL);
		nic_undecided_end(f, nq); /* of an RTR that was prepared, and did not happen */
		if (path == PATH_UNKNOWN)
			nic_qp_to(nq, NIC_QP_UNDECIDED);
		fast_unlock(f->host);
		return path == PATH_NIC ? nic_to_rtr(f, nq, attr) : 0;
	}
	if (!nic_qp_is_carried(nq))
		return 0;
	if (next == IBV_QPS_RTS && now == IBV_QPS_RTR)
		return prepare_rts(f, nq, attr);
	if (next == IBV_QPS_RTS && now == IBV_QPS_SQE)
		return -from_sqe(d, nq, attr);
	if (next == IBV_QPS_RTS || (next == IBV_QPS_SQD && now == IBV_QPS_SQD))
		return -change(d, nq, attr);
	/* the container gets its answer after the NIC's QP has stopped, so no completion follows it */
	if (next != IBV_QPS_RESET)
		return 0;
	nic_srq_leave(nq);
	return -to_reset(d, nq);
}

/*
 * A QP of which the NIC has reported an error goes to ERR by itself. rxe (7.3) reports, by an event or a failed
 * receive, before it answers the peer, and would not answer if the router took the QP to ERR meanwhile. So the router
 * does that only after ENDS_NS.
 */
void nic_end_later(struct fast *f, struct nic_qp *nq)
{
	struct nic_dev *d = nq->d;

	if (nq->state == NIC_QP_ENDING || nq->state == NIC_QP_ENDED)
		return;
	nq->end_at = nq->state == NIC_QP_FAILING ? host_now(f->host) + ENDS_NS : 0;
	nic_qp_to(nq, NIC_QP_ENDING);
	if (nq->end_at)
		TAILQ_INSERT_TAIL(&d->to_end, nq, end);
	else
		TAILQ_INSERT_HEAD(&d->to_end, nq, end);
	nic_wake(f);
}

void nic_on_end(struct timer *t)
{
	struct nic_dev *d = (struct nic_dev *)((char *)t - offsetof(struct nic_dev, end));

	nic_wake(d->f);
}

/* [lock] The next QP that is to be taken to ERR now, or NULL. */
static struct nic_qp *next_to_end(struct nic_dev *d)
{
	struct nic_qp *nq = TAILQ_FIRST(&d->to_end);

	if (!nq)
		return NULL;
	if (nq->end_at > host_now(d->f->host) && !timer_arm(&d->f->timers, &d->end, nq->end_at)) {
		fast_kick(d->f); /* a runner that sleeps does so until the timer that it knows */
		return NULL;
	}
	TAILQ_REMOVE(&d->to_end, nq, end);
	nic_qp_to(nq, NIC_QP_ENDED);
	return nq;
}

/* Take the QPs of nic_end_later() to ERR. */
static void end_all(struct nic_dev *d)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct fast *f = d->f;
	struct nic_qp *nq;

	for (;;) {
		fast_lock(f->host);
		nq = next_to_end(d);
		fast_unlock(f->host);
		if (!nq)
			return;
		/* only this thread ends objects, so the QP is there */
		if (d->lib.modify_qp(nq->ib, &attr, IBV_QP_STATE))
			log_err("NIC %s: a QP cannot be taken to ERR: %m", d->host->name);
		if (!nq->cq->is_broken && !d->is_siw)
			continue;
		fast_lock(f->host);
		nic_cq_drain(nq->cq); /* siw brings no more completions */
		if (nq->qp->state == IBV_QPS_ERR)
			nic_qp_flush(f, nq);
		fast_unlock(f->host);
	}
}

void nic_work(struct fast *f, bool all)
{
	struct nic_dev *d;

	NIC_FOREACH(d, f) {
		if (all) {
			nic_jobs_settle(d->worker);
			nic_ucma_settle(d);
			continue;
		}
		nic_unplug_work(d);
		nic_ucma_work(d);
		nic_pace_update(d);
		nic_ud_tunnel_work(d);
		while (nic_decide_one(d))
			;
		end_all(d);
	}
}

/* ---- what follows from it [lock] ------------------------------------------------------------------------ */

/* Has the NIC ended all that is to be flushed? In SQE receives go on. */
static bool is_idle(const struct nic_qp *nq)
{
	return nq->una == nq->tail &&
	       (nq->recv_una == nq->recv_tail || nq->qp->state == IBV_QPS_SQE);
}

void nic_qp_ended_one(struct fast *f, struct nic_qp *nq)
{
	if (nq->qp->flush_waits && is_idle(nq))
		fast_qp_flush_go(f, nq->qp);
}

static void start(struct fast *f, struct nic_qp *nq)
{
	nq->qp->send = &nic_send;
	nic_recv_fill_all(f, nq);
	/* when the runner fell asleep, nobody used this CQ, or it was not there, so it may not be armed */
	fast_kick(f);
}

static void forget(struct fast *f, struct nic_qp *nq)
{
	if (nq->d->batch.nq == nq)
		nic_batch_drop(nq->d);
	if (nq->state == NIC_QP_ENDING)
		TAILQ_REMOVE(&nq->d->to_end, nq, end);
	if (nq->is_to_fill)
		TAILQ_REMOVE(&nq->d->to_fill, nq, fill);
	nic_undecided_end(f, nq);
	nic_set_there(f, nq, NULL);
	nic_srq_unuse(nq);
	if (nq->iw != IW_NONE)
		nq->iw = IW_DOWN;
	nic_qp_to(nq, NIC_QP_SOFT);
	nq->is_to_fill = nq->waits = nq->qp->flush_waits = false;
	nq->una = nq->tail = nq->recv_una = nq->recv_tail = nq->unposted = 0;
	nq->life = ++nq->d->lives;
}

struct nic_qp *nic_qp_lose(struct fast *f, struct qp *qp)
{
	struct nic_qp *nq = qp->nic;

	if (nic_qp_is_undecided(nq))
		nic_undecided_lose(f, nq);
	if (nic_qp_is_carried(nq)) {
		fast_qp_error(f, qp, IBV_EVENT_QP_FATAL);
		if (qp->state == IBV_QPS_ERR)
			nic_qp_flush(f, nq);
	}
	if (nq->ud)
		nic_ud_lose(f, nq);
	else
		forget(f, nq);
	qp->send = nic_other_send(qp);
	qp->nic = NULL;
	return nq;
}

bool nic_qp_modify(struct fast *f, struct qp *qp, enum ibv_qp_state old)
{
	struct nic_qp *nq = qp->nic;

	if ((!nq || !nq->ns) && qp->srq && qp->srq->nic)
		nic_srq_count(f, qp->srq, NULL);
	if (nq && nq->ud) {
		qp->send = &nic_ud_send;
		nic_ud_modify(f, nq);
		return false;
	}
	if (nq && nic_qp_is_undecided(nq))
		return nic_undecided_modify(f, nq, old);
	if (!nq)
		return false;
	if (!nic_qp_is_carried(nq)) {
		if (qp->state == IBV_QPS_RTR && old == IBV_QPS_INIT)
			nic_srq_use(f, nq, SRQ_BY_SOFT);
		else if (qp->state == IBV_QPS_RESET)
			nic_srq_unuse(nq);
		return false;
	}
	switch (qp->state) {
	case IBV_QPS_RESET:
		qp->send = nic_other_send(qp);
		forget(f, nq);
		break;
	case IBV_QPS_RTR:
		if (old == IBV_QPS_INIT)
			start(f, nq);
		break;
	case IBV_QPS_RTS:
		qp->flush_waits = false;
		break;
	case IBV_QPS_SQE:
		/* a WR at the NIC caused this; nic_qp_ended_one() flushes the waiting WR before the rest */
		qp->flush_waits = !is_idle(nq) || qp->busy;
		break;
	case IBV_QPS_ERR:
		qp->flush_waits = !is_idle(nq);
		nic_end_later(f, nq);
		break;
	default:
		break;
	}
	return true;
}

void nic_qp_forget(struct fast *f, struct qp *qp)
{
	if ((!qp->nic || !qp->nic->ns) && qp->srq && qp->srq->nic)
		nic_srq_count(f, qp->srq, qp);
	if (qp->nic && qp->nic->ud)
		nic_ud_forget(qp->nic);
	else if (qp->nic)
		forget(f, qp->nic);
}
