/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/two_hosts.c tests/rig/unit/others.c tests/rig/unit/rig.c tests/rig/fakes/fake_pvm.c */
/*
 * test_stalled.c - memory of which no copy is made at once, as that of a container whose calls have stalled the
 * runner: what comes from another host for it is written by a worker, each time, and a message ends all the same.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/rig/fakes/fake_pvm.h"
#include "tests/rig/unit/two_hosts.h"
#include "tests/rig/unit/unit.h"

#define LEN  700001u
#define MOST 400u /* calls: the socket's pieces are at least as large as a page */

static enum pvm_fate never_at_once(void)
{
	return PVM_AGAIN;
}

/* What host i has registered is reached by a worker only. */
static void up(struct hosts *t, enum ibv_qp_type type, int i)
{
	struct host *h = &t->h[i];

	fake_pvm = (struct fake_pvm){ 0 };
	hosts_up(t, type);
	fake_pvm_calm();
	fake_pvm.fate = never_at_once;
	rig_mr_free(&h->r, h->mr);
	h->mr = rig_mr_pvm(&h->r, h->s, h->buf, HOSTS_BUF, HOSTS_ACCESS);
	for (int k = 0; k < 2; k++)
		for (size_t n = 0; n < HOSTS_BUF; n++)
			t->h[k].buf[n] = (uint8_t)(n * 31 + (n >> 8) + (size_t)k);
}

static void all_ended(struct hosts *t)
{
	hosts_expect_none(t, 0);
	hosts_expect_none(t, 1);
	assert_int_equal(fake_pvm.calls, 0);
}

static void down(struct hosts *t)
{
	all_ended(t);
	hosts_down(t);
}

/* RC; a worker writes what arrives. */
static int setup(void **state)
{
	*state = malloc(sizeof(struct hosts));
	up(*state, IBV_QPT_RC, 1);
	return 0;
}

static int teardown(void **state)
{
	all_ended(*state);
	return hosts_teardown(state);
}
#define RC_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* Workers end what they have until nobody has anything to do. */
static void work(struct hosts *t)
{
	unsigned n = 0, idle = 0;

	while (idle < 3) {
		bool any = false;

		for (int i = 0; i < 2; i++)
			while (fake_pvm_work(t->h[i].r.f, &t->h[i].s->s)) {
				any = true;
				assert_true(++n < MOST);
			}
		hosts_advance(t, 2 * NS_PER_MS);
		idle = any ? 0 : idle + 1;
	}
}

/* What was posted is carried out; that WR is the next that ends. */
static void ends(struct hosts *t, uint64_t id)
{
	hosts_run(t);
	work(t);
	hosts_expect(t, 0, id, IBV_WC_SUCCESS);
}

/* 10, 11, 12: a megabyte apart. */
static void three_receives(struct hosts *t)
{
	for (unsigned i = 0; i < 3; i++)
		hosts_recv(t, 10 + i, 1000000 * (i + 1), LEN);
}

/* Each part is written once, and nothing of it is asked for again. */
static void written(void **state)
{
	struct hosts *t = *state;

	hosts_rdma(t, FF_OP_WRITE, 1, 7, 1000000, LEN);
	hosts_rdma(t, FF_OP_WRITE, 2, 9, 2000000, 100);
	ends(t, 1);
	hosts_expect(t, 0, 2, IBV_WC_SUCCESS);
	assert_memory_equal(t->h[1].buf + 1000000, t->h[0].buf + 7, LEN);
	assert_memory_equal(t->h[1].buf + 2000000, t->h[0].buf + 9, 100);
	assert_int_equal(t->h[0].qp->qp.stats.retries, 0);
}

static void received(void **state)
{
	struct hosts *t = *state;

	three_receives(t);
	for (unsigned i = 0; i < 3; i++)
		hosts_send(t, i, i, LEN - i);
	hosts_run(t);
	work(t);
	for (unsigned i = 0; i < 3; i++) {
		hosts_expect(t, 0, i, IBV_WC_SUCCESS);
		hosts_expect(t, 1, 10 + i, IBV_WC_SUCCESS);
		assert_memory_equal(t->h[1].buf + 1000000 * (i + 1), t->h[0].buf + i, LEN - i);
	}
}

