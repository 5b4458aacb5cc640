/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * watch.c - what a program does to its mappings of a session's shadow pages. A thread for each
 * session that has a file of them. The control thread's part is pages.c.
 *
 * Theory of operation
 * -------------------
 * The library puts mappings of the file in place of a program's private memory
 * (ffl/mem/region.c). To the program they have to behave as private memory. The kernel tells what
 * the program does to them, by a userfaultfd that the library hands over and a thread here reads.
 * A program's thread that unmaps, moves or drops such pages sleeps until the event is read. One
 * that touches a page that is not there sleeps until the fault is answered. So the thread here does
 * nothing else, and waits for nobody.
 *
 *	EVENT_REMOVE	madvise(MADV_DONTNEED) and others, before entries are dropped: what was dropped reads as zeros
 *	EVENT_UNMAP	munmap() and mappings that take the place, afterwards: the pages are given back
 *	EVENT_REMAP	mremap(), afterwards: where a window ends, what was placed is mapped
 *	faults		a hole reads as zeros; a page that is in the file gets its entry
 *
 * An event has addresses only, and what is there may be something else by the time that it is
 * read: threads unmap, map and register at the same addresses, and their events come in any
 * order. So nothing is remembered of what is where, and the kernel is asked (PROCMAP_QUERY). What
 * is removed is what is mapped there now. What was unmapped is what is mapped nowhere: all
 * mappings of the process are gone through, and the gaps between those of the file are punched.
 * That holds if no mapping was moved meanwhile: UFFDIO calls fail with EAGAIN from before a
 * mapping is moved until its event was read. Where they do, it is gone through once more later.
 * Between that and the punching a gap can become mapped by two ways only: by a mapping that
 * grows, whose first access is a fault, which waits for this thread; and by PLACE_PAGES, with
 * which the library says before it maps a part of the file: its region is left out until it is
 * mapped.
 *
 * EVENT_REMOVE comes before the entries are dropped, and MADV_FREE, which is refused for shared
 * memory, raises it without dropping any: what is written there afterwards must not be lost. So
 * the pages stay at first. One that is faulted on has no entry any more, and is zeroed then; and
 * after a while the pagemap tells which others have none: these are punched. For REMOVED_MS at
 * least: whoever drops them may wait for the lock of its address space, or for a CPU.
 *
 * The file is divided in regions, FF_PAGES_STRIDE apart, each of which is one mapping in the
 * program to begin with, and one here. MRs refer to regions. While one does, the pages stay: what
 * is removed is zeroed where it is, for the router must not meet holes (guard.c), and what is
 * unmapped is given back when the last MR goes, since an MR goes on meaning its pages. A region
 * of which nothing is mapped and to which nobody refers has no pages, and is used again: what was
 * in its place before, somebody else may have still, but not this file.
 *
 * Events come one by one: a fault that is answered after a later event of the same pages would be
 * answered with the wrong page. A fault waits for the next event where calls fail with EAGAIN.
 *
 * The session, or the router, may end before the process does, which goes on having its memory.
 * Then a thread of another process goes on here (orphans.c), until nothing of the file is mapped or
 * the process's memory is gone. What the thread has read and not dealt with is in memory that it
 * finds, and is complete after each instruction: an event is written there by the kernel as it is
 * read, is dealt with, and only then is no more; to deal with one twice is the same as once. Where
 * there is no such process (tests, sandbox = off), this thread itself goes on after the session.
 *
 * Everything that comes from there is hostile: the userfaultfd may be something else, others may
 * read it as well, and maps may be of another process. It is about pages of a file that only this
 * client has.
 *
 * Tests: test_watch.c
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>
#include <uv.h>

#include "ffr/abi/ff_vma.h"
#include "ffr/lib/log.h"
#include "ffr/lib/sandbox.h"
#include "ffr/mem/fallible.h"
#include "ffr/mem/pages_int.h"
#include "ffr/mem/uffd.h"

#ifndef UFFDIO_CONTINUE
#define UFFD_PAGEFAULT_FLAG_MINOR (1 << 2)
#define UFFDIO_CONTINUE		  _IOWR(UFFDIO, 0x07, struct uffdio_continue)
struct uffdio_continue {
	struct uffdio_range range;
	__u64 mode;
	__s64 mapped;
};
#endif

