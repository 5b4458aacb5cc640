/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * qp_state.c - the QP state machine as modify_qp sees it. Pure functions, any thread.
 *
 * IBTA specification volume 1, sections 10.3.1 and 11.2.5.2 (table of required and optional
 * attributes), as the Linux kernel's core applies it to every device. Transitions that the device
 * makes by itself (to SQE, to ERR) are fast/qp.c's.
 */
#include "ffr/obj/qp_state.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "ffr/abi/ff_verbs.h"
#include "ffr/obj/gid.h"

#define NUM_STATES (IBV_QPS_ERR + 1)

enum { TYPE_RC, TYPE_UC, TYPE_UD, TYPE_XRC_SEND, TYPE_XRC_RECV, NUM_TYPES };
static_assert(IBV_QPS_RESET == 0 && IBV_QPS_ERR == 6, "qp_state_table");

#define INIT_CONN (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define INIT_UD	  (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)
#define RTR_UC	  (IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define RTR_RC	  (RTR_UC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTR_OPT	  (IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX)
#define RTS_RC	  (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)
#define RTS_OPT_UC                                                                                 \
	(IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE)
#define RTS_OPT_RC (RTS_OPT_UC | IBV_QP_MIN_RNR_TIMER)
#define RTS_OPT_UD (IBV_QP_CUR_STATE | IBV_QP_QKEY)
#define SQD_OPT_UC                                                                                 \
	(IBV_QP_AV | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |                   \
	 IBV_QP_PATH_MIG_STATE)
#define SQD_OPT_RC                                                                                 \
	(SQD_OPT_UC | RTS_RC | IBV_QP_PORT | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define SQD_OPT_XRC_SEND (SQD_OPT_UC | RTS_RC | IBV_QP_PORT)
#define SQD_OPT_XRC_RECV                                                                           \
	(SQD_OPT_UC | IBV_QP_PORT | IBV_QP_TIMEOUT | IBV_QP_MAX_DEST_RD_ATOMIC |                   \
	 IBV_QP_MIN_RNR_TIMER)
#define NOTIFY IBV_QP_EN_SQD_ASYNC_NOTIFY

struct transition {
	bool valid;
	uint32_t req[NUM_TYPES], opt[NUM_TYPES]; /* IBV_QP_* */
};

static const struct transition qp_state_table[NUM_STATES][NUM_STATES] = {
	[IBV_QPS_RESET] = {
		[IBV_QPS_RESET] = { .valid = true },
		[IBV_QPS_INIT] = { true, .req = { INIT_CONN, INIT_CONN, INIT_UD, INIT_CONN,
						  INIT_CONN } },
	},
	[IBV_QPS_INIT] = {
		[IBV_QPS_RESET] = { .valid = true },
		[IBV_QPS_ERR] = { .valid = true },
		[IBV_QPS_INIT] = { true, .opt = { INIT_CONN, INIT_CONN, INIT_UD, INIT_CONN,
						  INIT_CONN } },
		[IBV_QPS_RTR] = { true, .req = { RTR_RC, RTR_UC, 0, RTR_UC, RTR_RC },
				  .opt = { RTR_OPT, RTR_OPT, IBV_QP_PKEY_INDEX | IBV_QP_QKEY,
					   RTR_OPT, RTR_OPT } },
	},
	[IBV_QPS_RTR] = {
		[IBV_QPS_RESET] = { .valid = true },
		[IBV_QPS_ERR] = { .valid = true },
		[IBV_QPS_RTS] = { true,
				  .req = { RTS_RC | IBV_QP_SQ_PSN, IBV_QP_SQ_PSN, IBV_QP_SQ_PSN,
					   RTS_RC | IBV_QP_SQ_PSN,
					   IBV_QP_TIMEOUT | IBV_QP_SQ_PSN },
				  .opt = { RTS_OPT_RC, RTS_OPT_UC, RTS_OPT_UD, RTS_OPT_UC,
					   RTS_OPT_RC } },
	},
	[IBV_QPS_RTS] = {
		[IBV_QPS_RESET] = { .valid = true },
		[IBV_QPS_ERR] = { .valid = true },
		[IBV_QPS_RTS] = { true, .opt = { RTS_OPT_RC, RTS_OPT_UC, RTS_OPT_UD, RTS_OPT_UC,
						 RTS_OPT_RC } },
		[IBV_QPS_SQD] = { true, .opt = { NOTIFY, NOTIFY, NOTIFY, NOTIFY, NOTIFY } },
	},
	[IBV_QPS_SQD] = {
		[IBV_QPS_RESET] = { .valid = true },
		[IBV_QPS_ERR] = { .valid = true },
		[IBV_QPS_RTS] = { true, .opt = { RTS_OPT_RC, RTS_OPT_UC, RTS_OPT_UD, RTS_OPT_UC,
						 RTS_OPT_RC } },
		[IBV_QPS_SQD] = { true, .opt = { SQD_OPT_RC, SQD_OPT_UC,
						 IBV_QP_PKEY_INDEX | IBV_QP_QKEY, SQD_OPT_XRC_SEND,
						 SQD_OPT_XRC_RECV } },
	},
	[IBV_QPS_SQE] = {
		[IBV_QPS_RESET] = { .valid = true },
		[IBV_QPS_ERR] = { .valid = true },
		[IBV_QPS_RTS] = { true, .opt = { 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS,
						 RTS_OPT_UD } },
	},
	[IBV_QPS_ERR] = {
		[IBV_QPS_RESET] = { .valid = true },
		[IBV_QPS_ERR] = { .valid = true },
	},
};

static int type_index(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
		return TYPE_RC;
	case IBV_QPT_UC:
		return TYPE_UC;
	case IBV_QPT_UD:
		return TYPE_UD;
	case IBV_QPT_XRC_SEND:
		return TYPE_XRC_SEND;
	case IBV_QPT_XRC_RECV:
		return TYPE_XRC_RECV;
	default:
		return -1;
	}
}

