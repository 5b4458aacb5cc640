/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: */
/*
 * test_ffrio.c - kmod/ffrio's doorbell protocol between nodes in virtual time: a wire in order that
 * loses, repeats and delays, DMA that fails, nodes that are cut off or begin anew. What was reported as
 * sent must have been read, once, whole and in order, and no buffer may be lost.
 */
#include "tests/rig/unit/unit.h"

#include <stdbool.h>
#include <stdlib.h>

#include "kmod/ffrio/proto.c"
#include "kmod/ffrio/rx.c"
#undef TOLD_MS
#include "kmod/ffrio/tx.c"

#define NODES	17
#define EVENTS	65536
#define BUFFERS 64

/* ---- the rig ------------------------------------------------------------------------------------- */

/* A block, which is in memory what its number and text say. */
struct memory {
	u32 number, message;
	u16 index, blocks;
	u8 source, incarnation;
};

struct message;

struct block {
	struct ffrio_tx tx;
	struct message *message;
	u16 index;
};

struct message {
	struct message *next;
	u8 from, to, endpoint;
	u32 id;
	u16 blocks, ended, failed;
	bool read;
	struct block block[];
};

enum kind { DOORBELL, MOVED, READY };

struct event {
	u64 at;
	u32 order;
	enum kind kind;
	u8 from, to, life;
	u16 info;
	struct ffrio_tx *tx;
};

struct node {
	struct ffrio_proto p;
	u8 life; /* events of a former one are void */
	bool cut, off;
	u64 tick_at, last_at[NODES];
	struct memory rmb[BUFFERS];
	struct memory part[FFRIO_ENDPOINTS]; /* the last block of the message that is being read */
	bool middle[FFRIO_ENDPOINTS];
	u32 last_id[FFRIO_ENDPOINTS][NODES];
	bool reads; /* its programs read all that comes */
};

static struct {
	u64 now;
	u32 order, ids;
	unsigned int seed;
	int count, events;
	struct event event[EVENTS];
	struct node node[NODES];
	struct message *messages;
	/* per mille */
	unsigned int lose, repeat, dma_fail, corrupt, slow;
	u8 mad;		 /* a node that may do anything */
	bool late_ready; /* the data comes after the grant */
	u32 sent, read, broken, failed;
} w;

static u32 any(u32 below)
{
	return below ? (u32)rand_r(&w.seed) % below : 0;
}

static bool chance(unsigned int per_mille)
{
	return any(1000) < per_mille;
}

static struct node *node_of(struct ffrio_proto *p)
{
	return (struct node *)((char *)p - offsetof(struct node, p));
}

static u8 index_of(struct node *n)
{
	return n - w.node;
}

static void later(u64 at, enum kind kind, u8 from, u8 to, u16 info, struct ffrio_tx *tx)
{
	assert_true(w.events < EVENTS);
	w.event[w.events++] = (struct event){
		.at = at,
		.order = w.order++,
		.kind = kind,
		.from = from,
		.to = to,
		.life = w.node[from].life,
		.info = info,
		.tx = tx,
	};
}

static int rig_doorbell(struct ffrio_proto *p, u16 destid, u16 info)
{
	struct node *n = node_of(p);
	u8 from = index_of(n), to = destid;
	u64 at = w.now + any(3);

	if (to >= w.count)
		return 0;
	/* in order between two */
	if (at < n->last_at[to])
		at = n->last_at[to];
	n->last_at[to] = at;
	if (chance(5))
		return -EBUSY;
	if (chance(w.lose))
		return 0;
	later(at, DOORBELL, from, to, info, NULL);
	if (chance(w.repeat))
		later(at, DOORBELL, from, to, info, NULL);
	return 0;
}

static void rig_granted(struct ffrio_proto *p, struct ffrio_tx *tx)
{
	u8 from = index_of(node_of(p));

	later(w.now + any(3) + (chance(w.slow) ? 4000 : 0), READY, from, from, 0, tx);
}

static void rig_move(struct ffrio_proto *p, struct ffrio_tx *tx)
{
	u8 from = index_of(node_of(p));

	later(w.now + 1 + any(3), MOVED, from, tx->peer->destid, tx->buffer, tx);
}

