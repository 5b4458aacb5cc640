/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * plain.c - rdma_cm with plain peers: programs without freeflow in the network of the host's NIC. Control thread.
 * Neighbours: msg.c gives what is for them, conn.c and sidr.c get what they say; a carrier's ucma_ops
 * (fast/ucma.h) have it said by the host's kernel.
 *
 * The kernel's rdma_cm speaks for the router, one of its ids for each of a container's that has to do with such a
 * peer. To conn.c this is one more way to the other side: its messages become the kernel's calls here, and the kernel's
 * events messages. What the kernel does itself stays there: repeating, timeouts of the wire, the numbers of packets.
 *
 *	REQ, SIDR_REQ	connect; answered by an MRA at once, for the kernel repeats it
 *	REP, SIDR_REP	accept, or reject
 *	RTU		establish
 *	REJ		reject
 *	DREQ, DREP	disconnect
 *	MRA		nothing
 *
 * Such a connection is known by its own GID, which is the NIC's and no address of the container: the last of its table,
 * where the operator allows that (nic_direct). An id comes to it
 *	- as a client, when it looks for an address that no container has, and is bound to none of its own;
 *	- as a listener on the wildcard or the NIC's address. The port is the host's then: who comes second, or where a
 *	  program of the host has it, gets the error if it asked for that address, and is there for containers only if
 *	  not. A listener on a loopback address is not for other machines.
 *
 * The peer is not asked about in the policy, which knows containers; as for all that goes from the NIC's GID. Nor can
 * anybody else be charged for what it says: a flood of requests costs the container that listens, and is served in
 * turns.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ffr/cm/internal.h"
#include "ffr/fast/ucma.h"
#include "ffr/obj/cpu.h"

#define IDS_MAX	      1024u /* of a container */
#define LISTENERS_MAX 256u  /* ids of a container that listen at ports of the host */

static struct fast *fast_of(const struct cm *cm)
{
	return cm->ctl->host->threads[0];
}

static const struct ucma_ops *ops_of(const struct cm *cm)
{
	return carriers_ucma(fast_of(cm));
}

/* Does the id have a way to such peers, now? */
static bool has_way(const struct cm_id *id)
{
	const struct cm *cm = id->cm;

	return ops_of(cm) && gid_nic_index(id->cont->c) >= 0 &&
	       ops_of(cm)->is_there(id->cont->c, id->ps, id->qp_type);
}

/* Can the NIC's address be used with this one: not of AF_IB, nor of the other version of IP? */
static bool is_alike(const struct container *c, uint16_t family)
{
	return family == (gid_is_v4(c->nic_gid.raw) ? AF_INET : AF_INET6);
}

static bool is_nic_addr(const struct container *c, const struct cm_addr *a)
{
	return gid_nic_index(c) >= 0 && is_alike(c, a->family) &&
	       !memcmp(&a->gid, &c->nic_gid, sizeof(a->gid));
}

int cm_addr_index(const struct container *c, const struct cm_addr *a)
{
	int i = cm_addr_own(c, a);
	struct cm_addr ip = *a;

	if (ip.family == AF_IB) /* a path's */
		ip.family = gid_is_v4(ip.gid.raw) ? AF_INET : AF_INET6;
	return i < 0 && is_nic_addr(c, &ip) ? gid_nic_index(c) : i;
}

bool cm_is_plain(const struct container *c, const union ibv_gid *sgid)
{
	return gid_nic_index(c) >= 0 && gid_index(c, sgid) < 0;
}

/* ---- the kernel's id ---------------------------------------------------------------------------------------- */

static void own(struct cm_id *id, struct ucma_id *of_kernel)
{
	id->plain = of_kernel;
	id->cont->num_plain++;
	if (id->state == CM_LISTEN)
		id->cont->num_plain_listeners++;
}

void cm_plain_forget(struct cm_id *id)
{
	if (!id->plain)
		return;
	ops_of(id->cm)->destroy(id->plain);
	id->plain = NULL;
	id->cont->num_plain--;
	if (id->state == CM_LISTEN)
		id->cont->num_plain_listeners--;
}

static struct ucma_want want_of(struct cm_id *id)
{
	return (struct ucma_want){ .user = id,
				   .cont = id->cont->c,
				   .ps = id->ps,
				   .qp_type = id->qp_type,
				   .tos = id->tos };
}

