/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/rio_rig.c tests/rig/unit/two_hosts.c tests/rig/fakes/fake_rio.c tests/rig/unit/others.c tests/rig/unit/rig.c */
/*
 * test_remote.c - what ffr/remote/'s test of this name asks of two hosts, over RapidIO.
 */
#include "tests/rig/unit/rio_rig.h"

__attribute__((constructor)) static void by_rio(void)
{
	rio_rig_set();
}

#include "tests/unit/remote/test_remote.c"
