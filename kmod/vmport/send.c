// SPDX-License-Identifier: GPL-2.0
/*
 * send.c - doorbells and messages on their way out. dsend() and add_outb_message() (any context)
 * put them into a list; the port's thread delivers each when the link has carried it. What the
 * receiver has no room for stays and is tried again, as hardware does, and holds up only what comes
 * after it to the same receiver. So doorbells to one receiver arrive in order, likewise messages. To another kernel
 * several doorbells are on their way at once (receive.c keeps them in order), and one message of a mailbox.
 *
 * QUEUED: to be delivered at due. SENT: went to another kernel; due is how long the answer may take.
 * A slot of a mailbox is finished when its message was delivered or given up, and reported to the
 * client in the slots' order.
 *
 * Tests: vm/vmport.sh
 */
#include <linux/slab.h>

#include "vmport_int.h"

#define DOORBELL_BYTES 12 /* on the link, with its headers */
#define LINES	       32 /* receivers that are looked after at once */
#define ON_THE_WAY     16 /* doorbells to one receiver in another kernel */

int vmport_send_init(struct vmport_port *p)
{
	u32 i;

	spin_lock_init(&p->send_lock);
	INIT_LIST_HEAD(&p->sends);
	INIT_LIST_HEAD(&p->free_doorbells);
	for (i = 0; i < VMPORT_DOORBELLS_OUT; i++) {
		p->doorbells[i].index = i;
		list_add_tail(&p->doorbells[i].node, &p->free_doorbells);
	}
	return 0;
}

/* Call with send_lock held. */
static void finish(struct vmport_port *p, struct vmport_send *s, enum vmport_status status)
{
	struct vmport_outbox *out;

	s->state = VMPORT_SEND_IDLE;
	list_del(&s->node);
	if (!s->message) {
		if (status == VMPORT_DONE)
			vmport_stat(p, doorbells_sent);
		else
			vmport_stat(p, doorbells_failed);
		list_add_tail(&s->node, &p->free_doorbells);
		return;
	}
	if (status == VMPORT_DONE) {
		vmport_stat(p, messages_sent);
		vmport_stat_add(p, bytes_sent, s->length);
	} else {
		vmport_stat(p, messages_failed);
	}
	out = &p->outbox[s->mbox];
	s->finished = true;
	while (out->used && out->slots[out->tail].finished) {
		out->slots[out->tail].finished = false;
		out->tail = (out->tail + 1) % out->entries;
		out->used--;
		out->moved = true;
	}
}

/* Call with send_lock held: the receiver had no room. */
static void again(struct vmport_port *p, struct vmport_send *s, ktime_t now)
{
	if (vmport_retry_ms && ktime_after(now, ktime_add_ms(s->since, vmport_retry_ms))) {
		finish(p, s, VMPORT_LOST);
		return;
	}
	if (s->message)
		vmport_stat(p, messages_retried);
	else
		vmport_stat(p, doorbells_retried);
	s->state = VMPORT_SEND_QUEUED;
	s->again = true;
	s->due = ktime_add_us(now, vmport_retry_us);
}

static enum vmport_status deliver(struct vmport_port *p, struct vmport_port *to,
				  struct vmport_send *s)
{
	if (vmport_chance(READ_ONCE(p->set.error_rate)) ||
	    vmport_chance(READ_ONCE(to->set.error_rate))) {
		vmport_stat(p, errors_injected);
		return VMPORT_ERROR;
	}
	if (s->message)
		return vmport_receive_message(to, s->mbox, s->data, s->length);
	return vmport_receive_doorbell(to, vmport_device_id(p), s->info, true);
}

static struct vmport_packet as_packet(struct vmport_send *s)
{
	return (struct vmport_packet){
		.type = s->message ? VMPORT_MESSAGE : VMPORT_DOORBELL,
		.target = s->target,
		.info = s->info,
		.mbox = s->mbox,
		.first = s->first,
		.length = s->message ? s->length : 0,
		.data = s->data,
		.tag = VMPORT_TAG(s->message ? VMPORT_TAG_MESSAGE : VMPORT_TAG_SEND, s->index,
				  s->gen),
	};
}

