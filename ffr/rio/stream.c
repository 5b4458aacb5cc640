/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * stream.c - bytes to blocks of ffrio and back. Runner, [lock]; tcp.c calls (struct wire_by).
 *
 * Out: bytes are gathered into a send buffer, which is sent as a message of its own when it is full or when nothing
 * follows (rio_flush()). While it is sent, the next buffer is filled. Buffers come back by FFRIO_REAP. All peers have
 * the same share of the buffers that programs may have, at least one buffer each.
 *
 * In: blocks come in order, each of them whole (ffrio sees to that), and are read in place. Any node on the link can
 * write there at any time, so each byte is read once, and the header as a copy. Blocks that nobody asked for are given
 * back unread.
 *
 * Tests: test_link.c
 */
#include "ffr/rio/rio.h"

#include <errno.h>
#include <string.h>

#include "ffr/peer/peer.h"

#define LOOKS 64u /* at blocks of strangers, in a row */

static int call(struct rio_link *l, unsigned long request, void *arg)
{
	return rio_calls->call(l->end.fd, request, arg);
}

/* ---- send buffers -------------------------------------------------------------------------------------- */

static uint32_t share(const struct rio_link *l)
{
	uint32_t smbs = l->end.bound.smbs, n = smbs / 2 / l->dev->num_ends;

	if (n > smbs / 4)
		n = smbs / 4;
	if (n > RIO_SMBS)
		n = RIO_SMBS;
	return n ? n : 1;
}

static void buffer_free(struct rio_link *l, uint32_t buffer)
{
	struct ffrio_buf b = { .buffer = buffer };

	call(l, FFRIO_FREE, &b);
	l->held--;
}

/* It is not used any more. */
static void buffer_put(struct rio_link *l, uint32_t buffer)
{
	if (l->held > share(l))
		buffer_free(l, buffer);
	else
		l->idle[l->num_idle++] = (uint16_t)buffer;
}

/* A buffer, -EAGAIN or -errno. */
static int buffer_get(struct rio_link *l)
{
	struct ffrio_buf b = { 0 };
	int err;

	if (!l->num_idle && l->under_way)
		rio_reap(l);
	if (l->num_idle)
		return l->idle[--l->num_idle];
	if (l->held >= share(l))
		return -EAGAIN;
	err = call(l, FFRIO_ALLOC, &b);
	if (err)
		return err == -ENOBUFS ? -EAGAIN : err;
	if (b.buffer >= l->end.bound.smbs)
		return -EIO;
	l->held++;
	return (int)b.buffer;
}

void rio_rest(struct rio_link *l)
{
	if (l->under_way || l->fills >= 0)
		return;
	while (l->num_idle)
		buffer_free(l, l->idle[--l->num_idle]);
}

void rio_reap(struct rio_link *l)
{
	while (l->end.fd >= 0 && l->under_way) {
		struct ffrio_reap r = { 0 };
		int err = call(l, FFRIO_REAP, &r);

		if (err == -EAGAIN || err == -EINTR)
			return;
		if (err) {
			l->err = err;
			return;
		}
		l->under_way--;
		buffer_put(l, r.buffer);
		if (l->state == RIO_ASKED)
			rio_link_answered(l, r.result);
		else if (r.result && !l->err)
			l->err = r.result;
	}
}

/* ---- out ----------------------------------------------------------------------------------------------- */

static uint8_t *memory(const struct rio_link *l, uint32_t buffer)
{
	const struct ffrio_bind *b = &l->end.bound;

	return l->end.smb + (size_t)buffer * b->stride + b->header;
}

/* Bytes of a block, with its header. */
static uint32_t block_size(const struct rio_link *l)
{
	return l->to.block < l->end.bound.block ? l->to.block : l->end.bound.block;
}

/* Begin a block. 0 or as buffer_get(). */
static int fill_begin(struct rio_link *l)
{
	int buffer = buffer_get(l);

	if (buffer < 0)
		return buffer;
	l->fills = buffer;
	l->fill = (uint32_t)sizeof(struct rio_head);
	return 0;
}

/* Sends the block that was filled. 0, -EAGAIN or -errno. */
static int post(struct rio_link *l)
{
	const struct rio_head h = { .token = l->to.token, .number = l->number_out };
	uint8_t *p = memory(l, (uint32_t)l->fills);
	struct ffrio_post post = {
		.buffer = (uint32_t)l->fills,
		.length = l->fill,
		.destid = l->to.node,
		.endpoint = l->to.endpoint,
		.flags = FFRIO_FIRST | FFRIO_LAST,
	};
	int err;

	memcpy(p, &h, sizeof(h));
	memset(p + l->fill, 0,
	       -l->fill & 7); /* what goes along: what was there is not the peer's */
	err = call(l, FFRIO_POST, &post);
	if (err)
		return err == -EINTR ? -EAGAIN : err;
	l->fills = -1;
	l->number_out++;
	l->under_way++;
	l->dev->stats.blocks_out++;
	return 0;
}

int rio_ask(struct rio_link *l)
{
	int err = l->fills < 0 ? fill_begin(l) : 0;

	l->number_out = 0;
	return err ? err : post(l);
}

/* There is no buffer, or nobody takes one: what wakes us up? A block that comes back, or else the timer. */
static void starve(struct rio_link *l)
{
	if (l->under_way)
		return;
	l->dev->stats.starved++;
	timer_arm(&l->dev->f->timers, &l->timer, l->dev->f->now + RIO_AGAIN_NS);
}

