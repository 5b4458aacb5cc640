// SPDX-License-Identifier: GPL-2.0
/*
 * proto.c - peers of a port: hello and its loss, life and death, and which doorbell goes where. The
 * theory is in docs/internals/ffrio.md.
 *
 * A pair of ports is up when each knows the other's incarnation, and every restart of either side gets
 * a new one. Doorbells to one receiver arrive in order, if they do: so after a hello nothing comes that
 * was sent before it, and both lanes begin at 0.
 *
 * Tests: unit/kmod/test_ffrio.c, vm/ffrio.sh
 */
#include "proto.h"

/* ---- saying things ------------------------------------------------------------------------------- */

static void put(struct ffrio_proto *p, u16 destid, enum ffrio_db type, u8 seq, u8 arg)
{
	u16 info = FFRIO_DB_FIRST | type << 12 | (seq & (FFRIO_SEQS - 1)) << 8 | arg;

	if (p->ops->doorbell(p, destid, info))
		ffrio_stat(p, doorbells_failed);
	else
		ffrio_stat(p, doorbells_sent);
}

void ffrio_say(struct ffrio_proto *p, struct ffrio_peer *peer, enum ffrio_db type, u8 seq, u8 arg)
{
	put(p, peer->destid, type, seq, arg);
}

/* Says what is to be answered: whoever says nothing for dead_ms is dead. */
void ffrio_ask(struct ffrio_proto *p, struct ffrio_peer *peer, enum ffrio_db type, u8 seq, u8 arg)
{
	if (!peer->asked)
		peer->asked = p->now;
	ffrio_say(p, peer, type, seq, arg);
}

/* ---- peers --------------------------------------------------------------------------------------- */

void ffrio_proto_init(struct ffrio_proto *p, const struct ffrio_ops *ops, u8 incarnation)
{
	int i;

	p->ops = ops;
	p->incarnation = incarnation ?: 1;
	p->free = p->buffers;
	for (i = 0; i < FFRIO_ENDPOINTS; i++) {
		p->endpoint[i].head = FFRIO_NONE;
		p->endpoint[i].tail = FFRIO_NONE;
		p->endpoint[i].token = FFRIO_NONE;
	}
}

struct ffrio_peer *ffrio_peer_find(struct ffrio_proto *p, u16 destid)
{
	struct ffrio_peer *peer;

	for (peer = p->peer; peer < p->peer + FFRIO_PEERS; peer++)
		if (peer->used && peer->destid == destid)
			return peer;
	return NULL;
}

static u8 next_incarnation(struct ffrio_proto *p)
{
	p->incarnation = p->incarnation == 255 ? 1 : p->incarnation + 1;
	return p->incarnation;
}

/* One that nothing is known of gives its place; NULL: all are in use. */
struct ffrio_peer *ffrio_peer_get(struct ffrio_proto *p, u16 destid)
{
	struct ffrio_peer *peer = ffrio_peer_find(p, destid), *unused = NULL;
	int i;

	if (peer)
		return peer;
	for (i = 0; i < FFRIO_PEERS && !unused; i++)
		if (!p->peer[i].used)
			unused = &p->peer[i];
	for (i = 0; i < FFRIO_PEERS && !unused; i++)
		if (p->peer[i].state == FFRIO_PEER_NONE && !p->peer[i].moving)
			unused = &p->peer[i];
	if (!unused) {
		ffrio_stat(p, peers_refused);
		return NULL;
	}
	peer = unused;
	i = peer - p->peer;
	memset(peer, 0, sizeof(*peer));
	peer->used = 1;
	peer->index = i;
	peer->destid = destid;
	peer->incarnation = next_incarnation(p);
	ffrio_rx_begin(peer);
	return peer;
}

static void send_hello(struct ffrio_proto *p, struct ffrio_peer *peer)
{
	u8 hello[FFRIO_HELLO_BYTES] = {}, sum = 0;
	int i;

	for (i = 0; i < 8; i++)
		hello[FFRIO_HELLO_ADDRESS + i] = p->address >> 8 * i;
	while (1U << hello[FFRIO_HELLO_BLOCK] < p->block)
		hello[FFRIO_HELLO_BLOCK]++;
	hello[FFRIO_HELLO_BUFFERS] = p->buffers - 1;
	hello[FFRIO_HELLO_INCARNATION] = peer->incarnation;
	hello[FFRIO_HELLO_KNOWN] = peer->known;
	hello[FFRIO_HELLO_VERSION] = FFRIO_PROTO_VERSION;
	if (peer->state == FFRIO_PEER_UP)
		hello[FFRIO_HELLO_VERSION] |= FFRIO_HELLO_UP;
	for (i = 0; i < FFRIO_HELLO_SUM; i++)
		sum += hello[i];
	hello[FFRIO_HELLO_SUM] = sum;
	for (i = 0; i < FFRIO_HELLO_BYTES; i++)
		ffrio_say(p, peer, FFRIO_DB_CONTROL, i, hello[i]);
	peer->hello_due = ffrio_again(p, peer->asked);
	ffrio_stat(p, hellos_sent);
}

