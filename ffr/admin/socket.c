/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * socket.c - the administrator's socket: connections, lines, answers. Control thread.
 *
 * A Unix stream socket of mode 0600. One line is one JSON object:
 *	{"op":"container_show","name":"web"}
 *	{"ok":true,"container":{...}}
 *	{"ok":false,"error":"ENOENT","message":"no container web"}
 * A connection has one request at a time; the next is read when the answer has been taken. admin.h
 * tells where the ops are.
 *
 * A connection that follows events has no queue: it has the number of the next event that it is to
 * be sent. While its reader has not taken what was written, nothing more is written, and events go
 * on in the ring of obj/events.c. Those that leave the ring before they are sent are lost to it:
 * the next line tells their number.
 *
 * Tests: unit/admin/test_socket.c, unit/orch/test_orch.c, system/stats.sh
 */
#include "ffr/admin/admin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "ffo/base/proto.h"
#include "ffr/lib/accept.h"
#include "ffr/lib/log.h"
#include "ffr/lib/sd.h"
#include "ffr/obj/events.h"

#define ADMIN_MAX_CONNS 64u
#define ADMIN_BACKLOG	16
#define EVENTS_AT_ONCE	64u /* in one write to who follows */

struct admin {
	struct admin_conf conf;
	struct acceptor acceptor;
	LIST_HEAD(, admin_conn) conns;
	uint32_t num_conns;
	bool passed; /* the service manager has the socket, and keeps it */
	bool stopped;
	bool closed; /* freed with the last connection */
};

struct admin_conn {
	LIST_ENTRY(admin_conn) entry;
	struct admin *a;
	uv_pipe_t pipe;
	uv_write_t write;
	char *out;
	char in[ADMIN_LINE_MAX];
	size_t in_len;
	uint64_t follows; /* the number of the event that it is sent next; 0: it follows none */
	bool busy;	  /* a request is being served, or something is written */
	bool asked;	  /* an op owes an answer: the connection must stay */
	bool closed;	  /* its handle is closed */
};

static const struct {
	const char *name;
	void (*fn)(struct admin_conn *conn, json_t *msg);
	bool tries;
} ops[] = {
#define X(name, tries) { #name, admin_##name, tries },
	ADMIN_OPS(X)
#undef X
};

static void conn_next(struct admin_conn *conn);

const struct admin_conf *admin_conf(const struct admin_conn *conn)
{
	return &conn->a->conf;
}

/* ---- life ---------------------------------------------------------------------------------- */

static void admin_put(struct admin *a)
{
	if (a->closed && !a->num_conns)
		free(a);
}

static void conn_put(struct admin_conn *conn)
{
	struct admin *a = conn->a;

	if (!conn->closed || conn->asked)
		return;
	a->num_conns--;
	free(conn->out);
	free(conn);
	admin_put(a);
}

static void on_conn_closed(uv_handle_t *h)
{
	struct admin_conn *conn = h->data;

	conn->closed = true;
	conn_put(conn);
}

static void conn_close(struct admin_conn *conn)
{
	if (uv_is_closing((uv_handle_t *)&conn->pipe))
		return;
	LIST_REMOVE(conn, entry);
	uv_close((uv_handle_t *)&conn->pipe, on_conn_closed);
	if (!conn->a->stopped)
		acceptor_refill(&conn->a->acceptor);
}

/* ---- answers ------------------------------------------------------------------------------- */

static void on_written(uv_write_t *w, int status)
{
	struct admin_conn *conn = w->data;

	free(conn->out);
	conn->out = NULL;
	conn->busy = false;
	if (status)
		conn_close(conn);
	else
		conn_next(conn);
}

/*
 * Takes the text, which is not to end with a newline, and sends it with one. NULL: there is no
 * memory.
 */