#define AHEAD_MAX    512u	  /* pages that one fault is answered with, of a row of them */
#define REMOVED_MS   2000	  /* so long pages that were told of may still be dropped */
#define ENTRIES	     512u	  /* of the pagemap, read at once */
#define PM_HAS	     (3ull << 62) /* the page is there, or swapped out */
#define SCAN_MS	     10		  /* between two looks at all mappings, */
#define LOOK_SHARE   9	  /* a pause is at least so many times as long as the last look took */
#define GONE_LOOK_MS 1000 /* between two looks whether the process is gone, after its session */
#define RETRY_MS     1
#define PARTS_MAX    (1u << 18) /* of a file, mapped: what has more is not given back */

/* [from, to) of the file. */
struct part {
	uint64_t from, to;
};

static uint64_t now_ms(void)
{
	return uv_hrtime() / 1000000;
}

/* ---- what is mapped ---------------------------------------------------------------------- */

static bool is_mapping(const struct pages *w, const struct ff_vma *v)
{
	return v->flags & FF_VMA_SHARED && v->inode == w->inode && v->dev_major == w->dev_major &&
	       v->dev_minor == w->dev_minor;
}

/*
 * The first mapping of the file that ends above `at`. 0; -ENOENT: there is none; -errno: it
 * cannot be found out.
 */
static int next_mapping(const struct pages *w, uint64_t at, struct ff_vma *v)
{
	int err;

	for (; !(err = ff_vma_query(w->maps, at, v)); at = v->end) {
		if (v->end <= at) /* another process's file says so */
			return -EPROTO;
		if (is_mapping(w, v))
			return 0;
	}
	return err;
}

static bool add_part(void *arg, const struct ff_vma *v)
{
	struct pages *w = arg;
	uint32_t max = w->max_parts ? w->max_parts * 2 : 64;
	struct part *p;

	if (!is_mapping(w, v))
		return true;
	if (w->num_parts == PARTS_MAX) {
		w->parts_miss = true;
		return false;
	}
	if (w->num_parts == w->max_parts) {
		p = realloc(w->part, max * sizeof(*p));
		w->parts_miss = !p;
		if (!p)
			return false;
		w->part = p;
		w->max_parts = max;
	}
	w->part[w->num_parts++] = (struct part){ v->offset, v->offset + (v->end - v->start) };
	return true;
}

static int by_offset(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	return x->from < y->from ? -1 : x->from > y->from;
}

/* All parts of the file that are mapped, in order. False: it cannot be told now. */
static bool find_parts(struct pages *w)
{
	w->num_parts = 0;
	w->parts_miss = false;
	if (ff_vma_each(w->maps, add_part, w) || w->parts_miss || uffd_is_changing(w->uffd))
		return false;
	if (w->num_parts)
		qsort(w->part, w->num_parts, sizeof(w->part[0]), by_offset);
	return true;
}

static void punch(const struct pages *w, uint64_t off, uint64_t len)
{
	if (len &&
	    fallocate(w->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off, (off_t)len))
		log_debug("pages that a client gave up stay: %m");
}

/*
 * Give back what of the region is not mapped; *at is the first part that may be its. True: none
 * of it is.
 */
static bool punch_gaps(const struct pages *w, const struct region *r, uint32_t *at)
{
	uint64_t from = pages_region_base(w, r), end = from + FF_PAGES_STRIDE;
	bool none = true;

	for (; *at < w->num_parts && w->part[*at].from < end; ++*at) {
		const struct part *p = &w->part[*at];

		if (p->from > from)
			punch(w, from, p->from - from);
		if (p->to > from)
			from = p->to;
		none = false;
	}
	if (from < end)
		punch(w, from, end - from);
	return none;
}

/* Give back all pages that are mapped nowhere and no MR's. False: later. */
static bool tidy(struct pages *w)
{
	const struct region *placing;
	uint64_t places;
	uint32_t at = 0;

	pthread_mutex_lock(&w->lock);
	placing = w->placing;
	places = w->places;
	pthread_mutex_unlock(&w->lock);
	if (!find_parts(w))
		return false;
	for (uint32_t i = 0; i < REGIONS_MAX; i++) {
		struct region *r = &w->region[i];
		bool none, go;

		pthread_mutex_lock(&w->lock);
		/* none that was, or is, being mapped since all mappings were gone through */
		go = r->is_used && !r->is_over && !r->refs && r != placing && r->placed <= places;
		if (go) {
			r->is_tidied = true;
			r->is_dirty = false;
		}
		pthread_mutex_unlock(&w->lock);
		while (at < w->num_parts && w->part[at].from < pages_region_base(w, r))
			at++;
		if (!go)
			continue;
		none = punch_gaps(w, r, &at);
		pthread_mutex_lock(&w->lock);
		r->is_tidied = false;
		r->is_over = none && !r->refs;
		r->is_dirty |= none && r->refs;
		pthread_mutex_unlock(&w->lock);
	}
	free(w->part);
	w->part = NULL;
	w->max_parts = 0;
	return true;
}

