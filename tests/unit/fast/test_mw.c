/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/unit/lib/soft_pair.c tests/lib/rig.c */
/*
 * test_mw.c - memory windows on the software device, on virtual time: who can reach what through
 * them and until when. And null MRs, which xfer.c serves beside them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ffr/fast/mw.h"
#include "tests/unit/lib/soft_pair.h"

#define BUF	 PAIR_BUF
#define BINDABLE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)
#define RW	 (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

/* End 0 reaches for memory of end 1, whose MR gives it no right but through windows. */
static void windows_up(struct pair *p, enum ibv_qp_type type)
{
	pair_up_with(p, type, 0, 1, BINDABLE);
}

static void windows_down(struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		if (p->qp[i])
			rig_qp_free(&p->r, p->qp[i]);
		p->qp[i] = NULL;
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(p->mr[i]->o.refs, 0);
	pair_down(p);
}

/* Both ends from whatever state to RTS again, the CQs emptied. */
static void revive(struct pair *p)
{
	struct ff_cqe c;

	for (int i = 0; i < 2; i++)
		rig_state(&p->r, p->qp[i], IBV_QPS_RESET);
	rig_connect(&p->r, p->qp[0], p->qp[1]);
	rig_connect(&p->r, p->qp[1], p->qp[0]);
	for (int i = 0; i < 2; i++) {
		while (rig_poll(p->cq[i], &c))
			;
		while (rig_async(p->s[i], NULL))
			;
	}
}

static struct mw *mw_new(struct rig_ses *s, enum ibv_mw_type type)
{
	struct mw *mw = calloc(1, sizeof(*mw));

	mw->pd = &s->pd;
	mw->type = type;
	mw->o.kind = OBJ_MW;
	mw->o.ses = &s->s;
	assert_int_equal(obj_insert(&s->s.tab[OBJ_MW], &mw->o), 0);
	assert_int_equal(mw_key_new(s->s.cont, mw), 0);
	return mw;
}

static void mw_free(struct pair *p, struct mw *mw)
{
	fast_mw_del(p->r.f, mw);
	obj_remove(&mw->o.ses->tab[OBJ_MW], &mw->o);
	free(mw);
}

static uint64_t at(const struct pair *p, int i, uint64_t off)
{
	return (uintptr_t)p->buf[i] + off;
}

static enum ibv_wc_status status(struct rig_cq *cq, uint64_t wr_id, enum ibv_wc_opcode op)
{
	struct ff_cqe c;

	assert_true(rig_poll(cq, &c));
	assert_int_equal(c.wr_id, wr_id);
	if (c.status == IBV_WC_SUCCESS)
		assert_int_equal(c.opcode, op);
	return c.status;
}

/* End 1 binds mw with that low byte to [off, off + len) of its MR. */
static enum ibv_wc_status bind_mr(struct pair *p, struct rig_qp *qp, const struct mw *mw,
				  const struct mr *mr, uint64_t off, uint64_t len, uint32_t access,
				  uint8_t low)
{
	struct ff_sqe *e = rig_sqe(qp, FF_OP_BIND_MW, 77);

	e->remote_addr = at(p, 1, off);
	e->rkey = low;
	e->imm = access;
	e->bind.length = len;
	e->bind.mw = mw->o.handle;
	e->bind.lkey = mr->lkey;
	rig_post(&p->r, qp);
	rig_run(&p->r);
	return status(p->cq[1], 77, IBV_WC_BIND_MW);
}

static enum ibv_wc_status bind_window(struct pair *p, const struct mw *mw, uint64_t off,
				      uint64_t len, uint32_t access, uint8_t low)
{
	return bind_mr(p, p->qp[1], mw, p->mr[1], off, len, access, low);
}

static enum ibv_wc_status local_inv(struct pair *p, uint32_t rkey)
{
	struct ff_sqe *e = rig_sqe(p->qp[1], FF_OP_LOCAL_INV, 78);

	e->imm = rkey;
	rig_post(&p->r, p->qp[1]);
	rig_run(&p->r);
	return status(p->cq[1], 78, IBV_WC_LOCAL_INV);
}

