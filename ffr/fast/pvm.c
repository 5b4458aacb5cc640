/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * pvm.c - copies through /proc/PID/mem, and the threads that run the fast path.
 * Called by soft/; runs fast_run() of loop.c.
 *
 * Why /proc/PID/mem and not process_vm_readv: the descriptor, which the client opened itself, is bound
 * to the address space that it had then. A process id is not: after an exec of a set-user-id program,
 * or after the id was used again, process_vm_writev by a privileged router would write into memory
 * that the client never had a right to. The price is a second copy inside the kernel.
 *
 * A call on a well-behaved process takes a fraction of a microsecond, so it is made right on the
 * runner. But a client can stall it for ever. So the fast path is a role, not a thread. There are three:
 *
 *	the runner	serves everybody. It gives up the fast lock around a call.
 *	the watcher	looks every TICK_NS (only while there are such calls) whether the runner is still
 *			in the same one. If so it takes the role over; the thread that comes back finds
 *			that it is the runner no more, leaves its result with the call and is a worker.
 *	workers		make the calls that are not for the runner.
 *
 * The runner makes a call once. What fails for now only, since the client's library has the page in a
 * window (ffl/mem/window.c, some 10 us; the kernel does not wait for a userfaultfd here but fails), goes to
 * a worker, which tries it again for pvm_patience. What is not mapped, or lacks the right, fails at
 * once: the client's own maps tell.
 *
 * The runner makes no call at all on memory of a container that has a worker, or whose calls have
 * stalled it several times lately (struct pvm_queue); and none while nobody watches it. These wait for
 * a worker. A client has one worker at most, which makes its calls in order: one that was given up and
 * is still under way ends before later ones. A container has conf.memory_workers at most, for all of
 * its clients; the first of them whatever others have, and the further ones out of SPARE_WORKERS that
 * all share. So no number of containers can keep another one from its worker, nor anybody from a
 * watcher: threads end there, when they have nothing else to do, before they end altogether.
 *
 * A call reads and writes only the buffer of its own struct pvm_call on our side; so an MR, QP or
 * session may go while the call is stuck. The call is freed by whoever is last: the caller, or, if
 * it was orphaned, the worker; one that waits is not made any more. The same goes for the client's
 * descriptors.
 */
#include "ffr/fast/pvm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ffr/abi/ff_vma.h"
#include "ffr/obj/cpu.h"
#include "ffr/fast/internal.h"
#include "ffr/lib/log.h"
#include "ffr/lib/sandbox.h"

#define TICK_NS	      NS_PER_MS
#define IDLE_TICKS    1	  /* ticks without a call before the watcher sleeps */
#define POOL_KEEP     8	  /* idle calls kept for reuse */
#define BATCH	      16u /* calls of one client that a worker makes before it takes the lock */
#define SPARE_WORKERS 64u /* of a router, beside one for each container */
#define QUEUE_BYTES   (32u << 20) /* in buffers of calls that wait for one container's memory */
/* A call that failed for now is tried again on a grid of RETRY_NS; after LATE_NS, on one of RETRY_LATE_NS. */
#define RETRY_NS      (500 * NS_PER_US)
#define RETRY_LATE_NS (10 * NS_PER_MS)
#define LATE_NS	      (4 * NS_PER_MS) /* no window is open for so long, but its thread may have no CPU */
#define RETRY_CALL_NS (20 * NS_PER_US)	/* ... and later, the more of them a container has */
#define LINGER_NS     (100 * NS_PER_MS) /* a worker without work waits for some, one of all */
#define STARTED_NS    (10 * NS_PER_MS) /* after a thread could not be started: until the next try */
#define STALLED_NS    (5 * NS_PER_MS)  /* pvm_state(): no call has ended for so long */

/* How often a container may stall the runner, each time for a tick or two. */
#define STRIKES_FREE 8u		      /* without being kept from it, */
#define CAREFUL_NS   (20 * NS_PER_MS) /* ... and the next time for so long, then twice as long, ... */
#define STRIKES_MAX  20u	      /* ... for 82 s at most */
#define FORGIVE_NS   (5000 * NS_PER_MS) /* in which one is forgotten */

