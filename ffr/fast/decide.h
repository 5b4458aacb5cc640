/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * decide.h - the runner's decisions, as functions of a few numbers: what to do after a turn, how long to spin, how many
 * postings a bell announces, whether to follow, to probe, to tell.
 *
 * sched.c finds the numbers out, calls these functions and carries the decisions out. The head of sched.c tells the
 * eight rules; each rule has its functions here. No function reads a clock, makes a system call or knows a struct fast,
 * so that tests/unit/fast/test_decide.c can ask for any moment. Any thread may call them. Times and durations are ns of
 * one clock. Only sched_note_*() change something, namely what struct fast_sched remembers.
 *
 * The runner's loop calls the functions after each turn. Therefore they are inline, read struct fast_sched in place,
 * and test adjacent bools one by one: gcc would test them all at once, and write them to memory for that.
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
 * The constants. Those in _NS are ns, the others are numbers. Each comment says what the constant is for, then what
 * gets worse if the constant is larger (+) or smaller (-).
 */

/* rule 1: how long a client lives on the CPU of a posting; + sleeps for one that moved, - blocks one that computes */
#define LOCAL_NS (10 * NS_PER_MS)
/* rule 2: time awake as SCHED_FIFO; + others on this CPU wait, - posters preempt the runner before it is done */
#define FIFO_MAX_NS (500 * NS_PER_US)
/* rule 2: a bell heard after more than this is late; + posters wait, - chance delays cause preemption */
#define LATE_NS (20 * NS_PER_US)
/* rule 2: a poster's sleeps in a row before it is waited for; + the poster is preempted, - bells are late more often */
#define PATIENT_MIN 8
/* rule 2: PATIENT_MIN grows up to this with each late bell; + the poster is preempted, - bells are late more often */
#define PATIENT_MAX 1024
/* rule 2: frames of another host are expected after the last one; + posters are preempted, - frames wait */
#define WIRED_NS (10 * NS_PER_MS)
/* rule 3: a shorter sleep counts as hardly slept; + postings wait for further ones, - streams are preempted */
#define SHORT_SLEEP_NS (3 * NS_PER_US)
/* rule 3: postings that one bell may announce beside its own; + the first of them waits, - more bells */
#define COAL_MAX 63u
/* rule 3: longest sleep with something coalesced; + a client that never polls waits, - more useless wake-ups */
#define TICK_NS NS_PER_MS
/* rule 3: useless ticks in a row that end coalescing; + more useless wake-ups, - gaps in a stream end it */
#define IDLE_TICKS 20
/* rule 3: a client that got own data may wait for more; + its streams ring bells, - the client waits for ticks */
#define OWN_NS (100 * NS_PER_MS)
/* rule 3: a client's first pause, after it did wait; + a stream rings bells, - more waits for ticks */
#define PAUSE_NS (10 * NS_PER_MS)
/* rule 3: a client's longest pause; + a stream that follows rings bells, - more waits for ticks */
#define PAUSE_MAX_NS (64 * PAUSE_NS)
/* rule 4: longest spin on the CPU of a client; + the client waits, - answers from other CPUs find the runner asleep */
#define SPIN_LOCAL_NS (5 * NS_PER_US)
/* rule 4: a halved spin below this becomes 0; + spinning ends sooner, - spins too short to find anything */
#define SPIN_LEAST_NS (NS_PER_US / 2)
/* rule 4: duration of a wake-up across CPUs; + bells that no spin would meet prolong the spin, - it stays too short */
#define FAR_WAKE_NS (5 * NS_PER_US)
/* rule 5: wake-ups between two looks at where bells come from; + the runner moves late, - it moves by chance */
#define FOLLOW_WAKES 16
/* rule 5: of FOLLOW_WAKES, those from one other CPU to move there; + bells come from afar, - it moves for few bells */
#define FOLLOW_FAR 6
/* rule 5: wake-ups from third CPUs, of FOLLOW_WAKES, that still let it move; + bells come from afar, - hardly moves */
#define FOLLOW_OTHERS 2
/* rule 5: time between two moves; + the runner moves late, - clients of two CPUs pull it back and forth */
#define FOLLOW_NS (10 * NS_PER_MS)
/* rule 6: when a session is told again; + pollers take the runner for gone (FF_BUSY_US), - cache lines move */
#define TELL_NS (FF_BUSY_US * NS_PER_US / 2)
/* rule 6: time between two yields at work; + pollers on this CPU learn of it late, - yields take time */
#define BULK_NS (50 * NS_PER_US)
/* rules 6, 7: a yield that takes longer is a loss; + stalls are not counted, - pollers' work is counted */
#define SLOW_YIELD_NS (100 * NS_PER_US)
/* rules 6, 7: losses may be 1/LOSS_SHARE of the time; + it hardly yields, - others' time slices stall it */
#define LOSS_SHARE 64
/* rules 6, 7: losses allowed at once; + a longer stall, - one time slice ends all yields */
#define LOSS_MAX (2 * NS_PER_MS)
/* rule 8: leaves in a row before a probe; + an idle core stays unused, - more slow wake-ups */
#define PROBE_LEAVES 32
/* rule 8: time between two probes; + an idle core stays unused, - more slow wake-ups */
#define PROBE_NS (10 * NS_PER_MS)
/* rule 8: a client that posted so recently needs a CPU; + fewer probes, - probes where all CPUs are needed */
#define ACTIVE_NS NS_PER_MS

