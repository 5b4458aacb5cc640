/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * grpc.c - see grpc.h.
 *
 * A call is a stream of HTTP/2: a request is POST with the method's path, a body and the end of that side; an answer is
 * status 200, a body, and trailers with grpc-status. A body is messages, each with a byte (compressed?) and its
 * length in four before it. Calls that a plug-in serves or makes have one message in each request.
 *
 * Tests: system/kubernetes.sh
 */
#include "ffr/k8s/grpc.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#define PREFIX	 5u /* bytes before a message */
#define PATH_SZ	 128u
#define TEXT_MAX 160u
#define OUT_MAX	 (1u << 20) /* bytes that wait for a peer that does not read */

struct grpc_call {
	LIST_ENTRY(grpc_call) entry;
	struct grpc *g;
	int32_t stream;
	bool is_post, asked, started, ended, waits; /* waits: the data provider has nothing now */
	char path[PATH_SZ], text[TEXT_MAX];
	int status; /* -1: none yet */
	uint8_t *in, *out;
	size_t in_len, out_len, out_at;
};

struct grpc {
	nghttp2_session *session;
	int fd;
	bool is_client;
	grpc_serve_cb serve;
	grpc_gone_cb gone;
	grpc_done_cb done;
	void *arg;
	struct grpc_call *own; /* a client's */
	LIST_HEAD(, grpc_call) calls;
	uint8_t out[16384 + 64]; /* what the socket has not taken yet */
	size_t out_len;
};

/* ---- calls ----------------------------------------------------------------------------------- */

static struct grpc_call *call_new(struct grpc *g)
{
	struct grpc_call *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->g = g;
	c->status = -1;
	LIST_INSERT_HEAD(&g->calls, c, entry);
	return c;
}

static void call_free(struct grpc_call *c)
{
	LIST_REMOVE(c, entry);
	free(c->in);
	free(c->out);
	free(c);
}

static bool append(uint8_t **buf, size_t *len, const void *more, size_t n, size_t max)
{
	uint8_t *longer;

	if (n > max || *len > max - n)
		return false;
	longer = realloc(*buf, *len + n + !(*len + n));
	if (!longer)
		return false;
	if (n)
		memcpy(longer + *len, more, n);
	*buf = longer;
	*len += n;
	return true;
}

static int put_message(struct grpc_call *c, const void *msg, size_t len)
{
	const uint8_t prefix[PREFIX] = { 0, (uint8_t)(len >> 24), (uint8_t)(len >> 16),
					 (uint8_t)(len >> 8), (uint8_t)len };

	if (len > GRPC_BODY_MAX)
		return -EMSGSIZE;
	/* what was sent makes room */
	if (c->out_at) {
		memmove(c->out, c->out + c->out_at, c->out_len - c->out_at);
		c->out_len -= c->out_at;
		c->out_at = 0;
	}
	return append(&c->out, &c->out_len, prefix, PREFIX, OUT_MAX) &&
			       append(&c->out, &c->out_len, msg, len, OUT_MAX) ?
		       0 :
		       -ENOMEM;
}

#define NV(name_, value_)                                                                          \
	{                                                                                          \
		.name = (uint8_t *)(name_), .value = (uint8_t *)(value_),                          \
		.namelen = strlen(name_), .valuelen = strlen(value_)                               \
	}

/* Trailers, or all that an answer without a message has. */
static void put_status(struct grpc_call *c, char number[4], nghttp2_nv nv[2], size_t *num)
{
	snprintf(number, 4, "%d", c->status & 0xff);
	nv[0] = (nghttp2_nv)NV("grpc-status", number);
	nv[1] = (nghttp2_nv)NV("grpc-message", c->text);
	*num = c->text[0] ? 2 : 1;
}

static ssize_t give_body(nghttp2_session *session, int32_t stream, uint8_t *buf, size_t size,
			 uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	struct grpc_call *c = source->ptr;
	size_t n = c->out_len - c->out_at;
	nghttp2_nv nv[2];
	char number[4];
	size_t num;

	(void)arg;
	n = n < size ? n : size;
	if (n)
		memcpy(buf, c->out + c->out_at, n);
	c->out_at += n;
	if (c->out_at < c->out_len)
		return (ssize_t)n;
	if (c->ended) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
		if (c->g->is_client)
			return (ssize_t)n;
		*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
		put_status(c, number, nv, &num);
		return nghttp2_submit_trailer(session, stream, nv, num) ?
			       NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE :
			       (ssize_t)n;
	}
	if (n)
		return (ssize_t)n;
	c->waits = true;
	return NGHTTP2_ERR_DEFERRED;
}

