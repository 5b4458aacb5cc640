/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fast.h - the fast thread: doorbells and rings in, completions and events out.
 *
 * One struct fast is one loop. A thread that runs the loop is its runner and holds the fast lock
 * while it does; it gives the lock away between two turns when the control thread asks, around
 * calls that a client can stall (pvm.c), and while it sleeps. The lock is a priority-inheriting
 * mutex, so that a runner of the FIFO class never waits behind an ordinary thread that was
 * preempted. Functions marked [lock] need it held.
 *
 * There can be several fast threads, each with a lock, containers and a struct backend of its own; threads.c tells
 * which container is on which thread. What exists once for all threads is in struct fast_host: the lock of any thread
 * allows to read it, and writing needs the locks of all, which the control thread takes. Threads are alike, except that
 * the first one has the wires to other hosts, the directory of other hosts, and multicast groups.
 *
 * The room ffr/fast/ is the path from a ring to the software device or a carrier and back: who is served when, and how
 * much. It may use obj/ and mem/, and calls the device and the carriers by their ops only (backend.h, carrier.h). Its
 * threads are the runners and those that make calls on clients' memory (roles.c); the control thread calls it with the
 * lock.
 */
#ifndef FFR_FAST_FAST_H
#define FFR_FAST_FAST_H

#include <bsd/sys/queue.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ffr/obj/objects.h"
#include "ffr/lib/timer.h"

struct backend;
struct dir;
struct pvm;

TAILQ_HEAD(session_list, session);
STAILQ_HEAD(cq_list, cq);
SLIST_HEAD(touched_list, session);
LIST_HEAD(lat_list, qp);
LIST_HEAD(tenant_list, tenant);
TAILQ_HEAD(container_turns, container);

enum turn { TURN_URGENT, TURN_NORMAL, TURN_NUM };

struct fast_conf {
	int cpu;	  /* pin to this CPU, -1: no */
	int node;	  /* NUMA node of that CPU, -1: any; segments come from there */
	bool realtime;	  /* may use SCHED_FIFO while asleep (falls back by itself) */
	int priority;	  /* SCHED_FIFO's, with realtime */
	uint32_t spin_us; /* adaptive: longest spin without work */
	bool spin_auto;	  /* spin only while a latency-sensitive container is here */
	uint32_t quantum; /* bytes copied for one QP before the next one's turn; see turns.c */
	uint32_t budget;  /* WRs of one QP before the next one's turn */
	uint32_t urgent; /* per cent of the time that latency-sensitive containers come first for */
	bool latency;	 /* count the times of requests, of each QP */
	uint32_t yield_polls; /* empty polls of a CQ before the poller yields its CPU; 0: never */
	uint32_t memory_workers; /* threads for a container whose memory stalls them; roles.c */
};
#define FAST_CONF_DEFAULT                                                                          \
	{                                                                                          \
		.cpu = -1, .node = -1, .realtime = true, .priority = 1, .spin_us = 50,             \
		.quantum = 256 * 1024, .budget = 64, .urgent = 50, .latency = true,                \
		.yield_polls = 20, .memory_workers = 4                                             \
	}

#define FAST_THREADS_MAX 32

struct fast {
	pthread_mutex_t lock;
	struct fast_host *host;
	uint32_t index;		      /* of host->threads */
	_Atomic uint32_t lock_wanted; /* the control thread waits for the lock */
	_Atomic uint32_t lock_cpu;    /* where it was taken last */
	_Atomic uint32_t stop;
	sem_t started; /* its runner is; or not: start_err */
	int start_err; /* 0 or -errno */
	struct fast_conf conf;
	struct backend *be;
	struct pvm *pvm;
	uint64_t turn; /* number of the one that is going on */
	uint64_t now; /* ns, CLOCK_MONOTONIC; set once a turn and between containers. Tests set it. */
	bool ticks;   /* a runner sets it */
	bool coalesces;	  /* a QP that is armed asks for the bell of a posting behind the next */
	uint64_t wire_at; /* ns: when frames of another host came last */

