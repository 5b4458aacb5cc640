/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_post_ex.c - ffl/verbs/post_ex.c: ibv_wr_*. What it builds is compared with what ibv_post_send
 * builds of the same WR.
 *
 * build: tests/rig/fakes/fake_ffl.c ffl/session/bell.c ffl/verbs/post.c ffl/verbs/post_ex.c ffl/verbs/qp.c ffl/verbs/cq.c ffl/verbs/gone.c ffl/verbs/cq_ex.c ffl/verbs/srq.c ffl/verbs/channel.c ffl/verbs/home.c ffl/session/table.c ffl/verbs/async.c ffl/verbs/domain.c ffl/verbs/xrc.c
 */
#include <string.h>

#include "ffr/abi/ff_verbs.h"
#include "ffl/session/ffl.h"
#include "tests/rig/fakes/fake_ffl.h"
#include "tests/rig/unit/unit.h"

struct pair {
	struct ffl_cq *cq;
	struct ffl_qp *old, *new;
	struct ibv_qp_ex *ex;
};

static struct pair make(enum ibv_qp_type type)
{
	struct pair p = { .cq = fake_cq(16) };

	p.old = fake_qp(type, p.cq, 8, 3, 64, false);
	p.new = fake_qp_ex(type, p.cq, 8, 3, 64);
	p.ex = ibv_qp_to_qp_ex(&p.new->qp);
	assert_non_null(p.ex);
	assert_null(ibv_qp_to_qp_ex(&p.old->qp));
	return p;
}

static void done(struct pair *p)
{
	ibv_destroy_qp(&p->old->qp);
	ibv_destroy_qp(&p->new->qp);
	ibv_destroy_cq(&p->cq->cq);
}

/* Post wr the old way and compare the newest entries of both rings, but for the CPU. */
static void same(struct pair *p, struct ibv_send_wr *wr)
{
	uint32_t i = p->new->sq_tail - 1;
	struct ibv_send_wr *bad;
	struct ff_sqe *a, *b;

	assert_int_equal(ibv_post_send(&p->old->qp, wr, &bad), 0);
	a = (struct ff_sqe *)fake_sqe(p->old, i);
	b = (struct ff_sqe *)fake_sqe(p->new, i);
	assert_non_null(a);
	assert_non_null(b);
	a->cpu = b->cpu = 0;
	assert_memory_equal(a, b, p->old->sq_stride);
}

static struct ibv_sge sge[3] = { { 0x1000, 8, 11 }, { 0x2000, 16, 12 }, { 0x3000, 4, 13 } };

static void rc_ops(void **state)
{
	struct pair p = make(IBV_QPT_RC);
	struct ibv_send_wr wr = { .wr_id = 42,
				  .send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED,
				  .sg_list = sge };

	(void)state;
	p.ex->wr_id = 42;
	p.ex->wr_flags = wr.send_flags;

	ibv_wr_start(p.ex);
	ibv_wr_send(p.ex);
	ibv_wr_set_sge(p.ex, 11, 0x1000, 8);
	assert_int_equal(ibv_wr_complete(p.ex), 0);
	wr.opcode = IBV_WR_SEND;
	wr.num_sge = 1;
	same(&p, &wr);

	ibv_wr_start(p.ex);
	ibv_wr_send_imm(p.ex, 0x55aa);
	ibv_wr_set_sge_list(p.ex, 3, sge);
	assert_int_equal(ibv_wr_complete(p.ex), 0);
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	wr.num_sge = 3;
	wr.imm_data = 0x55aa;
	same(&p, &wr);
	wr.imm_data = 0;

	ibv_wr_start(p.ex);
	ibv_wr_rdma_write(p.ex, 0x77, 0xbeef);
	ibv_wr_set_sge_list(p.ex, 2, sge);
	assert_int_equal(ibv_wr_complete(p.ex), 0);
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.num_sge = 2;
	wr.wr.rdma.remote_addr = 0xbeef;
	wr.wr.rdma.rkey = 0x77;
	same(&p, &wr);

	ibv_wr_start(p.ex);
	ibv_wr_rdma_write_imm(p.ex, 0x77, 0xbeef, 0x1234);
	assert_int_equal(ibv_wr_complete(p.ex), 0);
	wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr.num_sge = 0;
	wr.imm_data = 0x1234;
	same(&p, &wr);
	wr.imm_data = 0;

	ibv_wr_start(p.ex);
	ibv_wr_rdma_read(p.ex, 0x77, 0xbeef);
	ibv_wr_set_sge(p.ex, 11, 0x1000, 8);
	assert_int_equal(ibv_wr_complete(p.ex), 0);
	wr.opcode = IBV_WR_RDMA_READ;
	wr.num_sge = 1;
	same(&p, &wr);

	ibv_wr_start(p.ex);
	ibv_wr_atomic_cmp_swp(p.ex, 0x77, 0xbef0, 1, 2);
	ibv_wr_set_sge(p.ex, 11, 0x1000, 8);
	assert_int_equal(ibv_wr_complete(p.ex), 0);
	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	wr.wr.atomic.remote_addr = 0xbef0;
	wr.wr.atomic.compare_add = 1;
	wr.wr.atomic.swap = 2;
	wr.wr.atomic.rkey = 0x77;
	same(&p, &wr);

	ibv_wr_start(p.ex);
	ibv_wr_atomic_fetch_add(p.ex, 0x77, 0xbef0, 5);
	ibv_wr_set_sge(p.ex, 11, 0x1000, 8);
	assert_int_equal(ibv_wr_complete(p.ex), 0);
	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr.wr.atomic.compare_add = 5;
	wr.wr.atomic.swap = 0;
	same(&p, &wr);
	done(&p);
}

