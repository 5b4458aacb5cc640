/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * op_resolve.c - who has an address, seen from a tenant, and on which host. Called by request.c; the
 * orchestrator's loop only.
 *
 * An IP address may be several tenants' at once. Each tenant that the asking one may reach is a
 * candidate with a watch of its own, the asking one first, then by name; the first candidate whose
 * container may be reached is the answer. A LID or an id is one container's, so there is one
 * candidate. The answer's host is watched, too. When the policy changes, the candidates are made
 * anew; what was told stays true until the new ones are known.
 *
 * What cannot be read is nobody's: fail closed.
 */
#include "ffo/server/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct candidate {
	struct store_watch watch;
	struct resolve *resolve;
	bool known, exists;
	int err;
	struct ffo_container c;
};

struct resolve {
	struct sub sub; /* first */
	bool has_tenant;
	char tenant[FFO_NAME_MAX];
	char ip[FFO_TEXT_MAX]; /* as it was asked for */
	struct candidate *cand;
	size_t num_cand;
	bool starting; /* its watches: nothing is decided yet */

	/* The answer, when sub.ready. */
	bool found;
	struct ffo_container c;
	struct store_watch host_watch; /* of c.host; cb NULL: none */
	bool host_known, has_host;
	struct ffo_host host;
};

static struct resolve *resolve_of(struct sub *sub)
{
	return (struct resolve *)sub;
}

static struct ffo *ffo_of(const struct resolve *v)
{
	return v->sub.conn->ffo;
}

/* ---- the answer ------------------------------------------------------------------------------ */

static json_t *container_json(const struct resolve *v)
{
	return v->found ? ffo_container_to_json(&v->c) : json_null();
}

static json_t *host_json(const struct resolve *v)
{
	return v->found && v->has_host ? ffo_host_to_json(&v->host) : json_null();
}

static int answer(struct sub *sub, struct request *r)
{
	const struct resolve *v = resolve_of(sub);
	int err = request_reply(r, "container", container_json(v));

	return err ? err : request_reply(r, "host", host_json(v));
}

/* Which question it is the answer to, as it was asked. */
static int repeat_question(const struct resolve *v, json_t *msg)
{
	const struct store_key *key = &v->sub.key;

	if (v->has_tenant && json_object_set_new(msg, "tenant", json_string(v->tenant)))
		return -ENOMEM;
	if (key->kind == STORE_ADDR)
		return json_object_set_new(msg, "ip", json_string(v->ip));
	if (key->kind == STORE_LID)
		return json_object_set_new(msg, "lid", json_integer(key->lid));
	return json_object_set_new(msg, "id", json_integer(key->id));
}

static enum sub_event event(struct sub *sub, json_t **msg)
{
	const struct resolve *v = resolve_of(sub);

	*msg = json_pack("{s:s, s:o, s:o}", "event", "resolve", "container", container_json(v),
			 "host", host_json(v));
	if (*msg && repeat_question(v, *msg)) {
		json_decref(*msg);
		*msg = NULL;
	}
	return SUB_LAST;
}

/* What is told has changed, or is known for the first time. v may be gone after that. */
static void settled(struct resolve *v)
{
	if (v->sub.ready)
		sub_changed(&v->sub);
	else
		sub_ready(&v->sub, 0, "");
}

/* ---- its host -------------------------------------------------------------------------------- */

static void unwatch_host(struct resolve *v)
{
	struct ffo_store *s = ffo_of(v)->store;

	if (v->host_watch.cb)
		s->ops->unwatch(s, &v->host_watch);
	v->host_watch.cb = NULL;
	v->host_known = v->has_host = false;
}

static void host_came(void *arg, const struct store_news *news)
{
	struct resolve *v = arg;
	const struct ffo_host *h = news->host;
	bool same = v->host_known && v->has_host == !!h &&
		    (!h || (h->up == v->host.up && !strcmp(h->instance, v->host.instance) &&
			    !strcmp(h->wire, v->host.wire)));

	v->host_known = true;
	v->has_host = h;
	if (h)
		v->host = *h;
	if (!same)
		settled(v);
}

