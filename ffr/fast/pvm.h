/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * pvm.h - memory that the router cannot map: copies through the owning process's /proc/PID/mem.
 *
 * Such a call can last as long as the client likes (a FUSE server of the client, or the client's changes to its
 * address space), so it must not stop a runner that serves others. pvm.c has the theory; roles.c has the threads that
 * make calls.
 */
#ifndef FFR_FAST_PVM_H
#define FFR_FAST_PVM_H

#include "ffr/fast/fast.h"

#define PVM_MAX 65536u /* bytes of one call */

/*
 * What a call does: read the application's memory, write to it, or read, change and write 8 bytes of it. PVM_ATOMIC
 * reads, changes and writes in one go, so that no other call of the router comes in between.
 */
enum pvm_dir { PVM_READ, PVM_WRITE, PVM_ATOMIC };

/*
 * What PVM_ATOMIC does to 8 bytes. A word whose change is noted, so that the next router knows how far it came (struct
 * qp_atom), takes two steps: what the word is, is noted under the lock, and then the word is changed if it still is
 * that. Of one client's words one at a time is between the note and its end (pvm_client.trying), so that a word that
 * has the new value after a kill has it from that change.
 */
enum pvm_word_step {
	WORD_ONCE,   /* nothing is noted */
	WORD_LOOK,   /* read the word */
	WORD_CHANGE, /* change it if it still is what is noted */
	WORD_SETTLE, /* of a former router: find out whether it was changed */
};
struct pvm_word {
	uint8_t op;   /* FF_OP_CMP_SWAP, FF_OP_FETCH_ADD or FF_OP_ATOMIC_WRITE */
	uint8_t step; /* enum pvm_word_step */
	uint64_t compare_add, swap;
	uint64_t old; /* result: the value before; not set by FF_OP_ATOMIC_WRITE */
	uint64_t now; /* WORD_CHANGE, WORD_SETTLE: the value that was read */
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

/* What a call's buffer is used for, and which container it counts against. */
enum pvm_use {
	PVM_COPY, /* a copy that ends in one of the next turns; counts against the QP's container */
	PVM_AHEAD, /* bytes read ahead for a socket; counts against the QP's container */
	PVM_WORK,  /* a call for a worker; counts against the container whose memory is copied */
	PVM_NUM_USES
};
/* The bytes of buffers that one container may have in each use. */
#define PVM_HELD (192u << 10)

/* A QP's request that found no room for a buffer and waits without one. Zeroed at first. */
struct pvm_wait {
	struct pvm_queue *q; /* the queue that the request waits in; NULL: it does not wait */
	/* pvm.c's own */
	struct qp *qp;
	enum pvm_use use;
	uint32_t size; /* bytes of the buffer */
	bool called;   /* the request was told to try again, and comes before those that wait */
	TAILQ_ENTRY(pvm_wait) entry;
};

struct pvm_call {
	struct session *ses; /* whose memory is copied */
	enum pvm_dir dir;
	uint64_t va;
	uint32_t len;  /* bytes, at most PVM_MAX */
	uint8_t *buf;  /* at least as many bytes as pvm_call_get() was asked for */
	struct qp *qp; /* the QP that needs the copy; activated when the result is there */
	struct pvm_word word;
	struct qp_atom *
		note; /* where a word's change is noted: c->qp's; NULL if it is not, or nobody wants it */
	uint32_t key; /* of the MR, for the note */
	int result;   /* 0; -EFAULT; -EAGAIN: the call was not made; submit it anew */
	bool busy;    /* submitted, and the result is not there yet */
	/* pvm.c's and roles.c's own */
	enum pvm_place {
		PVM_NOWHERE,
		PVM_NEXT, /* the runner's, after this turn */
		PVM_READY,
		PVM_SOON,
		PVM_LATER,
		PVM_TURN	/* another word of the client is being changed */
	} place;		/* the list that the call is on */
	uint32_t size;		/* bytes of the buffer */
	struct pvm_queue *user; /* the queue of the QP's container */
	enum pvm_use use;	/* what pvm_call_get() was asked for */
	uint32_t *held;		/* the pvm_queue.held that the buffer is counted in */
	_Atomic bool orphan;
	uint32_t done;		 /* bytes copied */
	struct odp *odp;	 /* while busy: the on-demand memory; NULL: it is not on-demand */
	struct tracked *tracked; /* while busy: mem/track.c tells where va is now; NULL: at va */
	uint64_t at;		 /* address of the process that was tried last */
	uint32_t faults;	 /* page faults of all attempts */
	uint64_t fault_ns;	 /* time of the attempts that had page faults */
	uint64_t since;		 /* ns: when an attempt first failed; 0: none has */
	uint8_t part; /* of pvm_patience, 1 over it: what the last failed attempt found mapped */
	uint64_t due; /* ns: when the call is tried again */
	struct pvm_client *client; /* whose memory is copied; outlives the session */
	TAILQ_ENTRY(pvm_call) entry;
};

struct pvm *pvm_create(struct fast *f);
int pvm_start(struct pvm *p); /* roles.c: starts the runner; 0 or -errno */
void pvm_stop(struct pvm *p); /* f->stop is set */
void pvm_free(struct pvm *p);

/*
 * Control thread, no lock: copy the session's memory through `mem`, the process's /proc/self/mem, and look up what is
 * mapped in `maps`, the process's /proc/self/maps (-1: the kernel cannot be asked). The caller keeps both descriptors.
 * 0 or -errno.
 */
int pvm_session_add(struct session *s, int mem, int maps);
/* Control thread: the descriptor of the client's /proc/PID/mem, which pvm.c keeps. */
int pvm_mem_fd(const struct session *s);
/* How long a failing copy is tried again, ns. Tests change it. */
extern uint64_t pvm_patience;
/* How long the runner may be in one call before the watcher takes its role, ns. Tests change it. */
extern uint64_t pvm_tick;
/* [lock] The container goes; its sessions have gone already. */
void pvm_container_del(struct container *c);
/* [lock] The container leaves its fast thread for another one: requests that wait for room try again there. */
void pvm_container_leaves(struct container *c);

/*
 * [lock] A call with a buffer of len bytes, at most PVM_MAX, for that QP. NULL: there is no room; w waits, and the QP
 * is activated when it may try again (w->q is NULL then). NULL with w->q NULL at once: the router has no memory; try
 * again in the next turn.
 */
struct pvm_call *pvm_call_get(struct pvm *p, struct qp *qp, enum pvm_use use, uint32_t len,
			      struct pvm_wait *w);
/* [lock] Give the call back, at any time: a waiting call is not made, a call under way is freed when it ends. */
void pvm_call_put(struct pvm *p, struct pvm_call *c);

/*
 * [lock] Have the call made, on memory of that MR. 0: a thread will make it, then set result, clear busy and activate
 * c->qp. -EFAULT: the memory is not there. -EAGAIN: too many calls wait for that container's memory; w waits, and the
 * caller puts the call meanwhile.
 */
int pvm_submit(struct fast *f, struct pvm_call *c, const struct mr *mr, struct pvm_wait *w);
/*
 * [lock] A former router has noted that it is about to change that word for the QP, and nobody has changed a word of
 * the client since: find out whether it did. The QP's note tells it when the call is over, which is in qp->settle
 * until then. -errno: it cannot be found out.
 */
int pvm_settle(struct fast *f, struct qp *qp, const struct mr *mr);
/* [lock] End the wait, if w waits. */
void pvm_wait_end(struct pvm_wait *w);
/* [lock] Is the waiting request likely to be told in the next turn that it may try again? */
bool pvm_waits_shortly(const struct pvm_wait *w);
/* [lock] Does the runner make the call, before its next turn? Otherwise a worker makes it, now or later. */
static inline bool pvm_is_next(const struct pvm_call *c)
{
	return c->place == PVM_NEXT;
}
/*
 * [lock] roles.c: the runner makes the calls that were submitted to it, between two turns. This is the only place of
 * the fast path that gives the lock up: nothing that the caller remembers is valid afterwards. Number of calls.
 */
uint32_t pvm_make(struct fast *f);
/* [lock] Has this thread lost the role of the runner in pvm_make()? Then it must return to its main function. */
bool pvm_lost(const struct fast *f);
/* [lock] Is a call on the session's memory under way, or queued? */
enum pvm_state {
	PVM_IDLE,
	PVM_CALL,    /* a call that usually ends in a moment */
	PVM_STALLED, /* a call that the client stalls, for as long as it likes */
};
enum pvm_state pvm_state(const struct session *s);
/*
 * [lock] Cancel the calls on these bytes of the session's memory that no thread has begun: they end with -EAGAIN, so
 * that their QPs begin anew. *mark remembers the calls that are under way.
 */
void pvm_cancel(struct fast *f, struct session *s, uint64_t va, uint64_t len,
		struct pvm_mark *mark);
/* [lock] Have the calls ended that *mark remembers? */
bool pvm_passed(const struct session *s, const struct pvm_mark *mark);
/* [lock] The session ends: afterwards only a stuck call refers to the session's memory. */
void pvm_session_del(struct fast *f, struct session *s);

#endif
