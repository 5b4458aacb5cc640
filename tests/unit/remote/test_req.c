/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/req_rig.c tests/rig/unit/two_hosts.c tests/rig/unit/others.c tests/rig/unit/rig.c tests/rig/fakes/fake_pvm.c */
/*
 * test_req.c - a requester whose peer is on another host: which frame comes next, and what the peer's
 * answers do to it. What becomes of it when there is none is in test_req_wait.c; test_remote.c has both
 * hosts together.
 */
#include <string.h>

#include "tests/rig/unit/req_rig.h"
#include "tests/rig/unit/unit.h"

/* The peer has carried out messages up to the last: WRs from the first end. */
static void acked(uint32_t first, uint32_t last)
{
	request_ack(req_fast, req_qp, last);
	req_done(first, last);
}

/* A WRITE, a READ behind it, another WRITE. */
static void fetch_between(void)
{
	hosts_rdma(&req, FF_OP_WRITE, 0, 0, 0, 8);
	hosts_rdma(&req, FF_OP_READ, 1, 0, 0, 8);
	hosts_rdma(&req, FF_OP_WRITE, 2, 0, 0, 8);
}

/* What was posted leaves, n messages of one frame from the first. */
static void leave(uint32_t n)
{
	req_take();
	for (uint32_t i = 0; i < n; i++)
		req_next(i, WIRE_LAST);
}

/* The 8 bytes that a READ asked for are there. */
static void fetched(uint32_t msn)
{
	struct wire_hdr data = { .type = WIRE_READ_DATA, .msn = msn, .len = 8 };

	request_data_end(req_fast, req_qp, &data);
}

/* ---- frames --------------------------------------------------------------------------------------------- */

static void a_message_in_frames(void **state)
{
	uint64_t off = 0;
	struct ff_sqe *e;
	struct frame fr;

	(void)state;
	e = rig_sqe(req.h[0].qp, FF_OP_WRITE_IMM, 1);
	e->flags |= FF_SQE_SOLICITED;
	e->imm = 0x1234;
	rig_sge(e, req.h[0].mr, hosts_at(&req, 0, 100), 100000);
	rig_sge(e, req.h[0].mr, hosts_at(&req, 0, 500000), 50000);
	e->remote_addr = hosts_at(&req, 1, 77);
	e->rkey = req.h[1].mr->rkey;
	rig_post(&req.h[0].r, req.h[0].qp);
	req_take();
	while (off < 150000) {
		uint64_t n = 150000 - off < WIRE_PAYLOAD_MAX ? 150000 - off : WIRE_PAYLOAD_MAX;
		uint64_t got = 0;

		fr = req_next(0, (uint8_t)(WIRE_SOLICITED | (off + n == 150000 ? WIRE_LAST : 0)));
		assert_int_equal(fr.kind, FRAME_REQUEST);
		assert_int_equal(fr.h.type, WIRE_REQ);
		assert_int_equal(fr.h.opcode, FF_OP_WRITE_IMM);
		assert_int_equal(fr.h.offset, off);
		assert_int_equal(fr.h.len, n);
		assert_int_equal(fr.h.req.addr, hosts_at(&req, 1, 77));
		assert_int_equal(fr.h.req.length, 150000);
		assert_int_equal(fr.h.req.rkey, req.h[1].mr->rkey);
		assert_int_equal(fr.h.req.imm, 0x1234);
		assert_int_equal(fr.old_off, off);
		/* the program's own bytes, from where they are */
		for (unsigned i = 0; i < fr.num_iov; i++) {
			uint64_t at = off + got;
			uint64_t in = at < 100000 ? 100 + at : 500000 + at - 100000;

			assert_ptr_equal(fr.iov[i].iov_base, req.h[0].buf + in);
			got += fr.iov[i].iov_len;
		}
		assert_int_equal(got, n);
		off += n;
	}
	req_no_next();
	assert_int_equal(req_qp->tx.nxt, req_qp->tx.tail);
	/* in the middle of it the peer wants it again: from its beginning */
	req_nak(0, NAK_SEQ);
	for (int i = 0; i < 2; i++) {
		fr = req_next(0, WIRE_SOLICITED);
		assert_int_equal(fr.h.offset, 0);
		req_nak(0, NAK_SEQ);
	}
	request_ack(req_fast, req_qp, 0);
	req_done(1, 1);
}

