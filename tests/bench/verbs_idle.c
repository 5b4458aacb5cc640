/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * verbs_idle.c - a client that is attached to the router, has worked, and does nothing now.
 *
 * It connects -q QPs, sends one RDMA WRITE through each, prints a line and sleeps until its
 * standard input ends or -t seconds have passed.
 */
#include <poll.h>
#include <unistd.h>

#include "verbs.h"

int main(int argc, char **argv)
{
	struct verbs_qp_opts opts = { .send_wr = 16, .recv_wr = 16, .sq_sig_all = 1 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .num_sge = 1 };
	struct pollfd in = { .fd = 0, .events = POLLIN };
	long num_qps = 4, seconds = 60;
	struct verbs_addr addr;
	struct ibv_sge sge;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_wc wc;
	struct verbs v;
	uint8_t *buf;
	const struct bench_opt options[] = {
		BENCH_NUM('q', num_qps, 1, 10000),
		BENCH_NUM('t', seconds, 1, 3600),
		{ 0 },
	};

	if (!bench_opts(argc, argv, options)) {
		fprintf(stderr, "usage: verbs_idle [-q QPS] [-t SECONDS]\n");
		return 2;
	}
	verbs_open(&v, NULL);
	buf = bench_alloc(65536);
	mr = verbs_reg(&v, buf, 65536);
	cq = verbs_cq(&v, 64, NULL);
	sge = (struct ibv_sge){ .addr = (uintptr_t)buf, .length = 8, .lkey = mr->lkey };
	wr.sg_list = &sge;
	wr.wr.rdma.remote_addr = (uintptr_t)buf + 4096;
	wr.wr.rdma.rkey = mr->rkey;
	for (long i = 0; i < num_qps; i++) {
		qp = verbs_qp(&v, cq, &opts);
		addr = verbs_addr_of(&v, qp);
		verbs_connect(&v, qp, &addr); /* with itself */
		verbs_post(qp, &wr);
		verbs_wait(cq, &wc);
	}
	printf("{\"attached\": %ld}\n", num_qps);
	fflush(stdout);
	poll(&in, 1, (int)(seconds * 1000));
	return 0; /* the router takes back what a dying process leaves */
}