/* A number for a peer, that no other at its addresses has. */
static uint32_t next_comm(struct cm *cm)
{
	return ++cm->last_plain ? cm->last_plain : ++cm->last_plain;
}

/* What the peer says, as if it were a container. */
static void hear(struct cm_id *id, enum cm_msg_type type)
{
	const struct cm_msg m = { .type = (uint8_t)type, .src_comm = id->peer_comm };

	cm_recv_conn(id, &m);
}

/* There is nobody any more to speak with, whatever the id waits for. It may be destroyed. */
static void lost(struct cm_id *id, int err)
{
	cm_plain_forget(id);
	switch (id->state) {
	case CM_REQ_SENT:
	case CM_SIDR_REQ_SENT:
	case CM_REP_SENT:
		cm_conn_failed(id, err);
		break;
	case CM_REQ_RCVD:
		hear(id, CM_MSG_REJ);
		break;
	case CM_REP_RCVD:
	case CM_ESTABLISHED:
		hear(id, CM_MSG_DREQ);
		break;
	case CM_DREQ_SENT:
		hear(id, CM_MSG_DREP);
		break;
	default:
		break;
	}
}

/* ---- as a client --------------------------------------------------------------------------------------------- */

bool cm_plain_reaches(const struct cm_id *id, const struct cm_addr *dst)
{
	const struct container *c = id->cont->c;

	return has_way(id) && is_alike(c, dst->family) && !cm_addr_wild(dst) &&
	       !cm_addr_linklocal(dst) && !gid_is_mcast(dst->gid.raw) &&
	       (cm_addr_any(&id->src) || is_nic_addr(c, &id->src));
}

void cm_plain_resolve(struct cm_id *id)
{
	struct ucma_want w = want_of(id);
	uint64_t now = cm_now(id->cm), left = id->deadline > now ? id->deadline - now : 0;
	struct ucma_id *k;

	if (id->plain || id->plain_failed || !cm_plain_reaches(id, &id->dst) ||
	    id->cont->num_plain >= IDS_MAX)
		return;
	w.dst = id->dst.gid;
	w.port = id->dst.port;
	w.timeout_ms = left < UINT32_MAX ? (uint32_t)left : UINT32_MAX;
	k = ops_of(id->cm)->resolve(&w);
	if (k)
		own(id, k);
	else
		id->plain_failed = true;
}

