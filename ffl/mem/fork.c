/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fork.c - replaced pages in the children of the program. Called by mr.c once, by libc
 * afterwards, and by libc.c, where a child is made without handlers.
 *
 * Shadow pages are shared mappings, and a child must not write to its parent's memory. So they
 * are mapped with MADV_DONTFORK, and a handler in the child puts memory of its own there, with a
 * copy of the content. The parent waits in its handler, so that it is the content of the moment,
 * as far as the thread that forks is concerned. Nothing is left to be copied later: not only the
 * parent writes to these pages, the router does, too, where no write protection of this process
 * holds. It takes about 0.6 ms for each MB, and as much memory: what the kernel does with pinned
 * pages.
 *
 * A child may be killed or stopped while it copies. When it has not got on for PATIENCE_MS, the
 * parent goes its way, and the child, should it go on, has nothing there: all or nothing.
 *
 * The region lock is held across fork, so no window is open and no pool half changed. vfork(),
 * posix_spawn() and system() run no handlers and need none: the child shares the parent's memory
 * or execs. _Fork() and libc's clone() run none, either; libc.c does here what handlers would do.
 * A child made by the bare system call has nothing mapped at replaced pages, as with pinned memory and
 * MADV_DONTFORK.
 *
 * Where pages were replaced that have other bytes of the program on them (kind.c), the child may
 * need them before its handler runs: libc looks at open files and at the heap's locks there, and
 * others have handlers, too. A stack may lie in memory that was registered before. So from the parent's first handler
 * to the last one SIGSEGV has a handler that, in the child, fills the holes, and goes on; whatever else comes is for
 * the program's own. It runs on a stack of its own, and does nothing in the parent.
 *
 * In the child nothing is registered any more, and its parent's sessions have no part in its
 * memory; sessions of its own (context.c) begin afresh.
 */
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ffl/session/mm.h"
#include "ffl/mem/region.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define KERNEL_SIGSET_SIZE 8		      /* bytes */
#define TRAP_STACK	   ((size_t)64 << 10) /* bytes */

#define CHUNK	    ((size_t)1 << 20) /* bytes copied between two looks at the parent */
#define PATIENCE_MS 2000

/*
 * Shared with the child from a fork to its end: the chunks that it has copied, or how it ended.
 * The child waits for nobody; the parent for COPIED, or to set GIVEN_UP.
 */
#define COPIED	 UINT32_MAX
#define GIVEN_UP (UINT32_MAX - 1)
static _Atomic uint32_t *progress;

/* Region lock: what prepare found. */
static struct ffl_part *parts;
static unsigned num_parts;

/* Region lock. */
static struct {
	char *stack;	      /* a page that children have empty, and the handler's stack */
	bool set;	      /* the handler is there */
	bool on_stack;	      /* the handler runs on a stack that this thread has for it */
	bool filled;	      /* in the child: the holes are */
	struct sigaction was; /* the program's */
	stack_t was_stack;    /* the thread's */
} trap;

static bool trap_has_stack(void)
{
	char *p;

	if (trap.stack)
		return true;
	p = mm_map(NULL, FF_PAGE + TRAP_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		   -1, 0);
	if (p == MAP_FAILED)
		return false;
	if (mm_advise(p, FF_PAGE, MADV_WIPEONFORK)) {
		mm_unmap(p, FF_PAGE + TRAP_STACK);
		return false;
	}
	trap.stack = p;
	return true;
}

static bool is_child(void)
{
	return !*(volatile char *)trap.stack;
}

static void fill_holes(void);

/* The program's own handler, or what the kernel does where there is none. */
static void pass_on(int sig, siginfo_t *info, void *uc)
{
	if (trap.was.sa_flags & SA_SIGINFO) {
		trap.was.sa_sigaction(sig, info, uc);
	} else if (trap.was.sa_handler != SIG_DFL && trap.was.sa_handler != SIG_IGN) {
		trap.was.sa_handler(sig);
	} else if (info->si_code > 0 || trap.was.sa_handler == SIG_DFL) {
		sigaction(sig, &trap.was, NULL);
		if (info->si_code <= 0) /* somebody sent it; else the fault comes again */
			syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), sig);
	}
}

static void on_trap(int sig, siginfo_t *info, void *uc)
{
	int err = errno;

	if (is_child() && !trap.filled && info->si_code > 0)
		fill_holes();
	else
		pass_on(sig, info, uc);
	errno = err;
}

static void trap_set(void)
{
	const uint64_t segv = 1ull << (SIGSEGV - 1);
	struct sigaction sa = { .sa_flags = SA_SIGINFO | SA_ONSTACK };
	stack_t stack;

	if (!trap_has_stack() || sigaction(SIGSEGV, NULL, &trap.was))
		return;
	*(volatile char *)trap.stack = 1;
	trap.filled = false;
	sa.sa_sigaction = on_trap;
	sa.sa_mask = trap.was.sa_mask;
	sa.sa_flags |= trap.was.sa_flags & (SA_NODEFER | SA_RESTART);
	stack = (stack_t){ .ss_sp = trap.stack + FF_PAGE, .ss_size = TRAP_STACK };
	/* not where the program forks on such a stack */
	trap.on_stack = !sigaltstack(&stack, &trap.was_stack);
	trap.set = !sigaction(SIGSEGV, &sa, NULL);
	/* the region lock blocks all */
	syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &segv, NULL, KERNEL_SIGSET_SIZE);
}

