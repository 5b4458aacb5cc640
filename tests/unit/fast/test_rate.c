/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/load_pair.c tests/rig/unit/soft_pair.c tests/rig/unit/rig.c */
/*
 * test_rate.c - limits of containers and tenants on the software device, in virtual time.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/rig/unit/load_pair.h"
#include "tests/rig/unit/unit.h"

static void limit(int cont, const struct ffo_limits *l)
{
	fast_container_limits(&load_pair.r.cont[cont], l);
}

/* ---- one limit -------------------------------------------------------------------------------- */

static const uint32_t sizes[] = { 64, 1000, 4096, 65536, 1 << 20 };
static const uint64_t rates[] = { 125000, 12500000, 1250000000, 5000000000 }; /* bytes/s */

static void bytes_hold(uint8_t op, int cont, size_t field)
{
	for (size_t r = 0; r < ARRAY_SIZE(rates); r++)
		for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
			struct ffo_limits l = { 0 };
			uint64_t ns = 2 * LOAD_SEC, before;
			struct load ld;

			if (rates[r] > 100000000) /* it takes the test as long as any copy */
				ns = rates[r] / sizes[s] > 2000000 ? LOAD_SEC / 100 : LOAD_SEC / 20;
			load_setup(NULL);
			*(uint64_t *)((char *)&l + field) = rates[r];
			limit(cont, &l);
			ld = load_of(op, sizes[s]);
			load_run(&ld, 1, LOAD_SEC / 100); /* what is free at first */
			before = load_moved(&ld);
			load_run(&ld, 1, ns);
			/* beside the limit, a message, or what is moved at once */
			load_near(load_moved(&ld) - before, rates[r] * (ns / 1000000) / 1000,
				  ns == 2 * LOAD_SEC ? 5 : LOAD_SEC / 500 / (ns / 1000));
			assert_true(load_pair.qp[0]->qp.stats.throttled_ns > ns / 2);
			load_teardown(NULL);
		}
}

static void sending(void **state)
{
	(void)state;
	bytes_hold(FF_OP_WRITE, 0, offsetof(struct ffo_limits, tx_rate));
}

static void receiving(void **state)
{
	(void)state;
	bytes_hold(FF_OP_WRITE, 1, offsetof(struct ffo_limits, rx_rate));
}

static void reading(void **state)
{
	(void)state;
	bytes_hold(FF_OP_READ, 0, offsetof(struct ffo_limits, rx_rate));
}

static void serving(void **state)
{
	(void)state;
	bytes_hold(FF_OP_READ, 1, offsetof(struct ffo_limits, serve_rate));
}

static void requests(void **state)
{
	struct ffo_limits l = { .tx_ops = 10000 };
	struct load ld = load_of(FF_OP_WRITE, 8);

	(void)state;
	limit(0, &l);
	load_run(&ld, 1, LOAD_SEC);
	load_near(ld.completed, 10000, 10);
	/* the other direction is another limit */
	l = (struct ffo_limits){ .rx_ops = 500 };
	limit(0, &l);
	for (int i = 0; i < 1000; i++) {
		load_keep_full(&ld);
		fast_turn(load_pair.r.f);
	}
	assert_true(ld.completed > 15000);
}

/* ---- what else -------------------------------------------------------------------------------- */

static void burst(void **state)
{
	struct ffo_limits l = { .tx_rate = 1000000, .burst = 500000 };
	struct load ld = load_of(FF_OP_WRITE, 10000);
	uint64_t before;

	(void)state;
	limit(0, &l);
	load_pair.r.f->now += LOAD_SEC; /* it has been idle for long */
	load_run(&ld, 1, 10000000);
	load_near(load_moved(&ld), 510000, 20);
	before = load_moved(&ld);
	load_run(&ld, 1, LOAD_SEC);
	load_near(load_moved(&ld) - before, 1000000, 10);
}

