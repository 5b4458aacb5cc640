// SPDX-License-Identifier: GPL-2.0
/*
 * fabric.c - the way of a request. A port's request enters the switch of this kernel, which answers
 * itself (maintenance with no hop left), gives it to another port of this kernel at once, or to an
 * uplink, whose other end does the same. A request keeps the ports by which it entered each switch;
 * its response goes back by those, whatever the route tables say by then.
 *
 * Ports of the switch: first the master ports, then the uplinks. Any context but for uplinks, which
 * need interrupts on and no hard interrupt.
 *
 * Tests: vm/vmport.sh
 */
#include <linux/delay.h>

#include "vmport_int.h"

bool vmport_link_up(u8 port)
{
	if (port < vmport_count)
		return READ_ONCE(vmport_ports[port]->link);
	return vmport_uplink_up(port - vmport_count);
}

void vmport_link_set(struct vmport_port *p, bool up)
{
	if (xchg(&p->link, up) != up)
		vmport_switch_link_changed(p->index, up);
}

static bool is_maintenance(const struct vmport_packet *packet)
{
	return packet->type == VMPORT_MAINT_READ || packet->type == VMPORT_MAINT_WRITE;
}

static bool is_answered(const struct vmport_packet *packet)
{
	return packet->type != VMPORT_NWRITE && packet->type != VMPORT_SWRITE &&
	       packet->type != VMPORT_PORT_WRITE;
}

static enum vmport_status at_endpoint(struct vmport_port *p, struct vmport_packet *packet)
{
	u32 *value = packet->data;
	bool write = packet->type != VMPORT_NREAD;

	if (vmport_chance(READ_ONCE(p->set.error_rate))) {
		vmport_stat(p, errors_injected);
		return VMPORT_ERROR;
	}
	if (!is_maintenance(packet) && packet->type != VMPORT_PORT_WRITE &&
	    packet->target != vmport_device_id(p))
		return VMPORT_LOST;
	switch (packet->type) {
	case VMPORT_MAINT_READ:
		*value = vmport_endpoint_read(p, packet->address);
		return VMPORT_DONE;
	case VMPORT_MAINT_WRITE:
		vmport_endpoint_write(p, packet->address, *value);
		return VMPORT_DONE;
	case VMPORT_PORT_WRITE:
		vmport_receive_port_write(p, packet->data);
		return VMPORT_DONE;
	case VMPORT_DOORBELL:
		return vmport_receive_doorbell(p, packet->source, packet->info, packet->first);
	case VMPORT_MESSAGE:
		return vmport_receive_message(p, packet->mbox, packet->data, packet->length);
	case VMPORT_NREAD:
	case VMPORT_NWRITE:
	case VMPORT_NWRITE_R:
	case VMPORT_SWRITE:
		if (vmport_memory(p, packet->address, packet->data, packet->length, write))
			return VMPORT_ERROR;
		if (write)
			vmport_stat_add(p, bytes_received, packet->length);
		else
			vmport_stat_add(p, bytes_sent, packet->length);
		return VMPORT_DONE;
	default:
		return VMPORT_ERROR;
	}
}

/* Through this kernel's switch, from its port ingress (VMPORT_NO_PORT: from the switch itself). */
static enum vmport_status through_switch(u8 ingress, struct vmport_packet *packet)
{
	u32 *value = packet->data;
	int ret;
	u8 out;

	if (is_maintenance(packet)) {
		if (!packet->hop) {
			if (packet->type == VMPORT_MAINT_READ)
				*value = vmport_switch_read(ingress, packet->address);
			else
				vmport_switch_write(ingress, packet->address, *value);
			return VMPORT_DONE;
		}
		packet->hop--;
	}
	out = vmport_route(packet->target);
	if (out == VMPORT_NO_PORT || !vmport_link_up(out) || vmport_port_locked(out))
		return VMPORT_LOST;
	if (out < vmport_count)
		return at_endpoint(vmport_ports[out], packet);
	if (packet->hops >= VMPORT_HOPS)
		return VMPORT_LOST;
	packet->path[packet->hops++] = ingress;
	ret = vmport_uplink_send(out - vmport_count, packet);
	if (ret)
		return ret == -EBUSY ? VMPORT_RETRY : VMPORT_LOST;
	return VMPORT_PENDING;
}

/*
 * A request of a port. PENDING: another kernel has it, and the answer comes by its tag; a request
 * that has no answer is DONE with that. Data that is read is in packet->data if DONE.
 */
enum vmport_status vmport_request(struct vmport_port *from, struct vmport_packet *packet)
{
	enum vmport_status status;

