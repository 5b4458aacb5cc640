/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * comp.c - completions and events out: CQEs, completion channels, asynchronous events.
 * Fast lock held; called by send.c, qp.c and the backends.
 *
 * A CQE is written body first, phase last. Events follow in comp_notify(), once for each CQ and
 * turn: after a full fence the router looks whether the client armed the CQ. The client arms,
 * fences and polls; so either it sees the CQE or the router sees the arming. An event is a packet
 * on the channel's socket; a client that does not read its events loses them, nobody waits.
 *
 * Moderation (ibv_modify_cq). An event that is due is held back until mod_count completions came
 * since the last event or mod_period passed since it became due; the CQ stays armed meanwhile. The
 * client cannot wait for ever: with one of the two missing nothing is held back.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "ffr/abi/ff_probe.h"
#include "ffr/abi/ff_verbs.h"
#include "ffr/fast/internal.h"
#include "ffr/lib/shm.h"
#include "ffr/fast/trace.h"

static const uint8_t wc_opcode[FF_OP_NUM] = {
	[FF_OP_SEND] = IBV_WC_SEND,	      [FF_OP_SEND_IMM] = IBV_WC_SEND,
	[FF_OP_WRITE] = IBV_WC_RDMA_WRITE,    [FF_OP_WRITE_IMM] = IBV_WC_RDMA_WRITE,
	[FF_OP_READ] = IBV_WC_RDMA_READ,      [FF_OP_CMP_SWAP] = IBV_WC_COMP_SWAP,
	[FF_OP_FETCH_ADD] = IBV_WC_FETCH_ADD, [FF_OP_BIND_MW] = IBV_WC_BIND_MW,
	[FF_OP_LOCAL_INV] = IBV_WC_LOCAL_INV, [FF_OP_SEND_INV] = IBV_WC_SEND,
	[FF_OP_FLUSH] = FF_WC_FLUSH,	      [FF_OP_ATOMIC_WRITE] = IBV_WC_ATOMIC_WRITE,
};

static bool event_send(struct session *s, int fd, const void *ev, size_t len, uint64_t *count)
{
	bool sent = send(fd, ev, len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)len;

	++*(sent ? count : &s->stats.events_lost);
	return sent;
}

void comp_async(struct fast *f, struct session *s, enum ibv_event_type type,
		enum ff_async_kind kind, uint32_t handle)
{
	struct ff_async_event ev = { .event_type = type, .kind = kind, .handle = handle };

	(void)f;
	FF_PROBE2(event, s->pid, type);
	if (!s->closing)
		event_send(s, s->async_fd, &ev, sizeof(ev), &s->stats.async_events);
}

void comp_async_qp(struct fast *f, struct qp *qp, enum ibv_event_type type)
{
	struct qp *user;

	if (qp->type != IBV_QPT_XRC_RECV) {
		comp_async(f, qp->o.ses, type, FF_ASYNC_QP, qp->o.handle);
		return;
	}
	LIST_FOREACH(user, &qp->xrc.users, xrc.same_target)
		comp_async(f, user->o.ses, type, FF_ASYNC_QP, user->o.handle);
}

/*
 * The slot for the next CQE, or NULL when the client has left no room: the CQ has overrun, which
 * it is told once, and no further CQE gets in (IBTA 11.6.3).
 */
static struct ff_cqe *cq_slot(struct fast *f, struct cq *cq)
{
	if (cq->overrun)
		return NULL;
	if (cq->pi - cq->ci_seen >= cq->depth) {
		uint32_t ci = atomic_load_explicit(&cq->hdr->ci, memory_order_acquire);

		/* a ci ahead of pi or more than a lap behind was never ours: believe the old one */
		if (cq->pi - ci <= cq->depth)
			cq->ci_seen = ci;
		if (cq->pi - cq->ci_seen >= cq->depth) {
			cq->overrun = true;
			cq->o.ses->stats.cq_overruns++;
			comp_async(f, cq->o.ses, IBV_EVENT_CQ_ERR, FF_ASYNC_CQ, cq->o.handle);
			return NULL;
		}
	}
	return &cq->ring[cq->pi & (cq->depth - 1)];
}

