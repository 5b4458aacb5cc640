/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * op_mcast.c - multicast groups: which hosts have members. Called by request.c; the orchestrator's
 * loop only.
 */
#include "ffo/server/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct group {
	struct sub sub; /* first */
	struct store_watch watch;
	char mgid[FFO_TEXT_MAX]; /* as it was asked for */
	struct ffo_host *hosts;	 /* [num_hosts] */
	size_t num_hosts;
};

static struct group *group_of(struct sub *sub)
{
	return (struct group *)sub;
}

/* All four ops have the same fields. */
static int make_key(struct request *r, const char *tenant, const char *mgid, struct store_key *key)
{
	memset(key, 0, sizeof(*key));
	key->kind = STORE_MCAST;
	snprintf(key->name, sizeof(key->name), "%s", tenant);
	if (!ffo_mgid_parse(mgid, &key->addr))
		return 0;
	return request_fail(r, -EINVAL, "\"mgid\" must be a multicast GID");
}

/* ---- membership ------------------------------------------------------------------------------ */

static void changed(void *arg, int err, const char *why)
{
	struct request *r = arg;

	request_end(r, err ? request_failed(r, err, why) : 0);
}

static int set_member(struct request *r, const char *tenant, const char *mgid, bool member)
{
	struct ffo_store *s = r->ffo->store;
	struct store_key key;
	int err = make_key(r, tenant, mgid, &key);

	if (err)
		return err;
	s->ops->mcast_member(s, r->conn->host, tenant, &key.addr, member, changed, r);
	return REQUEST_LATER;
}

int op_mcast_join(struct request *r)
{
	return set_member(r, r->arg.mcast_join.tenant, r->arg.mcast_join.mgid, true);
}

int op_mcast_leave(struct request *r)
{
	return set_member(r, r->arg.mcast_leave.tenant, r->arg.mcast_leave.mgid, false);
}

/* ---- who watches ----------------------------------------------------------------------------- */

static json_t *hosts_json(const struct group *g)
{
	json_t *list = json_array();
	size_t n = access_tenant(g->sub.conn, g->sub.key.name) ? g->num_hosts : 0;

	for (size_t i = 0; i < n; i++)
		if (json_array_append_new(list, ffo_host_to_json(&g->hosts[i]))) {
			json_decref(list);
			return NULL;
		}
	return list;
}

static int answer(struct sub *sub, struct request *r)
{
	return request_reply(r, "hosts", hosts_json(group_of(sub)));
}

static enum sub_event event(struct sub *sub, json_t **msg)
{
	struct group *g = group_of(sub);

	*msg = json_pack("{s:s, s:s, s:s, s:o}", "event", "mcast", "tenant", sub->key.name, "mgid",
			 g->mgid, "hosts", hosts_json(g));
	return SUB_LAST;
}

static void hosts_came(void *arg, const struct store_news *news)
{
	struct group *g = arg;
	struct ffo_host *hosts = NULL;
	int err = news->err;

	if (!err && news->mcast.num) {
		hosts = reallocarray(NULL, news->mcast.num, sizeof(*hosts));
		if (hosts)
			memcpy(hosts, news->mcast.hosts, news->mcast.num * sizeof(*hosts));
		else
			err = -ENOMEM;
	}
	free(g->hosts);
	g->hosts = hosts;
	g->num_hosts = hosts ? news->mcast.num : 0;
	if (!g->sub.ready)
		sub_ready(&g->sub, err, "the group's members cannot be read");
	else
		sub_changed(&g->sub);
}

static void start(struct sub *sub, const struct request *r)
{
	struct group *g = group_of(sub);
	struct ffo_store *s = sub->conn->ffo->store;

	snprintf(g->mgid, sizeof(g->mgid), "%s", r->arg.mcast_watch.mgid);
	g->watch.key = sub->key;
	g->watch.cb = hosts_came;
	g->watch.arg = g;
	s->ops->watch(s, &g->watch);
}

static void stop(struct sub *sub)
{
	struct group *g = group_of(sub);
	struct ffo_store *s = sub->conn->ffo->store;

	s->ops->unwatch(s, &g->watch);
	free(g->hosts);
}

static const struct sub_ops group_ops = {
	.size = sizeof(struct group),
	.start = start,
	.stop = stop,
	.answer = answer,
	.event = event,
	.access = sub_changed,
};

int op_mcast_watch(struct request *r)
{
	const struct ffo_req_mcast_watch *arg = &r->arg.mcast_watch;
	struct store_key key;
	int err = make_key(r, arg->tenant, arg->mgid, &key);

	return err ? err : sub_request(r, &group_ops, &key);
}

int op_mcast_unwatch(struct request *r)
{
	const struct ffo_req_mcast_unwatch *arg = &r->arg.mcast_unwatch;
	struct store_key key;
	int err = make_key(r, arg->tenant, arg->mgid, &key);

	return err ? err : sub_cancel(r, &key);
}
