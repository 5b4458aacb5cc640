/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * post.c - ibv_post_send, ibv_post_recv, ibv_post_srq_recv: work requests into the rings, and the
 * doorbell. post_ex.c does the same for ibv_wr_*. Any thread of the application; a queue's spin
 * lock orders them, and no system call is made under it.
 *
 * What is checked here is what IBTA 11.4.1.1 has as immediate errors: the state, the opcode, the
 * number of SGEs, the length of inline data, room in the queue. Keys, addresses and lengths are
 * checked by the router, and fail with a completion.
 */
#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <sched.h>
#include <string.h>

#include "ffl/verbs/post.h"

_Atomic int ffl_cpu_how;

#ifdef __x86_64__
/*
 * Without RDPID the same number comes with the time stamp. (LSL on the kernel's GDT entry, as in
 * the vDSO, is faster, but valgrind and some sandboxes do not have it.) Not by __rdtscp(&aux): what
 * gives addresses of its stack away has a canary, of 8 instructions for each posting; so cpu_how() is
 * a function by itself.
 */
static uint32_t cpu_rdtscp(void)
{
	uint32_t aux;

	__asm__ volatile("rdtscp" : "=c"(aux) : : "rax", "rdx");
	return aux;
}

static __attribute__((noinline)) int cpu_how(void)
{
	uint32_t a, b, c, d;

	if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && c & 1u << 22)
		return FFL_CPU_RDPID;
	if (__get_cpuid(0x80000001, &a, &b, &c, &d) && d & 1u << 27)
		return FFL_CPU_RDTSCP;
	return FFL_CPU_CALL;
}
#else
static uint32_t cpu_rdtscp(void)
{
	return 0;
}

static int cpu_how(void)
{
	return FFL_CPU_CALL;
}
#endif

uint16_t ffl_cpu_slow(void)
{
	int how = atomic_load_explicit(&ffl_cpu_how, memory_order_relaxed);

	if (how == FFL_CPU_UNKNOWN) /* threads that race here find the same */
		atomic_store_explicit(&ffl_cpu_how, cpu_how(), memory_order_relaxed);
	if (how == FFL_CPU_RDTSCP)
		return cpu_rdtscp() & 0xfff;
	how = sched_getcpu();
	return how < 0 ? 0 : (uint16_t)how;
}

/* ---- doorbell: theory in post.h ---------------------------------------------------------------- */

/* `need` was seen. Kept out of line: in a stream of postings the router watches and it is 0. */
void ffl_doorbell_slow(struct ffl_context *ctx, struct ffl_qp *qp, uint32_t old, uint32_t tail)
{
	uint32_t evt = atomic_load_explicit(&qp->hdr->evt, memory_order_relaxed);
	uint32_t prev = qp->handle;

	if (ff_need_event(evt, tail, old)) {
		/* What was left of this QP is announced along. */
		if (atomic_load(&ctx->lazy_qp) == prev)
			atomic_compare_exchange_strong(&ctx->lazy_qp, &prev, 0);
		if (atomic_exchange(&qp->hdr->need, 0))
			ffl_announce(ctx, qp->handle);
		return;
	}
	/*
	 * Who takes the handle out does so after this load or exchange, hence after our SQEs, and
	 * makes the router look at them.
	 */
	if (atomic_load(&ctx->lazy_qp) == qp->handle)
		return;
	prev = atomic_exchange(&ctx->lazy_qp, qp->handle);
	if (prev && prev != qp->handle)
		ffl_announce(ctx, prev);
}

/* ---- send --------------------------------------------------------------------------------------- */

#define NUM_WR_OPS 16

static const uint8_t sqe_opcode[NUM_WR_OPS] = {
	[IBV_WR_RDMA_WRITE] = FF_OP_WRITE,
	[IBV_WR_RDMA_WRITE_WITH_IMM] = FF_OP_WRITE_IMM,
	[IBV_WR_SEND] = FF_OP_SEND,
	[IBV_WR_SEND_WITH_IMM] = FF_OP_SEND_IMM,
	[IBV_WR_RDMA_READ] = FF_OP_READ,
	[IBV_WR_ATOMIC_CMP_AND_SWP] = FF_OP_CMP_SWAP,
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = FF_OP_FETCH_ADD,
	[IBV_WR_BIND_MW] = FF_OP_BIND_MW,
	[IBV_WR_LOCAL_INV] = FF_OP_LOCAL_INV,
	[IBV_WR_SEND_WITH_INV] = FF_OP_SEND_INV,
	[FF_WR_FLUSH] = FF_OP_FLUSH,
	[IBV_WR_ATOMIC_WRITE] = FF_OP_ATOMIC_WRITE,
};

