/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * op_later.c - the ops that are known and not carried out yet. The orchestrator's loop only.
 */
#include "server.h"

#include <errno.h>

#define LATER(op)                                                                                  \
	int op_##op(struct request *r)                                                             \
	{                                                                                          \
		return request_fail(r, -EOPNOTSUPP, #op " is not carried out yet");                \
	}

LATER(map_get)
LATER(map_watch)
LATER(map_unwatch)
LATER(container_active)
LATER(resolve)
LATER(unresolve)
LATER(policy_list)
LATER(policy_set)
LATER(policy_rm)
LATER(policy_watch)
LATER(mcast_join)
LATER(mcast_leave)
LATER(mcast_watch)
LATER(mcast_unwatch)
