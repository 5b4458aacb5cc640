/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * conn.c - connections: the IB CM's exchange of messages (IBTA 12.9). Control thread.
 *
 *	active			passive
 *	connect    REQ_SENT   -- REQ -->  REQ_RCVD	CONNECT_REQUEST
 *			      <-- MRA --
 *	CONNECT_RESPONSE      <-- REP --  REP_SENT	accept
 *	           REP_RCVD
 *	establish  ESTABLISHED -- RTU --> ESTABLISHED	ESTABLISHED
 *	disconnect DREQ_SENT  -- DREQ --> DREQ_RCVD	DISCONNECTED (either side begins)
 *	DISCONNECTED TIMEWAIT <-- DREP -- TIMEWAIT	disconnect
 *
 * A DREQ is answered when the other program disconnects, too, or destroys its id.
 *
 * A REJ ends it before ESTABLISHED. Who waits for a message has a timer; the other side is told with
 * a REJ when it runs out. A REQ is repeated until an MRA or a REJ answers it: nobody has the address
 * at the moment, or its share of the listener's backlog is full, or nobody listens yet. That is answered by a REJ
 * after CM_LISTEN_MS only: both sides of perftest -R agree by another connection and then listen and
 * connect at the same time, which works where a network is between them.
 *
 * Between hosts each message can be lost with the connection that carries it. Then REQ, REP and DREQ
 * are said again, and lead to the answer that was lost:
 *	REQ  before the MRA: found by the sender's id (request_again()), MRA again
 *	     after it: it names the receiver's id. MRA again, or REJ, where that was the answer
 *	REP  RTU again, or nothing while the client has not established; REJ, if the id has gone
 *	DREQ DREP, whoever knows of it
 * A REQ or REP with the number of a QP that is connected already is refused: its sender has lost that
 * connection, which ends, unless it has not begun.
 * A side that has gone is missed with the next message to it (answer_stranger()), and what it said
 * last is repeated for it (timewait.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ffr/cm/internal.h"
#include "ffr/obj/quota.h"

/* ---- what is said until it is answered ------------------------------------------------------- */

struct cm_msg *cm_msg_keep(const struct cm_msg *m)
{
	struct cm_msg *copy = malloc(sizeof(*copy));

	if (copy)
		memcpy(copy, m, offsetof(struct cm_msg, pd) + m->pd_len);
	return copy;
}

void cm_msg_drop(struct cm_id *id)
{
	free(id->msg);
	id->msg = NULL;
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

/* Does the peer's answer end the state? */
static bool is_waiting(const struct cm_id *id)
{
	return is_requesting(id) || id->state == CM_REP_SENT || id->state == CM_DREQ_SENT;
}

/*
 * Say id->msg, or a DREQ, once more. The peer may answer at once, with all that comes of it. On one
 * host nothing is lost: there only a request that nobody has taken comes again.
 */
static void say(struct cm_id *id)
{
	enum cm_state state = id->state;
	struct cm_msg *m = id->msg, dreq;
	uint64_t left = time_left(id);

	id->msg = NULL;
	if (!m)
		cm_msg_init(&dreq, id, CM_MSG_DREQ);
	else if (is_requesting(id))
		m->age = CM_REQ_TIMEOUT - (uint32_t)left;
	id->conn = cm_send(id->cm, id->cont->c, m ? m : &dreq);
	if (id->state != state) {
		free(m);
		return;
	}
	if (id->conn == CM_CONN_HERE && (!is_requesting(id) || id->taken)) {
		free(m);
		cm_id_timer(id, left);
		return;
	}
	id->msg = m;
	cm_id_timer(id, id->retry < left ? id->retry : left);
	id->retry = id->retry * 2 < CM_RETRY_MAX ? id->retry * 2 : CM_RETRY_MAX;
}

/* Enter a state that waits for an answer, and say m, which is the id's now; NULL: a DREQ. */
static void ask(struct cm_id *id, enum cm_state state, struct cm_msg *m, uint32_t retry,
		uint32_t timeout)
{
	id->msg = m;
	id->retry = retry;
	id->deadline = cm_now(id->cm) + timeout;
	cm_id_state(id, state);
	say(id);
}

void cm_conns_changed(struct cm *cm)
{
	struct cm_id *id, *tmp;

	cm_timewait_conns_changed(cm);
	HASH_ITER(of_comm, cm->by_comm, id, tmp)
		if (is_waiting(id) && id->conn != CM_CONN_HERE &&
		    cm_wire_conn(cm, id->cont->c, &id->dgid) != id->conn)
			cm_id_timer(id, 0);
}

/* ---- requests, of connections and of UD ------------------------------------------------------ */

int cm_request(struct cm_id *id, enum cm_state state, const struct cm_msg *m)
{
	struct cm_msg *copy = cm_msg_keep(m);

	if (!copy)
		return -ENOMEM;
	ask(id, state, copy, CM_RETRY_MIN, CM_REQ_TIMEOUT);
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
 * Has who sent m no place in the backlog? The backlog is a peer's: one that has many requests there
 * keeps no other peer out. Of all places that a listener has, a peer gets half of what is free.
 */
static bool share_is_full(const struct cm_id *l, const struct cm_from *from, const struct cm_msg *m)
{
	const struct cm_id *id;
	uint32_t n = 0;

	LIST_FOREACH(id, &l->pending, of_listener)
		n += id->from == from->id &&
		     (from->id || !memcmp(&id->dgid, &m->sgid, sizeof(id->dgid)));
	return n >= l->backlog || n >= FF_CM_MAX_BACKLOG - l->num_pending;
}

/*
 * As in the kernel, a request takes part of the backlog until the program has read its event. That
 * is seen only of the channel as a whole.
 */
static bool backlog_is_full(struct cm_id *l, const struct cm_from *from, const struct cm_msg *m)
{
	struct cm_id *id, *next;

	if (!share_is_full(l, from, m))
		return false;
	if (!cm_chan_is_read(l->chan))
		return true;
	for (id = LIST_FIRST(&l->pending); id; id = next) {
		next = LIST_NEXT(id, of_listener);
		if (!id->request)
			cm_request_taken(id);
	}
	return share_is_full(l, from, m);
}

/*
 * Has this request come before? The way to another host is long enough for it to be repeated before
 * its answer is there. Then it is answered again, if that is all that is to be done.
 */
static bool request_again(struct cm *cm, const struct cm_msg *m)
{
	struct cm_peer peer = { m->dgid, m->sgid, m->src_comm };
	struct cm_id *id = cm_id_by_peer(cm, &peer);

	if (!id)
		return cm_timewait_answer(cm, m);
	if (id->state == CM_REQ_RCVD || id->state == CM_SIDR_REQ_RCVD)
		send_plain(id, CM_MSG_MRA);
	else if (id->state == CM_SIDR_DONE && id->msg)
		cm_send(cm, id->cont->c, id->msg);
	return true;
}

bool cm_request_new(struct cm *cm, const struct container *to, const struct cm_from *from,
		    const struct cm_msg *m, struct cm_id **listener)
{
	struct cm_id *l = to->cm ? cm_port_listener(to->cm, m->ps, &m->dst) : NULL;

	if ((!from->c && request_again(cm, m)) || (!l && m->age < CM_LISTEN_MS))
		return false;
	*listener = cm_addr_loopback(&m->dst) && to != from->c ? NULL : l;
	return true;
}

/*
 * If its event has to wait, that is charged. It is refused before, because where a promised event cannot be kept the
 * session ends (event.c), and others decide when a request comes.
 */
static bool event_has_room(struct container *c)
{
	bool room = !quota_charge(c, QUOTA_OBJECT, CM_ID_OBJECTS + 1);

	if (room)
		quota_return(c, QUOTA_OBJECT, CM_ID_OBJECTS + 1);
	return room;
}

struct cm_id *cm_request_id(struct cm_id *l, const struct cm_from *from, const struct cm_msg *m,
			    enum cm_state state)
{
	struct cm_addr path = { .family = AF_IB, .gid = m->dgid };
	struct cm_id *id;

	if (backlog_is_full(l, from, m) || !event_has_room(l->cont->c))
		return NULL;
	id = cm_id_create(l->o.ses, l->chan->ch, l->ps, m->qp_type);
	if (!id)
		return NULL;
	id->has_uid = false;
	id->src = m->dst;
	id->dst = m->src;
	id->sgid = m->dgid;
	id->dgid = m->sgid;
	id->sgid_index = (uint8_t)cm_addr_index(id->cont->c, &path);
	id->attached = true;
	id->tos = m->traffic_class;
	id->peer_comm = m->src_comm;
	id->from = from->id;
	if (cm_id_comm(id) || cm_id_peer(id)) {
		cm_id_destroy(id);
		return NULL;
	}
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
	cm_timewait(id, &m, cm_send(id->cm, id->cont->c, &m));
}

/* The connection is over before it began, or could not begin. */
static void close_id(struct cm_id *id)
{
	cm_msg_drop(id);
	cm_request_taken(id);
	cm_id_timer(id, UINT64_MAX);
	cm_id_state(id, CM_CLOSED);
}

static void enter_timewait(struct cm_id *id)
{
	cm_msg_drop(id);
	cm_id_state(id, CM_TIMEWAIT);
	cm_id_timer(id, CM_TIMEWAIT_MS);
}

static void disconnected(struct cm_id *id, int status)
{
	enter_timewait(id);
	cm_event_simple(id, RDMA_CM_EVENT_DISCONNECTED, status);
}

void cm_conn_failed(struct cm_id *id, int err)
{
	close_id(id);
	cm_event_simple(id, RDMA_CM_EVENT_UNREACHABLE, err);
}

void cm_conn_expired(struct cm_id *id)
{
	if (!is_waiting(id))
		return;
	if (time_left(id) && (id->msg || id->state == CM_DREQ_SENT)) {
		say(id);
		return;
	}
	if (id->state == CM_DREQ_SENT) {
		disconnected(id, -ETIMEDOUT);
		return;
	}
	if (id->state != CM_SIDR_REQ_SENT)
		send_rej(id, CM_REJ_TIMEOUT, NULL, 0);
	cm_conn_failed(id, -ETIMEDOUT);
}

/* ---- what the client says -------------------------------------------------------------------- */

static uint8_t at_most_7(uint8_t n)
{
	return n < 7 ? n : 7;
}

/* What fits into the fields of a REQ or a REP (IBTA 12.6.5, 12.6.8). */
static struct ff_cm_param param_sent(const struct ff_cm_param *from)
{
	struct ff_cm_param p = *from;

	p.retry_count = at_most_7(p.retry_count);
	p.rnr_retry_count = at_most_7(p.rnr_retry_count);
	p.flow_control &= 1;
	p.srq &= 1;
	return p;
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
	if (cm_id_comm(id))
		return -ENOMEM;
	cm_msg_init(&m, id, CM_MSG_REQ);
	m.param = param_sent(&req->param);
	id->retry_count = m.param.retry_count;
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
	struct cm_msg m, *rep;
	int err;

	if (id->state == CM_SIDR_REQ_RCVD)
		return cm_sidr_accept(id, req, pd, len);
	/* As in the kernel, what cannot be accepted is refused: the peer does not wait for another try. */
	if (id->state != CM_REQ_RCVD || len > FF_CM_PD_REP) {
		cm_reject(id, 0, NULL, 0);
		return -EINVAL;
	}
	cm_msg_init(&m, id, CM_MSG_REP);
	m.param = param_sent(&req->param);
	m.param.retry_count = 0; /* the request said it for both */
	m.ece = req->ece;
	m.psn = id->psn;
	cm_msg_pd(&m, pd, len);
	rep = cm_msg_keep(&m);
	if (!rep)
		return -ENOMEM;
	if (req->qp) {
		err = cm_qp_connect(id, req->qp, req->param.responder_resources,
				    req->param.initiator_depth);
		if (err) {
			free(rep);
			return err;
		}
	}
	cm_request_taken(id);
	id->uid = req->uid;
	id->has_uid = true;
	id->responder_resources = req->param.responder_resources;
	id->initiator_depth = req->param.initiator_depth;
	ask(id, CM_REP_SENT, rep, CM_RETRY_MAX, CM_REP_TIMEOUT);
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

/* The passive side knows that the REP has come. */
static void established(struct cm_id *id)
{
	cm_msg_drop(id);
	cm_id_timer(id, UINT64_MAX);
	cm_id_state(id, CM_ESTABLISHED);
	cm_event_simple(id, RDMA_CM_EVENT_ESTABLISHED, 0);
}

int cm_establish(struct cm_id *id, uint32_t event, uint32_t qp)
{
	int err = 0;

	if (event == UINT32_MAX) {
		if (id->state != CM_REP_RCVD) { /* in the kernel it is an acceptance, too */
			cm_reject(id, 0, NULL, 0);
			return -EINVAL;
		}
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
	established(id);
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
	if (id->state == CM_DREQ_RCVD) {
		enter_timewait(id);
		send_plain(id, CM_MSG_DREP);
	} else if (id->state == CM_ESTABLISHED) {
		ask(id, CM_DREQ_SENT, NULL, CM_RETRY_MAX, CM_DREQ_TIMEOUT);
	}
	return 0;
}

void cm_abandon(struct cm_id *id)
{
	struct cm_msg dreq;

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
		cm_msg_init(&dreq, id, CM_MSG_DREQ);
		cm_timewait(id, &dreq, cm_send(id->cm, id->cont->c, &dreq));
		break;
	case CM_DREQ_SENT:
		cm_msg_init(&dreq, id, CM_MSG_DREQ);
		cm_timewait(id, &dreq, id->conn);
		break;
	case CM_DREQ_RCVD:
		send_plain(id, CM_MSG_DREP);
		break;
	default:
		break;
	}
}

/* ---- what the peer says ---------------------------------------------------------------------- */

/* To who said m, a request that nobody has taken or a REP that is not believed. */
static void reject(struct cm *cm, const struct container *to, const struct cm_msg *m,
		   uint32_t reason)
{
	struct cm_msg rej = {
		.type = CM_MSG_REJ,
		.sgid = m->dgid,
		.dgid = m->sgid,
		.src_comm = m->dst_comm,
		.dst_comm = m->src_comm,
		.status = reason,
	};

	cm_send(cm, to, &rej);
}

/* Refuse m if the QP that it names has a connection with the container, and end that. */
static bool reject_stale(struct cm *cm, const struct container *c, const struct cm_msg *m)
{
	struct cm_id *id;

	id = c->cm ? cm_id_by_remote(cm, c->cm, &m->sgid, m->param.qp_num) : NULL;
	if (!id)
		return false;
	reject(cm, c, m, CM_REJ_STALE_CONN);
	/* the answer may have come in, but ids are destroyed by their client only */
	if (id->state == CM_ESTABLISHED)
		cm_disconnect(id);
	return true;
}

void cm_recv_req(struct cm *cm, struct container *to, const struct cm_from *from,
		 const struct cm_msg *m)
{
	struct cm_id *l, *id;

	if (!cm_request_new(cm, to, from, m, &l) || reject_stale(cm, to, m))
		return;
	if (!l) {
		reject(cm, to, m, CM_REJ_INVALID_SERVICE_ID);
		return;
	}
	if (l->qp_type != m->qp_type) {
		reject(cm, to, m, CM_REJ_CONSUMER);
		return;
	}
	id = cm_request_id(l, from, m, CM_REQ_RCVD);
	if (!id)
		return;
	id->peer_qpn = m->param.qp_num;
	if (cm_id_remote(id)) {
		cm_id_destroy(id);
		return;
	}
	id->peer_psn = m->psn;
	id->responder_resources = m->param.initiator_depth;
	id->initiator_depth = m->param.responder_resources;
	id->retry_count = m->param.retry_count;
	id->rnr_retry_count = m->param.rnr_retry_count;
	cm_request_event(l, id, m, m->family == AF_IB ? FF_CM_PD_REQ_IB : FF_CM_PD_REQ);
	send_plain(id, CM_MSG_MRA);
}

/*
 * It is said again less often from now on. A UD request is not tied to who has taken it: the next
 * may answer as well.
 */
static void recv_mra(struct cm_id *id, const struct cm_msg *m)
{
	uint64_t left = time_left(id);

	if (!is_requesting(id))
		return;
	id->taken = true;
	if (id->state == CM_REQ_SENT)
		id->peer_comm = m->src_comm;
	if (!id->msg)
		return; /* say() is under way */
	id->msg->dst_comm = id->peer_comm;
	id->retry = CM_RETRY_MAX;
	cm_id_timer(id, CM_RETRY_MAX < left ? CM_RETRY_MAX : left);
}

/* The request comes to who has taken it: its answer was lost, or there is none yet. */
static void recv_req_again(struct cm_id *id)
{
	if (id->state == CM_REQ_RCVD)
		send_plain(id, CM_MSG_MRA);
}

static void recv_rep(struct cm_id *id, const struct cm_msg *m)
{
	struct ff_cm_event ev = {
		.event = RDMA_CM_EVENT_CONNECT_RESPONSE,
		.param = param_received(m),
		.ece = m->ece,
	};

	if (id->state == CM_ESTABLISHED)
		send_plain(id, CM_MSG_RTU);
	if (id->state != CM_REQ_SENT || reject_stale(id->cm, id->cont->c, m))
		return;
	id->peer_comm = m->src_comm;
	id->peer_qpn = m->param.qp_num;
	if (cm_id_remote(id))
		return; /* it will be said again */
	id->peer_psn = m->psn;
	id->responder_resources = m->param.initiator_depth;
	id->initiator_depth = m->param.responder_resources;
	id->rnr_retry_count = m->param.rnr_retry_count;
	cm_msg_drop(id);
	cm_id_timer(id, UINT64_MAX); /* the passive side watches */
	cm_id_state(id, CM_REP_RCVD);
	cm_event_send(id, &ev, m->pd, m->pd_len, FF_CM_PD_REP);
}

static void recv_rtu(struct cm_id *id)
{
	if (id->state == CM_REP_SENT)
		established(id);
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

/* The peer ends it. The MRA says that it need not be repeated by a router whose client has gone. */
static void recv_dreq(struct cm_id *id)
{
	switch (id->state) {
	case CM_REP_SENT: /* one side was established before the RTU: rdma_notify() */
	case CM_REP_RCVD:
	case CM_ESTABLISHED:
		cm_msg_drop(id);
		cm_id_timer(id, UINT64_MAX);
		cm_id_state(id, CM_DREQ_RCVD);
		cm_event_simple(id, RDMA_CM_EVENT_DISCONNECTED, 0);
		send_plain(id, CM_MSG_MRA);
		break;
	case CM_DREQ_RCVD:
		send_plain(id, CM_MSG_MRA);
		break;
	case CM_DREQ_SENT: /* both at once */
		disconnected(id, 0);
		send_plain(id, CM_MSG_DREP);
		break;
	default:
		send_plain(id, CM_MSG_DREP);
		break;
	}
}

static void recv_drep(struct cm_id *id)
{
	if (id->state == CM_DREQ_SENT)
		disconnected(id, 0);
}

void cm_recv_conn(struct cm_id *id, const struct cm_msg *m)
{
	switch (m->type) {
	case CM_MSG_REQ:
		recv_req_again(id);
		break;
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
