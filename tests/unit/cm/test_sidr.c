/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/ctl_rig.c tests/rig/unit/cm_rig.c ffo/base/limits.c ffo/base/proto.c */
/*
 * test_sidr.c - UD ids: how one finds the QP behind an address and a port, and who does not.
 */
#include <errno.h>
#include <string.h>

#include "ffr/cm/internal.h"
#include "tests/rig/unit/cm_rig.h"
#include "tests/rig/unit/unit.h"

#define PORT 7471

static struct ctl_rig *const g = &cm_two.rig;
static struct cm_client *const a = &cm_two.a, *const b = &cm_two.b;

static void ud_finds_a_qp(void **state)
{
	static const uint16_t ps[] = { RDMA_PS_UDP, RDMA_PS_IPOIB };
	uint8_t pd[FF_CM_PD_MAX];
	struct cm_packet p;
	uint32_t id;

	(void)state;
	memset(pd, 3, sizeof(pd));
	for (int i = 0; i < 2; i++) {
		cm_listener(b, ps[i], PORT, 0);
		id = cm_routed(a, ps[i], B_IP, PORT);
		assert_int_equal(cm_do_connect(a, id, pd, FF_CM_PD_SIDR_REQ + 1), -EINVAL);
		assert_int_equal(cm_do_connect(a, id, pd, FF_CM_PD_SIDR_REQ), 0);
		cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
		assert_int_equal(p.ev.ps, ps[i]);
		assert_int_equal(p.ev.param.qp_type, IBV_QPT_UD);
		assert_int_equal(p.ev.private_data_len, FF_CM_PD_SIDR_REQ);
		assert_memory_equal(p.pd, pd, FF_CM_PD_SIDR_REQ);
		assert_int_equal(cm_do_accept(b, p.ev.id, 5, pd, FF_CM_PD_SIDR_REP), 0);
		assert_int_equal(cm_do_accept(b, p.ev.id, 5, pd, 1), -EINVAL);
		cm_expect_none(b);
		assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_ESTABLISHED, &p), 0);
		assert_int_equal(p.ev.ud_qp_num & 0xff, 0xb2);
		assert_int_equal(p.ev.ud_qkey, i ? 0x0b1b : RDMA_UDP_QKEY);
		assert_memory_equal(p.ev.dgid, &g->c[1]->gid[0], 16);
		assert_int_equal(p.ev.ud_hop_limit, 64);
		assert_int_equal(p.ev.ud_sgid_index, 0);
		assert_int_equal(p.ev.private_data_len, FF_CM_PD_SIDR_REP);
		/* there is no connection */
		assert_int_equal(cm_do_disconnect(a, id), 0);
		assert_int_equal(cm_do_destroy(a, id, NULL), 0);
		cm_expect_none(b);
		/* what is too long to accept refuses */
		assert_int_equal(cm_accept_too_long(a, b, ps[i], PORT, FF_CM_PD_SIDR_REP,
						    RDMA_CM_EVENT_UNREACHABLE),
				 2);
	}
	/* from the address that the path begins with */
	id = cm_new(b, RDMA_PS_UDP);
	assert_int_equal(cm_do_bind(b, id, cm_sa("fd00::2", PORT + 1), NULL), 0);
	assert_int_equal(cm_do_listen(b, id, 0), 0);
	id = cm_routed(a, RDMA_PS_UDP, "fd00::2", PORT + 1);
	assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	assert_int_equal(cm_do_accept(b, p.ev.id, 5, NULL, 0), 0);
	cm_expect(a, id, RDMA_CM_EVENT_ESTABLISHED, &p);
	assert_int_equal(p.ev.ud_sgid_index, 4);
}

static void ud_finds_none(void **state)
{
	struct cm_packet p;
	uint32_t id;

	(void)state;
	id = cm_routed(a, RDMA_PS_UDP, B_IP, PORT);
	assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
	cm_at(g, 2 * CM_LISTEN_MS);
	assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_UNREACHABLE, NULL), 1);

	cm_listener(b, RDMA_PS_TCP, PORT, 0); /* the wrong port space */
	id = cm_routed(a, RDMA_PS_UDP, B_IP, PORT);
	assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
	cm_at(g, 2 * CM_LISTEN_MS);
	assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_UNREACHABLE, NULL), 1);

	cm_listener(b, RDMA_PS_UDP, PORT, 0);
	for (int destroy = 0; destroy < 2; destroy++) {
		id = cm_routed(a, RDMA_PS_UDP, B_IP, PORT);
		assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
		cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
		if (destroy)
			assert_int_equal(cm_do_destroy(b, p.ev.id, NULL), 0);
		else
			assert_int_equal(cm_do_reject(b, p.ev.id, 0, "no", 2), 0);
		assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_UNREACHABLE, &p), 2);
		assert_memory_equal(p.pd, destroy ? "\0\0" : "no", 2);
	}

	id = cm_routed(a, RDMA_PS_UDP, B_IP, PORT);
	assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	cm_at(g, 66000);
	assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_UNREACHABLE, NULL), -ETIMEDOUT);
	/* the answer finds nobody */
	assert_int_equal(cm_do_accept(b, p.ev.id, 5, NULL, 0), 0);
	cm_expect_none(a);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, cm_two_setup, cm_two_teardown)
	return UNIT_RUN(TEST(ud_finds_a_qp), TEST(ud_finds_none));
}
