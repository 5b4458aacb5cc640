/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * heat.h - how much the parts of an MR are used that the router has no pointer to. See heat.c.
 */
#ifndef FFR_MEM_HEAT_H
#define FFR_MEM_HEAT_H

#include "ffr/obj/objects.h"

/* Less than this to be reached by copies: not counted. Bytes: more than what is on pages that others have bytes of. */
#define HEAT_MIN ((uint64_t)2 * FF_PAGE)
/*
 * Parts of a session's MRs that the client is to be told of (ctl/hot.c). What does not fit is noted when it is used
 * again.
 */
#define HEAT_RING 256u
struct heat_part {
	uint32_t mr; /* handle */
	uint64_t va, len;
	uint64_t at; /* ns, CLOCK_MONOTONIC: when it was found */
};
struct heat_ring {
	_Atomic uint32_t head;	 /* [lock] of those that were put in */
	_Atomic uint32_t tail;	 /* control thread: of those that were taken out */
	void (*wake)(void *arg); /* [lock] there is something; must not block */
	void *arg;
	struct heat_part part[HEAT_RING];
};

/* Parts of an MR, at most. */
#define HEAT_PARTS 1024u
/* A use counts as so many bytes at least: the longest copy that is made at once (soft/xfer.c). */
#define HEAT_USE 65536u
/*
 * The client is told of a part when this many times its bytes were copied, and it is used again: until then copying
 * takes about as much CPU time as replacing does. docs/internals/memory.md has the figures.
 */
#define HEAT_TIMES 3u

struct heat {
	uint64_t base;	/* address of the first part: the MR's, rounded down to a page */
	uint32_t shift; /* a part has 1 << shift bytes */
	uint32_t num;
	uint32_t hot;	 /* bytes / 16: a part that was used more is told of */
	uint32_t used[]; /* bytes / 16; HEAT_TOLD: the client knows */
};
#define HEAT_TOLD UINT32_MAX

/* Control thread. The oldest part in the ring; NULL: there is none. heat_took() takes it out. */
const struct heat_part *heat_first(const struct heat_ring *r);
void heat_took(struct heat_ring *r);

/*
 * Control thread. For an MR that nobody knows yet, when its runs are there; NULL: nothing to be counted, or no memory.
 */
struct heat *heat_new(const struct mr *mr);

/* [lock] heat_used()'s rare part. */
void heat_tell(struct mr *mr, uint32_t part);

/* [lock] A copy of len bytes through the process begins at va, inside the MR. */
static inline void heat_used(struct mr *mr, uint64_t va, uint32_t len)
{
	struct heat *h = mr->heat;
	uint64_t part;
	uint32_t add;

	if (!h)
		return;
	part = (va - h->base) >> h->shift;
	if (part >= h->num || h->used[part] == HEAT_TOLD)
		return;
	add = (len > HEAT_USE ? len : HEAT_USE) / 16;
	if (h->used[part] < HEAT_TOLD - 1 - add)
		h->used[part] += add;
	if (h->used[part] > h->hot)
		heat_tell(mr, (uint32_t)part);
}

#endif
