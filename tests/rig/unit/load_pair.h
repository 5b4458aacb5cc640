/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * load_pair.h - a soft_pair whose sender, or senders of two containers, never run dry: what limits and
 * turns leave of that is measured in virtual time.
 */
#ifndef LOAD_PAIR_H
#define LOAD_PAIR_H

#include "tests/rig/unit/soft_pair.h"

#define LOAD_SEC 1000000000ull /* ns */

extern struct pair load_pair;

int load_setup(void **state);
int load_teardown(void **state);
#define LOAD_TEST(name) cmocka_unit_test_setup_teardown(name, load_setup, load_teardown)

/* A sender that keeps its SQ full; if `pause`, it looks at it only once in that time. */
struct load {
	struct rig_qp *qp;
	struct rig_cq *cq;
	const struct mr *from, *to;
	uint8_t op;
	uint32_t len;
	uint64_t posted, completed;
	uint64_t pause, looks; /* ns */
};

/* From QP 0 of the pair to the other one. */
struct load load_of(uint8_t op, uint32_t len);
void load_keep_full(struct load *l);
/* For so long; time goes on only while nobody has work, as if work took none. */
void load_run(struct load *l, int num, uint64_t ns);
/* Bytes that were moved, also of messages that are not complete. */
uint64_t load_moved(const struct load *l);
void load_near(uint64_t value, uint64_t want, unsigned permille);

/* Loads of containers 0 and 2, to container 1. */
struct load_two {
	struct rig_ses *s;
	struct rig_cq *cq;
	struct rig_qp *qp, *to;
	struct mr *mr;
	uint8_t *buf;
	struct load ld[2];
};

void load_two_up(struct load_two *t, uint32_t len0, uint32_t len2);
void load_two_down(struct load_two *t);
/* So many turns of the runner, both loads at hand for each. */
void load_turns(struct load_two *t, int n);

#endif
