/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * msg.c - messages between the two sides of a connection. Control thread.
 *
 * A request finds its container by its path (dir.h). Every other message finds its id by the
 * communication id that the receiver gave out, and only if it comes along that id's path, from the
 * peer that the id knows: nobody has a say in the connections of others.
 */
#include <string.h>

#include "ffr/cm/internal.h"
#include "ffr/dir/dir.h"

void cm_msg_init(struct cm_msg *m, const struct cm_id *id, enum cm_msg_type type)
{
	memset(m, 0, offsetof(struct cm_msg, pd));
	m->type = (uint8_t)type;
	m->ps = id->ps;
	m->qp_type = id->qp_type;
	m->traffic_class = id->tos;
	m->sgid = id->sgid;
	m->dgid = id->dgid;
	m->src_comm = id->comm;
	m->dst_comm = id->peer_comm;
}

void cm_msg_pd(struct cm_msg *m, const void *pd, uint32_t len)
{
	m->pd_len = (uint8_t)len;
	if (len)
		memcpy(m->pd, pd, len);
}

/* Is the id the one that the message is for? */
static bool is_receiver(const struct cm_id *id, const struct cm_from *from, const struct cm_msg *m)
{
	return dir_allowed(id->cm->ctl->host, id->cont->c, from->tenant, from->name) &&
	       !memcmp(&id->sgid, &m->dgid, sizeof(id->sgid)) &&
	       !memcmp(&id->dgid, &m->sgid, sizeof(id->dgid)) &&
	       (!id->peer_comm || id->peer_comm == m->src_comm);
}

static bool has_ended(const struct cm_id *id)
{
	return id->state == CM_TIMEWAIT || id->state == CM_CLOSED;
}

/*
 * A connection that its peer no longer knows has ended (IBTA 12.9.8.3.1), and one that its peer has
 * given up does not begin: of the REJ or DREQ that said so the sender has not heard. Where there is
 * no container any more (to: NULL), its connections have ended.
 */
static void answer_stranger(struct cm *cm, const struct container *to, const struct container *from,
			    const struct cm_msg *m)
{
	struct cm_msg answer = {
		.sgid = m->dgid,
		.dgid = m->sgid,
		.src_comm = m->dst_comm,
		.dst_comm = m->src_comm,
	};

	if (cm_timewait_answer(cm, m))
		return;
	switch (m->type) {
	case CM_MSG_REQ:
		answer.type = CM_MSG_REJ;
		answer.status = CM_REJ_CONSUMER;
		break;
	case CM_MSG_REP:
		answer.type = CM_MSG_REJ;
		answer.status = CM_REJ_INVALID_COMM_ID;
		break;
	case CM_MSG_RTU:
		answer.type = CM_MSG_DREQ;
		break;
	case CM_MSG_DREQ:
		answer.type = CM_MSG_DREP;
		to = to ? to : from;
		break;
	default:
		return;
	}
	if (to)
		cm_send(cm, to, &answer);
}

void cm_deliver(struct cm *cm, const struct cm_from *from, struct container *to,
		const struct cm_msg *m)
{
	struct cm_id *id;

	if (m->dst_comm) {
		id = cm_id_by_comm(cm, m->dst_comm);
		if (!id || !is_receiver(id, from, m) || has_ended(id))
			answer_stranger(cm, to, from->c, m);
		else if (m->type == CM_MSG_SIDR_REP)
			cm_recv_sidr_rep(id, m);
		else
			cm_recv_conn(id, m);
		return;
	}
	if (!to || to->dying)
		return;
	if (m->type == CM_MSG_SIDR_REQ)
		cm_recv_sidr_req(cm, to, from, m);
	else if (m->type == CM_MSG_REQ)
		cm_recv_req(cm, to, from, m);
}

uint32_t cm_send(struct cm *cm, const struct container *from, const struct cm_msg *m)
{
	struct container *to = container_by_gid(&cm->ctl->host->containers, from->tenant, &m->dgid);
	struct cm_from by = { .c = from, .id = from->id };
	uint32_t conn;

	if (cm_is_plain(from, &m->sgid)) {
		cm_plain_send(cm, m);
		return CM_CONN_HERE;
	}
	if (!to && cm_wire_send(cm, from, m, &to, &conn))
		return conn;
	conn = to ? CM_CONN_HERE : CM_CONN_NONE;
	memcpy(by.tenant, from->tenant, sizeof(by.tenant));
	memcpy(by.name, from->name, sizeof(by.name));
	if (!to || dir_allowed(cm->ctl->host, to, by.tenant, by.name))
		cm_deliver(cm, &by, to, m);
	return conn;
}
