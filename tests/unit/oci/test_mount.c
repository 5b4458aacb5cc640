/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffr/oci/mount.c */
/*
 * test_mount.c - the container's folder, below that of a router which was taken over and made it something else.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffr/oci/oci.h"

static char base[] = "/tmp/test_mount.XXXXXX", why[WHY_SZ];

static const char *in(const char *path)
{
	static char whole[2][256];
	static unsigned n;
	char *p = whole[n++ % 2];

	snprintf(p, sizeof(whole[0]), "%s/%s", base, path);
	return p;
}

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(base))
		return -1;
	assert_int_equal(mkdir(in("containers"), 0755), 0);
	assert_int_equal(mkdir(in("containers/web"), 0755), 0);
	assert_int_equal(mkdir(in("secret"), 0755), 0);
	return 0;
}

static int teardown(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", base);
	return system(command);
}

/* Which folder it is: its inode; 0 with why. */
static ino_t folder(const char *name)
{
	int fd = mount_folder(base, name, why);
	struct stat st;

	if (fd < 0) {
		assert_non_null(strstr(why, "the container's folder"));
		return 0;
	}
	assert_int_equal(fstat(fd, &st), 0);
	close(fd);
	return st.st_ino;
}

static void the_folder(void **state)
{
	struct stat st;

	(void)state;
	assert_int_equal(stat(in("containers/web"), &st), 0);
	assert_int_equal(folder("web"), st.st_ino);
	assert_int_equal(folder("none"), 0);
	assert_non_null(strstr(why, "No such file"));
}

static void links(void **state)
{
	(void)state;
	assert_int_equal(symlink("../secret", in("containers/beside")), 0);
	assert_int_equal(symlink("/etc", in("containers/away")), 0);
	assert_int_equal(symlink("web", in("containers/within")), 0);
	assert_int_equal(folder("beside"), 0);
	assert_int_equal(folder("away"), 0);
	assert_int_equal(folder("within"), 0);
	assert_int_equal(folder(".."), 0);
	assert_int_equal(folder("../secret"), 0);
	assert_int_equal(folder("/etc"), 0);
	/* the folder of all */
	assert_int_equal(rename(in("containers"), in("real")), 0);
	assert_int_equal(symlink("real", in("containers")), 0);
	assert_int_equal(folder("web"), 0);
	assert_int_equal(unlink(in("containers")), 0);
	assert_int_equal(rename(in("real"), in("containers")), 0);
}

static void other_types(void **state)
{
	int fd = open(in("containers/file"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(folder("file"), 0);
	assert_non_null(strstr(why, "Not a directory"));
	assert_int_equal(mkfifo(in("containers/fifo"), 0600), 0);
	assert_int_equal(folder("fifo"), 0);
}

static void somebody_elses(void **state)
{
	(void)state;
	if (geteuid())
		return; /* no other user's folder can be made */
	assert_int_equal(mkdir(in("containers/other"), 0755), 0);
	assert_int_equal(chown(in("containers/other"), 60999, 60999), 0);
	assert_int_equal(folder("other"), 0);
	assert_int_equal(chown(in("containers"), 60999, 60999), 0);
	assert_true(folder("other"));
	assert_int_equal(folder("web"), 0);
	assert_int_equal(chown(in("containers"), 0, 0), 0);
}

/* In a mount namespace of its own. */
static void a_mount(void **state)
{
	int status = 0;
	pid_t pid;

	(void)state;
	if (geteuid())
		return;
	assert_int_equal(mkdir(in("containers/mounted"), 0755), 0);
	pid = fork();
	if (!pid) {
		if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		    mount("/etc", in("containers/mounted"), NULL, MS_BIND, NULL))
			_exit(77);
		_exit(folder("mounted") ? 1 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		return; /* not allowed to mount here */
	assert_int_equal(status, 0);
}

int main(void)
{
	return UNIT_RUN_GROUP(setup, teardown, cmocka_unit_test(the_folder),
			      cmocka_unit_test(links), cmocka_unit_test(other_types),
			      cmocka_unit_test(somebody_elses), cmocka_unit_test(a_mount));
}
