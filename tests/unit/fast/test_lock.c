/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/rig/unit/rig.c tests/rig/fakes/fake_backend.c */
/*
 * test_lock.c - the lock between a runner and threads that want it: nobody is in it with another, and
 * nobody waits for ever, nor for a CPU that the runner keeps. Real threads.
 */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/fakes/fake_backend.h"
#include "tests/rig/unit/rig.h"

#define ROUNDS	 2000
#define DEADLINE (unit_slow() * 10000 * NS_PER_MS)

static struct rig r;

static int setup(void **state)
{
	(void)state;
	fake_reset();
	rig_init(&r, &fake_ops);
	r.f->conf.realtime = false;
	r.f->num_spin = 1;
	assert_int_equal(fast_start(r.f->host), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fast_stop(r.f->host);
	r.f->num_spin = 0;
	rig_fini(&r);
	return 0;
}

/* Nobody waits for the lock any more; the router's own threads may, for a moment (lock_again()). */
static void assert_unwanted(void)
{
	uint64_t end = fast_clock() + DEADLINE;

	while (atomic_load(&r.f->lock_wanted))
		assert_true(fast_clock() < end);
}

/* What a runner does in a turn. */
static _Atomic uint32_t ran;

static void count(struct timer *t)
{
	(void)t;
	ran++;
}

/* The control thread has it as often as it likes, and the runner has turns meanwhile. */
static void back_and_forth(void **state)
{
	struct timer timer = { .fn = count };
	uint64_t end = fast_clock() + DEADLINE;
	uint64_t taken;

	(void)state;
	ran = 0;
	fast_lock(r.f->host);
	taken = r.f->taken;
	fast_unlock(r.f->host);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		fast_lock(r.f->host);
		if (!timer.index) /* it was run, or is armed for the first time */
			assert_int_equal(timer_arm(&r.f->timers, &timer, r.f->now), 0);
		fast_unlock(r.f->host);
	}
	while (!ran)
		assert_true(fast_clock() < end);
	fast_lock(r.f->host);
	/* and the router's own threads, as they start */
	assert_in_range(r.f->taken - taken, ROUNDS + 1, ROUNDS + 3);
	timer_cancel(&r.f->timers, &timer); /* the last round may have armed it again */
	fast_unlock(r.f->host);
	assert_unwanted();
	print_message("%u turns between %u locks\n", ran, ROUNDS);
}

static uint64_t inside;

static void *come_and_go(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		fast_lock(r.f->host);
		inside++;
		fast_unlock(r.f->host);
	}
	return arg;
}

static void one_at_a_time(void **state)
{
	pthread_t t[3];

	(void)state;
	inside = 0;
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&t[i], NULL, come_and_go, NULL), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_join(t[i], NULL), 0);
	assert_int_equal(inside, 3 * ROUNDS);
	assert_unwanted();
}

static bool had;

static void *after_a_call(void *arg)
{
	lock_again(r.f);
	had = true;
	pthread_mutex_unlock(&r.f->lock);
	return arg;
}

static int setup_alone(void **state)
{
	(void)state;
	fake_reset();
	rig_init(&r, &fake_ops);
	return 0;
}

static int teardown_alone(void **state)
{
	(void)state;
	rig_fini(&r);
	return 0;
}

/*
 * The lock was lent to a worker that ended a call. The runner was awake, so nobody has kicked it, and it must hear
 * of that before it sleeps: without it a WRITE from another host went on when it was sent again, 500 ms later.
 */
static void lent_to_a_worker(void **state)
{
	uint64_t end = fast_clock() + DEADLINE;
	bool lent;
	pthread_t t;

	(void)state;
	had = false;
	lock_take(r.f);
	assert_int_equal(pthread_create(&t, NULL, after_a_call, NULL), 0);
	while (!atomic_load(&r.f->lock_wanted))
		assert_true(fast_clock() < end);
	do {
		assert_true(fast_clock() < end);
		lent = lock_lend(r.f);
	} while (!had);
	assert_true(lent);
	pthread_mutex_unlock(&r.f->lock);
	assert_int_equal(pthread_join(t, NULL), 0);
}

static int setup_asleep(void **state)
{
	(void)state;
	fake_reset();
	rig_init(&r, &fake_ops);
	assert_int_equal(fast_start(r.f->host), 0);
	return 0;
}

/* Not fast_lock(), which would let the runner know. */
static bool runner_sleeps(void)
{
	bool sleeps;

	pthread_mutex_lock(&r.f->lock);
	sleeps = r.f->sleeping;
	pthread_mutex_unlock(&r.f->lock);
	return sleeps;
}

/*
 * One that wants the lock was preempted before it could take it, by this very runner perhaps, which is
 * of a higher class: it must not wait for that one.
 */
static void who_wants_it_cannot_run(void **state)
{
	uint64_t end = fast_clock() + DEADLINE;

	(void)state;
	atomic_fetch_add(&r.f->lock_wanted, 1);
	for (int i = 0; i < 10; i++) {
		pthread_mutex_lock(&r.f->lock);
		fast_kick(r.f);
		r.f->sleeping = false; /* until it sleeps again */
		pthread_mutex_unlock(&r.f->lock);
		while (!runner_sleeps()) {
			assert_true(fast_clock() < end);
			sched_yield();
		}
	}
	atomic_fetch_sub(&r.f->lock_wanted, 1);
}

/* A thread of this process, in that class, which is not this one; 0: there is none. */
static pid_t thread_of_class(int policy)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	pid_t tid, found = 0;

	assert_non_null(d);
	while ((e = readdir(d))) {
		tid = (pid_t)atoi(e->d_name);
		if (tid && tid != gettid() && sched_getscheduler(tid) == policy)
			found = tid;
	}
	closedir(d);
	return found;
}

/* It has nothing to do, and never sleeps: whoever else is on that CPU must run. */
static void who_spins_is_ordinary(void **state)
{
	uint64_t end = fast_clock() + DEADLINE;
	pid_t runner;

	(void)state;
	while (!runner_sleeps())
		assert_true(fast_clock() < end);
	runner = thread_of_class(SCHED_FIFO);
	if (!runner)
		skip();
	pthread_mutex_lock(&r.f->lock);
	r.f->num_spin = 1;
	fast_kick(r.f);
	pthread_mutex_unlock(&r.f->lock);
	while (sched_getscheduler(runner) != SCHED_OTHER) {
		assert_true(fast_clock() < end);
		sched_yield();
	}
}

/*
 * A runner that has slept has an old clock: who takes the lock sets timers by the time that it is.
 */
static void the_clock_is_brought_up_to_date(void **state)
{
	uint64_t before;

	(void)state;
	r.f->ticks = true; /* else a rig's time is virtual */
	r.f->now = 0;
	before = fast_clock();
	fast_lock(r.f->host);
	assert_true(r.f->now >= before);
	fast_unlock(r.f->host);
	r.f->ticks = false;
}

int main(void)
{
	return UNIT_RUN(
		cmocka_unit_test_setup_teardown(back_and_forth, setup, teardown),
		cmocka_unit_test_setup_teardown(the_clock_is_brought_up_to_date, setup_alone,
						teardown_alone),
		cmocka_unit_test_setup_teardown(one_at_a_time, setup, teardown),
		cmocka_unit_test_setup_teardown(lent_to_a_worker, setup_alone, teardown_alone),
		cmocka_unit_test_setup_teardown(who_wants_it_cannot_run, setup_asleep, teardown),
		cmocka_unit_test_setup_teardown(who_spins_is_ordinary, setup_asleep, teardown));
}
