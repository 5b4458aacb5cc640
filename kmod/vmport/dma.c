// SPDX-License-Identifier: GPL-2.0
/*
 * dma.c - the DMA channels of a port: dmaengine slave channels, whose prep_slave_sg() takes a struct
 * rio_dma_ext, as the Tsi721's do. A channel has a thread from its request to its release. It takes
 * the descriptors in order, moves memory in pieces, and is done when the link would be.
 *
 * The kind of transfer: NREAD from the device; to it by wr_type NWRITE, NWRITE_R, or NWRITE with a
 * last NWRITE_R (the default). The kernel's interface knows no SWRITE: RDW_ALL_NWRITE goes as SWRITE
 * where address and length are multiples of 8, by the port's setting swrite. Without a response,
 * what the target refuses or does not get is not noticed.
 *
 * A piece is copied with the channel's lock held and the descriptor still active, so when
 * device_terminate_all() returns, no memory is touched any more. Callbacks come with softirqs off, and
 * from device_terminate_all() as well.
 *
 * Tests: vm/vmport.sh
 */
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "vmport_int.h"

#define PIECE	   16384u		 /* copied without a break */
#define AHEAD	   (300 * NSEC_PER_USEC) /* copied so long before the link is through with it */
#define INLINE_SGS 4
#define FAILED	   64 /* cookies that are remembered as failed */
#define REMOTE	   16 /* requests to another kernel without an answer yet */

struct piece {
	dma_addr_t local;
	u32 length;
};

struct descriptor {
	struct dma_async_tx_descriptor txd;
	struct list_head node;
	u16 target;
	u64 address;
	u64 length;
	enum vmport_type type; /* of all packets but a last NWRITE_R */
	bool answer_last;
	ktime_t submitted;
	u32 count;
	struct piece *pieces; /* few, or allocated */
	struct piece few[INLINE_SGS];
};

struct vmport_channel {
	struct dma_chan chan;
	struct vmport_port *port;
	struct task_struct *thread;
	spinlock_t lock;
	struct list_head free, queued, issued;
	struct descriptor *active;
	struct descriptor *descriptors;
	dma_cookie_t failed[FAILED];
	u32 failed_next;
	/* of the active descriptor, while it waits for another kernel */
	u16 gen;
	u32 outstanding;
	bool remote_failed;
	u8 buffer[VMPORT_FRAME_DATA];
};

static struct vmport_channel *to_channel(struct dma_chan *chan)
{
	return container_of(chan, struct vmport_channel, chan);
}

/* Packets of 256 bytes at most, none across a boundary of that. */
void vmport_count_packets(struct vmport_port *p, enum vmport_type type, u64 address, u32 length)
{
	u64 n = DIV_ROUND_UP((address & (VMPORT_PACKET - 1)) + length, VMPORT_PACKET);

	switch (type) {
	case VMPORT_NREAD:
		vmport_stat_add(p, nread_packets, n);
		break;
	case VMPORT_SWRITE:
		vmport_stat_add(p, swrite_packets, n);
		break;
	case VMPORT_NWRITE_R:
		vmport_stat_add(p, nwrite_r_packets, n);
		break;
	default:
		vmport_stat_add(p, nwrite_packets, n);
		break;
	}
}

/* ---- ends of a descriptor ------------------------------------------------------------------------ */

struct callback {
	dma_async_tx_callback plain;
	dma_async_tx_callback_result with_result;
	void *param;
	struct dmaengine_result result;
};

/* Call with the lock held. The descriptor may be used again after this. */
static struct callback retire(struct vmport_channel *c, struct descriptor *d,
			      enum dmaengine_tx_result result)
{
	struct callback cb = { .result = { .result = result } };
	struct dma_async_tx_descriptor *txd = &d->txd;

