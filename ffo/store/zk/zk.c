/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * zk.c - ZooKeeper's C client, its single-threaded API, inside a libuv loop: the session. call.c has
 * the requests. See zk.h. Used by zks.c. The loop's thread only.
 *
 * The client wants to be asked before each sleep what it waits for (zookeeper_interest()) and told
 * what came (zookeeper_process()). turn() asks; it runs from a prepare handle, so once in each turn
 * of the loop in which anything was done. The client opens and closes its sockets within these
 * calls, and a new one may have the old one's number: so we poll a duplicate, which libuv can let go
 * of in its own time, and tell sockets apart by their inode.
 *
 * What the client does not do well is done here:
 * - A send that fails inside a request closes the socket, and forgets neither the half-sent request
 *   nor the unanswered ones. The handle is then replaced by one that goes on with the session.
 * - After a reconnection it sets all watches in one message, which the server refuses when it is
 *   too large (jute.maxbuffer, 1 MB), for ever. Above WATCH_BYTES the handle is replaced as well,
 *   without watches, and our user told so.
 * - A request on a session that is over frees memory twice: such are refused here.
 * - All watches have the same function and context, because for session events the client searches
 *   through them quadratically.
 * - It resolves the servers' names whenever it connects, and waits for that: numbers only here.
 *
 * Tests: test_zks.c
 */
#include "ffo/store/zk/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ffr/lib/log.h"

#define WATCH_BYTES (400u << 10)
#define BURST	    64	  /* answers handled before others have their turn */
#define TELL_AFTER  3000u /* ms without a connection until an operator is told */
#define AUTH_RETRY  5000u /* ms */
#define OVER_AFTER  2u	  /* times as long as a session lives */

/* A duplicate of the client's socket. */
struct sock {
	uv_poll_t poll;
	int fd;
	ino_t ino;
};

static void turn(struct zk *z);

/* ---- the socket ----------------------------------------------------------------------------- */

static void sock_closed(uv_handle_t *h)
{
	struct sock *s = h->data;

	close(s->fd);
	free(s);
}

static void sock_drop(struct zk *z)
{
	struct sock *s = z->sock;

	if (!s)
		return;
	z->sock = NULL;
	s->poll.data = s;
	uv_close((uv_handle_t *)&s->poll, sock_closed);
}

/* Poll that socket from now on: 0 or -errno. */
static int sock_follow(struct zk *z, int fd)
{
	struct sock *s = z->sock;
	struct stat st;
	int err;

	if (fstat(fd, &st))
		return -errno;
	if (s && s->ino == st.st_ino)
		return 0;
	sock_drop(z);
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->ino = st.st_ino;
	s->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (s->fd < 0) {
		err = -errno;
		free(s);
		return err;
	}
	err = uv_poll_init(z->loop, &s->poll, s->fd);
	if (err) {
		close(s->fd);
		free(s);
		return err;
	}
	s->poll.data = z;
	z->sock = s;
	return 0;
}

/* ---- the handle ----------------------------------------------------------------------------- */

static void log_line(const char *line)
{
	log_debug("zookeeper: %s", line);
}

static void auth_done(int rc, const void *arg)
{
	(void)arg;
	/* tell_operator() tells of the connection */
	if (rc == ZAUTHFAILED)
		log_err("ZooKeeper does not accept our credentials: %s", zerror(rc));
}

/* Credentials, if there are any. */
static void show(struct zk *z, const char *credentials)
{
	const char *colon = credentials ? strchr(credentials, ':') : NULL;
	char scheme[32];

	if (!colon)
		return;
	snprintf(scheme, sizeof(scheme), "%.*s", (int)(colon - credentials), credentials);
	zoo_add_auth(z->zh, scheme, colon + 1, (int)strlen(colon + 1), auth_done, NULL);
}

