/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * req.c - the requester's half of a QP whose peer is on another host: the window of its messages, and what is answered.
 * [lock] remote.h has the theory; fast/send.c posts here, send.c makes the frames, remote.c brings answers.
 */
#include "ffr/abi/ff_probe.h"
#include "ffr/remote/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LATER_NS      NS_PER_MS
#define BUSY_NS	      (10 * NS_PER_MS) /* one message at a time, after the peer's limits held one */
#define BUSY_PATIENCE (1000 * NS_PER_MS)
#define PATIENCE      (30000 * NS_PER_MS) /* with a QP whose router is there */
#define UC_PATIENCE   (500 * NS_PER_MS)	  /* for a connection of the two hosts */

/* ---- time --------------------------------------------------------------------------------------------- */

/*
 * How long a try lasts, ns; 0: for ever. It is three times what the program says, of four that IBTA 9.9.2.1.1 allows:
 * the wire loses nothing and repeats by itself, so a longer try only gives a host that has stalled more time. What is
 * left of the four is for a new connection on the way.
 */
static uint64_t ack_timeout(const struct qp *qp)
{
	uint64_t t = 3 * requester_ack_timeout(qp);

	return t && t < REMOTE_TIMEOUT_MIN ? REMOTE_TIMEOUT_MIN : t;
}

/* A try begins: with the first message, with the end of the try before, or when the peer has answered. */
static void begin_try(struct fast *f, struct remote_qp *rq)
{
	uint64_t t = ack_timeout(rq->qp);

	rq->tx.heard = rq->wire.peer ? wire_heard(rq->wire.peer) : 0;
	rq->tx.try_ends = t ? f->now + t : 0;
	rq->tx.is_unknown = false;
}

/*
 * The try that has begun goes on, and ends when it was going to end. All that is news of the peer comes here, because
 * news may come more often than a try is long: if they began a try, no request would ever fail.
 */
static void watch_on(struct fast *f, struct remote_qp *rq)
{
	bool is_run = rq->tx.phase == REM_RUN, runs = qp_is_reliable(rq->qp) && rq->tx.try_ends;

	if (!is_run && (rq->tx.phase != REM_WAIT || !qp_is_reliable(rq->qp)))
		return; /* the timer is the phase's */
	if (runs && rq->tx.una != rq->tx.tail)
		timer_arm(&f->timers, &rq->tx.timer, rq->tx.try_ends);
	else
		timer_cancel(&f->timers, &rq->tx.timer);
}

static void watch(struct fast *f, struct remote_qp *rq)
{
	begin_try(f, rq);
	watch_on(f, rq);
}

/* The peer has answered: all tries are left again. */
static void answered(struct fast *f, struct remote_qp *rq)
{
	rq->tx.answered_at = f->now;
	rq->tx.rnr_left = rq->qp->attr.rnr_retry;
	rq->tx.retry_left = rq->qp->attr.retry_cnt;
	rq->tx.silent = 0;
}

/* ---- the window ----------------------------------------------------------------------------------------- */

static bool grow(struct remote_qp *rq)
{
	uint32_t size = rq->tx.win_size * 2;
	struct sent **win;

	if (rq->tx.win_size >= REMOTE_WINDOW)
		return false;
	win = calloc(size, sizeof(*win));
	if (!win)
		return false;
	/* those under way keep their numbers; the rest goes where there is place */
	for (uint32_t i = 0; i < rq->tx.win_size; i++) {
		uint32_t msn = rq->tx.una + i;

		win[msn & (size - 1)] = rq->tx.win[msn & (rq->tx.win_size - 1)];
	}
	free(rq->tx.win);
	rq->tx.win = win;
	rq->tx.win_size = size;
	return true;
}

/* The place of the next message, or NULL: there is none now. */
static struct sent *place(struct remote_qp *rq)
{
	struct sent **s;

	if (rq->tx.tail - rq->tx.una == rq->tx.win_size && !grow(rq))
		return NULL;
	s = &rq->tx.win[rq->tx.tail & (rq->tx.win_size - 1)];
	if (!*s)
		*s = calloc(1, sizeof(**s));
	return *s;
}

