/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * pvm.c - copies through /proc/PID/mem, and the threads that run the fast path.
 * Called by soft/; runs sched_runner() of fast_sched.c.
 *
 * Why /proc/PID/mem and not process_vm_readv: the descriptor, which the client opened itself, is bound
 * to the address space that it had then. A process id is not: after an exec of a set-user-id program,
 * or after the id was used again, process_vm_writev by a privileged router would write into memory
 * that the client never had a right to. The price is a second copy inside the kernel.
 *
 * A call on a well-behaved process takes a fraction of a microsecond, so it is made right on the
 * runner. But a client can stall it for ever. So the fast path is a role, not a thread: the runner
 * gives up the fast lock around the call, and a watcher looks every TICK_NS (only while such calls
 * are being made) whether the same call is still there. If so it takes the role over, and the
 * thread that comes back finds that it is the runner no more: it leaves its result with the call,
 * serves the calls on that client's memory that have queued up meanwhile, as that client's own
 * worker, and then ends. While a client has a worker, calls on its memory are queued to it and
 * nobody else waits.
 *
 * A call reads and writes only the buffer of its own struct pvm_call on our side; so an MR, QP or
 * session may go while the call is stuck. The call is freed by whoever is last: the caller, or, if
 * it was orphaned, the worker. The same goes for the client's descriptor.
 */
#include "pvm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fast_int.h"
#include "log.h"
#include "sandbox.h"

#define TICK_NS	    NS_PER_MS
#define IDLE_TICKS  1 /* ticks without a call before the watcher sleeps */
#define MAX_THREADS 256
#define POOL_KEEP   8 /* idle calls kept for reuse */

TAILQ_HEAD(call_queue, pvm_call);

/* A session's address space. Outlives the session while a call is under way. */
struct pvm_client {
	struct call_queue queue; /* for the worker */
	int fd;			 /* /proc/self/mem, as the client opened it */
	bool has_worker;	 /* its memory stalled us */
	bool in_call, gone;
};

struct runner {
	struct pvm *p;
	struct pvm_call *call;	   /* the one this thread is in; NULL: none */
	struct pvm_client *client; /* whose memory; lost: whose worker this thread is now */
	bool lost;
};

struct pvm {
	struct fast *f;
	struct runner *runner;	   /* holds the role */
	_Atomic uint32_t call_seq; /* odd: the runner is in a call */
	_Atomic uint32_t armed;	   /* the watcher ticks; futex */
	_Atomic uint32_t cpu;	   /* where the runner's last call was */
	_Atomic uint32_t threads;  /* futex: pvm_stop waits for 0 */
	bool has_watcher;
	struct call_queue pool;
	uint32_t pooled;
};

static __thread struct runner *self;

static void *watcher_main(void *arg);

static long futex(_Atomic uint32_t *w, int op, uint32_t v, const struct timespec *t)
{
	return syscall(SYS_futex, w, op | FUTEX_PRIVATE_FLAG, v, t, NULL, 0);
}

/* ---- calls --------------------------------------------------------------------------------------- */

struct pvm_call *pvm_call_get(struct pvm *p)
{
	struct pvm_call *c = TAILQ_FIRST(&p->pool);

	if (c) {
		TAILQ_REMOVE(&p->pool, c, entry);
		p->pooled--;
	} else {
		c = malloc(sizeof(*c));
		if (!c)
			return NULL;
		c->buf = malloc(PVM_MAX);
		if (!c->buf) {
			free(c);
			return NULL;
		}
	}
	c->busy = c->orphan = false;
	return c;
}

void pvm_call_put(struct pvm *p, struct pvm_call *c)
{
	if (!c)
		return;
	if (c->busy) { /* the worker has it; it frees it */
		c->orphan = true;
		c->qp = NULL;
		return;
	}
	if (p->pooled < POOL_KEEP) {
		TAILQ_INSERT_HEAD(&p->pool, c, entry);
		p->pooled++;
		return;
	}
	free(c->buf);
	free(c);
}

uint64_t pvm_patience = 100 * NS_PER_MS;

/*
 * The kernel does not wait for a userfaultfd here but fails; and the client's library has one on
 * pages that it is replacing by shadow pages (ffl/window.c), for some 10 µs at a time. So a failed
 * copy is tried again. Memory that is really gone is reported late, which hurts its owner only.
 */
static int do_call(const struct pvm_client *pc, const struct pvm_call *c)
{
	const struct timespec pause = { .tv_nsec = 20 * NS_PER_US };
	uint64_t since = 0;
	uint32_t done = 0;

	while (done < c->len) {
		ssize_t n =
			c->dir == PVM_READ ?
				pread(pc->fd, c->buf + done, c->len - done, (off_t)(c->va + done)) :
				pwrite(pc->fd, c->buf + done, c->len - done, (off_t)(c->va + done));

		if (n > 0) {
			done += (uint32_t)n;
			continue;
		}
		if (n == 0) /* the address space is gone for good */
			return -EFAULT;
		if (!since)
			since = fast_clock();
		else if (fast_clock() - since > pvm_patience)
			return -EFAULT;
		nanosleep(&pause, NULL);
	}
	return 0;
}

