/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * zk_policy.c - changes of the policy: one node, read, changed and written under its version. See
 * store_zk.h. The orchestrator's loop only.
 */
#include "store_zk.h"

#include <errno.h>
#include <stdlib.h>

#include "policy.h"

#define MAX_ROUNDS 64u /* against others that come in between */

struct policy_call {
	struct zks *s;
	struct ffo_rule rule;
	bool rm;
	unsigned int rounds;
	store_done_cb done;
	void *arg;
};

static void policy_end(struct policy_call *p, int err)
{
	p->done(p->arg, err, "");
	free(p);
}

static void policy_round(struct policy_call *p);

static void policy_written(void *arg, const struct zk_reply *r)
{
	struct policy_call *p = arg;

	if (r->err == -ESTALE && ++p->rounds < MAX_ROUNDS && !zks_usable(p->s))
		policy_round(p);
	else
		policy_end(p, r->err == -ESTALE ? -EAGAIN : r->err);
}

static void policy_read(void *arg, const struct zk_reply *r)
{
	struct ffo_rule *rules = calloc(FFO_RULES_MAX, sizeof(*rules));
	struct policy_call *p = arg;
	int err = r->err ?: rules ? 0 : -ENOMEM;
	char *data = NULL;
	size_t n, len;

	if (!err)
		err = zks_damage(p->s, "/policy", rec_to_policy(r->data, r->len, rules, &n));
	if (!err)
		err = p->rm ? policy_list_rm(rules, &n, &p->rule) :
			      policy_list_set(rules, &n, &p->rule);
	if (!err) {
		data = rec_policy(rules, n, &len);
		err = data ? 0 : -ENOMEM;
	}
	if (!err)
		err = zk_set(p->s->zk, "/policy", data, len, r->stat.version, policy_written, p);
	free(data);
	free(rules);
	if (err)
		policy_end(p, err);
}

static void policy_round(struct policy_call *p)
{
	int err;

	zk_sync(p->s->zk, NULL, NULL);
	err = zk_get(p->s->zk, "/policy", false, policy_read, p);
	if (err)
		policy_end(p, err);
}

static void policy_start(struct ffo_store *base, const struct ffo_rule *rule, bool rm,
			 store_done_cb done, void *arg)
{
	struct zks *s = zks_of(base);
	struct policy_call *p;
	int err = zks_usable(s);

	p = err ? NULL : calloc(1, sizeof(*p));
	if (!p) {
		done(arg, err ?: -ENOMEM, "");
		return;
	}
	*p = (struct policy_call){ .s = s, .rule = *rule, .rm = rm, .done = done, .arg = arg };
	policy_round(p);
}

void zks_policy_set(struct ffo_store *base, const struct ffo_rule *rule, store_done_cb done,
		    void *arg)
{
	policy_start(base, rule, false, done, arg);
}

void zks_policy_rm(struct ffo_store *base, const struct ffo_rule *rule, store_done_cb done,
		   void *arg)
{
	policy_start(base, rule, true, done, arg);
}