/* A copy of the WR at hand. False: no memory. */
static bool copy_wr(struct sent *s, const struct send_wr *wr)
{
	bool inl = wr->flags & FF_SQE_INLINE;
	size_t n = inl ? wr->num_sge : wr->num_sge * sizeof(struct ff_sge);
	void *data = &s->few;

	if (n > sizeof(s->few)) {
		if (!s->many)
			s->many = malloc(REMOTE_MANY);
		if (!s->many)
			return false;
		data = s->many;
	}
	s->wr = *wr;
	s->wr.ah = NULL;
	s->wr.sge = data;
	s->wr.inl = data;
	memcpy(data, inl ? (void *)wr->inl : (void *)wr->sge, n);
	s->got = 0;
	s->map_until = 0;
	s->is_mapped = s->probe = s->done = false;
	s->status = IBV_WC_SUCCESS;
	s->why = FF_VERR_NONE;
	return true;
}

static enum post_result wait_for_place(struct soft_qp *sq)
{
	sq->req.state = REQ_WAIT_WIN;
	return POST_WAIT;
}

/* Take over the WR at hand. */
static enum post_result post(struct fast *f, struct qp *qp)
{
	struct soft_qp *sq = qp->soft;
	struct remote_qp *rq = sq->rem;
	enum ff_vendor_err why;
	enum ibv_wc_status st;
	struct sent *s;

	if (requester_is_mw(qp->wr)) {
		/* what was posted before is done before */
		return rq->tx.una == rq->tx.tail ? requester_mw(f, qp) : wait_for_place(sq);
	}
	s = place(rq);
	if (!s || !copy_wr(s, qp->wr))
		return wait_for_place(sq);
	st = requester_check(qp, &why);
	if (st != IBV_WC_SUCCESS) { /* it fails in its turn */
		s->done = true;
		s->status = (uint8_t)st;
		s->why = (uint8_t)why;
	}
	if (rq->tx.una == rq->tx.tail) /* it has all tries */
		answered(f, rq);
	rq->tx.tail++;
	qp->in_flight++;
	qp->busy = false;
	sq->req.state = REQ_IDLE;
	if (rq->tx.tail - rq->tx.una == 1)
		watch(f, rq);
	/* UC: nothing is sent twice, so nothing is sent before the peer is there */
	s->probe = !rq->tx.is_met && !qp_is_reliable(qp);
	if (s->done && rq->tx.una + 1 == rq->tx.tail)
		request_advance(f, rq);
	else if (rq->wire.peer && rq->wire.peer->tcp)
		wire_tx(f, &rq->wire);
	else if (rq->tx.phase == REM_RUN)
		remote_no_answer(f, rq);
	return POST_SENT;
}

/* It waited for a place, or began when the path did not lead here yet. */
static enum post_result progress(struct fast *f, struct qp *qp)
{
	return requester_may_run(&qp->soft->req) ? post(f, qp) : POST_WAIT;
}

static const char *by(const struct qp *qp)
{
	const struct remote_qp *rq = qp->soft->rem;

	return wire_carried_by(rq ? rq->wire.peer : NULL);
}

const struct send_ops remote_send = {
	.name = "wire",
	.by = by,
	.post = post,
	.progress = progress,
};

/*
 * Is that message under way? Perhaps it was sent and is to be sent again: what is answered late counts.
 * (A router that lies about what it got harms its own containers' connections.)
 */
static bool is_under_way(const struct remote_qp *rq, uint32_t msn)
{
	return msn - rq->tx.una < rq->tx.tail - rq->tx.una;
}

/* Before nxt goes back, or what comes behind it is forgotten. */
static void note_top(struct remote_qp *rq)
{
	int32_t ahead = (int32_t)(rq->tx.nxt - rq->tx.top);

	if (ahead < 0 || (!ahead && rq->tx.off < rq->tx.top_off))
		return;
	rq->tx.top = rq->tx.nxt;
	rq->tx.top_off = rq->tx.off;
}

