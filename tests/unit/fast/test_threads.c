/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/unit/lib/soft_pair.c tests/lib/rig.c -Wl,--wrap=pvm_state */
/*
 * test_threads.c - ffr/fast/threads.c: containers on several fast threads of the software device,
 * in virtual time: who comes together, and that nothing is lost, doubled or out of order on the way.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffr/dir/dir.h"
#include "ffr/fast/pvm.h"
#include "tests/unit/lib/soft_pair.h"

#define MS 1000000ull

static struct pair p;
static unsigned wanted; /* calls of want_near() */

static void want_near(struct fast *first)
{
	assert_ptr_equal(first, p.r.f);
	wanted++;
}

/* A client whose memory does not answer: stalled, or in a call that ends after so many looks. */
static const struct session *slow[2];
static unsigned calls;

enum pvm_state __wrap_pvm_state(const struct session *s);
enum pvm_state __wrap_pvm_state(const struct session *s)
{
	if (!s || (s != slow[0] && s != slow[1]))
		return PVM_IDLE;
	if (!calls)
		return PVM_STALLED;
	if (!--calls)
		slow[0] = slow[1] = NULL;
	return PVM_CALL;
}

static struct fast *thread(int i)
{
	return p.r.f->threads[i];
}

static struct container *cont(int i)
{
	return &p.r.cont[i];
}

static int setup(void **state)
{
	(void)state;
	rig_threads = 2;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	p.r.f->want_near = want_near;
	wanted = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	slow[0] = slow[1] = NULL;
	calls = 0;
	pair_down(&p);
	return 0;
}

/* All that the pair's group has, to the other thread. */
static void move(void)
{
	struct fast *from = cont(0)->fast, *to = thread(!from->index);
	uint64_t moves = p.r.f->num_moves;

	fast_lock(p.r.f);
	assert_int_equal(threads_move(cont(0), to), 0);
	fast_unlock(p.r.f);
	assert_ptr_equal(cont(0)->fast, to);
	assert_ptr_equal(cont(1)->fast, to);
	assert_ptr_equal(p.s[0]->s.fast, to);
	assert_ptr_equal(p.s[1]->s.fast, to);
	assert_int_equal(p.r.f->num_moves, moves + 1);
	assert_false(cont(0)->place.hold);
	assert_int_equal(from->timers.used, 0);
	assert_int_equal(from->num_turns[TURN_NORMAL], 0);
	assert_true(TAILQ_EMPTY(&from->active_sessions));
}

static void there_and_back(void)
{
	move();
	move();
}

static void both_ways(void (*check)(void))
{
	there_and_back();
	check();
	move();
	check();
}

/* ---- who is where ----------------------------------------------------------------------------- */

static void containers_are_spread(void **state)
{
	struct container c = { .tenant = "t", .name = "new" };

	(void)state;
	/* 0 and 1 met on one thread; 2 and 3 are where they began */
	assert_ptr_equal(cont(0)->fast, cont(1)->fast);
	assert_ptr_not_equal(cont(2)->fast, cont(3)->fast);
	TAILQ_INIT(&c.mw.changed);
	assert_int_equal(fast_container_add(p.r.f, &c), 0);
	assert_ptr_not_equal(c.fast, cont(0)->fast);
	fast_container_del(p.r.f, &c);
}

static void who_connects_comes_together(void **state)
{
	struct rig_ses *s = rig_session(&p.r, 3);
	struct container *c2 = cont(2), *c3 = cont(3);
	struct ff_ah_attr to = { .is_global = 1 };

	(void)state;
	memcpy(to.dgid, c2->gid[0].raw, 16);
	dir_meet(c3, &to); /* of another tenant: not allowed */
	assert_ptr_not_equal(c2->fast, c3->fast);
	memcpy(to.dgid, cont(1)->gid[0].raw, 16);
	if (c2->fast == cont(1)->fast)
		there_and_back(); /* c2 stays alone: it talks to nobody */
	move();
	dir_meet(c2, &to);
	assert_ptr_equal(c2->fast, cont(1)->fast);
	assert_ptr_equal(cont(0)->fast, cont(1)->fast);
	assert_int_equal(wanted, 0);
	rig_session_free(&p.r, s);
}

