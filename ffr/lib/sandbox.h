/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sandbox.h - what the threads of ffr and ffo may still do once they have started. See sandbox.c.
 */
#ifndef FFR_LIB_SANDBOX_H
#define FFR_LIB_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct user;

enum sandbox_mode { SANDBOX_ON, SANDBOX_LOG, SANDBOX_OFF, SANDBOX_NUM_MODES };

enum sandbox_kind {
	SANDBOX_CONTROL, /* the router's main thread, before it serves anybody */
	SANDBOX_FAST,	 /* runner, and the watchers and workers that it starts (roles.c) */
	SANDBOX_STORE,	 /* the orchestrator inside the router (ffo/server/embed.c) */
	SANDBOX_POOL,	 /* libuv's threads, which give large segments back (seg.c) */
	SANDBOX_PAGES,	 /* watch what clients do to shadow pages (mem/watch.c) */
	SANDBOX_FFO,	 /* the daemon ffo */
	SANDBOX_NIC,	 /* opens the NIC, and makes calls of it that take long (nic/worker.c) */
	SANDBOX_KEEPER,	 /* the router's process with the privileges (keeper/) */
	SANDBOX_OPENER,	 /* the keeper's process that opens files (keeper/opener.c) */
	SANDBOX_ORPHANS, /* the process that watches what sessions and routers leave (mem/orphans.c) */
	SANDBOX_NUM_KINDS
};

#define SANDBOX_MAX_DIRS      20
#define SANDBOX_MAX_READ_DIRS 5

/* What of the file system; beside it, files in /proc are read. */
struct sandbox_reach {
	const char *dirs[SANDBOX_MAX_DIRS]; /* where files and folders are made and removed */
	size_t num_dirs;
	const char *read_dirs[SANDBOX_MAX_READ_DIRS]; /* where files are only read */
	size_t num_read_dirs;
	const char *dev_dir; /* where devices are opened, or NULL */
};

struct sandbox_conf {
	enum sandbox_mode mode;
	bool keeper; /* this process is to keep the rights of SANDBOX_KEEPER or _OPENER, and no others */
	const struct user *
		user; /* who has `keeper`: becomes that user, with its capabilities; NULL: stays who it is */
	/*
	 * SANDBOX_OPENER: the paths that the opener may open; on the first one it may also call readlinkat(). The
	 * filter compares addresses, so the opener passes these very pointers, to read-only memory.
	 */
	const char *const *paths;
	size_t num_paths;
	struct sandbox_reach store;   /* of SANDBOX_STORE and _FFO */
	struct sandbox_reach control; /* of SANDBOX_CONTROL; no dirs: all */
	struct sandbox_reach fast;    /* of SANDBOX_FAST; no dev_dir: nothing */
	bool unix_peers;	      /* SANDBOX_CONTROL and _STORE may connect to Unix sockets */
};

/* What the process ends with when it tried what only an intruder would. */
#define SANDBOX_EXIT 97

extern const char *const sandbox_mode_name[SANDBOX_NUM_MODES];
/* The enum sandbox_mode of that name, or -EINVAL. */
int sandbox_mode_parse(const char *name);

/*
 * Before a loop of libuv's is made, which from 1.45 on makes a ring of io_uring for its epoll calls, and ends the
 * process where a filter refuses what it does with that: from now on there are no rings here, as in an older kernel.
 * 0 or -errno.
 */
int sandbox_no_ring(enum sandbox_mode mode);
/*
 * Once, before the first thread is started: builds everything, and takes from the process what none
 * of its threads needs. 0, or -errno with a line in the log; then nothing must be served.
 */
int sandbox_prepare(const struct sandbox_conf *conf);
/*
 * This thread, and all that it starts afterwards, may do from now on what its kind does, for good.
 * Without sandbox_prepare(), and a second time, it does nothing. 0, or -errno with a line in the log.
 */
int sandbox_enter(enum sandbox_kind kind);
/*
 * The same, with a call in between: the thread's rights are what they will be, but it may call anything yet.
 * Some devices (the kernel's RDMA) serve a descriptor only to who had the same rights when it was opened.
 */
int sandbox_enter_with(enum sandbox_kind kind, int (*call)(void *arg), void *arg);

/*
 * Of a thread that is started in that call: it has its starter's rights, and its kind's filter. It changes no
 * credential. 0, or -errno with a line in the log.
 */
int sandbox_filter(enum sandbox_kind kind);

/* landlock.c: descriptors of rulesets, -1 where the kernel has none. NULL: no file at all. */
int landlock_ruleset(const struct sandbox_reach *reach);
/* 0 or -errno. */
int landlock_enter(int ruleset_fd);

#endif
