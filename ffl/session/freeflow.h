/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * freeflow.h - what freeflow's libibverbs.so.1 has beyond the verbs, for programs. It is /usr/include/freeflow.h.
 */
#ifndef FREEFLOW_H
#define FREEFLOW_H

#include <infiniband/verbs.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * resource_type that the allocators of a parent domain are called with: what the memory is for.
 * It is the library's own part of the queue; rings are memory of the router.
 */
enum ffl_res { FFL_RES_QP = 1, FFL_RES_CQ, FFL_RES_SRQ };

/*
 * Memory that the router shares from the start: registering it in any MR of the PD's context
 * replaces and copies no pages, whatever its alignment. Aligned to 64 bytes, from 32 KB on to a
 * page; not zeroed. NULL and errno when there is none. Ends with the context at the latest. A
 * child made by fork() has a private copy, which it cannot free.
 */
void *ibv_malloc(struct ibv_pd *pd, size_t size);
/* NULL is allowed. MRs that are still registered on it keep the memory until they go. */
void ibv_free(void *p);

#ifdef __cplusplus
}
#endif

#endif
