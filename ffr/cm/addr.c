/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * addr.c - addresses of the connection manager: what a sockaddr says, which are a container's own,
 * which container has the others. Control thread.
 *
 * A container is known by its GIDs, which are its IP addresses and the link-local one that the router
 * made (obj/gid.h); what it has beside them is unknown here. Loopback addresses mean the container itself. Multicast
 * destinations are resolved at once: the path is the group.
 */
#include <errno.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <string.h>

#include "ffr/cm/internal.h"

static_assert(sizeof(struct sockaddr_ib) <= sizeof(struct ff_cm_addr), "ABI");

static const uint8_t v4_prefix[12] = { [10] = 0xff, [11] = 0xff };

bool cm_addr_any(const struct cm_addr *a)
{
	return !a->gid.global.subnet_prefix && !a->gid.global.interface_id;
}

bool cm_addr_loopback(const struct cm_addr *a)
{
	static const union ibv_gid one = { .raw = { [15] = 1 } };

	if (a->family == AF_INET)
		return gid_is_v4(a->gid.raw) && a->gid.raw[12] == 127;
	return !memcmp(&a->gid, &one, sizeof(one));
}

bool cm_addr_wild(const struct cm_addr *a)
{
	return cm_addr_any(a) || cm_addr_loopback(a);
}

bool cm_addr_linklocal(const struct cm_addr *a)
{
	return a->family == AF_INET6 && a->gid.raw[0] == 0xfe && (a->gid.raw[1] & 0xc0) == 0x80;
}

bool cm_addr_scopeless(const struct cm_addr *a)
{
	return cm_addr_linklocal(a) && !a->scope;
}

/* ---- sockaddrs ------------------------------------------------------------------------------ */

static void v4_parse(struct cm_addr *a, const struct ff_cm_addr *from)
{
	struct sockaddr_in sin;

	memcpy(&sin, from, sizeof(sin));
	a->port = ntohs(sin.sin_port);
	if (!sin.sin_addr.s_addr)
		return;
	memcpy(a->gid.raw, v4_prefix, sizeof(v4_prefix));
	memcpy(a->gid.raw + 12, &sin.sin_addr, sizeof(sin.sin_addr));
}

static void v6_parse(struct cm_addr *a, const struct ff_cm_addr *from)
{
	struct sockaddr_in6 sin6;

	memcpy(&sin6, from, sizeof(sin6));
	a->port = ntohs(sin6.sin6_port);
	a->scope = sin6.sin6_scope_id;
	memcpy(a->gid.raw, &sin6.sin6_addr, sizeof(a->gid.raw));
}

/* The port space and the port are in the service id, as far as its mask says (IBTA annex A11). */
static int ib_parse(struct cm_addr *a, const struct ff_cm_addr *from, uint16_t ps)
{
	struct sockaddr_ib sib;
	uint64_t sid, mask;

	memcpy(&sib, from, sizeof(sib));
	sid = be64toh(sib.sib_sid);
	mask = be64toh(sib.sib_sid_mask);
	if ((sid ^ (uint64_t)ps << 16) & mask & RDMA_IB_IP_PS_MASK)
		return -EPROTONOSUPPORT;
	a->port = (uint16_t)(sid & mask & RDMA_IB_IP_PORT_MASK);
	memcpy(a->gid.raw, &sib.sib_addr, sizeof(a->gid.raw));
	return 0;
}

int cm_addr_parse(struct cm_addr *a, const struct ff_cm_addr *from, uint16_t ps)
{
	sa_family_t family;

	memcpy(&family, from, sizeof(family));
	*a = (struct cm_addr){ .family = family };
	switch (family) {
	case AF_UNSPEC:
		return 0;
	case AF_INET:
		v4_parse(a, from);
		return 0;
	case AF_INET6:
		v6_parse(a, from);
		return 0;
	case AF_IB:
		return ib_parse(a, from, ps);
	default:
		return -EAFNOSUPPORT;
	}
}

