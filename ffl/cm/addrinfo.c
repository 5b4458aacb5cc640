/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * addrinfo.c - rdma_getaddrinfo() and its kin: names to addresses by getaddrinfo(3). Any thread.
 *
 * There is no ibacm and no subnet administrator here: results have no routes, and RAI_SA answers
 * EOPNOTSUPP. Of what getaddrinfo(3) finds, the first is returned, as by rdma-core.
 *
 * Tests: system/cm_ids.c
 */
#include <endian.h>
#include <infiniband/ib.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "ffl/cm/cm.h"

static void hints_to_ai(struct addrinfo *ai, const struct rdma_addrinfo *h)
{
	*ai = (struct addrinfo){ 0 };
	if (h->ai_flags & RAI_PASSIVE)
		ai->ai_flags |= AI_PASSIVE;
	if (h->ai_flags & RAI_NUMERICHOST)
		ai->ai_flags |= AI_NUMERICHOST;
	if (h->ai_family != AF_IB)
		ai->ai_family = h->ai_family;
	switch (h->ai_qp_type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		ai->ai_socktype = SOCK_STREAM;
		break;
	case IBV_QPT_UD:
		ai->ai_socktype = SOCK_DGRAM;
		break;
	}
	switch (h->ai_port_space) {
	case RDMA_PS_TCP:
		ai->ai_protocol = IPPROTO_TCP;
		break;
	case RDMA_PS_IPOIB:
	case RDMA_PS_UDP:
		ai->ai_protocol = IPPROTO_UDP;
		break;
	case RDMA_PS_IB:
		if (ai->ai_socktype)
			ai->ai_protocol = ai->ai_socktype == SOCK_STREAM ? IPPROTO_TCP :
									   IPPROTO_UDP;
		break;
	}
}

static int copy_addr(struct sockaddr **to, socklen_t *to_len, const struct sockaddr *addr,
		     socklen_t len)
{
	*to = malloc(len);
	if (!*to)
		return -ENOMEM;
	memcpy(*to, addr, len);
	*to_len = len;
	return 0;
}

/* An IPv6 address that is meant as a GID. */
static int copy_as_ib(struct sockaddr **to, socklen_t *to_len, const struct sockaddr_in6 *in6,
		      int port_space)
{
	uint16_t port = be16toh(in6->sin6_port);
	struct sockaddr_ib *ib = calloc(1, sizeof(*ib));

	if (!ib)
		return -ENOMEM;
	ib->sib_family = AF_IB;
	ib->sib_pkey = htobe16(0xffff);
	ib->sib_flowinfo = in6->sin6_flowinfo;
	ib->sib_scope_id = in6->sin6_scope_id;
	memcpy(ib->sib_addr.sib_raw, &in6->sin6_addr, sizeof(in6->sin6_addr));
	ib->sib_sid = htobe64(((uint64_t)port_space << 16) | port);
	ib->sib_sid_mask =
		htobe64((port_space ? RDMA_IB_IP_PS_MASK : 0) | (port ? RDMA_IB_IP_PORT_MASK : 0));
	*to = (struct sockaddr *)ib;
	*to_len = sizeof(*ib);
	return 0;
}

static int rai_from_ai(struct rdma_addrinfo *rai, const struct rdma_addrinfo *h,
		       const struct addrinfo *ai)
{
	bool passive = ai->ai_flags & AI_PASSIVE;
	struct sockaddr **addr = passive ? &rai->ai_src_addr : &rai->ai_dst_addr;
	socklen_t *len = passive ? &rai->ai_src_len : &rai->ai_dst_len;
	char **name = passive ? &rai->ai_src_canonname : &rai->ai_dst_canonname;

	rai->ai_qp_type = h->ai_qp_type			? h->ai_qp_type :
			  ai->ai_socktype == SOCK_DGRAM ? IBV_QPT_UD :
							  IBV_QPT_RC;
	rai->ai_port_space = h->ai_port_space		    ? h->ai_port_space :
			     ai->ai_protocol == IPPROTO_UDP ? RDMA_PS_UDP :
							      RDMA_PS_TCP;
	if (passive)
		rai->ai_flags = RAI_PASSIVE;
	if (ai->ai_canonname)
		*name = strdup(ai->ai_canonname);
	if ((h->ai_flags & RAI_FAMILY) && h->ai_family == AF_IB &&
	    (h->ai_flags & RAI_NUMERICHOST)) {
		if (ai->ai_family != AF_INET6) /* no GID */
			return EAI_ADDRFAMILY;
		rai->ai_family = AF_IB;
		return copy_as_ib(addr, len, (const struct sockaddr_in6 *)ai->ai_addr,
				  rai->ai_port_space);
	}
	rai->ai_family = ai->ai_family;
	return copy_addr(addr, len, ai->ai_addr, ai->ai_addrlen);
}

/* 0, getaddrinfo(3)'s error, or -1 with errno. */
static int resolve(const char *node, const char *service, const struct rdma_addrinfo *hints,
		   struct rdma_addrinfo *rai)
{
	static const struct rdma_addrinfo none;
	struct addrinfo ai_hints, *ai;
	int ret;

	if (hints)
		hints_to_ai(&ai_hints, hints);
	ret = getaddrinfo(node, service, hints ? &ai_hints : NULL, &ai);
	if (ret)
		return ret;
	ret = rai_from_ai(rai, hints ? hints : &none, ai);
	freeaddrinfo(ai);
	return ret == -ENOMEM ? cm_ret(ret) : ret;
}

