/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sched.c - when the runner spins, leaves its core to a program, and sleeps.
 * Fast lock held but while asleep; the body of a runner thread (pvm.c starts and replaces them).
 *
 * The trouble is three busy threads on two cores: a program that polls its own memory never
 * enters the library, so a runner that spins on that program's core makes it wait for a scheduler
 * tick (milliseconds). The rules, each measured against its alternatives:
 *
 * 1. Leave at once. When data (not only a completion) was delivered to a session that posts from
 *    the runner's own CPU, the runner sleeps, and the program it served runs.
 * 2. Wake up hard. A runner sleeps as SCHED_FIFO, so that the doorbell's wake-up preempts the
 *    poster; awake for longer than FIFO_MAX_NS it becomes ordinary, because a FIFO thread that
 *    spins would starve everybody. Where FIFO is refused, nice -20 and then a short slice serve.
 * 3. Coalesce. A client that only streams (posts, gets no data back) would be preempted by each
 *    of its doorbells; for it the announced index moves on to 2n+1 postings, at most COAL_MAX, as
 *    long as the runner hardly gets to sleep in between: for less than SHORT_SLEEP_NS, or than
 *    twice the time that it works in (large messages, which the client copies as well). Data for
 *    it, or an answer to data, ends that; messages without data do not, they are a receiver's
 *    credits for the stream. The client announces the rest itself when it polls an empty CQ; a
 *    tick of TICK_NS, which runs only while something is coalesced, serves clients that never poll.
 *    Who writes to itself may be streaming, or wait for each message in its memory: it must have
 *    posted several at once, and when a tick finds that it waited, it has a pause from coalescing.
 * 4. Spin only where it disturbs nobody: SPIN_LOCAL_NS, halving, while a client lives on this
 *    CPU; conf.spin_us otherwise. Sessions in `socket` mode are never spun for, nor those of
 *    containers whose CPU time is limited; with a session in `spin` mode the runner never sleeps.
 *    With conf.spin_auto all this is for hosts that have a latency-sensitive container; on others
 *    all sessions are as in `socket` mode.
 *    The spin gets its full length back when a far client rings soon after the runner fell
 *    asleep: the answer that it should have waited for.
 * 5. Follow. When the bells come from one other CPU, the runner moves there: a wake-up within a
 *    CPU costs a fraction of one across.
 * 6. Tell. While it works on and on as an ordinary thread, the sessions that it serves are told
 *    its CPU, and a poller of theirs that finds nothing moves to another one (ffl/verbs/cq.c): it would
 *    get half of the core to find nothing with. Only the poller itself can do that, and it must run
 *    for it, so the runner yields every BULK_NS, as long as rule 7's loss allows it.
 * 7. Share. After frames of another host, whose next ones are to be expected soon, it does not sleep
 *    but yields, for conf.spin_us: a wake-up by the network costs more than all else, and some tens
 *    of microseconds on a virtual machine. Programs that poll their CQ yield as well, and the two
 *    take turns. What others' time slices make it lose is not to exceed 1/LOSS_SHARE of the time.
 * 8. Probe. When it only ever leaves though there are cores to spare, it sleeps once as an
 *    ordinary thread, so that the kernel may wake it on an idle core.
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
#include "ffr/fast/internal.h"
#include "ffr/lib/log.h"
#include "ffr/fast/pvm.h"

#define ACTIVE_NS      NS_PER_MS	/* a session that posted within this time is active */
#define LOCAL_NS       (10 * NS_PER_MS) /* ... and lives where it posted from, for this long */
#define SPIN_LOCAL_NS  (5 * NS_PER_US)
#define FIFO_MAX_NS    (500 * NS_PER_US)
#define TELL_NS	       (FF_BUSY_US * NS_PER_US / 2)
#define SHORT_SLEEP_NS (3 * NS_PER_US) /* a client that streams lets the runner sleep less */
#define TICK_NS	       NS_PER_MS
#define IDLE_TICKS     20		 /* ticks without work before coalescing ends */
#define OWN_NS	       (100 * NS_PER_MS) /* since data of its own came: it may wait for that */
#define PAUSE_NS       (10 * NS_PER_MS)	 /* from coalescing, when it did; then twice as long, ... */
#define PAUSE_MAX_NS   (64 * PAUSE_NS)	 /* ... at most */
#define COAL_MAX       63u
#define PROBE_LEAVES   32		/* leaves in a row before a probe */
#define PROBE_NS       (10 * NS_PER_MS) /* between probes */
#define BELL_NS	       (20 * NS_PER_US) /* awake: how often bells are looked for */
#define MAX_BELLS      64
#define FAR_WAKE_NS    (5 * NS_PER_US)	/* what a wake-up across CPUs may take */
#define FOLLOW_WAKES   16		/* wake-ups between two looks at where they come from */
#define FOLLOW_FAR     6		/* ... so many from one other CPU, */
#define FOLLOW_OTHERS  2		/* ... at most so many from a third one: move */
#define FOLLOW_NS      (10 * NS_PER_MS) /* between moves */
#define LOSS_SHARE     64
#define LOSS_MAX       (2 * NS_PER_MS)	 /* ... of the last time in all */
#define BULK_NS	       (50 * NS_PER_US)	 /* between yields while there is work */
#define SLOW_YIELD_NS  (100 * NS_PER_US) /* the other one does not yield */
#define SETTLE_NS      (2 * NS_PER_MS)	 /* between two looks at the thread's CPU time, */
#define SETTLE_SOON_NS (100 * NS_PER_US) /* ... if somebody's is limited */
#define STOLEN_NS      (500 * NS_PER_US) /* a turn that takes longer was not the runner's alone */

