/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * store.h - where the orchestrator keeps its state: one table of ops, a store behind it. A store is
 * this process's alone (store/sqlite/store.c) or shared with the orchestrators of other hosts
 * (store/zk/zks.c); the rest of the orchestrator does not know which.
 *
 * Contract:
 *
 * Calls and callbacks. All on the orchestrator's loop. What a call is given by pointer is the
 * caller's again when it returns; what a callback is given by pointer is the store's again when it
 * returns. Every call with a callback ends with exactly one, before or after the call returns, and
 * within bounded time (STORE_PATIENCE), if need be with an error. A callback may call anything but
 * close().
 *
 * Errors. err is 0 or -errno; `why` is one line for people, "" where the errno's text is enough.
 *	-ENOENT, -EEXIST, -EADDRINUSE, -ENOSPC, -EBUSY	as told with each op
 *	-EAGAIN		it was changed by somebody meanwhile: read it again
 *	-ENOTCONN	the store is away; nothing is known to have changed
 *	-ECANCELED	close() was called
 *	-EOPNOTSUPP	this store has no such op
 *	-EBADMSG	what is stored makes no sense, or is of a newer version
 *	-ENOMEM, -EIO
 * A store logs what an operator must know of, once: that it went away, what is damaged. A damaged
 * record makes the calls and watches fail that need it, and no others: lists and OWNED leave it out.
 *
 * Changes. Each takes place as a whole or not at all, as one step for all who share the store, and
 * only under the conditions told with it, which the store checks in the same step. When it ended
 * with 0, it survives the end of this process and a loss of power; after -ENOTCONN, -EIO and
 * -ECANCELED it may have taken place or not.
 *
 * Durable and ephemeral state. Containers, hosts, the policy and the tenants' limits are kept. What
 * hangs on the session of a host is ephemeral: that it is up, which of its containers are active, its
 * mappings, its membership in multicast groups. It exists from host_up() to host_down(), or to the end of the store's
 * own session (of this process, then): at the latest STORE_SESSION after a crash, everybody's watches
 * tell that it is gone. Changes of the ephemeral state of a host that is up do not end with
 * -ENOTCONN: they wait while the store is away, and end with -ESHUTDOWN when the host is not up any more. The
 * changes of one host's ephemeral state, host_up() and host_down() take place in the order of their
 * calls.
 *
 * State. conf->state() is called on each change of it, beginning with STORE_READY, perhaps within
 * open(). STORE_AWAY: calls fail quickly with -ENOTCONN, watches are silent; then either
 * STORE_READY, the ephemeral state being as it was and all watches having been, or being, brought
 * up to date; or STORE_LOST: the session has ended. The ephemeral state of all hosts that were up here is
 * gone (host_down() need not be called), waiting changes have ended with -ESHUTDOWN; watches live
 * on. STORE_READY follows when there is a new session.
 *
 * Watches. The caller allocates a struct store_watch, sets key, cb and arg, and keeps it where it
 * is from watch() to unwatch(). cb is called with the state (perhaps within watch()), and again
 * whenever the state has become another one, whoever changed it: states in between may be left
 * out, the same state may be told again, the last one is told in bounded time. There is no order
 * between cb and the end of the change that caused it. A callback may watch and unwatch anything,
 * itself included. Many watches may have the same key; the store should share what they cost.
 *
 * The room ffo/store/ has this table and the stores behind it; it may use base/ and ffr/lib/.
 */
#ifndef FFO_STORE_STORE_H
#define FFO_STORE_STORE_H

#include <assert.h>
#include <bsd/sys/queue.h>
#include <sys/types.h>
#include <uv.h>

#include "ffo/base/alloc.h"
#include "ffo/base/proto.h"
#include "ffo/base/limits.h"

#define STORE_PATIENCE 5000u  /* ms that a call may take, but for changes of ephemeral state */
#define STORE_SESSION  10000u /* ms until a dead process's ephemeral state is gone, at most */

enum store_state {
	STORE_READY,
	STORE_AWAY, /* not reached: may come back with all that was */
	STORE_LOST, /* the session ended: the hosts that were up here are not */
};

struct ffo_store {
	const struct ffo_store_ops *ops;
};

struct store_conf {
	const char *where; /* a file name, servers, or the like: what it means is the store's */
	uv_loop_t *loop;
	/*
	 * The pools; nothing is taken. The store may use it to keep what is taken (store_sqlite
	 * does) or only to learn a tenant's ranges: alloc_range(). It lives longer than the store.
	 */
	struct alloc *alloc;
	void (*state)(void *arg, enum store_state state);
	void *arg;
};

/* ---- what is read ---------------------------------------------------------------------------- */

