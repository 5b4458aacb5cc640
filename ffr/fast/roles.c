/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * roles.c - the threads that run the fast path, and which of them makes a call on a client's memory (pvm.c).
 * Runs fast_run() of loop.c, which has calls made between two turns: only there is the lock given up.
 *
 * On a well-behaved process a call takes a fraction of a microsecond, so the runner makes it itself. But a
 * client can stall it for ever. So the fast path is a role, not a thread. There are three:
 *
 *	the runner	serves everybody, and makes the calls that were submitted to it.
 *	the watcher	looks every pvm_tick (only while there are such calls) whether the runner is still
 *			in the same one. If so it takes the role over; the thread that comes back finds
 *			that it is the runner no more, leaves its result with the call and is a worker.
 *	workers		make the calls that are not for the runner.
 *
 * The runner makes a call once; a worker tries again what fails for now only. The runner makes no call at
 * all on memory of a container that has a worker, or whose calls have stalled it several times lately
 * (struct pvm_queue); and none while nobody watches it. These wait for a worker.
 *
 * A client has one worker at most, which makes its calls in order: one that was given up and is still under
 * way ends before later ones. A container has conf.memory_workers at most, for all of its clients; the first
 * of them whatever others have, and the further ones out of SPARE_WORKERS that all share. So no number of
 * containers can keep another one from its worker, nor anybody from a watcher: threads end there, when they
 * have nothing else to do, before they end altogether.
 */
#include "ffr/fast/watch.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ffr/obj/cpu.h"
#include "ffr/lib/log.h"
#include "ffr/lib/sandbox.h"
#include "ffr/mem/shadow.h"

#define IDLE_TICKS    1	  /* ticks without a call before the watcher sleeps */
#define BATCH	      16u /* calls of one client that a worker makes before it takes the lock */
#define MORE_CALLS    32u /* calls between two turns after which the runner adds no follow-up calls */
#define MORE_BYTES    (64u << 10) /* bytes between two turns after which the runner adds none */
#define SPARE_WORKERS 64u	  /* of a router, beside one for each container */
#define LINGER_NS     (100 * NS_PER_MS) /* a worker without work waits for some, one of all */
#define LONG_CALL     16384u	       /* bytes; a call takes long enough to be interrupted in it */
#define STARTED_NS    (10 * NS_PER_MS) /* after a thread could not be started: until the next try */

struct runner {
	struct pvm_call *call;	   /* the one this thread is in; NULL: none */
	struct pvm_client *client; /* whose memory */
	_Atomic bool lost;	   /* it has lost the role; [lock] to set it */
	bool spare;		   /* then: is one of pvm->spare */
};

enum role { RUNNER, WATCHER, WORKER, NONE };

uint64_t pvm_tick = NS_PER_MS;

static __thread struct runner *self;

static void *watcher_main(void *arg);
static void *worker_main(void *arg);

static long futex(_Atomic uint32_t *w, int op, uint32_t v, const struct timespec *t)
{
	return syscall(SYS_futex, w, op | FUTEX_PRIVATE_FLAG, v, t, NULL, 0);
}

/* The watcher looks. */
static void arm(struct pvm *p)
{
	if (watch_arm(p))
		futex(&p->armed, FUTEX_WAKE, 1, NULL);
}

/* ---- who works for whom ---------------------------------------------------------------------------- */

/* May one more thread work for it? */
static bool may_work(const struct pvm *p, const struct pvm_queue *q)
{
	const struct fast *f = p->f;
	uint32_t workers = atomic_load(&q->workers), num = f->host->num_threads;

	return !workers ||
	       (workers < f->conf.memory_workers && p->spare < (SPARE_WORKERS + num - 1) / num);
}

/*
 * [lock] The calling thread begins to work for the client. `as` is &pc->has_worker for a worker and &pc->has_lost for
 * a runner that lost its role. Both flags can be set: a worker begins while the runner is in a call on the same memory,
 * and then the watcher takes the runner's role. No third thread begins before both have ended. Returns true if
 * the thread is a spare one.
 */
static bool work_begin(struct pvm *p, struct pvm_client *pc, bool *as)
{
	bool spare = atomic_fetch_add(&pc->q->workers, 1) > 0;

	if (!TAILQ_EMPTY(&pc->calls) && !pvm_is_worked(pc))
		TAILQ_REMOVE(&pc->q->ready, pc, entry);
	*as = true;
	p->spare += spare;
	return spare;
}

