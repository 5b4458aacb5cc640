/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fake_ucma.h - a kernel's rdma_cm, for tests of ffr/nic/cm/ucma.c: it takes the calls (ffr/nic/cm/ucma_abi.h) of an id that
 * is there, and no others, writes them down, and tells what the test says.
 */
#ifndef FAKE_UCMA_H
#define FAKE_UCMA_H

#include <stdbool.h>
#include <stdint.h>

#define FAKE_UCMA_IDS 128

struct fake_ucma_id {
	bool is_there;
	uint64_t uid;
	uint32_t num_calls;
	uint32_t call[16]; /* RDMA_USER_CM_CMD_*, in order */
	uint8_t last[600]; /* what the last of them was called with, but for questions */
};

struct fake_ucma {
	struct fake_ucma_id id[FAKE_UCMA_IDS]; /* the kernel's numbers are their places */
	unsigned opens, num_ids;	       /* num_ids: that are there */
	int no_file;			       /* errno of open() */
	uint64_t guid;			       /* of the device that they are bound to */
	int fail[32], err;	      /* the nth call of that kind from now on, and with what */
	uint32_t rq_psn, sq_psn, mtu; /* what INIT_QP_ATTR says */
};
extern struct fake_ucma fake_ucma;

void fake_ucma_reset(void); /* in the place of the real one from now on */
/* The nth call of that command from now on fails. */
void fake_ucma_fail(int cmd, int nth, int err);
/* An event of the id; with private data of one byte, if not 0. */
void fake_ucma_tell(uint32_t id, uint32_t event, int status, uint8_t pd);
/* A request for that listener, of 10.1.2.9:99: its id. */
uint32_t fake_ucma_request(uint32_t listener);
/* The only id that is there. */
uint32_t fake_ucma_only(void);

#endif
