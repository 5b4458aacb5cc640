/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mount.c - files of the host's into a container that is about to start: taken as detached trees where the host's
 * paths mean what they say, carried as descriptors into the container's mount namespace, and put onto
 * descriptors there. No path is resolved twice.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ffr/oci/oci.h"

int mount_take(const char *path, bool read_only)
{
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_NOSUID |
			    (read_only ? MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV : 0),
		.propagation = 1 << 18, /* MS_PRIVATE */
	};
	long fd = syscall(SYS_open_tree, AT_FDCWD, path,
			  OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (syscall(SYS_mount_setattr, (int)fd, "", AT_EMPTY_PATH, &attr, sizeof(attr))) {
		err = -errno;
		close((int)fd);
	}
	return err ? err : (int)fd;
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

int mount_put(int tree, int to)
{
	return syscall(SYS_move_mount, tree, "", to, "",
		       MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) ?
		       -errno :
		       0;
}
