/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/nic_rig.c tests/rig/fakes/fake_nic.c tests/rig/fakes/fake_nic_wr.c tests/rig/unit/rig.c */
/* test_qp.c - a QP's life at the NIC: which are its, their numbers and states, how they end. */
#include "ffr/abi/ff_verbs.h"
#include "tests/rig/unit/nic_rig.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const struct fake_nic_modify *modified(unsigned from_last)
{
	return &fake_nic.modify[(fake_nic.num_modify - 1 - from_last) % 64];
}

/* ---- making it -------------------------------------------------------------------------------------- */

static void connected_qps_are_the_nics(void **state)
{
	struct nic_rig *n = *state;
	struct rig_qp *xrc = rig_qp(&n->r, n->s, IBV_QPT_XRC_SEND, n->cq, n->cq, NULL);
	struct rig_qp *uc = rig_qp(&n->r, n->s, IBV_QPT_UC, n->cq, n->cq, NULL);

	assert_null(xrc->qp.nic);
	assert_int_equal(nic_rig_ib(uc)->qp_type, IBV_QPT_UC);
	assert_int_equal(uc->qp.qp_num, nic_rig_ib(uc)->qp_num);
	assert_ptr_equal(nic_rig_ib(uc)->pd, n->s->pd.nic);
	assert_int_equal(fake_nic.init.cap.max_send_wr, 16);
	assert_int_equal(fake_nic.init.cap.max_recv_wr, 16);
	assert_int_equal(fake_nic.init.cap.max_send_sge, 4);
	assert_int_equal(fake_nic.init.cap.max_inline_data, 64);
	assert_int_equal(fake_nic.init.sq_sig_all, 1);
	assert_int_equal(fake_nic.qps, 2);
	rig_qp_free(&n->r, xrc);
	rig_qp_free(&n->r, uc);
}

/* The table has one place for each low part of a number. */
static void numbers_that_do_not_fit(void **state)
{
	struct nic_rig *n = *state;
	struct rig_qp *q;
	int err;

	for (unsigned i = 0; i < 5; i++)
		fake_nic.qpn[i] = n->qp->qp.qp_num + (i + 1) * 0x10000;
	fake_nic.qpn[5] = 1; /* of the specification's own */
	fake_nic.qpn[6] = 0x4444;
	fake_nic.qpn_at = 0;
	q = rig_qp(&n->r, n->s, IBV_QPT_RC, n->cq, n->cq, NULL);
	assert_int_equal(q->qp.qp_num, 0x4444);
	assert_int_equal(fake_nic.qps, 2);
	rig_qp_free(&n->r, q);
	/* none fits, however often it is asked */
	for (unsigned i = 0; i < 256; i++)
		fake_nic.qpn[i] = n->qp->qp.qp_num + (i + 1) * 0x10000;
	fake_nic.qpn_at = 0;
	assert_null(rig_qp_try(n->s, IBV_QPT_RC, n->cq, n->cq, NULL, &err));
	assert_int_equal(err, -EAGAIN);
	assert_int_equal(fake_nic.qps, 1);
}

static void a_call_that_fails(void **state)
{
	static const enum fake_nic_call calls[] = { FAKE_alloc_pd, FAKE_create_cq, FAKE_create_qp };
	struct nic_rig rig, *n = &rig;
	int err;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		fake_nic_reset();
		nic_rig_open(n);
		rig_mr_free(&n->r, n->mr);
		n->mr = NULL;
		nic_pd_break(&n->s->pd);
		fake_nic_fail(calls[i], 1, ENOSPC);
		n->qp = rig_qp_try(n->s, IBV_QPT_RC, n->cq, n->cq, NULL, &err);
		if (calls[i] == FAKE_create_cq) { /* then a smaller one is asked for */
			assert_non_null(n->qp);
		} else {
			assert_null(n->qp);
			assert_int_equal(err, -ENOSPC);
		}
		assert_int_equal(fake_nic.qps, n->qp != NULL);
		nic_rig_close(n);
	}
}

/* ---- its states ---------------------------------------------------------------------------------------- */

