/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * srq.c - SRQs of QPs that the NIC carries.
 *
 * The NIC needs a receive before the message comes, and nobody knows to which QP the message will come. So the SRQ is
 * made on the NIC as well, with a CQ of its own, and receives move to the NIC as they are posted. Each QP takes the
 * next receive, as on a NIC that the container has for itself. (Receives that one QP got in advance would be missing
 * where the message comes.) For the SRQ's limit, receives that the NIC has count as posted (srq->held).
 *
 * If the software device serves a QP of the SRQ, from the container's ring, the NIC gets at most as many receives as
 * stay in the ring, because a receive cannot be taken back from the NIC.
 *
 * Some NICs drop a QP's completions with the QP, and nobody would know of receives of the SRQ among them. So the QP
 * goes to ERR first, and its completions are fetched. Receives that get lost nevertheless are counted in the ring.
 *
 * When the NIC is removed, its QPs are in error, but the SRQ still serves other QPs and later ones. So the receives
 * that the NIC had return to the ring, before the others. The ring has room: the client cannot reuse their places until
 * they have ended.
 */
#include "ffr/nic/nic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ffr/lib/shm.h"
#include "ffr/soft/soft.h"

#define LEAVE_POLLS 1024u /* polls for completions while a QP goes */

/* ---- making it; [ctl], no lock ------------------------------------------------------------------------- */

static uint32_t at_most(uint32_t n, int max)
{
	return max > 0 && n > (uint32_t)max ? (uint32_t)max : n;
}

static size_t recv_size(const struct nic_srq *ns)
{
	return sizeof(struct nic_srq_recv) + ns->srq->max_sge * sizeof(struct ff_sge);
}

struct nic_srq_recv *nic_srq_recv(const struct nic_srq *ns, uint32_t place)
{
	return (struct nic_srq_recv *)(ns->recv + place * recv_size(ns));
}

void nic_srq_free(struct nic_lib *lib, struct nic_srq *ns)
{
	if (ns->ib && lib->destroy_srq(ns->ib))
		log_err("NIC: an SRQ cannot be destroyed: %m");
	free(ns->recv);
	free(ns->is_given);
	free(ns->free);
	free(ns);
}

static void ns_free(struct nic_srq *ns)
{
	struct nic_cq *cq = ns->cq;
	uint32_t depth = ns->depth;

	nic_srq_free(&ns->d->lib, ns);
	if (cq)
		nic_cq_put(cq, depth);
}

static bool make(struct nic_srq *ns, struct ibv_pd *pd)
{
	struct nic_dev *d = ns->d;
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = ns->depth, .max_sge = ns->max_sge } };

	ns->recv = calloc(ns->depth, recv_size(ns));
	ns->is_given = calloc(ns->depth, sizeof(*ns->is_given));
	ns->free = calloc(ns->depth, sizeof(*ns->free));
	errno = ENOMEM;
	if (!ns->recv || !ns->is_given || !ns->free)
		return false;
	ns->cq = nic_cq_get(d, ns->srq->o.ses->cont, ns->depth);
	if (ns->cq)
		ns->ib = d->lib.create_srq(pd, &attr);
	return ns->ib;
}

struct nic_srq *nic_srq_get(struct fast *f, struct srq *srq)
{
	struct nic_dev *d = nic_of(srq->o.ses->cont);
	struct nic_srq *ns = srq->nic;
	struct ibv_pd *pd;

	if (ns)
		return ns;
	ns = calloc(1, sizeof(*ns));
	pd = ns ? nic_pd(d, srq->pd) : NULL;
	if (!pd) {
		free(ns);
		return NULL;
	}
	ns->d = d;
	ns->srq = srq;
	ns->id = ++d->srq_ids;
	ns->depth = at_most(srq->max_wr, d->attr.max_srq_wr);
	ns->max_sge = at_most(srq->max_sge, d->attr.max_srq_sge);
	if (!make(ns, pd)) {
		log_client(&srq->o.ses->cont->log, LOG_LEVEL_WARN,
			   "container %s: no SRQ of the NIC, its QPs reach containers only: %m",
			   srq->o.ses->cont->name);
		ns_free(ns);
		return NULL;
	}
	for (ns->num_free = 0; ns->num_free < ns->depth; ns->num_free++)
		ns->free[ns->num_free] = ns->num_free;
	fast_lock(f->host);
	LIST_INSERT_HEAD(&d->srqs, ns, entry);
	srq->nic = ns;
	nic_srq_count(f, srq, NULL);
	fast_unlock(f->host);
	return ns;
}

static void leave_list(struct nic_srq *ns)
{
	LIST_REMOVE(ns, entry);
	if (ns->is_to_fill)
		TAILQ_REMOVE(&ns->d->srqs_to_fill, ns, fill);
	ns->srq->nic = NULL;
}

