/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * region.c - the files of shadow pages, and which of the program's pages are theirs. Called by
 * apply.c, malloc.c and fork.c with the region lock held.
 *
 * Theory of operation
 * -------------------
 * The router reaches private memory by a pointer when its pages are those of a file that both
 * have mapped. So what an MR has of private pages is replaced, window by window, by a shared
 * mapping of that file, with the same content. From then on these pages are shadow pages, and
 * nothing brings the old ones back: neither the MR's end nor the context's. They are the
 * program's memory like any other, for as long as it has them mapped, and a further MR of them
 * replaces nothing.
 *
 * That has to be memory for every system call, of any thread, by libc or not. What the program
 * does to the mapping the kernel does, as to any mapping of a file; what that would not do as for
 * private memory, the kernel tells: the mapping is registered with a userfaultfd, and who reads
 * its events is the router (ffr/mem/watch.c), for a program has no thread that may make system
 * calls at any time.
 *
 *	madvise(MADV_DONTNEED) and the like		the router punches a hole there: the next access finds zeros
 *	munmap(), mmap() over it, exit of a part	likewise, unless an MR has the pages: then when that goes
 *	mremap()					the router knows the new address
 *	mremap() that makes it larger			regions lie FF_PAGES_STRIDE apart in the file, so that a
 *							mapping that grows meets zeros of its own
 *	fork()						fork.c copies
 *
 * No page of the file is used twice: what one region had is a hole before another region gets its
 * place. So whoever still has the page itself (a pipe, io_uring) has it alone.
 *
 * Nothing is remembered of what is where. Each registration asks the kernel what is mapped
 * (apply.c), and a mapping of this context's file is shadow pages, wherever the program has moved
 * it. To an MR of another context they are like any other shared mapping. What can be replaced
 * plan.c knows.
 *
 * Tests: test_region.c, test_region_kinds.c
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "ffl/session/mm.h"
#include "ffl/mem/region.h"
#include "ffl/mem/window.h"

#define PLACE_TRIES 1000u
#define SHOWN_MAX   64u

/* What the router is told of a shadow mapping (Linux 5.14). */
#define WATCH_FEATURES                                                                             \
	(UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MINOR_SHMEM | UFFD_FEATURE_EVENT_REMOVE |       \
	 UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP)

/* Region lock. Arrays of ffl_pages_grow(). */
static struct ffl_file *files;
static uint32_t num_files, max_files;
static struct ffl_part *parts; /* ffl_regions_look()'s */
static uint32_t max_parts;

/*
 * The files once more, for who may not wait for the lock: inode numbers, 0 where there is none. All
 * are memfds, which have one device number. Those beyond are not known there.
 */
static _Atomic uint64_t shown[SHOWN_MAX];
static _Atomic uint64_t shown_dev;
static _Atomic pid_t shown_pid; /* of this process; children made by bare calls have a copy */

static bool has_windows; /* else nothing can be replaced */
static struct ffl_context *contexts;
_Atomic uint32_t ffl_untold;
static int maps_fd = -1; /* ffl_regions_maps()'s */

