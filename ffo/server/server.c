/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * server.c - the orchestrator's listeners and connections: bytes to lines, which request.c handles,
 * and answers and events to bytes. The orchestrator's loop only.
 *
 * What a client can make this process hold is bounded: FFO_LINE_MAX bytes of input, about twice
 * that of output, REQUESTS requests under way and FFO_SUBS_MAX subscriptions. A connection with more
 * output waiting than OUT_HIGH is neither read nor handled, and told no events, until the client has
 * read what there is; one that reads nothing for write_timeout is dropped. Events are made when they
 * can be sent (sub.c), so what waits to be told is one mark for each subscription.
 *
 * With TLS there is a tls/stream.c between bytes and lines. Before its handshake is done a client is a
 * stranger: it has handshake_timeout for that, is no client that max_clients counts, and where there
 * are too many strangers the oldest one goes, so that they keep none out who is let in.
 */
#include "ffo/server/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "ffo/base/address.h"
#include "ffo/tls/tls.h"
#include "ffr/lib/accept.h"

#define IN_FIRST  4096u	       /* bytes of input buffer to begin with */
#define OUT_HIGH  FFO_LINE_MAX /* bytes of waiting output that stop the reading */
#define BACKLOG	  128
#define TIMEOUT	  10000u /* ms */
#define HANDSHAKE 3000u	 /* ms */
#define CLIENTS	  1024u
#define STRANGERS 128u /* connections in TLS's handshake */
#define REQUESTS  256u /* of one connection, under way */

struct listener {
	LIST_ENTRY(listener) entry;
	struct ffo *ffo;
	struct acceptor acceptor;
	bool is_tcp, is_tls;
	char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)]; /* to unlink; "": none */
};

struct output {
	uv_write_t write;
	struct conn *conn;
	char *text;
};

/* ---- life of a connection ------------------------------------------------------------------- */

static void ffo_put(struct ffo *f)
{
	if (--f->refs)
		return;
	alloc_free(f->alloc);
	tls_free(f->tls);
	free(f->rules);
	free(f->tenants);
	free(f->copy.data);
	free(f);
}

void conn_get(struct conn *c)
{
	c->refs++;
}

void conn_put(struct conn *c)
{
	if (--c->refs)
		return;
	ffo_put(c->ffo);
	tls_stream_free(c->tls);
	free(c->in);
	free(c);
}

static void handle_closed(uv_handle_t *h)
{
	conn_put(h->data);
}

void conn_close(struct conn *c, const char *why)
{
	if (c->closing)
		return;
	c->closing = true;
	if (why)
		log_client(&c->ffo->log_limit, LOG_LEVEL_WARN, "client %lu%s%s: closed: %s",
			   c->number, *c->host ? ", host " : "", c->host, why);
	LIST_REMOVE(c, entry);
	c->ffo->num_conns--;
	if (c->handshake)
		c->ffo->num_handshakes--;
	if (c->kicked)
		LIST_REMOVE(c, kick_entry);
	uv_close(&c->handle, handle_closed);
	uv_close((uv_handle_t *)&c->timer, handle_closed);
	subs_stop(c);
	owned_stop(c);
	host_gone(c);
}

/* ---- what is done from the loop -------------------------------------------------------------- */

static void handle_input(struct conn *c);
static void take_plain(struct conn *c);
static void alloc_input(uv_handle_t *h, size_t suggested, uv_buf_t *buf);
static void read_done(uv_stream_t *s, ssize_t n, const uv_buf_t *buf);

bool conn_has_room(const struct conn *c)
{
	return uv_stream_get_write_queue_size(&c->stream) <= OUT_HIGH;
}

static bool is_full(const struct conn *c)
{
	return !conn_has_room(c) || c->busy >= REQUESTS;
}

static void resume(struct conn *c)
{
	if (!c->paused || is_full(c))
		return;
	c->paused = false;
	handle_input(c);
	if (c->tls)
		take_plain(c);
	if (!c->paused && !c->closing && !c->leaving)
		uv_read_start(&c->stream, alloc_input, read_done);
}

