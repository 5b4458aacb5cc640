/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * cpu.c - what a fast thread spends on its containers, and those that are not served since they
 * have used the CPU time that max_cpu allows (cpu.h). [lock], that of the container's thread.
 *
 * Now and then the thread's CPU time is divided. Each container pays for its part of the turns, by
 * the clock. What is left is mostly sleeping and waking up, several times as much as a turn with one
 * small request: those pay for it that woke the thread, each time the same; if nobody did, it is added
 * to the turns. Nobody pays for a time in which nobody was served. What other threads do for a container
 * (roles.c: memory that does not answer) it pays at once.
 *
 * A container that rests is parked: its QPs have no turn and its sessions are not looked at. As it was
 * being served, its queues ask for no doorbell, and that is how they stay: its programs go on posting
 * without waking anybody. A doorbell that rings nevertheless is not listened to until the rest is over.
 */
#include <sys/epoll.h>

#include "ffr/obj/cpu.h"
#include "ffr/fast/internal.h"

static void enlist(struct fast *f, struct container *c)
{
	if (c->cpu.is_served)
		return;
	c->cpu.is_served = true;
	f->served_limited |= cpu_limited(c);
	SLIST_INSERT_HEAD(&f->served, c, cpu.entry);
}

void cpu_woken_by(struct fast *f, struct container *c)
{
	if (!FF_COUNTERS && !cpu_limited(c))
		return;
	enlist(f, c);
	c->cpu.wakes++;
}

void cpu_served(struct fast *f, struct container *c, uint64_t ns)
{
	if (!FF_COUNTERS && !cpu_limited(c))
		return;
	enlist(f, c);
	c->cpu.turns_ns += ns;
	c->cpu.wakes += f->timer_woke;
}

void cpu_called(struct fast *f, struct container *c, uint64_t ns)
{
	if (c->fast != f || c == f->turn_of || (!FF_COUNTERS && !cpu_limited(c)))
		return;
	enlist(f, c);
	c->cpu.turns_ns += ns;
}

/* ---- resting ---------------------------------------------------------------------------------- */

/* Out of epoll: each write to a descriptor that is in it takes its lock, whether anybody is told or not. */
static void set_deaf(struct session *s, bool deaf)
{
	if (s->bells.deaf == deaf)
		return;
	if (deaf)
		epoll_ctl(s->fast->epoll_fd, EPOLL_CTL_DEL, s->bell_fd, NULL);
	else if (fast_bell_add(s->fast, s))
		s->fast->host->session_bad(s, "its bell cannot be watched");
	s->bells.deaf = deaf;
}

void cpu_unpark(struct container *c)
{
	struct fast *f = c->fast;
	struct session *s;

	if (!c->cpu.parked)
		return;
	timer_cancel(&f->timers, &c->cpu.unpark);
	c->cpu.parked = false;
	c->stats.held_ns += f->now - c->cpu.parked_at;
	turns_unpark(f, c);
	LIST_FOREACH(s, &c->sessions, entry) {
		set_deaf(s, false);
		ses_activate(f, s);
	}
	fast_kick(f);
}

static void on_rested(struct timer *t)
{
	cpu_unpark((struct container *)((char *)t - offsetof(struct container, cpu.unpark)));
}

static void park(struct fast *f, struct container *c, uint64_t ns)
{
	struct session *s;

	c->cpu.unpark.fn = on_rested;
	if (c->cpu.parked || timer_arm(&f->timers, &c->cpu.unpark, f->now + ns))
		return; /* no memory: it is served on */
	turns_park(f, c);
	c->cpu.parked = true;
	c->cpu.parked_at = f->now;
	LIST_FOREACH(s, &c->sessions, entry)
		ses_deactivate(f, s);
}

bool cpu_ignores_bell(struct session *s)
{
	if (!s->cont->cpu.parked)
		return false;
	set_deaf(s, true);
	return true;
}

/* ---- who pays --------------------------------------------------------------------------------- */

static uint64_t part(uint64_t of, uint64_t n, uint64_t all)
{
	return (uint64_t)((unsigned __int128)of * n / all);
}

static void pay(struct fast *f, struct container *c, uint64_t ns)
{
	uint64_t wait;

	c->stats.cpu_ns += ns;
	if (!cpu_limited(c))
		return;
	cpu_charge(c, f->now, ns);
	wait = cpu_wait(c, f->now);
	if (wait)
		park(f, c, wait);
}

void cpu_worked(struct fast *f, struct container *c, uint64_t ns)
{
	pay(f, c, ns);
}

static void delist(struct container *c)
{
	c->cpu.is_served = false;
	c->cpu.turns_ns = 0;
	c->cpu.wakes = 0;
}

void cpu_settle(struct fast *f, uint64_t ns)
{
	uint64_t turns = 0, wakes = 0, n = 0, rest, due;
	struct container *c;

	SLIST_FOREACH(c, &f->served, cpu.entry) {
		turns += c->cpu.turns_ns;
		wakes += c->cpu.wakes;
		n++;
	}
	f->served_limited = false;
	rest = ns > turns ? ns - turns : 0;
	while ((c = SLIST_FIRST(&f->served))) {
		SLIST_REMOVE_HEAD(&f->served, cpu.entry);
		due = !turns	    ? 0 :
		      wakes && rest ? c->cpu.turns_ns :
				      part(ns, c->cpu.turns_ns, turns);
		if (wakes)
			due += part(rest, c->cpu.wakes, wakes);
		else if (!turns)
			due = ns / n;
		delist(c);
		pay(f, c, due);
	}
}

void cpu_forget(struct container *c)
{
	if (c->cpu.is_served)
		SLIST_REMOVE(&c->fast->served, c, container, cpu.entry);
	delist(c);
	if (c->fast->turn_of == c)
		c->fast->turn_of = NULL;
	cpu_unpark(c);
}
