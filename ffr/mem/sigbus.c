/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sigbus.c - surviving memory that a client takes away under the router's hands. The table is
 * written by the control thread (seg.c, shadow.c); the handler runs on whatever thread faults.
 *
 * A shared mapping faults when its file was truncated, when a page of the client's is not there
 * (guard.c), when there is no memory or no room in its file system for a page (SIGBUS), and, should a
 * check be missing somewhere, when a read-only mapping is written to (SIGSEGV). The handler puts zero
 * pages over the WINDOW bytes around it and marks its session, which is then closed; the copy that
 * faulted goes on and its result is worthless to that client alone. Of other addresses fallible.c's copies may
 * find nothing, and end there. All else is not ours: whoever handled the signal before gets it.
 *
 * Those zero pages are the router's own when they are written to. Hence nobody starts a copy from or
 * to memory of a marked session (shadow_gone()): what they can cost is what is under way, at most a
 * quantum for each thread. And hence a window, not the whole mapping: unmapping what is present takes
 * 23 ms for each GB, with the fast lock held.
 *
 * The handler takes no lock. An entry is valid while `end` is not 0; it is written before and
 * cleared first, and nobody touches a mapping that is being unwatched.
 *
 * Tests: test_seg.c
 */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "ffr/mem/fallible.h"
#include "ffr/mem/shadow.h"

/* Half of the mappings that a process may have by default; the share of one is quota.c's affair. */
#define MAX_WATCHED 32768u
#define WINDOW	    ((uintptr_t)2 << 20) /* bytes, if the mapping's pages are no larger */

struct watched {
	_Atomic uintptr_t start, end; /* end 0: free */
	uintptr_t window;
	struct session *ses;
	uint32_t next_free; /* control thread: index + 1 of another free one, 0: none */
};

