/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * heat.c - large memory is registered as it is, and the parts of it that are used are replaced by shadow pages
 * afterwards. Called by mr.c; replaces by apply.c; a thread for each context that has such memory.
 *
 * Theory of operation
 * -------------------
 * Replacing pages takes longer than copying them once. So of an MR with LAZY_MIN bytes or more only what is
 * replaced or shared already is claimed at first; the router reaches the rest through the process, and counts
 * (ffr/mem/heat.c). A part that was used for three times as many bytes as it has, and is used again, comes out of a
 * socket as an event some time later (ffr/ctl/hot.c). If the MR is still there, the part is replaced, and the router
 * is told of the further runs by MAP_MR. Who registers, moves the bytes once and deregisters, has nothing replaced.
 *
 * Until it is replaced the MR is tracked (track.c): the router knows when the program moves the memory, or maps
 * something else there. A part is replaced for all MRs of the context that have it, since it is not tracked any more.
 *
 * A program that waits for what others write to its memory makes no call in which this could be done; so
 * there is a thread. Nothing depends on it but speed: what was not replaced, or not told, the router goes on
 * copying, from the same addresses and so the same pages.
 *
 * The program may have forbidden system calls by the time that an event comes: whichever the thread made next would
 * end the process. The router looks at the process's filters before it sends an event, and filter.c keeps them out
 * while one is served. So outside of that time the thread is in read(2) of the socket, and makes no other call: it
 * has no time-out, and looks at nothing. It was started by a call of the program that registers memory, which returns
 * when the thread is about to read.
 *
 *	Registering and deregistering: a lazy MR is on the list while the router has it. The thread looks for
 *	it, replaces a slice and tells the router with the region lock held all the time; who deregisters
 *	takes the MR off the list first, by that lock, and so waits for the slice under way. What is to be done
 *	for the MR after its end waits for no further slice: the next thread that has the lock does it.
 *	fork(): holds the region lock; the child has no thread, and no sessions of the parent's.
 *	Unmapping: apply.c compares what is mapped, and window.c once more in the window. The router takes no run
 *	for what is not where it was.
 *	Signals: none are delivered to it, but for those by which libc changes all threads' user ids.
 *	The end: ffl_mr_context_fini() stops the thread. The router's death ends it by the socket's end.
 *	A process ends when its last thread does; so when all others are gone, and the first one has left by
 *	pthread_exit(), the router hangs up, and this one ends, too.
 *
 * MRs with remote atomics, which would not be atomic through the process, are replaced when they are registered; with
 * FFL_REPLACE=now in the environment, and where the router has a NIC, all are. Nor are pages replaced later where
 * the kernel cannot tell of a page that a device is writing to it (before Linux 6.8; see window.c): a program that
 * registers a buffer does not read into it from a disk in the same moment, but later on it may. Such pages are looked
 * at again some times, and then left as they are.
 */
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ffl/mem/region.h"
#include "ffl/mem/track.h"
#include "ffl/mem/window.h"
#include "ffl/session/mm.h"

/*
 * libc has these since 2.34; before, they are in libpthread.so.0, which a program without threads has not loaded:
 * then there is no thread here either, and all is replaced at once. Their oldest versions are in both.
 */
#ifdef __x86_64__
#define LIBC_BASE "GLIBC_2.2.5"
#else
#define LIBC_BASE "GLIBC_2.17"
#endif
#pragma weak pthread_create
#pragma weak pthread_join
#pragma weak pthread_attr_setstack
#ifdef __GLIBC__
__asm__(".symver pthread_create, pthread_create@" LIBC_BASE);
__asm__(".symver pthread_join, pthread_join@" LIBC_BASE);
__asm__(".symver pthread_attr_setstack, pthread_attr_setstack@" LIBC_BASE);
#endif

#define LAZY_MIN    ((size_t)1 << 20) /* bytes of an MR */
#define SLICE	    ((size_t)2 << 20) /* bytes between two releases of the region lock */
#define MAP_TRIES   1000u
#define STACK	    ((size_t)128 << 10)
#define STACK_LARGE ((size_t)2 << 20) /* for a program with much thread-local memory */
#define STACK_PAD   ((size_t)32 << 10)

