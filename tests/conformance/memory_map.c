/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * memory_map.c - operations on the mapping itself: advice, rights, moves, locks, NUMA policy, the
 * file.
 */
#include "tests/conformance/memory.h"

#include <fcntl.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/uio.h>

/* What headers of Debian 12 have not. */
#define ADVICE_POPULATE_READ   22
#define ADVICE_POPULATE_WRITE  23
#define ADVICE_DONTNEED_LOCKED 24
#define ADVICE_COLLAPSE	       25
#define ADVICE_GUARD_INSTALL   102
#define ADVICE_GUARD_REMOVE    103
#define ADVICE_UNKNOWN	       77

/* ---- advice ---------------------------------------------------------------------------------- */

static void op_none(struct area *a, int arg)
{
	(void)a;
	(void)arg;
}

static void op_advise(struct area *a, int advice)
{
	say_ret("madvise", m_madvise(MIDDLE(a), MIDDLE_LEN(a), advice));
	if (advice == MADV_FREE)
		a->dropped = true;
}

/* Several of them, one after the other; from the lowest byte on. */
static void op_advise_many(struct area *a, int advices)
{
	for (; advices; advices = (int)((unsigned)advices >> 8))
		say_ret("madvise", m_madvise(MIDDLE(a), MIDDLE_LEN(a), advices & 0xff));
}
#define THEN(one, two) ((one) | (two) << 8)

static void op_free_and_write(struct area *a, int arg)
{
	(void)arg;
	say_ret("madvise", m_madvise(MIDDLE(a), MIDDLE_LEN(a), MADV_FREE));
	fill_quarters(a, 1, 3, NEW);
}

static void op_dontneed_and_write(struct area *a, int arg)
{
	(void)arg;
	say_ret("madvise", m_madvise(MIDDLE(a), MIDDLE_LEN(a), MADV_DONTNEED));
	fill_quarters(a, 1, 2, NEW);
}

static void op_dontneed_locked(struct area *a, int arg)
{
	(void)arg;
	say_ret("mlock", mlock(MIDDLE(a), MIDDLE_LEN(a)));
	say_ret("dontneed", m_madvise(MIDDLE(a), MIDDLE_LEN(a), MADV_DONTNEED));
	say_ret("dontneed-locked", m_madvise(MIDDLE(a), MIDDLE_LEN(a), ADVICE_DONTNEED_LOCKED));
}

/* The guard's pages are gone when it is removed. */
static void op_guard(struct area *a, int remove)
{
	say_ret("install", m_madvise(MIDDLE(a), MIDDLE_LEN(a), ADVICE_GUARD_INSTALL));
	if (remove)
		say_ret("remove", m_madvise(MIDDLE(a), MIDDLE_LEN(a), ADVICE_GUARD_REMOVE));
}

static void op_process_madvise(struct area *a, int advice)
{
	struct iovec iov[2] = { { MIDDLE(a), a->q }, { MIDDLE(a) + a->q, a->q } };
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	long ret = syscall(SYS_process_madvise, fd, iov, 2, advice, 0);

	say(" process_madvise=%s", ret < 0		      ? err_name(errno) :
				   ret == (long)MIDDLE_LEN(a) ? "ok" :
								"partly");
	close(fd);
}

/* ---- moves ----------------------------------------------------------------------------------- */

/* The new part is zero, and the program's own. */
static void look_grown(const uint8_t *p, size_t len)
{
	const char *word = "zero";

	for (size_t i = 0; i < len / PAGE && !strcmp(word, "zero"); i++)
		word = content_of(p + i * PAGE, (unsigned)i);
	say(" grown=%s", word);
	if (!strcmp(word, "zero"))
		say(" grown-write=%s",
		    CAUGHT(memset((void *)(uintptr_t)p, 5, len)) ? "signal" : "ok");
}

static void op_grow_in_place(struct area *a, int arg)
{
	uint8_t *p = m_mremap(a->p, a->len, 2 * a->len, 0, NULL);

	(void)arg;
	if (say_ret("mremap", (intptr_t)p))
		look_grown(p + a->len, a->len);
}

