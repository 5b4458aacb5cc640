/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_cq.c - ffl/verbs/cq.c, cq_ex.c and channel.c: completions and their events.
 *
 * build: tests/unit/lib/ffl_fake.c ffl/verbs/post.c ffl/verbs/post_ex.c ffl/verbs/qp.c ffl/verbs/cq.c ffl/verbs/cq_ex.c ffl/verbs/srq.c ffl/verbs/channel.c ffl/session/table.c ffl/verbs/async.c ffl/verbs/domain.c ffl/verbs/xrc.c
 *
 * threads: yes
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "ffl/session/ffl.h"
#include "tests/unit/lib/ffl_fake.h"

static const struct ff_cqe sample = {
	.wr_id = 0x1122334455667788,
	.timestamp = 123456789,
	.qp = 0xab0001,
	.qp_num = 0x654321,
	.src_qp = 0x123456,
	.byte_len = 4096,
	.imm = 0x01020304,
	.vendor_err = FF_VERR_RKEY,
	.status = IBV_WC_REM_ACCESS_ERR,
	.opcode = IBV_WC_RECV_RDMA_WITH_IMM,
	.flags = FF_CQE_GRH | FF_CQE_IMM,
	.sl = 3,
	.slid = 0x1111,
	.pkey_index = 2,
	.dlid_path_bits = 5,
};

static void put(struct ffl_cq *cq, uint32_t i, uint32_t qp)
{
	struct ff_cqe cqe = { .wr_id = i, .qp = qp };

	fake_cqe(cq, i, &cqe);
}

static uint32_t ci(const struct ffl_cq *cq)
{
	return atomic_load(&cq->hdr->ci);
}

/* ---- poll ---------------------------------------------------------------------------------------- */

static void fields(void **state)
{
	struct ffl_cq *cq = fake_cq(4);
	struct ibv_wc wc;

	(void)state;
	memset(&wc, 0xee, sizeof(wc));
	fake_cqe(cq, 0, &sample);
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, sample.wr_id);
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
	struct ff_cqe cqe = sample;
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
			put(cq, in++, 1);
		if (n > 3) { /* in two parts, of which the first leaves something */
			assert_int_equal(ibv_poll_cq(&cq->cq, 3, wc), 3);
			for (int k = 0; k < 3; k++)
				assert_int_equal(wc[k].wr_id, out++);
			assert_int_equal(ci(cq), out);
		}
		assert_int_equal(ibv_poll_cq(&cq->cq, 16, wc), in - out);
		for (int k = 0; out != in; k++)
			assert_int_equal(wc[k].wr_id, out++);
		assert_int_equal(ci(cq), out);
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

	put(cq, 0, 1);
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 1);
	atomic_store(&fake.ctx->hdr->yield_polls, 20);
	for (int i = 0; i < 19; i++)
		assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 0);
	assert_int_equal(fake.yields, 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 0);
	assert_int_equal(fake.yields, 3);
	put(cq, 1, 1);
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 1);
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 0);
	assert_int_equal(fake.yields, 3);
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

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
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
	atomic_store(&hdr->busy, ff_busy(now_ns(), 5));
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 0);
	assert_int_equal(sched.moves, 0); /* another CPU */
	atomic_store(&hdr->busy, ff_busy(now_ns() - 1000000000u, 3));
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 0);
	assert_int_equal(sched.moves, 0); /* a second ago */
	do {
		atomic_store(&hdr->busy, ff_busy(now_ns(), 3));
		assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 0);
	} while (!sched.moves); /* the test itself may have been off its CPU for FF_BUSY_US */
	assert_int_equal(sched.moves, 2);
	assert_int_equal(sched.cpu, 5);
	assert_true(CPU_EQUAL(&sched.affinity, &both));
	/* a thread that may run on no other CPU stays */
	CPU_CLR(3, &sched.affinity);
	atomic_store(&hdr->busy, ff_busy(now_ns(), 5));
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 0);
	assert_int_equal(sched.moves, 2);
	ibv_destroy_cq(&cq->cq);
}

