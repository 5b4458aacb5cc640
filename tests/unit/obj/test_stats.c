/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/soft_pair.c tests/rig/unit/rig.c */
/*
 * test_stats.c - what is counted where: buckets of times, counters of QPs, sessions and containers,
 * depths of queues.
 */
#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/soft_pair.h"

static void buckets_are_an_eighth_wide(void **state)
{
	(void)state;
	assert_int_equal(lat_index(0), 0);
	assert_int_equal(lat_index(63), 0);
	assert_int_equal(lat_index(64), 1);
	assert_int_equal(lat_index(71), 1);
	assert_int_equal(lat_index(72), 2);
	assert_int_equal(lat_index((1ull << 34) - 1), LAT_BUCKETS - 2);
	assert_int_equal(lat_index(1ull << 34), LAT_BUCKETS - 1);
	assert_int_equal(lat_index(UINT64_MAX), LAT_BUCKETS - 1);
	for (uint32_t i = 0; i < LAT_BUCKETS - 1; i++) {
		assert_int_equal(lat_index(lat_bound(i) - 1), i);
		assert_int_equal(lat_index(lat_bound(i)), i + 1);
		assert_true(i == 0 || lat_bound(i) * 8 <= lat_bound(i - 1) * 9);
	}
}

static uint64_t counted(const struct lat *h)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < LAT_BUCKETS; i++)
		n += h->count[i];
	return n;
}

/* One turn, and the clock goes on by ns. */
static uint32_t turn(struct pair *p, uint64_t ns)
{
	uint32_t work = fast_turn(p->r.f);

	p->r.f->now += ns;
	return work;
}

static void what_a_turn_does_ends_with_it(void **state)
{
	struct lat *h;
	struct pair p;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	h = p.qp[0]->qp.lat.hist;
	for (uint64_t i = 0; i < 5; i++)
		pair_rdma(&p, FF_OP_WRITE, i, 0, 0, 8);
	turn(&p, 1000);
	assert_int_equal(counted(h), 0); /* how long it was is not known yet */
	turn(&p, 1000);
	assert_int_equal(h->count[lat_index(1000)], 5);
	assert_int_equal(counted(h), 5);
	assert_int_equal(h->sum, 5000);
	assert_int_equal(h->max, 1000);
	assert_int_equal(counted(p.qp[1]->qp.lat.hist), 0);
	pair_down(&p);
}

static void long_ones_begin_with_their_first_turn(void **state)
{
	struct lat *h;
	struct pair p;
	int turns = 0;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	h = p.qp[0]->qp.lat.hist;
	p.r.f->conf.quantum = 65536;
	pair_rdma(&p, FF_OP_WRITE, 1, 0, 0, 4 * 65536);
	for (; !counted(h) && turns < 100; turns++)
		turn(&p, 10000);
	assert_in_range(turns, 4, 99);
	assert_int_equal(h->max, (turns - 1) * 10000);
	assert_int_equal(counted(h), 1);
	pair_down(&p);
}

static void waiting_for_a_receive_is_time(void **state)
{
	struct lat *h;
	struct pair p;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	h = p.qp[0]->qp.lat.hist;
	pair_send(&p, 1, 8);
	rig_run(&p.r);
	rig_advance(&p.r, 5000);
	rig_recv(&p.r, p.qp[1], 9, p.mr[1], pair_at(&p, 1, 0), 8);
	rig_run(&p.r);
	pair_expect(p.cq[0], 1, IBV_WC_SUCCESS);
	turn(&p, 0);
	assert_int_equal(counted(h), 1);
	assert_int_equal(h->max, 5000);
	pair_down(&p);
}

