/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mr_counts.h - as how many MRs an MR counts. Control thread; used by quota.c and by ctl/mr.c, which changes the runs
 * of MRs.
 *
 * A client chooses how many runs an MR has, and the router keeps each of them on its heap. So many runs are as large
 * as an MR without any.
 */
#ifndef FFR_OBJ_MR_COUNTS_H
#define FFR_OBJ_MR_COUNTS_H

#include <assert.h>

#include "ffr/obj/objects.h"

#define RUNS_OF_AN_MR 8u

static_assert(RUNS_OF_AN_MR * sizeof(struct mr_run) <= 320, "what quota.c charges for an MR");

static inline uint64_t mr_counts(const struct mr *mr)
{
	return 1 + mr->num_runs / RUNS_OF_AN_MR;
}

#endif
