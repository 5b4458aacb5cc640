/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/rig/unit/soft_pair.c tests/rig/unit/rig.c */
/*
 * test_local.c - WRs between connected QPs of this host when all is well: each operation, a peer that
 * comes late, a QP that is its own peer.
 */
#include <string.h>

#include "tests/rig/unit/soft_pair.h"
#include "tests/rig/unit/unit.h"

static void write_read(void **state)
{
	struct pair *p = *state;
	struct ff_stats st;
	uint64_t sum = 0;

	static const uint32_t len[] = { 0, 1, 7, 8, 9, 63, 64, 65, 4096, 4097, 300000 };
	for (unsigned i = 0; i < ARRAY_SIZE(len); i++) {
		for (uint32_t k = 0; k < len[i]; k++)
			p->buf[0][k + 3] = (uint8_t)(k * 7 + i);
		memset(p->buf[1], 0xee, PAIR_BUF);
		pair_rdma(p, FF_OP_WRITE, i, 3, 5, len[i]);
		rig_run(&p->r);
		pair_expect(p->cq[0], i, IBV_WC_SUCCESS);
		assert_memory_equal(p->buf[1] + 5, p->buf[0] + 3, len[i]);
		assert_int_equal(p->buf[1][4], 0xee);
		assert_int_equal(p->buf[1][5 + len[i]], 0xee);
		memset(p->buf[0] + 500000, 0, 400000);
		pair_rdma(p, FF_OP_READ, 100 + i, 500001, 5, len[i]);
		rig_run(&p->r);
		pair_expect(p->cq[0], 100 + i, IBV_WC_SUCCESS);
		assert_memory_equal(p->buf[0] + 500001, p->buf[1] + 5, len[i]);
		sum += len[i];
	}
	pair_expect_none(p->cq[1]);
	for (int i = 0; i < 2;
	     i++) { /* each end has sent and received the same, whoever asked for it */
		st = stats_of_session(&p->s[i]->s);
		assert_int_equal(st.tx_bytes, sum);
		assert_int_equal(st.rx_bytes, sum);
	}
}

/* A WRITE with immediate takes a receive and leaves that one's memory alone; also one of nothing. */
static void write_imm(void **state)
{
	struct pair *p = *state;
	static const uint32_t len[] = { 0, 1, 8, 64, 4097, 300000 };
	struct ff_sqe *e;
	struct ff_cqe c;

	for (unsigned i = 0; i < ARRAY_SIZE(len); i++) {
		memset(p->buf[0] + 3, (int)i + 1, len[i]);
		memset(p->buf[1], 0xee, PAIR_BUF);
		rig_recv(&p->r, p->qp[1], 50 + i, p->mr[1], pair_at(p, 1, 500000), 1);
		pair_rdma(p, FF_OP_WRITE_IMM, i, 3, 5, len[i]);
		rig_run(&p->r);
		pair_expect(p->cq[0], i, IBV_WC_SUCCESS);
		assert_true(rig_poll(p->cq[1], &c));
		assert_int_equal(c.wr_id, 50 + i);
		assert_int_equal(c.byte_len, len[i]);
		assert_int_equal(c.flags, FF_CQE_IMM);
		assert_int_equal(c.opcode, FF_CQE_RECV | 1);
		assert_memory_equal(p->buf[1] + 5, p->buf[0] + 3, len[i]);
		assert_int_equal(p->buf[1][5 + len[i]], 0xee);
		assert_int_equal(p->buf[1][500000], 0xee);
	}
	/* inline */
	rig_recv(&p->r, p->qp[1], 60, NULL, 0, 0);
	e = rig_sqe(p->qp[0], FF_OP_WRITE_IMM, 61);
	e->flags |= FF_SQE_INLINE;
	e->num_sge = 5;
	e->imm = 0x01020304;
	memcpy(e->inl, "abcde", 5);
	e->remote_addr = pair_at(p, 1, 70);
	e->rkey = p->mr[1]->rkey;
	rig_post(&p->r, p->qp[0]);
	rig_run(&p->r);
	pair_expect(p->cq[0], 61, IBV_WC_SUCCESS);
	assert_true(rig_poll(p->cq[1], &c));
	assert_int_equal(c.imm, 0x01020304);
	assert_memory_equal(p->buf[1] + 70, "abcde", 5);

	/* it waits for a receive, and has written nothing before */
	memset(p->buf[1], 0, 16);
	pair_rdma(p, FF_OP_WRITE_IMM, 62, 3, 5, 8);
	rig_run(&p->r);
	pair_expect_none(p->cq[0]);
	assert_int_equal(p->buf[1][5], 0);
	rig_recv(&p->r, p->qp[1], 63, NULL, 0, 0);
	rig_advance(&p->r, 10 * NS_PER_MS);
	pair_expect(p->cq[0], 62, IBV_WC_SUCCESS);
	pair_expect(p->cq[1], 63, IBV_WC_SUCCESS);
	assert_int_equal(p->buf[1][5], ARRAY_SIZE(len));
}

