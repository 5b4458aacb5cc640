/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/rig/unit/deep_rig.c tests/rig/unit/soft_pair.c tests/rig/unit/rig.c tests/rig/fakes/fake_backend.c tests/rig/unit/fake_rig.c */
/*
 * test_send.c - what is read from a send queue, and what becomes of it before the backend sees it:
 * malformed WRs, flushing, laps of the ring.
 */
#include "tests/rig/unit/deep_rig.h"
#include "tests/rig/unit/fake_rig.h"
#include "tests/rig/unit/soft_pair.h"
#include "tests/rig/unit/unit.h"

/* What a QP of this type says of a WR of this opcode that has nothing else. */
static uint32_t vendor_err_of(enum ibv_qp_type type, uint8_t opcode)
{
	struct rig_one o;
	struct ff_cqe e = { 0 };

	rig_one_open(&o, &fake_ops, type, 64, false);
	rig_connect(&o.r, o.qp, NULL);
	rig_sqe(o.qp, opcode, 1)->flush.types = FF_FLUSH_GLOBAL;
	rig_post(&o.r, o.qp);
	rig_run(&o.r);
	assert_int_equal(rig_poll(o.cq, &e), !fake_posted());
	if (!fake_posted())
		assert_int_equal(e.status, IBV_WC_LOC_QP_OP_ERR);
	fake_reset();
	rig_one_close(&o);
	return e.vendor_err;
}

/* IBTA table 38, and the operations that freeflow adds to RC. */
static void operations_of_a_type(void **state)
{
	(void)state;
	fake_reset();
	for (uint8_t op = FF_OP_SEND; op < FF_OP_NUM; op++) {
		bool is_send = op == FF_OP_SEND || op == FF_OP_SEND_IMM;
		bool is_uc = is_send || op == FF_OP_WRITE || op == FF_OP_WRITE_IMM ||
			     op == FF_OP_BIND_MW || op == FF_OP_LOCAL_INV;

		assert_int_equal(vendor_err_of(IBV_QPT_RC, op), FF_VERR_NONE);
		assert_int_equal(vendor_err_of(IBV_QPT_XRC_SEND, op), FF_VERR_NONE);
		assert_int_equal(vendor_err_of(IBV_QPT_UC, op),
				 is_uc ? FF_VERR_NONE : FF_VERR_BAD_OPCODE);
		assert_int_equal(vendor_err_of(IBV_QPT_UD, op),
				 is_send ? FF_VERR_NO_AH : FF_VERR_BAD_OPCODE);
	}
}

/* A UD QP sends by an address handle of its own protection domain only. */
static void address_handle_of_another_pd(void **state)
{
	struct pd other = { 0 };
	struct ah ah = { .o.kind = OBJ_AH };
	struct rig_one o;
	struct ff_cqe e;

	(void)state;
	fake_reset();
	rig_one_open(&o, &fake_ops, IBV_QPT_UD, 64, false);
	rig_connect(&o.r, o.qp, NULL);
	ah.o.ses = &o.s->s;
	assert_int_equal(obj_insert(&o.s->s.tab[OBJ_AH], &ah.o), 0);
	for (int is_own = 1; is_own >= 0; is_own--) {
		ah.pd = is_own ? &o.s->pd : &other;
		rig_sqe(o.qp, FF_OP_SEND, 1)->ud.ah = ah.o.handle;
		rig_post(&o.r, o.qp);
		rig_run(&o.r);
		assert_int_equal(fake_posted(), 1);
		if (is_own)
			fake_complete(o.r.f, IBV_WC_SUCCESS);
		rig_run(&o.r);
		assert_true(rig_poll(o.cq, &e));
		assert_int_equal(e.status, is_own ? IBV_WC_SUCCESS : IBV_WC_LOC_QP_OP_ERR);
		assert_int_equal(e.vendor_err, is_own ? FF_VERR_NONE : FF_VERR_NO_AH);
	}
	obj_remove(&o.s->s.tab[OBJ_AH], &ah.o);
	rig_one_close(&o);
}

static void malformed_wqes(void **state)
{
	struct pair p;
	struct ff_sqe *e;

	(void)state;
	for (int i = 0; i < 7; i++) {
		pair_up(&p, IBV_QPT_RC, 0, 1);
		e = rig_sqe(p.qp[0], FF_OP_SEND, 1);
		switch (i) {
		case 0:
			e->opcode = 0;
			break;
		case 1:
			e->opcode = 200;
			break;
		case 2:
			e->num_sge = 5;
			break;
		case 3:
			e->flags |= FF_SQE_INLINE;
			e->num_sge = 65;
			break;
		case 4:
			e->opcode = FF_OP_READ;
			e->flags |= FF_SQE_INLINE;
			break;
		case 5:
			e->opcode = FF_OP_FLUSH; /* of nothing */
			e->flush.types = 0;
			break;
		case 6:
			e->opcode = FF_OP_FLUSH;
			e->flush.types = FF_FLUSH_TYPES;
			e->flush.level = FF_FLUSH_MR + 1;
			break;
		}
		rig_post(&p.r, p.qp[0]);
		rig_run(&p.r);
		pair_expect(p.cq[0], 1, IBV_WC_LOC_QP_OP_ERR);
		assert_int_equal(stats_of_session(&p.s[0]->s).bad_wqes, 1);
		assert_int_equal(p.qp[1]->qp.state, IBV_QPS_RTS);
		pair_down(&p);
	}
}

