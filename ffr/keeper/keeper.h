/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * keeper.h - the process with the privileges, and what the router asks of it.
 *
 * Job: everything that needs rights on other processes. The keeper checks the descriptors that a client hands over in
 * HELLO and the cgroup that the client is in, keeps the descriptors, and opens the files that the client has mapped. It
 * also holds listening sockets while a router is started again.
 *
 * The keeper is a process of its own, a child of the same parent as the router. The router's control thread
 * (ctl/hello.c, ctl/session.c, ctl/look.c, ctl/runs.c, ctl/container.c) asks the keeper, one request at a time. The
 * keeper's first thread answers each request at once; where a client can delay the answer, a thread for that question
 * does the work (clients.c, look.c, runs.c). Without a keeper (tests, sandbox = off), the router does the work with the
 * rights that the router has, and nobody holds sockets.
 *
 *	parent.c   the first process, which starts keeper, nursery and router
 *	nursery.c  the process that routers are forks of, and that has mapped what they can map once only
 *	keeper.c   the keeper's process: messages in, one dispatch, answers out
 *	call.c     the router's side
 *	clients.c  checks and keeps what clients hand over
 *	hello.c    the checks of HELLO: the process behind a socket, and its memory
 *	look.c     which files a client has mapped
 *	runs.c     which containers run: their folders are mounted, or their cgroups have processes
 *	map_file.c the file behind a mapping
 *	mounts.c   the type of a file system, from a process's mountinfo
 *	held.c     sockets that stay
 *	saved.c    descriptors of sessions that stay
 *	rio.c      the device of RapidIO
 *	opener.c   a child of the keeper, which alone opens files, and can name none
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
#define KEEPER_NAME   64u  /* bytes of a socket's name, with its 0 */
#define KEEPER_CGROUP 160u /* bytes of the end of a cgroup's path that the log shows, with its 0 */
#define KEEPER_RANGES 512u /* ranges in one KEEPER_LOOK */
#define KEEPER_SAVES  8u   /* descriptors in one KEEPER_SAVE */

/* A range of a client's addresses. */
struct keeper_range {
	uint64_t start, end;
};

/* The answer of keeper_client_add(). */
struct keeper_added {
	int32_t err;	      /* 0, or -errno */
	uint32_t outside;     /* 1: the process is not in the cgroup, or nobody can tell */
	uint64_t cpu_ns;      /* CPU time of the checks */
	char why[KEEPER_WHY]; /* -EPERM: the reason */
	char cgroup[KEEPER_CGROUP]; /* `outside`: the end of the path of the process's cgroup; "": unknown */
};

/* keeper_ran.found */
#define KEEPER_RUNS_MOUNTED 0x1u /* another mount namespace has the container's folder */
#define KEEPER_RUNS_CGROUP  0x2u /* the container's cgroup has a process */
#define KEEPER_RUNS_STALE                                                                          \
	0x4u /* another mount namespace has an earlier folder of that path, which was removed */
#define KEEPER_RUNS_UNSURE 0x8u /* there are too many mount namespaces to look at all of them */

/* The answer of keeper_runs(). */
struct keeper_ran {
	int32_t err; /* 0, or -errno: the keeper cannot tell */
	uint32_t found;
};

/* A part of a keeper_range that is in one shared mapping. */
struct keeper_found {
	uint64_t start, end;
	struct ff_vma vma;
};

/* ---- the first process (parent.c) ---------------------------------------------------------------- */

struct parent_conf {
	const struct sandbox_conf *box; /* the keeper's sandbox */
	char **argv;
	/* After a SIGHUP: read the configuration. The caller frees the text. NULL, with a log line: keep the old. */
	char *(*reread)(void *arg);
	void *arg;
	pid_t orphans;	  /* the process of mem/orphans.h */
	int orphans_sock; /* the socket to that process, which each router gets */
};
/*
 * Start keeper and router, which are this program with the same arguments, and the router again when it dies. Returns
 * the exit status when the router ends in order or dies too soon, or when SIGTERM or SIGINT comes. Takes and frees
 * `text`, the configuration that routers are given. SIGHUP is blocked, also in the children.
 */
