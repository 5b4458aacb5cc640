/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_decide.c - each of the runner's eight rules, at the edges of its constants, and what holds
 * whatever the numbers are. No runner, no clock: NOW is now.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ffr/fast/decide.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))
#define NOW    (1000 * NS_PER_MS)
#define LONG   NOW /* ago: since ever */
#define SPIN   (50 * NS_PER_US)

#define assert_step(s, step)                                                                       \
	assert_string_equal(sched_step_name(sched_decide(s, NOW)), sched_step_name(step))

/* A moment, by how long ago things were, and the step it leads to; rows below are in this order. */
struct moment {
	bool work, leave;
	enum policy policy;
	uint64_t awake, yielded, wire; /* since it woke, yielded, saw a frame */
	int64_t loss;
	bool spin_mode, no_spin;
	uint64_t idle, limit; /* since the last work */
	enum sched_step want;
};

static struct fast_sched at(const struct moment *m)
{
	return (struct fast_sched){ .last_work = NOW - m->idle,
				    .woke_at = NOW - m->awake,
				    .yielded_at = NOW - m->yielded,
				    .policy = m->policy,
				    .worked = m->work,
				    .leave = m->leave,
				    .num_spin = m->spin_mode,
				    .no_spin = m->no_spin,
				    .limit = m->limit,
				    .wire_at = NOW - m->wire,
				    .spin_ns = SPIN,
				    .loss_left = m->loss,
				    .loss_since = NOW };
}

#define check(m)                                                                                   \
	do {                                                                                       \
		for (size_t i_ = 0; i_ < LEN(m); i_++) {                                           \
			struct fast_sched s_ = at(&(m)[i_]);                                       \
                                                                                                   \
			if (sched_decide(&s_, NOW) != (m)[i_].want)                                \
				print_error("row %zu\n", i_);                                      \
			assert_step(&s_, (m)[i_].want);                                            \
		}                                                                                  \
	} while (0)

#define ORD POL_ORDINARY
#define URG POL_URGENT

static void names(void **state)
{
	(void)state;
	assert_string_equal(sched_step_name(SCHED_TURN), "turn");
	assert_string_equal(sched_step_name(SCHED_YIELD), "yield");
	assert_string_equal(sched_step_name(SCHED_SHARE), "share");
	assert_string_equal(sched_step_name(SCHED_ASIDE), "aside");
	assert_string_equal(sched_step_name(SCHED_SPIN), "spin");
	assert_string_equal(sched_step_name(SCHED_SLEEP), "sleep");
}

/* A runner that has just begun. */
static struct fast_sched begun(void)
{
	struct fast_sched s;

	sched_begin(&s, NOW, SPIN);
	return s;
}

/* ---- rule 1 ------------------------------------------------------------------------------------- */

static void leave_at_once(void **state)
{
	static const struct moment m[] = {
		/* work goes on */
		{ 1, 0, URG, 0, LONG, LONG, 1, 0, 0, 0, SPIN, SCHED_TURN },
		/* data went to a program on this CPU, which gets it at once, however long a spin may be */
		{ 1, 1, URG, 0, LONG, LONG, 1, 0, 0, 0, SPIN, SCHED_SLEEP },
		{ 1, 1, ORD, LONG, LONG, LONG, 1, 0, 0, 0, UINT64_MAX, SCHED_SLEEP },
		/* only a timer woke it: no spin either */
		{ 0, 1, URG, 0, LONG, LONG, 1, 0, 0, 0, SPIN, SCHED_SLEEP },
		/* it must not sleep, but is not in the way */
		{ 1, 1, URG, 0, LONG, LONG, 1, 1, 0, 0, UINT64_MAX, SCHED_ASIDE },
		{ 0, 1, URG, 0, LONG, LONG, 1, 1, 0, 0, UINT64_MAX, SCHED_ASIDE },
		{ 1, 1, URG, 0, LONG, LONG, 1, 1, 1, 0, 0, SCHED_SLEEP },
		{ 1, 0, URG, 0, LONG, LONG, 1, 1, 0, 0, UINT64_MAX, SCHED_TURN },
	};

	(void)state;
	check(m);
	assert_true(sched_is_local(1, 1, NOW, NOW));
	assert_true(sched_is_local(1, 1, NOW, NOW - LOCAL_NS + 1));
	assert_false(sched_is_local(1, 1, NOW, NOW - LOCAL_NS));
	assert_false(sched_is_local(1, 0, NOW, NOW));
	assert_false(sched_is_local(1, 0xffff, NOW, NOW));
}

/* ---- rule 2 ------------------------------------------------------------------------------------- */

