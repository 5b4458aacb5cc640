/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * map.c - what containers of other hosts have published, kept here. [lock]
 *
 * A requester asks with dir_map() before anything leaves the host; event.c puts rows in as the
 * orchestrator tells them. The host that has the memory checks every access again, and its answer
 * is the one that counts: a row that is old here opens nothing there.
 *
 * What is unknown here may have been registered a moment ago: nobody waits for publications, and
 * a program tells its peer of an MR by ways that are faster than they are. So who asks for it waits
 * GRACE, and longer while the list is being told; only then it is refused. While this host or the
 * other one has no connection to the orchestrator, nothing can be published, or known: then the other
 * host is asked, whose answer counts anyway, because a lost control plane must not end a path that
 * lives. Who is waited for is remembered for each container, as an rkey with the time when its waiting
 * ends; the entry is kept a while after that, so that all that wait learn it. A row that is there and
 * does not fit (it may be about to change: ibv_rereg_mr) is waited for in the same way, but shortly.
 *
 * Rows are of one epoch. Those of another one count for nothing. When a list is told anew the rows
 * that were known are used until it is complete.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "ffr/dir/internal.h"
#include "ffr/fast/internal.h"
#include "ffr/peer/peer.h"

#define GRACE	      (1000 * NS_PER_MS) /* for an rkey that is not known */
#define GRACE_PARTIAL (4000 * NS_PER_MS) /* for an rkey, while not all mappings are published */
#define GRACE_MISFIT  (100 * NS_PER_MS)	 /* for a row that does not allow it */
#define REMEMBER      (2000 * NS_PER_MS) /* after that, what was refused */
#define MAX_ROWS      (1u << 20)	 /* of a container */
#define MAX_WAITED    1024u		 /* rkeys that are waited for, of a container */
#define TAB_MIN	      64u

/* A published mapping. 32 bytes: one never lies in more than one cache line. */
struct row {
	uint32_t rkey; /* 0: free */
	uint32_t access;
	uint64_t addr, length;
	uint64_t unused;
};

/* Open addressing, linear; at most half full. Rows are removed by moving those behind them up. */
struct row_table {
	struct row *slot;
	uint32_t size, used; /* a power of two, or 0 */
};

struct waited {
	TAILQ_ENTRY(waited) entry; /* by the time of asking */
	UT_hash_handle hh;
	uint32_t rkey;
	bool misfit;
	uint64_t ends;	 /* ns; then it is refused */
	uint64_t forget; /* ns */
};

struct remote_maps {
	struct fast *f;
	struct remote *r;
	uint32_t salt; /* odd */
	uint32_t epoch;
	bool synced, online;
	bool replacing; /* `next` is being told; `rows` is in force */
	bool woke;	/* what somebody waited for was told */
	struct row_table rows, next;
	struct waited *waited;
	TAILQ_HEAD(, waited) order;
	struct timer timer;
};

/* ---- a table of rows ------------------------------------------------------------------------ */

/* The low byte of a window's rkey is its owner's choice: the hash takes the high bits. */
static uint32_t slot_of(const struct row_table *t, uint32_t salt, uint32_t rkey)
{
	return (uint32_t)((uint64_t)(uint32_t)(rkey * salt) * t->size >> 32);
}

static struct row *row_find(const struct row_table *t, uint32_t salt, uint32_t rkey)
{
	uint32_t i;

	if (!t->size)
		return NULL;
	for (i = slot_of(t, salt, rkey); t->slot[i].rkey; i = (i + 1) & (t->size - 1))
		if (t->slot[i].rkey == rkey)
			return &t->slot[i];
	return NULL;
}

static void row_insert(struct row_table *t, uint32_t salt, const struct row *row)
{
	uint32_t i = slot_of(t, salt, row->rkey);

	while (t->slot[i].rkey)
		i = (i + 1) & (t->size - 1);
	t->slot[i] = *row;
}

/* A table with the same rows and room for n more. */
static int rows_copy(struct row_table *to, const struct row_table *t, uint32_t salt, uint32_t n)
{
	*to = (struct row_table){ .size = TAB_MIN, .used = t->used };
	while (to->size / 2 < t->used + n)
		to->size *= 2;
	to->slot = aligned_alloc(64, to->size * sizeof(*to->slot));
	if (!to->slot)
		return -ENOMEM;
	memset(to->slot, 0, to->size * sizeof(*to->slot));
	for (uint32_t i = 0; i < t->size; i++)
		if (t->slot[i].rkey)
			row_insert(to, salt, &t->slot[i]);
	return 0;
}

