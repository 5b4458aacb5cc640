/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/sqlite_rig.c ffr/lib/log.c -Wl,--wrap=sqlite3_step */
/*
 * test_policy.c - how many rules and tenants the store keeps.
 */
#include "tests/rig/unit/sqlite_rig.h"
#include "tests/rig/unit/unit.h"

static void test_policy_limit(void **state)
{
	struct lite *t = *state;
	struct ffo_rule rule;
	char name[16];
	struct lite_end *e;

	for (unsigned int i = 0; i < FFO_RULES_MAX; i++) {
		snprintf(name, sizeof(name), "t%u", i);
		assert_int_equal(ffo_rule_make(&rule, name, "blue", true), 0);
		assert_int_equal(LITE_CALL(t, policy_set, &rule, lite_done)->err, 0);
	}
	assert_int_equal(LITE_CALL(t, policy_set, &rule, lite_done)->err, 0); /* is there already */
	assert_int_equal(ffo_rule_make(&rule, "one", "more", true), 0);
	e = LITE_CALL(t, policy_set, &rule, lite_done);
	assert_int_equal(e->err, -ENOSPC);
	assert_string_equal(e->why, "the policy has 512 rules already");
	lite_reopen(t);
}

static void test_tenant_limit(void **state)
{
	struct lite *t = *state;
	struct ffo_tenant list[FFO_TENANTS_MAX];
	char name[16];

	for (unsigned int i = 0; i < FFO_TENANTS_MAX; i++) {
		snprintf(name, sizeof(name), "t%u", i);
		assert_int_equal(lite_set_tenant(t, name, i + 1), 0);
	}
	assert_int_equal(lite_set_tenant(t, "more", 1), -ENOSPC);
	assert_int_equal(lite_set_tenant(t, "t9", 99), 0);
	assert_int_equal(lite_set_tenant(t, "t8", 0), 0);
	assert_int_equal(lite_set_tenant(t, "more", 1), 0);
	lite_reopen(t);
	assert_int_equal(sqlite_get_tenants(store_of(t->s), list), FFO_TENANTS_MAX);
	assert_string_equal(list[0].name, "more");
	assert_string_equal(list[FFO_TENANTS_MAX - 1].name, "t99");
	assert_int_equal(list[FFO_TENANTS_MAX - 1].limits.max_qp, 100);
}

int main(void)
{
	return UNIT_RUN(LITE_TEST(test_policy_limit), LITE_TEST(test_tenant_limit));
}
