/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * limits.h - what a session may have at most, as ffr.conf says, and how much device memory a container. What a
 * container may have of all else is bounded by its quotas (obj/quota.h).
 */
#ifndef FFR_CTL_LIMITS_H
#define FFR_CTL_LIMITS_H

#include <stdint.h>

#include "ffr/abi/ff_proto.h"
#include "ffr/abi/ff_ring.h"

#define CONF_HANDLES_MAX 65535 /* a handle's index has 16 bits */

/* X(name, default, max): bounds of a container (dm) or of a session (the others) */
#define FFR_LIMITS(X)                                                                              \
	X(max_pd, 4096, CONF_HANDLES_MAX)                                                          \
	X(max_mr, 65535, CONF_HANDLES_MAX)                                                         \
	X(max_channel, 1024, CONF_HANDLES_MAX)                                                     \
	X(max_cq, 16384, CONF_HANDLES_MAX)                                                         \
	X(max_srq, 4096, CONF_HANDLES_MAX)                                                         \
	X(max_qp, 16384, FF_MAX_QP)                                                                \
	X(max_ah, 65535, CONF_HANDLES_MAX)                                                         \
	X(max_cm_id, FF_CM_MAX_IDS, CONF_HANDLES_MAX)                                              \
	X(max_mw, 65535, CONF_HANDLES_MAX)                                                         \
	X(max_dm_mb, 8, 2048)                                                                      \
	X(max_ring_mb, 4096, 1 << 20)                                                              \
	X(max_shadow_mb, 16384, 1 << 30)

struct ffr_limits {
#define X(name, def, max) uint32_t name;
	FFR_LIMITS(X)
#undef X
};

#endif
