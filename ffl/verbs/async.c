/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * async.c - asynchronous events: from the router's packets on async_fd to the program, and the
 * acknowledgements that destroying an object waits for. Any thread.
 *
 * The program may poll async_fd and make it non-blocking; one packet is one event, so it is
 * readable exactly when there is one. The router names objects by handle. Between its sending and
 * the program's asking the object may have been destroyed: such an event is dropped here, which
 * is what the kernel does for a device of its own.
 *
 * Returned events are counted in the object under the table lock, in the same section in which it
 * is looked up; ffl_table_del() takes that lock, so after it no further event is returned, and
 * ffl_events_drain() has a fixed number of acknowledgements to wait for. These are counted as
 * rdma-core counts them, in fields that programs read and under the mutex beside them.
 *
 * When the router is gone the socket ends: the program sees IBV_EVENT_DEVICE_FATAL, once, and
 * then errors.
 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffl/session/ffl.h"

/* What the element of an event is. */
static enum ff_async_kind event_kind(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_CQ_ERR:
		return FF_ASYNC_CQ;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return FF_ASYNC_QP;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return FF_ASYNC_SRQ;
	case IBV_EVENT_DEVICE_FATAL:
		return FF_ASYNC_DEVICE;
	default:
		return FF_ASYNC_PORT;
	}
}

/* Fill in the event's element and count it. Call with table_lock held. false: it is gone. */
static bool take_element(struct ffl_context *ctx, const struct ff_async_event *ev,
			 struct ibv_async_event *event)
{
	struct ffl_cq *cq;
	struct ffl_qp *qp;
	struct ffl_srq *srq;

	if (event_kind(ev->event_type) != ev->kind)
		return false;
	event->event_type = ev->event_type;
	switch ((enum ff_async_kind)ev->kind) {
	case FF_ASYNC_CQ:
		cq = ffl_table_get(ctx, FFL_CQ, ev->handle);
		if (!cq)
			return false;
		cq->async_events++;
		event->element.cq = &cq->cq;
		return true;
	case FF_ASYNC_QP:
		qp = ffl_table_get(ctx, FFL_QP, ev->handle);
		if (!qp)
			return false;
		qp->async_events++;
		event->element.qp = &qp->qp;
		return true;
	case FF_ASYNC_SRQ:
		srq = ffl_table_get(ctx, FFL_SRQ, ev->handle);
		if (!srq)
			return false;
		srq->async_events++;
		event->element.srq = &srq->ibv;
		return true;
	case FF_ASYNC_DEVICE:
		ctx->fatal_sent = true;
		event->element.port_num = 0;
		return true;
	case FF_ASYNC_PORT:
		event->element.port_num = ev->handle;
		return true;
	}
	return false;
}

/* The socket has ended. 0 with the fatal event, or -1 with EIO if the program has had it. */
static int device_gone(struct ffl_context *ctx, struct ibv_async_event *event)
{
	bool sent;

	ffl_mark_dead(ctx);
	pthread_mutex_lock(&ctx->table_lock);
	sent = ctx->fatal_sent;
	ctx->fatal_sent = true;
	pthread_mutex_unlock(&ctx->table_lock);
	if (sent) {
		errno = EIO;
		return -1;
	}
	event->event_type = IBV_EVENT_DEVICE_FATAL;
	event->element.port_num = 0;
	return 0;
}

/* 0, or -1 with errno: EAGAIN if async_fd is non-blocking, EINTR, EIO after the fatal event. */
FFL_EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct ffl_context *ctx = ffl_session_of(context);
	struct ff_async_event ev;
	bool taken;
	ssize_t n;

	if (ctx->pid != getpid()) { /* the parent's events are not ours to take */
		errno = EIO;
		return -1;
	}
	memset(event, 0, sizeof(*event));
	for (;;) {
		n = ctx->async_fd < 0 ? 0 : recv(ctx->async_fd, &ev, sizeof(ev), 0);
		if (n < 0 && errno != ECONNRESET)
			return -1;
		if (n <= 0)
			return device_gone(ctx, event);
		if (n != sizeof(ev)) {
			ffl_log(FFL_ERR, "router: async event of %zd bytes", n);
			return device_gone(ctx, event);
		}
		pthread_mutex_lock(&ctx->table_lock);
		taken = take_element(ctx, &ev, event);
		pthread_mutex_unlock(&ctx->table_lock);
		if (taken)
			return 0;
	}
}

/* A child that was forked has its parent's mutexes as they were, maybe held, and nobody who waits. */
void ffl_events_ack(struct ffl_context *ctx, pthread_mutex_t *mutex, pthread_cond_t *cond,
		    uint32_t *completed, uint32_t n)
{
	if (ctx->pid != getpid()) {
		*completed += n;
		return;
	}
	pthread_mutex_lock(mutex);
	*completed += n;
	pthread_cond_broadcast(cond);
	pthread_mutex_unlock(mutex);
}

FFL_EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	struct ibv_cq *cq = event->element.cq;
	struct ibv_qp *qp = event->element.qp;
	struct ibv_srq *srq = event->element.srq;

	switch (event_kind(event->event_type)) {
	case FF_ASYNC_CQ:
		ffl_events_ack(to_cq(cq)->ctx, &cq->mutex, &cq->cond, &cq->async_events_completed,
			       1);
		break;
	case FF_ASYNC_QP:
		ffl_events_ack(to_qp(qp)->ctx, &qp->mutex, &qp->cond, &qp->events_completed, 1);
		break;
	case FF_ASYNC_SRQ:
		ffl_events_ack(to_srq(srq)->ctx, &srq->mutex, &srq->cond, &srq->events_completed,
			       1);
		break;
	case FF_ASYNC_DEVICE:
	case FF_ASYNC_PORT:
		break;
	}
}

/* A forked child does not wait for its parent's events. */
void ffl_events_drain(struct ffl_context *ctx, pthread_mutex_t *mutex, pthread_cond_t *cond,
		      const uint32_t *completed, uint32_t given)
{
	if (ctx->pid != getpid())
		return;
	pthread_mutex_lock(mutex);
	while (*completed != given)
		pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
}
