/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sched.c - when the runner spins, leaves its core to a program, and sleeps.
 * The body of a runner thread (roles.c starts and replaces them), which holds the fast lock except while it sleeps.
 *
 * The trouble is three busy threads on two cores: a program that polls its own memory never enters
 * the library, so a runner that spins on that program's core makes it wait for a scheduler tick
 * (milliseconds). After each turn the runner therefore takes one of the steps of enum sched_step,
 * which sched_decide() names. Here are the rules, each measured against its alternatives. The
 * functions named are those of decide.h, which only decide, or account(), set_policy() and
 * sched_choose() of this file, which find out or carry out.
 *
 * 1. Leave at once: account() and sched_is_local(); sched_decide() heeds it as `leave`. When data
 *    (not only a completion) was delivered to a session that posts from the runner's own CPU, the
 *    runner sleeps, and the program it served runs. So it does for an event to a program that sleeps on
 *    that CPU (note_event(), ffl/verbs/home.c).
 * 2. Wake up hard, but for those who are about to sleep: sched_sleep_as(), set_policy() and
 *    sched_fifo_over(). A runner sleeps as SCHED_FIFO, so that the doorbell's wake-up preempts the
 *    poster. Awake for longer than FIFO_MAX_NS it becomes ordinary, because a FIFO thread that spins
 *    would starve everybody. Where FIFO is refused, nice -20 and then a short slice serve.
 *    A poster that sleeps while it waits (ibv_get_cq_event) needs no preemption, which would cost two
 *    switches of threads more: it goes to sleep in a moment. If all who post do so
 *    (sched_sleeps()), the runner sleeps as SCHED_BATCH on the CPU that it is on, and runs when they are
 *    done. Bells then tell when they rang. A late one, whose poster went on to work or whose CPU
 *    was another program's, ends that, each time for longer (sched_note_heard()).
 * 3. Coalesce: sched_coalesce(). A client that only streams (posts, gets no data back) would be
 *    preempted by each of its doorbells. For it one bell announces twice as many postings each
 *    time, at most COAL_MAX + 1, as long as the runner hardly gets to sleep in between
 *    (sched_hardly_slept()): for less than SHORT_SLEEP_NS, or than twice the time that it works in
 *    (large messages, which the client copies as well). Data for it, or an answer to data, ends
 *    that. Messages without data do not, since they are a receiver's credits for the stream.
 *    What was not announced is served when the client polls an empty CQ, since it rings then; and
 *    for clients that never poll by a tick of TICK_NS, which runs only while something is
 *    coalesced (sched_alarm(), sched_note_tick()).
 *    Who writes to itself (sched_has_own()) may be streaming, or wait for each message in its
 *    memory. So it must have posted several at once; and when a tick finds that it waited, it has
 *    a pause from coalescing (sched_pause()).
 * 4. Spin only where it disturbs nobody: sched_spin_limit(). That is SPIN_LOCAL_NS while a client
 *    lives on this CPU, and conf.spin_us otherwise. Sessions in `socket` mode are never spun for,
 *    nor those of containers whose CPU time is limited. With a session in `spin` mode the runner
 *    never sleeps; where it would leave it yields once. With conf.spin_auto all this is for hosts
 *    that have a latency-sensitive container (sched_choose()); on others all sessions are as in
 *    `socket` mode.
 *    A spin beside a client that was in vain halves the next one (sched_note_vain()). It gets its
 *    full length back when a far client rings soon after the runner fell asleep
 *    (sched_note_far()): that was the answer that it should have waited for.
 * 5. Follow: sched_follows(). When the bells come from one other CPU, the runner moves there: a
 *    wake-up within a CPU costs a fraction of one across.
 * 6. Tell: sched_tells(). While the runner works on and on as an ordinary thread
 *    (sched_is_bulk()), the sessions that it serves are told its CPU. A poller of theirs that
 *    finds nothing moves to another CPU (ffl/verbs/cq.c), as here it would get half of the core to
 *    find nothing with. Only the poller itself can move, and must run for that, so the runner
 *    yields every BULK_NS (sched_lets_run()), as long as rule 7's loss allows it.
 * 7. Share: sched_expects(). For conf.spin_us after frames of another host, the next ones are to
 *    be expected soon, and the runner does not sleep but yields: a wake-up by the network costs
 *    more than all else, and some tens of microseconds on a virtual machine. Programs that poll
 *    their CQ yield as well, and the two take turns. Where others do not, their time slices are a
 *    loss to the runner, which is not to exceed 1/LOSS_SHARE of the time (sched_loss_left(),
 *    sched_note_yield()).
 * 8. Probe: sched_probe_due() and sched_probes(). When it only ever leaves though there are cores
 *    to spare, it sleeps once as an ordinary thread, so that the kernel may wake it on an idle
 *    core.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "ffr/obj/cpu.h"
