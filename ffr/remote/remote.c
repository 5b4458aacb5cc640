/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * remote.c - QPs whose peer is on another host: their state, and the way between the wire's frames
 * and the two halves of a QP, req.c and resp.c with answer.c. [lock] remote.h has the
 * theory.
 */
#include "ffr/remote/remote.h"
#include "ffr/obj/ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Messages of QPs that are under way at once begin with few places and get more. */
#define WINDOW_FIRST 8u

static const char *const phase_name[] = {
	[REM_RUN] = "run", [REM_RNR] = "rnr",	  [REM_WAIT] = "wait",
	[REM_MAP] = "map", [REM_LATER] = "later",
};
static_assert(sizeof(phase_name) / sizeof(phase_name[0]) == REM_NUM_PHASES, "one for each");

const char *remote_phase_str(enum remote_phase phase)
{
	return phase < REM_NUM_PHASES ? phase_name[phase] : "?";
}

static struct soft_dev *soft_dev(struct fast *f)
{
	return f->be->priv;
}

static uint32_t random32(struct fast *f)
{
	uint64_t *s = &soft_dev(f)->random;

	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return (uint32_t)(*s >> 32);
}

/* ---- life ------------------------------------------------------------------------------------------ */

static void set_peer(struct remote_qp *rq, struct wire_peer *p)
{
	if (rq->wire.peer == p)
		return;
	if (rq->wire.peer) {
		wire_tx_forget(&rq->wire);
		wire_rx_forget(&rq->wire);
		LIST_REMOVE(rq, of_peer);
		peer_put(rq->wire.peer);
	}
	rq->wire.peer = p;
	if (p) {
		peer_get(p);
		LIST_INSERT_HEAD(&p->qps, rq, of_peer);
	}
}

uint64_t remote_bytes(const struct qp *qp)
{
	const struct remote_qp *rq;
	const struct sent *sent;
	uint64_t message = sizeof(*sent) + sizeof(sent);

	if (qp->type == IBV_QPT_UD)
		return SOFT_GRH_SZ + SOFT_MTU;
	if (qp->max_inline > sizeof(sent->few) || qp->max_send_sge > REMOTE_SMALL_SGE)
		message += REMOTE_MANY;
	return sizeof(*rq) + REMOTE_JOBS * (sizeof(*rq->rx.jobs) + sizeof(*rq->rx.atomics)) +
	       message * (qp->sq.depth < REMOTE_WINDOW ? qp->sq.depth : REMOTE_WINDOW);
}

bool remote_open(struct fast *f, struct qp *qp)
{
	struct remote *there = qp->soft->there;
	struct remote_qp *rq = calloc(1, sizeof(*rq));

	if (!rq)
		return false;
	rq->tx.win = calloc(WINDOW_FIRST, sizeof(struct sent *));
	if (!rq->tx.win) {
		free(rq);
		return false;
	}
	rq->tx.win_size = WINDOW_FIRST;
	rq->qp = rq->out.x.qp = rq->tx.in.qp = rq->rx.x.qp = qp;
	rq->cont = there->id;
	rq->epoch = there->epoch;
	rq->tx.tag = random32(f);
	rq->tx.timer.fn = request_timer;
	rq->rx.ack_timer.fn = response_timer;
	remote_rate_init(rq);
	qp->soft->rem = rq;
	qp->send = &remote_send;
	ledger_bar(qp->o.ses->ledger, LEDGER_BAR_REMOTE);
	set_peer(rq, there->peer);
	return true;
}

bool remote_is_peer(const struct remote_qp *rq)
{
	const struct remote *there = rq->qp->soft->there;

	return there && there->id == rq->cont && there->epoch == rq->epoch;
}

static void stall_end(struct remote_qp *rq)
{
	if (rq->is_stalled)
		LIST_REMOVE(rq, stalled);
	rq->is_stalled = false;
}

void remote_stall(struct fast *f, struct remote_qp *rq)
{
	if (!rq->is_stalled)
		LIST_INSERT_HEAD(&soft_dev(f)->stalled, rq, stalled);
	rq->is_stalled = true;
}

/* Is the buffer part of the batch that is being collected? */
static bool is_out(struct fast *f, const struct remote_qp *rq)
{
	const struct wire_dev *d = wire_dev(f);

	return rq->out.x.call && d->collecting && rq->out.batch == d->batch;
}

