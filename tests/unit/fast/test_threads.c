/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/rig/unit/soft_pair.c tests/rig/unit/rig.c -Wl,--wrap=pvm_state tests/rig/unit/threads_rig.c */
/*
 * test_threads.c - containers on several fast threads: who is where, and that nothing is lost, doubled or forgotten on
 * the way. Clients whose memory does not answer are in test_threads_stalled.c.
 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffr/dir/dir.h"
#include "ffr/fast/pvm.h"
#include "tests/rig/unit/soft_pair.h"
#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/threads_rig.h"

static void there_and_back(void)
{
	two_move();
	two_move();
}

static void both_ways(void (*check)(void))
{
	there_and_back();
	check();
	two_move();
	check();
}

/* ---- who is where ----------------------------------------------------------------------------- */

static void containers_are_spread(void **state)
{
	struct container c = { .tenant = "t", .name = "new" };

	(void)state;
	/* 0 and 1 met on one thread; 2 and 3 are where they began */
	assert_ptr_equal(two_cont(0)->fast, two_cont(1)->fast);
	assert_ptr_not_equal(two_cont(2)->fast, two_cont(3)->fast);
	TAILQ_INIT(&c.mw.changed);
	assert_int_equal(fast_container_add(two_pair.r.f->host, &c), 0);
	assert_ptr_not_equal(c.fast, two_cont(0)->fast);
	fast_container_del(two_pair.r.f->host, &c);
}

static void who_connects_comes_together(void **state)
{
	struct rig_ses *s = rig_session(&two_pair.r, 3);
	struct container *c2 = two_cont(2), *c3 = two_cont(3);
	struct ff_ah_attr to = { .is_global = 1 };

	(void)state;
	memcpy(to.dgid, c2->gid[0].raw, 16);
	dir_meet(c3, &to); /* of another tenant: not allowed */
	assert_ptr_not_equal(c2->fast, c3->fast);
	memcpy(to.dgid, two_cont(1)->gid[0].raw, 16);
	if (c2->fast == two_cont(1)->fast)
		there_and_back(); /* c2 stays alone: it talks to nobody */
	two_move();
	dir_meet(c2, &to);
	assert_ptr_equal(c2->fast, two_cont(1)->fast);
	assert_ptr_equal(two_cont(0)->fast, two_cont(1)->fast);
	assert_int_equal(two_wanted, 0);
	rig_session_free(&two_pair.r, s);
}

/* The peer's container comes to the host after the QP was connected. */
static void who_comes_later_is_met(void **state)
{
	struct rig_ses *s = rig_session(&two_pair.r, 2);
	struct rig_cq *cq = rig_cq(&two_pair.r, s, 16, false);
	struct rig_qp *a = rig_qp(&two_pair.r, s, IBV_QPT_RC, cq, cq, NULL);
	struct rig_qp *b;
	struct rig_ses *sb;
	struct rig_cq *cqb;

	(void)state;
	fast_container_del(two_pair.r.f->host, two_cont(3));
	strcpy(two_cont(3)->tenant, "t");
	a->qp.attr.qp_access_flags = PAIR_ACCESS;
	a->qp.attr.timeout = 14;
	a->qp.attr.retry_cnt = 7;
	a->qp.attr.ah.is_global = 1;
	memcpy(a->qp.attr.ah.dgid, two_cont(3)->gid[0].raw, 16);
	assert_int_equal(fast_container_add(two_pair.r.f->host, two_cont(3)), 0);
	if (two_cont(3)->fast == two_cont(2)->fast) { /* the pair's are more on one of them */
		fast_container_del(two_pair.r.f->host, two_cont(3));
		two_move();
		assert_int_equal(fast_container_add(two_pair.r.f->host, two_cont(3)), 0);
	}
	assert_ptr_not_equal(two_cont(3)->fast, two_cont(2)->fast);
	sb = rig_session(&two_pair.r, 3);
	cqb = rig_cq(&two_pair.r, sb, 16, false);
	b = rig_qp(&two_pair.r, sb, IBV_QPT_RC, cqb, cqb, NULL);
	rig_state(&two_pair.r, b, IBV_QPS_INIT);
	b->qp.attr = a->qp.attr;
	memcpy(b->qp.attr.ah.dgid, two_cont(2)->gid[0].raw, 16);
	b->qp.attr.dest_qp_num = a->qp.qp_num;
	a->qp.attr.dest_qp_num = b->qp.qp_num;
	rig_state(&two_pair.r, a, IBV_QPS_INIT);
	/* nobody told dir_meet(): as if it had not been possible */
	rig_state(&two_pair.r, b, IBV_QPS_RTR);
	rig_state(&two_pair.r, a, IBV_QPS_RTR);
	rig_state(&two_pair.r, a, IBV_QPS_RTS);
	assert_true(two_wanted);
	rig_sqe(a, FF_OP_WRITE, 7);
	rig_post(&two_pair.r, a);
	rig_advance(&two_pair.r, 10 * MS);
	pair_expect_none(cq);
	assert_false(fast_settle(two_pair.r.f->host));
	assert_ptr_equal(two_cont(3)->fast, two_cont(2)->fast);
	rig_run(&two_pair.r); /* without a time-out */
	pair_expect(cq, 7, IBV_WC_SUCCESS);
	assert_int_equal(a->qp.stats.retries, 0);
	rig_qp_free(&two_pair.r, a);
	rig_qp_free(&two_pair.r, b);
	rig_cq_free(&two_pair.r, cq);
	rig_cq_free(&two_pair.r, cqb);
	rig_session_free(&two_pair.r, s);
	rig_session_free(&two_pair.r, sb);
}

