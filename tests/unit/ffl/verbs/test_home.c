/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/fakes/fake_ffl.c ffl/session/bell.c ffl/verbs/post.c ffl/verbs/post_ex.c ffl/verbs/qp.c ffl/verbs/cq.c ffl/verbs/gone.c ffl/verbs/cq_ex.c ffl/verbs/srq.c ffl/verbs/channel.c ffl/session/table.c ffl/verbs/async.c ffl/verbs/domain.c ffl/verbs/xrc.c */
/* threads: yes */
/*
 * test_home.c - ffl/verbs/home.c: what is learned from wake-ups, and the affinity of a thread that sleeps.
 */
#include <fcntl.h>
#include <pthread.h>

#include "ffl/verbs/home.c"
#include "tests/rig/fakes/fake_ffl.h"
#include "tests/rig/unit/unit.h"

static int cpu_here(void)
{
	return sched_getcpu();
}

/* The router sleeps on this CPU, or on one where this thread is not. */
static void home_is(int cpu)
{
	atomic_store(&fake.ctx->hdr->home, (uint32_t)cpu + 1);
}

static bool at_home(const struct ffl_channel *ch)
{
	return atomic_load(&ch->home.at_home);
}

static unsigned sleeps_until(struct ffl_channel *ch, bool home, uint32_t took)
{
	unsigned n = 0;

	while (at_home(ch) != home && n < 100000) {
		learn(ch, at_home(ch), took);
		n++;
	}
	return n;
}

/* Late, when nothing has been saved yet by sleeps that took no longer than those elsewhere, DEAR_NS + 1. */
#define LATE (SAVED_NS + DEAR_NS + 2)

static void learns(void **state)
{
	struct ffl_channel ch = { .ctx = fake.ctx };
	unsigned pause = PAUSE;

	(void)state;
	home_is(CPU_SETSIZE - 2); /* nowhere near */
	assert_int_equal(sleeps_until(&ch, true, DEAR_NS + 1), DEAR_ROW);
	/* after some at home a few elsewhere, to see what that takes now */
	assert_int_equal(sleeps_until(&ch, false, DEAR_NS + 1), SLEEPS + 1);
	learn(&ch, false, DEAR_NS + 1);
	learn(&ch, false, DEAR_NS + 1);
	learn(&ch, false, DEAR_NS); /* chance: it is cheap enough */
	assert_false(at_home(&ch));
	assert_int_equal(sleeps_until(&ch, true, DEAR_NS + 1), DEAR_ROW);
	/* late: elsewhere for a while, each time for longer */
	for (; pause < PAUSE_MAX; pause *= 2) {
		assert_int_equal(sleeps_until(&ch, false, LATE), 1);
		assert_int_equal(sleeps_until(&ch, true, DEAR_NS + 1), pause + DEAR_ROW);
	}
	for (int i = 0; i < 2; i++) {
		assert_int_equal(sleeps_until(&ch, false, LATE), 1);
		assert_int_equal(sleeps_until(&ch, true, DEAR_NS + 1), PAUSE_MAX + DEAR_ROW);
	}
	/* all in time: for half as long, next time */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(sleeps_until(&ch, false, DEAR_NS + 1), SLEEPS + 1);
		assert_int_equal(sleeps_until(&ch, true, DEAR_NS + 1), DEAR_ROW);
	}
	assert_int_equal(sleeps_until(&ch, false, LATE), 1);
	assert_int_equal(sleeps_until(&ch, true, DEAR_NS + 1), PAUSE_MAX / 2 + DEAR_ROW);
}

/* What it has saved may be lost again by wake-ups that are late, and no more than that. */
static void saves(void **state)
{
	struct ffl_channel ch = { .ctx = fake.ctx };

	(void)state;
	home_is(CPU_SETSIZE - 2);
	/* it is dear elsewhere, but not as dear as the one that took long by chance */
	learn(&ch, false, 100 * AWAY_NS);
	assert_int_equal(sleeps_until(&ch, true, 2 * AWAY_NS), DEAR_ROW - 1);
	for (unsigned i = 0; i < 5; i++)
		learn(&ch, true, 0);
	learn(&ch, true, AWAY_NS + SAVED_NS + 5 * AWAY_NS);
	assert_true(at_home(&ch));
	learn(&ch, true, AWAY_NS + 1);
	assert_false(at_home(&ch));
	/* but not for ever */
	assert_int_equal(sleeps_until(&ch, true, AWAY_NS), PAUSE + DEAR_ROW);
	for (unsigned i = 0; i < SLEEPS / 2; i++)
		learn(&ch, true, 0);
	learn(&ch, true, AWAY_NS + SAVED_MAX_NS);
	assert_true(at_home(&ch));
	for (unsigned i = 0; i < SLEEPS / 4; i++)
		learn(&ch, true, 0);
	learn(&ch, true, AWAY_NS + SAVED_MAX_NS + 1);
	assert_false(at_home(&ch));
}

