/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/unit/lib/soft_pair.c tests/lib/rig.c */
/*
 * test_rate.c - limits of containers and tenants on the software device, and turns, in virtual time.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/lib/soft_pair.h"

#define SEC 1000000000ull

static struct pair p;

static int setup(void **state)
{
	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	pair_down(&p);
	return 0;
}

static void limit(int cont, const struct ffo_limits *l)
{
	fast_container_limits(&p.r.cont[cont], l);
}

/* A sender that keeps its SQ full; if `pause`, it looks at it only once in that time. */
struct load {
	struct rig_qp *qp;
	struct rig_cq *cq;
	const struct mr *from, *to;
	uint8_t op;
	uint32_t len;
	uint64_t posted, completed;
	uint64_t pause, looks; /* ns */
};

static void keep_full(struct load *l)
{
	struct ff_cqe c;

	if (p.r.f->now < l->looks)
		return;
	l->looks = p.r.f->now + l->pause;
	while (rig_poll(l->cq, &c)) {
		assert_int_equal(c.status, IBV_WC_SUCCESS);
		l->completed++;
	}
	while (l->posted - l->completed < 8) {
		struct ff_sqe *e = rig_sqe(l->qp, l->op, l->posted++);

		rig_sge(e, l->from, l->from->addr, l->len);
		e->remote_addr = l->to->addr;
		e->rkey = l->to->rkey;
		rig_post(&p.r, l->qp);
	}
}

static struct load load(uint8_t op, uint32_t len)
{
	return (struct load){ p.qp[0], p.cq[0], p.mr[0], p.mr[1], op, len, 0, 0, 0, 0 };
}

/* For so long; time goes on only while nobody has work, as if work took none. */
static void run(struct load *l, int num, uint64_t ns)
{
	struct fast *f = p.r.f;
	uint64_t end = f->now + ns;

	while (f->now < end) {
		uint64_t next;

		for (int i = 0; i < num; i++)
			keep_full(&l[i]);
		if (fast_turn(f))
			continue;
		next = timer_next(&f->timers);
		for (int i = 0; i < num; i++)
			if (l[i].looks > f->now && l[i].looks < next)
				next = l[i].looks;
		assert_true(next != UINT64_MAX); /* else nothing holds it back */
		f->now = next < end ? next : end;
	}
}

/* Bytes that were moved, also of messages that are not complete. */
static uint64_t moved(const struct load *l)
{
	const struct soft_qp *sq = l->qp->qp.soft;

	return l->completed * l->len + (l->qp->qp.busy ? sq->req.x.done : 0);
}

static void near(uint64_t value, uint64_t want, unsigned permille)
{
	assert_in_range(value, want - want * permille / 1000, want + want * permille / 1000);
}

/* ---- one limit -------------------------------------------------------------------------------- */

static const uint32_t sizes[] = { 64, 1000, 4096, 65536, 1 << 20 };
static const uint64_t rates[] = { 125000, 12500000, 1250000000, 5000000000 }; /* bytes/s */

static void bytes_hold(uint8_t op, int cont, size_t field)
{
	for (size_t r = 0; r < ARRAY_SIZE(rates); r++)
		for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
			struct ffo_limits l = { 0 };
			uint64_t ns = 2 * SEC, before;
			struct load ld;

			if (rates[r] > 100000000) /* it takes the test as long as any copy */
				ns = rates[r] / sizes[s] > 2000000 ? SEC / 100 : SEC / 20;
			setup(NULL);
			*(uint64_t *)((char *)&l + field) = rates[r];
			limit(cont, &l);
			ld = load(op, sizes[s]);
			run(&ld, 1, SEC / 100); /* what is free at first */
			before = moved(&ld);
			run(&ld, 1, ns);
			/* beside the limit, a message, or what is moved at once */
			near(moved(&ld) - before, rates[r] * (ns / 1000000) / 1000,
			     ns == 2 * SEC ? 5 : SEC / 500 / (ns / 1000));
			assert_true(p.qp[0]->qp.stats.throttled_ns > ns / 2);
			teardown(NULL);
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
	struct load ld = load(FF_OP_WRITE, 8);

	(void)state;
	limit(0, &l);
	run(&ld, 1, SEC);
	near(ld.completed, 10000, 10);
	/* the other direction is another limit */
	l = (struct ffo_limits){ .rx_ops = 500 };
	limit(0, &l);
	for (int i = 0; i < 1000; i++) {
		keep_full(&ld);
		fast_turn(p.r.f);
	}
	assert_true(ld.completed > 15000);
}

