/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * channel.c - event channels, and which of the packets in them may still be seen. Any thread;
 * neighbours: event.c, which makes events of packets, id.c.
 *
 * A channel has one end of a socket of which the router has the other; one packet is one event. The
 * descriptor that the program sees is an epoll instance with that socket in it, so it is readable exactly
 * when there is an event, and O_NONBLOCK is the program's to set. It is no socket, because a program has
 * it in an epoll set of its own, which would not follow to the socket of the next router. While no router is
 * there, what tells of its return (watch.c) is in the epoll instance instead (renew.c).
 *
 * A packet that was written cannot be called back, but the kernel's rdma_cm, which keeps events
 * until they are fetched, drops those of an id that is destroyed and takes along those of an id
 * that migrates. So a channel has a list of what is void in its socket: (id, membership) and how
 * many packets. They are skipped when they come up, and taken away at once where they are the
 * next, so that a descriptor is not readable because of them.
 *
 * The books: a packet is entered (counted in its id, or skipped) under cm_lock after it was
 * received without a lock. While cm_channel_move() looks at what is in the socket, by means of
 * SO_PEEK_OFF, it holds cm_lock, so nothing is entered; what a reader had received but not
 * entered before that is missing in the sum, and the move looks again.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffl/cm/cm.h"

#define FD_HIGH	   512	 /* lowest number for sockets, out of the way of programs */
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

/* ---- void packets; call with cm_lock held ------------------------------------------------------------ */

static void void_add(struct cm_line *l, uint32_t handle, uint32_t mc, uint32_t count)
{
	unsigned room = l->room_void ? 2 * l->room_void : 8;
	struct cm_void *v;

	if (!count)
		return;
	if (l->num_void == l->room_void) {
		v = realloc(l->voids, room * sizeof(*v));
		if (!v)
			return; /* they will be skipped for having no id; readable until then */
		l->voids = v;
		l->room_void = room;
	}
	l->voids[l->num_void++] = (struct cm_void){ handle, mc, count };
}

static struct cm_void *void_find(struct cm_line *l, const struct ff_cm_event *ev)
{
	struct cm_void *v;

	for (v = l->voids; v < l->voids + l->num_void; v++)
		if (v->handle == owner(ev) && (!v->mc || v->mc == ev->mc))
			return v;
	return NULL;
}

/* Is this packet void? It is about to leave the socket. */
static bool void_take(struct cm_line *l, const struct ff_cm_event *ev)
{
	struct cm_void *v = void_find(l, ev);

	if (v && !--v->count)
		*v = l->voids[--l->num_void];
	return v;
}

/* Take void packets away that are next. A reader inside recv() would do it itself. */
static void trim(struct cm_line *l)
{
	struct cm_packet p;
	ssize_t n;

	while (l->num_void && !l->readers) {
		n = recv(l->fd, &p, sizeof(p), MSG_PEEK | MSG_DONTWAIT);
		if (n <= 0 || check(&p, n) || !void_find(l, &p.ev))
			return;
		void_take(l, &p.ev);
		if (recv(l->fd, &p, sizeof(p), MSG_DONTWAIT) != n)
			return;
	}
}

/*
 * Copies of the id's packets that are in the socket, in order; with mc, of that membership's only.
 * A reader that takes a packet in the meantime can make the offset go wrong: then one is missing, or
 * was seen before and is left out.
 * How many; *list is the caller's to free. Without memory for them there are none.
 */