/* Of that policy, awake for so long. */
static struct fast_sched awake(enum policy policy, uint64_t ns)
{
	return (struct fast_sched){ .policy = policy, .woke_at = NOW - ns };
}

static bool fifo_over(enum policy policy, uint64_t ns)
{
	struct fast_sched s = awake(policy, ns);

	return sched_fifo_over(&s, NOW);
}

static void urgent_for_a_while(void **state)
{
	(void)state;
	assert_false(fifo_over(POL_URGENT, 0));
	assert_false(fifo_over(POL_URGENT, FIFO_MAX_NS));
	assert_true(fifo_over(POL_URGENT, FIFO_MAX_NS + 1));
	assert_false(fifo_over(POL_PATIENT, FIFO_MAX_NS));
	assert_true(fifo_over(POL_PATIENT, FIFO_MAX_NS + 1));
	assert_false(fifo_over(POL_ORDINARY, FIFO_MAX_NS + 1));
}

/* It got something n times, and slept. */
static void sleeps(struct sched_patience *p, unsigned n)
{
	while (n--)
		sched_note_asleep(p, true);
}

static void in_time(struct sched_patience *p, unsigned n)
{
	while (n--)
		sched_note_heard(p, NOW - LATE_NS, NOW);
}

/* So many sleeps in a row before it is waited for. */
static unsigned needs(struct sched_patience *p)
{
	unsigned n = 0;

	sched_note_asleep(p, false);
	for (; !sched_sleeps(p); n++)
		sleeps(p, 1);
	return n;
}

static void patience(void **state)
{
	struct sched_patience p = { 0 };

	(void)state;
	assert_false(sched_sleeps(&p));
	assert_int_equal(needs(&p), PATIENT_MIN + 1);
	sleeps(&p, 100000); /* there is no end to that */
	assert_true(sched_sleeps(&p));
	/* one that polls, or is at work when something comes */
	sched_note_asleep(&p, false);
	assert_false(sched_sleeps(&p));
	assert_int_equal(needs(&p), PATIENT_MIN + 1);
	in_time(&p, 100000);
	assert_true(sched_sleeps(&p));

	/* late: at once no more, and next time later; up to a limit */
	for (unsigned need = PATIENT_MIN; need < PATIENT_MAX;) {
		sched_note_heard(&p, NOW - LATE_NS - 1, NOW);
		assert_false(sched_sleeps(&p));
		need *= 2;
		assert_int_equal(needs(&p), need + 1);
	}
	sched_note_heard(&p, 0, NOW);
	assert_int_equal(needs(&p), PATIENT_MAX + 1);
	/* the clock of another time namespace */
	sched_note_heard(&p, NOW + 1, NOW);
	assert_false(sched_sleeps(&p));
	assert_int_equal(needs(&p), PATIENT_MAX + 1);

	/* as many in time as it took: half as many */
	in_time(&p, PATIENT_MAX - 1);
	assert_int_equal(needs(&p), PATIENT_MAX + 1);
	in_time(&p, 1);
	assert_int_equal(needs(&p), PATIENT_MAX / 2 + 1);
	in_time(&p, 2 * PATIENT_MAX);
	assert_int_equal(needs(&p), PATIENT_MIN + 1);
}

static void sleep_as(void **state)
{
	struct fast_sched s = { 0 };

	(void)state;
	assert_int_equal(sched_sleep_as(&s, NOW, false, false), POL_URGENT);
	assert_int_equal(sched_sleep_as(&s, NOW, false, true), POL_PATIENT);
	assert_int_equal(sched_sleep_as(&s, NOW, true, false), POL_ORDINARY);
	assert_int_equal(sched_sleep_as(&s, NOW, true, true), POL_PATIENT); /* no CPU is better */
	/* frames are not to wait */
	s.wire_at = NOW - WIRED_NS;
	assert_int_equal(sched_sleep_as(&s, NOW, false, true), POL_URGENT);
	assert_int_equal(sched_sleep_as(&s, NOW, true, true), POL_ORDINARY);
	s.wire_at--;
	assert_int_equal(sched_sleep_as(&s, NOW, false, true), POL_PATIENT);
}

/* ---- rule 3 ------------------------------------------------------------------------------------- */

