/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/raw.c tests/rig/verbs/vt.c -lpthread */
/* timeout: 600 */
/*
 * raw_idle.c - a hostile client that reads no answers, says nothing, or is killed at its work. As
 * raw_proto.c, with a victim beside it.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/verbs/raw.h"

/* Requests without end, and no answer is ever read. */
static void never_reads_answers(void)
{
	struct {
		struct ff_hdr hdr;
		struct ff_query_device_req req;
	} m = { .hdr = raw_header(FF_MSG_QUERY_DEVICE) };
	struct raw r[8];

	victim_start();
	for (unsigned i = 0; i < ARRAY_SIZE(r); i++) {
		raw_open(&r[i]);
		CHECK_EQ(fcntl(r[i].sock, F_SETFL, O_NONBLOCK), 0);
		for (unsigned k = 0; k < 20000; k++)
			if (send(r[i].sock, &m, sizeof(m), MSG_NOSIGNAL) < 0)
				break;
		victim_check();
	}
	for (unsigned i = 0; i < ARRAY_SIZE(r); i++)
		raw_close(&r[i]);
	victim_stop();
	raw_router_serves();
}

/* Async events without end that nobody reads: the oldest or the newest are lost, nothing else. */
static void never_reads_events(void)
{
	struct ff_qp_attr attr = { .en_sqd_async_notify = 1 };
	struct raw_qp q;
	struct raw r;

	victim_start();
	raw_open(&r);
	raw_qp_make(&r, &q, IBV_QPT_RC, 8192);
	raw_qp_connect(&r, &q);
	for (unsigned i = 0; i < 5000; i++) {
		int st = raw_qp_state(&r, &q, IBV_QPS_SQD, IBV_QP_EN_SQD_ASYNC_NOTIFY, &attr);

		if (st == RAW_CLOSED) /* the router may end it, with a line in its log */
			break;
		CHECK_EQ(st, 0);
		st = raw_qp_state(&r, &q, IBV_QPS_RTS, 0, NULL);
		if (st == RAW_CLOSED)
			break;
		CHECK_EQ(st, 0);
	}
	raw_close(&r);
	victim_stop();
	raw_router_serves();
}

/* Completion events that nobody reads. */
static void never_reads_channel(void)
{
	struct ff_create_channel_resp ch;
	struct ff_create_cq_resp cq;
	struct ff_create_qp_resp qp;
	struct ff_cq_hdr *hdr;
	struct raw_qp q;
	struct raw r;
	int fd;

	victim_start();
	raw_open(&r);
	raw_qp_make(&r, &q, IBV_QPT_RC, 8192);
	RAW_CALL(&r, CREATE_CHANNEL, &(struct ff_create_channel_req){ 0 }, &ch);
	fd = r.last_fd;
	RAW_CALL(&r, CREATE_CQ, (&(struct ff_create_cq_req){ .cqe = 256, .channel = ch.channel }),
		 &cq);
	RAW_CALL(&r, CREATE_QP,
		 (&(struct ff_create_qp_req){ .pd = q.pd,
					      .send_cq = cq.cq,
					      .recv_cq = cq.cq,
					      .qp_type = IBV_QPT_RC,
					      .cap = { 64, 64, 4, 4, 64 } }),
		 &qp);
	q.q = qp;
	q.qp = qp.qp;
	q.qp_num = qp.qp_num;
	q.cq = cq.cq;
	q.c = cq;
	q.hdr = raw_at(&r, qp.sq.seg, qp.sq.off);
	q.sq = raw_at(&r, qp.sq.seg, qp.sq.ring_off);
	q.cq_hdr = hdr = raw_at(&r, cq.ring.seg, cq.ring.off);
	q.cqe = raw_at(&r, cq.ring.seg, cq.ring.ring_off);
	raw_qp_connect(&r, &q);
	for (unsigned i = 0; i < 20000; i++) {
		struct ff_sqe *e = raw_sqe(&q);
		struct ff_cqe *c;

		atomic_store(&hdr->arm, FF_CQ_ARM_ANY);
		raw_write_wr(&q, e, i);
		raw_publish(&r, &q);
		WAIT_FOR((c = raw_cqe(&q)));
		CHECK_EQ(c->status, IBV_WC_SUCCESS);
	}
	close(fd);
	raw_close(&r);
	victim_stop();
	raw_router_serves();
}

/* Connections that never say anything. */
static void silent_connections(void)
{
	static struct raw r[100];
	unsigned n = 0;

	victim_start();
	for (; n < ARRAY_SIZE(r); n++)
		raw_connect(&r[n]);
	victim_check();
	raw_router_serves();
	for (unsigned i = 0; i < n; i++)
		raw_close(&r[i]);
	victim_stop();
}

/* Sessions that are killed with everything open, many times over. */
static void killed_sessions(void)
{
	victim_start();
	for (unsigned i = 0; i < 100; i++) {
		int status, p[2];
		char c;
		pid_t pid;

		CHECK_EQ(pipe(p), 0);
		pid = fork();
		CHECK(pid >= 0);
		if (!pid) {
			struct raw_qp q[3];
			struct raw r;

			raw_open(&r);
			for (unsigned k = 0; k < 3; k++) {
				raw_qp_make(&r, &q[k], IBV_QPT_RC, 1 << 20);
				raw_qp_connect(&r, &q[k]);
			}
			CHECK(write(p[1], "x", 1) == 1);
			for (unsigned k = 0;; k++) {
				struct ff_sqe *e = raw_sqe(&q[k % 3]);

				raw_write_wr(&q[k % 3], e, k);
				e->sge[0].length = 500000;
				raw_publish(&r, &q[k % 3]);
				while (raw_cqe(&q[k % 3]))
					;
			}
		}
		close(p[1]);
		CHECK(read(p[0], &c, 1) == 1);
		close(p[0]);
		kill(pid, SIGKILL);
		CHECK(waitpid(pid, &status, 0) == pid);
	}
	victim_stop();
	raw_router_serves();
}

VT_MAIN({ "proto_never_reads_answers", never_reads_answers, 0 },
	{ "proto_never_reads_events", never_reads_events, 0 },
	{ "proto_never_reads_channel", never_reads_channel, 0 },
	{ "proto_silent_connections", silent_connections, 0 },
	{ "proto_killed_sessions", killed_sessions, 0 })
