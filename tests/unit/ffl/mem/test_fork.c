/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_fork.c - ffl/mem/fork.c: registered memory in children, of every way of making one.
 *
 * build: tests/rig/unit/region_rig.c tests/rig/fakes/fake_shadow.c tests/rig/fakes/fake_pages.c ffr/mem/fallible.c ffl/mem/mr.c ffl/mem/heat.c ffl/mem/track.c ffl/mem/filter.c ffl/mem/kind.c ffl/mem/attr.c ffl/mem/plan.c ffl/mem/apply.c ffl/mem/lock.c ffl/mem/region.c ffl/mem/window.c ffl/mem/malloc.c
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/region_rig.h"
#include "ffl/mem/fork.c"

extern char **environ;

static int child_scribbles(void *arg)
{
	char *p = arg;

	alarm(10);
	for (size_t i = 0; i < 8 * PG; i++)
		if (p[i] != (char)(i / PG * 7 + i + 21))
			return 1;
	memset(p, 0x66, 8 * PG);
	/* a device opened by the child works like any other */
	rg_ctx = fake_shadow_open(true);
	rg_pd = fake_shadow_pd(rg_ctx);
	p = rg_map(4 * PG);
	rg_fill(p, 4 * PG, 22);
	rg_dereg(rg_reg(p, 4 * PG));
	rg_check(p, 4 * PG, 22);
	return 0;
}

static int child_uses_parents_context(void *arg)
{
	struct ibv_mr *mr = arg;

	alarm(10);
	if (ibv_reg_mr(rg_pd, mr->addr, PG, ACCESS) || errno != EIO)
		return 1;
	if (ibv_malloc(rg_pd, 100) || errno != EIO)
		return 2;
	return ibv_dereg_mr(mr) ? 3 : 0;
}

static void forks(void **state)
{
	char *p = rg_map(8 * PG);
	struct ibv_mr *mr;

	(void)state;
	rg_fill(p, 8 * PG, 21);
	mr = rg_reg(p + 10, 8 * PG - 20);
	assert_int_equal(rg_in_child(child_scribbles, p), 0);
	rg_check(p, 8 * PG, 21);
	assert_int_equal(rg_in_child(child_uses_parents_context, mr), 0);
	if (fake_shadow_at((uintptr_t)p + PG)) {
		*fake_shadow_at((uintptr_t)p + PG) = 5;
		assert_int_equal(p[PG], 5);
		p[PG] = (char)(7 + PG + 21);
	}
	rg_dereg(mr);
	rg_check(p, 8 * PG, 21);
	assert_int_equal(rg_in_child(child_scribbles, p), 0);
	rg_check(p, 8 * PG, 21);
	munmap(p, 8 * PG);
}

/* A child that looks at its memory when it is told to. */
struct watcher {
	int go[2];
	pid_t pid;
};

/* well: whether the child finds there what it should. */
static void watcher_begin(struct watcher *w, bool (*well)(const char *, size_t), const char *p,
			  size_t len)
{
	char c;

	assert_int_equal(pipe(w->go), 0);
	w->pid = fork();
	assert_true(w->pid >= 0);
	if (w->pid)
		return;
	alarm(20);
	close(w->go[1]);
	if (read(w->go[0], &c, 1) != 0)
		_exit(1);
	_exit(well(p, len) ? 0 : 2);
}

static void watcher_looks(struct watcher *w)
{
	int status;

	close(w->go[1]);
	assert_int_equal(waitpid(w->pid, &status, 0), w->pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	close(w->go[0]);
}

static bool as_filled(const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != (char)(i / PG * 7 + i + 23))
			return false;
	return true;
}

/* The child's memory is its own: what the parent does with the pages afterwards it does not see. */
static void child_outlives_the_mr(void **state)
{
	char *p = rg_map(8 * PG);
	struct watcher w;
	struct ibv_mr *mr;

	(void)state;
	mr = rg_filled(p, 8 * PG, 23);
	watcher_begin(&w, as_filled, p, 8 * PG);
	memset(p, 0, 8 * PG);
	rg_dereg(mr);
	mr = rg_reg(p, 8 * PG);
	memset(p, 1, 8 * PG);
	watcher_looks(&w);
	rg_dereg(mr);
	munmap(p, 8 * PG);
}

static bool all_three(const char *p, size_t len)
{
	for (size_t i = 0; i < len; i += PG)
		if (p[i] != 3)
			return false;
	return true;
}

