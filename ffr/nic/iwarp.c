/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * iwarp.c - what is different with a NIC that speaks iWARP (RFC 5040 to 5044). See nic.h. Neighbours: qp.c, which calls
 * this file for the steps of a QP, and ucma.c, which speaks with the host's rdma_cm.
 *
 * An iWARP connection is a TCP connection that the kernel's iw_cm makes. rdma_connect() or rdma_accept() names a QP in
 * INIT, and the NIC's driver takes the QP to RTS when both sides have agreed. ibv_modify_qp() cannot do that.
 * Containers nevertheless see an InfiniBand device, because the router is one: their QPs go through INIT, RTR and RTS,
 * with the attributes that the connection manager gives them. So the container's QP and the NIC's have states of their
 * own:
 *
 *	the container's QP			nq->iw		the NIC's QP
 *	INIT					IW_NONE		nothing has been asked
 *	INIT, and rdma_connect() was called	IW_ASKED	in INIT, with all receives: the peer may send at once
 *	RTR, RTS, before rdma_accept()		IW_READY	in INIT, with all receives; nothing has been asked
 *	RTR, RTS, and rdma_accept() was called	IW_ASKED	in INIT, with all receives
 *	any state				IW_UP		in RTS: the kernel said ESTABLISHED
 *	ERR					IW_DOWN		the connection has ended or failed
 *
 * WRs that are posted before IW_UP wait. With IW_DOWN the container's QP is in ERR, and is never the NIC's again,
 * because the driver cannot take a QP back to INIT. Each connection has a number (nic_qp.iw_conn). To the container
 * this number is the peer's QP number, because MPA has none: RTR accepts this number only. So a QP that a program
 * connects by itself, with a number that its peer told it, is refused at RTR with EOPNOTSUPP.
 *
 * The GID of such a NIC is the NIC's MAC address. Containers and the connection manager need an IP address, so the
 * router takes the address of the network device that has this MAC.
 *
 * The kernel's siw differs in two things. An MR's addresses are those in the process that registers the MR, even if
 * that process asks for others (mr.c). And a QP that is not in RTS does not flush WRs that are posted to it, so the
 * router does.
 */
#include "ffr/nic/nic.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <string.h>

#include "ffr/obj/gid.h"

#define SIW_VENDOR  0x626d74 /* as drivers/infiniband/sw/siw/siw.h has it */
#define MAC_LEN	    6
#define DRAIN_TURNS 4096u

bool nic_iw_is(const struct ibv_device *device)
{
	return device->transport_type == IBV_TRANSPORT_IWARP;
}

bool nic_iw_is_siw(const struct nic_dev *d)
{
	return d->is_iwarp && d->attr.vendor_id == SIW_VENDOR;
}

/* ---- its address ------------------------------------------------------------------------------------------- */

static bool is_of(const struct ifaddrs *i, const struct ibv_gid_entry *e)
{
	struct sockaddr_ll ll;

	if (!i->ifa_addr || i->ifa_addr->sa_family != AF_PACKET)
		return false;
	memcpy(&ll, i->ifa_addr, sizeof(ll));
	if (e->ndev_ifindex)
		return (uint32_t)ll.sll_ifindex == e->ndev_ifindex;
	return ll.sll_halen == MAC_LEN && !memcmp(ll.sll_addr, e->gid.raw, MAC_LEN);
}

/* An address by which others find it: false for a link-local one. */
static bool to_gid(const struct sockaddr *sa, union ibv_gid *to)
{
	struct sockaddr_in6 sin6;
	struct sockaddr_in sin;

	memset(to, 0, sizeof(*to));
	if (sa && sa->sa_family == AF_INET) {
		memcpy(&sin, sa, sizeof(sin));
		memset(to->raw + 10, 0xff, 2);
		memcpy(to->raw + 12, &sin.sin_addr, sizeof(sin.sin_addr));
		return true;
	}
	if (!sa || sa->sa_family != AF_INET6)
		return false;
	memcpy(&sin6, sa, sizeof(sin6));
	memcpy(to->raw, &sin6.sin6_addr, sizeof(to->raw));
	return !(to->raw[0] == 0xfe && (to->raw[1] & 0xc0) == 0x80);
}

/* The first address of the network device of that name; of IPv4, if it has one. */
static bool first_address(const struct ifaddrs *all, const char *name, union ibv_gid *to)
{
	union ibv_gid gid;
	bool has = false;

	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		if (strcmp(i->ifa_name, name) != 0 || !to_gid(i->ifa_addr, &gid))
			continue;
		if (!has || gid_is_v4(gid.raw))
			*to = gid;
		has = true;
		if (gid_is_v4(gid.raw))
			break;
	}
	return has;
}

int nic_iw_address(const struct ibv_gid_entry *e, union ibv_gid *to)
{
	struct ifaddrs *all;
	int err = ENODATA;

	if (getifaddrs(&all))
		return errno;
	/* several may have one MAC address, as a VLAN and what is below it */
	for (const struct ifaddrs *i = all; i && err; i = i->ifa_next)
		if (is_of(i, e) && first_address(all, i->ifa_name, to))
			err = 0;
	freeifaddrs(all);
	return err;
}

/* ---- a QP's connection -------------------------------------------------------------------------------------- */

static bool is_connected(const struct nic_qp *nq)
{
	return nq->iw == IW_ASKED || nq->iw == IW_UP;
}

