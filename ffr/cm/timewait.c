/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * timewait.c - what is left of a connection to another host that this side has ended, and whose
 * last word may have been lost. Control thread.
 *
 *	REJ	is given again to who repeats what it answered: a REQ, a REP. So a request that was
 *		rejected does not come to the listener a second time.
 *	DREQ	of an id that its client has destroyed, or that went with its session: repeated until
 *		it is answered, by an MRA where the other program goes on, as if the id were there.
 *
 * Neither needs the id, nor the session; both end with their container.
 *
 * Tests: test_conn_lost.c
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffr/cm/internal.h"

#define TIMEWAIT_MAX 4096u /* then the oldest goes of the tenant that has most */

/* The entries of one tenant; there is one while it has any. */
struct cm_timewait_tenant {
	UT_hash_handle hh;
	char name[CONTAINER_NAME_MAX];
	TAILQ_HEAD(, cm_timewait) entries; /* oldest first */
	uint32_t num;
};

struct cm_timewait {
	TAILQ_ENTRY(cm_timewait) entry, of_tenant;
	struct cm_timewait_tenant *tenant;
	UT_hash_handle of_comm, of_peer;
	struct cm *cm;
	struct timer timer;
	uint64_t deadline;   /* ms */
	uint32_t comm;	     /* the id's */
	uint32_t conn;	     /* as cm_wire_conn(): what m was last sent on */
	struct cm_peer peer; /* comm: 0, if no request made the id */
	struct cm_msg m;
};

/* The tenant of that name, or NULL: no memory. */
static struct cm_timewait_tenant *tenant_get(struct cm *cm, const char *name)
{
	struct cm_timewait_tenant *t;

	HASH_FIND_STR(cm->timewait_tenants, name, t);
	if (t)
		return t;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	snprintf(t->name, sizeof(t->name), "%s", name);
	TAILQ_INIT(&t->entries);
	HASH_ADD_STR(cm->timewait_tenants, name, t);
	if (t->hh.tbl)
		return t;
	free(t);
	return NULL;
}

static void tenant_put(struct cm *cm, struct cm_timewait_tenant *t)
{
	if (t->num)
		return;
	HASH_DEL(cm->timewait_tenants, t);
	free(t);
}

static void forget(struct cm_timewait *w)
{
	struct cm *cm = w->cm;

	TAILQ_REMOVE(&cm->timewait, w, entry);
	HASH_DELETE(of_comm, cm->timewait_by_comm, w);
	if (w->peer.comm)
		HASH_DELETE(of_peer, cm->timewait_by_peer, w);
	timer_cancel(&cm->timers, &w->timer);
	cm->num_timewait--;
	TAILQ_REMOVE(&w->tenant->entries, w, of_tenant);
	w->tenant->num--;
	tenant_put(cm, w->tenant);
	free(w);
}

static const struct container *container_of(const struct cm_timewait *w)
{
	return container_by_gid(&w->cm->ctl->host->containers, w->tenant->name, &w->m.sgid);
}

static void on_timer(struct timer *t)
{
	struct cm_timewait *w = (void *)((char *)t - offsetof(struct cm_timewait, timer));
	const struct container *c = container_of(w);
	struct cm *cm = w->cm;
	uint32_t comm = w->comm, conn;

	if (!c || cm_now(cm) >= w->deadline) {
		forget(w);
		return;
	}
	conn = cm_send(cm, c, &w->m);
	w = cm_timewait_by_comm(cm, comm); /* it may have been answered at once */
	if (!w)
		return;
	w->conn = conn;
	cm_timer(cm, &w->timer, CM_RETRY_MAX);
}

struct cm_timewait *cm_timewait_by_comm(struct cm *cm, uint32_t comm)
{
	struct cm_timewait *w;

	HASH_FIND(of_comm, cm->timewait_by_comm, &comm, sizeof(comm), w);
	return w;
}

static struct cm_timewait *by_peer(struct cm *cm, const struct cm_peer *peer)
{
	struct cm_timewait *w;

	HASH_FIND(of_peer, cm->timewait_by_peer, peer, sizeof(*peer), w);
	return w;
}

/*
 * There is one entry too many. The oldest goes of the tenant that has most: a tenant that floods the table replaces its
 * own entries, and one with fewer than its share loses none.
 */
