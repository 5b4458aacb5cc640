/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * lat.h - histograms of the time from a request's fetching to its completion.
 *
 * Log-linear buckets, as HdrHistogram has them: 8 for each power of two from 64 ns to 17 s, so that a
 * bucket is at most an eighth of its time wide, one for what is shorter and one for what is longer.
 * One thread at a time adds, with the fast lock held; anybody may read meanwhile: each word is whole,
 * two of them may be of different moments.
 *
 * An SQE has no time stamp of its posting. The time begins with the turn in which the router took the
 * request out of its ring: that it waited there before, because its QP had others under way or nobody
 * looked, is not in it. It ends with the turn in which its completion was written, for which the clock
 * is read anyway: requests that are done in the turn that took them are counted together, when the
 * next turn begins. So a time is too long by as much as the turn did after the completion. What is
 * acknowledged by another host ends with the beginning of the turn that finds the acknowledgement.
 * Requests that fail or are flushed are not counted.
 */
#ifndef FFR_OBJ_LAT_H
#define FFR_OBJ_LAT_H

#include <bsd/sys/queue.h>
#include <stdbool.h>
#include <stdint.h>

#define LAT_MIN_SHIFT 6	 /* 64 ns */
#define LAT_MAX_SHIFT 34 /* 17 s */
#define LAT_SUB_SHIFT 3
#define LAT_BUCKETS   (2 + ((LAT_MAX_SHIFT - LAT_MIN_SHIFT) << LAT_SUB_SHIFT))

struct lat {
	uint64_t count[LAT_BUCKETS];
	uint64_t sum, max; /* ns */
};

static inline uint32_t lat_index(uint64_t ns)
{
	uint32_t shift;

	if (ns < 1ull << LAT_MIN_SHIFT)
		return 0;
	if (ns >= 1ull << LAT_MAX_SHIFT)
		return LAT_BUCKETS - 1;
	shift = 63 - (uint32_t)__builtin_clzll(ns);
	return 1 + ((shift - LAT_MIN_SHIFT) << LAT_SUB_SHIFT) +
	       (uint32_t)(ns >> (shift - LAT_SUB_SHIFT) & ((1 << LAT_SUB_SHIFT) - 1));
}

/* The first time, in ns, that is too long for the bucket; the last one has no such. */
static inline uint64_t lat_bound(uint32_t i)
{
	uint32_t shift = LAT_MIN_SHIFT + (i >> LAT_SUB_SHIFT);

	if (i == LAT_BUCKETS - 1)
		return UINT64_MAX;
	return (1ull << shift) +
	       ((uint64_t)(i & ((1 << LAT_SUB_SHIFT) - 1)) << (shift - LAT_SUB_SHIFT));
}

static inline void lat_count(struct lat *h, uint64_t ns, uint32_t n)
{
	h->count[lat_index(ns)] += n;
	h->sum += ns * n;
	if (ns > h->max)
		h->max = ns;
}

static inline uint64_t lat_total(const struct lat *h)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < LAT_BUCKETS; i++)
		n += h->count[i];
	return n;
}

/* The time, in ns, that `share` (0..1) of the requests took at most: a bucket's bound. 0: none were. */
static inline uint64_t lat_percentile(const struct lat *h, double share)
{
	uint64_t total = lat_total(h), n = 0;

	for (uint32_t i = 0; total && i < LAT_BUCKETS; i++) {
		n += h->count[i];
		if ((double)n >= share * (double)total)
			return lat_bound(i) < h->max ? lat_bound(i) : h->max;
	}
	return 0;
}

/* stats.c: to += from */
void lat_add(struct lat *to, const struct lat *from);

struct fast;
struct qp;

/* Completions of a QP that this turn wrote and whose time is to be counted at its end. */
struct lat_due {
	uint64_t at;	/* when `n` of them were fetched */
	uint64_t older; /* when one more was, in an earlier turn; 0: there is none */
	uint32_t n;
	bool on; /* there is any */
};

/* A QP's part. fast/lat.c */
struct qp_lat {
	struct lat *hist;     /* NULL: its times are not counted */
	LIST_ENTRY(qp) entry; /* fast->lat_due, while due.on */
	struct lat_due due;
};

/* fast/lat.c, [lock] */
void lat_note(struct fast *f, struct qp *qp, uint32_t n, uint64_t older);
void lat_settle_due(struct fast *f); /* at f->now */
void lat_forget(struct fast *f, struct qp *qp);

#endif
