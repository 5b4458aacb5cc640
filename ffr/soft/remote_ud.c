/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * remote_ud.c - datagrams to and from other hosts. [lock] ud.c and mcast.c send, remote.c brings
 * what comes.
 *
 * A datagram is gathered into one piece, GRH first, and goes out as one small frame. What there is no
 * room for is lost, as it may be; so is what comes while the receiver's memory keeps a runner waiting.
 *
 * Who receives one believes nothing of it: the sender's container must be on the host that it came
 * from, in that epoch, and allowed to talk to the receiver's. The first datagram of a sender that the
 * directory does not know yet is held until it does: many a program sends only one.
 */
#include "ffr/soft/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HELD_MAX 256u
#define HELD_NS	 (2000 * NS_PER_MS)

struct ud_held {
	TAILQ_ENTRY(ud_held) entry;
	struct wire_peer *peer; /* a reference */
	uint64_t until;		/* ns */
	struct wire_hdr h;
	uint8_t data[];
};

/* ---- sending -------------------------------------------------------------------------------------------- */

/* GRH and data into soft->ud.gathered. XFER_DONE, or what xfer_run() says. */
static enum xfer_result gather(struct fast *f, struct qp *qp, enum ff_vendor_err *why)
{
	struct soft_qp *sq = qp->soft;
	struct side src = side_of_wr(qp, 0), dst = { 0 };

	if (!sq->ud.gathered)
		sq->ud.gathered = malloc(SOFT_GRH_SZ + SOFT_MTU);
	if (!sq->ud.gathered)
		return XFER_MORE;
	src.prefix = sq->ud.grh;
	src.prefix_len = SOFT_GRH_SZ;
	dst.bytes = sq->ud.gathered;
	return xfer_run(f, &sq->req.x, &src, &dst, SOFT_GRH_SZ + qp->wr->length, why);
}

static void ud_hdr(const struct qp *qp, struct wire_hdr *h)
{
	const struct container *c = qp->o.ses->cont;
	const struct send_wr *wr = qp->wr;

	memset(h, 0, sizeof(*h));
	h->type = WIRE_UD;
	h->opcode = wr->opcode;
	h->flags = wr->flags & FF_SQE_SOLICITED ? WIRE_SOLICITED : 0;
	h->len = SOFT_GRH_SZ + (uint32_t)wr->length;
	h->dst_qpn = wr->remote_qpn;
	h->src_qpn = qp->qp_num;
	h->src_cont = c->id;
	h->src_epoch = c->epoch;
	h->ud.qkey = ud_qkey(qp);
	h->ud.imm = wr->imm;
	h->ud.lid = c->lid;
	h->ud.sl = qp->soft->ud.sl;
}

enum post_result remote_ud_send(struct fast *f, struct qp *qp, struct remote *to)
{
	enum ff_vendor_err why = FF_VERR_NONE;
	enum xfer_result r = gather(f, qp, &why);
	struct wire_hdr h;

	if (r == XFER_SRC)
		return requester_finish(f, qp, IBV_WC_LOC_PROT_ERR, why);
	if (r != XFER_DONE)
		return requester_not_copied(qp, r);
	ud_hdr(qp, &h);
	h.dst_cont = to->id;
	h.dst_epoch = to->epoch;
	switch (wire_send(f, to->peer, &h, qp->soft->ud.gathered)) {
	case 0:
		break;
	case -ENOBUFS: /* remote_drained() */
		return POST_WAIT;
	default:
		qp->stats.ud_drops++;
		break;
	}
	return requester_finish(f, qp, IBV_WC_SUCCESS, FF_VERR_NONE);
}

enum post_result remote_ud_mcast(struct fast *f, struct qp *qp, enum ff_vendor_err *why)
{
	const char *tenant = qp->o.ses->cont->tenant;
	struct wire_peer **peers;
	enum xfer_result r;
	struct wire_hdr h;
	int n = dir_mcast(f, tenant, &qp->soft->mcast.gid, &peers);

	if (n <= 0)
		return POST_DONE;
	r = gather(f, qp, why);
	if (r == XFER_SRC)
		return POST_DONE;
	if (r != XFER_DONE)
		return requester_not_copied(qp, r);
	ud_hdr(qp, &h);
	h.flags |= WIRE_MCAST;
	memcpy(h.ud.mgid, &qp->soft->mcast.gid, sizeof(h.ud.mgid));
	/* again: the lock may have been given away */
	n = dir_mcast(f, tenant, &qp->soft->mcast.gid, &peers);
	for (int i = 0; i < n; i++)
		if (wire_send(f, peers[i], &h, qp->soft->ud.gathered))
			qp->stats.ud_drops++;
	return POST_DONE;
}

/* ---- receiving ------------------------------------------------------------------------------------------- */

void remote_ud_lost(struct qp *qp)
{
	qp->stats.ud_drops++;
}

