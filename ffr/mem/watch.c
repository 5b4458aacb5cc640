/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * watch.c - the file of a session's shadow pages, and what the program does to its mappings of
 * them. A thread for each session that has such a file; control thread: pages_*().
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
 * after a while the pagemap tells which others have none: these are punched.
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
 * The session may end before the process does, which goes on having its memory. So does this
 * thread, until the process's memory is gone. The router's death ends it: then the kernel tells
 * nobody any more, and what the program drops of such memory stays as it is.
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
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>
#include <uv.h>

#include "ffr/abi/ff_vma.h"
#include "ffr/lib/log.h"
#include "ffr/lib/sandbox.h"
#include "ffr/mem/fallible.h"
#include "ffr/mem/watch.h"

#ifndef UFFDIO_CONTINUE
#define UFFD_PAGEFAULT_FLAG_MINOR (1 << 2)
#define UFFDIO_CONTINUE		  _IOWR(UFFDIO, 0x07, struct uffdio_continue)
struct uffdio_continue {
	struct uffdio_range range;
	__u64 mode;
	__s64 mapped;
};
#endif

#define PENDING_MAX  1024u /* faults that wait for an event to end */
#define AHEAD_MAX    512u  /* pages that one fault is answered with, of a row of them */
#define REMOVED_MAX  1024u
#define REMOVED_AGE  100u	  /* looks at pages that were moved since */
#define ENTRIES	     512u	  /* of the pagemap, read at once */
#define PM_HAS	     (3ull << 62) /* ... which is there, or swapped out */
#define SCAN_MS	     10		  /* between two looks at all mappings */
#define GONE_LOOK_MS 1000 /* between two looks whether the process is gone, after its session */
#define RETRY_MS     1
#define STACK	     ((size_t)256 << 10)
#define PAGES_MEMORY (sizeof(struct pages) + STACK / 4) /* what is used of the stack */

/* [va, va + len) was told of as removed; it was the file from `off` then. The thread's. */
struct removed {
	uint64_t va, len, off;
	uint32_t age; /* how often it was looked at */
};

struct fault {
	uint64_t va;
	bool is_minor;
};

struct pages {
	pthread_mutex_t lock;	/* its holder waits for nothing */
	uint32_t refs;		/* the session, and the thread */
	bool ended;		/* the session has: there are no MRs, and nothing is mapped here */
	bool is_dirty;		/* the file may have pages that are mapped nowhere */
	struct region *placing; /* what PLACE_PAGES was last called for, and may not be mapped yet, */
	uint64_t placing_off;	/* ... from there in the file */
	uint64_t places;	/* calls of PLACE_PAGES so far */
	int uffd, file, wake, mem, maps, pagemap;
	uint64_t inode; /* of the file */
	uint32_t dev_major, dev_minor;
	struct region region[REGIONS_MAX];

	/* the thread's alone */
	struct fault pending[PENDING_MAX];
	uint32_t num_pending;
	uint64_t next_va; /* of a row of faults */
	uint32_t ahead;
	struct removed removed[REMOVED_MAX];
	uint32_t num_removed;
	struct part *part; /* of the file, that are mapped */
	uint32_t num_parts, max_parts;
	bool parts_miss; /* there was no memory for all of them */
};

/* [from, to) of the file. */
struct part {
	uint64_t from, to;
};

static uint64_t region_base(const struct pages *w, const struct region *r)
{
	return (uint64_t)(r - w->region) * FF_PAGES_STRIDE;
}

static struct region *region_of(struct pages *w, uint64_t off)
{
	uint64_t i = off / FF_PAGES_STRIDE;

	return i < REGIONS_MAX ? &w->region[i] : NULL;
}

/* ---- what is mapped: the thread ---------------------------------------------------------- */

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

/* Is an event under way, or one that was not read yet? */
static bool is_changing(const struct pages *w)
{
	struct uffdio_zeropage z = { .range = { 0, FF_PAGE } };

	return ioctl(w->uffd, UFFDIO_ZEROPAGE, &z) && errno == EAGAIN;
}

