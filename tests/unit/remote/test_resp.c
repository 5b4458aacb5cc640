/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/resp_rig.c tests/rig/unit/two_hosts.c tests/rig/unit/others.c tests/rig/unit/rig.c tests/rig/fakes/fake_pvm.c */
/*
 * test_resp.c - the state of a responder whose peer is on another host: the ways from each to the
 * next. Frames are made by hand, so that they come in any order; copies behind a process end as the test
 * likes.
 */
#include <string.h>

#include "tests/rig/fakes/fake_pvm.h"
#include "tests/rig/unit/resp_rig.h"

static void names(void **state)
{
	(void)state;
	for (int i = 0; i < RX_NUM_STATES; i++)
		for (int k = 0; k < i; k++)
			assert_string_not_equal(rx_state_str((enum rx_state)i),
						rx_state_str((enum rx_state)k));
	assert_string_equal(rx_state_str(RX_NUM_STATES), "?");
	for (int i = 0; i < REM_NUM_PHASES; i++)
		for (int k = 0; k < i; k++)
			assert_string_not_equal(remote_phase_str((enum remote_phase)i),
						remote_phase_str((enum remote_phase)k));
	assert_string_equal(remote_phase_str(REM_NUM_PHASES), "?");
}

static void without_a_receive(void **state)
{
	struct hosts *t = *state;
	struct wire_hdr h;

	is_in(t, RX_CLOSED);
	h = write_of(t, 1);
	part(t, &h, 0, 10); /* no sequence begins with it */
	is_in(t, RX_CLOSED);
	h.msn = 0;
	part(t, &h, 0, 10);
	is_in(t, RX_TAKE);
	part(t, &h, 10, 10);
	is_in(t, RX_EXPECT);
	h.msn = 1;
	part(t, &h, 10, 10); /* it has not begun */
	is_in(t, RX_DROP);
	part(t, &h, 0, 10);
	is_in(t, RX_TAKE);
	ahead(t);
	is_in(t, RX_DROP);
	part(t, &h, 10, 10);
	is_in(t, RX_DROP);
	assert_int_equal(rem(t)->rx.msn, 1);
	again(t);
	is_in(t, RX_EXPECT);
	part(t, &h, 0, 20);
	is_in(t, RX_EXPECT);
	ahead(t);
	is_in(t, RX_DROP);
	again(t);
	is_in(t, RX_EXPECT);
	rig_state(&t->h[1].r, t->h[1].qp, IBV_QPS_ERR);
	is_in(t, RX_CLOSED);
}

static void with_a_receive(void **state)
{
	struct hosts *t = *state;
	struct wire_hdr h = { .opcode = FF_OP_SEND, .req.length = 20 };

	part(t, &h, 0, 10); /* there is none */
	is_in(t, RX_DROP);
	hosts_recv(t, 1, 0, 20);
	part(t, &h, 10, 10);
	is_in(t, RX_DROP);
	part(t, &h, 0, 10);
	is_in(t, RX_TAKE_RECV);
	ahead(t);
	is_in(t, RX_DROP_RECV);
	part(t, &h, 10, 10);
	hosts_expect_none(t, 1);
	part(t, &h, 0, 10);
	is_in(t, RX_TAKE_RECV);
	ahead(t);
	again(t);
	is_in(t, RX_TAKE_RECV);
	part(t, &h, 0, 10);
	part(t, &h, 10, 10);
	is_in(t, RX_EXPECT);
	hosts_expect(t, 1, 1, IBV_WC_SUCCESS);
}

