/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* test_mounts.c - ffr/keeper/mounts.c: what a device is, and how often that is looked up. */
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "ffr/keeper/opener.h"
#include "tests/rig/unit/unit.h"

static int opens, changes; /* so many of the next tables change while they are read */
static char dir[] = "/tmp/test_mounts.XXXXXX";
static bool is_alone; /* in a mount namespace of its own */

static int counted_open(const char *path)
{
	int fd = opener_proc(path);

	opens++;
	if (changes > 0 && changes--)
		assert_int_equal(mount("t", dir, "tmpfs", 0, NULL) | umount(dir), 0);
	return fd;
}

#define opener_proc counted_open
#include "ffr/keeper/mounts.c"
#undef opener_proc

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

/* The keeper must not keep a container's mounts after its end. */
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

static void so_many_lines_are_kept(void **state)
{
	const struct mount m = { .type = "tmpfs" };

	(void)state;
	mounts_call_begins();
	for (unsigned i = 0; i < MOUNTS_NUM; i++)
		assert_true(keep(&m));
	assert_false(keep(&m));
	mounts_call_ends();
	assert_int_equal(kept.num, 0);
}

static void skip_unless_alone(void)
{
	if (is_alone)
		return;
	print_message("no mounts can be made here\n");
	skip();
}

/* A table that changes is read again; one that goes on changing is not believed. */
static void changes_while_it_is_read(void **state)
{
	dev_t dev = dev_of("/proc/self/stat");

	(void)state;
	skip_unless_alone();
	opens = 0;
	changes = 3;
	assert_true(mounts_is(getpid(), dev, proc));
	assert_int_equal(opens, 4);
	opens = 0;
	changes = 1000;
	assert_false(mounts_is(getpid(), dev, proc));
	assert_int_equal(opens, AGAIN_NUM + 1);
	changes = 0;
}

/* What was kept is not believed after a change. */
static void changes_are_seen(void **state)
{
	dev_t dev;

	(void)state;
	skip_unless_alone();
	assert_int_equal(mount("t", dir, "tmpfs", 0, NULL), 0);
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
}

/* Other programs of this machine mount and unmount, too. */
static int leave(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	is_alone = !unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
	return 0;
}

static int end(void **state)
{
	(void)state;
	return rmdir(dir);
}

int main(void)
{
	return UNIT_RUN_GROUP(leave, end, cmocka_unit_test(types_are_told),
			      cmocka_unit_test(a_call_reads_once),
			      cmocka_unit_test(nothing_is_kept_without_a_call),
			      cmocka_unit_test(so_many_lines_are_kept),
			      cmocka_unit_test(changes_while_it_is_read),
			      cmocka_unit_test(changes_are_seen));
}
