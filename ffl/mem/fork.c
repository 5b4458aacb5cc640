/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fork.c - replaced pages in the children of the program. Called by mr.c once, by libc afterwards.
 *
 * Shadow pages are shared mappings, and a child must not write to its parent's memory. So they are
 * mapped with MADV_DONTFORK, and a handler in the child puts memory of its own there, with a copy
 * of the content. The parent waits in its handler, so that it is the content of the moment, as far
 * as the thread that forks is concerned. Nothing is left to be copied later: not only the parent
 * writes to these pages, the router does, too, where no write protection of this process holds.
 * It takes about 0.6 ms for each MB, and as much memory: what the kernel does with pinned pages.
 *
 * A child may be killed or stopped while it copies. When it has not got on for PATIENCE_MS, the
 * parent goes its way, and the child, should it go on, has nothing there: all or nothing.
 *
 * The region lock is held across fork, so no window is open and no pool half changed. vfork(),
 * posix_spawn() and system() run no handlers and need none: the child shares the parent's memory
 * or execs. A child made by a bare clone() has nothing mapped at replaced pages, as with pinned
 * memory and MADV_DONTFORK.
 *
 * In the child nothing is registered any more, and its parent's sessions have no part in its memory;
 * sessions of its own (context.c) begin afresh.
 */
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ffl/session/mm.h"
#include "ffl/mem/region.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define CHUNK	    ((size_t)1 << 20) /* bytes copied between two looks at the parent */
#define PATIENCE_MS 2000

/*
 * Shared with the child from a fork to its end: the chunks that it has copied, or how it ended.
 * The child waits for nobody; the parent for COPIED, or to set GIVEN_UP.
 */
#define COPIED	 UINT32_MAX
#define GIVEN_UP (UINT32_MAX - 1)
static _Atomic uint32_t *progress;

static bool must_copy; /* region lock: what prepare found */

static void fork_prepare(void)
{
	struct ffl_region *r;

	ffl_regions_lock();
	ffl_regions_look();
	must_copy = ffl_regions_each(&r) > 0;
	atomic_store(progress, 0);
}

static void wait_for_child(void)
{
	const struct timespec patience = { PATIENCE_MS / 1000, PATIENCE_MS % 1000 * 1000000 };
	uint32_t seen = atomic_load(progress);

	while (seen != COPIED) {
		if (syscall(SYS_futex, progress, FUTEX_WAIT, seen, &patience, NULL, 0) &&
		    errno == ETIMEDOUT && atomic_compare_exchange_strong(progress, &seen, GIVEN_UP))
			return;
		seen = atomic_load(progress);
	}
}

static void fork_parent(void)
{
	if (must_copy)
		wait_for_child();
	ffl_regions_unlock();
}

/* ---- in the child: async-signal-safe ---------------------------------------------------------- */

/* A chunk more is copied, or all. False: the parent has given up. */
static bool advance(bool all)
{
	uint32_t was = atomic_load(progress);

	return was != GIVEN_UP &&
	       atomic_compare_exchange_strong(progress, &was, all ? COPIED : was + 1);
}

/* The region's content to p, which is empty. */
static bool copy_pages(const struct ffl_region *r, int fd, char *p)
{
	for (size_t done = 0; done < r->len;) {
		size_t len = r->len - done < CHUNK ? r->len - done : CHUNK;
		ssize_t n = pread(fd, p + done, len, (off_t)(r->off + done));

		if (n <= 0 || !advance(false))
			return false;
		done += (size_t)n;
	}
	return true;
}

/* Memory of the child's own in place of the region's pages. True: it is there. */
static bool child_map(const struct ffl_region *r)
{
	const struct ffl_file *file = ffl_pool_file(r->ctx->pool, r->seg);
	const int rw = PROT_READ | PROT_WRITE;
	struct stat st;
	void *p;

	/* the program may have closed the descriptor, and opened something else */
	if (!r->intact || syscall(SYS_fstat, file->fd, &st) || st.st_ino != file->inode)
		return false;
	/* what is mapped there already, the program wants there */
	p = mm_map((void *)r->va, r->len, rw, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
		   0);
	if (p == MAP_FAILED)
		return false;
	if (!copy_pages(r, file->fd, p)) {
		mm_unmap(p, r->len);
		return false;
	}
	if (r->prot != rw)
		mm_protect(p, r->len, r->prot);
	return true;
}

static void fork_child(void)
{
	struct ffl_region *r;
	unsigned num = ffl_regions_each(&r);

	for (unsigned i = 0; i < num; i++)
		r[i].intact = child_map(&r[i]);
	if (must_copy && advance(true))
		syscall(SYS_futex, progress, FUTEX_WAKE, 1, NULL, NULL, 0);
	else
		for (unsigned i = 0; i < num; i++)
			if (r[i].intact)
				mm_unmap((void *)r[i].va, r[i].len);
	/* children of this process have a parent of their own to tell */
	mm_map((void *)progress, FF_PAGE, PROT_READ | PROT_WRITE,
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
	if (progress)
		goto out;
	page = mm_map(NULL, FF_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED) {
		err = -errno;
		goto out;
	}
	progress = page;
	err = -pthread_atfork(fork_prepare, fork_parent, fork_child);
	if (err) {
		mm_unmap(page, FF_PAGE);
		progress = NULL;
	}
out:
	ffl_regions_unlock();
	return err;
}
