/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* cqe.h - what a test expects of a CQE. Inline; no state. */
#ifndef TEST_CQE_H
#define TEST_CQE_H

#include "tests/rig/unit/unit.h"
#include "ffr/abi/ff_ring.h"

/* One was polled, and it is that WR's, with that status. */
static inline void cqe_is(bool polled, const struct ff_cqe *c, uint64_t wr_id,
			  enum ibv_wc_status st)
{
	assert_true(polled);
	assert_int_equal(c->wr_id, wr_id);
	assert_int_equal(c->status, st);
}

#endif
