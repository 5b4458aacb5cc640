/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * internal.h - what the files of the fast path share among themselves.
 */
#ifndef FFR_FAST_INTERNAL_H
#define FFR_FAST_INTERNAL_H

#include <sys/epoll.h>
#include <time.h>

#include "ffr/fast/backend.h"
#include "ffr/fast/fast.h"

#ifndef ARRAY_SIZE
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#endif

static inline uint64_t fast_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

/* Time goes on within a turn; in a test, when the test says so. */
static inline void fast_tick(struct fast *f)
{
	if (f->ticks)
		f->now = fast_clock();
}

/* [lock] of all threads, which sets their clocks: the first one's. */
static inline uint64_t host_now(const struct fast_host *h)
{
	return h->threads[0]->now;
}

/* Count what the turn has completed, at f->now: before the next turn, or before leaving the core. */
static inline void lat_settle(struct fast *f)
{
	if (FF_COUNTERS && !LIST_EMPTY(&f->lat_due))
		lat_settle_due(f);
}

/* The core or the lock goes to others, whose time is not the requests'. */
static inline void lat_settle_now(struct fast *f)
{
	if (LIST_EMPTY(&f->lat_due))
		return;
	f->now = fast_clock();
	lat_settle_due(f);
}

static inline struct ff_sqe *qp_sqe(const struct qp *qp, uint32_t i)
{
	return (struct ff_sqe *)(qp->sq.ring + (size_t)(i & (qp->sq.depth - 1)) * qp->sq.stride);
}

/* Is entry i of the SQ posted? */
static inline bool qp_sqe_ready(const struct qp *qp, uint32_t i)
{
	return atomic_load_explicit(&qp_sqe(qp, i)->seq, memory_order_acquire) == ff_seq(i);
}

/* Is the next receive posted? Not of a QP with an SRQ. */
static inline bool qp_rqe_ready(const struct qp *qp)
{
	const struct ff_rqe *e;

	if (!qp->rq.depth)
		return false;
	e = (const struct ff_rqe *)(qp->rq.ring +
				    (size_t)(qp->rq.head & (qp->rq.depth - 1)) * qp->rq.stride);
	return atomic_load_explicit(&e->seq, memory_order_acquire) == ff_seq(qp->rq.head);
}

/* Is no WR of it under way? */
static inline bool qp_is_idle(const struct qp *qp)
{
	return !qp->busy && !qp->in_flight;
}

/* Tell the client how far its SQ is. busy: is the WR in qp->wr not done yet? */
static inline void qp_tell(struct qp *qp, bool busy)
{
	uint64_t done = ff_done(qp->sq.head - busy - qp->in_flight, qp->sq.cqes);

	if (done != atomic_load_explicit(&qp->hdr->sq_done, memory_order_relaxed))
		/* release: the entries were read before the client writes to them again */
		atomic_store_explicit(&qp->hdr->sq_done, done, memory_order_release);
}

static inline void qp_tell_done(struct qp *qp)
{
	qp_tell(qp, qp->busy);
}

/* A call on a client's memory (pvm.c) takes as long as so many small requests. */
#define CALL_WRS 16u

/* send.c: serve one QP; the work done (0: nothing was found) */
uint32_t send_service(struct fast *f, struct qp *qp);

/* qp.c: a send completed in error; what becomes of the QP */
void qp_send_failed(struct fast *f, struct qp *qp);
/* Some of both queues, as the state demands; the number, 0: there are none. The QP's turns have more. */
uint32_t qp_flush(struct fast *f, struct qp *qp);
void qp_drained(struct fast *f, struct qp *qp); /* SQD: nothing is under way any more */

/* Its share beside others. */
static inline uint32_t container_weight(const struct container *c)
{
	return c->limits.weight ? c->limits.weight : FFO_WEIGHT_DEFAULT;
}

/* turns.c: put a QP on its container's list, take it off; serve those that are on one */
void turns_add(struct fast *f, struct qp *qp);
void turns_del(struct fast *f, struct qp *qp);
uint32_t turns_serve(struct fast *f);
/* After the turn, the QP's WR goes on, if its container's credit allows it; the work done. */
uint32_t turns_go_on(struct fast *f, struct qp *qp);
/* The container has no turns until it is back. */
void turns_park(struct fast *f, struct container *c);
void turns_unpark(struct fast *f, struct container *c);
#define FOREACH_ACTIVE_QP(f, k, c, qp)                                                             \
	for ((k) = 0; (k) < TURN_NUM; (k)++)                                                       \
		TAILQ_FOREACH(c, &(f)->turns[k], turns.entry)                                      \
			TAILQ_FOREACH(qp, &(c)->turns.active, active)

/* rate.c: a container that comes or goes; all are gone, tenants with limits may be left */
int rate_container_add(struct fast_host *h, struct container *c); /* 0 or -ENOMEM */
void rate_container_del(struct container *c);
void rate_free(struct fast_host *h);
/* Its meters are another thread's from now on, and those of its tenant if that is limited. */
void rate_container_move(struct container *c, struct fast *to);
/*
 * Have its limits hold, if its containers come together: t->limited, t->gather_since. Gives
 * up the locks on the way.
 */