	/* Containers with active QPs: latency-sensitive ones, and the others. */
	struct container_turns turns[TURN_NUM];
	uint32_t num_turns[TURN_NUM];
	uint32_t round;	      /* of the others; turns.c */
	uint64_t bytes_moved; /* bytes, since turns.c last looked */
	uint32_t calls;	      /* on clients' memory (pvm.c), since then */
	bool again; /* another turn follows, whoever got data: what some wait for is there by then */
	uint64_t quantum;     /* bytes moved for one QP before the next one's turn */
	uint64_t urgent_from; /* start of the time in which urgent_ns were spent on the first ones */
	uint64_t urgent_ns;
	SLIST_HEAD(, container) served; /* since cpu_settle(); cpu.c */
	struct container *turn_of;	/* the turn's only container, or NULL */
	bool served_limited;		/* one of them is limited */
	bool timer_woke;		/* the thread slept before this turn, and no bell woke it */
	uint64_t stolen;		/* ns that the runner had work and did not run */
	uint32_t num_throttled;		/* rate_waits; rate.h */
	struct session_list active_sessions;
	struct cq_list notify;	     /* CQs with a channel that got CQEs in this turn */
	struct touched_list touched; /* sessions that posted or got data in this turn */
	struct lat_list lat_due;     /* QPs with completions whose time is to be counted */
	uint64_t trace_seq;	     /* trace.h */
	uint64_t taken;		     /* how often the control thread had the lock */
	struct timer_heap timers;
	uint32_t num_spin; /* sessions in spin mode */
	bool no_spin;	   /* spin for nobody: conf.spin_auto. The control thread writes it */
	struct container_turns mw_turns; /* containers with windows that have changed; mw.c */
	uint64_t load_rate;		 /* [ctl] fast_balance(): of its containers */
	struct fast_sched *sched;	 /* sched.c: when to spin, leave the core, sleep */
	int epoll_fd;			 /* bells of all sessions, and the stop eventfd */
	int stop_fd;   /* eventfd: wakes the runner for other reasons than a bell */
	bool sleeping; /* the runner is in epoll_wait */
	bool timed; /* bells tell when they ring, since the runner waits for who rings (sched.c, rule 2) */
};

#define HOST_NICS_MAX	 8u
#define HOST_NIC_NAME_SZ 72

/* A NIC, or a port of it. */
struct host_nic {
	struct nic_dev *dev; /* nic/ */
	union ibv_gid gid;
	/* its UD QP of the router's own, and that one's Q_Key, which other hosts are told; 0: none */
	uint32_t ud_qpn, ud_qkey;
	char net[16]; /* hosts with NICs in a network of that name talk by them; "": by the wire */
	char name[HOST_NIC_NAME_SZ]; /* DEVICE:PORT, for operators */
	bool is_away;		     /* it was removed, and is not back */
};

/* What there is once, whatever the number of threads. */
struct fast_host {
	struct fast *threads[FAST_THREADS_MAX];
	uint32_t num_threads;
	struct container_list containers; /* all of them */
	struct tenant_list tenants;	  /* that have containers here, or limits */
	struct qp_table qps;		  /* QP number -> QP */
	struct dir *dir; /* dir.c: the first thread's, its policy all threads'; NULL: no other host */
	bool wired;	 /* there may be one: the router has a wire */
	struct host_nic nic[HOST_NICS_MAX];
	uint32_t num_nics;	 /* 0: this host has no NIC */
	bool nic_direct;	 /* containers may use their NIC's GID */
	uint32_t limits_changed; /* so often those of a container or a tenant have. [ctl] */
	uint64_t num_moves;	 /* [ctl] of groups, from thread to thread */
	struct rescue *rescue;	 /* of the control thread; NULL: nobody looks after it */

	/* What the control thread is told of, called [lock] of one thread; none may block. */

	/* Windows have changed: mw_next_changed(). NULL: nobody asks. */
	void (*mw_wake)(struct fast_host *h);
	void *mw_arg; /* mw_wake's */
	/* The carriers' work() is wanted. */
	void (*work_wake)(struct fast_host *h);
	void *work_arg; /* work_wake's */
	/* Control thread, no lock: a NIC's GID is another one. NULL: nobody asks. */
	void (*nic_changed)(struct fast_host *h);
	/* A container waits for another thread: fast_settle() is wanted. */
	void (*want_near)(struct fast_host *h);
	void *near_arg; /* want_near's */
	/*
	 * Messages for the connection manager have come, or wire_changes() has grown, or a NIC has events for it. NULL:
	 * there is no connection manager.
	 */
	void (*cm_wake)(struct fast_host *h);
	void *cm_arg; /* cm_wake's */
	/* Another host asks, or answers, whether a container runs (wire/runs.c). */
	void (*runs_frames)(struct fast_host *h);
	void *runs_arg; /* runs_frames' */
	/* A session has to be closed for what it did. */
	void (*session_bad)(struct session *s, const char *why);
};

