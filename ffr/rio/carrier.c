/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * carrier.c - RapidIO's entry in the list of carriers: blocks beside the wire's stream. See rio.h.
 */
#include "ffr/rio/rio.h"

#include <errno.h>
#include <stdlib.h>

static int open_port(struct fast *f, const void *conf)
{
	struct wire_dev *w = wire_dev(f);
	struct rio_dev *d;

	if (f->index) /* the first thread has the wires */
		return 0;
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	d->f = f;
	d->conf = *(const struct rio_conf *)conf;
	LIST_INIT(&d->links);
	w->by = &rio_by;
	w->by_dev = d;
	d->is_new = true;
	atomic_store(&d->wanted, true);
	return 0;
}

static void close_port(struct fast *f)
{
	free(rio_dev_of(f));
}

static bool ready(struct fast *f, void *what, uint32_t events)
{
	struct rio_dev *d = rio_dev_of(f);
	struct rio_link *l;

	if (d)
		LIST_FOREACH(l, &d->links, entry)
			if (l == what) {
				rio_link_ready(l, events);
				return true;
			}
	return false;
}

static size_t counters(struct fast *f, struct carrier_counter list[CARRIER_COUNTERS])
{
	const struct rio_dev *d = rio_dev_of(f);
	const struct rio_link *l;
	uint64_t up = 0;
	size_t n = 0;

	LIST_FOREACH(l, &d->links, entry)
		up += l->state == RIO_UP;
	list[n++] = (struct carrier_counter){ "rio_peers", "Hosts that are sent to by RapidIO.",
					      true, up };
#define X(name, help)                                                                              \
	list[n++] = (struct carrier_counter){ "rio_" #name "_total", help, false, d->stats.name };
	RIO_STATS(X)
#undef X
	return n;
}

const struct carrier rio_carrier = {
	.name = "rio",
	.open = open_port,
	.close = close_port,
	.counters = counters,
	.work = rio_work,
	.ready = ready,
};