TAILQ_HEAD(call_list, pvm_call);
TAILQ_HEAD(client_list, pvm_client);
TAILQ_HEAD(queue_list, pvm_queue);

/*
 * A session's address space. Outlives the session while a call is under way; then none waits, and it
 * stays with the thread that it was on.
 */
struct pvm_client {
	struct pvm_queue *q;	       /* its container's */
	struct call_list calls;	       /* for a worker, now */
	TAILQ_ENTRY(pvm_client) entry; /* q->ready, while it has calls and no worker */
	int mem_fd;		       /* /proc/self/mem and */
	int maps_fd; /* ... maps, as the client opened them. -1: the kernel cannot be asked */
	uint32_t num_calls; /* that wait or are with the worker */
	uint64_t moved_at;  /* ns: when one of them ended, or the first one came */
	bool has_worker;
	bool in_call; /* a runner's, or one that was it */
	_Atomic bool gone;
};

/* What waits for memory of one container, and how it behaves. */
struct pvm_queue {
	struct container *cont; /* NULL: gone */
	_Atomic uint32_t refs;	/* the container, clients */
	struct client_list ready;
	struct call_list soon, later; /* failed for now; about in the order in which they are due */
	uint32_t num_failed;	      /* on both */
	uint32_t waiting;	      /* calls that wait, in all: it is on pvm->queues */
	_Atomic uint32_t bytes;	      /* in buffers, also of calls that are under way */
	_Atomic uint32_t workers;
	TAILQ_ENTRY(pvm_queue) entry;
	uint32_t strikes;
	uint64_t struck_at, careful_until; /* ns */
};

struct runner {
	struct pvm_call *call;	   /* the one this thread is in; NULL: none */
	struct pvm_client *client; /* whose memory */
	bool lost, spare;	   /* has lost the role; then: is one of pvm->spare */
};

enum role { RUNNER, WATCHER, WORKER, NONE };
enum hire { HIRE_NONE, HIRE_WANTED, HIRE_STARTED };

struct pvm {
	struct fast *f;
	struct runner *runner;	   /* holds the role */
	_Atomic uint32_t call_seq; /* odd: the runner is in a call */
	_Atomic uint32_t armed;	   /* the watcher ticks; futex */
	_Atomic uint32_t cpu;	   /* where the runner's last call was */
	_Atomic uint32_t threads;  /* futex: pvm_stop waits for 0 */
	bool has_watcher;
	bool told; /* the log knows that threads cannot be started */
	/* A worker that the watcher is to start, since it takes too long for the runner. */
	_Atomic uint32_t hire;	   /* enum hire */
	struct queue_list queues;  /* that have calls for workers */
	_Atomic uint32_t work_seq; /* changes when there is work for the idle one; futex */
	bool idle;		   /* a worker waits for work */
	uint32_t spare;		   /* workers that are not the first of their containers */
	struct timer retry;	   /* of starting threads */
	struct call_list pool;
	uint32_t pooled;
};

static __thread struct runner *self;

static void *watcher_main(void *arg);
static void *worker_main(void *arg);

static long futex(_Atomic uint32_t *w, int op, uint32_t v, const struct timespec *t)
{
	return syscall(SYS_futex, w, op | FUTEX_PRIVATE_FLAG, v, t, NULL, 0);
}

/* The lock again after a call. A runner that never sleeps gives it away only if asked to. */
static void relock(struct fast *f)
{
	atomic_fetch_add(&f->lock_wanted, 1);
	lock_take(f);
	atomic_fetch_sub(&f->lock_wanted, 1);
}

/* The watcher looks. */
static void arm(struct pvm *p)
{
	if (!atomic_load_explicit(&p->armed, memory_order_relaxed)) {
		atomic_store(&p->armed, 1);
		futex(&p->armed, FUTEX_WAKE, 1, NULL);
	}
}

/* ---- one copy ------------------------------------------------------------------------------------ */

uint64_t pvm_patience = 100 * NS_PER_MS;

static ssize_t copy_some(const struct pvm_client *pc, const struct pvm_call *c)
{
	size_t left = c->len - c->done;
	off_t at = (off_t)(c->va + c->done);

	return c->dir == PVM_READ ? pread(pc->mem_fd, c->buf + c->done, left, at) :
				    pwrite(pc->mem_fd, c->buf + c->done, left, at);
}