/* What came before the router died is delivered; then polls fail. */
static void dead_router(void **state)
{
	struct ffl_cq *cq = fake_cq(4);
	struct ibv_wc wc;

	(void)state;
	put(cq, 0, 1);
	ffl_mark_dead(fake.ctx);
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 1);
	errno = 0;
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), -1);
	assert_int_equal(errno, EIO);
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
		put(cq, i, i % 2 ? 0xa : 0xb);
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, wc), 1);
	ffl_cq_clean(cq, 0xa);
	put(cq, 6, 0xa); /* another QP with that handle: it came later */
	assert_int_equal(ibv_poll_cq(&cq->cq, 2, wc), 2);
	assert_int_equal(wc[0].wr_id, 2);
	assert_int_equal(wc[1].wr_id, 4);
	assert_int_equal(ibv_poll_cq(&cq->cq, 8, wc), 1);
	assert_int_equal(wc[0].wr_id, 6);
	assert_int_equal(ci(cq), 7);

	/* all of a full ring: the poll is empty and gives the entries back */
	for (i = 7; i < 15; i++)
		put(cq, i, 0xa);
	ffl_cq_clean(cq, 0xa);
	assert_int_equal(ibv_poll_cq(&cq->cq, 8, wc), 0);
	assert_int_equal(ci(cq), 15);
	put(cq, 15, 0xa);
	assert_int_equal(ibv_poll_cq(&cq->cq, 8, wc), 1);
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
	put(cq, 0, a->handle);
	put(cq, 1, b->handle);
	put(cq, 2, a->handle);
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

static void create_ex(void **state)
{
	static const struct {
		struct ibv_cq_init_attr_ex attr;
		int err;
	} row[] = {
		{ { .cqe = 4, .comp_mask = 4 }, EINVAL },
		{ { .cqe = 4, .wc_flags = 1ull << 12 }, EINVAL },
		{ { .cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = 4 }, EINVAL },
		{ { .cqe = 4, .wc_flags = IBV_WC_EX_WITH_CVLAN }, EOPNOTSUPP },
		{ { .cqe = 4, .wc_flags = IBV_WC_EX_WITH_FLOW_TAG }, EOPNOTSUPP },
		{ { .cqe = 4, .wc_flags = IBV_WC_EX_WITH_TM_INFO }, EOPNOTSUPP },
		{ { .cqe = 4,
		    .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		    .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN },
		  EOPNOTSUPP },
		{ { .cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = NULL },
		  EINVAL },
		{ { .cqe = 0 }, EINVAL },
		/* flags that comp_mask does not announce are not there */
		{ { .cqe = 4, .flags = 0xffff }, 0 },
		{ { .cqe = 4,
		    .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		    .flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED },
		  0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct ibv_cq_init_attr_ex attr = row[i].attr;
		struct ibv_cq_ex *cq;

		errno = 0;
		cq = ffl_create_cq_ex(&fake.ctx->v.context, &attr);
		assert_int_equal(errno, row[i].err);
		assert_int_equal(!cq, row[i].err != 0);
		if (cq)
			ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
	}
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
		put(cq, i, 1);
	assert_int_equal(ibv_poll_cq(&cq->cq, 3, wc), 3);
	for (; i < 7; i++) /* 3 .. 6 are left, over the end of the ring */
		put(cq, i, i == 5 ? 2 : 1);
	ffl_cq_clean(cq, 2);
	assert_int_equal(ibv_resize_cq(&cq->cq, 8), 0);
	assert_int_equal(cq->cq.cqe, 8);
	put(cq, 4, 1);
	assert_int_equal(ibv_poll_cq(&cq->cq, 8, wc), 4);
	assert_int_equal(wc[0].wr_id, 3);
	assert_int_equal(wc[1].wr_id, 4);
	assert_int_equal(wc[2].wr_id, 6);
	assert_int_equal(wc[3].wr_id, 4); /* the first of the new ring's own */
	assert_int_equal(ci(cq), 5);

	assert_int_equal(ibv_resize_cq(&cq->cq, 0), EINVAL);
	assert_int_equal(ibv_resize_cq(&cq->cq, 1025), EINVAL);
	fake.fail[FF_MSG_RESIZE_CQ] = -EINVAL;
	assert_int_equal(ibv_resize_cq(&cq->cq, 2), EINVAL);
	assert_int_equal(cq->cq.cqe, 8);
	assert_int_equal(ibv_poll_cq(&cq->cq, 8, wc), 0);
	/* a new ring that cannot be reached is the end, not a hang */
	fake.fail[FF_MSG_RESIZE_CQ] = 0;
	fake.fail_seg_at = 1;
	assert_int_equal(ibv_resize_cq(&cq->cq, 16), ENOMEM);
	assert_int_equal(ibv_poll_cq(&cq->cq, 8, wc), -1);
	assert_int_equal(ibv_destroy_cq(&cq->cq), 0);
	fake.live = 0;
}

/* ---- extended poll ------------------------------------------------------------------------------------ */

static struct ibv_cq_ex *make_ex(uint64_t wc_flags, uint32_t flags)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 8,
					    .wc_flags = wc_flags,
					    .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					    .flags = flags };
	struct ibv_cq_ex *ex = ffl_create_cq_ex(&fake.ctx->v.context, &attr);

	assert_non_null(ex);
	return ex;
}

