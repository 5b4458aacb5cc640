/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/req_rig.c tests/rig/unit/two_hosts.c tests/rig/unit/others.c tests/rig/unit/rig.c tests/rig/fakes/fake_pvm.c */
/*
 * test_req_wait.c - a requester whose peer is on another host, and what it waits for: for an answer that
 * does not come, for the map of registered memory, and, if it is UC, for the peer to be there.
 */
#include "tests/rig/unit/req_rig.h"
#include "tests/rig/unit/unit.h"

/* ---- nobody answers ------------------------------------------------------------------------------------------ */

/* A router that has no such QP cannot tell what was done; each try costs one of retry_cnt. */
static void no_such_qp(void **state)
{
	(void)state;
	req_writes_sent(3);
	req_nak(2, NAK_NO_QP);
	hosts_expect_none(&req, 0);
	req_in_phase(REM_WAIT);
	for (int i = 0; i < 2; i++) {
		req_no_next();
		req_later(ACK_TIMEOUT - 1);
		req_in_phase(REM_WAIT);
		req_later(1);
		req_in_phase(REM_RUN);
		for (uint32_t m = 0; m < 3; m++)
			req_next(m, WIRE_LAST);
		req_nak(0, NAK_NO_QP);
	}
	assert_int_equal(req.h[0].qp->qp.stats.retries, 2);
	req_later(ACK_TIMEOUT);
	req_failed(0, 2, IBV_WC_RETRY_EXC_ERR);
}

static void news(void)
{
	remote_changed(req_fast, &req.h[0].remote);
}

/*
 * News of the peer's host comes more often than a try is long. Each try still ends when it would have
 * ended without the news.
 */
static void news_are_no_answer(void **state)
{
	(void)state;
	req_writes_sent(2);
	for (int i = 0; i < 3; i++) {
		hosts_expect_none(&req, 0);
		for (int k = 0; k < 4; k++) {
			req_nak(0, NAK_NO_QP);
			req_in_phase(REM_WAIT);
			req_later(ACK_TIMEOUT / 4);
			if (k < 3)
				news();
			req_in_phase(REM_RUN); /* by the news, by the next try, or as it failed */
		}
	}
	req_failed(0, 1, IBV_WC_RETRY_EXC_ERR);
}

/* Without a connection news begin no try, either. */
static void news_without_a_connection(void **state)
{
	(void)state;
	req_writes_sent(1);
	hosts_cut(&req);
	for (int i = 0; i < 3 * 4; i++) {
		hosts_expect_none(&req, 0);
		news();
		req_in_phase(REM_WAIT);
		req_later(ACK_TIMEOUT / 4);
	}
	req_failed(0, 0, IBV_WC_RETRY_EXC_ERR);
}

/* That it knows no such QP counts while the requester waits for the map, too. */
static void unknown_in_the_map(void **state)
{
	(void)state;
	req_writes_sent(1);
	req.h[0].o.map = MAP_WAIT;
	hosts_rdma(&req, FF_OP_WRITE, 1, 0, 0, 8);
	req_take();
	req_no_next();
	req_in_phase(REM_MAP);
	req_nak(0, NAK_NO_QP);
	req_in_phase(REM_WAIT);
	req_later(ACK_TIMEOUT);
	assert_int_equal(req.h[0].qp->qp.stats.retries, 1);
	req_next(0, WIRE_LAST);
	req_no_next(); /* the map has been waited for: the peer is asked when the first is done */
	req_in_phase(REM_RUN);
}

/*
 * A probe that is never answered uses up the tries as a request does. The requester repeats the probe
 * meanwhile.
 */
static void nobody_answers_a_question(void **state)
{
	uint64_t began = req_fast->now;
	unsigned asked = 0;

	(void)state;
	req.h[0].o.map = MAP_REFUSED;
	hosts_rdma(&req, FF_OP_WRITE, 0, 0, 0, 8);
	req_take();
	while (req.h[0].qp->qp.state == IBV_QPS_RTS && asked < 1000) {
		struct frame fr = { 0 };

		asked += request_next(req_fast, req_qp, &fr) == NEXT_FRAME;
		req_later(NS_PER_MS);
	}
	assert_true(asked > 3);
	assert_true(req_fast->now - began <= 3 * ACK_TIMEOUT + 3 * NS_PER_MS);
	req_failed(0, 0, IBV_WC_RETRY_EXC_ERR);
}