static int go_on(struct grpc_call *c)
{
	static const char *const type = "application/grpc";
	const nghttp2_nv nv[] = { NV(":status", "200"), NV("content-type", type) };
	nghttp2_data_provider body = { .source.ptr = c, .read_callback = give_body };

	if (!c->started) {
		c->started = true;
		return nghttp2_submit_response(c->g->session, c->stream, nv, 2, &body) ? -EIO : 0;
	}
	if (!c->waits)
		return 0;
	c->waits = false;
	return nghttp2_session_resume_data(c->g->session, c->stream) ? -EIO : 0;
}

int grpc_send(struct grpc_call *c, const void *msg, size_t len)
{
	int err = c->ended ? -EPIPE : put_message(c, msg, len);

	return err ? err : go_on(c);
}

void grpc_end(struct grpc_call *c, enum grpc_status status, const char *text)
{
	nghttp2_nv nv[4] = { NV(":status", "200"), NV("content-type", "application/grpc") };
	char number[4];
	size_t num;

	if (c->ended)
		return;
	c->ended = true;
	c->status = (int)status;
	snprintf(c->text, sizeof(c->text), "%s", text ? text : "");
	if (c->started) {
		go_on(c);
		return;
	}
	c->started = true;
	put_status(c, number, nv + 2, &num);
	nghttp2_submit_response(c->g->session, c->stream, nv, num + 2, NULL);
}

/* ---- frames ---------------------------------------------------------------------------------- */

static int on_begin(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct grpc *g = arg;
	struct grpc_call *c;

	if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	c = call_new(g);
	if (!c)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	c->stream = frame->hd.stream_id;
	nghttp2_session_set_stream_user_data(session, c->stream, c);
	return 0;
}

static bool is(const uint8_t *name, size_t len, const char *word)
{
	return len == strlen(word) && !memcmp(name, word, len);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_len, const uint8_t *value, size_t len, uint8_t flags, void *arg)
{
	struct grpc_call *c = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

	(void)flags;
	(void)arg;
	if (!c)
		return 0;
	if (is(name, name_len, ":path") && len < sizeof(c->path))
		snprintf(c->path, sizeof(c->path), "%.*s", (int)len, (const char *)value);
	else if (is(name, name_len, ":method"))
		c->is_post = is(value, len, "POST");
	else if (is(name, name_len, "grpc-status") && len > 0 && len < 4)
		c->status = atoi((const char *)value); /* nghttp2 has a 0 behind it */
	else if (is(name, name_len, "grpc-message"))
		snprintf(c->text, sizeof(c->text), "%.*s", (int)len, (const char *)value);
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data,
		   size_t len, void *arg)
{
	struct grpc_call *c = nghttp2_session_get_stream_user_data(session, stream);

	(void)flags;
	(void)arg;
	if (!c || c->asked || c->ended)
		return 0;
	if (append(&c->in, &c->in_len, data, len, GRPC_BODY_MAX + PREFIX))
		return 0;
	if (c->g->is_client)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	grpc_end(c, GRPC_RESOURCE_EXHAUSTED, "the request is too long");
	return 0;
}

/* A whole request has come: one message, which is not compressed. */
static void serve(struct grpc_call *c)
{
	struct grpc *g = c->g;
	const uint8_t *in = c->in;
	size_t len;

	c->asked = true;
	if (!c->is_post || c->ended) {
		grpc_end(c, GRPC_UNIMPLEMENTED, "no gRPC request");
		return;
	}
	if (c->in_len >= PREFIX && in[0]) {
		grpc_end(c, GRPC_UNIMPLEMENTED, "compression is not supported");
		return;
	}
	len = c->in_len < PREFIX ? 0 :
				   (size_t)in[1] << 24 | (size_t)in[2] << 16 | (size_t)in[3] << 8 |
					   (size_t)in[4];
	if (c->in_len < PREFIX || len != c->in_len - PREFIX)
		grpc_end(c, GRPC_INTERNAL, "the request is not one message");
	else
		g->serve(g->arg, c, c->path, in + PREFIX, len);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct grpc *g = arg;
	struct grpc_call *c;

	if (g->is_client || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM) ||
	    (frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS))
		return 0;
	c = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	if (c && !c->asked)
		serve(c);
	return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t error, void *arg)
{
	struct grpc_call *c = nghttp2_session_get_stream_user_data(session, stream);
	struct grpc *g = arg;

	(void)error;
	if (!c)
		return 0;
	if (g->is_client)
		g->done(g->arg, c->status, c->text);
	else
		g->gone(g->arg, c);
	call_free(c);
	return 0;
}

/* ---- connections ----------------------------------------------------------------------------- */