/* The peer's container comes to the host after the QP was connected. */
static void who_comes_later_is_met(void **state)
{
	struct rig_ses *s = rig_session(&p.r, 2);
	struct rig_cq *cq = rig_cq(&p.r, s, 16, false);
	struct rig_qp *a = rig_qp(&p.r, s, IBV_QPT_RC, cq, cq, NULL);
	struct rig_qp *b;
	struct rig_ses *sb;
	struct rig_cq *cqb;

	(void)state;
	fast_container_del(p.r.f, cont(3));
	strcpy(cont(3)->tenant, "t");
	a->qp.attr.qp_access_flags = PAIR_ACCESS;
	a->qp.attr.timeout = 14;
	a->qp.attr.retry_cnt = 7;
	a->qp.attr.ah.is_global = 1;
	memcpy(a->qp.attr.ah.dgid, cont(3)->gid[0].raw, 16);
	assert_int_equal(fast_container_add(p.r.f, cont(3)), 0);
	if (cont(3)->fast == cont(2)->fast) { /* the pair's are more on one of them */
		fast_container_del(p.r.f, cont(3));
		move();
		assert_int_equal(fast_container_add(p.r.f, cont(3)), 0);
	}
	assert_ptr_not_equal(cont(3)->fast, cont(2)->fast);
	sb = rig_session(&p.r, 3);
	cqb = rig_cq(&p.r, sb, 16, false);
	b = rig_qp(&p.r, sb, IBV_QPT_RC, cqb, cqb, NULL);
	rig_state(&p.r, b, IBV_QPS_INIT);
	b->qp.attr = a->qp.attr;
	memcpy(b->qp.attr.ah.dgid, cont(2)->gid[0].raw, 16);
	b->qp.attr.dest_qp_num = a->qp.qp_num;
	a->qp.attr.dest_qp_num = b->qp.qp_num;
	rig_state(&p.r, a, IBV_QPS_INIT);
	/* nobody told dir_meet(): as if it had not been possible */
	rig_state(&p.r, b, IBV_QPS_RTR);
	rig_state(&p.r, a, IBV_QPS_RTR);
	rig_state(&p.r, a, IBV_QPS_RTS);
	assert_true(wanted);
	rig_sqe(a, FF_OP_WRITE, 7);
	rig_post(&p.r, a);
	rig_advance(&p.r, 10 * MS);
	pair_expect_none(cq);
	assert_false(fast_settle(p.r.f));
	assert_ptr_equal(cont(3)->fast, cont(2)->fast);
	rig_run(&p.r); /* without a time-out */
	pair_expect(cq, 7, IBV_WC_SUCCESS);
	assert_int_equal(a->qp.stats.retries, 0);
	rig_qp_free(&p.r, a);
	rig_qp_free(&p.r, b);
	rig_cq_free(&p.r, cq);
	rig_cq_free(&p.r, cqb);
	rig_session_free(&p.r, s);
	rig_session_free(&p.r, sb);
}

/* ---- clients whose memory does not answer ------------------------------------------------------ */

static bool is_held(void)
{
	for (int i = 0; i < 4; i++)
		if (cont(i)->place.hold)
			return true;
	return false;
}

/* Its group stays until it does; nobody else is held up. */
static void a_stalled_client_stays(void **state)
{
	struct fast *from = cont(0)->fast, *to = thread(!from->index);
	uint64_t moves = p.r.f->num_moves;

	(void)state;
	slow[0] = &p.s[1]->s;
	assert_int_equal(fast_move(cont(0), to->index), -EBUSY);
	assert_ptr_equal(cont(0)->fast, from);
	assert_ptr_equal(cont(1)->fast, from);
	assert_int_equal(p.r.f->num_moves, moves);
	assert_false(is_held());
	for (int i = 0; i < 4; i++) {
		cont(0)->turns.load += 1ull << 40;
		fast_balance(p.r.f);
	}
	assert_ptr_equal(cont(0)->fast, from);
	pair_rdma(&p, FF_OP_WRITE, 1, 0, 0, 100);
	rig_run(&p.r);
	pair_expect(p.cq[0], 1, IBV_WC_SUCCESS);
	slow[0] = NULL;
	assert_int_equal(fast_move(cont(0), to->index), 0);
	assert_ptr_equal(cont(1)->fast, to);
}

/* A call that ends soon is waited for: nothing new begins meanwhile. */
static void a_call_is_waited_for(void **state)
{
	struct fast *to = thread(!cont(0)->fast->index);

	(void)state;
	slow[0] = &p.s[0]->s;
	calls = 6; /* group_state() looks twice at the one that is worst */
	assert_int_equal(fast_move(cont(0), to->index), 0);
	assert_int_equal(calls, 0);
	assert_ptr_equal(cont(0)->fast, to);
	assert_false(is_held());
	/* one that goes on and on is not; what waited goes on where it is */
	slow[0] = &p.s[0]->s;
	calls = 1000000;
	assert_int_equal(fast_move(cont(0), !to->index), -EAGAIN);
	assert_ptr_equal(cont(0)->fast, to);
	assert_false(is_held());
}

