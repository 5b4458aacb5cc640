/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffl/entry/enum.c */
/*
 * test_enum.c - names of statuses, events and states; rates.
 */
#include <infiniband/verbs.h>

#include "tests/rig/unit/unit.h"

static void test_enums(void **state)
{
	enum ibv_rate rate;
	int n = 0;

	(void)state;
	assert_string_equal(ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR),
			    "transport retry counter exceeded");
	assert_string_equal(ibv_wc_status_str(IBV_WC_TM_RNDV_INCOMPLETE), "TM software rendezvous");
	assert_string_equal(ibv_wc_status_str(24), "unknown");
	assert_string_equal(ibv_wc_status_str(-1), "unknown");
	assert_string_equal(ibv_event_type_str(IBV_EVENT_SQ_DRAINED), "send queue drained");
	assert_string_equal(ibv_event_type_str(21), "unknown");
	assert_string_equal(ibv_port_state_str(IBV_PORT_ACTIVE), "active");
	assert_string_equal(ibv_port_state_str(6), "unknown");
	assert_string_equal(ibv_node_type_str(IBV_NODE_CA), "InfiniBand channel adapter");
	assert_string_equal(ibv_node_type_str(IBV_NODE_UNKNOWN), "unknown");
	assert_string_equal(ibv_node_type_str(0), "unknown");

	for (rate = IBV_RATE_2_5_GBPS; rate <= IBV_RATE_1200_GBPS; rate++) {
		assert_int_equal(mbps_to_ibv_rate(ibv_rate_to_mbps(rate)), rate);
		if (ibv_rate_to_mult(rate) < 0)
			continue;
		assert_int_equal(mult_to_ibv_rate(ibv_rate_to_mult(rate)), rate);
		n++;
	}
	assert_int_equal(n, 15);
	assert_int_equal(ibv_rate_to_mult(IBV_RATE_40_GBPS), 16);
	assert_int_equal(ibv_rate_to_mbps(IBV_RATE_100_GBPS), 103125);
	assert_int_equal(ibv_rate_to_mult(IBV_RATE_100_GBPS), -1);
	assert_int_equal(ibv_rate_to_mbps(IBV_RATE_MAX), -1);
	assert_int_equal(mult_to_ibv_rate(0), IBV_RATE_MAX);
	assert_int_equal(mbps_to_ibv_rate(1), IBV_RATE_MAX);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(test_enums));
}
