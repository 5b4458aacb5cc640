/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/rig/unit/rig.c tests/rig/fakes/fake_backend.c */
/*
 * test_sched.c - what the runner decides: how many postings one bell announces, and whom it tells
 * that it is busy. The rules are told at the head of ffr/fast/sched.c; the time is the test's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/rig/fakes/fake_backend.h"
#include "tests/rig/unit/rig.h"

#include "ffr/fast/sched.c"

static struct rig r;
static struct rig_ses *ses;
static struct rig_cq *cq;
static struct rig_qp *qp;

static int setup(void **state)
{
	(void)state;
	fake_reset();
	rig_init(&r, &fake_ops);
	ses = rig_session(&r, 0);
	cq = rig_cq(&r, ses, 64, false);
	qp = rig_qp(&r, ses, IBV_QPT_RC, cq, cq, NULL);
	rig_connect(&r, qp, NULL);
	rig_run(&r); /* the QP and its session are active */
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_qp_free(&r, qp);
	rig_cq_free(&r, cq);
	rig_session_free(&r, ses);
	rig_fini(&r);
	return 0;
}

/* Does it share after a turn that found nothing? (rule 7) */
static bool may_share(struct fast *f)
{
	return next_step(f) == SCHED_SHARE;
}

/* It did, and the others had the core for `took`. */
static void charge_yield(struct fast_sched *s, uint64_t took)
{
	sched_note_yield(s, r.f->now, took);
}

/* The runner slept for `slept`, then worked for `awake` on `burst` postings. The new coal. */
static uint32_t after(uint64_t slept, uint64_t awake, uint32_t burst)
{
	struct fast_sched *s = r.f->sched;

	s->slept_at = r.f->now;
	s->woke_at = s->slept_at + slept;
	r.f->now = s->woke_at + awake;
	ses->s.sched.burst = burst;
	choose_coalescing(r.f);
	assert_int_equal(ses->s.sched.burst, 0);
	return ses->s.sched.coal;
}

static void coalesce(void **state)
{
	(void)state;
	assert_int_equal(after(10 * NS_PER_US, NS_PER_US, 1), 0);
	/* small messages: hardly any sleep */
	assert_int_equal(after(2 * NS_PER_US, NS_PER_US, 1), 1);
	assert_int_equal(after(2 * NS_PER_US, NS_PER_US, 2), 3);
	/* large ones: a longer sleep, but not for long after the work */
	assert_int_equal(after(50 * NS_PER_US, 30 * NS_PER_US, 4), 7);
	assert_int_equal(after(50 * NS_PER_US, 20 * NS_PER_US, 8), 7);
	assert_int_equal(after(50 * NS_PER_US, 60 * NS_PER_US, 7), 7); /* not more than it posts */
	for (int i = 0; i < 5; i++)
		after(NS_PER_US, NS_PER_US, 100);
	assert_int_equal(ses->s.sched.coal, COAL_MAX);
	/* a client that posts less is waited for less */
	assert_int_equal(after(NS_PER_MS, NS_PER_US, 31), 31);
	assert_int_equal(after(NS_PER_MS, NS_PER_US, 0), 31); /* it was not its turn */
	/* a dialog cannot wait */
	ses->s.sched.dialog = true;
	assert_int_equal(after(NS_PER_US, NS_PER_US, 100), 0);
}

/* The same for postings that move data within the session, `at_once` in each turn. */
static uint32_t after_own(uint32_t burst, uint32_t at_once)
{
	for (uint32_t left = burst; left; left -= at_once) {
		ses->s.sched.turn_posts = at_once;
		fast_touch(r.f, &ses->s);
		fast_moved_to(r.f, &ses->s, &ses->s, 8);
		account(r.f);
	}
	return after(NS_PER_US, NS_PER_US, burst);
}

/* A tick found the runner asleep: does the session have a pause now? How long, ns. */
static uint64_t pause_after_tick(void)
{
	r.f->now += TICK_NS;
	ses->s.sched.own_at = r.f->now - TICK_NS;
	pause_coalescing(r.f);
	return ses->s.sched.coal_from > r.f->now ? ses->s.sched.coal_from - r.f->now : 0;
}

