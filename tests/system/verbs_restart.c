/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/halves.c tests/rig/verbs/vt.c */
/*
 * verbs_restart.c - programs whose router is restarted, and which do not notice: two halves hold connections in
 * several states. verbs_restart.sh, which starts this program, restarts the router each time when this program has printed
 * "ready CASE NUMBER", and then makes the file $RESTART/CASE.NUMBER. While there is no router there is, for a moment, a
 * file $RESTART/CASE.dies.
 */
#include "tests/rig/verbs/halves.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define RESTARTS 4u
#define LEN	 4096u
#define MANY	 32u
#define WINDOW	 16u
#define KILLS	 4u
#define LARGE	 ((size_t)4 << 20)
#define SRQ_SLOT 16384u /* bytes of a receive */

static const char *name;      /* of the case, in both halves */
static unsigned num_restarts; /* that this half has seen */

static bool has_file(const char *what)
{
	const char *dir = getenv("RESTART");
	char path[256];

	CHECK(dir);
	snprintf(path, sizeof(path), "%s/%s.%s", dir, name, what);
	return !access(path, F_OK);
}

static void wait_router(bool tells)
{
	char number[12];

	snprintf(number, sizeof(number), "%u", ++num_restarts);
	if (tells) {
		printf("ready %s %s\n", name, number);
		fflush(stdout);
	}
	WAIT_FOR(has_file(number));
}

/* Both halves are idle: the router is restarted. */
static void restart(bool tells)
{
	halves_meet('r');
	wait_router(tells);
	halves_meet('s');
}

/* No event says that something has happened, and the router answers. */
static void unnoticed(struct vt_end *e, uint32_t qpn, uint32_t rkey)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK(!vt_readable(e->ctx->async_fd, 0));
	CHECK_OK(ibv_query_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_DEST_QPN, &init));
	CHECK_EQ(attr.qp_state, IBV_QPS_RTS);
	CHECK_EQ(attr.dest_qp_num, e->peer.qpn);
	CHECK_EQ(e->qp->qp_num, qpn);
	CHECK_EQ(e->mr->rkey, rkey);
}

/* Everything that a program makes can be made, and works. */
static void makes_more(struct vt_end *e)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	vt_end_open_on(&a, &par, e->ctx, e->pd);
	vt_end_open_on(&b, &par, e->ctx, e->pd);
	CHECK(a.qp->qp_num != e->qp->qp_num && a.mr->rkey != e->mr->rkey);
	vt_connect(&a, &b.self);
	vt_connect(&b, &a.self);
	vt_check_alive(&a, &b);
	vt_end_close(&a);
	vt_end_close(&b);
}

static void wait_event(struct vt_end *e, struct ibv_cq *cq)
{
	WANT_COMP_EVENT(e->channel, cq);
	ibv_ack_cq_events(cq, 1);
}

static struct vt_param with_channel(void)
{
	struct vt_param par = VT_PARAM;

	par.channel = true;
	return par;
}

/* ---- idle connections --------------------------------------------------------------------------- */

static void holds_client(void)
{
	struct vt_param par = with_channel();
	struct vt_end e;

	name = "holds";
	halves_open(&e, &par);
	for (unsigned i = 0; i < RESTARTS; i++) {
		const uint32_t qpn = e.qp->qp_num, rkey = e.mr->rkey;

		vt_pattern(e.buf, LEN, i);
		vt_rdma(&e, IBV_WR_RDMA_WRITE, 1, 0, LEN, LEN, IBV_SEND_SIGNALED);
		WANT_OK(e.scq, 1);
		/* a completion that is not polled, and one whose event waits */
		vt_rdma(&e, IBV_WR_RDMA_WRITE, 2, 0, 8, 3 * LEN, IBV_SEND_SIGNALED);
		WAIT_FOR(vt_state(e.qp) == IBV_QPS_RTS);
		restart(true);
		unnoticed(&e, qpn, rkey);
		WANT_OK(e.scq, 2);
		CHECK_EMPTY(e.scq);
		memset(e.buf, 0, LEN);
		vt_rdma(&e, IBV_WR_RDMA_READ, 3, 0, LEN, LEN, IBV_SEND_SIGNALED);
		WANT_OK(e.scq, 3);
		CHECK_PATTERN(e.buf, LEN, i);
		CHECK_OK(ibv_req_notify_cq(e.scq, 0));
		vt_send(&e, 4, 0, LEN, IBV_SEND_SIGNALED);
		wait_event(&e, e.scq);
		WANT_OK(e.scq, 4);
		CHECK_EMPTY(e.scq);
		makes_more(&e);
		halves_meet('o');
	}
	halves_meet('e');
	vt_end_close(&e);
}