/*
 * Call with send_lock held. Delivers one that is due; true: it must go to another kernel, and is in
 * the state SENT.
 */
static bool attempt(struct vmport_port *p, struct vmport_send *s, ktime_t now)
{
	enum vmport_status status;
	struct vmport_port *to;
	u8 out;

	status = vmport_way(p, s->target, &to, &out);
	if (status == VMPORT_PENDING) {
		s->state = VMPORT_SEND_SENT;
		s->gen++;
		s->due = ktime_add_ms(now, vmport_timeout_ms);
		return true;
	}
	if (status == VMPORT_DONE)
		status = deliver(p, to, s);
	if (status == VMPORT_RETRY)
		again(p, s, now);
	else
		finish(p, s, status);
	return false;
}

/* ---- what clients call --------------------------------------------------------------------------- */

/* Call with send_lock held. */
static void enqueue(struct vmport_port *p, struct vmport_send *s, u32 bytes)
{
	bool first = list_empty(&p->sends);
	ktime_t now = ktime_get();
	struct vmport_port *to;
	u8 out;

	s->state = VMPORT_SEND_QUEUED;
	s->again = false;
	s->since = now;
	s->due = ktime_add_ns(vmport_reserve_send(p, bytes, now), READ_ONCE(p->set.latency));
	list_add_tail(&s->node, &p->sends);
	/* Nothing to wait for: the receiver has it now. */
	if (first && !ktime_after(s->due, now) &&
	    vmport_way(p, s->target, &to, &out) != VMPORT_PENDING)
		attempt(p, s, now);
}

/* -EBUSY: as many doorbells as the port can hold wait for their receivers. */
int vmport_doorbell(struct rio_mport *mport, int index, u16 target, u16 info)
{
	struct vmport_port *p = mport->priv;
	struct vmport_send *s;
	unsigned long flags;
	bool wake;

	spin_lock_irqsave(&p->send_lock, flags);
	s = list_first_entry_or_null(&p->free_doorbells, struct vmport_send, node);
	if (!s) {
		spin_unlock_irqrestore(&p->send_lock, flags);
		vmport_stat(p, doorbells_refused);
		return -EBUSY;
	}
	list_del(&s->node);
	s->target = target;
	s->info = info;
	enqueue(p, s, DOORBELL_BYTES);
	wake = !list_empty(&p->sends);
	spin_unlock_irqrestore(&p->send_lock, flags);
	if (wake)
		vmport_wake(p);
	return 0;
}

static void free_slots(struct vmport_send *slots, void **buffers, int entries)
{
	int i;

	for (i = 0; buffers && i < entries; i++)
		kfree(buffers[i]);
	kvfree(buffers);
	kvfree(slots);
}

int vmport_open_outbox(struct rio_mport *mport, void *dev_id, int mbox, int entries)
{
	struct vmport_port *p = mport->priv;
	struct vmport_outbox *out;
	struct vmport_send *slots;
	void **buffers;
	int i;

	if (mbox < 0 || mbox >= RIO_MAX_MBOX || entries < 2 || entries > 1024 ||
	    !is_power_of_2(entries))
		return -EINVAL;
	slots = kvcalloc(entries, sizeof(*slots), GFP_KERNEL);
	buffers = kvcalloc(entries, sizeof(*buffers), GFP_KERNEL);
	if (!slots || !buffers)
		goto nomem;
	for (i = 0; i < entries; i++) {
		buffers[i] = kmalloc(RIO_MAX_MSG_SIZE, GFP_KERNEL);
		if (!buffers[i])
			goto nomem;
		slots[i].message = true;
		slots[i].mbox = mbox;
		slots[i].index = mbox << 10 | i;
		slots[i].data = buffers[i];
	}
	out = &p->outbox[mbox];
	spin_lock_irq(&p->send_lock);
	*out = (struct vmport_outbox){ .open = true,
				       .dev_id = dev_id,
				       .entries = entries,
				       .slots = slots,
				       .buffers = buffers };
	spin_unlock_irq(&p->send_lock);
	return 0;

nomem:
	free_slots(slots, buffers, entries);
	return -ENOMEM;
}

