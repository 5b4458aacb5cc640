/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/nic_rig.c tests/rig/fakes/fake_nic.c tests/rig/fakes/fake_nic_wr.c tests/rig/unit/rig.c */
/*
 * test_srq.c - an SRQ of QPs that the NIC carries: any of them takes the next receive, the limit counts what the NIC
 * has, and what goes with a QP is not lost to the SRQ.
 */
#include "tests/rig/unit/nic_rig.h"

#include <errno.h>
#include <string.h>

#define DEPTH 16u

struct s {
	struct nic_rig n;
	struct rig_srq *srq;
	struct rig_qp *other; /* another QP of it, by the NIC as well */
	uint64_t posted;
};

static struct ibv_srq *ib(const struct s *s)
{
	return s->srq->srq.nic->ib;
}

static int setup_of(void **state, uint32_t depth)
{
	static struct s s;

	fake_nic_reset();
	s = (struct s){ 0 };
	nic_rig_open(&s.n);
	s.srq = rig_srq(&s.n.r, s.n.s, depth);
	s.n.qp = rig_qp(&s.n.r, s.n.s, IBV_QPT_RC, s.n.cq, s.n.cq, s.srq);
	s.n.ib = nic_rig_ib(s.n.qp);
	s.other = rig_qp(&s.n.r, s.n.s, IBV_QPT_RC, s.n.cq, s.n.cq, s.srq);
	*state = &s;
	return 0;
}

static int setup(void **state)
{
	return setup_of(state, DEPTH);
}

static int setup_deep(void **state)
{
	return setup_of(state, 1024);
}

static int teardown(void **state)
{
	struct s *s = *state;

	if (s->other)
		rig_qp_free(&s->n.r, s->other);
	if (s->n.qp)
		rig_qp_free(&s->n.r, s->n.qp);
	s->n.qp = NULL;
	rig_srq_free(&s->n.r, s->srq);
	nic_rig_close(&s->n);
	return 0;
}
#define SRQ_TEST(name)	    cmocka_unit_test_setup_teardown(name, setup, teardown)
#define SRQ_TEST_DEEP(name) cmocka_unit_test_setup_teardown(name, setup_deep, teardown)

static void connect_both(struct s *s)
{
	nic_rig_connect(&s->n, s->n.qp);
	nic_rig_connect(&s->n, s->other);
	rig_run(&s->n.r);
}

static void post(struct s *s, unsigned n)
{
	while (n--) {
		rig_srq_recv(&s->n.r, s->srq, s->posted, s->n.mr, nic_rig_at(&s->n, 64 * s->posted),
			     64);
		s->posted++;
	}
	rig_run(&s->n.r);
}

static void got(struct s *s, const struct rig_qp *by, uint64_t wr_id, enum ibv_wc_status st)
{
	struct ff_cqe c;

	rig_run(&s->n.r);
	assert_true(rig_poll(s->n.cq, &c));
	assert_int_equal(c.wr_id, wr_id);
	assert_int_equal(c.status, st);
	assert_int_equal(c.qp_num, by->qp.qp_num);
	if (st == IBV_WC_SUCCESS)
		assert_int_equal(c.byte_len, 8);
	nic_rig_expect_none(&s->n);
}

static uint32_t lost(const struct s *s)
{
	return atomic_load(&s->srq->srq.hdr->lost);
}

/* ---- as with a NIC of one's own --------------------------------------------------------------------------- */

static void it_is_one_of_the_nics(void **state)
{
	struct s *s = *state;

	assert_int_equal(fake_nic.srqs, 1);
	assert_ptr_equal(fake_nic.init.srq, ib(s));
	assert_int_equal(fake_nic.init.cap.max_recv_wr, 0);
	assert_ptr_equal(fake_nic.init.recv_cq, s->srq->srq.nic->cq->cq);
	/* nobody may take them yet */
	post(s, 3);
	assert_int_equal(fake_nic_srq_recvs(ib(s)), 0);
	connect_both(s);
	assert_int_equal(fake_nic_srq_recvs(ib(s)), 3);
	assert_int_equal(fake_nic_recv_at(1)->sge[0].addr, nic_rig_at(&s->n, 64));
	assert_int_equal(fake_nic_recv_at(1)->sge[0].lkey,
			 ((struct nic_mr *)s->n.mr->backend)->ib->lkey);
}

