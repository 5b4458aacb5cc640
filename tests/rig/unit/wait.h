/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* wait.h - waiting for what another thread or process does, without an event loop. */
#ifndef TEST_WAIT_H
#define TEST_WAIT_H

#include <sched.h>
#include <time.h>

#include "tests/rig/unit/unit.h"

/* The test fails if cond is not true within 20 s, times FF_SLOW. */
#define WAIT_FOR(cond)                                                                             \
	do {                                                                                       \
		time_t give_up_ = time(NULL) + 20 * (time_t)unit_slow();                           \
		while (!(cond)) {                                                                  \
			if (time(NULL) > give_up_)                                                 \
				fail_msg("never: %s", #cond);                                      \
			sched_yield();                                                             \
		}                                                                                  \
	} while (0)

#endif