/* Nothing of ours may still write to a peer that we begin anew with: it may use the buffers again. */
void ffrio_peer_hello(struct ffrio_proto *p, struct ffrio_peer *peer)
{
	if (peer->state != FFRIO_PEER_NONE)
		return;
	peer->state = FFRIO_PEER_HELLO;
	peer->asked = p->now;
	peer->hello_due = p->now;
	if (!peer->moving)
		send_hello(p, peer);
}

/* All between the two is void. What waited ends with this error. */
static void forget(struct ffrio_proto *p, struct ffrio_peer *peer, int error)
{
	peer->state = FFRIO_PEER_NONE;
	peer->incarnation = next_incarnation(p);
	peer->known = 0;
	peer->hello_have = 0;
	peer->asked = 0;
	ffrio_tx_down(p, peer, error);
	ffrio_rx_down(p, peer);
	p->ops->changed(p, peer);
}

void ffrio_peer_down(struct ffrio_proto *p, struct ffrio_peer *peer, int error)
{
	if (peer->state == FFRIO_PEER_NONE)
		return;
	if (peer->state == FFRIO_PEER_UP)
		ffrio_stat(p, peers_lost);
	forget(p, peer, error);
}

/* It does what no peer may do: both begin anew. */
void ffrio_peer_broke(struct ffrio_proto *p, struct ffrio_peer *peer, const char *what)
{
	ffrio_stat(p, protocol_errors);
	p->ops->broke(p, peer->destid, what);
	ffrio_say(p, peer, FFRIO_DB_CONTROL, FFRIO_CONTROL_CLOSE, 0);
	ffrio_peer_down(p, peer, -EPROTO);
}

static void up(struct ffrio_proto *p, struct ffrio_peer *peer)
{
	peer->state = FFRIO_PEER_UP;
	peer->asked = 0;
	ffrio_stat(p, peers_up);
	ffrio_tx_up(p, peer);
	p->ops->changed(p, peer);
}

/* ---- a hello comes in ---------------------------------------------------------------------------- */

static void hello_complete(struct ffrio_proto *p, struct ffrio_peer *peer)
{
	const u8 *h = peer->hello;
	bool anew, knows_us = h[FFRIO_HELLO_KNOWN] == peer->incarnation;
	bool it_is_up = h[FFRIO_HELLO_VERSION] & FFRIO_HELLO_UP;
	u64 address = 0;
	int i;

	if ((h[FFRIO_HELLO_VERSION] & ~FFRIO_HELLO_UP) != FFRIO_PROTO_VERSION ||
	    !h[FFRIO_HELLO_INCARNATION] || h[FFRIO_HELLO_BLOCK] < 3 ||
	    h[FFRIO_HELLO_BLOCK] > FFRIO_BLOCK_MAX_SHIFT) {
		ffrio_stat(p, bad_hellos);
		return;
	}
	for (i = 0; i < 8; i++)
		address |= (u64)h[FFRIO_HELLO_ADDRESS + i] << 8 * i;
	anew = peer->known != h[FFRIO_HELLO_INCARNATION];
	if (anew && peer->state == FFRIO_PEER_UP) {
		/* It began anew: so do we, with a number that it has not seen. */
		ffrio_stat(p, peers_lost);
		forget(p, peer, -ECONNRESET);
		knows_us = false;
	}
	if (anew)
		ffrio_rx_returned(p, peer);
	peer->known = h[FFRIO_HELLO_INCARNATION];
	peer->address = address;
	peer->block = 1U << h[FFRIO_HELLO_BLOCK];
	peer->buffers = h[FFRIO_HELLO_BUFFERS] + 1;
	if (knows_us && peer->state != FFRIO_PEER_UP)
		up(p, peer);
	if (peer->state == FFRIO_PEER_NONE) {
		peer->state = FFRIO_PEER_HELLO;
		peer->asked = p->now;
	}
	/* One that is not up has not heard of us, or not that we know it. */
	if (!it_is_up && (peer->state == FFRIO_PEER_UP || !peer->moving))
		send_hello(p, peer);
}

static void hello_byte(struct ffrio_proto *p, struct ffrio_peer *peer, u8 which, u8 byte)
{
	u8 sum = 0;
	int i;

	peer->hello[which] = byte;
	peer->hello_have |= 1 << which;
	if (which != FFRIO_HELLO_SUM || peer->hello_have != (1 << FFRIO_HELLO_BYTES) - 1)
		return;
	for (i = 0; i < FFRIO_HELLO_SUM; i++)
		sum += peer->hello[i];
	peer->hello_have = 0;
	if (sum == byte)
		hello_complete(p, peer);
	else
		ffrio_stat(p, bad_hellos);
}

