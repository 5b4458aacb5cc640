/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * channel.c - event channels, and which of the packets in them may still be seen. Any thread;
 * neighbours: event.c, which makes events of packets, id.c.
 *
 * A channel's descriptor is one end of a socket of which the router has the other; one packet is
 * one event, so it is readable exactly when there is one, and O_NONBLOCK is the program's to set.
 *
 * A packet that was written cannot be called back, but the kernel's rdma_cm, which keeps events
 * until they are fetched, drops those of an id that is destroyed and takes along those of an id
 * that migrates. So a channel has a list of what is void in its socket: (id, membership) and how
 * many packets. They are skipped when they come up, and taken away at once where they are the
 * next, so that a descriptor is not readable because of them.
 *
 * The books: a packet is entered (counted in its id, or skipped) under table_lock after it was
 * received without a lock. While cm_channel_move() looks at what is in the socket, by means of
 * SO_PEEK_OFF, it holds table_lock, so nothing is entered; what a reader had received but not
 * entered before that is missing in the sum, and the move looks again.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffl/cm/cm.h"

#define MOVE_LOOKS 10000 /* for packets that a reader has but does not enter: it was cancelled */

struct cm_void {
	uint32_t handle; /* of the id: the one that events are about, a listener for its requests */
	uint32_t mc;	 /* of this membership only; 0: any */
	uint32_t count;
};

/* ---- what a packet is about -------------------------------------------------------------------------- */

static uint32_t owner(const struct ff_cm_event *ev)
{
	return ev->listener ? ev->listener : ev->id;
}

/* What recv() said of a packet: 0, or -errno. The end of the socket is the router's. */
static int check(const struct cm_packet *p, ssize_t n)
{
	if (n < 0)
		return errno == ECONNRESET ? -EIO : -errno;
	if (n < (ssize_t)sizeof(p->ev) || p->ev.private_data_len > sizeof(p->data) ||
	    n != (ssize_t)(sizeof(p->ev) + p->ev.private_data_len)) {
		if (n)
			ffl_log(FFL_ERR, "router: CM event of %zd bytes", n);
		return -EIO;
	}
	return 0;
}

/* ---- void packets; call with table_lock held --------------------------------------------------------- */

static void void_add(struct cm_channel *ch, uint32_t handle, uint32_t mc, uint32_t count)
{
	unsigned room = ch->room_void ? 2 * ch->room_void : 8;
	struct cm_void *v;

	if (!count)
		return;
	if (ch->num_void == ch->room_void) {
		v = realloc(ch->voids, room * sizeof(*v));
		if (!v)
			return; /* they will be skipped for having no id; readable until then */
		ch->voids = v;
		ch->room_void = room;
	}
	ch->voids[ch->num_void++] = (struct cm_void){ handle, mc, count };
}

static struct cm_void *void_find(struct cm_channel *ch, const struct ff_cm_event *ev)
{
	struct cm_void *v;

	for (v = ch->voids; v < ch->voids + ch->num_void; v++)
		if (v->handle == owner(ev) && (!v->mc || v->mc == ev->mc))
			return v;
	return NULL;
}

/* Is this packet void? It is about to leave the socket. */
static bool void_take(struct cm_channel *ch, const struct ff_cm_event *ev)
{
	struct cm_void *v = void_find(ch, ev);

	if (v && !--v->count)
		*v = ch->voids[--ch->num_void];
	return v;
}

/* Take void packets away that are next. A reader inside recv() would do it itself. */
static void trim(struct cm_channel *ch)
{
	struct cm_packet p;
	ssize_t n;

	while (ch->num_void && !ch->readers) {
		n = recv(ch->pub.fd, &p, sizeof(p), MSG_PEEK | MSG_DONTWAIT);
		if (n <= 0 || check(&p, n) || !void_find(ch, &p.ev))
			return;
		void_take(ch, &p.ev);
		if (recv(ch->pub.fd, &p, sizeof(p), MSG_DONTWAIT) != n)
			return;
	}
}

