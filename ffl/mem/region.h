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
/* Likewise, but the pages are there only after ffl_pool_warm() of parts of them. */
int ffl_pool_reserve(struct ffl_pool *pool, size_t len, struct ffl_span *out);
int ffl_pool_warm(struct ffl_pool *pool, const struct ffl_span *at, size_t len);
/* Give pages back; `warm`: their entries were slid back home, or never elsewhere. */
void ffl_pool_put(struct ffl_pool *pool, uint32_t seg, uint64_t off, size_t len, bool warm);
/*
 * Pages that came back may be mappings of their own at home, and one mremap() takes pages of one only. Make them
 * one, where the kernel has not.
 */
void ffl_pool_merge(struct ffl_pool *pool);
char *ffl_pool_home(struct ffl_pool *pool, uint32_t seg, uint64_t off);
const struct ffl_file *ffl_pool_file(struct ffl_pool *pool, uint32_t seg);

/* ---- region.c: which of the program's pages are shadow pages ---------------------------------- */

/* Pages [va, va + len) of the program that are, or were, shadow pages. */
struct ffl_region {
	uintptr_t va;
	size_t len;
	struct ffl_context *ctx; /* whose pool the pages are of; it is in the heap, */
	struct ffl_pool *pool;	 /* ... which this is not (fork.c) */
	char *stash;		 /* the program's own pages; NULL: none, from ibv_malloc */
	uint64_t off;
	uint32_t seg;
	uint32_t refs;	 /* MRs, and the allocation; 0: could not be given back, stays as it is */
	uint8_t prot;	 /* PROT_*, as fork's prepare handler found it */
	bool stash_full; /* the stash has its pages (else they were dropped to save memory) */
	bool is_file;	 /* the stash is a private mapping of a file */
	bool was_read_only : 1; /* as the stash is */
	bool has_others : 1; /* bytes that no MR has may be on its pages: the program needs them, always */
	bool intact;	     /* fork: the pages are still at va */
};

/*
 * An MR that was registered with pages of which some may be replaced when they are used (heat.c). Shadow pages
 * and stash are reserved for all of them together when the first part of it is, so that what is next to each other
 * in the MR is in the router's mapping as well.
 */
struct ffl_lazy {
	struct ffl_lazy *next;
	struct ffl_mr *mr;
	uintptr_t from, to; /* its whole pages */
	bool busy;	    /* the last part had pages that the kernel, or a device, writes to */
	bool tried;	    /* to reserve; where that failed, each part has a place of its own */
	char *stash;	    /* to - from bytes; NULL: nothing is reserved */
	struct ffl_span span;
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
 * be written where `write` is set. With `later` nothing is replaced now; *later is the bytes of whole pages that
 * might be.
 */
int ffl_regions_claim(struct ffl_context *ctx, uintptr_t addr, size_t len, bool write,
		      uint64_t *later, struct ff_mr_run *run, unsigned max);
/* Likewise of on-demand memory: what is there, and can be replaced; the rest may be anything, or nothing. */
int ffl_regions_claim_there(struct ffl_context *ctx, uintptr_t addr, size_t len,
			    struct ff_mr_run *run, unsigned max);
/* Likewise of [from, to), whole pages of a lazy MR of which it claims none so far; shared memory is left out. */
int ffl_regions_claim_part(struct ffl_lazy *lazy, uintptr_t from, uintptr_t to,
			   struct ff_mr_run *run, unsigned max);
/* [region lock] Can it be told which pages must not be replaced while the program uses them? */
bool ffl_regions_know_pins(void);
/* The MR has given up its claims, which were these: give back what was reserved and not used. */
void ffl_regions_unreserve(struct ffl_context *ctx, struct ffl_lazy *lazy,
			   const struct ff_mr_run *run, unsigned num);
/* Give up a claim: pages that nobody claims any more become the program's own again. */
void ffl_regions_drop(struct ffl_context *ctx, const struct ff_mr_run *run, unsigned num);
/* Memory of ibv_malloc: mapped at va as shadow pages, with one reference. 0 or -ENOMEM. */
int ffl_regions_add(struct ffl_context *ctx, uintptr_t va, size_t len, const struct ffl_span *at);

/* For fork.c */
unsigned ffl_regions_each(struct ffl_region **first);
void ffl_regions_look(void);   /* sets prot and intact of all, splitting where they differ */
void ffl_regions_forget(void); /* in a child: async-signal-safe, needs no lock */

/* ---- heat.c: pages that are replaced when they are used ---------------------------------------- */

/* Are pages of MRs that have so many of them, and that access, replaced when they are used? Bytes. */
bool ffl_heat_wanted(struct ffl_context *ctx, size_t len, int access);
/* The MR has pages to be replaced later, from now on; it is registered. */
void ffl_heat_add(struct ffl_lazy *lazy);
/* ... and no more. It may be added again. NULL: does nothing. */
void ffl_heat_remove(struct ffl_lazy *lazy);
/* No lock; the context goes. */
void ffl_heat_stop(struct ffl_context *ctx);
void ffl_heat_forget(void); /* in a child: async-signal-safe, needs no lock */

/* ---- malloc.c ------------------------------------------------------------------------------------- */

void ffl_malloc_forget(struct ffl_context *ctx); /* the context goes; NULL: all (in a child) */

#endif
