/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* gid.c - the GID table of a container's port: see gid.h. [lock] */
#include "ffr/obj/gid.h"

#include <assert.h>

#include "ffr/obj/objects.h"

uint32_t gid_table_len(const struct container *c)
{
	static_assert(GID_TABLE_LEN(1) == GID_NUM_FIXED, "the first address and link-local");

	return c->num_gids ? GID_TABLE_LEN(c->num_gids) + c->has_nic_gid : 0;
}

uint32_t gid_index_of_addr(unsigned i)
{
	return i ? GID_TABLE_LEN(i) : GID_ADDR_V2;
}

uint32_t gid_of_device(const struct container *c, unsigned device, uint32_t index)
{
	uint32_t own = gid_index_of_addr(c->num_gids ? device % c->num_gids : 0);

	if (index <= GID_ADDR_V1) /* the two change places */
		return own + index;
	return own && (index == own || index == own + 1) ? index - own : index;
}

unsigned gid_device(const struct container *c, unsigned num_devices, uint32_t index)
{
	for (unsigned i = 0; i < num_devices; i++)
		if (gid_of_device(c, i, GID_ADDR_V2) == index)
			return i;
	return 0;
}

int gid_nic_index(const struct container *c)
{
	return c->has_nic_gid ? (int)GID_TABLE_LEN(c->num_gids) : -1;
}

struct gid_entry gid_entry(const struct container *c, uint32_t index)
{
	struct gid_entry e = { .gid = c->gid[0], .type = IBV_GID_TYPE_ROCE_V2 };

	if (index >= gid_table_len(c))
		return e;
	if ((int)index == gid_nic_index(c)) {
		e.gid = c->nic_gid;
		return e;
	}
	if (index == GID_LOCAL_V1 || index == GID_LOCAL_V2)
		e.gid = gid_local(c->lid);
	else if (index >= GID_NUM_FIXED)
		e.gid = c->gid[index / 2 - 1];
	if (index == GID_LOCAL_V1 || (index != GID_LOCAL_V2 && index % 2))
		e.type = IBV_GID_TYPE_ROCE_V1;
	return e;
}

int gid_index(const struct container *c, const union ibv_gid *gid)
{
	for (unsigned i = 0; i < c->num_gids; i++)
		if (!memcmp(&c->gid[i], gid, sizeof(*gid)))
			return (int)gid_index_of_addr(i);
	return c->num_gids && c->lid && gid_lid(gid->raw) == c->lid ? GID_LOCAL_V2 : -1;
}

union ibv_gid gid_local(uint16_t lid)
{
	return (union ibv_gid){ .raw = { GID_LOCAL_PREFIX, (uint8_t)(lid >> 8), (uint8_t)lid } };
}

bool gid_is_of(const union ibv_gid *addrs, unsigned n, uint16_t lid, const union ibv_gid *gid)
{
	for (unsigned i = 0; i < n; i++)
		if (!memcmp(&addrs[i], gid, sizeof(*gid)))
			return true;
	return lid && gid_lid(gid->raw) == lid;
}
