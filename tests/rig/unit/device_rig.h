/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * device_rig.h - the library's device against a router on a socket (fake_router.h), for tests of its control
 * side. Memory and queues are not in it.
 */
#ifndef DEVICE_RIG_H
#define DEVICE_RIG_H

#include "tests/rig/unit/unit.h"
#include "ffl/session/ffl.h"
#include "tests/rig/fakes/fake_router.h"

extern struct router device_router;
extern struct ibv_context *device_ctx;

int device_setup_router(void **state);
int device_teardown_router(void **state);
/* A router runs, and the device is open. */
int device_setup(void **state);
int device_teardown(void **state);
#define DEVICE_ROUTER_TEST(f)                                                                      \
	cmocka_unit_test_setup_teardown(f, device_setup_router, device_teardown_router)
#define DEVICE_TEST(f) cmocka_unit_test_setup_teardown(f, device_setup, device_teardown)

/* What ffl_mr_context_init() returns. */
extern int device_mr_ret;
/* The router's GIDs 0 and 2. */
void device_set_gids(void);
/* The one address that is on an interface of this process (17); the first interface is 5. */
extern uint8_t device_addr[16];
/* Calls of ffl_posted_wait(), and what the last one named. */
extern struct device_left {
	unsigned int calls;
	struct ffl_going what;
} device_left;

#endif