#include "ffr/fast/decide.h"
#include "ffr/fast/internal.h"
#include "ffr/lib/log.h"
#include "ffr/fast/pvm.h"
#include "ffr/mem/shadow.h"

/* Constants that no function of decide.h uses. As in decide.h, "+" says what gets worse with a larger value, "-" with a
 * smaller one. */

/* time between two looks for bells while awake; + bells wait, - more system calls */
#define BELL_NS (20 * NS_PER_US)
/* bells that one look takes; + more stack, - the rest waits for the next look */
#define MAX_BELLS 64
/* time between two looks at the thread's CPU time; + containers pay less exactly, - more system calls */
#define SETTLE_NS (2 * NS_PER_MS)
/* SETTLE_NS while a container's CPU time is limited; + it exceeds its limit longer, - more system calls */
#define SETTLE_SOON_NS (100 * NS_PER_US)
/* a longer turn was interrupted by other threads; + stolen time is missed, - long turns count as stolen */
#define STOLEN_NS (500 * NS_PER_US)
/* time slice of a runner that may have no priority; + a woken runner waits for others, - more switches */
#define SLICE_NS (100 * NS_PER_US)

struct runner {
	struct fast_sched s; /* f->sched: the numbers that the decisions are made from */
	uint64_t turn_at;    /* when the last turn began */
	int alarm_fd;	     /* timerfd in epoll_fd */
	uint64_t alarm_at;
	uint64_t settled_at,
		settled_cpu; /* when cpu_settle() was called last; the thread's CPU time then */
	int num_cpus;
	cpu_set_t cpus;	 /* CPUs that the runner may run on */
	uint8_t refused; /* URGENT: 0 FIFO works, 1 use nice, 2 use a short slice, 3 nothing */
};

static struct runner *runner_of(const struct fast *f)
{
	return (struct runner *)f->sched;
}

struct sched_attr_ { /* uapi's struct sched_attr; not in glibc 2.36 */
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
	uint32_t util_min, util_max;
};

int sched_set_attr(pid_t tid, uint32_t policy, int nice, uint32_t prio, uint64_t slice_ns,
		   uint64_t flags)
{
	struct sched_attr_ a = { .size = sizeof(a),
				 .policy = policy,
				 .flags = flags,
				 .nice = nice,
				 .priority = prio,
				 .runtime = slice_ns };

	return syscall(SYS_sched_setattr, tid, &a, 0) ? -errno : 0;
}

/* On that CPU, or (-1) on any that it may run on. */
static void stay(struct fast *f, int cpu)
{
	cpu_set_t set = runner_of(f)->cpus;

	if (f->conf.cpu >= 0)
		cpu = f->conf.cpu;
	if (cpu >= 0) {
		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
	}
	sched_setaffinity(0, sizeof(set), &set);
}