	packet->source = vmport_device_id(from);
	packet->hops = 0;
	if (!READ_ONCE(from->link))
		return VMPORT_LOST;
	if (vmport_chance(READ_ONCE(from->set.error_rate))) {
		vmport_stat(from, errors_injected);
		return VMPORT_ERROR;
	}
	status = through_switch(from->index, packet);
	if (status == VMPORT_PENDING && !is_answered(packet))
		status = VMPORT_DONE;
	return status;
}

/*
 * Where a transfer to target would go, for those who move memory themselves or must know before:
 * DONE and a port of this kernel, PENDING and an uplink's port, or LOST.
 */
enum vmport_status vmport_way(struct vmport_port *from, u16 target, struct vmport_port **to,
			      u8 *out)
{
	*to = NULL;
	*out = vmport_route(target);
	if (!READ_ONCE(from->link) || *out == VMPORT_NO_PORT || !vmport_link_up(*out) ||
	    vmport_port_locked(*out))
		return VMPORT_LOST;
	if (*out >= vmport_count)
		return VMPORT_PENDING;
	*to = vmport_ports[*out];
	return target == vmport_device_id(*to) ? VMPORT_DONE : VMPORT_LOST;
}

static void answered(u8 port, struct vmport_packet *packet)
{
	struct vmport_port *p = vmport_ports[port];

	switch (VMPORT_TAG_KIND(packet->tag)) {
	case VMPORT_TAG_REQUEST:
		vmport_request_answered(p, packet);
		break;
	case VMPORT_TAG_POSTED:
		if (packet->status != VMPORT_DONE)
			vmport_stat(p, maint_errors);
		break;
	case VMPORT_TAG_SEND:
	case VMPORT_TAG_MESSAGE:
		vmport_send_answered(p, packet);
		break;
	case VMPORT_TAG_DMA:
		vmport_dma_answered(p, packet);
		break;
	}
}

/*
 * A packet from an uplink, whose lock for reception is held: packets of one link stay in order.
 * scratch: VMPORT_FRAME_DATA bytes for what is read.
 */
void vmport_arrived(u8 ingress, struct vmport_packet *packet, void *scratch)
{
	struct vmport_packet response;
	u8 out;

	if (vmport_port_locked(ingress) && !is_maintenance(packet) &&
	    packet->type != VMPORT_RESPONSE)
		return;
	if (packet->type == VMPORT_RESPONSE) {
		if (!packet->hops)
			return;
		out = packet->path[--packet->hops];
		if (out < vmport_count)
			answered(out, packet);
		else if (out - vmport_count < vmport_uplink_count)
			vmport_uplink_send(out - vmport_count, packet);
		return;
	}
	response = *packet;
	if (packet->type == VMPORT_MAINT_READ || packet->type == VMPORT_NREAD)
		response.data = packet->data = scratch;
	response.status = through_switch(ingress, packet);
	if (response.status == VMPORT_PENDING || !is_answered(packet))
		return;
	response.type = VMPORT_RESPONSE;
	response.info = packet->type; /* what it answers */
	if (response.status != VMPORT_DONE ||
	    (packet->type != VMPORT_MAINT_READ && packet->type != VMPORT_NREAD))
		response.length = 0;
	vmport_uplink_send(ingress - vmport_count, &response);
}

/* What the switch tells a host of itself. */
void vmport_send_port_write(u8 port, u32 detect, u32 comptag, u16 target)
{
	union rio_pw_msg msg = {
		.em = { .comptag = comptag, .errdetect = detect, .is_port = port },
	};
	struct vmport_packet packet = {
		.type = VMPORT_PORT_WRITE,
		.target = target,
		.length = sizeof(msg),
		.data = &msg,
	};

	through_switch(VMPORT_NO_PORT, &packet);
}

/* ---- requests that the caller waits for ------------------------------------------------------------ */

static struct vmport_request *request_get(struct vmport_port *p)
{
	struct vmport_request *r, *found = NULL;
	unsigned long flags;

	spin_lock_irqsave(&p->request_lock, flags);
	for (r = p->requests; r < p->requests + VMPORT_REQUESTS && !found; r++)
		if (!r->used) {
			found = r;
			r->used = true;
			r->gen++;
			WRITE_ONCE(r->done, false);
		}
	spin_unlock_irqrestore(&p->request_lock, flags);
	return found;
}

