/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/nic_rig.c tests/rig/fakes/fake_nic.c tests/rig/fakes/fake_nic_wr.c tests/rig/unit/rig.c */
/*
 * test_comp.c - the NIC's completions on their way to the container's CQ: in order, of this life only, and what an
 * error of one means for those behind it.
 */
#include "tests/rig/unit/nic_rig.h"

#include <arpa/inet.h>
#include <string.h>

/* ---- sends ----------------------------------------------------------------------------------------- */

static void completions_come_in_order(void **state)
{
	struct nic_rig *n = *state;
	struct ff_cqe c;

	for (uint64_t i = 0; i < 5; i++)
		nic_rig_send(n, i, 8 + (uint32_t)i);
	rig_run(&n->r);
	nic_rig_expect_none(n);
	assert_int_equal(n->qp->qp.in_flight, 5);
	for (uint64_t i = 0; i < 5; i++) {
		fake_nic_sent(n->ib, IBV_WC_SUCCESS);
		rig_run(&n->r);
		assert_true(rig_poll(n->cq, &c));
		assert_int_equal(c.wr_id, i);
		assert_int_equal(c.status, IBV_WC_SUCCESS);
		assert_int_equal(c.opcode, IBV_WC_SEND);
		assert_int_equal(c.qp_num, n->ib->qp_num);
		assert_int_equal(c.byte_len, 8 + i);
		nic_rig_expect_none(n);
	}
	assert_int_equal(n->qp->qp.in_flight, 0);
	assert_int_equal(n->qp->qp.stats.send_ops, 5);
	assert_int_equal(n->qp->qp.stats.tx_bytes, 8 + 9 + 10 + 11 + 12);
}

/* The NIC signals all, the container gets what it has asked for. */
static void unsignalled_ones_have_no_completion(void **state)
{
	struct nic_rig *n = *state;

	rig_sge(rig_sqe(n->qp, FF_OP_SEND, 1), n->mr, nic_rig_at(n, 0), 8);
	qp_sqe(&n->qp->qp, n->qp->sq_tail)->flags = 0;
	rig_post(&n->r, n->qp);
	nic_rig_send(n, 2, 8);
	rig_run(&n->r);
	fake_nic_sent(n->ib, IBV_WC_SUCCESS);
	fake_nic_sent(n->ib, IBV_WC_SUCCESS);
	rig_run(&n->r);
	nic_rig_expect(n, 2, IBV_WC_SUCCESS);
	nic_rig_expect_none(n);
}

/* More than are fetched at once, and than the ring holds, again and again. */
static void laps_of_the_ring(void **state)
{
	struct nic_rig *n = *state;
	uint64_t id = 0, seen = 0;

	for (int lap = 0; lap < 20; lap++) {
		for (int i = 0; i < 13; i++)
			nic_rig_send(n, id++, 64);
		rig_run(&n->r);
		assert_int_equal(fake_nic_sends(n->ib), 13);
		for (int i = 0; i < 13; i++)
			fake_nic_sent(n->ib, IBV_WC_SUCCESS);
		rig_run(&n->r);
		while (seen < id)
			nic_rig_expect(n, seen++, IBV_WC_SUCCESS);
	}
	nic_rig_expect_none(n);
}

