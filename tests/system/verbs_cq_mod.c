/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/* timeout: 300 */
/*
 * verbs_cq_mod.c - moderation of completion events (ibv_modify_cq), the device's clock and the
 * timestamps of completions.
 *
 * Held back means: not before the count is reached, unless the period is over. The machine may be
 * slow, so an event that comes early is measured against the clock and not taken for a fault.
 */
#include "tests/rig/verbs/vt.h"

#include <time.h>

#define PERIOD_US 60000u

static void open_pair(struct vt_end *a, struct vt_end *b)
{
	struct vt_param par = VT_PARAM;

	par.channel = true;
	vt_pair(a, b, &par);
}

static int moderate(struct ibv_cq *cq, uint16_t count, uint16_t period)
{
	struct ibv_modify_cq_attr attr = { .attr_mask = IBV_CQ_ATTR_MODERATE,
					   .moderate = { .cq_count = count, .cq_period = period } };

	return ibv_modify_cq(cq, &attr);
}

/* n messages from a arrive at b. */
static void arrive(struct vt_end *a, struct vt_end *b, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		vt_recv(b, i, 0, 64);
		vt_send(a, i, 0, 64, IBV_SEND_SIGNALED);
		WANT_OK(a->scq, i);
		WANT_OK(b->rcq, i);
	}
}

static void take_event(struct vt_end *e)
{
	WANT_COMP_EVENT(e->channel, e->rcq);
	ibv_ack_cq_events(e->rcq, 1);
}

/* The count releases the event; before that only the period may. */
static void mod_count(void)
{
	unsigned by_count = 0;
	struct vt_end a, b;

	open_pair(&a, &b);
	CHECK_OK(moderate(b.rcq, 8, PERIOD_US));
	for (unsigned lap = 0; lap < 20 && !by_count; lap++) {
		uint64_t start = vt_now();

		CHECK_OK(ibv_req_notify_cq(b.rcq, 0));
		arrive(&a, &b, 7);
		if (vt_readable(b.channel->fd, 0)) {
			CHECK(vt_now() - start >= PERIOD_US * 1000ull);
			take_event(&b);
			continue;
		}
		arrive(&a, &b, 1);
		take_event(&b);
		if (vt_now() - start < PERIOD_US * 1000ull)
			by_count++;
	}
	if (!by_count)
		vt_skip("too slow a machine: the period was over each time");
	vt_pair_close(&a, &b);
}

static void mod_period(void)
{
	struct vt_end a, b;
	uint64_t start;

	open_pair(&a, &b);
	CHECK_OK(moderate(b.rcq, 1000, PERIOD_US));
	for (unsigned lap = 0; lap < 3; lap++) {
		CHECK_OK(ibv_req_notify_cq(b.rcq, 0));
		start = vt_now();
		arrive(&a, &b, 1);
		take_event(&b);
		CHECK(vt_now() - start >= PERIOD_US * 1000ull);
	}
	/* no more: the next event is there at once */
	CHECK_OK(moderate(b.rcq, 0, 0));
	for (unsigned lap = 0; lap < 10; lap++) {
		CHECK_OK(ibv_req_notify_cq(b.rcq, 0));
		arrive(&a, &b, 1);
		take_event(&b);
	}
	vt_pair_close(&a, &b);
}

/* One of the two values alone moderates nothing, so nobody waits for ever. */
static void mod_half(void)
{
	struct vt_end a, b;

	open_pair(&a, &b);
	CHECK_OK(moderate(b.rcq, 100, 0));
	CHECK_OK(ibv_req_notify_cq(b.rcq, 0));
	arrive(&a, &b, 1);
	take_event(&b);
	CHECK_OK(moderate(b.rcq, 0, 60000));
	CHECK_OK(ibv_req_notify_cq(b.rcq, 0));
	arrive(&a, &b, 1);
	take_event(&b);
	vt_pair_close(&a, &b);
}

static void mod_arguments(void)
{
	struct ibv_modify_cq_attr attr = { 0 };
	struct ibv_device_attr_ex dev;
	struct vt_end a, b;

	open_pair(&a, &b);
	CHECK_OK(ibv_query_device_ex(a.ctx, NULL, &dev));
	CHECK_EQ(dev.cq_mod_caps.max_cq_count, UINT16_MAX);
	CHECK_EQ(dev.cq_mod_caps.max_cq_period, UINT16_MAX);
	CHECK_OK(moderate(a.scq, UINT16_MAX, UINT16_MAX));
	CHECK_ERR(ibv_modify_cq(a.scq, &attr), EINVAL);
	attr.attr_mask = IBV_CQ_ATTR_MODERATE | IBV_CQ_ATTR_RESERVED;
	CHECK_ERR(ibv_modify_cq(a.scq, &attr), EINVAL);
	vt_pair_close(&a, &b);
}

