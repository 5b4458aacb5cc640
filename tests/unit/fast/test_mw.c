/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/rig/unit/deep_rig.c tests/rig/unit/windows.c tests/rig/unit/soft_pair.c tests/rig/unit/rig.c */
/*
 * test_mw.c - memory windows on the software device, on virtual time: who can reach what through
 * them and until when.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/rig/unit/deep_rig.h"
#include "tests/rig/unit/windows.h"
#include "tests/rig/unit/unit.h"

/* ---- type 1 --------------------------------------------------------------------------------- */

static void type1_gives_its_part_and_rights(void **state)
{
	struct pair p;
	struct mw *mw;
	uint32_t old;

	(void)state;
	windows_up(&p, IBV_QPT_RC);
	mw = window_new(p.s[1], IBV_MW_TYPE_1);
	assert_false(window_writes(&p, 100, p.mr[1]->rkey, 8)); /* the MR itself gives no right */
	assert_false(window_writes(&p, 100, mw->rkey, 8));	/* bound to nothing */

	old = mw->rkey;
	assert_int_equal(window_bind(&p, mw, 100, 1000, IBV_ACCESS_REMOTE_WRITE, 7),
			 IBV_WC_SUCCESS);
	assert_int_equal(mw->rkey, (old & ~0xffu) | 7);
	assert_int_equal(p.mr[1]->o.refs, 1);
	memset(p.buf[0], 0x5a, PAIR_BUF);
	assert_true(window_writes(&p, 100, mw->rkey, 1000));
	assert_memory_equal(p.buf[1] + 100, p.buf[0], 1000);
	assert_int_equal(p.buf[1][99], 0xa1);
	assert_int_equal(p.buf[1][1100], 0xa1);
	assert_true(window_writes(&p, 1099, mw->rkey, 1));
	assert_false(window_writes(&p, 99, mw->rkey, 1));
	assert_false(window_writes(&p, 1099, mw->rkey, 2));
	assert_false(window_writes(&p, 1101, mw->rkey, 1));
	assert_false(window_writes(&p, 100, mw->rkey ^ 1, 8)); /* the low byte is part of the key */
	assert_int_equal(window_rdma(&p, FF_OP_READ, pair_at(&p, 1, 100), mw->rkey, 8),
			 IBV_WC_REM_ACCESS_ERR);
	windows_revive(&p);

	/* bound again: another part, other rights, and the rkey of before is dead */
	old = mw->rkey;
	assert_int_equal(window_bind(&p, mw, 0, 16,
				     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC, 8),
			 IBV_WC_SUCCESS);
	assert_int_equal(p.mr[1]->o.refs, 1);
	assert_false(window_writes(&p, 100, old, 8));
	assert_false(window_writes(&p, 0, mw->rkey, 8));
	assert_int_equal(window_rdma(&p, FF_OP_READ, pair_at(&p, 1, 0), mw->rkey, 16),
			 IBV_WC_SUCCESS);
	memset(p.buf[1], 0, 16);
	assert_int_equal(window_rdma(&p, FF_OP_FETCH_ADD, pair_at(&p, 1, 8), mw->rkey, 8),
			 IBV_WC_SUCCESS);
	assert_int_equal(p.buf[1][8], 1);

	/* to nothing */
	old = mw->rkey;
	assert_int_equal(window_bind(&p, mw, 0, 0, 0, 9), IBV_WC_SUCCESS);
	assert_int_equal(p.mr[1]->o.refs, 0);
	assert_int_equal(window_rdma(&p, FF_OP_READ, pair_at(&p, 1, 0), old, 8),
			 IBV_WC_REM_ACCESS_ERR);
	windows_revive(&p);
	assert_int_equal(window_rdma(&p, FF_OP_READ, pair_at(&p, 1, 0), mw->rkey, 8),
			 IBV_WC_REM_ACCESS_ERR);
	windows_revive(&p);

	/* destroyed while it is bound */
	assert_int_equal(window_bind(&p, mw, 0, 16, RW, 10), IBV_WC_SUCCESS);
	old = mw->rkey;
	assert_true(window_writes(&p, 0, old, 8));
	window_free(&p, mw);
	assert_int_equal(p.mr[1]->o.refs, 0);
	assert_false(window_writes(&p, 0, old, 8));
	windows_down(&p);
}

