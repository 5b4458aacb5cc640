/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * lib.h - the host's libibverbs, as far as the router calls it. lib.c loads the library when the configuration names a
 * NIC, so that hosts without a NIC need no library. A test puts functions of its own in its place. Inline functions of
 * the library's header (posting, polling, arming) call the context's ops and need no place here.
 */
#ifndef FFR_NIC_LIB_H
#define FFR_NIC_LIB_H

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

/* X(type, name without ibv_, parameters) */
#define NIC_LIB(X)                                                                                 \
	X(struct ibv_device **, get_device_list, (int *num))                                       \
	X(void, free_device_list, (struct ibv_device * *list))                                     \
	X(const char *, get_device_name, (struct ibv_device * device))                             \
	X(struct ibv_context *, open_device, (struct ibv_device * device))                         \
	X(int, close_device, (struct ibv_context * ctx))                                           \
	X(int, query_device, (struct ibv_context * ctx, struct ibv_device_attr * attr))            \
	X(int, query_gid, (struct ibv_context * ctx, uint8_t port, int index, union ibv_gid *gid)) \
	X(int, get_async_event, (struct ibv_context * ctx, struct ibv_async_event * event))        \
	X(void, ack_async_event, (struct ibv_async_event * event))                                 \
	X(struct ibv_pd *, alloc_pd, (struct ibv_context * ctx))                                   \
	X(int, dealloc_pd, (struct ibv_pd * pd))                                                   \
	X(struct ibv_mr *, reg_mr_iova2,                                                           \
	  (struct ibv_pd * pd, void *addr, size_t length, uint64_t iova, unsigned int access))     \
	X(int, dereg_mr, (struct ibv_mr * mr))                                                     \
	X(struct ibv_comp_channel *, create_comp_channel, (struct ibv_context * ctx))              \
	X(int, destroy_comp_channel, (struct ibv_comp_channel * channel))                          \
	X(struct ibv_cq *, create_cq,                                                              \
	  (struct ibv_context * ctx, int cqe, void *cq_context, struct ibv_comp_channel *channel,  \
	   int comp_vector))                                                                       \
	X(int, destroy_cq, (struct ibv_cq * cq))                                                   \
	X(int, get_cq_event,                                                                       \
	  (struct ibv_comp_channel * channel, struct ibv_cq * *cq, void **cq_context))             \
	X(void, ack_cq_events, (struct ibv_cq * cq, unsigned int nevents))                         \
	X(struct ibv_qp *, create_qp, (struct ibv_pd * pd, struct ibv_qp_init_attr * attr))        \
	X(struct ibv_qp_ex *, qp_to_qp_ex, (struct ibv_qp * qp))                                   \
	X(int, modify_qp, (struct ibv_qp * qp, struct ibv_qp_attr * attr, int mask))               \
	X(int, destroy_qp, (struct ibv_qp * qp))                                                   \
	X(struct ibv_srq *, create_srq, (struct ibv_pd * pd, struct ibv_srq_init_attr * attr))     \
	X(int, destroy_srq, (struct ibv_srq * srq))                                                \
	X(struct ibv_ah *, create_ah, (struct ibv_pd * pd, struct ibv_ah_attr * attr))             \
	X(int, destroy_ah, (struct ibv_ah * ah))

/* X(type, name without mlx5dv_, parameters): of the library of NICs that mlx5 drives */
#define NIC_MLX5_LIB(X)                                                                            \
	X(bool, is_supported, (struct ibv_device * device))                                        \
	X(struct mlx5dv_sched_node *, sched_node_create,                                           \
	  (struct ibv_context * ctx, const struct mlx5dv_sched_attr *attr))                        \
	X(int, sched_node_modify,                                                                  \
	  (struct mlx5dv_sched_node * node, const struct mlx5dv_sched_attr *attr))                 \
	X(int, sched_node_destroy, (struct mlx5dv_sched_node * node))                              \
	X(struct mlx5dv_sched_leaf *, sched_leaf_create,                                           \
	  (struct ibv_context * ctx, const struct mlx5dv_sched_attr *attr))                        \
	X(int, sched_leaf_modify,                                                                  \
	  (struct mlx5dv_sched_leaf * leaf, const struct mlx5dv_sched_attr *attr))                 \
	X(int, sched_leaf_destroy, (struct mlx5dv_sched_leaf * leaf))                              \
	X(int, modify_qp_sched_elem,                                                               \
	  (struct ibv_qp * qp, const struct mlx5dv_sched_leaf *requestor,                          \
	   const struct mlx5dv_sched_leaf *responder))

struct nic_lib {
#define X(type, name, params) type(*name) params;
	NIC_LIB(X)
#undef X
	/* _ibv_query_gid_ex() */
	int (*query_gid_ex)(struct ibv_context *ctx, uint32_t port, uint32_t index,
			    struct ibv_gid_entry *entry, uint32_t flags, size_t size);
	struct { /* all NULL where the host has no libmlx5, or an old one */
#define X(type, name, params) type(*name) params;
		NIC_MLX5_LIB(X)
#undef X
	} mlx5;
};

/* Load the library, for good. 0; or -errno, and *why says what is wrong with it */
int nic_lib_load(struct nic_lib *lib, const char **why);

#endif
