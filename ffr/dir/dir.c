/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * dir.c - the router's directory: addresses, containers of other hosts, multicast groups. [lock]
 *
 * Neighbours: sub.c (control thread) tells the orchestrator what is wanted here, event.c
 * (control thread) puts its answers in; map.c has the mappings, policy.c the rules.
 *
 * Nothing of the cluster is here that nobody asked for. What was asked for is an entry, and the
 * orchestrator tells of its changes for as long as there is one. An address leads to a container,
 * which is an entry of its own, by its id, and is the same for all who have found it. What those
 * who wait at an address hold is the address' own struct remote, which is nobody's. A link-local GID is
 * another way to write a LID (obj/gid.h): the orchestrator is asked for the LID.
 *
 * While the orchestrator is away all entries stay as they are. When it is back it is asked for all
 * of them again, and the differences are told.
 *
 * Programs decide how many addresses are asked for. So each container has so much room (DIR_ROOM),
 * in which the least lately used one makes place for the next, and its own queue of requests. What
 * is used (a reference, a membership) stays; who has only such finds no more room, and waits until
 * its transport gives up.
 */
#include "ffr/dir/internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "ffr/fast/backend.h"
#include "ffr/fast/internal.h"
#include "ffr/peer/peer.h"

/* ---- owners --------------------------------------------------------------------------------- */

#define OWNER_KEY_SZ (offsetof(struct dir_owner, hh) - offsetof(struct dir_owner, id))

static struct dir_owner *owner_get(struct dir *d, uint32_t id, const char *tenant)
{
	struct dir_owner key = { .id = id }, *o;

	strncpy(key.tenant, tenant, sizeof(key.tenant) - 1);
	HASH_FIND(hh, d->owners, &key.id, OWNER_KEY_SZ, o);
	if (o)
		return o;
	o = calloc(1, sizeof(*o));
	if (!o)
		return NULL;
	memcpy(&o->id, &key.id, OWNER_KEY_SZ);
	TAILQ_INIT(&o->entries);
	TAILQ_INIT(&o->todo);
	HASH_ADD(hh, d->owners, id, OWNER_KEY_SZ, o);
	if (o->hh.tbl)
		return o;
	free(o);
	return NULL;
}

static void owner_add(struct dir_owner *o, struct dir_entry *e)
{
	e->owner = o;
	o->num++;
	o->live += e->live;
	TAILQ_INSERT_TAIL(&o->entries, e, lru);
}

static void owner_del(struct dir_entry *e)
{
	struct dir_owner *o = e->owner;

	TAILQ_REMOVE(&o->entries, e, lru);
	o->num--;
	o->live -= e->live;
}

/* ---- subscriptions -------------------------------------------------------------------------- */

void sub_queue(struct dir *d, struct dir_sub *s)
{
	struct dir_owner *o = s->e->owner;

	if (s->queued || s->busy)
		return;
	s->queued = true;
	if (TAILQ_EMPTY(&o->todo))
		TAILQ_INSERT_TAIL(&d->turns, o, turn);
	TAILQ_INSERT_TAIL(&o->todo, s, todo);
	d->wake(d);
}

static void sub_unqueue(struct dir *d, struct dir_sub *s)
{
	struct dir_owner *o = s->e->owner;

	if (!s->queued)
		return;
	s->queued = false;
	TAILQ_REMOVE(&o->todo, s, todo);
	if (TAILQ_EMPTY(&o->todo))
		TAILQ_REMOVE(&d->turns, o, turn);
}

struct dir_sub *sub_next(struct dir *d)
{
	struct dir_owner *o = TAILQ_FIRST(&d->turns);
	struct dir_sub *s;

	if (!o)
		return NULL;
	s = TAILQ_FIRST(&o->todo);
	sub_unqueue(d, s);
	if (!TAILQ_EMPTY(&o->todo)) {
		TAILQ_REMOVE(&d->turns, o, turn);
		TAILQ_INSERT_TAIL(&d->turns, o, turn);
	}
	return s;
}

void sub_want(struct dir *d, struct dir_sub *s, bool want)
{
	if (s->want == want)
		return;
	s->want = want;
	d->failed -= s->failed;
	s->failed = false;
	if (d->connected && sub_target(s) != s->told)
		sub_queue(d, s);
}

/* What was told of it is forgotten. */
static void sub_forget(struct dir *d, struct dir_sub *s)
{
	s->stale = s->told || s->busy;
	sub_want(d, s, false);
}

/* ---- entries -------------------------------------------------------------------------------- */

