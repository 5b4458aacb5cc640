/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mcast.c - joining and leaving multicast groups. Any thread; neighbour: event.c, which
 * attaches the id's QP when the group was joined.
 *
 * A membership is in its id's list from before the request to the router, since another thread may
 * take the event before this one has the answer. It is found by the number in its events.
 */
#include <stdlib.h>
#include <string.h>

#include "ffl/cm/cm.h"

/* Take it off its id's list. Call with cm_lock held. */
static void mc_unlink(struct cm_id *id, struct cm_mc *mc)
{
	struct cm_mc **p;

	for (p = &id->mcs; *p != mc; p = &(*p)->next)
		;
	*p = mc->next;
}

static int join(struct cm_id *id, const struct sockaddr *addr, uint32_t flags, void *context)
{
	struct ff_cm_join_req req = { .id = id->handle, .join_flags = flags };
	struct ff_cm_join_resp resp;
	socklen_t len = cm_addrlen(addr);
	struct cm_mc *mc;
	int err;

	if (!len)
		return -EINVAL;
	mc = calloc(1, sizeof(*mc));
	if (!mc)
		return -ENOMEM;
	mc->context = context;
	mc->join_flags = flags;
	memcpy(&mc->addr, addr, len);
	req.addr = mc->addr;

	pthread_mutex_lock(&cm_lock);
	req.uid = mc->uid = ++id->num_joins;
	mc->next = id->mcs;
	id->mcs = mc;
	pthread_mutex_unlock(&cm_lock);
	err = CM_CALL(id->ses, CM_JOIN, &req, &resp);
	pthread_mutex_lock(&cm_lock);
	if (err)
		mc_unlink(id, mc);
	else
		mc->handle = resp.mc;
	pthread_mutex_unlock(&cm_lock);
	if (err) {
		free(mc);
		return err;
	}
	return cm_complete(id);
}

FFL_EXPORT int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	return cm_ret(join(to_id(id), addr, RDMA_MC_JOIN_FLAG_FULLMEMBER, context));
}

FFL_EXPORT int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr,
				      void *context)
{
	const uint32_t need = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;

	if (attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED)
		return cm_ret(-ENOTSUP);
	if ((attr->comp_mask & need) != need || attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return cm_ret(-EINVAL);
	return cm_ret(join(to_id(id), attr->addr, attr->join_flags, context));
}

/* A join that has not been answered is cancelled. Waits for events that are not acknowledged. */
FFL_EXPORT int rdma_leave_multicast(struct rdma_cm_id *cm_id, struct sockaddr *addr)
{
	struct cm_id *id = to_id(cm_id);
	struct ff_cm_leave_req req = { .id = id->handle };
	struct ff_cm_leave_resp resp;
	socklen_t len = cm_addrlen(addr);
	struct cm_mc *mc;
	int err;

	if (!len)
		return cm_ret(-EINVAL);
	pthread_mutex_lock(&cm_lock);
	for (mc = id->mcs; mc && memcmp(&mc->addr, addr, len); mc = mc->next)
		;
	if (mc) {
		mc_unlink(id, mc);
		req.mc = mc->handle;
	}
	pthread_mutex_unlock(&cm_lock);
	if (!mc)
		return cm_ret(-EADDRNOTAVAIL);

	if (cm_id->qp && mc->join_flags != RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER)
		ibv_detach_mcast(cm_id->qp, &mc->mgid, mc->mlid);
	err = CM_CALL(id->ses, CM_LEAVE, &req, &resp);
	if (!err)
		cm_channel_forget_mc(to_channel(cm_id->channel), id, req.mc);
	cm_events_drain(id, &mc->ev);
	free(mc);
	return cm_ret(err);
}
