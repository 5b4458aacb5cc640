/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ff_verbs.h - numbers of the verbs that <infiniband/verbs.h> of rdma-core 44 (Debian 12) has no names for.
 *
 * Included by both sides, which are built with those headers and serve programs that were built with newer
 * ones. The numbers are the kernel's (IB_UVERBS_*, rdma/ib_user_verbs.h) and as fixed as it is: FLUSH came
 * with rdma-core 45. Where the headers have a name for one, an assertion compares.
 */
#ifndef FFR_ABI_FF_VERBS_H
#define FFR_ABI_FF_VERBS_H

#include <assert.h>
#include <infiniband/verbs.h>

/* enum ibv_wr_opcode, enum ibv_wc_opcode, enum ibv_qp_create_send_ops_flags */
#define FF_WR_FLUSH	    14
#define FF_WC_FLUSH	    8
#define FF_QP_EX_WITH_FLUSH (1u << 11)

/* enum ibv_access_flags, of MRs, windows and QPs */
#define FF_ACCESS_FLUSH_GLOBAL	   (1u << 8)
#define FF_ACCESS_FLUSH_PERSISTENT (1u << 9)
#define FF_ACCESS_FLUSH		   (FF_ACCESS_FLUSH_GLOBAL | FF_ACCESS_FLUSH_PERSISTENT)

/* enum ibv_placement_type: what is to become of what was written; bits, one at least */
#define FF_FLUSH_GLOBAL	    (1u << 0) /* everybody sees it */
#define FF_FLUSH_PERSISTENT (1u << 1) /* it outlasts a power failure */
#define FF_FLUSH_TYPES	    (FF_FLUSH_GLOBAL | FF_FLUSH_PERSISTENT)
/* enum ibv_selectivity_level: of which memory */
#define FF_FLUSH_RANGE 0u
#define FF_FLUSH_MR    1u /* all that the key stands for; address and length mean nothing */

/* enum ibv_device_cap_flags, those of device_cap_flags_ex */
#define FF_DEVICE_FLUSH_GLOBAL	   (1ull << 38)
#define FF_DEVICE_FLUSH_PERSISTENT (1ull << 39)
#define FF_DEVICE_ATOMIC_WRITE	   (1ull << 40)

/* enum ibv_odp_transport_cap_bits */
#define FF_ODP_FLUSH	    (1u << 6)
#define FF_ODP_ATOMIC_WRITE (1u << 7)

/* The right that a FLUSH of those types needs. */
static inline uint32_t ff_flush_access(uint32_t types)
{
	return types * FF_ACCESS_FLUSH_GLOBAL;
}
static_assert(FF_FLUSH_GLOBAL * FF_ACCESS_FLUSH_GLOBAL == FF_ACCESS_FLUSH_GLOBAL &&
		      FF_FLUSH_PERSISTENT * FF_ACCESS_FLUSH_GLOBAL == FF_ACCESS_FLUSH_PERSISTENT,
	      "in the same order");
static_assert(IBV_WR_ATOMIC_WRITE == 15 && IBV_WC_ATOMIC_WRITE == 9 &&
		      IBV_QP_EX_WITH_ATOMIC_WRITE == 1 << 12,
	      "the numbers beside those of FLUSH");

#endif
