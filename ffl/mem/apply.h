/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * apply.h - pages of an MR are made ready for the router, by a plan. See apply.c. [region lock]
 */
#ifndef FFL_MEM_APPLY_H
#define FFL_MEM_APPLY_H

#include "ffl/mem/plan.h"
#include "ffl/mem/region.h"

/*
 * Make [addr, addr + len) ready, with these IBV_ACCESS_*, and describe what the router has a pointer to in
 * run[FF_MR_MAX_RUNS]. The number of runs; what they leave out is reached through /proc. -EFAULT: there is a
 * hole, or a mapping that lacks the right to be read, or to be written where the access wants that. Of
 * on-demand memory a hole is no error. *why: the reason of most bytes that get no run, UNUSED if all
 * do; *unused: bytes of whole pages that get none, but might be replaced later.
 */
int ffl_apply_mr(struct ffl_context *ctx, uintptr_t addr, size_t len, int access,
		 enum ffl_when when, enum ff_why *why, uint64_t *unused, struct ff_mr_run *run);
/*
 * The same for the whole pages [from, to) of a lazy MR, which has no run for them yet, and at most so many
 * runs. Shared memory that is not this context's gets no run. Sets lazy->why.
 */
int ffl_apply_part(struct ffl_lazy *lazy, uintptr_t from, uintptr_t to, struct ff_mr_run *run,
		   unsigned max);

/* Append a run to the first *num, which it may continue. */
void ffl_apply_append(struct ff_mr_run *run, unsigned *num, const struct ff_mr_run *r);

#endif