	if (txd->flags & DMA_PREP_INTERRUPT) {
		cb.plain = txd->callback;
		cb.with_result = txd->callback_result;
		cb.param = txd->callback_param;
	}
	if (result != DMA_TRANS_NOERROR) {
		cb.result.residue = min_t(u64, d->length, U32_MAX);
		c->failed[c->failed_next++ % FAILED] = txd->cookie;
	}
	c->chan.completed_cookie = txd->cookie;
	txd->cookie = 0;
	atomic_dec(&c->port->transfers);
	if (d->pieces != d->few)
		kfree(d->pieces);
	d->pieces = d->few;
	list_add_tail(&d->node, &c->free);
	return cb;
}

static void call(const struct callback *cb)
{
	local_bh_disable();
	if (cb->with_result)
		cb->with_result(cb->param, &cb->result);
	else if (cb->plain)
		cb->plain(cb->param);
	local_bh_enable();
}

static void finish(struct vmport_channel *c, struct descriptor *d, enum dmaengine_tx_result result)
{
	struct callback cb;
	bool mine;

	spin_lock_bh(&c->lock);
	mine = c->active == d;
	if (mine) {
		c->active = NULL;
		cb = retire(c, d, result);
	}
	spin_unlock_bh(&c->lock);
	if (!mine)
		return;
	if (result == DMA_TRANS_NOERROR)
		vmport_stat(c->port, dma_transfers);
	else
		vmport_stat(c->port, dma_errors);
	call(&cb);
}

/* ---- the thread ---------------------------------------------------------------------------------- */

static bool is_active(struct vmport_channel *c, struct descriptor *d)
{
	return READ_ONCE(c->active) == d && !kthread_should_stop();
}

/* false: the descriptor was taken away meanwhile. */
static bool wait_until(struct vmport_channel *c, struct descriptor *d, ktime_t t)
{
	while (ktime_before(ktime_get(), t)) {
		set_current_state(TASK_IDLE);
		if (!is_active(c, d)) {
			__set_current_state(TASK_RUNNING);
			return false;
		}
		vmport_sleep_until(t);
	}
	return is_active(c, d);
}

/* Where the next bytes are. */
struct cursor {
	u32 index, offset; /* of the pieces, in one */
	u64 done;
};

static dma_addr_t cursor_local(const struct descriptor *d, const struct cursor *at, u32 *length)
{
	*length = min(*length, d->pieces[at->index].length - at->offset);
	return d->pieces[at->index].local + at->offset;
}

static void cursor_advance(const struct descriptor *d, struct cursor *at, u32 length)
{
	at->done += length;
	at->offset += length;
	if (at->offset == d->pieces[at->index].length) {
		at->index++;
		at->offset = 0;
	}
}

static enum vmport_type piece_type(const struct descriptor *d, bool last)
{
	return last && d->answer_last ? VMPORT_NWRITE_R : d->type;
}

static void count(struct vmport_port *from, struct vmport_port *to, enum vmport_type type,
		  u64 address, u32 length)
{
	vmport_count_packets(from, type, address, length);
	if (type == VMPORT_NREAD) {
		vmport_stat_add(from, bytes_received, length);
		if (to)
			vmport_stat_add(to, bytes_sent, length);
	} else {
		vmport_stat_add(from, bytes_sent, length);
		if (to)
			vmport_stat_add(to, bytes_received, length);
	}
}

/* One piece between two ports of this kernel. -ECANCELED: the descriptor is no longer active. */
static int move_local(struct vmport_channel *c, struct descriptor *d, struct vmport_port *to,
		      const struct cursor *at, u32 length)
{
	bool write = d->type != VMPORT_NREAD;
	u64 address = d->address + at->done;
	dma_addr_t local = cursor_local(d, at, &length);
	int ret = -ECANCELED;

	spin_lock_bh(&c->lock);
	if (c->active == d)
		ret = vmport_memory_dma(to, address, &c->port->pdev->dev, local, length, write);
	spin_unlock_bh(&c->lock);
	return ret;
}

