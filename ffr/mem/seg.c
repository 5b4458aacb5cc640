/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * seg.c - the memfds that clients map: rings and device memory. Control thread; used by session.c and the handlers of
 * rings.
 *
 * The router never waits for a lock of a segment's file that its client can hold: it serves other tenants meanwhile.
 * A client has two ways to hold the lock of the inode. The kernel takes long to punch a hole in a file that is mapped
 * some 100,000 times, and whoever touches the pages of the hole waits as well. fallocate() of a whole file takes
 * long, too.
 *
 * A segment is sealed against shrinking and growing from the start. The client maps the segment and then seals it
 * with F_SEAL_FUTURE_WRITE (Linux 5.1): from then on nobody can punch holes, or map the segment writable once more,
 * and mappings that are there go on. The kernel seals with the lock held, so no hole is being punched when the seal
 * is seen. F_GET_SEALS takes no lock. Between the moment when the router hands out the descriptor and the moment when
 * seg_check() sees the seal, the router touches no page of the segment. Once the client has the descriptor, the router
 * does not ask the kernel to seal the file, to punch holes in it or to look for them (SEEK_DATA), all of which take the
 * lock.
 *
 * So pages that were handed out once stay in the file, and are charged until the segment goes.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ffr/keeper/keeper.h"
#include "ffr/lib/log.h"
#include "ffr/mem/shadow.h"
#include "ffr/mem/watch.h"

#define MAX_SEGS   256u		/* of a session */
#define RINGS_MIN  (2ull << 20) /* bytes of the first ring segment; each further one doubles it */
#define RINGS_MAX  (64ull << 20)
#define LOOK_BYTES 65536u
#define LOOK_PAGES (LOOK_BYTES / FF_PAGE)

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* Page allocator of a segment. */
struct ring_pages {
	uint32_t pages;
	uint32_t free;
	uint32_t num_had; /* pages in `had` */
	uint64_t *had; /* a bit for each page that was handed out at some time: charged, and not empty */
	uint64_t used[]; /* a bit for each page that is in use; behind them `had` */
};

static uint64_t page_up(uint64_t x)
{
	return (x + FF_PAGE - 1) & ~(uint64_t)(FF_PAGE - 1);
}

/* A memfd that stays of its size, with further seals. Descriptor or -errno. */
static int memfd_new(const char *name, uint64_t size, int seals)
{
	int fd, err;

	fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)size) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | seals)) {
		err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

int sealed_memfd(const char *name, uint64_t size)
{
	return memfd_new(name, size, F_SEAL_SEAL);
}

static struct ring_pages *ring_pages_new(uint64_t size)
{
	uint32_t pages = (uint32_t)(size / FF_PAGE), words = (pages + 63) / 64;
	struct ring_pages *p = calloc(1, sizeof(*p) + 2 * words * sizeof(p->used[0]));

	if (!p)
		return NULL;
	p->pages = p->free = pages;
	p->had = p->used + words;
	return p;
}

/*
 * Of rings and device memory the pages that are handed out are charged as the router's memory, by
 * pages_take(): most of a segment never is. Device memory is charged as pinned in ctl/dm.c for the same reason.
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

/*
 * A further segment: of that file, which is mapped at `map`, and both are the segment's then; or, with -1, of a new
 * file. Its id or -errno.
 */
static int seg_add(struct session *s, enum seg_kind kind, uint64_t size, int fd, uint8_t *map)
{
	static const char *const names[] = {
		[SEG_RINGS] = "freeflow-rings", [SEG_DM] = "freeflow-dm"
	};
	struct seg seg = { .id = s->mem.num_segs, .kind = kind, .fd = fd, .sent = fd >= 0 }, *segs;
	int err;

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
	if (fd < 0)
		seg.fd = memfd_new(names[kind], size, 0);
	if (seg.fd < 0) {
		err = seg.fd;
		goto err_alloc;
	}
	seg.map = map;
	if (fd < 0) {
		seg.map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, seg.fd, 0);
		seg.is_held = kind == SEG_RINGS && !nursery_hold(seg.fd);
	}
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
	if (fd < 0)
		munmap(seg.map, size);
err_close:
	if (seg.is_held)
		nursery_let_go(seg.fd);
	if (fd < 0)
		close(seg.fd);
err_alloc:
	free(seg.alloc);
err_return:
	seg_return(s->cont, kind, size);
	return err;
}