int parent_run(const struct parent_conf *conf, char *text);
/*
 * Is this process the nursery that parent_run() has started? Then it serves, and returns in each router. Call first of
 * all.
 */
void parent_nursery(void);
/*
 * Is this process a router that parent_run() has started? The socket to the keeper, or -1. *conf: the socket for
 * parent_text(). *orphans: parent_conf.orphans_sock.
 */
int keeper_of_parent(int *conf, int *orphans);
/*
 * The newest configuration that the parent has sent; the caller frees the text. The parent sends at least one at the
 * start and one for each SIGHUP. NULL, and *err: 0: none is there yet; -errno: there will be no more.
 */
char *parent_text(int sock, int *err);

/* ---- the nursery (nursery.c) ---------------------------------------------------------------------- */

/* The nursery: serves by the socket to the parent. Returns in each router: its socket for configurations. */
int nursery_run(int sock);
/* The nursery: serve one request of the router's. 0; -EPIPE: the router has ended. */
int nursery_serve(int sock);
/* The parent: make a router, which is a child of the parent's, with that socket. Its number or -errno. */
pid_t nursery_router(int sock, int conf);
/*
 * The router, control thread: have the nursery map a memfd that is sealed against shrinking and growing, so that
 * further routers have it mapped, too. 0 or -errno; -ENOENT: there is no nursery. The descriptor stays the caller's.
 */
int nursery_hold(int fd);
void nursery_let_go(int fd); /* no further router is to have it */
/* Where this router has that memfd of `size` bytes mapped by its birth, once: the mapping is the caller's. Or NULL. */
void *nursery_take(int fd, uint64_t size);
/* What was not taken is unmapped, also in the nursery. */
void nursery_take_no_more(void);

/* The status by which a router ends that is to be started again because the parent has said so. */
#define ROUTER_AGAIN 98

/* ---- the router's side (call.c); control thread ------------------------------------------------ */

/*
 * Start the keeper's process, before any thread is started. Returns the process's number, or -errno with a line in the
 * log; does not return in the new process. *sock is for keeper_use(), by this process or one that this process starts.
 */
pid_t keeper_start(const struct sandbox_conf *conf, int *sock);
/*
 * Ask the keeper by that socket from now on. The caller watches the socket, which hangs up when the keeper has ended.
 * The keeper forgets what a former router had asked for, except for sockets and sessions that are saved. 0 or -errno.
 */
int keeper_use(int sock);

/*
 * HELLO: is the process behind the socket in that cgroup (ctl_peer_in_cgroup()), and are mem and maps the descriptors
 * that it must hand over (ctl_peer_memory())? cgroup: shorter than CGROUP_MAX; NULL: any cgroup is right.
 *
 * Returns a socket, which is the caller's, or -errno; -EAGAIN: too many such questions are under way. *id names the
 * client until keeper_client_del(), whatever the answer is. The answer is one struct keeper_added from the socket. If
 * its err is 0, the process's /proc/PID/status comes along, unless the keeper could not open that file. A hang-up
 * without an answer is a failure. A client can delay the answer for as long as it likes. All descriptors stay the
 * caller's, who keeps mem and maps open until the socket hangs up.
 */
int keeper_client_add(const struct ctl_peer *peer, int mem, int maps, const char *cgroup,
		      uint32_t *id);
void keeper_client_del(uint32_t id);
/*
 * Which files has the client mapped shared, readable and, if `writes`, writable in these ranges of its addresses? At
 * most KEEPER_RANGES, in order. Returns a socket, which is the caller's, or -errno. keeper_found() takes the files from
 * the socket, which hangs up after the last one. A client can delay the hang-up for seconds.
 */
int keeper_look(uint32_t id, const struct keeper_range *range, uint32_t n, bool writes);
/*
 * The next file of keeper_look(), in the order of addresses: a descriptor, which is the caller's, or -ENOENT: there is
 * no further file. Waits for the file, unless the socket is O_NONBLOCK.
 */
