/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ud.c - datagrams to and from other hosts. [lock] soft/ud.c and soft/mcast.c send, remote.c brings what comes.
 *
 * A datagram is gathered into one piece, GRH first, and goes out as one small frame. What there is no
 * room for is lost, as it may be. What is for memory behind a process is copied, and waits for that, in order.
 *
 * Who receives one believes nothing of it: the sender's container must be on the host that it came
 * from, in that epoch, and allowed to talk to the receiver's. The first datagram of a sender that the
 * directory does not know yet is held until it does: many a program sends only one.
 */
#include "ffr/remote/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HELD_MAX 256u
#define HELD_NS	 (2000 * NS_PER_MS)
#define LATE_MAX (512u << 10) /* bytes, half of which one container may have */

struct ud_held {
	TAILQ_ENTRY(ud_held) entry;
	struct wire_peer *peer; /* a reference */
	uint64_t until;		/* ns */
	struct wire_hdr h;
	uint8_t data[];
};

struct ud_late {
	TAILQ_ENTRY(ud_late) entry;
	uint64_t done; /* bytes that are where they belong */
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

/* By the NIC, if both hosts have one that takes it, or by the wire: as wire_send(). */
static int send_to(struct fast *f, const struct container *from, struct wire_peer *p,
		   const struct wire_hdr *h, const void *data)
{
	const struct soft_dev *dev = f->be->priv;

	if (dev->ud_carry && dev->ud_carry(from, p, h, data))
		return 0;
	return wire_send(f, p, h, data);
}

enum post_result remote_ud_send(struct fast *f, struct qp *qp, struct remote *to)
{
	enum ff_vendor_err why = FF_VERR_NONE;
	enum xfer_result r = gather(f, qp, &why);
	struct wire_hdr h;

	if (r == XFER_SRC)
		return requester_finish(f, qp, IBV_WC_LOC_PROT_ERR, why);
	if (r != XFER_DONE)
		return requester_not_copied(r);
	ud_hdr(qp, &h);
	h.dst_cont = to->id;
	h.dst_epoch = to->epoch;
	switch (send_to(f, qp->o.ses->cont, to->peer, &h, qp->soft->ud.gathered)) {
	case 0:
		break;
	case -ENOBUFS: /* wire_ops.drained() follows */
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
		return requester_not_copied(r);
	ud_hdr(qp, &h);
	h.flags |= WIRE_MCAST;
	memcpy(h.ud.mgid, &qp->soft->mcast.gid, sizeof(h.ud.mgid));
	for (int i = 0; i < n; i++)
		if (send_to(f, qp->o.ses->cont, peers[i], &h, qp->soft->ud.gathered))
			qp->stats.ud_drops++;
	return POST_DONE;
}

/* ---- receiving ------------------------------------------------------------------------------------------- */

void remote_ud_lost(struct qp *qp)
{
	qp->stats.ud_drops++;
}

/* Go on with what is for the QP, *done bytes of which are there. False: it waits for the next turn, or longer. */
static bool take_in(struct fast *f, struct qp *qp, const struct wire_hdr *h, const uint8_t *data,
		    uint64_t *done)
{
	struct send_wr wr = {
		.opcode = h->opcode,
		.flags = h->flags & WIRE_SOLICITED ? FF_SQE_SOLICITED : 0,
		.length = h->len - SOFT_GRH_SZ,
		.imm = h->ud.imm,
	};
	struct origin o = { .wr = &wr, .qp_num = h->src_qpn, .lid = h->ud.lid, .sl = h->ud.sl };
	enum ff_vendor_err why = FF_VERR_NONE;
	uint64_t len = h->len - *done;
	enum xfer_result r;
	struct side dst;

	if (responder_admit(f, qp, &wr) != ANS_OK || responder_recv(f, qp, &wr) != ANS_OK) {
		remote_ud_lost(qp);
		return true;
	}
	dst = side_of_recv(qp);
	r = xfer_put(f, &qp->soft->resp.from_wire, &dst, *done, data + *done, &len, &why);
	*done += len;
	switch (r) {
	case XFER_MORE:
	case XFER_NEXT:
	case XFER_WAIT:
		return false;
	case XFER_DONE:
		qp->stats.rx_bytes += wr.length;
		responder_complete(f, qp, &o);
		fast_data_to(f, qp->o.ses);
		return true;
	default:
		remote_ud_lost(qp);
		responder_fault(f, qp, why);
		return true;
	}
}

static uint64_t late_bytes(const struct ud_late *d)
{
	return sizeof(*d) + d->h.len;
}

/* Is there no room for one more of its container's? *soon: some of those that wait are done in the next turns. */
static bool late_full(const struct soft_dev *dev, const struct qp *qp, bool *soon)
{
	const struct soft_qp *sq;
	uint64_t own = 0;

	*soon = false;
	LIST_FOREACH(sq, &dev->late, resp.late_entry) {
		if (sq->qp->o.ses->cont != qp->o.ses->cont)
			continue;
		own += sq->resp.late_bytes;
		*soon |= responder_soon(sq->qp, NULL);
	}
	return share_full(own, dev->late_bytes, LATE_MAX);
}

/* It waits, behind those that wait for that QP already. */
static void late_add(struct fast *f, struct qp *qp, const struct wire_hdr *h, const uint8_t *data,
		     uint64_t done)
{
	struct soft_dev *dev = f->be->priv;
	struct responder *r = &qp->soft->resp;
	bool soon;
	struct ud_late *d = late_full(dev, qp, &soon) ? NULL : malloc(sizeof(*d) + h->len);

	if (!d) {
		if (!r->is_late)
			xfer_reset(f, &r->from_wire);
		remote_ud_lost(qp);
		return;
	}
	d->done = done;
	d->h = *h;
	memcpy(d->data, data, h->len);
	TAILQ_INSERT_TAIL(&r->late, d, entry);
	r->late_bytes += late_bytes(d);
	dev->late_bytes += late_bytes(d);
	if (!r->is_late)
		LIST_INSERT_HEAD(&dev->late, qp->soft, resp.late_entry);
	r->is_late = true;
}

static struct ud_late *late_pop(struct soft_dev *dev, struct responder *r)
{
	struct ud_late *d = TAILQ_FIRST(&r->late);