/* Let go of what was read ahead. */
static void out_reset(struct fast *f, struct remote_qp *rq)
{
	struct wire_dev *d = wire_dev(f);

	if (is_out(f, rq)) { /* at most one for each frame of a batch */
		d->kept[d->num_kept++] = rq->out.x.call;
		rq->out.x.call = NULL;
	}
	xfer_reset(f, &rq->out.x);
	rq->out.x.buf_len = 0;
	rq->out.awaited = false;
}

void remote_abort(struct fast *f, struct qp *qp, bool flush)
{
	struct remote_qp *rq = qp->soft->rem;

	if (!rq)
		return;
	rq->incarnation++;
	wire_tx_forget(&rq->wire);
	wire_rx_forget(&rq->wire);
	timer_cancel(&f->timers, &rq->tx.timer);
	wire_batch_forget(&rq->wire);
	stall_end(rq);
	remote_rate_forget(f, rq);
	out_reset(f, rq);
	xfer_reset(f, &rq->tx.in);
	response_abort(f, rq);
	rq->tx.phase = REM_RUN;
	rq->tx.solo = rq->tx.is_met = false;
	rq->tx.fetches = 0;
	step_none(rq);
	while (rq->tx.una != rq->tx.tail) {
		struct sent *s = remote_sent_wr(rq, rq->tx.una);

		request_unanswered(rq, rq->tx.una++);
		if (flush)
			comp_sent(f, qp, &s->wr, IBV_WC_WR_FLUSH_ERR, FF_VERR_FLUSH);
	}
	rq->tx.nxt = rq->tx.una;
	rq->tx.off = 0;
	if (!flush)
		qp->in_flight = 0;
}

void remote_free(struct fast *f, struct qp *qp)
{
	struct remote_qp *rq = qp->soft->rem;

	if (!rq)
		return;
	remote_abort(f, qp, false);
	set_peer(rq, NULL);
	for (uint32_t i = 0; i < rq->tx.win_size; i++) {
		if (rq->tx.win[i])
			free(rq->tx.win[i]->many);
		free(rq->tx.win[i]);
	}
	free(rq->tx.win);
	free(rq->rx.jobs);
	free(rq->rx.atomics);
	free(rq);
	qp->soft->rem = NULL;
	qp->send = &local_send;
}

void remote_announce(struct fast *f, struct qp *qp)
{
	struct remote_qp *rq = qp->soft->rem;

	if (!rq || !route_receives(qp))
		return;
	rq->rx.go_due = true;
	if (rq->wire.peer && !rq->wire.peer->tcp)
		peer_want(rq->wire.peer); /* it will be needed */
	wire_tx(f, &rq->wire);
}

/* It is in x->call->buf. */
static enum next fetched(struct fast *f, struct remote_qp *rq, struct frame *fr)
{
	rq->out.batch = wire_dev(f)->batch;
	fr->iov[0] = (struct iovec){ rq->out.x.call->buf, rq->out.x.buf_len };
	fr->num_iov = 1;
	fr->h.len = rq->out.x.buf_len;
	return NEXT_FRAME;
}

/* Does what is read ahead, or will be, begin there? */
static bool out_is(const struct remote_qp *rq, bool is_job, uint32_t msn, uint64_t off)
{
	return rq->out.is_job == is_job && rq->out.msn == msn && rq->out.off == off;
}

void remote_fetch_needless(struct fast *f, struct remote_qp *rq, bool is_job)
{
	if (rq->out.is_job == is_job && (rq->out.x.call || rq->out.x.wait.q))
		out_reset(f, rq);
}

/* A QP that is not in line to send has no buffer that is full: there are few, and others want to send. */
static void out_leave(struct fast *f, struct remote_qp *rq)
{
	if (rq->out.x.call && !xfer_is_busy(&rq->out.x))
		out_reset(f, rq);
}

enum next remote_fetch_bytes(struct fast *f, struct remote_qp *rq, const struct side *src,
			     bool is_job, uint32_t msn, uint64_t off, uint64_t n, struct frame *fr,
			     enum ff_vendor_err *why)
{
	struct xfer *x = &rq->out.x;
	bool is_it = out_is(rq, is_job, msn, off);