/* Apart: fast_clock() gives an address of its stack away, for which a function has a canary. */
static __attribute__((noinline)) uint64_t exact_time(void)
{
	return fast_clock();
}

/* What a CQE is the end of: the WR in qp->wr, the QP's oldest receive, or a WR that qp->send has a copy of. */
enum ends { ENDS_WR, ENDS_RECV, ENDS_COPY };

/*
 * What a CQE says, in the order of its fields; the slot is written field by field, for it is a
 * cache line that the client is about to read. False: the CQ has overrun. Always a part of its
 * caller, whose CQE never is in memory then.
 */
static inline __attribute__((always_inline)) bool cq_put(struct fast *f, struct cq *cq,
							 const struct ff_cqe *cqe, bool solicited,
							 struct qp *qp, enum ends ends)
{
	struct ff_cqe *slot = cq_slot(f, cq);

	if (!slot)
		return false;
	slot->wr_id = cqe->wr_id;
	slot->timestamp = cq->flags & FF_CQ_TIMESTAMP ? exact_time() : 0;
	slot->qp = cqe->qp;
	slot->qp_num = cqe->qp_num;
	slot->src_qp = cqe->src_qp;
	slot->byte_len = cqe->byte_len;
	slot->imm = cqe->imm;
	slot->vendor_err = cqe->vendor_err;
	slot->status = cqe->status;
	slot->opcode = cqe->opcode;
	slot->flags = cqe->flags;
	slot->sl = cqe->sl;
	slot->slid = cqe->slid;
	slot->pkey_index = cqe->pkey_index;
	slot->user = cqe->user;
	slot->dlid_path_bits = 0;
	/* CQE body before phase: the poller never reads half a completion */
	atomic_store_explicit(&slot->phase, ff_cqe_phase(cq->pi, cq->depth), memory_order_release);
	/* phase, what ends, index: from these the next router knows how far this one came (ctl/qp.c) */
	if (ends == ENDS_WR) {
		CURSORS_IN_ORDER(qp->sq.cqes, qp->busy);
		CURSORS_IN_ORDER(*(uint32_t *)&slot->phase, qp->busy);
		qp->busy = false;
		CURSORS_IN_ORDER(qp->busy, cq->pi);
	} else if (ends == ENDS_RECV) {
		CURSORS_IN_ORDER(*(uint32_t *)&slot->phase, qp->rq.done);
		qp->rq.done++;
		CURSORS_IN_ORDER(qp->rq.done, cq->pi);
	}
	cq->pi++;
	if (cq->channel) {
		cq->notify_solicited |= solicited || cqe->status != IBV_WC_SUCCESS;
		if (!cq->notify_pending) {
			cq->notify_pending = true;
			STAILQ_INSERT_TAIL(&f->notify, cq, notify);
		}
	}
	return true;
}

int fast_cq_event(struct fast *f, struct cq *cq)
{
	struct ff_comp_event ev = { .cq = cq->o.handle, .sent = (uint32_t)exact_time() };
	struct session *s = cq->o.ses;

	FF_PROBE2(comp__event, s->pid, cq->o.handle);
	if (!event_send(s, cq->channel->fd, &ev, sizeof(ev), &s->stats.comp_events))
		return -EAGAIN;
	/* the program it wakes may share this CPU */
	fast_event_to(f, s);
	return 0;
}

static void notify_now(struct fast *f, struct cq *cq)
{
	cq->mod_held = false;
	cq->mod_pi = cq->pi;
	if (atomic_exchange(&cq->hdr->arm, FF_CQ_DISARMED) == FF_CQ_DISARMED)
		return;
	fast_cq_event(f, cq);
}

static void mod_timer(struct timer *t)
{
	struct cq *cq = (struct cq *)((char *)t - offsetof(struct cq, mod_timer));

	notify_now(cq->o.ses->fast, cq);
}