static void pump(uv_idle_t *idle)
{
	struct ffo *f = idle->data;
	LIST_HEAD(, conn) todo = LIST_HEAD_INITIALIZER(todo);
	struct conn *c;

	/* Who is kicked from now on has a turn of the loop between. */
	while ((c = LIST_FIRST(&f->kicked))) {
		LIST_REMOVE(c, kick_entry);
		LIST_INSERT_HEAD(&todo, c, kick_entry);
	}
	while ((c = LIST_FIRST(&todo))) {
		LIST_REMOVE(c, kick_entry);
		c->kicked = false;
		conn_get(c);
		if (c->access_changed) {
			c->access_changed = false;
			subs_access(c);
		}
		subs_tell(c);
		if (!c->closing)
			resume(c);
		conn_put(c);
	}
	if (LIST_EMPTY(&f->kicked))
		uv_idle_stop(idle);
}

void conn_kick(struct conn *c)
{
	if (c->kicked || c->closing)
		return;
	c->kicked = true;
	if (LIST_EMPTY(&c->ffo->kicked))
		uv_idle_start(&c->ffo->pump, pump);
	LIST_INSERT_HEAD(&c->ffo->kicked, c, kick_entry);
}

/* ---- output --------------------------------------------------------------------------------- */

/* Of a stranger there is no more to tell than where it is. */
static void log_stranger(struct conn *c, const char *why)
{
	struct sockaddr_storage sa = { 0 };
	int len = sizeof(sa);
	char at[64] = "?";

	if (!uv_tcp_getpeername(&c->tcp, (struct sockaddr *)&sa, &len))
		uv_ip_name((struct sockaddr *)&sa, at, sizeof(at));
	log_client(&c->ffo->log_limit, LOG_LEVEL_WARN, "client %lu at %s: refused: %s", c->number,
		   at, why);
}

static void timed_out(uv_timer_t *t)
{
	struct conn *c = t->data;
	bool stranger = c->handshake && !c->leaving;

	if (stranger)
		log_stranger(c, "TLS: the handshake takes too long");
	conn_close(c, c->leaving || stranger ? NULL : "it does not read its answers");
}

static void write_done(uv_write_t *w, int status)
{
	struct output *o = (struct output *)w;
	struct conn *c = o->conn;
	size_t waiting;

	free(o->text);
	free(o);
	if (c->closing)
		return;
	if (status) {
		conn_close(c, uv_strerror(status));
		return;
	}
	if (c->handshake)
		return;
	waiting = uv_stream_get_write_queue_size(&c->stream);
	if (waiting)
		uv_timer_start(&c->timer, timed_out, c->ffo->write_timeout, 0);
	else
		uv_timer_stop(&c->timer);
	if (c->leaving && !waiting)
		conn_close(c, NULL);
	else if (waiting <= OUT_HIGH)
		conn_kick(c);
}

/* Takes `text`; `end`, a static text, comes after it. */
static void write_out(struct conn *c, char *text, size_t len, const char *end)
{
	struct output *o = calloc(1, sizeof(*o));
	uv_buf_t buf[2];

	if (!o) {
		free(text);
		conn_close(c, "out of memory");
		return;
	}
	o->conn = c;
	o->text = text;
	buf[0] = uv_buf_init(text, (unsigned int)len);
	buf[1] = uv_buf_init((char *)end, (unsigned int)strlen(end));
	if (uv_write(&o->write, &c->stream, buf, *end ? 2 : 1, write_done)) {
		free(o->text);
		free(o);
		conn_close(c, "cannot be written to");
		return;
	}
	/* Limit the time only if bytes are left: libuv calls write_done() late if this process gets no CPU. */
	if (uv_stream_get_write_queue_size(&c->stream) && !uv_is_active((uv_handle_t *)&c->timer))
		uv_timer_start(&c->timer, timed_out, c->ffo->write_timeout, 0);
}

/* Send what TLS has to send. */
static void tls_flush(struct conn *c)
{
	char *bytes;
	size_t len;

	if (tls_stream_take(c->tls, &bytes, &len))
		conn_close(c, "out of memory");
	else if (bytes)
		write_out(c, bytes, len, "");
}

void conn_send(struct conn *c, json_t *msg)
{
	char *text;
	int err;

	if (c->closing)
		return;
	text = msg ? json_dumps(msg, JSON_COMPACT) : NULL;
	if (!text) {
		conn_close(c, "out of memory");
		return;
	}
	if (!c->tls) {
		write_out(c, text, strlen(text), "\n");
		return;
	}
	err = tls_stream_write(c->tls, text, strlen(text));
	if (!err)
		err = tls_stream_write(c->tls, "\n", 1);
	free(text);
	if (err)
		conn_close(c, strerror(-err));
	else
		tls_flush(c);
}