/* Opcodes that carry data away, so that it may be inline. */
#define WR_OPS_OUT                                                                                 \
	(1u << IBV_WR_RDMA_WRITE | 1u << IBV_WR_RDMA_WRITE_WITH_IMM | 1u << IBV_WR_SEND |          \
	 1u << IBV_WR_SEND_WITH_IMM | 1u << IBV_WR_SEND_WITH_INV)

/* Opcodes that verbs have and freeflow has not, and FLUSH, for which struct ibv_send_wr has no place. */
#define WR_OPS_ABSENT (1u << IBV_WR_TSO | 1u << IBV_WR_DRIVER1 | 1u << FF_WR_FLUSH)

/* Gather inline data behind the header of an SQE. 0 or EINVAL: more than the QP holds. */
static __attribute__((noinline)) int sqe_inline(const struct ffl_qp *qp, struct ff_sqe *sqe,
						const struct ibv_sge *sg, int n)
{
	uint32_t len = 0, max = qp->cap.max_inline;

	for (int i = 0; i < n; i++) {
		if (sg[i].length > max - len)
			return EINVAL;
		if (sg[i].length) /* else the address may be anything */
			memcpy(sqe->inl + len, (const void *)(uintptr_t)sg[i].addr, sg[i].length);
		len += sg[i].length;
	}
	sqe->flags |= FF_SQE_INLINE;
	sqe->num_sge = (uint16_t)len;
	return 0;
}

/* What the WR's SGEs name, which are no more than the QP has. 0 or EINVAL. */
static inline int sqe_data(const struct ffl_qp *qp, struct ff_sqe *sqe,
			   const struct ibv_send_wr *wr)
{
	uint32_t n = (uint32_t)wr->num_sge;

	if (wr->send_flags & IBV_SEND_INLINE) {
		if (unlikely(!(WR_OPS_OUT & 1u << wr->opcode)))
			return EINVAL;
		return sqe_inline(qp, sqe, wr->sg_list, wr->num_sge);
	}
	sqe->num_sge = (uint16_t)n;
	for (uint32_t i = 0; i < n; i++) {
		sqe->sge[i].addr = wr->sg_list[i].addr;
		sqe->sge[i].length = wr->sg_list[i].length;
		sqe->sge[i].lkey = wr->sg_list[i].lkey;
	}
	return 0;
}

int ffl_sqe_bind(const struct ffl_qp *qp, struct ff_sqe *sqe, const struct ibv_mw *mw,
		 uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	const struct ibv_mr *mr = info->mr;

	if (container_of_(mw, const struct ffl_mw, ibv)->ctx != qp->ctx ||
	    (mr && container_of_(mr, const struct ffl_mr, ibv)->ctx != qp->ctx) ||
	    (!mr && info->length))
		return EINVAL;
	sqe->remote_addr = info->addr;
	sqe->rkey = rkey;
	sqe->imm = info->mw_access_flags;
	sqe->bind.length = info->length;
	sqe->bind.mw = mw->handle;
	sqe->bind.lkey = mr ? mr->lkey : 0;
	return 0;
}

/*
 * ATOMIC_WRITE: the 8 bytes are taken when it is posted, as ibv_wr_atomic_write() does, whether or not they
 * are said to be inline. 0 or EINVAL.
 */
static int sqe_atomic_write(const struct ffl_qp *qp, struct ff_sqe *sqe,
			    const struct ibv_send_wr *wr)
{
	uint8_t word[sizeof(uint64_t)];
	size_t len = 0;

	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sg = &wr->sg_list[i];

		if (sg->length > sizeof(word) - len)
			return EINVAL;
		if (sg->length)
			memcpy(word + len, (const void *)(uintptr_t)sg->addr, sg->length);
		len += sg->length;
	}
	if (len != sizeof(word))
		return EINVAL;
	sqe->remote_addr = wr->wr.rdma.remote_addr;
	sqe->rkey = wr->wr.rdma.rkey;
	memcpy(&sqe->atomic.compare_add, word, sizeof(word));
	if (qp->qp.qp_type == IBV_QPT_XRC_SEND)
		ffl_sqe_set_srqn(sqe, wr->qp_type.xrc.remote_srqn);
	return 0;
}

