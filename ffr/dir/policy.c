/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * policy.c - who may talk to whom: the administrator's rules as this router has them.
 *
 * A rule is about a pair of parties, each a tenant or a container of it. The most specific rule
 * about two containers decides:
 *
 *	both are named		A/a and B/b
 *	one is			A/a and B, or A and B/b; where both are there and differ: deny
 *	none			A and B
 *
 * Without a rule, containers of one tenant may and others may not. A container may always talk to
 * itself. The rules are in a hash, so the answer takes four look-ups, however many there are.
 */
#include <errno.h>
#include <stdlib.h>

#include "ffr/dir/internal.h"

static void pair_text(char pair[2 * FFO_PARTY_MAX], const char *a, const char *b)
{
	if (strcmp(a, b) > 0) {
		const char *t = a;

		a = b;
		b = t;
	}
	snprintf(pair, 2 * (size_t)FFO_PARTY_MAX, "%s %s", a, b);
}

int rules_parse(struct dir_policy *p, json_t *rules)
{
	struct dir_rule *rule, *old;
	struct ffo_rule fr;
	json_t *j;
	size_t i;

	p->rules = NULL;
	if (!json_is_array(rules))
		return -EINVAL;
	json_array_foreach(rules, i, j) {
		if (ffo_rule_from_json(j, &fr)) {
			rules_free(p);
			return -EINVAL;
		}
		rule = calloc(1, sizeof(*rule));
		if (!rule)
			goto err_nomem;
		pair_text(rule->pair, fr.a, fr.b);
		rule->allow = fr.allow;
		HASH_FIND_STR(p->rules, rule->pair, old);
		if (old) { /* said twice: the stricter one */
			old->allow = old->allow && rule->allow;
			free(rule);
			continue;
		}
		HASH_ADD_STR(p->rules, pair, rule);
		if (!rule->hh.tbl) {
			free(rule);
			goto err_nomem;
		}
	}
	return 0;

err_nomem:
	rules_free(p);
	return -ENOMEM;
}

void rules_free(struct dir_policy *p)
{
	struct dir_rule *rule, *next;

	HASH_ITER(hh, p->rules, rule, next) {
		HASH_DEL(p->rules, rule);
		free(rule);
	}
}

bool rules_same(const struct dir_policy *a, const struct dir_policy *b)
{
	struct dir_rule *rule, *other, *next;

	if (HASH_COUNT(a->rules) != HASH_COUNT(b->rules))
		return false;
	HASH_ITER(hh, a->rules, rule, next) {
		HASH_FIND_STR(b->rules, rule->pair, other);
		if (!other || other->allow != rule->allow)
			return false;
	}
	return true;
}

static const struct dir_rule *rule_of(const struct dir_policy *p, const char *a, const char *b)
{
	char pair[2 * FFO_PARTY_MAX];
	struct dir_rule *rule;

	pair_text(pair, a, b);
	HASH_FIND_STR(p->rules, pair, rule);
	return rule;
}

bool rules_allow(const struct dir_policy *p, const char *tenant_a, const char *name_a,
		 const char *tenant_b, const char *name_b)
{
	char a[FFO_PARTY_MAX], b[FFO_PARTY_MAX];
	const struct dir_rule *rule, *other;
	bool same = !strcmp(tenant_a, tenant_b);

	if (!p->rules || (same && !strcmp(name_a, name_b)))
		return same;
	snprintf(a, sizeof(a), "%s/%s", tenant_a, name_a);
	snprintf(b, sizeof(b), "%s/%s", tenant_b, name_b);
	rule = rule_of(p, a, b);
	if (rule)
		return rule->allow;
	rule = rule_of(p, a, tenant_b);
	other = rule_of(p, tenant_a, b);
	if (rule || other)
		return (!rule || rule->allow) && (!other || other->allow);
	rule = rule_of(p, tenant_a, tenant_b);
	return rule ? rule->allow : same;
}
