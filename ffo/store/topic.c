/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* topic.c - see topic.h. The orchestrator's loop only. */
#include "ffo/store/topic.h"

#include <stdlib.h>

struct topic *topic_find(struct topics *ts, const struct store_key *key)
{
	struct topic *t;

	HASH_FIND(hh, ts->table, key, sizeof(*key), t);
	return t;
}

struct topic *topic_join(struct topics *ts, struct store_watch *w)
{
	struct topic *t = topic_find(ts, &w->key);

	if (!t) {
		t = calloc(1, sizeof(*t));
		if (t) {
			t->key = w->key;
			LIST_INIT(&t->watches);
			HASH_ADD(hh, ts->table, key, sizeof(t->key), t);
		}
		if (!t || !t->hh.tbl) {
			free(t);
			w->topic = NULL;
			return NULL;
		}
	}
	w->topic = t;
	LIST_INSERT_HEAD(&t->watches, w, entry);
	return t;
}

static void topic_put(struct topics *ts, struct topic *t)
{
	if (t->busy || !LIST_EMPTY(&t->watches))
		return;
	HASH_DEL(ts->table, t);
	if (ts->unused)
		ts->unused(ts, t);
	free(t);
}

void topic_leave(struct topics *ts, struct store_watch *w)
{
	struct topic *t = w->topic;

	if (!t)
		return;
	LIST_REMOVE(w, entry);
	w->topic = NULL;
	topic_put(ts, t);
}

void topic_deliver(struct topics *ts, struct topic *t, const struct store_news *news)
{
	LIST_HEAD(, store_watch) todo = LIST_HEAD_INITIALIZER(todo);
	struct store_watch *w;

	/* Into a list of its own, so that whoever leaves leaves that, too. */
	while ((w = LIST_FIRST(&t->watches))) {
		LIST_REMOVE(w, entry);
		LIST_INSERT_HEAD(&todo, w, entry);
	}
	t->busy++;
	while ((w = LIST_FIRST(&todo))) {
		LIST_REMOVE(w, entry);
		LIST_INSERT_HEAD(&t->watches, w, entry);
		w->cb(w->arg, news);
	}
	t->busy--;
	topic_put(ts, t);
}
