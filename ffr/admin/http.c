/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * http.c - GET /metrics, the status page / and its numbers /status.json, by libmicrohttpd without a thread of its own:
 * its epoll descriptor is in the control thread's loop. It bounds what a request may be, how many there are and how
 * long a connection lasts, because a client that sends or takes a byte now and then is never silent.
 *
 * The numbers of the page are made in steps, one in each turn of the loop (status.c). Connections that ask for them
 * meanwhile are suspended, and all get the same answer, which serves others for FRESH_MS.
 *
 * A browser that an operator has open must not become a reader for somebody else's pages: no other origin may fetch or
 * frame what is served here, and a name that somebody has made lead to this address (DNS rebinding) is refused.
 *
 * Tests: unit/admin/test_http.c, unit/admin/test_status.c, system/metrics.sh, web/status.sh
 */
#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffr/admin/admin.h"
#include "ffr/lib/addr.h"
#include "ffr/lib/log.h"
#include "ffr/admin/metrics.h"
#include "ffr/admin/status.h"

#define MAX_CONNECTIONS 16u
#define CONN_MEMORY	16384u	       /* bytes for a request, its headers and the answer's */
#define CONN_TIMEOUT	5u	       /* s without progress */
#define CONN_LIFE_NS	10000000000ull /* of a connection, which has one request */
#define BACKLOG		16
#define PAUSE_MS                                                                                   \
	100 /* without looking at the sockets, when there is no descriptor for a connection */
#define FRESH_MS 1000u /* for which the page's numbers are good */

struct client {
	struct MHD_Connection *c; /* NULL: a free place */
	uint64_t until;		  /* ns, uv_hrtime(): then it ends */
	bool waits;		  /* suspended, until the page's numbers are made */
};

struct metrics {
	struct metrics_conf conf;
	struct client clients[MAX_CONNECTIONS];
	struct MHD_Daemon *d;
	uv_poll_t poll;
	uv_timer_t timer;
	uv_idle_t idle;
	int open_handles;
	struct status *making;	      /* the page's numbers; NULL: they are not being made */
	struct MHD_Response *numbers; /* the last ones, or NULL */
	uint64_t made_at;	      /* ms, of the loop's clock */
};

static const char *unix_path(const char *where)
{
	return strncmp(where, "unix:", 5) ? NULL : where + 5;
}

/* ---- answers ------------------------------------------------------------------------------------ */

static enum MHD_Result answer(struct MHD_Connection *c, unsigned status, struct MHD_Response *resp)
{
	enum MHD_Result ok = resp ? MHD_queue_response(c, status, resp) : MHD_NO;

	if (resp)
		MHD_destroy_response(resp); /* the connection has a reference of its own */
	return ok;
}

static struct MHD_Response *response_new(const char *type, char *text, size_t len,
					 enum MHD_ResponseMemoryMode mode)
{
	struct MHD_Response *resp = MHD_create_response_from_buffer(len, text, mode);

	if (!resp)
		return NULL;
	MHD_add_response_header(resp, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	MHD_add_response_header(resp, MHD_HTTP_HEADER_CONNECTION, "close");
	return resp;
}

static enum MHD_Result refuse(struct MHD_Connection *c, unsigned status, const char *why)
{
	struct MHD_Response *resp = response_new("text/plain; charset=utf-8", (char *)why,
						 strlen(why), MHD_RESPMEM_PERSISTENT);