#define KERNEL_SIGSET_SIZE 8 /* bytes */
/* libc's own, from 32 on: SIGCANCEL and SIGSETXID; musl has one for timers, too. */
#ifdef __GLIBC__
#define LIBC_SIGNALS ((uint64_t)3 << 31)
#else
#define LIBC_SIGNALS ((uint64_t)7 << 31)
#endif

struct ffl_heat {
	pthread_t thread;
	struct ffl_context *ctx;
	char *stack; /* of stack_len bytes, with STACK_PAD below and above it */
	size_t stack_len;
	int fd; /* the socket that events come out of; -1: there is none, and no thread */
	ino_t ino;
	_Atomic bool stop, reads;
};

/* Those of MRs that have gone, of which ffl_track_leave() was not told yet. */
static _Atomic(struct ffl_lazy *) gone;

/* Region lock. */
static struct ffl_lazy *lazies;
static struct ff_mr_run fresh[FF_MR_MAX_RUNS];

/* ---- replacing a part --------------------------------------------------------------------------- */

/* [region lock] The MR of an event, if it is still there and lazy. */
static struct ffl_lazy *find(const struct ffl_context *ctx, const struct ff_heat_event *e)
{
	struct ffl_lazy *l;

	for (l = lazies; l; l = l->next)
		if (l->mr->ctx == ctx && l->mr->ibv.handle == e->mr)
			return l;
	return NULL;
}

/*
 * [region lock] Claim what the MR has no run for in [from, to). The number of runs, in `fresh`;
 * *left: bytes that have none.
 */
static unsigned claim_gaps(struct ffl_lazy *l, uintptr_t from, uintptr_t to, size_t *left)
{
	const struct ffl_mr *mr = l->mr;
	unsigned n = 0, max = FF_MR_MAX_RUNS - mr->num_runs;

	*left = 0;
	for (unsigned k = 0; k <= mr->num_runs && from < to; k++) {
		const struct ff_mr_run *r = &mr->run[k];
		uintptr_t end = k < mr->num_runs && r->va < to ? r->va : to;
		int got;

		if (end > from) {
			got = ffl_apply_part(l, from, end, fresh + n, max - n);
			*left += end - from;
			for (; got > 0; got--)
				*left -= fresh[n++].len;
		}
		if (k < mr->num_runs && r->va + r->len > from)
			from = r->va + r->len;
	}
	return n;
}

/* [region lock] The MR has the first n of `fresh` as well, in `all`, which has room for them. */
static void merge(struct ffl_mr *mr, unsigned n, struct ff_mr_run *all)
{
	unsigned i = 0, k = 0, num = 0;

	while (i < mr->num_runs || k < n)
		if (k == n || (i < mr->num_runs && mr->run[i].va < fresh[k].va))
			ffl_apply_append(all, &num, &mr->run[i++]);
		else
			ffl_apply_append(all, &num, &fresh[k++]);
	free(mr->run);
	mr->run = all;
	mr->num_runs = num;
}

/*
 * [region lock] Replace [from, to), which is closed, as far as it can be, and tell the router.
 * `open`: it is to open what is closed, if there are runs for all of it. True: it did.
 */
static bool replace_of(struct ffl_lazy *l, uintptr_t from, uintptr_t to, bool open)
{
	struct ffl_mr *mr = l->mr;
	struct ff_map_mr_req req = { .mr = mr->ibv.handle };
	struct ff_map_mr_resp resp;
	struct ff_mr_run *all = malloc(FF_MR_MAX_RUNS * sizeof(*all));
	size_t left;
	unsigned n;
	int err = -EAGAIN;

	n = all ? claim_gaps(l, from, to, &left) : 0;
	if (!n) {
		free(all);
		return false;
	}
	req.open = open && !left;
	/* where the router does not take them, it goes on copying: the pages stay until the MR's end */
	for (unsigned i = 0; err == -EAGAIN && i < MAP_TRIES; i++) {
		err = ffl_call(mr->ctx, FF_MSG_MAP_MR, &req, sizeof(req), fresh, sizeof(fresh[0]),
			       n, &resp, sizeof(resp), NULL, 0, NULL);
		if (err == -EAGAIN) /* mappings that are tracked are being changed */
			sched_yield();
	}
	if (!err)
		mr->zero_copy = resp.zero_copy;
	merge(mr, n, all);
	return req.open && !err;
}

