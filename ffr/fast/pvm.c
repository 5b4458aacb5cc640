/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * pvm.c - copies through /proc/PID/mem: the calls, their buffers, and the requests that wait for buffers. Called by
 * soft/; roles.c has the threads that make calls.
 *
 * Why /proc/PID/mem and not process_vm_readv: the client opened the descriptor itself, and the descriptor stays bound
 * to the address space of that moment. A process id does not: after an exec of a set-user-id program, or after the id
 * was used again, process_vm_writev by a privileged router would write into memory that the client never had a right
 * to. The price is a second copy inside the kernel.
 *
 * A QP's turn submits a call. The runner makes the call between two turns, or a worker does. A call can fail for now
 * only, because the client's library has the page in a window (ffl/mem/window.c, some 10 us; /proc/PID/mem does not
 * wait for a userfaultfd but fails). A worker tries such a call again for pvm_patience. Where nothing is mapped, or the
 * right is missing, the call fails at once: the client's own maps tell which case it is.
 *
 * Buffers are few. A container has PVM_HELD bytes for its QPs' copies, as many to read ahead for sockets, and as many
 * for calls that wait for its memory. A request that finds no room waits without a buffer, in order, and begins anew
 * when pvm_call_up() tells it to (struct pvm_wait). So memory that does not answer costs the router no memory, however
 * many requests reach for it, and no request fails that would have had an answer later.
 *
 * The router reaches on-demand memory (IBV_ACCESS_ON_DEMAND) by such calls only. Each call looks at what is mapped
 * then, so an munmap() or a page-out can make nothing stale. In contrast to other memory, each call asks for the
 * process's own rights, because /proc/PID/mem also writes where the process may not.
 *
 * Tracked memory (mem/track.c) may have moved since it was registered, so each attempt asks where it is. While the
 * process changes mappings, nothing is copied, and the call is tried again like one that failed for now.
 *
 * On the router's side a call touches only the buffer of its struct pvm_call, so an MR, QP or session may go while the
 * call is stuck. The last user frees the call: the caller or, if the caller has put it, the worker. A waiting call
 * whose caller has put it is not made. The last user also closes the client's descriptors.
 */
#include "ffr/fast/pvm_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "ffr/abi/ff_vma.h"
#include "ffr/mem/track.h"

#define SMALL	  4096u /* bytes of a buffer that is enough for most calls */
#define POOL_KEEP 8u	/* idle calls kept for reuse, of each size */
/* A call that failed for now is tried again on a grid of RETRY_NS; after LATE_NS, on one of RETRY_LATE_NS. */
#define RETRY_NS      (500 * NS_PER_US)
#define RETRY_LATE_NS (10 * NS_PER_MS)
#define LATE_NS	      (4 * NS_PER_MS) /* no window is open for so long, unless its thread has no CPU */
#define RETRY_CALL_NS                                                                              \
	(20 * NS_PER_US)	   /* delay for each failed call of the container beside this one */
#define STALLED_NS (5 * NS_PER_MS) /* pvm_state(): no call has ended for so long */

/*
 * How often a container may stall the runner, each time for a tick or two of the watcher. After more than STRIKES_FREE
 * stalls the runner makes no calls on the container's memory for twice CAREFUL_NS, and twice as long after each further
 * stall, 82 s at most.
 */
#define STRIKES_FREE 8u
#define CAREFUL_NS   (20 * NS_PER_MS)
#define STRIKES_MAX  20u		/* more are not counted */
#define FORGIVE_NS   (5000 * NS_PER_MS) /* after each such time one stall is forgotten */

/* ---- one copy ------------------------------------------------------------------------------------ */

/*
 * A window is open for some 100 us, if its thread has a CPU. In a container with a limit of CPU time, or on a host with
 * ten times as many busy threads as CPUs, the thread may have none for seconds. A request that fails ends the program's
 * connection, and one that waits holds up nobody but its container, so the patience is long. Where nobody can tell
 * whether anything is mapped, a failure is usually an error, so the router gives up after pvm_patience / UNKNOWN_PART.
 * In a mapping of a file there are no windows, but there may be an end of the file: FILE_PART.
 */
