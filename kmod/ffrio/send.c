// SPDX-License-Identifier: GPL-2.0
/*
 * send.c - send buffers and sending. A message goes in blocks; its sender asks for receive buffers some
 * blocks ahead, and for each that is granted takes a send buffer, copies and lets DMA begin, which
 * runs while the next block is copied.
 *
 * A send buffer is taken after the grant: from then on each step ends in bounded time, so whoever
 * waits for one gets one, whatever endpoints nobody reads. Callers that must not wait (O_NONBLOCK) put
 * the data first: of all send buffers a quarter at most are theirs while they have no grant. Another
 * half at most are programs' own (FFRIO_ALLOC), so a quarter is left for those who wait.
 * With early_request=0, as before the paper's change, all take one first, or pin their pages first.
 *
 * Long messages go without the copy (FFRIO_PINNED, zero_copy): after the grant a block's pages are pinned
 * instead, until the block is over or will not be moved any more. What is pinned has a place in the lane,
 * so there is little of it, and not for long. Such a call ends when the file has no pin: as soon as its last
 * block is over, or, if the message is given up, as soon as no transfer of it is under way.
 *
 * Who sends to an endpoint owns the way there from the first block to the last: blocks of two messages
 * do not mix.
 */
#include <linux/crc32c.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "ffrio_int.h"

/* ---- signals ------------------------------------------------------------------------------------- */

static void signal_init(struct ffrio_signal *s)
{
	init_completion(&s->completion);
	sema_init(&s->semaphore, 0);
}

static void signal_raise(struct ffrio_signal *s)
{
	complete(&s->completion);
	up(&s->semaphore);
}

static int signal_wait(struct ffrio_signal *s)
{
	if (ffrio_use_semaphore)
		return down_interruptible(&s->semaphore);
	return wait_for_completion_interruptible(&s->completion);
}

/* ---- send buffers -------------------------------------------------------------------------------- */

/* Call with port->lock held. */
static int smb_take(struct ffrio_port *port)
{
	return port->smb_free ? port->smb_stack[--port->smb_free] : FFRIO_NO_BUFFER;
}

/* Call with port->lock held. */
void ffrio_smb_put(struct ffrio_port *port, int buffer)
{
	port->smb_stack[port->smb_free++] = buffer;
	wake_up(&port->smb_wait);
}

static bool smb_try(struct ffrio_port *port, int *buffer)
{
	spin_lock_bh(&port->lock);
	*buffer = port->gone ? -ENODEV : smb_take(port);
	spin_unlock_bh(&port->lock);
	return *buffer != FFRIO_NO_BUFFER;
}

/* A buffer, or -errno; those who wait get theirs in order. */
int ffrio_smb_get(struct ffrio_port *port, bool wait)
{
	int buffer, ret;

	if (smb_try(port, &buffer))
		return buffer;
	if (!wait)
		return -EAGAIN;
	spin_lock_bh(&port->lock);
	ffrio_stat(&port->proto, smb_waits);
	spin_unlock_bh(&port->lock);
	ret = wait_event_interruptible_exclusive(port->smb_wait, smb_try(port, &buffer));
	return ret ? -EINTR : buffer;
}

/* ---- blocks -------------------------------------------------------------------------------------- */

static struct ffrio_block *block_new(struct ffrio_file *file, u32 length)
{
	struct ffrio_block *b = kzalloc(sizeof(*b), GFP_KERNEL);

	if (!b)
		return NULL;
	b->file = file;
	b->length = length;
	b->tx.length = length;
	b->smb = FFRIO_NO_BUFFER;
	b->message = file->message;
	signal_init(&b->signal);
	INIT_LIST_HEAD(&b->mine);
	INIT_LIST_HEAD(&b->node);
	return b;
}

/* Call with port->lock held. */
static void unpin(struct ffrio_port *port, struct ffrio_block *b)
{
	if (!b->pin)
		return;
	ffrio_pin_free(port, b->pin);
	b->pin = NULL;
	/* its call waits for this, so the file is there */
	if (!--b->file->pins)
		wake_up(&b->file->wait);
}