/* ---- clients whose memory does not answer ------------------------------------------------------ */

static void the_first_is_kept(void **state)
{
	(void)state;
	if (two_cont(0)->fast != two_thread(1))
		two_move();
	assert_int_equal(fast_need_first(two_cont(1)), 0);
	assert_ptr_equal(two_cont(0)->fast, two_thread(0));
	for (int i = 0; i < 4; i++) {
		two_cont(0)->turns.load += 1ull << 40;
		fast_balance(two_pair.r.f->host);
	}
	assert_ptr_equal(two_cont(0)->fast, two_thread(0));
}

/* Meters are shared: containers of a limited tenant are on one thread. */
static void a_limited_tenant_is_together(void **state)
{
	struct ffo_limits l = { .tx_rate = 1000000 };

	(void)state;
	if (two_cont(2)->fast == two_cont(0)->fast)
		two_move();
	assert_ptr_not_equal(two_cont(2)->fast, two_cont(0)->fast);
	assert_int_equal(fast_tenant_limits(two_pair.r.f->host, "t", &l), 0);
	assert_ptr_equal(two_cont(2)->fast, two_cont(0)->fast);
	assert_ptr_equal(two_cont(1)->fast, two_cont(0)->fast);
	assert_true(two_cont(0)->of->limited);
	/* it holds, and goes along with who waits for it: 100 KB are 100 ms, less the burst */
	pair_rdma(&two_pair, FF_OP_WRITE, 1, 0, 0, 100000);
	rig_run(&two_pair.r);
	for (int i = 0; i < 90; i++) {
		rig_advance(&two_pair.r, MS);
		if (i % 10 == 5) {
			two_move();
			assert_ptr_equal(two_cont(2)->fast, two_cont(0)->fast);
		}
	}
	pair_expect_none(two_pair.cq[0]);
	for (int i = 0; i < 20; i++)
		rig_advance(&two_pair.r, MS);
	pair_expect(two_pair.cq[0], 1, IBV_WC_SUCCESS);
	assert_int_equal(two_thread(0)->num_throttled, 0);
	assert_int_equal(two_thread(1)->num_throttled, 0);
	assert_int_equal(fast_tenant_limits(two_pair.r.f->host, "t", &(struct ffo_limits){ 0 }), 0);
	assert_false(two_cont(0)->of->limited);
}

/* ---- what is under way ------------------------------------------------------------------------ */

static void receives_waited_for(void **state)
{
	(void)state;
	two_pair.qp[0]->qp.attr.rnr_retry = 7;
	pair_send(&two_pair, 1, 100);
	pair_send(&two_pair, 2, 100);
	rig_run(&two_pair.r);
	for (int i = 0; i < 5; i++) {
		two_move();
		rig_advance(&two_pair.r, MS / 3);
		pair_expect_none(two_pair.cq[0]);
	}
	for (int i = 0; i < 2; i++)
		rig_recv(&two_pair.r, two_pair.qp[1], 10 + (uint64_t)i, two_pair.mr[1],
			 pair_at(&two_pair, 1, 0), 4096);
	rig_run(&two_pair.r);
	pair_expect(two_pair.cq[1], 10, IBV_WC_SUCCESS);
	pair_expect(two_pair.cq[1], 11, IBV_WC_SUCCESS);
	pair_expect(two_pair.cq[0], 1, IBV_WC_SUCCESS);
	pair_expect(two_pair.cq[0], 2, IBV_WC_SUCCESS);
}