uint64_t pvm_patience = 10000 * NS_PER_MS;
#define UNKNOWN_PART 5
#define FILE_PART    20

static ssize_t copy_at(const struct pvm_client *pc, struct pvm_call *c, enum pvm_dir dir,
		       uint64_t at, size_t n)
{
	c->at = at;
	return dir == PVM_READ ? pread(pc->mem_fd, c->buf + c->done, n, (off_t)at) :
				 pwrite(pc->mem_fd, c->buf + c->done, n, (off_t)at);
}

/* The number of bytes copied; 0: the address space is gone; -EAGAIN: not now; -EFAULT: nothing is mapped there. */
static ssize_t copy_some(const struct pvm_client *pc, struct pvm_call *c, enum pvm_dir dir)
{
	uint64_t at = c->va + c->done, n = c->len - c->done;
	ssize_t ret;

	if (!c->tracked) {
		ret = copy_at(pc, c, dir, at, n);
		return ret < 0 ? -EFAULT : ret;
	}
	n = track_begin(c->tracked, at, n, &at);
	if (!n)
		return -EAGAIN;
	if (at != TRACK_GONE) {
		ret = copy_at(pc, c, dir, at, n);
		if ((ret < 0 || dir == PVM_READ) && !track_is_same(c->tracked))
			ret = -EAGAIN;
		else if (ret < 0)
			ret = -EFAULT;
	} else {
		if (dir == PVM_READ)
			memset(c->buf + c->done, 0, n);
		ret = (ssize_t)n;
	}
	track_end(c->tracked);
	return ret;
}

/* May the next byte be there later? True also if nobody can tell what is mapped. */
static bool may_come(const struct pvm_client *pc, struct pvm_call *c, enum pvm_dir dir)
{
	struct ff_vma v = { 0 };
	int err = pc->maps_fd < 0 ? -EOPNOTSUPP : ff_vma_ask(pc->maps_fd, c->at, &v);

	c->part = err ? UNKNOWN_PART : v.inode ? FILE_PART : 1;
	if (err)
		return err != -ENOENT && err != -ESRCH;
	return v.start <= c->at && v.flags & (dir == PVM_READ ? FF_VMA_READ : FF_VMA_WRITE);
}

/*
 * ff_vma_ask() takes no lock of the address space, so it may see a mapping that is being replaced as missing. The copy
 * takes that lock, so after the copy the new mapping is there. Therefore copy() asks twice before it gives up.
 */
static int copy(const struct pvm_client *pc, struct pvm_call *c, enum pvm_dir dir)
{
	bool missing = false;

	while (c->done < c->len) {
		ssize_t n = copy_some(pc, c, dir);

		if (n > 0) {
			c->done += (uint32_t)n;
			missing = false;
			continue;
		}
		if (n == 0) /* the address space is gone for good */
			return -ESRCH;
		if (n == -EAGAIN)
			return -EAGAIN;
		if (may_come(pc, c, dir))
			return -EAGAIN;
		if (missing)
			return -EFAULT;
		missing = true;
	}
	return 0;
}

static int read_word(const struct pvm_client *pc, struct pvm_call *c, uint64_t *to)
{
	int err;

	c->done = 0;
	err = copy(pc, c, PVM_READ);
	if (!err)
		memcpy(to, c->buf, sizeof(*to));
	return err;
}

static int write_word(const struct pvm_client *pc, struct pvm_call *c)
{
	uint64_t new = pvm_word_new(&c->word, c->word.old);

	memcpy(c->buf, &new, sizeof(new));
	c->done = 0;
	return copy(pc, c, PVM_WRITE);
}

