/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libc.c - functions of libc that stand before libc's own, for programs that link with libibverbs.
 * Any thread, any time: in signal handlers, in allocators, before this library has a context.
 *
 * Theory of operation
 * -------------------
 * Shadow pages are a shared mapping (region.c). Most of what a program asks of its memory the kernel
 * does for that as for private memory, or tells the router of (ffr/mem/watch.c). The rest is here:
 *
 *	_Fork(), clone() without CLONE_VM	no handlers run, so fork.c is called from here
 *	MADV_WIPEONFORK, UFFDIO_REGISTER	refused of a shared mapping, or of one that has a userfaultfd: the
 *						pages become private memory again (private.c), and it is asked once more
 *	MADV_DONTFORK, MADV_DOFORK,		done, and means something else: the pages become private first
 *	 MADV_MERGEABLE
 *	guards, MREMAP_DONTUNMAP		done, and what is left has to be empty private memory
 *	MADV_FREE				refused; MADV_DONTNEED does what it promises
 *	MADV_REMOVE, mremap() of size 0,	done, and is to be refused
 *	 remap_file_pages()
 *	shmat() with SHM_REMAP			done, and nobody is told; mremap() does the same, and they are
 *	mremap() of memory of which a part	refused, because it is several mappings now: they are moved one by one
 *	 was registered				The same of memory that is tracked (track.c)
 *
 * The call itself is made by whoever would have been called without this library: libc, as a rule,
 * which UCX and Open MPI patch, so that they learn of it; private.c's and the other calls here are bare
 * system calls, of which they need not learn. A program that never had shadow pages pays for one look
 * at a variable. Bare system calls pass all this by, and so do programs that
 * load libibverbs later, by dlopen(): their names are bound by then.
 *
 * _Fork() is async-signal-safe. The region lock's holder may wait for what the interrupted thread has,
 * the heap's lock for instance. So the lock is waited for 2 s, and then the child has nothing at shadow
 * pages. The interrupted thread does not have the region lock itself, which blocks all signals. For the
 * same reason allocators' calls (MADV_FREE, mremap()) take no lock, and the others wait for 2 s at most,
 * and then fail with EAGAIN.
 *
 * Tests: test_libc.c
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "ffl/mem/region.h"
#include "ffl/mem/track.h"
#include "ffl/session/mm.h"
#include "ffl/session/symver.h"

typedef int clone_fn(int (*fn)(void *), void *stack, int flags, void *arg, ...);

/*
 * dlsym() has been in libc since glibc 2.34, as _Fork() has. Before, a program may have it or not. For
 * clone(), which has a second name in glibc, it is not needed.
 */
FFL_LIBC_BASE(dlsym);
#pragma weak dlsym
#ifdef __GLIBC__
clone_fn __clone;
typedef unsigned long ioctl_request;
#else
typedef int ioctl_request;
#endif

static void *next(const char *name)
{
	return dlsym ? dlsym(RTLD_NEXT, name) : NULL;
}

/* What these names would be without this library; NULL: not known yet, or there is no dlsym(). */
static pid_t (*_Atomic next_fork)(void);
static int (*_Atomic next_madvise)(void *, size_t, int);
static int (*_Atomic next_ioctl)(int, ioctl_request, ...);
static void *(*_Atomic next_mremap)(void *, size_t, size_t, int, ...);
static void *(*_Atomic next_shmat)(int, const void *, int);

__attribute__((constructor)) static void find_next(void)
{
	next_fork = (pid_t(*)(void))next("_Fork");
	next_madvise = (int (*)(void *, size_t, int))next("madvise");
	next_ioctl = (int (*)(int, ioctl_request, ...))next("ioctl");
	next_mremap = (void *(*)(void *, size_t, size_t, int, ...))next("mremap");
	next_shmat = (void *(*)(int, const void *, int))next("shmat");
}

/* Bare system calls until then: allocators make them, which dlsym() may need. */
static int do_madvise(void *addr, size_t len, int advice)
{
	int (*fn)(void *, size_t, int) = next_madvise;

	return fn ? fn(addr, len, advice) : mm_advise(addr, len, advice);
}

