/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * keys.c - a container's lkeys and rkeys: key -> MR.
 *
 * Keys are 32 random bits from the kernel's generator: nobody can guess another's, and a revoked
 * one is unlikely to come again. Being random they are their own hash: open addressing with
 * linear probing, at most half full. Deletion moves the followers of a probe run back, so that no
 * tombstones slow down look-ups. [lock]
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "objects.h"

#define KEYS_MIN 64u

/* The next random key. Control thread only; the pool saves a system call for most keys. */
static int key_random(uint32_t *key)
{
	static uint32_t pool[64];
	static unsigned left;

	if (!left) {
		if (getrandom(pool, sizeof(pool), GRND_NONBLOCK) != (ssize_t)sizeof(pool))
			return -ENOMEM;
		left = sizeof(pool) / sizeof(pool[0]);
	}
	*key = pool[--left];
	return 0;
}

static int keys_grow(struct key_table *t)
{
	struct key_table n = { .size = t->size ? t->size * 2 : KEYS_MIN, .used = t->used };

	n.slot = calloc(n.size, sizeof(*n.slot));
	if (!n.slot)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->size; i++)
		if (t->slot[i].key)
			n.slot[key_slot(&n, t->slot[i].key)] = t->slot[i];
	free(t->slot);
	*t = n;
	return 0;
}

int key_insert(struct key_table *t, struct mr *mr)
{
	uint32_t key, i;

	if (t->used >= t->size / 2 && keys_grow(t))
		return -ENOMEM;
	do {
		if (key_random(&key))
			return -ENOMEM;
		i = key ? key_slot(t, key) : 0;
	} while (!key || t->slot[i].key);
	t->slot[i] = (struct key_slot){ .key = key, .mr = mr };
	t->used++;
	mr->lkey = mr->rkey = key;
	return 0;
}

void key_remove(struct key_table *t, struct mr *mr)
{
	uint32_t mask = t->size - 1, hole, i, home;

	if (key_lookup(t, mr->lkey) != mr)
		return;
	hole = key_slot(t, mr->lkey);
	for (i = (hole + 1) & mask; t->slot[i].key; i = (i + 1) & mask) {
		home = t->slot[i].key & mask;
		/* An entry may move back to the hole when its home is not after the hole. */
		if (((i - home) & mask) >= ((i - hole) & mask)) {
			t->slot[hole] = t->slot[i];
			hole = i;
		}
	}
	t->slot[hole] = (struct key_slot){ 0 };
	if (--t->used == 0) {
		free(t->slot);
		*t = (struct key_table){ 0 };
	}
}
