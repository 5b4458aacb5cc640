/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * objects.c - tables: handle -> object, QP number -> QP, address -> container.
 *
 * Neighbours: ctl/ insert and remove, fast/ and the backends look up. [lock], all of it.
 */
#include "ffr/obj/objects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "ffr/fast/fast.h"

/* ---- handles ------------------------------------------------------------------------------ */

#define TABLE_MIN 16u

static int table_grow(struct obj_table *t)
{
	uint32_t size = t->size ? t->size * 2 : TABLE_MIN;
	struct obj **slot;
	uint16_t *gen;

	if (size > t->max)
		size = t->max;
	if (size <= t->size)
		return -ENOMEM;
	slot = realloc(t->slot, size * sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	t->slot = slot;
	gen = realloc(t->gen, size * sizeof(*gen));
	if (!gen)
		return -ENOMEM;
	t->gen = gen;
	memset(slot + t->size, 0, (size - t->size) * sizeof(*slot));
	for (uint32_t i = t->size; i < size; i++)
		gen[i] = 1;
	t->next_free = t->size;
	t->size = size;
	return 0;
}

/*
 * Indices are given out lowest first, which keeps the QPs' dirty set dense; next_free is a lower
 * bound of the free ones. A slot's generation changes when its object goes, and is never 0, so
 * neither is a handle.
 */
int obj_insert(struct obj_table *t, struct obj *o)
{
	uint32_t i;

	if (t->used == t->size && table_grow(t))
		return -ENOMEM;
	for (i = t->next_free; t->slot[i]; i++)
		;
	t->slot[i] = o;
	t->used++;
	t->next_free = i + 1;
	o->handle = (uint32_t)t->gen[i] << 16 | i;
	return 0;
}

void obj_remove(struct obj_table *t, struct obj *o)
{
	uint32_t i = FF_HANDLE_INDEX(o->handle);

	if (obj_get(t, o->handle) != o)
		return;
	t->slot[i] = NULL;
	t->used--;
	if (++t->gen[i] == 0)
		t->gen[i] = 1;
	if (i < t->next_free)
		t->next_free = i;
}

void obj_table_free(struct obj_table *t)
{
	free(t->slot);
	free(t->gen);
	t->slot = NULL;
	t->gen = NULL;
	t->size = t->used = t->next_free = 0;
}

/* ---- QP numbers --------------------------------------------------------------------------- */

#define QPN_MASK     0xffffffu
#define QPN_MIN	     2u	       /* 0 and 1 are the management QPs of the specification */
#define QPN_MAX	     0xfffffeu /* the last one stands for multicast (IBTA 9.6.1.2) */
#define QP_TAB_MIN   256u
#define QP_TAB_SMALL 4096u /* a table of so many slots grows, and goes, under the lock */

/*
 * The table is indexed by the low bits of the number, one QP for each slot: a number is taken
 * only when its slot is free, so that a look-up is one comparison and never a search. Numbers are
 * tried in turn from a random start, and a freed one comes again only after all 2^24 have been
 * passed. At most half of the slots are used, so the search is short.
 */
static struct qp **qp_tab_copy(const struct fast *f, uint32_t size)
{
	struct qp **tab = size > QPN_MASK + 1 ? NULL : calloc(size, sizeof(struct qp *));

	for (uint32_t i = 0; tab && i < f->qp_tab_size; i++)
		if (f->qp_tab[i])
			tab[f->qp_tab[i]->qp_num & (size - 1)] = f->qp_tab[i];
	return tab;
}

int qpn_room(struct fast *f)
{
	struct qp **tab, **old;
	uint32_t size;

	f = f->first;
	size = f->qp_tab_size * 2;
	old = f->qp_tab;
	if (f->qp_tab_used < f->qp_tab_size / 2 || f->qp_tab_size < QP_TAB_SMALL)
		return 0;
	tab = qp_tab_copy(f, size);
	if (!tab)
		return -ENOMEM;
	fast_lock(f);
	f->qp_tab = tab;
	f->qp_tab_size = size;
	fast_unlock(f);
	free(old);
	return 0;
}

static int qp_tab_grow(struct fast *f)
{
	uint32_t size = f->qp_tab_size ? f->qp_tab_size * 2 : QP_TAB_MIN;
	struct qp **tab = qp_tab_copy(f, size);

	if (!tab)
		return -ENOMEM;
	if (!f->qpn_next && getrandom(&f->qpn_next, sizeof(f->qpn_next), GRND_NONBLOCK) < 0)
		f->qpn_next = QPN_MIN;
	free(f->qp_tab);
	f->qp_tab = tab;
	f->qp_tab_size = size;
	return 0;
}

int qpn_alloc(struct fast *f, struct qp *qp)
{
	uint32_t qpn;

	f = f->first;
	if (f->qp_tab_used >= f->qp_tab_size / 2 && qp_tab_grow(f))
		return -ENOMEM;
	do {
		qpn = f->qpn_next++ & QPN_MASK;
	} while (qpn < QPN_MIN || qpn > QPN_MAX || f->qp_tab[qpn & (f->qp_tab_size - 1)]);
	f->qp_tab[qpn & (f->qp_tab_size - 1)] = qp;
	f->qp_tab_used++;
	qp->qp_num = qpn;
	return 0;
}

void qpn_free(struct fast *f, struct qp *qp)
{
	f = f->first;
	if (!f->qp_tab_size || qp_by_num(f, qp->qp_num) != qp)
		return;
	f->qp_tab[qp->qp_num & (f->qp_tab_size - 1)] = NULL;
	if (--f->qp_tab_used == 0 && f->qp_tab_size <= QP_TAB_SMALL) {
		free(f->qp_tab);
		f->qp_tab = NULL;
		f->qp_tab_size = 0;
	}
}

struct qp *qp_by_num(struct fast *f, uint32_t qpn)
{
	struct qp *qp;

	f = f->first;
	if (!f->qp_tab_size)
		return NULL;
	qp = f->qp_tab[qpn & (f->qp_tab_size - 1)];
	return qp && qp->qp_num == qpn ? qp : NULL;
}

/* ---- addresses ---------------------------------------------------------------------------- */

/* A walk over the host's containers: who asks (a connection, an AH) remembers the answer. */
struct container *container_by_gid(struct fast *f, const char *tenant, const union ibv_gid *gid)
{
	struct container *c;

	LIST_FOREACH(c, &f->first->containers, entry) {
		for (unsigned i = 0; i < c->num_gids; i++)
			if (!memcmp(&c->gid[i], gid, sizeof(*gid)) && !strcmp(c->tenant, tenant))
				return c;
	}
	return NULL;
}

struct container *container_by_lid(struct fast *f, const char *tenant, uint16_t lid)
{
	struct container *c;

	LIST_FOREACH(c, &f->first->containers, entry)
		if (c->lid == lid && !strcmp(c->tenant, tenant))
			return c;
	return NULL;
}
