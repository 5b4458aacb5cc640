/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * recv.c - take receives from the RQ of a QP or from its SRQ. Fast lock held; called by the software device and by
 * carriers when a message arrives, and by qp.c to flush.
 *
 * An RQE is copied once and checked on the copy. The client finds from its completions when the
 * place of one is free: every RQE that is taken ends with one, but for those of an SRQ that are
 * lost with their QP (fast_lose_recv).
 */
#include "ffr/fast/internal.h"
#include "ffr/lib/shm.h"

enum fetch recv_fetch(uint8_t *ring, uint32_t i, uint32_t depth, uint32_t stride, uint32_t max_sge,
		      struct recv_wr *out)
{
	const struct ff_rqe *e = (const struct ff_rqe *)(ring + (size_t)(i & (depth - 1)) * stride);
	uint32_t k;

	if (atomic_load_explicit(&e->seq, memory_order_acquire) != ff_seq(i))
		return FETCH_EMPTY;
	out->wr_id = shm_read(&e->wr_id);
	out->num_sge = shm_read(&e->num_sge);
	out->length = 0;
	if (out->num_sge > max_sge)
		return FETCH_BAD;
	shm_copy(out->sge, &e->sge[0], out->num_sge * sizeof(struct ff_sge));
	for (k = 0; k < out->num_sge; k++)
		out->length += out->sge[k].length;
	return FETCH_OK;
}

/*
 * The receive, that it is taken, the SRQ's index: from these the next router knows which receives QPs have
 * (ctl/qp.c). The client may have posted another receive in its place meanwhile.
 */
static inline void note_taken(struct qp *qp, struct recv_wr *out)
{
	CURSORS_IN_ORDER(*out, qp->srq_took);
	qp->srq_took = (uint64_t)(qp->rq.done + 1) << 32 | qp->srq->head;
	CURSORS_IN_ORDER(qp->srq_took, qp->srq->head);
}

/* qp NULL: ahead; what the SRQ holds is as good as posted, until fast_srq_used(). */
static enum fetch take_srq(struct fast *f, struct srq *srq, struct recv_wr *out, struct qp *qp)
{
	bool ahead = !qp;

	enum fetch r;

	if (srq->error)
		return FETCH_EMPTY;
	r = recv_fetch(srq->ring, srq->head, srq->depth, srq->stride, srq->max_sge, out);
	if (r == FETCH_BAD) {
		srq->error = true;
		srq->o.ses->stats.bad_wqes++;
		comp_async(f, srq->o.ses, IBV_EVENT_SRQ_ERR, FF_ASYNC_SRQ, srq->o.handle);
		return FETCH_EMPTY;
	}
	if (r == FETCH_OK) {
		if (qp && out == qp->kept)
			note_taken(qp, out);
		srq->head++;
		srq->held += ahead;
		if (srq->limit && !ahead)
			fast_srq_check_limit(f, srq);
	}
	return r;
}

enum fetch fast_take_ahead(struct fast *f, struct srq *srq, struct recv_wr *out)
{
	return take_srq(f, srq, out, NULL);
}

void fast_srq_untake(struct srq *srq)
{
	srq->head--;
	srq->held--;
}

void fast_srq_used(struct fast *f, struct srq *srq)
{
	srq->held--;
	if (srq->limit)
		fast_srq_check_limit(f, srq);
}

enum fetch fast_take_recv(struct fast *f, struct qp *qp, struct recv_wr *out)
{
	enum fetch r;

	if (qp->srq)
		return take_srq(f, qp->srq, out, qp);
	if (!qp->rq.depth)
		return FETCH_EMPTY;
	r = recv_fetch(qp->rq.ring, qp->rq.head, qp->rq.depth, qp->rq.stride, qp->max_recv_sge,
		       out);
	if (r == FETCH_EMPTY)
		return r;
	qp->rq.head++;
	if (r == FETCH_BAD)
		qp->stats.bad_wqes++;
	return r;
}

void fast_lose_recv(struct qp *qp)
{
	if (qp->srq)
		atomic_store_explicit(&qp->srq->hdr->lost, ++qp->srq->lost, memory_order_release);
}

/* Is the nth from here on posted? */
static bool is_posted(const struct srq *srq, uint32_t n)
{
	uint32_t i = srq->head + n;
	const struct ff_rqe *e =
		(const struct ff_rqe *)(srq->ring + (size_t)(i & (srq->depth - 1)) * srq->stride);

	return atomic_load_explicit(&e->seq, memory_order_acquire) == ff_seq(i);
}

bool fast_srq_ready(const struct srq *srq)
{
	return !srq->error && is_posted(srq, 0);
}

bool fast_srq_has(const struct srq *srq, uint32_t n)
{
	return !srq->error && is_posted(srq, n - 1);
}

/*
 * The limit event: fires once when fewer than `limit` WQEs are posted (IBTA 11.6.3.4). Only the
 * first missing entry matters: if the one `limit - 1` places ahead of the head is there, so are
 * all before it.
 */
void fast_srq_check_limit(struct fast *f, struct srq *srq)
{
	if (srq->limit <= srq->held || is_posted(srq, srq->limit - srq->held - 1))
		return;
	/* event before limit: a router that dies in between has the event come twice, and not never */
	comp_async(f, srq->o.ses, IBV_EVENT_SRQ_LIMIT_REACHED, FF_ASYNC_SRQ, srq->o.handle);
	srq->limit = 0;
}

void fast_srq_arm(struct fast *f, struct srq *srq, uint32_t limit)
{
	srq->limit = limit;
	if (limit)
		fast_srq_check_limit(f, srq);
}
