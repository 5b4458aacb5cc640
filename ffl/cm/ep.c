/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ep.c - endpoints: an id with its QP in one call, from an rdma_getaddrinfo() result. Any thread.
 * The id is synchronous; rdma_get_request() (conn.c) belongs to passive ones.
 */
#include <stdlib.h>
#include <string.h>

#include "ffl/cm/cm.h"

#define RESOLVE_MS 2000

/* Bound; requests will get QPs like qp_attr. */
static int passive(struct cm_id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
		   struct ibv_qp_init_attr *qp_attr)
{
	int err;

	if (res->ai_src_len != cm_addrlen(res->ai_src_addr))
		return -EINVAL;
	err = cm_id_bind(id, res->ai_src_addr);
	if (err)
		return err;
	if (pd)
		id->id.pd = pd;
	if (!qp_attr)
		return 0;
	id->listen_qp_attr = malloc(sizeof(*qp_attr));
	if (!id->listen_qp_attr)
		return -ENOMEM;
	*id->listen_qp_attr = *qp_attr;
	id->listen_qp_attr->qp_type = res->ai_qp_type;
	return 0;
}

static int active(struct cm_id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
		  struct ibv_qp_init_attr *qp_attr)
{
	const struct sockaddr *src = res->ai_src_len ? res->ai_src_addr : NULL;
	int err;

	if (res->ai_src_len != cm_addrlen(src) || res->ai_dst_len != cm_addrlen(res->ai_dst_addr))
		return -EINVAL;
	err = cm_id_resolve_addr(id, src, res->ai_dst_addr, RESOLVE_MS);
	if (err)
		return err;
	if (res->ai_route_len) {
		if (rdma_set_option(&id->id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, res->ai_route,
				    res->ai_route_len))
			return -errno;
		err = cm_complete(id);
		if (err)
			return err;
	} else if (rdma_resolve_route(&id->id, RESOLVE_MS)) {
		return -errno;
	}
	if (qp_attr) {
		qp_attr->qp_type = res->ai_qp_type;
		if (rdma_create_qp(&id->id, pd, qp_attr))
			return -errno;
	}
	if (res->ai_connect_len) {
		id->connect_data = malloc(res->ai_connect_len);
		if (!id->connect_data)
			return -ENOMEM;
		memcpy(id->connect_data, res->ai_connect, res->ai_connect_len);
		id->connect_len = res->ai_connect_len;
	}
	return 0;
}

FFL_EXPORT int rdma_create_ep(struct rdma_cm_id **idp, struct rdma_addrinfo *res, struct ibv_pd *pd,
			      struct ibv_qp_init_attr *qp_attr)
{
	struct rdma_cm_id *id;
	int err;

	err = cm_id_create(NULL, &id, NULL, res->ai_port_space, res->ai_qp_type);
	if (err)
		return cm_ret(err);
	err = (res->ai_flags & RAI_PASSIVE ? passive : active)(to_id(id), res, pd, qp_attr);
	if (err) {
		rdma_destroy_ep(id);
		return cm_ret(err);
	}
	*idp = id;
	return 0;
}

FFL_EXPORT void rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	if (id->srq)
		rdma_destroy_srq(id);
	rdma_destroy_id(id);
}
