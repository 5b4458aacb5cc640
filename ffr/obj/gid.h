/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * gid.h - the GID table of a container's port, and whose a GID is. [lock]
 *
 * A RoCE NIC's table has each address of its network device twice, for RoCE v1 and for v2: its link-local
 * IPv6 address, and its IPv4 and IPv6 ones. Here the router makes the table from what the orchestrator has
 * given the container, so it is kept nowhere:
 *
 *	0	its first address	RoCE v2
 *	1	its first address	RoCE v1
 *	2	link-local		RoCE v1
 *	3	link-local		RoCE v2
 *	4, 5	its second address	RoCE v2, v1
 *	last	the host's NIC's own, where the operator allows its use (nic_direct)	RoCE v2
 *
 * The address stays at 0, which programs take that are told nothing, and 2 and 3 are of the types that
 * those two have with most NICs: who is told "-x 3" means RoCE v2.
 *
 * The link-local address is fe80::/64 and the port's GUID, which ends with the LID. LIDs are the
 * orchestrator's, one in the whole cluster for each container, so nobody has another's link-local address,
 * and who has one is found as for a path by LID. No container is given a link-local address as one of its
 * own (ffo/base/alloc.c). The type matters to the header of a datagram only (soft/ud.c): a path leads to
 * the same container whatever the indices of both sides are.
 */
#ifndef FFR_OBJ_GID_H
#define FFR_OBJ_GID_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct container;

#define LID_MULTICAST 0xc000u /* IBTA 4.1.3: first LID that is not one port's */

/* Indices that every container has. */
enum { GID_ADDR_V2, GID_ADDR_V1, GID_LOCAL_V1, GID_LOCAL_V2, GID_NUM_FIXED };
#define GID_TABLE_LEN(num_addrs) (2u + 2u * (num_addrs)) /* without the NIC's */

struct gid_entry {
	union ibv_gid gid;
	enum ibv_gid_type type; /* IBV_GID_TYPE_ROCE_V1 or _V2 */
};

/* Entries of the container's table, none of them empty. */
uint32_t gid_table_len(const struct container *c);
/* An entry; beyond the table: the first one. */
struct gid_entry gid_entry(const struct container *c, uint32_t index);
/*
 * An index of a device's table, as one of the container's, and the other way around. A container may have several
 * devices, which all have its GIDs: those of its addresses are dealt out, and a device's own is in the first place.
 */
uint32_t gid_of_device(const struct container *c, unsigned device, uint32_t index);
/*
 * The first of the container's devices that has that entry of the container's table in the first place, or device 0.
 */
unsigned gid_device(const struct container *c, unsigned num_devices, uint32_t index);
/* Where the container has that GID, as RoCE v2; -1: it is not its. */
int gid_index(const struct container *c, const union ibv_gid *gid);
/* That of the host's NIC, or -1: the container has it not. */
int gid_nic_index(const struct container *c);
/* The index of one of its addresses, c->gid[i], as RoCE v2. */
uint32_t gid_index_of_addr(unsigned i);

/* The link-local GID of the container with that LID. */
union ibv_gid gid_local(uint16_t lid);
/* Has a container with these addresses and that LID the GID? */
bool gid_is_of(const union ibv_gid *addrs, unsigned n, uint16_t lid, const union ibv_gid *gid);

#define GID_LOCAL_PREFIX 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x02, 0x66, 0x66, 0xff, 0xfe, 0

/* The LID of the container whose link-local GID it is; 0: it is nobody's. */
static inline uint16_t gid_lid(const uint8_t gid[16])
{
	static const uint8_t prefix[14] = { GID_LOCAL_PREFIX };
	uint16_t lid = (uint16_t)(gid[14] << 8 | gid[15]);

	return lid < LID_MULTICAST && !memcmp(gid, prefix, sizeof(prefix)) ? lid : 0;
}

/* An IPv4 address, ::ffff:a.b.c.d */
static inline bool gid_is_v4(const uint8_t gid[16])
{
	static const uint8_t v4mapped[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(gid, v4mapped, sizeof(v4mapped));
}

/*
 * A multicast GID: an IPv6 multicast address or an IPv4 one (RoCE v2), as the kernel's
 * rdma_is_multicast_addr() has it.
 */
static inline bool gid_is_mcast(const uint8_t gid[16])
{
	return gid[0] == 0xff || ((gid[12] & 0xf0) == 0xe0 && gid_is_v4(gid));
}

#endif
