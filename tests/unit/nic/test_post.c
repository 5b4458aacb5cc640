/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/nic_rig.c tests/rig/fakes/fake_nic.c tests/rig/fakes/fake_nic_wr.c tests/rig/fakes/fake_mlx5.c tests/rig/unit/rig.c */
/*
 * test_post.c - WRs and receives as the NIC gets them: translated, checked, several at once, and what becomes of
 * those that it does not take.
 */
#include "tests/rig/unit/nic_rig.h"
#include "ffr/abi/ff_verbs.h"
#include "tests/rig/fakes/fake_mlx5.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

static struct ff_sqe *sqe(struct nic_rig *n, uint8_t op, uint64_t wr_id)
{
	return rig_sqe(n->qp, op, wr_id);
}

static void post(struct nic_rig *n)
{
	rig_post(&n->r, n->qp);
}

/* ---- translation ------------------------------------------------------------------------------------ */

static void every_operation(void **state)
{
	static const struct {
		uint8_t op;
		enum ibv_wr_opcode to;
	} cases[] = {
		{ FF_OP_SEND, IBV_WR_SEND },
		{ FF_OP_SEND_IMM, IBV_WR_SEND_WITH_IMM },
		{ FF_OP_SEND_INV, IBV_WR_SEND_WITH_INV },
		{ FF_OP_WRITE, IBV_WR_RDMA_WRITE },
		{ FF_OP_WRITE_IMM, IBV_WR_RDMA_WRITE_WITH_IMM },
		{ FF_OP_READ, IBV_WR_RDMA_READ },
	};
	struct nic_rig *n = *state;

	for (unsigned i = 0; i < 6; i++) {
		struct ff_sqe *e = sqe(n, cases[i].op, i);
		const struct fake_nic_wr *w;

		rig_sge(e, n->mr, nic_rig_at(n, 100), 10);
		rig_sge(e, n->mr, nic_rig_at(n, 300), 0); /* nothing: it is left out */
		rig_sge(e, n->mr, nic_rig_at(n, 200), 20);
		e->remote_addr = 0x123456789abcull;
		e->rkey = 0x77;
		e->imm = htonl(0xdead0001);
		post(n);
		rig_run(&n->r);
		w = fake_nic_send_at(i);
		assert_ptr_equal(w->qp, n->ib);
		assert_int_equal(w->send.opcode, cases[i].to);
		assert_int_equal(w->send.send_flags, IBV_SEND_SIGNALED);
		assert_int_equal(w->send.imm_data, htonl(0xdead0001));
		assert_int_equal(w->send.wr.rdma.remote_addr, 0x123456789abcull);
		assert_int_equal(w->send.wr.rdma.rkey, 0x77);
		assert_int_equal(w->num_sge, 2);
		assert_int_equal(w->sge[0].addr, nic_rig_at(n, 100));
		assert_int_equal(w->sge[0].length, 10);
		assert_int_equal(w->sge[1].addr, nic_rig_at(n, 200));
		assert_int_equal(w->sge[1].length, 20);
		for (int k = 0; k < 2; k++)
			assert_int_equal(w->sge[k].lkey,
					 ((struct nic_mr *)n->mr->backend)->ib->lkey);
	}
}

static void atomics(void **state)
{
	struct nic_rig *n = *state;

	for (unsigned i = 0; i < 2; i++) {
		struct ff_sqe *e = sqe(n, i ? FF_OP_FETCH_ADD : FF_OP_CMP_SWAP, i);
		const struct fake_nic_wr *w;
		struct ff_cqe c;

		rig_sge(e, n->mr, nic_rig_at(n, 8), 8);
		e->remote_addr = 0x1000;
		e->rkey = 0x99;
		e->atomic.compare_add = 0x0102030405060708ull;
		e->atomic.swap = 0x1112131415161718ull;
		post(n);
		rig_run(&n->r);
		w = fake_nic_send_at(i);
		assert_int_equal(w->send.opcode,
				 i ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP);
		assert_int_equal(w->send.wr.atomic.remote_addr, 0x1000);
		assert_int_equal(w->send.wr.atomic.rkey, 0x99);
		assert_int_equal(w->send.wr.atomic.compare_add, 0x0102030405060708ull);
		if (!i)
			assert_int_equal(w->send.wr.atomic.swap, 0x1112131415161718ull);
		assert_int_equal(w->sge[0].addr, nic_rig_at(n, 8));
		fake_nic_sent(n->ib, IBV_WC_SUCCESS);
		rig_run(&n->r);
		assert_true(rig_poll(n->cq, &c));
		assert_int_equal(c.opcode, i ? IBV_WC_FETCH_ADD : IBV_WC_COMP_SWAP);
	}
}