void nic_srq_break(struct fast *f, struct srq *srq)
{
	struct nic_srq *ns = srq->nic;

	if (!ns)
		return;
	fast_lock(f->host);
	leave_list(ns);
	fast_unlock(f->host);
	ns_free(ns);
}

void nic_srq_leave(struct nic_qp *nq)
{
	struct fast *f = nq->d->f;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	if (!nq->ns || !nq->ib)
		return;
	fast_lock(f->host);
	if (nq->srq_use == SRQ_BY_NIC)
		nq->srq_use = SRQ_LEAVING;
	fast_unlock(f->host);
	if (nq->d->lib.modify_qp(nq->ib, &attr, IBV_QP_STATE))
		return; /* the QP is in RESET and has no receive */
	fast_lock(f->host);
	for (unsigned i = 0; i < LEAVE_POLLS && nic_poll(nq->d); i++)
		;
	fast_kick(f); /* completions of other QPs came as well */
	fast_unlock(f->host);
}

/* ---- who uses it [lock] ---------------------------------------------------------------------------------- */

void nic_srq_unuse(struct nic_qp *nq)
{
	struct nic_srq *ns = nq->ns;

	if (!ns || nq->srq_use == SRQ_UNUSED)
		return;
	--*(nq->srq_use == SRQ_BY_SOFT ? &ns->num_soft : &ns->num_carried);
	nq->srq_use = SRQ_UNUSED;
}

void nic_srq_use(struct fast *f, struct nic_qp *nq, enum nic_srq_use by)
{
	struct nic_srq *ns = nq->ns;

	if (!ns)
		return;
	nic_srq_unuse(nq);
	++*(by == SRQ_BY_SOFT ? &ns->num_soft : &ns->num_carried);
	nq->srq_use = by;
	nic_srq_fill(f, ns);
}

/* Does the QP receive from its SRQ without the NIC's SRQ, because it was made while the NIC was away? */
static bool is_alone(const struct qp *qp)
{
	return (!qp->nic || !qp->nic->ns) && qp->state >= IBV_QPS_RTR && qp->state <= IBV_QPS_SQE;
}

void nic_srq_count(struct fast *f, struct srq *srq, const struct qp *goes)
{
	const struct qp_table *t = &f->host->qps;
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->size; i++) {
		const struct qp *qp = t->slot[i];

		n += qp && qp != goes && qp->srq == srq && is_alone(qp);
	}
	srq->nic->num_alone = n;
}

/* ---- receives [lock] --------------------------------------------------------------------------------------- */

/* May the NIC have the next receive? */
static bool may_take(const struct nic_srq *ns)
{
	bool is_shared = ns->num_soft || ns->num_alone;

	return fast_srq_has(ns->srq, is_shared ? ns->srq->held + 1 : 1);
}

/* False: the NIC does not take it. */
static bool give(struct nic_srq *ns, const struct recv_wr *rwr)
{
	const struct srq *srq = ns->srq;
	struct ibv_sge sge[FF_MAX_SGE];
	struct ibv_recv_wr wr = { .sg_list = sge }, *bad;
	uint32_t place = ns->free[ns->num_free - 1];
	struct nic_srq_recv *r = nic_srq_recv(ns, place);

	/* a receive with wrong memory has no SGE, so a message that comes for it ends with an error */
	if (nic_sges(srq->o.ses->cont, srq->pd, rwr->sge, rwr->num_sge, IBV_ACCESS_LOCAL_WRITE, sge,
		     &wr.num_sge))
		wr.num_sge = 0;
	wr.wr_id = (uint64_t)ns->id << 48 | NIC_ID_SRQ | place;
	if (ibv_post_srq_recv(ns->ib, &wr, &bad))
		return false;
	ns->num_free--;
	ns->is_given[place] = true;
	r->wr_id = rwr->wr_id;
	r->at = srq->head - 1;
	r->num_sge = rwr->num_sge;
	memcpy(r->sge, rwr->sge, rwr->num_sge * sizeof(r->sge[0]));
	return true;
}

void nic_srq_broken(struct fast *f, struct nic_srq *ns)
{
	if (ns->is_broken)
		return;
	ns->is_broken = true;
	comp_async(f, ns->srq->o.ses, IBV_EVENT_SRQ_ERR, FF_ASYNC_SRQ, ns->srq->o.handle);
}

/* True: that was as much as one turn may, and there is more. */
static bool fill(struct fast *f, struct nic_srq *ns)
{
	struct srq *srq = ns->srq;
	struct recv_wr rwr;
	uint32_t n = 0;

	if (!ns->num_carried || ns->is_broken || !nic_is_up(ns->d))
		return false;
	do {
		while (ns->num_free && may_take(ns)) {
			if (n++ >= NIC_FILL)
				return true;
			if (fast_take_ahead(f, srq, &rwr) != FETCH_OK)
				return false;
			if (!give(ns,
				  &rwr)) { /* the software device's QPs go on with the receive */
				fast_srq_untake(srq);
				nic_srq_broken(f, ns);
				return false;
			}
		}
		if (!ns->num_free)
			return false; /* a completion makes room */
		atomic_store(&srq->hdr->need, 1);
		/* need before the look: pairs with the fence behind a posting */
		atomic_thread_fence(memory_order_seq_cst);
	} while (may_take(ns));
	return false;
}

