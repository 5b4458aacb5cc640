/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/soft_pair.c tests/rig/unit/rig.c */
/* test_trace.c - rings of the last operations: what is in them, and when they are there. */
#include "tests/rig/unit/unit.h"
#include "ffr/fast/trace.h"
#include "tests/rig/unit/soft_pair.h"

static struct trace_entry ring[TRACE_DEPTH];

static void operations_are_kept_in_order(void **state)
{
	struct fast *f;
	struct pair p;
	uint64_t now;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	f = p.r.f;
	pair_rdma(&p, FF_OP_WRITE, 1, 0, 0, 8);
	rig_run(&p.r);
	assert_int_equal(trace_copy(f->host, &p.qp[0]->qp, ring), 0); /* nobody traces it */
	assert_int_equal(trace_on(f->host, &p.r.cont[0], 0), 1);
	assert_int_equal(trace_on(f->host, &p.r.cont[0], 0), 0);
	pair_rdma(&p, FF_OP_WRITE, 2, 0, 0, 100);
	pair_rdma(&p, FF_OP_READ, 3, 0, 0, 200);
	pair_rdma(&p, FF_OP_WRITE, 4, 0, PAIR_BUF, 8); /* behind the end */
	pair_rdma(&p, FF_OP_WRITE, 5, 0, 0, 8);
	rig_run(&p.r);
	now = f->now; /* the lock's taking makes it real */
	assert_int_equal(trace_copy(f->host, &p.qp[0]->qp, ring), 4);
	for (uint64_t i = 0; i < 4; i++) {
		assert_int_equal(ring[i].wr_id, 2 + i);
		assert_int_equal(ring[i].peer, p.qp[1]->qp.qp_num);
		assert_true(i == 0 || ring[i].seq > ring[i - 1].seq);
	}
	assert_int_equal(ring[0].opcode, FF_OP_WRITE);
	assert_int_equal(ring[0].length, 100);
	assert_int_equal(ring[0].status, IBV_WC_SUCCESS);
	assert_int_equal(ring[0].fetched, now);
	assert_int_equal(ring[0].started, now);
	assert_int_equal(ring[0].done, now);
	assert_int_equal(ring[1].opcode, FF_OP_READ);
	assert_int_equal(ring[2].status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ring[3].status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(trace_copy(f->host, &p.qp[1]->qp, ring), 0); /* of another container */
	trace_off(f->host, &p.r.cont[0]);
	assert_null(p.qp[0]->qp.trace);
	pair_down(&p);
}

static void waiting_shows(void **state)
{
	uint64_t from;
	struct pair p;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	assert_int_equal(trace_on(p.r.f->host, &p.r.cont[0], 0), 1);
	assert_int_equal(trace_on(p.r.f->host, &p.r.cont[1], 0), 1);
	from = p.r.f->now;
	pair_send(&p, 1, 8);
	rig_run(&p.r);
	rig_advance(&p.r, 5000);
	rig_recv(&p.r, p.qp[1], 9, p.mr[1], pair_at(&p, 1, 0), 8);
	rig_run(&p.r);
	assert_int_equal(trace_copy(p.r.f->host, &p.qp[0]->qp, ring), 1);
	assert_int_equal(ring[0].fetched, from);
	assert_int_equal(ring[0].done, from + 5000);
	assert_int_equal(trace_copy(p.r.f->host, &p.qp[1]->qp, ring), 1);
	assert_true(ring[0].recv);
	assert_int_equal(ring[0].wr_id, 9);
	assert_int_equal(ring[0].length, 8);
	assert_int_equal(ring[0].peer, p.qp[0]->qp.qp_num);
	trace_off(p.r.f->host, &p.r.cont[0]);
	trace_off(p.r.f->host, &p.r.cont[1]);
	pair_down(&p);
}

static void the_oldest_go(void **state)
{
	struct pair p;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	assert_int_equal(trace_on(p.r.f->host, &p.r.cont[0], 0), 1);
	for (uint64_t i = 0; i < TRACE_DEPTH + 10; i++) {
		pair_rdma(&p, FF_OP_WRITE, i, 0, 0, 8);
		rig_run(&p.r);
		pair_expect(p.cq[0], i, IBV_WC_SUCCESS);
	}
	assert_int_equal(trace_copy(p.r.f->host, &p.qp[0]->qp, ring), TRACE_DEPTH);
	assert_int_equal(ring[0].wr_id, 10);
	assert_int_equal(ring[TRACE_DEPTH - 1].wr_id, TRACE_DEPTH + 9);
	pair_down(&p); /* the ring goes with its QP */
}

static void one_queue_pair_alone(void **state)
{
	struct rig_qp *a, *b;
	struct pair p;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	a = rig_qp(&p.r, p.s[0], IBV_QPT_RC, p.cq[0], p.cq[0], NULL);
	assert_int_equal(trace_on(p.r.f->host, &p.r.cont[0], a->qp.qp_num), 1);
	assert_non_null(a->qp.trace);
	assert_null(p.qp[0]->qp.trace);
	b = rig_qp(&p.r, p.s[0], IBV_QPT_RC, p.cq[0], p.cq[0], NULL);
	assert_null(b->qp.trace);
	assert_int_equal(trace_on(p.r.f->host, &p.r.cont[0], 0), 1); /* all of them now */
	assert_non_null(b->qp.trace);
	rig_qp_free(&p.r, b);
	b = rig_qp(&p.r, p.s[0], IBV_QPT_RC, p.cq[0], p.cq[0], NULL);
	assert_non_null(b->qp.trace); /* one that is made meanwhile */
	rig_qp_free(&p.r, b);
	rig_qp_free(&p.r, a);
	pair_down(&p);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(operations_are_kept_in_order),
			cmocka_unit_test(waiting_shows), cmocka_unit_test(the_oldest_go),
			cmocka_unit_test(one_queue_pair_alone));
}
