/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/fakes/fake_ffl.c ffl/session/bell.c ffl/verbs/post.c ffl/verbs/post_ex.c ffl/verbs/qp.c ffl/verbs/cq.c ffl/verbs/gone.c ffl/verbs/cq_ex.c ffl/verbs/srq.c ffl/verbs/channel.c ffl/verbs/home.c ffl/session/table.c ffl/verbs/async.c ffl/verbs/domain.c ffl/verbs/xrc.c */
/* threads: yes */
/*
 * test_cq.c - ffl/verbs/cq.c: completions, and CQs as they come, grow and go.
 */
#include <sched.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ffl/session/ffl.h"
#include "tests/rig/fakes/fake_ffl.h"
#include "tests/rig/unit/unit.h"

/* ---- poll ---------------------------------------------------------------------------------------- */

static void fields(void **state)
{
	struct ffl_cq *cq = fake_cq(4);
	struct ibv_wc wc;

	(void)state;
	memset(&wc, 0xee, sizeof(wc));
	fake_cqe(cq, 0, &fake_sample);
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, fake_sample.wr_id);
	assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.vendor_err, FF_VERR_RKEY);
	assert_int_equal(wc.byte_len, 4096);
	assert_int_equal(wc.imm_data, 0x01020304);
	assert_int_equal(wc.qp_num, 0x654321);
	assert_int_equal(wc.src_qp, 0x123456);
	assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	assert_int_equal(wc.pkey_index, 2);
	assert_int_equal(wc.slid, 0x1111);
	assert_int_equal(wc.sl, 3);
	assert_int_equal(wc.dlid_path_bits, 5);
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 0);
	ibv_destroy_cq(&cq->cq);
}

static void wc_flags(void **state)
{
	struct ffl_cq *cq = fake_cq(4);
	struct ff_cqe cqe = fake_sample;
	struct ibv_wc wc;

	(void)state;
	cqe.flags = FF_CQE_INV | FF_CQE_SOLICITED;
	fake_cqe(cq, 0, &cqe);
	cqe.flags = 0;
	fake_cqe(cq, 1, &cqe);
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 1);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_INV);
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 1);
	assert_int_equal(wc.wc_flags, 0);
	ibv_destroy_cq(&cq->cq);
}

static void phases_over_laps(void **state)
{
	struct ffl_cq *cq = fake_cq(8);
	struct ibv_wc wc[16];
	uint32_t in = 0, out = 0;

	(void)state;
	for (int round = 0; round < 200; round++) {
		uint32_t n = round % 8 + 1; /* 1 .. 8: from empty to full */

		for (uint32_t k = 0; k < n; k++)
			fake_put(cq, in++, 1);
		if (n > 3) { /* in two parts, of which the first leaves something */
			assert_int_equal(ibv_poll_cq(&cq->cq, 3, wc), 3);
			for (int k = 0; k < 3; k++)
				assert_int_equal(wc[k].wr_id, out++);
			assert_int_equal(fake_ci(cq), out);
		}
		assert_int_equal(ibv_poll_cq(&cq->cq, 16, wc), in - out);
		for (int k = 0; out != in; k++)
			assert_int_equal(wc[k].wr_id, out++);
		assert_int_equal(fake_ci(cq), out);
		assert_int_equal(ibv_poll_cq(&cq->cq, 16, wc), 0);
	}
	assert_int_equal(ibv_poll_cq(&cq->cq, 0, wc), 0);
	assert_int_equal(ibv_poll_cq(&cq->cq, -1, wc), 0);
	ibv_destroy_cq(&cq->cq);
}

static void idle_poller(void **state)
{
	struct ffl_cq *cq = fake_cq(4);
	struct ibv_wc wc;

	(void)state;
	for (int i = 0; i < 1023; i++)
		assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 0);
	assert_int_equal(fake.alive_checks, 0);
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 0);
	assert_int_equal(fake.alive_checks, 1);
	assert_int_equal(fake.yields, 0); /* the router has not asked for it */

	fake_put(cq, 0, 1);
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 1);
	atomic_store(&fake.ctx->hdr->yield_polls, 20);
	for (int i = 0; i < 19; i++)
		assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 0);
	assert_int_equal(fake.yields, 0);
	/* each poll, but for some after a yield in which this machine did something else */
	while (fake.yields < 3)
		assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 0);
	fake_put(cq, 1, 1);
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 1);
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 0);
	assert_int_equal(fake.yields, 3);
	ibv_destroy_cq(&cq->cq);
}