static void rig_sent(struct ffrio_proto *p, struct ffrio_tx *tx, int result)
{
	struct block *b = (struct block *)tx;

	(void)p;
	assert_int_equal(tx->state, FFRIO_TX_OVER);
	tx->peer = NULL;
	b->message->ended++;
	if (result)
		b->message->failed++;
}

static int rig_check(struct ffrio_proto *p, u16 buffer, u32 number)
{
	struct node *n = node_of(p);

	const struct ffrio_peer *peer = &p->peer[p->buffer[buffer].peer];
	const struct memory *m = &n->rmb[buffer];

	if (w.mad && peer->destid == w.mad)
		return any(2) ? -EBADMSG : 0;
	if (m->number != number || m->source != peer->destid || m->incarnation != peer->known)
		return -EBADMSG;
	p->buffer[buffer].length = 1;
	p->buffer[buffer].source = n->rmb[buffer].source;
	return 0;
}

static void rig_arrived(struct ffrio_proto *p, u8 endpoint)
{
	(void)p;
	(void)endpoint;
}

static void rig_broke(struct ffrio_proto *p, u16 destid, const char *what)
{
	(void)p;
	assert_non_null(what);
	assert_int_equal(destid, w.mad);
}

static void rig_changed(struct ffrio_proto *p, struct ffrio_peer *peer)
{
	(void)p;
	(void)peer;
}

static const struct ffrio_ops rig_ops = {
	.doorbell = rig_doorbell,
	.granted = rig_granted,
	.move = rig_move,
	.sent = rig_sent,
	.check = rig_check,
	.broke = rig_broke,
	.arrived = rig_arrived,
	.changed = rig_changed,
};

static void node_begin(struct node *n, u16 buffers)
{
	u8 life = n->life + 1;

	memset(n, 0, sizeof(*n));
	n->life = life;
	n->reads = true;
	n->p.buffers = buffers;
	n->p.quota = buffers;
	n->p.block = 64;
	n->p.address = 0x123450000ULL + index_of(n);
	n->p.retry_ms = 20;
	n->p.dead_ms = 1000;
	n->p.now = w.now;
	ffrio_proto_init(&n->p, &rig_ops, any(255) + 1);
}

static void rig_begin(int count, u16 buffers, unsigned int seed)
{
	struct message *m, *next;

	for (m = w.messages; m; m = next) {
		next = m->next;
		free(m);
	}
	memset(&w, 0, sizeof(w));
	w.now = 1000;
	w.seed = seed;
	w.count = count;
	for (int i = 0; i < count; i++)
		node_begin(&w.node[i], buffers);
}

/* The first nodes bind their first endpoints. */
static void bind_all(int nodes, int endpoints)
{
	for (int i = 0; i < nodes; i++)
		for (int e = 0; e < endpoints; e++)
			assert_int_equal(ffrio_rx_bind(&w.node[i].p, e), e);
}

static struct message *post(u8 from, u8 to, u8 endpoint, u16 blocks)
{
	struct message *m = calloc(1, sizeof(*m) + blocks * sizeof(m->block[0]));
	struct ffrio_proto *p = &w.node[from].p;
	struct ffrio_peer *peer = ffrio_peer_get(p, to);

	assert_non_null(peer);
	*m = (struct message){ .next = w.messages,
			       .from = from,
			       .to = to,
			       .endpoint = endpoint,
			       .id = ++w.ids,
			       .blocks = blocks };
	w.messages = m;
	p->now = w.now;
	ffrio_peer_hello(p, peer);
	for (u16 i = 0; i < blocks; i++) {
		struct block *b = &m->block[i];

		b->message = m;
		b->index = i;
		b->tx.endpoint = endpoint;
		b->tx.first = !i;
		b->tx.last = i == blocks - 1;
		b->tx.ready = !w.late_ready;
		if (m->failed) {
			m->ended++;
			m->failed++;
			continue;
		}
		assert_int_equal(ffrio_tx_add(p, peer, &b->tx), 0);
	}
	return m;
}

