/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * send.c - from an SQE to qp->send, which carries the WR out. Fast lock held; called by turns.c for each active QP.
 *
 * An SQE is copied into qp->wr, the copy is checked and given to qp->send. The WR stays in qp->wr until comp_send()
 * (qp->busy), or until qp->send has made a copy of its own, of which there may be many (qp->in_flight).
 */
#include "ffr/abi/ff_probe.h"
#include "ffr/abi/ff_verbs.h"
#include "ffr/fast/internal.h"
#include "ffr/lib/shm.h"

/* Which operations a QP type carries (IBTA table 38). */
#define OP(x) (1u << FF_OP_##x)
static uint32_t type_ops(uint8_t type)
{
	switch (type) {
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_RC:
		return OP(SEND) | OP(SEND_IMM) | OP(WRITE) | OP(WRITE_IMM) | OP(READ) |
		       OP(CMP_SWAP) | OP(FETCH_ADD) | OP(BIND_MW) | OP(LOCAL_INV) | OP(SEND_INV) |
		       OP(FLUSH) | OP(ATOMIC_WRITE);
	case IBV_QPT_UC:
		return OP(SEND) | OP(SEND_IMM) | OP(WRITE) | OP(WRITE_IMM) | OP(BIND_MW) |
		       OP(LOCAL_INV);
	case IBV_QPT_UD:
		return OP(SEND) | OP(SEND_IMM);
	default:
		return 0;
	}
}
#undef OP

/* The smallest power of two is the slot's cost: a WR of one SGE touches one cache line. */
static enum ff_vendor_err copy_data(const struct qp *qp, const struct ff_sqe *e, struct send_wr *wr)
{
	uint32_t i;

	if (wr->flags & FF_SQE_INLINE) {
		if (wr->num_sge > qp->max_inline)
			return FF_VERR_BAD_SGE;
		shm_copy(wr->inl, &e->inl[0], wr->num_sge);
		wr->length = wr->num_sge;
		return FF_VERR_NONE;
	}
	if (wr->num_sge > qp->max_send_sge)
		return FF_VERR_BAD_SGE;
	if (wr->num_sge == 1) {
		shm_copy(wr->sge, &e->sge[0], sizeof(struct ff_sge));
		wr->length = wr->sge[0].length;
	} else {
		shm_copy(wr->sge, &e->sge[0], wr->num_sge * sizeof(struct ff_sge));
		wr->length = 0;
		for (i = 0; i < wr->num_sge; i++)
			wr->length += wr->sge[i].length;
	}
	return wr->length > FF_MAX_MSG_SZ ? FF_VERR_MSG_SIZE : FF_VERR_NONE;
}

/* Where a WR of a UD or XRC_SEND QP goes to. False: no such address handle. */
static bool fetch_dest(struct qp *qp, const struct ff_sqe *e)
{
	struct send_wr *wr = qp->wr;

	if (qp->type == IBV_QPT_XRC_SEND) {
		wr->remote_srqn = ff_op_srqn_in_imm(wr->opcode) ? wr->imm :
								  shm_read(&e->remote_srqn);
		return true;
	}
	wr->ah = ah_get(qp->o.ses, shm_read(&e->ud.ah));
	wr->remote_qpn = shm_read(&e->ud.remote_qpn);
	wr->remote_qkey = shm_read(&e->ud.remote_qkey);
	return wr->ah && wr->ah->pd == qp->pd;
}
static_assert(IBV_QPT_RC < IBV_QPT_UC && IBV_QPT_UD > IBV_QPT_UC && IBV_QPT_XRC_SEND > IBV_QPT_UC,
	      "connected QPs without XRC come first");

/*
 * Of the operations beyond READ: data comes back, or there is none, so that there is nothing inline to write it
 * to. FLUSH and ATOMIC_WRITE have no SGEs, and what a FLUSH asks for makes sense.
 */
