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
 * The kernel makes one mapping of p and the stash where they happen to be next to each other and nothing in p
 * was ever written to; then it forgets that p is registered (seen with Linux 6.18), and who writes to p in the
 * window writes to a page that goes. So a page of p is written to first.
 *
 * The program may unmap p at any time, and something else may be mapped there, when pages are replaced in
 * the background (heat.c). So what was slid away is looked at before it is copied, and whether p is still the
 * empty mapping just before the second mremap. What remains is a munmap() and an mmap() of the same addresses by
 * other threads between these two system calls; and a mremap() of exactly these pages in the window, which moves
 * the empty mapping.
 *
 * A device, or io_uring, may have been given pages of p by their numbers (O_DIRECT, registered buffers): what it
 * writes to the old page after the copy would be lost. While pages are replaced when they are used, that is no
 * program's mistake. UFFDIO_MOVE (Linux 6.8) does not move such pages, so those that were slid away, which nobody
 * can reach any more, are moved by it to the probe and back: 20 us for 1 MB. Where one does not move, p is left as it
 * is. Nor does it move pages that a child of fork() shares; p is written to first, all of it.
 *
 * Private pages of a file are none that a userfaultfd can watch. Those that nobody can write to need no window: what
 * is left at p when they are slid away is the same file, and whoever reads it sees the same bytes. Others are
 * replaced only while there is no other thread; the router, which may copy to them, finds nothing mapped for the
 * moment, and tries again. At the end they need nothing of their own, for what is watched then are shadow pages.
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

#include "ffr/abi/ff_vma.h"
#include "ffr/abi/ff_proto.h"
#include "ffr/abi/ff_ring.h"
#include "ffl/session/mm.h"
#include "ffl/mem/window.h"

#ifndef MADV_POPULATE_READ /* musl */
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
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

#ifndef UFFD_FEATURE_MOVE
#define UFFD_FEATURE_MOVE		 (1 << 16)
#define UFFDIO_MOVE_MODE_DONTWAKE	 ((__u64)1 << 0)
#define UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES ((__u64)1 << 1)
#define UFFDIO_MOVE			 _IOWR(UFFDIO, 0x05, struct uffdio_move)
struct uffdio_move {
	__u64 dst, src, len, mode;
	__s64 move;
};
#endif

#ifndef MLOCK_ONFAULT
#define MLOCK_ONFAULT 1
#endif

#define MOVE_TRIES 1000u

