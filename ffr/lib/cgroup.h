/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * cgroup.h - in which cgroup a process is, as /proc/PID/cgroup says. Any thread; the keeper looks at
 * clients, ffctl at the process that it is given.
 *
 * Where there are several hierarchies (cgroup v1, or both), a process is in a cgroup of each, and a
 * container's engine does not put it into all. Taken is the one that engines use: that of the pids
 * controller; if that is in none of v1, of the memory controller; then the unified hierarchy (v2); then
 * systemd's (name=systemd). With v2 alone there is only that one.
 *
 * A path is from the root of the reader's cgroup namespace. What is outside of it the kernel shows with
 * "/.." in front, which is no cgroup's name and matches nothing.
 */
#ifndef FFR_LIB_CGROUP_H
#define FFR_LIB_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CGROUP_MAX                                                                                 \
	4096u /* bytes of a path with its 0: of longer ones the kernel shows so much, or nothing */

/* NULL: it may be told as a container's cgroup; or what is wrong with it. */
const char *cgroup_path_wrong(const char *path);
/*
 * The process's cgroup, taken from that text of /proc/PID/cgroup (which is changed). NULL: it has none,
 * or a longer one.
 */
const char *cgroup_parse(char *text);
/* The cgroup of a process now. 0, or -errno: -ESRCH: there is no such process; -ENOENT: it is in no cgroup. */
int cgroup_of(pid_t pid, char path[CGROUP_MAX]);
/* The cgroup that an open /proc/PID/cgroup names. 0, or -errno. */
int cgroup_read(int fd, char path[CGROUP_MAX]);
/* Is `path` that cgroup, or below it? */
bool cgroup_within(const char *path, const char *cgroup);
/* Is `path` outside of the namespace's root? */
bool cgroup_is_outside(const char *path);

/*
 * The least of the limits on memory (bytes) of a cgroup and of those above it, of both versions: memory.max below
 * `root`, memory.limit_in_bytes below `root`/memory. text: of /proc/PID/cgroup, which is changed. UINT64_MAX: none.
 */
uint64_t cgroup_memory_limit(const char *root, char *text);
/* cgroup_memory_limit() of the calling process's cgroup. */
uint64_t cgroup_memory_limit_own(void);

#endif
