/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * carriers.c - what carries queue pairs: the router's own copy on this host, its wire, a NIC, RapidIO. Control thread;
 * a runner may choose another way for a QP at any time, so they are asked under the lock, some at a time.
 */
#include "ffr/admin/carriers.h"

#include <string.h>

#include "ffr/fast/backend.h"

#define ASKED 128u /* QPs, with the lock held once */

const char *carrier_of(const struct qp *qp)
{
	if (!qp->send || qp->state == IBV_QPS_RESET || qp->state == IBV_QPS_INIT)
		return NULL;
	return qp->send->by ? qp->send->by(qp) : qp->send->name;
}

static void add(struct carriers *sum, const char *by)
{
	uint32_t i = 0;

	while (i < sum->n && strcmp(sum->list[i].by, by))
		i++;
	if (i == CARRIERS_MAX)
		return; /* there are not so many names */
	if (i == sum->n)
		sum->list[sum->n++] = (struct carried){ .by = by };
	sum->list[i].qps++;
}

static void add_session(struct carriers *sum, const struct session *s)
{
	const struct obj_table *qps = &s->tab[OBJ_QP];
	struct fast_host *h = s->fast->host;
	uint32_t asked = 0;

	for (uint32_t i = 0; i < qps->size; i++) {
		const struct qp *qp = obj_of(qps->slot[i], qp);
		const char *by;

		if (!qp || qp->xrc.target) /* its QP is another session's */
			continue;
		if (!asked++)
			fast_lock(h);
		by = carrier_of(qp);
		if (by)
			add(sum, by);
		if (asked == ASKED) {
			fast_unlock(h);
			asked = 0;
		}
	}
	if (asked)
		fast_unlock(h);
}

void carriers_add(struct carriers *sum, const struct container *c)
{
	const struct session *s;

	LIST_FOREACH(s, &c->sessions, entry)
		add_session(sum, s);
}
