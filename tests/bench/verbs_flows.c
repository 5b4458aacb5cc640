/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * verbs_flows.c - flows of RDMA WRITEs or READs in several containers at once, one in each: what each of
 * them moves in the same time. One process for all, which reaches each container's socket by itself, so
 * that a machine of two cores is not asked to run one for each.
 *
 * "NAME:BYTES" is a flow of WRITEs, "NAME:BYTES:r" one of READs.
 *
 * A flow is a QP that is connected with another one of its container. Its messages go through a source
 * and a target of a given length, one after the other, and from the start again; without a length all go
 * from the same place to the same place. What is counted are bytes, also of the message under way: what
 * messages consist of changes with each pass, by a second source, and the last byte of the newest one is
 * found by bisection where it goes to.
 */
#include <unistd.h>

#include "verbs.h"

#define MAX_FLOWS 4096
#define BATCH	  32

struct flow {
	const char *name;
	struct verbs v;
	struct ibv_cq *cq;
	struct ibv_qp *qp, *to;
	struct ibv_mr *from[2], *dest;
	uint32_t size;
	size_t stride;	/* bytes from one message's place to the next one's */
	uint64_t slots; /* places in each buffer */
	int is_read;
	uint64_t posted, completed;
	uint64_t bytes; /* at the start of the time, then in it */
	uint64_t at;	/* ns, of that reading */
	uint64_t ns;
};

static unsigned window = 16;
static size_t length; /* of a source and a target, bytes; at least one message */

static struct ibv_mr *buffer(struct flow *f, int fill)
{
	size_t size = f->stride * f->slots;
	uint8_t *p = bench_alloc(size);

	memset(p, fill, size);
	return verbs_reg(&f->v, p, size);
}

static void flow_open(struct flow *f, const char *dir)
{
	struct verbs_qp_opts opts = { .send_wr = window, .recv_wr = 1, .sq_sig_all = 1 };
	struct verbs_addr a, b;
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s/ffr.sock", dir, f->name);
	setenv("FFL_SOCKET", path, 1);
	verbs_open(&f->v, NULL);
	f->cq = verbs_cq(&f->v, window, NULL);
	f->qp = verbs_qp(&f->v, f->cq, &opts);
	f->to = verbs_qp(&f->v, f->cq, &opts);
	/* whole pages: parts of one would be reached through the kernel */
	f->stride = (f->size + 4095ul) & ~4095ul;
	f->slots = length > f->stride ? length / f->stride : 1;
	a = verbs_addr_of(&f->v, f->qp);
	b = verbs_addr_of(&f->v, f->to);
	verbs_connect(&f->v, f->qp, &b);
	verbs_connect(&f->v, f->to, &a);
	f->from[0] = buffer(f, 'a');
	f->from[1] = buffer(f, 'b');
	f->dest = buffer(f, 'b');
}

/* Message i, from the first on: its place in each buffer, and which of the two sources it is from. */
static size_t place(const struct flow *f, uint64_t i)
{
	return i % f->slots * f->stride;
}

static unsigned source(const struct flow *f, uint64_t i)
{
	return i / f->slots & 1;
}

static void post(struct flow *f)
{
	struct ibv_mr *from = f->from[source(f, f->posted)];
	struct ibv_mr *local = f->is_read ? f->dest : from, *remote = f->is_read ? from : f->dest;
	size_t at = place(f, f->posted++);
	struct ibv_sge sge = { (uintptr_t)local->addr + at, f->size, local->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = f->is_read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
		.wr.rdma = { (uintptr_t)remote->addr + at, remote->rkey },
	};

	verbs_post(f->qp, &wr);
}

/* What has completed is posted anew. The number. */
static int serve(struct flow *f)
{
	struct ibv_wc wc[BATCH];
	int n = ibv_poll_cq(f->cq, BATCH, wc);

	if (n < 0)
		bench_die("ibv_poll_cq");
	for (int i = 0; i < n; i++) {
		verbs_check(&wc[i]);
		f->completed++;
	}
	while (f->posted - f->completed < window)
		post(f);
	return n;
}

/* Bytes of the message under way that are there already. */
static uint64_t begun(const struct flow *f)
{
	const volatile uint8_t *p = (uint8_t *)f->dest->addr + place(f, f->completed);
	uint8_t now = source(f, f->completed) ? 'b' : 'a';
	uint64_t lo = 0, hi = f->size;

	while (lo < hi) {
		uint64_t mid = (lo + hi) / 2;

		if (p[mid] == now)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Completions may come while the buffer is looked at: only a reading without counts. */
static void read_off(struct flow *f, uint64_t *bytes, uint64_t *at)
{
	do {
		*at = bench_now();
		*bytes = f->completed * f->size + (f->size >= 4096 ? begun(f) : 0);
	} while (serve(f) && f->size >= 4096);
}

static void run(struct flow *f, int n, uint64_t ns, unsigned pause_us)
{
	uint64_t end = bench_now() + ns;

	while (bench_now() < end) {
		for (int i = 0; i < n; i++)
			serve(&f[i]);
		if (pause_us)
			usleep(pause_us);
	}
}

int main(int argc, char **argv)
{
	static struct flow flow[MAX_FLOWS];
	uint64_t ms = 2000, warm = 100, bytes, at;
	unsigned pause_us = 0;
	const char *dir = NULL;
	int n, is_ok, cpu = -1;
	const struct bench_opt options[] = {
		BENCH_NUM('c', cpu, -1, 4095),	      BENCH_TEXT('d', dir),
		BENCH_NUM('m', length, 1, 1L << 32),  BENCH_NUM('t', ms, 1, 600000),
		BENCH_NUM('w', window, 1, 8192),      BENCH_NUM('W', warm, 0, 600000),
		BENCH_NUM('p', pause_us, 0, 1000000), { 0 },
	};

	is_ok = bench_opts(argc, argv, options);
	n = argc - optind;
	if (!is_ok || !dir || n < 1 || n > MAX_FLOWS) {
		fprintf(stderr,
			"usage: verbs_flows -d DIR [-c CPU] [-t MS] [-W MS before] [-w WRS] "
			"[-p US between polls]\n"
			"                   [-m BYTES of a source and a target] "
			"CONTAINER:BYTES[:r] ...\n");
		return 2;
	}
	bench_pin(cpu);
	for (int i = 0; i < n; i++) {
		char *colon = strchr(argv[optind + i], ':'), *read;

		errno = 0;
		if (!colon)
			bench_die("%s has no size", argv[optind + i]);
		*colon++ = 0;
		read = strstr(colon, ":r");
		if (read) {
			*read = 0;
			flow[i].is_read = 1;
		}
		flow[i].name = argv[optind + i];
		flow[i].size = (uint32_t)bench_num(colon, 1, 1L << 30);
		flow_open(&flow[i], dir);
	}
	run(flow, n, warm * 1000000, pause_us);
	for (int i = 0; i < n; i++)
		read_off(&flow[i], &flow[i].bytes, &flow[i].at);
	run(flow, n, ms * 1000000, pause_us);
	printf("{\"flows\": [");
	for (int i = 0; i < n; i++) {
		read_off(&flow[i], &bytes, &at);
		printf("%s{\"name\": \"%s\", \"size\": %u, \"bytes\": %lu, \"ns\": %lu}",
		       i ? ", " : "", flow[i].name, flow[i].size, bytes - flow[i].bytes,
		       at - flow[i].at);
	}
	printf("]}\n");
	return 0; /* the process's end takes all with it */
}