/* ---- events ------------------------------------------------------------------------------ */

/*
 * Pages of MRs are zeroed, but for those that are not there: the router must not touch these
 * (guard.c), and they read as zeros already. A client that punches holes meanwhile ends its
 * session (sigbus.c), or this, when the session has ended.
 */
static void zero(const struct pages *w, const struct region *r, uint64_t off, uint64_t len)
{
	static const uint8_t zeros[4096]; /* no page is smaller */
	const uint64_t end = off + len, base = pages_region_base(w, r);
	off_t from, to;

	for (; off < end; off = (uint64_t)to) {
		from = lseek(w->file, (off_t)off, SEEK_DATA);
		to = from < 0 ? -1 : lseek(w->file, from, SEEK_HOLE);
		if (to < 0 || (uint64_t)from >= end)
			return;
		if ((uint64_t)to > end)
			to = (off_t)end;
		for (off = (uint64_t)from & ~(uint64_t)(FF_PAGE - 1); off < (uint64_t)to;
		     off += sizeof(zeros))
			if (fallible_bytes(r->map + (off - base), zeros, sizeof(zeros)))
				return;
	}
}

/*
 * Of a region to which MRs refer. What lies behind its span, where the mapping has grown, is no
 * MR's.
 */
static void zero_or_punch(const struct pages *w, const struct region *r, uint64_t off, uint64_t len)
{
	uint64_t last = pages_region_base(w, r) + r->span, n = 0;

	if (off < last) {
		n = len < last - off ? len : last - off;
		zero(w, r, off, n);
	}
	punch(w, off + n, len - n);
}

/*
 * Pages without an entry in the process. An MR that comes meanwhile has none of them: the library
 * makes the pages of one present first, which would be a fault for this thread.
 */
static void remove_pages(struct pages *w, uint64_t off, uint64_t len)
{
	struct region *r = pages_region_of(w, off);
	bool in_use;

	if (!r)
		return;
	pthread_mutex_lock(&w->lock);
	in_use = r->refs;
	r->refs += in_use;
	pthread_mutex_unlock(&w->lock);
	if (in_use)
		zero_or_punch(w, r, off, len);
	else
		punch(w, off, len);
	pthread_mutex_lock(&w->lock);
	if (in_use)
		pages_region_unref(w, r);
	pthread_mutex_unlock(&w->lock);
}

/*
 * Of these pages, which were removed, those that have no entry in the process are zeros from now
 * on. True: all of them.
 */
static bool settle_pages(struct pages *w, uint64_t va, uint64_t off, uint64_t len)
{
	uint64_t e[ENTRIES], n = 0, run = 0;
	bool all = true;

	for (uint64_t i = 0; i < len / FF_PAGE; i++) {
		if (i % ENTRIES == 0) {
			ssize_t got =
				pread(w->pagemap, e, sizeof(e), (off_t)((va / FF_PAGE + i) * 8));

			n = got > 0 ? (uint64_t)got / 8 : 0;
		}
		if (i % ENTRIES < n && !(e[i % ENTRIES] & PM_HAS)) {
			run++;
			continue;
		}
		all = false;
		if (run)
			remove_pages(w, off + (i - run) * FF_PAGE, run * FF_PAGE);
		run = 0;
	}
	if (run)
		remove_pages(w, off + len - run * FF_PAGE, run * FF_PAGE);
	return all;
}

/*
 * True: it needs not be looked at again. Whoever has removed it may have been kept from getting on
 * since, by others on its CPU. Only after REMOVED_MS it is known that nothing is dropped any more.
 */