static void holds_server(void)
{
	struct vt_param par = with_channel();
	struct vt_end e;

	name = "holds";
	halves_open(&e, &par);
	for (unsigned i = 0; i < RESTARTS; i++) {
		const uint32_t qpn = e.qp->qp_num, rkey = e.mr->rkey;

		/* a receive that is posted before, and a CQ that waits for it over the restart */
		vt_recv(&e, 10 + i, 0, LEN);
		CHECK_OK(ibv_req_notify_cq(e.rcq, 0));
		restart(false);
		unnoticed(&e, qpn, rkey);
		CHECK_PATTERN(e.buf + LEN, LEN, i);
		wait_event(&e, e.rcq);
		WANT_OK(e.rcq, 10 + i);
		CHECK_PATTERN(e.buf, LEN, i);
		makes_more(&e);
		halves_meet('o');
	}
	halves_meet('e');
	vt_end_close(&e);
}

/* ---- QPs in all states, and many of them ---------------------------------------------------------- */

static void in_state(struct vt_end *e, struct ibv_qp **qp, enum ibv_qp_state state)
{
	*qp = vt_make_qp(e);
	if (state >= IBV_QPS_INIT)
		CHECK_EQ(vt_to_init(*qp, &e->par), 0);
	if (state >= IBV_QPS_RTR)
		CHECK_EQ(vt_to_rtr(*qp, &e->par, &e->self), 0);
	if (state >= IBV_QPS_RTS)
		CHECK_EQ(vt_to_rts(*qp, &e->par, 0), 0);
	if (state > IBV_QPS_RTS)
		CHECK_EQ(vt_to_state(*qp, state), 0);
}

/* A QP connected to itself, which goes on from each state. */
static void states_client(void)
{
	static const enum ibv_qp_state state[] = { IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
						   IBV_QPS_RTS,	  IBV_QPS_SQD,	IBV_QPS_ERR };
	struct vt_param par = VT_PARAM;
	struct ibv_qp *qp[ARRAY_SIZE(state)];
	struct vt_end e;

	name = "states";
	vt_end_open(&e, &par);
	for (unsigned i = 0; i < ARRAY_SIZE(state); i++)
		in_state(&e, &qp[i], state[i]);
	for (unsigned n = 0; n < 2; n++) {
		restart(true);
		for (unsigned i = 0; i < ARRAY_SIZE(state); i++)
			CHECK_EQ(vt_state(qp[i]), state[i]);
		CHECK(!vt_readable(e.ctx->async_fd, 0));
	}
	CHECK_EQ(vt_to_init(qp[0], &par), 0);
	CHECK_EQ(vt_to_rtr(qp[0], &par, &e.self), 0);
	CHECK_EQ(vt_to_rtr(qp[1], &par, &e.self), 0);
	for (unsigned i = 0; i < 3; i++)
		CHECK_EQ(vt_to_rts(qp[i], &par, 0), 0);
	CHECK_EQ(vt_to_state(qp[4], IBV_QPS_RTS), 0);
	CHECK_EQ(vt_to_state(qp[5], IBV_QPS_RESET), 0);
	CHECK_EQ(vt_to_init(qp[5], &par), 0);
	CHECK_EMPTY(e.scq);
	CHECK_EMPTY(e.rcq);
	vt_destroy_qps(qp, ARRAY_SIZE(state));
	vt_end_close(&e);
}

static void states_server(void)
{
	name = "states";
	for (unsigned n = 0; n < 2; n++)
		restart(false);
}

