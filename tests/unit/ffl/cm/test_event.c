/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: ffl/cm/channel.c ffl/cm/event.c ffl/cm/id.c ffl/cm/mcast.c ffl/cm/renew.c ffl/cm/watch.c ffl/session/table.c ffl/verbs/async.c tests/rig/unit/ffl_cm_rig.c -Wl,--wrap=calloc */
/*
 * test_event.c - which packets of the router become events of whom, and what is done before the program has them.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "ffl/cm/cm.h"
#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/ffl_cm_rig.h"

/* The n-th calloc() from now on fails; 0: none does. */
static unsigned fails_in;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
	return fails_in && !--fails_in ? NULL : __real_calloc(n, size);
}

static void test_order(void **state)
{
	struct rdma_cm_id *a = cm_rig_new_on(cm_ch), *b = cm_rig_new_on(cm_ch);
	int i;

	(void)state;
	cm_rig_expect_none(cm_ch);
	for (i = 0; i < 4; i++)
		cm_rig_simple(i % 2 ? b : a, RDMA_CM_EVENT_UNREACHABLE, i);
	for (i = 0; i < 4; i++)
		cm_rig_expect(cm_ch, i % 2 ? b : a, RDMA_CM_EVENT_UNREACHABLE, i);
	cm_rig_expect_none(cm_ch);
	assert_int_equal(rdma_destroy_id(a), 0);
	assert_int_equal(rdma_destroy_id(b), 0);
	assert_int_equal(rdma_ack_cm_event(NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_get_cm_event(cm_ch, NULL), -1);
	assert_int_equal(errno, EINVAL);
}

static void test_bad_packets(void **state)
{
	struct rdma_cm_id *a = cm_rig_new_on(cm_ch);
	struct ff_cm_event ev = { .id = to_id(a)->handle, .event = RDMA_CM_EVENT_ADDR_CHANGE };
	struct rdma_cm_event *e;

	(void)state;
	ev.private_data_len = 5; /* which do not come */
	assert_int_equal(send(cm_router.channel[0], &ev, sizeof(ev), 0), sizeof(ev));
	assert_int_equal(rdma_get_cm_event(cm_ch, &e), -1);
	assert_int_equal(errno, EIO);
	assert_int_equal(send(cm_router.channel[0], &ev, 9, 0), 9);
	assert_int_equal(rdma_get_cm_event(cm_ch, &e), -1);
	assert_int_equal(errno, EIO);
	ev.private_data_len = 0;
	ev.id = NUM_IDS - 1; /* nobody's */
	cm_router.id[ev.id].channel = 1;
	cm_rig_event(ev);
	cm_rig_simple(a, RDMA_CM_EVENT_ADDR_CHANGE, 0);
	cm_rig_expect(cm_ch, a, RDMA_CM_EVENT_ADDR_CHANGE, 0);
	cm_rig_expect_none(cm_ch);
	assert_int_equal(rdma_destroy_id(a), 0);
}

static void test_request_fails(void **state)
{
	struct rdma_cm_id *l = cm_rig_new_on(cm_ch);
	uint32_t handle;

	(void)state;
	cm_router.device_ret = -ENOMEM;
	handle = cm_rig_request(l);
	cm_rig_simple(l, RDMA_CM_EVENT_ADDR_CHANGE, 0);
	cm_rig_expect(cm_ch, l, RDMA_CM_EVENT_ADDR_CHANGE, 0);
	assert_int_equal(cm_router.num_destroyed, 1);
	assert_int_equal(cm_router.destroyed[0], handle);
	assert_int_equal(rdma_destroy_id(l), 0); /* no event of it is left unacknowledged */
}

/* There is no memory for the request's id: the router is told to end it. */
static void test_request_without_memory(void **state)
{
	struct rdma_cm_id *l = cm_rig_new_on(cm_ch);
	uint32_t handle = cm_rig_request(l);

	(void)state;
	cm_rig_simple(l, RDMA_CM_EVENT_ADDR_CHANGE, 0);
	fails_in = 1;
	cm_rig_expect(cm_ch, l, RDMA_CM_EVENT_ADDR_CHANGE, 0);
	assert_int_equal(fails_in, 0);
	assert_int_equal(cm_router.num_destroyed, 1);
	assert_int_equal(cm_router.destroyed[0], handle);
	assert_int_equal(rdma_destroy_id(l), 0);
}

/*
 * The QP of a refused connection sends nothing; a program's field has room for 255 bytes of data.
 */
static void test_rejected(void **state)
{
	struct rdma_cm_id *id = cm_rig_new_on(cm_ch);
	struct cm_packet p = { .ev = { .id = to_id(id)->handle,
				       .event = RDMA_CM_EVENT_REJECTED,
				       .private_data_len = FF_CM_PD_MAX } };
	struct rdma_cm_event *e;

	(void)state;
	memset(p.data, 'x', sizeof(p.data));
	assert_int_equal(send(cm_router.channel[0], &p, sizeof(p.ev) + FF_CM_PD_MAX, 0),
			 sizeof(p.ev) + FF_CM_PD_MAX);
	cm_router.id[p.ev.id].written++;
	assert_int_equal(rdma_get_cm_event(cm_ch, &e), 0);
	assert_int_equal(e->event, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(e->param.conn.private_data_len, UINT8_MAX);
	assert_memory_equal(e->param.conn.private_data, p.data, UINT8_MAX);
	assert_int_equal(cm_router.qp_errors, 1);
	rdma_ack_cm_event(e);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* An event of no group that the program is in is not shown. */
static void test_join_of_no_group(void **state)
{
	struct rdma_cm_id *id = cm_rig_new_on(cm_ch);

	(void)state;
	cm_rig_simple(id, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	cm_rig_simple(id, RDMA_CM_EVENT_MULTICAST_ERROR, 0);
	cm_rig_simple(id, RDMA_CM_EVENT_ADDR_CHANGE, 0);
	cm_rig_expect(cm_ch, id, RDMA_CM_EVENT_ADDR_CHANGE, 0);
	cm_rig_expect_none(cm_ch);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void test_sync(void **state)
{
	struct sockaddr_in dst = { .sin_family = AF_INET };
	struct rdma_cm_id *id = cm_rig_new_on(NULL);

	(void)state;
	cm_rig_simple(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&dst, 1), 0);
	assert_non_null(id->verbs);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	cm_rig_simple(id, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&dst, 1), -1);
	assert_int_equal(errno, ETIMEDOUT);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ADDR_ERROR);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void test_addr_resolved_fails(void **state)
{
	struct rdma_cm_id *id = cm_rig_new_on(cm_ch);

	(void)state;
	cm_router.port_num = 0; /* no device after all */
	cm_rig_simple(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	cm_rig_expect(cm_ch, id, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
	cm_router.port_num = 1;
	cm_router.device_ret = -ENOMEM;
	cm_rig_simple(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	cm_rig_expect(cm_ch, id, RDMA_CM_EVENT_ADDR_ERROR, -ENOMEM);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* The answer could not be used: what the peer says about the end of it is not news. */
static void test_response_fails(void **state)
{
	struct rdma_cm_id *id = cm_rig_new_on(cm_ch);
	struct ibv_qp qp;

	(void)state;
	id->qp = &qp;
	cm_router.attach_ret = -EINVAL;
	cm_rig_simple(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	cm_rig_simple(id, RDMA_CM_EVENT_REJECTED, 28);
	cm_rig_simple(id, RDMA_CM_EVENT_DISCONNECTED, 0);
	cm_rig_simple(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	cm_rig_expect(cm_ch, id, RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL);
	cm_rig_expect(cm_ch, id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	id->qp = NULL;
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* The QP learns that its peer takes nothing more; one that is gone, which the id still points to, is not touched. */
static void test_peer_leaves(void **state)
{
	struct rdma_cm_id *id = cm_rig_new_on(cm_ch);
	struct ffl_qp qp = { 0 };

	(void)state;
	cm_rig_simple(id, RDMA_CM_EVENT_DISCONNECTED, 0); /* an id without a QP */
	cm_rig_expect(cm_ch, id, RDMA_CM_EVENT_DISCONNECTED, 0);
	id->qp = &qp.qp;
	id->verbs = &cm_router.ctx.v.context;
	cm_rig_simple(id, RDMA_CM_EVENT_DISCONNECTED, 0);
	cm_rig_expect(cm_ch, id, RDMA_CM_EVENT_DISCONNECTED, 0);
	assert_false(qp.peer_left);
	assert_int_equal(ffl_table_put(&cm_router.ctx, FFL_QP, 1, &qp), 0);
	cm_rig_simple(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	cm_rig_expect(cm_ch, id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	assert_false(qp.peer_left);
	cm_rig_simple(id, RDMA_CM_EVENT_DISCONNECTED, 0);
	cm_rig_expect(cm_ch, id, RDMA_CM_EVENT_DISCONNECTED, 0);
	assert_true(qp.peer_left);
	ffl_table_del(&cm_router.ctx, FFL_QP, 1);
	free(cm_router.ctx.table[FFL_QP].slot);
	cm_router.ctx.table[FFL_QP] = (struct ffl_table){ 0 };
	id->qp = NULL;
	id->verbs = NULL;
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* The router is gone: who has the device is told once, and then the channel is as one in which nothing happens. */
static void test_removal(void **state)
{
	struct rdma_event_channel *other = cm_rig_new_channel();
	struct rdma_cm_id *a = cm_rig_new_on(cm_ch), *b = cm_rig_new_on(cm_ch),
			  *unbound = cm_rig_new_on(cm_ch), *c = cm_rig_new_on(other);

	(void)state;
	cm_rig_simple(a, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	cm_rig_simple(b, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	cm_rig_simple(c, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	cm_rig_expect(cm_ch, a, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	cm_rig_expect(cm_ch, b, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	cm_rig_expect(other, c, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	cm_rig_simple(b, RDMA_CM_EVENT_ADDR_CHANGE, 0);
	cm_rig_router_ends();
	cm_rig_expect(cm_ch, b, RDMA_CM_EVENT_ADDR_CHANGE, 0); /* what came before */
	cm_rig_expect(cm_ch, a, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	cm_rig_expect(cm_ch, b, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	cm_rig_expect(other, c, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	for (int i = 0; i < 2; i++) {
		cm_rig_expect_none(cm_ch);
		cm_rig_expect_none(other);
	}
	assert_int_equal(rdma_destroy_id(a), 0);
	assert_int_equal(rdma_destroy_id(b), 0);
	assert_int_equal(rdma_destroy_id(c), 0);
	assert_int_equal(rdma_destroy_id(unbound), 0);
	rdma_destroy_event_channel(other);
}

int main(void)
{
	return UNIT_RUN(CM_RIG_TEST(test_peer_leaves), CM_RIG_TEST(test_removal),
			CM_RIG_TEST(test_order), CM_RIG_TEST(test_bad_packets),
			CM_RIG_TEST(test_request_fails), CM_RIG_TEST(test_request_without_memory),
			CM_RIG_TEST(test_rejected), CM_RIG_TEST(test_join_of_no_group),
			CM_RIG_TEST(test_sync), CM_RIG_TEST(test_addr_resolved_fails),
			CM_RIG_TEST(test_response_fails));
}
