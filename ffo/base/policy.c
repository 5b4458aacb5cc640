/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * policy.c - see policy.h. Used by the orchestrator (op_policy.c, op_resolve.c, the stores) and by
 * the router. Any thread.
 */
#include "ffo/base/policy.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static_assert(FFO_RULES_MAX == 512, "POLICY_FULL");

/* How specific the party is about the container: 2 names it, 1 names its tenant, 0 is another. */
static int fits(const char *party, const struct policy_party *p)
{
	size_t len = strlen(p->tenant);

	if (strncmp(party, p->tenant, len))
		return 0;
	if (!party[len])
		return 1;
	return party[len] == '/' && !strcmp(party + len + 1, p->container) ? 2 : 0;
}

/* The same about (a, b) in this order: 4, 3, 2 or 0 when the rule does not fit. */
static int fits_pair(const char *ra, const char *rb, const struct policy_party *a,
		     const struct policy_party *b)
{
	int fa = fits(ra, a), fb = fits(rb, b);

	return fa && fb ? fa + fb : 0;
}

bool policy_allows(const struct ffo_rule *rules, size_t n, const struct policy_party *a,
		   const struct policy_party *b)
{
	bool allowed = !strcmp(a->tenant, b->tenant);
	int best = 0;

	for (size_t i = 0; i < n; i++) {
		int one = fits_pair(rules[i].a, rules[i].b, a, b);
		int other = fits_pair(rules[i].a, rules[i].b, b, a);
		int fit = one > other ? one : other;

		if (!fit || fit < best)
			continue;
		allowed = rules[i].allow && (fit > best || allowed);
		best = fit;
	}
	return allowed;
}

/* Is the party the tenant, or one of its containers? */
static bool within(const char *party, const char *tenant)
{
	size_t len = strlen(tenant);

	return !strncmp(party, tenant, len) && (!party[len] || party[len] == '/');
}

bool policy_may_reach(const struct ffo_rule *rules, size_t n, const char *tenant,
		      const struct policy_party *to)
{
	if (!strcmp(tenant, to->tenant))
		return true;
	for (size_t i = 0; i < n; i++)
		if (rules[i].allow && ((within(rules[i].a, tenant) && fits(rules[i].b, to)) ||
				       (within(rules[i].b, tenant) && fits(rules[i].a, to))))
			return true;
	return false;
}

/* Put the party's tenant into the sorted list, if it is not there and is not `but`. */
static size_t add_tenant(const char *party, const char *but, char (*tenants)[FFO_NAME_MAX],
			 size_t n, size_t max)
{
	char name[FFO_NAME_MAX];
	size_t len = strcspn(party, "/"), i;

	memcpy(name, party, len); /* a party's tenant is a name */
	name[len] = '\0';
	if (!strcmp(name, but))
		return n;
	for (i = 0; i < n && strcmp(tenants[i], name) < 0; i++)
		;
	if ((i < n && !strcmp(tenants[i], name)) || i == max)
		return n;
	if (n == max)
		n--;
	memmove(tenants[i + 1], tenants[i], (n - i) * sizeof(*tenants));
	memcpy(tenants[i], name, len + 1);
	return n + 1;
}

size_t policy_tenants(const struct ffo_rule *rules, size_t n, const char *tenant,
		      char (*tenants)[FFO_NAME_MAX], size_t max)
{
	size_t num = 0;

	for (size_t i = 0; i < n; i++) {
		if (!rules[i].allow)
			continue;
		if (within(rules[i].a, tenant))
			num = add_tenant(rules[i].b, tenant, tenants, num, max);
		if (within(rules[i].b, tenant))
			num = add_tenant(rules[i].a, tenant, tenants, num, max);
	}
	return num;
}

/* ---- the list -------------------------------------------------------------------------------- */

static int compare(const struct ffo_rule *x, const struct ffo_rule *y)
{
	int a = strcmp(x->a, y->a);

	return a ? a : strcmp(x->b, y->b);
}

/* Where the rule is, or would be. */
static size_t find(const struct ffo_rule *rules, size_t n, const struct ffo_rule *rule)
{
	size_t i = 0;

	while (i < n && compare(&rules[i], rule) < 0)
		i++;
	return i;
}

int policy_list_set(struct ffo_rule *rules, size_t *n, const struct ffo_rule *rule)
{
	size_t i = find(rules, *n, rule);

	if (i == *n || compare(&rules[i], rule)) {
		if (*n == FFO_RULES_MAX)
			return -ENOSPC;
		memmove(&rules[i + 1], &rules[i], (*n - i) * sizeof(*rules));
		++*n;
	}
	rules[i] = *rule;
	return 0;
}

int policy_list_rm(struct ffo_rule *rules, size_t *n, const struct ffo_rule *rule)
{
	size_t i = find(rules, *n, rule);

	if (i == *n || compare(&rules[i], rule))
		return -ENOENT;
	--*n;
	memmove(&rules[i], &rules[i + 1], (*n - i) * sizeof(*rules));
	return 0;
}
