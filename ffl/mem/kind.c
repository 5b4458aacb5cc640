/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * kind.c - what private memory is used for, as far as it matters for replacing its pages: is it a stack, a file's, or
 * plain memory? Called by apply.c with the region lock held, on whatever thread registers memory. plan.c has the
 * rules.
 */
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ffl/session/mm.h"
#include "ffl/mem/region.h"

/* Bytes around the frame of the check that registering uses of its stack; generous. */
#define FRAMES_BELOW ((uintptr_t)16 << 10)
#define FRAMES_ABOVE ((uintptr_t)16 << 10)

/* Thread-local bytes of libraries that are loaded later: what libc sets aside, and more. */
#define TLS_LATER 4096u

/* What is above a control block: thread-local memory, but on x86, where it is below (psABIs' variants I and II). */
#ifdef __x86_64__
#define ABOVE_BLOCK 0u
#else
#define ABOVE_BLOCK (2 * FF_PAGE + tls_bytes)
#endif

/* /proc/self/pagemap, an entry for each page */
#define PM_PRESENT (1ull << 63)
#define PM_SWAP	   (1ull << 62)
#define PM_FILE	   (1ull << 61)
#define PM_ENTRIES 64u

/* Bytes beside a control block that may be thread-local, and the block that this library was loaded beside. */
static size_t tls_bytes;
static uintptr_t first_self;

__attribute__((constructor)) static void remember_first_self(void)
{
	first_self = (uintptr_t)pthread_self();
}

static int add_tls(struct dl_phdr_info *info, size_t size, void *sum)
{
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_TLS)
			*(size_t *)sum += info->dlpi_phdr[i].p_memsz + info->dlpi_phdr[i].p_align;
	return 0;
}

/* dl_iterate_phdr() takes a lock of the loader's, so not with the region lock. */
void ffl_kind_init(struct ffl_context *ctx)
{
	const char *v = secure_getenv("FFL_REPLACE");
	size_t sum = TLS_LATER;

	if (v && !strcmp(v, "whole"))
		ctx->whole_pages = true;
	dl_iterate_phdr(add_tls, &sum);
	if (sum > tls_bytes)
		tls_bytes = sum;
}

/* Entries of /proc/self/task, as getdents64(2) has them. */
struct task {
	uint64_t ino;
	int64_t off;
	uint16_t len;
	uint8_t type;
	char name[];
};

/*
 * The address that the kernel has of a thread's control block, for robust mutexes; 0: none. The first thread's is
 * somewhere else than its stack.
 */
static uintptr_t block_of(const struct task *t)
{
	void *head = NULL;
	size_t len;
	int tid = atoi(t->name); /* 0: "." and ".." */

	if (!tid || tid == getpid() || syscall(SYS_get_robust_list, tid, &head, &len))
		return 0;
	return (uintptr_t)head;
}

/* The first control block in [start, end); 0: there is none, or one cannot tell. */
static uintptr_t first_block(uintptr_t start, uintptr_t end)
{
	_Alignas(struct task) char buf[2048];
	const struct task *t;
	uintptr_t first = 0, block;
	int fd = open("/proc/self/task", O_RDONLY | O_CLOEXEC | O_DIRECTORY);
	long n;

	if (fd < 0)
		return 0;
	while ((n = syscall(SYS_getdents64, fd, buf, sizeof(buf))) > 0) {
		for (long at = 0; at < n; at += t->len) {
			t = (const void *)(buf + at);
			block = block_of(t);
			if (block >= start && block < end && (!first || block < first))
				first = block;
		}
	}
	close(fd);
	return first;
}

/*
 * The end of the stack that begins mapping v. The kernel makes one mapping of a stack and of the memory right above it,
 * such as a large allocation that is older than the thread (before Linux 6.7; since then stacks of libc have a flag of
 * their own). libc puts a thread's control block at the upper end of its stack. Where a stack ends that no thread has
 * at the moment cannot be told: then all of the mapping counts as stack.
 */
