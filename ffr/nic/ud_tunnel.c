/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ud_tunnel.c - datagrams between containers of two hosts by their NICs: the router's own UD QP.
 *
 * The address handle of a container's datagram names containers' addresses, which the NIC's network does not know,
 * and the receiver must be able to trust the sender's address. So one router sends the frame that would go by the
 * wire (header, GRH and data) to the other router's UD QP. In front of the frame is a number that only that peer was
 * told, by the wire. Therefore the receiving router trusts the frame as one of the wire: the sender is a container of
 * that host, and may talk to the receiver's container.
 *
 * A datagram goes by the wire if the frame does not fit into the NIC's MTU, or if there is no address handle or no
 * buffer at this moment. Datagrams have no order. A datagram that finds no room at the receiver is lost, as the
 * specification allows.
 */
#include "ffr/nic/nic.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "ffr/remote/remote.h"
#include "ffr/wire/wire.h"

#define TUNNEL_RECVS 256u
#define TUNNEL_SENDS 64u
#define TUNNEL_AHS   4096u /* hosts */
#define TUNNEL_HOPS  64

/* The header in front of GRH and data. */
struct tunnel_hdr {
	uint64_t number; /* wire_peer.nic_ud_in of the receiver's */
	struct wire_hdr h;
};

static uint64_t id_of(const struct nic_ud_tunnel *t, uint64_t queue, uint32_t place)
{
	return (uint64_t)t->life << 48 | NIC_ID_TUNNEL | queue | place;
}

static uint8_t *buf_of(const struct nic_ud_tunnel *t, uint32_t i)
{
	return t->mem + (size_t)i * t->buf_size;
}

/* ---- making it -------------------------------------------------------------------------------------------- */

static int give_recv(struct nic_ud_tunnel *t, uint32_t place)
{
	struct ibv_sge sge = { (uintptr_t)buf_of(t, place), t->buf_size, t->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id_of(t, NIC_ID_RECV, place),
				  .sg_list = &sge,
				  .num_sge = 1 },
			   *bad;

	return ibv_post_recv(t->ib, &wr, &bad);
}

/* Bring the QP up, which the runner does not use yet. 0; or an errno, and nothing is received */
static int up(struct nic_dev *d)
{
	struct nic_ud_tunnel *t = &d->ud_tunnel;
	uint32_t qkey = d->host->ud_qkey;
	int err = nic_ud_to(d, t->ib, IBV_QPS_INIT, qkey);

	for (uint32_t i = 0; i < TUNNEL_RECVS && !err; i++)
		err = give_recv(t, i);
	if (!err)
		err = nic_ud_to(d, t->ib, IBV_QPS_RTR, qkey);
	if (!err)
		err = nic_ud_to(d, t->ib, IBV_QPS_RTS, qkey);
	return err;
}

static int tunnel_new(struct nic_dev *d)
{
	struct nic_ud_tunnel *t = &d->ud_tunnel;
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = TUNNEL_SENDS,
			 .max_recv_wr = TUNNEL_RECVS,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};

	TAILQ_INIT(&t->pool.ahs);
	t->pool.max_ahs = TUNNEL_AHS;
	t->buf_size = SOFT_GRH_SZ + (128u << d->port_attr.active_mtu);
	t->size = (size_t)t->buf_size * (TUNNEL_RECVS + TUNNEL_SENDS);
	t->size = (t->size + FF_PAGE - 1) & ~((size_t)FF_PAGE - 1);
	errno = ENOMEM;
	t->sent = calloc(TUNNEL_SENDS, sizeof(struct nic_ah *));
	t->mem = mmap(NULL, t->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (t->mem == MAP_FAILED)
		t->mem = NULL;
	if (!t->sent || !t->mem)
		return errno;
	t->mr = d->lib.reg_mr_iova2(d->ud_pd, t->mem, t->size, (uintptr_t)t->mem,
				    IBV_ACCESS_LOCAL_WRITE);
	if (!t->mr)
		return errno;
	t->cq = nic_cq_get(d, NULL, TUNNEL_RECVS + TUNNEL_SENDS);
	if (!t->cq)
		return errno;
	attr.send_cq = attr.recv_cq = t->cq->cq;
	t->ib = d->lib.create_qp(d->ud_pd, &attr);
	return t->ib ? up(d) : errno;
}