static bool is_sound_rare(const struct send_wr *wr)
{
	if (wr->opcode == FF_OP_SEND_INV)
		return true;
	if (wr->flags & FF_SQE_INLINE || (wr->opcode >= FF_OP_FLUSH && wr->num_sge))
		return false;
	return wr->opcode != FF_OP_FLUSH ||
	       (wr->flush.types && !(wr->flush.types & ~FF_FLUSH_TYPES) &&
		wr->flush.level <= FF_FLUSH_MR && wr->flush.length <= UINT32_MAX);
}

/* Copy and check. What is wrong is found on the copy only. */
static enum ff_vendor_err fetch(struct qp *qp, const struct ff_sqe *e)
{
	struct send_wr *wr = qp->wr;
	struct session *s = qp->o.ses;

	s->sched.cpu = shm_read(&e->cpu);
	wr->opcode = shm_read(&e->opcode);
	wr->flags = shm_read(&e->flags);
	wr->num_sge = shm_read(&e->num_sge);
	shm_copy(&wr->wr_id, &e->wr_id, 2 * sizeof(uint64_t)); /* and remote_addr */
	shm_copy(&wr->rkey, &e->rkey, 2 * sizeof(uint32_t));   /* and imm */
	wr->length = 0;
	if (wr->opcode >= FF_OP_NUM || !(type_ops(qp->type) & 1u << wr->opcode))
		return FF_VERR_BAD_OPCODE;
	if (wr->opcode >= FF_OP_CMP_SWAP) { /* or what else the union holds */
		shm_copy(&wr->compare_add, &e->atomic, sizeof(e->atomic));
		if (!is_sound_rare(wr))
			return FF_VERR_BAD_OPCODE;
	}
	if (qp->type > IBV_QPT_UC && !fetch_dest(qp, e))
		return FF_VERR_NO_AH;
	if (wr->opcode == FF_OP_READ && (wr->flags & FF_SQE_INLINE))
		return FF_VERR_BAD_OPCODE;
	return copy_data(qp, e, wr);
}
static_assert(offsetof(struct send_wr, remote_addr) == offsetof(struct send_wr, wr_id) + 8 &&
		      offsetof(struct ff_sqe, remote_addr) == offsetof(struct ff_sqe, wr_id) + 8 &&
		      offsetof(struct send_wr, imm) == offsetof(struct send_wr, rkey) + 4 &&
		      offsetof(struct ff_sqe, imm) == offsetof(struct ff_sqe, rkey) + 4,
	      "copied in pairs");
static_assert(offsetof(struct send_wr, bind) == offsetof(struct send_wr, compare_add) &&
		      sizeof(((struct send_wr *)0)->bind) == sizeof(((struct ff_sqe *)0)->bind),
	      "copied as an atomic's operands");
static_assert(offsetof(struct send_wr, flush) == offsetof(struct send_wr, compare_add) &&
		      sizeof(((struct send_wr *)0)->flush) == sizeof(((struct ff_sqe *)0)->flush) &&
		      FF_OP_LOCAL_INV + 1 == FF_OP_SEND_INV && FF_OP_SEND_INV < FF_OP_FLUSH &&
		      FF_OP_FLUSH < FF_OP_ATOMIC_WRITE,
	      "likewise; no other operations follow");

static enum ibv_wc_status fetch_status(enum ff_vendor_err why)
{
	return why == FF_VERR_MSG_SIZE ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_QP_OP_ERR;
}

/* A WR in a state in which nothing is sent: completed as flushed. */
static bool flush_one(struct fast *f, struct qp *qp)
{
	struct ff_sqe *e;

	if (!qp_sqe_ready(qp, qp->sq.head))
		return false;
	e = qp_sqe(qp, qp->sq.head);
	qp->wr->wr_id = shm_read(&e->wr_id);
	qp->wr->opcode = shm_read(&e->opcode);
	qp->wr->length = 0;
	qp->sq.head++;
	comp_send(f, qp, IBV_WC_WR_FLUSH_ERR, FF_VERR_FLUSH);
	return true;
}

/* At once; 32,768 of a QP's would keep all others waiting for 3 ms. */
#define FLUSH_WRS 256u

