/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * event.c - rdma_get_cm_event() and rdma_ack_cm_event(): from the router's packets to the
 * program's events, and what the library does on the way. Any thread; neighbours: channel.c,
 * which finds the id of a packet, verbs.c, which moves its QP.
 *
 * Some events are more than news. A resolved address binds the id to the device; a request brings
 * an id of its own; the peer's answer moves the QP of an id to RTS, tells the peer so, and becomes
 * ESTABLISHED (without a QP the program does that, and calls rdma_establish()); a refusal moves it
 * to ERR; a group that was joined gets the QP attached.
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffl/cm/cm.h"

struct cm_event {
	struct rdma_cm_event event;
	struct cm_id *id; /* where it is counted: for a request the listener */
	struct cm_mc *mc;
	uint8_t data[FF_CM_PD_MAX];
};
static_assert(FF_CM_PD_MAX > UINT8_MAX, "private_data_len is one byte");

static bool is_ud(const struct cm_id *id)
{
	return id->id.qp_type == IBV_QPT_UD;
}

/* Count events as acknowledged; whoever destroys their object waits for that. */
static void acked(struct cm_id *id, struct cm_mc *mc)
{
	pthread_mutex_lock(&cm_lock);
	id->ev.acked++;
	if (mc)
		mc->ev.acked++;
	pthread_cond_broadcast(&cm_acked);
	pthread_mutex_unlock(&cm_lock);
}

/* ---- the event's parameters -------------------------------------------------------------------------- */

static uint8_t copy_data(struct cm_event *e, const struct cm_packet *p, const void **data)
{
	uint32_t len = p->ev.private_data_len;

	if (len > UINT8_MAX)
		len = UINT8_MAX;
	memcpy(e->data, p->data, len);
	*data = len ? e->data : NULL;
	return (uint8_t)len;
}

static void copy_conn(struct cm_event *e, const struct cm_packet *p)
{
	const struct ff_cm_param *from = &p->ev.param;
	struct rdma_conn_param *to = &e->event.param.conn;

	to->private_data_len = copy_data(e, p, &to->private_data);
	to->responder_resources = from->responder_resources;
	to->initiator_depth = from->initiator_depth;
	to->flow_control = from->flow_control;
	to->retry_count = from->retry_count;
	to->rnr_retry_count = from->rnr_retry_count;
	to->srq = from->srq;
	to->qp_num = from->qp_num;
}

static void copy_ud(struct cm_event *e, const struct cm_packet *p)
{
	const struct ff_cm_event *from = &p->ev;
	struct rdma_ud_param *to = &e->event.param.ud;

	to->private_data_len = copy_data(e, p, &to->private_data);
	to->qp_num = from->ud_qp_num;
	to->qkey = from->ud_qkey;
	to->ah_attr = (struct ibv_ah_attr){
		.grh = { .flow_label = from->ud_flow_label,
			 .sgid_index = from->ud_sgid_index,
			 .hop_limit = from->ud_hop_limit,
			 .traffic_class = from->ud_traffic_class },
		.dlid = from->ud_dlid,
		.sl = from->ud_sl,
		.is_global = 1,
		.port_num = e->id->id.port_num,
	};
	memcpy(to->ah_attr.grh.dgid.raw, from->dgid, sizeof(from->dgid));
}

static void copy_param(struct cm_event *e, const struct cm_packet *p)
{
	if (is_ud(e->id))
		copy_ud(e, p);
	else
		copy_conn(e, p);
}

/* ---- events that are more than news ------------------------------------------------------------------ */

/* The event became its own failure. */
static void failed(struct cm_event *e, enum rdma_cm_event_type event, int err)
{
	e->event.event = event;
	e->event.status = err;
}

static void addr_resolved(struct cm_event *e, const struct cm_packet *p)
{
	int err = cm_id_learn(e->id, &p->ev.path);

	if (!err && !e->id->id.verbs)
		err = -ENODEV;
	if (err)
		failed(e, RDMA_CM_EVENT_ADDR_ERROR, err);
}

static void route_resolved(struct cm_event *e, const struct cm_packet *p)
{
	int err = cm_id_learn(e->id, &p->ev.path);

	if (!err)
		err = cm_id_set_path(e->id);
	if (err)
		failed(e, RDMA_CM_EVENT_ROUTE_ERROR, err);
}

