/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ucma_event.c - events of the kernel's rdma_cm: the worker fetches them, and the connection manager takes them.
 * Control thread, without the lock, except for ucma_fetch_run(), which is the worker's. Called by ucma.c, which has the
 * theory.
 *
 * Tests: test_ucma.c, test_iwarp.c
 */
#include "ffr/nic/cm/ucma.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ffr/nic/cm/cm.h"

/* ---- by the worker ----------------------------------------------------------------------------------------------- */

/* Do what follows an event, or ask what must be known with it. */
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

void ucma_fetch_run(struct nic_job *job)
{
	struct nic_ucma *u = (struct nic_ucma *)((char *)job - offsetof(struct nic_ucma, fetch));

	while (u->num_orphans)
		ucma_destroy(u->fd, u->orphan[--u->num_orphans]);
	u->num_told = 0;
	while (u->num_told < UCMA_FETCH && !ucma_next(u->fd, &u->told[u->num_told]))
		ask_more(u, &u->told[u->num_told++]);
}

struct ucma_news *ucma_news_new(struct nic_ucma *u, struct ucma_id *id,
				enum rdma_cm_event_type event, int status)
{
	struct ucma_news *n = calloc(1, sizeof(*n));

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
	if (u->d->f->host->cm_wake)
		u->d->f->host->cm_wake(u->d->f->host);
	return n == &id->lost ? NULL : n;
}

void ucma_news_free(struct ucma_news *n)
{
	if (n != &n->id->lost)
		free(n);
}

void ucma_hear(struct nic_ucma *u, int fd)
{
	int err;

	if (u->is_heard || fd < 0)
		return;
	err = fast_watch(u->d->f, fd, EPOLLIN | EPOLLET, u);
	if (err)
		log_err("rdma_cm: epoll: %s", strerror(-err));
	u->is_heard = true;
}

static void request_came(struct nic_ucma *u, struct ucma_id *l, const struct ucma_told *t)
{
	struct ucma_id *id = l && !t->err ? ucma_id_new(u, NULL, l->cont, l->is_ud) : NULL;
	struct ucma_news *n = id ? ucma_news_new(u, l, RDMA_CM_EVENT_CONNECT_REQUEST, 0) : NULL;

	if (!n) {
		if (id)
			ucma_id_free(u, id);
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

/* iWARP: the event for a client. To the active side ESTABLISHED is the peer's answer, which the client confirms. */
static enum rdma_cm_event_type connection(struct nic_ucma *u, struct ucma_id *id,
					  enum rdma_cm_event_type event, int *status)
{
	switch (event) {
	case RDMA_CM_EVENT_ESTABLISHED:
		ucma_no_doubt(u, id);
		nic_iw_up(u->d->f, id->qp_num, id->conn);
		return id->is_active ? RDMA_CM_EVENT_CONNECT_RESPONSE : event;
	case RDMA_CM_EVENT_REJECTED:
		event = ucma_refused(*status, status);
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		break;
	default:
		return event;
	}
	ucma_no_doubt(u, id);
	nic_iw_down(u->d->f, id->qp_num, id->conn);
	return event;
}

static void told(struct nic_ucma *u, const struct ucma_told *t)
{
	struct ucma_id *id = ucma_id_by_uid(u, t->uid);
	enum rdma_cm_event_type event = t->event;
	int status = t->status;
	struct ucma_news *n;

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
	n = ucma_news_new(u, id, event, t->err ? t->err : status);
	if (!n)
		return;
	ucma_fill(&n->ev, t, id->is_ud);
	if (id->is_asked)
		n->ev.param.qp_num = id->conn;
}

void ucma_fetch_back(struct nic_job *job)
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
	u->asks_path = !d->is_iwarp; /* iWARP has neither PSNs nor paths */
	nic_job_give(u->worker, &u->fetch);
}

bool ucma_take_event(struct nic_ucma *u, struct ucma_event *ev)
{
	struct ucma_news *n = u ? STAILQ_FIRST(&u->news) : NULL;

	if (!n)
		return false;
	STAILQ_REMOVE_HEAD(&u->news, entry);
	*ev = n->ev;
	ev->user = n->id->user;
	ucma_news_free(n);
	if (STAILQ_EMPTY(&u->news))
		nic_wake(u->d->f); /* the next ones are fetched */
	return true;
}
