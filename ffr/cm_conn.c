/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * cm_conn.c - connections: the IB CM's exchange of messages (IBTA 12.9). Control thread.
 *
 *	active			passive
 *	connect    REQ_SENT   -- REQ -->  REQ_RCVD	CONNECT_REQUEST
 *			      <-- MRA --
 *	CONNECT_RESPONSE      <-- REP --  REP_SENT	accept
 *	           REP_RCVD
 *	establish  ESTABLISHED -- RTU --> ESTABLISHED	ESTABLISHED
 *	disconnect DREQ_SENT  -- DREQ --> TIMEWAIT	DISCONNECTED (either side begins)
 *	DISCONNECTED TIMEWAIT <-- DREP --
 *
 * A REJ ends it before ESTABLISHED. Who waits for a message has a timer; the other side is told with
 * a REJ when it runs out. A REQ is repeated until an MRA or a REJ answers it: nobody has the address
 * at the moment, or the listener's backlog is full, or nobody listens yet. That is answered by a REJ
 * after CM_LISTEN_MS only: both sides of perftest -R agree by another connection and then listen and
 * connect at the same time, which works where a network is between them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm_int.h"

/* ---- requests, of connections and of UD ------------------------------------------------------ */

void cm_request_done(struct cm_id *id)
{
	free(id->req);
	id->req = NULL;
}

static uint64_t time_left(const struct cm_id *id)
{
	uint64_t now = cm_now(id->cm);

	return id->deadline > now ? id->deadline - now : 0;
}

static bool is_requesting(const struct cm_id *id)
{
	return id->state == CM_REQ_SENT || id->state == CM_SIDR_REQ_SENT;
}

/* Send *m, which is the id's again if it must be repeated; takes it in any case. */
static void request_send(struct cm_id *id, struct cm_msg *m)
{
	uint64_t left = time_left(id);

	m->age = CM_REQ_TIMEOUT - (uint32_t)left;
	cm_send(id->cm, id->cont->c, m);
	if (!is_requesting(id) || id->peer_comm) {
		free(m);
		return;
	}
	id->req = m;
	cm_id_timer(id, id->retry < left ? id->retry : left);
	id->retry = id->retry * 2 < CM_RETRY_MAX ? id->retry * 2 : CM_RETRY_MAX;
}