static struct message *find(u32 id)
{
	struct message *m = w.messages;

	while (m->id != id)
		m = m->next;
	return m;
}

/* A reader takes blocks and looks whether they are what comes next. */
static void read_some(struct node *n, u8 endpoint)
{
	struct memory *part = &n->part[endpoint];
	u16 destid;
	int b;

	while ((b = ffrio_rx_take(&n->p, endpoint, &destid)) != -EAGAIN) {
		struct memory got;

		if (b == -ECONNRESET) {
			assert_true(n->middle[endpoint]);
			assert_int_equal(destid, part->source);
			n->middle[endpoint] = false;
			w.broken++;
			continue;
		}
		got = n->rmb[b];
		if (w.mad && n->p.buffer[b].destid == w.mad) {
			n->middle[endpoint] = !(n->p.buffer[b].flags & FFRIO_LAST);
			part->source = w.mad;
			ffrio_rx_give_back(&n->p, b);
			continue;
		}
		assert_int_equal(got.source, n->p.buffer[b].destid);
		if (n->p.buffer[b].flags & FFRIO_FIRST) {
			assert_false(n->middle[endpoint]);
			assert_int_equal(got.index, 0);
			assert_true(got.message > n->last_id[endpoint][got.source]);
			n->last_id[endpoint][got.source] = got.message;
		} else {
			assert_true(n->middle[endpoint]);
			assert_int_equal(got.message, part->message);
			assert_int_equal(got.index, part->index + 1);
		}
		n->middle[endpoint] = !(n->p.buffer[b].flags & FFRIO_LAST);
		*part = got;
		if (!n->middle[endpoint]) {
			assert_int_equal(got.index, got.blocks - 1);
			assert_false(find(got.message)->read);
			find(got.message)->read = true;
			w.read++;
		}
		ffrio_rx_give_back(&n->p, b);
	}
}

static void moved(const struct event *e)
{
	struct node *from = &w.node[e->from], *to = &w.node[e->to];
	struct block *b = (struct block *)e->tx;
	bool fails = chance(w.dma_fail);

	if (!to->off && !to->cut && !from->cut && !chance(w.corrupt))
		to->rmb[e->info] = (struct memory){
			.number = e->tx->number,
			.message = b->message->id,
			.index = b->index,
			.blocks = b->message->blocks,
			.source = e->from,
			.incarnation = e->tx->incarnation,
		};
	ffrio_tx_moved(&from->p, e->tx, fails ? -EIO : 0);
}

static void one_event(const struct event *e)
{
	struct node *from = &w.node[e->from], *to = &w.node[e->to];

	if (e->life != from->life && e->kind != DOORBELL)
		return;
	if (e->kind == DOORBELL) {
		if (!to->off && !to->cut && !from->cut) {
			to->p.now = w.now;
			ffrio_doorbell(&to->p, e->from, e->info);
		}
	} else if (e->kind == MOVED) {
		from->p.now = w.now;
		moved(e);
	} else if (e->tx->peer) {
		from->p.now = w.now;
		ffrio_tx_ready(&from->p, e->tx);
	}
}

static int next_event(void)
{
	int best = -1;

	for (int i = 0; i < w.events; i++)
		if (best < 0 || w.event[i].at < w.event[best].at ||
		    (w.event[i].at == w.event[best].at && w.event[i].order < w.event[best].order))
			best = i;
	return best;
}

static void step(void)
{
	int i;

	while ((i = next_event()) >= 0 && w.event[i].at <= w.now) {
		struct event e = w.event[i];

		w.event[i] = w.event[--w.events];
		one_event(&e);
	}
	for (i = 0; i < w.count; i++) {
		struct node *n = &w.node[i];

		n->p.now = w.now;
		if (n->off)
			continue;
		for (u8 e = 0; n->reads && e < FFRIO_ENDPOINTS; e++)
			if (n->p.endpoint[e].bound && !chance(300))
				read_some(n, e);
		if (w.now >= n->tick_at) {
			ffrio_tick(&n->p);
			n->tick_at = w.now + n->p.retry_ms / 2;
		}
	}
	w.now++;
}

