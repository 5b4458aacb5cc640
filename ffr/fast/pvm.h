/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * pvm.h - memory that the router cannot map: copies through the owning process's /proc/PID/mem.
 *
 * Such a call can last as long as the client likes (its FUSE server, its own changes to its address
 * space), so it must not stop a runner that serves others. See pvm.c, and roles.c for who makes it.
 */
#ifndef FFR_FAST_PVM_H
#define FFR_FAST_PVM_H

#include "ffr/fast/fast.h"

#define PVM_MAX 65536u /* bytes of one call */

/* From, to the application; or a word of it is read, changed and written: by one call, for nobody else's is between. */
enum pvm_dir { PVM_READ, PVM_WRITE, PVM_ATOMIC };

/* What PVM_ATOMIC does to 8 bytes. */
struct pvm_word {
	uint8_t op; /* FF_OP_CMP_SWAP, FF_OP_FETCH_ADD or FF_OP_ATOMIC_WRITE */
	uint64_t compare_add, swap;
	uint64_t old; /* what was there, unless it is FF_OP_ATOMIC_WRITE */
};
static inline uint64_t pvm_word_new(const struct pvm_word *w, uint64_t old)
{
	switch (w->op) {
	case FF_OP_ATOMIC_WRITE:
		return w->compare_add;
	case FF_OP_FETCH_ADD:
		return old + w->compare_add;
	default:
		return old == w->compare_add ? w->swap : old;
	}
}

/*
 * What becomes of a buffer: it is given back in one of the next turns; it has to wait for a socket; or it
 * is with a worker, which the container has to answer for whose memory it is.
 */
enum pvm_use { PVM_COPY, PVM_AHEAD, PVM_WORK, PVM_NUM_USES };
/* The bytes of buffers that one container may have in each use. */
#define PVM_HELD (192u << 10)

/* Who finds no room for a buffer waits without one. On whose behalf; zeroed at first. */
struct pvm_wait {
	struct pvm_queue *q; /* where it waits; NULL: it does not */
	/* pvm.c's own */
	struct qp *qp;
	enum pvm_use use;
	uint32_t size; /* bytes */
	bool called;   /* it comes before those that wait */
	TAILQ_ENTRY(pvm_wait) entry;
};

struct pvm_call {
	struct session *ses; /* whose memory */
	enum pvm_dir dir;
	uint64_t va;
	uint32_t len;  /* bytes, at most PVM_MAX */
	uint8_t *buf;  /* as many as it was got for, at least */
	struct qp *qp; /* on whose behalf; activated when the result is there */
	struct pvm_word word;
	int result; /* 0; -EFAULT; -EAGAIN: it was not made, and is to be begun anew */
	bool busy;  /* submitted, and the result is not there yet */
	/* pvm.c's and roles.c's own */
	enum pvm_place {
		PVM_NOWHERE,
		PVM_NEXT, /* the runner's, after this turn */
		PVM_READY,
		PVM_SOON,
		PVM_LATER
	} place;		/* which list it is on */
	uint32_t size;		/* bytes of the buffer */
	struct pvm_queue *user; /* its QP's container's, */
	enum pvm_use use;	/* ... and what it was got for */
	uint32_t *held;		/* the sum that its buffer is counted in */
	_Atomic bool orphan;
	uint32_t done;		   /* bytes */
	struct odp *odp;	   /* of on-demand memory, while it is busy; NULL: it is not */
	struct tracked *tracked;   /* mem/track.c: while it is busy: where va is; NULL: at va */
	uint64_t at;		   /* address of the process that was tried last */
	uint32_t faults;	   /* pages that the kernel had to have come, */
	uint64_t fault_ns;	   /* ... and the time of the attempts in which there were some */
	uint64_t since;		   /* ns: when it first failed, 0: it did not */
	bool unknown;		   /* it failed, and nobody could tell what is mapped */
	uint64_t due;		   /* ns: when it is tried again */
	struct pvm_client *client; /* whose memory; outlives the session */
	TAILQ_ENTRY(pvm_call) entry;
};