static uintptr_t stack_end(const struct ff_vma *v)
{
	uintptr_t block = first_block(v->start, v->end);

	return block ? PAGE_UP(block + ABOVE_BLOCK) : v->end;
}

/* Is it on a thread's stack, as far as one can tell: the first thread's, or one above a small guard? */
static bool is_on_stack(const struct ff_vma *v, uintptr_t va, int maps)
{
	uint64_t first = getauxval(AT_RANDOM); /* bytes above the first thread's stack */
	struct ff_vma below = { 0 };

	if (first >= v->start && first < v->end)
		return true;
	return !ff_vma_query(maps, v->start - 1, &below) && below.end == v->start &&
	       !(below.flags & (FF_VMA_READ | FF_VMA_WRITE | FF_VMA_EXEC)) && !below.inode &&
	       below.end - below.start <= FFL_GUARD_MAX && va < stack_end(v);
}

/* Its frames, wherever they are, its control block, and errno. */
bool ffl_is_own(uintptr_t va, uintptr_t end)
{
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
	uintptr_t self = PAGE_DOWN((uintptr_t)pthread_self()), err = (uintptr_t)&errno;

	return (va < frame + FRAMES_ABOVE && end > frame - FRAMES_BELOW) ||
	       (va < self + 2 * FF_PAGE && end > self) || (err >= va && err < end);
}

/* Is a control block there, or thread-local memory beside it, of this thread or the first one? */
static bool is_tls(uintptr_t va, uintptr_t end)
{
	const uintptr_t self[] = { (uintptr_t)pthread_self(), first_self };

	for (unsigned i = 0; i < ARRAY_SIZE(self); i++)
		if (self[i] && va < self[i] + 2 * FF_PAGE + tls_bytes && end > self[i] - tls_bytes)
			return true;
	return false;
}

/* Has nobody written to these pages of a file's private mapping? False where the kernel does not tell. */
static bool is_unwritten(uintptr_t va, uintptr_t end)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t e[PM_ENTRIES];
	bool clean = fd >= 0;

	while (clean && va < end) {
		size_t n = (end - va) / FF_PAGE < PM_ENTRIES ? (end - va) / FF_PAGE : PM_ENTRIES;

		clean = pread(fd, e, n * sizeof(e[0]), (off_t)(va / FF_PAGE * sizeof(e[0]))) ==
			(ssize_t)(n * sizeof(e[0]));
		for (size_t i = 0; clean && i < n; i++)
			clean = !(e[i] & PM_SWAP) && (!(e[i] & PM_PRESENT) || e[i] & PM_FILE);
		va += n * FF_PAGE;
	}
	if (fd >= 0)
		close(fd);
	return clean;
}

/* Has the process no other thread? A folder has two links, and one for each folder in it. */
static bool is_alone(void)
{
	struct stat st;

	/* libc's own is of a newer version than containers may have */
	return !syscall(SYS_newfstatat, AT_FDCWD, "/proc/self/task", &st, 0) && st.st_nlink == 3;
}

static enum ffl_use file_kind(const struct ff_vma *v, uintptr_t va, uintptr_t end)
{
	if (mm_advise((void *)va, end - va, MADV_POPULATE_READ))
		return FFL_USE_FILE;
	if (!(v->flags & FF_VMA_WRITE) && is_unwritten(va, end))
		return FFL_USE_CLEAN;
	return is_alone() ? FFL_USE_SINGLE : FFL_USE_FILE;
}

enum ffl_use ffl_kind_of(const struct ff_vma *v, uintptr_t va, uintptr_t end, bool whole, int maps)
{
	if (ffl_is_own(va, end) || (whole && is_tls(va, end)) || is_on_stack(v, va, maps))
		return FFL_USE_STACK;
	return v->inode || v->dev_major || v->dev_minor ? file_kind(v, va, end) : FFL_USE_PLAIN;
}
