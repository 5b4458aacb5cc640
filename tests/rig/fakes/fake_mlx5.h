/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fake_mlx5.h - a stand-in for libmlx5 beside fake_nic.h, which writes down what it gets: scheduling elements and the
 * QPs that are joined to them. It keeps the rules of the real one (providers/mlx5/mlx5.c of rdma-core): a root without
 * a rate, leaves below nodes, no element with others below it or QPs of it destroyed, a QP in INIT or RTS, and none
 * that is not reliable for answers.
 */
#ifndef FAKE_MLX5_H
#define FAKE_MLX5_H

#include "tests/rig/fakes/fake_nic.h"

#define FAKE_MLX5_ELEMS 64u
#define FAKE_MLX5_QPS	64u

struct fake_mlx5_elem {
	struct fake_mlx5_elem *parent;
	bool is_leaf, is_there;
	uint32_t mbit;	/* its rate; 0: none */
	unsigned below; /* elements, and QPs that were joined to it and are there */
};

struct fake_mlx5 {
	struct fake_mlx5_elem elem[FAKE_MLX5_ELEMS];
	unsigned made; /* elements, those that are gone too */
	struct {
		struct ibv_qp *qp;
		struct fake_mlx5_elem *sends, *answers;
	} joined[FAKE_MLX5_QPS]; /* in the order of the calls */
	unsigned num_joined;
	unsigned calls; /* of all */
};
extern struct fake_mlx5 fake_mlx5;

/* fake_nic.load_more; nothing was got, nothing is there. */
void fake_mlx5_load(struct nic_lib *lib);
/* The nth call from now on, counted from 1, fails with that errno. */
void fake_mlx5_fail(unsigned nth, int err);
unsigned fake_mlx5_there(void); /* elements */

#endif
