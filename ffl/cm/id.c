/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * id.c - struct rdma_cm_id from its creation to its end: addresses, routes, options, migration.
 * Any thread; neighbours: channel.c, event.c, conn.c.
 *
 * An id of the router is made with the id of the program, for the program's calls, or comes with a
 * connection request. What the program reads in its id (route, verbs, port_num) is set by the calls
 * and by rdma_get_cm_event(), each from one message of the router's.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/ib.h>
#include <infiniband/sa.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffl/cm/cm.h"

/* Of a path that is good for both directions and all messages. */
#define PATH_FLAGS (IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL)

/* ---- socket addresses -------------------------------------------------------------------------------- */

socklen_t cm_addrlen(const struct sockaddr *addr)
{
	if (!addr)
		return 0;
	switch (addr->sa_family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	case AF_IB:
		return sizeof(struct sockaddr_ib);
	default:
		return 0;
	}
}

uint16_t cm_addr_port(const struct sockaddr *addr)
{
	switch (addr->sa_family) {
	case AF_INET:
		return ((const struct sockaddr_in *)addr)->sin_port;
	case AF_INET6:
		return ((const struct sockaddr_in6 *)addr)->sin6_port;
	case AF_IB:
		return htobe16((uint16_t)be64toh(((const struct sockaddr_ib *)addr)->sib_sid));
	default:
		return 0;
	}
}

static_assert(sizeof(struct sockaddr_ib) <= sizeof(struct ff_cm_addr), "room for each family");

FFL_EXPORT __be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return cm_addr_port(&id->route.addr.src_addr);
}

FFL_EXPORT __be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return cm_addr_port(&id->route.addr.dst_addr);
}

/* ---- creation and end -------------------------------------------------------------------------------- */

/* The library's part, also of an id that was never entered into the table. */
static void id_free(struct cm_id *id)
{
	struct cm_mc *mc;

	while ((mc = id->mcs)) {
		id->mcs = mc->next;
		free(mc);
	}
	if (id->dev)
		cm_device_put(id);
	if (id->sync)
		cm_channel_free(to_channel(id->id.channel));
	cm_session_put(id->ses);
	if (id->resolved_ai)
		rdma_freeaddrinfo(id->resolved_ai);
	free(id->id.route.path_rec);
	free(id->listen_qp_attr);
	free(id->connect_data);
	free(id);
}

struct cm_id *cm_id_new(struct cm_channel *ch, struct cm_session *s, void *context,
			enum rdma_port_space ps, enum ibv_qp_type qp_type)
{
	struct cm_id *id = calloc(1, sizeof(*id));
	bool sync = !ch;

	if (!id)
		return NULL;
	if (sync) {
		ch = cm_channel_new();
		if (!ch) {
			free(id);
			return NULL;
		}
	}
	id->sync = sync;
	if (sync)
		ch->own = id;
	id->ses = s ? s : cm_session_ref(ch->line->ses);
	id->id.channel = &ch->pub;
	id->id.context = context;
	id->id.ps = ps;
	id->id.qp_type = qp_type;
	return id;
}

int cm_id_insert(struct cm_id *id, uint32_t handle)
{
	int err;

	id->handle = handle;
	pthread_mutex_lock(&cm_lock);
	err = ffl_table_put(id->ses->ctx, FFL_CM_ID, handle, id);
	pthread_mutex_unlock(&cm_lock);
	return err;
}

/* The router's part. 0 or -errno; the router tells how many packets it ever wrote for the id. */
static int destroy_handle(struct cm_session *s, uint32_t handle, uint32_t *reported)
{
	struct ff_cm_destroy_id_req req = { .id = handle };
	struct ff_cm_destroy_id_resp resp;
	int err = CM_CALL(s, CM_DESTROY_ID, &req, &resp);

	*reported = resp.events_reported;
	return err;
}

/* Call with renew_lock held, unless the id gets a channel of its own. */
static int create(struct rdma_event_channel *channel, struct rdma_cm_id **idp, void *context,
		  enum rdma_port_space ps, enum ibv_qp_type qp_type)
{
	struct ff_cm_create_id_req req = { .ps = (uint16_t)ps, .qp_type = (uint8_t)qp_type };
	struct ff_cm_create_id_resp resp;
	struct cm_id *id;
	uint32_t reported;
	int err;

