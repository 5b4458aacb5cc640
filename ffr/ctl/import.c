/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * import.c - handlers of ibv_import_device, ibv_import_pd, ibv_import_mr. Control thread.
 *
 * Who has the context's cmd_fd may import its device: what the descriptor refers to holds a token,
 * which HELLO gave to the session that opened it. The importer has a session of its own (queues,
 * events, limits), usually in another process of the container, and may name PDs and MRs of the
 * first, its source, there. The connection manager's session of a program imports from a session of each device
 * that the program uses.
 *
 * An imported PD is a handle in the importer's table, `of` the real one; pd_get() gives the real
 * one, so that keys of MRs in it work for QPs that the importer makes in it. An imported MR has
 * no object at all: it is the source's, its bytes are moved in the memory of the process that
 * registered it, and it ends with that session. A PD is an identity only. So it may outlive its
 * session: it is kept while a session that has imported it lives, even after the latter gave its
 * handle back, since its objects may still name it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ffr/ctl/obj.h"
#include "ffr/ctl/import.h"
#include "ffr/obj/ledger.h"

struct session *import_source(struct session *s, unsigned device)
{
	uint32_t of = s->import.of[device];
	struct session *from;

	LIST_FOREACH(from, &s->cont->sessions, entry)
		if (of && from->id == of && from != s && !from->closing)
			return from;
	return NULL;
}

int ctl_import_device(struct ctl_call *c, const struct ff_import_device_req *req,
		      struct ff_import_device_resp *resp)
{
	static const uint32_t none[FF_DEVICES_MAX];
	struct session *from;
	uint32_t *of;

	LIST_FOREACH(from, &c->s->cont->sessions, entry)
		if (from != c->s && !from->closing &&
		    !memcmp(from->import.token, req->token, sizeof(from->import.token)))
			break;
	if (!from)
		return -ENODEV;
	of = c->s->import.of;
	if (of[from->device])
		return -EINVAL;
	if (!memcmp(of, none, sizeof(none)))
		c->s->device = from->device;
	of[from->device] = resp->session = from->id;
	ledger_bar(c->s->ledger, LEDGER_BAR_OBJECT);
	ledger_bar(from->ledger, LEDGER_BAR_OBJECT);
	return 0;
}

/* This session's handle of the PD, from an earlier import or new. NULL: no memory, or too many. */
static struct pd *import_of_pd(struct session *s, struct pd *real)
{
	struct pd *h;
	uint32_t n = 0;

	LIST_FOREACH(h, &s->import.pds, same_session) {
		if (h->of == real && !h->o.handle)
			return h;
		n++;
	}
	/* beside what a handle counts as: it stays when that is given back, and keeps the PD */
	if (n >= s->tab[OBJ_PD].max || quota_charge(s->cont, QUOTA_OBJECT, 1))
		return NULL;
	h = calloc(1, sizeof(*h));
	if (!h) {
		quota_return(s->cont, QUOTA_OBJECT, 1);
		return NULL;
	}
	h->of = real;
	real->num_imports++;
	LIST_INSERT_HEAD(&s->import.pds, h, same_session);
	return h;
}

int ctl_import_pd(struct ctl_call *c, const struct ff_import_pd_req *req,
		  struct ff_import_pd_resp *resp)
{
	struct session *from = import_source(c->s, c->s->device);
	struct pd *real, *h;
	int err;

	if (!from)
		return -ENODEV;
	real = pd_get(from, req->pd);
	if (!real)
		return -EINVAL;
	h = import_of_pd(c->s, real);
	if (!h)
		return -ENOMEM;
	fast_lock_thread(c->s->fast);
	err = ctl_obj_insert(c->s, OBJ_PD, &h->o);
	fast_unlock_thread(c->s->fast);
	resp->pd = h->o.handle;
	return err;
}

int ctl_import_mr(struct ctl_call *c, const struct ff_import_mr_req *req,
		  struct ff_import_mr_resp *resp)
{
	struct session *from = import_source(c->s, c->s->device);
	struct pd *pd = pd_get(c->s, req->pd);
	struct mr *mr;

	if (!from)
		return -ENODEV;
	mr = mr_get(from, req->mr);
	if (!pd || !mr || mr->pd != pd)
		return -EINVAL;
	resp->length = mr->length;
	resp->iova = mr->iova;
	resp->lkey = mr->lkey;
	resp->rkey = mr->rkey;
	return 0;
}

/* ---- PDs ------------------------------------------------------------------------------------- */

/* Nobody has it any more. */
static void pd_end(const struct session *s, struct pd *pd)
{
	CARRIERS_FIRST(end, s->fast, OBJ_PD, &pd->o, NULL);
	free(pd);
}

static void pd_free(struct obj *o)
{
	struct pd *pd = obj_of(o, pd);

	if (pd->of)
		return; /* its session has it listed */
	pd->is_gone = true;
	if (!pd->num_imports)
		pd_end(o->ses, pd);
}

const struct obj_ops pd_obj_ops = { .free = pd_free };

int import_pd_dealloc(struct ctl_call *c, struct pd *handle, bool unimport)
{
	struct pd *real = handle->of;
	int err = 0;

	fast_lock_thread(c->s->fast);
	if (!unimport && !real->is_gone && real->o.refs)
		err = -EBUSY;
	if (!err && !unimport && !real->is_gone)
		ctl_obj_remove(real->o.ses, &real->o);
	if (!err)
		ctl_obj_remove(c->s, &handle->o);
	fast_unlock_thread(c->s->fast);
	if (err)
		return err;
	handle->o.handle = 0;
	if (!unimport)
		real->is_gone = true;
	return 0;
}

/* ---- the end of a session -------------------------------------------------------------------- */

void import_session_free(struct session *s)
{
	struct pd *h;

	while ((h = LIST_FIRST(&s->import.pds))) {
		LIST_REMOVE(h, same_session);
		if (!--h->of->num_imports && h->of->is_gone)
			pd_end(s, h->of);
		quota_return(s->cont, QUOTA_OBJECT, 1);
		free(h);
	}
}
