/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * pages.c - the file of a session's shadow pages, and its regions, to which MRs refer. Control
 * thread, but for what pages_int.h says. The theory of operation is in watch.c.
 *
 * Tests: test_watch.c
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "ffr/mem/pages_int.h"

void pages_make_dirty(struct pages *w)
{
	if (!w->is_dirty)
		eventfd_write(w->wake, 1);
	w->is_dirty = true;
}

void pages_region_unref(struct pages *w, struct region *r)
{
	if (--r->refs)
		return;
	if (w->ended)
		munmap(r->map, r->span);
	else if (r->is_dirty)
		pages_make_dirty(w);
}

void pages_unref(struct pages *w)
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

/* A userfaultfd, and none that blocks? What else it can do is its client's affair. */
static bool is_uffd(int fd)
{
	struct uffdio_range none = { 0, 0 };
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && flags & O_NONBLOCK && ioctl(fd, UFFDIO_WAKE, &none) && errno == EINVAL;
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
		err = watch_start(w);
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
		      (off_t)pages_region_base(w, r));
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
		pages_make_dirty(w);
	*off = req->off;
	if (req->span) {
		r = region_new(s, w, req->span, limit, &err);
		if (r)
			*off += pages_region_base(w, r);
	} else if (req->len) {
		r = pages_region_of(w, req->off);
		if (!r || !r->is_used || r->is_over || last > pages_region_base(w, r) + r->span)
			err = -EINVAL;
		else if (r->is_tidied)
			err = -EAGAIN;
	} else {
		pages_make_dirty(w);
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
	struct region *r = w ? pages_region_of(w, off) : NULL;
	uint64_t at;

	if (!r)
		return NULL;
	at = off - pages_region_base(w, r);
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
	pages_region_unref(w, r);
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
	pages_make_dirty(w);
	pthread_mutex_unlock(&w->lock);
	s->mem.pages = NULL;
	quota_return(s->cont, QUOTA_FD, PAGES_FDS);
	quota_return(s->cont, QUOTA_MEMORY, PAGES_MEMORY);
	pages_unref(w);
}
