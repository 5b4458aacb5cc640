/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * keeper.h - the process with the privileges, and what the router asks of it.
 *
 * Job: what needs rights on other processes. The keeper looks at what a client hands over in HELLO
 * and at the cgroup that the client is in, keeps what was handed over, and opens the files that the
 * client has mapped. It also holds listening sockets while a router is started again. Neighbours:
 * the control thread (ctl/hello.c, ctl/session.c, ctl/look.c, ctl/runs.c, ctl/container.c) asks it,
 * one request at a time; it uses hello.c and mounts.c. The keeper is a process of its own, a child
 * of the same parent as the router. Its first thread answers each request at once; what a client
 * can delay is done by a thread for that question (clients.c, look.c, runs.c). Where there is no
 * keeper (tests, sandbox = off), the router does the work itself, with what rights it has, and
 * nobody holds sockets.
 *
 *	parent.c   the first process, which starts the other two
 *	keeper.c   the process: messages in, one dispatch, answers out
 *	call.c     the router's side
 *	clients.c  what was handed over, is looked at and kept
 *	look.c     which files a client has mapped
 *	runs.c     which containers run: their folders are mounted, or their cgroups have processes
 *	map_file.c the file behind a mapping
 *	held.c     sockets that stay
 *	rio.c      the device of RapidIO
 *	opener.c   a child of the keeper: it alone opens files, and can name none
 *
 * The room may use abi/ and lib/.
 */
#ifndef FFR_KEEPER_KEEPER_H
#define FFR_KEEPER_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

#include "ffr/abi/ff_vma.h"
#include "ffr/keeper/hello.h"
#include "ffr/lib/cgroup.h"

struct sandbox_conf;

#define KEEPER_WHY    96u  /* bytes of a reason, with its 0 */
#define KEEPER_NAME   64u  /* ... and of a socket's name */
#define KEEPER_CGROUP 160u /* ... and of the end of a cgroup's path that the log shows */
#define KEEPER_RANGES 512u

/* Addresses of a client's. */
struct keeper_range {
	uint64_t start, end;
};

/* The answer of keeper_client_add(). */
struct keeper_added {
	int32_t err;		    /* 0, or -errno */
	uint32_t outside;	    /* 1: it is not in the cgroup, or that cannot be found out */
	uint64_t cpu_ns;	    /* CPU time that it took to look */
	char why[KEEPER_WHY];	    /* -EPERM: why not */
	char cgroup[KEEPER_CGROUP]; /* `outside`: the end of its cgroup's path; "": unknown */
};

/* keeper_ran.found */
#define KEEPER_RUNS_MOUNTED 0x1u /* another mount namespace has the container's folder */
#define KEEPER_RUNS_CGROUP  0x2u /* the container's cgroup has a process */
#define KEEPER_RUNS_STALE                                                                          \
	0x4u /* another mount namespace has a folder that was there before, and was removed */
#define KEEPER_RUNS_UNSURE 0x8u /* there are too many mount namespaces to look at all */

/* The answer of keeper_runs(). */
struct keeper_ran {
	int32_t err; /* 0, or -errno: it cannot be found out */
	uint32_t found;
};

/* Part of such a range, all of it in one shared mapping. */
struct keeper_found {
	uint64_t start, end;
	struct ff_vma vma;
};

/* ---- the first process (parent.c) ---------------------------------------------------------------- */

struct parent_conf {
	const struct sandbox_conf *box; /* the keeper's */
	char **argv;
	/* SIGHUP has come: the configuration's text as it is now, to be freed; NULL, with a line in the log: the old one stays */
	char *(*reread)(void *arg);
	void *arg;
	pid_t orphans; /* the process of mem/orphans.h, and the socket to it, which each router gets */
	int orphans_sock;
};
/*
 * Start keeper and router, this program with the same arguments, and the router again when it dies;
 * until it ends in order, dies too soon, or SIGTERM or SIGINT comes. The exit status. Routers are
 * given the configuration's text, which is taken and freed. SIGHUP is blocked, also in the
 * children.
 */
