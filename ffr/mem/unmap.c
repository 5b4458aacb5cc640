/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * unmap.c - mappings of clients' memory that nobody needs any more. Control thread, and a thread of libuv's for what
 * takes long.
 *
 * Unmapping takes 23 ms for each GB of present pages. What is large is unmapped on a thread of libuv's, in slices, so
 * that who maps something meanwhile waits for one slice only.
 *
 * Unmapping a file whose locks a client holds takes as long as the client likes (stall.c), and keeps everybody waiting
 * who maps something in this process, on whichever thread. So the mappings of a container that did this lately wait
 * in a list, from which one at a time is unmapped. After one that took long the next one waits for PAUSES times as
 * long.
 *
 * Tests: unit/mem/test_unmap.c, unit/mem/test_seg.c, hostile/holes.sh
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <uv.h>

#include "ffr/lib/sandbox.h"
#include "ffr/mem/shadow.h"
#include "ffr/mem/stall.h"

#define HERE_MAX (8ull << 20) /* bytes of a mapping that the control thread unmaps itself */
#define SLICE	 (32ull << 20)
#define FIRST_MS 1000u /* before the first one of the list */
#define PAUSES	 100u

struct remains {
	uv_work_t work;
	struct mem *mem;
	struct container *cont; /* is charged; NULL: it is gone */
	LIST_ENTRY(remains) of_all;
	TAILQ_ENTRY(remains) entry; /* mem->unmaps, if it waits there */
	bool is_last;		    /* the next one of the list follows */
	void *map;
	uint64_t size;
	int fd;
	uint64_t waited; /* ns; the thread's until it is done */
};

static void unmap(struct remains *r)
{
	struct stall_wait w;

	stall_wait_begin(&w);
	munmap(r->map, r->size);
	r->waited = stall_waited(&w);
	if (r->fd >= 0)
		close(r->fd);
}

/* On a thread of libuv's. */
static void on_thread(uv_work_t *work)
{
	struct remains *r = work->data;

	(void)sandbox_enter(SANDBOX_POOL); /* the control thread's holds in any case */
	for (uint64_t at = 0; at < r->size; at += SLICE)
		madvise((uint8_t *)r->map + at, r->size - at < SLICE ? r->size - at : SLICE,
			MADV_DONTNEED);
	unmap(r);
}

static void remains_end(struct remains *r)
{
	LIST_REMOVE(r, of_all);
	free(r);
}

static void go_on(struct mem *m, uint64_t ms);

static void on_done(uv_work_t *work, int status)
{
	struct remains *r = work->data;
	struct mem *m = r->mem;
	uint64_t pause = r->waited / 1000000 * PAUSES;
	bool is_last = r->is_last;

	(void)status;
	if (r->cont) {
		stall_charge(r->cont, r->waited);
		r->cont->stall.unmaps -= is_last;
	}
	remains_end(r);
	if (is_last)
		go_on(m, pause);
}

static struct remains *remains_new(struct session *s, void *map, uint64_t size, int fd)
{
	struct remains *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->mem = s->mem.later;
	r->cont = s->cont;
	r->map = map;
	r->size = size;
	r->fd = fd;
	r->work.data = r;
	LIST_INSERT_HEAD(&r->mem->remains, r, of_all);
	return r;
}

/* ---- the list ------------------------------------------------------------------------------ */

static void on_timer(uv_timer_t *t)
{
	struct mem *m = t->data;
	struct remains *r = TAILQ_FIRST(&m->unmaps);

	TAILQ_REMOVE(&m->unmaps, r, entry);
	r->is_last = true;
	if (!uv_queue_work(m->loop, &r->work, on_thread, on_done))
		return;
	unmap(r);
	on_done(&r->work, 0);
}

static void go_on(struct mem *m, uint64_t ms)
{
	m->is_unmapping = !m->stopped && !TAILQ_EMPTY(&m->unmaps);
	if (m->is_unmapping)
		uv_timer_start(&m->timer, on_timer, ms, 0);
}

static void wait_in_list(struct mem *m, struct remains *r)
{
	r->cont->stall.unmaps++;
	TAILQ_INSERT_TAIL(&m->unmaps, r, entry);
	if (!m->is_unmapping)
		go_on(m, FIRST_MS);
}

/* ---- for the others of mem/ ------------------------------------------------------------------ */

void unmap_later(struct session *s, void *map, uint64_t size, int fd)
{
	bool waits = s->mem.later && stall_maps_no_file(s->cont);
	struct remains here = { .map = map, .size = size, .fd = fd }, *r;

	r = waits || (s->mem.later && size > HERE_MAX) ? remains_new(s, map, size, fd) : NULL;
	if (r && waits) {
		wait_in_list(r->mem, r);
		return;
	}
	if (r && !uv_queue_work(r->mem->loop, &r->work, on_thread, on_done))
		return;
	if (r)
		remains_end(r);
	unmap(&here);
	stall_charge(s->cont, here.waited);
}

int mem_init(struct mem *m, struct uv_loop_s *loop)
{
	int err = uv_timer_init(loop, &m->timer);

	m->loop = loop;
	m->timer.data = m;
	uv_unref((uv_handle_t *)&m->timer);
	TAILQ_INIT(&m->unmaps);
	LIST_INIT(&m->remains);
	return err;
}

void mem_container_gone(struct mem *m, const struct container *c)
{
	struct remains *r;

	LIST_FOREACH(r, &m->remains, of_all)
		if (r->cont == c)
			r->cont = NULL;
}

void mem_close(struct mem *m)
{
	struct remains *r;

	m->stopped = true; /* what is mapped goes with the process */
	while ((r = TAILQ_FIRST(&m->unmaps))) {
		TAILQ_REMOVE(&m->unmaps, r, entry);
		if (r->fd >= 0)
			close(r->fd);
		remains_end(r);
	}
	uv_close((uv_handle_t *)&m->timer, NULL);
}