static void work_end(struct pvm *p, struct pvm_client *pc, bool spare, bool *as)
{
	p->spare -= spare;
	atomic_fetch_sub(&pc->q->workers, 1);
	*as = false;
	if (!TAILQ_EMPTY(&pc->calls) && !pvm_is_worked(pc))
		TAILQ_INSERT_TAIL(&pc->q->ready, pc, entry);
	pvm_client_put(pc);
}

static void on_retry(struct timer *t);

/* [lock] A call waits that a thread may make: have one do it. */
static void staff(struct pvm *p)
{
	struct fast *f = p->f;
	uint32_t none = HIRE_NONE;

	if (p->idle) {
		atomic_fetch_add(&p->work_seq, 1);
		futex(&p->work_seq, FUTEX_WAKE, 1, NULL);
		return;
	}
	if (atomic_compare_exchange_strong(&p->hire, &none, HIRE_WANTED) && p->has_watcher)
		arm(p);
	if (p->has_watcher || p->retry.index)
		return;
	fast_tick(f);
	p->retry.fn = on_retry;
	timer_arm(&f->timers, &p->retry, f->now + STARTED_NS);
	fast_kick(f);
}

void roles_need_worker(struct pvm *p, const struct pvm_client *pc)
{
	if (!pvm_is_worked(pc) && may_work(p, pc->q))
		staff(p);
}

void roles_hand_over(struct pvm *p, struct pvm_call *c)
{
	struct pvm_client *pc = c->client;

	pvm_call_work(c);
	pvm_enqueue(p, c, PVM_READY);
	roles_need_worker(p, pc);
}

bool roles_trust(const struct pvm *p, const struct pvm_queue *q)
{
	return !self ||
	       (p->has_watcher && !atomic_load_explicit(&q->workers, memory_order_relaxed) &&
		pvm_has_room(q, PVM_WORK, PVM_MAX) &&
		(!q->careful_until || fast_clock() >= q->careful_until));
}

/* ---- the runner's calls ---------------------------------------------------------------------------- */

/*
 * [lock] The runner has made it. The WR that it was for goes on at once, where `more` allows it: what a
 * message's last page needs is not two turns of everybody's later.
 */
static void made(struct fast *f, struct pvm_call *c, int result, bool more)
{
	struct qp *qp = c->orphan ? NULL : c->qp;

	pvm_finish(f, c, result);
	if (qp && more)
		turns_go_on(f, qp);
}

/*
 * How often this thread has slept. A call in which it did not was not stalled by the client: it was interrupted,
 * by others that want this CPU, and nothing is held against the client.
 */
static long sleeps(void)
{
	struct rusage ru;

	return getrusage(RUSAGE_THREAD, &ru) ? -1 : ru.ru_nvcsw;
}

/* [lock], given up on the way. False: the thread has lost its role in it, and is a worker. */
static bool make_one(struct fast *f, struct pvm_call *c, bool more)
{
	struct pvm *p = f->pvm;
	struct pvm_client *pc = c->client;
	long before = c->len >= LONG_CALL ? sleeps() : -1;
	bool innocent;
	int result;

	self->call = c;
	self->client = pc;
	pc->in_call = true;
	atomic_store_explicit(&p->cpu, (uint32_t)sched_getcpu(), memory_order_relaxed);
	if (watch_call(p))
		futex(&p->armed, FUTEX_WAKE, 1, NULL);
	pthread_mutex_unlock(&f->lock);
	result = pvm_attempt(pc, c);
	innocent = before >= 0 && atomic_load(&self->lost) && sleeps() == before;
	lock_again(f);
	self->call = NULL;
	pc->in_call = false;
	pc->runner_seq++;
	if (self->lost) {
		if (innocent)
			pvm_forgive(pc->q);
		pvm_tried(f, c, result);
		work_end(p, pc, self->spare, &pc->has_lost);
		return false;
	}
	atomic_fetch_add_explicit(&p->call_seq, 1, memory_order_release);
	if (result == -EAGAIN && !c->orphan && !pc->gone) {
		c->ses->stats.pvm_stalls++;
		if (pvm_has_room(pc->q, PVM_WORK, c->size)) {
			c->since = fast_clock();
			roles_hand_over(p, c);
			return true;
		}
	}
	made(f, c, result, more);
	pvm_client_put(pc);
	return true;
}

/* Is the time of a call counted, as its QP's container's? That of a turn that is its alone is already. */
static bool is_timed(const struct fast *f, const struct pvm_call *c)
{
	const struct container *cont = c->user->cont;

	return cont && cont != f->turn_of && (FF_COUNTERS || cpu_limited(cont));
}

