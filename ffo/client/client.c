/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * client.c - see client.h. One loop's thread.
 *
 * The orchestrator is trusted no more than needed: a line that is too long, no JSON object, no event
 * or the answer to nothing ends the connection.
 */
#include "ffo/client/client.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "ffo/base/address.h"
#include "ffo/tls/stream.h"

struct call {
	json_int_t id;
	ffo_reply_cb cb;
	void *arg;
	UT_hash_handle hh;
};

struct ffo_client {
	union {
		uv_handle_t handle;
		uv_stream_t stream;
		uv_pipe_t pipe;
		uv_tcp_t tcp;
	};
	uv_connect_t connecting;
	ffo_closed_cb closed;
	ffo_event_cb event;
	void *arg;
	json_int_t last_id;
	struct call *calls;
	bool ended; /* uv_close() was called */
	bool is_tcp;
	struct tls_stream *tls; /* NULL: without */
	size_t in_len;
	size_t in_seen; /* of these bytes the first ones hold no newline */
	char in[FFO_LINE_MAX];
};

struct output {
	uv_write_t write;
	struct ffo_client *client;
	char *text;
};

static void handle_closed(uv_handle_t *h)
{
	struct ffo_client *c = h->data;

	tls_stream_free(c->tls);
	free(c);
}

/* End the connection and all calls; c lives until the loop has closed its handle. */
static void end(struct ffo_client *c, int err, const char *why)
{
	struct call *call, *next;

	if (c->ended)
		return;
	c->ended = true;
	uv_close(&c->handle, handle_closed);
	HASH_ITER(hh, c->calls, call, next) {
		HASH_DEL(c->calls, call);
		call->cb(call->arg, err, why, NULL);
		free(call);
	}
}

/* The connection ended without the caller's doing. */
static void lost(struct ffo_client *c, int err)
{
	if (c->ended)
		return;
	end(c, -ECONNRESET, "the connection to the orchestrator ended");
	if (c->closed) /* a callback may have called ffo_client_close() */
		c->closed(c->arg, err);
}

void ffo_client_on_event(struct ffo_client *c, ffo_event_cb event)
{
	c->event = event;
}

const char *ffo_client_why(const struct ffo_client *c)
{
	return c->tls ? tls_stream_why(c->tls) : "";
}

bool ffo_client_is_revoked(const struct ffo_client *c)
{
	return c->tls && tls_stream_is_revoked(c->tls);
}

void ffo_client_close(struct ffo_client *c)
{
	if (!c)
		return;
	c->closed = NULL;
	c->event = NULL;
	end(c, -ECANCELED, "the connection to the orchestrator was closed");
}

/* ---- input ---------------------------------------------------------------------------------- */

static int handle_answer(struct ffo_client *c, json_t *msg)
{
	json_int_t id = json_integer_value(json_object_get(msg, "id"));
	const char *error = json_string_value(json_object_get(msg, "error"));
	const char *why = json_string_value(json_object_get(msg, "message"));
	json_t *ok = json_object_get(msg, "ok");
	struct call *call;

	HASH_FIND(hh, c->calls, &id, sizeof(id), call);
	if (!call || !json_is_boolean(ok) || (json_is_false(ok) && (!error || !why)))
		return -EPROTO;
	HASH_DEL(c->calls, call);
	if (json_is_true(ok))
		call->cb(call->arg, 0, "", msg);
	else
		call->cb(call->arg, ffo_error_number(error), why, NULL);
	free(call);
	return 0;
}

static int handle_event(struct ffo_client *c, json_t *msg)
{
	const char *event = json_string_value(json_object_get(msg, "event"));

	if (!event)
		return -EPROTO;
	if (c->event)
		c->event(c->arg, event, msg);
	return 0;
}

static int handle_line(struct ffo_client *c, const char *line, size_t len)
{
	json_t *msg = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
	int err = -EPROTO;

	if (json_is_object(msg))
		err = json_object_get(msg, "event") ? handle_event(c, msg) : handle_answer(c, msg);
	json_decref(msg);
	return err;
}

