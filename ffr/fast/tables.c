/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * tables.c - tables that runners look things up in, and that have become too small. Control thread;
 * called by ctl/ before it enters something.
 *
 * The larger table is filled without the lock, for with some ten thousand entries that takes
 * milliseconds; only this thread changes the old one meanwhile. Small tables grow under the lock, where
 * they are (obj/).
 */
#include <stdlib.h>
#include <string.h>

#include "ffr/fast/fast.h"

/* What is in `n` is the table from now on; `old` was its memory. */
static void replace(struct fast_host *h, void *table, const void *n, size_t size, void *old)
{
	fast_lock(h);
	memcpy(table, n, size);
	fast_unlock(h);
	free(old);
}

int fast_keys_room(struct fast_host *h, struct key_table *t)
{
	struct key_table n;
	int err = keys_grown(t, &n);

	if (!err && n.slot)
		replace(h, t, &n, sizeof(n), t->slot);
	return err;
}

int fast_qpns_room(struct fast_host *h)
{
	struct qp_table *t = &h->qps, n;
	int err = qpns_grown(t, &n);

	if (!err && n.slot)
		replace(h, t, &n, sizeof(n), t->slot);
	return err;
}