enum policy { POL_ORDINARY, POL_URGENT };

struct fast_sched {
	uint64_t turn_at; /* when the last turn began */
	int alarm_fd;	  /* timerfd in epoll_fd */
	uint64_t alarm_at;
	uint64_t settled_at, settled_cpu; /* cpu_settle(); the thread's CPU time then */
	bool worked;			  /* the last turn found something to do */
	uint64_t last_work, woke_at, slept_at, looked_at, probed_at;
	uint64_t spin_local; /* ns; halves when a spin was in vain */
	uint32_t leaves;     /* in a row */
	uint32_t idle_ticks;
	int num_cpus;
	enum policy policy;
	bool leave, probe, ticked;
	int64_t loss_left;   /* ns that yields may still take in vain */
	uint64_t loss_since; /* when more was last allowed */
	uint64_t yielded_at;
	bool woken;		     /* and no postings found since */
	uint16_t far_cpu;	     /* the CPU of the posters that rang from afar ... */
	uint32_t wakes, far, others; /* ... of so many wake-ups; from a third CPU */
	uint64_t moved_at;
	cpu_set_t cpus;	 /* where the runner may run */
	uint8_t refused; /* URGENT: 0 FIFO works, 1 use nice, 2 use a short slice, 3 nothing */
};

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

static void set_policy(struct fast *f, enum policy p)
{
	struct fast_sched *s = f->sched;

	if (p == s->policy || !f->conf.realtime)
		return;
	s->policy = p;
	if (p == POL_ORDINARY) {
		if (s->refused < 3)
			sched_set_attr(0, SCHED_OTHER, 0, 0, s->refused == 2 ? 100 * NS_PER_US : 0,
				       0);
		return;
	}
	if (s->refused == 0 && sched_set_attr(0, SCHED_FIFO, 0, (uint32_t)f->conf.priority, 0, 0))
		s->refused = 1;
	if (s->refused == 1 && sched_set_attr(0, SCHED_OTHER, -20, 0, 0, 0))
		s->refused = 2;
	if (s->refused == 2 && sched_set_attr(0, SCHED_OTHER, 0, 0, 100 * NS_PER_US, 0))
		s->refused = 3;
}

struct fast_sched *sched_create(struct fast *f)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	struct fast_sched *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->alarm_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (s->alarm_fd < 0 || epoll_ctl(f->epoll_fd, EPOLL_CTL_ADD, s->alarm_fd, &ev)) {
		sched_free(s);
		return NULL;
	}
	s->num_cpus = sched_getaffinity(0, sizeof(s->cpus), &s->cpus) ? 1 : CPU_COUNT(&s->cpus);
	s->spin_local = SPIN_LOCAL_NS;
	s->loss_left = LOSS_MAX;
	s->last_work = s->woke_at = s->turn_at = s->loss_since = f->now;
	return s;
}

void sched_free(struct fast_sched *s)
{
	if (s && s->alarm_fd >= 0)
		close(s->alarm_fd);
	free(s);
}

static bool is_local(const struct fast *f, const struct session *s, unsigned cpu)
{
	return s->sched.cpu == cpu && f->now - s->last_post < LOCAL_NS;
}