static struct watched watched[MAX_WATCHED];
#define X(NAME, max, what)                                                                         \
	static_assert(SHARE_##NAME != SHARE_MAPPING || (max) <= MAX_WATCHED, what);
FFR_SHARES(X)
#undef X
static _Atomic uint32_t num_watched; /* entries from here on were never used */
static uint32_t first_free;	     /* control thread: index + 1 of a free entry, 0: none */
static struct sigaction old_bus, old_segv;
static void (*tell)(void *);
static void *tell_arg;
static _Atomic uint64_t num_replaced;
_Atomic uint32_t sigbus_gone;
__thread const uint64_t *sigbus_since;

/* Zero pages around addr, inside of [start, end). */
static bool replace_window(uintptr_t addr, uintptr_t start, uintptr_t end, uintptr_t window)
{
	uintptr_t from = addr & ~(window - 1), to = from + window;

	from = from > start ? from : start;
	to = to < end ? to : end;
	return mmap((void *)from, to - from, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

/*
 * How long the fault has kept this runner waiting, at most: the kernel can be punching a hole there (stall.c).
 * Async-signal-safe.
 */
static uint64_t waited(void)
{
	struct timespec t;
	uint64_t now, since = sigbus_since ? *sigbus_since : 0;

	clock_gettime(CLOCK_MONOTONIC, &t);
	now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	return since && now > since ? now - since : 0;
}

/* Async-signal-safe. */
static bool replace(uintptr_t addr)
{
	uint32_t n = atomic_load(&num_watched);

	for (uint32_t i = 0; i < n; i++) {
		uintptr_t end = atomic_load(&watched[i].end);
		uintptr_t start = atomic_load(&watched[i].start);

		if (!end || addr < start || addr >= end)
			continue;
		if (!replace_window(addr, start, end, watched[i].window))
			return false;
		atomic_fetch_add(&num_replaced, 1);
		atomic_fetch_add(&watched[i].ses->mem.gone_ns, waited());
		if (!atomic_exchange(&watched[i].ses->mem.gone, true)) {
			atomic_fetch_add(&sigbus_gone, 1);
			if (tell)
				tell(tell_arg);
		}
		return true;
	}
	return false;
}

/* Text and v in hex; returns the end. */
static char *put(char *p, const char *text, uintptr_t v)
{
	p = stpcpy(p, text);
	for (int shift = 60; shift >= 0; shift -= 4)
		*p++ = "0123456789abcdef"[v >> shift & 15];
	return p;
}

/* For who looks into it later: addr2line -e ffr of what stands behind "ffr+". Async-signal-safe. */
static void tell_own(int sig, const siginfo_t *info, void *context)
{
	extern const char __executable_start[];
	char text[128], *p = stpcpy(text, sig == SIGBUS ? "ffr: SIGBUS" : "ffr: SIGSEGV");
	uintptr_t pc = *fault_pc(context);

	p = put(p, " at 0x", (uintptr_t)info->si_addr);
	p = put(p, ", instruction 0x", pc);
	p = put(p, ", ffr+0x", pc - (uintptr_t)__executable_start);
	*p++ = '\n';
	if (write(STDERR_FILENO, text, (size_t)(p - text)) < 0)
		return;
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	const struct sigaction *old = sig == SIGBUS ? &old_bus : &old_segv;
	int err = errno;

	/* si_code above 0: a fault, not somebody's kill() */
	if (info->si_code > 0 && (replace((uintptr_t)info->si_addr) || fallible_fault(context))) {
		errno = err;
		return;
	}
	if (info->si_code > 0)
		tell_own(sig, info, context);
	if (old->sa_flags & SA_SIGINFO)
		old->sa_sigaction(sig, info, context);
	else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN)
		old->sa_handler(sig);
	else
		signal(sig, SIG_DFL); /* comes again at once */
}

int sigbus_install(void)
{
	struct sigaction sa = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	sigemptyset(&sa.sa_mask);
	if (sigaction(SIGBUS, &sa, &old_bus) || sigaction(SIGSEGV, &sa, &old_segv))
		return -errno;
	return 0;
}

void sigbus_tell(void (*fn)(void *), void *arg)
{
	tell = fn;
	tell_arg = arg;
}

bool sigbus_touch(const struct iovec *iov, int n, uint64_t from)
{
	uint64_t before = atomic_load(&num_replaced), left = SIGBUS_TOUCH_MAX;

	for (int i = 0; i < n && left; i++) {
		const volatile uint8_t *p = iov[i].iov_base;
		uint64_t len = iov[i].iov_len;

		if (from >= len) {
			from -= len;
			continue;
		}
		p += from;
		len = len - from < left ? len - from : left;
		for (uint64_t at = 0; at < len; at += FF_PAGE)
			(void)p[at];
		(void)p[len - 1];
		from = 0;
		left -= len;
	}
	return atomic_load(&num_replaced) != before;
}

void sigbus_forget(struct session *s)
{
	if (atomic_exchange(&s->mem.gone, false))
		atomic_fetch_sub(&sigbus_gone, 1);
}

int sigbus_watch(void *map, uint64_t size, uint64_t unit, struct session *s)
{
	uint32_t i = first_free;
	int err = quota_share_take(s->cont, SHARE_MAPPING, 1);

	if (err)
		return err;
	if (i) {
		first_free = watched[i - 1].next_free;
		i--;
	} else {
		i = atomic_load(&num_watched); /* less than MAX_WATCHED: the share was to be had */
	}
	watched[i].ses = s;
	watched[i].window = unit > WINDOW ? unit : WINDOW;
	atomic_store(&watched[i].start, (uintptr_t)map);
	/* session and start before end: the handler never sees half an entry */
	atomic_store(&watched[i].end, (uintptr_t)map + size);
	if (i >= atomic_load(&num_watched))
		atomic_store(&num_watched, i + 1);
	return (int)i;
}

void sigbus_unwatch(int watch)
{
	struct watched *w = &watched[watch];

	quota_share_return(w->ses->cont, SHARE_MAPPING, 1);
	atomic_store(&w->end, 0);
	w->next_free = first_free;
	first_free = (uint32_t)watch + 1;
}