static bool settle(struct pages *w, const struct removed *r)
{
	struct ff_vma v;

	if (next_mapping(w, r->va, &v) || v.start > r->va || v.end < r->va + r->len ||
	    v.offset + (r->va - v.start) != r->off || !settle_pages(w, r->va, r->off, r->len))
		return now_ms() - r->told > REMOVED_MS;
	return true;
}

/*
 * The list of what was removed is replaced as a whole, so that a router that dies leaves the old one
 * or the new one.
 */
static struct removed_list *removed_now(const struct pages *w)
{
	return &w->log->removed[w->log->at & 1];
}

static struct removed_list *removed_next(const struct pages *w)
{
	struct removed_list *next = &w->log->removed[~w->log->at & 1];

	next->num = 0;
	return next;
}

static void removed_replace(struct pages *w)
{
	atomic_fetch_xor(&w->log->at, 1);
}

/* The oldest one goes where there is no room. */
static void removed_push(struct removed_list *l, const struct removed *r)
{
	if (!r->len)
		return;
	if (l->num == PAGES_REMOVED_MAX)
		memmove(l->r, l->r + 1, --l->num * sizeof(l->r[0]));
	l->r[l->num++] = *r;
}

static void settle_them(struct pages *w)
{
	struct removed_list *l = removed_now(w), *next = removed_next(w);

	for (uint32_t i = 0; i < l->num; i++)
		if (!settle(w, &l->r[i]))
			removed_push(next, &l->r[i]);
	removed_replace(w);
}

/* What has no entries any more makes room for others. */
static void add_removed(struct pages *w, const struct removed *r)
{
	struct removed_list *l = removed_now(w);

	if (l->num == PAGES_REMOVED_MAX) {
		settle_them(w);
		l = removed_now(w);
	}
	if (l->num == PAGES_REMOVED_MAX) {
		struct removed_list *next = removed_next(w);

		for (uint32_t i = 1; i < l->num; i++)
			removed_push(next, &l->r[i]);
		removed_replace(w);
		l = next;
	}
	l->r[l->num] = *r;
	atomic_signal_fence(memory_order_seq_cst); /* it is there before it counts */
	l->num++;
}

static void on_remove(struct pages *w, uint64_t at, uint64_t end)
{
	struct uffdio_range wake = { at, end - at };
	struct ff_vma v;

	for (; at < end && !next_mapping(w, at, &v) && v.start < end; at = v.end) {
		uint64_t from = v.start > at ? v.start : at, to = v.end < end ? v.end : end;

		add_removed(w, &(struct removed){ .va = from,
						  .len = to - from,
						  .off = v.offset + (from - v.start),
						  .told = now_ms() });
	}
	ioctl(w->uffd, UFFDIO_WAKE, &wake);
}

/*
 * The page at `off` is removed no more: what is written to it from now on stays. It may have been
 * told of several times.
 */
static void cut_removed(struct pages *w, uint64_t off)
{
	const struct removed_list *l = removed_now(w);
	struct removed_list *next = removed_next(w);

	for (uint32_t i = 0; i < l->num; i++) {
		struct removed before = l->r[i], behind = before;
		uint64_t n = off - before.off;

		if (off < before.off || n >= before.len) {
			removed_push(next, &before);
			continue;
		}
		before.len = n;
		behind.va += n + FF_PAGE;
		behind.off += n + FF_PAGE;
		behind.len -= n + FF_PAGE;
		removed_push(next, &before);
		removed_push(next, &behind);
	}
	removed_replace(w);
}

static bool is_removed(const struct pages *w, uint64_t off)
{
	const struct removed_list *l = removed_now(w);

	for (uint32_t i = 0; i < l->num; i++)
		if (off >= l->r[i].off && off - l->r[i].off < l->r[i].len)
			return true;
	return false;
}

/*
 * A page without an entry: if it was removed, it is zeros from now on. True: the fault is one on
 * a hole now.
 */
static bool was_removed(struct pages *w, uint64_t va)
{
	const struct region *r;
	struct ff_vma v;
	uint64_t off;
	bool hole;

	if (!removed_now(w)->num || next_mapping(w, va, &v) || v.start > va)
		return false;
	off = v.offset + (va - v.start);
	r = pages_region_of(w, off);
	if (!r || !is_removed(w, off))
		return false;
	pthread_mutex_lock(&w->lock);
	hole = !r->refs;
	pthread_mutex_unlock(&w->lock);
	remove_pages(w, off, FF_PAGE);
	cut_removed(w, off);
	return hole;
}

