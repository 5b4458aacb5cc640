/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * region.h - shadow memory inside the process: pool.c, region.c, malloc.c and fork.c among
 * themselves, and what mr.c calls. Everything needs the region lock held that does not say
 * otherwise. Lengths and offsets are in bytes and multiples of FF_PAGE.
 *
 * The room ffl/mem/ is registration and what becomes of the program's memory for it: shadow pages, windows
 * of them, allocators, fork. It may use session/.
 */
#ifndef FFL_MEM_REGION_H
#define FFL_MEM_REGION_H

#include "ffr/abi/ff_vma.h"
#include "ffl/session/ffl.h"

#define PAGE_DOWN(x) ((x) & ~(uintptr_t)(FF_PAGE - 1))
#define PAGE_UP(x)   (((x) + FF_PAGE - 1) & ~(uintptr_t)(FF_PAGE - 1))

/*
 * The region lock: outermost of this library's locks, held across fork (fork.c). All signals are
 * blocked while it is held: a handler may not touch pages that are just being swapped, and may
 * call fork().
 */
void ffl_regions_lock(void);
void ffl_regions_unlock(void);

/* ---- pool.c: the shadow segments of a context, handed out in runs of pages ------------------ */

struct ffl_pool;

/* A run of shadow pages. */
struct ffl_span {
	uint64_t off; /* in the segment */
	uint32_t seg;
	char *home; /* the library's own mapping of it */
};

/* Which file a segment is, as mappings tell it. */
struct ffl_file {
	int fd;
	uint64_t inode;
	uint32_t dev_major, dev_minor;
};

struct ffl_pool *ffl_pool_new(struct ffl_context *ctx);
/* Pages that are mapped elsewhere than at home stay where they are. NULL: does nothing. */
void ffl_pool_free(struct ffl_pool *pool);
/* In a child: what it has of its parent's pool. */
void ffl_pool_forget(struct ffl_pool *pool);
/* `len` bytes, with their pages present at home. 0 or -errno. May call the router. */
int ffl_pool_get(struct ffl_pool *pool, size_t len, struct ffl_span *out);
/* Give pages back; `warm`: their entries were slid back home. */
void ffl_pool_put(struct ffl_pool *pool, uint32_t seg, uint64_t off, size_t len, bool warm);
char *ffl_pool_home(struct ffl_pool *pool, uint32_t seg, uint64_t off);
const struct ffl_file *ffl_pool_file(struct ffl_pool *pool, uint32_t seg);

/* ---- region.c: which of the program's pages are shadow pages ---------------------------------- */

/* Pages [va, va + len) of the program that are, or were, shadow pages. */
struct ffl_region {
	uintptr_t va;
	size_t len;
	struct ffl_context *ctx; /* whose pool the pages are of */
	char *stash;		 /* the program's own pages; NULL: none, from ibv_malloc */
	uint64_t off;
	uint32_t seg;
	uint32_t refs;	 /* MRs, and the allocation; 0: could not be given back, stays as it is */
	uint8_t prot;	 /* PROT_*, as fork's prepare handler found it */
	bool stash_full; /* the stash has its pages (else they were dropped to save memory) */
	bool intact;	 /* fork: the pages are still at va */
};

/* Growing arrays outside of the program's heap, which may itself be registered. */
void *ffl_pages_resize(void *old, size_t old_len, size_t new_len); /* NULL: no memory */

/* Takes part in context opening and closing; need no lock. */
int ffl_regions_init(struct ffl_context *ctx);
void ffl_regions_fini(struct ffl_context *ctx);

/*
 * Replace what can be replaced inside [addr, addr + len), take a reference on it, and describe it
 * and what is shared memory anyway in run[max]. The number of runs; what they leave out is reached
 * through /proc. -EFAULT: there is a hole, or a mapping that lacks the right to be read, or to
 * be written where `write` is set.
 */
int ffl_regions_claim(struct ffl_context *ctx, uintptr_t addr, size_t len, bool write,
		      struct ff_mr_run *run, unsigned max);
/* Give up a claim: pages that nobody claims any more become the program's own again. */
void ffl_regions_drop(struct ffl_context *ctx, const struct ff_mr_run *run, unsigned num);
/* Memory of ibv_malloc: mapped at va as shadow pages, with one reference. 0 or -ENOMEM. */
int ffl_regions_add(struct ffl_context *ctx, uintptr_t va, size_t len, const struct ffl_span *at);

/* For fork.c */
unsigned ffl_regions_each(struct ffl_region **first);
void ffl_regions_look(void);   /* sets prot and intact of all, splitting where they differ */
void ffl_regions_forget(void); /* in a child: async-signal-safe, needs no lock */

/* ---- malloc.c ------------------------------------------------------------------------------------- */

void ffl_malloc_forget(struct ffl_context *ctx); /* the context goes; NULL: all (in a child) */

#endif
