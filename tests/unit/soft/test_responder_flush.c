/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/rig/unit/windows.c tests/rig/unit/soft_pair.c tests/rig/unit/rig.c */
/*
 * test_responder_flush.c - FLUSH on one host: after what was written before, of a range or a whole region, with
 * which rights; and what becomes of one that asks for more than it may have.
 */
#include <string.h>

#include "tests/rig/unit/soft_pair.h"
#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/windows.h"

static void flush_up(struct pair *p, enum ibv_qp_type type)
{
	pair_up_with(p, type, 0, 1, PAIR_ACCESS | FF_ACCESS_FLUSH_GLOBAL);
	p->qp[1]->qp.attr.qp_access_flags |= FF_ACCESS_FLUSH;
}

/* Posted on QP 0, of that range of the other's buffer; the caller may change it before it is published. */
static struct ff_sqe *flush_sqe(struct pair *p, uint64_t id, uint64_t off, uint64_t len)
{
	struct ff_sqe *e = rig_sqe(p->qp[0], FF_OP_FLUSH, id);

	e->remote_addr = pair_at(p, 1, off);
	e->rkey = p->mr[1]->rkey;
	e->flush.length = len;
	e->flush.types = FF_FLUSH_GLOBAL;
	e->flush.level = FF_FLUSH_RANGE;
	return e;
}

static void after_writes(void **state)
{
	struct ff_cqe c;
	struct pair p;

	(void)state;
	flush_up(&p, IBV_QPT_RC);
	memset(p.buf[0], 7, PAIR_BUF);
	pair_rdma(&p, FF_OP_WRITE, 1, 0, 0, PAIR_BUF); /* of several turns */
	flush_sqe(&p, 2, 0, PAIR_BUF);
	rig_post(&p.r, p.qp[0]);
	rig_run(&p.r);
	pair_expect(p.cq[0], 1, IBV_WC_SUCCESS);
	assert_true(rig_poll(p.cq[0], &c));
	assert_int_equal(c.wr_id, 2);
	assert_int_equal(c.status, IBV_WC_SUCCESS);
	assert_int_equal(c.opcode, FF_WC_FLUSH);
	assert_int_equal(c.byte_len, 0);
	assert_int_equal(p.buf[1][PAIR_BUF - 1], 7);
	assert_int_equal(stats_of_session(&p.s[0]->s).flush_ops, 1);
	assert_int_equal(p.qp[1]->qp.state, IBV_QPS_RTS);
	pair_expect_none(p.cq[1]);
	pair_down(&p);
}

static void spoil_nothing(struct pair *p, struct ff_sqe *e)
{
	(void)p, (void)e;
}
static void spoil_length_0(struct pair *p, struct ff_sqe *e)
{
	(void)p;
	e->flush.length = 0;
}
/* Address and length mean nothing then. */
static void spoil_whole(struct pair *p, struct ff_sqe *e)
{
	(void)p;
	e->flush.level = FF_FLUSH_MR;
	e->remote_addr = 1;
	e->flush.length = 12345678;
}
static void spoil_rkey(struct pair *p, struct ff_sqe *e)
{
	(void)p;
	e->rkey ^= 0x5a5a;
}
static void spoil_rkey_whole(struct pair *p, struct ff_sqe *e)
{
	spoil_whole(p, e);
	e->rkey ^= 0x5a5a;
}
static void spoil_bounds(struct pair *p, struct ff_sqe *e)
{
	(void)p;
	e->flush.length = PAIR_BUF;
}
static void spoil_below(struct pair *p, struct ff_sqe *e)
{
	e->remote_addr = pair_at(p, 1, 0) - 1;
}
static void spoil_mr_right(struct pair *p, struct ff_sqe *e)
{
	(void)e;
	p->mr[1]->access = PAIR_ACCESS;
}
static void spoil_mr_right_whole(struct pair *p, struct ff_sqe *e)
{
	spoil_mr_right(p, e);
	spoil_whole(p, e);
}
/* No memory here is persistent. */
static void spoil_type(struct pair *p, struct ff_sqe *e)
{
	(void)p;
	e->flush.types = FF_FLUSH_PERSISTENT;
}
static void spoil_both_types(struct pair *p, struct ff_sqe *e)
{
	(void)p;
	e->flush.types = FF_FLUSH_TYPES;
}
static void spoil_qp_right(struct pair *p, struct ff_sqe *e)
{
	(void)e;
	p->qp[1]->qp.attr.qp_access_flags = PAIR_ACCESS;
}
static void spoil_resources(struct pair *p, struct ff_sqe *e)
{
	(void)e;
	p->qp[1]->qp.attr.max_dest_rd_atomic = 0;
}
static void spoil_no_type(struct pair *p, struct ff_sqe *e)
{
	(void)p;
	e->flush.types = 0;
}
static void spoil_unknown_type(struct pair *p, struct ff_sqe *e)
{
	(void)p;
	e->flush.types = FF_FLUSH_GLOBAL | 4;
}
static void spoil_level(struct pair *p, struct ff_sqe *e)
{
	(void)p;
	e->flush.level = 2;
}
static void spoil_length(struct pair *p, struct ff_sqe *e)
{
	(void)p;
	e->flush.length = 1ull << 32;
}
static void spoil_sge(struct pair *p, struct ff_sqe *e)
{
	rig_sge(e, p->mr[0], pair_at(p, 0, 0), 8);
}
static void spoil_inline(struct pair *p, struct ff_sqe *e)
{
	(void)p;
	e->flags |= FF_SQE_INLINE;
}