static void inline_data(void **state)
{
	struct pair p = make(IBV_QPT_UC);
	char a[40], b[25];
	struct ibv_data_buf buf[] = { { a, 40 }, { b, 24 } };
	struct ibv_sge sg[] = { { (uintptr_t)a, 40, 0 }, { (uintptr_t)b, 24, 0 } };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE, .sg_list = sg, .num_sge = 2
	};

	(void)state;
	memset(a, 'a', sizeof(a));
	memset(b, 'b', sizeof(b));
	p.ex->wr_id = 0;
	p.ex->wr_flags = 0;
	ibv_wr_start(p.ex);
	ibv_wr_send(p.ex);
	ibv_wr_set_inline_data_list(p.ex, 2, buf);
	assert_int_equal(ibv_wr_complete(p.ex), 0);
	same(&p, &wr);

	ibv_wr_start(p.ex);
	ibv_wr_rdma_write(p.ex, 1, 2);
	ibv_wr_set_inline_data(p.ex, b, 24);
	assert_int_equal(ibv_wr_complete(p.ex), 0);
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.sg_list = &sg[1];
	wr.num_sge = 1;
	wr.wr.rdma.remote_addr = 2;
	wr.wr.rdma.rkey = 1;
	same(&p, &wr);

	buf[1].length = 25;
	ibv_wr_start(p.ex);
	ibv_wr_send(p.ex);
	ibv_wr_set_inline_data_list(p.ex, 2, buf);
	assert_int_equal(ibv_wr_complete(p.ex), EINVAL);
	buf[1].length = SIZE_MAX; /* the sum overflows */
	ibv_wr_start(p.ex);
	ibv_wr_send(p.ex);
	ibv_wr_set_inline_data_list(p.ex, 2, buf);
	assert_int_equal(ibv_wr_complete(p.ex), EINVAL);
	assert_null(fake_sqe(p.new, 2));
	done(&p);
}

static void inline_only_out(void **state)
{
	struct pair p = make(IBV_QPT_RC);
	char c = 1;

	(void)state;
	ibv_wr_start(p.ex);
	ibv_wr_rdma_read(p.ex, 1, 2);
	ibv_wr_set_inline_data(p.ex, &c, 1);
	assert_int_equal(ibv_wr_complete(p.ex), EINVAL);
	ibv_wr_start(p.ex);
	ibv_wr_atomic_fetch_add(p.ex, 1, 2, 3);
	ibv_wr_set_inline_data(p.ex, &c, 1);
	assert_int_equal(ibv_wr_complete(p.ex), EINVAL);
	done(&p);
}

