/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/req_rig.c tests/rig/unit/two_hosts.c tests/rig/unit/others.c tests/rig/unit/rig.c tests/rig/fakes/fake_pvm.c */
/*
 * test_step.c - a requester whose peer threw away what it sent goes by steps, until that is over; and so does
 * one that threw away what it fetched.
 */
#include "tests/rig/unit/req_rig.h"
#include "tests/rig/unit/unit.h"

#define PART WIRE_PAYLOAD_MAX

/* The step is over: the peer is asked about that message, and nothing more is sent. */
static void asks(uint32_t msn)
{
	assert_int_equal(req_next(msn, WIRE_STEP).h.type, WIRE_ASK);
	req_no_next();
}

/* Messages from msn on, n of them and no more. */
static void step_of(uint32_t msn, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		req_next(msn + i, WIRE_LAST);
	asks(msn + n - 1);
}

/* n WRITEs have left, and the peer threw away all but the first: it waits for its memory, and then goes on. */
static void thrown_away(uint32_t n)
{
	req_writes_sent(n);
	req_nak(1, NAK_SEQ);
	req_done(0, 0);
}

static void twice_as_long(void **state)
{
	uint32_t at = 1;

	(void)state;
	thrown_away(128);
	for (uint32_t n = 1; n <= 64; n *= 2) {
		step_of(at, n);
		request_ack(req_fast, req_qp, at + n - 1);
		req_done(at, at + n - 1);
		at += n;
	}
	assert_int_equal(at, 128); /* that was the longest */
	for (uint32_t i = 0; i < 100; i++)
		hosts_rdma(&req, FF_OP_WRITE, at + i, 0, 0, 8);
	req_take();
	for (uint32_t i = 0; i < 100; i++)
		req_next(at + i, WIRE_LAST);
	req_no_next();
}

static void half_as_long(void **state)
{
	(void)state;
	thrown_away(32);
	step_of(1, 1);
	request_ack(req_fast, req_qp, 1);
	step_of(2, 2);
	request_ack(req_fast, req_qp, 3);
	req_done(1, 3);
	step_of(4, 4);
	req_nak(5, NAK_SEQ); /* 6 and 7 were thrown away */
	req_done(4, 4);
	step_of(5, 2);
	request_ack(req_fast, req_qp, 5); /* that is not all of it */
	req_done(5, 5);
	req_no_next();
	request_ack(req_fast, req_qp, 6);
	req_done(6, 6);
	step_of(7, 4);
}

/* The answer is where the requester is. */
static void within_a_message(void **state)
{
	uint64_t at = PART;

	(void)state;
	hosts_rdma(&req, FF_OP_WRITE, 0, 0, 0, 8 * PART);
	req_take();
	for (int i = 0; i < 8; i++)
		req_next(0, i == 7 ? WIRE_LAST : 0);
	req_nak_at(0, at, NAK_RETRY);
	for (uint32_t n = 1; n <= 4; n *= 2) {
		for (uint32_t i = 0; i < n; i++, at += PART)
			assert_int_equal(req_next(0, at == 7 * PART ? WIRE_LAST : 0).h.offset, at);
		asks(0);
		if (at < 8 * PART)
			req_nak_at(0, at, NAK_RETRY);
	}
	request_ack(req_fast, req_qp, 0);
	req_done(0, 0);
}

/* A question that was lost is asked again, and a new connection begins without one. */
static void asked_again(void **state)
{
	struct frame fr = { .kind = FRAME_ASK };

	(void)state;
	thrown_away(4);
	req_next(1, WIRE_LAST);
	fr.h = req_next(1, WIRE_STEP).h;
	fr.incarnation = req_qp->incarnation;
	remote_wire_ops.unsent(&req_qp->wire, &fr);
	asks(1);
	remote_resume(req_fast, req_qp); /* on another connection */
	step_of(1, 1);
}

/* An answer that is no ACK may be the last one: then there is nothing to ask about. */
static void all_is_fetched(void **state)
{
	struct wire_hdr h = { .type = WIRE_ATOMIC_DATA, .msn = 3 };

	(void)state;
	thrown_away(2);
	step_of(1, 1);
	request_ack(req_fast, req_qp, 1);
	req_done(1, 1);
	hosts_rdma(&req, FF_OP_WRITE, 2, 0, 0, 8);
	hosts_rdma(&req, FF_OP_FETCH_ADD, 3, 8, 8, 8);
	req_take();
	req_next(2, WIRE_LAST);
	req_next(3, WIRE_LAST);
	assert_true(request_atomic(req_fast, req_qp, &h));
	req_done(2, 3);
	req_no_next();
}

static void unsent_frames_do_not_count(void **state)
{
	struct frame fr;

	(void)state;
	thrown_away(4);
	fr = req_next(1, WIRE_LAST);
	remote_wire_ops.unsent(&req_qp->wire, &fr);
	step_of(1, 1);
}

/* ---- READs ---------------------------------------------------------------------------------------------- */

/* So many bytes of READ msn come, from what is there on. */
static void data(uint32_t msn, uint64_t off, uint32_t len)
{
	struct wire_hdr h = { .type = WIRE_READ_DATA, .msn = msn, .offset = off, .len = len };

	assert_true(request_data_begin(req_qp, &h));
	request_data_end(req_fast, req_qp, &h);
}

/* It is asked for from there on, so many bytes; 0: all. */
static void fetches(uint32_t msn, uint64_t off, uint32_t most)
{
	struct frame fr = req_next(msn, WIRE_LAST);

	assert_int_equal(fr.h.offset, off);
	assert_int_equal(fr.h.req.most, most);
	req_no_next();
}

static void a_read_in_parts(void **state)
{
	(void)state;
	hosts_rdma(&req, FF_OP_READ, 0, 0, 0, 8 * PART);
	hosts_rdma(&req, FF_OP_WRITE, 1, 0, 0, 8);
	req_take();
	assert_int_equal(req_next(0, WIRE_LAST).h.req.most, 0);
	req_next(1, WIRE_LAST);
	data(0, 0, PART);
	request_data_later(req_fast, req_qp, 0, PART);
	req_later(LATER_NS);
	fetches(0, PART, PART);
	data(0, PART, 1000);
	req_no_next();
	data(0, PART + 1000, PART - 1000);
	fetches(0, 2 * PART, 2 * PART);
	/* the memory keeps the last frame waiting: nothing was thrown away for it */
	data(0, 2 * PART, PART);
	request_data_later(req_fast, req_qp, 0, 3 * PART);
	req_later(LATER_NS);
	fetches(0, 3 * PART, 2 * PART);
	/* now the part is complete */
	request_data_later(req_fast, req_qp, 0, 3 * PART);
	req_later(LATER_NS);
	fetches(0, 3 * PART, PART);
	data(0, 3 * PART, PART);
	fetches(0, 4 * PART, 2 * PART);
	data(0, 4 * PART, 2 * PART);
	fetches(0, 6 * PART, 0);
	data(0, 6 * PART, 2 * PART);
	hosts_expect(&req, 0, 0, IBV_WC_SUCCESS);
	req_next(1, WIRE_LAST);
	request_ack(req_fast, req_qp, 1);
	req_done(1, 1);
}

int main(void)
{
	return UNIT_RUN(REQ_TEST(twice_as_long), REQ_TEST(half_as_long), REQ_TEST(within_a_message),
			REQ_TEST(asked_again), REQ_TEST(all_is_fetched),
			REQ_TEST(unsent_frames_do_not_count), REQ_TEST(a_read_in_parts));
}
