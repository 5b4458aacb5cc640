/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * policy.h - which containers may talk to which. Any thread; the rules are the caller's.
 *
 * A rule is an unordered pair of parties, each a tenant or one container of a tenant. The most
 * specific rule that fits decides: container and container, then container and tenant, then tenant
 * and tenant; among equally specific ones, deny. Without a rule that fits, containers of one tenant
 * may talk, those of two may not.
 */
#ifndef FFO_BASE_POLICY_H
#define FFO_BASE_POLICY_H

#include "ffo/base/proto.h"

#define POLICY_FULL "the policy has 512 rules already"

struct policy_party {
	const char *tenant;
	const char *container; /* its name */
};

bool policy_allows(const struct ffo_rule *rules, size_t n, const struct policy_party *a,
		   const struct policy_party *b);
/*
 * Is there anybody in the tenant who might be allowed to talk to that container, by a rule or by
 * being of its tenant? For resolution, which does not know who asks in the tenant.
 */
bool policy_may_reach(const struct ffo_rule *rules, size_t n, const char *tenant,
		      const struct policy_party *to);
/*
 * The tenants other than `tenant` that allow-rules name together with it or one of its containers:
 * each once, rising by byte, at most max of them. Their number.
 */
size_t policy_tenants(const struct ffo_rule *rules, size_t n, const char *tenant,
		      char (*tenants)[FFO_NAME_MAX], size_t max);

/* Changes of a list of *n rules with room for FFO_RULES_MAX, sorted by (a, b): 0 or -ENOSPC. */
int policy_list_set(struct ffo_rule *rules, size_t *n, const struct ffo_rule *rule);
/* 0 or -ENOENT. */
int policy_list_rm(struct ffo_rule *rules, size_t *n, const struct ffo_rule *rule);

#endif