static void ud(void **state)
{
	struct pair p = make(IBV_QPT_UD);
	struct ffl_ah ah = { .ctx = fake.ctx, .handle = 0x999 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND_WITH_IMM,
				  .imm_data = 3,
				  .sg_list = sge,
				  .num_sge = 1,
				  .wr.ud = { &ah.ibv, 0x123, 0x456 } };

	(void)state;
	p.ex->wr_id = 0;
	p.ex->wr_flags = 0;
	ibv_wr_start(p.ex);
	ibv_wr_send_imm(p.ex, 3);
	ibv_wr_set_sge(p.ex, 11, 0x1000, 8);
	ibv_wr_set_ud_addr(p.ex, &ah.ibv, 0x123, 0x456);
	assert_int_equal(ibv_wr_complete(p.ex), 0);
	same(&p, &wr);

	ah.ctx = NULL; /* of another session */
	ibv_wr_start(p.ex);
	ibv_wr_send(p.ex);
	ibv_wr_set_ud_addr(p.ex, &ah.ibv, 0x123, 0x456);
	assert_int_equal(ibv_wr_complete(p.ex), EINVAL);

	/* an address left over in the slot from the lap before is not used again */
	for (uint32_t i = 1; i < 9; i++) {
		ibv_wr_start(p.ex);
		ibv_wr_send(p.ex);
		assert_int_equal(ibv_wr_complete(p.ex), 0);
		assert_int_equal(fake_sqe(p.new, i)->ud.ah, 0);
		assert_int_equal(fake_sqe(p.new, i)->num_sge, 0);
		atomic_store(&p.new->hdr->sq_done, i);
	}
	done(&p);
}

/* Nothing is valid before complete, then all of it is, with one doorbell. */
static void batch(void **state)
{
	struct pair p = make(IBV_QPT_RC);

	(void)state;
	atomic_store(&p.new->hdr->evt, 2);
	atomic_store(&p.new->hdr->need, 1);
	atomic_store(&fake.ctx->hdr->need_wakeup, 1);
	ibv_wr_start(p.ex);
	for (uint32_t i = 0; i < 3; i++) {
		p.ex->wr_id = i;
		p.ex->wr_flags = i == 2 ? IBV_SEND_SIGNALED | IBV_SEND_FENCE : 0;
		ibv_wr_rdma_write(p.ex, 1, i);
		ibv_wr_set_sge(p.ex, 11, 0x1000, 8);
	}
	for (uint32_t i = 0; i < 3; i++)
		assert_null(fake_sqe(p.new, i));
	assert_int_equal(fake_bells(), 0);
	assert_int_equal(ibv_wr_complete(p.ex), 0);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(fake_sqe(p.new, i)->wr_id, i);
	assert_int_equal(fake_sqe(p.new, 1)->flags, 0);
	assert_int_equal(fake_sqe(p.new, 2)->flags, FF_SQE_SIGNALED | FF_SQE_FENCE);
	assert_null(fake_sqe(p.new, 3));
	assert_true(fake_take_dirty(p.new->handle));
	assert_int_equal(fake_bells(), 1);
	done(&p);
}

static void abort_posts_nothing(void **state)
{
	struct pair p = make(IBV_QPT_RC);

	(void)state;
	ibv_wr_start(p.ex);
	p.ex->wr_id = 1;
	ibv_wr_send(p.ex);
	ibv_wr_send(p.ex);
	ibv_wr_abort(p.ex);
	assert_null(fake_sqe(p.new, 0));
	assert_int_equal(atomic_load(&p.new->sq_lock.v), 0);
	ibv_wr_start(p.ex);
	p.ex->wr_id = 2;
	ibv_wr_send(p.ex);
	assert_int_equal(ibv_wr_complete(p.ex), 0);
	assert_int_equal(fake_sqe(p.new, 0)->wr_id, 2);
	assert_null(fake_sqe(p.new, 1));

	ibv_wr_start(p.ex); /* nothing at all */
	assert_int_equal(ibv_wr_complete(p.ex), 0);
	assert_int_equal(p.new->sq_tail, 1);
	done(&p);
}