enum policy {
	POL_ORDINARY,
	POL_PATIENT, /* SCHED_BATCH, on one CPU: the runner runs as soon as the thread that woke it sleeps */
	POL_URGENT /* SCHED_FIFO; nice or a short time slice where SCHED_FIFO is refused */
};

/* What the runner does after a turn, until the next. */
enum sched_step {
	SCHED_TURN,  /* there was work: the next turn at once */
	SCHED_YIELD, /* there was work: let programs on this CPU run, then the next turn (rule 6) */
	SCHED_SHARE, /* no work, but frames are due: let programs on this CPU run meanwhile (rule 7) */
	SCHED_ASIDE, /* a program on this CPU got data and runs; the runner must not sleep (rules 1, 4) */
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

/* The numbers that the runner's decisions are made from. */
struct fast_sched {
	/* ---- the state of things, which sched.c writes */
	uint64_t last_work;  /* when there was work, or a bell */
	uint64_t slept_at;   /* when the last sleep began; 0: the runner has not slept yet */
	uint64_t woke_at;    /* when the last sleep or SCHED_SHARE ended */
	uint64_t yielded_at; /* when the last SCHED_YIELD or SCHED_SHARE ended */
	uint64_t looked_at;  /* when the runner last looked for bells */
	enum policy policy;
	bool worked; /* the last turn found something to do */
	bool leave;  /* data went to a program on this CPU; or only a timer woke the runner */
	bool leave_later; /* `leave` is due after the next turn, because that turn has work (struct fast: again) */
	bool woken;  /* bells ended the last sleep, and nothing was posted since */
	bool ticked; /* the result of sched_note_tick() for the last sleep */
	/* The members from num_spin to wire_at are up to date unless sched_goes_on(). */
	uint32_t num_spin; /* sessions in spin mode */
	bool no_spin;	   /* spin for nobody, whatever the sessions' modes are: conf.spin_auto */
	bool local;	   /* as of `limit`: a client lives on this CPU */
	uint64_t limit;	   /* sched_spin_limit(); UINT64_MAX while nobody has looked */
	uint64_t wire_at;  /* when the last frames of another host came */
	uint64_t spin_ns;  /* conf.spin_us */

