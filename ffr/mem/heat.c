/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * heat.c - the parts of large MRs that are used while the router has no pointer to them. heat_used() and
 * heat_tell(): runners, called by soft/xfer.c; the rest: control thread, called by ctl/mr.c and ctl/hot.c.
 *
 * Theory of operation
 * -------------------
 * Giving the router pointers to private memory means to replace the pages beneath the program, which takes
 * longer than to copy them. So the library registers large memory as it is (ffl/mem/heat.c), and the router
 * copies through the process at first. It counts these copies, for each MR in parts of equal size, and puts
 * a part that is used again after HEAT_TIMES its bytes were moved into the session's ring. The control thread tells
 * the library (ctl/hot.c), which replaces what it likes of it, and says so by MAP_MR. Nothing depends on that but
 * speed.
 *
 * The counts are the router's own: a client can make a part of its own memory hot by using it, and that is
 * all. They are kept in at most HEAT_PARTS words, however large an MR is said to be, and the bytes that are
 * mapped cost nothing. A part is told of once; one that is not replaced stays as it is.
 */
#include "ffr/mem/heat.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

/* A part has what the library replaces at once (FF_HEAT_SLICE), or more. */
#define SHIFT_MIN 21u
/* With parts of 1 << SHIFT_MAX bytes used[] cannot overflow. */
#define SHIFT_MAX 33u

static_assert((1ull << SHIFT_MAX) / 16 * HEAT_TIMES < HEAT_TOLD / 2, "");
static_assert(1ull << SHIFT_MIN == FF_HEAT_SLICE, "");

struct heat *heat_new(const struct mr *mr)
{
	uint64_t base = mr->addr & ~(uint64_t)(FF_PAGE - 1);
	uint64_t len = mr->addr + mr->length - base;
	uint32_t shift = SHIFT_MIN;
	struct heat *h;
	uint64_t num;

	if (!mr->o.ses->mem.hot || mr->kind != MR_USER || mr->length - mr->zero_copy < HEAT_MIN)
		return NULL;
	while (shift < SHIFT_MAX && len >> shift >= HEAT_PARTS)
		shift++;
	num = ((len - 1) >> shift) + 1;
	if (num > HEAT_PARTS) /* what is beyond is not counted */
		num = HEAT_PARTS;
	h = calloc(1, sizeof(*h) + num * sizeof(h->used[0]));
	if (!h)
		return NULL;
	h->base = base;
	h->shift = shift;
	h->num = (uint32_t)num;
	h->hot = (uint32_t)((num > 1 ? (uint64_t)1 << shift : len) / 16 * HEAT_TIMES);
	return h;
}

void heat_tell(struct mr *mr, uint32_t part)
{
	const struct heat *h = mr->heat;
	struct heat_ring *r = mr->o.ses->mem.hot;
	uint32_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
	uint64_t end = h->base + (((uint64_t)part + 1) << h->shift);
	struct heat_part *p = &r->part[head % HEAT_RING];
	struct timespec now;

	if (head - atomic_load_explicit(&r->tail, memory_order_acquire) >= HEAT_RING)
		return;
	clock_gettime(CLOCK_MONOTONIC, &now);
	p->mr = mr->o.handle;
	p->va = h->base + ((uint64_t)part << h->shift);
	if (p->va < mr->addr)
		p->va = mr->addr;
	if (end > mr->addr + mr->length)
		end = mr->addr + mr->length;
	p->len = end - p->va;
	p->at = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	/* the part before the head: the control thread reads no half of it */
	atomic_store_explicit(&r->head, head + 1, memory_order_release);
	mr->heat->used[part] = HEAT_TOLD;
	r->wake(r->arg);
}

const struct heat_part *heat_first(const struct heat_ring *r)
{
	uint32_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);

	if (tail == atomic_load_explicit(&r->head, memory_order_acquire))
		return NULL;
	return &r->part[tail % HEAT_RING];
}

void heat_took(struct heat_ring *r)
{
	atomic_fetch_add_explicit(&r->tail, 1, memory_order_release);
}