static void set_policy(struct fast *f, enum policy p)
{
	struct runner *s = runner_of(f);

	if (p == s->s.policy || !f->conf.realtime)
		return;
	if (s->s.policy == POL_PATIENT) {
		stay(f, -1);
		sched_set_attr(0, SCHED_OTHER, 0, 0, 0, 0);
	}
	s->s.policy = p;
	if (p == POL_PATIENT) {
		stay(f, sched_getcpu());
		sched_set_attr(0, SCHED_BATCH, 0, 0, 0, 0);
		return;
	}
	if (p == POL_ORDINARY) {
		if (s->refused < 3)
			sched_set_attr(0, SCHED_OTHER, 0, 0, s->refused == 2 ? SLICE_NS : 0, 0);
		return;
	}
	if (s->refused == 0 && sched_set_attr(0, SCHED_FIFO, 0, (uint32_t)f->conf.priority, 0, 0))
		s->refused = 1;
	if (s->refused == 1 && sched_set_attr(0, SCHED_OTHER, -20, 0, 0, 0))
		s->refused = 2;
	if (s->refused == 2 && sched_set_attr(0, SCHED_OTHER, 0, 0, SLICE_NS, 0))
		s->refused = 3;
}

struct fast_sched *sched_create(struct fast *f)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	struct runner *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->alarm_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (r->alarm_fd < 0 || epoll_ctl(f->epoll_fd, EPOLL_CTL_ADD, r->alarm_fd, &ev)) {
		sched_free(&r->s);
		return NULL;
	}
	r->num_cpus = sched_getaffinity(0, sizeof(r->cpus), &r->cpus) ? 1 : CPU_COUNT(&r->cpus);
	r->turn_at = f->now;
	sched_begin(&r->s, f->now, f->conf.spin_us * NS_PER_US);
	return &r->s;
}

void sched_free(struct fast_sched *s)
{
	struct runner *r = (struct runner *)s;

	if (r && r->alarm_fd >= 0)
		close(r->alarm_fd);
	free(r);
}

static bool is_local(const struct fast *f, const struct session *s, unsigned cpu)
{
	return sched_is_local(cpu, s->sched.cpu, f->now, s->last_post);
}

/* Move to the CPU that the bells come from, if they do (rule 5). */
static void follow(struct fast *f)
{
	struct runner *r = runner_of(f);
	uint16_t to = r->s.far_cpu;

	if (!sched_follow_due(&r->s))
		return;
	if (sched_follows(&r->s, f->now, f->conf.cpu >= 0) && to < CPU_SETSIZE &&
	    CPU_ISSET(to, &r->cpus)) {
		stay(f, to);
		if (r->s.policy != POL_PATIENT)
			stay(f, -1);
		sched_note_move(&r->s, f->now);
	}
	sched_note_follow(&r->s);
}

/* A session got an event: tell it where from. Does it sleep here, so that it waits for the runner to be gone? */
static bool note_event(struct session *s, unsigned cpu)
{
	if (s->sched.home != cpu + 1) {
		s->sched.home = cpu + 1;
		atomic_store_explicit(&s->hdr->home, cpu + 1, memory_order_relaxed);
	}
	return atomic_load_explicit(&s->hdr->at_home, memory_order_relaxed) == cpu + 1;
}

/* Account the turn's postings and deliveries; decide whether to leave the core (rules 1 and 6). */
static void account(struct fast *f)
{
	struct fast_sched *sc = f->sched;
	unsigned cpu = (unsigned)sched_getcpu();
	bool bulk = sched_is_bulk(sc, f->now), leave = sc->leave_later;
	struct session *s;

	while ((s = SLIST_FIRST(&f->touched))) {
		SLIST_REMOVE_HEAD(&f->touched, sched.entry);
		s->sched.is_touched = false;
		if (s->sched.turn_posts) {
			if (sc->woken && s->sched.cpu != cpu)
				sched_note_far(sc, s->sched.cpu, f->now);
			s->sched.burst += s->sched.turn_posts;
			if (s->sched.turn_posts > s->sched.at_once)
				s->sched.at_once = s->sched.turn_posts;
			s->sched.dialog |= s->sched.owed;
			s->sched.owed = false;
		}
		if (s->sched.turn_data || s->sched.turn_note)
			sched_note_asleep(&s->sched.patience, s->sched.turn_event);
		s->sched.owed |= s->sched.turn_data;
		if ((s->sched.turn_data || s->sched.turn_note) && is_local(f, s, cpu))
			leave = true;
		if (s->sched.turn_event && note_event(s, cpu))
			leave = true;
		s->sched.turn_posts = 0;
		s->sched.turn_data = s->sched.turn_note = s->sched.turn_event = false;
		if (bulk && sched_tells(f->now, s->sched.busy_told)) {
			s->sched.busy_told = f->now;
			atomic_store_explicit(&s->hdr->busy, ff_busy(f->now, (uint16_t)cpu),
					      memory_order_relaxed);
		}
	}
	sc->leave = leave && !f->again;
	sc->leave_later = leave && f->again;
	sc->woken = false;
}