static bool transition_ok(enum ibv_qp_type type, enum ibv_qp_state cur, enum ibv_qp_state next,
			  uint32_t mask)
{
	int t = type_index(type);
	const struct transition *tr;

	if (t < 0 || (unsigned)cur >= NUM_STATES || (unsigned)next >= NUM_STATES)
		return false;
	tr = &qp_state_table[cur][next];
	return tr->valid && (mask & tr->req[t]) == tr->req[t] &&
	       !(mask & ~(tr->req[t] | tr->opt[t] | IBV_QP_STATE));
}

uint32_t qp_attr_mask(enum ibv_qp_type type, uint32_t mask)
{
	switch (type) {
	case IBV_QPT_XRC_SEND:
		return mask & ~(uint32_t)(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	case IBV_QPT_XRC_RECV:
		return mask &
		       ~(uint32_t)(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
	default:
		return mask;
	}
}

int ah_attr_check(const struct ff_ah_attr *ah, const struct qp_limits *lim)
{
	static const uint8_t none[16];

	if (!ah->port_num || ah->port_num > lim->num_ports)
		return -EINVAL;
	if (ah->is_global)
		return ah->sgid_index < lim->num_gids && memcmp(ah->dgid, none, sizeof(none)) ?
			       0 :
			       -EINVAL;
	return ah->dlid && ah->dlid < LID_MULTICAST ? 0 : -EINVAL;
}

#define ACCESS_KNOWN                                                                               \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |                   \
	 IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | FF_ACCESS_FLUSH |                             \
	 IBV_ACCESS_RELAXED_ORDERING)
#define QPN_MAX 0xffffffu
#define PSN_MAX 0xffffffu

static int attr_check(uint32_t mask, const struct ff_qp_attr *a, const struct qp_limits *lim)
{
	const struct {
		uint32_t bit;
		uint32_t value, min, max;
	} range[] = {
		{ IBV_QP_ACCESS_FLAGS, a->qp_access_flags & ~ACCESS_KNOWN, 0, 0 },
		{ IBV_QP_PKEY_INDEX, a->pkey_index, 0, 0 },
		{ IBV_QP_PORT, a->port_num, 1, lim->num_ports },
		{ IBV_QP_PATH_MTU, a->path_mtu, IBV_MTU_256, IBV_MTU_4096 },
		{ IBV_QP_TIMEOUT, a->timeout, 0, 31 },
		{ IBV_QP_RETRY_CNT, a->retry_cnt, 0, 7 },
		{ IBV_QP_RNR_RETRY, a->rnr_retry, 0, 7 },
		{ IBV_QP_MIN_RNR_TIMER, a->min_rnr_timer, 0, 31 },
		{ IBV_QP_MAX_QP_RD_ATOMIC, a->max_rd_atomic, 0, lim->max_rd_atomic },
		{ IBV_QP_MAX_DEST_RD_ATOMIC, a->max_dest_rd_atomic, 0, lim->max_dest_rd_atomic },
		{ IBV_QP_DEST_QPN, a->dest_qp_num, 0, QPN_MAX },
	};

	for (unsigned i = 0; i < sizeof(range) / sizeof(range[0]); i++)
		if (mask & range[i].bit &&
		    (range[i].value < range[i].min || range[i].value > range[i].max))
			return -EINVAL;
	if (mask & IBV_QP_AV && ah_attr_check(&a->ah, lim))
		return -EINVAL;
	/* Automatic path migration: an optional feature that the device does not claim. */
	if (mask & IBV_QP_ALT_PATH)
		return -EOPNOTSUPP;
	if (mask & IBV_QP_PATH_MIG_STATE && a->path_mig_state != IBV_MIG_MIGRATED)
		return -EOPNOTSUPP;
	return 0;
}

int qp_state_check(enum ibv_qp_type type, enum ibv_qp_state cur, uint32_t mask,
		   const struct ff_qp_attr *a, const struct qp_limits *lim, enum ibv_qp_state *next)
{
	*next = mask & IBV_QP_STATE ? (enum ibv_qp_state)a->qp_state : cur;
	/* What the application believes must be so: an error may have changed it meanwhile. */
	if (mask & IBV_QP_CUR_STATE && a->cur_qp_state != cur)
		return -EINVAL;
	if (!transition_ok(type, cur, *next, mask))
		return -EINVAL;
	return attr_check(mask, a, lim);
}

void qp_attr_store(struct ff_qp_attr *to, uint32_t mask, const struct ff_qp_attr *from)
{
#define STORE(bit, field)                                                                          \
	do {                                                                                       \
		if (mask & (bit))                                                                  \
			to->field = from->field;                                                   \
	} while (0)
	STORE(IBV_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
	STORE(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	STORE(IBV_QP_PKEY_INDEX, pkey_index);
	STORE(IBV_QP_PORT, port_num);
	STORE(IBV_QP_QKEY, qkey);
	STORE(IBV_QP_AV, ah);
	STORE(IBV_QP_PATH_MTU, path_mtu);
	STORE(IBV_QP_TIMEOUT, timeout);
	STORE(IBV_QP_RETRY_CNT, retry_cnt);
	STORE(IBV_QP_RNR_RETRY, rnr_retry);
	STORE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	STORE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	STORE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	STORE(IBV_QP_PATH_MIG_STATE, path_mig_state);
	STORE(IBV_QP_DEST_QPN, dest_qp_num);
#undef STORE
	if (mask & IBV_QP_RQ_PSN)
		to->rq_psn = from->rq_psn & PSN_MAX;
	if (mask & IBV_QP_SQ_PSN)
		to->sq_psn = from->sq_psn & PSN_MAX;
}
