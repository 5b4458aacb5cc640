/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * qp.c - what the client's QP must become for an id: attributes and mask for ibv_modify_qp(), and
 * doing it. Control thread.
 *
 * The values are the kernel's (ib_cm_init_qp_attr(), cma_ib_init_qp_attr()), within what the device
 * can do.
 */
#include <errno.h>
#include <string.h>

#include "ffr/cm/internal.h"
#include "ffr/ctl/obj.h"
#include "ffr/ctl/import.h"

static bool is_connecting(const struct cm_id *id)
{
	return id->state >= CM_REQ_SENT && id->state <= CM_ESTABLISHED;
}

/* Has the kernel's id an IB CM id by now? Then that decides which attributes there are. */
static bool has_ib_cm(const struct cm_id *id)
{
	return id->qp_type != IBV_QPT_UD && id->state >= CM_LISTEN;
}

static uint8_t at_most(uint8_t n, uint32_t max)
{
	return n < max ? n : (uint8_t)max;
}

static bool is_requester(const struct cm_id *id)
{
	return id->qp_type == IBV_QPT_RC || id->qp_type == IBV_QPT_XRC_SEND;
}

static bool is_responder(const struct cm_id *id)
{
	return id->qp_type == IBV_QPT_RC || id->qp_type == IBV_QPT_XRC_RECV;
}

static int init_attr(struct cm_id *id, struct ff_qp_attr *a, uint32_t *mask)
{
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	a->port_num = CM_PORT_NUM;
	if (id->qp_type == IBV_QPT_UD) {
		*mask |= IBV_QP_QKEY;
		cm_qkey(id, 0);
		a->qkey = id->qkey;
		return 0;
	}
	*mask |= IBV_QP_ACCESS_FLAGS;
	if (!is_connecting(id)) /* a QP made before it has a peer */
		return has_ib_cm(id) ? -EINVAL : 0;
	a->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (id->responder_resources)
		a->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	return 0;
}

static int rtr_attr(struct cm_id *id, struct ff_qp_attr *a, uint32_t *mask)
{
	*mask = IBV_QP_STATE;
	if (id->qp_type == IBV_QPT_UD)
		return 0;
	if (!is_connecting(id) || id->state == CM_REQ_SENT)
		return -EINVAL;
	*mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	memcpy(a->ah.dgid, &id->dgid, sizeof(a->ah.dgid));
	a->ah.is_global = 1;
	a->ah.sgid_index = id->sgid_index;
	a->ah.hop_limit = CM_HOP_LIMIT;
	a->ah.traffic_class = id->tos;
	a->ah.port_num = CM_PORT_NUM;
	a->path_mtu = id->path_mtu ? id->path_mtu : CM_PATH_MTU;
	a->dest_qp_num = id->peer_qpn;
	a->rq_psn = id->psn;
	if (!is_responder(id))
		return 0;
	*mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	a->max_dest_rd_atomic = at_most(id->responder_resources, id->cm->ctl->dev.max_qp_rd_atom);
	return 0;
}

static int rts_attr(struct cm_id *id, struct ff_qp_attr *a, uint32_t *mask)
{
	*mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (id->qp_type == IBV_QPT_UD)
		return 0;
	if (!is_connecting(id) || id->state == CM_REQ_SENT)
		return -EINVAL;
	a->sq_psn = id->peer_psn;
	if (is_requester(id)) {
		*mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
		a->retry_cnt = id->retry_count;
		a->rnr_retry = id->rnr_retry_count;
		a->max_rd_atomic =
			at_most(id->initiator_depth, id->cm->ctl->dev.max_qp_init_rd_atom);
	}
	if (is_requester(id) || is_responder(id)) {
		*mask |= IBV_QP_TIMEOUT;
		a->timeout = id->has_ack_timeout ? id->ack_timeout : CM_ACK_TIMEOUT;
	}
	return 0;
}