/* Hold the event that is due back? Then the timer is armed. */
static bool moderate(struct fast *f, struct cq *cq)
{
	if (!cq->mod_count || !cq->mod_period || cq->pi - cq->mod_pi >= cq->mod_count) {
		timer_cancel(&f->timers, &cq->mod_timer);
		return false;
	}
	if (!cq->mod_held) {
		cq->mod_timer.fn = mod_timer;
		fast_tick(f); /* the turn may have been preempted: f->now is older than the CQE */
		cq->mod_held =
			!timer_arm(&f->timers, &cq->mod_timer, f->now + cq->mod_period * NS_PER_US);
	}
	return cq->mod_held;
}

void fast_cq_moderate(struct fast *f, struct cq *cq, uint16_t count, uint16_t period)
{
	cq->mod_count = count;
	cq->mod_period = period;
	cq->mod_pi = cq->pi;
	timer_cancel(&f->timers, &cq->mod_timer);
	if (cq->mod_held)
		notify_now(f, cq);
}

void comp_notify(struct fast *f)
{
	struct cq *cq;

	if (STAILQ_EMPTY(&f->notify))
		return;
	/* CQEs before the look at `arm`: pairs with the fence of ffl_req_notify_cq */
	atomic_thread_fence(memory_order_seq_cst);
	while ((cq = STAILQ_FIRST(&f->notify))) {
		uint32_t arm = atomic_load_explicit(&cq->hdr->arm, memory_order_relaxed);
		bool due = arm == FF_CQ_ARM_ANY || cq->mod_held ||
			   (arm == FF_CQ_ARM_SOLICITED && cq->notify_solicited);

		STAILQ_REMOVE_HEAD(&f->notify, notify);
		cq->notify_pending = cq->notify_solicited = false;
		if (due && !(cq->mod_count && moderate(f, cq)))
			notify_now(f, cq);
	}
}

void fast_cq_again(struct fast *f, struct cq *cq)
{
	uint32_t ci = atomic_load_explicit(&cq->hdr->ci, memory_order_relaxed);

	if (!cq->channel || cq->notify_pending || cq->pi == ci)
		return;
	cq->notify_pending = cq->notify_solicited = true;
	STAILQ_INSERT_TAIL(&f->notify, cq, notify);
	fast_kick(f);
}

void comp_forget_cq(struct fast *f, struct cq *cq)
{
	if (cq->notify_pending)
		STAILQ_REMOVE(&f->notify, cq, cq, notify);
	cq->notify_pending = false;
	timer_cancel(&f->timers, &cq->mod_timer);
}

/* What a completed request is counted as. */
static void count_send(struct ff_stats *st, const struct send_wr *wr)
{
	switch (wr->opcode) {
	case FF_OP_SEND:
	case FF_OP_SEND_IMM:
	case FF_OP_SEND_INV:
		st->send_ops++;
		st->tx_bytes += wr->length;
		break;
	case FF_OP_WRITE:
	case FF_OP_WRITE_IMM:
		st->write_ops++;
		st->tx_bytes += wr->length;
		break;
	case FF_OP_READ:
		st->read_ops++;
		st->rx_bytes += wr->length;
		break;
	case FF_OP_BIND_MW:
	case FF_OP_LOCAL_INV:
		st->mw_ops++;
		break;
	case FF_OP_FLUSH:
		st->flush_ops++;
		break;
	default:
		st->atomic_ops++;
		break;
	}
}

/* The same in fewer instructions, for usual() ones. */
static inline __attribute__((always_inline)) void count_usual(struct ff_stats *st,
							      const struct send_wr *wr)
{
	if (!FF_COUNTERS)
		return;
	if (wr->opcode == FF_OP_READ) {
		st->read_ops++;
		st->rx_bytes += wr->length;
		return;
	}
	if (wr->opcode >= FF_OP_WRITE)
		st->write_ops++;
	else
		st->send_ops++;
	st->tx_bytes += wr->length;
}

static void count_failed(struct ff_stats *st, enum ibv_wc_status status)
{
	st->status[status]++;
	if (status == IBV_WC_WR_FLUSH_ERR)
		st->flushes++;
	else
		st->errors++;
}

static void count(struct fast *f, struct qp *qp, const struct send_wr *wr, enum ibv_wc_status st)
{
	if (!FF_COUNTERS)
		return;
	if (qp->trace)
		trace_send(f, qp, wr, (uint8_t)st);
	if (st == IBV_WC_SUCCESS)
		count_send(&qp->stats, wr);
	else
		count_failed(&qp->stats, st);
}

