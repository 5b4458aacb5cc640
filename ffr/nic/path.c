/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * path.c - does the NIC or the software device carry a QP's path? And what a QP does as long as nobody knows. [lock],
 * except for nic_decide_one(), which is the control thread's. See nic.h.
 */
#include "ffr/nic/nic.h"

#include <string.h>

#include "ffr/dir/dir.h"
#include "ffr/obj/gid.h"
#include "ffr/peer/peer.h"
#include "ffr/remote/remote.h"
#include "ffr/soft/soft.h"

/* ---- where a path leads ---------------------------------------------------------------------------------------- */

static bool has_nic_in(const struct wire_peer *p, const char *net)
{
	for (uint32_t i = 0; i < p->num_nics; i++)
		if (!strcmp(p->nic[i].net, net))
			return true;
	return false;
}

/*
 * [lock] A path to a container of another host. PATH_NIC: *to is the GID of the container's NIC, which is in the same
 * network as this container's NIC. Both hosts know both NICs, so both decide alike.
 */
static enum nic_path path_to_host(struct fast *f, const struct container *c, struct remote *there,
				  union ibv_gid *to)
{
	const char *net = nic_of(c)->host->net;
	struct wire_peer *p = there->peer;
	int n;

	if (!p)
		return PATH_UNKNOWN;
	if (!p->tcp)
		peer_want(p);
	if (!p->tcp || !p->nic_told)
		return PATH_UNKNOWN;
	if (!has_nic_in(p, net))
		return PATH_SOFT;
	n = wire_nic_of(f, there);
	if (n < 0)
		return PATH_UNKNOWN;
	*to = p->nic[n].gid;
	return strcmp(p->nic[n].net, net) ? PATH_SOFT : PATH_NIC;
}

enum nic_path nic_path_of(struct fast *f, const struct qp *qp, const struct ff_ah_attr *a,
			  union ibv_gid *to, struct remote **there)
{
	const struct container *c = qp->o.ses->cont;
	struct container *here;

	*there = NULL;
	if (a->is_global && a->sgid_index == gid_nic_index(c)) {
		memcpy(to, a->dgid, sizeof(*to));
		return PATH_NIC;
	}
	if (!f->host->wired || !nic_of(c)->host->net[0])
		return PATH_SOFT;
	switch (dir_path(f, c, a, &here, there)) {
	case DIR_REMOTE:
		return path_to_host(f, c, *there, to);
	case DIR_WAIT:
		return PATH_UNKNOWN;
	default:
		return PATH_SOFT;
	}
}

/* [lock] */
void nic_set_there(struct fast *f, struct nic_qp *nq, struct remote *there)
{
	if (there)
		remote_get(there);
	if (nq->there)
		remote_put(f, nq->there);
	nq->there = there;
}

/* ---- undecided ----------------------------------------------------------------------------------------- */

#define PATIENCE_NS                                                                                \
	(1000 * NS_PER_MS) /* the shortest patience(), because two hosts have to connect first */
#define ASK_NS (100 * NS_PER_MS)

/*
 * How long a WR of an undecided QP waits, ns. While the peer's host is not reached, nobody knows who carries the QP, so
 * the WR waits as for a peer that does not answer. The QP never goes by the wire instead, because the peer's router may
 * have decided for the NIC already.
 */
static uint64_t patience(const struct qp *qp)
{
	uint64_t all;

	if (!qp_is_reliable(qp))
		return PATIENCE_NS;
	all = requester_ack_timeout(qp) * (qp->attr.retry_cnt + 1u);
	if (!all)
		return UINT64_MAX;
	return all > PATIENCE_NS ? all : PATIENCE_NS;
}

static enum post_result wait_for_path(struct fast *f, struct qp *qp)
{
	struct nic_qp *nq = qp->nic;
	uint64_t all = patience(qp);

	if (!nq->give_up)
		nq->give_up = all < UINT64_MAX - f->now ? f->now + all : UINT64_MAX;
	if (f->now < nq->give_up)
		return POST_WAIT;
	if (!qp_is_reliable(qp))
		return requester_drop(f, qp);
	comp_send(f, qp, IBV_WC_RETRY_EXC_ERR, FF_VERR_NONE);
	return POST_DONE;
}

const struct send_ops *nic_other_send(const struct qp *qp)
{
	return qp->type == IBV_QPT_UD ? &ud_send : &local_send;
}

static const struct send_ops undecided_send = { .name = "?",
						.post = wait_for_path,
						.progress = wait_for_path };

void nic_qp_ask(struct fast *f)
{
	struct nic_dev *d;

	NIC_FOREACH(d, f)
		if (!TAILQ_EMPTY(&d->undecided))
			nic_wake(f);
}

static void on_ask_again(struct timer *t)
{
	struct nic_qp *nq = (struct nic_qp *)((char *)t - offsetof(struct nic_qp, ask_again));
	struct fast *f = nq->qp->o.ses->fast;

	timer_arm(&f->timers, &nq->ask_again, f->now + ASK_NS);
	nic_qp_ask(f);
	if (nq->give_up && f->now >= nq->give_up)
		fast_qp_activate(f, nq->qp);
}

static void undecided_begin(struct fast *f, struct nic_qp *nq)
{
	TAILQ_INSERT_TAIL(&nq->d->undecided, nq, ask);
	nic_qp_to(nq, NIC_QP_ASKING);
	nq->qp->soft->met = 0;
	nq->qp->send = &undecided_send;
	nq->give_up = 0;
	nq->ask_again.fn = on_ask_again;
	timer_arm(&f->timers, &nq->ask_again, f->now + ASK_NS);
	fast_kick(f); /* a runner that sleeps sends what is asked, and knows of the timer */
}

