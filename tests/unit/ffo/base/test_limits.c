/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffo/base/limits.c ffo/base/proto.c ffo/base/tenants.c */
/* test_limits.c - limits as JSON, changes of them, and the list of tenants that have some. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/unit/unit.h"
#include "ffo/base/tenants.h"

static json_t *json(const char *text)
{
	json_t *j = json_loads(text, 0, NULL);

	assert_non_null(j);
	return j;
}

static struct ffo_limits_change change(const char *text)
{
	struct ffo_limits_change c;
	json_t *j = json(text);
	char why[100];

	assert_int_equal(ffo_limits_change_parse(j, false, &c, why, sizeof(why)), 0);
	json_decref(j);
	return c;
}

static void expect_refused(const char *text, bool tenant, const char *want)
{
	struct ffo_limits_change c;
	json_t *j = json(text);
	char why[100];

	assert_int_equal(ffo_limits_change_parse(j, tenant, &c, why, sizeof(why)), -EINVAL);
	assert_string_equal(why, want);
	json_decref(j);
}

/* A host's default holds where nothing was said; of no limit one has to speak. */
static void defaults_hold(void **state)
{
	struct ffo_limits told = { .max_qp = 7, .max_mr = FFO_UNLIMITED, .tx_rate = 9 };
	struct ffo_limits def = { .max_qp = 3, .max_mr = 4, .max_cq = 5, .max_fd = FFO_UNLIMITED };
	struct ffo_limits l = ffo_limits_in_force(&told, &def);
	struct ffo_limits_change c;

	(void)state;
	assert_int_equal(l.max_qp, 7);
	assert_int_equal(l.max_mr, 0);
	assert_int_equal(l.max_cq, 5);
	assert_int_equal(l.max_fd, 0);
	assert_int_equal(l.tx_rate, 9);
	l = ffo_limits_in_force(&told, NULL);
	assert_int_equal(l.max_mr, 0);
	assert_int_equal(l.max_cq, 0);
	c = change("{\"max_qp\":4611686018427387904}");
	ffo_limits_apply(&told, &c);
	assert_int_equal(told.max_qp, FFO_UNLIMITED);
	expect_refused("{\"tx_rate\":4611686018427387904}", false,
		       "limit \"tx_rate\" must be an integer from 0 to 1000000000000");
	/* what is called max is what has one, and the tight ones are tighter */
	for (size_t i = 0; i < FFO_NUM_LIMITS; i++) {
		struct ffo_limits n = ffo_limits_default, u = ffo_limits_untrusted;

		assert_int_equal(ffo_limit_has_default(i), !strncmp(ffo_limit[i].name, "max_", 4));
		if (ffo_limit_has_default(i))
			assert_true(*ffo_limit_of(&u, i) &&
				    *ffo_limit_of(&u, i) < *ffo_limit_of(&n, i));
	}
}

static void what_is_absent_stays(void **state)
{
	struct ffo_limits l = { .tx_rate = 5, .max_qp = 7 };
	struct ffo_limits_change c = change("{\"tx_rate\":0,\"max_mr\":9}");

	(void)state;
	ffo_limits_apply(&l, &c);
	assert_int_equal(l.tx_rate, 0);
	assert_int_equal(l.max_qp, 7);
	assert_int_equal(l.max_mr, 9);
	c = change("{\"max_qp\":0,\"max_mr\":0}");
	assert_true(ffo_limits_any(&l));
	ffo_limits_apply(&l, &c);
	assert_false(ffo_limits_any(&l));
}

static void nonsense_is_refused(void **state)
{
	(void)state;
	expect_refused("{\"tx\":1}", false, "there is no limit \"tx\"");
	expect_refused("{\"tx_rate\\nx\":1}", false, "there is no limit \"tx_rate\"");
	expect_refused("{\"weight\":1001}", false,
		       "limit \"weight\" must be an integer from 0 to 1000");
	expect_refused("{\"latency\":true}", false,
		       "limit \"latency\" must be an integer from 0 to 1");
	expect_refused("{\"tx_rate\":-1}", false,
		       "limit \"tx_rate\" must be an integer from 0 to 1000000000000");
	expect_refused("{\"weight\":1}", true, "limit \"weight\" is a container's, not a tenant's");
}

/* All as high as they go, with the longest names: a message and a record have room for the list. */
static void a_full_list_fits(void **state)
{
	struct ffo_limits_change c = { .set = UINT32_MAX };
	static struct ffo_tenant list[FFO_TENANTS_MAX], again[FFO_TENANTS_MAX];
	char name[FFO_NAME_MAX];
	size_t n = 0, num;
	json_t *j;

	(void)state;
	for (size_t i = 0; i < FFO_NUM_LIMITS; i++)
		*ffo_limit_of(&c.to, i) = ffo_limit[i].tenant ? ffo_limit[i].max : 0;
	for (int i = FFO_TENANTS_MAX - 1; i >= 0; i--) {
		snprintf(name, sizeof(name), "t%062d", i);
		assert_int_equal(tenants_change(list, &n, name, &c), 0);
	}
	assert_int_equal(n, FFO_TENANTS_MAX);
	assert_int_equal(tenants_change(list, &n, name, &c), 0);
	assert_int_equal(tenants_change(list, &n, "one_more", &c), -ENOSPC);
	j = json_pack("{s:s, s:o}", "event", "tenants", "tenants", tenants_to_json(list, n));
	assert_true(json_dumpb(j, NULL, 0, JSON_COMPACT) < FFO_LINE_MAX - 100);
	assert_int_equal(tenants_from_json(json_object_get(j, "tenants"), again, &num), 0);
	assert_int_equal(num, n);
	assert_memory_equal(list, again, sizeof(list));
	json_decref(j);

	c = change("{}");
	c.set = UINT32_MAX;
	assert_int_equal(tenants_change(list, &n, name, &c), 0);
	assert_int_equal(n, FFO_TENANTS_MAX - 1);
	assert_null(tenants_find(list, n, name));
	assert_int_equal(tenants_change(list, &n, "nobody", &c), 0);
	assert_int_equal(n, FFO_TENANTS_MAX - 1);
	assert_string_equal(list[0].name, again[1].name);
}