FFL_EXPORT void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	struct rdma_addrinfo *next;

	for (; res; res = next) {
		next = res->ai_next;
		free(res->ai_connect);
		free(res->ai_route);
		free(res->ai_src_canonname);
		free(res->ai_dst_canonname);
		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res);
	}
}

/* 0, getaddrinfo(3)'s error, or -1 with errno; EINVAL: nothing is asked for. */
FFL_EXPORT int rdma_getaddrinfo(const char *node, const char *service,
				const struct rdma_addrinfo *hints, struct rdma_addrinfo **res)
{
	struct rdma_addrinfo *rai;
	int ret = 0;

	if (!service && !node && !hints)
		return cm_ret(-EINVAL);
	if (hints && hints->ai_flags & CM_RAI_SA)
		return cm_ret(-EOPNOTSUPP);
	rai = calloc(1, sizeof(*rai));
	if (!rai)
		return -1;
	if (node || service) {
		ret = resolve(node, service, hints, rai);
	} else {
		rai->ai_flags = hints->ai_flags;
		rai->ai_family = hints->ai_family;
		rai->ai_qp_type = hints->ai_qp_type;
		rai->ai_port_space = hints->ai_port_space;
		if (hints->ai_dst_len)
			ret = cm_ret(copy_addr(&rai->ai_dst_addr, &rai->ai_dst_len,
					       hints->ai_dst_addr, hints->ai_dst_len));
	}
	if (!ret && !rai->ai_src_len && hints && hints->ai_src_len)
		ret = cm_ret(copy_addr(&rai->ai_src_addr, &rai->ai_src_len, hints->ai_src_addr,
				       hints->ai_src_len));
	if (ret) {
		rdma_freeaddrinfo(rai);
		return ret;
	}
	*res = rai;
	return 0;
}

/* ---- the same with an event (RDMACM_1.4) --------------------------------------------------------------- */

/* An event of the library's own making goes through the router, so that the channel is readable. */
static int write_event(struct cm_id *id, uint32_t event, int status, uint64_t arg)
{
	struct ff_cm_write_event_req req = {
		.event = { .uid = (uintptr_t)id,
			   .event = event,
			   .status = status,
			   .private_data_len = sizeof(arg) },
	};
	struct ff_cm_write_event_resp resp;
	bool is_live;
	int err;

	do {
		is_live = cm_id_enter(id);
		req.id = req.event.id = id->handle;
		req.channel = to_channel(id->id.channel)->line->handle;
		err = CM_CALL_DATA(id->ses, CM_WRITE_EVENT, &req, &arg, sizeof(arg), &resp);
		cm_id_leave();
	} while (err == -EIO && is_live && !id->dev);
	return err;
}

FFL_EXPORT int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
				   uint64_t arg)
{
	if ((unsigned)event != CM_EVENT_USER)
		return cm_ret(-EINVAL);
	return cm_ret(write_event(to_id(id), CM_EVENT_USER, status, arg));
}

/* Sets resolving_ai. -EBUSY: it is set. */
static int resolving_start(struct cm_id *id)
{
	bool busy;

	pthread_mutex_lock(&cm_lock);
	busy = id->resolving_ai;
	id->resolving_ai = true;
	pthread_mutex_unlock(&cm_lock);
	return busy ? -EBUSY : 0;
}

/* Ends resolving, and takes the result away. */
static struct rdma_addrinfo *resolving_end(struct cm_id *id)
{
	struct rdma_addrinfo *rai;

	pthread_mutex_lock(&cm_lock);
	rai = id->resolved_ai;
	id->resolved_ai = NULL;
	id->resolving_ai = false;
	pthread_mutex_unlock(&cm_lock);
	return rai;
}

/* RDMA_CM_EVENT_ADDRINFO_RESOLVED follows. EBUSY until rdma_query_addrinfo() took the last result. */
FFL_EXPORT int rdma_resolve_addrinfo(struct rdma_cm_id *cm_id, const char *node,
				     const char *service, const struct rdma_addrinfo *hints)
{
	struct rdma_addrinfo *rai;
	struct cm_id *id;
	int err;

	if (!cm_id)
		return cm_ret(-EINVAL);
	id = to_id(cm_id);
	err = resolving_start(id);
	if (err)
		return cm_ret(err);
	err = rdma_getaddrinfo(node, service, hints, &rai);
	if (err) {
		resolving_end(id);
		return err;
	}
	pthread_mutex_lock(&cm_lock);
	id->resolved_ai = rai;
	pthread_mutex_unlock(&cm_lock);
	err = write_event(id, CM_EVENT_INTERNAL, 0, CM_EVENT_ADDRINFO_RESOLVED);
	if (!err)
		return cm_ret(cm_complete(id));
	rdma_freeaddrinfo(resolving_end(id));
	return cm_ret(err);
}

/* The caller's to free. ENOENT: there is none yet. */
FFL_EXPORT int rdma_query_addrinfo(struct rdma_cm_id *cm_id, struct rdma_addrinfo **info)
{
	struct cm_id *id;
	bool there;

	if (!cm_id || !info)
		return cm_ret(-EINVAL);
	id = to_id(cm_id);
	pthread_mutex_lock(&cm_lock);
	there = id->resolving_ai && id->resolved_ai;
	pthread_mutex_unlock(&cm_lock);
	if (!there)
		return cm_ret(-ENOENT);
	*info = resolving_end(id);
	return 0;
}
