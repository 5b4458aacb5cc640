/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * backend.c - the rio backend's ops: those of the software device, with RapidIO beside the wire. See rio.h.
 */
#include "ffr/rio/rio.h"

#include <errno.h>
#include <stdlib.h>

static int open_first(struct backend *be)
{
	struct wire_dev *w = &((struct soft_dev *)be->priv)->wire;
	struct rio_dev *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	d->f = be->f;
	d->conf = *(const struct rio_conf *)be->conf;
	LIST_INIT(&d->links);
	w->by = &rio_by;
	w->by_dev = d;
	rio_dev_look(d);
	return 0;
}

static int open_backend(struct backend *be)
{
	int err = soft_ops.open(be);

	if (err || be->f->index) /* the first thread has the wires */
		return err;
	err = open_first(be);
	if (err)
		soft_ops.close(be);
	return err;
}

static void close_backend(struct backend *be)
{
	free(rio_dev_of(be->f));
	soft_ops.close(be);
}

static void ready(struct fast *f, void *what, uint32_t events)
{
	struct rio_dev *d = rio_dev_of(f);
	struct rio_link *l;

	if (d)
		LIST_FOREACH(l, &d->links, entry)
			if (l == what) {
				rio_link_ready(l, events);
				return;
			}
	soft_ops.ready(f, what, events);
}

static size_t counters(struct backend *be, struct backend_counter list[BACKEND_COUNTERS])
{
	const struct rio_dev *d = rio_dev_of(be->f);
	const struct rio_link *l;
	uint64_t up = 0;
	size_t n = 0;

	LIST_FOREACH(l, &d->links, entry)
		up += l->state == RIO_UP;
	list[n++] = (struct backend_counter){ "rio_peers", "Hosts that are sent to by RapidIO.",
					      true, up };
#define X(name, help)                                                                              \
	list[n++] = (struct backend_counter){ "rio_" #name "_total", help, false, d->stats.name };
	RIO_STATS(X)
#undef X
	return n;
}

const struct backend_ops *rio_ops(void)
{
	static struct backend_ops ops;

	ops = soft_ops;
	ops.name = "rio";
	ops.open = open_backend;
	ops.close = close_backend;
	ops.counters = counters;
	ops.work = rio_work;
	ops.ready = ready;
	return &ops;
}
