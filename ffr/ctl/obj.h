/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * obj.h - what the handlers share: putting objects into their tables, rings, limits.
 */
#ifndef FFR_CTL_OBJ_H
#define FFR_CTL_OBJ_H

#include "ffr/ctl/ctl.h"
#include "ffr/obj/qp_state.h"

static inline uint32_t pow2_ceil(uint32_t n)
{
	return n <= 1 ? 1 : 1u << (32 - __builtin_clz(n - 1));
}

/*
 * [lock] Give the object its handle. 0 or -ENOMEM: the session has as many as it may, or a quota of
 * the container is used up. It has all that the quotas count (quota.h).
 */
int ctl_obj_insert(struct session *s, enum obj_kind kind, struct obj *o);
void ctl_obj_remove(struct session *s, struct obj *o); /* [lock] */
/* [lock] Take it out again. 0, or -EBUSY when others use it. */
int ctl_obj_take(struct session *s, struct obj *o);
/* The common end of an object that nothing but its table knows: take and free. 0 or -EBUSY. */
int ctl_obj_destroy(struct ctl_call *c, struct obj *o);

/* mr.c: enter an MR that has its pages and o.ses, and publish it; not freed when it fails. */
int ctl_mr_add(struct ctl_call *c, struct mr *mr);

/* A zeroed ring block of `size` bytes within the session's limit: at->seg, at->off, its address. */
int ctl_ring_alloc(struct ctl_call *c, uint64_t size, struct ff_ring_at *at, uint8_t **map);
void ctl_ring_free(struct ctl_call *c, const struct ff_ring_at *at, uint64_t size);

/* xrc.c: CREATE_QP of an XRC_RECV QP; DESTROY_QP of a session's handle of one. */
int ctl_create_xrc_recv(struct ctl_call *c, const struct ff_create_qp_req *req,
			struct ff_create_qp_resp *resp);
int ctl_destroy_xrc_recv(struct ctl_call *c, struct qp *user);

/* What qp_state.c and ah_attr_check() need to know of the port of a container's sessions. */
struct qp_limits ctl_qp_limits(const struct ctl *ctl, const struct container *c);

#define CTL_QP_STEPS 3u
/*
 * qp.c: modify_qp, up to CTL_QP_STEPS times in a row: all of them, or, with -errno, none. The
 * handles in `step` mean nothing. *now: its state then, enum ibv_qp_state.
 */
int ctl_qp_walk(const struct ctl *ctl, struct qp *qp, const struct ff_modify_qp_req *step,
		unsigned n, uint32_t *now);

#endif
