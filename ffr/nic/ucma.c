/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ucma.c - rdma_cm in the NIC's network, by the host's kernel, for who may use the NIC's GID (nic_direct). Control
 * thread, without the lock, but for the worker's jobs. What asks for it is the connection manager (fast/ucma.h).
 *
 * Ids are the kernel's, made without a QP: it does the exchange of messages, and the QPs are the containers', which
 * have the NIC's numbers. The kernel takes calls only from the credential that has opened its file, and some of them
 * wait for others. So a worker of their own (worker.c) opens the file, with the first id, and makes all calls, in
 * the order in which they were given. It also fetches the events when epoll tells the runner that there are any, a
 * few at a time, and not before the connection manager has taken the last ones.
 *
 * The kernel's numbers of ids are used again, so an event names its id by a number of the router's that never is. A
 * request has its listener's until it is accepted, as the kernel has it. One that nobody takes is given back by the
 * next fetch, which needs no memory for that.
 */
#include "ffr/nic/nic.h"

#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "ffr/fast/ucma.h"
#include "ffr/nic/ucma_abi.h"

#define IDS_MAX	  16384u /* of all containers, and that end */
#define FETCH	  32u	 /* events that are fetched at once */
#define TIMEOUT_S 600u	 /* to look for an address, at most */

/* An event on its way to the connection manager. */
struct news {
	STAILQ_ENTRY(news) entry;
	struct ucma_id *id;
	struct ucma_event ev;
};

enum what { RESOLVE, LISTEN, CONNECT, ACCEPT, ESTABLISH, REJECT, DISCONNECT, DESTROY };

struct ucma_job {
	struct nic_job job;
	struct nic_ucma *u;
	struct ucma_id *id;
	enum what what;
	int err, fd; /* of the worker, for epoll */
	struct ucma_want want;
	union ibv_gid src; /* the NIC's */
	uint64_t guid;
	struct backend_later *later; /* LISTEN; or NULL */
	struct ff_cm_param param;
	uint8_t reason, pd_len;
	uint8_t pd[FF_CM_PD_MAX];
};

struct ucma_id {
	UT_hash_handle hh;
	uint64_t uid;
	void *user;
	bool is_dead; /* DESTROY was given */
	bool is_ud;
	/* the worker's, once a job was given: */
	bool is_made;
	uint32_t handle;
	struct ucma_job end; /* what cannot fail needs no memory */
	struct news lost;
};

/* d->ucma */
struct nic_ucma {
	struct nic_dev *d;
	struct nic_worker *worker;
	int fd;			 /* the worker's to open */
	bool is_told;		 /* the log has it that there is no file */
	bool is_heard;		 /* epoll tells of it */
	_Atomic bool has_events; /* the runner says that there are some */
	struct ucma_id *ids;	 /* uthash, by uid */
	uint64_t last_uid;
	uint32_t num; /* with those that end */
	uint32_t changes;
	STAILQ_HEAD(, news) news;
	/* the job that fetches events, one at a time */
	struct nic_job fetch;
	bool is_fetching;
	uint32_t num_told, num_orphans;
	struct ucma_told told[FETCH];
	uint32_t orphan[FETCH]; /* requests that nobody takes: the next fetch ends them */
};

static struct nic_ucma *ucma_of(const struct backend *be)
{
	return be->f->host->nic ? be->f->host->nic->ucma : NULL;
}

/* ---- the worker -------------------------------------------------------------------------------------------- */

static int make(int fd, struct ucma_job *j)
{
	const struct ucma_want *w = &j->want;
	struct ucma_id *id = j->id;
	int err = ucma_create(fd, id->uid, w->ps, w->qp_type, &id->handle);

	if (err)
		return err;
	err = ucma_bind(fd, id->handle, &j->src, j->what == LISTEN ? w->port : 0, j->guid);
	if (!err)
		err = j->what == LISTEN ? ucma_listen(fd, id->handle, w->backlog) :
					  ucma_resolve(fd, id->handle, w);
	if (err)
		ucma_destroy(fd, id->handle);
	id->is_made = !err;
	return err;
}

