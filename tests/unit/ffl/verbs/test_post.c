/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/fakes/fake_ffl.c ffl/session/bell.c ffl/verbs/post.c ffl/verbs/post_ex.c ffl/verbs/qp.c ffl/verbs/cq.c ffl/verbs/gone.c ffl/verbs/cq_ex.c ffl/verbs/srq.c ffl/verbs/channel.c ffl/verbs/home.c ffl/session/table.c ffl/verbs/async.c ffl/verbs/domain.c ffl/verbs/xrc.c */
/* threads: yes */
/*
 * test_post.c - ffl/verbs/post.c: entries of the rings, immediate errors.
 */
#include <string.h>
#include <unistd.h>

#include "ffl/verbs/post.h"
#include "tests/rig/fakes/fake_ffl.h"
#include "tests/rig/unit/unit.h"

static struct ibv_sge sge3[3] = { { 0x1000, 8, 11 }, { 0x2000, 16, 12 }, { 0x3000, 0, 13 } };

/* ---- entries ------------------------------------------------------------------------------------ */

static void rdma_write(void **state)
{
	struct ffl_cq *cq = fake_cq(16);
	struct ffl_qp *qp = fake_qp(IBV_QPT_RC, cq, 4, 3, 0, false);
	struct ibv_send_wr wr = {
		.wr_id = 0x123456789abcdef0,
		.sg_list = sge3,
		.num_sge = 3,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE,
		.imm_data = 0x01020304,
		.wr.rdma = { 0xfedcba9876543210, 0x778899aa },
	};
	const struct ff_sqe *e;

	(void)state;
	assert_null(fake_sqe(qp, 0));
	assert_int_equal(fake_post(qp, &wr), 0);
	e = fake_sqe(qp, 0);
	assert_non_null(e);
	assert_null(fake_sqe(qp, 1));
	assert_int_equal(e->opcode, FF_OP_WRITE_IMM);
	assert_int_equal(e->flags, FF_SQE_SIGNALED | FF_SQE_FENCE);
	assert_int_equal(e->wr_id, wr.wr_id);
	assert_int_equal(e->remote_addr, wr.wr.rdma.remote_addr);
	assert_int_equal(e->rkey, wr.wr.rdma.rkey);
	assert_int_equal(e->imm, 0x01020304);
	assert_int_equal(e->num_sge, 3);
	assert_memory_equal(e->sge, sge3, sizeof(sge3));
	assert_true(e->cpu < (uint16_t)sysconf(_SC_NPROCESSORS_CONF));
	fake_free(qp, cq);
}
static_assert(sizeof(struct ff_sge) == sizeof(struct ibv_sge), "compared as memory");

static void opcodes(void **state)
{
	static const struct {
		enum ibv_wr_opcode wr;
		uint8_t sqe;
	} map[] = {
		{ IBV_WR_RDMA_WRITE, FF_OP_WRITE },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, FF_OP_WRITE_IMM },
		{ IBV_WR_SEND, FF_OP_SEND },
		{ IBV_WR_SEND_WITH_IMM, FF_OP_SEND_IMM },
		{ IBV_WR_RDMA_READ, FF_OP_READ },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, FF_OP_CMP_SWAP },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, FF_OP_FETCH_ADD },
	};
	struct ffl_cq *cq = fake_cq(16);
	struct ffl_qp *qp = fake_qp(IBV_QPT_RC, cq, 16, 1, 0, false);

	(void)state;
	for (uint32_t i = 0; i < ARRAY_SIZE(map); i++) {
		struct ibv_send_wr wr = { .opcode = map[i].wr };

		assert_int_equal(fake_post(qp, &wr), 0);
		assert_int_equal(fake_sqe(qp, i)->opcode, map[i].sqe);
		assert_int_equal(fake_sqe(qp, i)->num_sge, 0);
	}
	fake_free(qp, cq);
}

