/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* mounter.h - a process that has a folder mounted, as a container has its folder. */
#ifndef FF_TESTS_MOUNTER_H
#define FF_TESTS_MOUNTER_H

#include <sys/types.h>

/*
 * Starts a process with a mount namespace of its own, in which `dir` is mounted at `at`. Returns its
 * number, or 0 if this user may not mount. It ends when end[1] is closed.
 */
pid_t mounter_start(const char *dir, const char *at, int end[2]);
void mounter_stop(pid_t pid, int end[2]);

#endif