static int carry_out(int fd, struct ucma_job *j)
{
	uint32_t id = j->id->handle;

	if (j->what == RESOLVE || j->what == LISTEN)
		return make(fd, j);
	if (!j->id->is_made)
		return -ENODEV;
	switch (j->what) {
	case CONNECT:
		return ucma_connect(fd, id, &j->param, j->pd, j->pd_len);
	case ACCEPT:
		return ucma_accept(fd, id, j->id->uid, &j->param, j->pd, j->pd_len);
	case ESTABLISH:
		return ucma_accept(fd, id, j->id->uid, NULL, NULL, 0);
	case REJECT:
		return ucma_reject(fd, id, j->reason, j->pd, j->pd_len);
	case DISCONNECT:
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

/* As soon as an event is there: what is to be done next, or known with it. */
static void ask_more(int fd, struct ucma_told *t)
{
	if (t->event == RDMA_CM_EVENT_ADDR_RESOLVED)
		t->err = ucma_resolve_route(fd, t->id);
	if (t->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		t->err = ucma_ask_peer(fd, t);
	if (!t->err && (t->event == RDMA_CM_EVENT_CONNECT_REQUEST ||
			t->event == RDMA_CM_EVENT_CONNECT_RESPONSE))
		t->err = ucma_ask_path(fd, t);
}

static void fetch_run(struct nic_job *job)
{
	struct nic_ucma *u = (struct nic_ucma *)((char *)job - offsetof(struct nic_ucma, fetch));

	while (u->num_orphans)
		ucma_destroy(u->fd, u->orphan[--u->num_orphans]);
	u->num_told = 0;
	while (u->num_told < FETCH && !ucma_next(u->fd, &u->told[u->num_told]))
		ask_more(u->fd, &u->told[u->num_told++]);
}

/* ---- ids ------------------------------------------------------------------------------------------------------ */

static struct ucma_id *id_by_uid(struct nic_ucma *u, uint64_t uid)
{
	struct ucma_id *id;

	HASH_FIND(hh, u->ids, &uid, sizeof(uid), id);
	return id && !id->is_dead ? id : NULL;
}

static struct ucma_id *id_new(struct nic_ucma *u, void *user, bool is_ud)
{
	struct ucma_id *id = u->num < IDS_MAX ? calloc(1, sizeof(*id)) : NULL;

	if (!id)
		return NULL;
	id->uid = ++u->last_uid;
	id->user = user;
	id->is_ud = is_ud;
	HASH_ADD(hh, u->ids, uid, sizeof(id->uid), id);
	if (!id->hh.tbl) {
		free(id);
		return NULL;
	}
	u->num++;
	return id;
}

static void id_free(struct nic_ucma *u, struct ucma_id *id)
{
	HASH_DELETE(hh, u->ids, id);
	u->num--;
	free(id);
}

/* ---- what comes of it ------------------------------------------------------------------------------------------ */

/* NULL: there is no memory, and then it is the id's last word that there was not. */
static struct news *news_new(struct nic_ucma *u, struct ucma_id *id, enum rdma_cm_event_type event,
			     int status)
{
	struct news *n = calloc(1, sizeof(*n));

	if (!n) {
		if (id->lost.id)
			return NULL;
		n = &id->lost;
		event = RDMA_CM_EVENT_CONNECT_ERROR;
		status = -ENOMEM;
	}
	n->id = id;
	n->ev.event = event;
	n->ev.status = status;
	STAILQ_INSERT_TAIL(&u->news, n, entry);
	if (u->d->f->host->cm_frames)
		u->d->f->host->cm_frames(u->d->f->host);
	return n == &id->lost ? NULL : n;
}

static void news_free(struct news *n)
{
	if (n != &n->id->lost)
		free(n);
}

static void hear(struct nic_ucma *u, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };

	ev.data.u64 = (uint64_t)(uintptr_t)u | FAST_EPOLL_BACKEND;
	if (u->is_heard || fd < 0)
		return;
	if (epoll_ctl(u->d->f->epoll_fd, EPOLL_CTL_ADD, fd, &ev))
		log_err("rdma_cm: epoll: %m");
	u->is_heard = true;
}

static void job_back(struct nic_job *job)
{
	struct ucma_job *j = (struct ucma_job *)job;
	struct nic_ucma *u = j->u;
	struct ucma_id *id = j->id;

	hear(u, j->fd);
	if (j->fd < 0 && !u->is_told)
		log_warn("/dev/infiniband/rdma_cm: %s: no rdma_cm with machines without freeflow",
			 strerror(-j->err));
	u->is_told = j->fd < 0;
	if (j->what == DESTROY) {
		id_free(u, id);
		return;
	}
	if (j->later)
		j->later->done(j->later, j->err);
	else if (j->err && !id->is_dead && j->what != REJECT && j->what != DISCONNECT)
		news_new(u, id,
			 j->what == RESOLVE ? RDMA_CM_EVENT_ADDR_ERROR :
					      RDMA_CM_EVENT_CONNECT_ERROR,
			 j->err);
	free(j);
}

static void request_came(struct nic_ucma *u, struct ucma_id *l, const struct ucma_told *t)
{
	struct ucma_id *id = l && !t->err ? id_new(u, NULL, l->is_ud) : NULL;
	struct news *n = id ? news_new(u, l, RDMA_CM_EVENT_CONNECT_REQUEST, 0) : NULL;

	if (!n) {
		if (id)
			id_free(u, id);
		u->orphan[u->num_orphans++] = t->id;
		return;
	}
	id->handle = t->id;
	id->is_made = true;
	ucma_fill(&n->ev, t, l->is_ud);
	n->ev.request = id;
}

static void told(struct nic_ucma *u, const struct ucma_told *t)
{
	struct ucma_id *id = id_by_uid(u, t->uid);
	enum rdma_cm_event_type event = t->event;
	struct news *n;

	if (event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		request_came(u, id, t);
		return;
	}
	if (!id || (event == RDMA_CM_EVENT_ADDR_RESOLVED && !t->err))
		return;
	if (event == RDMA_CM_EVENT_ADDR_RESOLVED)
		event = RDMA_CM_EVENT_ROUTE_ERROR;
	else if (t->err)
		event = RDMA_CM_EVENT_CONNECT_ERROR;
	n = news_new(u, id, event, t->err ? t->err : t->status);
	if (n)
		ucma_fill(&n->ev, t, id->is_ud);
}

static void fetch_back(struct nic_job *job)
{
	struct nic_ucma *u = (struct nic_ucma *)((char *)job - offsetof(struct nic_ucma, fetch));

	u->is_fetching = false;
	for (uint32_t i = 0; i < u->num_told; i++)
		told(u, &u->told[i]);
	if (!u->num_told && !u->num_orphans)
		return;
	u->has_events = true; /* until one fetch finds nothing */
	nic_wake(u->d->f);
}

void nic_ucma_heard(struct nic_ucma *u)
{
	u->has_events = true;
	nic_wake(u->d->f);
}

void nic_ucma_work(struct nic_dev *d)
{
	struct nic_ucma *u = d->ucma;

	if (!u)
		return;
	nic_jobs_back(u->worker);
	if (u->is_fetching || !STAILQ_EMPTY(&u->news) || !atomic_exchange(&u->has_events, false))
		return;
	u->is_fetching = true;
	nic_job_give(u->worker, &u->fetch);
}

/* ---- what the connection manager wants -------------------------------------------------------------------------- */

static bool op_is_there(struct backend *be)
{
	const struct nic_dev *d = be->f->host->nic;

	return d && d->ucma && d->is_there &&
	       d->port_attr.link_layer == IBV_LINK_LAYER_ETHERNET; /* its GID is an address */
}

static uint32_t op_changes(struct backend *be)
{
	const struct nic_ucma *u = ucma_of(be);

	return u ? u->changes : 0;
}

static struct ucma_job *job_new(struct nic_ucma *u, struct ucma_id *id, enum what what)
{
	struct ucma_job *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->job.run = job_run;
	j->job.back = job_back;
	j->u = u;
	j->id = id;
	j->what = what;
	return j;
}

static struct ucma_id *id_make(struct backend *be, enum what what, const struct ucma_want *w,
			       struct backend_later *l)
{
	struct nic_ucma *u = ucma_of(be);
	struct ucma_id *id = id_new(u, w->user, w->qp_type == IBV_QPT_UD);
	struct ucma_job *j = id ? job_new(u, id, what) : NULL;

	if (!j) {
		if (id)
			id_free(u, id);
		return NULL;
	}
	j->want = *w;
	if (j->want.timeout_ms > TIMEOUT_S * 1000)
		j->want.timeout_ms = TIMEOUT_S * 1000;
	j->src = u->d->gid;
	j->guid = u->d->attr.node_guid;
	j->later = l;
	nic_job_give(u->worker, &j->job);
	return id;
}

static struct ucma_id *op_resolve(struct backend *be, const struct ucma_want *w)
{
	return id_make(be, RESOLVE, w, NULL);
}

static struct ucma_id *op_listen(struct backend *be, const struct ucma_want *w,
				 struct backend_later *l)
{
	return id_make(be, LISTEN, w, l);
}

static void op_keep(struct ucma_id *id, void *user)
{
	id->user = user;
}

static void op_destroy(struct backend *be, struct ucma_id *id)
{
	struct nic_ucma *u = ucma_of(be);
	struct news *n, *next;

	STAILQ_FOREACH_SAFE(n, &u->news, entry, next) {
		if (n->id != id)
			continue;
		STAILQ_REMOVE(&u->news, n, news, entry);
		if (n->ev.request)
			op_destroy(be, n->ev.request);
		news_free(n);
	}
	id->is_dead = true;
	id->end = (struct ucma_job){
		.job = { .run = job_run, .back = job_back }, .u = u, .id = id, .what = DESTROY
	};
	nic_job_give(u->worker, &id->end.job);
}

static int say(struct backend *be, struct ucma_id *id, enum what what, const struct ff_cm_param *p,
	       uint8_t reason, const void *pd, uint32_t len)
{
	struct nic_ucma *u = ucma_of(be);
	struct ucma_job *j = job_new(u, id, what);

	if (!j)
		return -ENOMEM;
	if (p)
		j->param = *p;
	j->reason = reason;
	j->pd_len = (uint8_t)len;
	if (len)
		memcpy(j->pd, pd, len);
	nic_job_give(u->worker, &j->job);
	return 0;
}

static int op_connect(struct backend *be, struct ucma_id *id, const struct ff_cm_param *p,
		      const void *pd, uint32_t len)
{
	return say(be, id, CONNECT, p, 0, pd, len);
}

static int op_accept(struct backend *be, struct ucma_id *id, const struct ff_cm_param *p,
		     const void *pd, uint32_t len)
{
	return say(be, id, ACCEPT, p, 0, pd, len);
}

static int op_establish(struct backend *be, struct ucma_id *id)
{
	return say(be, id, ESTABLISH, NULL, 0, NULL, 0);
}

static int op_reject(struct backend *be, struct ucma_id *id, uint8_t reason, const void *pd,
		     uint32_t len)
{
	return say(be, id, REJECT, NULL, reason, pd, len);
}

static int op_disconnect(struct backend *be, struct ucma_id *id)
{
	return say(be, id, DISCONNECT, NULL, 0, NULL, 0);
}

static bool op_event(struct backend *be, struct ucma_event *ev)
{
	struct nic_ucma *u = ucma_of(be);
	struct news *n = u ? STAILQ_FIRST(&u->news) : NULL;

	if (!n)
		return false;
	STAILQ_REMOVE_HEAD(&u->news, entry);
	*ev = n->ev;
	ev->user = n->id->user;
	news_free(n);
	if (STAILQ_EMPTY(&u->news))
		nic_wake(u->d->f); /* the next ones are fetched */
	return true;
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

/* ---- beginning and end -------------------------------------------------------------------------------------------- */

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
	u->fetch.run = fetch_run;
	u->fetch.back = fetch_back;
	STAILQ_INIT(&u->news);
	d->ucma = u;
	return 0;
}

int nic_ucma_start(struct nic_dev *d)
{
	return d->ucma ? nic_worker_start(d->ucma->worker) : 0;
}

void nic_ucma_stop(struct nic_dev *d)
{
	if (d->ucma)
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
	if (d->f->host->cm_frames)
		d->f->host->cm_frames(d->f->host);
}

void nic_ucma_free(struct nic_dev *d)
{
	struct nic_ucma *u = d->ucma;
	struct ucma_id *id, *tmp;
	struct news *n;

	if (!u)
		return;
	nic_worker_free(u->worker);
	while ((n = STAILQ_FIRST(&u->news))) {
		STAILQ_REMOVE_HEAD(&u->news, entry);
		news_free(n);
	}
	HASH_ITER(hh, u->ids, id, tmp)
		id_free(u, id);
	if (u->fd >= 0)
		close(u->fd); /* what the kernel has yet goes with it */
	free(u);
	d->ucma = NULL;
}