/* X(KIND, fields of the key that are set) */
#define STORE_KINDS(X)                                                                             \
	X(ADDR, "name (tenant), addr") /* the container that has the address */                    \
	X(LID, "lid")		       /* the container that has the LID */                        \
	X(NAME, "name")		       /* the container that has the name */                       \
	X(ID, "id")		       /* the container that has the id */                         \
	X(HOST, "name")                                                                            \
	X(OWNED, "name (host)") /* the containers of a host */                                     \
	X(MAP,                                                                                     \
	  "id, epoch, name (host)") /* the mappings of a container, of that epoch on that host */  \
	X(POLICY, "")                                                                              \
	X(TENANTS, "")                                                                             \
	X(MCAST, "name (tenant), addr (MGID)") /* the hosts with members of a group */

enum store_kind {
#define X(KIND, fields) STORE_##KIND,
	STORE_KINDS(X)
#undef X
		STORE_NUM_KINDS
};

/* What is not set is 0, so keys are compared and hashed by their bytes. */
struct store_key {
	enum store_kind kind;
	uint32_t id, epoch;
	uint32_t lid;
	struct in6_addr addr;
	char name[FFO_NAME_MAX];
};

static_assert(sizeof(struct store_key) == 32 + FFO_NAME_MAX, "no padding");

struct store_map_id {
	uint32_t container, rkey;
};

/* err != 0: the others are as if nothing were there. */
struct store_news {
	int err; /* -EBADMSG, -ENOMEM, -EIO */
	/*
	 * OWNED and MAP are told in parts. reset: all that was told before is void (the first time,
	 * and when changes were missed). synced: with this part, everything has been told.
	 */
	bool reset, synced;
	union {
		/* ADDR, LID, NAME, ID: or NULL. `active` may be wrong and its changes are not told. */
		const struct ffo_container *container;
		const struct ffo_host *host; /* HOST: or NULL */
		struct { /* OWNED: that are the host's now, or changed; are not */
			const struct ffo_container *put;
			const uint32_t *del;
			size_t num_put, num_del;
		} owned;
		/*
		 * MAP: rkeys whose row is new, changed or gone; none are listed with reset, where
		 * `synced` says that they can be read: map_page() and map_row() answer at once
		 * from then on. Without a reset the rows are as map_row() says.
		 */
		struct {
			const uint32_t *rkeys;
			size_t num;
		} map;
		struct { /* POLICY */
			const struct ffo_rule *rules;
			size_t num;
		} policy;
		struct { /* TENANTS: those that have limits, by rising name */
			const struct ffo_tenant *list;
			size_t num;
		} tenants;
		struct { /* MCAST: up, all of them */
			const struct ffo_host *hosts;
			size_t num;
		} mcast;
	};
};

struct store_watch {
	struct store_key key;
	void (*cb)(void *arg, const struct store_news *news);
	void *arg;
	/* ---- the store's ---- */
	LIST_ENTRY(store_watch) entry;
	void *topic;
};

/* ---- callbacks ------------------------------------------------------------------------------- */

typedef void (*store_done_cb)(void *arg, int err, const char *why);
/* `count`: of what was there and is not any more. */
typedef void (*store_count_cb)(void *arg, int err, const char *why, size_t count);
/* c is set when err is 0, and with -EEXIST, -EAGAIN, -EBUSY if it is known (else NULL). */
typedef void (*store_container_cb)(void *arg, int err, const char *why,
				   const struct ffo_container *c);
/*
 * id: one line, shorter than STORE_ID_MAX, another one for each store that was ever made. last: the highest
 * id that a container got in it; 0: the store does not tell.
 */
typedef void (*store_identity_cb)(void *arg, int err, const char *why, const char *id,
				  uint32_t last);
/* A whole database file of store_sqlite. */
typedef void (*store_backup_cb)(void *arg, int err, const char *why, const void *data, size_t size);
typedef void (*store_host_cb)(void *arg, int err, const char *why, const struct ffo_host *h);
/* One page of a list, in order; `more`: there are more behind it. */
typedef void (*store_containers_cb)(void *arg, int err, const char *why,
				    const struct ffo_container *list, size_t n, bool more);
typedef void (*store_hosts_cb)(void *arg, int err, const char *why, const struct ffo_host *list,
			       size_t n, bool more);
typedef void (*store_maps_cb)(void *arg, int err, const char *why, const struct ffo_map *list,
			      size_t n, bool more);

#define STORE_ID_MAX 64u

#define STORE_IF_IDLE 1u /* container_set(): only if it is not active */

struct ffo_store_ops {
	const char *name;