/* Call with port->lock held. */
static void granted_now(struct ffrio_port *port, struct ffrio_block *b)
{
	if (b->ungranted)
		port->smb_ungranted--;
	b->ungranted = false;
}

void ffrio_block_granted(struct ffrio_block *b)
{
	b->granted = true;
	signal_raise(&b->signal);
}

/* Call with port->lock held; the end of the transfer. */
static void block_moved(struct ffrio_job *job, int error)
{
	struct ffrio_block *b = container_of(job, struct ffrio_block, job);

	/* it is not moved again */
	if (b->tx.cancel)
		unpin(job->port, b);
	ffrio_tx_moved(&job->port->proto, &b->tx, error);
}

static struct ffrio_port *block_port(struct ffrio_block *b)
{
	return b->job.port;
}

/* The header is complete when the block has its number; the data has been there before. */
void ffrio_block_move(struct ffrio_block *b)
{
	struct ffrio_port *port = block_port(b);
	struct ffrio_peer *peer = b->tx.peer;
	struct ffrio_header *h = b->pin ? (void *)b->pin->header : ffrio_smb_memory(port, b->smb);

	granted_now(port, b);
	memset(h, 0, sizeof(*h));
	h->magic = cpu_to_le32(FFRIO_MAGIC);
	h->length = cpu_to_le32(b->length);
	h->number = cpu_to_le32(b->tx.number);
	h->destid = cpu_to_le16(port->destid);
	h->incarnation = b->tx.incarnation;
	h->source = b->cookie >> 56;
	h->target = b->tx.endpoint;
	h->flags = (b->tx.first ? FFRIO_FIRST : 0) | (b->tx.last ? FFRIO_LAST : 0);
	if (b->checksum)
		h->crc = cpu_to_le32(crc32c(b->crc, h, sizeof(*h)) ?: 1);
	if (b->pin) {
		ffrio_pin_sync(port, b->pin);
		b->job.list = b->pin->list;
		b->job.entries = b->pin->mapped;
	} else {
		b->job.local = port->smb.dma + (dma_addr_t)b->smb * port->stride;
	}
	b->job.rio = peer->address + (u64)b->tx.buffer * ffrio_stride(peer->block);
	b->job.length = sizeof(*h) + round_up(b->length, 8);
	b->job.destid = peer->destid;
	b->job.type = RDW_ALL_NWRITE;
	b->job.done = block_moved;
	ffrio_dma_start(port, &b->job);
}

/* The message that is open at a file, or was, has failed. */
static void message_failed(struct ffrio_file *file, struct ffrio_block *b, int result)
{
	if (!file->error && file->told != b->message)
		file->error = result;
	if (file->open && file->message == b->message)
		file->failed = true;
}

void ffrio_block_sent(struct ffrio_block *b, int result)
{
	struct ffrio_port *port = block_port(b);
	struct ffrio_file *file = b->file;

	granted_now(port, b);
	list_del_init(&b->node);
	b->over = true;
	b->result = result;
	if (!result) {
		port->proto.stats[FFRIO_STAT_bytes_sent] += b->length;
		port->proto.stats[FFRIO_STAT_blocks_pinned] += !!b->pin;
	}
	unpin(port, b);
	/* of a watched block the sender may be copying there */
	if (b->smb >= 0 && !b->watched && (!b->posted || !file)) {
		ffrio_smb_put(port, b->smb);
		b->smb = FFRIO_NO_BUFFER;
	}
	if (file && b->posted) {
		file->posted--;
		list_add_tail(&b->mine, &file->reaped);
		if (result && file->open && file->message == b->message)
			file->failed = true;
	} else if (file) {
		file->pending--;
		if (result)
			message_failed(file, b, result);
	}
	if (file)
		wake_up_interruptible(&file->wait);
	signal_raise(&b->signal);
	if (!b->watched && !(file && b->posted))
		kfree(b);
}