void request_unanswered(struct remote_qp *rq, uint32_t msn)
{
	const struct sent *s = remote_sent_wr(rq, msn);
	int32_t ahead;

	note_top(rq);
	ahead = (int32_t)(rq->tx.top - msn);
	if (s->status != IBV_WC_SUCCESS && s->status != IBV_WC_RETRY_EXC_ERR)
		return; /* of this side, which sent nothing, or refused */
	if (s->wr.opcode < FF_OP_READ || s->wr.opcode == FF_OP_SEND_INV)
		rq->qp->stats.tx_bytes += ahead > 0 ? s->wr.length : ahead ? 0 : rq->tx.top_off;
}

void request_advance(struct fast *f, struct remote_qp *rq)
{
	struct qp *qp = rq->qp;
	uint32_t incarnation = rq->incarnation, una = rq->tx.una;

	while (rq->tx.una != rq->tx.tail && remote_sent_wr(rq, rq->tx.una)->done) {
		struct sent *s = remote_sent_wr(rq, rq->tx.una);

		if (rq->tx.nxt == rq->tx.una) { /* answered after all, before it was sent again */
			rq->tx.nxt++;
			rq->tx.off = 0;
		}
		rq->tx.una++;
		comp_sent(f, qp, &s->wr, s->status, s->why);
		if (rq->incarnation != incarnation) /* it failed: all was flushed */
			return;
	}
	if (rq->tx.una == una)
		return;
	answered(f, rq);
	rq->tx.ask = rq->tx.solo = false;
	watch(f, rq);
	if (qp->busy) {
		requester_resume(f, qp->soft);
	} else {
		qp->last_work = f->now;
	}
	if (rq->tx.nxt != rq->tx.tail)
		wire_tx(f, &rq->wire);
}

void remote_fail(struct fast *f, struct remote_qp *rq, uint32_t msn, enum ibv_wc_status st,
		 enum ff_vendor_err why)
{
	struct sent *s = remote_sent_wr(rq, msn);

	s->done = true;
	s->status = (uint8_t)st;
	s->why = (uint8_t)why;
	if (st == IBV_WC_RETRY_EXC_ERR)
		request_unanswered(rq, msn);
	request_advance(f, rq);
}

/* Send from message msn on again, or from where that is the case already. */
static void go_back(struct remote_qp *rq, uint32_t msn)
{
	if ((int32_t)(msn - rq->tx.nxt) > 0)
		return;
	note_top(rq);
	step_anew(rq);
	rq->tx.nxt = msn;
	rq->tx.off = 0;
	rq->tx.fetches = 0;
	for (uint32_t m = rq->tx.una; m != rq->tx.nxt; m++) {
		const struct sent *s = remote_sent_wr(rq, m);

		rq->tx.fetches += ff_op_fetches(s->wr.opcode) && !s->done;
	}
}

/* The same, behind bytes of the message that the peer has. True: they are more than it had. */
static bool go_back_to(struct remote_qp *rq, uint32_t msn, uint64_t off)
{
	struct sent *s = remote_sent_wr(rq, msn);
	bool more;

	go_back(rq, msn);
	if (rq->tx.nxt != msn || ff_op_fetches(s->wr.opcode) || off >= s->wr.length)
		return false;
	rq->tx.off = off;
	more = off > s->got;
	if (more)
		s->got = off;
	return more;
}

void remote_no_answer(struct fast *f, struct remote_qp *rq)
{
	bool waits = rq->tx.phase == REM_WAIT && rq->tx.timer.index;

	rq->tx.phase = REM_WAIT;
	go_back(rq, rq->tx.una);
	if (rq->wire.peer && !rq->wire.peer->tcp)
		peer_want(rq->wire.peer);
	if (qp_is_reliable(rq->qp))
		watch_on(f, rq);
	else if (!waits)
		timer_arm(&f->timers, &rq->tx.timer, f->now + UC_PATIENCE);
}

