/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/fakes/fake_ffl.c ffl/session/bell.c ffl/verbs/post.c ffl/verbs/post_ex.c ffl/verbs/qp.c ffl/verbs/cq.c ffl/verbs/gone.c ffl/verbs/cq_ex.c ffl/verbs/srq.c ffl/verbs/channel.c ffl/verbs/home.c ffl/session/table.c ffl/verbs/async.c ffl/verbs/domain.c ffl/verbs/xrc.c */
/* threads: yes */
/*
 * test_cq_ex.c - ffl/verbs/cq_ex.c: CQs that are read field by field.
 */
#include <time.h>

#include "ffl/session/ffl.h"
#include "tests/rig/fakes/fake_ffl.h"
#include "tests/rig/unit/unit.h"

/* ---- create, resize --------------------------------------------------------------------------------- */

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
	struct ff_cqe cqe = fake_sample;
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
	assert_int_equal(ex->wr_id, fake_sample.wr_id);
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
	assert_int_equal(fake_ci(cq), 0); /* the entry is still in use */
	ibv_end_poll(ex);
	assert_int_equal(fake_ci(cq), 1);
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
	struct ffl_qp qp = { 0 };
	bool found;
	int err;

	(void)state;
	for (int round = 0; round < 50; round++) {
		uint32_t n = round % 8 + 1;

		for (uint32_t k = 0; k < n; k++, in++)
			fake_cqe(cq, in,
				 &(struct ff_cqe){ .wr_id = in,
						   .qp = in % 5 ? 1 : 2,
						   .qp_num = 3,
						   .user = (uintptr_t)&qp });
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
		assert_int_equal(fake_ci(cq), out);
	}
	/* both ways of polling see one ring */
	fake_put(cq, in, 1);
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, in);
	ffl_mark_dead(fake.ctx);
	assert_int_equal(ibv_start_poll(ex, &attr), ENOENT);
	ibv_destroy_cq(&cq->cq);
	fake.live = 0;
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, fake_setup, fake_teardown)
	return UNIT_RUN(T(create_ex), T(readers), T(next_poll));
}