void vmport_close_outbox(struct rio_mport *mport, int mbox)
{
	struct vmport_port *p = mport->priv;
	struct vmport_outbox *out = &p->outbox[mbox];
	struct vmport_send *s, *next;

	spin_lock_irq(&p->send_lock);
	out->open = false;
	list_for_each_entry_safe(s, next, &p->sends, node) if (s->message && s->mbox == mbox)
		list_del(&s->node);
	spin_unlock_irq(&p->send_lock);
	/* The thread may have one of its messages in hand, or call its client. */
	mutex_lock(&p->callback_lock);
	mutex_unlock(&p->callback_lock);
	free_slots(out->slots, out->buffers, out->entries);
	out->slots = NULL;
	out->buffers = NULL;
}

/*
 * Takes a slot in every case but -EBUSY and -EINVAL, since clients count slots and don't look at the
 * result. A length that is no multiple of 8 is filled with zeros.
 */
int vmport_add_message(struct rio_mport *mport, struct rio_dev *rdev, int mbox, void *buffer,
		       size_t length)
{
	struct vmport_port *p = mport->priv;
	struct vmport_outbox *out;
	struct vmport_send *s;
	unsigned long flags;
	int ret = 0;

	if (mbox < 0 || mbox >= RIO_MAX_MBOX || !length || length > RIO_MAX_MSG_SIZE)
		return -EINVAL;
	out = &p->outbox[mbox];
	spin_lock_irqsave(&p->send_lock, flags);
	if (!out->open) {
		ret = -EINVAL;
	} else if (out->used == out->entries) {
		ret = -EBUSY;
	} else {
		s = &out->slots[out->head];
		out->head = (out->head + 1) % out->entries;
		out->used++;
		s->target = rdev->destid;
		s->length = ALIGN(length, 8);
		memcpy(s->data, buffer, length);
		memset(s->data + length, 0, s->length - length);
		enqueue(p, s, s->length);
	}
	spin_unlock_irqrestore(&p->send_lock, flags);
	if (!ret)
		vmport_wake(p);
	return ret;
}

/* ---- the thread's part --------------------------------------------------------------------------- */

/* What is before a doorbell or a message to the same receiver. */
struct line {
	u32 key;
	u32 sent;  /* that are on their way */
	bool stop; /* nothing goes beyond it */
};

/* NULL: there are too many receivers; it waits. */
static struct line *line_of(struct line *lines, u32 *count, const struct vmport_send *s)
{
	u32 key = s->target << 1 | s->message, i;

	for (i = 0; i < *count; i++)
		if (lines[i].key == key)
			return &lines[i];
	if (*count == LINES)
		return NULL;
	lines[*count] = (struct line){ .key = key };
	return &lines[(*count)++];
}

/*
 * Those behind one that had no room had none either, but the answers are on their way. Until they are here it does
 * not go again: new ones behind it would follow it, and pass them.
 */
static bool has_some_behind(const struct vmport_port *p, const struct vmport_send *s)
{
	const struct vmport_send *t = s;

	list_for_each_entry_continue(t, &p->sends, node) if (t->state == VMPORT_SEND_SENT &&
							     t->target == s->target &&
							     t->message == s->message) return true;
	return false;
}

/*
 * Call with send_lock held. Delivers what is due in this kernel; returns one that must go to another,
 * or NULL. next: when something else is due. Doorbells to another kernel follow one another without waiting for
 * answers; of messages, and behind what waits for its time, nothing does.
 */
static struct vmport_send *scan(struct vmport_port *p, ktime_t now, ktime_t *next)
{
	struct line lines[LINES], *line;
	struct vmport_send *s, *after;
	u32 count = 0;