/* Connected in pairs to QPs of the other half, by the numbers that the halves tell each other. */
static void many_open(struct vt_end *e, struct ibv_qp **qp)
{
	struct vt_param par = VT_PARAM;

	halves_open(e, &par);
	for (unsigned i = 0; i < MANY; i++) {
		struct vt_addr mine = e->self, theirs;

		qp[i] = vt_make_qp(e);
		mine.qpn = qp[i]->qp_num;
		halves_exchange(&mine, &theirs);
		vt_connect_qp(qp[i], &par, &mine, &theirs);
	}
	halves_meet('m');
}

static void many_client(void)
{
	struct ibv_qp *qp[MANY];
	struct vt_end e;

	name = "many";
	many_open(&e, qp);
	for (unsigned n = 0; n < 2; n++) {
		restart(true);
		for (unsigned i = 0; i < MANY; i++) {
			struct ibv_qp *own = e.qp;

			vt_pattern(e.buf, 64, i + n);
			e.qp = qp[i];
			vt_rdma(&e, IBV_WR_RDMA_WRITE, i, 0, 64, 64 * (i + 1), IBV_SEND_SIGNALED);
			WANT_OK(e.scq, i);
			e.qp = own;
		}
		halves_meet('w');
	}
	vt_destroy_qps(qp, MANY);
	vt_end_close(&e);
}

static void many_server(void)
{
	struct ibv_qp *qp[MANY];
	struct vt_end e;

	name = "many";
	many_open(&e, qp);
	for (unsigned n = 0; n < 2; n++) {
		restart(false);
		halves_meet('w');
		for (unsigned i = 0; i < MANY; i++)
			CHECK_PATTERN(e.buf + 64 * (i + 1), 64, i + n);
	}
	vt_destroy_qps(qp, MANY);
	vt_end_close(&e);
}

/* ---- memory of 1 MB and more, which the library has tracked ---------------------------------------- */

static void large_client(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end e;

	name = "large";
	par.len = LARGE;
	halves_open(&e, &par);
	vt_pattern(e.buf, LARGE / 2, 1);
	vt_rdma(&e, IBV_WR_RDMA_WRITE, 1, 0, LARGE / 2, LARGE / 2, IBV_SEND_SIGNALED);
	WANT_OK(e.scq, 1);
	for (unsigned n = 0; n < 2; n++) {
		restart(true);
		vt_pattern(e.buf, LARGE / 2, n);
		vt_rdma(&e, IBV_WR_RDMA_WRITE, 2, 0, LARGE / 2, LARGE / 2, IBV_SEND_SIGNALED);
		WANT_OK(e.scq, 2);
		halves_meet('w');
	}
	halves_meet('e');
	vt_end_close(&e);
}

static void large_server(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end e;

	name = "large";
	par.len = LARGE;
	halves_open(&e, &par);
	for (unsigned n = 0; n < 2; n++) {
		restart(false);
		halves_meet('w');
		CHECK_PATTERN(e.buf + LARGE / 2, LARGE / 2, n);
	}
	halves_meet('e');
	vt_end_close(&e);
}

/* ---- on-demand memory ------------------------------------------------------------------------------- */

static struct vt_param for_odp(void)
{
	struct vt_param par = VT_PARAM;

	par.access |= IBV_ACCESS_ON_DEMAND;
	return par;
}

/* The peer takes its pages away between the restarts. */
static void odp_client(void)
{
	struct vt_param par = for_odp();
	struct vt_end e;

	name = "odp";
	halves_open(&e, &par);
	for (unsigned n = 0; n < 2; n++) {
		vt_pattern(e.buf, LEN, n);
		vt_rdma(&e, IBV_WR_RDMA_WRITE, 1, 0, LEN, LEN, IBV_SEND_SIGNALED);
		WANT_OK(e.scq, 1);
		halves_meet('w');
		restart(true);
		memset(e.buf, 1, LEN);
		vt_rdma(&e, IBV_WR_RDMA_READ, 2, 0, LEN, LEN, IBV_SEND_SIGNALED);
		WANT_OK(e.scq, 2);
		CHECK(vt_all(e.buf, LEN, 0));
	}
	halves_meet('e');
	vt_end_close(&e);
}

static void odp_server(void)
{
	struct vt_param par = for_odp();
	struct vt_end e;

	name = "odp";
	halves_open(&e, &par);
	for (unsigned n = 0; n < 2; n++) {
		halves_meet('w');
		CHECK_PATTERN(e.buf + LEN, LEN, n);
		CHECK_OK(madvise(e.buf, e.len, MADV_DONTNEED));
		restart(false);
	}
	halves_meet('e');
	CHECK(!vt_readable(e.ctx->async_fd, 0));
	vt_end_close(&e);
}