static void coalesce(void **state)
{
	static const struct {
		struct sched_client
			c; /* coal, burst, at_once, dialog own paused spun_for ticked hardly */
		uint32_t want;
	} m[] = {
		/* twice as many, as long as it posts them and the runner hardly sleeps */
		{ { 0, 1, 1, 0, 0, 0, 0, 0, 1 }, 1 },
		{ { 1, 2, 1, 0, 0, 0, 0, 0, 1 }, 3 },
		{ { 3, 4, 1, 0, 0, 0, 0, 0, 1 }, 7 },
		{ { 3, 3, 1, 0, 0, 0, 0, 0, 1 }, 3 },
		{ { 0, 1, 1, 0, 0, 0, 0, 0, 0 }, 0 },
		{ { 3, 99, 9, 0, 0, 0, 0, 0, 0 }, 3 },
		/* there is a limit */
		{ { 31, 32, 1, 0, 0, 0, 0, 0, 1 }, COAL_MAX },
		{ { 32, 99, 1, 0, 0, 0, 0, 0, 1 }, COAL_MAX },
		{ { COAL_MAX, 99, 1, 0, 0, 0, 0, 0, 1 }, COAL_MAX },
		{ { 30, 99, 1, 0, 0, 0, 0, 0, 1 }, 61 },
		/* who posts less than half of it is waited for less, who posts nothing had no turn */
		{ { 7, 4, 1, 0, 0, 0, 0, 0, 0 }, 7 },
		{ { 7, 3, 1, 0, 0, 0, 0, 0, 0 }, 3 },
		{ { 7, 3, 1, 0, 0, 0, 0, 0, 1 }, 3 },
		{ { 1, 1, 1, 0, 0, 0, 0, 0, 0 }, 1 },
		{ { 7, 0, 0, 0, 0, 0, 0, 0, 0 }, 7 },
		{ { 7, 0, 0, 0, 0, 0, 0, 0, 1 }, 7 },
		/* who writes to itself must have posted several at once */
		{ { 0, 8, 1, 0, 1, 0, 0, 0, 1 }, 0 },
		{ { 0, 8, 2, 0, 1, 0, 0, 0, 1 }, 1 },
		{ { 7, 8, 1, 0, 1, 0, 0, 0, 1 }, 7 },
		{ { 7, 3, 1, 0, 1, 0, 0, 0, 1 }, 3 },
		/* each of these ends it */
		{ { 7, 8, 8, 1, 0, 0, 0, 0, 1 }, 0 },
		{ { 7, 8, 8, 0, 0, 1, 0, 0, 1 }, 0 },
		{ { 7, 8, 8, 0, 0, 0, 1, 0, 1 }, 0 },
		{ { 7, 8, 8, 0, 0, 0, 0, 1, 1 }, 0 },
		{ { 7, 0, 0, 1, 0, 0, 0, 0, 0 }, 0 },
		{ { 7, 0, 0, 0, 0, 1, 0, 0, 0 }, 0 },
		{ { 7, 0, 0, 0, 0, 0, 1, 0, 0 }, 0 },
		{ { 7, 0, 0, 0, 0, 0, 0, 1, 0 }, 0 },
	};

	(void)state;
	for (size_t i = 0; i < LEN(m); i++) {
		if (sched_coalesce(&m[i].c) != m[i].want)
			print_error("row %zu\n", i);
		assert_int_equal(sched_coalesce(&m[i].c), m[i].want);
	}
}

static void hardly_slept(void **state)
{
	static const struct {
		uint64_t slept, awake;
		bool want;
	} m[] = {
		{ 0, 0, true },
		{ SHORT_SLEEP_NS - 1, 0, true },
		{ SHORT_SLEEP_NS, 0, false },
		{ SHORT_SLEEP_NS, SHORT_SLEEP_NS / 2, false },
		{ SHORT_SLEEP_NS, SHORT_SLEEP_NS / 2 + 1, true },
		{ 100 * NS_PER_US, 50 * NS_PER_US, false },
		{ 100 * NS_PER_US - 1, 50 * NS_PER_US, true },
		{ NS_PER_MS, NS_PER_US, false },
	};

	(void)state;
	for (size_t i = 0; i < LEN(m); i++) {
		struct fast_sched s = { .slept_at = NOW, .woke_at = NOW + m[i].slept };

		assert_int_equal(sched_hardly_slept(&s, s.woke_at + m[i].awake), m[i].want);
		s.slept_at = 0; /* not yet */
		s.woke_at = m[i].slept;
		assert_false(sched_hardly_slept(&s, s.woke_at + m[i].awake));
	}
}

