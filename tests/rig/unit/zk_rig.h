/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * zk_rig.h - ZooKeeper nodes for a test program, and stores on them in one loop. For the tests of
 * ffo/store/zk, most of them by zk_two.h.
 */
#ifndef ZK_RIG_H
#define ZK_RIG_H

#include <stdbool.h>

#include "tests/rig/unit/unit.h"
#include "ffo/store/zk/zks.h"

/* Start nodes of its own; 0, or what main() ends with: 77 and a line when there can be none. */
int rig_start(int nodes);
void rig_stop(void);
const char *rig_servers(void);
/* "kill", "start", "stop", "cont", ... of zk.sh, with that node. */
void rig_node(const char *command, int n);
/* The number of the leader. */
int rig_leader(void);

extern uv_loop_t rig_loop;

/* Run the loop until cond holds; fails the test after 20 s. */
#define WAIT_FOR(cond)                                                                             \
	do {                                                                                       \
		uint64_t rig_end = uv_hrtime() + unit_slow() * 20000000000ull;                     \
		while (!(cond)) {                                                                  \
			if (uv_hrtime() > rig_end)                                                 \
				fail_msg("%s:%d: waited in vain for: %s", __FILE__, __LINE__,      \
					 #cond);                                                   \
			rig_turn();                                                                \
		}                                                                                  \
	} while (0)
void rig_turn(void); /* waits 5 ms at most */

/* ---- stores ---- */

struct rig_store {
	struct ffo_store *s;
	struct alloc *alloc;
	enum store_state state;
	unsigned int ready, away, lost; /* how often */
};

/* On that root; the options, if any, follow a '?'. */
void rig_open(struct rig_store *r, const char *root);
/* The same, without waiting until it is ready. */
void rig_begin(struct rig_store *r, const char *root);
void rig_close(struct rig_store *r);
/* As a process that is killed: the session lives on. */
void rig_crash(struct rig_store *r);
/* End its session under it, by another connection that uses its id. */
void rig_expire(struct rig_store *r);

/* What a call ended with. */
struct rig_end {
	bool done;
	int err;
	char why[200];
	struct ffo_container c;
	bool has_c, more;
	struct ffo_host h;
	size_t count;
	struct ffo_container list[16];
	struct ffo_host hosts[16];
	struct ffo_map maps[1024];
};

/* Callbacks for store.h's ops, with a struct rig_end. */
void rig_done(void *arg, int err, const char *why);
void rig_counted(void *arg, int err, const char *why, size_t count);
void rig_container(void *arg, int err, const char *why, const struct ffo_container *c);
void rig_containers(void *arg, int err, const char *why, const struct ffo_container *list, size_t n,
		    bool more);
void rig_host(void *arg, int err, const char *why, const struct ffo_host *h);
void rig_hosts(void *arg, int err, const char *why, const struct ffo_host *list, size_t n,
	       bool more);
void rig_maps(void *arg, int err, const char *why, const struct ffo_map *list, size_t n, bool more);

#endif
