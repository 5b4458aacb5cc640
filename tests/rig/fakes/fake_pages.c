/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* fake_pages.c - see fake_pages.h. */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/rig/fakes/fake_pages.h"
#include "ffr/abi/ff_vma.h"
#include "ffr/mem/orphans.h"
#include "ffr/mem/pages_int.h"

/* Each allocation is a mapping, with its length in front. */
#define HEAD 64u

static void *own_calloc(size_t n, size_t size)
{
	size_t len = HEAD + n * size;
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	*(size_t *)p = len;
	return p + HEAD;
}

static void own_free(void *p)
{
	if (p)
		munmap((char *)p - HEAD, *(size_t *)((char *)p - HEAD));
}

static void *own_realloc(void *old, size_t size)
{
	char *p = own_calloc(1, size);
	size_t had = old ? *(size_t *)((char *)old - HEAD) - HEAD : 0;

	if (p && old) {
		memcpy(p, old, had < size ? had : size);
		own_free(old);
	}
	return p;
}

/* The router's own mappings of files, which the kernel tells of as if they were the program's. */
#define MAX_MAPS 4096u
static struct {
	uintptr_t at, end;
} own_map[MAX_MAPS];
static unsigned num_own; /* of these places have been used */
static pthread_mutex_t own_lock = PTHREAD_MUTEX_INITIALIZER;

/* Add it, or with `end` 0 forget it, if it is one. */
static void own_map_set(uintptr_t at, uintptr_t end)
{
	unsigned i;

	pthread_mutex_lock(&own_lock);
	for (i = 0; i < MAX_MAPS && own_map[i].at != (end ? 0 : at); i++)
		;
	if (i == MAX_MAPS && end)
		abort();
	if (i < MAX_MAPS) {
		if (i >= num_own)
			num_own = i + 1;
		own_map[i].at = end ? at : 0;
		own_map[i].end = end;
	}
	pthread_mutex_unlock(&own_lock);
}

static bool is_own_map(const struct ff_vma *v)
{
	bool is = false;

	pthread_mutex_lock(&own_lock);
	for (unsigned i = 0; i < num_own && !is; i++)
		is = v->start >= own_map[i].at && v->end <= own_map[i].end;
	pthread_mutex_unlock(&own_lock);
	return is;
}

static int programs_vma_query(int maps, uint64_t at, struct ff_vma *v)
{
	int err;

	while (!(err = ff_vma_query(maps, at, v)) && is_own_map(v))
		at = v->end;
	return err;
}

static int own_munmap(void *p, size_t len)
{
	own_map_set((uintptr_t)p, 0);
	return munmap(p, len);
}

/* Likewise, all of them. */
static int programs_vma_each(int maps, ff_vma_fn *fn, void *arg)
{
	struct ff_vma v = { 0 };
	int err;

	while (!(err = programs_vma_query(maps, v.end, &v)))
		if (!fn(arg, &v))
			return 0;
	return err == -ENOENT ? 0 : err;
}

#define ff_vma_query programs_vma_query
#define ff_vma_each  programs_vma_each
#define munmap	     own_munmap
#define calloc	     own_calloc
#define realloc	     own_realloc
#define free	     own_free
#include "ffr/mem/pages.c"
#include "ffr/mem/watch.c"
#include "ffr/mem/track.c"
#undef ff_vma_query
#undef ff_vma_each
#undef munmap
#undef calloc
#undef realloc
#undef free
#define uffd guard_uffd
#include "ffr/mem/guard.c"
#undef uffd

/* ---- what these need of the rest of a router --------------------------------------------- */

enum log_level log_level;

void log_write(enum log_level level, const char *fmt, ...)
{
	(void)level;
	(void)fmt;
}

int sandbox_enter(enum sandbox_kind kind)
{
	(void)kind;
	return 0;
}

void ledger_bar(struct ledger *l, enum ledger_bar why)
{
	(void)l;
	(void)why;
}

void ledger_event(struct ledger *l, bool is_under_way)
{
	(void)l;
	(void)is_under_way;
}

int quota_charge(struct container *c, enum quota q, uint64_t n)
{
	(void)c;
	(void)q;
	(void)n;
	return 0;
}

void quota_return(struct container *c, enum quota q, uint64_t n)
{
	(void)c;
	(void)q;
	(void)n;
}

int sigbus_watch(void *map, uint64_t size, uint64_t unit, struct session *s)
{
	(void)map;
	(void)size;
	(void)unit;
	(void)s;
	return 0;
}

void sigbus_unwatch(int watch)
{
	(void)watch;
}