/* A move costs none of the retries: the timer goes on. */
static void rnr_retries_are_counted_by_time(void **state)
{
	int moves = 0;

	(void)state;
	two_pair.qp[0]->qp.attr.rnr_retry = 2; /* twice 0.64 ms */
	pair_send(&two_pair, 1, 100);
	rig_run(&two_pair.r);
	for (; moves < 13; moves++) {
		two_move();
		rig_advance(&two_pair.r, MS / 10);
		pair_expect_none(two_pair.cq[0]);
	}
	rig_advance(&two_pair.r, MS / 10);
	pair_expect(two_pair.cq[0], 1, IBV_WC_RNR_RETRY_EXC_ERR);
}

static void order(void)
{
	struct ff_cqe c;
	uint64_t next = 0;

	for (int i = 0; i < 10; i++) {
		struct ff_sqe *e = rig_sqe(two_pair.qp[0], FF_OP_WRITE, (uint64_t)i);

		two_pair.buf[0][i] = (uint8_t)(i + 1);
		rig_sge(e, two_pair.mr[0], pair_at(&two_pair, 0, (uint64_t)i), 1);
		e->remote_addr = pair_at(&two_pair, 1, 77);
		e->rkey = two_pair.mr[1]->rkey;
		rig_post(&two_pair.r, two_pair.qp[0]);
		if (i % 3 == 1)
			fast_turn(two_cont(0)->fast);
		if (i % 4 == 2)
			two_move();
	}
	rig_run(&two_pair.r);
	while (rig_poll(two_pair.cq[0], &c)) {
		assert_int_equal(c.status, IBV_WC_SUCCESS);
		assert_int_equal(c.wr_id, next++);
	}
	assert_int_equal(next, 10);
	assert_int_equal(two_pair.buf[1][77], 10);
}

static void requests_stay_in_order(void **state)
{
	(void)state;
	both_ways(order);
}

/* In the middle of a message: it goes on where it was. */
static void a_long_message_goes_on(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < PAIR_BUF; i++)
		two_pair.buf[0][i] = (uint8_t)(i * 7 + (i >> 12));
	pair_rdma(&two_pair, FF_OP_WRITE, 1, 0, 0, PAIR_BUF);
	pair_rdma(&two_pair, FF_OP_READ, 2, 0, 0, PAIR_BUF);
	for (int i = 0; i < 6; i++) {
		fast_turn(two_cont(0)->fast);
		two_move();
	}
	rig_run(&two_pair.r);
	pair_expect(two_pair.cq[0], 1, IBV_WC_SUCCESS);
	pair_expect(two_pair.cq[0], 2, IBV_WC_SUCCESS);
	assert_memory_equal(two_pair.buf[0], two_pair.buf[1], PAIR_BUF);
}

/* A bell that was written before the move is heard after it. */
static void bells_are_heard(void **state)
{
	struct epoll_event ev[4];
	uint64_t one = 1;
	int n;

	(void)state;
	rig_advance(&two_pair.r, 10 * MS); /* all at rest */
	assert_int_equal(write(two_pair.s[0]->bell, &one, sizeof(one)), sizeof(one));
	there_and_back();
	n = epoll_wait(two_cont(0)->fast->epoll_fd, ev, 4, 0);
	assert_true(n >= 1);
	assert_int_equal(fast_bells(two_cont(0)->fast, ev, n), 1);
	assert_true(two_pair.s[0]->s.bells.is_active);
	n = epoll_wait(two_thread(!two_cont(0)->fast->index)->epoll_fd, ev, 4, 0);
	for (int i = 0; i < n; i++)
		assert_null(ev[i].data.ptr);
}

static bool has_event(struct rig_cq *cq)
{
	struct ff_comp_event ev;

	return recv(cq->channel[0], &ev, sizeof(ev), MSG_DONTWAIT) == sizeof(ev);
}

/* An event that is held back comes when it is due. */
static void moderated_events_come(void **state)
{
	(void)state;
	fast_cq_moderate(two_cont(0)->fast, &two_pair.cq[0]->cq, 100, 5000);
	atomic_store(&two_pair.cq[0]->cq.hdr->arm, FF_CQ_ARM_ANY);
	pair_rdma(&two_pair, FF_OP_WRITE, 1, 0, 0, 8);
	rig_run(&two_pair.r);
	for (int i = 0; i < 4; i++) {
		two_move();
		rig_advance(&two_pair.r, MS);
		assert_false(has_event(two_pair.cq[0]));
	}
	rig_advance(&two_pair.r, 2 * MS);
	assert_true(has_event(two_pair.cq[0]));
}

