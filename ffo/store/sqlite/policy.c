/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * policy.c - changes of the policy and of the tenants' limits. See store.h; part of
 * store.c. The orchestrator's loop only.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ffo/base/policy.h"
#include "ffo/store/sqlite/internal.h"
#include "ffo/base/tenants.h"

/* ---- the policy ------------------------------------------------------------------------------ */

static int count_rules(struct store *s, const struct ffo_rule *but, size_t *n)
{
	struct ffo_rule *rules = malloc(FFO_RULES_MAX * sizeof(*rules));
	ssize_t num = rules ? sqlite_get_rules(s, rules) : -ENOMEM;

	*n = 0;
	for (ssize_t i = 0; i < num; i++)
		*n += strcmp(rules[i].a, but->a) || strcmp(rules[i].b, but->b);
	free(rules);
	return num < 0 ? (int)num : 0;
}

void sqlite_policy_set(struct ffo_store *base, const struct ffo_rule *rule, store_done_cb done,
		       void *arg)
{
	struct store *s = store_of(base);
	int err = sqlite_begin(s);
	size_t others;

	if (err) {
		done(arg, err, "");
		return;
	}
	err = count_rules(s, rule, &others);
	if (!err && others == FFO_RULES_MAX)
		err = -ENOSPC;
	if (!err)
		err = run(s, prep(s, ST_RULE_PUT, "ssi", rule->a, rule->b, (int64_t)rule->allow));
	if (!err)
		err = sqlite_note_named(s, STORE_POLICY, "");
	done(arg, sqlite_end(s, err), err == -ENOSPC ? POLICY_FULL : "");
	sqlite_work_off(s);
}

void sqlite_policy_rm(struct ffo_store *base, const struct ffo_rule *rule, store_done_cb done,
		      void *arg)
{
	struct store *s = store_of(base);
	int err = sqlite_begin(s);

	if (err) {
		done(arg, err, "");
		return;
	}
	err = run(s, prep(s, ST_RULE_DEL, "ss", rule->a, rule->b));
	if (!err && !sqlite3_changes(s->db.db))
		err = -ENOENT;
	if (!err)
		err = sqlite_note_named(s, STORE_POLICY, "");
	done(arg, sqlite_end(s, err), "");
	sqlite_work_off(s);
}

/* ---- the tenants' limits --------------------------------------------------------------------- */

/* The tenant's new row. */
static int change_tenant(struct store *s, const char *name, const struct ffo_limits_change *change)
{
	struct ffo_tenant *list = malloc(FFO_TENANTS_MAX * sizeof(*list));
	ssize_t num = list ? sqlite_get_tenants(s, list) : -ENOMEM;
	size_t n = num > 0 ? (size_t)num : 0;
	const struct ffo_tenant *t;
	char *limits = NULL;
	int err = num < 0 ? (int)num : tenants_change(list, &n, name, change);

	if (!err) {
		t = tenants_find(list, n, name);
		limits = t ? sqlite_limits_text(&t->limits) : NULL;
		if (!t)
			err = run(s, prep(s, ST_TENANT_DEL, "s", name));
		else if (limits)
			err = run(s, prep(s, ST_TENANT_PUT, "ss", name, limits));
		else
			err = -ENOMEM;
	}
	free(limits);
	free(list);
	return err;
}

void sqlite_tenant_set(struct ffo_store *base, const char *tenant,
		       const struct ffo_limits_change *change, store_done_cb done, void *arg)
{
	struct store *s = store_of(base);
	int err = sqlite_begin(s);

	if (err) {
		done(arg, err, "");
		return;
	}
	err = change_tenant(s, tenant, change);
	if (!err)
		err = sqlite_note_named(s, STORE_TENANTS, "");
	done(arg, sqlite_end(s, err), err == -ENOSPC ? TENANTS_FULL : "");
	sqlite_work_off(s);
}