/* The first postings after a wake-up: who rang, from near or afar? (rules 4 and 5) */
static void woken_by(struct fast *f, const struct session *s, unsigned cpu)
{
	struct fast_sched *sc = f->sched;

	if (s->sched.cpu == cpu)
		return;
	if (f->now - sc->slept_at < SPIN_LOCAL_NS + FAR_WAKE_NS)
		sc->spin_local = SPIN_LOCAL_NS;
	if (!sc->far)
		sc->far_cpu = s->sched.cpu;
	if (s->sched.cpu == sc->far_cpu)
		sc->far++;
	else
		sc->others++;
}

/* Move to the CPU that the bells come from, if they do. */
static void follow(struct fast *f)
{
	struct fast_sched *s = f->sched;
	cpu_set_t set;

	if (s->wakes < FOLLOW_WAKES)
		return;
	if (s->far >= FOLLOW_FAR && s->others <= FOLLOW_OTHERS && f->conf.cpu < 0 &&
	    s->policy == POL_URGENT && f->now - s->moved_at > FOLLOW_NS &&
	    s->far_cpu < CPU_SETSIZE && CPU_ISSET(s->far_cpu, &s->cpus)) {
		CPU_ZERO(&set);
		CPU_SET(s->far_cpu, &set);
		if (!sched_setaffinity(0, sizeof(set), &set))
			sched_setaffinity(0, sizeof(s->cpus), &s->cpus);
		s->moved_at = f->now;
	}
	s->wakes = s->far = s->others = 0;
}

/* Account the turn's postings and deliveries; decide whether to leave the core (rules 1 and 6). */
static void account(struct fast *f)
{
	unsigned cpu = (unsigned)sched_getcpu();
	bool bulk = f->sched->policy == POL_ORDINARY && f->now - f->sched->woke_at > FIFO_MAX_NS;
	struct session *s;

	f->sched->leave = false;
	while ((s = SLIST_FIRST(&f->touched))) {
		SLIST_REMOVE_HEAD(&f->touched, sched.entry);
		s->sched.is_touched = false;
		if (s->sched.turn_posts) {
			if (f->sched->woken)
				woken_by(f, s, cpu);
			s->sched.burst += s->sched.turn_posts;
			if (s->sched.turn_posts > s->sched.at_once)
				s->sched.at_once = s->sched.turn_posts;
			s->sched.dialog |= s->sched.owed;
			s->sched.owed = false;
		}
		s->sched.owed |= s->sched.turn_data;
		if ((s->sched.turn_data || s->sched.turn_note) && is_local(f, s, cpu))
			f->sched->leave = true;
		s->sched.turn_posts = 0;
		s->sched.turn_data = s->sched.turn_note = false;
		if (bulk && f->now - s->sched.busy_told > TELL_NS) {
			s->sched.busy_told = f->now;
			atomic_store_explicit(&s->hdr->busy, ff_busy(f->now, (uint16_t)cpu),
					      memory_order_relaxed);
		}
	}
	f->sched->woken = false;
}

void sched_choose(struct fast *f)
{
	bool no_spin = f->conf.spin_auto;
	struct container *c;

	LIST_FOREACH(c, &f->first->containers, entry)
		no_spin &= !c->limits.latency || c->fast != f;
	if (f->no_spin && !no_spin)
		fast_kick(f);
	f->no_spin = no_spin;
}

/* How long to spin without work, ns (rule 4). */
static uint64_t spin_limit(struct fast *f, bool *local)
{
	unsigned cpu = (unsigned)sched_getcpu();
	uint64_t limit = 0;
	struct session *s;

	*local = false;
	if (f->no_spin)
		return 0;
	if (f->num_spin)
		return UINT64_MAX;
	/* nobody to wait for: a limit's timer wakes those that there are */
	if (f->num_throttled && !f->num_turns[TURN_NORMAL] && !f->num_turns[TURN_URGENT])
		return 0;
	TAILQ_FOREACH(s, &f->active_sessions, bells.entry) {
		if (s->cont->mode != FF_MODE_SOCKET && !cpu_limited(s->cont))
			limit = f->conf.spin_us * NS_PER_US;
		*local |= is_local(f, s, cpu);
	}
	return *local && f->sched->spin_local < limit ? f->sched->spin_local : limit;
}

/* Does it get its own data, which it may wait for without the library? */
static bool has_own(const struct fast *f, const struct session *s)
{
	return s->sched.own_at && f->now - s->sched.own_at < OWN_NS;
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
		if (!has_own(f, s) || f->now < s->sched.coal_from || !fast_was_coalesced(qp))
			continue;
		/* it went well for longer than the last pause: this one is the first */
		if (!s->sched.coal_pause || f->now - s->sched.coal_from > s->sched.coal_pause)
			s->sched.coal_pause = PAUSE_NS;
		else if (s->sched.coal_pause < PAUSE_MAX_NS)
			s->sched.coal_pause *= 2;
		s->sched.coal_from = f->now + s->sched.coal_pause;
	}
}

