/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rows.c - mappings by rkey: those that hosts here publish (ephemeral.c) and those of watched
 * containers (topic.c). See zks.h. The orchestrator's loop only.
 */
#include "ffo/store/zk/zks.h"

#include <stdlib.h>

static int row_cmp(const struct row *a, const struct row *b)
{
	return a->rkey < b->rkey ? -1 : a->rkey > b->rkey;
}

RB_GENERATE_INTERNAL(row_tree, row, node, row_cmp, static __attribute__((unused)))

struct row *row_find(struct row_tree *t, uint32_t rkey)
{
	struct row key = { .rkey = rkey };

	return RB_FIND(row_tree, t, &key);
}

struct row *row_above(struct row_tree *t, uint32_t after)
{
	struct row key = { .rkey = after + 1 };

	return after == UINT32_MAX ? NULL : RB_NFIND(row_tree, t, &key);
}

struct row *row_next(struct row *r)
{
	return RB_NEXT(row_tree, NULL, r);
}

struct row *row_add(struct row_tree *t, const struct ffo_map *m)
{
	struct row *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->rkey = m->rkey;
	row_update(r, m);
	RB_INSERT(row_tree, t, r);
	return r;
}

bool row_update(struct row *r, const struct ffo_map *m)
{
	if (r->session == m->session && r->access == m->access && r->key == m->key &&
	    r->addr == m->addr && r->length == m->length && r->shadow == m->shadow)
		return false;
	r->session = m->session;
	r->access = m->access;
	r->key = m->key;
	r->addr = m->addr;
	r->length = m->length;
	r->shadow = m->shadow;
	return true;
}

void row_to_map(const struct row *r, uint32_t container, uint32_t epoch, struct ffo_map *m)
{
	*m = (struct ffo_map){
		.container = container,
		.rkey = r->rkey,
		.session = r->session,
		.addr = r->addr,
		.length = r->length,
		.access = r->access,
		.shadow = r->shadow,
		.key = r->key,
		.epoch = epoch,
	};
}

void row_free(struct row_tree *t, struct row *r)
{
	RB_REMOVE(row_tree, t, r);
	LIST_REMOVE(r, entry);
	free(r);
}