/* [lock], given up on the way, as make_one(). */
static bool make(struct fast *f, struct pvm_call *c, bool more)
{
	struct pvm_queue *user = c->user;
	uint64_t from;
	bool mine;

	if (!is_timed(f, c))
		return make_one(f, c, more);
	from = fast_clock();
	atomic_fetch_add(&user->refs, 1); /* the container may go meanwhile */
	mine = make_one(f, c, more);
	if (mine && user->cont)
		cpu_called(f, user->cont, fast_clock() - from);
	pvm_queue_put(user);
	return mine;
}

/* [lock] Not for the runner any more. */
static void pass_on(struct fast *f, struct pvm_call *c)
{
	if (pvm_has_room(c->client->q, PVM_WORK, c->size))
		roles_hand_over(f->pvm, c);
	else
		pvm_finish(f, c, -EAGAIN);
}

uint32_t pvm_make(struct fast *f)
{
	struct pvm *p = f->pvm;
	struct pvm_queue *q, *next;
	uint32_t n, bytes = 0;
	struct pvm_call *c;

	for (n = 0; (c = TAILQ_FIRST(&p->next)); n++) {
		bool more = n < MORE_CALLS && bytes < MORE_BYTES;

		pvm_dequeue(p, c);
		bytes += c->len;
		if (!self) /* a test without threads */
			made(f, c, pvm_attempt_alone(c->client, c), more);
		else if (!roles_trust(p, c->client->q))
			pass_on(f, c);
		else if (!make(f, c, more))
			return n;
	}
	TAILQ_FOREACH_SAFE(q, &p->crowded, crowded, next)
		n += pvm_call_up(f, q);
	return n;
}

bool pvm_lost(const struct fast *f)
{
	(void)f;
	return self && self->lost;
}

/* ---- threads --------------------------------------------------------------------------------------- */

static int spawn(struct pvm *p, void *(*fn)(void *))
{
	pthread_t t;
	pthread_attr_t a;
	int err;

	pthread_attr_init(&a);
	pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
	atomic_fetch_add(&p->threads, 1);
	err = pthread_create(&t, &a, fn, p);
	pthread_attr_destroy(&a);
	if (err)
		atomic_fetch_sub(&p->threads, 1);
	return -err;
}

/* [lock] A watcher for the runner; tried again soon where there is none. */
static void need_watcher(struct pvm *p)
{
	struct fast *f = p->f;
	int err;

	if (p->has_watcher)
		return;
	err = spawn(p, watcher_main);
	if (!err) {
		p->has_watcher = true;
		p->told = false;
		if (atomic_load(&p->hire) == HIRE_WANTED)
			arm(p);
		return;
	}
	if (!p->told)
		log_warn("cannot start a standby thread: %s; trying again", strerror(-err));
	p->told = true;
	fast_tick(f);
	p->retry.fn = on_retry;
	timer_arm(&f->timers, &p->retry, f->now + STARTED_NS);
}

static void on_retry(struct timer *t)
{
	need_watcher((struct pvm *)((char *)t - offsetof(struct pvm, retry)));
}

/* Workers and watchers are ordinary threads, on any CPU, whatever they were or who started them. */
static void be_ordinary(struct fast *f)
{
	sigbus_since = NULL;
	sched_set_attr(0, SCHED_OTHER, 0, 0, 0, 0);
	sched_stay_off(f, UINT32_MAX);
}

/* Those of a list that are due now, some of them, are ready. When the next one is, ns; UINT64_MAX: none. */
static uint64_t come_due(struct pvm *p, struct call_list *list, uint64_t now)
{
	struct pvm_call *c;

	for (uint32_t n = 0; (c = TAILQ_FIRST(list)); n++) {
		if (c->due > now || n == BATCH)
			return c->due;
		pvm_dequeue(p, c);
		pvm_enqueue(p, c, PVM_READY);
	}
	return UINT64_MAX;
}

/* [lock] The next client to work for, or NULL: none until `due`, ns. */
static struct pvm_client *choose(struct pvm *p, uint64_t now, uint64_t *due)
{
	struct pvm_queue *q, *next;

