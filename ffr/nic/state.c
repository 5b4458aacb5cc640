/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * state.c - the states of a NIC, and which one may follow which. nic.h says what each state allows. Called by the files
 * that change a state; [lock], except before there is a runner, and after there was one.
 *
 * A transition that is not in the table is a bug of the router. The state stays then, because a state that nobody
 * expects here would let somebody call a NIC that is not there.
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
