/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ucma.c - rdma_cm in the NIC's network, by the host's kernel, for containers that may use the NIC's GID (nic_direct).
 * Control thread, without the lock, except for the worker's jobs. The connection manager calls this file (fast/ucma.h).
 * Neighbours: ucma_event.c (events of the kernel), ucma_call.c (connect and accept with iWARP), ucma_abi.c (the calls).
 *
 * The kernel's ids are made without a QP. The kernel exchanges the messages, and the QPs are the containers', which
 * have the NIC's numbers. The kernel takes calls only from the credential that has opened its file, and some calls wait
 * for the peer. So a worker for these calls alone (worker.c) opens the file, with the first id, and makes all calls, in
 * the order in which they were given. When epoll tells the runner that there are events, the worker fetches them, a few
 * at a time, and the next ones after the connection manager has taken the last ones.
 *
 * The kernel uses its numbers of ids again, so an event names its id by a number of the router's, which is never used
 * again. As in the kernel, a connection request has the number of its listener until it is accepted. A request that
 * nobody takes is ended by the next fetch, which needs no memory for that.
 *
 * With iWARP (iwarp.c) connect and accept name a QP, and the kernel takes the QP that has this number then. So the
 * number must be the container's when the call is given, and the QP stays while the call is under way: before a QP is
 * destroyed, the call is cancelled, or interrupted and waited for. The kernel's siw waits in connect until TCP has an
 * answer. Therefore the worker gets only one connect at a time, from the containers in turn, which is interrupted after
 * CONNECT_NS (ucma_call.c). iw_cm waits in destroy until the other side has answered. So while the kernel has not said
 * how a connection came out, its id is in doubt, and is destroyed later. MPA's timeouts end each doubt.
 */
#include "ffr/nic/cm/ucma.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffr/nic/cm/cm.h"

#define IDS_MAX	  16384u    /* ids of all containers, with those that are ending */
#define TIMEOUT_S 600u	    /* the longest time to resolve an address */
#define CONN_MASK 0xffffffu /* the bits of a QP number */

/* ---- the worker -------------------------------------------------------------------------------------------- */

static int make(int fd, struct ucma_job *j)
{
	const struct ucma_want *w = &j->want;
	struct ucma_id *id = j->id;
	int err = ucma_create(fd, id->uid, w->ps, w->qp_type, &id->handle);

	if (err)
		return err;
	err = ucma_bind(fd, id->handle, &j->src, j->what == UCMA_LISTEN ? w->port : 0, j->guid);
	if (!err)
		err = j->what == UCMA_LISTEN ? ucma_listen(fd, id->handle, w->backlog) :
					       ucma_resolve(fd, id->handle, w);
	if (err)
		ucma_destroy(fd, id->handle);
	id->is_made = !err;
	return err;
}

static int carry_out(int fd, struct ucma_job *j)
{
	uint32_t id = j->id->handle;

	if (j->what == UCMA_RESOLVE || j->what == UCMA_LISTEN)
		return make(fd, j);
	if (!j->id->is_made)
		return -ENODEV;
	switch (j->what) {
	case UCMA_CONNECT:
		if (j->u->is_stopping)
			return -ECANCELED;
		return ucma_connect(fd, id, &j->param, j->pd, j->pd_len);
	case UCMA_ACCEPT:
		return ucma_accept(fd, id, j->id->uid, &j->param, j->pd, j->pd_len);
	case UCMA_ESTABLISH:
		return ucma_accept(fd, id, j->id->uid, NULL, NULL, 0);
	case UCMA_REJECT:
		return ucma_reject(fd, id, j->reason, j->pd, j->pd_len);
	case UCMA_DISCONNECT:
		return ucma_disconnect(fd, id);
	default:
		ucma_destroy(fd, id);
		return 0;
	}
}