/* [region lock] Whole pages that an MR may have replaced, of [from, to). False: there are none. */
static bool part_of(const struct ffl_lazy *l, uintptr_t *from, uintptr_t *to)
{
	*from = *from > l->from ? *from : l->from;
	*to = *to < l->to ? *to : l->to;
	return *from < *to;
}

/*
 * [region lock] Replace [from, to) of that MR, and of all others of its context that have it: what
 * was replaced is not tracked any more.
 */
static void replace(struct ffl_lazy *l, uintptr_t from, uintptr_t to)
{
	struct ffl_context *ctx = l->mr->ctx;
	int uffd = ffl_track_close(ctx, from, to);
	bool is_open, alone = true;

	if (uffd < 0)
		return;
	for (struct ffl_lazy *o = lazies; o; o = o->next) {
		uintptr_t lo = from, hi = to;

		if (o == l || o->mr->ctx != ctx || !part_of(o, &lo, &hi))
			continue;
		replace_of(o, lo, hi, false);
		alone = false;
	}
	is_open = replace_of(l, from, to, alone);
	if (!is_open)
		ffl_track_open(ctx, from, to, uffd);
	close(uffd);
}

void ffl_heat_replace(uintptr_t from, uintptr_t to)
{
	for (struct ffl_lazy *l = lazies; l; l = l->next) {
		uintptr_t at = from, end = to, next;

		for (part_of(l, &at, &end); at < end; at = next) {
			next = end - at > SLICE ? at + SLICE : end;
			replace(l, at, next);
		}
	}
}

/* As far as it can be. True: the kernel, or a device, is writing to some of it. *why: of what is left. */
static bool replace_part(struct ffl_heat *h, const struct ff_heat_event *e, enum ff_why *why)
{
	uintptr_t at = PAGE_DOWN(e->va), end = PAGE_DOWN(e->va + e->len), next = end;
	bool busy = false;

	*why = FF_WHY_UNUSED;
	if (e->va + e->len < e->va)
		return false;
	for (; at < end && !atomic_load(&h->stop); at = next) {
		struct ffl_lazy *l;

		ffl_regions_lock();
		l = find(h->ctx, e);
		if (l)
			part_of(l, &at, &end);
		next = end - at > SLICE ? at + SLICE : end;
		if (l && at < end) {
			l->busy = false;
			l->why = FF_WHY_UNUSED;
			replace(l, at, next);
			busy |= l->busy;
			if (l->why != FF_WHY_UNUSED)
				*why = l->why;
		}
		ffl_regions_unlock();
		ffl_regions_pass();
		if (!l)
			return false;
	}
	return busy;
}

/* [region lock] */
static void take_gone(void)
{
	struct ffl_lazy *l = atomic_exchange(&gone, NULL), *next;

	for (; l; l = next) {
		next = l->next;
		ffl_track_leave(l->was, l->from, l->to);
		free(l);
	}
}

/* What has been nobody's for some time is not tracked any more. */
static void sweep(const struct ffl_heat *h)
{
	ffl_regions_lock();
	take_gone();
	ffl_track_sweep(h->ctx, lazies);
	ffl_regions_unlock();
}

/* [gate] */
static void on_event(struct ffl_heat *h, const struct ff_heat_event *e)
{
	struct ff_heat_done_req req = { 0 };
	struct ff_heat_done_resp resp;
	enum ff_why why;

	req.busy = replace_part(h, e, &why);
	req.why = why;
	if (why != FF_WHY_UNUSED)
		ffl_log(FFL_INFO, "%llu bytes at 0x%llx are copied: %s", (unsigned long long)e->len,
			(unsigned long long)e->va, ffl_plan_why_text(why));
	sweep(h);
	FFL_CALL(h->ctx, HEAT_DONE, &req, &resp); /* no router, no events */
}

