// SPDX-License-Identifier: GPL-2.0
/*
 * rx.c - blocks on their way in. Who may have a receive buffer is decided here, by three rules:
 *
 *	1. Each bound endpoint is sure of one buffer; the others are for all, up to the quota.
 *	2. One message at a time is under way to an endpoint: its sender holds the token from the grant
 *	   of the first block to that of the last. So all that an endpoint may hold serves the message
 *	   that its reader waits for, and buffers can't be filled with beginnings of which none goes on.
 *	3. Who has to wait is told PARK and stands in a line, one place for each peer; the first is told
 *	   READY when there is room.
 *
 * A buffer's place in the endpoint's queue is that of its grant. Of a message that is given up all is
 * taken out of the queue again, and a reader who has had a part of it is told that the rest will
 * not come.
 *
 * Tests: unit/kmod/test_ffrio.c, vm/ffrio.sh
 */
#include "proto.h"

#define TOLD_MS 300 /* the first in line may take so long after READY */
#define PING_MS 500

static struct ffrio_rx *rx_slot(struct ffrio_peer *peer, u32 seq)
{
	return &peer->rx[seq & (FFRIO_SEQS - 1)];
}

/* ---- buffers ------------------------------------------------------------------------------------- */

static bool room(const struct ffrio_proto *p, const struct ffrio_endpoint *e)
{
	return e->held < p->quota && (e->held ? p->free > p->bound_without : p->free);
}

static u16 take_buffer(struct ffrio_proto *p, u8 endpoint)
{
	struct ffrio_endpoint *e = &p->endpoint[endpoint];
	u16 i = 0;

	while (p->buffer[i].state != FFRIO_BUFFER_FREE)
		i++;
	if (!e->held++ && e->bound)
		p->bound_without--;
	p->free--;
	memset(&p->buffer[i], 0, sizeof(p->buffer[i]));
	p->buffer[i].state = FFRIO_BUFFER_GRANTED;
	p->buffer[i].endpoint = endpoint;
	p->buffer[i].next = FFRIO_NONE;
	return i;
}

/* The endpoint's no more. */
static void leave(struct ffrio_proto *p, struct ffrio_buffer *b)
{
	struct ffrio_endpoint *e = &p->endpoint[b->endpoint];

	if (!--e->held && e->bound)
		p->bound_without++;
}

static void serve(struct ffrio_proto *p);

static void release(struct ffrio_proto *p, u16 buffer)
{
	struct ffrio_buffer *b = &p->buffer[buffer];

	if (b->state != FFRIO_BUFFER_QUARANTINED)
		leave(p, b);
	b->state = FFRIO_BUFFER_FREE;
	p->free++;
}

/* Its sender is gone, and DMA of it may be under way yet. */
static void quarantine(struct ffrio_proto *p, u16 buffer)
{
	struct ffrio_buffer *b = &p->buffer[buffer];

	leave(p, b);
	b->state = FFRIO_BUFFER_QUARANTINED;
	b->until = p->now + FFRIO_GRANT_MS;
	ffrio_stat(p, quarantined);
}

static void enqueue(struct ffrio_proto *p, u16 buffer)
{
	struct ffrio_buffer *b = &p->buffer[buffer];
	struct ffrio_endpoint *e = &p->endpoint[b->endpoint];

	if (e->tail == FFRIO_NONE)
		e->head = buffer;
	else
		p->buffer[e->tail].next = buffer;
	e->tail = buffer;
	b->queued = 1;
}

/* ---- the line ------------------------------------------------------------------------------------ */

static int place(const struct ffrio_endpoint *e, u8 peer)
{
	int i;

	for (i = 0; i < e->waiting_count; i++)
		if (e->waiting[i] == peer)
			return i;
	return -1;
}

static void stand_in_line(struct ffrio_endpoint *e, u8 peer)
{
	if (place(e, peer) < 0)
		e->waiting[e->waiting_count++] = peer;
}

static void leave_line(struct ffrio_endpoint *e, u8 peer)
{
	int i = place(e, peer);

	if (i < 0)
		return;
	if (!i)
		e->told = 0;
	e->waiting_count--;
	memmove(e->waiting + i, e->waiting + i + 1, e->waiting_count - i);
}

