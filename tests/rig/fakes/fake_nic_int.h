/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* fake_nic_int.h - what the parts of the fake NIC share (fake_nic.c, fake_nic_wr.c, fake_mlx5.c). */
#ifndef FAKE_NIC_INT_H
#define FAKE_NIC_INT_H

#include <stdio.h>
#include <stdlib.h>

#include "tests/rig/fakes/fake_nic.h"

#define QUEUE 1024u /* entries of a QP's queue, at most */

#define MUST(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "fake_nic: %s\n", #cond);                                  \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

struct fake_queue {
	uint64_t id[QUEUE];
	enum ibv_wr_opcode opcode[QUEUE];
	struct ibv_sge sge[QUEUE]; /* the first one */
	uint32_t una, tail;
};

struct fake_qp {
	union {
		struct ibv_qp ib;
		struct ibv_qp_ex ex;
	};
	bool has_ex;
	/* begun with wr_start() */
	bool is_open;
	struct ibv_send_wr open[QUEUE];
	struct {
		struct ibv_sge sge[FAKE_NIC_SGE];
		uint8_t data[1024];
	} open_of[QUEUE];
	uint32_t num_open;
	enum ibv_qp_state state;
	struct ibv_qp_init_attr init;
	struct fake_queue send, recv;
};

/* One call more; is it the one that fails? Then errno is set, and the value. */
int fake_fails(enum fake_nic_call call);
/* The WR is the NIC's. */
void fake_send_one(struct fake_qp *q, const struct ibv_send_wr *wr);
void fake_ex_init(struct ibv_qp_ex *ex); /* fake_nic_wr.c */

#endif