static void watch_host(struct resolve *v)
{
	struct ffo_store *s = ffo_of(v)->store;

	memset(&v->host_watch, 0, sizeof(v->host_watch));
	v->host_watch.key.kind = STORE_HOST;
	memcpy(v->host_watch.key.name, v->c.host, sizeof(v->c.host));
	v->host_watch.cb = host_came;
	v->host_watch.arg = v;
	s->ops->watch(s, &v->host_watch);
}

/* ---- its candidates -------------------------------------------------------------------------- */

/* May the tenant, and the host that asks, know of that container? */
static bool visible(const struct resolve *v, const struct ffo_container *c)
{
	const struct ffo *f = ffo_of(v);
	const struct policy_party to = { .tenant = c->tenant, .container = c->name };

	if (!access_peer(v->sub.conn, c->tenant, c->name))
		return false;
	if (v->sub.key.kind == STORE_ID)
		return true;
	return policy_may_reach(f->rules, f->num_rules, v->tenant, &to);
}

/* Look at the candidates again. v may be gone after that. */
static void decide(struct resolve *v)
{
	const struct ffo_container *found = NULL;
	const struct candidate *k;
	bool moved;

	if (v->starting)
		return;
	for (size_t i = 0; !found && i < v->num_cand; i++) {
		k = &v->cand[i];
		if (!k->known)
			return;
		if (k->err && !v->sub.ready) {
			sub_ready(&v->sub, k->err, "what is stored of it cannot be read");
			return;
		}
		if (k->exists && visible(v, &k->c))
			found = &k->c;
	}
	if (!found) {
		unwatch_host(v);
		if (v->found || !v->sub.ready) {
			v->found = false;
			settled(v);
		}
		return;
	}
	if (v->found && ffo_container_same(&v->c, found))
		return;
	moved = !v->found || strcmp(v->c.host, found->host);
	v->found = true;
	v->c = *found;
	if (moved) {
		unwatch_host(v);
		watch_host(v); /* settles it */
	} else if (v->host_known) {
		settled(v);
	}
}

static void candidate_came(void *arg, const struct store_news *news)
{
	struct candidate *k = arg;

	k->known = true;
	k->err = news->err;
	k->exists = !news->err && news->container;
	if (k->exists)
		k->c = *news->container;
	decide(k->resolve);
}

static void drop_candidates(struct resolve *v)
{
	struct ffo_store *s = ffo_of(v)->store;

	for (size_t i = 0; i < v->num_cand; i++)
		s->ops->unwatch(s, &v->cand[i].watch);
	free(v->cand);
	v->cand = NULL;
	v->num_cand = 0;
}

/* Watch that key, of each of these tenants (n 0: as it is). v may be gone after that. */
static void watch_candidates(struct resolve *v, char (*tenants)[FFO_NAME_MAX], size_t n)
{
	struct ffo_store *s = ffo_of(v)->store;
	struct candidate *k;

	v->num_cand = n ? n : 1;
	v->cand = calloc(v->num_cand, sizeof(*v->cand));
	if (!v->cand) {
		v->num_cand = 0;
		if (!v->sub.ready)
			sub_ready(&v->sub, -ENOMEM, "");
		else
			decide(v); /* nobody */
		return;
	}
	v->starting = true;
	for (size_t i = 0; i < v->num_cand; i++) {
		k = &v->cand[i];
		k->resolve = v;
		k->watch.key = v->sub.key;
		memset(k->watch.key.name, 0, sizeof(k->watch.key.name));
		if (n)
			memcpy(k->watch.key.name, tenants[i], sizeof(*tenants));
		k->watch.cb = candidate_came;
		k->watch.arg = k;
		s->ops->watch(s, &k->watch);
	}
	v->starting = false;
	decide(v);
}

