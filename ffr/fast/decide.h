/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * decide.h - the runner's decisions, as functions of a few numbers: what to do after a turn, how
 * long to spin, how many postings a bell announces, whether to follow, to probe, to tell.
 *
 * sched.c finds the numbers out, asks, and carries out; the eight rules are told at its head, and
 * each has its functions here. None of them reads a clock, makes a system call or knows a struct
 * fast, so that tests/unit/fast/test_decide.c can ask for any moment; any thread. Times and spans
 * are ns, of one clock. Only sched_note_*() change something: what struct fast_sched remembers.
 *
 * The loop asks after each turn, so they are inline, read struct fast_sched in place, and look at
 * bools that stand side by side one by one (gcc would look at all at once, for which it writes them
 * to memory first).
 */
#ifndef FFR_FAST_DECIDE_H
#define FFR_FAST_DECIDE_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "ffr/abi/ff_ring.h"
#include "ffr/obj/objects.h"
#include "ffr/lib/timer.h"

/*
 * The constants. _NS are ns, others are numbers. Each with what it is for, and what gets worse where
 * it is larger (+) and where it is smaller (-).
 */

/* rule 1: a client lives where it posted; + sleeps for one that moved, - blocks one that thinks */
#define LOCAL_NS (10 * NS_PER_MS)
/* rule 2: urgent while awake; + others of this CPU wait, - posters preempt it before it is done */
#define FIFO_MAX_NS (500 * NS_PER_US)
/* rule 2: a bell that is heard later is late; + posters wait, - chance makes them be preempted */
#define LATE_NS (20 * NS_PER_US)
/* rule 2: sleeps in a row before a poster is waited for; + it is preempted, - a late bell more often */
#define PATIENT_MIN 8
/* rule 2: the same after many late bells; + it is preempted, - a late bell more often */
#define PATIENT_MAX 1024
/* rule 2: frames of another host are to be expected; + posters are preempted, - frames wait */
#define WIRED_NS (10 * NS_PER_MS)
/* rule 3: a shorter sleep is hardly one; + postings wait for more, - streams are preempted */
#define SHORT_SLEEP_NS (3 * NS_PER_US)
/* rule 3: postings beside the announced one; + the first of them waits, - more bells */
#define COAL_MAX 63u
/* rule 3: sleeps with something coalesced; + who never polls waits, - more wake-ups for nothing */
#define TICK_NS NS_PER_MS
/* rule 3: ticks in a row that end it; + more wake-ups for nothing, - gaps in a stream do */
#define IDLE_TICKS 20
/* rule 3: who had own data may wait for such; + its streams have bells, - it waits for ticks */
#define OWN_NS (100 * NS_PER_MS)
/* rule 3: its first pause, when it did wait; + a stream has bells, - more waits for ticks */
#define PAUSE_NS (10 * NS_PER_MS)
/* rule 3: its longest pause; + a stream that follows has bells, - more waits for ticks */
#define PAUSE_MAX_NS (64 * PAUSE_NS)
/* rule 4: spin beside a client; + its program waits, - answers from afar find it asleep */
#define SPIN_LOCAL_NS (5 * NS_PER_US)
/* rule 4: a spin that was halved to less is 0; + it ends sooner, - spins that can find nothing */
#define SPIN_LEAST_NS (NS_PER_US / 2)
/* rule 4: a wake-up across CPUs; + bells that no spin meets prolong it, - it stays too short */
#define FAR_WAKE_NS (5 * NS_PER_US)
/* rule 5: wake-ups between two looks at where from; + it follows late, - by chance */
#define FOLLOW_WAKES 16
/* rule 5: ... so many from one other CPU: move; + it stays though rung from afar, - for few */
#define FOLLOW_FAR 6
/* rule 5: ... at most so many from a third: move; + it is rung from afar, - hardly moves */
#define FOLLOW_OTHERS 2
/* rule 5: between two moves; + it follows late, - clients of two CPUs pull it back and forth */
#define FOLLOW_NS (10 * NS_PER_MS)
/* rule 6: a session is told again; + pollers take it for gone (FF_BUSY_US), - cache lines move */
#define TELL_NS (FF_BUSY_US * NS_PER_US / 2)
/* rule 6: between two yields at work; + pollers here learn of it late, - time goes into yields */
#define BULK_NS (50 * NS_PER_US)
/* rules 6, 7: a yield that takes more is a loss; + stalls are free, - pollers' work is one */
#define SLOW_YIELD_NS (100 * NS_PER_US)
/* rules 6, 7: losses are 1/this of the time; + it hardly yields, - others' time slices stall it */
#define LOSS_SHARE 64
/* rules 6, 7: losses that may come at once; + a longer stall, - one time slice ends all yields */
#define LOSS_MAX (2 * NS_PER_MS)
/* rule 8: leaves in a row before a probe; + an idle core stays unused, - more slow wake-ups */
#define PROBE_LEAVES 32
/* rule 8: between two probes; + an idle core stays unused, - more slow wake-ups */
#define PROBE_NS (10 * NS_PER_MS)
/* rule 8: who posted since needs a CPU; + fewer probes, - probes where all CPUs are needed */
#define ACTIVE_NS NS_PER_MS