/* The highest rates are not rounded, and the longest bursts not cut: asked and charged as for any request. */
static void ends_of_the_range(void **state)
{
	struct rig *r = &load_pair.r;
	struct rate_path path = { .own = &r->cont[0], .dir = RATE_TX };
	struct ffo_limits l = { .tx_rate = 1000000000000 };
	uint64_t sum = 0, want;

	(void)state;
	limit(0, &l);
	for (int i = 0; i < 10000; i++, r->f->now += 1000000) {
		want = UINT64_MAX;
		if (rate_ask(r->f, &path, NULL, &want))
			continue;
		rate_charge(r->f, &path, NULL, want, 1);
		sum += want;
	}
	assert_in_range(sum, 9999000000000, 10001000000000); /* 10 s, and what it may be ahead */
	/* a burst that takes longer than there are ns in 64 bits: 584 years */
	limit(0, &(struct ffo_limits){ 0 });
	l = (struct ffo_limits){ .tx_rate = 1, .burst = 18446744074 };
	limit(0, &l);
	r->f->now += 1000 * LOAD_SEC;
	want = UINT64_MAX;
	assert_null(rate_ask(r->f, &path, NULL, &want));
	assert_int_equal(want, 1000);
}

static void changed_live(void **state)
{
	struct ffo_limits l = { .tx_rate =
					1000 }; /* a message of 1 MB takes a quarter of an hour */
	struct load ld = load_of(FF_OP_WRITE, 1 << 20);
	uint64_t before;

	(void)state;
	limit(0, &l);
	load_run(&ld, 1, LOAD_SEC);
	assert_in_range(load_moved(&ld), 1000, 1300);
	l.tx_rate = 100 << 20;
	limit(0, &l);
	before = load_moved(&ld);
	load_run(&ld, 1, LOAD_SEC);
	load_near(load_moved(&ld) - before, 100 << 20, 10);
	limit(0, &(struct ffo_limits){ 0 });
	for (int i = 0; i < 1000; i++) {
		load_keep_full(&ld);
		fast_turn(load_pair.r.f);
	}
	assert_true(load_moved(&ld) - before > 200u << 20); /* without any time */
	assert_int_equal(load_pair.r.f->num_throttled, 0);
}

static void tenant_in_all(void **state)
{
	struct ffo_limits l = { .rx_rate = 10000000 };
	struct load ld[2] = { load_of(FF_OP_WRITE, 5000), load_of(FF_OP_READ, 5000) };
	struct rig_cq *cq = rig_cq(&load_pair.r, load_pair.s[0], 64, true);
	struct rig_qp *qp = rig_qp(&load_pair.r, load_pair.s[0], IBV_QPT_RC, cq, cq, NULL);
	struct rig_qp *to = rig_qp(&load_pair.r, load_pair.s[1], IBV_QPT_RC, load_pair.cq[1],
				   load_pair.cq[1], NULL);

	(void)state;
	rig_connect(&load_pair.r, qp, to);
	rig_connect(&load_pair.r, to, qp);
	ld[1].qp = qp;
	ld[1].cq = cq;
	/* container 0 reads, container 1 is written to: both receive, and are of one tenant */
	assert_int_equal(fast_tenant_limits(load_pair.r.f->host, "t", &l), 0);
	load_run(ld, 2, LOAD_SEC);
	load_near(load_moved(&ld[0]) + load_moved(&ld[1]), 10000000, 10);
	load_near(load_moved(&ld[0]), load_moved(&ld[1]), 20);
	assert_int_equal(fast_tenant_limits(load_pair.r.f->host, "t", &(struct ffo_limits){ 0 }),
			 0);
	assert_false(load_pair.r.cont[0].limited);
	/* of one that has no container here nothing is left when its limits go */
	assert_int_equal(fast_tenant_limits(load_pair.r.f->host, "nobody", &l), 0);
	assert_int_equal(
		fast_tenant_limits(load_pair.r.f->host, "nobody", &(struct ffo_limits){ 0 }), 0);
	rig_qp_free(&load_pair.r, qp);
	rig_qp_free(&load_pair.r, to);
	rig_cq_free(&load_pair.r, cq);
}

/* All that waits for a limit can go, fail and be drained. */
static void ends_while_it_waits(void **state)
{
	struct ffo_limits l = { .tx_rate = 1 };
	struct load ld = load_of(FF_OP_WRITE, 5000);

	(void)state;
	limit(0, &l);
	load_run(&ld, 1, LOAD_SEC);
	assert_int_equal(load_pair.r.f->num_throttled, 1);
	rig_state(&load_pair.r, load_pair.qp[0], IBV_QPS_ERR);
	rig_run(&load_pair.r);
	assert_int_equal(load_pair.r.f->num_throttled, 0);
	for (uint64_t i = ld.completed; i < ld.posted; i++)
		pair_expect(load_pair.cq[0], i, IBV_WC_WR_FLUSH_ERR);
	rig_qp_free(&load_pair.r, load_pair.qp[0]);
	load_pair.qp[0] = NULL;
}

