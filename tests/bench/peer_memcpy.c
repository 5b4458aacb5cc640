/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * peer_memcpy.c - how fast one core copies messages: the peer of perftest's bandwidth tests.
 *
 * Those send the same source buffer to the same destination buffer again and again, for messages
 * of a page or more; so does this program, with buffers from the same allocator and memcpy of the
 * same libc. One thread, one CPU (-c).
 */
#include <unistd.h>

#include "bench.h"

/* The sum of the time is at least `ms`; the result is the median over slices, in bytes per s. */
static double copy_rate(size_t size, unsigned int ms)
{
	unsigned int num_slices = 50;
	uint64_t slice_ns = (uint64_t)ms * 1000000u / num_slices, rate[50], t, ns, n;
	uint8_t *src = bench_alloc(size), *dst = bench_alloc(size);

	for (unsigned int i = 0; i < num_slices; i++) {
		n = 0;
		t = bench_now();
		do {
			for (int k = 0; k < 4; k++) {
				memcpy(dst, src, size);
				/* the copy has a reader that the compiler does not know */
				__asm__ volatile("" : : "r"(dst), "r"(src) : "memory");
			}
			n += 4;
			ns = bench_now() - t;
		} while (ns < slice_ns);
		rate[i] = (uint64_t)((double)n * (double)size * 1e9 / (double)ns);
	}
	free(src);
	free(dst);
	bench_sort(rate, num_slices);
	return (double)bench_pct(rate, num_slices, 0.5);
}

int main(int argc, char **argv)
{
	const char *sep = "";
	unsigned int ms = 300;
	int cpu = -1;
	const struct bench_opt options[] = {
		BENCH_NUM('c', cpu, -1, 4095),
		BENCH_NUM('t', ms, 50, 60000),
		{ 0 },
	};

	if (!bench_opts(argc, argv, options)) {
		fprintf(stderr, "usage: peer_memcpy [-c CPU] [-t MS] SIZE...\n");
		return 2;
	}
	bench_pin(cpu);
	printf("{");
	for (int i = optind; i < argc; i++) {
		size_t size = (size_t)bench_num(argv[i], 1, 1L << 30);

		printf("%s\"%zu\": %.0f", sep, size, copy_rate(size, ms));
		sep = ", ";
	}
	printf("}\n");
	return 0;
}
