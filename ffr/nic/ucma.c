/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ucma.c - rdma_cm in the NIC's network, by the host's kernel, for containers that may use the NIC's GID (nic_direct).
 * Control thread, without the lock, except for the worker's jobs. The connection manager calls this file (fast/ucma.h).
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
 * CONNECT_NS. iw_cm waits in destroy until the other side has answered. So while the kernel has not said how a
 * connection came out, its id is in doubt, and is destroyed later. MPA's timeouts end each doubt.
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

#define IDS_MAX	  16384u /* ids of all containers, with those that are ending */
#define FETCH	  32u	 /* events that are fetched at once */
#define TIMEOUT_S 600u	 /* the longest time to resolve an address */
#define DOUBT_MAX 1024u	 /* ids of a container that are dead and in doubt */

#define CONNECT_NS (3000 * NS_PER_MS) /* iWARP: the longest time to make a TCP connection */
#define AGAIN_NS   (100 * NS_PER_MS)
#define CONN_MASK  0xffffffu /* the bits of a QP number */

/* IBTA 12.6.7.2; cm/ has the same values */
enum { REJ_INVALID_SERVICE_ID = 8, REJ_CONSUMER = 28 };

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
	int err, fd; /* the worker's results; fd: the kernel's file, for epoll */
	struct ucma_want want;
	union ibv_gid src; /* the NIC's GID */
	uint64_t guid;
	struct carrier_later *later; /* LISTEN: the caller who waits, or NULL */
	struct ff_cm_param param;
	uint8_t reason, pd_len;
	uint8_t pd[FF_CM_PD_MAX];
};

struct ucma_id {
	UT_hash_handle hh;
	struct nic_ucma *u;
	uint64_t uid;
	void *user;
	const struct container *cont;
	bool is_dead; /* DESTROY was given, or will be */
	bool is_ud;
	bool is_active;
	/* iWARP, up to call_waits */
	UT_hash_handle by_conn;
	uint32_t conn;	 /* number of the id's connection; to the container, the peer's QP number */
	uint32_t qp_num; /* the container's QP that CONNECT or ACCEPT named */
	bool is_asked;	 /* CONNECT or ACCEPT was given, once and for all */
	bool is_in_doubt; /* is_asked, and the kernel has not said how the connection came out */
	struct ucma_job *call; /* the job of CONNECT or ACCEPT, until it comes back */
	bool call_waits;       /* `call` is on u->connects */
	/* The worker's, after the first job was given. */
	bool is_made;
	uint32_t handle;
	/* Allocated with the id, because DESTROY and the last event must not fail. */
	struct ucma_job end;
	struct news lost;
};