static void key_make(const struct dir *d, struct dir_key *key, enum entry_kind kind,
		     const char *tenant, const union ibv_gid *gid, uint32_t num)
{
	memset(key, 0, sizeof(*key));
	key->salt = d->salt;
	key->kind = kind;
	key->num = num;
	if (tenant)
		strncpy(key->tenant, tenant, sizeof(key->tenant) - 1);
	if (gid)
		key->gid = *gid;
}

static struct dir_entry *find(struct dir *d, const struct dir_key *key)
{
	struct dir_entry *e;

	HASH_FIND(hh, d->entries, key, sizeof(*key), e);
	return e;
}

struct dir_entry *entry_find(struct dir *d, enum entry_kind kind, const char *tenant,
			     const union ibv_gid *gid, uint32_t num)
{
	struct dir_key key;

	key_make(d, &key, kind, tenant, gid, num);
	return find(d, &key);
}

bool entry_pinned(const struct dir_entry *e)
{
	return e->r.refs || e->users || (e->key.kind == ENTRY_GROUP && e->more.want);
}

/* Used just now: the last of its owner's to go. */
static void touch(struct dir *d, struct dir_entry *e)
{
	e->used = d->f->now;
	if (TAILQ_NEXT(e, lru)) {
		TAILQ_REMOVE(&e->owner->entries, e, lru);
		TAILQ_INSERT_TAIL(&e->owner->entries, e, lru);
	}
}

void entry_lead(struct dir *d, struct dir_entry *e, struct dir_entry *at)
{
	(void)d;
	if (at)
		at->users++;
	if (e->at)
		e->at->users--;
	e->at = at;
}

void entry_peers_free(struct dir_entry *e)
{
	for (uint32_t i = 0; i < e->num_peers; i++)
		peer_put(e->peers[i]);
	free(e->peers);
	e->peers = NULL;
	e->num_peers = 0;
}

static void entry_free(struct dir *d, struct dir_entry *e)
{
	sub_unqueue(d, &e->sub);
	sub_unqueue(d, &e->more);
	d->failed -= e->sub.failed + e->more.failed;
	entry_lead(d, e, NULL);
	entry_peers_free(e);
	maps_free(d->f, &e->r);
	if (e->r.peer)
		peer_put(e->r.peer);
	owner_del(e);
	HASH_DEL(d->entries, e);
	free(e);
}

void entry_reap(struct dir *d, struct dir_entry *e)
{
	if (!e->live && !e->sub.told && !e->sub.busy && !e->more.told && !e->more.busy)
		entry_free(d, e);
}

void entry_give_up(struct dir *d, struct dir_entry *e)
{
	if (e->live)
		e->owner->live--;
	e->live = false;
	sub_forget(d, &e->sub);
	sub_forget(d, &e->more);
	entry_lead(d, e, NULL);
	entry_peers_free(e);
	maps_free(d->f, &e->r);
	e->answered = false;
	entry_reap(d, e);
}

/* True: there is room for one more. */
static bool make_room(struct dir *d, struct dir_owner *o)
{
	struct dir_entry *e, *last = TAILQ_LAST(&o->entries, dir_lru);

	if (o->num >= 2 * DIR_ROOM || HASH_COUNT(d->entries) >= DIR_MAX)
		return false;
	for (int i = 0; o->live >= DIR_ROOM && i < 32; i++) {
		e = TAILQ_FIRST(&o->entries);
		if (e->live && !entry_pinned(e)) {
			entry_give_up(d, e);
			return true;
		}
		if (e == last)
			break;
		touch(d, e);
	}
	return o->live < DIR_ROOM;
}

static struct dir_entry *entry_new(struct dir *d, const struct dir_key *key)
{
	struct dir_entry *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->key = *key;
	e->dir = d;
	e->r.entry = e;
	e->sub.e = e->more.e = e;
	e->sub.kind = key->kind == ENTRY_GROUP ? SUB_MCAST : SUB_RESOLVE;
	e->more.kind = key->kind == ENTRY_GROUP ? SUB_MEMBER : SUB_MAP;
	HASH_ADD(hh, d->entries, key, sizeof(e->key), e);
	if (e->hh.tbl)
		return e;
	free(e);
	return NULL;
}

static void entry_move(struct dir *d, struct dir_entry *e, struct dir_owner *to)
{
	bool sub = e->sub.queued, more = e->more.queued;

	sub_unqueue(d, &e->sub);
	sub_unqueue(d, &e->more);
	owner_del(e);
	owner_add(to, e);
	if (sub)
		sub_queue(d, &e->sub);
	if (more)
		sub_queue(d, &e->more);
}