/* Change all of the word. After -EAGAIN the next try reads the word anew. */
static int change_word(const struct pvm_client *pc, struct pvm_call *c)
{
	struct pvm_word *w = &c->word;
	int err;

	switch (w->step) {
	case WORD_LOOK:
		return read_word(pc, c, &w->old);
	case WORD_SETTLE:
		return read_word(pc, c, &w->now);
	case WORD_CHANGE:
		err = read_word(pc, c, &w->now);
		return err || w->now != w->old ? err : write_word(pc, c);
	default:
		err = w->op == FF_OP_ATOMIC_WRITE ? 0 : read_word(pc, c, &w->old);
		return err ? err : write_word(pc, c);
	}
}

/* May the process do that where memory is mapped? The copy finds out what is not mapped. */
static bool is_allowed(const struct pvm_client *pc, const struct pvm_call *c)
{
	uint32_t need = c->dir == PVM_READ  ? FF_VMA_READ :
			c->dir == PVM_WRITE ? FF_VMA_WRITE :
					      FF_VMA_READ | FF_VMA_WRITE;
	uint64_t at = c->va + c->done, end = c->va + c->len;
	struct ff_vma v = { 0 };

	for (; pc->maps_fd >= 0 && at < end && !ff_vma_ask(pc->maps_fd, at, &v) && v.start <= at;
	     at = v.end)
		if ((v.flags & need) != need)
			return false;
	return true;
}

/* The page faults of this thread since it began. */
static uint64_t faults(void)
{
	struct rusage ru;

	return getrusage(RUSAGE_THREAD, &ru) ? 0 : (uint64_t)(ru.ru_minflt + ru.ru_majflt);
}

static int attempt(const struct pvm_client *pc, struct pvm_call *c)
{
	return c->dir == PVM_ATOMIC ? change_word(pc, c) : copy(pc, c, c->dir);
}

int pvm_attempt(const struct pvm_client *pc, struct pvm_call *c)
{
	uint64_t before, from;
	int err;

	if (!c->odp)
		return attempt(pc, c);
	if (!is_allowed(pc, c))
		return -EFAULT;
	from = fast_clock();
	before = faults();
	err = attempt(pc, c);
	before = faults() - before;
	if (before) {
		c->faults += (uint32_t)before;
		c->fault_ns += fast_clock() - from;
	}
	return err;
}

int pvm_attempt_alone(const struct pvm_client *pc, struct pvm_call *c)
{
	const struct timespec pause = { .tv_nsec = 20 * NS_PER_US };
	uint64_t since = fast_clock();
	int result;

	while ((result = pvm_attempt(pc, c)) == -EAGAIN && fast_clock() - since < pvm_patience)
		nanosleep(&pause, NULL);
	return result == -EAGAIN ? -EFAULT : result;
}

/* ---- waiting for room ------------------------------------------------------------------------------ */

/* Take the queue off p->crowded: no request waits any more, or the container leaves. */
static void calm(struct pvm *p, struct pvm_queue *q)
{
	if (!q->is_crowded)
		return;
	q->is_crowded = false;
	TAILQ_REMOVE(&p->crowded, q, crowded);
}

void pvm_wait_end(struct pvm_wait *w)
{
	w->called = false;
	if (!w->q)
		return;
	TAILQ_REMOVE(&w->q->waits[w->use], w, entry);
	w->q = NULL;
}

/* Has w to wait for `size` bytes of room in that use? If so, w waits from now on, in order. */
static bool must_wait(struct pvm *p, struct pvm_queue *q, enum pvm_use use, uint32_t size,
		      struct qp *qp, struct pvm_wait *w)
{
	bool called = w->called;

	if (w->q)
		return true;
	/* a request called for PVM_WORK needs its place while it gets PVM_COPY room */
	if (w->use == use)
		w->called = false;
	if ((called || TAILQ_EMPTY(&q->waits[use])) && pvm_has_room(q, use, size))
		return false;
	*w = (struct pvm_wait){ .q = q, .qp = qp, .use = use, .size = size };
	if (called)
		TAILQ_INSERT_HEAD(&q->waits[use], w, entry);
	else
		TAILQ_INSERT_TAIL(&q->waits[use], w, entry);
	if (!q->is_crowded)
		TAILQ_INSERT_TAIL(&p->crowded, q, crowded);
	q->is_crowded = true;
	return true;
}

