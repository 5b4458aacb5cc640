// SPDX-License-Identifier: GPL-2.0
/*
 * block.c - what a block on its way out is to this module, however its data comes: its send buffer or its pages, the
 * protocol's word of it, its transfer; and the way to an endpoint, which is one sender's at a time. send.c and post.c
 * call.
 *
 * A send buffer is taken after the grant: from then on each step ends in bounded time, so whoever
 * waits for one gets one, whatever endpoints nobody reads. Callers that must not wait (O_NONBLOCK) put
 * the data first: of all send buffers a quarter at most are theirs while they have no grant. Another
 * half at most are programs' own (FFRIO_ALLOC), so a quarter is left for those who wait.
 * With early_request=0, as before the paper's change, all take one first, or pin their pages first.
 *
 * Who sends to an endpoint owns the way there from the first block to the last: blocks of two messages
 * do not mix.
 *
 * Tests: vm/ffrio.sh
 */
#include <linux/crc32c.h>
#include <linux/slab.h>

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

int ffrio_signal_wait(struct ffrio_signal *s)
{
	if (ffrio_use_semaphore)
		return down_interruptible(&s->semaphore);
	return wait_for_completion_interruptible(&s->completion);
}

/* ---- send buffers -------------------------------------------------------------------------------- */

/* Call with port->lock held. */
int ffrio_smb_take(struct ffrio_port *port)
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
	*buffer = port->gone ? -ENODEV : ffrio_smb_take(port);
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

struct ffrio_block *ffrio_block_new(struct ffrio_file *file, u32 length)
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
void ffrio_block_unpin(struct ffrio_port *port, struct ffrio_block *b)
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
void ffrio_block_granted_now(struct ffrio_port *port, struct ffrio_block *b)
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
		ffrio_block_unpin(job->port, b);
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

	ffrio_block_granted_now(port, b);
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

	ffrio_block_granted_now(port, b);
	list_del_init(&b->node);
	b->over = true;
	b->result = result;
	if (!result) {
		port->proto.stats[FFRIO_STAT_bytes_sent] += b->length;
		port->proto.stats[FFRIO_STAT_blocks_pinned] += !!b->pin;
	}
	ffrio_block_unpin(port, b);
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
int ffrio_block_add(struct ffrio_port *port, struct ffrio_file *file, struct ffrio_block *b)
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
void ffrio_way_end(struct ffrio_port *port, struct ffrio_file *file)
{
	file->open = false;
	wake_up_interruptible(&port->flow_wait);
}

/* Call with tx_mutex held. A message begins, or the open one goes on. */
int ffrio_way_begin(struct ffrio_file *file, u32 destid, u32 endpoint, bool wait)
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
void ffrio_message_end(struct ffrio_port *port, struct ffrio_file *file, int error)
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
	ffrio_way_end(port, file);
}
