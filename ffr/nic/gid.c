/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * gid.c - the NIC's port, and the GID by which other hosts find the NIC. Control thread, or the worker when a NIC is
 * back. Neighbours: dev.c, which opens the NIC; event.c, which hears that the port has changed.
 *
 * The GID of a NIC that speaks iWARP is the NIC's MAC address. Containers and the connection manager need an IP
 * address, so the router takes the address of the network device that has this MAC.
 *
 * Tests: test_dev.c, cm/test_iwarp.c
 */
#include "ffr/nic/nic.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <string.h>

#include "ffr/obj/gid.h"

#define MAC_LEN 6

/* ---- the address of a NIC that speaks iWARP --------------------------------------------------------------- */

static bool is_of(const struct ifaddrs *i, const struct ibv_gid_entry *e)
{
	struct sockaddr_ll ll;

	if (!i->ifa_addr || i->ifa_addr->sa_family != AF_PACKET)
		return false;
	memcpy(&ll, i->ifa_addr, sizeof(ll));
	if (e->ndev_ifindex)
		return (uint32_t)ll.sll_ifindex == e->ndev_ifindex;
	return ll.sll_halen == MAC_LEN && !memcmp(ll.sll_addr, e->gid.raw, MAC_LEN);
}

/* The GID of an address. False: other hosts do not find the NIC by it, because it is link-local. */
static bool to_gid(const struct sockaddr *sa, union ibv_gid *to)
{
	struct sockaddr_in6 sin6;
	struct sockaddr_in sin;

	memset(to, 0, sizeof(*to));
	if (sa && sa->sa_family == AF_INET) {
		memcpy(&sin, sa, sizeof(sin));
		memset(to->raw + 10, 0xff, 2);
		memcpy(to->raw + 12, &sin.sin_addr, sizeof(sin.sin_addr));
		return true;
	}
	if (!sa || sa->sa_family != AF_INET6)
		return false;
	memcpy(&sin6, sa, sizeof(sin6));
	memcpy(to->raw, &sin6.sin6_addr, sizeof(to->raw));
	return !(to->raw[0] == 0xfe && (to->raw[1] & 0xc0) == 0x80);
}

/* The first address of the network device of that name; of IPv4, if it has one. */
static bool first_address(const struct ifaddrs *all, const char *name, union ibv_gid *to)
{
	union ibv_gid gid;
	bool has = false;

	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		if (strcmp(i->ifa_name, name) != 0 || !to_gid(i->ifa_addr, &gid))
			continue;
		if (!has || gid_is_v4(gid.raw))
			*to = gid;
		has = true;
		if (gid_is_v4(gid.raw))
			break;
	}
	return has;
}

int nic_iwarp_address(const struct ibv_gid_entry *e, union ibv_gid *to)
{
	struct ifaddrs *all;
	int err = ENODATA;

	if (getifaddrs(&all))
		return errno;
	/* several devices may have the same MAC address, such as a VLAN and the device below it */
	for (const struct ifaddrs *i = all; i && err; i = i->ifa_next)
		if (is_of(i, e) && first_address(all, i->ifa_name, to))
			err = 0;
	freeifaddrs(all);
	return err;
}

/* ---- the port and its GID --------------------------------------------------------------------------------- */

int nic_query_port(struct nic_dev *d)
{
	struct verbs_context *v = verbs_get_ctx_op(d->ctx, query_port);

	return v ? v->query_port(d->ctx, d->port, &d->port_attr, sizeof(d->port_attr)) : ENOSYS;
}

/* Do other hosts find the NIC by this GID? RoCE v2: if it is an address. InfiniBand: any GID. */
static bool is_usable(const struct nic_dev *d, const struct ibv_gid_entry *e)
{
	static const union ibv_gid none;

	if (!memcmp(&e->gid, &none, sizeof(none)))
		return false;
	if (d->port_attr.link_layer != IBV_LINK_LAYER_ETHERNET)
		return true;
	return e->gid_type == IBV_GID_TYPE_ROCE_V2 &&
	       !(e->gid.raw[0] == 0xfe && e->gid.raw[1] == 0x80);
}

int nic_choose_gid(struct nic_dev *d)
{
	int index = d->conf->gid_index;
	struct ibv_gid_entry e;
	int last = index < 0 ? d->port_attr.gid_tbl_len - 1 : index;

	for (int i = index < 0 ? 0 : index; i <= last && i <= UINT8_MAX; i++) {
		if (d->lib.query_gid_ex(d->ctx, d->port, (uint32_t)i, &e, 0, sizeof(e)) ||
		    (index < 0 && !d->is_iwarp && !is_usable(d, &e)))
			continue;
		if (!d->is_iwarp)
			d->gid = e.gid;
		else if (nic_iwarp_address(&e, &d->gid))
			continue;
		d->gid_index = (uint8_t)i;
		return 0;
	}
	return ENODATA;
}
