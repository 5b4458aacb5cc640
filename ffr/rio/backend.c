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

const struct backend_ops *rio_ops(void)
{
	static struct backend_ops ops;

	ops = soft_ops;
	ops.name = "rio";
	ops.open = open_backend;
	ops.close = close_backend;
	ops.work = rio_work;
	ops.ready = ready;
	return &ops;
}
