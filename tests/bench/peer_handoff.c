/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * peer_handoff.c - the least that a round trip between two cores costs: each thread spins on a
 * cache line that the other one writes. The peer of verbs_lat.c, whose request and completion
 * cross the same two cores through two cache lines as well.
 *
 * Two threads, a CPU each (-a, -b). Neither pauses in its loop, which is the fastest way here.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "bench.h"

static struct {
	_Alignas(256) _Atomic uint64_t ping; /* main: wo, echo thread: ro */
	_Alignas(256) _Atomic uint64_t pong; /* echo thread: wo, main: ro */
} line;

static int echo_cpu = 1;

static void *echo(void *arg)
{
	uint64_t next = 1, v;

	bench_pin(echo_cpu);
	for (;;) {
		while ((v = atomic_load_explicit(&line.ping, memory_order_acquire)) < next)
			;
		if (v == UINT64_MAX)
			return arg;
		atomic_store_explicit(&line.pong, v, memory_order_release);
		next = v + 1;
	}
}

int main(int argc, char **argv)
{
	uint64_t rounds = 2000000, batch = 100, i = 0, n, *ns, t, all;
	int cpu = 0;
	pthread_t thread;
	const struct bench_opt options[] = {
		BENCH_NUM('a', cpu, -1, 4095),
		BENCH_NUM('b', echo_cpu, -1, 4095),
		BENCH_NUM('n', rounds, 1000, 1000000000),
		{ 0 },
	};

	if (!bench_opts(argc, argv, options)) {
		fprintf(stderr, "usage: peer_handoff [-a CPU] [-b CPU] [-n ROUNDS]\n");
		return 2;
	}
	n = rounds / batch;
	ns = bench_alloc(n * sizeof(*ns));
	bench_pin(cpu);
	errno = pthread_create(&thread, NULL, echo, NULL);
	if (errno)
		bench_die("pthread_create");

	all = bench_now();
	for (uint64_t b = 0; b < n; b++) {
		t = bench_now();
		for (uint64_t end = i + batch; i < end;) {
			atomic_store_explicit(&line.ping, ++i, memory_order_release);
			while (atomic_load_explicit(&line.pong, memory_order_acquire) != i)
				;
		}
		ns[b] = bench_now() - t;
	}
	all = bench_now() - all;
	atomic_store(&line.ping, UINT64_MAX);
	pthread_join(thread, NULL);

	bench_sort(ns, n);
	printf("{\"rounds\": %lu, \"median_ns\": %.1f, \"min_ns\": %.1f, \"mean_ns\": %.1f}\n", i,
	       (double)bench_pct(ns, n, 0.5) / (double)batch, (double)ns[0] / (double)batch,
	       (double)all / (double)i);
	free(ns);
	return 0;
}
