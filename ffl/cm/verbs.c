/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * verbs.c - the verbs objects of an id: QP, SRQ, completion queues, and the QP's states. Any
 * thread; neighbours: conn.c and event.c, which say when.
 *
 * What a QP needs for each transition the router knows (CM_INIT_QP_ATTR), and makes those that it
 * knows the time of (ff_cm.h). A connected QP is in INIT when it was created, in RTS when accepted or
 * answered, in ERR when disconnected or refused; a UD QP is in RTS at once.
 *
 * Tests: system/cm_ids.c, system/cm_connect.c
 */
#include <string.h>

#include "ffl/cm/cm.h"

/* ---- attributes -------------------------------------------------------------------------------------- */

static int init_attr(struct cm_id *id, enum ibv_qp_state state, struct ibv_qp_attr *attr, int *mask)
{
	struct ff_cm_init_qp_attr_req req = { .id = id->handle, .qp_state = state };
	struct ff_cm_init_qp_attr_resp resp;
	int err = CM_CALL(id->ses, CM_INIT_QP_ATTR, &req, &resp);

	if (err)
		return err;
	ffl_qp_attr_from_ff(attr, &resp.attr);
	*mask = (int)resp.mask;
	return 0;
}

/* attr->qp_state says for which transition: to INIT, RTR or RTS. */
FFL_EXPORT int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	return cm_ret(init_attr(to_id(id), attr->qp_state, attr, mask));
}

/* ---- states ------------------------------------------------------------------------------------------ */

/* Make a QP for an id: a connected one in INIT, with the attributes that the router gives; UD in RTS. */
static int make(void *arg, const struct ff_create_qp_req *qp, struct ff_create_qp_resp *made,
		enum ibv_qp_state *state)
{
	struct cm_id *id = arg;
	struct ff_cm_create_qp_req req = { .id = id->handle, .qp = *qp };
	struct ff_cm_create_qp_resp resp;
	int err = CM_CALL(id->ses, CM_CREATE_QP, &req, &resp);

	*made = resp.qp;
	*state = resp.qp_state;
	return err;
}

/*
 * The router is about to move the QP from INIT to RTS. Completions may come before its answer does,
 * and the program may post when it sees one: so RTS is what posts must find. The state before.
 */
static enum ibv_qp_state to_rts(struct cm_id *id, uint32_t *handle)
{
	struct ibv_qp *qp = id->id.qp;

	*handle = 0;
	/* a QP that the program has put there may be another device's: it is moved by the program */
	if (!qp || qp->context != id->id.verbs || qp->qp_type == IBV_QPT_UD)
		return IBV_QPS_UNKNOWN;
	*handle = qp->handle;
	return ffl_qp_set_state(to_qp(qp), IBV_QPS_RTS);
}

int cm_qp_accept(struct cm_id *id, struct ff_cm_accept_req *req, const void *data, uint32_t len)
{
	struct ff_cm_accept_resp resp;
	enum ibv_qp_state old = to_rts(id, &req->qp);
	int err = CM_CALL_DATA(id->ses, CM_ACCEPT, req, data, len, &resp);

	if (err && req->qp)
		ffl_qp_set_state(to_qp(id->id.qp), old);
	return err;
}

int cm_establish(struct cm_id *id)
{
	struct ff_cm_establish_req req = { .id = id->handle, .event = UINT32_MAX };
	struct ff_cm_establish_resp resp;
	enum ibv_qp_state old = to_rts(id, &req.qp);
	int err = CM_CALL(id->ses, CM_ESTABLISH, &req, &resp);

	if (err && req.qp)
		ffl_qp_set_state(to_qp(id->id.qp), old);
	return err;
}

int cm_qp_error(struct cm_id *id)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	return id->id.qp ? cm_verb(ibv_modify_qp(id->id.qp, &attr, IBV_QP_STATE)) : 0;
}

/* ---- options of both sides (ECE): where the device has none, nothing is done -------------------------- */

static int unsupported_is_fine(int err)
{
	return err == -EOPNOTSUPP ? 0 : err;
}

