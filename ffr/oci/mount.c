/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mount.c - files of the host's into a container that is about to start: taken as detached trees where the host's
 * paths mean what they say, carried as descriptors into the container's mount namespace, and put onto
 * descriptors there. No path is resolved twice. What lies below the router's folder is the router's, a user of
 * its own that is attacked first: it is opened beneath that folder, over no link and no mount.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ffr/oci/oci.h"

int mount_take(int at, const char *path, bool read_only)
{
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_NOSUID |
			    (read_only ? MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV : 0),
		.propagation = 1 << 18, /* MS_PRIVATE */
	};
	long fd =
		syscall(SYS_open_tree, at, path,
			OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (syscall(SYS_mount_setattr, (int)fd, "", AT_EMPTY_PATH, &attr, sizeof(attr))) {
		err = -errno;
		close((int)fd);
	}
	return err ? err : (int)fd;
}

int mount_beneath(int at, const char *path)
{
	const struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
	};
	long fd = syscall(SYS_openat2, at, path, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

int mount_folder(const char *base, const char *name, char why[WHY_SZ])
{
	int at, all = -1, fd = -1;
	struct stat whole, one;
	const char *what = base;
	int err = 0;

	at = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (at < 0)
		err = -errno;
	if (!err) {
		what = "containers";
		all = mount_beneath(at, what);
		err = all < 0 ? all : 0;
	}
	if (!err) {
		what = name;
		fd = mount_beneath(all, what);
		err = fd < 0 ? fd : 0;
	}
	if (!err && (fstat(all, &whole) || fstat(fd, &one) || whole.st_uid != one.st_uid))
		err = -EPERM;
	if (err)
		snprintf(why, WHY_SZ, "the container's folder, %.200s/containers/%.64s: %.200s: %s",
			 base, name, what, strerror(-err));
	if (at >= 0)
		close(at);
	if (all >= 0)
		close(all);
	if (err && fd >= 0)
		close(fd);
	return err ? err : fd;
}

int mount_enter(pid_t pid)
{
	char path[64];
	int fd, err = 0;

	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (setns(fd, CLONE_NEWNS))
		err = -errno;
	close(fd);
	return err;
}

int mount_return(int host)
{
	return host < 0 || setns(host, CLONE_NEWNS) ? -1 : 0;
}

/* Docker takes the usual words for a mistake in its own mounts, and gives advice about them. */
const char *mount_why(int err)
{
	return err == -ENOTDIR ? "what is there is no folder" : strerror(-err);
}

int mount_put(int tree, int to)
{
	return syscall(SYS_move_mount, tree, "", to, "",
		       MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) ?
		       -errno :
		       0;
}
