/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ctl_spin.c - when the control thread looks for the next request instead of sleeping. Control
 * thread; ctl.c tells of each request.
 *
 * A program that sets up connections makes one call after the other, and each would wake this
 * thread, which on a virtual machine takes longer than the call. So when two requests came in
 * quick succession the loop goes on without blocking until none has come for SPIN_NS. It serves
 * all of its handles meanwhile, so nobody waits for the one who calls. A client that calls seldom
 * is not waited for, and an idle router sleeps.
 *
 * Between two looks the CPU is offered to others: on a machine of few cores the caller itself may
 * be waiting for it. Where such an offer takes long, somebody has work to do there; then this
 * thread had better sleep, since who wakes up is served before who yields. It does so for HOLD_MIN,
 * and for twice as long each time that this is found again at once.
 */
#include "ctl_spin.h"

#include <sched.h>

#define SPIN_NS	 50000u	     /* after the last request; also what "quick succession" means */
#define BUSY_NS	 30000u	     /* a yield that takes so long gave the CPU to somebody who works */
#define HOLD_MIN 1000000u    /* ns */
#define HOLD_MAX 1000000000u /* ns */

/* One look is over; the yield took from `from` to `to`. */
static void looked(struct ctl_spin *s, uint64_t from, uint64_t to)
{
	if (to - from >= BUSY_NS) {
		/* soon after the last hold: the CPU is no freer than it was */
		s->hold = from - s->hold_until < s->hold ? s->hold * 2 : HOLD_MIN;
		if (s->hold > HOLD_MAX)
			s->hold = HOLD_MAX;
		s->hold_until = to + s->hold;
		uv_idle_stop(&s->idle);
	}
}

static void on_idle(uv_idle_t *h)
{
	struct ctl_spin *s = h->data;
	uint64_t now = uv_hrtime();

	if (now - s->last >= SPIN_NS) {
		uv_idle_stop(h);
		return;
	}
	sched_yield();
	looked(s, now, uv_hrtime());
}

void ctl_spin_init(struct ctl_spin *s, uv_loop_t *loop)
{
	uv_idle_init(loop, &s->idle);
	s->idle.data = s;
}

void ctl_spin_close(struct ctl_spin *s)
{
	uv_close((uv_handle_t *)&s->idle, NULL);
}

void ctl_spin_served(struct ctl_spin *s, uint64_t now)
{
	bool soon = now - s->last < SPIN_NS;

	s->last = now;
	if (soon && now >= s->hold_until && !ctl_spins(s))
		uv_idle_start(&s->idle, on_idle); /* cannot fail with a callback */
}
