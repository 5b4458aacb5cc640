/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * peer.c - which QP answers for the address of a datagram. Call all with the lock held.
 *
 * A peer is known from what it sent (its GID and QP number are in the completion), or is asked: the
 * CM resolves the address and the route, and its service ID request (SIDR) goes to the id that
 * listens on that port, whose rsocket accepts with its QP number when it looks at its channel.
 * Until the answer comes a few datagrams are kept, and more are dropped. Nobody there: a connected
 * rsocket gets ECONNREFUSED, and for a while what is sent there is dropped.
 *
 * What was asked long ago without a word from the peer since is asked again while the old answer is
 * still used: another process may have the port by now. At most MAX_PEERS are kept.
 *
 * Tests: system/rs_dgram.c
 */
#include <stdlib.h>
#include <string.h>

#include "ffl/rsocket/rsocket.h"

#define MAX_PEERS  1024u
#define MAX_KEPT   32u
#define RESOLVE_MS 2000
#define REFUSED_US 100000u  /* that nobody is asked again after a refusal */
#define STALE_US   2000000u /* after which an answer is asked for again */

struct kept {
	struct kept *next;
	uint32_t len;
	uint8_t data[];
};

struct rs_peer {
	struct rs_peer *next; /* in its bucket */
	union rs_addr addr;
	union ibv_gid gid;
	uint32_t qpn; /* 0: not known */
	struct ibv_ah *ah;
	struct rdma_cm_id *asking; /* NULL: not now */
	uint64_t asked, heard;	   /* us */
	bool refused;
	struct kept *kept, **kept_end;
	unsigned num_kept;
};

static unsigned bucket_of(const struct sockaddr *sa)
{
	const struct sockaddr_in *in4 = (const void *)sa;
	const struct sockaddr_in6 *in6 = (const void *)sa;
	uint32_t h, w[4];

	if (sa->sa_family == AF_INET) {
		h = in4->sin_addr.s_addr ^ in4->sin_port;
	} else {
		memcpy(w, &in6->sin6_addr, sizeof(w));
		h = w[0] ^ w[1] ^ w[2] ^ w[3] ^ in6->sin6_port;
	}
	return h * 2654435761u >> 24;
}
_Static_assert(RS_PEER_BUCKETS == 256, "bucket_of");

static void drop_kept(struct rs_peer *p)
{
	struct kept *next;

	for (struct kept *k = p->kept; k; k = next) {
		next = k->next;
		free(k);
	}
	p->kept = NULL;
	p->kept_end = &p->kept;
	p->num_kept = 0;
}

static void free_peer(struct rsocket *rs, struct rs_peer *p)
{
	drop_kept(p);
	if (p->asking) {
		rs->d.num_resolving--;
		rdma_destroy_id(p->asking);
	}
	if (p->ah)
		ibv_destroy_ah(p->ah);
	rs->d.num_peers--;
	free(p);
}

void rs_peers_free(struct rsocket *rs)
{
	for (unsigned b = 0; b < RS_PEER_BUCKETS; b++) {
		struct rs_peer *next, *p = rs->d.peers[b];

		for (rs->d.peers[b] = NULL; p; p = next) {
			next = p->next;
			free_peer(rs, p);
		}
	}
}

/* Make room: a peer that is not being asked, of the bucket whose turn it is. */
static void evict(struct rsocket *rs)
{
	struct rs_dgram *d = &rs->d;

	for (unsigned i = 0; i < RS_PEER_BUCKETS; i++) {
		struct rs_peer **p = &d->peers[d->hand++ % RS_PEER_BUCKETS];

		while (*p && (*p)->asking)
			p = &(*p)->next;
		if (*p) {
			struct rs_peer *gone = *p;

			*p = gone->next;
			free_peer(rs, gone);
			return;
		}
	}
}

struct rs_peer *rs_peer_get(struct rsocket *rs, const struct sockaddr *sa)
{
	struct rs_dgram *d = &rs->d;
	struct rs_peer *p, **bucket = &d->peers[bucket_of(sa)];

	for (p = *bucket; p; p = p->next)
		if (rs_addr_eq(&p->addr.sa, sa))
			return p;
	if (d->num_peers >= MAX_PEERS)
		evict(rs);
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	memcpy(&p->addr, sa, rs_addr_len(sa));
	p->kept_end = &p->kept;
	p->next = *bucket;
	*bucket = p;
	d->num_peers++;
	return p;
}

