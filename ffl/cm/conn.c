/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * conn.c - connecting: connect, accept, reject, establish, disconnect, and what goes with them.
 * Any thread; neighbours: verbs.c, which moves the QP, event.c, which hears of the outcome.
 *
 * The active side connects; the passive side's QP is in RTS before the peer, which may send then,
 * hears that it accepts; the active side's is moved when the answer is taken out of its channel, and
 * only then the peer is told (CM_ESTABLISH, the IB CM's RTU). UD services have no connection:
 * connect asks for the QP's number, accept tells it.
 *
 * Tests: system/cm_connect.c, system/cm_ids.c
 */
#include <stdlib.h>
#include <string.h>

#include "ffl/cm/cm.h"

#define REJ_CONSUMER	  0  /* the router's default: consumer defined */
#define REJ_VENDOR_OPTION 35 /* IB CM reject reason: vendor option not supported */

/* Private data of a request: what rdma_create_ep() was given, then the program's. */
struct data {
	uint8_t b[FF_CM_PD_MAX];
	unsigned len;
};

static int data_add(struct data *d, const void *data, size_t len)
{
	if (!data || !len)
		return 0;
	if (len > sizeof(d->b) - d->len)
		return -EINVAL;
	memcpy(d->b + d->len, data, len);
	d->len += (unsigned)len;
	return 0;
}

/* As the kernel's clients are checked: for connections over RDMA_PS_TCP only. */
static int check_param(const struct cm_id *id, const struct rdma_conn_param *p)
{
	if (id->id.ps != RDMA_PS_TCP)
		return 0;
	if (!id->id.qp && !p)
		return -EINVAL;
	if (!p)
		return 0;
	if (p->responder_resources != RDMA_MAX_RESP_RES &&
	    p->responder_resources > id->ses->max_responder_resources)
		return -EINVAL;
	if (p->initiator_depth != RDMA_MAX_INIT_DEPTH &&
	    p->initiator_depth > id->ses->max_initiator_depth)
		return -EINVAL;
	return 0;
}

static void fill_param(struct ff_cm_param *to, const struct cm_id *id,
		       const struct rdma_conn_param *from)
{
	const struct ibv_qp *qp = id->id.qp;

	*to = (struct ff_cm_param){
		.qp_num = qp   ? qp->qp_num :
			  from ? from->qp_num :
				 0,
		.srq = qp   ? !!qp->srq :
		       from ? from->srq :
			      0,
		.has_qp = !!qp,
		.qp_type = (uint8_t)id->id.qp_type,
		.responder_resources = id->responder_resources,
		.initiator_depth = id->initiator_depth,
		.flow_control = from ? from->flow_control : 0,
		.retry_count = from ? from->retry_count : 7,
		.rnr_retry_count = from ? from->rnr_retry_count : 7,
	};
}

/* ---- the active side ----------------------------------------------------------------------------------- */

FFL_EXPORT int rdma_connect(struct rdma_cm_id *cm_id, struct rdma_conn_param *param)
{
	struct cm_id *id = to_id(cm_id);
	struct ff_cm_connect_req req = { .id = id->handle };
	struct ff_cm_connect_resp resp;
	struct data d = { .len = 0 };
	int err;

	err = check_param(id, param);
	if (err)
		return cm_ret(err);
	id->initiator_depth = param && param->initiator_depth != RDMA_MAX_INIT_DEPTH ?
				      param->initiator_depth :
				      id->ses->max_initiator_depth;
	id->responder_resources = param && param->responder_resources != RDMA_MAX_RESP_RES ?
					  param->responder_resources :
					  id->ses->max_responder_resources;
	err = data_add(&d, id->connect_data, id->connect_len);
	if (!err && param)
		err = data_add(&d, param->private_data, param->private_data_len);
	if (err)
		return cm_ret(err);
	fill_param(&req.param, id, param);
	req.ece.vendor_id = id->local_ece.vendor_id;
	req.ece.options = id->local_ece.options;
	err = CM_CALL_DATA(id->ses, CM_CONNECT, &req, d.b, d.len, &resp);
	if (err)
		return cm_ret(err);
	free(id->connect_data);
	id->connect_data = NULL;
	id->connect_len = 0;
	return cm_ret(cm_complete(id));
}

/* Only for ids without a QP: with one, rdma_get_cm_event() has done it. */
FFL_EXPORT int rdma_establish(struct rdma_cm_id *cm_id)
{
	if (cm_id->qp)
		return cm_ret(-EINVAL);
	return cm_ret(cm_establish(to_id(cm_id)));
}

FFL_EXPORT int rdma_notify(struct rdma_cm_id *cm_id, enum ibv_event_type event)
{
	struct cm_id *id = to_id(cm_id);
	struct ff_cm_establish_req req = { .id = id->handle, .event = (uint32_t)event };
	struct ff_cm_establish_resp resp;

	if (req.event == UINT32_MAX) /* which is cm_establish()'s */
		return cm_ret(-EINVAL);
	return cm_ret(CM_CALL(id->ses, CM_ESTABLISH, &req, &resp));
}

/* ---- the passive side ---------------------------------------------------------------------------------- */

/* The next request of a synchronous listener, with a QP if rdma_create_ep() was given one. */
FFL_EXPORT int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)
{
	struct cm_id *l = to_id(listen);
	struct ibv_qp_init_attr attr;
	struct rdma_cm_event *event;
	int err;

	if (!l->sync)
		return cm_ret(-EINVAL);
	cm_event_drop(l);
	if (rdma_get_cm_event(listen->channel, &event))
		return -1;
	if (event->event == RDMA_CM_EVENT_REJECTED)
		err = -ECONNREFUSED;
	else if (event->status)
		err = event->status < 0 ? event->status : -event->status;
	else if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		err = -EINVAL;
	else
		err = 0;
	if (!err && l->listen_qp_attr) {
		attr = *l->listen_qp_attr;
		if (rdma_create_qp(event->id, listen->pd, &attr))
			err = -errno;
	}
	if (err) {
		listen->event = event;
		return cm_ret(err);
	}
	*id = event->id;
	(*id)->event = event;
	return 0;
}