/* The lock again after a call. A runner that never sleeps gives it away only if asked to. */
static void relock(struct fast *f)
{
	atomic_fetch_add(&f->lock_wanted, 1);
	lock_take(f);
	atomic_fetch_sub(&f->lock_wanted, 1);
}

/* [lock] The result is there: the caller's next turn finds it. */
static void finish(struct fast *f, struct pvm_call *c, int result)
{
	c->busy = false;
	if (c->orphan) {
		pvm_call_put(f->pvm, c);
		return;
	}
	c->result = result;
	fast_qp_activate(f, c->qp);
	fast_kick(f);
}

int pvm_session_add(struct session *s, int mem)
{
	struct pvm_client *pc = calloc(1, sizeof(*pc));

	if (!pc)
		return -ENOMEM;
	TAILQ_INIT(&pc->queue);
	pc->fd = fcntl(mem, F_DUPFD_CLOEXEC, 0);
	if (pc->fd < 0) {
		int err = -errno;

		free(pc);
		return err;
	}
	s->pvm = pc;
	return 0;
}

static void client_put(struct pvm_client *pc)
{
	if (!pc->gone || pc->in_call || pc->has_worker)
		return;
	close(pc->fd);
	free(pc);
}

static void arm(struct pvm *p)
{
	if (!atomic_load_explicit(&p->armed, memory_order_relaxed)) {
		atomic_store(&p->armed, 1);
		futex(&p->armed, FUTEX_WAKE, 1, NULL);
	}
}

int pvm_exec(struct fast *f, struct pvm_call *c)
{
	struct pvm *p = f->pvm;
	struct pvm_client *pc = c->ses->pvm;
	int result;

	if (!pc)
		return -EFAULT;
	if (pc->has_worker) {
		c->busy = true;
		TAILQ_INSERT_TAIL(&pc->queue, c, entry);
		return -EINPROGRESS;
	}
	if (!self) /* a test without threads */
		return do_call(pc, c);
	self->call = c;
	self->client = pc;
	c->busy = pc->in_call = true;
	atomic_store_explicit(&p->cpu, (uint32_t)sched_getcpu(), memory_order_relaxed);
	arm(p);
	atomic_fetch_add_explicit(&p->call_seq, 1, memory_order_release);
	pthread_mutex_unlock(&f->lock);
	result = do_call(pc, c);
	relock(f);
	self->call = NULL;
	pc->in_call = false;
	if (self->lost) {
		f->epoch++;
		finish(f, c, result);
		return -ECANCELED;
	}
	atomic_fetch_add_explicit(&p->call_seq, 1, memory_order_release);
	c->busy = false;
	client_put(pc);
	if (c->orphan) {
		pvm_call_put(p, c);
		return -ECANCELED;
	}
	return result;
}

bool pvm_lost(const struct fast *f)
{
	(void)f;
	return self && self->lost;
}

enum pvm_state pvm_state(const struct session *s)
{
	const struct pvm_client *pc = s->pvm;

	if (!pc)
		return PVM_IDLE;
	return pc->has_worker ? PVM_STALLED : pc->in_call ? PVM_CALL : PVM_IDLE;
}

void pvm_session_del(struct fast *f, struct session *s)
{
	struct pvm_client *pc = s->pvm;
	struct pvm_call *c;

	if (!pc)
		return;
	s->pvm = NULL;
	while ((c = TAILQ_FIRST(&pc->queue))) {
		TAILQ_REMOVE(&pc->queue, c, entry);
		finish(f, c, -EFAULT);
	}
	pc->gone = true;
	client_put(pc);
}

/* ---- threads --------------------------------------------------------------------------------------- */

static int spawn(struct pvm *p, void *(*fn)(void *))
{
	pthread_t t;
	pthread_attr_t a;
	int err;

	if (atomic_load(&p->threads) >= MAX_THREADS)
		return -EAGAIN;
	pthread_attr_init(&a);
	pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
	atomic_fetch_add(&p->threads, 1);
	err = pthread_create(&t, &a, fn, p);
	pthread_attr_destroy(&a);
	if (err)
		atomic_fetch_sub(&p->threads, 1);
	return -err;
}

/* A watcher for when this one becomes the runner. [lock] */
static void need_watcher(struct pvm *p)
{
	if (p->has_watcher)
		return;
	p->has_watcher = true;
	if (spawn(p, watcher_main)) {
		p->has_watcher = false;
		log_warn("cannot start a standby thread: %m");
	}
}

