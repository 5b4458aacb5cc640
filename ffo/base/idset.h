/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * idset.h - a set of numbers that answers "which is the lowest one not in it" in O(log n).
 * Used by alloc.c for addresses and LIDs. Not thread-safe.
 */
#ifndef FFO_BASE_IDSET_H
#define FFO_BASE_IDSET_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <stdbool.h>

typedef unsigned __int128 idset_num; /* wide enough for an IPv6 address */

struct idset_range;

struct idset {
	RB_HEAD(idset_tree, idset_range) tree;
	SLIST_HEAD(, idset_range) spare;
	unsigned long count; /* numbers in the set */
};

void idset_init(struct idset *s);
void idset_clear(struct idset *s);
bool idset_has(const struct idset *s, idset_num n);
/* 0, -EEXIST or -ENOMEM. */
int idset_add(struct idset *s, idset_num n);
/* n is in the set. Cannot fail. */
void idset_del(struct idset *s, idset_num n);
/* The lowest number of first..last that is not in the set: 0 or -ENOSPC. */
int idset_lowest_free(const struct idset *s, idset_num first, idset_num last, idset_num *n);

#endif