static void own_data(void **state)
{
	uint64_t pause = 0;

	(void)state;
	assert_true(sched_has_own(NOW, NOW));
	assert_true(sched_has_own(NOW, NOW - OWN_NS + 1));
	assert_false(sched_has_own(NOW, NOW - OWN_NS));
	assert_false(sched_has_own(OWN_NS / 2, 0));
	/* each pause is twice as long as the one before, to a limit */
	for (uint64_t want = PAUSE_NS; want <= PAUSE_MAX_NS; want *= 2) {
		pause = sched_pause(pause, pause);
		assert_int_equal(pause, want);
	}
	assert_int_equal(pause, PAUSE_MAX_NS);
	assert_int_equal(sched_pause(pause, 0), PAUSE_MAX_NS);
	/* it went well for longer than that: the pause begins anew */
	assert_int_equal(sched_pause(pause, pause), PAUSE_MAX_NS);
	assert_int_equal(sched_pause(pause, pause + 1), PAUSE_NS);
	assert_int_equal(sched_pause(2 * PAUSE_NS, 2 * PAUSE_NS), 4 * PAUSE_NS);
	assert_int_equal(sched_pause(2 * PAUSE_NS, 2 * PAUSE_NS + 1), PAUSE_NS);
}

static void ticks(void **state)
{
	struct fast_sched st = begun();

	(void)state;
	assert_true(sched_alarm(NOW, UINT64_MAX, false) == UINT64_MAX);
	assert_int_equal(sched_alarm(NOW, UINT64_MAX, true), NOW + TICK_NS);
	assert_int_equal(sched_alarm(NOW, NOW + TICK_NS + 1, true), NOW + TICK_NS);
	assert_int_equal(sched_alarm(NOW, NOW + TICK_NS + 1, false), NOW + TICK_NS + 1);
	assert_int_equal(sched_alarm(NOW, NOW + TICK_NS - 1, true), NOW + TICK_NS - 1);
	for (int i = 1; i < IDLE_TICKS; i++)
		assert_false(sched_note_tick(&st, true));
	assert_true(sched_note_tick(&st, true));
	assert_true(sched_note_tick(&st, true));
	assert_false(sched_note_tick(&st, false));
	for (int i = 1; i < IDLE_TICKS; i++)
		assert_false(sched_note_tick(&st, true));
	assert_true(sched_note_tick(&st, true));
}

/* ---- rule 4 ------------------------------------------------------------------------------------- */

static void spin(void **state)
{
	static const struct moment m[] = {
		{ 0, 0, URG, 0, LONG, LONG, 1, 0, 0, 0, SPIN, SCHED_SPIN },
		{ 0, 0, URG, 0, LONG, LONG, 1, 0, 0, SPIN - 1, SPIN, SCHED_SPIN },
		{ 0, 0, URG, 0, LONG, LONG, 1, 0, 0, SPIN, SPIN, SCHED_SLEEP },
		{ 0, 0, ORD, LONG, LONG, LONG, 1, 0, 0, SPIN - 1, SPIN, SCHED_SPIN },
		{ 0, 0, ORD, LONG, LONG, LONG, 1, 0, 0, SPIN, SPIN, SCHED_SLEEP },
		{ 0, 0, URG, 0, LONG, LONG, 1, 0, 0, 0, 0, SCHED_SLEEP },
		{ 0, 0, URG, 0, LONG, LONG, 1, 0, 0, 0, 1, SCHED_SPIN },
		{ 0, 0, ORD, LONG, LONG, LONG, 1, 1, 0, LONG, UINT64_MAX, SCHED_SPIN },
		{ 1, 0, URG, 0, LONG, LONG, 1, 0, 0, SPIN, 0, SCHED_TURN },
	};

	(void)state;
	check(m);
}

static void spin_limit(void **state)
{
	static const struct {
		struct sched_spin v; /* spin_ns, spin_local, num_spin, no_spin, held, wanted, local */
		uint64_t want;
	} m[] = {
		{ { SPIN, SPIN_LOCAL_NS, 0, 0, 0, 0, 0 }, 0 },
		{ { SPIN, SPIN_LOCAL_NS, 0, 0, 0, 1, 0 }, SPIN },
		{ { SPIN, SPIN_LOCAL_NS, 0, 0, 0, 1, 1 }, SPIN_LOCAL_NS },
		{ { SPIN, 0, 0, 0, 0, 1, 1 }, 0 },
		{ { SPIN, 0, 0, 0, 0, 1, 0 }, SPIN },
		{ { SPIN_LOCAL_NS - 1, SPIN_LOCAL_NS, 0, 0, 0, 1, 1 }, SPIN_LOCAL_NS - 1 },
		{ { SPIN, SPIN_LOCAL_NS, 0, 0, 0, 0, 1 }, 0 },
		/* for ever, unless for nobody */
		{ { SPIN, SPIN_LOCAL_NS, 1, 0, 0, 0, 0 }, UINT64_MAX },
		{ { SPIN, SPIN_LOCAL_NS, 1, 0, 1, 1, 1 }, UINT64_MAX },
		{ { SPIN, SPIN_LOCAL_NS, 1, 1, 0, 1, 0 }, 0 },
		{ { SPIN, SPIN_LOCAL_NS, 0, 1, 0, 1, 0 }, 0 },
		/* a timer wakes it */
		{ { SPIN, SPIN_LOCAL_NS, 0, 0, 1, 1, 0 }, 0 },
	};

	(void)state;
	for (size_t i = 0; i < LEN(m); i++) {
		if (sched_spin_limit(&m[i].v) != m[i].want)
			print_error("row %zu\n", i);
		assert_true(sched_spin_limit(&m[i].v) == m[i].want);
	}
	/* the sessions are asked if it depends on them */
	for (unsigned b = 0; b < 8; b++) {
		struct sched_spin v = { .spin_ns = SPIN,
					.spin_local = SPIN_LOCAL_NS,
					.no_spin = b & 1,
					.num_spin = b & 2,
					.held = b & 4 };
		uint64_t without = sched_spin_limit(&v);

		v.wanted = true;
		assert_int_equal(sched_spin_limit(&v) == without, sched_spin_is_fixed(&v));
		v.local = true;
		assert_int_equal(sched_spin_limit(&v) == without, sched_spin_is_fixed(&v));
	}
}

