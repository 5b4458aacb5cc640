/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * dgram.c - SOCK_DGRAM: datagrams over one UD QP. Any thread. peer.c finds the
 * peer's QP for an address.
 *
 * A datagram is one UD message: a header that names the sender's port, and the data, together at
 * most the path's MTU; what is larger fails with EMSGSIZE. The sender's address is the GID of the
 * GRH, which the router vouches for. A datagram for which no receive is posted is lost, and so is
 * one whose address nobody answers for in time, as with UDP.
 *
 * Tests: system/rs_dgram.c
 */
#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "ffl/session/freeflow.h"
#include "ffl/rsocket/rsocket.h"

#define GRH_LEN	   40u
#define SLOTS_MIN  16u
#define SLOT_BYTES 2048u /* of SO_RCVBUF and SO_SNDBUF for each slot */
#define WC_BATCH   16
#define RESOLVE_US 2000000u	/* that a send waits for an address to be resolved */
#define WR_RECV	   (1ull << 63) /* wr_id: this and the slot, or the number of a send */

struct header {
	uint8_t magic, version;
	uint16_t port; /* network byte order */
	uint32_t reserved;
};
#define MAGIC	0x72
#define VERSION 1

/* ---- receiving: completions --------------------------------------------------------------------------- */

static int post_recv(struct rsocket *rs, uint32_t slot)
{
	struct rs_dgram *d = &rs->d;
	struct ibv_sge sge = {
		.addr = (uintptr_t)d->rbuf + (size_t)slot * d->stride,
		.length = GRH_LEN + d->mtu,
		.lkey = d->rmr->lkey,
	};
	struct ibv_recv_wr *bad, wr = { .wr_id = WR_RECV | slot, .sg_list = &sge, .num_sge = 1 };

	return -ibv_post_recv(d->qp, &wr, &bad);
}

static void addr_of_gid(union rs_addr *a, int domain, const union ibv_gid *gid, uint16_t port)
{
	struct in6_addr ip;

	memcpy(&ip, gid, sizeof(ip));
	memset(a, 0, sizeof(*a));
	if (domain == AF_INET && IN6_IS_ADDR_V4MAPPED(&ip)) {
		a->sin.sin_family = AF_INET;
		a->sin.sin_port = port;
		memcpy(&a->sin.sin_addr, gid->raw + 12, sizeof(a->sin.sin_addr));
	} else {
		a->sin6.sin6_family = AF_INET6;
		a->sin6.sin6_port = port;
		a->sin6.sin6_addr = ip;
	}
}

/* The sender's address: in an IPv6 header or GRH, or in an IPv4 header at the end. */
static union ibv_gid source_of(const uint8_t grh[GRH_LEN])
{
	union ibv_gid gid = { .raw = { [10] = 0xff, 0xff } };

	if (grh[0] >> 4 == 6)
		memcpy(&gid, grh + offsetof(struct ibv_grh, sgid), sizeof(gid));
	else
		memcpy(gid.raw + 12, grh + GRH_LEN - 8, 4);
	return gid;
}

/* A message in a slot. false: it is not for the program. */
static bool take(struct rsocket *rs, const struct ibv_wc *wc, uint32_t slot)
{
	struct rs_dgram *d = &rs->d;
	const uint8_t *p = d->rbuf + (size_t)slot * d->stride;
	struct rs_rx *rx = &d->rx[d->rx_tail % d->rslots];
	struct header h;
	union ibv_gid gid;

	if (wc->status != IBV_WC_SUCCESS || !(wc->wc_flags & IBV_WC_GRH) ||
	    wc->byte_len < GRH_LEN + sizeof(h))
		return false;
	memcpy(&h, p + GRH_LEN, sizeof(h));
	gid = source_of(p);
	if (h.magic != MAGIC || h.version != VERSION)
		return false;
	rx->slot = slot;
	rx->len = wc->byte_len - GRH_LEN - (uint32_t)sizeof(h);
	addr_of_gid(&rx->from, rs->domain, &gid, h.port);
	rs_peer_heard(rs, &rx->from.sa, &gid, wc->src_qp);
	if (d->to.sa.sa_family != AF_UNSPEC && !rs_addr_eq(&d->to.sa, &rx->from.sa))
		return false;
	atomic_store_explicit(&d->rx_tail, d->rx_tail + 1, memory_order_release);
	return true;
}

