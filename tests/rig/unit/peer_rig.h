/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * peer_rig.h - hosts for tests of peer.c: in one process, each with its own loop, on addresses of
 * the loopback network. The wire and the directory are the rig's.
 */
#ifndef TESTS_PEER_RIG_H
#define TESTS_PEER_RIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/rig/unit/unit.h"
#include "ffr/fast/backend.h"
#include "ffr/peer/peer.h"
#include "ffr/peer/internal.h"
#include "ffr/peer/io.h"
#include "ffr/router.h"

#define RIG_NODES 4

/* What the wire has of an attached connection. */
struct wire_tcp {
	struct wire_io *io;
	struct wire_hello theirs;
};

struct node {
	struct router r;
	struct fast_host host; /* with one thread */
	struct fast f;
	struct backend be;
	bool up;
	bool refuse; /* wire_attach() fails */
	uint32_t attached, detached;
	uint32_t asked; /* peers_on_stranger() */
	char asked_for[WIRE_HOST_SZ];
};

extern struct node nodes[RIG_NODES];

/* Waits for the condition, while all hosts' loops run. */
void rig_turn(void);
#define WAIT_FOR(cond)                                                                             \
	do {                                                                                       \
		uint64_t give_up_ = uv_hrtime() + unit_slow() * 20000000000u;                      \
		while (!(cond)) {                                                                  \
			if (uv_hrtime() > give_up_)                                                \
				fail_msg("never: %s", #cond);                                      \
			rig_turn();                                                                \
		}                                                                                  \
	} while (0)

enum { A, B, C }; /* hosts by number */

/* Host `i` is called "a", "b" ...; its address is the rig's own. conf may be changed in between. */
void node_prepare(int i);
int node_start(int i, char *err, size_t size);
void node_up(int i); /* both */
void node_down(int i);

int nodes_setup(void **state);	  /* connections are tried again soon; a program's setup */
int nodes_teardown(void **state); /* all; a test's teardown */
void nodes_up_two(void);	  /* A and B, who know each other */
#define NODES_TEST(name) cmocka_unit_test_teardown(name, nodes_teardown)

/* Tells `at` of `of`, as the orchestrator would. */
struct wire_peer *node_tell(int at, int of);
/* All that are up, of each other. */
void nodes_meet(void);
struct wire_peer *peer_at(int at, int of); /* NULL: not known */
struct peer_ctl *peer_ctl_at(int at, int of);
bool attached(int at, int of);
void want(int at, int of);
/* The connection's end as the wire would see it. */
void lose(int at, int of);
void node_conf_free(int i); /* of one that never started */

/* Do both have the two ends of one connection? Sends something each way. */
bool joined(int x, int y);
/* Timers of all hosts that are due within these ms are due now. */
void nodes_later(unsigned int ms);
/* Connections that are in handshake. */
unsigned int in_handshake(int i);
bool nodes_settled(void); /* none, anywhere */

/* A blocking socket from 127.A.B.C (0: any) to that host. */
int dial(int i, uint32_t from);
extern uint32_t rig_net; /* 127.A.B.0, host order: hosts are .1, .2 ... */
/* Reads until the end, while the loops run. Bytes. */
size_t listen_till_end(int fd, void *buf, size_t size);

#endif