static unsigned peek_all(struct cm_line *l, uint32_t handle, uint32_t mc, struct cm_packet **list)
{
	static const int none = -1, start = 0;
	unsigned num = 0, room = 0;
	struct cm_packet p, *more;
	ssize_t n;

	*list = NULL;
	if (setsockopt(l->fd, SOL_SOCKET, SO_PEEK_OFF, &start, sizeof(start)))
		return 0;
	while ((n = recv(l->fd, &p, sizeof(p), MSG_PEEK | MSG_DONTWAIT)) > 0) {
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
	setsockopt(l->fd, SOL_SOCKET, SO_PEEK_OFF, &none, sizeof(none));
	return num;
}

/* ---- lines: a channel's socket to one router ---------------------------------------------------------- */

/* Takes over the reference to s, but not on failure. */
static int line_new(struct cm_session *s, struct cm_line **line)
{
	struct ff_create_channel_req req = { 0 };
	struct ff_create_channel_resp resp;
	struct cm_line *l = calloc(1, sizeof(*l));
	unsigned int num_fds = 0;
	int err, high;

	if (!l)
		return -ENOMEM;
	err = ffl_call(s->ctx, FF_MSG_CREATE_CHANNEL, &req, sizeof(req), NULL, 0, 0, &resp,
		       sizeof(resp), &l->fd, 1, &num_fds);
	if (!err && num_fds != 1)
		err = -EPROTO;
	if (err) {
		free(l);
		return err;
	}
	high = fcntl(l->fd, F_DUPFD_CLOEXEC, FD_HIGH);
	if (high >= 0) {
		close(l->fd);
		l->fd = high;
	}
	l->ses = s;
	l->handle = resp.channel;
	*line = l;
	return 0;
}

int cm_line_new(struct cm_line **line)
{
	struct cm_session *s;
	int err, tries;

	/* twice: this call may find out that the router died */
	for (err = -EIO, tries = 0; err == -EIO && tries < 2; tries++) {
		s = cm_session_get();
		err = s ? line_new(s, line) : -errno;
		if (s && err)
			cm_session_put(s);
	}
	return err;
}

void cm_line_free(struct cm_line *l)
{
	close(l->fd);
	cm_session_put(l->ses);
	free(l->voids);
	free(l);
}

void cm_line_end(struct cm_line *l)
{
	struct ff_destroy_channel_req req = { .channel = l->handle };
	struct ff_destroy_channel_resp resp;

	while (CM_CALL(l->ses, DESTROY_CHANNEL, &req, &resp) == -EAGAIN)
		; /* it goes in parts */
	cm_line_free(l);
}

/* Take away what nobody is to see. Is there something else, or may there be? Call with cm_lock held. */
static bool has_packets(struct cm_line *l)
{
	struct cm_packet p;
	ssize_t n;

	for (;;) {
		n = recv(l->fd, &p, sizeof(p), MSG_PEEK | MSG_DONTWAIT);
		if (!n || (n < 0 && errno == ECONNRESET))
			return false;
		if (n < 0 || check(&p, n))
			return true;
		if (ffl_table_get(l->ses->ctx, FFL_CM_ID, owner(&p.ev)) && !void_find(l, &p.ev))
			return true;
		void_take(l, &p.ev);
		if (recv(l->fd, &p, sizeof(p), MSG_DONTWAIT) != n)
			return true;
	}
}

/* ---- the end of a channel ---------------------------------------------------------------------------- */

/* The descriptor is closed. */
static void channel_end(struct cm_channel *ch)
{
	cm_watch_stop(&ch->watch);
	cm_line_end(ch->line);
	free(ch);
}

/* ---- taking packets ---------------------------------------------------------------------------------- */

/* This thread is in the channel, which therefore stays until reader_leave(). */
static void reader_enter(struct cm_channel *ch)
{
	pthread_mutex_lock(&cm_lock);
	ch->readers++;
	pthread_mutex_unlock(&cm_lock);
}

static void reader_leave(struct cm_channel *ch)
{
	bool is_last;

	pthread_mutex_lock(&cm_lock);
	is_last = !--ch->readers && ch->closed;
	pthread_mutex_unlock(&cm_lock);
	if (is_last)
		channel_end(ch);
}

/* Enter a received packet. The id that it is for, or NULL: skipped. Call with cm_lock held. */
static struct cm_id *enter(struct cm_line *l, struct cm_packet *p, struct cm_mc **mc)
{
	const struct ff_cm_event *ev = &p->ev;
	struct cm_id *id;

	*mc = NULL;
	if (void_take(l, ev))
		return NULL;
	id = ffl_table_get(l->ses->ctx, FFL_CM_ID, owner(ev));
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
	if (ev->event == RDMA_CM_EVENT_ADDR_RESOLVED || ev->event == RDMA_CM_EVENT_ADDR_ERROR)
		id->is_resolving = false;
	p->ses = ev->event == RDMA_CM_EVENT_CONNECT_REQUEST ? cm_session_ref(l->ses) : NULL;
	return id;
}

void cm_channel_refuse(struct cm_session *s, uint32_t handle)
{
	struct ff_cm_destroy_id_req req = { .id = handle };
	struct ff_cm_destroy_id_resp resp;

	CM_CALL(s, CM_DESTROY_ID, &req, &resp);
}

/*
 * What the end of the router means for an id: DEVICE_REMOVAL where the id has the device and was not told yet,
 * ADDR_ERROR where an address was being resolved. 0: nothing. A synchronous id is left out, because its call fails.
 * Call with cm_lock held.
 */
static uint32_t end_of(const struct cm_channel *ch, const struct cm_id *id)
{
	if (!id || id->id.channel != &ch->pub || id->sync || id->is_removed)
		return 0;
	return id->dev		? RDMA_CM_EVENT_DEVICE_REMOVAL :
	       id->is_resolving ? RDMA_CM_EVENT_ADDR_ERROR :
				  0;
}

/* The first id of the channel that is to be told of the end; NULL: there is none. Call with cm_lock held. */
static struct cm_id *first_to_tell(const struct cm_channel *ch)
{
	const struct ffl_table *t = &ch->line->ses->ctx->table[FFL_CM_ID];

	for (uint32_t i = 0; i < t->size; i++) {
		struct cm_id *id = t->slot[i].handle ? t->slot[i].obj : NULL;

		if (end_of(ch, id))
			return id;
	}
	return NULL;
}

/* The router is gone, and with it the device: make the event of one id. Call with cm_lock held. */
static struct cm_id *tell_one(struct cm_channel *ch, struct cm_packet *p)
{
	struct cm_id *id = first_to_tell(ch);

	if (!id)
		return NULL;
	memset(p, 0, sizeof(*p));
	p->ev.event = end_of(ch, id);
	p->ev.id = id->handle;
	if (p->ev.event == RDMA_CM_EVENT_ADDR_ERROR)
		p->ev.status = -ENODEV;
	id->is_removed = !!id->dev;
	id->is_resolving = false;
	id->ev.returned++;
	return id;
}

bool cm_line_is_told(struct cm_channel *ch)
{
	bool is_told;

	pthread_mutex_lock(&cm_lock);
	is_told = !has_packets(ch->line) && !first_to_tell(ch);
	pthread_mutex_unlock(&cm_lock);
	return is_told;
}

/* The channel's line, in which this thread is about to wait. */
static struct cm_line *line_get(struct cm_channel *ch)
{
	struct cm_line *l;

	pthread_mutex_lock(&cm_lock);
	l = ch->line;
	l->readers++;
	pthread_mutex_unlock(&cm_lock);
	return l;
}

/*
 * Wait for a packet, receive and enter it; 0 or -errno, -ENOLINK: the line has ended, and there is nobody to be told.
 * *id NULL: it was for nobody.
 */
static int take(struct cm_channel *ch, struct cm_packet *p, struct cm_id **id, struct cm_mc **mc)
{
	bool orphan = false, told = false, is_free;
	struct cm_line *l = line_get(ch);
	ssize_t n;
	int err;

	*id = NULL;
	*mc = NULL;
	n = recv(l->fd, p, sizeof(p->ev) + sizeof(p->data), MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN && !(fcntl(ch->pub.fd, F_GETFL) & O_NONBLOCK))
		n = recv(l->fd, p, sizeof(p->ev) + sizeof(p->data), 0);
	err = check(p, n);
	pthread_mutex_lock(&cm_lock);
	l->readers--;
	if (ch->closed) {
		err = -EBADF;
	} else if (err == -EIO && n <= 0) {
		/* another thread may have been here before, and the channel have its next line */
		*id = l == ch->line ? tell_one(ch, p) : NULL;
		told = *id && !first_to_tell(ch);
		err = *id || l != ch->line ? 0 : -ENOLINK;
	} else if (!err) {
		*id = enter(l, p, mc);
		orphan = !*id && p->ev.listener &&
			 !ffl_table_get(l->ses->ctx, FFL_CM_ID, p->ev.listener);
	}
	if (orphan)
		p->ses = cm_session_ref(l->ses);
	if (!ch->closed)
		trim(l);
	is_free = l->is_left && !l->readers;
	pthread_mutex_unlock(&cm_lock);
	if (is_free)
		cm_line_free(l);
	if (told)
		cm_channel_told(ch);
	if (orphan) {
		cm_channel_refuse(p->ses, p->ev.id);
		cm_session_put(p->ses);
	}
	return err;
}

int cm_channel_take(struct cm_channel *ch, struct cm_packet *p, struct cm_id **id,
		    struct cm_mc **mc)
{
	int err;

	if (ch->pid != getpid()) /* the parent's events are not ours to take */
		return -EIO;
	reader_enter(ch);
	do {
		err = take(ch, p, id, mc);
		if (err == -ENOLINK)
			err = cm_channel_lost(ch);
	} while (!err && !*id);
	reader_leave(ch);
	return err;
}

void cm_channel_forget(struct cm_channel *ch, struct cm_session *s, uint32_t handle,
		       uint32_t outstanding)
{
	struct cm_packet *list = NULL;
	unsigned i, num = 0;

	if (!outstanding || s->ctx->pid != getpid())
		return;
	pthread_mutex_lock(&cm_lock);
	if (ch->line->ses == s) { /* else they went with their line */
		num = peek_all(ch->line, handle, 0, &list);
		void_add(ch->line, handle, 0, num);
		trim(ch->line);
	}
	pthread_mutex_unlock(&cm_lock);
	for (i = 0; i < num; i++)
		if (list[i].ev.listener)
			cm_channel_refuse(s, list[i].ev.id);
	free(list);
}

void cm_channel_forget_mc(struct cm_channel *ch, struct cm_id *id, uint32_t mc)
{
	struct cm_packet *list = NULL;
	unsigned num;

	if (id->ses->ctx->pid != getpid())
		return;
	pthread_mutex_lock(&cm_lock);
	if (ch->line->ses == id->ses) {
		num = peek_all(ch->line, id->handle, mc, &list);
		void_add(ch->line, id->handle, mc, num);
		id->known += num;
		trim(ch->line);
	}
	pthread_mutex_unlock(&cm_lock);
	free(list);
}

/* ---- migration --------------------------------------------------------------------------------------- */

/* The id's packets in `from` become void there; their copies. Call with cm_lock held. */
static unsigned move_out(struct cm_line *from, struct cm_id *id, uint32_t reported,
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
					     .channel = to->line->handle,
					     .event = p->ev };
	struct ff_cm_write_event_resp resp;
	int err;

	pthread_mutex_lock(&cm_lock);
	id->known++; /* before somebody takes it */
	id->copies++;
	pthread_mutex_unlock(&cm_lock);
	err = CM_CALL_DATA(id->ses, CM_WRITE_EVENT, &req, p->data, p->ev.private_data_len, &resp);
	if (err) {
		pthread_mutex_lock(&cm_lock);
		id->known--;
		id->copies--;
		pthread_mutex_unlock(&cm_lock);
	}
	return err;
}

