/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * post.c - WRs and receives on their way to the NIC: checked, with the NIC's keys in the place of the
 * container's, several at once. Runner. [lock]
 */
#include "ffr/nic/nic.h"

#include <string.h>

#include "ffr/mem/shadow.h"
#include "ffr/soft/soft.h"

/* ---- memory -------------------------------------------------------------------------------------------- */

/* Translate an SGE to the NIC's lkey and address. */
static enum ff_vendor_err to_nic(const struct container *c, const struct pd *pd,
				 const struct ff_sge *sge, uint32_t access, struct ibv_sge *to)
{
	const struct mr *mr = key_lookup(&c->keys, sge->lkey);
	const struct nic_mr *nm;

	if (!mr || mr->pd != pd || shadow_gone(mr) || !mr->backend)
		return FF_VERR_LKEY;
	if (sge->addr - mr->iova > mr->length || sge->length > mr->length - (sge->addr - mr->iova))
		return FF_VERR_LKEY_BOUNDS;
	if ((mr->access & access) != access)
		return FF_VERR_LKEY_ACCESS;
	nm = mr->backend;
	*to = (struct ibv_sge){ .addr = nm->base + (sge->addr - mr->iova),
				.length = sge->length,
				.lkey = nm->ib->lkey };
	return FF_VERR_NONE;
}

enum ff_vendor_err nic_sges(const struct container *c, const struct pd *pd,
			    const struct ff_sge *sge, uint32_t n, uint32_t access,
			    struct ibv_sge *to, int *num)
{
	enum ff_vendor_err why;

	*num = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (!sge[i].length) /* its key is not looked at (IBTA 10.6.3.2) */
			continue;
		why = to_nic(c, pd, &sge[i], access, &to[*num]);
		if (why)
			return why;
		++*num;
	}
	return FF_VERR_NONE;
}

static enum ff_vendor_err all_to_nic(const struct qp *qp, const struct ff_sge *sge, uint32_t n,
				     uint32_t access, struct ibv_sge *to, int *num)
{
	return nic_sges(qp->o.ses->cont, qp->pd, sge, n, access, to, num);
}

/* ---- WRs ------------------------------------------------------------------------------------------------- */

static const struct {
	enum ibv_wr_opcode opcode;
	bool is_known;
} op[FF_OP_NUM] = {
	[FF_OP_SEND] = { IBV_WR_SEND, true },
	[FF_OP_SEND_IMM] = { IBV_WR_SEND_WITH_IMM, true },
	[FF_OP_SEND_INV] = { IBV_WR_SEND_WITH_INV, true },
	[FF_OP_WRITE] = { IBV_WR_RDMA_WRITE, true },
	[FF_OP_WRITE_IMM] = { IBV_WR_RDMA_WRITE_WITH_IMM, true },
	[FF_OP_READ] = { IBV_WR_RDMA_READ, true },
	[FF_OP_CMP_SWAP] = { IBV_WR_ATOMIC_CMP_AND_SWP, true },
	[FF_OP_FETCH_ADD] = { IBV_WR_ATOMIC_FETCH_AND_ADD, true },
};

static unsigned int flags_of(const struct send_wr *wr)
{
	return IBV_SEND_SIGNALED | (wr->flags & FF_SQE_SOLICITED ? IBV_SEND_SOLICITED : 0) |
	       (wr->flags & FF_SQE_FENCE ? IBV_SEND_FENCE : 0) |
	       (wr->flags & FF_SQE_INLINE ? IBV_SEND_INLINE : 0);
}

/* RFC 5040 has neither immediate data nor atomics. */
static bool is_of_iwarp(uint8_t opcode)
{
	return opcode == FF_OP_SEND || opcode == FF_OP_SEND_INV || opcode == FF_OP_WRITE ||
	       opcode == FF_OP_READ;
}

/* The memory of a WR. */
static enum ff_vendor_err build_data(const struct qp *qp, struct ibv_send_wr *to)
{
	const struct send_wr *wr = qp->wr;

	if (wr->flags & FF_SQE_INLINE) {
		to->sg_list[0] = (struct ibv_sge){ .addr = (uintptr_t)wr->inl,
						   .length = (uint32_t)wr->length };
		to->num_sge = wr->length != 0;
		return FF_VERR_NONE;
	}
	return all_to_nic(qp, wr->sge, wr->num_sge,
			  ff_op_fetches(wr->opcode) ? IBV_ACCESS_LOCAL_WRITE : 0, to->sg_list,
			  &to->num_sge);
}

/* The WR at hand as the NIC has it, in `to`, whose sg_list has room. */
static enum ibv_wc_status build(const struct nic_dev *d, const struct qp *qp,
				struct ibv_send_wr *to, enum ff_vendor_err *why)
{
	const struct send_wr *wr = qp->wr;
	struct ibv_sge *sge = to->sg_list;