static void rights(void **state)
{
	static const struct {
		void (*spoil)(struct pair *, struct ff_sqe *);
		enum ibv_wc_status st;
		int event; /* of the peer's; -1 */
	} cases[] = {
		{ spoil_nothing, IBV_WC_SUCCESS, -1 },
		{ spoil_length_0, IBV_WC_SUCCESS, -1 },
		{ spoil_whole, IBV_WC_SUCCESS, -1 },
		{ spoil_rkey, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR },
		{ spoil_rkey_whole, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR },
		{ spoil_bounds, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR },
		{ spoil_below, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR },
		{ spoil_mr_right, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR },
		{ spoil_mr_right_whole, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR },
		{ spoil_type, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR },
		{ spoil_both_types, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR },
		{ pair_spoil_pd, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR },
		{ spoil_qp_right, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR },
		{ spoil_resources, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR },
		{ spoil_no_type, IBV_WC_LOC_QP_OP_ERR, -1 },
		{ spoil_unknown_type, IBV_WC_LOC_QP_OP_ERR, -1 },
		{ spoil_level, IBV_WC_LOC_QP_OP_ERR, -1 },
		{ spoil_length, IBV_WC_LOC_QP_OP_ERR, -1 },
		{ spoil_sge, IBV_WC_LOC_QP_OP_ERR, -1 },
		{ spoil_inline, IBV_WC_LOC_QP_OP_ERR, -1 },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		bool ok = cases[i].st == IBV_WC_SUCCESS;
		struct pair p;

		flush_up(&p, IBV_QPT_RC);
		cases[i].spoil(&p, flush_sqe(&p, 1, 4096, 100));
		rig_post(&p.r, p.qp[0]);
		rig_run(&p.r);
		pair_expect(p.cq[0], 1, cases[i].st);
		assert_int_equal(p.qp[0]->qp.state, ok ? IBV_QPS_RTS : IBV_QPS_ERR);
		if (cases[i].event >= 0)
			assert_int_equal(rig_async(p.s[1], NULL), cases[i].event + 1);
		else
			assert_int_equal(p.qp[1]->qp.state, IBV_QPS_RTS);
		pair_down(&p);
	}
}

/* As the key of a window says, which may allow what its MR's own key does not. */
static void window(void **state)
{
	static const uint32_t access[] = { FF_ACCESS_FLUSH_GLOBAL, IBV_ACCESS_REMOTE_READ };
	struct ff_sqe *e;
	struct pair p;
	struct mw *mw;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		bool ok = i < 2;

		windows_up(&p, IBV_QPT_RC);
		p.qp[1]->qp.attr.qp_access_flags |= FF_ACCESS_FLUSH;
		mw = window_new(p.s[1], IBV_MW_TYPE_2);
		assert_int_equal(window_bind(&p, mw, 4096, 4096, access[i / 2], 1), IBV_WC_SUCCESS);
		e = flush_sqe(&p, 1, 4096, 4096);
		e->rkey = mw->rkey;
		if (i % 2)
			spoil_whole(&p, e);
		rig_post(&p.r, p.qp[0]);
		rig_run(&p.r);
		pair_expect(p.cq[0], 1, ok ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
		window_free(&p, mw);
		windows_down(&p);
	}
	windows_up(&p, IBV_QPT_RC);
	mw = window_new(p.s[1], IBV_MW_TYPE_2);
	assert_int_equal(window_bind(&p, mw, 4096, 4096, FF_ACCESS_FLUSH_PERSISTENT, 1),
			 IBV_WC_MW_BIND_ERR);
	window_free(&p, mw);
	windows_down(&p);
}

/* UC has no FLUSH: nobody would tell that it was done. */
static void not_uc(void **state)
{
	struct pair p;

	(void)state;
	flush_up(&p, IBV_QPT_UC);
	flush_sqe(&p, 1, 0, 8);
	rig_post(&p.r, p.qp[0]);
	rig_run(&p.r);
	pair_expect(p.cq[0], 1, IBV_WC_LOC_QP_OP_ERR);
	pair_down(&p);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(after_writes), cmocka_unit_test(rights),
			cmocka_unit_test(window), cmocka_unit_test(not_uc));
}