/* Each error status is the container's, with the NIC's vendor_err; behind it comes flush, in posting order. */
static void an_error_flushes_what_is_behind_it(void **state)
{
	(void)state;
	for (int st = IBV_WC_LOC_LEN_ERR; st <= IBV_WC_GENERAL_ERR; st++) {
		struct nic_rig rig, *n = &rig;
		struct ff_cqe c;

		if (st == IBV_WC_WR_FLUSH_ERR)
			continue;
		fake_nic_reset();
		fake_nic.flushes_late = true;
		nic_rig_open_rts(n, IBV_QPT_RC);
		for (uint64_t i = 0; i < 4; i++) {
			nic_rig_recv(n, 100 + i, 8);
			nic_rig_send(n, i, 8);
		}
		rig_run(&n->r);
		fake_nic_sent(n->ib, IBV_WC_SUCCESS);
		fake_nic_sent(n->ib, (enum ibv_wc_status)st);
		rig_run(&n->r);
		nic_rig_expect(n, 0, IBV_WC_SUCCESS);
		assert_true(rig_poll(n->cq, &c));
		assert_int_equal(c.wr_id, 1);
		assert_int_equal(c.status, st);
		assert_int_equal(n->qp->qp.state, IBV_QPS_ERR);
		assert_int_equal(n->wakes, 1);
		nic_rig_work(n);
		assert_int_equal(fake_nic_state(n->ib), IBV_QPS_ERR);
		/* posted afterwards: behind those that the NIC has */
		nic_rig_send(n, 50, 8);
		nic_rig_recv(n, 150, 8);
		rig_run(&n->r);
		nic_rig_expect_none(n);
		fake_nic_flush(n->ib);
		rig_run(&n->r);
		nic_rig_expect(n, 2, IBV_WC_WR_FLUSH_ERR);
		nic_rig_expect(n, 3, IBV_WC_WR_FLUSH_ERR);
		for (uint64_t i = 0; i < 4; i++)
			nic_rig_expect(n, 100 + i, IBV_WC_WR_FLUSH_ERR);
		nic_rig_expect(n, 50, IBV_WC_WR_FLUSH_ERR);
		nic_rig_expect(n, 150, IBV_WC_WR_FLUSH_ERR);
		nic_rig_expect_none(n);
		/* and later still */
		nic_rig_recv(n, 151, 8);
		nic_rig_send(n, 51, 8);
		rig_run(&n->r);
		nic_rig_expect(n, 51, IBV_WC_WR_FLUSH_ERR);
		nic_rig_expect(n, 151, IBV_WC_WR_FLUSH_ERR);
		nic_rig_expect_none(n);
		assert_int_equal(fake_nic_num_sends(), 4);
		nic_rig_close(n);
	}
}

/* As well if it was the container that took the QP to ERR, with a full window and more behind it in the ring. */
static void flush_waits_for_the_nic(void **state)
{
	struct nic_rig rig, *n = &rig;

	(void)state;
	fake_nic_reset();
	fake_nic.attr.max_qp_wr = 4;
	fake_nic.flushes_late = true;
	nic_rig_open_rts(n, IBV_QPT_RC);
	for (uint64_t i = 0; i < 10; i++) {
		nic_rig_recv(n, 100 + i, 8);
		nic_rig_send(n, i, 8);
	}
	rig_run(&n->r);
	assert_int_equal(fake_nic_sends(n->ib), 4);
	assert_int_equal(fake_nic_recvs(n->ib), 4);
	nic_rig_error(n);
	nic_rig_expect_none(n);
	while (fake_nic_sends(n->ib)) {
		fake_nic_sent(n->ib, IBV_WC_WR_FLUSH_ERR);
		rig_run(&n->r);
	}
	for (uint64_t i = 0; i < 4; i++)
		nic_rig_expect(n, i, IBV_WC_WR_FLUSH_ERR);
	nic_rig_expect_none(n); /* receives are there yet */
	fake_nic_flush(n->ib);
	rig_run(&n->r);
	for (uint64_t i = 0; i < 4; i++)
		nic_rig_expect(n, 100 + i, IBV_WC_WR_FLUSH_ERR);
	for (uint64_t i = 4; i < 10; i++)
		nic_rig_expect(n, i, IBV_WC_WR_FLUSH_ERR);
	for (uint64_t i = 4; i < 10; i++)
		nic_rig_expect(n, 100 + i, IBV_WC_WR_FLUSH_ERR);
	nic_rig_expect_none(n);
	assert_int_equal(fake_nic_num_sends(), 4);
	assert_int_equal(fake_nic_num_recvs(), 4);
	nic_rig_close(n);
}

/* What the NIC still carries out when the QP is to end counts as it ends. */
static void a_late_success_is_one(void **state)
{
	struct nic_rig *n = *state;

	fake_nic.flushes_late = true;
	nic_rig_send(n, 1, 8);
	nic_rig_send(n, 2, 8);
	rig_run(&n->r);
	rig_state(&n->r, n->qp, IBV_QPS_ERR);
	fake_nic_sent(n->ib, IBV_WC_SUCCESS);
	rig_run(&n->r);
	nic_rig_expect(n, 1, IBV_WC_SUCCESS);
	nic_rig_work(n);
	fake_nic_flush(n->ib);
	rig_run(&n->r);
	nic_rig_expect(n, 2, IBV_WC_WR_FLUSH_ERR);
	nic_rig_expect_none(n);
}