	*next = KTIME_MAX;
	list_for_each_entry_safe(s, after, &p->sends, node)
	{
		line = line_of(lines, &count, s);
		if (!line || line->stop)
			continue;
		if (!ktime_after(s->due, now)) {
			if (s->state == VMPORT_SEND_SENT) {
				finish(p, s, VMPORT_LOST);
				continue;
			}
			if (s->again && has_some_behind(p, s)) {
				line->stop = true;
				continue;
			}
			s->first = !line->sent;
			if (attempt(p, s, now))
				return s;
			if (s->state == VMPORT_SEND_IDLE)
				continue;
		}
		if (ktime_before(s->due, *next))
			*next = s->due;
		line->stop = s->state != VMPORT_SEND_SENT || s->message ||
			     ++line->sent == ON_THE_WAY;
	}
	return NULL;
}

static void call_outbox(struct vmport_port *p, int mbox)
{
	struct vmport_outbox *out = &p->outbox[mbox];
	struct rio_mport *mport = &p->mport;
	void *dev_id;
	u32 slot;
	bool call;

	mutex_lock(&p->callback_lock);
	spin_lock_irq(&p->send_lock);
	call = out->open && out->moved && mport->outb_msg[mbox].mcback;
	out->moved = false;
	slot = out->tail;
	dev_id = out->dev_id;
	spin_unlock_irq(&p->send_lock);
	if (call) {
		local_bh_disable();
		mport->outb_msg[mbox].mcback(mport, dev_id, mbox, slot);
		local_bh_enable();
	}
	mutex_unlock(&p->callback_lock);
}

ktime_t vmport_send_run(struct vmport_port *p)
{
	struct vmport_packet packet;
	enum vmport_status status;
	struct vmport_send *s;
	ktime_t next;
	int i;

	do {
		mutex_lock(&p->callback_lock);
		spin_lock_irq(&p->send_lock);
		s = scan(p, ktime_get(), &next);
		if (s)
			packet = as_packet(s);
		spin_unlock_irq(&p->send_lock);
		if (s) {
			u32 tag = packet.tag;

			status = vmport_request(p, &packet);
			if (status != VMPORT_PENDING) {
				packet.tag = tag;
				packet.status = status;
				vmport_send_answered(p, &packet);
			}
		}
		mutex_unlock(&p->callback_lock);
	} while (s);
	for (i = 0; i < RIO_MAX_MBOX; i++)
		if (READ_ONCE(p->outbox[i].moved))
			call_outbox(p, i);
	return next;
}

/* Any context: the receiver's kernel says what became of it. */
void vmport_send_answered(struct vmport_port *p, struct vmport_packet *packet)
{
	bool message = VMPORT_TAG_KIND(packet->tag) == VMPORT_TAG_MESSAGE;
	u32 index = VMPORT_TAG_INDEX(packet->tag);
	struct vmport_send *s = NULL;
	struct vmport_outbox *out;
	unsigned long flags;

	spin_lock_irqsave(&p->send_lock, flags);
	if (message) {
		out = &p->outbox[index >> 10];
		if (out->open && (index & 0x3ff) < out->entries)
			s = &out->slots[index & 0x3ff];
	} else if (index < VMPORT_DOORBELLS_OUT) {
		s = &p->doorbells[index];
	}
	if (s && s->state == VMPORT_SEND_SENT && s->gen == VMPORT_TAG_GEN(packet->tag)) {
		if (packet->status == VMPORT_RETRY)
			again(p, s, ktime_get());
		else
			finish(p, s, packet->status);
	}
	spin_unlock_irqrestore(&p->send_lock, flags);
	vmport_wake(p);
}

/* A reset: what has not been delivered never is. */
void vmport_send_drop(struct vmport_port *p)
{
	struct vmport_send *s, *next;
	unsigned long flags;

	spin_lock_irqsave(&p->send_lock, flags);
	list_for_each_entry_safe(s, next, &p->sends, node) finish(p, s, VMPORT_LOST);
	spin_unlock_irqrestore(&p->send_lock, flags);
	vmport_wake(p);
}