/* After a yield that lasted 64 ms none comes for a 16th of that time, whatever is found meanwhile. */
static void poller_back_from_a_long_yield(void **state)
{
	struct ffl_cq *cq = fake_cq(4);
	struct ibv_wc wc;
	uint64_t end;

	(void)state;
	atomic_store(&fake.ctx->hdr->yield_polls, 1);
	fake.yields = 0;
	fake.yield_us = 64000;
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 0);
	assert_int_equal(fake.yields, 1);
	end = ffl_clock_ns(CLOCK_MONOTONIC) + 3000000;
	fake.yield_us = 0;
	fake_put(cq, 0, 1);
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 1);
	do {
		uint32_t yields = fake.yields;

		/* the test itself may have been off its CPU */
		assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 0);
		assert_true(yields == fake.yields || ffl_clock_ns(CLOCK_MONOTONIC) > end);
	} while (ffl_clock_ns(CLOCK_MONOTONIC) < end);
	usleep(10000);
	fake.yields = 0;
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 0);
	assert_int_equal(fake.yields, 1);
	ibv_destroy_cq(&cq->cq);
}

static struct ffl_cq *yield_cq;

static void put_meanwhile(void)
{
	fake_put(yield_cq, fake.yields - 1, 1);
}

/* What came during the yield is found by the poll that yielded: nothing means that nothing is there now. */
static void found_after_a_yield(void **state)
{
	struct ffl_cq *cq = fake_cq(4);
	struct ibv_wc wc;

	(void)state;
	yield_cq = cq;
	fake.yields = 0;
	fake.on_yield = put_meanwhile;
	atomic_store(&fake.ctx->hdr->yield_polls, 1);
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 1);
	assert_int_equal(fake.yields, 1);
	fake.on_yield = NULL;
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 0);
	ibv_destroy_cq(&cq->cq);
}

/* These take the place of libc's: a kernel that obeys. */
static struct {
	int cpu, moves;
	cpu_set_t affinity;
} sched;

int sched_getcpu(void)
{
	return sched.cpu;
}

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	(void)pid;
	assert_int_equal(size, sizeof(*set));
	*set = sched.affinity;
	return 0;
}

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set)
{
	(void)pid;
	assert_int_equal(size, sizeof(*set));
	assert_true(CPU_COUNT(set));
	sched.affinity = *set;
	while (!CPU_ISSET(sched.cpu, set))
		sched.cpu = (sched.cpu + 1) % CPU_SETSIZE;
	sched.moves++;
	return 0;
}

/* A poller leaves the CPU on which the router moves its data; nothing else is changed. */
static void poller_moves(void **state)
{
	struct ffl_cq *cq = fake_cq(4);
	struct ff_ses_hdr *hdr = fake.ctx->hdr;
	struct ibv_wc wc;
	cpu_set_t both;

	(void)state;
	CPU_ZERO(&both);
	CPU_SET(3, &both);
	CPU_SET(5, &both);
	sched.affinity = both;
	sched.cpu = 3;
	atomic_store(&hdr->yield_polls, 1);
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 0);
	assert_int_equal(sched.moves, 0); /* nothing announced */
	atomic_store(&hdr->busy, ff_busy(ffl_clock_ns(CLOCK_MONOTONIC), 5));
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 0);
	assert_int_equal(sched.moves, 0); /* another CPU */
	atomic_store(&hdr->busy, ff_busy(ffl_clock_ns(CLOCK_MONOTONIC) - 1000000000u, 3));
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 0);
	assert_int_equal(sched.moves, 0); /* a second ago */
	do {
		atomic_store(&hdr->busy, ff_busy(ffl_clock_ns(CLOCK_MONOTONIC), 3));
		assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 0);
	} while (!sched.moves); /* the test itself may have been off its CPU for FF_BUSY_US */
	assert_int_equal(sched.moves, 2);
	assert_int_equal(sched.cpu, 5);
	assert_true(CPU_EQUAL(&sched.affinity, &both));
	/* a thread that may run on no other CPU stays */
	CPU_CLR(3, &sched.affinity);
	atomic_store(&hdr->busy, ff_busy(ffl_clock_ns(CLOCK_MONOTONIC), 5));
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 0);
	assert_int_equal(sched.moves, 2);
	ibv_destroy_cq(&cq->cq);
}

