/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mcast.c - handlers of multicast: attach and detach a UD QP. Control thread.
 *
 * The checks are those of the kernel's ib_attach_mcast() for a device with Ethernet ports, where
 * any LID is as good as another. What a group is, and its limits: soft/mcast.c.
 */
#include <errno.h>
#include <string.h>

#include "ffr/ctl/obj.h"
#include "ffr/dir/dir.h"
#include "ffr/obj/ledger.h"
#include "ffr/soft/soft.h"

/* The QP and the group's GID, or -EINVAL. */
static int check(struct ctl_call *c, uint32_t handle, const uint8_t raw[16], struct qp **qp,
		 union ibv_gid *gid)
{
	*qp = qp_get(c->s, handle);
	if (!*qp || (*qp)->type != IBV_QPT_UD || !gid_is_mcast(raw))
		return -EINVAL;
	memcpy(gid, raw, sizeof(*gid));
	return 0;
}

int ctl_attach_mcast(struct ctl_call *c, const struct ff_attach_mcast_req *req,
		     struct ff_attach_mcast_resp *resp)
{
	struct fast *f = c->ctl->host->threads[0]; /* where the container will be */
	union ibv_gid gid;
	struct qp *qp;
	int err;

	err = check(c, req->qp, req->gid, &qp, &gid);
	if (!err)
		err = fast_need_first(c->s->cont);
	if (err)
		return err;
	fast_lock(f->host);
	err = mcast_attach(f, qp, &gid, req->lid);
	resp->pending = !err && dir_mcast_pending(f, c->s->cont->tenant, &gid);
	fast_unlock(f->host);
	if (!err)
		ledger_bar(c->s->ledger, LEDGER_BAR_GROUP);
	return err;
}

int ctl_detach_mcast(struct ctl_call *c, const struct ff_detach_mcast_req *req,
		     struct ff_detach_mcast_resp *resp)
{
	struct fast *f = c->s->fast;
	union ibv_gid gid;
	struct qp *qp;
	int err;

	(void)resp;
	err = check(c, req->qp, req->gid, &qp, &gid);
	if (err)
		return err;
	fast_lock(f->host);
	err = mcast_detach(f, qp, &gid, req->lid);
	fast_unlock(f->host);
	return err;
}
