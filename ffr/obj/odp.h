/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * odp.h - what is counted of an MR with on-demand paging. [lock]
 *
 * The router has no translation of such an MR that could be stale: each access is a copy through the process
 * (fast/pvm.c), in which the kernel finds the page, or has it come: zeroed, from swap, from a file, as a copy of one
 * that is shared since a fork. The last is a fault, and the kernel counts those for the thread that makes the copy, so
 * that their number is exact; their time is that of the copies in which there were some.
 *
 * A copy that is under way may outlive the MR, so that both hold the struct.
 */
#ifndef FFR_OBJ_ODP_H
#define FFR_OBJ_ODP_H

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "ffr/obj/stats.h"

/* One list for an MR's counters; the sums of a session's MRs have the same names in struct ff_stats. X(name) */
#define FF_ODP_STATS(X)                                                                            \
	X(odp_faults)                                                                              \
	X(odp_fault_ns)                                                                            \
	X(odp_invalidations)                                                                       \
	X(odp_prefetched)                                                                          \
	X(odp_prefetch_ns)

struct odp {
	_Atomic uint32_t refs; /* the MR, and copies that are under way */
	uint32_t mr;	       /* its handle, for struct ff_leaving */
#define X(name) uint64_t name;
	FF_ODP_STATS(X)
#undef X
};

static inline struct odp *odp_new(void)
{
	struct odp *o = calloc(1, sizeof(*o));

	if (o)
		atomic_init(&o->refs, 1);
	return o;
}

static inline void odp_hold(struct odp *o)
{
	atomic_fetch_add(&o->refs, 1);
}

/* Any thread. NULL: does nothing. */
static inline void odp_put(struct odp *o)
{
	if (o && atomic_fetch_sub(&o->refs, 1) == 1)
		free(o);
}

/* So many pages came in a copy that took so long. `st` is the session's, NULL: it is gone. */
static inline void odp_faulted(struct odp *o, struct ff_stats *st, uint32_t pages, uint64_t ns)
{
	o->odp_faults += pages;
	o->odp_fault_ns += ns;
	if (st) {
		st->odp_faults += pages;
		st->odp_fault_ns += ns;
	}
}

/* The client has had so many pages come before they were used. */
static inline void odp_prefetched(struct odp *o, struct ff_stats *st, uint32_t pages, uint64_t ns)
{
	o->odp_prefetched += pages;
	o->odp_prefetch_ns += ns;
	st->odp_prefetched += pages;
	st->odp_prefetch_ns += ns;
}

/*
 * A copy of it begins: they are counted where the client sees it. False: the client has deregistered the MR meanwhile,
 * and nothing begins.
 */
static inline bool odp_begin(struct ff_leaving *l, const struct odp *o)
{
	/* the count before the look: pairs with the client's fence between its handle and its look at the count */
	atomic_fetch_add(&l->busy, 1);
	if (!ff_is_leaving(l, o->mr))
		return true;
	atomic_fetch_sub(&l->busy, 1);
	return false;
}

static inline void odp_end(struct ff_leaving *l)
{
	atomic_fetch_sub(&l->busy, 1);
}

#endif
