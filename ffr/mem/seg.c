/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * seg.c - the memfds that clients map: rings and device memory. Control thread; used by session.c
 * and the handlers of rings.
 *
 * A segment is sealed against shrinking and growing. A client can punch holes, which read as zero
 * pages, whose memory is the router's as it was before, within the quota.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <uv.h>

#include "ffr/lib/log.h"
#include "ffr/lib/sandbox.h"
#include "ffr/mem/shadow.h"
#include "ffr/mem/watch.h"

#define MAX_SEGS  256u	       /* of a session */
#define RINGS_MIN (2ull << 20) /* bytes of the first ring segment; each further one doubles it */
#define RINGS_MAX (64ull << 20)
#define FREE_MAX  (8ull << 20) /* bytes of a mapping that the control thread frees itself */
#define SLICE	  (32ull << 20)

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* Page allocator of a ring segment: a bit for each page, set when in use. */
struct ring_pages {
	uint32_t pages;
	uint32_t free;
	uint64_t used[];
};

static uint64_t page_up(uint64_t x)
{
	return (x + FF_PAGE - 1) & ~(uint64_t)(FF_PAGE - 1);
}

int sealed_memfd(const char *name, uint64_t size)
{
	int fd, err;

	fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)size) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

static struct ring_pages *ring_pages_new(uint64_t size)
{
	uint32_t pages = (uint32_t)(size / FF_PAGE);
	struct ring_pages *p = calloc(1, sizeof(*p) + (pages + 63) / 64 * sizeof(p->used[0]));

	if (p)
		p->pages = p->free = pages;
	return p;
}

/*
 * Of rings and device memory the pages that are handed out are charged as the router's memory, by
 * ring_alloc() and ring_free(): most of a segment never is. Device memory is charged as pinned in
 * ctl/dm.c for the same reason.
 */
static uint64_t pinned(enum seg_kind kind, uint64_t size)
{
	return kind == SEG_DM ? 0 : size;
}

static int seg_charge(struct container *c, enum seg_kind kind, uint64_t size)
{
	int err = quota_charge(c, QUOTA_FD, 1);

	if (err)
		return err;
	err = quota_charge(c, QUOTA_PINNED, pinned(kind, size));
	if (err)
		goto err_fd;
	err = quota_charge(c, QUOTA_RINGS, kind == SEG_RINGS ? size : 0);
	if (err)
		goto err_pinned;
	return 0;

err_pinned:
	quota_return(c, QUOTA_PINNED, pinned(kind, size));
err_fd:
	quota_return(c, QUOTA_FD, 1);
	return err;
}

static void seg_return(struct container *c, enum seg_kind kind, uint64_t size)
{
	quota_return(c, QUOTA_RINGS, kind == SEG_RINGS ? size : 0);
	quota_return(c, QUOTA_PINNED, pinned(kind, size));
	quota_return(c, QUOTA_FD, 1);
}

void memory_near(void *map, uint64_t size, int node)
{
	unsigned long mask[16] = { 0 };

	if (node < 0 || (size_t)node >= sizeof(mask) * 8)
		return;
	mask[node / 64] = 1ul << node % 64;
	if (syscall(SYS_mbind, map, size, MPOL_PREFERRED, mask, sizeof(mask) * 8, 0))
		log_debug("mbind, node %d: %m", node);
}

int seg_create(struct session *s, enum seg_kind kind, uint64_t size)
{
	static const char *const names[] = {
		[SEG_RINGS] = "freeflow-rings", [SEG_DM] = "freeflow-dm"
	};
	struct seg seg = { .id = s->mem.num_segs, .kind = kind }, *segs;
	int err;

	size = page_up(size);
	if (!size || size > INT64_MAX || s->mem.num_segs >= MAX_SEGS)
		return -ENOSPC;
	segs = realloc(s->mem.segs, (s->mem.num_segs + 1) * sizeof(*segs));
	if (!segs)
		return -ENOMEM;
	s->mem.segs = segs;
	err = seg_charge(s->cont, kind, size);
	if (err)
		return err;
	seg.size = size;
	seg.alloc = ring_pages_new(size);
	err = -ENOMEM;
	if (!seg.alloc)
		goto err_return;
	seg.fd = sealed_memfd(names[kind], size);
	if (seg.fd < 0) {
		err = seg.fd;
		goto err_alloc;
	}
	seg.map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, seg.fd, 0);
	if (seg.map == MAP_FAILED) {
		err = -errno;
		goto err_close;
	}
	memory_near(seg.map, size, s->mem.node);
	seg.watch = err = sigbus_watch(seg.map, size, FF_PAGE, s);
	if (err < 0)
		goto err_unmap;
	segs[s->mem.num_segs++] = seg;
	return (int)seg.id;