/* Are they whose containers are watched? */
static bool same_candidates(const struct resolve *v, char (*tenants)[FFO_NAME_MAX], size_t n)
{
	if (n != v->num_cand)
		return false;
	for (size_t i = 0; i < n; i++)
		if (strcmp(v->cand[i].watch.key.name, tenants[i]))
			return false;
	return true;
}

static void find_candidates(struct resolve *v)
{
	const struct ffo *f = ffo_of(v);
	char(*tenants)[FFO_NAME_MAX];
	size_t n;

	if (v->sub.key.kind != STORE_ADDR) {
		if (v->num_cand)
			decide(v);
		else
			watch_candidates(v, NULL, 0);
		return;
	}
	tenants = calloc(1 + f->num_rules, sizeof(*tenants));
	if (!tenants) {
		log_err("client %lu: an address is not resolved: out of memory",
			v->sub.conn->number);
		return; /* who waits gives up */
	}
	memcpy(tenants[0], v->tenant, sizeof(v->tenant));
	n = 1 + policy_tenants(f->rules, f->num_rules, v->tenant, tenants + 1, f->num_rules);
	if (same_candidates(v, tenants, n)) {
		decide(v);
	} else {
		drop_candidates(v);
		watch_candidates(v, tenants, n);
	}
	free(tenants);
}

static void policy_changed(struct sub *sub)
{
	find_candidates(resolve_of(sub));
}

/* ---- the subscription ------------------------------------------------------------------------ */

static void start(struct sub *sub, const struct request *r)
{
	const struct ffo_req_resolve *arg = &r->arg.resolve;
	struct resolve *v = resolve_of(sub);

	v->has_tenant = arg->tenant;
	snprintf(v->tenant, sizeof(v->tenant), "%s", arg->tenant ? arg->tenant : TENANT_DEFAULT);
	snprintf(v->ip, sizeof(v->ip), "%s", arg->ip ? arg->ip : "");
	if (ffo_of(v)->policy_known)
		find_candidates(v);
}

static void stop(struct sub *sub)
{
	struct resolve *v = resolve_of(sub);

	drop_candidates(v);
	unwatch_host(v);
}

static const struct sub_ops resolve_ops = {
	.size = sizeof(struct resolve),
	.start = start,
	.stop = stop,
	.answer = answer,
	.event = event,
	.policy = policy_changed,
	.access = policy_changed,
};

static int make_key(struct request *r, const struct ffo_req_resolve *arg, struct store_key *key)
{
	const char *tenant = arg->tenant ? arg->tenant : TENANT_DEFAULT;

	memset(key, 0, sizeof(*key));
	if (!!arg->ip + !!arg->lid + !!arg->container != 1)
		return request_fail(r, -EINVAL, "give one of \"ip\", \"lid\" and \"container\"");
	key->kind = arg->ip ? STORE_ADDR : arg->lid ? STORE_LID : STORE_ID;
	key->id = arg->container;
	key->lid = arg->lid;
	if (arg->lid > FFO_LID_MAX)
		return request_fail(r, -EINVAL, "\"lid\" must be 1 to %u", FFO_LID_MAX);
	if (arg->ip && ffo_addr_parse(arg->ip, &key->addr))
		return request_fail(r, -EINVAL, "\"ip\" must be an IPv4 or IPv6 address");
	if (key->kind != STORE_ID)
		snprintf(key->name, sizeof(key->name), "%s", tenant);
	return 0;
}

int op_resolve(struct request *r)
{
	struct store_key key;
	int err = make_key(r, &r->arg.resolve, &key);

	return err ? err : sub_request(r, &resolve_ops, &key);
}

int op_unresolve(struct request *r)
{
	const struct ffo_req_unresolve *arg = &r->arg.unresolve;
	const struct ffo_req_resolve same = {
		.tenant = arg->tenant, .ip = arg->ip, .lid = arg->lid, .container = arg->container
	};
	struct store_key key;
	int err = make_key(r, &same, &key);

	return err ? err : sub_cancel(r, &key);
}
