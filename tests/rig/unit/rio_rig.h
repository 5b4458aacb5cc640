/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rio_rig.h - two hosts (two_hosts.h) with RapidIO, host i on port i of fake_rio.h's device. hosts_up() leaves them with
 * their frames on RapidIO.
 */
#ifndef RIO_RIG_H
#define RIO_RIG_H

#include "tests/rig/fakes/fake_rio.h"
#include "tests/rig/unit/two_hosts.h"

/* Before each hosts_up(). */
void rio_rig_set(void);
/* What hosts_down() left of the device's: nothing. */
void rio_rig_check(void);
struct rio_link *rio_rig_link(struct hosts *t, int host);

#endif
