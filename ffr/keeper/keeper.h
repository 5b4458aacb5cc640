/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * keeper.h - the process with the privileges, and what the router asks of it.
 *
 * Job: what needs rights on other processes: it looks at what a client hands over in HELLO, keeps
 * it, and opens the files that this client has mapped. Neighbours: the control thread (ctl/verbs.c,
 * session.c, shadow.c) asks it, one request at a time; it uses hello.c and mounts.c. Its thread: the
 * only one of a process of its own, which ends with the router. Where there is no such process (tests,
 * sandbox = off) the caller does the work itself, with what rights it has.
 *
 *	keeper.c   the process: messages in, one dispatch, answers out
 *	call.c     the router's side
 *	clients.c  what was handed over and is kept
 *	map_file.c the file behind a mapping
 */
#ifndef FFR_KEEPER_KEEPER_H
#define FFR_KEEPER_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

#include "ffr/abi/ff_vma.h"
#include "ffr/keeper/hello.h"

struct sandbox_conf;

#define KEEPER_WHY 96u /* bytes of a reason, with its 0 */

/* ---- the router's side (call.c); control thread ------------------------------------------------ */

/*
 * Start the process; before any thread is started. 0, or -errno with a line in the log; in the new
 * process it does not return. *sock is to be watched: it is readable when the process has ended.
 */
int keeper_start(const struct sandbox_conf *conf, int *sock);

/*
 * HELLO: are mem and maps what the process behind the socket must hand over (ctl_peer_memory())? 0
 * and a name for it; -EPERM and why not; other -errno. All descriptors stay the caller's.
 */
int keeper_client_add(const struct ctl_peer *peer, int mem, int maps, uint32_t *id,
		      char why[KEEPER_WHY]);
void keeper_client_del(uint32_t id);
/*
 * The file behind the client's shared mapping v, opened for writing too if `writes`: a descriptor, or
 * -errno where it cannot be or may not.
 */
int keeper_map_file(uint32_t id, const struct ff_vma *v, bool writes);
/* A client's call was served: what was found out of its mounts for it is forgotten (mounts.h). */
void keeper_call_ends(void);

/* ---- both sides --------------------------------------------------------------------------------- */

enum keeper_op { KEEPER_ADD = 1, KEEPER_DEL, KEEPER_MAP_FILE, KEEPER_CALL_ENDS, KEEPER_NUM_OPS };

/* One packet: this, and with KEEPER_ADD three descriptors: pidfd, mem, maps. */
struct keeper_req {
	uint32_t op; /* enum keeper_op */
	uint32_t id; /* KEEPER_ADD: 0 */
	int32_t pid;
	uint32_t writes; /* 0 or 1 */
	struct ff_vma vma;
};
static_assert(sizeof(struct keeper_req) == 16 + sizeof(struct ff_vma), "no padding");

/* One packet, with a descriptor if KEEPER_MAP_FILE succeeded. */
struct keeper_resp {
	int32_t status; /* 0 or -errno */
	uint32_t id;
	char why[KEEPER_WHY];
};

/* clients.c: as above, in this process. */
int clients_add(const struct ctl_peer *peer, int mem, int maps, uint32_t *id, char why[KEEPER_WHY]);
int clients_del(uint32_t id);
int clients_map_file(uint32_t id, const struct ff_vma *v, bool writes);
void clients_call_ends(void);
/* map_file.c: the client's own maps prove that it has the file mapped so. */
int map_file_open(pid_t pid, int pidfd, int maps, const struct ff_vma *v, bool writes);
/*
 * keeper.c: serve one request of `len` bytes with n_fds descriptors, which it takes. A descriptor to be
 * sent along and then closed, or -1. Hostile input: the router may have been taken over.
 */
int keeper_serve(const void *bytes, size_t len, const int *fds, unsigned n_fds,
		 struct keeper_resp *resp);

#endif