/* There is room for it, or -ENOMEM. */
static int row_put(struct row_table *t, uint32_t salt, const struct row *row)
{
	struct row *old = row_find(t, salt, row->rkey);

	if (old) {
		*old = *row;
		return 0;
	}
	if (t->used >= t->size / 2)
		return -ENOMEM;
	row_insert(t, salt, row);
	t->used++;
	return 0;
}

static void row_del(struct row_table *t, uint32_t salt, uint32_t rkey)
{
	struct row *gone = row_find(t, salt, rkey);
	uint32_t hole, i, home;

	if (!gone)
		return;
	hole = i = (uint32_t)(gone - t->slot);
	for (;;) {
		t->slot[hole].rkey = 0;
		do {
			i = (i + 1) & (t->size - 1);
			if (!t->slot[i].rkey) {
				t->used--;
				return;
			}
			home = slot_of(t, salt, t->slot[i].rkey);
			/* does its way from home to i lead over the hole? */
		} while (((i - home) & (t->size - 1)) < ((i - hole) & (t->size - 1)));
		t->slot[hole] = t->slot[i];
		hole = i;
	}
}

static void rows_free(struct row_table *t)
{
	free(t->slot);
	*t = (struct row_table){ 0 };
}

/* ---- who is waited for ---------------------------------------------------------------------- */

static void waited_del(struct remote_maps *m, struct waited *w)
{
	HASH_DEL(m->waited, w);
	TAILQ_REMOVE(&m->order, w, entry);
	free(w);
}

/* Not later than that. Without memory they learn it with the next change. */
static void waited_arm(struct remote_maps *m, uint64_t at)
{
	if (!m->timer.index || m->timer.at > at)
		(void)timer_arm(&m->f->timers, &m->timer, at);
}

/* Some have waited long enough: they ask again and are refused. */
static void waited_timer(struct timer *t)
{
	struct remote_maps *m =
		(struct remote_maps *)((char *)t - offsetof(struct remote_maps, timer));
	uint64_t now = m->f->now;
	struct waited *w, *next;

	TAILQ_FOREACH_SAFE(w, &m->order, entry, next) {
		if (w->forget <= now)
			waited_del(m, w);
		else
			waited_arm(m, w->ends > now ? w->ends : w->forget);
	}
	entry_changed(m->f->host->dir, m->r->entry);
}

/* Has this been waited for long enough? */
static enum map_answer wait_for(struct remote_maps *m, uint32_t rkey, bool misfit)
{
	uint64_t now = m->f->now;
	struct waited *w;

	HASH_FIND(hh, m->waited, &rkey, sizeof(rkey), w);
	if (w && w->misfit == misfit)
		return w->ends <= now ? MAP_REFUSED : MAP_WAIT;
	if (w)
		waited_del(m, w);
	if (HASH_COUNT(m->waited) >= MAX_WAITED)
		waited_del(m, TAILQ_FIRST(&m->order));
	w = calloc(1, sizeof(*w));
	if (!w)
		return MAP_REFUSED;
	w->rkey = rkey;
	w->misfit = misfit;
	w->ends = now + (misfit ? GRACE_MISFIT : m->synced ? GRACE : GRACE_PARTIAL);
	w->forget = w->ends + REMEMBER;
	HASH_ADD(hh, m->waited, rkey, sizeof(w->rkey), w);
	if (!w->hh.tbl) {
		free(w);
		return MAP_REFUSED;
	}
	TAILQ_INSERT_TAIL(&m->order, w, entry);
	waited_arm(m, w->ends);
	return MAP_WAIT;
}

static struct remote_maps *maps_new(struct fast *f, struct remote *r)
{
	struct remote_maps *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->f = f;
	m->r = r;
	m->online = dir_of(f)->connected;
	if (getrandom(&m->salt, sizeof(m->salt), GRND_NONBLOCK) < 0)
		m->salt = 0x9e3779b1u;
	m->salt |= 1;
	m->timer.fn = waited_timer;
	TAILQ_INIT(&m->order);
	r->maps = m;
	return m;
}

