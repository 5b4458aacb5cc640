/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* stats.c - sums of counters and histograms; what they are is told in stats.h and lat.h. */
#include "ffr/obj/stats.h"

#include "ffr/obj/objects.h"

uint64_t stats_word(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

void stats_add(struct ff_stats *to, const struct ff_stats *from)
{
#define X(name, help) to->name += stats_word(&from->name);
	FF_STATS(X)
#undef X
	for (unsigned i = 0; i < FF_NUM_STATUS; i++)
		to->status[i] += stats_word(&from->status[i]);
}

uint64_t stats_status(const struct ff_stats *st, unsigned status)
{
	if (status != IBV_WC_SUCCESS)
		return st->status[status];
	return st->send_ops + st->write_ops + st->read_ops + st->atomic_ops + st->flush_ops +
	       st->mw_ops + st->recv_ops;
}

void lat_add(struct lat *to, const struct lat *from)
{
	uint64_t max = stats_word(&from->max);

	for (unsigned i = 0; i < LAT_BUCKETS; i++)
		to->count[i] += stats_word(&from->count[i]);
	to->sum += stats_word(&from->sum);
	if (max > to->max)
		to->max = max;
}

/*
 * XRC_RECV QPs, of which a session's handles have nothing; s: those that are its own now, NULL: all of the container's,
 * which are looked through once, for there may be as many of them as of sessions.
 */
static void add_targets(const struct container *c, const struct session *s, struct ff_stats *st)
{
	const struct xrcd *x;
	const struct qp *qp;

	LIST_FOREACH(x, &c->xrcds, entry)
		LIST_FOREACH(qp, &x->targets, xrc.same_xrcd)
			if (!s || qp->o.ses == s)
				stats_add(st, &qp->stats);
}

void stats_of_qp(const struct qp *qp, struct ff_stats *st, struct lat *lat)
{
	stats_add(st, &qp->stats);
	if (lat && qp->lat.hist)
		lat_add(lat, qp->lat.hist);
}

static void add_qps(const struct session *s, struct ff_stats *st, struct lat *lat)
{
	const struct obj_table *qps = &s->tab[OBJ_QP];
	const struct qp *qp;

	for (uint32_t i = 0; i < qps->size; i++) {
		qp = obj_of(qps->slot[i], qp);
		if (qp)
			stats_of_qp(qp, st, lat);
	}
}

struct ff_stats stats_of_session(const struct session *s)
{
	struct ff_stats st = { 0 };

	stats_add(&st, &s->stats);
	add_qps(s, &st, NULL);
	add_targets(s->cont, s, &st);
	return st;
}

void stats_beside_qps(const struct container *c, struct ff_stats *st, struct lat *lat)
{
	const struct session *s;

	stats_add(st, &c->stats);
	st->cpu_ns += c->cpu.ctl_ns;
	if (lat)
		lat_add(lat, &c->lat);
	LIST_FOREACH(s, &c->sessions, entry) {
		stats_add(st, &s->stats);
		if (lat)
			lat_add(lat, &s->lat);
	}
}

void stats_of_container(const struct container *c, struct ff_stats *st, struct lat *lat)
{
	const struct session *s;

	stats_beside_qps(c, st, lat);
	LIST_FOREACH(s, &c->sessions, entry)
		add_qps(s, st, lat);
	add_targets(c, NULL, st);
}

void stats_fold_qp(struct qp *qp)
{
	stats_add(&qp->o.ses->stats, &qp->stats);
	qp->stats = (struct ff_stats){ 0 };
	if (!qp->lat.hist)
		return;
	lat_add(&qp->o.ses->lat, qp->lat.hist);
	*qp->lat.hist = (struct lat){ 0 };
}

const char *const why_name[FF_WHY_NUM] = {
#define X(NAME, name, text) name,
	FF_WHYS(X)
#undef X
};

uint64_t mr_copied(const struct mr *mr)
{
	if (mr->kind != MR_USER || mr->view || mr->odp)
		return 0;
	return mr->length - mr->zero_copy;
}

enum ff_why mr_why(const struct mr *mr)
{
	return mr->why == FF_WHY_UNUSED && mr->o.ses->mem.filtered ? FF_WHY_SECCOMP : mr->why;
}

void counts_add_session(struct ff_counts *n, const struct session *s)
{
	const struct obj_table *mrs = &s->tab[OBJ_MR];

	n->sessions++;
	n->qps += s->tab[OBJ_QP].used;
	n->cqs += s->tab[OBJ_CQ].used;
	n->srqs += s->tab[OBJ_SRQ].used;
	n->mrs += mrs->used;
	n->pds += s->tab[OBJ_PD].used;
	for (uint32_t i = 0; i < mrs->size; i++) {
		const struct mr *mr = obj_of(mrs->slot[i], mr);

		if (!mr || mr->kind == MR_NULL)
			continue;
		if (mr_leaves(mr)) {
			n->mrs--;
			continue;
		}
		if (mr->odp) {
			n->odp_mrs++;
			continue;
		}
		n->registered += mr->length;
		n->zero_copy += mr->zero_copy;
		n->copied[mr_why(mr)] += mr_copied(mr);
	}
}

/* ---- depths --------------------------------------------------------------------------------- */

/*
 * Entries posted from `head` on. Valid ones come first, so that a few looks are enough in a ring of
 * any depth; a client that does otherwise gets some number.
 */
static uint32_t posted(const uint8_t *ring, uint32_t head, uint32_t depth, uint32_t stride)
{
	uint32_t low = 0, high = depth;

	while (low < high) {
		uint32_t mid = (low + high) / 2, i = head + mid;
		/* seq is the first field of SQE and RQE */
		const _Atomic uint16_t *seq =
			(const void *)(ring + (size_t)(i & (depth - 1)) * stride);

		if (atomic_load_explicit(seq, memory_order_relaxed) == ff_seq(i))
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}
static_assert(!offsetof(struct ff_sqe, seq) && !offsetof(struct ff_rqe, seq), "posted()");

static uint32_t unpolled(const struct cq *cq)
{
	uint32_t n = __atomic_load_n(&cq->pi, __ATOMIC_RELAXED) -
		     atomic_load_explicit(&cq->hdr->ci, memory_order_relaxed);

	return n <= cq->depth ? n : 0;
}

void stats_depths(const struct qp *qp, struct ff_depths *d)
{
	uint32_t sq = __atomic_load_n(&qp->sq.head, __ATOMIC_RELAXED);
	uint32_t rq = __atomic_load_n(&qp->rq.head, __ATOMIC_RELAXED);

	*d = (struct ff_depths){ 0 };
	d->sq = posted(qp->sq.ring, sq, qp->sq.depth, qp->sq.stride) +
		__atomic_load_n(&qp->in_flight, __ATOMIC_RELAXED) +
		__atomic_load_n(&qp->busy, __ATOMIC_RELAXED);
	if (qp->srq)
		d->rq = posted(qp->srq->ring, __atomic_load_n(&qp->srq->head, __ATOMIC_RELAXED),
			       qp->srq->depth, qp->srq->stride);
	else if (qp->rq.depth)
		d->rq = posted(qp->rq.ring, rq, qp->rq.depth, qp->rq.stride);
	if (qp->scq)
		d->cq = unpolled(qp->scq);
	if (qp->rcq && qp->rcq != qp->scq)
		d->cq += unpolled(qp->rcq);
}