	TAILQ_REMOVE(&r->late, d, entry);
	r->late_bytes -= late_bytes(d);
	dev->late_bytes -= late_bytes(d);
	return d;
}

static void late_push(struct soft_dev *dev, struct responder *r, struct ud_late *d)
{
	TAILQ_INSERT_HEAD(&r->late, d, entry);
	r->late_bytes += late_bytes(d);
	dev->late_bytes += late_bytes(d);
}

static void late_end(struct soft_qp *sq)
{
	if (sq->resp.is_late)
		LIST_REMOVE(sq, resp.late_entry);
	sq->resp.is_late = false;
}

void remote_ud_forget(struct fast *f, struct qp *qp)
{
	struct responder *r = &qp->soft->resp;

	xfer_reset(f, &r->from_wire);
	while (!TAILQ_EMPTY(&r->late)) {
		free(late_pop(f->be->priv, r));
		remote_ud_lost(qp);
	}
	late_end(qp->soft);
}

/* Those of a QP, as far as they go. */
static uint32_t late_go_on(struct fast *f, struct soft_qp *sq)
{
	struct responder *r = &sq->resp;
	uint32_t work = 0;

	while (!TAILQ_EMPTY(&r->late)) {
		struct ud_late *d;

		if (xfer_is_busy(&r->from_wire) || r->from)
			return work;
		work++;
		d = late_pop(f->be->priv, r);
		if (!take_in(f, sq->qp, &d->h, d->data, &d->done)) {
			late_push(f->be->priv, r, d);
			return work;
		}
		free(d);
	}
	late_end(sq);
	return work;
}

bool remote_ud_must_wait(struct fast *f, const struct qp *qp)
{
	bool soon;

	return late_full(f->be->priv, qp, &soon) && soon;
}

void remote_ud_deliver(struct fast *f, struct qp *qp, const struct wire_hdr *h, const uint8_t *data)
{
	struct responder *r = &qp->soft->resp;
	uint64_t done = 0;

	if (qp->type != IBV_QPT_UD || !route_receives(qp) || h->ud.qkey != qp->attr.qkey ||
	    !remote_rate_datagram(f, qp, h->len))
		remote_ud_lost(qp);
	else if (r->is_late || r->from || !take_in(f, qp, h, data, &done))
		late_add(f, qp, h, data, done);
}

static bool is_sound(const struct wire_hdr *h)
{
	return (h->opcode == FF_OP_SEND || h->opcode == FF_OP_SEND_IMM) && h->len >= SOFT_GRH_SZ &&
	       h->len <= SOFT_GRH_SZ + SOFT_MTU;
}

/* The sender is known, and on that host. False: again in the next turn. */
static bool deliver(struct fast *f, const struct remote *from, const struct wire_hdr *h,
		    const uint8_t *data)
{
	const struct container *c;
	struct qp *qp;

	if (h->flags & WIRE_MCAST)
		return mcast_from_remote(f, from, h, data);
	qp = qp_here(f, h->dst_cont, h->dst_qpn);
	if (!qp)
		return true;
	c = qp->o.ses->cont;
	if (c->epoch != h->dst_epoch || !dir_allowed(f->host, c, from->tenant, from->name))
		return true;
	if (remote_ud_must_wait(f, qp))
		return false;
	remote_ud_deliver(f, qp, h, data);
	return true;
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
	uint64_t own = 0;

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

bool remote_ud_recv(struct fast *f, struct wire_peer *p, const struct wire_hdr *h,
		    const uint8_t *data)
{
	struct remote *from;

	if (!is_sound(h))
		return true;
	from = dir_by_id(f, h->src_cont);
	if (!from || !from->epoch) {
		hold(f, p, h, data);
		return true;
	}
	return from->peer != p || from->epoch != h->src_epoch || deliver(f, from, h, data);
}

/* On the control thread. */
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
	struct soft_qp *sq, *next;
	struct ud_held *d;
	uint32_t work = 0;

	LIST_FOREACH_SAFE(sq, &dev->late, resp.late_entry, next)
		if (sq->resp.is_late) /* or one before it has overrun the CQ of both */
			work += late_go_on(f, sq);
	while ((d = TAILQ_FIRST(&dev->known))) {
		struct remote *from = dir_by_id(f, d->h.src_cont);

		work++;
		if (from && from->epoch && from->epoch == d->h.src_epoch && from->peer == d->peer &&
		    !deliver(f, from, &d->h, d->data))
			break;
		held_free(dev, &dev->known, d);
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
