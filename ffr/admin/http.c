/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * http.c - GET /metrics, by libmicrohttpd without a thread of its own: its epoll descriptor is
 * in the control thread's loop. It bounds what a request may be, how many there are and how long a
 * connection lasts, because a client that sends or takes a byte now and then is never silent.
 *
 * Tests: unit/admin/test_http.c, system/metrics.sh
 */
#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffr/admin/admin.h"
#include "ffr/lib/addr.h"
#include "ffr/lib/log.h"
#include "ffr/admin/metrics.h"

#define MAX_CONNECTIONS 16u
#define CONN_MEMORY	16384u	       /* bytes for a request, its headers and the answer's */
#define CONN_TIMEOUT	5u	       /* s without progress */
#define CONN_LIFE_NS	10000000000ull /* of a connection, which has one request */
#define BACKLOG		16
#define PAUSE_MS                                                                                   \
	100 /* without looking at the sockets, when there is no descriptor for a connection */

struct client {
	struct MHD_Connection *c; /* NULL: a free place */
	uint64_t until;		  /* ns, uv_hrtime(): then it ends */
};

struct metrics {
	struct metrics_conf conf;
	struct client clients[MAX_CONNECTIONS];
	struct MHD_Daemon *d;
	uv_poll_t poll;
	uv_timer_t timer;
	int open_handles;
};