int parent_run(const struct parent_conf *conf, char *text);
/*
 * Is this process the router that parent_run() has started? The socket to the keeper, or -1; *conf: that of parent_text();
 * *orphans: parent_conf.orphans_sock.
 */
int keeper_of_parent(int *conf, int *orphans);
/*
 * The newest text of those that the parent has sent, at least one at the start and one for each
 * SIGHUP; to be freed. NULL and 0: there is none yet; or -errno: there will be no more.
 */
char *parent_text(int sock, int *err);

/* ---- the router's side (call.c); control thread ------------------------------------------------ */

/*
 * Start the process; before any thread is started. Its number, or -errno with a line in the log; in
 * the new process it does not return. *sock is for keeper_use(), of this process or one that it
 * starts.
 */
pid_t keeper_start(const struct sandbox_conf *conf, int *sock);
/*
 * Ask the keeper by that socket from now on, which is to be watched: it hangs up when the process
 * has ended. What a former router had asked for is forgotten, but for sockets. 0 or -errno.
 */
int keeper_use(int sock);

/*
 * HELLO: is the process behind the socket in that cgroup (ctl_peer_in_cgroup()), and are mem and
 * maps what it must hand over (ctl_peer_memory())? cgroup: shorter than CGROUP_MAX; NULL: any one.
 * A socket, the caller's, and a name for the client until keeper_client_del(), whatever the answer
 * is; or -errno; -EAGAIN: too many such questions are under way. One struct keeper_added comes out
 * of the socket, and with it, if its err is 0, the process's /proc/PID/status, opened here (if it can be); a hang-up
 * without it is a failure. A client can delay the answer for as long as it
 * likes. All descriptors stay the caller's, which keeps mem and maps open until the socket hangs up.
 */
int keeper_client_add(const struct ctl_peer *peer, int mem, int maps, const char *cgroup,
		      uint32_t *id);
void keeper_client_del(uint32_t id);
/*
 * Which files has the client mapped shared, and readable, and writable if `writes`, in these ranges
 * of its addresses: at most KEEPER_RANGES, in order? A socket, the caller's, or -errno. The socket
 * hangs up when all was said; keeper_found() takes what was found. A client can delay the hang-up
 * for seconds.
 */
int keeper_look(uint32_t id, const struct keeper_range *range, uint32_t n, bool writes);
/*
 * The next file, in the order of addresses: its descriptor, the caller's, or -ENOENT: there is no
 * other one. Waits for it, unless the socket is O_NONBLOCK.
 */
int keeper_found(int sock, struct keeper_found *found);
/*
 * Does the container run whose folder is open as `dir`? cgroup: the container's, shorter than
 * CGROUP_MAX; NULL: it is not known. A socket, the caller's, or -errno; -EAGAIN: too many such
 * questions are under way. One struct keeper_ran comes out of the socket, after some ms on a host
 * with thousands of processes; a hang-up without it is a failure. dir stays the caller's.
 */
int keeper_runs(int dir, const char *cgroup);
/* /dev/ffmem (kmod/ffmem.h), open and used by nobody yet: a descriptor, or -errno. */
int keeper_open_ffmem(void);
/*
 * A listening Unix socket that is to stay when this process dies, in place of what had that name.
 * All descriptors stay the caller's. Names are the caller's choice, shorter than KEEPER_NAME. 0 or
 * -errno.
 */
int keeper_hold(const char *name, int fd);
/* The socket of that name, a descriptor of the caller's own, or -errno; -ENOENT: there is none. */
int keeper_held(const char *name);
void keeper_let_go(const char *name);
/* /dev/ffrio, non-blocking: a descriptor, or -errno; -EPERM: this router is not to have it. */
int keeper_open_rio(void);

/* ---- both sides --------------------------------------------------------------------------------- */

enum keeper_op {
	KEEPER_ADD = 1,
	KEEPER_DEL,
	KEEPER_LOOK,
	KEEPER_BEGIN, /* of a router: there are no clients */
	KEEPER_HOLD,
	KEEPER_HELD,
	KEEPER_LET_GO,
	KEEPER_OPEN_FFMEM,
	KEEPER_OPEN_RIO,
	KEEPER_RUNS,
	KEEPER_NUM_OPS
};