static enum ibv_wc_status rdma(struct pair *p, uint8_t op, uint64_t addr, uint32_t rkey,
			       uint32_t len)
{
	struct ff_sqe *e = rig_sqe(p->qp[0], op, 5);

	rig_sge(e, p->mr[0], at(p, 0, 0), len);
	e->remote_addr = addr;
	e->rkey = rkey;
	e->atomic.compare_add = 1;
	e->atomic.swap = 0;
	rig_post(&p->r, p->qp[0]);
	rig_run(&p->r);
	return status(p->cq[0], 5,
		      op == FF_OP_WRITE ? IBV_WC_RDMA_WRITE :
		      op == FF_OP_READ	? IBV_WC_RDMA_READ :
					  IBV_WC_FETCH_ADD);
}

static bool writes(struct pair *p, uint64_t off, uint32_t rkey, uint32_t len)
{
	enum ibv_wc_status st = rdma(p, FF_OP_WRITE, at(p, 1, off), rkey, len);

	if (st == IBV_WC_SUCCESS)
		return true;
	assert_int_equal(st, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(rig_async(p->s[1], NULL), IBV_EVENT_QP_ACCESS_ERR + 1);
	revive(p);
	return false;
}

/* ---- type 1 --------------------------------------------------------------------------------- */

static void type1_gives_its_part_and_rights(void **state)
{
	struct pair p;
	struct mw *mw;
	uint32_t old;

	(void)state;
	windows_up(&p, IBV_QPT_RC);
	mw = mw_new(p.s[1], IBV_MW_TYPE_1);
	assert_false(writes(&p, 100, p.mr[1]->rkey, 8)); /* the MR itself gives no right */
	assert_false(writes(&p, 100, mw->rkey, 8));	 /* bound to nothing */

	old = mw->rkey;
	assert_int_equal(bind_window(&p, mw, 100, 1000, IBV_ACCESS_REMOTE_WRITE, 7),
			 IBV_WC_SUCCESS);
	assert_int_equal(mw->rkey, (old & ~0xffu) | 7);
	assert_int_equal(p.mr[1]->o.refs, 1);
	memset(p.buf[0], 0x5a, BUF);
	assert_true(writes(&p, 100, mw->rkey, 1000));
	assert_memory_equal(p.buf[1] + 100, p.buf[0], 1000);
	assert_int_equal(p.buf[1][99], 0xa1);
	assert_int_equal(p.buf[1][1100], 0xa1);
	assert_true(writes(&p, 1099, mw->rkey, 1));
	assert_false(writes(&p, 99, mw->rkey, 1));
	assert_false(writes(&p, 1099, mw->rkey, 2));
	assert_false(writes(&p, 1101, mw->rkey, 1));
	assert_false(writes(&p, 100, mw->rkey ^ 1, 8)); /* the low byte is part of the key */
	assert_int_equal(rdma(&p, FF_OP_READ, at(&p, 1, 100), mw->rkey, 8), IBV_WC_REM_ACCESS_ERR);
	revive(&p);

	/* bound again: another part, other rights, and the rkey of before is dead */
	old = mw->rkey;
	assert_int_equal(bind_window(&p, mw, 0, 16,
				     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC, 8),
			 IBV_WC_SUCCESS);
	assert_int_equal(p.mr[1]->o.refs, 1);
	assert_false(writes(&p, 100, old, 8));
	assert_false(writes(&p, 0, mw->rkey, 8));
	assert_int_equal(rdma(&p, FF_OP_READ, at(&p, 1, 0), mw->rkey, 16), IBV_WC_SUCCESS);
	memset(p.buf[1], 0, 16);
	assert_int_equal(rdma(&p, FF_OP_FETCH_ADD, at(&p, 1, 8), mw->rkey, 8), IBV_WC_SUCCESS);
	assert_int_equal(p.buf[1][8], 1);

	/* to nothing */
	old = mw->rkey;
	assert_int_equal(bind_window(&p, mw, 0, 0, 0, 9), IBV_WC_SUCCESS);
	assert_int_equal(p.mr[1]->o.refs, 0);
	assert_int_equal(rdma(&p, FF_OP_READ, at(&p, 1, 0), old, 8), IBV_WC_REM_ACCESS_ERR);
	revive(&p);
	assert_int_equal(rdma(&p, FF_OP_READ, at(&p, 1, 0), mw->rkey, 8), IBV_WC_REM_ACCESS_ERR);
	revive(&p);

	/* destroyed while it is bound */
	assert_int_equal(bind_window(&p, mw, 0, 16, RW, 10), IBV_WC_SUCCESS);
	old = mw->rkey;
	assert_true(writes(&p, 0, old, 8));
	mw_free(&p, mw);
	assert_int_equal(p.mr[1]->o.refs, 0);
	assert_false(writes(&p, 0, old, 8));
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
	mw = mw_new(p.s[1], IBV_MW_TYPE_1);
	for (uint32_t i = 0; i < BUF; i++)
		p.buf[0][i] = (uint8_t)(i * 31 >> 3);
	assert_int_equal(bind_window(&p, mw, 4096, 500000, RW, 1), IBV_WC_SUCCESS);
	assert_true(writes(&p, 4096, mw->rkey, 500000));
	assert_memory_equal(p.buf[1] + 4096, p.buf[0], 500000);

	slow = rig_mr_pvm(&p.r, p.s[1], p.buf[1], BUF, BINDABLE);
	assert_int_equal(bind_mr(&p, p.qp[1], mw, slow, 10, 200000, RW, 2), IBV_WC_SUCCESS);
	assert_int_equal(p.mr[1]->o.refs, 0);
	assert_int_equal(slow->o.refs, 1);
	assert_true(writes(&p, 10, mw->rkey, 200000));
	assert_memory_equal(p.buf[1] + 10, p.buf[0], 200000);
	assert_false(writes(&p, 10, mw->rkey, 200001));
	mw_free(&p, mw);
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
	mw = mw_new(p.s[1], IBV_MW_TYPE_1);
	foreign = mw_new(other, IBV_MW_TYPE_1);
	plain = rig_mr(&p.r, p.s[1], p.buf[1], BUF, IBV_ACCESS_LOCAL_WRITE | RW);
	reader = rig_mr(&p.r, p.s[1], p.buf[1], BUF, IBV_ACCESS_MW_BIND);
	elsewhere = rig_mr(&p.r, other, p.buf[1], BUF, BINDABLE);
#define BAD(expr)                                                                                  \
	do {                                                                                       \
		assert_int_equal(expr, IBV_WC_MW_BIND_ERR);                                        \
		assert_int_equal(p.qp[1]->qp.state, IBV_QPS_ERR);                                  \
		assert_null(mw->mr);                                                               \
		revive(&p);                                                                        \
	} while (0)
	BAD(bind_window(&p, mw, 0, BUF + 1, RW, 1));
	BAD(bind_window(&p, mw, BUF - 10, 11, RW, 1));
	BAD(bind_window(&p, mw, (uint64_t)-10, 11, RW, 1));
	BAD(bind_window(&p, mw, 1, UINT64_MAX, RW, 1));
	BAD(bind_window(&p, mw, 0, 8, RW | IBV_ACCESS_ON_DEMAND, 1));
	BAD(bind_window(&p, mw, 0, 8, RW | IBV_ACCESS_MW_BIND, 1));
	BAD(bind_window(&p, mw, 0, 8, RW | IBV_ACCESS_ZERO_BASED, 1)); /* not for type 1 */
	BAD(bind_mr(&p, p.qp[1], mw, plain, 0, 8, RW, 1));
	BAD(bind_mr(&p, p.qp[1], mw, reader, 0, 8, IBV_ACCESS_REMOTE_WRITE, 1));
	BAD(bind_mr(&p, p.qp[1], mw, reader, 0, 8, IBV_ACCESS_REMOTE_ATOMIC, 1));
	BAD(bind_mr(&p, p.qp[1], mw, elsewhere, 0, 8, RW, 1));
	BAD(bind_mr(&p, p.qp[1], mw, p.mr[0], 0, 8, RW, 1)); /* another container's */
	/* its handle means nothing in this session, or another window of it */
	if (foreign->o.handle != mw->o.handle)
		BAD(bind_window(&p, foreign, 0, 8, RW, 1));
	of_pd = mw_new(p.s[1], IBV_MW_TYPE_1);
	of_pd->pd = &pd2;
	BAD(bind_window(&p, of_pd, 0, 8, RW, 1));
	assert_null(of_pd->mr);
#undef BAD
	/* the MR need not grant what the window does, but remote writes want local write */
	assert_int_equal(bind_mr(&p, p.qp[1], mw, reader, 0, 8, IBV_ACCESS_REMOTE_READ, 2),
			 IBV_WC_SUCCESS);
	assert_int_equal(rdma(&p, FF_OP_READ, at(&p, 1, 0), mw->rkey, 8), IBV_WC_SUCCESS);
	/* a failed bind leaves the window as it was */
	assert_int_equal(bind_window(&p, mw, 0, BUF + 1, RW, 3), IBV_WC_MW_BIND_ERR);
	revive(&p);
	assert_int_equal(rdma(&p, FF_OP_READ, at(&p, 1, 0), mw->rkey, 8), IBV_WC_SUCCESS);

	mw_free(&p, mw);
	mw_free(&p, of_pd);
	mw_free(&p, foreign);
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
	mw = mw_new(p.s[1], IBV_MW_TYPE_1);
	assert_int_equal(bind_window(&p, mw, 0, 4096, RW, 1), IBV_WC_SUCCESS);
	assert_true(writes(&p, 0, mw->rkey, 8));
	p.qp[1]->qp.pd = &pd2;
	assert_false(writes(&p, 0, mw->rkey, 8));
	p.qp[1]->qp.pd = &p.s[1]->pd;
	assert_true(writes(&p, 0, mw->rkey, 8));
	assert_null(mw_lookup(&p.r.cont[0].windows, mw->rkey));
	/* an rkey of a window is no lkey */
	e = rig_sqe(p.qp[1], FF_OP_SEND, 9);
	rig_sge(e, p.mr[1], at(&p, 1, 0), 8);
	e->sge[0].lkey = mw->rkey;
	rig_post(&p.r, p.qp[1]);
	rig_run(&p.r);
	assert_int_equal(status(p.cq[1], 9, IBV_WC_SEND), IBV_WC_LOC_PROT_ERR);
	mw_free(&p, mw);
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
	mw = mw_new(p.s[1], IBV_MW_TYPE_2);
	q0 = rig_qp(&p.r, p.s[0], IBV_QPT_RC, p.cq[0], p.cq[0], NULL);
	q1 = rig_qp(&p.r, p.s[1], IBV_QPT_RC, p.cq[1], p.cq[1], NULL);
	rig_connect(&p.r, q0, q1);
	rig_connect(&p.r, q1, q0);

	assert_int_equal(bind_mr(&p, q1, mw, p.mr[1], 0, 4096, RW, 1), IBV_WC_SUCCESS);
	assert_false(writes(&p, 0, mw->rkey, 8)); /* through p.qp, not q */
	/* bound: not again, by nobody, before it was invalidated; by the other QP not at all */
	assert_int_equal(bind_window(&p, mw, 0, 4096, RW, 2), IBV_WC_MW_BIND_ERR);
	revive(&p);
	assert_int_equal(bind_window(&p, mw, 0, 0, 0, 2), IBV_WC_MW_BIND_ERR);
	revive(&p);
	assert_int_equal(local_inv(&p, mw->rkey), IBV_WC_MW_BIND_ERR);
	revive(&p);
	assert_ptr_equal(mw->qp, &q1->qp);

	/* its QP goes: bound to nothing, and free for another one */
	rig_qp_free(&p.r, q1);
	assert_null(mw->mr);
	assert_int_equal(p.mr[1]->o.refs, 0);
	assert_int_equal(bind_window(&p, mw, 0, 4096, RW, 3), IBV_WC_SUCCESS);
	assert_true(writes(&p, 0, mw->rkey, 8));

	old = mw->rkey;
	assert_int_equal(local_inv(&p, old ^ 1), IBV_WC_MW_BIND_ERR); /* another low byte */
	revive(&p);
	assert_true(writes(&p, 0, old, 8)); /* RESET leaves it bound */
	assert_int_equal(local_inv(&p, old), IBV_WC_SUCCESS);
	assert_false(writes(&p, 0, old, 8));
	assert_int_equal(local_inv(&p, old), IBV_WC_MW_BIND_ERR); /* it is not valid any more */
	revive(&p);
	assert_int_equal(local_inv(&p, p.mr[1]->rkey), IBV_WC_MW_BIND_ERR);
	revive(&p);
	assert_int_equal(local_inv(&p, 0), IBV_WC_MW_BIND_ERR);
	revive(&p);

	/* a bind of length 0 invalidates, too */
	assert_int_equal(bind_window(&p, mw, 0, 4096, RW, 4), IBV_WC_SUCCESS);
	old = mw->rkey;
	assert_int_equal(bind_window(&p, mw, 0, 0, 0, 5), IBV_WC_SUCCESS);
	assert_false(writes(&p, 0, old, 8));
	assert_int_equal(p.mr[1]->o.refs, 0);

	mw_free(&p, mw);
	rig_qp_free(&p.r, q0);
	windows_down(&p);
}

static void zero_based(void **state)
{
	struct pair p;
	struct mw *mw;

	(void)state;
	windows_up(&p, IBV_QPT_RC);
	mw = mw_new(p.s[1], IBV_MW_TYPE_2);
	assert_int_equal(bind_window(&p, mw, 1000, 64, RW | IBV_ACCESS_ZERO_BASED, 1),
			 IBV_WC_SUCCESS);
	memset(p.buf[0], 0x33, 64);
	assert_int_equal(rdma(&p, FF_OP_WRITE, 0, mw->rkey, 64), IBV_WC_SUCCESS);
	assert_memory_equal(p.buf[1] + 1000, p.buf[0], 64);
	assert_int_equal(p.buf[1][999], 0xa1);
	assert_int_equal(rdma(&p, FF_OP_READ, 63, mw->rkey, 1), IBV_WC_SUCCESS);
	assert_int_equal(rdma(&p, FF_OP_READ, 63, mw->rkey, 2), IBV_WC_REM_ACCESS_ERR);
	revive(&p);
	assert_false(writes(&p, 1000, mw->rkey, 8)); /* the address of the MR is none of it */
	mw_free(&p, mw);
	windows_down(&p);
}

static void send_inv(struct pair *p, uint32_t rkey, uint32_t len)
{
	struct ff_sqe *e = rig_sqe(p->qp[0], FF_OP_SEND_INV, 6);

	rig_sge(e, p->mr[0], at(p, 0, 0), len);
	e->imm = rkey;
	rig_post(&p->r, p->qp[0]);
	rig_run(&p->r);
}

static void send_with_invalidate(void **state)
{
	struct pair p;
	struct mw *mw, *one;
	struct ff_cqe c;
	uint32_t rkey;

	(void)state;
	windows_up(&p, IBV_QPT_RC);
	mw = mw_new(p.s[1], IBV_MW_TYPE_2);
	one = mw_new(p.s[1], IBV_MW_TYPE_1);
	assert_int_equal(bind_window(&p, mw, 0, 4096, RW, 1), IBV_WC_SUCCESS);
	rkey = mw->rkey;

	/* no receive yet: it waits, and the window with it */
	send_inv(&p, rkey, 100);
	assert_false(rig_poll(p.cq[0], &c));
	assert_ptr_equal(mw->mr, p.mr[1]);
	rig_recv(&p.r, p.qp[1], 40, p.mr[1], at(&p, 1, 8192), 4096);
	rig_run(&p.r);
	assert_int_equal(status(p.cq[0], 6, IBV_WC_SEND), IBV_WC_SUCCESS);
	assert_true(rig_poll(p.cq[1], &c));
	assert_int_equal(c.wr_id, 40);
	assert_int_equal(c.status, IBV_WC_SUCCESS);
	assert_int_equal(c.opcode, IBV_WC_RECV);
	assert_int_equal(c.flags, FF_CQE_INV);
	assert_int_equal(c.imm, rkey);
	assert_int_equal(c.byte_len, 100);
	assert_memory_equal(p.buf[1] + 8192, p.buf[0], 100);
	assert_null(mw->mr);
	assert_false(writes(&p, 0, rkey, 8));

	/* what is not a valid type 2 window bound to that QP cannot be invalidated */
	assert_int_equal(bind_window(&p, one, 0, 4096, RW, 1), IBV_WC_SUCCESS);
	const uint32_t bad[] = { rkey, rkey ^ 0x10000, one->rkey, p.mr[1]->rkey, 0 };
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		rig_recv(&p.r, p.qp[1], 41, p.mr[1], at(&p, 1, 8192), 4096);
		send_inv(&p, bad[i], 100);
		assert_int_equal(status(p.cq[0], 6, IBV_WC_SEND), IBV_WC_REM_ACCESS_ERR);
		assert_int_equal(status(p.cq[1], 41, IBV_WC_RECV), IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(rig_async(p.s[1], NULL), IBV_EVENT_QP_ACCESS_ERR + 1);
		revive(&p);
	}
	assert_ptr_equal(one->mr, p.mr[1]);

	/* inline, and of many quanta */
	p.r.f->conf.quantum = 4096;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(bind_window(&p, mw, 0, 4096, RW, (uint8_t)(2 + i)),
				 IBV_WC_SUCCESS);
		rig_recv(&p.r, p.qp[1], 42, p.mr[1], at(&p, 1, 8192), 500000);
		if (i) {
			send_inv(&p, mw->rkey, 400000);
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
		assert_int_equal(status(p.cq[0], 6, IBV_WC_SEND), IBV_WC_SUCCESS);
		assert_int_equal(status(p.cq[1], 42, IBV_WC_RECV), IBV_WC_SUCCESS);
		assert_null(mw->mr);
	}
	mw_free(&p, mw);
	mw_free(&p, one);
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
	mw = mw_new(p.s[1], IBV_MW_TYPE_2);
	assert_int_equal(bind_window(&p, mw, 0, BUF, RW, 1), IBV_WC_SUCCESS);
	memset(p.buf[0], 0x11, BUF);
	e = rig_sqe(p.qp[0], FF_OP_WRITE, 5);
	rig_sge(e, p.mr[0], at(&p, 0, 0), 400000);
	e->remote_addr = at(&p, 1, 0);
	e->rkey = mw->rkey;
	rig_post(&p.r, p.qp[0]);
	for (int i = 0; i < 3; i++)
		fast_turn(p.r.f);
	assert_int_equal(p.buf[1][0], 0x11);
	assert_int_equal(p.buf[1][399999], 0xa1);
	assert_int_equal(local_inv(&p, mw->rkey), IBV_WC_SUCCESS);
	assert_int_equal(status(p.cq[0], 5, IBV_WC_RDMA_WRITE), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(p.buf[1][399999], 0xa1);
	mw_free(&p, mw);
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
	mw = mw_new(p.s[1], IBV_MW_TYPE_2);
	p.mr[0]->access |= RW;
	/* end 1: READ of many quanta, bind, SEND that tells, invalidate; all posted at once */
	e = rig_sqe(p.qp[1], FF_OP_READ, 1);
	rig_sge(e, p.mr[1], at(&p, 1, 0), 100000);
	e->remote_addr = at(&p, 0, 0);
	e->rkey = p.mr[0]->rkey;
	rig_post(&p.r, p.qp[1]);
	e = rig_sqe(p.qp[1], FF_OP_BIND_MW, 2);
	e->remote_addr = at(&p, 1, 0);
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
	assert_int_equal(status(p.cq[0], 30, IBV_WC_RECV), IBV_WC_SUCCESS);
	assert_true(writes(&p, 0, mw->rkey, 8));
	assert_int_equal(stats_of_session(&p.s[1]->s).mw_ops, 1);
	mw_free(&p, mw);
	windows_down(&p);
}

/* ---- which QPs ------------------------------------------------------------------------------ */

static void qp_types(void **state)
{
	struct pair p;
	struct mw *mw;

	(void)state;
	windows_up(&p, IBV_QPT_UC);
	mw = mw_new(p.s[1], IBV_MW_TYPE_2);
	assert_int_equal(bind_window(&p, mw, 0, 4096, RW, 1), IBV_WC_SUCCESS);
	assert_true(writes(&p, 0, mw->rkey, 8));
	assert_memory_equal(p.buf[1], p.buf[0], 8);
	assert_int_equal(local_inv(&p, mw->rkey), IBV_WC_SUCCESS);
	p.buf[1][0] = 0x77;
	assert_int_equal(rdma(&p, FF_OP_WRITE, at(&p, 1, 0), mw->rkey, 8), IBV_WC_SUCCESS);
	assert_int_equal(p.buf[1][0], 0x77); /* UC: dropped without a word */
	send_inv(&p, mw->rkey, 8);
	assert_int_equal(status(p.cq[0], 6, IBV_WC_SEND), IBV_WC_LOC_QP_OP_ERR);
	mw_free(&p, mw);
	windows_down(&p);

	windows_up(&p, IBV_QPT_UD);
	mw = mw_new(p.s[1], IBV_MW_TYPE_1);
	assert_int_equal(bind_window(&p, mw, 0, 4096, RW, 1), IBV_WC_LOC_QP_OP_ERR);
	mw_free(&p, mw);
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
		assert_int_equal(status(p.cq[1], 3, 0), IBV_WC_LOC_QP_OP_ERR);
		revive(&p);
		e = rig_sqe(p.qp[1], ops[i], 3);
		e->num_sge = 60000;
		rig_post(&p.r, p.qp[1]);
		rig_run(&p.r);
		assert_int_equal(status(p.cq[1], 3, 0), IBV_WC_LOC_QP_OP_ERR);
		revive(&p);
	}
	windows_down(&p);
}

/* ---- null MR -------------------------------------------------------------------------------- */

static void null_mr(void **state)
{
	struct pair p;
	struct mr *null, *slow;
	struct ff_sqe *e;
	struct ff_cqe c;

	(void)state;
	windows_up(&p, IBV_QPT_RC);
	p.r.f->conf.quantum = 16384;
	p.mr[1]->access |= RW;
	null = rig_mr_pvm(&p.r, p.s[0], NULL, UINT64_MAX, IBV_ACCESS_LOCAL_WRITE);
	null->kind = MR_NULL;
	slow = rig_mr_pvm(&p.r, p.s[0], p.buf[0], BUF, IBV_ACCESS_LOCAL_WRITE);

	/* WRITE: bytes, zeros, bytes of process memory, zeros from wherever */
	e = rig_sqe(p.qp[0], FF_OP_WRITE, 1);
	rig_sge(e, p.mr[0], at(&p, 0, 0), 10);
	rig_sge(e, null, 0, 100000);
	rig_sge(e, slow, at(&p, 0, 0), 10);
	rig_sge(e, null, 0xdeadbeef0000, 7);
	e->remote_addr = at(&p, 1, 0);
	e->rkey = p.mr[1]->rkey;
	rig_post(&p.r, p.qp[0]);
	rig_run(&p.r);
	assert_int_equal(status(p.cq[0], 1, IBV_WC_RDMA_WRITE), IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < 100027; i++)
		assert_int_equal(p.buf[1][i], i < 10 || (i >= 100010 && i < 100020) ? 0xa0 : 0);
	assert_int_equal(p.buf[1][100027], 0xa1);

	/* READ: what goes to it vanishes */
	for (uint32_t i = 0; i < 200000; i++)
		p.buf[1][i] = (uint8_t)(i % 251);
	e = rig_sqe(p.qp[0], FF_OP_READ, 2);
	rig_sge(e, null, 12345, 50000);
	rig_sge(e, slow, at(&p, 0, 0), 100);
	rig_sge(e, null, 0, 50000);
	rig_sge(e, p.mr[0], at(&p, 0, 100), 100);
	e->remote_addr = at(&p, 1, 0);
	e->rkey = p.mr[1]->rkey;
	rig_post(&p.r, p.qp[0]);
	rig_run(&p.r);
	assert_int_equal(status(p.cq[0], 2, IBV_WC_RDMA_READ), IBV_WC_SUCCESS);
	assert_memory_equal(p.buf[0], p.buf[1] + 50000, 100);
	assert_memory_equal(p.buf[0] + 100, p.buf[1] + 100100, 100);

	/* a receive, and a source that is process memory */
	rig_recv(&p.r, p.qp[0], 50, null, 0, BUF);
	e = rig_sqe(p.qp[1], FF_OP_SEND, 3);
	rig_sge(e, p.mr[1], at(&p, 1, 0), 300000);
	rig_post(&p.r, p.qp[1]);
	rig_run(&p.r);
	assert_int_equal(status(p.cq[1], 3, IBV_WC_SEND), IBV_WC_SUCCESS);
	assert_true(rig_poll(p.cq[0], &c));
	assert_int_equal(c.byte_len, 300000);
	/* one SGE of it alone: the quick path declines */
	e = rig_sqe(p.qp[0], FF_OP_WRITE, 4);
	rig_sge(e, null, 0, 8);
	e->remote_addr = at(&p, 1, 8);
	e->rkey = p.mr[1]->rkey;
	rig_post(&p.r, p.qp[0]);
	rig_run(&p.r);
	assert_int_equal(status(p.cq[0], 4, IBV_WC_RDMA_WRITE), IBV_WC_SUCCESS);
	assert_memory_equal(p.buf[1] + 8, "\0\0\0\0\0\0\0\0", 8);
	assert_int_equal(p.buf[1][16], 16);

	/* its key is no rkey, and nothing can be bound to it */
	e = rig_sqe(p.qp[1], FF_OP_WRITE, 5);
	rig_sge(e, p.mr[1], at(&p, 1, 0), 8);
	e->rkey = null->lkey;
	rig_post(&p.r, p.qp[1]);
	rig_run(&p.r);
	assert_int_equal(status(p.cq[1], 5, IBV_WC_RDMA_WRITE), IBV_WC_REM_ACCESS_ERR);

	rig_mr_free(&p.r, null);
	rig_mr_free(&p.r, slow);
	windows_down(&p);
}

/* ---- those who publish windows --------------------------------------------------------------- */

static unsigned woken;

static void wake(struct fast *f)
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
		mw[i] = mw_new(p.s[1], IBV_MW_TYPE_1);
	assert_int_equal(bind_window(&p, mw[0], 0, 8, IBV_ACCESS_REMOTE_READ, 1), IBV_WC_SUCCESS);
	assert_false(mw_any_changed(p.r.f)); /* nobody wants to know */
	woken = 0;
	p.r.f->mw_wake = wake;
	for (int i = 0; i < 1000; i++)
		assert_int_equal(bind_window(&p, mw[i % 3], 0, 8, IBV_ACCESS_REMOTE_READ,
					     (uint8_t)i),
				 IBV_WC_SUCCESS);
	assert_int_equal(woken, 3);
	other = mw_new(p.s[0], IBV_MW_TYPE_1);
	mw_note(other);
	assert_ptr_equal(mw_next_changed(p.r.f), mw[0]);
	assert_ptr_equal(mw_next_changed(p.r.f), other);
	assert_int_equal(bind_window(&p, mw[0], 0, 0, 0, 9), IBV_WC_SUCCESS); /* to nothing */
	assert_ptr_equal(mw_next_changed(p.r.f), mw[1]);
	mw_free(&p, mw[2]); /* it is told no more */
	assert_ptr_equal(mw_next_changed(p.r.f), mw[0]);
	assert_null(mw[0]->mr);
	assert_null(mw_next_changed(p.r.f));
	assert_false(mw_any_changed(p.r.f));
	mw_free(&p, mw[0]);
	mw_free(&p, mw[1]);
	mw_free(&p, other);
	assert_false(mw_any_changed(p.r.f));
	windows_down(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(type1_gives_its_part_and_rights),
		cmocka_unit_test(windows_serve_every_path),
		cmocka_unit_test(bind_is_checked),
		cmocka_unit_test(windows_are_of_their_pd),
		cmocka_unit_test(type2_is_its_qps_alone),
		cmocka_unit_test(zero_based),
		cmocka_unit_test(send_with_invalidate),
		cmocka_unit_test(invalidate_under_way),
		cmocka_unit_test(order),
		cmocka_unit_test(qp_types),
		cmocka_unit_test(malformed),
		cmocka_unit_test(null_mr),
		cmocka_unit_test(changes_are_noted),
	};

	return cmocka_run_group_tests_name("mw", tests, NULL, NULL);
}
