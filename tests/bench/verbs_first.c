/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * verbs_first.c - large private memory from its registration on: what ibv_reg_mr and ibv_dereg_mr
 * take, and each pass of WRITEs over it, the first one included, beside copying as many bytes.
 *
 * Two touched mappings of -s bytes are registered, one as source and one as destination. A pass is
 * WRITEs of -m bytes over all of it, 16 at a time, between two QPs of this process; -l passes are
 * timed, with -w us between two. What arrived is compared, a word of each page. Repeated -n times
 * with new mappings. The copy is memcpy between two other touched mappings of that size.
 */
#include <sys/mman.h>

#include "verbs.h"

#define DEPTH	   16u
#define MAX_PASSES 16u

static uint64_t *map(size_t size)
{
	uint64_t *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		bench_die("mmap of %zu bytes", size);
	memset(p, 7, size);
	return p;
}

static void mark(uint64_t *p, size_t size, uint64_t pass)
{
	for (size_t i = 0; i < size / 8; i += 512)
		p[i] = i ^ pass << 40;
}

static void check(const uint64_t *p, size_t size, uint64_t pass)
{
	errno = 0;
	for (size_t i = 0; i < size / 8; i += 512)
		if (p[i] != (i ^ pass << 40))
			bench_die("pass %lu: byte %zu did not arrive", (unsigned long)pass, i * 8);
}

/* Nanoseconds that WRITEs over all of it take. */
static uint64_t stream(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_mr *from, struct ibv_mr *to,
		       size_t size, size_t msg)
{
	uint64_t since = bench_now();
	size_t posted = 0, done = 0;
	struct ibv_wc wc;

	while (done < size) {
		while (posted < size && posted - done < DEPTH * msg) {
			struct ibv_sge sge = { .addr = (uintptr_t)from->addr + posted,
					       .length = (uint32_t)msg,
					       .lkey = from->lkey };
			struct ibv_send_wr wr = { .sg_list = &sge,
						  .num_sge = 1,
						  .opcode = IBV_WR_RDMA_WRITE,
						  .send_flags = IBV_SEND_SIGNALED };

			wr.wr.rdma.remote_addr = (uintptr_t)to->addr + posted;
			wr.wr.rdma.rkey = to->rkey;
			verbs_post(qp, &wr);
			posted += msg;
		}
		verbs_wait(cq, &wc);
		done += msg;
	}
	return bench_now() - since;
}

int main(int argc, char **argv)
{
	size_t size = 64 << 20, msg = 1 << 20, passes = 4, n = 5, pause = 0;
	const struct bench_opt options[] = {
		BENCH_NUM('s', size, 4096, 1L << 34),  BENCH_NUM('m', msg, 4096, 1L << 30),
		BENCH_NUM('l', passes, 1, MAX_PASSES), BENCH_NUM('n', n, 1, 10000),
		BENCH_NUM('w', pause, 0, 1000000),     { 0 },
	};
	const struct verbs_qp_opts qp_opts = { .send_wr = DEPTH, .recv_wr = 1 };
	uint64_t *reg, *dereg, *copy, *pass[MAX_PASSES], *cold_from, *cold_to;
	struct verbs_addr addr[2];
	struct ibv_qp *qp[2];
	struct ibv_cq *cq;
	struct verbs v;

	if (!bench_opts(argc, argv, options) || size % msg) {
		fprintf(stderr, "usage: verbs_first [-s BYTES] [-m BYTES] [-l PASSES] [-n TIMES] "
				"[-w US]\n");
		return 2;
	}
	verbs_open(&v, NULL);
	cq = verbs_cq(&v, 2 * DEPTH, NULL);
	for (int i = 0; i < 2; i++) {
		qp[i] = verbs_qp(&v, cq, &qp_opts);
		addr[i] = verbs_addr_of(&v, qp[i]);
	}
	for (int i = 0; i < 2; i++)
		verbs_connect(&v, qp[i], &addr[!i]);
	reg = bench_alloc(n * sizeof(*reg));
	dereg = bench_alloc(n * sizeof(*dereg));
	copy = bench_alloc(n * sizeof(*copy));
	for (size_t k = 0; k < passes; k++)
		pass[k] = bench_alloc(n * sizeof(**pass));
	cold_from = map(size);
	cold_to = map(size);
	for (size_t i = 0; i < n; i++) {
		uint64_t *from = map(size), *to = map(size), t;
		struct ibv_mr *mr[2];

		t = bench_now();
		memcpy(cold_to, cold_from, size);
		__asm__ volatile("" : : "r"(cold_to), "r"(cold_from) : "memory");
		copy[i] = bench_now() - t;
		t = bench_now();
		mr[0] = verbs_reg(&v, from, size);
		reg[i] = bench_now() - t;
		mr[1] = verbs_reg(&v, to, size);
		for (size_t k = 0; k < passes; k++) {
			mark(from, size, k);
			pass[k][i] = stream(qp[0], cq, mr[0], mr[1], size, msg);
			check(to, size, k);
			if (pause)
				usleep((useconds_t)pause);
		}
		t = bench_now();
		errno = ibv_dereg_mr(mr[0]);
		dereg[i] = bench_now() - t;
		if (errno || (errno = ibv_dereg_mr(mr[1])))
			bench_die("ibv_dereg_mr");
		check(to, size, passes - 1);
		munmap(from, size);
		munmap(to, size);
	}
	bench_sort(reg, n);
	bench_sort(dereg, n);
	bench_sort(copy, n);
	printf("{\"size\": %zu, \"reg_ns\": %lu, \"dereg_ns\": %lu, \"copy_ns\": %lu, \"pass_ns\": [",
	       size, bench_pct(reg, n, 0.5), bench_pct(dereg, n, 0.5), bench_pct(copy, n, 0.5));
	for (size_t k = 0; k < passes; k++) {
		bench_sort(pass[k], n);
		printf("%s%lu", k ? ", " : "", bench_pct(pass[k], n, 0.5));
	}
	printf("]}\n");
	for (int i = 0; i < 2; i++)
		ibv_destroy_qp(qp[i]);
	ibv_destroy_cq(cq);
	verbs_close(&v);
	return 0;
}
