/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * plan.c - how the router is to reach the pages of an MR: which become shadow pages, which are shared
 * already, which are copied and why. Pure functions of their arguments: no lock, no system call. apply.c
 * finds out what is mapped, has it planned here, and carries the plan out.
 *
 * What the rules are
 * ------------------
 * Shared memory is a run as it is. Plain memory, private and anonymous, can be replaced under running
 * threads (window.c). By default only pages are that lie in an MR as a whole: the router reaches the others
 * through the process as well. A NIC cannot. So where the router has one, the pages are replaced on which an
 * MR shares the heap or the program's variables with others (ffl_ask.whole), and besides:
 *
 *	memory that may only be read		by a window like other
 *	a private mapping of a file that	is a copy from then on: what others write to the file is no longer
 *	 may only be read			seen, which nobody may count on
 *	a private mapping of a file that	while the process has one thread; the program's initialized variables
 *	 may be written, or was			are such, and small ones without a value that share their last page
 *
 * What stays in any case:
 *
 *	stacks		A child begins with a hole where shadow pages were, and is not to begin on that. A waiter on a
 *			shared futex in a replaced page would never be woken, and pthread_join() is one.
 *	thread-local memory with the threads' control blocks, for the same reasons; and because a window needs errno
 *	code, and what can be executed; huge pages (hugetlbfs); what the kernel shows (vvar)
 *	a file's mapping of which not all pages can be had: beyond its end
 *
 * Whether a device has a page, what attributes a mapping has, and whether another userfaultfd watches it is not
 * known when a plan is made. It takes long to find out, and could be different a moment later, so window.c finds
 * out while nobody can reach the pages. What does not become a run then is copied, too.
 */
#include <errno.h>
#include <string.h>
#include <sys/param.h>

#include "ffl/mem/plan.h"

void ffl_plan_copy(struct ffl_plan *p, enum ff_why why, uintptr_t va, uintptr_t end)
{
	if (va < end)
		p->copied[why] += end - va;
}

void ffl_plan_begin(struct ffl_plan *p)
{
	p->at = p->ask.va;
	p->num = 0;
	memset(p->copied, 0, sizeof(p->copied));
}

static bool is_of_file(const struct ff_vma *v)
{
	return v->inode || v->dev_major || v->dev_minor;
}

/* What forbids to replace pages of private mapping v, as far as it tells. FF_WHY_NUM: nothing. */
static enum ff_why refusal(const struct ffl_ask *ask, const struct ff_vma *v)
{
	if (v->page_size != FF_PAGE)
		return FF_WHY_HUGE;
	if ((v->flags & ~FF_VMA_WRITE) != FF_VMA_READ)
		return FF_WHY_RIGHTS;
	if (ask->whole)
		return FF_WHY_NUM;
	return is_of_file(v) ? FF_WHY_FILE : v->flags & FF_VMA_WRITE ? FF_WHY_NUM : FF_WHY_RIGHTS;
}

/*
 * Where the range is all of a mapping, but for some bytes on its first and last page, as memory of
 * malloc() is, these pages are replaced, too: it stays one mapping, which mremap() can move and make
 * larger.
 */
bool ffl_plan_fresh(const struct ffl_plan *p, struct ffl_known *k)
{
	const struct ffl_ask *ask = &p->ask;

	if (k->v.flags & FF_VMA_SHARED)
		return false;
	if (k->v.start == ask->va && k->v.end == ask->end && ask->from < ask->to) {
		k->va = ask->va;
		k->end = ask->end;
	} else {
		k->va = MAX(k->v.start, ask->from);
		k->end = MAX(MIN(k->v.end, ask->to), k->va);
	}
	k->why = refusal(ask, &k->v);
	return k->why == FF_WHY_NUM && k->va < k->end && p->num < ask->max;
}

/* What kind.c, the process, and what is asked for say of pages that may be replaced. */
static enum ff_why objection(const struct ffl_ask *ask, enum ffl_use use)
{
	if (use == FFL_USE_STACK)
		return FF_WHY_STACK;
	if (use == FFL_USE_FILE)
		return FF_WHY_FILE;
	if (!ask->can_replace)
		return FF_WHY_UFFD;
	return ask->when == FFL_LATER ? FF_WHY_UNUSED : FF_WHY_NUM;
}

