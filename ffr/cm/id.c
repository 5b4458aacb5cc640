/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * id.c - ids of the connection manager from creation to destruction, and their timer. Control
 * thread.
 *
 * Communication ids are the router's, not the client's: peers know each other by them. They come
 * from a counter with a random start, so that one is not used again soon.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "ffr/cm/internal.h"
#include "ffr/ctl/obj.h"
#include "ffr/obj/cpu.h"

#define TIMERS_BATCH 16u /* that run before a look at the clock */

/* ---- the manager ---------------------------------------------------------------------------- */

/* xorshift64: PSNs and the like; nothing depends on them not being guessed. */
static uint32_t cm_random(struct cm *cm)
{
	cm->random ^= cm->random << 13;
	cm->random ^= cm->random >> 7;
	cm->random ^= cm->random << 17;
	return (uint32_t)(cm->random >> 32);
}

struct cm *cm_create(struct ctl *ctl)
{
	struct cm *cm = calloc(1, sizeof(*cm));

	if (!cm)
		return NULL;
	cm->ctl = ctl;
	ctl->cm_ops = &cm_ops;
	cm->timer_at = UINT64_MAX;
	TAILQ_INIT(&cm->timewait);
	if (getrandom(&cm->random, sizeof(cm->random), GRND_NONBLOCK) < 0 || !cm->random)
		cm->random = uv_hrtime() | 1;
	cm->last_comm = cm_random(cm);
	uv_timer_init(ctl->loop, &cm->timer);
	cm->timer.data = cm;
	cm->open_handles = 2;
	cm_wire_init(cm);
	return cm;
}

static void on_closed(uv_handle_t *h)
{
	struct cm *cm = h->data;

	if (--cm->open_handles)
		return;
	timer_heap_free(&cm->timers);
	free(cm);
}

void cm_free(struct cm *cm)
{
	if (!cm)
		return;
	cm_wire_fini(cm);
	cm_timewait_fini(cm);
	uv_close((uv_handle_t *)&cm->timer, on_closed);
	uv_close((uv_handle_t *)&cm->frames, on_closed);
}

/* ---- time ----------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *t)
{
	struct cm *cm = t->data;

	cm_expire(cm, uv_now(cm->ctl->loop));
}

uint64_t cm_now(const struct cm *cm)
{
	return cm->now ? cm->now : uv_now(cm->ctl->loop);
}

static void timer_update(struct cm *cm)
{
	uint64_t next = timer_next(&cm->timers), now = uv_now(cm->ctl->loop);

	if (next >= cm->timer_at)
		return; /* a timer that comes too early does no harm */
	cm->timer_at = next;
	uv_timer_start(&cm->timer, on_timer, next > now ? next - now : 0, 0);
}

