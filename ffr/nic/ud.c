/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ud.c - datagrams by the NIC: what a UD QP sends from the NIC's GID, and what comes to its number from the NIC's
 * network.
 *
 * A UD QP talks to many peers, by the NIC and by the software device, and the software device needs its receives. So
 * the NIC's QP has buffers of the router's instead. A datagram that comes is copied from a buffer into the next
 * receive, by the same function as a datagram of another host, with the GRH that the NIC has put before it. The NIC
 * gets the buffer back at once. The router gathers what is sent into such a buffer, so memory of any kind can be sent.
 * A datagram counts as sent when the NIC has it, because the router keeps what the NIC needs. So the order of
 * completions is the order of the ring, whichever carrier a datagram has.
 *
 * Each QP has its own buffers, and a container has a limited number, so a flood costs only the container's own
 * datagrams.
 */
#include "ffr/nic/nic.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "ffr/obj/gid.h"
#include "ffr/remote/remote.h"

#define UD_RECVS     256u /* buffers of a QP, at most */
#define UD_RECVS_MIN 8u
#define UD_SENDS     32u
#define UD_MEM	     (16u << 20) /* bytes of a container's */
#define UD_AHS	     64u	 /* address handles of a container */

/* ---- making it; [ctl], no lock ------------------------------------------------------------------------ */

static struct nic_ud_pool *pool_get(struct nic_dev *d, const struct container *c)
{
	struct nic_ud_pool *p;

	LIST_FOREACH(p, &d->ud_pools, entry)
		if (p->cont == c)
			break;
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return NULL;
		p->cont = c;
		p->max_ahs = UD_AHS;
		TAILQ_INIT(&p->ahs);
		LIST_INSERT_HEAD(&d->ud_pools, p, entry);
	}
	p->num_qps++;
	return p;
}

static void pool_put(struct nic_dev *d, struct nic_ud_pool *p)
{
	if (--p->num_qps)
		return;
	fast_lock(d->f->host);
	nic_ahs_forget(p);
	fast_unlock(d->f->host);
	LIST_REMOVE(p, entry);
	free(p);
}

static uint32_t between(uint32_t n, uint32_t min, uint32_t max)
{
	return n < min ? min : n > max ? max : n;
}

static size_t ud_size(const struct nic_ud *u)
{
	size_t n = (size_t)u->num_recv * u->recv_size + (size_t)u->num_send * u->mtu;

	return (n + FF_PAGE - 1) & ~((size_t)FF_PAGE - 1);
}

/* Choose the number of buffers, within what the container may still have. False: that is too few. */
static bool choose_size(const struct nic_dev *d, struct nic_ud *u, const struct qp *qp)
{
	size_t left = UD_MEM - u->pool->bytes;

	u->mtu = 128u << d->port_attr.active_mtu;
	u->recv_size = SOFT_GRH_SZ + u->mtu;
	u->num_send = between(qp->max_send_wr, 4, UD_SENDS);
	u->num_recv = between(qp->max_recv_wr, UD_RECVS_MIN, UD_RECVS);
	while (ud_size(u) > left && u->num_recv > UD_RECVS_MIN)
		u->num_recv /= 2;
	u->num_recv = between(u->num_recv, UD_RECVS_MIN, UD_RECVS);
	u->size = ud_size(u);
	return u->size <= left;
}

static bool memory_new(const struct nic_dev *d, struct nic_ud *u)
{
	u->free = calloc(u->num_recv, sizeof(*u->free));
	u->sent = calloc(u->num_send, sizeof(*u->sent));
	u->mem = mmap(NULL, u->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (u->mem == MAP_FAILED)
		u->mem = NULL;
	if (!u->free || !u->sent || !u->mem)
		return false;
	u->mr = d->lib.reg_mr_iova2(d->ud_pd, u->mem, u->size, (uintptr_t)u->mem,
				    IBV_ACCESS_LOCAL_WRITE);
	return u->mr;
}

/* Note that the NIC has none of the receive buffers. */
static void take_all(struct nic_ud *u)
{
	for (u->num_free = 0; u->num_free < u->num_recv; u->num_free++)
		u->free[u->num_free] = (uint16_t)u->num_free;
}

static bool qp_new(struct nic_qp *nq)
{
	struct nic_dev *d = nq->d;
	struct nic_ud *u = nq->ud;
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = u->num_send,
			 .max_recv_wr = u->num_recv,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};

	nq->send_depth = u->num_send;
	nq->recv_depth = u->num_recv;
	nq->cq = nic_cq_get(d, nq->qp->o.ses->cont, nq->send_depth + nq->recv_depth);
	if (!nq->cq)
		return false;
	attr.send_cq = attr.recv_cq = nq->cq->cq;
	nq->ib = nic_create_fitting(d, &d->f->host->qps, d->ud_pd, &attr);
	return nq->ib;
}