static void serve_endpoint(struct ffrio_proto *p, u8 endpoint)
{
	struct ffrio_endpoint *e = &p->endpoint[endpoint];

	if (!e->bound || !room(p, e))
		return;
	if (e->token != FFRIO_NONE) {
		if (e->token_waits) {
			e->token_waits = 0;
			e->token_at = p->now;
			ffrio_say(p, &p->peer[e->token], FFRIO_DB_READY, 0, endpoint);
		}
	} else if (e->waiting_count && !e->told) {
		e->told = 1;
		e->told_at = p->now;
		ffrio_say(p, &p->peer[e->waiting[0]], FFRIO_DB_READY, 0, endpoint);
	}
}

/* There is room again, somewhere. */
static void serve(struct ffrio_proto *p)
{
	int i;

	for (i = 0; i < FFRIO_ENDPOINTS; i++)
		serve_endpoint(p, (p->turn + i) % FFRIO_ENDPOINTS);
	p->turn = (p->turn + 1) % FFRIO_ENDPOINTS;
}

/* ---- messages that are given up ------------------------------------------------------------------ */

/* A buffer out of its queue: FILLED is free, GRANTED waits for what its sender says, if it can. */
static void drop(struct ffrio_proto *p, u16 buffer, bool gone)
{
	struct ffrio_buffer *b = &p->buffer[buffer];

	b->queued = 0;
	if (b->state == FFRIO_BUFFER_FILLED)
		release(p, buffer);
	else if (gone)
		quarantine(p, buffer);
	else
		rx_slot(&p->peer[b->peer], b->seq)->state = FFRIO_RX_ORPHANED;
}

static void reader_lost(struct ffrio_proto *p, u8 endpoint, u16 destid)
{
	struct ffrio_endpoint *e = &p->endpoint[endpoint];

	e->middle = 0;
	e->broken = 1;
	e->broken_destid = destid;
	ffrio_stat(p, messages_broken);
	p->ops->arrived(p, endpoint);
}

/*
 * Takes messages of a peer out of an endpoint's queue: that which has this buffer, or, with FFRIO_NONE,
 * each that is not complete. A message is a run of the queue that begins with FIRST, or at its head if
 * the reader has had the beginning. gone: the peer will say nothing any more.
 */
static void abort_messages(struct ffrio_proto *p, u8 endpoint, struct ffrio_peer *peer, u16 with,
			   bool gone)
{
	struct ffrio_endpoint *e = &p->endpoint[endpoint];
	u16 at = e->head, next;
	bool open = true; /* the run that is the token's, if the token is the peer's */

	e->head = e->tail = FFRIO_NONE;
	while (at != FFRIO_NONE) {
		bool complete = true, has = false, head = !(p->buffer[at].flags & FFRIO_FIRST);
		u16 run = at, end = at, n = 0;
		u8 of = p->buffer[at].peer;

		for (;; end = p->buffer[end].next) {
			struct ffrio_buffer *b = &p->buffer[end];

			n++;
			has |= end == with;
			complete &= b->state == FFRIO_BUFFER_FILLED;
			if (b->flags & FFRIO_LAST || b->next == FFRIO_NONE ||
			    p->buffer[b->next].flags & FFRIO_FIRST)
				break;
		}
		open = !(p->buffer[end].flags & FFRIO_LAST);
		complete &= !open;
		at = p->buffer[end].next;
		if (of != peer->index || (with == FFRIO_NONE ? complete : !has)) {
			for (; n; n--, run = next) {
				next = p->buffer[run].next;
				p->buffer[run].next = FFRIO_NONE;
				enqueue(p, run);
			}
			continue;
		}
		for (; n; n--, run = next) {
			next = p->buffer[run].next;
			p->buffer[run].next = FFRIO_NONE;
			drop(p, run, gone);
		}
		if (head)
			reader_lost(p, endpoint, peer->destid);
		if (open && e->token == peer->index)
			e->token = FFRIO_NONE;
	}
	/* The reader may have had all that there is. */
	if (with == FFRIO_NONE && e->token == peer->index) {
		e->token = FFRIO_NONE;
		if (e->middle)
			reader_lost(p, endpoint, peer->destid);
	}
	if (e->token == FFRIO_NONE)
		e->token_waits = 0;
}

