/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * comp.c - completions of the NIC, brought to the containers' CQs. Runner. [lock]
 *
 * Each of the NIC's two queues of a QP completes in order, so a completion must be of the oldest entry. Its wr_id has
 * the entry's place in the queue and the QP's life. A completion with another place or life is left from before a
 * RESET, and is ignored.
 */
#include "ffr/nic/nic.h"

#define DRAIN_TURNS 4096u

/* The oldest WR has ended with this status. */
static void sent_one(struct fast *f, struct nic_qp *nq, enum ibv_wc_status st, uint32_t vendor_err)
{
	struct qp *qp = nq->qp;
	struct send_wr wr = nq->sent[nq->una++ % nq->send_depth];
	struct session *s = qp->o.ses;

	if (st == IBV_WC_SUCCESS && ff_op_fetches(wr.opcode))
		fast_data_to(f, s);
	else
		fast_note_to(f, s);
	comp_sent(f, qp, &wr, st, (enum ff_vendor_err)vendor_err);
	qp->last_work = f->now;
	nic_qp_ended_one(f, nq);
	if (nq->waits && qp->busy) {
		nq->waits = false;
		fast_qp_activate(f, qp);
	}
}

void nic_unposted(struct fast *f, struct nic_qp *nq)
{
	uint16_t life = nq->life;
	bool is_first = nq->qp->state == IBV_QPS_RTS || nq->qp->state == IBV_QPS_SQD;
	enum ibv_wc_status st = is_first ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_WR_FLUSH_ERR;

	while (nq->life == life && nq->unposted && nq->tail - nq->una <= nq->unposted) {
		nq->unposted--;
		sent_one(f, nq, st, FF_VERR_NONE);
		st = IBV_WC_WR_FLUSH_ERR;
	}
}

static void on_sent(struct fast *f, struct nic_qp *nq, const struct ibv_wc *wc)
{
	if (nq->una == nq->tail || (uint32_t)wc->wr_id != nq->una % nq->send_depth)
		return;
	sent_one(f, nq, wc->status, wc->vendor_err);
	nic_unposted(f, nq);
}

/* The receive of that wr_id has ended with this status. */
static void ended_recv(struct fast *f, struct qp *qp, uint64_t id, enum ibv_wc_status st,
		       enum ff_vendor_err why, const struct recv_info *info)
{
	comp_recv(f, qp, id, st, why, info);
	if (st != IBV_WC_SUCCESS && qp_is_reliable(qp))
		fast_qp_error(f, qp, 0);
}

void nic_qp_flush(struct fast *f, struct nic_qp *nq)
{
	static const struct recv_info none;

	nq->unposted = 0;
	nq->waits = false;
	while (nq->una != nq->tail)
		sent_one(f, nq, IBV_WC_WR_FLUSH_ERR, FF_VERR_FLUSH);
	while (nq->recv_una != nq->recv_tail) {
		uint64_t id = nq->recv_id[nq->recv_una++ % nq->recv_depth];

		ended_recv(f, nq->qp, id, IBV_WC_WR_FLUSH_ERR, FF_VERR_FLUSH, &none);
		nic_qp_ended_one(f, nq);
	}
}

void nic_received(struct fast *f, struct nic_qp *nq, uint64_t id, const struct ibv_wc *wc)
{
	struct qp *qp = nq->qp;
	struct recv_info info = {
		.byte_len = wc->byte_len,
		.src_qp = wc->src_qp,
		.imm = wc->imm_data,
		/* the NIC does not tell whether the sender asked for an event, so assume it */
		.flags = (uint8_t)((wc->wc_flags & IBV_WC_WITH_IMM ? FF_CQE_IMM : 0) |
				   (wc->wc_flags & IBV_WC_WITH_INV ? FF_CQE_INV : 0) |
				   FF_CQE_SOLICITED),
		.write = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM,
	};

	if (wc->status == IBV_WC_SUCCESS) {
		stats_bytes(&qp->stats.rx_bytes, wc->byte_len);
		fast_data_to(f, qp->o.ses);
	} else if (wc->status != IBV_WC_WR_FLUSH_ERR && qp_is_reliable(qp)) {
		nic_qp_fails(nq); /* when the NIC has answered the peer */
	}
	ended_recv(f, qp, id, wc->status, (enum ff_vendor_err)wc->vendor_err, &info);
}

static void on_received(struct fast *f, struct nic_qp *nq, const struct ibv_wc *wc)
{
	uint32_t place = (uint32_t)wc->wr_id;
	uint64_t id;

	if (nq->recv_una == nq->recv_tail || place != nq->recv_una % nq->recv_depth)
		return;
	id = nq->recv_id[place];
	nq->recv_una++;
	nic_received(f, nq, id, wc);
	nic_qp_ended_one(f, nq);
	if (nq->qp->state != IBV_QPS_ERR && nic_qp_is_carried(nq))
		nic_recv_fill_all(f, nq);
}

/* The NIC's QP of that number, or NULL. A QP that is not on the NIC may have the number of a QP that was destroyed. */
static struct qp *qp_of(const struct nic_dev *d, uint32_t num)
{
	struct qp *qp = qp_by_num(&d->f->host->qps, nic_index(d), num);

	return qp && qp->nic && qp->nic->d == d ? qp : NULL;
}

static void on_completion(struct nic_dev *d, const struct ibv_wc *wc)
{
	struct fast *f = d->f;
	struct qp *qp = qp_of(d, wc->qp_num);
	struct nic_qp *nq = qp ? qp->nic : NULL;

	if (wc->wr_id & NIC_ID_TUNNEL) {
		nic_ud_tunnel_completion(d, wc);
		return;
	}
	if (wc->wr_id & NIC_ID_SRQ) {
		nic_srq_completion(d, qp, wc);
		return;
	}
	if (nq && nq->ud) {
		nic_ud_completion(f, nq, wc);
		return;
	}
	if (!nq || !nic_qp_is_carried(nq) || (uint16_t)(wc->wr_id >> 48) != nq->life)
		return;
	if (wc->wr_id & NIC_ID_RECV)
		on_received(f, nq, wc);
	else
		on_sent(f, nq, wc);
}

int nic_poll_cq(struct nic_cq *cq)
{
	struct ibv_wc wc[NIC_POLL];
	int n = ibv_poll_cq(cq->cq, NIC_POLL, wc);

	for (int i = 0; i < n; i++)
		on_completion(cq->d, &wc[i]);
	return n;
}

/*
 * The CQ may have more completions than one turn takes, and those of other QPs. Stop after DRAIN_TURNS, because the NIC
 * may bring further ones all the time.
 */
void nic_cq_drain(struct nic_cq *cq)
{
	for (uint32_t i = 0; i < DRAIN_TURNS && nic_poll_cq(cq) > 0; i++)
		;
}

uint32_t nic_poll(struct nic_dev *d)
{
	struct nic_cq *cq;
	uint32_t work = 0;
	int n;

	if (!nic_is_up(d))
		return 0;
	LIST_FOREACH(cq, &d->cqs, entry) {
		if (!cq->used)
			continue;
		n = nic_poll_cq(cq);
		work += n > 0 ? (uint32_t)n : 0;
	}
	return work;
}