/* A wake-up may be dear here, too, where others run; to sleep here does not change that. */
static void not_away(void **state)
{
	struct ffl_channel ch = { .ctx = fake.ctx };
	cpu_set_t old, one;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(old), &old), 0);
	CPU_ZERO(&one);
	CPU_SET(cpu_here(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	home_is(cpu_here());
	for (unsigned i = 0; i < 2 * DEAR_ROW; i++)
		learn(&ch, false, 10 * DEAR_NS);
	assert_false(at_home(&ch));
	sched_setaffinity(0, sizeof(old), &old);
}

struct sleeper {
	struct ffl_channel *ch;
	_Atomic pid_t tid;
	cpu_set_t before, after;
	ssize_t n;
	int err;
};

static void *sleeper(void *arg)
{
	struct sleeper *s = arg;
	struct ff_comp_event ev;

	sched_getaffinity(0, sizeof(s->before), &s->before);
	atomic_store(&s->tid, gettid());
	s->n = ffl_sleep_for_event(s->ch, &ev);
	s->err = errno;
	sched_getaffinity(0, sizeof(s->after), &s->after);
	return NULL;
}

static bool is_on(pid_t tid, int cpu)
{
	cpu_set_t set;

	return tid && !sched_getaffinity(tid, sizeof(set), &set) && CPU_COUNT(&set) == 1 &&
	       CPU_ISSET(cpu, &set);
}

static void wake(void)
{
	struct ff_comp_event ev = { .cq = 1, .sent = (uint32_t)ffl_clock_ns(CLOCK_MONOTONIC) };

	assert_int_equal(write(fake.channel_fd, &ev, sizeof(ev)), sizeof(ev));
}

static void affinity(void **state)
{
	struct ibv_comp_channel *ibch = ibv_create_comp_channel(&fake.ctx->v.context);
	struct sleeper s = { .ch = to_comp_channel(ibch) };
	cpu_set_t other, all;
	int home = cpu_here();
	pthread_t t;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	if (CPU_COUNT(&all) < 2)
		skip();
	home_is(home);
	atomic_store(&s.ch->home.at_home, true);
	atomic_store(&s.ch->home.sleeps, 10);

	/* on the one CPU while it sleeps, and only then */
	assert_int_equal(pthread_create(&t, NULL, sleeper, &s), 0);
	while (!is_on(atomic_load(&s.tid), home) ||
	       atomic_load(&fake.ctx->hdr->at_home) != (uint32_t)home + 1)
		sched_yield();
	wake();
	pthread_join(t, NULL);
	assert_int_equal(atomic_load(&fake.ctx->hdr->at_home), 0);
	assert_int_equal(s.n, sizeof(struct ff_comp_event));
	assert_true(CPU_EQUAL(&s.before, &s.after));

	/* somebody else says where it is to run */
	other = all;
	CPU_CLR(home, &other);
	atomic_store(&s.tid, 0);
	atomic_store(&s.ch->home.at_home, true);
	assert_int_equal(pthread_create(&t, NULL, sleeper, &s), 0);
	while (!is_on(atomic_load(&s.tid), home))
		sched_yield();
	assert_int_equal(sched_setaffinity(atomic_load(&s.tid), sizeof(other), &other), 0);
	wake();
	pthread_join(t, NULL);
	assert_true(CPU_EQUAL(&s.after, &other));

	/* what is there is taken without a sleep; and nothing, with O_NONBLOCK */
	atomic_store(&s.ch->home.at_home, true);
	wake();
	sleeper(&s);
	assert_int_equal(s.n, sizeof(struct ff_comp_event));
	assert_int_equal(fcntl(ibch->fd, F_SETFL, O_NONBLOCK), 0);
	sleeper(&s);
	assert_int_equal(s.n, -1);
	assert_int_equal(s.err, EAGAIN);
	assert_true(CPU_EQUAL(&s.before, &s.after));
	ibv_destroy_comp_channel(ibch);
}

/* A CPU on which the program may not run is no home. */
static void no_home(void **state)
{
	cpu_set_t one, all, mine;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(mine), &mine), 0);
	assert_false(go_home(fake.ctx, &one, &all)); /* the router has not slept yet */
	home_is(CPU_SETSIZE);
	assert_false(go_home(fake.ctx, &one, &all));
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &mine))
			continue;
		home_is(cpu);
		assert_false(go_home(fake.ctx, &one, &all));
		break;
	}
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, fake_setup, fake_teardown)
	return UNIT_RUN(T(learns), T(saves), T(not_away), T(affinity), T(no_home));
}