	*due = UINT64_MAX;
	TAILQ_FOREACH_SAFE(q, &p->queues, entry, next) {
		uint64_t soon = come_due(p, &q->soon, now), later = come_due(p, &q->later, now);

		if (soon < *due)
			*due = soon;
		if (later < *due)
			*due = later;
	}
	TAILQ_FOREACH(q, &p->queues, entry) {
		if (TAILQ_EMPTY(&q->ready) || !may_work(p, q))
			continue;
		TAILQ_REMOVE(&p->queues, q, entry); /* the others come first the next time */
		TAILQ_INSERT_TAIL(&p->queues, q, entry);
		return TAILQ_FIRST(&q->ready);
	}
	return NULL;
}

/* [lock], given up on the way: make calls of that client. */
static void work_for(struct pvm *p, struct pvm_client *pc)
{
	struct call_list batch = TAILQ_HEAD_INITIALIZER(batch);
	struct fast *f = p->f;
	struct pvm_call *c;
	bool spare = work_begin(p, pc, &pc->has_worker);
	uint64_t cpu, due;

	for (uint32_t n = 0; n < BATCH && (c = TAILQ_FIRST(&pc->calls)); n++) {
		pvm_dequeue(p, c);
		TAILQ_INSERT_TAIL(&batch, c, entry);
	}
	if (choose(p, fast_clock(), &due))
		staff(p);
	pthread_mutex_unlock(&f->lock);
	cpu = cpu_of_thread();
	TAILQ_FOREACH(c, &batch, entry)
		c->result = c->orphan || pc->gone ? -EFAULT : pvm_attempt(pc, c);
	cpu = cpu_of_thread() - cpu;
	lock_again(f);
	pvm_charge(f, pc->q, cpu);
	while ((c = TAILQ_FIRST(&batch))) {
		TAILQ_REMOVE(&batch, c, entry);
		pvm_tried(f, c, c->result);
	}
	pc->worker_seq++;
	work_end(p, pc, spare, &pc->has_worker);
}

/* [lock], given up on the way. False: there is none, and another worker waits for it, or none comes. */
static bool wait_for_work(struct pvm *p, uint64_t due)
{
	uint64_t now = fast_clock(), ns = due == UINT64_MAX ? LINGER_NS : due > now ? due - now : 0;
	struct timespec t = { .tv_sec = (time_t)(ns / 1000000000ull),
			      .tv_nsec = (long)(ns % 1000000000ull) };
	uint32_t seq = atomic_load(&p->work_seq);

	if (p->idle) {
		if (due != UINT64_MAX)
			staff(p); /* it may be waiting for a later one */
		return false;
	}
	p->idle = true;
	pthread_mutex_unlock(&p->f->lock);
	futex(&p->work_seq, FUTEX_WAIT, seq, &t);
	lock_again(p->f);
	p->idle = false;
	return due != UINT64_MAX || atomic_load(&p->work_seq) != seq;
}

/* [lock] */
static enum role work(struct pvm *p)
{
	struct pvm_client *pc;
	uint64_t due;

	be_ordinary(p->f);
	while (!atomic_load(&p->f->stop)) {
		if (!p->has_watcher) {
			p->has_watcher = true;
			if (!TAILQ_EMPTY(&p->queues))
				staff(p);
			return WATCHER;
		}
		pc = choose(p, fast_clock(), &due);
		if (pc)
			work_for(p, pc);
		else if (!wait_for_work(p, due))
			break;
	}
	return NONE;
}

/* [lock] Run the fast path until the role is lost or the router stops. */
static enum role run(struct pvm *p, struct runner *me)
{
	*me = (struct runner){ 0 };
	self = me;
	p->runner = me;
	need_watcher(p);
	fast_run(p->f);
	if (!me->lost)
		p->runner = NULL;
	self = NULL;
	return me->lost ? WORKER : NONE;
}

/* [lock] The runner has been stuck in a call for so many ns: take its role. */
static void take_over(struct pvm *p, uint64_t ns)
{
	struct runner *old = p->runner;
	struct pvm_client *pc = old->client;

	old->lost = true;
	old->spare = work_begin(p, pc, &pc->has_lost);
	pvm_call_work(old->call);
	if (!pc->gone)
		old->call->ses->stats.pvm_stalls++;
	pvm_strike(pc->q, fast_clock());
	pvm_charge(p->f, pc->q, ns);
	atomic_fetch_add_explicit(&p->call_seq, 1, memory_order_release);
	p->has_watcher = false;
}

/* Start the worker that is wanted. */
static void hire(struct pvm *p)
{
	uint32_t wanted = HIRE_WANTED;

	if (atomic_compare_exchange_strong(&p->hire, &wanted, HIRE_STARTED) &&
	    spawn(p, worker_main))
		atomic_store(&p->hire, HIRE_WANTED); /* again with the next tick */
}

