/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * active.c - the orchestrator is told which containers run or have sessions, so that nobody moves one
 * that runs. Control thread.
 *
 * Programs come and go as fast as they can; what is told is whether there are any, DELAY after the
 * first change, one call at a time for each container. It is forgotten with the connection.
 */
#include <stdlib.h>

#include "ffr/ctl/container.h"
#include "ffr/lib/log.h"
#include "ffr/orch/internal.h"

#define DELAY 20 /* ms */

static void told(void *arg, int err, const char *why, json_t *answer);
static void on_active(uv_timer_t *t);

/* Its container may go meanwhile, and is named by its id. */
struct active_call {
	struct orch *o;
	uint32_t id;
	bool active;
};

static void tell(struct orch *o, struct container *c)
{
	struct container_ctl *ct = c->ctl;
	bool active = !LIST_EMPTY(&c->sessions) || ct->runs;
	struct active_call *call;

	if (ct->active_busy || active == ct->active_told)
		return;
	call = malloc(sizeof(*call));
	if (!call) {
		uv_timer_start(&o->active, on_active, DELAY, 0);
		return;
	}
	*call = (struct active_call){ .o = o, .id = c->id, .active = active };
	ct->active_busy = true;
	orch_call(o, FFO_OP_CONTAINER_ACTIVE,
		  json_pack("{s:I, s:i}", "container", (json_int_t)c->id, "active", active), told,
		  call);
}

static void told(void *arg, int err, const char *why, json_t *answer)
{
	struct active_call *call = arg;
	struct orch *o = call->o;
	struct container *c = container_by_id(o->ctl, call->id);
	struct container_ctl *ct = c ? c->ctl : NULL;

	(void)answer;
	if (ct) {
		ct->active_busy = false;
		ct->active_told = call->active; /* also if it was refused: it makes no difference */
	}
	free(call);
	if (err && o->up)
		log_debug("orchestrator: container_active: %s", why);
	if (ct && o->up)
		tell(o, c);
}

static void on_active(uv_timer_t *t)
{
	struct orch *o = t->data;
	struct container *c;

	if (!o->up)
		return;
	LIST_FOREACH(c, &o->ctl->host->containers, entry)
		tell(o, c);
}

void orch_container_active(struct orch *o)
{
	if (o->up && !uv_is_active((uv_handle_t *)&o->active))
		uv_timer_start(&o->active, on_active, DELAY, 0);
}

void orch_active_up(struct orch *o)
{
	struct container *c;

	LIST_FOREACH(c, &o->ctl->host->containers, entry) {
		struct container_ctl *ct = c->ctl;

		ct->active_told = ct->active_busy = false;
	}
	orch_container_active(o);
}

void orch_active_init(struct orch *o)
{
	uv_timer_init(o->ctl->loop, &o->active);
	o->active.data = o;
	o->open_handles++;
}

void orch_active_stop(struct orch *o)
{
	uv_close((uv_handle_t *)&o->active, orch_on_handle_closed);
}
