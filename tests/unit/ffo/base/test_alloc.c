/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffr/lib/log.c */
/* test_alloc.c - addresses and LIDs: ffo/base/alloc.c and ffo/base/idset.c against a plain model. */

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/unit/unit.h"
#include "ffo/base/alloc.h"
#include "ffo/base/proto.h"
#include "ffo/base/idset.h"

/* ---- idset ---------------------------------------------------------------------------------- */

#define MODEL 300u

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

/* Any order of adds and removals: the same members and the same lowest free number as the model. */
static void test_idset_model(void **state)
{
	bool has[MODEL] = { false };
	uint32_t seed = 1, i, n;
	struct idset s;
	idset_num got;
	unsigned long count = 0;

	(void)state;
	idset_init(&s);
	for (int step = 0; step < 30000; step++) {
		/* Fill in the first half of each thousand, drain in the second. */
		bool add = next_random(&seed) % 10 < (step % 1000 < 500 ? 8u : 2u);

		n = next_random(&seed) % MODEL;
		if (add) {
			assert_int_equal(idset_add(&s, n), has[n] ? -EEXIST : 0);
			count += !has[n];
			has[n] = true;
		} else if (has[n]) {
			idset_del(&s, n);
			has[n] = false;
			count--;
		}
		assert_int_equal(idset_has(&s, n), has[n]);
		assert_int_equal(s.count, count);

		n = next_random(&seed) % MODEL;
		for (i = n; i < MODEL && has[i]; i++)
			;
		if (i == MODEL) {
			assert_int_equal(idset_lowest_free(&s, n, MODEL - 1, &got), -ENOSPC);
		} else {
			assert_int_equal(idset_lowest_free(&s, n, MODEL - 1, &got), 0);
			assert_int_equal((uint32_t)got, i);
		}
	}
	idset_clear(&s);
}

static void test_idset_wide(void **state)
{
	const idset_num top = ~(idset_num)0;
	struct idset s;
	idset_num got;

	(void)state;
	idset_init(&s);
	assert_int_equal(idset_add(&s, top), 0);
	assert_int_equal(idset_add(&s, 0), 0);
	assert_int_equal(idset_add(&s, top - 1), 0);
	assert_true(idset_has(&s, top));
	assert_false(idset_has(&s, 1));
	assert_int_equal(idset_lowest_free(&s, top - 1, top, &got), -ENOSPC);
	assert_int_equal(idset_lowest_free(&s, 5, 4, &got), -ENOSPC);
	assert_int_equal(idset_lowest_free(&s, 0, top, &got), 0);
	assert_true(got == 1);
	idset_clear(&s);
	assert_false(idset_has(&s, top));
}

/* ---- alloc ---------------------------------------------------------------------------------- */

static int setup(void **state)
{
	return alloc_create((struct alloc **)state);
}

static int teardown(void **state)
{
	alloc_free(*state);
	return 0;
}

static int set_pool(struct alloc *a, int family, const char *pool)
{
	char why[160] = "";
	int err = alloc_set_pool(a, family, pool, why, sizeof(why));

	if (err)
		assert_true(strlen(why) && !strchr(why, '\n'));
	return err;
}

static int take(struct alloc *a, const char *tenant, const char *text)
{
	struct in6_addr addr;

	assert_int_equal(ffo_addr_parse(text, &addr), 0);
	return alloc_take_addr(a, tenant, &addr);
}

static void put(struct alloc *a, const char *tenant, const char *text)
{
	struct in6_addr addr;

	assert_int_equal(ffo_addr_parse(text, &addr), 0);
	alloc_put_addr(a, tenant, &addr);
}

static void expect_addr(struct alloc *a, const char *tenant, int family, const char *text)
{
	char got[INET6_ADDRSTRLEN];
	struct in6_addr addr;

	assert_int_equal(alloc_addr(a, tenant, family, &addr), 0);
	assert_string_equal(ffo_addr_text(&addr, got), text);
}