static void what_the_nic_is_told(void **state)
{
	struct nic_rig *n = *state;
	const struct ibv_qp_attr *a = &modified(2)->attr;

	assert_int_equal(fake_nic.num_modify, 3);
	assert_int_equal(a->qp_state, IBV_QPS_INIT);
	assert_int_equal(a->port_num, 1);
	assert_int_equal(a->qp_access_flags, NIC_RIG_ACCESS);
	a = &modified(1)->attr;
	assert_int_equal(a->qp_state, IBV_QPS_RTR);
	assert_int_equal(a->dest_qp_num, 0x4321);
	assert_int_equal(a->rq_psn, 0x111);
	assert_int_equal(a->path_mtu, IBV_MTU_1024);
	assert_int_equal(a->min_rnr_timer, 12);
	assert_int_equal(a->ah_attr.is_global, 1);
	assert_int_equal(a->ah_attr.grh.sgid_index, 3); /* the NIC's index of it */
	assert_int_equal(a->ah_attr.grh.hop_limit, 9);
	assert_int_equal(a->ah_attr.grh.traffic_class, 8);
	assert_int_equal(a->ah_attr.grh.flow_label, 7);
	assert_int_equal(a->ah_attr.sl, 6);
	assert_memory_equal(&a->ah_attr.grh.dgid, n->qp->qp.attr.ah.dgid, 16);
	a = &modified(0)->attr;
	assert_int_equal(a->qp_state, IBV_QPS_RTS);
	assert_int_equal(a->sq_psn, 0x222);
	assert_int_equal(a->timeout, 14);
	assert_int_equal(a->retry_cnt, 3);
	assert_int_equal(a->rnr_retry, 5);
}

/* Rights that no NIC knows, of windows and FLUSHes, are the router's own. */
static void other_rights_are_not_the_nics(void **state)
{
	struct nic_rig rig, *n = &rig;

	(void)state;
	fake_nic_reset();
	nic_rig_open_qp(n, IBV_QPT_RC);
	nic_rig_attr(n, n->qp);
	n->qp->qp.attr.qp_access_flags = NIC_RIG_ACCESS | IBV_ACCESS_MW_BIND | FF_ACCESS_FLUSH;
	rig_state(&n->r, n->qp, IBV_QPS_INIT);
	rig_state(&n->r, n->qp, IBV_QPS_RTR);
	rig_state(&n->r, n->qp, IBV_QPS_RTS);
	assert_int_equal(fake_nic.num_modify, 3);
	for (unsigned i = 0; i < 3; i++)
		if (modified(i)->mask & IBV_QP_ACCESS_FLAGS)
			assert_int_equal(modified(i)->attr.qp_access_flags, NIC_RIG_ACCESS);
	assert_true(modified(2)->mask & IBV_QP_ACCESS_FLAGS);
	nic_rig_close(n);
}

/* What leads to a container here is the software device's, with the NIC's number. */
static void another_gid_is_not_the_nics(void **state)
{
	struct nic_rig *n = *state;
	struct rig_qp *q = rig_qp(&n->r, n->s, IBV_QPT_RC, n->cq, n->cq, NULL);
	unsigned modifies = fake_nic.num_modify;

	rig_state(&n->r, q, IBV_QPS_INIT);
	nic_rig_attr(n, q);
	q->qp.attr.ah.sgid_index = 0;
	rig_state(&n->r, q, IBV_QPS_RTR);
	assert_false(nic_qp_is_carried(q->qp.nic));
	assert_int_equal(fake_nic.num_modify, modifies);
	assert_ptr_not_equal(q->qp.send, &nic_send);
	rig_qp_free(&n->r, q);
}

/* A QP in INIT that has the attributes of all that follows. */
static void open_in_init(struct nic_rig *n)
{
	fake_nic_reset();
	nic_rig_open_qp(n, IBV_QPT_RC);
	rig_state(&n->r, n->qp, IBV_QPS_INIT);
	nic_rig_attr(n, n->qp);
}

static void receives_of_init_are_there_before_rtr(void **state)
{
	struct nic_rig rig, *n = &rig;

	(void)state;
	open_in_init(n);
	nic_rig_recv(n, 1, 8);
	nic_rig_recv(n, 2, 8);
	/* RTR fails: the ring has them again */
	fake_nic_fail(FAKE_modify_qp, 2, EINVAL);
	assert_int_equal(rig_state_try(n->qp, IBV_QPS_RTR), -EINVAL);
	assert_int_equal(n->qp->qp.state, IBV_QPS_INIT);
	assert_int_equal(fake_nic_state(n->ib), IBV_QPS_RESET);
	assert_int_equal(fake_nic_num_recvs(), 2);
	rig_state(&n->r, n->qp, IBV_QPS_RTR);
	assert_int_equal(fake_nic_recvs(n->ib), 2);
	fake_nic_received(n->ib, IBV_WC_SUCCESS, 8, NULL);
	rig_run(&n->r);
	nic_rig_expect(n, 1, IBV_WC_SUCCESS);
	nic_rig_close(n);
}

static void each_change_may_fail(void **state)
{
	(void)state;
	for (unsigned nth = 1; nth <= 3; nth++) {
		struct nic_rig rig, *n = &rig;

		open_in_init(n);
		fake_nic_fail(FAKE_modify_qp, nth, EINVAL);
		assert_int_equal(rig_state_try(n->qp, IBV_QPS_RTR), nth < 3 ? -EINVAL : 0);
		if (nth == 3)
			assert_int_equal(rig_state_try(n->qp, IBV_QPS_RTS), -EINVAL);
		else
			rig_state(&n->r, n->qp, IBV_QPS_RTR);
		rig_state(&n->r, n->qp, IBV_QPS_RTS); /* and it works when it is tried again */
		nic_rig_send(n, 1, 8);
		rig_run(&n->r);
		assert_int_equal(fake_nic_sends(n->ib), 1);
		nic_rig_close(n);
	}
}

