/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ucma_call.c - connect and accept with iWARP, which name a QP and may wait for the peer. Control thread, without the
 * lock. Called by ucma.c, which has the theory. Neighbour: iwarp.c, which knows the QP's part of a connection.
 *
 * Tests: test_iwarp.c
 */
#include "ffr/nic/cm/ucma.h"

#include <errno.h>
#include <stdlib.h>

#include "ffr/nic/cm/cm.h"

#define DOUBT_MAX  1024u	      /* ids of a container that are dead and in doubt */
#define CONNECT_NS (3000 * NS_PER_MS) /* the longest time to make a TCP connection */
#define AGAIN_NS   (100 * NS_PER_MS)

/* IBTA 12.6.7.2; ffr/cm has the same values */
enum { REJ_INVALID_SERVICE_ID = 8, REJ_CONSUMER = 28 };

/* The next connect: of another container than the last one, if there is one. */
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

/*
 * If the worker has not begun the connect, because jobs before it are not done, the connect gets the whole time again.
 * If the worker has, the signal may have come before the call, so it is sent again after AGAIN_NS.
 */
void ucma_on_limit(struct timer *t)
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

void ucma_no_doubt(struct nic_ucma *u, struct ucma_id *id)
{
	if (id->is_in_doubt && id->is_dead)
		ucma_id_end(u, id);
	id->is_in_doubt = false;
}

bool ucma_call_cancel(struct nic_ucma *u, struct ucma_id *id)
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
	ucma_no_doubt(u, id);
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
	if (!nic_is_up(u->d))
		return -ENODEV;
	if (has_too_many(u, id->cont))
		return -EAGAIN;
	return nic_iw_ask(u->d->f, id->cont, qp_num, id->conn);
}

void ucma_call_give(struct nic_ucma *u, struct ucma_job *j)
{
	struct ucma_id *id = j->id;
	int err = ask(u, id, j->param.qp_num);

	if (err) {
		ucma_news_new(u, id, RDMA_CM_EVENT_CONNECT_ERROR, err);
		free(j);
		return;
	}
	id->qp_num = j->param.qp_num;
	id->is_asked = id->is_in_doubt = true;
	id->call = j;
	if (j->what == UCMA_ACCEPT) {
		nic_job_give(u->worker, &j->job);
		return;
	}
	id->call_waits = true;
	STAILQ_INSERT_TAIL(&u->connects, &j->job, next);
	connect_next(u);
}

enum rdma_cm_event_type ucma_refused(int err, int *status)
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

void ucma_call_back(struct nic_ucma *u, struct ucma_job *j)
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
	event = ucma_refused(j->err, &status);
	if (!id->is_dead)
		ucma_news_new(u, id, event, status);
	ucma_no_doubt(u, id);
}

bool nic_ucma_knows(struct nic_dev *d, const struct container *c, uint32_t conn)
{
	const struct ucma_id *id = d->ucma ? ucma_id_by_conn(d->ucma, conn) : NULL;

	return id && !id->is_dead && !id->is_asked && id->cont == c;
}

void nic_ucma_qp_goes(struct nic_dev *d, uint32_t conn)
{
	struct nic_ucma *u = d->ucma;
	struct ucma_id *id = u ? ucma_id_by_conn(u, conn) : NULL;

	if (!id || !id->call)
		return;
	if (!ucma_call_cancel(u, id))
		nic_job_await(u->worker, &id->call->job);
	else if (!id->is_dead)
		ucma_news_new(u, id, RDMA_CM_EVENT_CONNECT_ERROR, -ECANCELED);
}