/* Who writes to itself and waits for that in its memory does not wait for ticks. */
static void own_data(void **state)
{
	uint64_t pause = PAUSE_NS;

	(void)state;
	/* a dialog with itself has one message under way, a stream several */
	assert_int_equal(after_own(1, 1), 0);
	assert_int_equal(after_own(8, 1), 0);
	assert_int_equal(after_own(2, 2), 1);
	assert_int_equal(after_own(8, 2), 3);
	/* a tick finds nothing that waits */
	assert_int_equal(pause_after_tick(), 0);
	assert_int_equal(ses->s.sched.coal, 3);
	/* a tick finds something, of a container that has moved nothing within itself for long */
	rig_post(&r, qp);
	ses->s.sched.own_at = r.f->now - OWN_NS;
	pause_coalescing(r.f);
	assert_int_equal(ses->s.sched.coal_from, 0);
	/* a tick finds something of one that has: a pause, each time for twice as long */
	for (int i = 0; i < 10; i++) {
		assert_int_equal(pause_after_tick(), pause);
		assert_int_equal(pause_after_tick(), pause - TICK_NS); /* it has one */
		assert_int_equal(after_own(8, 8), 0);
		r.f->now = ses->s.sched.coal_from;
		assert_int_equal(after_own(8, 8), 1);
		pause = pause < PAUSE_MAX_NS ? pause * 2 : pause;
	}
	assert_true(pause >= PAUSE_MAX_NS);
	/* forgotten when it went well for longer than that */
	r.f->now += 2 * PAUSE_MAX_NS;
	assert_int_equal(pause_after_tick(), PAUSE_NS);
}

/* One turn: it posts, and gets data or a message without. Was that an answer to earlier data? */
static bool answers(bool posts, bool data, bool note)
{
	ses->s.sched.turn_posts = posts;
	ses->s.sched.dialog = false;
	if (posts)
		fast_touch(r.f, &ses->s);
	if (data)
		fast_data_to(r.f, &ses->s);
	if (note)
		fast_note_to(r.f, &ses->s);
	account(r.f);
	assert_false(ses->s.sched.turn_data || ses->s.sched.turn_note);
	return ses->s.sched.dialog;
}

/* Who gets data and posts then is in a dialog; who gets credits for what it streams is not. */
static void dialog(void **state)
{
	(void)state;
	assert_false(answers(true, false, false));
	assert_false(answers(false, false, true));
	assert_false(answers(true, false, true));
	assert_false(answers(true, true, false));
	assert_true(answers(true, false, true));
	assert_false(answers(true, false, false));
	/* its own data is nothing to answer, nor is a message without; data of others is */
	fast_moved_to(r.f, &ses->s, &ses->s, 8);
	assert_false(answers(false, false, false));
	assert_false(answers(true, false, false));
	fast_moved_to(r.f, NULL, &ses->s, 0);
	assert_false(answers(false, false, false));
	assert_false(answers(true, false, false));
	fast_moved_to(r.f, NULL, &ses->s, 8);
	assert_false(answers(false, false, false));
	assert_true(answers(true, false, false));
	/* either of them makes a runner leave that shares the CPU with the session */
	for (int note = 0; note < 2; note++) {
		cpu_set_t old, one;
		int cpu = sched_getcpu();

		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		assert_int_equal(sched_getaffinity(0, sizeof(old), &old), 0);
		assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
		ses->s.sched.cpu = (uint16_t)cpu;
		ses->s.last_post = r.f->now;
		answers(false, !note, note);
		assert_true(r.f->sched->leave);
		answers(false, false, false);
		assert_false(r.f->sched->leave);
		assert_int_equal(sched_setaffinity(0, sizeof(old), &old), 0);
	}
}

/* After a frame the runner yields for a while, as long as what it loses by that is little. */
static void shares(void **state)
{
	struct fast_sched *s = r.f->sched;

	(void)state;
	r.f->now += 1000 * NS_PER_MS;
	r.f->conf.spin_us = 50;
	assert_false(may_share(r.f));
	r.f->wire_at = r.f->now;
	assert_true(may_share(r.f));
	r.f->now += 50 * NS_PER_US;
	assert_true(may_share(r.f));
	r.f->now++;
	assert_false(may_share(r.f));
	/* programs that do what they have to do and yield cost nothing, however many */
	for (int i = 0; i < 1000; i++) {
		charge_yield(s, SLOW_YIELD_NS);
		r.f->wire_at = ++r.f->now;
		assert_true(may_share(r.f));
	}
	/* time slices of others: their part of the time in the long run */
	charge_yield(s, LOSS_MAX + NS_PER_MS);
	assert_false(may_share(r.f));
	r.f->wire_at = r.f->now += LOSS_SHARE * NS_PER_MS - LOSS_SHARE;
	assert_false(may_share(r.f));
	r.f->wire_at = r.f->now += 2 * LOSS_SHARE;
	assert_true(may_share(r.f));
	charge_yield(s, LOSS_MAX);
	assert_false(may_share(r.f));
	/* a long time saves no more than a short one */
	r.f->wire_at = r.f->now += 10000 * NS_PER_MS;
	assert_true(may_share(r.f));
	charge_yield(s, LOSS_MAX);
	assert_false(may_share(r.f));
	r.f->wire_at = r.f->now += 10000 * NS_PER_MS;
	r.f->no_spin = true;
	assert_false(may_share(r.f));
	r.f->no_spin = false;
}