/* What came before the router died is delivered; then the CQ is empty (test_gone.c has what is posted). */
static void dead_router(void **state)
{
	struct ffl_cq *cq = fake_cq(4);
	struct ibv_wc wc;

	(void)state;
	fake_put(cq, 0, 1);
	ffl_mark_dead(fake.ctx);
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 1);
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 0);
	assert_int_equal(ibv_req_notify_cq(&cq->cq, 0), EIO);
	assert_int_equal(ibv_destroy_cq(&cq->cq), 0);
	fake.live = 0;
}

/* ---- CQEs of destroyed QPs ------------------------------------------------------------------------- */

static void clean(void **state)
{
	struct ffl_cq *cq = fake_cq(8);
	struct ibv_wc wc[8];
	uint32_t i;

	(void)state;
	for (i = 0; i < 6; i++)
		fake_put(cq, i, i % 2 ? 0xa : 0xb);
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, wc), 1);
	ffl_cq_clean(cq, 0xa);
	fake_put(cq, 6, 0xa); /* another QP with that handle: it came later */
	assert_int_equal(ibv_poll_cq(&cq->cq, 2, wc), 2);
	assert_int_equal(wc[0].wr_id, 2);
	assert_int_equal(wc[1].wr_id, 4);
	assert_int_equal(ibv_poll_cq(&cq->cq, 8, wc), 1);
	assert_int_equal(wc[0].wr_id, 6);
	assert_int_equal(fake_ci(cq), 7);

	/* all of a full ring: the poll is empty and gives the entries back */
	for (i = 7; i < 15; i++)
		fake_put(cq, i, 0xa);
	ffl_cq_clean(cq, 0xa);
	assert_int_equal(ibv_poll_cq(&cq->cq, 8, wc), 0);
	assert_int_equal(fake_ci(cq), 15);
	fake_put(cq, 15, 0xa);
	assert_int_equal(ibv_poll_cq(&cq->cq, 8, wc), 1);
	ibv_destroy_cq(&cq->cq);
}

/* A completed receive makes room in its SRQ, also where its QP is gone before it was polled. */
static void srq_gets_room(void **state)
{
	struct ffl_cq *cq = fake_cq(4);
	struct ibv_srq_init_attr sattr = { .attr = { 2, 1, 0 } };
	struct ibv_srq *ibsrq = ibv_create_srq(fake.pd, &sattr);
	struct ibv_qp_init_attr attr = { .send_cq = &cq->cq,
					 .recv_cq = &cq->cq,
					 .srq = ibsrq,
					 .cap = { 4, 4, 1, 1, 0 },
					 .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = ibv_create_qp(fake.pd, &attr);
	struct ff_cqe cqe = { .qp = qp->handle, .opcode = FF_CQE_RECV };
	struct ibv_recv_wr wr = { 0 }, *bad;
	struct ibv_wc wc;

	(void)state;
	while (!ibv_post_srq_recv(ibsrq, &wr, &bad))
		;
	fake_cqe(cq, 0, &cqe);
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 1);
	assert_int_equal(ibv_post_srq_recv(ibsrq, &wr, &bad), 0);
	assert_int_equal(ibv_post_srq_recv(ibsrq, &wr, &bad), ENOMEM);
	fake_cqe(cq, 1, &cqe);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_post_srq_recv(ibsrq, &wr, &bad), 0);
	assert_int_equal(ibv_post_srq_recv(ibsrq, &wr, &bad), ENOMEM);
	assert_int_equal(ibv_destroy_srq(ibsrq), 0);
	ibv_destroy_cq(&cq->cq);
}

