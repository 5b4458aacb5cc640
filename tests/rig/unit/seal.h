/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * seal.h - what a client does with a segment when it has mapped it: it seals the segment, and the router touches the
 * segment from then on (ffr/mem/seg.c). The clients of rigs map no segments.
 */
#ifndef SEAL_H
#define SEAL_H

#include <fcntl.h>
#include <stdlib.h>

#include "ffr/fast/fast.h"

static inline void client_seals(const struct seg *seg)
{
	if (fcntl(seg->fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE))
		abort();
}

/* Those of all sessions of the host. */
static inline void clients_seal(const struct fast_host *host)
{
	struct container *c;
	struct session *s;

	LIST_FOREACH(c, &host->containers, entry)
		LIST_FOREACH(s, &c->sessions, entry)
			for (uint32_t i = 0; i < s->mem.num_segs; i++)
				client_seals(&s->mem.segs[i]);
}

#endif
