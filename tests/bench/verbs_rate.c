/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * verbs_rate.c - how many RDMA WRITEs of 8 bytes a second one QP does with many outstanding, to
 * another QP of this process; alone, and beside idle QPs (-q) that were connected before.
 *
 * One thread, on one CPU (-c). It keeps -o WRs outstanding, posts -l of them with one call, and
 * asks for a completion of every -s th.
 *
 * With -q, phases without and with the idle QPs alternate, so that both see the same noise.
 *
 * With -I it does a fixed number of operations for a profiler: post a full queue, wait until it is
 * all done, poll. bench_post() and bench_poll() are the functions on which callgrind's collection
 * is to be toggled; no poll inside them is an empty one.
 */
#include <stdbool.h>
#include <unistd.h>

#include "verbs.h"

#define WINDOW	    512	   /* WRs that are timed together */
#define MAX_WINDOWS 100000 /* of a phase; what comes later is not sampled */

struct rate {
	struct verbs v;
	struct ibv_cq *cq;
	struct ibv_qp *a, *b;
	struct ibv_mr *mr;
	uint8_t *buf;
	unsigned int outstanding, signal, list;
	struct ibv_send_wr *wr; /* [list], chained */
	struct ibv_sge sge;
	uint64_t posted, done; /* WRs; done: known from completions */
	uint64_t *window;      /* [MAX_WINDOWS] ns */
};

__attribute__((noipa)) static int bench_post(struct ibv_qp *qp, struct ibv_send_wr *wr,
					     struct ibv_send_wr **bad)
{
	return ibv_post_send(qp, wr, bad);
}

__attribute__((noipa)) static int bench_poll(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	return ibv_poll_cq(cq, n, wc);
}

/* Post one list of WRs; each `signal` th asks for a completion and carries the count so far. */
static void post(struct rate *r)
{
	struct ibv_send_wr *bad;

	for (unsigned int i = 0; i < r->list; i++) {
		r->posted++;
		r->wr[i].wr_id = r->posted;
		if (r->posted % r->signal == 0)
			r->wr[i].send_flags |= IBV_SEND_SIGNALED;
		else
			r->wr[i].send_flags &= ~(unsigned int)IBV_SEND_SIGNALED;
	}
	errno = bench_post(r->a, r->wr, &bad);
	if (errno)
		bench_die("ibv_post_send");
}

static int poll(struct rate *r)
{
	struct ibv_wc wc[32];
	int n = bench_poll(r->cq, 32, wc);

	if (n < 0)
		bench_die("ibv_poll_cq");
	for (int i = 0; i < n; i++)
		verbs_check(&wc[i]);
	if (n)
		r->done = wc[n - 1].wr_id;
	return n;
}

/* Until all that asked for a completion has got it. */
static void drain(struct rate *r)
{
	while (r->done < r->posted / r->signal * r->signal)
		poll(r);
}

/* WRs per second */
struct result {
	double mean; /* over the whole phase: what the figure is */
	double median; /* over windows of WINDOW: what another process's use of the CPU hardly moves */
};

/* Stream for about so many ns. */
static struct result run(struct rate *r, uint64_t ns)
{
	uint64_t start = bench_now(), first = r->done, seen = first, t = start, now = start;
	struct result res = { 0 };
	size_t n = 0;

	do {
		while (r->posted + r->list - r->done <= r->outstanding)
			post(r);
		poll(r);
		if (r->done - seen < WINDOW)
			continue;
		now = bench_now();
		if (n < MAX_WINDOWS)
			r->window[n++] = (now - t) * WINDOW / (r->done - seen);
		t = now;
		seen = r->done;
	} while (now - start < ns);
	drain(r);
	res.mean = (double)(r->done - first) * 1e9 / (double)(bench_now() - start);
	bench_sort(r->window, n);
	res.median = WINDOW * 1e9 / (double)bench_pct(r->window, n, 0.5);
	return res;
}

/* A fixed number of WRs, a full queue at a time, with no empty poll. */
static void run_fixed(struct rate *r, uint64_t ops, unsigned int settle_us)
{
	uint64_t end = r->posted + ops;

	while (r->posted < end) {
		while (r->posted + r->list - r->done <= r->outstanding)
			post(r);
		usleep(settle_us);
		while (r->done < r->posted / r->signal * r->signal)
			if (!poll(r))
				usleep(settle_us);
	}
}

static struct ibv_qp **idle_create(struct rate *r, unsigned int n)
{
	struct verbs_qp_opts opts = { .send_wr = 1, .recv_wr = 1 };
	struct ibv_qp **qp = calloc(n, sizeof(struct ibv_qp *));
	struct ibv_send_wr wr = r->wr[0];
	struct verbs_addr addr;
	struct ibv_wc wc;

	if (!qp)
		bench_die("calloc");
	wr.next = NULL;
	wr.send_flags |= IBV_SEND_SIGNALED;
	for (unsigned int i = 0; i < n; i++) {
		qp[i] = verbs_qp(&r->v, r->cq, &opts);
		addr = verbs_addr_of(&r->v, qp[i]);
		verbs_connect(&r->v, qp[i], &addr); /* with itself */
		/* Each one has worked once: idle, not unused. */
		wr.wr_id = r->done;
		wr.send_flags &= ~(unsigned int)IBV_SEND_INLINE;
		verbs_post(qp[i], &wr);
		verbs_wait(r->cq, &wc);
	}
	return qp;
}