/* Each WR has its bytes for itself: the entry is the program's again, and the router fetches the next WR. */
static void inline_is_copied(void **state)
{
	struct frame fr;

	(void)state;
	for (uint32_t wr = 0; wr < 2; wr++) {
		struct ff_sqe *e = rig_sqe(req.h[0].qp, FF_OP_WRITE, wr);
		uint8_t *data = (uint8_t *)e + offsetof(struct ff_sqe, sge);

		e->flags |= FF_SQE_INLINE;
		e->num_sge = 64;
		memset(data, 0x42 + (int)wr, 64);
		e->remote_addr = hosts_at(&req, 1, 0);
		e->rkey = req.h[1].mr->rkey;
		rig_post(&req.h[0].r, req.h[0].qp);
		req_take();
		memset(data, 0, 64);
	}
	for (uint32_t wr = 0; wr < 2; wr++) {
		fr = req_next(wr, WIRE_LAST);
		assert_int_equal(fr.h.len, 64);
		assert_int_equal(fr.num_iov, 1);
		for (int i = 0; i < 64; i++)
			assert_int_equal(((uint8_t *)fr.iov[0].iov_base)[i], 0x42 + wr);
	}
	request_ack(req_fast, req_qp, 1);
	req_done(0, 1);
}

static struct ff_sqe *atomic(uint8_t op, uint64_t id, uint64_t to)
{
	struct ff_sqe *e = rig_sqe(req.h[0].qp, op, id);

	rig_sge(e, req.h[0].mr, hosts_at(&req, 0, to), 8);
	e->remote_addr = hosts_at(&req, 1, 64);
	e->rkey = req.h[1].mr->rkey;
	e->atomic.compare_add = 5;
	e->atomic.swap = 6;
	rig_post(&req.h[0].r, req.h[0].qp);
	return e;
}

/* No more fetches are under way than the QP may have; a fence waits for all that there are. */
static void fetches_and_fences(void **state)
{
	struct wire_hdr data = { .type = WIRE_ATOMIC_DATA, .msn = 1, .atomic_data.orig = 40 };
	struct frame fr;

	(void)state;
	hosts_rdma(&req, FF_OP_READ, 0, 0, 0, 8);
	atomic(FF_OP_CMP_SWAP, 1, 16);
	hosts_rdma(&req, FF_OP_READ, 2, 32, 0, 8);
	hosts_rdma(&req, FF_OP_WRITE, 3, 0, 0, 8);
	rig_sqe(req.h[0].qp, FF_OP_WRITE, 4)->flags |= FF_SQE_FENCE;
	rig_post(&req.h[0].r, req.h[0].qp);
	req_take();
	fr = req_next(0, WIRE_LAST);
	assert_int_equal(fr.h.len, 0);
	fr = req_next(1, WIRE_LAST);
	assert_int_equal(fr.h.len, 0);
	assert_int_equal(fr.h.atomic.addr, hosts_at(&req, 1, 64));
	assert_int_equal(fr.h.atomic.compare_add, 5);
	assert_int_equal(fr.h.atomic.swap, 6);
	assert_int_equal(fr.h.atomic.rkey, req.h[1].mr->rkey);
	req_no_next(); /* two are, as many as may be */
	fetched(0);
	req_done(0, 0);
	req_next(2, WIRE_LAST);
	req_next(3, WIRE_LAST);
	req_no_next(); /* the fence */
	assert_true(request_atomic(req_fast, req_qp, &data));
	req_done(1, 1);
	assert_int_equal(*(uint64_t *)(req.h[0].buf + 16), 40);
	req_no_next();
	fetched(2);
	req_done(2, 2);
	req_next(4, WIRE_LAST);
	acked(3, 4);
	assert_int_equal(req_qp->tx.fetches, 0);
}