enum policy {
	POL_ORDINARY,
	POL_PATIENT, /* SCHED_BATCH, on one CPU: it runs as soon as who has woken it sleeps */
	POL_URGENT   /* SCHED_FIFO, or what serves where that is refused */
};

/* What the runner does after a turn, until the next. */
enum sched_step {
	SCHED_TURN,  /* there was work: the next turn at once */
	SCHED_YIELD, /* the same, but programs on this CPU run in between (rule 6) */
	SCHED_SHARE, /* nothing to do, but frames are due: they run in between (rule 7) */
	SCHED_ASIDE, /* a program here got data, and the runner must not sleep: it runs (rules 1, 4) */
	SCHED_SPIN,  /* nothing to do yet: look again (rule 4) */
	SCHED_SLEEP, /* until a bell, a frame or a timer */
	SCHED_NUM_STEPS
};

static inline const char *sched_step_name(enum sched_step step)
{
	static const char *const name[] = { "turn", "yield", "share", "aside", "spin", "sleep" };

	static_assert(sizeof(name) / sizeof(name[0]) == SCHED_NUM_STEPS, "");
	return name[step];
}

/* What the runner decides by. */
struct fast_sched {
	/* ---- what is so: sched.c writes it */
	uint64_t last_work;  /* when there was work, or a bell */
	uint64_t slept_at;   /* 0: it has not slept yet */
	uint64_t woke_at;    /* or shared */
	uint64_t yielded_at; /* or shared */
	uint64_t looked_at;  /* for bells */
	enum policy policy;
	bool worked;	  /* the last turn found something to do */
	bool leave;	  /* data went to a program on this CPU; or only a timer woke the runner */
	bool leave_later; /* ... after the next turn: struct fast has `again` */
	bool woken;	  /* bells ended the last sleep, and nothing was posted since */
	bool ticked;	  /* sched_note_tick() */
	/* ... unless sched_goes_on() */
	uint32_t num_spin; /* sessions in spin mode */
	bool no_spin;	   /* spin for nobody, whatever the sessions' modes are: conf.spin_auto */
	bool local;	   /* with limit: a client lives on this CPU */
	uint64_t limit;	   /* sched_spin_limit(); UINT64_MAX while nobody has looked */
	uint64_t wire_at;  /* when frames of another host came */
	uint64_t spin_ns;  /* conf.spin_us */

	/* ---- what is remembered: sched_note_*() write it */
	uint64_t spin_local; /* spin beside a client; halves when a spin was in vain */
	uint32_t leaves;     /* sleeps or steps aside in a row beside a client, rule 8 */
	uint64_t probed_at;
	int64_t loss_left;	     /* what yields may still lose, rules 6 and 7 ... */
	uint64_t loss_since;	     /* ... at that time */
	uint32_t idle_ticks;	     /* in a row, rule 3 */
	uint16_t far_cpu;	     /* rule 5: where bells came from that rang from afar ... */
	uint32_t wakes, far, others; /* ... of so many wake-ups; from a third CPU */
	uint64_t moved_at;
};

