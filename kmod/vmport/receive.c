// SPDX-License-Identifier: GPL-2.0
/*
 * receive.c - what comes in: doorbells to a queue of limited length, messages to the buffers that
 * the mailbox's client gave, port-writes. Whoever brings them (any context) leaves them there; the
 * port's thread calls the clients, as an interrupt would, with softirqs off. What has no room is
 * told RETRY, and its sender tries again.
 *
 * Tests: vm/vmport.sh
 */
#include <linux/slab.h>

#include "vmport_int.h"

/* ---- doorbells ----------------------------------------------------------------------------------- */

/*
 * Several of a sender in another kernel are on their way at once. When one has no room, those behind it have none
 * either, until it comes again as the first: so they stay in order.
 */
enum vmport_status vmport_receive_doorbell(struct vmport_port *p, u16 source, u16 info, bool first)
{
	u32 limit = clamp_t(u32, READ_ONCE(p->set.doorbell_limit), 1, VMPORT_DOORBELLS_IN);
	enum vmport_status status = VMPORT_DONE;
	u32 copies = 1, waiting;
	unsigned long flags;

	if (vmport_chance(READ_ONCE(p->set.doorbell_loss))) {
		vmport_stat(p, doorbells_lost_injected);
		return VMPORT_DONE;
	}
	if (vmport_chance(READ_ONCE(p->set.doorbell_duplicate))) {
		vmport_stat(p, doorbells_doubled_injected);
		copies = 2;
	}
	spin_lock_irqsave(&p->receive_lock, flags);
	waiting = p->received_head - p->received_tail;
	if (waiting >= limit || (!first && test_bit(source, p->retried))) {
		status = VMPORT_RETRY;
		__set_bit(source, p->retried);
	} else {
		__clear_bit(source, p->retried);
		for (; copies && waiting < VMPORT_DOORBELLS_IN; copies--, waiting++)
			p->received[p->received_head++ % VMPORT_DOORBELLS_IN] =
				(struct vmport_doorbell){ source, info };
	}
	spin_unlock_irqrestore(&p->receive_lock, flags);
	if (status == VMPORT_DONE)
		vmport_wake(p);
	return status;
}

static bool next_doorbell(struct vmport_port *p, struct vmport_doorbell *d)
{
	bool found;

	spin_lock_irq(&p->receive_lock);
	found = p->received_tail != p->received_head && !READ_ONCE(p->set.doorbell_hold);
	if (found)
		*d = p->received[p->received_tail++ % VMPORT_DOORBELLS_IN];
	spin_unlock_irq(&p->receive_lock);
	return found;
}

/*
 * mport.lock is held while the handler runs, so that after rio_release_inb_dbell() it does not. A
 * handler may not sleep with other drivers either.
 */
static void handle_doorbell(struct vmport_port *p, const struct vmport_doorbell *d)
{
	struct rio_mport *mport = &p->mport;
	struct rio_dbell *dbell;
	bool found = false;

	vmport_stat(p, doorbells_received);
	mutex_lock(&mport->lock);
	list_for_each_entry(dbell, &mport->dbells,
			    node) if (d->info >= dbell->res->start && d->info <= dbell->res->end)
	{
		found = true;
		break;
	}
	if (found) {
		local_bh_disable();
		dbell->dinb(mport, dbell->dev_id, d->source, vmport_device_id(p), d->info);
		local_bh_enable();
	}
	mutex_unlock(&mport->lock);
	if (!found)
		vmport_stat(p, doorbells_unclaimed);
}

/* ---- messages ------------------------------------------------------------------------------------ */

int vmport_open_inbox(struct rio_mport *mport, void *dev_id, int mbox, int entries)
{
	struct vmport_port *p = mport->priv;
	struct vmport_inbox *in;
	void **buffers;

	if (mbox < 0 || mbox >= RIO_MAX_MBOX || entries < 2 || entries > 2048 ||
	    !is_power_of_2(entries))
		return -EINVAL;
	in = &p->inbox[mbox];
	buffers = kvcalloc(entries, sizeof(*buffers), GFP_KERNEL);
	if (!buffers)
		return -ENOMEM;
	spin_lock_irq(&p->receive_lock);
	*in = (struct vmport_inbox){
		.open = true, .dev_id = dev_id, .entries = entries, .buffers = buffers
	};
	spin_unlock_irq(&p->receive_lock);
	return 0;
}

void vmport_close_inbox(struct rio_mport *mport, int mbox)
{
	struct vmport_port *p = mport->priv;
	struct vmport_inbox *in = &p->inbox[mbox];
	void **buffers;

	spin_lock_irq(&p->receive_lock);
	in->open = false;
	buffers = in->buffers;
	in->buffers = NULL;
	spin_unlock_irq(&p->receive_lock);
	/* A callback that runs comes to its end. */
	mutex_lock(&p->callback_lock);
	mutex_unlock(&p->callback_lock);
	kvfree(buffers);
}

int vmport_add_buffer(struct rio_mport *mport, int mbox, void *buffer)
{
	struct vmport_port *p = mport->priv;
	struct vmport_inbox *in = &p->inbox[mbox];
	unsigned long flags;
	int ret = -EINVAL;

	spin_lock_irqsave(&p->receive_lock, flags);
	if (in->open && in->put - in->get < in->entries) {
		in->buffers[in->put++ % in->entries] = buffer;
		ret = 0;
	}
	spin_unlock_irqrestore(&p->receive_lock, flags);
	return ret;
}

