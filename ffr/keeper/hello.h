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

/* Who connected. */
struct ctl_peer {
	pid_t pid; /* as the router sees it */
	uid_t uid;
	int pidfd;
	bool proven; /* pidfd is of the process that connected, and not of one that has its number */
	bool asked;  /* nonce was told */
	uint8_t nonce[FF_NONCE_SZ];
};

/*
 * The peer of a Unix socket that was accepted. 0, or -errno: it has ended (-ESRCH), or nothing can
 * name it. peer->pidfd is the caller's to close.
 */
int ctl_peer_find(int sock, struct ctl_peer *peer);
/* A fresh nonce to be shown in HELLO. 0 or -errno. */
int ctl_peer_ask(struct ctl_peer *peer);
/*
 * HELLO came, with that nonce, from `sender` (the kernel's word, 0: none). 0; -EAGAIN: it must ask
 * for a nonce first; -EPERM: the sender is not who connected; -ESRCH: it has ended.
 */
int ctl_peer_prove(struct ctl_peer *peer, const uint8_t nonce[FF_NONCE_SZ], pid_t sender);
/* Does the process live? */
bool ctl_peer_lives(int pidfd);
/*
 * Can these two descriptors not be /proc/PID/mem and maps, as far as they tell by themselves? The
 * reason, or NULL: then ctl_peer_memory() has to look at the process. Waits for nobody.
 */
const char *ctl_memory_wrong(int mem, int maps);
/*
 * Are these /proc/self/mem and /proc/self/maps of that process, which opened them as it must? NULL,
 * or why not. Asks no file system that may be a client's. May wait for locks of the kernel's.
 */
const char *ctl_peer_memory(const struct ctl_peer *peer, int mem, int maps);
/*
 * Is that process in that cgroup (lib/cgroup.h) or below it now? 0; -EACCES: it is not; -EXDEV: it is in
 * one that cannot be named here, in this cgroup namespace; -ESRCH: it has ended; other -errno: it cannot
 * be found out. path: where it is, or "".
 */
int ctl_peer_in_cgroup(const struct ctl_peer *peer, const char *cgroup, char path[CGROUP_MAX]);

#endif
