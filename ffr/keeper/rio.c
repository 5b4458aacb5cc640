/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rio.c - the device of RapidIO, which belongs to root, because a process that has it open sees all buffers of all
 * ports. The keeper opens it only if the configuration that root read before there was a router has the router use
 * RapidIO. Keeper; called by keeper.c.
 */
#include <errno.h>
#include <fcntl.h>

#include "ffr/keeper/keeper.h"

const char *rio_node = "/dev/ffrio";
static bool allowed;

void rio_node_allow(void)
{
	allowed = true;
}

int rio_node_open(void)
{
	int fd;

	if (!allowed)
		return -EPERM;
	fd = open(rio_node, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}