static void atomics(void **state)
{
	struct ffl_cq *cq = fake_cq(16);
	struct ffl_qp *qp = fake_qp(IBV_QPT_RC, cq, 4, 1, 0, false);
	struct ibv_send_wr wr = {
		.sg_list = sge3,
		.num_sge = 1,
		.opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
		.wr.atomic = { .remote_addr = 8, .compare_add = 9, .swap = 10, .rkey = 11 },
	};
	const struct ff_sqe *e;

	(void)state;
	assert_int_equal(fake_post(qp, &wr), 0);
	e = fake_sqe(qp, 0);
	assert_int_equal(e->remote_addr, 8);
	assert_int_equal(e->atomic.compare_add, 9);
	assert_int_equal(e->atomic.swap, 10);
	assert_int_equal(e->rkey, 11);
	fake_free(qp, cq);
}

static void ud(void **state)
{
	struct ffl_cq *cq = fake_cq(16);
	struct ffl_qp *qp = fake_qp(IBV_QPT_UD, cq, 4, 1, 0, false);
	struct ffl_ah ah = { .ctx = fake.ctx, .handle = 0x1234 };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SOLICITED,
		.wr.ud = { &ah.ibv, 0xabcdef, 0x11111111 },
	};
	const struct ff_sqe *e;

	(void)state;
	assert_int_equal(fake_post(qp, &wr), 0);
	e = fake_sqe(qp, 0);
	assert_int_equal(e->flags, FF_SQE_SOLICITED);
	assert_int_equal(e->ud.ah, 0x1234);
	assert_int_equal(e->ud.remote_qpn, 0xabcdef);
	assert_int_equal(e->ud.remote_qkey, 0x11111111);
	wr.wr.ud.ah = NULL;
	assert_int_equal(fake_post(qp, &wr), EINVAL);
	/* of another session, where its handle may name another one */
	wr.wr.ud.ah = &ah.ibv;
	ah.ctx = NULL;
	assert_int_equal(fake_post(qp, &wr), EINVAL);
	fake_free(qp, cq);
}

/* A QP that goes waits for the datagrams posted to it, in a list, too; but not for ever. */
static void ud_leaves(void **state)
{
	struct ffl_cq *cq = fake_cq(16);
	struct ffl_qp *qp = fake_qp(IBV_QPT_UD, cq, 4, 1, 0, false);
	struct ffl_ah ah = { .ctx = fake.ctx, .handle = 0x1234 };
	struct ibv_send_wr wr[3] = {
		{ .next = &wr[1], .opcode = IBV_WR_SEND, .wr.ud.ah = &ah.ibv },
		{ .next = &wr[2], .opcode = IBV_WR_SEND, .wr.ud.ah = &ah.ibv },
		{ .opcode = IBV_WR_SEND, .wr.ud.ah = &ah.ibv },
	};

	(void)state;
	assert_int_equal(fake_post(qp, wr), 0);
	ffl_qp_posted_leave(fake.ctx, qp->handle, 3); /* the router takes nothing */
	assert_int_equal(atomic_load(&qp->hdr->sq_done), 0);
	assert_true(fake.ctx->left_behind);
	atomic_store(&qp->hdr->sq_done, 3);
	fake.yields = 0;
	ffl_qp_posted_leave(fake.ctx, qp->handle, 3);
	ffl_qp_posted_leave(fake.ctx, qp->handle + 0x10000, 4); /* a QP that is gone */
	assert_int_equal(fake.yields, 0);
	assert_true(fake.ctx->left_behind); /* nobody has waited and been served since */
	fake_free(qp, cq);
}

static void sig_all(void **state)
{
	struct ffl_cq *cq = fake_cq(16);
	struct ffl_qp *qp = fake_qp(IBV_QPT_RC, cq, 4, 1, 0, true);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };

	(void)state;
	assert_int_equal(fake_post(qp, &wr), 0);
	wr.send_flags = IBV_SEND_SIGNALED;
	assert_int_equal(fake_post(qp, &wr), 0);
	assert_int_equal(fake_sqe(qp, 0)->flags, FF_SQE_SIGNALED);
	assert_int_equal(fake_sqe(qp, 1)->flags, FF_SQE_SIGNALED);
	fake_free(qp, cq);
}

