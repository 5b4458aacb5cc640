/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * wire.c - the connection manager's messages to and from other hosts. Control thread.
 * Neighbours: msg.c delivers, ffr/wire/ carries the messages, and has those that came in (wire/cm.c).
 *
 * A message travels as struct cm_msg up to its private data, between routers of one version (peer.c
 * sees to that). The sender's router is not trusted with more than its own containers: that the
 * sender is there was checked (wire_cm_take()), that the path is the two containers' is here.
 *
 * A message that will not be repeated waits for a connection, for a while, and any message waits while the connection
 * is full. Messages to one host stay in order.
 *
 * Tests: unit/cm/test_wire.c, unit/cm/test_wire_out.c, system/cm_rping.sh, system/fault_cm.sh
 */
#include <string.h>

#include "ffr/cm/internal.h"
#include "ffr/dir/dir.h"
#include "ffr/obj/cpu.h"
#include "ffr/peer/peer.h"

#define OUT_NS	       (5000 * NS_PER_MS)
#define MSG_SZ(pd_len) ((uint32_t)(offsetof(struct cm_msg, pd) + (pd_len)))
_Static_assert(sizeof(struct cm_msg) <= WIRE_SMALL_MAX, "it fits into a frame");
_Static_assert(FF_CM_PD_MAX >= UINT8_MAX, "pd_len cannot be too long");

/* Is it sent again when there is a connection? Then it need not wait for one. */
static bool is_repeated(const struct cm_msg *m)
{
	return m->type == CM_MSG_REQ || m->type == CM_MSG_REP || m->type == CM_MSG_SIDR_REQ;
}

/* The one that has the directory and the wires. */
static struct fast *wire_thread(const struct cm *cm)
{
	return cm->ctl->host->threads[0];
}

/* [lock] Send the messages that wait for a connection, as far as there are connections with room now. */
static void send_waiting(struct cm *cm)
{
	struct fast *f = wire_thread(cm);
	struct cm_frame *m, *next;

	cm->out_changes = wire_changes(f);
	cm_queue_expire(&cm->out, uv_hrtime());
	STAILQ_FOREACH_SAFE(m, &cm->out.list, entry, next)
		if (wire_has_room(m->peer) && !wire_send(f, m->peer, &m->h, m->msg))
			cm_queue_drop(&cm->out, m);
}

/* [lock] Send the message to that container's host. The number of the connection that it is in, or waits for; or 0. */
static uint32_t send_to(struct cm *cm, const struct container *from, const struct remote *to,
			const struct cm_msg *m)
{
	struct fast *f = wire_thread(cm);
	struct wire_hdr h = {
		.type = WIRE_CM,
		.len = MSG_SZ(m->pd_len),
		.dst_cont = to->id,
		.dst_epoch = to->epoch,
		.src_cont = from->id,
		.src_epoch = from->epoch,
	};
	uint32_t conn = wire_conn(to->peer);
	uint64_t now;

	if (!to->peer)
		return CM_CONN_NONE;
	if (cm->out.num && cm->out_changes != wire_changes(f)) /* what waits goes first */
		send_waiting(cm);
	if (wire_has_room(to->peer) && !wire_send(f, to->peer, &h, m))
		return conn;
	if (conn || !is_repeated(m)) {
		now = uv_hrtime();
		cm_queue_add(&cm->out, to->peer, &h, m, now, now + OUT_NS);
	}
	if (!conn)
		peer_want(to->peer);
	return conn;
}

bool cm_wire_send(struct cm *cm, const struct container *from, const struct cm_msg *m,
		  struct container **here, uint32_t *conn)
{
	struct fast *f = wire_thread(cm);
	struct ff_ah_attr path = { .is_global = 1 };
	struct remote *there = NULL;
	enum dir_answer a;

	*here = NULL;
	if (!f->host->dir)
		return false;
	memcpy(path.dgid, &m->dgid, sizeof(path.dgid));
	fast_lock(f->host);
	a = dir_path(f, from, &path, here, &there);
	if (a == DIR_REMOTE)
		*conn = send_to(cm, from, there, m);
	else
		*conn = CM_CONN_NONE;
	fast_unlock(f->host);
	return a == DIR_REMOTE || a == DIR_WAIT;
}

