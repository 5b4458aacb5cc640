/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * classes.c - <runtime_dir>/class, a folder that can take the place of /sys/class in a container. Control thread;
 * made when the router starts, before its sandbox.
 *
 * The kernel makes no folder in sysfs for us, so on a host without RDMA modules `docker run --mount` finds nothing
 * below /sys/class to mount a container's device over (ff-hook can do more than a flag: ffr/oci/class.c). The flags
 * of ffctl mount this folder over /sys/class then, and the container's own over infiniband and infiniband_verbs,
 * which are empty here. Each other class is a folder of the same links to /sys/devices as the host's: a container has
 * the host's devices there, as in its own /sys/class.
 *
 * Network interfaces are the exception, because each container has its own. net leads to the virtual ones, among
 * which sysfs shows those of the container: veth, macvlan, ipvlan, lo. A network namespace with the host's physical
 * interfaces does not see them there.
 *
 * All containers share the folder and mount it for reading. A class or a device that comes later is missing until
 * the router starts again. Nothing is read but links: a file of a class can act when it is read
 * (zram-control/hot_add).
 *
 * Tests: test_container.c, system/delivery.sh
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ffr/ctl/container.h"
#include "ffr/ctl/sysfile.h"

#define NET_TARGET "../devices/virtual/net"

static DIR *list_open(int at, const char *name)
{
	int fd = openat(at, name, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_RDONLY);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d && fd >= 0)
		close(fd);
	return d;
}

/* The next name in a folder, without those that begin with a dot; NULL: no more. */
static const char *list_next(DIR *d)
{
	struct dirent *e;

	while ((e = readdir(d)))
		if (e->d_name[0] != '.')
			return e->d_name;
	return NULL;
}

/* Remove what is in `own` and not in `host`. */
static void remove_others(int own, int host)
{
	DIR *d = list_open(own, ".");
	const char *name;
	struct stat st;

	while (d && (name = list_next(d)))
		if (fstatat(host, name, &st, AT_SYMLINK_NOFOLLOW) && unlinkat(own, name, 0))
			sysfile_remove(own, name);
	if (d)
		closedir(d);
}

/* A class: the same links. 0 or -errno. */
static int class_copy(int own_fd, int host_fd, const char *class)
{
	DIR *d = list_open(host_fd, class);
	int own = sysfile_dir(own_fd, class), err = own < 0 ? own : 0;
	const char *name;

	while (d && !err && (name = list_next(d))) {
		char target[256];
		ssize_t n = readlinkat(dirfd(d), name, target, sizeof(target) - 1);

		if (n <= 0)
			continue; /* no link */
		target[n] = '\0';
		err = sysfile_link(own, name, target);
	}
	if (d && !err)
		remove_others(own, dirfd(d));
	if (d)
		closedir(d);
	if (own >= 0)
		close(own);
	return err;
}

/* The folder stays what it is, because containers mount it. 0 or -errno. */
static int classes_copy(int own, int host)
{
	static const char *const ours[] = { "infiniband", "infiniband_verbs" };
	DIR *d = list_open(host, ".");
	const char *name;
	int err = d ? 0 : -errno;

	while (d && !err && (name = list_next(d)))
		if (strncmp(name, ours[0], strlen(ours[0])) && strcmp(name, "net"))
			err = class_copy(own, host, name);
	if (d && !err)
		remove_others(own, host);
	if (d)
		closedir(d);
	for (unsigned i = 0; i < 2 && !err; i++) {
		int fd = sysfile_dir(own, ours[i]);

		err = fd < 0 ? fd : 0;
		if (fd >= 0)
			close(fd);
	}
	return err ? err : sysfile_link(own, "net", NET_TARGET);
}

int classes_make(const char *runtime_dir, const char *sys_class)
{
	int dir = open(runtime_dir, O_DIRECTORY | O_CLOEXEC | O_RDONLY);
	int host = open(sys_class, O_DIRECTORY | O_CLOEXEC | O_RDONLY);
	int own = -1, err = dir < 0 || host < 0 ? -errno : 0;

	if (!err) {
		own = sysfile_dir(dir, "class");
		err = own < 0 ? own : classes_copy(own, host);
	}
	if (own >= 0)
		close(own);
	if (host >= 0)
		close(host);
	if (dir >= 0)
		close(dir);
	return err;
}
