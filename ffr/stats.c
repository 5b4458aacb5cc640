/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* stats.c - sums of counters; the list is in stats.h. [lock] */
#include "stats.h"

void stats_add(struct ff_stats *to, const struct ff_stats *from)
{
#define X(name, help) to->name += from->name;
	FF_STATS(X)
#undef X
}
