/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* fake_nic_wr.c - the fake NIC's ibv_wr_*(): WRs that become valid together. See fake_nic.h. */
#include "tests/rig/fakes/fake_nic_int.h"

#include <errno.h>
#include <string.h>

static struct fake_qp *ex_of(struct ibv_qp_ex *ex)
{
	struct fake_qp *q = (struct fake_qp *)ex;

	MUST(q->has_ex);
	return q;
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct fake_qp *q = ex_of(ex);

	MUST(!q->is_open);
	q->is_open = true;
	q->num_open = 0;
}

static struct ibv_send_wr *wr_new(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
	struct fake_qp *q = ex_of(ex);
	struct ibv_send_wr *wr = &q->open[q->num_open];

	MUST(q->is_open && q->num_open < QUEUE && !(ex->wr_flags & IBV_SEND_INLINE));
	*wr = (struct ibv_send_wr){ .wr_id = ex->wr_id,
				    .opcode = opcode,
				    .send_flags = ex->wr_flags,
				    .sg_list = q->open_of[q->num_open].sge };
	q->num_open++;
	return wr;
}

static void wr_send(struct ibv_qp_ex *ex)
{
	wr_new(ex, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	wr_new(ex, IBV_WR_SEND_WITH_IMM)->imm_data = imm;
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	wr_new(ex, IBV_WR_SEND_WITH_INV)->invalidate_rkey = rkey;
}

static void wr_rdma(struct ibv_qp_ex *ex, enum ibv_wr_opcode op, uint32_t rkey, uint64_t addr,
		    __be32 imm)
{
	struct ibv_send_wr *wr = wr_new(ex, op);

	wr->wr.rdma.rkey = rkey;
	wr->wr.rdma.remote_addr = addr;
	wr->imm_data = imm;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	wr_rdma(ex, IBV_WR_RDMA_WRITE, rkey, addr, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm)
{
	wr_rdma(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr, imm);
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	wr_rdma(ex, IBV_WR_RDMA_READ, rkey, addr, 0);
}

static void wr_atomic(struct ibv_qp_ex *ex, enum ibv_wr_opcode op, uint32_t rkey, uint64_t addr,
		      uint64_t compare_add, uint64_t swap)
{
	struct ibv_send_wr *wr = wr_new(ex, op);

	MUST(ex->qp_base.qp_type == IBV_QPT_RC);
	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.remote_addr = addr;
	wr->wr.atomic.compare_add = compare_add;
	wr->wr.atomic.swap = swap;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t compare,
			      uint64_t swap)
{
	wr_atomic(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, addr, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add)
{
	wr_atomic(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, addr, add, 0);
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *sge)
{
	struct fake_qp *q = ex_of(ex);

	MUST(q->num_open && n <= FAKE_NIC_SGE);
	q->open[q->num_open - 1].num_sge = (int)n;
	memcpy(q->open_of[q->num_open - 1].sge, sge, n * sizeof(*sge));
}

/* Its bytes are taken now. */
static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t len)
{
	struct fake_qp *q = ex_of(ex);
	struct ibv_send_wr *wr = &q->open[q->num_open - 1];

	MUST(q->num_open && len <= sizeof(q->open_of[0].data));
	memcpy(q->open_of[q->num_open - 1].data, addr, len);
	wr->sg_list[0] = (struct ibv_sge){ .addr = (uintptr_t)q->open_of[q->num_open - 1].data,
					   .length = (uint32_t)len };
	wr->num_sge = len != 0;
	wr->send_flags |= IBV_SEND_INLINE;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct fake_qp *q = ex_of(ex);
	int err = fake_fails(FAKE_wr_complete);

	MUST(q->is_open);
	q->is_open = false;
	fake_nic.calls[FAKE_post_send]++; /* each WR's `call` */
	if (!err && q->state < IBV_QPS_RTS)
		err = EINVAL;
	if (!err && fake_nic_sends(&q->ib) + q->num_open > q->init.cap.max_send_wr)
		err = ENOMEM;
	for (uint32_t i = 0; i < q->num_open && !err; i++)
		fake_send_one(q, &q->open[i]);
	if (!err && q->state == IBV_QPS_ERR && !fake_nic.flushes_late)
		fake_nic_flush(&q->ib);
	return err;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	MUST(ex_of(ex)->is_open);
	ex_of(ex)->is_open = false;
}

void fake_ex_init(struct ibv_qp_ex *ex)
{
	ex->wr_start = wr_start;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_send_inv = wr_send_inv;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
}
