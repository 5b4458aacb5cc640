/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/device_rig.c tests/rig/fakes/fake_router.c ffl/verbs/ah.c ffl/verbs/async.c ffl/session/call.c ffl/session/slot.c ffl/session/context.c ffl/entry/context.c ffl/entry/device.c ffl/verbs/domain.c ffl/entry/enum.c ffl/entry/ops.c ffl/session/log.c ffl/verbs/pd.c ffl/verbs/query.c ffl/session/table.c ffl/entry/import.c ffl/verbs/xrc.c */
/*
 * test_query.c - queries of the device, its port, GIDs and clock: structures of every length.
 */
#include <arpa/inet.h>
#include <netinet/ip.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "tests/rig/unit/device_rig.h"
#include "tests/rig/unit/unit.h"

static void test_query_device(void **state)
{
	static const size_t len[] = { 232, 352, 376, 384, 400, 480 };
	struct ibv_device_attr attr;
	struct ibv_device_attr_ex ex;
	uint8_t buf[512];
	unsigned int i;
	size_t k;

	(void)state;
	strcpy(device_router.dev.fw_ver, "1.2.3");
	device_router.dev.max_qp = 4096;
	device_router.dev.max_sge = 32;
	device_router.dev.device_cap_flags = 1ull << 34 | IBV_DEVICE_RC_RNR_NAK_GEN;
	device_router.dev.hca_core_clock = 1000000;
	assert_int_equal(ibv_query_device(device_ctx, &attr), 0);
	assert_string_equal(attr.fw_ver, "1.2.3");
	assert_int_equal(attr.max_qp, 4096);
	assert_int_equal(attr.device_cap_flags, IBV_DEVICE_RC_RNR_NAK_GEN);
	assert_int_equal(attr.phys_port_cnt, 1);
	assert_int_equal(ibv_query_device_ex(device_ctx, NULL, &ex), 0);
	assert_int_equal(ex.device_cap_flags_ex, 1ull << 34 | IBV_DEVICE_RC_RNR_NAK_GEN);
	assert_int_equal(ex.hca_core_clock, 1000000);
	assert_int_equal(ex.phys_port_cnt_ex, 1);
	assert_memory_equal(&ex.orig_attr, &attr, sizeof(attr));
	for (i = 0; i < ARRAY_SIZE(len); i++) {
		memset(buf, 0xee, sizeof(buf));
		assert_int_equal(ffl_query_device_ex(device_ctx, NULL, (void *)buf, len[i]), 0);
		assert_memory_equal(buf, &ex, len[i] < sizeof(ex) ? len[i] : sizeof(ex));
		for (k = sizeof(ex); k < len[i]; k++)
			assert_int_equal(buf[k], 0);
		assert_int_equal(buf[len[i]], 0xee);
	}
	assert_int_equal(ffl_query_device_ex(device_ctx, NULL, (void *)buf, 231), EINVAL);
	assert_int_equal(ibv_query_device_ex(device_ctx,
					     &(struct ibv_query_device_ex_input){ .comp_mask = 1 },
					     &ex),
			 EINVAL);
}

#undef ibv_query_port
static void test_query_port(void **state)
{
	static const size_t len[] = { 48, 52, 56, 64 };
	struct ibv_port_attr attr;
	uint8_t buf[80];
	unsigned int i;

	(void)state;
	device_router.port.state = IBV_PORT_ACTIVE;
	device_router.port.link_layer = IBV_LINK_LAYER_ETHERNET;
	device_router.port.active_speed = 256;
	device_router.port.port_cap_flags2 = 0x5a;
	device_router.port.flags = 3;
	assert_int_equal(___ibv_query_port(device_ctx, 1, &attr), 0);
	assert_int_equal(attr.state, IBV_PORT_ACTIVE);
	assert_int_equal(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(attr.active_speed, 128);
	assert_int_equal(attr.port_cap_flags2, 0x5a);
	assert_int_equal(attr.gid_tbl_len, ROUTER_GIDS);
	for (i = 0; i < ARRAY_SIZE(len); i++) {
		memset(buf, 0xee, sizeof(buf));
		assert_int_equal(ffl_query_port(device_ctx, 1, (void *)buf, len[i]), 0);
		assert_int_equal(buf[len[i]], 0xee);
		assert_int_equal(buf[47], 3);
		if (len[i] >= 56)
			assert_int_equal(*(uint32_t *)(buf + 52), 256);
	}
	memset(buf, 0xee, sizeof(buf));
	assert_int_equal(ibv_query_port(device_ctx, 1, (void *)buf), 0);
	assert_int_equal(buf[47], 3);
	assert_int_equal(buf[48], 0xee);
	assert_int_equal(ibv_query_port(device_ctx, 2, (void *)buf), EINVAL);
}

int ibv_query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed);

