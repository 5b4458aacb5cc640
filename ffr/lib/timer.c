/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * timer.c - an intrusive binary heap of deadlines. Fast lock held; see timer.h.
 */
#include "ffr/lib/timer.h"

#include <errno.h>
#include <stdlib.h>

static void place(struct timer_heap *h, struct timer *t, uint32_t i)
{
	h->slot[i] = t;
	t->index = i + 1;
}

static void sift_up(struct timer_heap *h, struct timer *t, uint32_t i)
{
	while (i) {
		uint32_t parent = (i - 1) / 2;

		if (h->slot[parent]->at <= t->at)
			break;
		place(h, h->slot[parent], i);
		i = parent;
	}
	place(h, t, i);
}

static void sift_down(struct timer_heap *h, struct timer *t, uint32_t i)
{
	for (;;) {
		uint32_t child = 2 * i + 1;

		if (child >= h->used)
			break;
		if (child + 1 < h->used && h->slot[child + 1]->at < h->slot[child]->at)
			child++;
		if (t->at <= h->slot[child]->at)
			break;
		place(h, h->slot[child], i);
		i = child;
	}
	place(h, t, i);
}

int timer_arm(struct timer_heap *h, struct timer *t, uint64_t at)
{
	timer_cancel(h, t);
	if (h->used == h->size) {
		uint32_t size = h->size ? 2 * h->size : 64;
		struct timer **slot = realloc(h->slot, size * sizeof(*slot));

		if (!slot)
			return -ENOMEM;
		h->slot = slot;
		h->size = size;
	}
	t->at = at;
	sift_up(h, t, h->used++);
	return 0;
}

void timer_cancel(struct timer_heap *h, struct timer *t)
{
	uint32_t i = t->index;
	struct timer *last;

	if (!i)
		return;
	i--;
	t->index = 0;
	last = h->slot[--h->used];
	if (last == t)
		return;
	if (i && last->at < h->slot[(i - 1) / 2]->at)
		sift_up(h, last, i);
	else
		sift_down(h, last, i);
}

uint32_t timer_run(struct timer_heap *h, uint64_t now, uint32_t max)
{
	uint32_t n = 0;

	while (n < max && h->used && h->slot[0]->at <= now) {
		struct timer *t = h->slot[0];

		timer_cancel(h, t);
		t->fn(t);
		n++;
	}
	return n;
}

void timer_heap_free(struct timer_heap *h)
{
	free(h->slot);
	h->slot = NULL;
	h->used = h->size = 0;
}
