/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_libc.c - ffl/mem/libc.c, whose functions are this program's own: registered memory in children that no handler
 * of fork() is called for, and calls that mean something else for a shared mapping.
 *
 * build: tests/rig/unit/region_rig.c tests/rig/fakes/fake_shadow.c tests/rig/fakes/fake_pages.c ffr/mem/fallible.c ffl/mem/mr.c ffl/mem/heat.c ffl/mem/track.c ffl/mem/filter.c ffl/mem/kind.c ffl/mem/attr.c ffl/mem/plan.c ffl/mem/apply.c ffl/mem/lock.c ffl/mem/region.c ffl/mem/window.c ffl/mem/fork.c ffl/mem/malloc.c ffl/mem/private.c ffl/mem/libc.c
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/region_rig.h"
#include "tests/rig/unit/wait.h"
#include "ffl/mem/region.h"
#include "ffl/mem/window.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#define MB  ((size_t)1 << 20)
#define LEN (8 * PG)
#define LOW ((uintptr_t)0x300000000000)

/* ---- children ---------------------------------------------------------------------------- */

static int status_of(pid_t pid)
{
	int status;

	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/* The bytes are those of rg_fill(p, LEN, 31), and the child's own from now on. */
static int child_scribbles(void *arg)
{
	char *p = arg;

	for (size_t i = 0; i < LEN; i++)
		if (p[i] != (char)(i / PG * 7 + i + 31))
			return 1;
	memset(p, 0x66, LEN);
	return 0;
}

static void fork_without_handlers(void **state)
{
	char *p = rg_map(LEN);
	struct ibv_mr *mr = rg_filled(p, LEN, 31);

	(void)state;
	for (unsigned i = 0; i < 2; i++) { /* registered, and no more */
		pid_t pid = _Fork();

		if (!pid)
			_exit(child_scribbles(p));
		assert_int_equal(status_of(pid), 0);
		rg_check(p, LEN, 31);
		if (!i)
			rg_dereg(mr);
	}
	munmap(p, LEN);
}

static int child_has_children(void *arg)
{
	char *p = arg;
	int status = -1;
	pid_t pid = _Fork();

	if (!pid)
		_exit(child_scribbles(p));
	return waitpid(pid, &status, 0) != pid || status ? 2 : child_scribbles(p);
}

static void clone_with_a_copy(void **state)
{
	const int flags[] = { SIGCHLD, SIGCHLD | CLONE_FILES, SIGCHLD | CLONE_VFORK, SIGCHLD };
	char *p = rg_map(LEN), *stack = rg_map(64 * PG);
	struct ibv_mr *mr = rg_filled(p, LEN, 31), *of_stack = NULL;

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(flags); i++) {
		if (i == 3) /* the child begins on memory that is to be copied first */
			of_stack = rg_reg(stack, 64 * PG);
		assert_int_equal(status_of(clone(child_scribbles, stack + 64 * PG, flags[i], p)),
				 0);
		rg_check(p, LEN, 31);
	}
	assert_int_equal(status_of(clone(child_has_children, stack + 64 * PG, SIGCHLD, p)), 0);
	rg_dereg(of_stack);
	munmap(stack, 64 * PG);
	rg_gone(mr, p, LEN, 31);
}

static int child_writes(void *arg)
{
	*(char *)arg = 5;
	return 3;
}

static void clone_with_the_same_memory(void **state)
{
	char *p = rg_map(LEN), *stack = rg_map(64 * PG);
	struct ibv_mr *mr = rg_filled(p, LEN, 31);

	(void)state;
	assert_int_equal(WEXITSTATUS(status_of(clone(child_writes, stack + 64 * PG,
						     CLONE_VM | CLONE_VFORK | SIGCHLD, p))),
			 3);
	assert_int_equal(p[0], 5);
	p[0] = 31;
	munmap(stack, 64 * PG);
	rg_gone(mr, p, LEN, 31);
}