/* RTR and RTS in one call, as rdma_cm does it: the second fails, and the first has not happened either. */
static void a_later_step_fails(void **state)
{
	struct nic_rig rig, *n = &rig;
	struct qp *qp;

	(void)state;
	open_in_init(n);
	qp = &n->qp->qp;
	nic_rig_recv(n, 1, 8);
	fake_nic_fail(FAKE_modify_qp, 3, EINVAL);
	assert_int_equal(nic_qp_prepare(n->r.f, qp, &qp->attr, IBV_QPS_INIT, IBV_QPS_RTR), 0);
	assert_int_equal(nic_qp_prepare(n->r.f, qp, &qp->attr, IBV_QPS_RTR, IBV_QPS_RTS), -EINVAL);
	assert_int_equal(fake_nic_state(n->ib), IBV_QPS_RESET);
	rig_state(&n->r, n->qp, IBV_QPS_RTR);
	rig_state(&n->r, n->qp, IBV_QPS_RTS);
	assert_int_equal(fake_nic_recvs(n->ib), 1);
	fake_nic_received(n->ib, IBV_WC_SUCCESS, 8, NULL);
	rig_run(&n->r);
	nic_rig_expect(n, 1, IBV_WC_SUCCESS);
	nic_rig_close(n);
}

/* Who only receives posts no WR, which would ring: a runner that sleeps has not armed the CQ of the first QP. */
static void a_sleeping_runner_is_woken(void **state)
{
	struct nic_rig rig, *n = &rig;
	uint64_t count;

	(void)state;
	open_in_init(n);
	nic_rig_recv(n, 1, 8);
	while (read(n->r.f->stop_fd, &count, sizeof(count)) > 0)
		;
	n->r.f->sleeping = true;
	rig_state(&n->r, n->qp, IBV_QPS_RTR);
	assert_int_equal(read(n->r.f->stop_fd, &count, sizeof(count)), sizeof(count));
	n->r.f->sleeping = false;
	nic_rig_close(n);
}

/* ---- changes in RTS ----------------------------------------------------------------------------------- */

static int prepare(struct nic_rig *n, const struct ff_qp_attr *a, enum ibv_qp_state next)
{
	return nic_qp_prepare(n->r.f, &n->qp->qp, a, n->qp->qp.state, next);
}

static void changed_in_rts(void **state)
{
	struct nic_rig *n = *state;
	struct ff_qp_attr a = n->qp->qp.attr;
	unsigned before = fake_nic.num_modify;

	assert_int_equal(modified(0)->mask & (IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER),
			 IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER);
	assert_int_equal(prepare(n, &a, IBV_QPS_RTS), 0); /* nothing is new */
	assert_int_equal(fake_nic.num_modify, before);
	a.min_rnr_timer = 20;
	assert_int_equal(prepare(n, &a, IBV_QPS_RTS), 0);
	assert_int_equal(modified(0)->mask, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER);
	assert_int_equal(modified(0)->attr.min_rnr_timer, 20);
	a.min_rnr_timer = 12;
	a.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND;
	assert_int_equal(prepare(n, &a, IBV_QPS_RTS), 0);
	assert_int_equal(modified(0)->mask, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS);
	assert_int_equal(modified(0)->attr.qp_access_flags, IBV_ACCESS_REMOTE_READ);
	fake_nic_fail(FAKE_modify_qp, 1, EINVAL);
	assert_int_equal(prepare(n, &a, IBV_QPS_RTS), -EINVAL);
	assert_int_equal(fake_nic_state(n->ib), IBV_QPS_RTS);
}

