/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/* timeout: 600 */
/*
 * verbs_retry.c - what an RC QP tries again, and how often: a peer that has no receive, and one that does not
 * answer at all (IBTA 9.7.5.1.4, 9.9.2.1.1).
 */
#include "tests/rig/verbs/vt.h"

/* RNR timer codes in units of 10 us (IBTA table 45). */
static const uint32_t rnr_us10[32] = { 65536, 1,    2,	  3,	 4,	6,     8,     12,
				       16,    24,   32,	  48,	 64,	96,    128,   192,
				       256,   384,  512,  768,	 1024,	1536,  2048,  3072,
				       4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152 };
#define TIMER_NS(code) (rnr_us10[code] * 10000ull)

/* ---- receiver not ready --------------------------------------------------------------------- */

static void rnr_exceeded(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	par.rnr_timer = 18; /* 5.12 ms */
	for (uint8_t n = 0; n < 7; n++) {
		uint64_t start, took, least = n * TIMER_NS(18);

		par.rnr_retry = n;
		vt_pair(&a, &b, &par);
		start = vt_now();
		vt_send(&a, 1, 0, 8, IBV_SEND_SIGNALED);
		vt_send(&a, 2, 0, 8, IBV_SEND_SIGNALED);
		vt_rdma(&a, IBV_WR_RDMA_WRITE, 3, 0, 8, 0, 0); /* flushed: reported all the same */
		WANT(a.scq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
		took = vt_now() - start;
		WANT(a.scq, 2, IBV_WC_WR_FLUSH_ERR);
		WANT(a.scq, 3, IBV_WC_WR_FLUSH_ERR);
		CHECK_EMPTY(a.scq);
		CHECK_EQ(vt_state(a.qp), IBV_QPS_ERR);
		if (took < least)
			FAIL("rnr_retry %u with a timer of 5.12 ms took %llu us", n,
			     (unsigned long long)took / 1000);
		CHECK_EQ(vt_state(b.qp), IBV_QPS_RTS); /* not the receiver's fault */
		vt_pair_close(&a, &b);
	}
}

/* rnr_retry 7 is for ever: the send waits until a receive comes. */
static void rnr_infinite(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	uint64_t until;

	par.rnr_timer = 12;
	vt_pair(&a, &b, &par);
	vt_pattern(a.buf, 5000, 1);
	for (unsigned i = 0; i < 20; i++)
		vt_send(&a, i, 0, 5000, IBV_SEND_SIGNALED);
	/* many more than seven timers of 0.64 ms */
	for (until = vt_now() + 50000000; vt_now() < until; vt_pause())
		CHECK_EMPTY(a.scq);
	for (unsigned i = 0; i < 20; i++) {
		memset(b.buf, 0, 5000);
		vt_recv(&b, 100 + i, 0, 5000);
		WANT_OK(b.rcq, 100 + i);
		CHECK_PATTERN(b.buf, 5000, 1);
		WANT_OK(a.scq, i);
	}
	vt_pair_close(&a, &b);
}

/* A receive posted while the sender waits satisfies it before its retries run out. */
static void rnr_then_ready(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	uint64_t start;

	par.rnr_retry = 6;
	par.rnr_timer = 22; /* 20.48 ms */
	vt_pair(&a, &b, &par);
	start = vt_now();
	vt_send(&a, 1, 0, 8, IBV_SEND_SIGNALED);
	while (vt_now() - start < 30000000)
		CHECK_EMPTY(a.scq);
	vt_recv(&b, 2, 0, 8);
	WANT_OK(b.rcq, 2);
	WANT_OK(a.scq, 1);
	vt_check_alive(&a, &b);
	vt_pair_close(&a, &b);
}

/* ---- transport retries ---------------------------------------------------------------------- */

/* No answer: an error, and never before (retry_cnt + 1) times the timeout. */
static void retry_budget(struct vt_end *a, uint8_t timeout, uint8_t retry_cnt)
{
	uint64_t start = vt_now(), took;
	uint64_t least = (4096ull << timeout) * (retry_cnt + 1u);

	vt_send(a, 1, 0, 8, IBV_SEND_SIGNALED);
	vt_send(a, 2, 0, 8, IBV_SEND_SIGNALED);
	WANT(a->scq, 1, IBV_WC_RETRY_EXC_ERR);
	took = vt_now() - start;
	WANT(a->scq, 2, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(vt_state(a->qp), IBV_QPS_ERR);
	if (took < least)
		FAIL("timeout %u, retry_cnt %u took %llu us", timeout, retry_cnt,
		     (unsigned long long)took / 1000);
}

static void retry_peer_destroyed(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	par.timeout = 12; /* 16.8 ms */
	par.retry_cnt = 3;
	vt_pair(&a, &b, &par);
	vt_check_alive(&a, &b);
	CHECK_OK(ibv_destroy_qp(b.qp));
	b.qp = NULL;
	retry_budget(&a, 12, 3);
	vt_pair_close(&a, &b);
}

static void retry_no_such_qp(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_addr nobody;
	struct vt_end a;

	par.timeout = 10;
	par.retry_cnt = 0;
	vt_end_open(&a, &par);
	nobody = a.self;
	nobody.qpn ^= 0x5a5a5a;
	vt_connect(&a, &nobody);
	retry_budget(&a, 10, 0);
	vt_end_close(&a);
}

static void retry_no_such_address(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_addr nobody;
	struct vt_end a;

	par.timeout = 10;
	par.retry_cnt = 1;
	vt_end_open(&a, &par);
	nobody = a.self;
	nobody.gid.raw[15] ^= 0x5a;
	nobody.gid.raw[14] ^= 0xa5;
	a.peer = nobody;
	CHECK_OK(vt_to_init(a.qp, &par));
	/* A provider that resolves addresses may refuse here already. */
	if (!vt_to_rtr(a.qp, &par, &nobody)) {
		CHECK_OK(vt_to_rts(a.qp, &par, a.self.psn));
		retry_budget(&a, 10, 1);
	}
	vt_end_close(&a);
}

/* The peer never came to RTR. */
static void retry_peer_in_init(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	par.timeout = 10;
	par.retry_cnt = 2;
	vt_end_open(&a, &par);
	vt_end_open(&b, &par);
	CHECK_OK(vt_to_init(b.qp, &par));
	vt_recv(&b, 1, 0, 8);
	vt_connect(&a, &b.self);
	retry_budget(&a, 10, 2);
	CHECK_EMPTY(b.rcq);
	vt_pair_close(&a, &b);
}

/* The peer comes to RTR while the sender is still trying. */
static void retry_peer_late(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	par.timeout = 14; /* 67 ms, eight times */
	par.retry_cnt = 7;
	vt_end_open(&a, &par);
	vt_end_open(&b, &par);
	CHECK_OK(vt_to_init(b.qp, &par));
	vt_recv(&b, 1, 0, 100);
	vt_connect(&a, &b.self);
	vt_pattern(a.buf, 100, 4);
	vt_send(&a, 2, 0, 100, IBV_SEND_SIGNALED);
	b.peer = a.self;
	CHECK_OK(vt_to_rtr(b.qp, &par, &a.self));
	WANT_OK(a.scq, 2);
	WANT_OK(b.rcq, 1);
	CHECK_PATTERN(b.buf, 100, 4);
	vt_pair_close(&a, &b);
}

/* The peer's QP is in error: it answers nothing. */
static void retry_peer_in_error(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	par.timeout = 10;
	par.retry_cnt = 2;
	vt_pair(&a, &b, &par);
	CHECK_OK(vt_to_state(b.qp, IBV_QPS_ERR));
	retry_budget(&a, 10, 2);
	vt_pair_close(&a, &b);
}

/* A peer that is connected to somebody else, with PSNs of its own, does not answer us. */
static void retry_wrong_peer(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b, c;

	par.timeout = 10;
	par.retry_cnt = 1;
	vt_pair(&a, &b, &par);
	vt_end_open(&c, &par);
	c.self.psn = a.self.psn ^ 0x800000;
	vt_connect(&c, &b.self);
	vt_recv(&b, 1, 0, 8);
	retry_budget(&c, 10, 1);
	CHECK_EMPTY(b.rcq);
	vt_send(&a, 2, 0, 8, IBV_SEND_SIGNALED);
	WANT_OK(a.scq, 2);
	WANT_OK(b.rcq, 1);
	vt_end_close(&c);
	vt_pair_close(&a, &b);
}

VT_MAIN({ "rnr_exceeded", rnr_exceeded, 0 }, { "rnr_infinite", rnr_infinite, 0 },
	{ "rnr_then_ready", rnr_then_ready, 0 },
	{ "retry_peer_destroyed", retry_peer_destroyed, 0 },
	{ "retry_no_such_qp", retry_no_such_qp, 0 },
	{ "retry_no_such_address", retry_no_such_address, 0 },
	{ "retry_peer_in_init", retry_peer_in_init, 0 }, { "retry_peer_late", retry_peer_late, 0 },
	{ "retry_peer_in_error", retry_peer_in_error, 0 },
	{ "retry_wrong_peer", retry_wrong_peer, 0 })
