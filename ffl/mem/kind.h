/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * kind.h - which of the program's pages can be replaced by shadow pages, and in which way. See kind.c.
 */
#ifndef FFL_MEM_KIND_H
#define FFL_MEM_KIND_H

#include <stdbool.h>
#include <stdint.h>

#include "ffr/abi/ff_proto.h"
#include "ffr/abi/ff_vma.h"
#include "ffl/session/ffl.h"

/* The largest inaccessible mapping that counts as the guard of a thread's stack, bytes. */
#define FFL_GUARD_MAX ((uint64_t)1 << 20)

enum ffl_way {
	FFL_WAY_NONE,	/* they stay */
	FFL_WAY_WINDOW, /* ffl_window_in() */
	FFL_WAY_FILE,	/* ffl_window_file_in(), beside other threads */
	FFL_WAY_ALONE,	/* ffl_window_file_in(), while there are no other threads */
};

/* A context begins: no lock. */
void ffl_kind_init(struct ffl_context *ctx);

/*
 * [region lock] Of pages [va, end) of mapping v. `whole`: they may have bytes that are no MR's, or that may only be
 * read, or be of a file. maps is an open /proc/self/maps. FFL_WAY_NONE: *why not.
 */
enum ffl_way ffl_way_of(const struct ff_vma *v, uintptr_t va, uintptr_t end, bool whole, int maps,
			enum ff_why *why);

/* May this thread touch [va, end) in a window? */
bool ffl_is_own(uintptr_t va, uintptr_t end);

#endif