static void run(u64 ms)
{
	for (u64 end = w.now + ms; w.now < end;)
		step();
}

static bool all_ended(void)
{
	for (struct message *m = w.messages; m; m = m->next)
		if (m->ended < m->blocks)
			return false;
	return true;
}

static void run_to_end(u64 most)
{
	u64 end = w.now + most;

	while (!all_ended() && w.now < end)
		step();
	assert_true(all_ended());
}

/* All ends, and every buffer is free again. */
static void settle(void)
{
	w.lose = w.repeat = w.dma_fail = w.corrupt = w.slow = 0;
	run_to_end(30000);
	run(2 * FFRIO_GRANT_MS);
	w.sent = w.failed = 0;
	for (struct message *m = w.messages; m; m = m->next) {
		if (m->failed)
			w.failed++;
		else
			w.sent++;
	}
	for (int i = 0; i < w.count; i++) {
		struct ffrio_proto *p = &w.node[i].p;
		int bound = 0;

		if (w.node[i].off)
			continue;
		assert_int_equal(p->free, p->buffers);
		for (int e = 0; e < FFRIO_ENDPOINTS; e++) {
			bound += p->endpoint[e].bound;
			assert_int_equal(p->endpoint[e].held, 0);
			assert_int_equal(p->endpoint[e].head, FFRIO_NONE);
		}
		assert_int_equal(p->bound_without, bound);
		for (int k = 0; k < FFRIO_PEERS; k++)
			assert_int_equal(p->peer[k].moving, 0);
	}
}

/* In the end what was reported as sent has been read. */
static void settle_read(void)
{
	settle();
	for (struct message *m = w.messages; m; m = m->next)
		if (!m->failed)
			assert_true(m->read);
}

/* ---- the cases ----------------------------------------------------------------------------------- */

static void pair(void **state)
{
	struct message *m;

	(void)state;
	rig_begin(2, 4, 1);
	assert_int_equal(ffrio_rx_bind(&w.node[1].p, 5), 5);
	m = post(0, 1, 5, 1);
	run_to_end(100);
	assert_int_equal(m->failed, 0);
	m = post(0, 1, 5, 100);
	run_to_end(2000);
	assert_int_equal(m->failed, 0);
	/* nobody is there */
	m = post(0, 1, 6, 3);
	run_to_end(100);
	assert_int_equal(m->block[0].tx.result, -ECONNREFUSED);
	assert_int_equal(m->failed, 3);
	settle_read();
	assert_int_equal(w.read, 2);
}

/* Nothing is said again where nothing is lost, but what the timers of a parked flow say. */
static void quiet(void **state)
{
	(void)state;
	rig_begin(2, 8, 3);
	assert_int_equal(ffrio_rx_bind(&w.node[1].p, 0), 0);
	w.late_ready = true;
	for (int i = 0; i < 20; i++)
		post(0, 1, 0, 1 + any(10));
	settle_read();
	assert_int_equal(w.failed, 0);
	assert_int_equal(w.node[1].p.stats[FFRIO_STAT_bad_blocks], 0);
}

static void lossy(unsigned int seed, unsigned int lose, unsigned int repeat)
{
	rig_begin(3, 6, seed);
	bind_all(3, 3);
	w.lose = lose;
	w.repeat = repeat;
	w.dma_fail = lose / 2;
	w.corrupt = lose / 2;
	w.late_ready = seed & 1;
	for (int i = 0; i < 120; i++)
		post(any(3), any(3), any(3), 1 + any(any(2) ? 3 : 20));
	run_to_end(600000);
	settle_read();
	assert_true(w.sent > 60);
}

static void loss(void **state)
{
	(void)state;
	for (unsigned int seed = 1; seed < 40; seed++)
		lossy(seed, 10 * (seed % 10), 15 * (seed % 7));
}

