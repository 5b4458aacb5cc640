/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * orphans.h - the process that watches registered memory when neither a session nor a router is
 * left to do so. See orphans.c.
 */
#ifndef FFR_MEM_ORPHANS_H
#define FFR_MEM_ORPHANS_H

#include <sys/types.h>

#include "ffr/lib/sandbox.h"
#include "ffr/lib/user.h"

struct container;

/*
 * Start the process, which becomes that user (NULL: stays who it is); before any thread is started.
 * Its number, or -errno with a line in the log; in the new process it does not return. *sock is for
 * orphans_use(), of this process or of one that it starts. The process ends when nobody has that
 * socket any more, and nothing is left to watch.
 */
pid_t orphans_start(const struct sandbox_conf *conf, const struct user *u, int *sock);
/* The router: hand over by that socket. -1, as at first: there is no such process. */
void orphans_use(int sock);
/*
 * Control thread: a session of the container has pages from now on. When *heir is closed, by the
 * caller or by its death, the process goes on with these descriptors (pages_int.h), which stay the
 * caller's. 0; *heir is -1 where there is no such process; -ENOSPC: the container has as many as it
 * may have; or -errno.
 */
int orphans_add(const struct container *c, const int *fd, unsigned num, int *heir);

#endif