enum lock remote_ud_deliver(struct fast *f, struct qp *qp, const struct wire_hdr *h,
			    const uint8_t *data)
{
	struct send_wr wr = {
		.opcode = h->opcode,
		.flags = h->flags & WIRE_SOLICITED ? FF_SQE_SOLICITED : 0,
		.length = h->len - SOFT_GRH_SZ,
		.imm = h->ud.imm,
	};
	struct origin o = { .wr = &wr, .qp_num = h->src_qpn, .lid = h->ud.lid, .sl = h->ud.sl };
	enum ff_vendor_err why = FF_VERR_NONE;
	uint64_t epoch = f->epoch;
	struct xfer *x = &qp->soft->resp.from_wire;
	uint64_t len = h->len;
	struct side dst;
	enum xfer_result r;

	if (qp->type != IBV_QPT_UD || !route_receives(qp) || h->ud.qkey != qp->attr.qkey ||
	    qp->soft->resp.from || (x->call && x->call->busy)) {
		remote_ud_lost(qp);
		return LOCK_KEPT;
	}
	if (!remote_rate_datagram(f, qp, h->len)) {
		remote_ud_lost(qp);
		return LOCK_KEPT;
	}
	if (responder_admit(f, qp, &wr) != ANS_OK || responder_recv(f, qp, &wr) != ANS_OK) {
		remote_ud_lost(qp);
		return LOCK_KEPT;
	}
	dst = side_of_recv(qp);
	xfer_reset(f, x); /* a former one may have been left to a worker */
	x->qp = qp;
	r = xfer_put(f, x, &dst, 0, data, &len, &why);
	if (r == XFER_GONE)
		return LOCK_GIVEN;
	if (f->epoch != epoch && (!route_receives(qp) || qp->soft->resp.recv == RECV_NONE))
		return LOCK_GIVEN;
	if (r == XFER_DST) {
		remote_ud_lost(qp);
		responder_fault(f, qp, why);
	} else if (r == XFER_DONE) {
		qp->stats.rx_bytes += wr.length;
		responder_complete(f, qp, &o);
		fast_data_to(f, qp->o.ses);
	} else {
		remote_ud_lost(qp);
	}
	return f->epoch == epoch ? LOCK_KEPT : LOCK_GIVEN;
}

static bool is_sound(const struct wire_hdr *h)
{
	return (h->opcode == FF_OP_SEND || h->opcode == FF_OP_SEND_IMM) && h->len >= SOFT_GRH_SZ &&
	       h->len <= SOFT_GRH_SZ + SOFT_MTU;
}

/* The sender is known, and on that host. */
static enum lock deliver(struct fast *f, const struct remote *from, const struct wire_hdr *h,
			 const uint8_t *data)
{
	const struct container *c;
	struct qp *qp;

	if (h->flags & WIRE_MCAST)
		return mcast_from_remote(f, from, h, data);
	qp = qp_here(f, h->dst_qpn);
	if (!qp)
		return LOCK_KEPT;
	c = qp->o.ses->cont;
	if (c->id != h->dst_cont || c->epoch != h->dst_epoch ||
	    !dir_allowed(f, c, from->tenant, from->name))
		return LOCK_KEPT;
	return remote_ud_deliver(f, qp, h, data);
}

static void held_free(struct soft_dev *dev, struct ud_list *list, struct ud_held *d)
{
	TAILQ_REMOVE(list, d, entry);
	dev->num_held--;
	peer_put(d->peer);
	free(d);
}

static void hold(struct fast *f, struct wire_peer *p, const struct wire_hdr *h, const uint8_t *data)
{
	struct soft_dev *dev = f->be->priv;
	struct ud_held *d, *next;
	uint32_t own = 0;

	TAILQ_FOREACH_SAFE(d, &dev->held, entry, next) {
		if (d->until < f->now)
			held_free(dev, &dev->held, d);
		else
			own += d->h.src_cont == h->src_cont;
	}
	/* one sender does not take the others' places */
	if (share_full(own, dev->num_held, HELD_MAX))
		return;
	d = malloc(sizeof(*d) + h->len);
	if (!d)
		return;
	peer_get(p);
	d->peer = p;
	d->until = f->now + HELD_NS;
	d->h = *h;
	memcpy(d->data, data, h->len);
	dev->num_held++;
	TAILQ_INSERT_TAIL(&dev->held, d, entry);
}

enum lock remote_ud_recv(struct fast *f, struct wire_peer *p, const struct wire_hdr *h,
			 const uint8_t *data)
{
	struct remote *from;

	if (!is_sound(h))
		return LOCK_KEPT;
	from = dir_by_id(f, h->src_cont);
	if (!from || !from->epoch) {
		hold(f, p, h, data);
		return LOCK_KEPT;
	}
	if (from->peer != p || from->epoch != h->src_epoch)
		return LOCK_KEPT;
	return deliver(f, from, h, data);
}

/* On the control thread, which makes no copies behind a process: pvm_exec() would not come back to it
 * before the program likes. */
void remote_ud_known(struct fast *f, struct remote *r)
{
	struct soft_dev *dev = f->be->priv;
	struct ud_held *d, *next;

	TAILQ_FOREACH_SAFE(d, &dev->held, entry, next) {
		if (d->h.src_cont != r->id || !r->epoch)
			continue;
		TAILQ_REMOVE(&dev->held, d, entry);
		TAILQ_INSERT_TAIL(&dev->known, d, entry);
	}
	if (!TAILQ_EMPTY(&dev->known))
		fast_kick(f);
}

uint32_t remote_ud_poll(struct fast *f)
{
	struct soft_dev *dev = f->be->priv;
	uint64_t epoch = f->epoch;
	struct ud_held *d;
	uint32_t work = 0;

	while (f->epoch == epoch && (d = TAILQ_FIRST(&dev->known))) {
		struct remote *from = dir_by_id(f, d->h.src_cont);

		TAILQ_REMOVE(&dev->known, d, entry);
		dev->num_held--;
		work++;
		if (from && from->epoch && from->epoch == d->h.src_epoch && from->peer == d->peer)
			deliver(f, from, &d->h, d->data);
		peer_put(d->peer);
		free(d);
	}
	return work;
}

void remote_ud_fini(struct soft_dev *dev)
{
	struct ud_held *d;

	while ((d = TAILQ_FIRST(&dev->held)))
		held_free(dev, &dev->held, d);
	while ((d = TAILQ_FIRST(&dev->known)))
		held_free(dev, &dev->known, d);
}