void sched_choose(struct fast *f)
{
	bool no_spin = f->conf.spin_auto;
	struct container *c;

	LIST_FOREACH(c, &f->host->containers, entry)
		no_spin &= !c->limits.latency || c->fast != f;
	if (f->no_spin && !no_spin)
		fast_kick(f);
	f->no_spin = no_spin;
}

/* How long to spin without work, ns; is a client on this CPU? (rule 4) */
static uint64_t spin_limit(struct fast *f, bool *local)
{
	struct sched_spin v = {
		.no_spin = f->no_spin,
		.num_spin = f->num_spin,
		.held = f->num_throttled && !f->num_turns[TURN_NORMAL] &&
			!f->num_turns[TURN_URGENT],
	};
	struct session *s;

	if (!sched_spin_is_fixed(&v)) {
		unsigned cpu = (unsigned)sched_getcpu();

		TAILQ_FOREACH(s, &f->active_sessions, bells.entry) {
			if (!v.wanted)
				v.wanted = s->cont->mode != FF_MODE_SOCKET && !cpu_limited(s->cont);
			if (!v.local)
				v.local = is_local(f, s, cpu);
		}
		v.spin_ns = f->conf.spin_us * NS_PER_US;
		v.spin_local = f->sched->spin_local;
	}
	*local = v.local;
	return sched_spin_limit(&v);
}

/* Nobody rang for a tick's time: who has postings that were to wait for more, and waits itself? */
static void pause_coalescing(struct fast *f)
{
	struct container *c;
	struct session *s;
	struct qp *qp;
	int k;

	FOREACH_ACTIVE_QP(f, k, c, qp) {
		s = qp->o.ses;
		if (!sched_has_own(f->now, s->sched.own_at) || f->now < s->sched.coal_from ||
		    !fast_was_coalesced(qp))
			continue;
		s->sched.coal_pause = sched_pause(s->sched.coal_pause, f->now - s->sched.coal_from);
		s->sched.coal_from = f->now + s->sched.coal_pause;
	}
}

/* Choose for each active session how many postings one bell is to announce (rule 3). */
static void choose_coalescing(struct fast *f)
{
	struct fast_sched *sc = f->sched;
	bool hardly_slept = sched_hardly_slept(sc, f->now);
	struct session *s;

	TAILQ_FOREACH(s, &f->active_sessions, bells.entry) {
		struct sched_client c = {
			.coal = s->sched.coal,
			.burst = s->sched.burst,
			.at_once = s->sched.at_once,
			.dialog = s->sched.dialog,
			.own = sched_has_own(f->now, s->sched.own_at),
			.paused = f->now < s->sched.coal_from,
			.spun_for = s->cont->mode == FF_MODE_SPIN && !f->no_spin,
			.ticked = sc->ticked,
			.hardly_slept = hardly_slept,
		};

		s->sched.coal = sched_coalesce(&c);
		s->sched.dialog = false;
		s->sched.burst = s->sched.at_once = 0;
	}
}

/* Rule 2: do all that posted lately sleep while they wait? */
static bool all_sleep(const struct fast *f)
{
	struct session *s;
	bool any = false;

	TAILQ_FOREACH(s, &f->active_sessions, bells.entry) {
		if (!sched_sleeps(&s->sched.patience))
			return false;
		any = true;
	}
	return any;
}

/* Rule 8: worth a try when fewer clients are active than there are CPUs. */
static bool want_probe(struct fast *f)
{
	struct fast_sched *sc = f->sched;
	struct session *s;
	int active = 0;

	if (!sched_probe_due(sc, f->now))
		return false;
	TAILQ_FOREACH(s, &f->active_sessions, bells.entry)
		active += sched_is_active(f->now, s->last_post);
	sched_note_probe(sc, f->now);
	return sched_probes(active, runner_of(f)->num_cpus);
}