/* It spun for `limit` in vain, beside a client or not. */
static void vain(struct fast_sched *s, bool local, uint64_t limit)
{
	s->local = local;
	s->limit = limit;
	sched_note_vain(s);
}

static void spin_local(void **state)
{
	struct fast_sched st = begun();
	uint64_t want = SPIN_LOCAL_NS;

	(void)state;
	st.slept_at = NOW;
	assert_int_equal(st.spin_local, SPIN_LOCAL_NS);
	/* in vain, but beside nobody or not at all: nothing is to be learned */
	vain(&st, false, SPIN);
	vain(&st, true, 0);
	assert_int_equal(st.spin_local, SPIN_LOCAL_NS);
	while (want / 2 >= SPIN_LEAST_NS) {
		vain(&st, true, want);
		want /= 2;
		assert_int_equal(st.spin_local, want);
	}
	assert_int_equal(want, SPIN_LOCAL_NS / 8);
	vain(&st, true, want);
	assert_int_equal(st.spin_local, 0);
	/* a bell from afar: the spin would have met it, or not */
	sched_note_far(&st, 1, st.slept_at + SPIN_LOCAL_NS + FAR_WAKE_NS);
	assert_int_equal(st.spin_local, 0);
	sched_note_far(&st, 1, st.slept_at + SPIN_LOCAL_NS + FAR_WAKE_NS - 1);
	assert_int_equal(st.spin_local, SPIN_LOCAL_NS);
	st.spin_local = 2 * SPIN_LEAST_NS;
	vain(&st, true, 1);
	assert_int_equal(st.spin_local, SPIN_LEAST_NS);
	st.spin_local = 2 * SPIN_LEAST_NS - 1;
	vain(&st, true, 1);
	assert_int_equal(st.spin_local, 0);
}

/* ---- rule 5 ------------------------------------------------------------------------------------- */

/* So many wake-ups; so many bells from CPU 3, and then from others. */
static struct fast_sched woken(int wakes, int far, int others)
{
	struct fast_sched st = begun();

	for (int i = 0; i < wakes; i++)
		sched_note_wake(&st, true);
	for (int i = 0; i < far; i++)
		sched_note_far(&st, 3, NOW);
	for (int i = 0; i < others; i++)
		sched_note_far(&st, (uint16_t)(4 + i), NOW);
	return st;
}

static void follow(void **state)
{
	struct fast_sched st = woken(FOLLOW_WAKES - 1, 0, 0);

	(void)state;
	assert_false(sched_follow_due(&st));
	sched_note_wake(&st, false); /* by a timer */
	assert_false(sched_follow_due(&st));
	sched_note_wake(&st, true);
	assert_true(sched_follow_due(&st));
	for (int far = 0; far <= FOLLOW_WAKES; far++) {
		for (int others = 0; others <= 4; others++) {
			bool want = far >= FOLLOW_FAR && others <= FOLLOW_OTHERS;

			st = woken(FOLLOW_WAKES, far, others);
			if (far) {
				assert_int_equal(st.far_cpu, 3);
				assert_int_equal(st.far, far);
				assert_int_equal(st.others, others);
			}
			assert_false(sched_follows(&st, NOW, false)); /* it may be elsewhere soon */
			st.policy = POL_URGENT;
			assert_int_equal(sched_follows(&st, NOW, false), want);
			assert_false(sched_follows(&st, NOW, true));
			st.policy = POL_PATIENT;
			assert_int_equal(sched_follows(&st, NOW, false), want);
		}
	}
	/* not back and forth */
	st = woken(FOLLOW_WAKES, FOLLOW_FAR, FOLLOW_OTHERS);
	st.policy = POL_URGENT;
	sched_note_move(&st, NOW - FOLLOW_NS);
	assert_false(sched_follows(&st, NOW, false));
	sched_note_move(&st, NOW - FOLLOW_NS - 1);
	assert_true(sched_follows(&st, NOW, false));
	/* it begins anew, whether it moved or not */
	sched_note_follow(&st);
	assert_false(sched_follow_due(&st));
	assert_false(sched_follows(&st, NOW, false));
	sched_note_far(&st, 7, NOW);
	assert_int_equal(st.far_cpu, 7);
	assert_int_equal(st.far, 1);
	assert_int_equal(st.others, 0);
}