/* UC: what does not fit is dropped, and the QP goes on. */
static void unreliable(void **state)
{
	struct hosts *t = *state;
	struct wire_hdr h = { .opcode = FF_OP_SEND, .req.length = 20 };

	hosts_recv(t, 1, 0, 15);
	part(t, &h, 0, 10);
	is_in(t, RX_DROP);
	h = write_of(t, 1);
	h.req.rkey++;
	part(t, &h, 0, 10);
	is_in(t, RX_DROP);
	h = write_of(t, 2);
	part(t, &h, 0, 10);
	is_in(t, RX_TAKE);
	h = (struct wire_hdr){ .opcode = FF_OP_SEND, .msn = 4, .req.length = 15 };
	part(t, &h, 0, 10);
	is_in(t, RX_TAKE_RECV);
	part(t, &h, 10, 5);
	is_in(t, RX_EXPECT);
	hosts_expect(t, 1, 1, IBV_WC_SUCCESS);
}

/* ---- memory behind a process ------------------------------------------------------------------------ */

static bool is_there;

static bool reaches(uint64_t va, uint32_t len)
{
	(void)va, (void)len;
	return is_there;
}

static struct fast *receiver;

/* The new runner finds the call stuck. */
static void meanwhile(enum pvm_fate now)
{
	if (now == PVM_STUCK)
		fast_turn(receiver);
}

static int behind_a_process(void **state)
{
	struct hosts *t;

	hosts_setup(state);
	t = *state;
	rig_mr_free(&t->h[1].r, t->h[1].mr);
	t->h[1].mr = rig_mr_pvm(&t->h[1].r, t->h[1].s, t->h[1].buf, HOSTS_BUF, HOSTS_ACCESS);
	receiver = t->h[1].r.f;
	is_there = true;
	fake_pvm_calm();
	fake_pvm.reaches = reaches;
	fake_pvm.meanwhile = meanwhile;
	return 0;
}
#define BEHIND_TEST(name) cmocka_unit_test_setup_teardown(name, behind_a_process, hosts_teardown)

/* The worker ends its call, and has no other. */
static void work(struct hosts *t)
{
	assert_true(fake_pvm_work(t->h[1].r.f, &t->h[1].s->s));
	assert_false(fake_pvm_work(t->h[1].r.f, &t->h[1].s->s));
	hosts_run(t);
}

/* Half of a WRITE, whose copy ends so. */
static struct wire_hdr half_a_write(struct hosts *t, uint32_t msn, enum pvm_fate fate)
{
	struct wire_hdr h = write_of(t, msn);

	fake_pvm.next = fate;
	part(t, &h, 0, 10);
	return h;
}

/* A moment later it is there: nothing is lost. */
static void made_between_turns(void **state)
{
	static const enum pvm_fate by[] = { PVM_AT_ONCE, PVM_LOCK_GIVEN };
	struct hosts *t = *state;

	for (uint32_t i = 0; i < 2; i++) {
		struct wire_hdr h = half_a_write(t, i, by[i]);

		is_in(t, RX_TAKE);
		part(t, &h, 10, 10);
		is_in(t, RX_EXPECT);
	}
}

static void stalled(void **state)
{
	static const enum pvm_fate by[] = { PVM_AGAIN, PVM_STUCK };
	struct hosts *t = *state;

	for (uint32_t i = 0; i < 2; i++) {
		struct wire_hdr h = half_a_write(t, i, by[i]);

		if (by[i] == PVM_AGAIN) {
			is_in(t, RX_STALL);
			part(t, &h, 10, 10);
			ahead(t);
			is_in(t, RX_STALL);
			work(t);
		} else {
			assert_false(fake_pvm_work(t->h[1].r.f, &t->h[1].s->s));
		}
		is_in(t, RX_DROP);
		part(t, &h, 0, 20);
		is_in(t, RX_EXPECT);
	}
}

