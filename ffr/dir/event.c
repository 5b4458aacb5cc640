/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * event.c - what the orchestrator says, put into the directory. Control thread.
 *
 * The JSON is read without the lock. Then its changes are applied with the lock, and carriers and the software device
 * are told of them. A message that is not understood changes nothing and is logged.
 *
 * Tests: test_dir.c
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>

#include "ffr/dir/internal.h"
#include "ffr/fast/backend.h"
#include "ffr/lib/log.h"
#include "ffr/peer/peer.h"

#define ROWS_BATCH 256u /* mappings put in before the fast thread has its turn */

/* ---- answers and events alike: read --------------------------------------------------------- */

/* An object, or null, or nothing: *is_null. */
static int object_get(json_t *msg, const char *key, json_t **j, bool *is_null)
{
	*j = json_object_get(msg, key);
	*is_null = !*j || json_is_null(*j);
	return *is_null || json_is_object(*j) ? 0 : -EINVAL;
}

static int parse_resolved(struct dir_told *t, json_t *msg)
{
	json_t *cont, *host;
	bool no_host;

	if (object_get(msg, "container", &cont, &t->nobody) ||
	    object_get(msg, "host", &host, &no_host))
		return -EINVAL;
	t->host_known = !no_host;
	if (!t->nobody && ffo_container_from_json(cont, &t->cont))
		return -EINVAL;
	if (!no_host && ffo_host_from_json(host, &t->host))
		return -EINVAL;
	return 0;
}

static int parse_hosts(struct dir_told *t, json_t *msg)
{
	json_t *hosts = json_object_get(msg, "hosts"), *j;
	size_t n = json_array_size(hosts), i;

	if (!json_is_array(hosts))
		return -EINVAL;
	t->hosts = calloc(n + 1, sizeof(*t->hosts));
	if (!t->hosts)
		return -ENOMEM;
	json_array_foreach(hosts, i, j)
		if (ffo_host_from_json(j, &t->hosts[i]))
			return -EINVAL;
	t->num_hosts = n;
	return 0;
}

int told_parse(struct dir_told *t, enum sub_kind kind, json_t *msg)
{
	int err = 0;

	*t = (struct dir_told){ 0 };
	if (kind == SUB_RESOLVE)
		err = parse_resolved(t, msg);
	else if (kind == SUB_MCAST)
		err = parse_hosts(t, msg);
	if (err)
		log_err("orchestrator: what it says of %s is not understood",
			kind == SUB_RESOLVE ? "an address" : "a multicast group");
	return err;
}

void told_free(struct dir_told *t)
{
	free(t->hosts);
}

/* ---- ... and applied, [lock] ---------------------------------------------------------------- */

static struct wire_peer *peer_get_host(struct dir *d, const struct ffo_host *h)
{
	struct wire_peer *p = peer_of_host(d->conf.peers, h->name, h->instance, h->wire, h->up);

	if (p)
		peer_get(p);
	return p;
}

static void remote_fill(struct remote *r, const struct ffo_container *c)
{
	r->id = c->id;
	r->epoch = c->epoch;
	memcpy(r->name, c->name, sizeof(r->name));
	memcpy(r->tenant, c->tenant, sizeof(r->tenant));
	r->lid = c->lid;
	r->num_gids = c->num_ips;
	memset(r->gid, 0, sizeof(r->gid));
	for (unsigned i = 0; i < c->num_ips; i++)
		memcpy(&r->gid[i], &c->ip[i], sizeof(r->gid[i]));
}

static bool remote_same(const struct remote *a, const struct remote *b)
{
	return a->id == b->id && a->epoch == b->epoch && a->peer == b->peer && a->lid == b->lid &&
	       a->num_gids == b->num_gids && !memcmp(a->gid, b->gid, sizeof(a->gid)) &&
	       !strcmp(a->name, b->name) && !strcmp(a->tenant, b->tenant);
}

/*
 * A container, which is on a host, or is no more. What is older than what is known is dropped. A store in
 * which the container has never been does not know that it is no more: its host may not have come to
 * that store yet. Then the host itself is asked (map.c), and the wire decides.
 */