/* ---- rule 6 ------------------------------------------------------------------------------------- */

static bool is_bulk(enum policy policy, uint64_t ns)
{
	struct fast_sched s = awake(policy, ns);

	return sched_is_bulk(&s, NOW);
}

static void let_pollers_run(void **state)
{
	static const struct moment m[] = {
		{ 1, 0, ORD, FIFO_MAX_NS + 1, BULK_NS + 1, LONG, 1, 0, 0, 0, SPIN, SCHED_YIELD },
		{ 1, 0, ORD, FIFO_MAX_NS, BULK_NS + 1, LONG, 1, 0, 0, 0, SPIN, SCHED_TURN },
		{ 1, 0, ORD, FIFO_MAX_NS + 1, BULK_NS, LONG, 1, 0, 0, 0, SPIN, SCHED_TURN },
		{ 1, 0, URG, FIFO_MAX_NS + 1, BULK_NS + 1, LONG, 1, 0, 0, 0, SPIN, SCHED_TURN },
		{ 1, 0, ORD, FIFO_MAX_NS + 1, BULK_NS + 1, LONG, 0, 0, 0, 0, SPIN, SCHED_TURN },
		{ 1, 0, ORD, LONG, LONG, LONG, -1, 0, 0, 0, SPIN, SCHED_TURN },
		/* whoever is there: it works */
		{ 1, 0, ORD, LONG, LONG, LONG, 1, 1, 0, 0, UINT64_MAX, SCHED_YIELD },
		{ 1, 0, ORD, LONG, LONG, LONG, 1, 0, 1, 0, 0, SCHED_YIELD },
		/* but not without work, or when it leaves anyway */
		{ 0, 0, ORD, LONG, LONG, LONG, 1, 0, 0, 0, SPIN, SCHED_SPIN },
		{ 1, 1, ORD, LONG, LONG, LONG, 1, 0, 0, 0, SPIN, SCHED_SLEEP },
	};

	(void)state;
	check(m);
	assert_false(is_bulk(POL_ORDINARY, FIFO_MAX_NS));
	assert_true(is_bulk(POL_ORDINARY, FIFO_MAX_NS + 1));
	assert_false(is_bulk(POL_URGENT, FIFO_MAX_NS + 1));
	assert_false(sched_tells(NOW, NOW - TELL_NS));
	assert_true(sched_tells(NOW, NOW - TELL_NS - 1));
	assert_true(sched_tells(NOW, 0));
	/* told in time: the news before is not stale yet */
	assert_true(TELL_NS < FF_BUSY_US * NS_PER_US);
}

/* ---- rule 7 ------------------------------------------------------------------------------------- */

static void share(void **state)
{
	static const struct moment m[] = {
		{ 0, 0, URG, 0, LONG, 0, 1, 0, 0, 0, SPIN, SCHED_SHARE },
		{ 0, 0, URG, 0, LONG, SPIN, 1, 0, 0, LONG, 0, SCHED_SHARE },
		{ 0, 0, URG, 0, LONG, SPIN + 1, 1, 0, 0, LONG, 0, SCHED_SLEEP },
		{ 0, 0, ORD, LONG, 0, SPIN, 1, 0, 0, LONG, SPIN, SCHED_SHARE },
		/* rather than to leave, to spin for ever, or to step aside */
		{ 1, 1, URG, 0, LONG, 0, 1, 0, 0, 0, SPIN, SCHED_SHARE },
		{ 0, 1, URG, 0, LONG, 0, 1, 0, 0, 0, SPIN, SCHED_SHARE },
		{ 0, 0, URG, 0, LONG, 0, 1, 1, 0, 0, UINT64_MAX, SCHED_SHARE },
		{ 1, 1, URG, 0, LONG, 0, 1, 1, 0, 0, UINT64_MAX, SCHED_SHARE },
		/* not while there is work */
		{ 1, 0, URG, 0, LONG, 0, 1, 0, 0, 0, SPIN, SCHED_TURN },
		/* nobody is to be spun for */
		{ 0, 0, URG, 0, LONG, 0, 1, 0, 1, 0, 0, SCHED_SLEEP },
		/* it lost too much */
		{ 0, 0, URG, 0, LONG, 0, 0, 0, 0, 0, SPIN, SCHED_SPIN },
		{ 0, 0, URG, 0, LONG, 0, 0, 0, 0, SPIN, SPIN, SCHED_SLEEP },
		{ 1, 1, URG, 0, LONG, 0, -1, 0, 0, 0, SPIN, SCHED_SLEEP },
		{ 1, 1, URG, 0, LONG, 0, -1, 1, 0, 0, UINT64_MAX, SCHED_ASIDE },
	};

	(void)state;
	check(m);
}