static int window_open(int uffd_dev, uint64_t features)
{
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MINOR_SHMEM | features,
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

int ffl_window_open(int uffd_dev, bool *moves)
{
	int fd = window_open(uffd_dev, UFFD_FEATURE_MOVE);

	*moves = fd >= 0;
	return fd >= 0 ? fd : window_open(uffd_dev, 0);
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

/* The window is given up. Pages untouched so far are MISSING too: somebody may sleep. */
static void let_go(int uffd, char *p, size_t len)
{
	uffd_unregister(uffd, p, len);
	uffd_wake(uffd, p, len);
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

/*
 * Pieces cannot be slid together, and Linux 6.1 and 6.12 see that when what was at their destination
 * is unmapped already, so that a thread that touches it then dies (6.18 looks first). To grow where it is, a mapping needs room, of which
 * there is none as a rule; for pieces the kernel says EFAULT.
 */
bool ffl_window_is_whole(char *at, size_t len)
{
	if (mm_remap(at, len, len + FF_PAGE, 0, NULL) == MAP_FAILED)
		return errno != EFAULT;
	mm_unmap(at + len, FF_PAGE);
	return true;
}

static bool probe_locked;

int ffl_window_probe(int uffd, char *probe)
{
	probe_locked = false;
	/* mlockall() may have made pages */
	if (syscall(SYS_munlock, probe, FFL_WINDOW_MAX) ||
	    mm_advise(probe, FFL_WINDOW_MAX, MADV_DONTNEED))
		return -errno;
	return uffd_register(uffd, probe, FFL_WINDOW_MAX, UFFDIO_REGISTER_MODE_MISSING);
}

/* All pages that may go from one place to the other, which is registered. 0 or -errno; *done: bytes that have gone. */
static int carry(int uffd, char *from, size_t len, char *to, size_t *done)
{
	unsigned tries = 0;

	for (*done = 0; *done < len;) {
		struct uffdio_move m = {
			.dst = (uintptr_t)to + *done,
			.src = (uintptr_t)from + *done,
			.len = len - *done,
			.mode = UFFDIO_MOVE_MODE_DONTWAKE | UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES,
		};

		if (!ioctl(uffd, UFFDIO_MOVE, &m))
			*done = len;
		else if (m.move > 0)
			*done += (size_t)m.move;
		else if (errno != EAGAIN || ++tries > MOVE_TRIES)
			return -errno;
	}
	return 0;
}

/* Has nobody the stash's pages by their numbers? 0 or -errno. */
static int check_unpinned(int uffd, char *stash, size_t len, char *probe)
{
	size_t done, back = 0;
	int err;

	err = uffd_register(uffd, stash, len, UFFDIO_REGISTER_MODE_MISSING);
	if (err)
		return err;
	err = carry(uffd, stash, len, probe, &done);
	if (err == -EINVAL && !done) { /* the kernel wants both to be locked, or neither */
		/* not by mlock(), which would wait for the userfaultfd */
		if (probe_locked ? !syscall(SYS_munlock, probe, FFL_WINDOW_MAX) :
				   !syscall(SYS_mlock2, probe, FFL_WINDOW_MAX, MLOCK_ONFAULT)) {
			probe_locked = !probe_locked;
			err = carry(uffd, stash, len, probe, &done);
		}
	}
	if (done)
		carry(uffd, probe, done, stash, &back);
	uffd_unregister(uffd, stash, len);
	if (back < done) { /* cannot be; copies would do */
		memcpy(stash + back, probe + back, done - back);
		mm_advise(probe, FFL_WINDOW_MAX, MADV_DONTNEED);
	}
	return err;
}

/* From home, which is readable and writable and stays that, to where `prot` is the protection. */
static int slide_as(char *home, size_t len, char *to, int prot)
{
	const int rw = PROT_READ | PROT_WRITE;
	int err = 0;

	if (prot != rw && mm_protect(home, len, prot))
		return -errno;
	err = slide(home, len, to);
	if (prot != rw)
		mm_protect(home, len,
			   rw); /* home becomes one mapping again: that needs no more of them */
	return err;
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
			done += FF_PAGE; /* there already, or p was unmapped */
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
			done += FF_PAGE; /* there already, or not in the file: faults in after unregister */
	}
}

/*
 * Is all of p still the empty mapping that was registered? The kernel looks for it before it finds that there
 * is nothing to be copied from.
 */
static bool is_empty(int uffd, char *p, size_t len, const char *nowhere)
{
	struct uffdio_copy c = { .dst = (uintptr_t)p, .src = (uintptr_t)nowhere, .len = len };

	return ioctl(uffd, UFFDIO_COPY, &c) && errno == EFAULT;
}

/* Is what was slid away plain private memory, all of it? True, too, where the kernel cannot be asked. */
static bool is_private(int maps, const char *stash, size_t len, int prot)
{
	uint32_t flags = FF_VMA_READ | (prot & PROT_WRITE ? FF_VMA_WRITE : 0);
	struct ff_vma v = { 0 };

	if (maps < 0 || ff_vma_ask(maps, (uintptr_t)stash, &v))
		return true;
	return v.start <= (uintptr_t)stash && v.end >= (uintptr_t)stash + len && v.flags == flags &&
	       !v.inode && !v.dev_major && !v.dev_minor;
}

/*
 * The program has unmapped p in the window, some of it or all. What is left of it gets its pages back, and
 * what is mapped there now is not touched.
 */
static void abandon(int uffd, char *p, size_t len, const char *stash)
{
	refill_private(uffd, p, len, stash);
	for (size_t done = 0; done < len; done += FF_PAGE)
		uffd_unregister(uffd, p + done, FF_PAGE);
	uffd_wake(uffd, p, len);
}

int ffl_window_in(int uffd, int maps, const char *nowhere, char *probe, char *p, size_t len,
		  char *stash, char *home, int prot)
{
	int err;

	if (!ffl_window_is_whole(home, len))
		return -EFAULT;
	mm_advise(p, probe ? len : FF_PAGE,
		  prot & PROT_WRITE ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
	err = uffd_register(uffd, p, len, UFFDIO_REGISTER_MODE_MISSING);
	if (err)
		return err;
	err = slide(p, len, stash);
	if (err)
		goto err_unregister;
	if (!is_private(maps, stash, len, prot)) {
		err = -EINVAL;
		goto err_back;
	}
	err = probe ? check_unpinned(uffd, stash, len, probe) : 0;
	if (err)
		goto err_back;
	memcpy(home, stash, len);
	if (nowhere && !is_empty(uffd, p, len, nowhere)) {
		abandon(uffd, p, len, stash);
		return -EAGAIN;
	}
	err = slide_as(home, len, p, prot);
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
	let_go(uffd, p, len);
	return err;
}

int ffl_window_file_in(bool alone, char *p, size_t len, char *stash, char *home, int prot)
{
	int err;

	if (!ffl_window_is_whole(home, len))
		return -EFAULT;
	err = alone ? move(p, len, stash) : slide(p, len, stash);
	if (err)
		return err;
	memcpy(home, stash, len);
	err = slide_as(home, len, p, prot);
	if (err)
		slide(stash, len, p);
	return err;
}

static void copy_pages(char *to, const char *from, size_t len, bool sparse)
{
	size_t n = sparse ? FF_PAGE : len;

	for (size_t i = 0; i < len; i += n)
		if (!sparse || memcmp(to + i, from + i, n))
			memcpy(to + i, from + i, n);
}

int ffl_window_out(int uffd, char *p, size_t len, char *stash, char *home, int prot, bool sparse)
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
	copy_pages(stash, home, len, sparse);
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
	let_go(uffd, p, len);
	return err;
}