/* The peer does not speak the protocol: one last answer, then the end. */
static void refuse(struct conn *c, int err, const char *why)
{
	json_t *answer = request_error(0, err, why);

	log_client(&c->ffo->log_limit, LOG_LEVEL_WARN, "client %lu%s%s: closed: %s", c->number,
		   *c->host ? ", host " : "", c->host, why);
	c->leaving = true;
	uv_read_stop(&c->stream);
	conn_send(c, answer);
	json_decref(answer);
}

/* One that is one too many is refused. */
static int check_number(struct conn *c)
{
	unsigned int clients = c->ffo->num_conns - c->ffo->num_handshakes;
	char why[100];

	if (clients <= c->ffo->max_clients)
		return 0;
	snprintf(why, sizeof(why), "too many clients: %u are connected", clients - 1);
	refuse(c, -EBUSY, why);
	return -EBUSY;
}

/* ---- input ---------------------------------------------------------------------------------- */

/* Handle the complete lines in the buffer, until there is no more, or the output is full. */
static void handle_input(struct conn *c)
{
	size_t start = 0;
	char why[100];
	char *end;
	int err;

	while (!c->closing && !c->leaving && !c->paused) {
		end = memchr(c->in + c->in_seen, '\n', c->in_len - c->in_seen);
		if (!end) {
			c->in_seen = c->in_len;
			break;
		}
		err = request_line(c, c->in + start, (size_t)(end - c->in) - start, why,
				   sizeof(why));
		start = c->in_seen = (size_t)(end + 1 - c->in);
		if (c->closing)
			return;
		if (err) {
			refuse(c, err, why);
		} else if (is_full(c)) {
			c->paused = true;
			uv_read_stop(&c->stream);
		}
	}
	if (c->closing || c->leaving)
		return;
	memmove(c->in, c->in + start, c->in_len - start);
	c->in_len -= start;
	c->in_seen -= start;
	if (!c->paused && c->in_len == FFO_LINE_MAX) {
		snprintf(why, sizeof(why), "a message must be no longer than %u bytes",
			 FFO_LINE_MAX);
		refuse(c, -EMSGSIZE, why);
	}
}

/* Make room at the end of the input buffer, which grows up to FFO_LINE_MAX. */
static void make_room(struct conn *c)
{
	size_t cap = c->in_cap ? c->in_cap : IN_FIRST / 2;
	char *in;

	if (c->in_cap - c->in_len >= IN_FIRST / 4 || c->in_cap >= FFO_LINE_MAX)
		return;
	in = realloc(c->in, 2 * cap);
	if (in) {
		c->in = in;
		c->in_cap = 2 * cap;
	}
}

static void alloc_input(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
	struct conn *c = h->data;
	size_t size;
	char *space;

	(void)suggested;
	if (c->tls) {
		space = tls_stream_space(c->tls, &size);
		*buf = uv_buf_init(space, (unsigned int)size);
		return;
	}
	make_room(c);
	*buf = uv_buf_init(c->in ? c->in + c->in_len : NULL, (unsigned int)(c->in_cap - c->in_len));
}

static void read_done(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
	struct conn *c = s->data;

	(void)buf;
	if (n < 0) {
		conn_close(c, n == UV_EOF || n == UV_ECONNRESET ? NULL : uv_strerror((int)n));
		return;
	}
	if (!c->tls) {
		c->in_len += (size_t)n;
		handle_input(c);
	} else if (!c->leaving) {
		if (tls_stream_received(c->tls, (size_t)n))
			conn_close(c, "out of memory");
		else
			take_plain(c);
	}
}

/* ---- input through TLS ----------------------------------------------------------------------- */

/* It is let in. */
static void handshake_done(struct conn *c)
{
	c->handshake = false;
	c->ffo->num_handshakes--;
	uv_timer_stop(&c->timer);
	if (uv_stream_get_write_queue_size(&c->stream))
		uv_timer_start(&c->timer, timed_out, c->ffo->write_timeout, 0);
	check_number(c);
}

/*
 * A stranger is told why it is refused. To close a socket with input that was not read would lose
 * that: what it sends is dropped until it leaves, or its time is over.
 */
static void tls_end(struct conn *c)
{
	if (!c->handshake) {
		conn_close(c, tls_stream_why(c->tls));
		return;
	}
	log_stranger(c, tls_stream_why(c->tls));
	c->leaving = true;
	tls_flush(c);
}

