/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_mw.c - ffl/verbs/mw.c, and what post.c and post_ex.c do for memory windows: entries of the send
 * ring, the next rkey, immediate errors.
 *
 * build: tests/rig/fakes/fake_ffl.c ffl/verbs/mw.c ffl/session/posted.c ffl/session/bell.c ffl/verbs/post.c ffl/verbs/post_ex.c ffl/verbs/qp.c ffl/verbs/cq.c ffl/verbs/gone.c ffl/verbs/cq_ex.c ffl/verbs/srq.c ffl/verbs/channel.c ffl/verbs/home.c ffl/session/table.c ffl/verbs/async.c ffl/verbs/domain.c ffl/verbs/xrc.c
 */
#include <string.h>

#include "tests/rig/unit/unit.h"
#include "ffl/verbs/post.h"
#include "tests/rig/fakes/fake_ffl.h"

static struct ffl_mr mr = { .ibv = { .lkey = 0x77, .length = 4096 } };

static struct ibv_mw *new_mw(enum ibv_mw_type type)
{
	struct ibv_mw *mw;

	mr.ctx = fake.ctx;
	mr.ibv.pd = fake.pd;
	mw = ffl_alloc_mw(fake.pd, type);
	assert_non_null(mw);
	return mw;
}

static void free_all(struct ibv_mw *mw, struct ffl_qp *qp, struct ffl_cq *cq)
{
	assert_int_equal(ffl_dealloc_mw(mw), 0);
	assert_int_equal(ibv_destroy_qp(&qp->qp), 0);
	assert_int_equal(ibv_destroy_cq(&cq->cq), 0);
}

static void life(void **state)
{
	uint32_t refs = atomic_load(&to_pd(fake.pd)->refs);
	struct ibv_mw *mw;

	(void)state;
	mw = new_mw(IBV_MW_TYPE_2);
	assert_int_equal(mw->rkey, 0x123456fe);
	assert_int_equal(mw->type, IBV_MW_TYPE_2);
	assert_ptr_equal(mw->pd, fake.pd);
	assert_int_equal(atomic_load(&to_pd(fake.pd)->refs), refs + 1);
	fake.fail[FF_MSG_DEALLOC_MW] = -EINVAL;
	assert_int_equal(ffl_dealloc_mw(mw), EINVAL);
	fake.fail[FF_MSG_DEALLOC_MW] = 0;
	assert_int_equal(ffl_dealloc_mw(mw), 0);
	assert_int_equal(atomic_load(&to_pd(fake.pd)->refs), refs);
	fake.fail[FF_MSG_ALLOC_MW] = -ENOMEM;
	errno = 0;
	assert_null(ffl_alloc_mw(fake.pd, IBV_MW_TYPE_1));
	assert_int_equal(errno, ENOMEM);
}