static void resolved(struct cm_id *id)
{
	const struct container *c = id->cont->c;

	cm_id_timer(id, UINT64_MAX);
	id->src.gid = c->nic_gid;
	id->sgid = c->nic_gid;
	id->sgid_index = (uint8_t)gid_nic_index(c);
	id->dgid = id->dst.gid;
	id->attached = true;
	cm_id_state(id, CM_ADDR_RESOLVED);
	cm_event_simple(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
}

/* ---- as a listener --------------------------------------------------------------------------------------------- */

struct listening {
	struct ctl_later l;
	struct cm_id *id;
	struct ucma_id *k;
};

static bool is_exposed(const struct cm_id *l)
{
	const struct container *c = l->cont->c;

	if (!has_way(l) || l->cont->num_plain >= IDS_MAX ||
	    l->cont->num_plain_listeners >= LISTENERS_MAX)
		return false;
	if (!cm_addr_any(&l->src))
		return is_nic_addr(c, &l->src);
	return is_alike(c, l->src.family) || (l->src.family == AF_INET6 && !l->af_only);
}

static void listen_begin(struct cm_id *l, struct carrier_later *later)
{
	struct ucma_want w = want_of(l);
	struct ucma_id *k;

	w.port = l->src.port;
	w.backlog = l->backlog;
	k = ops_of(l->cm)->listen(&w, later);
	if (k)
		own(l, k);
}

/* It listens for containers by now. */
static int listen_finish(struct ctl_call *c, struct ctl_later *later, int err, void *resp)
{
	struct listening *ls = (struct listening *)later;
	struct cm_id *id = ls->id;
	bool is_its = id->plain == ls->k;
	struct container *cont = id->cont->c;

	(void)c;
	(void)resp;
	free(ls);
	if (!err || err == -ECANCELED || !is_its)
		return 0;
	cm_plain_forget(id);
	if (is_nic_addr(cont, &id->src)) {
		cm_id_state(id, CM_BOUND);
		return err;
	}
	log_client(
		&cont->log, LOG_LEVEL_INFO,
		"container %s: port %u of the NIC's address: %s: who listens there is there for containers only",
		cont->name, id->src.port, strerror(-err));
	return 0;
}

int cm_plain_listen(struct ctl_call *c, struct cm_id *id)
{
	struct listening *ls;

	if (!is_exposed(id))
		return 0;
	ls = calloc(1, sizeof(*ls));
	if (!ls)
		return 0; /* as if the NIC were away */
	ls->l.finish = listen_finish;
	ls->id = id;
	listen_begin(id, &ls->l.be);
	if (!id->plain) {
		free(ls);
		return 0;
	}
	ls->k = id->plain;
	ctl_call_later(c, &ls->l);
	return CTL_LATER;
}

static void listen_again(struct cm_id *l)
{
	cm_plain_forget(l);
	if (is_exposed(l))
		listen_begin(l, NULL);
}

void cm_plain_begin(struct cm *cm, struct cm_cont *cont)
{
	if (ops_of(cm))
		cont->plain_changes = ops_of(cm)->changes(cont->c);
}

/* Is the container's NIC back, or has it another address? */
static void look_at_nic(struct cm *cm, struct cm_cont *cont)
{
	uint32_t changes = ops_of(cm)->changes(cont->c);

	if (changes != cont->plain_changes)
		cm_port_each_listener(cont, listen_again);
	cont->plain_changes = changes;
}

static struct cm_msg request_of(const struct cm_id *l, const struct ucma_event *ev, uint32_t comm)
{
	const struct container *c = l->cont->c;
	struct cm_msg m = {
		.type = l->qp_type == IBV_QPT_UD ? CM_MSG_SIDR_REQ : CM_MSG_REQ,
		.qp_type = l->qp_type,
		.traffic_class = ev->traffic_class,
		.ps = l->ps,
		.family = gid_is_v4(c->nic_gid.raw) ? AF_INET : AF_INET6,
		.sgid = ev->peer,
		.dgid = c->nic_gid,
		.src_comm = comm,
		.psn = ev->sq_psn,
		.age = CM_LISTEN_MS, /* the kernel knows that somebody listens */
		.param = ev->param,
	};

	m.param.responder_resources = ev->param.initiator_depth;
	m.param.initiator_depth = ev->param.responder_resources;
	m.src = (struct cm_addr){ .family = m.family, .port = ev->peer_port, .gid = ev->peer };
	m.dst = (struct cm_addr){ .family = m.family, .port = l->src.port, .gid = c->nic_gid };
	cm_msg_pd(&m, ev->pd, ev->pd_len);
	return m;
}

static void request(struct cm_id *l, const struct ucma_event *ev)
{
	struct cm *cm = l->cm;
	struct container *c = l->cont->c;
	uint32_t comm = next_comm(cm);
	struct cm_msg m = request_of(l, ev, comm);
	struct cm_peer peer = { m.dgid, m.sgid, comm };
	const struct cm_from from = { 0 };
	struct cm_id *id = NULL;

	if (l->state == CM_LISTEN && !c->dying && l->cont->num_plain < IDS_MAX) {
		if (m.type == CM_MSG_REQ)
			cm_recv_req(cm, c, &from, &m);
		else
			cm_recv_sidr_req(cm, c, &from, &m);
		id = cm_id_by_peer(cm, &peer);
	}
	if (!id) {
		ops_of(cm)->destroy(ev->request);
		return;
	}
	own(id, ev->request);
	ops_of(cm)->keep(ev->request, id);
	id->psn = ev->rq_psn;
	id->path_mtu = ev->path_mtu;
}

/* ---- what the container says ------------------------------------------------------------------------------------ */

static int say(struct cm_id *id, const struct cm_msg *m)
{
	const struct ucma_ops *ops = ops_of(id->cm);

	switch (m->type) {
	case CM_MSG_REQ:
	case CM_MSG_SIDR_REQ:
		return ops->connect(id->plain, &m->param, m->pd, m->pd_len);
	case CM_MSG_REP:
		return ops->accept(id->plain, &m->param, m->pd, m->pd_len);
	case CM_MSG_SIDR_REP:
		if (m->status == CM_SIDR_SUCCESS)
			return ops->accept(id->plain, &m->param, m->pd, m->pd_len);
		return ops->reject(id->plain, 0, m->pd, m->pd_len);
	case CM_MSG_REJ:
		return ops->reject(id->plain,
				   m->status == CM_REJ_VENDOR_OPTION ? CM_REJ_VENDOR_OPTION : 0,
				   m->pd, m->pd_len);
	case CM_MSG_RTU:
		return ops->establish(id->plain);
	case CM_MSG_DREQ:
	case CM_MSG_DREP:
		return ops->disconnect(id->plain);
	default:
		return 0;
	}
}

/* Does the id go on after it has said that? */
static bool is_answered(uint8_t type)
{
	return type != CM_MSG_REJ && type != CM_MSG_SIDR_REP && type != CM_MSG_DREP;
}

void cm_plain_send(struct cm *cm, const struct cm_msg *m)
{
	struct cm_id *id = m->src_comm ? cm_id_by_comm(cm, m->src_comm) : NULL;

	if (!id || m->type == CM_MSG_MRA)
		return; /* of a request that gets no id: request() ends it */
	if (!id->plain || say(id, m)) {
		if (is_answered(m->type))
			lost(id, id->plain ? -ENOMEM : -ENODEV);
		else
			cm_plain_forget(id); /* which says the same */
	} else if (m->type == CM_MSG_REQ || m->type == CM_MSG_SIDR_REQ) {
		hear(id, CM_MSG_MRA);
	}
}

/* ---- what the kernel tells --------------------------------------------------------------------------------------- */

static struct cm_msg message_of(const struct cm_id *id, enum cm_msg_type type,
				const struct ucma_event *ev)
{
	struct cm_msg m = { .type = (uint8_t)type,
			    .qp_type = id->qp_type,
			    .sgid = id->dgid,
			    .dgid = id->sgid,
			    .src_comm = id->peer_comm,
			    .dst_comm = id->comm,
			    .status = (uint32_t)ev->status,
			    .psn = ev->sq_psn,
			    .param = ev->param };

	m.param.responder_resources = ev->param.initiator_depth;
	m.param.initiator_depth = ev->param.responder_resources;
	cm_msg_pd(&m, ev->pd, ev->pd_len);
	return m;
}

static void response(struct cm_id *id, const struct ucma_event *ev)
{
	struct cm_msg m = message_of(id, CM_MSG_REP, ev);

	if (id->state != CM_REQ_SENT) { /* it has given up */
		cm_plain_forget(id);
		return;
	}
	m.src_comm = next_comm(id->cm);
	id->psn = ev->rq_psn;
	id->path_mtu = ev->path_mtu;
	cm_recv_conn(id, &m);
}

static void sidr_answer(struct cm_id *id, const struct ucma_event *ev)
{
	struct cm_msg m = message_of(id, CM_MSG_SIDR_REP, ev);

	cm_recv_sidr_rep(id, &m);
}

static void rejected(struct cm_id *id, const struct ucma_event *ev)
{
	struct cm_msg m = message_of(id, CM_MSG_REJ, ev);

	cm_recv_conn(id, &m);
}

static void told(struct cm_id *id, const struct ucma_event *ev)
{
	struct container *c = id->cont->c;
	uint64_t from = cpu_of_thread();

	switch (ev->event) {
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if (id->state == CM_ADDR_QUERY)
			resolved(id);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		cm_plain_forget(id);
		id->plain_failed = true;
		break;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		request(id, ev);
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		response(id, ev);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		if (id->qp_type == IBV_QPT_UD)
			sidr_answer(id, ev);
		else
			hear(id, CM_MSG_RTU);
		break;
	case RDMA_CM_EVENT_REJECTED:
		rejected(id, ev);
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
		if (id->qp_type == IBV_QPT_UD && ev->status > 0)
			sidr_answer(id, ev);
		else
			lost(id, ev->status);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		hear(id, id->state == CM_DREQ_SENT ? CM_MSG_DREP : CM_MSG_DREQ);
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		lost(id, ev->status < 0 ? ev->status : -ENODEV);
		break;
	default:
		break;
	}
	ctl_charge(c, from);
}

bool cm_plain_events(struct cm *cm)
{
	uint64_t until = uv_hrtime() + CM_TURN_NS;
	struct ucma_event ev;
	struct container *c;
	bool more = true;

	if (!ops_of(cm))
		return false;
	while (uv_hrtime() < until && (more = ops_of(cm)->event(fast_of(cm), &ev)))
		told(ev.user, &ev);
	LIST_FOREACH(c, &cm->ctl->host->containers, entry)
		if (c->cm)
			look_at_nic(cm, c->cm);
	return more;
}