/* An answer gives all tries back. */
static void tries_begin_anew(void **state)
{
	(void)state;
	req_writes_sent(2);
	req_nak(0, NAK_NO_QP);
	req_later(ACK_TIMEOUT);
	assert_int_equal(req_qp->tx.retry_left, 1);
	req_next(0, WIRE_LAST);
	req_next(1, WIRE_LAST);
	request_ack(req_fast, req_qp, 0);
	req_done(0, 0);
	assert_int_equal(req_qp->tx.retry_left, 2);
	request_ack(req_fast, req_qp, 1);
	req_done(1, 1);
}

/* A frame of the peer's router comes. */
static void it_is_heard(void)
{
	struct wire_hdr h = { .type = WIRE_PONG };
	struct epoll_event ev[4];

	assert_int_equal(wire_send(req.h[1].r.f, &req.h[1].other, &h, NULL), 0);
	fast_turn(req.h[1].r.f);
	fast_bells(req_fast, ev, epoll_wait(req_fast->epoll_fd, ev, 4, 0));
	wire_poll(req_fast);
	assert_true(wire_heard(req_qp->wire.peer) > req_qp->tx.heard);
}

/*
 * A router that has no CPU for longer than the time-out, again and again, and none of whose answers is for this QP, whose
 * message waits for memory: it is there, and what its silence took is given back.
 */
static void silent_at_times(void **state)
{
	(void)state;
	req_writes_sent(1);
	for (unsigned i = 0; i < 20; i++) {
		req_later(ACK_TIMEOUT);
		assert_int_equal(req_qp->tx.retry_left, 1);
		req_later(ACK_TIMEOUT / 2);
		it_is_heard();
		req_later(ACK_TIMEOUT / 2);
		assert_int_equal(req_qp->tx.retry_left, 2);
	}
	hosts_expect_none(&req, 0);
	for (unsigned i = 0; i < 3; i++)
		req_later(ACK_TIMEOUT);
	req_failed(0, 0, IBV_WC_RETRY_EXC_ERR);
}

/* The peer's router is heard of, but not of this QP: no try is lost, it asks what became of the first. */
static void it_asks(void **state)
{
	struct frame fr = { 0 };

	(void)state;
	req_writes_sent(2);
	req_later(ACK_TIMEOUT / 2);
	it_is_heard();
	req_later(ACK_TIMEOUT / 2);
	assert_int_equal(req.h[0].qp->qp.stats.retries, 0);
	assert_int_equal(request_next(req_fast, req_qp, &fr), NEXT_FRAME);
	assert_int_equal(fr.kind, FRAME_ASK);
	assert_int_equal(fr.h.type, WIRE_ASK);
	assert_int_equal(fr.h.msn, 0);
	assert_int_equal(fr.h.tag, req_qp->tx.tag);
	assert_int_equal(fr.h.opcode, FF_OP_WRITE);
	req_no_next();
	/* its router is silent, too: that is a try */
	req_later(ACK_TIMEOUT);
	assert_int_equal(req.h[0].qp->qp.stats.retries, 1);
	req_in_phase(REM_RUN);
	request_ack(req_fast, req_qp, 1);
	req_done(0, 1);
}

/* ---- the map -------------------------------------------------------------------------------------------------- */