static void apply_container(struct dir *d, struct dir_entry *e, const struct dir_told *t)
{
	struct remote *r = &e->r, old = *r;
	bool here = !t->nobody && !strcmp(t->cont.host, d->conf.host);
	bool same;

	static_assert(sizeof(r->name) == sizeof(t->cont.name), "names");
	if (!t->nobody && (t->cont.id != e->key.num || t->cont.epoch < r->epoch))
		return;
	if (t->nobody && r->epoch && e->store != d->store)
		return;
	e->store = d->store;
	r->peer = NULL;
	if (t->nobody) {
		r->epoch = 0; /* the id is never used again */
	} else {
		remote_fill(r, &t->cont);
		if (!here && t->host_known)
			r->peer = peer_get_host(d, &t->host);
	}
	if (old.peer)
		peer_put(old.peer);
	same = e->answered && e->here == here && remote_same(r, &old);
	e->answered = true;
	e->here = here;
	if (!same)
		entry_changed(d, e);
}

static void apply_address(struct dir *d, struct dir_entry *e, const struct dir_told *t)
{
	struct dir_entry *at = NULL;
	bool same;

	if (t->nobody && e->at && e->at->store != d->store)
		return; /* as in apply_container() */
	if (!t->nobody) {
		at = entry_get(d, e->owner, ENTRY_ID, NULL, NULL, t->cont.id);
		if (!at)
			return; /* it goes on waiting */
		sub_want(d, &at->sub, true);
	}
	same = e->answered && e->at == at;
	entry_lead(d, e, at);
	e->answered = true;
	if (at)
		apply_container(d, at, t);
	if (!same)
		entry_changed(d, e);
}

static void apply_group(struct dir *d, struct dir_entry *e, const struct dir_told *t)
{
	struct wire_peer **peers = calloc(t->num_hosts + 1, sizeof(struct wire_peer *));
	uint32_t n = 0;

	if (!peers)
		return;
	for (size_t i = 0; i < t->num_hosts; i++) {
		if (!strcmp(t->hosts[i].name, d->conf.host))
			continue;
		peers[n] = peer_get_host(d, &t->hosts[i]);
		n += peers[n] != NULL;
	}
	entry_peers_free(e);
	e->peers = peers;
	e->num_peers = n;
	e->answered = true;
	entry_changed(d, e);
}

/* The caller keeps the entry. */
void told_apply(struct dir *d, struct dir_entry *e, const struct dir_told *t)
{
	if (!e->live)
		return;
	if (e->key.kind == ENTRY_ID)
		apply_container(d, e, t);
	else if (e->key.kind == ENTRY_GROUP)
		apply_group(d, e, t);
	else
		apply_address(d, e, t);
}

/* ---- events --------------------------------------------------------------------------------- */

static uint32_t uint_of(json_t *msg, const char *key)
{
	json_int_t v = json_integer_value(json_object_get(msg, key));

	return v > 0 && v <= UINT32_MAX ? (uint32_t)v : 0;
}

/* [lock] What the event is about, or NULL: it was given up meanwhile. */
static struct dir_entry *event_entry(struct dir *d, json_t *msg)
{
	const char *tenant = json_string_value(json_object_get(msg, "tenant"));
	const char *ip = json_string_value(json_object_get(msg, "ip"));
	const char *mgid = json_string_value(json_object_get(msg, "mgid"));
	uint32_t lid = uint_of(msg, "lid"), id = uint_of(msg, "id");
	struct in6_addr addr;
	union ibv_gid gid;

	if ((ip && ffo_addr_parse(ip, &addr)) || (mgid && inet_pton(AF_INET6, mgid, &addr) != 1))
		return NULL;
	if (ip || mgid)
		memcpy(&gid, &addr, sizeof(gid));
	if (tenant && mgid)
		return entry_find(d, ENTRY_GROUP, tenant, &gid, 0);
	if (tenant && ip)
		return entry_find(d, ENTRY_GID, tenant, &gid, 0);
	if (tenant && lid)
		return entry_find(d, ENTRY_LID, tenant, NULL, lid);
	return id ? entry_find(d, ENTRY_ID, NULL, NULL, id) : NULL;
}