/* The control thread calls the carriers' work() soon. Any thread. */
static inline void fast_want_work(struct fast_host *h)
{
	if (h->work_wake)
		h->work_wake(h);
}

/*
 * bells.c: have the carriers' op ready() called with `what`, which is not NULL, when fd has one of the events (EPOLL*).
 * Ends when fd is closed, or by EPOLL_CTL_DEL. Any thread. 0 or -errno.
 */
int fast_watch(struct fast *f, int fd, uint32_t events, void *what);

/*
 * A host with its first fast thread, which gets `be`. NULL: errno, that of open() if `be` or a carrier cannot be
 * opened.
 */
struct fast_host *fast_create(const struct fast_conf *conf, struct backend *be);
/* One more, before they are started. 0 or -errno. */
int fast_add_thread(struct fast_host *h, const struct fast_conf *conf);
int fast_start(struct fast_host *h); /* starts the runners; 0 or -errno */
void fast_stop(struct fast_host *h); /* joins them */
void fast_free(struct fast_host *h);

/*
 * The control thread's way in: ask, wait for the end of the runners' turns, hold. One thread's lock is enough for what
 * sessions on that thread have (MRs, CQs, windows, PDs, channels, SRQs, AHs, device memory, keys of their container),
 * since only that thread's runner looks at it. QPs are in a table of the host's, so they need the locks of all, as
 * lists of containers and sessions do. A caller that has one thread's lock does not ask for the locks of all.
 */
void fast_lock(struct fast_host *h);
void fast_unlock(struct fast_host *h);
void fast_lock_thread(struct fast *f);
void fast_unlock_thread(struct fast *f);

/*
 * rescue.c: the control thread is looked after by the fast threads, for when the kernel gives it no
 * CPU. rescue_create() is about the calling thread, which calls rescue_spend() in each turn of its loop,
 * since it may be SCHED_RR until then. NULL: errno tells why not.
 */
struct rescue *rescue_create(void);
void rescue_spend(struct rescue *r);	       /* NULL: nothing */
uint64_t rescue_count(const struct rescue *r); /* how often; the calling thread's own. NULL: 0 */
void rescue_free(struct rescue *r);	       /* no fast thread runs; NULL: nothing */

/*
 * tables.c: before the control thread enters one more, without the lock: a large table grows while
 * runners go on with the old one. 0 or -ENOMEM.
 */
/* The keys, or the windows, of a container of that thread. */
int fast_keys_room(struct fast *f, struct key_table *t);
int fast_qpns_room(struct fast_host *h);

/* ---- [lock] for the control thread -------------------------------------------------------- */

/* Which of the NICs a new container gets: one that is there, and of these one that the fewest have. 0 without any. */
uint8_t fast_nic_choose(const struct fast_host *h);
/* 0 or -ENOMEM; 0 if a container of its tenant is there already. c->fast is chosen. */
int fast_container_add(struct fast_host *h, struct container *c);
/* Its sessions are gone already. Peers' paths to it are forgotten. */
void fast_container_del(struct fast_host *h, struct container *c);

/* What it may use from now on. */
void fast_container_limits(struct container *c, const struct ffo_limits *l);
/* The same for a tenant; all 0: nothing limits it. Gives up the locks on the way. 0 or -ENOMEM. */
int fast_tenant_limits(struct fast_host *h, const char *name, const struct ffo_limits *l);
/* What was said last; all 0: nothing. */
struct ffo_limits fast_limits_of_tenant(const struct fast_host *h, const char *name);

/* threads.c: c is to be on the thread of `to`, NULL: on the first. If not now, soon: fast_want_near(). */
void fast_bring(struct container *c, struct container *to);
/* It needs the first thread: for multicast, and for datagrams of other hosts. 0 or -EAGAIN. */
int fast_need_first(struct container *c);
/*
 * Have it and all that it talks to on that thread, from 0. 0; -EINVAL: there is no such thread; -EPERM:
 * one of them has to be on the first; -EAGAIN, -EBUSY: not now, a client's memory does not answer.
 */