	id = cm_id_new(channel ? to_channel(channel) : NULL, NULL, context, ps, qp_type);
	if (!id)
		return -errno;
	req.uid = (uintptr_t)id;
	req.channel = to_channel(id->id.channel)->line->handle;
	err = CM_CALL(id->ses, CM_CREATE_ID, &req, &resp);
	if (err)
		goto err_free;
	err = cm_id_insert(id, resp.id);
	if (err)
		goto err_handle;
	*idp = &id->id;
	return 0;

err_handle:
	destroy_handle(id->ses, resp.id, &reported);
err_free:
	id_free(id);
	return err;
}

int cm_id_create(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		 enum rdma_port_space ps, enum ibv_qp_type qp_type)
{
	bool is_live;
	int err;

	if ((unsigned)ps > UINT16_MAX) /* the field has less room than the program's enum */
		return -EINVAL;
	if (!channel)
		return create(NULL, id, context, ps, qp_type);
	do { /* again: the call may find out that the router died */
		cm_id_keep();
		is_live = cm_channel_is_live(to_channel(channel));
		err = create(channel, id, context, ps, qp_type);
		cm_id_leave();
	} while (err == -EIO && is_live);
	return err;
}

FFL_EXPORT int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id,
			      void *context, enum rdma_port_space ps)
{
	bool ud = ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB;

	return cm_ret(cm_id_create(channel, id, context, ps, ud ? IBV_QPT_UD : IBV_QPT_RC));
}

/*
 * The connection ends, if there is one; events that nobody has fetched are gone. Waits until those
 * that were are acknowledged. Works also when the router is gone.
 */
FFL_EXPORT int rdma_destroy_id(struct rdma_cm_id *cm_id)
{
	struct cm_id *id = to_id(cm_id);
	uint32_t reported, outstanding;
	int err;

	cm_id_keep();
	err = destroy_handle(id->ses, id->handle, &reported);
	if (!err || err == -EIO) {
		pthread_mutex_lock(&cm_lock);
		ffl_table_del(id->ses->ctx, FFL_CM_ID, id->handle);
		outstanding = err ? 0 : reported - id->known;
		pthread_mutex_unlock(&cm_lock);
		err = 0;
	}
	cm_id_leave();
	if (err)
		return cm_ret(err);
	cm_channel_forget(to_channel(cm_id->channel), id->ses, id->handle, outstanding);
	cm_event_drop(id);
	cm_events_drain(id, &id->ev);
	id_free(id);
	return 0;
}

/* ---- what the router knows --------------------------------------------------------------------------- */

static_assert(sizeof(((struct rdma_addr *)0)->src_storage) >= sizeof(struct ff_cm_addr), "");

/* What the router knows of its addresses and its path, for cm_id_learn(). Call with renew_lock held. */
static int query(struct cm_id *id)
{
	struct ff_cm_query_req req = { .id = id->handle };
	struct ff_cm_query_resp path;
	int err = CM_CALL(id->ses, CM_QUERY, &req, &path);

	if (!err)
		id->path = path;
	return err;
}

int cm_id_learn(struct cm_id *id, const struct ff_cm_query_resp *path)
{
	struct rdma_addr *addr = &id->id.route.addr;
	int err;

	id->path = *path;
	memcpy(&addr->src_storage, &id->path.local, sizeof(id->path.local));
	memcpy(&addr->dst_storage, &id->path.remote, sizeof(id->path.remote));
	if (!id->path.port_num)
		return 0;
	memcpy(addr->addr.ibaddr.sgid.raw, id->path.sgid, sizeof(id->path.sgid));
	memcpy(addr->addr.ibaddr.dgid.raw, id->path.dgid, sizeof(id->path.dgid));
	addr->addr.ibaddr.pkey = htobe16(id->path.pkey);
	if (id->dev)
		return 0;
	id->id.port_num = id->path.port_num;
	cm_id_keep(); /* of the session that it has now */
	err = cm_device_get(id);
	cm_id_leave();
	return err;
}

