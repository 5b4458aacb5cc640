/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* cpu.c - see cpu.h. */
#include "ffr/obj/cpu.h"

#include "ffr/obj/objects.h"

#define ONE_CPU 1000u /* max_cpu */

/* Units: ns of CPU time. A meter is one word, for there is no lock: what is less than a ns is let off. */
static struct bucket bucket_of(uint64_t paid, uint64_t max_cpu)
{
	uint64_t rate = max_cpu * (BUCKET_SECOND / ONE_CPU);

	return (struct bucket){ .rate = rate,
				.burst = bucket_ns(rate, CPU_BURST_NS),
				.paid = paid };
}

/* The fast thread and the control thread may charge at once. */
static void charge(struct cpu_meter *m, uint64_t max_cpu, uint64_t now, uint64_t ns)
{
	uint64_t old = atomic_load_explicit(&m->paid, memory_order_relaxed);
	struct bucket b;

	if (!max_cpu)
		return;
	do {
		b = bucket_of(old, max_cpu);
		bucket_charge(&b, now - ns, ns); /* it was not idle in that time */
	} while (!atomic_compare_exchange_weak_explicit(
		&m->paid, &old, b.paid, memory_order_relaxed, memory_order_relaxed));
}

static uint64_t wait_for(struct cpu_meter *m, uint64_t max_cpu, uint64_t now)
{
	struct bucket b = bucket_of(atomic_load_explicit(&m->paid, memory_order_relaxed), max_cpu);
	uint64_t rest = atomic_load_explicit(&m->rest, memory_order_relaxed);

	if (!max_cpu)
		return 0;
	if (rest <= now && bucket_wait(&b, now)) {
		rest = b.paid + b.burst;
		atomic_store_explicit(&m->rest, rest, memory_order_relaxed);
	}
	return rest > now ? rest - now : 0;
}

bool cpu_limited(const struct container *c)
{
	return c->limits.max_cpu || c->of->limits.max_cpu;
}

void cpu_charge(struct container *c, uint64_t now, uint64_t ns)
{
	charge(&c->cpu.meter, c->limits.max_cpu, now, ns);
	charge(&c->of->cpu, c->of->limits.max_cpu, now, ns);
}

uint64_t cpu_wait(struct container *c, uint64_t now)
{
	uint64_t own = wait_for(&c->cpu.meter, c->limits.max_cpu, now);
	uint64_t all = wait_for(&c->of->cpu, c->of->limits.max_cpu, now);

	return own > all ? own : all;
}

void cpu_reset(struct cpu_meter *m)
{
	atomic_store(&m->paid, 0);
	atomic_store(&m->rest, 0);
}

uint64_t cpu_of_clock(clockid_t clock)
{
	struct timespec ts = { 0 };

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t cpu_of_thread(void)
{
	return cpu_of_clock(CLOCK_THREAD_CPUTIME_ID);
}
