/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * channel.c - completion channels and their events. Any thread of the application.
 *
 * A channel is one end of a SOCK_SEQPACKET pair, of which the router has the other; a packet is a
 * struct ff_comp_event. The descriptor is the program's: it polls it and sets O_NONBLOCK as it
 * likes. An event counts as returned from the moment that it is looked up, under table_lock; one
 * whose CQ was destroyed meanwhile is dropped.
 */
#include <stdlib.h>
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
		n = read(ibch->fd, &ev, sizeof(ev));
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
			cq->comp_ev.returned++;
		pthread_mutex_unlock(&ctx->table_lock);
	} while (!cq);
	*ibcq = &cq->cq;
	*cq_context = cq->cq.cq_context;
	return 0;
}

FFL_EXPORT void ibv_ack_cq_events(struct ibv_cq *ibcq, unsigned int n)
{
	struct ffl_cq *cq = to_cq(ibcq);
	struct ffl_context *ctx = cq->ctx;

	pthread_mutex_lock(&ctx->table_lock);
	cq->comp_ev.acked += n;
	pthread_cond_broadcast(&ctx->event_cond);
	pthread_mutex_unlock(&ctx->table_lock);
}
