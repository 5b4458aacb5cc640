/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_xrc.c - XRC in the library: what it asks the router for, what it refuses by itself,
 * what a work request names, and what becomes of completions when an SRQ goes.
 *
 * build: tests/rig/fakes/fake_ffl.c ffl/session/bell.c ffl/verbs/post.c ffl/verbs/post_ex.c ffl/verbs/qp.c ffl/verbs/cq.c ffl/verbs/gone.c ffl/verbs/cq_ex.c ffl/verbs/srq.c ffl/verbs/channel.c ffl/verbs/home.c ffl/session/table.c ffl/verbs/async.c ffl/verbs/domain.c ffl/verbs/xrc.c
 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/fakes/fake_ffl.h"

#define ALL (IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS)

static struct ibv_context *ctx(void)
{
	return &fake.ctx->v.context;
}

static struct ibv_xrcd *xrcd_open(void)
{
	struct ibv_xrcd_init_attr attr = { .comp_mask = ALL, .fd = -1, .oflags = O_CREAT };
	struct ibv_xrcd *x = ffl_open_xrcd(ctx(), &attr);

	assert_non_null(x);
	return x;
}

static void domains(void **state)
{
	int fd = open("/", O_RDONLY);
	struct ibv_xrcd_init_attr attr = { .comp_mask = ALL, .fd = fd };
	struct ibv_xrcd *x;
	struct stat st;

	(void)state;
	assert_int_equal(fstat(fd, &st), 0);
	attr.oflags = O_CREAT | O_EXCL | O_RDWR;
	x = ffl_open_xrcd(ctx(), &attr);
	assert_non_null(x);
	assert_ptr_equal(x->context, ctx());
	assert_int_equal(fake.xrcd_req.has_file, 1);
	assert_int_equal(fake.xrcd_req.dev, st.st_dev);
	assert_int_equal(fake.xrcd_req.ino, st.st_ino);
	assert_int_equal(fake.xrcd_req.flags, FF_XRCD_CREATE | FF_XRCD_EXCLUSIVE);
	assert_int_equal(ffl_close_xrcd(x), 0);
	close(fd);

	errno = 0;
	assert_null(ffl_open_xrcd(ctx(), &attr)); /* the descriptor is closed */
	assert_int_equal(errno, EBADF);
	attr.comp_mask = IBV_XRCD_INIT_ATTR_FD;
	assert_null(ffl_open_xrcd(ctx(), &attr));
	assert_int_equal(errno, EINVAL);
	attr.comp_mask = ALL | 1u << 2;
	assert_null(ffl_open_xrcd(ctx(), &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	fake.fail[FF_MSG_OPEN_XRCD] = -EAGAIN;
	attr = (struct ibv_xrcd_init_attr){ .comp_mask = ALL, .fd = -1 };
	assert_null(ffl_open_xrcd(ctx(), &attr));
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(fake.xrcd_req.has_file, 1); /* not asked since */
}

#define SRQ_XRC                                                                                    \
	(IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |                  \
	 IBV_SRQ_INIT_ATTR_CQ)

static struct ibv_srq *srq_make(struct ibv_xrcd *x, struct ffl_cq *cq, uint32_t mask)
{
	struct ibv_srq_init_attr_ex attr = { .attr = { 4, 1, 0 },
					     .comp_mask = mask,
					     .srq_type = IBV_SRQT_XRC,
					     .pd = fake.pd,
					     .xrcd = x,
					     .cq = cq ? &cq->cq : NULL };

	errno = 0;
	return ffl_create_srq_ex(ctx(), &attr);
}

static void srqs(void **state)
{
	struct ffl_context other = { 0 };
	struct ffl_xrcd foreign = { .ctx = &other };
	struct ibv_xrcd *x = xrcd_open();
	struct ffl_cq *cq = fake_cq(8);
	struct ibv_srq *srq;
	uint32_t num;

	(void)state;
#define REFUSED(...)                                                                               \
	do {                                                                                       \
		assert_null(srq_make(__VA_ARGS__));                                                \
		assert_int_equal(errno, EINVAL);                                                   \
	} while (0)
	REFUSED(x, cq, SRQ_XRC & ~(uint32_t)IBV_SRQ_INIT_ATTR_CQ);
	REFUSED(x, cq, SRQ_XRC & ~(uint32_t)IBV_SRQ_INIT_ATTR_XRCD);
	REFUSED(x, cq, SRQ_XRC & ~(uint32_t)IBV_SRQ_INIT_ATTR_PD);
	REFUSED(x, cq, SRQ_XRC & ~(uint32_t)IBV_SRQ_INIT_ATTR_TYPE);
	REFUSED(NULL, cq, SRQ_XRC);
	REFUSED(x, NULL, SRQ_XRC);
	REFUSED(&foreign.ibv, cq, SRQ_XRC);
#undef REFUSED
	assert_int_equal(fake.calls[FF_MSG_CREATE_SRQ], 0);
	srq = srq_make(x, cq, SRQ_XRC);
	assert_non_null(srq);
	assert_int_not_equal(fake.srq_req.xrcd, 0);
	assert_int_equal(fake.srq_req.cq, cq->handle);
	assert_int_equal(ffl_get_srq_num(srq, &num), 0);
	assert_int_equal(num, 77);
	/* it holds both */
	assert_int_equal(ffl_close_xrcd(x), EBUSY);
	assert_int_equal(ibv_destroy_cq(&cq->cq), EBUSY);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ffl_close_xrcd(x), 0);
	assert_int_equal(ibv_destroy_cq(&cq->cq), 0);
}

/* Completions of a destroyed SRQ are forgotten; a QP whose handle has the same value keeps its. */
static void a_destroyed_srq_leaves_no_completions(void **state)
{
	struct ibv_xrcd *x = xrcd_open();
	struct ffl_cq *cq = fake_cq(8);
	struct ibv_srq *srq = srq_make(x, cq, SRQ_XRC);
	struct ff_cqe cqe = { .qp = FF_CQE_OF_SRQ | to_srq(srq)->handle,
			      .opcode = FF_CQE_RECV,
			      .wr_id = 1 };
	struct ibv_wc wc[4];

	(void)state;
	fake_cqe(cq, 0, &cqe);
	cqe.qp = to_srq(srq)->handle;
	cqe.opcode = IBV_WC_SEND;
	cqe.wr_id = 2;
	fake_cqe(cq, 1, &cqe);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ffl_poll_cq(&cq->cq, 4, wc), 1);
	assert_int_equal(wc[0].wr_id, 2);
	assert_int_equal(ffl_close_xrcd(x), 0);
	assert_int_equal(ibv_destroy_cq(&cq->cq), 0);
}

