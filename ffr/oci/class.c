/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * class.c - the device's classes in a container's /sys/class, where programs look for a NIC's.
 *
 * The kernel makes no folders in sysfs for us: on a host without RDMA modules there is no
 * /sys/class/infiniband that something could be mounted over. So a tmpfs is mounted over
 * /sys/class, with a folder for each class that was there, over which that class is mounted
 * again, and two folders for ours. What is in a class are links to /sys/devices, which is as it
 * was. (An overlay would do with one mount, but it remembers that a name was not there: an
 * interface that comes later could not be found.)
 *
 * /sys belongs to the container's sysfs, which the runtime has mounted; an image has nothing in
 * it. Where there is no sysfs, there is nothing to be done: the files are in /run/freeflow/sys.
 *
 * Tests: system/runtime_docker.sh
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "ffr/oci/oci.h"

#define SYS_CLASS   "sys/class"
#define CLASSES_MAX 512 /* a machine has some dozens */

const char *const oci_class[NUM_CLASSES] = { "infiniband", "infiniband_verbs" };

/* The classes of a container's sysfs, each a detached tree. */
struct classes {
	unsigned num;
	struct {
		char name[64];
		int tree;
	} of[CLASSES_MAX];
};

static bool is_ours(const char *name)
{
	for (int i = 0; i < NUM_CLASSES; i++)
		if (!strcmp(name, oci_class[i]))
			return true;
	return false;
}

static void classes_free(struct classes *c)
{
	for (unsigned i = 0; i < c->num; i++)
		close(c->of[i].tree);
	free(c);
}

/* All but ours. `fd` is /sys/class. 0 or -errno. */
static int classes_take(int fd, struct classes *c)
{
	int list = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), err = 0;
	DIR *d = list < 0 ? NULL : fdopendir(list);
	struct dirent *e;

	if (!d) {
		err = -errno;
		if (list >= 0)
			close(list);
		return err;
	}
	while (!err && (e = readdir(d))) {
		if (e->d_name[0] == '.' || is_ours(e->d_name))
			continue;
		if (c->num == CLASSES_MAX ||
		    (size_t)snprintf(c->of[c->num].name, sizeof(c->of[0].name), "%s", e->d_name) >=
			    sizeof(c->of[0].name)) {
			err = -E2BIG;
			break;
		}
		c->of[c->num].tree =
			(int)syscall(SYS_open_tree, fd, e->d_name,
				     OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
		if (c->of[c->num].tree >= 0)
			c->num++;
		else if (errno != ENOENT) /* a module that was just unloaded */
			err = -errno;
	}
	closedir(d);
	return err;
}

/* A tmpfs with an empty folder for each class. A detached mount, or -errno. */
static int tmpfs_new(const struct classes *c)
{
	int fs = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC), fd = -1, err = 0;

	if (fs < 0)
		return -errno;
	if (syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "mode", "0755", 0) ||
	    syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "size", "64k", 0) ||
	    syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) ||
	    (fd = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC,
			       MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)) < 0)
		err = -errno;
	close(fs);
	for (int i = 0; i < NUM_CLASSES && !err; i++)
		if (mkdirat(fd, oci_class[i], 0755))
			err = -errno;
	for (unsigned i = 0; i < c->num && !err; i++)
		if (mkdirat(fd, c->of[i].name, 0755))
			err = -errno;
	if (err && fd >= 0)
		close(fd);
	return err ? err : fd;
}

static int put_in(int at, const char *name, int tree)
{
	int to = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int err = to < 0 ? -errno : mount_put(tree, to);

	if (to >= 0)
		close(to);
	return err;
}

/* `fs` is mounted over /sys/class already. 0 or -errno. */
static int fill(int fs, const struct classes *c, const int trees[NUM_CLASSES])
{
	struct mount_attr ro = { .attr_set = MOUNT_ATTR_RDONLY };
	int err = 0;

	for (unsigned i = 0; i < c->num && !err; i++)
		err = put_in(fs, c->of[i].name, c->of[i].tree);
	for (int i = 0; i < NUM_CLASSES && !err; i++)
		err = put_in(fs, oci_class[i], trees[i]);
	if (!err && syscall(SYS_mount_setattr, fs, "", AT_EMPTY_PATH, &ro, sizeof(ro)))
		err = -errno;
	return err;
}

int class_put(int root, const int trees[NUM_CLASSES])
{
	int at = rootfs_open(root, SYS_CLASS, O_PATH | O_DIRECTORY), fs = -1, err = 0;
	struct classes *c;
	struct statfs st;

	if (at < 0)
		return at == -ENOENT ? 0 : at;
	c = calloc(1, sizeof(*c));
	if (!c)
		err = -ENOMEM;
	else if (fstatfs(at, &st))
		err = -errno;
	if (!err && st.f_type == SYSFS_MAGIC) {
		err = classes_take(at, c);
		if (!err) {
			fs = tmpfs_new(c);
			err = fs < 0 ? fs : mount_put(fs, at);
		}
		if (!err)
			err = fill(fs, c, trees);
	}
	if (c)
		classes_free(c);
	if (fs >= 0)
		close(fs);
	close(at);
	return err;
}