	if (xfer_is_busy(x))
		return NEXT_NONE;
	if (x->call && x->call_pending) {
		x->call_pending = false;
		x->buf_len = x->call->result ? 0 : x->call->len;
		if (is_it && x->call->result == -EFAULT) {
			out_reset(f, rq);
			*why = FF_VERR_FAULT;
			return NEXT_FAULT;
		}
	}
	if (is_it && x->call && x->buf_len)
		return fetched(f, rq, fr);
	/* a frame of this batch may point to what was read before */
	if (is_out(f, rq))
		return NEXT_BATCH;
	if (x->call) /* else it may have been called, and keeps its place before those that wait */
		out_reset(f, rq);
	rq->out.is_job = is_job;
	rq->out.msn = msn;
	rq->out.off = off;
	switch (xfer_get(f, x, src, off, n, why)) {
	case XFER_DONE:
		return fetched(f, rq, fr);
	case XFER_MORE:
	case XFER_NEXT:
	case XFER_WAIT:
		rq->out.awaited = true;
		remote_stall(f, rq);
		return NEXT_NONE;
	default:
		return NEXT_FAULT;
	}
}

void remote_hdr(const struct remote_qp *rq, struct wire_hdr *h, enum wire_type type)
{
	const struct container *c = rq->qp->o.ses->cont;

	memset(h, 0, sizeof(*h));
	h->type = (uint8_t)type;
	h->dst_qpn = rq->qp->attr.dest_qp_num;
	h->src_qpn = rq->qp->qp_num;
	h->dst_cont = rq->cont;
	h->dst_epoch = rq->epoch;
	h->src_cont = c->id;
	h->src_epoch = c->epoch;
}

/* ---- what the wire asks ----------------------------------------------------------------------------- */

static struct remote_qp *remote_of(struct wire_qp *wq)
{
	static_assert(offsetof(struct remote_qp, wire) == 0,
		      "a pointer to one is a pointer to the other");
	return (struct remote_qp *)wq;
}

static enum next next_frame(struct fast *f, struct wire_qp *wq, struct frame *fr)
{
	struct remote_qp *rq = remote_of(wq);
	enum next r = response_next(f, rq, fr);

	if (r == NEXT_NONE)
		r = request_next(f, rq, fr);
	if (r == NEXT_NONE)
		out_leave(f, rq);
	return r;
}

static void frame_sent(struct fast *f, struct wire_qp *wq, const struct frame *fr)
{
	struct remote_qp *rq = remote_of(wq);
	struct sent *s;

	if (fr->num_iov && rq->out.x.call && fr->iov[0].iov_base == rq->out.x.call->buf)
		out_reset(f, rq); /* others may be waiting for a buffer */
	if (fr->incarnation != rq->incarnation || fr->kind != FRAME_REQUEST ||
	    !(fr->h.flags & WIRE_LAST) || qp_is_reliable(rq->qp))
		return;
	/* UC: that was all */
	s = remote_sent_wr(rq, fr->h.msn);
	s->done = true;
	s->status = IBV_WC_SUCCESS;
	request_advance(f, rq);
}

static void frame_unsent(struct wire_qp *wq, const struct frame *fr)
{
	struct remote_qp *rq = remote_of(wq);

	if (fr->incarnation != rq->incarnation)
		return;
	switch (fr->kind) {
	case FRAME_REQUEST:
		if (rq->tx.nxt != fr->old_nxt && ff_op_fetches(fr->h.opcode))
			rq->tx.fetches--;
		step_unsent(rq, fr->h.opcode);
		rq->tx.nxt = fr->old_nxt;
		rq->tx.off = fr->old_off;
		break;
	case FRAME_PROBE:
		if (rq->tx.phase != REM_LATER || fr->h.msn != rq->tx.nxt ||
		    rq->tx.nxt == rq->tx.tail)
			break;
		remote_sent_wr(rq, fr->h.msn)->probe = true;
		rq->tx.phase = REM_RUN;
		break;
	case FRAME_DATA:
		rq->qp->stats.tx_bytes -= fr->h.len;
		rq->rx.job_head = fr->old_nxt;
		rq->rx.jobs[rq->rx.job_head % REMOTE_JOBS].off = fr->old_off;
		break;
	case FRAME_ATOMIC:
		rq->rx.job_head = fr->old_nxt;
		break;
	case FRAME_NAK:
		rq->rx.nak_due = true;
		break;
	case FRAME_ACK:
		rq->rx.ack_due = true;
		break;
	case FRAME_GO:
		rq->rx.go_due = true;
		break;
	case FRAME_ASK:
		if (fr->h.flags & WIRE_STEP)
			rq->tx.step_asked = false;
		else
			rq->tx.ask = true;
		break;
	}
}

