/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fake_pages.h - the router's own ffr/mem/pages.c and watch.c in the process whose memory it watches: a session of it for
 * fake_shadow.c, which sees nothing of the router. No two calls of one session at a time.
 *
 * What it allocates is no memory of the program's heap, and its thread touches no page that the program may have
 * registered: otherwise it would have to answer its own faults.
 */
#ifndef FAKE_PAGES_H
#define FAKE_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "ffr/abi/ff_proto.h"

struct fake_pages;

struct fake_pages *fake_pages_new(void);
void fake_pages_end(struct fake_pages *f);
/* As WATCH_PAGES and PLACE_PAGES: 0 or -errno. *file, and *uffd, are the caller's. */
int fake_pages_watch(struct fake_pages *f, int uffd, int pagemap, int *file);
int fake_pages_place(struct fake_pages *f, const struct ff_place_pages_req *req, uint64_t limit,
		     struct ff_place_pages_resp *resp, int *uffd);
/* Of the file; 0: there is none. */
uint64_t fake_pages_inode(const struct fake_pages *f);
/* As SETTLE_PAGES. */
uint64_t fake_pages_idle(struct fake_pages *f);
/* As a run of an MR: a reference to a region, and where its bytes are. NULL: there is none. */
void *fake_pages_get(struct fake_pages *f, uint64_t off, uint64_t len, uint8_t **host);
void fake_pages_put(struct fake_pages *f, void *region);
/* As TRACK, REG_MR with FF_ACCESS_TRACK (NULL: *err) and TRACK_PAGES; the session's userfaultfd, which is the caller's. */
int fake_pages_track(struct fake_pages *f, int uffd);
int fake_pages_uffd(struct fake_pages *f);
void *fake_pages_tracked(struct fake_pages *f, uint64_t addr, uint64_t len, int *err);
void fake_pages_untrack(void *tracked);
int fake_pages_track_pages(struct fake_pages *f, const struct ff_track_pages_req *req);
bool fake_pages_known(struct fake_pages *f, uint64_t va, uint64_t len);
void fake_pages_open(struct fake_pages *f);
/* Where byte va of a tracked MR is copied: an address, 0: nowhere, or FAKE_NOT_NOW. */
#define FAKE_NOT_NOW UINT64_MAX
uint64_t fake_pages_where(void *tracked, uint64_t va);
/* Is that descriptor a userfaultfd of the router's, of some session or for guard.c? */
bool fake_pages_has(int fd);
/* Bytes of the file that have pages. 0: there is no file. */
uint64_t fake_pages_bytes(const struct fake_pages *f);

#endif