	/*
	 * 0 or -errno, after a line in the log. A store that is reached over a network opens
	 * without it being there, and then becomes STORE_READY; one that is damaged or of a newer
	 * version is refused here if that can be told, or later: STORE_READY never comes, calls
	 * fail with -EBADMSG.
	 */
	int (*open)(const struct store_conf *conf, struct ffo_store **s);
	/*
	 * NULL is fine. Calls under way end with -ECANCELED before it returns; all watches were
	 * ended before. Its own handles may close later, as the loop runs on. The ephemeral state of
	 * this process goes.
	 */
	void (*close)(struct ffo_store *s);

	/*
	 * Which store this is. A copy that is restored is the same store, with an older `last`.
	 */
	void (*identity)(struct ffo_store *s, store_identity_cb done, void *arg);

	/*
	 * A copy of all that is kept, as of one moment, with the store's identity. -EOPNOTSUPP:
	 * this store is backed up by its own means.
	 */
	void (*backup)(struct ffo_store *s, store_backup_cb done, void *arg);

	/* ---- sessions of hosts ---- */

	/*
	 * h->name is up: instance, wire and last_seen as given. -EEXIST: it is, with another
	 * instance, or with an empty one, wherever. One with the same instance, wherever, is taken
	 * over: its ephemeral state is gone, as after host_down().
	 */
	void (*host_up)(struct ffo_store *s, const struct ffo_host *h, store_done_cb done,
			void *arg);
	/*
	 * It is not, if it was up here with that instance, whatever err is; its last_seen becomes
	 * as given, if it can.
	 */
	void (*host_down)(struct ffo_store *s, const struct ffo_host *h, store_done_cb done,
			  void *arg);

	/*
	 * Forget that host, until it is up again. -ENOENT; -EBUSY: it is up. The caller has looked whether it has
	 * containers. A watch of kind HOST may go on telling it as down.
	 */
	void (*host_del)(struct ffo_store *s, const char *name, store_done_cb done, void *arg);

	/*
	 * The change of hosts, containers, the policy or tenants that is asked for next is only tried: it
	 * ends as it would, with what it would give, and nothing has changed. 0, or -EOPNOTSUPP.
	 */
	int (*try_next)(struct ffo_store *s);

	/* ---- containers ---- */

	/*
	 * c: name, tenant, mode, host and limits; id, epoch and lid are the store's to give, unless the
	 * id is not 0: then all three are as given, and ip[] is, too; ip[] as given
	 * (they may be used: alloc_addr_ok()), or, when num_ips is 0, one of each family from the
	 * tenant's pools, IPv4 first, neither the network's address, its first host, nor the
	 * broadcast address (alloc_range()). Which free one is the store's; store_sqlite takes the
	 * lowest. -EEXIST: the name, a given id or a given LID is taken; -EADDRINUSE: a given address
	 * is, in the tenant; -ENOSPC: a pool, or the LIDs, are used up.
	 */
	void (*container_add)(struct ffo_store *s, const struct ffo_container *c,
			      store_container_cb done, void *arg);
	/*
	 * What was read as `was` becomes `now`, which has the same id, name, tenant and lid, and
	 * perhaps other addresses, other limits, another mode, another host with an epoch above the one before.
	 * With another host it is not active any more, and the mappings of its older epochs are
	 * gone. -EAGAIN: it is not as `was` any more; -ENOENT; -EADDRINUSE; -EBUSY: STORE_IF_IDLE
	 * and it is active.
	 */
	void (*container_set)(struct ffo_store *s, const struct ffo_container *was,
			      const struct ffo_container *now, unsigned int flags,
			      store_container_cb done, void *arg);
	/* With its mappings. done has it as it was. -EAGAIN, -ENOENT. */
	void (*container_del)(struct ffo_store *s, const struct ffo_container *was,
			      store_container_cb done, void *arg);
	/*
	 * By a key of kind ADDR, LID, NAME or ID; `active` and `version` are right. -ENOENT.
	 * A change that ended before is seen.
	 */
	void (*container_get)(struct ffo_store *s, const struct store_key *key,
			      store_container_cb done, void *arg);
	/* Of a host (NULL: all), ids above `after`, rising; at most `limit` <= FFO_PAGE_MAX. */
	void (*container_list)(struct ffo_store *s, const char *host, uint32_t after, size_t limit,
			       store_containers_cb done, void *arg);
	/* `up` is right. -ENOENT. */
	void (*host_get)(struct ffo_store *s, const char *name, store_host_cb done, void *arg);
	/* Names behind `after` ("": all), rising by byte; at most `limit` <= FFO_PAGE_MAX. */
	void (*host_list)(struct ffo_store *s, const char *after, size_t limit, store_hosts_cb done,
			  void *arg);

	/* ---- ephemeral state of a host that is up here; the caller has checked whose containers ---- */

