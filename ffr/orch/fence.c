/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fence.c - a host that is cut off from everybody stops serving its containers, because an operator
 * may have had them moved with --force meanwhile. Control thread.
 *
 * A host is cut off while it has lost the orchestrator, knows other hosts, and has a connection to
 * none of them: nobody can ask it whether a container runs (claim.c), and nobody can tell it that
 * one has moved. After fence_after seconds of that, sessions are closed and no new ones are let in,
 * until the orchestrator is back and has said which containers are still this host's. While one
 * connection lives nothing is fenced: a lost control plane ends no data path. Nor is anything
 * fenced on a host that knows no other one, or that has the orchestrator in itself (embedded).
 *
 * What remains: between a claim with --force and the end of fence_after two hosts serve one
 * address, each to those who reach it.
 *
 * Tests: unit/orch/test_fence.c, system/fence.sh
 */
#include <string.h>

#include "ffr/ctl/container.h"
#include "ffr/lib/log.h"
#include "ffr/obj/events.h"
#include "ffr/orch/internal.h"
#include "ffr/peer/peer.h"

#define TICK 500 /* ms */

static void on_tick(uv_timer_t *t)
{
	struct orch *o = t->data;
	uint64_t now = uv_now(o->ctl->loop);
	uint32_t known;

	if (peers_seek(o->conf.peers, &known) || !known || !o->alone_since) {
		o->alone_since = now;
		return;
	}
	if (now - o->alone_since < (uint64_t)o->conf.fence_after * 1000)
		return;
	uv_timer_stop(t);
	o->fenced = true;
	log_err("cut off: no orchestrator and no other host for %u s (fence_after): containers have no device until the orchestrator is back",
		o->conf.fence_after);
	event_add(EVENT_FENCED, NULL, "no orchestrator and no other host for %u s (fence_after)",
		  o->conf.fence_after);
	containers_fence(o->ctl, true);
}

void orch_fence_down(struct orch *o)
{
	if (!o->conf.fence_after || !o->conf.peers || !strcmp(o->conf.where, "embedded") ||
	    o->fenced || uv_is_active((uv_handle_t *)&o->fence))
		return;
	o->alone_since = 0;
	uv_timer_start(&o->fence, on_tick, TICK, TICK);
}

void orch_fence_reached(struct orch *o)
{
	uv_timer_stop(&o->fence);
}

void orch_fence_up(struct orch *o)
{
	uv_timer_stop(&o->fence);
	if (o->fenced) {
		log_info("no longer cut off: containers have their device again");
		event_add(EVENT_UNFENCED, NULL, "the orchestrator is back");
	}
	o->fenced = false;
	containers_fence(o->ctl, false);
}

void orch_fence_init(struct orch *o)
{
	uv_timer_init(o->ctl->loop, &o->fence);
	o->fence.data = o;
	o->open_handles++;
}

void orch_fence_stop(struct orch *o)
{
	uv_close((uv_handle_t *)&o->fence, orch_on_handle_closed);
}