/* UC: what nobody is there for is lost. */
static void lose_all(struct fast *f, struct remote_qp *rq)
{
	rq->tx.phase = REM_RUN;
	while (rq->tx.una != rq->tx.tail) {
		rq->qp->stats.ud_drops++;
		remote_fail(f, rq, rq->tx.una, IBV_WC_SUCCESS, FF_VERR_NONE);
	}
}

void remote_resume(struct fast *f, struct remote_qp *rq)
{
	bool again = rq->tx.phase != REM_RNR && rq->tx.phase != REM_LATER;

	if (!rq->wire.peer || !rq->wire.peer->tcp) {
		if (rq->tx.una != rq->tx.tail)
			remote_no_answer(f, rq);
		return;
	}
	rq->tx.phase = REM_RUN;
	if (again)
		go_back(rq, rq->tx.una);
	watch_on(f, rq);
	wire_tx(f, &rq->wire);
}

void request_go(struct fast *f, struct remote_qp *rq)
{
	if (rq->tx.phase != REM_RNR && rq->tx.phase != REM_WAIT)
		return;
	if (rq->tx.phase == REM_RNR)
		requester_rnr_over(rq->qp, &rq->tx.rnr_left);
	begin_try(f, rq);
	remote_resume(f, rq);
}

void remote_mapped(struct fast *f, struct remote_qp *rq)
{
	rq->tx.phase = REM_RUN;
	watch_on(f, rq);
	wire_tx(f, &rq->wire);
}

/* All before `end` is done, but what fetches. */
static void acknowledge(struct remote_qp *rq, uint32_t end)
{
	for (uint32_t m = rq->tx.una; m != end; m++) {
		struct sent *s = remote_sent_wr(rq, m);

		if (!ff_op_fetches(s->wr.opcode))
			s->done = true;
	}
}

/* The fetch of that number that is under way, before message `end`; or NULL. */
static struct sent *fetch_of(const struct remote_qp *rq, uint32_t msn, uint32_t end)
{
	struct sent *s;

	if (msn - rq->tx.una >= end - rq->tx.una)
		return NULL;
	s = remote_sent_wr(rq, msn);
	return ff_op_fetches(s->wr.opcode) && !s->done ? s : NULL;
}

/* More of message msn, which fetches, is where it belongs: perhaps all of it. */
static void fetched(struct fast *f, struct remote_qp *rq, uint32_t msn, uint64_t n)
{
	struct sent *s = remote_sent_wr(rq, msn);

	bool part;

	s->got += n;
	rq->tx.answered_at = f->now;
	part = step_read_done(rq, msn, s->got);
	if (s->got < (ff_op_is_word(s->wr.opcode) ? sizeof(uint64_t) : s->wr.length)) {
		if (part) { /* the next one */
			go_back(rq, msn);
			wire_tx(f, &rq->wire);
		}
		return;
	}
	acknowledge(rq, msn);
	s->done = true;
	if (msn - rq->tx.una < rq->tx.nxt - rq->tx.una)
		rq->tx.fetches--; /* else it is to be sent again, and not counted */
	/* its responder is in order: what was before it is done, and needs no ACK */
	fast_data_to(f, rq->qp->o.ses);
	request_advance(f, rq);
	wire_tx(f, &rq->wire); /* a fence, or the number of fetches, may have held something back */
}

/*
 * Fetched data that the program's memory kept waiting, and that are to come again: does no thread write them any more?
 * Those that come may be written by pointers, and be seen by the program, who must not find the old ones afterwards.
 * False: not yet, or the WR has failed.
 */
static bool in_settled(struct fast *f, struct remote_qp *rq)
{
	const struct pvm_call *c = rq->tx.in.call;
	uint32_t msn = rq->tx.in_msn, incarnation = rq->incarnation;
	const struct sent *s;
	uint32_t len;
	int result;

	if (xfer_is_busy(&rq->tx.in)) {
		begin_try(f, rq); /* the peer is not waited for */
		timer_arm(&f->timers, &rq->tx.timer, f->now + LATER_NS);
		return false;
	}
	if (!c)
		return true;
	begin_try(f, rq);
	len = c->len;
	result = c->result;
	xfer_reset(f, &rq->tx.in);
	s = fetch_of(rq, msn, rq->tx.tail);
	if (s && result == -EFAULT)
		remote_fail(f, rq, msn, IBV_WC_LOC_PROT_ERR, FF_VERR_FAULT);
	else if (s && !result && s->got == rq->tx.in_off)
		fetched(f, rq, msn, len);
	return rq->incarnation == incarnation;
}

