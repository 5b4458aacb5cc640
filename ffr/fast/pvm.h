/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * pvm.h - memory that the router cannot map: copies through the owning process's /proc/PID/mem.
 *
 * Such a call can last as long as the client likes (its FUSE server, its own changes to its address
 * space), so it must not stop a runner that serves others. See pvm.c.
 */
#ifndef FFR_FAST_PVM_H
#define FFR_FAST_PVM_H

#include "ffr/fast/fast.h"

#define PVM_MAX 65536u /* bytes of one call; the size of a bounce buffer */

enum pvm_dir { PVM_READ, PVM_WRITE }; /* from, to the application */

struct pvm_call {
	struct session *ses; /* whose memory */
	enum pvm_dir dir;
	uint64_t va;
	uint32_t len;  /* bytes, at most PVM_MAX */
	uint8_t *buf;  /* PVM_MAX bytes */
	struct qp *qp; /* on whose behalf; activated when a worker has the result */
	int result;    /* of a call that was handed to a worker: 0 or -errno */
	bool busy;     /* under way or queued to a worker */
	/* pvm.c's own */
	enum pvm_place {
		PVM_NOWHERE,
		PVM_READY,
		PVM_SOON,
		PVM_LATER
	} place; /* which list it is on */
	_Atomic bool orphan;
	uint32_t done;		   /* bytes */
	uint64_t since;		   /* ns: when it first failed, 0: it did not */
	uint64_t due;		   /* ns: when it is tried again */
	struct pvm_client *client; /* whose memory; outlives the session */
	TAILQ_ENTRY(pvm_call) entry;
};

struct pvm *pvm_create(struct fast *f);
int pvm_start(struct pvm *p); /* starts the runner; 0 or -errno */
void pvm_stop(struct pvm *p); /* f->stop is set */
void pvm_free(struct pvm *p);

/*
 * Control thread, no lock: the session's memory is what `mem`, its process's /proc/self/mem, reaches;
 * `maps`, its /proc/self/maps, tells what is mapped. -1: the kernel cannot be asked. Both stay the
 * caller's. 0 or -errno.
 */
int pvm_session_add(struct session *s, int mem, int maps);
/* How long a failing copy is tried again, ns. Tests change it. */
extern uint64_t pvm_patience;
/* [lock] The container goes; its sessions are gone already. */
void pvm_container_del(struct container *c);

/* [lock] A call with its buffer, or NULL: no memory. Put may be used at any time: a call that waits
 * is not made, one that is under way is freed when it ends. */
struct pvm_call *pvm_call_get(struct pvm *p);
void pvm_call_put(struct pvm *p, struct pvm_call *c);

/*
 * [lock] Carry out the call. 0 or -EFAULT (the memory is not there or lacks the right, or too many
 * calls wait for that container's) when it is done; -EINPROGRESS when it was handed to a worker, which
 * will set result, clear busy and activate c->qp. Gives up and retakes the lock: of all that the caller
 * knew only c->qp, and what the call belongs to, is sure to be there still. -ECANCELED: not even that;
 * return, touching nothing.
 */
int pvm_exec(struct fast *f, struct pvm_call *c);
/* [lock] Did this thread lose the role of the runner? Then it must return to its main function. */
bool pvm_lost(const struct fast *f);
/* [lock] Is a call on the session's memory under way, or queued? */
enum pvm_state {
	PVM_IDLE,
	PVM_CALL,    /* for a moment, as a rule */
	PVM_STALLED, /* for as long as the client likes */
};
enum pvm_state pvm_state(const struct session *s);
/* [lock] Nothing refers to the session's memory afterwards but a call that is stuck. */
void pvm_session_del(struct fast *f, struct session *s);

#endif
