/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/ctl_rig.c tests/rig/unit/cm_rig.c ffo/base/limits.c ffo/base/proto.c */
/*
 * test_mcast.c - multicast groups of the connection manager: who is in one, and how many there may be.
 */
#include <errno.h>

#include "tests/rig/unit/cm_rig.h"
#include "tests/rig/unit/unit.h"

static struct cm_client *const a = &cm_two.a;

static void groups(void **state)
{
	static const uint8_t v4[16] = { [10] = 0xff, [11] = 0xff, 239, 1, 2, 3 };
	static const uint8_t v6[16] = { 0xff, 0x0e, [15] = 7 };
	struct cm_packet p;
	uint32_t id, mc[2], n;

	(void)state;
	id = cm_new(a, RDMA_PS_UDP);
	assert_int_equal(cm_do_join(a, id, 1, "239.1.2.3", 0, NULL), -EINVAL); /* no device */
	assert_int_equal(cm_do_bind(a, id, cm_sa(A_IP, 0), NULL), 0);
	assert_int_equal(cm_do_join(a, id, 1, A_IP, 0, NULL), -EINVAL);
	assert_int_equal(cm_do_join(a, id, 1, "0.0.0.0", 0, NULL), -EINVAL);
	assert_int_equal(cm_do_join(a, id, 1, "", 0, NULL), -EINVAL);
	assert_int_equal(cm_do_join(a, id, 1, "239.1.2.3", 2, NULL), -EINVAL);
	assert_int_equal(cm_do_join(a, id, 77, "239.1.2.3", 0, &mc[0]), 0);
	assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_MULTICAST_JOIN, &p), 0);
	assert_int_equal(p.ev.uid, 77);
	assert_int_equal(p.ev.mc, mc[0]);
	assert_memory_equal(p.ev.dgid, v4, 16);
	assert_int_equal(p.ev.ud_qp_num, 0xffffff);
	assert_int_equal(p.ev.ud_qkey, RDMA_UDP_QKEY);
	assert_int_equal(p.ev.ud_sgid_index, 0);
	assert_int_equal(
		cm_do_join(a, id, 78, "ff0e::7", RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, &mc[1]), 0);
	cm_expect(a, id, RDMA_CM_EVENT_MULTICAST_JOIN, &p);
	assert_int_equal(p.ev.uid, 78);
	assert_memory_equal(p.ev.dgid, v6, 16);
	assert_int_not_equal(mc[0], mc[1]);
	assert_int_equal(cm_do_leave(a, id, mc[0], &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(cm_do_leave(a, id, mc[0], NULL), -ENOENT);
	assert_int_equal(cm_do_destroy(a, id, &n), 0); /* with one membership left */
	assert_int_equal(n, 2);
	/* what is sent comes from the address that is bound */
	id = cm_new(a, RDMA_PS_UDP);
	assert_int_equal(cm_do_bind(a, id, cm_sa("fd00::1", 0), NULL), 0);
	assert_int_equal(cm_do_join(a, id, 79, "ff0e::7", 0, NULL), 0);
	cm_expect(a, id, RDMA_CM_EVENT_MULTICAST_JOIN, &p);
	assert_int_equal(p.ev.ud_sgid_index, 4);
	/* a connection has no groups */
	id = cm_new(a, RDMA_PS_TCP);
	assert_int_equal(cm_do_bind(a, id, cm_sa(A_IP, 0), NULL), 0);
	assert_int_equal(cm_do_join(a, id, 1, "239.1.2.3", 0, NULL), -EINVAL);
}

/* As many as there may be. */
static void groups_without_end(void **state)
{
	struct cm_packet p;
	unsigned n = 0;
	uint32_t id;
	int err;

	(void)state;
	id = cm_new(a, RDMA_PS_UDP);
	assert_int_equal(cm_do_bind(a, id, cm_sa(A_IP, 0), NULL), 0);
	do {
		err = cm_do_join(a, id, 1, "239.1.2.3", 0, NULL);
		if (!err)
			assert_true(cm_next(a, &p));
		n += !err;
	} while (!err);
	assert_int_equal(err, -ENOMEM);
	assert_int_equal(n, 256);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, cm_two_setup, cm_two_teardown)

int main(void)
{
	log_level = LOG_LEVEL_ERR;

	return UNIT_RUN(TEST(groups), TEST(groups_without_end));
}