static void inline_data(void **state)
{
	struct ffl_cq *cq = fake_cq(16);
	struct ffl_qp *qp = fake_qp(IBV_QPT_RC, cq, 4, 3, 100, false);
	char a[60], b[41];
	struct ibv_sge sg[] = {
		{ (uintptr_t)a, sizeof(a), 0 },
		{ 0, 0, 0 },
		{ (uintptr_t)b, sizeof(b) - 1, 0 },
	};
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_INLINE,
				  .sg_list = sg,
				  .num_sge = 3 };
	const struct ff_sqe *e;

	(void)state;
	memset(a, 'a', sizeof(a));
	memset(b, 'b', sizeof(b));
	assert_int_equal(fake_post(qp, &wr), 0);
	e = fake_sqe(qp, 0);
	assert_int_equal(e->flags, FF_SQE_INLINE);
	assert_int_equal(e->num_sge, 100);
	assert_memory_equal(e->inl, a, 60);
	assert_memory_equal(e->inl + 60, b, 40);

	sg[2].length = 41;
	assert_int_equal(fake_post(qp, &wr), EINVAL);
	sg[0].length = 0xfffffff0; /* the sum overflows */
	assert_int_equal(fake_post(qp, &wr), EINVAL);
	wr.num_sge = 0;
	assert_int_equal(fake_post(qp, &wr), 0);
	assert_int_equal(fake_sqe(qp, 1)->num_sge, 0);
	wr.opcode = IBV_WR_RDMA_READ;
	assert_int_equal(fake_post(qp, &wr), EINVAL);
	fake_free(qp, cq);
}

static void seq_over_laps(void **state)
{
	struct ffl_cq *cq = fake_cq(16);
	struct ffl_qp *qp = fake_qp(IBV_QPT_RC, cq, 4, 6, 0, false); /* 3 lines an entry */
	struct ibv_sge sg[6] = { 0 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = sg, .num_sge = 6 };

	(void)state;
	assert_int_equal(qp->sq_stride, 192);
	for (uint32_t i = 0; i < 70000; i++) { /* more than seq counts */
		sg[5].addr = i;
		wr.wr_id = i;
		assert_null(fake_sqe(qp, i));
		assert_int_equal(fake_post(qp, &wr), 0);
		assert_non_null(fake_sqe(qp, i));
		assert_int_equal(fake_sqe(qp, i)->wr_id, i);
		assert_int_equal(fake_sqe(qp, i)->sge[5].addr, i);
		atomic_store(&qp->hdr->sq_done, i + 1);
	}
	fake_free(qp, cq);
}

/* ---- immediate errors ------------------------------------------------------------------------------ */

static void full(void **state)
{
	struct ffl_cq *cq = fake_cq(16);
	struct ffl_qp *qp = fake_qp(IBV_QPT_RC, cq, 4, 1, 0, false);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(fake_post(qp, &wr), 0);
	assert_int_equal(fake_post(qp, &wr), ENOMEM);
	atomic_store(&qp->hdr->sq_done, 2);
	assert_int_equal(fake_post(qp, &wr), 0);
	assert_int_equal(fake_post(qp, &wr), 0);
	assert_int_equal(fake_post(qp, &wr), ENOMEM);
	assert_int_equal(qp->sq_tail, 6);
	fake_free(qp, cq);
}