/* Requests of more than one quantum, of several SGEs and through process memory. */
static void windows_serve_every_path(void **state)
{
	struct pair p;
	struct mr *slow;
	struct mw *mw;

	(void)state;
	windows_up(&p, IBV_QPT_RC);
	p.r.f->conf.quantum = 4096;
	mw = window_new(p.s[1], IBV_MW_TYPE_1);
	for (uint32_t i = 0; i < PAIR_BUF; i++)
		p.buf[0][i] = (uint8_t)(i * 31 >> 3);
	assert_int_equal(window_bind(&p, mw, 4096, 500000, RW, 1), IBV_WC_SUCCESS);
	assert_true(window_writes(&p, 4096, mw->rkey, 500000));
	assert_memory_equal(p.buf[1] + 4096, p.buf[0], 500000);

	slow = rig_mr_pvm(&p.r, p.s[1], p.buf[1], PAIR_BUF, BINDABLE);
	assert_int_equal(window_bind_mr(&p, p.qp[1], mw, slow, 10, 200000, RW, 2), IBV_WC_SUCCESS);
	assert_int_equal(p.mr[1]->o.refs, 0);
	assert_int_equal(slow->o.refs, 1);
	assert_true(window_writes(&p, 10, mw->rkey, 200000));
	assert_memory_equal(p.buf[1] + 10, p.buf[0], 200000);
	assert_false(window_writes(&p, 10, mw->rkey, 200001));
	window_free(&p, mw);
	rig_mr_free(&p.r, slow);
	windows_down(&p);
}

static void bind_is_checked(void **state)
{
	struct pair p;
	struct mr *plain, *reader, *elsewhere;
	struct rig_ses *other;
	struct mw *mw, *foreign, *of_pd;
	struct pd pd2 = { 0 };

	(void)state;
	windows_up(&p, IBV_QPT_RC);
	other = rig_session(&p.r, 1); /* of the same container */
	mw = window_new(p.s[1], IBV_MW_TYPE_1);
	foreign = window_new(other, IBV_MW_TYPE_1);
	plain = rig_mr(&p.r, p.s[1], p.buf[1], PAIR_BUF, IBV_ACCESS_LOCAL_WRITE | RW);
	reader = rig_mr(&p.r, p.s[1], p.buf[1], PAIR_BUF, IBV_ACCESS_MW_BIND);
	elsewhere = rig_mr(&p.r, other, p.buf[1], PAIR_BUF, BINDABLE);
#define BAD(expr)                                                                                  \
	do {                                                                                       \
		assert_int_equal(expr, IBV_WC_MW_BIND_ERR);                                        \
		assert_int_equal(p.qp[1]->qp.state, IBV_QPS_ERR);                                  \
		assert_null(mw->mr);                                                               \
		windows_revive(&p);                                                                \
	} while (0)
	BAD(window_bind(&p, mw, 0, PAIR_BUF + 1, RW, 1));
	BAD(window_bind(&p, mw, PAIR_BUF - 10, 11, RW, 1));
	BAD(window_bind(&p, mw, (uint64_t)-10, 11, RW, 1));
	BAD(window_bind(&p, mw, 1, UINT64_MAX, RW, 1));
	BAD(window_bind(&p, mw, 0, 8, RW | IBV_ACCESS_ON_DEMAND, 1));
	BAD(window_bind(&p, mw, 0, 8, RW | IBV_ACCESS_MW_BIND, 1));
	BAD(window_bind(&p, mw, 0, 8, RW | IBV_ACCESS_ZERO_BASED, 1)); /* not for type 1 */
	BAD(window_bind_mr(&p, p.qp[1], mw, plain, 0, 8, RW, 1));
	BAD(window_bind_mr(&p, p.qp[1], mw, reader, 0, 8, IBV_ACCESS_REMOTE_WRITE, 1));
	BAD(window_bind_mr(&p, p.qp[1], mw, reader, 0, 8, IBV_ACCESS_REMOTE_ATOMIC, 1));
	BAD(window_bind_mr(&p, p.qp[1], mw, elsewhere, 0, 8, RW, 1));
	BAD(window_bind_mr(&p, p.qp[1], mw, p.mr[0], 0, 8, RW, 1)); /* another container's */
	/* its handle means nothing in this session, or another window of it */
	if (foreign->o.handle != mw->o.handle)
		BAD(window_bind(&p, foreign, 0, 8, RW, 1));
	of_pd = window_new(p.s[1], IBV_MW_TYPE_1);
	of_pd->pd = &pd2;
	BAD(window_bind(&p, of_pd, 0, 8, RW, 1));
	assert_null(of_pd->mr);
#undef BAD
	/* the MR need not grant what the window does, but remote window_writes want local write */
	assert_int_equal(window_bind_mr(&p, p.qp[1], mw, reader, 0, 8, IBV_ACCESS_REMOTE_READ, 2),
			 IBV_WC_SUCCESS);
	assert_int_equal(window_rdma(&p, FF_OP_READ, pair_at(&p, 1, 0), mw->rkey, 8),
			 IBV_WC_SUCCESS);
	/* a failed bind leaves the window as it was */
	assert_int_equal(window_bind(&p, mw, 0, PAIR_BUF + 1, RW, 3), IBV_WC_MW_BIND_ERR);
	windows_revive(&p);
	assert_int_equal(window_rdma(&p, FF_OP_READ, pair_at(&p, 1, 0), mw->rkey, 8),
			 IBV_WC_SUCCESS);

	window_free(&p, mw);
	window_free(&p, of_pd);
	window_free(&p, foreign);
	rig_mr_free(&p.r, plain);
	rig_mr_free(&p.r, reader);
	rig_mr_free(&p.r, elsewhere);
	rig_session_free(&p.r, other);
	windows_down(&p);
}

