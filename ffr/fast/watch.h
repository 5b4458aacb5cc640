/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * watch.h - does the watcher look at the runner, or sleep? roles.c, whose threads these are.
 *
 * While the runner makes calls, and for a while after, the watcher is armed: it looks with each tick. Then it
 * disarms itself and sleeps until it is armed again. Each side stores first and looks then, all of it
 * seq_cst: the runner begins its call (or wants a worker) and looks whether the watcher is armed; the watcher disarms
 * itself and looks whether a call has begun (or a worker is wanted). So one of them sees the other, and no runner is
 * stuck in a call that nobody looks at. tests/unit/model/test_watch.c tries all orders.
 */
#ifndef FFR_FAST_WATCH_H
#define FFR_FAST_WATCH_H

#include "ffr/fast/pvm_int.h"

/* There is something to look after. True: wake the watcher, by the futex `armed`. */
static inline bool watch_arm(struct pvm *p)
{
	if (atomic_load(&p->armed))
		return false;
	atomic_store(&p->armed, 1);
	return true;
}

/* [lock] The runner begins a call. True: as above. */
static inline bool watch_call(struct pvm *p)
{
	atomic_fetch_add(&p->call_seq, 1);
	return watch_arm(p);
}

/* The watcher has seen no call for long, the last time call_seq was seq. */
static inline void watch_disarm(struct pvm *p, uint32_t seq)
{
	atomic_store(&p->armed, 0);
	if (atomic_load(&p->call_seq) != seq || atomic_load(&p->hire) == HIRE_WANTED)
		atomic_store(&p->armed, 1);
}

#endif