static void destroyed_while_it_waits(void **state)
{
	struct ffo_limits l = { .rx_rate = 1 };
	struct load ld = load_of(FF_OP_WRITE, 5000);

	(void)state;
	limit(1, &l); /* it waits for a meter of somebody else */
	load_run(&ld, 1, LOAD_SEC);
	assert_int_equal(load_pair.r.f->num_throttled, 1);
	rig_qp_free(&load_pair.r, load_pair.qp[0]);
	load_pair.qp[0] = NULL;
	assert_int_equal(load_pair.r.f->num_throttled, 0);
	rig_advance(&load_pair.r, LOAD_SEC);
}

/* QPs of one container get the same, whatever they wait for meanwhile. */
static void qps_share_a_limit(void **state)
{
	enum { N = 40 };
	struct ffo_limits l = { .tx_rate = 20000000 };
	uint64_t before = 0, after = 0;
	struct rig_qp *to[N];
	struct load ld[N];

	(void)state;
	for (int i = 0; i < N; i++) {
		ld[i] = load_of(FF_OP_WRITE, 1000);
		ld[i].cq = rig_cq(&load_pair.r, load_pair.s[0], 64, true);
		ld[i].qp =
			rig_qp(&load_pair.r, load_pair.s[0], IBV_QPT_RC, ld[i].cq, ld[i].cq, NULL);
		to[i] = rig_qp(&load_pair.r, load_pair.s[1], IBV_QPT_RC, load_pair.cq[1],
			       load_pair.cq[1], NULL);
		rig_connect(&load_pair.r, ld[i].qp, to[i]);
		rig_connect(&load_pair.r, to[i], ld[i].qp);
	}
	limit(0, &l);
	load_run(ld, N, 2 * LOAD_SEC);
	for (int i = 0; i < N; i++)
		load_near(load_moved(&ld[i]), 40000000 / N, 30);
	/* those that fail, wherever they are in the line, leave their share to the others */
	for (int i = N / 2; i < N; i++)
		rig_state(&load_pair.r, ld[i].qp, IBV_QPS_ERR);
	for (int i = 0; i < N / 2; i++)
		before += load_moved(&ld[i]);
	load_run(ld, N / 2, LOAD_SEC);
	for (int i = 0; i < N / 2; i++)
		after += load_moved(&ld[i]);
	load_near(after - before, 20000000, 10);
	for (int i = 0; i < N; i++) {
		rig_qp_free(&load_pair.r, ld[i].qp);
		rig_qp_free(&load_pair.r, to[i]);
		rig_cq_free(&load_pair.r, ld[i].cq);
	}
}

/* ---- loads of two containers under one limit ----------------------------------------------- */

/* Under one limit, too. */
static void a_limit_is_shared_by_bytes(void **state)
{
	struct ffo_limits l = { .tx_rate = 10000000 };
	struct load_two t;

	(void)state;
	load_two_up(&t, 500, 1 << 20);
	assert_int_equal(fast_tenant_limits(load_pair.r.f->host, "t", &l), 0);
	load_run(t.ld, 2, 2 * LOAD_SEC);
	load_near(load_moved(&t.ld[0]) + load_moved(&t.ld[1]), 20000000, 10);
	load_near(load_moved(&t.ld[0]), load_moved(&t.ld[1]), 30);
	assert_int_equal(fast_tenant_limits(load_pair.r.f->host, "t", &(struct ffo_limits){ 0 }),
			 0);
	load_two_down(&t);
}