/* A window opens nothing to QPs of another PD, nor its key anything in another container. */
static void windows_are_of_their_pd(void **state)
{
	struct pair p;
	struct ff_sqe *e;
	struct mw *mw;
	struct pd pd2 = { 0 };

	(void)state;
	windows_up(&p, IBV_QPT_RC);
	mw = window_new(p.s[1], IBV_MW_TYPE_1);
	assert_int_equal(window_bind(&p, mw, 0, 4096, RW, 1), IBV_WC_SUCCESS);
	assert_true(window_writes(&p, 0, mw->rkey, 8));
	p.qp[1]->qp.pd = &pd2;
	assert_false(window_writes(&p, 0, mw->rkey, 8));
	p.qp[1]->qp.pd = &p.s[1]->pd;
	assert_true(window_writes(&p, 0, mw->rkey, 8));
	assert_null(mw_lookup(&p.r.cont[0].windows, mw->rkey));
	/* an rkey of a window is no lkey */
	e = rig_sqe(p.qp[1], FF_OP_SEND, 9);
	rig_sge(e, p.mr[1], pair_at(&p, 1, 0), 8);
	e->sge[0].lkey = mw->rkey;
	rig_post(&p.r, p.qp[1]);
	rig_run(&p.r);
	assert_int_equal(pair_status(p.cq[1], 9, IBV_WC_SEND), IBV_WC_LOC_PROT_ERR);
	window_free(&p, mw);
	windows_down(&p);
}

/* ---- type 2 --------------------------------------------------------------------------------- */

static void type2_is_its_qps_alone(void **state)
{
	struct pair p;
	struct rig_qp *q0, *q1;
	struct mw *mw;
	uint32_t old;

	(void)state;
	windows_up(&p, IBV_QPT_RC);
	mw = window_new(p.s[1], IBV_MW_TYPE_2);
	q0 = rig_qp(&p.r, p.s[0], IBV_QPT_RC, p.cq[0], p.cq[0], NULL);
	q1 = rig_qp(&p.r, p.s[1], IBV_QPT_RC, p.cq[1], p.cq[1], NULL);
	rig_connect(&p.r, q0, q1);
	rig_connect(&p.r, q1, q0);

	assert_int_equal(window_bind_mr(&p, q1, mw, p.mr[1], 0, 4096, RW, 1), IBV_WC_SUCCESS);
	assert_false(window_writes(&p, 0, mw->rkey, 8)); /* through p.qp, not q */
	/* bound: not again, by nobody, before it was invalidated; by the other QP not at all */
	assert_int_equal(window_bind(&p, mw, 0, 4096, RW, 2), IBV_WC_MW_BIND_ERR);
	windows_revive(&p);
	assert_int_equal(window_bind(&p, mw, 0, 0, 0, 2), IBV_WC_MW_BIND_ERR);
	windows_revive(&p);
	assert_int_equal(window_local_inv(&p, mw->rkey), IBV_WC_MW_BIND_ERR);
	windows_revive(&p);
	assert_ptr_equal(mw->qp, &q1->qp);

	/* its QP goes: bound to nothing, and free for another one */
	rig_qp_free(&p.r, q1);
	assert_null(mw->mr);
	assert_int_equal(p.mr[1]->o.refs, 0);
	assert_int_equal(window_bind(&p, mw, 0, 4096, RW, 3), IBV_WC_SUCCESS);
	assert_true(window_writes(&p, 0, mw->rkey, 8));

	old = mw->rkey;
	assert_int_equal(window_local_inv(&p, old ^ 1), IBV_WC_MW_BIND_ERR); /* another low byte */
	windows_revive(&p);
	assert_true(window_writes(&p, 0, old, 8)); /* RESET leaves it bound */
	assert_int_equal(window_local_inv(&p, old), IBV_WC_SUCCESS);
	assert_false(window_writes(&p, 0, old, 8));
	assert_int_equal(window_local_inv(&p, old),
			 IBV_WC_MW_BIND_ERR); /* it is not valid any more */
	windows_revive(&p);
	assert_int_equal(window_local_inv(&p, p.mr[1]->rkey), IBV_WC_MW_BIND_ERR);
	windows_revive(&p);
	assert_int_equal(window_local_inv(&p, 0), IBV_WC_MW_BIND_ERR);
	windows_revive(&p);

	/* a bind of length 0 invalidates, too */
	assert_int_equal(window_bind(&p, mw, 0, 4096, RW, 4), IBV_WC_SUCCESS);
	old = mw->rkey;
	assert_int_equal(window_bind(&p, mw, 0, 0, 0, 5), IBV_WC_SUCCESS);
	assert_false(window_writes(&p, 0, old, 8));
	assert_int_equal(p.mr[1]->o.refs, 0);

	window_free(&p, mw);
	rig_qp_free(&p.r, q0);
	windows_down(&p);
}