static void clean_on_destroy_and_reset(void **state)
{
	struct ffl_cq *cq = fake_cq(8);
	struct ffl_qp *a = fake_qp(IBV_QPT_RC, cq, 4, 1, 0, false);
	struct ffl_qp *b = fake_qp(IBV_QPT_RC, cq, 4, 1, 0, false);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct ibv_wc wc[8];

	(void)state;
	fake_put(cq, 0, a->handle);
	fake_put(cq, 1, b->handle);
	fake_put(cq, 2, a->handle);
	assert_int_equal(ibv_modify_qp(&b->qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, wc), 1);
	assert_int_equal(wc[0].wr_id, 0);
	assert_int_equal(ibv_destroy_qp(&a->qp), 0);
	assert_int_equal(ibv_poll_cq(&cq->cq, 8, wc), 0);
	assert_int_equal(ibv_destroy_qp(&b->qp), 0);
	ibv_destroy_cq(&cq->cq);
}

/* ---- create, resize --------------------------------------------------------------------------------- */

static void create(void **state)
{
	struct ibv_context *ctx = &fake.ctx->v.context;
	struct ffl_context other = { 0 };
	struct ffl_channel foreign = { .ctx = &other };
	struct ibv_comp_channel *ch = ibv_create_comp_channel(ctx);
	int cookie;
	struct ibv_cq *cq = ibv_create_cq(ctx, 100, &cookie, ch, 1);

	(void)state;
	assert_non_null(cq);
	assert_int_equal(cq->cqe, 128);
	assert_ptr_equal(cq->cq_context, &cookie);
	assert_ptr_equal(cq->channel, ch);
	assert_ptr_equal(cq->context, ctx);
	assert_int_equal(cq->handle, to_cq(cq)->handle);
	assert_int_equal(fake.cq_req.cqe, 100);
	assert_int_equal(fake.cq_req.comp_vector, 1);
	assert_int_equal(fake.cq_req.flags, 0);
	assert_int_not_equal(fake.cq_req.channel, 0);
	assert_int_equal(ibv_destroy_comp_channel(ch), EBUSY);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(ch), 0);

#define REFUSED(expr)                                                                              \
	do {                                                                                       \
		errno = 0;                                                                         \
		assert_null(expr);                                                                 \
		assert_int_equal(errno, EINVAL);                                                   \
	} while (0)
	REFUSED(ibv_create_cq(ctx, 0, NULL, NULL, 0));
	REFUSED(ibv_create_cq(ctx, -1, NULL, NULL, 0));
	REFUSED(ibv_create_cq(ctx, 1025, NULL, NULL, 0));
	REFUSED(ibv_create_cq(ctx, 1, NULL, NULL, 2));
	REFUSED(ibv_create_cq(ctx, 1, NULL, NULL, -1));
	REFUSED(ibv_create_cq(ctx, 1, NULL, &foreign.ibv, 0));
	assert_int_equal(fake.calls[FF_MSG_CREATE_CQ], 1);
}

static void create_unwinds(void **state)
{
	struct ibv_context *ctx = &fake.ctx->v.context;

	(void)state;
	fake.fail[FF_MSG_CREATE_CQ] = -ENOSPC;
	assert_null(ibv_create_cq(ctx, 4, NULL, NULL, 0));
	assert_int_equal(errno, ENOSPC);
	fake.fail[FF_MSG_CREATE_CQ] = 0;
	for (int nth = 1; nth <= 2; nth++) {
		fake.fail_seg_at = nth;
		assert_null(ibv_create_cq(ctx, 4, NULL, NULL, 0));
		assert_int_equal(errno, ENOMEM);
		assert_int_equal(fake.live, 0);
	}
	fake.fail[FF_MSG_DESTROY_CQ] = -EBUSY;
	struct ffl_cq *cq = fake_cq(4);

	assert_int_equal(ibv_destroy_cq(&cq->cq), EBUSY);
	assert_int_equal(errno, EBUSY);
	fake.fail[FF_MSG_DESTROY_CQ] = 0;
	assert_int_equal(ibv_destroy_cq(&cq->cq), 0);
}

