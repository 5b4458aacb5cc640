/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/two_hosts.c tests/rig/unit/others.c tests/rig/unit/rig.c */
/*
 * test_rate.c - limits of containers whose peers are on another host: each host holds its own. On
 * virtual time, over a real stream.
 */
#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/two_hosts.h"

#define SEC  1000000000ull
#define RATE 12500000ull /* bytes/s: 100 Mbit/s */

struct load {
	struct hosts t;
	uint8_t op;
	uint32_t len;
	uint64_t posted, completed;
};

static void up(struct load *l, enum ibv_qp_type type, uint8_t op, uint32_t len)
{
	hosts_up(&l->t, type);
	l->op = op;
	l->len = len;
	l->posted = l->completed = 0;
}

static void limit(struct load *l, int host, const struct ffo_limits *to)
{
	fast_container_limits(&l->t.h[host].r.cont[0], to);
}

static void keep_full(struct load *l)
{
	struct ff_cqe c;

	while (rig_poll(l->t.h[0].cq, &c)) {
		assert_int_equal(c.status, IBV_WC_SUCCESS);
		l->completed++;
	}
	while (l->posted - l->completed < 8) {
		if (l->op == FF_OP_SEND) {
			hosts_recv(&l->t, l->posted, 0, l->len);
			hosts_send(&l->t, l->posted++, 0, l->len);
		} else {
			hosts_rdma(&l->t, l->op, l->posted++, 0, 0, l->len);
		}
	}
	while (rig_poll(l->t.h[1].cq, &c))
		assert_int_equal(c.status, IBV_WC_SUCCESS);
}

/* Time goes on while nobody has work. */
static void run(struct load *l, uint64_t ns)
{
	struct fast *f[2] = { l->t.h[0].r.f, l->t.h[1].r.f };
	uint64_t end = f[0]->now + ns;

	while (f[0]->now < end) {
		uint64_t next = end;

		keep_full(l);
		if (hosts_turn(&l->t))
			continue;
		for (int i = 0; i < 2; i++)
			if (timer_next(&f[i]->timers) < next)
				next = timer_next(&f[i]->timers);
		assert_true(next > f[0]->now);
		for (int i = 0; i < 2; i++)
			f[i]->now = next;
	}
}

static void holds(enum ibv_qp_type type, uint8_t op, uint32_t len, int host, size_t field)
{
	struct ffo_limits to = { 0 };
	struct load l;
	uint64_t before;

	up(&l, type, op, len);
	*(uint64_t *)((char *)&to + field) = RATE;
	limit(&l, host, &to);
	run(&l, SEC / 10); /* what is free at first */
	before = l.completed;
	run(&l, 2 * SEC);
	/* a message more or less at each end */
	assert_in_range((l.completed - before) * len, 2 * RATE - RATE / 50 - len,
			2 * RATE + RATE / 50 + len);
	assert_true(l.t.h[host].qp->qp.stats.throttled_ns > SEC);
	/* and when it is lifted, all goes on */
	limit(&l, host, &(struct ffo_limits){ 0 });
	hosts_run(&l.t);
	keep_full(&l);
	hosts_down(&l.t);
}

static const uint32_t sizes[] = { 1000, 65536, 1 << 20 };

static void sending(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		holds(IBV_QPT_RC, FF_OP_WRITE, sizes[i], 0, offsetof(struct ffo_limits, tx_rate));
		holds(IBV_QPT_RC, FF_OP_SEND, sizes[i], 0, offsetof(struct ffo_limits, tx_rate));
		holds(IBV_QPT_UC, FF_OP_WRITE, sizes[i], 0, offsetof(struct ffo_limits, tx_rate));
	}
}

static void receiving(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		holds(IBV_QPT_RC, FF_OP_WRITE, sizes[i], 1, offsetof(struct ffo_limits, rx_rate));
		holds(IBV_QPT_RC, FF_OP_SEND, sizes[i], 1, offsetof(struct ffo_limits, rx_rate));
	}
}

static void reading(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		holds(IBV_QPT_RC, FF_OP_READ, sizes[i], 0, offsetof(struct ffo_limits, rx_rate));
}

static void serving(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		holds(IBV_QPT_RC, FF_OP_READ, sizes[i], 1, offsetof(struct ffo_limits, serve_rate));
}

/* The connection goes, and comes back, while both halves wait. */
static void cut_while_it_waits(void **state)
{
	struct ffo_limits to = { .tx_rate = RATE }, from = { .rx_rate = RATE / 2 };
	struct load l;
	uint64_t before;

	(void)state;
	up(&l, IBV_QPT_RC, FF_OP_WRITE, 65536);
	limit(&l, 0, &to);
	limit(&l, 1, &from);
	run(&l, SEC);
	hosts_cut(&l.t);
	keep_full(&l);
	hosts_turn(&l.t);
	hosts_connect(&l.t);
	before = l.completed;
	run(&l, SEC);
	assert_true((l.completed - before) * l.len > RATE / 3);
	hosts_cut(&l.t);
	hosts_down(&l.t);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(sending), cmocka_unit_test(receiving),
			cmocka_unit_test(reading), cmocka_unit_test(serving),
			cmocka_unit_test(cut_while_it_waits));
}
