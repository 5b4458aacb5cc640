/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * gone.c - the completions of a device whose router is gone. Any thread of the application; called by cq.c for a CQ in
 * which nothing is left.
 *
 * Each posted WR is completed with IBV_WC_WR_FLUSH_ERR, as by a NIC that was taken away. After that the CQ is empty,
 * and polling it is no error, because some programs (UCX) abort where ibv_poll_cq() returns -1. The router writes no
 * CQEs any more. So the library writes these CQEs into the CQ's ring, where ibv_poll_cq() and ibv_start_poll() find
 * them like others.
 *
 * All CQEs of the CQ have been polled by then. So the receives of a QP that are left are those behind rq_polled, and
 * the sends those behind sq_done: ff_ring.h tells how. The router may have died between a CQE and sq_done, which has
 * the number of CQEs for that reason: what was polled beyond that number is not told twice. Receives of an SRQ stay
 * there, as they do where a QP has an error (IBTA 10.2.9.5).
 */
#include <unistd.h>

#include "ffl/verbs/cq.h"
#include "ffl/verbs/post.h"

/* Number of the first CQE that is not written yet is *at. */
static bool is_full(const struct ffl_cq *cq, uint32_t at)
{
	return at - cq->ci >= cq->depth;
}

static void put(struct ffl_cq *cq, uint32_t *at, struct ffl_qp *qp, uint64_t wr_id, uint8_t opcode)
{
	struct ff_cqe *e = &cq->ring[*at & (cq->depth - 1)];

	e->wr_id = wr_id;
	e->qp = qp->handle;
	e->qp_num = qp->qp.qp_num;
	e->byte_len = 0;
	e->vendor_err = FF_VERR_NONE;
	e->status = IBV_WC_WR_FLUSH_ERR;
	e->opcode = opcode;
	e->flags = 0;
	e->user = (uintptr_t)qp;
	/* release: as the router's, for a thread that polls */
	atomic_store_explicit(&e->phase, ff_cqe_phase(*at, cq->depth), memory_order_release);
	++*at;
}

static void flush_sends(struct ffl_cq *cq, struct ffl_qp *qp, uint32_t *at)
{
	uint64_t done = atomic_load_explicit(&qp->hdr->sq_done, memory_order_acquire);
	uint32_t first = (uint32_t)done, i, cqes = (uint32_t)(done >> 32);
	uint32_t told = atomic_load_explicit(&qp->sq_polled, memory_order_acquire) - cqes;

	for (i = first; i - first < qp->sq_depth && !is_full(cq, *at); i++) {
		const struct ff_sqe *e = ffl_sqe_at(qp, i);
		bool signaled;

		if (atomic_load_explicit(&e->seq, memory_order_acquire) != ff_seq(i))
			break;
		signaled = e->flags & FF_SQE_SIGNALED;
		if (told) {
			told -= signaled;
			cqes += signaled;
			continue;
		}
		put(cq, at, qp, e->wr_id, IBV_WC_SEND);
		cqes++;
	}
	atomic_store_explicit(&qp->hdr->sq_done, ff_done(i, cqes), memory_order_release);
}

static void flush_receives(struct ffl_cq *cq, struct ffl_qp *qp, uint32_t *at)
{
	uint32_t first = atomic_load_explicit(&qp->rq_polled, memory_order_acquire);

	for (uint32_t i = first; i - first < qp->rq_depth && !is_full(cq, *at); i++) {
		const struct ff_rqe *e =
			(const void *)(qp->rq + (size_t)(i & (qp->rq_depth - 1)) * qp->rq_stride);

		if (atomic_load_explicit(&e->seq, memory_order_acquire) != ff_seq(i))
			break;
		put(cq, at, qp, e->wr_id, IBV_WC_RECV);
	}
}

int ffl_cq_gone(struct ffl_cq *cq)
{
	struct ffl_context *ctx = cq->ctx;
	const struct ffl_table *t = &ctx->table[FFL_QP];
	bool is_empty;
	uint32_t at;

	if (ctx->pid != getpid()) /* a child: the rings are its parent's */
		return EIO;
	pthread_mutex_lock(&ctx->table_lock);
	ffl_lock(&cq->lock);
	at = cq->ci;
	is_empty =
		!ffl_cqe_at(cq, at); /* else another thread was here, or the router's last word */
	for (uint32_t i = 0; is_empty && i < t->size; i++) {
		struct ffl_qp *qp = t->slot[i].handle ? t->slot[i].obj : NULL;

		if (!qp || !qp->hdr)
			continue;
		if (qp->qp.send_cq == &cq->cq)
			flush_sends(cq, qp, &at);
		if (qp->qp.recv_cq == &cq->cq && qp->rq && !qp->srq)
			flush_receives(cq, qp, &at);
	}
	is_empty = !ffl_cqe_at(cq, cq->ci);
	ffl_unlock(&cq->lock);
	pthread_mutex_unlock(&ctx->table_lock);
	return is_empty ? 0 : EAGAIN;
}