static int ud_new(struct nic_qp *nq)
{
	struct nic_dev *d = nq->d;
	struct nic_ud *u = calloc(1, sizeof(*u));

	nq->ud = u;
	if (!u)
		return ENOMEM;
	u->nq = nq;
	u->pool = pool_get(d, nq->qp->o.ses->cont);
	if (!u->pool)
		return ENOMEM;
	if (!choose_size(d, u, nq->qp)) {
		u->size = 0;
		return EDQUOT;
	}
	u->pool->bytes += u->size;
	errno = ENOMEM;
	if (!memory_new(d, u) || !qp_new(nq))
		return errno;
	take_all(u);
	return 0;
}

void nic_ud_free(struct nic_lib *lib, struct nic_ud *u)
{
	if (!u)
		return;
	if (u->mr && lib->dereg_mr(u->mr))
		log_err("NIC: an MR cannot be deregistered: %m");
	if (u->mem)
		munmap(u->mem, u->size);
	free(u->free);
	free(u->sent);
	free(u);
}

void nic_ud_leave(struct nic_dev *d, struct nic_ud *u)
{
	if (!u->pool)
		return;
	u->pool->bytes -= u->size;
	pool_put(d, u->pool);
	u->pool = NULL;
}

void nic_ud_break(struct nic_qp *nq)
{
	if (nq->ud)
		nic_ud_leave(nq->d, nq->ud);
	nic_ud_free(&nq->d->lib, nq->ud);
	nq->ud = NULL;
}

int nic_ud_make(struct nic_qp *nq)
{
	int err = ud_new(nq);

	if (err)
		log_client(&nq->qp->o.ses->cont->log, LOG_LEVEL_WARN,
			   "container %s: a UD QP reaches containers only: %s",
			   nq->qp->o.ses->cont->name,
			   err == EDQUOT ? "it has as many on the NIC as it may" : strerror(err));
	return err;
}

/* ---- receives [lock] ------------------------------------------------------------------------------------ */

/* Give the NIC all free receive buffers. False: the NIC does not take them. */
static bool give_recvs(struct nic_qp *nq)
{
	struct nic_ud *u = nq->ud;

	while (u->num_free) {
		uint16_t place = u->free[u->num_free - 1];
		uint8_t *at = u->mem + (size_t)place * u->recv_size;
		struct ibv_sge sge = { (uintptr_t)at, u->recv_size, u->mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = nic_id(nq, NIC_ID_RECV, place),
					  .sg_list = &sge,
					  .num_sge = 1 },
				   *bad;

		/* before an IPv4 header the NIC leaves what is there, which may be another sender's */
		memset(at, 0, SOFT_GRH_SZ);
		if (ibv_post_recv(nq->ib, &wr, &bad))
			return false;
		u->num_free--;
	}
	return true;
}

static void deliver(struct fast *f, struct nic_qp *nq, const struct ibv_wc *wc, const uint8_t *data)
{
	const struct nic_dev *d = nq->d;
	struct qp *qp = nq->qp;
	/* whether the sender asked for an event the NIC does not tell */
	struct wire_hdr h = {
		.type = WIRE_UD,
		.opcode = wc->wc_flags & IBV_WC_WITH_IMM ? FF_OP_SEND_IMM : FF_OP_SEND,
		.flags = WIRE_SOLICITED,
		.len = wc->byte_len,
		.dst_qpn = qp->qp_num,
		.src_qpn = wc->src_qp,
	};

	h.ud.qkey = qp->attr.qkey; /* the NIC has looked at it */
	h.ud.imm = wc->imm_data;
	h.ud.lid = wc->slid;
	h.ud.sl = d->port_attr.link_layer == IBV_LINK_LAYER_ETHERNET ? ud_sl_of(data) : wc->sl;
	remote_ud_deliver(f, qp, &h, data);
}