int cm_channel_move(struct cm_channel *from, struct cm_channel *to, struct cm_id *id)
{
	struct ff_cm_migrate_id_req req = { .id = id->handle, .channel = to->line->handle };
	struct ff_cm_migrate_id_resp resp;
	struct cm_packet *list;
	unsigned i, num, looks = MOVE_LOOKS;
	int err;

	if (to->line->ses != id->ses) /* of another router, or the parent's */
		return -EINVAL;
	/* Copies of an earlier move that still wait in `from` go along as if nobody knew them. */
	pthread_mutex_lock(&cm_lock);
	id->known -= id->copies;
	id->copies = 0;
	pthread_mutex_unlock(&cm_lock);
	for (;;) {
		pthread_mutex_lock(&cm_lock);
		req.taken = id->known;
		pthread_mutex_unlock(&cm_lock);
		err = CM_CALL(id->ses, CM_MIGRATE_ID, &req, &resp);
		if (err || resp.events_reported == req.taken)
			return err;
		/* The router writes no more of them until the next try. */
		pthread_mutex_lock(&cm_lock);
		num = move_out(from->line, id, resp.events_reported, &list);
		if (!num && !--looks)
			id->known = resp.events_reported;
		pthread_mutex_unlock(&cm_lock);
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

/* What the program sees of the channel. 0 or -errno. */
static int open_fd(struct cm_channel *ch)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int err;

	ch->pub.fd = epoll_create1(EPOLL_CLOEXEC);
	if (ch->pub.fd < 0)
		return -errno;
	if (!epoll_ctl(ch->pub.fd, EPOLL_CTL_ADD, ch->line->fd, &ev))
		return 0;
	err = -errno;
	close(ch->pub.fd);
	return err;
}

struct cm_channel *cm_channel_new(void)
{
	struct cm_channel *ch = calloc(1, sizeof(*ch));
	int err;

	if (!ch)
		return NULL;
	ch->watch.fd = -1;
	ch->pid = getpid();
	err = cm_line_new(&ch->line);
	if (err)
		goto err_free;
	err = open_fd(ch);
	if (!err)
		return ch;
	channel_end(ch);
	return ffl_err_ptr(-err);

err_free:
	free(ch);
	return ffl_err_ptr(-err);
}

/*
 * A thread that waits in the channel goes on waiting, as where close(2) meets a read(2) of the same
 * file: programs rely on their event thread not to return while they end.
 */
void cm_channel_free(struct cm_channel *ch)
{
	bool busy;

	cm_id_keep(); /* a thread that renews the channel uses the descriptor's number */
	close(ch->pub.fd);
	pthread_mutex_lock(&cm_lock);
	busy = ch->readers && ch->pid == getpid();
	ch->closed = busy;
	pthread_mutex_unlock(&cm_lock);
	cm_id_leave();
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