/* The connection ends while a worker writes, after some parts. */
static void cut_meanwhile(void **state)
{
	struct hosts t;

	(void)state;
	for (int sends = 0; sends < 2; sends++) {
		up(&t, IBV_QPT_RC, 1);
		hosts_recv(&t, 10, 1000000, LEN);
		if (sends)
			hosts_send(&t, 1, 0, LEN);
		else
			hosts_rdma(&t, FF_OP_WRITE, 1, 0, 1000000, LEN);
		hosts_run(&t);
		for (unsigned i = 0; i < 3; i++) {
			assert_true(fake_pvm_work(t.h[1].r.f, &t.h[1].s->s));
			hosts_run(&t);
		}
		hosts_cut(&t);
		hosts_run(&t);
		hosts_connect(&t);
		hosts_run(&t);
		work(&t);
		hosts_expect(&t, 0, 1, IBV_WC_SUCCESS);
		if (sends)
			hosts_expect(&t, 1, 10, IBV_WC_SUCCESS);
		assert_memory_equal(t.h[1].buf + 1000000, t.h[0].buf, LEN);
		down(&t);
	}
}

/* UC: a message of one part is there in the end, a larger one is lost; nobody is told. */
static void unreliable(void **state)
{
	struct hosts t;

	(void)state;
	up(&t, IBV_QPT_UC, 1);
	three_receives(&t);
	hosts_send(&t, 1, 0, 1000);
	ends(&t, 1);
	hosts_expect(&t, 1, 10, IBV_WC_SUCCESS);
	assert_memory_equal(t.h[1].buf + 1000000, t.h[0].buf, 1000);
	hosts_send(&t, 2, 0, LEN);
	ends(&t, 2);
	hosts_send(&t, 3, 5, 1000);
	hosts_run(&t);
	work(&t);
	hosts_expect(&t, 0, 3, IBV_WC_SUCCESS);
	hosts_expect(&t, 1, 11, IBV_WC_SUCCESS);
	assert_memory_equal(t.h[1].buf + 2000000, t.h[0].buf + 5, 1000);
	down(&t);
}

/* What a READ fetches goes to such memory, or comes from it. */
static void fetched(void **state)
{
	struct hosts t;

	(void)state;
	for (int i = 0; i < 2; i++) {
		up(&t, IBV_QPT_RC, i);
		hosts_rdma(&t, FF_OP_READ, 1, 1000000, 3, LEN);
		hosts_rdma(&t, FF_OP_READ, 2, 2000000, 5, LEN);
		hosts_rdma(&t, FF_OP_WRITE, 3, 9, 3000000, 100);
		hosts_run(&t);
		work(&t);
		for (unsigned k = 1; k <= 3; k++)
			hosts_expect(&t, 0, k, IBV_WC_SUCCESS);
		assert_memory_equal(t.h[0].buf + 1000000, t.h[1].buf + 3, LEN);
		assert_memory_equal(t.h[0].buf + 2000000, t.h[1].buf + 5, LEN);
		assert_memory_equal(t.h[1].buf + 3000000, t.h[0].buf + 9, 100);
		down(&t);
	}
}

static void word_fetched(void **state)
{
	uint64_t word;
	struct hosts t;

	(void)state;
	for (int i = 0; i < 2; i++) {
		up(&t, IBV_QPT_RC, i);
		memcpy(&word, t.h[1].buf + 64, sizeof(word));
		hosts_rdma(&t, FF_OP_FETCH_ADD, 1, 128, 64, 8);
		hosts_run(&t);
		work(&t);
		hosts_expect(&t, 0, 1, IBV_WC_SUCCESS);
		assert_memory_equal(t.h[0].buf + 128, &word, sizeof(word));
		down(&t);
	}
}

int main(void)
{
	return UNIT_RUN(RC_TEST(written), RC_TEST(received), cmocka_unit_test(cut_meanwhile),
			cmocka_unit_test(unreliable), cmocka_unit_test(fetched),
			cmocka_unit_test(word_fetched));
}
