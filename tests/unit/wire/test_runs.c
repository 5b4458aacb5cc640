/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/two_hosts.c tests/rig/unit/others.c tests/rig/unit/rig.c */
/*
 * test_runs.c - ffr/wire/runs.c: a host asks another one whether a container runs; which router is not asked, and how
 * much of one host waits.
 */
#include <errno.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/two_hosts.h"
#include "ffr/wire/runs.h"

static struct hosts hosts, *t = &hosts;
static unsigned told[2];

static void tell(struct fast_host *h)
{
	told[t->h[1].r.f->host == h]++;
}

static int setup(void **state)
{
	(void)state;
	hosts_up(t, IBV_QPT_RC);
	for (int i = 0; i < 2; i++) {
		t->h[i].r.f->host->runs_frames = tell;
		t->h[i].other.generation = 1;
		told[i] = 0;
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	hosts_down(t);
	return 0;
}

static int ask(uint32_t number)
{
	struct host *h = &t->h[0];

	return wire_runs_ask(h->r.f, &h->other, 9, 4, number);
}

static bool take(int host, struct runs_frame *fr)
{
	if (!wire_runs_take(t->h[host].r.f, fr))
		return false;
	peer_put(fr->peer);
	return true;
}

static void a_question_and_its_answer(void **state)
{
	struct runs_frame q, a;

	(void)state;
	assert_int_equal(ask(77), 0);
	hosts_run(t);
	assert_int_equal(told[1], 1);
	assert_true(take(1, &q));
	assert_false(q.is_answer);
	assert_ptr_equal(q.peer, &t->h[1].other);
	assert_true(q.container == 9 && q.epoch == 4 && q.number == 77);
	assert_false(take(1, &a));
	wire_runs_tell(t->h[1].r.f, &q, WIRE_RUNS_YES);
	hosts_run(t);
	assert_int_equal(told[0], 1);
	assert_true(take(0, &a));
	assert_true(a.is_answer);
	assert_true(a.container == 9 && a.epoch == 4 && a.number == 77);
	assert_int_equal(a.code, WIRE_RUNS_YES);
}

/* The answer is for the connection of the question. */
static void another_connection_gets_no_answer(void **state)
{
	struct runs_frame q, a;

	(void)state;
	assert_int_equal(ask(1), 0);
	hosts_run(t);
	assert_true(take(1, &q));
	t->h[1].other.generation++;
	wire_runs_tell(t->h[1].r.f, &q, WIRE_RUNS_NO);
	hosts_run(t);
	assert_false(take(0, &a));
	hosts_cut(t);
	assert_int_equal(ask(2), -ENOTCONN);
}

static void one_host_has_its_share(void **state)
{
	struct runs_frame q;
	unsigned n = 0;

	(void)state;
	for (uint32_t i = 0; i < 20; i++)
		assert_int_equal(ask(i), 0);
	hosts_run(t);
	while (take(1, &q))
		assert_int_equal(q.number, n++);
	assert_int_equal(n, 8);
	assert_int_equal(ask(99), 0);
	hosts_run(t);
	assert_true(take(1, &q));
	assert_int_equal(q.number, 99);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	return UNIT_RUN(T(a_question_and_its_answer), T(another_connection_gets_no_answer),
			T(one_host_has_its_share));
}