/* Of two groups that meet, the one moves that can; when none can, the first that can later. */
static void stalled_groups_meet(void **state)
{
	struct rig_ses *s = rig_session(&p.r, 2);
	struct ff_ah_attr to = { .is_global = 1 };
	struct fast *from;

	(void)state;
	if (cont(2)->fast == cont(1)->fast)
		move();
	from = cont(1)->fast;
	assert_ptr_not_equal(cont(2)->fast, from);
	memcpy(to.dgid, cont(1)->gid[0].raw, 16);
	slow[0] = &p.s[1]->s;
	slow[1] = &s->s;
	assert_null(dir_meet(cont(2), &to));
	assert_ptr_not_equal(cont(2)->fast, from);
	assert_int_equal(wanted, 1);
	assert_true(fast_settle(p.r.f));
	assert_ptr_not_equal(cont(2)->fast, from);
	slow[1] = NULL; /* the other one is stalled on */
	assert_false(fast_settle(p.r.f));
	assert_ptr_equal(cont(2)->fast, from);
	assert_ptr_equal(cont(1)->fast, from);
	assert_false(is_held());
	rig_session_free(&p.r, s);
}

static unsigned ended;

static void end_session(struct session *s, const char *why)
{
	assert_true(s == slow[ended] && *why);
	ended++;
}

/* Who keeps its tenant from its limits by that is ended after a second. */
static void limits_do_not_wait_for_ever(void **state)
{
	struct ffo_limits l = { .tx_rate = 1000000 };
	struct rig_ses *s = rig_session(&p.r, 2);

	(void)state;
	ended = 0;
	if (cont(2)->fast == cont(0)->fast)
		move();
	p.r.f->session_bad = end_session;
	slow[0] = &s->s;
	slow[1] = &p.s[0]->s;
	assert_int_equal(fast_tenant_limits(p.r.f, "t", &l), 0);
	assert_false(cont(0)->of->limited);
	assert_int_equal(wanted, 1);
	rig_advance(&p.r, 900 * MS);
	assert_true(fast_settle(p.r.f));
	assert_int_equal(ended, 0);
	rig_advance(&p.r, 200 * MS);
	assert_true(fast_settle(p.r.f));
	assert_int_equal(ended, 2);
	slow[0] = slow[1] = NULL; /* they are gone */
	assert_false(fast_settle(p.r.f));
	assert_true(cont(0)->of->limited);
	assert_ptr_equal(cont(2)->fast, cont(0)->fast);
	assert_int_equal(fast_tenant_limits(p.r.f, "t", &(struct ffo_limits){ 0 }), 0);
	rig_session_free(&p.r, s);
}

static void the_first_is_kept(void **state)
{
	(void)state;
	if (cont(0)->fast != thread(1))
		move();
	assert_int_equal(fast_need_first(cont(1)), 0);
	assert_ptr_equal(cont(0)->fast, thread(0));
	for (int i = 0; i < 4; i++) {
		cont(0)->turns.load += 1ull << 40;
		fast_balance(p.r.f);
	}
	assert_ptr_equal(cont(0)->fast, thread(0));
}

/* Meters are shared: containers of a limited tenant are on one thread. */
static void a_limited_tenant_is_together(void **state)
{
	struct ffo_limits l = { .tx_rate = 1000000 };

	(void)state;
	if (cont(2)->fast == cont(0)->fast)
		move();
	assert_ptr_not_equal(cont(2)->fast, cont(0)->fast);
	assert_int_equal(fast_tenant_limits(p.r.f, "t", &l), 0);
	assert_ptr_equal(cont(2)->fast, cont(0)->fast);
	assert_ptr_equal(cont(1)->fast, cont(0)->fast);
	assert_true(cont(0)->of->limited);
	/* it holds, and goes along with who waits for it: 100 KB are 100 ms, less the burst */
	pair_rdma(&p, FF_OP_WRITE, 1, 0, 0, 100000);
	rig_run(&p.r);
	for (int i = 0; i < 90; i++) {
		rig_advance(&p.r, MS);
		if (i % 10 == 5) {
			move();
			assert_ptr_equal(cont(2)->fast, cont(0)->fast);
		}
	}
	pair_expect_none(p.cq[0]);
	for (int i = 0; i < 20; i++)
		rig_advance(&p.r, MS);
	pair_expect(p.cq[0], 1, IBV_WC_SUCCESS);
	assert_int_equal(thread(0)->num_throttled, 0);
	assert_int_equal(thread(1)->num_throttled, 0);
	assert_int_equal(fast_tenant_limits(p.r.f, "t", &(struct ffo_limits){ 0 }), 0);
	assert_false(cont(0)->of->limited);
}

