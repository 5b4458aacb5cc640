/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mounts.h - the type of the file system that a device number stands for, without asking the file system, which may be
 * a client's. Any thread of the keeper (without a keeper: of the router), each for itself.
 *
 * The answer is the kernel's, from a process's mountinfo. So the answer is true whatever process that is, and stays
 * true while the caller has a file of that file system open.
 */
#ifndef FFR_KEEPER_MOUNTS_H
#define FFR_KEEPER_MOUNTS_H

#include <stdbool.h>
#include <sys/types.h>

/* A longer mount table is not read, because reading takes 2 ms for each MB. */
#define MOUNTS_MAX (1u << 20) /* bytes */

/*
 * Is device `dev`, as statx() tells it, mounted in the mount namespace of process `pid`, as one of these types (such as
 * "tmpfs"; NULL ends the list)? False also if that cannot be found out.
 */
bool mounts_is(pid_t pid, dev_t dev, const char *const *types);

/*
 * Between these two calls each mount table is read at most once, whatever processes and devices are asked for, because
 * a client can make its table long and change it all the time. At other times no table is kept, because an open one
 * keeps file systems mounted.
 */
void mounts_call_begins(void);
void mounts_call_ends(void);

#endif