int seg_create(struct session *s, enum seg_kind kind, uint64_t size)
{
	return seg_add(s, kind, page_up(size), -1, NULL);
}

struct seg *seg_get(struct session *s, uint32_t id)
{
	return id < s->mem.num_segs ? &s->mem.segs[id] : NULL;
}

int seg_check(struct session *s, uint32_t id)
{
	struct seg *seg = seg_get(s, id);
	int seals;

	if (!seg || seg->sealed)
		return 0;
	seals = fcntl(seg->fd, F_GET_SEALS);
	seg->sealed = seals > 0 && seals & F_SEAL_FUTURE_WRITE;
	return seg->sealed ? 0 : -EACCES;
}

/* Bytes of pages that are handed out, or were. */
static uint64_t bytes_had(const struct seg *seg)
{
	return seg->alloc ? (uint64_t)seg->alloc->num_had * FF_PAGE : 0;
}

void seg_free_all(struct session *s)
{
	populate_forget(s);
	pages_end(s);
	for (uint32_t i = 0; i < s->mem.num_segs; i++) {
		struct seg *seg = &s->mem.segs[i];

		seg_return(s->cont, seg->kind, seg->size);
		quota_return(s->cont, QUOTA_MEMORY, bytes_had(seg));
		sigbus_unwatch(seg->watch);
		if (seg->is_held)
			nursery_let_go(seg->fd);
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

static bool page_had(const struct ring_pages *p, uint32_t i)
{
	return p->had[i / 64] >> (i % 64) & 1;
}

/* Of pages [first, + num): so many were never handed out before. */
static uint32_t num_new(const struct ring_pages *p, uint32_t first, uint32_t num)
{
	uint32_t n = 0;

	for (uint32_t i = first; i < first + num; i++)
		n += !page_had(p, i);
	return n;
}

static bool is_zero(const uint8_t *page)
{
	return !page[0] && !memcmp(page, page + 1, FF_PAGE - 1);
}

/*
 * The pages read as zeros from now on. pread() takes no lock that a client can hold for long, and makes no pages: to
 * write zeros into pages that the client has never touched would make them, at the router's expense.
 */
static void zero(const struct seg *seg, uint32_t first, uint32_t num)
{
	static uint8_t look[LOOK_BYTES];
	uint32_t n;

	for (uint32_t i = first; i < first + num; i += n) {
		off_t at = (off_t)i * FF_PAGE;
		ssize_t got;

		n = first + num - i < LOOK_PAGES ? first + num - i : LOOK_PAGES;
		got = pread(seg->fd, look, n * FF_PAGE, at);
		for (uint32_t k = 0; k < n * FF_PAGE; k += FF_PAGE)
			if (got < (ssize_t)(k + FF_PAGE) || !is_zero(look + k))
				memset(seg->map + at + k, 0, FF_PAGE);
	}
}

/*
 * `num` pages of that segment, zeroed and charged. 0; -ENOSPC: there are not so many in a row, or the router may not
 * touch the segment; other -errno.
 */
static int pages_take(struct session *s, struct seg *seg, uint32_t num, uint32_t *off)
{
	struct ring_pages *p = seg->alloc;
	uint32_t first = pages_find(p, num), fresh;
	int err;

	if (first == p->pages || (seg->sent && seg_check(s, seg->id)))
		return -ENOSPC;
	fresh = num_new(p, first, num);
	err = quota_charge(s->cont, QUOTA_MEMORY, (uint64_t)fresh * FF_PAGE);
	if (err)
		return err;
	if (fresh < num)
		zero(seg, first, num);
	for (uint32_t i = first; i < first + num; i++)
		p->had[i / 64] |= 1ull << (i % 64);
	p->num_had += fresh;
	pages_set(p, first, num, true);
	*off = first * FF_PAGE;
	return 0;
}

/* Of the first segment with room, or of a new one. 0 or -errno. */
static int rings_take(struct session *s, uint32_t num, uint32_t *seg, uint32_t *off)
{
	uint64_t want = RINGS_MIN, size = (uint64_t)num * FF_PAGE;
	int id, err;

	for (uint32_t i = 0; i < s->mem.num_segs; i++) {
		if (s->mem.segs[i].kind != SEG_RINGS)
			continue;
		*seg = i;
		err = pages_take(s, &s->mem.segs[i], num, off);
		if (err != -ENOSPC)
			return err;
		if (want < RINGS_MAX)
			want *= 2;
	}
	if (want < size)
		want = size;
	if (want > UINT32_MAX)
		return -ENOSPC;
	err = quota_charge(s->cont, QUOTA_MEMORY, size); /* or no segment is wanted */
	if (err)
		return err;
	quota_return(s->cont, QUOTA_MEMORY, size);
	id = seg_create(s, SEG_RINGS, want);
	if (id < 0)
		return id;
	*seg = (uint32_t)id;
	return pages_take(s, &s->mem.segs[id], num, off);
}

uint32_t seg_pages(const struct seg *seg)
{
	uint32_t n = seg->alloc->pages;

	while (n && !page_had(seg->alloc, n - 1))
		n--;
	return n;
}

int seg_restore(struct session *s, int fd, uint64_t size, uint32_t pages)
{
	struct ring_pages *p;
	uint8_t *map;
	int own, id, err;

	if (!size || size % FF_PAGE || pages > size / FF_PAGE)
		return -EPROTO;
	map = nursery_take(fd, size);
	if (!map)
		return -ENOMEDIUM;
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	id = own < 0 ? -errno : seg_add(s, SEG_RINGS, size, own, map);
	if (id < 0) {
		munmap(map, size);
		nursery_let_go(fd);
		if (own >= 0)
			close(own);
		return id;
	}
	s->mem.segs[id].is_held = true;
	p = s->mem.segs[id].alloc;
	/* on failure they are the segment's all the same, which goes with the session */
	err = quota_charge(s->cont, QUOTA_MEMORY, (uint64_t)pages * FF_PAGE);
	if (err)
		return err;
	for (uint32_t i = 0; i < pages; i++)
		p->had[i / 64] |= 1ull << (i % 64);
	p->num_had = pages;
	return 0;
}

int ring_restore(struct session *s, uint32_t seg, uint32_t off, uint32_t size)
{
	struct seg *g = seg_get(s, seg);
	uint64_t pages = page_up(size) / FF_PAGE, first = off / FF_PAGE;

	if (!g || !size || off % FF_PAGE || first + pages > g->alloc->num_had)
		return -EPROTO;
	/* nobody touches a ring whose pages the client can take away */
	if (seg_check(s, seg))
		return -EACCES;
	for (uint64_t i = first; i < first + pages; i++)
		if (page_used(g->alloc, (uint32_t)i))
			return -EPROTO;
	pages_set(g->alloc, (uint32_t)first, (uint32_t)pages, true);
	return 0;
}

int ring_alloc(struct session *s, uint32_t size, uint32_t *seg, uint32_t *off)
{
	uint64_t bytes = page_up(size);

	return bytes ? rings_take(s, (uint32_t)(bytes / FF_PAGE), seg, off) : -EINVAL;
}

int dm_pages_alloc(struct session *s, uint64_t size, uint64_t max, uint32_t *seg, uint32_t *off)
{
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
	err = pages_take(s, &s->mem.segs[i], (uint32_t)(page_up(size) / FF_PAGE), off);
	return err == -ENOSPC ? -ENOMEM : err;
}

void ring_free(struct session *s, uint32_t seg, uint32_t off, uint32_t size)
{
	pages_set(s->mem.segs[seg].alloc, off / FF_PAGE, (uint32_t)(page_up(size) / FF_PAGE),
		  false);
}