static inline void sched_begin(struct fast_sched *s, uint64_t now, uint64_t spin_ns)
{
	*s = (struct fast_sched){ .last_work = now,
				  .woke_at = now,
				  .spin_ns = spin_ns,
				  .spin_local = SPIN_LOCAL_NS,
				  .loss_left = LOSS_MAX,
				  .loss_since = now };
}

/* ---- after a turn: rules 1, 2, 4, 6, 7 ------------------------------------------------------- */

/* Rule 1: is it a client of this CPU, whose program waits for the runner to be gone? */
static inline bool sched_is_local(unsigned cpu, unsigned its_cpu, uint64_t now, uint64_t last_post)
{
	return its_cpu == cpu && now - last_post < LOCAL_NS;
}

/* Rule 2: has it slept, again and again, when something came for it? */
static inline bool sched_sleeps(const struct sched_patience *p)
{
	return p->asleep > p->need;
}

/* Rule 2: it got something, and an event with it or not. */
static inline void sched_note_asleep(struct sched_patience *p, bool event)
{
	if (!p->need)
		p->need = PATIENT_MIN;
	p->asleep = event ? p->asleep + (p->asleep <= p->need) : 0;
}

/* Rule 2: a patient runner has heard a bell at `now`, which rang at `at`. */
static inline void sched_note_heard(struct sched_patience *p, uint64_t at, uint64_t now)
{
	if (now - at > LATE_NS) { /* or later than now, for it is of another clock */
		p->need = p->need < PATIENT_MAX ? p->need * 2 : PATIENT_MAX;
		p->asleep = p->in_time = 0;
	} else if (++p->in_time >= p->need) {
		p->need = p->need > 2 * PATIENT_MIN ? p->need / 2 : PATIENT_MIN;
		p->in_time = 0;
	}
}

/* Rule 2: how to sleep. sleepers: all those that may ring sleep themselves while they wait. */
static inline enum policy sched_sleep_as(const struct fast_sched *s, uint64_t now, bool probe,
					 bool sleepers)
{
	if (sleepers && now - s->wire_at > WIRED_NS)
		return POL_PATIENT;
	return probe ? POL_ORDINARY : POL_URGENT;
}

/* Rule 2: has it been urgent, or on one CPU, for long enough? */
static inline bool sched_fifo_over(const struct fast_sched *s, uint64_t now)
{
	return s->policy != POL_ORDINARY && now - s->woke_at > FIFO_MAX_NS;
}

/* Rule 6: does it work on and on, as an ordinary thread? */
static inline bool sched_is_bulk(const struct fast_sched *s, uint64_t now)
{
	return s->policy == POL_ORDINARY && now - s->woke_at > FIFO_MAX_NS;
}

/* Rule 6: is a session to be told of that (again)? */
static inline bool sched_tells(uint64_t now, uint64_t told_at)
{
	return now - told_at > TELL_NS;
}

/* Is there more to do, and nobody to leave for? */
static inline bool sched_goes_on(const struct fast_sched *s)
{
	return s->worked && !s->leave;
}

/* Rule 6, at work: is it time that pollers here run, to find out that they had better not be here? */
static inline bool sched_lets_run(const struct fast_sched *s, uint64_t now)
{
	return sched_is_bulk(s, now) && now - s->yielded_at > BULK_NS;
}

/* Rule 7, not at work: are frames of another host worth to be waited for, with a yield? */
static inline bool sched_expects(const struct fast_sched *s, uint64_t now)
{
	return !s->no_spin && now - s->wire_at <= s->spin_ns;
}

/* Rules 6 and 7: what yields may lose now; a part of the time that has passed is added. */
static inline int64_t sched_loss_left(const struct fast_sched *s, uint64_t now)
{
	int64_t left = s->loss_left + (int64_t)((now - s->loss_since) / LOSS_SHARE);

	return left < (int64_t)LOSS_MAX ? left : (int64_t)LOSS_MAX;
}