/* Apart: of a QP that is traced, or with an error. */
static __attribute__((noinline)) void count_other_recv(struct fast *f, struct qp *qp,
						       uint64_t wr_id, enum ibv_wc_status st,
						       const struct recv_info *info)
{
	if (qp->trace)
		trace_recv(f, qp, wr_id, (uint8_t)st, info->byte_len, info->src_qp);
	if (st == IBV_WC_SUCCESS)
		qp->stats.recv_ops++;
	else
		count_failed(&qp->stats, st);
}

static inline void count_recv(struct fast *f, struct qp *qp, uint64_t wr_id, enum ibv_wc_status st,
			      const struct recv_info *info)
{
	if (!FF_COUNTERS)
		return;
	if (__builtin_expect(st == IBV_WC_SUCCESS && !qp->trace, 1))
		qp->stats.recv_ops++;
	else
		count_other_recv(f, qp, wr_id, st, info);
}

/*
 * The CQE of a send; `own`: of the WR in qp->wr. Such a QP is busy until the CQE is there: a router that dies in
 * between leaves a WR that was under way, so that no completion is lost.
 */
static inline __attribute__((always_inline)) void send_cqe(struct fast *f, struct qp *qp,
							   const struct send_wr *wr,
							   enum ibv_wc_status st,
							   enum ff_vendor_err why, bool own)
{
	bool put;

	struct ff_cqe cqe = {
		.wr_id = wr->wr_id,
		.qp = qp->o.handle,
		.qp_num = qp->qp_num,
		.user = qp->user,
		.byte_len = (uint32_t)wr->length,
		.vendor_err = why,
		.status = st,
		.opcode = wr->opcode < FF_OP_NUM ? wc_opcode[wr->opcode] : 0,
	};

	/* before the CQE: who polls it may post at once */
	qp->sq.cqes++;
	qp_tell(qp, !own && qp->busy);
	put = cq_put(f, qp->scq, &cqe, false, qp, own ? ENDS_WR : ENDS_COPY);
	if (!put && own)
		qp->busy = false;
	if (!put)
		fast_qp_error(f, qp, IBV_EVENT_QP_FATAL);
	else if (st != IBV_WC_SUCCESS && st != IBV_WC_WR_FLUSH_ERR)
		qp_send_failed(f, qp);
}

static bool is_signaled(const struct qp *qp, const struct send_wr *wr)
{
	return qp->sig_all || (wr->flags & FF_SQE_SIGNALED);
}

static void complete(struct fast *f, struct qp *qp, const struct send_wr *wr, enum ibv_wc_status st,
		     enum ff_vendor_err why, bool own)
{
	FF_PROBE3(completion, qp->qp_num, wr->wr_id, st);
	if (st != IBV_WC_SUCCESS || is_signaled(qp, wr))
		send_cqe(f, qp, wr, st, why, own);
	else if (own)
		qp->busy = false;
}

/* A SEND, WRITE or READ that succeeded, and nothing is to be told of it but that. */
static inline bool usual(const struct qp *qp, enum ibv_wc_status st)
{
	return st == IBV_WC_SUCCESS && !(FF_COUNTERS && (qp->trace || qp->wr->opcode > FF_OP_READ));
}
static_assert(FF_OP_SEND == 1 && FF_OP_SEND_IMM == 2 && FF_OP_WRITE == 3 && FF_OP_WRITE_IMM == 4 &&
		      FF_OP_READ == 5,
	      "count_usual() compares");

/* Apart, so that one that is not signalled needs no stack. */
static __attribute__((noinline)) void usual_cqe(struct fast *f, struct qp *qp,
						enum ff_vendor_err why)
{
	send_cqe(f, qp, qp->wr, IBV_WC_SUCCESS, why, true);
}

static __attribute__((noinline)) void send_other(struct fast *f, struct qp *qp,
						 enum ibv_wc_status st, enum ff_vendor_err why)
{
	bool was_torn = qp->torn;