/* ---- QPs ------------------------------------------------------------------------------------- */

static struct ibv_qp *recv_make(struct ibv_xrcd *x, uint32_t mask)
{
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_XRC_RECV,
					    .cap = { 0, 100, 0, 1, 200 },
					    .comp_mask = mask,
					    .xrcd = x };

	errno = 0;
	return ffl_create_qp_ex(ctx(), &attr);
}

static void a_recv_qp_has_a_domain_and_nothing_else(void **state)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	struct ibv_recv_wr rwr = { 0 }, *bad_rwr;
	struct ibv_xrcd *x = xrcd_open();
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct ibv_qp *qp;

	(void)state;
	assert_null(recv_make(x, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(recv_make(NULL, IBV_QP_INIT_ATTR_XRCD));
	assert_int_equal(errno, EINVAL);
	qp = recv_make(x, IBV_QP_INIT_ATTR_XRCD);
	assert_non_null(qp);
	assert_null(qp->pd);
	assert_null(qp->send_cq);
	assert_null(qp->recv_cq);
	assert_int_equal(qp->qp_type, IBV_QPT_XRC_RECV);
	assert_int_equal(ffl_close_xrcd(x), EBUSY);
	/* nothing can be posted, whatever its state */
	qp->state = IBV_QPS_RTS;
	assert_int_equal(ffl_post_send(qp, &wr, &bad), ENOMEM);
	assert_int_equal(ffl_post_recv(qp, &rwr, &bad_rwr), EINVAL);
	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	assert_null(init.send_cq);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ffl_close_xrcd(x), 0);
}