/* Bells that rang, without waiting. */
static uint32_t collect_bells(struct fast *f)
{
	struct epoll_event ev[MAX_BELLS];

	return fast_bells(f, ev, epoll_wait(f->epoll_fd, ev, MAX_BELLS, 0));
}

/*
 * Be woken at that time, ns; some time before it will do. The alarm is not a timeout of ppoll(): that
 * would be set and taken back with each sleep, and where the hardware's timer is a hypervisor's, each
 * takes longer than all else that a sleep takes (12 us, seen in a Firecracker VM).
 */
static void set_alarm(struct fast *f, uint64_t at)
{
	struct runner *r = runner_of(f);
	struct itimerspec t = { .it_value = { .tv_sec = (time_t)(at / 1000000000ull),
					      .tv_nsec = (long)(at % 1000000000ull) } };

	if (at == UINT64_MAX || (r->alarm_at > r->s.slept_at && r->alarm_at <= at))
		return;
	timerfd_settime(r->alarm_fd, TFD_TIMER_ABSTIME, &t, NULL);
	r->alarm_at = at;
}

/*
 * Sleep, without the lock. ppoll() on the epoll descriptor and not epoll_wait(): the latter was
 * seen to sleep on with a bell written, once in some 100,000 sleeps (Linux 6.18).
 */
static void wait_bells(struct fast *f)
{
	struct pollfd p = { .fd = f->epoll_fd, .events = POLLIN };

	f->sleeping = true;
	pthread_mutex_unlock(&f->lock);
	ppoll(&p, 1, NULL, NULL);
	lock_take(f);
	f->sleeping = false;
	f->now = runner_of(f)->turn_at = fast_clock();
}

static void look_for_bells(struct fast *f)
{
	if (f->now - f->sched->looked_at < BELL_NS)
		return;
	f->sched->looked_at = f->now;
	if (collect_bells(f))
		f->sched->last_work = f->now;
}

static void go_to_sleep(struct fast *f)
{
	struct fast_sched *s = f->sched;
	uint64_t next = timer_next(&f->timers);
	bool probe = want_probe(f);
	uint32_t bells = 0;

	choose_coalescing(f);
	set_policy(f, sched_sleep_as(s, f->now, probe, all_sleep(f)));
	follow(f);
	f->timed = s->policy == POL_PATIENT;
	s->ticked = false;
	if (fast_arm_all(f)) {
		s->slept_at = fast_clock();
		set_alarm(f, sched_alarm(s->slept_at, next, f->coalesces));
		wait_bells(f);
		bells = collect_bells(f);
		if (f->coalesces && !bells && f->now - s->slept_at >= TICK_NS)
			pause_coalescing(f);
		s->ticked = sched_note_tick(s, f->coalesces && !bells);
	} else {
		f->now = fast_clock();
		s->slept_at = f->now;
	}
	fast_disarm_all(f);
	s->woke_at = s->last_work = s->looked_at = f->now;
	s->woken = bells;
	f->timer_woke = !bells;
	sched_note_wake(s, s->woken);
	/* nothing but a timer or a tick: do not spin for it, look once and sleep again */
	s->leave = !bells;
}

static void yield_core(struct fast *f)
{
	struct fast_sched *s = f->sched;
	uint64_t decided_at = f->now, since;

	lat_settle_now(f);
	since = fast_clock();
	pthread_mutex_unlock(&f->lock);
	sched_yield();
	lock_take(f);
	f->now = runner_of(f)->turn_at = s->yielded_at = fast_clock();
	sched_note_yield(s, decided_at, f->now - since);
}

/* To a program that got data, by a runner that must not sleep. */
static void step_aside(struct fast *f)
{
	f->sched->leave = false;
	lat_settle_now(f);
	pthread_mutex_unlock(&f->lock);
	sched_yield();
	lock_take(f);
}

