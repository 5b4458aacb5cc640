/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * carriers.c - which carriers the configuration names, in their order. Control thread.
 */
#include "ffr/carriers.h"

#include "ffr/nic/nic.h"
#include "ffr/remote/remote.h"
#include "ffr/rio/rio.h"

const char *carriers_choose(const struct ffr_conf *conf, struct carrier_use list[CARRIERS_ALL + 1])
{
	struct carrier_use *c = list;

	/* A NIC's completions come before what the wire has, which may wait for them. */
	if (conf->num_nics)
		*c++ = (struct carrier_use){ &nic_carrier, conf->nics };
	if (conf->has_rio)
		*c++ = (struct carrier_use){ &rio_carrier, &conf->rio };
	*c++ = (struct carrier_use){ &wire_carrier, NULL };
	*c = (struct carrier_use){ 0 };
	while (c-- > list)
		if (c->ops->locks)
			return c->ops->name;
	return NULL;
}