static void on_received(struct fast *f, struct nic_qp *nq, const struct ibv_wc *wc)
{
	struct nic_ud *u = nq->ud;
	uint32_t place = (uint32_t)wc->wr_id;

	if (place >= u->num_recv || u->num_free == u->num_recv)
		return;
	if (wc->status == IBV_WC_SUCCESS && wc->byte_len >= SOFT_GRH_SZ &&
	    wc->byte_len <= u->recv_size)
		deliver(f, nq, wc, u->mem + (size_t)place * u->recv_size);
	u->free[u->num_free++] = (uint16_t)place;
	/* the router's buffer or the NIC is at fault: nothing can be received any more */
	if (wc->status != IBV_WC_SUCCESS || !give_recvs(nq))
		fast_qp_error(f, nq->qp, IBV_EVENT_QP_FATAL);
}

/* ---- sends [lock] ---------------------------------------------------------------------------------------- */

static bool is_by_nic(const struct qp *qp, const struct ah *ah)
{
	return ah->attr.is_global && !ah->mcast &&
	       ah->attr.sgid_index == gid_nic_index(qp->o.ses->cont);
}

/* The NIC does not send the datagram at hand any more. */
static void let_go(struct nic_ud *u)
{
	if (u->waits)
		LIST_REMOVE(u, wait);
	u->waits = u->is_mine = false;
	if (u->ah)
		nic_ah_put(u->ah);
	u->ah = NULL;
}

static enum post_result finish(struct fast *f, struct nic_qp *nq, enum ibv_wc_status st,
			       enum ff_vendor_err why)
{
	let_go(nq->ud);
	return requester_finish(f, nq->qp, st, why);
}

static enum post_result drop(struct fast *f, struct nic_qp *nq)
{
	let_go(nq->ud);
	return requester_drop(f, nq->qp);
}

/* Copy the datagram at hand into the buffer of its place. */
static enum xfer_result gather(struct fast *f, struct nic_qp *nq, uint8_t *buf,
			       enum ff_vendor_err *why)
{
	struct qp *qp = nq->qp;
	struct side src = side_of_wr(qp, 0), dst = { .bytes = buf };

	return xfer_run(f, &qp->soft->req.x, &src, &dst, qp->wr->length, why);
}

/* 0 or an errno */
static int to_nic(struct nic_qp *nq, uint32_t place, uint8_t *buf)
{
	struct nic_ud *u = nq->ud;
	const struct send_wr *wr = nq->qp->wr;
	struct ibv_sge sge = { (uintptr_t)buf, (uint32_t)wr->length, u->mr->lkey };
	struct ibv_send_wr to = {
		.wr_id = nic_id(nq, 0, place),
		.sg_list = &sge,
		.num_sge = wr->length != 0,
		.opcode = wr->opcode == FF_OP_SEND_IMM ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED |
			      (wr->flags & FF_SQE_SOLICITED ? IBV_SEND_SOLICITED : 0),
		.imm_data = wr->imm,
		.wr.ud = { .ah = u->ah->ib,
			   .remote_qpn = wr->remote_qpn,
			   .remote_qkey = wr->remote_qkey },
	}, *bad;

	return ibv_post_send(nq->ib, &to, &bad);
}

/* Send the datagram at hand, as far as this can be done now. */
static enum post_result go(struct fast *f, struct nic_qp *nq)
{
	struct nic_ud *u = nq->ud;
	struct qp *qp = nq->qp;
	uint32_t place = nq->tail % u->num_send;
	uint8_t *buf = u->mem + (size_t)u->num_recv * u->recv_size + (size_t)place * u->mtu;
	enum ff_vendor_err why = FF_VERR_NONE;
	enum xfer_result r;