static void zero_based(void **state)
{
	struct pair p;
	struct mw *mw;

	(void)state;
	windows_up(&p, IBV_QPT_RC);
	mw = window_new(p.s[1], IBV_MW_TYPE_2);
	assert_int_equal(window_bind(&p, mw, 1000, 64, RW | IBV_ACCESS_ZERO_BASED, 1),
			 IBV_WC_SUCCESS);
	memset(p.buf[0], 0x33, 64);
	assert_int_equal(window_rdma(&p, FF_OP_WRITE, 0, mw->rkey, 64), IBV_WC_SUCCESS);
	assert_memory_equal(p.buf[1] + 1000, p.buf[0], 64);
	assert_int_equal(p.buf[1][999], 0xa1);
	assert_int_equal(window_rdma(&p, FF_OP_READ, 63, mw->rkey, 1), IBV_WC_SUCCESS);
	assert_int_equal(window_rdma(&p, FF_OP_READ, 63, mw->rkey, 2), IBV_WC_REM_ACCESS_ERR);
	windows_revive(&p);
	assert_false(
		window_writes(&p, 1000, mw->rkey, 8)); /* the address of the MR is none of it */
	window_free(&p, mw);
	windows_down(&p);
}

/* ---- which QPs ------------------------------------------------------------------------------ */

static void qp_types(void **state)
{
	struct pair p;
	struct mw *mw;

	(void)state;
	windows_up(&p, IBV_QPT_UC);
	mw = window_new(p.s[1], IBV_MW_TYPE_2);
	assert_int_equal(window_bind(&p, mw, 0, 4096, RW, 1), IBV_WC_SUCCESS);
	assert_true(window_writes(&p, 0, mw->rkey, 8));
	assert_memory_equal(p.buf[1], p.buf[0], 8);
	assert_int_equal(window_local_inv(&p, mw->rkey), IBV_WC_SUCCESS);
	p.buf[1][0] = 0x77;
	assert_int_equal(window_rdma(&p, FF_OP_WRITE, pair_at(&p, 1, 0), mw->rkey, 8),
			 IBV_WC_SUCCESS);
	assert_int_equal(p.buf[1][0], 0x77); /* UC: dropped without a word */
	window_send_inv(&p, mw->rkey, 8);
	assert_int_equal(pair_status(p.cq[0], 6, IBV_WC_SEND), IBV_WC_LOC_QP_OP_ERR);
	window_free(&p, mw);
	windows_down(&p);

	windows_up(&p, IBV_QPT_UD);
	mw = window_new(p.s[1], IBV_MW_TYPE_1);
	assert_int_equal(window_bind(&p, mw, 0, 4096, RW, 1), IBV_WC_LOC_QP_OP_ERR);
	window_free(&p, mw);
	windows_down(&p);
}

/* An SQE that says inline where there can be no data. */
static void malformed(void **state)
{
	struct pair p;
	struct ff_sqe *e;

	(void)state;
	windows_up(&p, IBV_QPT_RC);
	static const uint8_t ops[] = { FF_OP_BIND_MW, FF_OP_LOCAL_INV };
	for (unsigned i = 0; i < ARRAY_SIZE(ops); i++) {
		e = rig_sqe(p.qp[1], ops[i], 3);
		e->flags |= FF_SQE_INLINE;
		e->num_sge = 8;
		rig_post(&p.r, p.qp[1]);
		rig_run(&p.r);
		assert_int_equal(pair_status(p.cq[1], 3, 0), IBV_WC_LOC_QP_OP_ERR);
		windows_revive(&p);
		e = rig_sqe(p.qp[1], ops[i], 3);
		e->num_sge = 60000;
		rig_post(&p.r, p.qp[1]);
		rig_run(&p.r);
		assert_int_equal(pair_status(p.cq[1], 3, 0), IBV_WC_LOC_QP_OP_ERR);
		windows_revive(&p);
	}
	windows_down(&p);
}

