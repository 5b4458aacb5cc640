/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * watch.h - the file of a session's shadow pages. Control thread; see pages.c.
 */
#ifndef FFR_MEM_WATCH_H
#define FFR_MEM_WATCH_H

#include "ffr/mem/shadow.h"

#define REGIONS_MAX 1024u /* of a session */
#define PAGES_FDS   7u	  /* descriptors that a session has for it */

/* A part of the file that is one mapping here. */
struct region {
	uint64_t span;	 /* bytes */
	uint8_t *map;	 /* span bytes */
	uint32_t refs;	 /* runs of MRs; [lock] of pages_int.h, as all that follows */
	uint64_t placed; /* the number of the last PLACE_PAGES for it */
	bool is_used;
	bool is_tidied; /* pages of it that are mapped nowhere are being given back */
	bool is_over;	/* it has no pages, and is to be unmapped */
	bool is_dirty;	/* pages of it may be mapped nowhere */
	int watch;	/* sigbus.c's number */
	uint64_t populated, populate_to; /* populate.c; control thread */
};

/*
 * From now on the session has places for shadow pages: in `file`, a memfd of REGIONS_MAX
 * FF_PAGES_STRIDEs. uffd is of its process, pagemap and mem are that one's files in /proc; all
 * four stay the caller's. 0, -EINVAL: that is no userfaultfd, or -errno.
 */
int pages_watch(struct session *s, int uffd, int pagemap, int mem, int file);
/*
 * PLACE_PAGES. `limit`: bytes that all regions of the session may have. 0, *off and *uffd, which
 * stays here, or
 * -EINVAL, -ENOSPC, or what a quota says.
 */
int pages_place(struct session *s, const struct ff_place_pages_req *req, uint64_t limit,
		uint64_t *off, int *uffd);
/*
 * The region that has these bytes of the file, with one more reference, and where they are. NULL:
 * they cannot be had.
 */
struct region *pages_get(struct session *s, uint64_t off, uint64_t len, uint8_t **host);
void pages_put(struct session *s, struct region *r);
/* Is the session's file the one with that inode number? */
bool pages_are(const struct session *s, uint64_t inode, uint32_t dev_major, uint32_t dev_minor);
/* Where in the file the byte is that pages_get() has told of. */
uint64_t pages_off(const struct session *s, const struct region *r, const uint8_t *host);
/* SETTLE_PAGES */
uint64_t pages_idle(struct session *s);
/* A region that is not populated yet, or NULL. */
struct region *pages_pending(struct session *s);
/* The session's MRs are gone. Its process may go on having the pages. */
void pages_end(struct session *s);

#endif