/* May the next byte be there later on? Also if nobody can tell. */
static bool may_come(const struct pvm_client *pc, const struct pvm_call *c)
{
	uint64_t at = c->va + c->done;
	struct ff_vma v = { 0 };
	int err;

	if (pc->maps_fd < 0)
		return true;
	err = ff_vma_ask(pc->maps_fd, at, &v);
	if (err)
		return err != -ENOENT && err != -ESRCH;
	return v.start <= at && v.flags & (c->dir == PVM_READ ? FF_VMA_READ : FF_VMA_WRITE);
}

/*
 * Go on with the copy. 0; -EFAULT: it cannot be; -EAGAIN: not now. Who asks what is mapped may see a
 * mapping that is being replaced by another one as missing, for it takes no lock of the address space.
 * The copy does: after it, the other one is there.
 */
static int attempt(const struct pvm_client *pc, struct pvm_call *c)
{
	bool missing = false;

	while (c->done < c->len) {
		ssize_t n = copy_some(pc, c);

		if (n > 0) {
			c->done += (uint32_t)n;
			missing = false;
			continue;
		}
		if (n == 0) /* the address space is gone for good */
			return -EFAULT;
		if (may_come(pc, c))
			return -EAGAIN;
		if (missing)
			return -EFAULT;
		missing = true;
	}
	return 0;
}

/* In a test without threads. */
static int attempt_alone(const struct pvm_client *pc, struct pvm_call *c)
{
	const struct timespec pause = { .tv_nsec = 20 * NS_PER_US };
	uint64_t since = fast_clock();
	int result;

	while ((result = attempt(pc, c)) == -EAGAIN && fast_clock() - since < pvm_patience)
		nanosleep(&pause, NULL);
	return result == -EAGAIN ? -EFAULT : result;
}

/* ---- clients and their containers ------------------------------------------------------------------ */

static void queue_put(struct pvm_queue *q)
{
	if (atomic_fetch_sub(&q->refs, 1) == 1)
		free(q);
}

static struct pvm_queue *queue_of(struct container *c)
{
	struct pvm_queue *q = c->pvm;

	if (q)
		return q;
	q = calloc(1, sizeof(*q));
	if (!q)
		return NULL;
	q->cont = c;
	atomic_store(&q->refs, 1);
	TAILQ_INIT(&q->ready);
	TAILQ_INIT(&q->soon);
	TAILQ_INIT(&q->later);
	return c->pvm = q;
}

void pvm_container_del(struct container *c)
{
	if (!c->pvm)
		return;
	c->pvm->cont = NULL;
	queue_put(c->pvm);
	c->pvm = NULL;
}

int pvm_session_add(struct session *s, int mem, int maps)
{
	struct pvm_client *pc = calloc(1, sizeof(*pc));
	int err = -ENOMEM;

	if (!pc)
		return err;
	pc->q = queue_of(s->cont);
	if (!pc->q)
		goto err_free;
	TAILQ_INIT(&pc->calls);
	pc->mem_fd = fcntl(mem, F_DUPFD_CLOEXEC, 0);
	if (pc->mem_fd < 0) {
		err = -errno;
		goto err_free;
	}
	pc->maps_fd = maps < 0 ? -1 : fcntl(maps, F_DUPFD_CLOEXEC, 0);
	if (maps >= 0 && pc->maps_fd < 0) {
		err = -errno;
		goto err_close;
	}
	atomic_fetch_add(&pc->q->refs, 1);
	s->pvm = pc;
	return 0;

err_close:
	close(pc->mem_fd);
err_free:
	free(pc);
	return err;
}

static void client_put(struct pvm_client *pc)
{
	if (!pc->gone || pc->in_call || pc->has_worker)
		return;
	close(pc->mem_fd);
	if (pc->maps_fd >= 0)
		close(pc->maps_fd);
	queue_put(pc->q);
	free(pc);
}

enum pvm_state pvm_state(const struct session *s)
{
	const struct pvm_client *pc = s->pvm;

	if (!pc)
		return PVM_IDLE;
	if (pc->num_calls && fast_clock() - pc->moved_at > STALLED_NS)
		return PVM_STALLED;
	return pc->num_calls || pc->in_call ? PVM_CALL : PVM_IDLE;
}