static void clone_that_fails(void **state)
{
	char *p = rg_map(LEN), *stack = rg_map(64 * PG);
	struct ibv_mr *mr = rg_filled(p, LEN, 31);

	(void)state;
	assert_int_equal(clone(NULL, stack + 64 * PG, SIGCHLD, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(clone(child_writes, stack + 64 * PG, SIGCHLD | CLONE_SIGHAND, p), -1);
	assert_int_equal(errno, EINVAL);
	/* nothing was left locked */
	assert_int_equal(status_of(clone(child_scribbles, stack + 64 * PG, SIGCHLD, p)), 0);
	munmap(stack, 64 * PG);
	rg_gone(mr, p, LEN, 31);
}

static sem_t locked, child_is_there;

static void *keep_locked(void *arg)
{
	ffl_regions_lock();
	sem_post(&locked);
	sem_wait(&child_is_there);
	ffl_regions_unlock();
	return arg;
}

/* As if the lock's holder waited for something that the thread has which forks: it goes on without. */
static void fork_while_it_is_locked(void **state)
{
	char *p = rg_map(LEN);
	struct ibv_mr *mr;
	pthread_t t;
	pid_t pid;

	(void)state;
	rg_need_uffd();
	mr = rg_filled(p, LEN, 31);
	sem_init(&locked, 0, 0);
	sem_init(&child_is_there, 0, 0);
	assert_int_equal(pthread_create(&t, NULL, keep_locked, NULL), 0);
	sem_wait(&locked);
	pid = _Fork();
	if (!pid) {
		struct rlimit no_core = { 0, 0 };

		setrlimit(RLIMIT_CORE, &no_core);
		signal(SIGSEGV, SIG_DFL);
		_exit(*(volatile char *)p);
	}
	sem_post(&child_is_there);
	assert_int_equal(WTERMSIG(status_of(pid)), SIGSEGV);
	pthread_join(t, NULL);
	rg_gone(mr, p, LEN, 31);
}

/* ---- advice ------------------------------------------------------------------------------ */

/* Bytes that a child finds in the pages: -1: nothing. */
static int child_finds(const char *p)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		struct rlimit no_core = { 0, 0 };

		setrlimit(RLIMIT_CORE, &no_core);
		signal(SIGSEGV, SIG_DFL);
		_exit((unsigned char)*(const volatile char *)p);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? -1 : WEXITSTATUS(status);
}

static void advice_for_private_memory(void **state)
{
	const int advice[] = { MADV_WIPEONFORK, MADV_DONTFORK, MADV_MERGEABLE };
	const int finds[] = { 0, -1, 34 };

	(void)state;
	rg_need_uffd();
	for (unsigned i = 0; i < ARRAY_SIZE(advice); i++) {
		char *p = rg_map(LEN);
		struct ibv_mr *mr = rg_reg(p, LEN);

		memset(p, 34, LEN);
		errno = 5;
		if (madvise(p + 2 * PG, PG, advice[i])) { /* no KSM */
			assert_int_equal(advice[i], MADV_MERGEABLE);
			assert_int_equal(errno, EINVAL);
		} else {
			assert_int_equal(errno, 5);
		}
		assert_true(rg_is_shared(p) && !rg_is_shared(p + 2 * PG));
		assert_int_equal(child_finds(p + 2 * PG), finds[i]);
		assert_int_equal(child_finds(p), 34);
		rg_dereg(mr);
		munmap(p, LEN);
	}
}

/* A child never gets its parent's shared pages. */
static void advice_dofork(void **state)
{
	char *p = rg_map(LEN);
	struct ibv_mr *mr;
	int status;
	pid_t pid;

	(void)state;
	rg_need_uffd();
	mr = rg_filled(p, LEN, 31);
	assert_int_equal(madvise(p, LEN, MADV_DOFORK), 0);
	pid = fork();
	if (!pid)
		_exit(child_scribbles(p));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	rg_gone(mr, p, LEN, 31);
}

static void advice_free(void **state)
{
	/* The kernel maps at the highest address that is free: no other thread's mapping comes into a hole down there. */
	char *p = mmap((void *)LOW, 2 * LEN, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	struct ibv_mr *mr;

	(void)state;
	assert_ptr_equal(p, LOW);
	rg_need_uffd();
	rg_fill(p, 2 * LEN, 35);
	mr = rg_reg(p, LEN);
	/* pages of an MR stay, like pinned ones */
	assert_int_equal(madvise(p + PG, 2 * LEN - 2 * PG, MADV_FREE), 0);
	rg_check(p, LEN, 35);
	rg_dereg(mr);
	assert_int_equal(madvise(p + PG, 2 * LEN - 2 * PG, MADV_FREE), 0);
	rg_check(p, PG, 35);
	rg_check_zero(p + PG, LEN - PG);
	assert_true(rg_is_shared(p + PG));
	p[2 * PG] = 9; /* and what is written afterwards stays */
	assert_int_equal(child_finds(p + 2 * PG), 9);
	/* behind a hole it is done all the same */
	p[6 * PG] = 1;
	munmap(p + 4 * PG, PG);
	assert_int_equal(madvise(p + 2 * PG, LEN - 2 * PG, MADV_FREE), -1);
	assert_int_equal(errno, ENOMEM);
	rg_check_zero(p + 6 * PG, PG);
	munmap(p, 2 * LEN);
}

/* The program has guards there, a child as well, and the MR its pages. */
static void advice_guard(void **state)
{
	char *p = rg_map(LEN);
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	mr = rg_filled(p, LEN, 38);
	if (madvise(p + 2 * PG, PG, 102)) { /* MADV_GUARD_INSTALL */
		assert_int_equal(errno, EINVAL);
		rg_check(p, LEN, 38);
	} else {
		assert_int_equal(child_finds(p + 2 * PG), -1);
		assert_int_equal(child_finds(p + PG), (unsigned char)p[PG]);
		assert_int_equal(*fake_shadow_mr_at(mr, (uintptr_t)p + 2 * PG),
				 (uint8_t)(2 * 7 + 2 * PG + 38));
		assert_int_equal(madvise(p + 2 * PG, PG, 103), 0); /* MADV_GUARD_REMOVE */
		rg_check_zero(p + 2 * PG, PG);
	}
	rg_dereg(mr);
	munmap(p, LEN);
}

/* Of shared memory of the program's own it means what it did. */
static void advice_elsewhere(void **state)
{
	char *mine = mmap(NULL, LEN, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0), *p = rg_map(LEN);
	struct ibv_mr *mr = rg_filled(p, LEN, 36);

	(void)state;
	memset(mine, 3, LEN);
	assert_int_equal(madvise(mine, LEN, MADV_FREE), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(madvise(mine, LEN, MADV_WIPEONFORK), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(madvise(mine, PG, MADV_REMOVE), 0);
	assert_int_equal(mine[0], 0);
	assert_int_equal(madvise(p, LEN, MADV_REMOVE), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(madvise(p + 1, LEN, MADV_FREE), -1);
	assert_int_equal(errno, EINVAL);
	munmap(mine, LEN);
	rg_gone(mr, p, LEN, 36);
}

/* Where it cannot be had, it fails, instead of meaning something else. */
static void advice_that_fails(void **state)
{
	char *p = rg_map(LEN);
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	mr = rg_filled(p, LEN, 31);
	fake_shadow.fail[FF_MSG_DROP_RUNS] = -EBUSY;
	assert_int_equal(madvise(p, LEN, MADV_DONTFORK), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(madvise(p, LEN, MADV_DOFORK), -1);
	assert_int_equal(errno, EAGAIN);
	fake_shadow.fail[FF_MSG_DROP_RUNS] = 0;
	assert_true(rg_is_shared(p));
	rg_gone(mr, p, LEN, 31);
}

/* ---- userfaultfd ------------------------------------------------------------------------- */

static void own_userfaultfd(void **state)
{
	int dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC), u;
	struct uffdio_register r = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_zeropage z;
	char *p = rg_map(LEN);
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	mr = rg_filled(p, LEN, 37);
	u = ffl_uffd_open(dev, 0);
	assert_true(u >= 0);
	r.range = (struct uffdio_range){ (uintptr_t)p + PG, 2 * PG };
	errno = 5;
	assert_int_equal(ioctl(u, UFFDIO_REGISTER, &r), 0);
	assert_int_equal(errno, 5);
	rg_check(p, LEN, 37);
	assert_int_equal(rg_dontneed(p + PG, PG), 0);
	z = (struct uffdio_zeropage){ .range = { (uintptr_t)p + PG, PG } };
	assert_int_equal(ioctl(u, UFFDIO_ZEROPAGE, &z), 0);
	rg_check_zero(p + PG, PG);
	/* somebody else's range is refused as ever */
	close(u);
	u = ffl_uffd_open(dev, 0);
	assert_int_equal(ioctl(u, UFFDIO_REGISTER, &r), 0);
	{
		int second = ffl_uffd_open(dev, 0);

		assert_int_equal(ioctl(second, UFFDIO_REGISTER, &r), -1);
		assert_int_equal(errno, EBUSY);
		close(second);
	}
	close(u);
	close(dev);
	rg_dereg(mr);
	munmap(p, LEN);
}

/* ---- moving ------------------------------------------------------------------------------ */

/* A part of it is registered, so that it is three mappings. */
static struct ibv_mr *in_parts(char *p, unsigned salt)
{
	struct ibv_mr *mr;

	rg_fill(p, LEN, salt);
	mr = rg_reg(p + 2 * PG, 3 * PG);
	assert_int_equal(rg_count_vmas(p, LEN), 3);
	return mr;
}

/* Memory of which nothing is next to it, so that it is one mapping with no other. */
static char *island(size_t len)
{
	char *p = mmap(NULL, len + 2 * PG, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(mprotect(p + PG, len, RW), 0);
	return p + PG;
}

static void moved_in_parts(void **state)
{
	char *p = island(LEN), *to = island(LEN), *at;
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	mr = in_parts(p, 51);
	at = mremap(p, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	assert_ptr_equal(at, to);
	rg_check(to, LEN, 51);
	assert_int_equal(msync(p, PG, MS_ASYNC), -1);
	/* the MR has its pages still */
	assert_int_equal(*fake_shadow_mr_at(mr, (uintptr_t)p + 2 * PG), (uint8_t)to[2 * PG]);
	/* it becomes larger elsewhere, with zeros */
	at = mremap(to, LEN, 2 * LEN, MREMAP_MAYMOVE);
	assert_ptr_not_equal(at, MAP_FAILED);
	rg_check(at, LEN, 51);
	rg_check_zero(at + LEN, LEN);
	/* and smaller, to a fixed place */
	to = island(LEN);
	assert_ptr_equal(mremap(at, 2 * LEN, 4 * PG, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
	rg_check(to, 4 * PG, 51);
	assert_int_equal(msync(at + 4 * PG, PG, MS_ASYNC), -1);
	/* in place: there is no room */
	assert_ptr_equal(mremap(to - PG, LEN + PG, LEN + 2 * PG, 0), MAP_FAILED);
	rg_dereg(mr);
	munmap(to, LEN);
}

static void not_moved(void **state)
{
	char *p = island(LEN);
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	mr = in_parts(p, 52);
	/* a hole, and what was no one mapping */
	munmap(p + 6 * PG, PG);
	assert_ptr_equal(mremap(p, LEN, 2 * LEN, MREMAP_MAYMOVE), MAP_FAILED);
	assert_int_equal(errno, EFAULT);
	assert_ptr_equal(mremap(p, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, p + PG), MAP_FAILED);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(mprotect(p, PG, PROT_READ), 0);
	assert_ptr_equal(mremap(p, 5 * PG, LEN, MREMAP_MAYMOVE), MAP_FAILED);
	assert_int_equal(errno, EFAULT);
	/* no second mapping */
	assert_ptr_equal(mremap(p + 2 * PG, 0, PG, MREMAP_MAYMOVE), MAP_FAILED);
	assert_int_equal(errno, EINVAL);
	rg_check(p, 6 * PG, 52);
	rg_dereg(mr);
	munmap(p, LEN);
}

/* A part of it is copied, and tracked, so that it is three mappings: it is moved, and takes a userfaultfd. */
static void tracked(void **state)
{
	char *p = island(4 * MB), *to = island(4 * MB);
	int dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC), u;
	struct uffdio_register r = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	if (!ffl_window_knows_pins())
		skip(); /* all is replaced at once */
	fake_shadow.has_heat = true;
	rg_fill(p, 4 * MB, 61);
	mr = rg_reg(p + MB, 2 * MB);
	assert_false(ffl_regions_any());
	assert_int_equal(rg_count_vmas(p, 4 * MB), 3);
	assert_ptr_equal(mremap(p, 4 * MB, 4 * MB, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
	rg_check(to, 4 * MB, 61);
	assert_int_equal(fake_shadow_where(mr, (uintptr_t)p + 2 * MB), (uintptr_t)to + 2 * MB);
	to = mremap(to, 4 * MB, 5 * MB, MREMAP_MAYMOVE);
	assert_ptr_not_equal(to, MAP_FAILED);
	rg_check(to, 4 * MB, 61);
	u = ffl_uffd_open(dev, 0);
	r.range = (struct uffdio_range){ (uintptr_t)to + 2 * MB, MB };
	errno = 5;
	assert_int_equal(ioctl(u, UFFDIO_REGISTER, &r), 0);
	assert_int_equal(errno, 5);
	rg_check(to, 4 * MB, 61);
	assert_int_equal(fake_shadow_where(mr, (uintptr_t)p + 2 * MB), (uintptr_t)to + 2 * MB);
	assert_int_equal(fake_shadow_where(mr, (uintptr_t)p + MB), (uintptr_t)to + MB);
	close(u);
	close(dev);
	rg_dereg(mr);
	munmap(to, 5 * MB);
}

/* What stays behind is empty, and private. */
static void moved_without_unmapping(void **state)
{
	char *p = island(LEN), *to;
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	mr = in_parts(p, 53);
	to = mremap(p, LEN, LEN, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	assert_ptr_not_equal(to, MAP_FAILED);
	rg_check(to, LEN, 53);
	rg_check_zero(p, LEN);
	assert_false(rg_is_shared(p + 2 * PG));
	assert_int_equal(*fake_shadow_mr_at(mr, (uintptr_t)p + 2 * PG), (uint8_t)to[2 * PG]);
	rg_dereg(mr);
	munmap(to, LEN);
	munmap(p, LEN);
}

/* ---- other memory takes the place --------------------------------------------------------- */

static void fails_as_before(int id, const void *at, int flags)
{
	assert_ptr_equal(shmat(id, at, flags), (void *)-1);
	assert_int_equal(errno, EINVAL);
}

/* With SHM_REMAP, the router hears that the pages are not the MR's any more. */
static void a_segment_over_it(void **state)
{
	int id = shmget(IPC_PRIVATE, MB, 0600);
	char *p = rg_map(4 * MB), *q = p + 2 * MB;
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	if (!ffl_window_knows_pins())
		skip(); /* all is replaced at once */
	fake_shadow.has_heat = true;
	assert_true(id >= 0);
	mr = rg_filled(p, 4 * MB, 31);
	fails_as_before(id, q, 0);
	fails_as_before(id, q + 5, SHM_REMAP);
	fails_as_before(id, NULL, SHM_REMAP);
	fails_as_before(-1, q, SHM_REMAP);
	rg_check(p, 4 * MB, 31);
	assert_int_equal(fake_shadow_where(mr, (uintptr_t)q), (uintptr_t)q);
	errno = 5;
	assert_ptr_equal(shmat(id, q + 5, SHM_REMAP | SHM_RND), q);
	assert_int_equal(errno, 5);
	assert_int_equal(shmctl(id, IPC_RMID, NULL), 0);
	rg_check_zero(q, MB);
	WAIT_FOR(!fake_shadow_where(mr, (uintptr_t)q));
	assert_int_equal(fake_shadow_where(mr, (uintptr_t)q - 1), (uintptr_t)q - 1);
	assert_int_equal(fake_shadow_where(mr, (uintptr_t)q + MB), (uintptr_t)q + MB);
	memset(q, 7, MB);
	assert_int_equal(shmdt(q), 0);
	assert_int_equal(madvise(q, PG, MADV_NORMAL), -1); /* a hole */
	rg_dereg(mr);
	munmap(p, 4 * MB);
}

static void other_pages_of_the_file(void **state)
{
	char *p = rg_map(LEN);
	struct ibv_mr *mr = rg_filled(p, LEN, 31);

	(void)state;
	assert_int_equal(remap_file_pages(p + PG, PG, 0, 0, 0), -1);
	assert_int_equal(errno, EINVAL);
	rg_gone(mr, p, LEN, 31);
	p = mmap(NULL, 2 * PG, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	p[PG] = 1;
	assert_int_equal(remap_file_pages(p, PG, 0, 1, 0), 0);
	assert_int_equal(p[0], 1);
	munmap(p, 2 * PG);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, rg_setup, rg_teardown)

	return UNIT_RUN(T(tracked), T(fork_without_handlers), T(clone_with_a_copy),
			T(clone_with_the_same_memory), T(clone_that_fails),
			T(fork_while_it_is_locked), T(advice_for_private_memory), T(advice_dofork),
			T(advice_free), T(advice_guard), T(advice_elsewhere), T(advice_that_fails),
			T(own_userfaultfd), T(moved_in_parts), T(not_moved),
			T(moved_without_unmapping), T(a_segment_over_it),
			T(other_pages_of_the_file));
}