bool pvm_waits_shortly(const struct pvm_wait *w)
{
	return w->q && w->use != PVM_WORK && w->q->num_next;
}

uint32_t pvm_call_up(struct fast *f, struct pvm_queue *q)
{
	uint32_t n = 0, room;
	struct pvm_wait *w;
	bool left = false;

	for (int use = 0; use < PVM_NUM_USES; use++) {
		room = q->held[use] < PVM_HELD ? PVM_HELD - q->held[use] : 0;
		while ((w = TAILQ_FIRST(&q->waits[use])) && w->size <= room) {
			room -= w->size;
			pvm_wait_end(w);
			w->called = true;
			fast_qp_activate(f, w->qp);
			n++;
		}
		left |= w != NULL;
	}
	if (!left)
		calm(f->pvm, q);
	return n;
}

/* ---- clients and their containers ------------------------------------------------------------------ */

void pvm_queue_put(struct pvm_queue *q)
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
	for (int use = 0; use < PVM_NUM_USES; use++)
		TAILQ_INIT(&q->waits[use]);
	return c->pvm = q;
}

void pvm_container_leaves(struct container *c)
{
	struct pvm_wait *w;

	for (int use = 0; c->pvm && use < PVM_NUM_USES; use++)
		while ((w = TAILQ_FIRST(&c->pvm->waits[use]))) {
			pvm_wait_end(w);
			fast_qp_activate(c->fast, w->qp);
		}
	if (c->pvm)
		calm(c->fast->pvm, c->pvm);
}

