/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rss.h - rsockets in each state that one can be in, and descriptors that are none, for the programs that
 * try what each function says to them.
 */
#ifndef RSS_H
#define RSS_H

#include "tests/rig/verbs/rst.h"

/* The functions that rs_arguments_data.c has cases for; rs_arguments.c has the others. */
#define RSS_DATA_NAMES(X)                                                                          \
	X(rrecv)                                                                                   \
	X(rrecvfrom)                                                                               \
	X(rrecvmsg)                                                                                \
	X(rread)                                                                                   \
	X(rreadv)                                                                                  \
	X(rsend)                                                                                   \
	X(rsendto)                                                                                 \
	X(rsendmsg)                                                                                \
	X(rwrite)                                                                                  \
	X(rwritev)                                                                                 \
	X(rpoll)                                                                                   \
	X(rselect)                                                                                 \
	X(riomap)                                                                                  \
	X(riounmap)                                                                                \
	X(riowrite)

#define SA(x) ((struct sockaddr *)(x))

/* ---- descriptors that are no rsockets ---------------------------------------------------------- */

enum { CLOSED, PIPE, SOCKET, FILE_, STDIN, NUM_FOREIGN };

/* Near the numbers of rsockets; one was an rsocket's. */
void rss_foreign(int fd[NUM_FOREIGN]);

#define FOREIGN(call)                                                                              \
	do {                                                                                       \
		int fds_[NUM_FOREIGN];                                                             \
		rss_foreign(fds_);                                                                 \
		for (int i_ = 0; i_ < NUM_FOREIGN; i_++) {                                         \
			int fd = fds_[i_];                                                         \
			CHECK_IS((int)(call), EBADF);                                              \
		}                                                                                  \
	} while (0)
/* With those that functions with a check of the range survive, too. */
#define NO_RSOCKET(call)                                                                           \
	do {                                                                                       \
		static const int far_[] = { -1, INT32_MIN, 65536, 1 << 20, INT32_MAX };            \
		FOREIGN(call);                                                                     \
		for (unsigned i_ = 0; i_ < ARRAY_SIZE(far_); i_++) {                               \
			int fd = far_[i_];                                                         \
			CHECK_IS((int)(call), EBADF);                                              \
		}                                                                                  \
	} while (0)

/* ---- rsockets in each state ---------------------------------------------------------------------- */

#define RSS_STATES(X)                                                                              \
	X(INIT)                                                                                    \
	X(BOUND)                                                                                   \
	X(LISTENING)                                                                               \
	X(CONNECTED)                                                                               \
	X(ACCEPTED)                                                                                \
	X(SHUT)	  /* rshutdown(SHUT_RDWR) */                                                       \
	X(FAILED) /* connecting was refused */                                                     \
	X(DGRAM)                                                                                   \
	X(DGRAM_BOUND)                                                                             \
	X(DGRAM_CONNECTED)
#define ENUM(s) s,
enum rss_state { RSS_STATES(ENUM) NUM_STATES };
#define BIT(s)	    (1u << (s))
#define ALL	    (BIT(NUM_STATES) - 1)
#define DGRAMS	    (BIT(DGRAM) | BIT(DGRAM_BOUND) | BIT(DGRAM_CONNECTED))
#define STREAMS	    (ALL & ~DGRAMS)
#define UNCONNECTED (BIT(INIT) | BIT(BOUND) | BIT(LISTENING))

struct rss {
	int fd;
	struct rst_pair pair;
	bool has_pair;
};

struct rss rss_open(enum rss_state s);
void rss_close(struct rss *f);
/* Of that type, at an address of its own. */
int rss_bound(int type);

/* `op` gives 0 for those of `ok`, `err` for those of `refused`; others are not tried. */
void rss_in_states(const char *what, int (*op)(int fd), uint32_t ok, int err, uint32_t refused);
#define IN_STATES(op, ok, err, refused) rss_in_states(#op, op, ok, err, refused)

#endif