static void add_step(struct ffl_plan *p, const struct ff_vma *v, enum ffl_way way, uintptr_t va,
		     uintptr_t end)
{
	p->step[p->num++] = (struct ffl_step){ .v = *v, .va = va, .end = end, .way = way };
}

static void add_private(struct ffl_plan *p, const struct ffl_known *k, uintptr_t va, uintptr_t end)
{
	static const enum ffl_way way[] = {
		[FFL_USE_PLAIN] = FFL_WAY_WINDOW,
		[FFL_USE_CLEAN] = FFL_WAY_FILE,
		[FFL_USE_SINGLE] = FFL_WAY_ALONE,
	};
	enum ff_why why = k->why;

	ffl_plan_copy(p, FF_WHY_EDGE, va, MIN(k->va, end));
	ffl_plan_copy(p, FF_WHY_EDGE, MAX(k->end, va), end);
	if (k->va >= k->end)
		return;
	if (why == FF_WHY_NUM)
		why = objection(&p->ask, k->use);
	if (why == FF_WHY_NUM)
		add_step(p, &k->v, way[k->use], k->va, k->end);
	else
		ffl_plan_copy(p, why, k->va, k->end);
}

/* The router does not map files on disks, which have a device number, and is told of them all the same. */
static void add_shared(struct ffl_plan *p, const struct ffl_known *k, uintptr_t va, uintptr_t end)
{
	if (k->is_own) {
		add_step(p, &k->v, FFL_WAY_OWN, va, end);
	} else if (!p->ask.only_own) {
		if (k->v.dev_major)
			ffl_plan_copy(p, FF_WHY_FILE, va, end);
		add_step(p, &k->v, FFL_WAY_SHARED, va, end);
	}
}

int ffl_plan_add(struct ffl_plan *p, const struct ffl_known *k)
{
	uintptr_t va = MAX(k->v.start, p->ask.va), end = MIN(k->v.end, p->ask.end);

	if (!p->ask.is_on_demand &&
	    (va > p->at || !(k->v.flags & (p->ask.write ? FF_VMA_WRITE : FF_VMA_READ))))
		return -EFAULT;
	p->at = end;
	if (p->num >= p->ask.max)
		ffl_plan_copy(p, FF_WHY_PIECES, va, end);
	else if (k->v.flags & FF_VMA_SHARED)
		add_shared(p, k, va, end);
	else
		add_private(p, k, va, end);
	return 0;
}

int ffl_plan_end(struct ffl_plan *p)
{
	return p->at < p->ask.end && !p->ask.is_on_demand ? -EFAULT : 0;
}

/* ---- reasons ----------------------------------------------------------------------------- */

enum ff_why ffl_plan_why_window(int err)
{
	switch (-err) {
	case EAGAIN:
		return FF_WHY_CHANGED;
	case EBUSY:
		return FF_WHY_PINNED;
	case ESTALE:
	case EEXIST:
		return FF_WHY_ATTRIBUTE;
	case ENOSPC:
		return FF_WHY_LIMIT;
	case ENOMEM:
		return FF_WHY_MAPPINGS;
	case EOPNOTSUPP:
		return FF_WHY_UFFD;
	default:
		return FF_WHY_OTHER;
	}
}

enum ff_why ffl_plan_why_attr(int err)
{
	return err == -EAGAIN ? FF_WHY_UNUSED : err == -EXDEV ? FF_WHY_POLICY : FF_WHY_ATTRIBUTE;
}

enum ff_why ffl_plan_why_most(const uint64_t copied[FF_WHY_NUM])
{
	enum ff_why why = FF_WHY_UNUSED;
	uint64_t most = copied[why];

	for (unsigned i = 0; i < FF_WHY_NUM; i++)
		if (copied[i] > most)
			most = copied[why = i];
	return why;
}

const char *ffl_plan_why_text(enum ff_why why)
{
	static const char *const text[] = {
#define X(NAME, name, text) text,
		FF_WHYS(X)
#undef X
	};

	return text[why];
}