/* The request's id. false: there is none, nobody hears of the request. */
static bool connect_request(struct cm_event *e, const struct cm_packet *p)
{
	struct cm_id *listener = e->id, *id;
	int err;

	id = cm_id_new(to_channel(listener->id.channel), p->ses, listener->id.context,
		       listener->id.ps, listener->id.qp_type);
	if (!id)
		goto err_handle;
	err = cm_id_insert(id, p->ev.id);
	if (err) {
		rdma_destroy_id(&id->id); /* of the handle, too */
		return false;
	}
	id->initiator_depth = p->ev.param.initiator_depth;
	id->responder_resources = p->ev.param.responder_resources;
	id->remote_ece.vendor_id = p->ev.ece.vendor_id;
	id->remote_ece.options = p->ev.ece.options;
	if (listener->sync)
		err = cm_id_migrate(id, NULL);
	if (!err)
		err = cm_id_learn(id, &p->ev.path);
	if (!err && id->id.qp_type != IBV_QPT_UD) /* a SIDR_REQ has no path */
		err = cm_id_set_path(id);
	if (err) {
		rdma_destroy_id(&id->id);
		return false;
	}
	e->event.listen_id = &listener->id;
	e->event.id = &id->id;
	/* the id's port is the one that an answer of a UD service names */
	if (is_ud(listener))
		e->event.param.ud.ah_attr.port_num = id->id.port_num;
	return true;

err_handle:
	cm_channel_refuse(p->ses, p->ev.id);
	cm_session_put(p->ses);
	return false;
}

static void connect_response(struct cm_event *e, const struct cm_packet *p)
{
	struct cm_id *id = e->id;
	int err;

	copy_conn(e, p);
	if (!id->id.qp) {
		id->remote_ece.vendor_id = p->ev.ece.vendor_id;
		id->remote_ece.options = p->ev.ece.options;
		return;
	}
	err = cm_qp_response(id, &p->ev.ece);
	if (err) {
		failed(e, RDMA_CM_EVENT_CONNECT_ERROR, err);
		id->connect_error = true;
	} else {
		e->event.event = RDMA_CM_EVENT_ESTABLISHED;
	}
}

static void multicast_join(struct cm_event *e, const struct cm_packet *p)
{
	struct rdma_ud_param *ud = &e->event.param.ud;
	struct ibv_qp *qp = e->id->id.qp;
	int err;

	copy_ud(e, p);
	ud->private_data = e->mc->context;
	e->mc->mgid = ud->ah_attr.grh.dgid;
	e->mc->mlid = ud->ah_attr.dlid;
	if (!qp || e->mc->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER)
		return;
	err = cm_verb(ibv_attach_mcast(qp, &e->mc->mgid, e->mc->mlid));
	if (err)
		failed(e, RDMA_CM_EVENT_MULTICAST_ERROR, err);
}

static void addrinfo_resolved(struct cm_event *e)
{
	e->event.event = (enum rdma_cm_event_type)CM_EVENT_ADDRINFO_RESOLVED;
}

/* Newer headers have a 64-bit `arg` where ours have the other parameters. */
static void user_event(struct cm_event *e, const struct cm_packet *p)
{
	if (p->ev.private_data_len == sizeof(uint64_t))
		memcpy(&e->event.param, p->data, sizeof(uint64_t));
}

/*
 * The peer of the id's QP has left. The QP is looked up, because a program may have destroyed it by
 * ibv_destroy_qp(), which leaves id->qp as it was.
 */
static void peer_left(const struct rdma_cm_id *id)
{
	struct ffl_context *ctx = id->qp && id->verbs ? to_ctx(id->verbs) : NULL;
	const struct ffl_table *t;

	if (!ctx)
		return;
	pthread_mutex_lock(&ctx->table_lock);
	t = &ctx->table[FFL_QP];
	for (uint32_t i = 0; i < t->size; i++)
		if (t->slot[i].handle && t->slot[i].obj == to_qp(id->qp))
			atomic_store_explicit(&to_qp(id->qp)->peer_left, true,
					      memory_order_relaxed);
	pthread_mutex_unlock(&ctx->table_lock);
}

/* Fill in the event. false: it is not one for the program. */
static bool process(struct cm_event *e, const struct cm_packet *p)
{
	e->event.id = &e->id->id;
	e->event.event = p->ev.event;
	e->event.status = p->ev.status;
	switch ((unsigned)p->ev.event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		addr_resolved(e, p);
		return true;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		route_resolved(e, p);
		return true;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		copy_param(e, p);
		return connect_request(e, p);
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		connect_response(e, p);
		return true;
	case RDMA_CM_EVENT_REJECTED:
		if (e->id->connect_error)
			return false;
		copy_conn(e, p);
		cm_qp_error(e->id);
		return true;
	case RDMA_CM_EVENT_DISCONNECTED:
		if (e->id->connect_error)
			return false;
		copy_conn(e, p);
		peer_left(&e->id->id);
		return true;
	case RDMA_CM_EVENT_MULTICAST_JOIN:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
		if (!e->mc)
			return false;
		e->event.param.ud.private_data = e->mc->context;
		if (p->ev.event == RDMA_CM_EVENT_MULTICAST_JOIN)
			multicast_join(e, p);
		return true;
	case CM_EVENT_USER:
		user_event(e, p);
		return true;
	case CM_EVENT_INTERNAL:
		addrinfo_resolved(e);
		return true;
	default:
		copy_param(e, p);
		return true;
	}
}