int fast_move(struct container *c, uint32_t thread);
/* Bring those together that wait for it. True: some still wait; try again in a millisecond. */
bool fast_settle(struct fast_host *h);
/* Even out the threads' loads: to be called every FAST_BALANCE_MS. */
void fast_balance(struct fast_host *h);
#define FAST_BALANCE_MS 250

/* s->hdr, cont, bell_fd, async_fd, pid are set. 0 or -errno. */
int fast_session_add(struct fast *f, struct session *s);
/* No object of it is left but what fast_session_del is to forget: bells, activity, pvm. */
void fast_session_del(struct fast *f, struct session *s);

/* Rings are mapped and zeroed, o.handle is set. Chooses qp_num. 0 or -errno. */
int fast_qp_add(struct fast *f, struct qp *qp);
/* Of a QP that is not active: its cursors were set, and its client is to ring for the next posting. */
void fast_qp_rearm(struct qp *qp);
/*
 * The new attributes are in qp->attr, the new state is `state`. Applies the change: starts or
 * stops processing, flushes, wakes peers that waited for this QP. RESET is fast_qp_reset().
 */
void fast_qp_set_state(struct fast *f, struct qp *qp, enum ibv_qp_state state);
/* The same, where the next entries that the client posts to its queues have these indices. The old
 * attributes are still in qp->attr, since they say who waits for it. */
void fast_qp_reset(struct fast *f, struct qp *qp, uint32_t sq_tail, uint32_t rq_tail);
/*
 * Its owner is about to take it to ERR: what is posted by now has one more turn, as a NIC begins with a WR when it is
 * posted. Who sends a last message and disconnects at once has it delivered.
 */
void fast_qp_last_turn(struct fast *f, struct qp *qp);
/* Stops everything of it; nothing refers to it afterwards. Its CQEs stay in the CQs. */
void fast_qp_del(struct fast *f, struct qp *qp);
/*
 * A CQ's way to another ring: what the client has not consumed is copied, CQ_MOVE entries at a time.
 * 0: it is there; -EAGAIN: others may have the lock meanwhile, then go on; -EINVAL: that is more than
 * the new ring holds, and the CQ stays where it is.
 */
#define CQ_MOVE 1024u
struct cq_move {
	struct ff_cq_hdr *hdr; /* the new ones, zeroed */
	struct ff_cqe *ring;
	uint32_t depth; /* entries */
	uint32_t ci, n; /* the first that is not consumed; copied */
	bool begun;
};
int fast_cq_move(struct cq *cq, struct cq_move *m);
/* The SQE before sq.head was carried out by a former router, and lacks its completion. False: it cannot be. */
bool fast_qp_complete(struct fast *f, struct qp *qp);
/* Of a CQ of a former router: nobody knows whether its client was told of the completions that are there. */
void fast_cq_again(struct fast *f, struct cq *cq);
/* Moderate its events; both or none (0). What was held back is sent, or anew under the new rule. */
void fast_cq_moderate(struct fast *f, struct cq *cq, uint16_t count, uint16_t period /* us */);
/* Its event, whether it is armed or not. 0 or -EAGAIN. */
int fast_cq_event(struct fast *f, struct cq *cq);
/* Arm the limit event, which fires at once if the SRQ is below it. */
void fast_srq_arm(struct fast *f, struct srq *srq, uint32_t limit);
void fast_mr_del(struct mr *mr);		 /* no runner reads or writes it afterwards */
void fast_mw_del(struct fast *f, struct mw *mw); /* nothing is reached through it afterwards */
void fast_cq_del(struct fast *f, struct cq *cq); /* no QP uses it any more */
/* If the runner sleeps, wake it: the caller has made work for it. */
void fast_kick(struct fast *f);

/* ---- [lock] for backends and tests ---------------------------------------------------------- */

/* One turn of the loop at time f->now: rings, backend, timers, notifications. Work done. */
uint32_t fast_turn(struct fast *f);
/* Put the QP where the next turn looks at it. */
void fast_qp_activate(struct fast *f, struct qp *qp);
/*
 * c cannot go on where it is, but on the thread of `to`, NULL: on the first. The control thread is
 * told.
 */