/* [lock] A call on its memory has stalled the runner. */
static void strike(struct pvm_queue *q, uint64_t now)
{
	uint64_t good = (now - q->struck_at) / FORGIVE_NS;

	q->strikes = good < q->strikes ? q->strikes - (uint32_t)good : 0;
	q->struck_at = now;
	if (q->strikes < STRIKES_MAX)
		q->strikes++;
	if (q->strikes > STRIKES_FREE)
		q->careful_until = now + (CAREFUL_NS << (q->strikes - STRIKES_FREE));
}

/* [lock] Its calls have taken so many ns: of a worker's CPU, or of everybody's time. */
static void charge(struct fast *f, const struct pvm_queue *q, uint64_t ns)
{
	if (!q->cont || q->cont->fast != f)
		return; /* moved on, without a session that was stalled */
	fast_tick(f);
	cpu_worked(f, q->cont, ns);
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
	c->busy = false;
	c->orphan = false;
	c->place = PVM_NOWHERE;
	return c;
}

static void call_free(struct pvm *p, struct pvm_call *c)
{
	if (p->pooled < POOL_KEEP) {
		TAILQ_INSERT_HEAD(&p->pool, c, entry);
		p->pooled++;
		return;
	}
	free(c->buf);
	free(c);
}

/* Bytes of memory that the call keeps. */
static uint32_t call_bytes(const struct pvm_call *c)
{
	return (c->len + 4095) & ~4095u;
}

/* A worker has it from now on, or is to have it. */
static void call_begin(struct pvm_call *c)
{
	struct pvm_client *pc = c->client;

	if (!pc->num_calls++)
		pc->moved_at = fast_clock();
	atomic_fetch_add(&pc->q->bytes, call_bytes(c));
}

static void call_end(struct pvm_call *c)
{
	struct pvm_client *pc = c->client;

	pc->num_calls--;
	pc->moved_at = fast_clock();
	atomic_fetch_sub(&pc->q->bytes, call_bytes(c));
	c->busy = false;
}

/* Of those that failed; NULL: it did not. */
static struct call_list *list_of(struct pvm_queue *q, enum pvm_place place)
{
	return place == PVM_SOON ? &q->soon : place == PVM_LATER ? &q->later : NULL;
}

static void wait_begin(struct pvm *p, struct pvm_call *c, enum pvm_place place)
{
	struct pvm_client *pc = c->client;
	struct pvm_queue *q = pc->q;
	struct call_list *list = list_of(q, place);

	c->place = place;
	if (list) {
		TAILQ_INSERT_TAIL(list, c, entry);
		q->num_failed++;
	} else {
		if (TAILQ_EMPTY(&pc->calls) && !pc->has_worker)
			TAILQ_INSERT_TAIL(&q->ready, pc, entry);
		TAILQ_INSERT_TAIL(&pc->calls, c, entry);
	}
	if (!q->waiting++)
		TAILQ_INSERT_TAIL(&p->queues, q, entry);
}

static void wait_end(struct pvm *p, struct pvm_call *c)
{
	struct pvm_client *pc = c->client;
	struct pvm_queue *q = pc->q;
	struct call_list *list = list_of(q, c->place);

	if (list) {
		TAILQ_REMOVE(list, c, entry);
		q->num_failed--;
	} else {
		TAILQ_REMOVE(&pc->calls, c, entry);
		if (TAILQ_EMPTY(&pc->calls) && !pc->has_worker)
			TAILQ_REMOVE(&q->ready, pc, entry);
	}
	c->place = PVM_NOWHERE;
	if (!--q->waiting)
		TAILQ_REMOVE(&p->queues, q, entry);
}

void pvm_call_put(struct pvm *p, struct pvm_call *c)
{
	if (!c)
		return;
	if (c->busy && c->place == PVM_NOWHERE) { /* a thread is in it; it frees it */
		c->orphan = true;
		c->qp = NULL;
		return;
	}
	if (c->busy) {
		wait_end(p, c);
		call_end(c);
	}
	call_free(p, c);
}