static struct cm_timewait *one_to_go(const struct cm *cm)
{
	const struct cm_timewait_tenant *most = NULL;

	for (const struct cm_timewait_tenant *t = cm->timewait_tenants; t; t = t->hh.next)
		if (!most || t->num > most->num)
			most = t;
	return TAILQ_FIRST(&most->entries);
}

void cm_timewait(struct cm_id *id, const struct cm_msg *m, uint32_t conn)
{
	struct cm *cm = id->cm;
	struct cm_timewait *w;

	if (conn == CM_CONN_HERE || !id->comm || cm_timewait_by_comm(cm, id->comm))
		return;
	w = calloc(1, sizeof(*w));
	if (!w)
		return;
	w->tenant = tenant_get(cm, id->cont->c->tenant);
	if (!w->tenant)
		goto err_free;
	w->cm = cm;
	w->timer.fn = on_timer;
	w->deadline = cm_now(cm) + CM_DREQ_TIMEOUT;
	if (cm_timer(cm, &w->timer, m->type == CM_MSG_DREQ ? CM_RETRY_MAX : CM_REQ_TIMEOUT))
		goto err_tenant;
	w->comm = id->comm;
	w->conn = conn;
	memcpy(&w->m, m, offsetof(struct cm_msg, pd) + m->pd_len);
	if (!by_peer(cm, &id->peer))
		w->peer = id->peer;
	HASH_ADD(of_comm, cm->timewait_by_comm, comm, sizeof(w->comm), w);
	if (!w->of_comm.tbl) /* the other side finds out by itself, later */
		goto err_timer;
	if (w->peer.comm)
		HASH_ADD(of_peer, cm->timewait_by_peer, peer, sizeof(w->peer), w);
	if (!w->of_peer.tbl)
		w->peer.comm = 0;
	TAILQ_INSERT_TAIL(&cm->timewait, w, entry);
	TAILQ_INSERT_TAIL(&w->tenant->entries, w, of_tenant);
	w->tenant->num++;
	if (++cm->num_timewait > TIMEWAIT_MAX)
		forget(one_to_go(cm));
	return;

err_timer:
	timer_cancel(&cm->timers, &w->timer);
err_tenant:
	tenant_put(cm, w->tenant);
err_free:
	free(w);
}

static struct cm_timewait *receiver_of(struct cm *cm, const struct cm_msg *m)
{
	struct cm_peer peer = { m->dgid, m->sgid, m->src_comm };
	struct cm_timewait *w;

	if (!m->dst_comm)
		return m->type == CM_MSG_REQ ? by_peer(cm, &peer) : NULL;
	w = cm_timewait_by_comm(cm, m->dst_comm);
	if (!w || memcmp(&w->m.sgid, &m->dgid, sizeof(m->dgid)) ||
	    memcmp(&w->m.dgid, &m->sgid, sizeof(m->sgid)) || w->m.dst_comm != m->src_comm)
		return NULL;
	return w;
}

bool cm_timewait_answer(struct cm *cm, const struct cm_msg *m)
{
	struct cm_timewait *w = receiver_of(cm, m);
	const struct container *c;

	if (!w)
		return false;
	switch (m->type) {
	case CM_MSG_REQ:
	case CM_MSG_REP:
		c = container_of(w);
		if (c)
			cm_send(cm, c, &w->m);
		return true;
	case CM_MSG_MRA: /* of the DREQ: the other program has been told */
	case CM_MSG_DREP:
	case CM_MSG_DREQ: /* both at once */
		if (w->m.type == CM_MSG_DREQ)
			forget(w);
		return m->type != CM_MSG_DREQ;
	default:
		return false;
	}
}

void cm_timewait_conns_changed(struct cm *cm)
{
	const struct container *c;
	struct cm_timewait *w;

	TAILQ_FOREACH(w, &cm->timewait, entry) {
		c = w->m.type == CM_MSG_DREQ ? container_of(w) : NULL;
		if (c && cm_wire_conn(cm, c, &w->m.dgid) != w->conn)
			cm_timer(cm, &w->timer, 0);
	}
}

void cm_timewait_fini(struct cm *cm)
{
	struct cm_timewait *w;

	while ((w = TAILQ_FIRST(&cm->timewait)))
		forget(w);
}
