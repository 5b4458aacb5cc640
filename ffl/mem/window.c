/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * window.c - swapping the pages behind an address under a running program. Called by region.c,
 * with the region lock held, on whatever thread registers or deregisters memory.
 *
 * Theory of operation
 * -------------------
 * Page table entries are slid between three mappings of the same length:
 *
 *	p	where the program sees its memory
 *	stash	keeps the program's own anonymous pages while they are replaced
 *	home	the library's own mapping of the shadow pages
 *
 * mremap(MREMAP_DONTUNMAP) takes all entries of a mapping away at once, the TLBs included, and
 * leaves the mapping behind empty. If that mapping was registered with userfaultfd before,
 * whoever touches it from then on, in user mode or inside a system call, sleeps: of a private
 * anonymous mapping an entry is MISSING, of a shared one it is MINOR (the page cache has the
 * page). That is the window. In it the content is copied, and the other pages are slid to p by a
 * second mremap, which replaces the registered mapping by an ordinary one. Nobody is woken by
 * that, so UFFDIO_WAKE ends the window; the sleepers repeat their access and find the new page.
 * No write can be lost: before the first mremap it is in the page that gets copied, after it, it
 * waits for the page that replaces it. No page is allocated or zeroed in a window, and the
 * program's own pages return at the end, with their places in huge pages, NUMA nodes and locks.
 *
 * In a window this thread must not touch p, in any way: no malloc, no stdio, no call of the
 * router, no signal handler (signals are blocked while the region lock is held), own stack, thread
 * control block and errno elsewhere (region.c sees to both).
 *
 * The second mremap can fail when the process has too many mappings. Undoing the first one may
 * fail for the same reason; then the pages are put back one by one by the userfaultfd, which
 * needs no mapping.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "ffl/session/mm.h"
#include "ffl/mem/window.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif
#ifndef UFFD_FEATURE_MINOR_SHMEM
#define UFFD_FEATURE_MINOR_SHMEM      (1 << 10)
#define UFFDIO_REGISTER_MODE_MINOR    ((__u64)1 << 2)
#define UFFDIO_CONTINUE_MODE_DONTWAKE ((__u64)1 << 0)
#define UFFDIO_CONTINUE		      _IOWR(UFFDIO, 0x07, struct uffdio_continue)
struct uffdio_continue {
	struct uffdio_range range;
	__u64 mode;
	__s64 mapped;
};
#endif

int ffl_window_open(int uffd_dev)
{
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MINOR_SHMEM,
	};
	int fd, err;

	fd = ioctl(uffd_dev, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (ioctl(fd, UFFDIO_API, &api)) {
		err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

static int uffd_register(int uffd, char *p, size_t len, uint64_t mode)
{
	struct uffdio_register r = { .range = { (uintptr_t)p, len }, .mode = mode };

	return ioctl(uffd, UFFDIO_REGISTER, &r) ? -errno : 0;
}

static void uffd_unregister(int uffd, char *p, size_t len)
{
	struct uffdio_range r = { (uintptr_t)p, len };

	ioctl(uffd, UFFDIO_UNREGISTER, &r);
}

static void uffd_wake(int uffd, char *p, size_t len)
{
	struct uffdio_range r = { (uintptr_t)p, len };

	ioctl(uffd, UFFDIO_WAKE, &r);
}

/* All entries of [from, from + len) to `to`; `from` stays mapped, empty. */
static int slide(char *from, size_t len, char *to)
{
	void *at = mm_remap(from, len, len, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to);

	return at == MAP_FAILED ? -errno : 0;
}

/* The same, and `from` is no longer mapped. */
static int move(char *from, size_t len, char *to)
{
	void *at = mm_remap(from, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, to);

	return at == MAP_FAILED ? -errno : 0;
}

/* p, registered and empty, gets copies of the stash's pages back. */
static void refill_private(int uffd, char *p, size_t len, const char *stash)
{
	for (size_t done = 0; done < len;) {
		struct uffdio_copy c = {
			.dst = (uintptr_t)p + done,
			.src = (uintptr_t)stash + done,
			.len = len - done,
		};

		ioctl(uffd, UFFDIO_COPY, &c);
		if (c.copy > 0)
			done += (size_t)c.copy;
		else if (c.copy != -EAGAIN && c.copy != -ENOMEM)
			done += 4096; /* there already, or p was unmapped */
	}
}

/* p, registered and empty, gets its shared pages back from the page cache. */
static void refill_shared(int uffd, char *p, size_t len)
{
	for (size_t done = 0; done < len;) {
		struct uffdio_continue c = { .range = { (uintptr_t)p + done, len - done } };

		ioctl(uffd, UFFDIO_CONTINUE, &c);
		if (c.mapped > 0)
			done += (size_t)c.mapped;
		else if (c.mapped != -EAGAIN)
			done += 4096; /* there already, or not in the file: faults in after unregister */
	}
}

int ffl_window_in(int uffd, char *p, size_t len, char *stash, char *home)
{
	int err;

	err = uffd_register(uffd, p, len, UFFDIO_REGISTER_MODE_MISSING);
	if (err)
		return err;
	err = slide(p, len, stash);
	if (err)
		goto err_unregister;
	memcpy(home, stash, len);
	err = slide(home, len, p);
	if (err)
		goto err_back;
	uffd_wake(uffd, p, len);
	return 0;

err_back:
	if (slide(stash, len, p)) {
		refill_private(uffd, p, len, stash);
		goto err_unregister;
	}
	uffd_wake(uffd, p, len);
	return err;
err_unregister:
	/* pages untouched so far are MISSING too: somebody may sleep */
	uffd_unregister(uffd, p, len);
	uffd_wake(uffd, p, len);
	return err;
}

int ffl_window_out(int uffd, char *p, size_t len, char *stash, char *home, int prot)
{
	const int rw = PROT_READ | PROT_WRITE;
	int err;

	err = uffd_register(uffd, p, len,
			    UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR);
	if (err)
		return err;
	err = slide(p, len, home); /* home gets p's protection, too */
	if (err)
		goto err_unregister;
	if (prot != rw && mm_protect(home, len, rw)) {
		err = -errno;
		goto err_back;
	}
	memcpy(stash, home, len);
	if (prot != rw && mm_protect(stash, len, prot)) {
		err = -errno;
		goto err_back;
	}
	err = move(stash, len, p);
	if (err)
		goto err_stash;
	uffd_wake(uffd, p, len);
	return 0;

err_stash:
	if (prot != rw)
		mm_protect(stash, len, rw);
err_back:
	if (prot != rw)
		mm_protect(home, len, prot); /* what slides back is p's again */
	if (slide(home, len, p)) {
		refill_shared(uffd, p, len);
		uffd_unregister(uffd, p, len);
	}
	if (prot != rw)
		mm_protect(home, len, rw);
	uffd_wake(uffd, p, len);
	return err;
err_unregister:
	uffd_unregister(uffd, p, len);
	uffd_wake(uffd, p, len);
	return err;
}
