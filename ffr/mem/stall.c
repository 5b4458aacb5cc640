/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * stall.c - how long a container's files have kept the control thread waiting, and what the router does about it.
 *
 * Theory of operation
 * -------------------
 * The router maps files that clients can change: shadow pages and shared memory of programs. A client that maps such
 * a file some 100,000 times and punches holes into it has the kernel go through all these mappings each time, with
 * locks of the file held. mmap(), munmap() and madvise() of the same file wait for these locks, up to 0.25 s each.
 * Nothing can cut such a wait short, and nothing tells beforehand that there will be one. So each wait is measured,
 * and the container is charged with it. A debt falls by one STALL_SHARE-th of the time that passes. While it is above
 * STALL_FREE_NS, the router does without the container's files: new registrations are copied (pvm.c), where the
 * container's own threads wait, and mappings that are not needed any more are unmapped one by one, with long pauses
 * (unmap.c). So a container keeps the control thread waiting for no more than one STALL_SHARE-th of the time. An
 * honest program whose memory the host has swapped out is copied for a while, and keeps its sessions. A NIC cannot
 * copy: there the library asks again until the container may owe some more (ctl_map_wait()). Hot parts, which are told
 * of only once, wait for that, too (ctl/hot.c). The router never waits for rings (seg.c).
 *
 * STALL_FREE_NS is what an honest container may come to on a busy host, where a thread of the router's sometimes loses
 * its CPU while it holds the lock of the router's address space: 0.17 s were seen at a load of 12 on two CPUs. What is
 * copied does not stay an MR's when the program maps something else there, so this must not happen to honest programs.
 *
 * A wait is time asleep, or CPU time: the kernel spins on some locks while their holders run. Time without a CPU, on
 * a busy host, is nobody's: the kernel counts it in the thread's schedstat, if it was built for that. Else, and for
 * threads of libuv's, only a thread that has not slept at all is known to have had no CPU. WAIT_MIN_NS leaves out what
 * the work itself takes.
 *
 * Tests: unit/mem/test_stall.c, hostile/holes.sh
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include "ffr/lib/timer.h"
#include "ffr/mem/stall.h"

#define WAIT_MIN_NS   10000000ull
#define STALL_FREE_NS 500000000ull
#define STALL_SHARE   100u
#define UNMAP_LOOK_NS 1000000000ull /* unmap.c does not tell for how long its list will last */

static long sleeps(void)
{
	struct rusage ru;

	return getrusage(RUSAGE_THREAD, &ru) ? 0 : ru.ru_nvcsw;
}

static __thread int schedstat = -1; /* of this thread */

void stall_init(void)
{
	schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
}

/* ns that this thread was ready to run and had no CPU, ever; 0: not known. */
static uint64_t cpu_awaited(void)
{
	unsigned long long ran, awaited;
	char line[128];
	ssize_t n;

	if (schedstat < 0)
		return 0;
	n = pread(schedstat, line, sizeof(line) - 1, 0);
	line[n > 0 ? n : 0] = 0;
	return sscanf(line, "%llu %llu", &ran, &awaited) == 2 ? awaited : 0;
}

void stall_wait_begin(struct stall_wait *w)
{
	*w = (struct stall_wait){ uv_hrtime(), cpu_of_thread(), cpu_awaited(), sleeps() };
}

uint64_t stall_waited(const struct stall_wait *w)
{
	uint64_t ns = uv_hrtime() - w->from, awaited;

	if (ns < WAIT_MIN_NS)
		return 0;
	awaited = cpu_awaited() - w->awaited;
	if (sleeps() == w->sleeps)
		ns = cpu_of_thread() - w->cpu;
	else
		ns = awaited < ns ? ns - awaited : 0;
	return ns < WAIT_MIN_NS ? 0 : ns;
}

/* What is left of a debt. */
static uint64_t debt(const struct cont_stall *st, uint64_t now)
{
	uint64_t paid = now > st->at ? (now - st->at) / STALL_SHARE : 0;

	return paid < st->debt ? st->debt - paid : 0;
}

/* ns until the container owes no more than `most`. */
static uint64_t owes_in(const struct container *c, uint64_t most, uint64_t now)
{
	uint64_t left = c->stall.debt ? debt(&c->stall, now) : 0;

	return left > most ? (left - most) * STALL_SHARE : 0;
}

/* ns until the container has paid for its stalls; 0: it is trusted. */
static uint64_t stall_left(const struct container *c, uint64_t now)
{
	return owes_in(c, STALL_FREE_NS, now);
}

static void owe(struct container *c, uint64_t ns)
{
	uint64_t now = uv_hrtime();

	c->stall.debt = debt(&c->stall, now) + ns;
	c->stall.at = now;
	if (c->stall.debt <= STALL_FREE_NS)
		return;
	log_client(
		&c->log, LOG_LEVEL_WARN,
		"container %s: its memory or files keep the router waiting: for %llu s what it registers is copied, or waits with a NIC",
		c->name, (unsigned long long)(stall_left(c, now) / 1000000000u + 1));
}

void stall_charge(struct container *c, uint64_t ns)
{
	if (!ns)
		return;
	c->stats.stalled_ns += ns; /* nobody else writes there: no lock */
	owe(c, ns);
}

void stall_wait_end(struct container *c, const struct stall_wait *w)
{
	stall_charge(c, stall_waited(w));
}

void stall_memory_gone(struct container *c, uint64_t ns)
{
	stall_charge(c, ns < WAIT_MIN_NS ? 0 : ns);
}

bool stall_maps_no_file(const struct container *c)
{
	return c->stall.unmaps || (c->stall.debt && stall_left(c, uv_hrtime()));
}

uint64_t stall_room_in(const struct container *c)
{
	uint64_t ns = c->stall.debt ? owes_in(c, STALL_FREE_NS / 2, uv_hrtime()) : 0;

	if (c->stall.unmaps && ns < UNMAP_LOOK_NS)
		ns = UNMAP_LOOK_NS;
	return ns ? ns / NS_PER_MS + 1 : 0;
}
