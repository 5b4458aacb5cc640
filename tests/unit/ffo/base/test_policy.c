/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffo/base/policy.c ffo/base/limits.c ffo/base/proto.c */
/* test_policy.c - which rule decides, whom a tenant may know of, and the list of rules. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/rig/unit/unit.h"
#include "ffo/base/policy.h"

static struct ffo_rule rules[FFO_RULES_MAX];
static size_t num;

static int setup(void **state)
{
	(void)state;
	num = 0;
	return 0;
}

static void rule(const char *a, const char *b, bool allow)
{
	struct ffo_rule r;

	assert_int_equal(ffo_rule_make(&r, a, b, allow), 0);
	assert_int_equal(policy_list_set(rules, &num, &r), 0);
}

/* Parties as "TENANT/CONTAINER"; the answer must not depend on their order. */
static bool allows(const char *a, const char *b)
{
	char ta[FFO_PARTY_MAX], tb[FFO_PARTY_MAX];
	struct policy_party pa, pb;
	bool allowed;

	snprintf(ta, sizeof(ta), "%s", a);
	snprintf(tb, sizeof(tb), "%s", b);
	*strchr(ta, '/') = *strchr(tb, '/') = '\0';
	pa = (struct policy_party){ ta, ta + strlen(ta) + 1 };
	pb = (struct policy_party){ tb, tb + strlen(tb) + 1 };
	allowed = policy_allows(rules, num, &pa, &pb);
	assert_int_equal(policy_allows(rules, num, &pb, &pa), allowed);
	return allowed;
}

static void test_without_rules(void **state)
{
	(void)state;
	assert_true(allows("blue/a", "blue/b"));
	assert_true(allows("blue/a", "blue/a"));
	assert_false(allows("blue/a", "red/a"));
	assert_false(allows("blue/a", "bluer/a"));
}

static void test_specific_wins(void **state)
{
	(void)state;
	rule("blue", "red", true);
	assert_true(allows("blue/a", "red/b"));
	assert_false(allows("blue/a", "green/b"));
	rule("red/b", "blue", false); /* in any order */
	assert_false(allows("blue/a", "red/b"));
	assert_true(allows("blue/a", "red/c"));
	rule("blue/a", "red/b", true);
	assert_true(allows("blue/a", "red/b"));
	assert_false(allows("blue/c", "red/b"));
	rule("blue/a", "red/b", false); /* takes the other's place */
	assert_false(allows("blue/a", "red/b"));
	assert_int_equal(num, 3);
}

static void test_deny_among_equals(void **state)
{
	(void)state;
	rule("blue/a", "red", true);
	rule("blue", "red/b", false);
	assert_false(allows("blue/a", "red/b")); /* both are container and tenant */
	assert_true(allows("blue/a", "red/c"));
	rule("blue", "red", true);
	assert_false(allows("blue/a", "red/b"));
	assert_false(allows("blue/c", "red/b"));
}

static void test_within_a_tenant(void **state)
{
	(void)state;
	rule("blue", "blue", false);
	assert_false(allows("blue/a", "blue/b"));
	rule("blue/a", "blue", true);
	assert_true(allows("blue/a", "blue/b"));
	assert_false(allows("blue/c", "blue/b"));
}

static bool reach(const char *tenant, const char *to_tenant, const char *to)
{
	const struct policy_party p = { to_tenant, to };

	return policy_may_reach(rules, num, tenant, &p);
}

static void test_may_reach(void **state)
{
	(void)state;
	assert_true(reach("blue", "blue", "x"));
	assert_false(reach("blue", "red", "db"));
	rule("blue/web", "red/db", true);
	rule("green", "blue", true);
	rule("blue", "black", false);
	assert_true(reach("blue", "red", "db"));
	assert_false(reach("blue", "red", "other"));
	assert_true(reach("red", "blue", "web"));
	assert_true(reach("blue", "green", "any"));
	assert_false(reach("blue", "black", "any"));
	assert_false(reach("blu", "red", "db"));
}

static void test_tenants(void **state)
{
	char tenants[4][FFO_NAME_MAX];

	(void)state;
	rule("blue/web", "red/db", true);
	rule("blue", "red", true);
	rule("green", "blue", true);
	rule("blue", "black", false);
	rule("blue/a", "blue/b", true);
	rule("amber/x", "blue", true);
	rule("amber", "red", true);
	assert_int_equal(policy_tenants(rules, num, "blue", tenants, 4), 3);
	assert_string_equal(tenants[0], "amber");
	assert_string_equal(tenants[1], "green");
	assert_string_equal(tenants[2], "red");
	assert_int_equal(policy_tenants(rules, num, "blue", tenants, 2), 2);
	assert_string_equal(tenants[1], "green");
	assert_int_equal(policy_tenants(rules, num, "black", tenants, 4), 0);
}

static void test_list(void **state)
{
	struct ffo_rule r;
	char name[16];

	(void)state;
	for (unsigned int i = 0; i < FFO_RULES_MAX; i++) {
		snprintf(name, sizeof(name), "t%u", i * 7919 % FFO_RULES_MAX);
		rule(name, "x", i % 2);
	}
	for (size_t i = 1; i < num; i++)
		assert_true(strcmp(rules[i - 1].a, rules[i].a) < 0);
	assert_int_equal(ffo_rule_make(&r, "one", "more", true), 0);
	assert_int_equal(policy_list_set(rules, &num, &r), -ENOSPC);
	assert_int_equal(policy_list_rm(rules, &num, &r), -ENOENT);
	assert_int_equal(ffo_rule_make(&r, "x", "t7", true), 0);
	assert_int_equal(policy_list_rm(rules, &num, &r), 0);
	assert_int_equal(policy_list_rm(rules, &num, &r), -ENOENT);
	assert_int_equal(num, FFO_RULES_MAX - 1);
}

static void test_parties(void **state)
{
	static const char *const bad[] = { "",	   "/",	   "a/",   "/a",   "a/b/c", "a b",
					   "a/ b", "a/.b", "../a", "a//b", "-a" };
	struct ffo_rule r;
	char text[200];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_false(ffo_party_ok(bad[i]));
		assert_int_equal(ffo_rule_make(&r, bad[i], "a", true), -EINVAL);
		assert_int_equal(ffo_rule_make(&r, "a", bad[i], true), -EINVAL);
	}
	memset(text, 'a', sizeof(text));
	text[127] = '\0';
	text[63] = '/'; /* as long as two names can be */
	assert_int_equal(ffo_rule_make(&r, text, text, true), 0);
	text[127] = 'a';
	text[128] = '\0';
	assert_false(ffo_party_ok(text));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, setup)

	return UNIT_RUN(T(test_without_rules), T(test_specific_wins), T(test_deny_among_equals),
			T(test_within_a_tenant), T(test_may_reach), T(test_tenants), T(test_list),
			T(test_parties));
}