static int run_local(struct vmport_channel *c, struct descriptor *d, ktime_t *end)
{
	struct vmport_port *p = c->port, *to;
	/* Pieces follow one another on the link, from when they could, however late this thread is. */
	ktime_t link = d->submitted;
	struct cursor at = { 0 };
	u8 out;

	while (at.done < d->length) {
		u32 length = PIECE;
		enum vmport_type type;
		bool answered;
		int err = 0;

		cursor_local(d, &at, &length);
		type = piece_type(d, at.done + length == d->length);
		answered = type == VMPORT_NREAD || type == VMPORT_NWRITE_R;
		if (vmport_way(p, d->target, &to, &out) != VMPORT_DONE) {
			if (answered)
				return -EHOSTUNREACH;
			link = vmport_reserve(p, NULL, length, link);
		} else {
			if (vmport_chance(READ_ONCE(p->set.error_rate)) ||
			    vmport_chance(READ_ONCE(to->set.error_rate))) {
				vmport_stat(p, errors_injected);
				err = -EIO;
			} else {
				err = move_local(c, d, to, &at, length);
			}
			if (err == -ECANCELED || (err && answered))
				return err;
			if (!err)
				count(p, to, type, d->address + at.done, length);
			link = type == VMPORT_NREAD ? vmport_reserve(to, p, length, link) :
						      vmport_reserve(p, to, length, link);
		}
		/* With an answer, or a request before the data, the way is gone twice. */
		*end = ktime_add_ns(link, (u64)READ_ONCE(p->set.latency) << answered);
		cursor_advance(d, &at, length);
		if (at.done < d->length && !wait_until(c, d, ktime_sub_ns(*end, AHEAD)))
			return -ECANCELED;
		cond_resched();
	}
	return 0;
}

/* Until at most so many requests are without an answer. */
static int wait_answers(struct vmport_channel *c, struct descriptor *d, u32 most)
{
	ktime_t until = ktime_add_ms(ktime_get(), vmport_timeout_ms);

	for (;;) {
		set_current_state(TASK_IDLE);
		if (!is_active(c, d) || READ_ONCE(c->remote_failed) ||
		    READ_ONCE(c->outstanding) <= most || !ktime_before(ktime_get(), until))
			break;
		vmport_sleep_until(until);
	}
	__set_current_state(TASK_RUNNING);
	if (!is_active(c, d))
		return -ECANCELED;
	if (READ_ONCE(c->remote_failed))
		return -EIO;
	return READ_ONCE(c->outstanding) <= most ? 0 : -ETIMEDOUT;
}

/* Call with the lock held. Between the descriptor's memory at an offset and a buffer. */
static int copy_at(struct vmport_channel *c, struct descriptor *d, u64 offset, u8 *buffer,
		   u32 length, bool from_buffer)
{
	u32 i, n;
	int ret;

	for (i = 0; i < d->count && length; i++) {
		if (offset >= d->pieces[i].length) {
			offset -= d->pieces[i].length;
			continue;
		}
		n = min_t(u64, length, d->pieces[i].length - offset);
		ret = vmport_copy_dma(&c->port->pdev->dev, d->pieces[i].local + offset, buffer, n,
				      from_buffer);
		if (ret)
			return ret;
		buffer += n;
		length -= n;
		offset = 0;
	}
	return length ? -EINVAL : 0;
}

/* One frame's worth to or from another kernel. */
static int send_remote(struct vmport_channel *c, struct descriptor *d, u64 offset, u32 length,
		       enum vmport_type type)
{
	struct vmport_packet packet = {
		.type = type,
		.target = d->target,
		.address = d->address + offset,
		.length = length,
		.data = c->buffer,
	};
	bool answered = type == VMPORT_NREAD || type == VMPORT_NWRITE_R;
	enum vmport_status status;
	int ret = 0;

