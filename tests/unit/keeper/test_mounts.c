/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* test_mounts.c - ffr/keeper/mounts.c: what a device is, and how often that is looked up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cmocka.h>

static int opens;

static int counted_open(const char *path, int flags)
{
	opens++;
	return open(path, flags);
}

#define open counted_open
#include "ffr/keeper/mounts.c"
#undef open

static const char *const proc[] = { "proc", NULL }, *const tmpfs[] = { "ext9", "tmpfs", NULL };

static dev_t dev_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_dev;
}

static void types_are_told(void **state)
{
	(void)state;
	assert_true(mounts_is(getpid(), dev_of("/proc/self/stat"), proc));
	assert_false(mounts_is(getpid(), dev_of("/proc/self/stat"), tmpfs));
	assert_false(mounts_is(getpid(), makedev(4000, 1), tmpfs));
	assert_false(mounts_is(0x7ffffff0, dev_of("/proc/self/stat"), proc));
}

static void a_call_reads_once(void **state)
{
	dev_t dev = dev_of("/proc/self/stat");

	(void)state;
	mounts_call_begins();
	opens = 0;
	for (int i = 0; i < 100; i++)
		assert_true(mounts_is(getpid(), dev, proc));
	assert_int_equal(opens, 1);
	assert_false(mounts_is(1, dev, proc)); /* another table is another reading */
	assert_int_equal(opens, 1);
	mounts_call_ends();
	assert_true(mounts_is(getpid(), dev, proc));
	mounts_call_ends();
}

static unsigned open_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* ... or it would keep a container's mounts after its end. */
static void nothing_is_kept_without_a_call(void **state)
{
	unsigned before;

	(void)state;
	before = open_fds();
	assert_true(mounts_is(getpid(), dev_of("/proc/self/stat"), proc));
	assert_int_equal(open_fds(), before);
	mounts_call_begins();
	assert_true(mounts_is(getpid(), dev_of("/proc/self/stat"), proc));
	mounts_call_ends();
	assert_int_equal(open_fds(), before);
}

/* What was kept is not believed after a change. */
static void changes_are_seen(void **state)
{
	char dir[] = "/tmp/test_mounts.XXXXXX";
	dev_t dev;

	(void)state;
	if (!mkdtemp(dir) || unshare(CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("t", dir, "tmpfs", 0, NULL)) {
		rmdir(dir);
		print_message("no mounts can be made here\n");
		skip();
	}
	dev = dev_of(dir);
	assert_true(mounts_is(getpid(), dev, tmpfs));
	assert_int_equal(umount(dir), 0);
	assert_false(mounts_is(getpid(), dev, tmpfs));
	mounts_call_begins();
	assert_int_equal(mount("t", dir, "tmpfs", 0, NULL), 0);
	dev = dev_of(dir);
	assert_true(mounts_is(getpid(), dev, tmpfs));
	assert_int_equal(umount(dir), 0);
	assert_false(mounts_is(getpid(), dev, tmpfs)); /* and is not read again */
	mounts_call_ends();
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(types_are_told),
		cmocka_unit_test(a_call_reads_once),
		cmocka_unit_test(nothing_is_kept_without_a_call),
		cmocka_unit_test(changes_are_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
