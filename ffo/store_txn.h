/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * store.h - where the orchestrator keeps its state: one table of ops, a store behind it.
 *
 * Contract:
 * - Reads are answered at once, from what the store has here.
 * - Changes are made in a transaction, which takes place as a whole or not at all. commit() ends
 *   with done(), before or after it returns: a store that many orchestrators share (ZooKeeper)
 *   learns later whether it took place. A transaction's read or change that fails leaves it to be
 *   aborted.
 * - Hosts and containers survive a restart, from done() on. Mappings are soft state: their routers
 *   publish them again; they are gone after a restart.
 * - The store rejects a second container with a name, a LID, or an address within the tenant
 *   (-EEXIST), whoever else checks that before.
 *
 * All functions return 0 or -errno: -ENOENT, -EEXIST, -ENOSPC, -ENOMEM, -EIO, -EBADMSG (what is
 * stored makes no sense). They log failures that an operator must know of. The orchestrator's loop
 * only.
 */
#ifndef FFO_STORE_H
#define FFO_STORE_H

#include "ffo_proto.h"

struct ffo_store {
	const struct ffo_store_ops *ops;
};

struct ffo_txn {
	struct ffo_store *store;
};

typedef void (*store_done_cb)(void *arg, int err);

/* Called for each row; another value than 0 ends the list, which then returns 0. */
typedef int (*store_host_cb)(void *arg, const struct ffo_host *h);
typedef int (*store_container_cb)(void *arg, const struct ffo_container *c);
typedef int (*store_map_cb)(void *arg, const struct ffo_map *m);

struct ffo_store_ops {
	const char *name;

	/* `where`: a file name or the like; what that means is the store's. */
	int (*open)(const char *where, struct ffo_store **s);
	void (*close)(struct ffo_store *s); /* no transaction is open; NULL is fine */

	/* ---- changes ---- */
	int (*begin)(struct ffo_store *s, struct ffo_txn **t);
	void (*commit)(struct ffo_txn *t, store_done_cb done, void *arg); /* t is gone */
	void (*abort)(struct ffo_txn *t);				  /* t is gone */

	int (*host_put)(struct ffo_txn *t, const struct ffo_host *h);
	/* c->id 0: a new one, its id is set. Else the one of that id becomes as given. */
	int (*container_put)(struct ffo_txn *t, struct ffo_container *c);
	int (*container_del)(struct ffo_txn *t, uint32_t id); /* with its mappings */
	/* Takes the place of a mapping with the same (container, rkey). */
	int (*map_put)(struct ffo_txn *t, const struct ffo_map *m);
	int (*map_del)(struct ffo_txn *t, uint32_t container, uint32_t rkey);	  /* -ENOENT */
	int (*map_drop)(struct ffo_txn *t, uint32_t container, uint32_t session); /* 0: all */
	int (*map_drop_host)(struct ffo_txn *t, const char *host);

	/* ---- reads ---- */
	/* Names behind `after`, rising by byte; "": all. */
	int (*host_list)(struct ffo_store *s, const char *after, store_host_cb cb, void *arg);
	int (*container_get)(struct ffo_store *s, uint32_t id, struct ffo_container *c);
	int (*container_find)(struct ffo_store *s, const char *name, struct ffo_container *c);
	/* Ids above `after`, rising. */
	int (*container_list)(struct ffo_store *s, uint32_t after, store_container_cb cb,
			      void *arg);
	/* Behind (container, rkey), rising; `only`: that container's, 0: all. */
	int (*map_list)(struct ffo_store *s, uint32_t only, uint32_t container, uint32_t rkey,
			store_map_cb cb, void *arg);
};

extern const struct ffo_store_ops store_sqlite;

#endif