static void test_lowest(void **state)
{
	struct alloc *a = *state;

	expect_addr(a, "t", AF_INET, "10.77.0.2");
	expect_addr(a, "t", AF_INET, "10.77.0.3");
	expect_addr(a, "t", AF_INET6, "fd77:6666::2");
	assert_int_equal(take(a, "t", "10.77.0.4"), 0);
	expect_addr(a, "t", AF_INET, "10.77.0.5");
	put(a, "t", "10.77.0.3");
	expect_addr(a, "t", AF_INET, "10.77.0.3");
	expect_addr(a, "t", AF_INET, "10.77.0.6");
	/* Another tenant has the same addresses for itself. */
	expect_addr(a, "u", AF_INET, "10.77.0.2");
	assert_int_equal(take(a, "u", "10.77.0.4"), 0);
}

static void test_given(void **state)
{
	static const char *const unusable[] = {
		"10.77.0.0",   "10.77.255.255", "0.0.0.0",	   "0.1.2.3",	  "127.0.0.1",
		"169.254.1.1", "224.0.0.1",	"255.255.255.255", "::",	  "::1",
		"ff02::1",     "fe80::1",	"febf::1",	   "fd77:6666::",
	};
	struct alloc *a = *state;

	for (size_t i = 0; i < sizeof(unusable) / sizeof(unusable[0]); i++)
		assert_int_equal(take(a, "t", unusable[i]), -EADDRNOTAVAIL);
	/* In the pool, the gateway's, outside of it, both families. */
	assert_int_equal(take(a, "t", "10.77.1.0"), 0);
	assert_int_equal(take(a, "t", "10.77.0.1"), 0);
	assert_int_equal(take(a, "t", "192.168.0.0"), 0);
	assert_int_equal(take(a, "t", "2001:db8::1"), 0);
	assert_int_equal(take(a, "t", "fd77:6666::ffff:ffff:ffff:ffff"), 0);
	assert_int_equal(take(a, "t", "10.77.1.0"), -EADDRINUSE);
	assert_int_equal(take(a, "t", "2001:db8::1"), -EADDRINUSE);
	assert_int_equal(take(a, "u", "2001:db8::1"), 0);
	put(a, "t", "2001:db8::1");
	assert_int_equal(take(a, "t", "2001:db8::1"), 0);
}

static void test_addr_text(void **state)
{
	static const char *const bad[] = { "",		 "10.1.1",     "10.1.1.1.1",
					   "10.1.1.256", "10.1.1.1/8", "::ffff:1.2.3.4",
					   "fd77::g",	 "web",	       " 10.1.1.1",
					   "10.1.1.1 " };
	char text[INET6_ADDRSTRLEN];
	struct in6_addr addr;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(ffo_addr_parse(bad[i], &addr), -EINVAL);
	assert_int_equal(ffo_addr_parse("10.1.2.3", &addr), 0);
	assert_true(IN6_IS_ADDR_V4MAPPED(&addr));
	assert_string_equal(ffo_addr_text(&addr, text), "10.1.2.3");
}

static void test_exhaustion(void **state)
{
	struct alloc *a = *state;
	struct in6_addr addr;

	assert_int_equal(set_pool(a, AF_INET, "10.9.8.0/29"), 0);
	assert_int_equal(set_pool(a, AF_INET6, "fd00::/126"), 0);
	for (int round = 0; round < 2; round++) {
		expect_addr(a, "t", AF_INET, "10.9.8.2");
		expect_addr(a, "t", AF_INET, "10.9.8.3");
		expect_addr(a, "t", AF_INET, "10.9.8.4");
		expect_addr(a, "t", AF_INET, "10.9.8.5");
		expect_addr(a, "t", AF_INET, "10.9.8.6");
		assert_int_equal(alloc_addr(a, "t", AF_INET, &addr), -ENOSPC);
		assert_int_equal(take(a, "t", "10.9.8.7"), -EADDRNOTAVAIL);
		put(a, "t", "10.9.8.4");
		expect_addr(a, "t", AF_INET, "10.9.8.4");
		assert_int_equal(alloc_addr(a, "t", AF_INET, &addr), -ENOSPC);
		put(a, "t", "10.9.8.2");
		put(a, "t", "10.9.8.6");
		put(a, "t", "10.9.8.3");
		put(a, "t", "10.9.8.5");
		put(a, "t", "10.9.8.4");
	}
	expect_addr(a, "t", AF_INET6, "fd00::2");
	expect_addr(a, "t", AF_INET6, "fd00::3");
	assert_int_equal(alloc_addr(a, "t", AF_INET6, &addr), -ENOSPC);
}