	spin_lock_bh(&c->lock);
	if (c->active != d)
		ret = -ECANCELED;
	else if (type != VMPORT_NREAD)
		ret = copy_at(c, d, offset, c->buffer, length, false);
	if (!ret && answered)
		c->outstanding++;
	packet.tag = VMPORT_TAG(VMPORT_TAG_DMA, c->chan.chan_id, c->gen);
	spin_unlock_bh(&c->lock);
	if (ret)
		return ret;
	while ((status = vmport_request(c->port, &packet)) == VMPORT_RETRY)
		if (!wait_until(c, d, ktime_add_us(ktime_get(), 100)))
			return -ECANCELED;
	if (status == VMPORT_PENDING || !answered)
		return 0;
	return -EIO;
}

static int run_remote(struct vmport_channel *c, struct descriptor *d, ktime_t *end)
{
	struct vmport_port *p = c->port;
	ktime_t link = d->submitted;
	enum vmport_type type;
	u64 offset;
	u32 length;
	int ret;

	for (offset = 0; offset < d->length; offset += length) {
		length = min_t(u64, VMPORT_FRAME_DATA, d->length - offset);
		type = piece_type(d, offset + length == d->length);
		ret = wait_answers(c, d, REMOTE - 1);
		if (!ret)
			ret = send_remote(c, d, offset, length, type);
		if (ret)
			return ret;
		count(p, NULL, type, d->address + offset, length);
		link = vmport_reserve(p, NULL, length, link);
		*end = ktime_add_ns(link, READ_ONCE(p->set.latency));
		if (!wait_until(c, d, ktime_sub_ns(*end, AHEAD)))
			return -ECANCELED;
	}
	return wait_answers(c, d, 0);
}

/* An answer from another kernel, in softirq context. */
void vmport_dma_answered(struct vmport_port *p, struct vmport_packet *packet)
{
	u32 index = VMPORT_TAG_INDEX(packet->tag);
	struct vmport_channel *c;
	struct descriptor *d;

	if (index >= vmport_channel_count)
		return;
	c = &p->channels[index];
	spin_lock_bh(&c->lock);
	d = c->active;
	if (d && c->gen == VMPORT_TAG_GEN(packet->tag) && c->outstanding) {
		c->outstanding--;
		if (packet->status != VMPORT_DONE)
			c->remote_failed = true;
		else if (d->type == VMPORT_NREAD && (packet->address < d->address ||
						     copy_at(c, d, packet->address - d->address,
							     packet->data, packet->length, true)))
			c->remote_failed = true;
		if (c->thread)
			wake_up_process(c->thread);
	}
	spin_unlock_bh(&c->lock);
}

static void run(struct vmport_channel *c, struct descriptor *d)
{
	struct vmport_port *p = c->port, *to;
	ktime_t end = d->submitted;
	int ret;
	u8 out;

	if (vmport_chance(READ_ONCE(p->set.dma_error_rate))) {
		vmport_stat(p, errors_injected);
		ret = -EIO;
	} else if (vmport_way(p, d->target, &to, &out) == VMPORT_PENDING) {
		ret = run_remote(c, d, &end);
	} else {
		ret = run_local(c, d, &end);
	}
	if (ret == -ECANCELED || (!ret && !wait_until(c, d, end)))
		return;
	if (!ret)
		finish(c, d, DMA_TRANS_NOERROR);
	else
		finish(c, d,
		       d->type == VMPORT_NREAD ? DMA_TRANS_READ_FAILED : DMA_TRANS_WRITE_FAILED);
}

static struct descriptor *next_descriptor(struct vmport_channel *c)
{
	struct descriptor *d;

	spin_lock_bh(&c->lock);
	d = list_first_entry_or_null(&c->issued, struct descriptor, node);
	if (d) {
		list_del_init(&d->node);
		c->active = d;
		c->gen++;
		c->outstanding = 0;
		c->remote_failed = false;
	}
	spin_unlock_bh(&c->lock);
	return d;
}

