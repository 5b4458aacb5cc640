/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * track.h - where the memory of MRs is that the router copies through the process. See track.c.
 */
#ifndef FFR_MEM_TRACK_H
#define FFR_MEM_TRACK_H

#include "ffr/obj/objects.h"

#define TRACK_FDS 2u /* descriptors that a session has for it */

struct track;	/* a session's */
struct tracked; /* an MR's */

/* ---- control thread ---------------------------------------------------------------------- */

/* MRs can be tracked from now on: by uffd, which stays the caller's. 0, -EINVAL or -errno. */
int track_start(struct session *s, int uffd);
/* The same in two steps: no event is read before track_go(). */
int track_prepare(struct session *s, int uffd);
int track_go(struct session *s);
/* The session's MRs are gone. Does nothing where it has never been started. */
void track_stop(struct session *s);
/* The session's userfaultfd, for the client, which stays here; -1: there is none. */
int track_fd(const struct session *s);
/*
 * Track the MR: addr and length are set. 0 and *out; -EAGAIN: its process is just changing its
 * mappings; -EINVAL: the session has no userfaultfd; or -ENOMEM.
 */
int track_new(struct session *s, const struct mr *mr, struct tracked **out);
/*
 * The same of an MR of a former router, before the first event was read: none that this router reads is older than the
 * MR. 0, -EINVAL or -ENOMEM.
 */
int track_again(struct session *s, const struct mr *mr, struct tracked **out);
/* Is some of the session's memory closed, by TRACK_PAGES? */
bool track_is_closed(const struct session *s);
/* Any thread. NULL: does nothing. */
void track_hold(struct tracked *m);
void track_put(struct tracked *m);
/*
 * TRACK_PAGES. 0, -EAGAIN, -ESTALE or -EINVAL. -ENOENT: MRs that had memory there do not have it
 * there any more, and nothing is closed.
 */
int track_pages(struct session *s, uint32_t op, uint64_t va, uint64_t len);
void track_open(struct session *s);
/* Are all pages of [va, va + len) registered, as far as the client said, and have not changed? */
bool track_is_known(const struct session *s, uint64_t va, uint64_t len);
/* Have all changes been seen that were made before now? */
bool track_is_settled(const struct session *s);
/*
 * Is all of [va, va + len) that the MR has still at that address, and was, if it is closed, since
 * then? True, too, where m is NULL.
 */
bool track_is_home(struct tracked *m, uint64_t va, uint64_t len);

/* ---- any thread: copies -------------------------------------------------------------------- */

#define TRACK_GONE UINT64_MAX

/*
 * A copy of [va, va + len) of the MR begins. The bytes that are in one place, and *at, their
 * address in the process; TRACK_GONE: they are nobody's any more. 0: not now, and no track_end().
 * Waits for nobody.
 */
uint64_t track_begin(struct tracked *m, uint64_t va, uint64_t len, uint64_t *at);
/* Between the two. False: mappings of the process have changed, and what was read may be of others. */
bool track_is_same(const struct tracked *m);
void track_end(struct tracked *m);

#endif
