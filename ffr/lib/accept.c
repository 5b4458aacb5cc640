/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * accept.c - a listening socket in a loop of libuv, which goes on when there are no descriptors. The loop's thread.
 *
 * uv_listen() is not for daemons in a sandbox: where accept() fails for want of descriptors, libuv gives up a spare
 * descriptor, which it must open anew, and without one it tries again for ever inside its callback. Here accepting
 * pauses; connections wait in the socket's queue meanwhile.
 *
 * A socket by which an operator makes room keeps spare descriptors (keeps_spares): they are closed for one connection
 * when there is no other descriptor, and taken again when a connection ends.
 */
#include "ffr/lib/accept.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BATCH 16 /* connections in one turn of the loop */

static void on_readable(uv_poll_t *h, int status, int events);

void acceptor_refill(struct acceptor *a)
{
	for (int i = 0; a->keeps_spares && i < ACCEPT_SPARES; i++)
		if (a->spare[i] < 0)
			a->spare[i] = dup(a->fd);
}

/* True if there was one. */
static bool drop_spares(struct acceptor *a)
{
	bool any = false;

	for (int i = 0; i < ACCEPT_SPARES; i++) {
		if (a->spare[i] < 0)
			continue;
		close(a->spare[i]);
		a->spare[i] = -1;
		any = true;
	}
	return any;
}

static bool is_out_of_room(int err)
{
	return err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM;
}

static void on_pause(uv_timer_t *t)
{
	struct acceptor *a = t->data;

	acceptor_refill(a);
	uv_poll_start(&a->poll, UV_READABLE, on_readable);
}

static void pause_now(struct acceptor *a)
{
	uv_poll_stop(&a->poll);
	uv_timer_start(&a->pause, on_pause, ACCEPT_PAUSE, 0);
}

/* One connection. False: no more now. */
static bool accept_one(struct acceptor *a)
{
	int fd = accept4(a->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	bool was_full = false;

	if (fd < 0 && is_out_of_room(errno) && drop_spares(a)) {
		was_full = true;
		fd = accept4(a->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	}
	if (fd < 0 && !is_out_of_room(errno))
		return errno != EAGAIN; /* another error is of that connection, which is gone */
	if (fd < 0)
		log_client(&a->log, LOG_LEVEL_WARN,
			   "%s: accept: %m: connections wait; raise LimitNOFILE of the service",
			   a->name);
	else
		a->came(a->arg, fd);
	if (fd >= 0 && !was_full)
		return !uv_is_closing((uv_handle_t *)&a->poll);
	/* the other spares are for what that connection asks for */
	if (!uv_is_closing((uv_handle_t *)&a->poll))
		pause_now(a);
	return false;
}

static void on_readable(uv_poll_t *h, int status, int events)
{
	(void)status;
	(void)events;
	for (int i = 0; i < BATCH && accept_one(h->data); i++)
		;
}

int acceptor_start(struct acceptor *a, uv_loop_t *loop, int fd, int backlog)
{
	int err = listen(fd, backlog) ? -errno : uv_poll_init(loop, &a->poll, fd);

	if (err) {
		close(fd);
		return err;
	}
	uv_timer_init(loop, &a->pause);
	a->fd = fd;
	a->poll.data = a->pause.data = a;
	a->open_handles = 2;
	memset(a->spare, -1, sizeof(a->spare));
	acceptor_refill(a);
	uv_poll_start(&a->poll, UV_READABLE, on_readable);
	return 0;
}

static void on_closed(uv_handle_t *h)
{
	struct acceptor *a = h->data;

	if (!--a->open_handles)
		a->closed(a->arg);
}

void acceptor_close(struct acceptor *a)
{
	drop_spares(a);
	uv_poll_stop(&a->poll);
	close(a->fd);
	uv_close((uv_handle_t *)&a->poll, on_closed);
	uv_close((uv_handle_t *)&a->pause, on_closed);
}
