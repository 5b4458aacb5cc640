/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* fake_mlx5.c - see fake_mlx5.h. One thread. */
#include "tests/rig/fakes/fake_mlx5.h"
#include "tests/rig/fakes/fake_nic_int.h"

#include <errno.h>
#include <string.h>

struct fake_mlx5 fake_mlx5;

static unsigned fail_at;
static int fail_errno;

static int fails(void)
{
	fake_mlx5.calls++;
	if (!fail_at || --fail_at)
		return 0;
	errno = fail_errno;
	return errno;
}

void fake_mlx5_fail(unsigned nth, int err)
{
	fail_at = nth;
	fail_errno = err;
}

unsigned fake_mlx5_there(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < fake_mlx5.made; i++)
		n += fake_mlx5.elem[i].is_there;
	return n;
}

static bool is_supported(struct ibv_device *device)
{
	MUST(device);
	return true;
}

static struct fake_mlx5_elem *make(const struct mlx5dv_sched_attr *attr, bool is_leaf)
{
	struct fake_mlx5_elem *e = &fake_mlx5.elem[fake_mlx5.made], *parent = (void *)attr->parent;

	if (fails())
		return NULL;
	MUST(!attr->comp_mask && fake_mlx5.made < FAKE_MLX5_ELEMS);
	if (parent ? !parent->is_there || parent->is_leaf : is_leaf || attr->flags) {
		errno = EINVAL;
		return NULL;
	}
	fake_mlx5.made++;
	*e = (struct fake_mlx5_elem){ .parent = parent, .is_leaf = is_leaf, .is_there = true };
	if (attr->flags & MLX5DV_SCHED_ELEM_ATTR_FLAGS_MAX_AVG_BW)
		e->mbit = attr->max_avg_bw;
	if (parent)
		parent->below++;
	return e;
}

static int change(struct fake_mlx5_elem *e, const struct mlx5dv_sched_attr *attr)
{
	int err = fails();

	if (err)
		return err;
	MUST(e->is_there && e->parent == (void *)attr->parent && e->parent);
	e->mbit = attr->max_avg_bw;
	return 0;
}

static int end(struct fake_mlx5_elem *e)
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
	struct fake_mlx5_elem *sends = (void *)requestor, *answers = (void *)responder;
	enum ibv_qp_state state = fake_nic_state(qp);
	int err = fails();

	if (err)
		return err;
	if (answers && qp->qp_type != IBV_QPT_RC)
		return EINVAL;
	if (state != IBV_QPS_INIT && state != IBV_QPS_RTS)
		return EOPNOTSUPP;
	MUST(sends->is_there && sends->is_leaf && (!answers || answers->is_there));
	MUST(fake_mlx5.num_joined < FAKE_MLX5_QPS);
	fake_mlx5.joined[fake_mlx5.num_joined].qp = qp;
	fake_mlx5.joined[fake_mlx5.num_joined].sends = sends;
	fake_mlx5.joined[fake_mlx5.num_joined++].answers = answers;
	return 0;
}

void fake_mlx5_load(struct nic_lib *lib)
{
	memset(&fake_mlx5, 0, sizeof(fake_mlx5));
	fail_at = 0;
#define X(type, name, params) lib->mlx5.name = name;
	NIC_MLX5_LIB(X)
#undef X
}