/* The map refuses: the peer is asked, but only when all else is done, and nothing leaves before. */
static void the_map_refuses(void **state)
{
	struct frame fr;

	(void)state;
	hosts_rdma(&req, FF_OP_WRITE, 0, 0, 0, 8);
	req_take();
	req_next(0, WIRE_LAST);
	req.h[0].o.map = MAP_REFUSED;
	hosts_rdma(&req, FF_OP_WRITE, 1, 0, 0, 8);
	hosts_rdma(&req, FF_OP_WRITE, 2, 0, 0, 0); /* of no bytes: nobody is asked */
	req_take();
	req_no_next();
	request_ack(req_fast, req_qp, 0);
	req_done(0, 0);
	fr = req_next(1, WIRE_PROBE);
	assert_int_equal(fr.kind, FRAME_PROBE);
	assert_int_equal(fr.h.len, 0);
	assert_int_equal(fr.h.req.length, 8);
	req_in_phase(REM_LATER);
	req_no_next();
	req_nak(1, NAK_PROBE_OK);
	req_in_phase(REM_RUN);
	fr = req_next(1, WIRE_LAST);
	assert_int_equal(fr.h.len, 8);
	req_next(2, WIRE_LAST);
	request_ack(req_fast, req_qp, 2);
	req_done(1, 2);
}

/* It does not know yet: the directory tells, or the peer is asked in the end. */
static void the_map_waits(void **state)
{
	(void)state;
	req.h[0].o.map = MAP_WAIT;
	hosts_rdma(&req, FF_OP_READ, 0, 0, 0, 8);
	hosts_rdma(&req, FF_OP_WRITE, 1, 0, 0, 8);
	req_take();
	req_no_next();
	req_in_phase(REM_MAP);
	req.h[0].o.map = MAP_OK;
	req_no_next();
	remote_mapped(req_fast, req_qp);
	req_next(0, WIRE_LAST);
	req.h[0].o.map = MAP_WAIT;
	req_no_next();
	req_in_phase(REM_MAP);
	req_later(MAP_PATIENCE);
	req_in_phase(REM_RUN);
	req_no_next(); /* the question waits for the READ */
	request_data_end(req_fast, req_qp, &(struct wire_hdr){ .len = 8 });
	req_done(0, 0);
	req_next(1, WIRE_PROBE);
	req_nak(1, NAK_REM_ACCESS);
	req_failed(1, 1, IBV_WC_REM_ACCESS_ERR);
}

/* ---- UC ------------------------------------------------------------------------------------------------------ */

/* The first of two WRITEs asks whether the peer is there. */
static void two_writes_ask(void)
{
	hosts_rdma(&req, FF_OP_WRITE, 0, 0, 0, 8);
	hosts_rdma(&req, FF_OP_WRITE, 1, 0, 0, 8);
	req_take();
	req_next(0, WIRE_PROBE);
}

/* Nothing is sent twice, so nothing is sent before the peer has said that it is there. */
static void uc_asks_once(void **state)
{
	(void)state;
	two_writes_ask();
	req_no_next();
	req_nak(0, NAK_NO_QP);
	req_later(LATER_NS);
	req_next(0, WIRE_PROBE);
	request_ack(req_fast, req_qp, 0); /* an ACK means nothing here */
	hosts_expect_none(&req, 0);
	req_nak(0, NAK_PROBE_OK);
	assert_true(req_qp->tx.is_met);
	req_next(0, WIRE_LAST);
	req_next(1, WIRE_LAST);
	req_nak(0, NAK_SEQ); /* no answer changes anything */
	req_no_next();
	hosts_rdma(&req, FF_OP_WRITE, 2, 0, 0, 8);
	req_take();
	req_next(2, WIRE_LAST);
}

static void uc_loses(void **state)
{
	(void)state;
	two_writes_ask();
	req_nak(0, NAK_NO_QP);
	req_later(UC_PATIENCE);
	req_in_phase(REM_RUN); /* asks once more */
	hosts_expect_none(&req, 0);
	req_next(0, WIRE_PROBE);
	req_nak(0, NAK_NO_QP);
	req_later(LATER_NS);
	req_done(0, 1);
	assert_int_equal(req.h[0].qp->qp.stats.ud_drops, 2);
	assert_int_equal(req.h[0].qp->qp.state, IBV_QPS_RTS);
}

