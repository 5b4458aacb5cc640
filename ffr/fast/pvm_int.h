/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * pvm_int.h - what pvm.c, the calls on clients' memory, and roles.c, the threads that make them, share.
 */
#ifndef FFR_FAST_PVM_INT_H
#define FFR_FAST_PVM_INT_H

#include "ffr/fast/internal.h"
#include "ffr/fast/pvm.h"

TAILQ_HEAD(call_list, pvm_call);
TAILQ_HEAD(client_list, pvm_client);
TAILQ_HEAD(queue_list, pvm_queue);
TAILQ_HEAD(wait_list, pvm_wait);

/*
 * A session's address space. It outlives the session while a call is under way; then no call waits, and the address
 * space stays with the fast thread that it was on.
 */
struct pvm_client {
	struct pvm_queue *q;	       /* the container's */
	struct call_list calls;	       /* calls that a worker is to make now */
	TAILQ_ENTRY(pvm_client) entry; /* q->ready, while it has calls but no thread */
	int mem_fd;		       /* /proc/self/mem, which the client opened */
	int maps_fd; /* /proc/self/maps, which the client opened; -1: the kernel cannot be asked */
	struct pvm_call *trying; /* WORD_CHANGE */
	uint32_t settling;	 /* calls in WORD_SETTLE */
	struct call_list turn;	 /* PVM_TURN */
	uint32_t num_next;	 /* calls that the runner is to make */
	uint32_t num_calls;	 /* calls that wait for a worker, or that a worker is in */
	uint64_t moved_at; /* ns: when a worker's call last ended, or when the first one came */
	bool has_worker;   /* a worker makes this client's calls */
	bool has_lost;	   /* a former runner is still in a call, maybe beside the worker */
	bool in_call;	   /* the runner, or a former runner, is in a call */
	uint32_t runner_seq, worker_seq; /* how many calls runners and workers have ended */
	_Atomic bool gone;
};

/* A container's buffers, the calls that wait for its memory, and how often its memory stalled the runner. */
struct pvm_queue {
	struct container *cont;		      /* NULL: gone */
	uint32_t held[PVM_NUM_USES];	      /* bytes of buffers */
	struct wait_list waits[PVM_NUM_USES]; /* requests that wait for room in held[] */
	bool is_crowded;		      /* there are waits: the queue is on pvm->crowded */
	TAILQ_ENTRY(pvm_queue) crowded;
	uint32_t num_next;     /* calls of the container's QPs that the runner is to make */
	_Atomic uint32_t refs; /* the container, clients */
	struct client_list ready;
	struct call_list soon,
		later; /* calls that failed for now; about in the order in which they are due */
	uint32_t num_failed; /* calls on `soon` and `later` */
	uint32_t waiting;    /* all calls that wait; above 0: the queue is on pvm->queues */
	_Atomic uint32_t workers;
	TAILQ_ENTRY(pvm_queue) entry;
	uint32_t strikes; /* stalls of the runner that are not forgotten yet */
	/* ns: the last stall; until when the runner makes no call on this memory */
	uint64_t struck_at, careful_until;
};

/* The watcher starts a worker. */
enum hire { HIRE_NONE, HIRE_WANTED, HIRE_STARTED };

struct pvm {
	struct fast *f;
	struct runner *runner;	   /* holds the role */
	_Atomic uint32_t call_seq; /* odd: the runner is in a call */
	_Atomic uint32_t armed;	   /* the watcher ticks; futex */
	_Atomic uint32_t cpu;	   /* where the runner's last call was */
	_Atomic uint32_t threads;  /* futex: pvm_stop waits for 0 */
	bool has_watcher;
	bool told; /* the log knows that threads cannot be started */
	/* The watcher is to start a worker, because starting one would take the runner too long. */
	_Atomic uint32_t hire;	   /* enum hire */
	struct queue_list queues;  /* the queues that have calls for workers */
	_Atomic uint32_t work_seq; /* changes when there is work for the idle worker; futex */
	bool idle;		   /* a worker waits for work */
	uint32_t spare;		   /* workers that are not the first of their containers */
	struct timer retry;	   /* of starting threads */
	struct call_list next;	   /* calls that the runner is to make */
	struct queue_list crowded; /* the queues that have waits */
	struct {
		struct call_list calls;
		uint32_t num;
	} pool[2]; /* idle calls with small buffers, and with large ones */
};

/* Is there room for a buffer of so many bytes? */
static inline bool pvm_has_room(const struct pvm_queue *q, enum pvm_use use, uint32_t size)
{
	return q->held[use] + size <= PVM_HELD;
}

/* ---- pvm.c ----------------------------------------------------------------------------------------- */

/* Go on with the copy. 0; -EFAULT: the memory is not there; -ESRCH: the address space is gone; -EAGAIN: not now. */
int pvm_attempt(const struct pvm_client *pc, struct pvm_call *c);
/* In a test without threads: try until the copy is done, or for pvm_patience. 0, -EFAULT or -ESRCH. */
int pvm_attempt_alone(const struct pvm_client *pc, struct pvm_call *c);
/* All functions that follow need [lock]. Put the call, which is on no list, on that list. */
void pvm_enqueue(struct pvm *p, struct pvm_call *c, enum pvm_place place);
/* Take the call off its list. */
void pvm_dequeue(struct pvm *p, struct pvm_call *c);
/* Give the call to workers: from now on the buffer counts against the container whose memory is copied. */
void pvm_call_work(struct pvm_call *c);
/* A thread has tried the call, with that result of pvm_attempt(). */
void pvm_tried(struct fast *f, struct pvm_call *c, int result);
/* End the call with that result, which the QP's next turn finds. */
void pvm_finish(struct fast *f, struct pvm_call *c, int result);
/* Tell the requests that wait for room, as far as there is room, to try again. Number of them. */
uint32_t pvm_call_up(struct fast *f, struct pvm_queue *q);
/* A call on the container's memory has stalled the runner. */
void pvm_strike(struct pvm_queue *q, uint64_t now);
/* Take the last pvm_strike() back, because the container did not cause the stall. */
void pvm_forgive(struct pvm_queue *q);
/* Charge the container for calls on its memory: ns of a worker's CPU time, or of the runner's. */
void pvm_charge(struct fast *f, const struct pvm_queue *q, uint64_t ns);
/* Does a worker or a former runner work for this client? Then no other thread may begin. */
static inline bool pvm_is_worked(const struct pvm_client *pc)
{
	return pc->has_worker || pc->has_lost;
}

/* Free the client, if it is gone and no thread is in a call on its memory. */
void pvm_client_put(struct pvm_client *pc);
void pvm_queue_put(struct pvm_queue *q);

/* ---- roles.c --------------------------------------------------------------------------------------- */

/* [lock] Is the runner to make a call on that memory itself? */
bool roles_trust(const struct pvm *p, const struct pvm_queue *q);
/* [lock] A call of the client's waits for a worker: there is one, or one is to come. */
void roles_need_worker(struct pvm *p, const struct pvm_client *pc);
/* [lock] The call waits for a worker. */
void roles_hand_over(struct pvm *p, struct pvm_call *c);

#endif
