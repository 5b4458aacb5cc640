// SPDX-License-Identifier: GPL-2.0
/*
 * send.c - FFRIO_SEND and FFRIO_FLUSH. A message goes in blocks; its sender asks for receive buffers some
 * blocks ahead, and for each that is granted takes a send buffer, copies and lets DMA begin, which
 * runs while the next block is copied.
 *
 * Long messages go without the copy (FFRIO_PINNED, zero_copy): after the grant a block's pages are pinned
 * instead, until the block is over or will not be moved any more. What is pinned has a place in the lane,
 * so there is little of it, and not for long. Such a call ends when the file has no pin: as soon as its last
 * block is over, or, if the message is given up, as soon as no transfer of it is under way.
 *
 * Tests: vm/ffrio.sh
 */
#include <linux/crc32c.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "ffrio_int.h"

struct sending {
	struct ffrio_file *file;
	struct ffrio_port *port;
	const char __user *from;
	u64 length, asked, done; /* bytes */
	bool first, more, nonblock, pinned;
	struct list_head blocks; /* asked for, and not copied */
	unsigned int count;
	u32 block; /* bytes, here and at the peer */
};

static u32 next_length(const struct sending *s)
{
	return min_t(u64, s->length - s->asked, s->block);
}

static bool all_asked(const struct sending *s)
{
	return s->asked == s->length;
}

static int copy(struct sending *s, struct ffrio_block *b)
{
	void *to = ffrio_smb_memory(s->port, b->smb) + FFRIO_HEADER_SIZE;

	if (copy_from_user(to, s->from + s->done, b->length))
		return -EFAULT;
	/* what rounding adds is no one's memory */
	memset(to + b->length, 0, round_up(b->length, 8) - b->length);
	b->checksum = READ_ONCE(ffrio_checksum);
	if (b->checksum)
		b->crc = crc32c(~0, to, round_up(b->length, 8));
	return 0;
}

/* false: the memory can't be pinned, or not now. The block shows the pin when it is complete. */
static bool pin(struct sending *s, struct ffrio_block *b)
{
	struct ffrio_pin *p = ffrio_pin_new(s->port, s->from + s->done, b->length);

	if (IS_ERR(p))
		return false;
	b->checksum = READ_ONCE(ffrio_checksum);
	if (b->checksum)
		b->crc = ffrio_pin_crc(p, ~0);
	spin_lock_bh(&s->port->lock);
	b->pin = p;
	s->file->pins++;
	spin_unlock_bh(&s->port->lock);
	return true;
}

/* Gives a block its data, in the program's pages or in a send buffer. */
static int fill(struct sending *s, struct ffrio_block *b)
{
	int smb;

	if (s->pinned && pin(s, b))
		return 0;
	smb = ffrio_smb_get(s->port, true);
	if (smb < 0)
		return smb;
	spin_lock_bh(&s->port->lock);
	/* one that is over does not look at it any more */
	b->smb = smb;
	spin_unlock_bh(&s->port->lock);
	return copy(s, b);
}

/* Asks for one more block. With its data already copied if it has a send buffer. */
static int ask(struct sending *s, struct ffrio_block *b)
{
	u32 length = b->length; /* it may be over, and gone, before this returns */
	int ret;

	b->tx.first = s->first;
	b->tx.last = s->asked + length == s->length && !s->more;
	ffrio_enter(s->port);
	ret = ffrio_block_add(s->port, s->file, b);
	ffrio_leave(s->port);
	if (ret)
		return ret;
	s->first = false;
	s->asked += length;
	return 0;
}

/* Call with port->lock held: ffrio_block_add() has refused it. */
static void drop_block(struct ffrio_port *port, struct ffrio_block *b)
{
	ffrio_enter(port);
	list_del_init(&b->mine);
	ffrio_block_unpin(port, b);
	if (b->smb >= 0)
		ffrio_smb_put(port, b->smb);
	ffrio_leave(port);
	kfree(b);
}

static int ask_ahead(struct sending *s)
{
	bool early = READ_ONCE(ffrio_early_request);
	unsigned int most = early ? min(READ_ONCE(ffrio_ahead), 64U) + 1 : 1;
	bool empty = s->asked == 0 && s->length == 0 && s->first && !s->more;

	while (s->count < most && (s->asked < s->length || empty)) {
		struct ffrio_block *b = ffrio_block_new(s->file, next_length(s));
		int ret;

		if (!b)
			return -ENOMEM;
		b->watched = true;
		ret = early ? 0 : fill(s, b);
		if (!ret)
			ret = ask(s, b);
		if (ret) {
			drop_block(s->port, b);
			return ret;
		}
		list_add_tail(&b->mine, &s->blocks);
		s->count++;
		empty = false;
	}
	return 0;
}