/* Call with port->lock held. To the protocol, by way of a hello if the peer is not known. */
static int block_add(struct ffrio_port *port, struct ffrio_file *file, struct ffrio_block *b)
{
	struct ffrio_peer *peer;
	int ret;

	if (port->gone)
		return -ENODEV;
	if (file->failed)
		return -ECONNABORTED;
	peer = ffrio_peer_get(&port->proto, file->destid);
	if (!peer)
		return -ENOBUFS;
	if (peer->state == FFRIO_PEER_NONE && !b->tx.first)
		return -ECONNRESET;
	ffrio_peer_hello(&port->proto, peer);
	if (peer->state == FFRIO_PEER_NONE) /* from here on it is the protocol's */
		return -EHOSTUNREACH;
	if (b->length > peer->block && peer->state == FFRIO_PEER_UP)
		return -EMSGSIZE;
	b->job.port = port;
	b->tx.endpoint = file->target;
	/* the sender's endpoint, for the header */
	b->cookie = (b->cookie & ~(0xffULL << 56)) | (u64)file->endpoint << 56;
	list_add_tail(&b->node, &port->blocks);
	if (b->posted)
		file->posted++;
	else
		file->pending++;
	if (b->smb >= 0 && !b->ungranted && !b->posted) {
		b->ungranted = true;
		port->smb_ungranted++;
	}
	ret = ffrio_tx_add(&port->proto, peer, &b->tx);
	return ret;
}

/* ---- the way to an endpoint ---------------------------------------------------------------------- */

/* Call with port->lock held. */
static bool way_is_free(struct ffrio_port *port, struct ffrio_file *file, u16 destid, u8 endpoint)
{
	struct ffrio_file *other;

	list_for_each_entry(other, &port->files, node) if (other != file && other->open &&
							   other->destid == destid &&
							   other->target == endpoint) return false;
	return true;
}

static bool way_try(struct ffrio_port *port, struct ffrio_file *file, u16 destid, u8 endpoint)
{
	bool free;

	spin_lock_bh(&port->lock);
	free = port->gone || way_is_free(port, file, destid, endpoint);
	if (free && !port->gone) {
		file->open = true;
		file->failed = false;
		file->destid = destid;
		file->target = endpoint;
		file->message++;
	}
	spin_unlock_bh(&port->lock);
	return free;
}

/* Call with port->lock held. */
static void way_end(struct ffrio_port *port, struct ffrio_file *file)
{
	file->open = false;
	wake_up_interruptible(&port->flow_wait);
}

/* Call with tx_mutex held. A message begins, or the open one goes on. */
static int way_begin(struct ffrio_file *file, u32 destid, u32 endpoint, bool wait)
{
	struct ffrio_port *port = file->port;

	if (destid > 0xffff || endpoint >= FFRIO_ENDPOINTS)
		return -EINVAL;
	if (file->open)
		return file->destid == destid && file->target == endpoint ? 0 : -EINVAL;
	if (!way_try(port, file, destid, endpoint)) {
		if (!wait)
			return -EAGAIN;
		if (wait_event_interruptible(port->flow_wait,
					     way_try(port, file, destid, endpoint)))
			return -EINTR;
	}
	return file->open ? 0 : -ENODEV;
}

/* Call with port->lock held. The open message, if there is one, will not go on. */
static void message_end(struct ffrio_port *port, struct ffrio_file *file, int error)
{
	struct ffrio_block *b, *last = NULL;
	struct ffrio_peer *peer;

	if (!file->open)
		return;
	list_for_each_entry(b, &port->blocks,
			    node) if (b->file == file && b->message == file->message) last = b;
	if (last) {
		ffrio_tx_cancel(&port->proto, &last->tx, error);
	} else if (!port->gone) {
		peer = ffrio_peer_find(&port->proto, file->destid);
		if (peer)
			ffrio_tx_abandon(&port->proto, peer, file->target);
	}
	way_end(port, file);
}