void rs_dgram_process(struct rsocket *rs)
{
	struct rs_dgram *d = &rs->d;
	struct ibv_wc wc[WC_BATCH];
	bool gone = false;
	int n;

	if (rs->state != RS_OPEN)
		return;
	do {
		n = ibv_poll_cq(rs->cq.cq, WC_BATCH, wc);
		for (int i = 0; i < n; i++) {
			uint32_t k = (uint32_t)wc[i].wr_id;

			gone |= wc[i].status == IBV_WC_WR_FLUSH_ERR;
			if (!(wc[i].wr_id & WR_RECV))
				atomic_store_explicit(&d->sdone, k, memory_order_release);
			else if (!take(rs, &wc[i], k) && wc[i].status == IBV_WC_SUCCESS)
				post_recv(rs, k);
		}
		if (n > 0) {
			rs->cq.fired = true;
			rs->cq.empty = 0;
		}
	} while (n == WC_BATCH);
	if (n < 0 || gone) {
		rs->err = EIO; /* the router is gone, or this is a child */
		rs->state = RS_FAILED;
		return;
	}
	/* peers ask for our QP there, and answers of others come; a busy receiver looks, too */
	rs_cm_look(rs);
}

/* ---- receiving: the program ------------------------------------------------------------------------------ */

static bool readable(struct rsocket *rs)
{
	return rs->d.rx_head != rs->d.rx_tail || rs->err || rs->state == RS_FAILED;
}

ssize_t rs_dgram_recv(struct rsocket *rs, struct rs_iter *it, size_t len, int flags,
		      union rs_addr *from, size_t *full)
{
	struct rs_dgram *d = &rs->d;
	const struct rs_rx *rx;
	int err;

	*full = 0;
	if (rs->state != RS_OPEN) /* never bound: nothing can come */
		return rs->state == RS_FAILED ? -EIO : -EINVAL;
	if (d->rx_head == atomic_load_explicit(&d->rx_tail, memory_order_acquire)) {
		err = rs_wait(rs, readable, rs_nonblock(rs, flags), rs->opt.rcvtimeo);
		if (err)
			return err;
		if (d->rx_head == d->rx_tail)
			return -rs_take_err(rs);
	}
	rx = &d->rx[d->rx_head % d->rslots];
	*full = rx->len;
	*from = rx->from;
	len = rs_min(len, (size_t)rx->len);
	rs_scatter(it, d->rbuf + (size_t)rx->slot * d->stride + GRH_LEN + sizeof(struct header),
		   len);
	if (!(flags & MSG_PEEK)) {
		post_recv(rs, rx->slot);
		d->rx_head++;
	}
	return (ssize_t)len;
}

/* ---- sending -------------------------------------------------------------------------------------------------- */

static bool has_slot(const struct rs_dgram *d)
{
	return d->sposted - d->sdone < d->sslots;
}

static bool writable(struct rsocket *rs)
{
	return rs->state != RS_OPEN || has_slot(&rs->d);
}

bool rs_dgram_flushed(struct rsocket *rs)
{
	return rs->state != RS_OPEN || (!rs->d.num_resolving && rs->d.sposted == rs->d.sdone);
}

int rs_dgram_post(struct rsocket *rs, struct ibv_ah *ah, uint32_t qpn, const void *buf,
		  uint32_t len)
{
	struct rs_dgram *d = &rs->d;
	uint32_t seq = d->sposted + 1;
	struct header *h = (void *)(d->sbuf + (size_t)(seq % d->sslots) * d->stride);
	struct ibv_sge sge = {
		.addr = (uintptr_t)h,
		.length = (uint32_t)sizeof(*h) + len,
		.lkey = d->smr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = seq,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED |
			      (sge.length <= d->inline_max ? IBV_SEND_INLINE : 0),
		.wr.ud = { .ah = ah, .remote_qpn = qpn, .remote_qkey = RDMA_UDP_QKEY },
	};
	int err;

	if (!has_slot(d))
		return -EAGAIN;
	*h = (struct header){ .magic = MAGIC, .version = VERSION, .port = d->port };
	memcpy(h + 1, buf, len);
	err = ibv_post_send(d->qp, &wr, &bad);
	if (!err)
		d->sposted = seq;
	return -err;
}

static bool resolved(struct rsocket *rs)
{
	return rs_peers_resolved(rs) || rs->err;
}