/* Whoever wants its part posts a little at a time, and is found without work in between. */
static void a_limit_is_kept_for_who_posts_little(void **state)
{
	static const struct ffo_limits none;
	struct ffo_limits l = { .tx_rate = 10000000 };
	uint64_t before[2];
	struct load_two t;

	(void)state;
	for (uint32_t weight = 50; weight <= 200; weight += 50) {
		load_two_up(&t, 1 << 20, 125);
		load_pair.r.cont[2].limits.weight = weight;
		t.ld[1].pause = 50000; /* 8 messages: up to 20 MB/s */
		assert_int_equal(fast_tenant_limits(load_pair.r.f->host, "t", &l), 0);
		load_run(t.ld, 2, 2 * LOAD_SEC);
		load_near(load_moved(&t.ld[0]) + load_moved(&t.ld[1]), 20000000, 10);
		load_near(load_moved(&t.ld[0]) * weight, load_moved(&t.ld[1]) * 100, 50);
		/* who wants less gets that, and the other one the rest */
		t.ld[1].pause = 1000000; /* 1 MB/s */
		load_run(t.ld, 2, LOAD_SEC / 10);
		before[0] = load_moved(&t.ld[0]);
		before[1] = load_moved(&t.ld[1]);
		load_run(t.ld, 2, 2 * LOAD_SEC);
		load_near(load_moved(&t.ld[1]) - before[1], 2000000, 10);
		load_near(load_moved(&t.ld[0]) - before[0], 18000000, 10);
		/* and all, when there is nobody else */
		t.ld[1].pause = 100 * LOAD_SEC;
		load_keep_full(&t.ld[1]);
		before[0] = load_moved(&t.ld[0]);
		load_run(t.ld, 1, LOAD_SEC);
		load_near(load_moved(&t.ld[0]) - before[0], 10000000, 10);
		assert_int_equal(fast_tenant_limits(load_pair.r.f->host, "t", &none), 0);
		load_pair.r.cont[2].limits.weight = 0;
		load_two_down(&t);
		load_teardown(NULL);
		load_setup(NULL);
	}
}

/* The same for a limit of requests. */
static void requests_are_kept_too(void **state)
{
	static const struct ffo_limits none;
	struct ffo_limits l = { .tx_ops = 100000 };
	struct load_two t;

	(void)state;
	load_two_up(&t, 4096, 8);
	t.ld[1].pause = 100000; /* up to 80,000 1/s */
	assert_int_equal(fast_tenant_limits(load_pair.r.f->host, "t", &l), 0);
	load_run(t.ld, 2, 2 * LOAD_SEC);
	load_near(t.ld[0].completed + t.ld[1].completed, 200000, 10);
	load_near(t.ld[0].completed, t.ld[1].completed, 50);
	assert_int_equal(fast_tenant_limits(load_pair.r.f->host, "t", &none), 0);
	load_two_down(&t);
}

/* What a runner that did not run owes, to one that had work; not to one that was idle. */
static void late_runner(void **state)
{
	struct ffo_limits l = { .tx_rate = 10000000 };
	struct load ld = load_of(FF_OP_WRITE, 5000);
	uint64_t before;

	(void)state;
	limit(0, &l);
	load_run(&ld, 1, LOAD_SEC);
	before = load_moved(&ld);
	load_pair.r.f->now += 50000000; /* its timer is late */
	load_run(&ld, 1, 950000000);
	load_near(load_moved(&ld) - before, 10000000, 10);
	while (ld.posted != ld.completed) { /* then it has nothing to do for a second */
		struct ff_cqe c;

		load_pair.r.f->now += 1000000;
		fast_turn(load_pair.r.f);
		while (rig_poll(ld.cq, &c))
			ld.completed++;
	}
	load_pair.r.f->now += LOAD_SEC;
	load_pair.r.f->stolen += 50000000; /* somebody else's loss */
	before = load_moved(&ld);
	load_run(&ld, 1, 10000000);
	load_near(load_moved(&ld) - before, 150000,
		  100); /* the burst of 4 ms, the time, the slack */
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(sending), cmocka_unit_test(receiving),
			cmocka_unit_test(reading), cmocka_unit_test(serving), LOAD_TEST(requests),
			LOAD_TEST(burst), LOAD_TEST(ends_of_the_range), LOAD_TEST(changed_live),
			LOAD_TEST(tenant_in_all), LOAD_TEST(ends_while_it_waits),
			LOAD_TEST(destroyed_while_it_waits), LOAD_TEST(qps_share_a_limit),
			LOAD_TEST(a_limit_is_shared_by_bytes),
			LOAD_TEST(a_limit_is_kept_for_who_posts_little),
			LOAD_TEST(requests_are_kept_too), LOAD_TEST(late_runner));
}