static void any_of_them_takes_the_next(void **state)
{
	struct s *s = *state;
	uint64_t id = 0;

	connect_both(s);
	for (int lap = 0; lap < 20; lap++) {
		post(s, 5);
		assert_int_equal(fake_nic_srq_recvs(ib(s)), 5);
		for (int i = 0; i < 5; i++) {
			struct rig_qp *by = (lap + i) % 3 ? s->n.qp : s->other;

			fake_nic_received(nic_rig_ib(by), IBV_WC_SUCCESS, 8, NULL);
			got(s, by, id++, IBV_WC_SUCCESS);
		}
	}
	assert_int_equal(s->srq->srq.held, 0);
	assert_int_equal(lost(s), 0);
}

/* What was announced is moved by the bell's call; more than a turn may, by the next turns. */
static void many_at_once(void **state)
{
	struct s *s = *state;

	nic_first(s->n.r.f)->attr.max_srq_wr = 600;
	rig_qp_free(&s->n.r, s->other);
	rig_qp_free(&s->n.r, s->n.qp);
	rig_srq_free(&s->n.r, s->srq);
	s->srq = rig_srq(&s->n.r, s->n.s, 1024);
	s->n.qp = rig_qp(&s->n.r, s->n.s, IBV_QPT_RC, s->n.cq, s->n.cq, s->srq);
	s->n.ib = nic_rig_ib(s->n.qp);
	s->other = NULL;
	for (; s->posted < 1000; s->posted++)
		rig_srq_recv(&s->n.r, s->srq, s->posted, s->n.mr, nic_rig_at(&s->n, 0), 64);
	rig_run(&s->n.r);
	nic_rig_connect(&s->n, s->n.qp);
	assert_in_range(fake_nic_srq_recvs(ib(s)), 1, 599);
	rig_run(&s->n.r);
	assert_int_equal(fake_nic_srq_recvs(ib(s)), 600);
	for (uint64_t i = 0; i < 400; i++) {
		fake_nic_received(s->n.ib, IBV_WC_SUCCESS, 8, NULL);
		got(s, s->n.qp, i, IBV_WC_SUCCESS);
		assert_int_equal(fake_nic_srq_recvs(ib(s)), 600);
	}
}

/* ---- the limit -------------------------------------------------------------------------------------------- */

static void the_limit_counts_what_the_nic_has(void **state)
{
	struct s *s = *state;
	uint32_t handle;

	connect_both(s);
	post(s, 10);
	assert_int_equal(s->srq->srq.held, 10);
	fast_srq_arm(s->n.r.f, &s->srq->srq, 8);
	assert_int_equal(s->srq->srq.limit, 8);
	for (uint64_t i = 0; i < 3; i++) {
		assert_int_equal(rig_async(s->n.s, &handle), 0);
		fake_nic_received(s->n.ib, IBV_WC_SUCCESS, 8, NULL);
		got(s, s->n.qp, i, IBV_WC_SUCCESS);
	}
	assert_int_equal(rig_async(s->n.s, &handle), IBV_EVENT_SRQ_LIMIT_REACHED + 1);
	assert_int_equal(handle, s->srq->srq.o.handle);
	assert_int_equal(s->srq->srq.limit, 0);
	/* armed below it: at once */
	fast_srq_arm(s->n.r.f, &s->srq->srq, 8);
	assert_int_equal(rig_async(s->n.s, &handle), IBV_EVENT_SRQ_LIMIT_REACHED + 1);
}