static void job_run(struct nic_job *job)
{
	struct ucma_job *j = (struct ucma_job *)job;

	if (j->u->fd < 0)
		j->u->fd = ucma_sys->open();
	j->fd = j->u->fd;
	j->err = j->fd < 0 ? -errno : carry_out(j->fd, j);
}

/* ---- ids ------------------------------------------------------------------------------------------------------ */

struct ucma_id *ucma_id_by_uid(struct nic_ucma *u, uint64_t uid)
{
	struct ucma_id *id;

	HASH_FIND(hh, u->ids, &uid, sizeof(uid), id);
	return id;
}

struct ucma_id *ucma_id_by_conn(struct nic_ucma *u, uint32_t conn)
{
	struct ucma_id *id;

	HASH_FIND(by_conn, u->conns, &conn, sizeof(conn), id);
	return id;
}

/* A number that no other connection has. There are fewer ids than numbers. */
static uint32_t next_conn(struct nic_ucma *u)
{
	do
		u->last_conn = (u->last_conn + 1) & CONN_MASK;
	while (!u->last_conn || ucma_id_by_conn(u, u->last_conn));
	return u->last_conn;
}

struct ucma_id *ucma_id_new(struct nic_ucma *u, void *user, const struct container *cont,
			    bool is_ud)
{
	struct ucma_id *id = u->num < IDS_MAX ? calloc(1, sizeof(*id)) : NULL;

	if (!id)
		return NULL;
	id->u = u;
	id->uid = ++u->last_uid;
	id->conn = next_conn(u);
	id->user = user;
	id->cont = cont;
	id->is_ud = is_ud;
	HASH_ADD(hh, u->ids, uid, sizeof(id->uid), id);
	if (!id->hh.tbl) {
		free(id);
		return NULL;
	}
	HASH_ADD(by_conn, u->conns, conn, sizeof(id->conn), id);
	if (!id->by_conn.tbl) {
		HASH_DELETE(hh, u->ids, id);
		free(id);
		return NULL;
	}
	u->num++;
	return id;
}

void ucma_id_free(struct nic_ucma *u, struct ucma_id *id)
{
	HASH_DELETE(hh, u->ids, id);
	HASH_DELETE(by_conn, u->conns, id);
	u->num--;
	free(id);
}

/* ---- jobs that are done ----------------------------------------------------------------------------------------- */

static void ucma_job_back(struct nic_job *job)
{
	struct ucma_job *j = (struct ucma_job *)job;
	struct nic_ucma *u = j->u;
	struct ucma_id *id = j->id;

	ucma_hear(u, j->fd);
	if (j->fd < 0 && !u->is_told)
		log_warn("/dev/infiniband/rdma_cm: %s: no rdma_cm with machines without freeflow",
			 strerror(-j->err));
	u->is_told = j->fd < 0;
	if (j->what == UCMA_DESTROY) {
		ucma_id_free(u, id);
		return;
	}
	if (id->call == j)
		ucma_call_back(u, j);
	else if (j->later)
		j->later->done(j->later, j->err);
	else if (j->err && !id->is_dead && j->what != UCMA_REJECT && j->what != UCMA_DISCONNECT)
		ucma_news_new(u, id,
			      j->what == UCMA_RESOLVE ? RDMA_CM_EVENT_ADDR_ERROR :
							RDMA_CM_EVENT_CONNECT_ERROR,
			      j->err);
	free(j);
}

void ucma_id_end(struct nic_ucma *u, struct ucma_id *id)
{
	id->end = (struct ucma_job){ .job = { .run = job_run, .back = ucma_job_back },
				     .u = u,
				     .id = id,
				     .what = UCMA_DESTROY };
	nic_job_give(u->worker, &id->end.job);
}

/* ---- what the connection manager wants -------------------------------------------------------------------------- */

