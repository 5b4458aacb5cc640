/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * zks.h - inside the store on ZooKeeper: struct zks and what its files share.
 *
 *	zks.c	open and close, the session's ups and downs, the tree's version
 *	container.c	changes of containers, with their conditions
 *	query.c	containers that are asked for, and where they are in the tree
 *	policy.c	changes of the policy and of the tenants' limits
 *	host.c	hosts that are up here, and those that others left behind
 *	ephemeral.c	ephemeral nodes of hosts here: mappings in segments, what is active, groups
 *	topic.c	watches
 *	maps.c	lists of mappings
 *	follow.c	a node that is read whenever it changes
 *	rows.c	mappings by rkey, on both sides
 *	rec.c	payloads
 *	acl.c		who may change which node
 *	zk.c, call.c	the session, its requests
 *
 * The tree, below the root ("/freeflow"). R is a container's record, the same in all of them; [e] is
 * ephemeral, its owner the session of the orchestrator where the host is up; <id> has ten digits.
 *
 *	version			the tree's, 2
 *	ids/			a numbered node is made for each new container: its number is the id
 *	containers/<id>		R; its version is the condition of each change of the container
 *	names/<name>  lids/<lid>  addrs/<tenant>/<address>
 *				R: made in the same step as containers/<id>, so each is unique, and
 *				who looks for one has its answer in one round trip
 *	owned/<host>/<id>	empty: that host's containers
 *	hosts/<host>		its record, when it was up last
 *	hosts/<host>/up	[e]	its record; the session and the process
 *	hosts/<host>/maps/<id>/<epoch>-<session>-<n> [e]
 *				up to SEG_ROWS mappings of a container that is there in that epoch
 *	active/<id>-<epoch> [e]	the container has sessions
 *	mcast/<tenant>/<mgid>/<host> [e]
 *				the host's record
 *	policy			the rules
 *	tenants			the tenants' limits; absent until there were some
 *
 * addrs/<tenant>, owned/<host>, hosts/<host>/maps/... and mcast/... are ZooKeeper's container nodes: it removes
 * them when they have been empty for a while, and who needs one makes it again.
 *
 * What only a host writes is below hosts/<host>, where ZooKeeper lets nobody else make or remove anything:
 * the right to remove a node is its folder's.
 *
 * An epoch that has passed needs no cleaning up to be void: nobody reads its segments, nor what was
 * active in it.
 */
#ifndef FFO_STORE_ZK_ZKS_H
#define FFO_STORE_ZK_ZKS_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "ffr/lib/log.h"
#include "ffo/store/store.h"
#include "ffo/store/topic.h"
#include "ffo/store/zk/zk.h"
#include "ffo/store/zk/rec.h"

struct follow;
struct node;
struct held;
struct up_call;
struct uphost;
struct watched;

#define ZKS_OPEN_TO_ALL "none-anyone-may-change-the-cluster" /* in the place of a file for auth= */

#define ZKS_DENIED "ZooKeeper lets only an operator's credentials do that"

/* A host, and the id of its credentials. */
struct zks_host {
	char name[FFO_NAME_MAX], id[160];
};

struct zks {
	struct ffo_store base; /* first */
	uv_loop_t *loop;
	struct alloc *alloc;
	void (*state)(void *arg, enum store_state state);
	void *arg;
	struct zk *zk;
	unsigned int timeout; /* ms, of the session */
	char servers[512], root[136], auth[256], own[256], operator_id[160];
	struct zks_host *enrolled; /* [num_enrolled], for an operator: whose folders there shall be */
	size_t num_enrolled;
	bool open_to_all;
	struct zk_session session; /* the one that is, or was last */
	bool ready;		   /* requests are taken */
	bool was_ready;		   /* requests were taken since the session began */
	bool refused;		   /* the tree is not for us */
	bool others_made; /* a node of the tree was there when this ffo was to make the tree */
	bool is_open;	  /* a node whose rights were read is open to clients without credentials */
	int rights_err;	  /* the first error of reading rights, -errno; 0: none */
	bool closing;
	unsigned int refs;	 /* open handles */
	struct log_limit damage; /* of lines about it */
	uv_timer_t retry;	 /* what could not be sent for lack of room */
	uv_timer_t flush;	 /* segments */
	uv_timer_t linger;	 /* what map_list() holds */

	/* follow.c */
	struct watched *watched; /* by path */
	STAILQ_HEAD(follow_queue, follow) unread;
	unsigned int reading;

	/* topic.c */
	struct topics topics;
	struct held *held; /* map_list()'s */

	/* ephemeral.c, host.c */
	LIST_HEAD(, uphost) hosts;
	LIST_HEAD(, up_call) ending;			/* wait for another session to end */
	STAILQ_HEAD(node_queue, node) urgent, segments; /* to be written */
	unsigned int writing;
	uint64_t flush_at; /* ns: no segment is written before */
	uint32_t seg_seq;
};

static inline struct zks *zks_of(struct ffo_store *s)
{
	return (struct zks *)s;
}

/* ---- zks.c ---- */

/* 0, or why nothing can be asked for: -ENOTCONN, -EBADMSG. */
int zks_usable(const struct zks *s);
/* A call's state, so many bytes of 0; NULL with *err where there is no memory, or nothing can be asked for. */
void *zks_call_new(const struct zks *s, size_t size, int *err);
/* An answer's error as store.h has it; a version that we do not know is damage. Logs damage. */
int zks_damage(struct zks *s, const char *path, int err);
/* Try again soon what could not be sent. */
void zks_retry(struct zks *s);
/* Make a folder, and those that it is in but the first: cb with 0 or -errno. */
int zks_mkdirs(struct zks *s, const char *path, zk_cb cb, void *arg);
/* The folder that the node is in. */
void zks_parent(const char *path, char *parent);
/* Is that error one that asking again may mend? The connection is there. */
static inline bool zks_again(int err)
{
	return err == -EAGAIN;
}