/* ---- what is under way ------------------------------------------------------------------------ */

static void receives_waited_for(void **state)
{
	(void)state;
	p.qp[0]->qp.attr.rnr_retry = 7;
	pair_send(&p, 1, 100);
	pair_send(&p, 2, 100);
	rig_run(&p.r);
	for (int i = 0; i < 5; i++) {
		move();
		rig_advance(&p.r, MS / 3);
		pair_expect_none(p.cq[0]);
	}
	for (int i = 0; i < 2; i++)
		rig_recv(&p.r, p.qp[1], 10 + (uint64_t)i, p.mr[1], pair_at(&p, 1, 0), 4096);
	rig_run(&p.r);
	pair_expect(p.cq[1], 10, IBV_WC_SUCCESS);
	pair_expect(p.cq[1], 11, IBV_WC_SUCCESS);
	pair_expect(p.cq[0], 1, IBV_WC_SUCCESS);
	pair_expect(p.cq[0], 2, IBV_WC_SUCCESS);
}

/* A move costs none of the retries: the timer goes on. */
static void rnr_retries_are_counted_by_time(void **state)
{
	int moves = 0;

	(void)state;
	p.qp[0]->qp.attr.rnr_retry = 2; /* twice 0.64 ms */
	pair_send(&p, 1, 100);
	rig_run(&p.r);
	for (; moves < 13; moves++) {
		move();
		rig_advance(&p.r, MS / 10);
		pair_expect_none(p.cq[0]);
	}
	rig_advance(&p.r, MS / 10);
	pair_expect(p.cq[0], 1, IBV_WC_RNR_RETRY_EXC_ERR);
}

static void order(void)
{
	struct ff_cqe c;
	uint64_t next = 0;

	for (int i = 0; i < 10; i++) {
		struct ff_sqe *e = rig_sqe(p.qp[0], FF_OP_WRITE, (uint64_t)i);

		p.buf[0][i] = (uint8_t)(i + 1);
		rig_sge(e, p.mr[0], pair_at(&p, 0, (uint64_t)i), 1);
		e->remote_addr = pair_at(&p, 1, 77);
		e->rkey = p.mr[1]->rkey;
		rig_post(&p.r, p.qp[0]);
		if (i % 3 == 1)
			fast_turn(cont(0)->fast);
		if (i % 4 == 2)
			move();
	}
	rig_run(&p.r);
	while (rig_poll(p.cq[0], &c)) {
		assert_int_equal(c.status, IBV_WC_SUCCESS);
		assert_int_equal(c.wr_id, next++);
	}
	assert_int_equal(next, 10);
	assert_int_equal(p.buf[1][77], 10);
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
		p.buf[0][i] = (uint8_t)(i * 7 + (i >> 12));
	pair_rdma(&p, FF_OP_WRITE, 1, 0, 0, PAIR_BUF);
	pair_rdma(&p, FF_OP_READ, 2, 0, 0, PAIR_BUF);
	for (int i = 0; i < 6; i++) {
		fast_turn(cont(0)->fast);
		move();
	}
	rig_run(&p.r);
	pair_expect(p.cq[0], 1, IBV_WC_SUCCESS);
	pair_expect(p.cq[0], 2, IBV_WC_SUCCESS);
	assert_memory_equal(p.buf[0], p.buf[1], PAIR_BUF);
}

/* A bell that was written before the move is heard after it. */
static void bells_are_heard(void **state)
{
	struct epoll_event ev[4];
	uint64_t one = 1;
	int n;

	(void)state;
	rig_advance(&p.r, 10 * MS); /* all at rest */
	assert_int_equal(write(p.s[0]->bell, &one, sizeof(one)), sizeof(one));
	there_and_back();
	n = epoll_wait(cont(0)->fast->epoll_fd, ev, 4, 0);
	assert_true(n >= 1);
	assert_int_equal(fast_bells(cont(0)->fast, ev, n), 1);
	assert_true(p.s[0]->s.bells.is_active);
	n = epoll_wait(thread(!cont(0)->fast->index)->epoll_fd, ev, 4, 0);
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
	fast_cq_moderate(cont(0)->fast, &p.cq[0]->cq, 100, 5000);
	atomic_store(&p.cq[0]->cq.hdr->arm, FF_CQ_ARM_ANY);
	pair_rdma(&p, FF_OP_WRITE, 1, 0, 0, 8);
	rig_run(&p.r);
	for (int i = 0; i < 4; i++) {
		move();
		rig_advance(&p.r, MS);
		assert_false(has_event(p.cq[0]));
	}
	rig_advance(&p.r, 2 * MS);
	assert_true(has_event(p.cq[0]));
}