/* Rule 4: there is nothing to do, and nothing else to wait with. */
static inline enum sched_step sched_spin_step(const struct fast_sched *s, uint64_t now)
{
	return now - s->last_work < s->limit ? SCHED_SPIN : SCHED_SLEEP;
}

/* The step. Work goes on but for rule 1; to share is better than to leave or to spin. */
static inline enum sched_step sched_decide(const struct fast_sched *s, uint64_t now)
{
	if (sched_goes_on(s))
		return sched_lets_run(s, now) && sched_loss_left(s, now) > 0 ? SCHED_YIELD :
									       SCHED_TURN;
	if (sched_expects(s, now) && sched_loss_left(s, now) > 0)
		return SCHED_SHARE;
	if (s->leave)
		return s->num_spin && !s->no_spin ? SCHED_ASIDE : SCHED_SLEEP;
	return sched_spin_step(s, now);
}

/* Rules 6 and 7: a yield, decided on `then`, has taken so long: if it was slow, that is a loss. */
static inline void sched_note_yield(struct fast_sched *s, uint64_t then, uint64_t took)
{
	s->loss_left = sched_loss_left(s, then) - (took > SLOW_YIELD_NS ? (int64_t)took : 0);
	s->loss_since = then;
}

/* ---- how long to spin: rule 4 --------------------------------------------------------------- */

struct sched_spin {
	uint64_t spin_ns;    /* conf.spin_us */
	uint64_t spin_local; /* fast_sched's */
	uint32_t num_spin;   /* as in fast_sched */
	bool no_spin;
	bool held; /* who has work waits for a limit, whose timer wakes the runner */
	/* of the sessions that are active, not asked for if sched_spin_is_fixed(): */
	bool wanted; /* one may be spun for: not in socket mode, its CPU time not limited */
	bool local;  /* one lives on this CPU */
};

/* Does it depend on no session? */
static inline bool sched_spin_is_fixed(const struct sched_spin *v)
{
	if (v->no_spin)
		return true;
	if (v->num_spin)
		return true;
	return v->held;
}

/* How long to spin since the last work; UINT64_MAX: for ever. */
static inline uint64_t sched_spin_limit(const struct sched_spin *v)
{
	uint64_t limit = v->wanted ? v->spin_ns : 0;

	if (sched_spin_is_fixed(v))
		return v->num_spin && !v->no_spin ? UINT64_MAX : 0;
	return v->local && v->spin_local < limit ? v->spin_local : limit;
}

/* It has spun for `limit` (0: not at all) and found nothing; it sleeps now. */
static inline void sched_note_vain(struct fast_sched *s)
{
	if (s->local && s->limit) {
		s->spin_local /= 2;
		if (s->spin_local < SPIN_LEAST_NS)
			s->spin_local = 0;
	}
	s->leaves = s->local ? s->leaves + 1 : 0;
}

/* It leaves its core to a program that got data, or to whoever is there. */
static inline void sched_note_leave(struct fast_sched *s)
{
	s->leaves++;
}

/* ---- how many postings a bell announces: rule 3 --------------------------------------------- */

/* A client since the runner slept last. */
struct sched_client {
	uint32_t coal;	   /* postings that a bell was to announce, less one */
	uint32_t burst;	   /* postings taken */
	uint32_t at_once;  /* ... at most in one turn */
	bool dialog;	   /* it answered data */
	bool own;	   /* sched_has_own() */
	bool paused;	   /* it has a pause from coalescing: sched_pause() */
	bool spun_for;	   /* it is in spin mode, and that is heeded */
	bool ticked;	   /* sched_note_tick(): all that is left are ticks */
	bool hardly_slept; /* sched_hardly_slept() */
};

/* Has it slept, but so little that bells preempt who posts? */
static inline bool sched_hardly_slept(const struct fast_sched *s, uint64_t now)
{
	uint64_t slept = s->woke_at - s->slept_at, awake = now - s->woke_at;

	return s->slept_at && (slept < SHORT_SLEEP_NS || slept < 2 * awake);
}