	*why = FF_VERR_BAD_OPCODE;
	if (!op[wr->opcode].is_known || (d->is_iwarp && !is_of_iwarp(wr->opcode)))
		return IBV_WC_LOC_QP_OP_ERR;
	*why = FF_VERR_MSG_SIZE;
	if (wr->length > d->port_attr.max_msg_sz)
		return IBV_WC_LOC_LEN_ERR;
	*to = (struct ibv_send_wr){
		.sg_list = sge,
		.opcode = op[wr->opcode].opcode,
		.send_flags = flags_of(wr),
		.imm_data = wr->imm, /* or the rkey to be invalidated */
	};
	if (wr->opcode == FF_OP_CMP_SWAP || wr->opcode == FF_OP_FETCH_ADD) {
		to->wr.atomic.remote_addr = wr->remote_addr;
		to->wr.atomic.rkey = wr->rkey;
		to->wr.atomic.compare_add = wr->compare_add;
		to->wr.atomic.swap = wr->swap;
	} else {
		to->wr.rdma.remote_addr = wr->remote_addr;
		to->wr.rdma.rkey = wr->rkey;
	}
	*why = build_data(qp, to);
	if (*why)
		return IBV_WC_LOC_PROT_ERR;
	/* a READ of iWARP has one place for its data */
	if (d->is_iwarp && wr->opcode == FF_OP_READ && to->num_sge > d->attr.max_sge_rd) {
		*why = FF_VERR_BAD_SGE;
		return IBV_WC_LOC_QP_OP_ERR;
	}
	return IBV_WC_SUCCESS;
}

/* Put a WR at the end of the NIC's queue. The NIC gets all WRs of the batch at once. */
static void put(struct ibv_qp_ex *ex, const struct ibv_send_wr *wr)
{
	ex->wr_id = wr->wr_id;
	ex->wr_flags = wr->send_flags & ~(unsigned int)IBV_SEND_INLINE;
	switch (wr->opcode) {
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(ex, wr->imm_data);
		break;
	case IBV_WR_SEND_WITH_INV:
		ibv_wr_send_inv(ex, wr->invalidate_rkey);
		break;
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, wr->imm_data);
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(ex, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
				      wr->wr.atomic.compare_add, wr->wr.atomic.swap);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		ibv_wr_atomic_fetch_add(ex, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
					wr->wr.atomic.compare_add);
		break;
	default:
		ibv_wr_send(ex);
		break;
	}
	if (wr->send_flags & IBV_SEND_INLINE)
		ibv_wr_set_inline_data(ex, (void *)(uintptr_t)wr->sg_list[0].addr,
				       wr->num_sge ? wr->sg_list[0].length : 0);
	else
		ibv_wr_set_sge_list(ex, (size_t)wr->num_sge, wr->sg_list);
}

/* The number of WRs that the NIC did not take: with ibv_wr_*() it is all or none. */
static uint32_t batch_give(struct nic_batch *b)
{
	struct ibv_send_wr *bad = NULL;

	if (b->nq->ex)
		return ibv_wr_complete(b->nq->ex) ? b->n : 0;
	for (uint32_t i = 0; i < b->n; i++)
		b->wr[i].next = i + 1 < b->n ? &b->wr[i + 1] : NULL;
	if (!ibv_post_send(b->nq->ib, b->wr, &bad))
		return 0;
	return b->n - (uint32_t)(bad ? bad - b->wr : 0);
}

void nic_batch_post(struct nic_dev *d)
{
	struct nic_batch *b = &d->batch;
	uint32_t left;

	if (!b->n)
		return;
	left = batch_give(b);
	b->n = 0;
	if (left) {
		b->nq->unposted = left;
		nic_unposted(d->f, b->nq);
	}
}

void nic_batch_drop(struct nic_dev *d)
{
	struct nic_batch *b = &d->batch;

	if (b->n && b->nq->ex)
		ibv_wr_abort(b->nq->ex);
	b->n = 0;
}

/* A place in the batch for a WR of that QP. */
static struct ibv_send_wr *batch_place(struct nic_dev *d, struct nic_qp *nq)
{
	struct nic_batch *b = &d->batch;

	if (b->n && (b->nq != nq || b->n == NIC_BATCH))
		nic_batch_post(d);
	b->nq = nq;
	b->wr[b->n].sg_list = b->sge[b->n];
	return &b->wr[b->n];
}

static enum post_result wait_for_one(struct nic_qp *nq)
{
	nq->waits = true;
	return POST_WAIT;
}

static enum post_result post(struct fast *f, struct qp *qp)
{
	struct nic_qp *nq = qp->nic;
	struct nic_dev *d = nq->d;
	enum ibv_wc_status st;
	enum ff_vendor_err why;
	struct ibv_send_wr *wr;
	uint32_t place = nq->tail % nq->send_depth;

