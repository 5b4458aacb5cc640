/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * window.c - shared pages take the place of private ones under a running program. Called by
 * apply.c and private.c, with the region lock held, on whatever thread registers memory.
 *
 * Theory of operation
 * -------------------
 * Page table entries go between three mappings of the same length:
 *
 *	p	where the program sees its memory
 *	stash	has the program's own pages while they are copied
 *	home	shared pages, which come to p
 *
 * mremap(MREMAP_DONTUNMAP) takes all entries of p away at once, the TLBs included, and leaves the
 * mapping behind empty. It was registered with a userfaultfd before, so whoever touches it from
 * then on, in user mode or inside a system call, sleeps. That is the window. In it the content is
 * copied from the stash to home, and a second mremap brings home to p, over the registered
 * mapping. Nobody is woken by that, so UFFDIO_WAKE ends the window; the sleepers repeat their
 * access and find the new page. No write can be lost: before the first mremap it is in the page
 * that gets copied, after it, it waits for the page that replaces it. The old pages are freed
 * then, so that replacing takes no more than a window's memory beyond what was there.
 *
 * In a window this thread must not touch p, in any way: no malloc, no stdio, no call of the
 * router, no signal handler (signals are blocked while the region lock is held), own stack,
 * thread control block and errno elsewhere (lock.c and kind.c see to that).
 *
 * The kernel makes one mapping of p and the stash where they happen to be next to each other and
 * nothing in p was ever written to; then it forgets that p is registered (seen with Linux 6.18),
 * and who writes to p in the window writes to a page that goes. So a page of p is written to
 * first.
 *
 * What other threads do to p's mapping meanwhile, by any way:
 *
 *	madvise(MADV_DONTNEED) finds nothing to drop, and the pages would come back with their old
 *	content. So the userfaultfd tells of it: the caller sleeps until the event is read here, and
 *	the page that it meant is zero at home. Where an event is read when home is at p already, its
 *	caller goes on to drop entries of p, whose content is the file's: a hole is punched there.
 *	munmap() and mmap(): what was slid away is looked at before it is copied, and whether p is
 *	still the empty mapping just before the second mremap. What remains is such a call between
 *	these two system calls, and a mremap() of exactly these pages in the window, which moves the
 *	empty mapping.
 *
 * A device, or io_uring, may have been given pages of p by their numbers (O_DIRECT, registered
 * buffers): what it writes to the old page after the copy would be lost. UFFDIO_MOVE (Linux 6.8)
 * does not move such pages, so those that were slid away, which nobody can reach any more, are
 * moved by it to the probe and back: 20 us for 1 MB. Where one does not move, p is left as it is. A huge
 * page that nobody has is refused now and then, too, and moved the next time; nobody can be given a page meanwhile.
 * Nor does it move pages that a child of fork() shares; p is written to first, all of it. Older
 * kernels tell only whether the process has such pages at all: then none is replaced.
 *
 * Just before home comes it is asked whether p's mapping is as home's was made to be (attr.c). If
 * not, the window is given up, and the caller has to find out what the program has asked of it.
 *
 * Private pages of a file are none that a userfaultfd can watch. Those that nobody can write to
 * need no window: what is left at p when they are slid away is the same file, and whoever reads
 * it sees the same bytes. Others are replaced only while there is no other thread; the router,
 * which may copy to them, finds nothing mapped for the moment, and tries again.
 *
 * The other way, shared pages become private ones again (ffl_window_out()). They are registered with
 * the router's userfaultfd, which lets nobody sleep. So they go to the stash, registered as they are,
 * and a new mapping of the same file takes their place, which is not. A fault from before, which the
 * router has not answered yet, it would answer in any userfaultfd's range: so it is waited for. Then the
 * new mapping is registered here and its entries are slid away, to where nobody reads. From then on p is
 * empty as above. Pages that have
 * no entry in the stash are faulted on when they are copied, and the router answers: those that
 * were dropped are zeros. The router's own accesses must have ended before. No way is known to tell
 * whether a device or io_uring has such a page, so what that writes afterwards is lost.
 *
 * The second mremap can fail when the process has too many mappings. Undoing the first one may
 * fail for the same reason; then the pages are put back one by one by the userfaultfd, which
 * needs no mapping.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ffr/abi/ff_vma.h"
