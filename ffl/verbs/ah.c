/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ah.c - address handles, and how to answer the sender of a UD message. Any thread.
 *
 * Theory. A UD receive has 40 bytes of GRH before the data when the completion says so. With
 * RoCE v2 these 40 bytes are an IPv6 header, or 20 bytes that mean nothing and an IPv4
 * header. Both are told apart as everywhere (RoCE v2 annex A17.4.5.2): version 6 at the start,
 * unless the last 20 bytes are an IPv4 header whose checksum is right. The sender becomes the
 * destination; the GID that it wrote to is looked for in the port's table and becomes the source.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <netinet/ip.h>
#include <stdlib.h>
#include <string.h>

#include "ffl/session/ffl.h"

#define GRH_NEXT_IB 0x1b /* grh.next_hdr of InfiniBand and RoCE v1 */

FFL_EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct ffl_context *ctx = to_pd(pd)->ctx;
	struct ff_create_ah_req req = { .pd = to_pd(pd)->handle };
	struct ff_create_ah_resp resp;
	struct ffl_ah *ah;

	if (attr->port_num < 1 || attr->port_num > ctx->dev.phys_port_cnt)
		return ffl_err_ptr(EINVAL);
	memcpy(req.attr.dgid, attr->grh.dgid.raw, sizeof(req.attr.dgid));
	req.attr.flow_label = attr->grh.flow_label;
	req.attr.sgid_index = attr->grh.sgid_index;
	req.attr.hop_limit = attr->grh.hop_limit;
	req.attr.traffic_class = attr->grh.traffic_class;
	req.attr.dlid = attr->dlid;
	req.attr.sl = attr->sl;
	req.attr.src_path_bits = attr->src_path_bits;
	req.attr.static_rate = attr->static_rate;
	req.attr.is_global = attr->is_global;
	req.attr.port_num = attr->port_num;

	ah = FFL_MAKE(sizeof(*ah), ctx, CREATE_AH, &req, &resp);
	if (!ah)
		return NULL;
	atomic_fetch_add(&to_pd(pd)->refs, 1);
	ah->ctx = ctx;
	ah->handle = resp.ah;
	ah->ibv.context = pd->context;
	ah->ibv.pd = pd;
	ah->ibv.handle = resp.ah;
	return &ah->ibv;
}

FFL_EXPORT int ibv_destroy_ah(struct ibv_ah *ibah)
{
	struct ffl_ah *ah = to_ah(ibah);
	struct ff_destroy_ah_req req = { .ah = ah->handle };
	struct ff_destroy_ah_resp resp;
	int ret;

	ffl_posted_wait(ah->ctx, &(struct ffl_going){ .kind = FFL_GOING_AH, .key = ah->handle });
	ret = FFL_CALL(ah->ctx, DESTROY_AH, &req, &resp);
	if (ret && ret != -EIO)
		return ffl_ret(ret);
	atomic_fetch_sub(&to_pd(ibah->pd)->refs, 1);
	free(ah);
	return 0;
}

/* Index of a GID of that type in the port's table, or -1 with errno. */
static int find_gid(struct ibv_context *ctx, uint8_t port, const union ibv_gid *gid, bool roce_v2)
{
	union ibv_gid g;
	uint32_t type;
	int i;

	for (i = 0; !ibv_query_gid(ctx, port, i, &g); i++) {
		if (memcmp(&g, gid, sizeof(g)))
			continue;
		if (ffl_query_gid_type(ctx, port, i, &type))
			return -1;
		if (type == roce_v2)
			return i;
	}
	return -1;
}

static void map_ipv4(union ibv_gid *gid, uint32_t addr /* network byte order */)
{
	memset(gid, 0, sizeof(*gid));
	gid->raw[10] = gid->raw[11] = 0xff;
	memcpy(gid->raw + 12, &addr, 4);
}

/* The checksum of a header of 20 bytes is right when it sums up to all ones. */
static bool ipv4_sum_ok(const struct iphdr *ip)
{
	uint16_t half[10];
	uint32_t sum = 0;
	unsigned int i;

	memcpy(half, ip, sizeof(half));
	for (i = 0; i < ARRAY_SIZE(half); i++)
		sum += half[i];
	sum = (sum & 0xffff) + (sum >> 16);
	sum += sum >> 16;
	return (uint16_t)sum == 0xffff;
}

/* 4, 6, or 0 when it is neither. */
static int grh_version(const struct ibv_grh *grh, struct iphdr *ip)
{
	memcpy(ip, (const uint8_t *)grh + sizeof(*grh) - sizeof(*ip), sizeof(*ip));
	if (be32toh(grh->version_tclass_flow) >> 28 != 6)
		return ip->version == 4 ? 4 : 0;
	return ip->ihl == 5 && ip->version == 4 && ipv4_sum_ok(ip) ? 4 : 6;
}

static int global_from_grh(struct ibv_context *ctx, uint8_t port, const struct ibv_grh *grh,
			   struct ibv_ah_attr *attr)
{
	uint32_t vtf = be32toh(grh->version_tclass_flow);
	union ibv_gid local;
	struct iphdr ip;
	bool roce_v2;
	int i;

	switch (grh_version(grh, &ip)) {
	case 4:
		map_ipv4(&local, ip.daddr);
		map_ipv4(&attr->grh.dgid, ip.saddr);
		attr->grh.hop_limit = ip.ttl;
		attr->grh.traffic_class = ip.tos;
		roce_v2 = true;
		if (IN_CLASSD(ntohl(ip.daddr)))
			goto invalid;
		break;
	case 6:
		if (grh->next_hdr != IPPROTO_UDP && grh->next_hdr != GRH_NEXT_IB)
			goto unknown;
		local = grh->dgid;
		attr->grh.dgid = grh->sgid;
		attr->grh.hop_limit = grh->hop_limit;
		attr->grh.traffic_class = vtf >> 20;
		roce_v2 = grh->next_hdr == IPPROTO_UDP;
		if (local.raw[0] == 0xff)
			goto invalid;
		break;
	default:
		goto unknown;
	}
	attr->grh.flow_label = vtf & 0xfffff;
	i = find_gid(ctx, port, &local, roce_v2);
	if (i < 0)
		return -1;
	attr->grh.sgid_index = i;
	return 0;

invalid: /* a multicast group is in no GID table */
	errno = EINVAL;
	return -1;
unknown:
	errno = EPROTONOSUPPORT;
	return -1;
}

/* 0, or -1 with errno. */
FFL_EXPORT int ibv_init_ah_from_wc(struct ibv_context *ctx, uint8_t port, struct ibv_wc *wc,
				   struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->dlid = wc->slid;
	attr->sl = wc->sl;
	attr->src_path_bits = wc->dlid_path_bits;
	attr->port_num = port;
	if (!(wc->wc_flags & IBV_WC_GRH))
		return 0;
	attr->is_global = 1;
	return global_from_grh(ctx, port, grh, attr);
}

FFL_EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc,
						struct ibv_grh *grh, uint8_t port)
{
	struct ibv_ah_attr attr;

	if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr))
		return NULL;
	return ibv_create_ah(pd, &attr);
}
