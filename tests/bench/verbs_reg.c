/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * verbs_reg.c - what it costs to register and to deregister memory, and, as their peer, to copy as
 * many bytes. The three alternate in one thread on one CPU (-c), so that they see the same noise.
 *
 * Two cases. `again`: one touched buffer is registered and deregistered over and over. `fresh`:
 * each time a new mapping, touched before the clock starts, as a program does once. The copy is
 * memcpy between two warm buffers of that size, neither of which was ever registered.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "verbs.h"

struct series {
	uint64_t *reg, *dereg, *copy; /* [n] ns */
};

static void measure(struct verbs *v, uint8_t *p, size_t size, uint8_t *from, uint8_t *to,
		    struct series *s, size_t i)
{
	struct ibv_mr *mr;
	uint64_t t;

	t = bench_now();
	mr = verbs_reg(v, p, size);
	s->reg[i] = bench_now() - t;
	t = bench_now();
	errno = ibv_dereg_mr(mr);
	s->dereg[i] = bench_now() - t;
	if (errno)
		bench_die("ibv_dereg_mr");
	memcpy(to, from, size); /* warm the caches, which registering has used */
	t = bench_now();
	memcpy(to, from, size);
	__asm__ volatile("" : : "r"(to), "r"(from) : "memory");
	s->copy[i] = bench_now() - t;
	for (size_t k = 0; k < size; k += 4096) {
		errno = 0;
		if (p[k] != 7)
			bench_die("byte %zu of the buffer was lost", k);
	}
}

static void print(const char *name, struct series *s, size_t n, const char *end)
{
	bench_sort(s->reg, n);
	bench_sort(s->dereg, n);
	bench_sort(s->copy, n);
	printf("\"%s\": {\"reg_ns\": %lu, \"dereg_ns\": %lu, \"copy_ns\": %lu, "
	       "\"reg_p99_ns\": %lu, \"dereg_p99_ns\": %lu}%s",
	       name, bench_pct(s->reg, n, 0.5), bench_pct(s->dereg, n, 0.5),
	       bench_pct(s->copy, n, 0.5), bench_pct(s->reg, n, 0.99), bench_pct(s->dereg, n, 0.99),
	       end);
}

int main(int argc, char **argv)
{
	size_t n = 500, size = 1 << 20;
	uint8_t *from, *to, *p;
	struct series s;
	int cpu = -1;
	struct verbs v;
	const struct bench_opt options[] = {
		BENCH_NUM('c', cpu, -1, 4095),
		BENCH_NUM('n', n, 10, 1000000),
		BENCH_NUM('s', size, 1, 1L << 30),
		{ 0 },
	};

	if (!bench_opts(argc, argv, options)) {
		fprintf(stderr, "usage: verbs_reg [-c CPU] [-n TIMES] [-s BYTES]\n");
		return 2;
	}
	bench_pin(cpu);
	verbs_open(&v, NULL);
	s.reg = bench_alloc(n * sizeof(uint64_t));
	s.dereg = bench_alloc(n * sizeof(uint64_t));
	s.copy = bench_alloc(n * sizeof(uint64_t));
	from = bench_map(size, MAP_PRIVATE, 7);
	to = bench_map(size, MAP_PRIVATE, 7);

	p = bench_map(size, MAP_PRIVATE, 7);
	for (size_t i = 0; i < n / 10; i++)
		measure(&v, p, size, from, to, &s, i);
	for (size_t i = 0; i < n; i++)
		measure(&v, p, size, from, to, &s, i);
	munmap(p, size);
	printf("{\"size\": %zu, ", size);
	print("again", &s, n, ", ");
	for (size_t i = 0; i < n; i++) {
		p = bench_map(size, MAP_PRIVATE, 7);
		measure(&v, p, size, from, to, &s, i);
		munmap(p, size);
	}
	print("fresh", &s, n, "}\n");

	munmap(from, size);
	munmap(to, size);
	free(s.reg);
	free(s.dereg);
	free(s.copy);
	verbs_close(&v);
	return 0;
}