struct pvm *pvm_create(struct fast *f);
int pvm_start(struct pvm *p); /* roles.c: starts the runner; 0 or -errno */
void pvm_stop(struct pvm *p); /* f->stop is set */
void pvm_free(struct pvm *p);

/*
 * Control thread, no lock: the session's memory is what `mem`, its process's /proc/self/mem, reaches;
 * `maps`, its /proc/self/maps, tells what is mapped. -1: the kernel cannot be asked. Both stay the
 * caller's. 0 or -errno.
 */
int pvm_session_add(struct session *s, int mem, int maps);
/* Control thread: the client's /proc/PID/mem, which stays here. */
int pvm_mem_fd(const struct session *s);
/* How long a failing copy is tried again, ns. Tests change it. */
extern uint64_t pvm_patience;
/* How long the runner may be in one call before the watcher takes its role, ns. Tests change it. */
extern uint64_t pvm_tick;
/* [lock] The container goes; its sessions are gone already. */
void pvm_container_del(struct container *c);
/* [lock] of its thread, which it leaves for another one: who waits may try again there. */
void pvm_container_leaves(struct container *c);

/*
 * [lock] A call with a buffer of len bytes, at most PVM_MAX, on behalf of that QP. NULL: there is no room, w
 * waits, and the QP is activated when it may try again (w->q is NULL then); or no memory, and w->q is
 * NULL at once: again in the next turn. Put may be used at any time: a call that waits is not made, one that is
 * under way is freed when it ends.
 */
struct pvm_call *pvm_call_get(struct pvm *p, struct qp *qp, enum pvm_use use, uint32_t len,
			      struct pvm_wait *w);
void pvm_call_put(struct pvm *p, struct pvm_call *c);

/*
 * [lock] Have the call made, on memory of that MR. 0: it will be; then result is set, busy cleared and c->qp activated. -EFAULT: the
 * memory is not there. -EAGAIN: too many calls wait for that container's memory. w waits, and the caller puts the
 * call meanwhile.
 */
int pvm_submit(struct fast *f, struct pvm_call *c, const struct mr *mr, struct pvm_wait *w);
/* [lock] w waits no more, if it did. */
void pvm_wait_end(struct pvm_wait *w);
/* [lock] Is it likely to be called in the next turn? */
bool pvm_waits_shortly(const struct pvm_wait *w);
/* [lock] Does the runner make it, before its next turn? Else it waits for a worker, or a worker is in it. */
static inline bool pvm_is_next(const struct pvm_call *c)
{
	return c->place == PVM_NEXT;
}
/*
 * [lock] roles.c: the runner, between two turns: make what was submitted to it. The only place of the fast path at
 * which the lock is given up: nothing that the caller remembers holds afterwards. Number of calls.
 */
uint32_t pvm_make(struct fast *f);
/* [lock] Has this thread lost the role of the runner in pvm_make()? Then it must return to its main function. */
bool pvm_lost(const struct fast *f);
/* [lock] Is a call on the session's memory under way, or queued? */
enum pvm_state {
	PVM_IDLE,
	PVM_CALL,    /* for a moment, as a rule */
	PVM_STALLED, /* for as long as the client likes */
};
enum pvm_state pvm_state(const struct session *s);
/*
 * [lock] Calls on these bytes of the session's memory that no thread has begun are not made any more, but begun anew
 * by who submitted them; *mark is what is under way.
 */
void pvm_cancel(struct fast *f, struct session *s, uint64_t va, uint64_t len,
		struct pvm_mark *mark);
/* [lock] Has that ended? */
bool pvm_passed(const struct session *s, const struct pvm_mark *mark);
/* [lock] Nothing refers to the session's memory afterwards but a call that is stuck. */
void pvm_session_del(struct fast *f, struct session *s);

#endif