/* Call with port->lock held. A block that the sender has watched to its end. */
static void free_over(struct ffrio_port *port, struct ffrio_block *b)
{
	ffrio_block_unpin(port, b);
	if (b->smb >= 0)
		ffrio_smb_put(port, b->smb);
	kfree(b);
}

/* The sender has done its part of a block; it may be over already. */
static int let_go(struct sending *s, struct ffrio_block *b)
{
	int ret = 0;

	list_del_init(&b->mine);
	s->count--;
	ffrio_enter(s->port);
	b->watched = false;
	if (b->over) {
		ret = b->result;
		free_over(s->port, b);
	} else {
		ffrio_tx_ready(&s->port->proto, &b->tx);
	}
	ffrio_leave(s->port);
	return ret;
}

static int one_block(struct sending *s)
{
	struct ffrio_block *b;
	u32 length;
	int ret;

	ret = ask_ahead(s);
	if (ret)
		return ret;
	b = list_first_entry(&s->blocks, struct ffrio_block, mine);
	if (ffrio_signal_wait(&b->signal))
		return -EINTR;
	if (b->smb < 0 && !READ_ONCE(b->pin) && !READ_ONCE(b->over)) {
		ret = fill(s, b);
		if (ret)
			return ret;
	}
	length = b->length;
	ret = let_go(s, b);
	if (!ret)
		s->done += length;
	return ret;
}

static bool none_pinned(struct ffrio_file *file)
{
	bool none;

	spin_lock_bh(&file->port->lock);
	none = !file->pins;
	spin_unlock_bh(&file->port->lock);
	return none;
}

/*
 * What was asked for and not begun: the message is given up. Returns when its pages are read no more; a transfer
 * ends in bounded time, so this waits for it whatever signals come.
 */
static void give_up(struct sending *s, int error)
{
	struct ffrio_block *b, *next;

	ffrio_enter(s->port);
	/* what its blocks will say is said now */
	s->file->told = s->file->message;
	ffrio_message_end(s->port, s->file, error);
	list_for_each_entry_safe(b, next, &s->blocks, mine)
	{
		list_del_init(&b->mine);
		b->watched = false;
		if (b->over)
			free_over(s->port, b);
	}
	list_for_each_entry(b, &s->port->blocks,
			    node) if (b->file == s->file && b->tx.state == FFRIO_TX_CANCELLED)
		ffrio_block_unpin(s->port, b);
	ffrio_leave(s->port);
	wait_event(s->file->wait, none_pinned(s->file));
}

/* The receiver has all that is in the program's pages, or the message has failed. */
static int await_pins(struct sending *s)
{
	struct ffrio_file *file = s->file;
	int ret;

	if (wait_event_interruptible(file->wait, none_pinned(file)))
		return -EINTR;
	spin_lock_bh(&s->port->lock);
	ret = file->failed ? -ECONNABORTED : 0;
	spin_unlock_bh(&s->port->lock);
	return ret;
}

/* Of callers that can't wait: a send buffer, the data, and no more than a quarter of all without a grant. */
static int one_at_once(struct sending *s)
{
	struct ffrio_port *port = s->port;
	struct ffrio_block *b = ffrio_block_new(s->file, next_length(s));
	int ret;

	if (!b)
		return -ENOMEM;
	spin_lock_bh(&port->lock);
	if (port->smb_ungranted < port->smbs / 4)
		b->smb = ffrio_smb_take(port);
	if (b->smb >= 0) {
		b->ungranted = true;
		port->smb_ungranted++;
	}
	spin_unlock_bh(&port->lock);
	ret = b->smb < 0 ? -EAGAIN : copy(s, b);
	b->tx.ready = 1;
	if (!ret)
		ret = ask(s, b);
	if (!ret) {
		s->done = s->asked;
		return 0;
	}
	spin_lock_bh(&port->lock);
	ffrio_block_granted_now(port, b);
	spin_unlock_bh(&port->lock);
	drop_block(port, b);
	return ret;
}

/* Call with port->lock held. Why the open message failed, which is told now. */
static int why_failed(struct ffrio_file *file, int otherwise)
{
	int error = file->error ?: otherwise;

	file->error = 0;
	return error;
}

/* 1: up; 0: not yet; or -errno. */
static int peer_state(struct sending *s)
{
	struct ffrio_port *port = s->port;
	struct ffrio_peer *peer;
	int ret = 0;

	spin_lock_bh(&port->lock);
	peer = ffrio_peer_find(&port->proto, s->file->destid);
	if (port->gone)
		ret = -ENODEV;
	else if (!peer || peer->state == FFRIO_PEER_NONE)
		ret = -EHOSTUNREACH;
	else if (peer->state == FFRIO_PEER_UP)
		ret = 1;
	if (ret == 1)
		s->block = min(ffrio_block_size, peer->block);
	spin_unlock_bh(&port->lock);
	return ret;
}