/* libuv's, with which these tests are not linked. */
uint64_t uv_hrtime(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Of each new mapping: children of the program have none of the router's memory. */
void memory_near(void *map, uint64_t size, int node)
{
	(void)node;
	if (syscall(SYS_madvise, map, size, MADV_DONTFORK))
		abort();
	own_map_set((uintptr_t)map, (uintptr_t)map + size);
}

int sealed_memfd(const char *name, uint64_t size)
{
	int fd = (int)syscall(SYS_memfd_create, name, 1 /* MFD_CLOEXEC */);

	if (fd < 0 || ftruncate(fd, (off_t)size))
		abort();
	return fd;
}

int orphans_add(const struct container *c, const int *fd, unsigned num, int *heir)
{
	(void)c;
	(void)fd;
	(void)num;
	*heir = -1;
	return 0;
}

void unmap_later(struct session *s, void *map, uint64_t size, int fd)
{
	(void)s;
	(void)fd;
	own_munmap(map, size);
}

/* ---- the process ------------------------------------------------------------------------- */

static unsigned num_threads; /* of watch.c, which do not end */
static pid_t threads_of;

/*
 * The library asks how many threads the program has; the router's are none of it. Calls have
 * fewer arguments than are read here, which AddressSanitizer minds.
 */
__attribute__((no_sanitize_address)) long syscall(long nr, ...)
{
	static long (*real)(long nr, ...);
	long a[6], ret;
	va_list ap;

	if (!real)
		real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	va_start(ap, nr);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	ret = real(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (!ret && nr == SYS_newfstatat && !strcmp((const char *)a[1], "/proc/self/task") &&
	    threads_of == getpid())
		((struct stat *)a[2])->st_nlink -= num_threads;
	return ret;
}

__attribute__((constructor)) static void find_syscall(void)
{
	syscall(SYS_getppid);
}

/* ---- sessions ---------------------------------------------------------------------------- */

struct fake_pages {
	struct session ses;
	int file; /* -1: none */
};

#define MAX_WATCHED 1024u
static int watched
	[MAX_WATCHED]; /* userfaultfds of sessions, also of those that have ended: their threads go on */
static unsigned num_watched;

struct fake_pages *fake_pages_new(void)
{
	struct fake_pages *f = own_calloc(1, sizeof(*f));

	if (!f)
		abort();
	f->file = -1;
	return f;
}

void fake_pages_end(struct fake_pages *f)
{
	pages_end(&f->ses);
	track_stop(&f->ses);
	if (f->file >= 0)
		close(f->file);
	own_free(f);
}

int fake_pages_track(struct fake_pages *f, int uffd)
{
	return track_start(&f->ses, uffd);
}

int fake_pages_uffd(struct fake_pages *f)
{
	int fd = fcntl(track_fd(&f->ses), F_DUPFD_CLOEXEC, 0);

	if (fd < 0)
		abort();
	return fd;
}

void *fake_pages_tracked(struct fake_pages *f, uint64_t addr, uint64_t len, int *err)
{
	const struct mr mr = { .addr = addr, .length = len };
	struct tracked *t = NULL;

	*err = track_new(&f->ses, &mr, &t);
	return t;
}

void fake_pages_untrack(void *tracked)
{
	track_put(tracked);
}

int fake_pages_track_pages(struct fake_pages *f, const struct ff_track_pages_req *req)
{
	return track_pages(&f->ses, req->op, req->va, req->len);
}

bool fake_pages_known(struct fake_pages *f, uint64_t va, uint64_t len)
{
	return track_is_known(&f->ses, va, len);
}

void fake_pages_open(struct fake_pages *f)
{
	track_open(&f->ses);
}

uint64_t fake_pages_where(void *tracked, uint64_t va)
{
	uint64_t at;

	if (!track_begin(tracked, va, 1, &at))
		return FAKE_NOT_NOW;
	track_end(tracked);
	return at == TRACK_GONE ? 0 : at;
}

int fake_pages_watch(struct fake_pages *f, int uffd, int pagemap, int *file)
{
	int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC), err;

	if (guard_uffd >= 0 && threads_of != getpid()) { /* the parent's */
		close(guard_uffd);
		guard_uffd = -1;
	}
	if (f->ses.mem.pages || mem < 0)
		abort();
	f->file = (int)syscall(SYS_memfd_create, "fake-shadow", 1 /* MFD_CLOEXEC */);
	if (f->file < 0 || ftruncate(f->file, (off_t)(REGIONS_MAX * FF_PAGES_STRIDE)))
		abort();
	f->ses.mem.maps_fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (f->ses.mem.maps_fd < 0)
		abort();
	err = pages_watch(&f->ses, uffd, pagemap, mem, f->file);
	close(f->ses.mem.maps_fd);
	close(mem);
	if (num_watched == MAX_WATCHED)
		abort();
	if (!err)
		watched[num_watched++] = f->ses.mem.pages->uffd;
	if (!err && threads_of != getpid()) {
		threads_of = getpid();
		num_threads = 0;
	}
	num_threads += !err;
	*file = fcntl(f->file, F_DUPFD_CLOEXEC, 0);
	return err;
}

int fake_pages_place(struct fake_pages *f, const struct ff_place_pages_req *req, uint64_t limit,
		     struct ff_place_pages_resp *resp, int *uffd)
{
	int err = pages_place(&f->ses, req, limit, &resp->off, uffd);

	if (!err)
		*uffd = fcntl(*uffd, F_DUPFD_CLOEXEC, 0);
	return err;
}

uint64_t fake_pages_inode(const struct fake_pages *f)
{
	struct stat st;

	return f->file >= 0 && !fstat(f->file, &st) ? st.st_ino : 0;
}

uint64_t fake_pages_idle(struct fake_pages *f)
{
	return pages_idle(&f->ses);
}

void *fake_pages_get(struct fake_pages *f, uint64_t off, uint64_t len, uint8_t **host)
{
	return pages_get(&f->ses, off, len, host);
}

void fake_pages_put(struct fake_pages *f, void *region)
{
	pages_put(&f->ses, region);
}

bool fake_pages_has(int fd)
{
	for (unsigned i = 0; i < num_watched; i++)
		if (watched[i] == fd)
			return true;
	return fd == guard_uffd;
}

uint64_t fake_pages_bytes(const struct fake_pages *f)
{
	struct stat st;

	if (f->file < 0)
		return 0;
	if (fstat(f->file, &st))
		abort();
	return (uint64_t)st.st_blocks * 512;
}
