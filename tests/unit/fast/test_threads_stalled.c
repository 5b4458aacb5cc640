/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/rig/unit/soft_pair.c tests/rig/unit/rig.c -Wl,--wrap=pvm_state tests/rig/unit/threads_rig.c */
/*
 * test_threads_stalled.c - containers that are to change their fast thread while a call on a client's memory keeps them,
 * and limits that wait for that.
 */
#include <string.h>

#include "ffr/dir/dir.h"
#include "ffr/fast/pvm.h"
#include "tests/rig/unit/soft_pair.h"
#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/threads_rig.h"

static bool is_held(void)
{
	for (int i = 0; i < 4; i++)
		if (two_cont(i)->place.hold)
			return true;
	return false;
}

/* Its group stays until it does; nobody else is held up. */
static void a_stalled_client_stays(void **state)
{
	struct fast *from = two_cont(0)->fast, *to = two_thread(!from->index);
	uint64_t moves = two_pair.r.f->host->num_moves;

	(void)state;
	two_slow[0] = &two_pair.s[1]->s;
	assert_int_equal(fast_move(two_cont(0), to->index), -EBUSY);
	assert_ptr_equal(two_cont(0)->fast, from);
	assert_ptr_equal(two_cont(1)->fast, from);
	assert_int_equal(two_pair.r.f->host->num_moves, moves);
	assert_false(is_held());
	for (int i = 0; i < 4; i++) {
		two_cont(0)->turns.load += 1ull << 40;
		fast_balance(two_pair.r.f->host);
	}
	assert_ptr_equal(two_cont(0)->fast, from);
	pair_rdma(&two_pair, FF_OP_WRITE, 1, 0, 0, 100);
	rig_run(&two_pair.r);
	pair_expect(two_pair.cq[0], 1, IBV_WC_SUCCESS);
	two_slow[0] = NULL;
	assert_int_equal(fast_move(two_cont(0), to->index), 0);
	assert_ptr_equal(two_cont(1)->fast, to);
}

/* A call that ends soon is waited for: nothing new begins meanwhile. */
static void a_call_is_waited_for(void **state)
{
	struct fast *to = two_thread(!two_cont(0)->fast->index);

	(void)state;
	two_slow[0] = &two_pair.s[0]->s;
	two_calls = 6; /* group_state() looks twice at the one that is worst */
	assert_int_equal(fast_move(two_cont(0), to->index), 0);
	assert_int_equal(two_calls, 0);
	assert_ptr_equal(two_cont(0)->fast, to);
	assert_false(is_held());
	/* one that goes on and on is not; what waited goes on where it is */
	two_slow[0] = &two_pair.s[0]->s;
	two_calls = 1000000;
	assert_int_equal(fast_move(two_cont(0), !to->index), -EAGAIN);
	assert_ptr_equal(two_cont(0)->fast, to);
	assert_false(is_held());
}

/* Of two groups that meet, the one moves that can; when none can, the first that can later. */
static void stalled_groups_meet(void **state)
{
	struct rig_ses *s = rig_session(&two_pair.r, 2);
	struct ff_ah_attr to = { .is_global = 1 };
	struct fast *from;

	(void)state;
	if (two_cont(2)->fast == two_cont(1)->fast)
		two_move();
	from = two_cont(1)->fast;
	assert_ptr_not_equal(two_cont(2)->fast, from);
	memcpy(to.dgid, two_cont(1)->gid[0].raw, 16);
	two_slow[0] = &two_pair.s[1]->s;
	two_slow[1] = &s->s;
	assert_null(dir_meet(two_cont(2), &to));
	assert_ptr_not_equal(two_cont(2)->fast, from);
	assert_int_equal(two_wanted, 1);
	assert_true(fast_settle(two_pair.r.f->host));
	assert_ptr_not_equal(two_cont(2)->fast, from);
	two_slow[1] = NULL; /* the other one is stalled on */
	assert_false(fast_settle(two_pair.r.f->host));
	assert_ptr_equal(two_cont(2)->fast, from);
	assert_ptr_equal(two_cont(1)->fast, from);
	assert_false(is_held());
	rig_session_free(&two_pair.r, s);
}

static unsigned ended;

static void end_session(struct session *s, const char *why)
{
	assert_true(s == two_slow[ended] && *why);
	ended++;
}

/* Who keeps its tenant from its limits by that is ended after a second. */
static void limits_do_not_wait_for_ever(void **state)
{
	struct ffo_limits l = { .tx_rate = 1000000 };
	struct rig_ses *s = rig_session(&two_pair.r, 2);

	(void)state;
	ended = 0;
	if (two_cont(2)->fast == two_cont(0)->fast)
		two_move();
	two_pair.r.f->host->session_bad = end_session;
	two_slow[0] = &s->s;
	two_slow[1] = &two_pair.s[0]->s;
	assert_int_equal(fast_tenant_limits(two_pair.r.f->host, "t", &l), 0);
	assert_false(two_cont(0)->of->limited);
	assert_int_equal(two_wanted, 1);
	rig_advance(&two_pair.r, 900 * MS);
	assert_true(fast_settle(two_pair.r.f->host));
	assert_int_equal(ended, 0);
	rig_advance(&two_pair.r, 200 * MS);
	assert_true(fast_settle(two_pair.r.f->host));
	assert_int_equal(ended, 2);
	two_slow[0] = two_slow[1] = NULL; /* they are gone */
	assert_false(fast_settle(two_pair.r.f->host));
	assert_true(two_cont(0)->of->limited);
	assert_ptr_equal(two_cont(2)->fast, two_cont(0)->fast);
	assert_int_equal(fast_tenant_limits(two_pair.r.f->host, "t", &(struct ffo_limits){ 0 }), 0);
	rig_session_free(&two_pair.r, s);
}

/* Until they are together it has no limits, for those either that have some of their own. */
static void limits_that_wait_hold_nobody(void **state)
{
	struct ffo_limits most = { .tx_rate = 1ull << 40 }, little = { .tx_rate = 1 };
	struct rig_ses *s = rig_session(&two_pair.r, 2);

	(void)state;
	if (two_cont(2)->fast == two_cont(0)->fast)
		two_move();
	two_slow[0] = &s->s;
	two_slow[1] = &two_pair.s[0]->s;
	fast_container_limits(two_cont(0), &most);
	assert_int_equal(fast_tenant_limits(two_pair.r.f->host, "t", &little), 0);
	assert_false(two_cont(0)->of->limited);
	pair_rdma(&two_pair, FF_OP_WRITE, 1, 0, 0, 10000);
	rig_run(&two_pair.r);
	pair_expect(two_pair.cq[0], 1, IBV_WC_SUCCESS);
	assert_int_equal(fast_tenant_limits(two_pair.r.f->host, "t", &(struct ffo_limits){ 0 }), 0);
	two_slow[0] = two_slow[1] = NULL;
	rig_session_free(&two_pair.r, s);
}

int main(void)
{
	return UNIT_RUN(TWO_TEST(limits_that_wait_hold_nobody), TWO_TEST(a_stalled_client_stays),
			TWO_TEST(a_call_is_waited_for), TWO_TEST(stalled_groups_meet),
			TWO_TEST(limits_do_not_wait_for_ever));
}