/*
 * Copies of the id's packets that are in the socket, in order; with mc, of that membership's only.
 * A reader that takes a packet in the meantime can make the offset go wrong: then one is missing, or
 * was seen before and is left out.
 * How many; *list is the caller's to free. Without memory for them there are none.
 */
static unsigned peek_all(struct cm_channel *ch, uint32_t handle, uint32_t mc,
			 struct cm_packet **list)
{
	static const int none = -1, start = 0;
	unsigned num = 0, room = 0;
	struct cm_packet p, *more;
	ssize_t n;

	*list = NULL;
	if (setsockopt(ch->pub.fd, SOL_SOCKET, SO_PEEK_OFF, &start, sizeof(start)))
		return 0;
	while ((n = recv(ch->pub.fd, &p, sizeof(p), MSG_PEEK | MSG_DONTWAIT)) > 0) {
		if (check(&p, n) || owner(&p.ev) != handle || (mc && p.ev.mc != mc))
			continue;
		if (num && p.ev.num <= (*list)[num - 1].ev.num)
			continue;
		if (num == room) {
			room = room ? 2 * room : 4;
			more = realloc(*list, room * sizeof(p));
			if (!more)
				break;
			*list = more;
		}
		(*list)[num++] = p;
	}
	setsockopt(ch->pub.fd, SOL_SOCKET, SO_PEEK_OFF, &none, sizeof(none));
	return num;
}

/* ---- the end of a channel ---------------------------------------------------------------------------- */

/* The router's part, and ids that are still in it there; then ours. The descriptor is closed. */
static void channel_end(struct cm_channel *ch)
{
	struct ff_destroy_channel_req req = { .channel = ch->handle };
	struct ff_destroy_channel_resp resp;

	while (CM_CALL(ch->ses, DESTROY_CHANNEL, &req, &resp) == -EAGAIN)
		; /* it goes in parts */
	cm_session_put(ch->ses);
	free(ch->voids);
	free(ch);
}

/* ---- taking packets ---------------------------------------------------------------------------------- */

/* Enter a received packet. The id that it is for, or NULL: skipped. Call with table_lock held. */
static struct cm_id *enter(struct cm_channel *ch, const struct ff_cm_event *ev, struct cm_mc **mc)
{
	struct cm_id *id;

	*mc = NULL;
	if (void_take(ch, ev))
		return NULL;
	id = ffl_table_get(ch->ses->ctx, FFL_CM_ID, owner(ev));
	if (!id)
		return NULL;
	if (id->copies)
		id->copies--;
	else
		id->known++;
	if (ev->mc) {
		for (*mc = id->mcs; *mc && (*mc)->uid != ev->uid; *mc = (*mc)->next)
			;
		if (!*mc)
			return NULL; /* left */
		(*mc)->ev.returned++;
	}
	id->ev.returned++;
	return id;
}

void cm_channel_refuse(struct cm_session *s, uint32_t handle)
{
	struct ff_cm_destroy_id_req req = { .id = handle };
	struct ff_cm_destroy_id_resp resp;

	CM_CALL(s, CM_DESTROY_ID, &req, &resp);
}

/*
 * The router is gone, and with it the device. Make DEVICE_REMOVAL for one of the channel's ids that
 * have the device and were not told yet; NULL: there is none. A synchronous id is left out, because its
 * call fails. Call with table_lock held.
 */
static struct cm_id *remove_one(struct cm_channel *ch, struct cm_packet *p)
{
	const struct ffl_table *t = &ch->ses->ctx->table[FFL_CM_ID];

	for (uint32_t i = 0; i < t->size; i++) {
		struct cm_id *id = t->slot[i].handle ? t->slot[i].obj : NULL;

		if (!id || id->id.channel != &ch->pub || !id->has_device || id->sync ||
		    id->is_removed)
			continue;
		id->is_removed = true;
		id->ev.returned++;
		memset(p, 0, sizeof(*p));
		p->ev.event = RDMA_CM_EVENT_DEVICE_REMOVAL;
		p->ev.id = id->handle;
		return id;
	}
	return NULL;
}

