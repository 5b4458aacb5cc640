/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * reg_window.c - what replacing a program's pages costs by itself: registering and deregistering
 * touched memory, with the router's answers free, against copying it. Microseconds, medians.
 *
 * build: tests/rig/fakes/fake_shadow.c tests/rig/fakes/fake_pages.c ffr/mem/fallible.c ffl/mem/mr.c ffl/mem/heat.c ffl/mem/track.c ffl/mem/filter.c ffl/mem/kind.c ffl/mem/attr.c ffl/mem/plan.c ffl/mem/apply.c ffl/mem/lock.c ffl/mem/region.c ffl/mem/window.c ffl/mem/fork.c ffl/mem/malloc.c
 */
#include <stdio.h>
#include <sys/mman.h>

#include "bench.h"
#include "tests/rig/fakes/fake_shadow.h"

#undef ibv_reg_mr

#define ROUNDS 101

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static double median_us(uint64_t *v)
{
	qsort(v, ROUNDS, sizeof(*v), by_size);
	return (double)v[ROUNDS / 2] / 1e3;
}

static void measure(struct ibv_pd *pd, size_t len, const char *end)
{
	static uint64_t copy[ROUNDS], reg[ROUNDS], dereg[ROUNDS];
	char *p = bench_map(len, MAP_PRIVATE, 7);
	char *from = bench_map(len, MAP_PRIVATE, 7), *to = bench_map(len, MAP_PRIVATE, 7);
	double c, r, d;

	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t t0, t1, t2, t3;
		struct ibv_mr *mr;

		memcpy(to, from, len);
		t0 = bench_now();
		memcpy(to, from, len);
		t1 = bench_now();
		mr = ibv_reg_mr(pd, p, len, IBV_ACCESS_LOCAL_WRITE);
		t2 = bench_now();
		if (!mr || ibv_dereg_mr(mr))
			bench_die("registering %zu bytes", len);
		t3 = bench_now();
		copy[i] = t1 - t0;
		reg[i] = t2 - t1;
		dereg[i] = t3 - t2;
		if (p[len - 1] != 7)
			bench_die("content of %zu bytes was lost", len);
	}
	c = median_us(copy);
	r = median_us(reg);
	d = median_us(dereg);
	printf("{\"bytes\": %zu, \"copy_us\": %.2f, \"reg_us\": %.2f, \"dereg_us\": %.2f, "
	       "\"zero_copy\": %lu}%s",
	       len, c, r, d, fake_shadow_bytes(FF_RUN_SHADOW), end);
	munmap(p, len);
	munmap(from, len);
	munmap(to, len);
}

int main(void)
{
	struct ffl_context *ctx = fake_shadow_open(true);
	struct ibv_pd *pd = fake_shadow_pd(ctx);

	printf("{\"reg_window\": [\n");
	for (size_t len = 4096; len <= 16u << 20; len *= 4)
		measure(pd, len, len * 4 <= 16u << 20 ? ",\n" : "]}\n");
	fake_shadow_close(ctx);
	free(pd);
	return 0;
}
