/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * post.h - what post.c and post_ex.c share: slots of the send ring, the poster's CPU, the doorbell.
 *
 * Theory of the doorbell (the layout's side is in ff_ring.h). A poster does
 *	store SQE, then its seq; full fence; load need
 * and the router, before it stops watching a QP,
 *	store evt, then need; full fence; load the next seq
 * so that at least one of them sees the other (Dekker). With need seen there are two cases:
 *	- the postings pass evt: the poster takes `need` (exchange, so that one poster rings) and
 *	  announces the QP: dirty bit, summary bit, and the bell if the session asks for it.
 *	- they do not: the router wants several in one go. Nothing is written, but the QP's handle
 *	  is left in ctx->lazy_qp, and whoever next finds nothing to do (an empty poll, a wait for an
 *	  event) announces it. Only one QP is remembered; the one it displaces is announced.
 * An announcement that was not needed costs the router one look at a ring. That is why lazy_qp is
 * a handle and not a pointer: it may outlive its QP.
 *
 * The room ffl/verbs/ is the verbs of QPs, CQs, SRQs, channels and their like: objects by requests to the
 * router, posting and polling by the rings. It may use session/ and mem/.
 */
#ifndef FFL_VERBS_POST_H
#define FFL_VERBS_POST_H

#include <unistd.h>

#include "ffr/abi/ff_probe.h"
#include "ffr/abi/ff_verbs.h"
#include "ffl/session/ffl.h"

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* How the CPU's number is found: 0 not tried yet. */
enum { FFL_CPU_UNKNOWN, FFL_CPU_RDPID, FFL_CPU_RDTSCP, FFL_CPU_CALL };
extern _Atomic int ffl_cpu_how;
uint16_t ffl_cpu_slow(void);
void ffl_doorbell_slow(struct ffl_context *ctx, struct ffl_qp *qp, uint32_t old, uint32_t tail);

/* CPU that the caller runs on: a hint, old by the time it is read. */
static inline uint16_t ffl_cpu(void)
{
#ifdef __x86_64__
	if (likely(atomic_load_explicit(&ffl_cpu_how, memory_order_relaxed) == FFL_CPU_RDPID)) {
		uint64_t v;

		/* Linux keeps node << 12 | cpu there, for the vDSO's getcpu. */
		__asm__ volatile("rdpid %0" : "=r"(v));
		return v & 0xfff;
	}
#endif
	return ffl_cpu_slow();
}

static inline struct ff_sqe *ffl_sqe_at(const struct ffl_qp *qp, uint32_t i)
{
	return (struct ff_sqe *)(qp->sq + (size_t)(i & (qp->sq_depth - 1)) * qp->sq_stride);
}

/*
 * Is there no room for SQE number `tail`? The router's word is read only when what is known of it
 * says so. Call with qp->sq_lock held.
 */
static inline bool ffl_sq_full(struct ffl_qp *qp, uint32_t tail)
{
	if (likely((int32_t)(qp->sq_limit - tail) > 0))
		return false;
	/* acquire: the router has read the entries before we write to them again; so has it those that
	 * another thread polled the CQEs of, which may be ahead of sq_done */
	qp->sq_limit = ff_sq_limit(atomic_load_explicit(&qp->hdr->sq_done, memory_order_acquire),
				   atomic_load_explicit(&qp->sq_polled, memory_order_acquire),
				   qp->sq_depth);
	return (int32_t)(qp->sq_limit - tail) <= 0;
}

/* Is this a child, and the rings its parent's? A device whose router is gone takes what is posted, and flushes it. */
static inline bool ffl_is_parents(const struct ffl_context *ctx)
{
	return unlikely(atomic_load_explicit(&ctx->dead, memory_order_relaxed)) &&
	       ctx->pid != getpid();
}

/* Posting in these states is refused; in ERR, SQD and SQE the router flushes or queues. */
static inline bool ffl_may_send(const struct ffl_qp *qp)
{
	return qp->qp.state > IBV_QPS_RTR;
}
static_assert(IBV_QPS_RESET < IBV_QPS_INIT && IBV_QPS_INIT < IBV_QPS_RTR &&
		      IBV_QPS_RTR < IBV_QPS_RTS && IBV_QPS_RTS < IBV_QPS_SQD &&
		      IBV_QPS_SQD < IBV_QPS_SQE && IBV_QPS_SQE < IBV_QPS_ERR,
	      "the order of enum ibv_qp_state");

/* SQE flags of IBV_SEND_*; sig_all is the QP's. */
static inline uint8_t ffl_sqe_flags(unsigned int f, bool sig_all)
{
	return ((f & IBV_SEND_SIGNALED) / IBV_SEND_SIGNALED | sig_all) * FF_SQE_SIGNALED |
	       (f & IBV_SEND_SOLICITED) / IBV_SEND_SOLICITED * FF_SQE_SOLICITED |
	       (f & IBV_SEND_FENCE) / IBV_SEND_FENCE * FF_SQE_FENCE;
}

/* Bind: complete but for what all operations have. 0 or EINVAL: of another device. */
int ffl_sqe_bind(const struct ffl_qp *qp, struct ff_sqe *sqe, const struct ibv_mw *mw,
		 uint32_t rkey, const struct ibv_mw_bind_info *info);

/* XRC: the number of the SRQ that the request is for. */
static inline void ffl_sqe_set_srqn(struct ff_sqe *sqe, uint32_t srqn)
{
	if (ff_op_srqn_in_imm(sqe->opcode))
		sqe->imm = srqn;
	else
		sqe->remote_srqn = srqn;
}

/* Give the router SQE number i, which is complete. */
static inline void ffl_sqe_publish(struct ff_sqe *sqe, uint32_t i)
{
	/* SQE body before seq: the router never reads half a WR */
	atomic_store_explicit(&sqe->seq, ff_seq(i), memory_order_release);
}

/* SQEs old..tail-1 were published: tell the router if it asks for it. Call without locks. */
static inline void ffl_doorbell(struct ffl_context *ctx, struct ffl_qp *qp, uint32_t old,
				uint32_t tail)
{
	/* seq before need: pairs with the router's fence between need and its last look */
	atomic_thread_fence(memory_order_seq_cst);
	if (unlikely(atomic_load_explicit(&qp->hdr->need, memory_order_acquire)))
		ffl_doorbell_slow(ctx, qp, old, tail);
}

#endif