static bool is_try_over(const struct fast *f, const struct remote_qp *rq)
{
	return qp_is_reliable(rq->qp) && rq->tx.try_ends && f->now >= rq->tx.try_ends;
}

void request_timer(struct timer *t)
{
	struct remote_qp *rq =
		(struct remote_qp *)((char *)t - offsetof(struct remote_qp, tx.timer));
	struct fast *f = rq->qp->o.ses->fast;

	switch (rq->tx.phase) {
	case REM_MAP: /* ask the peer */
		if (rq->tx.nxt != rq->tx.tail)
			remote_sent_wr(rq, rq->tx.nxt)->probe = true;
		remote_mapped(f, rq);
		return;
	case REM_RNR:
		begin_try(f, rq);
		remote_resume(f, rq);
		return;
	case REM_LATER:
		if (!in_settled(f, rq))
			return;
		if (!qp_is_reliable(rq->qp) && rq->tx.una != rq->tx.tail) {
			if (f->now - rq->tx.answered_at > UC_PATIENCE) {
				lose_all(f, rq);
				return;
			}
			remote_sent_wr(rq, rq->tx.una)->probe = true;
		}
		if (!is_try_over(f, rq)) {
			remote_resume(f, rq);
			return;
		}
		rq->tx.phase = REM_RUN; /* nobody answers the question */
		break;
	default:
		break;
	}
	if (rq->tx.una == rq->tx.tail)
		return;
	if (!qp_is_reliable(rq->qp)) {
		lose_all(f, rq);
		return;
	}
	if (!is_try_over(f, rq)) {
		watch_on(f, rq);
		return;
	}
	if (rq->tx.is_unknown) /* news may have made it send again since: that is not another try */
		rq->tx.phase = REM_WAIT;
	if (rq->tx.phase == REM_RUN && rq->wire.peer && wire_heard(rq->wire.peer) > rq->tx.heard &&
	    f->now - rq->tx.answered_at < PATIENCE) {
		rq->tx.retry_left += rq->tx.silent; /* it had no time for us */
		rq->tx.silent = 0;
		rq->tx.ask = f->now - rq->tx.answered_at >= ack_timeout(rq->qp);
		rq->tx.step_asked = false; /* again */
		watch(f, rq);
		wire_tx(f, &rq->wire);
		return;
	}
	rq->qp->stats.retries++;
	if (rq->tx.retry_left-- == 0) {
		remote_fail(f, rq, rq->tx.una, IBV_WC_RETRY_EXC_ERR, FF_VERR_NONE);
		return;
	}
	begin_try(f, rq);
	if (!remote_is_peer(rq) || !rq->wire.peer || !rq->wire.peer->tcp) {
		remote_no_answer(f, rq);
	} else if (rq->tx.phase == REM_RUN) { /* nothing at all is heard */
		rq->tx.silent++;
		wire_ping(f, rq->wire.peer);
		watch_on(f, rq);
		wire_tx(f, &rq->wire);
	} else {
		remote_resume(f, rq);
	}
}

/* ---- what is answered --------------------------------------------------------------------------------------- */

void request_ack(struct fast *f, struct remote_qp *rq, uint32_t msn)
{
	step_acked(rq, msn);
	/* UC waits for no answer but one: whether the peer is there */
	if (!is_under_way(rq, msn) || !qp_is_reliable(rq->qp))
		return;
	acknowledge(rq, msn + 1);
	request_advance(f, rq);
	if (rq->tx.una == rq->tx.nxt && !rq->tx.off)
		step_anew(rq);
	else if (rq->tx.step)
		wire_tx(f, &rq->wire);
}

