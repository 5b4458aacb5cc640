/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* test_state.c - which state of a NIC or of its QP may follow which, and that a state which must not follow changes nothing. */
#include "tests/rig/unit/unit.h"

#include "ffr/nic/nic.h"

#define BIT(state) (1u << (state))

/* unplug.c takes a NIC through its states in this order. The router may end in each of them. */
static void a_nic_follows_its_life(void **state)
{
	static const uint32_t may[NIC_DEV_NUM_STATES] = {
		[NIC_CLOSED] = BIT(NIC_CLOSED) | BIT(NIC_UP),
		[NIC_UP] = BIT(NIC_UP) | BIT(NIC_LOST) | BIT(NIC_CLOSED),
		[NIC_LOST] = BIT(NIC_LOST) | BIT(NIC_ENDING) | BIT(NIC_CLOSED),
		[NIC_ENDING] = BIT(NIC_ENDING) | BIT(NIC_AWAY) | BIT(NIC_CLOSED),
		[NIC_AWAY] = BIT(NIC_AWAY) | BIT(NIC_DUE) | BIT(NIC_CLOSED),
		[NIC_DUE] = BIT(NIC_DUE) | BIT(NIC_OPENING) | BIT(NIC_AWAY) | BIT(NIC_CLOSED),
		[NIC_OPENING] = BIT(NIC_OPENING) | BIT(NIC_UP) | BIT(NIC_AWAY) | BIT(NIC_CLOSED),
	};
	struct host_nic host = { .name = "fake0:1" };

	(void)state;
	for (enum nic_dev_state from = 0; from < NIC_DEV_NUM_STATES; from++)
		for (enum nic_dev_state to = 0; to < NIC_DEV_NUM_STATES; to++) {
			struct nic_dev d = { .host = &host, .state = from };
			bool is_allowed = may[from] & BIT(to);

			assert_int_equal(nic_dev_to(&d, to), is_allowed);
			assert_int_equal(d.state, is_allowed ? to : from);
			assert_int_equal(nic_is_up(&d), d.state == NIC_UP);
		}
}

/* The NIC takes a QP over in the state SOFT, and leaves it in that state. A QP that fails does not go back to CARRIED. */
static void a_qp_follows_its_life(void **state)
{
	static const uint32_t may[NIC_QP_NUM_STATES] = {
		[NIC_QP_SOFT] = BIT(NIC_QP_UNDECIDED) | BIT(NIC_QP_CARRIED) | BIT(NIC_QP_UD),
		[NIC_QP_UNDECIDED] = BIT(NIC_QP_ASKING),
		[NIC_QP_CARRIED] = BIT(NIC_QP_FAILING) | BIT(NIC_QP_ENDING),
		[NIC_QP_FAILING] = BIT(NIC_QP_ENDING),
		[NIC_QP_ENDING] = BIT(NIC_QP_ENDED),
	};
	struct container c = { .name = "c" };
	struct session ses = { .cont = &c };
	struct qp qp = { .qp_num = 5, .o.ses = &ses };

	(void)state;
	for (enum nic_qp_state from = 0; from < NIC_QP_NUM_STATES; from++)
		for (enum nic_qp_state to = 0; to < NIC_QP_NUM_STATES; to++) {
			struct nic_qp nq = { .qp = &qp, .state = from };
			bool is_allowed = to == from || to == NIC_QP_SOFT || may[from] & BIT(to);

			assert_int_equal(nic_qp_to(&nq, to), is_allowed);
			assert_int_equal(nq.state, is_allowed ? to : from);
		}
}

/* A NIC may say that a QP fails whenever it likes: that counts only while the NIC carries the QP and nobody ends it. */
static void a_nic_says_that_a_qp_fails(void **state)
{
	struct container c = { .name = "c" };
	struct session ses = { .cont = &c };
	struct qp qp = { .qp_num = 5, .o.ses = &ses };

	(void)state;
	for (enum nic_qp_state from = 0; from < NIC_QP_NUM_STATES; from++) {
		struct nic_qp nq = { .qp = &qp, .state = from };

		nic_qp_fails(&nq);
		assert_int_equal(nq.state, from == NIC_QP_CARRIED ? NIC_QP_FAILING : from);
	}
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(a_nic_follows_its_life),
			cmocka_unit_test(a_qp_follows_its_life),
			cmocka_unit_test(a_nic_says_that_a_qp_fails));
}
