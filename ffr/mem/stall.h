/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * stall.h - how long a container's files have kept the control thread waiting, and what the router does about it.
 * Control thread; stall_wait_begin() and stall_waited() also threads of libuv's. See stall.c.
 */
#ifndef FFR_MEM_STALL_H
#define FFR_MEM_STALL_H

#include "ffr/obj/objects.h"

/* An operation on a file that a client can lock. */
struct stall_wait {
	uint64_t from, cpu, awaited; /* ns */
	long sleeps;
};

/* Once, on the control thread, before it is in its sandbox. */
void stall_init(void);
void stall_wait_begin(struct stall_wait *w);
/* ns that the kernel has kept this thread waiting since then; 0: not worth counting. */
uint64_t stall_waited(const struct stall_wait *w);

/* Charge a container with so many ns. */
void stall_charge(struct container *c, uint64_t ns);
/* A session of it ends since its memory was gone, and kept a runner waiting for so many ns. */
void stall_memory_gone(struct container *c, uint64_t ns);
/* What stall_waited() says, charged. */
void stall_wait_end(struct container *c, const struct stall_wait *w);
/* Is the container's memory to be copied, and no file of it to be mapped? */
bool stall_maps_no_file(const struct container *c);
/* In how many ms files can be mapped for the container, and half of what it may owe is left to it; 0: now. */
uint64_t stall_room_in(const struct container *c);

#endif