/* Choose for each active session how many postings one bell is to announce (rule 3). */
static void choose_coalescing(struct fast *f)
{
	struct fast_sched *sc = f->sched;
	uint64_t slept = sc->woke_at - sc->slept_at, awake = f->now - sc->woke_at;
	bool hardly_slept = sc->slept_at && (slept < SHORT_SLEEP_NS || slept < 2 * awake);
	struct session *s;

	TAILQ_FOREACH(s, &f->active_sessions, bells.entry) {
		if (s->sched.dialog || sc->ticked || f->now < s->sched.coal_from ||
		    (s->cont->mode == FF_MODE_SPIN && !f->no_spin))
			s->sched.coal = 0;
		else if (s->sched.burst) {
			if (hardly_slept && s->sched.burst > s->sched.coal &&
			    (s->sched.at_once > 1 || !has_own(f, s)))
				s->sched.coal = s->sched.coal * 2 + 1 > COAL_MAX ?
							COAL_MAX :
							s->sched.coal * 2 + 1;
			else if (s->sched.burst < (s->sched.coal + 1) / 2)
				s->sched.coal /= 2;
		}
		s->sched.dialog = false;
		s->sched.burst = s->sched.at_once = 0;
	}
}

/* Rule 8: worth a try when fewer clients are active than there are CPUs. */
static bool want_probe(struct fast *f)
{
	struct fast_sched *sc = f->sched;
	struct session *s;
	int active = 0;

	if (sc->leaves < PROBE_LEAVES || f->now - sc->probed_at < PROBE_NS)
		return false;
	TAILQ_FOREACH(s, &f->active_sessions, bells.entry)
		active += f->now - s->last_post < ACTIVE_NS;
	sc->probed_at = f->now;
	sc->leaves = 0;
	return active < sc->num_cpus;
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
	struct fast_sched *s = f->sched;
	struct itimerspec t = { .it_value = { .tv_sec = (time_t)(at / 1000000000ull),
					      .tv_nsec = (long)(at % 1000000000ull) } };

	if (at == UINT64_MAX || (s->alarm_at > s->slept_at && s->alarm_at <= at))
		return;
	timerfd_settime(s->alarm_fd, TFD_TIMER_ABSTIME, &t, NULL);
	s->alarm_at = at;
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
	f->now = f->sched->turn_at = fast_clock();
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
	set_policy(f, probe ? POL_ORDINARY : POL_URGENT);
	follow(f);
	s->ticked = false;
	if (fast_arm_all(f)) {
		s->slept_at = fast_clock();
		set_alarm(f, f->coalesces && next > s->slept_at + TICK_NS ? s->slept_at + TICK_NS :
									    next);
		wait_bells(f);
		bells = collect_bells(f);
		if (f->coalesces && !bells && f->now - s->slept_at >= TICK_NS)
			pause_coalescing(f);
		if (f->coalesces && !bells)
			s->ticked = ++s->idle_ticks >= IDLE_TICKS;
		else
			s->idle_ticks = 0;
	} else {
		f->now = fast_clock();
		s->slept_at = f->now;
	}
	fast_disarm_all(f);
	s->woke_at = s->last_work = s->looked_at = f->now;
	s->woken = bells;
	f->timer_woke = !bells;
	s->wakes += s->woken;
	/* nothing but a timer or a tick: do not spin for it, look once and sleep again */
	s->leave = !bells;
}

/* The core or the lock goes to others, whose time is not the requests'. */
static void lat_settle_now(struct fast *f)
{
	if (LIST_EMPTY(&f->lat_due))
		return;
	f->now = fast_clock();
	lat_settle_due(f);
}

/* May it yield? Others' time slices have not cost it too much lately. */
static bool may_yield(struct fast *f)
{
	struct fast_sched *s = f->sched;

	s->loss_left += (int64_t)((f->now - s->loss_since) / LOSS_SHARE);
	if (s->loss_left > (int64_t)LOSS_MAX)
		s->loss_left = LOSS_MAX;
	s->loss_since = f->now;
	return s->loss_left > 0;
}

static void charge_yield(struct fast_sched *s, uint64_t took)
{
	if (took > SLOW_YIELD_NS)
		s->loss_left -= (int64_t)took;
}