static void a_qp_is_opened_by_its_number(void **state)
{
	struct ibv_xrcd *x = xrcd_open();
	struct ibv_qp_open_attr attr = { .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						      IBV_QP_OPEN_ATTR_TYPE |
						      IBV_QP_OPEN_ATTR_CONTEXT,
					 .qp_num = 0x1234,
					 .xrcd = x,
					 .qp_context = &attr,
					 .qp_type = IBV_QPT_XRC_RECV };
	struct ibv_qp *qp;

	(void)state;
	qp = ffl_open_qp(ctx(), &attr);
	assert_non_null(qp);
	assert_int_equal(fake.open_qp_req.qp_num, 0x1234);
	assert_int_equal(fake.open_qp_req.qp_type, IBV_QPT_XRC_RECV);
	assert_int_equal(qp->qp_num, 0x1234);
	assert_int_equal(qp->state, IBV_QPS_RTR);
	assert_ptr_equal(qp->qp_context, &attr);
	assert_int_equal(ffl_close_xrcd(x), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	errno = 0;
	attr.comp_mask &= ~(uint32_t)IBV_QP_OPEN_ATTR_TYPE;
	assert_null(ffl_open_qp(ctx(), &attr));
	assert_int_equal(errno, EINVAL);
	attr.comp_mask |= IBV_QP_OPEN_ATTR_RESERVED;
	assert_null(ffl_open_qp(ctx(), &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ffl_close_xrcd(x), 0);
}

static void a_send_qp_has_no_receive_queue(void **state)
{
	struct ffl_cq *cq = fake_cq(8);
	struct ibv_cq foreign = { 0 };
	struct ibv_qp_init_attr attr = { .send_cq = &cq->cq,
					 .recv_cq = &foreign, /* not looked at */
					 .cap = { 4, 100, 1, 3, 0 },
					 .qp_type = IBV_QPT_XRC_SEND };
	struct ibv_recv_wr rwr = { 0 }, *bad;
	struct ibv_qp *qp = ibv_create_qp(fake.pd, &attr);

	(void)state;
	assert_non_null(qp);
	assert_int_equal(fake.qp_req.recv_cq, 0);
	assert_int_equal(fake.qp_req.cap.max_recv_wr, 0);
	assert_int_equal(attr.cap.max_recv_wr, 0);
	assert_null(qp->recv_cq);
	qp->state = IBV_QPS_RTS;
	assert_int_equal(ffl_post_recv(qp, &rwr, &bad), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(&cq->cq), 0);
}

static void work_requests_name_their_srq(void **state)
{
	static const struct {
		enum ibv_wr_opcode op;
		bool in_imm;
	} row[] = {
		{ IBV_WR_SEND, false },
		{ IBV_WR_SEND_WITH_IMM, false },
		{ IBV_WR_RDMA_WRITE, false },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, false },
		{ IBV_WR_RDMA_READ, false },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, true },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, true },
	};
	struct ffl_cq *cq = fake_cq(8);
	struct ffl_qp *qp = fake_qp(IBV_QPT_XRC_SEND, cq, 16, 1, 0, true);

	(void)state;
	for (uint32_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct ibv_send_wr wr = { .opcode = row[i].op, .imm_data = 9 }, *bad;
		const struct ff_sqe *e;

		wr.qp_type.xrc.remote_srqn = 1000 + i;
		wr.wr.atomic.compare_add = 5;
		assert_int_equal(ffl_post_send(&qp->qp, &wr, &bad), 0);
		e = fake_sqe(qp, i);
		assert_non_null(e);
		assert_int_equal(row[i].in_imm ? e->imm : e->remote_srqn, 1000 + i);
		if (row[i].in_imm)
			assert_int_equal(e->atomic.compare_add, 5);
		else
			assert_int_equal(e->imm, 9);
	}
	assert_int_equal(ibv_destroy_qp(&qp->qp), 0);
	assert_int_equal(ibv_destroy_cq(&cq->cq), 0);
}

static void built_work_requests_name_their_srq(void **state)
{
	struct ffl_cq *cq = fake_cq(8);
	struct ffl_qp *rc = fake_qp_ex(IBV_QPT_RC, cq, 16, 1, 0);
	struct ffl_qp *qp = fake_qp_ex(IBV_QPT_XRC_SEND, cq, 16, 1, 0);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(&qp->qp);

	(void)state;
	ibv_wr_start(ex);
	ibv_wr_send_imm(ex, 9);
	ibv_wr_set_xrc_srqn(ex, 1000);
	ibv_wr_rdma_write(ex, 4, 5);
	ibv_wr_set_xrc_srqn(ex, 1001);
	ex->wr_atomic_fetch_add = rc->ex.wr_atomic_fetch_add;
	ibv_wr_atomic_fetch_add(ex, 4, 8, 6);
	ibv_wr_set_xrc_srqn(ex, 1002);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(fake_sqe(qp, 0)->remote_srqn, 1000);
	assert_int_equal(fake_sqe(qp, 0)->imm, 9);
	assert_int_equal(fake_sqe(qp, 1)->remote_srqn, 1001);
	assert_int_equal(fake_sqe(qp, 2)->imm, 1002);
	assert_int_equal(fake_sqe(qp, 2)->atomic.compare_add, 6);
	/* no SRQ of the peer's for others */
	ex = ibv_qp_to_qp_ex(&rc->qp);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_xrc_srqn(ex, 1);
	assert_int_not_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(ibv_destroy_qp(&qp->qp), 0);
	assert_int_equal(ibv_destroy_qp(&rc->qp), 0);
	assert_int_equal(ibv_destroy_cq(&cq->cq), 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fake_setup, fake_teardown)

int main(void)
{
	return UNIT_RUN(T(domains), T(srqs), T(a_destroyed_srq_leaves_no_completions),
			T(a_recv_qp_has_a_domain_and_nothing_else), T(a_qp_is_opened_by_its_number),
			T(a_send_qp_has_no_receive_queue), T(work_requests_name_their_srq),
			T(built_work_requests_name_their_srq));
}