/* Handle what there is of decrypted input, and send what TLS answers. */
static void take_plain(struct conn *c)
{
	ssize_t n = -EAGAIN;

	while (!c->closing && !c->leaving && !c->paused) {
		make_room(c);
		if (c->in_len == c->in_cap) {
			conn_close(c, "out of memory");
			return;
		}
		n = tls_stream_read(c->tls, c->in + c->in_len, c->in_cap - c->in_len);
		if (c->handshake && tls_stream_is_up(c->tls))
			handshake_done(c);
		if (n <= 0)
			break;
		c->in_len += (size_t)n;
		handle_input(c);
	}
	if (c->closing)
		return;
	if (!n)
		conn_close(c, NULL);
	else if (n < 0 && n != -EAGAIN)
		tls_end(c);
	else
		tls_flush(c);
}

/* ---- new connections ------------------------------------------------------------------------ */

/* A connection without a peer yet; conn_start() once it has one. */
static struct conn *conn_new(struct ffo *f, bool is_tcp)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->ffo = f;
	c->number = ++f->conn_seq;
	c->refs = 2; /* stream and timer */
	f->refs++;
	f->num_conns++;
	TAILQ_INIT(&c->to_tell);
	TAILQ_INIT(&c->owned_to_tell);
	LIST_INSERT_HEAD(&f->conns, c, entry);
	if (is_tcp)
		uv_tcp_init(f->loop, &c->tcp);
	else
		uv_pipe_init(f->loop, &c->pipe, 0);
	uv_timer_init(f->loop, &c->timer);
	c->handle.data = c->timer.data = c;
	return c;
}

/* Read from it, or close it. */
static int conn_start(struct conn *c)
{
	int err = check_number(c);

	if (err)
		return err;
	err = uv_read_start(&c->stream, alloc_input, read_done);
	if (err)
		conn_close(c, uv_strerror(err));
	return err;
}

static void drop_oldest_stranger(struct ffo *f)
{
	struct conn *c, *oldest = NULL;

	LIST_FOREACH(c, &f->conns, entry) /* the newest comes first */
		if (c->handshake)
			oldest = c;
	if (!oldest)
		return;
	if (!oldest->leaving)
		log_stranger(oldest, "TLS: too many handshakes are under way");
	conn_close(oldest, NULL);
}

/* As conn_start(), once it has shown who it is. */
static void conn_secure(struct conn *c)
{
	int err;

	c->tls = tls_stream_create(c->ffo->tls, NULL);
	if (!c->tls) {
		conn_close(c, "out of memory");
		return;
	}
	if (c->ffo->num_handshakes == STRANGERS)
		drop_oldest_stranger(c->ffo);
	c->handshake = true;
	c->ffo->num_handshakes++;
	uv_timer_start(&c->timer, timed_out, c->ffo->handshake_timeout, 0);
	err = uv_read_start(&c->stream, alloc_input, read_done);
	if (err)
		conn_close(c, uv_strerror(err));
}

static void connection_came(void *arg, int fd)
{
	struct listener *l = arg;
	struct conn *c = conn_new(l->ffo, l->is_tcp);
	int err;

	if (!c) {
		close(fd);
		return;
	}
	err = l->is_tcp ? uv_tcp_open(&c->tcp, fd) : uv_pipe_open(&c->pipe, fd);
	if (err) {
		close(fd);
		conn_close(c, uv_strerror(err));
		return;
	}
	if (l->is_tcp)
		ffo_tcp_options(fd);
	if (l->is_tls)
		conn_secure(c);
	else
		conn_start(c);
}

int ffo_attach(struct ffo *f, int fd)
{
	struct conn *c = conn_new(f, false);
	int err;

	if (!c) {
		close(fd);
		return -ENOMEM;
	}
	err = uv_pipe_open(&c->pipe, fd);
	if (err) {
		close(fd);
		conn_close(c, NULL);
		return err;
	}
	return conn_start(c);
}

/* ---- listeners ------------------------------------------------------------------------------ */

static void listener_closed(void *arg)
{
	struct listener *l = arg;

	if (*l->path)
		unlink(l->path);
	ffo_put(l->ffo);
	free(l);
}

/*
 * A bound Unix socket. A socket file that nobody listens on any more is replaced, any other file
 * is not. The descriptor, or -errno.
 */
static int unix_socket(const struct sockaddr_un *sa)
{
	struct stat st;
	mode_t mask;
	int fd, err = 0;

	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (!lstat(sa->sun_path, &st)) {
		if (!S_ISSOCK(st.st_mode) || !connect(fd, (struct sockaddr *)sa, sizeof(*sa)) ||
		    errno != ECONNREFUSED)
			err = -EADDRINUSE;
		else if (unlink(sa->sun_path))
			err = -errno;
	}
	if (!err) {
		mask = umask(0177);
		if (bind(fd, (struct sockaddr *)sa, sizeof(*sa)))
			err = -errno;
		umask(mask);
	}
	if (!err)
		return fd;
	close(fd);
	return err;
}