static void share(struct fast *f)
{
	struct fast_sched *s = f->sched;

	set_policy(f, POL_ORDINARY);
	yield_core(f);
	s->woke_at = f->now;
	s->leave = false;
	look_for_bells(f);
}

/* The turn is over, at f->now. */
static void end_turn(struct fast *f)
{
	struct runner *r = runner_of(f);
	uint64_t cpu;

	if (f->turn_of && r->s.worked)
		cpu_served(f, f->turn_of, f->now - r->turn_at);
	f->turn_of = NULL;
	if (f->now - r->turn_at > STOLEN_NS)
		f->stolen += f->now - r->turn_at;
	if (f->now - r->settled_at < (f->served_limited ? SETTLE_SOON_NS : SETTLE_NS))
		return;
	cpu = cpu_of_thread();
	cpu_settle(f, cpu - r->settled_cpu);
	r->settled_at = f->now;
	r->settled_cpu = cpu;
	rescue_look(f);
}

void sched_stay_off(struct fast *f, unsigned cpu)
{
	cpu_set_t set = runner_of(f)->cpus;

	if (cpu < CPU_SETSIZE)
		CPU_CLR(cpu, &set);
	if (CPU_COUNT(&set))
		sched_setaffinity(0, sizeof(set), &set);
}

/* What the turn did. */
static void note_turn(struct fast *f)
{
	struct fast_sched *s = f->sched;

	if (sched_fifo_over(s, f->now))
		set_policy(f, POL_ORDINARY);
	if (s->worked) {
		account(f);
		s->last_work = f->now;
	}
}

/* The next step. How long it may spin takes a walk over the sessions, so that comes last. */
static enum sched_step next_step(struct fast *f)
{
	struct fast_sched *s = f->sched;
	enum sched_step step;

	if (!sched_goes_on(s)) {
		s->num_spin = f->num_spin;
		s->no_spin = f->no_spin;
		s->wire_at = f->wire_at;
		s->limit = UINT64_MAX;
	}
	step = sched_decide(s, f->now);
	if (step == SCHED_SPIN) {
		s->limit = spin_limit(f, &s->local);
		step = sched_spin_step(s, f->now);
	}
	return step;
}

static void carry_out(struct fast *f, enum sched_step step)
{
	struct fast_sched *s = f->sched;

	switch (step) {
	case SCHED_TURN:
		look_for_bells(f);
		break;
	case SCHED_YIELD:
		look_for_bells(f);
		yield_core(f);
		break;
	case SCHED_SHARE:
		share(f);
		break;
	case SCHED_ASIDE:
		sched_note_leave(s);
		step_aside(f);
		break;
	case SCHED_SPIN:
		look_for_bells(f);
		ff_relax();
		break;
	case SCHED_SLEEP:
		if (s->leave)
			sched_note_leave(s);
		else
			sched_note_vain(s);
		f->now = fast_clock(); /* what was moved took its time */
		lat_settle(f);
		go_to_sleep(f);
		break;
	case SCHED_NUM_STEPS:
		break;
	}
}

void sched_enter(struct fast *f)
{
	struct runner *r = runner_of(f);
	cpu_set_t set = r->cpus;

	if (f->conf.cpu >= 0) {
		CPU_ZERO(&set);
		CPU_SET(f->conf.cpu, &set);
	}
	if (sched_setaffinity(0, sizeof(set), &set) && f->conf.cpu >= 0)
		log_warn("fast_cpu %d: %m", f->conf.cpu);
	sigbus_since = &f->now;
	r->s.policy = POL_ORDINARY;
	r->settled_cpu = cpu_of_thread(); /* another runner's was another */
	f->ticks = true;
}

void sched_turn_begins(struct fast *f)
{
	f->now = fast_clock();
	end_turn(f);
	runner_of(f)->turn_at = f->now;
}

void sched_turn_ends(struct fast *f, uint32_t work)
{
	f->sched->worked = work;
	if (f->turn_of && f->timer_woke && work)
		cpu_woken_by(f, f->turn_of);
	f->timer_woke = false;
}

void sched_next(struct fast *f)
{
	note_turn(f);
	carry_out(f, next_step(f));
}
