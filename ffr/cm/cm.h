/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * cm.h - the connection manager of this host's containers, as the rest of the router sees it. All of
 * it belongs to the control thread. The contract with the clients, and what an id is, are in
 * abi/ff_cm.h; calls.c serves their messages.
 *
 * The room ffr/cm/ may use ctl/ and what that may, and sends to other hosts by remote/cm.h. Control
 * thread only.
 */
#ifndef FFR_CM_CM_H
#define FFR_CM_CM_H

#include <stdint.h>

#include "ffr/obj/objects.h"

struct cm;
struct ctl;

/* The router's connection manager: its timer runs in ctl->loop, and clients' calls come to it. NULL with
 * errno set. */
struct cm *cm_create(struct ctl *ctl);
/* No session is left. The memory goes when the loop has run. Takes NULL. */
void cm_free(struct cm *cm);

/* What an operator sees of a container. */
struct cm_counts {
	uint32_t ids, listeners, connections;
};
struct cm_counts cm_counts(const struct container *c);

/*
 * Run the timers that are due at `now`, which is uv_now() in ms; tests say any time. After CM_TURN_NS
 * the rest waits for the next turn of the loop, and the result is false.
 */
bool cm_expire(struct cm *cm, uint64_t now);

#endif