/* The first error is kept, the rest of the batch does nothing, none of it is posted. */
static void errors(void **state)
{
	struct pair p = make(IBV_QPT_RC);
	struct ibv_sge four[4] = { 0 };

	(void)state;
	ibv_wr_start(p.ex);
	ibv_wr_send(p.ex);
	ibv_wr_set_sge_list(p.ex, 4, four);
	ibv_wr_send(p.ex);
	ibv_wr_local_inv(p.ex, 1);
	assert_int_equal(ibv_wr_complete(p.ex), EINVAL);
	assert_int_equal(atomic_load(&p.new->sq_lock.v), 0);
	assert_null(fake_sqe(p.new, 0));
	assert_int_equal(p.new->sq_tail, 0);

	ibv_wr_start(p.ex);
	for (int i = 0; i < 9; i++) {
		ibv_wr_send(p.ex);
		ibv_wr_set_sge(p.ex, 1, 2, 3);
	}
	assert_int_equal(ibv_wr_complete(p.ex), ENOMEM);
	assert_null(fake_sqe(p.new, 0));

	p.new->qp.state = IBV_QPS_RTR;
	ibv_wr_start(p.ex);
	ibv_wr_send(p.ex);
	assert_int_equal(ibv_wr_complete(p.ex), EINVAL);
	p.new->qp.state = IBV_QPS_ERR;
	ibv_wr_start(p.ex);
	ibv_wr_send(p.ex);
	assert_int_equal(ibv_wr_complete(p.ex), 0);

	ffl_mark_dead(fake.ctx);
	ibv_wr_start(p.ex);
	ibv_wr_send(p.ex);
	assert_int_equal(ibv_wr_complete(p.ex), 0);
	fake.ctx->pid++; /* a child */
	ibv_wr_start(p.ex);
	ibv_wr_send(p.ex);
	assert_int_equal(ibv_wr_complete(p.ex), EIO);
	fake.ctx->pid--;
	done(&p);
	fake.live = 0;
}

typedef void (*flush_fn)(struct ibv_qp_ex *, uint32_t, uint64_t, size_t, uint8_t, uint8_t);

/* At the place where headers of v64 have it. */
static flush_fn flush_of(const struct pair *p)
{
	flush_fn fn;

	memcpy(&fn, p->new->room + FFL_QP_EX_SZ - sizeof(fn), sizeof(fn));
	return fn;
}

static void flush_one(struct pair *p, size_t len, uint8_t types, uint8_t level)
{
	ibv_wr_start(p->ex);
	flush_of(p)(p->ex, 0x77, 0xbeef, len, types, level);
}

static void flushes(void **state)
{
	enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_XRC_SEND };
	const struct ff_sqe *e;

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct pair p = make(types[i]);

		p.ex->wr_id = 42;
		p.ex->wr_flags = IBV_SEND_FENCE;
		flush_one(&p, UINT32_MAX, FF_FLUSH_GLOBAL, FF_FLUSH_RANGE);
		if (i)
			ibv_wr_set_xrc_srqn(p.ex, 6);
		flush_of (&p)(p.ex, 0x78, 0xcafe, SIZE_MAX, FF_FLUSH_TYPES, FF_FLUSH_MR);
		if (i)
			ibv_wr_set_xrc_srqn(p.ex, 7);
		assert_int_equal(ibv_wr_complete(p.ex), 0);
		e = fake_sqe(p.new, 0);
		assert_int_equal(e->opcode, FF_OP_FLUSH);
		assert_int_equal(e->flags, FF_SQE_FENCE);
		assert_int_equal(e->num_sge, 0);
		assert_int_equal(e->wr_id, 42);
		assert_int_equal(e->rkey, 0x77);
		assert_int_equal(e->remote_addr, 0xbeef);
		assert_int_equal(e->flush.length, UINT32_MAX);
		assert_int_equal(e->flush.types, FF_FLUSH_GLOBAL);
		assert_int_equal(e->flush.level, FF_FLUSH_RANGE);
		if (i)
			assert_int_equal(e->imm, 6);
		e = fake_sqe(p.new, 1);
		assert_int_equal(e->rkey, 0x78);
		assert_int_equal(e->flush.length, 0); /* means nothing */
		assert_int_equal(e->flush.types, FF_FLUSH_TYPES);
		assert_int_equal(e->flush.level, FF_FLUSH_MR);
		if (i)
			assert_int_equal(e->imm, 7);

		flush_one(&p, 1, 0, FF_FLUSH_RANGE);
		assert_int_equal(ibv_wr_complete(p.ex), EINVAL);
		flush_one(&p, 1, 5, FF_FLUSH_RANGE);
		assert_int_equal(ibv_wr_complete(p.ex), EINVAL);
		flush_one(&p, 1, FF_FLUSH_GLOBAL, 2);
		assert_int_equal(ibv_wr_complete(p.ex), EINVAL);
		flush_one(&p, 1ull << 32, FF_FLUSH_GLOBAL, FF_FLUSH_RANGE);
		assert_int_equal(ibv_wr_complete(p.ex), EINVAL);
		flush_one(&p, 1, FF_FLUSH_GLOBAL, FF_FLUSH_RANGE);
		ibv_wr_set_sge(p.ex, 11, 0x1000, 8); /* it takes no data */
		assert_int_equal(ibv_wr_complete(p.ex), EINVAL);
		flush_one(&p, 1, FF_FLUSH_GLOBAL, FF_FLUSH_RANGE);
		ibv_wr_set_sge_list(p.ex, 1, sge);
		assert_int_equal(ibv_wr_complete(p.ex), EINVAL);
		flush_one(&p, 1, FF_FLUSH_GLOBAL, FF_FLUSH_RANGE);
		ibv_wr_set_inline_data(p.ex, "x", 1);
		assert_int_equal(ibv_wr_complete(p.ex), EINVAL);
		assert_int_equal(p.new->sq_tail, 2);
		done(&p);
	}
}