static void loss(void **state)
{
	struct fast_sched st = begun();
	uint64_t now = NOW;

	(void)state;
	assert_int_equal(sched_loss_left(&st, now), LOSS_MAX);
	/* no more than that, after any time */
	now += 10000 * NS_PER_MS;
	assert_int_equal(sched_loss_left(&st, now), LOSS_MAX);
	/* quick yields are none */
	sched_note_yield(&st, now, SLOW_YIELD_NS);
	assert_int_equal(sched_loss_left(&st, now), LOSS_MAX);
	sched_note_yield(&st, now, SLOW_YIELD_NS + 1);
	assert_int_equal(sched_loss_left(&st, now), LOSS_MAX - SLOW_YIELD_NS - 1);
	/* a slow one may take more than there is: that is missing later */
	sched_note_yield(&st, now, 2 * LOSS_MAX);
	assert_int_equal(sched_loss_left(&st, now), -(int64_t)(LOSS_MAX + SLOW_YIELD_NS + 1));
	/* in the long run they have their part of the time */
	now += LOSS_SHARE * (LOSS_MAX + SLOW_YIELD_NS + 1) - 1;
	assert_int_equal(sched_loss_left(&st, now), -1);
	assert_int_equal(sched_loss_left(&st, now + 1), 0);
	assert_int_equal(sched_loss_left(&st, now + LOSS_SHARE), 0);
	assert_int_equal(sched_loss_left(&st, now + LOSS_SHARE + 1), 1);
	/* the share counts from the last yield */
	now += 2 * LOSS_SHARE + 1;
	assert_int_equal(sched_loss_left(&st, now), 2);
	sched_note_yield(&st, now, 0);
	assert_int_equal(sched_loss_left(&st, now), 2);
	assert_int_equal(sched_loss_left(&st, now + LOSS_SHARE - 1), 2);
	assert_int_equal(sched_loss_left(&st, now + LOSS_SHARE), 3);
	/* saved before it is lost: what was too much is not saved */
	now += 10000 * NS_PER_MS;
	sched_note_yield(&st, now, LOSS_MAX);
	assert_int_equal(sched_loss_left(&st, now), 0);
}

/* ---- rule 8 ------------------------------------------------------------------------------------- */

static void probe(void **state)
{
	struct fast_sched st = begun();

	(void)state;
	for (int i = 1; i < PROBE_LEAVES; i++)
		sched_note_leave(&st);
	assert_false(sched_probe_due(&st, NOW));
	/* a sleep beside a client is one, too, whether it had spun or not */
	vain(&st, true, 0);
	assert_true(sched_probe_due(&st, NOW));
	/* elsewhere it shows that it is not in the way */
	vain(&st, false, SPIN);
	assert_int_equal(st.leaves, 0);
	for (int i = 0; i < PROBE_LEAVES; i++) {
		assert_false(sched_probe_due(&st, NOW));
		vain(&st, true, SPIN);
	}
	assert_true(sched_probe_due(&st, NOW));
	sched_note_probe(&st, NOW);
	assert_false(sched_probe_due(&st, NOW + LONG));
	for (int i = 0; i < PROBE_LEAVES; i++)
		sched_note_leave(&st);
	assert_false(sched_probe_due(&st, NOW + PROBE_NS - 1));
	assert_true(sched_probe_due(&st, NOW + PROBE_NS));
	/* with a core to spare */
	assert_true(sched_probes(1, 2));
	assert_false(sched_probes(2, 2));
	assert_false(sched_probes(3, 2));
	assert_true(sched_is_active(NOW, NOW - ACTIVE_NS + 1));
	assert_false(sched_is_active(NOW, NOW - ACTIVE_NS));
}

/* ---- all of them ---------------------------------------------------------------------------------- */