static void trap_clear(void)
{
	if (trap.set)
		sigaction(SIGSEGV, &trap.was, NULL);
	if (trap.on_stack)
		sigaltstack(&trap.was_stack, NULL);
	trap.set = trap.on_stack = false;
}

static bool has_byte(const struct ffl_part *r, const char *p)
{
	return (uintptr_t)p >= r->va && (uintptr_t)p - r->va < r->len;
}

/* [region lock] A child is about to be made that begins with that stack. */
static void prepare(const char *stack)
{
	const char *frame = __builtin_frame_address(0);
	bool early = false;

	num_parts = ffl_regions_look(&parts);
	for (unsigned i = 0; i < num_parts; i++)
		early |= ffl_regions_file(parts[i].file)->has_others ||
			 has_byte(&parts[i], frame) || has_byte(&parts[i], stack - 1);
	atomic_store(progress, 0);
	if (early)
		trap_set();
}

static void fork_prepare(void)
{
	ffl_regions_lock();
	prepare(__builtin_frame_address(0));
}

bool ffl_fork_begin(const char *stack)
{
	if (!ffl_regions_any() || !ffl_regions_lock_soon())
		return false;
	prepare(stack ? stack : __builtin_frame_address(0));
	return true;
}

static void wait_for_child(void)
{
	const struct timespec patience = { PATIENCE_MS / 1000, PATIENCE_MS % 1000 * 1000000 };
	uint32_t seen = atomic_load(progress);

	while (seen != COPIED) {
		if (syscall(SYS_futex, progress, FUTEX_WAIT, seen, &patience, NULL, 0) &&
		    errno == ETIMEDOUT && atomic_compare_exchange_strong(progress, &seen, GIVEN_UP))
			return;
		seen = atomic_load(progress);
	}
}

void ffl_fork_parent(pid_t pid)
{
	if (num_parts && pid > 0)
		wait_for_child();
	trap_clear();
	ffl_regions_unlock();
}

/* libc does not tell whether there is a child; if not, the wait is in vain. */
static void fork_parent(void)
{
	ffl_fork_parent(1);
}

/* ---- in the child: async-signal-safe ----------------------------------------------------- */

/* A chunk more is copied, or all. False: the parent has given up. */
static bool advance(bool all)
{
	uint32_t was = atomic_load(progress);

	return was != GIVEN_UP &&
	       atomic_compare_exchange_strong(progress, &was, all ? COPIED : was + 1);
}

/* The part's content to p, which is empty. */
static bool copy_pages(const struct ffl_part *r, int fd, char *p)
{
	for (size_t done = 0; done < r->len;) {
		size_t len = r->len - done < CHUNK ? r->len - done : CHUNK;
		/*
		 * not pread(), which a sanitizer watches: the heap's free chunks come back, too
		 */
		long n = syscall(SYS_pread64, fd, p + done, len, (off_t)(r->off + done));

		if (n <= 0 || !advance(false))
			return false;
		done += (size_t)n;
	}
	return true;
}

/* Memory of the child's own in place of the part's pages. True: it is there. */
static bool child_map(const struct ffl_part *r)
{
	const struct ffl_file *file = ffl_regions_file(r->file);
	const int rw = PROT_READ | PROT_WRITE;
	struct stat st;
	void *p;

	/* the program may have closed the descriptor, and opened something else */
	if (syscall(SYS_fstat, file->fd, &st) || st.st_ino != file->inode)
		return false;
	/* what is mapped there already, the program wants there */
	p = mm_map((void *)r->va, r->len, rw, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
		   0);
	if (p == MAP_FAILED)
		return false;
	if (!copy_pages(r, file->fd, p)) {
		mm_unmap(p, r->len);
		return false;
	}
	if (r->prot != rw)
		mm_protect(p, r->len, r->prot);
	return true;
}

/* The child has all of its memory. Once, and without a look at the heap before it is there. */
static void fill_holes(void)
{
	if (trap.filled)
		return;
	trap.filled = true;
	for (unsigned i = 0; i < num_parts; i++)
		parts[i].is_there = child_map(&parts[i]);
	if (num_parts && advance(true))
		syscall(SYS_futex, progress, FUTEX_WAKE, 1, NULL, NULL, 0);
	else
		for (unsigned i = 0; i < num_parts; i++)
			if (parts[i].is_there)
				mm_unmap((void *)parts[i].va, parts[i].len);
}

void ffl_fork_child(bool shares_fds)
{
	fill_holes();
	trap.filled = false;
	trap_clear();
	/* children of this process have a parent of their own to tell */
	mm_map((void *)progress, FF_PAGE, PROT_READ | PROT_WRITE,
	       MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	ffl_malloc_forget(NULL);
	ffl_heat_forget();
	ffl_regions_forget(!shares_fds);
	ffl_regions_lock_forget();
	ffl_regions_unlock();
}

static void fork_child(void)
{
	ffl_fork_child(false);
}

int ffl_fork_init(void)
{
	void *page;
	int err = 0;

	ffl_regions_lock();
	if (progress)
		goto out;
	page = mm_map(NULL, FF_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED) {
		err = -errno;
		goto out;
	}
	progress = page;
	err = -pthread_atfork(fork_prepare, fork_parent, fork_child);
	if (err) {
		mm_unmap(page, FF_PAGE);
		progress = NULL;
	}
out:
	ffl_regions_unlock();
	return err;
}