static void rnr(struct fast *f, struct remote_qp *rq, const struct wire_hdr *h)
{
	struct qp *qp = rq->qp;
	uint64_t ns;

	rq->tx.answered_at = f->now;
	qp->stats.rnr++;
	FF_PROBE2(rnr, qp->qp_num, qp->attr.dest_qp_num);
	ns = requester_rnr_wait(qp, &rq->tx.rnr_left, (uint8_t)h->nak.rnr_timer);
	if (!ns) {
		remote_fail(f, rq, h->msn, IBV_WC_RNR_RETRY_EXC_ERR, FF_VERR_NONE);
		return;
	}
	go_back(rq, h->msn);
	rq->tx.solo = true;
	rq->tx.phase = REM_RNR;
	timer_arm(&f->timers, &rq->tx.timer, f->now + ns);
}

/* UC: what the peer says to the question whether it is there. */
static void answered_uc(struct fast *f, struct remote_qp *rq, const struct wire_hdr *h)
{
	if (rq->tx.phase != REM_LATER || h->msn != rq->tx.nxt)
		return;
	if (h->code == NAK_PROBE_OK) {
		rq->tx.is_met = true;
		for (uint32_t m = rq->tx.una; m != rq->tx.tail; m++)
			remote_sent_wr(rq, m)->probe = false;
		remote_mapped(f, rq);
	} else if (h->code == NAK_NO_QP) {
		timer_arm(&f->timers, &rq->tx.timer, f->now + LATER_NS);
	}
}

void request_nak(struct fast *f, struct remote_qp *rq, const struct wire_hdr *h)
{
	uint32_t incarnation = rq->incarnation;
	bool more;

	if (!is_under_way(rq, h->msn))
		return;
	if (!qp_is_reliable(rq->qp)) {
		answered_uc(f, rq, h);
		return;
	}
	if (h->code != NAK_NO_QP) { /* who is not there cannot tell what was done */
		acknowledge(rq, h->msn);
		request_advance(f, rq);
	}
	if (rq->incarnation != incarnation || h->msn - rq->tx.una >= rq->tx.tail - rq->tx.una)
		return;
	switch (h->code) {
	case NAK_RNR:
		rnr(f, rq, h);
		break;
	case NAK_INV_REQ:
		remote_fail(f, rq, h->msn, IBV_WC_REM_INV_REQ_ERR, FF_VERR_NONE);
		break;
	case NAK_REM_ACCESS:
		remote_fail(f, rq, h->msn, IBV_WC_REM_ACCESS_ERR, FF_VERR_RKEY);
		break;
	case NAK_REM_OP:
		remote_fail(f, rq, h->msn, IBV_WC_REM_OP_ERR, FF_VERR_NONE);
		break;
	case NAK_NO_QP:
		rq->tx.is_unknown = true;
		if (rq->tx.phase != REM_RNR)
			remote_no_answer(f, rq);
		break;
	case NAK_PROBE_OK:
		if (rq->tx.phase != REM_LATER || h->msn != rq->tx.nxt)
			break;
		remote_sent_wr(rq, h->msn)->is_mapped = true;
		answered(f, rq);
		begin_try(f, rq);
		remote_mapped(f, rq);
		break;
	case NAK_SEQ:
		step_told(rq, h->msn, h->offset);
		go_back_to(rq, h->msn, h->offset);
		wire_tx(f, &rq->wire);
		break;
	case NAK_BUSY: /* its GO, or a look after a time that only a lost GO is waited for */
		rq->tx.answered_at = f->now;
		go_back(rq, h->msn);
		rq->tx.busy_until = f->now + BUSY_NS;
		rq->tx.phase = REM_RNR;
		timer_arm(&f->timers, &rq->tx.timer, f->now + BUSY_PATIENCE);
		break;
	case NAK_RETRY:
		step_told(rq, h->msn, h->offset);
		more = go_back_to(rq, h->msn, h->offset);
		if (more)
			answered(f, rq);
		if (more && rq->tx.phase == REM_RUN) {
			watch(f, rq);
			wire_tx(f, &rq->wire);
			break;
		}
		begin_try(f, rq);
		rq->tx.phase = REM_LATER;
		timer_arm(&f->timers, &rq->tx.timer, f->now + LATER_NS);
		break;
	default:
		break;
	}
}