/* A bound TCP socket. The descriptor, or -errno. */
static int tcp_socket(const struct sockaddr *sa)
{
	socklen_t len = sa->sa_family == AF_INET ? sizeof(struct sockaddr_in) :
						   sizeof(struct sockaddr_in6);
	int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int one = 1, err;

	if (fd < 0)
		return -errno;
	if (!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) && !bind(fd, sa, len))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

int ffo_listen(struct ffo *f, const char *address)
{
	struct sockaddr_storage sa;
	struct listener *l;
	int fd, err;

	err = ffo_address_parse(address, &sa);
	if (err) {
		log_err("listen %s: must be unix:/path, tcp:address:port or tls:address:port",
			address);
		return err;
	}
	if (ffo_address_is_tls(address) && !f->tls) {
		log_err("listen %s: needs a certificate, its key and a CA", address);
		return -EINVAL;
	}
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->ffo = f;
	l->is_tcp = sa.ss_family != AF_UNIX;
	l->is_tls = ffo_address_is_tls(address);
	l->acceptor = (struct acceptor){
		.name = "ffo", .came = connection_came, .closed = listener_closed, .arg = l
	};
	fd = l->is_tcp ? tcp_socket((struct sockaddr *)&sa) :
			 unix_socket((struct sockaddr_un *)&sa);
	err = fd < 0 ? fd : acceptor_start(&l->acceptor, f->loop, fd, BACKLOG);
	if (err) {
		log_err("listen %s: %s", address, strerror(-err));
		if (fd >= 0 && !l->is_tcp)
			unlink(((struct sockaddr_un *)&sa)->sun_path);
		free(l);
		return err;
	}
	if (!l->is_tcp)
		strcpy(l->path, ((struct sockaddr_un *)&sa)->sun_path); /* of the same size */
	f->refs++;
	LIST_INSERT_HEAD(&f->listeners, l, entry);
	return 0;
}

/* ---- create and destroy --------------------------------------------------------------------- */

/* Where --store's text names which store: by how it begins. */
static const struct {
	const char *prefix;
	const struct ffo_store_ops *ops;
} stores[] = {
	{ "zookeeper:", &store_zk },
	{ "", &store_sqlite },
};

static const struct ffo_store_ops *store_of_text(const char **where)
{
	size_t i = 0, len;

	while ((len = strlen(stores[i].prefix)) && strncmp(*where, stores[i].prefix, len))
		i++;
	*where += len;
	return stores[i].ops;
}

/* The hosts that were up here are not: their routers come again and tell all that was lost. */
static void drop_hosts(struct ffo *f)
{
	struct conn *c, *next;

	for (c = LIST_FIRST(&f->conns); c; c = next) {
		next = LIST_NEXT(c, entry);
		if (!*c->host)
			continue;
		conn_close(c, "the store's session ended");
		next = LIST_FIRST(&f->conns); /* closing one may have closed others */
	}
}

static void store_changed(void *arg, enum store_state state)
{
	struct ffo *f = arg;

	f->ready = state == STORE_READY;
	if (state == STORE_LOST)
		drop_hosts(f);
	else if (f->ready)
		hosts_resume(f);
}

/* ---- certificates that are revoked ------------------------------------------------------------ */

/* Who is in handshake is not let in by the list before: tls_role(). */
static void end_revoked(struct ffo *f)
{
	struct conn *c, *next;

	for (c = LIST_FIRST(&f->conns); c; c = next) {
		next = LIST_NEXT(c, entry);
		if (!c->tls || c->handshake || c->list == f->list)
			continue;
		c->list = f->list;
		if (!tls_stream_is_revoked(c->tls))
			continue;
		conn_close(c, TLS_REVOKED);
		next = LIST_FIRST(&f->conns); /* closing one may have closed others */
	}
}

static void on_look(uv_timer_t *t)
{
	struct ffo *f = t->data;
	unsigned int number = tls_list_number(f->tls);

	if (number == f->list)
		return;
	f->list = number;
	end_revoked(f);
}

/* ---- handles ---------------------------------------------------------------------------------- */

static void handle_of_ffo_closed(uv_handle_t *h)
{
	ffo_put(h->data);
}

