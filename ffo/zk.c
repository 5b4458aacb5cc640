/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * zk.c - ZooKeeper's C client, its single-threaded API, inside a libuv loop. See zk.h. Used by
 * store_zk.c. The loop's thread only.
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
 */
#include "zk.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

#include "ffr/log.h"

#define MAX_REQUESTS 8192u	 /* under way */
#define MAX_BYTES    (32u << 20) /* of data in them */
#define WATCH_BYTES  (400u << 10)
#define BURST	     64	   /* answers handled before others have their turn */
#define TELL_AFTER   3000u /* ms without a connection until an operator is told */
#define AUTH_RETRY   5000u /* ms */

/* A duplicate of the client's socket. */
struct sock {
	uv_poll_t poll;
	int fd;
	ino_t ino;
};

struct zk {
	uv_loop_t *loop;
	zhandle_t *zh; /* NULL: a new one is to be made */
	const struct zk_events *ev;
	void *arg;
	char *servers, *root, *auth;
	size_t root_len;
	unsigned int timeout;
	struct zk_session resume; /* what the next handle goes on with */
	struct sock *sock;
	uv_timer_t timer;
	uv_prepare_t prepare;
	unsigned int refs;  /* the two handles, while they are open */
	unsigned int depth; /* frames of the client on the stack */
	bool dirty;	    /* ask the client before the loop sleeps */
	bool connected;
	bool was_up; /* there was a session, and its end was not told */
	bool fresh;  /* the handle began without a session */
	bool blind;  /* the handle goes on with a session, but knows none of its watches */
	bool broken; /* the handle is not to be used further */
	bool closing, abandon;
	bool told;
	uint64_t down_since; /* ms of the loop */
	size_t requests, bytes;
	size_t watch_bytes; /* of paths with watches, or more */
	uint64_t answered, flights;
};

struct req {
	struct zk *z;
	zk_cb cb;
	void *arg;
	size_t bytes, watch_bytes;
};

struct zk_multi {
	struct req req; /* first */
	int err;
	size_t num, cap, bytes;
	zoo_op_t *ops;
	zoo_op_result_t *results;
	int *errs;
};

static void turn(struct zk *z);

/* ---- errors --------------------------------------------------------------------------------- */

static int error_of(int rc)
{
	switch (rc) {
	case ZOK:
		return 0;
	case ZNONODE:
		return -ENOENT;
	case ZNODEEXISTS:
		return -EEXIST;
	case ZNOTEMPTY:
		return -ENOTEMPTY;
	case ZBADVERSION:
		return -ESTALE;
	case ZNOAUTH:
	case ZAUTHFAILED:
	case ZINVALIDACL:
	case ZSESSIONCLOSEDREQUIRESASLAUTH:
		return -EACCES;
	case ZCONNECTIONLOSS:
	case ZOPERATIONTIMEOUT:
	case ZSESSIONEXPIRED:
	case ZSESSIONMOVED:
	case ZINVALIDSTATE:
	case ZCLOSING:
	case ZRUNTIMEINCONSISTENCY: /* an answer that is not to the oldest request */
	case ZNOTREADONLY:
		return -ENOTCONN;
	case ZTHROTTLEDOP:
		return -EAGAIN;
	case ZMARSHALLINGERROR:
		return -ENOMEM;
	default:
		return -EIO;
	}
}

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

static void event(zhandle_t *zh, int type, int state, const char *path, void *arg);

static void auth_done(int rc, const void *arg)
{
	(void)arg;
	if (rc)
		log_err("ZooKeeper does not accept our credentials: %s", zerror(rc));
}