static void has_moved(struct area *a, uint8_t *to, size_t len, unsigned first)
{
	if (to == a->p + (size_t)first * PAGE)
		return;
	a->moved = to;
	a->moved_len = len;
	a->moved_page = first;
}

/* What is in the way: a page without rights. */
static void op_grow_and_move(struct area *a, int arg)
{
	uint8_t *p;

	(void)arg;
	mmap(a->p + a->len, a->kind->align, PROT_NONE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	p = m_mremap(a->p, a->len, 2 * a->len, MREMAP_MAYMOVE, NULL);
	if (!say_ret("mremap", (intptr_t)p))
		return;
	look_grown(p + a->len, a->len);
	has_moved(a, p, a->len, 0);
}

static void op_shrink(struct area *a, int arg)
{
	(void)arg;
	say_ret("mremap", (intptr_t)m_mremap(a->p, a->len, 2 * a->q, 0, NULL));
}

/* To a fixed place: the whole, or the middle. */
static void op_move(struct area *a, int middle)
{
	uint8_t *from = middle ? MIDDLE(a) : a->p, *p;
	size_t len = middle ? MIDDLE_LEN(a) : a->len;

	p = m_mremap(from, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, MOVED_AT);
	if (say_ret("mremap", (intptr_t)p))
		has_moved(a, p, len, middle ? (unsigned)(a->q / PAGE) : 0);
}

static void op_move_and_back(struct area *a, int arg)
{
	uint8_t *p = m_mremap(a->p, a->len, a->len, MREMAP_MAYMOVE | MREMAP_FIXED, MOVED_AT);

	(void)arg;
	if (!say_ret("mremap", (intptr_t)p))
		return;
	say_ret("back", (intptr_t)m_mremap(p, a->len, a->len, MREMAP_MAYMOVE | MREMAP_FIXED, a->p));
}

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
static void op_dontunmap(struct area *a, int arg)
{
	uint8_t *p = m_mremap(MIDDLE(a), MIDDLE_LEN(a), MIDDLE_LEN(a),
			      MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, MOVED_AT);

	(void)arg;
	if (say_ret("mremap", (intptr_t)p))
		has_moved(a, p, MIDDLE_LEN(a), (unsigned)(a->q / PAGE));
}

/* An old size of 0 makes a second mapping of shared memory. */
static void op_duplicate(struct area *a, int arg)
{
	uint8_t *p = m_mremap(MIDDLE(a), 0, MIDDLE_LEN(a), MREMAP_MAYMOVE | MREMAP_FIXED, MOVED_AT);

	(void)arg;
	if (!say_ret("mremap", (intptr_t)p))
		return;
	has_moved(a, p, MIDDLE_LEN(a), (unsigned)(a->q / PAGE));
	for (unsigned i = FIRST_PAGE; i < a->q / PAGE; i++)
		if (CAUGHT(fill(p + i * PAGE, NEW, (unsigned)(a->q / PAGE) + i)))
			break;
}

static uint8_t *other_memory(const struct area *a)
{
	uint8_t *p = mmap(OTHER_AT, MIDDLE_LEN(a), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	unsigned per = (unsigned)(a->q / PAGE);

	for (unsigned i = 0; i < 2 * per; i++)
		fill(p + i * PAGE, NEW, per + i);
	return p;
}

static void op_moved_over(struct area *a, int arg)
{
	uint8_t *p = other_memory(a);

	(void)arg;
	say_ret("mremap", (intptr_t)m_mremap(p, MIDDLE_LEN(a), MIDDLE_LEN(a),
					     MREMAP_MAYMOVE | MREMAP_FIXED, MIDDLE(a)));
}

static void op_munmap(struct area *a, int whole)
{
	say_ret("munmap", m_munmap(whole ? a->p : MIDDLE(a), whole ? a->len : MIDDLE_LEN(a)));
}

/* What is mapped there next: nothing written, or new contents in quarter 1. */
static void op_mmap_again(struct area *a, int write)
{
	say_ret("munmap", m_munmap(MIDDLE(a), MIDDLE_LEN(a)));
	say_ret("mmap", (intptr_t)m_mmap(MIDDLE(a), MIDDLE_LEN(a), PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	if (write)
		fill_quarters(a, 1, 2, NEW);
}

static void op_mmap_over(struct area *a, int shared)
{
	say_ret("mmap",
		(intptr_t)m_mmap(MIDDLE(a), MIDDLE_LEN(a), PROT_READ | PROT_WRITE,
				 (shared ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS | MAP_FIXED,
				 -1, 0));
	fill_quarters(a, 1, 2, NEW);
}

static void op_mmap_memfd_over(struct area *a, int arg)
{
	int fd = memfd_create("over", MFD_CLOEXEC);

	(void)arg;
	say_ret("ftruncate", ftruncate(fd, (off_t)MIDDLE_LEN(a)));
	say_ret("mmap", (intptr_t)m_mmap(MIDDLE(a), MIDDLE_LEN(a), PROT_READ | PROT_WRITE,
					 MAP_SHARED | MAP_FIXED, fd, 0));
	fill_quarters(a, 1, 2, NEW);
}

/* The kernel replaces what is there, and no userfaultfd hears of it. */
static void op_shmat_over(struct area *a, int arg)
{
	int id = shmget(IPC_PRIVATE, MIDDLE_LEN(a), 0600);
	intptr_t p;

	(void)arg;
	if (!say_ret("shmget", id))
		return;
	p = bare ? (intptr_t)syscall(SYS_shmat, id, MIDDLE(a), SHM_REMAP) :
		   (intptr_t)shmat(id, MIDDLE(a), SHM_REMAP);
	say_ret("shmat", p);
	shmctl(id, IPC_RMID, NULL);
	if (p != -1)
		fill_quarters(a, 1, 2, NEW);
}

/* Other pages of the mapping's file. */
static void op_remap_pages(struct area *a, int arg)
{
	(void)arg;
	say_ret("remap_file_pages",
		bare ? syscall(SYS_remap_file_pages, MIDDLE(a), MIDDLE_LEN(a), 0, 0, 0) :
		       remap_file_pages(MIDDLE(a), MIDDLE_LEN(a), 0, 0, 0));
}

/* ---- rights ---------------------------------------------------------------------------------- */

static void op_protect(struct area *a, int prot)
{
	say_ret("mprotect", m_mprotect(MIDDLE(a), MIDDLE_LEN(a), prot));
}

static void op_protect_and_back(struct area *a, int prot)
{
	say_ret("mprotect", m_mprotect(MIDDLE(a), MIDDLE_LEN(a), prot));
	say(" write=%s", CAUGHT(fill(IO(a), NEW, 0)) ? "signal" : "ok");
	say_ret("back", m_mprotect(MIDDLE(a), MIDDLE_LEN(a), PROT_READ | PROT_WRITE));
	say(" write=%s", CAUGHT(fill_quarters(a, 1, 2, NEW)) ? "signal" : "ok");
}

#define SYS_MSEAL 462 /* since Linux 6.10 */
static void op_mseal(struct area *a, int arg)
{
	(void)arg;
	if (!say_ret("mseal", syscall(SYS_MSEAL, MIDDLE(a), MIDDLE_LEN(a), 0)))
		return;
	say_ret("munmap", m_munmap(MIDDLE(a), MIDDLE_LEN(a)));
	say_ret("mprotect", m_mprotect(MIDDLE(a), MIDDLE_LEN(a), PROT_READ));
}

static void op_pkey(struct area *a, int rights)
{
	int key = pkey_alloc(0, (unsigned)rights);

	if (key < 0) {
		say(" skipped pkey_alloc=%s", err_name(errno));
		return;
	}
	say_ret("pkey_mprotect",
		pkey_mprotect(MIDDLE(a), MIDDLE_LEN(a), PROT_READ | PROT_WRITE, key));
}

/* ---- locks ----------------------------------------------------------------------------------- */

static void op_mlock(struct area *a, int unlock)
{
	say_ret("mlock", mlock(MIDDLE(a), MIDDLE_LEN(a)));
	if (unlock)
		say_ret("munlock", munlock(MIDDLE(a), MIDDLE_LEN(a)));
}

static void op_mlock2(struct area *a, int arg)
{
	(void)arg;
	say_ret("mlock2", mlock2(MIDDLE(a), MIDDLE_LEN(a), MLOCK_ONFAULT));
}

/* With freeflow, this locks the pool as well, gigabytes, and hangs: see memory-differs.txt. */
static void op_mlockall(struct area *a, int arg)
{
	(void)a;
	(void)arg;
	say_ret("mlockall", mlockall(MCL_CURRENT));
	say_ret("munlockall", munlockall());
}

/* ---- where the pages are --------------------------------------------------------------------- */

static void op_mbind(struct area *a, int flags)
{
	unsigned long nodes = 1;
	int mode = -1;

	say_ret("mbind",
		syscall(SYS_mbind, MIDDLE(a), MIDDLE_LEN(a), MPOL_BIND, &nodes, 64, flags));
	syscall(SYS_get_mempolicy, &mode, NULL, 0, MIDDLE(a), MPOL_F_ADDR);
	say(" policy=%d", mode);
}

static void op_move_pages(struct area *a, int move)
{
	void *pages[4];
	int nodes[4] = { 0 }, status[4] = { -99, -99, -99, -99 };
	const char *word[4];

	for (unsigned k = 0; k < 4; k++)
		pages[k] = a->p + k * a->q + FIRST_PAGE * PAGE;
	say_ret("move_pages",
		syscall(SYS_move_pages, 0, 4, pages, move ? nodes : NULL, status, MPOL_MF_MOVE));
	for (unsigned k = 0; k < 4; k++)
		word[k] = status[k] < 0 ? err_name(-status[k]) : "there";
	say_four(say, "pages", word);
}

static void op_mincore(struct area *a, int arg)
{
	static unsigned char in[2048];
	unsigned num = 0;

	(void)arg;
	say_ret("mincore", mincore(MIDDLE(a), MIDDLE_LEN(a), in));
	for (size_t i = 0; i < MIDDLE_LEN(a) / PAGE; i++)
		num += in[i] & 1;
	say(" in=%s", num == MIDDLE_LEN(a) / PAGE ? "all" : num ? "some" : "none");
}

static void op_msync(struct area *a, int flags)
{
	say_ret("msync", msync(MIDDLE(a), MIDDLE_LEN(a), flags));
}

/* Bit 55 of a pagemap entry: written to since clear_refs. */
static void op_soft_dirty(struct area *a, int arg)
{
	int clear = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
	int map = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	const char *word[4];

	(void)arg;
	say_ret("clear", write(clear, "4", 1));
	fill_quarters(a, 1, 2, NEW);
	for (unsigned k = 0; k < 4; k++) {
		uintptr_t p = (uintptr_t)a->p + k * a->q + FIRST_PAGE * PAGE;
		uint64_t entry = 0;

		if (pread(map, &entry, 8, (off_t)(p / PAGE * 8)) != 8)
			word[k] = "unread";
		else
			word[k] = entry >> 55 & 1 ? "dirty" : "clean";
	}
	say_four(say, "soft-dirty", word);
	close(clear);
	close(map);
}

/* ---- the file that is mapped ----------------------------------------------------------------- */

static void op_truncate(struct area *a, int grow)
{
	say_ret("ftruncate", ftruncate(a->fd, (off_t)(2 * a->q)));
	if (grow)
		say_ret("grow", ftruncate(a->fd, (off_t)a->len));
}

static void op_punch(struct area *a, int mode)
{
	say_ret("fallocate",
		fallocate(a->fd,
			  mode | (mode == FALLOC_FL_COLLAPSE_RANGE ? 0 : FALLOC_FL_KEEP_SIZE),
			  (off_t)a->q, (off_t)MIDDLE_LEN(a)));
}

static void op_write_file(struct area *a, int arg)
{
	static uint8_t page[4096];
	unsigned per = (unsigned)(a->q / PAGE);
	bool ok = true;

	(void)arg;
	for (unsigned i = per + FIRST_PAGE; i < 2 * per; i++) {
		fill(page, NEW, i);
		ok = ok && pwrite(a->fd, page, PAGE, (off_t)(i * PAGE)) == (ssize_t)PAGE;
	}
	say(" pwrite=%s", ok ? "ok" : err_name(errno));
}

static void op_seal(struct area *a, int seals)
{
	say_ret("seal", fcntl(a->fd, F_ADD_SEALS, seals));
}

OPS(ops_map, { "nothing", op_none, 0, AGAIN, NULL }, //
    { "madvise-normal", op_advise, MADV_NORMAL, ONE_KIND, NULL },
    { "madvise-random", op_advise, MADV_RANDOM, 0, NULL },
    { "madvise-sequential", op_advise, MADV_SEQUENTIAL, ONE_KIND, NULL },
    { "madvise-willneed", op_advise, MADV_WILLNEED, 0, NULL },
    { "madvise-dontneed", op_advise, MADV_DONTNEED, 0, NULL },
    { "madvise-dontneed-write", op_dontneed_and_write, 0, AGAIN, NULL },
    { "madvise-dontneed-locked", op_dontneed_locked, 0, 0, NULL },
    { "madvise-free", op_advise, MADV_FREE, 0, NULL },
    { "madvise-free-write", op_free_and_write, 0, 0, NULL },
    { "madvise-remove", op_advise, MADV_REMOVE, 0, NULL },
    { "madvise-dontfork", op_advise, MADV_DONTFORK, 0, NULL },
    { "madvise-dontfork-dofork", op_advise_many, THEN(MADV_DONTFORK, MADV_DOFORK), 0, NULL },
    { "madvise-mergeable", op_advise, MADV_MERGEABLE, 0, NULL },
    { "madvise-mergeable-unmergeable", op_advise_many, THEN(MADV_MERGEABLE, MADV_UNMERGEABLE), 0,
      NULL },
    { "madvise-hugepage", op_advise, MADV_HUGEPAGE, 0, NULL },
    { "madvise-nohugepage", op_advise, MADV_NOHUGEPAGE, 0, NULL },
    { "madvise-dontdump", op_advise, MADV_DONTDUMP, 0, NULL },
    { "madvise-dontdump-dodump", op_advise_many, THEN(MADV_DONTDUMP, MADV_DODUMP), 0, NULL },
    { "madvise-wipeonfork", op_advise, MADV_WIPEONFORK, 0, NULL },
    { "madvise-wipeonfork-keep", op_advise_many, THEN(MADV_WIPEONFORK, MADV_KEEPONFORK), 0, NULL },
    { "madvise-cold", op_advise, MADV_COLD, 0, NULL },
    { "madvise-pageout", op_advise, MADV_PAGEOUT, AGAIN, NULL },
    { "madvise-populate-read", op_advise, ADVICE_POPULATE_READ, AGAIN, NULL },
    { "madvise-populate-write", op_advise, ADVICE_POPULATE_WRITE, AGAIN, NULL },
    { "madvise-collapse", op_advise, ADVICE_COLLAPSE, 0, NULL },
    { "madvise-guard", op_guard, 0, 0, NULL }, { "madvise-guard-remove", op_guard, 1, 0, NULL },
    { "madvise-unknown", op_advise, ADVICE_UNKNOWN, ONE_KIND, NULL },
    { "process-madvise-cold", op_process_madvise, MADV_COLD, 0, NULL },
    { "process-madvise-pageout", op_process_madvise, MADV_PAGEOUT, 0, NULL },
    { "process-madvise-willneed", op_process_madvise, MADV_WILLNEED, 0, NULL },
    { "process-madvise-collapse", op_process_madvise, ADVICE_COLLAPSE, 0, NULL },
    { "process-madvise-dontneed", op_process_madvise, MADV_DONTNEED, 0, NULL },
    { "process-madvise-free", op_process_madvise, MADV_FREE, 0, NULL },
    { "process-madvise-guard", op_process_madvise, ADVICE_GUARD_INSTALL, 0, NULL },
    { "mremap-grow-in-place", op_grow_in_place, 0, 0, NULL },
    { "mremap-grow-and-move", op_grow_and_move, 0, 0, NULL },
    { "mremap-shrink", op_shrink, 0, 0, NULL }, { "mremap-move", op_move, 0, 0, NULL },
    { "mremap-move-middle", op_move, 1, 0, NULL },
    { "mremap-move-and-back", op_move_and_back, 0, 0, NULL },
    { "mremap-dontunmap", op_dontunmap, 0, 0, NULL },
    { "mremap-duplicate", op_duplicate, 0, 0, NULL }, { "mremap-over", op_moved_over, 0, 0, NULL },
    { "munmap", op_munmap, 0, 0, NULL }, { "munmap-whole", op_munmap, 1, 0, NULL },
    { "mmap-again", op_mmap_again, 0, 0, NULL }, { "mmap-again-write", op_mmap_again, 1, 0, NULL },
    { "mmap-over", op_mmap_over, 0, 0, NULL }, { "mmap-over-shared", op_mmap_over, 1, 0, NULL },
    { "mmap-over-memfd", op_mmap_memfd_over, 0, 0, NULL },
    { "shmat-over", op_shmat_over, 0, 0, NULL }, { "remap-file-pages", op_remap_pages, 0, 0, NULL },
    { "mprotect-none", op_protect, PROT_NONE, 0, NULL },
    { "mprotect-r", op_protect, PROT_READ, 0, NULL },
    { "mprotect-w", op_protect, PROT_WRITE, ONE_KIND, NULL },
    { "mprotect-rx", op_protect, PROT_READ | PROT_EXEC, 0, NULL },
    { "mprotect-rwx", op_protect, PROT_READ | PROT_WRITE | PROT_EXEC, 0, NULL },
    { "mprotect-none-back", op_protect_and_back, PROT_NONE, AGAIN, NULL },
    { "mprotect-r-back", op_protect_and_back, PROT_READ, AGAIN, NULL },
    { "mseal", op_mseal, 0, 0, NULL }, { "pkey", op_pkey, 0, 0, NULL },
    { "pkey-no-access", op_pkey, PKEY_DISABLE_ACCESS, 0, NULL },
    { "pkey-no-write", op_pkey, PKEY_DISABLE_WRITE, 0, NULL }, { "mlock", op_mlock, 0, 0, NULL },
    { "mlock-munlock", op_mlock, 1, 0, NULL }, { "mlock2-onfault", op_mlock2, 0, 0, NULL },
    { "mlockall", op_mlockall, 0, IF_NAMED, NULL }, { "mbind", op_mbind, 0, 0, NULL },
    { "mbind-move", op_mbind, MPOL_MF_MOVE | MPOL_MF_STRICT, 0, NULL },
    { "move-pages-query", op_move_pages, 0, 0, NULL }, { "move-pages", op_move_pages, 1, 0, NULL },
    { "mincore", op_mincore, 0, ONE_KIND, NULL }, { "msync", op_msync, MS_SYNC, ONE_KIND, NULL },
    { "msync-invalidate", op_msync, MS_INVALIDATE | MS_SYNC, 0, NULL },
    { "soft-dirty", op_soft_dirty, 0, 0, NULL }, { "ftruncate", op_truncate, 0, NEEDS_FD, NULL },
    { "ftruncate-grow", op_truncate, 1, NEEDS_FD, NULL },
    { "punch-hole", op_punch, FALLOC_FL_PUNCH_HOLE, NEEDS_FD, NULL },
    { "zero-range", op_punch, FALLOC_FL_ZERO_RANGE, NEEDS_FD | ONE_KIND, NULL },
    { "write-to-file", op_write_file, 0, NEEDS_FD, NULL },
    { "seal-write", op_seal, F_SEAL_WRITE, NEEDS_FD | ONE_KIND, NULL },
    { "seal-shrink", op_seal, F_SEAL_SHRINK, NEEDS_FD | ONE_KIND, NULL })