static void event_told(struct dir *d, enum sub_kind kind, json_t *msg)
{
	struct dir_entry *e;
	struct dir_told t;

	if (!told_parse(&t, kind, msg)) {
		fast_lock(d->f->host);
		e = event_entry(d, msg);
		if (e && sub_target(&e->sub)) {
			e->r.refs++;
			told_apply(d, e, &t);
			e->r.refs--;
		}
		fast_unlock(d->f->host);
	}
	told_free(&t);
}

/* Up to ROWS_BATCH rows from the i-th on; where it stopped. */
static size_t rows_parse(json_t *put, size_t i, struct ffo_map *row, unsigned *n)
{
	json_t *j;

	for (*n = 0; *n < ROWS_BATCH && (j = json_array_get(put, i)); i++)
		*n += !ffo_map_from_json(j, &row[*n]);
	return i;
}

/* [lock] Rows that begin anew, or not. */
static void map_begin(struct remote_maps *m, json_t *msg)
{
	uint32_t epoch = uint_of(msg, "epoch");

	if (json_is_true(json_object_get(msg, "reset")) || epoch != maps_epoch(m))
		maps_begin(m, epoch);
}

static void map_del(struct dir *d, struct remote_maps *m, json_t *del)
{
	json_t *j;
	size_t i;

	fast_lock(d->f->host);
	json_array_foreach(del, i, j)
		maps_del(m, (uint32_t)json_integer_value(j));
	fast_unlock(d->f->host);
}

/* The entry is kept, so its maps stay. Only this thread changes them. */
static void map_apply(struct dir *d, const char *name, struct remote_maps *m, json_t *msg)
{
	json_t *put = json_object_get(msg, "put");
	size_t total = json_array_size(put), i = 0;
	struct ffo_map row[ROWS_BATCH];
	unsigned n;
	int err;

	map_del(d, m, json_object_get(msg, "del"));
	err = maps_reserve(m, (uint32_t)total);
	if (err)
		log_warn("container %s: mappings of it are not known here: %s", name,
			 strerror(-err));
	while (i < total) {
		i = rows_parse(put, i, row, &n);
		fast_lock(d->f->host);
		for (unsigned k = 0; k < n; k++)
			maps_put(m, &row[k]);
		fast_unlock(d->f->host);
	}
}

static void event_map(struct dir *d, json_t *msg)
{
	uint32_t id = uint_of(msg, "container");
	struct dir_entry *e;

	fast_lock(d->f->host);
	e = entry_find(d, ENTRY_ID, NULL, NULL, id);
	if (!e || !e->r.maps || !sub_target(&e->more)) {
		fast_unlock(d->f->host);
		return;
	}
	e->r.refs++;
	map_begin(e->r.maps, msg);
	fast_unlock(d->f->host);
	map_apply(d, e->r.name, e->r.maps, msg);
	fast_lock(d->f->host);
	if (maps_end(e->r.maps, json_is_true(json_object_get(msg, "synced"))))
		entry_changed(d, e);
	e->r.refs--;
	fast_unlock(d->f->host);
}

int dir_policy(struct dir *d, json_t *rules)
{
	struct dir_policy new, old;
	int err = rules_parse(&new, rules);

	if (err)
		return err;
	fast_lock(d->f->host);
	old = d->policy;
	d->policy = new;
	if (!rules_same(&old, &new))
		CARRIERS_DO(news, d->f, NULL);
	fast_unlock(d->f->host);
	rules_free(&old);
	return 0;
}

bool dir_event(struct dir *d, const char *event, json_t *msg)
{
	if (!strcmp(event, "resolve"))
		event_told(d, SUB_RESOLVE, msg);
	else if (!strcmp(event, "mcast"))
		event_told(d, SUB_MCAST, msg);
	else if (!strcmp(event, "map"))
		event_map(d, msg);
	else if (!strcmp(event, "policy"))
		dir_policy(d, json_object_get(msg, "rules"));
	else
		return false;
	return true;
}