/* ---- what else -------------------------------------------------------------------------------- */

static void burst(void **state)
{
	struct ffo_limits l = { .tx_rate = 1000000, .burst = 500000 };
	struct load ld = load(FF_OP_WRITE, 10000);
	uint64_t before;

	(void)state;
	limit(0, &l);
	p.r.f->now += SEC; /* it has been idle for long */
	run(&ld, 1, 10000000);
	near(moved(&ld), 510000, 20);
	before = moved(&ld);
	run(&ld, 1, SEC);
	near(moved(&ld) - before, 1000000, 10);
}

static void changed_live(void **state)
{
	struct ffo_limits l = { .tx_rate =
					1000 }; /* a message of 1 MB takes a quarter of an hour */
	struct load ld = load(FF_OP_WRITE, 1 << 20);
	uint64_t before;

	(void)state;
	limit(0, &l);
	run(&ld, 1, SEC);
	assert_in_range(moved(&ld), 1000, 1300);
	l.tx_rate = 100 << 20;
	limit(0, &l);
	before = moved(&ld);
	run(&ld, 1, SEC);
	near(moved(&ld) - before, 100 << 20, 10);
	limit(0, &(struct ffo_limits){ 0 });
	for (int i = 0; i < 1000; i++) {
		keep_full(&ld);
		fast_turn(p.r.f);
	}
	assert_true(moved(&ld) - before > 200u << 20); /* without any time */
	assert_int_equal(p.r.f->num_throttled, 0);
}

static void tenant_in_all(void **state)
{
	struct ffo_limits l = { .rx_rate = 10000000 };
	struct load ld[2] = { load(FF_OP_WRITE, 5000), load(FF_OP_READ, 5000) };
	struct rig_cq *cq = rig_cq(&p.r, p.s[0], 64, true);
	struct rig_qp *qp = rig_qp(&p.r, p.s[0], IBV_QPT_RC, cq, cq, NULL);
	struct rig_qp *to = rig_qp(&p.r, p.s[1], IBV_QPT_RC, p.cq[1], p.cq[1], NULL);

	(void)state;
	rig_connect(&p.r, qp, to);
	rig_connect(&p.r, to, qp);
	ld[1].qp = qp;
	ld[1].cq = cq;
	/* container 0 reads, container 1 is written to: both receive, and are of one tenant */
	assert_int_equal(fast_tenant_limits(p.r.f, "t", &l), 0);
	run(ld, 2, SEC);
	near(moved(&ld[0]) + moved(&ld[1]), 10000000, 10);
	near(moved(&ld[0]), moved(&ld[1]), 20);
	assert_int_equal(fast_tenant_limits(p.r.f, "t", &(struct ffo_limits){ 0 }), 0);
	assert_false(p.r.cont[0].limited);
	/* of one that has no container here nothing is left when its limits go */
	assert_int_equal(fast_tenant_limits(p.r.f, "nobody", &l), 0);
	assert_int_equal(fast_tenant_limits(p.r.f, "nobody", &(struct ffo_limits){ 0 }), 0);
	rig_qp_free(&p.r, qp);
	rig_qp_free(&p.r, to);
	rig_cq_free(&p.r, cq);
}