/* Few buffers, many senders: each has its turn. */
static void sixteen(void **state)
{
	u32 at_half[NODES] = { 0 };

	(void)state;
	rig_begin(17, 2, 7);
	assert_int_equal(ffrio_rx_bind(&w.node[0].p, 9), 9);
	for (int i = 0; i < 20; i++)
		for (int n = 1; n < 17; n++)
			post(n, 0, 9, 1 + any(6));
	for (int i = 0; w.read < 160; i++) {
		assert_true(i < 60000);
		step();
	}
	for (struct message *m = w.messages; m; m = m->next)
		at_half[m->from] += m->read;
	for (int n = 1; n < 17; n++)
		assert_in_range(at_half[n], 7, 13);
	settle_read();
	assert_int_equal(w.failed, 0);
}

/* Endpoints that nobody reads do not keep others from the same peers, nor from the same buffers. */
static void unread(void **state)
{
	struct message *m;

	(void)state;
	rig_begin(2, 20, 9);
	for (int e = 0; e < 12; e++)
		assert_int_equal(ffrio_rx_bind(&w.node[1].p, e), e);
	w.node[1].reads = false;
	for (int e = 0; e < 12; e++)
		if (e != 7)
			post(0, 1, e, 30);
	run(3000);
	assert_int_equal(w.node[1].p.endpoint[7].held, 0);
	m = post(0, 1, 7, 50);
	for (int i = 0; m->ended < 50; i++) {
		assert_true(i < 30000);
		step();
		read_some(&w.node[1], 7);
	}
	assert_int_equal(m->failed, 0);
	w.node[1].reads = true;
	settle_read();
	assert_int_equal(w.failed, 0);
}

/* A message whose sender stops, while others wait, is given up: its reader hears of it. */
static void stalls(void **state)
{
	struct ffrio_peer *peer;
	struct message *m, *other;

	(void)state;
	rig_begin(3, 4, 11);
	assert_int_equal(ffrio_rx_bind(&w.node[1].p, 0), 0);
	m = post(0, 1, 0, 1);
	run_to_end(100);
	m = post(0, 1, 0, 3);
	m->block[2].tx.last = 0;
	run_to_end(200);
	assert_int_equal(m->failed, 0);
	other = post(2, 1, 0, 2);
	run(1500);
	assert_int_equal(other->ended, 0);
	run_to_end(3000);
	assert_int_equal(other->failed, 0);
	assert_int_equal(w.broken, 1);
	/* and when it says so, at once */
	m = post(0, 1, 0, 3);
	m->block[2].tx.last = 0;
	run_to_end(200);
	peer = ffrio_peer_find(&w.node[0].p, 1);
	ffrio_tx_abandon(&w.node[0].p, peer, 0);
	run(20);
	assert_int_equal(w.broken, 2);
	settle();
}

/* Grants whose data does not come are given back, and what the receiver revokes is not written to. */
static void slow_data(void **state)
{
	(void)state;
	rig_begin(2, 4, 13);
	assert_int_equal(ffrio_rx_bind(&w.node[1].p, 0), 0);
	w.late_ready = true;
	w.slow = 60;
	for (int i = 0; i < 40; i++)
		post(0, 1, 0, 1 + any(5));
	run_to_end(400000);
	settle_read();
	assert_true(w.failed > 0 && w.sent > 0);
}

static void cancels(void **state)
{
	(void)state;
	for (unsigned int seed = 1; seed < 30; seed++) {
		rig_begin(2, 3, seed);
		assert_int_equal(ffrio_rx_bind(&w.node[1].p, 0), 0);
		assert_int_equal(ffrio_rx_bind(&w.node[1].p, 1), 1);
		w.lose = seed % 3 * 30;
		w.late_ready = seed & 1;
		for (int i = 0; i < 60; i++) {
			struct message *m = post(0, 1, any(2), 1 + any(12));
			u16 b = any(m->blocks);

			run(any(60));
			w.node[0].p.now = w.now;
			if (any(2) && m->block[b].tx.peer)
				ffrio_tx_cancel(&w.node[0].p, &m->block[b].tx, -EINTR);
		}
		run_to_end(100000);
		settle_read();
	}
}

