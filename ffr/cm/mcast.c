/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mcast.c - memberships in multicast groups. Control thread.
 *
 * A group needs nobody's leave on a RoCE fabric: joining it finds out what its MGID is and which
 * Q_Key goes with it. Datagrams come to QPs that are attached to the MGID, which the client does
 * when it has the event.
 */
#include <errno.h>
#include <stdlib.h>

#include "ffr/cm/internal.h"
#include "ffr/obj/quota.h"

int cm_join(struct cm_id *id, const struct ff_cm_join_req *req, uint32_t *num)
{
	struct ff_cm_event ev = {
		.event = RDMA_CM_EVENT_MULTICAST_JOIN,
		.ud_qp_num = 0xffffff,
		.ud_hop_limit = CM_HOP_LIMIT,
		.ud_traffic_class = id->tos,
		.ud_sgid_index = cm_sgid_index(id),
	};
	struct cm_addr group;
	struct cm_mc *mc;
	int err;

	if ((id->state != CM_BOUND && id->state != CM_ADDR_RESOLVED) || !id->attached ||
	    id->qp_type != IBV_QPT_UD)
		return -EINVAL;
	if (req->join_flags != RDMA_MC_JOIN_FLAG_FULLMEMBER &&
	    req->join_flags != RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER)
		return -EINVAL;
	err = cm_addr_parse(&group, &req->addr, id->ps);
	if (err)
		return err;
	if (!gid_is_mcast(group.gid.raw))
		return -EINVAL;
	err = cm_qkey(id, id->ps == RDMA_PS_UDP ? RDMA_UDP_QKEY : 0);
	if (err)
		return err;
	if (id->num_mcs >= CM_MAX_MC || id->num_events >= CM_MAX_EVENTS)
		return -ENOMEM;
	err = quota_charge(id->cont->c, QUOTA_OBJECT, 1);
	if (err)
		return err;
	mc = calloc(1, sizeof(*mc));
	if (!mc) {
		quota_return(id->cont->c, QUOTA_OBJECT, 1);
		return -ENOMEM;
	}
	mc->uid = req->uid;
	mc->num = *num = ++id->last_mc ? id->last_mc : ++id->last_mc;
	TAILQ_INSERT_HEAD(&id->mcs, mc, entry);
	id->num_mcs++;
	memcpy(ev.dgid, &group.gid, sizeof(ev.dgid));
	ev.ud_qkey = id->qkey;
	cm_event_mc(id, mc, &ev);
	return 0;
}

static void mc_free(struct cm_id *id, struct cm_mc *mc)
{
	struct cm_event *e, *next;

	for (e = TAILQ_FIRST(&id->events); e; e = next) {
		next = TAILQ_NEXT(e, of_id);
		if (e->mc == mc)
			cm_event_drop(e);
	}
	TAILQ_REMOVE(&id->mcs, mc, entry);
	id->num_mcs--;
	quota_return(id->cont->c, QUOTA_OBJECT, 1);
	free(mc);
}

int cm_leave(struct cm_id *id, uint32_t num, uint32_t *written)
{
	struct cm_mc *mc;

	TAILQ_FOREACH(mc, &id->mcs, entry)
		if (mc->num == num)
			break;
	if (!mc)
		return -ENOENT;
	*written = mc->written;
	mc_free(id, mc);
	return 0;
}

void cm_leave_all(struct cm_id *id)
{
	while (!TAILQ_EMPTY(&id->mcs))
		mc_free(id, TAILQ_FIRST(&id->mcs));
}