static int do_ioctl(int fd, ioctl_request request, void *arg)
{
	int (*fn)(int, ioctl_request, ...) = next_ioctl;

	return fn ? fn(fd, request, arg) : (int)syscall(SYS_ioctl, fd, request, arg);
}

static void *do_mremap(void *old, size_t len, size_t new_len, int flags, void *to)
{
	void *(*fn)(void *, size_t, size_t, int, ...) = next_mremap;

	return fn ? fn(old, len, new_len, flags, to) : mm_remap(old, len, new_len, flags, to);
}

static void *do_shmat(int id, const void *addr, int flags)
{
	void *(*fn)(int, const void *, int) = next_shmat;

	return fn ? fn(id, addr, flags) : (void *)syscall(SYS_shmat, id, addr, flags);
}

/* ---- children ---------------------------------------------------------------------------- */

FFL_EXPORT pid_t _Fork(void)
{
	bool begun;
	pid_t pid;

	if (!next_fork)
		find_next();
	if (!next_fork) {
		errno = ENOSYS;
		return -1;
	}
	begun = ffl_fork_begin(NULL);
	pid = next_fork();
	if (begun && pid)
		ffl_fork_parent(pid);
	else if (begun)
		ffl_fork_child(false);
	return pid;
}

/* What a child made by clone() begins with. */
struct start {
	int (*fn)(void *);
	void *arg;
	int flags;
};

static int start_child(void *arg)
{
	struct start s = *(struct start *)arg;

	ffl_fork_child(s.flags & CLONE_FILES);
	return s.fn(s.arg);
}

static clone_fn *libc_clone(void)
{
#ifdef __GLIBC__
	return __clone;
#else
	return (clone_fn *)next("clone");
#endif
}

FFL_EXPORT int clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
	struct start s = { fn, arg, flags };
	void *parent_tid, *tls, *child_tid;
	va_list ap;
	int pid;

	va_start(ap, arg);
	parent_tid = va_arg(ap, void *);
	tls = va_arg(ap, void *);
	child_tid = va_arg(ap, void *);
	va_end(ap);
	if (flags & CLONE_VM || !fn || !stack || !ffl_fork_begin(stack))
		return libc_clone()(fn, stack, flags, arg, parent_tid, tls, child_tid);
	pid = libc_clone()(start_child, stack, flags, &s, parent_tid, tls, child_tid);
	ffl_fork_parent(pid);
	return pid;
}

/* ---- advice ------------------------------------------------------------------------------ */

/* The kernel does it for a shared mapping, and it would mean something else. */
static bool is_for_private(int advice)
{
	return advice == MADV_DONTFORK || advice == MADV_DOFORK || advice == MADV_MERGEABLE;
}

/* Mappings are gone through without a lock. */
struct walk {
	int maps; /* /proc/self/maps */
	int state;
};

static bool walk_begin(struct walk *w)
{
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &w->state);
	w->maps = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (w->maps < 0)
		pthread_setcancelstate(w->state, NULL);
	return w->maps >= 0;
}

static void walk_end(struct walk *w)
{
	close(w->maps);
	pthread_setcancelstate(w->state, NULL);
}

/*
 * What is written to afterwards stays, and the rest is zeros: at once in shadow pages, and any time
 * elsewhere. Pages of an MR stay, as pinned pages do: a WRITE may have come meanwhile. 0 or errno, as
 * madvise().
 */
static int free_parts(uintptr_t at, uintptr_t end)
{
	struct walk w;
	struct ff_vma v;
	int err = 0;

	if (!walk_begin(&w))
		return EINVAL;
	while (at < end && (!err || err == ENOMEM)) {
		uintptr_t to;
		int advice;

		if (ff_vma_query(w.maps, at, &v) || v.start >= end) {
			err = ENOMEM;
			break;
		}
		if (v.start > at) {
			err = ENOMEM; /* and it goes on behind the hole */
			at = v.start;
		}
		to = v.end < end ? v.end : end;
		if (!ffl_regions_has(&v))
			advice = MADV_FREE;
		else
			advice = ffl_mr_covers(at, to) ? 0 : MADV_DONTNEED;
		if (advice && mm_advise((void *)at, to - at, advice))
			err = errno;
		at = to;
	}
	walk_end(&w);
	return err;
}

