/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mlx5_fake.h - a stand-in for libmlx5 beside nic_fake.h, which writes down what it gets: scheduling elements and the
 * QPs that are joined to them. It keeps the rules of the real one (providers/mlx5/mlx5.c of rdma-core): a root without
 * a rate, leaves below nodes, no element with others below it or QPs of it destroyed, a QP in INIT or RTS, and none
 * that is not reliable for answers.
 */
#ifndef MLX5_FAKE_H
#define MLX5_FAKE_H

#include "tests/lib/nic_fake.h"

#define MLX5_FAKE_ELEMS 64u
#define MLX5_FAKE_QPS	64u

struct mlx5_fake_elem {
	struct mlx5_fake_elem *parent;
	bool is_leaf, is_there;
	uint32_t mbit;	/* its rate; 0: none */
	unsigned below; /* elements, and QPs that were joined to it and are there */
};

struct mlx5_fake {
	struct mlx5_fake_elem elem[MLX5_FAKE_ELEMS];
	unsigned made; /* elements, those that are gone too */
	struct {
		struct ibv_qp *qp;
		struct mlx5_fake_elem *sends, *answers;
	} joined[MLX5_FAKE_QPS]; /* in the order of the calls */
	unsigned num_joined;
	unsigned calls; /* of all */
};
extern struct mlx5_fake mlx5_fake;

/* nic_fake.load_more; nothing was got, nothing is there. */
void mlx5_fake_load(struct nic_lib *lib);
/* The nth call from now on, counted from 1, fails with that errno. */
void mlx5_fake_fail(unsigned nth, int err);
unsigned mlx5_fake_there(void); /* elements */

#endif
