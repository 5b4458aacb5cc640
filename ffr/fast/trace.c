/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* trace.c - the rings of trace.h: who writes them, and when they are there. */
#include "ffr/fast/trace.h"

#include <errno.h>

#include "ffr/fast/internal.h"

static struct trace_entry *next_entry(struct fast *f, struct trace *t)
{
	struct trace_entry *e = &t->entry[t->n++ % TRACE_DEPTH];

	*e = (struct trace_entry){ .seq = ++f->trace_seq,
				   .done = f->ticks ? fast_clock() : f->now };
	return e;
}

void trace_send(struct fast *f, struct qp *qp, const struct send_wr *wr, uint8_t status)
{
	uint64_t before = qp->trace->last_done;
	struct trace_entry *e = next_entry(f, qp->trace);

	if (status != IBV_WC_WR_FLUSH_ERR) { /* those may not have been fetched at all */
		e->fetched = e->started = wr->at;
		/* one WR at a time is under way, except for those in_flight */
		if (wr == qp->wr && before > wr->at)
			e->started = before;
		qp->trace->last_done = e->done;
	}
	e->wr_id = wr->wr_id;
	e->length = wr->length;
	e->peer = qp->type == IBV_QPT_UD ? wr->remote_qpn : qp->attr.dest_qp_num;
	e->opcode = wr->opcode;
	e->status = status;
}

void trace_recv(struct fast *f, struct qp *qp, uint64_t wr_id, uint8_t status, uint32_t length,
		uint32_t peer)
{
	struct trace_entry *e = next_entry(f, qp->trace);

	e->recv = true;
	e->wr_id = wr_id;
	e->length = length;
	e->peer = peer;
	e->status = status;
}

/* ---- control thread ------------------------------------------------------------------------- */

void trace_qp_new(struct qp *qp)
{
	const struct container *c = qp->o.ses->cont;

	if (c->trace.on && !qp->trace && qp->wr &&
	    (!c->trace.qp_num || c->trace.qp_num == qp->qp_num))
		qp->trace = calloc(1, sizeof(*qp->trace));
}

#define FOREACH_QP(c, s, i, qp)                                                                    \
	LIST_FOREACH(s, &(c)->sessions, entry)                                                     \
		for (i = 0; i < (s)->tab[OBJ_QP].size; i++)                                        \
			if (((qp) = obj_of((s)->tab[OBJ_QP].slot[i], qp)))

void trace_off(struct fast_host *h, struct container *c)
{
	struct session *s;
	struct qp *qp;
	uint32_t i;

	FOREACH_QP(c, s, i, qp)
	{
		struct trace *t = qp->trace;

		if (!t)
			continue;
		fast_lock(h);
		qp->trace = NULL;
		fast_unlock(h);
		free(t);
	}
	c->trace.on = false;
}

int trace_on(struct fast_host *h, struct container *c, uint32_t qp_num)
{
	struct session *s;
	struct qp *qp;
	uint32_t i;

	if (c->trace.on && (!c->trace.qp_num || c->trace.qp_num == qp_num))
		return 0;
	c->trace.on = true;
	c->trace.qp_num = qp_num;
	FOREACH_QP(c, s, i, qp)
	{
		bool missing;

		if (!qp->wr || (qp_num && qp->qp_num != qp_num))
			continue;
		fast_lock(h);
		trace_qp_new(qp);
		missing = !qp->trace;
		fast_unlock(h);
		if (missing) {
			trace_off(h, c);
			return -ENOMEM;
		}
	}
	return 1;
}

uint32_t trace_copy(struct fast_host *h, const struct qp *qp, struct trace_entry out[TRACE_DEPTH])
{
	uint32_t n = 0, first;

	if (!qp->trace)
		return 0;
	fast_lock(h);
	first = qp->trace->n > TRACE_DEPTH ? qp->trace->n - TRACE_DEPTH : 0;
	for (uint32_t i = first; i != qp->trace->n; i++)
		out[n++] = qp->trace->entry[i % TRACE_DEPTH];
	fast_unlock(h);
	return n;
}
