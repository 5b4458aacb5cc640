/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * op_policy.c - the policy: kept in struct ffo as the store tells it, changed, listed, watched.
 * Called by request.c; the orchestrator's loop only.
 *
 * A policy that cannot be read is empty: nobody reaches another tenant then.
 */
#include "ffo/server/server.h"

#include <errno.h>
#include <string.h>

static void news_came(void *arg, const struct store_news *news)
{
	LIST_HEAD(, sub) todo = LIST_HEAD_INITIALIZER(todo);
	struct ffo *f = arg;
	struct sub *sub;

	if (news->err)
		log_err("the policy cannot be read: %s; tenants are kept apart",
			strerror(-news->err));
	f->num_rules = news->err ? 0 : news->policy.num;
	if (f->num_rules)
		memcpy(f->rules, news->policy.rules, f->num_rules * sizeof(*f->rules));
	f->policy_known = true;
	/* Into a list of its own: telling one may end others. */
	while ((sub = LIST_FIRST(&f->by_policy))) {
		LIST_REMOVE(sub, policy_entry);
		LIST_INSERT_HEAD(&todo, sub, policy_entry);
	}
	while ((sub = LIST_FIRST(&todo))) {
		LIST_REMOVE(sub, policy_entry);
		LIST_INSERT_HEAD(&f->by_policy, sub, policy_entry);
		sub->ops->policy(sub);
	}
}

void policy_start(struct ffo *f)
{
	f->policy_watch.key.kind = STORE_POLICY;
	f->policy_watch.cb = news_came;
	f->policy_watch.arg = f;
	f->store->ops->watch(f->store, &f->policy_watch);
}

void policy_stop(struct ffo *f)
{
	f->store->ops->unwatch(f->store, &f->policy_watch);
}

static json_t *rules_to_json(const struct ffo *f)
{
	json_t *list = json_array();

	for (size_t i = 0; i < f->num_rules; i++)
		if (json_array_append_new(list, ffo_rule_to_json(&f->rules[i]))) {
			json_decref(list);
			return NULL;
		}
	return list;
}

/* ---- who watches it -------------------------------------------------------------------------- */

static void rules_changed(struct sub *sub)
{
	if (sub->ready)
		sub_changed(sub);
	else
		sub_ready(sub, 0, "");
}

static void rules_start(struct sub *sub, const struct request *r)
{
	(void)r;
	if (sub->conn->ffo->policy_known)
		sub_ready(sub, 0, "");
}

static void rules_stop(struct sub *sub)
{
	(void)sub;
}

static int rules_answer(struct sub *sub, struct request *r)
{
	return request_reply(r, "rules", rules_to_json(sub->conn->ffo));
}

static enum sub_event rules_event(struct sub *sub, json_t **msg)
{
	*msg = json_pack("{s:s, s:o}", "event", "policy", "rules", rules_to_json(sub->conn->ffo));
	return SUB_LAST;
}

static const struct sub_ops rules_ops = {
	.size = sizeof(struct sub),
	.start = rules_start,
	.stop = rules_stop,
	.answer = rules_answer,
	.event = rules_event,
	.policy = rules_changed,
};

int op_policy_watch(struct request *r)
{
	static const struct store_key key = { .kind = STORE_POLICY };

	return sub_request(r, &rules_ops, &key);
}

/* ---- changes --------------------------------------------------------------------------------- */

int op_policy_list(struct request *r)
{
	if (!r->ffo->policy_known)
		return request_fail(r, -ENOTCONN, "the policy is not known yet");
	return request_reply(r, "rules", rules_to_json(r->ffo));
}

static void changed(void *arg, int err, const char *why)
{
	struct request *r = arg;

	if (err == -ENOENT)
		request_fail(r, err, "there is no such rule");
	request_end(r, err ? request_failed(r, err, why) : 0);
}

static int make_rule(struct request *r, struct ffo_rule *rule, const char *a, const char *b,
		     bool allow)
{
	if (!ffo_rule_make(rule, a, b, allow))
		return 0;
	return request_fail(r, -EINVAL, "\"a\" and \"b\" must be TENANT or TENANT/CONTAINER");
}

int op_policy_set(struct request *r)
{
	const struct ffo_req_policy_set *arg = &r->arg.policy_set;
	bool allow = !strcmp(arg->action, "allow");
	struct ffo_rule rule;
	int err;

	if (!allow && strcmp(arg->action, "deny"))
		return request_fail(r, -EINVAL, "\"action\" must be allow or deny");
	err = make_rule(r, &rule, arg->a, arg->b, allow);
	if (!err)
		err = request_try(r, arg->dry_run);
	if (err)
		return err;
	r->ffo->store->ops->policy_set(r->ffo->store, &rule, changed, r);
	return REQUEST_LATER;
}

int op_policy_rm(struct request *r)
{
	const struct ffo_req_policy_rm *arg = &r->arg.policy_rm;
	struct ffo_rule rule;
	int err = make_rule(r, &rule, arg->a, arg->b, false);

	if (!err)
		err = request_try(r, arg->dry_run);
	if (err)
		return err;
	r->ffo->store->ops->policy_rm(r->ffo->store, &rule, changed, r);
	return REQUEST_LATER;
}
