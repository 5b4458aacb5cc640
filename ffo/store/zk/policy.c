/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * policy.c - changes of the policy and of the tenants' limits: each is one node, read, changed
 * and written under its version. See zks.h. The orchestrator's loop only.
 *
 * Tests: test_topic.c
 */
#include "ffo/store/zk/zks.h"

#include <errno.h>
#include <stdlib.h>

#include "ffo/base/policy.h"
#include "ffo/base/tenants.h"

#define MAX_ROUNDS 64u /* against others that come in between */

struct edit {
	struct zks *s;
	const char *path;
	const char *full; /* why, for -ENOSPC */
	/*
	 * What is to be written in place of data[len], from malloc(). data NULL: the node is not
	 * there. 0 or -errno, -EPROTO or -EBADMSG for damage.
	 */
	int (*make)(const struct edit *e, const char *data, size_t len, char **out,
		    size_t *out_len);
	union {
		struct {
			struct ffo_rule rule;
			bool rm;
		};
		struct {
			char tenant[FFO_NAME_MAX];
			struct ffo_limits_change change;
		};
	};
	unsigned int rounds;
	store_done_cb done;
	void *arg;
};

static void edit_end(struct edit *e, int err, const char *why)
{
	e->done(e->arg, err, why);
	free(e);
}

static void edit_round(struct edit *e);

static void edit_written(void *arg, const struct zk_reply *r)
{
	struct edit *e = arg;
	bool other = r->err == -ESTALE || r->err == -EEXIST; /* somebody was faster */

	if (other && ++e->rounds < MAX_ROUNDS && !zks_usable(e->s))
		edit_round(e);
	else
		edit_end(e, other ? -EAGAIN : r->err, r->err == -EACCES ? ZKS_DENIED : "");
}

static void edit_read(void *arg, const struct zk_reply *r)
{
	struct edit *e = arg;
	bool there = r->err != -ENOENT;
	int err = there ? r->err : 0;
	char *data = NULL;
	size_t len = 0;

	if (!err)
		err = e->make(e, there ? r->data : NULL, there ? r->len : 0, &data, &len);
	if (err == -EPROTO || err == -EBADMSG)
		err = zks_damage(e->s, e->path, err);
	if (!err && there)
		err = zk_set(e->s->zk, e->path, data, len, r->stat.version, edit_written, e);
	else if (!err)
		err = zk_create(e->s->zk, e->path, data, len, ZK_PERSISTENT, edit_written, e);
	free(data);
	if (err)
		edit_end(e, err, err == -ENOSPC ? e->full : "");
}

static void edit_round(struct edit *e)
{
	int err;

	zk_sync(e->s->zk, NULL, NULL);
	err = zk_get(e->s->zk, e->path, false, edit_read, e);
	if (err)
		edit_end(e, err, "");
}

/* Begin what is described; its store is `base`. */
static void edit_start(struct ffo_store *base, const struct edit *what)
{
	struct zks *s = zks_of(base);
	int err;
	struct edit *e = zks_call_new(s, sizeof(*e), &err);

	if (!e) {
		what->done(what->arg, err, "");
		return;
	}
	*e = *what;
	e->s = s;
	edit_round(e);
}

/* ---- the policy ------------------------------------------------------------------------------ */

static int make_policy(const struct edit *e, const char *data, size_t len, char **out,
		       size_t *out_len)
{
	struct ffo_rule *rules = calloc(FFO_RULES_MAX, sizeof(*rules));
	int err = rules ? 0 : -ENOMEM;
	size_t n = 0;

	if (!err && data)
		err = rec_to_policy(data, len, rules, &n);
	if (!err)
		err = e->rm ? policy_list_rm(rules, &n, &e->rule) :
			      policy_list_set(rules, &n, &e->rule);
	if (!err) {
		*out = rec_policy(rules, n, out_len);
		err = *out ? 0 : -ENOMEM;
	}
	free(rules);
	return err;
}

static void policy_start(struct ffo_store *base, const struct ffo_rule *rule, bool rm,
			 store_done_cb done, void *arg)
{
	const struct edit e = { .path = "/policy",
				.full = POLICY_FULL,
				.make = make_policy,
				.rule = *rule,
				.rm = rm,
				.done = done,
				.arg = arg };

	edit_start(base, &e);
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

/* ---- the tenants' limits --------------------------------------------------------------------- */

static int make_tenants(const struct edit *e, const char *data, size_t len, char **out,
			size_t *out_len)
{
	struct ffo_tenant *list = calloc(FFO_TENANTS_MAX, sizeof(*list));
	int err = list ? 0 : -ENOMEM;
	size_t n = 0;

	if (!err && data)
		err = rec_to_tenants(data, len, list, &n);
	if (!err)
		err = tenants_change(list, &n, e->tenant, &e->change);
	if (!err) {
		*out = rec_tenants(list, n, out_len);
		err = *out ? 0 : -ENOMEM;
	}
	free(list);
	return err;
}

void zks_tenant_set(struct ffo_store *base, const char *tenant,
		    const struct ffo_limits_change *change, store_done_cb done, void *arg)
{
	struct edit e = { .path = "/tenants",
			  .full = TENANTS_FULL,
			  .make = make_tenants,
			  .change = *change,
			  .done = done,
			  .arg = arg };

	snprintf(e.tenant, sizeof(e.tenant), "%s", tenant);
	edit_start(base, &e);
}
