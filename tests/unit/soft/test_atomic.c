/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/rig/unit/soft_pair.c tests/rig/unit/rig.c */
/*
 * test_atomic.c - both atomics and the atomic write, on mapped memory and behind a process; misaligned ones,
 * and rights.
 */
#include <string.h>

#include "tests/rig/unit/soft_pair.h"
#include "tests/rig/unit/unit.h"

static void atomics(void **state)
{
	struct pair *p = *state;
	uint64_t v = 40, got;
	struct ff_sqe *e;

	memcpy(p->buf[1] + 8, &v, 8);
	e = rig_sqe(p->qp[0], FF_OP_FETCH_ADD, 1);
	rig_sge(e, p->mr[0], pair_at(p, 0, 16), 8);
	e->remote_addr = pair_at(p, 1, 8);
	e->rkey = p->mr[1]->rkey;
	e->atomic.compare_add = 2;
	rig_post(&p->r, p->qp[0]);
	e = rig_sqe(p->qp[0], FF_OP_CMP_SWAP, 2);
	rig_sge(e, p->mr[0], pair_at(p, 0, 24), 8);
	e->remote_addr = pair_at(p, 1, 8);
	e->rkey = p->mr[1]->rkey;
	e->atomic.compare_add = 42;
	e->atomic.swap = 99;
	rig_post(&p->r, p->qp[0]);
	rig_run(&p->r);
	pair_expect(p->cq[0], 1, IBV_WC_SUCCESS);
	pair_expect(p->cq[0], 2, IBV_WC_SUCCESS);
	memcpy(&got, p->buf[0] + 16, 8);
	assert_int_equal(got, 40);
	memcpy(&got, p->buf[0] + 24, 8);
	assert_int_equal(got, 42);
	memcpy(&got, p->buf[1] + 8, 8);
	assert_int_equal(got, 99);
	/* misaligned: an invalid request, and the responder says so too */
	e = rig_sqe(p->qp[0], FF_OP_FETCH_ADD, 3);
	rig_sge(e, p->mr[0], pair_at(p, 0, 16), 8);
	e->remote_addr = pair_at(p, 1, 12);
	e->rkey = p->mr[1]->rkey;
	rig_post(&p->r, p->qp[0]);
	rig_run(&p->r);
	pair_expect(p->cq[0], 3, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(rig_async(p->s[1], NULL), IBV_EVENT_QP_REQ_ERR + 1);
	assert_int_equal(p->qp[1]->qp.state, IBV_QPS_ERR);
}

static void atomic_write_sqe(struct pair *p, uint64_t id, uint64_t off, uint64_t value)
{
	struct ff_sqe *e = rig_sqe(p->qp[0], FF_OP_ATOMIC_WRITE, id);

	e->remote_addr = pair_at(p, 1, off);
	e->rkey = p->mr[1]->rkey;
	e->atomic.compare_add = value;
	rig_post(&p->r, p->qp[0]);
}

static void atomic_writes(void **state)
{
	struct pair *p = *state;
	struct ff_cqe c;
	uint64_t v;

	memset(p->buf[1], 0x55, 64);
	atomic_write_sqe(p, 1, 8, 0x0102030405060708ull);
	rig_run(&p->r);
	assert_true(rig_poll(p->cq[0], &c));
	assert_int_equal(c.status, IBV_WC_SUCCESS);
	assert_int_equal(c.opcode, IBV_WC_ATOMIC_WRITE);
	memcpy(&v, p->buf[1] + 8, 8);
	assert_true(v == 0x0102030405060708ull);
	assert_int_equal(p->buf[1][7], 0x55);
	assert_int_equal(p->buf[1][16], 0x55);
	assert_int_equal(stats_of_session(&p->s[0]->s).atomic_ops, 1);
	/* it is a WRITE: the right to atomics is neither needed nor enough */
	p->qp[1]->qp.attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	p->mr[1]->access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	atomic_write_sqe(p, 2, 8, 5);
	rig_run(&p->r);
	pair_expect(p->cq[0], 2, IBV_WC_SUCCESS);
	atomic_write_sqe(p, 3, 12, 6);
	rig_run(&p->r);
	pair_expect(p->cq[0], 3, IBV_WC_REM_INV_REQ_ERR);
	memcpy(&v, p->buf[1] + 8, 8);
	assert_int_equal(v, 5);
}

static void atomic_write_slow(void **state)
{
	struct pair *p = *state;
	struct mr *slow = rig_mr_pvm(&p->r, p->s[1], p->buf[1], PAIR_BUF, PAIR_ACCESS);
	struct ff_sqe *e = rig_sqe(p->qp[0], FF_OP_ATOMIC_WRITE, 1);
	uint64_t v;

	e->remote_addr = pair_at(p, 1, 8);
	e->rkey = slow->rkey;
	e->atomic.compare_add = 77;
	rig_post(&p->r, p->qp[0]);
	rig_run(&p->r);
	pair_expect(p->cq[0], 1, IBV_WC_SUCCESS);
	memcpy(&v, p->buf[1] + 8, 8);
	assert_int_equal(v, 77);
	rig_mr_free(&p->r, slow);
}

/* Eight bytes of which the router has four at one place and four at another. */
static void atomic_crosses_runs(void **state)
{
	struct pair *p = *state;
	static _Alignas(8) uint8_t place[2][16];
	uint8_t *const host[] = { place[0], place[1] };
	const uint64_t len[] = { 12, 12 };
	uint64_t before = 40, v;
	struct mr *mr = rig_mr_runs(p->s[1], (uintptr_t)p->buf[1], host, len, 2, PAIR_ACCESS);
	struct ff_sqe *e = rig_sqe(p->qp[0], FF_OP_FETCH_ADD, 1);

	memset(place, 0, sizeof(place));
	memcpy(p->buf[1] + 8, &before, 8);
	rig_sge(e, p->mr[0], pair_at(p, 0, 16), 8);
	e->remote_addr = pair_at(p, 1, 8);
	e->rkey = mr->rkey;
	e->atomic.compare_add = 2;
	rig_post(&p->r, p->qp[0]);
	rig_run(&p->r);
	pair_expect(p->cq[0], 1, IBV_WC_SUCCESS);
	memcpy(&v, p->buf[1] + 8, 8); /* it was made where the program has them in a row */
	assert_int_equal(v, 42);
	for (unsigned i = 12; i < 16; i++)
		assert_int_equal(place[0][i], 0);
	rig_mr_free(&p->r, mr);
}

/* One word of a process is changed at a time, and QPs wait for that, or give up. */
static void many_qps_behind_a_process(void **state)
{
	enum { QPS = 4, EACH = 3, ALL = QPS * EACH };
	struct pair *p = *state;
	struct mr *slow = rig_mr_pvm(&p->r, p->s[1], p->buf[1], PAIR_BUF, PAIR_ACCESS);
	struct rig_qp *from[QPS], *to[QPS];
	bool seen[ALL] = { false };
	uint64_t v = 0;
	struct ff_cqe c;

	memcpy(p->buf[1] + 8, &v, 8);
	for (unsigned q = 0; q < QPS; q++) {
		from[q] = rig_qp(&p->r, p->s[0], IBV_QPT_RC, p->cq[0], p->cq[0], NULL);
		to[q] = rig_qp(&p->r, p->s[1], IBV_QPT_RC, p->cq[1], p->cq[1], NULL);
		rig_connect(&p->r, from[q], to[q]);
		rig_connect(&p->r, to[q], from[q]);
	}
	for (unsigned i = 0; i < ALL; i++) {
		struct ff_sqe *e = rig_sqe(from[i % QPS], FF_OP_FETCH_ADD, i);

		rig_sge(e, p->mr[0], pair_at(p, 0, (uint64_t)i * 8), 8);
		e->remote_addr = pair_at(p, 1, 8);
		e->rkey = slow->rkey;
		e->atomic.compare_add = 1;
		rig_post(&p->r, from[i % QPS]);
	}
	rig_run(&p->r);
	for (unsigned i = 0; i < ALL; i++) {
		assert_true(rig_poll(p->cq[0], &c));
		assert_int_equal(c.status, IBV_WC_SUCCESS);
		memcpy(&v, p->buf[0] + c.wr_id * 8, 8);
		assert_in_range(v, 0, ALL - 1);
		assert_false(seen[v]);
		seen[v] = true;
	}
	memcpy(&v, p->buf[1] + 8, 8);
	assert_int_equal(v, ALL);
	for (unsigned q = 0; q < QPS; q++) {
		rig_qp_free(&p->r, from[q]);
		rig_qp_free(&p->r, to[q]);
	}
	rig_mr_free(&p->r, slow);
}

/* What it fetches is 8 bytes, for which there is room, or it is not carried out. */
static void length_of_the_result(void **state)
{
	static const uint8_t op[] = { FF_OP_FETCH_ADD, FF_OP_CMP_SWAP };
	static const uint32_t len[] = { 0, 4, 7, 9, 16 };

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(op) * ARRAY_SIZE(len); i++) {
		struct ff_sqe *e;
		struct pair p;

		pair_up(&p, IBV_QPT_RC, 0, 1);
		e = rig_sqe(p.qp[0], op[i % 2], 1);
		rig_sge(e, p.mr[0], pair_at(&p, 0, 0), len[i / 2]);
		e->remote_addr = pair_at(&p, 1, 8);
		e->rkey = p.mr[1]->rkey;
		memcpy(&e->atomic.compare_add, p.buf[1] + 8, 8);
		e->atomic.swap = 1;
		rig_post(&p.r, p.qp[0]);
		rig_run(&p.r);
		pair_expect(p.cq[0], 1, IBV_WC_LOC_LEN_ERR);
		assert_int_equal(p.buf[1][8], 0xa1);
		assert_int_equal(p.buf[0][0], 0xa0);
		pair_down(&p);
	}
}

