/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/unit/lib/two_hosts.c tests/lib/others.c tests/lib/rig.c tests/lib/pvm_fake.c */
/*
 * test_remote_resp.c - the state of a responder whose peer is on another host: the ways from each to the
 * next. Frames are made by hand, so that they come in any order; copies behind a process end as the test
 * likes.
 */
#include <string.h>

#include "tests/lib/pvm_fake.h"
#include "tests/unit/lib/two_hosts.h"

#define RATE 12500000ull /* bytes/s */

static struct remote_qp *rem(const struct hosts *t)
{
	return t->h[1].qp->qp.soft->rem;
}

static void is_in(const struct hosts *t, enum rx_state want)
{
	assert_string_equal(rx_state_str(rem(t)->rx.state), rx_state_str(want));
}

/* A part of a message: where it begins, its length. */
static void part(struct hosts *t, struct wire_hdr *h, uint64_t offset, uint32_t n)
{
	h->offset = offset;
	h->flags = 0;
	hosts_part(t, h, n, 1);
}

static struct wire_hdr write_of(struct hosts *t, uint32_t msn)
{
	return (struct wire_hdr){
		.opcode = FF_OP_WRITE,
		.msn = msn,
		.req = { .addr = hosts_at(t, 1, 5000), .length = 20, .rkey = t->h[1].mr->rkey },
	};
}

/* A message that is ahead: the peer is told of what is missing. */
static void ahead(struct hosts *t)
{
	struct wire_hdr h = write_of(t, rem(t)->rx.msn + 5);

	part(t, &h, 0, 20);
}

static void again(struct hosts *t)
{
	hosts_cut(t);
	hosts_connect(t);
	hosts_run(t);
}

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
	struct wire_hdr h;
	struct hosts t;

	(void)state;
	hosts_up(&t, IBV_QPT_RC);
	is_in(&t, RX_CLOSED);
	h = write_of(&t, 1);
	part(&t, &h, 0, 10); /* no sequence begins with it */
	is_in(&t, RX_CLOSED);
	h.msn = 0;
	part(&t, &h, 0, 10);
	is_in(&t, RX_TAKE);
	part(&t, &h, 10, 10);
	is_in(&t, RX_EXPECT);
	h.msn = 1;
	part(&t, &h, 10, 10); /* it has not begun */
	is_in(&t, RX_DROP);
	part(&t, &h, 0, 10);
	is_in(&t, RX_TAKE);
	ahead(&t);
	is_in(&t, RX_DROP);
	part(&t, &h, 10, 10);
	is_in(&t, RX_DROP);
	assert_int_equal(rem(&t)->rx.msn, 1);
	again(&t);
	is_in(&t, RX_EXPECT);
	part(&t, &h, 0, 20);
	is_in(&t, RX_EXPECT);
	ahead(&t);
	is_in(&t, RX_DROP);
	again(&t);
	is_in(&t, RX_EXPECT);
	rig_state(&t.h[1].r, t.h[1].qp, IBV_QPS_ERR);
	is_in(&t, RX_CLOSED);
	hosts_down(&t);
}

static void with_a_receive(void **state)
{
	struct wire_hdr h = { .opcode = FF_OP_SEND, .req.length = 20 };
	struct hosts t;

	(void)state;
	hosts_up(&t, IBV_QPT_RC);
	part(&t, &h, 0, 10); /* there is none */
	is_in(&t, RX_DROP);
	hosts_recv(&t, 1, 0, 20);
	part(&t, &h, 10, 10);
	is_in(&t, RX_DROP);
	part(&t, &h, 0, 10);
	is_in(&t, RX_TAKE_RECV);
	ahead(&t);
	is_in(&t, RX_DROP_RECV);
	part(&t, &h, 10, 10);
	hosts_expect_none(&t, 1);
	part(&t, &h, 0, 10);
	is_in(&t, RX_TAKE_RECV);
	ahead(&t);
	again(&t);
	is_in(&t, RX_TAKE_RECV);
	part(&t, &h, 0, 10);
	part(&t, &h, 10, 10);
	is_in(&t, RX_EXPECT);
	hosts_expect(&t, 1, 1, IBV_WC_SUCCESS);
	hosts_down(&t);
}

/* UC: what does not fit is dropped, and the QP goes on. */
static void unreliable(void **state)
{
	struct wire_hdr h = { .opcode = FF_OP_SEND, .req.length = 20 };
	struct hosts t;

	(void)state;
	hosts_up(&t, IBV_QPT_UC);
	hosts_recv(&t, 1, 0, 15);
	part(&t, &h, 0, 10);
	is_in(&t, RX_DROP);
	h = write_of(&t, 1);
	h.req.rkey++;
	part(&t, &h, 0, 10);
	is_in(&t, RX_DROP);
	h = write_of(&t, 2);
	part(&t, &h, 0, 10);
	is_in(&t, RX_TAKE);
	h = (struct wire_hdr){ .opcode = FF_OP_SEND, .msn = 4, .req.length = 15 };
	part(&t, &h, 0, 10);
	is_in(&t, RX_TAKE_RECV);
	part(&t, &h, 10, 5);
	is_in(&t, RX_EXPECT);
	hosts_expect(&t, 1, 1, IBV_WC_SUCCESS);
	hosts_down(&t);
}

