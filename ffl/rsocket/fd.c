/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fd.c - from a descriptor to its rsocket. Any thread; looking up takes no lock.
 *
 * Two levels: chunks of pointers, made when the first descriptor of theirs comes, and never freed.
 */
#include <stdlib.h>

#include "ffl/rsocket/rsocket.h"

#define CHUNK	   1024u /* descriptors */
#define NUM_CHUNKS 1024u /* the kernel's default limit of a process is 2^20 */

typedef _Atomic(struct rsocket *) rs_slot;
static _Atomic(rs_slot *) chunks[NUM_CHUNKS];

static rs_slot *slot_of(int fd)
{
	rs_slot *chunk;

	if (fd < 0 || (unsigned)fd >= CHUNK * NUM_CHUNKS)
		return NULL;
	chunk = atomic_load_explicit(&chunks[(unsigned)fd / CHUNK], memory_order_acquire);
	return chunk ? &chunk[(unsigned)fd % CHUNK] : NULL;
}

int rs_fd_put(int fd, struct rsocket *rs)
{
	rs_slot *slot, *none = NULL, *fresh;

	if (fd < 0 || (unsigned)fd >= CHUNK * NUM_CHUNKS)
		return -EMFILE;
	if (!slot_of(fd)) {
		fresh = calloc(CHUNK, sizeof(*fresh));
		if (!fresh)
			return -ENOMEM;
		if (!atomic_compare_exchange_strong(&chunks[(unsigned)fd / CHUNK], &none, fresh))
			free(fresh);
	}
	slot = slot_of(fd);
	atomic_store_explicit(slot, rs, memory_order_release);
	return 0;
}

void rs_fd_del(int fd)
{
	rs_slot *slot = slot_of(fd);

	if (slot)
		atomic_store_explicit(slot, NULL, memory_order_release);
}

struct rsocket *rs_fd_get(int fd)
{
	rs_slot *slot = slot_of(fd);

	return slot ? atomic_load_explicit(slot, memory_order_acquire) : NULL;
}

struct rsocket *rs_fd_next(int *fd)
{
	while (*fd >= 0 && (unsigned)*fd < CHUNK * NUM_CHUNKS) {
		rs_slot *slot = slot_of(*fd);
		struct rsocket *rs;

		if (!slot) {
			*fd = (int)(((unsigned)*fd / CHUNK + 1) * CHUNK);
			continue;
		}
		++*fd;
		rs = atomic_load_explicit(slot, memory_order_acquire);
		if (rs)
			return rs;
	}
	return NULL;
}