static void idle_destroy(struct ibv_qp **qp, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		errno = ibv_destroy_qp(qp[i]);
		if (errno)
			bench_die("ibv_destroy_qp");
	}
	free(qp);
}

static void set_up(struct rate *r, bool inl)
{
	struct verbs_qp_opts opts = { .send_wr = r->outstanding,
				      .recv_wr = 1,
				      .max_inline = inl ? 64 : 0 };
	struct verbs_addr addr_a, addr_b;

	verbs_open(&r->v, NULL);
	r->buf = bench_alloc(8192);
	r->mr = verbs_reg(&r->v, r->buf, 8192);
	r->cq = verbs_cq(&r->v, 2 * r->outstanding, NULL);
	r->a = verbs_qp(&r->v, r->cq, &opts);
	r->b = verbs_qp(&r->v, r->cq, &opts);
	addr_a = verbs_addr_of(&r->v, r->a);
	addr_b = verbs_addr_of(&r->v, r->b);
	verbs_connect(&r->v, r->a, &addr_b);
	verbs_connect(&r->v, r->b, &addr_a);
	r->sge = (struct ibv_sge){ .addr = (uintptr_t)r->buf, .length = 8, .lkey = r->mr->lkey };
	r->wr = calloc(r->list, sizeof(*r->wr));
	r->window = calloc(MAX_WINDOWS, sizeof(*r->window));
	if (!r->wr || !r->window)
		bench_die("calloc");
	for (unsigned int i = 0; i < r->list; i++) {
		r->wr[i].next = i + 1 < r->list ? &r->wr[i + 1] : NULL;
		r->wr[i].opcode = IBV_WR_RDMA_WRITE;
		r->wr[i].send_flags = inl ? IBV_SEND_INLINE : 0;
		r->wr[i].sg_list = &r->sge;
		r->wr[i].num_sge = 1;
		r->wr[i].wr.rdma.remote_addr = (uintptr_t)r->buf + 4096;
		r->wr[i].wr.rdma.rkey = r->mr->rkey;
	}
}

static void tear_down(struct rate *r)
{
	ibv_destroy_qp(r->a);
	ibv_destroy_qp(r->b);
	ibv_destroy_cq(r->cq);
	ibv_dereg_mr(r->mr);
	verbs_close(&r->v);
	free(r->wr);
	free(r->window);
	free(r->buf);
}

static void print(const char *name, struct result res)
{
	printf("\"%s\": %.0f, \"%s_median\": %.0f", name, res.mean, name, res.median);
}

int main(int argc, char **argv)
{
	struct rate r = { .outstanding = 128, .signal = 1, .list = 1 };
	uint64_t ms = 500, fixed = 0;
	unsigned int num_idle = 0, phases = 5, settle_us = 2000;
	struct ibv_qp **idle;
	bool inl = false;
	int cpu = -1;
	const struct bench_opt options[] = {
		BENCH_NUM('c', cpu, -1, 4095),
		BENCH_FLAG('i', inl),
		BENCH_NUM('I', fixed, 1, 1000000000),
		BENCH_NUM('l', r.list, 1, 1024),
		BENCH_NUM('o', r.outstanding, 1, 8192),
		BENCH_NUM('p', phases, 1, 1000),
		BENCH_NUM('q', num_idle, 0, 30000),
		BENCH_NUM('s', r.signal, 1, 8192),
		BENCH_NUM('t', ms, 1, 100000),
		BENCH_NUM('w', settle_us, 0, 1000000),
		{ 0 },
	};

	if (!bench_opts(argc, argv, options)) {
		fprintf(stderr, "usage: verbs_rate [-c CPU] [-i: inline] [-o OUTSTANDING] "
				"[-s SIGNAL-EVERY] [-l LIST]\n"
				"                  [-t MS-PER-PHASE] [-p PHASES] [-q IDLE-QPS]\n"
				"                  [-I OPERATIONS [-w SETTLE-US]]\n");
		return 2;
	}
	errno = 0;
	if (r.list > r.outstanding || r.outstanding % r.signal || r.outstanding % r.list)
		bench_die("-o must be a multiple of -s and of -l");
	bench_pin(cpu);
	set_up(&r, inl);
	if (fixed) {
		run_fixed(&r, fixed, settle_us);
		printf("{\"operations\": %lu, \"completions\": %lu}\n", r.posted,
		       r.posted / r.signal);
		tear_down(&r);
		return 0;
	}

	run(&r, ms * 200000); /* warm */
	printf("{\"phases\": [");
	for (unsigned int i = 0; i < phases; i++) {
		printf("%s{", i ? ", " : "");
		print("alone", run(&r, ms * 1000000));
		if (num_idle) {
			idle = idle_create(&r, num_idle);
			run(&r, ms * 100000);
			printf(", ");
			print("idle", run(&r, ms * 1000000));
			idle_destroy(idle, num_idle);
		}
		printf("}");
	}
	printf("]}\n");
	tear_down(&r);
	return 0;
}