void cm_addr_format(struct ff_cm_addr *to, const struct cm_addr *a, uint16_t ps)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(a->port) };
	struct sockaddr_in6 sin6 = { .sin6_family = AF_INET6, .sin6_port = htons(a->port) };
	struct sockaddr_ib sib = { .sib_family = AF_IB, .sib_pkey = htons(CM_PKEY) };

	memset(to, 0, sizeof(*to));
	switch (a->family) {
	case AF_INET:
		memcpy(&sin.sin_addr, a->gid.raw + 12, sizeof(sin.sin_addr));
		memcpy(to, &sin, sizeof(sin));
		break;
	case AF_INET6:
		sin6.sin6_scope_id = a->scope;
		memcpy(&sin6.sin6_addr, a->gid.raw, sizeof(sin6.sin6_addr));
		memcpy(to, &sin6, sizeof(sin6));
		break;
	case AF_IB:
		sib.sib_sid = htobe64((uint64_t)ps << 16 | a->port);
		sib.sib_sid_mask = UINT64_MAX;
		memcpy(&sib.sib_addr, a->gid.raw, sizeof(sib.sib_addr));
		memcpy(to, &sib, sizeof(sib));
		break;
	default:
		break;
	}
}

/* ---- own addresses -------------------------------------------------------------------------- */

int cm_addr_own(const struct container *c, const struct cm_addr *a)
{
	int i = gid_index(c, &a->gid);

	return i < 0 && cm_addr_loopback(a) && c->num_gids ? GID_ADDR_V2 : i;
}

/* The index of the address that a wildcard sends from to there, or -1. */
static int own_source(const struct container *c, const struct cm_addr *dst)
{
	if (gid_lid(dst->gid.raw) && c->num_gids)
		return GID_LOCAL_V2;
	for (unsigned i = 0; i < c->num_gids; i++)
		if (dst->family == AF_IB || (dst->family == AF_INET) == gid_is_v4(c->gid[i].raw))
			return (int)gid_index_of_addr(i);
	return -1;
}

static void set_loopback(struct cm_addr *a, const struct container *c)
{
	memset(&a->gid, 0, sizeof(a->gid));
	switch (a->family) {
	case AF_INET:
		memcpy(a->gid.raw, v4_prefix, sizeof(v4_prefix));
		a->gid.raw[12] = 127;
		a->gid.raw[15] = 1;
		break;
	case AF_INET6:
		a->gid.raw[15] = 1;
		break;
	default:
		a->gid = c->gid[0];
		break;
	}
}

/* ---- what the client may know --------------------------------------------------------------- */

uint8_t cm_sgid_index(const struct cm_id *id)
{
	return (uint8_t)gid_of_device(id->cont->c, id->device, id->sgid_index);
}

void cm_id_path(const struct cm_id *id, struct ff_cm_query_resp *path)
{
	memset(path, 0, sizeof(*path));
	cm_addr_format(&path->local, &id->src, id->ps);
	cm_addr_format(&path->remote, &id->dst, id->ps);
	path->qkey = id->qkey;
	if (!id->attached)
		return;
	memcpy(path->sgid, &id->sgid, sizeof(path->sgid));
	memcpy(path->dgid, &id->dgid, sizeof(path->dgid));
	path->pkey = CM_PKEY;
	path->port_num = CM_PORT_NUM;
	path->mtu = id->path_mtu ? id->path_mtu : CM_PATH_MTU;
	path->packet_life_time = CM_PACKET_LIFE;
	path->traffic_class = id->tos;
	path->hop_limit = CM_HOP_LIMIT;
}

/* ---- resolving ------------------------------------------------------------------------------ */

static enum dir_answer who_is_there(const struct cm_id *id, const struct cm_addr *dst)
{
	const struct container *own = id->cont->c, *c;

	if (gid_is_mcast(dst->gid.raw) || cm_addr_own(own, dst) >= 0)
		return DIR_HERE;
	c = container_by_gid(&id->cm->ctl->host->containers, own->tenant, &dst->gid);
	if (c)
		return c->dying ? DIR_WAIT : DIR_HERE;
	return cm_wire_look(id->cm, own, &dst->gid);
}

static bool is_there(enum dir_answer a)
{
	return a == DIR_HERE || a == DIR_REMOTE;
}

/*
 * From BOUND: the source and the path are known now. 0, -ENETUNREACH, or -ENODEV: a loopback source is
 * no address of the device and reaches loopback destinations only. An AF_IB source follows from the
 * destination.
 */
