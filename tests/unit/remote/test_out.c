/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/two_hosts.c tests/rig/unit/others.c tests/rig/unit/rig.c tests/rig/fakes/fake_pvm.c */
/*
 * test_out.c - memory behind a process that is read ahead for another host: who has one of the few buffers
 * for that, and who gives it back.
 */
#include <string.h>

#include "tests/rig/fakes/fake_pvm.h"
#include "tests/rig/unit/two_hosts.h"
#include "tests/rig/unit/unit.h"

#define LEN 200000u

static void fill(uint8_t *p, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(i * 31 + (i >> 8) + seed);
}

/* What host `i` has registered is reached through its process. */
static void behind_a_process(struct hosts *t, int i)
{
	struct host *h = &t->h[i];

	rig_mr_free(&h->r, h->mr);
	h->mr = rig_mr_pvm(&h->r, h->s, h->buf, HOSTS_BUF, HOSTS_ACCESS);
}

static void up(struct hosts *t)
{
	fake_pvm = (struct fake_pvm){ 0 };
	hosts_up(t, IBV_QPT_RC);
	fake_pvm_calm();
	fill(t->h[0].buf, LEN, 7);
	fill(t->h[1].buf, LEN, 8);
}

static int setup(void **state)
{
	*state = malloc(sizeof(struct hosts));
	up(*state);
	return 0;
}
#define OUT_TEST(name) cmocka_unit_test_setup_teardown(name, setup, hosts_teardown)

/* The library has replaced the pages, and the router knows it: MAP_MR. */
static void map(struct hosts *t, int i)
{
	struct mr *mr = t->h[i].mr;

	mr->run = calloc(1, sizeof(*mr->run));
	*mr->run = (struct mr_run){ .va = mr->addr, .len = mr->length, .host = t->h[i].buf };
	mr->num_runs = 1;
	mr->zero_copy = mr->length;
}

/* Until a worker has a call of that host's memory. */
static void until_a_worker_has_it(struct hosts *t, int i)
{
	fake_pvm.next = PVM_AGAIN;
	for (unsigned n = 0; n < 1000 && pvm_state(&t->h[i].s->s) != PVM_STALLED; n++)
		hosts_turn(t);
	assert_int_equal(pvm_state(&t->h[i].s->s), PVM_STALLED);
	hosts_run(t);
}

static void worker_ends(struct hosts *t, int i)
{
	while (fake_pvm_work(t->h[i].r.f, &t->h[i].s->s))
		;
	hosts_run(t);
}

/*
 * What host i has is mapped while it is read ahead: the WR goes on by pointers, and nobody wants what was read. The
 * next one has its turn meanwhile, for whatever reason.
 */
static void map_meanwhile(struct hosts *t, uint8_t op, int i)
{
	uint64_t loff = i ? 1000000 : 0, roff = 1000000 - loff;

	behind_a_process(t, i);
	hosts_rdma(t, op, 1, loff, roff, LEN);
	until_a_worker_has_it(t, i);
	hosts_expect_none(t, 0);
	map(t, i);
	hosts_rdma(t, op, 2, loff / 2 * 3, roff / 2 * 3, 8);
	hosts_run(t);
	worker_ends(t, i);
	hosts_expect(t, 0, 1, IBV_WC_SUCCESS);
	hosts_expect(t, 0, 2, IBV_WC_SUCCESS);
	assert_memory_equal(t->h[!i].buf + 1000000, t->h[i].buf, LEN);
	assert_int_equal(fake_pvm.calls, 0);
}

static void mapped_meanwhile(void **state)
{
	map_meanwhile(*state, FF_OP_WRITE, 0);
}

/* The same with what a READ asks for. */
static void job_mapped_meanwhile(void **state)
{
	map_meanwhile(*state, FF_OP_READ, 1);
}

/* Who may not send has no buffer: a peer without a receive says how long that is. */
static void without_a_receive(void **state)
{
	struct hosts *t = *state;

	behind_a_process(t, 0);
	for (unsigned i = 0; i < 3; i++)
		hosts_send(t, i, 0, LEN);
	hosts_run(t);
	assert_int_equal(t->h[0].qp->qp.soft->rem->tx.phase, REM_RNR);
	assert_int_equal(fake_pvm.calls, 0);
	for (unsigned i = 0; i < 3; i++)
		hosts_recv(t, 10 + i, 1000000, LEN);
	hosts_run(t);
	for (unsigned i = 0; i < 3; i++) {
		hosts_expect(t, 0, i, IBV_WC_SUCCESS);
		hosts_expect(t, 1, 10 + i, IBV_WC_SUCCESS);
	}
	assert_memory_equal(t->h[1].buf + 1000000, t->h[0].buf, LEN);
	assert_int_equal(fake_pvm.calls, 0);
}

/* Nor one whose connection ends while a worker reads for it. */
static void without_a_connection(void **state)
{
	struct hosts *t = *state;

	behind_a_process(t, 0);
	behind_a_process(t, 1);
	for (int i = 0; i < 2; i++) {
		hosts_rdma(t, i ? FF_OP_READ : FF_OP_WRITE, 1, 1000000 * i, 1000000, LEN);
		until_a_worker_has_it(t, i);
		hosts_cut(t);
		hosts_run(t);
		worker_ends(t, i);
		assert_int_equal(fake_pvm.calls, 0);
		hosts_connect(t);
		hosts_run(t);
		hosts_expect(t, 0, 1, IBV_WC_SUCCESS);
	}
	assert_memory_equal(t->h[1].buf + 1000000, t->h[0].buf, LEN);
	assert_memory_equal(t->h[0].buf + 1000000, t->h[0].buf, LEN);
	assert_int_equal(fake_pvm.calls, 0);
}