static bool op_is_there(const struct container *c, uint16_t ps, uint8_t qp_type)
{
	const struct nic_dev *d = nic_of(c);

	if (!d || !d->ucma || !nic_is_up(d) ||
	    d->port_attr.link_layer != IBV_LINK_LAYER_ETHERNET) /* its GID is no address */
		return false;
	if (d->is_iwarp)
		return qp_type == IBV_QPT_RC && ps == RDMA_PS_TCP;
	return qp_type == IBV_QPT_RC || qp_type == IBV_QPT_UC || qp_type == IBV_QPT_UD;
}

static uint32_t op_changes(const struct container *c)
{
	const struct nic_dev *d = nic_of(c);

	return d && d->ucma ? d->ucma->changes : 0;
}

static struct ucma_job *job_new(struct nic_ucma *u, struct ucma_id *id, enum ucma_what what)
{
	struct ucma_job *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->job.run = job_run;
	j->job.back = ucma_job_back;
	j->u = u;
	j->id = id;
	j->what = what;
	return j;
}

static struct ucma_id *id_make(enum ucma_what what, const struct ucma_want *w,
			       struct carrier_later *l)
{
	struct nic_ucma *u = nic_of(w->cont)->ucma;
	struct ucma_id *id = ucma_id_new(u, w->user, w->cont, w->qp_type == IBV_QPT_UD);
	struct ucma_job *j = id ? job_new(u, id, what) : NULL;

	if (!j) {
		if (id)
			ucma_id_free(u, id);
		return NULL;
	}
	id->is_active = what == UCMA_RESOLVE;
	j->want = *w;
	if (j->want.timeout_ms > TIMEOUT_S * 1000)
		j->want.timeout_ms = TIMEOUT_S * 1000;
	j->src = u->d->gid;
	j->guid = u->d->attr.node_guid;
	j->later = l;
	nic_job_give(u->worker, &j->job);
	return id;
}

static struct ucma_id *op_resolve(const struct ucma_want *w)
{
	return id_make(UCMA_RESOLVE, w, NULL);
}

static struct ucma_id *op_listen(const struct ucma_want *w, struct carrier_later *l)
{
	return id_make(UCMA_LISTEN, w, l);
}

static void op_keep(struct ucma_id *id, void *user)
{
	id->user = user;
}

static void op_destroy(struct ucma_id *id)
{
	struct nic_ucma *u = id->u;
	struct ucma_news *n, *next;

	STAILQ_FOREACH_SAFE(n, &u->news, entry, next) {
		if (n->id != id)
			continue;
		STAILQ_REMOVE(&u->news, n, ucma_news, entry);
		if (n->ev.request)
			op_destroy(n->ev.request);
		ucma_news_free(n);
	}
	if (id->call && !ucma_call_cancel(u, id) && u->connecting == id->call)
		nic_job_interrupt(u->worker, &id->call->job);
	if (id->is_asked)
		nic_iw_down(u->d->f, id->qp_num, id->conn);
	id->is_dead = true;
	if (!id->is_in_doubt)
		ucma_id_end(u, id);
}

static int say(struct ucma_id *id, enum ucma_what what, const struct ff_cm_param *p, uint8_t reason,
	       const void *pd, uint32_t len)
{
	struct nic_ucma *u = id->u;
	bool ends = id->is_asked && (what == UCMA_REJECT || what == UCMA_DISCONNECT);
	struct ucma_job *j;

	if (ends) { /* iWARP: the kernel would refuse, or wait; the end of the QP tells the peer */
		ucma_call_cancel(u, id);
		nic_iw_down(u->d->f, id->qp_num, id->conn);
		if (id->is_in_doubt)
			return 0;
		what = UCMA_DISCONNECT;
	}
	j = job_new(u, id, what);
	if (!j)
		return -ENOMEM;
	if (p)
		j->param = *p;
	j->reason = reason;
	j->pd_len = (uint8_t)len;
	if (len)
		memcpy(j->pd, pd, len);
	if (u->d->is_iwarp && (what == UCMA_CONNECT || what == UCMA_ACCEPT))
		ucma_call_give(u, j);
	else
		nic_job_give(u->worker, &j->job);
	return 0;
}

