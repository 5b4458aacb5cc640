/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_qp.c - ffl/verbs/qp.c and srq.c: creation, attributes, references, errors on the way.
 *
 * build: tests/rig/fakes/fake_ffl.c ffl/session/bell.c ffl/verbs/post.c ffl/verbs/post_ex.c ffl/verbs/qp.c ffl/verbs/cq.c ffl/verbs/gone.c ffl/verbs/cq_ex.c ffl/verbs/srq.c ffl/verbs/channel.c ffl/verbs/home.c ffl/session/table.c ffl/verbs/async.c ffl/verbs/domain.c ffl/verbs/xrc.c
 */
#include <string.h>

#include "tests/rig/unit/unit.h"
#include "ffl/session/ffl.h"
#include "tests/rig/fakes/fake_ffl.h"

static struct ibv_qp_init_attr_ex ex_attr(struct ffl_cq *cq)
{
	return (struct ibv_qp_init_attr_ex){
		.send_cq = &cq->cq,
		.recv_cq = &cq->cq,
		.cap = { 10, 20, 2, 3, 64 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = fake.pd,
	};
}

static void create(void **state)
{
	struct ffl_cq *scq = fake_cq(16), *rcq = fake_cq(16);
	int cookie;
	struct ibv_qp_init_attr attr = {
		.qp_context = &cookie,
		.send_cq = &scq->cq,
		.recv_cq = &rcq->cq,
		.cap = { 10, 20, 2, 3, 64 },
		.qp_type = IBV_QPT_UC,
		.sq_sig_all = 7,
	};
	struct ibv_qp *qp = ibv_create_qp(fake.pd, &attr);

	(void)state;
	assert_non_null(qp);
	assert_int_equal(fake.qp_req.pd, to_pd(fake.pd)->handle);
	assert_int_equal(fake.qp_req.send_cq, scq->handle);
	assert_int_equal(fake.qp_req.recv_cq, rcq->handle);
	assert_int_equal(fake.qp_req.srq, 0);
	assert_int_equal(fake.qp_req.qp_type, IBV_QPT_UC);
	assert_int_equal(fake.qp_req.sq_sig_all, 1);
	assert_int_equal(fake.qp_req.cap.max_send_wr, 10);
	assert_int_equal(fake.qp_req.cap.max_recv_wr, 20);
	assert_int_equal(fake.qp_req.cap.max_send_sge, 2);
	assert_int_equal(fake.qp_req.cap.max_recv_sge, 3);
	assert_int_equal(fake.qp_req.cap.max_inline, 64);
	/* as granted */
	assert_int_equal(attr.cap.max_send_wr, 16);
	assert_int_equal(attr.cap.max_recv_wr, 32);
	assert_int_equal(attr.cap.max_inline_data, 64);

	assert_ptr_equal(qp->context, &fake.ctx->v.context);
	assert_ptr_equal(qp->qp_context, &cookie);
	assert_ptr_equal(qp->pd, fake.pd);
	assert_ptr_equal(qp->send_cq, &scq->cq);
	assert_ptr_equal(qp->recv_cq, &rcq->cq);
	assert_null(qp->srq);
	assert_int_equal(qp->state, IBV_QPS_RESET);
	assert_int_equal(qp->qp_type, IBV_QPT_UC);
	assert_int_equal(qp->handle, to_qp(qp)->handle);
	assert_int_equal(qp->qp_num, 0x100 + FF_HANDLE_INDEX(qp->handle));
	assert_int_equal((uintptr_t)to_qp(qp) % FF_CACHELINE, 0);
	assert_null(ibv_qp_to_qp_ex(qp));

	assert_int_equal(to_pd(fake.pd)->refs, 1);
	assert_int_equal(ibv_destroy_cq(&scq->cq), EBUSY);
	assert_int_equal(ibv_destroy_cq(&rcq->cq), EBUSY);
	assert_int_equal(fake.calls[FF_MSG_DESTROY_CQ], 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(&scq->cq), 0);
	assert_int_equal(ibv_destroy_cq(&rcq->cq), 0);
}

static void create_refused(void **state)
{
	struct ffl_cq *cq = fake_cq(4);
	struct ffl_context other = { 0 };
	struct ffl_cq foreign = { .ctx = &other };
	struct ibv_pd foreign_pd = { .context = &other.v.context };
	struct ibv_qp_init_attr_ex attr;

	(void)state;
#define REFUSED(change, err)                                                                       \
	do {                                                                                       \
		attr = ex_attr(cq);                                                                \
		change;                                                                            \
		errno = 0;                                                                         \
		assert_null(ffl_create_qp_ex(&fake.ctx->v.context, &attr));                        \
		assert_int_equal(errno, err);                                                      \
	} while (0)
	REFUSED(attr.qp_type = IBV_QPT_RAW_PACKET, EOPNOTSUPP);
	REFUSED(attr.qp_type = IBV_QPT_DRIVER, EOPNOTSUPP);
	REFUSED(attr.send_cq = NULL, EINVAL);
	REFUSED(attr.recv_cq = NULL, EINVAL);
	REFUSED(attr.send_cq = &foreign.cq, EINVAL);
	REFUSED(attr.pd = &foreign_pd, EINVAL);
	REFUSED(attr.comp_mask = 0, EINVAL);
	REFUSED(attr.comp_mask |= 1 << 7, EINVAL);
	REFUSED(attr.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER, EOPNOTSUPP);
	REFUSED(attr.comp_mask |= IBV_QP_INIT_ATTR_RX_HASH, EOPNOTSUPP);
	REFUSED((attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS,
		 attr.create_flags = IBV_QP_CREATE_SCATTER_FCS),
		EOPNOTSUPP);
	REFUSED((attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS,
		 attr.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB),
		EINVAL);				       /* for UD only */
	for (int bit = 10; bit < 15; bit += bit == 10 ? 3 : 1) /* 11, 12: FLUSH, ATOMIC_WRITE */
		REFUSED((attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
			 attr.send_ops_flags = IBV_QP_EX_WITH_SEND | 1ull << bit),
			EOPNOTSUPP);
	REFUSED((attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, attr.qp_type = IBV_QPT_UC,
		 attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ),
		EOPNOTSUPP);
	REFUSED((attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, attr.qp_type = IBV_QPT_UC,
		 attr.send_ops_flags = IBV_QP_EX_WITH_SEND_WITH_INV),
		EOPNOTSUPP);
	for (int bit = 11; bit < 13; bit++)
		REFUSED((attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
			 attr.qp_type = IBV_QPT_UC, attr.send_ops_flags = 1ull << bit),
			EOPNOTSUPP);
	REFUSED((attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, attr.qp_type = IBV_QPT_UD,
		 attr.send_ops_flags = IBV_QP_EX_WITH_BIND_MW),
		EOPNOTSUPP);
	REFUSED((attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, attr.qp_type = IBV_QPT_UD,
		 attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE),
		EOPNOTSUPP);
	assert_int_equal(fake.calls[FF_MSG_CREATE_QP], 0);
	fake.fail[FF_MSG_CREATE_QP] = -EINVAL;
	REFUSED((void)0, EINVAL);
	ibv_destroy_cq(&cq->cq);
}

static void create_unwinds(void **state)
{
	struct ffl_cq *cq = fake_cq(4);
	struct ibv_srq_init_attr sattr = { .attr = { 4, 1, 0 } };
	struct ibv_qp_init_attr_ex attr;

	(void)state;
	for (int nth = 1; nth <= 3; nth++) {
		attr = ex_attr(cq);
		fake.fail_seg_at = nth;
		REFUSED((void)0, ENOMEM);
		assert_int_equal(fake.live, 1); /* the CQ */
		assert_int_equal(to_pd(fake.pd)->refs, 0);
	}
	for (int nth = 1; nth <= 2; nth++) {
		fake.fail_seg_at = nth;
		assert_null(ibv_create_srq(fake.pd, &sattr));
		assert_int_equal(errno, ENOMEM);
		assert_int_equal(fake.live, 1);
		assert_int_equal(to_pd(fake.pd)->refs, 0);
	}
	assert_int_equal(ibv_destroy_cq(&cq->cq), 0); /* nobody holds it */
}

static void modify(void **state)
{
	struct ffl_cq *cq = fake_cq(4);
	struct ffl_qp *qp = fake_qp(IBV_QPT_RC, cq, 4, 1, 0, false);
	struct ibv_qp_attr attr;
	const struct ff_qp_attr *got = &fake.modify.attr;

	(void)state;
	/* what the mask does not name is not sent */
	memset(&attr, 0xee, sizeof(attr));
	attr.qp_state = IBV_QPS_INIT;
	attr.pkey_index = 3;
	attr.port_num = 1;
	attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	qp->qp.state = IBV_QPS_RESET;
	assert_int_equal(ibv_modify_qp(&qp->qp, &attr,
				       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					       IBV_QP_ACCESS_FLAGS),
			 0);
	assert_int_equal(qp->qp.state, IBV_QPS_INIT);
	assert_int_equal(fake.modify.qp, qp->handle);
	assert_int_equal(fake.modify.mask,
			 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	assert_memory_equal(got,
			    (&(struct ff_qp_attr){ .qp_state = IBV_QPS_INIT,
						   .pkey_index = 3,
						   .port_num = 1,
						   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE }),
			    sizeof(*got));

	memset(&attr, 0, sizeof(attr));
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_4096;
	attr.dest_qp_num = 0x1234;
	attr.rq_psn = 0x5678;
	attr.max_dest_rd_atomic = 4;
	attr.min_rnr_timer = 12;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.dlid = 0x99;
	attr.ah_attr.sl = 1;
	attr.ah_attr.src_path_bits = 2;
	attr.ah_attr.static_rate = 3;
	attr.ah_attr.port_num = 1;
	attr.ah_attr.grh.dgid.raw[0] = 0xfe;
	attr.ah_attr.grh.dgid.raw[15] = 0x01;
	attr.ah_attr.grh.flow_label = 0xabcde;
	attr.ah_attr.grh.sgid_index = 1;
	attr.ah_attr.grh.hop_limit = 64;
	attr.ah_attr.grh.traffic_class = 9;
	assert_int_equal(ibv_modify_qp(&qp->qp, &attr,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
			 0);
	assert_int_equal(qp->qp.state, IBV_QPS_RTR);
	assert_memory_equal(got,
			    (&(struct ff_qp_attr){ .qp_state = IBV_QPS_RTR,
						   .path_mtu = IBV_MTU_4096,
						   .dest_qp_num = 0x1234,
						   .rq_psn = 0x5678,
						   .max_dest_rd_atomic = 4,
						   .min_rnr_timer = 12,
						   .ah = { .dgid = { 0xfe, [15] = 1 },
							   .flow_label = 0xabcde,
							   .dlid = 0x99,
							   .sgid_index = 1,
							   .hop_limit = 64,
							   .traffic_class = 9,
							   .sl = 1,
							   .src_path_bits = 2,
							   .static_rate = 3,
							   .is_global = 1,
							   .port_num = 1 } }),
			    sizeof(*got));

	memset(&attr, 0, sizeof(attr));
	attr.sq_psn = 1;
	attr.timeout = 2;
	attr.retry_cnt = 3;
	attr.rnr_retry = 4;
	attr.max_rd_atomic = 5;
	attr.qkey = 6;
	attr.en_sqd_async_notify = 1;
	attr.cur_qp_state = IBV_QPS_RTS;
	attr.path_mig_state = IBV_MIG_ARMED;
	attr.alt_ah_attr.dlid = 7;
	attr.alt_pkey_index = 8;
	attr.alt_port_num = 9;
	attr.alt_timeout = 10;
	attr.cap.max_send_wr = 11;
	assert_int_equal(ibv_modify_qp(&qp->qp, &attr,
				       IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					       IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC |
					       IBV_QP_QKEY | IBV_QP_EN_SQD_ASYNC_NOTIFY |
					       IBV_QP_CUR_STATE | IBV_QP_PATH_MIG_STATE |
					       IBV_QP_ALT_PATH | IBV_QP_CAP),
			 0);
	assert_memory_equal(got,
			    (&(struct ff_qp_attr){ .sq_psn = 1,
						   .timeout = 2,
						   .retry_cnt = 3,
						   .rnr_retry = 4,
						   .max_rd_atomic = 5,
						   .qkey = 6,
						   .en_sqd_async_notify = 1,
						   .cur_qp_state = IBV_QPS_RTS,
						   .path_mig_state = IBV_MIG_ARMED,
						   .alt_ah = { .dlid = 7 },
						   .alt_pkey_index = 8,
						   .alt_port_num = 9,
						   .alt_timeout = 10,
						   .cap = { .max_send_wr = 11 } }),
			    sizeof(*got));

	/*
	 * an enum that does not fit is not cut to one that does, and what is not named is not told
	 */
	attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
	attr.path_mtu = (enum ibv_mtu)(0x100 + IBV_MTU_1024);
	assert_int_equal(ibv_modify_qp(&qp->qp, &attr, IBV_QP_PATH_MTU), 0);
	assert_int_equal(got->path_mtu, 0xff);
	assert_int_equal(got->qp_access_flags, 0);
	attr.qp_state = 0x100 + IBV_QPS_INIT;
	fake.fail[FF_MSG_MODIFY_QP] = -EINVAL;
	assert_int_equal(ibv_modify_qp(&qp->qp, &attr, IBV_QP_STATE), EINVAL);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(qp->qp.state, IBV_QPS_RTR);
	assert_int_equal(ibv_modify_qp(&qp->qp, &attr, IBV_QP_RATE_LIMIT), EOPNOTSUPP);
	assert_int_equal(ibv_modify_qp(&qp->qp, &attr, 1 << 21), EINVAL);
	ibv_destroy_qp(&qp->qp);
	ibv_destroy_cq(&cq->cq);
}

/* What is posted gets a moment before the QP goes to ERR or away, but not for ever. */
static void posted_leave(void **state)
{
	struct ffl_cq *cq = fake_cq(4);
	struct ffl_qp *qp = fake_qp(IBV_QPT_RC, cq, 4, 1, 0, false);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };

	(void)state;
	assert_int_equal(fake_post(qp, &wr), 0);
	fake.yields = 0;
	assert_int_equal(ibv_modify_qp(&qp->qp, &attr, IBV_QP_STATE),
			 0); /* the router takes nothing */
	assert_int_equal(qp->qp.state, IBV_QPS_ERR);
	assert_true(fake.yields > 0);
	/* in ERR nothing is sent, and nothing waited for */
	fake.yields = 0;
	assert_int_equal(ibv_modify_qp(&qp->qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(fake.yields, 0);
	ffl_qp_set_state(qp, IBV_QPS_RTS);
	atomic_store(&qp->hdr->sq_done, ff_done(1, 0));
	assert_int_equal(ibv_modify_qp(&qp->qp, &attr, IBV_QP_STATE), 0); /* it is done */
	assert_int_equal(fake.yields, 0);
	ffl_qp_set_state(qp, IBV_QPS_RTS);
	assert_int_equal(fake_post(qp, &wr), 0);
	assert_int_equal(ibv_destroy_qp(&qp->qp), 0);
	assert_true(fake.yields > 0);
	ibv_destroy_cq(&cq->cq);
}

/* A peer that has disconnected takes nothing more: that the wait is in vain says nothing of other peers. */
static void peer_left(void **state)
{
	struct ffl_cq *cq = fake_cq(4);
	struct ffl_qp *qp = fake_qp(IBV_QPT_RC, cq, 4, 1, 0, false);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };

	(void)state;
	assert_int_equal(fake_post(qp, &wr), 0);
	atomic_store(&fake.ctx->left_behind, false);
	atomic_store(&qp->peer_left, true);
	assert_int_equal(ibv_modify_qp(&qp->qp, &attr, IBV_QP_STATE), 0);
	assert_false(fake.ctx->left_behind);
	/* RESET: the next connection has another peer */
	attr.qp_state = IBV_QPS_RESET;
	assert_int_equal(ibv_modify_qp(&qp->qp, &attr, IBV_QP_STATE), 0);
	assert_false(qp->peer_left);
	ffl_qp_set_state(qp, IBV_QPS_RTS);
	assert_int_equal(fake_post(qp, &wr), 0);
	assert_int_equal(ibv_destroy_qp(&qp->qp), 0);
	assert_true(fake.ctx->left_behind);
	atomic_store(&fake.ctx->left_behind, false);
	ibv_destroy_cq(&cq->cq);
}

/* After RESET both sides go on at the same index; entries of before are not valid by accident. */
static void reset(void **state)
{
	struct ffl_cq *cq = fake_cq(4);
	struct ffl_qp *qp = fake_qp(IBV_QPT_RC, cq, 4, 1, 0, false);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	struct ibv_recv_wr rwr = { 0 }, *rbad;

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(ibv_post_send(&qp->qp, &wr, &bad), 0);
		assert_int_equal(ibv_post_recv(&qp->qp, &rwr, &rbad), 0);
	}
	fake.fail[FF_MSG_MODIFY_QP] = -EIO;
	assert_int_equal(ibv_modify_qp(&qp->qp, &attr, IBV_QP_STATE), EIO);
	assert_int_equal(qp->qp.state, IBV_QPS_RTS);
	assert_int_equal(qp->sq_tail, 3);
	fake.fail[FF_MSG_MODIFY_QP] = 0;
	assert_int_equal(ibv_modify_qp(&qp->qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(qp->qp.state, IBV_QPS_RESET);
	assert_int_equal(ibv_post_send(&qp->qp, &wr, &bad), EINVAL);
	for (uint32_t i = 3; i < 7; i++) {
		assert_null(fake_sqe(qp, i));
		assert_null(fake_rqe(qp->rq, 4, qp->rq_stride, i));
	}
	qp->qp.state = IBV_QPS_RTS;
	for (uint32_t i = 3; i < 7; i++) {
		assert_int_equal(ibv_post_send(&qp->qp, &wr, &bad), 0);
		assert_non_null(fake_sqe(qp, i));
		assert_int_equal(ibv_post_recv(&qp->qp, &rwr, &rbad), 0);
		assert_non_null(fake_rqe(qp->rq, 4, qp->rq_stride, i));
	}
	assert_int_equal(ibv_post_send(&qp->qp, &wr, &bad), ENOMEM);
	assert_int_equal(ibv_post_recv(&qp->qp, &rwr, &rbad), ENOMEM);
	ibv_destroy_qp(&qp->qp);
	ibv_destroy_cq(&cq->cq);
}

static void query(void **state)
{
	struct ffl_cq *cq = fake_cq(4);
	struct ffl_qp *qp = fake_qp(IBV_QPT_UD, cq, 4, 1, 32, true);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	(void)state;
	fake.qp_attr = (struct ff_qp_attr){
		.qp_state = IBV_QPS_ERR,
		.cur_qp_state = IBV_QPS_ERR,
		.path_mtu = IBV_MTU_1024,
		.path_mig_state = IBV_MIG_MIGRATED,
		.qkey = 1,
		.rq_psn = 2,
		.sq_psn = 3,
		.dest_qp_num = 4,
		.qp_access_flags = 5,
		.cap = { 6, 7, 8, 9, 10 },
		.ah = { .dgid = { 1, 2, 3 }, .dlid = 11, .hop_limit = 12, .is_global = 1 },
		.pkey_index = 13,
		.sq_draining = 1,
		.max_rd_atomic = 14,
		.max_dest_rd_atomic = 15,
		.min_rnr_timer = 16,
		.port_num = 17,
		.timeout = 18,
		.retry_cnt = 19,
		.rnr_retry = 20,
	};
	memset(&attr, 0xee, sizeof(attr));
	assert_int_equal(ibv_query_qp(&qp->qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(qp->qp.state, IBV_QPS_ERR); /* which the router has done */
	assert_int_equal(attr.qp_state, IBV_QPS_ERR);
	assert_int_equal(attr.path_mtu, IBV_MTU_1024);
	assert_int_equal(attr.path_mig_state, IBV_MIG_MIGRATED);
	assert_int_equal(attr.qkey, 1);
	assert_int_equal(attr.rq_psn, 2);
	assert_int_equal(attr.sq_psn, 3);
	assert_int_equal(attr.dest_qp_num, 4);
	assert_int_equal(attr.qp_access_flags, 5);
	assert_int_equal(attr.cap.max_send_wr, 6);
	assert_int_equal(attr.cap.max_inline_data, 10);
	assert_int_equal(attr.ah_attr.grh.dgid.raw[2], 3);
	assert_int_equal(attr.ah_attr.dlid, 11);
	assert_int_equal(attr.ah_attr.grh.hop_limit, 12);
	assert_int_equal(attr.ah_attr.is_global, 1);
	assert_int_equal(attr.pkey_index, 13);
	assert_int_equal(attr.sq_draining, 1);
	assert_int_equal(attr.max_rd_atomic, 14);
	assert_int_equal(attr.max_dest_rd_atomic, 15);
	assert_int_equal(attr.min_rnr_timer, 16);
	assert_int_equal(attr.port_num, 17);
	assert_int_equal(attr.timeout, 18);
	assert_int_equal(attr.retry_cnt, 19);
	assert_int_equal(attr.rnr_retry, 20);
	assert_int_equal(attr.rate_limit, 0xeeeeeeee); /* old programs have no room for it */
	assert_ptr_equal(init.send_cq, &cq->cq);
	assert_int_equal(init.qp_type, IBV_QPT_UD);
	assert_int_equal(init.cap.max_recv_sge, 9);
	assert_int_equal(init.sq_sig_all, 1);
	fake.fail[FF_MSG_QUERY_QP] = -EINVAL;
	assert_int_equal(ibv_query_qp(&qp->qp, &attr, 0, &init), EINVAL);
	ibv_destroy_qp(&qp->qp);
	ibv_destroy_cq(&cq->cq);
}

static void srq(void **state)
{
	struct ibv_srq_init_attr attr = { .srq_context = state, .attr = { 100, 3, 7 } };
	struct ibv_srq *srq = ibv_create_srq(fake.pd, &attr);
	struct ibv_srq_attr a = { .max_wr = 1, .srq_limit = 5 };
	uint32_t num;

	assert_non_null(srq);
	assert_int_equal(fake.srq_req.max_wr, 100);
	assert_int_equal(fake.srq_req.max_sge, 3);
	assert_int_equal(fake.srq_req.srq_limit, 7);
	assert_int_equal(attr.attr.max_wr, 128);
	assert_ptr_equal(srq->srq_context, state);
	assert_ptr_equal(srq->context, fake.pd->context);
	assert_ptr_equal(srq->pd, fake.pd);
	assert_int_equal(to_pd(fake.pd)->refs, 1);
	assert_int_equal(ffl_get_srq_num(srq, &num), 0);
	assert_int_equal(num, 77);

	assert_int_equal(ibv_modify_srq(srq, &a, IBV_SRQ_LIMIT), 0);
	assert_int_equal(fake.modify_srq.srq, srq->handle);
	assert_int_equal(fake.modify_srq.mask, IBV_SRQ_LIMIT);
	assert_int_equal(fake.modify_srq.srq_limit, 5);
	assert_int_equal(fake.modify_srq.max_wr, 0);
	assert_int_equal(ibv_modify_srq(srq, &a, IBV_SRQ_MAX_WR), EOPNOTSUPP);
	assert_int_equal(ibv_modify_srq(srq, &a, 4), EINVAL);
	assert_int_equal(ibv_query_srq(srq, &a), 0);
	assert_int_equal(a.max_wr, 64);
	assert_int_equal(a.max_sge, 3);
	assert_int_equal(a.srq_limit, 9);
	assert_int_equal(ibv_destroy_srq(srq), 0);

	attr.attr.max_wr = 0;
	assert_null(ibv_create_srq(fake.pd, &attr));
	assert_int_equal(errno, EINVAL);
	attr.attr.max_wr = 1025;
	assert_null(ibv_create_srq(fake.pd, &attr));
	attr.attr.max_wr = 4;
	attr.attr.max_sge = 5;
	assert_null(ibv_create_srq(fake.pd, &attr));
}

static void srq_ex(void **state)
{
	static const struct {
		uint32_t mask;
		int type;
		int err;
	} row[] = {
		{ IBV_SRQ_INIT_ATTR_PD, 0, 0 },
		{ IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQT_BASIC, 0 },
		{ IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQT_TM, EOPNOTSUPP },
		{ IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE, 99, EINVAL },
		{ IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQT_BASIC, EINVAL },
		{ IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ, 0, EINVAL },
		{ IBV_SRQ_INIT_ATTR_PD | 64, 0, EINVAL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct ibv_srq_init_attr_ex attr = { .attr = { 4, 1, 0 },
						     .comp_mask = row[i].mask,
						     .srq_type = row[i].type,
						     .pd = fake.pd };
		struct ibv_srq *srq;

		errno = 0;
		srq = ffl_create_srq_ex(&fake.ctx->v.context, &attr);
		assert_int_equal(!srq, row[i].err != 0);
		assert_int_equal(errno, row[i].err);
		if (srq)
			assert_int_equal(ibv_destroy_srq(srq), 0);
	}
}

/* A QP of an SRQ has no receive queue of its own. */
static void qp_with_srq(void **state)
{
	struct ffl_cq *cq = fake_cq(4);
	struct ibv_srq_init_attr sattr = { .attr = { 4, 1, 0 } };
	struct ibv_srq *srq = ibv_create_srq(fake.pd, &sattr);
	struct ibv_qp_init_attr_ex attr = ex_attr(cq);
	struct ibv_qp *qp;

	(void)state;
	attr.srq = srq;
	qp = ffl_create_qp_ex(&fake.ctx->v.context, &attr);
	assert_non_null(qp);
	assert_int_equal(fake.qp_req.srq, srq->handle);
	assert_int_equal(fake.qp_req.cap.max_recv_wr, 0);
	assert_int_equal(to_qp(qp)->rq_depth, 0);
	assert_ptr_equal(qp->srq, srq);
	assert_int_equal(to_pd(fake.pd)->refs, 2);
	assert_int_equal(ibv_destroy_srq(srq), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_destroy_cq(&cq->cq), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, fake_setup, fake_teardown)

	return UNIT_RUN(T(create), T(create_refused), T(create_unwinds), T(modify), T(posted_leave),
			T(peer_left), T(reset), T(query), T(srq), T(srq_ex), T(qp_with_srq));
}
