/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * pool.c - shadow memory of a context: segments got from the router, handed out in runs of pages.
 * Called by region.c and malloc.c with the region lock held.
 *
 * Each segment is mapped once, whole, at its home, and never in the program's children. Pages in
 * use have their page table entries elsewhere (window.c); home is empty there, and full again when
 * they come back, so that a later registration finds pages that are present and need no zeroing.
 * Runs are taken from the lowest address that fits, which keeps to the warm pages.
 *
 * Tests: test_region.c, test_malloc.c, test_fork.c
 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ffl/session/mm.h"
#include "ffl/mem/region.h"

#define SEG_FIRST ((uint64_t)4 << 20)  /* bytes of the first segment; each one doubles it */
#define SEG_LARGE ((uint64_t)64 << 20) /* ... up to here, unless one run needs more */
#define MAX_SEGS  256u
/* Runs given back before the fragments that windows leave of home's mapping are merged. */
#define MERGE_AFTER 64u

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

struct pool_seg {
	uint32_t id;
	uint32_t pages;
	uint32_t free; /* pages */
	uint32_t low;  /* no free page below */
	char *home;
	uint64_t *used; /* a bit for each page; then as many for `warm` */
	uint64_t *warm; /* entry is present at home when the page is not in use */
	struct ffl_file file;
};

struct ffl_pool {
	struct ffl_context *ctx;
	uint32_t num_segs;
	uint32_t puts; /* since the last merge */
	struct pool_seg seg[MAX_SEGS];
};

/* ---- bits ----------------------------------------------------------------------------------------- */

static void bits_set(uint64_t *map, uint32_t from, uint32_t num, bool value)
{
	while (num) {
		uint32_t bit = from % 64, n = num < 64 - bit ? num : 64 - bit;
		uint64_t mask = (n == 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1) << bit;

		if (value)
			map[from / 64] |= mask;
		else
			map[from / 64] &= ~mask;
		from += n;
		num -= n;
	}
}

/* The first bit from `from` on that has the value, or `end`. */
static uint32_t bit_next(const uint64_t *map, uint32_t from, uint32_t end, bool value)
{
	while (from < end) {
		uint64_t w = (value ? map[from / 64] : ~map[from / 64]) >> (from % 64);

		if (w) {
			from += (uint32_t)__builtin_ctzll(w);
			return from < end ? from : end;
		}
		from = (from | 63) + 1;
	}
	return end;
}

/* ---- segments ------------------------------------------------------------------------------------- */

static struct pool_seg *seg_of(struct ffl_pool *pool, uint32_t id)
{
	for (uint32_t i = 0; i < pool->num_segs; i++)
		if (pool->seg[i].id == id)
			return &pool->seg[i];
	return NULL;
}

/* Find out how mappings name the file, from the mapping at home. */
static int seg_identify(struct pool_seg *seg)
{
	struct ff_vma vma;
	int maps, err;

	maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (maps < 0)
		return -errno;
	err = ff_vma_query(maps, (uintptr_t)seg->home, &vma);
	close(maps);
	if (err)
		return err;
	seg->file.inode = vma.inode;
	seg->file.dev_major = vma.dev_major;
	seg->file.dev_minor = vma.dev_minor;
	return 0;
}

static size_t bitmap_len(uint32_t pages)
{
	return PAGE_UP(((size_t)pages + 63) / 64 * sizeof(uint64_t));
}

