/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads_rig.c - see threads_rig.h. */
#include "tests/rig/unit/threads_rig.h"

struct pair two_pair;
unsigned two_wanted; /* calls of want_near() */

static void want_near(struct fast_host *h)
{
	assert_ptr_equal(h, two_pair.r.f->host);
	two_wanted++;
}

const struct session *two_slow[2];
unsigned two_calls;

enum pvm_state __wrap_pvm_state(const struct session *s);
enum pvm_state __wrap_pvm_state(const struct session *s)
{
	if (!s || (s != two_slow[0] && s != two_slow[1]))
		return PVM_IDLE;
	if (!two_calls)
		return PVM_STALLED;
	if (!--two_calls)
		two_slow[0] = two_slow[1] = NULL;
	return PVM_CALL;
}

struct fast *two_thread(int i)
{
	return two_pair.r.f->host->threads[i];
}

struct container *two_cont(int i)
{
	return &two_pair.r.cont[i];
}

int two_setup(void **state)
{
	(void)state;
	rig_threads = 2;
	pair_up(&two_pair, IBV_QPT_RC, 0, 1);
	/* it was made later, by as much as the machine is slow */
	two_thread(1)->now = two_thread(0)->now;
	two_pair.r.f->host->want_near = want_near;
	two_wanted = 0;
	return 0;
}

int two_teardown(void **state)
{
	(void)state;
	two_slow[0] = two_slow[1] = NULL;
	two_calls = 0;
	pair_down(&two_pair);
	return 0;
}

void two_move(void)
{
	struct fast *from = two_cont(0)->fast, *to = two_thread(!from->index);
	uint64_t moves = two_pair.r.f->host->num_moves;

	fast_lock(two_pair.r.f->host);
	assert_int_equal(threads_move(two_cont(0), to), 0);
	fast_unlock(two_pair.r.f->host);
	assert_ptr_equal(two_cont(0)->fast, to);
	assert_ptr_equal(two_cont(1)->fast, to);
	assert_ptr_equal(two_pair.s[0]->s.fast, to);
	assert_ptr_equal(two_pair.s[1]->s.fast, to);
	assert_int_equal(two_pair.r.f->host->num_moves, moves + 1);
	assert_false(two_cont(0)->place.hold);
	assert_int_equal(from->timers.used, 0);
	assert_int_equal(from->num_turns[TURN_NORMAL], 0);
	assert_true(TAILQ_EMPTY(&from->active_sessions));
}