/*
 * The sender's open message: that of its newest buffer, or one of which all has been taken. Messages
 * that are granted to their end stay.
 */
static void abort_open(struct ffrio_proto *p, u8 endpoint, struct ffrio_peer *peer)
{
	struct ffrio_endpoint *e = &p->endpoint[endpoint];
	u16 tail = e->tail;

	if (tail != FFRIO_NONE && p->buffer[tail].peer == peer->index &&
	    !(p->buffer[tail].flags & FFRIO_LAST))
		abort_messages(p, endpoint, peer, tail, false);
	else if (e->middle)
		reader_lost(p, endpoint, peer->destid);
	e->token = FFRIO_NONE;
	e->token_waits = 0;
}

/* ---- requests ------------------------------------------------------------------------------------ */

/* The slot of a number, which is new if it is up to a window ahead. NULL: of long ago, or the peer is down. */
static struct ffrio_rx *see(struct ffrio_proto *p, struct ffrio_peer *peer, u8 seq)
{
	u32 ahead = (seq - peer->rx_newest) & (FFRIO_SEQS - 1);
	struct ffrio_rx *rx = rx_slot(peer, seq);

	if (!ahead || ahead > FFRIO_LANE)
		return rx->number == peer->rx_newest - ((FFRIO_SEQS - ahead) & (FFRIO_SEQS - 1)) ?
			       rx :
			       NULL;
	while (ahead--) {
		rx = rx_slot(peer, peer->rx_newest + 1);
		if (rx->state == FFRIO_RX_GRANTED || rx->state == FFRIO_RX_ORPHANED) {
			ffrio_peer_broke(p, peer, "used a sequence number that is in use");
			return NULL;
		}
		peer->rx_newest++;
		*rx = (struct ffrio_rx){ .state = FFRIO_RX_UNSEEN, .number = peer->rx_newest };
	}
	return rx;
}

static void reject(struct ffrio_proto *p, struct ffrio_peer *peer, struct ffrio_rx *rx, u8 reason)
{
	rx->state = FFRIO_RX_REJECTED;
	rx->reason = reason;
	if (reason != FFRIO_REJECT_PARK)
		ffrio_stat(p, rejects_sent);
	ffrio_say(p, peer, FFRIO_DB_REJECT, rx->number, reason);
}

static void grant(struct ffrio_proto *p, struct ffrio_peer *peer, struct ffrio_rx *rx, u8 arg)
{
	u8 endpoint = arg % FFRIO_ENDPOINTS;
	struct ffrio_endpoint *e = &p->endpoint[endpoint];
	struct ffrio_buffer *b;

	leave_line(e, peer->index);
	rx->buffer = take_buffer(p, endpoint);
	rx->state = FFRIO_RX_GRANTED;
	rx->since = p->now;
	b = &p->buffer[rx->buffer];
	b->peer = peer->index;
	b->destid = peer->destid;
	b->seq = rx->number & (FFRIO_SEQS - 1);
	b->flags = (arg & FFRIO_REQUEST_FIRST ? FFRIO_FIRST : 0) |
		   (arg & FFRIO_REQUEST_LAST ? FFRIO_LAST : 0);
	enqueue(p, rx->buffer);
	e->token = arg & FFRIO_REQUEST_LAST ? FFRIO_NONE : peer->index;
	e->token_at = p->now;
	e->token_waits = 0;
	ffrio_say(p, peer, FFRIO_DB_GRANT, rx->number, rx->buffer);
	serve_endpoint(p, endpoint);
}

