/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/unit/lib/rio_rig.c tests/unit/lib/two_hosts.c tests/lib/rio_fake.c tests/lib/others.c tests/lib/rig.c */
/*
 * test_remote.c - what ffr/soft/'s test of this name asks of two hosts, over RapidIO.
 */
#include "tests/unit/lib/rio_rig.h"

__attribute__((constructor)) static void by_rio(void)
{
	rio_rig_set();
}

#include "tests/unit/soft/test_remote.c"
