// SPDX-License-Identifier: GPL-2.0
/*
 * tx.c - blocks on their way out. Blocks to one endpoint of a peer wait in a flow, in order. Of a flow
 * one block at a time is asked for, so grants come in the blocks' order, and the receiver takes the
 * order of its grants for that of the data. What has a sequence number is in the peer's lane, and
 * holds it until the receiver has acknowledged or cancelled it: for a bounded time, since a request
 * that can't be granted is rejected (PARK) and gives its number back. So an endpoint that nobody reads
 * keeps up its own flow only.
 *
 * One block of a message that fails takes the rest with it: those that are granted are cancelled, those
 * that wait end at once.
 *
 * Tests: unit/kmod/test_ffrio.c, vm/ffrio.sh
 */
#include "proto.h"

/* A grant that waits for its data so long is given back, well before the receiver revokes it. */
#define GRANT_USE_MS  (FFRIO_GRANT_MS / 2)
#define PARK_MS	      100 /* until a parked flow asks again by itself */
#define TRANSFERS_MAX 8

static void change(struct ffrio_proto *p, struct ffrio_tx *tx, enum ffrio_tx_state state)
{
	tx->state = state;
	tx->since = p->now;
	tx->due = p->now + p->retry_ms;
}

static struct ffrio_tx **slot(struct ffrio_peer *peer, u32 seq)
{
	return &peer->tx[seq & (FFRIO_SEQS - 1)];
}

/* The block leaves the lane, or its flow; the caller may free it then. */
static void finish(struct ffrio_proto *p, struct ffrio_tx *tx, int result)
{
	tx->state = FFRIO_TX_OVER;
	tx->result = result;
	if (result)
		ffrio_stat(p, blocks_failed);
	else
		ffrio_stat(p, blocks_sent);
	p->ops->sent(p, tx, result);
}

static void request(struct ffrio_proto *p, struct ffrio_peer *peer, struct ffrio_tx *tx)
{
	u8 arg = tx->endpoint;

	if (tx->first)
		arg |= FFRIO_REQUEST_FIRST;
	if (tx->last)
		arg |= FFRIO_REQUEST_LAST;
	ffrio_ask(p, peer, FFRIO_DB_REQUEST, tx->seq, arg);
}

/* Flows get sequence numbers in turn. */
static void fill_lane(struct ffrio_proto *p, struct ffrio_peer *peer)
{
	int i;

	if (peer->state != FFRIO_PEER_UP)
		return;
	while (peer->tx_oldest != peer->tx_next && !*slot(peer, peer->tx_oldest))
		peer->tx_oldest++;
	for (i = 0; i < FFRIO_ENDPOINTS && peer->tx_next - peer->tx_oldest < FFRIO_LANE; i++) {
		u8 e = (peer->turn + i) % FFRIO_ENDPOINTS;
		struct ffrio_flow *flow = &peer->flows[e];
		struct ffrio_tx *tx = flow->head;

		if (flow->state != FFRIO_FLOW_WAITING)
			continue;
		tx->number = peer->tx_next++;
		tx->incarnation = peer->incarnation;
		tx->seq = tx->number & (FFRIO_SEQS - 1);
		*slot(peer, tx->seq) = tx;
		flow->state = FFRIO_FLOW_ASKED;
		change(p, tx, FFRIO_TX_REQUESTED);
		request(p, peer, tx);
		peer->turn = (e + 1) % FFRIO_ENDPOINTS;
		i = -1;
	}
}

/* A flow's first block has left it. */
static void pop(struct ffrio_flow *flow)
{
	flow->head = flow->head->next;
	if (!flow->head)
		flow->tail = NULL;
	flow->state = flow->head ? FFRIO_FLOW_WAITING : FFRIO_FLOW_IDLE;
}

/* -EHOSTUNREACH: the peer is not known; hello first. From now on the block is the lane's. */
int ffrio_tx_add(struct ffrio_proto *p, struct ffrio_peer *peer, struct ffrio_tx *tx)
{
	struct ffrio_flow *flow;

	if (peer->state == FFRIO_PEER_NONE)
		return -EHOSTUNREACH;
	if (tx->endpoint >= FFRIO_ENDPOINTS)
		return -EINVAL;
	flow = &peer->flows[tx->endpoint];
	tx->next = NULL;
	tx->peer = peer;
	change(p, tx, FFRIO_TX_QUEUED);
	if (flow->tail)
		flow->tail->next = tx;
	else
		flow->head = tx;
	flow->tail = tx;
	if (flow->state == FFRIO_FLOW_IDLE)
		flow->state = FFRIO_FLOW_WAITING;
	fill_lane(p, peer);
	return 0;
}

