/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * zk.h - a ZooKeeper session in a libuv loop: it connects by itself, again and again, and answers
 * through callbacks. For zks.c and what belongs to it. One thread, the loop's.
 *
 * Paths are below the root that zk_open() was given and begin with '/'; names in them are the
 * caller's to check. Requests are pipelined and take place in their order. A request that is taken
 * ends with exactly one callback, never before the function returns. One that is refused (a
 * negative errno from the function) has none: -ENOTCONN while there is no connection, -EAGAIN when
 * too much is under way, -ENOMEM, -ENAMETOOLONG.
 *
 * Errors in answers: -ENOENT, -EEXIST, -ENOTEMPTY, -ESTALE (another version), -EACCES, -ENOTCONN
 * (the connection went: a change may have taken place or not), -ECANCELED (zk_close()), -ENOMEM,
 * -EAGAIN (the server is overloaded), -EIO.
 */
#ifndef FFO_STORE_ZK_ZK_H
#define FFO_STORE_ZK_ZK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#define ZK_PATH_MAX 512u

struct zk;

/* What another process needs to go on with, or to end, a session. */
struct zk_session {
	int64_t id; /* 0: none */
	char passwd[16];
};

struct zk_conf {
	const char *servers;  /* "ADDRESS:PORT,...", numbers */
	const char *root;     /* "/a/b"; "": the tree's own root */
	unsigned int timeout; /* ms; the servers have limits of their own */
	const char *auth;     /* "SCHEME:CREDENTIALS", NULL: none */
	const char *own; /* "digest:USER:PASSWORD" beside them, which then are, too; NULL: none */
	const char *operator_id;	  /* with `own`: "USER:HASH" of operators, see acl.c */
	const struct zk_session *session; /* to go on with; NULL: a new one */
};

/* A node's data has changed, it was made or is gone; or its children have changed. */
enum zk_change { ZK_CHANGED, ZK_CREATED, ZK_DELETED, ZK_CHILDREN };

struct zk_events {
	/*
	 * Requests are taken. fresh: the session is new; watches: those that were set still are,
	 * and tell what they missed.
	 */
	void (*connected)(void *arg, bool fresh, bool watches);
	/* They are not; those under way end with -ENOTCONN after this. */
	void (*disconnected)(void *arg);
	/* After disconnected(): the session is over and what was ephemeral of it gone. */
	void (*expired)(void *arg);
	/* A watch has fired, and is not set any more. */
	void (*changed)(void *arg, const char *path, enum zk_change what);
};

struct zk_stat {
	int32_t version;
	int64_t owner; /* session of an ephemeral node, or 0 */
	int64_t born,
		made_ms; /* of a node: the transaction that made it, and when: ms since 1970 */
	uint32_t children_made; /* how many in all, those that were removed included */
};

struct zk_reply {
	int err;
	const char *data; /* zk_get() */
	size_t len;
	const char *const *names; /* zk_children(): in no order */
	size_t num;		  /* of names, or of errs */
	struct zk_stat stat;	  /* zk_get(), zk_exists(), zk_set() */
	const int *errs;	  /* zk_multi: of each change; 0 beside the one that failed */
	const char *path;	  /* zk_create() */
	bool is_open;		  /* zk_get_acl(): clients without credentials may use the node */
};

typedef void (*zk_cb)(void *arg, const struct zk_reply *r);

/* 0 or -EINVAL (servers or root make no sense), -ENOMEM. */
int zk_open(uv_loop_t *loop, const struct zk_conf *conf, const struct zk_events *ev, void *arg,
	    struct zk **z);
/*
 * Ends the session; what is under way ends with -ECANCELED before it returns, or, within one of
 * z's callbacks, soon after. Waits a moment for the server to take it. NULL is fine.
 */
void zk_close(struct zk *z);
/* As zk_close(), but the session lives on for its time. */
void zk_abandon(struct zk *z);

bool zk_connected(const struct zk *z);
void zk_session(const struct zk *z, struct zk_session *s);
/*
 * How many flights there were: one begins with a request that is sent while none is under way, so that what has to
 * wait for n answers one after the other takes n of them. tests/bench/zk_regions.c counts them.
 */
uint64_t zk_flights(const struct zk *z);

int zk_get(struct zk *z, const char *path, bool watch, zk_cb cb, void *arg);
int zk_exists(struct zk *z, const char *path, bool watch, zk_cb cb, void *arg);
int zk_children(struct zk *z, const char *path, bool watch, zk_cb cb, void *arg);
/* What changed before at any server is seen by what is read after it. */
int zk_sync(struct zk *z, zk_cb cb, void *arg);
/* Take back a watch on a node (and its data), or on its children. Answers nothing. */
void zk_unwatch(struct zk *z, const char *path, bool children);

enum zk_mode {
	ZK_PERSISTENT,
	ZK_EPHEMERAL, /* goes with the session */
	ZK_CONTAINER, /* goes some time after its last child */
	ZK_SEQUENCE,  /* ephemeral; its name gets ten digits that rise, which the answer has */
};

/* The root and what it is in, if they are missing. */
int zk_create_root(struct zk *z, zk_cb cb, void *arg);
int zk_create(struct zk *z, const char *path, const void *data, size_t len, enum zk_mode mode,
	      zk_cb cb, void *arg);
/* version -1: any. */
int zk_set(struct zk *z, const char *path, const void *data, size_t len, int32_t version, zk_cb cb,
	   void *arg);
int zk_delete(struct zk *z, const char *path, int32_t version, zk_cb cb, void *arg);

/* Several changes as one. An error in adding one is kept and returned by zk_multi_send(). */
struct zk_multi;
struct zk_multi *zk_multi_new(struct zk *z); /* NULL: no memory */
void zk_multi_create(struct zk_multi *m, const char *path, const void *data, size_t len,
		     enum zk_mode mode);
void zk_multi_set(struct zk_multi *m, const char *path, const void *data, size_t len,
		  int32_t version);
void zk_multi_delete(struct zk_multi *m, const char *path, int32_t version);
/* How many there are: the index of the next one, in zk_reply's errs. */
size_t zk_multi_count(const struct zk_multi *m);
/* It is not to be sent. */
void zk_multi_drop(struct zk_multi *m);
/* Takes m in any case. The data of the changes must live until here. */
int zk_multi_send(struct zk_multi *m, zk_cb cb, void *arg);

/* ---- who may do what: acl.c ---- */

/* Have we credentials of our own, beside those that are shared? Are they an operator's? */
bool zk_has_own(const struct zk *z);
bool zk_is_operator(const struct zk *z);
/* Read the rights of that node. The reply's is_open: clients without credentials may use the node. */
int zk_get_acl(struct zk *z, const char *path, zk_cb cb, void *arg);
/* Make that folder, if it is not there, for the host with these credentials. */
int zk_enrol(struct zk *z, const char *path, const char *id, zk_cb cb, void *arg);
/* From now on only operators change that node. cb may be NULL. */
int zk_to_operators(struct zk *z, const char *path, zk_cb cb, void *arg);

#endif
