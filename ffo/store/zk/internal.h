/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * internal.h - what zk.c, which keeps the session, and call.c, the requests on it, share.
 */
#ifndef FFO_STORE_ZK_INTERNAL_H
#define FFO_STORE_ZK_INTERNAL_H

#include <zookeeper/zookeeper.h>

#include "ffo/store/zk/zk.h"
#include "ffo/store/zk/acl.h"

struct sock;

struct zk {
	uv_loop_t *loop;
	zhandle_t *zh; /* NULL: a new one is to be made */
	const struct zk_events *ev;
	void *arg;
	char *servers, *root, *auth, *own;
	struct zk_acls *acls;
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
	uint64_t flights;
};

/* A watch has fired, or the session changed: the one function of all watches. */
void zk_event(zhandle_t *zh, int type, int state, const char *path, void *arg);
/* The path as our user names it. */
const char *zk_below_root(const struct zk *z, const char *path);

#endif