static void list_stops_at_bad(void **state)
{
	struct ffl_cq *cq = fake_cq(16);
	struct ffl_qp *qp = fake_qp(IBV_QPT_RC, cq, 8, 1, 0, false);
	struct ibv_send_wr wr[4] = {
		{ .wr_id = 0, .next = &wr[1], .opcode = IBV_WR_SEND },
		{ .wr_id = 1, .next = &wr[2], .opcode = IBV_WR_SEND },
		{ .wr_id = 2, .next = &wr[3], .opcode = IBV_WR_SEND, .num_sge = 2 },
		{ .wr_id = 3, .opcode = IBV_WR_SEND },
	};
	struct ibv_send_wr *bad = NULL;

	(void)state;
	assert_int_equal(ibv_post_send(&qp->qp, wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr[2]);
	assert_int_equal(fake_sqe(qp, 0)->wr_id, 0);
	assert_int_equal(fake_sqe(qp, 1)->wr_id, 1);
	assert_null(fake_sqe(qp, 2));
	assert_int_equal(qp->sq_tail, 2);

	wr[2].num_sge = -1;
	assert_int_equal(ibv_post_send(&qp->qp, &wr[2], &bad), EINVAL);
	wr[2].num_sge = 0;
	assert_int_equal(ibv_post_send(&qp->qp, &wr[2], &bad), 0);
	assert_int_equal(fake_sqe(qp, 2)->wr_id, 2);
	assert_int_equal(fake_sqe(qp, 3)->wr_id, 3);
	fake_free(qp, cq);
}

/* The 8 bytes are taken when it is posted, from wherever they are; keys do not matter. */
static void atomic_write(void **state)
{
	struct ffl_cq *cq = fake_cq(16);
	struct ffl_qp *qp = fake_qp(IBV_QPT_RC, cq, 8, 3, 0, false);
	struct ffl_qp *xrc = fake_qp(IBV_QPT_XRC_SEND, cq, 8, 3, 0, false);
	char data[] = "12345678";
	struct ibv_sge sge[3] = { { (uintptr_t)data, 3, 0 },
				  { 0, 0, 0 },
				  { (uintptr_t)data + 3, 5, 0 } };
	struct ibv_send_wr wr = { .opcode = IBV_WR_ATOMIC_WRITE,
				  .sg_list = sge,
				  .num_sge = 3,
				  .wr_id = 9,
				  .wr.rdma = { .remote_addr = 0xbef0, .rkey = 0x77 } };
	const struct ff_sqe *e;

	(void)state;
	assert_int_equal(fake_post(qp, &wr), 0);
	data[0] = 0;
	e = fake_sqe(qp, 0);
	assert_int_equal(e->opcode, FF_OP_ATOMIC_WRITE);
	assert_int_equal(e->flags, 0);
	assert_int_equal(e->num_sge, 0);
	assert_int_equal(e->wr_id, 9);
	assert_int_equal(e->remote_addr, 0xbef0);
	assert_int_equal(e->rkey, 0x77);
	assert_memory_equal(&e->atomic.compare_add, "12345678", 8);
	wr.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
	wr.qp_type.xrc.remote_srqn = 5;
	assert_int_equal(fake_post(xrc, &wr), 0);
	assert_int_equal(fake_sqe(xrc, 0)->flags, FF_SQE_SIGNALED);
	assert_int_equal(fake_sqe(xrc, 0)->imm, 5);
	assert_memory_equal(&fake_sqe(xrc, 0)->atomic.compare_add, "\0002345678", 8);

	wr.num_sge = 2;
	assert_int_equal(fake_post(qp, &wr), EINVAL);
	wr.num_sge = 3;
	sge[2].length = 6;
	assert_int_equal(fake_post(qp, &wr), EINVAL);
	sge[2].length = UINT32_MAX;
	assert_int_equal(fake_post(qp, &wr), EINVAL);
	wr.num_sge = -1;
	assert_int_equal(fake_post(qp, &wr), EINVAL);
	assert_int_equal(qp->sq_tail, 1);
	ibv_destroy_qp(&xrc->qp);
	fake_free(qp, cq);
}

static void refused_opcodes(void **state)
{
	/* 14 is FLUSH, for which the struct has no place */
	static const int absent[] = { IBV_WR_TSO, IBV_WR_DRIVER1, 14 };
	static const int unknown[] = { 12, 13, 16, 31, 32, 1000, -1 };
	struct ffl_cq *cq = fake_cq(16);
	struct ffl_qp *rc = fake_qp(IBV_QPT_RC, cq, 8, 1, 0, false);
	struct ffl_qp *uc = fake_qp(IBV_QPT_UC, cq, 8, 1, 0, false);
	struct ffl_qp *ud_qp = fake_qp(IBV_QPT_UD, cq, 8, 1, 0, false);
	struct ibv_send_wr wr = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(absent); i++) {
		wr.opcode = absent[i];
		assert_int_equal(fake_post(rc, &wr), EOPNOTSUPP);
	}
	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++) {
		wr.opcode = unknown[i];
		assert_int_equal(fake_post(rc, &wr), EINVAL);
	}
	wr.opcode = IBV_WR_RDMA_READ;
	assert_int_equal(fake_post(uc, &wr), EINVAL);
	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	assert_int_equal(fake_post(uc, &wr), EINVAL);
	wr.opcode = IBV_WR_ATOMIC_WRITE;
	assert_int_equal(fake_post(uc, &wr), EINVAL);
	wr.opcode = IBV_WR_RDMA_WRITE;
	assert_int_equal(fake_post(uc, &wr), 0);
	assert_int_equal(fake_post(ud_qp, &wr), EINVAL);
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = IBV_SEND_IP_CSUM;
	assert_int_equal(fake_post(rc, &wr), EINVAL);
	assert_int_equal(rc->sq_tail, 0);
	ibv_destroy_qp(&rc->qp);
	ibv_destroy_qp(&uc->qp);
	fake_free(ud_qp, cq);
}