int cm_id_set_path(struct cm_id *id)
{
	const struct ff_cm_query_resp *q = &id->path;
	struct ibv_sa_path_rec *rec = id->id.route.path_rec;

	if (!rec)
		rec = calloc(1, sizeof(*rec));
	if (!rec)
		return -ENOMEM;
	*rec = (struct ibv_sa_path_rec){
		.flow_label = htobe32(q->flow_label),
		.hop_limit = q->hop_limit,
		.traffic_class = q->traffic_class,
		.reversible = 1,
		.numb_path = 1,
		.pkey = htobe16(q->pkey),
		.sl = q->sl,
		.mtu_selector = 2, /* exactly */
		.mtu = q->mtu,
		.rate_selector = 2,
		.rate = IBV_RATE_100_GBPS,
		.packet_life_time_selector = 2,
		.packet_life_time = q->packet_life_time,
		.preference = PATH_FLAGS, /* as the kernel's answer becomes a record */
	};
	memcpy(rec->sgid.raw, q->sgid, sizeof(q->sgid));
	memcpy(rec->dgid.raw, q->dgid, sizeof(q->dgid));
	id->id.route.path_rec = rec;
	id->id.route.num_paths = 1;
	return 0;
}

/* ---- addresses and routes ---------------------------------------------------------------------------- */

int cm_id_bind(struct cm_id *id, const struct sockaddr *addr)
{
	struct ff_cm_bind_req req = { 0 };
	struct ff_cm_bind_resp resp;
	socklen_t len = cm_addrlen(addr);
	int err;

	if (!len)
		return -EINVAL;
	memcpy(&req.addr, addr, len);
	err = CM_ID_CALL_KEEP(id, CM_BIND, &req, &resp);
	if (!err)
		err = query(id);
	cm_id_leave();
	return err ? err : cm_id_learn(id, &id->path);
}

FFL_EXPORT int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	return cm_ret(cm_id_bind(to_id(id), addr));
}

static void set_resolving(struct cm_id *id, bool is_resolving)
{
	pthread_mutex_lock(&cm_lock);
	id->is_resolving = is_resolving;
	pthread_mutex_unlock(&cm_lock);
}

int cm_id_resolve_addr(struct cm_id *id, const struct sockaddr *src, const struct sockaddr *dst,
		       int timeout_ms)
{
	struct ff_cm_resolve_addr_req req = { .timeout_ms = timeout_ms };
	struct ff_cm_resolve_addr_resp resp;
	socklen_t src_len = cm_addrlen(src), dst_len = cm_addrlen(dst);
	bool is_live;
	int err;

	if (!dst_len || (src && !src_len))
		return -EINVAL;
	if (src)
		memcpy(&req.src, src, src_len);
	memcpy(&req.dst, dst, dst_len);
	do {
		is_live = cm_id_enter(id);
		set_resolving(id, is_live); /* before its event can come */
		req.id = id->handle;
		err = CM_CALL(id->ses, CM_RESOLVE_ADDR, &req, &resp);
		if (err)
			set_resolving(id, false);
		cm_id_leave();
	} while (err == -EIO && is_live && !id->dev);
	if (err)
		return err;
	memcpy(&id->id.route.addr.dst_storage, dst, dst_len);
	return cm_complete(id);
}

FFL_EXPORT int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst,
				 int timeout_ms)
{
	return cm_ret(cm_id_resolve_addr(to_id(id), src, dst, timeout_ms));
}

FFL_EXPORT int rdma_resolve_route(struct rdma_cm_id *cm_id, int timeout_ms)
{
	struct cm_id *id = to_id(cm_id);
	struct ff_cm_resolve_route_req req = { .id = id->handle, .timeout_ms = timeout_ms };
	struct ff_cm_resolve_route_resp resp;
	int err = CM_CALL(id->ses, CM_RESOLVE_ROUTE, &req, &resp);

	return cm_ret(err ? err : cm_complete(id));
}