/* Pages may be mapped nowhere; of those of an MR it is seen when that goes. */
static void on_unmap(struct pages *w)
{
	pthread_mutex_lock(&w->lock);
	for (uint32_t i = 0; i < REGIONS_MAX; i++)
		w->region[i].is_dirty = w->region[i].is_used;
	pages_make_dirty(w);
	pthread_mutex_unlock(&w->lock);
}

/*
 * The end of a window: what was placed is mapped now, and given back like all else when it is
 * unmapped.
 */
static void on_remap(struct pages *w, uint64_t to)
{
	struct ff_vma v;

	if (next_mapping(w, to, &v) || v.start > to)
		return;
	pthread_mutex_lock(&w->lock);
	if (w->placing && w->placing_off == v.offset + (to - v.start)) {
		if (w->placing->is_dirty)
			pages_make_dirty(w);
		pages_set_placing(w, NULL, 0);
	}
	pthread_mutex_unlock(&w->lock);
}

/* Bytes that a fault at va is answered with: of a row of faults more and more. */
static uint64_t bytes_ahead(struct pages *w, uint64_t va)
{
	uint64_t len = FF_PAGE;
	struct ff_vma v;

	if (va != w->next_va)
		w->ahead = 1;
	else if (w->ahead < AHEAD_MAX)
		w->ahead *= 2;
	if (w->ahead > 1 && !next_mapping(w, va, &v) && v.start <= va)
		len = v.end - va < w->ahead * FF_PAGE ? v.end - va : w->ahead * FF_PAGE;
	w->next_va = va + len;
	return len;
}

static int give_entries(const struct pages *w, uint64_t va, uint64_t len)
{
	struct uffdio_continue c = { .range = { va, len } };

	return ioctl(w->uffd, UFFDIO_CONTINUE, &c) && c.mapped <= 0 ? -errno : 0;
}

static int give_zeros(const struct pages *w, uint64_t va, uint64_t len)
{
	struct uffdio_zeropage z = { .range = { va, len } };

	return ioctl(w->uffd, UFFDIO_ZEROPAGE, &z) && z.zeropage <= 0 ? -errno : 0;
}

/* False: an event is under way. */
static bool answer(struct pages *w, const struct fault *f, uint64_t len)
{
	struct uffdio_range wake = { f->va, len };
	bool hole = was_removed(w, f->va), minor = f->is_minor && !hole;
	int err = minor ? give_entries(w, f->va, len) : give_zeros(w, f->va, len);

	if (err == -EFAULT && minor) /* a hole was punched meanwhile */
		err = give_zeros(w, f->va, FF_PAGE);
	if (err == -EAGAIN)
		return false;
	if (err) /* there already, in part or all; or gone: who faulted finds out */
		ioctl(w->uffd, UFFDIO_WAKE, &wake);
	return true;
}

static void on_fault(struct pages *w, const struct uffd_msg *m)
{
	struct fault f = {
		.va = m->arg.pagefault.address & ~(uint64_t)(FF_PAGE - 1),
		.is_minor = m->arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_MINOR,
	};
	struct uffdio_range wake = { f.va, FF_PAGE };
	/* those next to it may have been removed, too */
	uint64_t len = removed_now(w)->num ? FF_PAGE : bytes_ahead(w, f.va);
	struct watch_log *log = w->log;

	if (answer(w, &f, len))
		return;
	if (log->num_pending == PAGES_PENDING_MAX) {
		ioctl(w->uffd, UFFDIO_WAKE, &wake); /* it comes again */
		return;
	}
	log->pending[log->num_pending] = f;
	atomic_signal_fence(memory_order_seq_cst); /* it is there before it counts */
	log->num_pending++;
}

/* Deal with the event that was read, if there is one. To do so twice is the same as once. */
static void on_event(struct pages *w)
{
	const struct uffd_msg *m = &w->log->now;

	switch (m->event) {
	case UFFD_EVENT_PAGEFAULT:
		on_fault(w, m);
		break;
	case UFFD_EVENT_REMOVE:
		on_remove(w, m->arg.remove.start, m->arg.remove.end);
		break;
	case UFFD_EVENT_UNMAP:
		on_unmap(w);
		break;
	case UFFD_EVENT_REMAP:
		on_remap(w, m->arg.remap.to);
		break;
	default:
		break;
	}
	atomic_signal_fence(memory_order_seq_cst); /* what came of it is there before it is gone */
	w->log->now.event = 0;
}