int nic_ud_tunnel_start(struct nic_dev *d)
{
	struct nic_ud_tunnel *t = &d->ud_tunnel;
	struct fast *f = d->f;
	uint32_t qkey;
	int err;

	if (getrandom(&qkey, sizeof(qkey), 0) != (ssize_t)sizeof(qkey))
		return errno;
	d->host->ud_qkey = qkey & 0x7fffffff; /* the upper half is the kernel's to give */
	err = tunnel_new(d);
	if (err)
		return err;
	fast_lock(f->host);
	d->host->ud_qpn = t->ib->qp_num;
	t->state = TUNNEL_UP;
	fast_unlock(f->host);
	return 0;
}

void nic_ud_tunnel_free(struct nic_lib *lib, struct nic_ud_tunnel *t)
{
	if (t->ib)
		lib->destroy_qp(t->ib);
	if (t->mr)
		lib->dereg_mr(t->mr);
	if (t->mem)
		munmap(t->mem, t->size);
	free(t->sent);
}

void nic_ud_tunnel_lose(struct nic_dev *d, struct nic_ud_tunnel *to)
{
	struct nic_ud_tunnel *t = &d->ud_tunnel;

	while (t->una != t->tail)
		nic_ah_put(t->sent[t->una++ % TUNNEL_SENDS]);
	if (t->sent)
		nic_ahs_forget(&t->pool);
	d->host->ud_qpn = 0;
	*to = *t;
	memset(t, 0, sizeof(*t));
}

void nic_ud_tunnel_stop(struct nic_dev *d)
{
	struct nic_ud_tunnel t;

	nic_ud_tunnel_lose(d, &t);
	nic_ud_tunnel_free(&d->lib, &t);
}

/* [lock] Until the QP is up again, datagrams go by the wire, and those that peers send are lost. */
void nic_ud_tunnel_failed(struct nic_dev *d)
{
	struct nic_ud_tunnel *t = &d->ud_tunnel;

	if (t->state != TUNNEL_UP)
		return;
	t->state = TUNNEL_BROKEN;
	log_warn("NIC %s: the router's UD QP has failed, and is made anew", d->host->name);
	nic_wake(d->f);
}

void nic_ud_tunnel_cq_failed(struct nic_dev *d)
{
	struct nic_ud_tunnel *t = &d->ud_tunnel;

	t->state = TUNNEL_DOWN;
	d->host->ud_qpn = 0;
	wire_tell_nic(d->f);
	log_err("NIC %s: the CQ of the router's UD QP has failed: datagrams to other hosts go by the wire",
		d->host->name);
}

void nic_ud_tunnel_work(struct nic_dev *d)
{
	struct nic_ud_tunnel *t = &d->ud_tunnel;
	struct fast *f = d->f;
	int err;

	if (t->state != TUNNEL_BROKEN || !nic_is_up(d))
		return;
	err = nic_ud_to(d, t->ib, IBV_QPS_RESET, 0);
	fast_lock(f->host);
	t->state = TUNNEL_DOWN;
	while (t->una != t->tail)
		nic_ah_put(t->sent[t->una++ % TUNNEL_SENDS]);
	t->life++;
	fast_unlock(f->host);
	if (!err)
		err = up(d);
	fast_lock(f->host);
	if (err)
		t->state = TUNNEL_BROKEN; /* try again with the next call of anybody */
	else if (!t->cq->is_broken)
		t->state = TUNNEL_UP;
	fast_kick(f);
	fast_unlock(f->host);
	if (err)
		log_err("NIC %s: the router's UD QP: %s", d->host->name, strerror(err));
}

/* ---- datagrams [lock] -------------------------------------------------------------------------------------- */

static struct nic_ah *handle_of(struct nic_dev *d, const struct wire_nic *to)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = d->port,
		.grh = { .dgid = to->gid, .sgid_index = d->gid_index, .hop_limit = TUNNEL_HOPS },
	};
	struct nic_ah *ah = nic_ah_get(d, &d->ud_tunnel.pool, &attr);

	if (!ah || ah->state == AH_READY)
		return ah;
	nic_ah_put(ah);
	return NULL;
}

