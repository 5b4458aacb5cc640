// SPDX-License-Identifier: GPL-2.0
/*
 * port.c - a port: its pools and their inbound window, doorbells in and out, the protocol's ops and
 * clock. Doorbells come in a thread or an interrupt, as the mport's driver has it; with top_half they
 * are answered there, else by a work queue.
 *
 * Tests: vm/ffrio.sh
 */
#include <linux/dma-mapping.h>
#include <linux/ratelimit.h>
#include <linux/slab.h>

#include "../compat.h"
#include "ffrio_int.h"

static struct ffrio_port *port_of(struct ffrio_proto *p)
{
	return container_of(p, struct ffrio_port, proto);
}

static struct ffrio_block *block_of(struct ffrio_tx *tx)
{
	return container_of(tx, struct ffrio_block, tx);
}

/* ---- what the protocol calls, with port->lock held ----------------------------------------------- */

static int op_doorbell(struct ffrio_proto *p, u16 destid, u16 info)
{
	struct ffrio_port *port = port_of(p);

	/* A hello begins: enumeration may have changed who we are. */
	if (info >> 8 == FFRIO_DB_FIRST >> 8)
		port->destid = rio_local_get_device_id(port->mport);
	return port->gone ? -ENODEV : rio_mport_send_doorbell(port->mport, destid, info);
}

static void op_granted(struct ffrio_proto *p, struct ffrio_tx *tx)
{
	ffrio_block_granted(block_of(tx));
}

static void op_move(struct ffrio_proto *p, struct ffrio_tx *tx)
{
	ffrio_block_move(block_of(tx));
}

static void op_sent(struct ffrio_proto *p, struct ffrio_tx *tx, int result)
{
	ffrio_block_sent(block_of(tx), result);
}

static int op_check(struct ffrio_proto *p, u16 buffer, u32 number)
{
	return ffrio_check_block(port_of(p), buffer, number);
}

static void op_broke(struct ffrio_proto *p, u16 destid, const char *what)
{
	static struct ratelimit_state rate =
		RATELIMIT_STATE_INIT_FLAGS(rate, HZ, 1, RATELIMIT_MSG_ON_RELEASE);

	if (__ratelimit(&rate))
		pr_warn("port %u: node %u %s\n", port_of(p)->id, destid, what);
}

static void op_arrived(struct ffrio_proto *p, u8 endpoint)
{
	struct ffrio_file *file = port_of(p)->endpoint[endpoint];

	if (file)
		wake_up_interruptible(&file->wait);
}

static void op_changed(struct ffrio_proto *p, struct ffrio_peer *peer)
{
	wake_up_interruptible(&port_of(p)->flow_wait);
}

static const struct ffrio_ops port_ops = {
	.doorbell = op_doorbell,
	.granted = op_granted,
	.move = op_move,
	.sent = op_sent,
	.check = op_check,
	.broke = op_broke,
	.arrived = op_arrived,
	.changed = op_changed,
};

/* ---- the lock, and time -------------------------------------------------------------------------- */

static unsigned long tick_time(const struct ffrio_port *port)
{
	return max(1UL, msecs_to_jiffies(port->proto.retry_ms / 2));
}

/* Each call of the protocol is between these two: it knows the time, and is called again in time. */
void ffrio_enter(struct ffrio_port *port) __acquires(&port->lock)
{
	spin_lock_bh(&port->lock);
	port->proto.now = ktime_to_ms(ktime_get()) + 1;
}

void ffrio_leave(struct ffrio_port *port) __releases(&port->lock)
{
	if (!port->gone && !timer_pending(&port->timer))
		mod_timer(&port->timer, jiffies + tick_time(port));
	spin_unlock_bh(&port->lock);
}

static void tick(struct timer_list *t)
{
	struct ffrio_port *port = container_of(t, struct ffrio_port, timer);
	bool busy;

	spin_lock(&port->lock);
	port->proto.now = ktime_to_ms(ktime_get()) + 1;
	busy = ffrio_tick(&port->proto);
	ffrio_dma_tick(port);
	if (!port->gone && (busy || ffrio_dma_busy(port)))
		mod_timer(&port->timer, jiffies + tick_time(port));
	spin_unlock(&port->lock);
}