/* All that waits for a limit can go, fail and be drained. */
static void ends_while_it_waits(void **state)
{
	struct ffo_limits l = { .tx_rate = 1 };
	struct load ld = load(FF_OP_WRITE, 5000);

	(void)state;
	limit(0, &l);
	run(&ld, 1, SEC);
	assert_int_equal(p.r.f->num_throttled, 1);
	rig_state(&p.r, p.qp[0], IBV_QPS_ERR);
	rig_run(&p.r);
	assert_int_equal(p.r.f->num_throttled, 0);
	for (uint64_t i = ld.completed; i < ld.posted; i++)
		pair_expect(p.cq[0], i, IBV_WC_WR_FLUSH_ERR);
	rig_qp_free(&p.r, p.qp[0]);
	p.qp[0] = NULL;
}

static void destroyed_while_it_waits(void **state)
{
	struct ffo_limits l = { .rx_rate = 1 };
	struct load ld = load(FF_OP_WRITE, 5000);

	(void)state;
	limit(1, &l); /* it waits for a meter of somebody else */
	run(&ld, 1, SEC);
	assert_int_equal(p.r.f->num_throttled, 1);
	rig_qp_free(&p.r, p.qp[0]);
	p.qp[0] = NULL;
	assert_int_equal(p.r.f->num_throttled, 0);
	rig_advance(&p.r, SEC);
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
		ld[i] = load(FF_OP_WRITE, 1000);
		ld[i].cq = rig_cq(&p.r, p.s[0], 64, true);
		ld[i].qp = rig_qp(&p.r, p.s[0], IBV_QPT_RC, ld[i].cq, ld[i].cq, NULL);
		to[i] = rig_qp(&p.r, p.s[1], IBV_QPT_RC, p.cq[1], p.cq[1], NULL);
		rig_connect(&p.r, ld[i].qp, to[i]);
		rig_connect(&p.r, to[i], ld[i].qp);
	}
	limit(0, &l);
	run(ld, N, 2 * SEC);
	for (int i = 0; i < N; i++)
		near(moved(&ld[i]), 40000000 / N, 30);
	/* those that fail, wherever they are in the line, leave their share to the others */
	for (int i = N / 2; i < N; i++)
		rig_state(&p.r, ld[i].qp, IBV_QPS_ERR);
	for (int i = 0; i < N / 2; i++)
		before += moved(&ld[i]);
	run(ld, N / 2, SEC);
	for (int i = 0; i < N / 2; i++)
		after += moved(&ld[i]);
	near(after - before, 20000000, 10);
	for (int i = 0; i < N; i++) {
		rig_qp_free(&p.r, ld[i].qp);
		rig_qp_free(&p.r, to[i]);
		rig_cq_free(&p.r, ld[i].cq);
	}
}

/* ---- turns ------------------------------------------------------------------------------------- */

/* Loads of containers 0 and 2, to container 1. */
struct two {
	struct rig_ses *s;
	struct rig_cq *cq;
	struct rig_qp *qp, *to;
	struct mr *mr;
	uint8_t *buf;
	struct load ld[2];
};

static void two_up(struct two *t, uint32_t len0, uint32_t len2)
{
	t->s = rig_session(&p.r, 2);
	t->cq = rig_cq(&p.r, t->s, 64, true);
	t->qp = rig_qp(&p.r, t->s, IBV_QPT_RC, t->cq, t->cq, NULL);
	t->to = rig_qp(&p.r, p.s[1], IBV_QPT_RC, p.cq[1], p.cq[1], NULL);
	t->buf = calloc(1, PAIR_BUF);
	t->mr = rig_mr(&p.r, t->s, t->buf, PAIR_BUF, PAIR_ACCESS);
	rig_connect(&p.r, t->qp, t->to);
	rig_connect(&p.r, t->to, t->qp);
	t->ld[0] = load(FF_OP_WRITE, len0);
	t->ld[1] = (struct load){ t->qp, t->cq, t->mr, p.mr[1], FF_OP_WRITE, len2, 0, 0, 0, 0 };
}

static void two_down(struct two *t)
{
	rig_qp_free(&p.r, t->qp);
	rig_qp_free(&p.r, t->to);
	rig_mr_free(&p.r, t->mr);
	rig_cq_free(&p.r, t->cq);
	rig_session_free(&p.r, t->s);
	free(t->buf);
}

