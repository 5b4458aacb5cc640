/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * follow.c - a node that is read whenever it changes. See zks.h; used by topic.c. The
 * orchestrator's loop only.
 *
 * ZooKeeper's watches fire once, and only for who has read the node. So each follow is read with a
 * watch, and again when that fires; what changes while it is read makes it be read once more. Of a
 * node that is not there its existence is watched.
 *
 * Reads are queued, so that thousands of them (after a session was lost) are some hundred under way
 * at a time; they stay queued while there is no connection.
 *
 * Tests: test_topic.c, test_zks.c
 */
#include "ffo/store/zk/zks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_READING 512u

/* All follows of a path: an event names nothing else. */
struct watched {
	UT_hash_handle hh;
	LIST_HEAD(, follow) follows;
	char path[];
};

struct follow {
	struct zks *s;
	struct watched *w;
	LIST_ENTRY(follow) same;
	STAILQ_ENTRY(follow) queue;
	bool children;
	bool queued, reading;
	bool again;	   /* it has changed since it is being read */
	bool dead;	   /* to be freed when it has been read */
	bool set, on_node; /* a watch is set: on the node although we want its children */
	zk_cb cb;
	void *arg;
};

static struct watched *watched_get(struct zks *s, const char *path)
{
	struct watched *w;
	size_t len = strlen(path);

	HASH_FIND(hh, s->watched, path, len, w);
	if (w)
		return w;
	w = malloc(sizeof(*w) + len + 1);
	if (!w)
		return NULL;
	memcpy(w->path, path, len + 1);
	LIST_INIT(&w->follows);
	HASH_ADD_KEYPTR(hh, s->watched, w->path, len, w);
	if (w->hh.tbl)
		return w;
	free(w);
	return NULL;
}

static void enqueue(struct follow *f)
{
	if (f->reading) {
		f->again = true;
	} else if (!f->queued) {
		f->queued = true;
		STAILQ_INSERT_TAIL(&f->s->unread, f, queue);
	}
}

struct follow *follow_new(struct zks *s, const char *path, bool children, zk_cb cb, void *arg)
{
	struct follow *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->w = watched_get(s, path);
	if (!f->w) {
		free(f);
		return NULL;
	}
	f->s = s;
	f->children = children;
	f->cb = cb;
	f->arg = arg;
	LIST_INSERT_HEAD(&f->w->follows, f, same);
	enqueue(f);
	follow_pump(s);
	return f;
}

static void leave_path(struct follow *f)
{
	struct watched *w = f->w;

	LIST_REMOVE(f, same);
	if (!LIST_EMPTY(&w->follows))
		return;
	if (f->set && f->s->ready && !f->s->closing)
		zk_unwatch(f->s->zk, w->path, f->children && !f->on_node);
	HASH_DEL(f->s->watched, w);
	free(w);
}

void follow_free(struct follow *f)
{
	if (!f)
		return;
	leave_path(f);
	f->w = NULL;
	if (f->queued)
		STAILQ_REMOVE(&f->s->unread, f, follow, queue);
	if (f->reading)
		f->dead = true;
	else
		free(f);
}

const char *follow_path(const struct follow *f)
{
	return f->w->path;
}

bool follow_idle(const struct follow *f)
{
	return !f->queued && !f->reading;
}

void follow_again(struct follow *f)
{
	enqueue(f);
	follow_pump(f->s);
}

/* Whatever was being read has been: true when there is nobody to be told. */
static bool was_read(struct follow *f, const struct zk_reply *r)
{
	struct zks *s = f->s;

	f->reading = false;
	s->reading--;
	if (f->dead) {
		/* A watch that this read has set fires once, and nobody is there to hear it. */
		free(f);
		follow_pump(s);
		return true;
	}
	if (r->err == -ECANCELED)
		return true;
	if (r->err == -ENOTCONN || zks_again(r->err)) {
		f->again = false;
		enqueue(f);
		zks_retry(s);
		return true;
	}
	return false;
}

static void tell(struct follow *f, const struct zk_reply *r)
{
	struct zks *s = f->s;

	if (f->again) {
		f->again = false;
		enqueue(f);
	}
	f->cb(f->arg, r); /* f may be gone */
	follow_pump(s);
}

static void exists_done(void *arg, const struct zk_reply *r)
{
	struct follow *f = arg;
	struct zk_reply none = { .err = -ENOENT };

	if (was_read(f, r))
		return;
	f->set = true;
	f->on_node = true;
	if (!r->err) { /* by now it is there */
		f->again = false;
		enqueue(f);
		follow_pump(f->s);
	} else {
		tell(f, r->err == -ENOENT ? &none : r);
	}
}

static void read_done(void *arg, const struct zk_reply *r)
{
	struct follow *f = arg;

	if (r->err == -ENOENT && !f->dead && !zk_exists(f->s->zk, f->w->path, true, exists_done, f))
		return;
	if (was_read(f, r))
		return;
	if (r->err == -ENOENT) { /* its existence could not be asked for */
		enqueue(f);
		zks_retry(f->s);
		return;
	}
	f->set = !r->err;
	f->on_node = false;
	tell(f, r);
}

void follow_pump(struct zks *s)
{
	struct follow *f;
	int err;

	while (s->ready && s->reading < MAX_READING && (f = STAILQ_FIRST(&s->unread))) {
		err = f->children ? zk_children(s->zk, f->w->path, true, read_done, f) :
				    zk_get(s->zk, f->w->path, true, read_done, f);
		if (err) {
			zks_retry(s);
			return;
		}
		STAILQ_REMOVE_HEAD(&s->unread, queue);
		f->queued = false;
		f->reading = true;
		s->reading++;
	}
}

void follow_all(struct zks *s)
{
	struct watched *w, *next;
	struct follow *f;

	HASH_ITER(hh, s->watched, w, next)
		LIST_FOREACH(f, &w->follows, same) {
			f->set = false;
			enqueue(f);
		}
}

void follow_changed(struct zks *s, const char *path)
{
	struct watched *w;
	struct follow *f;

	HASH_FIND_STR(s->watched, path, w);
	if (!w)
		return;
	LIST_FOREACH(f, &w->follows, same) {
		f->set = false;
		enqueue(f);
	}
	follow_pump(s);
}

size_t follow_count(const struct zks *s)
{
	return HASH_COUNT(s->watched);
}