/* Part of them in the ring. */
static void the_limit_counts_both(void **state)
{
	struct s *s = *state;
	uint32_t handle;

	nic_first(s->n.r.f)->attr.max_srq_wr = 4;
	rig_qp_free(&s->n.r, s->other);
	s->other = NULL;
	rig_qp_free(&s->n.r, s->n.qp);
	rig_srq_free(&s->n.r, s->srq);
	s->srq = rig_srq(&s->n.r, s->n.s, DEPTH);
	s->n.qp = rig_qp(&s->n.r, s->n.s, IBV_QPT_RC, s->n.cq, s->n.cq, s->srq);
	s->n.ib = nic_rig_ib(s->n.qp);
	nic_rig_connect(&s->n, s->n.qp);
	post(s, 10);
	assert_int_equal(s->srq->srq.held, 4);
	fast_srq_arm(s->n.r.f, &s->srq->srq, 10);
	assert_int_equal(rig_async(s->n.s, &handle), 0);
	fake_nic_received(s->n.ib, IBV_WC_SUCCESS, 8, NULL);
	got(s, s->n.qp, 0, IBV_WC_SUCCESS);
	assert_int_equal(rig_async(s->n.s, &handle), IBV_EVENT_SRQ_LIMIT_REACHED + 1);
	assert_int_equal(s->srq->srq.held, 4);
}

/* ---- shared with copies ------------------------------------------------------------------------------------ */

static void half_is_left_for_copies(void **state)
{
	struct s *s = *state;
	struct rig_qp *peer = rig_qp(&s->n.r, s->n.s, IBV_QPT_RC, s->n.cq, s->n.cq, NULL);
	struct ff_cqe c;
	bool has_received = false;

	nic_rig_connect(&s->n, s->n.qp);
	rig_connect(&s->n.r, s->other, peer);
	rig_connect(&s->n.r, peer, s->other);
	assert_int_equal(s->srq->srq.nic->num_soft, 1);
	assert_int_equal(s->srq->srq.nic->num_carried, 1);
	post(s, 8);
	assert_int_equal(fake_nic_srq_recvs(ib(s)), 4);
	rig_sge(rig_sqe(peer, FF_OP_SEND, 77), s->n.mr, nic_rig_at(&s->n, 0), 8);
	rig_post(&s->n.r, peer);
	rig_run(&s->n.r);
	while (rig_poll(s->n.cq, &c)) {
		assert_int_equal(c.status, IBV_WC_SUCCESS);
		has_received |= c.qp_num == s->other->qp.qp_num && c.wr_id == 4;
	}
	assert_true(has_received);
	fake_nic_received(s->n.ib, IBV_WC_SUCCESS, 8, NULL);
	got(s, s->n.qp, 0, IBV_WC_SUCCESS);
	/* the last QP that copies goes: all is the NIC's */
	rig_qp_free(&s->n.r, s->other);
	s->other = NULL;
	assert_int_equal(s->srq->srq.nic->num_soft, 0);
	post(s, 1);
	assert_int_equal(fake_nic_srq_recvs(ib(s)), 7);
	rig_qp_free(&s->n.r, peer);
}

/* ---- ends of QPs -------------------------------------------------------------------------------------------- */