/* Does a client get data of its own, which it may wait for without the library? own_at 0: never. */
static inline bool sched_has_own(uint64_t now, uint64_t own_at)
{
	return own_at && now - own_at < OWN_NS;
}

/* Its next coal. */
static inline uint32_t sched_coalesce(const struct sched_client *c)
{
	if (c->dialog)
		return 0;
	if (c->ticked)
		return 0;
	if (c->paused)
		return 0;
	if (c->spun_for)
		return 0;
	if (!c->burst)
		return c->coal;
	if (c->hardly_slept && c->burst > c->coal && (c->at_once > 1 || !c->own))
		return c->coal * 2 + 1 > COAL_MAX ? COAL_MAX : c->coal * 2 + 1;
	return c->burst < (c->coal + 1) / 2 ? c->coal / 2 : c->coal;
}

/* A tick found that it waited: its pause. The last one (0: none) ended `since` ago. */
static inline uint64_t sched_pause(uint64_t last, uint64_t since)
{
	if (!last || since > last)
		return PAUSE_NS; /* it went well for longer than that */
	return last < PAUSE_MAX_NS ? last * 2 : last;
}

/* When a sleep that begins now is to end if nothing happens; `next` is the next timer's time. */
static inline uint64_t sched_alarm(uint64_t now, uint64_t next, bool coalesces)
{
	return coalesces && next > now + TICK_NS ? now + TICK_NS : next;
}

/* A sleep is over, and it was a tick that ended it, or not. Do ticks find nothing any more? */
static inline bool sched_note_tick(struct fast_sched *s, bool tick)
{
	s->idle_ticks = tick ? s->idle_ticks + 1 : 0;
	return s->idle_ticks >= IDLE_TICKS;
}

/* ---- where to run: rules 4, 5 and 8 --------------------------------------------------------- */

/* A sleep is over: did bells end it? */
static inline void sched_note_wake(struct fast_sched *s, bool rang)
{
	s->wakes += rang;
}

/* ... the bell of a client on another CPU. */
static inline void sched_note_far(struct fast_sched *s, uint16_t its_cpu, uint64_t now)
{
	if (now - s->slept_at < SPIN_LOCAL_NS + FAR_WAKE_NS)
		s->spin_local = SPIN_LOCAL_NS;
	if (!s->far)
		s->far_cpu = its_cpu;
	if (its_cpu == s->far_cpu)
		s->far++;
	else
		s->others++;
}

/* Rule 5: has it been woken often enough to know where bells come from? */
static inline bool sched_follow_due(const struct fast_sched *s)
{
	return s->wakes >= FOLLOW_WAKES;
}

/* ... then: move to far_cpu? Not if it is pinned. */
static inline bool sched_follows(const struct fast_sched *s, uint64_t now, bool pinned)
{
	return s->far >= FOLLOW_FAR && s->others <= FOLLOW_OTHERS && !pinned &&
	       s->policy != POL_ORDINARY && now - s->moved_at > FOLLOW_NS;
}

static inline void sched_note_move(struct fast_sched *s, uint64_t now)
{
	s->moved_at = now;
}

/* It has looked, and begins to count anew. */
static inline void sched_note_follow(struct fast_sched *s)
{
	s->wakes = s->far = s->others = 0;
}

/* Rule 8: has it left so often that it should see whether it must? */
static inline bool sched_probe_due(const struct fast_sched *s, uint64_t now)
{
	return s->leaves >= PROBE_LEAVES && now - s->probed_at >= PROBE_NS;
}

/* ... a client counts as one that needs a CPU. */
static inline bool sched_is_active(uint64_t now, uint64_t last_post)
{
	return now - last_post < ACTIVE_NS;
}

/* ... then: sleep as an ordinary thread, with so many clients active? */
static inline bool sched_probes(int active, int num_cpus)
{
	return active < num_cpus;
}

static inline void sched_note_probe(struct fast_sched *s, uint64_t now)
{
	s->probed_at = now;
	s->leaves = 0;
}

#endif