uint32_t cm_wire_conn(struct cm *cm, const struct container *from, const union ibv_gid *gid)
{
	struct fast *f = wire_thread(cm);
	struct ff_ah_attr path = { .is_global = 1 };
	struct container *here = NULL;
	struct remote *there = NULL;
	uint32_t conn = CM_CONN_NONE;
	enum dir_answer a;

	if (!f->host->dir)
		return container_by_gid(&f->host->containers, from->tenant, gid) ? CM_CONN_HERE :
										   CM_CONN_NONE;
	memcpy(path.dgid, gid, sizeof(path.dgid));
	fast_lock(f->host);
	a = dir_path(f, from, &path, &here, &there);
	if (a == DIR_REMOTE)
		conn = wire_conn(there->peer);
	else if (a == DIR_HERE)
		conn = CM_CONN_HERE;
	fast_unlock(f->host);
	return conn;
}

enum dir_answer cm_wire_look(struct cm *cm, const struct container *from, const union ibv_gid *gid)
{
	struct fast *f = wire_thread(cm);
	struct ff_ah_attr path = { .is_global = 1 };
	struct container *here = NULL;
	struct remote *there = NULL;
	enum dir_answer a;

	if (!f->host->dir)
		return DIR_NOBODY;
	memcpy(path.dgid, gid, sizeof(path.dgid));
	fast_lock(f->host);
	a = dir_path(f, from, &path, &here, &there);
	fast_unlock(f->host);
	return a == DIR_HERE && here->dying ? DIR_WAIT : a;
}

static struct container *container_of_id(const struct fast_host *h, uint32_t id)
{
	struct container *c;

	LIST_FOREACH(c, &h->containers, entry)
		if (c->id == id)
			return c;
	return NULL;
}

/* Copy it, and see whether it can be one between these two. */
static bool is_sound(const struct cm_frame *fr, const struct remote *from,
		     const struct container *to, struct cm_msg *m)
{
	uint32_t len = fr->h.len;

	if (len < MSG_SZ(0) || len > sizeof(*m))
		return false;
	memset(m, 0, sizeof(*m));
	memcpy(m, fr->msg, len);
	return m->type < CM_MSG_NUM && MSG_SZ(m->pd_len) <= len &&
	       gid_is_of(from->gid, from->num_gids, from->lid, &m->sgid) &&
	       gid_is_of(to->gid, to->num_gids, to->lid, &m->dgid);
}

/* One message; what it costs is its receiver's. False: there is none. */
static bool take_one(struct cm *cm)
{
	struct fast *f = wire_thread(cm);
	uint64_t begun = cpu_of_thread();
	struct cm_from from = { 0 };
	struct container *to = NULL;
	struct cm_frame *fr;
	struct remote *r;
	struct cm_msg m;
	bool ok = false;

	fast_lock(f->host);
	fr = wire_cm_take(f, &r);
	if (fr) {
		to = container_of_id(f->host, fr->h.dst_cont);
		ok = to && !to->dying && to->epoch == fr->h.dst_epoch &&
		     dir_allowed(f->host, to, r->tenant, r->name) && is_sound(fr, r, to, &m);
		from.id = r->id;
		memcpy(from.tenant, r->tenant, sizeof(from.tenant));
		memcpy(from.name, r->name, sizeof(from.name));
		wire_cm_taken(f, fr);
	}
	fast_unlock(f->host);
	if (ok)
		cm_deliver(cm, &from, to, &m);
	if (to)
		ctl_charge(to, begun);
	return fr;
}

static void frames_came(uv_async_t *a)
{
	struct cm *cm = a->data;
	struct fast *f = wire_thread(cm);
	uint64_t until = uv_hrtime() + CM_TURN_NS;
	bool more = true, plain;
	uint32_t changes;

	while (uv_hrtime() < until && (more = take_one(cm)))
		;
	plain = cm_plain_events(cm);
	if (more || plain) /* others have their turn before the rest */
		uv_async_send(a);
	fast_lock(f->host);
	changes = wire_changes(f);
	if (cm->out.num && changes != cm->out_changes)
		send_waiting(cm);
	fast_unlock(f->host);
	if (changes != cm->conn_changes)
		cm_conns_changed(cm);
	cm->conn_changes = changes;
}

/* [lock] */
static void tell(struct fast_host *h)
{
	struct cm *cm = h->cm_arg;

	uv_async_send(&cm->frames);
}

void cm_wire_init(struct cm *cm)
{
	struct fast_host *h = cm->ctl->host;

	uv_async_init(cm->ctl->loop, &cm->frames, frames_came);
	cm->frames.data = cm;
	cm_queue_init(&cm->out);
	fast_lock(h);
	h->cm_arg = cm;
	h->cm_wake = tell;
	fast_unlock(h);
}

void cm_wire_fini(struct cm *cm)
{
	fast_lock(cm->ctl->host);
	cm->ctl->host->cm_wake = NULL;
	wire_cm_stop(wire_thread(cm));
	cm_queue_expire(&cm->out, UINT64_MAX);
	fast_unlock(cm->ctl->host);
}