static void refused(void **state)
{
	for (int i = 0; i < 6; i++) {
		static const enum ibv_wc_status want[] = {
			IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR,
			IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_QP_OP_ERR,  IBV_WC_LOC_QP_OP_ERR,
		};
		struct ff_sqe *e;
		struct pair p;

		(void)state;
		pair_up(&p, IBV_QPT_RC, 0, 1);
		memset(p.buf[1], 0x55, 64);
		e = rig_sqe(p.qp[0], FF_OP_ATOMIC_WRITE, 1);
		e->remote_addr = pair_at(&p, 1, 8);
		e->rkey = p.mr[1]->rkey;
		switch (i) {
		case 0: /* of the QP */
			p.qp[1]->qp.attr.qp_access_flags = IBV_ACCESS_REMOTE_ATOMIC |
							   IBV_ACCESS_REMOTE_READ;
			break;
		case 1: /* of the MR */
			p.mr[1]->access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
			break;
		case 2:
			e->remote_addr = pair_at(&p, 1, PAIR_BUF);
			break;
		case 3: /* what a READ needs, too */
			p.qp[1]->qp.attr.max_dest_rd_atomic = 0;
			break;
		case 4: /* it has its data with it */
			rig_sge(e, p.mr[0], pair_at(&p, 0, 0), 8);
			break;
		case 5:
			e->flags |= FF_SQE_INLINE;
			break;
		}
		rig_post(&p.r, p.qp[0]);
		rig_run(&p.r);
		pair_expect(p.cq[0], 1, want[i]);
		assert_int_equal(p.buf[1][8], 0x55);
		pair_down(&p);
	}
}

int main(void)
{
	return UNIT_RUN(PAIR_TEST(atomics), PAIR_TEST(atomic_writes), PAIR_TEST(atomic_write_slow),
			PAIR_TEST(atomic_crosses_runs), PAIR_TEST(many_qps_behind_a_process),
			cmocka_unit_test(length_of_the_result), cmocka_unit_test(refused));
}