static int handle_open(struct zk *z)
{
	clientid_t id = { .client_id = z->resume.id };
	memcpy(id.passwd, z->resume.passwd, sizeof(id.passwd));
	z->zh = zookeeper_init2(z->servers, zk_event, (int)z->timeout, id.client_id ? &id : NULL, z,
				ZOO_NO_LOG_CLIENTENV, log_line);
	if (!z->zh)
		return errno ? -errno : -EINVAL;
	zoo_set_servers_resolution_delay(z->zh, -1);
	z->fresh = !id.client_id;
	z->blind = !z->fresh;
	z->watch_bytes = 0;
	show(z, z->auth);
	show(z, z->own);
	return 0;
}

/* Requests under way get their callbacks in here. */
static void handle_close(struct zk *z)
{
	zhandle_t *zh = z->zh;

	sock_drop(z);
	z->zh = NULL;
	z->connected = false;
	z->depth++;
	zookeeper_close(zh);
	z->depth--;
}

static void tell_down(struct zk *z)
{
	if (!z->connected)
		return;
	z->connected = false;
	z->down_since = uv_now(z->loop);
	if (!z->closing) {
		log_warn("ZooKeeper: connection lost");
		z->ev->disconnected(z->arg);
	}
}

static void tell_up(struct zk *z)
{
	bool fresh = z->fresh, watches = !z->fresh && !z->blind;

	z->connected = true;
	z->was_up = true;
	z->fresh = z->blind = z->told = false;
	log_info("ZooKeeper: connected to %s, session 0x%llx%s", zoo_get_current_server(z->zh),
		 (long long)zoo_client_id(z->zh)->client_id, fresh ? ", a new one" : "");
	z->ev->connected(z->arg, fresh, watches);
}

/* Go on with another handle; with the same session, unless that is over. */
static void replace(struct zk *z, bool over)
{
	const clientid_t *id = zoo_client_id(z->zh);

	memset(&z->resume, 0, sizeof(z->resume));
	if (!over) {
		z->resume.id = id->client_id;
		memcpy(z->resume.passwd, id->passwd, sizeof(z->resume.passwd));
	}
	tell_down(z);
	if (z->sock) /* else a connected client would end the session */
		shutdown(z->sock->fd, SHUT_RDWR);
	handle_close(z);
	z->broken = false;
	if (over && z->was_up) {
		z->was_up = false;
		log_warn("ZooKeeper: the session has expired");
		z->ev->expired(z->arg);
	}
	z->dirty = true;
}

const char *zk_below_root(const struct zk *z, const char *path)
{
	return strncmp(path, z->root, z->root_len) ? NULL : path + z->root_len;
}

/* The client's only watcher: of the session and of all nodes. */
void zk_event(zhandle_t *zh, int type, int state, const char *path, void *arg)
{
	struct zk *z = arg;
	size_t len;

	if (zh != z->zh || z->closing)
		return;
	z->dirty = true;
	if (type == ZOO_SESSION_EVENT) {
		if (state == ZOO_CONNECTED_STATE && !z->connected)
			tell_up(z);
		else if (state != ZOO_CONNECTED_STATE)
			tell_down(z);
		return;
	}
	len = strlen(path);
	z->watch_bytes -= len < z->watch_bytes ? len : z->watch_bytes;
	path = zk_below_root(z, path);
	if (!path)
		return;
	if (type == ZOO_CREATED_EVENT)
		z->ev->changed(z->arg, path, ZK_CREATED);
	else if (type == ZOO_DELETED_EVENT)
		z->ev->changed(z->arg, path, ZK_DELETED);
	else if (type == ZOO_CHANGED_EVENT)
		z->ev->changed(z->arg, path, ZK_CHANGED);
	else if (type == ZOO_CHILD_EVENT)
		z->ev->changed(z->arg, path, ZK_CHILDREN);
}

/* ---- turns ---------------------------------------------------------------------------------- */

static void timeout(uv_timer_t *t)
{
	((struct zk *)t->data)->dirty = true;
}

