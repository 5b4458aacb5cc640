/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * req_rig.h - a requester whose peer is on another host, which has no turns: frames are taken from the QP, and
 * answers are made, by hand. *state is nothing; there is one at a time.
 */
#ifndef REQ_RIG_H
#define REQ_RIG_H

#include "tests/rig/unit/two_hosts.h"

#define QP_TIMEOUT    (4096ull << 14)  /* rig_connect()'s timeout 14 */
#define ACK_TIMEOUT   (3 * QP_TIMEOUT) /* of a try */
#define RNR_FIELD     12	       /* 0.64 ms */
#define RNR_NS	      (640 * NS_PER_US)
#define LATER_NS      NS_PER_MS
#define BUSY_NS	      (10 * NS_PER_MS)
#define BUSY_PATIENCE (1000 * NS_PER_MS)
#define MAP_PATIENCE  (20 * NS_PER_MS)
#define UC_PATIENCE   (500 * NS_PER_MS)

extern struct hosts req; /* the requester is host 0's QP */
extern struct fast *req_fast;
extern struct remote_qp *req_qp;

int req_setup(void **state); /* RC, with rings of 256 entries */
int req_setup_uc(void **state);
int req_teardown(void **state);
#define REQ_TEST(name)	  cmocka_unit_test_setup_teardown(name, req_setup, req_teardown)
#define REQ_TEST_UC(name) cmocka_unit_test_setup_teardown(name, req_setup_uc, req_teardown)

/* What was posted is taken over; no frame leaves. */
void req_take(void);
/* The next frame, which has that number and those flags; there is none. */
struct frame req_next(uint32_t msn, uint8_t flags);
void req_no_next(void);
/* n WRITEs, numbered from 0, that have left. */
void req_writes_sent(uint32_t n);
/* The peer's answer. */
void req_nak(uint32_t msn, enum wire_nak code);
void req_nak_at(uint32_t msn, uint64_t offset, enum wire_nak code);
/* Time goes by for this host; only its timers run. */
void req_later(uint64_t ns);
void req_in_phase(enum remote_phase want);
/* WRs first to last have ended well, and no other. */
void req_done(uint64_t first, uint64_t last);
/* The first ended so, those behind it were flushed. */
void req_failed(uint64_t first, uint64_t last, enum ibv_wc_status st);

#endif