/* Wait for a packet, receive and enter it; 0 or -errno. *id NULL: it was for nobody. */
static int take(struct cm_channel *ch, struct cm_packet *p, struct cm_id **id, struct cm_mc **mc)
{
	struct cm_session *s = ch->ses;
	struct ffl_context *ctx = s->ctx;
	bool orphan = false, closed;
	ssize_t n;
	int err;

	*id = NULL;
	*mc = NULL;
	pthread_mutex_lock(&ctx->table_lock);
	ch->readers++;
	pthread_mutex_unlock(&ctx->table_lock);
	n = recv(ch->pub.fd, p, sizeof(*p), 0);
	err = check(p, n);
	pthread_mutex_lock(&ctx->table_lock);
	ch->readers--;
	closed = ch->closed;
	if (closed) {
		err = -EBADF;
	} else {
		if (err == -EIO && n <= 0) {
			*id = remove_one(ch, p);
			err = *id ? 0 : err;
		} else if (!err) {
			*id = enter(ch, &p->ev, mc);
			orphan = !*id && p->ev.listener &&
				 !ffl_table_get(ctx, FFL_CM_ID, p->ev.listener);
		}
		trim(ch);
	}
	closed = closed && !ch->readers;
	pthread_mutex_unlock(&ctx->table_lock);
	if (closed)
		channel_end(ch);
	if (orphan)
		cm_channel_refuse(s, p->ev.id);
	return err;
}

int cm_channel_take(struct cm_channel *ch, struct cm_packet *p, struct cm_id **id,
		    struct cm_mc **mc)
{
	int err;

	if (ch->ses->ctx->pid != getpid()) /* the parent's events are not ours to take */
		return -EIO;
	do
		err = take(ch, p, id, mc);
	while (!err && !*id);
	return err;
}

void cm_channel_forget(struct cm_channel *ch, struct cm_session *s, uint32_t handle,
		       uint32_t outstanding)
{
	struct ffl_context *ctx = s->ctx;
	struct cm_packet *list;
	unsigned i, num;

	if (!outstanding || ctx->pid != getpid())
		return;
	pthread_mutex_lock(&ctx->table_lock);
	num = peek_all(ch, handle, 0, &list);
	void_add(ch, handle, 0, num);
	trim(ch);
	pthread_mutex_unlock(&ctx->table_lock);
	for (i = 0; i < num; i++)
		if (list[i].ev.listener)
			cm_channel_refuse(s, list[i].ev.id);
	free(list);
}

void cm_channel_forget_mc(struct cm_channel *ch, struct cm_id *id, uint32_t mc)
{
	struct ffl_context *ctx = id->ses->ctx;
	struct cm_packet *list;
	unsigned num;

	if (ctx->pid != getpid())
		return;
	pthread_mutex_lock(&ctx->table_lock);
	num = peek_all(ch, id->handle, mc, &list);
	void_add(ch, id->handle, mc, num);
	id->known += num;
	trim(ch);
	pthread_mutex_unlock(&ctx->table_lock);
	free(list);
}

/* ---- migration --------------------------------------------------------------------------------------- */

/* The id's packets in `from` become void there; their copies. Call with table_lock held. */
static unsigned move_out(struct cm_channel *from, struct cm_id *id, uint32_t reported,
			 struct cm_packet **list)
{
	uint32_t outstanding = reported - id->known;
	unsigned num = peek_all(from, id->handle, 0, list);

	if (num != outstanding) { /* a reader has some that it has not entered */
		free(*list);
		*list = NULL;
		return 0;
	}
	void_add(from, id->handle, 0, num);
	id->known += num;
	trim(from);
	return num;
}