static void readable(uv_poll_t *p, int status, int events)
{
	struct zk *z = p->data;
	int want = 0;

	/* An error is the client's to find: it reads it from the socket. */
	if (status || events & UV_READABLE)
		want |= ZOOKEEPER_READ;
	if (status || events & UV_WRITABLE)
		want |= ZOOKEEPER_WRITE;
	z->depth++;
	for (int i = 0; i < BURST && z->zh && !z->broken && !z->closing; i++)
		if (zookeeper_process(z->zh, want) != ZOK)
			break;
	z->depth--;
	z->dirty = true;
	if (z->closing)
		zk_close(z);
}

static void wait_for(struct zk *z, uint64_t ms)
{
	uv_timer_start(&z->timer, timeout, ms, 0);
}

/*
 * A session that was without a connection for much longer than it lives is over, whether or not a server says so.
 * Servers that were given back an older tree do not: they let no client in that has seen a newer one. And the session
 * itself may be in the older tree. Its watches would then tell of containers that are newer than the tree as if they
 * had been removed.
 */
static bool is_over(const struct zk *z)
{
	return !z->connected && z->was_up &&
	       uv_now(z->loop) - z->down_since >= OVER_AFTER * z->timeout;
}

/* Has the handle to be replaced? */
static bool unusable(struct zk *z)
{
	if (is_unrecoverable(z->zh)) {
		if (zoo_state(z->zh) == ZOO_AUTH_FAILED_STATE)
			wait_for(z, AUTH_RETRY);
		replace(z, true);
		return true;
	}
	if (is_over(z)) {
		replace(z, true);
		return true;
	}
	if (z->broken || (!z->connected && z->was_up && z->watch_bytes > WATCH_BYTES)) {
		replace(z, false);
		return true;
	}
	return false;
}

static void tell_operator(struct zk *z)
{
	if (z->connected || z->told || uv_now(z->loop) - z->down_since < TELL_AFTER)
		return;
	z->told = true;
	log_warn("ZooKeeper at %s is not reached; trying on", z->servers);
}

static void turn(struct zk *z)
{
	int fd = -1, interest = 0, events = 0;
	struct timeval tv = { 0 };
	uint64_t ms;

	tell_operator(z);
	if (!z->zh && handle_open(z)) {
		wait_for(z, AUTH_RETRY);
		return;
	}
	z->depth++;
	if (zookeeper_interest(z->zh, &fd, &interest, &tv)) {
		fd = -1; /* closed, whatever number it left; the next server is tried soon */
		tv.tv_usec += tv.tv_sec || tv.tv_usec ? 0 : 10000;
	}
	z->depth--;
	if (z->closing) {
		zk_close(z);
		return;
	}
	if (unusable(z))
		return;
	ms = (uint64_t)tv.tv_sec * 1000 + (uint64_t)tv.tv_usec / 1000;
	wait_for(z, ms ? ms : 1);
	if (fd < 0) {
		sock_drop(z);
		return;
	}
	events |= interest & ZOOKEEPER_READ ? UV_READABLE : 0;
	events |= interest & ZOOKEEPER_WRITE ? UV_WRITABLE : 0;
	if (sock_follow(z, fd) || uv_poll_start(&z->sock->poll, events, readable)) {
		log_err("ZooKeeper: its socket cannot be polled");
		z->broken = true;
	}
}

static void prepare(uv_prepare_t *p)
{
	struct zk *z = p->data;

	for (int i = 0; i < 4 && z->dirty && !z->closing; i++) {
		z->dirty = false;
		turn(z);
	}
}

/* ---- open and close ------------------------------------------------------------------------- */

/* "ADDRESS:PORT,...", with numbers and IPv6 addresses in brackets. */
static bool servers_ok(const char *text)
{
	char address[INET6_ADDRSTRLEN], end;
	struct in6_addr addr;
	unsigned int port;
	size_t len;

	for (; *text; text += len + (text[len] == ',')) {
		len = strcspn(text, ",");
		if (!len || len > 64 || (text[len] && !text[len + 1]))
			return false;
		if (sscanf(text, "[%45[0-9a-fA-F:.]]:%5u%c", address, &port, &end) >= 2) {
			if (inet_pton(AF_INET6, address, &addr) != 1)
				return false;
		} else if (sscanf(text, "%45[0-9.]:%5u%c", address, &port, &end) >= 2) {
			if (inet_pton(AF_INET, address, &addr) != 1)
				return false;
		} else {
			return false;
		}
		if (!port || port > 65535)
			return false;
	}
	return true;
}