/* Operations on windows, ATOMIC_WRITE, and those that are refused; kept out of the way of the others. */
static __attribute__((noinline)) int sqe_rare(const struct ffl_qp *qp, struct ff_sqe *sqe,
					      const struct ibv_send_wr *wr, uint16_t cpu)
{
	uint32_t op = wr->opcode;

	if (op < NUM_WR_OPS && WR_OPS_ABSENT & 1u << op)
		return EOPNOTSUPP;
	if (op >= NUM_WR_OPS || !(qp->rare_ops & 1u << op))
		return EINVAL;
	if (wr->send_flags >= IBV_SEND_IP_CSUM)
		return EINVAL;
	sqe->cpu = cpu;
	sqe->opcode = sqe_opcode[op];
	sqe->flags = ffl_sqe_flags(wr->send_flags, qp->sig_all);
	sqe->num_sge = 0;
	sqe->wr_id = wr->wr_id;
	if (op == IBV_WR_BIND_MW) {
		/* type 1 is ibv_bind_mw's, which knows what becomes of mw->rkey */
		if (!wr->bind_mw.mw || wr->bind_mw.mw->type != IBV_MW_TYPE_2)
			return EINVAL;
		return ffl_sqe_bind(qp, sqe, wr->bind_mw.mw, wr->bind_mw.rkey,
				    &wr->bind_mw.bind_info);
	}
	if (op == IBV_WR_ATOMIC_WRITE)
		return sqe_atomic_write(qp, sqe, wr);
	sqe->imm = wr->invalidate_rkey;
	if (op == IBV_WR_LOCAL_INV)
		return 0;
	if (qp->qp.qp_type == IBV_QPT_XRC_SEND)
		ffl_sqe_set_srqn(sqe, wr->qp_type.xrc.remote_srqn);
	return (uint32_t)wr->num_sge > qp->cap.max_send_sge ? EINVAL : sqe_data(qp, sqe, wr);
}

/* Turn a WR into an SQE, complete but for seq. 0 or a positive errno. */
static inline int sqe_build(const struct ffl_qp *qp, struct ff_sqe *sqe,
			    const struct ibv_send_wr *wr, uint16_t cpu)
{
	uint32_t op = wr->opcode, n = (uint32_t)wr->num_sge;

	if (unlikely(op >= NUM_WR_OPS || !(qp->wr_ops & 1u << op)))
		return sqe_rare(qp, sqe, wr, cpu);
	if (unlikely(n > qp->cap.max_send_sge || wr->send_flags >= IBV_SEND_IP_CSUM))
		return EINVAL;
	sqe->cpu = cpu;
	sqe->opcode = sqe_opcode[op];
	sqe->flags = ffl_sqe_flags(wr->send_flags, qp->sig_all);
	sqe->wr_id = wr->wr_id;
	sqe->imm = wr->imm_data;

	switch (op) {
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		sqe->remote_addr = wr->wr.atomic.remote_addr;
		sqe->rkey = wr->wr.atomic.rkey;
		sqe->atomic.compare_add = wr->wr.atomic.compare_add;
		sqe->atomic.swap = wr->wr.atomic.swap;
		break;
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		if (qp->qp.qp_type == IBV_QPT_UD) {
			if (unlikely(!wr->wr.ud.ah || to_ah(wr->wr.ud.ah)->ctx != qp->ctx))
				return EINVAL;
			sqe->ud.ah = to_ah(wr->wr.ud.ah)->handle;
			sqe->ud.remote_qpn = wr->wr.ud.remote_qpn;
			sqe->ud.remote_qkey = wr->wr.ud.remote_qkey;
		}
		break;
	default:
		sqe->remote_addr = wr->wr.rdma.remote_addr;
		sqe->rkey = wr->wr.rdma.rkey;
	}
	if (unlikely(qp->qp.qp_type == IBV_QPT_XRC_SEND))
		ffl_sqe_set_srqn(sqe, wr->qp_type.xrc.remote_srqn);
	return sqe_data(qp, sqe, wr);
}

int ffl_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct ffl_qp *qp = to_qp(ibqp);
	struct ffl_context *ctx = qp->ctx;
	uint16_t cpu = ffl_cpu();
	uint32_t old, tail;
	int err = 0;

	ffl_lock(&qp->sq_lock);
	old = tail = qp->sq_tail;
	if (unlikely(!ffl_may_send(qp)))
		err = EINVAL;
	else if (ffl_is_parents(ctx))
		err = EIO;
	for (; !err && wr; wr = wr->next) {
		struct ff_sqe *sqe = ffl_sqe_at(qp, tail);

		err = unlikely(ffl_sq_full(qp, tail)) ? ENOMEM : sqe_build(qp, sqe, wr, cpu);
		if (unlikely(err))
			break;
		FF_PROBE3(post, ibqp->qp_num, sqe->wr_id, sqe->opcode);
		ffl_sqe_publish(sqe, tail++);
	}
	qp->sq_tail = tail;
	ffl_unlock(&qp->sq_lock);

	if (likely(tail != old))
		ffl_doorbell(ctx, qp, old, tail);
	if (unlikely(err))
		*bad = wr;
	return err;
}