#include "ffr/abi/ff_proto.h"
#include "ffr/abi/ff_ring.h"
#include "ffl/session/ffl.h"
#include "ffl/session/mm.h"
#include "ffl/mem/attr.h"
#include "ffl/mem/window.h"

#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
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

#define WINDOW_FEATURES                                                                            \
	(UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MINOR_SHMEM)

#define MOVE_TRIES 1000u
#define BUSY_TRIES 3u
#define PAGES_MAX  (FFL_WINDOW_MAX / 4096) /* of the smallest that there are */

/* All of it: the region lock. */
static int uffd = -1; /* -1: there are no windows */
static char *stash;   /* FFL_WINDOW_MAX bytes of address space, in which nothing can be read */
/* as many bytes, private, never touched, registered; NULL: the kernel cannot tell what is pinned */
static char *probe;
static bool probe_locked;
static char *nowhere;  /* where nobody can read: a page */
static char *anywhere; /* a page that is registered, and there */

/* The window that is open. */
static struct {
	char *p;
	size_t len;
	bool any;
	bool gone[PAGES_MAX]; /* pages that some thread has dropped since it was opened */
} open_window;

static int uffd_register(char *p, size_t len, uint64_t mode)
{
	return mm_uffd_register(uffd, p, len, mode) ? -errno : 0;
}

static void uffd_unregister(char *p, size_t len)
{
	struct uffdio_range r = { (uintptr_t)p, len };

	ioctl(uffd, UFFDIO_UNREGISTER, &r);
}

static void uffd_wake(char *p, size_t len)
{
	struct uffdio_range r = { (uintptr_t)p, len };

	ioctl(uffd, UFFDIO_WAKE, &r);
}

/*
 * Read what the kernel tells of pages of the window that were dropped. Whoever dropped them
 * sleeps until then, and so long other calls of the userfaultfd fail with EAGAIN.
 */
static void drain(void)
{
	struct uffd_msg m;

	while (read(uffd, &m, sizeof(m)) == sizeof(m)) {
		uintptr_t from = m.arg.remove.start, to = m.arg.remove.end;
		uintptr_t p = (uintptr_t)open_window.p, end = p + open_window.len;

		if (m.event != UFFD_EVENT_REMOVE)
			continue; /* who touches p sleeps on */
		from = from > p ? from : p;
		to = to < end ? to : end;
		for (; from < to; from += FF_PAGE)
			open_window.gone[(from - p) / FF_PAGE] = open_window.any = true;
	}
}

/* The pages that were dropped are zero at home, which is not at p yet. */
static void clear_gone(char *home)
{
	if (!open_window.any)
		return;
	for (size_t i = 0; i < open_window.len / FF_PAGE; i++)
		if (open_window.gone[i])
			memset(home + i * FF_PAGE, 0, FF_PAGE);
}

/* Is somebody's event still to be read? */
static bool is_changing(void)
{
	struct uffdio_copy c = { .dst = (uintptr_t)anywhere,
				 .src = (uintptr_t)nowhere,
				 .len = FF_PAGE };

	return ioctl(uffd, UFFDIO_COPY, &c) && errno == EAGAIN;
}

/* What is dropped, or was, since the last look. */
static void find_gone(void)
{
	memset(&open_window.gone, 0, sizeof(open_window.gone));
	open_window.any = false;
	for (drain(); is_changing(); drain())
		sched_yield(); /* its event has been read, or will be; the caller has to run */
	drain();
}

/* The file has none of the pages that were dropped. */
static void punch(const struct ffl_swap *s)
{
	for (size_t i = 0; open_window.any && i < s->len / FF_PAGE; i++)
		if (open_window.gone[i])
			fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				  (off_t)(s->off + i * FF_PAGE), FF_PAGE);
}