static int channel_thread(void *data)
{
	struct vmport_channel *c = data;
	struct descriptor *d;

	/* The engine is no process of anyone's: it comes first, as far as nice values go. */
	set_user_nice(current, MIN_NICE);
	while (!kthread_should_stop()) {
		set_current_state(TASK_IDLE);
		d = next_descriptor(c);
		if (!d && !kthread_should_stop())
			schedule();
		__set_current_state(TASK_RUNNING);
		if (d)
			run(c, d);
	}
	return 0;
}

/* ---- what dmaengine calls ------------------------------------------------------------------------ */

static dma_cookie_t submit(struct dma_async_tx_descriptor *txd)
{
	struct vmport_channel *c = to_channel(txd->chan);
	struct descriptor *d = container_of(txd, struct descriptor, txd);
	dma_cookie_t cookie;

	spin_lock_bh(&c->lock);
	cookie = c->chan.cookie + 1;
	if (cookie < DMA_MIN_COOKIE)
		cookie = DMA_MIN_COOKIE;
	c->chan.cookie = cookie;
	txd->cookie = cookie;
	d->submitted = ktime_get();
	atomic_inc(&c->port->transfers);
	list_add_tail(&d->node, &c->queued);
	spin_unlock_bh(&c->lock);
	return cookie;
}

static void issue_pending(struct dma_chan *chan)
{
	struct vmport_channel *c = to_channel(chan);

	spin_lock_bh(&c->lock);
	list_splice_tail_init(&c->queued, &c->issued);
	if (c->thread)
		wake_up_process(c->thread);
	spin_unlock_bh(&c->lock);
}

static enum dma_status tx_status(struct dma_chan *chan, dma_cookie_t cookie,
				 struct dma_tx_state *state)
{
	struct vmport_channel *c = to_channel(chan);
	enum dma_status status;
	u32 i;

	spin_lock_bh(&c->lock);
	status = dma_async_is_complete(cookie, chan->completed_cookie, chan->cookie);
	for (i = 0; i < FAILED && status == DMA_COMPLETE; i++)
		if (c->failed[i] == cookie)
			status = DMA_ERROR;
	if (state) {
		state->last = chan->completed_cookie;
		state->used = chan->cookie;
		state->residue = 0;
		state->in_flight_bytes = 0;
	}
	spin_unlock_bh(&c->lock);
	return status;
}

/* SWRITE, where the setting lets it. -EINVAL: only SWRITE is let, and this can't be one. */
static int write_type(struct vmport_port *p, const struct rio_dma_ext *ext, u64 length,
		      struct descriptor *d)
{
	enum vmport_swrite swrite = READ_ONCE(p->set.swrite);
	bool eights = !(ext->rio_addr & 7) && !(length & 7);

	d->type = VMPORT_NWRITE;
	d->answer_last = false;
	switch (ext->wr_type) {
	case RDW_ALL_NWRITE:
		if (swrite == VMPORT_SWRITE_ONLY && !eights)
			return -EINVAL;
		if (swrite != VMPORT_SWRITE_NEVER && eights)
			d->type = VMPORT_SWRITE;
		return 0;
	case RDW_ALL_NWRITE_R:
		d->type = VMPORT_NWRITE_R;
		return 0;
	default:
		d->answer_last = true;
		return 0;
	}
}

static int take_pieces(struct descriptor *d, struct scatterlist *sgl, unsigned int sg_len)
{
	struct scatterlist *sg;
	unsigned int i;

	d->pieces = d->few;
	if (sg_len > INLINE_SGS) {
		d->pieces = kmalloc_array(sg_len, sizeof(*d->pieces), GFP_NOWAIT | __GFP_NOWARN);
		if (!d->pieces) {
			d->pieces = d->few;
			return -ENOMEM;
		}
	}
	d->count = 0;
	for_each_sg(sgl, sg, sg_len, i)
	{
		struct piece *last = d->count ? &d->pieces[d->count - 1] : NULL;
		u32 length = sg_dma_len(sg);

		if (!length)
			continue;
		if (last && last->local + last->length == sg_dma_address(sg) &&
		    last->length + length > length)
			last->length += length;
		else
			d->pieces[d->count++] = (struct piece){ sg_dma_address(sg), length };
	}
	return 0;
}

