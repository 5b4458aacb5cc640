/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/model/c11.c tests/rig/model/model_client.c tests/rig/model/model_router.c tests/rig/fakes/fake_ffl.c ffl/verbs/qp.c ffl/verbs/gone.c ffl/verbs/cq_ex.c ffl/verbs/post_ex.c ffl/verbs/srq.c ffl/verbs/channel.c ffl/verbs/home.c ffl/session/table.c ffl/verbs/async.c ffl/verbs/domain.c ffl/verbs/xrc.c */
/*
 * test_rings.c - the rings and the library's lock, in all orders that C11 allows: nobody reads half an entry, or one that
 * is written to again, and no completion is slept on. What is left out on either side is found.
 */
#include "tests/rig/model/model.h"
#include "tests/rig/unit/unit.h"

static enum model_part part;

static void reset(void)
{
	client_reset(part);
	router_reset(1);
}

static uint64_t own(void)
{
	return client_state() << 24 | router_state();
}

static const char *all_end(void)
{
	for (int i = 0; i < 2; i++)
		if (!c11_ended(i))
			return "it sleeps on a completion";
	return NULL;
}

static const char *explore(enum model_part p, struct c11_program program)
{
	struct c11_result r;

	part = p;
	program.reset = reset;
	program.check = all_end;
	program.state = own;
	r = c11_explore(&program);
	assert_false(r.incomplete);
	/* there are runs that come to their end */
	assert_true(r.wrong || r.left < r.runs);
	return r.wrong;
}

static const struct c11_mutant none, no_fence = { .no_fence = true },
				     no_release = { .no_release = true },
				     no_acquire = { .no_acquire = true };

/* A ring of one: the second posting is in the place of the first. */
static void send_twice(void)
{
	client_send();
	client_send();
}

static void take_two(void)
{
	router_take(1);
	router_take(2);
}

static void send_ring(void **state)
{
	const struct c11_program p = { .thread = { take_two, send_twice } };
	struct c11_program q = p;

	(void)state;
	assert_null(explore(MODEL_SQ, p));
	for (unsigned i = 0; i < 2; i++) {
		q.mutant[i] = no_release;
		assert_non_null(explore(MODEL_SQ, q));
		q.mutant[i] = no_acquire;
		assert_non_null(explore(MODEL_SQ, q));
		q.mutant[i] = none;
	}
}

/* One thread polls, another posts to the place that this made free. */
static void poll(void)
{
	if (!client_poll())
		c11_leave();
}

static void receive_ring(void **state)
{
	const struct c11_program p = { .thread = { router_receive, poll, client_receive } };
	struct c11_program q = p;

	(void)state;
	assert_null(explore(MODEL_RQ, p));
	for (unsigned i = 0; i < 3; i++) {
		q.mutant[i] = i ? no_acquire : no_release;
		assert_non_null(explore(MODEL_RQ, q));
		q.mutant[i] = none;
	}
	q.mutant[1] = no_release;
	assert_non_null(explore(MODEL_RQ, q));
}

static void first_receive(void **state)
{
	const struct c11_program p = { .thread = { router_receive, client_receive_first } };
	struct c11_program q = p;

	(void)state;
	assert_null(explore(MODEL_RECV, p));
	q.mutant[0] = no_acquire;
	assert_non_null(explore(MODEL_RECV, q));
	q.mutant[0] = none;
	q.mutant[1] = no_release;
	assert_non_null(explore(MODEL_RECV, q));
}

static void completion_ring(void **state)
{
	const struct c11_program p = { .thread = { router_complete_lap, poll } };
	struct c11_program q = p;

	(void)state;
	assert_null(explore(MODEL_LAP, p));
	for (unsigned i = 0; i < 2; i++) {
		q.mutant[i] = no_release;
		assert_non_null(explore(MODEL_LAP, q));
		q.mutant[i] = no_acquire;
		assert_non_null(explore(MODEL_LAP, q));
		q.mutant[i] = none;
	}
}

static void wait_for_event(void **state)
{
	const struct c11_program p = { .thread = { router_complete, client_wait } };
	struct c11_program q = p;

	(void)state;
	assert_null(explore(MODEL_CQ, p));
	for (unsigned i = 0; i < 2; i++) {
		q.mutant[i] = no_fence;
		assert_non_null(explore(MODEL_CQ, q));
		q.mutant[i] = i ? no_acquire : no_release;
		assert_non_null(explore(MODEL_CQ, q));
		q.mutant[i] = none;
	}
}

static void lock(void **state)
{
	const struct c11_program p = { .thread = { client_locked, client_locked } };
	struct c11_program q = p;

	(void)state;
	assert_null(explore(MODEL_LOCK, p));
	q.mutant[0] = no_release;
	assert_non_null(explore(MODEL_LOCK, q));
	q.mutant[0] = no_acquire;
	assert_non_null(explore(MODEL_LOCK, q));
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(send_ring), cmocka_unit_test(receive_ring),
			cmocka_unit_test(first_receive), cmocka_unit_test(completion_ring),
			cmocka_unit_test(wait_for_event), cmocka_unit_test(lock));
}
