// SPDX-License-Identifier: GPL-2.0
/*
 * wire.c - a packet as it is in a frame between two kernels. What comes from there is checked for
 * form here; what it asks for is for the receiver to judge.
 */
#include <linux/rio_regs.h>

#include "vmport_int.h"

struct wire_packet {
	u8 type;
	u8 status;
	u8 hop;
	u8 mbox;
	__be16 source;
	__be16 target;
	__be16 info;
	u8 hops;
	u8 first;
	u8 reserved[4];
	__be32 tag;
	__be32 length;
	__be64 address;
	u8 path[VMPORT_HOPS];
} __packed;

/* Requests to read have no data, whatever their length; maintenance has 4 bytes in this order. */
static bool has_data(const struct vmport_packet *packet)
{
	return packet->type != VMPORT_MAINT_READ && packet->type != VMPORT_NREAD &&
	       packet->type != VMPORT_DOORBELL;
}

static bool is_register(const struct vmport_packet *packet)
{
	return packet->type == VMPORT_MAINT_WRITE ||
	       (packet->type == VMPORT_RESPONSE && packet->info == VMPORT_MAINT_READ);
}

u32 vmport_wire_size(const struct vmport_packet *packet)
{
	return sizeof(struct wire_packet) + (has_data(packet) ? packet->length : 0);
}

/* Swaps registers in place: between the kernels' orders and the wire's. */
static void swap_words(void *data, u32 length, bool from_wire)
{
	u32 *word = data, i;

	for (i = 0; i < length / 4; i++)
		word[i] = from_wire ? be32_to_cpu((__force __be32)word[i]) :
				      (__force u32)cpu_to_be32(word[i]);
}

static bool has_words(const struct vmport_packet *packet)
{
	return is_register(packet) || packet->type == VMPORT_PORT_WRITE;
}

void vmport_wire_put(void *to, const struct vmport_packet *packet)
{
	struct wire_packet *w = to;

	*w = (struct wire_packet){
		.type = packet->type,
		.status = packet->status,
		.hop = packet->hop,
		.mbox = packet->mbox,
		.first = packet->first,
		.source = cpu_to_be16(packet->source),
		.target = cpu_to_be16(packet->target),
		.info = cpu_to_be16(packet->info),
		.hops = packet->hops,
		.tag = cpu_to_be32(packet->tag),
		.length = cpu_to_be32(packet->length),
		.address = cpu_to_be64(packet->address),
	};
	memcpy(w->path, packet->path, sizeof(w->path));
	if (!has_data(packet))
		return;
	memcpy(w + 1, packet->data, packet->length);
	if (has_words(packet))
		swap_words(w + 1, packet->length, false);
}

static u32 longest(u8 type)
{
	switch (type) {
	case VMPORT_MAINT_READ:
	case VMPORT_MAINT_WRITE:
		return 4;
	case VMPORT_PORT_WRITE:
		return RIO_PW_MSG_SIZE;
	case VMPORT_MESSAGE:
		return RIO_MAX_MSG_SIZE;
	case VMPORT_DOORBELL:
		return 0;
	default:
		return VMPORT_FRAME_DATA;
	}
}

/* -EBADMSG: no packet. The packet's data stays in the frame, which is 4 bytes aligned. */
int vmport_wire_get(struct vmport_packet *packet, void *from, u32 length)
{
	const struct wire_packet *w = from;
	bool whole;

	if (length < sizeof(*w) || !w->type || w->type >= VMPORT_TYPES || w->hops > VMPORT_HOPS)
		return -EBADMSG;
	*packet = (struct vmport_packet){
		.type = w->type,
		.status = w->status,
		.hop = w->hop,
		.mbox = w->mbox,
		.first = w->first,
		.source = be16_to_cpu(w->source),
		.target = be16_to_cpu(w->target),
		.info = be16_to_cpu(w->info),
		.hops = w->hops,
		.tag = be32_to_cpu(w->tag),
		.length = be32_to_cpu(w->length),
		.address = be64_to_cpu(w->address),
		.data = from + sizeof(*w),
	};
	memcpy(packet->path, w->path, sizeof(packet->path));
	whole = packet->type == VMPORT_MAINT_READ || packet->type == VMPORT_MAINT_WRITE ||
		packet->type == VMPORT_PORT_WRITE;
	if (packet->length > longest(packet->type) ||
	    (whole && packet->length != longest(packet->type)) ||
	    length - sizeof(*w) != (has_data(packet) ? packet->length : 0))
		return -EBADMSG;
	if (packet->type == VMPORT_RESPONSE && packet->info == VMPORT_MAINT_READ &&
	    packet->length && packet->length != 4)
		return -EBADMSG;
	if (packet->type >= VMPORT_MAINT_READ && packet->type <= VMPORT_MAINT_WRITE &&
	    (packet->address & 3 || packet->address >= RIO_MAINT_SPACE_SZ))
		return -EBADMSG;
	if (has_words(packet))
		swap_words(packet->data, packet->length, true);
	return 0;
}