/* At creation: what this side offers; for a request's QP, what of the peer's it takes. */
static int ece_init(struct cm_id *id, struct ibv_qp *qp)
{
	struct ibv_ece ece = { 0 };
	int err = unsupported_is_fine(cm_verb(ibv_query_ece(qp, &ece)));

	if (err)
		return err;
	id->local_ece.vendor_id = ece.vendor_id;
	id->local_ece.options = ece.options;
	if (!id->remote_ece.vendor_id)
		return 0;
	ece.options = 0;
	if (id->remote_ece.vendor_id == id->local_ece.vendor_id)
		ece.options = id->remote_ece.options;
	return unsupported_is_fine(cm_verb(ibv_set_ece(qp, &ece)));
}

/* What the device made of it. */
static int ece_taken(struct cm_id *id, struct ibv_qp *qp)
{
	struct ibv_ece ece = { 0 };
	int err;

	if (!id->remote_ece.vendor_id)
		return 0;
	err = unsupported_is_fine(cm_verb(ibv_query_ece(qp, &ece)));
	if (!err)
		id->local_ece.options = ece.options;
	return err;
}

int cm_qp_response(struct cm_id *id, const struct ff_cm_ece *peer)
{
	struct ibv_ece ece = { .vendor_id = id->local_ece.vendor_id };
	int err = 0;

	if (peer->vendor_id) {
		ece.options = peer->options;
		if (peer->vendor_id != id->local_ece.vendor_id)
			err = -EINVAL; /* an answer has the asker's vendor or none */
	}
	id->remote_ece.vendor_id = peer->vendor_id;
	if (!err)
		err = unsupported_is_fine(cm_verb(ibv_set_ece(id->id.qp, &ece)));
	if (!err)
		err = cm_establish(id);
	if (!err)
		err = ece_taken(id, id->id.qp);
	if (err)
		cm_qp_error(id);
	return err;
}

/* ---- completion queues of the library's, for programs that bring none ---------------------------------- */

static void destroy_cqs(struct rdma_cm_id *id)
{
	if (id->qp_type == IBV_QPT_XRC_RECV && id->srq) /* the SRQ completes there */
		return;
	if (id->recv_cq)
		ibv_destroy_cq(id->recv_cq);
	if (id->send_cq && id->send_cq != id->recv_cq)
		ibv_destroy_cq(id->send_cq);
	if (id->recv_cq_channel)
		ibv_destroy_comp_channel(id->recv_cq_channel);
	if (id->send_cq_channel && id->send_cq_channel != id->recv_cq_channel)
		ibv_destroy_comp_channel(id->send_cq_channel);
	id->recv_cq = id->send_cq = NULL;
	id->recv_cq_channel = id->send_cq_channel = NULL;
}

static int create_cq(struct rdma_cm_id *id, uint32_t size, struct ibv_comp_channel **channel,
		     struct ibv_cq **cq)
{
	if (!size)
		return 0;
	*channel = ibv_create_comp_channel(id->verbs);
	if (!*channel)
		return -errno;
	*cq = ibv_create_cq(id->verbs, (int)size, id, *channel, 0);
	return *cq ? 0 : -errno;
}

/* Sizes in entries; 0: none. */
static int create_cqs(struct rdma_cm_id *id, uint32_t send_size, uint32_t recv_size)
{
	int err = create_cq(id, recv_size, &id->recv_cq_channel, &id->recv_cq);

	if (!err)
		err = create_cq(id, send_size, &id->send_cq_channel, &id->send_cq);
	if (err)
		destroy_cqs(id);
	return err;
}

/* ---- SRQ ----------------------------------------------------------------------------------------------- */

static int xrcd_of(struct rdma_cm_id *id, struct ibv_xrcd **xrcd)
{
	*xrcd = cm_device_xrcd(to_id(id));
	return *xrcd ? 0 : -errno;
}