/* ---- rows.c: mappings by rkey ---- */

struct row {
	RB_ENTRY(row) node;
	LIST_ENTRY(row) entry; /* of the segment's */
	void *seg;
	uint32_t seen; /* topic.c: when the segment was read */
	uint32_t rkey, session, access, key;
	uint64_t addr, length, shadow;
};
LIST_HEAD(row_list, row);
RB_HEAD(row_tree, row);

struct row *row_find(struct row_tree *t, uint32_t rkey);
/* The row with the lowest rkey above `after`, or NULL; and the next one. */
struct row *row_above(struct row_tree *t, uint32_t after);
struct row *row_next(struct row *r);
/* A row with m's rkey that is not there yet, with m's fields; NULL: no memory. */
struct row *row_add(struct row_tree *t, const struct ffo_map *m);
/* Take m's fields; did that change any? */
bool row_update(struct row *r, const struct ffo_map *m);
void row_to_map(const struct row *r, uint32_t container, uint32_t epoch, struct ffo_map *m);
/* Out of its tree and its segment. */
void row_free(struct row_tree *t, struct row *r);

/* ---- follow.c ---- */

/*
 * Read a node, or its children, now and whenever they change: cb with err 0, -ENOENT (it is not
 * there) or another error that will not mend itself, until follow_free(). The same may be told again.
 */
struct follow *follow_new(struct zks *s, const char *path, bool children, zk_cb cb, void *arg);
void follow_free(struct follow *f);
const char *follow_path(const struct follow *f);
/* No change is known that was not told. */
bool follow_idle(const struct follow *f);
/* Read it once more. */
void follow_again(struct follow *f);
/* All that waits is read, as far as there is room. */
void follow_pump(struct zks *s);
/* No watch is set any more. */
void follow_all(struct zks *s);
void follow_changed(struct zks *s, const char *path);
size_t follow_count(const struct zks *s);

/* ---- topic.c ---- */

/* A watch of kind MAP: is it synced, with no change known that is still to be read? */
bool zks_map_settled(const struct store_watch *w);
/* For s->topics. */
void subject_unused(struct topics *ts, struct topic *t);

/* ---- ephemeral.c ---- */

/* A change of ephemeral state, from its call to its end. */
struct ephemeral_call {
	struct zks *s;
	unsigned int pending; /* nodes to be written, and one while it is put together */
	int err;
	size_t count;
	store_done_cb done; /* one of them, or none */
	store_count_cb counted;
	void (*own)(void *arg, int err);
	void *arg;
};

enum node_kind { NODE_UP, NODE_ACTIVE, NODE_MCAST, NODE_SEGMENT };

/* A host that is up here. */
struct uphost {
	LIST_ENTRY(uphost) entry;
	struct zks *s;
	struct ffo_host h;
	bool leaving;
	LIST_HEAD(node_list, node) nodes;
	struct node *by_path; /* but segments */
	struct mapset *maps;  /* by container and epoch */
	STAILQ_HEAD(, up_call) after;
};

struct ephemeral_call *ephemeral_begin(struct zks *s);
/* Nothing more is added to it: it ends with its last node. */
void ephemeral_end(struct ephemeral_call *c);
/* The host's node shall be there, or not; c waits for it. 0 or -ENOMEM. */
int ephemeral_node(struct uphost *h, enum node_kind kind, const char *path, bool want, bool there,
		   struct ephemeral_call *c);
/* None of the host's nodes shall be there but, if `up` is false, its node in up/. */
void ephemeral_drop(struct uphost *h, bool up, struct ephemeral_call *c);
void ephemeral_pump(struct zks *s);
/* The session is over, or the store closes: all of a host's nodes go, their calls end. */
void ephemeral_lost(struct uphost *h, int err);

/* ---- host.c ---- */

/* That is up here, and not leaving; NULL: none. */
struct uphost *uphost_find(struct zks *s, const char *name);
void uphost_all_lost(struct zks *s, int err);

/* ---- maps.c ---- */

/* Lets go of what lists have used; all of it when the store closes. */
void held_sweep(struct zks *s, bool all);

/* ---- query.c, policy.c ---- */

/* Paths; buffers have ZK_PATH_MAX bytes. */
void zks_id_path(uint32_t id, char *path);
void zks_name_path(const char *name, char *path);
void zks_lid_path(uint16_t lid, char *path);
void zks_addr_path(const char *tenant, const struct in6_addr *addr, char *path);
void zks_owned_path(const char *host, uint32_t id, char *path);
void zks_active_path(uint32_t id, uint32_t epoch, char *path);
void zks_up_path(const char *host, char *path);
/* The segments of a container on that host. */
void zks_maps_path(const char *host, uint32_t id, char *path);
/* The node that a container is found at. */
void zks_key_path(const struct store_key *key, char *buf);
/* Is the container what was looked for? */
bool zks_key_fits(const struct store_key *key, const struct ffo_container *c);

/* ---- the ops of the store, in the files of what they are about ---- */

#define X(op) STORE_OP(op) zks_##op;
FFO_STORE_OPS(X)
#undef X

#endif
