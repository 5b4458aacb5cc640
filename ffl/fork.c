/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fork.c - replaced pages in the children of the program. Called by mr.c once, by libc afterwards.
 *
 * Shadow pages are shared mappings, and a child must not write to its parent's memory. So they are
 * mapped with MADV_DONTFORK, and what fork() gives the child there is made by a handler in the
 * child: private mappings of the same pages. They get pages of their own at once, as long as that
 * is not too much; the parent waits for it in its handler, so that the child has the content of
 * the moment, as far as the thread that forks is concerned. Beyond that the child's pages follow
 * the parent's until one of them is written to, and the parent never uses them for anything else.
 *
 * The region lock is held across fork, so no window is open and no pool half changed. vfork(),
 * posix_spawn() and system() run no handlers and need none: the child shares the parent's memory
 * or execs. A child made by a bare clone() has nothing mapped at replaced pages, as with pinned
 * memory and MADV_DONTFORK.
 *
 * In the child there are no contexts any more as far as memory goes; verbs on them fail.
 */
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "region.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define COPY_MAX     ((size_t)32 << 20) /* bytes that a child copies at once */
#define COPY_WAIT_MS 200		/* ms that the parent waits for that; a child may die */

/* Shared with the children, from one fork to its end. 1: the child has its pages. */
static _Atomic uint32_t *child_ready;
/* Region lock: what prepare found. */
static bool must_map, must_copy;

static void fork_prepare(void)
{
	struct ffl_region *r;
	size_t total = 0;
	unsigned num;

	ffl_regions_lock();
	ffl_regions_look();
	num = ffl_regions_each(&r);
	for (unsigned i = 0; i < num; i++)
		total += r[i].len;
	must_map = num > 0;
	must_copy = must_map && total <= COPY_MAX;
	atomic_store(child_ready, 0);
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* True: the child has copied its pages. False: it takes too long, or there is none. */
static bool wait_for_child(void)
{
	int64_t end = now_ms() + COPY_WAIT_MS, left;

	while (!atomic_load(child_ready) && (left = end - now_ms()) > 0) {
		struct timespec t = { left / 1000, left % 1000 * 1000000 };

		syscall(SYS_futex, child_ready, FUTEX_WAIT, 0, &t, NULL, 0);
	}
	return atomic_load(child_ready);
}

static void fork_parent(void)
{
	struct ffl_region *r;
	unsigned num;

	if (must_map && !(must_copy && wait_for_child())) {
		num = ffl_regions_each(&r);
		for (unsigned i = 0; i < num; i++)
			r[i].with_child = true;
	}
	ffl_regions_unlock();
}

/* A private mapping in place of the parent's shared one. Async-signal-safe. */
static void child_map(const struct ffl_region *r)
{
	const struct ffl_file *file = ffl_pool_file(r->ctx->pool, r->seg);
	const int rw = PROT_READ | PROT_WRITE;
	struct stat st;
	void *p;

	/* the program may have closed the descriptor, and opened something else */
	if (!r->intact || syscall(SYS_fstat, file->fd, &st) || st.st_ino != file->inode)
		return;
	/* what is mapped there already, the program wants there */
	p = mmap((void *)r->va, r->len, rw, MAP_PRIVATE | MAP_FIXED_NOREPLACE, file->fd,
		 (off_t)r->off);
	if (p == MAP_FAILED)
		return;
	if (must_copy && madvise(p, r->len, MADV_POPULATE_WRITE))
		for (size_t i = 0; i < r->len; i += FF_PAGE) {
			volatile char *c = (char *)p + i;

			*c = *c;
		}
	if (r->prot != rw)
		mprotect(p, r->len, r->prot);
}

static void fork_child(void)
{
	struct ffl_region *r;
	unsigned num = ffl_regions_each(&r);

	for (unsigned i = 0; i < num; i++)
		child_map(&r[i]);
	if (must_map) {
		atomic_store(child_ready, 1);
		syscall(SYS_futex, child_ready, FUTEX_WAKE, 1, NULL, NULL, 0);
	}
	/* children of this process have a parent of their own to tell */
	mmap((void *)child_ready, FF_PAGE, PROT_READ | PROT_WRITE,
	     MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	ffl_malloc_forget(NULL);
	ffl_regions_forget();
	ffl_regions_unlock();
}

int ffl_fork_init(void)
{
	void *page;
	int err = 0;

	ffl_regions_lock();
	if (child_ready)
		goto out;
	page = mmap(NULL, FF_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED) {
		err = -errno;
		goto out;
	}
	child_ready = page;
	err = -pthread_atfork(fork_prepare, fork_parent, fork_child);
	if (err) {
		munmap(page, FF_PAGE);
		child_ready = NULL;
	}
out:
	ffl_regions_unlock();
	return err;
}