static void readers(void **state)
{
	struct ibv_cq_ex *ex = make_ex(IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
					       IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
				       0);
	struct ffl_cq *cq = to_cq(ibv_cq_ex_to_cq(ex));
	struct ibv_poll_cq_attr attr = { 0 };
	struct ff_cqe cqe = sample;
	struct timespec mono, real;

	(void)state;
	assert_int_equal(fake.cq_req.flags, FF_CQ_TIMESTAMP);
	assert_int_equal(ibv_start_poll(ex, &(struct ibv_poll_cq_attr){ .comp_mask = 1 }), EINVAL);
	assert_int_equal(ibv_start_poll(ex, &attr), ENOENT);
	assert_int_equal(atomic_load(&cq->lock.v), 0);

	clock_gettime(CLOCK_MONOTONIC, &mono);
	clock_gettime(CLOCK_REALTIME, &real);
	cqe.timestamp = (uint64_t)mono.tv_sec * 1000000000u + (uint64_t)mono.tv_nsec;
	fake_cqe(cq, 0, &cqe);
	assert_int_equal(ibv_start_poll(ex, &attr), 0);
	assert_int_equal(atomic_load(&cq->lock.v), 1);
	assert_int_equal(ex->status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ex->wr_id, sample.wr_id);
	assert_int_equal(ibv_wc_read_opcode(ex), IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(ibv_wc_read_vendor_err(ex), FF_VERR_RKEY);
	assert_int_equal(ibv_wc_read_byte_len(ex), 4096);
	assert_int_equal(ibv_wc_read_imm_data(ex), 0x01020304);
	assert_int_equal(ibv_wc_read_qp_num(ex), 0x654321);
	assert_int_equal(ibv_wc_read_src_qp(ex), 0x123456);
	assert_int_equal(ibv_wc_read_wc_flags(ex), IBV_WC_GRH | IBV_WC_WITH_IMM);
	assert_int_equal(ibv_wc_read_slid(ex), 0x1111);
	assert_int_equal(ibv_wc_read_sl(ex), 3);
	assert_int_equal(ibv_wc_read_dlid_path_bits(ex), 5);
	assert_int_equal(ibv_wc_read_completion_ts(ex), cqe.timestamp);
	assert_true(ibv_wc_read_completion_wallclock_ns(ex) / 1000000000u + 2 -
			    (uint64_t)real.tv_sec <=
		    4);
	assert_int_equal(ibv_wc_read_cvlan(ex), 0);
	assert_int_equal(ibv_wc_read_flow_tag(ex), 0);
	assert_int_equal(ci(cq), 0); /* the entry is still in use */
	ibv_end_poll(ex);
	assert_int_equal(ci(cq), 1);
	assert_int_equal(atomic_load(&cq->lock.v), 0);
	ibv_destroy_cq(&cq->cq);
}

static void next_poll(void **state)
{
	struct ibv_cq_ex *ex = make_ex(IBV_WC_STANDARD_FLAGS, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	struct ffl_cq *cq = to_cq(ibv_cq_ex_to_cq(ex));
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_wc wc;
	uint32_t in = 0, out = 0;
	bool found;
	int err;

	(void)state;
	for (int round = 0; round < 50; round++) {
		uint32_t n = round % 8 + 1;

		for (uint32_t k = 0; k < n; k++, in++)
			put(cq, in, in % 5 ? 1 : 2);
		ffl_cq_clean(cq, 2);
		err = ibv_start_poll(ex, &attr);
		assert_int_equal(atomic_load(&cq->lock.v), 0); /* not taken */
		found = !err;
		for (; out != in; out++) {
			if (out % 5 == 0)
				continue;
			assert_int_equal(err, 0);
			assert_int_equal(ex->wr_id, out);
			err = ibv_next_poll(ex);
		}
		assert_int_equal(err, ENOENT);
		if (found)
			ibv_end_poll(ex);
		assert_int_equal(ci(cq), out);
	}
	/* both ways of polling see one ring */
	put(cq, in, 1);
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, in);
	ffl_mark_dead(fake.ctx);
	assert_int_equal(ibv_start_poll(ex, &attr), EIO);
	ibv_destroy_cq(&cq->cq);
	fake.live = 0;
}

/* ---- events ---------------------------------------------------------------------------------------------- */

static void arming(void **state)
{
	struct ffl_cq *cq = fake_cq(4);

	(void)state;
	assert_int_equal(ibv_req_notify_cq(&cq->cq, 1), 0);
	assert_int_equal(atomic_load(&cq->hdr->arm), FF_CQ_ARM_SOLICITED);
	assert_int_equal(ibv_req_notify_cq(&cq->cq, 0), 0);
	assert_int_equal(atomic_load(&cq->hdr->arm), FF_CQ_ARM_ANY);
	/* any is more than solicited */
	assert_int_equal(ibv_req_notify_cq(&cq->cq, 1), 0);
	assert_int_equal(atomic_load(&cq->hdr->arm), FF_CQ_ARM_ANY);
	ibv_destroy_cq(&cq->cq);
}

static void send_event(uint32_t cq)
{
	struct ff_comp_event ev = { .cq = cq };

	assert_int_equal(write(fake.channel_fd, &ev, sizeof(ev)), sizeof(ev));
}

static void *destroy_thread(void *cq)
{
	return (void *)(intptr_t)ibv_destroy_cq(cq);
}

static void events(void **state)
{
	struct ibv_context *ctx = &fake.ctx->v.context;
	struct ibv_comp_channel *ch = ibv_create_comp_channel(ctx);
	int c1, c2;
	struct ibv_cq *a = ibv_create_cq(ctx, 4, &c1, ch, 0),
		      *b = ibv_create_cq(ctx, 4, &c2, ch, 0);
	struct ibv_cq *got;
	void *cookie, *ret;
	pthread_t t;
	uint32_t gone = a->handle + 0x10000; /* its slot, another generation */

	(void)state;
	assert_int_equal(fcntl(ch->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(ibv_get_cq_event(ch, &got, &cookie), -1);
	assert_int_equal(errno, EAGAIN);
	send_event(gone);
	assert_int_equal(ibv_get_cq_event(ch, &got, &cookie), -1);
	assert_int_equal(errno, EAGAIN);
	send_event(gone);
	send_event(a->handle);
	send_event(b->handle);
	send_event(a->handle);
	assert_int_equal(ibv_get_cq_event(ch, &got, &cookie), 0);
	assert_ptr_equal(got, a);
	assert_ptr_equal(cookie, &c1);
	assert_int_equal(ibv_get_cq_event(ch, &got, &cookie), 0);
	assert_ptr_equal(got, b);
	assert_ptr_equal(cookie, &c2);

	/* an event that nobody asked for yet does not hold up destruction, and is dropped */
	ibv_ack_cq_events(a, 1);
	assert_int_equal(ibv_destroy_cq(a), 0);
	assert_int_equal(ibv_get_cq_event(ch, &got, &cookie), -1);
	assert_int_equal(errno, EAGAIN);

	/* one that was returned does, until it is acknowledged */
	assert_int_equal(pthread_create(&t, NULL, destroy_thread, b), 0);
	while (fake.live > 1)
		usleep(0);
	assert_int_equal(pthread_tryjoin_np(t, &ret), EBUSY);
	ibv_ack_cq_events(b, 1);
	pthread_join(t, &ret);
	assert_null(ret);

	/* lazily posted WRs are announced before the program sleeps here */
	atomic_store(&fake.ctx->lazy_qp, 0x7);
	assert_int_equal(ibv_get_cq_event(ch, &got, &cookie), -1);
	assert_true(fake_take_dirty(0x7));

	/* EOF */
	close(fake.channel_fd);
	assert_int_equal(ibv_get_cq_event(ch, &got, &cookie), -1);
	assert_int_equal(errno, EIO);
	assert_true(atomic_load(&fake.ctx->dead));
	assert_int_equal(ibv_destroy_comp_channel(ch), 0);
	fake.live = 0;
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, fake_setup, fake_teardown)
	const struct CMUnitTest tests[] = {
		T(fields),
		T(wc_flags),
		T(phases_over_laps),
		T(idle_poller),
		T(poller_moves),
		T(dead_router),
		T(clean),
		T(clean_on_destroy_and_reset),
		T(create),
		T(create_unwinds),
		T(create_ex),
		T(moderate),
		T(resize),
		T(readers),
		T(next_poll),
		T(arming),
		T(events),
	};

	return cmocka_run_group_tests_name("ffl_cq", tests, NULL, NULL);
}
