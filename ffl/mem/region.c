/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * region.c - which of the program's pages are shadow pages. Called by mr.c, malloc.c and fork.c
 * with the region lock held; uses pool.c for pages and window.c for swapping them.
 *
 * Theory of operation
 * -------------------
 * A region is a run of pages of the program that were replaced by shadow pages of one context.
 * Regions are kept sorted by address, disjoint. MRs overlap as they like: regions are split at
 * every MR's bounds, so that each lies entirely inside or outside of an MR, and count the MRs
 * that claim them. The last one's end gives the program's own pages back (stash), with the
 * content of then. An MR of another context gets no claim on a region: its router reaches the
 * same bytes at the program's address through /proc, before and after they are given back.
 *
 * What can be replaced kind.c knows: by default private anonymous pages that lie in an MR as a whole; where the
 * router has a NIC, which takes nothing but pages that the router has mapped, pages with other bytes of the program as
 * well, and private mappings of files.
 *
 * The program may unmap, remap or move replaced pages without a word. So before a window at a
 * region's end, and before a further MR shares it, its mapping is compared with what it should be.
 * A region whose pages are no longer at their place becomes an orphan: the MRs that claim it go
 * on having the old pages, as they would with pinned ones; what is at the address now is not
 * touched. The pages are used again when the last MR goes, unless they turn up mapped elsewhere.
 * What cannot be hidden: MADV_DONTNEED on registered pages does not zero them.
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ffl/session/mm.h"
#include "ffl/mem/kind.h"
#include "ffl/mem/region.h"
#include "ffl/mem/window.h"

/*
 * The program's own pages are kept while they are replaced, up to this many bytes of the process;
 * beyond, they are freed, and fresh ones are needed at the end.
 */
#define STASH_MAX ((size_t)64 << 20)
/* A region takes up to four mappings, of the 65,530 that a process may have by default. */
#define MAX_REGIONS	   8192u
#define KERNEL_SIGSET_SIZE 8 /* bytes */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t lock_signals; /* mask of the thread that has the lock, as it was */

/* An array of regions: `live` is sorted by va, `orphan` is not sorted. Region lock. */
struct region_set {
	struct ffl_region *r;
	uint32_t num, size;
};
static struct region_set live, orphan;

static int uffd = -1; /* of this process; -1: nothing can be replaced */
static char *nowhere; /* where nobody can read, for ffl_window_in() */
static char *probe;   /* likewise; NULL: the kernel cannot tell what is pinned */
static uint32_t num_contexts;
static size_t stash_bytes;
static int maps_fd = -1; /* maps_get()'s */

/* The bare system call: the library function would leave out libc's internal signals. */
void ffl_regions_lock(void)
{
	uint64_t all = ~(uint64_t)0, old;

	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &old, KERNEL_SIGSET_SIZE);
	pthread_mutex_lock(&lock);
	lock_signals = old;
}

void ffl_regions_unlock(void)
{
	uint64_t old = lock_signals;

	pthread_mutex_unlock(&lock);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, KERNEL_SIGSET_SIZE);
}