/* In ERR the receives are the SRQ's; one that the NIC had begun with is flushed. */
static void err(void **state)
{
	struct s *s = *state;
	uint32_t handle;

	connect_both(s);
	post(s, 6);
	rig_state(&s->n.r, s->n.qp, IBV_QPS_ERR);
	nic_rig_work(&s->n);
	assert_int_equal(fake_nic_state(s->n.ib), IBV_QPS_ERR);
	rig_run(&s->n.r);
	assert_int_equal(rig_async(s->n.s, &handle), IBV_EVENT_QP_LAST_WQE_REACHED + 1);
	fake_nic_received(s->n.ib, IBV_WC_WR_FLUSH_ERR, 0, NULL);
	got(s, s->n.qp, 0, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(fake_nic_srq_recvs(ib(s)), 5);
	fake_nic_received(nic_rig_ib(s->other), IBV_WC_SUCCESS, 8, NULL);
	got(s, s->other, 1, IBV_WC_SUCCESS);
}

static void an_error_of_a_receive(void **state)
{
	struct s *s = *state;

	connect_both(s);
	post(s, 2);
	fake_nic_received(s->n.ib, IBV_WC_LOC_LEN_ERR, 0, NULL);
	got(s, s->n.qp, 0, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(s->n.qp->qp.state, IBV_QPS_ERR);
	nic_rig_work(&s->n);
	assert_int_equal(fake_nic_state(s->n.ib), IBV_QPS_RTS); /* it answers the peer */
	assert_int_equal(s->other->qp.state, IBV_QPS_RTS);
}

/* The NIC throws away what is in its CQ of a QP that goes: that is fetched before, and the ring is told. */
static void a_qp_that_goes(void **state)
{
	struct s *s = *state;

	for (int destroyed = 0; destroyed < 2; destroyed++) {
		connect_both(s);
		post(s, 4);
		for (int i = 0; i < 4; i++)
			fake_nic_received(s->n.ib, IBV_WC_SUCCESS, 8, NULL);
		if (destroyed) {
			rig_qp_free(&s->n.r, s->n.qp);
			s->n.qp = NULL;
		} else {
			rig_state(&s->n.r, s->n.qp, IBV_QPS_RESET);
			rig_state(&s->n.r, s->other, IBV_QPS_RESET);
		}
		rig_run(&s->n.r);
		nic_rig_expect_none(&s->n);
		assert_int_equal(lost(s), 4 * (destroyed + 1));
		assert_int_equal(s->srq->srq.held, 0);
		assert_int_equal(s->srq->srq.nic->num_free, DEPTH);
	}
	post(s, 1);
	fake_nic_received(nic_rig_ib(s->other), IBV_WC_SUCCESS, 8, NULL);
	got(s, s->other, 8, IBV_WC_SUCCESS);
}

/* The NIC keeps the completion: it comes in the QP's next life, or to another one's number. */
static void what_comes_late(void **state)
{
	struct s *s = *state;
	struct ibv_wc wc;

	connect_both(s);
	post(s, 4);
	wc = (struct ibv_wc){ .qp_num = s->n.ib->qp_num,
			      .opcode = IBV_WC_RECV,
			      .status = IBV_WC_WR_FLUSH_ERR,
			      .wr_id = fake_nic_recv_at(0)->wr_id };
	rig_state(&s->n.r, s->n.qp, IBV_QPS_RESET);
	nic_rig_connect(&s->n, s->n.qp);
	fake_nic_push(s->n.ib->recv_cq, &wc);
	rig_run(&s->n.r);
	nic_rig_expect_none(&s->n);
	assert_int_equal(s->n.qp->qp.state, IBV_QPS_RTS);
	assert_int_equal(lost(s), 1);
	wc.wr_id = fake_nic_recv_at(1)->wr_id;
	wc.status = IBV_WC_SUCCESS;
	wc.qp_num = 0x7777;
	fake_nic_push(s->n.ib->recv_cq, &wc);
	rig_run(&s->n.r);
	nic_rig_expect_none(&s->n);
	assert_int_equal(lost(s), 2);
}

static void nonsense(void **state)
{
	struct s *s = *state;
	struct ibv_wc wc = { .opcode = IBV_WC_RECV };
	uint64_t id;

	connect_both(s);
	post(s, 1);
	id = fake_nic_recv_at(0)->wr_id;
	fake_nic_received(s->n.ib, IBV_WC_SUCCESS, 8, NULL);
	got(s, s->n.qp, 0, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < 3; i++) {
		wc.qp_num = s->n.ib->qp_num;
		/* twice; a place that is none; an SRQ that is none */
		wc.wr_id = i == 0 ? id : i == 1 ? id + DEPTH : id ^ 1ull << 60;
		fake_nic_push(s->n.ib->recv_cq, &wc);
		rig_run(&s->n.r);
		nic_rig_expect_none(&s->n);
	}
	assert_int_equal(lost(s), 0);
	assert_int_equal(s->srq->srq.nic->num_free, DEPTH);
}

/* ---- a NIC that fails -------------------------------------------------------------------------------------- */

/* QPs of an SRQ that the NIC has not are the software device's. */
static void what_the_nic_refuses(void **state)
{
	struct s *s = *state;
	struct rig_srq *srq = rig_srq(&s->n.r, s->n.s, DEPTH);
	struct rig_qp *q;

	fake_nic_fail(FAKE_create_srq, 1, ENOSYS);
	q = rig_qp(&s->n.r, s->n.s, IBV_QPT_RC, s->n.cq, s->n.cq, srq);
	assert_null(q->qp.nic);
	assert_null(srq->srq.nic);
	rig_qp_free(&s->n.r, q);
	/* the next one that wants it asks again; a QP that the NIC refuses costs the SRQ nothing */
	fake_nic_fail(FAKE_create_qp, 1, ENOMEM);
	assert_null(rig_qp_try(s->n.s, IBV_QPT_RC, s->n.cq, s->n.cq, srq, &(int){ 0 }));
	q = rig_qp(&s->n.r, s->n.s, IBV_QPT_RC, s->n.cq, s->n.cq, srq);
	assert_non_null(q->qp.nic);
	rig_qp_free(&s->n.r, q);
	rig_srq_free(&s->n.r, srq);
}

/* It takes a receive no more: that one stays in the ring, and the application hears of it. */
static void a_receive_that_is_not_taken(void **state)
{
	struct s *s = *state;
	uint32_t handle, head;

	connect_both(s);
	post(s, 2);
	head = s->srq->srq.head;
	fake_nic_fail(FAKE_post_srq_recv, 1, ENOMEM);
	post(s, 2);
	assert_int_equal(s->srq->srq.head, head);
	assert_int_equal(s->srq->srq.held, 2);
	assert_int_equal(rig_async(s->n.s, &handle), IBV_EVENT_SRQ_ERR + 1);
	post(s, 1);
	assert_int_equal(fake_nic_srq_recvs(ib(s)), 2);
	assert_int_equal(rig_async(s->n.s, &handle), 0);
	fake_nic_received(s->n.ib, IBV_WC_SUCCESS, 8, NULL);
	got(s, s->n.qp, 0, IBV_WC_SUCCESS);
}

/* RTR is refused: who may receive is as before. */
static void a_refused_rtr(void **state)
{
	struct s *s = *state;

	post(s, 2);
	rig_state(&s->n.r, s->n.qp, IBV_QPS_INIT);
	nic_rig_attr(&s->n, s->n.qp);
	fake_nic_fail(FAKE_modify_qp, 2, EINVAL);
	assert_int_equal(rig_state_try(s->n.qp, IBV_QPS_RTR), -EINVAL);
	assert_int_equal(s->srq->srq.nic->num_carried, 0);
	nic_rig_connect(&s->n, s->n.qp);
	assert_int_equal(s->srq->srq.nic->num_carried, 1);
	fake_nic_received(s->n.ib, IBV_WC_SUCCESS, 8, NULL);
	got(s, s->n.qp, 0, IBV_WC_SUCCESS);
}

/* Of a malformed receive the SRQ is in error, as without a NIC. Memory that is not the container's: the message fails. */
static void bad_receives(void **state)
{
	struct s *s = *state;
	struct mr none = { .lkey = 0x1234567 };
	struct ff_rqe *e;
	uint32_t handle;

	connect_both(s);
	rig_srq_recv(&s->n.r, s->srq, 0, &none, nic_rig_at(&s->n, 0), 64);
	rig_run(&s->n.r);
	assert_int_equal(fake_nic_recv_at(0)->num_sge, 0);
	e = (struct ff_rqe *)(s->srq->srq.ring + s->srq->srq.stride);
	e->num_sge = 999;
	atomic_store(&e->seq, ff_seq(1));
	s->n.r.be.ops->recv_posted(s->n.r.f, NULL, &s->srq->srq);
	assert_int_equal(rig_async(s->n.s, &handle), IBV_EVENT_SRQ_ERR + 1);
	assert_true(s->srq->srq.error);
	fake_nic_received(s->n.ib, IBV_WC_SUCCESS, 8, NULL);
	got(s, s->n.qp, 0, IBV_WC_SUCCESS);
}

int main(void)
{
	return UNIT_RUN(SRQ_TEST(it_is_one_of_the_nics), SRQ_TEST(any_of_them_takes_the_next),
			SRQ_TEST_DEEP(many_at_once), SRQ_TEST(the_limit_counts_what_the_nic_has),
			SRQ_TEST(the_limit_counts_both), SRQ_TEST(half_is_left_for_copies),
			SRQ_TEST(err), SRQ_TEST(an_error_of_a_receive), SRQ_TEST(a_qp_that_goes),
			SRQ_TEST(what_comes_late), SRQ_TEST(nonsense),
			SRQ_TEST(what_the_nic_refuses), SRQ_TEST(a_receive_that_is_not_taken),
			SRQ_TEST(a_refused_rtr), SRQ_TEST(bad_receives));
}
