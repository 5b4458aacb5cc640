/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/windows.c tests/rig/unit/soft_pair.c tests/rig/unit/rig.c */
/*
 * test_mw_inval.c - windows that are invalidated: by a SEND, while a request goes on, between other WRs. On
 * the software device, on virtual time.
 */
#include <string.h>

#include "tests/rig/unit/windows.h"
#include "tests/rig/unit/unit.h"

static void send_with_invalidate(void **state)
{
	struct pair p;
	struct mw *mw, *one;
	struct ff_cqe c;
	uint32_t rkey;

	(void)state;
	windows_up(&p, IBV_QPT_RC);
	mw = window_new(p.s[1], IBV_MW_TYPE_2);
	one = window_new(p.s[1], IBV_MW_TYPE_1);
	assert_int_equal(window_bind(&p, mw, 0, 4096, RW, 1), IBV_WC_SUCCESS);
	rkey = mw->rkey;

	/* no receive yet: it waits, and the window with it */
	window_send_inv(&p, rkey, 100);
	assert_false(rig_poll(p.cq[0], &c));
	assert_ptr_equal(mw->mr, p.mr[1]);
	rig_recv(&p.r, p.qp[1], 40, p.mr[1], pair_at(&p, 1, 8192), 4096);
	rig_run(&p.r);
	assert_int_equal(pair_status(p.cq[0], 6, IBV_WC_SEND), IBV_WC_SUCCESS);
	assert_true(rig_poll(p.cq[1], &c));
	assert_int_equal(c.wr_id, 40);
	assert_int_equal(c.status, IBV_WC_SUCCESS);
	assert_int_equal(c.opcode, IBV_WC_RECV);
	assert_int_equal(c.flags, FF_CQE_INV);
	assert_int_equal(c.imm, rkey);
	assert_int_equal(c.byte_len, 100);
	assert_memory_equal(p.buf[1] + 8192, p.buf[0], 100);
	assert_null(mw->mr);
	assert_false(window_writes(&p, 0, rkey, 8));

	/* what is not a valid type 2 window bound to that QP cannot be invalidated */
	assert_int_equal(window_bind(&p, one, 0, 4096, RW, 1), IBV_WC_SUCCESS);
	const uint32_t bad[] = { rkey, rkey ^ 0x10000, one->rkey, p.mr[1]->rkey, 0 };
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		rig_recv(&p.r, p.qp[1], 41, p.mr[1], pair_at(&p, 1, 8192), 4096);
		window_send_inv(&p, bad[i], 100);
		assert_int_equal(pair_status(p.cq[0], 6, IBV_WC_SEND), IBV_WC_REM_ACCESS_ERR);
		assert_int_equal(pair_status(p.cq[1], 41, IBV_WC_RECV), IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(rig_async(p.s[1], NULL), IBV_EVENT_QP_ACCESS_ERR + 1);
		windows_revive(&p);
	}
	assert_ptr_equal(one->mr, p.mr[1]);

	/* inline, and of many quanta */
	p.r.f->conf.quantum = 4096;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(window_bind(&p, mw, 0, 4096, RW, (uint8_t)(2 + i)),
				 IBV_WC_SUCCESS);
		rig_recv(&p.r, p.qp[1], 42, p.mr[1], pair_at(&p, 1, 8192), 500000);
		if (i) {
			window_send_inv(&p, mw->rkey, 400000);
		} else {
			struct ff_sqe *e = rig_sqe(p.qp[0], FF_OP_SEND_INV, 6);

			e->flags |= FF_SQE_INLINE;
			e->num_sge = 5;
			memcpy(e->inl, "hello", 5);
			e->imm = mw->rkey;
			rig_post(&p.r, p.qp[0]);
			rig_run(&p.r);
			assert_memory_equal(p.buf[1] + 8192, "hello", 5);
		}
		assert_int_equal(pair_status(p.cq[0], 6, IBV_WC_SEND), IBV_WC_SUCCESS);
		assert_int_equal(pair_status(p.cq[1], 42, IBV_WC_RECV), IBV_WC_SUCCESS);
		assert_null(mw->mr);
	}
	window_free(&p, mw);
	window_free(&p, one);
	windows_down(&p);
}