/* [lock] The result is there: the caller's next turn finds it. */
static void finish(struct fast *f, struct pvm_call *c, int result)
{
	call_end(c);
	if (c->orphan) {
		call_free(f->pvm, c);
		return;
	}
	c->result = result;
	fast_qp_activate(f, c->qp);
	fast_kick(f);
}

/* [lock] It has been tried, with that result of attempt(). */
static void tried(struct fast *f, struct pvm_call *c, int result)
{
	struct pvm_queue *q = c->client->q;
	uint64_t now, grid;

	if (result != -EAGAIN || c->orphan || c->client->gone) {
		finish(f, c, result ? -EFAULT : 0);
		return;
	}
	now = fast_clock();
	if (!c->since)
		c->since = now;
	if (now - c->since >= pvm_patience) {
		finish(f, c, -EFAULT);
		return;
	}
	grid = now - c->since < LATE_NS ? RETRY_NS : RETRY_LATE_NS;
	c->due = (now + q->num_failed * RETRY_CALL_NS) / grid * grid + grid;
	wait_begin(f->pvm, c, grid == RETRY_NS ? PVM_SOON : PVM_LATER);
}

/* May one more thread work for it? */
static bool may_work(const struct pvm *p, const struct pvm_queue *q)
{
	const struct fast *f = p->f;
	uint32_t workers = atomic_load(&q->workers), num = f->first->num_threads;

	return !workers ||
	       (workers < f->conf.memory_workers && p->spare < (SPARE_WORKERS + num - 1) / num);
}

/* [lock] The calling thread works for that client. True: it is one of the spare ones. */
static bool work_begin(struct pvm *p, struct pvm_client *pc)
{
	bool spare = atomic_fetch_add(&pc->q->workers, 1) > 0;

	if (!TAILQ_EMPTY(&pc->calls) && !pc->has_worker)
		TAILQ_REMOVE(&pc->q->ready, pc, entry);
	pc->has_worker = true;
	p->spare += spare;
	return spare;
}