void *ffl_pages_resize(void *old, size_t old_len, size_t new_len)
{
	void *p;

	if (old)
		p = mm_remap(old, PAGE_UP(old_len), PAGE_UP(new_len), MREMAP_MAYMOVE, NULL);
	else
		p = mm_map(NULL, PAGE_UP(new_len), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

/*
 * An open /proc/self/maps, or -1. It is kept, but programs close descriptors that are not theirs,
 * and the number may be another file's by now.
 */
static int maps_get(void)
{
	static dev_t dev;
	static ino_t ino;
	struct stat st;

	if (maps_fd >= 0 && !syscall(SYS_fstat, maps_fd, &st) && st.st_dev == dev &&
	    st.st_ino == ino)
		return maps_fd;
	maps_fd = ffl_fd_high(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
	if (maps_fd < 0)
		return -1;
	if (syscall(SYS_fstat, maps_fd, &st)) {
		close(maps_fd);
		maps_fd = -1;
		return -1;
	}
	dev = st.st_dev;
	ino = st.st_ino;
	return maps_fd;
}

/* ---- sets of regions ---------------------------------------------------------------------------- */

static uintptr_t region_end(const struct ffl_region *r)
{
	return r->va + r->len;
}

/* Room for `more` regions. */
static int set_reserve(struct region_set *s, uint32_t more)
{
	uint32_t size = s->size ? s->size : 64;
	struct ffl_region *r;

	while (size < s->num + more)
		size *= 2;
	if (size == s->size)
		return 0;
	r = ffl_pages_resize(s->r, s->size * sizeof(*r), size * sizeof(*r));
	if (!r)
		return -ENOMEM;
	s->r = r;
	s->size = size;
	return 0;
}

/* Call after set_reserve(). */
static void set_insert(struct region_set *s, uint32_t at, const struct ffl_region *r)
{
	memmove(&s->r[at + 1], &s->r[at], (s->num - at) * sizeof(*r));
	s->r[at] = *r;
	s->num++;
}

static void set_remove(struct region_set *s, uint32_t at)
{
	s->num--;
	memmove(&s->r[at], &s->r[at + 1], (s->num - at) * sizeof(*s->r));
}

/* The first live region that ends above va. */
static uint32_t live_find(uintptr_t va)
{
	uint32_t lo = 0, hi = live.num;

	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;

		if (region_end(&live.r[mid]) > va)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

/* Cut region i in two at va, if va is inside. Call after set_reserve(&live, 1). */
static void live_split(uint32_t i, uintptr_t va)
{
	struct ffl_region *r = &live.r[i], upper = *r;
	size_t lower_len = va - r->va;

	if (va <= r->va || va >= region_end(r))
		return;
	upper.va = va;
	upper.len -= lower_len;
	upper.off += lower_len;
	if (upper.stash)
		upper.stash += lower_len;
	r->len = lower_len;
	set_insert(&live, i + 1, &upper);
}

/* Readable, so that it does not look like the guard of a stack that the mapping above it would be. */
static char *stash_map(size_t len)
{
	char *p = mm_map(NULL, len, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* ---- the end of a region ------------------------------------------------------------------------ */

static bool same_file(const struct ff_vma *v, const struct ffl_file *f)
{
	return (v->flags & FF_VMA_SHARED) && v->inode == f->inode && v->dev_major == f->dev_major &&
	       v->dev_minor == f->dev_minor;
}

/* Does mapping v show the region's own pages at r->va? */
static bool region_intact(const struct ffl_region *r, const struct ff_vma *v)
{
	return v->start <= r->va && v->end > r->va &&
	       same_file(v, ffl_pool_file(r->pool, r->seg)) &&
	       v->offset + (r->va - v->start) == r->off;
}

static int vma_prot(const struct ff_vma *v)
{
	return (v->flags & FF_VMA_READ ? PROT_READ : 0) |
	       (v->flags & FF_VMA_WRITE ? PROT_WRITE : 0) |
	       (v->flags & FF_VMA_EXEC ? PROT_EXEC : 0);
}

static void stash_free(struct ffl_region *r)
{
	if (!r->stash)
		return;
	mm_unmap(r->stash, r->len);
	if (r->stash_full)
		stash_bytes -= r->len;
	r->stash = NULL;
}

/* Is any of the region's pages mapped somewhere but at home? The program moved them, then. */
static bool pages_mapped(const struct ffl_region *r, int maps)
{
	const struct ffl_file *file = ffl_pool_file(r->pool, r->seg);
	const char *home = ffl_pool_home(r->pool, r->seg, 0);
	struct ff_vma v;

	for (uint64_t pos = 0; !ff_vma_query(maps, pos, &v); pos = v.end) {
		if (!same_file(&v, file) || v.offset >= r->off + r->len ||
		    v.offset + (v.end - v.start) <= r->off)
			continue;
		if (v.start - v.offset != (uintptr_t)home)
			return true;
	}
	return false;
}

/* The region's shadow pages are not at their place any more, and no MR claims them. */
static void pages_put_lost(const struct ffl_region *r, int maps)
{
	if (maps < 0 || pages_mapped(r, maps))
		return; /* never used again */
	ffl_pool_put(r->pool, r->seg, r->off, r->len, false);
}

/* Bytes from the region's start that became the program's own pages again. */
static size_t give_back(const struct ffl_region *r, int prot)
{
	char *home = ffl_pool_home(r->pool, r->seg, r->off);
	size_t done = 0;

	while (done < r->len && uffd >= 0) {
		size_t n = r->len - done < FFL_WINDOW_MAX ? r->len - done : FFL_WINDOW_MAX;

		/* what came in one window is a mapping of its own, and the region may have been cut since */
		while (n > FF_PAGE && !ffl_window_is_whole(r->stash + done, n))
			n = PAGE_UP(n / 2);
		/* the file may have become shorter */
		if (r->is_file && mm_advise(r->stash + done, n, MADV_POPULATE_READ))
			break;
		if (r->was_read_only && mm_protect(r->stash + done, n, PROT_READ | PROT_WRITE))
			break;
		if (!r->stash_full && mm_advise(r->stash + done, n, MADV_POPULATE_WRITE) &&
		    errno != EINVAL)
			break;
		if (ffl_window_out(uffd, (char *)r->va + done, n, r->stash + done, home + done,
				   prot, r->is_file))
			break;
		done += n;
	}
	return done;
}

/*
 * Live region i, which maps exactly one mapping's part, is not claimed any more. True: it is
 * gone. False: it could not be given back, and stays, unclaimed.
 */
static bool region_release(uint32_t i, const struct ff_vma *v, int maps)
{
	struct ffl_region *r = &live.r[i];
	size_t done;

	if (!region_intact(r, v)) {
		stash_free(r);
		pages_put_lost(r, maps);
		set_remove(&live, i);
		return true;
	}
	if (!r->stash) {
		mm_unmap((void *)r->va, r->len);
		ffl_pool_put(r->pool, r->seg, r->off, r->len, true);
		set_remove(&live, i);
		return true;
	}
	done = give_back(r, vma_prot(v));
	if (!done)
		return false;
	if (r->stash_full)
		stash_bytes -= done;
	ffl_pool_put(r->pool, r->seg, r->off, done, true);
	if (done == r->len) {
		set_remove(&live, i);
		return true;
	}
	r->va += done;
	r->len -= done;
	r->off += done;
	r->stash += done;
	return false;
}

/* Release all of [va, end) that is unclaimed and of that context. */
static void release_range(struct ffl_context *ctx, uintptr_t va, uintptr_t end)
{
	int maps = maps_get();
	uint32_t i = live_find(va);

	while (i < live.num && live.r[i].va < end) {
		struct ffl_region *r = &live.r[i];
		struct ff_vma v;

		if (r->refs || r->ctx != ctx || maps < 0 || set_reserve(&live, 1)) {
			i++;
			continue;
		}
		if (ff_vma_query(maps, live.r[i].va, &v))
			v = (struct ff_vma){ .start = UINT64_MAX, .end = UINT64_MAX };
		live_split(i, v.start > live.r[i].va ? v.start : v.end);
		if (!region_release(i, &v, maps))
			i++;
	}
}

/* Live region i is not at its place: out of the way, but its claims go on. */
static void region_orphan(uint32_t i, int maps)
{
	struct ffl_region *r = &live.r[i];

	stash_free(r);
	if (!r->refs)
		pages_put_lost(r, maps);
	else
		set_insert(&orphan, orphan.num, r);
	set_remove(&live, i);
}

static void drop_orphans(struct ffl_context *ctx, const struct ff_mr_run *run)
{
	for (uint32_t i = orphan.num; i-- > 0;) {
		struct ffl_region *r = &orphan.r[i];

		if (r->ctx != ctx || r->seg != run->seg || r->off < run->off ||
		    r->off >= run->off + run->len || --r->refs)
			continue;
		pages_put_lost(r, maps_get());
		set_remove(&orphan, i);
	}
}

void ffl_regions_drop(struct ffl_context *ctx, const struct ff_mr_run *run, unsigned num)
{
	for (unsigned k = 0; k < num; k++, run++) {
		bool unclaimed = false;

		if (run->kind != FF_RUN_SHADOW)
			continue;
		for (uint32_t i = live_find(run->va);
		     i < live.num && live.r[i].va < run->va + run->len; i++) {
			struct ffl_region *r = &live.r[i];

			if (r->ctx == ctx && r->seg == run->seg &&
			    r->off - run->off == r->va - run->va && !--r->refs)
				unclaimed = true;
		}
		if (unclaimed)
			release_range(ctx, run->va, run->va + run->len);
		if (orphan.num)
			drop_orphans(ctx, run);
	}
}

/* ---- claims ----------------------------------------------------------------------------------------- */

/* What ffl_regions_claim() collects. */
struct claim {
	struct ffl_context *ctx;
	struct ff_mr_run *run;
	unsigned num, max;
	uint64_t *later;       /* not NULL: nothing is replaced now */
	struct ffl_lazy *lazy; /* NULL: all of the MR is claimed */
	bool is_on_demand;     /* nothing has to be there, and nothing is made present */
	uintptr_t addr, end;   /* the MR's bytes */
	uintptr_t from, to;    /* pages that may be replaced */
	int maps;	       /* an open /proc/self/maps */
};

/* Call with room for one more run. */
static void claim_run(struct claim *c, enum ff_run_kind kind, uintptr_t va, size_t len,
		      uint32_t seg, uint64_t off)
{
	struct ff_mr_run *last = &c->run[c->num ? c->num - 1 : 0];

	if (c->num && last->kind == kind && last->va + last->len == va &&
	    (kind == FF_RUN_SHARED || (last->seg == seg && last->off + last->len == off))) {
		last->len += len;
		return;
	}
	c->run[c->num++] = (struct ff_mr_run){
		.va = va,
		.len = len,
		.off = off,
		.seg = seg,
		.kind = kind,
	};
}

static int replace_some(char *p, size_t n, char *stash, char *home, int prot, enum ffl_way way,
			int maps)
{
	if (way == FFL_WAY_WINDOW)
		/* nobody writes to what may only be read, and the kernel does not move it */
		return ffl_window_in(uffd, maps, nowhere, prot & PROT_WRITE ? probe : NULL, p, n,
				     stash, home, prot);
	return ffl_window_file_in(way == FFL_WAY_ALONE, p, n, stash, home, prot);
}

/* Replace the region's pages, of mapping v. Bytes from its start that were; *err: why not all. */
static size_t replace(const struct ffl_region *r, const struct ff_vma *v, enum ffl_way way,
		      char *home, int maps, int *err)
{
	size_t done = 0;

	*err = 0;
	while (done < r->len) {
		size_t n = r->len - done < FFL_WINDOW_MAX ? r->len - done : FFL_WINDOW_MAX;
		char *p = (char *)r->va + done, *stash = r->stash + done;

		*err = replace_some(p, n, stash, home + done, vma_prot(v), way, maps);
		if (*err == -EFAULT && n > FF_PAGE) {
			ffl_pool_merge(r->pool);
			*err = replace_some(p, n, stash, home + done, vma_prot(v), way, maps);
		}
		if (way == FFL_WAY_WINDOW && (*err || !r->stash_full))
			mm_advise(stash, n, MADV_DONTNEED);
		if (*err)
			break;
		done += n;
	}
	return done;
}

/*
 * Shadow pages, present at home, and a stash for [va, va + len): of what is reserved for the MR, or its `own`.
 * 0 or -errno.
 */
static int place_get(const struct claim *c, uintptr_t va, size_t len, struct ffl_span *span,
		     char **stash, bool *own)
{
	struct ffl_lazy *lazy = c->lazy;
	int err;

	*own = !lazy || !lazy->stash;
	if (!*own) {
		size_t off = va - lazy->from;

		*span = (struct ffl_span){ lazy->span.off + off, lazy->span.seg,
					   lazy->span.home + off };
		*stash = lazy->stash + off;
		return ffl_pool_warm(c->ctx->pool, span, len);
	}
	err = ffl_pool_get(c->ctx->pool, len, span);
	if (err)
		return err;
	*stash = stash_map(len);
	if (*stash)
		return 0;
	ffl_pool_put(c->ctx->pool, span->seg, span->off, len, true);
	return -ENOMEM;
}

/* Is region r where that lazy MR has reserved, and nobody else's? Then that MR claims all of it. */
static bool is_reserved(const struct ffl_lazy *lazy, const struct ffl_region *r)
{
	size_t at = r->va - lazy->from;

	return r->refs == 1 && r->va >= lazy->from && region_end(r) <= lazy->to &&
	       r->ctx == lazy->mr->ctx && r->seg == lazy->span.seg &&
	       r->off == lazy->span.off + at && r->stash == lazy->stash + at;
}

/* Live region `at`, and those next to it, are one where they can be: each takes mappings. */
static void live_merge(const struct ffl_lazy *lazy, uint32_t at)
{
	if (at)
		at--;
	for (unsigned k = 0; k < 2 && at + 1 < live.num; k++) {
		struct ffl_region *r = &live.r[at], *next = r + 1;

		if (region_end(r) == next->va && r->stash_full == next->stash_full &&
		    is_reserved(lazy, r) && is_reserved(lazy, next)) {
			r->len += next->len;
			set_remove(&live, at + 1);
		} else {
			at++;
		}
	}
}

/* Pages [va, end) of mapping v are no region yet: make them live region `at`, if they may be. */
static void claim_fresh(struct claim *c, const struct ff_vma *v, uint32_t at, uintptr_t va,
			uintptr_t end)
{
	struct ffl_region r = {
		.va = va,
		.len = end - va,
		.ctx = c->ctx,
		.pool = c->ctx->pool,
		.refs = 1,
		.has_others = va < c->addr || end > c->end,
		.was_read_only = !(v->flags & FF_VMA_WRITE),
	};
	struct ffl_span span;
	enum ffl_way way;
	size_t done;
	bool own;
	int err;

	if (va >= end || uffd < 0 || live.num >= MAX_REGIONS || set_reserve(&live, 1))
		return;
	way = ffl_way_of(v, va, end, c->ctx->whole_pages, c->maps);
	if (way == FFL_WAY_NONE)
		return;
	if (c->later) {
		*c->later += r.len;
		return;
	}
	if (place_get(c, va, r.len, &span, &r.stash, &own))
		return;
	r.is_file = way != FFL_WAY_WINDOW;
	r.stash_full = r.is_file || stash_bytes + r.len <= STASH_MAX;
	done = replace(&r, v, way, span.home, c->maps, &err);
	if (c->lazy && err == -EBUSY)
		c->lazy->busy = true;
	if (done < r.len) { /* watched by somebody else; too many mappings; or not there any more */
		if (own) {
			mm_unmap(r.stash + done, r.len - done);
			ffl_pool_put(c->ctx->pool, span.seg, span.off + done, r.len - done, true);
		}
		if (!done)
			return;
		r.len = done;
	}
	if (r.stash_full)
		stash_bytes += r.len;
	r.seg = span.seg;
	r.off = span.off;
	set_insert(&live, at, &r);
	claim_run(c, FF_RUN_SHADOW, va, r.len, r.seg, r.off);
	if (!own)
		live_merge(c->lazy, at);
}

/*
 * Pages [va, end) of mapping v are shared memory. The router maps only pages that exist, as if they
 * were pinned (those that it touched first would be charged to it), and ends a session in whose
 * mapping it meets others. So what cannot be made present is not claimed: the file is shorter, or
 * there is no memory. Files on disks, which have a device number, the router does not map anyway.
 */
static void claim_shared(struct claim *c, const struct ff_vma *v, uintptr_t va, uintptr_t end)
{
	if (!v->dev_major &&
	    mm_advise((void *)va, end - va,
		      v->flags & FF_VMA_WRITE ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
		return;
	claim_run(c, FF_RUN_SHARED, va, end - va, 0, 0);
}

/* Pages [va, end), of mapping v. */
static void claim_part(struct claim *c, const struct ff_vma *v, uintptr_t va, uintptr_t end)
{
	while (va < end && c->num < c->max) {
		uint32_t i = live_find(va);
		uintptr_t part_end = end;

		if (i < live.num && live.r[i].va <= va) {
			if (set_reserve(&live, 2) || set_reserve(&orphan, 1))
				return;
			if (live.r[i].va < va)
				live_split(i++, va);
			live_split(i, end);
			part_end = region_end(&live.r[i]);
			if (!region_intact(&live.r[i], v)) {
				region_orphan(i, c->maps);
				continue;
			}
			if (live.r[i].ctx == c->ctx) {
				live.r[i].refs++;
				claim_run(c, FF_RUN_SHADOW, va, part_end - va, live.r[i].seg,
					  live.r[i].off);
			}
		} else {
			if (i < live.num && live.r[i].va < end)
				part_end = live.r[i].va;
			if (!(v->flags & FF_VMA_SHARED))
				claim_fresh(c, v, i, va > c->from ? va : c->from,
					    part_end < c->to ? part_end : c->to);
			else if (!c->lazy && !c->is_on_demand)
				claim_shared(c, v, va, part_end);
		}
		va = part_end;
	}
}

/* Is all of [addr, end) mapped, with the rights needed? */
static int check_range(uintptr_t addr, uintptr_t end, bool write, int maps)
{
	uint32_t need = write ? FF_VMA_WRITE : FF_VMA_READ;
	struct ff_vma v;

	for (uint64_t pos = addr; pos < end; pos = v.end)
		if (ff_vma_query(maps, pos, &v) || v.start > pos || !(v.flags & need))
			return -EFAULT;
	return 0;
}

/* Claim [from, to), whole pages. The number of runs or -errno. */
static int claim_range(struct claim *c, uintptr_t from, uintptr_t to, bool write)
{
	struct ff_vma v;
	int err;

	c->maps = maps_get();
	if (c->is_on_demand)
		err = c->maps < 0 ? c->maps : 0;
	else if (c->maps < 0) /* no /proc: holes can be told by this, and nothing else can */
		return msync((void *)from, to - from, MS_ASYNC) ? -EFAULT : 0;
	else
		err = check_range(from, to, write, c->maps);
	while (!err && from < to && !ff_vma_query(c->maps, from, &v)) {
		uintptr_t end = v.end < to ? v.end : to;

		if (v.start <= from)
			claim_part(c, &v, from, end);
		from = end;
	}
	return err ? err : (int)c->num;
}

int ffl_regions_claim(struct ffl_context *ctx, uintptr_t addr, size_t len, bool write,
		      uint64_t *later, struct ff_mr_run *run, unsigned max)
{
	struct claim c = {
		.ctx = ctx,
		.run = run,
		.max = max,
		.later = later,
		.addr = addr,
		.end = addr + len,
		.from = ctx->whole_pages ? PAGE_DOWN(addr) : PAGE_UP(addr),
		.to = ctx->whole_pages ? PAGE_UP(addr + len) : PAGE_DOWN(addr + len),
	};

	if (later)
		*later = 0;
	return claim_range(&c, PAGE_DOWN(addr), PAGE_UP(addr + len), write);
}

int ffl_regions_claim_there(struct ffl_context *ctx, uintptr_t addr, size_t len,
			    struct ff_mr_run *run, unsigned max)
{
	struct claim c = {
		.ctx = ctx,
		.run = run,
		.max = max,
		.is_on_demand = true,
		.addr = addr,
		.end = addr + len,
		.from = PAGE_DOWN(addr),
		.to = PAGE_UP(addr + len),
	};

	return claim_range(&c, c.from, c.to, false);
}

/* One place for all of the MR's pages, if there is one. */
static void reserve(struct ffl_lazy *lazy)
{
	struct ffl_context *ctx = lazy->mr->ctx;
	size_t len = lazy->to - lazy->from;

	if (lazy->tried)
		return;
	lazy->tried = true;
	if (ffl_pool_reserve(ctx->pool, len, &lazy->span))
		return;
	lazy->stash = stash_map(len);
	if (!lazy->stash)
		ffl_pool_put(ctx->pool, lazy->span.seg, lazy->span.off, len, true);
}

int ffl_regions_claim_part(struct ffl_lazy *lazy, uintptr_t from, uintptr_t to,
			   struct ff_mr_run *run, unsigned max)
{
	struct claim c = {
		.ctx = lazy->mr->ctx,
		.run = run,
		.max = max,
		.lazy = lazy,
		.addr = from,
		.end = to,
		.from = from,
		.to = to,
	};

	if (uffd < 0 || !max)
		return 0;
	reserve(lazy);
	return claim_range(&c, from, to, lazy->mr->access & IBV_ACCESS_LOCAL_WRITE);
}

void ffl_regions_unreserve(struct ffl_context *ctx, struct ffl_lazy *lazy,
			   const struct ff_mr_run *run, unsigned num)
{
	uintptr_t at = lazy->from;

	if (!lazy->stash)
		return;
	for (unsigned k = 0; k <= num; k++, run++) {
		uintptr_t end = k < num ? run->va : lazy->to;

		/* what was used belongs to its region */
		if (k < num && (run->kind != FF_RUN_SHADOW || run->seg != lazy->span.seg ||
				run->off != lazy->span.off + (run->va - lazy->from)))
			continue;
		if (end > at) {
			ffl_pool_put(ctx->pool, lazy->span.seg, lazy->span.off + (at - lazy->from),
				     end - at, true);
			mm_unmap(lazy->stash + (at - lazy->from), end - at);
		}
		if (k < num)
			at = run->va + run->len;
	}
	lazy->stash = NULL;
}

int ffl_regions_add(struct ffl_context *ctx, uintptr_t va, size_t len, const struct ffl_span *at)
{
	struct ffl_region r = {
		.va = va,
		.len = len,
		.ctx = ctx,
		.pool = ctx->pool,
		.off = at->off,
		.seg = at->seg,
		.refs = 1,
	};

	if (set_reserve(&live, 1))
		return -ENOMEM;
	set_insert(&live, live_find(va), &r);
	return 0;
}

/* ---- contexts ----------------------------------------------------------------------------------------- */

static void probe_open(void)
{
	probe = mm_map(NULL, FFL_WINDOW_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	if (probe == MAP_FAILED) {
		probe = NULL;
	} else if (ffl_window_probe(uffd, probe)) {
		mm_unmap(probe, FFL_WINDOW_MAX);
		probe = NULL;
	}
}

bool ffl_regions_know_pins(void)
{
	return probe != NULL;
}

int ffl_regions_init(struct ffl_context *ctx)
{
	int err = 0;

	ffl_kind_init(ctx);
	ffl_regions_lock();
	if (uffd < 0 && ctx->uffd_dev >= 0) {
		bool moves;

		uffd = ffl_fd_high(ffl_window_open(ctx->uffd_dev, &moves));
		if (uffd >= 0 && moves)
			probe_open();
		if (uffd < 0) {
			ffl_log(FFL_WARN, "no userfaultfd: %s; memory is reached by copying",
				strerror(-uffd));
			uffd = -1;
		}
	}
	if (!nowhere) {
		nowhere = mm_map(NULL, 2 * FFL_GUARD_MAX, PROT_NONE, /* no guard, either */
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (nowhere == MAP_FAILED)
			nowhere = NULL;
	}
	ctx->pool = ffl_pool_new(ctx);
	if (!ctx->pool)
		err = -ENOMEM;
	else
		num_contexts++;
	ffl_regions_unlock();
	return err;
}

void ffl_regions_fini(struct ffl_context *ctx)
{
	if (!ctx->pool || (ctx->pid && ctx->pid != getpid()))
		return;
	ffl_heat_stop(ctx);
	ffl_regions_lock();
	if (!ctx->pid) { /* the parent's: its regions were forgotten when this process was forked */
		ffl_pool_forget(ctx->pool);
		ctx->pool = NULL;
		goto out;
	}
	ffl_malloc_forget(ctx);
	for (uint32_t i = 0; i < live.num; i++)
		if (live.r[i].ctx == ctx)
			live.r[i].refs = 0;
	release_range(ctx, 0, UINTPTR_MAX);
	/* what could not be given back stays the program's, as a shared mapping of its own */
	for (uint32_t i = live.num; i-- > 0;)
		if (live.r[i].ctx == ctx) {
			stash_free(&live.r[i]);
			set_remove(&live, i);
		}
	for (uint32_t i = orphan.num; i-- > 0;)
		if (orphan.r[i].ctx == ctx)
			set_remove(&orphan, i);
	ffl_pool_free(ctx->pool);
	ctx->pool = NULL;
	if (!--num_contexts && uffd >= 0) {
		if (probe)
			mm_unmap(probe, FFL_WINDOW_MAX);
		probe = NULL;
		close(uffd);
		uffd = -1;
	}
out:
	ffl_regions_unlock();
}

/* ---- fork ----------------------------------------------------------------------------------------------- */

unsigned ffl_regions_each(struct ffl_region **first)
{
	*first = live.r;
	return live.num;
}

void ffl_regions_look(void)
{
	int maps = maps_get();

	for (uint32_t i = 0; i < live.num; i++) {
		struct ff_vma v;

		live.r[i].intact = false;
		if (maps < 0 || set_reserve(&live, 1) || ff_vma_query(maps, live.r[i].va, &v))
			continue;
		live_split(i, v.start > live.r[i].va ? v.start : v.end);
		live.r[i].intact = region_intact(&live.r[i], &v);
		live.r[i].prot = (uint8_t)vma_prot(&v);
	}
}

void ffl_regions_forget(void)
{
	for (uint32_t i = 0; i < live.num; i++)
		if (live.r[i].stash)
			mm_unmap(live.r[i].stash, live.r[i].len);
	live.num = 0;
	orphan.num = 0;
	stash_bytes = 0;
	num_contexts = 0;
	/* the parent's, of its address space; not closed, for they may be other files' by now */
	uffd = -1;
	maps_fd = -1;
	if (probe)
		mm_unmap(probe, FFL_WINDOW_MAX);
	probe = NULL;
}
