/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mw.c - handlers of memory windows. Control thread. What a window is and how it is bound, by
 * WRs, is in fast/mw.c.
 */
#include <errno.h>
#include <stdlib.h>

#include "ffr/ctl/obj.h"

int ctl_alloc_mw(struct ctl_call *c, const struct ff_alloc_mw_req *req,
		 struct ff_alloc_mw_resp *resp)
{
	struct pd *pd = pd_get(c->s, req->pd);
	struct mw *mw;
	int err;

	if (!pd || (req->type != IBV_MW_TYPE_1 && req->type != IBV_MW_TYPE_2))
		return -EINVAL;
	err = fast_keys_room(c->s->fast, &c->s->cont->windows);
	if (err)
		return err;
	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return -ENOMEM;
	mw->pd = pd;
	mw->type = (uint8_t)req->type;
	fast_lock_thread(c->s->fast);
	err = ctl_obj_insert(c->s, OBJ_MW, &mw->o);
	if (!err) {
		err = mw_key_new(c->s->cont, mw);
		if (err)
			ctl_obj_remove(c->s, &mw->o);
		else
			pd->o.refs++;
	}
	resp->mw = mw->o.handle;
	resp->rkey = mw->rkey; /* which a bind changes */
	fast_unlock_thread(c->s->fast);
	if (err) {
		free(mw);
		return err;
	}
	return 0;
}

/* A window that is bound may go (IBTA 11.2.8.10); its MR is free then. */
int ctl_dealloc_mw(struct ctl_call *c, const struct ff_dealloc_mw_req *req,
		   struct ff_dealloc_mw_resp *resp)
{
	struct mw *mw = mw_get(c->s, req->mw);
	uint32_t published;
	int err;

	(void)resp;
	if (!mw)
		return -EINVAL;
	published = mw->published;
	err = ctl_obj_destroy(&mw->o);
	if (!err && c->ctl->orch && published)
		c->ctl->hooks->rkey_gone(c->ctl->orch, c->s->cont->id, published);
	return err ? err : ctl_after_copies(c);
}

static void mw_obj_forget(struct fast *f, struct obj *o)
{
	fast_mw_del(f, obj_of(o, mw));
	obj_of(o, mw)->pd->o.refs--;
}

static void mw_obj_free(struct obj *o)
{
	free(o);
}

const struct obj_ops mw_obj_ops = { .forget = mw_obj_forget, .free = mw_obj_free };
