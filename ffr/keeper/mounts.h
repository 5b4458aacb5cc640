/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mounts.h - what kind of file system a device number stands for, without asking the file system,
 * which may be a client's. Any thread of the keeper, each for itself, or of the router where there is none.
 *
 * The answer is the kernel's, from a process's mountinfo: so it is true whatever process that is, and
 * stays true while the caller has a file of that file system open.
 */
#ifndef FFR_KEEPER_MOUNTS_H
#define FFR_KEEPER_MOUNTS_H

#include <stdbool.h>
#include <sys/types.h>

/* Mount tables that are longer are not looked through: it takes 2 ms for each MB. */
#define MOUNTS_MAX (1u << 20) /* bytes */

/*
 * Is `dev`, as statx() gave it, mounted where process `pid` lives, as one of these types (such as
 * "tmpfs"; NULL ends them)? False also where it cannot be found out.
 */
bool mounts_is(pid_t pid, dev_t dev, const char *const *types);

/*
 * Between these two a table is read once at most, whatever processes and devices are asked for: a client
 * can have its own be long, and change it all the time. None is kept at any other time, since that would
 * keep what is mounted there.
 */
void mounts_call_begins(void);
void mounts_call_ends(void);

#endif
