/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* model_client.c - the library's part of model.h: its sources, with the model's atomics. */
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/rig/model/model.h"

/* What the library does with what it has from elsewhere. */
static ssize_t ring_bell(int fd, const void *p, size_t n)
{
	(void)fd, (void)p;
	c11_give(&model.bell);
	return (ssize_t)n;
}

#define ffl_spin_wait wait_for_lock
#define write	      ring_bell
#include "ffl/session/bell.c"
#undef write
#include "ffl/verbs/post.c"
#include "ffl/verbs/cq.c"

struct model model;

static struct ffl_context ctx;
static struct ffl_qp qp;
static struct ffl_cq cq;

void ffl_spin_wait(struct ffl_spin *l)
{
	do
		c11_wait_zero(&l->v);
	while (atomic_exchange_explicit(&l->v, 1, memory_order_acquire));
}

static void words_of_rings(enum model_part part)
{
	switch (part) {
	case MODEL_BELLS:
		for (unsigned i = 0; i < MODEL_DEPTH; i++)
			c11_word(&ffl_sqe_at(&qp, i)->seq, 2);
		c11_word(&model.qp_hdr.need, 4);
		c11_word(&model.qp_hdr.evt, 4);
		c11_word(&model.ses.need_wakeup, 4);
		c11_word(&model.ses.dirty[0], 8);
		c11_word(&model.ses.dirty_sum[0], 8);
		c11_word(&model.bell, 4);
		break;
	case MODEL_SQ:
		c11_word(&ffl_sqe_at(&qp, 0)->seq, 2);
		c11_word(&model.qp_hdr.sq_done, 8);
		c11_word(&model.body, 4);
		break;
	case MODEL_RQ:
		c11_word(&rqe_at(qp.rq, 0, 1, qp.rq_stride)->seq, 2);
		c11_word(&model.cq[0].phase, 1);
		c11_word(&qp.rq_polled, 4);
		c11_word(&model.body, 4);
		break;
	case MODEL_RECV:
		c11_word(&rqe_at(qp.rq, 0, 1, qp.rq_stride)->seq, 2);
		c11_word(&model.body, 4);
		break;
	case MODEL_LAP:
		c11_word(&model.cq[0].phase, 1);
		c11_word(&model.cq_hdr.ci, 4);
		c11_word(&model.body, 4);
		break;
	case MODEL_CQ:
		c11_word(&model.cq[0].phase, 1);
		c11_word(&model.cq[1].phase, 1);
		c11_word(&model.cq_hdr.arm, 4);
		c11_word(&model.event, 4);
		c11_word(&model.body, 4);
		break;
	case MODEL_LOCK:
		c11_word(&qp.sq_lock.v, 4);
		c11_word(&model.body, 4);
		break;
	}
}

void client_reset(enum model_part part)
{
	memset(&model, 0, sizeof(model));
	memset(&ctx, 0, sizeof(ctx));
	memset(&qp, 0, sizeof(qp));
	memset(&cq, 0, sizeof(cq));
	ctx.hdr = &model.ses;
	qp.ctx = &ctx;
	qp.handle = MODEL_HANDLE;
	qp.hdr = &model.qp_hdr;
	qp.sq = model.sq;
	qp.rq = model.rq;
	qp.sq_depth = qp.rq_depth = qp.sq_limit = part == MODEL_BELLS ? MODEL_DEPTH : 1;
	qp.sq_stride = 64;
	qp.rq_stride = 32;
	qp.cap.max_send_sge = qp.cap.max_recv_sge = 1;
	qp.wr_ops = 1u << IBV_WR_SEND;
	qp.qp.state = IBV_QPS_RTS;
	qp.qp.qp_type = IBV_QPT_RC;
	cq.ctx = &ctx;
	cq.hdr = &model.cq_hdr;
	cq.ring = model.cq;
	cq.depth = MODEL_DEPTH;
	if (part == MODEL_RQ) /* one is posted already */
		rqe_at(qp.rq, 0, 1, qp.rq_stride)->seq = ff_seq(qp.rq_tail++);
	words_of_rings(part);
}

uint64_t client_state(void)
{
	return qp.sq_tail | (uint64_t)qp.rq_tail << 8 | (uint64_t)cq.ci << 16;
}

uint64_t client_user(void)
{
	return (uintptr_t)&qp;
}

/*
 * What is in an entry is written before it is published. That there is room for it was looked at before that, so
 * what is wrong there is wrong behind it, too.
 */
void client_send(void)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;

	if (c11_has(&model.body)) {
		if (ffl_sq_full(&qp, qp.sq_tail))
			c11_leave();
		c11_plain_store(&model.body, qp.sq_tail);
	}
	if (ffl_post_send(&qp.qp, &wr, &bad))
		c11_leave();
	ffl_ring_lazy(&ctx);
}

void client_receive(void)
{
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;

	if (ffl_post_recv(&qp.qp, &wr, &bad))
		c11_leave();
	c11_plain_store(&model.body, 1);
}

void client_receive_first(void)
{
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;

	c11_plain_store(&model.body, 1);
	if (ffl_post_recv(&qp.qp, &wr, &bad))
		c11_leave();
}

bool client_poll(void)
{
	struct ff_cqe *cqe = ffl_cqe_at(&cq, cq.ci);

	if (!cqe)
		return false;
	if (c11_has(&model.cq_hdr.arm) || c11_has(&model.cq_hdr.ci))
		c11_plain_load(&model.body);
	ffl_cqe_polled(cqe);
	ffl_cq_consumed(&cq, cq.ci + 1);
	return true;
}

void client_wait(void)
{
	if (client_poll())
		return;
	ffl_req_notify_cq(&cq.cq, 0);
	if (client_poll())
		return;
	c11_take(&model.event);
	if (!client_poll())
		c11_wrong("an event, and no completion");
}

void client_locked(void)
{
	ffl_lock(&qp.sq_lock);
	c11_plain_store(&model.body, c11_plain_load(&model.body) + 1);
	ffl_unlock(&qp.sq_lock);
}