static void decide(struct ffrio_proto *p, struct ffrio_peer *peer, struct ffrio_rx *rx, u8 arg)
{
	u8 endpoint = arg % FFRIO_ENDPOINTS;
	struct ffrio_endpoint *e = &p->endpoint[endpoint];
	bool holds = e->token == peer->index;

	if (!e->bound) {
		reject(p, peer, rx, FFRIO_REJECT_NONE);
		return;
	}
	if (holds && arg & FFRIO_REQUEST_FIRST) {
		/* It has given the former one up, and all that was said of that was lost. */
		abort_open(p, endpoint, peer);
		holds = false;
	}
	if (!holds && !(arg & FFRIO_REQUEST_FIRST)) {
		reject(p, peer, rx, FFRIO_REJECT_ABORTED);
		return;
	}
	if (!holds && (e->token != FFRIO_NONE ||
		       (e->waiting_count && e->waiting[0] != peer->index) || !room(p, e))) {
		stand_in_line(e, peer->index);
		if (e->waiting[0] == peer->index)
			e->told = 0;
		reject(p, peer, rx, FFRIO_REJECT_PARK);
	} else if (!room(p, e)) {
		e->token_waits = 1;
		reject(p, peer, rx, FFRIO_REJECT_PARK);
	} else {
		grant(p, peer, rx, arg);
	}
}

void ffrio_rx_request(struct ffrio_proto *p, struct ffrio_peer *peer, u8 seq, u8 arg)
{
	struct ffrio_rx *rx = see(p, peer, seq);

	if (rx && rx->state == FFRIO_RX_UNSEEN) {
		decide(p, peer, rx, arg);
		return;
	}
	ffrio_stat(p, doorbells_repeated);
	if (!rx)
		return;
	switch (rx->state) {
	case FFRIO_RX_GRANTED:
		ffrio_say(p, peer, FFRIO_DB_GRANT, seq, rx->buffer);
		break;
	case FFRIO_RX_REJECTED:
		ffrio_say(p, peer, FFRIO_DB_REJECT, seq, rx->reason);
		break;
	case FFRIO_RX_ORPHANED:
	case FFRIO_RX_REVOKED:
		ffrio_say(p, peer, FFRIO_DB_REJECT, seq, FFRIO_REJECT_ABORTED);
		break;
	default:
		break;
	}
}

/* ---- the end of a block -------------------------------------------------------------------------- */

static void filled(struct ffrio_proto *p, struct ffrio_peer *peer, struct ffrio_rx *rx)
{
	struct ffrio_buffer *b = &p->buffer[rx->buffer];

	if (p->ops->check(p, rx->buffer, rx->number)) {
		ffrio_stat(p, bad_blocks);
		ffrio_say(p, peer, FFRIO_DB_ACK, rx->number, FFRIO_ACK_BAD);
		return;
	}
	rx->state = FFRIO_RX_FILLED;
	b->state = FFRIO_BUFFER_FILLED;
	p->endpoint[b->endpoint].token_at = p->now;
	ffrio_stat(p, blocks_received);
	ffrio_say(p, peer, FFRIO_DB_ACK, rx->number, FFRIO_ACK_OK);
	p->ops->arrived(p, b->endpoint);
}

void ffrio_rx_done(struct ffrio_proto *p, struct ffrio_peer *peer, u8 seq, u8 buffer)
{
	struct ffrio_rx *rx = rx_slot(peer, seq);
	bool ours = rx->buffer == buffer;

	if (ours && rx->state == FFRIO_RX_GRANTED) {
		filled(p, peer, rx);
		return;
	}
	if (ours && rx->state == FFRIO_RX_FILLED) {
		ffrio_stat(p, doorbells_repeated);
		ffrio_say(p, peer, FFRIO_DB_ACK, seq, FFRIO_ACK_OK);
		return;
	}
	ffrio_stat(p, stale_grants);
	if (ours && rx->state == FFRIO_RX_ORPHANED) {
		rx->state = FFRIO_RX_REVOKED;
		release(p, rx->buffer);
		serve(p);
	}
	ffrio_say(p, peer, FFRIO_DB_ACK, seq, FFRIO_ACK_STALE);
}

/* The buffer of a grant that is void leaves its message, which goes with it. */
static void take_back(struct ffrio_proto *p, struct ffrio_peer *peer, struct ffrio_rx *rx,
		      enum ffrio_rx_state state)
{
	if (rx->state == FFRIO_RX_GRANTED)
		abort_messages(p, p->buffer[rx->buffer].endpoint, peer, rx->buffer, false);
	rx->state = state;
	release(p, rx->buffer);
	serve(p);
}