/*
 * One packet: this, and with KEEPER_HOLD one descriptor; with KEEPER_LOOK the socket for what is
 * found, and the packet is a struct keeper_look_req. With KEEPER_ADD a pidfd and the socket for the
 * answer, in which a packet of one byte waits that has the client's mem and maps; and with
 * KEEPER_RUNS the container's folder and the socket for the answer: for both the packet is a struct
 * keeper_cgroup_req with the container's cgroup, or "".
 */
struct keeper_req {
	uint32_t op;  /* enum keeper_op */
	uint32_t seq; /* the answer has it, too: a router that died may not have read its own */
	uint32_t id;  /* KEEPER_ADD: 0 */
	int32_t pid;
	uint32_t writes;	/* KEEPER_LOOK: 0 or 1 */
	uint32_t num;		/* KEEPER_LOOK: ranges */
	char name[KEEPER_NAME]; /* of a socket */
};
static_assert(sizeof(struct keeper_req) == 24 + KEEPER_NAME, "no padding");

struct keeper_look_req {
	struct keeper_req req;
	struct keeper_range range[KEEPER_RANGES]; /* those behind `num` are not sent */
};
static_assert(sizeof(struct keeper_look_req) ==
		      sizeof(struct keeper_req) + KEEPER_RANGES * sizeof(struct keeper_range),
	      "no padding");

struct keeper_cgroup_req {
	struct keeper_req req;
	char cgroup[CGROUP_MAX];
};
static_assert(sizeof(struct keeper_cgroup_req) == sizeof(struct keeper_req) + CGROUP_MAX,
	      "no padding");

/* One packet, with a descriptor if KEEPER_HELD, KEEPER_OPEN_FFMEM or KEEPER_OPEN_RIO succeeded. */
struct keeper_resp {
	int32_t status; /* 0 or -errno */
	uint32_t seq;
	uint32_t id;
};

/* clients.c: as above, in this process. */
int clients_add(const struct ctl_peer *peer, const char *cgroup, int sock, uint32_t *id);
int clients_del(uint32_t id);
int clients_look(uint32_t id, const struct keeper_range *range, uint32_t n, bool writes, int sock);
void clients_clear(void);
void clients_settle(void); /* for tests: wait until all was answered */
/* keeper.c: a thread for one question, which nobody waits for. 0 or -errno. */
int keeper_thread(void *(*fn)(void *), void *arg);
/* look.c: send to the socket, later, what is found. All descriptors stay the caller's. 0 or -errno. */
int look_start(pid_t pid, int pidfd, int maps, const struct keeper_range *range, uint32_t n,
	       bool writes, int sock);
/* runs.c: send the answer of keeper_runs() to the socket, later. cgroup "": not known. All descriptors stay the caller's. */
int runs_start(int dir, const char *cgroup, int sock);
void runs_settle(void); /* for tests: wait until all was answered */
void look_settle(void); /* for tests: wait until all was sent */
/* held.c: as keeper_hold(), keeper_held() and keeper_let_go(); any bytes may be a name. */
int held_add(const char name[KEEPER_NAME], int fd);
int held_get(const char name[KEEPER_NAME]);
int held_del(const char name[KEEPER_NAME]);
void held_clear(void); /* for tests */
/* rio.c: before keeper_start(): this host's routers may have the device; opening it, in this process (opener.c). */
void rio_node_allow(void);
int rio_node_open(void);
extern const char *rio_node; /* its path; tests have another one */
/* map_file.c: the client's own maps prove that it has the file mapped so. */
int map_file_open(pid_t pid, int pidfd, int maps, const struct ff_vma *v, bool writes);
/*
 * keeper.c: serve one request of `len` bytes with n_fds descriptors, which it takes. A descriptor
 * to be sent along and then closed, or -1. Hostile input: the router may have been taken over.
 */
int keeper_serve(const void *bytes, size_t len, const int *fds, unsigned n_fds,
		 struct keeper_resp *resp);

#endif