	qp->torn |= st != IBV_WC_SUCCESS;
	CURSORS_IN_ORDER(qp->torn, qp->busy);
	count(f, qp, qp->wr, st);
	complete(f, qp, qp->wr, st, why, true);
	CURSORS_IN_ORDER(qp->state, qp->torn);
	qp->torn = was_torn;
}

void comp_send(struct fast *f, struct qp *qp, enum ibv_wc_status st, enum ff_vendor_err why)
{
	if (__builtin_expect(!usual(qp, st), 0)) {
		send_other(f, qp, st, why);
		return;
	}
	count_usual(&qp->stats, qp->wr);
	FF_PROBE3(completion, qp->qp_num, qp->wr->wr_id, st);
	if (is_signaled(qp, qp->wr))
		usual_cqe(f, qp, why);
	else
		qp->busy = false;
}

void comp_sent(struct fast *f, struct qp *qp, const struct send_wr *wr, enum ibv_wc_status st,
	       enum ff_vendor_err why)
{
	qp->in_flight--;
	if (FF_COUNTERS && qp->lat.hist && st == IBV_WC_SUCCESS)
		lat_count(qp->lat.hist, f->now - wr->at, 1);
	count(f, qp, wr, st);
	complete(f, qp, wr, st, why, false);
	qp_tell_done(qp);
	if (qp->draining && qp_is_idle(qp))
		qp_drained(f, qp);
}

void comp_recv(struct fast *f, struct qp *qp, uint64_t wr_id, enum ibv_wc_status st,
	       enum ff_vendor_err why, const struct recv_info *info)
{
	struct ff_cqe cqe = {
		.wr_id = wr_id,
		.qp = qp->o.handle,
		.qp_num = qp->qp_num,
		.user = qp->user,
		.src_qp = info->src_qp,
		.byte_len = info->byte_len,
		.imm = info->imm,
		.vendor_err = why,
		.status = st,
		.opcode = FF_CQE_RECV | (info->write ? 1 : 0),
		.flags = info->flags,
		.sl = info->sl,
		.slid = info->slid,
		.pkey_index = info->pkey_index,
	};

	count_recv(f, qp, wr_id, st, info);
	FF_PROBE3(receive, qp->qp_num, wr_id, st);
	if (!cq_put(f, qp->rcq, &cqe, info->flags & FF_CQE_SOLICITED, qp, ENDS_RECV)) {
		qp->rq.done++;
		fast_qp_error(f, qp, IBV_EVENT_QP_FATAL);
	}
}

static void cq_switch(struct cq *cq, const struct cq_move *m)
{
	atomic_store_explicit(&m->hdr->arm, atomic_load(&cq->hdr->arm), memory_order_relaxed);
	atomic_store_explicit(&m->hdr->ci, 0, memory_order_release);
	cq->hdr = m->hdr;
	cq->ring = m->ring;
	cq->depth = cq->cqe = m->depth;
	cq->mod_pi += m->n - cq->pi;
	cq->pi = m->n;
	cq->ci_seen = 0;
}

int fast_cq_move(struct cq *cq, struct cq_move *m)
{
	uint32_t end;

	if (!m->begun) {
		m->begun = true;
		m->ci = atomic_load_explicit(&cq->hdr->ci, memory_order_acquire);
		if (cq->pi - m->ci > cq->depth) /* never ours */
			m->ci = cq->ci_seen;
	}
	/* a client that consumes meanwhile, and has more come, is not followed for ever */
	if (cq->pi - m->ci > m->depth)
		return -EINVAL;
	end = cq->pi - m->ci - m->n > CQ_MOVE ? m->n + CQ_MOVE : cq->pi - m->ci;
	for (; m->n != end; m->n++) {
		struct ff_cqe *to = &m->ring[m->n];

		shm_copy(to, &cq->ring[(m->ci + m->n) & (cq->depth - 1)],
			 offsetof(struct ff_cqe, phase));
		atomic_store_explicit(&to->phase, ff_cqe_phase(m->n, m->depth),
				      memory_order_release);
	}
	if (m->ci + m->n != cq->pi)
		return -EAGAIN;
	cq_switch(cq, m);
	return 0;
}
