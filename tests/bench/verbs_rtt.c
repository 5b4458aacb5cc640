/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * verbs_rtt.c - round trip of a SEND between two processes, through one RC QP each.
 *
 *	verbs_rtt [-a CPU] [-b CPU] ...			both of them, in one container
 *	verbs_rtt -l PORT [-a CPU] [-e]			the one that answers
 *	verbs_rtt -c HOST -p PORT [-a CPU] [-e] ...	the one that asks
 *
 * With -e both sleep in ibv_get_cq_event() while they wait, as the peers (peer_unix.c, peer_tcp.c) sleep in
 * read(); without it both poll their CQs. -a and -b give each process a CPU. With -t the rounds end when
 * that time is over; the last message says that it is the last. cpu_ns is the CPU time of both processes
 * for one round.
 */
#include <sys/wait.h>
#include <stdbool.h>
#include <unistd.h>

#include "oob.h"
#include "verbs.h"

#define WARM_UP	     1000u
#define RECV_WR	     16
#define SIGNAL_EVERY 8 /* sends; fewer than the send queue holds */

struct end {
	struct verbs v;
	struct ibv_comp_channel *channel; /* NULL: poll */
	struct ibv_cq *scq, *rcq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *buf; /* sent from the first page, received into the second */
	uint32_t size;
	uint64_t sent, send_done;
	uint32_t events; /* not acknowledged yet */
};

static void post_recv(struct end *e)
{
	struct ibv_sge sge = { .addr = (uintptr_t)e->buf + 4096,
			       .length = e->size,
			       .lkey = e->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	errno = ibv_post_recv(e->qp, &wr, &bad);
	if (errno)
		bench_die("ibv_post_recv");
}

/* Sends are signalled now and then; the completion is fetched when the queue is half full. */
static void send_one(struct end *e)
{
	struct ibv_sge sge = { .addr = (uintptr_t)e->buf, .length = e->size, .lkey = e->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };
	struct ibv_wc wc;

	if (++e->sent % SIGNAL_EVERY == 0)
		wr.send_flags = IBV_SEND_SIGNALED;
	wr.wr_id = e->sent;
	verbs_post(e->qp, &wr);
	while (e->sent - e->send_done >= 2 * SIGNAL_EVERY) {
		verbs_wait(e->scq, &wc);
		e->send_done = wc.wr_id;
	}
}

static void sleep_for_event(struct end *e)
{
	struct ibv_cq *cq;
	void *arg;

	if (ibv_get_cq_event(e->channel, &cq, &arg))
		bench_die("ibv_get_cq_event");
	if (++e->events == 1000) {
		ibv_ack_cq_events(e->rcq, e->events);
		e->events = 0;
	}
	errno = ibv_req_notify_cq(e->rcq, 0);
	if (errno)
		bench_die("ibv_req_notify_cq");
}

static void recv_one(struct end *e)
{
	struct ibv_wc wc;
	int n;

	/* Armed all the time, so a completion is either seen now or announced. */
	while (!(n = ibv_poll_cq(e->rcq, 1, &wc)))
		if (e->channel)
			sleep_for_event(e);
	if (n < 0)
		bench_die("ibv_poll_cq");
	verbs_check(&wc);
	post_recv(e);
}

static void tell(int fd, const void *data, size_t len)
{
	errno = 0;
	oob_send(fd, data, len);
}

static void hear(int fd, void *data, size_t len)
{
	errno = 0;
	if (!oob_recv(fd, data, len))
		bench_die("the other process has gone");
}

static void set_up(struct end *e, bool events, uint32_t size, int fd)
{
	struct verbs_qp_opts opts = { .send_wr = 4 * SIGNAL_EVERY, .recv_wr = RECV_WR };
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = opts.send_wr,
						  .max_recv_wr = opts.recv_wr,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };
	struct verbs_addr mine, peer;

	memset(e, 0, sizeof(*e));
	verbs_open(&e->v, NULL);
	e->size = size;
	e->buf = bench_alloc(8192);
	e->mr = verbs_reg(&e->v, e->buf, 8192);
	if (events) {
		e->channel = ibv_create_comp_channel(e->v.ctx);
		if (!e->channel)
			bench_die("ibv_create_comp_channel");
	}
	e->scq = verbs_cq(&e->v, opts.send_wr, NULL);
	e->rcq = verbs_cq(&e->v, RECV_WR, e->channel);
	attr.send_cq = e->scq;
	attr.recv_cq = e->rcq;
	e->qp = ibv_create_qp(e->v.pd, &attr);
	if (!e->qp)
		bench_die("ibv_create_qp");
	mine = verbs_addr_of(&e->v, e->qp);
	tell(fd, &mine, sizeof(mine));
	hear(fd, &peer, sizeof(peer));
	verbs_connect(&e->v, e->qp, &peer);
	for (int i = 0; i < RECV_WR / 2; i++)
		post_recv(e);
	if (e->channel) {
		errno = ibv_req_notify_cq(e->rcq, 0);
		if (errno)
			bench_die("ibv_req_notify_cq");
	}
	/* Both are ready before either sends. */
	tell(fd, &mine, 1);
	hear(fd, &peer, 1);
}

