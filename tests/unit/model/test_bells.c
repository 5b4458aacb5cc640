/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/model/c11.c tests/rig/model/model_client.c tests/rig/model/model_router.c tests/rig/fakes/fake_ffl.c ffl/verbs/qp.c ffl/verbs/gone.c ffl/verbs/cq_ex.c ffl/verbs/post_ex.c ffl/verbs/srq.c ffl/verbs/channel.c ffl/verbs/home.c ffl/session/table.c ffl/verbs/async.c ffl/verbs/domain.c ffl/verbs/xrc.c */
/*
 * test_bells.c - postings and a router that goes to sleep, in all orders that C11 allows: the router never sleeps on a
 * posting that nobody announces. With a fence left out on either side it does, which is found.
 */
#include <stdio.h>

#include "tests/rig/model/model.h"
#include "tests/rig/unit/unit.h"

static void reset(void)
{
	client_reset(MODEL_BELLS);
	router_reset(MODEL_DEPTH);
}

static void serve_one(void)
{
	router_serve(1, false);
}

static void serve_two(void)
{
	router_serve(2, false);
}

static void serve_one_resting(void)
{
	router_serve(1, true);
}

static const char *router_ends(void)
{
	return c11_ended(0) ? NULL : "the router sleeps on a posting";
}

static uint64_t own(void)
{
	return client_state() << 24 | router_state();
}

static struct c11_result explore(struct c11_program p)
{
	struct c11_result r;

	p.reset = reset;
	p.check = router_ends;
	p.state = own;
	r = c11_explore(&p);
	assert_false(r.incomplete);
	return r;
}

static void post_twice(void)
{
	client_send();
	client_send();
}

static void never_lost(void **state)
{
	(void)state;
	assert_null(explore((struct c11_program){ .thread = { serve_one, client_send } }).wrong);
	assert_null(
		explore((struct c11_program){ .thread = { serve_one_resting, client_send } }).wrong);
	assert_null(explore((struct c11_program){ .thread = { serve_two, post_twice } }).wrong);
}

/* The test of the test: each of these is a lost posting on some CPU. */
static void mutants_are_found(void **state)
{
	static void (*const router[])(void) = { serve_one, serve_one_resting };
	static const struct c11_mutant none, no_fence = { .no_fence = true },
					     weak = { .weak_fence = true };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		assert_non_null(explore((struct c11_program){ .thread = { router[i], client_send },
							      .mutant = { none, no_fence } })
					.wrong);
		assert_non_null(explore((struct c11_program){ .thread = { router[i], client_send },
							      .mutant = { no_fence, none } })
					.wrong);
		assert_non_null(explore((struct c11_program){ .thread = { router[i], client_send },
							      .mutant = { none, weak } })
					.wrong);
		assert_non_null(explore((struct c11_program){ .thread = { router[i], client_send },
							      .mutant = { weak, none } })
					.wrong);
	}
}

int main(void)
{
#ifdef __SANITIZE_ADDRESS__
	puts("a sanitizer takes minutes for the 100,000 orders; test_rings has the same memory");
	return 77;
#endif
	return UNIT_RUN(cmocka_unit_test(never_lost), cmocka_unit_test(mutants_are_found));
}
