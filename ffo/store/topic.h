/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * topic.h - what a store's watches (store.h) are about: one topic for each key that is watched, with
 * its watches. For the stores; the orchestrator's loop only.
 */
#ifndef FFO_STORE_TOPIC_H
#define FFO_STORE_TOPIC_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "ffo/store/store.h"

struct topic {
	struct store_key key;
	LIST_HEAD(, store_watch) watches;
	unsigned int busy; /* deliveries under way: it lives until they end */
	void *priv;	   /* the store's */
	UT_hash_handle hh;
};

struct topics {
	struct topic *table;
	/* The last watch of t is gone, t is about to be freed. NULL is fine. */
	void (*unused)(struct topics *ts, struct topic *t);
};

/* NULL: nobody watches that. */
struct topic *topic_find(struct topics *ts, const struct store_key *key);
/* Put the watch into its key's topic, which is made if need be (priv NULL). NULL: no memory. */
struct topic *topic_join(struct topics *ts, struct store_watch *w);
/* Take it out. One that is in none is left alone. */
void topic_leave(struct topics *ts, struct store_watch *w);
/*
 * Call each watch that is in the topic now. Callbacks may let watches join and leave, themselves
 * included. One that must not be delivered to twice at a time: see store/sqlite/store.c's notes.
 */
void topic_deliver(struct topics *ts, struct topic *t, const struct store_news *news);

#endif