uint32_t qp_flush(struct fast *f, struct qp *qp)
{
	static const struct recv_info none;
	uint32_t n = 0;
	struct recv_wr rwr;

	qp->torn = true;
	CURSORS_IN_ORDER(qp->torn, qp->sq.head);
	while (n < FLUSH_WRS && flush_one(f, qp))
		n++;
	qp_tell_done(qp);
	if (qp->state == IBV_QPS_ERR && !qp->srq)
		for (; n < FLUSH_WRS && fast_take_recv(f, qp, &rwr) != FETCH_EMPTY; n++)
			comp_recv(f, qp, rwr.wr_id, IBV_WC_WR_FLUSH_ERR, FF_VERR_FLUSH, &none);
	CURSORS_IN_ORDER(qp->sq.head, qp->torn);
	qp->torn = false;
	return n;
}

bool fast_qp_complete(struct fast *f, struct qp *qp)
{
	enum ff_vendor_err why = fetch(qp, qp_sqe(qp, qp->sq.head - 1));

	/* the address handle of a datagram may be gone since it was posted */
	if (why != FF_VERR_NONE && why != FF_VERR_NO_AH)
		return false;
	qp->busy = true;
	comp_send(f, qp, IBV_WC_SUCCESS, FF_VERR_NONE);
	return true;
}

static_assert(POST_SENT == 0 && POST_DONE == 1, "they are added up");

uint32_t send_service(struct fast *f, struct qp *qp)
{
	struct session *s = qp->o.ses;
	uint64_t moved = f->bytes_moved;
	uint32_t n = 0, done = 0, calls = f->calls;
	uint64_t older = 0;

	if (qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_SQE)
		return qp->flush_waits ? 0 : qp_flush(f, qp);
	if (qp->busy) {
		uint64_t at = qp->wr->at;
		enum post_result r = qp->send->progress(f, qp);

		qp->more = r == POST_MORE;
		if (r > POST_DONE)
			return r == POST_MORE;
		if (r == POST_DONE && qp->state == IBV_QPS_RTS)
			older = at;
		n++;
	}
	if (FF_COUNTERS && qp->wr) /* an XRC_RECV QP has none */
		qp->wr->at = f->now;
	while (n + (f->calls - calls) * CALL_WRS < f->conf.budget &&
	       f->bytes_moved - moved < f->quantum && qp->state == IBV_QPS_RTS &&
	       qp_sqe_ready(qp, qp->sq.head)) {
		const struct ff_sqe *e = qp_sqe(qp, qp->sq.head);
		enum ff_vendor_err why;
		enum post_result r;

		__builtin_prefetch(qp_sqe(qp, qp->sq.head + 1));
		__builtin_prefetch(&qp->scq->ring[(qp->scq->pi + 1) & (qp->scq->depth - 1)], 1);
		why = fetch(qp, e);
		/* in this order: left_wr() in ctl/qp.c */
		qp->sq.head++;
		CURSORS_IN_ORDER(qp->sq.head, qp->busy);
		qp->busy = true;
		n++;
		s->sched.turn_posts++;
		if (why) {
			if (why != FF_VERR_MSG_SIZE)
				qp->stats.bad_wqes++;
			comp_send(f, qp, fetch_status(why), why);
			done++;
			continue;
		}
		FF_PROBE4(fetch, qp->qp_num, qp->wr->wr_id, qp->wr->opcode, qp->wr->length);
		r = qp->send->post(f, qp);
		qp->more = r == POST_MORE;
		if (r > POST_DONE)
			break;
		done += r; /* POST_SENT is 0, POST_DONE 1 */
	}
	qp_tell_done(qp);
	if (qp->draining && qp_is_idle(qp))
		qp_drained(f, qp);
	if (done && qp->state != IBV_QPS_RTS)
		done--; /* the last one failed */
	if (FF_COUNTERS && qp->lat.hist && (done || older))
		lat_note(f, qp, done, older);
	if (n) {
		s->last_post = f->now;
		fast_touch(f, s);
	}
	return n;
}
