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
 * A session's address space. Outlives the session while a call is under way; then none waits, and it
 * stays with the thread that it was on.
 */
struct pvm_client {
	struct pvm_queue *q;	       /* its container's */
	struct call_list calls;	       /* for a worker, now */
	TAILQ_ENTRY(pvm_client) entry; /* q->ready, while it has calls and nobody works for it */
	int mem_fd;		       /* /proc/self/mem and */
	int maps_fd;	   /* ... maps, as the client opened them. -1: the kernel cannot be asked */
	uint32_t num_next; /* calls that the runner is to make, */
	uint32_t num_calls; /* ... that wait for a worker, or are with one */
	uint64_t moved_at;  /* ns: when one of them ended, or the first one came */
	bool has_worker;    /* a worker makes its calls */
	bool has_lost;	    /* a former runner is still in a call, maybe beside the worker */
	bool in_call;	    /* a runner's, or one that was it */
	uint32_t runner_seq, worker_seq; /* how often these two were in calls */
	_Atomic bool gone;
};

/* What waits for memory of one container, and how it behaves; and the buffers that it has. */
struct pvm_queue {
	struct container *cont;		      /* NULL: gone */
	uint32_t held[PVM_NUM_USES];	      /* bytes of buffers */
	struct wait_list waits[PVM_NUM_USES]; /* for room there */
	bool is_crowded;		      /* it is on pvm->crowded: there are waits */
	TAILQ_ENTRY(pvm_queue) crowded;
	uint32_t num_next;     /* calls of its QPs that the runner is to make */
	_Atomic uint32_t refs; /* the container, clients */
	struct client_list ready;
	struct call_list soon, later; /* failed for now; about in the order in which they are due */
	uint32_t num_failed;	      /* on both */
	uint32_t waiting;	      /* calls that wait, in all: it is on pvm->queues */
	_Atomic uint32_t workers;
	TAILQ_ENTRY(pvm_queue) entry;
	uint32_t strikes;
	uint64_t struck_at, careful_until; /* ns */
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
	/* A worker that the watcher is to start, since it takes too long for the runner. */
	_Atomic uint32_t hire;	   /* enum hire */
	struct queue_list queues;  /* that have calls for workers */
	_Atomic uint32_t work_seq; /* changes when there is work for the idle one; futex */
	bool idle;		   /* a worker waits for work */
	uint32_t spare;		   /* workers that are not the first of their containers */
	struct timer retry;	   /* of starting threads */
	struct call_list next;	   /* the runner's */
	struct queue_list crowded; /* whose waits are to be looked at */
	struct {
		struct call_list calls;
		uint32_t num;
	} pool[2]; /* small ones, large ones */
};

/* Is there room for a buffer of so many bytes? */
static inline bool pvm_has_room(const struct pvm_queue *q, enum pvm_use use, uint32_t size)
{
	return q->held[use] + size <= PVM_HELD;
}

/* ---- pvm.c ----------------------------------------------------------------------------------------- */

/* Go on with the copy. 0; -EFAULT: it cannot be; -ESRCH: the address space is gone; -EAGAIN: not now. */
int pvm_attempt(const struct pvm_client *pc, struct pvm_call *c);
/* In a test without threads: until it ends well, or patience does. 0, -EFAULT or -ESRCH. */
int pvm_attempt_alone(const struct pvm_client *pc, struct pvm_call *c);
/* [lock] of all that follow. The call is on that list from now on; it is on none. */
void pvm_enqueue(struct pvm *p, struct pvm_call *c, enum pvm_place place);
void pvm_dequeue(struct pvm *p, struct pvm_call *c);
/* It is a worker's from now on. */
void pvm_call_work(struct pvm_call *c);
/* It has been tried, with that result of pvm_attempt(). */
void pvm_tried(struct fast *f, struct pvm_call *c, int result);
/* The result is there: the caller's next turn finds it. */
void pvm_finish(struct fast *f, struct pvm_call *c, int result);
/* Those who wait for room, and for whom there is some, may try again. Number of them. */
uint32_t pvm_call_up(struct fast *f, struct pvm_queue *q);
/* A call on its memory has stalled the runner. */
void pvm_strike(struct pvm_queue *q, uint64_t now);
/* ... which was not its doing. */
void pvm_forgive(struct pvm_queue *q);
/* Its calls have taken so many ns: of a worker's CPU, or of everybody's time. */
void pvm_charge(struct fast *f, const struct pvm_queue *q, uint64_t ns);
/* Does a worker or a former runner work for this client? Then no other thread may begin. */
static inline bool pvm_is_worked(const struct pvm_client *pc)
{
	return pc->has_worker || pc->has_lost;
}

/* Freed, if it is gone and nobody is in a call on its memory. */
void pvm_client_put(struct pvm_client *pc);
void pvm_queue_put(struct pvm_queue *q);

/* ---- roles.c --------------------------------------------------------------------------------------- */

/* [lock] Is the runner to make a call on that memory itself? */
bool roles_trust(const struct pvm *p, const struct pvm_queue *q);
/* [lock] The call waits for a worker. */
void roles_hand_over(struct pvm *p, struct pvm_call *c);

#endif