/* ---- jobs that come first --------------------------------------------------------------------------- */

/* Message 0: a READ, of which the limits let through only some. */
static void read_waits(struct hosts *t)
{
	struct ffo_limits to = { .serve_rate = RATE };
	struct wire_hdr h = {
		.opcode = FF_OP_READ,
		.req = { .addr = hosts_at(t, 1, 0), .length = HOSTS_BUF, .rkey = t->h[1].mr->rkey },
	};

	fast_container_limits(&t->h[1].r.cont[0], &to);
	part(t, &h, 0, 0);
	is_in(t, RX_EXPECT);
	assert_int_not_equal(rem(t)->rx.job_head, rem(t)->rx.job_tail);
}

static void read_goes_on(struct hosts *t)
{
	fast_container_limits(&t->h[1].r.cont[0], &(struct ffo_limits){ 0 });
	hosts_run(t);
	is_in(t, RX_CLOSED);
	assert_int_equal(t->h[1].qp->qp.state, IBV_QPS_ERR);
}

static void refused_later(void **state)
{
	struct wire_hdr h, other;
	struct hosts t;

	(void)state;
	hosts_up(&t, IBV_QPT_RC);
	read_waits(&t);
	h = write_of(&t, 1);
	h.req.rkey++;
	part(&t, &h, 0, 20);
	is_in(&t, RX_REFUSE);
	other = write_of(&t, 1);
	part(&t, &other, 0, 20);
	ahead(&t);
	is_in(&t, RX_REFUSE);
	assert_int_equal(t.h[1].buf[5000], 0xa1);
	read_goes_on(&t);
	hosts_down(&t);
}

/* Its jobs end with the connection. What it is refused for is told of when they were asked for again. */
static void refused_and_cut(void **state)
{
	struct wire_hdr h;
	struct hosts t;

	(void)state;
	hosts_up(&t, IBV_QPT_RC);
	read_waits(&t);
	h = write_of(&t, 1);
	h.req.rkey++;
	part(&t, &h, 0, 20);
	again(&t);
	is_in(&t, RX_REFUSE);
	h = (struct wire_hdr){
		.opcode = FF_OP_READ,
		.req = { .addr = hosts_at(&t, 1, 0), .length = 8, .rkey = t.h[1].mr->rkey },
	};
	part(&t, &h, 0, 0);
	read_goes_on(&t);
	hosts_down(&t);
}

static void refused_with_a_receive(void **state)
{
	struct wire_hdr h = { .opcode = FF_OP_SEND_INV, .msn = 1, .req.length = 20, .req.imm = 1 };
	struct hosts t;

	(void)state;
	hosts_up(&t, IBV_QPT_RC);
	read_waits(&t);
	hosts_recv(&t, 1, 0, 20);
	part(&t, &h, 0, 10);
	is_in(&t, RX_TAKE_RECV);
	part(&t, &h, 10, 10);
	is_in(&t, RX_REFUSE_RECV);
	read_goes_on(&t);
	hosts_expect(&t, 1, 1, IBV_WC_WR_FLUSH_ERR);
	hosts_down(&t);
}

static void misfits(void **state)
{
	struct wire_hdr h = { .opcode = FF_OP_SEND, .msn = 1, .req.length = 20 };
	struct hosts t;

	(void)state;
	hosts_up(&t, IBV_QPT_RC);
	read_waits(&t);
	hosts_recv(&t, 1, 0, 19);
	part(&t, &h, 0, 20);
	is_in(&t, RX_MISFIT);
	hosts_expect_none(&t, 1);
	read_goes_on(&t);
	hosts_expect(&t, 1, 1, IBV_WC_LOC_LEN_ERR);
	hosts_down(&t);
}

/* ---- memory behind a process ------------------------------------------------------------------------ */

static enum pvm_fate next_fate;

static enum pvm_fate fate(void)
{
	enum pvm_fate now = next_fate;

	next_fate = PVM_AT_ONCE;
	return now;
}

static bool is_there;

static bool reaches(uint64_t va, uint32_t len)
{
	(void)va, (void)len;
	return is_there;
}

static void meanwhile(enum pvm_fate now)
{
	(void)now;
}

static void behind_a_process(struct hosts *t)
{
	hosts_up(t, IBV_QPT_RC);
	rig_mr_free(&t->h[1].r, t->h[1].mr);
	t->h[1].mr = rig_mr_pvm(&t->h[1].r, t->h[1].s, t->h[1].buf, HOSTS_BUF, HOSTS_ACCESS);
	is_there = true;
	pvm_fake.fate = fate;
	pvm_fake.reaches = reaches;
	pvm_fake.meanwhile = meanwhile;
}

