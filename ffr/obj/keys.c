/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * keys.c - a container's lkeys and rkeys: key -> MR or memory window.
 *
 * Keys are 32 random bits from the kernel's generator: nobody can guess another's, and a revoked
 * one is unlikely to come again. Being random they are their own hash: open addressing with
 * linear probing, at most half full. Deletion moves the followers of a probe run back, so that no
 * tombstones slow down look-ups. [lock]
 *
 * Of a window's rkey the low byte is its user's to choose (IBTA 10.6.7), so only the 24 bits above
 * it are random: they are the key of a table of windows, which is looked at when that of MRs knows
 * nothing. No MR gets one of the 256 keys that a window may have or have had.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "ffr/obj/objects.h"

#define KEYS_MIN   64u
#define KEYS_SMALL 4096u /* a table of so many slots grows, and goes, under the lock */
/* Windows of a container: few of the 2^24 indices, so that a guess hardly ever is one. */
#define WINDOWS_MAX (1u << 18)

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

static int keys_copy(const struct key_table *t, struct key_table *n)
{
	*n = (struct key_table){ .size = t->size ? t->size * 2 : KEYS_MIN, .used = t->used };
	n->slot = calloc(n->size, sizeof(*n->slot));
	if (!n->slot)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->size; i++)
		if (t->slot[i].key)
			n->slot[key_slot(n, t->slot[i].key)] = t->slot[i];
	return 0;
}

static int keys_grow(struct key_table *t)
{
	struct key_table n;
	int err = keys_copy(t, &n);

	if (err)
		return err;
	free(t->slot);
	*t = n;
	return 0;
}

int keys_grown(const struct key_table *t, struct key_table *n)
{
	*n = (struct key_table){ 0 };
	return t->used < t->size / 2 || t->size < KEYS_SMALL ? 0 : keys_copy(t, n);
}

/* Enter obj under a fresh random key of 32 bits less `shift`. 0 or -ENOMEM. */
static int insert(struct key_table *t, unsigned shift, void *obj, uint32_t *key)
{
	uint32_t i;

	if (t->used >= t->size / 2 && keys_grow(t))
		return -ENOMEM;
	do {
		if (key_random(key))
			return -ENOMEM;
		*key >>= shift;
		i = *key ? key_slot(t, *key) : 0;
	} while (!*key || t->slot[i].key);
	t->slot[i] = (struct key_slot){ .key = *key, .obj = obj };
	t->used++;
	return 0;
}

/* Take the key out if it is obj's. */
static void take_out(struct key_table *t, uint32_t key, const void *obj)
{
	uint32_t mask = t->size - 1, hole, i, home;

	if (!t->used || !key || t->slot[key_slot(t, key)].obj != obj)
		return;
	hole = key_slot(t, key);
	for (i = (hole + 1) & mask; t->slot[i].key; i = (i + 1) & mask) {
		home = t->slot[i].key & mask;
		/* An entry may move back to the hole when its home is not after the hole. */
		if (((i - home) & mask) >= ((i - hole) & mask)) {
			t->slot[hole] = t->slot[i];
			hole = i;
		}
	}
	t->slot[hole] = (struct key_slot){ 0 };
	if (--t->used == 0 && t->size <= KEYS_SMALL) {
		free(t->slot);
		*t = (struct key_table){ 0 };
	}
}

int key_insert(struct key_table *t, struct mr *mr)
{
	uint32_t key;
	int err = insert(t, 0, mr, &key);

	if (!err)
		mr->lkey = mr->rkey = key;
	return err;
}

void key_remove(struct key_table *t, struct mr *mr)
{
	take_out(t, mr->lkey, mr);
}

static bool is_window(const struct key_table *windows, uint32_t index)
{
	return windows->used && index && windows->slot[key_slot(windows, index)].key;
}

bool mr_key_taken(const struct container *c, uint32_t key)
{
	return !key || key_lookup(&c->keys, key) || is_window(&c->windows, key >> 8);
}

static int insert_wanted(struct container *c, struct mr *mr)
{
	struct key_table *t = &c->keys;

	if (mr_key_taken(c, mr->lkey))
		return -EEXIST;
	if (t->used >= t->size / 2 && keys_grow(t))
		return -ENOMEM;
	t->slot[key_slot(t, mr->lkey)] = (struct key_slot){ .key = mr->lkey, .obj = mr };
	t->used++;
	return 0;
}

int mr_key_new(struct container *c, struct mr *mr)
{
	if (mr->lkey)
		return insert_wanted(c, mr);
	for (;;) {
		int err = key_insert(&c->keys, mr);

		if (err || !is_window(&c->windows, mr->lkey >> 8))
			return err;
		key_remove(&c->keys, mr);
	}
}

/* Has an MR one of the keys of that index? */
static bool mr_has_index(const struct key_table *keys, uint32_t index)
{
	for (uint32_t low = 0; low < 256; low++)
		if (key_lookup(keys, index << 8 | low))
			return true;
	return false;
}

int mw_key_new(struct container *c, struct mw *mw)
{
	uint32_t index, low;
	int err;

	if (c->windows.used >= WINDOWS_MAX || key_random(&low))
		return -ENOMEM;
	for (;;) {
		err = insert(&c->windows, 8, mw, &index);
		if (err)
			return err;
		if (!mr_has_index(&c->keys, index))
			break;
		take_out(&c->windows, index, mw);
	}
	mw->rkey = index << 8 | (low & 0xff);
	return 0;
}

void mw_key_del(struct container *c, struct mw *mw)
{
	take_out(&c->windows, mw->rkey >> 8, mw);
}