void ffrio_rx_cancel(struct ffrio_proto *p, struct ffrio_peer *peer, u8 seq)
{
	struct ffrio_rx *rx = see(p, peer, seq);

	if (!rx) {
		ffrio_stat(p, doorbells_repeated);
	} else if (rx->state == FFRIO_RX_GRANTED || rx->state == FFRIO_RX_ORPHANED) {
		ffrio_stat(p, cancels_received);
		take_back(p, peer, rx, FFRIO_RX_CANCELLED);
	} else if (rx->state != FFRIO_RX_FILLED) {
		rx->state = FFRIO_RX_CANCELLED;
	}
	if (peer->state == FFRIO_PEER_UP)
		ffrio_say(p, peer, FFRIO_DB_ACK, seq, FFRIO_ACK_OK);
}

void ffrio_rx_abandoned(struct ffrio_proto *p, struct ffrio_peer *peer, u8 endpoint)
{
	struct ffrio_endpoint *e = &p->endpoint[endpoint];

	if (!e->bound || e->token != peer->index)
		return;
	abort_open(p, endpoint, peer);
	serve(p);
}

void ffrio_rx_begin(struct ffrio_peer *peer)
{
	int i;

	peer->rx_newest = -1;
	for (i = 0; i < FFRIO_SEQS; i++)
		peer->rx[i] = (struct ffrio_rx){ .state = FFRIO_RX_CANCELLED,
						 .buffer = FFRIO_NONE,
						 .number = i - FFRIO_SEQS };
}

/* All between the two is void: what is complete stays for its reader. */
void ffrio_rx_down(struct ffrio_proto *p, struct ffrio_peer *peer)
{
	int i;

	for (i = 0; i < FFRIO_SEQS; i++)
		if (peer->rx[i].state == FFRIO_RX_ORPHANED)
			quarantine(p, peer->rx[i].buffer);
	for (i = 0; i < FFRIO_ENDPOINTS; i++) {
		leave_line(&p->endpoint[i], peer->index);
		abort_messages(p, i, peer, FFRIO_NONE, true);
	}
	ffrio_rx_begin(peer);
	serve(p);
}

/* It has begun anew, and said so after its last transfer. */
void ffrio_rx_returned(struct ffrio_proto *p, struct ffrio_peer *peer)
{
	int i;

	for (i = 0; i < p->buffers; i++)
		if (p->buffer[i].state == FFRIO_BUFFER_QUARANTINED &&
		    p->buffer[i].destid == peer->destid)
			release(p, i);
	serve(p);
}

/* ---- endpoints ----------------------------------------------------------------------------------- */

int ffrio_rx_bind(struct ffrio_proto *p, int endpoint)
{
	struct ffrio_endpoint *e;
	int i, bound = 0;

	for (i = 0; i < FFRIO_ENDPOINTS; i++)
		bound += p->endpoint[i].bound;
	if (bound >= p->buffers)
		return -ENOBUFS;
	for (i = 0; endpoint < 0 && i < FFRIO_ENDPOINTS; i++)
		if (!p->endpoint[FFRIO_ENDPOINTS - 1 - i].bound)
			endpoint = FFRIO_ENDPOINTS - 1 - i;
	if (endpoint < 0)
		return -EADDRNOTAVAIL;
	if (endpoint >= FFRIO_ENDPOINTS)
		return -EINVAL;
	e = &p->endpoint[endpoint];
	if (e->bound)
		return -EADDRINUSE;
	e->bound = 1;
	e->middle = 0;
	e->broken = 0;
	if (!e->held)
		p->bound_without++;
	return endpoint;
}

/* What the reader has taken, it gives back itself. */
void ffrio_rx_unbind(struct ffrio_proto *p, u8 endpoint)
{
	struct ffrio_endpoint *e = &p->endpoint[endpoint];
	u16 at = e->head, next;

	if (!e->bound)
		return;
	e->bound = 0;
	if (!e->held)
		p->bound_without--;
	e->head = e->tail = FFRIO_NONE;
	e->token = FFRIO_NONE;
	e->token_waits = 0;
	e->told = 0;
	e->waiting_count = 0;
	for (; at != FFRIO_NONE; at = next) {
		next = p->buffer[at].next;
		p->buffer[at].next = FFRIO_NONE;
		drop(p, at, false);
	}
	serve(p);
}