/* The worker ends its call, and has no other. */
static void work(struct hosts *t)
{
	assert_true(pvm_fake_work(t->h[1].r.f, &t->h[1].s->s));
	assert_false(pvm_fake_work(t->h[1].r.f, &t->h[1].s->s));
	hosts_run(t);
}

static void stalled(void **state)
{
	static const enum pvm_fate by[] = { PVM_AGAIN, PVM_STUCK };
	struct wire_hdr h;
	struct hosts t;

	(void)state;
	behind_a_process(&t);
	for (uint32_t i = 0; i < 2; i++) {
		h = write_of(&t, i);
		next_fate = by[i];
		part(&t, &h, 0, 10);
		if (by[i] == PVM_AGAIN) {
			is_in(&t, RX_STALL);
			part(&t, &h, 10, 10);
			ahead(&t);
			is_in(&t, RX_STALL);
			work(&t);
		} else {
			assert_false(pvm_fake_work(t.h[1].r.f, &t.h[1].s->s));
		}
		is_in(&t, RX_DROP);
		part(&t, &h, 0, 20);
		is_in(&t, RX_EXPECT);
	}
	hosts_down(&t);
}

static void stalled_with_a_receive(void **state)
{
	struct wire_hdr h = { .opcode = FF_OP_SEND, .req.length = 20 };
	struct hosts t;

	(void)state;
	behind_a_process(&t);
	hosts_recv(&t, 1, 0, 20);
	next_fate = PVM_AGAIN;
	part(&t, &h, 0, 10);
	is_in(&t, RX_STALL_RECV);
	again(&t);
	is_in(&t, RX_STALL_RECV);
	work(&t);
	is_in(&t, RX_DROP_RECV);
	part(&t, &h, 0, 20);
	is_in(&t, RX_EXPECT);
	hosts_expect(&t, 1, 1, IBV_WC_SUCCESS);
	hosts_down(&t);
}

static void stalled_and_cut(void **state)
{
	struct wire_hdr h;
	struct hosts t;

	(void)state;
	behind_a_process(&t);
	h = write_of(&t, 0);
	next_fate = PVM_AGAIN;
	part(&t, &h, 0, 10);
	is_in(&t, RX_STALL);
	again(&t);
	is_in(&t, RX_STALL_CUT);
	part(&t, &h, 0, 10);
	is_in(&t, RX_STALL_CUT);
	work(&t);
	is_in(&t, RX_DROP);
	hosts_down(&t);
}

static void stalled_atomic(void **state)
{
	static const enum pvm_fate second[] = { PVM_AT_ONCE, PVM_AGAIN, PVM_LOCK_GIVEN };
	struct hosts t;

	(void)state;
	behind_a_process(&t);
	for (uint32_t i = 0; i < 3; i++) {
		struct wire_hdr h = {
			.opcode = FF_OP_FETCH_ADD,
			.msn = i,
			.flags = WIRE_LAST,
			.atomic = { .addr = hosts_at(&t, 1, 64),
				    .compare_add = 1,
				    .rkey = t.h[1].mr->rkey },
		};

		next_fate = PVM_AGAIN;
		hosts_part(&t, &h, 0, 0);
		is_in(&t, RX_STALL);
		next_fate = second[i];
		work(&t);
		if (second[i] == PVM_AGAIN) {
			is_in(&t, RX_STALL);
			work(&t);
		}
		is_in(&t, RX_DROP); /* what came meanwhile was thrown away */
		assert_int_equal(rem(&t)->rx.msn, i + 1);
	}
	assert_int_equal(*(uint64_t *)(t.h[1].buf + 64), 0xa1a1a1a1a1a1a1a1ull + 3);
	hosts_down(&t);
}

/* The memory turns out not to be there. */
static void stalled_in_vain(void **state)
{
	struct wire_hdr h;
	struct hosts t;

	(void)state;
	behind_a_process(&t);
	h = write_of(&t, 0);
	next_fate = PVM_AGAIN;
	part(&t, &h, 0, 10);
	is_in(&t, RX_STALL);
	is_there = false;
	work(&t);
	is_in(&t, RX_CLOSED);
	assert_int_equal(t.h[1].qp->qp.state, IBV_QPS_ERR);
	hosts_down(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(without_a_receive),
		cmocka_unit_test(with_a_receive),
		cmocka_unit_test(unreliable),
		cmocka_unit_test(refused_later),
		cmocka_unit_test(refused_and_cut),
		cmocka_unit_test(refused_with_a_receive),
		cmocka_unit_test(misfits),
		cmocka_unit_test(stalled),
		cmocka_unit_test(stalled_with_a_receive),
		cmocka_unit_test(stalled_and_cut),
		cmocka_unit_test(stalled_atomic),
		cmocka_unit_test(stalled_in_vain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