/* A QP that waits for a peer that does not answer ends by its time-outs. */
static void nobody_answers(void **state)
{
	(void)state;
	rig_state(&p.r, p.qp[1], IBV_QPS_RESET);
	pair_rdma(&p, FF_OP_WRITE, 1, 0, 0, 8);
	rig_run(&p.r);
	for (int i = 0; i < PAIR_TRIES * 4; i++) {
		if (i < PAIR_TRIES)
			pair_expect_none(p.cq[0]);
		rig_advance(&p.r, PAIR_TIMEOUT);
		if (i < PAIR_TRIES)
			move();
		rig_run(&p.r);
	}
	pair_expect(p.cq[0], 1, IBV_WC_RETRY_EXC_ERR);
}

static void errors_flush_after_a_move(void **state)
{
	(void)state;
	rig_recv(&p.r, p.qp[1], 20, p.mr[1], pair_at(&p, 1, 0), 4096);
	move();
	rig_state(&p.r, p.qp[1], IBV_QPS_ERR);
	rig_run(&p.r);
	pair_expect(p.cq[1], 20, IBV_WC_WR_FLUSH_ERR);
}

/* Loads: the heavier thread gives a group away, and no group goes back and forth. */
static void loads_are_evened_out(void **state)
{
	struct rig_ses *s = rig_session(&p.r, 2);
	uint64_t moves;

	(void)state;
	if (cont(2)->fast != cont(0)->fast)
		move();
	assert_ptr_equal(cont(2)->fast, cont(0)->fast);
	for (int i = 0; i < 8; i++) {
		cont(0)->turns.load += 1ull << 30;
		cont(2)->turns.load += 1ull << 30;
		fast_balance(p.r.f);
	}
	assert_ptr_not_equal(cont(2)->fast, cont(0)->fast);
	assert_ptr_equal(cont(1)->fast, cont(0)->fast);
	moves = p.r.f->num_moves;
	for (int i = 0; i < 50; i++) {
		cont(0)->turns.load += (1ull << 30) + ((uint64_t)(i % 3) << 26);
		cont(2)->turns.load += 1ull << 30;
		fast_balance(p.r.f);
	}
	assert_int_equal(p.r.f->num_moves, moves);
	rig_session_free(&p.r, s);
}

/* Who has used its CPU time is served on the other thread, until that charges it. */
static void who_rests_moves(void **state)
{
	struct fast *f = cont(0)->fast;

	(void)state;
	fast_container_limits(cont(0), &(struct ffo_limits){ .max_cpu = 100 });
	f->now += MS;
	cpu_served(f, cont(0), MS);
	cpu_settle(f, MS);
	assert_true(cont(0)->cpu.parked);
	pair_rdma(&p, FF_OP_WRITE, 1, 0, 0, 64);
	rig_run(&p.r);
	pair_expect_none(p.cq[0]);
	cpu_served(f, cont(0), 1000);
	move();
	assert_false(cont(0)->cpu.parked);
	assert_true(SLIST_EMPTY(&f->served));
	rig_run(&p.r);
	pair_expect(p.cq[0], 1, IBV_WC_SUCCESS);
	f = cont(0)->fast;
	cpu_served(f, cont(0), 1000);
	cpu_settle(f, 1000);
	assert_true(cont(0)->cpu.parked);
	pair_rdma(&p, FF_OP_WRITE, 2, 0, 0, 64);
	rig_run(&p.r);
	pair_expect_none(p.cq[0]);
	rig_advance(&p.r, 20 * MS);
	pair_expect(p.cq[0], 2, IBV_WC_SUCCESS);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(containers_are_spread),
		TEST(who_connects_comes_together),
		TEST(who_comes_later_is_met),
		TEST(the_first_is_kept),
		TEST(a_limited_tenant_is_together),
		TEST(receives_waited_for),
		TEST(rnr_retries_are_counted_by_time),
		TEST(requests_stay_in_order),
		TEST(a_long_message_goes_on),
		TEST(bells_are_heard),
		TEST(who_rests_moves),
		TEST(moderated_events_come),
		TEST(nobody_answers),
		TEST(errors_flush_after_a_move),
		TEST(loads_are_evened_out),
		TEST(a_stalled_client_stays),
		TEST(a_call_is_waited_for),
		TEST(stalled_groups_meet),
		TEST(limits_do_not_wait_for_ever),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
