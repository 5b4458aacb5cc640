/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_mcast.c - ffr/ctl/mcast.c, MODIFY_CQ and REPEAT_EVENT: which requests the control thread refuses, and
 * that what a client attached goes with it.
 * build: tests/rig/unit/ctl_calls.c tests/rig/unit/ctl_rig.c ffo/base/limits.c ffo/base/proto.c
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/ctl_calls.h"

static struct ctl_rig *const g = &call_rig;

static const uint8_t group[16] = { 0xff, 0x0e, [15] = 1 };

static uint32_t make_qp(int s, uint32_t type)
{
	struct ff_create_qp_req req = call_qp_req(call_pd(g, s), call_cq(g, s), type);
	struct ff_create_qp_resp resp;

	assert_int_equal(RIG_CALL(g, s, CREATE_QP, &req, &resp), 0);
	return resp.qp;
}

static int attach(int s, uint32_t qp, const uint8_t gid[16], uint16_t lid)
{
	struct ff_attach_mcast_req req = { .qp = qp, .lid = lid };
	struct ff_attach_mcast_resp resp;

	memcpy(req.gid, gid, sizeof(req.gid));
	return RIG_CALL(g, s, ATTACH_MCAST, &req, &resp);
}

static int detach(int s, uint32_t qp, const uint8_t gid[16], uint16_t lid)
{
	struct ff_detach_mcast_req req = { .qp = qp, .lid = lid };
	struct ff_detach_mcast_resp resp;

	memcpy(req.gid, gid, sizeof(req.gid));
	return RIG_CALL(g, s, DETACH_MCAST, &req, &resp);
}

static void refused(void **state)
{
	static const uint8_t unicast[16] = { 0xfe, 0x80, [15] = 1 };
	int s = call_client(g, 0), foreign = call_client(g, 1);
	uint32_t ud = make_qp(s, IBV_QPT_UD), rc = make_qp(s, IBV_QPT_RC), gone;

	(void)state;
	assert_int_equal(attach(s, 0, group, 0), -EINVAL);
	assert_int_equal(attach(s, ud + 0x10000, group, 0), -EINVAL);
	assert_int_equal(attach(foreign, ud, group, 0), -EINVAL);
	assert_int_equal(attach(s, rc, group, 0), -EINVAL);
	assert_int_equal(attach(s, ud, unicast, 0), -EINVAL);
	assert_int_equal(detach(s, ud, group, 0), -EINVAL);
	assert_int_equal(detach(s, rc, group, 0), -EINVAL);
	assert_int_equal(attach(s, ud, group, 0xffff), 0); /* Ethernet: any LID */
	assert_int_equal(attach(s, ud, group, 0xffff), 0);
	assert_int_equal(call_one(g, s, FF_MSG_DESTROY_QP, ud), -EBUSY);
	assert_int_equal(detach(s, ud, group, 0), -EINVAL);
	assert_int_equal(detach(s, ud, group, 0xffff), 0);
	assert_int_equal(detach(s, ud, group, 0xffff), -EINVAL);
	assert_int_equal(call_one(g, s, FF_MSG_DESTROY_QP, ud), 0);
	gone = ud;
	assert_int_equal(attach(s, gone, group, 0), -EINVAL);
	close(s);
	close(foreign);
}

/* A client goes without a word. */
static void session_ends(void **state)
{
	int s = call_client(g, 0);
	uint32_t qp = make_qp(s, IBV_QPT_UD);

	(void)state;
	for (uint16_t lid = 0; lid < 20; lid++)
		assert_int_equal(attach(s, qp, group, lid), 0);
	assert_int_equal(g->c[0]->num_mcast, 20);
	close(s);
	rig_pump(g);
	assert_int_equal(g->c[0]->num_mcast, 0);
}