/* Does what is known here tell of what there is? */
static bool is_published(const struct remote_maps *m)
{
	const struct dir *d = dir_of(m->f);

	return m->online && (!m->r->peer || m->r->peer->up) &&
	       (!d || !m->r->entry || m->r->entry->store == d->store);
}

/* ---- asked ---------------------------------------------------------------------------------- */

enum map_answer dir_map(struct fast *f, struct remote *r, uint32_t rkey, uint64_t addr,
			uint64_t len, uint32_t access)
{
	struct remote_maps *m = r->maps;
	const struct row *row = NULL;
	uint64_t off;

	if (!m) {
		if (!dir_of(f) || !rkey || !r->id)
			return MAP_REFUSED;
		m = maps_new(f, r);
		if (!m)
			return MAP_REFUSED;
		sub_want(dir_of(f), &r->entry->more, true);
	}
	if (!rkey)
		return MAP_REFUSED;
	if (m->epoch == r->epoch) {
		row = row_find(&m->rows, m->salt, rkey);
		if (!row && m->replacing)
			row = row_find(&m->next, m->salt, rkey);
	}
	if (row) {
		off = addr - row->addr;
		if (off <= row->length && len <= row->length - off &&
		    (row->access & access) == access)
			return MAP_OK;
	}
	return is_published(m) ? wait_for(m, rkey, row != NULL) : MAP_OK;
}

/* ---- told ----------------------------------------------------------------------------------- */

void maps_free(struct fast *f, struct remote *r)
{
	struct remote_maps *m = r->maps;
	struct waited *w;

	if (!m)
		return;
	r->maps = NULL;
	while ((w = TAILQ_FIRST(&m->order)))
		waited_del(m, w);
	timer_cancel(&f->timers, &m->timer);
	rows_free(&m->rows);
	rows_free(&m->next);
	free(m);
}

uint32_t maps_epoch(const struct remote_maps *m)
{
	return m->epoch;
}

void maps_begin(struct remote_maps *m, uint32_t epoch)
{
	m->synced = false;
	rows_free(&m->next);
	if (m->epoch != epoch)
		rows_free(&m->rows);
	m->epoch = epoch;
	m->replacing = m->rows.used != 0;
}

static struct row_table *told_table(struct remote_maps *m)
{
	return m->replacing ? &m->next : &m->rows;
}

/*
 * Only the control thread changes the tables, so it may read them without the lock, and a large one
 * is copied while the runner goes on.
 */
int maps_reserve(struct remote_maps *m, uint32_t n)
{
	struct row_table *t = told_table(m), bigger, old = *t;

	if (t->used + n <= t->size / 2)
		return 0;
	if (t->used + n > MAX_ROWS)
		return -E2BIG;
	if (rows_copy(&bigger, t, m->salt, n))
		return -ENOMEM;
	fast_lock(m->f->host);
	*t = bigger;
	fast_unlock(m->f->host);
	free(old.slot);
	return 0;
}

int maps_put(struct remote_maps *m, const struct ffo_map *map)
{
	struct row row = {
		.rkey = map->rkey,
		.access = map->access,
		.addr = map->addr,
		.length = map->length,
	};
	struct waited *w;

	if (!map->rkey || map->epoch != m->epoch)
		return 0;
	HASH_FIND(hh, m->waited, &row.rkey, sizeof(row.rkey), w);
	if (w)
		waited_del(m, w);
	m->woke = m->woke || w;
	return row_put(told_table(m), m->salt, &row);
}

void maps_del(struct remote_maps *m, uint32_t rkey)
{
	row_del(&m->rows, m->salt, rkey);
	row_del(&m->next, m->salt, rkey);
}

bool maps_end(struct remote_maps *m, bool synced)
{
	bool woke;

	if (synced && m->replacing) {
		rows_free(&m->rows);
		m->rows = m->next;
		m->next = (struct row_table){ 0 };
		m->replacing = false;
	}
	m->synced = synced;
	woke = m->woke;
	m->woke = false;
	return woke;
}

void maps_online(struct remote_maps *m, bool online)
{
	m->online = online;
}
