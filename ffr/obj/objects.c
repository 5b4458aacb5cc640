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
		gen[i] = (uint16_t)(t->first_gen + 1);
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

int obj_insert_at(struct obj_table *t, struct obj *o)
{
	uint32_t i = FF_HANDLE_INDEX(o->handle);

	if (!(o->handle >> 16) || i >= t->max)
		return -EEXIST;
	while (i >= t->size)
		if (table_grow(t))
			return -ENOMEM;
	if (t->slot[i])
		return -EEXIST;
	t->slot[i] = o;
	t->gen[i] = (uint16_t)(o->handle >> 16);
	t->used++;
	t->next_free = 0;
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

#define QPN_MASK 0xffffffu
/*
 * From number to number. Odd, so that all have their turn; and large, so that a NIC, which counts up, does not find the
 * places of many in a row taken.
 */
#define QPN_STEP       0x9e3779u
#define QPN_MIN	       2u	 /* 0 and 1 are the management QPs of the specification */
#define QPN_MAX	       0xfffffeu /* the last one stands for multicast (IBTA 9.6.1.2) */
#define QP_TAB_MIN     256u
#define QP_TAB_RESTORE (1u << 18) /* slots, 2 MB: for numbers of a former router */
#define QP_TAB_SMALL   4096u	  /* a table of so many slots grows, and goes, under the lock */

static uint32_t slot_of(const struct qp_table *t, const struct qp *qp)
{
	return qpn_slot(t, qp->num_of, qp->qp_num);
}

/*
 * The table is indexed by the low bits of the number, one QP for each slot: a number is taken
 * only when its slot is free, so that a look-up is one comparison and never a search. Numbers are
 * tried in turn from a random start, and a freed one comes again only after all 2^24 have been
 * passed. At most half of the slots are used, so the search is short.
 */
static int qp_table_copy(const struct qp_table *t, uint32_t size, struct qp_table *n)
{
	static const uint8_t eighth[QP_TAB_NICS] = { 0, 4, 2, 6, 1, 5, 3, 7 };

	*n = (struct qp_table){ .size = size, .used = t->used, .next = t->next };
	n->slot = size > QPN_MASK + 1 ? NULL : calloc(size, sizeof(struct qp *));
	if (!n->slot)
		return -ENOMEM;
	for (uint32_t i = 0; i < QP_TAB_NICS; i++)
		n->from[i] = size / QP_TAB_NICS * eighth[i];
	for (uint32_t i = 0; i < t->size; i++)
		if (t->slot[i])
			n->slot[slot_of(n, t->slot[i])] = t->slot[i];
	return 0;
}

int qpns_grown(const struct qp_table *t, struct qp_table *n)
{
	*n = (struct qp_table){ 0 };
	return t->used < t->size / 2 || t->size < QP_TAB_SMALL ? 0 :
								 qp_table_copy(t, t->size * 2, n);
}

static int qp_table_grow(struct qp_table *t)
{
	struct qp_table n;

	if (qp_table_copy(t, t->size ? t->size * 2 : QP_TAB_MIN, &n))
		return -ENOMEM;
	if (!n.next && getrandom(&n.next, sizeof(n.next), GRND_NONBLOCK) < 0)
		n.next = QPN_MIN;
	free(t->slot);
	*t = n;
	return 0;
}

bool qpn_fits(const struct qp_table *t, uint8_t nic, uint32_t qpn)
{
	return qpn >= QPN_MIN && qpn <= QPN_MAX && !(t->size && t->slot[qpn_slot(t, nic, qpn)]);
}

void qpn_make_room(struct qp_table *t, uint8_t nic, uint32_t qpn)
{
	while (t->size && t->size < QP_TAB_RESTORE && !qpn_fits(t, nic, qpn) &&
	       !qp_by_num(t, nic, qpn))
		if (qp_table_grow(t))
			return;
}

int qpn_alloc(struct qp_table *t, struct qp *qp)
{
	uint32_t qpn = qp->qp_num;

	if (t->used >= t->size / 2 && qp_table_grow(t))
		return -ENOMEM;
	if (qpn && !qpn_fits(t, qp->num_of, qpn))
		return -EEXIST;
	while (!qpn_fits(t, qp->num_of, qpn)) {
		qpn = t->next & QPN_MASK;
		t->next += QPN_STEP;
	}
	t->slot[qpn_slot(t, qp->num_of, qpn)] = qp;
	t->used++;
	qp->qp_num = qpn;
	return 0;
}

void qpn_free(struct qp_table *t, struct qp *qp)
{
	if (!t->size || qp_by_num(t, qp->num_of, qp->qp_num) != qp)
		return;
	t->slot[slot_of(t, qp)] = NULL;
	if (--t->used == 0 && t->size <= QP_TAB_SMALL) {
		free(t->slot);
		t->slot = NULL;
		t->size = 0;
	}
}

/* ---- addresses ---------------------------------------------------------------------------- */

/* A walk over the host's containers: who asks (a connection, an AH) remembers the answer. */
struct container *container_by_gid(const struct container_list *l, const char *tenant,
				   const union ibv_gid *gid)
{
	uint16_t lid = gid_lid(gid->raw);
	struct container *c;

	if (lid)
		return container_by_lid(l, tenant, lid);
	LIST_FOREACH(c, l, entry) {
		for (unsigned i = 0; i < c->num_gids; i++)
			if (!memcmp(&c->gid[i], gid, sizeof(*gid)) && !strcmp(c->tenant, tenant))
				return c;
	}
	return NULL;
}

struct container *container_by_lid(const struct container_list *l, const char *tenant, uint16_t lid)
{
	struct container *c;

	LIST_FOREACH(c, l, entry)
		if (c->lid == lid && !strcmp(c->tenant, tenant))
			return c;
	return NULL;
}