/* The QP that an answer is for, if it comes from the one that was asked. */
static struct remote_qp *requester_of(struct fast *f, const struct wire_peer *p,
				      const struct wire_hdr *h)
{
	struct qp *qp = qp_here(f, h->dst_cont, h->dst_qpn);
	struct remote_qp *rq = qp ? qp->soft->rem : NULL;

	if (!rq || rq->wire.peer != p || !remote_is_peer(rq) || rq->cont != h->src_cont ||
	    rq->epoch != h->src_epoch || qp->attr.dest_qp_num != h->src_qpn ||
	    qp->o.ses->cont->epoch != h->dst_epoch)
		return NULL;
	return rq;
}

void remote_meet(struct fast *f, struct wire_peer *p, const struct wire_hdr *h)
{
	struct qp *qp = qp_here(f, h->dst_cont, h->dst_qpn);
	const struct remote *r;

	if (!qp || qp->type == IBV_QPT_UD || route_is_ours(qp) || !route_receives(qp) ||
	    qp->attr.dest_qp_num != h->src_qpn || qp->o.ses->cont->epoch != h->dst_epoch)
		return;
	r = dir_by_id(f, h->src_cont);
	if (!r || r->peer != p || r->epoch != h->src_epoch || qp->soft->met == r->id)
		return;
	qp->soft->met = r->id;
	fast_want_work(f->host);
}

static enum sink frame_begin(struct fast *f, struct wire_peer *p, const struct wire_hdr *h,
			     struct wire_qp **wq)
{
	struct remote_qp *to;

	if (h->type == WIRE_UD)
		return SINK_BUFFER;
	if (h->type == WIRE_REQ)
		return response_begin(f, p, h, wq);
	if (h->type == WIRE_ASK) {
		response_asked(f, p, h);
		return SINK_DISCARD;
	}
	to = requester_of(f, p, h);
	if (!to && h->type == WIRE_GO)
		remote_meet(f, p, h);
	if (!to)
		return SINK_DISCARD;
	if (h->type == WIRE_GO) {
		request_go(f, to);
		return SINK_DISCARD;
	}
	if (h->tag != to->tx.tag)
		return SINK_DISCARD;
	switch (h->type) {
	case WIRE_ACK:
		request_ack(f, to, h->msn);
		break;
	case WIRE_NAK:
		request_nak(f, to, h);
		break;
	case WIRE_ATOMIC_DATA:
	case WIRE_READ_DATA:
		if (!request_data_settled(f, to) ||
		    (h->type == WIRE_READ_DATA && !request_data_begin(to, h)))
			return SINK_DISCARD;
		*wq = &to->wire;
		return SINK_QP;
	default:
		break;
	}
	return SINK_DISCARD;
}

/* Where the frame's payload goes to, and where in it. */
static struct side sink_side(struct remote_qp *rq, const struct wire_hdr *h)
{
	const struct sent *s;

	if (h->type == WIRE_REQ)
		return response_side(rq);
	s = remote_sent_wr(rq, h->msn);
	return (struct side){
		.sge = s->wr.sge,
		.num_sge = s->wr.num_sge,
		.keys = &rq->qp->o.ses->cont->keys,
		.pd = rq->qp->pd,
		.access = IBV_ACCESS_LOCAL_WRITE,
	};
}

static void sink_bad(struct fast *f, struct remote_qp *rq, const struct wire_hdr *h,
		     enum ff_vendor_err why)
{
	if (h->type == WIRE_REQ)
		response_bad(f, rq, why);
	else
		request_data_bad(f, rq, h->msn, why);
}

static int frame_spot(struct fast *f, struct wire_qp *wq, const struct wire_hdr *h, uint32_t off,
		      uint32_t len, struct iovec *iov, int max, uint32_t *bytes)
{
	struct remote_qp *rq = remote_of(wq);
	struct side s = sink_side(rq, h);
	enum ff_vendor_err why = FF_VERR_NONE;
	uint64_t n;
	int num = xfer_iov(&s, h->offset + off, len, iov, max, &n, &why);

	if (num < 0)
		sink_bad(f, rq, h, why);
	else
		*bytes = (uint32_t)n;
	return num;
}

static enum wire_put frame_put(struct fast *f, struct wire_qp *wq, const struct wire_hdr *h,
			       uint32_t off, const uint8_t *buf, uint64_t *len,
			       enum ff_vendor_err *why)
{
	struct remote_qp *rq = remote_of(wq);
	struct side s = sink_side(rq, h);
	struct xfer *x = h->type == WIRE_REQ ? &rq->rx.x : &rq->tx.in;