struct dir_entry *entry_get(struct dir *d, struct dir_owner *o, enum entry_kind kind,
			    const char *tenant, const union ibv_gid *gid, uint32_t num)
{
	struct dir_entry *e;
	struct dir_key key;

	key_make(d, &key, kind, tenant, gid, num);
	e = find(d, &key);
	if (e && e->live) {
		touch(d, e);
		return e;
	}
	if (!make_room(d, o))
		return NULL;
	/* one that was given up: it is here again, and the new owner's */
	e = find(d, &key);
	if (e) {
		entry_move(d, e, o);
	} else {
		e = entry_new(d, &key);
		if (!e)
			return NULL;
		owner_add(o, e);
	}
	e->live = true;
	o->live++;
	e->used = d->f->now;
	return e;
}

void entry_changed(struct dir *d, struct dir_entry *e)
{
	union ibv_gid mgid = e->key.gid;

	if (e->key.kind == ENTRY_GROUP)
		d->f->be->ops->mcast_changed(d->f, e->key.tenant, &mgid);
	else
		CARRIERS_DO(news, d->f, &e->r);
}

/* ---- asked ---------------------------------------------------------------------------------- */

static struct container *find_here(struct fast *f, const struct container *from,
				   const struct ff_ah_attr *ah)
{
	union ibv_gid gid;

	if (!ah->is_global)
		return container_by_lid(&f->host->containers, from->tenant, ah->dlid);
	memcpy(&gid, ah->dgid, sizeof(gid));
	return container_by_gid(&f->host->containers, from->tenant, &gid);
}

static struct container *here_by_id(const struct fast_host *h, uint32_t id)
{
	struct container *c;

	LIST_FOREACH(c, &h->containers, entry)
		if (c->id == id)
			return c;
	return NULL;
}

static struct dir_entry *path_entry(struct dir *d, const struct container *from,
				    const struct ff_ah_attr *ah)
{
	struct dir_owner *o = owner_get(d, from->id, "");
	uint16_t lid = ah->is_global ? gid_lid(ah->dgid) : ah->dlid;
	struct dir_entry *e;
	union ibv_gid gid;

	if (!o)
		return NULL;
	memcpy(&gid, ah->dgid, sizeof(gid));
	if (ah->is_global && !lid)
		e = entry_get(d, o, ENTRY_GID, from->tenant, &gid, 0);
	else
		e = entry_get(d, o, ENTRY_LID, from->tenant, NULL, lid);
	if (e)
		sub_want(d, &e->sub, true);
	return e;
}

static enum dir_answer path_answer(struct fast *f, const struct container *from,
				   struct dir_entry *e, struct container **here,
				   struct remote **there)
{
	struct dir_entry *at = e->at;
	struct container *c;

	*there = &e->r;
	if (!e->answered)
		return DIR_WAIT;
	if (!at || !at->r.epoch)
		return DIR_NOBODY;
	c = here_by_id(f->host, at->r.id);
	if (!c && at->here)
		return DIR_WAIT; /* it is about to be attached */
	*there = NULL;
	if (!dir_allowed(f->host, from, at->r.tenant, at->r.name))
		return DIR_DENIED;
	touch(e->dir, at);
	if (c)
		*here = c;
	else
		*there = &at->r;
	return c ? DIR_HERE : DIR_REMOTE;
}

enum dir_answer dir_path(struct fast *f, const struct container *from, const struct ff_ah_attr *ah,
			 struct container **here, struct remote **there)
{
	struct dir *d = dir_of(f);
	struct dir_entry *e;

	*there = NULL;
	*here = find_here(f, from, ah);
	if (*here) {
		if (dir_allowed(f->host, from, (*here)->tenant, (*here)->name))
			return DIR_HERE;
		*here = NULL;
		return DIR_DENIED;
	}
	if (!d)
		return DIR_NOBODY;
	e = path_entry(d, from, ah);
	return e ? path_answer(f, from, e, here, there) : DIR_WAIT;
}

struct container *dir_meet(struct container *c, const struct ff_ah_attr *path)
{
	struct fast_host *h = c->fast->host;
	struct container *here;
	struct remote *there;
	enum dir_answer a;

	if (h->num_threads == 1)
		return NULL;
	fast_lock(h);
	a = dir_path(h->threads[0], c, path, &here, &there);
	if (a == DIR_HERE)
		fast_bring(c, here);
	else if (h->wired && a != DIR_DENIED)
		fast_bring(c, NULL);
	if (a == DIR_HERE && here->fast != c->fast)
		here = NULL;
	fast_unlock(h);
	return here;
}

struct remote *dir_by_id(struct fast *f, uint32_t id)
{
	struct dir *d = dir_of(f);
	struct dir_entry *e;