void rate_tenant_enforce(struct fast_host *h, struct tenant *t);

/* cpu.c: the container had a turn of ns; its bell woke the thread */
void cpu_served(struct fast *f, struct container *c, uint64_t ns);
void cpu_woken_by(struct fast *f, struct container *c);
/* The runner made calls of ns on clients' memory for the container, between two turns. */
void cpu_called(struct fast *f, struct container *c, uint64_t ns);
/* Another thread has worked ns for the container. */
void cpu_worked(struct fast *f, struct container *c, uint64_t ns);
/* The thread has used ns of CPU time since the last call: the containers that were served since then pay. */
void cpu_settle(struct fast *f, uint64_t ns);
void cpu_unpark(struct container *c); /* serve a parked container again */
/* Unpark the container and take it off the thread's lists, because it leaves the thread. */
void cpu_forget(struct container *c);
/* A session of a parked container has rung: have it ring no more until the container is served again. */
bool cpu_ignores_bell(struct session *s);

/* threads.c: where a container that comes is to be; one that leaves is waited for no more */
struct fast *threads_place(struct fast_host *h, const struct container *c);
void threads_forget(struct fast_host *h, const struct container *c);
/* The container and all of its group go there; the locks are given up on the way. 0 or -errno. */
int threads_move(struct container *c, struct fast *to);
/*
 * Have all of a tenant's containers on one thread. False: not now; its limits hold later. Gives up
 * the locks on the way.
 */
bool threads_gather(struct fast_host *h, const struct tenant *t);

/* recv.c */
enum fetch recv_fetch(uint8_t *ring, uint32_t i, uint32_t depth, uint32_t stride, uint32_t max_sge,
		      struct recv_wr *out);

/* comp.c */
void comp_forget_cq(struct fast *f, struct cq *cq);

/* loop.c */
void fast_run(struct fast *f); /* body of a runner; lock held; returns when it has lost the role */

/* bells.c */
void ses_activate(struct fast *f, struct session *s); /* not while its container is parked */
void ses_deactivate(struct fast *f, struct session *s);
/* It has had no news for long: have it ring, unless there is some after all. */
void ses_rest(struct fast *f, struct session *s);
void fast_arm_qp(struct qp *qp, uint32_t coal);
bool fast_rq_ready(const struct qp *qp); /* ERR: is a receive there to be flushed? */
bool fast_arm_all(struct fast *f);
void fast_disarm_all(struct fast *f);
/* Its postings lie there since the thread fell asleep, and were not to be announced yet. */
bool fast_was_coalesced(const struct qp *qp);
/* What epoll told: sessions that rang. The number of bells. */
uint32_t fast_bells(struct fast *f, const struct epoll_event *ev, int n);
/* The session's bell wakes that thread. 0 or -errno. */
int fast_bell_add(struct fast *f, struct session *s);
/*
 * What epoll tells of a session's bell: the session's address with the lowest bit set. Carriers' pointers are as they
 * are, so that a carrier that registers a descriptor by itself is never taken for a session.
 */
static inline void *bell_name(struct session *s)
{
	return (char *)s + 1;
}
/* The session; NULL: it is a carrier's, or nobody's. */
static inline struct session *bell_of(void *what)
{
	return (uintptr_t)what & 1 ? (struct session *)((char *)what - 1) : NULL;
}
void fast_qp_deactivate(struct fast *f, struct qp *qp);
/* It found no work for long: arm it and take it off, unless there is some after all. */
void fast_qp_rest(struct fast *f, struct qp *qp);

/* lock.c: the runner's side */
int lock_init(struct fast *f); /* 0 or -errno */
void lock_take(struct fast *f);
/* The lock after a call that was made without it. A runner that never sleeps gives it away only if asked to. */
void lock_again(struct fast *f);
/* It is wanted: give it away and wait until it is there again. False: nobody took it. */
bool lock_lend(struct fast *f);

/* sched.c */
void sched_choose(struct fast *f); /* containers or their limits have changed: f->no_spin */
struct fast_sched *sched_create(struct fast *f);
void sched_free(struct fast_sched *s);
void sched_stay_off(struct fast *f, unsigned cpu); /* the calling thread, if there is another CPU */
/* Of that thread, 0: the caller. 0 or -errno; the arguments as of sched_setattr(2). */
int sched_set_attr(pid_t tid, uint32_t policy, int nice, uint32_t prio, uint64_t slice_ns,
		   uint64_t flags);
/* loop.c's: the calling thread is the runner now; before and after a turn, which found so much work; */
void sched_enter(struct fast *f);
void sched_turn_begins(struct fast *f);
void sched_turn_ends(struct fast *f, uint32_t work);
void sched_next(struct fast *f); /* what decide.h tells to do until the next one */

/* rescue.c: has the control thread got a CPU lately? At f->now. */
void rescue_look(struct fast *f);

#endif