/* ---- the thread --------------------------------------------------------------------------------- */

/* The program may have closed the descriptor, and opened something else. */
static bool is_ours(const struct ffl_heat *h)
{
	struct stat st;

	return !syscall(SYS_fstat, h->fd, &st) && st.st_ino == h->ino;
}

static void *thread_main(void *arg)
{
	struct ffl_heat *h = arg;
	uint64_t blocked = ~LIBC_SIGNALS;
	struct ff_heat_event e;
	ssize_t n;

	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &blocked, NULL, KERNEL_SIGSET_SIZE);
	prctl(PR_SET_NAME, "ffl-heat");
	atomic_store(&h->reads, true);
	for (;;) {
		bool ours = true;

		n = read(h->fd, &e, sizeof(e));
		if (n < 0 && errno == EINTR)
			continue;
		if (n != sizeof(e) || atomic_load(&h->stop))
			break;
		if (!ffl_gate_enter())
			continue;
		on_event(h, &e);
		ours = is_ours(h);
		ffl_gate_leave();
		if (!ours)
			break;
	}
	return NULL;
}

static void stack_free(struct ffl_heat *h)
{
	if (h->stack)
		mm_unmap(h->stack - STACK_PAD, h->stack_len + 2 * STACK_PAD);
	h->stack = NULL;
}

/*
 * Start the thread on a stack of that size. There is something above it so that the kernel does not make one
 * mapping of it and of what the program registers, which would look like a stack; and so much of it that
 * kind.c does not take that for the thread's own frames. 0 or -errno.
 */