/* ---- traffic ---------------------------------------------------------------------------------------- */

/* Each iteration is a WRITE of its number, a SEND of it, and a READ of what was written. */
struct message {
	uint64_t seq, is_last;
};

static void traffic_post(struct vt_end *e, uint64_t seq, bool is_last)
{
	size_t at = seq % WINDOW * sizeof(struct message);
	struct message m = { seq, is_last };

	memcpy(e->buf + at, &m, sizeof(m));
	vt_rdma(e, IBV_WR_RDMA_WRITE, 3 * seq, at, sizeof(m), LEN + at, IBV_SEND_SIGNALED);
	vt_send(e, 3 * seq + 1, at, sizeof(m), IBV_SEND_SIGNALED);
	vt_rdma(e, IBV_WR_RDMA_READ, 3 * seq + 2, LEN + at, sizeof(m), LEN + at, IBV_SEND_SIGNALED);
}

static void traffic_done(struct vt_end *e, uint64_t seq)
{
	struct message m;

	for (uint64_t id = 3 * seq; id < 3 * seq + 3; id++)
		WANT_OK(e->scq, id);
	memcpy(&m, e->buf + LEN + seq % WINDOW * sizeof(m), sizeof(m));
	CHECK_EQ(m.seq, seq);
}

/* Until the router was restarted, and then for a while: the number of iterations. */
static uint64_t traffic(struct vt_end *e, uint64_t seq)
{
	uint64_t done = seq, end = UINT64_MAX;
	char number[12];

	snprintf(number, sizeof(number), "%u", ++num_restarts);
	printf("ready %s %s\n", name, number);
	fflush(stdout);
	while (done != end) {
		for (; seq != end && seq - done < WINDOW; seq++)
			traffic_post(e, seq, false);
		traffic_done(e, done++);
		if (end == UINT64_MAX && !(done % 64) && has_file(number))
			end = seq + 1000;
	}
	CHECK(!vt_readable(e->ctx->async_fd, 0));
	return seq;
}

static struct vt_param for_traffic(void)
{
	struct vt_param par = VT_PARAM;

	par.send_wr = par.recv_wr = 4 * WINDOW;
	par.cqe = 8 * WINDOW;
	return par;
}

static void traffic_client(void)
{
	struct vt_param par = for_traffic();
	uint64_t seq = 0;
	struct vt_end e;

	name = "traffic";
	halves_open(&e, &par);
	halves_meet('t');
	for (unsigned n = 0; n < KILLS; n++)
		seq = traffic(&e, seq);
	traffic_post(&e, seq, true);
	traffic_done(&e, seq);
	CHECK_EMPTY(e.scq);
	halves_meet('e');
	vt_end_close(&e);
}

/* Each message comes once, and in order. */
static void traffic_server(void)
{
	struct vt_param par = for_traffic();
	struct message m = { 0 };
	uint64_t seq = 0;
	struct vt_end e;

	name = "traffic";
	halves_open(&e, &par);
	for (uint64_t i = 0; i < WINDOW; i++)
		vt_recv(&e, i, i * sizeof(m), sizeof(m));
	halves_meet('t');
	for (; !m.is_last; seq++) {
		size_t at = seq % WINDOW * sizeof(m);

		WANT_OK(e.rcq, seq);
		memcpy(&m, e.buf + at, sizeof(m));
		CHECK_EQ(m.seq, seq);
		vt_recv(&e, seq + WINDOW, at, sizeof(m));
	}
	CHECK_EMPTY(e.rcq);
	CHECK(!vt_readable(e.ctx->async_fd, 0));
	halves_meet('e');
	vt_end_close(&e);
}

/* ---- two QPs with one SRQ --------------------------------------------------------------------------- */

/* Messages of QP 1 are long, so that it has a receive while QP 0 takes and completes many. */
static size_t srq_len(unsigned q)
{
	return q ? SRQ_SLOT : sizeof(struct message);
}

static struct vt_param for_srq(bool has_srq)
{
	struct vt_param par = for_traffic();