/* [lock] Serve the calls on a client's memory until none is left. */
static void work_for(struct fast *f, struct pvm_client *pc)
{
	struct pvm_call *c;

	while ((c = TAILQ_FIRST(&pc->queue))) {
		int result;

		TAILQ_REMOVE(&pc->queue, c, entry);
		pthread_mutex_unlock(&f->lock);
		result = do_call(pc, c);
		relock(f);
		f->epoch++;
		finish(f, c, result);
	}
	pc->has_worker = false;
	client_put(pc);
}

/* Run the fast path until the role is lost or the router stops; then be the lost call's worker. */
static void run(struct pvm *p, struct runner *me)
{
	struct fast *f = p->f;

	self = me;
	p->runner = me;
	need_watcher(p);
	sched_runner(f);
	if (me->lost)
		work_for(f, me->client);
	else
		p->runner = NULL;
	self = NULL;
}

static void thread_end(struct pvm *p)
{
	/* after this p may be gone; the futex word is only woken, by its address */
	if (atomic_fetch_sub(&p->threads, 1) == 1)
		futex(&p->threads, FUTEX_WAKE, INT32_MAX, NULL);
}

/* [lock] The runner is stuck in a call: take its role. */
static void take_over(struct pvm *p)
{
	struct runner *old = p->runner;
	struct pvm_client *pc = old->client;
	const struct backend_ops *ops = p->f->be->ops;

	old->lost = true;
	pc->has_worker = true;
	if (!old->call->orphan && ops->call_stuck)
		ops->call_stuck(p->f->be, old->call->qp, old->call);
	if (!pc->gone)
		old->call->ses->stats.pvm_stalls++;
	atomic_fetch_add_explicit(&p->call_seq, 1, memory_order_release);
	p->f->epoch++;
}

static void *watcher_main(void *arg)
{
	struct pvm *p = arg;
	struct fast *f = p->f;
	struct runner me = { .p = p };
	uint32_t last = 0, idle = 0, off = UINT32_MAX;

	while (!atomic_load(&f->stop)) {
		struct timespec tick = { .tv_nsec = TICK_NS };
		uint32_t seq, cpu = atomic_load_explicit(&p->cpu, memory_order_relaxed);

		/* a tick interrupts whoever is there, and the runner's clients like to be where it is */
		if (cpu != off)
			sched_stay_off(f, off = cpu);
		if (!atomic_load(&p->armed)) {
			futex(&p->armed, FUTEX_WAIT, 0, NULL);
			continue;
		}
		futex(&p->armed, FUTEX_WAIT, 1, &tick); /* as a sleep that pvm_stop can end */
		seq = atomic_load_explicit(&p->call_seq, memory_order_acquire);
		if (seq != last) {
			last = seq;
			idle = 0;
			continue;
		}
		if (!(seq & 1)) {
			if (++idle >= IDLE_TICKS) {
				idle = 0;
				atomic_store(&p->armed, 0);
			}
			continue;
		}
		lock_take(f);
		if (atomic_load(&p->call_seq) == seq && !atomic_load(&f->stop)) {
			take_over(p);
			p->has_watcher = false;
			run(p, &me);
			pthread_mutex_unlock(&f->lock);
			thread_end(p);
			return NULL;
		}
		pthread_mutex_unlock(&f->lock);
	}
	thread_end(p);
	return NULL;
}

static void *runner_main(void *arg)
{
	struct pvm *p = arg;
	struct runner me = { .p = p };

	if (sandbox_enter(SANDBOX_FAST))
		_exit(EXIT_FAILURE);
	lock_take(p->f);
	run(p, &me);
	pthread_mutex_unlock(&p->f->lock);
	thread_end(p);
	return NULL;
}

/* ---- life -------------------------------------------------------------------------------------------- */

struct pvm *pvm_create(struct fast *f)
{
	struct pvm *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->f = f;
	TAILQ_INIT(&p->pool);
	return p;
}

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
	return err;
}

void pvm_stop(struct pvm *p)
{
	struct timespec t = { .tv_sec = 2 };
	uint32_t n;

	atomic_fetch_add(&p->armed, 1);
	futex(&p->armed, FUTEX_WAKE, INT32_MAX, NULL);
	/* a worker that a client stalls does not end; the process does */
	while ((n = atomic_load(&p->threads)) &&
	       !(futex(&p->threads, FUTEX_WAIT, n, &t) && errno == ETIMEDOUT))
		;
}

void pvm_free(struct pvm *p)
{
	struct pvm_call *c;

	if (!p || atomic_load(&p->threads))
		return;
	while ((c = TAILQ_FIRST(&p->pool))) {
		TAILQ_REMOVE(&p->pool, c, entry);
		free(c->buf);
		free(c);
	}
	free(p);
}