static void moderate(void **state)
{
	struct ffl_cq *cq = fake_cq(4);
	struct ibv_modify_cq_attr attr = { .attr_mask = IBV_CQ_ATTR_MODERATE,
					   .moderate = { .cq_count = 0xffff, .cq_period = 7 } };

	(void)state;
	assert_int_equal(ffl_modify_cq(&cq->cq, &attr), 0);
	assert_int_equal(fake.modify_cq.cq, cq->handle);
	assert_int_equal(fake.modify_cq.count, 0xffff);
	assert_int_equal(fake.modify_cq.period, 7);
	fake.fail[FF_MSG_MODIFY_CQ] = -EINVAL;
	errno = 0;
	assert_int_equal(ffl_modify_cq(&cq->cq, &attr), EINVAL);
	assert_int_equal(errno, EINVAL);
	fake.fail[FF_MSG_MODIFY_CQ] = 0;
	attr.attr_mask = 0;
	assert_int_equal(ffl_modify_cq(&cq->cq, &attr), EINVAL);
	attr.attr_mask = IBV_CQ_ATTR_RESERVED | IBV_CQ_ATTR_MODERATE;
	assert_int_equal(ffl_modify_cq(&cq->cq, &attr), EINVAL);
	assert_int_equal(fake.calls[FF_MSG_MODIFY_CQ], 2);
	ibv_destroy_cq(&cq->cq);
}

static void resize(void **state)
{
	struct ffl_cq *cq = fake_cq(4);
	struct ibv_wc wc[8];
	uint32_t i;

	(void)state;
	for (i = 0; i < 4; i++)
		fake_put(cq, i, 1);
	assert_int_equal(ibv_poll_cq(&cq->cq, 3, wc), 3);
	for (; i < 7; i++) /* 3 .. 6 are left, over the end of the ring */
		fake_put(cq, i, i == 5 ? 2 : 1);
	ffl_cq_clean(cq, 2);
	assert_int_equal(ibv_resize_cq(&cq->cq, 8), 0);
	assert_int_equal(cq->cq.cqe, 8);
	fake_put(cq, 4, 1);
	assert_int_equal(ibv_poll_cq(&cq->cq, 8, wc), 4);
	assert_int_equal(wc[0].wr_id, 3);
	assert_int_equal(wc[1].wr_id, 4);
	assert_int_equal(wc[2].wr_id, 6);
	assert_int_equal(wc[3].wr_id, 4); /* the first of the new ring's own */
	assert_int_equal(fake_ci(cq), 5);

	assert_int_equal(ibv_resize_cq(&cq->cq, 0), EINVAL);
	assert_int_equal(ibv_resize_cq(&cq->cq, 1025), EINVAL);
	fake.fail[FF_MSG_RESIZE_CQ] = -EINVAL;
	assert_int_equal(ibv_resize_cq(&cq->cq, 2), EINVAL);
	assert_int_equal(cq->cq.cqe, 8);
	assert_int_equal(ibv_poll_cq(&cq->cq, 8, wc), 0);
	/* the router wants to hear first that all segments are mapped; it is told once */
	fake.fail[FF_MSG_RESIZE_CQ] = -EAGAIN;
	assert_int_equal(fake.num_mapped, 0);
	assert_int_equal(ibv_resize_cq(&cq->cq, 16), EAGAIN);
	assert_int_equal(fake.num_mapped, 1);
	assert_int_equal(cq->cq.cqe, 8);
	/* a new ring that cannot be reached is the end, not a hang */
	fake.fail[FF_MSG_RESIZE_CQ] = 0;
	fake.fail_seg_at = 1;
	assert_int_equal(ibv_resize_cq(&cq->cq, 16), ENOMEM);
	assert_true(fake.ctx->dead);
	assert_int_equal(ibv_poll_cq(&cq->cq, 8, wc), 0);
	assert_int_equal(ibv_destroy_cq(&cq->cq), 0);
	fake.live = 0;
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, fake_setup, fake_teardown)
	return UNIT_RUN(T(fields), T(wc_flags), T(phases_over_laps), T(idle_poller),
			T(poller_back_from_a_long_yield), T(found_after_a_yield), T(poller_moves),
			T(dead_router), T(clean), T(srq_gets_room), T(clean_on_destroy_and_reset),
			T(create), T(create_unwinds), T(moderate), T(resize));
}
