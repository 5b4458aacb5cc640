/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * idset.c - a set of numbers as a red-black tree of ranges. Used by alloc.c; one thread.
 *
 * The ranges are disjoint and never touch, so the number behind a range's end is free: the lowest
 * free number from `first` is `first`, or the one behind the range that holds `first`.
 *
 * Taking a number out of the middle of a range needs one more range, and must not fail. So every
 * add allocates a node, used or kept as a spare: there are always as many nodes as numbers, and
 * after a split at least three numbers were there for two ranges.
 */
#include "ffo/base/idset.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct idset_range {
	union {
		RB_ENTRY(idset_range) node;
		SLIST_ENTRY(idset_range) spare;
	};
	idset_num first, last;
};

static int range_cmp(const struct idset_range *a, const struct idset_range *b)
{
	return a->first < b->first ? -1 : a->first > b->first;
}

RB_GENERATE_INTERNAL(idset_tree, idset_range, node, range_cmp, static __attribute__((unused)))

void idset_init(struct idset *s)
{
	RB_INIT(&s->tree);
	SLIST_INIT(&s->spare);
	s->count = 0;
}

void idset_clear(struct idset *s)
{
	struct idset_range *r;

	while ((r = RB_ROOT(&s->tree))) {
		RB_REMOVE(idset_tree, &s->tree, r);
		free(r);
	}
	while ((r = SLIST_FIRST(&s->spare))) {
		SLIST_REMOVE_HEAD(&s->spare, spare);
		free(r);
	}
	s->count = 0;
}

/* The range with the highest start <= n, or NULL. */
static struct idset_range *range_floor(const struct idset *s, idset_num n)
{
	struct idset_range *r = RB_ROOT(&s->tree), *best = NULL;

	while (r)
		if (r->first <= n) {
			best = r;
			r = RB_RIGHT(r, node);
		} else {
			r = RB_LEFT(r, node);
		}
	return best;
}

bool idset_has(const struct idset *s, idset_num n)
{
	struct idset_range *r = range_floor(s, n);

	return r && n <= r->last;
}

int idset_add(struct idset *s, idset_num n)
{
	struct idset_range *below = range_floor(s, n), *above, *spare;

	if (below && n <= below->last)
		return -EEXIST;
	spare = malloc(sizeof(*spare));
	if (!spare)
		return -ENOMEM;
	SLIST_INSERT_HEAD(&s->spare, spare, spare);
	s->count++;

	above = below ? RB_NEXT(idset_tree, &s->tree, below) : RB_MIN(idset_tree, &s->tree);
	if (below && below->last + 1 != n)
		below = NULL;
	if (above && n + 1 != above->first)
		above = NULL;
	if (below && above) {
		below->last = above->last;
		RB_REMOVE(idset_tree, &s->tree, above);
		SLIST_INSERT_HEAD(&s->spare, above, spare);
	} else if (below) {
		below->last = n;
	} else if (above) {
		above->first = n; /* still behind the range below it: the order holds */
	} else {
		SLIST_REMOVE_HEAD(&s->spare, spare);
		spare->first = spare->last = n;
		RB_INSERT(idset_tree, &s->tree, spare);
	}
	return 0;
}

void idset_del(struct idset *s, idset_num n)
{
	struct idset_range *r = range_floor(s, n), *upper, *spare;

	assert(r && n <= r->last);
	if (r->first == r->last) {
		RB_REMOVE(idset_tree, &s->tree, r);
		SLIST_INSERT_HEAD(&s->spare, r, spare);
	} else if (n == r->first) {
		r->first++;
	} else if (n == r->last) {
		r->last--;
	} else {
		upper = SLIST_FIRST(&s->spare);
		SLIST_REMOVE_HEAD(&s->spare, spare);
		upper->first = n + 1;
		upper->last = r->last;
		r->last = n - 1;
		RB_INSERT(idset_tree, &s->tree, upper);
	}
	spare = SLIST_FIRST(&s->spare);
	SLIST_REMOVE_HEAD(&s->spare, spare);
	free(spare);
	s->count--;
}

int idset_lowest_free(const struct idset *s, idset_num first, idset_num last, idset_num *n)
{
	struct idset_range *r = range_floor(s, first);

	if (first > last)
		return -ENOSPC;
	if (!r || r->last < first) {
		*n = first;
		return 0;
	}
	if (r->last >= last)
		return -ENOSPC;
	*n = r->last + 1;
	return 0;
}
