/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * lat.c - when completions are counted in their QP's histogram; lat.h tells what is measured.
 * [lock], the runner.
 */
#include "ffr/fast/internal.h"

static void settle(struct fast *f, struct qp *qp)
{
	struct lat_due *d = &qp->lat.due;

	if (d->n)
		lat_count(qp->lat.hist, f->now - d->at, d->n);
	if (d->older)
		lat_count(qp->lat.hist, f->now - d->older, 1);
	LIST_REMOVE(qp, lat.entry);
	*d = (struct lat_due){ 0 };
}

void lat_note(struct fast *f, struct qp *qp, uint32_t n, uint64_t older)
{
	if (qp->lat.due.on) /* its second time in this turn; the clock was read in between */
		settle(f, qp);
	qp->lat.due = (struct lat_due){ .at = f->now, .older = older, .n = n, .on = true };
	LIST_INSERT_HEAD(&f->lat_due, qp, lat.entry);
}

void lat_settle_due(struct fast *f)
{
	struct qp *qp;

	while ((qp = LIST_FIRST(&f->lat_due)))
		settle(f, qp);
}

void lat_forget(struct fast *f, struct qp *qp)
{
	if (qp->lat.due.on)
		settle(f, qp);
}