/* Those that have to wait on move forward; none is missing meanwhile. */
static void answer_pending(struct pages *w)
{
	struct watch_log *log = w->log;
	uint32_t n = 0;

	for (uint32_t i = 0; i < log->num_pending; i++)
		if (!answer(w, &log->pending[i], FF_PAGE))
			log->pending[n++] = log->pending[i];
	atomic_signal_fence(memory_order_seq_cst);
	log->num_pending = n;
}

static bool has_ended(struct pages *w)
{
	bool ended;

	pthread_mutex_lock(&w->lock);
	ended = w->ended;
	pthread_mutex_unlock(&w->lock);
	return ended;
}

/* Has the process no such memory any more, because it has ended or executed another program? */
static bool is_gone(struct pages *w)
{
	char c;

	return has_ended(w) && !pread(w->mem, &c, 1, 0);
}

/* Has the process nothing of the file that was just looked for, and nothing to map? */
static bool is_unmapped(struct pages *w)
{
	bool none;

	pthread_mutex_lock(&w->lock);
	none = w->ended && !w->placing && !w->num_parts;
	pthread_mutex_unlock(&w->lock);
	return none;
}

/*
 * An event, to w->log. What the kernel says has been read is there, whatever becomes of this
 * process then: the page was just written to. Others may read it, too, and may have made it one
 * that blocks.
 */
static bool next_event(const struct pages *w)
{
	return uffd_next(w->uffd, &w->log->now);
}

/*
 * ms until there is something to do without an event. `since`: when it became so; 0: it has not.
 * `pause`: ms between two looks.
 */
static int patience(const struct pages *w, uint64_t since, uint64_t pause)
{
	uint64_t now = now_ms();

	if (w->log->num_pending)
		return RETRY_MS;
	if (since)
		return now - since < pause ? (int)(pause - (now - since)) : 0;
	return GONE_LOOK_MS;
}

static bool take_dirty(struct pages *w)
{
	bool was;

	pthread_mutex_lock(&w->lock);
	was = w->is_dirty;
	w->is_dirty = false;
	pthread_mutex_unlock(&w->lock);
	return was;
}

static void count_idle(struct pages *w)
{
	pthread_mutex_lock(&w->lock);
	w->idle++;
	pthread_mutex_unlock(&w->lock);
}

/* Settle what was removed, and give back what is unmapped. True: nothing is left to watch. */
static bool look(struct pages *w, bool *dirty)
{
	settle_them(w);
	if (!*dirty || !tidy(w))
		return false;
	*dirty = false;
	return is_unmapped(w);
}

void watch_run(struct pages *w)
{
	struct pollfd p[2] = { { .fd = w->uffd, .events = POLLIN },
			       { .fd = w->wake, .events = POLLIN } };
	uint64_t since = 0, pause = SCAN_MS; /* ms */
	bool dirty = false;
	eventfd_t n;

	on_event(w); /* the last one of who was here before */
	while (w->heir < 0 || !has_ended(w)) {
		poll(p, 2, patience(w, since, pause));
		if (p[1].revents)
			eventfd_read(w->wake, &n);
		if (p[0].revents & POLLIN && next_event(w))
			on_event(w);
		else if (is_gone(w) || p[0].revents & (POLLERR | POLLNVAL))
			break;
		answer_pending(w);
		if (!(p[0].revents & POLLIN) && !w->log->num_pending)
			count_idle(w);
		dirty |= take_dirty(w);
		if (since && now_ms() - since >= pause) {
			since = now_ms();
			if (look(w, &dirty))
				break;
			pause = SCAN_MS + LOOK_SHARE * (now_ms() - since);
			since = 0;
		}
		if (!since && (dirty || removed_now(w)->num))
			since = now_ms();
	}
}

static void *watch_thread(void *arg)
{
	(void)sandbox_enter(SANDBOX_PAGES); /* the control thread's holds in any case */
	watch_run(arg);
	pages_unref(arg);
	return NULL;
}

int watch_start(struct pages *w)
{
	pthread_attr_t attr;
	pthread_t t;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, PAGES_STACK);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&t, &attr, watch_thread, w);
	pthread_attr_destroy(&attr);
	return -err;
}
