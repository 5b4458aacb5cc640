/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* test_gid.c - the GID table that follows from a container's addresses. build: ffr/obj/gid.c */
#include <arpa/inet.h>

#include "tests/rig/unit/unit.h"
#include "ffr/obj/objects.h"

#define V1 IBV_GID_TYPE_ROCE_V1
#define V2 IBV_GID_TYPE_ROCE_V2

static union ibv_gid gid_of(const char *text)
{
	union ibv_gid gid;

	assert_int_equal(inet_pton(AF_INET6, text, gid.raw), 1);
	return gid;
}

static struct container two(void)
{
	struct container c = { .lid = 0x1234, .num_gids = 2 };

	c.gid[0] = gid_of("::ffff:10.0.0.1");
	c.gid[1] = gid_of("fd00::1");
	return c;
}

static void table(void **state)
{
	static const struct {
		const char *gid;
		enum ibv_gid_type type;
	} want[] = {
		{ "::ffff:10.0.0.1", V2 },
		{ "::ffff:10.0.0.1", V1 },
		{ "fe80::266:66ff:fe00:1234", V1 },
		{ "fe80::266:66ff:fe00:1234", V2 },
		{ "fd00::1", V2 },
		{ "fd00::1", V1 },
	};
	struct container c = two();

	(void)state;
	assert_int_equal(gid_table_len(&c), 6);
	for (uint32_t i = 0; i < 6; i++) {
		struct gid_entry e = gid_entry(&c, i);
		union ibv_gid gid = gid_of(want[i].gid);

		assert_memory_equal(&e.gid, &gid, 16);
		assert_int_equal(e.type, want[i].type);
		/* no GID is there twice with one type, and each is found as RoCE v2 */
		for (uint32_t k = 0; k < i; k++) {
			struct gid_entry other = gid_entry(&c, k);

			assert_true(other.type != e.type || memcmp(&other.gid, &gid, 16));
		}
		e = gid_entry(&c, (uint32_t)gid_index(&c, &gid));
		assert_memory_equal(&e.gid, &gid, 16);
		assert_int_equal(e.type, V2);
	}
	/* beyond the table it is the address */
	assert_memory_equal(gid_entry(&c, 6).gid.raw, &c.gid[0], 16);
	assert_int_equal(gid_entry(&c, UINT32_MAX).type, V2);
	/* 0 to 3 are there with one address, too */
	c.num_gids = 1;
	assert_int_equal(gid_table_len(&c), GID_NUM_FIXED);
	assert_int_equal(gid_index(&c, &c.gid[1]), -1);
	c.num_gids = 0;
	assert_int_equal(gid_table_len(&c), 0);
}

/* Each device has one of the addresses in the first place; what maps an index maps it back. */
static void devices_are_dealt_addresses(void **state)
{
	struct container c = two();
	union ibv_gid first = gid_of("::ffff:10.0.0.1"), second = gid_of("fd00::1");

	(void)state;
	for (unsigned d = 0; d < 4; d++) {
		for (uint32_t i = 0; i < 8; i++) {
			uint32_t is = gid_of_device(&c, d, i);

			assert_int_equal(gid_of_device(&c, d, is), i);
			assert_int_equal(gid_entry(&c, is).type, gid_entry(&c, i).type);
			if (d % 2 == 0 || i == GID_LOCAL_V1 || i == GID_LOCAL_V2 || i > 5)
				assert_int_equal(is, i);
		}
		assert_memory_equal(gid_entry(&c, gid_of_device(&c, d, 0)).gid.raw,
				    d % 2 ? second.raw : first.raw, 16);
		assert_memory_equal(gid_entry(&c, gid_of_device(&c, d, 4)).gid.raw,
				    d % 2 ? first.raw : second.raw, 16);
	}
	assert_int_equal(gid_device(&c, 3, GID_ADDR_V2), 0);
	assert_int_equal(gid_device(&c, 3, gid_index_of_addr(1)), 1);
	/* no device has it in the first place */
	assert_int_equal(gid_device(&c, 1, gid_index_of_addr(1)), 0);
	assert_int_equal(gid_device(&c, 3, GID_LOCAL_V2), 0);
	c.num_gids = 0;
	assert_int_equal(gid_of_device(&c, 3, 0), 0);
}

/* That of the host's NIC is the last one, where it is allowed; it is no address of the container. */
static void the_nics_is_the_last(void **state)
{
	struct container c = two();
	union ibv_gid nic = gid_of("::ffff:192.0.2.1");

	(void)state;
	c.nic_gid = nic;
	assert_int_equal(gid_nic_index(&c), -1);
	assert_int_equal(gid_table_len(&c), 6);
	c.has_nic_gid = true;
	for (c.num_gids = 2; c.num_gids; c.num_gids--) {
		uint32_t last = gid_table_len(&c) - 1;

		assert_int_equal(last, 2 + 2 * c.num_gids);
		assert_int_equal(gid_nic_index(&c), last);
		assert_memory_equal(gid_entry(&c, last).gid.raw, nic.raw, 16);
		assert_int_equal(gid_entry(&c, last).type, V2);
		assert_memory_equal(gid_entry(&c, last + 1).gid.raw, &c.gid[0], 16);
		assert_int_equal(gid_index(&c, &nic), -1);
	}
	assert_int_equal(gid_table_len(&c), 0);
}

static void whose_it_is(void **state)
{
	struct container c = two();
	union ibv_gid own = gid_local(0x1234), other = gid_local(0x1235), gid;

	(void)state;
	assert_int_equal(gid_lid(own.raw), 0x1234);
	assert_int_equal(gid_index(&c, &own), GID_LOCAL_V2);
	assert_int_equal(gid_index(&c, &other), -1);
	assert_true(gid_is_of(c.gid, c.num_gids, c.lid, &own));
	assert_true(gid_is_of(c.gid, c.num_gids, c.lid, &c.gid[1]));
	assert_false(gid_is_of(c.gid, 1, c.lid, &c.gid[1]));
	assert_false(gid_is_of(c.gid, c.num_gids, c.lid, &other));
	/* not those of Linux, of groups, or without a LID that a container can have */
	gid = gid_of("fe80::42:aff:feaf:9e02");
	assert_int_equal(gid_lid(gid.raw), 0);
	gid = gid_local(0);
	assert_int_equal(gid_lid(gid.raw), 0);
	assert_false(gid_is_of(c.gid, c.num_gids, 0, &gid));
	gid = gid_local(LID_MULTICAST);
	assert_int_equal(gid_lid(gid.raw), 0);
	gid = gid_local(LID_MULTICAST - 1);
	assert_int_equal(gid_lid(gid.raw), LID_MULTICAST - 1);
	assert_false(gid_is_mcast(own.raw) || gid_is_v4(own.raw));
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(table), cmocka_unit_test(devices_are_dealt_addresses),
			cmocka_unit_test(the_nics_is_the_last), cmocka_unit_test(whose_it_is));
}