int cm_request(struct cm_id *id, enum cm_state state, const struct cm_msg *m)
{
	struct cm_msg *copy = malloc(sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	memcpy(copy, m, offsetof(struct cm_msg, pd) + m->pd_len);
	id->retry = CM_RETRY_MIN;
	id->deadline = cm_now(id->cm) + CM_REQ_TIMEOUT;
	cm_id_state(id, state);
	request_send(id, copy);
	return 0;
}

static void send_plain(struct cm_id *id, enum cm_msg_type type)
{
	struct cm_msg m;

	cm_msg_init(&m, id, type);
	cm_send(id->cm, id->cont->c, &m);
}

void cm_request_taken(struct cm_id *id)
{
	if (!id->listener)
		return;
	LIST_REMOVE(id, of_listener);
	id->listener->num_pending--;
	id->listener = NULL;
}

/*
 * As in the kernel, a request takes part of the backlog until the program has read its event. That
 * is seen only of the channel as a whole.
 */
static bool backlog_is_full(struct cm_id *l)
{
	struct cm_id *id, *next;

	if (l->num_pending < l->backlog)
		return false;
	if (!cm_chan_is_read(l->chan))
		return true;
	for (id = LIST_FIRST(&l->pending); id; id = next) {
		next = LIST_NEXT(id, of_listener);
		if (!id->request)
			cm_request_taken(id);
	}
	return l->num_pending >= l->backlog;
}

bool cm_request_again(struct cm *cm, const struct cm_msg *m)
{
	struct cm_id *id, *tmp;

	HASH_ITER(of_comm, cm->by_comm, id, tmp) {
		if (id->peer_comm != m->src_comm || id->state == CM_CLOSED ||
		    memcmp(&id->sgid, &m->dgid, sizeof(id->sgid)) ||
		    memcmp(&id->dgid, &m->sgid, sizeof(id->dgid)))
			continue;
		if (id->state == CM_REQ_RCVD || id->state == CM_SIDR_REQ_RCVD)
			send_plain(id, CM_MSG_MRA);
		return true;
	}
	return false;
}

struct cm_id *cm_request_id(struct cm_id *l, const struct cm_msg *m, enum cm_state state)
{
	struct cm_addr path = { .family = AF_IB, .gid = m->dgid };
	struct cm_id *id;

	if (backlog_is_full(l))
		return NULL;
	id = cm_id_create(l->o.ses, l->chan->ch, l->ps, m->qp_type);
	if (!id)
		return NULL;
	id->has_uid = false;
	id->src = m->dst;
	id->dst = m->src;
	id->sgid = m->dgid;
	id->dgid = m->sgid;
	id->sgid_index = (uint8_t)cm_addr_own(id->cont->c, &path);
	id->attached = true;
	id->tos = m->traffic_class;
	id->peer_comm = m->src_comm;
	cm_id_comm(id);
	cm_id_state(id, state);
	id->listener = l;
	l->num_pending++;
	LIST_INSERT_HEAD(&l->pending, id, of_listener);
	return id;
}

/* Parameters as their receiver sees them. */
static struct ff_cm_param param_received(const struct cm_msg *m)
{
	struct ff_cm_param p = m->param;

	p.responder_resources = m->param.initiator_depth;
	p.initiator_depth = m->param.responder_resources;
	p.qp_type = m->qp_type;
	return p;
}

void cm_request_event(struct cm_id *l, struct cm_id *id, const struct cm_msg *m, uint32_t pd_size)
{
	struct ff_cm_event ev = {
		.event = RDMA_CM_EVENT_CONNECT_REQUEST,
		.id = id->o.handle,
		.listener = l->o.handle,
		.param = param_received(m),
		.ece = m->ece,
		.ps = id->ps,
	};

	cm_id_path(id, &ev.path);
	id->request = cm_event_send(l, &ev, m->pd, m->pd_len, pd_size);
}

/* ---- messages of an id ----------------------------------------------------------------------- */

static void send_rej(struct cm_id *id, uint32_t reason, const void *pd, uint32_t len)
{
	struct cm_msg m;

	if (!id->peer_comm)
		return; /* nobody has taken the request */
	cm_msg_init(&m, id, CM_MSG_REJ);
	m.status = reason;
	cm_msg_pd(&m, pd, len);
	cm_send(id->cm, id->cont->c, &m);
}

/* The connection is over before it began, or could not begin. */
static void close_id(struct cm_id *id)
{
	cm_request_done(id);
	cm_request_taken(id);
	cm_id_timer(id, UINT64_MAX);
	cm_id_state(id, CM_CLOSED);
}

static void disconnected(struct cm_id *id, int status)
{
	cm_id_state(id, CM_TIMEWAIT);
	cm_id_timer(id, CM_TIMEWAIT_MS);
	cm_event_simple(id, RDMA_CM_EVENT_DISCONNECTED, status);
}

void cm_conn_expired(struct cm_id *id)
{
	struct cm_msg *m = id->req;

	switch (id->state) {
	case CM_REQ_SENT:
	case CM_SIDR_REQ_SENT:
		if (m && time_left(id)) {
			id->req = NULL;
			request_send(id, m);
			return;
		}
		if (id->state == CM_REQ_SENT)
			send_rej(id, CM_REJ_TIMEOUT, NULL, 0);
		break;
	case CM_REP_SENT:
		send_rej(id, CM_REJ_TIMEOUT, NULL, 0);
		break;
	case CM_DREQ_SENT:
		disconnected(id, -ETIMEDOUT);
		return;
	default:
		return;
	}
	close_id(id);
	cm_event_simple(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
}

/* ---- what the client says -------------------------------------------------------------------- */

static uint8_t at_most_7(uint8_t n)
{
	return n < 7 ? n : 7;
}

int cm_connect(struct cm_id *id, const struct ff_cm_connect_req *req, const void *pd, uint32_t len)
{
	struct cm_msg m;

	if (id->state != CM_ROUTE_RESOLVED)
		return -EINVAL;
	if (id->qp_type == IBV_QPT_UD)
		return cm_sidr_connect(id, req, pd, len);
	if (len > (id->src.family == AF_IB ? FF_CM_PD_REQ_IB : FF_CM_PD_REQ))
		return -EINVAL;
	cm_id_comm(id);
	cm_msg_init(&m, id, CM_MSG_REQ);
	m.param = req->param;
	m.param.retry_count = id->retry_count = at_most_7(req->param.retry_count);
	m.param.rnr_retry_count = at_most_7(req->param.rnr_retry_count);
	m.ece = req->ece;
	m.psn = id->psn;
	m.family = id->src.family;
	m.src = id->src;
	m.dst = id->dst;
	/* the peer's side of an XRC send QP is a receive QP */
	if (m.qp_type == IBV_QPT_XRC_SEND)
		m.qp_type = IBV_QPT_XRC_RECV;
	cm_msg_pd(&m, pd, len);
	id->responder_resources = req->param.responder_resources;
	id->initiator_depth = req->param.initiator_depth;
	return cm_request(id, CM_REQ_SENT, &m);
}

int cm_accept(struct cm_id *id, const struct ff_cm_accept_req *req, const void *pd, uint32_t len)
{
	struct cm_msg m;
	int err;

	if (id->state == CM_SIDR_REQ_RCVD)
		return cm_sidr_accept(id, req, pd, len);
	if (id->state != CM_REQ_RCVD)
		return -EINVAL;
	if (len > FF_CM_PD_REP) { /* as in the kernel, the peer does not wait for another try */
		cm_reject(id, 0, NULL, 0);
		return -EINVAL;
	}
	if (req->qp) {
		err = cm_qp_connect(id, req->qp, req->param.responder_resources,
				    req->param.initiator_depth);
		if (err)
			return err;
	}
	cm_request_taken(id);
	id->uid = req->uid;
	id->has_uid = true;
	id->responder_resources = req->param.responder_resources;
	id->initiator_depth = req->param.initiator_depth;
	cm_msg_init(&m, id, CM_MSG_REP);
	m.param = req->param;
	m.param.rnr_retry_count = at_most_7(req->param.rnr_retry_count);
	m.ece = req->ece;
	m.psn = id->psn;
	cm_msg_pd(&m, pd, len);
	cm_id_state(id, CM_REP_SENT);
	cm_id_timer(id, CM_REP_TIMEOUT);
	cm_send(id->cm, id->cont->c, &m);
	return 0;
}

int cm_reject(struct cm_id *id, uint32_t reason, const void *pd, uint32_t len)
{
	if (reason && reason != CM_REJ_CONSUMER && reason != CM_REJ_VENDOR_OPTION)
		return -EINVAL;
	switch (id->state) {
	case CM_SIDR_REQ_RCVD:
		return cm_sidr_reject(id, pd, len);
	case CM_REQ_SENT:
	case CM_REQ_RCVD:
	case CM_REP_SENT:
	case CM_REP_RCVD:
		if (len > FF_CM_PD_REJ)
			return -EINVAL;
		close_id(id);
		send_rej(id, reason ? reason : CM_REJ_CONSUMER, pd, len);
		return 0;
	default:
		return -EINVAL;
	}
}

int cm_establish(struct cm_id *id, uint32_t event, uint32_t qp)
{
	int err = 0;

	if (event == UINT32_MAX) {
		if (id->state != CM_REP_RCVD)
			return -EINVAL;
		if (qp)
			err = cm_qp_connect(id, qp, RDMA_MAX_RESP_RES, RDMA_MAX_INIT_DEPTH);
		if (err)
			return err;
		cm_id_state(id, CM_ESTABLISHED);
		send_plain(id, CM_MSG_RTU);
		return 0;
	}
	/* rdma_notify: the path has changed, of which there is but one */
	if (event == IBV_EVENT_PATH_MIG)
		return id->state == CM_ESTABLISHED ? 0 : -EINVAL;
	/* or data came before the RTU did */
	if (event != IBV_EVENT_COMM_EST)
		return -EINVAL;
	if (id->state == CM_ESTABLISHED)
		return -EISCONN;
	if (id->state != CM_REP_SENT)
		return -EINVAL;
	cm_id_timer(id, UINT64_MAX);
	cm_id_state(id, CM_ESTABLISHED);
	cm_event_simple(id, RDMA_CM_EVENT_ESTABLISHED, 0);
	return 0;
}

/*
 * As in the kernel, which wants an IB CM id and no more: never an error once there was a request, nor
 * for who listens on an address of the device.
 */
int cm_disconnect(struct cm_id *id)
{
	if (id->state < CM_LISTEN || !id->attached)
		return -EINVAL;
	if (id->state != CM_ESTABLISHED)
		return 0;
	cm_id_state(id, CM_DREQ_SENT);
	cm_id_timer(id, CM_DREQ_TIMEOUT);
	send_plain(id, CM_MSG_DREQ);
	return 0;
}

void cm_abandon(struct cm_id *id)
{
	switch (id->state) {
	case CM_REQ_SENT:
		send_rej(id, CM_REJ_TIMEOUT, NULL, 0);
		break;
	case CM_REQ_RCVD:
	case CM_REP_SENT:
	case CM_REP_RCVD:
		send_rej(id, CM_REJ_CONSUMER, NULL, 0);
		break;
	case CM_SIDR_REQ_RCVD:
		cm_sidr_reject(id, NULL, 0);
		break;
	case CM_ESTABLISHED:
		cm_id_state(id, CM_CLOSED); /* of a DREP that comes nothing is told */
		send_plain(id, CM_MSG_DREQ);
		break;
	default:
		break;
	}
}

/* ---- what the peer says ---------------------------------------------------------------------- */

/* Nobody has the request: the answer comes from no id. */
static void reject_req(struct cm *cm, const struct container *to, const struct cm_msg *m,
		       uint32_t reason)
{
	struct cm_msg rej = {
		.type = CM_MSG_REJ,
		.sgid = m->dgid,
		.dgid = m->sgid,
		.dst_comm = m->src_comm,
		.status = reason,
	};

	cm_send(cm, to, &rej);
}

void cm_recv_req(struct cm *cm, struct container *to, const struct container *from,
		 const struct cm_msg *m)
{
	struct cm_id *l = to->cm ? cm_port_listener(to->cm, m->ps, &m->dst) : NULL, *id;

	if (!from && cm_request_again(cm, m))
		return;
	if (!l && m->age < CM_LISTEN_MS)
		return;
	if (!l || (cm_addr_loopback(&m->dst) && to != from)) {
		reject_req(cm, to, m, CM_REJ_INVALID_SERVICE_ID);
		return;
	}
	if (l->qp_type != m->qp_type) {
		reject_req(cm, to, m, CM_REJ_CONSUMER);
		return;
	}
	id = cm_request_id(l, m, CM_REQ_RCVD);
	if (!id)
		return;
	id->peer_qpn = m->param.qp_num;
	id->peer_psn = m->psn;
	id->responder_resources = m->param.initiator_depth;
	id->initiator_depth = m->param.responder_resources;
	id->retry_count = m->param.retry_count;
	id->rnr_retry_count = m->param.rnr_retry_count;
	cm_request_event(l, id, m, m->family == AF_IB ? FF_CM_PD_REQ_IB : FF_CM_PD_REQ);
	send_plain(id, CM_MSG_MRA);
}

static void recv_mra(struct cm_id *id, const struct cm_msg *m)
{
	if (!is_requesting(id))
		return;
	id->peer_comm = m->src_comm;
	cm_request_done(id);
	cm_id_timer(id, time_left(id));
}

static void recv_rep(struct cm_id *id, const struct cm_msg *m)
{
	struct ff_cm_event ev = {
		.event = RDMA_CM_EVENT_CONNECT_RESPONSE,
		.param = param_received(m),
		.ece = m->ece,
	};

	if (id->state != CM_REQ_SENT)
		return;
	id->peer_comm = m->src_comm;
	id->peer_qpn = m->param.qp_num;
	id->peer_psn = m->psn;
	id->responder_resources = m->param.initiator_depth;
	id->initiator_depth = m->param.responder_resources;
	id->rnr_retry_count = m->param.rnr_retry_count;
	cm_request_done(id);
	cm_id_timer(id, UINT64_MAX); /* the passive side watches */
	cm_id_state(id, CM_REP_RCVD);
	cm_event_send(id, &ev, m->pd, m->pd_len, FF_CM_PD_REP);
}

static void recv_rtu(struct cm_id *id)
{
	if (id->state != CM_REP_SENT)
		return;
	cm_id_timer(id, UINT64_MAX);
	cm_id_state(id, CM_ESTABLISHED);
	cm_event_simple(id, RDMA_CM_EVENT_ESTABLISHED, 0);
}

static void recv_rej(struct cm_id *id, const struct cm_msg *m)
{
	struct ff_cm_event ev = {
		.event = RDMA_CM_EVENT_REJECTED,
		.status = (int32_t)m->status,
	};

	switch (id->state) {
	case CM_REQ_SENT:
	case CM_REQ_RCVD:
	case CM_REP_SENT:
	case CM_REP_RCVD:
		break;
	default:
		return;
	}
	close_id(id);
	if (id->request) { /* its client need not hear of it at all */
		cm_id_destroy(id);
		return;
	}
	cm_event_send(id, &ev, m->pd, m->pd_len, FF_CM_PD_REJ);
}

static void recv_dreq(struct cm_id *id)
{
	switch (id->state) {
	case CM_REP_SENT: /* one side was established before the RTU: rdma_notify() */
	case CM_REP_RCVD:
	case CM_ESTABLISHED:
	case CM_DREQ_SENT: /* both at once */
		disconnected(id, 0);
		break;
	default:
		break;
	}
	send_plain(id, CM_MSG_DREP);
}

static void recv_drep(struct cm_id *id)
{
	if (id->state == CM_DREQ_SENT)
		disconnected(id, 0);
}

void cm_recv_conn(struct cm_id *id, const struct cm_msg *m)
{
	switch (m->type) {
	case CM_MSG_MRA:
		recv_mra(id, m);
		break;
	case CM_MSG_REP:
		recv_rep(id, m);
		break;
	case CM_MSG_RTU:
		recv_rtu(id);
		break;
	case CM_MSG_REJ:
		recv_rej(id, m);
		break;
	case CM_MSG_DREQ:
		recv_dreq(id);
		break;
	case CM_MSG_DREP:
		recv_drep(id);
		break;
	default:
		break;
	}
}