static void turns(struct two *t, int n)
{
	while (n--) {
		keep_full(&t->ld[0]);
		keep_full(&t->ld[1]);
		fast_turn(p.r.f);
	}
}

static void small_and_large_get_the_same(void **state)
{
	struct two t;

	(void)state;
	two_up(&t, 64, 1 << 20);
	turns(&t, 200000);
	assert_true(moved(&t.ld[0]) > 10 << 20);
	near(moved(&t.ld[1]), moved(&t.ld[0]), 50);
	two_down(&t);
}

/* A turn moves a little of each container's, however many requests one has posted. */
static void nobody_waits_for_many_requests(void **state)
{
	struct two t;

	(void)state;
	two_up(&t, 65536, 8);
	turns(&t, 1); /* both are known to have work */
	for (int i = 0; i < 100; i++) {
		uint64_t large = moved(&t.ld[0]), small = t.ld[1].completed;

		turns(&t, 1);
		keep_full(&t.ld[0]);
		keep_full(&t.ld[1]);
		assert_true(moved(&t.ld[0]) - large <= 2 * 65536);
		assert_true(t.ld[1].completed > small);
	}
	two_down(&t);
}

static void weights(void **state)
{
	struct two t;

	(void)state;
	two_up(&t, 30000, 50000);
	p.r.cont[2].limits.weight = 300;
	turns(&t, 20000);
	near(moved(&t.ld[1]), 3 * moved(&t.ld[0]), 30);
	two_down(&t);
}

/* Under one limit, too. */
static void a_limit_is_shared_by_bytes(void **state)
{
	struct ffo_limits l = { .tx_rate = 10000000 };
	struct two t;

	(void)state;
	two_up(&t, 500, 1 << 20);
	assert_int_equal(fast_tenant_limits(p.r.f, "t", &l), 0);
	run(t.ld, 2, 2 * SEC);
	near(moved(&t.ld[0]) + moved(&t.ld[1]), 20000000, 10);
	near(moved(&t.ld[0]), moved(&t.ld[1]), 30);
	assert_int_equal(fast_tenant_limits(p.r.f, "t", &(struct ffo_limits){ 0 }), 0);
	two_down(&t);
}

/* Whoever wants its part posts a little at a time, and is found without work in between. */
static void a_limit_is_kept_for_who_posts_little(void **state)
{
	static const struct ffo_limits none;
	struct ffo_limits l = { .tx_rate = 10000000 };
	uint64_t before[2];
	struct two t;

	(void)state;
	for (uint32_t weight = 50; weight <= 200; weight += 50) {
		two_up(&t, 1 << 20, 125);
		p.r.cont[2].limits.weight = weight;
		t.ld[1].pause = 50000; /* 8 messages: up to 20 MB/s */
		assert_int_equal(fast_tenant_limits(p.r.f, "t", &l), 0);
		run(t.ld, 2, 2 * SEC);
		near(moved(&t.ld[0]) + moved(&t.ld[1]), 20000000, 10);
		near(moved(&t.ld[0]) * weight, moved(&t.ld[1]) * 100, 50);
		/* who wants less gets that, and the other one the rest */
		t.ld[1].pause = 1000000; /* 1 MB/s */
		run(t.ld, 2, SEC / 10);
		before[0] = moved(&t.ld[0]);
		before[1] = moved(&t.ld[1]);
		run(t.ld, 2, 2 * SEC);
		near(moved(&t.ld[1]) - before[1], 2000000, 10);
		near(moved(&t.ld[0]) - before[0], 18000000, 10);
		/* and all, when there is nobody else */
		t.ld[1].pause = 100 * SEC;
		keep_full(&t.ld[1]);
		before[0] = moved(&t.ld[0]);
		run(t.ld, 1, SEC);
		near(moved(&t.ld[0]) - before[0], 10000000, 10);
		assert_int_equal(fast_tenant_limits(p.r.f, "t", &none), 0);
		p.r.cont[2].limits.weight = 0;
		two_down(&t);
		teardown(NULL);
		setup(NULL);
	}
}

