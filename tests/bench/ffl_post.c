/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ffl_post.c - what ibv_post_send, ibv_wr_* and ibv_poll_cq cost on the application's side: rings
 * in plain memory, with the same thread as the router between the timed parts. For perf stat and
 * callgrind rather than for the table: `ffl_post post` runs one case alone.
 *
 * build: tests/rig/fakes/fake_ffl.c ffl/session/bell.c ffl/verbs/post.c ffl/verbs/post_ex.c ffl/verbs/qp.c ffl/verbs/cq.c ffl/verbs/gone.c ffl/verbs/cq_ex.c ffl/verbs/srq.c ffl/verbs/channel.c ffl/verbs/home.c ffl/session/table.c ffl/verbs/async.c ffl/verbs/domain.c ffl/verbs/xrc.c -lcmocka
 */
#include "ffl/session/ffl.h"
#include "bench.h"
#include "tests/rig/fakes/fake_ffl.h"

#define BATCH 128u
static uint32_t rounds = 20000;

static struct ffl_qp *qp;
static struct ffl_cq *cq;
static char data[8];
static struct ibv_sge sge = { .length = sizeof(data), .lkey = 1 };
static struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE };

static void post_one(void)
{
	struct ibv_send_wr *bad;

	if (ibv_post_send(&qp->qp, &wr, &bad))
		bench_die("ibv_post_send");
}

static void wr_one(void)
{
	qp->ex.wr_id = 1;
	qp->ex.wr_flags = 0;
	ibv_wr_start(&qp->ex);
	ibv_wr_rdma_write(&qp->ex, 1, 2);
	ibv_wr_set_sge(&qp->ex, 1, sge.addr, sge.length);
	if (ibv_wr_complete(&qp->ex))
		bench_die("ibv_wr_complete");
}

static void recv_one(void)
{
	struct ibv_recv_wr rwr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	if (ibv_post_recv(&qp->qp, &rwr, &bad))
		bench_die("ibv_post_recv");
}

/* The router's part of a batch, which is not timed. */
static void consume(void)
{
	static uint32_t pi;
	struct ff_cqe cqe = { .qp = qp->handle };

	atomic_store(&qp->hdr->sq_done, ff_done(qp->sq_tail, qp->sq_polled));
	atomic_store(&qp->rq_polled, qp->rq_tail);
	for (uint32_t i = 0; i < BATCH; i++)
		fake_cqe(cq, pi++, &cqe);
}

static void poll_one(void)
{
	struct ibv_wc wc;

	if (ibv_poll_cq(&cq->cq, 1, &wc) != 1)
		bench_die("ibv_poll_cq");
}

static uint64_t shorter(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void run(const char *name, const char *only, void (*one)(void))
{
	uint64_t ns = UINT64_MAX, poll_ns = UINT64_MAX; /* of the best batch */

	if (only && strcmp(only, name))
		return;
	for (uint32_t r = 0; r < rounds; r++) {
		uint64_t t = bench_now();

		for (uint32_t i = 0; i < BATCH; i++)
			one();
		ns = shorter(ns, bench_now() - t);
		consume();
		t = bench_now();
		for (uint32_t i = 0; i < BATCH; i++)
			poll_one();
		poll_ns = shorter(poll_ns, bench_now() - t);
	}
	printf("{ \"case\": \"%s\", \"ns_each\": %.1f, \"ns_poll\": %.1f }\n", name,
	       (double)ns / BATCH, (double)poll_ns / BATCH);
}

int main(int argc, char **argv)
{
	const char *only = argc > 1 ? argv[1] : NULL;

	if (argc > 2)
		rounds = (uint32_t)bench_num(argv[2], 1, 10000000);
	if (fake_setup(NULL))
		bench_die("setup");
	cq = fake_cq(BATCH);
	qp = fake_qp_ex(IBV_QPT_RC, cq, BATCH, 1, 64);
	sge.addr = (uintptr_t)data;
	run("post", only, post_one);
	wr.send_flags = IBV_SEND_INLINE;
	run("inline", only, post_one);
	wr.send_flags = 0;
	run("wr", only, wr_one);
	run("recv", only, recv_one);
	return 0;
}