static uint64_t told(uint64_t awake, enum policy policy)
{
	struct fast_sched *s = r.f->sched;

	atomic_store(&ses->s.hdr->busy, 0);
	s->woke_at = r.f->now;
	r.f->now += awake;
	s->policy = policy;
	fast_touch(r.f, &ses->s);
	account(r.f);
	return atomic_load(&ses->s.hdr->busy);
}

static void tell(void **state)
{
	int cpu = sched_getcpu();
	cpu_set_t old, one;
	uint64_t busy;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(old), &old), 0);
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(told(10 * NS_PER_MS, POL_URGENT), 0);
	assert_int_equal(told(FIFO_MAX_NS, POL_ORDINARY), 0);
	busy = told(10 * NS_PER_MS, POL_ORDINARY);
	assert_true(ff_is_busy(busy, r.f->now, (uint16_t)cpu));
	assert_true(ff_is_busy(busy, r.f->now + FF_BUSY_US * NS_PER_US, (uint16_t)cpu));
	assert_false(
		ff_is_busy(busy, r.f->now + FF_BUSY_US * NS_PER_US + NS_PER_US, (uint16_t)cpu));
	assert_false(ff_is_busy(busy, r.f->now, (uint16_t)(cpu + 1)));
	/* not in every turn: the line is the client's, too */
	assert_int_equal(told(FIFO_MAX_NS + 1, POL_ORDINARY), 0);
	assert_int_not_equal(told(TELL_NS, POL_ORDINARY), 0);
	assert_int_equal(sched_setaffinity(0, sizeof(old), &old), 0);
}

/* With conf.spin_auto it spins for somebody only while a latency-sensitive container is there. */
static void spin_for_whom(void **state)
{
	struct container *c = ses->s.cont;
	struct ffo_limits l = { .latency = 1 };
	bool local;

	(void)state;
	assert_false(r.f->no_spin);
	assert_int_equal(spin_limit(r.f, &local), r.f->conf.spin_us * NS_PER_US);
	r.f->conf.spin_auto = true;
	sched_choose(r.f);
	assert_true(r.f->no_spin);
	assert_int_equal(spin_limit(r.f, &local), 0);
	r.f->num_spin++; /* whatever the sessions' modes are */
	assert_int_equal(spin_limit(r.f, &local), 0);
	fast_container_limits(c, &l);
	assert_false(r.f->no_spin);
	assert_true(spin_limit(r.f, &local) == UINT64_MAX);
	r.f->num_spin--;
	l.latency = 0;
	fast_container_limits(c, &l);
	assert_int_equal(spin_limit(r.f, &local), 0);
	r.f->conf.spin_auto = false;
	sched_choose(r.f);
	assert_int_equal(spin_limit(r.f, &local), r.f->conf.spin_us * NS_PER_US);
}

static void gets_data(struct rig_ses *to, bool event)
{
	if (event)
		fast_event_to(r.f, &to->s);
	else
		fast_data_to(r.f, &to->s);
	account(r.f);
}

/* Rule 2: those that posted lately all have to sleep. */
static void sleepers(void **state)
{
	struct rig_ses *other = rig_session(&r, 1);

	(void)state;
	assert_false(all_sleep(r.f));
	for (int i = 0; i <= PATIENT_MIN; i++)
		gets_data(ses, true);
	assert_true(all_sleep(r.f));
	ses_activate(r.f, &other->s);
	assert_false(all_sleep(r.f));
	ses_deactivate(r.f, &other->s);
	assert_true(all_sleep(r.f));
	gets_data(ses, false); /* it did not sleep */
	assert_false(all_sleep(r.f));
	ses_deactivate(r.f, &ses->s);
	assert_false(all_sleep(r.f)); /* nobody is no sleeper */
	rig_session_free(&r, other);
}

/* Rule 1: where the event came from is told, and a program that sleeps there is let run. */
static void home(void **state)
{
	cpu_set_t old, one;
	uint32_t cpu;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(old), &old), 0);
	cpu = (uint32_t)sched_getcpu();
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	gets_data(ses, false);
	assert_int_equal(ses->s.hdr->home, 0);
	assert_false(r.f->sched->leave);
	gets_data(ses, true);
	assert_int_equal(ses->s.hdr->home, cpu + 1);
	assert_false(r.f->sched->leave); /* it sleeps anywhere */
	ses->s.hdr->at_home = cpu + 2;
	gets_data(ses, true);
	assert_false(r.f->sched->leave);
	ses->s.hdr->at_home = cpu + 1;
	gets_data(ses, false); /* what another thread of it polls for */
	assert_false(r.f->sched->leave);
	gets_data(ses, true);
	assert_true(r.f->sched->leave);
	sched_setaffinity(0, sizeof(old), &old);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(coalesce), T(own_data),      T(dialog),   T(shares),
		T(tell),     T(spin_for_whom), T(sleepers), T(home),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
