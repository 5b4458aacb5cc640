/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * kind.h - what private memory is used for, as far as it matters for replacing its pages. See kind.c.
 */
#ifndef FFL_MEM_KIND_H
#define FFL_MEM_KIND_H

#include <stdbool.h>
#include <stdint.h>

#include "ffl/mem/plan.h"
#include "ffl/session/ffl.h"

/* The largest inaccessible mapping that counts as the guard of a thread's stack, bytes. */
#define FFL_GUARD_MAX ((uint64_t)1 << 20)

/* A context begins: no lock. */
void ffl_kind_init(struct ffl_context *ctx);

/*
 * [region lock] Of pages [va, end) of private mapping v, whose rights allow to replace them. `whole`: they may have
 * bytes that are no MR's. maps is an open /proc/self/maps.
 */
enum ffl_use ffl_kind_of(const struct ff_vma *v, uintptr_t va, uintptr_t end, bool whole, int maps);

/* May this thread touch [va, end) in a window? */
bool ffl_is_own(uintptr_t va, uintptr_t end);

#endif
