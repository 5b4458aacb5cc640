/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * two_hosts.h - two routers' fast paths in one test, with a stream between them: a container on each,
 * who know each other from a directory that the test keeps.
 */
#ifndef TWO_HOSTS_H
#define TWO_HOSTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ffr/remote/remote.h"
#include "tests/rig/unit/others.h"
#include "tests/rig/unit/rig.h"

#define HOSTS_ACCESS                                                                               \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define HOSTS_BUF (4u << 20)

struct host {
	struct rig r;
	struct wire_peer other; /* as this host knows the other one */
	struct remote remote;	/* likewise, the other's container 0 */
	struct others o;	/* that host's container 0, and nobody else */
	struct rig_ses *s;
	struct rig_cq *cq;
	struct rig_qp *qp;
	struct mr *mr;
	uint8_t *buf;
};

struct hosts {
	struct host h[2];
	int fd[2]; /* of the connection; -1: there is none */
};

/* Their carriers are rig_carriers. Called for each host in its turn, or NULL. */
extern void (*hosts_work)(struct host *h);
/* Two hosts that are connected, and a QP of that type on each, connected; SRQ at host 1 if asked. */
void hosts_up(struct hosts *t, enum ibv_qp_type type);
void hosts_down(struct hosts *t);

/* For tests to which *state is two hosts that are up. Before, it is the QPs' type; NULL: RC. */
int hosts_setup(void **state);
int hosts_teardown(void **state);
#define HOSTS_TEST(name) cmocka_unit_test_setup_teardown(name, hosts_setup, hosts_teardown)
#define HOSTS_TEST_UC(name)                                                                        \
	cmocka_unit_test_prestate_setup_teardown(name, hosts_setup, hosts_teardown,                \
						 (void *)IBV_QPT_UC)

/* The connection; and its end, with what is in it. */
void hosts_connect(struct hosts *t);
void hosts_cut(struct hosts *t);
/* Until nobody has anything to do. */
void hosts_run(struct hosts *t);
void hosts_advance(struct hosts *t, uint64_t ns);
/* One turn of each. */
uint32_t hosts_turn(struct hosts *t);

/* Posted at host 0, from its buffer to the other's. */
void hosts_rdma(struct hosts *t, uint8_t op, uint64_t id, uint64_t loff, uint64_t roff,
		uint32_t len);
void hosts_send(struct hosts *t, uint64_t id, uint64_t loff, uint32_t len);
/*
 * Host 1 gets a part of a message of host 0's QP, as host 0's router could send it, whatever that QP does:
 * n bytes, all `fill`. h has what is not the same for all of them; the sequence has a tag of its own.
 */
void hosts_part(struct hosts *t, struct wire_hdr *h, uint32_t n, uint8_t fill);
void hosts_recv(struct hosts *t, uint64_t id, uint64_t off, uint32_t len);
void hosts_expect(struct hosts *t, int host, uint64_t wr_id, enum ibv_wc_status st);
void hosts_expect_none(struct hosts *t, int host);
uint64_t hosts_at(const struct hosts *t, int host, uint64_t off);

#endif