static void windows_of_a_qp(void **state)
{
	struct rig_one *f = *state;
	struct qp *qp = &f->qp->qp;
	struct mw mw[5] = { 0 };
	struct mr mr = { .o.refs = 5 };

	for (int i = 0; i < 5; i++) {
		mw[i].o.ses = &f->s->s;
		mw[i].mr = &mr;
		mw[i].qp = qp;
		LIST_INSERT_HEAD(&qp->windows, &mw[i], of_qp);
		LIST_INSERT_HEAD(&mr.windows, &mw[i], of_mr);
	}
	assert_false(mw_qp_gone(qp, 2));
	assert_int_equal(mr.o.refs, 3);
	assert_true(mw_qp_gone(qp, 3));
	assert_int_equal(mr.o.refs, 0);
	assert_true(LIST_EMPTY(&mr.windows));
}

static void windows_of_an_mr(void **state)
{
	struct rig_one *f = *state;
	struct mr mr = { .o.refs = 5 };
	struct mw mw[5] = { 0 };

	for (int i = 0; i < 5; i++) {
		mw[i].o.ses = &f->s->s;
		mw[i].mr = &mr;
		LIST_INSERT_HEAD(&mr.windows, &mw[i], of_mr);
	}
	assert_false(mw_mr_gone(&mr, 2));
	assert_int_equal(mr.o.refs, 3);
	assert_true(mw_mr_gone(&mr, 3));
	assert_int_equal(mr.o.refs, 0);
	for (int i = 0; i < 5; i++)
		assert_null(mw[i].mr);
}

/* ---- those who publish windows --------------------------------------------------------------- */

static unsigned woken;

static void wake(struct fast_host *f)
{
	(void)f;
	woken++;
}

/* A window that changes a thousand times is told once, as it is then; each container has its turn. */
static void changes_are_noted(void **state)
{
	struct mw *mw[3], *other;
	struct pair p;

	(void)state;
	windows_up(&p, IBV_QPT_RC);
	for (int i = 0; i < 3; i++)
		mw[i] = window_new(p.s[1], IBV_MW_TYPE_1);
	assert_int_equal(window_bind(&p, mw[0], 0, 8, IBV_ACCESS_REMOTE_READ, 1), IBV_WC_SUCCESS);
	assert_false(mw_any_changed(p.r.f->host)); /* nobody wants to know */
	woken = 0;
	p.r.f->host->mw_wake = wake;
	for (int i = 0; i < 1000; i++)
		assert_int_equal(window_bind(&p, mw[i % 3], 0, 8, IBV_ACCESS_REMOTE_READ,
					     (uint8_t)i),
				 IBV_WC_SUCCESS);
	assert_int_equal(woken, 3);
	other = window_new(p.s[0], IBV_MW_TYPE_1);
	mw_note(other);
	assert_ptr_equal(mw_next_changed(p.r.f->host), mw[0]);
	assert_ptr_equal(mw_next_changed(p.r.f->host), other);
	assert_int_equal(window_bind(&p, mw[0], 0, 0, 0, 9), IBV_WC_SUCCESS); /* to nothing */
	assert_ptr_equal(mw_next_changed(p.r.f->host), mw[1]);
	window_free(&p, mw[2]); /* it is told no more */
	assert_ptr_equal(mw_next_changed(p.r.f->host), mw[0]);
	assert_null(mw[0]->mr);
	assert_null(mw_next_changed(p.r.f->host));
	assert_false(mw_any_changed(p.r.f->host));
	window_free(&p, mw[0]);
	window_free(&p, mw[1]);
	window_free(&p, other);
	assert_false(mw_any_changed(p.r.f->host));
	windows_down(&p);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(type1_gives_its_part_and_rights),
			cmocka_unit_test(windows_serve_every_path),
			cmocka_unit_test(bind_is_checked),
			cmocka_unit_test(windows_are_of_their_pd),
			cmocka_unit_test(type2_is_its_qps_alone), cmocka_unit_test(zero_based),
			cmocka_unit_test(qp_types), DEEP_TEST(windows_of_a_qp),
			DEEP_TEST(windows_of_an_mr), cmocka_unit_test(malformed),
			cmocka_unit_test(changes_are_noted));
}
