/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * verbs_lat.c - RDMA WRITE of 8 bytes between two QPs of this process, from the call of
 * ibv_post_send to the moment when ibv_poll_cq returns its completion; one at a time.
 *
 * One thread, on one CPU (-c). Its peer is peer_handoff.c. The median is that of batches, free of
 * the clock's cost; the percentiles are of single operations and contain one reading of it.
 */
#include <unistd.h>

#include "verbs.h"

#define BATCH 100

static void one(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_send_wr *wr)
{
	struct ibv_wc wc;

	verbs_post(qp, wr);
	verbs_wait(cq, &wc);
}

int main(int argc, char **argv)
{
	struct verbs_qp_opts opts = { .send_wr = 16, .recv_wr = 1, .max_inline = 64 };
	uint64_t n = 300000, num_batches, *ns, t, median, min;
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .num_sge = 1 };
	struct verbs_addr addr_a, addr_b;
	struct ibv_mr *mr;
	struct ibv_sge sge;
	struct ibv_cq *cq;
	struct ibv_qp *a, *b;
	int cpu = -1;
	unsigned int flags;
	int is_inline = 0;
	struct verbs v;
	uint8_t *buf;
	const struct bench_opt options[] = {
		BENCH_NUM('c', cpu, -1, 4095),
		BENCH_FLAG('i', is_inline),
		BENCH_NUM('n', n, BATCH, 1000000000),
		{ 0 },
	};

	if (!bench_opts(argc, argv, options)) {
		fprintf(stderr, "usage: verbs_lat [-c CPU] [-i: inline] [-n OPERATIONS]\n");
		return 2;
	}
	flags = is_inline ? IBV_SEND_INLINE : 0;
	bench_pin(cpu);
	verbs_open(&v, NULL);
	buf = bench_alloc(8192);
	mr = verbs_reg(&v, buf, 8192);
	cq = verbs_cq(&v, 64, NULL);
	a = verbs_qp(&v, cq, &opts);
	b = verbs_qp(&v, cq, &opts);
	addr_a = verbs_addr_of(&v, a);
	addr_b = verbs_addr_of(&v, b);
	verbs_connect(&v, a, &addr_b);
	verbs_connect(&v, b, &addr_a);

	sge = (struct ibv_sge){ .addr = (uintptr_t)buf, .length = 8, .lkey = mr->lkey };
	wr.sg_list = &sge;
	wr.send_flags = IBV_SEND_SIGNALED | flags;
	wr.wr.rdma.remote_addr = (uintptr_t)buf + 4096;
	wr.wr.rdma.rkey = mr->rkey;
	*(uint64_t *)buf = 0x1122334455667788;

	num_batches = n / BATCH;
	ns = bench_alloc(n * sizeof(*ns));
	for (int i = 0; i < 100 * BATCH; i++)
		one(a, cq, &wr);
	if (*(volatile uint64_t *)(buf + 4096) != 0x1122334455667788) {
		errno = 0;
		bench_die("the data did not arrive");
	}
	for (uint64_t i = 0; i < num_batches; i++) {
		t = bench_now();
		for (int k = 0; k < BATCH; k++)
			one(a, cq, &wr);
		ns[i] = bench_now() - t;
	}
	bench_sort(ns, num_batches);
	median = bench_pct(ns, num_batches, 0.5);
	min = ns[0];
	for (uint64_t i = 0; i < n; i++) {
		t = bench_now();
		one(a, cq, &wr);
		ns[i] = bench_now() - t;
	}
	bench_sort(ns, n);
	printf("{\"operations\": %lu, \"median_ns\": %.1f, \"min_ns\": %.1f, \"p50_ns\": %lu, "
	       "\"p99_ns\": %lu, \"p999_ns\": %lu, \"max_ns\": %lu}\n",
	       n, (double)median / BATCH, (double)min / BATCH, bench_pct(ns, n, 0.5),
	       bench_pct(ns, n, 0.99), bench_pct(ns, n, 0.999), ns[n - 1]);

	ibv_destroy_qp(a);
	ibv_destroy_qp(b);
	ibv_destroy_cq(cq);
	ibv_dereg_mr(mr);
	verbs_close(&v);
	free(ns);
	free(buf);
	return 0;
}