/* The places of messages grow up to REMOTE_WINDOW; what is posted behind them waits. */
static void the_window(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 200; i++)
		hosts_rdma(&req, FF_OP_WRITE, i, 0, i, 8);
	req_take();
	assert_int_equal(req_qp->tx.win_size, REMOTE_WINDOW);
	assert_int_equal(req_qp->tx.tail - req_qp->tx.una, REMOTE_WINDOW);
	assert_int_equal(req.h[0].qp->qp.soft->req.state, REQ_WAIT_WIN);
	for (uint32_t i = 0; i < REMOTE_WINDOW; i++) {
		struct frame fr = req_next(i, WIRE_LAST);

		assert_int_equal(fr.h.req.addr, hosts_at(&req, 1, i));
	}
	req_no_next();
	acked(0, 99);
	req_take();
	assert_int_equal(req_qp->tx.tail, 200);
	assert_int_equal(req.h[0].qp->qp.soft->req.state, REQ_IDLE);
	for (uint32_t i = REMOTE_WINDOW; i < 200; i++) {
		struct frame fr = req_next(i, WIRE_LAST);

		assert_int_equal(fr.h.req.addr, hosts_at(&req, 1, i));
	}
	acked(100, 199);
	assert_int_equal(req.h[0].qp->qp.in_flight, 0);
}

/* A message's place is another's later, and nothing of the first is left in it. */
static void places_are_used_again(void **state)
{
	struct wire_hdr data = { .type = WIRE_READ_DATA, .len = 8 };

	(void)state;
	for (uint32_t i = 0; i < 40; i++) {
		hosts_rdma(&req, FF_OP_READ, i, 0, i, 8);
		req_take();
		req_next(i, WIRE_LAST);
		assert_int_equal(req.h[0].o.maps, i + 1); /* each asks the map */
		data.msn = i;
		assert_true(request_data_begin(req_qp, &data));
		request_data_end(req_fast, req_qp, &data);
		req_done(i, i);
	}
	assert_int_equal(req_qp->tx.win_size, 8);
	/* there are more, which begin in the middle */
	for (uint32_t i = 40; i < 60; i++)
		hosts_rdma(&req, FF_OP_WRITE, i, 0, i, 8);
	req_take();
	assert_int_equal(req_qp->tx.win_size, 32);
	for (uint32_t i = 40; i < 60; i++)
		assert_int_equal(req_next(i, WIRE_LAST).h.req.addr, hosts_at(&req, 1, i));
	acked(40, 59);
}

/* ---- answers ----------------------------------------------------------------------------------------------- */

static void acks(void **state)
{
	(void)state;
	req_writes_sent(4);
	request_ack(req_fast, req_qp, 4); /* does not exist */
	request_ack(req_fast, req_qp, UINT32_MAX);
	hosts_expect_none(&req, 0);
	acked(0, 1);
	request_ack(req_fast, req_qp, 0); /* once more */
	request_ack(req_fast, req_qp, 1);
	hosts_expect_none(&req, 0);
	acked(2, 3);
	assert_int_equal(req_qp->tx.tail, req_qp->tx.una);
	assert_int_equal(req_qp->tx.timer.index, 0); /* nothing is waited for */
}

/* A fetch is done when its data are there; what is behind it waits for its turn. */
/* A window is bound, or invalidated, when all that was posted before it is done. */
static void windows_wait_for_what_is_before(void **state)
{
	(void)state;
	hosts_rdma(&req, FF_OP_WRITE, 0, 0, 0, 8);
	rig_sqe(req.h[0].qp, FF_OP_LOCAL_INV,
		1); /* of no window: it ends with an error, in its turn */
	rig_post(&req.h[0].r, req.h[0].qp);
	req_take();
	req_next(0, WIRE_LAST);
	req_take();
	hosts_expect_none(&req, 0);
	request_ack(req_fast, req_qp, 0);
	req_take();
	hosts_expect(&req, 0, 0, IBV_WC_SUCCESS);
	hosts_expect(&req, 0, 1, IBV_WC_MW_BIND_ERR);
	hosts_expect_none(&req, 0);
}

/* An answer counts only if it comes from the host that has the peer's container. */
static void acks_of_another_host(void **state)
{
	struct wire_peer other = { 0 };
	struct wire_qp *to = NULL;
	struct wire_hdr ack = {
		.type = WIRE_ACK,
		.dst_qpn = req.h[0].qp->qp.qp_num,
		.src_qpn = req.h[1].qp->qp.qp_num,
		.dst_cont = req.h[0].r.cont[0].id,
		.dst_epoch = 1,
		.src_cont = req.h[1].r.cont[0].id,
		.src_epoch = 1,
		.tag = req_qp->tx.tag,
	};

	(void)state;
	req_writes_sent(1);
	assert_int_equal(remote_wire_ops.begin(req_fast, &other, &ack, &to), SINK_DISCARD);
	hosts_expect_none(&req, 0);
	assert_int_equal(remote_wire_ops.begin(req_fast, &req.h[0].other, &ack, &to), SINK_DISCARD);
	req_done(0, 0);
}