/* Control thread, no lock. Nothing of the NIC's QP can be taken back: on an error it is of no use any more. */
static int take(struct fast *f, struct nic_qp *nq, const struct ff_qp_attr *a, enum nic_iw iw)
{
	struct ff_qp_attr with = *a;
	int err;

	/* as the kernel's iw_cm has it for all; what a peer may reach is said by the MRs */
	with.qp_access_flags |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	with.qp_access_flags &= ~(uint32_t)IBV_ACCESS_REMOTE_ATOMIC;
	err = nic_take_receives(f, nq, &with);
	if (err)
		return err;
	fast_lock(f->host);
	nq->carried = true;
	nq->iw = (uint8_t)iw;
	fast_kick(f); /* a runner that sleeps has not armed its CQ */
	fast_unlock(f->host);
	return 0;
}

static int to_rtr(struct fast *f, struct nic_qp *nq, const struct ff_qp_attr *a)
{
	struct qp *qp = nq->qp;
	struct remote *there;
	enum nic_path path;

	fast_lock(f->host);
	path = nic_path_of(f, qp, &a->ah, &nq->to, &there);
	fast_unlock(f->host);
	if (path != PATH_NIC)
		return nq->carried ? -EINVAL : 0;
	if (is_connected(nq))
		return a->dest_qp_num == nq->iw_conn ? 0 : -EINVAL;
	if (nq->iw != IW_NONE || !nic_ucma_knows(nq->d, qp->o.ses->cont, a->dest_qp_num))
		return -EOPNOTSUPP;
	return take(f, nq, a, IW_READY);
}

/* What may change later. There are no RNR timers, and access flags are the same for all. */
static int change(const struct nic_qp *nq, const struct ff_qp_attr *a)
{
	return nic_is_for_sqd(&nq->qp->attr, a) ? -EOPNOTSUPP : 0;
}

/* The connection ends, and what the NIC has flushed is fetched. */
static int to_reset(struct fast *f, struct nic_qp *nq)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	int err;

	nic_srq_leave(nq);
	err = nq->d->lib.modify_qp(nq->ib, &attr, IBV_QP_STATE);
	fast_lock(f->host);
	nic_cq_drain(nq->cq);
	nq->iw = IW_DOWN;
	fast_unlock(f->host);
	return -err;
}

int nic_iw_step(struct fast *f, struct nic_qp *nq, const struct ff_qp_attr *a,
		enum ibv_qp_state now, enum ibv_qp_state next)
{
	if (next == IBV_QPS_RTR && now == IBV_QPS_INIT)
		return to_rtr(f, nq, a);
	if (!nq->carried)
		return 0;
	if (next == IBV_QPS_RESET)
		return to_reset(f, nq);
	if ((next == IBV_QPS_RTS && now != IBV_QPS_RTR) ||
	    (next == IBV_QPS_SQD && now == IBV_QPS_SQD))
		return change(nq, a);
	return 0;
}

/* The container's own, of that number, for a connection by rdma_cm; or NULL. */
static struct nic_qp *own(struct fast *f, const struct container *cont, uint32_t num)
{
	struct qp *qp = qp_by_num(&f->host->qps, cont->nic, num);

	if (!qp || qp->o.ses->cont != cont || !qp->nic || qp->nic->ud)
		return NULL;
	return qp->nic;
}

int nic_iw_ask(struct fast *f, const struct container *cont, uint32_t num, uint32_t conn)
{
	enum ibv_qp_state state = IBV_QPS_ERR;
	struct ff_qp_attr attr;
	struct nic_qp *nq;
	int err = 0;

	fast_lock(f->host);
	nq = own(f, cont, num);
	if (nq) {
		state = nq->qp->state;
		attr = nq->qp->attr;
	}
	fast_unlock(f->host);
	if (!nq || state == IBV_QPS_ERR)
		return -EINVAL;
	if (nq->iw == IW_NONE)
		err = state == IBV_QPS_INIT ? take(f, nq, &attr, IW_ASKED) : -EINVAL;
	else if (nq->iw != IW_READY)
		err = -EISCONN;
	if (err)
		return err;
	fast_lock(f->host);
	nq->iw = IW_ASKED;
	nq->iw_conn = conn;
	fast_unlock(f->host);
	return 0;
}

/* [lock] Whose connection that is, if it has not ended. */
static struct nic_qp *connected(struct fast *f, uint32_t num, uint32_t conn)
{
	struct nic_dev *d;

	NIC_FOREACH(d, f) {
		struct qp *qp = qp_by_num(&f->host->qps, nic_index(d), num);
		struct nic_qp *nq = qp ? qp->nic : NULL;

		if (nq && is_connected(nq) && nq->iw_conn == conn)
			return nq;
	}
	return NULL;
}

void nic_iw_up(struct fast *f, uint32_t num, uint32_t conn)
{
	struct nic_qp *nq;

	fast_lock(f->host);
	nq = connected(f, num, conn);
	if (nq) {
		nq->iw = IW_UP;
		if (nq->waits && nq->qp->busy) {
			nq->waits = false;
			fast_qp_activate(f, nq->qp);
		}
	}
	fast_unlock(f->host);
}

void nic_iw_down(struct fast *f, uint32_t num, uint32_t conn)
{
	struct nic_qp *nq;

	fast_lock(f->host);
	nq = connected(f, num, conn);
	if (nq) {
		nq->iw = IW_DOWN;
		fast_qp_error(f, nq->qp, 0);
	}
	fast_unlock(f->host);
}

/*
 * The CQ may have more completions than one turn takes, and those of other QPs. Stop after DRAIN_TURNS, because the NIC
 * may bring further ones all the time.
 */
void nic_cq_drain(struct nic_cq *cq)
{
	for (uint32_t i = 0; i < DRAIN_TURNS && nic_poll_cq(cq) > 0; i++)
		;
}
