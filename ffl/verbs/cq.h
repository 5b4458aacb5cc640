/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * cq.h - what cq.c and cq_ex.c share: the consumer's side of a CQ's ring.
 *
 * The client owns the entries from ci up to the first that is not valid; the router does not touch
 * them before hdr->ci has passed them. So readers use an entry in place, and ffl_cq_clean may mark
 * it: handle 0, which no QP has, is a CQE of a QP that was destroyed or reset, to be skipped.
 */
#ifndef FFL_VERBS_CQ_H
#define FFL_VERBS_CQ_H

#include "ffl/session/ffl.h"

/*
 * Nothing was found. Announces postings, yields, looks after the router. 0; EAGAIN: it yielded, and something may
 * have come meanwhile, or what ffl_cq_gone() wrote is there; or EIO, as that has.
 */
int ffl_cq_idle(struct ffl_cq *cq);
/*
 * gone.c: the router is gone, and nothing is left in the CQ. Writes what is posted, as flushed. EAGAIN: poll once
 * more; 0: nothing is posted; EIO: the CQ is not this process's.
 */
int ffl_cq_gone(struct ffl_cq *cq);
void ffl_cq_log_error(const struct ff_cqe *cqe);

/* CQE number i, or NULL: the router has not written it yet. */
static inline struct ff_cqe *ffl_cqe_at(const struct ffl_cq *cq, uint32_t i)
{
	struct ff_cqe *cqe = &cq->ring[i & (cq->depth - 1)];

	/* acquire: phase before the CQE's other fields, and before the data that it tells of */
	if (atomic_load_explicit(&cqe->phase, memory_order_acquire) != ff_cqe_phase(i, cq->depth))
		return NULL;
	return cqe;
}

/*
 * A CQE was polled, or is forgotten: its WR's place in the queue is free (ff_ring.h). Call with the
 * CQ's lock held: the QP lives at least until ffl_cq_clean() has been here.
 */
static inline void ffl_cqe_polled(const struct ff_cqe *cqe)
{
	struct ffl_qp *qp = (struct ffl_qp *)(uintptr_t)cqe->user;
	_Atomic uint32_t *n;
	struct ffl_srq *srq;

	if (cqe->opcode & FF_CQE_RECV) {
		srq = cqe->qp & FF_CQE_OF_SRQ ? (struct ffl_srq *)(uintptr_t)cqe->user : qp->srq;
		if (srq) {
			/* release: as below */
			atomic_fetch_add_explicit(&srq->polled, 1, memory_order_release);
			return;
		}
		n = &qp->rq_polled;
	} else {
		n = &qp->sq_polled;
	}
	/* release: the router has read the entry before it completed it; who posts there acquires this */
	atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1,
			      memory_order_release);
}

/* Everything before ci was read. Call with the CQ's lock held. */
static inline void ffl_cq_consumed(struct ffl_cq *cq, uint32_t ci)
{
	cq->ci = ci;
	/* reads of the CQEs before ci: the router writes them again only after it */
	atomic_store_explicit(&cq->hdr->ci, ci, memory_order_release);
	atomic_store_explicit(&cq->empty_polls, 0, memory_order_relaxed);
}

/* wc_flags of a CQE */
static inline unsigned int ffl_wc_flags(uint8_t f)
{
	return (f & FF_CQE_GRH) / FF_CQE_GRH * IBV_WC_GRH |
	       (f & FF_CQE_IMM) / FF_CQE_IMM * IBV_WC_WITH_IMM |
	       (f & FF_CQE_INV) / FF_CQE_INV * IBV_WC_WITH_INV;
}
static_assert(FF_CQE_RECV == IBV_WC_RECV, "ff_cqe.opcode is an enum ibv_wc_opcode");

#endif