/* As the Tsi721: -EBUSY if all descriptors are in use. Any context but hard interrupts. */
static struct dma_async_tx_descriptor *prep(struct dma_chan *chan, struct scatterlist *sgl,
					    unsigned int sg_len, enum dma_transfer_direction dir,
					    unsigned long flags, void *context)
{
	struct vmport_channel *c = to_channel(chan);
	const struct rio_dma_ext *ext = context;
	struct scatterlist *sg;
	struct descriptor *d;
	u64 length = 0;
	unsigned int i;
	int ret = 0;

	if (!sgl || !sg_len || !ext || (dir != DMA_DEV_TO_MEM && dir != DMA_MEM_TO_DEV))
		return ERR_PTR(-EINVAL);
	for_each_sg(sgl, sg, sg_len, i) length += sg_dma_len(sg);
	if (!length || ext->rio_addr_u || ext->rio_addr + length - 1 < ext->rio_addr)
		return ERR_PTR(-EINVAL);
	spin_lock_bh(&c->lock);
	d = list_first_entry_or_null(&c->free, struct descriptor, node);
	if (d)
		list_del_init(&d->node);
	spin_unlock_bh(&c->lock);
	if (!d)
		return ERR_PTR(-EBUSY);
	d->target = ext->destid;
	d->address = ext->rio_addr;
	d->length = length;
	d->answer_last = false;
	d->type = VMPORT_NREAD;
	if (dir == DMA_MEM_TO_DEV)
		ret = write_type(c->port, ext, length, d);
	if (!ret)
		ret = take_pieces(d, sgl, sg_len);
	if (ret) {
		spin_lock_bh(&c->lock);
		list_add_tail(&d->node, &c->free);
		spin_unlock_bh(&c->lock);
		return ERR_PTR(ret);
	}
	d->txd.flags = flags;
	d->txd.callback = NULL;
	d->txd.callback_result = NULL;
	return &d->txd;
}

static int terminate_all(struct dma_chan *chan)
{
	struct vmport_channel *c = to_channel(chan);
	struct descriptor *d;
	struct callback cb;
	LIST_HEAD(all);

	spin_lock_bh(&c->lock);
	list_splice_tail_init(&c->issued, &all);
	list_splice_tail_init(&c->queued, &all);
	if (c->active)
		list_add(&c->active->node, &all);
	c->active = NULL;
	while ((d = list_first_entry_or_null(&all, struct descriptor, node))) {
		list_del_init(&d->node);
		cb = retire(c, d, DMA_TRANS_ABORTED);
		spin_unlock_bh(&c->lock);
		vmport_stat(c->port, dma_aborted);
		call(&cb);
		spin_lock_bh(&c->lock);
	}
	if (c->thread)
		wake_up_process(c->thread);
	spin_unlock_bh(&c->lock);
	return 0;
}