/*
 * Home is at p. Whoever has dropped pages of it since drops entries only: the file must not have
 * them, either.
 */
static void punch_gone(const struct ffl_swap *s)
{
	find_gone();
	punch(s);
}

/* The window is given up. Pages untouched so far are missing, too: somebody may sleep. */
static void let_go(char *p, size_t len)
{
	uffd_unregister(p, len);
	uffd_wake(p, len);
	drain();
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

/* What was in the stash is freed. */
static void stash_empty(void)
{
	mm_map(stash, FFL_WINDOW_MAX, PROT_NONE,
	       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/*
 * All pages that may go from one place to the other, which is registered. 0 or -errno; *done:
 * bytes that have gone.
 */
static int carry(char *from, size_t len, char *to, size_t *done)
{
	unsigned tries = 0, busy = 0;

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
		else if (errno == EBUSY && ++busy <= BUSY_TRIES)
			continue;
		else if (errno != EAGAIN || ++tries > MOVE_TRIES)
			return -errno;
		else
			drain();
	}
	return 0;
}

/* Has nobody the stash's pages by their numbers? 0 or -errno. */
static int check_unpinned(size_t len)
{
	size_t done, back = 0;
	int err;

	err = uffd_register(stash, len, UFFDIO_REGISTER_MODE_MISSING);
	if (err)
		return err;
	err = carry(stash, len, probe, &done);
	if (err == -EINVAL && !done) { /* the kernel wants both to be locked, or neither */
		/* not by mlock(), which would wait for the userfaultfd */
		if (probe_locked ? !syscall(SYS_munlock, probe, FFL_WINDOW_MAX) :
				   !syscall(SYS_mlock2, probe, FFL_WINDOW_MAX, MLOCK_ONFAULT)) {
			probe_locked = !probe_locked;
			err = carry(stash, len, probe, &done);
		}
	}
	if (done)
		carry(probe, done, stash, &back);
	uffd_unregister(stash, len);
	if (back < done) { /* cannot be; copies would do */
		memcpy(stash + back, probe + back, done - back);
		mm_advise(probe, FFL_WINDOW_MAX, MADV_DONTNEED);
	}
	return err;
}

/*
 * Home comes to p, with p's protection. 0 or -errno; then it is where it was, readable and
 * writable.
 */
static int come(const struct ffl_swap *s)
{
	const int rw = PROT_READ | PROT_WRITE;
	int err;

	if (s->prot != rw && mm_protect(s->home, s->len, s->prot))
		return -errno;
	err = move(s->home, s->len, s->p);
	if (err && s->prot != rw)
		mm_protect(s->home, s->len, rw);
	return err;
}

/*
 * Is all of [p, p + len) still the mapping that was registered? The kernel looks for one of any
 * userfaultfd, which memory that was moved there may have as well (track.c), before it finds that
 * there is nothing to be copied from; and no memory has two.
 */
static bool is_registered(char *p, size_t len)
{
	struct uffdio_copy c = { .dst = (uintptr_t)p, .src = (uintptr_t)nowhere, .len = len };

	while (ioctl(uffd, UFFDIO_COPY, &c) && errno == EAGAIN)
		drain();
	return errno == EFAULT && !uffd_register(p, len, UFFDIO_REGISTER_MODE_MISSING);
}

/*
 * p, registered and empty, gets copies of the stash's pages back, but for those that were
 * dropped.
 */
static void refill(char *p, size_t len)
{
	for (size_t done = 0; done < len;) {
		struct uffdio_copy c = {
			.dst = (uintptr_t)p + done,
			.src = (uintptr_t)stash + done,
			.len = FF_PAGE,
		};

		if (!open_window.gone[done / FF_PAGE] && is_registered(p + done, FF_PAGE) &&
		    ioctl(uffd, UFFDIO_COPY, &c) && (errno == EAGAIN || errno == ENOMEM)) {
			drain();
			continue;
		}
		done += FF_PAGE; /* it is there, or was already, or p was unmapped */
	}
}

/* The stash's pages go back to p. */
static void go_back(char *p, size_t len)
{
	drain();
	for (size_t i = 0; open_window.any && i < len / FF_PAGE; i++)
		if (open_window.gone[i])
			mm_advise(stash + i * FF_PAGE, FF_PAGE, MADV_DONTNEED);
	if (slide(stash, len, p)) {
		refill(p, len);
		let_go(p, len);
	} else {
		uffd_wake(p, len);
		drain();
	}
}

/*
 * Is what was slid away plain private memory, all of it? True, too, where the kernel cannot be
 * asked.
 */
static bool is_private(const struct ffl_swap *s)
{
	uint32_t flags = FF_VMA_READ | (s->prot & PROT_WRITE ? FF_VMA_WRITE : 0);
	struct ff_vma v = { 0 };

	if (s->maps < 0 || ff_vma_ask(s->maps, (uintptr_t)stash, &v))
		return true;
	return v.start <= (uintptr_t)stash && v.end >= (uintptr_t)stash + s->len &&
	       v.flags == flags && !v.inode && !v.dev_major && !v.dev_minor;
}

/*
 * The program has unmapped p in the window, some of it or all. What is mapped there now is not
 * touched.
 */
static void leave(char *p, size_t len)
{
	for (size_t done = 0; done < len; done += FF_PAGE)
		if (is_registered(p + done, FF_PAGE))
			uffd_unregister(p + done, FF_PAGE);
	uffd_wake(p, len);
	drain();
}

/* The program has mapped something else at a part of p: what is left of p gets its pages back. */
static void abandon(char *p, size_t len)
{
	refill(p, len);
	leave(p, len);
}

/*
 * Does the process have pages pinned, any? VmPin counts what io_uring and RDMA NICs have, and not what O_DIRECT has
 * for a moment.
 */
static bool has_pins(void)
{
	char buf[2048];
	const char *p;
	ssize_t n;
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	n = read(fd, buf, sizeof(buf) - 1);
	close(fd);
	buf[n > 0 ? n : 0] = 0;
	p = strstr(buf, "\nVmPin:");
	return p && p[7 + strspn(p + 7, " \t0")] != 'k';
}

static int swap(const struct ffl_swap *s)
{
	/* nobody writes to what may only be read, and the kernel does not move it */
	bool check = probe && s->prot & PROT_WRITE, all = check || !(s->prot & PROT_WRITE);
	int err;

	if (!probe && has_pins())
		return -EBUSY;
	if (mm_advise(s->p, all ? s->len : FF_PAGE,
		      s->prot & PROT_WRITE ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) &&
	    all)
		return -errno; /* MADV_GUARD_INSTALL, or there is no memory */
	err = ffl_attr_expect(s->attr, s->prot, s->len);
	if (!err)
		err = uffd_register(s->p, s->len, UFFDIO_REGISTER_MODE_MISSING);
	if (err)
		return err == -EBUSY ? -EEXIST : err;
	err = slide(s->p, s->len, stash);
	if (err) {
		let_go(s->p, s->len);
		return err;
	}
	if (!is_private(s))
		err = -EINVAL;
	else if (check)
		err = check_unpinned(s->len);
	if (!err) {
		memcpy(s->home, stash, s->len);
		if (ffl_attr_is_locked(stash) != s->attr->is_locked ||
		    !ffl_attr_is(uffd, s->p, s->len))
			err = -ESTALE;
	}
	if (!is_registered(s->p, s->len)) {
		abandon(s->p, s->len);
		return -EAGAIN;
	}
	drain();
	if (err)
		goto err_back;
	clear_gone(s->home);
	err = come(s);
	if (err)
		goto err_back;
	punch_gone(s);
	uffd_wake(s->p, s->len);
	return 0;

err_back:
	go_back(s->p, s->len);
	return err;
}

static void window_open(const struct ffl_swap *s)
{
	open_window.p = s->p;
	open_window.len = s->len;
	open_window.any = false;
	memset(open_window.gone, 0, sizeof(open_window.gone));
}

int ffl_window_in(const struct ffl_swap *s)
{
	int err;

	if (uffd < 0)
		return -EOPNOTSUPP;
	window_open(s);
	err = swap(s);
	ffl_attr_forget();
	stash_empty();
	return err;
}

/* ---- the other way ----------------------------------------------------------------------- */

/* Are the file's pages there, all of them, with p's protection? */
static bool is_of_file(const struct ffl_swap *s, const char *at)
{
	uint32_t flags = FF_VMA_SHARED | (s->prot & PROT_READ ? FF_VMA_READ : 0) |
			 (s->prot & PROT_WRITE ? FF_VMA_WRITE : 0) |
			 (s->prot & PROT_EXEC ? FF_VMA_EXEC : 0);
	uintptr_t va = (uintptr_t)at;
	struct ff_vma v = { 0 };
	struct stat st;

	return !ff_vma_query(s->maps, va, &v) && !syscall(SYS_fstat, s->fd, &st) && v.start <= va &&
	       v.end >= va + s->len && v.flags == flags && v.inode == st.st_ino &&
	       v.offset + (va - v.start) == s->off;
}

/* p has the file's pages, and who touches it sleeps. 0 or -errno. */
static int shut(const struct ffl_swap *s, int (*settled)(void *arg), void *arg)
{
	int err;

	if (mm_map(s->p, s->len, s->prot, MAP_SHARED | MAP_FIXED, s->fd, (off_t)s->off) ==
	    MAP_FAILED)
		return -errno;
	err = settled(arg);
	if (!err)
		err = uffd_register(s->p, s->len,
				    UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR);
	if (err)
		return err;
	/* entries that came in between */
	err = slide(s->p, s->len, nowhere);
	mm_map(nowhere, FFL_WINDOW_MAX, PROT_NONE,
	       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	return err;
}

/* p is the mapping again that it was, unless the program has mapped something else there. */
static void reopen(const struct ffl_swap *s)
{
	drain();
	if (!is_of_file(s, s->p)) {
		leave(s->p, s->len);
		return;
	}
	punch(s);
	mm_protect(stash, s->len, s->prot);
	if (move(stash, s->len,
		 s->p)) /* too many mappings: nobody tells of what is dropped there */
		uffd_unregister(s->p, s->len);
	punch_gone(s);
	uffd_wake(s->p, s->len);
}

/* Private pages are at p. Whoever has dropped pages of it since has them dropped. */
static void drop_gone(const struct ffl_swap *s)
{
	find_gone();
	for (size_t i = 0; open_window.any && i < s->len / FF_PAGE; i++)
		if (open_window.gone[i])
			mm_advise(s->p + i * FF_PAGE, FF_PAGE, MADV_DONTNEED);
}

static int swap_out(const struct ffl_swap *s, int (*settled)(void *arg), void *arg)
{
	int err;

	/* other memory would be away for a moment, and nobody who touches it then sleeps */
	if (!is_of_file(s, s->p))
		return -EAGAIN;
	err = slide(s->p, s->len, stash);
	if (err)
		return err;
	if (!is_of_file(s, stash)) {
		move(stash, s->len, s->p);
		return -EAGAIN;
	}
	err = shut(s, settled, arg);
	if (!err && mm_protect(stash, s->len, PROT_READ))
		err = -errno;
	if (err) {
		reopen(s);
		return err;
	}
	memcpy(s->home, stash, s->len);
	if (!is_registered(s->p, s->len)) {
		leave(s->p, s->len);
		return -EAGAIN;
	}
	drain();
	clear_gone(s->home);
	err = come(s);
	if (err) {
		reopen(s);
		return err;
	}
	drop_gone(s);
	uffd_wake(s->p, s->len);
	return 0;
}

int ffl_window_out(const struct ffl_swap *s, int (*settled)(void *arg), void *arg)
{
	int err;

	if (uffd < 0)
		return -EOPNOTSUPP;
	window_open(s);
	err = swap_out(s, settled, arg);
	stash_empty();
	return err;
}

int ffl_window_file_in(const struct ffl_swap *s, bool alone)
{
	int err;

	if (uffd < 0)
		return -EOPNOTSUPP;
	err = alone ? move(s->p, s->len, stash) : slide(s->p, s->len, stash);
	if (err)
		return err;
	memcpy(s->home, stash, s->len);
	err = come(s);
	if (err)
		slide(stash, s->len, s->p);
	stash_empty();
	return err;
}

/* ---- what windows need ------------------------------------------------------------------- */

int ffl_uffd_open(int uffd_dev, uint64_t features)
{
	struct uffdio_api api = { .api = UFFD_API, .features = features };
	int fd, err;

	fd = ioctl(uffd_dev, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	err = ioctl(fd, UFFDIO_API, &api) ? -errno : 0;
	if (!err && features & ~api.features)
		err = -EOPNOTSUPP;
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

/*
 * Between pages that nobody can read: the kernel makes one mapping of neighbours that have
 * everything in common, and p may come to be the neighbour.
 */
static char *map(size_t len, int prot)
{
	char *p = mm_map(NULL, len + 2 * FF_PAGE, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	if (prot != PROT_NONE && mm_protect(p + FF_PAGE, len, prot)) {
		mm_unmap(p, len + 2 * FF_PAGE);
		return NULL;
	}
	return p + FF_PAGE;
}

static void unmap(char **p, size_t len)
{
	if (*p)
		mm_unmap(*p - FF_PAGE, len + 2 * FF_PAGE);
	*p = NULL;
}

static void probe_open(void)
{
	probe_locked = false;
	probe = map(FFL_WINDOW_MAX, PROT_READ | PROT_WRITE);
	/* mlockall() may have made pages */
	if (probe && (syscall(SYS_munlock, probe, FFL_WINDOW_MAX) ||
		      mm_advise(probe, FFL_WINDOW_MAX, MADV_DONTNEED) ||
		      uffd_register(probe, FFL_WINDOW_MAX, UFFDIO_REGISTER_MODE_MISSING)))
		unmap(&probe, FFL_WINDOW_MAX);
}

int ffl_window_init(int uffd_dev)
{
	bool moves = true;
	int err = -ENOMEM;

	if (uffd >= 0)
		return 0;
	uffd = ffl_uffd_open(uffd_dev, WINDOW_FEATURES | UFFD_FEATURE_MOVE);
	if (uffd < 0) {
		moves = false;
		uffd = ffl_uffd_open(uffd_dev, WINDOW_FEATURES);
	}
	if (uffd < 0)
		return uffd;
	uffd = ffl_fd_high(uffd);
	stash = map(FFL_WINDOW_MAX, PROT_NONE);
	nowhere = map(FFL_WINDOW_MAX, PROT_NONE);
	anywhere = map(FF_PAGE, PROT_READ | PROT_WRITE);
	if (!stash || !nowhere || !anywhere)
		goto err_fini;
	*(volatile char *)anywhere = 0;
	err = uffd_register(anywhere, FF_PAGE, UFFDIO_REGISTER_MODE_MISSING);
	if (!err)
		err = ffl_attr_init(FFL_WINDOW_MAX);
	if (err)
		goto err_fini;
	if (moves)
		probe_open();
	return 0;

err_fini:
	ffl_window_fini(true);
	return err;
}

void ffl_window_fini(bool fd_too)
{
	if (fd_too && uffd >= 0)
		close(uffd);
	uffd = -1;
	unmap(&stash, FFL_WINDOW_MAX);
	unmap(&nowhere, FFL_WINDOW_MAX);
	unmap(&anywhere, FF_PAGE);
	unmap(&probe, FFL_WINDOW_MAX);
	ffl_attr_fini();
}

bool ffl_window_knows_pins(void)
{
	return probe != NULL;
}
