/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * cpu.h - the CPU time that the router spends on a container, and its limit, max_cpu. Any thread; no
 * lock.
 *
 * A container's own processes are in its cgroup; what the router does for them is not, and nobody but
 * the router can tell whose work it is. It measures that where it does the work: a fast thread in its
 * turns (fast/cpu.c), the control thread in its calls (ctl/call.c).
 *
 * The meter is a bucket (bucket.h) with a burst of CPU_BURST_NS of CPU time. Who owes some rests until
 * its burst is whole again. So a container above its limit is served seldom and for longer, not all the
 * time and a little: each time that the router works for it, others wait for a CPU, and once is soon
 * over. It is not so long that the fast thread becomes an ordinary one (fast/sched.c).
 */
#ifndef FFR_OBJ_CPU_H
#define FFR_OBJ_CPU_H

#include <bsd/sys/queue.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "ffr/lib/timer.h"
#include "ffr/obj/bucket.h"

struct container;

#define CPU_BURST_NS 250000ull

struct cpu_meter {
	_Atomic uint64_t paid; /* ns, as in struct bucket */
	_Atomic uint64_t rest; /* ns: until when it rests; 0: it never had to */
};

/* A container's part. fast/cpu.c, [lock], but where it says otherwise. */
struct cont_cpu {
	SLIST_ENTRY(container) entry; /* fast->served, while is_served */
	bool is_served;
	bool parked;	    /* not served until `unpark`: it has reached max_cpu */
	uint32_t wakes;	    /* since cpu_settle(): how often it woke the thread, */
	uint64_t turns_ns;  /* and the turns in which it was served */
	uint64_t parked_at; /* ns */
	struct timer unpark;
	struct cpu_meter meter; /* any thread, no lock */
	uint64_t ctl_ns;	/* [ctl] CPU time of the control thread */
};

bool cpu_limited(const struct container *c);
/* The router has spent so many ns on it, until `now` (ns, CLOCK_MONOTONIC). */
void cpu_charge(struct container *c, uint64_t now, uint64_t ns);
/* ns that it has to rest for; 0: it may be served. */
uint64_t cpu_wait(struct container *c, uint64_t now);
/* There is another limit: what was used so far is forgotten. */
void cpu_reset(struct cpu_meter *m);

/* CPU time of the calling thread, ns. */
uint64_t cpu_of_thread(void);
/* CPU time of the thread that pthread_getcpuclockid() gave that clock for. */
uint64_t cpu_of_clock(clockid_t clock);

#endif