static int alloc_resources(struct dma_chan *chan)
{
	struct vmport_channel *c = to_channel(chan);
	struct task_struct *thread;
	unsigned int i;

	c->descriptors = kcalloc(vmport_descriptor_count, sizeof(*c->descriptors), GFP_KERNEL);
	if (!c->descriptors)
		return -ENOMEM;
	INIT_LIST_HEAD(&c->free);
	INIT_LIST_HEAD(&c->queued);
	INIT_LIST_HEAD(&c->issued);
	for (i = 0; i < vmport_descriptor_count; i++) {
		struct descriptor *d = &c->descriptors[i];

		dma_async_tx_descriptor_init(&d->txd, chan);
		d->txd.tx_submit = submit;
		d->pieces = d->few;
		list_add_tail(&d->node, &c->free);
	}
	memset(c->failed, 0, sizeof(c->failed));
	chan->cookie = DMA_MIN_COOKIE;
	chan->completed_cookie = DMA_MIN_COOKIE;
	thread = kthread_create(channel_thread, c, "vmport%u/dma%d", c->port->index, chan->chan_id);
	if (IS_ERR(thread)) {
		kfree(c->descriptors);
		c->descriptors = NULL;
		return PTR_ERR(thread);
	}
	spin_lock_bh(&c->lock);
	c->thread = thread;
	spin_unlock_bh(&c->lock);
	wake_up_process(thread);
	return vmport_descriptor_count;
}

static void free_resources(struct dma_chan *chan)
{
	struct vmport_channel *c = to_channel(chan);
	struct task_struct *thread = c->thread;

	if (!thread)
		return;
	terminate_all(chan);
	spin_lock_bh(&c->lock);
	c->thread = NULL;
	spin_unlock_bh(&c->lock);
	kthread_stop(thread);
	kfree(c->descriptors);
	c->descriptors = NULL;
}

/* What a reset of the port does to transfers under way: they end as aborted. */
void vmport_dma_abort(struct vmport_port *p)
{
	unsigned int i;

	for (i = 0; i < vmport_channel_count; i++)
		if (READ_ONCE(p->channels[i].thread))
			terminate_all(&p->channels[i].chan);
}

/* Channels are there as long as the port: another kernel's answer may come for one that nobody has any more. */
int vmport_dma_init(struct vmport_port *p)
{
	unsigned int i;

	p->channels = kvcalloc(vmport_channel_count, sizeof(*p->channels), GFP_KERNEL);
	if (!p->channels)
		return -ENOMEM;
	for (i = 0; i < vmport_channel_count; i++) {
		p->channels[i].port = p;
		spin_lock_init(&p->channels[i].lock);
	}
	return 0;
}

void vmport_dma_exit(struct vmport_port *p)
{
	kvfree(p->channels);
	p->channels = NULL;
}

int vmport_dma_register(struct vmport_port *p)
{
	struct dma_device *dma = &p->mport.dma;
	unsigned int i;
	int ret;

	INIT_LIST_HEAD(&dma->channels);
	for (i = 0; i < vmport_channel_count; i++) {
		struct dma_chan *chan = &p->channels[i].chan;

		memset(chan, 0, sizeof(*chan));
		chan->device = dma;
		chan->chan_id = i;
		list_add_tail(&chan->device_node, &dma->channels);
	}
	dma_cap_zero(dma->cap_mask);
	dma_cap_set(DMA_PRIVATE, dma->cap_mask);
	dma_cap_set(DMA_SLAVE, dma->cap_mask);
	dma->dev = &p->pdev->dev;
	dma->directions = BIT(DMA_DEV_TO_MEM) | BIT(DMA_MEM_TO_DEV);
	dma->residue_granularity = DMA_RESIDUE_GRANULARITY_DESCRIPTOR;
	dma->device_alloc_chan_resources = alloc_resources;
	dma->device_free_chan_resources = free_resources;
	dma->device_tx_status = tx_status;
	dma->device_issue_pending = issue_pending;
	dma->device_prep_slave_sg = prep;
	dma->device_terminate_all = terminate_all;
	ret = dma_async_device_register(dma);
	p->dma_registered = !ret;
	return ret;
}

/* Clients gave their channels back when they heard that the port goes; what has one still holds the module. */
void vmport_dma_unregister(struct vmport_port *p)
{
	if (!p->dma_registered)
		return;
	p->dma_registered = false;
	dma_async_device_unregister(&p->mport.dma);
}
