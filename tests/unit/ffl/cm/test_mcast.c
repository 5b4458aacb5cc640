/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: ffl/cm/channel.c ffl/cm/event.c ffl/cm/id.c ffl/cm/mcast.c ffl/cm/renew.c ffl/cm/watch.c ffl/session/table.c ffl/verbs/async.c tests/rig/unit/ffl_cm_rig.c */
/*
 * test_mcast.c - joining a group and leaving it, with events that wait.
 */
#include <string.h>
#include <sys/socket.h>

#include "ffl/cm/cm.h"
#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/ffl_cm_rig.h"

static void test_multicast(void **state)
{
	struct sockaddr_in group = { .sin_family = AF_INET,
				     .sin_addr.s_addr = htobe32(0xe0000101) };
	struct ff_cm_event ev = { .event = RDMA_CM_EVENT_MULTICAST_JOIN, .mc = 7 };
	struct rdma_cm_id *id = cm_rig_new_on(cm_ch);
	struct rdma_cm_event *e;
	struct ibv_qp qp;

	(void)state;
	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&group, &group), 0);
	ev.id = to_id(id)->handle;
	ev.uid = cm_router.join.uid;
	memset(ev.dgid, 0xff, sizeof(ev.dgid));
	ev.ud_qkey = 0x1234;
	ev.ud_sgid_index = 3;
	id->qp = &qp;
	cm_rig_event(ev);
	assert_int_equal(rdma_get_cm_event(cm_ch, &e), 0);
	assert_int_equal(e->event, RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_ptr_equal(e->param.ud.private_data, &group);
	assert_int_equal(e->param.ud.qkey, 0x1234);
	assert_int_equal(e->param.ud.ah_attr.grh.dgid.raw[0], 0xff);
	assert_int_equal(e->param.ud.ah_attr.grh.sgid_index, 3);
	assert_int_equal(cm_router.attached, 1);
	rdma_ack_cm_event(e);
	/* the device refuses it */
	cm_router.attach_ret = ENOMEM;
	cm_rig_event(ev);
	cm_rig_expect(cm_ch, id, RDMA_CM_EVENT_MULTICAST_ERROR, -ENOMEM);
	cm_router.attach_ret = 0;
	/* left while events wait: they are gone, and not readable */
	cm_rig_event(ev);
	cm_rig_simple(id, RDMA_CM_EVENT_ADDR_CHANGE, 1);
	cm_rig_event(ev);
	assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&group), 0);
	assert_int_equal(cm_router.attached, 0);
	cm_rig_expect(cm_ch, id, RDMA_CM_EVENT_ADDR_CHANGE, 1);
	cm_rig_expect_none(cm_ch);
	assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&group), -1);
	assert_int_equal(errno, EADDRNOTAVAIL);
	id->qp = NULL;
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void test_join_arguments(void **state)
{
	struct sockaddr_in group = { .sin_family = AF_INET };
	struct rdma_cm_join_mc_attr_ex attr = { .comp_mask = 4, .addr = (struct sockaddr *)&group };
	struct rdma_cm_id *id = cm_rig_new_on(cm_ch);

	(void)state;
	assert_int_equal(rdma_join_multicast_ex(id, &attr, NULL), -1);
	assert_int_equal(errno, ENOTSUP);
	attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS;
	assert_int_equal(rdma_join_multicast_ex(id, &attr, NULL), -1);
	assert_int_equal(errno, EINVAL);
	attr.comp_mask = 3;
	attr.join_flags = RDMA_MC_JOIN_FLAG_RESERVED;
	assert_int_equal(rdma_join_multicast_ex(id, &attr, NULL), -1);
	assert_int_equal(errno, EINVAL);
	attr.join_flags = 0;
	group.sin_family = AF_UNIX;
	assert_int_equal(rdma_join_multicast_ex(id, &attr, NULL), -1);
	assert_int_equal(errno, EINVAL);
	group.sin_family = AF_INET;
	cm_router.fail[FF_MSG_CM_JOIN] = -ENODEV;
	assert_int_equal(rdma_join_multicast_ex(id, &attr, NULL), -1);
	assert_int_equal(errno, ENODEV);
	assert_null(to_id(id)->mcs);
	assert_int_equal(rdma_destroy_id(id), 0);
}

int main(void)
{
	return UNIT_RUN(CM_RIG_TEST(test_multicast), CM_RIG_TEST(test_join_arguments));
}