bool ffrio_rx_pending(const struct ffrio_proto *p, u8 endpoint)
{
	const struct ffrio_endpoint *e = &p->endpoint[endpoint];

	return e->broken ||
	       (e->head != FFRIO_NONE && p->buffer[e->head].state == FFRIO_BUFFER_FILLED);
}

/* The next buffer, which is the caller's; -EAGAIN; -ECONNRESET: a message will not go on. */
int ffrio_rx_take(struct ffrio_proto *p, u8 endpoint, u16 *broken_destid)
{
	struct ffrio_endpoint *e = &p->endpoint[endpoint];
	u16 buffer = e->head;

	if (e->broken) {
		e->broken = 0;
		*broken_destid = e->broken_destid;
		return -ECONNRESET;
	}
	if (!ffrio_rx_pending(p, endpoint))
		return -EAGAIN;
	e->head = p->buffer[buffer].next;
	if (e->head == FFRIO_NONE)
		e->tail = FFRIO_NONE;
	p->buffer[buffer].next = FFRIO_NONE;
	p->buffer[buffer].queued = 0;
	p->buffer[buffer].state = FFRIO_BUFFER_TAKEN;
	e->middle = !(p->buffer[buffer].flags & FFRIO_LAST);
	return buffer;
}

void ffrio_rx_give_back(struct ffrio_proto *p, u16 buffer)
{
	release(p, buffer);
	serve(p);
}

/* ---- time ---------------------------------------------------------------------------------------- */

bool ffrio_rx_tick(struct ffrio_proto *p, struct ffrio_peer *peer)
{
	bool busy = false;
	int i;

	for (i = 0; i < FFRIO_SEQS; i++) {
		struct ffrio_rx *rx = &peer->rx[i];

		if (rx->state != FFRIO_RX_GRANTED && rx->state != FFRIO_RX_ORPHANED)
			continue;
		busy = true;
		if (p->now - rx->since > FFRIO_GRANT_MS) {
			ffrio_stat(p, grants_revoked);
			take_back(p, peer, rx, FFRIO_RX_REVOKED);
		} else if (p->now - rx->since > PING_MS && p->now >= peer->ping_due) {
			peer->ping_due = p->now + PING_MS;
			ffrio_ask(p, peer, FFRIO_DB_CONTROL, FFRIO_CONTROL_PING, 0);
		}
	}
	return busy;
}

static bool has_grant(const struct ffrio_proto *p, const struct ffrio_endpoint *e)
{
	return e->tail != FFRIO_NONE && p->buffer[e->tail].state == FFRIO_BUFFER_GRANTED;
}

bool ffrio_rx_tick_all(struct ffrio_proto *p)
{
	bool busy = false, freed = false;
	int i;

	for (i = 0; i < p->buffers; i++) {
		struct ffrio_buffer *b = &p->buffer[i];

		if (b->state != FFRIO_BUFFER_QUARANTINED)
			continue;
		busy = true;
		if (p->now < b->until)
			continue;
		release(p, i);
		freed = true;
	}
	for (i = 0; i < FFRIO_ENDPOINTS; i++) {
		struct ffrio_endpoint *e = &p->endpoint[i];

		if (!e->bound)
			continue;
		busy |= e->waiting_count || e->token != FFRIO_NONE;
		if (e->told && p->now - e->told_at > TOLD_MS) {
			leave_line(e, e->waiting[0]);
			freed = true;
		}
		/* The holder has stopped within its message: others wait, or its last word was lost. */
		if (e->token != FFRIO_NONE && !e->token_waits && !has_grant(p, e) &&
		    p->now - e->token_at > FFRIO_MESSAGE_MS * (e->waiting_count ? 1 : 10)) {
			ffrio_stat(p, messages_stalled);
			abort_open(p, i, &p->peer[e->token]);
			freed = true;
		}
	}
	if (freed)
		serve(p);
	return busy;
}
