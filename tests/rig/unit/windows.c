/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* windows.c - see windows.h. */
#include "tests/rig/unit/windows.h"

#include <stdlib.h>

void windows_up(struct pair *p, enum ibv_qp_type type)
{
	pair_up_with(p, type, 0, 1, BINDABLE);
}

void windows_down(struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		if (p->qp[i])
			rig_qp_free(&p->r, p->qp[i]);
		p->qp[i] = NULL;
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(p->mr[i]->o.refs, 0);
	pair_down(p);
}

void windows_revive(struct pair *p)
{
	struct ff_cqe c;

	for (int i = 0; i < 2; i++)
		rig_state(&p->r, p->qp[i], IBV_QPS_RESET);
	rig_connect(&p->r, p->qp[0], p->qp[1]);
	rig_connect(&p->r, p->qp[1], p->qp[0]);
	for (int i = 0; i < 2; i++) {
		while (rig_poll(p->cq[i], &c))
			;
		while (rig_async(p->s[i], NULL))
			;
	}
}

struct mw *window_new(struct rig_ses *s, enum ibv_mw_type type)
{
	struct mw *mw = calloc(1, sizeof(*mw));

	mw->pd = &s->pd;
	mw->type = type;
	mw->o.kind = OBJ_MW;
	mw->o.ses = &s->s;
	assert_int_equal(obj_insert(&s->s.tab[OBJ_MW], &mw->o), 0);
	assert_int_equal(mw_key_new(s->s.cont, mw), 0);
	return mw;
}

void window_free(struct pair *p, struct mw *mw)
{
	fast_mw_del(p->r.f, mw);
	obj_remove(&mw->o.ses->tab[OBJ_MW], &mw->o);
	free(mw);
}

enum ibv_wc_status window_bind_mr(struct pair *p, struct rig_qp *qp, const struct mw *mw,
				  const struct mr *mr, uint64_t off, uint64_t len, uint32_t access,
				  uint8_t low)
{
	struct ff_sqe *e = rig_sqe(qp, FF_OP_BIND_MW, 77);

	e->remote_addr = pair_at(p, 1, off);
	e->rkey = low;
	e->imm = access;
	e->bind.length = len;
	e->bind.mw = mw->o.handle;
	e->bind.lkey = mr->lkey;
	rig_post(&p->r, qp);
	rig_run(&p->r);
	return pair_status(p->cq[1], 77, IBV_WC_BIND_MW);
}

enum ibv_wc_status window_bind(struct pair *p, const struct mw *mw, uint64_t off, uint64_t len,
			       uint32_t access, uint8_t low)
{
	return window_bind_mr(p, p->qp[1], mw, p->mr[1], off, len, access, low);
}

enum ibv_wc_status window_local_inv(struct pair *p, uint32_t rkey)
{
	struct ff_sqe *e = rig_sqe(p->qp[1], FF_OP_LOCAL_INV, 78);

	e->imm = rkey;
	rig_post(&p->r, p->qp[1]);
	rig_run(&p->r);
	return pair_status(p->cq[1], 78, IBV_WC_LOCAL_INV);
}

enum ibv_wc_status window_rdma(struct pair *p, uint8_t op, uint64_t addr, uint32_t rkey,
			       uint32_t len)
{
	struct ff_sqe *e = rig_sqe(p->qp[0], op, 5);

	rig_sge(e, p->mr[0], pair_at(p, 0, 0), len);
	e->remote_addr = addr;
	e->rkey = rkey;
	e->atomic.compare_add = 1;
	e->atomic.swap = 0;
	rig_post(&p->r, p->qp[0]);
	rig_run(&p->r);
	return pair_status(p->cq[0], 5,
			   op == FF_OP_WRITE ? IBV_WC_RDMA_WRITE :
			   op == FF_OP_READ  ? IBV_WC_RDMA_READ :
					       IBV_WC_FETCH_ADD);
}

bool window_writes(struct pair *p, uint64_t off, uint32_t rkey, uint32_t len)
{
	enum ibv_wc_status st = window_rdma(p, FF_OP_WRITE, pair_at(p, 1, off), rkey, len);

	if (st == IBV_WC_SUCCESS)
		return true;
	assert_int_equal(st, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(rig_async(p->s[1], NULL), IBV_EVENT_QP_ACCESS_ERR + 1);
	windows_revive(p);
	return false;
}

void window_send_inv(struct pair *p, uint32_t rkey, uint32_t len)
{
	struct ff_sqe *e = rig_sqe(p->qp[0], FF_OP_SEND_INV, 6);

	rig_sge(e, p->mr[0], pair_at(p, 0, 0), len);
	e->imm = rkey;
	rig_post(&p->r, p->qp[0]);
	rig_run(&p->r);
}
