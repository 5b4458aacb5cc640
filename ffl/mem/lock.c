/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * lock.c - the region lock, under which the program's pages are replaced, and looked at before. Any thread.
 *
 * Tests: test_region.c, test_fork.c
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ffl/mem/region.h"
#include "ffl/session/symver.h"

#define KERNEL_SIGSET_SIZE 8 /* bytes */
#define PASS_YIELDS	   1000u
#define LOCK_NS		   2000000000u

FFL_LIBC_BASE(pthread_mutex_trylock);
#pragma weak pthread_mutex_trylock /* in libc itself since glibc 2.34, as _Fork() */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t lock_signals;	 /* mask of the thread that has the lock, as it was */
static _Atomic uint32_t waiting; /* threads that wait for it */

/* By the bare system call: the library function would leave out libc's internal signals. The mask as it was. */
static uint64_t wait_begin(void)
{
	uint64_t all = ~(uint64_t)0, old;

	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &old, KERNEL_SIGSET_SIZE);
	atomic_fetch_add(&waiting, 1);
	return old;
}

void ffl_regions_lock(void)
{
	uint64_t old = wait_begin();

	pthread_mutex_lock(&lock);
	atomic_fetch_sub(&waiting, 1);
	lock_signals = old;
}

bool ffl_regions_lock_soon(void)
{
	uint64_t since = ffl_clock_ns(CLOCK_MONOTONIC), old = wait_begin();
	bool locked = !pthread_mutex_trylock;

	if (locked)
		pthread_mutex_lock(&lock);
	while (!locked && !(locked = !pthread_mutex_trylock(&lock)) &&
	       ffl_clock_ns(CLOCK_MONOTONIC) - since <= LOCK_NS)
		sched_yield();
	atomic_fetch_sub(&waiting, 1);
	if (locked)
		lock_signals = old;
	else
		syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, KERNEL_SIGSET_SIZE);
	return locked;
}

bool ffl_regions_trylock(void)
{
	uint64_t old = wait_begin();
	int err = pthread_mutex_trylock ? pthread_mutex_trylock(&lock) : pthread_mutex_lock(&lock);

	atomic_fetch_sub(&waiting, 1);
	if (err)
		syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, KERNEL_SIGSET_SIZE);
	else
		lock_signals = old;
	return !err;
}

void ffl_regions_unlock(void)
{
	uint64_t old = lock_signals;

	pthread_mutex_unlock(&lock);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, KERNEL_SIGSET_SIZE);
}

void ffl_regions_pass(void)
{
	for (unsigned i = 0; atomic_load(&waiting) && i < PASS_YIELDS; i++)
		sched_yield();
}

void ffl_regions_lock_forget(void)
{
	atomic_store(&waiting, 0);
}