/*
 * One buffer is always left empty: rionet takes a ring that is full for one that is empty, and
 * would never fill it again (the Tsi721 leaves one as well).
 */
enum vmport_status vmport_receive_message(struct vmport_port *p, int mbox, const void *data,
					  u32 length)
{
	enum vmport_status status = VMPORT_DONE;
	struct vmport_inbox *in;
	unsigned long flags;

	if (mbox >= RIO_MAX_MBOX || !length || length > RIO_MAX_MSG_SIZE)
		return VMPORT_ERROR;
	in = &p->inbox[mbox];
	spin_lock_irqsave(&p->receive_lock, flags);
	if (!in->open) {
		status = VMPORT_ERROR;
	} else if (in->put - in->filled < 2) {
		status = VMPORT_RETRY;
	} else {
		memcpy(in->buffers[in->filled++ % in->entries], data, length);
		in->arrived = true;
		vmport_stat(p, messages_received);
		vmport_stat_add(p, bytes_received, length);
	}
	spin_unlock_irqrestore(&p->receive_lock, flags);
	if (status == VMPORT_DONE)
		vmport_wake(p);
	return status;
}

void *vmport_get_message(struct rio_mport *mport, int mbox)
{
	struct vmport_port *p = mport->priv;
	struct vmport_inbox *in = &p->inbox[mbox];
	void *buffer = NULL;
	unsigned long flags;

	spin_lock_irqsave(&p->receive_lock, flags);
	if (in->open && in->get != in->filled)
		buffer = in->buffers[in->get++ % in->entries];
	spin_unlock_irqrestore(&p->receive_lock, flags);
	return buffer;
}

static void call_inbox(struct vmport_port *p, int mbox)
{
	struct vmport_inbox *in = &p->inbox[mbox];
	struct rio_mport *mport = &p->mport;
	void *dev_id;
	bool call;

	mutex_lock(&p->callback_lock);
	spin_lock_irq(&p->receive_lock);
	call = in->open && in->arrived && mport->inb_msg[mbox].mcback;
	in->arrived = false;
	dev_id = in->dev_id;
	spin_unlock_irq(&p->receive_lock);
	if (call) {
		local_bh_disable();
		mport->inb_msg[mbox].mcback(mport, dev_id, mbox, -1);
		local_bh_enable();
	}
	mutex_unlock(&p->callback_lock);
}

/* ---- port-writes --------------------------------------------------------------------------------- */

void vmport_receive_port_write(struct vmport_port *p, const union rio_pw_msg *msg)
{
	unsigned long flags;
	bool room;

	spin_lock_irqsave(&p->receive_lock, flags);
	room = READ_ONCE(p->port_write) &&
	       p->port_writes_head - p->port_writes_tail < VMPORT_PORT_WRITES;
	if (room)
		p->port_writes[p->port_writes_head++ % VMPORT_PORT_WRITES] = *msg;
	spin_unlock_irqrestore(&p->receive_lock, flags);
	if (room)
		schedule_work(&p->port_write_work);
	else
		vmport_stat(p, port_writes_dropped);
}

static bool next_port_write(struct vmport_port *p, union rio_pw_msg *msg)
{
	bool found;

	spin_lock_irq(&p->receive_lock);
	found = p->port_writes_tail != p->port_writes_head;
	if (found)
		*msg = p->port_writes[p->port_writes_tail++ % VMPORT_PORT_WRITES];
	spin_unlock_irq(&p->receive_lock);
	return found;
}

/* The kernel's handler reads and writes the sender's registers, and sleeps. */
static void port_write_work(struct work_struct *work)
{
	struct vmport_port *p = container_of(work, struct vmport_port, port_write_work);
	union rio_pw_msg msg;

	while (next_port_write(p, &msg)) {
		vmport_stat(p, port_writes_received);
		rio_inb_pwrite_handler(&p->mport, &msg);
	}
}

/* ---- the thread's part --------------------------------------------------------------------------- */

bool vmport_receive_pending(struct vmport_port *p)
{
	unsigned long flags;
	bool pending;
	int i;

	spin_lock_irqsave(&p->receive_lock, flags);
	pending = p->received_head != p->received_tail && !READ_ONCE(p->set.doorbell_hold);
	for (i = 0; i < RIO_MAX_MBOX; i++)
		pending |= p->inbox[i].open && p->inbox[i].arrived;
	spin_unlock_irqrestore(&p->receive_lock, flags);
	return pending;
}

void vmport_receive_run(struct vmport_port *p)
{
	struct vmport_doorbell d;
	int i;

	while (next_doorbell(p, &d)) {
		handle_doorbell(p, &d);
		cond_resched();
	}
	for (i = 0; i < RIO_MAX_MBOX; i++)
		if (READ_ONCE(p->inbox[i].arrived))
			call_inbox(p, i);
}

/* A reset: what waits is gone. Buffers that were filled stay so: only the client empties them. */
void vmport_receive_drop(struct vmport_port *p)
{
	unsigned long flags;

	spin_lock_irqsave(&p->receive_lock, flags);
	p->received_tail = p->received_head;
	p->port_writes_tail = p->port_writes_head;
	spin_unlock_irqrestore(&p->receive_lock, flags);
}

void vmport_receive_init(struct vmport_port *p)
{
	spin_lock_init(&p->receive_lock);
	mutex_init(&p->callback_lock);
	INIT_WORK(&p->port_write_work, port_write_work);
}