ssize_t rs_dgram_send(struct rsocket *rs, struct rs_iter *it, size_t len, int flags,
		      const struct sockaddr *to)
{
	struct rs_dgram *d = &rs->d;
	uint8_t copy[4096];
	const void *buf = NULL;
	struct rs_peer *p;
	bool fresh = false, wait;
	int err = 0;

	if (!to) {
		if (d->to.sa.sa_family == AF_UNSPEC)
			return -EDESTADDRREQ;
		to = &d->to.sa;
	}
	if (to->sa_family != rs->domain)
		return -EAFNOSUPPORT;
	rs_lock(&rs->lock);
	if (rs->state == RS_INIT) {
		err = rs_dgram_open(rs);
		fresh = !err;
	} else if (rs->state == RS_FAILED) {
		err = -EIO;
	}
	rs_unlock(&rs->lock);
	if (fresh)
		rs_service_add(rs);
	if (err)
		return err;
	err = -rs_take_err(rs);
	if (err)
		return err;
	if (len > rs_min((size_t)d->mtu, sizeof(copy)) - sizeof(struct header))
		return -EMSGSIZE;
	if (!has_slot(d)) {
		err = rs_wait(rs, writable, rs_nonblock(rs, flags), rs->opt.sndtimeo);
		if (err)
			return err;
	}
	if (len)
		buf = rs_contiguous(it, len);
	if (!buf) {
		rs_gather(it, copy, len);
		buf = copy;
	}
	rs_lock(&rs->lock);
	p = rs_peer_get(rs, to);
	err = p ? rs_peer_send(rs, p, buf, (uint32_t)len) : -ENOMEM;
	wait = !err && !rs_nonblock(rs, flags) && !rs_peers_resolved(rs);
	rs_unlock(&rs->lock);
	if (wait) {
		err = rs_wait_served(rs, resolved, RESOLVE_US);
		if (err == -EAGAIN) /* it goes when the answer comes */
			err = 0;
		if (!err && d->to.sa.sa_family != AF_UNSPEC)
			err = -rs_take_err(rs);
	}
	return err ? err : (ssize_t)len;
}

short rs_dgram_revents(struct rsocket *rs, short events)
{
	short in = POLLIN | POLLRDNORM, out = POLLOUT | POLLWRNORM, r = 0;

	if (readable(rs))
		r |= events & in;
	if (has_slot(&rs->d))
		r |= events & out;
	if (rs->err)
		r |= POLLERR;
	return r;
}

/* ---- open, bind, connect, free --------------------------------------------------------------------------- */

/* The device: the id's if it is bound to one address, else the first one. */
static struct ibv_context *device_of(struct rsocket *rs)
{
	struct ibv_context **list, *ctx = rs->id->verbs;

	if (ctx)
		return ctx;
	list = rdma_get_devices(NULL); /* the contexts stay open */
	if (!list)
		return NULL;
	ctx = list[0];
	rdma_free_devices(list);
	if (!ctx)
		errno = ENODEV;
	return ctx;
}

static int qp_to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qkey = RDMA_UDP_QKEY };

	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
		return -errno;
	attr.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE))
		return -errno;
	attr.qp_state = IBV_QPS_RTS;
	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) ? -errno : 0;
}

static int open_qp(struct rsocket *rs, struct ibv_context *ctx)
{
	struct rs_dgram *d = &rs->d;
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = d->sslots,
			 .max_recv_wr = d->rslots,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = rs->opt.inline_size },
	};
	int err = rs_cq_open(&rs->cq, ctx, (int)(d->sslots + d->rslots));

	if (err)
		return err;
	d->pd = ibv_alloc_pd(ctx);
	if (!d->pd)
		return -errno;
	attr.send_cq = attr.recv_cq = rs->cq.cq;
	d->qp = ibv_create_qp(d->pd, &attr);
	if (!d->qp)
		return -errno;
	d->inline_max = attr.cap.max_inline_data;
	return qp_to_rts(d->qp);
}