FFL_EXPORT int rdma_listen(struct rdma_cm_id *cm_id, int backlog)
{
	struct cm_id *id = to_id(cm_id);
	struct ff_cm_listen_req req = { .backlog = backlog };
	struct ff_cm_listen_resp resp;
	int err = CM_ID_CALL_KEEP(id, CM_LISTEN, &req, &resp);

	if (!err)
		err = query(id);
	if (!err) {
		id->is_listening = true;
		id->backlog = backlog;
	}
	cm_id_leave();
	return cm_ret(err ? err : cm_id_learn(id, &id->path));
}

/* ---- options ----------------------------------------------------------------------------------------- */

/* The kernel takes the first record that is good for both directions and all messages. */
static bool has_path(const struct ibv_path_data *path, size_t len)
{
	if (len % sizeof(*path))
		return false;
	for (; len; len -= sizeof(*path), path++)
		if (path->flags == PATH_FLAGS)
			return true;
	return false;
}

/*
 * The router does not take a path from the program: the one that it has is the only one. Any other
 * that is well formed has its ROUTE_RESOLVED as in the kernel.
 */
FFL_EXPORT int rdma_set_option(struct rdma_cm_id *cm_id, int level, int option, void *value,
			       size_t len)
{
	struct cm_id *id = to_id(cm_id);
	struct ff_cm_set_option_req req = { .level = (uint32_t)level, .option = (uint32_t)option };
	struct ff_cm_set_option_resp resp;
	int err;

	if (!value && len)
		return cm_ret(-EFAULT);
	if (level == RDMA_OPTION_IB && option == RDMA_OPTION_IB_PATH) {
		if (!has_path(value, len))
			return cm_ret(-EINVAL);
		return cm_ret(CM_ID_CALL(id, CM_SET_OPTION, &req, &resp));
	}
	if (level != RDMA_OPTION_ID)
		return cm_ret(-ENOSYS);
	switch (option) {
	case RDMA_OPTION_ID_TOS:
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		if (len != sizeof(uint8_t))
			return cm_ret(-EINVAL);
		req.value = *(uint8_t *)value;
		break;
	case RDMA_OPTION_ID_REUSEADDR:
	case RDMA_OPTION_ID_AFONLY:
		if (len != sizeof(int))
			return cm_ret(-EINVAL);
		req.value = !!*(int *)value;
		break;
	default:
		return cm_ret(-ENOSYS);
	}
	err = CM_ID_CALL_KEEP(id, CM_SET_OPTION, &req, &resp);
	if (!err) {
		id->options |= 1u << option;
		id->option[option] = req.value;
	}
	cm_id_leave();
	return cm_ret(err);
}

/* ---- migration --------------------------------------------------------------------------------------- */

int cm_id_migrate(struct cm_id *id, struct rdma_event_channel *channel)
{
	struct rdma_event_channel *old = id->id.channel;
	bool sync = !channel, was_sync = id->sync;
	struct cm_channel *own = NULL;
	int err;

	if (sync) {
		if (was_sync)
			return -EINVAL;
		own = cm_channel_new();
		if (!own)
			return -errno;
		channel = &own->pub;
	}
	cm_id_enter(id);
	err = cm_channel_is_live(to_channel(channel)) ?
		      cm_channel_move(to_channel(old), to_channel(channel), id) :
		      -EIO;
	if (!err) {
		pthread_mutex_lock(&cm_lock);
		id->sync = sync;
		id->id.channel = channel;
		pthread_mutex_unlock(&cm_lock);
	}
	if (!err && own)
		own->own = id;
	cm_id_leave();
	if (err) {
		if (own)
			cm_channel_free(own);
		return err;
	}
	if (was_sync)
		cm_event_drop(id);
	if (was_sync)
		cm_channel_free(to_channel(old));
	return 0;
}

/* Events that were fetched from the old channel must have been acknowledged: it waits for that. */
FFL_EXPORT int rdma_migrate_id(struct rdma_cm_id *cm_id, struct rdma_event_channel *channel)
{
	struct cm_id *id = to_id(cm_id);
	int err = cm_id_migrate(id, channel);

	if (!err)
		cm_events_drain(id, &id->ev);
	return cm_ret(err);
}