	par.srq = has_srq;
	par.len = (size_t)SRQ_SLOT * WINDOW;
	return par;
}

/* A further QP, connected to one of the other half's. */
static struct ibv_qp *second_qp(struct vt_end *e)
{
	struct vt_addr mine = e->self, theirs;
	struct ibv_qp *qp = vt_make_qp(e);

	mine.qpn = qp->qp_num;
	halves_exchange(&mine, &theirs);
	vt_connect_qp(qp, &e->par, &mine, &theirs);
	return qp;
}

static void srq_post(struct vt_end *e, struct ibv_qp *const qp[2], uint64_t n, bool is_last)
{
	unsigned q = n % 2;
	struct message m = { n / 2, is_last };
	size_t at = n % (WINDOW / 2) * SRQ_SLOT;

	memcpy(e->buf + at, &m, sizeof(m));
	memcpy(e->buf + at + srq_len(q) - sizeof(m), &m, sizeof(m));
	e->qp = qp[q];
	vt_send(e, n, at, srq_len(q), IBV_SEND_SIGNALED);
	e->qp = qp[0];
}

/* As traffic(). */
static uint64_t srq_traffic(struct vt_end *e, struct ibv_qp *const qp[2], uint64_t seq)
{
	uint64_t done = seq, end = UINT64_MAX;
	char number[12];

	snprintf(number, sizeof(number), "%u", ++num_restarts);
	printf("ready %s %s\n", name, number);
	fflush(stdout);
	while (done != end) {
		for (; seq != end && seq - done < WINDOW / 4; seq++)
			srq_post(e, qp, seq, false);
		CHECK_EQ(vt_wc(e->scq).status, IBV_WC_SUCCESS);
		done++;
		if (end == UINT64_MAX && !(done % 64) && has_file(number))
			end = seq + 1000;
	}
	CHECK(!vt_readable(e->ctx->async_fd, 0));
	return seq;
}

static void srq_client(void)
{
	struct vt_param par = for_srq(false);
	struct ibv_qp *qp[2];
	uint64_t seq = 0;
	struct vt_end e;

	name = "srq";
	halves_open(&e, &par);
	qp[0] = e.qp;
	qp[1] = second_qp(&e);
	halves_meet('t');
	for (unsigned n = 0; n < KILLS; n++)
		seq = srq_traffic(&e, qp, seq);
	for (unsigned i = 0; i < 2; i++) {
		srq_post(&e, qp, seq++, true);
		CHECK_EQ(vt_wc(e.scq).status, IBV_WC_SUCCESS);
	}
	CHECK_EMPTY(e.scq);
	halves_meet('e');
	vt_destroy_qps(&qp[1], 1);
	vt_end_close(&e);
}

/* Each message comes once, and those of a QP in order. */
static void srq_server(void)
{
	struct vt_param par = for_srq(true);
	uint64_t next[2] = { 0 };
	struct ibv_srq_attr attr;
	struct ibv_qp *second;
	unsigned ended = 0;
	struct vt_end e;

	name = "srq";
	halves_open(&e, &par);
	second = second_qp(&e);
	for (uint64_t i = 0; i < WINDOW; i++)
		vt_recv(&e, i, i * SRQ_SLOT, SRQ_SLOT);
	halves_meet('t');
	while (ended < 2) {
		struct ibv_wc wc = vt_wc(e.rcq);
		uint8_t *at = e.buf + wc.wr_id * SRQ_SLOT;
		unsigned q = wc.qp_num == second->qp_num;
		struct message m;

		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.byte_len, srq_len(q));
		memcpy(&m, at, sizeof(m));
		CHECK_EQ(m.seq, next[q]);
		CHECK(!memcmp(at + srq_len(q) - sizeof(m), &m, sizeof(m)));
		next[q]++;
		ended += m.is_last != 0;
		vt_recv(&e, wc.wr_id, wc.wr_id * SRQ_SLOT, SRQ_SLOT);
	}
	CHECK_EMPTY(e.rcq);
	CHECK_OK(ibv_query_srq(e.srq, &attr));
	CHECK(attr.max_wr >= WINDOW);
	CHECK(!vt_readable(e.ctx->async_fd, 0));
	halves_meet('e');
	vt_destroy_qps(&second, 1);
	vt_end_close(&e);
}

