/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffo/base/limits.c ffo/base/proto.c */
/*
 * test_proto.c - ffo/base/proto.c: what is told of a container of another host: its addresses, its
 * devices; and which ops are for operators.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ffo/base/proto.h"
#include "tests/rig/unit/unit.h"

/* As the orchestrator tells of a container with n addresses. */
static int told(unsigned n, struct ffo_container *c)
{
	json_t *ips = json_array(), *j;
	char text[16];
	int err;

	for (unsigned i = 1; i <= n; i++) {
		snprintf(text, sizeof(text), "10.0.0.%u", i);
		json_array_append_new(ips, json_string(text));
	}
	j = json_pack("{s:i, s:s, s:s, s:o, s:i, s:s, s:s, s:i}", "id", 7, "name", "web", "tenant",
		      "red", "ips", ips, "lid", 9, "mode", "adaptive", "host", "h0", "epoch", 1);
	assert_non_null(j);
	err = ffo_container_from_json(j, c);
	json_decref(j);
	return err;
}

static void addresses_have_room(void **state)
{
	struct {
		struct ffo_container c;
		uint8_t behind[64];
	} s;

	(void)state;
	memset(&s, 0xaa, sizeof(s));
	assert_int_equal(told(FFO_ADDR_MAX, &s.c), 0);
	assert_int_equal(s.c.num_ips, FFO_ADDR_MAX);
	assert_int_equal(told(FFO_ADDR_MAX + 1, &s.c), -EINVAL);
	assert_int_equal(told(0, &s.c), -EINVAL);
	for (unsigned i = 0; i < sizeof(s.behind); i++)
		assert_int_equal(s.behind[i], 0xaa);
}

static void name_is(const char *first, unsigned devices, unsigned i, const char *want)
{
	char name[FFO_NAME_MAX];

	assert_true(ffo_device_name(first, devices, i, name));
	assert_string_equal(name, want);
}

/* One device has the name that was said; of several the number at the end grows. */
static void devices_have_names(void **state)
{
	char name[FFO_NAME_MAX], longest[FFO_NAME_MAX];

	(void)state;
	name_is("", 0, 0, "ff0");
	name_is("", 4, 3, "ff3");
	name_is("rail", 1, 0, "rail");
	name_is("rail", 2, 0, "rail0");
	name_is("rail", 2, 1, "rail1");
	name_is("mlx5_0", 1, 0, "mlx5_0");
	name_is("mlx5_0", 16, 15, "mlx5_15");
	name_is("mlx5_9", 2, 1, "mlx5_10");
	name_is("7", 2, 1, "8");
	name_is("a007", 2, 0, "a007");
	name_is("a99999999999", 2, 1, "a991000000000");
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	name_is(longest, 1, 0, longest);
	assert_false(ffo_device_name(longest, 2, 0, name));
}

/* They travel with the container, and nonsense is refused. */
static void devices_are_told(void **state)
{
	struct ffo_container c, c2;
	json_t *j;

	(void)state;
	assert_int_equal(told(1, &c), 0);
	j = ffo_container_to_json(&c);
	assert_null(json_object_get(j, "device_name"));
	assert_null(json_object_get(j, "devices"));
	json_decref(j);
	strcpy(c.device_name, "mlx5_0");
	c.devices = 4;
	j = ffo_container_to_json(&c);
	assert_int_equal(ffo_container_from_json(j, &c2), 0);
	assert_true(ffo_container_same(&c, &c2));
	c2.devices = 3;
	assert_false(ffo_container_same(&c, &c2));
	c2 = c;
	strcpy(c2.device_name, "ff0");
	assert_false(ffo_container_same(&c, &c2));
	json_object_set_new(j, "devices", json_integer(FFO_DEVICES_MAX + 1));
	assert_int_equal(ffo_container_from_json(j, &c2), -EINVAL);
	json_object_set_new(j, "devices", json_integer(-1));
	assert_int_equal(ffo_container_from_json(j, &c2), -EINVAL);
	json_object_set_new(j, "devices", json_integer(1));
	json_object_set_new(j, "device_name", json_string("../x"));
	assert_int_equal(ffo_container_from_json(j, &c2), -EINVAL);
	json_decref(j);
}

static void ops_for_operators(void **state)
{
	(void)state;
	assert_int_equal(ffo_op_for_operators("policy_set"), FFO_OP_POLICY_SET);
	assert_int_equal(ffo_op_for_operators("map_get"), FFO_OP_MAP_GET);
	assert_int_equal(ffo_op_for_operators("hello"), -EOPNOTSUPP); /* of each connection, once */
	assert_int_equal(ffo_op_for_operators("map_unwatch"), -EOPNOTSUPP); /* of a host */
	assert_int_equal(ffo_op_for_operators("policy"), -EOPNOTSUPP);
	assert_int_equal(ffo_op_for_operators(""), -EOPNOTSUPP);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(addresses_have_room), cmocka_unit_test(devices_have_names),
			cmocka_unit_test(devices_are_told), cmocka_unit_test(ops_for_operators));
}
