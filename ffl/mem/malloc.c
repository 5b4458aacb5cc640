/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * malloc.c - ibv_malloc and ibv_free: memory that is shadow memory from the start. Any thread.
 *
 * Large blocks are mappings of their own. Small ones are cut from slabs:
 * runs that are divided into blocks, each with a header in front of it, one behind the other; the
 * first one that fits is taken, and neighbours that are free are merged when they are met. What
 * runs there are is kept in an array outside of them.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffl/session/freeflow.h"
#include "ffl/session/mm.h"
#include "ffl/mem/region.h"

#define ALIGN	  64u		/* bytes; also the size of a header */
#define LARGE	  (32u * 1024)	/* bytes from which on a block is a run of its own */
#define SLAB_SIZE (256u * 1024) /* bytes */

/* In front of a small block. */
struct head {
	uint32_t size; /* bytes, this header included; a multiple of ALIGN */
	uint32_t in_use;
};
static_assert(sizeof(struct head) <= ALIGN, "");

/* A mapping that was handed out. */
struct chunk {
	char *va;
	size_t len;
	struct ffl_context *ctx;
	uint32_t blocks; /* in use */
	bool slab;
};

/* Region lock. */
static struct chunk *chunks;
static uint32_t num_chunks, max_chunks;

/*
 * `len` bytes of shadow pages, or of ordinary ones where there are none. 0 and *out, until the
 * next change of the array, or -ENOMEM.
 */
static int chunk_new(struct ffl_context *ctx, size_t len, struct chunk **out)
{
	void *va;

	if (ffl_pages_grow((void **)&chunks, num_chunks, &max_chunks, sizeof(*chunks)))
		return -ENOMEM;
	va = ffl_regions_map(ctx, len);
	if (!va)
		va = mm_map(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (va == MAP_FAILED)
		return -ENOMEM;
	*out = &chunks[num_chunks++];
	**out = (struct chunk){ .va = va, .len = len, .ctx = ctx };
	return 0;
}

/* MRs may have the pages for longer. */
static void chunk_free(struct chunk *c)
{
	mm_unmap(c->va, c->len);
	*c = chunks[--num_chunks];
}

static struct head *next_head(const struct chunk *c, struct head *h)
{
	char *p = (char *)h + h->size;

	return p < c->va + c->len ? (struct head *)p : NULL;
}

/* A block of `size` bytes, header included, of a slab; NULL: none fits. */
static void *slab_get(struct chunk *c, uint32_t size)
{
	for (struct head *h = (struct head *)c->va, *n; h; h = next_head(c, h)) {
		if (h->in_use)
			continue;
		while ((n = next_head(c, h)) && !n->in_use)
			h->size += n->size;
		if (h->size < size)
			continue;
		if (h->size > size) {
			n = (struct head *)((char *)h + size);
			*n = (struct head){ .size = h->size - size };
			h->size = size;
		}
		h->in_use = 1;
		c->blocks++;
		return (char *)h + ALIGN;
	}
	return NULL;
}

static int malloc_small(struct ffl_context *ctx, size_t size, void **out)
{
	uint32_t want = (uint32_t)(size + ALIGN - 1) / ALIGN * ALIGN + ALIGN;
	struct chunk *c;
	int err;

	for (uint32_t i = 0; i < num_chunks; i++) {
		if (!chunks[i].slab || chunks[i].ctx != ctx)
			continue;
		*out = slab_get(&chunks[i], want);
		if (*out)
			return 0;
	}
	err = chunk_new(ctx, SLAB_SIZE, &c);
	if (err)
		return err;
	c->slab = true;
	*(struct head *)c->va = (struct head){ .size = SLAB_SIZE };
	*out = slab_get(c, want);
	return 0;
}

FFL_EXPORT void *ibv_malloc(struct ibv_pd *pd, size_t size)
{
	struct ffl_context *ctx = to_pd(pd)->ctx;
	struct chunk *c;
	void *p = NULL;
	int err;

	if (ctx->pid != getpid())
		return ffl_err_ptr(EIO);
	if (size > SIZE_MAX / 2)
		return ffl_err_ptr(ENOMEM);
	ffl_regions_lock();
	if (size < LARGE) {
		err = malloc_small(ctx, size, &p);
	} else {
		err = chunk_new(ctx, PAGE_UP(size), &c);
		if (!err)
			p = c->va;
	}
	ffl_regions_unlock();
	return err ? ffl_err_ptr(-err) : p;
}

FFL_EXPORT void ibv_free(void *p)
{
	char *at = p;

	ffl_regions_lock();
	for (uint32_t i = 0; at && i < num_chunks; i++) {
		struct chunk *c = &chunks[i];

		if (at < c->va || at >= c->va + c->len)
			continue;
		if (c->slab) {
			((struct head *)(at - ALIGN))->in_use = 0;
			if (--c->blocks)
				break;
		}
		chunk_free(c);
		break;
	}
	ffl_regions_unlock();
}

void ffl_malloc_forget(struct ffl_context *ctx)
{
	for (uint32_t i = num_chunks; i-- > 0;)
		if (!ctx || chunks[i].ctx == ctx)
			chunks[i] = chunks[--num_chunks];
}