static void set_qp(struct rs_peer *p, const union ibv_gid *gid, uint32_t qpn)
{
	if (memcmp(&p->gid, gid, sizeof(*gid)) != 0 && p->ah) {
		ibv_destroy_ah(p->ah);
		p->ah = NULL;
	}
	p->gid = *gid;
	p->qpn = qpn;
	p->refused = false;
}

void rs_peer_heard(struct rsocket *rs, const struct sockaddr *sa, const union ibv_gid *gid,
		   uint32_t qpn)
{
	struct rs_peer *p = rs_peer_get(rs, sa);

	if (!p)
		return;
	p->heard = rs_now();
	if (p->qpn != qpn || memcmp(&p->gid, gid, sizeof(*gid)) != 0)
		set_qp(p, gid, qpn);
}

/* ---- asking -------------------------------------------------------------------------------------------- */

/* The id that asks is destroyed by the caller, after the event was acknowledged. */
static struct rdma_cm_id *asked(struct rsocket *rs, struct rs_peer *p)
{
	struct rdma_cm_id *id = p->asking;

	p->asking = NULL;
	rs->d.num_resolving--;
	return id;
}

static void ask(struct rsocket *rs, struct rs_peer *p)
{
	p->asked = rs_now();
	if (rdma_create_id(rs->ec, &p->asking, p, RDMA_PS_UDP)) {
		p->asking = NULL;
		return;
	}
	rs->d.num_resolving++;
	if (rdma_resolve_addr(p->asking, NULL, &p->addr.sa, RESOLVE_MS))
		rdma_destroy_id(asked(rs, p));
}

static int post(struct rsocket *rs, struct rs_peer *p, const void *buf, uint32_t len)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = p->gid, .hop_limit = 64 },
	};

	if (!p->ah) {
		p->ah = ibv_create_ah(rs->d.pd, &attr);
		if (!p->ah)
			return -errno;
	}
	return rs_dgram_post(rs, p->ah, p->qpn, buf, len);
}

static int keep(struct rs_peer *p, const void *buf, uint32_t len)
{
	struct kept *k;

	if (p->num_kept == MAX_KEPT)
		return 0; /* lost */
	k = malloc(sizeof(*k) + len);
	if (!k)
		return -ENOMEM;
	k->next = NULL;
	k->len = len;
	memcpy(k->data, buf, len);
	*p->kept_end = k;
	p->kept_end = &k->next;
	p->num_kept++;
	return 0;
}

int rs_peer_send(struct rsocket *rs, struct rs_peer *p, const void *buf, uint32_t len)
{
	uint64_t now = rs_now();

	if (p->qpn) {
		if (!p->asking && now - rs_max(p->asked, p->heard) >= STALE_US)
			ask(rs, p);
		return post(rs, p, buf, len);
	}
	if (p->refused && now - p->asked < REFUSED_US)
		return 0;
	if (!p->asking)
		ask(rs, p);
	return p->asking ? keep(p, buf, len) : 0;
}

bool rs_peers_resolved(struct rsocket *rs)
{
	return !rs->d.num_resolving;
}

/* ---- answers, and being asked ------------------------------------------------------------------------------- */

static void answer(struct rsocket *rs, struct rdma_cm_id *id)
{
	struct rdma_conn_param param = { .qp_num = rs->d.qp->qp_num };

	rdma_accept(id, &param); /* fails only if the peer does not wait any more */
}

static void flush_kept(struct rsocket *rs, struct rs_peer *p)
{
	for (struct kept *k = p->kept; k; k = k->next)
		if (post(rs, p, k->data, k->len))
			break;
	drop_kept(p);
}

static struct rdma_cm_id *refused(struct rsocket *rs, struct rs_peer *p)
{
	p->refused = true;
	p->qpn = 0;
	drop_kept(p);
	if (rs_addr_eq(&rs->d.to.sa, &p->addr.sa))
		rs->err = ECONNREFUSED;
	return asked(rs, p);
}

void rs_peer_event(struct rsocket *rs, struct rdma_cm_event *ev, struct rdma_cm_id **done)
{
	struct rs_peer *p = ev->id->context;
	struct rdma_conn_param param = { 0 };

	if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		answer(rs, ev->id);
		*done = ev->id;
		return;
	}
	if (ev->id == rs->id || !p || p->asking != ev->id)
		return;
	switch (ev->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (!rdma_resolve_route(p->asking, RESOLVE_MS))
			return;
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if (!rdma_connect(p->asking, &param))
			return;
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		set_qp(p, &ev->param.ud.ah_attr.grh.dgid, ev->param.ud.qp_num);
		*done = asked(rs, p);
		flush_kept(rs, p);
		return;
	default:
		break;
	}
	*done = refused(rs, p);
}