/* ---- receive --------------------------------------------------------------------------------------- */

static inline struct ff_rqe *rqe_at(uint8_t *ring, uint32_t i, uint32_t depth, uint32_t stride)
{
	return (struct ff_rqe *)(ring + (size_t)(i & (depth - 1)) * stride);
}

/* Turn a WR into RQE number i and give it to the router. 0 or EINVAL. */
static inline int rqe_post(struct ff_rqe *rqe, const struct ibv_recv_wr *wr, uint32_t i,
			   uint32_t max_sge)
{
	uint32_t n = (uint32_t)wr->num_sge;

	if (unlikely(n > max_sge))
		return EINVAL;
	rqe->num_sge = (uint16_t)n;
	rqe->wr_id = wr->wr_id;
	for (uint32_t k = 0; k < n; k++) {
		rqe->sge[k].addr = wr->sg_list[k].addr;
		rqe->sge[k].length = wr->sg_list[k].length;
		rqe->sge[k].lkey = wr->sg_list[k].lkey;
	}
	/* RQE body before seq: the router never reads half a WR */
	atomic_store_explicit(&rqe->seq, ff_seq(i), memory_order_release);
	return 0;
}

int ffl_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct ffl_qp *qp = to_qp(ibqp);
	struct ffl_context *ctx = qp->ctx;
	uint32_t old, tail, polled;
	int err = 0;

	ffl_lock(&qp->rq_lock);
	old = tail = qp->rq_tail;
	/* acquire: the router has read the entries whose CQEs were polled, maybe by another thread */
	polled = atomic_load_explicit(&qp->rq_polled, memory_order_acquire);
	if (unlikely(ibqp->state == IBV_QPS_RESET || !qp->rq_depth))
		err = EINVAL;
	else if (ffl_is_parents(ctx))
		err = EIO;
	for (; !err && wr; wr = wr->next) {
		if (unlikely(tail - polled >= qp->rq_depth))
			err = ENOMEM;
		else
			err = rqe_post(rqe_at(qp->rq, tail, qp->rq_depth, qp->rq_stride), wr, tail,
				       qp->cap.max_recv_sge);
		if (unlikely(err))
			break;
		tail++;
	}
	qp->rq_tail = tail;
	ffl_unlock(&qp->rq_lock);

	if (likely(tail != old)) {
		/* seq before rq_need, as in ffl_doorbell: a receive posted to a QP that just
		 * entered the error state is flushed, too */
		atomic_thread_fence(memory_order_seq_cst);
		if (unlikely(atomic_load_explicit(&qp->hdr->rq_need, memory_order_relaxed)) &&
		    atomic_exchange(&qp->hdr->rq_need, 0))
			ffl_announce(ctx, qp->handle);
	}
	if (unlikely(err))
		*bad = wr;
	return err;
}

int ffl_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct ffl_srq *srq = to_srq(ibsrq);
	struct ffl_context *ctx = srq->ctx;
	uint32_t old, tail, ended;
	int err = 0;

	ffl_lock(&srq->lock);
	old = tail = srq->tail;
	ended = atomic_load_explicit(&srq->polled, memory_order_acquire) +
		atomic_load_explicit(&srq->hdr->lost, memory_order_acquire);
	if (ffl_is_parents(ctx))
		err = EIO;
	for (; !err && wr; wr = wr->next) {
		if (unlikely(tail - ended >= srq->depth))
			err = ENOMEM;
		else
			err = rqe_post(rqe_at(srq->ring, tail, srq->depth, srq->stride), wr, tail,
				       srq->max_sge);
		if (unlikely(err))
			break;
		tail++;
	}
	srq->tail = tail;
	ffl_unlock(&srq->lock);

	if (likely(tail != old)) {
		/* seq before need: a sender that waits for a receive is served at once */
		atomic_thread_fence(memory_order_seq_cst);
		if (unlikely(atomic_load_explicit(&srq->hdr->need, memory_order_relaxed)) &&
		    atomic_exchange(&srq->hdr->need, 0)) {
			atomic_fetch_add(&ctx->hdr->srq_kick, 1);
			ffl_bell(ctx);
		}
	}
	if (unlikely(err))
		*bad = wr;
	return err;
}
