/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/nic_rig.c tests/rig/fakes/fake_nic.c tests/rig/fakes/fake_nic_wr.c tests/rig/fakes/fake_mlx5.c tests/rig/unit/rig.c */
/* test_pace.c - the NIC's own rates: mlx5's scheduling elements and packet pacing, by stand-ins. */
#include "tests/rig/unit/nic_rig.h"
#include "tests/rig/fakes/fake_mlx5.h"

#include <errno.h>

#define MBIT (1000000ull / 8) /* in bytes */

static struct nic_rig rig;

static struct rig_qp *connected(unsigned container, struct rig_ses **s, struct rig_cq **cq)
{
	struct rig_qp *q;

	*s = rig_session(&rig.r, container);
	*cq = rig_cq(&rig.r, *s, 16, false);
	q = rig_qp(&rig.r, *s, IBV_QPT_RC, *cq, *cq, NULL);
	nic_rig_connect(&rig, q);
	return q;
}

static void done(struct rig_qp *q, struct rig_ses *s, struct rig_cq *cq)
{
	rig_qp_free(&rig.r, q);
	rig_cq_free(&rig.r, cq);
	rig_session_free(&rig.r, s);
}

static void limit(unsigned container, struct ffo_limits l)
{
	fast_container_limits(&rig.r.cont[container], &l);
	nic_rig_work(&rig);
}

/* ---- mlx5 ---------------------------------------------------------------------------------------------- */

static int mlx5_setup(void **state)
{
	(void)state;
	fake_nic_reset();
	fake_nic.load_more = fake_mlx5_load;
	nic_rig_open_rts(&rig, IBV_QPT_RC);
	return 0;
}

static int mlx5_teardown(void **state)
{
	(void)state;
	nic_rig_close(&rig);
	assert_int_equal(fake_mlx5_there(), 0);
	return 0;
}

#define MLX5_TEST(name) cmocka_unit_test_setup_teardown(name, mlx5_setup, mlx5_teardown)

/* One root; below it a node of the tenant and below that a leaf, each for what is sent and what is answered. */
static void a_qp_is_joined_to_its_containers_leaves(void **state)
{
	const struct fake_mlx5_elem *sends = fake_mlx5.joined[0].sends;
	const struct fake_mlx5_elem *answers = fake_mlx5.joined[0].answers;

	(void)state;
	assert_int_equal(fake_mlx5_there(), 5);
	assert_int_equal(fake_mlx5.num_joined, 1);
	assert_ptr_equal(fake_mlx5.joined[0].qp, rig.ib);
	assert_ptr_not_equal(sends, answers);
	assert_ptr_not_equal(sends->parent, answers->parent);
	assert_ptr_equal(sends->parent->parent, answers->parent->parent);
	assert_null(sends->parent->parent->parent);
	assert_int_equal(sends->mbit, 0);
	assert_int_equal(sends->parent->mbit, 0);
	assert_int_equal(answers->mbit, 0);
}

static void containers_share_their_tenants_node(void **state)
{
	struct rig_ses *s[2];
	struct rig_cq *cq[2];
	struct rig_qp *same = connected(1, &s[0], &cq[0]), *other = connected(3, &s[1], &cq[1]);

	(void)state;
	assert_int_equal(fake_mlx5.num_joined, 3);
	assert_ptr_not_equal(fake_mlx5.joined[1].sends, fake_mlx5.joined[0].sends);
	assert_ptr_equal(fake_mlx5.joined[1].sends->parent, fake_mlx5.joined[0].sends->parent);
	assert_ptr_not_equal(fake_mlx5.joined[2].sends->parent, fake_mlx5.joined[0].sends->parent);
	assert_int_equal(fake_mlx5_there(), 1 + 2 * 2 + 3 * 2);
	done(same, s[0], cq[0]);
	assert_int_equal(fake_mlx5_there(), 1 + 2 * 2 + 2 * 2);
	done(other, s[1], cq[1]);
	assert_int_equal(fake_mlx5_there(), 5);
}

static void qps_of_a_container_share_its_leaf(void **state)
{
	struct rig_qp *q = rig_qp(&rig.r, rig.s, IBV_QPT_UC, rig.cq, rig.cq, NULL);

	(void)state;
	nic_rig_connect(&rig, q);
	assert_int_equal(fake_mlx5_there(), 5);
	assert_ptr_equal(fake_mlx5.joined[1].sends, fake_mlx5.joined[0].sends);
	assert_null(fake_mlx5.joined[1].answers); /* UC answers nothing */
	rig_qp_free(&rig.r, q);
	assert_int_equal(fake_mlx5_there(), 5);
}