/* Once nothing can fail any more: they are closed by a loop that runs. */
static void init_handles(struct ffo *f)
{
	uv_idle_init(f->loop, &f->pump);
	uv_timer_init(f->loop, &f->wait_timer);
	uv_timer_init(f->loop, &f->look);
	uv_timer_init(f->loop, &f->copy.timer);
	f->pump.data = f->wait_timer.data = f->look.data = f->copy.timer.data = f;
	f->refs += 4;
	if (f->tls && tls_has_list(f->tls))
		uv_timer_start(&f->look, on_look, TLS_LOOK, TLS_LOOK);
}

static void close_handles(struct ffo *f)
{
	uv_close((uv_handle_t *)&f->pump, handle_of_ffo_closed);
	uv_close((uv_handle_t *)&f->wait_timer, handle_of_ffo_closed);
	uv_close((uv_handle_t *)&f->look, handle_of_ffo_closed);
	uv_close((uv_handle_t *)&f->copy.timer, handle_of_ffo_closed);
}

static int set_pools(struct ffo *f, const struct ffo_conf *conf)
{
	char why[160] = "";
	int err = alloc_create(&f->alloc);

	for (size_t i = 0; !err && i < conf->num_pools; i++)
		err = alloc_set_pool(f->alloc, AF_UNSPEC, conf->pools[i], why, sizeof(why));
	if (err)
		log_err("orchestrator: %s", *why ? why : strerror(-err));
	return err;
}

static int open_tls(struct ffo *f, const struct ffo_conf *conf)
{
	struct tls_files files = {
		.cert = conf->cert, .key = conf->key, .ca = conf->ca, .crl = conf->crl
	};
	char why[512];

	if (!conf->cert)
		return 0;
	f->tls = tls_create(&files, why, sizeof(why));
	if (f->tls)
		return 0;
	log_err("orchestrator: %s", why);
	return -EINVAL;
}

static int open_store(struct ffo *f, const struct ffo_conf *conf)
{
	const char *where = conf->store ? conf->store : ":memory:";
	const struct ffo_store_ops *ops = conf->store_ops ? conf->store_ops : store_of_text(&where);
	struct store_conf sc = {
		.where = where, .loop = f->loop, .alloc = f->alloc, .state = store_changed, .arg = f
	};

	return ops->open(&sc, &f->store);
}

int ffo_create(const struct ffo_conf *conf, uv_loop_t *loop, struct ffo **out)
{
	struct ffo *f = calloc(1, sizeof(*f));
	int err;

	if (!f)
		return -ENOMEM;
	f->loop = loop;
	f->refs = 1;
	f->max_clients = conf->max_clients ? conf->max_clients : CLIENTS;
	f->write_timeout = conf->write_timeout ? conf->write_timeout : TIMEOUT;
	f->handshake_timeout = conf->handshake_timeout ? conf->handshake_timeout : HANDSHAKE;
	f->patience = conf->patience ? conf->patience : STORE_PATIENCE;
	LIST_INIT(&f->conns);
	LIST_INIT(&f->listeners);
	LIST_INIT(&f->kicked);
	TAILQ_INIT(&f->waiting);
	LIST_INIT(&f->by_policy);
	LIST_INIT(&f->by_tenants);
	f->rules = malloc(FFO_RULES_MAX * sizeof(*f->rules));
	f->tenants = malloc(FFO_TENANTS_MAX * sizeof(*f->tenants));
	err = f->rules && f->tenants ? set_pools(f, conf) : -ENOMEM;
	if (!err)
		err = open_tls(f, conf);
	if (!err)
		err = open_store(f, conf);
	if (err) {
		ffo_put(f);
		return err;
	}
	init_handles(f);
	policy_start(f);
	tenants_start(f);
	*out = f;
	return 0;
}

/* The store is closed when nobody watches it any more; calls under way end with that. */
void ffo_look(struct ffo *f)
{
	if (f->tls)
		tls_look(f->tls);
}

void ffo_destroy(struct ffo *f)
{
	struct listener *l;
	struct conn *c;

	if (!f)
		return;
	while ((l = LIST_FIRST(&f->listeners))) {
		LIST_REMOVE(l, entry);
		acceptor_close(&l->acceptor);
	}
	while ((c = LIST_FIRST(&f->conns)))
		conn_close(c, NULL);
	policy_stop(f);
	tenants_stop(f);
	f->store->ops->close(f->store);
	f->store = NULL;
	close_handles(f);
	ffo_put(f);
}
