/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * posted.c - waiting for the WRs that name an object which is about to go: an MR, a memory window, an address handle.
 * Any thread of the application; called by mem/mr.c, verbs/mw.c and verbs/ah.c before they ask the router to end the
 * object.
 *
 * Theory. A NIC fetches a WR and its data within a few microseconds of the posting, and programs rely on that: gloo
 * deregisters the memory of a WRITE without having polled its completion, and mckey destroys the address handle of its
 * last datagram. The router may be much later, because its thread may have no CPU, and because the router looks a key
 * up once more for each part of a message that it copies. A WR whose MR has gone by then fails with
 * IBV_WC_LOC_PROT_ERR.
 *
 * Therefore the call that ends an object first waits until the router is done with each WR that names the object and
 * was posted to a QP of this session. "Done" (ff_qp_hdr.sq_done) is more than fetched: no byte of the WR is to be
 * copied any more, neither for a further part nor for another try. The library finds these WRs in its own send rings.
 * So no WR of another object is waited for, posting a WR writes nothing down, and only the caller waits.
 *
 * A WR may be kept by a peer that has posted no receive, by a peer that is silent, or by a rate limit; a NIC would not
 * wait for these. So the wait ends after WAIT_NS, in which the router copies a few MB however busy the machine is.
 * After a wait in vain the library remembers the QP with the number of the WR that it stands at, and does not wait for
 * the QP again until the router is done with that WR. Other QPs, whose peers may be silent too, get VAIN_NS until a
 * wait succeeds.
 */
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "ffl/session/ffl.h"

#define WAIT_NS	 500000000u
#define VAIN_NS	 20000000u
#define YIELDS	 20u
#define PAUSE_NS 50000 /* asleep, since the router's thread may want this CPU */

/* Does the operation reach memory of the peer's, by sqe->rkey? */
static bool is_rdma(uint8_t op)
{
	return !ff_op_sends(op) && op != FF_OP_BIND_MW && op != FF_OP_LOCAL_INV;
}

/* An MR's lkey and rkey are one number. The rkey counts, because a QP may be connected to one of this session. */
static bool names_mr(const struct ffl_qp *qp, const struct ff_sqe *e, uint32_t key)
{
	/* a slot that is being written anew has no sensible number */
	uint32_t n = e->num_sge < qp->cap.max_send_sge ? e->num_sge : qp->cap.max_send_sge;

	if (e->opcode == FF_OP_BIND_MW)
		return e->bind.lkey == key;
	if (is_rdma(e->opcode) && e->rkey == key)
		return true;
	if (e->flags & FF_SQE_INLINE)
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (e->sge[i].lkey == key)
			return true;
	return false;
}

/* The low byte of a window's rkey is the program's. */
static bool names_mw(const struct ff_sqe *e, const struct ibv_mw *mw)
{
	switch (e->opcode) {
	case FF_OP_BIND_MW:
		return e->bind.mw == mw->handle;
	case FF_OP_LOCAL_INV:
		return e->imm >> 8 == mw->rkey >> 8;
	default:
		return is_rdma(e->opcode) && e->rkey >> 8 == mw->rkey >> 8;
	}
}

static bool names(const struct ffl_qp *qp, const struct ff_sqe *e, const struct ffl_going *what)
{
	switch (what->kind) {
	case FFL_GOING_MR:
		return names_mr(qp, e, what->key);
	case FFL_GOING_MW:
		return names_mw(e, what->mw);
	default:
		return qp->qp.qp_type == IBV_QPT_UD && e->ud.ah == what->key;
	}
}

static const struct ff_sqe *sqe_at(const struct ffl_qp *qp, uint32_t i)
{
	return (const struct ff_sqe *)(qp->sq + (size_t)(i & (qp->sq_depth - 1)) * qp->sq_stride);
}

static uint32_t sq_done(const struct ffl_qp *qp)
{
	return (uint32_t)atomic_load_explicit(&qp->hdr->sq_done, memory_order_acquire);
}

/*
 * Has the QP a WR that names the object, at SQE number `done` or behind? The entries themselves tell how many were
 * posted, so this needs no lock. *end: the first entry that is not posted, or was posted over.
 */
static bool ring_names(const struct ffl_qp *qp, uint32_t done, const struct ffl_going *what,
		       uint32_t *end)
{
	for (*end = done; *end - done < qp->sq_depth; ++*end) {
		const struct ff_sqe *e = sqe_at(qp, *end);

		/* seq before the body: pairs with ffl_sqe_publish() of another thread */
		if (atomic_load_explicit(&e->seq, memory_order_acquire) != ff_seq(*end))
			return false;
		if (names(qp, e, what))
			return true;
	}
	return false;
}

/*
 * Is there a WR of the QP's that has to be waited for? If not, and `vain`, the QP is not waited for either until the
 * router gets further. Table lock.
 */
static bool qp_holds(struct ffl_qp *qp, const struct ffl_going *what, bool vain)
{
	uint32_t done, first, end;

	if (!qp->hdr || qp->qp.state != IBV_QPS_RTS) /* XRC_RECV; or nothing is sent */
		return false;
	first = done = sq_done(qp);
	if (qp->vain && qp->vain_at == done)
		return false;
	qp->vain = false;
	while (!ring_names(qp, done, what, &end)) {
		/* Entries may have been posted over since `done` was read: once more, behind them. */
		done = sq_done(qp);
		if ((int32_t)(done - end) <= 0 || done - first >= qp->sq_depth)
			return false;
	}
	if (vain) {
		qp->vain = true;
		qp->vain_at = done;
	}
	return true;
}

static bool any_holds(struct ffl_context *ctx, const struct ffl_going *what, bool vain)
{
	const struct ffl_table *t = &ctx->table[FFL_QP];
	bool holds = false;

	pthread_mutex_lock(&ctx->table_lock);
	for (uint32_t i = 0; i < t->size && (!holds || vain); i++)
		if (t->slot[i].handle)
			holds |= qp_holds(t->slot[i].obj, what, vain);
	pthread_mutex_unlock(&ctx->table_lock);
	return holds;
}

static void pause_for_router(unsigned tries)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };

	if (tries < YIELDS)
		sched_yield();
	else
		nanosleep(&pause, NULL);
}

void ffl_posted_wait(struct ffl_context *ctx, const struct ffl_going *what)
{
	uint64_t from, most;

	if (ctx->pid != getpid() || !any_holds(ctx, what, false))
		return;
	ffl_ring_lazy(ctx);
	most = atomic_load_explicit(&ctx->left_behind, memory_order_relaxed) ? VAIN_NS : WAIT_NS;
	from = ffl_clock_ns(CLOCK_MONOTONIC);
	for (unsigned tries = 0; ffl_check_alive(ctx); tries++) {
		bool late = ffl_clock_ns(CLOCK_MONOTONIC) - from >= most;

		if (!any_holds(ctx, what, late) || late) {
			atomic_store_explicit(&ctx->left_behind, late, memory_order_relaxed);
			return;
		}
		pause_for_router(tries);
	}
}
