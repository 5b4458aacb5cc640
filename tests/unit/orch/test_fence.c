/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_fence.c - ffr/orch/fence.c: when a host that is cut off stops serving its containers, and
 * when it begins again. Time is virtual.
 */
#include <string.h>

#include "ffr/ctl/container.h"
#include "ffr/lib/log.h"
#include "ffr/obj/events.h"
#include "ffr/orch/internal.h"
#include "ffr/peer/peer.h"
#include "tests/rig/unit/unit.h"

static struct {
	uint64_t ms;
	uint32_t known, connected; /* other hosts */
	bool fenced;		   /* the containers are */
	unsigned fenced_events, unfenced_events;
} world;

static uint64_t virtual_now(const uv_loop_t *loop)
{
	(void)loop;
	return world.ms;
}

static uint32_t world_seek(struct peers *ps, uint32_t *known)
{
	(void)ps;
	*known = world.known;
	return world.connected;
}

static void world_fence(struct ctl *ctl, bool fenced)
{
	(void)ctl;
	world.fenced = fenced;
}

static void world_event(enum event_kind kind, const struct container *c, const char *fmt, ...)
{
	(void)c, (void)fmt;
	world.fenced_events += kind == EVENT_FENCED;
	world.unfenced_events += kind == EVENT_UNFENCED;
}

static void handle_closed(uv_handle_t *h)
{
	((struct orch *)h->data)->open_handles--;
}

#define uv_now		      virtual_now
#define peers_seek	      world_seek
#define containers_fence      world_fence
#define event_add	      world_event
#define orch_on_handle_closed handle_closed
#include "ffr/orch/fence.c" /* NOLINT(bugprone-suspicious-include) */

#define AFTER 30u /* s */

static uv_loop_t loop;
static struct ctl ctl = { .loop = &loop };
static struct orch orch;

static int setup(void **state)
{
	(void)state;
	memset(&world, 0, sizeof(world));
	world.ms = 5000;
	world.known = 2;
	orch = (struct orch){ .ctl = &ctl,
			      .conf = { .where = "tcp:10.0.0.1:7472",
					.peers = (struct peers *)&world,
					.fence_after = AFTER } };
	assert_int_equal(uv_loop_init(&loop), 0);
	orch_fence_init(&orch);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	orch_fence_stop(&orch);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(orch.open_handles, 0);
	return uv_loop_close(&loop);
}

static bool looks(void)
{
	return uv_is_active((uv_handle_t *)&orch.fence);
}

/* So many ms go by, as far as it looks at all. */
static void wait_ms(uint64_t ms)
{
	for (; looks() && ms >= TICK; ms -= TICK) {
		world.ms += TICK;
		on_tick(&orch.fence);
	}
	world.ms += ms;
}

static void cut_off_from_all(void **state)
{
	(void)state;
	orch_fence_down(&orch);
	wait_ms(TICK); /* from this look on it is alone */
	wait_ms(AFTER * 1000 - TICK);
	assert_false(world.fenced);
	wait_ms(TICK);
	assert_true(world.fenced && orch.fenced);
	assert_int_equal(world.fenced_events, 1);
	assert_false(looks());
	orch_fence_down(&orch); /* one more try to reach it has failed */
	assert_false(looks());
	orch_fence_up(&orch);
	assert_false(world.fenced || orch.fenced);
	assert_int_equal(world.unfenced_events, 1);
	orch_fence_up(&orch);
	assert_int_equal(world.unfenced_events, 1);
}

/* While one connection lives nothing is fenced; the time begins when the last one ends. */
static void one_connection_is_enough(void **state)
{
	(void)state;
	orch_fence_down(&orch);
	world.connected = 1;
	wait_ms(2 * AFTER * 1000);
	assert_false(world.fenced);
	world.connected = 0;
	wait_ms(AFTER * 1000 - TICK);
	assert_false(world.fenced);
	wait_ms(TICK);
	assert_true(world.fenced);
}

static void a_host_that_knows_no_other_goes_on(void **state)
{
	(void)state;
	world.known = 0;
	orch_fence_down(&orch);
	wait_ms(2 * AFTER * 1000);
	assert_false(world.fenced);
}

/* Each failed try to reach the orchestrator tells that it is lost; the time goes on. */
static void tries_do_not_begin_anew(void **state)
{
	(void)state;
	for (uint32_t s = 0; s <= AFTER; s++) {
		orch_fence_down(&orch);
		wait_ms(1000);
	}
	assert_true(world.fenced);
}

static void the_orchestrator_is_back_in_time(void **state)
{
	(void)state;
	orch_fence_down(&orch);
	wait_ms(AFTER * 1000 - TICK);
	orch_fence_reached(&orch); /* it has another store, which an operator has to accept */
	assert_false(looks());
	orch_fence_down(&orch);
	wait_ms(AFTER * 1000 - TICK);
	assert_false(world.fenced);
	orch_fence_up(&orch);
	assert_false(looks());
	assert_int_equal(world.unfenced_events, 0);
}

static void it_can_be_told_not_to(void **state)
{
	(void)state;
	orch.conf.fence_after = 0;
	orch_fence_down(&orch);
	assert_false(looks());
	orch.conf.fence_after = AFTER;
	orch.conf.where = "embedded";
	orch_fence_down(&orch);
	assert_false(looks());
	orch.conf.where = "tcp:10.0.0.1:7472";
	orch.conf.peers = NULL;
	orch_fence_down(&orch);
	assert_false(looks());
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	log_level = LOG_LEVEL_ERR;
	return UNIT_RUN(T(cut_off_from_all), T(one_connection_is_enough),
			T(a_host_that_knows_no_other_goes_on), T(tries_do_not_begin_anew),
			T(the_orchestrator_is_back_in_time), T(it_can_be_told_not_to));
}
