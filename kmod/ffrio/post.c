// SPDX-License-Identifier: GPL-2.0
/*
 * post.c - sending without a copy: send buffers that are a program's own, in which it puts a block's data
 * where it has mapped them (FFRIO_ALLOC, FFRIO_FREE), what it posts and gets back (FFRIO_POST, FFRIO_REAP); and a
 * file's end.
 *
 * Tests: vm/ffrio.sh
 */
#include <linux/crc32c.h>
#include <linux/slab.h>

#include "ffrio_int.h"

/* ---- send buffers of a program's own ------------------------------------------------------------- */

long ffrio_alloc(struct file *filp, struct ffrio_buf *b)
{
	struct ffrio_file *file = filp->private_data;
	struct ffrio_port *port = file->port;
	int smb = -ENOBUFS;

	spin_lock_bh(&port->lock);
	if (file->owned_count < max(port->smbs / 4, 1)) {
		smb = port->gone		       ? -ENODEV :
		      port->smb_owned < port->smbs / 2 ? ffrio_smb_take(port) :
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
		ret = ffrio_block_add(port, file, b);
		if (ret)
			clear_bit(post->buffer, file->busy);
	}
	if (ret == -ECONNABORTED || ret == -ECONNRESET || (!ret && post->flags & FFRIO_LAST))
		ffrio_way_end(port, file);
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
	b = ret ? NULL : ffrio_block_new(file, post->length);
	if (!ret && !b)
		ret = -ENOMEM;
	if (!ret)
		ret = ffrio_way_begin(file, post->destid, post->endpoint, !ffrio_nonblock(filp));
	if (!ret) {
		b->message = file->message;
		ret = post_block(file, post, b);
		if (ret && first) {
			spin_lock_bh(&file->port->lock);
			if (file->open)
				ffrio_way_end(file->port, file);
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
	ffrio_message_end(port, file, -ECANCELED);
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