/* Every such node of the three sends to any of them for a while, and then that happens to node 1: four times. */
static void happens(void (*what)(int round), unsigned int seed, u32 every)
{
	rig_begin(3, 4, seed);
	bind_all(3, 1);
	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < 12; i++)
			post(any(2 / every + 1) * every, any(3), 0, 1 + any(8));
		run(any(60));
		what(round);
	}
}

static void is_cut_off(int round)
{
	w.node[1].cut = true;
	run(round & 1 ? 4000 : 300);
	w.node[1].cut = false;
	run_to_end(20000);
}

/* A node that is cut off for longer than dead_ms: errors, and afterwards all is as new. */
static void partition(void **state)
{
	(void)state;
	for (unsigned int seed = 1; seed < 20; seed++) {
		happens(is_cut_off, seed, 1);
		/* the last word may be lost, then it was read and is not reported; never the reverse */
		settle_read();
		assert_true(w.sent > 10);
	}
}

static void begins_anew(int round)
{
	w.node[1].p.now = w.now;
	if (round & 1)
		ffrio_close(&w.node[1].p);
	node_begin(&w.node[1], 4);
	assert_int_equal(ffrio_rx_bind(&w.node[1].p, 0), 0);
	post(0, 1, 0, 2);
	run_to_end(30000);
}

/* A node that begins anew without a word, and one that says so. */
static void restart(void **state)
{
	(void)state;
	for (unsigned int seed = 1; seed < 20; seed++) {
		happens(begins_anew, seed, 2);
		settle();
		/* what was sent to the node that went may not have been read there */
		for (struct message *m = w.messages; m; m = m->next)
			if (!m->failed && m->to != 1)
				assert_true(m->read);
	}
}

/* A peer that says anything at all: counted, and others go on. */
static void hostile(void **state)
{
	(void)state;
	for (unsigned int seed = 1; seed < 30; seed++) {
		rig_begin(3, 6, seed);
		bind_all(2, 1);
		w.mad = 2;
		w.node[2].off = true;
		post(0, 2, 0, 3);
		/* it has said hello properly, and gone mad after that */
		if (seed & 1) {
			struct node *n = &w.node[2];

			n->off = false;
			ffrio_rx_bind(&n->p, 0);
			run(100);
			n->off = true;
		}
		for (int i = 0; i < 3000; i++) {
			u16 info = FFRIO_DB_FIRST | any(0x8000);

			if (info < 0x9000 && any(8))
				info = 0x9000 | any(0x7000);
			for (int k = 0; k < 2; k++) {
				w.node[k].p.now = w.now;
				ffrio_doorbell(&w.node[k].p, 2, info);
			}
			if (i % 100 == 0)
				post(0, 1, 0, 1 + any(4));
			if (i % 4 == 0)
				step();
		}
		run_to_end(60000);
		for (struct message *m = w.messages; m; m = m->next)
			if (m->to == 1)
				assert_int_equal(m->failed, 0);
		settle();
	}
}

static void table_full(void **state)
{
	struct ffrio_proto *p;

	(void)state;
	rig_begin(2, 4, 5);
	p = &w.node[0].p;
	for (u16 i = 0; i < FFRIO_PEERS; i++) {
		struct ffrio_peer *peer = ffrio_peer_get(p, 1000 + i);

		assert_non_null(peer);
		ffrio_peer_hello(p, peer);
	}
	assert_null(ffrio_peer_get(p, 1));
	assert_int_equal(p->stats[FFRIO_STAT_peers_refused], 1);
	/* none of them answers: their places are free again */
	run(3000);
	assert_non_null(ffrio_peer_get(p, 1));
}

/* Node 1 as a puppet that has said hello: what it says is put in its mouth. */
static int puppet(void **state)
{
	(void)state;
	rig_begin(2, 4, 21);
	bind_all(2, 1);
	post(1, 0, 0, 1);
	run_to_end(100);
	run(50);
	assert_int_equal(w.read, 1);
	w.node[1].off = true;
	w.mad = 1;
	return 0;
}

static void puppet_says(enum ffrio_db type, u8 seq, u8 arg)
{
	w.node[0].p.now = w.now;
	ffrio_doorbell(&w.node[0].p, 1, FFRIO_DB_FIRST | type << 12 | seq << 8 | arg);
}