static void states(void **state)
{
	struct ffl_cq *cq = fake_cq(16);
	struct ffl_qp *qp = fake_qp(IBV_QPT_RC, cq, 8, 1, 0, false);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct ibv_recv_wr rwr = { 0 }, *bad;

	(void)state;
	for (int s = IBV_QPS_RESET; s <= IBV_QPS_ERR; s++) {
		qp->qp.state = s;
		assert_int_equal(fake_post(qp, &wr), s <= IBV_QPS_RTR ? EINVAL : 0);
		assert_int_equal(ibv_post_recv(&qp->qp, &rwr, &bad),
				 s == IBV_QPS_RESET ? EINVAL : 0);
	}
	fake_free(qp, cq);
}

static void dead_router(void **state)
{
	struct ffl_cq *cq = fake_cq(16);
	struct ffl_qp *qp = fake_qp(IBV_QPT_RC, cq, 8, 1, 0, false);
	struct ibv_srq_init_attr sattr = { .attr = { 4, 1, 0 } };
	struct ibv_srq *srq = ibv_create_srq(fake.pd, &sattr);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct ibv_recv_wr rwr = { 0 }, *bad = NULL;

	(void)state;
	ffl_mark_dead(fake.ctx);
	assert_int_equal(fake_post(qp, &wr), 0);
	assert_int_equal(ibv_post_recv(&qp->qp, &rwr, &bad), 0);
	assert_int_equal(ibv_post_srq_recv(srq, &rwr, &bad), 0);
	fake.ctx->pid++; /* a child */
	assert_int_equal(fake_post(qp, &wr), EIO);
	assert_int_equal(ibv_post_recv(&qp->qp, &rwr, &bad), EIO);
	assert_ptr_equal(bad, &rwr);
	assert_int_equal(ibv_post_srq_recv(srq, &rwr, &bad), EIO);
	fake.ctx->pid--;
	/* what a program does at its end works */
	assert_int_equal(ibv_destroy_srq(srq), 0);
	fake_free(qp, cq);
	fake.live = 0;
}

/* ---- receives ----------------------------------------------------------------------------------------- */

