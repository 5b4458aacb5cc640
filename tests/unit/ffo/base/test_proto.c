/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffo/base/limits.c ffo/base/proto.c */
/* test_proto.c - ffo/base/proto.c: how many addresses a container of another host may have. */
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

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(addresses_have_room));
}