	if (u->ah->state == AH_FAILED || nq->state != NIC_QP_UD || !nic_is_up(nq->d))
		return drop(f, nq);
	if (u->ah->state == AH_ASKED) {
		if (!u->waits)
			LIST_INSERT_HEAD(&u->ah->waiting, u, wait);
		u->waits = true;
		return POST_WAIT;
	}
	if (nq->tail - nq->una == u->num_send) {
		nq->waits = true;
		return POST_WAIT;
	}
	r = gather(f, nq, buf, &why);
	if (r == XFER_SRC)
		return finish(f, nq, IBV_WC_LOC_PROT_ERR, why);
	if (r != XFER_DONE)
		return requester_not_copied(r);
	if (!u->paid && !rate_pay(f, qp, SOFT_GRH_SZ + qp->wr->length))
		return POST_WAIT;
	u->paid = true;
	if (to_nic(nq, place, buf))
		return finish(f, nq, IBV_WC_LOC_QP_OP_ERR, FF_VERR_NONE);
	u->sent[place] = u->ah; /* and its use */
	u->ah = NULL;
	nq->tail++;
	return finish(f, nq, IBV_WC_SUCCESS, FF_VERR_NONE);
}

static enum post_result post(struct fast *f, struct qp *qp)
{
	struct nic_qp *nq = qp->nic;
	struct nic_ud *u = nq->ud;
	const struct ah *ah = qp->wr->ah;
	struct ibv_ah_attr attr;

	if (!is_by_nic(qp, ah))
		return ud_send.post(f, qp);
	if (!requester_begin(f, qp))
		return POST_DONE;
	memcpy(&nq->to, ah->attr.dgid, sizeof(nq->to));
	attr = nic_ah_attr(nq->d, nq, &ah->attr);
	u->is_mine = true;
	u->paid = false;
	if (qp->wr->length > u->mtu)
		return finish(f, nq, IBV_WC_LOC_LEN_ERR, FF_VERR_MSG_SIZE);
	if (!nic_is_up(nq->d))
		return drop(f, nq);
	u->ah = nic_ah_get(nq->d, u->pool, &attr);
	return u->ah ? go(f, nq) : drop(f, nq);
}

static enum post_result progress(struct fast *f, struct qp *qp)
{
	struct nic_qp *nq = qp->nic;

	if (!nq->ud->is_mine)
		return ud_send.progress(f, qp);
	return requester_may_run(&qp->soft->req) ? go(f, nq) : POST_WAIT;
}

const struct send_ops nic_ud_send = { .name = "host, wire, nic",
				      .post = post,
				      .progress = progress };

static void on_sent(struct fast *f, struct nic_qp *nq, const struct ibv_wc *wc)
{
	struct nic_ud *u = nq->ud;

	if (nq->una == nq->tail || (uint32_t)wc->wr_id != nq->una % u->num_send)
		return;
	nic_ah_put(u->sent[nq->una++ % u->num_send]);
	if (nq->waits) {
		nq->waits = false;
		fast_qp_activate(f, nq->qp);
	}
	/* buffer and handle are the router's own, so the NIC has failed */
	if (wc->status != IBV_WC_SUCCESS) {
		nq->qp->stats.ud_drops++;
		if (wc->status != IBV_WC_WR_FLUSH_ERR)
			fast_qp_error(f, nq->qp, IBV_EVENT_QP_FATAL);
	}
}

void nic_ud_completion(struct fast *f, struct nic_qp *nq, const struct ibv_wc *wc)
{
	if ((uint16_t)(wc->wr_id >> 48) != nq->life)
		return;
	if (wc->wr_id & NIC_ID_RECV)
		on_received(f, nq, wc);
	else
		on_sent(f, nq, wc);
}

/* ---- its states ------------------------------------------------------------------------------------------- */