static enum MHD_Result answer_text(struct MHD_Connection *c, unsigned status, char *text,
				   size_t len, enum MHD_ResponseMemoryMode mode)
{
	struct MHD_Response *resp = MHD_create_response_from_buffer(len, text, mode);
	enum MHD_Result ok;

	if (!resp)
		return MHD_NO;
	MHD_add_response_header(resp, MHD_HTTP_HEADER_CONTENT_TYPE,
				status == MHD_HTTP_OK ? "text/plain; version=0.0.4; charset=utf-8" :
							"text/plain; charset=utf-8");
	MHD_add_response_header(resp, MHD_HTTP_HEADER_CONNECTION, "close");
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(resp, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	ok = MHD_queue_response(c, status, resp);
	MHD_destroy_response(resp);
	return ok;
}

static enum MHD_Result refuse(struct MHD_Connection *c, unsigned status, const char *why)
{
	return answer_text(c, status, (char *)why, strlen(why), MHD_RESPMEM_PERSISTENT);
}

/* Called when the headers are there, and again with and after the body, if one is sent. */
static enum MHD_Result on_request(void *cls, struct MHD_Connection *c, const char *url,
				  const char *method, const char *version, const char *body,
				  size_t *body_len, void **req)
{
	static char seen;
	struct metrics *m = cls;
	size_t len;
	char *text;

	(void)version;
	(void)body;
	if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
		return refuse(c, MHD_HTTP_METHOD_NOT_ALLOWED, "GET and HEAD only\n");
	if (!*req) {
		*req = &seen;
		return MHD_YES;
	}
	if (*body_len)
		return MHD_NO; /* a GET has no body */
	if (strcmp(url, "/metrics"))
		return refuse(c, MHD_HTTP_NOT_FOUND, "there is /metrics\n");
	text = metrics_text(&m->conf, &len);
	if (!text)
		return refuse(c, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory\n");
	return answer_text(c, MHD_HTTP_OK, text, len, MHD_RESPMEM_MUST_FREE);
}

/* ---- the loop --------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *t);

static unsigned connections(const struct metrics *m)
{
	return MHD_get_daemon_info(m->d, MHD_DAEMON_INFO_CURRENT_CONNECTIONS)->num_connections;
}

static void on_connection(void *cls, struct MHD_Connection *c, void **context,
			  enum MHD_ConnectionNotificationCode what)
{
	struct metrics *m = cls;
	struct client *client = *context;

	if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
		if (client)
			client->c = NULL;
		return;
	}
	for (unsigned i = 0; i < MAX_CONNECTIONS && !*context; i++) {
		if (m->clients[i].c)
			continue;
		m->clients[i] = (struct client){ c, uv_hrtime() + CONN_LIFE_NS };
		*context = &m->clients[i];
	}
}

/* Shut down the connections whose time is over. libmicrohttpd closes them in its next run. */
static void end_the_old(struct metrics *m)
{
	uint64_t now = uv_hrtime();

	for (unsigned i = 0; i < MAX_CONNECTIONS; i++) {
		struct MHD_Connection *c = m->clients[i].c;

		if (c && now >= m->clients[i].until)
			shutdown(MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)
					 ->connect_fd,
				 SHUT_RDWR);
	}
}

/*
 * At MAX_CONNECTIONS libmicrohttpd takes its socket out of the epoll set. MHD_run() puts it back when it begins, so a
 * run that ended connections is followed by another: otherwise no event and no time-out would be left to cause one.
 */
static void run(struct metrics *m)
{
	MHD_UNSIGNED_LONG_LONG ms;
	unsigned before;

	/* As long as there is a connection, run() is called at least once in CONN_TIMEOUT. */
	end_the_old(m);
	do {
		before = connections(m);
		MHD_run(m->d);
	} while (connections(m) < before);
	if (MHD_get_timeout(m->d, &ms) == MHD_YES)
		uv_timer_start(&m->timer, on_timer, ms, 0);
	else
		uv_timer_stop(&m->timer);
}

static void on_ready(uv_poll_t *h, int status, int events);

static void on_timer(uv_timer_t *t)
{
	struct metrics *m = t->data;

	uv_poll_start(&m->poll, UV_READABLE, on_ready); /* it may pause */
	run(m);
}

/*
 * libmicrohttpd leaves its socket in the epoll set where accept() fails for want of descriptors and there is no
 * connection yet. Its epoll descriptor then stays readable, and the loop would spin.
 */
static bool has_descriptor(void)
{
	int fd = dup(STDERR_FILENO);

	if (fd < 0)
		return errno != EMFILE && errno != ENFILE;
	close(fd);
	return true;
}

static void on_ready(uv_poll_t *h, int status, int events)
{
	struct metrics *m = h->data;

	(void)status;
	(void)events;
	if (connections(m) || has_descriptor()) {
		run(m);
		return;
	}
	uv_poll_stop(h);
	uv_timer_start(&m->timer, on_timer, PAUSE_MS, 0);
}

static void on_error(void *arg, const char *fmt, va_list ap)
{
	(void)arg;
	(void)fmt;
	(void)ap; /* what clients did wrong is theirs */
}

/* ---- life -------------------------------------------------------------------------------------- */

static int tcp_listen(const char *where)
{
	struct sockaddr_storage sa;
	int fd, one = 1, err;

	if (addr_parse(where, &sa))
		return -EINVAL;
	fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (!bind(fd, (struct sockaddr *)&sa,
		  sa.ss_family == AF_INET ? sizeof(struct sockaddr_in) :
					    sizeof(struct sockaddr_in6)) &&
	    !listen(fd, BACKLOG))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

static int unix_listen(const char *path)
{
	int fd = admin_listen(path), err;

	if (fd < 0 || !listen(fd, BACKLOG))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

static const char *unix_path(const char *where)
{
	return strncmp(where, "unix:", 5) ? NULL : where + 5;
}

int metrics_start(struct metrics **out, const struct metrics_conf *conf)
{
	const char *where = conf->where, *path = unix_path(where);
	const union MHD_DaemonInfo *info;
	struct metrics *m;
	int fd;

	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->conf = *conf;
	fd = path ? unix_listen(path) : tcp_listen(where);
	if (fd < 0) {
		free(m);
		return fd;
	}
	m->d = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request, m,
				MHD_OPTION_EXTERNAL_LOGGER, on_error, NULL,
				MHD_OPTION_NOTIFY_CONNECTION, on_connection, m,
				MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
				MAX_CONNECTIONS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
				(size_t)CONN_MEMORY, MHD_OPTION_CONNECTION_TIMEOUT, CONN_TIMEOUT,
				MHD_OPTION_END);
	info = m->d ? MHD_get_daemon_info(m->d, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
	if (!info || uv_poll_init(conf->loop, &m->poll, info->epoll_fd)) {
		if (m->d)
			MHD_stop_daemon(m->d); /* closes fd */
		else
			close(fd);
		free(m);
		return -EIO;
	}
	uv_timer_init(conf->loop, &m->timer);
	m->poll.data = m->timer.data = m;
	m->open_handles = 2;
	uv_poll_start(&m->poll, UV_READABLE, on_ready);
	*out = m;
	log_info("metrics: %s", where);
	return 0;
}

static void on_closed(uv_handle_t *h)
{
	struct metrics *m = h->data;

	if (!--m->open_handles)
		free(m);
}

void metrics_stop(struct metrics *m)
{
	const char *path;

	if (!m)
		return;
	path = unix_path(m->conf.where);
	if (path)
		unlink(path);
	uv_poll_stop(&m->poll);
	uv_close((uv_handle_t *)&m->poll, on_closed);
	uv_close((uv_handle_t *)&m->timer, on_closed);
	MHD_stop_daemon(m->d);
}
