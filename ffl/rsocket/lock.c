/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * lock.c - the lock of an rsocket: recursive, and it can be tried. Any thread.
 *
 * libc's mutexes can do that, too, but in glibc before 2.34 those functions are in libpthread, which
 * a program that has librdmacm preloaded need not have loaded: it would not start.
 *
 * The word is 0: free, 1: held, 2: held, and somebody may be asleep (Drepper, "Futexes are tricky").
 * The owner is looked at without the lock: it is this thread's name only if this thread wrote it.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ffl/rsocket/rsocket.h"

static bool take(struct rs_lock *l, uint32_t as)
{
	uint32_t zero = 0;

	if (!atomic_compare_exchange_strong_explicit(&l->word, &zero, as, memory_order_acquire,
						     memory_order_relaxed))
		return false;
	atomic_store_explicit(&l->owner, (uintptr_t)pthread_self(), memory_order_relaxed);
	l->depth = 1;
	return true;
}

bool rs_trylock(struct rs_lock *l)
{
	if (atomic_load_explicit(&l->owner, memory_order_relaxed) == (uintptr_t)pthread_self()) {
		l->depth++;
		return true;
	}
	return take(l, 1);
}

void rs_lock(struct rs_lock *l)
{
	uint32_t one;

	if (rs_trylock(l))
		return;
	do {
		one = 1;
		atomic_compare_exchange_strong(&l->word, &one, 2);
		if (one) /* it is still held, and says so with 2 */
			syscall(SYS_futex, &l->word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
	} while (!take(l, 2));
}

void rs_unlock(struct rs_lock *l)
{
	if (--l->depth)
		return;
	atomic_store_explicit(&l->owner, 0, memory_order_relaxed);
	if (atomic_exchange_explicit(&l->word, 0, memory_order_release) == 2)
		syscall(SYS_futex, &l->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
