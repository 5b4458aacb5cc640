/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * bells.c - how the runner hears of postings: what is looked at, what is armed, who rings. [lock]; loop.c
 * looks, sched.c arms all before it sleeps, qp.c and the backends put QPs where they are looked at. What the
 * doorbell protocol is is told in abi/ff_ring.h.
 *
 * Three rings of watchfulness, so that work grows with active queues:
 *	an active QP      its next SQE is looked at when its container has its turn (turns.c)
 *	an active session its dirty set is looked at in every turn (one cache line)
 *	other sessions    write their eventfd, which epoll tells
 * A QP leaves the inner ring when it has been idle for QP_IDLE_NS, a session when it has no active
 * QP and has posted nothing for SES_IDLE_NS. Leaving is arm, fence, look again.
 */
#include <errno.h>
#include <unistd.h>

#include "ffr/fast/decide.h"
#include "ffr/fast/internal.h"

/* Ask for a doorbell with the posting that is `coal` behind the next one. A fence must follow. */
void fast_arm_qp(struct qp *qp, uint32_t coal)
{
	atomic_store_explicit(&qp->hdr->evt, qp->sq.head + coal, memory_order_relaxed);
	/* evt before need: the client reads need first */
	atomic_store_explicit(&qp->hdr->need, 1, memory_order_release);
}

/* The same for all that the QP's turn looks for: in error that is receives too, to be flushed. */
static void arm_qp(struct qp *qp, uint32_t coal)
{
	fast_arm_qp(qp, coal);
	if (qp->state == IBV_QPS_ERR)
		atomic_store_explicit(&qp->hdr->rq_need, 1, memory_order_relaxed);
}

/* How many postings may wait for the announced one: no more than the ring holds besides it. */
static uint32_t qp_coal(const struct qp *qp)
{
	uint32_t coal = qp->state == IBV_QPS_RTS ? qp->o.ses->sched.coal : 0;

	return coal < qp->sq.depth ? coal : qp->sq.depth - 1;
}

static void disarm_qp(struct qp *qp)
{
	if (atomic_load_explicit(&qp->hdr->need, memory_order_relaxed))
		atomic_store_explicit(&qp->hdr->need, 0, memory_order_relaxed);
}

void ses_activate(struct fast *f, struct session *s)
{
	if (s->bells.is_active || s->closing)
		return;
	atomic_store_explicit(&s->hdr->need_wakeup, 0, memory_order_relaxed);
	if (s->cont->cpu.parked)
		return;
	s->bells.is_active = true;
	s->last_post = f->now;
	TAILQ_INSERT_TAIL(&f->active_sessions, s, bells.entry);
}

void ses_deactivate(struct fast *f, struct session *s)
{
	if (s->bells.is_active)
		TAILQ_REMOVE(&f->active_sessions, s, bells.entry);
	s->bells.is_active = false;
	/* the tick that serves what is coalesced is for active sessions */
	s->sched.coal = s->sched.burst = s->sched.at_once = 0;
}

void fast_qp_activate(struct fast *f, struct qp *qp)
{
	/* also for a QP that is active: the runner may sleep on it, or be about to */
	qp->more = true;
	fast_kick(f);
	if (qp->is_active || qp->wait.on || qp->state == IBV_QPS_RESET)
		return;
	qp->last_work = f->now;
	disarm_qp(qp);
	turns_add(f, qp);
	ses_activate(f, qp->o.ses);
}

/* Is there anything that this QP's turn would find? */
static bool qp_has_work(const struct qp *qp)
{
	if (qp->flush_waits)
		return false;
	switch (qp->state) {
	case IBV_QPS_RTS:
		return !qp->busy && qp_sqe_ready(qp, qp->sq.head);
	case IBV_QPS_SQE:
	case IBV_QPS_ERR:
		return qp_sqe_ready(qp, qp->sq.head) || fast_rq_ready(qp);
	default:
		return false;
	}
}

bool fast_rq_ready(const struct qp *qp)
{
	return qp->state == IBV_QPS_ERR && !qp->srq && qp_rqe_ready(qp);
}

void fast_qp_rest(struct fast *f, struct qp *qp)
{
	arm_qp(qp, 0);
	/* arming before the look: pairs with the fence of ffl_doorbell */
	atomic_thread_fence(memory_order_seq_cst);
	if (qp_has_work(qp)) {
		disarm_qp(qp);
		return;
	}
	fast_qp_deactivate(f, qp);
}