/* What holds whatever the numbers are. */
static void check_step(const struct fast_sched *s, const struct sched_spin *spin)
{
	enum sched_step step = sched_decide(s, NOW);
	bool for_ever = s->num_spin && !s->no_spin;
	bool works = step == SCHED_TURN || step == SCHED_YIELD;
	bool due = NOW - s->wire_at <= s->spin_ns && !s->no_spin && s->loss_left > 0;
	struct fast_sched t;

	/* work goes on, but for who has got data here; and without work nothing does */
	assert_int_equal(works, s->worked && !s->leave);
	if (works) {
		bool long_ago = NOW - s->woke_at > FIFO_MAX_NS && NOW - s->yielded_at > BULK_NS;

		assert_int_equal(step == SCHED_YIELD,
				 s->policy == POL_ORDINARY && long_ago && s->loss_left > 0);
	}
	/* frames that are due are waited for, and nothing else is shared for */
	if (!works)
		assert_int_equal(step == SCHED_SHARE, due);
	/* who is here runs at once */
	if (s->leave)
		assert_true(step == SCHED_SLEEP || step == SCHED_SHARE || step == SCHED_ASIDE);
	/* no turn is lost: it sleeps only where there is no work, or somebody to leave for */
	if (step == SCHED_SLEEP)
		assert_true(!s->worked || s->leave);
	/* sessions in spin mode have a runner that never sleeps, unless it spins for nobody */
	if (for_ever)
		assert_int_not_equal(step, SCHED_SLEEP);
	if (step == SCHED_ASIDE)
		assert_true(s->leave && for_ever);
	if (s->no_spin)
		assert_true(works || step == SCHED_SLEEP);
	if (step == SCHED_SPIN) {
		assert_true(for_ever || (spin->wanted && !spin->held));
		assert_true(for_ever || NOW - s->last_work < s->spin_ns);
		assert_true(for_ever || !spin->local || NOW - s->last_work < spin->spin_local);
	}
	/* who looks for the limit only where it would spin for ever decides the same */
	t = *s;
	t.limit = UINT64_MAX;
	assert_int_equal(step, sched_decide(&t, NOW) == SCHED_SPIN ? sched_spin_step(s, NOW) :
								     sched_decide(&t, NOW));
	/* what is not so while it goes on does not matter then */
	t = *s;
	t.num_spin = !s->num_spin;
	t.no_spin = !s->no_spin;
	t.wire_at = NOW;
	if (works)
		assert_step(&t, step);
}

static void all(void **state)
{
	static const uint64_t awake[] = { 0, FIFO_MAX_NS, FIFO_MAX_NS + 1 };
	static const uint64_t yielded[] = { 0, BULK_NS, BULK_NS + 1 };
	static const uint64_t wire[] = { 0, SPIN, SPIN + 1 };
	static const uint64_t local[] = { 0, SPIN_LOCAL_NS, 2 * SPIN };
	static const uint64_t idle[] = { 0, SPIN_LOCAL_NS - 1, SPIN_LOCAL_NS, SPIN - 1, SPIN, LONG };
	static const int64_t loss[] = { -1, 0, 1 };
	uint32_t seen = 0;

	(void)state;
	for (unsigned b = 0; b < 256; b++) {
		for (unsigned k = 0; k < 3 * 3 * 3 * 3 * 3 * 6; k++) {
			struct moment m = { .work = b & 1,
					    .leave = b & 2,
					    .policy = b & 4 ? POL_URGENT : POL_ORDINARY,
					    .awake = awake[k % 3],
					    .yielded = yielded[k / 3 % 3],
					    .wire = wire[k / 9 % 3],
					    .loss = loss[k / 27 % 3],
					    .spin_mode = b & 8,
					    .no_spin = b & 16,
					    .idle = idle[k / 243] };
			struct sched_spin s = { .spin_ns = SPIN,
						.spin_local = local[k / 81 % 3],
						.no_spin = m.no_spin,
						.num_spin = m.spin_mode,
						.held = b & 32,
						.wanted = b & 64,
						.local = b & 128 };
			struct fast_sched now;

			m.limit = sched_spin_limit(&s);
			now = at(&m);
			check_step(&now, &s);
			seen |= 1u << sched_decide(&now, NOW);
		}
	}
	assert_int_equal(seen, (1u << SCHED_NUM_STEPS) - 1);
}

int main(void)
{
#define T(f) cmocka_unit_test(f)
	const struct CMUnitTest tests[] = {
		T(names),	 T(leave_at_once),   T(urgent_for_a_while),
		T(patience),	 T(sleep_as),	     T(coalesce),
		T(hardly_slept), T(own_data),	     T(ticks),
		T(spin),	 T(spin_limit),	     T(spin_local),
		T(follow),	 T(let_pollers_run), T(share),
		T(loss),	 T(probe),	     T(all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
