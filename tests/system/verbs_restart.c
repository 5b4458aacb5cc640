/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/halves.c tests/rig/verbs/vt.c */
/*
 * verbs_restart.c - programs whose router is restarted, and which do not notice: two halves hold connections in
 * several states. restart.sh, which starts this program, restarts the router each time when this program has printed
 * "ready NUMBER", and then makes the file $RESTART/NUMBER.
 */
#include "tests/rig/verbs/halves.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define RESTARTS 4u
#define LEN	 4096u

static unsigned num_restarts; /* that this half has seen */

/* Both halves are idle: the router is restarted. */
static void restart(bool tells)
{
	const char *dir = getenv("RESTART");
	char path[256];

	CHECK(dir);
	snprintf(path, sizeof(path), "%s/%u", dir, ++num_restarts);
	halves_meet('r');
	if (tells) {
		printf("ready %u\n", num_restarts);
		fflush(stdout);
	}
	WAIT_FOR(!access(path, F_OK));
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

HALVES_MAIN({ "holds", holds_client, holds_server })
