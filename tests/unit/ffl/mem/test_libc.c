/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_libc.c - ffl/mem/libc.c, whose functions are this program's own: registered memory in children that no handler
 * of fork() is called for.
 *
 * build: tests/rig/unit/region_rig.c tests/rig/fakes/fake_shadow.c tests/rig/fakes/fake_pages.c ffr/mem/fallible.c ffl/mem/mr.c ffl/mem/heat.c ffl/mem/kind.c ffl/mem/attr.c ffl/mem/region.c ffl/mem/window.c ffl/mem/fork.c ffl/mem/malloc.c ffl/mem/libc.c
 * threads: yes
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/region_rig.h"
#include "ffl/mem/region.h"

#define LEN (8 * PG)

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

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, rg_setup, rg_teardown)

	return UNIT_RUN(T(fork_without_handlers), T(clone_with_a_copy),
			T(clone_with_the_same_memory), T(clone_that_fails),
			T(fork_while_it_is_locked));
}
