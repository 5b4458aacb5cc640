/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * apply.c - pages of an MR are made ready for the router. Called by mr.c and heat.c with the region lock held.
 *
 * Three steps: find out what is mapped (kind.c), have it planned (plan.c), and carry the plan out. A step of
 * the plan replaces the pages of one mapping, window by window (window.c). What a window could not replace is
 * as it was; then the shadow pages that were to take its place go, the rest of the step is copied, and the next
 * step follows. What was replaced before stays: it is the program's memory, with the same content.
 *
 * Other threads go on mapping memory meanwhile. So each step looks again at its mapping before it replaces pages,
 * and window.c does when nobody can reach them.
 *
 * Tests: test_region.c, test_region_kinds.c
 */
#include <string.h>
#include <sys/mman.h>

#include "ffl/mem/region.h"
#include "ffl/mem/track.h"
#include "ffl/mem/window.h"
#include "ffl/session/mm.h"

static struct ffl_plan plan;

struct apply {
	struct ffl_context *ctx;
	struct ff_mr_run *run;
	unsigned num;
	struct ffl_lazy *lazy; /* NULL: all of an MR */
	int maps;	       /* an open /proc/self/maps */
};

/* Finds out what the plan has to know of each mapping in the range of the MR. 0 or -EFAULT. */
static int look(const struct apply *a)
{
	const struct ffl_ask *ask = &plan.ask;
	struct ffl_known k;
	int err = 0;

	for (uintptr_t at = ask->va; !err && at < ask->end; at = k.v.end) {
		if (ff_vma_query(a->maps, at, &k.v) || k.v.start >= ask->end)
			break;
		k.is_own = ffl_regions_is_of(a->ctx, &k.v);
		if (ffl_plan_fresh(&plan, &k))
			k.use = ffl_kind_of(&k.v, k.va, k.end, ask->whole, a->maps);
		err = ffl_plan_add(&plan, &k);
	}
	if (!err)
		err = ffl_plan_end(&plan);
	if (err)
		ffl_plan_begin(&plan);
	return err;
}

void ffl_apply_append(struct ff_mr_run *run, unsigned *num, const struct ff_mr_run *r)
{
	struct ff_mr_run *last = *num ? &run[*num - 1] : NULL;

	if (last && last->kind == r->kind && last->va + last->len == r->va &&
	    (r->kind == FF_RUN_SHARED || last->off + last->len == r->off))
		last->len += r->len;
	else
		run[(*num)++] = *r;
}

/*
 * The router maps only pages of shared memory that exist, as if they were pinned (those that it touched first would
 * be charged to it), and ends a session in whose mapping it meets others. So what cannot be made present is no
 * run: the file is shorter, or there is no memory. Files on disks the router does not map anyway.
 */
