/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/lib/rig.c */
/*
 * test_steps.c - what takes as long as a client likes is done in steps, between which others are
 * served: a QP's flush, a CQ's move to another ring, news of QPs and SRQs, windows of a QP that goes,
 * tables that grow. What is counted is how much one step does.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "ffr/fast/mw.h"
#include "ffr/fast/xrc.h"
#include "tests/lib/rig.h"

#define DEPTH 2048u

static int setup(void **state)
{
	static struct rig_one f;

	rig_depth = DEPTH;
	rig_one_open(&f, &soft_ops, IBV_QPT_RC, 2 * DEPTH, false);
	rig_depth = 16;
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct rig_one *f = *state;

	rig_qp_free(&f->r, f->qp);
	rig_cq_free(&f->r, f->cq);
	rig_session_free(&f->r, f->s);
	rig_fini(&f->r);
	return 0;
}

/* All of two rings are flushed, in order, but the first step does a part of it. */
static void flush(void **state)
{
	struct rig_one *f = *state;
	uint64_t send = 0, recv = 0;
	struct ff_cqe e;

	rig_connect(&f->r, f->qp, f->qp);
	for (uint64_t i = 0; i < DEPTH; i++) {
		struct ff_sqe *s = rig_sqe(f->qp, FF_OP_WRITE, i);

		s->num_sge = 0;
		rig_post(&f->r, f->qp);
		rig_recv(&f->r, f->qp, i, NULL, 0, 0);
	}
	rig_state(&f->r, f->qp, IBV_QPS_ERR);
	assert_in_range(f->cq->cq.pi, 1, 300);
	assert_true(f->qp->qp.is_active);
	for (uint32_t pi = f->cq->cq.pi; pi < 2 * DEPTH; pi = f->cq->cq.pi) {
		fast_turn(f->r.f);
		assert_in_range(f->cq->cq.pi - pi, 1, 300);
	}
	while (rig_poll(f->cq, &e)) {
		assert_int_equal(e.status, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(e.wr_id, e.opcode & FF_CQE_RECV ? recv++ : send++);
	}
	assert_int_equal(send, DEPTH);
	assert_int_equal(recv, DEPTH);
}

static void complete(struct rig_one *f, uint64_t *id, uint32_t n)
{
	static const struct recv_info none;

	while (n--)
		comp_recv(f->r.f, &f->qp->qp, (*id)++, IBV_WC_SUCCESS, FF_VERR_NONE, &none);
}

/* Completions that come while a CQ moves are behind those that it had. */
static void cq_moves(void **state)
{
	struct rig_one *f = *state;
	struct cq *cq = &f->cq->cq;
	struct ff_cqe *ring = aligned_alloc(64, 4 * DEPTH * sizeof(*ring)), *old = cq->ring, e;
	struct ff_cq_hdr hdr = { 0 }, *old_hdr = cq->hdr;
	struct cq_move move = { .hdr = &hdr, .ring = ring, .depth = 4 * DEPTH };
	uint64_t id = 0;
	int steps = 0;

	memset(ring, 0, 4 * DEPTH * sizeof(*ring));
	complete(f, &id, 3500);
	for (uint64_t i = 0; i < 100; i++)
		assert_true(rig_poll(f->cq, &e));
	while (fast_cq_move(cq, &move) == -EAGAIN) {
		steps++;
		assert_ptr_equal(cq->ring, old);
		assert_int_equal(move.n, steps * CQ_MOVE);
		complete(f, &id, 10);
	}
	assert_int_equal(steps, 3);
	assert_ptr_equal(cq->ring, ring);
	f->cq->ci = 0;
	complete(f, &id, 10);
	for (uint64_t i = 100; i < id; i++) {
		assert_true(rig_poll(f->cq, &e));
		assert_int_equal(e.wr_id, i);
	}
	assert_false(rig_poll(f->cq, &e));
	cq->ring = old;
	cq->hdr = old_hdr;
	cq->depth = 2 * DEPTH;
	free(ring);
}

/* A client that says that it has consumed less than it was given, or adds without an end. */
static void cq_does_not_fit(void **state)
{
	struct rig_one *f = *state;
	struct cq *cq = &f->cq->cq;
	struct ff_cqe ring[16] = { 0 }, *old = cq->ring;
	struct ff_cq_hdr hdr = { 0 };
	struct cq_move move = { .hdr = &hdr, .ring = ring, .depth = 16 };
	uint64_t id = 0;

	complete(f, &id, 17);
	assert_int_equal(fast_cq_move(cq, &move), -EINVAL);
	assert_ptr_equal(cq->ring, old);
}

static uint32_t bits_left(const struct session *s)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < FF_MAX_QP / 64; i++)
		n += (uint32_t)__builtin_popcountll(atomic_load(&s->hdr->dirty[i]));
	return n;
}

