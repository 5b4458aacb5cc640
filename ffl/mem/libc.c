/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libc.c - functions of libc that stand before libc's own, for programs that link with libibverbs.
 * Any thread, any time: in signal handlers, in allocators, before this library has a context.
 *
 * Theory of operation
 * -------------------
 * Shadow pages are a shared mapping (region.c). Most of what a program asks of its memory the kernel
 * does for that as for private memory, or tells the router of (ffr/mem/watch.c). The rest is here:
 *
 *	_Fork(), clone() without CLONE_VM	no handlers run, so fork.c is called from here
 *
 * The call itself is the kernel's, or libc's where libc does more. A program that never had shadow
 * pages pays for one look at a variable. Bare system calls pass all this by, and so do programs that
 * load libibverbs later, by dlopen(): their names are bound by then.
 *
 * _Fork() is async-signal-safe. The region lock's holder may wait for what the interrupted thread has,
 * the heap's lock for instance. So the lock is waited for 2 s, and then the child has nothing at shadow
 * pages. The interrupted thread does not have the region lock itself, which blocks all signals.
 *
 * Tests: test_libc.c
 */
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/types.h>
#include <unistd.h>

#include "ffl/mem/region.h"
#include "ffl/session/symver.h"

typedef int clone_fn(int (*fn)(void *), void *stack, int flags, void *arg, ...);

/*
 * dlsym() has been in libc since glibc 2.34, as _Fork() has. Before that, and for clone(), which has a
 * second name there, it is not needed.
 */
FFL_LIBC_BASE(dlsym);
#pragma weak dlsym
#ifdef __GLIBC__
clone_fn __clone;
#endif

static void *next(const char *name)
{
	return dlsym ? dlsym(RTLD_NEXT, name) : NULL;
}

/* ---- children ---------------------------------------------------------------------------- */

static pid_t (*_Atomic libc_fork)(void);

__attribute__((constructor)) static void find_fork(void)
{
	libc_fork = (pid_t(*)(void))next("_Fork");
}

FFL_EXPORT pid_t _Fork(void)
{
	bool begun;
	pid_t pid;

	if (!libc_fork)
		find_fork();
	if (!libc_fork) {
		errno = ENOSYS;
		return -1;
	}
	begun = ffl_fork_begin(NULL);
	pid = libc_fork();
	if (begun && pid)
		ffl_fork_parent(pid);
	else if (begun)
		ffl_fork_child(false);
	return pid;
}

/* What a child made by clone() begins with. */
struct start {
	int (*fn)(void *);
	void *arg;
	int flags;
};

static int start_child(void *arg)
{
	struct start s = *(struct start *)arg;

	ffl_fork_child(s.flags & CLONE_FILES);
	return s.fn(s.arg);
}

static clone_fn *libc_clone(void)
{
#ifdef __GLIBC__
	return __clone;
#else
	return (clone_fn *)next("clone");
#endif
}

FFL_EXPORT int clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
	struct start s = { fn, arg, flags };
	void *parent_tid, *tls, *child_tid;
	va_list ap;
	int pid;

	va_start(ap, arg);
	parent_tid = va_arg(ap, void *);
	tls = va_arg(ap, void *);
	child_tid = va_arg(ap, void *);
	va_end(ap);
	if (flags & CLONE_VM || !fn || !stack || !ffl_fork_begin(stack))
		return libc_clone()(fn, stack, flags, arg, parent_tid, tls, child_tid);
	pid = libc_clone()(start_child, stack, flags, &s, parent_tid, tls, child_tid);
	ffl_fork_parent(pid);
	return pid;
}