int nic_ud_to(struct nic_dev *d, struct ibv_qp *ib, enum ibv_qp_state to, uint32_t qkey)
{
	static const int mask[] = {
		[IBV_QPS_RESET] = IBV_QP_STATE,
		[IBV_QPS_INIT] = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
		[IBV_QPS_RTR] = IBV_QP_STATE,
		[IBV_QPS_RTS] = IBV_QP_STATE | IBV_QP_SQ_PSN,
	};
	struct ibv_qp_attr attr = { .qp_state = to, .port_num = d->port, .qkey = qkey };

	return d->lib.modify_qp(ib, &attr, mask[to]);
}

/* [lock] Forget all datagrams and receive buffers that the NIC had. */
static void end_all(struct nic_qp *nq)
{
	struct nic_ud *u = nq->ud;

	while (nq->una != nq->tail)
		nic_ah_put(u->sent[nq->una++ % u->num_send]);
	nq->una = nq->tail = 0;
	nq->waits = false;
	nic_qp_to(nq, NIC_QP_SOFT);
	take_all(u);
}

static void ended(struct fast *f, struct nic_qp *nq)
{
	fast_lock(f->host);
	end_all(nq);
	nq->life = ++nq->d->lives;
	fast_unlock(f->host);
}

/* The NIC's QP can send from RTR on: nothing is posted to it before the container's QP is in RTS. 0 or an errno */
static int up(struct fast *f, struct nic_qp *nq, uint32_t qkey)
{
	struct nic_dev *d = nq->d;
	int err = nq->cq->is_broken ? EIO : nic_ud_to(d, nq->ib, IBV_QPS_INIT, qkey);

	if (!err) {
		fast_lock(f->host);
		err = give_recvs(nq) ? 0 : ENOMEM;
		fast_unlock(f->host);
	}
	if (!err)
		err = nic_ud_to(d, nq->ib, IBV_QPS_RTR, qkey);
	if (!err)
		err = nic_ud_to(d, nq->ib, IBV_QPS_RTS, qkey);
	if (err) {
		nic_ud_to(d, nq->ib, IBV_QPS_RESET, 0);
		ended(f, nq);
		return err;
	}
	nq->ud->qkey = qkey;
	fast_lock(f->host);
	nic_qp_to(nq, NIC_QP_UD);
	fast_kick(f); /* a runner that sleeps has not armed its CQ */
	fast_unlock(f->host);
	return 0;
}

/* Give the NIC's QP another Q_Key. */
static int set_qkey(struct nic_dev *d, struct nic_qp *nq, uint32_t qkey)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .qkey = qkey };
	int err = d->lib.modify_qp(nq->ib, &attr, IBV_QP_STATE | IBV_QP_QKEY);

	if (!err)
		nq->ud->qkey = qkey;
	return err;
}

int nic_ud_prepare(struct fast *f, struct nic_qp *nq, const struct ff_qp_attr *attr,
		   enum ibv_qp_state now, enum ibv_qp_state next)
{
	struct nic_dev *d = nq->d;
	int err;

	if (!nic_is_up(d)) /* the control thread takes this part from the QP next */
		return 0;
	if (next == IBV_QPS_RESET) {
		err = nic_ud_to(d, nq->ib, IBV_QPS_RESET, 0);
		if (!err)
			ended(f, nq);
		return -err;
	}
	if (next == IBV_QPS_RTR && now == IBV_QPS_INIT && nq->state == NIC_QP_SOFT)
		return -up(f, nq, attr->qkey);
	if (nq->state == NIC_QP_UD && attr->qkey != nq->ud->qkey && next != IBV_QPS_ERR)
		return -set_qkey(d, nq, attr->qkey);
	return 0;
}

void nic_ud_modify(struct fast *f, struct nic_qp *nq)
{
	(void)f;
	if (nq->qp->state == IBV_QPS_RESET || nq->qp->state == IBV_QPS_ERR)
		let_go(nq->ud);
}

void nic_ud_forget(struct nic_qp *nq)
{
	let_go(nq->ud);
	end_all(nq);
}

void nic_ud_lose(struct fast *f, struct nic_qp *nq)
{
	if (nq->ud->is_mine) {
		drop(f, nq);
		fast_qp_activate(f, nq->qp);
	}
	nic_ud_forget(nq);
}