static u64 stat_of(enum ffrio_stat which)
{
	return w.node[0].p.stats[which];
}

/* A grant that is not used, by a peer that lives, is revoked; what comes for it later is stale. */
static void revoked(void **state)
{
	struct ffrio_proto *p = &w.node[0].p;
	u16 buffer;

	(void)state;
	puppet_says(FFRIO_DB_REQUEST, 1, FFRIO_REQUEST_FIRST | FFRIO_REQUEST_LAST);
	assert_int_equal(p->free, 3);
	buffer = p->endpoint[0].head;
	for (int i = 0; i < FFRIO_GRANT_MS + 100; i++) {
		if (i % 400 == 0)
			puppet_says(FFRIO_DB_CONTROL, FFRIO_CONTROL_PING, 1);
		step();
	}
	assert_int_equal(stat_of(FFRIO_STAT_grants_revoked), 1);
	assert_int_equal(p->free, 4);
	puppet_says(FFRIO_DB_DONE, 1, buffer);
	assert_int_equal(stat_of(FFRIO_STAT_stale_grants), 1);
	assert_int_equal(stat_of(FFRIO_STAT_blocks_received), 1);
	puppet_says(FFRIO_DB_REQUEST, 1, FFRIO_REQUEST_FIRST | FFRIO_REQUEST_LAST);
	assert_int_equal(p->free, 4);
}

/* An endpoint that goes while buffers are granted: they come back by the sender's last word. */
static void orphaned(void **state)
{
	struct ffrio_proto *p = &w.node[0].p;
	u16 buffer;

	(void)state;
	puppet_says(FFRIO_DB_REQUEST, 1, FFRIO_REQUEST_FIRST);
	puppet_says(FFRIO_DB_REQUEST, 2, 0);
	puppet_says(FFRIO_DB_REQUEST, 3, FFRIO_REQUEST_LAST);
	buffer = p->endpoint[0].head;
	ffrio_rx_unbind(p, 0);
	assert_int_equal(p->free, 1);
	puppet_says(FFRIO_DB_REQUEST, 1, FFRIO_REQUEST_FIRST);
	puppet_says(FFRIO_DB_DONE, 1, buffer);
	assert_int_equal(p->free, 2);
	puppet_says(FFRIO_DB_CANCEL, 2, 0);
	assert_int_equal(p->free, 3);
	puppet_says(FFRIO_DB_CANCEL, 2, 0);
	assert_int_equal(p->free, 3);
	/* the third: its sender is gone */
	run(3000);
	assert_int_equal(p->peer[0].state, FFRIO_PEER_NONE);
	assert_int_equal(stat_of(FFRIO_STAT_quarantined), 1);
	run(FFRIO_GRANT_MS);
	assert_int_equal(p->free, 4);
}

/* Answers that no peer may give, and those that come again and again. */
static void wrong_answers(void **state)
{
	struct message *m;
	u8 seq;

	(void)state;
	m = post(0, 1, 0, 2);
	seq = m->block[0].tx.seq;
	puppet_says(FFRIO_DB_ACK, seq, FFRIO_ACK_OK);
	assert_int_equal(m->ended, 0);
	puppet_says(FFRIO_DB_GRANT, seq, 3);
	puppet_says(FFRIO_DB_GRANT, seq, 2);
	assert_int_equal(m->block[0].tx.buffer, 3);
	run(10);
	assert_int_equal(m->block[0].tx.state, FFRIO_TX_DONE);
	/* never content */
	for (int i = 0; !m->ended; i++) {
		assert_true(i < 500);
		puppet_says(FFRIO_DB_ACK, seq, FFRIO_ACK_BAD);
		run(5);
		if (m->block[0].tx.state == FFRIO_TX_CANCELLED)
			puppet_says(FFRIO_DB_ACK, seq, FFRIO_ACK_OK);
	}
	assert_int_equal(m->block[0].tx.result, -EIO);
	/* both begin anew: the next one could be as bad */
	assert_int_equal(w.node[0].p.peer[0].state, FFRIO_PEER_NONE);
	assert_int_equal(w.node[0].p.stats[FFRIO_STAT_protocol_errors], 1);
}

