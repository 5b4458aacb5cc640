/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* mlx5_fake.c - see mlx5_fake.h. One thread. */
#include "tests/lib/mlx5_fake.h"
#include "tests/lib/nic_fake_int.h"

#include <errno.h>
#include <string.h>

struct mlx5_fake mlx5_fake;

static unsigned fail_at;
static int fail_errno;

static int fails(void)
{
	mlx5_fake.calls++;
	if (!fail_at || --fail_at)
		return 0;
	errno = fail_errno;
	return errno;
}

void mlx5_fake_fail(unsigned nth, int err)
{
	fail_at = nth;
	fail_errno = err;
}

unsigned mlx5_fake_there(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < mlx5_fake.made; i++)
		n += mlx5_fake.elem[i].is_there;
	return n;
}

static bool is_supported(struct ibv_device *device)
{
	MUST(device);
	return true;
}

static struct mlx5_fake_elem *make(const struct mlx5dv_sched_attr *attr, bool is_leaf)
{
	struct mlx5_fake_elem *e = &mlx5_fake.elem[mlx5_fake.made], *parent = (void *)attr->parent;

	if (fails())
		return NULL;
	MUST(!attr->comp_mask && mlx5_fake.made < MLX5_FAKE_ELEMS);
	if (parent ? !parent->is_there || parent->is_leaf : is_leaf || attr->flags) {
		errno = EINVAL;
		return NULL;
	}
	mlx5_fake.made++;
	*e = (struct mlx5_fake_elem){ .parent = parent, .is_leaf = is_leaf, .is_there = true };
	if (attr->flags & MLX5DV_SCHED_ELEM_ATTR_FLAGS_MAX_AVG_BW)
		e->mbit = attr->max_avg_bw;
	if (parent)
		parent->below++;
	return e;
}

static int change(struct mlx5_fake_elem *e, const struct mlx5dv_sched_attr *attr)
{
	int err = fails();

	if (err)
		return err;
	MUST(e->is_there && e->parent == (void *)attr->parent && e->parent);
	e->mbit = attr->max_avg_bw;
	return 0;
}

static int end(struct mlx5_fake_elem *e)
{
	int err = fails();

	MUST(e->is_there);
	if (!err && e->below)
		err = EBUSY;
	if (err) {
		errno = err;
		return err;
	}
	e->is_there = false;
	if (e->parent)
		e->parent->below--;
	return 0;
}

static struct mlx5dv_sched_node *sched_node_create(struct ibv_context *ctx,
						   const struct mlx5dv_sched_attr *attr)
{
	MUST(ctx);
	return (void *)make(attr, false);
}

static int sched_node_modify(struct mlx5dv_sched_node *node, const struct mlx5dv_sched_attr *attr)
{
	return change((void *)node, attr);
}

static int sched_node_destroy(struct mlx5dv_sched_node *node)
{
	return end((void *)node);
}

static struct mlx5dv_sched_leaf *sched_leaf_create(struct ibv_context *ctx,
						   const struct mlx5dv_sched_attr *attr)
{
	MUST(ctx);
	return (void *)make(attr, true);
}

static int sched_leaf_modify(struct mlx5dv_sched_leaf *leaf, const struct mlx5dv_sched_attr *attr)
{
	return change((void *)leaf, attr);
}

static int sched_leaf_destroy(struct mlx5dv_sched_leaf *leaf)
{
	return end((void *)leaf);
}

static int modify_qp_sched_elem(struct ibv_qp *qp, const struct mlx5dv_sched_leaf *requestor,
				const struct mlx5dv_sched_leaf *responder)
{
	struct mlx5_fake_elem *sends = (void *)requestor, *answers = (void *)responder;
	enum ibv_qp_state state = nic_fake_state(qp);
	int err = fails();

	if (err)
		return err;
	if (answers && qp->qp_type != IBV_QPT_RC)
		return EINVAL;
	if (state != IBV_QPS_INIT && state != IBV_QPS_RTS)
		return EOPNOTSUPP;
	MUST(sends->is_there && sends->is_leaf && (!answers || answers->is_there));
	MUST(mlx5_fake.num_joined < MLX5_FAKE_QPS);
	mlx5_fake.joined[mlx5_fake.num_joined].qp = qp;
	mlx5_fake.joined[mlx5_fake.num_joined].sends = sends;
	mlx5_fake.joined[mlx5_fake.num_joined++].answers = answers;
	return 0;
}

void mlx5_fake_load(struct nic_lib *lib)
{
	memset(&mlx5_fake, 0, sizeof(mlx5_fake));
	fail_at = 0;
#define X(type, name, params) lib->mlx5.name = name;
	NIC_MLX5_LIB(X)
#undef X
}
