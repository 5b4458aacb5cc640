/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * orch.h - the router as a client of the orchestrator. See orch.c. Control thread.
 */
#ifndef FFR_ORCH_ORCH_H
#define FFR_ORCH_ORCH_H

#include <jansson.h>

#include "ffo/client/client.h"
#include "ffr/router.h"

/* Connects, registers the host, attaches its containers, and calls ready() when it is known or cannot be
 * reached. 0 or -errno. */
int orch_start(struct router *r, void (*ready)(struct router *r));
/* Closes it; its handles close while the loop runs, and then it is freed. NULL is fine. */
void orch_stop(struct orch *o);

/*
 * Ask. Takes the reference `fields` (an object with the op's fields). cb is called once, perhaps
 * before the return: -ENOTCONN while the orchestrator cannot be reached.
 */
void orch_call(struct orch *o, enum ffo_op op, json_t *fields, ffo_reply_cb cb, void *arg);

/*
 * A container of this host, as the orchestrator has it: attached, or as it says. NULL: *err is why.
 */
struct container *orch_container(struct router *r, const struct ffo_container *info, int *err);

#endif