/* ---- atomics ---------------------------------------------------------------------------------------- */

/* The peer's words 0 and 1 go from seq to seq + 1: by FETCH_ADD, by CMP_SWAP. */
static void atomics_post(struct vt_end *e, uint64_t seq)
{
	size_t at = seq % WINDOW * 2 * sizeof(uint64_t);

	vt_atomic(e, IBV_WR_ATOMIC_FETCH_AND_ADD, 2 * seq, at, 0, 1, 0);
	vt_atomic(e, IBV_WR_ATOMIC_CMP_AND_SWP, 2 * seq + 1, at + 8, 8, seq, seq + 1);
}

/* Each was done once. */
static void atomics_done(struct vt_end *e, uint64_t seq)
{
	uint64_t old[2];

	WANT_OK(e->scq, 2 * seq);
	WANT_OK(e->scq, 2 * seq + 1);
	memcpy(old, e->buf + seq % WINDOW * sizeof(old), sizeof(old));
	CHECK_EQ(old[0], seq);
	CHECK_EQ(old[1], seq);
}

/* As traffic(). */
static uint64_t atomics(struct vt_end *e, uint64_t seq)
{
	uint64_t done = seq, end = UINT64_MAX;
	char number[12];

	snprintf(number, sizeof(number), "%u", ++num_restarts);
	printf("ready %s %s\n", name, number);
	fflush(stdout);
	while (done != end) {
		for (; seq != end && seq - done < WINDOW; seq++)
			atomics_post(e, seq);
		atomics_done(e, done++);
		if (end == UINT64_MAX && !(done % 64) && has_file(number))
			end = seq + 1000;
	}
	CHECK(!vt_readable(e->ctx->async_fd, 0));
	return seq;
}

static void atomics_client(void)
{
	struct vt_param par = for_traffic();
	uint64_t seq = 0, words[2];
	struct vt_end e;

	name = "atomics";
	halves_open(&e, &par);
	halves_meet('t');
	for (unsigned n = 0; n < KILLS; n++)
		seq = atomics(&e, seq);
	vt_rdma(&e, IBV_WR_RDMA_READ, 1, LEN, sizeof(words), 0, IBV_SEND_SIGNALED);
	WANT_OK(e.scq, 1);
	memcpy(words, e.buf + LEN, sizeof(words));
	CHECK_EQ(words[0], seq);
	CHECK_EQ(words[1], seq);
	CHECK_EMPTY(e.scq);
	halves_meet('e');
	vt_end_close(&e);
}

static void atomics_server(void)
{
	struct vt_param par = for_traffic();
	struct vt_end e;

	name = "atomics";
	halves_open(&e, &par);
	memset(e.buf, 0, 2 * sizeof(uint64_t));
	halves_meet('t');
	halves_meet('e');
	CHECK(!vt_readable(e.ctx->async_fd, 0));
	vt_end_close(&e);
}

/* ---- datagrams -------------------------------------------------------------------------------------- */

static struct vt_param for_datagrams(void)
{
	struct vt_param par = for_traffic();

	par.type = IBV_QPT_UD;
	return par;
}

static void datagram_post(struct vt_end *e, uint64_t seq, bool is_last)
{
	size_t at = seq % WINDOW * sizeof(struct message);
	struct message m = { seq, is_last };

	memcpy(e->buf + at, &m, sizeof(m));
	vt_send(e, seq, at, sizeof(m), IBV_SEND_SIGNALED);
}

/* As traffic(): each datagram has its completion, though it may be lost. */
static uint64_t datagrams(struct vt_end *e, uint64_t seq)
{
	uint64_t done = seq, end = UINT64_MAX;
	char number[12];

	snprintf(number, sizeof(number), "%u", ++num_restarts);
	printf("ready %s %s\n", name, number);
	fflush(stdout);
	while (done != end) {
		for (; seq != end && seq - done < WINDOW; seq++)
			datagram_post(e, seq, false);
		WANT_OK(e->scq, done++);
		if (end == UINT64_MAX && !(done % 64) && has_file(number))
			end = seq + 1000;
	}
	CHECK(!vt_readable(e->ctx->async_fd, 0));
	return seq;
}

