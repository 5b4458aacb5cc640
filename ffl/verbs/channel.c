/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * channel.c - completion channels and their events. Any thread of the application.
 *
 * A channel is one end of a SOCK_SEQPACKET pair, of which the router has the other; a packet is a
 * struct ff_comp_event. The descriptor is the program's: it polls it and sets O_NONBLOCK as it
 * likes. An event counts as returned from the moment that it is looked up, under table_lock; one
 * whose CQ was destroyed meanwhile is dropped.
 *
 * A CQ that is destroyed takes its unread events with it, so that the descriptor is readable only if
 * there is an event for the program. A socket gives up its first packet only: all are taken, and the
 * router repeats those that are not the CQ's, which come in the same order. Whoever waits in read(2)
 * meanwhile gets each of them as well as anybody.
 */
#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffl/session/ffl.h"

FFL_EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ibctx)
{
	struct ffl_context *ctx = ffl_session_of(ibctx);
	struct ff_create_channel_req req = { 0 };
	struct ff_create_channel_resp resp;
	struct ffl_channel *ch = calloc(1, sizeof(*ch));
	unsigned int num_fds = 0;
	int err;

	if (!ch)
		return ffl_err_ptr(ENOMEM);
	err = ffl_call(ctx, FF_MSG_CREATE_CHANNEL, &req, sizeof(req), NULL, 0, 0, &resp,
		       sizeof(resp), &ch->ibv.fd, 1, &num_fds);
	if (!err && num_fds != 1)
		err = -EPROTO;
	if (err) {
		free(ch);
		return ffl_err_ptr(-err);
	}
	ch->ibv.context = ibctx;
	ch->ctx = ctx;
	ch->handle = resp.channel;
	atomic_fetch_add(&ctx->objects, 1);
	return &ch->ibv;
}

/* EBUSY while CQs use it. */
FFL_EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *ibch)
{
	struct ffl_channel *ch = to_comp_channel(ibch);
	struct ff_destroy_channel_req req = { .channel = ch->handle };
	struct ff_destroy_channel_resp resp;
	int err;

	if (__atomic_load_n(&ibch->refcnt, __ATOMIC_RELAXED))
		return ffl_ret(-EBUSY);
	err = FFL_CALL(ch->ctx, DESTROY_CHANNEL, &req, &resp);
	if (err && err != -EIO) /* a dead router's objects are gone already */
		return ffl_ret(err);
	close(ibch->fd);
	atomic_fetch_sub(&ch->ctx->objects, 1);
	free(ch);
	return 0;
}

/*
 * The next event's CQ. Blocks unless the descriptor is O_NONBLOCK. 0, or -1 with errno: EAGAIN,
 * EINTR, EIO: the router is gone.
 */
FFL_EXPORT int ibv_get_cq_event(struct ibv_comp_channel *ibch, struct ibv_cq **ibcq,
				void **cq_context)
{
	struct ffl_context *ctx = to_comp_channel(ibch)->ctx;
	struct ff_comp_event ev;
	struct ffl_cq *cq;
	ssize_t n;

	if (ctx->pid != getpid()) { /* the parent's events are not ours to take */
		errno = EIO;
		return -1;
	}
	ffl_ring_lazy(ctx); /* it may be waiting for what it posted */
	do {
		n = ffl_sleep_for_event(to_comp_channel(ibch), &ev);
		if (n < 0)
			return -1;
		if (n != sizeof(ev)) {
			if (n == 0)
				ffl_mark_dead(ctx); /* the other end is closed */
			errno = EIO;
			return -1;
		}
		pthread_mutex_lock(&ctx->table_lock);
		cq = ffl_table_get(ctx, FFL_CQ, ev.cq);
		if (cq)
			cq->comp_events++;
		pthread_mutex_unlock(&ctx->table_lock);
	} while (!cq);
	*ibcq = &cq->cq;
	*cq_context = cq->cq.cq_context;
	return 0;
}

static bool is_there(struct ffl_context *ctx, uint32_t cq)
{
	bool there;

	pthread_mutex_lock(&ctx->table_lock);
	there = ffl_table_get(ctx, FFL_CQ, cq) != NULL;
	pthread_mutex_unlock(&ctx->table_lock);
	return there;
}

void ffl_channel_forget_gone(struct ffl_channel *ch)
{
	struct ff_repeat_event_resp resp;
	struct ff_comp_event ev;
	int bytes = 0;

	if (ch->ctx->pid != getpid() || ioctl(ch->ibv.fd, SIOCINQ, &bytes))
		return;
	for (; bytes >= (int)sizeof(ev); bytes -= (int)sizeof(ev)) {
		struct ff_repeat_event_req req;

		if (recv(ch->ibv.fd, &ev, sizeof(ev), MSG_DONTWAIT) != sizeof(ev))
			return;
		req.cq = ev.cq;
		if (is_there(ch->ctx, ev.cq))
			FFL_CALL(ch->ctx, REPEAT_EVENT, &req, &resp);
	}
}

FFL_EXPORT void ibv_ack_cq_events(struct ibv_cq *ibcq, unsigned int n)
{
	ffl_events_ack(to_cq(ibcq)->ctx, &ibcq->mutex, &ibcq->cond, &ibcq->comp_events_completed,
		       n);
}