static void a_buffer_that_it_has_not(void **state)
{
	struct message *m;

	(void)state;
	m = post(0, 1, 0, 1);
	assert_int_equal(m->block[0].tx.state, FFRIO_TX_REQUESTED);
	puppet_says(FFRIO_DB_GRANT, m->block[0].tx.seq, 200);
	assert_int_equal(m->block[0].tx.result, -EPROTO);
	assert_int_equal(w.node[0].p.stats[FFRIO_STAT_protocol_errors], 1);
}

/* Longer than the peer's buffers. */
static void too_long(void **state)
{
	struct message *m;

	(void)state;
	m = post(0, 1, 0, 1);
	m->block[0].tx.length = 65;
	puppet_says(FFRIO_DB_GRANT, m->block[0].tx.seq, 0);
	puppet_says(FFRIO_DB_ACK, m->block[0].tx.seq, 0);
	assert_int_equal(m->block[0].tx.result, -EMSGSIZE);
}

/* A peer that lives, and answers anything but this. */
static void mute(void **state)
{
	struct message *m;

	(void)state;
	m = post(0, 1, 0, 1);
	for (int i = 0; !m->ended; i++) {
		assert_true(i < 3000);
		if (i % 100 == 0)
			puppet_says(FFRIO_DB_CONTROL, FFRIO_CONTROL_PING, 1);
		step();
	}
	assert_int_equal(m->block[0].tx.result, -ETIMEDOUT);
	/* said again each 80 ms, when it has waited so long: a slow link has room for more than that */
	assert_in_range(w.node[0].p.stats[FFRIO_STAT_doorbells_again], 20, 30);
}

static void bad_hellos(void **state)
{
	(void)state;
	for (u8 i = 0; i < FFRIO_HELLO_BYTES; i++)
		puppet_says(FFRIO_DB_CONTROL, i, i);
	assert_int_equal(stat_of(FFRIO_STAT_bad_hellos), 1);
	/* a right sum, and a version of another day */
	for (u8 i = 0; i < FFRIO_HELLO_SUM; i++)
		puppet_says(FFRIO_DB_CONTROL, i, 9);
	puppet_says(FFRIO_DB_CONTROL, FFRIO_HELLO_SUM, 9 * FFRIO_HELLO_SUM);
	assert_int_equal(stat_of(FFRIO_STAT_bad_hellos), 2);
	assert_int_equal(w.node[0].p.peer[0].state, FFRIO_PEER_UP);
}

static void binds(void **state)
{
	struct ffrio_proto *p;

	(void)state;
	rig_begin(1, 3, 5);
	p = &w.node[0].p;
	assert_int_equal(ffrio_rx_bind(p, 64), -EINVAL);
	assert_int_equal(ffrio_rx_bind(p, 3), 3);
	assert_int_equal(ffrio_rx_bind(p, 3), -EADDRINUSE);
	assert_int_equal(ffrio_rx_bind(p, -1), 63);
	assert_int_equal(ffrio_rx_bind(p, -1), 62);
	assert_int_equal(ffrio_rx_bind(p, -1), -ENOBUFS);
	ffrio_rx_unbind(p, 3);
	assert_int_equal(ffrio_rx_bind(p, 3), 3);
}

#define PUPPET(fn) cmocka_unit_test_setup(fn, puppet)

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(pair), cmocka_unit_test(quiet), cmocka_unit_test(loss),
			cmocka_unit_test(sixteen), cmocka_unit_test(unread),
			cmocka_unit_test(stalls), cmocka_unit_test(slow_data),
			cmocka_unit_test(cancels), cmocka_unit_test(partition),
			cmocka_unit_test(restart), cmocka_unit_test(hostile),
			cmocka_unit_test(table_full), cmocka_unit_test(binds), PUPPET(revoked),
			PUPPET(orphaned), PUPPET(wrong_answers), PUPPET(a_buffer_that_it_has_not),
			PUPPET(too_long), PUPPET(mute), PUPPET(bad_hellos));
}