/* ---- data that was fetched ------------------------------------------------------------------------------------ */

/* Again, when no thread writes any more what came. */
static void later(struct fast *f, struct remote_qp *rq)
{
	begin_try(f, rq);
	go_back(rq, rq->tx.una);
	rq->tx.phase = REM_LATER;
	timer_arm(&f->timers, &rq->tx.timer, f->now + LATER_NS);
}

bool request_settles(const struct remote_qp *rq)
{
	return rq->tx.phase == REM_LATER && rq->tx.in.call;
}

bool request_settled(struct fast *f, struct remote_qp *rq)
{
	if (!request_settles(rq) || xfer_is_busy(&rq->tx.in))
		return false;
	if (in_settled(f, rq))
		remote_resume(f, rq);
	return true;
}

bool request_data_settled(struct fast *f, struct remote_qp *rq)
{
	if (!xfer_is_busy(&rq->tx.in)) {
		if (rq->tx.in.call) /* of what does not come again */
			xfer_reset(f, &rq->tx.in);
		return true;
	}
	if (rq->tx.phase == REM_RUN || rq->tx.phase == REM_MAP)
		later(f, rq);
	return false;
}

bool request_data_begin(struct remote_qp *rq, const struct wire_hdr *h)
{
	const struct sent *s = fetch_of(rq, h->msn, rq->tx.nxt);

	return s && s->wr.opcode == FF_OP_READ && rq->tx.phase != REM_LATER &&
	       h->offset == s->got && h->len <= s->wr.length - s->got;
}

void request_data_end(struct fast *f, struct remote_qp *rq, const struct wire_hdr *h)
{
	const struct sent *s = fetch_of(rq, h->msn, rq->tx.nxt);

	if (s && h->offset == s->got) /* else it went back while the frame came in */
		fetched(f, rq, h->msn, h->len);
}

void request_data_bad(struct fast *f, struct remote_qp *rq, uint32_t msn, enum ff_vendor_err why)
{
	remote_fail(f, rq, msn, IBV_WC_LOC_PROT_ERR, why);
}

void request_data_later(struct fast *f, struct remote_qp *rq, uint32_t msn, uint64_t off)
{
	struct sent *s = fetch_of(rq, msn, rq->tx.tail);

	if (s)
		s->got = off;
	rq->tx.in_msn = msn;
	rq->tx.in_off = off;
	step_read_threw(rq, msn, off);
	later(f, rq);
	remote_stall(f, rq);
}

bool request_atomic(struct fast *f, struct remote_qp *rq, const struct wire_hdr *h)
{
	struct sent *s = fetch_of(rq, h->msn, rq->tx.nxt);
	enum ff_vendor_err why = FF_VERR_NONE;
	uint64_t len = sizeof(h->atomic_data.orig);
	const uint8_t *orig = (const uint8_t *)&h->atomic_data.orig;
	struct side dst;
	enum xfer_result r;

	if (!s || s->wr.opcode == FF_OP_READ)
		return true;
	dst = (struct side){
		.sge = s->wr.sge,
		.num_sge = s->wr.num_sge,
		.keys = &rq->qp->o.ses->cont->keys,
		.pd = rq->qp->pd,
		.access = IBV_ACCESS_LOCAL_WRITE,
	};
	len -= s->got;
	r = xfer_put(f, &rq->tx.in, &dst, s->got, orig + s->got, &len, &why);
	switch (r) {
	case XFER_MORE:
	case XFER_NEXT:
		s->got += len;
		return false;
	case XFER_WAIT: /* the rest is asked for again */
		request_data_later(f, rq, h->msn, s->got + len);
		return true;
	case XFER_DONE:
		fetched(f, rq, h->msn, len);
		return true;
	default:
		remote_fail(f, rq, h->msn, IBV_WC_LOC_PROT_ERR, why);
		return true;
	}
}
