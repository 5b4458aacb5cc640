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

#include "ffr/mem/orphans.h"
#include "ffr/mem/pages_int.h"
#include "ffr/mem/uffd.h"

#define LOG_BYTES ((sizeof(struct watch_log) + FF_PAGE - 1) / FF_PAGE * FF_PAGE)

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

void pages_set_placing(struct pages *w, struct region *r, uint64_t off)
{
	w->placing = r;
	w->placing_off = off;
	w->log->placing_off = off;
	w->log->placing = r ? (uint32_t)(r - w->region) + 1 : 0;
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
	if (w->log)
		munmap(w->log, LOG_BYTES);
	close(w->uffd);
	close(w->file);
	close(w->wake);
	close(w->mem);
	close(w->maps);
	close(w->pagemap);
	close(w->heir);
	free(w->part);
	free(w);
}

/* Without descriptors. */
static struct pages *pages_new(uint32_t refs)
{
	struct pages *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	pthread_mutex_init(&w->lock, NULL);
	w->refs = refs;
	w->uffd = w->file = w->wake = w->mem = w->maps = w->pagemap = w->heir = -1;
	return w;
}

static void set_file(struct pages *w, const struct stat *st)
{
	w->inode = st->st_ino;
	w->dev_major = major(st->st_dev);
	w->dev_minor = minor(st->st_dev);
}

static int log_map(struct pages *w, int fd)
{
	void *p = mmap(NULL, LOG_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	w->log = p;
	return 0;
}

/* Whoever goes on when this process has died, or the session has, gets all that it needs. 0 or -errno. */
static int bequeath(struct pages *w, const struct container *c)
{
	int fd[PAGES_NUM_FDS] = {
		[PAGES_UFFD] = w->uffd, [PAGES_FILE] = w->file,	      [PAGES_MEM] = w->mem,
		[PAGES_MAPS] = w->maps, [PAGES_PAGEMAP] = w->pagemap,
	};
	int err;

	fd[PAGES_LOG] = sealed_memfd("freeflow-watch", LOG_BYTES);
	if (fd[PAGES_LOG] < 0)
		return fd[PAGES_LOG];
	err = log_map(w, fd[PAGES_LOG]);
	if (!err)
		err = orphans_add(c, fd, PAGES_NUM_FDS, &w->heir);
	close(fd[PAGES_LOG]);
	return err;
}

int pages_watch(struct session *s, int uffd, int pagemap, int mem, int file)
{
	struct stat st, maps, pm;
	struct pages *w;
	int err;

	/* the keeper knows that maps is of a procfs, where a client can keep no reader waiting */
	if (!uffd_is_one(uffd) || fstat(file, &st) || fstat(s->mem.maps_fd, &maps) ||
	    fstat(pagemap, &pm) || pm.st_dev != maps.st_dev || !S_ISREG(pm.st_mode))
		return -EINVAL;
	err = quota_charge(s->cont, QUOTA_MEMORY, PAGES_MEMORY);
	if (err)
		return err;
	w = pages_new(2);
	if (!w) {
		quota_return(s->cont, QUOTA_MEMORY, PAGES_MEMORY);
		return -ENOMEM;
	}
	w->uffd = fcntl(uffd, F_DUPFD_CLOEXEC, 0);
	w->mem = fcntl(mem, F_DUPFD_CLOEXEC, 0);
	w->pagemap = fcntl(pagemap, F_DUPFD_CLOEXEC, 0);
	w->maps = fcntl(s->mem.maps_fd, F_DUPFD_CLOEXEC, 0);
	w->file = fcntl(file, F_DUPFD_CLOEXEC, 0);
	w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	set_file(w, &st);
	err = -EMFILE;
	if (w->uffd >= 0 && w->mem >= 0 && w->maps >= 0 && w->pagemap >= 0 && w->file >= 0 &&
	    w->wake >= 0)
		err = bequeath(w, s->cont);
	if (!err)
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

/* Who wrote it may have been taken over. */
static bool log_ok(const struct watch_log *log)
{
	return log->num_pending <= PAGES_PENDING_MAX && log->placing <= REGIONS_MAX &&
	       log->removed[log->at & 1].num <= PAGES_REMOVED_MAX;
}

int pages_inherit(const int fd[PAGES_NUM_FDS], struct pages **out)
{
	struct stat file, log;
	struct pages *w;
	int err;

	if (fstat(fd[PAGES_FILE], &file) || fstat(fd[PAGES_LOG], &log) ||
	    log.st_size != (off_t)LOG_BYTES || !uffd_is_one(fd[PAGES_UFFD]))
		return -EINVAL;
	w = pages_new(1);
	if (!w)
		return -ENOMEM;
	w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = w->wake < 0 ? -errno : log_map(w, fd[PAGES_LOG]);
	if (!err && !log_ok(w->log))
		err = -EINVAL;
	if (err) {
		pages_unref(w);
		return err;
	}
	set_file(w, &file);
	w->uffd = fd[PAGES_UFFD];
	w->file = fd[PAGES_FILE];
	w->mem = fd[PAGES_MEM];
	w->maps = fd[PAGES_MAPS];
	w->pagemap = fd[PAGES_PAGEMAP];
	close(fd[PAGES_LOG]);
	w->ended = true;
	/* nobody knows which regions there were: those that have no pages are over at once */
	for (uint32_t i = 0; i < REGIONS_MAX; i++)
		w->region[i].is_used = true;
	if (w->log->placing) {
		w->placing = &w->region[w->log->placing - 1];
		w->placing_off = w->log->placing_off;
	}
	pages_make_dirty(w);
	*out = w;
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
	pages_set_placing(w, err ? NULL : r, *off);
	if (w->placing)
		w->placing->placed = ++w->places;
	*uffd = w->uffd;
	pthread_mutex_unlock(&w->lock);
	return err;
}

bool pages_are(const struct session *s, uint64_t inode, uint32_t dev_major, uint32_t dev_minor)
{
	const struct pages *w = s->mem.pages;

	return w && w->inode == inode && w->dev_major == dev_major && w->dev_minor == dev_minor;
}

uint64_t pages_off(const struct session *s, const struct region *r, const uint8_t *host)
{
	return pages_region_base(s->mem.pages, r) + (uint64_t)(host - r->map);
}

uint64_t pages_idle(struct session *s)
{
	struct pages *w = s->mem.pages;
	uint64_t idle;

	if (!w)
		return 0;
	pthread_mutex_lock(&w->lock);
	idle = w->idle;
	pthread_mutex_unlock(&w->lock);
	eventfd_write(w->wake, 1);
	return idle;
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
	pages_make_dirty(w);
	pthread_mutex_unlock(&w->lock);
	s->mem.pages = NULL;
	quota_return(s->cont, QUOTA_FD, PAGES_FDS);
	quota_return(s->cont, QUOTA_MEMORY, PAGES_MEMORY);
	pages_unref(w);
}
