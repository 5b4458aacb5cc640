/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rate.c - limits of a QP whose peer is on another host. [lock] rate.h has the theory.
 *
 * Each host asks its own containers' meters, and neither trusts the other to do so. What is sent waits
 * before it leaves, piece by piece; a READ waits before it is asked for, and is charged as a whole then,
 * since its data are on their way from there on. A request that comes in while the receiver's meter is
 * closed is told to wait (NAK_BUSY) and called for (GO) when that opens; what has begun is taken to its
 * end. A peer that does not care loses what it sends.
 */
#include "ffr/remote/remote.h"

static void count(const struct fast *f, struct remote_rate *r)
{
	r->rq->qp->stats.throttled_ns += f->now - r->w.since;
}

static void go_out(struct fast *f, struct rate_wait *w)
{
	struct remote_rate *r = (struct remote_rate *)w;

	count(f, r);
	wire_tx(f, &r->rq->wire);
}

static void go_in(struct fast *f, struct rate_wait *w)
{
	struct remote_rate *r = (struct remote_rate *)w;

	count(f, r);
	r->rq->rx.go_due = true;
	wire_tx(f, &r->rq->wire);
}
static_assert(offsetof(struct remote_rate, w) == 0, "the wait is the whole");

void remote_rate_init(struct remote_qp *rq)
{
	for (int i = 0; i < REMOTE_RATES; i++) {
		rq->rate[i].rq = rq;
		rq->rate[i].w.go = i == REMOTE_RATE_RECV ? go_in : go_out;
	}
}

void remote_rate_forget(struct fast *f, struct remote_qp *rq)
{
	for (int i = 0; i < REMOTE_RATES; i++)
		rq->qp->stats.throttled_ns += rate_forget(f, &rq->rate[i].w);
}

static struct rate_path path(const struct remote_qp *rq, enum rate_dir dir)
{
	return (struct rate_path){ .own = rq->qp->o.ses->cont, .dir = (uint8_t)dir };
}

uint64_t remote_rate_ask(struct fast *f, struct remote_qp *rq, enum remote_rate_kind kind,
			 enum rate_dir dir, uint64_t want, bool *wait)
{
	struct rate_path p = path(rq, dir);
	struct rate_wait *w = &rq->rate[kind].w;
	struct rate_meter *m;

	*wait = false;
	if (!rate_limited(&p))
		return want;
	*wait = w->on != NULL;
	if (*wait)
		return 0;
	m = rate_ask(f, &p, w, &want);
	if (!m)
		return want;
	rate_wait(f, m, w);
	*wait = true;
	return 0;
}

void remote_rate_charge(struct fast *f, struct remote_qp *rq, enum remote_rate_kind kind,
			enum rate_dir dir, uint64_t bytes, uint32_t ops)
{
	struct rate_path p = path(rq, dir);

	if (rate_limited(&p))
		rate_charge(f, &p, &rq->rate[kind].w, bytes, ops);
}

bool remote_rate_datagram(struct fast *f, struct qp *qp, uint64_t bytes)
{
	struct rate_path p = { .own = qp->o.ses->cont, .dir = RATE_RX };
	uint64_t want = 1;

	if (!rate_limited(&p))
		return true;
	if (rate_ask(f, &p, NULL, &want))
		return false;
	rate_charge(f, &p, NULL, bytes, 1);
	return true;
}
