/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * timer.h - deadlines of the fast thread: an intrusive binary heap. [lock]
 */
#ifndef FFR_LIB_TIMER_H
#define FFR_LIB_TIMER_H

#include <stdbool.h>
#include <stdint.h>

#define NS_PER_US 1000ull
#define NS_PER_MS 1000000ull

struct timer {
	uint64_t at;	/* ns */
	uint32_t index; /* place in the heap plus 1; 0: not armed */
	void (*fn)(struct timer *t);
};

struct timer_heap {
	struct timer **slot;
	uint32_t used, size;
};

/* Arm, or arm anew, for the time `at`. 0 or -ENOMEM (only when the heap must grow). */
int timer_arm(struct timer_heap *h, struct timer *t, uint64_t at);
void timer_cancel(struct timer_heap *h, struct timer *t);
/* Run what is due, in order, at most so many; the number run. */
uint32_t timer_run(struct timer_heap *h, uint64_t now, uint32_t max);
/* The next deadline, or UINT64_MAX. */
static inline uint64_t timer_next(const struct timer_heap *h)
{
	return h->used ? h->slot[0]->at : UINT64_MAX;
}
void timer_heap_free(struct timer_heap *h);

#endif
