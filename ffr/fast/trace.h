/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * trace.h - the last operations of a QP, for `ffctl trace`.
 *
 * A ring for each QP of a container, there only while somebody traces the container (a lease that
 * each reading renews, admin/trace.c). Without one it costs a comparison for each operation.
 */
#ifndef FFR_FAST_TRACE_H
#define FFR_FAST_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "ffr/obj/objects.h"

#define TRACE_DEPTH 128u

/* Times: ns of CLOCK_MONOTONIC; 0: not known, of a receive or of what was flushed. */
struct trace_entry {
	uint64_t seq;	  /* fast->trace_seq: completions in their order, of all QPs */
	uint64_t fetched; /* begin of the turn that took it out of the ring */
	uint64_t started; /* when those before it in the same turn were done */
	uint64_t done;	  /* before its completion is written */
	uint64_t wr_id, length;
	uint32_t peer; /* QP number */
	uint8_t opcode, status;
	bool recv;
};

struct trace {
	uint32_t n;	    /* entries written since it was made */
	uint64_t last_done; /* of a request */
	struct trace_entry entry[TRACE_DEPTH];
};

/* [lock] */
void trace_send(struct fast *f, struct qp *qp, const struct send_wr *wr, uint8_t status);
void trace_recv(struct fast *f, struct qp *qp, uint64_t wr_id, uint8_t status, uint32_t length,
		uint32_t peer);

/*
 * Control thread, takes the lock. Rings for the QPs that the container has and will have, or only the
 * one with that number (0: all). 1: there were none before, 0: there were, or -ENOMEM, with no ring
 * left. A QP for which there is no memory later is not traced.
 */
int trace_on(struct fast_host *h, struct container *c, uint32_t qp_num);
void trace_off(struct fast_host *h, struct container *c);
void trace_qp_new(struct qp *qp); /* [lock] it has a number */
/* Copies what the ring has, oldest first; the number of entries. */
uint32_t trace_copy(struct fast_host *h, const struct qp *qp, struct trace_entry out[TRACE_DEPTH]);

#endif