static void longer_than_any_message(void **state)
{
	struct pair *p = *state;
	struct ff_sqe *e = rig_sqe(p->qp[0], FF_OP_WRITE, 1);

	rig_sge(e, p->mr[0], pair_at(p, 0, 0), FF_MAX_MSG_SZ);
	rig_sge(e, p->mr[0], pair_at(p, 0, 0), 1);
	rig_post(&p->r, p->qp[0]);
	rig_run(&p->r);
	pair_expect(p->cq[0], 1, IBV_WC_LOC_LEN_ERR);
}

static void flush_in_order(void **state)
{
	struct pair *p = *state;

	p->qp[0]->qp.attr.rnr_retry = 7;
	for (uint64_t i = 0; i < 5; i++) {
		pair_send(p, i, 8);
		rig_recv(&p->r, p->qp[0], 100 + i, p->mr[0], pair_at(p, 0, 0), 8);
	}
	rig_run(&p->r);
	rig_state(&p->r, p->qp[0], IBV_QPS_ERR);
	for (uint64_t i = 0; i < 5; i++)
		pair_expect(p->cq[0], i, IBV_WC_WR_FLUSH_ERR);
	for (uint64_t i = 0; i < 5; i++)
		pair_expect(p->cq[0], 100 + i, IBV_WC_WR_FLUSH_ERR);
	/* posted afterwards: flushed too */
	rig_recv(&p->r, p->qp[0], 200, p->mr[0], pair_at(p, 0, 0), 8);
	pair_send(p, 201, 8);
	rig_run(&p->r);
	pair_expect(p->cq[0], 201, IBV_WC_WR_FLUSH_ERR);
	pair_expect(p->cq[0], 200, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(stats_of_session(&p->s[0]->s).errors, 0); /* what is flushed is none */
	/* and the rings are empty after RESET */
	rig_state(&p->r, p->qp[0], IBV_QPS_RESET);
	rig_connect(&p->r, p->qp[0], p->qp[1]);
	rig_run(&p->r);
	pair_expect_none(p->cq[0]);
}

/* All of two rings are flushed, in order, but the first step does a part of it. */
static void flush(void **state)
{
	struct rig_one *f = *state;
	uint64_t send = 0, recv = 0;
	struct ff_cqe e;

	rig_connect(&f->r, f->qp, f->qp);
	for (uint64_t i = 0; i < DEEP; i++) {
		struct ff_sqe *s = rig_sqe(f->qp, FF_OP_WRITE, i);

		s->num_sge = 0;
		rig_post(&f->r, f->qp);
		rig_recv(&f->r, f->qp, i, NULL, 0, 0);
	}
	rig_state(&f->r, f->qp, IBV_QPS_ERR);
	assert_in_range(f->cq->cq.pi, 1, 300);
	assert_true(f->qp->qp.is_active);
	for (uint32_t pi = f->cq->cq.pi; pi < 2 * DEEP; pi = f->cq->cq.pi) {
		fast_turn(f->r.f);
		assert_in_range(f->cq->cq.pi - pi, 1, 300);
	}
	while (rig_poll(f->cq, &e)) {
		assert_int_equal(e.status, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(e.wr_id, e.opcode & FF_CQE_RECV ? recv++ : send++);
	}
	assert_int_equal(send, DEEP);
	assert_int_equal(recv, DEEP);
}

/* However much a QP has posted, one turn of it does no more than its budget. */
static void budget(void **state)
{
	struct rig_one *o = *state;

	rig_connect(&o->r, o->qp, o->qp);
	for (uint64_t i = 0; i < DEEP; i++) {
		rig_sqe(o->qp, FF_OP_WRITE, i);
		rig_post(&o->r, o->qp);
	}
	assert_int_equal(send_service(o->r.f, &o->qp->qp), o->r.f->conf.budget);
	assert_int_equal(o->cq->cq.pi, o->r.f->conf.budget);
}

static void many_laps(void **state)
{
	struct rig_one *o = *state;
	struct ff_cqe e;

	for (uint64_t i = 0; i < 100000; i++) {
		rig_post_as_ffl(o, i);
		rig_run(&o->r);
		fake_complete(o->r.f, IBV_WC_SUCCESS);
		assert_true(rig_poll(o->cq, &e));
		assert_int_equal(e.wr_id, i);
	}
	rig_run(&o->r);
	assert_int_equal((uint32_t)atomic_load(&o->qp->qp.hdr->sq_done), 100000);
}

static void unsignalled_completes_silently(void **state)
{
	struct rig_one *o = *state;
	struct ff_cqe e;

	rig_sqe(o->qp, FF_OP_WRITE, 1)->flags = 0;
	rig_post(&o->r, o->qp);
	rig_run(&o->r);
	assert_int_equal((uint32_t)atomic_load(&o->qp->qp.hdr->sq_done), 0); /* under way */
	fake_complete(o->r.f, IBV_WC_SUCCESS);
	rig_run(&o->r);
	assert_false(rig_poll(o->cq, &e));
	assert_int_equal((uint32_t)atomic_load(&o->qp->qp.hdr->sq_done), 1);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(operations_of_a_type),
			cmocka_unit_test(address_handle_of_another_pd),
			cmocka_unit_test(malformed_wqes), PAIR_TEST(longer_than_any_message),
			PAIR_TEST(flush_in_order), DEEP_TEST(flush), DEEP_TEST(budget),
			FAKE_TEST(many_laps), FAKE_TEST(unsignalled_completes_silently));
}