	if (resp && status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(resp, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	return answer(c, status, resp);
}

static enum MHD_Result answer_metrics(struct metrics *m, struct MHD_Connection *c)
{
	size_t len;
	char *text = metrics_text(&m->conf, &len);

	if (!text)
		return refuse(c, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory\n");
	return answer(c, MHD_HTTP_OK,
		      response_new("text/plain; version=0.0.4; charset=utf-8", text, len,
				   MHD_RESPMEM_MUST_FREE));
}

/* ---- the status page ---------------------------------------------------------------------------- */

/* Browsers show this answer to pages of the same origin only, and keep no copy of it. */
static void keep_to_origin(struct MHD_Response *resp)
{
	MHD_add_response_header(resp, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	MHD_add_response_header(resp, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(resp, "X-Frame-Options", "DENY");
	MHD_add_response_header(resp, "Referrer-Policy", "no-referrer");
	MHD_add_response_header(resp, "Cross-Origin-Resource-Policy", "same-origin");
	MHD_add_response_header(resp, "Content-Security-Policy", status_policy);
}

static enum MHD_Result answer_page(struct MHD_Connection *c)
{
	struct MHD_Response *resp = response_new("text/html; charset=utf-8", (char *)status_page,
						 strlen(status_page), MHD_RESPMEM_PERSISTENT);

	if (resp)
		keep_to_origin(resp);
	return answer(c, MHD_HTTP_OK, resp);
}

/*
 * Is the host that the client asks for an address, or localhost? Other names may be those of somebody who has made
 * them lead here, so that a browser takes his pages and these for one origin. A browser always says it.
 */
static bool is_own_name(struct MHD_Connection *c)
{
	const char *host = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
	char name[INET6_ADDRSTRLEN];
	struct in6_addr a;
	size_t len;

	if (!host)
		return true;
	len = *host == '[' ? strcspn(++host, "]") : strcspn(host, ":");
	if (len >= sizeof(name))
		return false;
	memcpy(name, host, len);
	name[len] = '\0';
	return !strcasecmp(name, "localhost") || inet_pton(AF_INET, name, &a) == 1 ||
	       inet_pton(AF_INET6, name, &a) == 1;
}

/* Each connection has one: there are as many places as libmicrohttpd takes connections. */
static struct client *client_of(struct MHD_Connection *c)
{
	return MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static void on_turn(uv_idle_t *h);

/* The numbers, now or when they are made; the state of a request that has waited for them is `waited`. */
static enum MHD_Result answer_numbers(struct metrics *m, struct MHD_Connection *c, void **req)
{
	static char waited;
	bool fresh = m->numbers && uv_now(m->conf.loop) - m->made_at < FRESH_MS;

	if (*req == &waited || fresh)
		return m->numbers ? MHD_queue_response(c, MHD_HTTP_OK, m->numbers) :
				    refuse(c, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory\n");
	if (!m->making) {
		m->making = status_begin(&m->conf);
		if (!m->making)
			return refuse(c, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory\n");
		uv_idle_start(&m->idle, on_turn);
	}
	*req = &waited;
	client_of(c)->waits = true;
	MHD_suspend_connection(c);
	return MHD_YES;
}

/* Those that have waited have all of their time again, because the router kept them waiting. */
static void resume_all(struct metrics *m)
{
	for (unsigned i = 0; i < MAX_CONNECTIONS; i++) {
		struct client *client = &m->clients[i];

		if (!client->waits)
			continue;
		client->waits = false;
		client->until = uv_hrtime() + CONN_LIFE_NS;
		MHD_resume_connection(client->c);
	}
}

static void numbers_forget(struct metrics *m)
{
	if (m->numbers)
		MHD_destroy_response(m->numbers);
	m->numbers = NULL;
}

static void numbers_made(struct metrics *m)
{
	size_t len;
	char *text = status_end(m->making, &len);

	m->making = NULL;
	m->made_at = uv_now(m->conf.loop);
	numbers_forget(m);
	if (!text)
		return;
	m->numbers = response_new("application/json", text, len, MHD_RESPMEM_MUST_FREE);
	if (m->numbers)
		keep_to_origin(m->numbers);
	else
		free(text);
}

static void run(struct metrics *m);

static void on_turn(uv_idle_t *h)
{
	struct metrics *m = h->data;

	if (status_step(m->making))
		return;
	uv_idle_stop(h);
	numbers_made(m);
	resume_all(m);
	run(m);
}

/* ---- requests ----------------------------------------------------------------------------------- */

/* Called when the headers are there, again with and after the body, if one is sent, and again after a wait. */
static enum MHD_Result on_request(void *cls, struct MHD_Connection *c, const char *url,
				  const char *method, const char *version, const char *body,
				  size_t *body_len, void **req)
{
	static char seen;
	struct metrics *m = cls;

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
	if (!strcmp(url, "/metrics"))
		return answer_metrics(m, c);
	if (strcmp(url, "/") && strcmp(url, "/status.json"))
		return refuse(c, MHD_HTTP_NOT_FOUND, "there are /, /metrics and /status.json\n");
	if (!unix_path(m->conf.where) && !is_own_name(c))
		return refuse(c, MHD_HTTP_FORBIDDEN,
			      "ask for this page by its address, or as localhost\n");
	return url[1] ? answer_numbers(m, c, req) : answer_page(c);
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
		m->clients[i] = (struct client){ .c = c, .until = uv_hrtime() + CONN_LIFE_NS };
		*context = &m->clients[i];
	}
}

/*
 * Shut down the connections whose time is over. libmicrohttpd closes them in its next run, but not those that are
 * suspended: they go on when the numbers are made, which no client can put off.
 */
static void end_the_old(struct metrics *m)
{
	uint64_t now = uv_hrtime();

	for (unsigned i = 0; i < MAX_CONNECTIONS; i++) {
		const struct client *client = &m->clients[i];

		if (client->c && !client->waits && now >= client->until)
			shutdown(MHD_get_connection_info(client->c,
							 MHD_CONNECTION_INFO_CONNECTION_FD)
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
	m->d = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0,
				NULL, NULL, on_request, m, MHD_OPTION_EXTERNAL_LOGGER, on_error,
				NULL, MHD_OPTION_NOTIFY_CONNECTION, on_connection, m,
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
	uv_idle_init(conf->loop, &m->idle);
	m->poll.data = m->timer.data = m->idle.data = m;
	m->open_handles = 3;
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
	uv_close((uv_handle_t *)&m->idle, on_closed);
	resume_all(m);
	MHD_stop_daemon(m->d);
	numbers_forget(m);
	if (m->making)
		free(status_end(m->making, &(size_t){ 0 }));
}