/* What was read is there, and before anybody has looked there is news of the peer. */
static void news_of_the_peer(void **state)
{
	static const uint8_t ops[] = { FF_OP_WRITE, FF_OP_READ };
	struct hosts t;

	(void)state;
	for (int i = 0; i < 2; i++) {
		up(&t);
		behind_a_process(&t, i);
		hosts_rdma(&t, ops[i], 1, 1000000 * i, 1000000 * !i, 5000);
		until_a_worker_has_it(&t, i);
		assert_true(fake_pvm_work(t.h[i].r.f, &t.h[i].s->s));
		remote_changed(t.h[i].r.f, &t.h[i].remote);
		hosts_run(&t);
		hosts_expect(&t, 0, 1, IBV_WC_SUCCESS);
		assert_memory_equal(t.h[!i].buf + 1000000, t.h[i].buf, 5000);
		assert_int_equal(fake_pvm.calls, 0);
		hosts_down(&t);
	}
}

static struct hosts *pair;

/* A thread is in the call, and another one runs: what was asked for comes again, and would go by pointers. */
static void while_it_is_written(enum pvm_fate fate)
{
	if (fate != PVM_STUCK)
		return;
	map(pair, 0);
	for (unsigned i = 0; i < 5; i++)
		hosts_advance(pair, NS_PER_MS);
	hosts_expect_none(pair, 0);
}

/*
 * What a READ fetched is being written to memory behind a process, by a thread that does not come back: the READ ends
 * when it has, and the program finds no old bytes afterwards.
 */
static void fetched_and_stuck(void **state)
{
	static const uint8_t ops[] = { FF_OP_READ, FF_OP_FETCH_ADD };
	struct hosts t;

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(ops); i++) {
		up(&t);
		behind_a_process(&t, 0);
		pair = &t;
		fake_pvm.meanwhile = while_it_is_written;
		fake_pvm.next = PVM_STUCK;
		hosts_rdma(&t, ops[i], 1, 1000000, 0, i ? 8 : LEN);
		hosts_run(&t);
		assert_int_equal(t.h[0].mr->num_runs, 1);
		hosts_advance(&t, 2 * NS_PER_MS);
		hosts_expect(&t, 0, 1, IBV_WC_SUCCESS);
		if (!i)
			assert_memory_equal(t.h[0].buf + 1000000, t.h[1].buf, LEN);
		assert_int_equal(fake_pvm.calls, 0);
		hosts_down(&t);
	}
}

/* Or it ends, when the memory turns out not to be there. */
static bool nothing_is_there(uint64_t va, uint32_t len)
{
	(void)va, (void)len;
	return false;
}

static void fetched_to_nowhere(void **state)
{
	struct hosts *t = *state;

	behind_a_process(t, 0);
	fake_pvm.next = PVM_AGAIN;
	fake_pvm.reaches = nothing_is_there;
	hosts_rdma(t, FF_OP_READ, 1, 1000000, 0, LEN);
	hosts_run(t);
	hosts_expect_none(t, 0);
	hosts_advance(t, 2 * NS_PER_MS);
	hosts_expect_none(t, 0);
	worker_ends(t, 0);
	hosts_advance(t, 2 * NS_PER_MS);
	hosts_expect(t, 0, 1, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(fake_pvm.calls, 0);
}

static bool one_is_all(void)
{
	return fake_pvm.calls > 0;
}

static void connect_to(struct hosts *t, int i, struct rig_qp *q, const struct rig_qp *to)
{
	q->qp.attr = t->h[i].qp->qp.attr;
	q->qp.attr.dest_qp_num = to->qp.qp_num;
	rig_connect(&t->h[i].r, q, NULL);
}

/* Who waited for a buffer and is called takes one, however many wait. */
static void called(void **state)
{
	struct hosts *t = *state;
	struct rig_qp *q[2][4];

	behind_a_process(t, 0);
	for (unsigned k = 0; k < 4; k++)
		for (int i = 0; i < 2; i++)
			q[i][k] = k ? rig_qp(&t->h[i].r, t->h[i].s, IBV_QPT_RC, t->h[i].cq,
					     t->h[i].cq, NULL) :
				      t->h[i].qp;
	for (unsigned k = 1; k < 4; k++) {
		connect_to(t, 0, q[0][k], q[1][k]);
		connect_to(t, 1, q[1][k], q[0][k]);
	}
	fake_pvm.full = one_is_all;
	for (unsigned k = 0; k < 4; k++) {
		t->h[0].qp = q[0][k];
		hosts_rdma(t, FF_OP_WRITE, k, 0, 1000000 + k * LEN, LEN);
	}
	hosts_run(t);
	for (unsigned k = 0; k < 4; k++) {
		assert_memory_equal(t->h[1].buf + 1000000 + k * LEN, t->h[0].buf, LEN);
		assert_int_equal(q[0][k]->qp.in_flight, 0);
	}
	assert_int_equal(fake_pvm.calls, 0);
	for (unsigned k = 1; k < 4; k++)
		for (int i = 0; i < 2; i++)
			rig_qp_free(&t->h[i].r, q[i][k]);
	t->h[0].qp = q[0][0];
}

int main(void)
{
	return UNIT_RUN(OUT_TEST(mapped_meanwhile), OUT_TEST(job_mapped_meanwhile),
			OUT_TEST(without_a_receive), OUT_TEST(without_a_connection),
			OUT_TEST(called), cmocka_unit_test(news_of_the_peer),
			cmocka_unit_test(fetched_and_stuck), OUT_TEST(fetched_to_nowhere));
}
