/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/nic_rig.c tests/rig/fakes/fake_nic.c tests/rig/fakes/fake_nic_wr.c tests/rig/unit/rig.c */
/* test_dev.c - opening the NIC, what containers are told of it, its CQs, and how the runner sleeps beside it. */
#include "tests/rig/unit/nic_rig.h"
#include "ffr/soft/soft.h"

#include <errno.h>
#include <string.h>

static int nic_setup(void **state)
{
	(void)state;
	fake_nic_reset();
	return 0;
}

/* Opens and closes; the GID index that was chosen, or -errno. */
static int open_with(const struct nic_conf *nic)
{
	struct fast_conf conf = FAST_CONF_DEFAULT;
	struct backend be = { .ops = &soft_ops, .carriers = nic_rig_carriers(nic) };
	struct fast_host *h = fast_create(&conf, &be);
	int got;

	if (!h)
		return -EIO;
	got = h->nic[0].dev->gid_index;
	assert_int_equal(h->nic_direct, nic->direct);
	assert_memory_equal(&h->nic[0].gid, &fake_nic.gid[got].gid,
			    15); /* in the last byte is which device it is */
	if (CARRIERS_FIRST(start, be.f))
		got = -EIO;
	fast_free(h);
	assert_true(fake_nic_is_clean());
	return got;
}

static int open_index(int index)
{
	struct nic_conf nic = { .port = 1, .gid_index = index, .no_worker = true };

	return open_with(&nic);
}

static void the_gid_is_of_roce_v2_and_not_link_local(void **state)
{
	(void)state;
	assert_int_equal(open_index(-1), 3);
	fake_nic.has_gid[3] = false;
	assert_int_equal(open_index(-1), 5);
	memset(&fake_nic.gid[5].gid, 0, 16);
	assert_int_equal(open_index(-1), -EIO);
	assert_true(fake_nic_is_clean());
}

static void the_operator_may_say_which_gid(void **state)
{
	(void)state;
	assert_int_equal(open_index(0), 0);
	assert_int_equal(open_index(2), 2);
	assert_int_equal(open_index(5), 5);
	assert_int_equal(open_index(4), -EIO); /* there is none */
	assert_int_equal(open_index(255), -EIO);
	assert_true(fake_nic_is_clean());
}

static void infiniband_has_any_gid(void **state)
{
	(void)state;
	fake_nic.port.link_layer = IBV_LINK_LAYER_INFINIBAND;
	assert_int_equal(open_index(-1), 0);
}

static void by_name_or_the_first(void **state)
{
	struct nic_conf nic = {
		.name = "fake1", .port = 1, .gid_index = -1, .no_worker = true, .direct = true
	};

	(void)state;
	assert_int_equal(open_with(&nic), -EIO);
	fake_nic.name[1] = "fake1";
	assert_int_equal(open_with(&nic), 3);
	nic.name = NULL;
	assert_int_equal(open_with(&nic), 3);
	fake_nic.name[0] = fake_nic.name[1] = NULL;
	assert_int_equal(open_with(&nic), -EIO);
	fake_nic.name[1] = "fake1";
	fake_nic.name[0] = "fake0";
	nic.port = FAKE_NIC_PORTS + 1;
	assert_int_equal(open_with(&nic), -EIO);
	assert_true(fake_nic_is_clean());
}

/* Each call of opening and starting, each time: an error, and nothing is left. */
static void every_call_may_fail(void **state)
{
	static const enum fake_nic_call calls[] = {
		FAKE_load,	 FAKE_get_device_list, FAKE_open_device,
		FAKE_query_port, FAKE_query_device,    FAKE_create_comp_channel,
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		unsigned n, times;

		fake_nic_reset();
		assert_int_equal(open_index(-1), 3);
		times = fake_nic.calls[calls[i]];
		assert_true(times > 0);
		for (n = 1; n <= times; n++) {
			fake_nic_reset();
			fake_nic_fail(calls[i], n, EIO);
			assert_int_equal(open_index(-1), -EIO);
			assert_true(fake_nic_is_clean());
		}
	}
}

/* What is only to be found out may fail: then there is nothing inline. */
static void without_inline(void **state)
{
	static const enum fake_nic_call calls[] = { FAKE_alloc_pd, FAKE_create_cq };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		fake_nic_reset();
		fake_nic_fail(calls[i], 1, ENOMEM);
		assert_int_equal(open_index(-1), 3);
	}
	fake_nic_reset();
	fake_nic.max_inline = 63;
	assert_int_equal(open_index(-1), 3);
}

static void a_second_thread_is_refused(void **state)
{
	struct fast_conf conf = FAST_CONF_DEFAULT;
	struct nic_conf nic = { .port = 1, .gid_index = -1, .no_worker = true };
	struct backend be = { .ops = &soft_ops, .carriers = nic_rig_carriers(&nic) };
	struct fast_host *h = fast_create(&conf, &be);

	(void)state;
	assert_non_null(h);
	assert_int_not_equal(fast_add_thread(h, &conf), 0);
	fast_free(h);
	assert_true(fake_nic_is_clean());
}