static int session_make(struct grpc *g)
{
	const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, GRPC_STREAMS },
		{ NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
	};
	nghttp2_session_callbacks *cbs;
	int err = nghttp2_session_callbacks_new(&cbs);

	if (err)
		return -ENOMEM;
	nghttp2_session_callbacks_set_on_begin_headers_callback(cbs, on_begin);
	nghttp2_session_callbacks_set_on_header_callback(cbs, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cbs, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cbs, on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(cbs, on_close);
	err = g->is_client ? nghttp2_session_client_new(&g->session, cbs, g) :
			     nghttp2_session_server_new(&g->session, cbs, g);
	nghttp2_session_callbacks_del(cbs);
	return err || nghttp2_submit_settings(g->session, NGHTTP2_FLAG_NONE, settings,
					      g->is_client ? 2 : 1) ?
		       -ENOMEM :
		       0;
}

static struct grpc *grpc_new(int fd, bool is_client, void *arg)
{
	struct grpc *g = calloc(1, sizeof(*g));

	if (!g) {
		close(fd);
		return NULL;
	}
	*g = (struct grpc){ .fd = fd, .is_client = is_client, .arg = arg };
	LIST_INIT(&g->calls);
	if (!session_make(g))
		return g;
	grpc_free(g);
	return NULL;
}

struct grpc *grpc_server(int fd, grpc_serve_cb serve_cb, grpc_gone_cb gone, void *arg)
{
	struct grpc *g = grpc_new(fd, false, arg);

	if (g) {
		g->serve = serve_cb;
		g->gone = gone;
	}
	return g;
}

struct grpc *grpc_client(int fd, const char *path, const void *msg, size_t len, grpc_done_cb done,
			 void *arg)
{
	const nghttp2_nv nv[] = {
		NV(":method", "POST"), NV(":scheme", "http"),
		NV(":path", path),     NV(":authority", "localhost"),
		NV("te", "trailers"),  NV("content-type", "application/grpc"),
	};
	struct grpc *g = grpc_new(fd, true, arg);
	struct grpc_call *c = g ? call_new(g) : NULL;
	nghttp2_data_provider body = { .source.ptr = c, .read_callback = give_body };

	if (g)
		g->done = done;
	if (c && !put_message(c, msg, len)) {
		c->ended = true; /* our side has */
		c->stream = nghttp2_submit_request(g->session, NULL, nv, sizeof(nv) / sizeof(nv[0]),
						   &body, c);
		if (c->stream > 0)
			return g;
	}
	grpc_free(g);
	return NULL;
}

void grpc_free(struct grpc *g)
{
	struct grpc_call *c;

	if (!g)
		return;
	while ((c = LIST_FIRST(&g->calls))) {
		if (g->gone)
			g->gone(g->arg, c);
		call_free(c);
	}
	nghttp2_session_del(g->session);
	close(g->fd);
	free(g);
}

int grpc_fd(const struct grpc *g)
{
	return g->fd;
}

bool grpc_wants_write(const struct grpc *g)
{
	return g->out_len || nghttp2_session_want_write(g->session);
}

/* 0: all is written, or the socket is full. */
static int write_all(struct grpc *g)
{
	const uint8_t *data;
	ssize_t n, sent;

	for (;;) {
		if (g->out_len) {
			sent = send(g->fd, g->out, g->out_len, MSG_NOSIGNAL | MSG_DONTWAIT);
			if (sent < 0)
				return errno == EAGAIN || errno == EINTR ? 0 : -errno;
			g->out_len -= (size_t)sent;
			memmove(g->out, g->out + sent, g->out_len);
			continue;
		}
		n = nghttp2_session_mem_send(g->session, &data);
		if (n <= 0)
			return n ? -EPROTO : 0;
		/* a frame's part, at most as long as a frame is by default, and its header */
		for (size_t at = 0; at < (size_t)n; at += (size_t)sent) {
			sent = send(g->fd, data + at, (size_t)n - at, MSG_NOSIGNAL | MSG_DONTWAIT);
			if (sent < 0 && errno != EAGAIN && errno != EINTR)
				return -errno;
			if (sent < 0 && (size_t)n - at > sizeof(g->out))
				return -ENOBUFS;
			if (sent < 0) {
				g->out_len = (size_t)n - at;
				memcpy(g->out, data + at, g->out_len);
				return 0;
			}
		}
	}
}

static int read_all(struct grpc *g)
{
	uint8_t buf[16384];
	ssize_t n;

	while ((n = recv(g->fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0)
		if (nghttp2_session_mem_recv(g->session, buf, (size_t)n) != n)
			return -EPROTO;
	return !n ? -ECONNRESET : errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

int grpc_io(struct grpc *g)
{
	int err = read_all(g), sent = write_all(g);

	if (err || sent)
		return err ? err : sent;
	return nghttp2_session_want_read(g->session) || nghttp2_session_want_write(g->session) ?
		       0 :
		       -EPROTO;
}