static void tear_down(struct end *e)
{
	if (e->events)
		ibv_ack_cq_events(e->rcq, e->events);
	ibv_destroy_qp(e->qp);
	ibv_destroy_cq(e->scq);
	ibv_destroy_cq(e->rcq);
	if (e->channel)
		ibv_destroy_comp_channel(e->channel);
	ibv_dereg_mr(e->mr);
	verbs_close(&e->v);
	free(e->buf);
}

/* The last message is out when the other end says so; it gets our CPU time for that. */
static void answer(int fd, bool events, uint32_t size)
{
	bool is_last = false;
	uint64_t cpu;
	struct end e;

	set_up(&e, events, size, fd);
	cpu = bench_cpu_time();
	while (!is_last) {
		recv_one(&e);
		is_last = e.buf[4096]; /* before the answer, which the next one follows */
		send_one(&e);
	}
	hear(fd, e.buf, 1);
	cpu = bench_cpu_time() - cpu;
	tell(fd, &cpu, sizeof(cpu));
	tear_down(&e);
}

static void ask(int fd, bool events, uint32_t size, uint64_t n, uint64_t ms)
{
	uint64_t i, *ns, t, from = 0, until = UINT64_MAX, cpu, cpu_there;
	struct end e;

	if (ms)
		n = ms * 2000; /* more than there can be */
	ns = bench_alloc(n * sizeof(*ns));
	set_up(&e, events, size, fd);
	cpu = bench_cpu_time();
	e.buf[0] = 0;
	for (i = 0; !e.buf[0]; i++) {
		t = bench_now();
		if (i == WARM_UP) {
			from = t;
			if (ms)
				until = t + ms * 1000000;
		}
		e.buf[0] = i == n + WARM_UP - 1 || t >= until;
		send_one(&e);
		recv_one(&e);
		if (i >= WARM_UP)
			ns[i - WARM_UP] = bench_now() - t;
	}
	from = bench_now() - from;
	cpu = bench_cpu_time() - cpu;
	tell(fd, e.buf, 1);
	hear(fd, &cpu_there, sizeof(cpu_there));
	tear_down(&e);

	n = i - WARM_UP;
	bench_sort(ns, n);
	printf("{\"rounds\": %lu, \"ns\": %lu, \"median_ns\": %lu, \"p99_ns\": %lu, \"min_ns\": %lu, "
	       "\"cpu_ns\": %.1f}\n",
	       n, from, bench_pct(ns, n, 0.5), bench_pct(ns, n, 0.99), ns[0],
	       (double)(cpu + cpu_there) / (double)i);
	free(ns);
}

/* Both ends, of which this process is the one that asks. */
static void both(int a, int b, bool events, uint32_t size, uint64_t n, uint64_t ms)
{
	int fd, status;
	pid_t pid = bench_fork(a, b, &fd);

	if (!pid) {
		answer(fd, events, size);
		_exit(0);
	}
	ask(fd, events, size, n, ms);
	if (waitpid(pid, &status, 0) != pid || status)
		bench_die("the other process failed");
}

int main(int argc, char **argv)
{
	struct oob_end end = { 0 };
	uint64_t n = 100000, ms = 0;
	bool events = false;
	uint32_t size = 64;
	int a = -1, b = -1;
	const struct bench_opt options[] = {
		OOB_OPTS(end),
		BENCH_NUM('a', a, -1, 4095),
		BENCH_NUM('b', b, -1, 4095),
		BENCH_FLAG('e', events),
		BENCH_NUM('n', n, 100, 100000000),
		BENCH_NUM('s', size, 1, 4096),
		BENCH_NUM('t', ms, 1, 600000),
		{ 0 },
	};

	if (!bench_opts(argc, argv, options)) {
		fprintf(stderr,
			"usage: verbs_rtt [-l PORT | -c HOST -p PORT] [-a CPU] [-b CPU] [-e: events] "
			"[-n ROUNDS] [-s BYTES] [-t MS]\n");
		return 2;
	}
	if (!oob_is_told(&end)) {
		both(a, b, events, size, n, ms);
		return 0;
	}
	bench_pin(a);
	if (end.listen)
		answer(oob_open(&end), events, size);
	else
		ask(oob_open(&end), events, size, n, ms);
	return 0;
}