static int handle_open(struct zk *z)
{
	clientid_t id = { .client_id = z->resume.id };
	const char *colon = z->auth ? strchr(z->auth, ':') : NULL;
	char scheme[32];

	memcpy(id.passwd, z->resume.passwd, sizeof(id.passwd));
	z->zh = zookeeper_init2(z->servers, event, (int)z->timeout, id.client_id ? &id : NULL, z,
				ZOO_NO_LOG_CLIENTENV, log_line);
	if (!z->zh)
		return errno ? -errno : -EINVAL;
	zoo_set_servers_resolution_delay(z->zh, -1);
	z->fresh = !id.client_id;
	z->blind = !z->fresh;
	z->watch_bytes = 0;
	if (colon) {
		snprintf(scheme, sizeof(scheme), "%.*s", (int)(colon - z->auth), z->auth);
		zoo_add_auth(z->zh, scheme, colon + 1, (int)strlen(colon + 1), auth_done, NULL);
	}
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

static const char *below_root(const struct zk *z, const char *path)
{
	return strncmp(path, z->root, z->root_len) ? NULL : path + z->root_len;
}

/* The client's only watcher: of the session and of all nodes. */
static void event(zhandle_t *zh, int type, int state, const char *path, void *arg)
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
	path = below_root(z, path);
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

/* Has the handle to be replaced? */
static bool unusable(struct zk *z)
{
	if (is_unrecoverable(z->zh)) {
		if (zoo_state(z->zh) == ZOO_AUTH_FAILED_STATE)
			wait_for(z, AUTH_RETRY);
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
	if (!z->servers || !z->root || (conf->auth && !z->auth)) {
		zk_free(z);
		return -ENOMEM;
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

uint64_t zk_answered(const struct zk *z)
{
	return z->answered;
}

uint64_t zk_flights(const struct zk *z)
{
	return z->flights;
}

/* ---- requests ------------------------------------------------------------------------------- */

static int admit(const struct zk *z, size_t bytes)
{
	if (!zk_connected(z) || is_unrecoverable(z->zh))
		return -ENOTCONN;
	if (z->requests >= MAX_REQUESTS || z->bytes + bytes > MAX_BYTES)
		return -EAGAIN;
	return 0;
}

static int full_path(const struct zk *z, const char *path, char *buf)
{
	if (z->root_len + strlen(path) >= ZK_PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(buf, z->root, z->root_len);
	strcpy(buf + z->root_len, path);
	if (!*buf)
		strcpy(buf, "/");
	return 0;
}

static void req_take(struct req *r, struct zk *z, zk_cb cb, void *arg, size_t bytes)
{
	*r = (struct req){ .z = z, .cb = cb, .arg = arg, .bytes = bytes };
	z->flights += !z->requests;
	z->requests++;
	z->bytes += bytes;
}

static void req_leave(struct req *r)
{
	r->z->requests--;
	r->z->bytes -= r->bytes;
}

static int req_new(struct zk *z, const char *path, char *full, size_t bytes, zk_cb cb, void *arg,
		   struct req **out)
{
	int err = admit(z, bytes);

	if (!err)
		err = full_path(z, path, full);
	if (err)
		return err;
	*out = malloc(sizeof(**out));
	if (!*out)
		return -ENOMEM;
	req_take(*out, z, cb, arg, bytes);
	return 0;
}

/* What the client said to a request: 0, or it is not under way. */
static int req_sent(struct req *r, int rc)
{
	struct zk *z = r->z;

	z->dirty = true;
	if (rc) {
		req_leave(r);
		free(r);
		return error_of(rc);
	}
	/* The socket was closed under it: the request ends when the handle is replaced. */
	if (zoo_state(z->zh) != ZOO_CONNECTED_STATE)
		z->broken = true;
	return 0;
}

/* Its end. The caller frees r. */
static void req_done(struct req *r, struct zk_reply *reply, int rc)
{
	struct zk *z = r->z;

	req_leave(r);
	z->answered++;
	if (!reply->err)
		reply->err = error_of(rc);
	if (reply->err == -ENOTCONN && z->closing)
		reply->err = -ECANCELED;
	if (r->cb)
		r->cb(r->arg, reply);
}

static void took_stat(struct zk_reply *reply, const struct Stat *st)
{
	if (!st)
		return;
	reply->stat.version = st->version;
	reply->stat.owner = st->ephemeralOwner;
}

static void data_done(int rc, const char *data, int len, const struct Stat *st, const void *arg)
{
	struct zk_reply reply = { .data = data, .len = len > 0 ? (size_t)len : 0 };
	struct req *r = (struct req *)arg;

	took_stat(&reply, st);
	if (rc == ZOK)
		r->z->watch_bytes += r->watch_bytes;
	req_done(r, &reply, rc);
	free(r);
}

static void stat_done(int rc, const struct Stat *st, const void *arg)
{
	struct zk_reply reply = { 0 };
	struct req *r = (struct req *)arg;

	took_stat(&reply, st);
	if (rc == ZOK || rc == ZNONODE)
		r->z->watch_bytes += r->watch_bytes;
	req_done(r, &reply, rc);
	free(r);
}

static void names_done(int rc, const struct String_vector *names, const void *arg)
{
	struct zk_reply reply = { 0 };
	struct req *r = (struct req *)arg;

	if (rc == ZOK) {
		r->z->watch_bytes += r->watch_bytes;
		reply.names = (const char *const *)names->data;
		reply.num = (size_t)names->count;
	}
	req_done(r, &reply, rc);
	free(r);
}

static void string_done(int rc, const char *text, const void *arg)
{
	struct zk_reply reply = { 0 };
	struct req *r = (struct req *)arg;

	if (rc == ZOK && text)
		reply.path = below_root(r->z, text);
	req_done(r, &reply, rc);
	free(r);
}

static void void_done(int rc, const void *arg)
{
	string_done(rc, NULL, arg);
}

int zk_get(struct zk *z, const char *path, bool watch, zk_cb cb, void *arg)
{
	char full[ZK_PATH_MAX];
	struct req *r;
	int err = req_new(z, path, full, 0, cb, arg, &r);

	if (err)
		return err;
	r->watch_bytes = watch ? strlen(full) : 0;
	return req_sent(r, zoo_awget(z->zh, full, watch ? event : NULL, z, data_done, r));
}

int zk_exists(struct zk *z, const char *path, bool watch, zk_cb cb, void *arg)
{
	char full[ZK_PATH_MAX];
	struct req *r;
	int err = req_new(z, path, full, 0, cb, arg, &r);

	if (err)
		return err;
	r->watch_bytes = watch ? strlen(full) : 0;
	return req_sent(r, zoo_awexists(z->zh, full, watch ? event : NULL, z, stat_done, r));
}

int zk_children(struct zk *z, const char *path, bool watch, zk_cb cb, void *arg)
{
	char full[ZK_PATH_MAX];
	struct req *r;
	int err = req_new(z, path, full, 0, cb, arg, &r);

	if (err)
		return err;
	r->watch_bytes = watch ? strlen(full) : 0;
	return req_sent(r, zoo_awget_children(z->zh, full, watch ? event : NULL, z, names_done, r));
}

int zk_sync(struct zk *z, zk_cb cb, void *arg)
{
	char full[ZK_PATH_MAX];
	struct req *r;
	int err = req_new(z, "", full, 0, cb, arg, &r);

	return err ?: req_sent(r, zoo_async(z->zh, full, string_done, r));
}

void zk_unwatch(struct zk *z, const char *path, bool children)
{
	char full[ZK_PATH_MAX];
	struct req *r;
	size_t len;

	if (req_new(z, path, full, 0, NULL, NULL, &r))
		return;
	len = strlen(full);
	z->watch_bytes -= len < z->watch_bytes ? len : z->watch_bytes;
	/* The prototype has a pointer to a function pointer; what it takes is the function. */
	req_sent(r,
		 zoo_aremove_all_watches(z->zh, full, children ? ZWATCHTYPE_CHILD : ZWATCHTYPE_DATA,
					 0, (void_completion_t *)void_done, r));
}

static int mode_flags(enum zk_mode mode)
{
	switch (mode) {
	case ZK_EPHEMERAL:
		return ZOO_EPHEMERAL;
	case ZK_CONTAINER:
		return ZOO_CONTAINER;
	case ZK_SEQUENCE:
		return ZOO_EPHEMERAL | ZOO_SEQUENCE;
	default:
		return ZOO_PERSISTENT;
	}
}

/* With credentials, what we make is for those who have them. */
static const struct ACL_vector *acl(const struct zk *z)
{
	return z->auth ? &ZOO_CREATOR_ALL_ACL : &ZOO_OPEN_ACL_UNSAFE;
}

int zk_create(struct zk *z, const char *path, const void *data, size_t len, enum zk_mode mode,
	      zk_cb cb, void *arg)
{
	char full[ZK_PATH_MAX];
	struct req *r;
	int err = req_new(z, path, full, len, cb, arg, &r);

	return err   ?:
		       req_sent(r, zoo_acreate(z->zh, full, data, (int)len, acl(z),
					       mode_flags(mode), string_done, r));
}

int zk_create_root(struct zk *z, zk_cb cb, void *arg)
{
	char full[ZK_PATH_MAX];
	struct req *r;
	size_t len = 0;
	int err;

	do {
		len += 1 + strcspn(z->root + len + (z->root[len] == '/'), "/");
		err = req_new(z, "", full, 0, len < z->root_len ? NULL : cb, arg, &r);
		if (err)
			return err;
		full[len < z->root_len ? len : strlen(full)] = '\0';
		err = req_sent(r, zoo_acreate(z->zh, full, "", 0, acl(z), ZOO_PERSISTENT,
					      string_done, r));
	} while (!err && len < z->root_len);
	return err;
}

int zk_set(struct zk *z, const char *path, const void *data, size_t len, int32_t version, zk_cb cb,
	   void *arg)
{
	char full[ZK_PATH_MAX];
	struct req *r;
	int err = req_new(z, path, full, len, cb, arg, &r);

	return err ?: req_sent(r, zoo_aset(z->zh, full, data, (int)len, version, stat_done, r));
}

int zk_delete(struct zk *z, const char *path, int32_t version, zk_cb cb, void *arg)
{
	char full[ZK_PATH_MAX];
	struct req *r;
	int err = req_new(z, path, full, 0, cb, arg, &r);

	return err ?: req_sent(r, zoo_adelete(z->zh, full, version, void_done, r));
}

/* ---- several changes as one ----------------------------------------------------------------- */

struct zk_multi *zk_multi_new(struct zk *z)
{
	struct zk_multi *m = calloc(1, sizeof(*m));

	if (m)
		m->req.z = z;
	return m;
}

void zk_multi_drop(struct zk_multi *m)
{
	for (size_t i = 0; i < m->num; i++)
		free((char *)m->ops[i].check_op.path); /* first in all of them */
	free(m->ops);
	free(m->results);
	free(m->errs);
	free(m);
}

/* Room for one more, and a copy of its path, or NULL. */
static zoo_op_t *multi_add(struct zk_multi *m, const char *path, size_t bytes, char **copy)
{
	char full[ZK_PATH_MAX];
	zoo_op_t *ops;

	if (m->err)
		return NULL;
	m->err = full_path(m->req.z, path, full);
	if (!m->err && m->num == m->cap) {
		ops = reallocarray(m->ops, m->cap * 2 + 8, sizeof(*ops));
		if (ops) {
			m->ops = ops;
			m->cap = m->cap * 2 + 8;
		} else {
			m->err = -ENOMEM;
		}
	}
	if (m->err)
		return NULL;
	*copy = strdup(full);
	if (!*copy) {
		m->err = -ENOMEM;
		return NULL;
	}
	m->bytes += bytes;
	return &m->ops[m->num++];
}

void zk_multi_create(struct zk_multi *m, const char *path, const void *data, size_t len,
		     enum zk_mode mode)
{
	char *copy;
	zoo_op_t *op = multi_add(m, path, len, &copy);

	if (op)
		zoo_create_op_init(op, copy, data, (int)len, acl(m->req.z), mode_flags(mode), NULL,
				   0);
}

void zk_multi_set(struct zk_multi *m, const char *path, const void *data, size_t len,
		  int32_t version)
{
	char *copy;
	zoo_op_t *op = multi_add(m, path, len, &copy);

	if (op)
		zoo_set_op_init(op, copy, data, (int)len, version, NULL);
}

void zk_multi_delete(struct zk_multi *m, const char *path, int32_t version)
{
	char *copy;
	zoo_op_t *op = multi_add(m, path, 0, &copy);

	if (op)
		zoo_delete_op_init(op, copy, version);
}

size_t zk_multi_count(const struct zk_multi *m)
{
	return m->num;
}

/* The change that failed has its error; those beside it say only that they were not made. */
static void multi_done(int rc, const void *arg)
{
	struct zk_multi *m = (struct zk_multi *)arg;
	struct zk_reply reply = { .errs = m->errs, .num = m->num };

	for (size_t i = 0; i < m->num; i++) {
		m->errs[i] = 0;
		if (rc && m->results[i].err && m->results[i].err != ZRUNTIMEINCONSISTENCY)
			m->errs[i] = error_of(m->results[i].err);
	}
	req_done(&m->req, &reply, rc);
	zk_multi_drop(m);
}

int zk_multi_send(struct zk_multi *m, zk_cb cb, void *arg)
{
	struct zk *z = m->req.z;
	int err = m->err ?: admit(z, m->bytes), rc;

	if (!err) {
		m->results = calloc(m->num + 1, sizeof(*m->results));
		m->errs = calloc(m->num + 1, sizeof(*m->errs));
		err = m->results && m->errs ? 0 : -ENOMEM;
	}
	if (err) {
		zk_multi_drop(m);
		return err;
	}
	req_take(&m->req, z, cb, arg, m->bytes);
	rc = zoo_amulti(z->zh, (int)m->num, m->ops, m->results, multi_done, m);
	z->dirty = true;
	if (rc) {
		req_leave(&m->req);
		zk_multi_drop(m);
		return error_of(rc);
	}
	if (zoo_state(z->zh) != ZOO_CONNECTED_STATE)
		z->broken = true;
	return 0;
}
