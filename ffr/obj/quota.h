/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * quota.h - what a container, and those of a tenant together, have of what they may have. Control
 * thread; no lock.
 *
 * Who makes something for a container charges it first, and returns it when it is gone. What is over
 * a limit is refused with -ENOMEM, as by a device of that size, and told in the log. Control calls are
 * not refused: they wait (ctl/call.c).
 */
#ifndef FFR_OBJ_QUOTA_H
#define FFR_OBJ_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

#include "ffr/obj/bucket.h"

struct container;
struct ffo_limits;
struct obj;

/* X(NAME, field of struct ffo_limits) */
#define FFR_QUOTAS(X)                                                                              \
	X(QP, max_qp)                                                                              \
	X(CQ, max_cq)                                                                              \
	X(SRQ, max_srq)                                                                            \
	X(MR, max_mr)                                                                              \
	X(WR, max_wr)		      /* entries of SQs, RQs and SRQs */                           \
	X(REGISTERED, max_registered) /* bytes: lengths of MRs */                                  \
	X(PINNED, max_pinned)	      /* bytes: ring and shadow segments, device memory */         \
	X(RINGS, max_rings)	      /* bytes: ring segments */                                   \
	X(FD, max_fd)		      /* that the router has open for it */                        \
	X(OBJECT, max_object)	      /* of other kinds, see quota.c; events that wait */          \
	X(SESSION, max_session)

/*
 * QUOTA_MEMORY has no limit of its own: bytes of the router's memory. Pages of rings and device memory are charged
 * as such, whoever touches them first; heap is charged by quota_charge() with the objects that take it, so much for
 * each. All containers share what quota_memory_bound() allows, as they share descriptors and the tables below.
 */
enum quota {
#define X(NAME, field) QUOTA_##NAME,
	FFR_QUOTAS(X)
#undef X
		QUOTA_MEMORY,
	QUOTA_NUM
};
#define CM_ID_OBJECTS	  8u /* an id of the CM counts as so many: it has a port, a timer, a message */
#define QUOTA_SOCKET	  212992u /* bytes that a socket to a client holds unread, at most */
#define QUOTA_MEMORY_UNIT 65536u  /* bytes: a container may have SHARE_SMALL of them in any case */

/*
 * Tables that all containers share, X(NAME, max, what). There is no number that one may have: a container,
 * and a tenant's together, may have as many as are still free, and each container SHARE_SMALL in any case.
 * So one that takes all it gets has half of the table, the next one a quarter, and there is always some for
 * others, of its tenant, too. The same holds for the descriptors that the process may have open, beside max_fd.
 */
#define FFR_SHARES(X)                                                                              \
	X(MAPPING, 32768u, "mappings of clients' memory")                                          \
	X(VIEW, 32768u, "GB of views of clients' memory")                                          \
	X(PAGED, 2048u, "GB of on-demand memory at NICs")
#define SHARE_SMALL 64u

enum share {
#define X(NAME, max, what) SHARE_##NAME,
	FFR_SHARES(X)
#undef X
		SHARE_NUM
};

/* Has one that has `own` of a table of `max` that has `used` to leave the rest to others? */
static inline bool share_full(uint64_t own, uint64_t used, uint64_t max)
{
	return used >= max || (own >= SHARE_SMALL && own >= max - used);
}

struct quota_use {
	uint64_t used[QUOTA_NUM];
	uint32_t shares[SHARE_NUM];
	struct bucket calls; /* control calls; the burst is a second's */
};

/* What was refused last, to be told in the log. */
struct quota_refusal {
	bool untold, own; /* own: by the container's limit, not its tenant's */
	enum quota q;
	uint64_t n, used, limit;
	const char *share; /* of that table: `used` of `limit`; NULL: a quota */
};

/* A container's part. [ctl] */
struct cont_quota {
	struct quota_use use;
	struct quota_refusal refusal;
	/* bits, enum quota_reached: limits that have been reached, and were told as an event */
	uint32_t reached;
};

/* A bit of cont_quota.reached for each quota, and these. */
enum quota_reached { REACHED_SHARE = QUOTA_NUM, REACHED_CALLS, REACHED_CPU, REACHED_NUM };

extern const char *const quota_name[QUOTA_NUM]; /* of the limit */

/* 0: there is none. */
uint64_t quota_limit(const struct ffo_limits *l, enum quota q);

/* The limits by which the container can have no more of q: its own or its tenant's; NULL: it can have more. */
const struct ffo_limits *quota_used_up(const struct container *c, enum quota q);

/* 0, or -ENOMEM: quota_tell() has to follow, when the fast lock is not held. */
int quota_charge(struct container *c, enum quota q, uint64_t n);
void quota_tell(struct container *c); /* if anything was refused */
/* The container has reached that limit: an event, if it is for the first time. */
void quota_reached(struct container *c, unsigned bit, const char *text);
void quota_return(struct container *c, enum quota q, uint64_t n);
/* How many bytes of memory the containers may have together; 0, as at first: any number. */
void quota_memory_bound(uint64_t bytes);
/* One entry of a shared table. 0, or -ENOSPC: quota_tell() has to follow. */
int quota_share_take(struct container *c, enum share s, uint32_t n);
void quota_share_return(struct container *c, enum share s, uint32_t n);
/* All that an object takes, as it is: so it must be the same when it is returned. */
int quota_charge_obj(struct container *c, const struct obj *o);
void quota_return_obj(struct container *c, const struct obj *o);

/* Control calls at `now` (ns): how long, in ns, the next one has to wait; one is served. */
bool quota_calls_limited(const struct container *c);
uint64_t quota_call_wait(struct container *c, uint64_t now);
void quota_call_charge(struct container *c, uint64_t now);

#endif
