/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * verbs_setup.c - what connections cost: two RC QPs from ibv_create_qp() to RTS on both sides, by
 * one process; and whether creating and destroying one costs more beside many others (-q).
 */
#include <unistd.h>

#include "verbs.h"

#define BATCH 100 /* QPs created or destroyed for one sample */

static const struct verbs_qp_opts opts = { .send_wr = 16, .recv_wr = 16 };

struct cost {
	uint64_t create, destroy; /* ns for each QP */
};

static struct cost create_and_destroy(struct verbs *v, struct ibv_cq *cq)
{
	struct ibv_qp *qp[BATCH];
	struct cost c;
	uint64_t t = bench_now();

	for (int i = 0; i < BATCH; i++)
		qp[i] = verbs_qp(v, cq, &opts);
	c.create = (bench_now() - t) / BATCH;
	t = bench_now();
	for (int i = 0; i < BATCH; i++) {
		errno = ibv_destroy_qp(qp[i]);
		if (errno)
			bench_die("ibv_destroy_qp");
	}
	c.destroy = (bench_now() - t) / BATCH;
	return c;
}

static struct cost median_cost(struct verbs *v, struct ibv_cq *cq, unsigned int rounds)
{
	uint64_t create[64], destroy[64];

	for (unsigned int i = 0; i < rounds; i++) {
		struct cost c = create_and_destroy(v, cq);

		create[i] = c.create;
		destroy[i] = c.destroy;
	}
	bench_sort(create, rounds);
	bench_sort(destroy, rounds);
	return (struct cost){ bench_pct(create, rounds, 0.5), bench_pct(destroy, rounds, 0.5) };
}

/* Median of the time in which a pair is made and connected, ns. */
static uint64_t pair_time(struct verbs *v, struct ibv_cq *cq, unsigned int n)
{
	uint64_t *ns = calloc(n, sizeof(*ns)), median;

	if (!ns)
		bench_die("calloc");
	for (unsigned int i = 0; i < n; i++) {
		uint64_t t = bench_now();
		struct ibv_qp *a = verbs_qp(v, cq, &opts), *b = verbs_qp(v, cq, &opts);
		struct verbs_addr to_a = verbs_addr_of(v, a), to_b = verbs_addr_of(v, b);

		verbs_connect(v, a, &to_b);
		verbs_connect(v, b, &to_a);
		ns[i] = bench_now() - t;
		if (ibv_destroy_qp(a) || ibv_destroy_qp(b))
			bench_die("ibv_destroy_qp");
	}
	bench_sort(ns, n);
	median = bench_pct(ns, n, 0.5);
	free(ns);
	return median;
}

int main(int argc, char **argv)
{
	unsigned int held = 10000, pairs = 500, rounds = 15;
	struct cost few, many;
	struct ibv_qp **qps;
	struct ibv_cq *cq;
	uint64_t pair, t;
	struct verbs v;
	const struct bench_opt options[] = {
		BENCH_NUM('n', pairs, 1, 100000),
		BENCH_NUM('q', held, 1, 30000),
		{ 0 },
	};

	if (!bench_opts(argc, argv, options)) {
		fprintf(stderr, "usage: verbs_setup [-n PAIRS] [-q QPS HELD]\n");
		return 2;
	}
	qps = calloc(held, sizeof(*qps));
	if (!qps)
		bench_die("calloc");
	verbs_open(&v, NULL);
	cq = verbs_cq(&v, 64, NULL);
	pair = pair_time(&v, cq, pairs);
	few = median_cost(&v, cq, rounds);
	t = bench_now();
	for (unsigned int i = 0; i < held; i++)
		qps[i] = verbs_qp(&v, cq, &opts);
	t = bench_now() - t;
	many = median_cost(&v, cq, rounds);
	for (unsigned int i = 0; i < held; i++)
		if (ibv_destroy_qp(qps[i]))
			bench_die("ibv_destroy_qp");
	free(qps);
	ibv_destroy_cq(cq);
	verbs_close(&v);
	printf("{\"pair_ns\": %lu, \"held\": %u, \"held_ns\": %lu, \"few\": {\"create_ns\": %lu, "
	       "\"destroy_ns\": %lu}, \"many\": {\"create_ns\": %lu, \"destroy_ns\": %lu}}\n",
	       (unsigned long)pair, held, (unsigned long)(t / held), (unsigned long)few.create,
	       (unsigned long)few.destroy, (unsigned long)many.create, (unsigned long)many.destroy);
	return 0;
}