static void an_ack_is_for_no_fetch(void **state)
{
	(void)state;
	fetch_between();
	leave(3);
	request_ack(req_fast, req_qp, 2);
	req_done(0, 0);
	fetched(1);
	req_done(1, 2);
}

/* What is behind a fetch is sent again without it, and its data acknowledge what was before. */
static void a_fetch_before_what_is_sent_again(void **state)
{
	(void)state;
	hosts_rdma(&req, FF_OP_WRITE, 0, 0, 0, 8);
	hosts_rdma(&req, FF_OP_READ, 1, 0, 0, 8);
	hosts_send(&req, 2, 0, 8);
	rig_sqe(req.h[0].qp, FF_OP_WRITE, 3)->flags |= FF_SQE_FENCE;
	rig_post(&req.h[0].r, req.h[0].qp);
	leave(3);
	req_nak(2, NAK_RNR);
	req_done(0, 0);
	req_later(RNR_NS);
	req_no_next(); /* one at a time */
	req_nak(2, NAK_SEQ);
	fetched(1);
	req_done(1, 1);
	req_next(2, WIRE_LAST);
	req_next(3, WIRE_LAST);
	acked(2, 3);
	assert_int_equal(req_qp->tx.fetches, 0);
}

/* As a peer that throws nothing away: steps are in test_remote_step.c. */
static void nak(uint32_t msn, enum wire_nak code)
{
	req_nak(msn, code);
	step_none(req_qp);
}

static void no_room(uint64_t off)
{
	request_data_later(req_fast, req_qp, 0, off);
	step_none(req_qp);
}

/* The data of a fetch tell that all before it was carried out, what is to be sent again included. */
static void data_acknowledge(void **state)
{
	struct wire_hdr data = { .type = WIRE_ATOMIC_DATA, .msn = 3, .atomic_data.orig = 1 };

	(void)state;
	fetch_between();
	atomic(FF_OP_FETCH_ADD, 3, 16);
	rig_sqe(req.h[0].qp, FF_OP_WRITE, 4)->flags |= FF_SQE_FENCE;
	rig_post(&req.h[0].r, req.h[0].qp);
	leave(4);
	/* going back behind them leaves them under way, for the fence to wait for */
	nak(2, NAK_SEQ);
	req_done(0, 0);
	assert_int_equal(req_qp->tx.fetches, 1);
	req_next(2, WIRE_LAST);
	req_next(3, WIRE_LAST);
	req_no_next();
	fetched(1);
	req_done(1, 1);
	assert_true(request_atomic(req_fast, req_qp, &data));
	req_done(2, 3);
	req_next(4, WIRE_LAST);
	acked(4, 4);
}

static void data_acknowledge_writes(void **state)
{
	(void)state;
	fetch_between();
	leave(3);
	fetched(1);
	req_done(0, 1);
	acked(2, 2);
}

/* Which data are wanted: the next bytes of a READ that was sent. */
static void data_in_order(void **state)
{
	struct wire_hdr h = { .type = WIRE_READ_DATA, .len = 60 };

	(void)state;
	hosts_rdma(&req, FF_OP_READ, 0, 0, 0, 100);
	hosts_rdma(&req, FF_OP_WRITE, 1, 0, 0, 8);
	req_take();
	assert_false(request_data_begin(req_qp, &h)); /* it was not sent */
	req_next(0, WIRE_LAST);
	req_next(1, WIRE_LAST);
	assert_true(request_data_begin(req_qp, &h));
	request_data_end(req_fast, req_qp, &h);
	hosts_expect_none(&req, 0);
	assert_false(request_data_begin(req_qp, &h)); /* had already */
	h.len = 40;
	assert_false(request_data_begin(req_qp, &h));
	h.len = 60;
	h.offset = 60;
	assert_false(request_data_begin(req_qp, &h)); /* more than there is */
	h.len = 40;
	h.msn = 1;
	assert_false(request_data_begin(req_qp, &h)); /* a WRITE fetches nothing */
	h.msn = 0;
	assert_true(request_data_begin(req_qp, &h));
	nak(0, NAK_SEQ); /* meanwhile it went back: the rest comes again */
	request_data_end(req_fast, req_qp, &h);
	hosts_expect_none(&req, 0);
	assert_int_equal(req_next(0, WIRE_LAST).h.offset, 60);
	assert_true(request_data_begin(req_qp, &h));
	request_data_end(req_fast, req_qp, &h);
	req_done(0, 0);
	assert_false(request_data_begin(req_qp, &h));
	acked(1, 1);
}

