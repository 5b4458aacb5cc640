/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * call.c - requests of zk.h: one at a time, and several changes as one. What is special about them
 * is told at the head of zk.c, which has the session. The loop's thread only.
 *
 * Tests: test_topic.c, test_zks.c
 */
#include "ffo/store/zk/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_REQUESTS 8192u	 /* under way */
#define MAX_BYTES    (32u << 20) /* of data in them */

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

/* A request that may leave a watch. */
static int req_watch(struct zk *z, const char *path, char *full, bool watch, zk_cb cb, void *arg,
		     struct req **out)
{
	int err = req_new(z, path, full, 0, cb, arg, out);

	if (!err)
		(*out)->watch_bytes = watch ? strlen(full) : 0;
	return err;
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
	reply->stat.born = st->czxid;
	reply->stat.made_ms = st->ctime;
	/* ZooKeeper counts how often children were made and removed, and how many there are */
	reply->stat.children_made = ((uint32_t)st->cversion + (uint32_t)st->numChildren) / 2;
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
		reply.path = zk_below_root(r->z, text);
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
	int err = req_watch(z, path, full, watch, cb, arg, &r);

	if (!err)
		err = req_sent(r, zoo_awget(z->zh, full, watch ? zk_event : NULL, z, data_done, r));
	return err;
}

int zk_exists(struct zk *z, const char *path, bool watch, zk_cb cb, void *arg)
{
	char full[ZK_PATH_MAX];
	struct req *r;
	int err = req_watch(z, path, full, watch, cb, arg, &r);

	if (!err)
		err = req_sent(r,
			       zoo_awexists(z->zh, full, watch ? zk_event : NULL, z, stat_done, r));
	return err;
}

int zk_children(struct zk *z, const char *path, bool watch, zk_cb cb, void *arg)
{
	char full[ZK_PATH_MAX];
	struct req *r;
	int err = req_watch(z, path, full, watch, cb, arg, &r);

	if (!err)
		err = req_sent(r, zoo_awget_children(z->zh, full, watch ? zk_event : NULL, z,
						     names_done, r));
	return err;
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

int zk_create(struct zk *z, const char *path, const void *data, size_t len, enum zk_mode mode,
	      zk_cb cb, void *arg)
{
	char full[ZK_PATH_MAX];
	struct req *r;
	int err = req_new(z, path, full, len, cb, arg, &r);

	return err   ?:
		       req_sent(r,
				zoo_acreate(z->zh, full, data, (int)len, zk_acl_of(z->acls, path),
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
		err = req_sent(r, zoo_acreate(z->zh, full, "", 0, zk_acl_of(z->acls, ""),
					      ZOO_PERSISTENT, string_done, r));
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

/* ---- who may do what ------------------------------------------------------------------------- */

bool zk_has_own(const struct zk *z)
{
	return zk_acls_has_own(z->acls);
}

bool zk_is_operator(const struct zk *z)
{
	return zk_acls_is_operator(z->acls);
}

static void acl_done(int rc, struct ACL_vector *acl, struct Stat *stat, const void *arg)
{
	struct zk_reply reply = { 0 };
	struct req *r = (struct req *)arg;

	(void)stat;
	reply.is_open = rc == ZOK && zk_acl_is_open(acl);
	req_done(r, &reply, rc);
	free(r);
}

int zk_get_acl(struct zk *z, const char *path, zk_cb cb, void *arg)
{
	char full[ZK_PATH_MAX];
	struct req *r;
	int err = req_new(z, path, full, 0, cb, arg, &r);

	return err ?: req_sent(r, zoo_aget_acl(z->zh, full, acl_done, r));
}

static int set_acl(struct zk *z, const char *path, const struct ACL_vector *acl, zk_cb cb,
		   void *arg)
{
	char full[ZK_PATH_MAX];
	struct req *r;
	int err = req_new(z, path, full, 0, cb, arg, &r);

	/* The prototype takes what it only reads as if it were to be changed. */
	return err   ?:
		       req_sent(r, zoo_aset_acl(z->zh, full, -1, (struct ACL_vector *)acl,
						void_done, r));
}

int zk_enrol(struct zk *z, const char *path, const char *id, zk_cb cb, void *arg)
{
	const struct ACL_vector *acl = zk_acl_of_host(z->acls, id);
	char full[ZK_PATH_MAX];
	struct req *r;
	int err = req_new(z, path, full, 0, NULL, NULL, &r);

	if (!err)
		err = req_sent(r, zoo_acreate(z->zh, full, "", 0, acl, ZOO_PERSISTENT, string_done,
					      r));
	return err ?: set_acl(z, path, acl, cb, arg);
}

int zk_to_operators(struct zk *z, const char *path, zk_cb cb, void *arg)
{
	return set_acl(z, path, zk_acl_operators(z->acls), cb, arg);
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
		zoo_create_op_init(op, copy, data, (int)len, zk_acl_of(m->req.z->acls, path),
				   mode_flags(mode), NULL, 0);
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