/* What is read by others is limited by the NIC alone; what is sent by the router, and the NIC has room for headers. */
static void rates_follow_the_limits(void **state)
{
	const struct fake_mlx5_elem *sends = fake_mlx5.joined[0].sends;
	const struct fake_mlx5_elem *answers = fake_mlx5.joined[0].answers;
	unsigned calls;

	(void)state;
	limit(0, (struct ffo_limits){ .serve_rate = 100 * MBIT });
	assert_int_equal(answers->mbit, 100);
	assert_int_equal(sends->mbit, 0);
	limit(0, (struct ffo_limits){ .tx_rate = 10 * MBIT, .serve_rate = 100 * MBIT + 1 });
	assert_int_equal(answers->mbit, 101); /* never less than what is allowed */
	assert_int_equal(sends->mbit, 20);
	limit(0, (struct ffo_limits){ .tx_rate = 1ull << 40, .serve_rate = 1 });
	assert_int_equal(answers->mbit, 1); /* 0 is none */
	assert_true(sends->mbit >= 8796093);
	calls = fake_mlx5.calls;
	limit(1, (struct ffo_limits){ .tx_rate = MBIT }); /* another's */
	nic_rig_work(&rig);
	assert_int_equal(fake_mlx5.calls, calls);
	limit(0, (struct ffo_limits){ 0 });
	assert_int_equal(answers->mbit, 0);
	assert_int_equal(sends->mbit, 0);
}

static void a_tenants_limit_is_its_nodes(void **state)
{
	struct ffo_limits l = { .tx_rate = 50 * MBIT, .serve_rate = 70 * MBIT };

	(void)state;
	assert_int_equal(fast_tenant_limits(rig.r.f->host, "t", &l), 0);
	nic_rig_work(&rig);
	assert_int_equal(fake_mlx5.joined[0].sends->parent->mbit, 100);
	assert_int_equal(fake_mlx5.joined[0].answers->parent->mbit, 70);
	assert_int_equal(fake_mlx5.joined[0].answers->mbit, 0);
	l = (struct ffo_limits){ 0 };
	assert_int_equal(fast_tenant_limits(rig.r.f->host, "t", &l), 0);
	nic_rig_work(&rig);
	assert_int_equal(fake_mlx5.joined[0].sends->parent->mbit, 0);
}

/* Limits from before the first QP hold from its first packet. */
static void limits_are_there_before(void **state)
{
	struct rig_ses *s;
	struct rig_cq *cq;
	struct rig_qp *q;

	(void)state;
	limit(1, (struct ffo_limits){ .serve_rate = 3 * MBIT });
	q = connected(1, &s, &cq);
	assert_int_equal(fake_mlx5.joined[1].answers->mbit, 3);
	done(q, s, cq);
}

/* Whatever the NIC refuses, the QP works, and what was made is given back. */
static void each_call_may_fail(void **state)
{
	struct rig_ses *s;
	struct rig_cq *cq;
	struct rig_qp *q;

	(void)state;
	for (unsigned nth = 1; nth <= 5; nth++) { /* node, node, leaf, leaf, join */
		unsigned there = fake_mlx5_there();

		fake_mlx5_fail(nth, EOPNOTSUPP);
		q = connected(3, &s, &cq);
		assert_int_equal(fake_nic_state(nic_rig_ib(q)), IBV_QPS_RTS);
		done(q, s, cq);
		assert_int_equal(fake_mlx5_there(), there);
	}
	fake_mlx5_fail(1, EIO);
	limit(0, (struct ffo_limits){ .serve_rate = MBIT });
	fake_mlx5_fail(1, EIO);
	assert_int_equal(fast_tenant_limits(rig.r.f->host, "t",
					    &(struct ffo_limits){ .serve_rate = MBIT }),
			 0);
	nic_rig_work(&rig);
	assert_int_equal(
		fast_tenant_limits(rig.r.f->host, "t", &(struct ffo_limits){ .serve_rate = 0 }), 0);
}

static void no_root(void **state)
{
	(void)state;
	fake_nic_reset();
	fake_nic.load_more = fake_mlx5_load;
	fake_mlx5_fail(1, EOPNOTSUPP);
	nic_rig_open(&rig);
	nic_rig_close(&rig);
}

/* ---- packet pacing -------------------------------------------------------------------------------------------- */