int keeper_found(int sock, struct keeper_found *found);
/*
 * Does the container run whose folder is open as `dir`? cgroup: the container's, shorter than CGROUP_MAX; NULL: the
 * caller does not know it. Returns a socket, which is the caller's, or -errno; -EAGAIN: too many such questions are
 * under way. The answer is one struct keeper_ran from the socket, after some ms on a host with thousands of processes.
 * A hang-up without an answer is a failure. dir stays the caller's.
 */
int keeper_runs(int dir, const char *cgroup);
/* Open /dev/ffmem (kmod/ffmem.h) anew: a descriptor that nobody else uses, or -errno. */
int keeper_open_ffmem(void);
/*
 * Hold a listening Unix socket, which then stays when this process dies, in place of the socket held under that name.
 * The caller chooses the name, shorter than KEEPER_NAME. The descriptor stays the caller's. 0 or -errno.
 */
int keeper_hold(const char *name, int fd);
/* The held socket of that name: a descriptor of the caller's own, or -errno; -ENOENT: there is none. */
int keeper_held(const char *name);
void keeper_let_go(const char *name);
/* Is there a keeper, so that what it holds outlives this process? */
bool keeper_is_there(void);
/*
 * Hold n descriptors, at most KEEPER_SAVES, of a client that keeper_client_add() has answered for: they stay when this
 * process dies, until keeper_client_del(). Each has a number of the caller's, and takes the place of the one that had
 * it. They stay the caller's. 0 or -errno; some may be held then.
 */
int keeper_save(uint32_t id, const uint32_t *slot, const int *fds, uint32_t n);
/* The held one: a descriptor of the caller's own, or -errno; -ENOENT: there is none. */
int keeper_saved(uint32_t id, uint32_t slot);
void keeper_unsave(uint32_t id, uint32_t slot);
/* The client behind that one, 0 at first, of whom something is held. 0 and *id, or -errno; -ENOENT: no more. */
int keeper_saved_next(uint32_t after, uint32_t *id);
/* Open /dev/ffrio, non-blocking: a descriptor, or -errno; -EPERM: this router is not to have the device. */
int keeper_open_rio(void);

/* ---- both sides --------------------------------------------------------------------------------- */

enum keeper_op {
	KEEPER_ADD = 1,
	KEEPER_DEL,
	KEEPER_LOOK,
	KEEPER_BEGIN, /* a router begins: forget all clients */
	KEEPER_HOLD,
	KEEPER_HELD,
	KEEPER_LET_GO,
	KEEPER_OPEN_FFMEM,
	KEEPER_OPEN_RIO,
	KEEPER_RUNS,
	KEEPER_SAVE,
	KEEPER_SAVED,
	KEEPER_UNSAVE,
	KEEPER_SAVED_NEXT,
	KEEPER_NUM_OPS
};

/*
 * A request is one packet: a struct keeper_req, or a longer struct that begins with one, and descriptors:
 *
 *	KEEPER_HOLD	the socket to hold
 *	KEEPER_LOOK	the socket for the files found; a struct keeper_look_req
 *	KEEPER_ADD	a pidfd, and the socket for the answer, in which a packet of one byte waits with the client's
 *			mem and maps; a struct keeper_cgroup_req
 *	KEEPER_RUNS	the container's folder, and the socket for the answer; a struct keeper_cgroup_req
 *	KEEPER_SAVE	the descriptors, as many as the struct keeper_save_req has numbers
 */
struct keeper_req {
	uint32_t op; /* enum keeper_op */
	uint32_t seq; /* repeated in the answer, because a router that died may have left an answer unread */
	uint32_t id; /* KEEPER_ADD: 0 */
	int32_t pid;
	uint32_t writes; /* KEEPER_LOOK: 0 or 1 */
	uint32_t num; /* KEEPER_LOOK: ranges; KEEPER_SAVE: descriptors; _SAVED, _UNSAVE: the number */
	char name[KEEPER_NAME]; /* KEEPER_HOLD, _HELD, _LET_GO: the socket's name */
};
static_assert(sizeof(struct keeper_req) == 24 + KEEPER_NAME, "no padding");

struct keeper_look_req {
	struct keeper_req req;
	struct keeper_range range[KEEPER_RANGES]; /* only the first `num` are sent */
};
static_assert(sizeof(struct keeper_look_req) ==
		      sizeof(struct keeper_req) + KEEPER_RANGES * sizeof(struct keeper_range),
	      "no padding");

