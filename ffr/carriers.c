/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * carriers.c - the list of carriers, and which of them the configuration names. Control thread.
 */
#include "ffr/carriers.h"

#include "ffr/nic/nic.h"
#include "ffr/remote/remote.h"
#include "ffr/rio/rio.h"

/* A NIC's completions come before what the wire has, which may wait for them. */
static const struct carrier *const carriers[] = { &nic_carrier, &rio_carrier, &wire_carrier };
static_assert(sizeof(carriers) / sizeof(carriers[0]) == CARRIERS_ALL, "");

static bool is_wanted(const struct carrier *c, const struct ffr_conf *conf, const void **of)
{
	*of = NULL;
	if (c == &nic_carrier) {
		*of = conf->nics;
		return conf->num_nics;
	}
	if (c == &rio_carrier) {
		*of = &conf->rio;
		return conf->has_rio;
	}
	return true;
}

void carriers_choose(const struct ffr_conf *conf, struct carrier_use list[CARRIERS_ALL + 1])
{
	for (unsigned i = 0; i < CARRIERS_ALL; i++)
		if (is_wanted(carriers[i], conf, &list->conf))
			list++->ops = carriers[i];
	list->ops = NULL;
}