/* Put a copy into the new channel. 0 or -errno. */
static int copy_in(struct cm_channel *to, struct cm_id *id, const struct cm_packet *p)
{
	struct ff_cm_write_event_req req = { .id = id->handle,
					     .channel = to->handle,
					     .event = p->ev };
	struct ff_cm_write_event_resp resp;
	struct ffl_context *ctx = id->ses->ctx;
	int err;

	pthread_mutex_lock(&ctx->table_lock);
	id->known++; /* before somebody takes it */
	id->copies++;
	pthread_mutex_unlock(&ctx->table_lock);
	err = CM_CALL_DATA(id->ses, CM_WRITE_EVENT, &req, p->data, p->ev.private_data_len, &resp);
	if (err) {
		pthread_mutex_lock(&ctx->table_lock);
		id->known--;
		id->copies--;
		pthread_mutex_unlock(&ctx->table_lock);
	}
	return err;
}

int cm_channel_move(struct cm_channel *from, struct cm_channel *to, struct cm_id *id)
{
	struct ffl_context *ctx = id->ses->ctx;
	struct ff_cm_migrate_id_req req = { .id = id->handle, .channel = to->handle };
	struct ff_cm_migrate_id_resp resp;
	struct cm_packet *list;
	unsigned i, num, looks = MOVE_LOOKS;
	int err;

	if (to->ses != id->ses) /* of another router, or the parent's */
		return -EINVAL;
	/* Copies of an earlier move that still wait in `from` go along as if nobody knew them. */
	pthread_mutex_lock(&ctx->table_lock);
	id->known -= id->copies;
	id->copies = 0;
	pthread_mutex_unlock(&ctx->table_lock);
	for (;;) {
		pthread_mutex_lock(&ctx->table_lock);
		req.taken = id->known;
		pthread_mutex_unlock(&ctx->table_lock);
		err = CM_CALL(id->ses, CM_MIGRATE_ID, &req, &resp);
		if (err || resp.events_reported == req.taken)
			return err;
		/* The router writes no more of them until the next try. */
		pthread_mutex_lock(&ctx->table_lock);
		num = move_out(from, id, resp.events_reported, &list);
		if (!num && !--looks)
			id->known = resp.events_reported;
		pthread_mutex_unlock(&ctx->table_lock);
		if (!num)
			sched_yield();
		for (i = 0; i < num && !err; i++)
			err = copy_in(to, id, &list[i]);
		free(list);
		if (err)
			return err;
	}
}

/* ---- the channel itself ------------------------------------------------------------------------------ */

struct cm_channel *cm_channel_new(void)
{
	struct ff_create_channel_req req = { 0 };
	struct ff_create_channel_resp resp;
	struct cm_channel *ch;
	unsigned int num_fds = 0;
	int err, tries;

	ch = calloc(1, sizeof(*ch));
	if (!ch)
		return NULL;
	for (tries = 0; tries < 2;
	     tries++) { /* twice: this call may find out that the router died */
		ch->ses = cm_session_get();
		if (!ch->ses) {
			err = -errno;
			break;
		}
		err = ffl_call(ch->ses->ctx, FF_MSG_CREATE_CHANNEL, &req, sizeof(req), NULL, 0, 0,
			       &resp, sizeof(resp), &ch->pub.fd, 1, &num_fds);
		if (!err && num_fds != 1)
			err = -EPROTO;
		if (!err) {
			ch->handle = resp.channel;
			return ch;
		}
		cm_session_put(ch->ses);
		if (err != -EIO)
			break;
	}
	free(ch);
	return ffl_err_ptr(-err);
}

/*
 * A thread that waits in the channel goes on waiting, as where close(2) meets a read(2) of the same
 * file: programs rely on their event thread not to return while they end.
 */
void cm_channel_free(struct cm_channel *ch)
{
	struct ffl_context *ctx = ch->ses->ctx;
	bool busy;

	close(ch->pub.fd);
	pthread_mutex_lock(&ctx->table_lock);
	busy = ch->readers && ctx->pid == getpid();
	ch->closed = busy;
	pthread_mutex_unlock(&ctx->table_lock);
	if (!busy)
		channel_end(ch);
}

FFL_EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct cm_channel *ch = cm_channel_new();

	return ch ? &ch->pub : NULL;
}

/* Its ids have been destroyed and its events acknowledged before. */
FFL_EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	cm_channel_free(to_channel(channel));
}
