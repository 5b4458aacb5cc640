/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * opener.h - the files that the keeper may have open, and the process that opens them. See opener.c.
 *
 * Any thread of the keeper; of the router where there is no keeper: then it opens them itself. A descriptor is the
 * caller's and close-on-exec.
 */
#ifndef FFR_KEEPER_OPENER_H
#define FFR_KEEPER_OPENER_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "ffr/lib/cgroup.h"

struct sandbox_conf;

enum opener_device { OPENER_FFMEM, OPENER_RIO };

/* Of the keeper, before its sandbox: start the process. It ends with the keeper, and the keeper with it. 0 or -errno. */
int opener_start(const struct sandbox_conf *conf);
/* "/proc", or a status, cgroup or mountinfo below it: a descriptor for reading, or -errno. */
int opener_proc(const char *path);
FILE *opener_proc_stream(const char *path);
/* cgroup_of(), by opener_proc(). */
int opener_cgroup_of(pid_t pid, char path[CGROUP_MAX]);
/* The file that `handle` (O_PATH) stands for, if it is a regular one of tmpfs or hugetlbfs and not in /run, or -errno. */
int opener_shm(int handle, bool writes);
/* /dev/ffmem, or what rio_node_open() opens; or -errno. */
int opener_device(enum opener_device device);

#endif
