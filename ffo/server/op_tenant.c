/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * op_tenant.c - the tenants' limits: kept in struct ffo as the store tells them, changed, listed,
 * watched. Called by request.c; the orchestrator's loop only.
 *
 * When they cannot be read, those that were known before hold.
 */
#include "ffo/server/server.h"

#include <errno.h>
#include <string.h>

#include "ffo/base/tenants.h"

static void news_came(void *arg, const struct store_news *news)
{
	LIST_HEAD(, sub) todo = LIST_HEAD_INITIALIZER(todo);
	struct ffo *f = arg;
	struct sub *sub;

	if (news->err) {
		log_err("the tenants' limits cannot be read: %s; they stay as they are",
			strerror(-news->err));
	} else {
		f->num_tenants = news->tenants.num;
		if (f->num_tenants)
			memcpy(f->tenants, news->tenants.list,
			       f->num_tenants * sizeof(*f->tenants));
	}
	f->tenants_known = true;
	/* Into a list of its own: telling one may end others. */
	while ((sub = LIST_FIRST(&f->by_tenants))) {
		LIST_REMOVE(sub, list_entry);
		LIST_INSERT_HEAD(&todo, sub, list_entry);
	}
	while ((sub = LIST_FIRST(&todo))) {
		LIST_REMOVE(sub, list_entry);
		LIST_INSERT_HEAD(&f->by_tenants, sub, list_entry);
		if (sub->ready)
			sub_changed(sub);
		else
			sub_ready(sub, 0, "");
	}
}

void tenants_start(struct ffo *f)
{
	f->tenants_watch.key.kind = STORE_TENANTS;
	f->tenants_watch.cb = news_came;
	f->tenants_watch.arg = f;
	f->store->ops->watch(f->store, &f->tenants_watch);
}

void tenants_stop(struct ffo *f)
{
	f->store->ops->unwatch(f->store, &f->tenants_watch);
}

/* ---- who watches them ------------------------------------------------------------------------ */

static void list_start(struct sub *sub, const struct request *r)
{
	(void)r;
	LIST_INSERT_HEAD(&sub->conn->ffo->by_tenants, sub, list_entry);
	if (sub->conn->ffo->tenants_known)
		sub_ready(sub, 0, "");
}

static void list_stop(struct sub *sub)
{
	LIST_REMOVE(sub, list_entry);
}

static json_t *list_to_json(const struct ffo *f)
{
	return tenants_to_json(f->tenants, f->num_tenants);
}

static int list_answer(struct sub *sub, struct request *r)
{
	return request_reply(r, "tenants", list_to_json(sub->conn->ffo));
}

static enum sub_event list_event(struct sub *sub, json_t **msg)
{
	*msg = json_pack("{s:s, s:o}", "event", "tenants", "tenants", list_to_json(sub->conn->ffo));
	return SUB_LAST;
}

static const struct sub_ops list_ops = {
	.size = sizeof(struct sub),
	.start = list_start,
	.stop = list_stop,
	.answer = list_answer,
	.event = list_event,
};

int op_tenant_watch(struct request *r)
{
	static const struct store_key key = { .kind = STORE_TENANTS };

	return sub_request(r, &list_ops, &key);
}

/* ---- changes --------------------------------------------------------------------------------- */

int op_tenant_list(struct request *r)
{
	if (!r->ffo->tenants_known)
		return request_fail(r, -ENOTCONN, "the tenants' limits are not known yet");
	return request_reply(r, "tenants", list_to_json(r->ffo));
}

static void changed(void *arg, int err, const char *why)
{
	struct request *r = arg;

	request_end(r, err ? request_failed(r, err, why) : 0);
}

int op_tenant_set(struct request *r)
{
	const struct ffo_req_tenant_set *arg = &r->arg.tenant_set;
	struct ffo_limits_change change;
	char why[sizeof(r->why)];
	int err;

	if (ffo_limits_change_parse(arg->limits, true, &change, why, sizeof(why)))
		return request_fail(r, -EINVAL, "%s", why);
	err = request_try(r, arg->dry_run);
	if (err)
		return err;
	r->ffo->store->ops->tenant_set(r->ffo->store, arg->tenant, &change, changed, r);
	return REQUEST_LATER;
}