static void line_send(struct admin_conn *conn, char *text)
{
	uv_buf_t buf;
	size_t len;

	conn->out = text;
	if (!text) {
		log_err("admin: out of memory");
		conn_close(conn);
		return;
	}
	len = strlen(text);
	text[len] = '\n'; /* in place of the NUL */
	buf = uv_buf_init(text, (unsigned)len + 1);
	conn->write.data = conn;
	if (uv_write(&conn->write, (uv_stream_t *)&conn->pipe, &buf, 1, on_written))
		conn_close(conn);
}

static void answer_send(struct admin_conn *conn, json_t *answer)
{
	conn->asked = false;
	if (uv_is_closing((uv_handle_t *)&conn->pipe)) {
		json_decref(answer);
		conn_put(conn);
		return;
	}
	line_send(conn, answer ? json_dumps(answer, JSON_COMPACT) : NULL);
	json_decref(answer);
}

void admin_reply(struct admin_conn *conn, json_t *answer)
{
	if (answer)
		json_object_set_new(answer, "ok", json_true());
	answer_send(conn, answer);
}

/* ---- who follows events -------------------------------------------------------------------- */

void admin_follow(struct admin_conn *conn, json_t *answer, uint64_t from)
{
	conn->follows = from;
	admin_reply(conn, answer);
}

static bool line_add(FILE *out, json_t *j)
{
	int err = j ? json_dumpf(j, out, JSON_COMPACT) : -1;

	json_decref(j);
	return !err && fputc('\n', out) != EOF;
}

/* What has happened since, a part of it; nothing while it has not read the part before. */
static void follow_send(struct admin_conn *conn)
{
	uint64_t oldest = event_oldest(), until;
	char *text = NULL;
	size_t size = 0;
	FILE *out;
	bool ok;

	if (conn->busy || conn->follows == event_next())
		return;
	conn->busy = true;
	out = open_memstream(&text, &size);
	ok = out;
	if (ok && conn->follows < oldest) {
		ok = line_add(out,
			      json_pack("{s:I}", "lost", (json_int_t)(oldest - conn->follows)));
		conn->follows = oldest;
	}
	until = conn->follows + EVENTS_AT_ONCE;
	for (; ok && conn->follows < until && conn->follows < event_next(); conn->follows++)
		ok = line_add(out, event_json(event_get(conn->follows)));
	if (out && fclose(out))
		ok = false;
	if (ok)
		text[size - 1] = '\0'; /* line_send() adds the last newline */
	else
		free(text);
	line_send(conn, ok ? text : NULL);
}

static void on_event(void *arg)
{
	struct admin *a = arg;
	struct admin_conn *conn, *next;

	for (conn = LIST_FIRST(&a->conns); conn; conn = next) {
		next = LIST_NEXT(conn, entry);
		if (conn->follows)
			follow_send(conn);
	}
}

/* ---- errors -------------------------------------------------------------------------------- */

void admin_error(struct admin_conn *conn, int err, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (char *p = text; *p; p++) /* one line, and UTF-8 even where a name was cut off */
		if (*p < ' ' || *p > '~')
			*p = '?';
	answer_send(conn, json_pack("{s:b, s:s, s:s}", "ok", 0, "error", ffo_error_name(err),
				    "message", text));
}

/* ---- requests ------------------------------------------------------------------------------ */

static void serve_line(struct admin_conn *conn, const char *line, size_t len)
{
	json_t *msg = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
	const char *op = json_string_value(json_object_get(msg, "op"));

	conn->busy = conn->asked = true;
	if (!op) {
		admin_error(conn, -EINVAL, "not a request: a JSON object with \"op\" is expected");
		json_decref(msg);
		return;
	}
	for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (strcmp(op, ops[i].name))
			continue;
		if (admin_is_dry_run(msg) && !ops[i].tries)
			admin_error(conn, -EINVAL, "%s cannot be tried", op);
		else
			ops[i].fn(conn, msg);
		json_decref(msg);
		return;
	}
	if (!admin_forward(conn, op, msg))
		admin_error(conn, -EOPNOTSUPP, "unknown op");
	json_decref(msg);
}