static void limits_are_those_of_both(void **state)
{
	struct nic_rig *n = *state;
	struct ff_query_device_resp soft = { 0 }, d = { 0 };

	soft_describe(&soft);
	soft_describe(&d);
	nic_carrier.describe(n->r.f, &d);
	assert_string_equal(d.fw_ver, "1.2.3");
	assert_int_equal(d.max_qp_wr, 256);
	assert_int_equal(d.max_sge, 16);
	assert_int_equal(d.max_sge_rd, 8);
	assert_int_equal(d.max_inline, 256);
	assert_int_equal(d.max_qp_rd_atom, 4);
	assert_int_equal(d.max_qp_init_rd_atom, 2);
	assert_int_equal(d.max_qp, soft.max_qp);
}

/* ---- sleeping ------------------------------------------------------------------------------------ */

static void armed_before_it_sleeps(void **state)
{
	struct nic_rig *n = *state;
	struct fast *f = n->r.f;
	unsigned armed = fake_nic.calls[FAKE_req_notify_cq];

	assert_true(nic_arm(f));
	assert_int_equal(fake_nic.calls[FAKE_req_notify_cq], armed + 1);
	assert_true(nic_arm(f)); /* it is armed yet */
	assert_int_equal(fake_nic.calls[FAKE_req_notify_cq], armed + 1);
	nic_rig_send(n, 1, 8);
	rig_run(&n->r);
	fake_nic_sent(n->ib, IBV_WC_SUCCESS);
	CARRIERS_FIRST(ready, f, nic_first(f), EPOLLIN);
	assert_false(nic_arm(f)); /* something has come */
	assert_int_equal(fake_nic.calls[FAKE_req_notify_cq], armed + 2);
	assert_true(nic_arm(f));
	nic_rig_expect(n, 1, IBV_WC_SUCCESS);
}

static void it_does_not_sleep_unarmed(void **state)
{
	struct nic_rig *n = *state;

	fake_nic_fail(FAKE_req_notify_cq, 1, EIO);
	assert_false(nic_arm(n->r.f));
	assert_true(nic_arm(n->r.f));
}

/* ---- CQs and PDs ----------------------------------------------------------------------------------- */

static void qps_share_a_cq_as_long_as_there_is_room(void **state)
{
	enum { N = 200 };
	struct nic_rig *n = *state;
	struct rig_qp *q[N];

	for (int i = 0; i < N; i++)
		q[i] = rig_qp(&n->r, n->s, IBV_QPT_RC, n->cq, n->cq, NULL);
	assert_int_equal(fake_nic.cqs, 2); /* 201 times 32 completions of 4096 */
	for (int i = 0; i < N; i++)
		rig_qp_free(&n->r, q[i]);
	for (int i = 0; i < N; i++)
		q[i] = rig_qp(&n->r, n->s, IBV_QPT_RC, n->cq, n->cq, NULL);
	assert_int_equal(fake_nic.cqs, 2);
	for (int i = 0; i < N; i++)
		rig_qp_free(&n->r, q[i]);
}

static void a_pd_for_each(void **state)
{
	struct nic_rig *n = *state;
	unsigned pds = fake_nic.pds;
	struct rig_ses *other = rig_session(&n->r, 0);
	static uint8_t buf[64];
	struct mr *mr;

	assert_int_equal(fake_nic.pds, pds); /* not before it is needed */
	mr = rig_mr(&n->r, other, buf, sizeof(buf), NIC_RIG_ACCESS);
	assert_int_equal(fake_nic.pds, pds + 1);
	assert_ptr_not_equal(other->pd.nic, n->s->pd.nic);
	rig_mr_free(&n->r, mr);
	rig_session_free(&n->r, other);
	assert_int_equal(fake_nic.pds, pds);
}

#define DEV_TEST(name) cmocka_unit_test_setup(name, nic_setup)

int main(void)
{
	return UNIT_RUN(DEV_TEST(the_gid_is_of_roce_v2_and_not_link_local),
			DEV_TEST(the_operator_may_say_which_gid), DEV_TEST(infiniband_has_any_gid),
			DEV_TEST(by_name_or_the_first), DEV_TEST(every_call_may_fail),
			DEV_TEST(without_inline), DEV_TEST(a_second_thread_is_refused),
			NIC_TEST(limits_are_those_of_both), NIC_TEST(armed_before_it_sleeps),
			NIC_TEST(it_does_not_sleep_unarmed),
			NIC_TEST(qps_share_a_cq_as_long_as_there_is_room), NIC_TEST(a_pd_for_each));
}