void nic_undecided_end(struct fast *f, struct nic_qp *nq)
{
	if (nq->state == NIC_QP_ASKING)
		TAILQ_REMOVE(&nq->d->undecided, nq, ask);
	if (nic_qp_is_undecided(nq))
		nic_qp_to(nq, NIC_QP_SOFT);
	timer_cancel(&f->timers, &nq->ask_again);
}

/* [lock] `send` carries the QP from now on: the WR that waited for this is taken from the ring again. */
static void go_on_by(struct fast *f, struct nic_qp *nq, const struct send_ops *send)
{
	struct qp *qp = nq->qp;

	qp->send = send;
	if (qp->busy) {
		qp->busy = false;
		qp->sq.head--;
	}
	fast_qp_activate(f, qp);
}

static void give_to_soft(struct fast *f, struct nic_qp *nq)
{
	uint8_t state = nq->qp->state;

	nic_srq_use(f, nq, SRQ_BY_SOFT);
	go_on_by(f, nq, nic_other_send(nq->qp));
	nq->qp->state = state == IBV_QPS_SQD ? IBV_QPS_RTS : state;
	soft_qp_follow(f, nq->qp, IBV_QPS_INIT);
	nq->qp->state = state;
}

void nic_undecided_lose(struct fast *f, struct nic_qp *nq)
{
	nic_undecided_end(f, nq);
	if (nq->qp->state != IBV_QPS_ERR)
		give_to_soft(f, nq);
}

/* Control thread, no lock: the QP's attributes are in *a. */
static void give_to_nic(struct fast *f, struct nic_qp *nq, enum ibv_qp_state state,
			const struct ff_qp_attr *a)
{
	int err = nic_to_rtr(f, nq, a);

	if (!err && state != IBV_QPS_RTR)
		err = -nic_to_rts(nq->d, nq, a);
	fast_lock(f->host);
	if (err) {
		log_client(&nq->qp->o.ses->cont->log, LOG_LEVEL_WARN,
			   "container %s: QP %u: the NIC refuses the connection: %s",
			   nq->qp->o.ses->cont->name, nq->qp->qp_num, strerror(-err));
		nq->qp->send = nic_other_send(nq->qp);
		fast_qp_error(f, nq->qp, IBV_EVENT_QP_FATAL);
	} else if (nq->qp->state == IBV_QPS_ERR) { /* meanwhile */
		nic_end_later(f, nq);
	} else {
		go_on_by(f, nq, &nic_send);
		nic_recv_fill_all(f, nq);
	}
	fast_unlock(f->host);
}

/*
 * [lock] The path of an undecided QP. If the peer has already sent by the wire, its router knows of no NIC here, and
 * the software device carries this QP, too.
 */
static enum nic_path decide(struct fast *f, struct nic_qp *nq, struct remote **there)
{
	enum nic_path path = nic_path_of(f, nq->qp, &nq->qp->attr.ah, &nq->to, there);

	if (*there && nq->qp->soft->met && nq->qp->soft->met == (*there)->id)
		return PATH_SOFT;
	return path;
}

bool nic_decide_one(struct nic_dev *d)
{
	struct fast *f = d->f;
	enum ibv_qp_state state = IBV_QPS_RESET;
	enum nic_path path = PATH_UNKNOWN;
	struct ff_qp_attr attr;
	struct remote *there;
	struct nic_qp *nq;

	fast_lock(f->host);
	TAILQ_FOREACH(nq, &d->undecided, ask) {
		path = decide(f, nq, &there);
		if (path != PATH_UNKNOWN)
			break;
	}
	if (nq) {
		nic_undecided_end(f, nq);
		state = nq->qp->state;
		attr = nq->qp->attr;
		nic_set_there(f, nq, path == PATH_NIC ? there : NULL);
		if (path == PATH_SOFT)
			give_to_soft(f, nq);
	}
	fast_unlock(f->host);
	if (nq && path == PATH_NIC)
		give_to_nic(f, nq, state, &attr);
	return nq;
}

static bool is_denied(const struct fast *f, const struct nic_qp *nq)
{
	return nic_qp_is_carried(nq) && nq->there &&
	       !dir_allowed(f->host, nq->qp->o.ses->cont, nq->there->tenant, nq->there->name);
}

void nic_policy_changed(struct fast *f)
{
	for (uint32_t i = 0; i < f->host->qps.size; i++) {
		struct qp *qp = f->host->qps.slot[i];

		if (qp && qp->nic && is_denied(f, qp->nic))
			fast_qp_error(f, qp, IBV_EVENT_QP_FATAL);
	}
}

/* Nothing of an undecided QP is known to anybody but this file. */
bool nic_undecided_modify(struct fast *f, struct nic_qp *nq, enum ibv_qp_state old)
{
	struct qp *qp = nq->qp;

	switch (qp->state) {
	case IBV_QPS_RESET:
		nic_qp_forget(f, qp);
		qp->send = nic_other_send(qp);
		return false;
	case IBV_QPS_RTR:
		if (old == IBV_QPS_INIT)
			undecided_begin(f, nq);
		return true;
	case IBV_QPS_ERR:
		nic_undecided_end(f, nq);
		return true;
	default:
		return true;
	}
}
