/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * pages_int.h - what pages.c, the control thread's part of a session's shadow pages, and watch.c,
 * the thread that watches what the program does to them, share.
 */
#ifndef FFR_MEM_PAGES_INT_H
#define FFR_MEM_PAGES_INT_H

#include <pthread.h>

#include "ffr/mem/watch.h"

#define PAGES_PENDING_MAX 1024u /* faults that wait for an event to end */
#define PAGES_REMOVED_MAX 1024u
#define PAGES_STACK	  ((size_t)256 << 10)			   /* of the thread */
#define PAGES_MEMORY	  (sizeof(struct pages) + PAGES_STACK / 4) /* what is used of the stack */

/* [va, va + len) was told of as removed; it was the file from `off` then. The thread's. */
struct removed {
	uint64_t va, len, off;
	uint32_t age; /* how often it was looked at */
};

struct fault {
	uint64_t va;
	bool is_minor;
};

struct pages {
	pthread_mutex_t lock;	/* its holder waits for nothing */
	uint32_t refs;		/* the session, and the thread */
	bool ended;		/* the session has: there are no MRs, and nothing is mapped here */
	bool is_dirty;		/* the file may have pages that are mapped nowhere */
	struct region *placing; /* what PLACE_PAGES was last called for, and may not be mapped yet, */
	uint64_t placing_off;	/* ... from there in the file */
	uint64_t places;	/* calls of PLACE_PAGES so far */
	int uffd, file, wake, mem, maps, pagemap;
	uint64_t inode; /* of the file */
	uint32_t dev_major, dev_minor;
	struct region region[REGIONS_MAX];

	/* the thread's alone */
	struct fault pending[PAGES_PENDING_MAX];
	uint32_t num_pending;
	uint64_t next_va; /* of a row of faults */
	uint32_t ahead;
	struct removed removed[PAGES_REMOVED_MAX];
	uint32_t num_removed;
	struct part *part; /* of the file, that are mapped */
	uint32_t num_parts, max_parts;
	bool parts_miss; /* there was no memory for all of them */
};

static inline uint64_t pages_region_base(const struct pages *w, const struct region *r)
{
	return (uint64_t)(r - w->region) * FF_PAGES_STRIDE;
}

static inline struct region *pages_region_of(struct pages *w, uint64_t off)
{
	uint64_t i = off / FF_PAGES_STRIDE;

	return i < REGIONS_MAX ? &w->region[i] : NULL;
}

/* pages.c: [lock] There may be something to give back. */
void pages_make_dirty(struct pages *w);
/*
 * pages.c: [lock] The last MR may have gone; or, after the session's end, the thread's own
 * reference.
 */
void pages_region_unref(struct pages *w, struct region *r);
/* pages.c: no lock. */
void pages_unref(struct pages *w);
/* watch.c: start the thread, which has a reference. 0 or -errno. */
int watch_start(struct pages *w);

#endif