/* ---- doorbells in -------------------------------------------------------------------------------- */

static void doorbell_in(struct rio_mport *mport, void *dev_id, u16 source, u16 destination,
			u16 info)
{
	struct ffrio_port *port = dev_id;

	ffrio_enter(port);
	if (ffrio_top_half && kfifo_is_empty(&port->fifo)) {
		ffrio_doorbell(&port->proto, source, info);
	} else {
		/* without room it is lost, and said again */
		kfifo_put(&port->fifo, (u32)source << 16 | info);
		queue_work(system_highpri_wq, &port->work);
	}
	ffrio_leave(port);
}

static void port_work(struct work_struct *work)
{
	struct ffrio_port *port = container_of(work, struct ffrio_port, work);
	bool more = true;
	u32 item;

	while (more) {
		ffrio_enter(port);
		more = kfifo_get(&port->fifo, &item);
		if (more)
			ffrio_doorbell(&port->proto, item >> 16, item);
		ffrio_leave(port);
	}
	ffrio_dma_work(port);
}

/* ---- a port comes and goes ----------------------------------------------------------------------- */

static int pool_make(struct ffrio_port *port, struct ffrio_pool *pool, u32 buffers,
		     const char *parameter, char *why)
{
	pool->size = PAGE_ALIGN((size_t)buffers * port->stride);
	pool->memory =
		dma_alloc_coherent(port->dev, pool->size, &pool->dma, GFP_KERNEL | __GFP_NOWARN);
	if (pool->memory)
		return 0;
	snprintf(why, FFRIO_WHY_SIZE,
		 "no %zu KB in one piece (order %d): lower %s (%u) or block_size (%u)",
		 pool->size >> 10, get_order(pool->size), parameter, buffers, ffrio_block_size);
	return -ENOMEM;
}

static void pool_end(struct ffrio_port *port, struct ffrio_pool *pool)
{
	if (pool->memory)
		dma_free_coherent(port->dev, pool->size, pool->memory, pool->dma);
}

/* The last file is closed, too: programs may have had the pools mapped. */
static void port_free(struct kref *ref)
{
	struct ffrio_port *port = container_of(ref, struct ffrio_port, ref);
	struct completion *freed = port->freed;

	/* what ended the last transfer may not be through with the port */
	cancel_work_sync(&port->work);
	WARN(port->smb_free != port->smbs, "ffrio: %u of %u send buffers\n", port->smb_free,
	     port->smbs);
	pool_end(port, &port->rmb);
	pool_end(port, &port->smb);
	put_device(port->dev);
	kvfree(port);
	if (freed)
		complete(freed);
}

void ffrio_port_put(struct ffrio_port *port)
{
	kref_put(&port->ref, port_free);
}

static void port_init(struct ffrio_port *port, struct rio_mport *mport)
{
	u16 i;

	kref_init(&port->ref);
	port->mport = mport;
	port->dev = get_device(mport->dev.parent);
	port->id = mport->id;
	port->stride = ffrio_stride(ffrio_block_size);
	spin_lock_init(&port->lock);
	init_waitqueue_head(&port->smb_wait);
	init_waitqueue_head(&port->flow_wait);
	INIT_LIST_HEAD(&port->jobs);
	INIT_LIST_HEAD(&port->ended);
	INIT_LIST_HEAD(&port->files);
	INIT_LIST_HEAD(&port->blocks);
	timer_setup(&port->timer, tick, 0);
	INIT_WORK(&port->work, port_work);
	INIT_KFIFO(port->fifo);
	port->smbs = ffrio_smb_count;
	for (i = 0; i < port->smbs; i++)
		port->smb_stack[port->smb_free++] = i;
}