static void failures_have_a_status_and_no_time(void **state)
{
	const struct ff_stats *st;
	struct pair p;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	st = &p.qp[0]->qp.stats;
	pair_rdma(&p, FF_OP_WRITE, 1, 0, 0, 8);
	pair_rdma(&p, FF_OP_WRITE, 2, 0, PAIR_BUF, 8); /* behind the end */
	pair_rdma(&p, FF_OP_WRITE, 3, 0, 0, 8);
	rig_run(&p.r);
	rig_advance(&p.r, 100);
	assert_int_equal(st->status[IBV_WC_REM_ACCESS_ERR], 1);
	assert_int_equal(st->status[IBV_WC_WR_FLUSH_ERR], 1);
	assert_int_equal(stats_status(st, IBV_WC_SUCCESS), 1);
	assert_int_equal(st->errors, 1);
	assert_int_equal(st->flushes, 1);
	assert_int_equal(counted(p.qp[0]->qp.lat.hist), 1);
	pair_down(&p);
}

static void a_container_keeps_what_its_qps_did(void **state)
{
	struct ff_stats st = { 0 }, after = { 0 };
	struct lat lat = { 0 };
	struct container *c;
	struct pair p;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	c = &p.r.cont[0];
	for (uint64_t i = 0; i < 3; i++)
		pair_rdma(&p, FF_OP_WRITE, i, 0, 0, 100);
	rig_run(&p.r);
	stats_of_container(c, &st, NULL);
	assert_int_equal(st.write_ops, 3);
	assert_int_equal(st.tx_bytes, 300);
	assert_int_equal(p.s[0]->s.stats.write_ops, 0);
	rig_qp_free(&p.r, p.qp[0]);
	p.qp[0] = NULL;
	stats_of_container(c, &after, &lat);
	assert_memory_equal(&after, &st, sizeof(st));
	assert_int_equal(counted(&lat), 3);
	assert_int_equal(stats_of_session(&p.s[0]->s).write_ops, 3);
	assert_int_equal(stats_of_session(&p.s[1]->s).rx_bytes, 300);
	pair_down(&p);
}

static void basic_counts_no_times(void **state)
{
	struct rig_qp *qp;
	struct pair p;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	p.r.f->conf.latency = false;
	qp = rig_qp(&p.r, p.s[0], IBV_QPT_RC, p.cq[0], p.cq[0], NULL);
	assert_null(qp->qp.lat.hist);
	rig_connect(&p.r, qp, p.qp[1]);
	rig_connect(&p.r, p.qp[1], qp);
	rig_sqe(qp, FF_OP_WRITE, 7)->rkey = p.mr[1]->rkey;
	rig_post(&p.r, qp);
	rig_run(&p.r);
	pair_expect(p.cq[0], 7, IBV_WC_SUCCESS);
	assert_int_equal(qp->qp.stats.write_ops, 1);
	rig_qp_free(&p.r, qp);
	pair_down(&p);
}

static void depths_are_what_is_posted_and_not_polled(void **state)
{
	struct ff_depths d;
	struct pair p;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	for (uint64_t i = 0; i < 5; i++)
		rig_recv(&p.r, p.qp[1], i, p.mr[1], pair_at(&p, 1, 0), 8);
	stats_depths(&p.qp[1]->qp, &d);
	assert_int_equal(d.rq, 5);
	assert_int_equal(d.sq, 0);
	for (uint64_t i = 0; i < 7; i++)
		pair_send(&p, i, 8);
	stats_depths(&p.qp[0]->qp, &d);
	assert_int_equal(d.sq, 7);
	rig_run(&p.r); /* the sixth waits for a receive */
	stats_depths(&p.qp[0]->qp, &d);
	assert_int_equal(d.sq, 2);
	assert_int_equal(d.cq, 5);
	stats_depths(&p.qp[1]->qp, &d);
	assert_int_equal(d.rq, 0);
	assert_int_equal(d.cq, 5);
	pair_down(&p);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(buckets_are_an_eighth_wide),
			cmocka_unit_test(what_a_turn_does_ends_with_it),
			cmocka_unit_test(long_ones_begin_with_their_first_turn),
			cmocka_unit_test(waiting_for_a_receive_is_time),
			cmocka_unit_test(failures_have_a_status_and_no_time),
			cmocka_unit_test(a_container_keeps_what_its_qps_did),
			cmocka_unit_test(basic_counts_no_times),
			cmocka_unit_test(depths_are_what_is_posted_and_not_polled));
}