/* The same for a limit of requests. */
static void requests_are_kept_too(void **state)
{
	static const struct ffo_limits none;
	struct ffo_limits l = { .tx_ops = 100000 };
	struct two t;

	(void)state;
	two_up(&t, 4096, 8);
	t.ld[1].pause = 100000; /* up to 80,000 1/s */
	assert_int_equal(fast_tenant_limits(p.r.f, "t", &l), 0);
	run(t.ld, 2, 2 * SEC);
	near(t.ld[0].completed + t.ld[1].completed, 200000, 10);
	near(t.ld[0].completed, t.ld[1].completed, 50);
	assert_int_equal(fast_tenant_limits(p.r.f, "t", &none), 0);
	two_down(&t);
}

/* What a runner that did not run owes, to one that had work; not to one that was idle. */
static void late_runner(void **state)
{
	struct ffo_limits l = { .tx_rate = 10000000 };
	struct load ld = load(FF_OP_WRITE, 5000);
	uint64_t before;

	(void)state;
	limit(0, &l);
	run(&ld, 1, SEC);
	before = moved(&ld);
	p.r.f->now += 50000000; /* its timer is late */
	run(&ld, 1, 950000000);
	near(moved(&ld) - before, 10000000, 10);
	while (ld.posted != ld.completed) { /* then it has nothing to do for a second */
		struct ff_cqe c;

		p.r.f->now += 1000000;
		fast_turn(p.r.f);
		while (rig_poll(ld.cq, &c))
			ld.completed++;
	}
	p.r.f->now += SEC;
	p.r.f->stolen += 50000000; /* somebody else's loss */
	before = moved(&ld);
	run(&ld, 1, 10000000);
	near(moved(&ld) - before, 150000, 100); /* the burst of 4 ms, the time, the slack */
}

/* What is alone gets all there is, at once. */
static void nothing_is_kept_back(void **state)
{
	struct two t;

	(void)state;
	two_up(&t, 1 << 20, 1 << 20);
	turns(&t, 100);
	for (int i = 0; i < 1000; i++) {
		keep_full(&t.ld[0]);
		assert_true(fast_turn(p.r.f));
	}
	/* steps of 64 KB, but for those that the other had first, and those that began a round */
	assert_true(moved(&t.ld[0]) > 40u << 20);
	two_down(&t);
}

static void latency_comes_first(void **state)
{
	struct two t;
	uint64_t large;

	(void)state;
	two_up(&t, 1 << 20, 8);
	p.r.cont[2].limits.latency = 1;
	turns(&t, 100);
	for (int i = 0; i < 100;
	     i++) { /* whatever it has posted is done within a step of the other */
		keep_full(&t.ld[1]);
		large = moved(&t.ld[0]);
		fast_turn(p.r.f);
		keep_full(&t.ld[0]);
		assert_true(t.ld[1].posted - t.ld[1].completed <= 8);
		assert_true(moved(&t.ld[0]) - large <= 64 << 10);
	}
	near(t.ld[1].completed, 1600, 50);
	two_down(&t);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sending),
		cmocka_unit_test(receiving),
		cmocka_unit_test(reading),
		cmocka_unit_test(serving),
		TEST(requests),
		TEST(burst),
		TEST(changed_live),
		TEST(tenant_in_all),
		TEST(ends_while_it_waits),
		TEST(destroyed_while_it_waits),
		TEST(qps_share_a_limit),
		TEST(small_and_large_get_the_same),
		TEST(nobody_waits_for_many_requests),
		TEST(weights),
		TEST(a_limit_is_shared_by_bytes),
		TEST(a_limit_is_kept_for_who_posts_little),
		TEST(requests_are_kept_too),
		TEST(late_runner),
		TEST(nothing_is_kept_back),
		TEST(latency_comes_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
