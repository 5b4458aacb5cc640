/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * seg.c - the memfds that clients map: rings and device memory. Control thread; used by session.c
 * and the handlers of rings.
 *
 * A segment is sealed against shrinking and growing from the start. Until seg_seal() its client can punch holes.
 * With F_SEAL_FUTURE_WRITE (Linux 5.1) nobody can, nor map the segment writable once more; mappings that are there go
 * on. While the kernel punches a hole in a file that is mapped some 100,000 times, whoever touches the file waits, so
 * no runner touches a segment that is not sealed: the control thread seals a segment when a call names something in it.
 * By then the library has it mapped; a client that has not cannot map it any more, and harms nobody else.
 *
 * The router cannot punch holes either, so pages of rings that are gone stay in the file, and are charged until the
 * segment goes.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ffr/lib/log.h"
#include "ffr/mem/shadow.h"
#include "ffr/mem/stall.h"
#include "ffr/mem/watch.h"

#define MAX_SEGS  256u	       /* of a session */
#define RINGS_MIN (2ull << 20) /* bytes of the first ring segment; each further one doubles it */
#define RINGS_MAX (64ull << 20)
#define ZERO_STEP (64l << 10) /* bytes that are zeroed between two looks at the time */

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
	uint32_t kept;	 /* pages in `keeps` */
	uint64_t *keeps; /* a bit for each page that is not in use, but in the file, and charged */
	uint64_t used[]; /* a bit for each page that is in use; behind them `keeps` */
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
	p->keeps = p->used + words;
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
	seg.fd = memfd_new(names[kind], size, 0);
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

/* No honest client has the router wait for a ring's file. */
static void waited(struct session *s, const struct stall_wait *w)
{
	uint64_t ns = stall_waited(w);

	stall_charge(s->cont, STALL_RINGS, ns);
	s->mem.stalls |= ns > 0;
}

int seg_seal(struct session *s, uint32_t id)
{
	struct seg *seg = seg_get(s, id);
	struct stall_wait w;
	int err = 0;

	if (!seg || seg->sealed)
		return 0;
	stall_wait_begin(&w);
	if (fcntl(seg->fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) && errno != EINVAL)
		err = -errno; /* EINVAL: before Linux 5.1 */
	waited(s, &w);
	seg->sealed = !err;
	return err;
}

/* Bytes that are handed out of it, or were and are still in the file. */
static uint64_t bytes_out(const struct seg *seg)
{
	const struct ring_pages *p = seg->alloc;

	return p ? (uint64_t)(p->pages - p->free + p->kept) * FF_PAGE : 0;
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

/* Of pages [first, + num): the next ones that are in the file, from *at on. False: there are none. */
static bool next_data(const struct seg *seg, uint32_t first, uint32_t num, off_t *at, off_t *to)
{
	off_t end = ((off_t)first + num) * FF_PAGE;

	*at = lseek(seg->fd, *at, SEEK_DATA);
	if (*at < 0 || *at >= end)
		return false;
	*to = lseek(seg->fd, *at, SEEK_HOLE);
	*to = *to < 0 || *to > end ? end : *to;
	return true;
}

/*
 * Those of the pages that are in the file read as zeros from now on. A page that is not does so already, and writing
 * zeros would make it. Most ranges have none.
 */
static void zero(struct session *s, const struct seg *seg, uint32_t first, uint32_t num)
{
	off_t at = (off_t)first * FF_PAGE, to;
	struct stall_wait w;
	bool more;

	do {
		stall_wait_begin(&w);
		more = next_data(seg, first, num, &at, &to);
		if (more) {
			to = to - at < ZERO_STEP ? to : at + ZERO_STEP;
			memset(seg->map + at, 0, (size_t)(to - at));
			at = to;
		}
		waited(s, &w);
	} while (more);
}

static uint32_t num_kept(const struct ring_pages *p, uint32_t first, uint32_t num)
{
	uint32_t n = 0;

	for (uint32_t i = first; p->kept && i < first + num; i++)
		n += p->keeps[i / 64] >> i % 64 & 1;
	return n;
}

static void keep(struct ring_pages *p, uint32_t first, uint32_t num, bool yes)
{
	for (uint32_t i = first; i < first + num; i++) {
		uint64_t bit = 1ull << i % 64;

		p->kept -= (p->keeps[i / 64] & bit) != 0;
		p->keeps[i / 64] &= ~bit;
		if (!yes)
			continue;
		p->keeps[i / 64] |= bit;
		p->kept++;
	}
}

/*
 * Pages are in use no more. Those that are in the file go back to the kernel, or are kept where the segment is sealed:
 * so many.
 */
static uint32_t give_back(const struct seg *seg, uint32_t first, uint32_t num)
{
	off_t at = (off_t)first * FF_PAGE, to;
	uint32_t n = 0;

	if (!next_data(seg, first, num, &at, &to) ||
	    !fallocate(seg->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)first * FF_PAGE,
		       (off_t)num * FF_PAGE))
		return 0;
	for (; next_data(seg, first, num, &at, &to); at = to) {
		keep(seg->alloc, (uint32_t)(at / FF_PAGE), (uint32_t)((to - at) / FF_PAGE), true);
		n += (uint32_t)((to - at) / FF_PAGE);
	}
	return n;
}

/*
 * The page is touched with the fast lock held soon, and the client may be punching a hole there. Wait for that here,
 * where it is measured and nobody else waits as well.
 */
static void touch(struct session *s, const struct seg *seg, uint32_t page)
{
	struct stall_wait w;

	stall_wait_begin(&w);
	*(volatile uint8_t *)(seg->map + (size_t)page * FF_PAGE) = 0;
	waited(s, &w);
}

/* `num` pages of that segment, zeroed and charged. 0, -ENOSPC: there are not so many in a row, or -errno. */
static int pages_take(struct session *s, struct seg *seg, uint32_t num, uint32_t *off)
{
	struct ring_pages *p = seg->alloc;
	uint32_t first = pages_find(p, num), kept;
	int err;

	if (first == p->pages)
		return -ENOSPC;
	kept = num_kept(p, first, num);
	err = quota_charge(s->cont, QUOTA_MEMORY, (uint64_t)(num - kept) * FF_PAGE);
	if (err)
		return err;
	zero(s, seg, first, num);
	if (kept)
		keep(p, first, num, false);
	if (seg->sent && !seg->sealed)
		touch(s, seg, first);
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

/* Where the session ends, its whole segments are freed soon. */
void ring_free(struct session *s, uint32_t seg, uint32_t off, uint32_t size)
{
	uint32_t first = off / FF_PAGE, num = (uint32_t)(page_up(size) / FF_PAGE), kept = 0;
	struct stall_wait w;

	pages_set(s->mem.segs[seg].alloc, first, num, false);
	if (!s->closing) {
		stall_wait_begin(&w);
		kept = give_back(&s->mem.segs[seg], first, num);
		waited(s, &w);
	}
	quota_return(s->cont, QUOTA_MEMORY, (uint64_t)(num - kept) * FF_PAGE);
}
