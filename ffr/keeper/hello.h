/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * hello.h - the process behind a client's socket, and the memory that it hands over. See hello.c.
 */
#ifndef FFR_KEEPER_HELLO_H
#define FFR_KEEPER_HELLO_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ffr/abi/ff_proto.h"
#include "ffr/lib/cgroup.h"

/* The process that connected to a client socket. */
struct ctl_peer {
	pid_t pid; /* in the router's pid namespace */
	uid_t uid;
	int pidfd;
	bool proven; /* pidfd is of the process that connected, not of another one with the same number */
	bool asked; /* the client was told `nonce` */
	uint8_t nonce[FF_NONCE_SZ];
};

/*
 * Find the peer of an accepted Unix socket. 0, or -errno; -ESRCH: the peer has ended. The caller closes peer->pidfd.
 */
int ctl_peer_find(int sock, struct ctl_peer *peer);
/*
 * The same of a socket whose peer was found, and has proven itself, before a restart of the router: pidfd is
 * peer->pidfd then, and the caller's where it fails.
 */
int ctl_peer_again(int sock, int pidfd, struct ctl_peer *peer);
/* A fresh nonce to be shown in HELLO. 0 or -errno. */
int ctl_peer_ask(struct ctl_peer *peer);
/*
 * HELLO came with that nonce from process `sender`, as the kernel says (0: the kernel said nothing). 0; -EAGAIN: the
 * client has to ask for a nonce first; -EPERM: the sender is not the process that connected; -ESRCH: the process has
 * ended.
 */
int ctl_peer_prove(struct ctl_peer *peer, const uint8_t nonce[FF_NONCE_SZ], pid_t sender);
/* Does the process live? */
bool ctl_peer_lives(int pidfd);
/*
 * Why these two descriptors cannot be /proc/PID/mem and maps, as far as the descriptors alone tell. NULL: they may be;
 * ctl_peer_memory() has to look at the process. Waits for nobody.
 */
const char *ctl_memory_wrong(int mem, int maps);
/*
 * Why these descriptors are not that process's own /proc/self/mem and /proc/self/maps, opened as they must be. NULL:
 * they are. Asks no file system that may be a client's. May wait for locks of the kernel.
 */
const char *ctl_peer_memory(const struct ctl_peer *peer, int mem, int maps);
/*
 * Is the process in that cgroup (lib/cgroup.h) or below it now? 0; -EACCES: no; -EXDEV: its cgroup has no name in this
 * process's cgroup namespace; -ESRCH: the process has ended; other -errno: nobody can tell. path: the process's cgroup,
 * or "".
 */
int ctl_peer_in_cgroup(const struct ctl_peer *peer, const char *cgroup, char path[CGROUP_MAX]);

#endif
