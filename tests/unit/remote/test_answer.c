/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/resp_rig.c tests/rig/unit/two_hosts.c tests/rig/unit/others.c tests/rig/unit/rig.c */
/*
 * test_answer.c - a responder's answers to another host: jobs come first, and what is refused behind
 * them is told of when they are done.
 */
#include "tests/rig/unit/resp_rig.h"

#define RATE 12500000ull /* bytes/s */

/* Message 0: a READ, of which the limits let through only some. */
static int read_waits(void **state)
{
	struct ffo_limits to = { .serve_rate = RATE };
	struct wire_hdr h = { .opcode = FF_OP_READ, .req.length = HOSTS_BUF };
	struct hosts *t;

	hosts_setup(state);
	t = *state;
	h.req.addr = hosts_at(t, 1, 0);
	h.req.rkey = t->h[1].mr->rkey;
	fast_container_limits(&t->h[1].r.cont[0], &to);
	part(t, &h, 0, 0);
	is_in(t, RX_EXPECT);
	assert_int_not_equal(rem(t)->rx.job_head, rem(t)->rx.job_tail);
	return 0;
}
#define WAITING_TEST(name) cmocka_unit_test_setup_teardown(name, read_waits, hosts_teardown)

static void read_goes_on(struct hosts *t)
{
	fast_container_limits(&t->h[1].r.cont[0], &(struct ffo_limits){ 0 });
	hosts_run(t);
	is_in(t, RX_CLOSED);
	assert_int_equal(t->h[1].qp->qp.state, IBV_QPS_ERR);
}

/* A WRITE that is refused: its key is another. */
static void write_refused(struct hosts *t)
{
	struct wire_hdr h = write_of(t, 1);

	h.req.rkey++;
	part(t, &h, 0, 20);
}

static void refused_later(void **state)
{
	struct hosts *t = *state;
	struct wire_hdr other;

	write_refused(t);
	is_in(t, RX_REFUSE);
	other = write_of(t, 1);
	part(t, &other, 0, 20);
	ahead(t);
	is_in(t, RX_REFUSE);
	assert_int_equal(t->h[1].buf[5000], 0xa1);
	read_goes_on(t);
}

/* Its jobs end with the connection. What it is refused for is told of when they were asked for again. */
static void refused_and_cut(void **state)
{
	struct hosts *t = *state;
	struct wire_hdr h;

	write_refused(t);
	again(t);
	is_in(t, RX_REFUSE);
	h = (struct wire_hdr){
		.opcode = FF_OP_READ,
		.req = { .addr = hosts_at(t, 1, 0), .length = 8, .rkey = t->h[1].mr->rkey },
	};
	part(t, &h, 0, 0);
	read_goes_on(t);
}

static void refused_with_a_receive(void **state)
{
	struct hosts *t = *state;
	struct wire_hdr h = { .opcode = FF_OP_SEND_INV, .msn = 1, .req.length = 20, .req.imm = 1 };

	hosts_recv(t, 1, 0, 20);
	part(t, &h, 0, 10);
	is_in(t, RX_TAKE_RECV);
	part(t, &h, 10, 10);
	is_in(t, RX_REFUSE_RECV);
	read_goes_on(t);
	hosts_expect(t, 1, 1, IBV_WC_WR_FLUSH_ERR);
}

static void misfits(void **state)
{
	struct hosts *t = *state;
	struct wire_hdr h = { .opcode = FF_OP_SEND, .msn = 1, .req.length = 20 };

	hosts_recv(t, 1, 0, 19);
	part(t, &h, 0, 20);
	is_in(t, RX_MISFIT);
	hosts_expect_none(t, 1);
	read_goes_on(t);
	hosts_expect(t, 1, 1, IBV_WC_LOC_LEN_ERR);
}

/* A router that asks for more READs than it was told it may have under way is refused, and those go on. */
static void too_many_reads(void **state)
{
	struct hosts *t = *state;
	struct wire_hdr h = { .opcode = FF_OP_READ, .req.length = 8 };

	h.req.addr = hosts_at(t, 1, 0);
	h.req.rkey = t->h[1].mr->rkey;
	for (h.msn = 1; h.msn < REMOTE_JOBS; h.msn++) {
		part(t, &h, 0, 0);
		is_in(t, RX_EXPECT);
	}
	part(t, &h, 0, 0);
	is_in(t, RX_REFUSE);
	assert_int_equal(rem(t)->rx.job_tail - rem(t)->rx.job_head, REMOTE_JOBS);
	assert_int_equal(rem(t)->rx.jobs[rem(t)->rx.job_head % REMOTE_JOBS].msn, 0);
	read_goes_on(t);
}

/* A QP in ERR answers nothing more of what it was asked for. */
static void an_error_ends_the_jobs(void **state)
{
	struct hosts *t = *state;

	rig_state(&t->h[1].r, t->h[1].qp, IBV_QPS_ERR);
	assert_int_equal(rem(t)->rx.job_head, rem(t)->rx.job_tail);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WAITING_TEST(refused_later),	      WAITING_TEST(refused_and_cut),
		WAITING_TEST(refused_with_a_receive), WAITING_TEST(misfits),
		WAITING_TEST(too_many_reads),	      WAITING_TEST(an_error_ends_the_jobs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