static void flags(void **state)
{
	static const struct {
		uint8_t flag;
		unsigned int to;
	} cases[] = {
		{ FF_SQE_SOLICITED, IBV_SEND_SOLICITED },
		{ FF_SQE_FENCE, IBV_SEND_FENCE },
		{ FF_SQE_SOLICITED | FF_SQE_FENCE, IBV_SEND_SOLICITED | IBV_SEND_FENCE },
	};
	struct nic_rig *n = *state;

	for (unsigned i = 0; i < 3; i++) {
		sqe(n, FF_OP_SEND, i)->flags = cases[i].flag;
		post(n);
		rig_run(&n->r);
		assert_int_equal(fake_nic_send_at(i)->send.send_flags,
				 IBV_SEND_SIGNALED | cases[i].to);
		assert_int_equal(fake_nic_send_at(i)->num_sge, 0);
	}
}

/* Each has its own bytes, though the router has one place for them; those before and behind it keep their order. */
static void inline_data(void **state)
{
	struct nic_rig *n = *state;

	for (unsigned i = 0; i < 6; i++) {
		if (i % 3 == 2) {
			nic_rig_send(n, i, 8);
			continue;
		}
		struct ff_sqe *e = sqe(n, FF_OP_SEND, i);

		e->flags |= FF_SQE_INLINE;
		e->num_sge = (uint16_t)(20 + i);
		memset(e->inl, 'a' + (int)i, 20 + i);
		post(n);
	}
	sqe(n, FF_OP_SEND, 6)->flags |= FF_SQE_INLINE; /* of no length */
	post(n);
	rig_run(&n->r);
	assert_int_equal(fake_nic_num_sends(), 7);
	for (unsigned i = 0; i < 6; i++) {
		const struct fake_nic_wr *w = fake_nic_send_at(i);

		assert_int_equal((uint32_t)w->wr_id, i);
		assert_int_equal(w->num_sge, 1);
		if (i % 3 == 2) {
			assert_int_equal(w->sge[0].addr, nic_rig_at(n, 0));
			continue;
		}
		assert_int_equal(w->send.send_flags, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
		assert_int_equal(w->sge[0].length, 20 + i);
		for (unsigned k = 0; k < 20 + i; k++)
			assert_int_equal(w->data[k], 'a' + i);
	}
	assert_int_equal(fake_nic_send_at(6)->num_sge, 0);
}

/* ---- by ibv_wr_*() ------------------------------------------------------------------------------------ */

static int setup_wr(void **state)
{
	static struct nic_rig n;

	fake_nic_reset();
	fake_nic.has_wr = true;
	fake_nic.load_more = fake_mlx5_load;
	nic_rig_open_rts(&n, IBV_QPT_RC);
	*state = &n;
	return 0;
}

#define WR_TEST(name)                                                                              \
	{                                                                                          \
#name " by ibv_wr_*()", name, setup_wr, nic_rig_teardown, NULL                     \
	}

static void every_operation_of_wr(void **state)
{
	static const struct {
		uint8_t op;
		enum ibv_wr_opcode to;
		bool has_imm, has_addr;
	} cases[] = {
		{ FF_OP_SEND, IBV_WR_SEND, false, false },
		{ FF_OP_SEND_IMM, IBV_WR_SEND_WITH_IMM, true, false },
		{ FF_OP_SEND_INV, IBV_WR_SEND_WITH_INV, true, false },
		{ FF_OP_WRITE, IBV_WR_RDMA_WRITE, false, true },
		{ FF_OP_WRITE_IMM, IBV_WR_RDMA_WRITE_WITH_IMM, true, true },
		{ FF_OP_READ, IBV_WR_RDMA_READ, false, true },
	};
	struct nic_rig *n = *state;

	for (unsigned i = 0; i < 6; i++) {
		struct ff_sqe *e = sqe(n, cases[i].op, i);

		rig_sge(e, n->mr, nic_rig_at(n, 100), 10);
		rig_sge(e, n->mr, nic_rig_at(n, 200), 20);
		e->remote_addr = 0x123456789abcull;
		e->rkey = 0x77;
		e->imm = htonl(0xdead0001);
		post(n);
	}
	rig_run(&n->r);
	assert_int_equal(fake_nic.calls[FAKE_wr_complete], 1);
	for (unsigned i = 0; i < 6; i++) {
		const struct fake_nic_wr *w = fake_nic_send_at(i);

		assert_int_equal(w->send.opcode, cases[i].to);
		assert_int_equal((uint32_t)w->wr_id, i);
		assert_int_equal(w->send.send_flags, IBV_SEND_SIGNALED);
		assert_int_equal(w->num_sge, 2);
		assert_int_equal(w->sge[0].addr, nic_rig_at(n, 100));
		assert_int_equal(w->sge[1].length, 20);
		if (cases[i].has_imm)
			assert_int_equal(w->send.imm_data, htonl(0xdead0001));
		if (!cases[i].has_addr)
			continue;
		assert_int_equal(w->send.wr.rdma.remote_addr, 0x123456789abcull);
		assert_int_equal(w->send.wr.rdma.rkey, 0x77);
	}
}

/* Their bytes are in the NIC's queue at once, so they need no call of their own. */
static void inline_ones_share_a_call(void **state)
{
	struct nic_rig *n = *state;

	inline_data(state);
	assert_int_equal(fake_nic.calls[FAKE_wr_complete], 1);
	for (unsigned i = 0; i < 7; i++)
		fake_nic_sent(n->ib, IBV_WC_SUCCESS);
	rig_run(&n->r);
	for (uint64_t i = 0; i < 7; i++)
		nic_rig_expect(n, i, IBV_WC_SUCCESS);
}

/* Of four the NIC has taken the first: that ends well, the second with an error. */
static void only_the_first_goes(struct nic_rig *n)
{
	assert_int_equal(fake_nic_num_sends(), 1);
	fake_nic_sent(n->ib, IBV_WC_SUCCESS);
	rig_run(&n->r);
	nic_rig_expect(n, 0, IBV_WC_SUCCESS);
	nic_rig_expect(n, 1, IBV_WC_LOC_QP_OP_ERR);
	nic_rig_expect(n, 2, IBV_WC_WR_FLUSH_ERR);
	nic_rig_expect(n, 3, IBV_WC_WR_FLUSH_ERR);
	nic_rig_expect_none(n);
}

/* All or none: what was before them ends first. */
static void none_is_taken(void **state)
{
	struct nic_rig *n = *state;

	nic_rig_send(n, 0, 8);
	rig_run(&n->r);
	fake_nic_fail(FAKE_wr_complete, 1, ENOMEM);
	for (uint64_t i = 1; i < 4; i++)
		nic_rig_send(n, i, 8);
	rig_run(&n->r);
	nic_rig_expect_none(n);
	only_the_first_goes(n);
}

/* A NIC that has them, but not for such a QP. */
static void without_them(void **state)
{
	struct nic_rig *n = *state;
	struct rig_qp *q;

	fake_nic_fail(FAKE_create_qp_ex, 1, EOPNOTSUPP);
	q = rig_qp(&n->r, n->s, IBV_QPT_RC, n->cq, n->cq, NULL);
	nic_rig_connect(n, q);
	rig_sge(rig_sqe(q, FF_OP_SEND, 9), n->mr, nic_rig_at(n, 0), 8);
	rig_post(&n->r, q);
	rig_run(&n->r);
	assert_int_equal(fake_nic.calls[FAKE_wr_complete], 0);
	assert_int_equal(fake_nic_sends(nic_rig_ib(q)), 1);
	rig_qp_free(&n->r, q);
}

/* ---- several at once --------------------------------------------------------------------------------- */

static void one_call_for_several(void **state)
{
	struct nic_rig *n = *state;
	unsigned calls = fake_nic.calls[FAKE_post_send];

	for (uint64_t i = 0; i < 10; i++)
		nic_rig_send(n, i, 8);
	rig_run(&n->r);
	assert_int_equal(fake_nic.calls[FAKE_post_send], calls + 1);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal((uint32_t)fake_nic_send_at(i)->wr_id, i);
}

/* As many as the ring holds and a call does not; the window is the NIC's, and opens with each completion. */
static void a_full_window(void **state)
{
	struct nic_rig rig, *n = &rig;
	uint64_t id = 0, seen = 0;

	(void)state;
	fake_nic_reset();
	fake_nic.attr.max_qp_wr = 20;
	rig_depth = 64;
	nic_rig_open_rts(n, IBV_QPT_RC);
	rig_depth = 16;
	while (id < 64)
		nic_rig_send(n, id++, 8);
	rig_run(&n->r);
	assert_int_equal(fake_nic_sends(n->ib), 20);
	assert_true(fake_nic.calls[FAKE_post_send] < 20);
	while (seen < 64) {
		fake_nic_sent(n->ib, IBV_WC_SUCCESS);
		rig_run(&n->r);
		nic_rig_expect(n, seen++, IBV_WC_SUCCESS);
		assert_int_equal(fake_nic_sends(n->ib), 64 - seen < 20 ? 64 - seen : 20);
	}
	assert_int_equal(n->qp->qp.in_flight, 0);
	assert_false(n->qp->qp.busy);
	nic_rig_close(n);
}

static void two_qps_in_one_turn(void **state)
{
	struct nic_rig *n = *state;
	struct rig_qp *other = rig_qp(&n->r, n->s, IBV_QPT_RC, n->cq, n->cq, NULL);
	unsigned calls = fake_nic.calls[FAKE_post_send];

	nic_rig_connect(n, other);
	for (uint64_t i = 0; i < 3; i++) {
		nic_rig_send(n, i, 8);
		rig_sqe(other, FF_OP_WRITE, 10 + i);
		rig_post(&n->r, other);
	}
	rig_run(&n->r);
	assert_int_equal(fake_nic.calls[FAKE_post_send], calls + 2);
	assert_int_equal(fake_nic_sends(n->ib), 3);
	assert_int_equal(fake_nic_sends(nic_rig_ib(other)), 3);
	for (int i = 0; i < 3; i++)
		fake_nic_sent(nic_rig_ib(other), IBV_WC_SUCCESS);
	rig_run(&n->r);
	for (uint64_t i = 0; i < 3; i++)
		nic_rig_expect(n, 10 + i, IBV_WC_SUCCESS);
	rig_qp_free(&n->r, other);
}

/* ---- what the router itself finds wrong ----------------------------------------------------------------- */

enum wrong {
	NO_KEY,
	OTHERS_KEY,
	OTHER_PD,
	BEHIND,
	BEFORE,
	TOO_LONG,
	WRAPS,
	NO_WRITE,
	NO_NIC,
	NUM_WRONG
};

/* A WR with that in its second SGE. */
static enum ff_vendor_err post_wrong(struct nic_rig *n, enum wrong wrong, const struct mr *others,
				     const struct mr *same_pd, uint64_t wr_id)
{
	struct ff_sqe *e = sqe(n, wrong == NO_WRITE ? FF_OP_READ : FF_OP_WRITE, wr_id);
	struct ff_sge *bad = (struct ff_sge *)((uint8_t *)e + offsetof(struct ff_sqe, sge)) + 1;
	enum ff_vendor_err why = FF_VERR_LKEY;

	rig_sge(e, n->mr, nic_rig_at(n, 0), 8);
	rig_sge(e, n->mr, nic_rig_at(n, 64), 8);
	switch (wrong) {
	case NO_KEY:
		bad->lkey ^= 0x5a5a5a5a;
		break;
	case OTHERS_KEY:
	case OTHER_PD:
		bad->lkey = others->lkey;
		break;
	case BEHIND:
		bad->addr = nic_rig_at(n, NIC_RIG_BUF - 7);
		why = FF_VERR_LKEY_BOUNDS;
		break;
	case BEFORE:
		bad->addr = nic_rig_at(n, 0) - 1;
		why = FF_VERR_LKEY_BOUNDS;
		break;
	case TOO_LONG:
		bad->length = NIC_RIG_BUF;
		why = FF_VERR_LKEY_BOUNDS;
		break;
	case WRAPS:
		bad->addr = UINT64_MAX - 3;
		why = FF_VERR_LKEY_BOUNDS;
		break;
	case NO_WRITE:
	case NO_NIC:
	case NUM_WRONG:
		bad->lkey = same_pd->lkey;
		bad->addr = same_pd->addr;
		why = wrong == NO_WRITE ? FF_VERR_LKEY_ACCESS : FF_VERR_LKEY;
		break;
	}
	post(n);
	return why;
}

/* It ends in its turn: not before those that the NIC has, which do well, and the NIC never sees it. */
static void wrong_memory_ends_in_its_turn(void **state)
{
	static uint8_t more[64];

	(void)state;
	for (enum wrong wrong = 0; wrong < NUM_WRONG; wrong++) {
		struct nic_rig rig, *n = &rig;
		struct rig_ses *s;
		struct mr *others, *same_pd;
		enum ff_vendor_err why;
		struct ff_cqe c;

		fake_nic_reset();
		nic_rig_open_rts(n, IBV_QPT_RC);
		s = rig_session(&n->r, wrong == OTHER_PD ? 0 : 1);
		others = rig_mr(&n->r, s, more, sizeof(more), NIC_RIG_ACCESS);
		same_pd = wrong == NO_NIC ?
				  rig_mr_pvm(&n->r, n->s, more, sizeof(more), NIC_RIG_ACCESS) :
				  rig_mr(&n->r, n->s, more, sizeof(more), IBV_ACCESS_REMOTE_READ);
		nic_rig_send(n, 0, 8);
		nic_rig_send(n, 1, 8);
		why = post_wrong(n, wrong, others, same_pd, 2);
		nic_rig_send(n, 3, 8);
		rig_run(&n->r);
		assert_int_equal(fake_nic_num_sends(), 2);
		nic_rig_expect_none(n);
		fake_nic_sent(n->ib, IBV_WC_SUCCESS);
		rig_run(&n->r);
		nic_rig_expect(n, 0, IBV_WC_SUCCESS);
		nic_rig_expect_none(n);
		fake_nic_sent(n->ib, IBV_WC_SUCCESS);
		rig_run(&n->r);
		nic_rig_expect(n, 1, IBV_WC_SUCCESS);
		assert_true(rig_poll(n->cq, &c));
		assert_int_equal(c.wr_id, 2);
		assert_int_equal(c.status, IBV_WC_LOC_PROT_ERR);
		assert_int_equal(c.vendor_err, why);
		nic_rig_expect(n, 3, IBV_WC_WR_FLUSH_ERR);
		nic_rig_expect_none(n);
		assert_int_equal(fake_nic_num_sends(), 2);
		assert_int_equal(n->qp->qp.state, IBV_QPS_ERR);
		rig_mr_free(&n->r, others);
		rig_mr_free(&n->r, same_pd);
		rig_session_free(&n->r, s);
		nic_rig_close(n);
	}
}

/* Of an SGE of nothing nobody looks at the key. */
static void the_key_of_nothing_is_not_looked_at(void **state)
{
	struct nic_rig *n = *state;
	struct mr none = { .lkey = 0xdeadbeef };

	rig_sge(sqe(n, FF_OP_WRITE, 1), &none, 1, 0);
	post(n);
	rig_run(&n->r);
	assert_int_equal(fake_nic_send_at(0)->num_sge, 0);
	assert_int_equal(n->qp->qp.state, IBV_QPS_RTS);
}

static void a_message_longer_than_the_port_allows(void **state)
{
	struct nic_rig rig, *n = &rig;

	(void)state;
	fake_nic_reset();
	fake_nic.port.max_msg_sz = 4096;
	nic_rig_open_rts(n, IBV_QPT_RC);
	nic_rig_send(n, 1, 4096);
	nic_rig_send(n, 2, 4097);
	rig_run(&n->r);
	fake_nic_sent(n->ib, IBV_WC_SUCCESS);
	rig_run(&n->r);
	nic_rig_expect(n, 1, IBV_WC_SUCCESS);
	nic_rig_expect(n, 2, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(fake_nic_num_sends(), 1);
	nic_rig_close(n);
}

/* What only the software device has, and what nobody has. */
static void operations_that_the_nic_has_not(void **state)
{
	static const uint8_t ops[] = { FF_OP_BIND_MW,
				       FF_OP_LOCAL_INV,
				       FF_OP_FLUSH,
				       FF_OP_ATOMIC_WRITE,
				       0,
				       FF_OP_NUM,
				       200,
				       255 };

	(void)state;
	for (unsigned i = 0; i < sizeof(ops); i++) {
		struct nic_rig rig, *n = &rig;
		struct ff_sqe *e;

		fake_nic_reset();
		nic_rig_open_rts(n, IBV_QPT_RC);
		e = sqe(n, ops[i], 1);
		if (ops[i] == FF_OP_FLUSH) {
			e->flush.types = FF_FLUSH_GLOBAL;
			e->flush.length = 8;
		}
		post(n);
		rig_run(&n->r);
		nic_rig_expect(n, 1, IBV_WC_LOC_QP_OP_ERR);
		assert_int_equal(fake_nic_num_sends(), 0);
		nic_rig_close(n);
	}
}

/* An SQE of random bytes either ends with an error, or the NIC gets what is in the bounds of the container's MRs. */
static void garbage_does_not_reach_the_nic(void **state)
{
	(void)state;
	srandom(1);
	for (int round = 0; round < 1000; round++) {
		struct nic_rig rig, *n = &rig;
		struct ff_sqe *e;
		unsigned got;

		fake_nic_reset();
		nic_rig_open_rts(n, round % 2 ? IBV_QPT_RC : IBV_QPT_UC);
		e = sqe(n, FF_OP_SEND, 1);
		for (uint32_t k = sizeof(e->seq); k < n->qp->qp.sq.stride; k++)
			if (random() % 4)
				((uint8_t *)e)[k] = (uint8_t)random();
		if (round % 3) {
			e->opcode = (uint8_t)(random() % 16);
			e->num_sge = (uint16_t)(random() % 8);
		}
		if (round % 5 == 0)
			e->sge[0].lkey = n->mr->lkey;
		post(n);
		rig_run(&n->r);
		got = fake_nic_num_sends();
		for (unsigned i = 0; i < got; i++) {
			const struct fake_nic_wr *w = fake_nic_send_at(i);

			assert_true(w->num_sge <= 4);
			for (int k = 0; k < w->num_sge; k++) {
				if (w->send.send_flags & IBV_SEND_INLINE) {
					assert_true(w->sge[k].length <= 64);
					continue;
				}
				assert_true(w->sge[k].addr >= nic_rig_at(n, 0));
				assert_true(w->sge[k].addr + w->sge[k].length <=
					    nic_rig_at(n, NIC_RIG_BUF));
			}
		}
		assert_true(got ? n->qp->qp.state == IBV_QPS_RTS :
				  n->qp->qp.state == IBV_QPS_ERR || n->qp->qp.state == IBV_QPS_SQE);
		nic_rig_close(n);
	}
}

/* ---- what it does not take ---------------------------------------------------------------------------------- */

/* Of ten the first `takes`; those end, then comes an error, then flush. */
static void a_part_is_taken(void **state)
{
	(void)state;
	for (unsigned takes = 0; takes < 10; takes++) {
		struct nic_rig rig, *n = &rig;

		fake_nic_reset();
		nic_rig_open_rts(n, IBV_QPT_RC);
		nic_rig_recv(n, 100, 8);
		rig_run(&n->r);
		fake_nic_take(takes);
		for (uint64_t i = 0; i < 10; i++)
			nic_rig_send(n, i, 8);
		rig_run(&n->r);
		nic_rig_send(n, 10, 8); /* behind them, though there is room */
		rig_run(&n->r);
		assert_int_equal(fake_nic_num_sends(), takes);
		for (uint64_t i = 0; i < takes; i++) {
			nic_rig_expect_none(n);
			fake_nic_sent(n->ib, IBV_WC_SUCCESS);
			rig_run(&n->r);
			nic_rig_expect(n, i, IBV_WC_SUCCESS);
		}
		nic_rig_expect(n, takes, IBV_WC_LOC_QP_OP_ERR);
		assert_int_equal(n->qp->qp.state, IBV_QPS_ERR);
		nic_rig_work(n);
		rig_run(&n->r);
		for (uint64_t i = takes + 1; i < 10; i++)
			nic_rig_expect(n, i, IBV_WC_WR_FLUSH_ERR);
		nic_rig_expect(n, 100, IBV_WC_WR_FLUSH_ERR);
		nic_rig_expect(n, 10, IBV_WC_WR_FLUSH_ERR);
		nic_rig_expect_none(n);
		assert_int_equal(n->qp->qp.in_flight, 0);
		assert_int_equal(fake_nic_num_sends(), takes);
		nic_rig_close(n);
	}
}

/* One of those that were taken fails: those that were not are flushed as all behind it. */
static void an_error_before_what_is_not_taken(void **state)
{
	struct nic_rig *n = *state;

	fake_nic_take(3);
	for (uint64_t i = 0; i < 6; i++)
		nic_rig_send(n, i, 8);
	rig_run(&n->r);
	fake_nic_sent(n->ib, IBV_WC_REM_ACCESS_ERR);
	rig_run(&n->r);
	nic_rig_expect(n, 0, IBV_WC_REM_ACCESS_ERR);
	nic_rig_work(n);
	rig_run(&n->r);
	for (uint64_t i = 1; i < 6; i++)
		nic_rig_expect(n, i, IBV_WC_WR_FLUSH_ERR);
	nic_rig_expect_none(n);
}

/*
 * A whole call fails while the next WR is at hand: of one QP, since more are posted than a call takes. Each ends
 * once, and that WR is not posted to a QP in error.
 */
static void the_wr_at_hand_when_a_call_fails(void **state)
{
	(void)state;
	for (unsigned takes = 0; takes < 16; takes += 5)
		for (int uc = 0; uc < 2; uc++) {
			struct nic_rig rig, *n = &rig;

			fake_nic_reset();
			rig_depth = 64;
			nic_rig_open_rts(n, uc ? IBV_QPT_UC : IBV_QPT_RC);
			rig_depth = 16;
			fake_nic_take(takes);
			for (uint64_t i = 0; i < 40; i++)
				nic_rig_send(n, i, 8);
			rig_run(&n->r);
			assert_int_equal(fake_nic_num_sends(), takes);
			while (fake_nic_sends(n->ib))
				fake_nic_sent(n->ib, IBV_WC_SUCCESS);
			rig_run(&n->r);
			nic_rig_work(n);
			rig_run(&n->r);
			for (uint64_t i = 0; i < 40; i++)
				nic_rig_expect(n, i,
					       i < takes  ? IBV_WC_SUCCESS :
					       i == takes ? IBV_WC_LOC_QP_OP_ERR :
							    IBV_WC_WR_FLUSH_ERR);
			nic_rig_expect_none(n);
			assert_int_equal(fake_nic_num_sends(), takes);
			assert_int_equal(n->qp->qp.state, uc ? IBV_QPS_SQE : IBV_QPS_ERR);
			assert_int_equal(n->qp->qp.in_flight, 0);
			assert_false(n->qp->qp.busy);
			nic_rig_close(n);
		}
}

static void an_inline_one_that_is_not_taken(void **state)
{
	struct nic_rig *n = *state;

	fake_nic_fail(FAKE_post_send, 2, ENOMEM);
	for (uint64_t i = 0; i < 4; i++) {
		struct ff_sqe *e = sqe(n, FF_OP_SEND, i);

		e->flags |= FF_SQE_INLINE;
		e->num_sge = 4;
		post(n);
	}
	rig_run(&n->r);
	only_the_first_goes(n);
}

/* ---- limits ------------------------------------------------------------------------------------------------- */

static void a_limit_holds(void **state)
{
	struct nic_rig *n = *state;
	struct ffo_limits limits = { .tx_rate = 10000000 }; /* bytes per second */
	uint64_t start = n->r.f->now, id = 0;

	fast_container_limits(&n->r.cont[0], &limits);
	/* 2 MB: 200 ms */
	for (uint64_t moved = 0; moved < 2000000; moved += 10000) {
		nic_rig_send(n, id++, 10000);
		rig_run(&n->r);
		while (!fake_nic_sends(n->ib))
			rig_advance(&n->r, 100000);
		fake_nic_sent(n->ib, IBV_WC_SUCCESS);
		rig_run(&n->r);
		nic_rig_expect(n, id - 1, IBV_WC_SUCCESS);
	}
	assert_in_range(n->r.f->now - start, 190000000, 210000000);
	assert_true(n->qp->qp.stats.throttled_ns > 0);
}

/* ---- receives ------------------------------------------------------------------------------------------------ */

static void receives_as_they_are_posted(void **state)
{
	struct nic_rig *n = *state;

	for (uint64_t i = 0; i < 5; i++) {
		nic_rig_recv(n, 100 + i, 10 + (uint32_t)i);
		rig_run(&n->r);
		assert_int_equal(fake_nic_num_recvs(), i + 1);
		assert_int_equal(fake_nic_recv_at((unsigned)i)->num_sge, 1);
		assert_int_equal(fake_nic_recv_at((unsigned)i)->sge[0].addr, nic_rig_at(n, 0));
		assert_int_equal(fake_nic_recv_at((unsigned)i)->sge[0].length, 10 + i);
		assert_int_equal(fake_nic_recv_at((unsigned)i)->sge[0].lkey,
				 ((struct nic_mr *)n->mr->backend)->ib->lkey);
	}
	for (uint64_t i = 0; i < 5; i++) {
		fake_nic_received(n->ib, IBV_WC_SUCCESS, 1, NULL);
		rig_run(&n->r);
		nic_rig_expect(n, 100 + i, IBV_WC_SUCCESS);
	}
}

/* More than the NIC takes: the next one goes when one has ended. */
static void a_full_receive_queue(void **state)
{
	struct nic_rig rig, *n = &rig;

	(void)state;
	fake_nic_reset();
	fake_nic.attr.max_qp_wr = 4;
	nic_rig_open_rts(n, IBV_QPT_RC);
	for (uint64_t i = 0; i < 16; i++)
		nic_rig_recv(n, i, 8);
	rig_run(&n->r);
	for (uint64_t i = 0; i < 40; i++) {
		assert_int_equal(fake_nic_recvs(n->ib), 4);
		fake_nic_received(n->ib, IBV_WC_SUCCESS, 1, NULL);
		rig_run(&n->r);
		nic_rig_expect(n, i, IBV_WC_SUCCESS);
		nic_rig_recv(n, 16 + i, 8);
		rig_run(&n->r);
	}
	nic_rig_close(n);
}

/* A receive whose memory is not the container's has none: no message fits but an empty one. */
static void a_receive_of_wrong_memory(void **state)
{
	struct nic_rig *n = *state;
	struct mr wrong = { .lkey = n->mr->lkey ^ 0x5a5a };
	struct ff_rqe *half;

	rig_recv(&n->r, n->qp, 1, &wrong, nic_rig_at(n, 0), 8);
	rig_recv(&n->r, n->qp, 2, n->mr, nic_rig_at(n, NIC_RIG_BUF - 7), 8);
	((struct ff_rqe *)(n->qp->qp.rq.ring + 2 * (size_t)n->qp->qp.rq.stride))->num_sge = 9;
	n->qp->rq_tail++;
	atomic_store(&((struct ff_rqe *)(n->qp->qp.rq.ring + 2 * (size_t)n->qp->qp.rq.stride))->seq,
		     ff_seq(2)); /* more SGEs than the QP has */
	/* one of whose two SGEs is right */
	half = (struct ff_rqe *)(n->qp->qp.rq.ring + 3 * (size_t)n->qp->qp.rq.stride);
	half->num_sge = 2;
	half->sge[0] = (struct ff_sge){ nic_rig_at(n, 0), 8, n->mr->lkey };
	half->sge[1] = (struct ff_sge){ nic_rig_at(n, 0), 8, wrong.lkey };
	n->qp->rq_tail++;
	atomic_store(&half->seq, ff_seq(3));
	nic_rig_recv(n, 5, 8);
	rig_run(&n->r);
	assert_int_equal(fake_nic_num_recvs(), 5);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(fake_nic_recv_at(i)->num_sge, i == 4);
	assert_int_equal(n->qp->qp.stats.bad_wqes, 1);
}

/* One that the NIC does not take is lost to nobody: the QP ends, and it is flushed with the others. */
static void a_receive_that_is_not_taken(void **state)
{
	struct nic_rig *n = *state;

	nic_rig_recv(n, 1, 8);
	rig_run(&n->r);
	fake_nic_fail(FAKE_post_recv, 1, ENOMEM);
	nic_rig_recv(n, 2, 8);
	nic_rig_recv(n, 3, 8);
	rig_run(&n->r);
	assert_int_equal(n->qp->qp.state, IBV_QPS_ERR);
	assert_int_equal(rig_async(n->s, NULL), IBV_EVENT_QP_FATAL + 1);
	nic_rig_work(n);
	rig_run(&n->r);
	for (uint64_t i = 1; i < 4; i++)
		nic_rig_expect(n, i, IBV_WC_WR_FLUSH_ERR);
	nic_rig_expect_none(n);
}

int main(void)
{
	return UNIT_RUN(
		NIC_TEST(every_operation), NIC_TEST(atomics), NIC_TEST(flags),
		NIC_TEST(inline_data), WR_TEST(every_operation_of_wr), WR_TEST(atomics),
		WR_TEST(flags), WR_TEST(inline_ones_share_a_call), WR_TEST(none_is_taken),
		WR_TEST(without_them), WR_TEST(one_call_for_several), WR_TEST(two_qps_in_one_turn),
		WR_TEST(the_key_of_nothing_is_not_looked_at), WR_TEST(a_limit_holds),
		NIC_TEST(one_call_for_several), cmocka_unit_test(a_full_window),
		NIC_TEST(two_qps_in_one_turn), cmocka_unit_test(wrong_memory_ends_in_its_turn),
		NIC_TEST(the_key_of_nothing_is_not_looked_at),
		cmocka_unit_test(a_message_longer_than_the_port_allows),
		cmocka_unit_test(operations_that_the_nic_has_not),
		cmocka_unit_test(garbage_does_not_reach_the_nic), cmocka_unit_test(a_part_is_taken),
		NIC_TEST(an_error_before_what_is_not_taken),
		cmocka_unit_test(the_wr_at_hand_when_a_call_fails),
		NIC_TEST(an_inline_one_that_is_not_taken), NIC_TEST(a_limit_holds),
		NIC_TEST(receives_as_they_are_posted), cmocka_unit_test(a_full_receive_queue),
		NIC_TEST(a_receive_of_wrong_memory), NIC_TEST(a_receive_that_is_not_taken));
}
