/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/device_rig.c tests/rig/fakes/fake_router.c ffl/verbs/ah.c ffl/verbs/async.c ffl/session/call.c ffl/session/slot.c ffl/session/context.c ffl/entry/context.c ffl/entry/device.c ffl/verbs/domain.c ffl/entry/enum.c ffl/entry/ops.c ffl/session/log.c ffl/verbs/pd.c ffl/verbs/query.c ffl/session/table.c ffl/entry/import.c ffl/verbs/xrc.c */
/*
 * test_async.c - asynchronous events; a router that dies or is silent.
 */
#include <fcntl.h>
#include <netinet/ip.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "tests/rig/unit/device_rig.h"
#include "tests/rig/unit/unit.h"

static void drain_qp(struct ffl_qp *qp)
{
	ffl_events_drain(qp->ctx, &qp->qp.mutex, &qp->qp.cond, &qp->qp.events_completed,
			 qp->async_events);
}

static void test_events(void **state)
{
	struct ffl_context *c = to_ctx(device_ctx);
	struct ffl_qp qp = { .ctx = c, .qp = { .mutex = PTHREAD_MUTEX_INITIALIZER } };
	struct ffl_cq cq = { .ctx = c, .cq = { .mutex = PTHREAD_MUTEX_INITIALIZER } };
	struct ffl_srq srq = { .ctx = c, .ibv = { .mutex = PTHREAD_MUTEX_INITIALIZER } };
	struct ibv_async_event ev;
	struct pollfd p = { .fd = device_ctx->async_fd, .events = POLLIN };

	(void)state;
	assert_int_equal(ffl_table_put(c, FFL_QP, 0x30005, &qp), 0);
	assert_int_equal(ffl_table_put(c, FFL_CQ, 0x10400, &cq), 0);
	assert_int_equal(ffl_table_put(c, FFL_SRQ, 0x10001, &srq), 0);
	assert_int_equal(poll(&p, 1, 0), 0);
	/* stale, of another kind than its type says, unknown: none is delivered */
	router_event(&device_router, IBV_EVENT_QP_FATAL, FF_ASYNC_QP, 0x20005);
	router_event(&device_router, IBV_EVENT_QP_FATAL, FF_ASYNC_CQ, 0x10400);
	router_event(&device_router, IBV_EVENT_CQ_ERR, FF_ASYNC_CQ, 0x1ffff);
	router_event(&device_router, IBV_EVENT_COMM_EST, FF_ASYNC_QP, 0x30005);
	router_event(&device_router, IBV_EVENT_CQ_ERR, FF_ASYNC_CQ, 0x10400);
	router_event(&device_router, IBV_EVENT_SRQ_LIMIT_REACHED, FF_ASYNC_SRQ, 0x10001);
	router_event(&device_router, IBV_EVENT_PORT_ACTIVE, FF_ASYNC_PORT, 1);
	assert_int_equal(poll(&p, 1, 1000), 1);

	assert_int_equal(ibv_get_async_event(device_ctx, &ev), 0);
	assert_int_equal(ev.event_type, IBV_EVENT_COMM_EST);
	assert_ptr_equal(ev.element.qp, &qp.qp);
	assert_int_equal(qp.async_events, 1);
	assert_int_equal(qp.qp.events_completed, 0);
	ibv_ack_async_event(&ev);
	drain_qp(&qp);
	assert_int_equal(ibv_get_async_event(device_ctx, &ev), 0);
	assert_ptr_equal(ev.element.cq, &cq.cq);
	ibv_ack_async_event(&ev);
	assert_int_equal(cq.cq.async_events_completed, 1);
	assert_int_equal(cq.cq.comp_events_completed, 0);
	assert_int_equal(ibv_get_async_event(device_ctx, &ev), 0);
	assert_ptr_equal(ev.element.srq, &srq.ibv);
	ibv_ack_async_event(&ev);
	assert_int_equal(srq.ibv.events_completed, 1);
	assert_int_equal(ibv_get_async_event(device_ctx, &ev), 0);
	assert_int_equal(ev.event_type, IBV_EVENT_PORT_ACTIVE);
	assert_int_equal(ev.element.port_num, 1);
	ibv_ack_async_event(&ev);

	assert_int_equal(fcntl(device_ctx->async_fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(ibv_get_async_event(device_ctx, &ev), -1);
	assert_int_equal(errno, EAGAIN);
	ffl_table_del(c, FFL_QP, 0x30005);
	router_event(&device_router, IBV_EVENT_QP_FATAL, FF_ASYNC_QP, 0x30005);
	assert_int_equal(ibv_get_async_event(device_ctx, &ev), -1);
	assert_int_equal(errno, EAGAIN);
}

static void *drain_later(void *qp)
{
	drain_qp(qp);
	return NULL;
}

static void test_drain_waits(void **state)
{
	struct ffl_context *c = to_ctx(device_ctx);
	struct ffl_qp qp = { .ctx = c, .qp = { .mutex = PTHREAD_MUTEX_INITIALIZER } };
	struct ibv_async_event ev;
	pthread_t t;
	void *ret;

	(void)state;
	assert_int_equal(ffl_table_put(c, FFL_QP, 0x10001, &qp), 0);
	router_event(&device_router, IBV_EVENT_QP_FATAL, FF_ASYNC_QP, 0x10001);
	assert_int_equal(ibv_get_async_event(device_ctx, &ev), 0);
	ffl_table_del(c, FFL_QP, 0x10001);
	assert_int_equal(qp.qp.events_completed, 0);
	pthread_create(&t, NULL, drain_later, &qp);
	usleep(20000); /* time to fall asleep, or to go on by mistake */
	assert_int_equal(pthread_tryjoin_np(t, &ret), EBUSY);
	ibv_ack_async_event(&ev);
	pthread_join(t, NULL);
	assert_int_equal(qp.qp.events_completed, 1);
}

static void test_router_dies(void **state)
{
	struct ibv_device_attr attr;
	struct ibv_async_event ev;
	struct pollfd p = { .fd = device_ctx->async_fd, .events = POLLIN };
	struct ibv_pd *pd = ibv_alloc_pd(device_ctx);

	(void)state;
	router_stop(&device_router);
	assert_int_equal(poll(&p, 1, 1000), 1);
	assert_int_equal(ibv_get_async_event(device_ctx, &ev), 0);
	assert_int_equal(ev.event_type, IBV_EVENT_DEVICE_FATAL);
	ibv_ack_async_event(&ev);
	assert_int_equal(ibv_get_async_event(device_ctx, &ev), -1);
	assert_int_equal(errno, EIO);
	assert_int_equal(ibv_query_device(device_ctx, &attr), EIO);
	assert_null(ibv_alloc_pd(device_ctx));
	assert_int_equal(errno, EIO);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void *wait_for_event(void *arg)
{
	return (void *)(intptr_t)ibv_get_async_event(device_ctx, arg);
}

/* A thread that waits for events learns that another thread's call found the router silent. */
static void test_silent_router_wakes(void **state)
{
	struct ibv_async_event ev = { 0 };
	pthread_t t;
	void *ret;

	(void)state;
	to_ctx(device_ctx)->call_timeout = 50;
	pthread_create(&t, NULL, wait_for_event, &ev);
	device_router.fault_type = FF_MSG_ALLOC_PD;
	device_router.fault = FAULT_SILENT;
	assert_null(ibv_alloc_pd(device_ctx));
	assert_int_equal(errno, EIO);
	pthread_join(t, &ret);
	assert_null(ret);
	assert_int_equal(ev.event_type, IBV_EVENT_DEVICE_FATAL);
}

int main(void)
{
	signal(SIGPIPE, SIG_DFL);
	return UNIT_RUN(DEVICE_TEST(test_events), DEVICE_TEST(test_drain_waits),
			DEVICE_TEST(test_router_dies), DEVICE_TEST(test_silent_router_wakes));
}