/* Invalidated in the middle of a long request: what is left of it is refused. */
static void invalidate_under_way(void **state)
{
	struct pair p;
	struct ff_sqe *e;
	struct mw *mw;

	(void)state;
	windows_up(&p, IBV_QPT_RC);
	p.r.f->conf.quantum = 4096;
	mw = window_new(p.s[1], IBV_MW_TYPE_2);
	assert_int_equal(window_bind(&p, mw, 0, PAIR_BUF, RW, 1), IBV_WC_SUCCESS);
	memset(p.buf[0], 0x11, PAIR_BUF);
	e = rig_sqe(p.qp[0], FF_OP_WRITE, 5);
	rig_sge(e, p.mr[0], pair_at(&p, 0, 0), 400000);
	e->remote_addr = pair_at(&p, 1, 0);
	e->rkey = mw->rkey;
	rig_post(&p.r, p.qp[0]);
	for (int i = 0; i < 3; i++)
		fast_turn(p.r.f);
	assert_int_equal(p.buf[1][0], 0x11);
	assert_int_equal(p.buf[1][399999], 0xa1);
	assert_int_equal(window_local_inv(&p, mw->rkey), IBV_WC_SUCCESS);
	assert_int_equal(pair_status(p.cq[0], 5, IBV_WC_RDMA_WRITE), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(p.buf[1][399999], 0xa1);
	window_free(&p, mw);
	windows_down(&p);
}

/* WRs behind a bind find it done; a READ before an invalidation is done before it. */
static void order(void **state)
{
	struct pair p;
	struct ff_sqe *e;
	struct ff_cqe c;
	struct mw *mw;

	(void)state;
	windows_up(&p, IBV_QPT_RC);
	p.r.f->conf.quantum = 4096;
	mw = window_new(p.s[1], IBV_MW_TYPE_2);
	p.mr[0]->access |= RW;
	/* end 1: READ of many quanta, bind, SEND that tells, invalidate; all posted at once */
	e = rig_sqe(p.qp[1], FF_OP_READ, 1);
	rig_sge(e, p.mr[1], pair_at(&p, 1, 0), 100000);
	e->remote_addr = pair_at(&p, 0, 0);
	e->rkey = p.mr[0]->rkey;
	rig_post(&p.r, p.qp[1]);
	e = rig_sqe(p.qp[1], FF_OP_BIND_MW, 2);
	e->remote_addr = pair_at(&p, 1, 0);
	e->rkey = 1;
	e->imm = RW;
	e->bind.length = 4096;
	e->bind.mw = mw->o.handle;
	e->bind.lkey = p.mr[1]->lkey;
	rig_post(&p.r, p.qp[1]);
	rig_sqe(p.qp[1], FF_OP_SEND, 3);
	rig_post(&p.r, p.qp[1]);
	fast_turn(p.r.f);
	assert_null(mw->mr); /* the READ is not done */
	rig_recv(&p.r, p.qp[0], 30, NULL, 0, 0);
	rig_run(&p.r);
	for (uint64_t id = 1; id <= 3; id++) {
		assert_true(rig_poll(p.cq[1], &c));
		assert_int_equal(c.wr_id, id);
		assert_int_equal(c.status, IBV_WC_SUCCESS);
		assert_int_equal(c.byte_len, id == 1 ? 100000 : 0);
	}
	assert_int_equal(pair_status(p.cq[0], 30, IBV_WC_RECV), IBV_WC_SUCCESS);
	assert_true(window_writes(&p, 0, mw->rkey, 8));
	assert_int_equal(stats_of_session(&p.s[1]->s).mw_ops, 1);
	window_free(&p, mw);
	windows_down(&p);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(send_with_invalidate),
			cmocka_unit_test(invalidate_under_way), cmocka_unit_test(order));
}