/* Data cannot go to the program's memory now: they are fetched again, some time later. Or never. */
static void data_with_nowhere_to_go(void **state)
{
	struct wire_hdr h = { .type = WIRE_READ_DATA, .len = 60 };

	(void)state;
	hosts_rdma(&req, FF_OP_READ, 0, 0, 0, 100);
	req_take();
	req_next(0, WIRE_LAST);
	request_data_end(req_fast, req_qp, &h);
	no_room(60);
	req_in_phase(REM_LATER);
	assert_false(request_data_begin(req_qp, &h)); /* those that are on their way still */
	h.len = 40;
	req_no_next();
	req_later(LATER_NS);
	req_in_phase(REM_RUN);
	assert_int_equal(req_next(0, WIRE_LAST).h.offset, 60);
	h.offset = 60;
	assert_true(request_data_begin(req_qp, &h));
	request_data_bad(req_fast, req_qp, 0, FF_VERR_LKEY);
	req_failed(0, 0, IBV_WC_LOC_PROT_ERR);
}

static void naks_that_end_it(void **state)
{
	static const struct {
		enum wire_nak code;
		enum ibv_wc_status st;
	} of[] = {
		{ NAK_INV_REQ, IBV_WC_REM_INV_REQ_ERR },
		{ NAK_REM_ACCESS, IBV_WC_REM_ACCESS_ERR },
		{ NAK_REM_OP, IBV_WC_REM_OP_ERR },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(of); i++) {
		req_writes_sent(4);
		req_nak(9, of[i].code); /* none of ours */
		hosts_expect_none(&req, 0);
		req_nak(1, of[i].code); /* 0 was done before */
		hosts_expect(&req, 0, 0, IBV_WC_SUCCESS);
		req_failed(1, 3, of[i].st);
		req_teardown(state);
		req_setup(state);
	}
}

static void no_receive(void **state)
{
	(void)state;
	req_writes_sent(4);
	req_nak(1, NAK_RNR);
	req_done(0, 0);
	req_in_phase(REM_RNR);
	assert_int_equal(req.h[0].qp->qp.stats.rnr, 1);
	req_no_next();
	req_later(RNR_NS - 1);
	req_in_phase(REM_RNR);
	req_later(1);
	req_in_phase(REM_RUN);
	req_next(1, WIRE_LAST);
	req_no_next(); /* one at a time, until one is done */
	acked(1, 1);
	req_next(2, WIRE_LAST);
	req_next(3, WIRE_LAST);
	/* anew: the tries are counted for each message. The GO is in time */
	req_nak(2, NAK_RNR);
	remote_resume(req_fast, req_qp);
	req_in_phase(REM_RUN);
	for (int i = 0; i < 2; i++) {
		req_next(2, WIRE_LAST);
		req_nak(2, NAK_RNR);
		if (!i)
			req_later(RNR_NS);
	}
	req_failed(2, 3, IBV_WC_RNR_RETRY_EXC_ERR); /* rnr_retry 2 */
}

static void order_is_lost(void **state)
{
	(void)state;
	req_writes_sent(4);
	nak(2, NAK_SEQ);
	req_done(0, 1);
	req_in_phase(REM_RUN);
	req_next(2, WIRE_LAST);
	req_next(3, WIRE_LAST);
	/* what is answered before it is sent again is not sent again */
	nak(2, NAK_SEQ);
	acked(2, 2);
	req_next(3, WIRE_LAST);
	acked(3, 3);
}

