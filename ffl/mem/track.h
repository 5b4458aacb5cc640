/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * track.h - memory that the router copies through the process, and knows where it is. See track.c.
 * [region lock]
 */
#ifndef FFL_MEM_TRACK_H
#define FFL_MEM_TRACK_H

#include "ffl/mem/region.h"

/* The session's MRs can be tracked from now on. 0 or -errno. */
int ffl_track_start(struct ffl_context *ctx);
/* The MR's pages are tracked, which is in no list yet, but known to the router. */
void ffl_track_add(const struct ffl_lazy *l);
/* The MR that had these pages of the context has gone. Makes no system call. */
void ffl_track_leave(struct ffl_context *ctx, uintptr_t from, uintptr_t to);
/* What of the context's memory no MR had for some time is ordinary memory again. `lazies` are all MRs. */
void ffl_track_sweep(const struct ffl_context *ctx, const struct ffl_lazy *lazies);
/* The context ends, and with it the userfaultfd; NULL: in a child, all do. */
void ffl_track_forget(const struct ffl_context *ctx);
/* A number that is another one when memory has been unregistered since. */
uint32_t ffl_track_closed(void);
/*
 * [from, to) is not copied any more, nor tracked, and can be replaced. A userfaultfd for
 * ffl_track_open(), which the caller closes afterwards; or -errno.
 */
int ffl_track_close(struct ffl_context *ctx, uintptr_t from, uintptr_t to);
/* [from, to) is not tracked any more, and is copied all the same. False: that cannot be done. */
bool ffl_track_release(struct ffl_context *ctx, uintptr_t from, uintptr_t to);
/* No lock. Has any memory of this process been tracked? */
bool ffl_track_any(void);
/* What of it was not replaced is tracked again, and copied. */
void ffl_track_open(struct ffl_context *ctx, uintptr_t from, uintptr_t to, int uffd);

/* The pages that an MR has bytes of. */
static inline uintptr_t ffl_lazy_from(const struct ffl_lazy *l)
{
	return PAGE_DOWN((uintptr_t)l->mr->ibv.addr);
}
static inline uintptr_t ffl_lazy_to(const struct ffl_lazy *l)
{
	return PAGE_UP((uintptr_t)l->mr->ibv.addr + l->mr->ibv.length);
}

#endif
