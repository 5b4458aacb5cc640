/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * threads_rig.h - two fast threads, and a pair of QPs in containers of them; how a client's memory
 * answers is the test's to say.
 */
#ifndef THREADS_RIG_H
#define THREADS_RIG_H

#include "tests/rig/unit/unit.h"
#include "ffr/dir/dir.h"
#include "ffr/fast/pvm.h"
#include "tests/rig/unit/soft_pair.h"

#define MS 1000000ull

extern struct pair two_pair;

extern unsigned two_wanted;

/* A client whose memory does not answer: stalled, or in a call that ends after so many looks. */
extern const struct session *two_slow[2];

extern unsigned two_calls;
struct fast *two_thread(int i);
struct container *two_cont(int i);
int two_setup(void **state);
int two_teardown(void **state);
/* All that the pair's group has, to the other thread. */
void two_move(void);

#define TWO_TEST(fn) cmocka_unit_test_setup_teardown(fn, two_setup, two_teardown)

#endif