/* Handle the complete lines in the buffer. */
static void handle_input(struct ffo_client *c)
{
	size_t start = 0;
	char *nl;

	while (!c->ended && (nl = memchr(c->in + c->in_seen, '\n', c->in_len - c->in_seen))) {
		if (handle_line(c, c->in + start, (size_t)(nl - c->in) - start)) {
			lost(c, -EPROTO);
			return;
		}
		start = c->in_seen = (size_t)(nl + 1 - c->in);
	}
	if (c->ended)
		return;
	memmove(c->in, c->in + start, c->in_len - start);
	c->in_len -= start;
	c->in_seen = c->in_len;
	if (c->in_len == sizeof(c->in))
		lost(c, -EPROTO);
}

static void tls_flush(struct ffo_client *c);

/* Handle what there is of decrypted input, and send what TLS answers. */
static void take_plain(struct ffo_client *c)
{
	ssize_t n = -EAGAIN;

	while (!c->ended) {
		n = tls_stream_read(c->tls, c->in + c->in_len, sizeof(c->in) - c->in_len);
		if (n <= 0)
			break;
		c->in_len += (size_t)n;
		handle_input(c);
	}
	if (!c->ended)
		tls_flush(c); /* also what it is refused with */
	if (n != -EAGAIN)
		lost(c, n ? (int)n : -ECONNRESET);
}

static void alloc_input(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
	struct ffo_client *c = h->data;
	char *space = c->in + c->in_len;
	size_t size = sizeof(c->in) - c->in_len;

	(void)suggested;
	if (c->tls)
		space = tls_stream_space(c->tls, &size);
	*buf = uv_buf_init(space, (unsigned int)size);
}

static void read_done(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
	struct ffo_client *c = s->data;

	(void)buf;
	if (n < 0) {
		lost(c, n == UV_EOF ? -ECONNRESET : (int)n);
	} else if (!c->tls) {
		c->in_len += (size_t)n;
		handle_input(c);
	} else if (tls_stream_received(c->tls, (size_t)n)) {
		lost(c, -ENOMEM);
	} else {
		take_plain(c);
	}
}

/* ---- connections ---------------------------------------------------------------------------- */

static struct ffo_client *client_new(uv_loop_t *loop, bool is_tcp, ffo_closed_cb closed, void *arg)
{
	struct ffo_client *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->closed = closed;
	c->arg = arg;
	c->is_tcp = is_tcp;
	if (is_tcp)
		uv_tcp_init(loop, &c->tcp);
	else
		uv_pipe_init(loop, &c->pipe, 0);
	c->handle.data = c;
	return c;
}

int ffo_client_open(uv_loop_t *loop, int fd, ffo_closed_cb closed, void *arg,
		    struct ffo_client **out)
{
	struct ffo_client *c = client_new(loop, false, closed, arg);
	int err = c ? uv_pipe_open(&c->pipe, fd) : -ENOMEM;

	if (err)
		close(fd);
	else
		err = uv_read_start(&c->stream, alloc_input, read_done);
	if (err) {
		ffo_client_close(c);
		return err;
	}
	*out = c;
	return 0;
}

static void begin(struct ffo_client *c, int err)
{
	if (!err)
		err = uv_read_start(&c->stream, alloc_input, read_done);
	if (err)
		lost(c, err);
	else if (c->tls)
		take_plain(c); /* begins the handshake */
}

static void connected(uv_connect_t *req, int status)
{
	struct ffo_client *c = req->data;

	if (!c->ended)
		begin(c, status);
}

/*
 * Instead of uv_tcp_connect(): the router's sandbox tells an IP address from a Unix socket's by this length. What is
 * written waits for the connection, and read_done() tells of one that fails.
 */
static int tcp_connect(struct ffo_client *c, const struct sockaddr_storage *sa)
{
	int fd = socket(sa->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), err = 0;

	if (fd < 0)
		return -errno;
	ffo_tcp_options(fd);
	if (connect(fd, (const struct sockaddr *)sa, sizeof(*sa)) && errno != EINPROGRESS)
		err = -errno;
	if (!err)
		err = uv_tcp_open(&c->tcp, fd);
	if (err)
		close(fd);
	else
		begin(c, 0);
	return c->ended ? -ECONNRESET : err;
}