/* However much it is: the child has what was there at fork. */
static void large_regions_and_fork(void **state)
{
	size_t len = 72 << 20;
	char *p = rg_map(len), *q = rg_map(len);
	struct watcher w;
	struct ibv_mr *mr;

	(void)state;
	memset(p, 3, len);
	mr = rg_reg(p, len);
	watcher_begin(&w, all_three, p, len);
	memset(p, 5, len);
	rg_dereg(mr);
	mr = rg_reg(q, len);
	memset(q, 4, len);
	watcher_looks(&w);
	rg_dereg(mr);
	munmap(p, len);
	munmap(q, len);
}

/* What the child has is ordinary memory of its own. */
static int child_registers(void *arg)
{
	char *p = arg;

	alarm(10);
	if (rg_is_shared(p) || rg_vma_at(p).inode)
		return 1;
	rg_ctx = fake_shadow_open(true);
	rg_pd = fake_shadow_pd(rg_ctx);
	rg_reg(p, 8 * PG);
	if (fake_shadow_has_uffd() && fake_shadow_bytes(FF_RUN_SHADOW) != 8 * PG)
		return 2;
	return 0;
}

static void child_registers_the_same_memory(void **state)
{
	char *p = rg_map(8 * PG);
	struct ibv_mr *mr = rg_reg(p, 8 * PG);

	(void)state;
	assert_int_equal(rg_in_child(child_registers, p), 0);
	rg_dereg(mr);
	munmap(p, 8 * PG);
}

/* What was registered once is the parent's own all the same: a child has a copy, and is not seen. */
static int child_after_dereg(void *arg)
{
	char *p = arg;

	alarm(10);
	if (!as_filled(p, 8 * PG) || rg_is_shared(p))
		return 1;
	memset(p, 0x55, 8 * PG);
	return 0;
}

static void after_deregistration(void **state)
{
	char *p = rg_map(8 * PG);
	struct watcher w;

	(void)state;
	rg_need_uffd();
	rg_dereg(rg_filled(p, 8 * PG, 23));
	assert_true(rg_is_shared(p));
	assert_int_equal(rg_in_child(child_after_dereg, p), 0);
	rg_check(p, 8 * PG, 23);
	watcher_begin(&w, as_filled, p, 8 * PG);
	memset(p, 0, 8 * PG);
	watcher_looks(&w);
	munmap(p, 8 * PG);
}

/* And so it is when the device is closed, also of what was dropped, moved and unmapped since. */
static void after_the_device(void **state)
{
	char *p = rg_map(8 * PG), *to = rg_map(8 * PG);
	struct watcher w;

	(void)state;
	rg_need_uffd();
	rg_dereg(rg_filled(p, 8 * PG, 99));
	fake_shadow_close(rg_ctx);
	assert_ptr_equal(mremap(p, 8 * PG, 8 * PG, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
	rg_check(to, 8 * PG, 99);
	assert_int_equal(rg_dontneed(to, 2 * PG), 0);
	rg_check_zero(to, 2 * PG);
	rg_fill(to, 8 * PG, 23);
	assert_true(rg_is_shared(to));
	assert_int_equal(rg_in_child(child_after_dereg, to), 0);
	rg_check(to, 8 * PG, 23);
	watcher_begin(&w, as_filled, to, 8 * PG);
	memset(to, 0, 8 * PG);
	watcher_looks(&w);
	munmap(to, 8 * PG);
	/* the next device has nothing of it, and a child copies what there is of both */
	rg_ctx = fake_shadow_open(true);
	to_pd(rg_pd)->ctx = rg_ctx;
	rg_pd->context = &rg_ctx->v.context;
	p = rg_map(8 * PG);
	rg_dereg(rg_filled(p, 8 * PG, 23));
	assert_int_equal(rg_in_child(child_after_dereg, p), 0);
	rg_check(p, 8 * PG, 23);
	munmap(p, 8 * PG);
}

/* The signal that a child sends itself before it has copied anything; 0: none. */
static int signal_in_child;

static char *map_in_child; /* a page that a child maps then; NULL: none */

static void on_child(void)
{
	if (map_in_child)
		memset(mmap(map_in_child, PG, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
			    -1, 0),
		       0x77, PG);
	if (signal_in_child)
		raise(signal_in_child);
}

/* A child that dies or stops at the wrong moment does not keep its parent. */
static void child_does_not_get_on(void **state)
{
	static const int signals[] = { SIGKILL, SIGSTOP };
	char *p = rg_map(8 * PG);
	struct ibv_mr *mr;
	int status;
	pid_t pid;

	(void)state;
	rg_need_uffd();
	mr = rg_filled(p, 8 * PG, 26);
	for (int i = 0; i < 2; i++) {
		signal_in_child = signals[i];
		pid = fork();
		if (!pid) {
			struct rlimit no_core = { 0, 0 };

			setrlimit(RLIMIT_CORE, &no_core);
			signal(SIGSEGV, SIG_DFL);
			_exit(*(volatile char *)p); /* stopped: nothing is there any more */
		}
		signal_in_child = 0;
		assert_true(pid > 0);
		rg_check(p, 8 * PG, 26);
		kill(pid, SIGCONT);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), i ? SIGSEGV : SIGKILL);
	}
	rg_gone(mr, p, 8 * PG, 26);
}