static int create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	int err = 0;

	if (!id->verbs || !(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE))
		return -EINVAL;
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
		attr->pd = id->pd;
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
	}
	if (attr->srq_type == IBV_SRQT_XRC) {
		if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) || !attr->xrcd)
			err = xrcd_of(id, &attr->xrcd);
		if (!err && (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) || !attr->cq)) {
			err = create_cqs(id, 0, attr->attr.max_wr);
			attr->cq = id->recv_cq;
		}
		if (err)
			return err;
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	}
	id->srq = ibv_create_srq_ex(id->verbs, attr);
	if (!id->srq) {
		err = -errno;
		destroy_cqs(id);
		return err;
	}
	if (!id->pd)
		id->pd = attr->pd;
	return 0;
}

FFL_EXPORT int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	return cm_ret(create_srq_ex(id, attr));
}

FFL_EXPORT int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd,
			       struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex ex = {
		.srq_context = attr->srq_context,
		.attr = attr->attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC,
		.pd = pd,
	};
	int err = create_srq_ex(id, &ex);

	attr->attr = ex.attr;
	return cm_ret(err);
}

FFL_EXPORT void rdma_destroy_srq(struct rdma_cm_id *id)
{
	ibv_destroy_srq(id->srq);
	id->srq = NULL;
	destroy_cqs(id);
}

/* ---- QP ------------------------------------------------------------------------------------------------ */

static bool other_cq(const struct ibv_cq *ours, const struct ibv_cq *given)
{
	return ours && given && ours != given;
}

/* PD, XRC domain and completion queues, where the program gave none. */
static int complete_attr(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	int err;

	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
		attr->pd = id->pd;
	} else if (attr->pd->context != id->verbs) {
		return -EINVAL;
	}
	if (other_cq(id->recv_cq, attr->recv_cq) || other_cq(id->send_cq, attr->send_cq))
		return -EINVAL;
	if (id->qp_type == IBV_QPT_XRC_RECV &&
	    (!(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !attr->xrcd)) {
		err = xrcd_of(id, &attr->xrcd);
		if (err)
			return err;
		attr->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
	}
	err = create_cqs(id, attr->send_cq || id->send_cq ? 0 : attr->cap.max_send_wr,
			 attr->recv_cq || id->recv_cq ? 0 : attr->cap.max_recv_wr);
	if (err)
		return err;
	if (!attr->send_cq)
		attr->send_cq = id->send_cq;
	if (!attr->recv_cq)
		attr->recv_cq = id->recv_cq;
	if (id->srq && !attr->srq)
		attr->srq = id->srq;
	return 0;
}

static int create_qp_ex(struct rdma_cm_id *cm_id, struct ibv_qp_init_attr_ex *attr)
{
	struct cm_id *id = to_id(cm_id);
	const struct ffl_qp_maker maker = { make, id };
	struct ibv_qp *qp;
	int err;

	if (cm_id->qp || !cm_id->verbs)
		return -EINVAL;
	err = complete_attr(cm_id, attr);
	if (err)
		return err;
	qp = ffl_create_qp_by(cm_id->verbs, attr, &maker);
	if (!qp) {
		err = -errno;
		goto err_cqs;
	}
	err = ece_init(id, qp);
	if (!err)
		err = ece_taken(id, qp);
	if (err)
		goto err_qp;
	cm_id->pd = attr->pd;
	cm_id->qp = qp;
	return 0;

err_qp:
	ibv_destroy_qp(qp);
err_cqs:
	destroy_cqs(cm_id);
	return err;
}

FFL_EXPORT int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	return cm_ret(create_qp_ex(id, attr));
}

FFL_EXPORT int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd,
			      struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = { 0 };
	int err;

	memcpy(&ex, attr,
	       sizeof(*attr)); /* the one starts as the other, comp_mask in its padding */
	ex.comp_mask = IBV_QP_INIT_ATTR_PD;
	ex.pd = pd ? pd : id->pd;
	err = create_qp_ex(id, &ex);
	memcpy(attr, &ex, sizeof(*attr));
	return cm_ret(err);
}

FFL_EXPORT void rdma_destroy_qp(struct rdma_cm_id *id)
{
	ibv_destroy_qp(id->qp);
	id->qp = NULL;
	destroy_cqs(id);
}
