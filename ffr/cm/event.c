/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * event.c - events on their way to the clients. Control thread.
 *
 * A packet is written to the channel's descriptor at once. What the descriptor does not take waits
 * in the channel's queue, in order, and is written when there is room. Events of an id that is held
 * (CM_MIGRATE_ID) wait in the id's own list. How much can wait: a few events for each state of an
 * id, a request for each place in a backlog, and CM_MAX_EVENTS of what a client can ask for again
 * and again; and of all ids of a container as many as its quota of objects has room for.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "ffr/cm/internal.h"
#include "ffr/ctl/ctl.h"
#include "ffr/obj/quota.h"

/* ---- packets -------------------------------------------------------------------------------- */

int cm_event_write(struct channel *ch, const struct ff_cm_event *ev, const void *pd)
{
	struct iovec iov[2] = { { (void *)ev, sizeof(*ev) }, { (void *)pd, ev->private_data_len } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	while (sendmsg(ch->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		if (errno == ENOBUFS || errno == ENOMEM)
			return -EAGAIN;
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

bool cm_chan_is_read(const struct cm_chan *chan)
{
	int bytes = 0;

	return TAILQ_EMPTY(&chan->queue) && !ioctl(chan->ch->fd, SIOCOUTQ, &bytes) && !bytes;
}

/* ---- channels ------------------------------------------------------------------------------- */

struct cm_chan *cm_chan_get(struct channel *ch)
{
	struct cm_chan *chan = ch->cm;

	if (chan)
		return chan;
	chan = calloc(1, sizeof(*chan));
	if (!chan)
		return NULL;
	chan->ch = ch;
	TAILQ_INIT(&chan->queue);
	TAILQ_INIT(&chan->ids);
	ch->cm = chan;
	return chan;
}

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

void cm_chan_put(struct cm_chan *chan)
{
	if (!TAILQ_EMPTY(&chan->ids))
		return;
	chan->ch->cm = NULL;
	if (chan->has_poll)
		uv_close((uv_handle_t *)&chan->poll, on_closed);
	else
		free(chan);
}

/* The next of the id's packets. 0 or -errno. */
static int write_next(struct cm_id *id, struct ff_cm_event *ev, const void *pd)
{
	ev->num = id->written + 1;
	return cm_event_write(id->chan->ch, ev, pd);
}

/* One packet less waits: it was written, or nobody reads there. */
static void event_done(struct cm_event *e)
{
	e->id->written++;
	if (e->mc)
		e->mc->written++;
	cm_event_drop(e);
}

static void on_writable(uv_poll_t *h, int status, int events)
{
	struct cm_chan *chan = h->data;
	struct cm_event *e;

	(void)status;
	(void)events;
	while ((e = TAILQ_FIRST(&chan->queue))) {
		if (write_next(e->id, &e->ev, e->pd) == -EAGAIN)
			return;
		event_done(e);
	}
	uv_poll_stop(h);
	chan->is_polled = false;
}

/* Events wait: they are written when the descriptor takes them. 0 or -errno. */
static int chan_watch(struct cm_chan *chan)
{
	int err;

	if (chan->is_polled)
		return 0;
	if (!chan->has_poll) {
		err = uv_poll_init(chan->ch->o.ses->conn->ctl->loop, &chan->poll, chan->ch->fd);
		if (err)
			return err;
		chan->poll.data = chan;
		chan->has_poll = true;
	}
	err = uv_poll_start(&chan->poll, UV_WRITABLE, on_writable);
	chan->is_polled = !err;
	return err;
}

/* ---- events --------------------------------------------------------------------------------- */

/* What was promised cannot be kept: the client must not wait for it. */
static void out_of_memory(struct session *s)
{
	fast_lock(s->fast->host);
	ctl_session_bad(s, "no memory for its events");
	fast_unlock(s->fast->host);
}

static struct cm_event *event_wait(struct cm_id *id, struct cm_mc *mc, const struct ff_cm_event *ev,
				   const void *pd)
{
	struct cm_event *e = malloc(sizeof(*e) + ev->private_data_len);
	bool charged = e && !quota_charge(id->cont->c, QUOTA_OBJECT, 1);

	if (!charged || (!id->held && chan_watch(id->chan))) {
		if (charged)
			quota_return(id->cont->c, QUOTA_OBJECT, 1);
		free(e);
		out_of_memory(id->o.ses);
		return NULL;
	}
	e->id = id;
	e->mc = mc;
	e->ev = *ev;
	memcpy(e->pd, pd, ev->private_data_len);
	TAILQ_INSERT_TAIL(&id->events, e, of_id);
	id->num_events++;
	if (!id->held)
		TAILQ_INSERT_TAIL(&id->chan->queue, e, of_chan);
	return e;
}

static struct cm_event *event_send(struct cm_id *id, struct cm_mc *mc, struct ff_cm_event *ev,
				   const void *pd)
{
	if (id->held || !TAILQ_EMPTY(&id->chan->queue) || write_next(id, ev, pd) == -EAGAIN)
		return event_wait(id, mc, ev, pd);
	id->written++;
	if (mc)
		mc->written++;
	return NULL;
}

struct cm_event *cm_event_send(struct cm_id *id, struct ff_cm_event *ev, const void *pd,
			       uint32_t pd_len, uint32_t pd_size)
{
	uint8_t padded[FF_CM_PD_MAX] = { 0 };

	if (!id->has_uid)
		return NULL;
	if (!ev->listener)
		ev->id = id->o.handle;
	ev->uid = id->uid;
	ev->private_data_len = pd_size;
	if (pd_len)
		memcpy(padded, pd, pd_len);
	return event_send(id, NULL, ev, padded);
}

void cm_event_simple(struct cm_id *id, enum rdma_cm_event_type event, int status)
{
	struct ff_cm_event ev = { .event = event, .status = status };

	if (event == RDMA_CM_EVENT_ADDR_RESOLVED || event == RDMA_CM_EVENT_ROUTE_RESOLVED)
		cm_id_path(id, &ev.path);
	cm_event_send(id, &ev, NULL, 0, 0);
}

void cm_event_mc(struct cm_id *id, struct cm_mc *mc, struct ff_cm_event *ev)
{
	ev->id = id->o.handle;
	ev->uid = mc->uid;
	ev->mc = mc->num;
	event_send(id, mc, ev, "");
}

void cm_event_drop(struct cm_event *e)
{
	struct cm_id *id = e->id, *request;

	if (e->ev.listener) {
		request = cm_id_get(id->o.ses, e->ev.id);
		if (request && request->request == e)
			request->request = NULL;
	}
	if (!id->held)
		TAILQ_REMOVE(&id->chan->queue, e, of_chan);
	TAILQ_REMOVE(&id->events, e, of_id);
	id->num_events--;
	quota_return(id->cont->c, QUOTA_OBJECT, 1);
	free(e);
}

void cm_event_hold(struct cm_id *id)
{
	struct cm_event *e;

	if (id->held)
		return;
	TAILQ_FOREACH(e, &id->events, of_id)
		TAILQ_REMOVE(&id->chan->queue, e, of_chan);
	id->held = true;
}

/* A request that waits goes along: its id is in its listener's channel. */
static void id_move(struct cm_id *id, struct cm_chan *to)
{
	struct cm_chan *from = id->chan;

	if (from == to)
		return;
	TAILQ_REMOVE(&from->ids, id, of_chan);
	TAILQ_INSERT_TAIL(&to->ids, id, of_chan);
	id->chan = to;
	cm_chan_put(from);
}

void cm_event_move(struct cm_id *id, struct cm_chan *to)
{
	struct cm_event *e;
	struct cm_id *request;

	cm_event_hold(id);
	id_move(id, to);
	LIST_FOREACH(request, &id->pending, of_listener)
		if (request->request)
			id_move(request, to);
	id->held = false;
	if (TAILQ_EMPTY(&id->events))
		return;
	TAILQ_FOREACH(e, &id->events, of_id)
		TAILQ_INSERT_TAIL(&to->queue, e, of_chan);
	if (chan_watch(to))
		out_of_memory(id->o.ses);
}
