/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * deep_rig.h - a fixture for what takes as long as a client likes and is therefore done in steps,
 * between which others are served: *state is a struct rig_one of the software device whose QP is
 * DEEP WRs deep, and whose CQ holds the completions of both its queues. What is counted is how much
 * one step does.
 */
#ifndef DEEP_RIG_H
#define DEEP_RIG_H

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/rig.h"

#define DEEP 2048u

int deep_setup(void **state);
int deep_teardown(void **state);
#define DEEP_TEST(name) cmocka_unit_test_setup_teardown(name, deep_setup, deep_teardown)

#endif