/* d->ucma */
struct nic_ucma {
	struct nic_dev *d;
	struct nic_worker *worker;
	int fd;			 /* the kernel's file, which the worker opens */
	bool is_told;		 /* the log says that the file cannot be opened */
	bool is_heard;		 /* fd is in epoll */
	_Atomic bool has_events; /* the runner says that there are events */
	struct ucma_id *ids;	 /* uthash, by uid */
	uint64_t last_uid;
	uint32_t num; /* of ids, with those that are ending */
	uint32_t changes;
	STAILQ_HEAD(, news) news;
	/* iWARP */
	struct ucma_id *conns; /* uthash, by conn */
	uint32_t last_conn;
	STAILQ_HEAD(, nic_job) connects; /* CONNECT jobs that wait for their turn */
	_Atomic(struct ucma_job *) connecting;
	const struct container *last_cont; /* the container of the last connect; may be gone */
	struct timer limit;		   /* CONNECT_NS of `connecting`. [lock] */
	_Atomic bool is_stopping;	   /* give the worker no more connects */
	bool asks_path;			   /* the fetch under way asks for paths */
	/* The job that fetches events; there is one at a time. */
	struct nic_job fetch;
	bool is_fetching;
	uint32_t num_told, num_orphans;
	struct ucma_told told[FETCH];
	uint32_t orphan[FETCH]; /* requests that nobody takes: the next fetch ends them */
};

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
		if (j->u->is_stopping)
			return -ECANCELED;
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
static void ask_more(const struct nic_ucma *u, struct ucma_told *t)
{
	int fd = u->fd;

	if (t->event == RDMA_CM_EVENT_ADDR_RESOLVED)
		t->err = ucma_resolve_route(fd, t->id);
	if (t->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		t->err = ucma_ask_peer(fd, t);
	if (!t->err && u->asks_path &&
	    (t->event == RDMA_CM_EVENT_CONNECT_REQUEST ||
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
		ask_more(u, &u->told[u->num_told++]);
}

/* ---- ids ------------------------------------------------------------------------------------------------------ */

/* Also one that is dead. */
static struct ucma_id *id_by_uid(struct nic_ucma *u, uint64_t uid)
{
	struct ucma_id *id;

	HASH_FIND(hh, u->ids, &uid, sizeof(uid), id);
	return id;
}

static struct ucma_id *id_by_conn(struct nic_ucma *u, uint32_t conn)
{
	struct ucma_id *id;

	HASH_FIND(by_conn, u->conns, &conn, sizeof(conn), id);
	return id;
}

/* One that no other has; there are fewer ids. */
static uint32_t next_conn(struct nic_ucma *u)
{
	do
		u->last_conn = (u->last_conn + 1) & CONN_MASK;
	while (!u->last_conn || id_by_conn(u, u->last_conn));
	return u->last_conn;
}

static struct ucma_id *id_new(struct nic_ucma *u, void *user, const struct container *cont,
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

static void id_free(struct nic_ucma *u, struct ucma_id *id)
{
	HASH_DELETE(hh, u->ids, id);
	HASH_DELETE(by_conn, u->conns, id);
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
	int err;

	if (u->is_heard || fd < 0)
		return;
	err = fast_watch(u->d->f, fd, EPOLLIN | EPOLLET, u);
	if (err)
		log_err("rdma_cm: epoll: %s", strerror(-err));
	u->is_heard = true;
}

/* ---- iWARP: connect and accept --------------------------------------------------------------------------------- */

static void job_back(struct nic_job *job);

static void destroy(struct nic_ucma *u, struct ucma_id *id)
{
	id->end = (struct ucma_job){
		.job = { .run = job_run, .back = job_back }, .u = u, .id = id, .what = DESTROY
	};
	nic_job_give(u->worker, &id->end.job);
}

/* The next one, of another container than the last, if there is one. */
static struct ucma_job *connect_choose(const struct nic_ucma *u)
{
	struct nic_job *job;

	STAILQ_FOREACH(job, &u->connects, next)
		if (((struct ucma_job *)job)->id->cont != u->last_cont)
			return (struct ucma_job *)job;
	return (struct ucma_job *)STAILQ_FIRST(&u->connects);
}

static void connect_next(struct nic_ucma *u)
{
	struct fast *f = u->d->f;
	struct ucma_job *j = u->connecting ? NULL : connect_choose(u);

	if (!j || u->is_stopping)
		return;
	STAILQ_REMOVE(&u->connects, &j->job, nic_job, next);
	j->id->call_waits = false;
	u->connecting = j;
	u->last_cont = j->id->cont;
	fast_lock(f->host);
	timer_arm(&f->timers, &u->limit, host_now(f->host) + CONNECT_NS);
	fast_kick(f);
	fast_unlock(f->host);
	nic_job_give(u->worker, &j->job);
}

/* Runner, [lock]. Jobs before it may not be done yet: then it has that time again. The signal may come too early. */
static void on_limit(struct timer *t)
{
	struct nic_ucma *u = (struct nic_ucma *)((char *)t - offsetof(struct nic_ucma, limit));
	struct fast *f = u->d->f;
	struct ucma_job *j = u->connecting;

	if (j)
		timer_arm(&f->timers, t,
			  f->now + (nic_job_interrupt(u->worker, &j->job) ? AGAIN_NS : CONNECT_NS));
}

static void connect_ended(struct nic_ucma *u)
{
	fast_lock(u->d->f->host);
	u->connecting = NULL;
	timer_cancel(&u->d->f->timers, &u->limit);
	fast_unlock(u->d->f->host);
	connect_next(u);
}

/* How it came out is known. One that is dead was waited with for that. */
static void no_doubt(struct nic_ucma *u, struct ucma_id *id)
{
	if (id->is_in_doubt && id->is_dead)
		destroy(u, id);
	id->is_in_doubt = false;
}

/* True: the id's CONNECT or ACCEPT is cancelled before the kernel was called. False: too late, or there is none. */
static bool call_cancel(struct nic_ucma *u, struct ucma_id *id)
{
	struct ucma_job *j = id->call;

	if (!j)
		return false;
	if (id->call_waits)
		STAILQ_REMOVE(&u->connects, &j->job, nic_job, next);
	else if (!nic_job_cancel(u->worker, &j->job))
		return false;
	id->call = NULL;
	id->call_waits = false;
	if (u->connecting == j)
		connect_ended(u);
	free(j);
	no_doubt(u, id);
	return true;
}

static bool has_too_many(const struct nic_ucma *u, const struct container *c)
{
	struct ucma_id *id, *tmp;
	uint32_t n = 0;

	HASH_ITER(hh, u->ids, id, tmp)
		n += id->cont == c && id->is_dead && id->is_in_doubt;
	return n >= DOUBT_MAX;
}

static int ask(struct nic_ucma *u, struct ucma_id *id, uint32_t qp_num)
{
	if (id->is_asked)
		return -EISCONN;
	if (!u->d->is_there)
		return -ENODEV;
	if (has_too_many(u, id->cont))
		return -EAGAIN;
	return nic_iw_ask(u->d->f, id->cont, qp_num, id->conn);
}

/* The job is CONNECT or ACCEPT. */
static void call_give(struct nic_ucma *u, struct ucma_job *j)
{
	struct ucma_id *id = j->id;
	int err = ask(u, id, j->param.qp_num);

	if (err) {
		news_new(u, id, RDMA_CM_EVENT_CONNECT_ERROR, err);
		free(j);
		return;
	}
	id->qp_num = j->param.qp_num;
	id->is_asked = id->is_in_doubt = true;
	id->call = j;
	if (j->what == ACCEPT) {
		nic_job_give(u->worker, &j->job);
		return;
	}
	id->call_waits = true;
	STAILQ_INSERT_TAIL(&u->connects, &j->job, next);
	connect_next(u);
}

/* What a client hears of an errno, as if it had come by an event. *status: that one's */
static enum rdma_cm_event_type refused(int err, int *status)
{
	switch (err) {
	case -ECONNREFUSED: /* nobody listens */
		*status = REJ_INVALID_SERVICE_ID;
		return RDMA_CM_EVENT_REJECTED;
	case -ECONNRESET:
		*status = REJ_CONSUMER;
		return RDMA_CM_EVENT_REJECTED;
	case -EINTR:
	case -ETIMEDOUT:
		*status = -ETIMEDOUT;
		return RDMA_CM_EVENT_UNREACHABLE;
	case -EHOSTUNREACH:
	case -ENETUNREACH:
		*status = err;
		return RDMA_CM_EVENT_UNREACHABLE;
	default:
		*status = err;
		return RDMA_CM_EVENT_CONNECT_ERROR;
	}
}

static void call_back(struct nic_ucma *u, struct ucma_job *j)
{
	struct ucma_id *id = j->id;
	enum rdma_cm_event_type event;
	int status;

	id->call = NULL;
	if (u->connecting == j)
		connect_ended(u);
	if (!j->err)
		return;
	nic_iw_down(u->d->f, id->qp_num, id->conn);
	event = refused(j->err, &status);
	if (!id->is_dead)
		news_new(u, id, event, status);
	no_doubt(u, id);
}

bool nic_ucma_knows(struct nic_dev *d, const struct container *c, uint32_t conn)
{
	const struct ucma_id *id = d->ucma ? id_by_conn(d->ucma, conn) : NULL;

	return id && !id->is_dead && !id->is_asked && id->cont == c;
}

void nic_ucma_qp_goes(struct nic_dev *d, uint32_t conn)
{
	struct nic_ucma *u = d->ucma;
	struct ucma_id *id = u ? id_by_conn(u, conn) : NULL;

	if (!id || !id->call)
		return;
	if (!call_cancel(u, id))
		nic_job_await(u->worker, &id->call->job);
	else if (!id->is_dead)
		news_new(u, id, RDMA_CM_EVENT_CONNECT_ERROR, -ECANCELED);
}

/* ---- what comes of it, further ----------------------------------------------------------------------------------- */

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
	if (id->call == j)
		call_back(u, j);
	else if (j->later)
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
	struct ucma_id *id = l && !t->err ? id_new(u, NULL, l->cont, l->is_ud) : NULL;
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
	if (u->d->is_iwarp)
		n->ev.param.qp_num = id->conn;
	n->ev.request = id;
}

/* With iWARP. What an active side hears of as established is an answer, which it is to confirm. */
static enum rdma_cm_event_type connection(struct nic_ucma *u, struct ucma_id *id,
					  enum rdma_cm_event_type event, int *status)
{
	switch (event) {
	case RDMA_CM_EVENT_ESTABLISHED:
		no_doubt(u, id);
		nic_iw_up(u->d->f, id->qp_num, id->conn);
		return id->is_active ? RDMA_CM_EVENT_CONNECT_RESPONSE : event;
	case RDMA_CM_EVENT_REJECTED:
		event = refused(*status, status);
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		break;
	default:
		return event;
	}
	no_doubt(u, id);
	nic_iw_down(u->d->f, id->qp_num, id->conn);
	return event;
}

static void told(struct nic_ucma *u, const struct ucma_told *t)
{
	struct ucma_id *id = id_by_uid(u, t->uid);
	enum rdma_cm_event_type event = t->event;
	int status = t->status;
	struct news *n;

	if (event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		request_came(u, id && !id->is_dead ? id : NULL, t);
		return;
	}
	if (id && id->is_asked)
		event = connection(u, id, event, &status);
	if (!id || id->is_dead || (event == RDMA_CM_EVENT_ADDR_RESOLVED && !t->err))
		return;
	if (event == RDMA_CM_EVENT_ADDR_RESOLVED)
		event = RDMA_CM_EVENT_ROUTE_ERROR;
	else if (t->err)
		event = RDMA_CM_EVENT_CONNECT_ERROR;
	n = news_new(u, id, event, t->err ? t->err : status);
	if (!n)
		return;
	ucma_fill(&n->ev, t, id->is_ud);
	if (id->is_asked)
		n->ev.param.qp_num = id->conn;
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
	u->asks_path = !d->is_iwarp; /* which has no numbers of packets, nor paths */
	nic_job_give(u->worker, &u->fetch);
}

/* ---- what the connection manager wants -------------------------------------------------------------------------- */

static bool op_is_there(const struct container *c, uint16_t ps, uint8_t qp_type)
{
	const struct nic_dev *d = nic_of(c);

	if (!d || !d->ucma || !d->is_there ||
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

static struct ucma_id *id_make(enum what what, const struct ucma_want *w, struct carrier_later *l)
{
	struct nic_ucma *u = nic_of(w->cont)->ucma;
	struct ucma_id *id = id_new(u, w->user, w->cont, w->qp_type == IBV_QPT_UD);
	struct ucma_job *j = id ? job_new(u, id, what) : NULL;

	if (!j) {
		if (id)
			id_free(u, id);
		return NULL;
	}
	id->is_active = what == RESOLVE;
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
	return id_make(RESOLVE, w, NULL);
}

static struct ucma_id *op_listen(const struct ucma_want *w, struct carrier_later *l)
{
	return id_make(LISTEN, w, l);
}

static void op_keep(struct ucma_id *id, void *user)
{
	id->user = user;
}

static void op_destroy(struct ucma_id *id)
{
	struct nic_ucma *u = id->u;
	struct news *n, *next;

	STAILQ_FOREACH_SAFE(n, &u->news, entry, next) {
		if (n->id != id)
			continue;
		STAILQ_REMOVE(&u->news, n, news, entry);
		if (n->ev.request)
			op_destroy(n->ev.request);
		news_free(n);
	}
	if (id->call && !call_cancel(u, id) && u->connecting == id->call)
		nic_job_interrupt(u->worker, &id->call->job);
	if (id->is_asked)
		nic_iw_down(u->d->f, id->qp_num, id->conn);
	id->is_dead = true;
	if (!id->is_in_doubt)
		destroy(u, id);
}

static int say(struct ucma_id *id, enum what what, const struct ff_cm_param *p, uint8_t reason,
	       const void *pd, uint32_t len)
{
	struct nic_ucma *u = id->u;
	bool ends = id->is_asked && (what == REJECT || what == DISCONNECT);
	struct ucma_job *j;

	if (ends) { /* iWARP: what the kernel would refuse, or wait for, is said by the QP's end */
		call_cancel(u, id);
		nic_iw_down(u->d->f, id->qp_num, id->conn);
		if (id->is_in_doubt)
			return 0;
		what = DISCONNECT;
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
	if (u->d->is_iwarp && (what == CONNECT || what == ACCEPT))
		call_give(u, j);
	else
		nic_job_give(u->worker, &j->job);
	return 0;
}

static int op_connect(struct ucma_id *id, const struct ff_cm_param *p, const void *pd, uint32_t len)
{
	return say(id, CONNECT, p, 0, pd, len);
}

static int op_accept(struct ucma_id *id, const struct ff_cm_param *p, const void *pd, uint32_t len)
{
	return say(id, ACCEPT, p, 0, pd, len);
}

static int op_establish(struct ucma_id *id)
{
	if (id->is_asked) /* iWARP: the other side has not waited for that */
		return 0;
	return say(id, ESTABLISH, NULL, 0, NULL, 0);
}

static int op_reject(struct ucma_id *id, uint8_t reason, const void *pd, uint32_t len)
{
	return say(id, REJECT, NULL, reason, pd, len);
}

static int op_disconnect(struct ucma_id *id)
{
	return say(id, DISCONNECT, NULL, 0, NULL, 0);
}

/* The next of one NIC. */
static bool take_event(struct nic_ucma *u, struct ucma_event *ev)
{
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

static bool op_event(struct fast *f, struct ucma_event *ev)
{
	struct nic_dev *d;

	NIC_FOREACH(d, f)
		if (take_event(d->ucma, ev))
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
	u->fetch.run = fetch_run;
	u->fetch.back = fetch_back;
	STAILQ_INIT(&u->news);
	STAILQ_INIT(&u->connects);
	u->limit.fn = on_limit;
	d->ucma = u;
	return 0;
}

int nic_ucma_start(struct nic_dev *d)
{
	return d->ucma ? nic_worker_start(d->ucma->worker) : 0;
}

/* A connect that waits for the network is not waited for. */
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
	HASH_ITER(hh, u->ids, id, tmp) {
		free(id->call); /* which was not given */
		id_free(u, id);
	}
	if (u->fd >= 0)
		close(u->fd); /* what the kernel has yet goes with it */
	free(u);
	d->ucma = NULL;
}