/* Private memory without content takes the place of shadow pages. MRs keep these. Not of locked ones. */
static void empty_shadow(uintptr_t at, uintptr_t end)
{
	struct walk w;
	struct ff_vma v;

	if (!walk_begin(&w))
		return;
	for (; at < end && !ff_vma_query(w.maps, at, &v) && v.start < end; at = v.end) {
		uintptr_t from = v.start > at ? v.start : at, to = v.end < end ? v.end : end;
		struct ffl_attr attr;

		if (!ffl_regions_has(&v))
			continue;
		if (ffl_attr_of_shadow(from, to, &attr) || attr.is_locked)
			continue;
		if (mm_map((void *)from, to - from, ffl_vma_prot(&v),
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED)
			ffl_attr_before(&attr, (void *)from, to - from);
	}
	walk_end(&w);
}

/* Guards drop the content, if the kernel knows them (Linux 6.13). */
static bool has_guards(void)
{
	void *p = mm_map(NULL, FF_PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool has = p != MAP_FAILED && !mm_advise(p, FF_PAGE, MADV_GUARD_INSTALL);

	if (p != MAP_FAILED)
		mm_unmap(p, FF_PAGE);
	return has;
}

static int fails(int err)
{
	errno = err;
	return -1;
}

/* The kernel has refused it of a shared mapping. 0 or errno. */
static int advise_again(void *addr, size_t len, int advice)
{
	if (advice == MADV_FREE)
		return free_parts((uintptr_t)addr, PAGE_UP((uintptr_t)addr + len));
	if (ffl_private_make((uintptr_t)addr, len))
		return EAGAIN;
	return mm_advise(addr, len, advice) ? errno : 0;
}

FFL_EXPORT int madvise(void *addr, size_t len, int advice)
{
	uintptr_t at = (uintptr_t)addr;
	int was = errno, err = 0;

	if (is_for_private(advice) && ffl_private_has(at, len) && ffl_private_make(at, len))
		return fails(EAGAIN);
	if (advice == MADV_REMOVE && ffl_private_has(at, len))
		return fails(EINVAL);
	if (advice == MADV_GUARD_INSTALL && !(at % FF_PAGE) && ffl_private_has(at, len) &&
	    has_guards())
		empty_shadow(at, PAGE_UP(at + len));
	if (do_madvise(addr, len, advice))
		err = errno;
	if (err == EINVAL && (advice == MADV_FREE || advice == MADV_WIPEONFORK) &&
	    !(at % FF_PAGE) && ffl_private_has(at, len))
		err = advise_again(addr, len, advice);
	errno = was;
	return err ? fails(err) : 0;
}

/* ---- a userfaultfd of the program's own -------------------------------------------------- */

/* Shadow pages become private memory, and memory that is tracked is so no more. False: there is neither. */
static bool make_free(uintptr_t at, size_t len)
{
	bool done = false;
	int state;

	if (ffl_private_has(at, len)) {
		if (ffl_private_make(at, len))
			return false;
		done = true;
	}
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	done |= ffl_heat_release(at, at + len);
	pthread_setcancelstate(state, NULL);
	return done;
}

FFL_EXPORT int ioctl(int fd, ioctl_request request, ...)
{
	int was = errno, ret;
	va_list ap;
	void *arg;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	ret = do_ioctl(fd, request, arg);
	if (ret && errno == EBUSY && (uint32_t)request == (uint32_t)UFFDIO_REGISTER) {
		const struct uffdio_range r = ((const struct uffdio_register *)arg)->range;

		if (make_free(r.start, r.len)) {
			errno = was;
			return do_ioctl(fd, request, arg);
		}
		errno = EBUSY;
	}
	return ret;
}

/* ---- moving ------------------------------------------------------------------------------ */

#define PARTS_MAX 64u

/* Memory that was one mapping to the program, and is several now. */
struct parts {
	struct part {
		uintptr_t at;
		size_t len;
	} part[PARTS_MAX];
	unsigned num;
};

static bool is_plain(const struct ff_vma *v)
{
	return !(v->flags & FF_VMA_SHARED) && !v->inode && !v->dev_major && !v->dev_minor;
}

/*
 * False: too many, or a hole; or, unless it may be `any`, it was not one mapping before, as far as can
 * be told.
 */
static bool find_parts(struct parts *p, uintptr_t at, uintptr_t end, bool any)
{
	uint32_t flags = 0;
	struct ff_vma v;
	struct walk w;

	p->num = 0;
	if (!walk_begin(&w))
		return false;
	for (; at < end && p->num < PARTS_MAX && !ff_vma_query(w.maps, at, &v); at = v.end) {
		uintptr_t to = v.end < end ? v.end : end;

		if (v.start > at)
			break;
		if (!any && (!(is_plain(&v) || ffl_regions_has(&v)) ||
			     (p->num && flags != (v.flags & ~(uint32_t)FF_VMA_SHARED))))
			break;
		flags = v.flags & ~(uint32_t)FF_VMA_SHARED;
		p->part[p->num++] = (struct part){ at, to - at };
	}
	walk_end(&w);
	return at >= end;
}

/* The parts come to `to`, where nothing of use is; the last one grows by `more`. 0 or errno. */
static int move_parts(const struct parts *p, size_t more, int flags, char *to)
{
	const int how = MREMAP_MAYMOVE | MREMAP_FIXED | (flags & MREMAP_DONTUNMAP);
	size_t done = 0;
	unsigned i;
	int err;

	for (i = 0; i < p->num; i++) {
		const struct part *s = &p->part[i];

		if (mm_remap((void *)s->at, s->len, s->len + (i + 1 == p->num ? more : 0), how,
			     to + done) == MAP_FAILED)
			break;
		done += s->len;
	}
	if (i == p->num)
		return 0;
	err = errno;
	while (i-- > 0) {
		const struct part *s = &p->part[i];

		done -= s->len;
		mm_remap(to + done, s->len, s->len, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)s->at);
	}
	return err;
}

/* As mremap() of one mapping, of all parts, `len` bytes, which do not become fewer. */
static void *remap_parts(const struct parts *p, size_t len, size_t new_len, int flags, void *to)
{
	const struct part *last = &p->part[p->num - 1];
	int err = ENOMEM;
	char *at;

	if (!(flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) &&
	    (new_len == len || mm_remap((void *)last->at, last->len, last->len + new_len - len, 0,
					NULL) != MAP_FAILED))
		return (void *)p->part[0].at;
	if (!(flags & MREMAP_MAYMOVE))
		return MAP_FAILED; /* errno is that of the last part */
	at = mm_map(flags & MREMAP_FIXED ? to : NULL, new_len, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
			    (flags & MREMAP_FIXED ? MAP_FIXED : 0),
		    -1, 0);
	if (at != MAP_FAILED) {
		err = move_parts(p, new_len - len, flags, at);
		if (!err)
			return at;
		mm_unmap(at, new_len);
	}
	errno = err;
	return MAP_FAILED;
}

/*
 * Only moved, to a fixed place: since Linux 6.17 the kernel moves several mappings, whatever they are, but
 * none with a userfaultfd, at which it ends half-way.
 */
static bool is_move(size_t len, size_t new_len, int flags)
{
	return new_len == len && (flags & ~MREMAP_DONTUNMAP) == (MREMAP_MAYMOVE | MREMAP_FIXED);
}

/* What the kernel refuses because it is several mappings. */
static void *remap_several(uintptr_t old, size_t len, size_t new_len, int flags, void *to)
{
	struct parts p;

	if (find_parts(&p, old, old + len, is_move(len, new_len, flags)) && p.num > 1) {
		if (new_len < len) { /* to a fixed place, with less */
			mm_unmap((void *)(old + new_len), len - new_len);
			len = new_len;
			if (!find_parts(&p, old, old + len, false))
				p.num = 0;
		}
		/* nothing changes by these, but others may learn of it (UCX, Open MPI) */
		for (unsigned i = 0; i < p.num; i++)
			do_mremap((void *)p.part[i].at, p.part[i].len, p.part[i].len, 0, NULL);
		if (p.num)
			return remap_parts(&p, len, new_len, flags, to);
	}
	errno = EFAULT;
	return MAP_FAILED;
}

static bool overlaps(uintptr_t a, uintptr_t b, size_t len)
{
	return a < b ? b - a < len : a - b < len;
}

FFL_EXPORT void *mremap(void *old, size_t len, size_t new_len, int flags, ...)
{
	uintptr_t at = (uintptr_t)old;
	int was = errno;
	va_list ap;
	void *to, *ret = MAP_FAILED;

	va_start(ap, flags);
	to = va_arg(ap, void *);
	va_end(ap);
	if (!len && ffl_private_has(at, 1)) {
		errno = EINVAL;
		return MAP_FAILED;
	}
	if (is_move(len, new_len, flags) && !((at | (uintptr_t)to) % FF_PAGE) &&
	    !overlaps(at, (uintptr_t)to, len) && (ffl_track_any() || ffl_private_has(at, len)))
		ret = remap_several(at, PAGE_UP(len), PAGE_UP(len), flags, to);
	if (ret == MAP_FAILED) {
		errno = was;
		ret = do_mremap(old, len, new_len, flags, to);
		if (ret == MAP_FAILED && errno == EFAULT && (ffl_track_any() || ffl_regions_any()))
			ret = remap_several(at, PAGE_UP(len), PAGE_UP(new_len), flags, to);
	}
	if (ret == MAP_FAILED)
		return ret;
	if (flags & MREMAP_DONTUNMAP && ffl_private_has(at, len))
		empty_shadow(at, PAGE_UP(at + len));
	errno = was;
	return ret;
}

/* ---- other memory takes the place ---------------------------------------------------------- */

/* Bytes of the mapping that begins there; 0: not known. */
static size_t mapping_len(const void *at)
{
	struct ff_vma v = { 0 };
	struct walk w;

	if (!walk_begin(&w))
		return 0;
	if (ff_vma_query(w.maps, (uintptr_t)at, &v) || v.start != (uintptr_t)at)
		v.end = v.start;
	walk_end(&w);
	return v.end - v.start;
}

/*
 * With SHM_REMAP, the kernel tells no userfaultfd that the memory goes which was there. With mremap() it does. So the
 * segment is attached somewhere, and moved.
 */
FFL_EXPORT void *shmat(int id, const void *addr, int flags)
{
	void *to = flags & SHM_RND ? (void *)PAGE_DOWN((uintptr_t)addr) : (void *)addr, *at;
	int was = errno;
	size_t len;

	if (!(flags & SHM_REMAP) || !to || (uintptr_t)to % FF_PAGE ||
	    !(ffl_track_any() || ffl_regions_any()))
		return do_shmat(id, addr, flags);
	at = do_shmat(id, NULL, flags & ~(SHM_REMAP | SHM_RND));
	if (at == (void *)-1)
		return at;
	len = mapping_len(at);
	if (len && do_mremap(at, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED) {
		errno = was;
		return to;
	}
	shmdt(at);
	errno = was;
	return do_shmat(id, addr, flags);
}

FFL_EXPORT int remap_file_pages(void *addr, size_t len, int prot, size_t page, int flags)
{
	if (ffl_private_has((uintptr_t)addr, len))
		return fails(EINVAL);
	return (int)syscall(SYS_remap_file_pages, addr, len, prot, page, flags);
}
