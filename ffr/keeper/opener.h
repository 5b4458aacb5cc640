/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * opener.h - the files that the keeper may have open, and the process that opens them. See opener.c.
 *
 * Any thread of the keeper calls these functions. Without a keeper, the router's threads do, and these functions open
 * the files in the router. A returned descriptor is the caller's and close-on-exec.
 */
#ifndef FFR_KEEPER_OPENER_H
#define FFR_KEEPER_OPENER_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "ffr/lib/cgroup.h"

struct sandbox_conf;

enum opener_device { OPENER_FFMEM, OPENER_RIO };

/* The keeper starts the opener before its sandbox. Each of the two ends when the other one does. 0 or -errno. */
int opener_start(const struct sandbox_conf *conf);
/* Open "/proc", or a status, cgroup or mountinfo file below "/proc": a descriptor for reading, or -errno. */
int opener_proc(const char *path);
FILE *opener_proc_stream(const char *path);
/* Like cgroup_of(), but opens the file by opener_proc(). */
int opener_cgroup_of(pid_t pid, char path[CGROUP_MAX]);
/* Open the file of `handle` (O_PATH), if it is a regular file of tmpfs or hugetlbfs and not in /run, or -errno. */
int opener_shm(int handle, bool writes);
/* Open /dev/ffmem, or RapidIO's device as rio_node_open() does: a descriptor, or -errno. */
int opener_device(enum opener_device device);

#endif
