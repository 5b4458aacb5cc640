/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * renew.c - what outlives a router: channels, and ids that have no device. Any thread; neighbours: channel.c, whose
 * reader finds that the router is gone; watch.c; session.c, whose next session is used.
 *
 * As with the kernel's rdma_cm when a NIC is taken away: an id that is bound to the device gets DEVICE_REMOVAL and is
 * only good for being destroyed. An id that is not, above all one that listens on the wildcard address, goes on. The
 * program sees nothing of it, but that its listener has no requests while there is no router.
 *
 * The router that comes back knows nothing of them. So the channel gets a new line (its socket to the router), and each
 * of those ids is made again with its options, address and backlog. That needs somebody to do it:
 * - a channel with a listener has in its descriptor what tells of the router's return, and the thread that then calls
 *   rdma_get_cm_event() makes the ids again, and goes on waiting. No thread of the library does it: a program's threads
 *   are the program's (issue 37), and one that listens has a thread that waits for requests.
 * - any other channel is renewed by the next call that makes an id in it or asks for something about one of its ids.
 *
 * A line is left only when everything in it was told, so that the events of a router that ended come before those of
 * the next one. Until then calls fail with EIO.
 *
 * An id that cannot be had again, because its port was taken meanwhile, is told DEVICE_REMOVAL.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffl/cm/cm.h"

#define NO_FD_MS 1000 /* between two looks for a router where no descriptor can tell */

static pthread_mutex_t renew_lock = PTHREAD_MUTEX_INITIALIZER; /* see cm.h */

void cm_renew_forked(void)
{
	pthread_mutex_init(&renew_lock, NULL);
}

/* ---- one id ------------------------------------------------------------------------------------------ */

static bool survives(const struct cm_channel *ch, const struct cm_id *id)
{
	return id && id->id.channel == &ch->pub && !id->dev && !id->is_removed;
}

static int set_options(struct cm_session *s, const struct cm_id *id, uint32_t handle)
{
	struct ff_cm_set_option_req req = { .id = handle, .level = RDMA_OPTION_ID };
	struct ff_cm_set_option_resp resp;
	int err = 0;

	for (req.option = 0; !err && req.option < CM_NUM_OPTIONS; req.option++) {
		req.value = id->option[req.option];
		if (id->options & 1u << req.option)
			err = CM_CALL(s, CM_SET_OPTION, &req, &resp);
	}
	return err;
}

static int bind_again(struct cm_session *s, const struct cm_id *id, uint32_t handle)
{
	struct ff_cm_bind_req req = { .id = handle, .addr = id->path.local };
	struct ff_cm_bind_resp resp;
	struct sockaddr sa;

	memcpy(&sa, &id->path.local, sizeof(sa));
	return sa.sa_family == AF_UNSPEC ? 0 : CM_CALL(s, CM_BIND, &req, &resp);
}

static int listen_again(struct cm_session *s, const struct cm_id *id, uint32_t handle)
{
	struct ff_cm_listen_req req = { .id = handle, .backlog = id->backlog };
	struct ff_cm_listen_resp resp;

	return id->is_listening ? CM_CALL(s, CM_LISTEN, &req, &resp) : 0;
}

struct renewed {
	struct cm_id *id;
	uint32_t handle; /* at the next router */
	bool is_removed; /* it cannot be had there as it was */
};

/* The program hears of an id that cannot be had again. */
static int tell_removed(const struct cm_line *l, struct renewed *r, int why)
{
	struct ff_cm_write_event_req req = {
		.id = r->handle,
		.channel = l->handle,
		.event = { .uid = (uintptr_t)r->id,
			   .id = r->handle,
			   .event = RDMA_CM_EVENT_DEVICE_REMOVAL },
	};
	struct ff_cm_write_event_resp resp;

	ffl_log(FFL_ERR,
		"the router is back, but an rdma_cm id cannot be bound and listen as before: %s",
		strerror(-why));
	r->is_removed = true;
	return CM_CALL_DATA(l->ses, CM_WRITE_EVENT, &req, NULL, 0, &resp);
}

