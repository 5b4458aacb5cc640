/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* mounter.c - see mounter.h. */
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/mounter.h"

pid_t mounter_start(const char *dir, const char *at, int end[2])
{
	int began[2];
	char c = 0;
	pid_t pid;

	assert_int_equal(pipe2(end, O_CLOEXEC), 0);
	assert_int_equal(pipe2(began, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		close(end[1]);
		if (!unshare(CLONE_NEWNS) && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
		    !mount(dir, at, NULL, MS_BIND, NULL))
			c = 'y';
		if (write(began[1], &c, 1) == 1)
			(void)!read(end[0], &c, 1);
		_exit(0);
	}
	close(end[0]);
	assert_int_equal(read(began[0], &c, 1), 1);
	close(began[0]);
	close(began[1]);
	if (c)
		return pid;
	mounter_stop(pid, end);
	return 0;
}

void mounter_stop(pid_t pid, int end[2])
{
	close(end[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}