/* The receiver's view of a grant's age is at most a doorbell's time behind this. */
static bool grant_is_old(const struct ffrio_proto *p, const struct ffrio_tx *tx)
{
	return p->now - tx->granted > GRANT_USE_MS;
}

static void move(struct ffrio_proto *p, struct ffrio_tx *tx)
{
	change(p, tx, FFRIO_TX_MOVING);
	tx->peer->moving++;
	p->ops->move(p, tx);
}

/* The block's data is there. */
void ffrio_tx_ready(struct ffrio_proto *p, struct ffrio_tx *tx)
{
	tx->ready = 1;
	if (tx->state == FFRIO_TX_GRANTED)
		move(p, tx);
}

/* ---- failure ------------------------------------------------------------------------------------- */

static void cancel(struct ffrio_proto *p, struct ffrio_tx *tx)
{
	change(p, tx, FFRIO_TX_CANCELLED);
	ffrio_ask(p, tx->peer, FFRIO_DB_CANCEL, tx->seq, 0);
}

/* Blocks of the message that the flow's first one belongs to. */
static void drop_rest(struct ffrio_proto *p, struct ffrio_peer *peer, u8 endpoint, int error)
{
	struct ffrio_flow *flow = &peer->flows[endpoint];

	while (flow->head && !flow->head->first && flow->state != FFRIO_FLOW_ASKED) {
		struct ffrio_tx *tx = flow->head;

		pop(flow);
		finish(p, tx, error);
	}
}

/*
 * The block and what belongs to the same message: in the lane those to the same endpoint from one
 * FIRST to the next, in the order of their numbers.
 */
static void fail_message(struct ffrio_proto *p, struct ffrio_tx *tx, int error)
{
	struct ffrio_peer *peer = tx->peer;
	struct ffrio_flow *flow = &peer->flows[tx->endpoint];
	u32 from = tx->number, number;
	u8 endpoint = tx->endpoint;
	bool ended = false;

	/* back to its first block, as far as that is still in the lane */
	for (number = tx->number; number - peer->tx_oldest < FFRIO_LANE; number--) {
		struct ffrio_tx *t = *slot(peer, number);

		if (!t || t->endpoint != endpoint)
			continue;
		if (t->last && t != tx)
			break;
		from = number;
		if (t->first)
			break;
	}
	for (number = from; number != peer->tx_next && !ended; number++) {
		struct ffrio_tx *t = *slot(peer, number);

		if (!t || t->endpoint != endpoint || (number != from && t->first))
			continue;
		ended = t->last;
		if (t->state == FFRIO_TX_CANCELLED)
			continue;
		t->result = t->result ?: error;
		if (t->state == FFRIO_TX_MOVING) {
			t->cancel = 1;
		} else {
			if (t->state == FFRIO_TX_REQUESTED && flow->head == t)
				pop(flow);
			cancel(p, t);
		}
	}
	if (!ended)
		drop_rest(p, peer, endpoint, error);
	ffrio_tx_abandon(p, peer, endpoint);
	fill_lane(p, peer);
}

/* A message that was begun will not go on. If this is lost, the receiver's timer says it. */
void ffrio_tx_abandon(struct ffrio_proto *p, struct ffrio_peer *peer, u8 endpoint)
{
	if (peer->state == FFRIO_PEER_UP)
		ffrio_say(p, peer, FFRIO_DB_READY, 0, FFRIO_READY_ABANDONED | endpoint);
}

/* A message of which nothing is in the lane. */
static void drop_queued(struct ffrio_proto *p, struct ffrio_flow *flow, struct ffrio_tx *tx,
			int error)
{
	struct ffrio_tx **start = &flow->head, **at, *t, *over, *before = NULL;

	for (at = &flow->head; *at != tx; at = &(*at)->next)
		if ((*at)->next->first)
			start = &(*at)->next;
	for (t = flow->head; t && t != *start; t = t->next)
		before = t;
	over = *start;
	for (t = over; t->next && !t->next->first; t = t->next)
		;
	*start = t->next;
	t->next = NULL;
	if (!*start)
		flow->tail = before;
	if (start == &flow->head)
		flow->state = flow->head ? FFRIO_FLOW_WAITING : FFRIO_FLOW_IDLE;
	while ((t = over)) {
		over = t->next;
		finish(p, t, error);
	}
}