/* The peer's answer to our hello, which says how long a block may be. */
static int await_peer(struct sending *s)
{
	struct ffrio_port *port = s->port;
	struct ffrio_peer *peer;
	int ret = 0;

	ffrio_enter(port);
	peer = port->gone ? NULL : ffrio_peer_get(&port->proto, s->file->destid);
	if (!peer)
		ret = port->gone ? -ENODEV : -ENOBUFS;
	/* a message that is open ends with the peer that it was begun with */
	else if (s->first)
		ffrio_peer_hello(&port->proto, peer);
	ffrio_leave(port);
	if (!ret && wait_event_interruptible(port->flow_wait, (ret = peer_state(s))))
		ret = -EINTR;
	if (ret > 0)
		return 0;
	spin_lock_bh(&port->lock);
	s->file->told = s->file->message;
	ffrio_message_end(port, s->file, ret);
	spin_unlock_bh(&port->lock);
	return ret;
}

static long send_blocks(struct sending *s)
{
	struct ffrio_file *file = s->file;
	int ret = 0;

	/* an empty message is a block, too */
	while (!ret && (!all_asked(s) || s->count || (s->first && !s->length)))
		ret = s->nonblock ? one_at_once(s) : one_block(s);
	if (!ret && s->pinned)
		ret = await_pins(s);
	if (ret == -EAGAIN) {
		spin_lock_bh(&s->port->lock);
		if (s->first)
			ffrio_way_end(s->port, file); /* nothing of it is on its way */
		spin_unlock_bh(&s->port->lock);
		return s->done ? 0 : -EAGAIN;
	}
	if (ret) {
		give_up(s, ret);
		spin_lock_bh(&s->port->lock);
		ret = ret == -EFAULT || ret == -EINTR ? ret : why_failed(file, ret);
		spin_unlock_bh(&s->port->lock);
		return ret;
	}
	spin_lock_bh(&s->port->lock);
	if (!s->more && file->open)
		ffrio_way_end(s->port, file);
	spin_unlock_bh(&s->port->lock);
	return 0;
}

/* Whether a call sends from the program's pages. */
static bool wants_pages(const struct ffrio_send *u, bool nonblock)
{
	unsigned int least = READ_ONCE(ffrio_zero_copy);

	if (u->flags & FFRIO_PINNED)
		return true;
	return !nonblock && !(u->flags & FFRIO_COPY) && least && u->length >= least;
}

long ffrio_send(struct file *filp, struct ffrio_send *u)
{
	struct ffrio_file *file = filp->private_data;
	struct sending s = {
		.file = file,
		.port = file->port,
		.from = u64_to_user_ptr(u->address),
		.length = u->length,
		.more = u->flags & FFRIO_MORE,
		.nonblock = ffrio_nonblock(filp),
		.block = ffrio_block_size,
	};
	long ret;

	u->done = 0;
	if (u->flags & ~(FFRIO_MORE | FFRIO_SYNC | FFRIO_PINNED | FFRIO_COPY) || u->reserved ||
	    u->length > 1ULL << 40)
		return -EINVAL;
	if ((s.more && !s.length) || (s.nonblock && u->flags & (FFRIO_SYNC | FFRIO_PINNED)) ||
	    (u->flags & FFRIO_PINNED && u->flags & FFRIO_COPY))
		return -EINVAL;
	s.pinned = wants_pages(u, s.nonblock);
	INIT_LIST_HEAD(&s.blocks);
	if (s.nonblock) {
		if (!mutex_trylock(&file->tx_mutex))
			return -EAGAIN;
	} else if (mutex_lock_interruptible(&file->tx_mutex)) {
		return -EINTR;
	}
	s.first = !file->open;
	/* an open message ends with a byte at least */
	if (!s.length && !s.first)
		ret = -EINVAL;
	else
		ret = ffrio_way_begin(file, u->destid, u->endpoint, !s.nonblock);
	if (!ret && !s.nonblock)
		ret = await_peer(&s);
	if (!ret)
		ret = send_blocks(&s);
	u->done = s.done;
	mutex_unlock(&file->tx_mutex);
	if (!ret && (s.pinned || u->flags & FFRIO_SYNC) && s.done == s.length)
		ret = ffrio_flush(filp);
	return ret;
}

static bool all_sent(struct ffrio_file *file)
{
	bool none;

	spin_lock_bh(&file->port->lock);
	none = !file->pending || file->port->gone;
	spin_unlock_bh(&file->port->lock);
	return none;
}

long ffrio_flush(struct file *filp)
{
	struct ffrio_file *file = filp->private_data;
	int error;

	if (!all_sent(file)) {
		if (ffrio_nonblock(filp))
			return -EAGAIN;
		if (wait_event_interruptible(file->wait, all_sent(file)))
			return -EINTR;
	}
	spin_lock_bh(&file->port->lock);
	error = file->error;
	file->error = 0;
	spin_unlock_bh(&file->port->lock);
	return error;
}
