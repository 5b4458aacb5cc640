/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * cq_ex.c - ibv_start_poll, ibv_next_poll, ibv_end_poll and the readers of struct ibv_cq_ex. The
 * CQ's lock is held from a successful start to the end, unless the CQ is for one thread only.
 *
 * Readers read the CQE in place: the router gets the entry back when end_poll publishes ci.
 */

#include "ffr/abi/ff_probe.h"
#include "ffl/verbs/cq.h"
#include "ffl/verbs/post.h"

static inline struct ffl_cq *ex_cq(struct ibv_cq_ex *ex)
{
	return container_of_(ex, struct ffl_cq, ex);
}

/* Make the next CQE the current one. 0 or ENOENT. */
static inline int cq_next(struct ffl_cq *cq)
{
	const struct ff_cqe *cqe;

	do {
		cqe = ffl_cqe_at(cq, cq->ci);
		if (!cqe)
			return ENOENT;
		cq->ci++;
	} while (unlikely(!cqe->qp));
	FF_PROBE3(poll, cqe->qp_num, cqe->wr_id, cqe->status);
	ffl_cqe_polled(cqe);
	cq->cur = cqe;
	cq->ex.wr_id = cqe->wr_id;
	cq->ex.status = cqe->status;
	if (unlikely(cqe->status != IBV_WC_SUCCESS))
		ffl_cq_log_error(cqe);
	return 0;
}

/* 0, ENOENT: nothing there, or EIO: as ffl_poll_cq(). No end_poll then. */
static int cq_start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct ffl_cq *cq = ex_cq(ex);
	bool yielded = false;
	uint32_t old;
	int err;

	if (unlikely(attr->comp_mask))
		return EINVAL;
again:
	ffl_lock(&cq->lock);
	old = cq->ci;
	err = cq_next(cq);
	if (likely(!err))
		return 0;
	if (cq->ci != old) /* entries that are skipped */
		ffl_cq_consumed(cq, cq->ci);
	ffl_unlock(&cq->lock);
	if (yielded) /* as in ffl_poll_cq() */
		return ENOENT;
	err = ffl_cq_idle(cq);
	if (err == EAGAIN) {
		yielded = true;
		goto again;
	}
	return likely(!err) ? ENOENT : err;
}

static int cq_next_poll(struct ibv_cq_ex *ex)
{
	return cq_next(ex_cq(ex));
}

static void cq_end_poll(struct ibv_cq_ex *ex)
{
	struct ffl_cq *cq = ex_cq(ex);

	ffl_cq_consumed(cq, cq->ci);
	ffl_unlock(&cq->lock);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	return ex_cq(ex)->cur->opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
	return ex_cq(ex)->cur->vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return ex_cq(ex)->cur->byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	return ex_cq(ex)->cur->imm;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return ex_cq(ex)->cur->qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
	return ex_cq(ex)->cur->src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
	return ffl_wc_flags(ex_cq(ex)->cur->flags);
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
	return ex_cq(ex)->cur->slid;
}

static uint8_t read_sl(struct ibv_cq_ex *ex)
{
	return ex_cq(ex)->cur->sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex)
{
	return ex_cq(ex)->cur->dlid_path_bits;
}

/* ns of the device's clock, which is the host's CLOCK_MONOTONIC */
static uint64_t read_completion_ts(struct ibv_cq_ex *ex)
{
	return ex_cq(ex)->cur->timestamp;
}

/* ns since the epoch. The two clocks are read now: the wall clock may have been set since then. */
static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ex)
{
	return ex_cq(ex)->cur->timestamp +
	       (ffl_clock_ns(CLOCK_REALTIME) - ffl_clock_ns(CLOCK_MONOTONIC));
}

/* Fields of other devices. A CQ that promises them is not created. */
static uint16_t read_cvlan(struct ibv_cq_ex *ex)
{
	(void)ex;
	return 0;
}

static uint32_t read_flow_tag(struct ibv_cq_ex *ex)
{
	(void)ex;
	return 0;
}

static void read_tm_info(struct ibv_cq_ex *ex, struct ibv_wc_tm_info *info)
{
	(void)ex;
	*info = (struct ibv_wc_tm_info){ 0 };
}

void ffl_cq_init_poll_ops(struct ffl_cq *cq)
{
	struct ibv_cq_ex *ex = &cq->ex;

	ex->start_poll = cq_start_poll;
	ex->next_poll = cq_next_poll;
	ex->end_poll = cq_end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_byte_len = read_byte_len;
	ex->read_imm_data = read_imm_data;
	ex->read_qp_num = read_qp_num;
	ex->read_src_qp = read_src_qp;
	ex->read_wc_flags = read_wc_flags;
	ex->read_slid = read_slid;
	ex->read_sl = read_sl;
	ex->read_dlid_path_bits = read_dlid_path_bits;
	ex->read_completion_ts = read_completion_ts;
	ex->read_cvlan = read_cvlan;
	ex->read_flow_tag = read_flow_tag;
	ex->read_tm_info = read_tm_info;
	ex->read_completion_wallclock_ns = read_completion_wallclock_ns;
}
