/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_policy.c - ffr/dir/policy.c: which rule decides; and that the router's answer, from a
 * hash, is the orchestrator's (ffo/base/policy.c), from the list, for rules at random.
 * build: ffr/dir/policy.c ffo/base/limits.c ffo/base/proto.c ffo/base/policy.c
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/rig/unit/unit.h"
#include "ffo/base/policy.h"
#include "ffr/dir/internal.h"

/* "A/a B allow, ...": the rules. */
static struct dir_policy rules(const char *text)
{
	struct dir_policy p;
	json_t *list = json_array();
	char a[32], b[32], action[16];
	int n;

	for (; sscanf(text, " %31s %31s %15[a-z]%n", a, b, action, &n) == 3;
	     text += n + (text[n] == ','))
		json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "a", a, "b", b, "action",
						      action));
	assert_int_equal(rules_parse(&p, list), 0);
	json_decref(list);
	return p;
}

static bool may(struct dir_policy *p, const char *from, const char *to)
{
	char a[2][16], b[2][16];
	bool one, other;

	assert_int_equal(sscanf(from, "%15[A-Z]/%15[a-z]", a[0], a[1]), 2);
	assert_int_equal(sscanf(to, "%15[A-Z]/%15[a-z]", b[0], b[1]), 2);
	one = rules_allow(p, a[0], a[1], b[0], b[1]);
	other = rules_allow(p, b[0], b[1], a[0], a[1]);
	assert_int_equal(one, other);
	return one;
}

static void tenants_are_apart_without_rules(void **state)
{
	struct dir_policy p = rules("");

	(void)state;
	assert_true(may(&p, "A/a", "A/b"));
	assert_true(may(&p, "A/a", "A/a"));
	assert_false(may(&p, "A/a", "B/a"));
	rules_free(&p);
}

static void the_most_specific_rule_decides(void **state)
{
	struct dir_policy p = rules("A B allow, A/a B deny, A/a B/b allow");

	(void)state;
	assert_true(may(&p, "A/x", "B/x"));
	assert_false(may(&p, "A/a", "B/x"));
	assert_true(may(&p, "A/a", "B/b"));
	assert_false(may(&p, "A/a", "C/b"));
	rules_free(&p);

	p = rules("A A deny, A/a A/b allow");
	assert_false(may(&p, "A/x", "A/y"));
	assert_true(may(&p, "A/a", "A/b"));
	assert_true(may(&p, "A/x", "A/x")); /* itself */
	rules_free(&p);
}

static void deny_wins_among_equals(void **state)
{
	struct dir_policy p = rules("A/a B allow, A B/b deny, B A deny");

	(void)state;
	assert_false(may(&p, "A/a", "B/b"));
	assert_true(may(&p, "A/a", "B/x"));
	rules_free(&p);
	p = rules("A B allow, B A deny"); /* no list has both; if it had: */
	assert_false(may(&p, "A/a", "B/b"));
	rules_free(&p);
	p = rules("A B deny, B A allow"); /* whichever is said last */
	assert_false(may(&p, "A/a", "B/b"));
	rules_free(&p);
}

static void what_is_no_rule_is_refused(void **state)
{
	static const char *const bad[] = {
		"{}",
		"null",
		"[5]",
		"[{}]",
		"[{\"a\":\"A\",\"b\":\"B\",\"action\":\"maybe\"}]",
		"[{\"a\":\"A/\",\"b\":\"B\",\"action\":\"deny\"}]",
		"[{\"a\":\"A\",\"b\":\"B\",\"action\":\"deny\"},{\"a\":\"A\",\"b\":\"B C\","
		"\"action\":\"deny\"}]",
	};
	struct dir_policy p;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		json_t *j = json_loads(bad[i], JSON_DECODE_ANY, NULL);

		assert_int_equal(rules_parse(&p, j), -EINVAL);
		assert_null(p.rules);
		json_decref(j);
	}
	assert_int_equal(rules_parse(&p, NULL), -EINVAL);
}

static void lists_are_compared(void **state)
{
	struct dir_policy p = rules("A B allow, A/a B deny"), q = rules("B A/a deny, A B allow");
	struct dir_policy r = rules("A B allow, A/a B allow"), s = rules("A B allow");

	(void)state;
	assert_true(rules_same(&p, &q));
	assert_false(rules_same(&p, &r));
	assert_false(rules_same(&p, &s));
	assert_false(rules_same(&s, &p));
	rules_free(&p);
	rules_free(&q);
	rules_free(&r);
	rules_free(&s);
}

/* A party of few: A, A/a, A/b, B ... */
static void random_party(char party[8])
{
	int t = rand() % 3, c = rand() % 3;

	snprintf(party, 8, c ? "%c/%c" : "%c", 'A' + t, 'a' + c - 1);
}

static void router_and_orchestrator_agree(void **state)
{
	static const char *const tenants[] = { "A", "B", "C" }, *const names[] = { "a", "b", "c" };
	struct ffo_rule rule, list[12];

	(void)state;
	srand(7);
	for (int round = 0; round < 2000; round++) {
		json_t *j = json_array();
		struct dir_policy p;
		size_t n = 0;

		for (int i = rand() % 12; i; i--) {
			char a[8], b[8];

			random_party(a);
			random_party(b);
			assert_int_equal(ffo_rule_make(&rule, a, b, rand() % 2), 0);
			assert_int_equal(policy_list_set(list, &n, &rule), 0);
		}
		for (size_t i = 0; i < n; i++)
			json_array_append_new(j, ffo_rule_to_json(&list[i]));
		assert_int_equal(rules_parse(&p, j), 0);
		json_decref(j);
		for (int i = 0; i < 81; i++) {
			struct policy_party a = { tenants[i % 3], names[i / 3 % 3] };
			struct policy_party b = { tenants[i / 9 % 3], names[i / 27] };

			if (i % 9 == i / 9) /* the same container: the router does not ask */
				continue;
			assert_int_equal(policy_allows(list, n, &a, &b),
					 rules_allow(&p, a.tenant, a.container, b.tenant,
						     b.container));
		}
		rules_free(&p);
	}
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(tenants_are_apart_without_rules),
			cmocka_unit_test(the_most_specific_rule_decides),
			cmocka_unit_test(deny_wins_among_equals),
			cmocka_unit_test(what_is_no_rule_is_refused),
			cmocka_unit_test(lists_are_compared),
			cmocka_unit_test(router_and_orchestrator_agree));
}
