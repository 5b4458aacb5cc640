/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * qp_state.h - which modifications of a QP are allowed. Pure functions, any thread.
 */
#ifndef FFR_OBJ_QP_STATE_H
#define FFR_OBJ_QP_STATE_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "ffr/abi/ff_proto.h"

struct qp_limits {
	uint8_t num_ports, num_gids;
	uint8_t max_rd_atomic;	    /* READs and atomics that a QP may start at a time */
	uint8_t max_dest_rd_atomic; /* READs and atomics that a QP may serve at a time */
};

/* Without the attributes of the other half of an XRC connection, which programs give as well. */
uint32_t qp_attr_mask(enum ibv_qp_type type, uint32_t mask);

/*
 * May a QP of that type go from `cur` to *next with the attributes `a` that `mask` (IBV_QP_*)
 * names? Without IBV_QP_STATE *next is `cur`.
 * 0; -EINVAL: no such transition, attribute missing, not allowed there or out of range;
 * -EOPNOTSUPP: what this device does not have (alternate paths).
 */
int qp_state_check(enum ibv_qp_type type, enum ibv_qp_state cur, uint32_t mask,
		   const struct ff_qp_attr *a, const struct qp_limits *lim,
		   enum ibv_qp_state *next);

/* Copy the attributes that mask names; the state is the caller's. Cuts PSNs to 24 bits. */
void qp_attr_store(struct ff_qp_attr *to, uint32_t mask, const struct ff_qp_attr *from);

/* An address vector: a port, and a GID or a LID that can be one of a peer. 0 or -EINVAL. */
int ah_attr_check(const struct ff_ah_attr *ah, const struct qp_limits *lim);

#endif