/* ---- time ----------------------------------------------------------------------------------- */

/* The device's clock in its own unit: ns, as hca_core_clock (kHz) says. */
static uint64_t raw_clock(struct ibv_context *ctx)
{
	struct ibv_values_ex v = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };

	CHECK_OK(ibv_query_rt_values_ex(ctx, &v));
	CHECK_EQ(v.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	return (uint64_t)v.raw_clock.tv_sec * 1000000000u + (uint64_t)v.raw_clock.tv_nsec;
}

static uint64_t wall_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void clock_values(void)
{
	struct ibv_context *ctx = vt_open_device();
	struct ibv_values_ex v = { .comp_mask = 0 };
	struct ibv_device_attr_ex dev;
	uint64_t t0, t1, real0, real1;

	CHECK_OK(ibv_query_device_ex(ctx, NULL, &dev));
	CHECK_EQ(dev.hca_core_clock, 1000000);
	CHECK_EQ(dev.completion_timestamp_mask, UINT64_MAX);
	real0 = vt_now();
	t0 = raw_clock(ctx);
	WAIT_FOR(vt_now() - real0 > 20000000);
	t1 = raw_clock(ctx);
	real1 = vt_now();
	/* as many ticks as the frequency says */
	CHECK(t1 - t0 >= 20000000 - 1000000 && t1 - t0 <= real1 - real0);
	CHECK_OK(ibv_query_rt_values_ex(ctx, &v));
	CHECK_EQ(v.comp_mask, 0);
	v.comp_mask = IBV_VALUES_MASK_RAW_CLOCK << 1;
	CHECK_ERR(ibv_query_rt_values_ex(ctx, &v), EINVAL);
	CHECK_OK(ibv_close_device(ctx));
}

/* Each completion's time lies between the posting and its poll; they never go back. */
static void timestamps(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_cq_init_attr_ex init = {
		.cqe = 64,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
	};
	struct ibv_poll_cq_attr poll_attr = { 0 };
	struct ibv_qp_init_attr qp_init = { .cap = { 16, 16, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct ibv_cq_ex *cq;
	uint64_t last = 0;
	struct vt_end e;
	struct ibv_qp *qp;
	struct vt_addr self;

	vt_end_open(&e, &par);
	cq = CHECK_PTR(ibv_create_cq_ex(e.ctx, &init));
	qp_init.send_cq = ibv_cq_ex_to_cq(cq);
	qp_init.recv_cq = e.rcq;
	qp = CHECK_PTR(ibv_create_qp(e.pd, &qp_init));
	self = e.self;
	self.qpn = qp->qp_num;
	vt_connect_qp(qp, &par, &self, &self);
	for (unsigned i = 0; i < 20; i++) {
		struct ibv_sge sge = vt_sge(&e, 0, 8);
		struct ibv_send_wr *bad, wr = {
			.wr_id = i,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { e.self.addr + 4096, e.self.rkey },
		};
		uint64_t before = raw_clock(e.ctx), wall_before = wall_clock(), ts, wall;
		const uint64_t slack = 5000000; /* the wall clock may be slewed */

		CHECK_OK(ibv_post_send(qp, &wr, &bad));
		WAIT_FOR(!ibv_start_poll(cq, &poll_attr));
		CHECK_EQ(cq->status, IBV_WC_SUCCESS);
		CHECK_EQ(cq->wr_id, i);
		ts = ibv_wc_read_completion_ts(cq);
		wall = ibv_wc_read_completion_wallclock_ns(cq);
		ibv_end_poll(cq);
		CHECK(ts >= before && ts <= raw_clock(e.ctx));
		CHECK(ts >= last);
		CHECK(wall + slack >= wall_before && wall <= wall_clock() + slack);
		last = ts;
	}
	CHECK_OK(ibv_destroy_qp(qp));
	CHECK_OK(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
	vt_end_close(&e);
}

VT_MAIN({ "mod_count", mod_count, 0 }, { "mod_period", mod_period, 0 }, { "mod_half", mod_half, 0 },
	{ "mod_arguments", mod_arguments, 0 }, { "clock_values", clock_values, 0 },
	{ "timestamps", timestamps, 0 })
