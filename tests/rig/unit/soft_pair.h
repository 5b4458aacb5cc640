/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * soft_pair.h - two sessions on the software device (rig.h), each with a CQ, a QP and a buffer that is
 * an MR; the QPs are connected with each other.
 */
#ifndef SOFT_PAIR_H
#define SOFT_PAIR_H

#include "tests/rig/unit/unit.h"
#include "ffr/soft/soft.h"
#include "tests/rig/unit/rig.h"

#define PAIR_ACCESS                                                                                \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define PAIR_BUF     (1u << 20) /* bytes of a buffer */
#define PAIR_TIMEOUT (4096ull << 14)
#define PAIR_TRIES   3

struct pair {
	struct rig r;
	struct rig_ses *s[2];
	struct rig_cq *cq[2];
	struct rig_qp *qp[2];
	struct mr *mr[2];
	uint8_t *buf[2];
};

/* In containers c0 and c1 of the rig. */
void pair_up(struct pair *p, enum ibv_qp_type type, int c0, int c1);
/* pair_up() with those rights to the MRs. */
void pair_up_with(struct pair *p, enum ibv_qp_type type, int c0, int c1, uint32_t access);
/* A QP that is NULL is gone already. */
void pair_down(struct pair *p);

/* A fixture: *state is a pair of RC QPs in containers 0 and 1. */
int pair_setup(void **state);
int pair_teardown(void **state);
#define PAIR_TEST(name) cmocka_unit_test_setup_teardown(name, pair_setup, pair_teardown)

/* Address of a byte of buffer i. */
uint64_t pair_at(const struct pair *p, int i, uint64_t off);
/* Posted on QP 0, from its buffer to the other's; nothing runs yet. */
void pair_rdma(struct pair *p, uint8_t op, uint64_t id, uint64_t loff, uint64_t roff, uint32_t len);
void pair_send(struct pair *p, uint64_t id, uint32_t len);

/* Gives the other's MR a PD that is not its QP's; for tables of what can be wrong with a request e. */
void pair_spoil_pd(struct pair *p, struct ff_sqe *e);

/* The next completion of the CQ; none. */
void pair_expect(struct rig_cq *cq, uint64_t wr_id, enum ibv_wc_status st);
void pair_expect_none(struct rig_cq *cq);
/* The CQ has that WR's end with that status, of that operation if it did well. */
enum ibv_wc_status pair_status(struct rig_cq *cq, uint64_t wr_id, enum ibv_wc_opcode op);
/*
 * Nobody answers QP 0: so long that its request has failed, and it did not too early. Each try lasts one
 * to four times PAIR_TIMEOUT (IBTA 9.9.2.1.1).
 */
void pair_wait_for_tries(struct pair *p);

#endif
