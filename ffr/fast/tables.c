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

#include "ffr/fast/fast.h"

int fast_keys_room(struct fast *f, struct key_table *t)
{
	void *old = t->slot;
	struct key_table n;
	int err = keys_grown(t, &n);

	if (!err && n.slot) {
		fast_lock_thread(f);
		*t = n;
		fast_unlock_thread(f);
		free(old);
	}
	return err;
}

int fast_qpns_room(struct fast_host *h)
{
	struct qp_table *t = &h->qps, n;
	void *old = t->slot;
	int err = qpns_grown(t, &n);

	if (!err && n.slot) {
		fast_lock(h);
		*t = n;
		fast_unlock(h);
		free(old);
	}
	return err;
}
