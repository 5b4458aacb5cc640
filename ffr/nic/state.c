/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * state.c - the states of a NIC and of its QPs, and which one may follow which. nic.h says what each state allows. The
 * files that change a state call this one; [lock], except before there is a runner, and after there was one.
 *
 * A transition that is not in its table is a bug of the router. The state stays then, because another state could let
 * somebody call a NIC that is not there, or leave a QP on a list.
 */
#include "ffr/nic/nic.h"

#define BIT(state) (1u << (state))

static const char *const dev_name[] = {
	[NIC_CLOSED] = "closed",   [NIC_UP] = "up",	[NIC_LOST] = "lost",
	[NIC_ENDING] = "ending",   [NIC_AWAY] = "away", [NIC_DUE] = "due",
	[NIC_OPENING] = "opening",
};
_Static_assert(sizeof(dev_name) / sizeof(dev_name[0]) == NIC_DEV_NUM_STATES, "each has a name");

static const uint32_t dev_next[NIC_DEV_NUM_STATES] = {
	[NIC_CLOSED] = BIT(NIC_UP),
	[NIC_UP] = BIT(NIC_LOST) | BIT(NIC_CLOSED),
	[NIC_LOST] = BIT(NIC_ENDING) | BIT(NIC_CLOSED),
	[NIC_ENDING] = BIT(NIC_AWAY) | BIT(NIC_CLOSED),
	[NIC_AWAY] = BIT(NIC_DUE) | BIT(NIC_CLOSED),
	[NIC_DUE] = BIT(NIC_OPENING) | BIT(NIC_AWAY) | BIT(NIC_CLOSED),
	[NIC_OPENING] = BIT(NIC_UP) | BIT(NIC_AWAY) | BIT(NIC_CLOSED),
};

bool nic_dev_to(struct nic_dev *d, enum nic_dev_state to)
{
	enum nic_dev_state from = d->state;

	if (from == to)
		return true;
	if (!(dev_next[from] & BIT(to))) {
		log_err("NIC %s: a bug: it cannot go from %s to %s", d->host->name, dev_name[from],
			dev_name[to]);
		return false;
	}
	log_debug("NIC %s: %s, was %s", d->host->name, dev_name[to], dev_name[from]);
	d->state = to;
	return true;
}

static const char *const qp_name[] = {
	[NIC_QP_SOFT] = "soft",	      [NIC_QP_UNDECIDED] = "undecided",
	[NIC_QP_ASKING] = "asking",   [NIC_QP_CARRIED] = "carried",
	[NIC_QP_FAILING] = "failing", [NIC_QP_ENDING] = "ending",
	[NIC_QP_ENDED] = "ended",     [NIC_QP_UD] = "ud",
};
_Static_assert(sizeof(qp_name) / sizeof(qp_name[0]) == NIC_QP_NUM_STATES, "each has a name");

static const uint32_t qp_next[NIC_QP_NUM_STATES] = {
	[NIC_QP_SOFT] = BIT(NIC_QP_UNDECIDED) | BIT(NIC_QP_CARRIED) | BIT(NIC_QP_UD),
	[NIC_QP_UNDECIDED] = BIT(NIC_QP_ASKING) | BIT(NIC_QP_SOFT),
	[NIC_QP_ASKING] = BIT(NIC_QP_SOFT),
	[NIC_QP_CARRIED] = BIT(NIC_QP_FAILING) | BIT(NIC_QP_ENDING) | BIT(NIC_QP_SOFT),
	[NIC_QP_FAILING] = BIT(NIC_QP_ENDING) | BIT(NIC_QP_SOFT),
	[NIC_QP_ENDING] = BIT(NIC_QP_ENDED) | BIT(NIC_QP_SOFT),
	[NIC_QP_ENDED] = BIT(NIC_QP_SOFT),
	[NIC_QP_UD] = BIT(NIC_QP_SOFT),
};

bool nic_qp_to(struct nic_qp *nq, enum nic_qp_state to)
{
	struct container *c = nq->qp->o.ses->cont;
	bool may = nq->state == to || qp_next[nq->state] & BIT(to);

	if (!may)
		log_client(
			&c->log, LOG_LEVEL_ERR,
			"container %s: QP %u: a bug: its part at the NIC cannot go from %s to %s",
			c->name, nq->qp->qp_num, qp_name[nq->state], qp_name[to]);
	else if (nq->state != to)
		log_debug("container %s: QP %u at the NIC: %s, was %s", c->name, nq->qp->qp_num,
			  qp_name[to], qp_name[nq->state]);
	if (may)
		nq->state = to;
	return may;
}