struct keeper_cgroup_req {
	struct keeper_req req;
	char cgroup[CGROUP_MAX]; /* the container's; "": any (KEEPER_ADD), not known (KEEPER_RUNS) */
};
static_assert(sizeof(struct keeper_cgroup_req) == sizeof(struct keeper_req) + CGROUP_MAX,
	      "no padding");

struct keeper_save_req {
	struct keeper_req req;
	uint32_t slot[KEEPER_SAVES]; /* only the first `num` are sent */
};
static_assert(sizeof(struct keeper_save_req) ==
		      sizeof(struct keeper_req) + KEEPER_SAVES * sizeof(uint32_t),
	      "no padding");

/*
 * An answer is one packet, with a descriptor if KEEPER_HELD, KEEPER_SAVED, KEEPER_OPEN_FFMEM or KEEPER_OPEN_RIO
 * succeeded.
 */
struct keeper_resp {
	int32_t status; /* 0 or -errno */
	uint32_t seq;
	uint32_t id;
};

/* clients.c: the work of keeper_client_add(), keeper_client_del() and keeper_look(), in this process. */
int clients_add(const struct ctl_peer *peer, const char *cgroup, int sock, uint32_t *id);
int clients_del(uint32_t id);
int clients_look(uint32_t id, const struct keeper_range *range, uint32_t n, bool writes, int sock);
void clients_begin(void); /* forget all but those of whom there is something saved */
void clients_clear(void); /* for tests: forget all */
int clients_save(uint32_t id, const uint32_t *slot, const int *fds, uint32_t n);
int clients_saved(uint32_t id, uint32_t slot);
int clients_unsave(uint32_t id, uint32_t slot);
int clients_saved_next(uint32_t after, uint32_t *id);
void clients_settle(void); /* for tests: wait until all was answered */
/* keeper.c: start a detached thread for one question. 0 or -errno. */
int keeper_thread(void *(*fn)(void *), void *arg);
/* look.c: start to send the files found to the socket. All descriptors stay the caller's. 0 or -errno. */
int look_start(pid_t pid, int pidfd, int maps, const struct keeper_range *range, uint32_t n,
	       bool writes, int sock);
/* runs.c: start to answer keeper_runs() by the socket. cgroup "": not known. All descriptors stay the caller's. */
int runs_start(int dir, const char *cgroup, int sock);
void runs_settle(void); /* for tests: wait until all was answered */
void look_settle(void); /* for tests: wait until all was sent */
/* held.c: the work of keeper_hold(), keeper_held() and keeper_let_go(). A name may be any bytes. */
int held_add(const char name[KEEPER_NAME], int fd);
int held_get(const char name[KEEPER_NAME]);
int held_del(const char name[KEEPER_NAME]);
void held_clear(void); /* for tests */
/* saved.c: what one client has saved; *s is NULL at first. 0 or -errno; saved_get(): a descriptor. */
struct saved;
int saved_put(struct saved **s, uint32_t slot, int fd);
int saved_get(const struct saved *s, uint32_t slot);
int saved_del(struct saved *s, uint32_t slot);
void saved_free(struct saved *s); /* NULL: does nothing */
void saved_settle(void);	  /* for tests: wait until all was closed */
/* rio.c: let this host's routers have the device; call before keeper_start(). */
void rio_node_allow(void);
/* rio.c: open the device, in this process (opener.c). */
int rio_node_open(void);
extern const char *rio_node; /* the device's path; tests set another one */
/* map_file.c: open the file behind a mapping that the client's own maps prove. */
int map_file_open(pid_t pid, int pidfd, int maps, const struct ff_vma *v, bool writes);
/*
 * keeper.c: serve one request of `len` bytes with n_fds descriptors, and close these. Returns a descriptor that the
 * caller sends with *resp and then closes, or -1. The request is hostile input: the router may have been taken over.
 */
int keeper_serve(const void *bytes, size_t len, const int *fds, unsigned n_fds,
		 struct keeper_resp *resp);

#endif