static void yield_core(struct fast *f)
{
	struct fast_sched *s = f->sched;
	uint64_t since;

	lat_settle_now(f);
	since = fast_clock();
	pthread_mutex_unlock(&f->lock);
	sched_yield();
	lock_take(f);
	f->now = s->turn_at = s->yielded_at = fast_clock();
	charge_yield(s, f->now - since);
}

/* Rule 6: programs that poll are never on this core for long, but to find that out they must run. */
static void let_pollers_run(struct fast *f)
{
	struct fast_sched *s = f->sched;

	if (s->policy == POL_ORDINARY && f->now - s->woke_at > FIFO_MAX_NS &&
	    f->now - s->yielded_at > BULK_NS && may_yield(f))
		yield_core(f);
}

/* Rule 7: is the next frame worth to be looked for? */
static bool may_share(struct fast *f)
{
	return !f->no_spin && f->now - f->wire_at <= f->conf.spin_us * NS_PER_US && may_yield(f);
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
	struct fast_sched *s = f->sched;
	uint64_t cpu;

	if (f->turn_of && s->worked)
		cpu_served(f, f->turn_of, f->now - s->turn_at);
	f->turn_of = NULL;
	if (f->now - s->turn_at > STOLEN_NS)
		f->stolen += f->now - s->turn_at;
	if (f->now - s->settled_at < (f->served_limited ? SETTLE_SOON_NS : SETTLE_NS))
		return;
	cpu = cpu_of_thread();
	cpu_settle(f, cpu - s->settled_cpu);
	s->settled_at = f->now;
	s->settled_cpu = cpu;
	rescue_look(f);
}

void sched_stay_off(struct fast *f, unsigned cpu)
{
	cpu_set_t set = f->sched->cpus;

	if (cpu < CPU_SETSIZE)
		CPU_CLR(cpu, &set);
	if (CPU_COUNT(&set))
		sched_setaffinity(0, sizeof(set), &set);
}

void sched_runner(struct fast *f)
{
	struct fast_sched *s = f->sched;
	cpu_set_t set = s->cpus;

	if (f->conf.cpu >= 0) {
		CPU_ZERO(&set);
		CPU_SET(f->conf.cpu, &set);
	}
	if (sched_setaffinity(0, sizeof(set), &set) && f->conf.cpu >= 0)
		log_warn("fast_cpu %d: %m", f->conf.cpu);
	s->policy = POL_ORDINARY;
	s->settled_cpu = cpu_of_thread(); /* another runner's was another */
	f->ticks = true;
	while (!atomic_load_explicit(&f->stop, memory_order_relaxed)) {
		uint32_t work;
		bool local;

		f->now = fast_clock();
		end_turn(f);
		s->turn_at = f->now;
		work = fast_turn(f);
		s->worked = work;
		if (f->turn_of && f->timer_woke && work)
			cpu_woken_by(f, f->turn_of);
		f->timer_woke = false;
		if (pvm_lost(f))
			return;
		if (atomic_load_explicit(&f->lock_wanted, memory_order_relaxed)) {
			lat_settle_now(f);
			/*
			 * Before it sleeps: frames may be there to send. But not if it was not taken: who
			 * wants it may be waiting for this CPU.
			 */
			if (lock_lend(f) && !work)
				continue;
		}
		if (s->policy == POL_URGENT && f->now - s->woke_at > FIFO_MAX_NS)
			set_policy(f, POL_ORDINARY);
		if (work) {
			account(f);
			s->last_work = f->now;
			if (!s->leave) {
				look_for_bells(f);
				let_pollers_run(f);
				continue;
			}
		}
		if (may_share(f)) {
			share(f);
			continue;
		}
		if (!s->leave) {
			uint64_t limit = spin_limit(f, &local);

			if (f->now - s->last_work < limit) {
				look_for_bells(f);
				__builtin_ia32_pause();
				continue;
			}
			if (local && limit) {
				s->spin_local /= 2;
				if (s->spin_local < NS_PER_US / 2)
					s->spin_local = 0;
			}
			s->leaves = local ? s->leaves + 1 : 0;
		} else {
			s->leaves++;
			if (f->num_spin &&
			    !f->no_spin) { /* never asleep, but not in the way of a program either */
				s->leave = false;
				lat_settle_now(f);
				pthread_mutex_unlock(&f->lock);
				sched_yield();
				lock_take(f);
				continue;
			}
		}
		f->now = fast_clock(); /* what was moved took its time */
		lat_settle(f);
		go_to_sleep(f);
	}
}