int ffo_client_connect(uv_loop_t *loop, const char *address, struct tls *tls, ffo_closed_cb closed,
		       void *arg, struct ffo_client **out)
{
	bool is_tls = ffo_address_is_tls(address);
	struct sockaddr_storage sa;
	struct ffo_client *c;
	int err;

	err = is_tls && !tls ? -EINVAL : ffo_address_parse(address, &sa);
	if (err)
		return err;
	c = client_new(loop, sa.ss_family != AF_UNIX, NULL, arg);
	if (!c)
		return -ENOMEM;
	c->connecting.data = c;
	if (is_tls)
		c->tls = tls_stream_create(tls, &sa);
	if (is_tls && !c->tls)
		err = -ENOMEM;
	else if (c->is_tcp)
		err = tcp_connect(c, &sa);
	else
		uv_pipe_connect(&c->connecting, &c->pipe, ((struct sockaddr_un *)&sa)->sun_path,
				connected);
	if (err) {
		ffo_client_close(c);
		return err;
	}
	c->closed = closed; /* not called before this returns */
	*out = c;
	return 0;
}

/* ---- calls ---------------------------------------------------------------------------------- */

static void write_done(uv_write_t *w, int status)
{
	struct output *o = (struct output *)w;
	struct ffo_client *c = o->client;

	free(o->text);
	free(o);
	if (status)
		lost(c, status);
}

/* Takes `text`; `end`, a static text, comes after it. */
static int write_out(struct ffo_client *c, char *text, size_t len, const char *end)
{
	struct output *o = malloc(sizeof(*o));
	uv_buf_t buf[2];
	int err = -ENOMEM;

	if (o) {
		o->client = c;
		o->text = text;
		buf[0] = uv_buf_init(text, (unsigned int)len);
		buf[1] = uv_buf_init((char *)end, (unsigned int)strlen(end));
		/* It fails when the peer was not to be reached: connected() will tell. */
		err = uv_write(&o->write, &c->stream, buf, *end ? 2 : 1, write_done) ? -ENOTCONN :
										       0;
	}
	if (err) {
		free(text);
		free(o);
	}
	return err;
}

static int tls_send(struct ffo_client *c)
{
	char *bytes;
	size_t len;
	int err = tls_stream_take(c->tls, &bytes, &len);

	return err || !bytes ? err : write_out(c, bytes, len, "");
}

/* Send what TLS has to send. */
static void tls_flush(struct ffo_client *c)
{
	int err = tls_send(c);

	if (err)
		lost(c, err);
}

/* Takes `text`. With TLS, a record that was made and not sent ends the connection: at the server. */
static int send_text(struct ffo_client *c, char *text)
{
	int err;

	if (!c->tls)
		return write_out(c, text, strlen(text), "\n");
	err = tls_stream_write(c->tls, text, strlen(text));
	if (!err)
		err = tls_stream_write(c->tls, "\n", 1);
	if (!err)
		err = tls_send(c);
	free(text);
	return err;
}

/* {fields..., op, id} as text. */
static int make_text(enum ffo_op op, json_int_t id, json_t *fields, char **text)
{
	json_t *msg = fields ? fields : json_object();
	int err = 0;

	if (!json_is_object(msg))
		err = -EINVAL;
	else if (json_object_set_new(msg, "op", json_string(ffo_op_name[op])) ||
		 json_object_set_new(msg, "id", json_integer(id)))
		err = -ENOMEM;
	*text = err ? NULL : json_dumps(msg, JSON_COMPACT);
	json_decref(msg);
	if (err)
		return err;
	if (!*text)
		return -ENOMEM;
	if (strlen(*text) < FFO_LINE_MAX)
		return 0;
	free(*text);
	return -EMSGSIZE;
}

int ffo_client_call(struct ffo_client *c, enum ffo_op op, json_t *fields, ffo_reply_cb cb,
		    void *arg)
{
	struct call *call;
	char *text;
	int err;

	if (c->ended || HASH_COUNT(c->calls) >= FFO_CLIENT_CALLS) {
		json_decref(fields);
		return c->ended ? -ENOTCONN : -ENOBUFS;
	}
	err = make_text(op, c->last_id + 1, fields, &text);
	if (err)
		return err;
	call = malloc(sizeof(*call));
	if (call) {
		call->id = c->last_id + 1;
		call->cb = cb;
		call->arg = arg;
		HASH_ADD(hh, c->calls, id, sizeof(call->id), call);
	}
	if (!call || !call->hh.tbl) {
		free(text);
		free(call);
		return -ENOMEM;
	}
	err = send_text(c, text);
	if (err) {
		HASH_DELETE(hh, c->calls, call);
		free(call);
		return err;
	}
	c->last_id++;
	return 0;
}