	if (!nic_is_up(d)) /* nic_qp_lose() is going to take the QP to ERR */
		return POST_WAIT;
	if (nq->tail - nq->una == nq->send_depth || nq->unposted ||
	    (d->is_iwarp && nq->iw != IW_UP)) /* cm/iwarp.c activates the QP when it is up */
		return wait_for_one(nq);
	/*
	 * iWARP sends nothing again: a message that finds no receive ends the connection. So the NIC needs the receives
	 * that the program posted before this WR, for the peer's answer.
	 */
	if (d->is_iwarp)
		nic_recv_fill_all(f, nq);
	wr = batch_place(d, nq);
	/* if the NIC did not take the batch, the QP is in ERR, and this WR has been flushed or will be */
	if (qp->state != IBV_QPS_RTS)
		return qp->busy ? POST_WAIT : POST_DONE;
	if (nq->unposted)
		return wait_for_one(nq);
	st = build(d, qp, wr, &why);
	if (st != IBV_WC_SUCCESS) { /* the error comes after the completions of earlier WRs */
		if (nq->una != nq->tail)
			return wait_for_one(nq);
		comp_send(f, qp, st, why);
		return POST_DONE;
	}
	if (!rate_pay(f, qp, qp->wr->length))
		return POST_WAIT;
	wr->wr_id = nic_id(nq, 0, place);
	nq->sent[place] = *qp->wr;
	nq->tail++;
	if (nq->ex) {
		if (!d->batch.n)
			ibv_wr_start(nq->ex);
		put(nq->ex, wr);
	}
	d->batch.n++;
	qp->in_flight++;
	qp->busy = false;
	f->bytes_moved += qp->wr->length;
	/* the next WR's inline data will be in the same place */
	if (wr->send_flags & IBV_SEND_INLINE && !nq->ex)
		nic_batch_post(d);
	return POST_SENT;
}

const struct send_ops nic_send = { .name = "nic", .post = post, .progress = post };

/* ---- receives ---------------------------------------------------------------------------------------------- */

/* False: the NIC does not take it. */
static bool recv_post(struct nic_qp *nq, struct recv_wr *rwr, bool is_bad)
{
	struct ibv_sge sge[FF_MAX_SGE];
	struct ibv_recv_wr wr = { .sg_list = sge }, *bad;
	uint32_t place = nq->recv_tail % nq->recv_depth;

	/* a receive with wrong memory has no SGE, so a message that comes for it ends with an error */
	if (is_bad ||
	    all_to_nic(nq->qp, rwr->sge, rwr->num_sge, IBV_ACCESS_LOCAL_WRITE, sge, &wr.num_sge))
		wr.num_sge = 0;
	wr.wr_id = nic_id(nq, NIC_ID_RECV, place);
	nq->recv_id[place] = rwr->wr_id;
	if (ibv_post_recv(nq->ib, &wr, &bad))
		return false;
	nq->recv_tail++;
	return true;
}

/*
 * The NIC did not take the last receive. Put it back into the container's ring, to be flushed with the QP, or, before
 * RTR, to be given to the NIC once more.
 */
static void recv_failed(struct fast *f, struct nic_qp *nq)
{
	nq->qp->rq.head--;
	if (nq->qp->state != IBV_QPS_INIT)
		fast_qp_error(f, nq->qp, IBV_EVENT_QP_FATAL);
}

bool nic_recv_fill(struct fast *f, struct nic_qp *nq)
{
	struct qp *qp = nq->qp;
	struct recv_wr rwr;
	uint32_t n = 0;

	if (!nic_is_up(nq->d))
		return false;
	if (nq->ns) {
		nic_srq_fill(f, nq->ns);
		return false;
	}
	do {
		while (nq->recv_tail - nq->recv_una < nq->recv_depth) {
			enum fetch r;

			if (n++ >= NIC_FILL && qp_rqe_ready(qp))
				return true;
			r = fast_take_recv(f, qp, &rwr);
			if (r == FETCH_EMPTY)
				break;
			if (!recv_post(nq, &rwr, r == FETCH_BAD)) {
				recv_failed(f, nq);
				return false;
			}
		}
		if (nq->recv_tail - nq->recv_una == nq->recv_depth)
			return false; /* a completion makes room */
		atomic_store(&qp->hdr->rq_need, 1);
		/* need before the look: pairs with the fence behind a posting */
		atomic_thread_fence(memory_order_seq_cst);
	} while (qp_rqe_ready(qp));
	return false;
}

void nic_recv_fill_all(struct fast *f, struct nic_qp *nq)
{
	if (nq->is_to_fill || !nic_recv_fill(f, nq))
		return;
	nq->is_to_fill = true;
	TAILQ_INSERT_TAIL(&nq->d->to_fill, nq, fill);
	f->again = true;
}

uint32_t nic_fill_on(struct nic_dev *d)
{
	struct nic_list now = TAILQ_HEAD_INITIALIZER(now);
	struct nic_qp *nq;
	uint32_t n = 0;

	TAILQ_CONCAT(&now, &d->to_fill, fill);
	while ((nq = TAILQ_FIRST(&now))) {
		TAILQ_REMOVE(&now, nq, fill);
		nq->is_to_fill = false;
		nic_recv_fill_all(d->f, nq);
		n++;
	}
	return n;
}