/* The sender does not want the message of this block any more. */
void ffrio_tx_cancel(struct ffrio_proto *p, struct ffrio_tx *tx, int error)
{
	struct ffrio_peer *peer = tx->peer;
	struct ffrio_flow *flow = &peer->flows[tx->endpoint];
	struct ffrio_tx *t, *in_lane = NULL;
	u8 endpoint = tx->endpoint;
	u32 number;

	if (tx->state == FFRIO_TX_QUEUED) {
		/* Its beginning may be in the lane, if no other begins before it in the flow. */
		for (t = flow->head; t != tx && !t->first; t = t->next)
			;
		if (t->first && t->state == FFRIO_TX_QUEUED) {
			drop_queued(p, flow, tx, error);
			fill_lane(p, peer);
			return;
		}
		for (number = peer->tx_oldest; number != peer->tx_next; number++) {
			t = *slot(peer, number);
			if (t && t->endpoint == tx->endpoint)
				in_lane = t;
		}
		if (!in_lane || in_lane->last || in_lane->state == FFRIO_TX_CANCELLED) {
			drop_queued(p, flow, tx, error);
			ffrio_tx_abandon(p, peer, endpoint);
			fill_lane(p, peer);
			return;
		}
		tx = in_lane;
	}
	if (tx->state != FFRIO_TX_CANCELLED && tx->state != FFRIO_TX_OVER)
		fail_message(p, tx, error);
}

/* The lane and all flows end. What DMA has in hand ends with it. */
void ffrio_tx_down(struct ffrio_proto *p, struct ffrio_peer *peer, int error)
{
	struct ffrio_tx *over = NULL, *tx;
	int i;

	for (i = 0; i < FFRIO_SEQS; i++) {
		tx = peer->tx[i];
		peer->tx[i] = NULL;
		if (!tx)
			continue;
		if (tx->state == FFRIO_TX_REQUESTED)
			pop(&peer->flows[tx->endpoint]);
		if (tx->state == FFRIO_TX_MOVING) {
			tx->cancel = 1;
			tx->result = tx->result ?: error;
			tx->state = FFRIO_TX_OVER;
			continue;
		}
		tx->next = over;
		over = tx;
	}
	for (i = 0; i < FFRIO_ENDPOINTS; i++) {
		struct ffrio_flow *flow = &peer->flows[i];

		while ((tx = flow->head)) {
			flow->head = tx->next;
			tx->next = over;
			over = tx;
		}
		flow->tail = NULL;
		flow->state = FFRIO_FLOW_IDLE;
	}
	peer->tx_oldest = peer->tx_next = 0;
	while ((tx = over)) {
		over = tx->next;
		finish(p, tx, tx->result ?: error);
	}
}

void ffrio_tx_up(struct ffrio_proto *p, struct ffrio_peer *peer)
{
	fill_lane(p, peer);
}

/* ---- what the receiver and DMA say --------------------------------------------------------------- */

static void over(struct ffrio_proto *p, struct ffrio_tx *tx, int result)
{
	struct ffrio_peer *peer = tx->peer;

	*slot(peer, tx->seq) = NULL;
	finish(p, tx, result);
	fill_lane(p, peer);
}

void ffrio_tx_grant(struct ffrio_proto *p, struct ffrio_peer *peer, u8 seq, u8 buffer)
{
	struct ffrio_tx *tx = *slot(peer, seq);

	if (!tx || tx->state != FFRIO_TX_REQUESTED) {
		ffrio_stat(p, doorbells_repeated);
		return;
	}
	if (buffer >= peer->buffers) {
		ffrio_peer_broke(p, peer, "granted a buffer that it does not have");
		return;
	}
	if (tx->length > peer->block) {
		fail_message(p, tx, -EMSGSIZE);
		return;
	}
	tx->buffer = buffer;
	tx->granted = p->now;
	pop(&peer->flows[tx->endpoint]);
	change(p, tx, FFRIO_TX_GRANTED);
	fill_lane(p, peer);
	if (tx->ready)
		move(p, tx);
	else
		p->ops->granted(p, tx);
}

void ffrio_tx_reject(struct ffrio_proto *p, struct ffrio_peer *peer, u8 seq, u8 reason)
{
	struct ffrio_tx *tx = *slot(peer, seq);
	struct ffrio_flow *flow;
	u8 endpoint;
	bool last;

	if (!tx || tx->state != FFRIO_TX_REQUESTED) {
		ffrio_stat(p, doorbells_repeated);
		return;
	}
	flow = &peer->flows[tx->endpoint];
	*slot(peer, seq) = NULL;
	if (reason == FFRIO_REJECT_PARK) {
		ffrio_stat(p, parked);
		change(p, tx, FFRIO_TX_QUEUED);
		flow->state = FFRIO_FLOW_PARKED;
		flow->due = p->now + PARK_MS;
		fill_lane(p, peer);
		return;
	}
	ffrio_stat(p, rejects_received);
	endpoint = tx->endpoint;
	last = tx->last;
	pop(flow);
	finish(p, tx, reason == FFRIO_REJECT_NONE ? -ECONNREFUSED : -ECONNABORTED);
	if (!last)
		drop_rest(p, peer, endpoint, -ECONNABORTED);
	fill_lane(p, peer);
}