err_unmap:
	munmap(seg.map, size);
err_close:
	close(seg.fd);
err_alloc:
	free(seg.alloc);
err_return:
	seg_return(s->cont, kind, size);
	return err;
}

struct seg *seg_get(struct session *s, uint32_t id)
{
	return id < s->mem.num_segs ? &s->mem.segs[id] : NULL;
}

/* What is left of a mapping that may have many pages. */
struct remains {
	uv_work_t work;
	void *map;
	uint64_t size;
	int fd;
};

/* On a thread of libuv's. */
static void remains_free(uv_work_t *w)
{
	struct remains *r = w->data;

	(void)sandbox_enter(SANDBOX_POOL); /* the control thread's holds in any case */
	/* in slices: who maps something meanwhile waits for the one that is under way only */
	for (uint64_t at = 0; at < r->size; at += SLICE)
		madvise((uint8_t *)r->map + at, r->size - at < SLICE ? r->size - at : SLICE,
			MADV_DONTNEED);
	munmap(r->map, r->size);
	if (r->fd >= 0)
		close(r->fd);
}

static void remains_freed(uv_work_t *w, int status)
{
	(void)status;
	free(w->data);
}

/* Not here, where it would keep all clients waiting: 70 ms for 1 GB. False: it must be here. */
static bool free_elsewhere(const struct session *s, void *map, uint64_t size, int fd)
{
	struct remains *r;

	if (size <= FREE_MAX || !s->mem.later)
		return false;
	r = malloc(sizeof(*r));
	if (!r)
		return false;
	*r = (struct remains){ .map = map, .size = size, .fd = fd };
	r->work.data = r;
	if (!uv_queue_work(s->mem.later->loop, &r->work, remains_free, remains_freed))
		return true;
	free(r);
	return false;
}

void unmap_later(struct session *s, void *map, uint64_t size, int fd)
{
	if (free_elsewhere(s, map, size, fd))
		return;
	munmap(map, size);
	if (fd >= 0)
		close(fd);
}

/* Bytes that are handed out of it. */
static uint64_t bytes_out(const struct seg *seg)
{
	const struct ring_pages *p = seg->alloc;

	return p ? (uint64_t)(p->pages - p->free) * FF_PAGE : 0;
}

void seg_free_all(struct session *s)
{
	populate_forget(s);
	pages_end(s);
	for (uint32_t i = 0; i < s->mem.num_segs; i++) {
		struct seg *seg = &s->mem.segs[i];

		seg_return(s->cont, seg->kind, seg->size);
		quota_return(s->cont, QUOTA_MEMORY, bytes_out(seg));
		sigbus_unwatch(seg->watch);
		unmap_later(s, seg->map, seg->size, seg->fd);
		free(seg->alloc);
	}
	free(s->mem.segs);
	s->mem.segs = NULL;
	s->mem.num_segs = 0;
}

/* ---- rings ------------------------------------------------------------------------------- */

static bool page_used(const struct ring_pages *p, uint32_t i)
{
	return p->used[i / 64] >> (i % 64) & 1;
}

static void pages_set(struct ring_pages *p, uint32_t from, uint32_t num, bool used)
{
	for (uint32_t i = from; i < from + num; i++) {
		if (used)
			p->used[i / 64] |= 1ull << (i % 64);
		else
			p->used[i / 64] &= ~(1ull << (i % 64));
	}
	p->free = used ? p->free - num : p->free + num;
}