static void create_flags(void **state)
{
	int s = call_client(g, 0);
	struct ff_create_qp_req req = call_qp_req(call_pd(g, s), call_cq(g, s), IBV_QPT_UD);
	struct ff_create_qp_resp resp;

	(void)state;
	req.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	assert_int_equal(RIG_CALL(g, s, CREATE_QP, &req, &resp), 0);
	req.create_flags |= IBV_QP_CREATE_SOURCE_QPN;
	assert_int_equal(RIG_CALL(g, s, CREATE_QP, &req, &resp), -EOPNOTSUPP);
	req.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	req.qp_type = IBV_QPT_UC;
	assert_int_equal(RIG_CALL(g, s, CREATE_QP, &req, &resp), -EINVAL);
	close(s);
}

static void moderation(void **state)
{
	int s = call_client(g, 0), foreign = call_client(g, 1);
	struct ff_modify_cq_req req = { .cq = call_cq(g, s), .count = 65535, .period = 65535 };
	struct ff_modify_cq_resp resp;

	(void)state;
	assert_int_equal(RIG_CALL(g, s, MODIFY_CQ, &req, &resp), 0);
	assert_int_equal(RIG_CALL(g, foreign, MODIFY_CQ, &req, &resp), -EINVAL);
	g->ctl.dev.max_cq_period = 100; /* of another backend */
	assert_int_equal(RIG_CALL(g, s, MODIFY_CQ, &req, &resp), -EINVAL);
	req.period = 100;
	assert_int_equal(RIG_CALL(g, s, MODIFY_CQ, &req, &resp), 0);
	g->ctl.dev.max_cq_count = 0; /* and one that has no moderation */
	assert_int_equal(RIG_CALL(g, s, MODIFY_CQ, &req, &resp), -EINVAL);
	req.cq = 0;
	assert_int_equal(RIG_CALL(g, s, MODIFY_CQ, &req, &resp), -EINVAL);
	close(s);
	close(foreign);
}

static void events_again(void **state)
{
	int s = call_client(g, 0), foreign = call_client(g, 1), fds[RIG_MAX_FDS];
	struct ff_create_channel_req ch = { 0 };
	struct ff_create_channel_resp ch_resp;
	struct ff_create_cq_req cq = { .cqe = 4 };
	struct ff_create_cq_resp cq_resp;
	struct ff_repeat_event_req req;
	struct ff_repeat_event_resp resp;
	struct ff_comp_event ev;
	unsigned n, sent = 0;

	(void)state;
	assert_int_equal(rig_call(g, s, FF_MSG_CREATE_CHANNEL, &ch, sizeof(ch), NULL, 0, 0,
				  &ch_resp, sizeof(ch_resp), fds, &n),
			 0);
	cq.channel = ch_resp.channel;
	assert_int_equal(RIG_CALL(g, s, CREATE_CQ, &cq, &cq_resp), 0);
	req.cq = cq_resp.cq;
	assert_int_equal(RIG_CALL(g, foreign, REPEAT_EVENT, &req, &resp), -EINVAL);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(RIG_CALL(g, s, REPEAT_EVENT, &req, &resp), 0);
		assert_int_equal(recv(fds[0], &ev, sizeof(ev), MSG_DONTWAIT), sizeof(ev));
		assert_int_equal(ev.cq, req.cq);
	}
	assert_int_equal(recv(fds[0], &ev, sizeof(ev), MSG_DONTWAIT), -1);
	while (!RIG_CALL(g, s, REPEAT_EVENT, &req, &resp))
		assert_true(++sent < 100000);
	assert_int_equal(RIG_CALL(g, s, REPEAT_EVENT, &req, &resp), -EAGAIN);
	for (; sent; sent--)
		assert_int_equal(recv(fds[0], &ev, sizeof(ev), MSG_DONTWAIT), sizeof(ev));
	/* no channel, no CQ */
	req.cq = call_cq(g, s);
	assert_int_equal(RIG_CALL(g, s, REPEAT_EVENT, &req, &resp), -EINVAL);
	req.cq = 0;
	assert_int_equal(RIG_CALL(g, s, REPEAT_EVENT, &req, &resp), -EINVAL);
	close(fds[0]);
	close(s);
	close(foreign);
}

int main(void)
{
	return UNIT_RUN(CALL_TEST(refused), CALL_TEST(session_ends), CALL_TEST(create_flags),
			CALL_TEST(moderation), CALL_TEST(events_again));
}