static int take_route(struct cm_id *id, const struct cm_addr *dst)
{
	const struct container *c = id->cont->c;
	struct cm_addr src = id->src;
	int i;

	if (!id->attached && cm_addr_loopback(dst)) {
		set_loopback(&src, c);
	} else if (cm_addr_any(&src) || (src.family == AF_IB && cm_addr_loopback(&src))) {
		i = own_source(c, dst);
		if (i < 0)
			return -ENETUNREACH;
		src.gid = cm_addr_own(c, dst) >= 0 ? dst->gid : gid_entry(c, (uint32_t)i).gid;
	} else if (cm_addr_loopback(&src)) {
		return -ENODEV;
	}
	i = cm_addr_own(c, &src);
	if (i < 0)
		return -ENETUNREACH;
	id->src = src;
	id->sgid_index = (uint8_t)i;
	id->sgid = gid_entry(c, (uint32_t)i).gid;
	id->dgid = cm_addr_loopback(dst) ? id->sgid : dst->gid;
	id->attached = true;
	return 0;
}

static void resolved(struct cm_id *id)
{
	int err = take_route(id, &id->dst);

	cm_plain_forget(id); /* it has looked there, too */
	cm_id_state(id, err ? CM_BOUND : CM_ADDR_RESOLVED);
	cm_event_simple(id, err ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED, err);
}

/*
 * Nobody has the address, or the directory is asking: until the deadline that may change. What no container has
 * may be in the NIC's network.
 */
static void look_again(struct cm_id *id, enum dir_answer a)
{
	uint64_t now = cm_now(id->cm), left = id->deadline > now ? id->deadline - now : 0;
	uint64_t next = CM_LOOK_MS + id->cont->num_queries / CM_LOOKS_PER_MS;

	if (a == DIR_NOBODY)
		cm_plain_resolve(id);
	cm_id_timer(id, left < next ? left : next);
}

int cm_resolve_addr(struct cm_id *id, const struct ff_cm_addr *src, const struct ff_cm_addr *dst,
		    int32_t timeout_ms)
{
	const struct container *c = id->cont->c;
	struct cm_addr from, to;
	enum dir_answer a;
	int err;

	err = cm_addr_parse(&to, dst, id->ps);
	if (!err)
		err = cm_addr_parse(&from, src, id->ps);
	if (err)
		return err;
	if (!to.family || (id->state != CM_IDLE && id->state != CM_BOUND))
		return -EINVAL;
	if (id->num_events >= CM_MAX_EVENTS)
		return -ENOMEM;
	if (id->state == CM_IDLE) {
		if (!from.family)
			from = (struct cm_addr){ .family = to.family, .scope = to.scope };
		err = cm_bind(id, &from);
		if (err)
			return err;
	}
	if (id->src.family != to.family)
		return -EINVAL;
	if (cm_addr_scopeless(&to))
		return -EINVAL;
	if (cm_addr_any(&to))
		set_loopback(&to, c);
	if (cm_addr_own(c, &to) < 0 && own_source(c, &to) < 0 && !cm_plain_reaches(id, &to))
		return -ENETUNREACH;
	/* IPv4's routing knows at once that nothing leaves the machine from a loopback address */
	if (to.family == AF_INET && cm_addr_loopback(&id->src) && cm_addr_own(c, &to) < 0)
		return -EINVAL;
	id->dst = to;
	a = who_is_there(id, &to);
	if (is_there(a)) {
		resolved(id);
		return 0;
	}
	id->plain_failed = false;
	cm_id_state(id, CM_ADDR_QUERY);
	/* a negative timeout: as the kernel, without end */
	id->deadline = timeout_ms < 0 ? UINT64_MAX : cm_now(id->cm) + (uint64_t)timeout_ms;
	look_again(id, a);
	return 0;
}

void cm_resolve_expired(struct cm_id *id)
{
	enum dir_answer a = who_is_there(id, &id->dst);

	if (is_there(a)) {
		resolved(id);
		return;
	}
	if (id->deadline > cm_now(id->cm)) {
		look_again(id, a);
		return;
	}
	cm_plain_forget(id);
	cm_id_state(id, CM_BOUND);
	cm_event_simple(id, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
}

/* The path of a RoCE device follows from the addresses: nobody has to be asked. */
int cm_resolve_route(struct cm_id *id)
{
	if (id->state != CM_ADDR_RESOLVED)
		return -EINVAL;
	if (id->num_events >= CM_MAX_EVENTS)
		return -ENOMEM;
	cm_id_state(id, CM_ROUTE_RESOLVED);
	cm_event_simple(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return 0;
}