void fast_want_near(struct container *c, struct container *to);
/* Its WR under way waits for that meter; then it is activated. */
void fast_qp_throttle(struct fast *f, struct qp *qp, struct rate_meter *m);
/* The containers that pay for the WR. peer NULL: the peer is on another host, or there are several. */
static inline struct rate_path rate_path_of(const struct qp *qp, const struct qp *peer)
{
	bool in = ff_op_fetches(qp->wr->opcode);

	return (struct rate_path){
		.own = qp->o.ses->cont,
		.peer = peer ? peer->o.ses->cont : NULL,
		.dir = in ? RATE_RX : RATE_TX,
		.peer_dir = in ? RATE_SERVE : RATE_RX,
	};
}
/* Data (not only a CQE) went to memory of that session: its program may be polling it. */
static inline void fast_touch(struct fast *f, struct session *s)
{
	if (!s->sched.is_touched) {
		s->sched.is_touched = true;
		SLIST_INSERT_HEAD(&f->touched, s, sched.entry);
	}
}
static inline void fast_data_to(struct fast *f, struct session *s)
{
	s->sched.turn_data = true;
	fast_touch(f, s);
}

/* A message without data: what a program that streams gets back from its peer (credits). */
static inline void fast_note_to(struct fast *f, struct session *s)
{
	s->sched.turn_note = true;
	fast_touch(f, s);
}

/* Its program has slept for what it got. */
static inline void fast_event_to(struct fast *f, struct session *s)
{
	s->sched.turn_event = true;
	fast_data_to(f, s);
}

/* What a WR of that session moved. What it writes to itself, or fetches, is not somebody's answer. */
static inline void fast_moved_to(struct fast *f, const struct session *from, struct session *to,
				 uint64_t length)
{
	if (to == from) {
		to->sched.own_at = f->now;
		fast_note_to(f, to);
	} else if (length) {
		fast_data_to(f, to);
	} else {
		fast_note_to(f, to);
	}
}

/* qp->flush_waits, and the WRs in_flight have ended: flush the rest. */
void fast_qp_flush_go(struct fast *f, struct qp *qp);
/* Move a QP to the error state because of `event` (0: none), with flush of both queues. */
void fast_qp_error(struct fast *f, struct qp *qp, enum ibv_event_type event);

/* comp.c */
/* Complete the WR under way with that status and take the next one. */
void comp_send(struct fast *f, struct qp *qp, enum ibv_wc_status st, enum ff_vendor_err why);
/* Complete a WR that qp->send has a copy of; called in the order of posting. */
void comp_sent(struct fast *f, struct qp *qp, const struct send_wr *wr, enum ibv_wc_status st,
	       enum ff_vendor_err why);
struct recv_info {
	uint32_t byte_len, src_qp, imm;
	uint16_t slid, pkey_index;
	uint8_t flags; /* FF_CQE_* */
	uint8_t sl;
	bool write; /* RDMA WRITE with immediate, not a SEND */
};
void comp_recv(struct fast *f, struct qp *qp, uint64_t wr_id, enum ibv_wc_status st,
	       enum ff_vendor_err why, const struct recv_info *info);
void comp_async(struct fast *f, struct session *s, enum ibv_event_type type,
		enum ff_async_kind kind, uint32_t handle);
/* An event of a QP, to all that have a handle of it. */
void comp_async_qp(struct fast *f, struct qp *qp, enum ibv_event_type type);
void comp_notify(struct fast *f); /* end of a batch: send the events that are due */

/* recv.c: take the next receive of a QP (RQ or SRQ) */
enum fetch { FETCH_EMPTY, FETCH_OK, FETCH_BAD };
enum fetch fast_take_recv(struct fast *f, struct qp *qp, struct recv_wr *out);
/* A receive that was taken for a QP that is reset or destroyed: no comp_recv() will follow. */
void fast_lose_recv(struct qp *qp);
bool fast_srq_ready(const struct srq *srq); /* has the SRQ a receive? */
/* Has the SRQ at least n receives? n >= 1. */
bool fast_srq_has(const struct srq *srq, uint32_t n);
/* A carrier takes a receive of an SRQ before there is a message for it. */
enum fetch fast_take_ahead(struct fast *f, struct srq *srq, struct recv_wr *out);
/* The carrier puts the last receive that it took ahead back. */
void fast_srq_untake(struct srq *srq);
/* A message has used a receive that was taken ahead. */
void fast_srq_used(struct fast *f, struct srq *srq);
void fast_srq_check_limit(struct fast *f, struct srq *srq);

#endif