void vmport_request_answered(struct vmport_port *p, struct vmport_packet *packet)
{
	u32 index = VMPORT_TAG_INDEX(packet->tag);
	struct vmport_request *r;
	unsigned long flags;

	if (index >= VMPORT_REQUESTS || packet->length > VMPORT_FRAME_DATA)
		return;
	r = &p->requests[index];
	spin_lock_irqsave(&p->request_lock, flags);
	if (r->used && !r->done && r->gen == VMPORT_TAG_GEN(packet->tag)) {
		r->status = packet->status;
		r->length = packet->length;
		memcpy(r->data, packet->data, packet->length);
		/* The data before done, which the waiter reads without the lock. */
		smp_store_release(&r->done, true);
	}
	spin_unlock_irqrestore(&p->request_lock, flags);
}

/*
 * Asks and waits, by spinning where the caller may hold spinlocks, as the kernel's route calls do and
 * only a kernel that counts preemption (all of Debian's) can tell: softirqs must run meanwhile, which
 * receive the answer, so interrupts must be on.
 */
enum vmport_status vmport_ask(struct vmport_port *p, struct vmport_packet *packet, bool spin)
{
	struct vmport_request *r = request_get(p);
	enum vmport_status status;
	unsigned long flags;
	ktime_t until;
	u32 wanted = packet->length;

	if (!r)
		return VMPORT_LOST;
	packet->tag = VMPORT_TAG(VMPORT_TAG_REQUEST, r - p->requests, r->gen);
	status = vmport_request(p, packet);
	if (status != VMPORT_PENDING)
		goto out;
	status = VMPORT_LOST;
	until = ktime_add_ms(ktime_get(), vmport_timeout_ms);
	/* done before the data, see above */
	while (!smp_load_acquire(&r->done) && ktime_before(ktime_get(), until)) {
		if (!spin || preemptible()) {
			usleep_range(20, 50);
		} else if (!in_interrupt() && !irqs_disabled()) {
			local_bh_disable();
			local_bh_enable();
		}
		cpu_relax();
	}
	if (smp_load_acquire(&r->done)) {
		status = r->status;
		if (status == VMPORT_DONE &&
		    (packet->type == VMPORT_MAINT_READ || packet->type == VMPORT_NREAD)) {
			if (r->length == wanted)
				memcpy(packet->data, r->data, wanted);
			else
				status = VMPORT_ERROR;
		}
	}
out:
	spin_lock_irqsave(&p->request_lock, flags);
	r->used = false;
	spin_unlock_irqrestore(&p->request_lock, flags);
	return status;
}

/*
 * A write to another kernel's registers is posted: the link keeps order, so what is read after it sees
 * it, and the kernel clears route tables, hundreds of writes, with a spinlock held. That it failed is
 * counted when the answer comes.
 */
static enum vmport_status post(struct vmport_port *p, struct vmport_packet *packet)
{
	ktime_t until = ktime_add_ms(ktime_get(), vmport_timeout_ms);
	enum vmport_status status;
	u8 hop = packet->hop;

	packet->tag = VMPORT_TAG(VMPORT_TAG_POSTED, 0, 0);
	while ((status = vmport_request(p, packet)) == VMPORT_RETRY &&
	       ktime_before(ktime_get(), until)) {
		packet->hop = hop;
		cpu_relax();
	}
	return status == VMPORT_PENDING ? VMPORT_DONE : status;
}

static int maintenance(struct vmport_port *p, u8 type, u16 destid, u8 hop, u32 offset, int len,
		       u32 *data)
{
	struct vmport_packet packet = {
		.type = type,
		.target = destid,
		.hop = hop,
		.address = offset,
		.length = 4,
		.data = data,
	};

	if (len != 4 || offset & 3 || offset >= RIO_MAINT_SPACE_SZ)
		return -EINVAL;
	if ((type == VMPORT_MAINT_WRITE ? post(p, &packet) : vmport_ask(p, &packet, true)) ==
	    VMPORT_DONE)
		return 0;
	vmport_stat(p, maint_errors);
	return -EIO;
}

int vmport_maint_read(struct rio_mport *mport, int index, u16 destid, u8 hop, u32 offset, int len,
		      u32 *data)
{
	struct vmport_port *p = mport->priv;
	int ret;

	vmport_stat(p, maint_reads);
	ret = maintenance(p, VMPORT_MAINT_READ, destid, hop, offset, len, data);
	if (ret)
		*data = 0xffffffff; /* as hardware has it: many callers don't look at ret */
	return ret;
}

int vmport_maint_write(struct rio_mport *mport, int index, u16 destid, u8 hop, u32 offset, int len,
		       u32 data)
{
	struct vmport_port *p = mport->priv;

	vmport_stat(p, maint_writes);
	return maintenance(p, VMPORT_MAINT_WRITE, destid, hop, offset, len, &data);
}