static int op_connect(struct ucma_id *id, const struct ff_cm_param *p, const void *pd, uint32_t len)
{
	return say(id, UCMA_CONNECT, p, 0, pd, len);
}

static int op_accept(struct ucma_id *id, const struct ff_cm_param *p, const void *pd, uint32_t len)
{
	return say(id, UCMA_ACCEPT, p, 0, pd, len);
}

static int op_establish(struct ucma_id *id)
{
	if (id->is_asked) /* iWARP: the other side does not wait for this */
		return 0;
	return say(id, UCMA_ESTABLISH, NULL, 0, NULL, 0);
}

static int op_reject(struct ucma_id *id, uint8_t reason, const void *pd, uint32_t len)
{
	return say(id, UCMA_REJECT, NULL, reason, pd, len);
}

static int op_disconnect(struct ucma_id *id)
{
	return say(id, UCMA_DISCONNECT, NULL, 0, NULL, 0);
}

static bool op_event(struct fast *f, struct ucma_event *ev)
{
	struct nic_dev *d;

	NIC_FOREACH(d, f)
		if (ucma_take_event(d->ucma, ev))
			return true;
	return false;
}

const struct ucma_ops nic_ucma_ops = {
	.is_there = op_is_there,
	.changes = op_changes,
	.resolve = op_resolve,
	.listen = op_listen,
	.keep = op_keep,
	.destroy = op_destroy,
	.connect = op_connect,
	.accept = op_accept,
	.establish = op_establish,
	.reject = op_reject,
	.disconnect = op_disconnect,
	.event = op_event,
};

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

int nic_ucma_new(struct nic_dev *d)
{
	struct nic_ucma *u = calloc(1, sizeof(*u));

	if (!u)
		return -ENOMEM;
	u->worker = nic_worker_new(d->f->host);
	if (!u->worker) {
		free(u);
		return -ENOMEM;
	}
	u->d = d;
	u->fd = -1;
	u->fetch.run = ucma_fetch_run;
	u->fetch.back = ucma_fetch_back;
	STAILQ_INIT(&u->news);
	STAILQ_INIT(&u->connects);
	u->limit.fn = ucma_on_limit;
	d->ucma = u;
	return 0;
}

int nic_ucma_start(struct nic_dev *d)
{
	return d->ucma ? nic_worker_start(d->ucma->worker) : 0;
}

/* Interrupt a connect that waits for the network, because the router ends. */
static void connect_interrupt(struct nic_ucma *u)
{
	struct ucma_job *j = u->connecting;

	if (j)
		nic_job_await(u->worker, &j->job);
}

void nic_ucma_stop(struct nic_dev *d)
{
	if (!d->ucma)
		return;
	d->ucma->is_stopping = true;
	connect_interrupt(d->ucma);
	nic_worker_join(d->ucma->worker);
}

void nic_ucma_settle(struct nic_dev *d)
{
	if (d->ucma)
		nic_jobs_settle(d->ucma->worker);
}

void nic_ucma_changed(struct nic_dev *d)
{
	if (!d->ucma)
		return;
	d->ucma->changes++;
	if (d->f->host->cm_wake)
		d->f->host->cm_wake(d->f->host);
}

void nic_ucma_free(struct nic_dev *d)
{
	struct nic_ucma *u = d->ucma;
	struct ucma_id *id, *tmp;
	struct ucma_news *n;

	if (!u)
		return;
	nic_worker_free(u->worker);
	while ((n = STAILQ_FIRST(&u->news))) {
		STAILQ_REMOVE_HEAD(&u->news, entry);
		ucma_news_free(n);
	}
	HASH_ITER(hh, u->ids, id, tmp) {
		free(id->call); /* the worker never got it */
		ucma_id_free(u, id);
	}
	if (u->fd >= 0)
		close(u->fd); /* the kernel ends what it still has for this file */
	free(u);
	d->ucma = NULL;
}