	/* ---- the memory of past steps, which sched_note_*() write */
	uint64_t spin_local; /* how long to spin beside a client; halves when a spin was in vain */
	uint32_t leaves;     /* rule 8: sleeps or steps aside in a row beside a client */
	uint64_t probed_at;
	int64_t loss_left;   /* rules 6 and 7: what yields might still lose at loss_since */
	uint64_t loss_since; /* the time that loss_left is of */
	uint32_t idle_ticks; /* rule 3: ticks in a row */
	uint16_t far_cpu;    /* rule 5: the first other CPU whose bells ended a sleep */
	/* rule 5: sleeps that bells ended since the last look; of these, by bells from far_cpu, and from third CPUs */
	uint32_t wakes, far, others;
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

/* Rule 1: does the client live on this CPU, so that its program waits for the runner to leave? */
static inline bool sched_is_local(unsigned cpu, unsigned its_cpu, uint64_t now, uint64_t last_post)
{
	return its_cpu == cpu && now - last_post < LOCAL_NS;
}

/* Rule 2: has the client been asleep, often enough in a row, when something came for it? */
static inline bool sched_sleeps(const struct sched_patience *p)
{
	return p->asleep > p->need;
}

/* Rule 2: something came for the client; `event`: an event told the client, which slept. */
static inline void sched_note_asleep(struct sched_patience *p, bool event)
{
	if (!p->need)
		p->need = PATIENT_MIN;
	p->asleep = event ? p->asleep + (p->asleep <= p->need) : 0;
}

/* Rule 2: a patient runner has heard a bell at `now`, which rang at `at`. */
static inline void sched_note_heard(struct sched_patience *p, uint64_t at, uint64_t now)
{
	if (now - at > LATE_NS) { /* or `at` is after now, because the client read its own clock */
		p->need = p->need < PATIENT_MAX ? p->need * 2 : PATIENT_MAX;
		p->asleep = p->in_time = 0;
	} else if (++p->in_time >= p->need) {
		p->need = p->need > 2 * PATIENT_MIN ? p->need / 2 : PATIENT_MIN;
		p->in_time = 0;
	}
}

/* Rule 2: how to sleep. sleepers: all clients that may ring sleep themselves while they wait. */
static inline enum policy sched_sleep_as(const struct fast_sched *s, uint64_t now, bool probe,
					 bool sleepers)
{
	if (sleepers && now - s->wire_at > WIRED_NS)
		return POL_PATIENT;
	return probe ? POL_ORDINARY : POL_URGENT;
}

/* Rule 2: has the runner been urgent, or on one CPU, for long enough? */
static inline bool sched_fifo_over(const struct fast_sched *s, uint64_t now)
{
	return s->policy != POL_ORDINARY && now - s->woke_at > FIFO_MAX_NS;
}

/* Rule 6: has the runner worked for long, as an ordinary thread? */
static inline bool sched_is_bulk(const struct fast_sched *s, uint64_t now)
{
	return s->policy == POL_ORDINARY && now - s->woke_at > FIFO_MAX_NS;
}

/* Rule 6: is a session to be told, or told again, that the runner works on this CPU? */
static inline bool sched_tells(uint64_t now, uint64_t told_at)
{
	return now - told_at > TELL_NS;
}

/* Is there more work, and no program to leave the CPU to? */
static inline bool sched_goes_on(const struct fast_sched *s)
{
	return s->worked && !s->leave;
}

/* Rule 6, at work: is it time to let pollers on this CPU run, so that they learn that they should leave the CPU? */
static inline bool sched_lets_run(const struct fast_sched *s, uint64_t now)
{
	return sched_is_bulk(s, now) && now - s->yielded_at > BULK_NS;
}

/* Rule 7, not at work: are frames of another host expected so soon that the runner yields instead of sleeping? */
static inline bool sched_expects(const struct fast_sched *s, uint64_t now)
{
	return !s->no_spin && now - s->wire_at <= s->spin_ns;
}

/* Rules 6 and 7: what yields may lose now: what was left, and 1/LOSS_SHARE of the time that has passed since. */
static inline int64_t sched_loss_left(const struct fast_sched *s, uint64_t now)
{
	int64_t left = s->loss_left + (int64_t)((now - s->loss_since) / LOSS_SHARE);

	return left < (int64_t)LOSS_MAX ? left : (int64_t)LOSS_MAX;
}

/* Rule 4: there is no work, and neither rule 1 nor rule 7 applies: spin, or sleep. */
static inline enum sched_step sched_spin_step(const struct fast_sched *s, uint64_t now)
{
	return now - s->last_work < s->limit ? SCHED_SPIN : SCHED_SLEEP;
}

/* The next step. Work goes on unless rule 1 says to leave; sharing is better than leaving or spinning. */
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

/* Rules 6 and 7: a yield that was decided at `then` took `took` ns; a slow one is a loss. */
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
	bool held; /* all clients with work wait for a limit; a timer wakes the runner when one may go on */
	/* About the active sessions. Not filled in if sched_spin_is_fixed(). */
	bool wanted; /* there is one to spin for: not in socket mode, its CPU time not limited */
	bool local;  /* there is one that lives on this CPU */
};

/* Is the limit of spinning the same whatever the active sessions are? */
static inline bool sched_spin_is_fixed(const struct sched_spin *v)
{
	if (v->no_spin)
		return true;
	if (v->num_spin)
		return true;
	return v->held;
}

/* How long to spin after the last work; UINT64_MAX: for ever. */
static inline uint64_t sched_spin_limit(const struct sched_spin *v)
{
	uint64_t limit = v->wanted ? v->spin_ns : 0;

	if (sched_spin_is_fixed(v))
		return v->num_spin && !v->no_spin ? UINT64_MAX : 0;
	return v->local && v->spin_local < limit ? v->spin_local : limit;
}

/* The runner has spun for `limit` (0: not at all), found nothing, and sleeps now. */
static inline void sched_note_vain(struct fast_sched *s)
{
	if (s->local && s->limit) {
		s->spin_local /= 2;
		if (s->spin_local < SPIN_LEAST_NS)
			s->spin_local = 0;
	}
	s->leaves = s->local ? s->leaves + 1 : 0;
}

/* The runner leaves its core to a program that got data, or to any other. */
static inline void sched_note_leave(struct fast_sched *s)
{
	s->leaves++;
}

/* ---- how many postings a bell announces: rule 3 --------------------------------------------- */

/* What a client did since the runner last slept. */
struct sched_client {
	uint32_t coal;	   /* postings that a bell was to announce, less one */
	uint32_t burst;	   /* postings taken since then */
	uint32_t at_once;  /* postings taken at most in one turn */
	bool dialog;	   /* the client answered data */
	bool own;	   /* sched_has_own() */
	bool paused;	   /* the client has a pause from coalescing: sched_pause() */
	bool spun_for;	   /* the client is in spin mode, and conf.spin_auto does not forbid that */
	bool ticked;	   /* sched_note_tick(): only ticks ended the last sleeps */
	bool hardly_slept; /* sched_hardly_slept() */
};

/* Has the runner slept, but so little that bells preempt the posters? */
static inline bool sched_hardly_slept(const struct fast_sched *s, uint64_t now)
{
	uint64_t slept = s->woke_at - s->slept_at, awake = now - s->woke_at;

	return s->slept_at && (slept < SHORT_SLEEP_NS || slept < 2 * awake);
}

/* Did data of the client's own WRs come to it lately? It may wait for more without the library. own_at 0: never. */
static inline bool sched_has_own(uint64_t now, uint64_t own_at)
{
	return own_at && now - own_at < OWN_NS;
}

/* How many postings one bell of the client announces from now on, less one. */
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

/* A tick found that the client waited: how long to pause coalescing. The last pause (0: none) ended `since` ago. */
static inline uint64_t sched_pause(uint64_t last, uint64_t since)
{
	if (!last || since > last)
		return PAUSE_NS; /* coalescing went well for longer than the last pause */
	return last < PAUSE_MAX_NS ? last * 2 : last;
}

/* When a sleep that begins now is to end if nothing happens; `next` is the next timer's time. */
static inline uint64_t sched_alarm(uint64_t now, uint64_t next, bool coalesces)
{
	return coalesces && next > now + TICK_NS ? now + TICK_NS : next;
}

/* A sleep is over; `tick`: a tick ended it. True: IDLE_TICKS in a row found nothing. */
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

/* The sleep was ended by the bell of a client on CPU its_cpu, which is another one. */
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

/* Rule 5: have bells woken the runner often enough to know where they come from? */
static inline bool sched_follow_due(const struct fast_sched *s)
{
	return s->wakes >= FOLLOW_WAKES;
}

/* Rule 5, when sched_follow_due(): is the runner to move to far_cpu? A pinned one is not. */
static inline bool sched_follows(const struct fast_sched *s, uint64_t now, bool pinned)
{
	return s->far >= FOLLOW_FAR && s->others <= FOLLOW_OTHERS && !pinned &&
	       s->policy != POL_ORDINARY && now - s->moved_at > FOLLOW_NS;
}

static inline void sched_note_move(struct fast_sched *s, uint64_t now)
{
	s->moved_at = now;
}

/* Rule 5: the runner has looked, and counts from 0 again. */
static inline void sched_note_follow(struct fast_sched *s)
{
	s->wakes = s->far = s->others = 0;
}

/* Rule 8: has the runner left its core so often that it should probe for an idle one? */
static inline bool sched_probe_due(const struct fast_sched *s, uint64_t now)
{
	return s->leaves >= PROBE_LEAVES && now - s->probed_at >= PROBE_NS;
}

/* Rule 8: does a client that last posted at last_post need a CPU? */
static inline bool sched_is_active(uint64_t now, uint64_t last_post)
{
	return now - last_post < ACTIVE_NS;
}

/* Rule 8, when sched_probe_due(): sleep as an ordinary thread, if `active` clients leave a CPU free? */
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