static uint8_t at_most(uint8_t value, uint8_t max)
{
	return value < max ? value : max;
}

FFL_EXPORT int rdma_accept(struct rdma_cm_id *cm_id, struct rdma_conn_param *param)
{
	struct cm_id *id = to_id(cm_id);
	struct ff_cm_accept_req req = { .id = id->handle, .uid = (uintptr_t)id };
	bool ud = cm_id->qp_type == IBV_QPT_UD;
	struct data d = { .len = 0 };
	int err;

	if (!cm_id->qp && !param)
		return cm_ret(-EINVAL);
	err = check_param(id, param);
	if (err)
		return cm_ret(err);
	id->initiator_depth = param && param->initiator_depth != RDMA_MAX_INIT_DEPTH ?
				      param->initiator_depth :
				      at_most(id->initiator_depth, id->ses->max_initiator_depth);
	id->responder_resources =
		param && param->responder_resources != RDMA_MAX_RESP_RES ?
			param->responder_resources :
			at_most(id->responder_resources, id->ses->max_responder_resources);
	if (param)
		err = data_add(&d, param->private_data, param->private_data_len);
	if (err)
		return cm_ret(err);
	fill_param(&req.param, id, param);
	req.ece.vendor_id = id->remote_ece.vendor_id;
	req.ece.options = id->local_ece.options;
	err = cm_qp_accept(id, &req, d.b, d.len);
	if (err && d.len > FF_CM_PD_REP) /* it became a refusal */
		cm_qp_error(id);
	if (err)
		return cm_ret(err);
	if (!ud)
		return cm_ret(cm_complete(id));
	if (id->sync) /* nothing follows */
		cm_event_drop(id);
	return 0;
}

static int reject(struct cm_id *id, const void *data, uint8_t len, uint32_t reason)
{
	struct ff_cm_reject_req req = { .id = id->handle, .reason = reason };
	struct ff_cm_reject_resp resp;

	return CM_CALL_DATA(id->ses, CM_REJECT, &req, data, data ? len : 0, &resp);
}

FFL_EXPORT int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t len)
{
	return cm_ret(reject(to_id(id), data, len, REJ_CONSUMER));
}

FFL_EXPORT int rdma_reject_ece(struct rdma_cm_id *id, const void *data, uint8_t len)
{
	return cm_ret(reject(to_id(id), data, len, REJ_VENDOR_OPTION));
}

/* ---- the end ------------------------------------------------------------------------------------------- */

FFL_EXPORT int rdma_disconnect(struct rdma_cm_id *cm_id)
{
	struct cm_id *id = to_id(cm_id);
	struct ff_cm_disconnect_req req = { .id = id->handle };
	struct ff_cm_disconnect_resp resp;
	int err;

	if (!cm_id->verbs)
		return cm_ret(-EINVAL);
	err = cm_qp_error(id);
	if (!err)
		err = CM_CALL(id->ses, CM_DISCONNECT, &req, &resp);
	return cm_ret(err ? err : cm_complete(id));
}

/* ---- enhanced connection establishment: for programs that keep the QP to themselves ----------------------- */

FFL_EXPORT int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	if (!id || id->qp || !ece || !ece->vendor_id || ece->comp_mask)
		return cm_ret(-EINVAL);
	to_id(id)->local_ece =
		(struct ibv_ece){ .vendor_id = ece->vendor_id, .options = ece->options };
	return 0;
}

FFL_EXPORT int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	if (!id || id->qp || !ece)
		return cm_ret(-EINVAL);
	*ece = to_id(id)->remote_ece;
	return 0;
}