/* [lock], given up on the way */
static enum role watch(struct pvm *p)
{
	struct fast *f = p->f;
	uint32_t last = 0, idle = 0, off = UINT32_MAX;
	uint64_t seen_at = 0;

	be_ordinary(f);
	pthread_mutex_unlock(&f->lock);
	while (!atomic_load(&f->stop)) {
		struct timespec tick = { .tv_sec = (time_t)(pvm_tick / 1000000000ull),
					 .tv_nsec = (long)(pvm_tick % 1000000000ull) };
		uint32_t seq, cpu = atomic_load_explicit(&p->cpu, memory_order_relaxed);

		/* a tick interrupts whoever is there, and the runner's clients like to be where it is */
		if (cpu != off)
			sched_stay_off(f, off = cpu);
		hire(p);
		if (!atomic_load(&p->armed)) {
			futex(&p->armed, FUTEX_WAIT, 0, NULL);
			/* the call that it was woken for has begun */
			last = atomic_load_explicit(&p->call_seq, memory_order_acquire);
			seen_at = fast_clock();
			idle = 0;
			continue;
		}
		futex(&p->armed, FUTEX_WAIT, 1, &tick); /* as a sleep that pvm_stop can end */
		seq = atomic_load_explicit(&p->call_seq, memory_order_acquire);
		if (seq != last) {
			last = seq;
			seen_at = fast_clock();
			idle = 0;
			continue;
		}
		if (!(seq & 1)) {
			if (++idle >= IDLE_TICKS && atomic_load(&p->hire) != HIRE_WANTED) {
				idle = 0;
				watch_disarm(p, seq);
			}
			continue;
		}
		lock_take(f);
		if (atomic_load(&p->call_seq) == seq && !atomic_load(&f->stop)) {
			take_over(p, fast_clock() - seen_at);
			return RUNNER;
		}
		pthread_mutex_unlock(&f->lock);
	}
	lock_again(f);
	return NONE;
}

static void *thread_main(struct pvm *p, enum role role)
{
	struct fast *f = p->f;
	struct runner me;

	lock_again(f);
	if (role == WORKER)
		atomic_store(&p->hire, HIRE_NONE);
	while (role != NONE)
		role = role == RUNNER ? run(p, &me) : role == WATCHER ? watch(p) : work(p);
	pthread_mutex_unlock(&f->lock);
	/* after this p may be gone; the futex word is only woken, by its address */
	if (atomic_fetch_sub(&p->threads, 1) == 1)
		futex(&p->threads, FUTEX_WAKE, INT32_MAX, NULL);
	return NULL;
}

static void *watcher_main(void *arg)
{
	return thread_main(arg, WATCHER);
}

static void *worker_main(void *arg)
{
	return thread_main(arg, WORKER);
}

static int start(void *arg)
{
	return CARRIERS_FIRST(start, ((struct pvm *)arg)->f);
}

static void *runner_main(void *arg)
{
	struct fast *f = ((struct pvm *)arg)->f;

	f->start_err = sandbox_enter_with(SANDBOX_FAST, start, arg);
	sem_post(&f->started);
	if (f->start_err)
		return thread_main(arg, NONE);
	return thread_main(arg, RUNNER);
}

/* ---- start and stop -------------------------------------------------------------------------------- */

int pvm_start(struct pvm *p)
{
	sigset_t all, old;
	int err;

	/*
	 * Signals are the control thread's, but for faults: one that is blocked where it happens ends
	 * the process, whatever handler there is (sigbus.c).
	 */
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGSYS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = spawn(p, runner_main);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		return err;
	while (sem_wait(&p->f->started))
		;
	return p->f->start_err;
}

void pvm_stop(struct pvm *p)
{
	struct timespec t = { .tv_sec = 2 };
	uint32_t n;

	atomic_fetch_add(&p->armed, 1);
	futex(&p->armed, FUTEX_WAKE, INT32_MAX, NULL);
	atomic_fetch_add(&p->work_seq, 1);
	futex(&p->work_seq, FUTEX_WAKE, INT32_MAX, NULL);
	/* a worker that a client stalls does not end; the process does */
	while ((n = atomic_load(&p->threads)) &&
	       !(futex(&p->threads, FUTEX_WAIT, n, &t) && errno == ETIMEDOUT))
		;
}