	/*
	 * n <= FFO_BATCH_MAX rows of containers of that host; each takes the place of one with the
	 * same (container, epoch, rkey). Rows of an epoch that is not the container's (any more)
	 * do no harm: nobody reads them, map_drop() or the end of the session removes them.
	 */
	void (*map_put)(struct ffo_store *s, const char *host, const struct ffo_map *rows, size_t n,
			store_done_cb done, void *arg);
	/* n <= FFO_BATCH_MAX, of whatever epoch. */
	void (*map_del)(struct ffo_store *s, const char *host, const struct store_map_id *ids,
			size_t n, store_count_cb done, void *arg);
	/* Those of a container: of that session (0: all) and that epoch (0: all). */
	void (*map_drop)(struct ffo_store *s, const char *host, uint32_t container, uint32_t epoch,
			 uint32_t session, store_done_cb done, void *arg);
	/* Has nothing to do (0) when its epoch is not the container's any more. */
	void (*container_active)(struct ffo_store *s, const char *host, uint32_t container,
				 uint32_t epoch, bool active, store_done_cb done, void *arg);
	/*
	 * The host is a member, or is not; 0 when that is so already. -ENOSPC: FFO_GROUP_MAX
	 * hosts are.
	 */
	void (*mcast_member)(struct ffo_store *s, const char *host, const char *tenant,
			     const struct in6_addr *mgid, bool member, store_done_cb done,
			     void *arg);

	/* ---- mappings ---- */

	/*
	 * Of a container (0: all), behind (container, rkey), rising; at most `limit` <=
	 * FFO_BATCH_MAX. Only rows of the containers' epochs.
	 */
	void (*map_list)(struct ffo_store *s, uint32_t only, uint32_t container, uint32_t rkey,
			 size_t limit, store_maps_cb done, void *arg);
	/*
	 * At once, of a watch of kind MAP that is synced: up to n rows with rkeys above `after`,
	 * rising: their number, or -errno. And one row: 0, -ENOENT.
	 */
	ssize_t (*map_page)(struct ffo_store *s, const struct store_watch *w, uint32_t after,
			    struct ffo_map *rows, size_t n);
	int (*map_row)(struct ffo_store *s, const struct store_watch *w, uint32_t rkey,
		       struct ffo_map *row);

	/* ---- policy ---- */

	/* Put that rule in, in place of one with the same parties. -ENOSPC: FFO_RULES_MAX. */
	void (*policy_set)(struct ffo_store *s, const struct ffo_rule *rule, store_done_cb done,
			   void *arg);
	/* Take out the one with these parties. -ENOENT. */
	void (*policy_rm)(struct ffo_store *s, const struct ffo_rule *rule, store_done_cb done,
			  void *arg);

	/*
	 * Change the limits of a tenant's containers on a host; it is on the list while it has
	 * any. -ENOSPC: FFO_TENANTS_MAX have.
	 */
	void (*tenant_set)(struct ffo_store *s, const char *tenant,
			   const struct ffo_limits_change *change, store_done_cb done, void *arg);

	/* ---- watches ---- */

	void (*watch)(struct ffo_store *s, struct store_watch *w);
	void (*unwatch)(struct ffo_store *s, struct store_watch *w);
};

/* X(op) for each op of the table. A store has each as a function of its own name and the op's. */
#define FFO_STORE_OPS(X)                                                                           \
	X(open)                                                                                    \
	X(close)                                                                                   \
	X(identity)                                                                                \
	X(backup)                                                                                  \
	X(host_up)                                                                                 \
	X(host_down)                                                                               \
	X(host_del)                                                                                \
	X(try_next)                                                                                \
	X(container_add)                                                                           \
	X(container_set)                                                                           \
	X(container_del)                                                                           \
	X(container_get)                                                                           \
	X(container_list)                                                                          \
	X(host_get)                                                                                \
	X(host_list)                                                                               \
	X(map_put)                                                                                 \
	X(map_del)                                                                                 \
	X(map_drop)                                                                                \
	X(container_active)                                                                        \
	X(mcast_member)                                                                            \
	X(map_list)                                                                                \
	X(map_page)                                                                                \
	X(map_row)                                                                                 \
	X(policy_set)                                                                              \
	X(policy_rm)                                                                               \
	X(tenant_set)                                                                              \
	X(watch)                                                                                   \
	X(unwatch)

/* The type of the function that carries an op out. */
#define STORE_OP(op) __typeof__(*((struct ffo_store_ops *)NULL)->op)

#define X(op) +1
static_assert(sizeof(struct ffo_store_ops) == (1 FFO_STORE_OPS(X)) * sizeof(void *),
	      "FFO_STORE_OPS has all ops");
#undef X

extern const struct ffo_store_ops store_sqlite;
extern const struct ffo_store_ops store_zk;

#endif
