/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * filter.c - seccomp filters that the program installs for all its threads, and the library's thread (heat.c). Any
 * thread; the gate is heat.c's.
 *
 * Theory of operation
 * -------------------
 * A filter with SECCOMP_FILTER_FLAG_TSYNC is in force on all threads of the process at once, in the middle of whatever
 * they do. A thread that then makes a call which the filter forbids ends the process. The router sends heat.c's thread
 * nothing to do once there is such a filter, but one may come between the router's look and the end of the work.
 *
 * So who installs one by libc's syscall(), as libseccomp does, comes here first (entry/syscall.c), where
 * libibverbs.so.1 stands before libc in the program's lookup scope: where the program, or one of its libraries, is
 * linked with it. The gate is closed, the thread leaves it, and then the filter is installed. From then on the thread
 * makes no call but read(2). What is installed in another way (by a bare system call; where the library was loaded by
 * dlopen()) has the router's look only. prctl() needs no gate, because its filters are for the calling thread.
 *
 * Tests: test_filter.c
 */
#include <errno.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ffl/mem/region.h"

#ifndef SECCOMP_FILTER_FLAG_NEW_LISTENER
#define SECCOMP_FILTER_FLAG_NEW_LISTENER (1ul << 3)
#endif

#define CLOSED ((uint32_t)1 << 31)

static _Atomic uint32_t gate; /* threads that are inside, and CLOSED */
static _Atomic pid_t
	owner; /* the process that they are of: not a child that shares, or has copied, its memory */

/* ---- the gate ---------------------------------------------------------------------------------- */

void ffl_gate_init(void)
{
	pid_t pid = getpid();

	if (atomic_exchange(&owner, pid) != pid)
		atomic_fetch_and(&gate, CLOSED);
}

bool ffl_gate_enter(void)
{
	uint32_t n = atomic_load(&gate);

	while (!(n & CLOSED))
		if (atomic_compare_exchange_weak(&gate, &n, n + 1))
			return true;
	return false;
}

void ffl_gate_leave(void)
{
	atomic_fetch_sub(&gate, 1);
}

/* ---- the call ---------------------------------------------------------------------------------- */

/* Not by syscall(), which comes here. */
static long seccomp_call(unsigned long op, unsigned long flags, void *arg)
{
#ifdef __x86_64__
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(SYS_seccomp), "D"(op), "S"(flags), "d"(arg)
			 : "rcx", "r11", "memory");
	return ret;
#else
	register long nr __asm__("x8") = SYS_seccomp;
	register unsigned long x0 __asm__("x0") = op, x1 __asm__("x1") = flags;
	register void *x2 __asm__("x2") = arg;

	__asm__ volatile("svc #0" : "+r"(x0) : "r"(nr), "r"(x1), "r"(x2) : "memory", "cc");
	return (long)x0;
#endif
}

/* No thread is inside afterwards, nor will one be. True: it was open. */
static bool gate_close(void)
{
	bool was_open = !(atomic_fetch_or(&gate, CLOSED) & CLOSED);

	while (atomic_load(&gate) & ~CLOSED)
		sched_yield(); /* at most what replacing one part takes */
	return was_open;
}

/* Of all threads: the number of one that cannot have the filter is a failure, too; that of a listener is none. */
static bool has_failed(long ret, unsigned long flags)
{
	return ret < 0 || (ret > 0 && !(flags & SECCOMP_FILTER_FLAG_NEW_LISTENER));
}

/* syscall(SYS_seccomp, ...) */
long ffl_filter_seccomp(long nr, unsigned long op, unsigned long flags, void *arg)
{
	bool all = op == SECCOMP_SET_MODE_FILTER && flags & SECCOMP_FILTER_FLAG_TSYNC &&
		   atomic_load(&owner) == getpid();
	bool was_open = all && gate_close();
	long ret = seccomp_call(op, flags, arg);

	(void)nr;
	if (was_open && has_failed(ret, flags))
		atomic_fetch_and(&gate, ~CLOSED);
	return ret < 0 && ret > -4096 ? ffl_filter_failed(ret) : ret;
}

long ffl_filter_failed(long err)
{
	errno = (int)-err;
	return -1;
}
