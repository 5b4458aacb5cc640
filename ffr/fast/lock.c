/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * lock.c - the lock of a fast thread, between its runner, the control thread and the runner's workers (roles.c).
 *
 * Each thread holds the lock for some microseconds at a time. A wake-up from a mutex takes longer than that (20 to 40
 * us on a virtual machine), and nobody's requests would be served meanwhile. So a waiter spins first, unless it is on
 * the CPU of the lock's holder.
 *
 * The runner would have the lock again before a waiter sees that the lock was free. So the runner lends the lock: it
 * unlocks, and waits until a waiter has had the lock. The waiter may have made work for the runner, which was awake and
 * so was not kicked. Therefore `taken` counts how often others had the lock, and the runner looks for work again.
 *
 * The mutex is handed over to a sleeping waiter, and raises its holder's priority to the waiter's
 * (PTHREAD_PRIO_INHERIT).
 */
#include <sched.h>

#include "ffr/abi/ff_ring.h"
#include "ffr/fast/internal.h"

#define SPIN_NS (20 * NS_PER_US) /* how long a waiter spins before it sleeps */
#define LEND_NS (3 * NS_PER_US)	 /* how long a lock is lent: a spinning waiter takes it sooner */
#define PAUSES	8		 /* pause instructions between two looks of a spinning waiter */

int lock_init(struct fast *f)
{
	pthread_mutexattr_t a;
	int err;

	pthread_mutexattr_init(&a);
	err = pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT);
	if (!err)
		err = pthread_mutex_init(&f->lock, &a);
	pthread_mutexattr_destroy(&a);
	return -err;
}

static void pause_a_little(void)
{
	for (int i = 0; i < PAUSES; i++)
		ff_relax();
}

static bool spin_for(struct fast *f, uint32_t cpu)
{
	uint64_t until;

	if (!pthread_mutex_trylock(&f->lock))
		return true;
	until = fast_clock() + SPIN_NS;
	while (atomic_load_explicit(&f->lock_cpu, memory_order_relaxed) != cpu &&
	       fast_clock() < until) {
		pause_a_little();
		if (!pthread_mutex_trylock(&f->lock))
			return true;
	}
	return false;
}

void lock_take(struct fast *f)
{
	if (!spin_for(f, (uint32_t)sched_getcpu()))
		pthread_mutex_lock(&f->lock);
	atomic_store_explicit(&f->lock_cpu, (uint32_t)sched_getcpu(), memory_order_relaxed);
}

void lock_again(struct fast *f)
{
	atomic_fetch_add(&f->lock_wanted, 1);
	lock_take(f);
	atomic_fetch_sub(&f->lock_wanted, 1);
	f->taken++;
}

bool lock_lend(struct fast *f)
{
	uint64_t until = fast_clock() + LEND_NS, taken = f->taken;

	pthread_mutex_unlock(&f->lock);
	while (atomic_load_explicit(&f->lock_wanted, memory_order_relaxed) && fast_clock() < until)
		pause_a_little();
	lock_take(f);
	return f->taken != taken;
}

/* lock_wanted counts the caller already. */
static void take_wanted(struct fast *f)
{
	lock_take(f);
	atomic_fetch_sub(&f->lock_wanted, 1);
	f->taken++;
}

void fast_lock_thread(struct fast *f)
{
	atomic_fetch_add(&f->lock_wanted, 1);
	take_wanted(f);
	fast_tick(f); /* the runner may have been asleep */
}

void fast_unlock_thread(struct fast *f)
{
	pthread_mutex_unlock(&f->lock);
}

void fast_lock(struct fast_host *h)
{
	for (uint32_t i = 0; i < h->num_threads; i++)
		atomic_fetch_add(&h->threads[i]->lock_wanted, 1);
	for (uint32_t i = 0; i < h->num_threads; i++)
		take_wanted(h->threads[i]);
	/* the runners may have been asleep */
	for (uint32_t i = 0; i < h->num_threads; i++)
		fast_tick(h->threads[i]);
}

void fast_unlock(struct fast_host *h)
{
	for (uint32_t i = h->num_threads; i-- > 0;)
		pthread_mutex_unlock(&h->threads[i]->lock);
}