/* Make the id at the router of the line. 0 or -errno. */
static int make(const struct cm_line *l, struct renewed *r)
{
	struct cm_id *id = r->id;
	struct ff_cm_create_id_req req = { .uid = (uintptr_t)id,
					   .channel = l->handle,
					   .ps = (uint16_t)id->id.ps,
					   .qp_type = (uint8_t)id->id.qp_type };
	struct ff_cm_create_id_resp resp;
	int err = CM_CALL(l->ses, CM_CREATE_ID, &req, &resp);

	if (err)
		return err;
	r->handle = resp.id;
	err = set_options(l->ses, id, resp.id);
	if (!err)
		err = bind_again(l->ses, id, resp.id);
	if (!err)
		err = listen_again(l->ses, id, resp.id);
	return err && err != -EIO ? tell_removed(l, r, err) : err;
}

/* ---- all of a channel --------------------------------------------------------------------------------- */

/* The ids of the channel that go on. How many; the caller frees the list. -errno. */
static int survivors(const struct cm_channel *ch, struct renewed **list)
{
	const struct ffl_table *t = &ch->line->ses->ctx->table[FFL_CM_ID];
	struct cm_id *id;
	int n = 0;

	pthread_mutex_lock(&cm_lock);
	*list = calloc(t->size + 1, sizeof(**list));
	for (uint32_t i = 0; *list && i < t->size; i++) {
		id = t->slot[i].handle ? t->slot[i].obj : NULL;
		if (survives(ch, id))
			(*list)[n++].id = id;
	}
	pthread_mutex_unlock(&cm_lock);
	return *list ? n : -ENOMEM;
}

static bool has_listener(const struct cm_channel *ch)
{
	struct renewed *list;
	bool has = false;
	int n = survivors(ch, &list);

	while (n > 0)
		has |= list[--n].id->is_listening;
	free(list);
	return has;
}

/* From now on the channel's events come from the new line, and its ids are those there. */
static void change_line(struct cm_channel *ch, struct cm_line *l, struct renewed *list, int n)
{
	struct cm_line *old = ch->line;
	struct cm_session *ses;
	bool is_free;

	pthread_mutex_lock(&cm_lock);
	for (int i = 0; i < n; i++) {
		struct cm_id *id = list[i].id;

		ffl_table_del(old->ses->ctx, FFL_CM_ID, id->handle);
		ses = id->ses;
		id->ses = cm_session_ref(l->ses);
		cm_session_put(ses);
		id->handle = list[i].handle;
		id->known = id->copies = 0;
		id->is_removed = list[i].is_removed;
	}
	ch->line = l;
	old->is_left = true;
	is_free = !old->readers;
	pthread_mutex_unlock(&cm_lock);
	if (is_free)
		cm_line_free(old);
}

static void ep_add(const struct cm_channel *ch, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	if (fd >= 0)
		epoll_ctl(ch->pub.fd, EPOLL_CTL_ADD, fd, &ev);
}

/* A child may have the file open, too: closing our descriptor would leave it there. */
static void ep_del(const struct cm_channel *ch, int fd)
{
	if (fd >= 0)
		epoll_ctl(ch->pub.fd, EPOLL_CTL_DEL, fd, NULL);
}

/* Call with renew_lock held, for a line that has told everything. 0 or -errno: the channel is as it was. */
static int renew(struct cm_channel *ch)
{
	struct renewed *list = NULL;
	struct cm_line *l;
	int n, i, err;

	err = cm_line_new(&l);
	if (err)
		return err;
	n = survivors(ch, &list);
	err = n < 0 ? n : 0;
	for (i = 0; i < n; i++) {
		err = make(l, &list[i]);
		if (err)
			break;
		pthread_mutex_lock(&cm_lock);
		err = ffl_table_put(l->ses->ctx, FFL_CM_ID, list[i].handle, list[i].id);
		pthread_mutex_unlock(&cm_lock);
		if (err)
			break;
	}
	if (err)
		goto err_ids;
	ep_del(ch, ch->watch.fd);
	cm_watch_stop(&ch->watch);
	ep_del(ch, ch->line->fd);
	change_line(ch, l, list, n);
	ep_add(ch, l->fd);
	ch->is_lost = false;
	free(list);
	if (n)
		ffl_log(FFL_WARN, "the router is back: rdma_cm goes on, %d ids were made again", n);
	return 0;

err_ids:
	pthread_mutex_lock(&cm_lock);
	while (i-- > 0)
		ffl_table_del(l->ses->ctx, FFL_CM_ID, list[i].handle);
	pthread_mutex_unlock(&cm_lock);
	free(list);
	cm_line_end(l);
	return err;
}

