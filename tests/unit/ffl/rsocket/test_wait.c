/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_wait.c - ffl/rsocket/wait.c: when a thread may sleep, so that nobody sleeps while what it
 * waits for is there. The test is the kernel and the CQ.
 *
 * build: ffl/rsocket/lock.c
 */
#include <poll.h>

#include "tests/rig/unit/unit.h"

static int fake_poll(struct pollfd *fds, nfds_t n, int timeout);

#define poll fake_poll
#include "ffl/rsocket/wait.c" /* NOLINT(bugprone-suspicious-include) */
#undef poll

uint32_t rs_polling_time;

static struct {
	struct rsocket rs;
	struct rdma_event_channel ec;
	struct ibv_comp_channel channel;
	struct ibv_cq cq;
	struct ibv_context ctx;
	unsigned sleeps, armed, events_read;
	bool event; /* in the completion channel */
} w;

static int fake_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	(void)timeout;
	assert_int_equal(n, 2);
	w.sleeps++;
	fds[0].revents = 0;
	fds[1].revents = w.event ? POLLIN : 0;
	return w.event;
}

static int fake_notify(struct ibv_cq *cq, int solicited_only)
{
	(void)cq, (void)solicited_only;
	w.armed++;
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
	(void)channel;
	w.events_read++;
	w.event = false;
	*cq = &w.cq;
	*context = NULL;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	(void)cq, (void)n;
}

void rs_stream_process(struct rsocket *rs)
{
	(void)rs;
}

void rs_cm_process(struct rsocket *rs)
{
	(void)rs;
}

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define NOT_CALLED(type, name, ...)                                                                \
	type name(__VA_ARGS__)                                                                     \
	{                                                                                          \
		abort();                                                                           \
	}
NOT_CALLED(void, rs_dgram_process, struct rsocket *rs)
NOT_CALLED(void, rs_cm_look, struct rsocket *rs)
NOT_CALLED(struct ibv_comp_channel *, ibv_create_comp_channel, struct ibv_context *c)
NOT_CALLED(int, ibv_destroy_comp_channel, struct ibv_comp_channel *ch)
#undef ibv_create_cq
NOT_CALLED(struct ibv_cq *, ibv_create_cq, struct ibv_context *c, int cqe, void *context,
	   struct ibv_comp_channel *ch, int vector)
NOT_CALLED(int, ibv_destroy_cq, struct ibv_cq *cq)

static int setup(void **state)
{
	(void)state;
	memset(&w, 0, sizeof(w));
	w.ctx.ops.req_notify_cq = fake_notify;
	w.cq.context = &w.ctx;
	w.rs.type = SOCK_STREAM;
	w.rs.state = RS_CONNECTED;
	w.rs.ec = &w.ec;
	w.rs.cq.cq = &w.cq;
	w.rs.cq.channel = &w.channel;
	return 0;
}

/* It came before the CQ was armed for the next completion. */
static bool is_there_once_armed(struct rsocket *rs)
{
	(void)rs;
	return w.armed;
}

static void it_looks_once_more_after_arming(void **state)
{
	(void)state;
	assert_int_equal(rs_wait(&w.rs, is_there_once_armed, false, 0), 0);
	assert_int_equal(w.armed, 1);
	assert_int_equal(w.sleeps, 0);
}

static bool is_there_once_read(struct rsocket *rs)
{
	(void)rs;
	return w.events_read;
}

/* The event that woke it is read, and the CQ armed again, before it sleeps again. */
static void it_sleeps_on_no_event_that_has_come(void **state)
{
	(void)state;
	w.event = true;
	assert_int_equal(rs_wait(&w.rs, is_there_once_read, false, 0), 0);
	assert_int_equal(w.sleeps, 1);
	assert_int_equal(w.armed, 2);
}

/* While other threads have to wake up by an event it is not read. */
static void others_wake_up_first(void **state)
{
	struct rs_cq *q = &w.rs.cq;

	(void)state;
	q->armed = q->fired = true;
	q->sleepers = 1;
	assert_int_equal(rs_cq_arm(q), RS_OTHERS);
	assert_int_equal(w.events_read, 0);
	q->sleepers = 0;
	assert_int_equal(rs_cq_arm(q), RS_REARMED);
	assert_int_equal(w.events_read, 1);
	assert_int_equal(rs_cq_arm(q), RS_ARMED);
}

#define T(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	return UNIT_RUN(T(it_looks_once_more_after_arming), T(it_sleeps_on_no_event_that_has_come),
			T(others_wake_up_first));
}