/* The NIC's QP goes on in RTS while the container's is in SQD. */
static void changed_in_sqd(void **state)
{
	struct nic_rig *n = *state;
	struct ff_qp_attr a;
	unsigned before = fake_nic.num_modify;

	assert_int_equal(prepare(n, &n->qp->qp.attr, IBV_QPS_SQD), 0);
	rig_state(&n->r, n->qp, IBV_QPS_SQD);
	assert_int_equal(fake_nic.num_modify, before);
	a = n->qp->qp.attr;
	a.min_rnr_timer = 3;
	assert_int_equal(prepare(n, &a, IBV_QPS_SQD), 0);
	assert_int_equal(modified(0)->attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(modified(0)->attr.min_rnr_timer, 3);
	assert_int_equal(prepare(n, &n->qp->qp.attr, IBV_QPS_RTS), 0);
	for (int i = 0; i < 6; i++) {
		a = n->qp->qp.attr;
		a.timeout += i == 0;
		a.retry_cnt += i == 1;
		a.rnr_retry += i == 2;
		a.max_rd_atomic += i == 3;
		a.max_dest_rd_atomic += i == 4;
		a.ah.dgid[3] += i == 5;
		assert_int_equal(prepare(n, &a, IBV_QPS_SQD), -EOPNOTSUPP);
	}
	assert_int_equal(fake_nic.num_modify, before + 1);
}

static void uc_goes_on_with_other_rights(void **state)
{
	struct nic_rig *n = *state;
	struct ff_qp_attr a;

	assert_int_equal(modified(0)->mask & IBV_QP_MIN_RNR_TIMER, 0);
	rig_state(&n->r, n->qp, IBV_QPS_SQE);
	a = n->qp->qp.attr;
	a.min_rnr_timer = 1; /* which UC has not */
	assert_int_equal(prepare(n, &a, IBV_QPS_RTS), 0);
	assert_int_equal(modified(0)->mask, IBV_QP_STATE);
	a.qp_access_flags = 0;
	assert_int_equal(prepare(n, &a, IBV_QPS_RTS), 0);
	assert_int_equal(modified(0)->mask, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS);
	assert_int_equal(modified(0)->attr.qp_access_flags, 0);
}

/* ---- its end --------------------------------------------------------------------------------------------- */

static void reset_and_use_again(void **state)
{
	struct nic_rig *n = *state;

	for (uint64_t lap = 0; lap < 5; lap++) {
		nic_rig_recv(n, 100 + lap, 8);
		nic_rig_send(n, lap, 8);
		nic_rig_send(n, 50 + lap, 8);
		if (lap % 2)
			rig_run(&n->r);
		if (lap == 3)
			nic_rig_error(n);
		rig_state(&n->r, n->qp, IBV_QPS_RESET);
		assert_int_equal(fake_nic_state(n->ib), IBV_QPS_RESET);
		while (lap == 3 && n->cq->ci != n->cq->cq.pi)
			assert_true(rig_poll(n->cq, &(struct ff_cqe){ 0 }));
		nic_rig_connect(n, n->qp);
		nic_rig_send(n, 1000 + lap, 8);
		rig_run(&n->r);
		assert_int_equal(fake_nic_sends(n->ib), 1);
		assert_int_equal(fake_nic_recvs(n->ib), 0);
		fake_nic_sent(n->ib, IBV_WC_SUCCESS);
		rig_run(&n->r);
		nic_rig_expect(n, 1000 + lap, IBV_WC_SUCCESS);
		nic_rig_expect_none(n);
	}
}

static void destroyed_with_wrs_under_way(void **state)
{
	struct nic_rig *n = *state;

	fake_nic.flushes_late = true;
	nic_rig_recv(n, 1, 8);
	nic_rig_send(n, 2, 8);
	rig_run(&n->r);
	rig_state(&n->r, n->qp, IBV_QPS_ERR); /* and the control thread has not been told yet */
	assert_int_equal(n->wakes, 1);
	rig_qp_free(&n->r, n->qp);
	n->qp = NULL;
	nic_rig_work(n);
	rig_run(&n->r);
	nic_rig_expect_none(n);
	assert_int_equal(fake_nic.qps, 0);
}

static void told_once(void **state)
{
	struct nic_rig *n = *state;

	rig_state(&n->r, n->qp, IBV_QPS_ERR);
	rig_state(&n->r, n->qp, IBV_QPS_ERR);
	assert_int_equal(n->wakes, 1);
	nic_rig_work(n);
	assert_int_equal(fake_nic.num_modify, 4);
	nic_rig_work(n);
	assert_int_equal(fake_nic.num_modify, 4);
}

int main(void)
{
	return UNIT_RUN(NIC_TEST(connected_qps_are_the_nics), NIC_TEST(numbers_that_do_not_fit),
			cmocka_unit_test(a_call_that_fails), NIC_TEST(what_the_nic_is_told),
			cmocka_unit_test(other_rights_are_not_the_nics),
			NIC_TEST(another_gid_is_not_the_nics),
			cmocka_unit_test(receives_of_init_are_there_before_rtr),
			cmocka_unit_test(each_change_may_fail),
			cmocka_unit_test(a_later_step_fails),
			cmocka_unit_test(a_sleeping_runner_is_woken), NIC_TEST(changed_in_rts),
			NIC_TEST(changed_in_sqd), NIC_TEST_UC(uc_goes_on_with_other_rights),
			NIC_TEST(reset_and_use_again), NIC_TEST(destroyed_with_wrs_under_way),
			NIC_TEST(told_once));
}
