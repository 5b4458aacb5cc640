/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * internal.h - inside the directory: dir.c (entries, [lock]), sub.c (what the orchestrator is
 * asked, control thread), event.c (what it says, control thread), map.c (mappings, [lock]),
 * policy.c (rules, [lock]).
 *
 * Fields are [lock] unless they are marked [ctl].
 */
#ifndef FFR_DIR_INTERNAL_H
#define FFR_DIR_INTERNAL_H

#include <jansson.h>
#include <uv.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "ffo/base/proto.h"
#include "ffr/dir/ctl.h"
#include "ffr/dir/dir.h"
#include "ffr/lib/timer.h"

/* ---- what the orchestrator is to tell, or is told ------------------------------------------- */

enum sub_kind {
	SUB_RESOLVE, /* who has an address, where is a container */
	SUB_MAP,     /* its mappings */
	SUB_MCAST,   /* the hosts of a group */
	SUB_MEMBER,  /* this host is one of them */
};

/*
 * `want` is the state that is to be, `told` the one that is. Where they differ the subscription is
 * queued; the control thread makes one call at a time for it, so that they stay in order.
 */
struct dir_sub {
	TAILQ_ENTRY(dir_sub) todo; /* owner->todo, while queued */
	struct dir_entry *e;
	uint8_t kind; /* enum sub_kind */
	bool want, told, queued;
	bool busy, telling; /* a call is under way, to make `told` that */
	bool stale;	    /* what was told was forgotten: it is to be told anew, if at all */
	bool failed;	    /* the orchestrator refused; tried again after a while */
};

/* What `told` is to become next. */
static inline bool sub_target(const struct dir_sub *s)
{
	return s->want && !s->stale;
}
TAILQ_HEAD(dir_todo, dir_sub);

/* ---- entries -------------------------------------------------------------------------------- */

enum entry_kind { ENTRY_GID, ENTRY_LID, ENTRY_ID, ENTRY_GROUP };

struct dir_key {
	uint64_t salt;
	char tenant[CONTAINER_NAME_MAX]; /* "" for ENTRY_ID */
	union ibv_gid gid;
	uint32_t num; /* LID or id */
	uint32_t kind;
};

/*
 * An address, a container or a group. It stays while somebody uses it, and after that until its
 * owner needs the room (`want` is false then, and it goes when the orchestrator was told).
 */
struct dir_entry {
	struct dir_key key;
	UT_hash_handle hh;
	struct dir *dir;
	TAILQ_ENTRY(dir_entry) lru; /* owner->entries */
	struct dir_owner *owner;
	bool live; /* counts in owner->live */
	struct dir_sub sub, more;
	bool answered;	/* the orchestrator has said something */
	uint32_t store; /* ENTRY_ID: dir->store when the orchestrator had it last */
	uint64_t used;	/* ns: when it was asked for last */
	/* ENTRY_ID: the container; of the others: what those who wait hold */
	struct remote r;
	bool here;	      /* ENTRY_ID: it is on this host */
	struct dir_entry *at; /* addresses: who has it, an ENTRY_ID; NULL: nobody */
	uint32_t users;	      /* ENTRY_ID: addresses that lead to it */
	/* ENTRY_GROUP */
	struct wire_peer **peers;
	uint32_t num_peers;
};
TAILQ_HEAD(dir_lru, dir_entry);

/*
 * For whose sake an entry is there: a container of this host (what its programs ask for), a tenant
 * (its groups), or, with neither, the other hosts (containers that they named). Each has so much
 * room, and its requests wait behind its own, not behind the others'.
 */
struct dir_owner {
	uint32_t id;
	char tenant[CONTAINER_NAME_MAX];
	UT_hash_handle hh;
	struct dir_lru entries; /* the least lately used first */
	uint32_t num, live;	/* of them; those not given up */
	struct dir_todo todo;
	TAILQ_ENTRY(dir_owner) turn; /* dir->turns, while todo is not empty */
};
TAILQ_HEAD(dir_owners, dir_owner);

#define DIR_ROOM 2048u /* live entries of an owner; as many again may be on their way out */

struct dir_rule {
	char pair[2 * FFO_PARTY_MAX]; /* "PARTY PARTY", the lesser one first */
	bool allow;
	UT_hash_handle hh;
};

struct dir_policy {
	struct dir_rule *rules;
};

#define DIR_MAX 60000u /* entries of all owners: the orchestrator tells FFO_SUBS_MAX things */

struct dir {
	struct fast *f; /* the host's first thread: its time, its timers, its wires */
	struct dir_conf conf;
	dir_ask_fn *ask;   /* [ctl] dir_connected() has told; NULL: not yet */
	struct orch *orch; /* [ctl] of ask() */
	uint64_t salt;
	struct dir_entry *entries;
	struct dir_owner *owners;
	struct dir_owner *others; /* the other hosts' */
	struct dir_owners turns;
	struct dir_policy policy;
	bool connected;		     /* the orchestrator is there */
	uint32_t store;		     /* grows when the orchestrator has another store */
	uint32_t busy;		     /* calls under way */
	uint32_t failed;	     /* subscriptions that were refused */
	void (*wake)(struct dir *d); /* something is queued; any thread */
	/* [ctl] sub.c */
	uv_async_t async;
	uv_timer_t tick;
	unsigned open_handles;
	uint32_t num_wanted; /* hosts that are asked for */
};

