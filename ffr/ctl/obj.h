/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * obj.h - what the handlers share: putting objects into their tables, rings, limits.
 */
#ifndef FFR_CTL_OBJ_H
#define FFR_CTL_OBJ_H

#include <errno.h>

#include "ffr/ctl/ctl.h"
#include "ffr/mem/stall.h"
#include "ffr/obj/qp_state.h"

#define CTL_NUM_PORTS 1u /* of the device */

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
/* The end of an object of a kind, by its own call or with its session, when it is in no table any more. */
struct obj_ops {
	/*
	 * [lock], which may be given up on the way: nobody finds it afterwards, and what it has used may go.
	 * NULL: nobody but its table knew it.
	 */
	void (*forget)(struct fast *f, struct obj *o);
	void (*free)(struct obj *o); /* its memory, and what is its own */
};
extern const struct obj_ops mr_obj_ops, cq_obj_ops, srq_obj_ops, qp_obj_ops, xrcd_obj_ops,
	mw_obj_ops, dm_obj_ops, pd_obj_ops, channel_obj_ops, ah_obj_ops;
extern const struct obj_ops *const obj_ops[OBJ_NUM_KINDS]; /* session.c; CM ids have none */
/* What allows to add and to remove objects of that kind of a session on that thread; fast.h tells why. */
void ctl_obj_lock(struct fast *f, unsigned kind);
void ctl_obj_unlock(struct fast *f, unsigned kind);
/* 0, or -EBUSY: others use it. */
int ctl_obj_destroy(struct obj *o);

/*
 * look.c: have the keeper find the files of the call's claims on shared mappings, and then make the
 * call once more, by `serve`, with a copy of the request of `size` bytes and with c->found. False:
 * there is nothing to be found, or the keeper was asked already. writes: only what is writable.
 */
bool ctl_look(struct ctl_call *c, bool writes, ctl_serve_fn *serve, const void *req, size_t size);
/*
 * 0, or -EINPROGRESS: the container has to wait before files are mapped for it (mem/stall.c), and asks again. Only
 * with a NIC, which does not reach at all what is not mapped; else it is copied.
 */
static inline int ctl_map_wait(const struct ctl_call *c)
{
	return carriers_make_objects(c->s->fast) && stall_room_in(c->s->cont) ? -EINPROGRESS : 0;
}

/* The call that destroys an object by its handle, the request's `field`; find() is its table's. */
#define CTL_DESTROY(call, find, field)                                                             \
	int ctl_##call(struct ctl_call *c, const struct ff_##call##_req *req,                      \
		       struct ff_##call##_resp *resp)                                              \
	{                                                                                          \
		typeof(find(c->s, req->field)) it = find(c->s, req->field);                        \
                                                                                                   \
		(void)resp;                                                                        \
		return it ? ctl_obj_destroy(&it->o) : -EINVAL;                                     \
	}

/*
 * copies.c: copies of the session's memory that are queued are begun anew, so that they look again what is there; 0, or
 * CTL_LATER: the call is answered with 0 when those under way have ended, after 0.2 s at the latest.
 */
int ctl_after_copies(struct ctl_call *c);
/* What the answer to each way of registering tells of the MR. */
#define MR_TELL(resp, of)                                                                          \
	do {                                                                                       \
		(resp)->mr = (of)->o.handle;                                                       \
		(resp)->lkey = (of)->lkey;                                                         \
		(resp)->rkey = (of)->rkey;                                                         \
	} while (0)

/*
 * mr.c: have the carrier make its part of an MR that has its pages and o.ses, enter the MR, and publish it. err: what
 * finding the pages has led to. The MR is freed when it fails.
 */
int ctl_mr_done(struct ctl_call *c, struct mr *mr, int err);

/* A zeroed ring block of `size` bytes within the session's limit: at->seg, at->off, its address. */
int ctl_ring_alloc(struct ctl_call *c, uint64_t size, struct ff_ring_at *at, uint8_t **map);
/*
 * The same for a ring that a runner may use before a call names it: in a sealed segment (seg.c). -EAGAIN: there is a
 * segment with room, but it is not sealed. The client maps and seals it, and makes the call again.
 */
int ctl_ring_alloc_sealed(struct ctl_call *c, uint64_t size, struct ff_ring_at *at, uint8_t **map);
void ctl_ring_free(struct session *s, const struct ff_ring_at *at, uint64_t size);

/*
 * The object of that handle, whose rings are in a segment that the client has sealed: a client that knows the handle
 * has mapped and sealed the segment (seg.c). NULL: there is none, or the segment is not sealed. Handlers of calls find
 * CQs, SRQs, QPs and DMs by these; test_ctl.c tries each call that names one.
 */
static inline struct cq *cq_get(struct session *s, uint32_t handle)
{
	struct cq *cq = cq_get_unsealed(s, handle);

	return cq && !seg_check(s, cq->at.seg) ? cq : NULL;
}

static inline struct srq *srq_get(struct session *s, uint32_t handle)
{
	struct srq *srq = srq_get_unsealed(s, handle);

	return srq && !seg_check(s, srq->at.seg) ? srq : NULL;
}

static inline struct qp *qp_get(struct session *s, uint32_t handle)
{
	struct qp *qp = qp_get_unsealed(s, handle);

	return qp && !seg_check(s, qp->sq_at.seg) ? qp : NULL;
}

static inline struct dm *dm_get(struct session *s, uint32_t handle)
{
	struct dm *dm = dm_get_unsealed(s, handle);

	return dm && !seg_check(s, dm->seg) ? dm : NULL;
}

/* xrc.c: CREATE_QP of an XRC_RECV QP; the end of a session's handle of one, as struct obj_ops has it. */
int ctl_create_xrc_recv(struct ctl_call *c, const struct ff_create_qp_req *req,
			struct ff_create_qp_resp *resp);
void ctl_forget_xrc_recv(struct fast *f, struct qp *user);

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