void pvm_container_del(struct container *c)
{
	if (!c->pvm)
		return;
	pvm_container_leaves(c);
	c->pvm->cont = NULL;
	pvm_queue_put(c->pvm);
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
	TAILQ_INIT(&pc->turn);
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

int pvm_mem_fd(const struct session *s)
{
	return s->pvm->mem_fd;
}

void pvm_client_put(struct pvm_client *pc)
{
	if (!pc->gone || pc->in_call || pvm_is_worked(pc))
		return;
	close(pc->mem_fd);
	if (pc->maps_fd >= 0)
		close(pc->maps_fd);
	pvm_queue_put(pc->q);
	free(pc);
}

enum pvm_state pvm_state(const struct session *s)
{
	const struct pvm_client *pc = s->pvm;

	if (!pc)
		return PVM_IDLE;
	if (pc->num_calls && fast_clock() - pc->moved_at > STALLED_NS)
		return PVM_STALLED;
	return pc->num_calls || pc->num_next || pc->in_call ? PVM_CALL : PVM_IDLE;
}

void pvm_strike(struct pvm_queue *q, uint64_t now)
{
	uint64_t good = (now - q->struck_at) / FORGIVE_NS;

	q->strikes = good < q->strikes ? q->strikes - (uint32_t)good : 0;
	q->struck_at = now;
	if (q->strikes < STRIKES_MAX)
		q->strikes++;
	if (q->strikes > STRIKES_FREE)
		q->careful_until = now + (CAREFUL_NS << (q->strikes - STRIKES_FREE));
}

void pvm_forgive(struct pvm_queue *q)
{
	if (q->strikes)
		q->strikes--;
	q->careful_until = 0; /* that time was over, or the runner would not have made the call */
}

void pvm_charge(struct fast *f, const struct pvm_queue *q, uint64_t ns)
{
	if (!q->cont || q->cont->fast != f)
		return; /* the container moved to another thread; a stalled session stayed here */
	fast_tick(f);
	cpu_worked(f, q->cont, ns);
}

/* ---- calls --------------------------------------------------------------------------------------- */

static void hold(struct pvm_call *c, struct pvm_queue *q, enum pvm_use use)
{
	if (c->held)
		*c->held -= c->size;
	c->held = &q->held[use];
	*c->held += c->size;
}

static void call_free(struct pvm *p, struct pvm_call *c)
{
	bool large = c->size > SMALL;

	*c->held -= c->size;
	pvm_queue_put(c->user);
	if (!TAILQ_EMPTY(&p->crowded)) /* the next turn tells requests that wait for room */
		fast_kick(p->f);
	if (p->pool[large].num < POOL_KEEP) {
		TAILQ_INSERT_HEAD(&p->pool[large].calls, c, entry);
		p->pool[large].num++;
		return;
	}
	free(c->buf);
	free(c);
}

static struct pvm_call *call_alloc(struct pvm *p, bool large)
{
	struct pvm_call *c = TAILQ_FIRST(&p->pool[large].calls);

	if (c) {
		TAILQ_REMOVE(&p->pool[large].calls, c, entry);
		p->pool[large].num--;
		return c;
	}
	c = malloc(sizeof(*c));
	if (!c)
		return NULL;
	c->size = large ? PVM_MAX : SMALL;
	c->buf = malloc(c->size);
	if (!c->buf) {
		free(c);
		return NULL;
	}
	memset(c->buf, 0, c->size); /* so that no page fault of a copy is in this memory */
	return c;
}

struct pvm_call *pvm_call_get(struct pvm *p, struct qp *qp, enum pvm_use use, uint32_t len,
			      struct pvm_wait *w)
{
	struct pvm_queue *q = queue_of(qp->o.ses->cont);
	bool large = len > SMALL;
	struct pvm_call *c;

	if (!q || must_wait(p, q, use, large ? PVM_MAX : SMALL, qp, w))
		return NULL;
	c = call_alloc(p, large);
	if (!c)
		return NULL;
	c->qp = qp;
	c->odp = NULL;
	c->tracked = NULL;
	c->note = NULL;
	c->word.step = WORD_ONCE;
	c->busy = false;
	c->orphan = false;
	c->place = PVM_NOWHERE;
	c->user = q;
	c->use = use;
	c->held = NULL;
	hold(c, q, use);
	atomic_fetch_add(&q->refs, 1);
	return c;
}

/* Is the call a worker's, which makes it later or is in it now? */
static bool is_work(const struct pvm_call *c)
{
	return c->held != &c->user->held[c->use];
}

void pvm_call_work(struct pvm_call *c)
{
	struct pvm_client *pc = c->client;

	hold(c, pc->q, PVM_WORK);
	if (!pc->num_calls++)
		pc->moved_at = fast_clock();
}

static void call_end(struct pvm_call *c)
{
	struct pvm_client *pc = c->client;

	c->busy = false;
	if (c->odp) {
		if (c->faults)
			odp_faulted(c->odp, pc->gone ? NULL : &c->ses->stats, c->faults,
				    c->fault_ns);
		if (!pc->gone)
			odp_end(&c->ses->hdr->leaving);
		odp_put(c->odp);
		c->odp = NULL;
	}
	track_put(c->tracked);
	c->tracked = NULL;
	if (!is_work(c))
		return;
	hold(c, c->user, c->use);
	pc->num_calls--;
	pc->moved_at = fast_clock();
}

/* The list of failed calls for that place; NULL: the place is none of a failed call. */
static struct call_list *list_of(struct pvm_queue *q, enum pvm_place place)
{
	return place == PVM_SOON ? &q->soon : place == PVM_LATER ? &q->later : NULL;
}

void pvm_enqueue(struct pvm *p, struct pvm_call *c, enum pvm_place place)
{
	struct pvm_client *pc = c->client;
	struct pvm_queue *q = pc->q;
	struct call_list *list = list_of(q, place);

	c->place = place;
	if (place == PVM_NEXT) {
		TAILQ_INSERT_TAIL(&p->next, c, entry);
		c->user->num_next++;
		pc->num_next++;
		return;
	}
	if (place == PVM_TURN) {
		TAILQ_INSERT_TAIL(&pc->turn, c, entry);
		return;
	}
	if (list) {
		TAILQ_INSERT_TAIL(list, c, entry);
		q->num_failed++;
	} else {
		if (TAILQ_EMPTY(&pc->calls) && !pvm_is_worked(pc))
			TAILQ_INSERT_TAIL(&q->ready, pc, entry);
		TAILQ_INSERT_TAIL(&pc->calls, c, entry);
	}
	if (!q->waiting++)
		TAILQ_INSERT_TAIL(&p->queues, q, entry);
}

void pvm_dequeue(struct pvm *p, struct pvm_call *c)
{
	struct pvm_client *pc = c->client;
	struct pvm_queue *q = pc->q;
	struct call_list *list = list_of(q, c->place);
	enum pvm_place place = c->place;

	c->place = PVM_NOWHERE;
	if (place == PVM_NEXT) {
		TAILQ_REMOVE(&p->next, c, entry);
		c->user->num_next--;
		pc->num_next--;
		return;
	}
	if (place == PVM_TURN) {
		TAILQ_REMOVE(&pc->turn, c, entry);
		return;
	}
	if (list) {
		TAILQ_REMOVE(list, c, entry);
		q->num_failed--;
	} else {
		TAILQ_REMOVE(&pc->calls, c, entry);
		if (TAILQ_EMPTY(&pc->calls) && !pvm_is_worked(pc))
			TAILQ_REMOVE(&q->ready, pc, entry);
	}
	if (!--q->waiting)
		TAILQ_REMOVE(&p->queues, q, entry);
}

/* ---- words whose change is noted ------------------------------------------------------------------- */

/* The call goes on with its next step. */
static void word_submit(struct fast *f, struct pvm_call *c)
{
	c->since = 0;
	if (is_work(c)) {
		pvm_enqueue(f->pvm, c, PVM_READY);
		roles_need_worker(f->pvm, c->client);
	} else {
		pvm_enqueue(f->pvm, c, PVM_NEXT);
		fast_kick(f);
	}
}

/* The call, which has looked at its word, changes it now, or when it has its turn. */
static void word_try(struct fast *f, struct pvm_call *c)
{
	struct pvm_client *pc = c->client;
	struct qp_atom *n = c->note;

	if (pc->trying || pc->settling) {
		pvm_enqueue(f->pvm, c, PVM_TURN);
		return;
	}
	pc->trying = c;
	c->word.step = WORD_CHANGE;
	qp_atom_set(c->qp, ATOM_NONE);
	n->old = c->word.old;
	n->new = pvm_word_new(&c->word, n->old);
	n->va = c->va;
	n->ses = c->ses->id;
	n->key = c->key;
	qp_atom_set(c->qp, ATOM_TRIED);
	word_submit(f, c);
}

/* Nothing of the call's is under way any more: the next one has its turn. */
static void word_over(struct fast *f, struct pvm_call *c)
{
	struct pvm_client *pc = c->client;
	struct pvm_call *next;

	if (c->word.step == WORD_SETTLE)
		pc->settling--;
	else if (pc->trying == c)
		pc->trying = NULL;
	else
		return;
	next = TAILQ_FIRST(&pc->turn);
	if (!next || pc->trying || pc->settling)
		return;
	pvm_dequeue(f->pvm, next);
	word_try(f, next);
}

/* What the word is tells whether the last router has changed it. Others may have changed it meanwhile: the process. */
static enum atom_step settled(const struct pvm_word *w, const struct qp_atom *n, int result)
{
	return result		? ATOM_LOST :
	       w->now == n->new ? ATOM_DONE :
	       w->now == n->old ? ATOM_NONE :
				  ATOM_LOST;
}

/* A step has ended with that result. True: the call goes on; false: it ends with *result. */
static bool word_went(struct fast *f, struct pvm_call *c, int *result)
{
	struct pvm_word *w = &c->word;
	bool is_wanted = c->note && !c->orphan;

	if (w->step == WORD_SETTLE) {
		if (is_wanted) {
			qp_atom_set(c->qp, settled(w, c->note, *result));
			c->qp->settle = NULL;
		}
		word_over(f, c);
		return false;
	}
	if (w->step == WORD_CHANGE && !*result && w->now == w->old) {
		if (is_wanted)
			qp_atom_set(c->qp, ATOM_DONE);
		word_over(f, c);
		return false;
	}
	if (w->step == WORD_CHANGE) { /* not done, or another one came first */
		if (is_wanted)
			qp_atom_set(c->qp, ATOM_NONE);
		word_over(f, c);
		w->step = WORD_LOOK;
		w->old = w->now;
	}
	if (*result || !is_wanted)
		return false;
	if (c->client->gone) {
		*result = -EFAULT;
		return false;
	}
	if (pvm_word_new(w, w->old) == w->old) { /* there is nothing to change */
		c->note->old = w->old;
		qp_atom_set(c->qp, ATOM_DONE);
		return false;
	}
	word_try(f, c);
	return true;
}

int pvm_settle(struct fast *f, struct qp *qp, const struct mr *mr)
{
	struct pvm_wait wait = { 0 };
	struct pvm_call *c = pvm_call_get(f->pvm, qp, PVM_COPY, sizeof(uint64_t), &wait);
	int err;

	if (!c) {
		pvm_wait_end(&wait);
		return -EAGAIN;
	}
	c->ses = mr->o.ses;
	c->dir = PVM_ATOMIC;
	c->va = qp->atom.va;
	c->len = sizeof(uint64_t);
	c->word.step = WORD_SETTLE;
	c->note = &qp->atom;
	err = pvm_submit(f, c, mr, &wait);
	if (err) {
		pvm_wait_end(&wait);
		call_free(f->pvm, c);
		return err;
	}
	c->client->settling++;
	qp->settle = c;
	return 0;
}

void pvm_call_put(struct pvm *p, struct pvm_call *c)
{
	if (!c)
		return;
	if (c->busy && c->place == PVM_NOWHERE) { /* a thread is in the call, and frees it */
		c->orphan = true;
		c->qp = NULL;
		c->note = NULL;
		return;
	}
	if (c->busy) {
		pvm_dequeue(p, c);
		word_over(p->f, c);
		call_end(c);
	}
	call_free(p, c);
}

void pvm_finish(struct fast *f, struct pvm_call *c, int result)
{
	if (c->word.step && word_went(f, c, &result))
		return;
	if (result == -ESRCH) {
		if (!c->client->gone)
			c->ses->mem_gone = true;
		result = -EFAULT;
	}
	call_end(c);
	fast_kick(f);
	if (c->orphan) {
		call_free(f->pvm, c);
		return;
	}
	c->result = result;
	fast_qp_activate(f, c->qp);
	if (c->word.step == WORD_SETTLE) /* its result is the QP's note */
		call_free(f->pvm, c);
}

void pvm_tried(struct fast *f, struct pvm_call *c, int result)
{
	uint64_t now, grid, patience = pvm_patience / c->part;
	struct pvm_queue *q = c->client->q;

	if (result != -EAGAIN || c->orphan || c->client->gone) {
		pvm_finish(f, c, result == -EAGAIN ? -EFAULT : result);
		return;
	}
	now = fast_clock();
	if (!c->since)
		c->since = now;
	if (now - c->since >= patience) {
		pvm_finish(f, c, -EFAULT);
		return;
	}
	grid = now - c->since < LATE_NS ? RETRY_NS : RETRY_LATE_NS;
	c->due = (now + q->num_failed * RETRY_CALL_NS) / grid * grid + grid;
	pvm_enqueue(f->pvm, c, grid == RETRY_NS ? PVM_SOON : PVM_LATER);
}

int pvm_submit(struct fast *f, struct pvm_call *c, const struct mr *mr, struct pvm_wait *w)
{
	struct odp *odp = mr->odp;
	struct pvm *p = f->pvm;
	struct pvm_client *pc = c->ses->pvm;

	if (!pc)
		return -EFAULT;
	if (odp && !odp_begin(&c->ses->hdr->leaving, odp))
		return -EFAULT;
	c->client = pc;
	c->done = c->faults = 0;
	c->since = c->fault_ns = 0;
	c->odp = odp;
	c->tracked = mr->tracked;
	c->part = 1;
	if (roles_trust(p, pc->q)) {
		w->called = false; /* the call needs no more room */
		pvm_enqueue(p, c, PVM_NEXT);
	} else if (must_wait(p, pc->q, PVM_WORK, c->size, c->qp, w)) {
		c->ses->stats.pvm_held++;
		c->odp = NULL;
		c->tracked = NULL;
		if (odp)
			odp_end(&c->ses->hdr->leaving);
		return -EAGAIN;
	} else {
		roles_hand_over(p, c);
	}
	if (odp)
		odp_hold(odp);
	track_hold(c->tracked);
	c->busy = true;
	return 0;
}

static void fail_all(struct fast *f, struct call_list *list, const struct pvm_client *pc)
{
	struct pvm_call *c, *next;

	TAILQ_FOREACH_SAFE(c, list, entry, next) {
		if (c->client != pc)
			continue;
		pvm_dequeue(f->pvm, c);
		pvm_finish(f, c, -EFAULT);
	}
}

/* Cancel the calls of a list that start in these bytes. */
static void cancel_all(struct fast *f, struct call_list *list, const struct pvm_client *pc,
		       uint64_t va, uint64_t len)
{
	struct pvm_call *c, *next;

	TAILQ_FOREACH_SAFE(c, list, entry, next) {
		if (c->client != pc || c->va - va >= len)
			continue;
		pvm_dequeue(f->pvm, c);
		pvm_finish(f, c, -EAGAIN);
	}
}

void pvm_cancel(struct fast *f, struct session *s, uint64_t va, uint64_t len, struct pvm_mark *mark)
{
	struct pvm_client *pc = s->pvm;

	*mark = (struct pvm_mark){ 0 };
	if (!pc)
		return;
	cancel_all(f, &f->pvm->next, pc, va, len);
	cancel_all(f, &pc->turn, pc, va, len);
	cancel_all(f, &pc->calls, pc, va, len);
	cancel_all(f, &pc->q->soon, pc, va, len);
	cancel_all(f, &pc->q->later, pc, va, len);
	*mark = (struct pvm_mark){ pc->in_call, pc->has_worker, pc->runner_seq, pc->worker_seq };
}

bool pvm_passed(const struct session *s, const struct pvm_mark *mark)
{
	const struct pvm_client *pc = s->pvm;

	return !pc || ((!mark->runner || pc->runner_seq != mark->runner_seq) &&
		       (!mark->worker || pc->worker_seq != mark->worker_seq));
}

void pvm_session_del(struct fast *f, struct session *s)
{
	struct pvm_client *pc = s->pvm;

	if (!pc)
		return;
	s->pvm = NULL;
	fail_all(f, &f->pvm->next, pc);
	fail_all(f, &pc->turn, pc);
	fail_all(f, &pc->calls, pc);
	fail_all(f, &pc->q->soon, pc);
	fail_all(f, &pc->q->later, pc);
	pc->gone = true;
	pvm_client_put(pc);
}

/* ---- life -------------------------------------------------------------------------------------------- */

struct pvm *pvm_create(struct fast *f)
{
	struct pvm *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->f = f;
	TAILQ_INIT(&p->next);
	TAILQ_INIT(&p->pool[0].calls);
	TAILQ_INIT(&p->pool[1].calls);
	TAILQ_INIT(&p->queues);
	TAILQ_INIT(&p->crowded);
	return p;
}

void pvm_free(struct pvm *p)
{
	struct pvm_call *c;

	if (!p || atomic_load(&p->threads))
		return;
	for (int i = 0; i < 2; i++)
		while ((c = TAILQ_FIRST(&p->pool[i].calls))) {
			TAILQ_REMOVE(&p->pool[i].calls, c, entry);
			free(c->buf);
			free(c);
		}
	free(p);
}