/* Get a further segment of at least `len` bytes from the router. */
static int pool_grow(struct ffl_pool *pool, uint64_t len)
{
	struct pool_seg *seg = &pool->seg[pool->num_segs];
	struct ff_shadow_grow_req req = { .size = SEG_FIRST };
	struct ff_shadow_grow_resp resp;
	unsigned num_fds = 0;
	size_t bits;
	int fd = -1, err;

	if (pool->num_segs == MAX_SEGS)
		return -ENOSPC;
	for (uint32_t i = 0; i < pool->num_segs && req.size < SEG_LARGE; i++)
		req.size *= 2;
	if (req.size < len)
		req.size = len;
	err = ffl_call(pool->ctx, FF_MSG_SHADOW_GROW, &req, sizeof(req), NULL, 0, 0, &resp,
		       sizeof(resp), &fd, 1, &num_fds);
	if (err)
		return err;
	fd = ffl_fd_high(fd);
	if (num_fds != 1 || resp.size < req.size || resp.size / FF_PAGE > UINT32_MAX) {
		err = -EPROTO;
		goto err_close;
	}
	*seg = (struct pool_seg){
		.id = resp.seg,
		.pages = (uint32_t)(resp.size / FF_PAGE),
		.free = (uint32_t)(resp.size / FF_PAGE),
		.file.fd = fd,
	};
	bits = bitmap_len(seg->pages);
	seg->used = ffl_pages_resize(NULL, 0, 2 * bits);
	if (!seg->used) {
		err = -ENOMEM;
		goto err_close;
	}
	seg->warm = seg->used + bits / sizeof(uint64_t);
	seg->home = mm_map(NULL, resp.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (seg->home == MAP_FAILED) {
		err = -errno;
		goto err_bits;
	}
	/* Pages that are slid to the program's address inherit this. */
	mm_advise(seg->home, resp.size, MADV_DONTFORK);
	err = seg_identify(seg);
	if (err)
		goto err_unmap;
	pool->num_segs++;
	return 0;

err_unmap:
	mm_unmap(seg->home, resp.size);
err_bits:
	mm_unmap(seg->used, 2 * bits);
err_close:
	if (fd >= 0)
		close(fd);
	return err;
}

/* The first page of `pages` free ones in a row, or seg->pages. */
static uint32_t seg_find(struct pool_seg *seg, uint32_t pages)
{
	uint32_t from, end;

	if (seg->free < pages)
		return seg->pages;
	seg->low = bit_next(seg->used, seg->low, seg->pages, false);
	for (from = seg->low; from < seg->pages;
	     from = bit_next(seg->used, end, seg->pages, false)) {
		uint32_t limit = seg->pages - from > pages ? from + pages : seg->pages;

		end = bit_next(seg->used, from, limit, true);
		if (end - from >= pages)
			return from;
		if (limit == seg->pages && end == limit)
			break;
	}
	return seg->pages;
}

static int populate(char *p, size_t len)
{
	if (!mm_advise(p, len, MADV_POPULATE_WRITE))
		return 0;
	if (errno != EINVAL)
		return -errno;
	for (size_t i = 0; i < len; i += FF_PAGE) /* before Linux 5.14 */
		*(volatile char *)(p + i) = 0;
	return 0;
}

/* Make the pages' entries present at home. */
static int seg_warm(struct pool_seg *seg, uint32_t from, uint32_t pages)
{
	uint32_t end = from + pages, cold, warm;

	for (cold = bit_next(seg->warm, from, end, false); cold < end;
	     cold = bit_next(seg->warm, warm, end, false)) {
		int err;

		warm = bit_next(seg->warm, cold, end, true);
		err = populate(seg->home + (size_t)cold * FF_PAGE, (size_t)(warm - cold) * FF_PAGE);
		if (err)
			return err;
		bits_set(seg->warm, cold, warm - cold, true);
	}
	return 0;
}

/* ---- the pool ------------------------------------------------------------------------------------- */

struct ffl_pool *ffl_pool_new(struct ffl_context *ctx)
{
	struct ffl_pool *pool = ffl_pages_resize(NULL, 0, sizeof(*pool));

	if (pool)
		pool->ctx = ctx;
	return pool;
}

void ffl_pool_free(struct ffl_pool *pool)
{
	if (!pool)
		return;
	for (uint32_t i = 0; i < pool->num_segs; i++) {
		struct pool_seg *seg = &pool->seg[i];

		mm_unmap(seg->home, (size_t)seg->pages * FF_PAGE);
		mm_unmap(seg->used, 2 * bitmap_len(seg->pages));
		close(seg->file.fd);
	}
	mm_unmap(pool, sizeof(*pool));
}

/* The segments were never mapped here. The program may have closed their descriptors. */
void ffl_pool_forget(struct ffl_pool *pool)
{
	struct stat st;

	for (uint32_t i = 0; i < pool->num_segs; i++) {
		struct pool_seg *seg = &pool->seg[i];

		if (!syscall(SYS_fstat, seg->file.fd, &st) && st.st_ino == seg->file.inode)
			close(seg->file.fd);
		mm_unmap(seg->used, 2 * bitmap_len(seg->pages));
	}
	mm_unmap(pool, sizeof(*pool));
}

int ffl_pool_reserve(struct ffl_pool *pool, size_t len, struct ffl_span *out)
{
	uint32_t pages = (uint32_t)(len / FF_PAGE), from = 0, i;
	struct pool_seg *seg = NULL;
	int err;

	if (len / FF_PAGE > UINT32_MAX)
		return -ENOMEM;
	for (i = 0; i < pool->num_segs; i++) {
		seg = &pool->seg[i];
		from = seg_find(seg, pages);
		if (from < seg->pages)
			break;
	}
	if (i == pool->num_segs) {
		err = pool_grow(pool, len);
		if (err)
			return err;
		seg = &pool->seg[i];
		from = 0;
	}
	bits_set(seg->used, from, pages, true);
	seg->free -= pages;
	out->seg = seg->id;
	out->off = (uint64_t)from * FF_PAGE;
	out->home = seg->home + out->off;
	return 0;
}

int ffl_pool_warm(struct ffl_pool *pool, const struct ffl_span *at, size_t len)
{
	return seg_warm(seg_of(pool, at->seg), (uint32_t)(at->off / FF_PAGE),
			(uint32_t)(len / FF_PAGE));
}

int ffl_pool_get(struct ffl_pool *pool, size_t len, struct ffl_span *out)
{
	int err = ffl_pool_reserve(pool, len, out);

	if (err)
		return err;
	err = ffl_pool_warm(pool, out, len);
	if (err)
		ffl_pool_put(pool, out->seg, out->off, len, true);
	return err;
}

/*
 * Pages that slide back home leave a mapping of their own there. Changing the mappings' flags and
 * changing them back makes the kernel merge them.
 */
void ffl_pool_merge(struct ffl_pool *pool)
{
	for (uint32_t i = 0; i < pool->num_segs; i++) {
		size_t len = (size_t)pool->seg[i].pages * FF_PAGE;

		mm_advise(pool->seg[i].home, len, MADV_DOFORK);
		mm_advise(pool->seg[i].home, len, MADV_DONTFORK);
	}
	pool->puts = 0;
}

void ffl_pool_put(struct ffl_pool *pool, uint32_t seg_id, uint64_t off, size_t len, bool warm)
{
	struct pool_seg *seg = seg_of(pool, seg_id);
	uint32_t from = (uint32_t)(off / FF_PAGE), pages = (uint32_t)(len / FF_PAGE);

	bits_set(seg->used, from, pages, false);
	if (!warm)
		bits_set(seg->warm, from, pages, false);
	seg->free += pages;
	if (from < seg->low)
		seg->low = from;
	if (++pool->puts >= MERGE_AFTER)
		ffl_pool_merge(pool);
}

char *ffl_pool_home(struct ffl_pool *pool, uint32_t seg, uint64_t off)
{
	return seg_of(pool, seg)->home + off;
}

const struct ffl_file *ffl_pool_file(struct ffl_pool *pool, uint32_t seg)
{
	return &seg_of(pool, seg)->file;
}