static void work_end(struct pvm *p, struct pvm_client *pc, bool spare)
{
	p->spare -= spare;
	atomic_fetch_sub(&pc->q->workers, 1);
	pc->has_worker = false;
	if (!TAILQ_EMPTY(&pc->calls))
		TAILQ_INSERT_TAIL(&pc->q->ready, pc, entry);
	client_put(pc);
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

/* [lock] For a worker. -EINPROGRESS, or -EFAULT: too many wait. */
static int hand_over(struct pvm *p, struct pvm_call *c)
{
	struct pvm_client *pc = c->client;

	if (atomic_load(&pc->q->bytes) + call_bytes(c) > QUEUE_BYTES) {
		c->ses->stats.pvm_refused++;
		c->busy = false;
		return -EFAULT;
	}
	c->busy = true;
	call_begin(c);
	wait_begin(p, c, PVM_READY);
	if (!pc->has_worker && may_work(p, pc->q))
		staff(p);
	return -EINPROGRESS;
}

/* Is the runner to make a call on that memory itself? */
static bool is_trusted(const struct pvm *p, const struct pvm_queue *q)
{
	return p->has_watcher && !atomic_load_explicit(&q->workers, memory_order_relaxed) &&
	       (!q->careful_until || fast_clock() >= q->careful_until);
}

int pvm_exec(struct fast *f, struct pvm_call *c)
{
	struct pvm *p = f->pvm;
	struct pvm_client *pc = c->ses->pvm;
	int result;

	if (!pc)
		return -EFAULT;
	c->client = pc;
	c->done = 0;
	c->since = 0;
	if (!self) /* a test without threads */
		return attempt_alone(pc, c);
	if (!is_trusted(p, pc->q))
		return hand_over(p, c);
	self->call = c;
	self->client = pc;
	c->busy = pc->in_call = true;
	atomic_store_explicit(&p->cpu, (uint32_t)sched_getcpu(), memory_order_relaxed);
	arm(p);
	atomic_fetch_add_explicit(&p->call_seq, 1, memory_order_release);
	pthread_mutex_unlock(&f->lock);
	result = attempt(pc, c);
	relock(f);
	self->call = NULL;
	pc->in_call = false;
	if (self->lost) {
		f->epoch++;
		tried(f, c, result);
		work_end(p, pc, self->spare);
		return -ECANCELED;
	}
	atomic_fetch_add_explicit(&p->call_seq, 1, memory_order_release);
	if (c->orphan) {
		c->busy = false;
		client_put(pc);
		call_free(p, c);
		return -ECANCELED;
	}
	if (result == -EAGAIN && !pc->gone) {
		c->since = fast_clock();
		c->ses->stats.pvm_stalls++;
		return hand_over(p, c);
	}
	c->busy = false;
	client_put(pc);
	return result ? -EFAULT : 0;
}

bool pvm_lost(const struct fast *f)
{
	(void)f;
	return self && self->lost;
}

static void fail_all(struct fast *f, struct call_list *list, const struct pvm_client *pc)
{
	struct pvm_call *c, *next;

	TAILQ_FOREACH_SAFE(c, list, entry, next) {
		if (c->client != pc)
			continue;
		wait_end(f->pvm, c);
		finish(f, c, -EFAULT);
	}
}

void pvm_session_del(struct fast *f, struct session *s)
{
	struct pvm_client *pc = s->pvm;

	if (!pc)
		return;
	s->pvm = NULL;
	fail_all(f, &pc->calls, pc);
	fail_all(f, &pc->q->soon, pc);
	fail_all(f, &pc->q->later, pc);
	pc->gone = true;
	client_put(pc);
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
		wait_end(p, c);
		wait_begin(p, c, PVM_READY);
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
	bool spare = work_begin(p, pc);
	uint64_t cpu, due;

	for (uint32_t n = 0; n < BATCH && (c = TAILQ_FIRST(&pc->calls)); n++) {
		wait_end(p, c);
		TAILQ_INSERT_TAIL(&batch, c, entry);
	}
	if (choose(p, fast_clock(), &due))
		staff(p);
	pthread_mutex_unlock(&f->lock);
	cpu = cpu_of_thread();
	TAILQ_FOREACH(c, &batch, entry)
		c->result = c->orphan || pc->gone ? -EFAULT : attempt(pc, c);
	cpu = cpu_of_thread() - cpu;
	relock(f);
	f->epoch++;
	charge(f, pc->q, cpu);
	while ((c = TAILQ_FIRST(&batch))) {
		TAILQ_REMOVE(&batch, c, entry);
		tried(f, c, c->result);
	}
	work_end(p, pc, spare);
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
	relock(p->f);
	p->f->epoch++;
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
	const struct backend_ops *ops = p->f->be->ops;

	old->lost = true;
	old->spare = work_begin(p, pc);
	call_begin(old->call);
	if (!old->call->orphan && ops->call_stuck)
		ops->call_stuck(p->f, old->call->qp, old->call);
	if (!pc->gone)
		old->call->ses->stats.pvm_stalls++;
	strike(pc->q, fast_clock());
	charge(p->f, pc->q, ns);
	atomic_fetch_add_explicit(&p->call_seq, 1, memory_order_release);
	p->f->epoch++;
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
		struct timespec tick = { .tv_nsec = TICK_NS };
		uint32_t seq, cpu = atomic_load_explicit(&p->cpu, memory_order_relaxed);

		/* a tick interrupts whoever is there, and the runner's clients like to be where it is */
		if (cpu != off)
			sched_stay_off(f, off = cpu);
		hire(p);
		if (!atomic_load(&p->armed)) {
			futex(&p->armed, FUTEX_WAIT, 0, NULL);
			/* the call that it was woken for has begun, as a rule */
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
				atomic_store(&p->armed, 0);
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
	relock(f);
	return NONE;
}

static void *thread_main(struct pvm *p, enum role role)
{
	struct fast *f = p->f;
	struct runner me;

	relock(f);
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

static void *runner_main(void *arg)
{
	if (sandbox_enter(SANDBOX_FAST))
		_exit(EXIT_FAILURE);
	return thread_main(arg, RUNNER);
}

/* ---- life -------------------------------------------------------------------------------------------- */

struct pvm *pvm_create(struct fast *f)
{
	struct pvm *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->f = f;
	TAILQ_INIT(&p->pool);
	TAILQ_INIT(&p->queues);
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
	atomic_fetch_add(&p->work_seq, 1);
	futex(&p->work_seq, FUTEX_WAKE, INT32_MAX, NULL);
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