static bool ses_dirty(const struct session *s)
{
	for (unsigned w = 0; w < ARRAY_SIZE(s->hdr->dirty_sum); w++)
		if (atomic_load_explicit(&s->hdr->dirty_sum[w], memory_order_relaxed))
			return true;
	return s->bells.srqs_left ||
	       atomic_load_explicit(&s->hdr->srq_kick, memory_order_relaxed) !=
		       s->bells.srq_kick_seen;
}

void ses_rest(struct fast *f, struct session *s)
{
	atomic_store_explicit(&s->hdr->need_wakeup, 1, memory_order_relaxed);
	/* arming before the look: pairs with the client's dirty bit before its read of need_wakeup */
	atomic_thread_fence(memory_order_seq_cst);
	if (ses_dirty(s))
		atomic_store_explicit(&s->hdr->need_wakeup, 0, memory_order_relaxed);
	else
		ses_deactivate(f, s);
}

/* ---- bells --------------------------------------------------------------------------------------- */

int fast_watch(struct fast *f, int fd, uint32_t events, void *what)
{
	struct epoll_event ev = { .events = events, .data.ptr = what };

	return epoll_ctl(f->epoll_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

int fast_bell_add(struct fast *f, struct session *s)
{
	return fast_watch(f, s->bell_fd, EPOLLIN | EPOLLET, bell_name(s));
}

/* When did a bell ring that was to tell? The client's word decides on how the runner sleeps, and nothing else. */
static void note_time(struct fast *f, struct session *s)
{
	uint64_t at = 0;

	if (f->timed)
		at = atomic_exchange_explicit(&s->hdr->rang_at, 0, memory_order_relaxed);
	if (at)
		sched_note_heard(&s->sched.patience, at, f->now);
}

uint32_t fast_bells(struct fast *f, const struct epoll_event *ev, int n)
{
	uint32_t work = 0;

	for (int i = 0; i < n; i++) {
		void *what = ev[i].data.ptr;
		struct session *s = bell_of(what);

		if (!what)
			continue; /* stop_fd: only wakes */
		if (!s) {
			CARRIERS_FIRST(ready, f, what, ev[i].events);
			work++;
			continue;
		}
		s->stats.bells++;
		if (s->bells.are_mute)
			continue;
		note_time(f, s);
		ses_activate(f, s);
		cpu_woken_by(f, s->cont);
		work += !cpu_ignores_bell(s);
	}
	return work;
}

/*
 * Arm everything that is active, for sleep. True: nothing has come in meanwhile. Coalesced
 * postings count as nothing until the announced one is there (see sched.c).
 */
bool fast_arm_all(struct fast *f)
{
	struct container *c;
	struct session *s;
	struct qp *qp;
	bool idle = true;
	int k;

	f->coalesces = false;
	FOREACH_ACTIVE_QP(f, k, c, qp) {
		uint32_t coal = qp_coal(qp);

		arm_qp(qp, coal);
		f->coalesces |= coal > 0;
	}
	TAILQ_FOREACH(s, &f->active_sessions, bells.entry)
		atomic_store_explicit(&s->hdr->need_wakeup, f->timed ? FF_WAKEUP_TIMED : FF_WAKEUP,
				      memory_order_relaxed);
	/* arming before the look: pairs with the fences of ffl_doorbell */
	atomic_thread_fence(memory_order_seq_cst);
	FOREACH_ACTIVE_QP(f, k, c, qp) {
		if (qp->busy		     ? qp->more :
		    qp->state != IBV_QPS_RTS ? qp_has_work(qp) :
					       qp_sqe_ready(qp, qp->sq.head + qp_coal(qp)))
			idle = false;
	}
	TAILQ_FOREACH(s, &f->active_sessions, bells.entry)
		if (ses_dirty(s))
			idle = false;
	return idle && !CARRIERS_FIRST(arm, f);
}

bool fast_was_coalesced(const struct qp *qp)
{
	return qp_coal(qp) && !qp->busy && qp_sqe_ready(qp, qp->sq.head);
}

void fast_disarm_all(struct fast *f)
{
	struct container *c;
	struct session *s;
	struct qp *qp;
	int k;

	FOREACH_ACTIVE_QP(f, k, c, qp)
		disarm_qp(qp);
	TAILQ_FOREACH(s, &f->active_sessions, bells.entry)
		if (atomic_load_explicit(&s->hdr->need_wakeup, memory_order_relaxed))
			atomic_store_explicit(&s->hdr->need_wakeup, 0, memory_order_relaxed);
}

/* The runner sleeps and the control thread has made work for it. [lock] */
void fast_kick(struct fast *f)
{
	uint64_t one = 1;

	if (f->sleeping && write(f->stop_fd, &one, sizeof(one)) < 0)
		return; /* EAGAIN: it is being woken already */
}