/* What ibv_modify_qp() wants. 0, or -EINVAL: not in this state. */
static int cm_qp_attr(struct cm_id *id, uint32_t qp_state, struct ff_cm_init_qp_attr_resp *resp)
{
	if (!id->attached)
		return -EINVAL;
	resp->attr.qp_state = (uint8_t)qp_state;
	switch (qp_state) {
	case IBV_QPS_INIT:
		return init_attr(id, &resp->attr, &resp->mask);
	case IBV_QPS_RTR:
		return rtr_attr(id, &resp->attr, &resp->mask);
	case IBV_QPS_RTS:
		return rts_attr(id, &resp->attr, &resp->mask);
	default:
		return -EINVAL;
	}
}

int cm_qp_attr_told(struct cm_id *id, uint32_t qp_state, struct ff_cm_init_qp_attr_resp *resp)
{
	int err;

	if (has_ib_cm(id)) {
		err = cm_qp_attr(id, qp_state, resp);
		if (resp->mask & IBV_QP_AV)
			resp->attr.ah.sgid_index = cm_sgid_index(id);
		return err;
	}
	if (!id->attached || qp_state > IBV_QPS_ERR)
		return -EINVAL;
	resp->attr.qp_state = (uint8_t)qp_state;
	return init_attr(id, &resp->attr, &resp->mask);
}

/* ---- doing it -------------------------------------------------------------------------------- */

static struct qp *client_qp(const struct cm_id *id, uint32_t handle)
{
	struct session *dev = import_source(id->o.ses, id->device);

	return dev ? qp_get_unsealed(dev, handle) : NULL;
}

static int step_to(struct cm_id *id, uint32_t qp_state, struct ff_modify_qp_req *step)
{
	struct ff_cm_init_qp_attr_resp at = { 0 };
	int err = cm_qp_attr(id, qp_state, &at);

	*step = (struct ff_modify_qp_req){ .mask = at.mask, .attr = at.attr };
	return err;
}

int cm_qp_ready(struct cm_id *id, uint32_t handle, uint32_t *state)
{
	static const enum ibv_qp_state path[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };
	unsigned n = id->qp_type == IBV_QPT_UD ? ARRAY_SIZE(path) : 1;
	struct qp *qp = client_qp(id, handle);
	struct ff_modify_qp_req step[CTL_QP_STEPS];
	int err = qp ? 0 : -EINVAL;

	/* one in INIT waits for a further call; one of UD runners use at once */
	if (!err && n > 1 && seg_check(qp->o.ses, qp->sq_at.seg))
		err = -EAGAIN;
	for (unsigned i = 0; i < n && !err; i++)
		err = step_to(id, path[i], &step[i]);
	return err ? err : ctl_qp_walk(id->cm->ctl, qp, step, n, state);
}

int cm_qp_connect(struct cm_id *id, uint32_t handle, uint8_t responder_resources,
		  uint8_t initiator_depth)
{
	struct session *dev = import_source(id->o.ses, id->device);
	struct qp *qp = dev ? qp_get(dev, handle) : NULL;
	struct ff_modify_qp_req step[2];
	struct ff_qp_attr *rtr = &step[0].attr, *rts = &step[1].attr;
	int err = qp ? 0 : -EINVAL;
	uint32_t now;

	if (!err)
		err = step_to(id, IBV_QPS_RTR, &step[0]);
	if (!err)
		err = step_to(id, IBV_QPS_RTS, &step[1]);
	if (err)
		return err;
	/* What the peer may do follows from what was negotiated since the QP came to INIT. */
	rtr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (rtr->max_dest_rd_atomic)
		rtr->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	step[0].mask |= IBV_QP_ACCESS_FLAGS;
	if (responder_resources != RDMA_MAX_RESP_RES)
		rtr->max_dest_rd_atomic = responder_resources;
	if (initiator_depth != RDMA_MAX_INIT_DEPTH)
		rts->max_rd_atomic = initiator_depth;
	return ctl_qp_walk(id->cm->ctl, qp, step, 2, &now);
}