static int start_on(struct ffl_heat *h, size_t len)
{
	pthread_attr_t attr;
	char *p;
	int err;

	p = mm_map(NULL, len + 2 * STACK_PAD, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	h->stack = p + STACK_PAD;
	h->stack_len = len;
	err = -EINVAL;
	pthread_attr_init(&attr);
	if (!mm_protect(h->stack, len, PROT_READ | PROT_WRITE) &&
	    !mm_protect(h->stack + len, STACK_PAD, PROT_READ) &&
	    !pthread_attr_setstack(&attr, h->stack, len))
		err = -pthread_create(&h->thread, &attr, thread_main, h);
	pthread_attr_destroy(&attr);
	if (err)
		stack_free(h);
	return err;
}

/* Ask for the socket, start the thread. 0 or -errno. Region lock, so signals are blocked. */
static int start(struct ffl_heat *h)
{
	struct ff_watch_heat_req req = { 0 };
	struct ff_watch_heat_resp resp;
	unsigned num_fds = 0;
	struct stat st;
	int fd = -1, err;

	if (!pthread_create || !pthread_join || !pthread_attr_setstack)
		return -ENOSYS;
	err = ffl_call(h->ctx, FF_MSG_WATCH_HEAT, &req, sizeof(req), NULL, 0, 0, &resp,
		       sizeof(resp), &fd, 1, &num_fds);
	if (err)
		return err;
	if (num_fds != 1)
		return -EPROTO;
	fd = ffl_fd_high(fd);
	err = -EPROTO;
	if (syscall(SYS_fstat, fd, &st))
		goto err_close;
	err = ffl_track_start(h->ctx);
	if (err)
		goto err_close;
	h->ino = st.st_ino;
	h->fd = fd;
	ffl_gate_init();
	err = start_on(h, STACK);
	if (err == -EINVAL)
		err = start_on(h, STACK_LARGE);
	if (!err) {
		while (!atomic_load(&h->reads))
			sched_yield();
		return 0;
	}
	h->fd = -1;
err_close:
	close(fd);
	return err;
}

/* ---- for mr.c ------------------------------------------------------------------------------------- */

static bool is_on(void)
{
	static int on = -1;

	if (on < 0) {
		const char *v = secure_getenv("FFL_REPLACE");

		on = !v || strcmp(v, "now");
	}
	return on;
}

enum ffl_when ffl_heat_when(struct ffl_context *ctx, size_t len, int access)
{
	if (access & IBV_ACCESS_REMOTE_ATOMIC || ctx->has_nic || !ffl_window_knows_pins() ||
	    !is_on())
		return FFL_NOW;
	if (len < LAZY_MIN)
		return FFL_QUICK;
	return ffl_heat_start(ctx) ? FFL_LATER : FFL_NOW;
}

bool ffl_heat_start(struct ffl_context *ctx)
{
	int err;

	if (ctx->heat)
		return ctx->heat->fd >= 0;
	ctx->heat = calloc(1, sizeof(*ctx->heat));
	if (!ctx->heat)
		return false;
	ctx->heat->ctx = ctx;
	ctx->heat->fd = -1;
	err = start(ctx->heat);
	if (err)
		ffl_log(FFL_INFO, "no thread for large memory: %s; its pages are replaced at once",
			strerror(-err));
	return !err;
}

void ffl_heat_add(struct ffl_lazy *lazy, bool tracked)
{
	if (!lazy)
		return;
	ffl_regions_lock();
	if (!tracked || lazy->closed != ffl_track_closed())
		ffl_track_add(lazy);
	lazy->next = lazies;
	lazies = lazy;
	take_gone();
	ffl_track_sweep(lazy->mr->ctx, lazies);
	ffl_regions_unlock();
}

void ffl_heat_remove(struct ffl_lazy *lazy)
{
	struct ffl_lazy **p;

	if (!lazy)
		return;
	ffl_regions_lock();
	for (p = &lazies; *p; p = &(*p)->next)
		if (*p == lazy) {
			*p = lazy->next;
			break;
		}
	ffl_regions_unlock();
}

void ffl_heat_leave(struct ffl_lazy *lazy)
{
	if (!lazy)
		return;
	lazy->was = lazy->mr->ctx;
	lazy->from = ffl_lazy_from(lazy);
	lazy->to = ffl_lazy_to(lazy);
	lazy->next = atomic_load(&gone);
	while (!atomic_compare_exchange_weak(&gone, &lazy->next, lazy))
		;
	if (!ffl_regions_trylock())
		return;
	take_gone();
	ffl_regions_unlock();
}

bool ffl_heat_release(uintptr_t from, uintptr_t to)
{
	struct ffl_context *c;
	bool done = false;

	if (!ffl_track_any() || to < from || !ffl_regions_lock_soon())
		return false;
	for (c = ffl_regions_contexts(); c; c = c->next_regions)
		if (c->heat && c->heat->fd >= 0)
			done |= ffl_track_release(c, from, to);
	ffl_regions_unlock();
	return done;
}

void ffl_heat_stop(struct ffl_context *ctx)
{
	struct ffl_heat *h = ctx->heat;
	struct ffl_lazy **p, *l;
	bool ours, left = false;

	if (!h)
		return;
	ours = h->fd >= 0 && is_ours(h);
	if (ctx->pid && h->fd >= 0) { /* else it is the parent's thread */
		atomic_store(&h->stop, true);
		if (ours) {
			shutdown(h->fd, SHUT_RDWR);
			pthread_join(h->thread, NULL);
			stack_free(h);
		} else { /* it ends when the router hangs up */
			left = true;
		}
	}
	ffl_regions_lock();
	take_gone();
	ffl_track_forget(ctx);
	for (p = &lazies; (l = *p);)
		if (l->mr->ctx == ctx) /* the program has not deregistered it */
			*p = l->next;
		else
			p = &l->next;
	ffl_regions_unlock();
	if (ours)
		close(h->fd);
	ctx->heat = NULL;
	if (!left)
		free(h);
}

void ffl_heat_forget(void)
{
	lazies = NULL;
	atomic_store(&gone, NULL);
	ffl_track_forget(NULL);
}