	if (!d || !id)
		return NULL;
	e = entry_find(d, ENTRY_ID, NULL, NULL, id);
	if (!e || !e->live)
		e = entry_get(d, d->others, ENTRY_ID, NULL, NULL, id);
	if (!e)
		return NULL;
	touch(d, e);
	sub_want(d, &e->sub, true);
	return e->answered && e->r.epoch ? &e->r : NULL;
}

bool dir_allowed(const struct fast_host *h, const struct container *here, const char *tenant,
		 const char *name)
{
	const struct dir *d = h->dir;

	if (!d)
		return !strcmp(here->tenant, tenant);
	return rules_allow(&d->policy, here->tenant, here->name, tenant, name);
}

void remote_get(struct remote *r)
{
	r->refs++;
}

void remote_put(struct fast *f, struct remote *r)
{
	struct dir *d = dir_of(f);

	r->refs--;
	if (!r->refs && d)
		touch(d, r->entry);
}

/* ---- groups --------------------------------------------------------------------------------- */

static struct dir_entry *group_get(struct dir *d, const char *tenant, const union ibv_gid *mgid)
{
	struct dir_owner *o = owner_get(d, 0, tenant);

	return o ? entry_get(d, o, ENTRY_GROUP, tenant, mgid, 0) : NULL;
}

int dir_mcast(struct fast *f, const char *tenant, const union ibv_gid *mgid,
	      struct wire_peer ***peers)
{
	struct dir *d = dir_of(f);
	struct dir_entry *e;

	*peers = NULL;
	if (!d)
		return 0;
	e = group_get(d, tenant, mgid);
	if (!e)
		return -1;
	sub_want(d, &e->sub, true);
	*peers = e->peers;
	return e->answered ? (int)e->num_peers : -1;
}

void dir_mcast_member(struct fast *f, const char *tenant, const union ibv_gid *mgid, bool join)
{
	struct dir *d = dir_of(f);
	struct dir_entry *e;

	if (!d)
		return;
	if (join)
		e = group_get(d, tenant, mgid);
	else
		e = entry_find(d, ENTRY_GROUP, tenant, mgid, 0);
	if (e)
		sub_want(d, &e->more, join);
}

bool dir_mcast_pending(struct fast *f, const char *tenant, const union ibv_gid *mgid)
{
	struct dir *d = dir_of(f);
	struct dir_entry *e;

	if (!d || !d->connected)
		return false;
	e = entry_find(d, ENTRY_GROUP, tenant, mgid, 0);
	return e && e->more.want && !e->more.failed && (!e->more.told || e->more.busy);
}

/* ---- this host's containers ----------------------------------------------------------------- */

/* Who waited for it, because the orchestrator said that it is on this host, finds it now. */
void dir_container_added(struct fast_host *h, struct container *c)
{
	struct dir_entry *e, *next;

	if (!h->dir)
		return;
	for (e = h->dir->entries; e; e = next) {
		e->r.refs++; /* so that it has a next one after the call */
		if (e->at && e->at->r.id == c->id)
			entry_changed(h->dir, e);
		next = e->hh.next;
		e->r.refs--;
	}
}

/* Its entries belong to nobody from now on (d->others), and go when the last who uses them does. */
void dir_container_gone(struct fast_host *h, struct container *c)
{
	struct dir *d = h->dir;
	struct dir_entry *e;
	struct dir_owner *o;

	if (!d)
		return;
	o = owner_get(d, c->id, "");
	if (!o)
		return;
	while ((e = TAILQ_FIRST(&o->entries)))
		entry_move(d, e, d->others);
	HASH_DEL(d->owners, o);
	free(o);
}

/* ---- life ----------------------------------------------------------------------------------- */

struct dir *dir_new(const struct dir_conf *conf)
{
	struct dir *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->f = conf->fast->threads[0];
	d->conf = *conf;
	TAILQ_INIT(&d->turns);
	/* without randomness addresses can be chosen to collide: a slower table, no more */
	if (getrandom(&d->salt, sizeof(d->salt), GRND_NONBLOCK) < 0)
		d->salt = 0;
	d->others = owner_get(d, 0, "");
	if (d->others)
		return d;
	free(d);
	return NULL;
}

void dir_clear(struct dir *d)
{
	struct dir_entry *e, *next;
	struct dir_owner *o, *on;

	HASH_ITER(hh, d->entries, e, next)
		entry_lead(d, e, NULL);
	HASH_ITER(hh, d->entries, e, next)
		entry_free(d, e);
	HASH_ITER(hh, d->owners, o, on) {
		HASH_DEL(d->owners, o);
		free(o);
	}
	rules_free(&d->policy);
}