/* The directory, on a thread that has one; NULL: there is none, or it is another's. */
static inline struct dir *dir_of(const struct fast *f)
{
	return f == f->host->threads[0] ? f->host->dir : NULL;
}

/* ---- dir.c [lock] --------------------------------------------------------------------------- */

/* A directory without anything in it; nobody else has it yet. NULL: out of memory. */
struct dir *dir_new(const struct dir_conf *conf);
/* No call is under way, nobody has a reference: only the struct is left. */
void dir_clear(struct dir *d);

/* The entry of that key, or NULL. tenant, gid: NULL where the kind has none. */
struct dir_entry *entry_find(struct dir *d, enum entry_kind kind, const char *tenant,
			     const union ibv_gid *gid, uint32_t num);
/* The entry of that key, which is made if there is none; NULL: the owner has no room, or there is no memory. */
struct dir_entry *entry_get(struct dir *d, struct dir_owner *owner, enum entry_kind kind,
			    const char *tenant, const union ibv_gid *gid, uint32_t num);
/* Nobody needs it any more. It may be gone afterwards. */
void entry_give_up(struct dir *d, struct dir_entry *e);
/* Free it if it was given up and the orchestrator knows. */
void entry_reap(struct dir *d, struct dir_entry *e);
/* Does anybody use it? */
bool entry_pinned(const struct dir_entry *e);
/* Tell those who use it. */
void entry_changed(struct dir *d, struct dir_entry *e);
void entry_lead(struct dir *d, struct dir_entry *e, struct dir_entry *at);
void entry_peers_free(struct dir_entry *e); /* a group's hosts are not known */
void sub_want(struct dir *d, struct dir_sub *s, bool want);
/* Have the control thread look at it, if there is something to do. */
void sub_queue(struct dir *d, struct dir_sub *s);
/* The next one that is queued, all owners in turn; NULL: none. */
struct dir_sub *sub_next(struct dir *d);

/* ---- sub.c, control thread -------------------------------------------------------------- */

/* For peers_on_stranger(); arg: the directory. */
void dir_want_host(void *arg, const char *host);

/* ---- event.c, control thread ------------------------------------------------------------ */

/* What the orchestrator says of an address, a container or a group. */
struct dir_told {
	bool nobody, host_known;
	struct ffo_container cont;
	struct ffo_host host;
	struct ffo_host *hosts; /* of a group: num_hosts */
	size_t num_hosts;
};

/* From the answer to that kind of subscription, or its event. 0, -EINVAL, -ENOMEM. */
int told_parse(struct dir_told *t, enum sub_kind kind, json_t *msg);
void told_free(struct dir_told *t);
/* [lock] The entry is as the orchestrator says. */
void told_apply(struct dir *d, struct dir_entry *e, const struct dir_told *t);

/* ---- sub.c, control thread --------------------------------------------------------------- */

/* Every few seconds: what was refused is tried again, what nobody uses is given up. */
void dir_tick(struct dir *d, uint64_t now);

/* ---- map.c [lock] ----------------------------------------------------------------------- */

void maps_free(struct fast *f, struct remote *r);
uint32_t maps_epoch(const struct remote_maps *m);
/*
 * Mappings as the orchestrator tells them: maps_begin() when an event says `reset` or has another
 * epoch than before, then rows, then maps_end() with whether all are told now.
 */
void maps_begin(struct remote_maps *m, uint32_t epoch);
/*
 * Not [lock], control thread: make room for n rows more, between maps_begin() and maps_put(). The
 * entry is kept. 0; -ENOMEM, -E2BIG: what has no room will be refused here.
 */
int maps_reserve(struct remote_maps *m, uint32_t n);
/* 0 or -ENOMEM: no room. */
int maps_put(struct remote_maps *m, const struct ffo_map *row);
void maps_del(struct remote_maps *m, uint32_t rkey);
/* True: somebody waits for one of them. */
bool maps_end(struct remote_maps *m, bool synced);
/* Is the orchestrator there? */
void maps_online(struct remote_maps *m, bool online);

/* ---- policy.c [lock] -------------------------------------------------------------------- */

/* From an array of rules: a new policy. 0, -EINVAL, -ENOMEM. Needs no lock. */
int rules_parse(struct dir_policy *p, json_t *rules);
void rules_free(struct dir_policy *p);
bool rules_same(const struct dir_policy *a, const struct dir_policy *b);
bool rules_allow(const struct dir_policy *p, const char *tenant_a, const char *name_a,
		 const char *tenant_b, const char *name_b);

#endif
