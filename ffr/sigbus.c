/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sigbus.c - surviving memory that a client takes away under the router's hands. The table is
 * written by the control thread (seg.c, shadow.c); the handler runs on whatever thread faults.
 *
 * A shared mapping faults when its file was truncated, when there is no memory or no room in its
 * file system for a page (SIGBUS), and, should a check be missing somewhere, when a read-only
 * mapping is written to (SIGSEGV). The handler puts zero pages over the whole mapping and marks
 * its session, which is then closed; the copy that faulted goes on and its result is worthless to
 * that client alone. Other addresses are not ours: whoever handled the signal before gets it.
 *
 * The handler takes no lock. An entry is valid while `end` is not 0; it is written before and
 * cleared first, and nobody touches a mapping that is being unwatched.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "shadow.h"

#define MAX_WATCHED 32768u /* half of the mappings that a process may have by default */

struct watched {
	_Atomic uintptr_t start, end; /* end 0: free */
	struct session *ses;
};

static struct watched watched[MAX_WATCHED];
static _Atomic uint32_t num_watched; /* entries from here on were never used */
static uint32_t first_free;	     /* control thread: no free entry below */
static struct sigaction old_bus, old_segv;

/* Async-signal-safe. */
static bool replace(uintptr_t addr)
{
	uint32_t n = atomic_load(&num_watched);

	for (uint32_t i = 0; i < n; i++) {
		uintptr_t end = atomic_load(&watched[i].end);
		uintptr_t start = atomic_load(&watched[i].start);

		if (!end || addr < start || addr >= end)
			continue;
		if (mmap((void *)start, end - start, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
			 0) == MAP_FAILED)
			return false;
		watched[i].ses->mem_gone = true;
		return true;
	}
	return false;
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	const struct sigaction *old = sig == SIGBUS ? &old_bus : &old_segv;
	int err = errno;

	/* si_code above 0: a fault, not somebody's kill() */
	if (info->si_code > 0 && replace((uintptr_t)info->si_addr)) {
		errno = err;
		return;
	}
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

int sigbus_watch(void *map, uint64_t size, struct session *s)
{
	uint32_t i;

	for (i = first_free; i < MAX_WATCHED && atomic_load(&watched[i].end); i++)
		;
	first_free = i;
	if (i == MAX_WATCHED)
		return -ENOSPC;
	watched[i].ses = s;
	atomic_store(&watched[i].start, (uintptr_t)map);
	/* session and start before end: the handler never sees half an entry */
	atomic_store(&watched[i].end, (uintptr_t)map + size);
	if (i >= atomic_load(&num_watched))
		atomic_store(&num_watched, i + 1);
	return 0;
}

void sigbus_unwatch(void *map)
{
	uint32_t n = atomic_load(&num_watched);

	for (uint32_t i = 0; i < n; i++) {
		if (!atomic_load(&watched[i].end) ||
		    atomic_load(&watched[i].start) != (uintptr_t)map)
			continue;
		atomic_store(&watched[i].end, 0);
		if (i < first_free)
			first_free = i;
		return;
	}
}
