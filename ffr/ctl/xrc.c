/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * xrc.c - handlers of XRC domains and of XRC_RECV QPs' handles. Control thread.
 *
 * The semantics are those of the kernel's uverbs. XRC SRQs are created in cq.c, XRC_SEND QPs
 * in qp.c: they differ from others by a field or two. What a domain is, fast/xrc.c tells.
 *
 * Tests: system/verbs_xrc.c
 */
#include <errno.h>
#include <stdlib.h>

#include "ffr/ctl/obj.h"
#include "ffr/fast/xrc.h"

/* [lock] The domain to be opened: found by its file, or `fresh`. */
static int xrcd_choose(struct container *c, const struct ff_open_xrcd_req *req, struct xrcd *fresh,
		       struct xrcd **out)
{
	struct xrcd *x = req->has_file ? xrcd_find(c, req->dev, req->ino) : NULL;

	if (req->has_file && !x && !(req->flags & FF_XRCD_CREATE))
		return -EAGAIN;
	if (x && req->flags & FF_XRCD_EXCLUSIVE)
		return -EINVAL;
	if (!x && c->num_xrcds >= XRCDS_MAX)
		return -ENOMEM;
	*out = x ? x : fresh;
	return 0;
}

int ctl_open_xrcd(struct ctl_call *c, const struct ff_open_xrcd_req *req,
		  struct ff_open_xrcd_resp *resp)
{
	struct xrcd *fresh, *x = NULL;
	struct xrcd_ref *ref;
	int err = -ENOMEM;

	if (req->flags & ~(FF_XRCD_CREATE | FF_XRCD_EXCLUSIVE) || req->has_file > 1)
		return -EINVAL;
	fresh = calloc(1, sizeof(*fresh));
	ref = calloc(1, sizeof(*ref));
	if (!fresh || !ref)
		goto err_free;
	fresh->has_file = req->has_file;
	fresh->dev = req->dev;
	fresh->ino = req->ino;

	fast_lock(c->ctl->host);
	err = xrcd_choose(c->s->cont, req, fresh, &x);
	if (!err)
		err = ctl_obj_insert(c->s, OBJ_XRCD, &ref->o);
	if (!err) {
		ref->xrcd = x;
		xrcd_hold(x, c->s->cont);
	}
	fast_unlock(c->ctl->host);
	if (err)
		goto err_free;
	if (x != fresh)
		free(fresh);
	resp->xrcd = ref->o.handle;
	return 0;

err_free:
	free(ref);
	free(fresh);
	return err;
}

CTL_DESTROY(close_xrcd, xrcd_get, xrcd)

/* The domain stays, if others have it, too. */
static void xrcd_forget(struct fast *f, struct obj *o)
{
	struct xrcd_ref *ref = obj_of(o, xrcd_ref);

	(void)f;
	if (!xrcd_release(ref->xrcd, o->ses->cont))
		ref->xrcd = NULL;
}

static void xrcd_free(struct obj *o)
{
	free(obj_of(o, xrcd_ref)->xrcd);
	free(o);
}

const struct obj_ops xrcd_obj_ops = { .forget = xrcd_forget, .free = xrcd_free };

/* ---- handles of XRC_RECV QPs ----------------------------------------------------------------- */

static struct qp *user_new(struct xrcd_ref *ref)
{
	struct qp *user = calloc(1, sizeof(*user));

	if (user) {
		user->type = IBV_QPT_XRC_RECV;
		user->state = IBV_QPS_RESET;
		user->xrc.ref = ref;
	}
	return user;
}

/* No queues, so what the request has of capabilities and CQs means nothing here. */
int ctl_create_xrc_recv(struct ctl_call *c, const struct ff_create_qp_req *req,
			struct ff_create_qp_resp *resp)
{
	struct xrcd_ref *ref = xrcd_get(c->s, req->xrcd);
	struct qp *t, *user;
	int err;

	if (!ref)
		return -EINVAL;
	err = fast_qpns_room(c->ctl->host);
	if (err)
		return err;
	t = xrc_target_new();
	user = user_new(ref);
	err = t && user ? 0 : -ENOMEM;
	if (err)
		goto err_free;
	fast_lock(c->ctl->host);
	err = ctl_obj_insert(c->s, OBJ_QP, &user->o);
	if (!err) {
		err = xrc_target_add(c->s->fast, t, user);
		if (err)
			ctl_obj_remove(c->s, &user->o);
		else
			ref->o.refs++;
	}
	fast_unlock(c->ctl->host);
	if (err)
		goto err_free;
	resp->qp = user->o.handle;
	resp->qp_num = user->qp_num;
	return 0;

err_free:
	xrc_target_free(t);
	free(user);
	return err;
}

int ctl_open_qp(struct ctl_call *c, const struct ff_open_qp_req *req, struct ff_open_qp_resp *resp)
{
	struct fast *f = c->s->fast;
	struct xrcd_ref *ref = xrcd_get(c->s, req->xrcd);
	struct qp *t, *user;
	int err;

	if (!ref || req->qp_type != IBV_QPT_XRC_RECV)
		return -EINVAL;
	user = user_new(ref);
	if (!user)
		return -ENOMEM;
	fast_lock(f->host);
	t = xrc_target_find(c->s->cont, ref->xrcd, req->qp_num);
	err = !t				? -EINVAL :
	      t->xrc.num_users >= XRC_USERS_MAX ? -ENOMEM :
						  ctl_obj_insert(c->s, OBJ_QP, &user->o);
	if (!err) {
		xrc_user_add(t, user);
		ref->o.refs++;
		resp->qp_state = t->state;
	}
	fast_unlock(f->host);
	if (err)
		free(user);
	else
		resp->qp = user->o.handle;
	return err;
}

/* The QP stays, if others have a handle of it, too; if not, user->xrc.target is to be freed. */
void ctl_forget_xrc_recv(struct fast *f, struct qp *user)
{
	user->xrc.target = xrc_user_del(f, user);
	user->xrc.ref->o.refs--;
}