/* ---- for calls ------------------------------------------------------------------------------------------- */

bool cm_channel_is_live(struct cm_channel *ch)
{
	int cancel;
	bool ok;

	if (ch->pid != getpid())
		return false;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	ok = ffl_check_alive(ch->line->ses->ctx) || (cm_line_is_told(ch) && !renew(ch));
	pthread_setcancelstate(cancel, NULL);
	return ok;
}

bool cm_id_enter(struct cm_id *id)
{
	pthread_mutex_lock(&renew_lock);
	return id->dev || cm_channel_is_live(to_channel(id->id.channel));
}

void cm_id_keep(void)
{
	pthread_mutex_lock(&renew_lock);
}

void cm_id_leave(void)
{
	pthread_mutex_unlock(&renew_lock);
}

/* ---- for those who wait for events ---------------------------------------------------------------------- */

static bool is_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

static void watch(struct cm_channel *ch)
{
	if (has_listener(ch))
		cm_watch_start(&ch->watch);
	ep_add(ch, ch->watch.fd);
}

/* From now on the ended line does not make the descriptor readable. Call with renew_lock held. */
static void lose(struct cm_channel *ch)
{
	ch->is_lost = true;
	ep_del(ch, ch->line->fd);
	watch(ch);
}

/* Another thread may have renewed the channel since this one found that its line has ended. */
static bool has_ended(const struct cm_line *l)
{
	ssize_t n;
	char c;

	pthread_mutex_lock(&cm_lock); /* which whoever uses SO_PEEK_OFF has */
	n = recv(l->fd, &c, sizeof(c), MSG_PEEK | MSG_DONTWAIT);
	pthread_mutex_unlock(&cm_lock);
	return !n || (n < 0 && errno != EAGAIN);
}

/*
 * 0: look at the line again; -EAGAIN: the router is not back; -EIO: the channel is of no use. Call with renew_lock
 * held.
 */
static int look(struct cm_channel *ch)
{
	if (ch->closed)
		return -EBADF;
	if (ch->own && (!ch->own->is_listening || ch->own->dev))
		return -EIO;
	if (!has_ended(ch->line))
		return 0;
	if (!ch->is_lost) {
		lose(ch);
		return -EAGAIN;
	}
	if (ch->watch.fd < 0) { /* nobody listened, or there was no descriptor to be had */
		watch(ch);
		return -EAGAIN;
	}
	if (!is_readable(ch->watch.fd))
		return -EAGAIN;
	ep_del(ch, ch->watch.fd);
	if (cm_watch_look(&ch->watch)) {
		if (!renew(ch))
			return 0;
		cm_watch_pause(&ch->watch);
	}
	ep_add(ch, ch->watch.fd);
	return -EAGAIN;
}

void cm_channel_told(struct cm_channel *ch)
{
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&renew_lock);
	if (!ch->closed && !ch->is_lost && has_ended(ch->line))
		lose(ch);
	pthread_mutex_unlock(&renew_lock);
	pthread_setcancelstate(cancel, NULL);
}

int cm_channel_lost(struct cm_channel *ch)
{
	struct pollfd p = { .fd = ch->pub.fd, .events = POLLIN };
	int err, cancel, flags, ms;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&renew_lock);
	err = look(ch);
	flags = err == -EAGAIN ? fcntl(p.fd, F_GETFL) : 0;
	ms = err == -EAGAIN && ch->watch.fd < 0 && has_listener(ch) ? NO_FD_MS : -1;
	pthread_mutex_unlock(&renew_lock);
	pthread_setcancelstate(cancel, NULL);
	if (err != -EAGAIN || flags & O_NONBLOCK)
		return err;
	return poll(&p, 1, ms) < 0 ? -errno : 0;
}