/* The NIC of that host that gets this NIC's datagrams: the first one in the same network. NULL: use the wire. */
static const struct wire_nic *nic_there(const struct nic_dev *d, const struct wire_peer *p)
{
	if (!p->tcp || !p->nic_told || !d->host->net[0])
		return NULL;
	for (uint32_t i = 0; i < p->num_nics; i++) {
		const struct wire_nic *n = &p->nic[i];

		if (n->ud_qpn && n->ud_out && !strcmp(n->net, d->host->net))
			return n;
	}
	return NULL;
}

static bool has_room(const struct nic_dev *d, uint32_t len)
{
	const struct nic_ud_tunnel *t = &d->ud_tunnel;

	return nic_is_up(d) && t->state == TUNNEL_UP && t->tail - t->una < TUNNEL_SENDS &&
	       sizeof(struct tunnel_hdr) + len <= t->buf_size - SOFT_GRH_SZ;
}

bool nic_ud_tunnel_send(const struct container *c, struct wire_peer *p, const struct wire_hdr *h,
			const void *payload)
{
	struct nic_dev *d = nic_of(c);
	const struct wire_nic *to = nic_there(d, p);
	struct nic_ud_tunnel *t = &d->ud_tunnel;
	uint32_t place = t->tail % TUNNEL_SENDS;
	struct tunnel_hdr th = { .number = to ? to->ud_out : 0, .h = *h };
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct nic_ah *ah;
	uint8_t *buf;

	if (!to || !has_room(d, h->len))
		return false;
	ah = handle_of(d, to);
	if (!ah)
		return false;
	buf = buf_of(t, TUNNEL_RECVS + place);
	memcpy(buf, &th, sizeof(th));
	memcpy(buf + sizeof(th), payload, h->len);
	sge = (struct ibv_sge){ (uintptr_t)buf, (uint32_t)sizeof(th) + h->len, t->mr->lkey };
	wr.wr_id = id_of(t, 0, place);
	wr.wr.ud.ah = ah->ib;
	wr.wr.ud.remote_qpn = to->ud_qpn;
	wr.wr.ud.remote_qkey = to->ud_qkey;
	if (ibv_post_send(t->ib, &wr, &bad)) {
		nic_ah_put(ah);
		nic_ud_tunnel_failed(d);
		return false;
	}
	t->sent[place] = ah;
	t->tail++;
	return true;
}

/* The number tells which host sent the datagram. All else is as for a datagram by the wire. */
static void received(struct fast *f, const uint8_t *data, uint32_t len)
{
	struct wire_peer *p;
	struct tunnel_hdr th;

	if (len < SOFT_GRH_SZ + sizeof(th))
		return;
	memcpy(&th, data + SOFT_GRH_SZ, sizeof(th));
	if (th.h.type != WIRE_UD || !th.number || th.h.len != len - SOFT_GRH_SZ - sizeof(th))
		return;
	p = wire_peer_by_number(f, th.number);
	if (p)
		remote_ud_recv(f, p, &th.h, data + SOFT_GRH_SZ + sizeof(th));
}

static void on_received(struct nic_dev *d, const struct ibv_wc *wc)
{
	struct nic_ud_tunnel *t = &d->ud_tunnel;
	uint32_t place = (uint32_t)wc->wr_id;

	if (place >= TUNNEL_RECVS)
		return;
	if (wc->status == IBV_WC_SUCCESS && wc->byte_len <= t->buf_size)
		received(d->f, buf_of(t, place), wc->byte_len);
	if (wc->status != IBV_WC_SUCCESS || give_recv(t, place))
		nic_ud_tunnel_failed(d);
}

void nic_ud_tunnel_completion(struct nic_dev *d, const struct ibv_wc *wc)
{
	struct nic_ud_tunnel *t = &d->ud_tunnel;

	if ((uint16_t)(wc->wr_id >> 48) != t->life)
		return;
	if (wc->wr_id & NIC_ID_RECV) {
		on_received(d, wc);
		return;
	}
	if (t->una == t->tail || (uint32_t)wc->wr_id != t->una % TUNNEL_SENDS)
		return;
	nic_ah_put(t->sent[t->una++ % TUNNEL_SENDS]);
	if (wc->status != IBV_WC_SUCCESS)
		nic_ud_tunnel_failed(d);
}