/* The peer's limits: its GO is waited for, and then one message at a time for a while. */
static void the_peer_is_busy(void **state)
{
	(void)state;
	req_writes_sent(4);
	req_nak(1, NAK_BUSY);
	req_done(0, 0);
	req_in_phase(REM_RNR);
	req_later(BUSY_PATIENCE - 1);
	req_no_next();
	req_later(1); /* the GO was lost */
	for (uint32_t i = 1; i < 4; i++)
		req_next(i, WIRE_LAST);
	req_nak(1, NAK_BUSY);
	remote_resume(req_fast, req_qp);
	req_next(1, WIRE_LAST);
	req_no_next();
	req_later(BUSY_NS);
	req_next(2, WIRE_LAST);
	req_next(3, WIRE_LAST);
	acked(1, 3);
}

static void again_later(void **state)
{
	(void)state;
	req_writes_sent(3);
	nak(1, NAK_RETRY);
	req_done(0, 0);
	req_in_phase(REM_LATER);
	req_no_next();
	req_later(LATER_NS);
	req_next(1, WIRE_LAST);
	req_next(2, WIRE_LAST);
	acked(1, 2);
}

/* The peer has a part of the message: at once from there on, if that is news. */
static void goes_on(void **state)
{
	const uint32_t len = 3 * WIRE_PAYLOAD_MAX;

	(void)state;
	hosts_rdma(&req, FF_OP_WRITE, 0, 0, 0, 8);
	hosts_rdma(&req, FF_OP_WRITE, 1, 0, 0, len);
	req_take();
	req_next(0, WIRE_LAST);
	for (unsigned i = 0; i < 3; i++)
		req_next(1, i == 2 ? WIRE_LAST : 0);
	req_nak_at(1, 70000, NAK_RETRY);
	req_done(0, 0);
	req_in_phase(REM_RUN);
	assert_int_equal(req_next(1, 0).h.offset, 70000);
	req_nak_at(1, 70000, NAK_RETRY);
	req_in_phase(REM_LATER);
	req_no_next();
	req_later(LATER_NS);
	assert_int_equal(req_next(1, 0).h.offset, 70000);
	req_nak_at(1, 100, NAK_SEQ);
	assert_int_equal(req_next(1, 0).h.offset, 100);
	req_nak_at(1, len, NAK_SEQ); /* it lies */
	assert_int_equal(req_next(1, 0).h.offset, 0);
	acked(1, 1);
}

/* A READ whose data had to wait goes on where they ended. */
static void fetches_the_rest(void **state)
{
	struct wire_hdr h = { .type = WIRE_READ_DATA, .len = 60 };

	(void)state;
	hosts_rdma(&req, FF_OP_READ, 0, 0, 0, 100);
	hosts_rdma(&req, FF_OP_READ, 1, 0, 0, 100);
	req_take();
	assert_int_equal(req_next(0, WIRE_LAST).h.offset, 0);
	req_next(1, WIRE_LAST);
	request_data_end(req_fast, req_qp, &h);
	no_room(70);
	nak(1, NAK_RETRY); /* nor does this let it forget the first */
	req_later(LATER_NS);
	assert_int_equal(req_next(0, WIRE_LAST).h.offset, 70);
	assert_int_equal(req_next(1, WIRE_LAST).h.offset, 0);
	assert_int_equal(req_qp->tx.fetches, 2);
	nak(0, NAK_RETRY);
	req_later(LATER_NS);
	assert_int_equal(req_next(0, WIRE_LAST).h.offset, 70);
	h.offset = 70;
	h.len = 30;
	assert_true(request_data_begin(req_qp, &h));
	request_data_end(req_fast, req_qp, &h);
	req_done(0, 0);
}

int main(void)
{
	return UNIT_RUN(REQ_TEST(a_message_in_frames), REQ_TEST(inline_is_copied),
			REQ_TEST(fetches_and_fences), REQ_TEST(the_window),
			REQ_TEST(places_are_used_again),
			REQ_TEST(a_fetch_before_what_is_sent_again), REQ_TEST(data_acknowledge),
			REQ_TEST(data_acknowledge_writes), REQ_TEST(acks),
			REQ_TEST(acks_of_another_host), REQ_TEST(windows_wait_for_what_is_before),
			REQ_TEST(an_ack_is_for_no_fetch), REQ_TEST(data_in_order),
			REQ_TEST(data_with_nowhere_to_go), REQ_TEST(naks_that_end_it),
			REQ_TEST(no_receive), REQ_TEST(order_is_lost), REQ_TEST(the_peer_is_busy),
			REQ_TEST(again_later), REQ_TEST(goes_on), REQ_TEST(fetches_the_rest));
}