static void lists_are_checked(void **state)
{
	static const char *const bad[] = {
		"{}",
		"[7]",
		"[{\"tenant\":\"-\"}]",
		"[{\"tenant\":\"a\",\"limits\":[]}]",
		"[{\"tenant\":\"a\",\"limits\":{\"max_qp\":\"5\"}}]",
		"[{\"tenant\":\"b\"},{\"tenant\":\"a\"}]",
		"[{\"tenant\":\"a\"},{\"tenant\":\"a\"}]",
	};
	static struct ffo_tenant list[FFO_TENANTS_MAX];
	size_t n = 7;
	json_t *j;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		j = json(bad[i]);
		assert_int_equal(tenants_from_json(j, list, &n), -EINVAL);
		assert_int_equal(n, 0);
		json_decref(j);
	}
	j = json("[{\"tenant\":\"a\",\"limits\":{\"of_the_future\":\"x\",\"max_qp\":5}}]");
	assert_int_equal(tenants_from_json(j, list, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(list[0].limits.max_qp, 5);
	json_decref(j);
}

static void a_container_has_them(void **state)
{
	struct ffo_container c = { .id = 7,
				   .epoch = 3,
				   .lid = 9,
				   .num_ips = 1,
				   .name = "web",
				   .tenant = "red",
				   .host = "h0" };
	struct ffo_container c2;
	json_t *j;

	(void)state;
	ffo_addr_parse("10.77.0.2", &c.ip[0]);
	j = ffo_container_to_json(&c);
	assert_null(json_object_get(j, "limits"));
	assert_int_equal(ffo_container_from_json(j, &c2), 0);
	assert_true(ffo_container_same(&c, &c2));
	json_decref(j);
	c.limits.max_pinned = 1ull << 50;
	assert_false(ffo_container_same(&c, &c2));
	j = ffo_container_to_json(&c);
	assert_int_equal(ffo_container_from_json(j, &c2), 0);
	assert_true(ffo_container_same(&c, &c2));
	json_object_set_new(json_object_get(j, "limits"), "weight", json_integer(1001));
	assert_int_equal(ffo_container_from_json(j, &c2), -EINVAL);
	json_decref(j);
}

static size_t beyond(const char *asked, const struct ffo_limits *tenant)
{
	const struct ffo_limits def = { .max_qp = 3, .max_mr = FFO_UNLIMITED };
	struct ffo_limits_change c = change(asked);

	return ffo_limits_beyond(&c.to, &def, tenant);
}

/* Who is not trusted gets no more than the host's defaults, or what holds for the tenant. */
static void defaults_are_the_most(void **state)
{
	const struct ffo_limits none = { 0 }, of_tenant = { .max_qp = 9 };

	(void)state;
	assert_int_equal(beyond("{}", &none), FFO_NUM_LIMITS);
	assert_int_equal(beyond("{\"max_qp\":3}", &none), FFO_NUM_LIMITS);
	assert_int_equal(beyond("{\"max_qp\":4}", &none), FFO_LIMIT_NR_max_qp);
	assert_int_equal(beyond("{\"max_qp\":4611686018427387904}", &none), FFO_LIMIT_NR_max_qp);
	assert_int_equal(beyond("{\"max_qp\":4611686018427387904}", &of_tenant), FFO_NUM_LIMITS);
	/* no default, or none that limits: a limit makes it less */
	assert_int_equal(beyond("{\"max_mr\":4611686018427387904,\"max_cq\":7}", &none),
			 FFO_NUM_LIMITS);
	assert_int_equal(beyond("{\"tx_rate\":1000,\"burst\":1000,\"no_uffd\":1}", &none),
			 FFO_NUM_LIMITS);
	assert_int_equal(beyond("{\"weight\":100,\"latency\":0}", &none), FFO_NUM_LIMITS);
	assert_int_equal(beyond("{\"weight\":101}", &of_tenant), FFO_LIMIT_NR_weight);
	assert_int_equal(beyond("{\"latency\":1}", &of_tenant), FFO_LIMIT_NR_latency);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(defaults_hold), cmocka_unit_test(defaults_are_the_most),
			cmocka_unit_test(what_is_absent_stays),
			cmocka_unit_test(nonsense_is_refused), cmocka_unit_test(a_full_list_fits),
			cmocka_unit_test(lists_are_checked),
			cmocka_unit_test(a_container_has_them));
}