static void on_id_timer(struct timer *t)
{
	struct cm_id *id = (struct cm_id *)((char *)t - offsetof(struct cm_id, timer));
	struct container *c = id->cont->c;
	uint64_t from = cpu_of_thread();

	cm_id_timer(id, UINT64_MAX);
	switch (id->state) {
	case CM_ADDR_QUERY:
		cm_resolve_expired(id);
		break;
	case CM_TIMEWAIT:
		cm_id_state(id, CM_CLOSED);
		cm_event_simple(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
		break;
	default:
		cm_conn_expired(id);
		break;
	}
	ctl_charge(c, from);
}

int cm_timer(struct cm *cm, struct timer *t, uint64_t ms)
{
	uint64_t at = ms == UINT64_MAX ? ms : cm_now(cm) + ms;

	if (t->index && t->at == at)
		return 0;
	if (timer_arm(&cm->timers, t, at))
		return -ENOMEM;
	if (!cm->now)
		timer_update(cm);
	return 0;
}

void cm_id_timer(struct cm_id *id, uint64_t ms)
{
	cm_timer(id->cm, &id->timer, ms);
}

bool cm_expire(struct cm *cm, uint64_t now)
{
	uint64_t until = uv_hrtime() + CM_TURN_NS;

	cm->now = now;
	while (timer_run(&cm->timers, now, TIMERS_BATCH) && uv_hrtime() < until)
		;
	cm->now = 0;
	cm->timer_at = UINT64_MAX;
	if (timer_next(&cm->timers) > now) {
		timer_update(cm);
		return true;
	}
	cm->timer_at = now; /* the others after a turn of the loop */
	uv_timer_start(&cm->timer, on_timer, 1, 0);
	return false;
}

/* ---- communication ids ---------------------------------------------------------------------- */

struct cm_id *cm_id_by_comm(struct cm *cm, uint32_t comm)
{
	struct cm_id *id;

	HASH_FIND(of_comm, cm->by_comm, &comm, sizeof(comm), id);
	return id;
}

int cm_id_comm(struct cm_id *id)
{
	struct cm *cm = id->cm;

	if (id->comm)
		return 0;
	do {
		id->comm = ++cm->last_comm;
	} while (!id->comm || cm_id_by_comm(cm, id->comm) || cm_timewait_by_comm(cm, id->comm));
	HASH_ADD(of_comm, cm->by_comm, comm, sizeof(id->comm), id);
	if (id->of_comm.tbl)
		return 0;
	id->comm = 0;
	return -ENOMEM;
}

struct cm_id *cm_id_by_peer(struct cm *cm, const struct cm_peer *peer)
{
	struct cm_id *id;

	HASH_FIND(of_peer, cm->by_peer, peer, sizeof(*peer), id);
	return id;
}

int cm_id_peer(struct cm_id *id)
{
	struct cm *cm = id->cm;

	id->peer = (struct cm_peer){ id->sgid, id->dgid, id->peer_comm };
	if (cm_id_by_peer(cm, &id->peer))
		return 0;
	HASH_ADD(of_peer, cm->by_peer, peer, sizeof(id->peer), id);
	if (!id->of_peer.tbl)
		return -ENOMEM;
	id->has_peer = true;
	return 0;
}

static void peer_forget(struct cm_id *id)
{
	if (id->has_peer)
		HASH_DELETE(of_peer, id->cm->by_peer, id);
	id->has_peer = false;
}

static struct cm_remote remote_of(const struct cm_cont *cont, const union ibv_gid *gid,
				  uint32_t qpn)
{
	return (struct cm_remote){ .cont = cont, .gid = *gid, .qpn = qpn };
}
static_assert(sizeof(struct cm_remote) == sizeof(void *) + 24, "no padding in a key");

struct cm_id *cm_id_by_remote(struct cm *cm, const struct cm_cont *cont, const union ibv_gid *gid,
			      uint32_t qpn)
{
	struct cm_remote remote = remote_of(cont, gid, qpn);
	struct cm_id *id;

	HASH_FIND(of_remote, cm->by_remote, &remote, sizeof(remote), id);
	return id;
}

int cm_id_remote(struct cm_id *id)
{
	struct cm *cm = id->cm;

	id->remote = remote_of(id->cont, &id->dgid, id->peer_qpn);
	HASH_ADD(of_remote, cm->by_remote, remote, sizeof(id->remote), id);
	if (!id->of_remote.tbl)
		return -ENOMEM;
	id->has_remote = true;
	return 0;
}

static void remote_forget(struct cm_id *id)
{
	if (id->has_remote)
		HASH_DELETE(of_remote, id->cm->by_remote, id);
	id->has_remote = false;
}

/* ---- ids ------------------------------------------------------------------------------------ */

static struct cm_cont *cont_get(struct cm *cm, struct container *c)
{
	struct cm_cont *cont = c->cm;

	if (cont)
		return cont;
	cont = calloc(1, sizeof(*cont));
	if (cont) {
		cont->c = c;
		c->cm = cont;
		cm_plain_begin(cm, cont);
	}
	return cont;
}

static void cont_put(struct cm_cont *cont)
{
	if (cont->n.ids)
		return;
	cont->c->cm = NULL;
	free(cont);
}

struct cm_counts cm_counts(const struct container *c)
{
	return c->cm ? c->cm->n : (struct cm_counts){ 0 };
}

struct cm_id *cm_id_create(struct session *s, struct channel *ch, uint16_t ps, uint8_t qp_type)
{
	struct cm *cm = s->conn->ctl->cm;
	struct cm_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->cm = cm;
	id->ps = ps;
	id->qp_type = qp_type;
	id->has_uid = true;
	id->timer.fn = on_id_timer;
	TAILQ_INIT(&id->events);
	TAILQ_INIT(&id->mcs);
	LIST_INIT(&id->pending);
	if (timer_arm(&cm->timers, &id->timer, UINT64_MAX))
		goto err_free;
	id->cont = cont_get(cm, s->cont);
	if (!id->cont)
		goto err_timer;
	id->chan = cm_chan_get(ch);
	if (!id->chan)
		goto err_cont;
	if (ctl_obj_insert(s, OBJ_CM_ID, &id->o))
		goto err_chan;
	TAILQ_INSERT_TAIL(&id->chan->ids, id, of_chan);
	id->cont->n.ids++;
	id->psn = cm_random(cm) & 0xffffff;
	return id;

err_chan:
	cm_chan_put(id->chan);
err_cont:
	cont_put(id->cont);
err_timer:
	timer_cancel(&cm->timers, &id->timer);
err_free:
	free(id);
	return NULL;
}

static uint32_t *state_count(struct cm_id *id)
{
	if (id->state == CM_LISTEN)
		return &id->cont->n.listeners;
	if (id->state == CM_ESTABLISHED || id->state == CM_SIDR_DONE)
		return &id->cont->n.connections;
	if (id->state == CM_ADDR_QUERY)
		return &id->cont->num_queries;
	return NULL;
}

void cm_id_state(struct cm_id *id, enum cm_state state)
{
	uint32_t *n = state_count(id);

	if (n)
		--*n;
	id->state = (uint8_t)state;
	if (state == CM_CLOSED)
		peer_forget(id);
	if (state == CM_CLOSED || state == CM_TIMEWAIT)
		remote_forget(id);
	n = state_count(id);
	if (n)
		++*n;
}

/* Requests that the client has not been told of go with their listener. */
static void pending_release(struct cm_id *l)
{
	struct cm_id *id;

	while ((id = LIST_FIRST(&l->pending))) {
		if (id->request)
			cm_id_destroy(id);
		else
			cm_request_taken(id);
	}
}

void cm_id_destroy(struct cm_id *id)
{
	struct session *s = id->o.ses;
	struct cm_event *e;

	cm_abandon(id);
	cm_plain_forget(id);
	cm_id_state(id, CM_CLOSED);
	pending_release(id);
	cm_request_taken(id);
	cm_msg_drop(id);
	if (id->request)
		cm_event_drop(id->request);
	while ((e = TAILQ_FIRST(&id->events)))
		cm_event_drop(e);
	cm_leave_all(id);
	cm_port_release(id);
	if (id->comm)
		HASH_DELETE(of_comm, id->cm->by_comm, id);
	timer_cancel(&id->cm->timers, &id->timer);
	ctl_obj_remove(s, &id->o);
	TAILQ_REMOVE(&id->chan->ids, id, of_chan);
	cm_chan_put(id->chan);
	id->cont->n.ids--;
	cont_put(id->cont);
	free(id);
}

bool cm_session_gone(struct session *s, uint32_t *at, uint64_t until)
{
	struct obj_table *t = &s->tab[OBJ_CM_ID];

	for (; t->used && *at < t->size; ++*at) {
		if (!t->slot[*at])
			continue;
		if (uv_hrtime() >= until)
			return false;
		cm_id_destroy(obj_of(t->slot[*at], cm_id));
	}
	return true;
}

bool cm_channel_gone(struct channel *ch, uint64_t until)
{
	while (ch->cm && uv_hrtime() < until)
		cm_id_destroy(TAILQ_FIRST(&ch->cm->ids));
	return !ch->cm;
}