static bool root_ok(const char *root)
{
	const char *at = root;

	if (!*root)
		return true;
	if (strlen(root) > 128 || *root != '/')
		return false;
	while (*at) {
		size_t len = strcspn(++at, "/");

		if (!len || at[0] == '.')
			return false;
		for (size_t i = 0; i < len; i++)
			if (at[i] <= ' ' || at[i] > '~')
				return false;
		at += len;
	}
	return true;
}

static void zk_free(struct zk *z)
{
	free(z->servers);
	free(z->root);
	free(z->auth);
	free(z->own);
	zk_acls_free(z->acls);
	free(z);
}

static void handle_closed(uv_handle_t *h)
{
	struct zk *z = h->data;

	if (!--z->refs)
		zk_free(z);
}

int zk_open(uv_loop_t *loop, const struct zk_conf *conf, const struct zk_events *ev, void *arg,
	    struct zk **out)
{
	struct zk *z;
	int err;

	if (!*conf->servers || !servers_ok(conf->servers) || !root_ok(conf->root))
		return -EINVAL;
	z = calloc(1, sizeof(*z));
	if (!z)
		return -ENOMEM;
	z->loop = loop;
	z->ev = ev;
	z->arg = arg;
	z->timeout = conf->timeout;
	z->servers = strdup(conf->servers);
	z->root = strdup(conf->root);
	z->auth = conf->auth ? strdup(conf->auth) : NULL;
	z->own = conf->own ? strdup(conf->own) : NULL;
	err = zk_acls_new(conf, &z->acls);
	if (!z->servers || !z->root || (conf->auth && !z->auth) || (conf->own && !z->own))
		err = -ENOMEM;
	if (err) {
		zk_free(z);
		return err;
	}
	z->root_len = strlen(z->root);
	if (conf->session)
		z->resume = *conf->session;
	z->down_since = uv_now(loop);
	zoo_set_debug_level(log_level == LOG_LEVEL_DEBUG ? ZOO_LOG_LEVEL_INFO :
							   ZOO_LOG_LEVEL_ERROR);
	uv_timer_init(loop, &z->timer);
	uv_prepare_init(loop, &z->prepare);
	z->timer.data = z->prepare.data = z;
	z->refs = 2;
	z->dirty = true;
	uv_prepare_start(&z->prepare, prepare);
	*out = z;
	return 0;
}

void zk_close(struct zk *z)
{
	if (!z)
		return;
	z->closing = true;
	if (z->depth) /* whoever called the client closes */
		return;
	if (z->zh) {
		/* It waits for the server, so not when that would be in vain. */
		if (z->sock && (z->abandon || !z->connected))
			shutdown(z->sock->fd, SHUT_RDWR);
		handle_close(z);
	}
	uv_close((uv_handle_t *)&z->timer, handle_closed);
	uv_close((uv_handle_t *)&z->prepare, handle_closed);
}

void zk_abandon(struct zk *z)
{
	z->abandon = true;
	zk_close(z);
}

bool zk_connected(const struct zk *z)
{
	return z->connected && !z->closing && !z->broken;
}

void zk_session(const struct zk *z, struct zk_session *s)
{
	const clientid_t *id = z->zh ? zoo_client_id(z->zh) : NULL;

	memset(s, 0, sizeof(*s));
	if (!id)
		return;
	s->id = id->client_id;
	memcpy(s->passwd, id->passwd, sizeof(s->passwd));
}

uint64_t zk_flights(const struct zk *z)
{
	return z->flights;
}