/* The first of `num` free pages in a row, or p->pages. */
static uint32_t pages_find(const struct ring_pages *p, uint32_t num)
{
	uint32_t run = 0;

	if (p->free < num)
		return p->pages;
	for (uint32_t i = 0; i < p->pages; i++) {
		uint64_t word = p->used[i / 64];

		if (!(i % 64) && word == UINT64_MAX) {
			run = 0;
			i += 63;
			continue;
		}
		if (!(i % 64) && !word && i + 64 <= p->pages && run + 64 < num) {
			run += 64;
			i += 63;
			continue;
		}
		run = page_used(p, i) ? 0 : run + 1;
		if (run == num)
			return i + 1 - num;
	}
	return p->pages;
}

/*
 * Zero these pages by a hole. A page that is not there reads as zero already; writing zeroes
 * would make it, and the router would pay for a page that no client ever touched. Most ranges
 * have no page: lseek() tells for less.
 */
static void zero(const struct seg *seg, uint32_t first, uint32_t num)
{
	off_t off = (off_t)first * FF_PAGE, len = (off_t)num * FF_PAGE;
	off_t data = lseek(seg->fd, off, SEEK_DATA);

	if ((data < 0 && errno == ENXIO) || data >= off + len)
		return;
	if (fallocate(seg->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off, len))
		memset(seg->map + off, 0, (size_t)len);
}

/* `num` pages of that segment, zeroed. */
static bool pages_take(struct seg *seg, uint32_t num, uint32_t *off)
{
	struct ring_pages *p = seg->alloc;
	uint32_t first = pages_find(p, num);

	if (first == p->pages)
		return false;
	pages_set(p, first, num, true);
	zero(seg, first, num);
	*off = first * FF_PAGE;
	return true;
}

/* Of the first segment with room, or of a new one. 0 or -errno. */
static int rings_take(struct session *s, uint32_t num, uint32_t *seg, uint32_t *off)
{
	uint64_t want = RINGS_MIN, size = (uint64_t)num * FF_PAGE;
	int id;

	for (uint32_t i = 0; i < s->mem.num_segs; i++) {
		if (s->mem.segs[i].kind != SEG_RINGS)
			continue;
		if (pages_take(&s->mem.segs[i], num, off)) {
			*seg = i;
			return 0;
		}
		if (want < RINGS_MAX)
			want *= 2;
	}
	if (want < size)
		want = size;
	if (want > UINT32_MAX)
		return -ENOSPC;
	id = seg_create(s, SEG_RINGS, want);
	if (id < 0)
		return id;
	*seg = (uint32_t)id;
	return pages_take(&s->mem.segs[id], num, off) ? 0 : -ENOSPC;
}

int ring_alloc(struct session *s, uint32_t size, uint32_t *seg, uint32_t *off)
{
	uint64_t bytes = page_up(size);
	int err;

	if (!bytes)
		return -EINVAL;
	err = quota_charge(s->cont, QUOTA_MEMORY, bytes);
	if (err)
		return err;
	err = rings_take(s, (uint32_t)(bytes / FF_PAGE), seg, off);
	if (err)
		quota_return(s->cont, QUOTA_MEMORY, bytes);
	return err;
}

int dm_pages_alloc(struct session *s, uint64_t size, uint64_t max, uint32_t *seg, uint32_t *off)
{
	uint64_t bytes = page_up(size);
	uint32_t i;
	int id, err;

	for (i = 0; i < s->mem.num_segs && s->mem.segs[i].kind != SEG_DM; i++)
		;
	if (i == s->mem.num_segs) {
		id = seg_create(s, SEG_DM, max);
		if (id < 0)
			return id;
	}
	*seg = i;
	err = quota_charge(s->cont, QUOTA_MEMORY, bytes);
	if (err || pages_take(&s->mem.segs[i], (uint32_t)(bytes / FF_PAGE), off))
		return err;
	quota_return(s->cont, QUOTA_MEMORY, bytes);
	return -ENOMEM;
}

/*
 * The ring's pages go back to the kernel, except where the session ends: then its whole segments
 * are freed soon.
 */
void ring_free(struct session *s, uint32_t seg, uint32_t off, uint32_t size)
{
	uint32_t first = off / FF_PAGE, num = (uint32_t)(page_up(size) / FF_PAGE);

	if (!s->closing)
		zero(&s->mem.segs[seg], first, num);
	pages_set(s->mem.segs[seg].alloc, first, num, false);
	quota_return(s->cont, QUOTA_MEMORY, (uint64_t)num * FF_PAGE);
}