static void control(struct ffrio_proto *p, struct ffrio_peer *peer, u8 which, u8 byte)
{
	if (which < FFRIO_HELLO_BYTES) {
		hello_byte(p, peer, which, byte);
	} else if (which == FFRIO_CONTROL_PING) {
		if (!byte)
			ffrio_say(p, peer, FFRIO_DB_CONTROL, FFRIO_CONTROL_PING, 1);
	} else if (peer->state == FFRIO_PEER_UP) {
		ffrio_stat(p, closes_received);
		ffrio_peer_down(p, peer, -ECONNRESET);
	}
}

/* ---- what came in -------------------------------------------------------------------------------- */

/*
 * Whatever comes says that the peer lives. Before a hello there is nothing to be said but "who are
 * you?", which makes a peer that was up with our predecessor begin anew.
 */
void ffrio_doorbell(struct ffrio_proto *p, u16 destid, u16 info)
{
	enum ffrio_db type = info >> 12 & 7;
	u8 seq = info >> 8 & (FFRIO_SEQS - 1), arg = info;
	struct ffrio_peer *peer = ffrio_peer_get(p, destid);

	ffrio_stat(p, doorbells_received);
	if (!peer)
		return;
	/* A hello is answered by what it says, not by its coming. */
	if (peer->state == FFRIO_PEER_UP)
		peer->asked = 0;
	if (type == FFRIO_DB_CONTROL) {
		/* A ping of one that is not up asks for the same as anything else of it. */
		if (seq != FFRIO_CONTROL_PING || arg || peer->state == FFRIO_PEER_UP) {
			control(p, peer, seq, arg);
			return;
		}
	}
	if (peer->state != FFRIO_PEER_UP) {
		ffrio_stat(p, strangers);
		if (peer->state == FFRIO_PEER_NONE)
			ffrio_say(p, peer, FFRIO_DB_CONTROL, FFRIO_CONTROL_CLOSE, 1);
		return;
	}
	switch (type) {
	case FFRIO_DB_REQUEST:
		ffrio_rx_request(p, peer, seq, arg);
		break;
	case FFRIO_DB_GRANT:
		ffrio_tx_grant(p, peer, seq, arg);
		break;
	case FFRIO_DB_DONE:
		ffrio_rx_done(p, peer, seq, arg);
		break;
	case FFRIO_DB_ACK:
		ffrio_tx_ack(p, peer, seq, arg);
		break;
	case FFRIO_DB_REJECT:
		ffrio_tx_reject(p, peer, seq, arg);
		break;
	case FFRIO_DB_CANCEL:
		ffrio_rx_cancel(p, peer, seq);
		break;
	case FFRIO_DB_READY:
		if (arg & FFRIO_READY_ABANDONED)
			ffrio_rx_abandoned(p, peer, arg % FFRIO_ENDPOINTS);
		else
			ffrio_tx_proceed(p, peer, arg % FFRIO_ENDPOINTS);
		break;
	default:
		break;
	}
}

/* ---- time ---------------------------------------------------------------------------------------- */

static bool peer_tick(struct ffrio_proto *p, struct ffrio_peer *peer)
{
	bool busy = false;

	if (peer->state != FFRIO_PEER_NONE && peer->asked && p->now - peer->asked > p->dead_ms) {
		ffrio_peer_down(p, peer, -EHOSTUNREACH);
		return false;
	}
	if (peer->state == FFRIO_PEER_HELLO) {
		if (!peer->moving && p->now >= peer->hello_due)
			send_hello(p, peer);
		return true;
	}
	if (peer->state != FFRIO_PEER_UP)
		return false;
	busy |= ffrio_tx_tick(p, peer);
	if (peer->state == FFRIO_PEER_UP)
		busy |= ffrio_rx_tick(p, peer);
	return busy;
}

bool ffrio_tick(struct ffrio_proto *p)
{
	struct ffrio_peer *peer;
	bool busy = ffrio_rx_tick_all(p);

	for (peer = p->peer; peer < p->peer + FFRIO_PEERS; peer++)
		if (peer->used)
			busy |= peer_tick(p, peer);
	return busy;
}

/* Our end: peers need not find out. */
void ffrio_close(struct ffrio_proto *p)
{
	struct ffrio_peer *peer;

	for (peer = p->peer; peer < p->peer + FFRIO_PEERS; peer++) {
		if (!peer->used || peer->state == FFRIO_PEER_NONE)
			continue;
		ffrio_say(p, peer, FFRIO_DB_CONTROL, FFRIO_CONTROL_CLOSE, 0);
		ffrio_peer_down(p, peer, -ESHUTDOWN);
	}
}
