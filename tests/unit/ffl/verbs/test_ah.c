/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/device_rig.c tests/rig/fakes/fake_router.c ffl/verbs/ah.c ffl/verbs/async.c ffl/session/call.c ffl/session/slot.c ffl/session/context.c ffl/entry/context.c ffl/entry/device.c ffl/verbs/domain.c ffl/entry/enum.c ffl/entry/ops.c ffl/session/log.c ffl/verbs/pd.c ffl/verbs/query.c ffl/session/table.c ffl/entry/import.c ffl/verbs/xrc.c */
/*
 * test_ah.c - PDs and AHs, and the AH that answers a completion.
 */
#include <arpa/inet.h>
#include <netinet/ip.h>
#include <signal.h>
#include <string.h>

#include "tests/rig/unit/device_rig.h"
#include "tests/rig/unit/unit.h"

static void test_pd_ah(void **state)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .sl = 3, .static_rate = 2 };
	struct ibv_pd *pd;
	struct ibv_ah *ah;
	uint32_t handle;

	(void)state;
	pd = ibv_alloc_pd(device_ctx);
	assert_non_null(pd);
	assert_ptr_equal(pd->context, device_ctx);
	attr.grh.sgid_index = 2;
	attr.grh.hop_limit = 64;
	attr.grh.dgid.raw[15] = 9;
	ah = ibv_create_ah(pd, &attr);
	assert_non_null(ah);
	assert_ptr_equal(ah->pd, pd);
	assert_int_equal(device_router.ah.pd, to_pd(pd)->handle);
	assert_int_equal(device_router.ah.attr.dgid[15], 9);
	assert_int_equal(device_router.ah.attr.sgid_index, 2);
	assert_int_equal(device_router.ah.attr.sl, 3);
	assert_int_equal(device_router.ah.attr.is_global, 1);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	/* datagrams that were posted with it are waited for */
	device_left.calls = 0;
	handle = to_ah(ah)->handle;
	assert_int_equal(ibv_destroy_ah(ah), 0);
	assert_int_equal(device_left.calls, 1);
	assert_int_equal(device_left.what.kind, FFL_GOING_AH);
	assert_int_equal(device_left.what.key, handle);

	attr.port_num = 2;
	assert_null(ibv_create_ah(pd, &attr));
	assert_int_equal(errno, EINVAL);
	attr.port_num = 1;
	device_router.fault = FAULT_STATUS;
	device_router.fault_type = FF_MSG_CREATE_AH;
	assert_null(ibv_create_ah(pd, &attr));
	assert_int_equal(errno, EMFILE);
	device_router.fault_type = FF_MSG_DEALLOC_PD;
	assert_int_equal(ibv_dealloc_pd(pd), EMFILE);
	device_router.fault = FAULT_NONE;
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static uint16_t ip_sum(const void *p)
{
	const uint16_t *half = p;
	uint32_t sum = 0;
	int i;

	for (i = 0; i < 10; i++)
		sum += half[i];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

static void test_ah_from_wc(void **state)
{
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH, .sl = 5, .slid = 7 };
	struct ibv_ah_attr attr;
	uint32_t asked;
	union {
		struct ibv_grh grh;
		struct {
			uint8_t none[20];
			struct iphdr ip;
		};
	} h;

	(void)state;
	device_set_gids();
	/* IPv4 */
	memset(&h, 0xff, sizeof(h));
	h.ip = (struct iphdr){ .version = 4, .ihl = 5, .ttl = 33, .tos = 8, .protocol = 17 };
	h.ip.saddr = inet_addr("10.0.0.9");
	h.ip.daddr = inet_addr("10.0.0.2");
	h.ip.check = ip_sum(&h.ip);
	assert_int_equal(ibv_init_ah_from_wc(device_ctx, 1, &wc, &h.grh, &attr), 0);
	assert_int_equal(attr.is_global, 1);
	assert_int_equal(attr.grh.sgid_index, 0);
	assert_int_equal(attr.grh.hop_limit, 33);
	assert_int_equal(attr.grh.traffic_class, 8);
	assert_int_equal(attr.sl, 5);
	assert_int_equal(attr.dlid, 7);
	assert_int_equal(attr.grh.dgid.raw[11], 0xff);
	assert_int_equal(attr.grh.dgid.raw[15], 9);
	/* the same where the 20 bytes look like the start of IPv6: the checksum decides */
	h.none[0] = 0x60;
	assert_int_equal(ibv_init_ah_from_wc(device_ctx, 1, &wc, &h.grh, &attr), 0);
	assert_int_equal(attr.grh.sgid_index, 0);
	h.ip.daddr = inet_addr("10.0.0.3");
	h.ip.check = 0;
	h.ip.check = ip_sum(&h.ip);
	assert_int_equal(ibv_init_ah_from_wc(device_ctx, 1, &wc, &h.grh, &attr), -1);
	h.ip.daddr = inet_addr("239.0.0.3");
	h.ip.check = 0;
	h.ip.check = ip_sum(&h.ip);
	asked = device_router.calls[FF_MSG_QUERY_GID];
	assert_int_equal(ibv_init_ah_from_wc(device_ctx, 1, &wc, &h.grh, &attr), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(device_router.calls[FF_MSG_QUERY_GID], asked); /* for no group */
	/* IPv6 */
	memset(&h, 0, sizeof(h));
	h.grh.version_tclass_flow = htonl(6u << 28 | 0x17u << 20 | 0x12345);
	h.grh.next_hdr = IPPROTO_UDP;
	h.grh.hop_limit = 44;
	memcpy(h.grh.dgid.raw, device_router.gid[2], 16);
	memcpy(h.grh.sgid.raw, device_router.gid[2], 16);
	h.grh.sgid.raw[15] = 77;
	assert_int_equal(ibv_init_ah_from_wc(device_ctx, 1, &wc, &h.grh, &attr), 0);
	assert_int_equal(attr.grh.sgid_index, 2);
	assert_int_equal(attr.grh.dgid.raw[15], 77);
	assert_int_equal(attr.grh.flow_label, 0x12345);
	assert_int_equal(attr.grh.traffic_class, 0x17);
	assert_int_equal(attr.grh.hop_limit, 44);
	/* a sender whose address looks like the start of an IPv4 header: the checksum decides */
	h.grh.sgid.raw[12] = 0x45;
	assert_int_equal(ibv_init_ah_from_wc(device_ctx, 1, &wc, &h.grh, &attr), 0);
	assert_int_equal(attr.grh.sgid_index, 2);
	assert_int_equal(attr.grh.dgid.raw[12], 0x45);
	/* the answer has the RoCE version of the datagram */
	memcpy(device_router.gid[1], device_router.gid[2], 16);
	device_router.gid_type[1] = IBV_GID_TYPE_ROCE_V1;
	assert_int_equal(ibv_init_ah_from_wc(device_ctx, 1, &wc, &h.grh, &attr), 0);
	assert_int_equal(attr.grh.sgid_index, 2);
	h.grh.next_hdr = 0x1b;
	assert_int_equal(ibv_init_ah_from_wc(device_ctx, 1, &wc, &h.grh, &attr), 0);
	assert_int_equal(attr.grh.sgid_index, 1);
	h.grh.next_hdr = 6;
	assert_int_equal(ibv_init_ah_from_wc(device_ctx, 1, &wc, &h.grh, &attr), -1);
	assert_int_equal(errno, EPROTONOSUPPORT);
	/* no GRH: nothing of it is read */
	wc.wc_flags = 0;
	assert_int_equal(ibv_init_ah_from_wc(device_ctx, 1, &wc, NULL, &attr), 0);
	assert_int_equal(attr.is_global, 0);
}

int main(void)
{
	signal(SIGPIPE, SIG_DFL);
	return UNIT_RUN(DEVICE_TEST(test_pd_ah), DEVICE_TEST(test_ah_from_wc));
}