/* ---- FFRIO_SEND ---------------------------------------------------------------------------------- */

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
	ret = block_add(s->port, s->file, b);
	ffrio_leave(s->port);
	if (ret)
		return ret;
	s->first = false;
	s->asked += length;
	return 0;
}

/* Call with port->lock held: block_add() has refused it. */
static void drop_block(struct ffrio_port *port, struct ffrio_block *b)
{
	ffrio_enter(port);
	list_del_init(&b->mine);
	unpin(port, b);
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
		struct ffrio_block *b = block_new(s->file, next_length(s));
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
	unpin(port, b);
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
	if (signal_wait(&b->signal))
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
	message_end(s->port, s->file, error);
	list_for_each_entry_safe(b, next, &s->blocks, mine)
	{
		list_del_init(&b->mine);
		b->watched = false;
		if (b->over)
			free_over(s->port, b);
	}
	list_for_each_entry(b, &s->port->blocks,
			    node) if (b->file == s->file && b->tx.state == FFRIO_TX_CANCELLED)
		unpin(s->port, b);
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
	struct ffrio_block *b = block_new(s->file, next_length(s));
	int ret;

	if (!b)
		return -ENOMEM;
	spin_lock_bh(&port->lock);
	if (port->smb_ungranted < port->smbs / 4)
		b->smb = smb_take(port);
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
	granted_now(port, b);
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
	message_end(port, s->file, ret);
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
			way_end(s->port, file); /* nothing of it is on its way */
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
		way_end(s->port, file);
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
		ret = way_begin(file, u->destid, u->endpoint, !s.nonblock);
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

/* ---- without a copy ------------------------------------------------------------------------------ */

long ffrio_alloc(struct file *filp, struct ffrio_buf *b)
{
	struct ffrio_file *file = filp->private_data;
	struct ffrio_port *port = file->port;
	int smb = -ENOBUFS;

	spin_lock_bh(&port->lock);
	if (file->owned_count < max(port->smbs / 4, 1)) {
		smb = port->gone		       ? -ENODEV :
		      port->smb_owned < port->smbs / 2 ? smb_take(port) :
							 FFRIO_NO_BUFFER;
		if (smb == FFRIO_NO_BUFFER)
			smb = -EAGAIN;
	}
	if (smb >= 0) {
		port->smb_owned++;
		set_bit(smb, file->owned);
		file->owned_count++;
	}
	spin_unlock_bh(&port->lock);
	if (smb < 0)
		return smb;
	*b = (struct ffrio_buf){ .buffer = smb };
	return 0;
}

/* Call with port->lock held. */
static bool is_idle(struct ffrio_file *file, u32 buffer)
{
	return buffer < file->port->smbs && test_bit(buffer, file->owned) &&
	       !test_bit(buffer, file->busy);
}

long ffrio_free(struct file *filp, const struct ffrio_buf *b)
{
	struct ffrio_file *file = filp->private_data;
	struct ffrio_port *port = file->port;
	long ret = -EINVAL;

	spin_lock_bh(&port->lock);
	if (is_idle(file, b->buffer)) {
		clear_bit(b->buffer, file->owned);
		file->owned_count--;
		port->smb_owned--;
		ffrio_smb_put(port, b->buffer);
		ret = 0;
	}
	spin_unlock_bh(&port->lock);
	return ret;
}

/* Call with tx_mutex held and the way begun. */
static int post_block(struct ffrio_file *file, const struct ffrio_post *post, struct ffrio_block *b)
{
	struct ffrio_port *port = file->port;
	int ret = -EINVAL;

	b->posted = true;
	b->smb = post->buffer;
	b->cookie = post->cookie;
	b->tx.ready = 1;
	b->tx.first = post->flags & FFRIO_FIRST;
	b->tx.last = post->flags & FFRIO_LAST;
	b->checksum = READ_ONCE(ffrio_checksum);
	if (b->checksum)
		b->crc = crc32c(~0, ffrio_smb_memory(port, b->smb) + FFRIO_HEADER_SIZE,
				round_up(b->length, 8));
	ffrio_enter(port);
	if (is_idle(file, post->buffer)) {
		set_bit(post->buffer, file->busy);
		ret = block_add(port, file, b);
		if (ret)
			clear_bit(post->buffer, file->busy);
	}
	if (ret == -ECONNABORTED || ret == -ECONNRESET || (!ret && post->flags & FFRIO_LAST))
		way_end(port, file);
	ffrio_leave(port);
	return ret;
}

long ffrio_post(struct file *filp, const struct ffrio_post *post)
{
	struct ffrio_file *file = filp->private_data;
	struct ffrio_block *b;
	bool first = post->flags & FFRIO_FIRST;
	long ret;

	if (post->length > ffrio_block_size || post->flags & ~(FFRIO_FIRST | FFRIO_LAST) ||
	    post->reserved || post->cookie >> 56 || post->buffer >= file->port->smbs)
		return -EINVAL;
	if (mutex_lock_interruptible(&file->tx_mutex))
		return -EINTR;
	ret = file->open == first ? -EINVAL : 0;
	b = ret ? NULL : block_new(file, post->length);
	if (!ret && !b)
		ret = -ENOMEM;
	if (!ret)
		ret = way_begin(file, post->destid, post->endpoint, !ffrio_nonblock(filp));
	if (!ret) {
		b->message = file->message;
		ret = post_block(file, post, b);
		if (ret && first) {
			spin_lock_bh(&file->port->lock);
			if (file->open)
				way_end(file->port, file);
			spin_unlock_bh(&file->port->lock);
		}
	}
	mutex_unlock(&file->tx_mutex);
	if (ret)
		kfree(b);
	return ret;
}

/* Call with port->lock held. */
static struct ffrio_block *next_reaped(struct ffrio_file *file)
{
	struct ffrio_block *b = list_first_entry_or_null(&file->reaped, struct ffrio_block, mine);

	if (b) {
		list_del_init(&b->mine);
		clear_bit(b->smb, file->busy);
	}
	return b;
}

static bool reap_try(struct ffrio_file *file, struct ffrio_block **b, bool *none)
{
	spin_lock_bh(&file->port->lock);
	*b = next_reaped(file);
	*none = !*b && !file->posted;
	spin_unlock_bh(&file->port->lock);
	return *b || *none;
}

/* ENODATA: nothing is under way. */
long ffrio_reap(struct file *filp, struct ffrio_reap *r)
{
	struct ffrio_file *file = filp->private_data;
	struct ffrio_block *b;
	bool none;

	if (!reap_try(file, &b, &none)) {
		if (ffrio_nonblock(filp))
			return -EAGAIN;
		if (wait_event_interruptible(file->wait, reap_try(file, &b, &none)))
			return -EINTR;
	}
	if (!b)
		return -ENODATA;
	*r = (struct ffrio_reap){ .cookie = b->cookie & ~(0xffULL << 56),
				  .buffer = b->smb,
				  .result = b->result };
	kfree(b);
	return 0;
}

/* ---- close --------------------------------------------------------------------------------------- */

/* What is under way goes on without the file; its open message does not. */
void ffrio_send_close(struct ffrio_file *file)
{
	struct ffrio_port *port = file->port;
	struct ffrio_block *b;
	u32 i;

	ffrio_enter(port);
	message_end(port, file, -ECANCELED);
	list_for_each_entry(b, &port->blocks, node) if (b->file == file)
	{
		/* its end gives the buffer back */
		if (b->posted)
			clear_bit(b->smb, file->owned);
		b->file = NULL;
	}
	port->smb_owned -= file->owned_count;
	while ((b = next_reaped(file)))
		kfree(b);
	for_each_set_bit(i, file->owned, FFRIO_BUFFERS) ffrio_smb_put(port, i);
	ffrio_leave(port);
}