/* A UC QP goes to SQE: its sends are flushed, those of the NIC first, and receives go on. */
static void a_uc_qp_keeps_its_receives(void **state)
{
	struct nic_rig *n = *state;

	nic_rig_recv(n, 100, 8);
	for (uint64_t i = 0; i < 3; i++)
		nic_rig_send(n, i, 8);
	rig_run(&n->r);
	fake_nic_sent(n->ib, IBV_WC_LOC_PROT_ERR);
	rig_run(&n->r);
	nic_rig_expect(n, 0, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(n->qp->qp.state, IBV_QPS_SQE);
	nic_rig_send(n, 3, 8);
	rig_run(&n->r);
	nic_rig_expect_none(n);
	fake_nic_sent(n->ib, IBV_WC_WR_FLUSH_ERR);
	fake_nic_sent(n->ib, IBV_WC_WR_FLUSH_ERR);
	rig_run(&n->r);
	for (uint64_t i = 1; i < 4; i++)
		nic_rig_expect(n, i, IBV_WC_WR_FLUSH_ERR);
	nic_rig_expect_none(n);
	fake_nic_received(n->ib, IBV_WC_SUCCESS, 8, NULL);
	rig_run(&n->r);
	nic_rig_expect(n, 100, IBV_WC_SUCCESS);
	/* and back: the NIC hears of it, and WRs are posted again */
	rig_state(&n->r, n->qp, IBV_QPS_RTS);
	assert_int_equal(fake_nic.modify[(fake_nic.num_modify - 1) % 64].attr.qp_state,
			 IBV_QPS_RTS);
	nic_rig_send(n, 4, 8);
	rig_run(&n->r);
	assert_int_equal(fake_nic_sends(n->ib), 1);
	fake_nic_sent(n->ib, IBV_WC_SUCCESS);
	rig_run(&n->r);
	nic_rig_expect(n, 4, IBV_WC_SUCCESS);
}

/* ---- receives --------------------------------------------------------------------------------------- */

static void what_is_received(void **state)
{
	static const struct {
		struct ibv_wc wc;
		uint8_t opcode, flags;
	} cases[] = {
		{ { .opcode = IBV_WC_RECV }, FF_CQE_RECV, 0 },
		{ { .opcode = IBV_WC_RECV, .wc_flags = IBV_WC_WITH_IMM }, FF_CQE_RECV, FF_CQE_IMM },
		{ { .opcode = IBV_WC_RECV, .wc_flags = IBV_WC_WITH_INV }, FF_CQE_RECV, FF_CQE_INV },
		{ { .opcode = IBV_WC_RECV_RDMA_WITH_IMM, .wc_flags = IBV_WC_WITH_IMM },
		  FF_CQE_RECV | 1,
		  FF_CQE_IMM },
	};
	struct nic_rig *n = *state;
	struct ff_cqe c;

	for (unsigned i = 0; i < 4; i++) {
		struct ibv_wc wc = cases[i].wc;

		nic_rig_recv(n, i, 4096);
		rig_run(&n->r);
		wc.imm_data = htonl(0x01020304);
		wc.src_qp = 0x4321;
		fake_nic_received(n->ib, IBV_WC_SUCCESS, 1000 + i, &wc);
		rig_run(&n->r);
		assert_true(rig_poll(n->cq, &c));
		assert_int_equal(c.wr_id, i);
		assert_int_equal(c.status, IBV_WC_SUCCESS);
		assert_int_equal(c.opcode, cases[i].opcode);
		assert_int_equal(c.flags & (FF_CQE_IMM | FF_CQE_INV), cases[i].flags);
		assert_int_equal(c.byte_len, 1000 + i);
		assert_int_equal(c.imm, htonl(0x01020304));
		assert_int_equal(c.src_qp, 0x4321);
	}
	assert_int_equal(n->qp->qp.stats.recv_ops, 4);
	assert_int_equal(n->qp->qp.stats.rx_bytes, 1000 + 1001 + 1002 + 1003);
}

/* The NIC's goes to ERR by itself, when it has answered the peer; it is taken there if it does not. */
static void a_failed_receive_ends_the_qp(void **state)
{
	struct nic_rig *n = *state;

	nic_rig_recv(n, 1, 8);
	nic_rig_recv(n, 2, 8);
	nic_rig_send(n, 3, 8);
	rig_run(&n->r);
	fake_nic_received(n->ib, IBV_WC_LOC_LEN_ERR, 0, NULL);
	rig_run(&n->r);
	nic_rig_expect(n, 1, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(n->qp->qp.state, IBV_QPS_ERR);
	nic_rig_expect_none(n);
	nic_rig_work(n);
	rig_advance(&n->r, 19 * NS_PER_MS);
	nic_rig_work(n);
	assert_int_equal(fake_nic_state(n->ib), IBV_QPS_RTS);
	rig_advance(&n->r, 2 * NS_PER_MS);
	nic_rig_work(n);
	rig_run(&n->r);
	assert_int_equal(fake_nic_state(n->ib), IBV_QPS_ERR);
	nic_rig_expect(n, 3, IBV_WC_WR_FLUSH_ERR);
	nic_rig_expect(n, 2, IBV_WC_WR_FLUSH_ERR);
	nic_rig_expect_none(n);
}

static void a_failed_receive_does_not_end_a_uc_qp(void **state)
{
	struct nic_rig *n = *state;

	nic_rig_recv(n, 1, 8);
	rig_run(&n->r);
	fake_nic_received(n->ib, IBV_WC_LOC_LEN_ERR, 0, NULL);
	rig_run(&n->r);
	nic_rig_expect(n, 1, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(n->qp->qp.state, IBV_QPS_RTS);
}

/* ---- what is nobody's --------------------------------------------------------------------------------- */

static void push(struct nic_rig *n, uint64_t wr_id, uint32_t qpn)
{
	struct ibv_wc wc = { .wr_id = wr_id, .qp_num = qpn, .opcode = IBV_WC_SEND };

	fake_nic_push(n->ib->send_cq, &wc);
	rig_run(&n->r);
	nic_rig_expect_none(n);
	assert_int_equal(n->qp->qp.state, IBV_QPS_RTS);
}

static void nonsense_is_ignored(void **state)
{
	struct nic_rig *n = *state;
	struct nic_qp *nq = n->qp->qp.nic;
	uint32_t qpn = n->ib->qp_num;

	push(n, nic_id(nq, 0, 0), qpn); /* nothing is under way */
	push(n, nic_id(nq, NIC_ID_RECV, 0), qpn);
	nic_rig_recv(n, 1, 8);
	nic_rig_send(n, 2, 8);
	nic_rig_send(n, 3, 8);
	rig_run(&n->r);
	push(n, nic_id(nq, 0, 1), qpn); /* not the oldest */
	push(n, nic_id(nq, 0, 0), qpn + 1);
	push(n, nic_id(nq, 0, 0), 0);
	push(n, nic_id(nq, 0, UINT32_MAX), qpn);
	push(n, nic_id(nq, NIC_ID_RECV, 1), qpn);
	push(n, nic_id(nq, NIC_ID_RECV, UINT32_MAX), qpn);
	push(n, nic_id(nq, 0, 0) ^ 1ull << 48, qpn); /* another life */
	push(n, nic_id(nq, NIC_ID_RECV, 0) ^ 1ull << 63, qpn);
	fake_nic_sent(n->ib, IBV_WC_SUCCESS);
	fake_nic_sent(n->ib, IBV_WC_SUCCESS);
	fake_nic_received(n->ib, IBV_WC_SUCCESS, 8, NULL);
	rig_run(&n->r);
	nic_rig_expect(n, 2, IBV_WC_SUCCESS);
	nic_rig_expect(n, 3, IBV_WC_SUCCESS);
	nic_rig_expect(n, 1, IBV_WC_SUCCESS);
}

/* The wr_id of what was posted last. */
static uint64_t last_id(void)
{
	return fake_nic.log[fake_nic.num_log - 1].wr_id;
}

static void stale(struct nic_rig *n, const uint64_t *id, unsigned num)
{
	for (unsigned i = 0; i < num; i++) {
		struct ibv_wc wc = { .wr_id = id[i],
				     .qp_num = n->ib->qp_num,
				     .status = IBV_WC_RETRY_EXC_ERR };

		fake_nic_push(n->ib->send_cq, &wc);
	}
	rig_run(&n->r);
	nic_rig_expect_none(n);
	assert_int_equal(n->qp->qp.state, IBV_QPS_RTS);
}

/* A receive and a send are under way; their wr_ids. */
static void both(struct nic_rig *n, uint64_t id[2])
{
	nic_rig_recv(n, 1, 8);
	rig_run(&n->r);
	id[0] = last_id();
	nic_rig_send(n, 2, 8);
	rig_run(&n->r);
	id[1] = last_id();
}

/* What a NIC leaves in its CQ of before a RESET. */
static void a_former_life_is_ignored(void **state)
{
	struct nic_rig *n = *state;
	uint64_t id[8];

	for (unsigned life = 0; life < 4; life++) {
		both(n, id + 2 * life);
		stale(n, id, 2 * life);
		rig_state(&n->r, n->qp, IBV_QPS_RESET);
		nic_rig_connect(n, n->qp);
	}
	both(n, id);
	fake_nic_sent(n->ib, IBV_WC_SUCCESS);
	fake_nic_received(n->ib, IBV_WC_SUCCESS, 8, NULL);
	rig_run(&n->r);
	nic_rig_expect(n, 2, IBV_WC_SUCCESS);
	nic_rig_expect(n, 1, IBV_WC_SUCCESS);
}

/* It is there between the NIC's RESET and the container's, too. */
static void what_is_polled_after_a_reset_is_ignored(void **state)
{
	struct nic_rig *n = *state;
	uint64_t id[2];

	fake_nic.keeps_stale = true;
	both(n, id);
	fake_nic_sent(n->ib, IBV_WC_RETRY_EXC_ERR);
	fake_nic_received(n->ib, IBV_WC_SUCCESS, 8, NULL);
	rig_state(&n->r, n->qp, IBV_QPS_RESET);
	rig_run(&n->r);
	nic_rig_expect_none(n);
	assert_int_equal(n->qp->qp.state, IBV_QPS_RESET);
}

/* Completions of another QP that had the same number, however often that has begun anew. */
static void a_former_owner_of_the_number_is_ignored(void **state)
{
	struct nic_rig *n = *state;
	uint32_t qpn = n->ib->qp_num;
	uint64_t id[8], own[2];

	for (unsigned life = 0; life < 4; life++) {
		both(n, id + 2 * life);
		rig_state(&n->r, n->qp, IBV_QPS_RESET);
		nic_rig_connect(n, n->qp);
	}
	for (unsigned next = 0; next < 6; next++) {
		rig_qp_free(&n->r, n->qp);
		fake_nic.qpn[0] = qpn;
		fake_nic.qpn_at = 0;
		n->qp = rig_qp(&n->r, n->s, IBV_QPT_RC, n->cq, n->cq, NULL);
		n->ib = nic_rig_ib(n->qp);
		assert_int_equal(n->ib->qp_num, qpn);
		nic_rig_connect(n, n->qp);
		both(n, own);
		stale(n, id, 8);
		fake_nic_sent(n->ib, IBV_WC_SUCCESS);
		rig_run(&n->r);
		nic_rig_expect(n, 2, IBV_WC_SUCCESS);
	}
}

static void a_full_cq_ends_the_qp(void **state)
{
	struct nic_rig *n = *state;
	struct rig_cq *small = rig_cq(&n->r, n->s, 2, false);
	struct rig_qp *q = rig_qp(&n->r, n->s, IBV_QPT_RC, small, small, NULL);

	nic_rig_connect(n, q);
	for (uint64_t i = 0; i < 4; i++) {
		rig_sqe(q, FF_OP_WRITE, i);
		rig_post(&n->r, q);
	}
	rig_run(&n->r);
	for (int i = 0; i < 4; i++)
		fake_nic_sent(nic_rig_ib(q), IBV_WC_SUCCESS);
	rig_run(&n->r);
	assert_int_equal(q->qp.state, IBV_QPS_ERR);
	nic_rig_work(n);
	assert_int_equal(fake_nic_state(nic_rig_ib(q)), IBV_QPS_ERR);
	assert_int_equal(n->qp->qp.state, IBV_QPS_RTS);
	rig_qp_free(&n->r, q);
	rig_cq_free(&n->r, small);
}

int main(void)
{
	return UNIT_RUN(NIC_TEST(completions_come_in_order),
			NIC_TEST(unsignalled_ones_have_no_completion), NIC_TEST(laps_of_the_ring),
			cmocka_unit_test(an_error_flushes_what_is_behind_it),
			cmocka_unit_test(flush_waits_for_the_nic), NIC_TEST(a_late_success_is_one),
			NIC_TEST_UC(a_uc_qp_keeps_its_receives), NIC_TEST(what_is_received),
			NIC_TEST(a_failed_receive_ends_the_qp),
			NIC_TEST_UC(a_failed_receive_does_not_end_a_uc_qp),
			NIC_TEST(nonsense_is_ignored), NIC_TEST(a_former_life_is_ignored),
			NIC_TEST(what_is_polled_after_a_reset_is_ignored),
			NIC_TEST(a_former_owner_of_the_number_is_ignored),
			NIC_TEST(a_full_cq_ends_the_qp));
}
