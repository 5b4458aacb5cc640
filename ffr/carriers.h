/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * carriers.h - which carriers (fast/carrier.h) the router has. See carriers.c.
 */
#ifndef FFR_CARRIERS_H
#define FFR_CARRIERS_H

#include "ffr/conf.h"
#include "ffr/fast/carrier.h"

#define CARRIERS_ALL 3u

/*
 * Those that the configuration names, as struct backend wants them; list has room for all. The name of the one that has
 * clients' memory locked, or NULL.
 */
const char *carriers_choose(const struct ffr_conf *conf, struct carrier_use list[CARRIERS_ALL + 1]);

#endif
