/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * populate.c - the router's own page table entries of shadow memory, made in slices. Control thread;
 * called by shadow.c for a new MR and by session.c at the end.
 *
 * The pages are there, the client has touched them; where they are not, it ends there, for the mapping
 * is guarded (guard.c). Their entries are made present so that the fast
 * path need not fault for each of them. That takes about 0.2 us for a page, 4 ms for 64 MB, and
 * meanwhile no other client is served. So a registration makes one slice present, and the rest
 * follows, a slice for each round of the event loop, sessions in turn. What is used before its turn
 * has come is faulted in by who uses it.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <uv.h>

#include "ffr/mem/stall.h"
#include "ffr/mem/watch.h"

#define SLICE (2ull << 20) /* bytes */
/* Bytes of one registration; what is beyond is faulted in when it is used. */
#define REG_MAX (64ull << 20)

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

/* mem->populate, while there is something to do. */
struct populate {
	uv_idle_t idle;
	TAILQ_HEAD(, session) sessions;
};

/* One slice. 0 or -errno; with an error nothing further is tried. */
static int slice(struct container *c, struct region *r)
{
	uint64_t off = r->populated, left = r->populate_to - off;
	uint64_t end = off + (left < SLICE ? left : SLICE);
	struct stall_wait w;
	int err = 0;

	r->populated = end;
	stall_wait_begin(&w);
	/*
	 * Before Linux 5.14 they are made when they are used. Shared memory can be written to by entries that were
	 * made for reading, and those are made for several pages at once: a third of the time.
	 */
	if (madvise(r->map + off, end - off, MADV_POPULATE_READ) && errno != EINVAL)
		err = -errno;
	stall_wait_end(c, &w);
	if (err || stall_maps_no_file(c))
		r->populated = r->populate_to;
	return err;
}

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

void populate_forget(struct session *s)
{
	struct mem *m = s->mem.later;

	if (!s->mem.populating)
		return;
	s->mem.populating = false;
	TAILQ_REMOVE(&m->populate->sessions, s, mem.populate);
	if (!TAILQ_EMPTY(&m->populate->sessions))
		return;
	uv_close((uv_handle_t *)&m->populate->idle, on_closed);
	m->populate = NULL;
}

static void on_idle(uv_idle_t *h)
{
	struct populate *p = h->data;
	struct session *s = TAILQ_FIRST(&p->sessions);
	struct region *r = pages_pending(s);

	if (r)
		slice(s->cont, r); /* an error shows again when the page is used */
	if (!pages_pending(s)) {
		populate_forget(s);
		return;
	}
	TAILQ_REMOVE(&p->sessions, s, mem.populate);
	TAILQ_INSERT_TAIL(&p->sessions, s, mem.populate);
}

/* The rest of the session's regions, later. Without memory for that: when they are used. */
static void schedule(struct session *s)
{
	struct mem *m = s->mem.later;

	if (s->mem.populating)
		return;
	if (!m->populate) {
		m->populate = calloc(1, sizeof(*m->populate));
		if (!m->populate)
			return;
		TAILQ_INIT(&m->populate->sessions);
		uv_idle_init(m->loop, &m->populate->idle);
		m->populate->idle.data = m->populate;
		uv_idle_start(&m->populate->idle, on_idle);
	}
	s->mem.populating = true;
	TAILQ_INSERT_TAIL(&m->populate->sessions, s, mem.populate);
}

int populate(struct session *s, struct region *r, uint64_t off, uint64_t len, bool now)
{
	uint64_t end = off + (len < REG_MAX ? len : REG_MAX);
	int err = 0;

	if (end <= r->populate_to)
		return 0;
	if (off > r->populate_to) /* pages between that nobody touched are not there */
		r->populated = off;
	r->populate_to = end;
	if (now)
		err = slice(s->cont, r);
	if (!err && r->populated < r->populate_to && s->mem.later)
		schedule(s);
	return err;
}