	*why = FF_VERR_NONE;
	switch (xfer_put(f, x, &s, h->offset + off, buf, len, why)) {
	case XFER_DONE:
		return PUT_DONE;
	case XFER_MORE:
	case XFER_NEXT:
		return PUT_LATER;
	case XFER_WAIT:
		return PUT_WAIT;
	default:
		return PUT_FAULT;
	}
}

static void frame_put_failed(struct fast *f, struct wire_qp *wq, const struct wire_hdr *h,
			     uint32_t off, enum wire_put r, enum ff_vendor_err why)
{
	struct remote_qp *rq = remote_of(wq);

	if (r != PUT_WAIT)
		sink_bad(f, rq, h, why);
	else if (h->type == WIRE_REQ)
		response_wait(f, rq, h->offset + off);
	else
		request_data_later(f, rq, h->msn, h->offset + off);
}

static bool frame_end(struct fast *f, struct wire_peer *p, const struct wire_hdr *h,
		      struct wire_qp *wq, const uint8_t *payload)
{
	struct remote_qp *rq = remote_of(wq);

	if (h->type == WIRE_UD)
		return remote_ud_recv(f, p, h, payload);
	if (!wq)
		return true;
	switch (h->type) {
	case WIRE_REQ:
		return response_end(f, rq, h);
	case WIRE_READ_DATA:
		request_data_end(f, rq, h);
		return true;
	case WIRE_ATOMIC_DATA:
		return request_atomic(f, rq, h);
	default:
		return true;
	}
}

/* ---- what happens to hosts --------------------------------------------------------------------------- */

static void host_up(struct fast *f, struct wire_peer *p)
{
	const struct qp_table *qps = &f->host->qps;
	struct soft_dev *dev = soft_dev(f);
	struct soft_qp *sq, *next;
	struct remote_qp *rq;

	p->mcast_give_up = 0;
	for (uint32_t i = 0; i < qps->size; i++)
		if (qps->slot[i] && qp_is_on(qps->slot[i], f) &&
		    qps->slot[i]->soft->mcast.step == MCAST_ASKED)
			fast_qp_activate(f, qps->slot[i]);
	LIST_FOREACH_SAFE(sq, &dev->unreachable, req.waiting, next)
		if (sq->there && sq->there->peer == p)
			requester_resume(f, sq);
	LIST_FOREACH(rq, &p->qps, of_peer) {
		if (rq->tx.phase == REM_WAIT || rq->tx.una != rq->tx.tail)
			remote_resume(f, rq);
		if (rq->rx.rnr_owed || rq->rx.nak_due || rq->rx.ack_due || rq->rx.go_due)
			wire_tx(f, &rq->wire);
	}
}

static void host_down(struct fast *f, struct wire_peer *p)
{
	struct remote_qp *rq;
	bool wanted = false;

	LIST_FOREACH(rq, &p->qps, of_peer) {
		out_leave(f, rq);
		response_down(rq);
		if (rq->tx.una == rq->tx.tail)
			continue;
		wanted = true;
		if (rq->tx.phase != REM_WAIT)
			remote_no_answer(f, rq);
	}
	if (wanted)
		peer_want(p);
}

static void change_peer(struct fast *f, struct remote_qp *rq, struct wire_peer *p)
{
	set_peer(rq, p);
	if (!rq->wire.is_queued && !rq->out.awaited) /* else poll() looks whether it is in line */
		out_leave(f, rq);
}

void remote_changed(struct fast *f, struct remote *r)
{
	struct soft_qp *sq, *next;

	for (uint32_t i = 0; i < f->host->qps.size; i++) {
		struct qp *qp = f->host->qps.slot[i];
		struct remote_qp *rq;

		if (!qp || !qp->soft || qp->soft->there != r)
			continue;
		rq = qp->soft->rem;
		if (!rq) { /* it waited for somebody to have the address */
			if (qp->type != IBV_QPT_UD && route_receives(qp)) {
				route_resolve(f, qp);
				remote_announce(f, qp);
				if (qp->busy)
					requester_resume(f, qp->soft);
			}
			continue;
		}
		if (!remote_is_peer(rq)) {
			change_peer(f, rq, NULL);
			if (rq->tx.phase != REM_WAIT && rq->tx.una != rq->tx.tail)
				remote_no_answer(f, rq);
			continue;
		}
		change_peer(f, rq, r->peer);
		if (!rq->wire.peer && rq->tx.phase != REM_WAIT && rq->tx.una != rq->tx.tail)
			/* nobody would tell it of the end of that connection */
			remote_no_answer(f, rq);
		else if (rq->tx.phase == REM_MAP)
			remote_mapped(f, rq);
		else if (rq->wire.peer && rq->tx.una != rq->tx.tail && rq->tx.phase == REM_WAIT)
			remote_resume(f, rq);
	}
	LIST_FOREACH_SAFE(sq, &soft_dev(f)->unreachable, req.waiting, next)
		if (sq->there == r)
			requester_resume(f, sq);
	remote_ud_known(f, r);
}

