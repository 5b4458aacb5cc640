/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * home.c - where a thread sleeps that waits in ibv_get_cq_event. Any thread of the application.
 *
 * A program that is woken by the router is, as a rule, put on an idle CPU. On a virtual machine that takes 20 us
 * or more, since the CPU has to be woken too; on the router's own CPU, which the router is about to leave, it
 * takes 2. The kernel has no way to ask for that but the affinity. So a thread whose wake-ups were dear sleeps with
 * an affinity of the one CPU that the router is on (hdr->home), for as long as it sleeps, and says so
 * (hdr->at_home), for the router to leave that CPU when it has sent the event. It is not to wait there for somebody
 * else's work: a late wake-up costs of what all that were not have saved, and when nothing is left of that, it
 * sleeps elsewhere, each time for twice as long.
 *
 * How long a wake-up took is told by the event, which says when it was sent. It is measured only where the thread
 * has slept: the event is younger than the call. (In a time namespace with a clock of its own nothing is
 * measured, or all is late; the thread then sleeps wherever the kernel likes.)
 */
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffl/session/ffl.h"

/* a wake-up that takes longer is dear; + it is borne, - the affinity costs more than it saves */
#define DEAR_NS 5000u
/* so many in a row: sleep at home; + dear ones, - the affinity without need */
#define DEAR_ROW 3u
/* what a wake-up elsewhere takes at most; + one that took long by chance counts, - less is saved at home */
#define AWAY_NS 50000u
/* saved, when it comes home, and at most; + late ones are borne, - chance ends it */
#define SAVED_NS     20000
#define SAVED_MAX_NS 500000
/* sleeps at home before one elsewhere, to see what that takes now; + a change is seen late, - dear ones */
#define SLEEPS 1024u
/* sleeps elsewhere after one at home was late, the first time and at most; + dear ones, - late ones */
#define PAUSE	  16u
#define PAUSE_MAX 4096u

static uint32_t home_of(const struct ffl_context *ctx)
{
	return atomic_load_explicit(&ctx->hdr->home, memory_order_relaxed) - 1;
}

/* Go where the router is. False: it is to stay as it is. */
static bool go_home(struct ffl_context *ctx, cpu_set_t *one, cpu_set_t *all)
{
	uint32_t home = home_of(ctx);

	if (home >= CPU_SETSIZE || sched_getaffinity(0, sizeof(*all), all) || !CPU_ISSET(home, all))
		return false;
	CPU_ZERO(one);
	CPU_SET(home, one);
	if (sched_setaffinity(0, sizeof(*one), one))
		return false;
	atomic_store_explicit(&ctx->hdr->at_home, home + 1, memory_order_relaxed);
	return true;
}

/* It may run where it could before, unless somebody has said otherwise meanwhile. */
static void leave_home(struct ffl_context *ctx, const cpu_set_t *one, const cpu_set_t *all)
{
	cpu_set_t now;

	atomic_store_explicit(&ctx->hdr->at_home, 0, memory_order_relaxed);
	if (!sched_getaffinity(0, sizeof(now), &now) && CPU_EQUAL(&now, one))
		sched_setaffinity(0, sizeof(*all), all);
}

/* Wake-ups elsewhere: one that is dear may be chance, some in a row are not. */
static bool is_dear(struct ffl_channel *ch, uint32_t took)
{
	uint32_t dear = atomic_load_explicit(&ch->home.dear, memory_order_relaxed);
	uint32_t away = atomic_load_explicit(&ch->home.away, memory_order_relaxed);

	dear = took > DEAR_NS && (uint32_t)sched_getcpu() != home_of(ch->ctx) ? dear + 1 : 0;
	if (took > AWAY_NS)
		took = AWAY_NS;
	if (dear == 1 || took < away)
		atomic_store_explicit(&ch->home.away, took, memory_order_relaxed);
	atomic_store_explicit(&ch->home.dear, dear % DEAR_ROW, memory_order_relaxed);
	return dear >= DEAR_ROW;
}

/* A sleep at home: has it cost more than the last ones have saved? */
static bool is_late(struct ffl_channel *ch, uint32_t took)
{
	int64_t saved = atomic_load_explicit(&ch->home.saved, memory_order_relaxed);

	saved += (int64_t)atomic_load_explicit(&ch->home.away, memory_order_relaxed) - took;
	if (saved > SAVED_MAX_NS)
		saved = SAVED_MAX_NS;
	atomic_store_explicit(&ch->home.saved, saved < 0 ? 0 : (int32_t)saved,
			      memory_order_relaxed);
	return saved < 0;
}

/* A sleep has ended, `took` ns after it was to. */
static void learn(struct ffl_channel *ch, bool at_home, uint32_t took)
{
	uint32_t left = atomic_load_explicit(&ch->home.sleeps, memory_order_relaxed);
	uint32_t pause = atomic_load_explicit(&ch->home.pause, memory_order_relaxed);

	if (at_home && is_late(ch, took)) {
		pause = pause ? pause * 2 : PAUSE;
		if (pause > PAUSE_MAX)
			pause = PAUSE_MAX;
		atomic_store_explicit(&ch->home.pause, pause, memory_order_relaxed);
		atomic_store_explicit(&ch->home.at_home, false, memory_order_relaxed);
		left = pause;
	} else if (left) {
		left--;
	} else if (at_home) {
		/* they have not cost more than they saved */
		atomic_store_explicit(&ch->home.pause, pause / 2, memory_order_relaxed);
		atomic_store_explicit(&ch->home.at_home, false, memory_order_relaxed);
	} else {
		left = is_dear(ch, took) ? SLEEPS : 0;
		atomic_store_explicit(&ch->home.saved, SAVED_NS, memory_order_relaxed);
		atomic_store_explicit(&ch->home.at_home, left > 0, memory_order_relaxed);
	}
	atomic_store_explicit(&ch->home.sleeps, left, memory_order_relaxed);
}

/* As read(2): the event that comes next. */
ssize_t ffl_sleep_for_event(struct ffl_channel *ch, struct ff_comp_event *ev)
{
	bool at_home = atomic_load_explicit(&ch->home.at_home, memory_order_relaxed);
	cpu_set_t one, all;
	uint32_t since;
	ssize_t n;
	int err;

	if (at_home) {
		n = recv(ch->ibv.fd, ev, sizeof(*ev), MSG_DONTWAIT);
		if (n >= 0 || errno != EAGAIN)
			return n;
		at_home = go_home(ch->ctx, &one, &all);
	}
	since = (uint32_t)ffl_clock_ns(CLOCK_MONOTONIC);
	n = read(ch->ibv.fd, ev, sizeof(*ev));
	err = errno;
	if (n == sizeof(*ev) && (int32_t)(ev->sent - since) > 0)
		learn(ch, at_home, (uint32_t)ffl_clock_ns(CLOCK_MONOTONIC) - ev->sent);
	if (at_home)
		leave_home(ch->ctx, &one, &all);
	errno = err;
	return n;
}