static bool add_part(void *arg, const struct ff_vma *v)
{
	struct pages *w = arg;
	uint32_t max = w->max_parts ? w->max_parts * 2 : 64;
	struct part *p;

	if (!is_mapping(w, v))
		return true;
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
	if (ff_vma_each(w->maps, add_part, w) || w->parts_miss || is_changing(w))
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
	uint64_t from = region_base(w, r), end = from + FF_PAGES_STRIDE;
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
		while (at < w->num_parts && w->part[at].from < region_base(w, r))
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

/* [lock] There may be something to give back. */
static void make_dirty(struct pages *w)
{
	if (!w->is_dirty)
		eventfd_write(w->wake, 1);
	w->is_dirty = true;
}

/* [lock] The last MR may have gone; or, after the session's end, the thread's own reference. */
static void region_unref(struct pages *w, struct region *r)
{
	if (--r->refs)
		return;
	if (w->ended)
		munmap(r->map, r->span);
	else if (r->is_dirty)
		make_dirty(w);
}

/* ---- events: the thread ------------------------------------------------------------------ */

/*
 * Pages of MRs are zeroed, but for those that are not there: the router must not touch these
 * (guard.c), and they read as zeros already. A client that punches holes meanwhile ends its
 * session (sigbus.c), or this, when the session has ended.
 */
static void zero(const struct pages *w, const struct region *r, uint64_t off, uint64_t len)
{
	static const uint8_t zeros[4096]; /* no page is smaller */
	const uint64_t end = off + len, base = region_base(w, r);
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
	uint64_t last = region_base(w, r) + r->span, n = 0;

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
	struct region *r = region_of(w, off);
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
		region_unref(w, r);
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
 * `early`: whoever has removed it may not have got on so far. True: it needs not be looked at
 * again.
 */
static bool settle(struct pages *w, struct removed *r, bool early)
{
	struct ff_vma v;

	if (next_mapping(w, r->va, &v) || v.start > r->va || v.end < r->va + r->len ||
	    v.offset + (r->va - v.start) != r->off)
		return ++r->age > REMOVED_AGE;
	return settle_pages(w, r->va, r->off, r->len) || !early;
}

static void settle_them(struct pages *w, bool early)
{
	uint32_t n = w->num_removed;

	w->num_removed = 0;
	for (uint32_t i = 0; i < n; i++)
		if (!settle(w, &w->removed[i], early))
			w->removed[w->num_removed++] = w->removed[i];
}

/* False: an event is under way, whose caller may still drop entries. */
static bool settle_all(struct pages *w)
{
	if (is_changing(w))
		return false;
	settle_them(w, false);
	return true;
}

/*
 * A program that removes one part after the other has an event under way all the time, but what
 * it removed before has no entries any more. Parts that still have some after so many others are
 * MADV_FREE's.
 */
static void add_removed(struct pages *w, const struct removed *r)
{
	if (w->num_removed == REMOVED_MAX)
		settle_them(w, is_changing(w));
	if (w->num_removed == REMOVED_MAX)
		memmove(w->removed, w->removed + 1, --w->num_removed * sizeof(w->removed[0]));
	w->removed[w->num_removed++] = *r;
}

static void on_remove(struct pages *w, uint64_t at, uint64_t end)
{
	struct uffdio_range wake = { at, end - at };
	struct ff_vma v;

	for (; at < end && !next_mapping(w, at, &v) && v.start < end; at = v.end) {
		uint64_t from = v.start > at ? v.start : at, to = v.end < end ? v.end : end;

		add_removed(w, &(struct removed){ .va = from,
						  .len = to - from,
						  .off = v.offset + (from - v.start) });
	}
	ioctl(w->uffd, UFFDIO_WAKE, &wake);
}

/*
 * The page at `off`, in what was removed, is removed no more: what is written to it from now on
 * stays.
 */
static void cut_removed(struct pages *w, struct removed *m, uint64_t off)
{
	struct removed rest = *m;
	uint64_t n = off - m->off;

	m->len = n;
	rest.va += n + FF_PAGE;
	rest.off += n + FF_PAGE;
	rest.len -= n + FF_PAGE;
	if (!m->len)
		*m = w->removed[--w->num_removed];
	if (rest.len)
		add_removed(w, &rest);
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

	if (!w->num_removed || next_mapping(w, va, &v) || v.start > va)
		return false;
	off = v.offset + (va - v.start);
	r = region_of(w, off);
	for (uint32_t i = 0; r && i < w->num_removed; i++) {
		struct removed *m = &w->removed[i];

		if (off < m->off || off >= m->off + m->len)
			continue;
		pthread_mutex_lock(&w->lock);
		hole = !r->refs;
		pthread_mutex_unlock(&w->lock);
		remove_pages(w, off, FF_PAGE);
		cut_removed(w, m, off);
		return hole;
	}
	return false;
}

/* Pages may be mapped nowhere; of those of an MR it is seen when that goes. */
static void on_unmap(struct pages *w)
{
	pthread_mutex_lock(&w->lock);
	for (uint32_t i = 0; i < REGIONS_MAX; i++)
		w->region[i].is_dirty = w->region[i].is_used;
	make_dirty(w);
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
			make_dirty(w);
		w->placing = NULL;
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
	uint64_t len = w->num_removed ? FF_PAGE : bytes_ahead(w, f.va);

	if (!answer(w, &f, len)) {
		if (w->num_pending < PENDING_MAX)
			w->pending[w->num_pending++] = f;
		else
			ioctl(w->uffd, UFFDIO_WAKE, &wake); /* it comes again */
	}
}

static void on_event(struct pages *w, const struct uffd_msg *m)
{
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
}

static void answer_pending(struct pages *w)
{
	uint32_t n = w->num_pending;

	w->num_pending = 0;
	for (uint32_t i = 0; i < n; i++)
		if (!answer(w, &w->pending[i], FF_PAGE))
			w->pending[w->num_pending++] = w->pending[i];
}

/* Has the process no such memory any more, because it has ended or executed another program? */
static bool is_gone(struct pages *w)
{
	bool ended;
	char c;

	pthread_mutex_lock(&w->lock);
	ended = w->ended;
	pthread_mutex_unlock(&w->lock);
	return ended && !pread(w->mem, &c, 1, 0);
}

static void pages_unref(struct pages *w)
{
	bool last;

	pthread_mutex_lock(&w->lock);
	last = !--w->refs;
	pthread_mutex_unlock(&w->lock);
	if (!last)
		return;
	pthread_mutex_destroy(&w->lock);
	close(w->uffd);
	close(w->file);
	close(w->wake);
	close(w->mem);
	close(w->maps);
	close(w->pagemap);
	free(w->part);
	free(w);
}

/* Others may read it, too, and may have made it one that blocks. */
static bool next_event(const struct pages *w, struct uffd_msg *m)
{
	struct iovec iov = { m, sizeof(*m) };
	ssize_t n = preadv2(w->uffd, &iov, 1, -1, RWF_NOWAIT);

	if (n < 0 && errno != EAGAIN) { /* before Linux 6.10 */
		fcntl(w->uffd, F_SETFL, O_NONBLOCK);
		n = read(w->uffd, m, sizeof(*m));
	}
	return n == sizeof(*m);
}

static uint64_t now_ms(void)
{
	return uv_hrtime() / 1000000;
}

/*
 * ms until there is something to do without an event. `since`: when it became so; 0: it has not.
 */
static int patience(const struct pages *w, uint64_t since)
{
	uint64_t now = now_ms();

	if (w->num_pending)
		return RETRY_MS;
	if (since)
		return now - since < SCAN_MS ? (int)(SCAN_MS - (now - since)) : 0;
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

static void *watch_thread(void *arg)
{
	struct pages *w = arg;
	struct pollfd p[2] = { { .fd = w->uffd, .events = POLLIN },
			       { .fd = w->wake, .events = POLLIN } };
	uint64_t since = 0; /* ms */
	bool dirty = false;
	struct uffd_msg m;
	eventfd_t n;

	(void)sandbox_enter(SANDBOX_PAGES); /* the control thread's holds in any case */
	for (;;) {
		poll(p, 2, patience(w, since));
		if (p[1].revents)
			eventfd_read(w->wake, &n);
		if (p[0].revents & POLLIN && next_event(w, &m))
			on_event(w, &m);
		else if (is_gone(w) || p[0].revents & (POLLERR | POLLNVAL))
			break;
		answer_pending(w);
		dirty |= take_dirty(w);
		if (since && now_ms() - since >= SCAN_MS) {
			if (settle_all(w) && dirty)
				dirty = !tidy(w);
			since = 0;
		}
		if (!since && (dirty || w->num_removed))
			since = now_ms();
	}
	pages_unref(w);
	return NULL;
}

/* ---- the control thread ------------------------------------------------------------------ */

/* A userfaultfd, and none that blocks? What else it can do is its client's affair. */
static bool is_uffd(int fd)
{
	struct uffdio_range none = { 0, 0 };
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && flags & O_NONBLOCK && ioctl(fd, UFFDIO_WAKE, &none) && errno == EINVAL;
}

static int thread_start(struct pages *w)
{
	pthread_attr_t attr;
	pthread_t t;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&t, &attr, watch_thread, w);
	pthread_attr_destroy(&attr);
	return -err;
}

int pages_watch(struct session *s, int uffd, int pagemap, int mem, int file)
{
	struct stat st, maps, pm;
	struct pages *w;
	int err;

	/* the keeper knows that maps is of a procfs, where a client can keep no reader waiting */
	if (!is_uffd(uffd) || fstat(file, &st) || fstat(s->mem.maps_fd, &maps) ||
	    fstat(pagemap, &pm) || pm.st_dev != maps.st_dev || !S_ISREG(pm.st_mode))
		return -EINVAL;
	err = quota_charge(s->cont, QUOTA_MEMORY, PAGES_MEMORY);
	if (err)
		return err;
	w = calloc(1, sizeof(*w));
	if (!w) {
		quota_return(s->cont, QUOTA_MEMORY, PAGES_MEMORY);
		return -ENOMEM;
	}
	pthread_mutex_init(&w->lock, NULL);
	w->refs = 2;
	w->uffd = fcntl(uffd, F_DUPFD_CLOEXEC, 0);
	w->mem = fcntl(mem, F_DUPFD_CLOEXEC, 0);
	w->pagemap = fcntl(pagemap, F_DUPFD_CLOEXEC, 0);
	w->maps = fcntl(s->mem.maps_fd, F_DUPFD_CLOEXEC, 0);
	w->file = fcntl(file, F_DUPFD_CLOEXEC, 0);
	w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	w->inode = st.st_ino;
	w->dev_major = major(st.st_dev);
	w->dev_minor = minor(st.st_dev);
	err = -EMFILE;
	if (w->uffd >= 0 && w->mem >= 0 && w->maps >= 0 && w->pagemap >= 0 && w->file >= 0 &&
	    w->wake >= 0)
		err = thread_start(w);
	if (err) {
		w->refs = 1;
		pages_unref(w);
		quota_return(s->cont, QUOTA_MEMORY, PAGES_MEMORY);
		return err;
	}
	s->mem.pages = w;
	return 0;
}

/* Map a region's part of the file. 0 or -errno. */
static int region_map(struct session *s, struct pages *w, struct region *r)
{
	int err = quota_charge(s->cont, QUOTA_PINNED, r->span);

	if (err)
		return err;
	r->map = mmap(NULL, r->span, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, w->file,
		      (off_t)region_base(w, r));
	if (r->map == MAP_FAILED) {
		err = -errno;
		goto err_quota;
	}
	memory_near(r->map, r->span, s->mem.node);
	err = guard_map(r->map, r->span);
	if (err)
		goto err_unmap;
	r->watch = err = sigbus_watch(r->map, r->span, FF_PAGE, s);
	if (err < 0)
		goto err_unmap;
	return 0;

err_unmap:
	munmap(r->map, r->span);
err_quota:
	quota_return(s->cont, QUOTA_PINNED, r->span);
	return err;
}

/* What is over is unmapped here, and free. */
static void regions_sweep(struct session *s, struct pages *w)
{
	for (uint32_t i = 0; i < REGIONS_MAX; i++) {
		struct region *r = &w->region[i];

		if (!r->is_over)
			continue;
		sigbus_unwatch(r->watch);
		unmap_later(s, r->map, r->span, -1);
		quota_return(s->cont, QUOTA_PINNED, r->span);
		memset(r, 0, sizeof(*r));
	}
}

/* [lock] */
static struct region *region_new(struct session *s, struct pages *w, uint64_t span, uint64_t limit,
				 int *err)
{
	struct region *r = NULL;

	regions_sweep(s, w);
	*err = -ENOSPC;
	for (uint32_t i = 0; i < REGIONS_MAX; i++) {
		if (!w->region[i].is_used) {
			r = r ? r : &w->region[i];
		} else if (w->region[i].span > limit) {
			return NULL;
		} else {
			limit -= w->region[i].span;
		}
	}
	if (!r || span > limit)
		return NULL;
	r->span = span;
	*err = region_map(s, w, r);
	if (*err)
		return NULL;
	r->is_used = true;
	return r;
}

int pages_place(struct session *s, const struct ff_place_pages_req *req, uint64_t limit,
		uint64_t *off, int *uffd)
{
	struct pages *w = s->mem.pages;
	struct region *r = NULL;
	uint64_t last;
	int err = 0;

	if (!w || (req->len | req->span | req->off) % FF_PAGE ||
	    __builtin_add_overflow(req->off, req->len, &last) || req->span >= FF_PAGES_STRIDE / 2 ||
	    (req->span && last > req->span))
		return -EINVAL;
	pthread_mutex_lock(&w->lock);
	if (w->placing && w->placing->is_dirty) /* it is mapped by now, or never will be */
		make_dirty(w);
	*off = req->off;
	if (req->span) {
		r = region_new(s, w, req->span, limit, &err);
		if (r)
			*off += region_base(w, r);
	} else if (req->len) {
		r = region_of(w, req->off);
		if (!r || !r->is_used || r->is_over || last > region_base(w, r) + r->span)
			err = -EINVAL;
		else if (r->is_tidied)
			err = -EAGAIN;
	} else {
		make_dirty(w);
	}
	w->placing = err ? NULL : r;
	w->placing_off = *off;
	if (w->placing)
		w->placing->placed = ++w->places;
	*uffd = w->uffd;
	pthread_mutex_unlock(&w->lock);
	return err;
}

struct region *pages_get(struct session *s, uint64_t off, uint64_t len, uint8_t **host)
{
	struct pages *w = s->mem.pages;
	struct region *r = w ? region_of(w, off) : NULL;
	uint64_t at;

	if (!r)
		return NULL;
	at = off - region_base(w, r);
	pthread_mutex_lock(&w->lock);
	if (!r->is_used || r->is_over || at > r->span || len > r->span - at) {
		r = NULL;
	} else {
		r->refs++;
		*host = r->map + at;
	}
	pthread_mutex_unlock(&w->lock);
	return r;
}

void pages_put(struct session *s, struct region *r)
{
	struct pages *w = s->mem.pages;

	pthread_mutex_lock(&w->lock);
	region_unref(w, r);
	pthread_mutex_unlock(&w->lock);
}

struct region *pages_pending(struct session *s)
{
	struct pages *w = s->mem.pages;

	for (uint32_t i = 0; w && i < REGIONS_MAX; i++)
		if (w->region[i].is_used && w->region[i].populated < w->region[i].populate_to)
			return &w->region[i];
	return NULL;
}

void pages_end(struct session *s)
{
	struct pages *w = s->mem.pages;

	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->ended = true;
	for (uint32_t i = 0; i < REGIONS_MAX; i++) {
		struct region *r = &w->region[i];

		if (!r->is_used)
			continue;
		sigbus_unwatch(r->watch);
		quota_return(s->cont, QUOTA_PINNED, r->span);
		if (!r->refs) /* else the thread does it */
			unmap_later(s, r->map, r->span, -1);
	}
	w->placing = NULL;
	make_dirty(w);
	pthread_mutex_unlock(&w->lock);
	s->mem.pages = NULL;
	quota_return(s->cont, QUOTA_FD, PAGES_FDS);
	quota_return(s->cont, QUOTA_MEMORY, PAGES_MEMORY);
	pages_unref(w);
}