static void apply_shared(struct apply *a, const struct ffl_step *s)
{
	const struct ff_vma *v = &s->v;
	struct ff_mr_run r = { .va = s->va, .len = s->end - s->va, .kind = FF_RUN_SHARED };

	if (s->way == FFL_WAY_OWN) {
		r.kind = FF_RUN_SHADOW;
		r.off = v->offset + (s->va - v->start);
	}
	if (!v->dev_major &&
	    mm_advise((void *)s->va, s->end - s->va,
		      v->flags & FF_VMA_WRITE ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
		ffl_plan_copy(&plan, FF_WHY_MAPPINGS, s->va, s->end);
	else
		ffl_apply_append(a->run, &a->num, &r);
}

/* Is the step's mapping still there? */
static bool is_still(const struct apply *a, const struct ffl_step *s)
{
	struct ff_vma v = { 0 };

	return !ff_vma_query(a->maps, s->va, &v) && v.start <= s->va && v.end >= s->end &&
	       v.flags == s->v.flags && v.page_size == s->v.page_size && v.inode == s->v.inode &&
	       v.dev_major == s->v.dev_major && v.dev_minor == s->v.dev_minor;
}

/* Replace one window's pages, which have these attributes, by pages at that place. 0 or -errno. */
static int replace(struct apply *a, const struct ffl_step *step, const struct ffl_attr *attr,
		   uintptr_t va, size_t len, struct ffl_place *place)
{
	char *home = ffl_regions_place(a->ctx, len, place);
	struct ffl_swap s = {
		.p = (char *)va,
		.len = len,
		.prot = ffl_vma_prot(&step->v),
		.home = home,
		.fd = place->fd,
		.off = place->off,
		.maps = a->maps,
		.attr = attr,
	};
	int err;

	if (!home)
		return errno == ENOMEM ? -ENOSPC : -errno;
	err = ffl_attr_before(attr, home, len);
	if (!err)
		err = step->way == FFL_WAY_WINDOW ?
			      ffl_window_in(&s) :
			      ffl_window_file_in(&s, step->way == FFL_WAY_ALONE);
	if (err)
		ffl_regions_unplace(a->ctx, home, len);
	else
		ffl_attr_after(attr, (void *)va, len);
	return err;
}

/* What smaps tells of [va, end), where it is worth a look. 0 or -errno, and the pages are copied. */
static int look_at_attr(const struct apply *a, uintptr_t va, uintptr_t end, struct ffl_attr *attr)
{
	int err = ffl_attr_get(va, end, plan.ask.when == FFL_NOW, attr);

	if (err) {
		ffl_plan_copy(&plan, ffl_plan_why_attr(err), va, end);
		if (a->lazy)
			a->lazy->never = true;
	}
	return err;
}

/* Replace a step's pages, window by window. */
static void apply_fresh(struct apply *a, const struct ffl_step *s)
{
	struct ffl_lazy *lazy = a->lazy;
	struct ffl_place place = { .span = s->end - s->va };
	struct ffl_attr attr = { 0 }; /* what most memory has */
	bool looked = false;	      /* attr is what smaps tells */
	uintptr_t va = s->va;
	int err = 0, uffd = -1;

	if ((lazy && lazy->never) || !is_still(a, s)) {
		ffl_plan_copy(&plan, lazy && lazy->never ? FF_WHY_ATTRIBUTE : FF_WHY_CHANGED, va,
			      s->end);
		return;
	}
	if (lazy)
		attr = lazy->attr;
	if (s->way != FFL_WAY_WINDOW && look_at_attr(a, va, s->end, &attr))
		return;
	if (lazy && lazy->placed)
		place = (struct ffl_place){ .off = lazy->off + (va - lazy->from) };
	else if (lazy)
		place.span = lazy->to - lazy->from;
	while (va < s->end) {
		size_t len = s->end - va < FFL_WINDOW_MAX ? s->end - va : FFL_WINDOW_MAX;
		struct ffl_place at = place;

		if (lazy && !lazy->placed)
			at.off = va - lazy->from; /* in the region */
		err = replace(a, s, &attr, va, len, &at);
		if (err == -EEXIST && !lazy && a->ctx->heat && uffd < 0) {
			/* it may be tracked for an MR that has gone, or that it was moved away from */
			uffd = ffl_track_close(a->ctx, s->va, s->end);
			if (uffd >= 0)
				continue;
		}
		if ((err == -ESTALE || err == -EEXIST) && !looked) {
			looked = true;
			if (look_at_attr(a, va, s->end, &attr))
				break;
			continue;
		}
		if (err) { /* pinned; too many mappings; or not there any more */
			ffl_plan_copy(&plan, ffl_plan_why_window(err), va, s->end);
			break;
		}
		looked = false;
		place = at;
		if (lazy) {
			lazy->off = place.off - (va - lazy->from);
			lazy->placed = true;
			lazy->attr = attr;
		}
		ffl_apply_append(a->run, &a->num,
				 &(struct ff_mr_run){ va, len, place.off, 0, FF_RUN_SHADOW });
		place.off += len;
		va += len;
	}
	if (uffd >= 0) {
		ffl_track_open(a->ctx, s->va, s->end, uffd);
		close(uffd);
	}
	if (lazy && err == -EBUSY)
		lazy->busy = true;
}

/* The number of runs or -errno, of plan.ask. */
static int apply(struct apply *a)
{
	const struct ffl_ask *ask = &plan.ask;
	int err;

	ffl_plan_begin(&plan);
	a->maps = ffl_regions_maps();
	if (a->maps < 0) /* no /proc: holes can be told by this, and nothing else can */
		err = ask->is_on_demand					   ? a->maps :
		      msync((void *)ask->va, ask->end - ask->va, MS_ASYNC) ? -EFAULT :
									     0;
	else
		err = look(a);
	for (unsigned i = 0; !err && i < plan.num; i++)
		if (plan.step[i].way == FFL_WAY_OWN || plan.step[i].way == FFL_WAY_SHARED)
			apply_shared(a, &plan.step[i]);
		else
			apply_fresh(a, &plan.step[i]);
	return err ? err : (int)a->num;
}

int ffl_apply_mr(struct ffl_context *ctx, uintptr_t addr, size_t len, int access,
		 enum ffl_when when, enum ff_why *why, uint64_t *unused, struct ff_mr_run *run)
{
	bool on_demand = access & IBV_ACCESS_ON_DEMAND, all = ctx->whole_pages || on_demand;
	uintptr_t va = PAGE_DOWN(addr), end = PAGE_UP(addr + len);
	struct apply a = { .ctx = ctx, .run = run };
	int num;

	plan.ask = (struct ffl_ask){
		.va = va,
		.end = end,
		.from = all ? va : PAGE_UP(addr),
		.to = all ? end : PAGE_DOWN(addr + len),
		.max = FF_MR_MAX_RUNS,
		.when = when,
		.write = access & IBV_ACCESS_LOCAL_WRITE,
		.is_on_demand = on_demand,
		.only_own = on_demand,
		.whole = ctx->whole_pages,
		.can_replace = ffl_regions_can_replace(ctx),
	};
	num = apply(&a);
	*why = ffl_plan_why_most(plan.copied);
	*unused = plan.copied[FF_WHY_UNUSED];
	return num;
}

int ffl_apply_part(struct ffl_lazy *lazy, uintptr_t from, uintptr_t to, struct ff_mr_run *run,
		   unsigned max)
{
	struct ffl_context *ctx = lazy->mr->ctx;
	struct apply a = { .ctx = ctx, .run = run, .lazy = lazy };
	int num;

	plan.ask = (struct ffl_ask){
		.va = from,
		.end = to,
		.from = from,
		.to = to,
		.max = max,
		.write = lazy->mr->access & IBV_ACCESS_LOCAL_WRITE,
		.only_own = true,
		.whole = ctx->whole_pages,
		.can_replace = ffl_regions_can_replace(ctx),
	};
	num = apply(&a);
	lazy->why = ffl_plan_why_most(plan.copied);
	return num;
}
