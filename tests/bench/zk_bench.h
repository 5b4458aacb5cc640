/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* zk_bench.h - stores on a ZooKeeper ensemble in one loop, for zk_regions.c and zk_hosts.c. */
#ifndef ZK_BENCH_H
#define ZK_BENCH_H

#include "bench.h"
#include "ffo/store/zk/zks.h"

extern uv_loop_t zkb_loop;

struct zkb_store {
	struct ffo_store *s;
	enum store_state state;
	unsigned int lost;
};

/* Run the loop until cond holds; ends the program after `seconds`. */
#define ZKB_WAIT_FOR(seconds, cond)                                                                \
	do {                                                                                       \
		uint64_t zkb_end = bench_now() + (seconds)*1000000000ull;                          \
		while (!(cond)) {                                                                  \
			if (bench_now() > zkb_end) {                                               \
				errno = 0;                                                         \
				bench_die("in vain for %d s: %s", (int)(seconds), #cond);          \
			}                                                                          \
			zkb_turn();                                                                \
		}                                                                                  \
	} while (0)

void zkb_init(void);
void zkb_turn(void); /* 5 ms at most */
/* On servers and root; it becomes STORE_READY as the loop runs. */
void zkb_open(struct zkb_store *b, const char *servers, const char *root);
/* A row like those that routers publish. */
struct ffo_map zkb_map(uint32_t container, uint32_t rkey);
/* Kilobytes of this process's memory that are in use. */
long zkb_memory(void);
/* A store_done_cb; arg is an unsigned int that counts. Ends the program on an error. */
void zkb_done(void *arg, int err, const char *why);

/* What all servers say to "mntr". */
struct zkb_stats {
	uint64_t packets_received, packets_sent; /* of all */
	uint64_t znodes, watches, data_size, connections;
	double latency; /* ms, the worst server's mean */
};
void zkb_stats(const char *servers, struct zkb_stats *st);

#endif