static void send_inline_and_split(void **state)
{
	struct pair *p = *state;
	struct ff_sqe *e;
	struct ff_cqe c;

	rig_recv(&p->r, p->qp[1], 7, p->mr[1], pair_at(p, 1, 10), 100);
	e = rig_sqe(p->qp[0], FF_OP_SEND_IMM, 1);
	e->flags |= FF_SQE_INLINE;
	e->num_sge = 11;
	e->imm = 0x12345678;
	memcpy(e->inl, "hello world", 11);
	rig_post(&p->r, p->qp[0]);
	rig_run(&p->r);
	pair_expect(p->cq[0], 1, IBV_WC_SUCCESS);
	assert_true(rig_poll(p->cq[1], &c));
	assert_int_equal(c.byte_len, 11);
	assert_int_equal(c.imm, 0x12345678);
	assert_int_equal(c.flags, FF_CQE_IMM);
	assert_int_equal(c.opcode, FF_CQE_RECV);
	assert_memory_equal(p->buf[1] + 10, "hello world", 11);

	/* three SGEs into one receive */
	for (int i = 0; i < 600; i++)
		p->buf[0][i] = (uint8_t)i;
	rig_recv(&p->r, p->qp[1], 8, p->mr[1], pair_at(p, 1, 1000), 600);
	e = rig_sqe(p->qp[0], FF_OP_SEND, 2);
	rig_sge(e, p->mr[0], pair_at(p, 0, 0), 100);
	rig_sge(e, p->mr[0], pair_at(p, 0, 100), 0);
	rig_sge(e, p->mr[0], pair_at(p, 0, 100), 500);
	rig_post(&p->r, p->qp[0]);
	rig_run(&p->r);
	pair_expect(p->cq[0], 2, IBV_WC_SUCCESS);
	pair_expect(p->cq[1], 8, IBV_WC_SUCCESS);
	assert_memory_equal(p->buf[1] + 1000, p->buf[0], 600);
}

static void late_peer_is_reached_at_once(void **state)
{
	struct pair *p = *state;

	rig_state(&p->r, p->qp[1], IBV_QPS_RESET);
	pair_rdma(p, FF_OP_WRITE, 1, 0, 0, 8);
	rig_run(&p->r);
	pair_expect_none(p->cq[0]);
	rig_connect(&p->r, p->qp[1], p->qp[0]);
	rig_run(&p->r);
	pair_expect(p->cq[0], 1, IBV_WC_SUCCESS);
}

/* A QP whose own path leads to another container does not answer, whatever QP number it names. */
static void a_peer_whose_path_does_not_lead_back(void **state)
{
	struct pair *p = *state;

	p->qp[1]->qp.dest = &p->r.cont[2];
	memset(p->buf[1], 0x55, 8);
	pair_rdma(p, FF_OP_WRITE, 1, 0, 0, 8);
	rig_run(&p->r);
	pair_wait_for_tries(p);
	pair_expect(p->cq[0], 1, IBV_WC_RETRY_EXC_ERR);
	assert_memory_equal(p->buf[1], "\x55\x55\x55\x55\x55\x55\x55\x55", 8);
}

/* The first message that a QP in RTR receives raises an event, and no further one does, however long it is. */
static void the_first_message_in_rtr(void **state)
{
	static const uint32_t len[] = { 8, 300000 };
	struct pair *p = *state;
	uint32_t h;

	for (unsigned i = 0; i < ARRAY_SIZE(len); i++) {
		rig_state(&p->r, p->qp[1], IBV_QPS_RESET);
		rig_state(&p->r, p->qp[1], IBV_QPS_INIT);
		rig_state(&p->r, p->qp[1], IBV_QPS_RTR);
		assert_int_equal(rig_async(p->s[1], NULL), 0);
		for (uint64_t k = 0; k < 3; k++) {
			pair_rdma(p, FF_OP_WRITE, k, 0, 0, len[i]);
			rig_run(&p->r);
			pair_expect(p->cq[0], k, IBV_WC_SUCCESS);
		}
		assert_int_equal(rig_async(p->s[1], &h), IBV_EVENT_COMM_EST + 1);
		assert_int_equal(h, p->qp[1]->qp.o.handle);
		assert_int_equal(rig_async(p->s[1], NULL), 0);
	}
}

static void a_qp_connected_to_itself(void **state)
{
	struct pair *p = *state;
	struct ff_sqe *e;

	rig_state(&p->r, p->qp[0], IBV_QPS_RESET);
	rig_connect(&p->r, p->qp[0], p->qp[0]);
	rig_recv(&p->r, p->qp[0], 9, p->mr[0], pair_at(p, 0, 100), 8);
	pair_send(p, 1, 8);
	rig_run(&p->r);
	pair_expect(p->cq[0], 9, IBV_WC_SUCCESS);
	pair_expect(p->cq[0], 1, IBV_WC_SUCCESS);
	/* its own error flushes the request under way exactly once */
	e = rig_sqe(p->qp[0], FF_OP_WRITE, 2);
	rig_sge(e, p->mr[0], pair_at(p, 0, 0), 8);
	e->rkey = 1;
	rig_post(&p->r, p->qp[0]);
	rig_run(&p->r);
	pair_expect(p->cq[0], 2, IBV_WC_WR_FLUSH_ERR);
	pair_expect_none(p->cq[0]);
}

int main(void)
{
	return UNIT_RUN(PAIR_TEST(write_read), PAIR_TEST(write_imm),
			PAIR_TEST(send_inline_and_split), PAIR_TEST(late_peer_is_reached_at_once),
			PAIR_TEST(a_peer_whose_path_does_not_lead_back),
			PAIR_TEST(the_first_message_in_rtr), PAIR_TEST(a_qp_connected_to_itself));
}
