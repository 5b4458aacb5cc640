/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * heat.c - the parts of large MRs that are used while the router has no pointer to them. heat_used() and
 * heat_tell(): runners, called by soft/xfer.c; the rest: control thread, called by ctl/mr.c and session.c.
 *
 * Theory of operation
 * -------------------
 * Giving the router pointers to private memory means to replace the pages beneath the program, which takes
 * longer than to copy them. So the library registers large memory as it is (ffl/mem/heat.c), and the router
 * copies through the process at first. It counts these copies, for each MR in parts of equal size, and tells
 * the library of a part that is used again after all its bytes were moved. The library replaces what it likes
 * of it, and says so by MAP_MR. Nothing depends on that but speed.
 *
 * The counts are the router's own: a client can make a part of its own memory hot by using it, and that is
 * all. They are kept in at most HEAT_PARTS words, however large an MR is said to be, and the bytes that are
 * mapped cost nothing. A part is told of once; one that is not replaced stays as it is.
 */
#include "ffr/mem/heat.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* With parts of 1 << SHIFT_MAX bytes used[] cannot overflow. */
#define SHIFT_MIN 20u
#define SHIFT_MAX 35u

struct heat *heat_new(const struct mr *mr)
{
	uint64_t base = mr->addr & ~(uint64_t)(FF_PAGE - 1);
	uint64_t len = mr->addr + mr->length - base;
	uint32_t shift = SHIFT_MIN;
	struct heat *h;
	uint64_t num;

	if (!mr->o.ses->mem.heated || mr->kind != MR_USER || mr->length - mr->zero_copy < HEAT_MIN)
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
	return h;
}

void heat_tell(struct mr *mr, uint32_t part)
{
	const struct heat *h = mr->heat;
	struct ff_heat_event e = { .mr = mr->o.handle };
	uint64_t end = h->base + (((uint64_t)part + 1) << h->shift);
	const struct session *s = mr->o.ses;
	struct timespec now;

	e.va = h->base + ((uint64_t)part << h->shift);
	if (e.va < mr->addr)
		e.va = mr->addr;
	if (end > mr->addr + mr->length)
		end = mr->addr + mr->length;
	e.len = end - e.va;
	clock_gettime(CLOCK_MONOTONIC, &now);
	e.sent = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	/* a full socket: when the part is used again */
	if (send(s->mem.heat_fd, &e, sizeof(e), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(e) ||
	    (errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM))
		mr->heat->used[part] = HEAT_TOLD;
}

void heat_end(struct session *s)
{
	if (!s->mem.heated)
		return;
	s->mem.heated = false;
	close(s->mem.heat_fd);
}