/* Bytes that fit into the block. 0: there is none, -errno. */
static int room(struct rio_link *l, uint32_t *bytes)
{
	int err = 0;

	if (l->fills >= 0 && l->fill == block_size(l))
		err = post(l);
	if (!err && l->fills < 0)
		err = fill_begin(l);
	*bytes = err ? 0 : block_size(l) - l->fill;
	return err;
}

/* Copies from the iov on, as much as there is room for. 0, -EAGAIN or -errno. */
static int gather(struct rio_link *l, const struct iovec *iov, size_t *sum)
{
	const uint8_t *from = iov->iov_base;
	size_t at = 0;
	uint32_t n;
	int err;

	while (at < iov->iov_len) {
		err = room(l, &n);
		if (err)
			return err;
		if (n > iov->iov_len - at)
			n = (uint32_t)(iov->iov_len - at);
		memcpy(memory(l, (uint32_t)l->fills) + l->fill, from + at, n);
		l->fill += n;
		at += n;
		*sum += n;
	}
	return 0;
}

ssize_t rio_writev(struct fast *f, struct wire_peer *p, const struct iovec *iov, int n)
{
	struct rio_link *l = p->by;
	size_t sum = 0;
	int err = l->err;

	(void)f;
	for (int i = 0; !err && i < n; i++)
		err = gather(l, &iov[i], &sum);
	if (err == -EAGAIN)
		starve(l);
	/* an error that comes behind bytes that were taken comes again */
	return sum ? (ssize_t)sum : err;
}

int rio_flush(struct fast *f, struct wire_peer *p)
{
	struct rio_link *l = p->by;
	int err = l->err;

	(void)f;
	if (!err && l->fills >= 0 && l->fill > sizeof(struct rio_head))
		err = post(l);
	if (err == -EAGAIN)
		starve(l);
	return err;
}

/* ---- in ------------------------------------------------------------------------------------------------ */

static void give_back(struct rio_link *l, uint32_t buffer)
{
	struct ffrio_buf b = { .buffer = buffer };

	call(l, FFRIO_GIVE_BACK, &b);
}

/* Is it from the peer, with our token? *h is its header. */
static bool is_ours(const struct rio_link *l, const struct ffrio_take *t, struct rio_head *h)
{
	const struct ffrio_bind *b = &l->end.bound;

	if (t->destid != l->to.node || t->endpoint != l->to.endpoint || t->length < sizeof(*h) ||
	    t->length > b->block || t->buffer >= b->rmbs)
		return false;
	memcpy(h, l->end.rmb + (size_t)t->buffer * b->stride + b->header, sizeof(*h));
	return h->token == l->token;
}

/* The block is the next one, or says once more that there is a way. Otherwise -EPROTO. */
static int check_number(struct rio_link *l, const struct rio_head *h, uint32_t bytes)
{
	if (!h->number && !bytes && l->number_in <= 1) {
		l->number_in = 1;
		return 0;
	}
	if (!bytes || h->number != l->number_in)
		return -EPROTO;
	l->number_in++;
	return 0;
}

/* Have the next block at hand. 0, -EAGAIN or -errno. */
static int next_block(struct rio_link *l)
{
	const struct ffrio_bind *b = &l->end.bound;

	l->more = false;
	for (unsigned i = 0; i < LOOKS; i++) {
		struct ffrio_take t = { 0 };
		struct rio_head h;
		int err = call(l, FFRIO_TAKE, &t);

		if (err ==
		    -ECONNRESET) { /* a message of several blocks: it is none of the peer's */
			l->dev->stats.strangers++;
			continue;
		}
		if (err)
			return err == -EINTR ? -EAGAIN : err;
		if (!is_ours(l, &t, &h)) {
			l->dev->stats.strangers++;
			give_back(l, t.buffer);
			continue;
		}
		l->dev->stats.blocks_in++;
		err = check_number(l, &h, t.length - (uint32_t)sizeof(h));
		if (err || t.length == sizeof(h)) {
			give_back(l, t.buffer);
			if (err)
				return err;
			continue;
		}
		l->reads = (int)t.buffer;
		l->rest = l->end.rmb + (size_t)t.buffer * b->stride + b->header + sizeof(h);
		l->rest_len = t.length - (uint32_t)sizeof(h);
		return 0;
	}
	l->more = true;
	return -EAGAIN;
}

ssize_t rio_readv(struct fast *f, struct wire_peer *p, const struct iovec *iov, int n)
{
	struct rio_link *l = p->by;
	size_t sum = 0;

	(void)f;
	for (int i = 0; i < n; i++)
		for (size_t at = 0, len; at < iov[i].iov_len; at += len, sum += len) {
			int err = l->rest_len ? 0 : next_block(l);

			/* an error behind bytes is met again, but what the block at hand says */
			if (err)
				return sum && err != -EPROTO ? (ssize_t)sum : err;
			len = iov[i].iov_len - at;
			if (len > l->rest_len)
				len = l->rest_len;
			memcpy((uint8_t *)iov[i].iov_base + at, l->rest, len);
			l->rest += len;
			l->rest_len -= (uint32_t)len;
			if (!l->rest_len) {
				give_back(l, (uint32_t)l->reads);
				l->reads = -1;
			}
		}
	return (ssize_t)sum;
}

bool rio_pending(const struct wire_peer *p)
{
	const struct rio_link *l = p->by;

	return l->rest_len || l->more;
}
