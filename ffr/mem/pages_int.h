/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * pages_int.h - what pages.c, the control thread's part of a session's shadow pages, and watch.c,
 * the thread that watches what the program does to them, share.
 */
#ifndef FFR_MEM_PAGES_INT_H
#define FFR_MEM_PAGES_INT_H

#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "ffr/mem/watch.h"

#define PAGES_PENDING_MAX 1024u /* faults that wait for an event to end */
#define PAGES_REMOVED_MAX 1024u
#define PAGES_STACK	  ((size_t)256 << 10) /* of the thread */
/* with what is used of the stack */
#define PAGES_MEMORY (sizeof(struct pages) + sizeof(struct watch_log) + PAGES_STACK / 4)

/* [va, va + len) was told of as removed; it was the file from `off` then. */
struct removed {
	uint64_t va, len, off;
	uint64_t told; /* ms, CLOCK_MONOTONIC */
};

struct removed_list {
	uint32_t num;
	struct removed r[PAGES_REMOVED_MAX];
};

struct fault {
	uint64_t va;
	bool is_minor;
};

/*
 * What the thread has read and not dealt with yet: in a memfd, for orphans.c, which goes on from
 * there when the router dies, at whatever instruction. The thread's, but for `placing`.
 */
struct watch_log {
	struct uffd_msg now; /* the kernel writes it here when it is read; event 0: none */
	uint32_t num_pending;
	struct fault pending[PAGES_PENDING_MAX];
	_Atomic uint32_t at; /* which of these two is valid; the other one is to be the next */
	struct removed_list removed[2];
	_Atomic uint32_t placing; /* [lock] pages.placing: its number and 1 */
	uint64_t placing_off;
};

/* Descriptors of a session's pages. */
enum pages_fd {
	PAGES_UFFD,
	PAGES_FILE,
	PAGES_LOG,  /* struct watch_log */
	PAGES_MEM,  /* of the process, */
	PAGES_MAPS, /* the process's mappings, in /proc */
	PAGES_PAGEMAP,
	PAGES_NUM_FDS
};

struct pages {
	pthread_mutex_t lock;	/* its holder waits for nothing */
	uint32_t refs;		/* the session, and the thread */
	bool ended;		/* the session has: there are no MRs, and nothing is mapped here */
	bool is_dirty;		/* the file may have pages that are mapped nowhere */
	struct region *placing; /* what PLACE_PAGES was last called for, and may not be mapped yet, */
	uint64_t placing_off;	/* where it begins in the file */
	uint64_t places;	/* calls of PLACE_PAGES so far */
	uint64_t idle;		/* turns of the thread in which no fault was left to answer */
	int uffd, file, wake, mem, maps, pagemap;
	int heir;	/* when it is closed, orphans.c goes on; -1: this thread does */
	uint64_t inode; /* of the file */
	uint32_t dev_major, dev_minor;
	struct watch_log *log;
	struct region region[REGIONS_MAX];

	/* the thread's alone */
	uint64_t next_va; /* of a row of faults */
	uint32_t ahead;
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
/* pages.c: [lock] What is not to be given back for now, from `off` in the file; NULL: nothing. */
void pages_set_placing(struct pages *w, struct region *r, uint64_t off);
/* pages.c: no lock. */
void pages_unref(struct pages *w);
/*
 * pages.c: the pages of a session that has ended, with what it has left; fd[] are its own if it is
 * 0. -EINVAL: that is nothing of the kind; or -errno: not now. Any thread.
 */
int pages_inherit(const int fd[PAGES_NUM_FDS], struct pages **out);
/* watch.c: start the thread, which has a reference. 0 or -errno. */
int watch_start(struct pages *w);
/* watch.c: on a thread for it alone, until there is nothing to watch. */
void watch_run(struct pages *w);

#endif
