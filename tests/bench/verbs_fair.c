/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * verbs_fair.c - how many pairs of QPs between two containers share what one pair has: bytes per
 * second together, and Jain's index of fairness over the pairs.
 *
 *	verbs_fair -l PORT
 *	verbs_fair -c HOST -p PORT [-q QPS] [-s BYTES] [-w WRITES] [-t MS]
 *
 * Each QP keeps -w RDMA WRITEs under way. Source and destination are the same number of buffers
 * however many QPs there are, so that one QP does not live in a cache that many do not fit in.
 */
#include "oob.h"
#include "verbs.h"

#define MAX_QPS 4096u
#define BUFFERS 512u
#define BATCH	64

struct job {
	uint32_t qps, size, window, ms;
};

struct side {
	struct verbs v;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	char *buf;
	struct ibv_qp *qp[MAX_QPS];
	struct verbs_addr self[MAX_QPS], peer[MAX_QPS];
	uint64_t bytes[MAX_QPS];
	uint64_t next[MAX_QPS]; /* WRITE of the QP, for its buffer */
};

/* Both halves make the same QPs; the first address has the buffers. */
static void connect_all(struct side *s, int fd, const struct job *job)
{
	struct verbs_qp_opts opts = { .send_wr = job->window, .recv_wr = 1, .sq_sig_all = 1 };
	size_t len = (size_t)BUFFERS * job->size, n = job->qps * sizeof(s->self[0]);

	verbs_open(&s->v, NULL);
	s->cq = verbs_cq(&s->v, job->qps * job->window, NULL);
	s->buf = bench_alloc(len);
	s->mr = verbs_reg(&s->v, s->buf, len);
	for (uint32_t i = 0; i < job->qps; i++) {
		s->qp[i] = verbs_qp(&s->v, s->cq, &opts);
		s->self[i] = verbs_addr_of(&s->v, s->qp[i]);
		s->self[i].addr = (uintptr_t)s->buf;
		s->self[i].rkey = s->mr->rkey;
	}
	oob_send(fd, s->self, n);
	if (!oob_recv(fd, s->peer, n))
		bench_die("the other half has gone");
	for (uint32_t i = 0; i < job->qps; i++)
		verbs_connect(&s->v, s->qp[i], &s->peer[i]);
	oob_send(fd, "r", 1);
	if (!oob_recv(fd, s->buf, 1))
		bench_die("the other half has gone");
}

static void disconnect_all(struct side *s, const struct job *job)
{
	for (uint32_t i = 0; i < job->qps; i++)
		ibv_destroy_qp(s->qp[i]);
	ibv_dereg_mr(s->mr);
	ibv_destroy_cq(s->cq);
	verbs_close(&s->v);
	free(s->buf);
}

static void post(struct side *s, const struct job *job, uint32_t q)
{
	uint64_t at = (q + s->next[q]++ * job->qps) % BUFFERS * job->size;
	struct ibv_sge sge = { .addr = (uintptr_t)s->buf + at,
			       .length = job->size,
			       .lkey = s->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = q,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { .remote_addr = s->peer[0].addr + at, .rkey = s->peer[0].rkey },
	};

	verbs_post(s->qp[q], &wr);
}

/* Until the time is over; bytes count from the moment that `count` is set. */
static void run_until(struct side *s, const struct job *job, uint64_t end, int count, int repost)
{
	struct ibv_wc wc[BATCH];
	int n;

	do {
		n = ibv_poll_cq(s->cq, BATCH, wc);
		if (n < 0)
			bench_die("ibv_poll_cq");
		for (int i = 0; i < n; i++) {
			verbs_check(&wc[i]);
			if (count)
				s->bytes[wc[i].wr_id] += job->size;
			if (repost)
				post(s, job, (uint32_t)wc[i].wr_id);
		}
	} while (bench_now() < end);
}

static void drain(struct side *s, const struct job *job)
{
	struct ibv_wc wc;

	for (uint64_t left = (uint64_t)job->qps * job->window; left; left--)
		verbs_wait(s->cq, &wc);
}

/* (sum x)^2 / (n * sum x^2), Jain, Chiu, Hawe 1984: 1 if all have the same. */
static double jain(const uint64_t *x, uint32_t n)
{
	double sum = 0, squares = 0;

	for (uint32_t i = 0; i < n; i++) {
		sum += (double)x[i];
		squares += (double)x[i] * (double)x[i];
	}
	return squares ? sum * sum / (n * squares) : 0;
}

static void client(int fd, const struct job *job)
{
	struct side *s = calloc(1, sizeof(*s));
	uint64_t start, ns, total = 0, lo = UINT64_MAX, hi = 0;

	if (!s)
		bench_die("memory");
	oob_send(fd, job, sizeof(*job));
	connect_all(s, fd, job);
	for (uint32_t k = 0; k < job->window; k++)
		for (uint32_t q = 0; q < job->qps; q++)
			post(s, job, q);
	run_until(s, job, bench_now() + job->ms * 250000ull, 0, 1);
	start = bench_now();
	run_until(s, job, start + job->ms * 1000000ull, 1, 1);
	ns = bench_now() - start;
	drain(s, job);
	for (uint32_t q = 0; q < job->qps; q++) {
		total += s->bytes[q];
		lo = s->bytes[q] < lo ? s->bytes[q] : lo;
		hi = s->bytes[q] > hi ? s->bytes[q] : hi;
	}
	printf("{\"qps\": %u, \"bytes_per_s\": %.0f, \"jain\": %.6f, \"least\": %.0f, \"most\": %.0f}\n",
	       job->qps, (double)total * 1e9 / (double)ns, jain(s->bytes, job->qps),
	       (double)lo * 1e9 / (double)ns, (double)hi * 1e9 / (double)ns);
	disconnect_all(s, job);
	free(s);
}

static void server(int fd)
{
	struct side *s = calloc(1, sizeof(*s));
	struct job job;
	char c;

	if (!s)
		bench_die("memory");
	if (!oob_recv(fd, &job, sizeof(job)))
		return;
	connect_all(s, fd, &job);
	while (oob_recv(fd, &c, 1))
		;
	disconnect_all(s, &job);
	free(s);
}

int main(int argc, char **argv)
{
	struct job job = { .qps = 512, .size = 65536, .window = 4, .ms = 2000 };
	struct oob_end end = { 0 };
	int fd;
	const struct bench_opt options[] = {
		OOB_OPTS(end),
		BENCH_NUM('q', job.qps, 1, MAX_QPS),
		BENCH_NUM('s', job.size, 1, 1 << 20),
		BENCH_NUM('w', job.window, 1, 1024),
		BENCH_NUM('t', job.ms, 10, 600000),
		{ 0 },
	};

	if (!bench_opts(argc, argv, options) || !oob_is_told(&end)) {
		fprintf(stderr, "usage: verbs_fair -l PORT | -c HOST -p PORT [-q QPS] [-s BYTES]"
				" [-w WRITES] [-t MS]\n");
		return 2;
	}
	fd = oob_open(&end);
	if (end.listen)
		server(fd);
	else
		client(fd, &job);
	close(fd);
	return 0;
}