static int pacing_setup(void **state)
{
	(void)state;
	fake_nic_reset();
	fake_nic.pacing = (struct ibv_packet_pacing_caps){ .qp_rate_limit_min = 1000,
							   .qp_rate_limit_max = 10000000,
							   .supported_qpts = 1u << IBV_QPT_RC };
	nic_rig_open_rts(&rig, IBV_QPT_RC);
	return 0;
}

#define PACING_TEST(name) cmocka_unit_test_setup_teardown(name, pacing_setup, nic_rig_teardown_own)

static int nic_rig_teardown_own(void **state)
{
	(void)state;
	nic_rig_close(&rig);
	return 0;
}

static void a_qp_is_paced(void **state)
{
	(void)state;
	assert_int_equal(fake_nic.calls[FAKE_modify_qp_rate_limit], 0); /* no limit */
	limit(0, (struct ffo_limits){ .tx_rate = 100 * MBIT });
	assert_ptr_equal(fake_nic.rate.qp, rig.ib);
	assert_int_equal(fake_nic.rate.attr.rate_limit, 200000);
	limit(0, (struct ffo_limits){ .tx_rate = 1 }); /* the least that the NIC can */
	assert_int_equal(fake_nic.rate.attr.rate_limit, 1000);
	limit(0, (struct ffo_limits){ .tx_rate = 100000 * MBIT }); /* more than it can */
	assert_int_equal(fake_nic.rate.attr.rate_limit, 0);
	assert_int_equal(fake_nic.calls[FAKE_modify_qp_rate_limit], 3);
}

static void one_that_comes_later_is_paced(void **state)
{
	struct rig_qp *q, *uc;

	(void)state;
	limit(0, (struct ffo_limits){ .tx_rate = 100 * MBIT });
	q = rig_qp(&rig.r, rig.s, IBV_QPT_RC, rig.cq, rig.cq, NULL);
	uc = rig_qp(&rig.r, rig.s, IBV_QPT_UC, rig.cq, rig.cq, NULL);
	limit(0, (struct ffo_limits){ .tx_rate = 200 * MBIT });
	assert_int_equal(fake_nic.calls[FAKE_modify_qp_rate_limit], 2); /* that in RTS */
	nic_rig_connect(&rig, q);
	assert_ptr_equal(fake_nic.rate.qp, nic_rig_ib(q));
	assert_int_equal(fake_nic.rate.attr.rate_limit, 400000);
	nic_rig_connect(&rig, uc); /* the NIC cannot */
	assert_int_equal(fake_nic.calls[FAKE_modify_qp_rate_limit], 3);
	limit(0, (struct ffo_limits){ .tx_rate = 300 * MBIT });
	assert_int_equal(fake_nic.calls[FAKE_modify_qp_rate_limit], 5);
	rig_qp_free(&rig.r, q);
	rig_qp_free(&rig.r, uc);
	limit(0, (struct ffo_limits){ .tx_rate = 100 * MBIT });
	assert_int_equal(fake_nic.calls[FAKE_modify_qp_rate_limit], 6);
}

/* One that is taken to RESET has no rate, and gets one again with RTS. */
static void a_new_life(void **state)
{
	(void)state;
	limit(0, (struct ffo_limits){ .tx_rate = 100 * MBIT });
	rig_state(&rig.r, rig.qp, IBV_QPS_RESET);
	limit(0, (struct ffo_limits){ .tx_rate = 200 * MBIT });
	assert_int_equal(fake_nic.calls[FAKE_modify_qp_rate_limit], 1);
	nic_rig_connect(&rig, rig.qp);
	assert_int_equal(fake_nic.rate.attr.rate_limit, 400000);
	fake_nic_fail(FAKE_modify_qp_rate_limit, 1, EIO);
	limit(0, (struct ffo_limits){ .tx_rate = 300 * MBIT });
	assert_int_equal(fake_nic_state(rig.ib), IBV_QPS_RTS);
}

int main(void)
{
	return UNIT_RUN(MLX5_TEST(a_qp_is_joined_to_its_containers_leaves),
			MLX5_TEST(containers_share_their_tenants_node),
			MLX5_TEST(qps_of_a_container_share_its_leaf),
			MLX5_TEST(rates_follow_the_limits), MLX5_TEST(a_tenants_limit_is_its_nodes),
			MLX5_TEST(limits_are_there_before), MLX5_TEST(each_call_may_fail),
			cmocka_unit_test(no_root), PACING_TEST(a_qp_is_paced),
			PACING_TEST(one_that_comes_later_is_paced), PACING_TEST(a_new_life));
}
