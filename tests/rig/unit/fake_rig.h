/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fake_rig.h - a fixture: *state is a struct rig_one of the fake backend (fake_backend.h), whose QP is in RTS
 * and watched.
 */
#ifndef FAKE_RIG_H
#define FAKE_RIG_H

#include "tests/rig/unit/unit.h"
#include "tests/rig/fakes/fake_backend.h"
#include "tests/rig/unit/rig.h"

int fake_rig_setup(void **state);
int fake_rig_teardown(void **state);
#define FAKE_TEST(name) cmocka_unit_test_setup_teardown(name, fake_rig_setup, fake_rig_teardown)

#endif