static void recv(void **state)
{
	struct ffl_cq *cq = fake_cq(16);
	struct ffl_qp *qp = fake_qp(IBV_QPT_RC, cq, 4, 3, 0, false);
	struct ibv_recv_wr wr[3] = {
		{ .wr_id = 7, .next = &wr[1], .sg_list = sge3, .num_sge = 3 },
		{ .wr_id = 8, .next = &wr[2], .num_sge = 0 },
		{ .wr_id = 9, .sg_list = sge3, .num_sge = 4 },
	};
	struct ibv_recv_wr *bad = NULL;
	const struct ff_rqe *e;

	(void)state;
	assert_int_equal(ibv_post_recv(&qp->qp, wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr[2]);
	e = fake_rqe(qp->rq, 4, qp->rq_stride, 0);
	assert_non_null(e);
	assert_int_equal(e->wr_id, 7);
	assert_int_equal(e->num_sge, 3);
	assert_memory_equal(e->sge, sge3, sizeof(sge3));
	e = fake_rqe(qp->rq, 4, qp->rq_stride, 1);
	assert_int_equal(e->wr_id, 8);
	assert_int_equal(e->num_sge, 0);
	assert_null(fake_rqe(qp->rq, 4, qp->rq_stride, 2));
	assert_false(fake_take_dirty(qp->handle));

	wr[2].num_sge = 1;
	assert_int_equal(ibv_post_recv(&qp->qp, &wr[1], &bad), 0);
	assert_int_equal(ibv_post_recv(&qp->qp, &wr[1], &bad), ENOMEM);
	assert_ptr_equal(bad, &wr[1]);
	atomic_store(&qp->rq_polled, 1);
	atomic_store(&qp->hdr->rq_need, 1);
	atomic_store(&fake.ctx->hdr->need_wakeup, 1);
	assert_int_equal(ibv_post_recv(&qp->qp, &wr[1], &bad), ENOMEM);
	assert_ptr_equal(bad, &wr[2]);
	/* the one that got in is what the sender waits for */
	assert_true(fake_take_dirty(qp->handle));
	assert_int_equal(fake_bells(), 1);
	assert_int_equal(atomic_load(&qp->hdr->rq_need), 0);
	fake_free(qp, cq);
}

static void srq(void **state)
{
	struct ffl_cq *cq = fake_cq(16);
	struct ibv_srq_init_attr sattr = { .attr = { 4, 2, 0 } };
	struct ibv_srq *ibsrq = ibv_create_srq(fake.pd, &sattr);
	struct ffl_srq *s = to_srq(ibsrq);
	struct ibv_qp_init_attr attr = { .send_cq = &cq->cq,
					 .recv_cq = &cq->cq,
					 .srq = ibsrq,
					 .cap = { 4, 4, 1, 1, 0 },
					 .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = ibv_create_qp(fake.pd, &attr);
	struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = sge3, .num_sge = 2 }, *bad;

	(void)state;
	qp->state = IBV_QPS_RTS;
	assert_int_equal(attr.cap.max_recv_wr, 0);
	assert_int_equal(ibv_post_recv(qp, &wr, &bad), EINVAL);
	for (uint32_t i = 0; i < 70000; i++) {
		wr.wr_id = i;
		assert_int_equal(ibv_post_srq_recv(ibsrq, &wr, &bad), 0);
		assert_int_equal(fake_rqe(s->ring, s->depth, s->stride, i)->wr_id, i);
		if (i >= 3)
			atomic_store(&s->polled, i - 2);
	}
	assert_int_equal(atomic_load(&fake.ctx->hdr->srq_kick), 0);
	assert_int_equal(ibv_post_srq_recv(ibsrq, &wr, &bad), 0);
	assert_int_equal(ibv_post_srq_recv(ibsrq, &wr, &bad), ENOMEM);
	assert_ptr_equal(bad, &wr);
	atomic_store(&s->hdr->lost, 4); /* with their QP */
	atomic_store(&s->hdr->need, 1);
	atomic_store(&fake.ctx->hdr->need_wakeup, 1);
	assert_int_equal(ibv_post_srq_recv(ibsrq, &wr, &bad), 0);
	assert_int_equal(atomic_load(&fake.ctx->hdr->srq_kick), 1);
	assert_int_equal(atomic_load(&s->hdr->need), 0);
	assert_int_equal(fake_bells(), 1);
	assert_int_equal(ibv_post_srq_recv(ibsrq, &wr, &bad), 0);
	assert_int_equal(atomic_load(&fake.ctx->hdr->srq_kick), 1);
	wr.num_sge = 3;
	assert_int_equal(ibv_post_srq_recv(ibsrq, &wr, &bad), EINVAL);
	assert_int_equal(ibv_destroy_srq(ibsrq), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(ibsrq), 0);
	assert_int_equal(ibv_destroy_cq(&cq->cq), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, fake_setup, fake_teardown)
	return UNIT_RUN(T(rdma_write), T(opcodes), T(atomics), T(ud), T(ud_leaves), T(sig_all),
			T(inline_data), T(seq_over_laps), T(full), T(list_stops_at_bad),
			T(atomic_write), T(refused_opcodes), T(states), T(dead_router), T(recv),
			T(srq));
}
