// SPDX-License-Identifier: GPL-2.0
/*
 * recv.c - receiving: blocks out of the endpoint's queue, copied or in place. What is in a receive buffer
 * is hostile: any node can write there at any time. Its header is copied, checked, and what the copy said is
 * used from then on.
 *
 * Tests: vm/ffrio.sh
 */
#include <linux/crc32c.h>
#include <linux/uaccess.h>

#include "ffrio_int.h"

/* Call with port->lock held: is this the block that the peer says is done? */
int ffrio_check_block(struct ffrio_port *port, u16 buffer, u32 number)
{
	struct ffrio_buffer *b = &port->proto.buffer[buffer];
	const struct ffrio_peer *peer = &port->proto.peer[b->peer];
	const void *memory = ffrio_rmb_memory(port, buffer);
	struct ffrio_header h;
	u32 crc, length;

	memcpy(&h, memory, sizeof(h));
	length = le32_to_cpu(h.length);
	crc = le32_to_cpu(h.crc);
	if (le32_to_cpu(h.magic) != FFRIO_MAGIC || le32_to_cpu(h.number) != number ||
	    le16_to_cpu(h.destid) != peer->destid || h.incarnation != peer->known ||
	    h.target != b->endpoint || h.flags != b->flags || h.source >= FFRIO_ENDPOINTS ||
	    length > port->proto.block)
		return -EBADMSG;
	if (crc) {
		h.crc = 0;
		crc ^= crc32c(crc32c(~0, memory + sizeof(h), round_up(length, 8)), &h, sizeof(h)) ?:
												    1;
		if (crc)
			return -EBADMSG;
	}
	b->length = length;
	b->source = h.source;
	port->proto.stats[FFRIO_STAT_bytes_received] += length;
	return 0;
}

/* Takes the next buffer, which is the file's; -EAGAIN, -ECONNRESET with whose, -ENODEV. */
static int take(struct ffrio_file *file, u16 *destid)
{
	struct ffrio_port *port = file->port;
	int buffer;

	ffrio_enter(port);
	buffer = ffrio_rx_take(&port->proto, file->endpoint, destid);
	if (buffer == -EAGAIN && port->gone)
		buffer = -ENODEV;
	ffrio_leave(port);
	return buffer;
}

static void give(struct ffrio_file *file, u16 buffer)
{
	ffrio_enter(file->port);
	ffrio_rx_give_back(&file->port->proto, buffer);
	ffrio_leave(file->port);
}

static bool pending(struct ffrio_file *file)
{
	struct ffrio_port *port = file->port;
	bool is;

	spin_lock_bh(&port->lock);
	is = port->gone || ffrio_rx_pending(&port->proto, file->endpoint);
	spin_unlock_bh(&port->lock);
	return is;
}

/* Call with rx_mutex held. The next buffer; waits if it may. */
static int next(struct ffrio_file *file, bool wait, u16 *destid)
{
	int buffer;

	while ((buffer = take(file, destid)) == -EAGAIN && wait)
		if (wait_event_interruptible(file->wait, pending(file)))
			return -EINTR;
	return buffer;
}

/* ---- by copy ------------------------------------------------------------------------------------- */

/* Call with rx_mutex held. Copies of the buffer that is being read. */
static int copy_some(struct ffrio_file *file, struct ffrio_recv *r)
{
	const struct ffrio_buffer *b = &file->port->proto.buffer[file->rx_buffer];
	const void *data = ffrio_rmb_memory(file->port, file->rx_buffer) + FFRIO_HEADER_SIZE;
	u32 n = min_t(u64, r->length - r->done, b->length - file->rx_offset);

	if (copy_to_user(u64_to_user_ptr(r->address) + r->done, data + file->rx_offset, n))
		return -EFAULT;
	if (!file->rx_offset && b->flags & FFRIO_FIRST)
		r->flags |= FFRIO_FIRST;
	r->destid = b->destid;
	r->endpoint = b->source;
	r->done += n;
	file->rx_offset += n;
	if (file->rx_offset < b->length)
		return 0;
	if (b->flags & FFRIO_LAST)
		r->flags |= FFRIO_LAST;
	give(file, file->rx_buffer);
	file->rx_buffer = FFRIO_NO_BUFFER;
	return 0;
}

static int rx_lock(struct file *filp)
{
	struct ffrio_file *file = filp->private_data;

	if (ffrio_nonblock(filp))
		return mutex_trylock(&file->rx_mutex) ? 0 : -EAGAIN;
	return mutex_lock_interruptible(&file->rx_mutex) ? -EINTR : 0;
}

/* Part of a message is an answer, too: an error, or that there is no more now, is the next call's. */
static int recv_locked(struct file *filp, struct ffrio_recv *r)
{
	struct ffrio_file *file = filp->private_data;
	u16 destid = 0;
	int ret;

	do {
		if (file->rx_buffer < 0) {
			ret = next(file, !ffrio_nonblock(filp), &destid);
			if (ret == -ECONNRESET)
				r->destid = destid;
			if (ret < 0)
				return r->done && ret != -ECONNRESET ? 0 : ret;
			file->rx_buffer = ret;
			file->rx_offset = 0;
		}
		ret = copy_some(file, r);
		if (ret)
			return ret;
	} while (r->done < r->length && !(r->flags & FFRIO_LAST));
	return 0;
}

long ffrio_recv(struct file *filp, struct ffrio_recv *r)
{
	struct ffrio_file *file = filp->private_data;
	long ret;

	r->done = 0;
	r->flags = 0;
	ret = rx_lock(filp);
	if (ret)
		return ret;
	ret = recv_locked(filp, r);
	mutex_unlock(&file->rx_mutex);
	return ret;
}

/* ---- in place ------------------------------------------------------------------------------------ */

long ffrio_take(struct file *filp, struct ffrio_take *t)
{
	struct ffrio_file *file = filp->private_data;
	const struct ffrio_buffer *b;
	u16 destid = 0;
	int buffer;

	buffer = rx_lock(filp);
	if (buffer)
		return buffer;
	*t = (struct ffrio_take){};
	buffer = file->rx_buffer >= 0 ? -EBUSY : next(file, !ffrio_nonblock(filp), &destid);
	if (buffer >= 0) {
		set_bit(buffer, file->taken);
		b = &file->port->proto.buffer[buffer];
		*t = (struct ffrio_take){
			.buffer = buffer,
			.length = b->length,
			.destid = b->destid,
			.endpoint = b->source,
			.flags = b->flags,
		};
	} else if (buffer == -ECONNRESET) {
		t->destid = destid;
	}
	mutex_unlock(&file->rx_mutex);
	return min(buffer, 0);
}

long ffrio_give_back(struct file *filp, const struct ffrio_buf *b)
{
	struct ffrio_file *file = filp->private_data;

	if (b->buffer >= FFRIO_BUFFERS || !test_and_clear_bit(b->buffer, file->taken))
		return -EINVAL;
	give(file, b->buffer);
	return 0;
}

/* ---- close --------------------------------------------------------------------------------------- */

void ffrio_recv_close(struct ffrio_file *file)
{
	struct ffrio_port *port = file->port;
	u32 i;

	ffrio_enter(port);
	if (file->rx_buffer >= 0)
		ffrio_rx_give_back(&port->proto, file->rx_buffer);
	for_each_set_bit(i, file->taken, FFRIO_BUFFERS) ffrio_rx_give_back(&port->proto, i);
	port->endpoint[file->endpoint] = NULL;
	ffrio_rx_unbind(&port->proto, file->endpoint);
	ffrio_leave(port);
}