static int open_bufs(struct rsocket *rs)
{
	struct rs_dgram *d = &rs->d;
	size_t rlen = (size_t)d->rslots * d->stride, slen = (size_t)d->sslots * d->stride;
	int err;

	d->rx = calloc(d->rslots, sizeof(*d->rx));
	d->rbuf = ibv_malloc(d->pd, rlen);
	d->sbuf = ibv_malloc(d->pd, slen);
	if (!d->rx || !d->rbuf || !d->sbuf)
		return -ENOMEM;
	d->rmr = ibv_reg_mr(d->pd, d->rbuf, rlen, IBV_ACCESS_LOCAL_WRITE);
	d->smr = ibv_reg_mr(d->pd, d->sbuf, slen, IBV_ACCESS_LOCAL_WRITE);
	if (!d->rmr || !d->smr)
		return -errno;
	for (uint32_t i = 0; i < d->rslots; i++) {
		err = post_recv(rs, i);
		if (err)
			return err;
	}
	return 0;
}

static uint16_t port_of(const struct sockaddr *sa)
{
	return sa->sa_family == AF_INET ? ((const struct sockaddr_in *)sa)->sin_port :
					  ((const struct sockaddr_in6 *)sa)->sin6_port;
}

/*
 * Could the address be bound, with another port? rdma_cm says EADDRNOTAVAIL also of a port that
 * somebody has on the wildcard address; a UDP socket does not.
 */
static bool is_ours(struct rsocket *rs, const struct sockaddr *sa)
{
	union rs_addr any_port = { .sa.sa_family = AF_UNSPEC };
	struct rdma_cm_id *id;
	bool ours;
	int err = errno;

	memcpy(&any_port, sa, rs_addr_len(sa));
	if (sa->sa_family == AF_INET)
		any_port.sin.sin_port = 0;
	else
		any_port.sin6.sin6_port = 0;
	if (rdma_create_id(rs->ec, &id, NULL, RDMA_PS_UDP))
		return false;
	ours = !rdma_bind_addr(id, &any_port.sa);
	rdma_destroy_id(id);
	errno = err;
	return ours;
}

int rs_dgram_bind(struct rsocket *rs, const struct sockaddr *sa)
{
	struct rs_dgram *d = &rs->d;
	const struct rs_options *o = &rs->opt;
	struct ibv_port_attr port;
	struct ibv_context *ctx;
	int err;

	err = rs_opt_bind(rs);
	if (err)
		return err;
	if (rdma_bind_addr(rs->id, (struct sockaddr *)sa))
		return errno == EADDRNOTAVAIL && is_ours(rs, sa) ? -EADDRINUSE : -errno;
	ctx = device_of(rs);
	if (!ctx || ibv_query_port(ctx, 1, &port))
		return -errno;
	d->mtu = 128u << port.active_mtu;
	d->stride = (GRH_LEN + d->mtu + 63) & ~63u;
	d->rslots = rs_min(rs_max(o->rcvbuf / SLOT_BYTES, SLOTS_MIN), o->rq_size);
	d->sslots = rs_min(rs_max(o->sndbuf / SLOT_BYTES, SLOTS_MIN), o->sq_size);
	err = open_qp(rs, ctx);
	if (!err)
		err = open_bufs(rs);
	/* peers ask the listener which QP it is */
	if (!err && rdma_listen(rs->id, 0))
		err = -errno;
	if (err)
		return err;
	d->port = port_of(rdma_get_local_addr(rs->id));
	rs->state = RS_OPEN;
	return 0;
}

int rs_dgram_open(struct rsocket *rs)
{
	union rs_addr any = { .ss.ss_family = (sa_family_t)rs->domain };

	return rs_dgram_bind(rs, &any.sa);
}

int rs_dgram_connect(struct rsocket *rs, const struct sockaddr *sa)
{
	struct rs_dgram *d = &rs->d;

	memset(&d->to, 0, sizeof(d->to));
	if (sa->sa_family == AF_UNSPEC)
		return 0;
	memcpy(&d->to, sa, rs_addr_len(sa));
	return rs_peer_get(rs, sa) ? 0 : -ENOMEM;
}

void rs_dgram_free(struct rsocket *rs)
{
	struct rs_dgram *d = &rs->d;

	rs_peers_free(rs);
	if (d->qp)
		ibv_destroy_qp(d->qp);
	rs_cq_close(&rs->cq);
	if (d->rmr)
		ibv_dereg_mr(d->rmr);
	if (d->smr)
		ibv_dereg_mr(d->smr);
	ibv_free(d->rbuf);
	ibv_free(d->sbuf);
	free(d->rx);
	if (d->pd)
		ibv_dealloc_pd(d->pd);
}