static void test_query_port_speed(void **state)
{
	static const struct {
		uint32_t speed;
		uint8_t width;
		uint64_t rate; /* 100 Mbit/s; 0: not known */
	} rates[] = { { 1, 1, 25 },	{ 32, 2, 1000 },   { 64, 1, 500 },    { 128, 2, 4000 },
		      { 256, 2, 8000 }, { 256, 16, 4000 }, { 256, 8, 24000 }, { 16, 4, 1120 },
		      { 512, 2, 0 },	{ 0, 2, 0 },	   { 32, 0, 0 },      { 32, 32, 0 } };
	uint64_t rate;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rates); i++) {
		device_router.port.active_speed = rates[i].speed;
		device_router.port.active_width = rates[i].width;
		rate = 7;
		assert_int_equal(ibv_query_port_speed(device_ctx, 1, &rate),
				 rates[i].rate ? 0 : EOPNOTSUPP);
		assert_int_equal(rate, rates[i].rate ? rates[i].rate : 7);
	}
	assert_int_equal(ibv_query_port_speed(device_ctx, 2, &rate), EINVAL);
	assert_int_equal(ibv_query_port_speed(device_ctx, 257, &rate), EINVAL);
}

static void test_query_gid(void **state)
{
	static const uint8_t none[16];
	struct ibv_gid_entry e[4];
	union ibv_gid gid;
	uint32_t type;
	__be16 pkey = 0;

	(void)state;
	device_set_gids();
	assert_int_equal(ibv_query_gid(device_ctx, 1, 0, &gid), 0);
	assert_memory_equal(gid.raw, device_router.gid[0], 16);
	assert_int_equal(ibv_query_gid(device_ctx, 1, 1, &gid), 0);
	assert_memory_equal(gid.raw, none, 16);
	assert_int_equal(ibv_query_gid(device_ctx, 1, 4, &gid), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_query_gid(device_ctx, 1, -1, &gid), -1);

	assert_int_equal(ffl_query_gid_type(device_ctx, 1, 0, &type), 0);
	assert_int_equal(type, 1);
	assert_int_equal(ffl_query_gid_type(device_ctx, 1, 1, &type), 0);
	assert_int_equal(type, 0);
	assert_int_equal(ffl_query_gid_type(device_ctx, 2, 0, &type), -1);

	assert_int_equal(ibv_query_gid_ex(device_ctx, 1, 2, &e[0], 0), 0);
	assert_memory_equal(e[0].gid.raw, device_router.gid[2], 16);
	assert_int_equal(e[0].gid_index, 2);
	assert_int_equal(e[0].port_num, 1);
	assert_int_equal(e[0].gid_type, IBV_GID_TYPE_ROCE_V2);
	assert_int_equal(ibv_query_gid_ex(device_ctx, 1, 1, &e[0], 0), ENODATA);
	assert_int_equal(ibv_query_gid_ex(device_ctx, 1, 9, &e[0], 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(device_ctx, 1, 0, &e[0], 1), EINVAL);
	/* the first members only, as an older program would ask for */
	memset(e, 0xee, sizeof(e));
	assert_int_equal(_ibv_query_gid_ex(device_ctx, 1, 0, e, 0, 16), 0);
	assert_memory_equal(e, device_router.gid[0], 16);
	assert_int_equal(((uint8_t *)e)[16], 0xee);

	assert_int_equal(ibv_query_gid_table(device_ctx, e, 4, 0), 2);
	assert_int_equal(e[1].gid_index, 2);
	assert_memory_equal(e[1].gid.raw, device_router.gid[2], 16);
	assert_int_equal(ibv_query_gid_table(device_ctx, e, 1, 0), -EINVAL);

	/* the interface is this process's: its own, that of another GID, or the first one */
	assert_int_equal(e[0].ndev_ifindex, 5);
	assert_int_equal(e[1].ndev_ifindex, 5);
	memcpy(device_addr, device_router.gid[0], sizeof(device_addr));
	assert_int_equal(ibv_query_gid_table(device_ctx, e, 4, 0), 2);
	assert_int_equal(e[0].ndev_ifindex, 17);
	assert_int_equal(e[1].ndev_ifindex, 17);
	memset(device_addr, 0, sizeof(device_addr));

	assert_int_equal(ibv_query_pkey(device_ctx, 1, 0, &pkey), 0);
	assert_int_equal(pkey, 0xffff);
	assert_int_equal(ibv_query_pkey(device_ctx, 1, 1, &pkey), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_get_pkey_index(device_ctx, 1, htons(0xffff)), 0);
	assert_int_equal(ibv_get_pkey_index(device_ctx, 1, htons(0x8001)), -1);
}

static void test_query_rt_values(void **state)
{
	struct ibv_values_ex v = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	struct timespec a, b;
	int64_t ns;

	(void)state;
	clock_gettime(CLOCK_MONOTONIC, &a);
	assert_int_equal(ibv_query_rt_values_ex(device_ctx, &v), 0);
	clock_gettime(CLOCK_MONOTONIC, &b);
	ns = v.raw_clock.tv_nsec;
	assert_int_equal(v.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	assert_true(ns >= a.tv_sec * 1000000000 + a.tv_nsec);
	assert_true(ns <= b.tv_sec * 1000000000 + b.tv_nsec);
	v.comp_mask = 2;
	assert_int_equal(ibv_query_rt_values_ex(device_ctx, &v), EINVAL);
}

int main(void)
{
	signal(SIGPIPE, SIG_DFL);
	return UNIT_RUN(DEVICE_TEST(test_query_device), DEVICE_TEST(test_query_port),
			DEVICE_TEST(test_query_port_speed), DEVICE_TEST(test_query_gid),
			DEVICE_TEST(test_query_rt_values));
}