static void bind_type1(void **state)
{
	struct ffl_cq *cq = fake_cq(16);
	struct ffl_qp *qp = fake_qp(IBV_QPT_RC, cq, 2, 1, 0, false);
	struct ibv_mw *mw = new_mw(IBV_MW_TYPE_1);
	struct ibv_mw_bind b = { .wr_id = 5,
				 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE,
				 .bind_info = { &mr.ibv, 0x1122334455667788, 0x900000000,
						IBV_ACCESS_REMOTE_READ } };
	const struct ff_sqe *e;

	(void)state;
	assert_int_equal(ffl_bind_mw(&qp->qp, mw, &b), 0);
	assert_int_equal(mw->rkey, 0x123456ff);
	e = fake_sqe(qp, 0);
	assert_non_null(e);
	assert_int_equal(e->opcode, FF_OP_BIND_MW);
	assert_int_equal(e->flags, FF_SQE_SIGNALED | FF_SQE_FENCE);
	assert_int_equal(e->num_sge, 0);
	assert_int_equal(e->wr_id, 5);
	assert_int_equal(e->remote_addr, 0x1122334455667788);
	assert_int_equal(e->rkey & 0xff, 0xff);
	assert_int_equal(e->imm, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(e->bind.length, 0x900000000);
	assert_int_equal(e->bind.mw, mw->handle);
	assert_int_equal(e->bind.lkey, 0x77);
	b.bind_info = (struct ibv_mw_bind_info){ 0 };
	assert_int_equal(ffl_bind_mw(&qp->qp, mw, &b), 0);
	assert_int_equal(mw->rkey, 0x12345600); /* the low byte comes around */
	assert_int_equal(fake_sqe(qp, 1)->bind.length, 0);
	/* full: nothing has changed */
	assert_int_equal(ffl_bind_mw(&qp->qp, mw, &b), ENOMEM);
	assert_int_equal(mw->rkey, 0x12345600);
	assert_int_equal(qp->sq_tail, 2);
	free_all(mw, qp, cq);
}

static void bind_type1_refused(void **state)
{
	struct ffl_cq *cq = fake_cq(16);
	struct ffl_qp *qp = fake_qp(IBV_QPT_RC, cq, 4, 1, 0, false);
	struct ffl_qp *ud = fake_qp(IBV_QPT_UD, cq, 4, 1, 0, false);
	struct ibv_mw *mw = new_mw(IBV_MW_TYPE_1);
	struct ibv_mw_bind good = { .bind_info = { &mr.ibv, 0, 64, IBV_ACCESS_REMOTE_READ } }, b;

	(void)state;
#define REFUSED(q, err)                                                                            \
	do {                                                                                       \
		assert_int_equal(ffl_bind_mw(&(q)->qp, mw, &b), err);                              \
		assert_int_equal(mw->rkey, 0x123456fe);                                            \
		assert_int_equal((q)->sq_tail, 0);                                                 \
		b = good;                                                                          \
	} while (0)
	b = good;
	REFUSED(ud, EINVAL);
	b.send_flags = IBV_SEND_INLINE;
	REFUSED(qp, EINVAL);
	b.bind_info.mw_access_flags = IBV_ACCESS_ZERO_BASED;
	REFUSED(qp, EINVAL);
	b.bind_info.mr = NULL;
	REFUSED(qp, EINVAL);
	mr.foreign = true;
	REFUSED(qp, EOPNOTSUPP);
	mr.foreign = false;
	mr.ctx = NULL;
	REFUSED(qp, EINVAL);
	mr.ctx = fake.ctx;
	qp->qp.state = IBV_QPS_INIT;
	REFUSED(qp, EINVAL);
	qp->qp.state = IBV_QPS_RTS;
	fake.ctx->dead = true;
	REFUSED(qp, EIO);
	fake.ctx->dead = false;
#undef REFUSED
	assert_int_equal(ibv_destroy_qp(&ud->qp), 0);
	free_all(mw, qp, cq);
}

static int post(struct ffl_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return ffl_post_send(&qp->qp, wr, &bad);
}

static void post_send(void **state)
{
	struct ffl_cq *cq = fake_cq(16);
	struct ffl_qp *qp = fake_qp(IBV_QPT_RC, cq, 8, 2, 16, false);
	struct ffl_qp *uc = fake_qp(IBV_QPT_UC, cq, 8, 2, 16, false);
	struct ibv_mw *mw = new_mw(IBV_MW_TYPE_2), *one = new_mw(IBV_MW_TYPE_1);
	struct ibv_sge sge[2] = { { 0x1000, 8, 11 }, { 0x2000, 16, 12 } };
	struct ibv_send_wr wr = {
		.wr_id = 6,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = sge,
		.num_sge = 2, /* means nothing */
		.bind_mw = { mw, 0x42, { &mr.ibv, 0x5000, 64, IBV_ACCESS_REMOTE_WRITE } },
	};
	const struct ff_sqe *e;

	(void)state;
	assert_int_equal(post(qp, &wr), 0);
	e = fake_sqe(qp, 0);
	assert_int_equal(e->opcode, FF_OP_BIND_MW);
	assert_int_equal(e->num_sge, 0);
	assert_int_equal(e->rkey, 0x42);
	assert_int_equal(e->remote_addr, 0x5000);
	assert_int_equal(e->bind.length, 64);
	assert_int_equal(e->bind.mw, mw->handle);
	assert_int_equal(mw->rkey, 0x123456fe); /* the program's to keep */
	assert_int_equal(post(uc, &wr), 0);
	wr.bind_mw.mw = one;
	assert_int_equal(post(qp, &wr), EINVAL);
	wr.bind_mw.mw = NULL;
	assert_int_equal(post(qp, &wr), EINVAL);

	wr = (struct ibv_send_wr){ .wr_id = 7,
				   .opcode = IBV_WR_LOCAL_INV,
				   .sg_list = sge,
				   .num_sge = 2,
				   .invalidate_rkey = 0xabcd };
	assert_int_equal(post(qp, &wr), 0);
	e = fake_sqe(qp, 1);
	assert_int_equal(e->opcode, FF_OP_LOCAL_INV);
	assert_int_equal(e->num_sge, 0);
	assert_int_equal(e->imm, 0xabcd);
	assert_int_equal(e->flags, 0);
	assert_int_equal(post(uc, &wr), 0);

	wr.opcode = IBV_WR_SEND_WITH_INV;
	assert_int_equal(post(qp, &wr), 0);
	e = fake_sqe(qp, 2);
	assert_int_equal(e->opcode, FF_OP_SEND_INV);
	assert_int_equal(e->num_sge, 2);
	assert_int_equal(e->imm, 0xabcd);
	assert_memory_equal(e->sge, sge, sizeof(sge));
	assert_int_equal(post(uc, &wr), EINVAL);
	wr.num_sge = 3;
	assert_int_equal(post(qp, &wr), EINVAL);
	wr.num_sge = -1;
	assert_int_equal(post(qp, &wr), EINVAL);
	sge[0] = (struct ibv_sge){ (uintptr_t) "hello", 5, 0 };
	wr.num_sge = 1;
	wr.send_flags = IBV_SEND_INLINE;
	assert_int_equal(post(qp, &wr), 0);
	e = fake_sqe(qp, 3);
	assert_int_equal(e->flags, FF_SQE_INLINE);
	assert_int_equal(e->num_sge, 5);
	assert_memory_equal(e->inl, "hello", 5);
	wr.send_flags = IBV_SEND_IP_CSUM;
	assert_int_equal(post(qp, &wr), EINVAL);
	assert_int_equal(qp->sq_tail, 4);
	assert_int_equal(ffl_dealloc_mw(one), 0);
	assert_int_equal(ibv_destroy_qp(&uc->qp), 0);
	free_all(mw, qp, cq);
}

static void wr_ops(void **state)
{
	struct ffl_cq *cq = fake_cq(16);
	struct ffl_qp *qp = fake_qp_ex(IBV_QPT_RC, cq, 8, 2, 16);
	struct ibv_mw *mw = new_mw(IBV_MW_TYPE_2), *one = new_mw(IBV_MW_TYPE_1);
	struct ibv_mw_bind_info info = { &mr.ibv, 0x5000, 64, IBV_ACCESS_REMOTE_WRITE };
	struct ibv_qp_ex *ex = &qp->ex;
	const struct ff_sqe *e;

	(void)state;
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(ex, mw, 0x43, &info);
	ex->wr_id = 2;
	ibv_wr_local_inv(ex, 0x44);
	ex->wr_id = 3;
	ibv_wr_send_inv(ex, 0x45);
	ibv_wr_set_sge(ex, 11, 0x1000, 8);
	ibv_wr_send_inv(ex, 0x46);
	ibv_wr_set_inline_data(ex, "hi", 2);
	assert_int_equal(ibv_wr_complete(ex), 0);
	e = fake_sqe(qp, 0);
	assert_int_equal(e->opcode, FF_OP_BIND_MW);
	assert_int_equal(e->bind.mw, mw->handle);
	assert_int_equal(e->rkey, 0x43);
	e = fake_sqe(qp, 1);
	assert_int_equal(e->opcode, FF_OP_LOCAL_INV);
	assert_int_equal(e->imm, 0x44);
	e = fake_sqe(qp, 2);
	assert_int_equal(e->opcode, FF_OP_SEND_INV);
	assert_int_equal(e->imm, 0x45);
	assert_int_equal(e->num_sge, 1);
	e = fake_sqe(qp, 3);
	assert_int_equal(e->num_sge, 2);
	assert_memory_equal(e->inl, "hi", 2);

	ibv_wr_start(ex);
	ibv_wr_bind_mw(ex, one, 0x43, &info);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	ibv_wr_start(ex);
	ibv_wr_local_inv(ex, 1);
	ibv_wr_set_inline_data(ex, "hi", 2);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	/* an error is not made up for by a good bind */
	ibv_wr_start(ex);
	ibv_wr_bind_mw(ex, one, 0x43, &info);
	ibv_wr_bind_mw(ex, mw, 0x43, &info);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	assert_int_equal(qp->sq_tail, 4);
	assert_int_equal(ffl_dealloc_mw(one), 0);
	free_all(mw, qp, cq);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, fake_setup, fake_teardown)

	return UNIT_RUN(T(life), T(bind_type1), T(bind_type1_refused), T(post_send), T(wr_ops));
}