/* A requester that goes by steps is told how far the message is. */
static void asked(void **state)
{
	struct hosts *t = *state;
	struct wire_hdr h = write_of(t, 0), ask;

	part(t, &h, 0, 10);
	is_in(t, RX_TAKE);
	ask = h;
	ask.type = WIRE_ASK;
	response_asked(t->h[1].r.f, &t->h[1].other, &ask);
	is_in(t, RX_TAKE);
	ask.flags = WIRE_STEP;
	response_asked(t->h[1].r.f, &t->h[1].other, &ask);
	is_in(t, RX_DROP);
	assert_true(rem(t)->rx.nak_due);
	assert_int_equal(rem(t)->rx.nak_code, NAK_RETRY);
	assert_int_equal(rem(t)->rx.nak_off, 10);
	part(t, &h, 10, 10);
	is_in(t, RX_EXPECT);
	rem(t)->rx.ack_due = false;
	response_asked(t->h[1].r.f, &t->h[1].other, &ask);
	assert_true(rem(t)->rx.ack_due);
	/* not while it stalls: the end of that tells */
	h = half_a_write(t, 1, PVM_AGAIN);
	is_in(t, RX_STALL);
	rem(t)->rx.nak_due = false;
	ask.msn = 1;
	response_asked(t->h[1].r.f, &t->h[1].other, &ask);
	is_in(t, RX_STALL);
	assert_false(rem(t)->rx.nak_due);
}

static void stalled_with_a_receive(void **state)
{
	struct hosts *t = *state;
	struct wire_hdr h = { .opcode = FF_OP_SEND, .req.length = 20 };

	hosts_recv(t, 1, 0, 20);
	fake_pvm.next = PVM_AGAIN;
	part(t, &h, 0, 10);
	is_in(t, RX_STALL_RECV);
	again(t);
	is_in(t, RX_STALL_RECV);
	work(t);
	is_in(t, RX_DROP_RECV);
	part(t, &h, 0, 20);
	is_in(t, RX_EXPECT);
	hosts_expect(t, 1, 1, IBV_WC_SUCCESS);
}

static void stalled_and_cut(void **state)
{
	struct hosts *t = *state;
	struct wire_hdr h;

	h = half_a_write(t, 0, PVM_AGAIN);
	is_in(t, RX_STALL);
	again(t);
	is_in(t, RX_STALL_CUT);
	part(t, &h, 0, 10);
	is_in(t, RX_STALL_CUT);
	work(t);
	is_in(t, RX_DROP);
}

static void stalled_atomic(void **state)
{
	struct hosts *t = *state;

	for (uint32_t i = 0; i < 3; i++) {
		struct wire_hdr h = {
			.opcode = FF_OP_FETCH_ADD,
			.msn = i,
			.flags = WIRE_LAST,
			.atomic = { .addr = hosts_at(t, 1, 64),
				    .compare_add = 1,
				    .rkey = t->h[1].mr->rkey },
		};

		fake_pvm.next = PVM_AGAIN;
		hosts_part(t, &h, 0, 0);
		is_in(t, RX_STALL);
		work(t);
		is_in(t, RX_DROP); /* what came meanwhile was thrown away */
		assert_int_equal(rem(t)->rx.msn, i + 1);
	}
	assert_int_equal(*(uint64_t *)(t->h[1].buf + 64), 0xa1a1a1a1a1a1a1a1ull + 3);
}

/* The memory turns out not to be there. */
static void stalled_in_vain(void **state)
{
	struct hosts *t = *state;

	half_a_write(t, 0, PVM_AGAIN);
	is_in(t, RX_STALL);
	is_there = false;
	work(t);
	is_in(t, RX_CLOSED);
	assert_int_equal(t->h[1].qp->qp.state, IBV_QPS_ERR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		HOSTS_TEST(without_a_receive),
		HOSTS_TEST(with_a_receive),
		HOSTS_TEST_UC(unreliable),
		BEHIND_TEST(made_between_turns),
		BEHIND_TEST(stalled),
		BEHIND_TEST(asked),
		BEHIND_TEST(stalled_with_a_receive),
		BEHIND_TEST(stalled_and_cut),
		BEHIND_TEST(stalled_atomic),
		BEHIND_TEST(stalled_in_vain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