/* Nothing comes or goes any more, and what was under way ends. */
static void port_stop(struct ffrio_port *port)
{
	u16 free;

	if (port->doorbells)
		rio_release_inb_dbell(port->mport, FFRIO_DB_FIRST, FFRIO_DB_LAST);
	ffrio_enter(port);
	ffrio_close(&port->proto);
	port->gone = true;
	spin_unlock_bh(&port->lock);
	/* files that wait find the port gone */
	wake_up_all(&port->smb_wait);
	wake_up_all(&port->flow_wait);
	timer_delete_sync(&port->timer);
	/* one that began before may be stopping a channel; what begins from here on does not */
	cancel_work_sync(&port->work);
	ffrio_dma_close(port);
	cancel_work_sync(&port->work);
	ffrio_dma_work(port);
	if (port->mapped)
		rio_unmap_inb_region(port->mport, port->rmb.dma);
	spin_lock_bh(&port->lock);
	free = port->proto.free;
	for (u16 i = 0; i < port->proto.buffers; i++)
		free += port->proto.buffer[i].state == FFRIO_BUFFER_QUARANTINED ||
			port->proto.buffer[i].state == FFRIO_BUFFER_FILLED ||
			port->proto.buffer[i].state == FFRIO_BUFFER_TAKEN;
	WARN(free != port->proto.buffers, "ffrio: %u of %u receive buffers\n", free,
	     port->proto.buffers);
	WARN_ON(!list_empty(&port->blocks));
	spin_unlock_bh(&port->lock);
}

struct ffrio_port *ffrio_port_new(struct rio_mport *mport, char *why)
{
	struct ffrio_port *port = kvzalloc(sizeof(*port), GFP_KERNEL);
	struct ffrio_proto *p;
	int ret;

	if (!port) {
		strscpy(why, "no memory", FFRIO_WHY_SIZE);
		return ERR_PTR(-ENOMEM);
	}
	port_init(port, mport);
	ret = pool_make(port, &port->smb, ffrio_smb_count, "smbs", why);
	if (!ret)
		ret = pool_make(port, &port->rmb, ffrio_rmb_count, "rmbs", why);
	if (ret)
		goto err_put;
	p = &port->proto;
	p->address = port->rmb.dma;
	p->block = ffrio_block_size;
	p->buffers = ffrio_rmb_count;
	p->quota = ffrio_quota;
	p->retry_ms = ffrio_retry_ms;
	p->dead_ms = ffrio_dead_ms;
	ffrio_proto_init(p, &port_ops, get_random_u32());
	/* No other has memory at these addresses, so no other window can be there. */
	strscpy(why, "the port maps no inbound window for the receive buffers", FFRIO_WHY_SIZE);
	ret = rio_map_inb_region(mport, port->rmb.dma, port->rmb.dma, port->rmb.size, 0);
	if (ret)
		goto err_put;
	port->mapped = true;
	ret = ffrio_dma_open(port, why);
	if (ret)
		goto err_stop;
	strscpy(why, "another driver has doorbells 0x8000 to 0xffff", FFRIO_WHY_SIZE);
	ret = rio_request_inb_dbell(mport, port, FFRIO_DB_FIRST, FFRIO_DB_LAST, doorbell_in);
	if (ret)
		goto err_stop;
	port->doorbells = true;
	return port;

err_stop:
	port_stop(port);
err_put:
	ffrio_port_put(port);
	return ERR_PTR(ret);
}

/*
 * All calls end at once. But files keep the pools mapped, and windows, and that memory is the device's, which may be
 * gone when this returns: so this waits until they are closed, as a program does that hears POLLHUP or ENODEV.
 * (The module has no file when it is unloaded.)
 */
void ffrio_port_end(struct ffrio_port *port)
{
	DECLARE_COMPLETION_ONSTACK(freed);
	struct ffrio_file *file;
	u32 id = port->id;

	port_stop(port);
	spin_lock_bh(&port->lock);
	port->freed = &freed;
	list_for_each_entry(file, &port->files, node) wake_up_all(&file->wait);
	spin_unlock_bh(&port->lock);
	ffrio_port_put(port);
	if (wait_for_completion_timeout(&freed, 2 * HZ))
		return;
	do {
		pr_warn("port %u goes when the programs are gone that have /dev/ffrio open for it\n",
			id);
	} while (!wait_for_completion_timeout(&freed, 60 * HZ));
}