/* READY, or the time has come. */
void ffrio_tx_proceed(struct ffrio_proto *p, struct ffrio_peer *peer, u8 endpoint)
{
	struct ffrio_flow *flow = &peer->flows[endpoint];

	if (flow->state != FFRIO_FLOW_PARKED)
		return;
	flow->state = FFRIO_FLOW_WAITING;
	fill_lane(p, peer);
}

/* Of a peer that was begun anew with, nothing but this end is left. */
void ffrio_tx_moved(struct ffrio_proto *p, struct ffrio_tx *tx, int error)
{
	struct ffrio_peer *peer = tx->peer;

	peer->moving--;
	if (tx->state == FFRIO_TX_OVER) {
		finish(p, tx, tx->result);
		return;
	}
	if (tx->cancel) {
		cancel(p, tx);
		return;
	}
	if (!error) {
		change(p, tx, FFRIO_TX_DONE);
		ffrio_ask(p, peer, FFRIO_DB_DONE, tx->seq, tx->buffer);
		return;
	}
	ffrio_stat(p, dma_errors);
	if (++tx->tries < TRANSFERS_MAX && !grant_is_old(p, tx)) {
		move(p, tx);
		return;
	}
	/* not MOVING any more: it is cancelled with the rest */
	tx->state = FFRIO_TX_GRANTED;
	fail_message(p, tx, -EIO);
}

void ffrio_tx_ack(struct ffrio_proto *p, struct ffrio_peer *peer, u8 seq, u8 code)
{
	struct ffrio_tx *tx = *slot(peer, seq);

	if (!tx || (tx->state != FFRIO_TX_DONE && tx->state != FFRIO_TX_CANCELLED)) {
		ffrio_stat(p, doorbells_repeated);
		return;
	}
	if (tx->state == FFRIO_TX_CANCELLED) {
		over(p, tx, tx->result ?: -ECANCELED);
	} else if (code == FFRIO_ACK_OK) {
		over(p, tx, 0);
	} else if (code == FFRIO_ACK_BAD && ++tx->tries < TRANSFERS_MAX && !grant_is_old(p, tx)) {
		ffrio_stat(p, blocks_repeated);
		move(p, tx);
	} else {
		ffrio_stat(p, stale_grants);
		tx->result = code == FFRIO_ACK_BAD ? -EIO : -ECONNABORTED;
		fail_message(p, tx, tx->result);
		/*
		 * No block will be good if it counts them otherwise, after doorbells that somebody else has sent from
		 * here.
		 */
		if (code == FFRIO_ACK_BAD)
			ffrio_peer_broke(p, peer, "found a block bad again and again");
	}
}

/* ---- time ---------------------------------------------------------------------------------------- */

static void say_again(struct ffrio_proto *p, struct ffrio_peer *peer, struct ffrio_tx *tx)
{
	ffrio_stat(p, doorbells_again);
	tx->due = ffrio_again(p, tx->since);
	if (tx->state == FFRIO_TX_REQUESTED)
		request(p, peer, tx);
	else if (tx->state == FFRIO_TX_DONE)
		ffrio_ask(p, peer, FFRIO_DB_DONE, tx->seq, tx->buffer);
	else
		ffrio_ask(p, peer, FFRIO_DB_CANCEL, tx->seq, 0);
}

/* A peer that speaks, but never of this, is as good as dead: dead_ms twice. */
bool ffrio_tx_tick(struct ffrio_proto *p, struct ffrio_peer *peer)
{
	bool busy = false;
	int i;

	for (i = 0; i < FFRIO_SEQS; i++) {
		struct ffrio_tx *tx = peer->tx[i];

		if (!tx)
			continue;
		busy = true;
		if (tx->state == FFRIO_TX_GRANTED) {
			if (!tx->ready && grant_is_old(p, tx))
				fail_message(p, tx, -ETIMEDOUT);
		} else if (tx->state != FFRIO_TX_MOVING && p->now >= tx->due) {
			if (p->now - tx->since > 2 * (u64)p->dead_ms) {
				ffrio_peer_down(p, peer, -ETIMEDOUT);
				return false;
			}
			say_again(p, peer, tx);
		}
	}
	for (i = 0; i < FFRIO_ENDPOINTS; i++) {
		struct ffrio_flow *flow = &peer->flows[i];

		busy |= flow->state != FFRIO_FLOW_IDLE;
		if (flow->state == FFRIO_FLOW_PARKED && p->now >= flow->due)
			ffrio_tx_proceed(p, peer, i);
	}
	return busy;
}