int ffl_pages_grow(void **array, uint32_t num, uint32_t *max, size_t size)
{
	uint32_t n = *max ? *max * 2 : 64;
	void *p;

	if (num < *max)
		return 0;
	if (*array)
		p = mm_remap(*array, PAGE_UP(*max * size), PAGE_UP(n * size), MREMAP_MAYMOVE, NULL);
	else
		p = mm_map(NULL, PAGE_UP(n * size), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	*array = p;
	*max = n;
	return 0;
}

/*
 * An open /proc/self/maps, or -1. It is kept, but programs close descriptors that are not theirs,
 * and the number may be another file's by now.
 */
int ffl_regions_maps(void)
{
	static dev_t dev;
	static ino_t ino;
	struct stat st;

	if (maps_fd >= 0 && !syscall(SYS_fstat, maps_fd, &st) && st.st_dev == dev &&
	    st.st_ino == ino)
		return maps_fd;
	maps_fd = ffl_fd_high(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
	if (maps_fd >= 0 && !syscall(SYS_fstat, maps_fd, &st)) {
		dev = st.st_dev;
		ino = st.st_ino;
	}
	return maps_fd;
}

/* ---- files ------------------------------------------------------------------------------- */

static bool is_of(const struct ffl_file *f, const struct ff_vma *v)
{
	return v->flags & FF_VMA_SHARED && v->inode == f->inode && v->dev_major == f->dev_major &&
	       v->dev_minor == f->dev_minor;
}

static struct ffl_file *file_of_vma(const struct ff_vma *v)
{
	for (uint32_t i = 0; i < num_files; i++)
		if (is_of(&files[i], v))
			return &files[i];
	return NULL;
}

/* [region lock] The files have changed. */
static void files_show(void)
{
	if (num_files) {
		atomic_store(&shown_dev, makedev(files[0].dev_major, files[0].dev_minor));
		atomic_store(&shown_pid, getpid());
	}
	for (uint32_t i = 0; i < SHOWN_MAX; i++)
		atomic_store(&shown[i], i < num_files ? files[i].inode : 0);
}

bool ffl_regions_any(void)
{
	return atomic_load_explicit(&shown[0], memory_order_relaxed) &&
	       atomic_load(&shown_pid) == getpid();
}

bool ffl_regions_has(const struct ff_vma *v)
{
	bool found = false;

	if (!(v->flags & FF_VMA_SHARED) || !v->inode ||
	    makedev(v->dev_major, v->dev_minor) != atomic_load(&shown_dev))
		return false;
	for (uint32_t i = 0; i < SHOWN_MAX && !found; i++)
		found = atomic_load(&shown[i]) == v->inode;
	return found;
}

struct ffl_context *ffl_regions_contexts(void)
{
	return contexts;
}

/* Is its descriptor still what it was? Programs close descriptors that are not theirs. */
static bool is_open(const struct ffl_file *f)
{
	struct stat st;

	return !syscall(SYS_fstat, f->fd, &st) && st.st_ino == f->inode;
}

bool ffl_regions_is_of(const struct ffl_context *ctx, const struct ff_vma *v)
{
	const struct ffl_file *f = file_of_vma(v);

	return f && f->ctx == ctx;
}

const struct ffl_file *ffl_regions_file_of(const struct ff_vma *v)
{
	const struct ffl_file *f = file_of_vma(v);

	return f && is_open(f) ? f : NULL;
}

/*
 * The context's file, from its first use on. The userfaultfd is the router's alone: if it were
 * this process's as well, a router that dies would leave threads waiting for an answer for ever.
 */
static struct ffl_file *file_get(struct ffl_context *ctx)
{
	struct ff_watch_pages_req req = { 0 };
	struct ff_watch_pages_resp resp;
	unsigned num_fds = 0;
	struct stat st;
	int given[2], fd = -1, err;

	for (uint32_t i = 0; i < num_files; i++)
		if (files[i].ctx == ctx)
			return &files[i];
	if (ctx->no_pages || ffl_pages_grow((void **)&files, num_files, &max_files, sizeof(*files)))
		return NULL;
	ctx->no_pages = true; /* if it fails, it is not tried again */
	given[0] = ffl_uffd_open(ctx->uffd_dev, WATCH_FEATURES);
	if (given[0] < 0)
		return NULL;
	given[1] = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	err = given[1] < 0 ? -errno :
			     ffl_call_fds(ctx, FF_MSG_WATCH_PAGES, &req, sizeof(req), given, 2,
					  &resp, sizeof(resp), &fd, 1, &num_fds);
	close(given[0]);
	if (given[1] >= 0)
		close(given[1]);
	if (err || num_fds != 1) {
		ffl_log(FFL_WARN, "no shadow pages: %s; memory is reached by copying",
			strerror(err ? -err : EPROTO));
		return NULL;
	}
	fd = ffl_fd_high(fd);
	if (syscall(SYS_fstat, fd, &st)) {
		close(fd);
		return NULL;
	}
	ctx->no_pages = false;
	files[num_files] = (struct ffl_file){
		.fd = fd,
		.inode = st.st_ino,
		.dev_major = major(st.st_dev),
		.dev_minor = minor(st.st_dev),
		.ctx = ctx,
		.has_others = ctx->whole_pages,
	};
	num_files++;
	files_show();
	return &files[num_files - 1];
}

/* New pages for all of [at, at + len), which is registered. False: some are there already, or there is no memory. */
static bool fill_new(int uffd, char *at, size_t len)
{
	struct uffdio_zeropage z = { .range = { (uintptr_t)at, len } };
	unsigned tries = 0;

	while (ioctl(uffd, UFFDIO_ZEROPAGE, &z)) {
		if (z.zeropage > 0) {
			z.range.start += (uint64_t)z.zeropage;
			z.range.len -= (uint64_t)z.zeropage;
		} else if (errno != EAGAIN || ++tries > PLACE_TRIES) {
			return false;
		} else {
			sched_yield(); /* an event is to be read: some microseconds */
		}
		z.zeropage = 0;
	}
	return true;
}

/*
 * Register [at, at + len) and make its pages present: at once, in half the time that a fault for each takes, or by
 * faults, which tell when there is no memory. 0 or -1.
 */
static int fill(int uffd, char *at, size_t len)
{
	const uint64_t mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR;
	struct uffdio_range r = { (uintptr_t)at, len };

	if (mm_uffd_register(uffd, at, len, mode))
		return -1;
	if (fill_new(uffd, at, len))
		return 0;
	/* a fault must not wait for the router, which may have no memory, either */
	if (ioctl(uffd, UFFDIO_UNREGISTER, &r) || mm_advise(at, len, MADV_POPULATE_WRITE))
		return -1;
	return mm_uffd_register(uffd, at, len, mode);
}

char *ffl_regions_place(struct ffl_context *ctx, size_t len, struct ffl_place *place)
{
	struct ffl_file *f = file_get(ctx);
	struct ff_place_pages_req req = { .len = len, .span = place->span, .off = place->off };
	struct ff_place_pages_resp resp;
	unsigned num_fds = 0;
	int uffd = -1, err = 0;
	void *home;

	if (!f || !is_open(f))
		return ffl_err_ptr(EOPNOTSUPP);
	for (unsigned i = 0; i < PLACE_TRIES; i++) {
		do
			err = ffl_call(ctx, FF_MSG_PLACE_PAGES, &req, sizeof(req), NULL, 0, 0,
				       &resp, sizeof(resp), &uffd, 1, &num_fds);
		while (ffl_map_again(err));
		if (err != -EAGAIN)
			break;
		sched_yield(); /* pages of the region are being given back: some microseconds */
	}
	if (err || num_fds != 1)
		return ffl_err_ptr(err ? -err : EPROTO);
	home = mm_map(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, (off_t)resp.off);
	err = home == MAP_FAILED ? errno : 0;
	if (!err && (mm_advise(home, len, MADV_DONTFORK) || fill(uffd, home, len))) {
		err = errno;
		mm_unmap(home, len);
	}
	close(uffd);
	if (err)
		return ffl_err_ptr(err);
	*place = (struct ffl_place){ .off = resp.off, .fd = f->fd };
	return home;
}

/*
 * What was placed last is mapped where it is to stay, or no more: the router, which hears of
 * windows' ends and of unmapping, but leaves alone what it was told of last, is told.
 */
static void placed(struct ffl_context *ctx)
{
	struct ff_place_pages_req req = { 0 };
	struct ff_place_pages_resp resp;
	unsigned num_fds = 0;
	int uffd = -1;

	ffl_call(ctx, FF_MSG_PLACE_PAGES, &req, sizeof(req), NULL, 0, 0, &resp, sizeof(resp), &uffd,
		 1, &num_fds);
	if (uffd >= 0)
		close(uffd);
}

void ffl_regions_unplace(struct ffl_context *ctx, char *home, size_t len)
{
	mm_unmap(home, len);
	placed(ctx);
}

char *ffl_regions_map(struct ffl_context *ctx, size_t len)
{
	struct ffl_place place = { .span = len };
	char *home;

	if (!has_windows || ctx->uffd_dev < 0)
		return ffl_err_ptr(ENOMEM);
	home = ffl_regions_place(ctx, len, &place);
	if (home)
		placed(ctx);
	return home;
}

bool ffl_regions_can_replace(const struct ffl_context *ctx)
{
	return has_windows && ctx->uffd_dev >= 0 && !ctx->no_pages;
}

/* ---- contexts ---------------------------------------------------------------------------- */

void ffl_regions_add(struct ffl_context *ctx)
{
	ffl_regions_lock();
	if (!has_windows && ctx->uffd_dev >= 0) {
		int err = ffl_window_init(ctx->uffd_dev);

		if (err)
			ffl_log(FFL_WARN, "no userfaultfd: %s; memory is reached by copying",
				strerror(-err));
		has_windows = !err;
	}
	ctx->has_regions = true;
	ctx->next_regions = contexts;
	contexts = ctx;
	ffl_regions_unlock();
}

void ffl_regions_remove(struct ffl_context *ctx)
{
	ctx->has_regions = false;
	for (struct ffl_context **p = &contexts; *p; p = &(*p)->next_regions)
		if (*p == ctx) {
			*p = ctx->next_regions;
			break;
		}
	if (!ctx->pid) /* the parent's */
		return;
	for (uint32_t i = 0; i < num_files; i++)
		if (files[i].ctx == ctx)
			files[i].ctx = NULL;
	if (!contexts && has_windows) {
		ffl_window_fini(true);
		has_windows = false;
	}
}

/* ---- fork -------------------------------------------------------------------------------- */

/* Files of closed contexts of which nothing is mapped any more are not needed. */
static void files_sweep(uint32_t num)
{
	for (uint32_t i = num_files; i-- > 0;) {
		bool used = files[i].ctx;

		for (uint32_t k = 0; k < num && !used; k++)
			used = parts[k].file == i;
		if (used)
			continue;
		if (is_open(&files[i]))
			close(files[i].fd);
		files[i] = files[--num_files];
		for (uint32_t k = 0; k < num; k++)
			if (parts[k].file == num_files)
				parts[k].file = i;
		files_show();
	}
}

static bool add_part(void *num, const struct ff_vma *v)
{
	const struct ffl_file *f = file_of_vma(v);
	uint32_t n = *(uint32_t *)num;

	if (!f || ffl_pages_grow((void **)&parts, n, &max_parts, sizeof(*parts)))
		return true;
	parts[n] = (struct ffl_part){
		.va = v->start,
		.len = v->end - v->start,
		.off = v->offset,
		.file = (uint32_t)(f - files),
		.prot = (uint8_t)ffl_vma_prot(v),
	};
	*(uint32_t *)num = n + 1;
	return true;
}

unsigned ffl_regions_look(struct ffl_part **first)
{
	int maps = num_files ? ffl_regions_maps() : -1;
	uint32_t num = 0;

	if (maps >= 0)
		ff_vma_each(maps, add_part, &num);
	files_sweep(num);
	*first = parts;
	return num;
}

const struct ffl_file *ffl_regions_file(uint32_t i)
{
	return &files[i];
}

void ffl_regions_forget(bool fds_too)
{
	for (uint32_t i = 0; fds_too && i < num_files; i++)
		if (is_open(&files[i]))
			close(files[i].fd);
	num_files = 0;
	files_show();
	contexts = NULL;
	atomic_store(&ffl_untold, 0);
	has_windows = false;
	/* the parent's, of its address space; not closed, for they may be other files' by now */
	maps_fd = -1;
	ffl_window_fini(false);
}
