/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * verbs_memory.c - RDMA WRITEs between two QPs of this process, of memory of several kinds: buffers that are pages,
 * and heap buffers of the same size that are not; on-demand memory that is resident, and that was never touched.
 *
 * 4 KB a second, from and to an aligned buffer and an unaligned one, -o outstanding; and how much longer a WRITE of
 * 4 KB to an on-demand page takes that has to come first than one to the same page afterwards, one at a time, ns.
 * Phases alternate, so that all see the same noise.
 */
#include <sys/mman.h>

#include "verbs.h"

#define PAGE   4096u
#define ODD    1000u /* bytes from a page's beginning */
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

struct memory {
	struct verbs v;
	struct ibv_cq *cq;
	struct ibv_qp *a, *b;
	unsigned int outstanding;
};

/* 4 KB twice: to be written, and to be written to. */
struct pair {
	uint8_t *p;
	struct ibv_mr *from, *to;
};

static struct ibv_mr *reg(struct memory *m, void *p, size_t len, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(m->v.pd, p, len, access);

	if (!mr)
		bench_die("ibv_reg_mr");
	return mr;
}

static void pair_init(struct memory *m, struct pair *p, size_t odd)
{
	p->p = bench_alloc(4 * PAGE);
	memset(p->p, 1, 4 * PAGE);
	p->from = reg(m, p->p + odd, PAGE, ACCESS);
	p->to = reg(m, p->p + 2 * PAGE + odd, PAGE, ACCESS);
}

static void write_to(struct memory *m, const struct ibv_mr *from, const struct ibv_mr *to,
		     uint64_t at)
{
	struct ibv_sge sge = { (uintptr_t)from->addr, PAGE, from->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = at, .rkey = to->rkey },
	};

	verbs_post(m->a, &wr);
}

/* WRITEs a second, for about so many ns. */
static double rate(struct memory *m, const struct pair *p, uint64_t ns)
{
	uint64_t start = bench_now(), n = 0, out = 0;
	struct ibv_wc wc;

	do {
		for (; out < m->outstanding; out++)
			write_to(m, p->from, p->to, (uintptr_t)p->to->addr);
		verbs_wait(m->cq, &wc);
		out--;
		n++;
	} while (bench_now() - start < ns);
	for (; out; out--, n++)
		verbs_wait(m->cq, &wc);
	return (double)n * 1e9 / (double)(bench_now() - start);
}

/* One WRITE after the other to each page of `to`: ns for each. */
static double each(struct memory *m, const struct ibv_mr *from, const struct ibv_mr *to,
		   unsigned int pages)
{
	uint64_t start = bench_now();
	struct ibv_wc wc;

	for (unsigned int i = 0; i < pages; i++) {
		write_to(m, from, to, (uintptr_t)to->addr + (uint64_t)i * PAGE);
		verbs_wait(m->cq, &wc);
	}
	return (double)(bench_now() - start) / pages;
}

static void faults(struct memory *m, const struct pair *p, unsigned int pages)
{
	void *mem = mmap(NULL, (size_t)pages * PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;
	double first, again;

	if (mem == MAP_FAILED || madvise(mem, (size_t)pages * PAGE, MADV_NOHUGEPAGE))
		bench_die("mmap");
	mr = reg(m, mem, (size_t)pages * PAGE, ACCESS | IBV_ACCESS_ON_DEMAND);
	first = each(m, p->from, mr, pages);
	again = each(m, p->from, mr, pages);
	printf("\"fault_ns\": %.0f, \"again_ns\": %.0f", first - again, again);
	ibv_dereg_mr(mr);
	munmap(mem, (size_t)pages * PAGE);
}

int main(int argc, char **argv)
{
	struct memory m = { .outstanding = 16 };
	struct verbs_qp_opts opts;
	struct verbs_addr addr_a, addr_b;
	struct pair aligned, odd;
	unsigned int phases = 5, pages = 1000;
	uint64_t ms = 200;
	const struct bench_opt options[] = {
		BENCH_NUM('n', pages, 1, 100000),
		BENCH_NUM('o', m.outstanding, 1, 1024),
		BENCH_NUM('p', phases, 1, 1000),
		BENCH_NUM('t', ms, 1, 100000),
		{ 0 },
	};

	if (!bench_opts(argc, argv, options)) {
		fprintf(stderr, "usage: verbs_memory [-n PAGES] [-o OUTSTANDING] [-t MS-PER-PHASE] "
				"[-p PHASES]\n");
		return 2;
	}
	verbs_open(&m.v, NULL);
	opts = (struct verbs_qp_opts){ .send_wr = m.outstanding, .recv_wr = 1 };
	m.cq = verbs_cq(&m.v, 2 * m.outstanding, NULL);
	m.a = verbs_qp(&m.v, m.cq, &opts);
	m.b = verbs_qp(&m.v, m.cq, &opts);
	addr_a = verbs_addr_of(&m.v, m.a);
	addr_b = verbs_addr_of(&m.v, m.b);
	verbs_connect(&m.v, m.a, &addr_b);
	verbs_connect(&m.v, m.b, &addr_a);
	pair_init(&m, &aligned, 0);
	pair_init(&m, &odd, ODD);
	rate(&m, &aligned, ms * 1000000); /* warm */
	printf("{\"phases\": [");
	for (unsigned int i = 0; i < phases; i++) {
		printf("%s{\"aligned\": %.0f, ", i ? ", " : "", rate(&m, &aligned, ms * 1000000));
		printf("\"odd\": %.0f, ", rate(&m, &odd, ms * 1000000));
		faults(&m, &aligned, pages);
		printf("}");
	}
	printf("]}\n");
	return 0;
}
