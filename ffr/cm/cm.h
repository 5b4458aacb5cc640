/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * cm.h - the connection manager of this host's containers, as the rest of the router sees it. All of
 * it belongs to the control thread. The contract with the clients, and what an id is, are in
 * abi/ff_cm.h; calls.c serves their messages.
 */
#ifndef FFR_CM_CM_H
#define FFR_CM_CM_H

#include <stdint.h>

#include "ffr/obj/objects.h"
#include "ffr/router.h"

struct cm;

/* The router's connection manager: its timer runs in r->loop. NULL with errno set. */
struct cm *cm_create(struct router *r);
/* No session is left. The memory goes when the loop has run. Takes NULL. */
void cm_free(struct cm *cm);

/*
 * The session ends: at most `num` of its ids, from table index *at on, are destroyed, as if it had said
 * so. True: it has no more; if not, once more with *at as it is now.
 */
bool cm_session_gone(struct session *s, uint32_t *at, uint32_t num);
/* The channel is destroyed: likewise the ids that have it, at most `num`. True: there are no more. */
bool cm_channel_gone(struct channel *ch, uint32_t num);

/* What an operator sees of a container. */
struct cm_counts {
	uint32_t ids, listeners, connections;
};
struct cm_counts cm_counts(const struct container *c);

/* Everything due at `now` (uv_now(), ms) happens: what the timer does; tests say any time. */
void cm_expire(struct cm *cm, uint64_t now);

#endif