static void test_pools(void **state)
{
	static const char *const bad[] = {
		"",
		"10.0.0.0",
		"10.0.0.0/",
		"10.0.0.0/31",
		"10.0.0.0/0",
		"10.0.0.1/8",
		"10.0.0.0/ 8",
		"10.0.0.0/8x",
		"10.0.0.0/-8",
		"10.0.0.0/99999999999",
		"fd00::/127",
		"fd00::1/64",
		"=10.0.0.0/8",
		"a b=10.0.0.0/8",
		".a=10.0.0.0/8",
		"x/8",
		"a=b=10.0.0.0/8",
		"fd00:fd00:fd00:fd00:fd00:fd00:fd00:fd00:fd00:fd00::/64",
	};
	struct alloc *a = *state;
	char long_name[200];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(set_pool(a, AF_UNSPEC, bad[i]), -EINVAL);
	memset(long_name, 'a', 100);
	strcpy(long_name + 100, "=10.0.0.0/8");
	assert_int_equal(set_pool(a, AF_UNSPEC, long_name), -EINVAL);
	assert_int_equal(set_pool(a, AF_INET6, "10.0.0.0/8"), -EINVAL);
	assert_int_equal(set_pool(a, AF_INET, "fd00::/64"), -EINVAL);

	/* A tenant's own pool is its own only, and of that family only. */
	assert_int_equal(set_pool(a, AF_UNSPEC, "blue=172.20.0.0/24"), 0);
	assert_int_equal(set_pool(a, AF_UNSPEC, "fd42::/48"), 0);
	expect_addr(a, "blue", AF_INET, "172.20.0.2");
	expect_addr(a, "blue", AF_INET6, "fd42::2");
	expect_addr(a, "red", AF_INET, "10.77.0.2");
	assert_int_equal(take(a, "blue", "172.20.0.255"), -EADDRNOTAVAIL);
	assert_int_equal(take(a, "red", "172.20.0.255"), 0);
	/* It stays when its last address goes. */
	put(a, "blue", "172.20.0.2");
	put(a, "blue", "fd42::2");
	expect_addr(a, "blue", AF_INET, "172.20.0.2");
}

static void test_lids(void **state)
{
	struct alloc *a = *state;
	uint16_t lid;

	assert_int_equal(alloc_take_lid(a, 0), -EINVAL);
	assert_int_equal(alloc_take_lid(a, FFO_LID_MAX + 1), -EINVAL);
	assert_int_equal(alloc_take_lid(a, 3), 0);
	assert_int_equal(alloc_take_lid(a, 3), -EEXIST);
	for (unsigned int i = 1; i <= FFO_LID_MAX; i++) {
		if (i == 3)
			continue;
		assert_int_equal(alloc_lid(a, &lid), 0);
		assert_int_equal(lid, i);
	}
	assert_int_equal(alloc_lid(a, &lid), -ENOSPC);
	alloc_put_lid(a, 40000);
	assert_int_equal(alloc_lid(a, &lid), 0);
	assert_int_equal(lid, 40000);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(test_idset_model), cmocka_unit_test(test_idset_wide),
			cmocka_unit_test_setup_teardown(test_lowest, setup, teardown),
			cmocka_unit_test_setup_teardown(test_given, setup, teardown),
			cmocka_unit_test(test_addr_text),
			cmocka_unit_test_setup_teardown(test_exhaustion, setup, teardown),
			cmocka_unit_test_setup_teardown(test_pools, setup, teardown),
			cmocka_unit_test_setup_teardown(test_lids, setup, teardown));
}