static void atomic_write(void **state)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_ATOMIC_WRITE,
				  .num_sge = 1,
				  .wr_id = 42,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { .remote_addr = 0xbef0, .rkey = 0x77 } };
	struct pair p = make(IBV_QPT_RC);
	uint64_t word = 0x0102030405060708ull;
	struct ibv_sge at = { (uintptr_t)&word, 8, 0 };

	(void)state;
	wr.sg_list = &at;
	p.ex->wr_id = 42;
	p.ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(p.ex);
	ibv_wr_atomic_write(p.ex, 0x77, 0xbef0, &word);
	assert_int_equal(ibv_wr_complete(p.ex), 0);
	same(&p, &wr);
	ibv_wr_start(p.ex);
	ibv_wr_atomic_write(p.ex, 0x77, 0xbef0, &word);
	ibv_wr_set_sge(p.ex, 11, 0x1000, 8);
	assert_int_equal(ibv_wr_complete(p.ex), EINVAL);
	done(&p);
}

static void unsupported(void **state)
{
	struct pair p = make(IBV_QPT_UD);
	struct ibv_mw_bind_info info = { 0 };
	uint64_t word = 0;

	(void)state;
#define REFUSED(call)                                                                              \
	do {                                                                                       \
		ibv_wr_start(p.ex);                                                                \
		call;                                                                              \
		assert_int_equal(ibv_wr_complete(p.ex), EOPNOTSUPP);                               \
	} while (0)
	REFUSED(ibv_wr_local_inv(p.ex, 1));
	REFUSED(ibv_wr_bind_mw(p.ex, NULL, 1, &info));
	REFUSED(ibv_wr_send_inv(p.ex, 1));
	REFUSED(ibv_wr_send_tso(p.ex, &word, 1, 1));
	REFUSED(ibv_wr_atomic_write(p.ex, 1, 2, &word));
	REFUSED(flush_of(&p)(p.ex, 1, 2, 3, 1, 0));
	REFUSED(ibv_wr_rdma_write(p.ex, 1, 2));
	REFUSED(ibv_wr_rdma_write_imm(p.ex, 1, 2, 3));
	REFUSED(ibv_wr_rdma_read(p.ex, 1, 2));
	REFUSED(ibv_wr_atomic_cmp_swp(p.ex, 1, 2, 3, 4));
	REFUSED(ibv_wr_atomic_fetch_add(p.ex, 1, 2, 3));
	REFUSED((ibv_wr_send(p.ex), ibv_wr_set_xrc_srqn(p.ex, 1)));
	assert_int_equal(p.new->sq_tail, 0);
	done(&p);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, fake_setup, fake_teardown)
	return UNIT_RUN(T(rc_ops), T(inline_data), T(inline_only_out), T(ud), T(batch),
			T(abort_posts_nothing), T(errors), T(flushes), T(atomic_write),
			T(unsupported));
}
