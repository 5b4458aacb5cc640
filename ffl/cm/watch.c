/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * watch.c - when does a router answer again? A descriptor tells, which the program waits for with its event channel:
 * no thread of the library waits. Called by renew.c with renew_lock held.
 *
 * The descriptor is one of three:
 * - a connection to the router's socket in which CHALLENGE was sent, the one question that needs no session. The keeper
 *   holds the socket while a router is started again (ffr/keeper/held.c), so that the question waits there and the next
 *   router answers it at once;
 * - where nobody listens: inotify's, of the folder in which the next router will make its socket;
 * - a timer, where there is no inotify (a user's limit of instances), or where a router answers and does not take us.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "ffl/cm/cm.h"

#define PAUSE_MS 1000 /* of the timer */

enum { WATCH_NONE, WATCH_ANSWER, WATCH_FOLDER, WATCH_TIMER };

static const char *socket_path(void)
{
	const char *path = secure_getenv("FFL_SOCKET");

	return path && *path ? path : FF_SOCKET_DEFAULT;
}

/* A socket in which an answer of the router will come; or -errno. */
static int ask(void)
{
	const struct {
		struct ff_hdr hdr;
		struct ff_challenge_req req;
	} msg = { .hdr = { .magic = FF_PROTO_MAGIC, .type = FF_MSG_CHALLENGE, .seq = 1 } };
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	const char *path = socket_path();
	int fd, err;

	if (strlen(path) >= sizeof(sa.sun_path))
		return -ENAMETOOLONG;
	strcpy(sa.sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (!connect(fd, (struct sockaddr *)&sa, sizeof(sa)) &&
	    send(fd, &msg, sizeof(msg), MSG_NOSIGNAL) == sizeof(msg))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

static int folder(void)
{
	const char *path = socket_path(), *slash = strrchr(path, '/');
	char *dir = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
	int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

	/* IN_ATTRIB: the router lets everybody in after it listens */
	if (fd >= 0 &&
	    (!dir ||
	     inotify_add_watch(fd, dir, IN_CREATE | IN_MOVED_TO | IN_ATTRIB | IN_ONLYDIR) < 0)) {
		close(fd);
		fd = -1;
	}
	free(dir);
	return fd;
}

static int timer(void)
{
	const struct itimerspec t = { .it_value = { PAUSE_MS / 1000, PAUSE_MS % 1000 * 1000000 } };
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);

	if (fd >= 0)
		timerfd_settime(fd, 0, &t, NULL);
	return fd;
}

static void set(struct cm_watch *w, int kind, int fd)
{
	cm_watch_stop(w);
	w->fd = fd;
	w->kind = fd < 0 ? WATCH_NONE : (uint8_t)kind;
}

void cm_watch_stop(struct cm_watch *w)
{
	if (w->fd >= 0)
		close(w->fd);
	w->fd = -1;
	w->kind = WATCH_NONE;
}

void cm_watch_pause(struct cm_watch *w)
{
	set(w, WATCH_TIMER, timer());
}

void cm_watch_start(struct cm_watch *w)
{
	int fd, dir = folder(); /* before the question: else a router that comes in between is not seen */

	fd = ask();
	if (fd >= 0) {
		set(w, WATCH_ANSWER, fd);
		if (dir >= 0)
			close(dir);
	} else if (dir >= 0 && fd != -EAGAIN) { /* EAGAIN: too many wait there */
		set(w, WATCH_FOLDER, dir);
	} else {
		if (dir >= 0)
			close(dir);
		cm_watch_pause(w);
	}
}

/*
 * The process that listened on the socket has closed the connection without an answer. If the next one does so, too,
 * it refuses this program: ask no sooner than the timer says.
 */
static void ended(struct cm_watch *w)
{
	if (w->has_ended) {
		cm_watch_pause(w);
	} else {
		w->has_ended = true;
		cm_watch_start(w);
	}
}

bool cm_watch_look(struct cm_watch *w)
{
	char buf[4096];
	ssize_t n;

	n = w->kind == WATCH_ANSWER ? recv(w->fd, buf, sizeof(buf), MSG_DONTWAIT) :
				      read(w->fd, buf, sizeof(buf));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (w->kind != WATCH_ANSWER) {
		w->has_ended = false;
		cm_watch_start(w);
	} else if (n > 0) {
		w->has_ended = false;
		cm_watch_stop(w);
		return true;
	} else {
		ended(w);
	}
	return false;
}
