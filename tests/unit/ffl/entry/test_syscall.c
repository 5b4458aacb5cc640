/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_syscall.c - ffl/entry/syscall.c: it does what libc's does.
 *
 * build: ffl/entry/syscall.c ffl/mem/filter.c
 */
#include <errno.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"

#define PG ((size_t)4096)

long ffl_syscall(long nr, ...);

/* Calls with none to six arguments, and what fails. */
static void it_is_libcs(void **state)
{
	char buf[8] = "";
	int fds[2];
	void *p;

	(void)state;
	assert_int_equal(ffl_syscall(SYS_getpid), getpid());
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(ffl_syscall(SYS_write, fds[1], "five", 5), 5);
	assert_int_equal(ffl_syscall(SYS_read, fds[0], buf, sizeof(buf)), 5);
	assert_string_equal(buf, "five");
	errno = 0;
	assert_int_equal(ffl_syscall(SYS_close, -1), -1);
	assert_int_equal(errno, EBADF);
	p = (void *)ffl_syscall(SYS_mmap, NULL, 2 * PG, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
	assert_ptr_not_equal(p, MAP_FAILED);
	memset(p, 1, 2 * PG);
	munmap(p, 2 * PG);
	p = (void *)ffl_syscall(SYS_mmap, NULL, PG, PROT_READ, MAP_SHARED, fds[0], (long)PG);
	assert_ptr_equal(p, MAP_FAILED);
	assert_int_equal(errno, ENODEV);
	close(fds[0]);
	close(fds[1]);
}

/* In the child, too, it returns. */
static void a_child_returns(void **state)
{
	int status;
	pid_t pid = (pid_t)ffl_syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

	(void)state;
	assert_true(pid >= 0);
	if (!pid)
		_exit(7);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 7);
}

static void seccomp_has_its_errors(void **state)
{
	uint32_t action = SECCOMP_RET_ALLOW;

	(void)state;
	assert_int_equal(ffl_syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action), 0);
	errno = 0;
	assert_int_equal(ffl_syscall(SYS_seccomp, 77, 0, NULL), -1);
	assert_int_equal(errno, EINVAL);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(it_is_libcs), cmocka_unit_test(a_child_returns),
			cmocka_unit_test(seccomp_has_its_errors));
}
