/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * verbs_odp.c - what many on-demand memory regions cost: each of a page that was never touched, all registered,
 * then all deregistered. The time of all, ns.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "verbs.h"

#define PAGE   ((size_t)4096)
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ON_DEMAND)

int main(int argc, char **argv)
{
	size_t n = 10000;
	uint64_t start, registered, gone;
	struct ibv_mr **mr;
	struct verbs v;
	uint8_t *p;
	const struct bench_opt options[] = {
		BENCH_NUM('n', n, 1, 60000),
		{ 0 },
	};

	if (!bench_opts(argc, argv, options)) {
		fprintf(stderr, "usage: verbs_odp [-n REGIONS]\n");
		return 2;
	}
	verbs_open(&v, NULL);
	mr = bench_alloc(n * sizeof(*mr));
	p = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		bench_die("mmap");
	start = bench_now();
	for (size_t i = 0; i < n; i++) {
		mr[i] = ibv_reg_mr(v.pd, p + i * PAGE, PAGE, ACCESS);
		if (!mr[i])
			bench_die("ibv_reg_mr");
	}
	registered = bench_now();
	for (size_t i = 0; i < n; i++) {
		errno = ibv_dereg_mr(mr[i]);
		if (errno)
			bench_die("ibv_dereg_mr");
	}
	gone = bench_now();
	printf("{\"regions\": %zu, \"reg_ns\": %lu, \"dereg_ns\": %lu}\n", n,
	       (unsigned long)(registered - start), (unsigned long)(gone - registered));
	munmap(p, n * PAGE);
	free(mr);
	verbs_close(&v);
	return 0;
}