/* May the QP still talk to its peer? */
static bool is_denied(struct fast *f, struct qp *qp)
{
	const struct container *c = qp->o.ses->cont;
	const struct soft_qp *sq = qp->soft;

	if (qp->dest)
		return !dir_allowed(f->host, c, qp->dest->tenant, qp->dest->name);
	return sq->there && sq->there->epoch &&
	       !dir_allowed(f->host, c, sq->there->tenant, sq->there->name);
}

void remote_policy_changed(struct fast *f)
{
	struct container *c;
	struct session *s;

	for (uint32_t i = 0; i < f->host->qps.size; i++) {
		struct qp *qp = f->host->qps.slot[i];

		if (qp && qp->soft && qp->type != IBV_QPT_UD && is_denied(f, qp))
			fast_qp_error(qp->o.ses->fast, qp, IBV_EVENT_QP_FATAL);
	}
	LIST_FOREACH(c, &f->host->containers, entry)
		LIST_FOREACH(s, &c->sessions, entry) {
			struct obj_table *t = &s->tab[OBJ_AH];

			for (uint32_t i = 0; i < t->size; i++)
				if (t->slot[i])
					obj_of(t->slot[i], ah)->cont = NULL;
		}
}

void remote_mcast_changed(struct fast *f, const char *tenant, const union ibv_gid *mgid)
{
	for (uint32_t i = 0; i < f->host->qps.size; i++) {
		struct qp *qp = f->host->qps.slot[i];

		if (!qp || !qp_is_on(qp, f) || qp->soft->mcast.step != MCAST_ASKED ||
		    strcmp(qp->o.ses->cont->tenant, tenant) ||
		    memcmp(&qp->soft->mcast.gid, mgid, sizeof(*mgid)))
			continue;
		fast_qp_activate(f, qp);
	}
}

static void host_drained(struct fast *f, struct wire_peer *p)
{
	struct soft_qp *sq, *next;

	LIST_FOREACH_SAFE(sq, &soft_dev(f)->unreachable, req.waiting, next)
		if (sq->there && sq->there->peer == p)
			requester_resume(f, sq);
}

const struct wire_ops remote_wire_ops = {
	.next = next_frame,
	.sent = frame_sent,
	.unsent = frame_unsent,
	.begin = frame_begin,
	.spot = frame_spot,
	.put = frame_put,
	.put_failed = frame_put_failed,
	.end = frame_end,
	.up = host_up,
	.down = host_down,
	.drained = host_drained,
};

/* ---- turns ------------------------------------------------------------------------------------------ */

static uint32_t poll(struct fast *f)
{
	struct remote_qp *rq, *next;
	uint32_t work = wire_poll(f);

	LIST_FOREACH_SAFE(rq, &soft_dev(f)->stalled, stalled, next) {
		if (rq->out.awaited && !xfer_is_busy(&rq->out.x)) {
			rq->out.awaited = false;
			wire_tx(f, &rq->wire);
			if (!rq->wire.is_queued)
				out_leave(f, rq);
			work++;
		}
		if (response_stalls(rq) && !xfer_is_busy(&rq->rx.x)) {
			response_stalled(f, rq);
			wire_tx(f, &rq->wire);
			work++;
		}
		if (request_settled(f, rq))
			work++;
		if (!rq->out.awaited && !response_stalls(rq) && !request_settles(rq))
			stall_end(rq);
	}
	return work + remote_ud_poll(f);
}

static void news(struct fast *f, struct remote *r)
{
	if (!r) {
		remote_policy_changed(f);
		return;
	}
	remote_changed(f, r);
	wire_cm_known(f);
}

const struct carrier wire_carrier = {
	.name = "wire",
	.news = news,
	.poll = poll,
	.flush = wire_flush,
	.ready = wire_ready,
};