/* ---- for the program --------------------------------------------------------------------------------- */

/*
 * Blocks unless the channel's descriptor is O_NONBLOCK. -1 and errno: EAGAIN, EINTR; EIO: the router is gone, and
 * the channel is a synchronous id's that does not listen, or that of a parent of this process.
 */
FFL_EXPORT int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct cm_packet p;
	struct cm_event *e;
	int err;

	if (!channel || !event)
		return cm_ret(-EINVAL);
	e = malloc(sizeof(*e));
	if (!e)
		return -1;
	for (;;) {
		memset(e, 0, sizeof(*e));
		err = cm_channel_take(to_channel(channel), &p, &e->id, &e->mc);
		if (err)
			break;
		if (process(e, &p)) {
			ffl_log(FFL_DEBUG, "CM id %#x: %s, status %d", p.ev.id,
				rdma_event_str(e->event.event), e->event.status);
			*event = &e->event;
			return 0;
		}
		acked(e->id, e->mc);
	}
	free(e);
	return cm_ret(err);
}

FFL_EXPORT int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct cm_event *e;

	if (!event)
		return cm_ret(-EINVAL);
	e = container_of_(event, struct cm_event, event);
	acked(e->id, e->mc);
	free(e);
	return 0;
}

void cm_events_drain(const struct cm_id *id, const struct cm_acks *ev)
{
	if (to_channel(id->id.channel)->pid != getpid())
		return;
	pthread_mutex_lock(&cm_lock);
	while (ev->acked != ev->returned)
		pthread_cond_wait(&cm_acked, &cm_lock);
	pthread_mutex_unlock(&cm_lock);
}

void cm_event_drop(struct cm_id *id)
{
	struct rdma_cm_event *event = id->id.event;

	id->id.event = NULL;
	if (event)
		rdma_ack_cm_event(event);
}

int cm_complete(struct cm_id *id)
{
	struct rdma_cm_event *event;

	if (!id->sync)
		return 0;
	cm_event_drop(id);
	if (rdma_get_cm_event(id->id.channel, &event))
		return -errno;
	id->id.event = event;
	if (!event->status)
		return 0;
	if (event->event == RDMA_CM_EVENT_REJECTED)
		return -ECONNREFUSED; /* the status is the IB CM's reason */
	return event->status < 0 ? event->status : -event->status;
}

FFL_EXPORT const char *rdma_event_str(enum rdma_cm_event_type event)
{
#define NAME(event) [event] = #event
	static const char *const name[] = {
		NAME(RDMA_CM_EVENT_ADDR_RESOLVED),
		NAME(RDMA_CM_EVENT_ADDR_ERROR),
		NAME(RDMA_CM_EVENT_ROUTE_RESOLVED),
		NAME(RDMA_CM_EVENT_ROUTE_ERROR),
		NAME(RDMA_CM_EVENT_CONNECT_REQUEST),
		NAME(RDMA_CM_EVENT_CONNECT_RESPONSE),
		NAME(RDMA_CM_EVENT_CONNECT_ERROR),
		NAME(RDMA_CM_EVENT_UNREACHABLE),
		NAME(RDMA_CM_EVENT_REJECTED),
		NAME(RDMA_CM_EVENT_ESTABLISHED),
		NAME(RDMA_CM_EVENT_DISCONNECTED),
		NAME(RDMA_CM_EVENT_DEVICE_REMOVAL),
		NAME(RDMA_CM_EVENT_MULTICAST_JOIN),
		NAME(RDMA_CM_EVENT_MULTICAST_ERROR),
		NAME(RDMA_CM_EVENT_ADDR_CHANGE),
		NAME(RDMA_CM_EVENT_TIMEWAIT_EXIT),
		[CM_EVENT_ADDRINFO_RESOLVED] = "RDMA_CM_EVENT_ADDRINFO_RESOLVED",
		[CM_EVENT_ADDRINFO_ERROR] = "RDMA_CM_EVENT_ADDRINFO_ERROR",
	};
#undef NAME

	return (unsigned)event < ARRAY_SIZE(name) ? name[event] : "UNKNOWN EVENT";
}