/* All QPs are said to have news: others' are looked at in the same turn, all of them in the end. */
static void news_of_qps(void **state)
{
	struct rig_one *f = *state;
	struct rig_ses *two = rig_session(&f->r, 0), *other = rig_session(&f->r, 1);
	struct session *s = &f->s->s;
	uint32_t left = FF_MAX_QP;

	for (unsigned i = 0; i < FF_MAX_QP / 64; i++)
		atomic_store(&s->hdr->dirty[i], UINT64_MAX);
	for (unsigned i = 0; i < FF_MAX_QP / 4096; i++)
		atomic_store(&s->hdr->dirty_sum[i], UINT64_MAX);
	for (int i = 0; i < 2; i++) {
		atomic_store(&(i ? two : other)->s.hdr->dirty[0], 1);
		atomic_store(&(i ? two : other)->s.hdr->dirty_sum[0], 1);
	}
	ses_activate(f->r.f, s);
	ses_activate(f->r.f, &two->s);
	ses_activate(f->r.f, &other->s);
	fast_turn(f->r.f);
	assert_in_range(left - bits_left(s), 1, 256);
	assert_int_equal(bits_left(&other->s), 0);
	/* its own container's next session is first in the next turn */
	fast_turn(f->r.f);
	assert_int_equal(bits_left(&two->s), 0);
	for (left = bits_left(s); left; left = bits_left(s)) {
		fast_turn(f->r.f);
		assert_in_range(left - bits_left(s), 1, 256);
	}
	for (unsigned i = 0; i < FF_MAX_QP / 4096; i++)
		assert_int_equal(atomic_load(&s->hdr->dirty_sum[i]), 0);
	rig_session_free(&f->r, two);
	rig_session_free(&f->r, other);
}

static void news_of_srqs(void **state)
{
	enum { N = 600 };
	struct rig_one *f = *state;
	struct session *s = &f->s->s;
	struct rig_srq *srq[N];
	uint32_t size;

	for (int i = 0; i < N; i++)
		srq[i] = rig_srq(&f->r, f->s, 1);
	size = s->tab[OBJ_SRQ].size;
	atomic_fetch_add(&s->hdr->srq_kick, 1);
	ses_activate(f->r.f, s);
	fast_turn(f->r.f);
	assert_int_equal(s->bells.srqs_left, size - 256);
	assert_false(fast_arm_all(f->r.f)); /* it does not sleep on that */
	fast_disarm_all(f->r.f);
	/* a kick in between is for all of them, also for those before */
	atomic_fetch_add(&s->hdr->srq_kick, 1);
	fast_turn(f->r.f);
	assert_int_equal(s->bells.srqs_left, size - 256);
	rig_run(&f->r);
	assert_int_equal(s->bells.srqs_left, 0);
	for (int i = 0; i < N; i++)
		rig_srq_free(&f->r, srq[i]);
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
	}
	assert_false(mw_qp_gone(qp, 2));
	assert_int_equal(mr.o.refs, 3);
	assert_true(mw_qp_gone(qp, 3));
	assert_int_equal(mr.o.refs, 0);
}

/* A large table is made while others have the lock; its keys are all found. */
static void keys_grow_apart(void **state)
{
	enum { N = 8192 };
	struct rig_one *f = *state;
	struct key_table t = { 0 };
	struct mr *mr = calloc(N + 1, sizeof(*mr));
	uint64_t epoch = f->r.f->epoch;

	for (int i = 0; i < N; i++) {
		assert_int_equal(fast_keys_room(f->r.f, &t), 0);
		assert_int_equal(key_insert(&t, &mr[i]), 0);
	}
	assert_int_equal(t.size, 2 * N);
	assert_int_equal(f->r.f->epoch - epoch, 2); /* 4096 to 8192 to 16384 */
	epoch = f->r.f->epoch;
	assert_int_equal(fast_keys_room(f->r.f, &t), 0);
	assert_int_equal(t.size, 4 * N);
	assert_int_equal(f->r.f->epoch, epoch + 1);
	assert_int_equal(key_insert(&t, &mr[N]), 0);
	for (int i = 0; i <= N; i++)
		assert_ptr_equal(key_lookup(&t, mr[i].lkey), &mr[i]);
	free(t.slot);
	free(mr);
}

static void qp_numbers_grow_apart(void **state)
{
	enum { N = 4096 };
	struct rig_one *f = *state;
	struct fast *fast = f->r.f;
	struct qp *qp = calloc(N, sizeof(*qp));

	for (int i = 0; i < N; i++) {
		uint32_t size = fast->qps.size;

		assert_int_equal(fast_qpns_room(fast), 0);
		if (size >= 4096)
			size = fast->qps.size;
		assert_int_equal(qpn_alloc(&fast->qps, &qp[i]), 0);
		assert_true(size < 4096 || fast->qps.size == size);
	}
	assert_true(fast->qps.size > N);
	for (int i = 0; i < N; i++)
		assert_ptr_equal(qp_by_num(&fast->qps, qp[i].qp_num), &qp[i]);
	for (int i = 0; i < N; i++)
		qpn_free(&fast->qps, &qp[i]);
	free(qp);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(flush),	       TEST(cq_moves),
		TEST(cq_does_not_fit), TEST(news_of_qps),
		TEST(news_of_srqs),    TEST(windows_of_a_qp),
		TEST(keys_grow_apart), TEST(qp_numbers_grow_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