/* Another library's handler has been there first, and wants its own memory. */
static void what_a_child_has_mapped_stays(void **state)
{
	char *p = rg_map(8 * PG);
	struct ibv_mr *mr;
	int status;
	pid_t pid;

	(void)state;
	rg_need_uffd();
	mr = rg_filled(p, 8 * PG, 26);
	map_in_child = p + 2 * PG;
	pid = fork();
	if (!pid) {
		for (size_t i = 0; i < PG; i++)
			if (map_in_child[i] != 0x77)
				_exit(1);
		_exit(0);
	}
	map_in_child = NULL;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	rg_gone(mr, p, 8 * PG, 26);
}

/* The kernel's word: it writes nothing there. */
static void protections_are_the_childs_too(void **state)
{
	int zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC), status;
	char *p = rg_map(8 * PG);
	struct ibv_mr *mr;
	pid_t pid;

	(void)state;
	rg_need_uffd();
	mr = rg_filled(p, 8 * PG, 26);
	assert_int_equal(mprotect(p + 4 * PG, 4 * PG, PROT_READ), 0);
	pid = fork();
	if (!pid) {
		if (read(zeros, p + PG, 1) != 1)
			_exit(1);
		_exit(read(zeros, p + 5 * PG, 1) == 1 || errno != EFAULT ? 2 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(mprotect(p, 8 * PG, RW), 0);
	rg_gone(mr, p, 8 * PG, 26);
	close(zeros);
}

/* What a child tells when it forks is not told to its own parent. */
static void a_child_has_a_page_of_its_own(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	rg_dereg(rg_filled(rg_map(4 * PG), 4 * PG, 26));
	pid = fork();
	if (!pid) {
		atomic_store(progress, 4711);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_not_equal(atomic_load(progress), 4711);
}

/* The library's descriptor of the file that has p; the router has others of it. */
static int shadow_fd(const char *p)
{
	struct ffl_part *part;
	unsigned parts;
	int fd = -1;

	ffl_regions_lock();
	parts = ffl_regions_look(&part);
	for (unsigned i = 0; i < parts; i++)
		if (part[i].va == (uintptr_t)p)
			fd = ffl_regions_file(part[i].file)->fd;
	ffl_regions_unlock();
	return fd;
}

/*
 * Programs close descriptors that are not theirs, and open files: a child has nothing where it could get another
 * file's bytes.
 */
static void descriptor_is_another_files(void **state)
{
	char *p = rg_map(8 * PG);
	int fd, other, status;
	struct ibv_mr *mr;
	pid_t pid;

	(void)state;
	rg_need_uffd();
	mr = rg_filled(p, 8 * PG, 27);
	fd = shadow_fd(p);
	other = (int)syscall(SYS_memfd_create, "other", 0);
	assert_true(fd >= 0 && other >= 0);
	assert_int_equal(ftruncate(other, 64 << 20), 0);
	assert_int_equal(dup2(other, fd), fd);
	close(other);
	pid = fork();
	if (!pid) {
		struct rlimit no_core = { 0, 0 };

		setrlimit(RLIMIT_CORE, &no_core);
		signal(SIGSEGV, SIG_DFL);
		_exit(*(volatile char *)p);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSEGV);
	rg_gone(mr, p, 8 * PG, 27);
}

static void other_ways_of_making_a_process(void **state)
{
	char *const argv[] = { "true", NULL };
	char *p = rg_map(4 * PG);
	struct ibv_mr *mr;
	int status;
	pid_t pid;

	(void)state;
	mr = rg_filled(p, 4 * PG, 24);
	pid = vfork();
	if (!pid)
		_exit(0);
	waitpid(pid, &status, 0);
	assert_int_equal(posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ), 0);
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(system("true"), 0);
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (!pid)
		syscall(SYS_exit_group, 0);
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	rg_check(p, 4 * PG, 24);
	rg_gone(mr, p, 4 * PG, 24);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, rg_setup, rg_teardown)

	pthread_atfork(NULL, NULL, on_child); /* before the library's, so it runs first */
	return UNIT_RUN(T(forks), T(child_outlives_the_mr), T(large_regions_and_fork),
			T(child_registers_the_same_memory), T(after_deregistration),
			T(after_the_device), T(child_does_not_get_on),
			T(what_a_child_has_mapped_stays), T(protections_are_the_childs_too),
			T(a_child_has_a_page_of_its_own), T(descriptor_is_another_files),
			T(other_ways_of_making_a_process));
}