/* Serve the next whole line, if there is one. */
static void conn_next(struct admin_conn *conn)
{
	char line[ADMIN_LINE_MAX];
	char *end = memchr(conn->in, '\n', conn->in_len);
	size_t len;

	if (conn->follows) {
		conn->in_len = 0;
		follow_send(conn);
		return;
	}
	if (conn->busy || !end)
		return;
	len = (size_t)(end - conn->in);
	memcpy(line, conn->in, len);
	conn->in_len -= len + 1;
	memmove(conn->in, end + 1, conn->in_len);
	serve_line(conn, line, len);
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
	struct admin_conn *conn = h->data;

	(void)suggested;
	*buf = uv_buf_init(conn->in + conn->in_len, (unsigned)(sizeof(conn->in) - conn->in_len));
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
	struct admin_conn *conn = s->data;

	(void)buf;
	if (n < 0) { /* also ENOBUFS: a line without an end, or too much during a request */
		conn_close(conn);
		return;
	}
	conn->in_len += (size_t)n;
	conn_next(conn);
}

static void on_connection(void *arg, int fd)
{
	struct admin *a = arg;
	struct admin_conn *conn = calloc(1, sizeof(*conn));

	if (!conn) {
		close(fd);
		return;
	}
	conn->a = a;
	uv_pipe_init(a->conf.ctl->loop, &conn->pipe, 0);
	conn->pipe.data = conn;
	a->num_conns++;
	LIST_INSERT_HEAD(&a->conns, conn, entry);
	if (uv_pipe_open(&conn->pipe, fd)) {
		close(fd);
		conn_close(conn);
	} else if (a->num_conns > ADMIN_MAX_CONNS ||
		   uv_read_start((uv_stream_t *)&conn->pipe, on_alloc, on_read)) {
		conn_close(conn);
	}
}

/* A path as long as the caller likes, through its directory's descriptor; mode 0600 from birth. */
int admin_listen(const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	const char *base = strrchr(path, '/') + 1;
	char dir[4096];
	int dir_fd, fd, err = 0;
	mode_t old;

	snprintf(dir, sizeof(dir), "%.*s", (int)(base - path), path);
	dir_fd = open(dir, O_DIRECTORY | O_CLOEXEC | O_RDONLY);
	if (dir_fd < 0)
		return -errno;
	if (snprintf(sa.sun_path, sizeof(sa.sun_path), "/proc/self/fd/%d/%s", dir_fd, base) >=
	    (int)sizeof(sa.sun_path)) {
		close(dir_fd);
		return -ENAMETOOLONG;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		err = -errno;
	} else {
		unlinkat(dir_fd, base, 0);
		old = umask(0177);
		if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)))
			err = -errno;
		umask(old);
	}
	close(dir_fd);
	if (err && fd >= 0)
		close(fd);
	return err ? err : fd;
}

static void on_listener_closed(void *arg)
{
	struct admin *a = arg;

	a->closed = true;
	admin_put(a);
}

int admin_start(struct admin **out, const struct admin_conf *conf)
{
	struct admin *a = calloc(1, sizeof(*a));
	int fd, err;

	if (!a)
		return -ENOMEM;
	a->conf = *conf;
	fd = sd_listener("admin");
	a->passed = fd >= 0;
	if (fd == -ENOENT)
		fd = admin_listen(conf->socket);
	a->acceptor = (struct acceptor){ .name = "admin socket",
					 .came = on_connection,
					 .closed = on_listener_closed,
					 .arg = a,
					 .keeps_spares = true };
	err = fd < 0 ? fd : acceptor_start(&a->acceptor, conf->ctl->loop, fd, ADMIN_BACKLOG);
	if (err) {
		free(a);
		return err;
	}
	event_listen(on_event, a);
	*out = a;
	return 0;
}

void admin_stop(struct admin *a)
{
	if (!a)
		return;
	if (!a->passed)
		unlink(a->conf.socket);
	a->stopped = true;
	event_listen(NULL, NULL);
	while (!LIST_EMPTY(&a->conns))
		conn_close(LIST_FIRST(&a->conns));
	acceptor_close(&a->acceptor);
}
