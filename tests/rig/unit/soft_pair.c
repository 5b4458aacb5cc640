/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* soft_pair.c - see soft_pair.h. */
#include "tests/rig/unit/soft_pair.h"
#include "tests/rig/unit/cqe.h"

#include <stdlib.h>
#include <string.h>

void pair_up_with(struct pair *p, enum ibv_qp_type type, int c0, int c1, uint32_t access)
{
	rig_init(&p->r, &soft_ops);
	for (int i = 0; i < 2; i++) {
		p->s[i] = rig_session(&p->r, i ? c1 : c0);
		p->cq[i] = rig_cq(&p->r, p->s[i], 64, true);
		p->qp[i] = rig_qp(&p->r, p->s[i], type, p->cq[i], p->cq[i], NULL);
		p->buf[i] = aligned_alloc(4096, PAIR_BUF);
		memset(p->buf[i], 0xa0 + i, PAIR_BUF);
		p->mr[i] = rig_mr(&p->r, p->s[i], p->buf[i], PAIR_BUF, access);
	}
	rig_connect(&p->r, p->qp[0], p->qp[1]);
	rig_connect(&p->r, p->qp[1], p->qp[0]);
}

void pair_up(struct pair *p, enum ibv_qp_type type, int c0, int c1)
{
	pair_up_with(p, type, c0, c1, PAIR_ACCESS);
}

void pair_down(struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		if (p->qp[i])
			rig_qp_free(&p->r, p->qp[i]);
		rig_mr_free(&p->r, p->mr[i]);
		rig_cq_free(&p->r, p->cq[i]);
		rig_session_free(&p->r, p->s[i]);
		free(p->buf[i]);
	}
	rig_fini(&p->r);
}

int pair_setup(void **state)
{
	static struct pair p;

	pair_up(&p, IBV_QPT_RC, 0, 1);
	*state = &p;
	return 0;
}

int pair_teardown(void **state)
{
	pair_down(*state);
	return 0;
}

uint64_t pair_at(const struct pair *p, int i, uint64_t off)
{
	return (uintptr_t)p->buf[i] + off;
}

void pair_rdma(struct pair *p, uint8_t op, uint64_t id, uint64_t loff, uint64_t roff, uint32_t len)
{
	struct ff_sqe *e = rig_sqe(p->qp[0], op, id);

	rig_sge(e, p->mr[0], pair_at(p, 0, loff), len);
	e->remote_addr = pair_at(p, 1, roff);
	e->rkey = p->mr[1]->rkey;
	rig_post(&p->r, p->qp[0]);
}

void pair_send(struct pair *p, uint64_t id, uint32_t len)
{
	rig_sge(rig_sqe(p->qp[0], FF_OP_SEND, id), p->mr[0], pair_at(p, 0, 0), len);
	rig_post(&p->r, p->qp[0]);
}

void pair_spoil_pd(struct pair *p, struct ff_sqe *e)
{
	static struct pd other;

	(void)e;
	p->mr[1]->pd = &other;
}

void pair_expect(struct rig_cq *cq, uint64_t wr_id, enum ibv_wc_status st)
{
	struct ff_cqe c;

	cqe_is(rig_poll(cq, &c), &c, wr_id, st);
}

void pair_expect_none(struct rig_cq *cq)
{
	struct ff_cqe c;

	assert_false(rig_poll(cq, &c));
}

enum ibv_wc_status pair_status(struct rig_cq *cq, uint64_t wr_id, enum ibv_wc_opcode op)
{
	struct ff_cqe c;

	assert_true(rig_poll(cq, &c));
	assert_int_equal(c.wr_id, wr_id);
	if (c.status == IBV_WC_SUCCESS)
		assert_int_equal(c.opcode, op);
	return c.status;
}

void pair_wait_for_tries(struct pair *p)
{
	for (int i = 0; i < PAIR_TRIES * 4; i++) {
		if (i < PAIR_TRIES)
			pair_expect_none(p->cq[0]);
		rig_advance(&p->r, PAIR_TIMEOUT);
	}
}
