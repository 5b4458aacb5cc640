/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sidr.c - UD: service id resolution (IBTA 12.11). Control thread.
 *
 * There is no connection: the active side asks with a SIDR_REQ for the QP behind an address and a
 * port, a SIDR_REP names it, or says with its status why not. Neither side hears of the other again,
 * but for a SIDR_REQ that is repeated because its answer was lost: while the id that answered is
 * there that answer is given again; after that it is a new request.
 */
#include <errno.h>

#include "ffr/cm/internal.h"

#define IPOIB_QKEY 0x0b1bu /* RFC 4391's */

int cm_qkey(struct cm_id *id, uint32_t qkey)
{
	if (!id->qkey)
		id->qkey = qkey ? qkey : id->ps == RDMA_PS_IPOIB ? IPOIB_QKEY : RDMA_UDP_QKEY;
	return !qkey || id->qkey == qkey ? 0 : -EINVAL;
}

int cm_sidr_connect(struct cm_id *id, const struct ff_cm_connect_req *req, const void *pd,
		    uint32_t len)
{
	struct cm_msg m;

	if (len > (id->src.family == AF_IB ? FF_CM_PD_SIDR_REQ_IB : FF_CM_PD_SIDR_REQ))
		return -EINVAL;
	if (cm_id_comm(id))
		return -ENOMEM;
	cm_msg_init(&m, id, CM_MSG_SIDR_REQ);
	m.ece = req->ece;
	m.family = id->src.family;
	m.src = id->src;
	m.dst = id->dst;
	cm_msg_pd(&m, pd, len);
	return cm_request(id, CM_SIDR_REQ_SENT, &m);
}

static void send_rep(struct cm_id *id, const struct cm_msg *m)
{
	cm_request_taken(id);
	cm_id_timer(id, UINT64_MAX);
	cm_id_state(id, m->status == CM_SIDR_SUCCESS ? CM_SIDR_DONE : CM_CLOSED);
	/* without memory for a copy it is not said again, as if it had been lost each time */
	if (cm_send(id->cm, id->cont->c, m) != CM_CONN_HERE && id->state == CM_SIDR_DONE)
		id->msg = cm_msg_keep(m);
}

/* As in the kernel, the client's Q_Key counts between AF_IB addresses only. */
int cm_sidr_accept(struct cm_id *id, const struct ff_cm_accept_req *req, const void *pd,
		   uint32_t len)
{
	struct cm_msg m;
	int err;

	err = len > FF_CM_PD_SIDR_REP ? -EINVAL : 0;
	if (!err)
		err = cm_qkey(id, id->src.family == AF_IB ? req->param.qkey : 0);
	if (err) { /* as in the kernel, the peer does not wait for another try */
		cm_sidr_reject(id, NULL, 0);
		return err;
	}
	id->uid = req->uid;
	id->has_uid = true;
	cm_msg_init(&m, id, CM_MSG_SIDR_REP);
	m.status = CM_SIDR_SUCCESS;
	m.param.qp_num = req->param.qp_num;
	m.param.qkey = id->qkey;
	m.ece = req->ece;
	cm_msg_pd(&m, pd, len);
	send_rep(id, &m);
	return 0;
}

int cm_sidr_reject(struct cm_id *id, const void *pd, uint32_t len)
{
	struct cm_msg m;

	if (len > FF_CM_PD_SIDR_REP)
		return -EINVAL;
	cm_msg_init(&m, id, CM_MSG_SIDR_REP);
	m.status = CM_SIDR_REJECT;
	cm_msg_pd(&m, pd, len);
	send_rep(id, &m);
	return 0;
}

static void answer(struct cm *cm, const struct container *to, const struct cm_msg *m,
		   enum cm_msg_type type, uint32_t src_comm, uint32_t status)
{
	struct cm_msg rep = {
		.type = (uint8_t)type,
		.sgid = m->dgid,
		.dgid = m->sgid,
		.src_comm = src_comm,
		.dst_comm = m->src_comm,
		.status = status,
	};

	cm_send(cm, to, &rep);
}

void cm_recv_sidr_req(struct cm *cm, struct container *to, const struct cm_from *from,
		      const struct cm_msg *m)
{
	struct cm_id *l, *id;

	if (!cm_request_new(cm, to, from, m, &l))
		return;
	if (!l || l->qp_type != IBV_QPT_UD) {
		answer(cm, to, m, CM_MSG_SIDR_REP, 0, CM_SIDR_UNSUPPORTED);
		return;
	}
	id = cm_request_id(l, from, m, CM_SIDR_REQ_RCVD);
	if (!id)
		return;
	cm_request_event(l, id, m, m->family == AF_IB ? FF_CM_PD_SIDR_REQ_IB : FF_CM_PD_SIDR_REQ);
	answer(cm, to, m, CM_MSG_MRA, id->comm, 0);
}

void cm_recv_sidr_rep(struct cm_id *id, const struct cm_msg *m)
{
	struct ff_cm_event ev = {
		.event = RDMA_CM_EVENT_ESTABLISHED,
		.param = { .qp_num = m->param.qp_num, .qkey = m->param.qkey },
		.ece = m->ece,
		.ud_qp_num = m->param.qp_num,
		.ud_qkey = m->param.qkey,
		.ud_hop_limit = CM_HOP_LIMIT,
		.ud_traffic_class = id->tos,
		.ud_sgid_index = cm_sgid_index(id),
	};

	if (id->state != CM_SIDR_REQ_SENT)
		return;
	cm_msg_drop(id);
	cm_id_timer(id, UINT64_MAX);
	memcpy(ev.dgid, &id->dgid, sizeof(ev.dgid));
	if (m->status != CM_SIDR_SUCCESS) {
		ev.event = RDMA_CM_EVENT_UNREACHABLE;
		ev.status = (int32_t)m->status;
	} else if (cm_qkey(id, m->param.qkey)) {
		ev.event = RDMA_CM_EVENT_ADDR_ERROR;
		ev.status = -EINVAL;
	}
	cm_id_state(id, ev.event == RDMA_CM_EVENT_ESTABLISHED ? CM_SIDR_DONE : CM_CLOSED);
	cm_event_send(id, &ev, m->pd, m->pd_len, FF_CM_PD_SIDR_REP);
}
