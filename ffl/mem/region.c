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
 * Only private anonymous pages that lie in an MR as a whole are replaced: what shares a page with
 * somebody else's bytes stays, and so does whatever is not plain memory: stacks (a
 * waiter on a shared futex in a replaced page would never be woken), mappings of files, huge
 * pages, memory that another userfaultfd watches.
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
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ffl/session/mm.h"
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
/* The largest inaccessible mapping that counts as the guard of a thread's stack. */
#define GUARD_MAX ((uint64_t)1 << 20)

/* Bytes around the frame of the check that registering uses of its stack; generous. */
#define FRAMES_BELOW ((uintptr_t)16 << 10)
#define FRAMES_ABOVE ((uintptr_t)16 << 10)

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
	       same_file(v, ffl_pool_file(r->ctx->pool, r->seg)) &&
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
	const struct ffl_file *file = ffl_pool_file(r->ctx->pool, r->seg);
	const char *home = ffl_pool_home(r->ctx->pool, r->seg, 0);
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
	ffl_pool_put(r->ctx->pool, r->seg, r->off, r->len, false);
}

/* Bytes from the region's start that became the program's own pages again. */
static size_t give_back(const struct ffl_region *r, int prot)
{
	char *home = ffl_pool_home(r->ctx->pool, r->seg, r->off);
	size_t done = 0;

	while (done < r->len && uffd >= 0) {
		size_t n = r->len - done < FFL_WINDOW_MAX ? r->len - done : FFL_WINDOW_MAX;

		if (!r->stash_full && mm_advise(r->stash + done, n, MADV_POPULATE_WRITE) &&
		    errno != EINVAL)
			break;
		if (ffl_window_out(uffd, (char *)r->va + done, n, r->stash + done, home + done,
				   prot))
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
		ffl_pool_put(r->ctx->pool, r->seg, r->off, r->len, true);
		set_remove(&live, i);
		return true;
	}
	done = give_back(r, vma_prot(v));
	if (!done)
		return false;
	if (r->stash_full)
		stash_bytes -= done;
	ffl_pool_put(r->ctx->pool, r->seg, r->off, done, true);
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
	uintptr_t from, to; /* pages that lie in the MR as a whole */
	int maps;	    /* an open /proc/self/maps */
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

/* A thread's stack, as far as one can tell: the first thread's, or above a small guard. */
static bool vma_is_stack(const struct ff_vma *v, int maps)
{
	uint64_t first = getauxval(AT_RANDOM); /* bytes above the first thread's stack */
	struct ff_vma below;

	if (first >= v->start && first < v->end)
		return true;
	return !ff_vma_query(maps, v->start - 1, &below) && below.end == v->start &&
	       !(below.flags & (FF_VMA_READ | FF_VMA_WRITE | FF_VMA_EXEC)) && !below.inode &&
	       below.end - below.start <= GUARD_MAX;
}

/* May this thread touch [va, end) in a window: its frames, wherever they are, control block, errno? */
static bool is_own(uintptr_t va, uintptr_t end)
{
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
	uintptr_t self = PAGE_DOWN((uintptr_t)pthread_self()), err = (uintptr_t)&errno;

	return (va < frame + FRAMES_ABOVE && end > frame - FRAMES_BELOW) ||
	       (va < self + 2 * FF_PAGE && end > self) || (err >= va && err < end);
}

/* May pages [va, end) of mapping v be replaced? */
static bool may_replace(const struct ff_vma *v, uintptr_t va, uintptr_t end, int maps)
{
	return v->flags == (FF_VMA_READ | FF_VMA_WRITE) && !v->inode && !v->dev_major &&
	       !v->dev_minor && v->page_size == FF_PAGE && !is_own(va, end) &&
	       !vma_is_stack(v, maps);
}

/* Replace pages [va, end). Bytes from va that were. */
static size_t replace(uintptr_t va, size_t len, char *stash, char *home, bool keep_stash)
{
	size_t done = 0;

	while (done < len) {
		size_t n = len - done < FFL_WINDOW_MAX ? len - done : FFL_WINDOW_MAX;

		if (ffl_window_in(uffd, (char *)va + done, n, stash + done, home + done))
			break;
		if (!keep_stash)
			mm_advise(stash + done, n, MADV_DONTNEED);
		done += n;
	}
	return done;
}

/* Pages [va, end) of mapping v are no region yet: make them live region `at`, if they may be. */
static void claim_fresh(struct claim *c, const struct ff_vma *v, uint32_t at, uintptr_t va,
			uintptr_t end)
{
	struct ffl_region r = { .va = va, .len = end - va, .ctx = c->ctx, .refs = 1 };
	struct ffl_span span;
	size_t done;

	if (va >= end || uffd < 0 || live.num >= MAX_REGIONS || set_reserve(&live, 1) ||
	    !may_replace(v, va, end, c->maps))
		return;
	if (ffl_pool_get(c->ctx->pool, r.len, &span))
		return;
	r.stash =
		mm_map(NULL, r.len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (r.stash == MAP_FAILED) {
		ffl_pool_put(c->ctx->pool, span.seg, span.off, r.len, true);
		return;
	}
	r.stash_full = stash_bytes + r.len <= STASH_MAX;
	done = replace(va, r.len, r.stash, span.home, r.stash_full);
	if (done < r.len) { /* watched by somebody else; or too many mappings */
		mm_unmap(r.stash + done, r.len - done);
		ffl_pool_put(c->ctx->pool, span.seg, span.off + done, r.len - done, true);
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
			if (v->flags & FF_VMA_SHARED)
				claim_shared(c, v, va, part_end);
			else
				claim_fresh(c, v, i, va > c->from ? va : c->from,
					    part_end < c->to ? part_end : c->to);
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

int ffl_regions_claim(struct ffl_context *ctx, uintptr_t addr, size_t len, bool write,
		      struct ff_mr_run *run, unsigned max)
{
	struct claim c = {
		.ctx = ctx,
		.run = run,
		.max = max,
		.from = PAGE_UP(addr),
		.to = PAGE_DOWN(addr + len),
	};
	uintptr_t from = PAGE_DOWN(addr), to = PAGE_UP(addr + len);
	struct ff_vma v;
	int err;

	c.maps = maps_get();
	if (c.maps < 0) /* no /proc: holes can be told by this, and nothing else can */
		return msync((void *)from, to - from, MS_ASYNC) ? -EFAULT : 0;
	err = check_range(from, to, write, c.maps);
	while (!err && from < to && !ff_vma_query(c.maps, from, &v)) {
		uintptr_t end = v.end < to ? v.end : to;

		if (v.start <= from)
			claim_part(&c, &v, from, end);
		from = end;
	}
	return err ? err : (int)c.num;
}

int ffl_regions_add(struct ffl_context *ctx, uintptr_t va, size_t len, const struct ffl_span *at)
{
	struct ffl_region r = {
		.va = va,
		.len = len,
		.ctx = ctx,
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

int ffl_regions_init(struct ffl_context *ctx)
{
	int err = 0;

	ffl_regions_lock();
	if (uffd < 0 && ctx->uffd_dev >= 0 && sysconf(_SC_PAGESIZE) == FF_PAGE) {
		uffd = ffl_fd_high(ffl_window_open(ctx->uffd_dev));
		if (uffd < 0) {
			ffl_log(FFL_WARN, "no userfaultfd: %s; memory is reached by copying",
				strerror(-uffd));
			uffd = -1;
		}
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
}