static void datagrams_client(void)
{
	struct vt_param par = for_datagrams();
	struct ibv_ah_attr av;
	uint64_t seq = 0;
	struct vt_end e;

	name = "datagrams";
	halves_open(&e, &par);
	halves_meet('t');
	for (unsigned n = 0; n < KILLS; n++)
		seq = datagrams(&e, seq);
	CHECK_OK(ibv_destroy_ah(e.ah));
	av = vt_av(&e.peer.gid, e.peer.lid);
	e.ah = ibv_create_ah(e.pd, &av);
	CHECK(e.ah);
	/* the server's receives may be used up: until one of these has come */
	do {
		datagram_post(&e, seq, true);
		WANT_OK(e.scq, seq++);
	} while (!vt_readable(halves_sock, 1));
	CHECK_EMPTY(e.scq);
	halves_meet('e');
	vt_end_close(&e);
}

/* Datagrams come in order, and none comes twice. */
static void datagrams_server(void)
{
	struct vt_param par = for_datagrams();
	const size_t slot = VT_GRH + sizeof(struct message);
	struct message m = { 0 };
	uint64_t next = 0;
	struct vt_end e;

	name = "datagrams";
	halves_open(&e, &par);
	for (uint64_t i = 0; i < 2 * WINDOW; i++)
		vt_recv(&e, i, i * slot, slot);
	halves_meet('t');
	for (uint64_t i = 0; !m.is_last; i++) {
		size_t at = i % (2 * WINDOW) * slot;

		CHECK_EQ(WANT_OK(e.rcq, i).byte_len, slot);
		memcpy(&m, e.buf + at + VT_GRH, sizeof(m));
		CHECK(m.seq >= next);
		next = m.seq + 1;
		vt_recv(&e, i + 2 * WINDOW, at, slot);
	}
	CHECK(!vt_readable(e.ctx->async_fd, 0));
	halves_meet('e');
	vt_end_close(&e);
}

/* ---- sessions that nobody restores, and peers that end -------------------------------------------- */

/* Of the halves' two sessions the one with a QP in a multicast group ends, and the other one goes on. */
static void group_client(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end e;

	name = "group";
	par.type = IBV_QPT_UD;
	halves_open(&e, &par);
	halves_meet('g');
	restart(true);
	CHECK(!vt_readable(e.ctx->async_fd, 0));
	CHECK_EQ(vt_state(e.qp), IBV_QPS_RTS);
	vt_end_close(&e);
}

static void group_server(void)
{
	const union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 1 } };
	struct vt_param par = VT_PARAM;
	struct vt_end e;

	name = "group";
	par.type = IBV_QPT_UD;
	halves_open(&e, &par);
	CHECK_OK(ibv_attach_mcast(e.qp, &group, 0));
	halves_meet('g');
	restart(false);
	WANT_EVENT(e.ctx, IBV_EVENT_DEVICE_FATAL);
}

/* The peer's process ends while there is no router: its QP is gone, as a dead peer's always is. */
static void dies_client(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end e;

	name = "dies";
	par.timeout = 8;
	par.retry_cnt = 1;
	halves_open(&e, &par);
	halves_meet('r');
	wait_router(true);
	unnoticed(&e, e.qp->qp_num, e.mr->rkey);
	vt_rdma(&e, IBV_WR_RDMA_WRITE, 1, 0, 8, 0, IBV_SEND_SIGNALED);
	WANT(e.scq, 1, IBV_WC_RETRY_EXC_ERR);
	makes_more(&e);
	vt_end_close(&e);
}

static void dies_server(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end e;

	name = "dies";
	par.timeout = 8;
	par.retry_cnt = 1;
	halves_open(&e, &par);
	halves_meet('r');
	WAIT_FOR(has_file("dies"));
	raise(SIGKILL);
}

HALVES_MAIN({ "holds", holds_client, holds_server }, { "states", states_client, states_server },
	    { "many", many_client, many_server }, { "large", large_client, large_server },
	    { "odp", odp_client, odp_server }, { "traffic", traffic_client, traffic_server },
	    { "datagrams", datagrams_client, datagrams_server }, { "srq", srq_client, srq_server },
	    { "atomics", atomics_client, atomics_server }, { "group", group_client, group_server },
	    { "dies", dies_client, dies_server })