/* A QP that waits for a peer that does not answer ends by its time-outs. */
static void nobody_answers(void **state)
{
	(void)state;
	rig_state(&two_pair.r, two_pair.qp[1], IBV_QPS_RESET);
	pair_rdma(&two_pair, FF_OP_WRITE, 1, 0, 0, 8);
	rig_run(&two_pair.r);
	for (int i = 0; i < PAIR_TRIES * 4; i++) {
		if (i < PAIR_TRIES)
			pair_expect_none(two_pair.cq[0]);
		rig_advance(&two_pair.r, PAIR_TIMEOUT);
		if (i < PAIR_TRIES)
			two_move();
		rig_run(&two_pair.r);
	}
	pair_expect(two_pair.cq[0], 1, IBV_WC_RETRY_EXC_ERR);
}

static void errors_flush_after_a_move(void **state)
{
	(void)state;
	rig_recv(&two_pair.r, two_pair.qp[1], 20, two_pair.mr[1], pair_at(&two_pair, 1, 0), 4096);
	two_move();
	rig_state(&two_pair.r, two_pair.qp[1], IBV_QPS_ERR);
	rig_run(&two_pair.r);
	pair_expect(two_pair.cq[1], 20, IBV_WC_WR_FLUSH_ERR);
}

/* Loads: the heavier thread gives a group away, and no group goes back and forth. */
static void loads_are_evened_out(void **state)
{
	struct rig_ses *s = rig_session(&two_pair.r, 2);
	uint64_t moves;

	(void)state;
	if (two_cont(2)->fast != two_cont(0)->fast)
		two_move();
	assert_ptr_equal(two_cont(2)->fast, two_cont(0)->fast);
	for (int i = 0; i < 8; i++) {
		two_cont(0)->turns.load += 1ull << 30;
		two_cont(2)->turns.load += 1ull << 30;
		fast_balance(two_pair.r.f->host);
	}
	assert_ptr_not_equal(two_cont(2)->fast, two_cont(0)->fast);
	assert_ptr_equal(two_cont(1)->fast, two_cont(0)->fast);
	moves = two_pair.r.f->host->num_moves;
	for (int i = 0; i < 50; i++) {
		two_cont(0)->turns.load += (1ull << 30) + ((uint64_t)(i % 3) << 26);
		two_cont(2)->turns.load += 1ull << 30;
		fast_balance(two_pair.r.f->host);
	}
	assert_int_equal(two_pair.r.f->host->num_moves, moves);
	rig_session_free(&two_pair.r, s);
}

/* Who has used its CPU time is served on the other thread, until that charges it. */
static void who_rests_moves(void **state)
{
	struct fast *f = two_cont(0)->fast;

	(void)state;
	fast_container_limits(two_cont(0), &(struct ffo_limits){ .max_cpu = 100 });
	f->now += MS;
	cpu_served(f, two_cont(0), MS);
	cpu_settle(f, MS);
	assert_true(two_cont(0)->cpu.parked);
	pair_rdma(&two_pair, FF_OP_WRITE, 1, 0, 0, 64);
	rig_run(&two_pair.r);
	pair_expect_none(two_pair.cq[0]);
	cpu_served(f, two_cont(0), 1000);
	two_move();
	assert_false(two_cont(0)->cpu.parked);
	assert_true(SLIST_EMPTY(&f->served));
	rig_run(&two_pair.r);
	pair_expect(two_pair.cq[0], 1, IBV_WC_SUCCESS);
	f = two_cont(0)->fast;
	cpu_served(f, two_cont(0), 1000);
	cpu_settle(f, 1000);
	assert_true(two_cont(0)->cpu.parked);
	pair_rdma(&two_pair, FF_OP_WRITE, 2, 0, 0, 64);
	rig_run(&two_pair.r);
	pair_expect_none(two_pair.cq[0]);
	rig_advance(&two_pair.r, 20 * MS);
	pair_expect(two_pair.cq[0], 2, IBV_WC_SUCCESS);
}

int main(void)
{
	return UNIT_RUN(TWO_TEST(containers_are_spread), TWO_TEST(who_connects_comes_together),
			TWO_TEST(who_comes_later_is_met), TWO_TEST(the_first_is_kept),
			TWO_TEST(a_limited_tenant_is_together), TWO_TEST(receives_waited_for),
			TWO_TEST(rnr_retries_are_counted_by_time), TWO_TEST(requests_stay_in_order),
			TWO_TEST(a_long_message_goes_on), TWO_TEST(bells_are_heard),
			TWO_TEST(who_rests_moves), TWO_TEST(moderated_events_come),
			TWO_TEST(nobody_answers), TWO_TEST(errors_flush_after_a_move),
			TWO_TEST(loads_are_evened_out));
}
