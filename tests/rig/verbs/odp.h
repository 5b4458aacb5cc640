/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * odp.h - two halves (halves.h) of which the client reaches for the server's on-demand memory.
 */
#ifndef ODP_H
#define ODP_H

#include "tests/rig/verbs/halves.h"

#define ODP_PAGE   4096u
#define ODP_MB	   (1024u * 1024u)
#define ODP_ACCESS (VT_ACCESS_ALL | IBV_ACCESS_ON_DEMAND)

/* The peer's memory that the client reaches for. */
struct odp_target {
	uint64_t addr;
	uint32_t rkey, pad;
};
extern struct odp_target odp_target;

/* Empty private memory, at that address if it is not NULL. */
void *odp_map(void *at, size_t len);

/* The server's end, with that memory registered and told of. */
struct ibv_mr *odp_serve(struct vt_end *e, void *p, size_t len, int access);
/* The client's, whose own buffer of 3 MB is on-demand memory, too. */
void odp_reach(struct vt_end *e);
/* Both meet and close; mr may be NULL. */
void odp_close_served(struct vt_end *e, struct ibv_mr *mr);
void odp_close_reach(struct vt_end *e);

/* [off, + len) of the client's buffer to or from `at` bytes into the target. */
enum ibv_wc_status odp_transfer(struct vt_end *e, enum ibv_wr_opcode op, size_t off, size_t len,
				uint64_t at);
/* A pattern to there; what is there to the buffer: they succeed. */
void odp_put(struct vt_end *e, size_t len, uint64_t at, uint32_t seed);
void odp_get(struct vt_end *e, size_t len, uint64_t at);

#endif