/*
 * What went out counts once, whether it is answered, sent again or never heard of: of three WRITEs and a
 * SEND the first is answered, the next sent whole, the third in part, the SEND not at all.
 */
static void sent_without_an_answer(void **state)
{
	const uint64_t *tx = &req.h[0].qp->qp.stats.tx_bytes;
	uint64_t part = 0;

	(void)state;
	hosts_rdma(&req, FF_OP_WRITE, 0, 0, 0, 1000);
	hosts_rdma(&req, FF_OP_WRITE, 1, 0, 0, 2000);
	hosts_rdma(&req, FF_OP_WRITE, 2, 0, 0, 3 * WIRE_PAYLOAD_MAX);
	hosts_send(&req, 3, 0, 4000);
	req_take();
	req_next(0, WIRE_LAST);
	request_ack(req_fast, req_qp, 0);
	assert_int_equal(*tx, 1000);
	req_next(1, WIRE_LAST);
	part += req_next(2, 0).h.len;
	part += req_next(2, 0).h.len;
	assert_true(part > 0);
	req_nak(1, NAK_NO_QP); /* from there again, and not as far as before */
	req_later(ACK_TIMEOUT);
	req_next(1, WIRE_LAST);
	assert_int_equal(*tx, 1000);
	if (*state) {
		fast_qp_set_state(req_fast, &req.h[0].qp->qp, IBV_QPS_ERR);
		hosts_expect(&req, 0, 0, IBV_WC_SUCCESS);
		req_failed(1, 3, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(req.h[0].qp->qp.stats.write_ops, 1);
		assert_int_equal(req.h[0].qp->qp.stats.flushes, 3);
	} else {
		fast_qp_reset(req_fast, &req.h[0].qp->qp, 0, 0);
		req_done(0, 0);
	}
	assert_int_equal(*tx, 1000 + 2000 + part);
}

static void flushed_without_an_answer(void **state)
{
	*state = &req;
	sent_without_an_answer(state);
	*state = NULL;
}

/* A peer that never answers, of which all but the local error went out; one that was never there. */
static void given_up_without_an_answer(void **state)
{
	const uint64_t *tx = &req.h[0].qp->qp.stats.tx_bytes;
	struct ff_sqe *e;

	(void)state;
	hosts_rdma(&req, FF_OP_WRITE, 0, 0, 0, 1000);
	hosts_rdma(&req, FF_OP_READ, 1, 0, 0, 2000);
	e = rig_sqe(req.h[0].qp, FF_OP_WRITE, 2);
	rig_sge(e, req.h[0].mr, hosts_at(&req, 0, HOSTS_BUF), 4000);
	rig_post(&req.h[0].r, req.h[0].qp);
	req_take();
	req_next(0, WIRE_LAST);
	req_next(1, WIRE_LAST);
	req_qp->tx.retry_left = 0;
	req_nak(0, NAK_NO_QP);
	req_later(ACK_TIMEOUT);
	req_failed(0, 2, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(*tx, 1000);
}

static void never_sent(void **state)
{
	(void)state;
	hosts_rdma(&req, FF_OP_WRITE, 0, 0, 0, 1000);
	req_take();
	fast_qp_reset(req_fast, &req.h[0].qp->qp, 0, 0);
	assert_int_equal(req.h[0].qp->qp.stats.tx_bytes, 0);
}

int main(void)
{
	return UNIT_RUN(REQ_TEST(no_such_qp), REQ_TEST(news_are_no_answer),
			REQ_TEST(news_without_a_connection), REQ_TEST(unknown_in_the_map),
			REQ_TEST(nobody_answers_a_question), REQ_TEST(tries_begin_anew),
			REQ_TEST(it_asks), REQ_TEST(silent_at_times), REQ_TEST(the_map_refuses),
			REQ_TEST(the_map_waits), REQ_TEST_UC(uc_asks_once), REQ_TEST_UC(uc_loses),
			REQ_TEST(sent_without_an_answer), REQ_TEST(flushed_without_an_answer),
			REQ_TEST(given_up_without_an_answer), REQ_TEST(never_sent));
}
