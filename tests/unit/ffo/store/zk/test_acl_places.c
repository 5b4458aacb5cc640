/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: -lzookeeper_st */
/*
 * test_acl_places.c - which rights a node has by its place in the tree, without a ZooKeeper.
 */
#include "ffo/store/zk/acl.h"
#include "ffo/store/zk/zk.h"
#include "tests/rig/unit/unit.h"

/* A place that has no rules of its own is the operators'. */
static void a_place_is_a_whole_name(void **state)
{
	static const char *const of_operators[] = {
		"/",	 "/container",	"/containersx",	 "/containers2/web",
		"/idsx", "/mcastx/a/b", "/x/containers", "/hosts",
	};
	static const char *const of_hosts[] = {
		"/containers", "/containers/web", "/names/a",  "/addrs/a/b", "/hosts/h0",
		"/ids",	       "/ids/1",	  "/active/x", "/mcast/a/b",
	};
	const struct zk_conf conf = { .auth = (char *)"digest:cluster:secret",
				      .own = (char *)"digest:h0:secret",
				      .operator_id = (char *)"operator:hash" };
	struct zk_acls *a = NULL;

	(void)state;
	assert_int_equal(zk_acls_new(&conf, &a), 0);
	for (size_t i = 0; i < sizeof(of_operators) / sizeof(of_operators[0]); i++)
		assert_ptr_equal(zk_acl_of(a, of_operators[i]), zk_acl_operators(a));
	for (size_t i = 0; i < sizeof(of_hosts) / sizeof(of_hosts[0]); i++)
		assert_ptr_not_equal(zk_acl_of(a, of_hosts[i]), zk_acl_operators(a));
	zk_acls_free(a);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(a_place_is_a_whole_name));
}