void nic_srq_fill(struct fast *f, struct nic_srq *ns)
{
	if (ns->is_to_fill || !fill(f, ns))
		return;
	ns->is_to_fill = true;
	TAILQ_INSERT_TAIL(&ns->d->srqs_to_fill, ns, fill);
	f->again = true;
}

uint32_t nic_srq_fill_on(struct nic_dev *d)
{
	TAILQ_HEAD(, nic_srq) now = TAILQ_HEAD_INITIALIZER(now);
	struct nic_srq *ns;
	uint32_t n = 0;

	TAILQ_CONCAT(&now, &d->srqs_to_fill, fill);
	while ((ns = TAILQ_FIRST(&now))) {
		TAILQ_REMOVE(&now, ns, fill);
		ns->is_to_fill = false;
		nic_srq_fill(d->f, ns);
		n++;
	}
	return n;
}

static struct nic_srq *by_id(const struct nic_dev *d, const struct qp *qp, uint16_t id)
{
	struct nic_srq *ns = qp && qp->nic ? qp->nic->ns : NULL;

	if (ns && ns->id == id)
		return ns;
	LIST_FOREACH(ns, &d->srqs, entry)
		if (ns->id == id)
			return ns;
	return NULL;
}

/* Is the completion for the QP? A flushed receive of a QP that is not in ERR is left from before its RESET. */
static bool is_for(const struct qp *qp, const struct nic_srq *ns, const struct ibv_wc *wc)
{
	const struct nic_qp *nq = qp ? qp->nic : NULL;

	return nq && nq->ns == ns && nic_qp_is_carried(nq) && nq->srq_use == SRQ_BY_NIC &&
	       (wc->status != IBV_WC_WR_FLUSH_ERR || qp->state == IBV_QPS_ERR);
}

void nic_srq_completion(struct nic_dev *d, struct qp *qp, const struct ibv_wc *wc)
{
	struct fast *f = d->f;
	struct nic_srq *ns = by_id(d, qp, (uint16_t)(wc->wr_id >> 48));
	uint32_t place = (uint32_t)wc->wr_id;
	struct srq *srq;

	if (!ns || place >= ns->depth || !ns->is_given[place])
		return;
	srq = ns->srq;
	ns->is_given[place] = false;
	ns->free[ns->num_free++] = place;
	if (is_for(qp, ns, wc))
		nic_received(f, qp->nic, nic_srq_recv(ns, place)->wr_id, wc);
	else
		atomic_store_explicit(&srq->hdr->lost, ++srq->lost, memory_order_release);
	fast_srq_used(f, srq);
	nic_srq_fill(f, ns);
}

/* ---- the NIC is gone ---------------------------------------------------------------------------------------- */

/* Places in the order in which they were taken from the ring. */
static int older(const void *a, const void *b, void *arg)
{
	const struct nic_srq *ns = arg;
	uint32_t head = ns->srq->head;
	uint32_t x = head - nic_srq_recv(ns, *(const uint32_t *)a)->at;
	uint32_t y = head - nic_srq_recv(ns, *(const uint32_t *)b)->at;

	return x > y ? -1 : x < y;
}

/* Put the receive into the ring again, before its head. */
static void put_back(struct srq *srq, const struct nic_srq_recv *r)
{
	uint32_t i = --srq->head;
	struct ff_rqe *e =
		(struct ff_rqe *)(srq->ring + (size_t)(i & (srq->depth - 1)) * srq->stride);

	shm_copy(&e->num_sge, &r->num_sge, sizeof(r->num_sge));
	shm_copy(&e->wr_id, &r->wr_id, sizeof(r->wr_id));
	shm_copy(&e->sge, r->sge, r->num_sge * sizeof(r->sge[0]));
	atomic_store_explicit(&e->seq, ff_seq(i), memory_order_release);
	srq->held--;
}

void nic_srq_lose(struct fast *f, struct srq *srq)
{
	struct nic_srq *ns = srq->nic;
	uint32_t *given = ns->free; /* as many places, and nobody takes one any more */
	uint32_t n = 0;

	fast_lock(f->host);
	for (uint32_t i = 0; i < ns->depth; i++)
		if (ns->is_given[i])
			given[n++] = i;
	qsort_r(given, n, sizeof(*given), older, ns);
	while (n)
		put_back(srq, nic_srq_recv(ns, given[--n]));
	leave_list(ns);
	while (soft_srq_posted(f, srq))
		;
	fast_kick(f);
	fast_unlock(f->host);
}
