/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* qp_attr.h - the attributes that tests give a QP of the protocol. An inline; no state. */
#ifndef TEST_QP_ATTR_H
#define TEST_QP_ATTR_H

#include <infiniband/verbs.h>

#include "ffr/abi/ff_proto.h"

/* Values of all that a transition may need, but the GID, the rights and the Q_Key. */
static inline struct ff_qp_attr qp_attr_usual(enum ibv_qp_state state, uint32_t dest_qp_num)
{
	return (struct ff_qp_attr){
		.qp_state = (uint8_t)state,
		.dest_qp_num = dest_qp_num,
		.path_mtu = IBV_MTU_1024,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.port_num = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah = { .is_global = 1, .port_num = 1, .hop_limit = 1 },
	};
}

#endif
